//! Counts with their state and provenance.

use std::ffi::{CString, c_char, c_int, c_uint};

use cyclometer_toolkit::{Count, Measured, Provenance, Value};

use crate::pointers::{borrow, give, invalid, put, put_sized, take, text};
use crate::status::{cyclometer_status_t, guarded, guarded_or};

/// The state of a count.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum cyclometer_count_state_t {
    /// No counter is configured there.
    CYCLOMETER_COUNT_NONE = 0,
    /// Counted for the whole time.
    CYCLOMETER_COUNT_EXACT = 1,
    /// An estimate: the event shared its counter with others.
    CYCLOMETER_COUNT_SCALED = 2,
    /// Counted on some cores or modes only, over more than requested, or by counters that may have missed
    /// some events.
    CYCLOMETER_COUNT_PARTIAL = 3,
    /// Not counted, although the machine can count it.
    CYCLOMETER_COUNT_NOT_COUNTED = 4,
    /// The machine, kernel or source cannot count it.
    CYCLOMETER_COUNT_NOT_SUPPORTED = 5,
    /// Counting began, but the count was lost.
    CYCLOMETER_COUNT_LOST = 6,
}

/// The kind of counter behind a count.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum cyclometer_provenance_t {
    /// None: the event was not counted.
    CYCLOMETER_FROM_NOBODY = 0,
    /// A counter of the CPU.
    CYCLOMETER_FROM_HARDWARE = 1,
    /// The operating system.
    CYCLOMETER_FROM_KERNEL = 2,
    /// The software PMU, which executed the program: exact.
    CYCLOMETER_FROM_COUNTED = 3,
    /// The software PMU's model.
    CYCLOMETER_FROM_MODELLED = 4,
    /// A simulated chip.
    CYCLOMETER_FROM_SIMULATED = 5,
    /// A source without a name in this header.
    CYCLOMETER_FROM_OTHER = 6,
}

/// One count. Without a count, `value` and `half_width` are NaN and the other numbers `UINT64_MAX`: never
/// zero.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct cyclometer_count_t {
    /// A `cyclometer_count_state_t`.
    pub state: i32,
    /// A `cyclometer_provenance_t`.
    pub provenance: i32,
    /// The best value available, in the event's unit, less the cost of measuring where that is known.
    pub value: f64,
    /// Half the width of the interval around `value` that holds the true count; 0 where it is exact, NaN
    /// where it is unknown.
    pub half_width: f64,
    /// The raw count; the estimate where it is scaled.
    pub raw: u64,
    /// Time that the event was enabled, in ns; `UINT64_MAX` where it was counted all that time.
    pub time_enabled_ns: u64,
    /// Time that it was on a counter, in ns; `UINT64_MAX` where it was all the time.
    pub time_running_ns: u64,
}

impl cyclometer_count_t {
    pub(crate) fn without(state: cyclometer_count_state_t) -> cyclometer_count_t {
        cyclometer_count_t {
            state: state as i32,
            provenance: cyclometer_provenance_t::CYCLOMETER_FROM_NOBODY as i32,
            value: f64::NAN,
            half_width: f64::NAN,
            raw: u64::MAX,
            time_enabled_ns: u64::MAX,
            time_running_ns: u64::MAX,
        }
    }

    pub(crate) fn of(value: &Value) -> cyclometer_count_t {
        let (time_enabled_ns, time_running_ns) = match value.count {
            Count::Scaled { time_enabled_ns, time_running_ns, .. } => (time_enabled_ns, time_running_ns),
            _ => (u64::MAX, u64::MAX),
        };
        cyclometer_count_t {
            provenance: provenance(value.provenance) as i32,
            value: value.number().unwrap_or(f64::NAN),
            half_width: half_width(value),
            raw: value.count.value().unwrap_or(u64::MAX),
            time_enabled_ns,
            time_running_ns,
            ..cyclometer_count_t::without(state_of(&value.count))
        }
    }
}

/// Half the width of a value's interval, in its unit.
fn half_width(value: &Value) -> f64 {
    let raw = match &value.count {
        Count::Exact(_) => value.net.map_or(0.0, |net| net.half_width),
        Count::Scaled { interval, .. } => interval.half_width().map_or(f64::NAN, |raw| raw as f64),
        _ => f64::NAN,
    };
    raw * value.scale
}

fn state_of(count: &Count) -> cyclometer_count_state_t {
    use cyclometer_count_state_t as S;
    match count {
        Count::Exact(_) => S::CYCLOMETER_COUNT_EXACT,
        Count::Scaled { .. } => S::CYCLOMETER_COUNT_SCALED,
        Count::Partial { .. } => S::CYCLOMETER_COUNT_PARTIAL,
        Count::NotSupported { .. } => S::CYCLOMETER_COUNT_NOT_SUPPORTED,
        Count::Lost { .. } => S::CYCLOMETER_COUNT_LOST,
        _ => S::CYCLOMETER_COUNT_NOT_COUNTED,
    }
}

/// The status of a function that read this count.
pub(crate) fn status_of(count: &Count) -> cyclometer_status_t {
    use cyclometer_count_state_t as C;
    use cyclometer_status_t as S;
    match state_of(count) {
        C::CYCLOMETER_COUNT_EXACT => S::CYCLOMETER_SUCCESS,
        C::CYCLOMETER_COUNT_SCALED => S::CYCLOMETER_SCALED,
        C::CYCLOMETER_COUNT_PARTIAL => S::CYCLOMETER_PARTIAL,
        C::CYCLOMETER_COUNT_NOT_SUPPORTED => S::CYCLOMETER_ERR_EVENT_UNSUPPORTED,
        C::CYCLOMETER_COUNT_LOST => S::CYCLOMETER_ERR_STATE_LOST,
        C::CYCLOMETER_COUNT_NONE | C::CYCLOMETER_COUNT_NOT_COUNTED => S::CYCLOMETER_ERR_NOT_COUNTED,
    }
}

fn provenance(provenance: Option<Provenance>) -> cyclometer_provenance_t {
    use cyclometer_provenance_t as P;
    match provenance {
        None => P::CYCLOMETER_FROM_NOBODY,
        Some(Provenance::Hardware) => P::CYCLOMETER_FROM_HARDWARE,
        Some(Provenance::Kernel) => P::CYCLOMETER_FROM_KERNEL,
        Some(Provenance::Counted) => P::CYCLOMETER_FROM_COUNTED,
        Some(Provenance::Modelled) => P::CYCLOMETER_FROM_MODELLED,
        Some(Provenance::Simulated) => P::CYCLOMETER_FROM_SIMULATED,
        Some(_) => P::CYCLOMETER_FROM_OTHER,
    }
}

/// The counts of regions, one for each event. They never change.
pub struct cyclometer_counts_t {
    label: CString,
    calls: u64,
    values: Vec<NamedCount>,
}

struct NamedCount {
    name: CString,
    event: CString,
    reason: Option<CString>,
    count: cyclometer_count_t,
}

impl cyclometer_counts_t {
    pub(crate) fn of(measured: &Measured) -> cyclometer_counts_t {
        let named = |value: &Value| NamedCount {
            name: c_text(&value.name),
            event: c_text(&value.event),
            reason: value.reason().map(|reason| c_text(&reason)),
            count: cyclometer_count_t::of(value),
        };
        let values = measured.values.iter().map(named).collect();
        cyclometer_counts_t { label: c_text(&measured.label), calls: measured.calls, values }
    }

    fn value(&self, index: u32) -> cyclometer_toolkit::Result<&NamedCount> {
        let message = || format!("there is no count {index} among {}", self.values.len());
        self.values.get(index as usize).ok_or_else(|| invalid(message(), "ask for cyclometer_counts_length"))
    }
}

/// A string for C.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// Hands out counts.
///
/// # Safety
///
/// As [`give`].
pub(crate) unsafe fn hand_out(
    out: *mut *mut cyclometer_counts_t,
    measured: &Measured,
) -> cyclometer_toolkit::Result<()> {
    // SAFETY: the caller's promise is that of `give`.
    unsafe { give(out, cyclometer_counts_t::of(measured), "the place for the counts") }
}

/// Number of counts: one for each configured counter, in the order of their numbers. 0 for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_counts_length(counts: *const cyclometer_counts_t) -> c_uint {
    // SAFETY: the caller's promise is that of `borrow`.
    guarded_or(0, || Ok(unsafe { borrow(counts, "the counts") }?.values.len() as c_uint))
}

/// Number of regions that have ended. 0 for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_counts_calls(counts: *const cyclometer_counts_t) -> u64 {
    // SAFETY: the caller's promise is that of `borrow`.
    guarded_or(0, || Ok(unsafe { borrow(counts, "the counts") }?.calls))
}

/// The label; valid as long as the counts. Null for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_counts_label(counts: *const cyclometer_counts_t) -> *const c_char {
    // SAFETY: the caller's promise is that of `borrow`.
    guarded_or(std::ptr::null(), || Ok(unsafe { borrow(counts, "the counts") }?.label.as_ptr()))
}

/// A text of one of the counts; null where there is none.
///
/// # Safety
///
/// As [`borrow`].
unsafe fn text_of(
    counts: *const cyclometer_counts_t,
    index: u32,
    which: impl FnOnce(&NamedCount) -> Option<&CString>,
) -> *const c_char {
    guarded_or(std::ptr::null(), || {
        // SAFETY: the caller's promise is that of `borrow`.
        let value = unsafe { borrow(counts, "the counts") }?.value(index)?;
        Ok(which(value).map_or(std::ptr::null(), |text| text.as_ptr()))
    })
}

/// The name of an event with its effective modes (`instructions:u`); valid as long as the counts. Null where
/// there is no such count.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_counts_name(
    counts: *const cyclometer_counts_t,
    index: c_uint,
) -> *const c_char {
    // SAFETY: the caller's promise is that of `text_of`.
    unsafe { text_of(counts, index, |value| Some(&value.name)) }
}

/// The name of an event as it was configured, without modifiers; valid as long as the counts. Null where
/// there is no such count.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_counts_event(
    counts: *const cyclometer_counts_t,
    index: c_uint,
) -> *const c_char {
    // SAFETY: the caller's promise is that of `text_of`.
    unsafe { text_of(counts, index, |value| Some(&value.event)) }
}

/// The reason why a count is not exact; valid as long as the counts. Null where it is exact, and where there
/// is no such count.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_counts_reason(
    counts: *const cyclometer_counts_t,
    index: c_uint,
) -> *const c_char {
    // SAFETY: the caller's promise is that of `text_of`.
    unsafe { text_of(counts, index, |value| value.reason.as_ref()) }
}

/// Copies one of the counts with its state; `size` is `sizeof(cyclometer_count_t)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_counts_get(
    counts: *const cyclometer_counts_t,
    index: c_uint,
    count: *mut cyclometer_count_t,
    size: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise is that of `borrow`.
        let value = unsafe { borrow(counts, "the counts") }?.value(index)?;
        // SAFETY: the caller promises room for `size` bytes.
        unsafe { put_sized(count, size, value.count, "the count") }?;
        Ok(0)
    })
}

/// Finds an event by its configured name, or by its name with its modes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_counts_find(
    counts: *const cyclometer_counts_t,
    event: *const c_char,
    index: *mut c_uint,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise is that of `borrow`.
        let counts = unsafe { borrow(counts, "the counts") }?;
        // SAFETY: the caller promises a text.
        let event = unsafe { text(event, "the event") }?;
        let is_it = |value: &NamedCount| {
            [&value.event, &value.name].iter().any(|name| name.to_bytes() == event.as_bytes())
        };
        let found = counts.values.iter().position(is_it);
        let found =
            found.ok_or_else(|| invalid(format!("no count of `{event}`"), "configure a counter for it"))?;
        // SAFETY: the caller promises that a number can be written there.
        unsafe { put(index, found as c_uint, "the place for the index") }?;
        Ok(0)
    })
}

/// Frees counts and sets the pointer to null. A null pointer is no error here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_counts_free(counts: *mut *mut cyclometer_counts_t) {
    // SAFETY: the caller promises that the pointer is one of ours and used by nobody else.
    guarded_or((), || unsafe { take(counts, "the counts") }.map(drop));
}
