//! The operations on numbered counters as one structure of functions: the unified interface.
//!
//! The functions are those of the header, so a monitor may be used by both. The structure is for programs that choose
//! between implementations at run time, and for tests that put their own in its place.

use std::ffi::{c_int, c_uint};

use cyclometer::Result;

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

/// The names of [`cyclometer_event_t`], by number.
const EVENTS: [&str; 8] = [
    "cpu_cycles",
    "instructions",
    "l1d_cache_loads",
    "l1d_cache_misses",
    "l2_cache_loads",
    "l2_cache_misses",
    "branch_instructions",
    "branch_misses",
];

/// The unified interface: the operations on the numbered counters of a monitor. Later versions may have more members behind these,
/// never other ones; `size` says how many there are.
#[repr(C)]
pub struct cyclometer_api_t {
    /// Bytes of the structure that this library has.
    pub size: usize,
    /// Opens a monitor: `cyclometer_open`.
    pub init: unsafe extern "C" fn(monitor: *mut *mut cyclometer_t) -> c_int,
    /// Lets a counter count a `cyclometer_event_t`; `cyclometer_configure` takes every other event by name.
    pub configure_counter:
        unsafe extern "C" fn(monitor: *mut cyclometer_t, counter: c_uint, event: c_int) -> c_int,
    /// Lets a counter count: `cyclometer_enable`.
    pub enable_counter: unsafe extern "C" fn(monitor: *mut cyclometer_t, counter: c_uint) -> c_int,
    /// Stops a counter: `cyclometer_disable`.
    pub disable_counter: unsafe extern "C" fn(monitor: *mut cyclometer_t, counter: c_uint) -> c_int,
    /// Reads a counter: `cyclometer_read`.
    pub read_counter:
        unsafe extern "C" fn(monitor: *mut cyclometer_t, counter: c_uint, value: *mut u64) -> c_int,
    /// Reads the counters 0 to `count - 1`, in raw counts. `UINT64_MAX` stands where nothing was counted, never zero: then this
    /// returns `CYCLOMETER_PARTIAL`, and `read_counter` says why. Otherwise it returns the worst status of all, and success
    /// where no counter is configured.
    pub read_all_counters:
        unsafe extern "C" fn(monitor: *mut cyclometer_t, values: *mut u64, count: c_uint) -> c_int,
    /// Forgets what a counter has counted: `cyclometer_reset`.
    pub reset_counter: unsafe extern "C" fn(monitor: *mut cyclometer_t, counter: c_uint) -> c_int,
    /// Says what the machine has: `cyclometer_capabilities`. `size` is `sizeof(cyclometer_capabilities_t)`.
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
        let name = usize::try_from(event).ok().and_then(|event| EVENTS.get(event));
        let name = name.ok_or_else(|| {
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

/// The raw counts of the first counters, `u64::MAX` where there is none, and what is returned with them.
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
    fn every_event_that_has_a_number_is_a_portable_one() {
        for name in EVENTS {
            assert!(cyclometer::catalogue::portable::find(name).is_some(), "{name}");
        }
        assert_eq!(EVENTS[cyclometer_event_t::CYCLOMETER_EVENT_BRANCH_MISSES as usize], "branch_misses");
        assert_eq!(EVENTS[cyclometer_event_t::CYCLOMETER_EVENT_L2_CACHE_LOADS as usize], "l2_cache_loads");
    }
}
