//! Files of strangers: whatever the bytes, rows or an error, never a panic, and never much memory.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use cyclometer_recording::{Recording, RecordingEnd, RecordingError};
use proptest::prelude::*;
use support::{footer, framed, frames, header, odd_rows, read, row, written};

/// A small recording with every kind of frame, and its rows by the frame that ends with them.
fn small() -> Vec<u8> {
    let mut writer = cyclometer_recording::RecordingWriter::new(Vec::new(), &header()).unwrap();
    writer.thread_name(row(0).thread.unwrap(), "matrix").unwrap();
    writer.rows(&odd_rows()).unwrap();
    writer.rows(&[row(7)]).unwrap();
    writer.finish(&footer()).unwrap()
}

#[test]
fn every_truncation_gives_the_whole_frames_and_their_end() {
    let bytes = small();
    let offsets = frames(&bytes);
    let all = read(&bytes).unwrap().0;
    // Rows before each offset: the header, the name, two frames of rows, the footer.
    let rows_before = [0, 0, 0, all.len() - 1, all.len()];
    for length in 0..bytes.len() {
        let cut = &bytes[..length];
        let Some(last) = offsets.iter().rposition(|offset| *offset <= length).filter(|last| *last > 0) else {
            let error = Recording::open(cut).map(|_| ()).unwrap_err();
            match length {
                0 => assert!(matches!(error, RecordingError::Empty), "{error}"),
                _ => assert!(matches!(error, RecordingError::NoHeader), "{length}: {error}"),
            }
            continue;
        };
        let (rows, end) = read(cut).unwrap();
        assert_eq!(rows, all[..rows_before[last]], "{length}");
        assert_eq!(end.unwrap(), RecordingEnd::Incomplete { offset: offsets[last] as u64 });
    }
}

#[test]
fn every_bit_that_flips_is_found_and_rows_before_it_are_good() {
    let bytes = small();
    let all = read(&bytes).unwrap().0;
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            let Ok((rows, end)) = read(&flipped) else { continue };
            assert!(!matches!(end, Ok(RecordingEnd::Complete(_))), "byte {at}, bit {bit}");
            assert!(all.starts_with(&rows), "byte {at}, bit {bit}");
        }
    }
}

#[test]
fn frames_that_are_removed_repeated_or_exchanged_are_found() {
    let bytes = written(&header(), &[vec![row(1)], vec![row(2)], vec![row(3)]], &footer());
    let offsets = frames(&bytes);
    let frame = |n: usize| &bytes[offsets[n]..offsets[n + 1]];
    for order in [&[0, 2, 3, 4][..], &[0, 1, 1, 2, 3, 4], &[0, 2, 1, 3, 4], &[0, 1, 2, 4]] {
        let mut changed = bytes[..12].to_vec();
        order.iter().for_each(|n| changed.extend_from_slice(frame(*n)));
        let (rows, end) = read(&changed).unwrap();
        assert!(matches!(end, Err(RecordingError::Damaged { .. })), "{order:?}: {end:?}");
        assert!([row(1), row(2), row(3)].starts_with(&rows), "{order:?}");
    }
}

#[test]
fn foreign_files_and_other_versions_are_named() {
    for foreign in [&b"\x7fELF\x02\x01\x01"[..], b"{\"a\":1}", b"\x89PNG\r\n\x1a\n", b"P", &[0; 64]] {
        assert!(matches!(Recording::open(foreign), Err(RecordingError::Foreign)), "{foreign:?}");
    }
    for version in [0u32, 2, u32::MAX] {
        let mut bytes = small();
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        let error = Recording::open(&bytes[..]).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), format!("it has version {version} of the recording format"));
    }
}

#[test]
fn data_behind_the_footer_and_a_wrong_number_of_rows_are_found() {
    let bytes = small();
    let end = read(&[&bytes[..], &bytes].concat()).unwrap().1;
    assert!(end.unwrap_err().to_string().ends_with("data follow the footer"));
    let offsets = frames(&bytes);
    let payload = |n: usize| &bytes[offsets[n] + 12..offsets[n + 1]];
    let without_rows = framed(&[(*b"HEAD", payload(0)), (*b"FOOT", payload(4))]);
    let error = read(&without_rows).unwrap().1.unwrap_err();
    assert!(error.to_string().ends_with("9 rows were written, and 0 are there"), "{error}");
}

/// The header of [`header`] as it is in a file, with a change of its text.
fn header_with(from: &str, to: &str) -> Vec<u8> {
    let bytes = small();
    let text = str::from_utf8(&bytes[24..frames(&bytes)[1]]).unwrap().replace(from, to);
    assert!(from.is_empty() || text.contains(to));
    text.into_bytes()
}

#[test]
fn headers_that_contradict_the_format_are_named() {
    for (from, to, problem) in [
        ("\"event\":0", "\"event\":1099511627776", "a boundary is of event 1099511627776, and there are 3"),
        ("\"event\":0", "\"event\":-1", "'event' of a boundary is no number"),
        ("512000", "0", "'period' of a boundary is 0"),
        ("\"provenance\":\"counted\"", "\"provenance\":\"guessed\"", "'provenance' of an event is no word"),
        ("\"scale\":\"1\"", "\"scale\":\"NaN\"", "the scale of instructions:u is no positive number"),
        ("\"modes\":\"u\"", "\"modes\":\"ux\"", "'modes' of an event has another letter"),
        ("\"tool\"", "\"tooL\"", "'tool' of the header is no text"),
        ("{\"tool\"", "[{\"tool\"", "it is not valid JSON"),
    ] {
        let error =
            Recording::open(&framed(&[(*b"HEAD", &header_with(from, to))])[..]).map(|_| ()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("the frame at byte 12 is malformed") && text.contains(problem), "{text}");
    }
    let event =
        "{\"name\":\"e\",\"unit\":\"count\",\"scale\":\"1\",\"source\":\"soft\",\"provenance\":\"counted\"}";
    let many = format!("{{\"tool\":\"t\",\"events\":[{}{event}]}}", format!("{event},").repeat(3000));
    let error = Recording::open(&framed(&[(*b"HEAD", many.as_bytes())])[..]).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("there are more than 2048 events"), "{error}");
    assert!(Recording::open(&framed(&[(*b"HEAD", "[".repeat(1 << 20).as_bytes())])[..]).is_err());
    assert!(Recording::open(&framed(&[(*b"ROWS", b"")])[..]).is_err());
}

#[test]
fn a_frame_that_claims_more_than_the_format_allows_is_not_read() {
    let mut bytes = small();
    bytes.truncate(frames(&bytes)[1]);
    for length in [(4 << 20) + 1, u32::MAX] {
        let claim = [&bytes[..], b"ROWS", &length.to_le_bytes(), &[0; 200]].concat();
        assert!(
            matches!(read(&claim).unwrap().1, Err(RecordingError::Damaged { offset }) if offset == bytes.len() as u64)
        );
    }
    // A length that is possible is an end within the frame: nothing says that it is wrong.
    let claim = [&bytes[..], b"ROWS", &(4u32 << 20).to_le_bytes(), &[0; 200]].concat();
    assert_eq!(read(&claim).unwrap().1.unwrap(), RecordingEnd::Incomplete { offset: bytes.len() as u64 });
}

#[test]
fn no_claim_of_a_file_takes_memory() {
    let bytes = small();
    let head = &bytes[..frames(&bytes)[1]];
    let claims = |tag: &[u8; 4], length: u32| [head, &tag[..], &length.to_le_bytes(), &[0; 100]].concat();
    // A text of 1 KiB in each of 2048 counts of a row, and again in the next ones by its number.
    let event = r#"{"name":"e","unit":"count","scale":"1"}"#;
    let wide = format!("{{\"tool\":\"t\",\"events\":[{}{event}]}}", format!("{event},").repeat(2047));
    let mut rows = vec![0, 0, 5, 0, 0x80, 8];
    rows.extend([b'x'; 1024]);
    rows.extend([5, 1].repeat(2047));
    for _ in 0..1000 {
        rows.extend([0, 0]);
        rows.extend([5, 1].repeat(2048));
    }
    // A payload is read to its checksum; beyond that only the values that it spells are made.
    for (bytes, most) in [
        (claims(b"ROWS", 4 << 20), 100 << 10),
        (claims(b"name", 4 << 20), 100 << 10),
        (claims(b"FOOT", u32::MAX), 100 << 10),
        (framed(&[(*b"HEAD", &wide.into_bytes()), (*b"ROWS", &rows)]), 16 << 20),
        (framed(&[(*b"HEAD", "[".repeat(1 << 20).as_bytes())]), 8 << 20),
        (framed(&[(*b"HEAD", "[],".repeat(1 << 20).as_bytes())]), 8 << 20),
        (framed(&[(*b"HEAD", format!("{{\"notes\":[{}0]}}", "[],".repeat(1 << 20)).as_bytes())]), 8 << 20),
        (framed(&[(*b"HEAD", format!("{{\"notes\":[{}0]}}", "[],".repeat(1 << 16)).as_bytes())]), 64 << 20),
    ] {
        let used = allocation_counter::measure(|| {
            if let Ok(recording) = Recording::open(&bytes[..]) {
                recording.for_each(drop);
            }
        });
        assert!(used.bytes_max < most, "{} bytes for {}", used.bytes_max, bytes.len());
    }
}

/// Reads a frame of rows with a right checksum; whatever is read is no larger than its bytes explain.
fn check_rows(payload: &[u8]) {
    let bytes = framed(&[(*b"HEAD", &header_with("", "")), (*b"ROWS", payload)]);
    let (rows, end) = read(&bytes).unwrap();
    assert!(rows.len() <= payload.len() / 2);
    assert!(matches!(end, Ok(RecordingEnd::Incomplete { .. }) | Err(RecordingError::Malformed { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_as_rows_end_in_rows_or_an_error(payload in prop::collection::vec(any::<u8>(), 0..300)) {
        check_rows(&payload);
    }

    #[test]
    fn changed_rows_end_in_rows_or_an_error(changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..6)) {
        let bytes = small();
        let offsets = frames(&bytes);
        let mut payload = bytes[offsets[2] + 12..offsets[3]].to_vec();
        for (at, byte) in changes {
            let at = at % payload.len();
            payload[at] = byte;
        }
        check_rows(&payload);
    }

    #[test]
    fn changed_headers_and_footers_end_in_an_error_or_a_recording(
        at in any::<usize>(), byte in any::<u8>(), last in any::<bool>(),
    ) {
        let bytes = small();
        let offsets = frames(&bytes);
        let payload = |n: usize| bytes[offsets[n] + 12..offsets[n + 1]].to_vec();
        let (mut header, mut footer) = (payload(0), payload(4));
        let changed = if last { &mut footer } else { &mut header };
        let at = at % changed.len();
        changed[at] = byte;
        let _ = read(&framed(&[
            (*b"HEAD", &header), (*b"ROWS", &payload(2)), (*b"ROWS", &payload(3)), (*b"FOOT", &footer),
        ]));
    }
}
