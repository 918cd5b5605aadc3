//! Files of code, for their functions and lines.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cyclometer_fuzz_targets::run("object_file", bytes));
