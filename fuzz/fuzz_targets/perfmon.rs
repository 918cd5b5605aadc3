//! Event files of Intel, as at github.com/intel/perfmon: a table or an error.
#![no_main]

use cyclometer_import::read_file;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = read_file(bytes, "file", Some("pantherlake/core"));
    let _ = read_file(bytes, "file", None);
});
