//! Ways to give a virtual machine a PMU, by hypervisor.

/// The remedy on one hypervisor.
struct Remedy {
    /// A word in the hypervisor's name; the first remedy that fits wins.
    word: &'static str,
    /// The explanation, for people.
    advice: &'static str,
    /// The remedy; `None` when there is none.
    mend: Option<&'static str>,
}

/// By hypervisor, places before products.
///
/// # Source
///
/// QEMU `docs/system/i386/cpu` (`pmu`); VMware "Enable Virtual CPU Performance Counters" (`vpmc.enable`);
/// Microsoft "Enable Intel Performance Monitoring Hardware in a Hyper-V virtual machine"
/// (`Set-VMProcessor`), WSL release notes (`hardwarePerformanceCounters`); Xen command line (`vpmu`);
/// Firecracker's CPU templates, which clear `CPUID` 0xA.
const REMEDIES: &[Remedy] = &[
    Remedy {
        word: "Firecracker",
        advice: "Firecracker provides no virtual PMU; software events and OS counts work",
        mend: None,
    },
    Remedy {
        word: "Amazon EC2",
        advice: "this instance type passes no PMU on",
        mend: Some("use a bare-metal instance (a type that ends in .metal)"),
    },
    Remedy {
        word: "Google",
        advice: "this machine type passes no PMU on",
        mend: Some("use a bare-metal machine type (one that ends in -metal)"),
    },
    Remedy { word: "Azure", advice: "this machine size passes no PMU on", mend: None },
    Remedy {
        word: "WSL",
        advice: "WSL passes the PMU on where Windows and the CPU allow it",
        mend: Some(
            "in %UserProfile%\\.wslconfig, section [wsl2], set hardwarePerformanceCounters=true; wsl --shutdown",
        ),
    },
    Remedy {
        word: "Hyper-V",
        advice: "the PMU is off in the settings of the virtual machine",
        mend: Some("Set-VMProcessor -VMName NAME -Perfmon @(\"pmu\")   (on the host, machine off)"),
    },
    Remedy {
        word: "VMware",
        advice: "virtual CPU performance counters are off",
        mend: Some("vpmc.enable = \"TRUE\"   (in the machine's .vmx file, machine off)"),
    },
    Remedy {
        word: "TCG",
        advice: "emulation has no PMU",
        mend: Some("run the machine under KVM: qemu-system-x86_64 -accel kvm -cpu host,pmu=on"),
    },
    Remedy { word: "VirtualBox", advice: "VirtualBox provides no virtual PMU", mend: None },
    Remedy { word: "Apple Virtualization", advice: "Apple's framework provides no virtual PMU", mend: None },
    Remedy {
        word: "Xen",
        advice: "Xen's virtual PMU is off",
        mend: Some("boot the hypervisor with vpmu=on"),
    },
    Remedy {
        word: "QEMU",
        advice: "the host does not pass a PMU on",
        mend: Some("on the host: -accel kvm -cpu host,pmu=on   (libvirt: <feature><pmu state='on'/>)"),
    },
    Remedy {
        word: "KVM",
        advice: "the host passes no PMU on (QEMU would with -cpu host,pmu=on; other monitors may not provide one)",
        mend: None,
    },
];

/// The explanation and the remedy on a hypervisor, by its name.
pub(super) fn remedy(hypervisor: &str) -> (&'static str, Option<&'static str>) {
    let found = REMEDIES.iter().find(|remedy| hypervisor.contains(remedy.word));
    found.map_or(("it passes no PMU on", None), |remedy| (remedy.advice, remedy.mend))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_goes_before_the_product() {
        assert_eq!(remedy("Firecracker on KVM").1, None);
        assert!(remedy("Amazon EC2 on KVM").1.unwrap().contains(".metal"));
        assert!(remedy("WSL on Microsoft Hyper-V").1.unwrap().contains(".wslconfig"));
        assert!(remedy("Microsoft Hyper-V").1.unwrap().contains("Set-VMProcessor"));
        assert!(remedy("QEMU on KVM").1.unwrap().contains("pmu=on"));
        assert_eq!(remedy("KVM").1, None);
        assert_eq!(remedy("AAAA").1, None);
    }
}
