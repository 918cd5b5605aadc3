//! One record: its header, and the fields that were requested for its event.
//!
//! # Source
//!
//! Linux `include/uapi/linux/perf_event.h`, `enum perf_event_type`; `kernel/events/core.c`,
//! `perf_output_sample` and `perf_output_read`, for the order of the fields.

use super::RingError;
use super::format::{Format, read_format, sample_type};

/// Bytes of a header: kind, flags, size.
pub(crate) const HEADER: usize = 8;

/// Kinds of records that are parsed.
///
/// # Source
///
/// Linux `include/uapi/linux/perf_event.h`, `enum perf_event_type`.
pub mod kind {
    /// The buffer had no room for some records.
    pub const LOST: u32 = 2;
    /// A thread changed its name, or executed a program.
    pub const COMM: u32 = 3;
    /// A thread ended.
    pub const EXIT: u32 = 4;
    /// The event is stopped until the next tick, because it interrupts too often.
    pub const THROTTLE: u32 = 5;
    /// The event continues.
    pub const UNTHROTTLE: u32 = 6;
    /// A thread created another one, or a process.
    pub const FORK: u32 = 7;
    /// A sample.
    pub const SAMPLE: u32 = 9;
    /// A process mapped a file.
    pub const MMAP2: u32 = 10;
    /// The hardware had no room for some samples.
    pub const LOST_SAMPLES: u32 = 13;
    /// The thread got a CPU, or lost it.
    pub const SWITCH: u32 = 14;
}

/// The code that a sample interrupted.
///
/// # Source
///
/// Linux `include/uapi/linux/perf_event.h`, `PERF_RECORD_MISC_CPUMODE_MASK`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The kernel does not report it.
    Unknown,
    /// The kernel.
    Kernel,
    /// A program.
    User,
    /// A hypervisor.
    Hypervisor,
    /// The kernel of a guest.
    GuestKernel,
    /// A program in a guest.
    GuestUser,
}

/// A record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// A counter overflowed.
    Sample(SampleRecord),
    /// The buffer had no room for this many records since the one before.
    Lost {
        /// The event.
        id: u64,
        /// Number of records.
        records: u64,
    },
    /// The hardware had no room for this many samples.
    LostSamples {
        /// Number of samples.
        samples: u64,
    },
    /// The event does not count from here to the next [`Record::Unthrottled`].
    Throttled {
        /// Time in ns of the event's clock.
        time_ns: u64,
        /// The event.
        id: u64,
    },
    /// The event counts again.
    Unthrottled {
        /// Time in ns of the event's clock.
        time_ns: u64,
        /// The event.
        id: u64,
    },
    /// The thread created this one.
    Forked(ForkRecord),
    /// This thread ended.
    Ended(TaskRecord),
    /// The thread got a CPU.
    SwitchedIn {
        /// The CPU, where records have one.
        cpu: Option<u32>,
    },
    /// The thread lost its CPU.
    SwitchedOut,
    /// A process mapped executable memory.
    Mapped(MappingRecord),
    /// A process executed another program, and its mappings are gone.
    Executed {
        /// The process.
        pid: u32,
    },
    /// Another record: threads that change their names.
    Other {
        /// The kind.
        kind: u32,
    },
}

/// The thread of a record about threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskRecord {
    /// Its process.
    pub pid: u32,
    /// Its id.
    pub tid: u32,
    /// Time in ns of the event's clock.
    pub time_ns: u64,
}

/// A thread that began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForkRecord {
    /// The new thread.
    pub task: TaskRecord,
    /// The process that created it: its own, unless it is the first thread of a process.
    pub parent_pid: u32,
}

/// Executable memory of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MappingRecord {
    /// The process.
    pub pid: u32,
    /// The first address.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// The offset of the first byte in the file.
    pub offset: u64,
    /// The path of the file; a name of the kernel such as `[vdso]` or `//anon` where there is none.
    pub file: Vec<u8>,
}

/// A sample; `None` for a field that was not requested.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SampleRecord {
    /// The code that was interrupted.
    pub mode: Mode,
    /// Whether the address is that of the instruction which caused the sample, and not of a later one.
    pub is_exact_ip: bool,
    /// Address of an instruction.
    pub ip: Option<u64>,
    /// The process; `None` where it has ended, or was not requested.
    pub pid: Option<u32>,
    /// The thread; `None` where it has ended, or was not requested.
    pub tid: Option<u32>,
    /// Time in ns of the event's clock.
    pub time_ns: Option<u64>,
    /// The address that was accessed; `None` also where the event does not report it.
    pub addr: Option<u64>,
    /// The event.
    pub id: Option<u64>,
    /// The event, also where it was inherited.
    pub stream_id: Option<u64>,
    /// The CPU.
    pub cpu: Option<u32>,
    /// Events since the sample before.
    pub period_events: Option<u64>,
    /// The counts.
    pub read: Option<Read>,
}

/// The counts of an event, or of a group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Read {
    /// How long it was enabled, in ns.
    pub time_enabled_ns: Option<u64>,
    /// How long it was on a counter, in ns.
    pub time_running_ns: Option<u64>,
    /// One value, or one for each event of a group, its leader first.
    pub values: Vec<EventValue>,
}

/// The value of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventValue {
    /// The raw value.
    pub value: u64,
    /// The event.
    pub id: Option<u64>,
    /// Number of samples that were lost because the buffer was full.
    pub lost: Option<u64>,
}

impl Record {
    /// Parses a whole record, including its header. All records are parsed to their last byte, except those
    /// of other kinds.
    ///
    /// # Errors
    ///
    /// [`RingError::Size`] for an incomplete record, [`RingError::Body`] for fields that do not fit it.
    pub fn parse(bytes: &[u8], format: Format) -> Result<Record, RingError> {
        let (size, mut fields) = (bytes.len(), Fields(bytes));
        let (kind, misc, claimed) = fields.header().ok_or(RingError::Size { size: 0, left: size })?;
        if usize::from(claimed) != size {
            return Err(RingError::Size { size: claimed.into(), left: size });
        }
        fields.body(kind, misc, format).ok_or(RingError::Body { kind, size })
    }
}

impl Read {
    /// Parses the result of `read(2)` for an event of this format; `None` where it does not fit.
    pub fn parse(bytes: &[u8], format: Format) -> Option<Read> {
        let mut fields = Fields(bytes);
        fields.read(format).filter(|_| fields.0.is_empty())
    }
}

/// The bytes that remain to be parsed.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn half(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    fn word(&mut self) -> Option<u64> {
        self.take().map(u64::from_ne_bytes)
    }

    fn header(&mut self) -> Option<(u32, u16, u16)> {
        Some((self.half()?, self.take().map(u16::from_ne_bytes)?, self.take().map(u16::from_ne_bytes)?))
    }

    /// A word, if it was requested; the outer `None` means that the bytes end before it.
    #[expect(clippy::option_option, reason = "not asked for, and not there, are two things")]
    fn word_if(&mut self, asked: bool) -> Option<Option<u64>> {
        if asked { self.word().map(Some) } else { Some(None) }
    }

    /// Two halves, if they were requested.
    fn halves_if(&mut self, asked: bool) -> Option<(Option<u32>, Option<u32>)> {
        if asked { Some((Some(self.half()?), Some(self.half()?))) } else { Some((None, None)) }
    }

    /// The kernel may append identifying fields to all records except samples.
    fn body(&mut self, kind: u32, misc: u16, format: Format) -> Option<Record> {
        Some(match kind {
            kind::SAMPLE => Record::Sample(self.sample(misc, format).filter(|_| self.0.is_empty())?),
            kind::LOST => Record::Lost { id: self.word()?, records: self.word()? },
            kind::LOST_SAMPLES => Record::LostSamples { samples: self.word()? },
            kind::THROTTLE => Record::Throttled { time_ns: self.word()?, id: self.word()? },
            kind::UNTHROTTLE => Record::Unthrottled { time_ns: self.word()?, id: self.word()? },
            kind::FORK => Record::Forked(self.fork()?),
            kind::MMAP2 => Record::Mapped(self.mapping()?),
            kind::COMM if misc & COMM_EXEC != 0 => Record::Executed { pid: self.half()? },
            kind::EXIT => Record::Ended(self.task()?),
            kind::SWITCH if misc & SWITCH_OUT != 0 => Record::SwitchedOut,
            kind::SWITCH => Record::SwitchedIn { cpu: self.cpu_of_trailer(format) },
            kind => Record::Other { kind },
        })
    }

    /// Process, its parent, thread, its parent, time.
    fn fork(&mut self) -> Option<ForkRecord> {
        let (pid, parent_pid) = (self.half()?, self.half()?);
        let (tid, _parent) = (self.half()?, self.half()?);
        Some(ForkRecord { task: TaskRecord { pid, tid, time_ns: self.word()? }, parent_pid })
    }

    fn task(&mut self) -> Option<TaskRecord> {
        self.fork().map(|fork| fork.task)
    }

    /// Process, thread, address, length, offset; the file's identity, or its build id, in 24 bytes;
    /// protection and flags; the path up to a zero.
    fn mapping(&mut self) -> Option<MappingRecord> {
        let (pid, _tid) = (self.half()?, self.half()?);
        let (start, len, offset) = (self.word()?, self.word()?, self.word()?);
        let (_identity, _protection) = (self.take::<24>()?, self.word()?);
        let end = self.0.iter().position(|byte| *byte == 0)?;
        Some(MappingRecord { pid, start, len, offset, file: self.0[..end].to_vec() })
    }

    /// The CPU among the identifying fields at the end of a record. Their order is that of the kernel's
    /// `__perf_event__output_id_sample`.
    fn cpu_of_trailer(&mut self, format: Format) -> Option<u32> {
        use sample_type as has;
        for before in [has::TID, has::TIME, has::ID, has::STREAM_ID] {
            self.word_if(format.samples(before))?;
        }
        self.halves_if(format.samples(has::CPU))?.0
    }

    /// The order is that of the kernel's `perf_output_sample`.
    fn sample(&mut self, misc: u16, format: Format) -> Option<SampleRecord> {
        use sample_type as has;
        let identifier = self.word_if(format.samples(has::IDENTIFIER))?;
        let ip = self.word_if(format.samples(has::IP))?;
        let (pid, tid) = self.halves_if(format.samples(has::TID))?;
        // The kernel writes -1 for a task that has ended.
        let is_task = |id: &u32| *id != u32::MAX;
        let (pid, tid) = (pid.filter(is_task), tid.filter(is_task));
        let time_ns = self.word_if(format.samples(has::TIME))?;
        // The kernel writes 0 for an event that reports no address.
        let addr = self.word_if(format.samples(has::ADDR))?.filter(|addr| *addr != 0);
        let id = self.word_if(format.samples(has::ID))?;
        let stream_id = self.word_if(format.samples(has::STREAM_ID))?;
        let (cpu, _reserved) = self.halves_if(format.samples(has::CPU))?;
        let period_events = self.word_if(format.samples(has::PERIOD))?;
        let read = if format.samples(has::READ) { Some(self.read(format)?) } else { None };
        let (mode, is_exact_ip, id) = (Mode::of(misc), misc & EXACT_IP != 0, identifier.or(id));
        Some(SampleRecord {
            mode,
            is_exact_ip,
            ip,
            pid,
            tid,
            time_ns,
            addr,
            id,
            stream_id,
            cpu,
            period_events,
            read,
        })
    }

    /// The order is that of the kernel's `perf_output_read_group` and `perf_output_read_one`.
    fn read(&mut self, format: Format) -> Option<Read> {
        use read_format as has;
        let of_group = format.reads(has::GROUP);
        let first = self.word()?;
        let time_enabled_ns = self.word_if(format.reads(has::TIME_ENABLED))?;
        let time_running_ns = self.word_if(format.reads(has::TIME_RUNNING))?;
        let values = match of_group {
            true => self.values(first, format)?,
            false => vec![self.value(first, format)?],
        };
        Some(Read { time_enabled_ns, time_running_ns, values })
    }

    /// The allocation is limited by the number of bytes, whatever number of values is claimed.
    fn values(&mut self, number: u64, format: Format) -> Option<Vec<EventValue>> {
        let number = usize::try_from(number).ok().filter(|number| *number <= self.0.len() / 8)?;
        let mut values = Vec::with_capacity(number);
        for _ in 0..number {
            let value = self.word()?;
            values.push(self.value(value, format)?);
        }
        Some(values)
    }

    fn value(&mut self, value: u64, format: Format) -> Option<EventValue> {
        let id = self.word_if(format.reads(read_format::ID))?;
        let lost = self.word_if(format.reads(read_format::LOST))?;
        Some(EventValue { value, id, lost })
    }
}

/// `PERF_RECORD_MISC_SWITCH_OUT`.
const SWITCH_OUT: u16 = 1 << 13;

/// `PERF_RECORD_MISC_COMM_EXEC`.
const COMM_EXEC: u16 = 1 << 13;

/// `PERF_RECORD_MISC_EXACT_IP`.
const EXACT_IP: u16 = 1 << 14;

impl Mode {
    fn of(misc: u16) -> Mode {
        match misc & 7 {
            1 => Mode::Kernel,
            2 => Mode::User,
            3 => Mode::Hypervisor,
            4 => Mode::GuestKernel,
            5 => Mode::GuestUser,
            _ => Mode::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
        let size = u16::try_from(HEADER + words.len() * 8).unwrap();
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(misc.to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    fn two(first: u32, second: u32) -> u64 {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&first.to_ne_bytes());
        bytes[4..].copy_from_slice(&second.to_ne_bytes());
        u64::from_ne_bytes(bytes)
    }

    fn all_fields() -> Format {
        Format::new(sample_type::KNOWN, read_format::KNOWN).unwrap()
    }

    /// The words that the kernel writes for all fields, in its order.
    const SAMPLE: [u64; 18] =
        [70, 0x40_1000, 0, 9_000, 0xbeef, 71, 72, 0, 1_000, 2, 500, 400, 11, 70, 3, 12, 73, 0];

    fn sample() -> Vec<u8> {
        let mut words = SAMPLE;
        (words[2], words[7]) = (two(21, 22), two(5, 0));
        bytes(kind::SAMPLE, 2 | EXACT_IP, &words)
    }

    #[test]
    fn every_field_of_a_sample_is_where_the_kernel_puts_it() {
        let values = vec![
            EventValue { value: 11, id: Some(70), lost: Some(3) },
            EventValue { value: 12, id: Some(73), lost: Some(0) },
        ];
        let expected = SampleRecord {
            mode: Mode::User,
            is_exact_ip: true,
            ip: Some(0x40_1000),
            pid: Some(21),
            tid: Some(22),
            time_ns: Some(9_000),
            addr: Some(0xbeef),
            id: Some(70),
            stream_id: Some(72),
            cpu: Some(5),
            period_events: Some(1_000),
            read: Some(Read { time_enabled_ns: Some(500), time_running_ns: Some(400), values }),
        };
        assert_eq!(Record::parse(&sample(), all_fields()), Ok(Record::Sample(expected)));
    }

    #[test]
    fn a_task_that_has_ended_has_no_id() {
        let mut words = SAMPLE;
        (words[2], words[7]) = (two(u32::MAX, u32::MAX), two(5, 0));
        let bytes = bytes(kind::SAMPLE, 2 | EXACT_IP, &words);
        let Ok(Record::Sample(sample)) = Record::parse(&bytes, all_fields()) else { panic!("no sample") };
        assert_eq!((sample.pid, sample.tid, sample.cpu), (None, None, Some(5)));
    }

    #[test]
    fn fields_that_were_not_asked_for_take_no_room() {
        let format = Format::new(sample_type::IP | sample_type::PERIOD, 0).unwrap();
        let Ok(Record::Sample(sample)) = Record::parse(&bytes(kind::SAMPLE, 1, &[7, 8]), format) else {
            panic!("no sample");
        };
        assert_eq!((sample.ip, sample.period_events, sample.mode), (Some(7), Some(8), Mode::Kernel));
        assert_eq!((sample.tid, sample.read, sample.id, sample.is_exact_ip), (None, None, None, false));
        let one = Format::new(sample_type::READ, read_format::TIME_ENABLED | read_format::ID).unwrap();
        let Ok(Record::Sample(sample)) = Record::parse(&bytes(kind::SAMPLE, 0, &[5, 6, 7]), one) else {
            panic!("no sample");
        };
        let values = vec![EventValue { value: 5, id: Some(7), lost: None }];
        assert_eq!(sample.read, Some(Read { time_enabled_ns: Some(6), time_running_ns: None, values }));
    }

    #[test]
    fn what_is_lost_and_throttled_is_told_and_the_rest_is_skipped() {
        let parse = |kind, words: &[u64]| Record::parse(&bytes(kind, 0, words), all_fields()).unwrap();
        assert_eq!(parse(kind::LOST, &[4, 9]), Record::Lost { id: 4, records: 9 });
        assert_eq!(parse(kind::LOST, &[4, 9, 1, 2, 3]), Record::Lost { id: 4, records: 9 });
        assert_eq!(parse(kind::LOST_SAMPLES, &[8]), Record::LostSamples { samples: 8 });
        assert_eq!(parse(kind::THROTTLE, &[1, 2, 3]), Record::Throttled { time_ns: 1, id: 2 });
        assert_eq!(parse(kind::UNTHROTTLE, &[1, 2, 3]), Record::Unthrottled { time_ns: 1, id: 2 });
        for other in [1, 3, 99, u32::MAX] {
            assert_eq!(parse(other, &[1, 2]), Record::Other { kind: other });
        }
    }

    #[test]
    fn threads_that_begin_end_and_switch_are_told() {
        let words = [two(30, 20), two(31, 21), 9_000, two(30, 31), 9_001, 70];
        let task = TaskRecord { pid: 30, tid: 31, time_ns: 9_000 };
        let parse = |kind, misc, words: &[u64]| Record::parse(&bytes(kind, misc, words), all_fields());
        let fork = ForkRecord { task, parent_pid: 20 };
        assert_eq!(parse(kind::FORK, 0, &words), Ok(Record::Forked(fork)));
        assert_eq!(parse(kind::EXIT, 0, &words), Ok(Record::Ended(task)));
        assert_eq!(parse(kind::FORK, 0, &words[..2]), Err(RingError::Body { kind: 7, size: 24 }));
        let trailer = [two(30, 31), 9_000, 71, 72, two(5, 0), 70];
        assert_eq!(parse(kind::SWITCH, 0, &trailer), Ok(Record::SwitchedIn { cpu: Some(5) }));
        assert_eq!(parse(kind::SWITCH, 0, &[]), Ok(Record::SwitchedIn { cpu: None }));
        assert_eq!(parse(kind::SWITCH, SWITCH_OUT, &trailer), Ok(Record::SwitchedOut));
    }

    #[test]
    fn mappings_and_programs_that_are_executed_are_told() {
        let path = u64::from_ne_bytes(*b"/bin/sh\0");
        let words = [two(30, 31), 0x40_0000, 0x2000, 0x1000, 1, 2, 3, two(5, 2), path, two(30, 31), 70];
        let parse = |kind, misc, words: &[u64]| Record::parse(&bytes(kind, misc, words), all_fields());
        let mapping = MappingRecord {
            pid: 30,
            start: 0x40_0000,
            len: 0x2000,
            offset: 0x1000,
            file: b"/bin/sh".to_vec(),
        };
        assert_eq!(parse(kind::MMAP2, 2, &words), Ok(Record::Mapped(mapping)));
        for cut in 0..9 {
            let error = parse(kind::MMAP2, 2, &words[..cut]).unwrap_err();
            assert_eq!(error, RingError::Body { kind: 10, size: HEADER + 8 * cut });
        }
        let name = [two(30, 31), path, 70];
        assert_eq!(parse(kind::COMM, COMM_EXEC, &name), Ok(Record::Executed { pid: 30 }));
        assert_eq!(parse(kind::COMM, 0, &name), Ok(Record::Other { kind: 3 }));
    }

    #[test]
    fn a_record_that_its_fields_do_not_fill_is_malformed() {
        let format = Format::new(sample_type::IP | sample_type::TIME, 0).unwrap();
        let body = |kind, words: &[u64]| Record::parse(&bytes(kind, 0, words), format).unwrap_err();
        assert_eq!(body(kind::SAMPLE, &[1]), RingError::Body { kind: 9, size: 16 });
        assert_eq!(body(kind::SAMPLE, &[1, 2, 3]), RingError::Body { kind: 9, size: 32 });
        assert_eq!(body(kind::LOST, &[1]), RingError::Body { kind: 2, size: 16 });
        let short = Record::parse(&sample()[..64], all_fields()).unwrap_err();
        assert_eq!(short, RingError::Size { size: sample().len(), left: 64 });
        assert_eq!(Record::parse(&[], format), Err(RingError::Size { size: 0, left: 0 }));
    }

    #[test]
    fn a_group_that_claims_more_events_than_there_are_bytes_is_malformed() {
        let format = Format::new(sample_type::READ, read_format::GROUP).unwrap();
        for number in [2, 3, 1 << 40, u64::MAX] {
            let record = bytes(kind::SAMPLE, 0, &[number, 5]);
            assert_eq!(Record::parse(&record, format), Err(RingError::Body { kind: 9, size: 24 }));
        }
    }

    #[test]
    fn a_reading_is_read_to_its_last_byte() {
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let format = Format::new(0, read_format::GROUP | read_format::ID).unwrap();
        let read = Read::parse(&words(&[2, 10, 1, 20, 2]), format).unwrap();
        assert_eq!(read.values.iter().map(|value| value.value).collect::<Vec<_>>(), [10, 20]);
        assert_eq!(Read::parse(&words(&[1, 10, 1, 20]), format), None);
        assert_eq!(Read::parse(&words(&[2, 10, 1, 20]), format), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_an_error(
            body in proptest::collection::vec(any::<u8>(), 0..200),
            kind in prop_oneof![Just(9u32), Just(2), Just(3), Just(5), Just(6), Just(7), Just(10), Just(13), any::<u32>()],
            sample in any::<u64>(), read in any::<u64>(), honest in any::<bool>(),
        ) {
            let format = Format::new(sample & sample_type::KNOWN, read & read_format::KNOWN).unwrap();
            let mut record = bytes(kind, 0, &[]);
            record.extend(&body);
            if honest {
                let size = u16::try_from(record.len()).unwrap();
                record[6..8].copy_from_slice(&size.to_ne_bytes());
            }
            if let Ok(Record::Sample(sample)) = Record::parse(&record, format) {
                prop_assert_eq!(sample.ip.is_some(), format.samples(sample_type::IP));
                prop_assert_eq!(sample.read.is_some(), format.samples(sample_type::READ));
            }
        }

        #[test]
        fn no_shortened_sample_is_a_sample(length in 0usize..152) {
            prop_assert!(Record::parse(&sample()[..length], all_fields()).is_err());
        }
    }
}
