//! The grammar of event lists, and the encodings of its events on a CPU.
#![no_main]

use cyclometer_catalog::cpus::cpu;
use cyclometer_catalog::encode::encode;
use cyclometer_core::syntax::parse_events;
use libfuzzer_sys::fuzz_target;

/// One CPU of each layout.
const CPUS: [&str; 6] =
    ["skylake", "pantherlake/core", "amdzen5", "neoverse-n1", "sifive-bullet", "apple-m4"];

fuzz_target!(|input: (u8, &str)| {
    let (which, list) = input;
    let (Ok(requests), Ok(cpu)) = (parse_events(list), cpu(CPUS[usize::from(which) % CPUS.len()])) else {
        return;
    };
    for request in &requests {
        if let Ok(encodings) = encode(cpu, request, None) {
            assert!(!encodings.is_empty());
        }
    }
});
