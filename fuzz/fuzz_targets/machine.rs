//! Recordings of a machine, which is detected again.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cyclometer_fuzz_targets::run("machine", bytes));
