//! The run of a command for the models: native, with windows that are executed step by step.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cyclometer_core::code::{CodeCounts, CodeObject, CodePlace};
use cyclometer_core::exec::{CommandSpec, ExitStatus, Waited};
use cyclometer_core::{Child, Error, ErrorKind, Recovery, Result, SlotId};
use cyclometer_soft::host::stepped_windows::{SiteCounts, WindowLimits, WindowStepper};
use cyclometer_soft::host::thread_states::ThreadStates;
use cyclometer_soft::host::thread_times::ThreadTimes;
use cyclometer_soft::host::{file_sum, unescaped_path};
use cyclometer_soft::model::{LINE_BYTES, ModelCounts};

use crate::Launcher;
use crate::modelled_counts::{ModelRunSettings, ModelledRun};

/// Names of the estimates: a lower bound of the irregular misses among the counted instructions, and one of
/// the bytes that the program uses at a time.
const ESTIMATES: [&str; 2] = ["modelled_irregular_misses", "modelled_working_set"];

/// Runs a command, and executes windows of it step by step.
///
/// The first third of the windows only fills the histories of branches.
///
/// # Errors
///
/// `ErrorKind::PermissionDenied` where tracing is not permitted, and the launcher's for a command
/// that cannot be executed. The command has run to its end in the first case.
pub fn modelled_run(
    launcher: &Launcher,
    command: &CommandSpec,
    settings: ModelRunSettings,
) -> Result<ModelledRun> {
    let mut child = launcher.child(command, None)?;
    let mut run = WindowedRun::new(child.process(), settings);
    child.release()?;
    let outcome = run.follow(&mut child);
    if !matches!(outcome, Ok(ModelledProgress::Ended(_))) {
        // The command runs to its end, whatever happened here.
        let _ = child.wait(None)?;
    }
    match outcome {
        Ok(ModelledProgress::Interrupted(signal)) => {
            Err(Error::new(ErrorKind::Interrupted, format!("interrupted by signal {signal}")))
        }
        Ok(ModelledProgress::Ended(exit)) => Ok(ModelledRun { exit, ..run.summed() }),
        Err(error) => Err(error),
    }
}

/// How far a run was followed.
enum ModelledProgress {
    /// To its end, with this status.
    Ended(Option<ExitStatus>),
    /// To this signal to us, which the command has got, too.
    Interrupted(i32),
}

/// Looks at the threads between two bursts, at most.
const LOOKS: u32 = 60;

/// The shortest time between two looks.
const LEAST_GAP: Duration = Duration::from_micros(300);

/// The longest native run between two windows of a burst. A program that uses more memory than a cache has
/// replaced the cache's lines by then.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

struct WindowedRun {
    root: u32,
    settings: ModelRunSettings,
    stepper: WindowStepper,
    states: ThreadStates,
    times: ThreadTimes,
    /// The sites of windows that only fill the models.
    warmed_up: usize,
}

impl WindowedRun {
    fn new(root: u32, settings: ModelRunSettings) -> WindowedRun {
        let (stepper, states) = (WindowStepper::new(root), ThreadStates::default());
        WindowedRun { root, settings, stepper, states, times: ThreadTimes::default(), warmed_up: 0 }
    }

    fn follow(&mut self, child: &mut dyn Child) -> Result<ModelledProgress> {
        // Another run may be faster than the one that was timed.
        let gap = self.settings.expected / (2 * self.settings.bursts + 1);
        let mut stepped = Duration::ZERO;
        // Some bursts may show nothing.
        for _ in 0..2 * self.settings.bursts {
            if self.stepper.windows() >= self.windows() || stepped > self.settings.most_time {
                break;
            }
            if let Some(end) = self.look(child, Some(Instant::now() + gap), gap / LOOKS)? {
                return Ok(end);
            }
            let began = Instant::now();
            let end = self.burst(child, LONGEST_PAUSE.min(gap / self.settings.burst_windows))?;
            stepped += began.elapsed();
            self.stepper.end_burst();
            if let Some(end) = end {
                return Ok(end);
            }
        }
        let end = self.look(child, None, gap)?;
        Ok(end.unwrap_or(ModelledProgress::Ended(None)))
    }

    /// The windows of all bursts.
    fn windows(&self) -> u32 {
        self.settings.bursts * self.settings.burst_windows
    }

    /// Steps through the windows of a burst; how the run ended if it did in it.
    fn burst(&mut self, child: &mut dyn Child, pause: Duration) -> Result<Option<ModelledProgress>> {
        let end = Instant::now() + self.settings.burst_time;
        for window in 0..self.settings.burst_windows {
            // The windows that are left share the time that is left. On a busy machine all are short: many
            // short windows show better than few long ones how much memory is used.
            let left = end.saturating_duration_since(Instant::now());
            let time = left / (self.settings.burst_windows - window);
            let limits = WindowLimits { steps: self.settings.steps, time };
            let before = self.stepper.windows();
            self.stepper.window(limits).map_err(|error| cannot_trace(&error))?;
            if self.stepper.windows() <= self.windows() / 3 {
                self.warmed_up = self.stepper.sites().len();
            }
            // A thread that waits now will wait for a while.
            if self.stepper.windows() == before {
                break;
            }
            // A look so soon after a window would see its effects.
            let waited = child.wait(Some(Instant::now() + pause))?;
            if let Some(end) = self.end(child, waited) {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// How a run ended, if it did.
    fn end(&self, child: &mut dyn Child, waited: Waited) -> Option<ModelledProgress> {
        match waited {
            Waited::TimedOut => None,
            Waited::Exited(exit) => Some(ModelledProgress::Ended(exit.status)),
            Waited::Interrupted(by) => {
                if !by.reached_command {
                    child.signal(by.signal);
                }
                Some(ModelledProgress::Interrupted(by.signal))
            }
        }
    }

    /// Looks at the threads again and again until a time; how the run ended if it did before.
    fn look(
        &mut self,
        child: &mut dyn Child,
        until: Option<Instant>,
        gap: Duration,
    ) -> Result<Option<ModelledProgress>> {
        self.times.take_break();
        loop {
            let now = Instant::now();
            if until.is_some_and(|until| now >= until) {
                return Ok(None);
            }
            let next = now + gap.max(LEAST_GAP);
            let waited = child.wait(Some(until.map_or(next, |until| next.min(until))))?;
            if let Some(end) = self.end(child, waited) {
                return Ok(Some(end));
            }
            self.states.look(self.root);
            self.times.look(self.root);
        }
    }

    /// The counts of all sites after the first ones.
    fn summed(&self) -> ModelledRun {
        let sites = self.stepper.sites().get(self.warmed_up..).unwrap_or_default();
        // A short program has no window that could be spared.
        let sites = if sites.is_empty() { self.stepper.sites() } else { sites };
        let mut total = ModelCounts::default();
        sites.iter().for_each(|site| total.add(&site.counts));
        ModelledRun {
            exit: None,
            windows: self.stepper.windows(),
            footprint_bytes: self.stepper.footprint_bytes(),
            states: self.seen_of_threads(),
            counts: ModelCounts::NAMES.into_iter().zip(total.values()).collect(),
            estimates: self.estimates(&total),
            code: by_code(sites),
        }
    }

    fn seen_of_threads(&self) -> Vec<(&'static str, u64)> {
        let states = ThreadStates::NAMES.into_iter().zip(self.states.values());
        states.chain(ThreadTimes::NAMES.into_iter().zip(self.times.values())).collect()
    }

    /// The estimates, for the windows that are counted.
    fn estimates(&self, total: &ModelCounts) -> Vec<(&'static str, u64)> {
        let bounds = self.stepper.miss_bounds();
        let part = if bounds.touches == 0 { 0.0 } else { bounds.misses / bounds.touches as f64 };
        let misses = total.irregular_touches as f64 * part;
        let bytes = bounds.working_set_lines * LINE_BYTES as f64;
        ESTIMATES.into_iter().zip([misses, bytes].map(|number| number.round() as u64)).collect()
    }
}

pub(crate) fn cannot_trace(error: &std::io::Error) -> Error {
    let text = format!("cannot trace the command: {error}");
    Error::new(ErrorKind::PermissionDenied, text)
        .with_recovery(Recovery::fix("allow ptrace(2); `cyclometer doctor` says what forbids it"))
}

fn by_code(sites: &[SiteCounts]) -> CodeCounts {
    let mut sums: BTreeMap<(Option<&str>, u64), ModelCounts> = BTreeMap::new();
    for site in sites {
        sums.entry((site.path.as_deref(), site.offset)).or_default().add(&site.counts);
    }
    let mut code =
        CodeCounts { slots: (0..ModelCounts::NAMES.len()).map(SlotId).collect(), ..CodeCounts::default() };
    for ((path, offset), counts) in sums {
        let object = path.map(|path| object_of(&mut code.objects, path));
        code.places.push(CodePlace { object, offset, owner: None, counts: Box::new(counts.values()) });
    }
    code
}

/// The index of a file of code; files come in ascending order.
pub(crate) fn object_of(objects: &mut Vec<CodeObject>, path: &str) -> usize {
    if objects.last().is_none_or(|last| last.path != path) {
        let sum = file_sum(&unescaped_path(path)).unwrap_or_default();
        objects.push(CodeObject { path: path.to_owned(), sum, memory: None });
    }
    objects.len() - 1
}
