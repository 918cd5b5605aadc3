//! Events in the values of registers.

use cyclometer_core::{CounterId, EventCode, Modes};

/// An event that a value names by its code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecodedEvent {
    /// The counter that it is counted on; `None` where the value leaves that open, and for a counter that
    /// exists with Hyper-Threading off only.
    pub counter: Option<CounterId>,
    /// Its code, as tables have it. A fixed event of Intel has the pseudo code: select 0, unit mask index +
    /// 1; one of Apple has none, the counter says which it is; one of RISC-V has none, the config is the
    /// event.
    pub code: EventCode,
    /// The whole config of perf, where tables have that instead of a code: RISC-V's events, and the one event
    /// of Intel that shares its pseudo code with another.
    pub config: Option<u64>,
    /// The modes in which it counts, where the value says so.
    pub modes: Option<Modes>,
    /// Whether the counter is enabled, as far as this register says.
    pub enabled: Option<bool>,
    /// Whether an overflow interrupts, where the value says so.
    pub interrupt: Option<bool>,
}

impl DecodedEvent {
    pub(crate) const fn new(code: EventCode) -> DecodedEvent {
        DecodedEvent { counter: None, code, config: None, modes: None, enabled: None, interrupt: None }
    }
}
