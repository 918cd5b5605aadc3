//! Common parts of the event selects of Intel and AMD.

use cyclometer_core::{CounterId, EventCode, Modes};

use crate::chip::CounterOptions;
use crate::decoded_event::DecodedEvent;
use crate::field::{FieldSpec, flags};

/// Bit of an event select: count in user mode.
///
/// # Source
///
/// Intel SDM volume 3, figure "Layout of IA32_PERFEVTSELx MSRs"; AMD APM volume 2, PerfEvtSeln and PERF_CTLn;
/// Linux `arch/x86/include/asm/perf_event.h`, `ARCH_PERFMON_EVENTSEL_*`; as for the bits that follow.
pub const USR: u64 = 1 << 16;
/// Bit of an event select: count in the kernel.
///
/// # Source
///
/// As [`USR`].
pub const OS: u64 = 1 << 17;
/// Bit of an event select: count rising edges.
///
/// # Source
///
/// As [`USR`].
pub const EDGE: u64 = 1 << 18;
/// Bit of an event select: interrupt at an overflow.
///
/// # Source
///
/// As [`USR`].
pub const INT: u64 = 1 << 20;
/// Bit of an event select: the counter is enabled.
///
/// # Source
///
/// As [`USR`].
pub const EN: u64 = 1 << 22;
/// Bit of an event select: invert the comparison with the counter mask.
///
/// # Source
///
/// As [`USR`].
pub const INV: u64 = 1 << 23;
/// The lowest bit of the counter mask in an event select.
///
/// # Source
///
/// As [`USR`].
pub const CMASK_SHIFT: u32 = 24;

pub(crate) const UMASK_FIELD: FieldSpec = FieldSpec::bits(8, 15, "UMASK", "unit mask").always();
pub(crate) const USR_FIELD: FieldSpec = FieldSpec::bit(16, "USR", "counts in user mode");
pub(crate) const OS_FIELD: FieldSpec = FieldSpec::bit(17, "OS", "counts in the kernel");
pub(crate) const INT_FIELD: FieldSpec = FieldSpec::bit(20, "INT", "an overflow raises an interrupt");
pub(crate) const EN_FIELD: FieldSpec = FieldSpec::bit(22, "EN", "the counter is enabled");
pub(crate) const INV_FIELD: FieldSpec = FieldSpec::bit(23, "INV", "inverts the comparison with CMASK");
pub(crate) const CMASK_FIELD: FieldSpec =
    FieldSpec::bits(24, 31, "CMASK", "counts cycles with at least this many events (fewer with INV)");

/// Bits of an event select that perf's raw config has, too, and that the kernel does not take from there.
pub(crate) const NOT_PERFS: [FieldSpec; 4] = [
    FieldSpec::bit(16, "USR", "perf takes modes from exclude_user").ignored(),
    FieldSpec::bit(17, "OS", "perf takes modes from exclude_kernel").ignored(),
    FieldSpec::bit(20, "INT", "perf sets it itself").ignored(),
    FieldSpec::bit(22, "EN", "perf sets it itself").ignored(),
];

/// The first bits of DebugCtl.
pub(crate) const DEBUG_CONTROL: [FieldSpec; 3] = [
    FieldSpec::bit(0, "LBR", "branches are recorded"),
    FieldSpec::bit(1, "BTF", "single steps go from branch to branch"),
    FieldSpec::bit(2, "BLD", "a bus lock raises a debug exception")
        .needing("bus lock detection (CPUID 7 ECX bit 24)")
        .by("Linux arch/x86/include/asm/msr-index.h, DEBUGCTLMSR_BUS_LOCK_DETECT"),
];

/// A code without what only one vendor has: the lower eight bits of the select, unit mask, counter mask,
/// edge, inversion.
pub(crate) fn select_bits(code: &EventCode) -> u64 {
    let flags = flags([(code.edge, EDGE), (code.inv, INV)]);
    u64::from(code.select & 0xff) | u64::from(code.umask) << 8 | flags | u64::from(code.cmask) << CMASK_SHIFT
}

/// The same back from an event select or a raw config.
pub(crate) fn code(value: u64) -> EventCode {
    EventCode {
        select: (value & 0xff) as u16,
        umask: (value >> 8) as u8,
        cmask: (value >> CMASK_SHIFT) as u8,
        inv: value & INV != 0,
        edge: value & EDGE != 0,
        ..EventCode::default()
    }
}

/// The bits of an event select that say how an event is counted.
pub(crate) fn mode_bits(how: CounterOptions) -> u64 {
    flags([(how.modes.user, USR), (how.modes.kernel, OS), (how.interrupt, INT)])
}

/// The event in an event select's value.
pub(crate) fn event(code: EventCode, counter: Option<CounterId>, value: u64) -> DecodedEvent {
    DecodedEvent {
        counter,
        modes: Some(Modes { user: value & USR != 0, kernel: value & OS != 0, hypervisor: false }),
        enabled: Some(value & EN != 0),
        interrupt: Some(value & INT != 0),
        ..DecodedEvent::new(code)
    }
}
