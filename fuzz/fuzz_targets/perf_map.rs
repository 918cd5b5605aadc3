//! Maps in which programs name code that they made.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cyclometer_fuzz_targets::run("perf_map", bytes));
