//! The sweep: which code is counted in which kernel, at which size and how often.

use std::fmt;

use cyclometer_core::{CounterId, Error, Random};
use cyclometer_inference::{CounterObservations, EventObservations, KernelIndex, Observation};

/// A machine whose counters can be given any event.
pub trait SweepTarget {
    /// The counters that an event can be placed on: all of them count it at once.
    fn counters(&self) -> Vec<CounterId>;

    /// Places a code on every counter.
    ///
    /// # Errors
    ///
    /// Those of the target's registers.
    fn place(&mut self, code: u32) -> Result<(), Error>;

    /// Runs a kernel for so many iterations; the events of the placed code meanwhile, on each counter.
    ///
    /// # Errors
    ///
    /// Those of the target's registers.
    fn count(&mut self, kernel: KernelIndex, iterations: u64) -> Result<Vec<u64>, Error>;
}

/// How a sweep counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SweepSettings {
    /// The iterations of the smallest size, at least 1, best odd; the others are some twice, four and eight
    /// times that. Events that count every other time show at odd sizes, and those that count every other
    /// 32,768th in runs that are longer than that.
    pub iterations: u64,
    /// How often each size of a live event is counted, at least 1.
    pub repeats: u32,
    /// Decides the order.
    pub seed: u64,
}

impl Default for SweepSettings {
    fn default() -> SweepSettings {
        SweepSettings { iterations: 16_381, repeats: 5, seed: 0 }
    }
}

impl SweepSettings {
    /// The four sizes of a kernel, in iterations.
    pub fn sizes(&self) -> [u64; 4] {
        [1, 2, 4, 8].map(|factor| self.iterations.max(1).saturating_mul(factor).saturating_add(factor / 4))
    }
}

/// The progress of a sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SweepProgress {
    /// Codes that are done.
    pub done: usize,
    /// All codes.
    pub all: usize,
}

/// The reason why a sweep ended early.
#[derive(Debug)]
#[non_exhaustive]
pub enum SweepError {
    /// The target refused a code.
    Target {
        /// The code.
        code: u32,
        /// Why.
        error: Error,
    },
    /// A target without a counter.
    NoCounter,
}

impl fmt::Display for SweepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SweepError::Target { code, error } => write!(f, "event {code:#x}: {error}"),
            SweepError::NoCounter => f.write_str("there is no counter that events can be placed on"),
        }
    }
}

impl std::error::Error for SweepError {}

/// Counts each code in `kernels` kernels. `name` is what reports call a code.
///
/// # Errors
///
/// [`SweepError`].
pub fn sweep(
    target: &mut dyn SweepTarget,
    codes: &[u32],
    kernels: usize,
    settings: &SweepSettings,
    mut progress: impl FnMut(SweepProgress),
) -> Result<Vec<EventObservations>, SweepError> {
    let counters = target.counters();
    if counters.is_empty() {
        return Err(SweepError::NoCounter);
    }
    let mut random = Random::seeded(settings.seed);
    let order = random.permutation(codes.len());
    let mut all: Vec<Option<EventObservations>> = vec![None; codes.len()];
    for (done, index) in order.into_iter().enumerate() {
        let code = codes[index];
        let failed = |error| SweepError::Target { code, error };
        target.place(code).map_err(failed)?;
        let runs = runs_of(target, kernels, settings, &mut random).map_err(failed)?;
        all[index] = Some(observations(code, &counters, runs));
        progress(SweepProgress { done: done + 1, all: codes.len() });
    }
    Ok(all.into_iter().flatten().collect())
}

/// The counts of a run on each counter.
struct CountedRun {
    kernel: KernelIndex,
    iterations: u64,
    counts: Vec<u64>,
}

fn runs_of(
    target: &mut dyn SweepTarget,
    kernels: usize,
    settings: &SweepSettings,
    random: &mut Random,
) -> Result<Vec<CountedRun>, Error> {
    let sizes = settings.sizes();
    let mut run = |(kernel, iterations): (usize, u64)| {
        let kernel = KernelIndex(kernel);
        Ok(CountedRun { kernel, iterations, counts: target.count(kernel, iterations)? })
    };
    let first = (0..kernels).flat_map(|kernel| [(kernel, sizes[0]), (kernel, sizes[3])]);
    let mut runs = first.map(&mut run).collect::<Result<Vec<_>, Error>>()?;
    if runs.iter().all(|run| run.counts.iter().all(|count| *count == 0)) {
        return Ok(runs);
    }
    let left: Vec<(usize, u64)> = (0..kernels)
        .flat_map(|kernel| sizes.map(|size| (kernel, size)))
        .flat_map(|(kernel, size)| {
            let is_first = size == sizes[0] || size == sizes[3];
            let repeats = settings.repeats.max(1) - u32::from(is_first);
            (0..repeats).map(move |_| (kernel, size))
        })
        .collect();
    for index in random.permutation(left.len()) {
        runs.push(run(left[index])?);
    }
    Ok(runs)
}

fn observations(code: u32, counters: &[CounterId], runs: Vec<CountedRun>) -> EventObservations {
    let mut by_counter: Vec<Vec<Observation>> = vec![Vec::new(); counters.len()];
    for run in runs {
        for (known, count) in by_counter.iter_mut().zip(run.counts) {
            let same = |one: &&mut Observation| one.kernel == run.kernel && one.iterations == run.iterations;
            match known.iter_mut().find(same) {
                Some(observation) => observation.counts.push(count),
                None => known.push(Observation {
                    kernel: run.kernel,
                    iterations: run.iterations,
                    counts: vec![count],
                    interrupts: Vec::new(),
                }),
            }
        }
    }
    let counters = counters.iter().zip(by_counter);
    let counters = counters
        .map(|(counter, observations)| CounterObservations { counter: Some(*counter), observations })
        .collect();
    EventObservations { event: format!("{code:#04x}"), counters }
}
