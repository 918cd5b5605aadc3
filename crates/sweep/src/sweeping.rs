//! The sweep: which code is counted in which kernel, at which size and how often.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use cyclometer_core::{CounterId, Error, ErrorKind, Random};
use cyclometer_inference::{CounterObservations, EventObservations, KernelIndex, Observation};

use crate::recipes::SweepKernel;
use crate::swept::{Exclusion, SweptCode, SweptOutcome};
use crate::target::{CodePlacement, SweepCounts, SweepSettings, SweepTarget};
use crate::witness::{InstructionWitness, WitnessCounts};

/// Progress callbacks of a sweep.
pub trait SweepObserver {
    /// A code is about to be placed. Codes that an earlier sweep has finished are not.
    fn begins(&mut self, code: u32) {
        let _ = code;
    }

    /// A code is finished.
    ///
    /// # Errors
    ///
    /// The reason to end the sweep.
    fn swept(&mut self, code: &SweptCode, progress: SweepProgress) -> Result<(), Error>;
}

/// The progress of a sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SweepProgress {
    /// Finished codes.
    pub done: usize,
    /// All codes.
    pub all: usize,
}

/// The reason why a sweep ended early.
#[derive(Debug)]
#[non_exhaustive]
pub enum SweepError {
    /// The target failed at a code.
    Target {
        /// The code.
        code: u32,
        /// Why.
        error: Error,
    },
    /// The target failed before the first code.
    Begin(Error),
    /// The observer ended the sweep.
    Observer(Error),
    /// A target without a counter.
    NoCounter,
}

impl fmt::Display for SweepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SweepError::Target { code, error } => write!(f, "event {code:#x}: {error}"),
            SweepError::Begin(error) | SweepError::Observer(error) => error.fmt(f),
            SweepError::NoCounter => f.write_str("there is no counter that events can be placed on"),
        }
    }
}

impl std::error::Error for SweepError {}

/// A sweep: its codes and kernels.
#[derive(Debug)]
pub struct SweepRun<'a> {
    /// The codes.
    pub codes: &'a [u32],
    /// The kernels, by their index.
    pub kernels: &'a [SweepKernel],
    /// How it counts.
    pub settings: &'a SweepSettings,
    /// Codes that are never placed.
    pub denied: &'a BTreeSet<u32>,
    /// Codes that an earlier sweep has finished.
    pub known: &'a BTreeMap<u32, SweptCode>,
}

/// Counts each code in each kernel; the observations of each code, in the order of the codes.
///
/// # Errors
///
/// [`SweepError`]; a code that the target refuses is one.
pub fn sweep(
    target: &mut dyn SweepTarget,
    codes: &[u32],
    kernels: &[SweepKernel],
    settings: &SweepSettings,
    progress: impl FnMut(SweepProgress),
) -> Result<Vec<EventObservations>, SweepError> {
    let (denied, known) = (BTreeSet::new(), BTreeMap::new());
    let run = SweepRun { codes, kernels, settings, denied: &denied, known: &known };
    let swept = run.run(target, &mut ProgressOnly(progress))?;
    let observed = |swept: SweptCode| match swept.outcome {
        SweptOutcome::Counted(observations) => Ok(observations),
        SweptOutcome::Excluded(why) => {
            let error = Error::new(ErrorKind::EventUnsupported, why.to_string());
            Err(SweepError::Target { code: swept.code, error })
        }
    };
    swept.into_iter().map(observed).collect()
}

/// An observer of progress only.
struct ProgressOnly<F>(F);

impl<F: FnMut(SweepProgress)> SweepObserver for ProgressOnly<F> {
    fn swept(&mut self, _: &SweptCode, progress: SweepProgress) -> Result<(), Error> {
        (self.0)(progress);
        Ok(())
    }
}

impl SweepRun<'_> {
    /// Sweeps the codes in random order; the result is in the order of the codes.
    ///
    /// # Errors
    ///
    /// [`SweepError`].
    pub fn run(
        &self,
        target: &mut dyn SweepTarget,
        observer: &mut dyn SweepObserver,
    ) -> Result<Vec<SweptCode>, SweepError> {
        let counters = target.counters();
        if counters.is_empty() {
            return Err(SweepError::NoCounter);
        }
        let witness =
            InstructionWitness::of(target, self.kernels, self.settings).map_err(SweepError::Begin)?;
        let order = Random::seeded(self.settings.seed).permutation(self.codes.len());
        let mut all: Vec<Option<SweptCode>> = vec![None; self.codes.len()];
        for (done, index) in order.into_iter().enumerate() {
            let code = self.codes[index];
            let swept = match self.known.get(&code) {
                Some(known) => known.clone(),
                None => {
                    observer.begins(code);
                    let failed = |error| SweepError::Target { code, error };
                    let outcome = self.outcome(target, code, &counters, &witness);
                    SweptCode { code, outcome: outcome.map_err(failed)? }
                }
            };
            let progress = SweepProgress { done: done + 1, all: self.codes.len() };
            observer.swept(&swept, progress).map_err(SweepError::Observer)?;
            all[index] = Some(swept);
        }
        Ok(all.into_iter().flatten().collect())
    }

    fn outcome(
        &self,
        target: &mut dyn SweepTarget,
        code: u32,
        counters: &[Option<CounterId>],
        witness: &InstructionWitness,
    ) -> Result<SweptOutcome, Error> {
        if self.denied.contains(&code) {
            return Ok(SweptOutcome::Excluded(Exclusion::Denied));
        }
        if let CodePlacement::Refused(why) = target.place(code)? {
            return Ok(SweptOutcome::Excluded(Exclusion::Refused(why)));
        }
        let mut run = |(kernel, iterations): (usize, u64)| {
            let SweepCounts { counts, instructions } = target.count(KernelIndex(kernel), iterations)?;
            Ok(CountedRun { kernel: KernelIndex(kernel), iterations, counts, instructions })
        };
        let first = first_runs(self.kernels.len(), self.settings);
        let mut runs = first.into_iter().map(&mut run).collect::<Result<Vec<_>, Error>>()?;
        if let Some(why) = witness.judge(&witnessed(&runs), self.kernels, self.settings) {
            return Ok(SweptOutcome::Excluded(why));
        }
        if !runs.iter().all(|run| self.settings.is_quiet(run.iterations, &run.counts)) {
            let left = further_runs(self.kernels.len(), self.settings);
            for index in order_of(code, self.settings).permutation(left.len()) {
                runs.push(run(left[index])?);
            }
        }
        Ok(SweptOutcome::Counted(observations(code, counters, runs)))
    }
}

/// The order of the runs of a code: the same whichever codes were swept before.
fn order_of(code: u32, settings: &SweepSettings) -> Random {
    Random::seeded(settings.seed ^ (u64::from(code) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The counts of a run on each counter.
struct CountedRun {
    kernel: KernelIndex,
    iterations: u64,
    counts: Vec<u64>,
    instructions: Option<u64>,
}

/// Each kernel in its smallest and its largest size.
fn first_runs(kernels: usize, settings: &SweepSettings) -> Vec<(usize, u64)> {
    let sizes = settings.sizes();
    (0..kernels).flat_map(|kernel| [(kernel, sizes[0]), (kernel, sizes[3])]).collect()
}

/// The runs of a live code behind the first ones.
fn further_runs(kernels: usize, settings: &SweepSettings) -> Vec<(usize, u64)> {
    let sizes = settings.sizes();
    (0..kernels)
        .flat_map(|kernel| sizes.map(|size| (kernel, size)))
        .flat_map(|(kernel, size)| {
            let is_first = size == sizes[0] || size == sizes[3];
            let repeats = settings.repeats.max(1) - u32::from(is_first);
            (0..repeats).map(move |_| (kernel, size))
        })
        .collect()
}

/// The instructions of the first runs: a small and a large one of each kernel.
fn witnessed(runs: &[CountedRun]) -> Vec<WitnessCounts> {
    let pairs = runs.chunks_exact(2).filter_map(|pair| {
        let (small, large) = pair[0].instructions.zip(pair[1].instructions)?;
        Some(WitnessCounts { kernel: pair[0].kernel.0, small, large })
    });
    pairs.collect()
}

fn observations(code: u32, counters: &[Option<CounterId>], runs: Vec<CountedRun>) -> EventObservations {
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
    let counters =
        counters.map(|(counter, observations)| CounterObservations { counter: *counter, observations });
    EventObservations { event: format!("{code:#04x}"), counters: counters.collect() }
}
