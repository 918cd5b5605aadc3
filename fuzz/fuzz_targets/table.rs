//! Tables of events as text: a table is written so that it reads back the same, and survives the conversion
//! to bytes and back.
#![no_main]

use cyclometer_catalog::table::blob::write;
use cyclometer_catalog::table::{Blob, text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| {
    let Ok(table) = text::read(input) else { return };
    assert_eq!(text::read(&text::write(&table)).as_ref(), Ok(&table));
    let Ok(bytes) = write(std::slice::from_ref(&table)) else { return };
    let blob = Blob::new(&bytes).expect("what was written is a blob");
    let cpu = blob.cpus().next().expect("it has the CPU");
    for event in &table.events {
        let found = cpu.event(&event.name).expect("an event is found by its name");
        assert_eq!(found.code(), event.code);
    }
});
