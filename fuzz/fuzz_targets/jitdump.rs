//! Dumps of code that compilers made at run time.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cyclometer_fuzz_targets::run("jitdump", bytes));
