//! Facts of machines, their registers, and configuration.

use cyclometer::config::Config;
use cyclometer_arch::{Chip, ChipCounters};
use cyclometer_backend::kdebug::{KdebugRecords, SampleRows, ThreadSamples};
use cyclometer_backend::registers::journal::Journal;
use cyclometer_core::CounterMask;
use cyclometer_detect::{FactRecorder, RecordedFacts, detect};
use cyclometer_exporter::config::ExporterConfig;

use super::choice;

/// A machine that was detected from a recording is the same from what the detection looked at.
pub(super) fn machine(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(facts) = RecordedFacts::parse(text) else { return };
    let recorder = FactRecorder::new(&facts);
    let machine = detect(&recorder);
    let Ok(again) = RecordedFacts::parse(&recorder.to_text("recorded: again")) else {
        panic!("a recording of a recording cannot be read")
    };
    assert_eq!(detect(&again), machine);
}

/// Steps with registers of the list, or an error. A journal is written back unchanged.
pub(super) fn journal(bytes: &[u8]) {
    let Ok(journal) = Journal::parse(bytes) else { return };
    let chip = Chip {
        pmu_version: Some(4),
        counters: ChipCounters::of(CounterMask::first(8, 4)),
        ..Chip::default()
    };
    let _ = journal.steps(&chip);
    assert_eq!(Journal::parse(journal.to_text().as_bytes()), Ok(journal));
}

/// Samples and rows of the right size, in bounded memory; the first byte is the number of counters.
pub(super) fn kdebug(bytes: &[u8]) {
    let Some((counters, bytes)) = choice(bytes) else { return };
    let counters = counters % 16;
    let (mut samples, mut rows) = (ThreadSamples::new(counters), SampleRows::new(1, vec![0, counters]));
    let mut count = 0;
    for record in KdebugRecords::new(bytes) {
        count += 1;
        if let Some(sample) = samples.add(record) {
            assert_eq!(sample.values.len(), counters.max(1));
            assert!(rows.add(&sample, 0).is_none_or(|row| row.counts.len() == 2));
        }
    }
    assert_eq!(count, bytes.len() / 64);
    assert!(samples.broken() <= 256 * (count as u64 + 1));
}

/// Settings or an error.
pub(super) fn configuration(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = Config::from_yaml(text);
}

/// Settings or an error with a line of the file.
pub(super) fn exporter_configuration(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(error) = ExporterConfig::parse(text) {
        assert!(!error.to_string().is_empty());
    }
}
