//! Reports of the tracer, with code profiles.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cyclometer_fuzz_targets::run("tracer_report", bytes));
