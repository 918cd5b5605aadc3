//! Event files of the kernel's tools/perf/pmu-events: a table or an error.
#![no_main]

use cyclometer_import::read_file;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (which, bytes) = input;
    let cpu = ["amdzen4", "neoverse-n1", "riscv", "skylake"][usize::from(which) % 4];
    let _ = read_file(bytes, "file", Some(cpu));
    let _ = read_file(bytes, "file", None);
});
