//! Files of strangers: whatever the bytes, a table or an error, never a panic, and soon.
#![allow(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::path::Path;

use cyclometer_import::read_file;
use proptest::prelude::*;

/// The examples, one or more of each format.
const EXAMPLES: [&str; 11] = [
    "own.txt",
    "intel.json",
    "linux-amd.json",
    "linux-arm.json",
    "linux-riscv.json",
    "linux-intel.json",
    "arm-data.json",
    "arm-telemetry.json",
    "kpep.plist",
    "kpep-binary.plist",
    "kpep.plist",
];

fn examples() -> Vec<Vec<u8>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    EXAMPLES.iter().map(|name| std::fs::read(data.join(name)).unwrap()).collect()
}

/// One change of a file.
#[derive(Clone, Debug)]
enum FileMutation {
    Set(usize, u8),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
    Repeat(usize, usize, usize),
    Truncate(usize),
}

/// Pieces of files of these formats, so that changes reach deep.
const PIECES: [&[u8]; 16] = [
    b"{",
    b"[",
    b"\"",
    b"<",
    b"</dict>",
    b"<dict>",
    b"<!--",
    b"&",
    b"0x",
    b"ffffffffffffffffff",
    b"-1",
    b",",
    b"\0",
    b"null",
    b"\xd0",
    b"1e400",
];

fn change() -> impl Strategy<Value = FileMutation> {
    let piece = prop::sample::select(PIECES.map(<[u8]>::to_vec).to_vec());
    prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| FileMutation::Set(at, byte)),
        (any::<usize>(), piece).prop_map(|(at, bytes)| FileMutation::Insert(at, bytes)),
        (any::<usize>(), 0..60usize).prop_map(|(at, length)| FileMutation::Remove(at, length)),
        (any::<usize>(), 0..200usize, 1..20usize)
            .prop_map(|(at, length, n)| FileMutation::Repeat(at, length, n)),
        any::<usize>().prop_map(FileMutation::Truncate),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &FileMutation) {
    let place = |at: usize| at % (bytes.len() + 1);
    match change {
        FileMutation::Set(at, byte) => {
            let at = place(*at);
            if let Some(old) = bytes.get_mut(at) {
                *old = *byte;
            }
        }
        FileMutation::Insert(at, piece) => {
            let at = place(*at);
            bytes.splice(at..at, piece.iter().copied());
        }
        FileMutation::Remove(at, length) => {
            let at = place(*at);
            bytes.drain(at..(at + length).min(bytes.len()));
        }
        FileMutation::Repeat(at, length, times) => {
            let at = place(*at);
            let part = bytes[at..(at + length).min(bytes.len())].repeat(*times);
            bytes.splice(at..at, part);
        }
        FileMutation::Truncate(length) => bytes.truncate(place(*length)),
    }
}

/// Reads without a CPU, with one of each family, and with a new one. An error is one line that can be shown.
fn read(bytes: &[u8]) {
    for cpu in [
        None,
        Some("skylake"),
        Some("amdzen4"),
        Some("neoverse-n1"),
        Some("riscv"),
        Some("apple-m1"),
        Some("new"),
    ] {
        match read_file(bytes, "file", cpu) {
            Ok(table) => {
                assert!(!table.events.is_empty() && !table.header.cpu.is_empty());
                let texts = table
                    .events
                    .iter()
                    .flat_map(|event| event.errata.iter().chain([&event.name, &event.about]));
                let header =
                    [&table.header.cpu, &table.header.title, &table.header.version, &table.header.licence];
                for text in texts.chain(header).chain(&table.header.sources).chain(&table.header.matches) {
                    assert!(!text.chars().any(char::is_control), "{text:?}");
                }
            }
            Err(error) => {
                let text = error.to_string();
                assert!(!text.is_empty() && text.len() < 2000, "{text}");
                assert!(!text.chars().any(char::is_control), "{text:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_end_in_a_table_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        read(&bytes);
    }

    #[test]
    fn any_bytes_behind_a_formats_start_end_in_a_table_or_an_error(
        start in prop::sample::select(vec![
            "bplist00", "<?xml?>", "<plist>", "<plist><dict><key>", "{\"Events\":[", "[{\"EventName\":\"A\",\"",
            "cyclometer-events 1\n", "{\"_type\":\"Events\",\"events\":[",
        ]),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        read(&[start.as_bytes(), &bytes].concat());
    }

    #[test]
    fn changed_files_end_in_a_table_or_an_error(
        which in 0..EXAMPLES.len(),
        changes in prop::collection::vec(change(), 1..6),
    ) {
        let mut bytes = examples().swap_remove(which);
        changes.iter().for_each(|change| apply(&mut bytes, change));
        read(&bytes);
    }
}

#[test]
fn every_truncation_of_every_example_ends_in_a_table_or_an_error() {
    for bytes in examples() {
        for length in 0..bytes.len() {
            let _ = read_file(&bytes[..length], "file", None);
        }
    }
}

#[test]
fn every_byte_of_a_binary_list_can_be_anything() {
    let good =
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/kpep-binary.plist")).unwrap();
    for at in 0..good.len() {
        for byte in [0, 1, 0x0f, 0x10, 0x1f, 0x5f, 0x7f, 0x80, 0xa1, 0xaf, 0xd1, 0xdf, 0xff] {
            let mut bytes = good.clone();
            bytes[at] = byte;
            let _ = read_file(&bytes, "file", None);
        }
    }
}

#[test]
fn large_and_deep_files_are_refused_soon() {
    let started = std::time::Instant::now();
    let deep = |open: &str| open.repeat(3_000_000).into_bytes();
    let long =
        |start: &str, piece: &str, end: &str| format!("{start}{}{end}", piece.repeat(3_000_000)).into_bytes();
    for bytes in [
        deep("["),
        deep("{\"a\":"),
        [b"<plist>".to_vec(), deep("<array>")].concat(),
        [b"<plist>".to_vec(), deep("<dict><key>a</key>")].concat(),
        long("[", "{},", "{}]"),
        long("{\"Events\":[", "0,", "0]}"),
        long("<plist><array>", "<true/>", "</array></plist>"),
        long("<plist><string>", "aaaa", "</string></plist>"),
        long("<plist>", "<!---->", "</plist>"),
        long("cyclometer-events 1\n", "# a\n", "cpu x\n[events]\n"),
        vec![b' '; (64 << 20) + 1],
        [b"bplist00".to_vec(), vec![0xaf; 65 << 20]].concat(),
    ] {
        assert!(read_file(&bytes, "file", None).is_err());
    }
    assert!(started.elapsed().as_secs() < 120, "{:?}", started.elapsed());
}
