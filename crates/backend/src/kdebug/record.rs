//! One record of the trace buffer.

use cyclometer_sys::macos::KDEBUG_RECORD_BYTES;

/// `PERF_KPC_HNDLR`.
pub(super) const HANDLER: u32 = 0x2506_0000;
/// `PERF_KPC_DATA_THREAD`.
pub(super) const THREAD_DATA: u32 = 0x2506_0020;
/// `TRACE_LOST_EVENTS`.
const LOST: u32 = 0x0702_0008;
/// `KDBG_FUNC_MASK`: start and end.
const START: u32 = 1;
const END: u32 = 2;

/// A record of the trace buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KdebugRecord {
    /// When it was written, in ticks of the kernel's clock.
    pub time_ticks: u64,
    /// The thread that had the CPU.
    pub thread: u64,
    /// The CPU.
    pub cpu: u32,
    /// Its meaning.
    pub event: KdebugEvent,
}

/// The meaning of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KdebugEvent {
    /// A counter's interrupt begins.
    InterruptBegins {
        /// The counter, numbered as the kernel does: fixed ones first.
        counter: u16,
        /// The address of the interrupted instruction; that of the counted one where the hardware caught it.
        address: u64,
        /// Whether the hardware caught the address.
        is_captured: bool,
    },
    /// A counter's interrupt ends.
    InterruptEnds,
    /// Accumulated counters of the thread, four at a time.
    ThreadCounters {
        /// Whether these are the first ones of a sample.
        is_first: bool,
        /// Whether these are the last ones; those of a sample of one record are not marked.
        is_last: bool,
        /// The values; those behind the last counter mean nothing.
        values: [u64; 4],
    },
    /// The buffer was full, and records were lost.
    Lost,
    /// Something else.
    Other,
}

/// `KPC_CAPTURED_PC`, in the flags.
const CAPTURED: u64 = 8;

impl KdebugRecord {
    /// Reads a record.
    pub fn parse(bytes: &[u8; KDEBUG_RECORD_BYTES]) -> KdebugRecord {
        let long = |index: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[8 * index..8 * index + 8]);
            u64::from_le_bytes(word)
        };
        // The number of the record and the CPU share a word.
        let number_and_cpu = long(6);
        let (number, cpu) = (number_and_cpu as u32, (number_and_cpu >> 32) as u32);
        let arguments = [long(1), long(2), long(3), long(4)];
        KdebugRecord { time_ticks: long(0), thread: long(5), cpu, event: KdebugEvent::of(number, arguments) }
    }
}

impl KdebugEvent {
    fn of(number: u32, arguments: [u64; 4]) -> KdebugEvent {
        let (is_start, is_end) = (number & START != 0, number & END != 0);
        match number & !(START | END) {
            HANDLER if is_start => {
                let [what, _count, address, _] = arguments;
                let flags = what >> 48;
                let counter = (what >> 32) as u16;
                KdebugEvent::InterruptBegins { counter, address, is_captured: flags & CAPTURED != 0 }
            }
            HANDLER if is_end => KdebugEvent::InterruptEnds,
            THREAD_DATA => {
                KdebugEvent::ThreadCounters { is_first: is_start, is_last: is_end, values: arguments }
            }
            LOST => KdebugEvent::Lost,
            _ => KdebugEvent::Other,
        }
    }
}

/// The records of some bytes of the trace buffer, in order.
#[derive(Clone, Debug)]
pub struct KdebugRecords<'a> {
    left: &'a [u8],
}

impl<'a> KdebugRecords<'a> {
    /// Over these bytes; a part of a record at their end is left out.
    pub fn new(bytes: &'a [u8]) -> KdebugRecords<'a> {
        KdebugRecords { left: bytes }
    }
}

impl Iterator for KdebugRecords<'_> {
    type Item = KdebugRecord;

    fn next(&mut self) -> Option<KdebugRecord> {
        let (record, left) = self.left.split_first_chunk()?;
        self.left = left;
        Some(KdebugRecord::parse(record))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A record as the kernel writes it.
    pub(in crate::kdebug) fn bytes(
        time: u64,
        arguments: [u64; 4],
        thread: u64,
        number: u32,
        cpu: u32,
    ) -> Vec<u8> {
        let words = [time, arguments[0], arguments[1], arguments[2], arguments[3], thread];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(number.to_le_bytes());
        bytes.extend(cpu.to_le_bytes());
        bytes.extend([0xaa; 8]);
        bytes
    }

    fn event(number: u32, arguments: [u64; 4]) -> KdebugEvent {
        let bytes = bytes(5, arguments, 77, number, 3);
        let mut records = KdebugRecords::new(&bytes);
        let record = records.next().unwrap();
        assert_eq!((record.time_ticks, record.thread, record.cpu), (5, 77, 3));
        assert_eq!(records.next(), None);
        record.event
    }

    #[test]
    fn an_interrupt_has_its_counter_and_address() {
        let what = 9 << 48 | 7 << 32 | 0x2_008c;
        let begins = |is_captured, what| {
            let expected = KdebugEvent::InterruptBegins { counter: 7, address: 0x1000, is_captured };
            assert_eq!(event(HANDLER | START, [what, 100, 0x1000, 0]), expected);
        };
        begins(true, what);
        begins(false, what ^ 8 << 48);
        assert_eq!(event(HANDLER | END, [0; 4]), KdebugEvent::InterruptEnds);
        assert_eq!(event(HANDLER, [0; 4]), KdebugEvent::Other, "neither start nor end");
    }

    #[test]
    fn counters_come_in_fours_and_the_first_and_last_four_say_so() {
        let values = [1, 2, 3, 4];
        for (flags, is_first) in [(START, true), (0, false), (END, false), (START | END, true)] {
            let is_last = flags & END != 0;
            let expected = KdebugEvent::ThreadCounters { is_first, is_last, values };
            assert_eq!(event(THREAD_DATA | flags, values), expected);
        }
    }

    #[test]
    fn lost_and_other_records_are_told_apart() {
        assert_eq!(event(LOST, [0; 4]), KdebugEvent::Lost);
        for number in [0, u32::MAX, HANDLER + 4, THREAD_DATA + 4] {
            assert_eq!(event(number, [0; 4]), KdebugEvent::Other, "{number:#x}");
        }
    }

    #[test]
    fn a_part_of_a_record_is_left_out() {
        let whole = bytes(1, [0; 4], 1, LOST, 0);
        for cut in 0..KDEBUG_RECORD_BYTES {
            assert_eq!(KdebugRecords::new(&whole[..cut]).count(), 0);
            assert_eq!(KdebugRecords::new(&[&whole, &whole[..cut]].concat()).count(), 1);
        }
    }
}
