//! The fields of records and readings.

use std::error::Error;
use std::fmt;

/// Bits of an event's `sample_type`: the fields of a sample.
///
/// # Source
///
/// Linux `include/uapi/linux/perf_event.h`, `enum perf_event_sample_format`.
pub mod sample_type {
    /// The address of the instruction.
    pub const IP: u64 = 1 << 0;
    /// Process and thread.
    pub const TID: u64 = 1 << 1;
    /// The time of the sample.
    pub const TIME: u64 = 1 << 2;
    /// The address that was accessed.
    pub const ADDR: u64 = 1 << 3;
    /// The counts of the event, or of its group.
    pub const READ: u64 = 1 << 4;
    /// The event, after other fields.
    pub const ID: u64 = 1 << 6;
    /// The CPU.
    pub const CPU: u64 = 1 << 7;
    /// Events since the sample before. With it, events that the kernel counts itself are sampled each time
    /// (`perf_swevent_event` in Linux `kernel/events/core.c`).
    pub const PERIOD: u64 = 1 << 8;
    /// The event, also where it was inherited.
    pub const STREAM_ID: u64 = 1 << 9;
    /// The event, before all other fields.
    pub const IDENTIFIER: u64 = 1 << 16;

    pub(crate) const KNOWN: u64 = IP | TID | TIME | ADDR | READ | ID | CPU | PERIOD | STREAM_ID | IDENTIFIER;
}

/// Bits of an event's `read_format`: the fields of a reading, by `read(2)` and in samples.
///
/// # Source
///
/// Linux `include/uapi/linux/perf_event.h`, `enum perf_event_read_format`.
pub mod read_format {
    /// How long it was enabled.
    pub const TIME_ENABLED: u64 = 1 << 0;
    /// How long it was on a counter.
    pub const TIME_RUNNING: u64 = 1 << 1;
    /// The event of each value.
    pub const ID: u64 = 1 << 2;
    /// The values of the whole group.
    pub const GROUP: u64 = 1 << 3;
    /// Samples that were lost because the buffer was full; since Linux 6.0.
    pub const LOST: u64 = 1 << 4;

    pub(crate) const KNOWN: u64 = TIME_ENABLED | TIME_RUNNING | ID | GROUP | LOST;
}

/// The fields of an event's samples and readings. Only known fields can be requested: after unknown ones, the
/// position of the next field would be unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Format {
    sample: u64,
    read: u64,
}

/// Unknown fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownFields {
    /// Bits of the `sample_type`.
    pub sample_type: u64,
    /// Bits of the `read_format`.
    pub read_format: u64,
}

impl Format {
    /// Samples with these bits of [`sample_type`], readings with these of [`read_format`].
    ///
    /// # Errors
    ///
    /// The unknown bits.
    pub fn new(sample: u64, read: u64) -> Result<Format, UnknownFields> {
        match (sample & !sample_type::KNOWN, read & !read_format::KNOWN) {
            (0, 0) => Ok(Format { sample, read }),
            (sample_type, read_format) => Err(UnknownFields { sample_type, read_format }),
        }
    }

    /// Whether a sample has a field.
    pub fn samples(self, bit: u64) -> bool {
        self.sample & bit != 0
    }

    /// Whether a reading has a field.
    pub fn reads(self, bit: u64) -> bool {
        self.read & bit != 0
    }

    /// The bits of [`sample_type`].
    pub fn sample_type(self) -> u64 {
        self.sample
    }

    /// The bits of [`read_format`].
    pub fn read_format(self) -> u64 {
        self.read
    }
}

impl fmt::Display for UnknownFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "samples with the fields {:#x} and readings with {:#x} are not understood",
            self.sample_type, self.read_format
        )
    }
}

impl Error for UnknownFields {}

#[cfg(test)]
mod tests {
    use super::*;

    /// `PERF_SAMPLE_CALLCHAIN`.
    const CALLCHAIN: u64 = 1 << 5;

    #[test]
    fn fields_that_are_not_understood_are_named() {
        let format = Format::new(sample_type::IP | sample_type::READ, read_format::GROUP).unwrap();
        assert!(format.samples(sample_type::IP) && !format.samples(sample_type::TID));
        assert!(format.reads(read_format::GROUP) && !format.reads(read_format::LOST));
        let error = Format::new(sample_type::IP | CALLCHAIN, 1 << 63).unwrap_err();
        assert_eq!(error, UnknownFields { sample_type: CALLCHAIN, read_format: 1 << 63 });
        assert!(error.to_string().contains("0x20"), "{error}");
    }
}
