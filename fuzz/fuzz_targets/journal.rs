//! Journals of registers that are to be restored.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cyclometer_fuzz_targets::run("journal", bytes));
