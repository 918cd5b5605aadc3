//! Recordings are read as they were written.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use std::io::{self, Write};

use cyclometer_core::code_memory::{CodeMapping, CodeMemoryChange};
use cyclometer_core::plan::{Outcome, PlanLine};
use cyclometer_core::window::{WindowBoundary, WindowCause, WindowFlags, WindowRow, WindowThread};
use cyclometer_core::{
    Candidate, Count, Event, Interval, Modes, NoInterval, PartReason, Provenance, Rung, SlotId, Unit,
};
use cyclometer_recording::{
    MOST_COLUMNS, MOST_TEXT, RecordedBoundary, RecordedEvent, Recording, RecordingEnd, RecordingError,
    RecordingHeader, RecordingWriter,
};
use proptest::prelude::*;
use support::{event, footer, framed, header, odd_rows, read, row, written};

#[test]
fn the_header_rows_and_footer_are_read_as_they_were_written() {
    let batches = [odd_rows(), vec![], odd_rows(), vec![row(9)]];
    let bytes = written(&header(), &batches, &footer());
    let recording = Recording::open(&bytes[..]).unwrap();
    assert_eq!(recording.header(), &header());
    assert_eq!(recording.header().leader(), Some(0));
    let (rows, end) = read(&bytes).unwrap();
    assert_eq!(rows, batches.concat());
    assert_eq!(end.unwrap(), RecordingEnd::Complete(footer()));
}

#[test]
fn totals_are_those_of_the_footer_and_of_the_rows_where_it_is_missing() {
    let bytes = written(&header(), &[vec![row(1), row(2)], vec![row(4)]], &footer());
    let totals = |bytes: &[u8]| Recording::open(bytes).unwrap().into_totals();
    let complete = totals(&bytes).unwrap();
    assert_eq!((complete.totals, complete.elapsed_ns), (footer().totals, footer().elapsed_ns));
    assert!(complete.is_complete);
    // Without the footer, and without the last rows.
    let offsets = support::frames(&bytes);
    let without_footer = totals(&bytes[..offsets[offsets.len() - 2]]).unwrap();
    let raw: Vec<u64> = without_footer.totals.iter().filter_map(Count::value).collect();
    assert_eq!(raw, [3 * 512_000, 300_007, 7]);
    assert!(!without_footer.is_complete && without_footer.elapsed_ns.is_none());
    assert!(matches!(&without_footer.totals[0], Count::Partial { part: PartReason::BeforeEarlyEnd, .. }));
    let header_alone = totals(&bytes[..offsets[1]]).unwrap();
    assert!(header_alone.totals.iter().all(|count| matches!(count, Count::NotCounted { .. })));
}

#[test]
fn totals_of_a_damaged_recording_are_an_error() {
    let mut bytes = written(&header(), &[vec![row(1)], vec![row(2)]], &footer());
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    assert!(Recording::open(&bytes[..]).and_then(Recording::into_totals).is_err());
}

#[test]
fn an_event_that_no_row_counts_has_its_reason_as_a_total() {
    let lost = Count::Lost { reason: "the counter was taken".into() };
    let bare = WindowRow { counts: vec![Count::Exact(5), lost.clone(), lost.clone()], ..row(1) };
    let bytes = written(&header(), &[vec![bare]], &footer());
    let offsets = support::frames(&bytes);
    let cut = &bytes[..offsets[offsets.len() - 2]];
    let totals = Recording::open(cut).unwrap().into_totals().unwrap().totals;
    assert_eq!(totals[1..], [lost.clone(), lost]);
}

#[test]
fn a_recording_without_events_rows_or_clock_is_one() {
    let mut header = header();
    header.events.clear();
    header.boundaries.clear();
    (header.start_unix_ns, header.command) = (None, vec![]);
    header.target = Some("process 12".to_owned());
    let bytes = written(&header, &[], &Default::default());
    assert_eq!(Recording::open(&bytes[..]).unwrap().header(), &header);
    assert_eq!(read(&bytes).unwrap().1.unwrap(), RecordingEnd::Complete(Default::default()));
}

#[test]
fn events_boundaries_and_sources_are_recorded_as_a_plan_and_a_machine_have_them() {
    let candidate = Candidate {
        provenance: Provenance::Modelled,
        scale: 0.5,
        ..Candidate::soft("loads", Modes::USER_KERNEL)
    };
    let event = Event::new("loads", Unit::Bytes, vec![candidate]);
    let counted = Outcome::Counted { candidate: 0, filter: Some(Modes::USER), exclude_guest: false };
    let line = PlanLine { event, outcome: counted, skipped: Vec::new() };
    let recorded = RecordedEvent::of(&line);
    assert_eq!((recorded.name.as_str(), recorded.modes), ("loads:u", Some(Modes::USER)));
    assert_eq!((recorded.scale, recorded.source), (0.5, Some(Rung::Soft)));
    let reason = Count::NotSupported { reason: "no PMU".into() };
    let line = PlanLine { outcome: Outcome::NotCounted(reason), ..line };
    assert_eq!((RecordedEvent::of(&line).source, RecordedEvent::of(&line).provenance), (None, None));
    let events = vec![recorded, RecordedEvent::of(&line), support::event("e")];
    let header = RecordingHeader { events, ..header() };
    assert_eq!(Recording::open(&written(&header, &[], &footer())[..]).unwrap().header(), &header);
    let slots = [SlotId(4), SlotId(2)];
    let period = std::num::NonZeroU64::new(9).unwrap();
    let boundary =
        |slot| RecordedBoundary::of(&WindowBoundary::Events { slot: SlotId(slot), period }, &slots);
    assert_eq!(boundary(2), Some(RecordedBoundary::Events { event: 1, period }));
    assert_eq!(boundary(3), None);
}

#[test]
fn names_hold_for_the_rows_behind_them() {
    let thread = row(0).thread.unwrap();
    let mut writer = RecordingWriter::new(Vec::new(), &header()).unwrap();
    writer.rows(&[row(0)]).unwrap();
    writer.thread_name(thread, "sh").unwrap();
    writer.rows(&[row(1), row(2)]).unwrap();
    writer.thread_name(thread, &"ö".repeat(MOST_TEXT)).unwrap();
    writer.rows(&[row(3)]).unwrap();
    let bytes = writer.finish(&footer()).unwrap();
    let mut recording = Recording::open(&bytes[..]).unwrap();
    let mut names = Vec::new();
    while let Some(row) = recording.next() {
        row.unwrap();
        names.push(recording.thread_name(thread).map(|name| name.chars().count()));
    }
    assert_eq!(names, [None, Some(2), Some(2), Some(MOST_TEXT / 2)]);
    assert_eq!(recording.rows_read(), 4);
}

#[test]
fn mappings_hold_for_the_rows_behind_them() {
    let row = WindowRow { address: Some(0x40_1010), ..row(0) };
    let thread = row.thread.unwrap();
    let mapped = |file: &str| {
        let file = file.to_owned();
        CodeMemoryChange::Mapped(CodeMapping {
            pid: thread.pid,
            start: 0x40_1000,
            len: 0x20,
            offset: 0x1000,
            file,
        })
    };
    let long = "ö".repeat(MOST_TEXT);
    let changes: Vec<Vec<CodeMemoryChange>> = vec![
        vec![],
        (0..1000).map(|number| mapped(&format!("/bin/{number}"))).collect(),
        vec![CodeMemoryChange::Forked { pid: thread.pid, parent: 9 }],
        vec![mapped(&long), CodeMemoryChange::Executed { pid: 9 }],
        vec![CodeMemoryChange::Executed { pid: thread.pid }],
    ];
    let mut writer = RecordingWriter::new(Vec::new(), &header()).unwrap();
    for changes in &changes {
        writer.code_memory(changes).unwrap();
        writer.rows(std::slice::from_ref(&row)).unwrap();
    }
    let bytes = writer.finish(&footer()).unwrap();
    let mut recording = Recording::open(&*bytes).unwrap();
    let mut places = Vec::new();
    while let Some(row) = recording.next() {
        let place = recording.code_place(&row.unwrap());
        places.push(place.map(|place| (place.file.chars().count(), place.offset)));
    }
    assert_eq!(places, [None, Some((8, 0x1010)), None, Some((MOST_TEXT / 2, 0x1010)), None]);
}

#[test]
fn mappings_that_contradict_the_format_are_named() {
    for (wrong, problem) in [
        (r#"{"changes":[{"start":1}]}"#, "'pid' of a mapping is no number"),
        (r#"{"changes":[{"pid":1,"file":"/a","start":1,"length":2}]}"#, "'offset' of a mapping is no number"),
        (r#"{"changes":[{"pid":1,"parent":-1}]}"#, "'parent' of a mapping is no number"),
        (r#"{"changes":7}"#, "'changes' of a list of mappings is no list"),
    ] {
        let good = written(&header(), &[], &footer());
        let head = &good[support::frames(&good)[0] + 12..support::frames(&good)[1]];
        let bytes = framed(&[(*b"HEAD", head), (*b"code", wrong.as_bytes())]);
        let error = Recording::open(&*bytes).unwrap().find_map(Result::err).unwrap();
        assert!(error.to_string().contains(problem), "{error}");
    }
}

#[test]
fn a_frame_of_a_later_version_that_may_be_skipped_is_skipped() {
    let good = written(&header(), &[vec![row(1)]], &footer());
    let offsets = support::frames(&good);
    let payload = |n: usize| &good[offsets[n] + 12..offsets[n + 1]];
    let with = |tag| {
        framed(&[(*b"HEAD", payload(0)), (tag, b"new"), (*b"ROWS", payload(1)), (*b"FOOT", payload(2))])
    };
    assert_eq!(read(&with(*b"skip")).unwrap().0, [row(1)]);
    let error = read(&with(*b"MUST")).unwrap().1.unwrap_err();
    assert!(error.to_string().ends_with("it is of an unknown kind"), "{error}");
}

#[test]
fn rows_and_footers_that_contradict_the_header_are_refused_and_earlier_rows_stay() {
    let mut writer = RecordingWriter::new(Vec::new(), &header()).unwrap();
    let short = WindowRow { counts: vec![Count::Exact(1)], ..row(2) };
    let error = writer.rows(&[row(1), short, row(3)]).unwrap_err();
    assert_eq!(writer.rows_written(), 1);
    assert!(error.to_string().contains("a row has 1 counts, and the header 3 events"), "{error}");
    let error = writer.rows(&[WindowRow { cause: WindowCause::Boundary(2), ..row(2) }]).unwrap_err();
    assert!(error.to_string().contains("boundary 2"), "{error}");
    writer.rows(&[row(4)]).unwrap();
    let bytes = writer.finish(&footer()).unwrap();
    assert_eq!(read(&bytes).unwrap().0, [row(1), row(4)]);
    let writer = RecordingWriter::new(Vec::new(), &header()).unwrap();
    assert!(matches!(writer.finish(&Default::default()), Err(RecordingError::Unwritable { .. })));
}

#[test]
fn headers_that_contradict_themselves_are_refused() {
    let refused = |change: fn(&mut RecordingHeader)| {
        let mut header = header();
        change(&mut header);
        RecordingWriter::new(Vec::new(), &header).map(|_| ()).unwrap_err().to_string()
    };
    assert!(refused(|header| header.events = vec![event("e"); MOST_COLUMNS + 1]).contains("2048 events"));
    assert!(refused(|header| header.events.truncate(0)).contains("a boundary is of event 0"));
    assert!(refused(|header| header.events[1].scale = 0.0).contains("the scale of loads:u"));
    assert!(refused(|header| header.command = vec!["x".repeat(5 << 20)]).contains("the header has"));
    assert!(refused(|header| header.command = vec![String::new(); 300_000]).contains("JSON values"));
    let long = |header: &mut RecordingHeader| {
        header.boundaries = vec![RecordedBoundary::Interval(std::time::Duration::MAX)];
    };
    assert!(refused(long).contains("584 years"));
}

#[test]
fn brackets_and_commas_within_texts_are_no_values() {
    let text = vec!["[{,\"\\\\".repeat(100_000), "\"\\".repeat(10)];
    let header = RecordingHeader { command: text, ..header() };
    assert_eq!(Recording::open(&written(&header, &[], &footer())[..]).unwrap().header(), &header);
}

/// A disk with room for so many bytes.
struct Disk {
    bytes: Vec<u8>,
    room: usize,
}

impl Write for &mut Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len().min(self.room - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..length]);
        if length == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(length) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn rows_before_a_full_disk_can_be_read_and_later_ones_are_refused() {
    let whole = written(&header(), &[vec![row(1)], vec![row(2)], vec![row(3)]], &footer());
    let third = support::frames(&whole)[3];
    let mut disk = Disk { bytes: Vec::new(), room: third + 20 };
    let mut writer = RecordingWriter::new(&mut disk, &header()).unwrap();
    writer.rows(&[row(1)]).unwrap();
    writer.rows(&[row(2)]).unwrap();
    let full = writer.rows(&[row(3)]).unwrap_err();
    assert!(matches!(full, RecordingError::Io(error) if error.kind() == io::ErrorKind::StorageFull));
    assert!(matches!(writer.rows(&[row(4)]), Err(RecordingError::Io(_))));
    assert!(matches!(writer.finish(&footer()), Err(RecordingError::Io(_))));
    let (rows, end) = read(&disk.bytes).unwrap();
    assert_eq!(rows, [row(1), row(2)]);
    assert_eq!(end.unwrap(), RecordingEnd::Incomplete { offset: third as u64 });
}

#[test]
fn an_ordinary_row_takes_few_bytes() {
    let rows: Vec<WindowRow> = (0..10_000).map(row).collect();
    let bytes = written(&header(), &[rows], &footer());
    assert!(bytes.len() < 16 * 10_000, "{} bytes", bytes.len());
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just("taken".to_owned()), "\\PC{0,12}"]
}

fn interval() -> impl Strategy<Value = Interval> {
    prop_oneof![
        (any::<u64>(), any::<bool>())
            .prop_map(|(half_width, concentrated)| Interval::Known { half_width, concentrated }),
        text().prop_map(|text| Interval::Unknown { reason: NoInterval::Reported(text) }),
    ]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0..1000u64, Just(512_000)]
}

fn count() -> impl Strategy<Value = Count> {
    prop_oneof![
        8 => number().prop_map(Count::Exact),
        1 => (number(), number(), number(), number(), interval()).prop_map(
            |(raw, estimate, time_enabled_ns, time_running_ns, interval)| Count::Scaled {
                raw, estimate, time_enabled_ns, time_running_ns, interval
            }
        ),
        1 => (number(), text()).prop_map(|(raw, part)| Count::Partial { raw, part: part.into() }),
        1 => text().prop_map(|reason| Count::NotCounted { reason: reason.into() }),
        1 => text().prop_map(|reason| Count::NotSupported { reason: reason.into() }),
        1 => text().prop_map(|reason| Count::Lost { reason: reason.into() }),
    ]
}

fn cause() -> impl Strategy<Value = WindowCause> {
    prop_oneof![
        (0..2usize).prop_map(WindowCause::Boundary),
        Just(WindowCause::Exec),
        Just(WindowCause::End),
        Just(WindowCause::CountersLost),
        Just(WindowCause::Unassigned),
    ]
}

fn flags() -> impl Strategy<Value = WindowFlags> {
    (any::<Option<u32>>(), any::<Option<u32>>(), any::<bool>(), prop_oneof![Just(0), any::<u64>()]).prop_map(
        |(switches, migrations, throttled, lost_before)| WindowFlags {
            switches,
            migrations,
            throttled,
            lost_before,
        },
    )
}

prop_compose! {
    fn any_row()(
        ids in prop::option::of((any::<u32>(), any::<u32>())),
        cpu in any::<Option<u32>>(),
        numbers in prop::array::uniform4(prop::option::of(number())),
        cause in cause(),
        counts in prop::collection::vec(count(), 3),
        flags in flags(),
    ) -> WindowRow {
        let [time_ns, address, enabled_ns, running_ns] = numbers;
        let thread = ids.map(|(pid, tid)| WindowThread { pid, tid });
        WindowRow { thread, cpu, time_ns, address, cause, counts, enabled_ns, running_ns, flags }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_are_read_as_they_were_written(
        batches in prop::collection::vec(prop::collection::vec(any_row(), 0..8), 0..5),
        totals in prop::collection::vec(count(), 3),
    ) {
        let footer = cyclometer_recording::RecordingFooter { totals, ..footer() };
        let (rows, end) = read(&written(&header(), &batches, &footer)).unwrap();
        prop_assert_eq!(rows, batches.concat());
        prop_assert_eq!(end.unwrap(), RecordingEnd::Complete(footer));
    }
}
