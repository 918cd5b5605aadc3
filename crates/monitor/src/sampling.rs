//! A thread that reads all counters at a constant rate into a bounded ring.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cyclometer_core::exec::{CounterAt, Raw};
use cyclometer_core::{
    Counting, Error, ErrorKind, Machine, MissingReason, Plan, Recovery, Result, Slot, Source, Target,
};
use cyclometer_sys::fork::Birth;

use crate::opening::{Means, OpenCounters, SourceMaker, rungs, slots};
use crate::thread::lock;
use crate::windows::{self, ShortWindows, Windowed, may_be_short};

/// The highest rate, in Hz: at higher rates, reading through the kernel would take most of a CPU.
const FASTEST_HZ: u32 = 10_000;

/// The longest interval: an hour.
const LONGEST: Duration = Duration::from_secs(3600);

/// The rate of sampling and the capacity for samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sampling {
    interval: Duration,
    capacity: usize,
}

impl Sampling {
    /// Samples at this rate; the latest `capacity` samples are stored.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidInput` for a rate that is not from 1 to 10000 Hz, or for an invalid capacity.
    pub fn at(rate_hz: u32, capacity: usize) -> Result<Sampling> {
        if !(1..=FASTEST_HZ).contains(&rate_hz) {
            return Err(refused(
                format!("the sampling rate is {rate_hz} Hz"),
                "choose a rate from 1 to 10000 Hz",
            ));
        }
        Sampling::every(Duration::from_secs(1) / rate_hz, capacity)
    }

    /// Samples at this interval; the latest `capacity` samples are stored.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidInput` for an interval that is not from 100 µs to an hour, or for an invalid
    /// capacity.
    pub fn every(interval: Duration, capacity: usize) -> Result<Sampling> {
        if interval < Duration::from_secs(1) / FASTEST_HZ || interval > LONGEST {
            return Err(refused(
                format!("the sampling interval is {interval:?}"),
                "choose one from 100 µs to an hour",
            ));
        }
        if !(1..=MOST_SAMPLES).contains(&capacity) {
            return Err(refused(
                format!("the buffer has room for {capacity} samples"),
                "choose a size from 1 to 1048576",
            ));
        }
        Ok(Sampling { interval, capacity })
    }
}

/// The most samples that are stored.
const MOST_SAMPLES: usize = 1 << 20;

fn refused(message: String, hint: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, message).with_recovery(Recovery::fix(hint))
}

/// One read of all counters.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// The sample's number, from 0; numbers of lost samples are missing.
    pub number: u64,
    /// The time at which reading began, in ns since sampling began.
    pub at_ns: u64,
    /// How long reading took, in ns. It is the greatest time between the values of two counters, as of two
    /// CPUs.
    pub skew_ns: u64,
    /// The delay of the sample, in ns.
    pub late_ns: u64,
    /// The count of each counter since sampling began, in the order of [`Samples::counters`].
    pub values: Vec<Raw>,
}

/// The samples since the last call.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Samples {
    /// The counters of the values of a sample.
    pub counters: Vec<CounterAt>,
    /// The samples, oldest first.
    pub rows: Vec<Sample>,
    /// Number of samples lost since, because the buffer was full.
    pub lost: u64,
    /// Number of samples that were never taken since, because the thread was not on a CPU when they were due.
    pub missed: u64,
    /// Events that the sampling thread could not open, each with the reason.
    pub refused: Vec<(cyclometer_core::SlotId, MissingReason)>,
    /// Statistics of each source that is sampled in short windows, because its counters do not stay as they
    /// were programmed. Empty where counters count all the time.
    pub windows: Vec<ShortWindows>,
}

/// The count of an event since sampling began.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// The best value available, in raw counts.
    pub value: f64,
    /// Whether it was counted for a part of the time only, and scaled up to all of it.
    pub is_scaled: bool,
}

impl Samples {
    /// The counts of an event since sampling began, sample by sample, over all of its counters. Each counter
    /// is scaled by its times where it was shared or counted in windows. `None` where one of them was lost or
    /// has never counted yet, or where the event has no counters.
    pub fn estimates(&self, slot: cyclometer_core::SlotId) -> Vec<Option<Estimate>> {
        let own: Vec<usize> = (0..self.counters.len()).filter(|i| self.counters[*i].slot == slot).collect();
        let sum = |row: &Sample| {
            let start = Estimate { value: 0.0, is_scaled: false };
            let mut values = own.iter().map(|i| estimate(row.values.get(*i)?));
            let all = values.try_fold(start, |sum, one| {
                let one = one?;
                Some(Estimate { value: sum.value + one.value, is_scaled: sum.is_scaled || one.is_scaled })
            });
            all.filter(|_| !own.is_empty())
        };
        self.rows.iter().map(sum).collect()
    }

    /// The raw values of an event over all samples: the sum over its counters. `None` where any of them was
    /// lost, or where the event has no counters.
    pub fn series(&self, slot: cyclometer_core::SlotId) -> Vec<Option<u64>> {
        let own: Vec<usize> = (0..self.counters.len()).filter(|i| self.counters[*i].slot == slot).collect();
        let sum = |row: &Sample| {
            let values =
                own.iter().map(|i| row.values.get(*i).filter(|raw| !raw.is_lost).map(|raw| raw.value));
            if own.is_empty() { None } else { values.sum() }
        };
        self.rows.iter().map(sum).collect()
    }
}

/// One counter's value, scaled by its times.
fn estimate(raw: &Raw) -> Option<Estimate> {
    let (enabled, running) = (raw.time_enabled_ns, raw.time_running_ns);
    let is_scaled = running < enabled;
    if raw.is_lost || is_scaled && running == 0 {
        return None;
    }
    let factor = if is_scaled { enabled as f64 / running as f64 } else { 1.0 };
    Some(Estimate { value: raw.value as f64 * factor, is_scaled })
}

/// The data that the sampling thread needs.
pub(crate) struct SamplingInput {
    pub(crate) plan: Plan,
    pub(crate) machine: Machine,
    pub(crate) target: Target,
    pub(crate) sources: SourceMaker,
    /// The limit of the configuration on how long registers preserve what is written to them, if it is set.
    pub(crate) longest_window: Option<Duration>,
}

/// A running sampling thread; dropping this value ends it.
pub(crate) struct Sampler {
    shared: Arc<SharedSamples>,
    thread: Option<JoinHandle<()>>,
    birth: Birth,
}

struct SharedSamples {
    state: Mutex<SamplingState>,
    stop: Condvar,
    capacity: usize,
}

#[derive(Default)]
struct SamplingState {
    rows: VecDeque<Sample>,
    lost: u64,
    missed: u64,
    counters: Vec<CounterAt>,
    refused: Vec<(cyclometer_core::SlotId, MissingReason)>,
    windows: Vec<ShortWindows>,
    stops: bool,
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampler").field("capacity", &self.shared.capacity).finish()
    }
}

impl Sampler {
    /// Starts the sampling thread.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Os` when no thread can be created.
    pub(crate) fn start(sampling: Sampling, subject: SamplingInput) -> Result<Sampler> {
        let ring =
            SharedSamples { state: Mutex::default(), stop: Condvar::new(), capacity: sampling.capacity };
        let shared = Arc::new(ring);
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("cyclometer".to_owned())
            .spawn(move || own.run(sampling.interval, &subject))
            .map_err(|e| {
                Error::new(ErrorKind::Os, format!("cannot start the sampling thread: {e}")).with_source(e)
            })?;
        Ok(Sampler { shared, thread: Some(thread), birth: Birth::now() })
    }

    /// The samples since the last call.
    pub(crate) fn take(&self) -> Samples {
        // A forked child has no sampling thread, and that of the parent may have held the lock.
        if !self.birth.is_here() {
            return Samples::default();
        }
        let mut state = lock(&self.shared.state);
        Samples {
            counters: state.counters.clone(),
            rows: state.rows.drain(..).collect(),
            lost: std::mem::take(&mut state.lost),
            missed: std::mem::take(&mut state.missed),
            refused: state.refused.clone(),
            windows: state.windows.clone(),
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // A forked child has the handle, but not the thread.
        if !self.birth.is_here() {
            return;
        }
        lock(&self.shared.state).stops = true;
        self.shared.stop.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How one source is sampled.
enum SampleReader {
    /// The counters are open all the time; the number is that of counters.
    Open(Box<dyn Counting>, usize),
    /// The counters are open within windows only.
    Windows(Windowed),
}

/// One source with its counters.
struct SampledSource<'a> {
    source: &'a dyn Source,
    reader: SampleReader,
    slots: Vec<Slot>,
    /// The start of its counters, in the source's time.
    since: Instant,
    /// The values of the last sample in which no counter was lost.
    last: Vec<Raw>,
}

impl SharedSamples {
    fn run(&self, interval: Duration, subject: &SamplingInput) {
        let sources = (subject.sources)();
        let means = Means { sources: &sources, target: &subject.target, machine: &subject.machine };
        let opened = means.open_settled(&subject.plan);
        lock(&self.state).refused.clone_from(&opened.refused);
        let mut sampled = self.sampled(opened, &sources, subject);
        let mut beat = Beat { started: Instant::now(), interval, number: 0 };
        while let Some((due, missed)) = self.wait(&mut beat) {
            let row = sample(&mut sampled, &beat, due, subject);
            let windows = sampled.iter().filter_map(SampledSource::windows).collect();
            self.keep(row, missed, windows);
        }
    }

    /// A source with its open counters. The source reports the counters that it reads.
    fn sampled<'a>(
        &self,
        opened: OpenCounters,
        sources: &'a [Box<dyn Source>],
        subject: &SamplingInput,
    ) -> Vec<SampledSource<'a>> {
        let is_refused = |slot: &Slot| opened.refused.iter().any(|(id, _)| *id == slot.id);
        let wanted: Vec<Slot> = slots(&subject.plan).into_iter().filter(|slot| !is_refused(slot)).collect();
        let mut sampled = Vec::new();
        for (mut counting, rung) in opened.sources.into_iter().zip(rungs(&wanted)) {
            let Some(source) = sources.iter().find(|source| source.rung() == rung) else { continue };
            let counters = counting.counters();
            let number = counters.len();
            lock(&self.state).counters.extend(counters);
            let reader = SampleReader::Open(counting, number);
            let slots = wanted.iter().filter(|slot| slot.rung == rung).cloned().collect();
            let last = vec![Raw::default(); number];
            let since = windows::now_of(source.as_ref());
            sampled.push(SampledSource { source: source.as_ref(), reader, slots, since, last });
        }
        sampled
    }

    /// Sleeps until the next sample is due; `None` when the thread is to stop.
    fn wait(&self, beat: &mut Beat) -> Option<(Instant, u64)> {
        let (due, missed) = beat.next(Instant::now());
        let mut state = lock(&self.state);
        loop {
            if state.stops {
                return None;
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Some((due, missed));
            }
            state = self.stop.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn keep(&self, row: Sample, missed: u64, windows: Vec<ShortWindows>) {
        let mut state = lock(&self.state);
        state.windows = windows;
        if state.rows.len() >= self.capacity {
            state.rows.pop_front();
            state.lost += 1;
        }
        state.rows.push_back(row);
        state.missed += missed;
    }
}

impl SampledSource<'_> {
    /// Appends the values of all of its counters. If the kernel took them away, they are counted in windows
    /// from now on.
    fn sample(&mut self, interval: Duration, subject: &SamplingInput, out: &mut Vec<Raw>) {
        let first = out.len();
        match &mut self.reader {
            SampleReader::Windows(windows) => return windows.sample(self.source, out),
            SampleReader::Open(counting, counters) => {
                if counting.sample(out).is_err() {
                    out.truncate(first);
                    out.extend(std::iter::repeat_n(Raw::LOST, *counters));
                }
            }
        }
        let is_lost = out[first..].iter().any(|raw| raw.is_lost);
        let is_long =
            |raw: &Raw| subject.longest_window.is_some_and(|longest| raw.time_enabled_ns > nanos(longest));
        match may_be_short(self.source.rung()) && (is_lost || out[first..].iter().any(is_long)) {
            false => self.last = out[first..].to_vec(),
            true => {
                self.turn_to_windows(interval, subject);
                out.truncate(first);
                self.sample(interval, subject, out);
            }
        }
    }

    fn turn_to_windows(&mut self, interval: Duration, subject: &SamplingInput) {
        let slots = std::mem::take(&mut self.slots);
        let (target, longest, since) = (&subject.target, subject.longest_window, self.since);
        // A value older than the limit is lost as well, so the sums continue from the last valid sample.
        let sums = std::mem::take(&mut self.last);
        let of = windows::WindowInput { source: self.source, slots, target, longest, interval, since };
        // The assignment closes the open counters before others are opened.
        self.reader = SampleReader::Windows(Windowed::new(of, sums));
    }

    fn windows(&self) -> Option<ShortWindows> {
        match &self.reader {
            SampleReader::Windows(windows) => Some(windows.told()),
            SampleReader::Open(..) => None,
        }
    }
}

/// Reads all sources.
fn sample(sources: &mut [SampledSource<'_>], beat: &Beat, due: Instant, subject: &SamplingInput) -> Sample {
    let mut values = Vec::with_capacity(sources.iter().map(|source| source.last.len()).sum());
    let begun = Instant::now();
    for source in sources {
        source.sample(beat.interval, subject, &mut values);
    }
    Sample {
        number: beat.number - 1,
        at_ns: nanos(begun - beat.started),
        skew_ns: nanos(begun.elapsed()),
        late_ns: nanos(begun.saturating_duration_since(due)),
        values,
    }
}

/// Points in time at a constant distance.
struct Beat {
    started: Instant,
    interval: Duration,
    /// The number of the next point.
    number: u64,
}

impl Beat {
    /// The next point in the future, and the number of points that were skipped. A late thread skips points,
    /// and does not catch up.
    fn next(&mut self, now: Instant) -> (Instant, u64) {
        let interval = self.interval.as_nanos().max(1);
        let passed = u64::try_from((now - self.started).as_nanos() / interval).unwrap_or(u64::MAX);
        let missed = passed.saturating_sub(self.number);
        self.number = self.number.max(passed) + 1;
        let ns = interval.saturating_mul(self.number.into());
        (self.started + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX / 4)), missed)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_out_of_range_are_errors_that_say_the_range() {
        for rate in [0, 10_001, 1_000_000_000] {
            let error = Sampling::at(rate, 10).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.recovery().to_string().contains("1 to 10000 Hz"), "{rate}");
        }
        for size in [0, MOST_SAMPLES + 1] {
            assert!(Sampling::at(100, size).unwrap_err().recovery().to_string().contains("1 to 1048576"));
        }
        assert!(Sampling::every(Duration::from_micros(99), 1).is_err());
        assert!(Sampling::every(Duration::from_secs(3601), 1).is_err());
        for rate in [1, 100, 10_000] {
            assert!(Sampling::at(rate, 1).is_ok(), "{rate}");
        }
    }

    #[test]
    fn who_is_late_skips_and_counts_what_was_skipped() {
        let started = Instant::now();
        let at = |ms| started + Duration::from_millis(ms);
        let mut beat = Beat { started, interval: Duration::from_millis(10), number: 0 };
        assert_eq!(beat.next(at(0)), (at(10), 0));
        assert_eq!(beat.next(at(12)), (at(20), 0));
        assert_eq!(beat.next(at(57)), (at(60), 3), "those at 30, 40 and 50");
        assert_eq!(beat.next(at(60)), (at(70), 0));
    }

    #[test]
    fn of_too_many_samples_the_oldest_are_lost() {
        let ring = SharedSamples { state: Mutex::default(), stop: Condvar::new(), capacity: 2 };
        for number in 0..5 {
            ring.keep(Sample { number, at_ns: 0, skew_ns: 0, late_ns: 0, values: Vec::new() }, 1, Vec::new());
        }
        let state = lock(&ring.state);
        let kept: Vec<u64> = state.rows.iter().map(|row| row.number).collect();
        assert_eq!((kept, state.lost, state.missed), (vec![3, 4], 3, 5));
    }
}
