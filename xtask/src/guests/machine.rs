//! The machines that are emulated.

use super::fetch::GuestKernel;

/// The purpose of a machine.
pub(super) struct GuestMachine {
    /// The name in the table, and on the kernel's command line.
    pub(super) name: &'static str,
    /// The name of a kind of machines for `cargo xtask guests`.
    pub(super) kind: &'static str,
    /// Whether the reduced form has it.
    pub(super) reduced: bool,
    pub(super) kernel: GuestKernel,
    pub(super) target: GuestTarget,
    /// Arguments of the emulator; the first is the program.
    pub(super) emulator: &'static [&'static str],
    /// Options of the plugin; `None` without it.
    pub(super) plugin: Option<&'static str>,
    pub(super) tree: DeviceTree,
    /// A kernel module of ours.
    pub(super) module: bool,
}

/// For which instruction set programs are built.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub(super) enum GuestTarget {
    Arm64,
    Riscv64,
    X86,
}

impl GuestTarget {
    /// Rust's name.
    pub(super) fn triple(self) -> &'static str {
        match self {
            Self::Arm64 => "aarch64-unknown-linux-gnu",
            Self::Riscv64 => "riscv64gc-unknown-linux-gnu",
            Self::X86 => "x86_64-unknown-linux-gnu",
        }
    }

    /// The compiler for C and assembly; the host's own for its instruction set.
    pub(super) fn compiler(self) -> &'static str {
        match self {
            Self::Arm64 => "aarch64-linux-gnu-gcc",
            Self::Riscv64 => "riscv64-linux-gnu-gcc",
            Self::X86 => "cc",
        }
    }

    /// The tool that takes debug information out of programs.
    pub(super) fn strip(self) -> &'static str {
        match self {
            Self::Arm64 => "aarch64-linux-gnu-strip",
            Self::Riscv64 => "riscv64-linux-gnu-strip",
            Self::X86 => "strip",
        }
    }

    /// Whether it is not the host's.
    pub(super) fn is_foreign(self) -> bool {
        self != Self::X86
    }

    fn console(self) -> &'static str {
        match self {
            Self::Arm64 => "ttyAMA0",
            _ => "ttyS0",
        }
    }
}

/// Where the device tree comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DeviceTree {
    /// The emulator, or there is none.
    Own,
    /// The emulator, and it claims to be Apple's.
    Apple,
    /// `tests/guests/hybrid.dts`.
    Hybrid,
}

/// How long an emulated machine may take unless another limit is given, in s. On two busy CPUs they took 3 to
/// 40 s.
pub(super) const LIMIT_S: u64 = 240;

const PLAIN: GuestMachine = GuestMachine {
    name: "",
    kind: "",
    reduced: false,
    kernel: GuestKernel::Arm64,
    target: GuestTarget::Arm64,
    emulator: &[],
    plugin: None,
    tree: DeviceTree::Own,
    module: false,
};

const X86: GuestMachine = GuestMachine { kernel: GuestKernel::X86, target: GuestTarget::X86, ..PLAIN };

const APPLE: GuestMachine =
    GuestMachine { kind: "apple", kernel: GuestKernel::Arm64With16KPages, module: true, ..PLAIN };

/// Every machine, in the order of the table.
pub(super) const MACHINES: &[GuestMachine] = &[
    GuestMachine {
        name: "arm64",
        kind: "arm64",
        reduced: true,
        emulator: &["qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a72", "-icount", "shift=1"],
        ..PLAIN
    },
    GuestMachine {
        name: "arm64-nopmu",
        kind: "arm64",
        emulator: &["qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a72,pmu=off"],
        ..PLAIN
    },
    GuestMachine {
        name: "arm64-hybrid",
        kind: "arm64-hybrid",
        emulator: &[
            "qemu-system-aarch64",
            "-M",
            "virt,gic-version=3",
            "-cpu",
            "cortex-a72",
            "-smp",
            "2",
            "-icount",
            "shift=1",
        ],
        tree: DeviceTree::Hybrid,
        ..PLAIN
    },
    GuestMachine {
        name: "riscv64",
        kind: "riscv64",
        reduced: true,
        kernel: GuestKernel::Riscv64,
        target: GuestTarget::Riscv64,
        emulator: &["qemu-system-riscv64", "-M", "virt", "-cpu", "rv64,sscofpmf=on", "-icount", "shift=1"],
        ..PLAIN
    },
    GuestMachine {
        name: "riscv64-nofilter",
        kind: "riscv64",
        kernel: GuestKernel::Riscv64,
        target: GuestTarget::Riscv64,
        emulator: &["qemu-system-riscv64", "-M", "virt", "-cpu", "rv64,sscofpmf=off", "-icount", "shift=1"],
        ..PLAIN
    },
    GuestMachine {
        name: "x86",
        kind: "x86",
        reduced: true,
        emulator: &["qemu-system-x86_64", "-accel", "tcg", "-cpu", "Skylake-Client"],
        plugin: Some("pmu=intel"),
        ..X86
    },
    GuestMachine {
        name: "x86-two",
        kind: "x86",
        emulator: &["qemu-system-x86_64", "-accel", "tcg", "-cpu", "Skylake-Client", "-smp", "2"],
        plugin: Some("pmu=intel"),
        ..X86
    },
    GuestMachine {
        name: "x86-nopmu",
        kind: "x86",
        reduced: true,
        emulator: &["qemu-system-x86_64", "-accel", "tcg", "-cpu", "Skylake-Client"],
        ..X86
    },
    GuestMachine {
        name: "x86-vanishing",
        kind: "x86",
        emulator: &["qemu-system-x86_64", "-accel", "tcg", "-cpu", "Skylake-Client"],
        plugin: Some("pmu=claim"),
        ..X86
    },
    GuestMachine {
        name: "x86-amd",
        kind: "x86-amd",
        emulator: &["qemu-system-x86_64", "-accel", "tcg", "-cpu", "EPYC"],
        plugin: Some("pmu=amd"),
        ..X86
    },
    GuestMachine {
        name: "x86-hybrid",
        kind: "x86-hybrid",
        emulator: &[
            "qemu-system-x86_64",
            "-accel",
            "tcg",
            "-cpu",
            "Skylake-Client,model=151,level=0x1f",
            "-smp",
            "2",
        ],
        plugin: Some("pmu=hybrid"),
        ..X86
    },
    GuestMachine {
        name: "apple",
        reduced: true,
        emulator: &[
            "qemu-system-aarch64",
            "-M",
            "virt,gic-version=3,virtualization=on",
            "-cpu",
            "max,pauth-impdef=on,midr=0x611f0221",
            "-smp",
            "2",
        ],
        plugin: Some("pmu=apple"),
        tree: DeviceTree::Apple,
        ..APPLE
    },
    GuestMachine {
        name: "apple-vm",
        reduced: true,
        emulator: &[
            "qemu-system-aarch64",
            "-M",
            "virt,gic-version=3",
            "-cpu",
            "max,pauth-impdef=on,midr=0x611f0221",
        ],
        ..APPLE
    },
    GuestMachine {
        name: "apple-other-core",
        emulator: &[
            "qemu-system-aarch64",
            "-M",
            "virt,gic-version=3,virtualization=on",
            "-cpu",
            "max,pauth-impdef=on",
        ],
        tree: DeviceTree::Apple,
        ..APPLE
    },
];

impl GuestMachine {
    /// The kernel's command line.
    pub(super) fn command_line(&self) -> String {
        format!("console={} panic=-1 quiet machine={}", self.target.console(), self.name)
    }
}

/// The machines of some kinds, or all of them.
pub(super) fn of_kinds(kinds: &[String], reduced: bool) -> Result<Vec<&'static GuestMachine>, String> {
    for kind in kinds {
        if !MACHINES.iter().any(|machine| machine.kind == kind) {
            return Err(format!("{kind} is no kind of machine; there are {}", all_kinds().join(", ")));
        }
    }
    let wanted = |machine: &&GuestMachine| {
        (!reduced || machine.reduced) && (kinds.is_empty() || kinds.iter().any(|kind| kind == machine.kind))
    };
    Ok(MACHINES.iter().filter(wanted).collect())
}

fn all_kinds() -> Vec<&'static str> {
    let mut kinds: Vec<&str> = MACHINES.iter().map(|machine| machine.kind).collect();
    kinds.dedup();
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(kinds: &[&str], reduced: bool) -> Vec<&'static str> {
        let kinds: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        of_kinds(&kinds, reduced).unwrap().iter().map(|machine| machine.name).collect()
    }

    #[test]
    fn a_kind_names_its_machines_and_an_unknown_one_those_that_there_are() {
        assert_eq!(names(&["arm64"], false), ["arm64", "arm64-nopmu"]);
        assert_eq!(names(&[], true), ["arm64", "riscv64", "x86", "x86-nopmu", "apple", "apple-vm"]);
        assert_eq!(names(&[], false).len(), MACHINES.len());
        let error = of_kinds(&["sparc".to_owned()], false).err().unwrap();
        assert_eq!(
            error,
            "sparc is no kind of machine; there are arm64, arm64-hybrid, riscv64, x86, x86-amd, x86-hybrid, apple"
        );
    }
}
