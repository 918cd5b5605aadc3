//! KdebugRecords to samples: the accumulated counters of a thread, and the interrupt that they were noted in.

use std::collections::BTreeMap;

use super::record::{KdebugEvent, KdebugRecord};

/// Most CPUs whose records are put together: more than any Mac has.
const MOST_CPUS: u32 = 256;

/// Most values of a sample; twice as many as the kernel writes.
const MOST_VALUES: usize = 64;

/// The accumulated counters of a thread at a moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadSample {
    /// The thread.
    pub thread: u64,
    /// Its CPU.
    pub cpu: u32,
    /// The moment, in ticks of the kernel's clock.
    pub time_ticks: u64,
    /// The interrupt; `None`: a timer.
    pub interrupt: Option<OverflowInterrupt>,
    /// The values, in the kernel's order of counters.
    pub values: Vec<u64>,
    /// Whether it had more values than there are counters. The kernel writes 32 zeros for a thread for which
    /// it has no sums yet.
    ///
    /// # Source
    ///
    /// xnu `osfmk/kperf/kperf_kpc.c`, `kperf_kpc_thread_sample`.
    pub has_surplus: bool,
}

/// The interrupt of a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverflowInterrupt {
    /// The counter, in the kernel's order.
    pub counter: u16,
    /// The address of the interrupted instruction.
    pub address: u64,
    /// Whether the hardware caught the address of the counted instruction.
    pub is_captured: bool,
}

/// Puts records together.
#[derive(Clone, Debug)]
pub struct ThreadSamples {
    /// Number of counters of a sample.
    counters: usize,
    cpus: BTreeMap<u32, OpenRecords>,
    broken: u64,
    lost: u64,
}

/// The unfinished records of a CPU.
#[derive(Clone, Default, Debug)]
struct OpenRecords {
    interrupt: Option<OverflowInterrupt>,
    /// The sample whose values are not complete.
    sample: Option<ThreadSample>,
}

impl ThreadSamples {
    /// Samples of so many counters.
    pub fn new(counters: usize) -> ThreadSamples {
        ThreadSamples { counters: counters.max(1), cpus: BTreeMap::new(), broken: 0, lost: 0 }
    }

    /// Adds a record; returns the sample that it completes.
    pub fn add(&mut self, record: KdebugRecord) -> Option<ThreadSample> {
        if record.event == KdebugEvent::Lost {
            // The missing records may be of any CPU.
            self.lost += 1;
            self.broken += self.cpus.values().filter(|open| open.sample.is_some()).count() as u64;
            self.cpus.clear();
            return None;
        }
        if record.cpu >= MOST_CPUS {
            self.broken += u64::from(record.event != KdebugEvent::Other);
            return None;
        }
        let open = self.cpus.entry(record.cpu).or_default();
        match record.event {
            KdebugEvent::InterruptBegins { counter, address, is_captured } => {
                self.broken += u64::from(open.sample.take().is_some());
                open.interrupt = Some(OverflowInterrupt { counter, address, is_captured });
                None
            }
            KdebugEvent::InterruptEnds => {
                self.broken += u64::from(open.sample.take().is_some());
                open.interrupt = None;
                None
            }
            KdebugEvent::ThreadCounters { is_first, is_last, values } => {
                // The kernel does not mark the end of a single record.
                let is_last = is_last || is_first && self.counters <= values.len();
                let (sample, broken) = open.add(&record, (is_first, is_last), values, self.counters);
                self.broken += broken;
                sample
            }
            KdebugEvent::Lost | KdebugEvent::Other => None,
        }
    }

    /// Samples whose records were not all there.
    pub fn broken(&self) -> u64 {
        self.broken
    }

    /// How often the kernel lost records.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl OpenRecords {
    /// Adds values; returns the sample that they complete, and the number of samples that they break.
    fn add(
        &mut self,
        record: &KdebugRecord,
        (is_first, is_last): (bool, bool),
        values: [u64; 4],
        counters: usize,
    ) -> (Option<ThreadSample>, u64) {
        let begun = self.sample.take();
        let (mut sample, broken) = match (is_first, begun) {
            (true, begun) => {
                let KdebugRecord { time_ticks, thread, cpu, .. } = *record;
                let values = Vec::with_capacity(counters.min(64));
                let interrupt = self.interrupt;
                let sample = ThreadSample { thread, cpu, time_ticks, interrupt, values, has_surplus: false };
                (sample, u64::from(begun.is_some()))
            }
            (false, Some(begun)) if begun.thread == record.thread => (begun, 0),
            // The beginning is missing, or is of another thread.
            (false, begun) => return (None, 1 + u64::from(begun.is_some())),
        };
        sample.values.extend(values);
        match sample.values.len() {
            // The end is missing.
            length if length > MOST_VALUES => (None, broken + 1),
            length if is_last && length >= counters => {
                sample.has_surplus = length - counters >= values.len();
                sample.values.truncate(counters);
                (Some(sample), broken)
            }
            _ if is_last => (None, broken + 1),
            _ => {
                self.sample = Some(sample);
                (None, broken)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::bytes;
    use super::super::record::{HANDLER, KdebugRecords, THREAD_DATA};
    use super::*;
    use proptest::prelude::*;

    fn begins(cpu: u32, counter: u64) -> Vec<u8> {
        bytes(1, [counter << 32, 0, 0x4000, 0], 7, HANDLER | 1, cpu)
    }

    fn ends(cpu: u32) -> Vec<u8> {
        bytes(3, [0; 4], 7, HANDLER | 2, cpu)
    }

    fn data(cpu: u32, thread: u64, flags: u32, values: [u64; 4]) -> Vec<u8> {
        bytes(2, values, thread, THREAD_DATA | flags, cpu)
    }

    fn lost() -> Vec<u8> {
        bytes(2, [0; 4], 0, 0x0702_0008, 0)
    }

    fn all(counters: usize, records: &[Vec<u8>]) -> (Vec<ThreadSample>, u64) {
        let mut samples = ThreadSamples::new(counters);
        let bytes = records.concat();
        let found: Vec<ThreadSample> =
            KdebugRecords::new(&bytes).filter_map(|record| samples.add(record)).collect();
        (found, samples.broken())
    }

    #[test]
    fn ten_counters_of_an_interrupt_are_one_sample() {
        let (found, broken) = all(
            10,
            &[
                begins(2, 7),
                data(2, 7, 1, [0, 1, 2, 3]),
                data(2, 7, 0, [4, 5, 6, 7]),
                data(2, 7, 2, [8, 9, 99, 99]),
                ends(2),
            ],
        );
        let interrupt = OverflowInterrupt { counter: 7, address: 0x4000, is_captured: false };
        let values = (0..10).collect();
        let expected = ThreadSample {
            thread: 7,
            cpu: 2,
            time_ticks: 2,
            interrupt: Some(interrupt),
            values,
            has_surplus: false,
        };
        assert_eq!((found, broken), (vec![expected], 0));
    }

    #[test]
    fn a_sample_of_a_thread_without_sums_is_one_sample_with_a_surplus() {
        let zeros = |n: u32| data(0, 7, if n == 0 { 1 } else { u32::from(n == 7) * 2 }, [0; 4]);
        let (found, broken) = all(10, &(0..8).map(zeros).collect::<Vec<_>>());
        assert_eq!((found.len(), broken), (1, 0));
        assert!(found[0].has_surplus && found[0].values == [0; 10]);
        let endless: Vec<Vec<u8>> = (0..17).map(|n| data(0, 7, u32::from(n == 0), [1; 4])).collect();
        assert_eq!(all(10, &endless), (Vec::new(), 1));
    }

    #[test]
    fn a_timer_has_no_interrupt_and_few_counters_are_one_record() {
        let (found, broken) = all(2, &[begins(0, 7), ends(0), data(0, 9, 1, [5, 6, 0, 0])]);
        assert_eq!((found.len(), broken), (1, 0));
        assert_eq!((found[0].interrupt, &found[0].values[..]), (None, &[5, 6][..]));
    }

    #[test]
    fn records_of_cpus_alternate() {
        let of = |cpu, flags, base| data(cpu, u64::from(cpu), flags, [base, base, base, base]);
        let (found, broken) = all(8, &[of(0, 1, 10), of(1, 1, 20), of(0, 2, 11), of(1, 2, 21)]);
        assert_eq!(broken, 0);
        let values: Vec<(u32, u64, u64)> =
            found.iter().map(|sample| (sample.cpu, sample.values[0], sample.values[7])).collect();
        assert_eq!(values, [(0, 10, 11), (1, 20, 21)]);
    }

    #[test]
    fn a_sample_that_is_cut_is_broken_and_the_next_one_is_whole() {
        let whole = [data(0, 7, 1, [1; 4]), data(0, 7, 2, [2; 4])];
        let check = |before: &[Vec<u8>], broken: u64| {
            let (found, count) = all(8, &[before, &whole].concat());
            assert_eq!((found.len(), count), (1, broken), "{before:?}");
        };
        check(&[], 0);
        check(&[data(0, 7, 2, [9; 4])], 1);
        check(&[data(0, 7, 1, [9; 4])], 1);
        check(&[data(0, 7, 1, [9; 4]), lost()], 1);
        check(&[data(0, 7, 1, [9; 4]), ends(0)], 1);
        check(&[data(0, 7, 1, [9; 4]), data(0, 8, 2, [9; 4])], 2);
        check(&[data(300, 7, 1, [9; 4])], 1);
    }

    proptest! {
        #[test]
        fn any_records_give_samples_of_the_right_size(
            counters in 0usize..12,
            records in prop::collection::vec((0u64..3, 0u32..4, 0u32..4, any::<[u64; 4]>()), 0..60),
        ) {
            let numbers = [HANDLER, THREAD_DATA, THREAD_DATA, 0x0702_0008];
            let record = |(thread, kind, flags, values): &(u64, u32, u32, [u64; 4])| {
                bytes(1, *values, *thread, numbers[*kind as usize] | flags, *kind & 1)
            };
            let records: Vec<Vec<u8>> = records.iter().map(record).collect();
            let (found, broken) = all(counters, &records);
            prop_assert!(found.len() as u64 + broken <= 2 * records.len() as u64);
            prop_assert!(found.iter().all(|sample| sample.values.len() == counters.max(1)));
        }

        #[test]
        fn any_bytes_are_read_to_their_end(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
            let mut samples = ThreadSamples::new(10);
            prop_assert_eq!(KdebugRecords::new(&bytes).map(|record| samples.add(record)).count(), bytes.len() / 64);
        }
    }
}
