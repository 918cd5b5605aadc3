//! Counters read in user space, with a kernel that permits it.

use std::fs;

use anyhow::{Context, Result};

use crate::cases::Cases;
use crate::perf::{self, Pmu};
use crate::regions::too_many;
use crate::system::{Finished, Who, run, sysctl};

/// How a machine permits programs to read counters.
pub(crate) struct Reads {
    pmu: &'static Pmu,
    /// The kernel's setting.
    setting: &'static str,
    /// The reason in the report when the setting is off.
    reason: &'static str,
    /// The initial value of the setting.
    on: &'static str,
    /// Whether counters have 32 bits.
    narrow: bool,
    /// The ways in which a program may end that reads while root turns that off: by the signal of an access
    /// that is withdrawn between the look at the page and the instruction, or with exact counts (0).
    ended: &'static [i32],
}

/// By `SIGILL`, and by `SIGSEGV`.
const ILLEGAL: i32 = 128 + 4;
const FAULT: i32 = 128 + 11;

const SYSCTL: &str = "/proc/sys/kernel/perf_user_access";
const RDPMC: &str = "/sys/bus/event_source/devices/cpu/rdpmc";

const PLAIN: Reads = Reads {
    pmu: &perf::X86,
    setting: RDPMC,
    reason: "the kernel's setting rdpmc is 0",
    on: "1",
    narrow: false,
    ended: &[FAULT],
};

/// PMUv3 of an Armv8.0: `mrs`.
///
/// The write to the sysctl takes the access away on each CPU, and leaves the events' pages as they are. The
/// next start of the event, as after a context switch, updates its page, which then says that there is no
/// counter to read (`arch/arm64/kernel/perf_event.c`, `armv8pmu_user_event_idx`). Then the program asks the
/// kernel, and its counts are exact.
pub(crate) const ARM64: Reads = Reads {
    pmu: &perf::ARM64,
    setting: SYSCTL,
    reason: "kernel.perf_user_access is 0",
    narrow: true,
    ended: &[ILLEGAL, 0],
    ..PLAIN
};

/// `csrr` of `cycle` and `instret`.
///
/// The write to the sysctl takes the access away on each CPU, and the next start of the event, as after a
/// context switch, gives it back, because the event was opened with it (`drivers/perf/riscv_pmu_sbi.c`,
/// `pmu_sbi_set_scounteren` in `pmu_sbi_ctr_start`). Then the program goes on, and its counts are exact.
pub(crate) const RISCV64: Reads = Reads { narrow: false, pmu: &perf::RISCV64, ..ARM64 };

/// `rdpmc`, of general and fixed counters.
pub(crate) const X86: Reads = PLAIN;

/// `rdpmc`.
pub(crate) const X86_AMD: Reads = Reads { pmu: &perf::X86_AMD, ..PLAIN };

/// Every case. A program that executes a forbidden instruction ends with a signal.
pub(crate) fn cases(cases: &mut Cases, reads: &Reads) {
    cases.case("with reads in user space off, regions are counted by the kernel, and say so", || {
        reads.set("0")?;
        regions(&["asked", reads.reason])
    });
    cases.case("with reads in user space off and nobody looking at that, the page says no", || {
        regions(&["page"])
    });
    cases.case("regions read in user space are the known number, as those read by the kernel", || {
        reads.set(reads.on)?;
        regions(&["exact"])
    });
    cases.case("recipes of kernels execute as many instructions as they say", || {
        let finished = ran(Who::Root, &["recipes"])?;
        finished.out.lines().for_each(|line| println!("recipes: {line}"));
        Ok(())
    });
    cases.case("a group read in user space is of one moment", || regions(&["group"]));
    cases.case("a read in user space asks the kernel nothing", || {
        let finished = ran(Who::Root, &["silent"])?;
        finished.out.lines().for_each(|line| println!("reads: {line}"));
        Ok(())
    });
    cases.case("after a fork parent and child read counters of their own", || regions(&["forked"]));
    cases.case("an ordinary user reads in user space", || {
        sysctl("kernel/perf_event_paranoid", "2")?;
        ran(Who::User, &["exact"]).map(drop)
    });
    if reads.narrow {
        cases.case("a counter that overflows within a region is the known number", || regions(&["wide"]));
    }
    if !reads.pmu.many.is_empty() {
        cases.case("events that take turns are asked of the kernel while they are on no counter", || {
            regions(&["turns", &too_many(reads.pmu)])
        });
    }
    cases.case("a program that reads while root turns that off ends as the documentation says", || {
        let finished = run(Who::Root, "/init", &["regions", "switched", reads.setting]);
        reads.set(reads.on)?;
        finished?.expect_one_of(reads.ended).map(drop)
    });
}

/// A thread that may move to another CPU.
pub(crate) fn on_two_cpus(cases: &mut Cases) {
    cases.case("a region that moves between CPUs is the known number", || {
        let finished = ran(Who::Root, &["migrated"])?;
        finished.out.lines().for_each(|line| println!("reads: {line}"));
        Ok(())
    });
    cases.case("a read in user space asks the kernel nothing", || regions(&["silent"]));
}

/// A thread that may move to a CPU with other counters.
pub(crate) fn of_a_hybrid(cases: &mut Cases) {
    cases.case("on a hybrid regions are read by the kernel, and say so", || regions(&["hybrid"]));
}

/// A machine without a counter to read.
pub(crate) fn without_a_pmu(cases: &mut Cases) {
    cases.case("a region without a PMU is no number, and nothing faults", || regions(&["nothing"]));
}

impl Reads {
    fn set(&self, value: &str) -> Result<()> {
        fs::write(self.setting, value).with_context(|| format!("setting {} to {value}", self.setting))
    }
}

fn regions(args: &[&str]) -> Result<()> {
    ran(Who::Root, args).map(drop)
}

fn ran(who: Who, args: &[&str]) -> Result<Finished> {
    run(who, "/init", &[&["regions"], args].concat())?.expect(0)
}
