//! Event lists, which are encoded on a CPU of each layout.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cyclometer_fuzz_targets::run("events", bytes));
