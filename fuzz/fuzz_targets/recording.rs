//! Recordings: rows or an error; rows that were read are written and read back unchanged. The first byte says
//! whether the rest is a file, a header or rows.
#![no_main]

use cyclometer_core::Count;
use cyclometer_core::window::WindowRow;
use cyclometer_recording::{Recording, RecordingFooter, RecordingHeader, RecordingWriter};
use libfuzzer_sys::fuzz_target;

/// A header with two events and a boundary.
const HEADER: &[u8] = br#"{"tool":"t","boundaries":[{"event":0,"period":9}],"events":[
    {"name":"a","unit":"count","scale":"1","source":"soft","provenance":"counted"},
    {"name":"b","unit":"J","scale":"0.5","source":"perf","provenance":"kernel","modes":"uk"}]}"#;

fuzz_target!(|input: (u8, &[u8])| {
    let (kind, bytes) = input;
    let Some((header, rows)) = read(&match kind % 3 {
        0 => bytes.to_vec(),
        1 => framed(&[(*b"HEAD", bytes)]),
        _ => framed(&[(*b"HEAD", HEADER), (*b"ROWS", bytes)]),
    }) else {
        return;
    };
    let mut writer = RecordingWriter::new(Vec::new(), &header).expect("the header was read");
    writer.rows(&rows).expect("the rows were read");
    let totals = vec![Count::Exact(0); header.events.len()];
    let footer = RecordingFooter { totals, ..RecordingFooter::default() };
    let written = writer.finish(&footer).expect("there is a total for each event");
    assert_eq!(read(&written), Some((header, rows)));
});

/// The header and the rows before the end or the first error.
fn read(bytes: &[u8]) -> Option<(RecordingHeader, Vec<WindowRow>)> {
    let recording = Recording::open(bytes).ok()?;
    Some((recording.header().clone(), recording.map_while(Result::ok).collect()))
}

/// Frames with right checksums, which a fuzzer does not find.
fn framed(frames: &[([u8; 4], &[u8])]) -> Vec<u8> {
    let mut bytes = b"\x89cycrec\n\x01\0\0\0".to_vec();
    let mut checksum = crc32fast::hash(&bytes);
    for (tag, payload) in frames {
        let length = (payload.len() as u32).to_le_bytes();
        let mut hasher = crc32fast::Hasher::new_with_initial(checksum);
        [&tag[..], &length, payload].into_iter().for_each(|part| hasher.update(part));
        checksum = hasher.finalize();
        bytes.extend([&tag[..], &length, &checksum.to_le_bytes(), payload].concat());
    }
    bytes
}
