//! The operations on numbered counters: configure, enable, disable, read, reset.

use std::ffi::{c_char, c_int, c_uint};

use cyclometer_toolkit::{Count, Error, Result, core::Unit};

use crate::counts::{cyclometer_count_state_t, cyclometer_count_t, status_of};
use crate::monitor::{ConfiguredCounter, MonitorState, cyclometer_t, with_monitor};
use crate::pointers::{invalid, put, put_sized, text, writable};
use cyclometer_toolkit::core::MissingReason;

/// Number of counters of a monitor. The operating system chooses the hardware's counters for them.
pub(crate) const COUNTERS: u32 = 64;

impl MonitorState {
    fn slot(&mut self, counter: u32) -> Result<&mut ConfiguredCounter> {
        check_number(counter)?;
        self.slots.get_mut(&counter).ok_or_else(|| {
            invalid(format!("counter {counter} is not configured"), "call cyclometer_configure for it first")
        })
    }

    fn enable(&mut self, counter: u32) -> Result<()> {
        if self.slot(counter)?.open.is_some() {
            return Err(already(counter, "enabled", "disable it first"));
        }
        let begun = self.monitor()?.begin(&label(counter));
        self.slot(counter)?.open = Some(begun);
        Ok(())
    }

    fn disable(&mut self, counter: u32) -> Result<()> {
        let slot = self.slot(counter)?;
        let Some(open) = &mut slot.open else {
            return Err(already(counter, "disabled", "enable it first"));
        };
        open.stop()?;
        slot.open = None;
        Ok(())
    }

    fn reset(&mut self, counter: u32) -> Result<()> {
        let goes_on = self.slot(counter)?.open.is_some();
        if goes_on {
            self.disable(counter)?;
        }
        if let Some(monitor) = self.built() {
            monitor.reset_label(&label(counter));
        }
        if goes_on { self.enable(counter) } else { Ok(()) }
    }

    /// The count of a counter while it was enabled.
    pub(crate) fn read(&mut self, counter: u32) -> Result<cyclometer_toolkit::Value> {
        let measured = match &self.slot(counter)?.open {
            Some(open) => Some(open.so_far()?),
            None => self.built().and_then(|monitor| monitor.total(&label(counter))),
        };
        let at = self.slots.range(..counter).count();
        let value =
            measured.filter(|measured| measured.calls > 0).and_then(|all| all.values.into_iter().nth(at));
        value.map_or_else(|| self.never_enabled(counter), Ok)
    }

    /// The value of a counter that was never enabled.
    fn never_enabled(&mut self, counter: u32) -> Result<cyclometer_toolkit::Value> {
        let event = self.slot(counter)?.event.clone();
        let reason = MissingReason::NotEnabled { counter };
        Ok(cyclometer_toolkit::Value {
            name: event.clone(),
            event,
            count: Count::NotCounted { reason },
            net: None,
            scale: 1.0,
            unit: Unit::Count,
            provenance: None,
            rung: None,
            scope: cyclometer_toolkit::Scope::Thread,
            modes: None,
            notes: Vec::new(),
        })
    }
}

fn check_number(counter: u32) -> Result<()> {
    match counter < COUNTERS {
        true => Ok(()),
        false => Err(invalid(
            format!("there is no counter {counter}"),
            format!("counters are 0 to {}", COUNTERS - 1),
        )),
    }
}

pub(crate) fn configure_counter(monitor: &cyclometer_t, counter: u32, event: &str) -> Result<c_int> {
    check_number(counter)?;
    monitor.state().configure(counter, event)?;
    Ok(0)
}

fn already(counter: u32, what: &str, hint: &str) -> Error {
    invalid(format!("counter {counter} is {what} already"), hint)
}

/// The label of a counter's regions, which no label of a C program can be.
fn label(counter: u32) -> String {
    format!("\0counter {counter}")
}

/// Assigns an event to counter number `counter` (0 to 63), in every spelling of `cyclometer stat -e`. The
/// counts of all counters of the monitor are reset. An event that exists and cannot be counted here is no
/// error: a read of it returns the reason. A call while anything is counting is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_configure(
    monitor: *mut cyclometer_t,
    counter: c_uint,
    event: *const c_char,
) -> c_int {
    let body = |monitor: &cyclometer_t| {
        // SAFETY: the caller promises a text.
        let event = unsafe { text(event, "the event") }?;
        configure_counter(monitor, counter, event)
    };
    // SAFETY: the caller's promise is that of `with_monitor`.
    unsafe { with_monitor(monitor, body) }
}

/// Enables a counter, which goes on from its earlier count. Where the scope is a thread, it counts the
/// calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_enable(monitor: *mut cyclometer_t, counter: c_uint) -> c_int {
    // SAFETY: the caller's promise is that of `with_monitor`.
    unsafe { with_monitor(monitor, |monitor| monitor.state().enable(counter).map(|()| 0)) }
}

/// Disables a counter, which keeps its value. The caller must be the thread that enabled it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_disable(monitor: *mut cyclometer_t, counter: c_uint) -> c_int {
    // SAFETY: the caller's promise is that of `with_monitor`.
    unsafe { with_monitor(monitor, |monitor| monitor.state().disable(counter).map(|()| 0)) }
}

/// Resets the count of a counter. An enabled counter goes on from zero; the caller must then be the thread
/// that enabled it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_reset(monitor: *mut cyclometer_t, counter: c_uint) -> c_int {
    // SAFETY: the caller's promise is that of `with_monitor`.
    unsafe { with_monitor(monitor, |monitor| monitor.state().reset(counter).map(|()| 0)) }
}

/// Reads the raw count of a counter for the time that it was enabled. While it is enabled, the caller must be
/// the thread that enabled it.
///
/// `CYCLOMETER_SUCCESS` means exact. `CYCLOMETER_SCALED` and `CYCLOMETER_PARTIAL` come with a value as well.
/// A counter without a count is an error, and no value is written: `CYCLOMETER_ERR_EVENT_UNSUPPORTED`,
/// `CYCLOMETER_ERR_NOT_COUNTED` or `CYCLOMETER_ERR_STATE_LOST`. `cyclometer_message` returns the reason.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_read(
    monitor: *mut cyclometer_t,
    counter: c_uint,
    value: *mut u64,
) -> c_int {
    let body = |monitor: &cyclometer_t| {
        writable(value, "the place for the value")?;
        let read = monitor.state().read(counter)?;
        if let Some(reason) = read.reason() {
            monitor
                .messages
                .keep(format!("{}: {reason}", read.name), "cyclometer_ladder tells what was tried");
        }
        if let Some(raw) = read.count.value() {
            // SAFETY: the caller promises that a number can be written there.
            unsafe { put(value, raw, "the place for the value") }?;
        }
        Ok(status_of(&read.count) as c_int)
    };
    // SAFETY: the caller's promise is that of `with_monitor`.
    unsafe { with_monitor(monitor, body) }
}

/// Reads the counters 0 to `length - 1` into an array whose elements have `size` bytes each:
/// `sizeof(cyclometer_count_t)`. Each element has a state; that of a counter that is not configured is
/// `CYCLOMETER_COUNT_NONE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_read_all(
    monitor: *mut cyclometer_t,
    counts: *mut cyclometer_count_t,
    length: c_uint,
    size: usize,
) -> c_int {
    let body = |monitor: &cyclometer_t| {
        writable(counts, "the array of counts")?;
        let mut state = monitor.state();
        let counter = |counter| match state.slots.contains_key(&counter) {
            true => state.read(counter).map(|value| cyclometer_count_t::of(&value)),
            false => Ok(cyclometer_count_t::without(cyclometer_count_state_t::CYCLOMETER_COUNT_NONE)),
        };
        let read: Vec<cyclometer_count_t> = (0..length.min(COUNTERS)).map(counter).collect::<Result<_>>()?;
        let none = cyclometer_count_t::without(cyclometer_count_state_t::CYCLOMETER_COUNT_NONE);
        let all = read.into_iter().chain(std::iter::repeat(none)).take(length as usize);
        for (i, count) in all.enumerate() {
            // SAFETY: `i` is less than `length`, and the caller promises that many elements of `size` bytes.
            let place = unsafe { counts.byte_add(i * size) };
            // SAFETY: see above.
            unsafe { put_sized(place, size, count, "an element of the array") }?;
        }
        Ok(0)
    };
    // SAFETY: the caller's promise is that of `with_monitor`.
    unsafe { with_monitor(monitor, body) }
}
