//! Files and messages of the software PMU.

use std::io::BufReader;

use cyclometer_soft::host::protocol::TracerReport;
use cyclometer_soft::host::stored_translations;
use cyclometer_soft::host::window_protocol::{WindowLine, read_answer};
use cyclometer_soft::profile::FileProfile;

use super::TranslationSample;

/// A profile that is written as it was read, or nothing. The checksum at the end is made right first: random
/// changes do not find it.
pub(super) fn execution_profile(bytes: &[u8]) {
    let _ = FileProfile::read(bytes);
    let body = &bytes[..bytes.len().saturating_sub(8)];
    let whole = [body, &checksum(body).to_le_bytes()].concat();
    if let Some(profile) = FileProfile::read(&whole) {
        assert_eq!(FileProfile::read(&profile.write()).map(|again| again.write()), Some(profile.write()));
    }
}

/// The checksum at the end of a profile, which has to be the one of `soft::pack`: the corpus' files are read.
fn checksum(bytes: &[u8]) -> u64 {
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    let mut lanes = [1, 2, 3, 4].map(|lane: u64| 0xcbf2_9ce4_8422_2325 ^ lane);
    let (rows, rest) = bytes.as_chunks::<32>();
    for row in rows {
        for (lane, word) in lanes.iter_mut().zip(row.as_chunks().0) {
            *lane = mix(*lane, u64::from_le_bytes(*word));
        }
    }
    let whole = lanes.into_iter().fold(mix(0, bytes.len() as u64), mix);
    rest.iter().fold(whole, |sum, byte| mix(sum, u64::from(*byte)))
}

/// A translation or nothing. Version and checksums are made right first: random changes do not find them.
pub(super) fn stored_translation(bytes: &[u8]) {
    if let Some(blocks) = stored_translations::read(bytes) {
        assert!(blocks as usize <= bytes.len(), "a block has some bytes");
    }
}

/// A stored translation of this version, and whether one is read; `None` where the translator fails.
pub(super) fn translation_sample() -> Option<TranslationSample> {
    Some((stored_translations::sample()?, |bytes| stored_translations::read(bytes).is_some()))
}

/// A report or an error. The path of a caller comes before the paths of its calls.
pub(super) fn tracer_report(bytes: &[u8]) {
    let Ok(report) = TracerReport::read(&mut BufReader::new(bytes)) else { return };
    let paths = report.code.paths.iter().zip(0..);
    assert!(paths.into_iter().all(|(path, number)| path.parent.is_none_or(|parent| parent < number)));
    assert!(report.processes.iter().all(|process| bytes.len() > process.name.len()));
    assert!(report.code.profile.runs().all(|(run, _)| run.bytes.len() <= bytes.len()));
}

/// A row or nothing, for each line.
pub(super) fn window_lines(bytes: &[u8]) {
    for line in String::from_utf8_lossy(bytes).lines() {
        let _ = (WindowLine::is_one(line), WindowLine::read(line), read_answer(line));
    }
}
