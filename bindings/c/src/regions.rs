//! Regions: all configured events at once, from a beginning to an end.

use std::ffi::{c_char, c_int};
use std::sync::{Arc, Mutex, PoisonError};

use cyclometer_toolkit::BegunRegion;

use crate::counts::{cyclometer_counts_t, hand_out};
use crate::monitor::{Messages, cyclometer_t, with_monitor};
use crate::pointers::{borrow, give, invalid, take, text, writable};
use crate::status::guarded;

/// A region that has begun and was not ended.
pub struct cyclometer_region_t {
    begun: Mutex<BegunRegion>,
    messages: Arc<Messages>,
}

/// Begins a region in the calling thread: all configured counters count from here to `cyclometer_region_end`.
/// Regions nest, and the counts of regions with equal labels add up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_region_begin(
    monitor: *mut cyclometer_t,
    label: *const c_char,
    region: *mut *mut cyclometer_region_t,
) -> c_int {
    let body = |monitor: &cyclometer_t| {
        writable(region, "the place for the region")?;
        // SAFETY: the caller promises a text.
        let label = unsafe { text(label, "the label") }?;
        let built = monitor.state().monitor()?;
        let messages = Arc::clone(&monitor.messages);
        let begun = cyclometer_region_t { begun: Mutex::new(built.begin(label)), messages };
        // SAFETY: the caller promises that a pointer can be written there.
        unsafe { give(region, begun, "the place for the region") }?;
        Ok(0)
    };
    // SAFETY: the caller's promise is that of `with_monitor`.
    unsafe { with_monitor(monitor, body) }
}

/// Ends a region, frees it and sets the pointer to null. The caller must be the thread that began it; in
/// another thread this is an error, and the region goes on. If `counts` is not null, it gets the counts of
/// this one region, to be freed by `cyclometer_counts_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_region_end(
    region: *mut *mut cyclometer_region_t,
    counts: *mut *mut cyclometer_counts_t,
) -> c_int {
    guarded(|| {
        writable(region, "the region")?;
        // SAFETY: it is not null, and the caller promises that it points to a pointer.
        let begun = unsafe { region.read() };
        // SAFETY: the caller promises that this pointer is null or a region that was not freed.
        let begun = unsafe { borrow(begun, "the region") }?;
        let messages = Arc::clone(&begun.messages);
        Ok(messages.watch(|| {
            let measured = begun.begun.lock().unwrap_or_else(PoisonError::into_inner).stop()?;
            // SAFETY: the caller promises that nobody else uses the region.
            drop(unsafe { take(region, "the region") }?);
            if !counts.is_null() {
                // SAFETY: the caller promises that a pointer can be written there.
                unsafe { hand_out(counts, &measured) }?;
            }
            Ok(0)
        }))
    })
}

/// The counts of all regions with a label, over all threads, since they began or the counters were
/// configured. They are freed by `cyclometer_counts_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_total(
    monitor: *mut cyclometer_t,
    label: *const c_char,
    counts: *mut *mut cyclometer_counts_t,
) -> c_int {
    let body = |monitor: &cyclometer_t| {
        // SAFETY: the caller promises a text.
        let label = unsafe { text(label, "the label") }?;
        let total = monitor.state().built().and_then(|built| built.total(label));
        let hint = "begin and end a region with this label first";
        let total = total.ok_or_else(|| invalid(format!("no region `{label}` has begun"), hint))?;
        // SAFETY: the caller promises that a pointer can be written there.
        unsafe { hand_out(counts, &total) }?;
        Ok(0)
    };
    // SAFETY: the caller's promise is that of `with_monitor`.
    unsafe { with_monitor(monitor, body) }
}
