//! The trace buffer of macOS: samples and rows of the right size for any bytes, in bounded memory.
#![no_main]

use cyclometer_backend::kdebug::{KdebugRecords, SampleRows, ThreadSamples};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (counters, bytes) = input;
    let counters = usize::from(counters % 16);
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
});
