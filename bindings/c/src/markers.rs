//! Regions that report to `cyclometer stat -m`.

use std::borrow::Cow;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use cyclometer_toolkit::marker::{Empty, foreign};

/// Marks the beginning of a region of the calling thread for `cyclometer stat -m`. In any other program the
/// mark does nothing, at the cost of a call, a load and a branch. Regions nest; those with the same label add
/// up. A null pointer is a region without a name.
///
/// Signal handlers must not call it: a mark may allocate memory, and an allocation within a handler can wait
/// for ever for the allocation that the signal interrupted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_marker_begin(label: *const c_char) {
    // SAFETY: the caller promises a text.
    foreign::begin(|| unsafe { name(label) }, &EMPTY);
}

/// Marks the end of the last region of this label that the calling thread began. The tool reports an end
/// without a beginning, with its label.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_marker_end(label: *const c_char) {
    // SAFETY: the caller promises a text.
    foreign::end(|| unsafe { name(label) }, &EMPTY);
}

/// Whether `cyclometer stat -m` runs this program: whether regions are counted.
#[unsafe(no_mangle)]
pub extern "C" fn cyclometer_marker_attached() -> bool {
    catch_unwind(AssertUnwindSafe(cyclometer_toolkit::marker::is_attached)).unwrap_or(false)
}

/// The name of a region. Bytes that are no UTF-8 are replaced.
///
/// # Safety
///
/// The pointer is null, or points to bytes that end with a zero byte and do not change during `'a`.
unsafe fn name<'a>(label: *const c_char) -> Cow<'a, str> {
    if label.is_null() {
        return Cow::Borrowed("");
    }
    // SAFETY: the caller promises a text that ends with a zero byte.
    unsafe { CStr::from_ptr(label) }.to_string_lossy()
}

/// Empty regions, as a C program marks them.
static EMPTY: Empty = Empty { flat, nested };

const NO_NAME: *const c_char = c"".as_ptr();

// Nothing else may be executed between the calls than what calls them: what is counted there is taken off.
fn flat() {
    // SAFETY: a text.
    unsafe { cyclometer_marker_begin(NO_NAME) };
    // SAFETY: a text.
    unsafe { cyclometer_marker_end(NO_NAME) };
}

fn nested() {
    // SAFETY: a text.
    unsafe { cyclometer_marker_begin(NO_NAME) };
    // SAFETY: a text.
    unsafe { cyclometer_marker_begin(NO_NAME) };
    // SAFETY: a text.
    unsafe { cyclometer_marker_end(NO_NAME) };
    // SAFETY: a text.
    unsafe { cyclometer_marker_end(NO_NAME) };
}
