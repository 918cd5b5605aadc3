//! Codes of RISC-V's events, as register values.

use cyclometer_core::{CounterId, EventCode, Modes};

use super::{EVENT_BITS, FIRMWARE_SHIFT, MINH, OF, Register, SINH, UINH};
use crate::chip::{Coded, CounterOptions};
use crate::decoded_event::DecodedEvent;
use crate::error::EncodeError;
use crate::field::{flags, low_mask};
use crate::register::RegisterWrite;

/// The whole config of an event.
pub(crate) fn config(coded: &Coded) -> u64 {
    coded.config.unwrap_or(coded.code.select.into())
}

/// The write that counts an event on counter `n`, as the firmware makes it.
///
/// Machine mode is never counted.
///
/// # Source
///
/// OpenSBI `lib/sbi/sbi_pmu.c`, `pmu_ctr_enable_irq_hw`, `pmu_update_inhibit_flags`: MINH is set always.
pub(crate) fn program(coded: &Coded, n: u8, how: CounterOptions) -> Result<Vec<RegisterWrite>, EncodeError> {
    let config = config(coded);
    if config >> FIRMWARE_SHIFT != 0 || !(3..32).contains(&n) {
        return Err(EncodeError::NoRegister);
    }
    let greatest = low_mask(EVENT_BITS);
    if config > greatest {
        return Err(EncodeError::TooLarge { field: "event", value: config, greatest });
    }
    let flags = MINH | flags([(!how.modes.user, UINH), (!how.modes.kernel, SINH), (!how.interrupt, OF)]);
    Ok(vec![RegisterWrite::of(Register::EventSelect(n), config | flags, u64::MAX)?])
}

fn event(config: u64) -> DecodedEvent {
    DecodedEvent { config: Some(config), ..DecodedEvent::new(EventCode::default()) }
}

pub(crate) fn perf_events(config: u64) -> Vec<DecodedEvent> {
    vec![event(config)]
}

/// The events in a register's value.
pub(crate) fn events(register: Register, value: u64) -> Vec<DecodedEvent> {
    match register {
        Register::EventSelect(n) if value & low_mask(EVENT_BITS) != 0 => vec![DecodedEvent {
            counter: Some(CounterId::General(n)),
            modes: Some(Modes { user: value & UINH == 0, kernel: value & SINH == 0, hypervisor: false }),
            interrupt: Some(value & OF == 0),
            ..event(value & low_mask(EVENT_BITS))
        }],
        _ => Vec::new(),
    }
}
