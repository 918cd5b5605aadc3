//! Rings of samples: records or an error, for any contents and any end; no record is read twice.
#![no_main]

use cyclometer_sys::ring::{Extent, Format, Record, Records};
use libfuzzer_sys::fuzz_target;

/// Supported fields of samples and of readings.
const FIELDS: (u64, u64) = (0x1_03df, 0x1f);

fuzz_target!(|input: (u64, u64, u64, u16, &[u8])| {
    let (sample, read, tail, unread, ring) = input;
    let Ok(format) = Format::new(sample & FIELDS.0, read & FIELDS.1) else {
        unreachable!("all are understood")
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
});
