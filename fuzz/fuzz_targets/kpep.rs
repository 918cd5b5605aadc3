//! Apple's event databases, as XML or binary property lists: a table or an error.
#![no_main]

use cyclometer_import::read_file;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = read_file(bytes, "file", Some("apple-m1"));
    let _ = read_file(bytes, "file", None);
});
