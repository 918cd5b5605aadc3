//! Pointers of strangers: each checked for null, each dereferenced at one place.

use std::ffi::{CStr, c_char};

use cyclometer_toolkit::{Error, ErrorKind, Recovery, Result};

/// The error for an invalid argument.
pub(crate) fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, message).with_recovery(Recovery::fix(hint))
}

fn null(what: &str) -> Error {
    invalid(format!("{what} is a null pointer"), "give an object that was opened and not closed yet")
}

/// The object behind a pointer.
///
/// # Safety
///
/// The pointer is null, or came from this library and is not freed during `'a`.
pub(crate) unsafe fn borrow<'a, T>(pointer: *const T, what: &str) -> Result<&'a T> {
    // SAFETY: the caller promises that a pointer which is not null is one of ours and alive.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(what))
}

/// A text.
///
/// # Safety
///
/// The pointer is null, or points to bytes that end with a zero byte and do not change during `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str> {
    if pointer.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller promises a text that ends with a zero byte.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| invalid(format!("{what} is not UTF-8"), "give the text as UTF-8"))
}

/// Checks that a result can be written, before anything is done for it.
pub(crate) fn writable<T>(out: *mut T, what: &str) -> Result<()> {
    if out.is_null() { Err(null(what)) } else { Ok(()) }
}

/// Writes a value.
///
/// # Safety
///
/// The pointer is null, or may be written to as a `T`.
pub(crate) unsafe fn put<T>(out: *mut T, value: T, what: &str) -> Result<()> {
    writable(out, what)?;
    // SAFETY: the caller promises that a pointer which is not null is valid for writes of a `T`; the old
    // value has no drop.
    unsafe { out.write(value) };
    Ok(())
}

/// Writes a structure whose size the caller was compiled with. Later versions may have more fields, never
/// fewer.
///
/// # Safety
///
/// The pointer is null, or `size` bytes can be written there.
pub(crate) unsafe fn put_sized<T: Copy>(out: *mut T, size: usize, value: T, what: &str) -> Result<()> {
    if size < size_of::<T>() {
        let message = format!("{what} has {size} bytes, and {} are needed", size_of::<T>());
        return Err(invalid(message, "pass sizeof of the structure"));
    }
    // SAFETY: the caller promises room for `size` bytes, which is enough for a `T`.
    unsafe { put(out, value, what) }
}

/// Hands an object out; it is freed by [`take`].
///
/// # Safety
///
/// As [`put`].
pub(crate) unsafe fn give<T>(out: *mut *mut T, object: T, what: &str) -> Result<()> {
    writable(out, what)?;
    // SAFETY: the caller's promise is that of `put`.
    unsafe { put(out, Box::into_raw(Box::new(object)), what) }
}

/// Takes an object back, and sets the pointer to it to null.
///
/// # Safety
///
/// `slot` is null, or points to a pointer that is null or came from [`give`]; no other code uses the object
/// any more.
pub(crate) unsafe fn take<T>(slot: *mut *mut T, what: &str) -> Result<Box<T>> {
    writable(slot, what)?;
    // SAFETY: `slot` is not null, and the caller promises that it points to a pointer.
    let object = unsafe { slot.replace(std::ptr::null_mut()) };
    if object.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller promises that it came from `give`, so from `Box::into_raw`; the slot no longer has
    // it.
    Ok(unsafe { Box::from_raw(object) })
}

/// Copies a text, cut to the size of the buffer, with a zero byte; returns the length of the whole text in
/// bytes.
///
/// # Safety
///
/// `buffer` is null, or `size` bytes can be written there.
pub(crate) unsafe fn copy_text(text: &str, buffer: *mut c_char, size: usize) -> usize {
    let Some(room) = size.checked_sub(1).filter(|_| !buffer.is_null()) else { return text.len() };
    let length = cut(text, room);
    // SAFETY: `length` is at most `size - 1`, which the caller promises can be written; the text is another
    // object.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, length) };
    // SAFETY: `length` is less than `size`: the place is within the buffer.
    let end = unsafe { buffer.add(length) };
    // SAFETY: see above.
    unsafe { end.write(0) };
    text.len()
}

/// The longest start of a text that is no longer than `room` and ends where a character ends, in bytes.
fn cut(text: &str, room: usize) -> usize {
    (0..=room.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(text: &str, size: usize) -> (usize, Vec<u8>) {
        let mut buffer = vec![0x7f_u8; size + 1];
        // SAFETY: the buffer has `size` bytes, and one more that must stay.
        let whole = unsafe { copy_text(text, buffer.as_mut_ptr().cast(), size) };
        assert_eq!(buffer.pop(), Some(0x7f), "nothing is written beyond the buffer");
        (whole, buffer)
    }

    #[test]
    fn a_text_is_cut_where_a_character_ends() {
        assert_eq!(copied("abc", 4), (3, b"abc\0".to_vec()));
        assert_eq!(copied("abc", 3), (3, b"ab\0".to_vec()));
        assert_eq!(copied("aä", 3), (3, b"a\0\x7f".to_vec()));
        assert_eq!(copied("abc", 1), (3, b"\0".to_vec()));
        assert_eq!(copied("abc", 0), (3, vec![]));
    }

    #[test]
    fn null_pointers_are_errors() {
        let mut nothing: *mut u32 = std::ptr::null_mut();
        // SAFETY: null pointers and pointers to them are what these functions expect.
        let taken = unsafe { take(&raw mut nothing, "the monitor") };
        assert_eq!(taken.unwrap_err().to_string(), "the monitor is a null pointer");
        // SAFETY: see above.
        assert!(unsafe { borrow::<u32>(std::ptr::null(), "x") }.is_err());
        // SAFETY: see above.
        assert!(unsafe { text(std::ptr::null(), "x") }.is_err());
        // SAFETY: see above.
        assert!(unsafe { put(std::ptr::null_mut(), 1, "x") }.is_err());
        // SAFETY: the text ends with a zero byte.
        assert!(unsafe { text(c"\xff".as_ptr(), "the label") }.unwrap_err().to_string().contains("UTF-8"));
    }

    #[test]
    fn an_object_is_taken_back_once() {
        let mut object: *mut String = std::ptr::null_mut();
        // SAFETY: the place is a pointer of ours.
        unsafe { give(&raw mut object, "x".to_owned(), "out") }.unwrap();
        // SAFETY: it came from `give`.
        assert_eq!(*unsafe { take(&raw mut object, "it") }.unwrap(), "x");
        assert!(object.is_null());
        // SAFETY: it is null now.
        assert!(unsafe { take(&raw mut object, "it") }.is_err());
    }

    #[test]
    fn a_structure_that_is_too_small_is_not_written() {
        let mut value = 7_u64;
        // SAFETY: nothing is written, as four bytes are too few.
        assert!(unsafe { put_sized(&raw mut value, 4, 9, "it") }.is_err());
        assert_eq!(value, 7);
        // SAFETY: there are eight bytes.
        unsafe { put_sized(&raw mut value, 8, 9, "it") }.unwrap();
        assert_eq!(value, 9);
    }
}
