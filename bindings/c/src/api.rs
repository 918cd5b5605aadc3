//! The operations on numbered counters as one structure of functions: the unified interface.
//!
//! The functions are those of the header, so a monitor may be used by both. The structure is for programs
//! that choose between implementations at run time, and for tests that substitute their own.

use std::ffi::{c_int, c_uint};

use cyclometer_toolkit::Result;

use crate::counters::{
    COUNTERS, configure_counter, cyclometer_disable, cyclometer_enable, cyclometer_read, cyclometer_reset,
};
use crate::counts::status_of;
use crate::info::{cyclometer_capabilities, cyclometer_capabilities_t};
use crate::monitor::{cyclometer_close, cyclometer_open, cyclometer_t, with_monitor};
use crate::pointers::{invalid, put, writable};
use crate::status::cyclometer_status_t;

/// Events that most CPUs have, by number, for `configure_counter`. The numbers never change.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum cyclometer_event_t {
    /// `cpu_cycles`.
    CYCLOMETER_EVENT_CPU_CYCLES = 0,
    /// `instructions`.
    CYCLOMETER_EVENT_INSTRUCTIONS = 1,
    /// `l1d_cache_loads`.
    CYCLOMETER_EVENT_L1D_CACHE_LOADS = 2,
    /// `l1d_cache_misses`.
    CYCLOMETER_EVENT_L1D_CACHE_MISSES = 3,
    /// `l2_cache_loads`.
    CYCLOMETER_EVENT_L2_CACHE_LOADS = 4,
    /// `l2_cache_misses`.
    CYCLOMETER_EVENT_L2_CACHE_MISSES = 5,
    /// `branch_instructions`.
    CYCLOMETER_EVENT_BRANCH_INSTRUCTIONS = 6,
    /// `branch_misses`.
    CYCLOMETER_EVENT_BRANCH_MISSES = 7,
}

/// The portable name of each event that has a number.
const EVENTS: [(cyclometer_event_t, &str); 8] = [
    (cyclometer_event_t::CYCLOMETER_EVENT_CPU_CYCLES, "cpu_cycles"),
    (cyclometer_event_t::CYCLOMETER_EVENT_INSTRUCTIONS, "instructions"),
    (cyclometer_event_t::CYCLOMETER_EVENT_L1D_CACHE_LOADS, "l1d_cache_loads"),
    (cyclometer_event_t::CYCLOMETER_EVENT_L1D_CACHE_MISSES, "l1d_cache_misses"),
    (cyclometer_event_t::CYCLOMETER_EVENT_L2_CACHE_LOADS, "l2_cache_loads"),
    (cyclometer_event_t::CYCLOMETER_EVENT_L2_CACHE_MISSES, "l2_cache_misses"),
    (cyclometer_event_t::CYCLOMETER_EVENT_BRANCH_INSTRUCTIONS, "branch_instructions"),
    (cyclometer_event_t::CYCLOMETER_EVENT_BRANCH_MISSES, "branch_misses"),
];

/// The name of the event with a number; `None` where no event has it.
fn event_name(number: c_int) -> Option<&'static str> {
    EVENTS.iter().find(|(event, _)| *event as c_int == number).map(|(_, name)| *name)
}

/// The unified interface: the operations on the numbered counters of a monitor. Later versions may append
/// members; `size` says how many bytes there are.
#[repr(C)]
pub struct cyclometer_api_t {
    /// Size of this library's structure, in bytes.
    pub size: usize,
    /// Opens a monitor: `cyclometer_open`.
    pub init: unsafe extern "C" fn(monitor: *mut *mut cyclometer_t) -> c_int,
    /// Assigns a `cyclometer_event_t` to a counter; `cyclometer_configure` takes every other event by name.
    pub configure_counter:
        unsafe extern "C" fn(monitor: *mut cyclometer_t, counter: c_uint, event: c_int) -> c_int,
    /// Enables a counter: `cyclometer_enable`.
    pub enable_counter: unsafe extern "C" fn(monitor: *mut cyclometer_t, counter: c_uint) -> c_int,
    /// Disables a counter: `cyclometer_disable`.
    pub disable_counter: unsafe extern "C" fn(monitor: *mut cyclometer_t, counter: c_uint) -> c_int,
    /// Reads a counter: `cyclometer_read`.
    pub read_counter:
        unsafe extern "C" fn(monitor: *mut cyclometer_t, counter: c_uint, value: *mut u64) -> c_int,
    /// Reads the raw counts of the counters 0 to `count - 1`. A counter that is not configured gets
    /// `UINT64_MAX` and does not change the result. A configured counter without a count gets `UINT64_MAX`
    /// too, never zero, and the result is `CYCLOMETER_PARTIAL`; `read_counter` returns the reason. Otherwise
    /// the result is the worst status of the counters: `CYCLOMETER_SUCCESS`, `CYCLOMETER_SCALED` or
    /// `CYCLOMETER_PARTIAL`.
    pub read_all_counters:
        unsafe extern "C" fn(monitor: *mut cyclometer_t, values: *mut u64, count: c_uint) -> c_int,
    /// Resets a counter: `cyclometer_reset`.
    pub reset_counter: unsafe extern "C" fn(monitor: *mut cyclometer_t, counter: c_uint) -> c_int,
    /// Reads the machine's capabilities: `cyclometer_capabilities`. `size` is
    /// `sizeof(cyclometer_capabilities_t)`.
    pub get_capabilities: unsafe extern "C" fn(
        monitor: *mut cyclometer_t,
        capabilities: *mut cyclometer_capabilities_t,
        size: usize,
    ) -> c_int,
    /// Frees the monitor and sets the pointer to null: `cyclometer_close`.
    pub cleanup: unsafe extern "C" fn(monitor: *mut *mut cyclometer_t) -> c_int,
}

static API: cyclometer_api_t = cyclometer_api_t {
    size: size_of::<cyclometer_api_t>(),
    init: cyclometer_open,
    configure_counter: configure,
    enable_counter: cyclometer_enable,
    disable_counter: cyclometer_disable,
    read_counter: cyclometer_read,
    read_all_counters: read_all,
    reset_counter: cyclometer_reset,
    get_capabilities: cyclometer_capabilities,
    cleanup: cyclometer_close,
};

unsafe extern "C" fn configure(monitor: *mut cyclometer_t, counter: c_uint, event: c_int) -> c_int {
    let body = |monitor: &cyclometer_t| {
        let name = event_name(event).ok_or_else(|| {
            let help = "take a cyclometer_event_t, or cyclometer_configure, which takes names";
            invalid(format!("there is no event number {event}"), help)
        })?;
        configure_counter(monitor, counter, name)
    };
    // SAFETY: the caller's promise is that of `with_monitor`.
    unsafe { with_monitor(monitor, body) }
}

unsafe extern "C" fn read_all(monitor: *mut cyclometer_t, values: *mut u64, count: c_uint) -> c_int {
    let body = |monitor: &cyclometer_t| {
        writable(values, "the array of values")?;
        let (read, status) = raw_values(monitor, count)?;
        let all = read.into_iter().chain(std::iter::repeat(u64::MAX)).take(count as usize);
        for (i, value) in all.enumerate() {
            // SAFETY: `i` is less than `count`, and the caller promises that many elements.
            let place = unsafe { values.add(i) };
            // SAFETY: see above.
            unsafe { put(place, value, "an element of the array") }?;
        }
        Ok(status)
    };
    // SAFETY: the caller's promise is that of `with_monitor`.
    unsafe { with_monitor(monitor, body) }
}

/// The raw counts of the first counters, `u64::MAX` where there is none, and the status for the caller.
fn raw_values(monitor: &cyclometer_t, count: c_uint) -> Result<(Vec<u64>, c_int)> {
    let mut state = monitor.state();
    let mut worst = cyclometer_status_t::CYCLOMETER_SUCCESS as c_int;
    let mut values = vec![u64::MAX; count.min(COUNTERS) as usize];
    for (counter, value) in (0..COUNTERS).zip(&mut values) {
        if state.slots.contains_key(&counter) {
            let read = state.read(counter)?;
            let status = match read.count.value() {
                Some(raw) => {
                    *value = raw;
                    status_of(&read.count)
                }
                None => cyclometer_status_t::CYCLOMETER_PARTIAL,
            };
            worst = worst.max(status as c_int);
        }
    }
    Ok((values, worst))
}

/// The unified interface as a structure of functions; never null, never freed.
#[unsafe(no_mangle)]
pub extern "C" fn cyclometer_api() -> *const cyclometer_api_t {
    &raw const API
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_count_is_partial_and_a_counter_that_is_not_configured_is_not() {
        let monitor = cyclometer_t::default();
        let success = cyclometer_status_t::CYCLOMETER_SUCCESS as c_int;
        assert_eq!(raw_values(&monitor, 2).unwrap(), (vec![u64::MAX; 2], success));
        configure_counter(&monitor, 1, "page-faults").unwrap();
        let partial = cyclometer_status_t::CYCLOMETER_PARTIAL as c_int;
        assert_eq!(raw_values(&monitor, 2).unwrap(), (vec![u64::MAX; 2], partial), "it was never enabled");
        assert_eq!(raw_values(&monitor, 1).unwrap(), (vec![u64::MAX], success), "beyond the array");
    }

    #[test]
    fn every_event_that_has_a_number_is_a_portable_one() {
        for (_, name) in EVENTS {
            assert!(cyclometer_toolkit::catalogue::portable::find(name).is_some(), "{name}");
        }
    }

    #[test]
    fn names_numbers_and_the_header_agree_for_every_event() {
        let header = include_str!("../include/cyclometer.h");
        for (event, name) in EVENTS {
            let upper = name.to_uppercase();
            assert_eq!(format!("{event:?}"), format!("CYCLOMETER_EVENT_{upper}"));
            assert_eq!(event_name(event as c_int), Some(name));
            let number = format!("CYCLOMETER_EVENT_{upper} = {},", event as c_int);
            assert!(header.contains(&number), "{number}");
            let text = format!("#define CYCLOMETER_{upper} \"{name}\"\n");
            assert!(header.contains(&text), "{text}");
        }
        let numbered = header.lines().filter(|line| line.trim_start().starts_with("CYCLOMETER_EVENT_"));
        assert_eq!(numbered.count(), EVENTS.len(), "an event of the header has no name");
        assert_eq!([event_name(-1), event_name(EVENTS.len() as c_int)], [None, None]);
    }
}
