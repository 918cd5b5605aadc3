//! Tables of what labels claim.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cyclometer_fuzz_targets::run("claims", bytes));
