//! Event files of the kernel, for AMD, Arm, RISC-V and Intel.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cyclometer_fuzz_targets::run("pmu_events", bytes));
