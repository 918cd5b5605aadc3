//! The work that is counted, and the meter that counts it.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::thread::sleep;
use std::time::Duration;

use cyclometer_kernels::{Kernel, KernelMemory, Rounds};

/// Work that is done while counters count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MeteredWork {
    /// Rounds of a loop of known length.
    Kernel(Kernel, Rounds),
    /// Writes to this many bytes of fresh memory, in every page of 4 KiB.
    Touch(usize),
    /// Waits for a moment, so many times.
    Sleep(u32),
}

impl MeteredWork {
    /// The name of the work.
    pub fn word(self) -> &'static str {
        match self {
            MeteredWork::Kernel(kernel, _) => kernel.word(),
            MeteredWork::Touch(_) => "touch",
            MeteredWork::Sleep(_) => "sleep",
        }
    }

    /// How much of it there is: rounds, bytes, times.
    pub fn amount(self) -> u64 {
        match self {
            MeteredWork::Kernel(_, rounds) => u64::from(rounds.get()),
            MeteredWork::Touch(bytes) => bytes as u64,
            MeteredWork::Sleep(times) => u64::from(times),
        }
    }

    /// Does the work.
    pub(crate) fn run(self, memory: &mut KernelMemory) {
        match self {
            MeteredWork::Kernel(kernel, rounds) => kernel.run(rounds, memory),
            MeteredWork::Touch(bytes) => touch(bytes),
            MeteredWork::Sleep(times) => (0..times).for_each(|_| sleep(NAP)),
        }
    }
}

/// A wait that is long enough for the thread to leave its CPU.
const NAP: Duration = Duration::from_micros(200);

/// The smallest pages that any of the systems has, in bytes.
pub(crate) const PAGE_BYTES: usize = 4096;

/// The size from which the allocator maps new memory.
///
/// # Source
///
/// glibc, `mallopt(3)`, M_MMAP_THRESHOLD: memory that was freed may be reused below 32 MiB.
const NEW_BYTES: usize = 40 * 1024 * 1024;

fn touch(bytes: usize) {
    let mut fresh: Vec<u8> = Vec::with_capacity(bytes.max(NEW_BYTES));
    for page in fresh.spare_capacity_mut()[..bytes].chunks_mut(PAGE_BYTES) {
        if let Some(first) = page.first_mut() {
            first.write(1);
        }
    }
    black_box(&fresh);
}

/// Runs a kernel without a counter in this process: for a source that counts whole processes.
pub fn run_kernel(kernel: Kernel, rounds: Rounds) {
    kernel.run(rounds, &mut KernelMemory::new());
}

/// A counter's value for some work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MeterSample {
    /// The count.
    pub raw: u64,
    /// How long it was enabled, in ns.
    pub time_enabled_ns: u64,
    /// How long it was on a counter, in ns.
    pub time_running_ns: u64,
    /// How long the work took, in ns, including the start and stop of the counter.
    pub wall_ns: u64,
}

impl MeterSample {
    /// A count of the whole time, by a source that needs no counters.
    pub fn whole(raw: u64) -> MeterSample {
        MeterSample { raw, ..MeterSample::default() }
    }

    /// Whether the source claims to have counted all the time. The change from one core PMU of a hybrid to
    /// the other takes a moment.
    pub(crate) fn is_whole(&self) -> bool {
        self.time_running_ns as f64 >= 0.99 * self.time_enabled_ns as f64
    }
}

/// Counts one event.
pub trait EventMeter {
    /// Does the work, and returns its count.
    ///
    /// # Errors
    ///
    /// Why there is no number, in words.
    fn count(&mut self, work: MeteredWork) -> Result<MeterSample, String>;
}

/// Counts that were taken before. Each is returned once.
#[derive(Clone, Debug, Default)]
pub struct RecordedCounts {
    samples: BTreeMap<MeteredWork, Vec<MeterSample>>,
}

impl RecordedCounts {
    /// Adds a count, to be returned after earlier ones of the same work.
    pub fn add(&mut self, work: MeteredWork, sample: MeterSample) {
        self.samples.entry(work).or_default().push(sample);
    }
}

impl EventMeter for RecordedCounts {
    fn count(&mut self, work: MeteredWork) -> Result<MeterSample, String> {
        let of_work = self.samples.get_mut(&work).filter(|samples| !samples.is_empty());
        of_work.map(|samples| samples.remove(0)).ok_or_else(|| format!("{} was not counted", work.word()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_recorded_is_given_in_its_order_and_once() {
        let work = MeteredWork::Sleep(1);
        let mut recorded = RecordedCounts::default();
        recorded.add(work, MeterSample::whole(1));
        recorded.add(work, MeterSample::whole(2));
        assert_eq!(recorded.count(work).map(|sample| sample.raw), Ok(1));
        assert_eq!(recorded.count(work).map(|sample| sample.raw), Ok(2));
        assert_eq!(recorded.count(work), Err("sleep was not counted".to_owned()));
    }

    #[test]
    fn all_work_can_be_done() {
        let mut memory = KernelMemory::new();
        for work in [
            MeteredWork::Touch(3 * PAGE_BYTES),
            MeteredWork::Sleep(1),
            MeteredWork::Kernel(Kernel::Loads, Rounds::MIN),
        ] {
            work.run(&mut memory);
        }
    }
}
