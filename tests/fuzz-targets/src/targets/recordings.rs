//! Samples, recordings, marker boards and files of code.

use std::os::unix::fs::FileExt;

use cyclometer_core::Count;
use cyclometer_core::window::WindowRow;
use cyclometer_marker::board::Board;
use cyclometer_recording::{Recording, RecordingFooter, RecordingHeader, RecordingWriter};
use cyclometer_symbols::{DebugPart, ObjectFile};
use cyclometer_sys::ring::{Extent, Format, Record, Records};

use super::choice;

/// Supported fields of samples and of readings.
const FIELDS: (u64, u64) = (0x1_03df, 0x1f);

/// Records or an error, for any contents and any end of a ring; no record is read twice. The first 26 bytes
/// are the format and the position.
pub(super) fn records(bytes: &[u8]) {
    let Some((head, ring)) = bytes.split_first_chunk::<26>() else { return };
    let (words, unread) = head.as_chunks::<8>();
    let [sample, read, tail] = [words[0], words[1], words[2]].map(u64::from_le_bytes);
    let unread = u16::from_le_bytes([unread[0], unread[1]]);
    let Ok(format) = Format::new(sample & FIELDS.0, read & FIELDS.1) else {
        unreachable!("all fields are supported")
    };
    let Ok(extent) = Extent::new(ring.len(), tail, tail.wrapping_add(unread.into())) else { return };
    let (mut records, mut joined) = (Records::new(&ring[extent.older], &ring[extent.newer]), Vec::new());
    let mut read = 0;
    while let Ok(Some(record)) = records.next(&mut joined) {
        read += record.len();
        assert!(read <= usize::from(unread), "bytes are read twice");
        if let Ok(Record::Sample(sample)) = Record::parse(record, format) {
            assert!(sample.read.is_none_or(|read| read.values.len() <= record.len() / 8));
        }
    }
}

/// A header with two events and a boundary.
const HEADER: &[u8] = br#"{"tool":"t","boundaries":[{"event":0,"period":9}],"events":[
    {"name":"a","unit":"count","scale":"1","source":"soft","provenance":"counted"},
    {"name":"b","unit":"J","scale":"0.5","source":"perf","provenance":"kernel","modes":"uk"}]}"#;

/// Rows or an error; rows are written and read back unchanged. The first byte says whether the rest is a
/// file, a header or rows.
pub(super) fn recording(bytes: &[u8]) {
    let Some((kind, bytes)) = choice(bytes) else { return };
    let file = match kind % 3 {
        0 => bytes.to_vec(),
        1 => framed(&[(*b"HEAD", bytes)]),
        _ => framed(&[(*b"HEAD", HEADER), (*b"ROWS", bytes)]),
    };
    let Some((header, rows)) = read(&file) else { return };
    let Ok(mut writer) = RecordingWriter::new(Vec::new(), &header) else { panic!("the header was read") };
    assert!(writer.rows(&rows).is_ok(), "the rows were read");
    let totals = vec![Count::Exact(0); header.events.len()];
    let Ok(written) = writer.finish(&RecordingFooter { totals, ..RecordingFooter::default() }) else {
        panic!("there is a total for each event")
    };
    assert_eq!(read(&written), Some((header, rows)));
}

/// The header and the rows before the end or the first error.
fn read(bytes: &[u8]) -> Option<(RecordingHeader, Vec<WindowRow>)> {
    let recording = Recording::open(bytes).ok()?;
    Some((recording.header().clone(), recording.map_while(Result::ok).collect()))
}

/// Frames with right checksums, which random changes do not find.
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

/// Functions, lines and inlined functions of any offset, or an error.
pub(super) fn object_file(bytes: &[u8]) {
    let Ok(file) = tempfile::NamedTempFile::new() else { return };
    assert!(std::fs::write(file.path(), bytes).is_ok());
    for part in [DebugPart::Lines, DebugPart::InlinedFunctions] {
        let Ok(object) = ObjectFile::open(file.path(), part) else { return };
        for offset in [0, 0x40, 0x1000, bytes.len() as u64, u64::MAX] {
            let _ = (object.address(offset), object.function(offset), object.line(offset));
            let _ = (object.inlined_function(offset), object.missing());
        }
    }
}

/// Bytes of the head of a board, and the offset of the number of its rows, by the table of
/// `cyclometer_marker::board`.
const BOARD_HEAD: (usize, usize) = (8192, 40);

/// Most rows that the head of most boards claims. All 65,536 take a tenth of a second.
const FEW_ROWS: u64 = 64;

/// The head with few rows, but for one board of 64.
fn with_few_rows(head: &[u8]) -> Vec<u8> {
    let mut head = head.to_vec();
    let some = !head.len().is_multiple_of(64);
    if let Some(rows) = head.get_mut(BOARD_HEAD.1..).and_then(<[u8]>::first_chunk_mut::<8>).filter(|_| some) {
        *rows = u64::from_le_bytes(*rows).min(FEW_ROWS).to_le_bytes();
    }
    head
}

/// Rows of any contents of the memory. Bytes go to the head, and those beyond its 8 KiB to rows and names.
pub(super) fn marker_board(bytes: &[u8]) {
    /// The place of names, and the length of a part of the input that goes there.
    const NAMES: (u64, usize) = (BOARD_HEAD.0 as u64 + (1 << 16) * 336 * 8, 256);
    let Ok(board) = Board::make() else { return };
    let variable = board.variable();
    let path = variable.split_once('=').and_then(|(_, place)| place.rsplit_once('#'));
    let Some((path, _)) = path else { panic!("{variable} has no place") };
    let Ok(memory) = std::fs::OpenOptions::new().write(true).open(path) else { return };
    let (names, head) = bytes.split_at(bytes.len().min(NAMES.1));
    let head = with_few_rows(&head[..head.len().min(1 << 18)]);
    assert!(memory.write_all_at(&head, 0).is_ok() && memory.write_all_at(names, NAMES.0).is_ok());
    let rows = board.rows();
    assert!(rows.iter().all(|row| row.sums.len() == board.counters() && board.counters() <= 64));
    let _ = (board.attached(), board.other_version(), board.dropped(), board.cut());
    let _ = (board.is_out_of_rows(), board.is_out_of_names());
}
