//! Configuration files of programs that measure themselves.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cyclometer_fuzz_targets::run("configuration", bytes));
