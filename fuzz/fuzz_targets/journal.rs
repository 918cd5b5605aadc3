//! Journals of registers: steps with registers of the list, or an error. A journal that was read is written
//! back unchanged.
#![no_main]

use cyclometer_arch::Chip;
use cyclometer_backend::registers::journal::Journal;
use cyclometer_core::CounterMask;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(journal) = Journal::parse(bytes) else { return };
    let chip = Chip { pmu_version: 4, counters: CounterMask::first(8, 4), ..Chip::default() };
    let _ = journal.steps(&chip);
    assert_eq!(Journal::parse(journal.to_text().as_bytes()), Ok(journal));
});
