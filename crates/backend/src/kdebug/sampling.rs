//! Setting kperf up to sample a process, and taking its samples as windows.

use std::io;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cyclometer_core::exec::RefusalKind;
use cyclometer_core::reason::{KperfObstacle, KperfRefusal};
use cyclometer_core::window::{RowBatch, Windowing, WindowingState};
use cyclometer_core::{Error, ErrorKind, Refusal, Result};
use cyclometer_sys::macos::{Kdebug, Kpc, KpcClasses, KperfSampler, SAMPLER_THREAD_COUNTERS};
use cyclometer_sys::process::errno;

use super::record::{HANDLER, KdebugEvent, KdebugRecords, THREAD_DATA};
use super::rows::SampleRows;
use super::samples::ThreadSamples;

/// The number of the one action, and of the one timer.
const ONLY: u32 = 1;

/// KdebugRecords that are taken out at once.
const BATCH: usize = 4096;

/// Most records of the kernel's buffer: 64 MiB.
const MOST_RECORDS: usize = 1 << 20;

/// How long a wait for samples sleeps.
const PAUSE: Duration = Duration::from_millis(1);

/// The shortest period of a timer that samples the threads that have a CPU.
const LEAST_TIMER: Duration = Duration::from_micros(50);

/// The shortest period of a timer that samples every thread.
const LEAST_TIMER_OF_EVERY_THREAD: Duration = Duration::from_millis(1);

/// The shortest period of a timer. The kernel raises a shorter one, and does not say so.
///
/// # Source
///
/// xnu `osfmk/kperf/kptimer.c`, on arm64.
pub fn least_period(every_thread: bool) -> Duration {
    if every_thread { LEAST_TIMER_OF_EVERY_THREAD } else { LEAST_TIMER }
}

/// The functions of kperf and the trace buffer.
pub struct SamplingTools {
    /// Counters.
    pub kpc: Rc<dyn Kpc>,
    /// Actions and timers.
    pub sampler: Box<dyn KperfSampler>,
    /// The trace buffer.
    pub kdebug: Box<dyn Kdebug>,
}

/// When a thread is sampled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SamplingTrigger {
    /// After so many events of a counter.
    Overflow {
        /// The counter, in the kernel's order: 0 and 1 are the fixed ones, the configuration words follow.
        counter: usize,
        /// The number of events.
        period: NonZeroU64,
    },
    /// After so much time; at least [`least_period`].
    Timer {
        /// The time.
        period: Duration,
        /// Whether threads without a CPU are sampled, too.
        every_thread: bool,
    },
}

/// Which program lets the counters count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SampledCounters {
    /// The recording itself, with these configuration words, from PMC2 on.
    Own(Vec<u64>),
    /// Counters of this process that are open beside, and already configured.
    Shared,
}

/// The target of sampling.
#[derive(Clone, PartialEq, Debug)]
pub struct SampledThreads {
    /// The process.
    pub pid: u32,
    /// The counters.
    pub counters: SampledCounters,
    /// Which counter has each slot, in the kernel's order.
    pub columns: Vec<usize>,
    /// When a thread is sampled.
    pub trigger: SamplingTrigger,
    /// Rows for which the kernel's buffer has room.
    pub most_rows: usize,
}

/// Something that has to be undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SetUp {
    CountersForced,
    Actions,
    Buffer,
    Tracing,
    Sampling,
    ThreadCounting,
    Counting,
}

/// The steps of the set-up that were made; dropping them undoes them, the last one first.
struct SamplingSetup {
    tools: SamplingTools,
    done: Vec<SetUp>,
}

impl SamplingSetup {
    fn did(&mut self, what: SetUp) {
        self.done.push(what);
    }

    fn undo(&mut self, what: SetUp) {
        let SamplingTools { kpc, sampler, kdebug } = &self.tools;
        // A step that cannot be undone here ends with the process, which owns it.
        let _ = match what {
            SetUp::CountersForced => kpc.force_counters(false),
            SetUp::Actions => forget_actions(sampler.as_ref()),
            SetUp::Buffer => kdebug.remove(),
            SetUp::Tracing => kdebug.enable(false),
            SetUp::Sampling => sampler.sample(false),
            SetUp::ThreadCounting => kpc.set_thread_counting(KpcClasses::NONE),
            SetUp::Counting => kpc.set_counting(KpcClasses::NONE),
        };
    }

    /// Stops counting, sampling and tracing; the buffer stays to be read.
    fn stop(&mut self) {
        let running = [SetUp::Tracing, SetUp::Sampling, SetUp::ThreadCounting, SetUp::Counting];
        let (stopped, kept): (Vec<SetUp>, Vec<SetUp>) =
            std::mem::take(&mut self.done).into_iter().partition(|done| running.contains(done));
        self.done = kept;
        stopped.into_iter().rev().for_each(|done| self.undo(done));
    }
}

/// Takes the actions away. The kernel's reset keeps the periods and actions of counters.
///
/// # Source
///
/// xnu `osfmk/kperf/kperf.c`, `kperf_reset`; `osfmk/kern/kpc_common.c`.
fn forget_actions(sampler: &dyn KperfSampler) -> io::Result<()> {
    for class in [KpcClasses::FIXED, KpcClasses::CONFIGURABLE] {
        // The rest is undone even where one call fails.
        let _ = sampler.set_interrupt_actions(class, &[]);
        let _ = sampler.set_periods(class, &[]);
    }
    sampler.reset()
}

impl Drop for SamplingSetup {
    fn drop(&mut self) {
        while let Some(done) = self.done.pop() {
            self.undo(done);
        }
    }
}

/// Windows of the threads of a process, which end at samples.
pub struct KperfWindows {
    set_up: SamplingSetup,
    samples: ThreadSamples,
    rows: SampleRows,
    /// Whether it starts and stops the counters.
    counts: bool,
    began_ticks: u64,
    state: KperfWindowsState,
    notes: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum KperfWindowsState {
    Opened,
    Running,
    /// The buffer may still have samples.
    Stopped,
    Over,
}

/// The classes that are counted.
fn all() -> KpcClasses {
    KpcClasses::FIXED | KpcClasses::CONFIGURABLE
}

impl KperfWindows {
    /// Sets everything up; nothing counts before [`Windowing::start`].
    ///
    /// # Errors
    ///
    /// A [`Refusal`] with the step that was refused; what was set up before is undone.
    pub fn open(tools: SamplingTools, what: &SampledThreads) -> std::result::Result<KperfWindows, Refusal> {
        let mut set_up = SamplingSetup { tools, done: Vec::new() };
        let (trigger, notes) = possible(what.trigger);
        configure(&mut set_up, what).map_err(|error| refusal("configure the counters", &error))?;
        let acts = actions(&mut set_up, what, trigger);
        acts.map_err(|error| refusal("set up what is sampled", &error))?;
        buffer(&mut set_up, what).map_err(|error| refusal("make the trace buffer", &error))?;
        let counters = set_up.tools.kpc.counter_count(all());
        Ok(KperfWindows {
            samples: ThreadSamples::new(counters),
            rows: SampleRows::new(what.pid, what.columns.clone()),
            set_up,
            counts: what.counters != SampledCounters::Shared,
            began_ticks: 0,
            state: KperfWindowsState::Opened,
            notes,
        })
    }

    /// Takes samples out of the buffer; returns the number of records.
    fn take(&mut self, batch: &mut RowBatch) -> Result<usize> {
        let tools = &self.set_up.tools;
        let bytes = tools.kdebug.read(BATCH).map_err(|error| failed("read the trace buffer", error))?;
        let mut count = 0;
        for record in KdebugRecords::new(&bytes) {
            count += 1;
            if record.event == KdebugEvent::Lost {
                self.rows.records_were_lost();
            }
            if let Some(sample) = self.samples.add(record) {
                let since = sample.time_ticks.saturating_sub(self.began_ticks);
                batch.rows.extend(self.rows.add(&sample, tools.sampler.nanoseconds(since)));
            }
        }
        batch.lost += self.rows.take_lost();
        Ok(count)
    }
}

/// A trigger that the kernel takes as it is, and what was changed.
fn possible(trigger: SamplingTrigger) -> (SamplingTrigger, Vec<String>) {
    let SamplingTrigger::Timer { period, every_thread } = trigger else { return (trigger, Vec::new()) };
    let least = least_period(every_thread);
    if period >= least {
        return (trigger, Vec::new());
    }
    let note = format!("macOS samples at most every {} µs here: that is the period", least.as_micros());
    (SamplingTrigger::Timer { period: least, every_thread }, vec![note])
}

/// Counters first: from macOS 26 on a configuration counts only if it is there before counting starts.
fn configure(set_up: &mut SamplingSetup, what: &SampledThreads) -> io::Result<()> {
    let SampledCounters::Own(words) = &what.counters else { return Ok(()) };
    set_up.tools.kpc.force_counters(true)?;
    set_up.did(SetUp::CountersForced);
    set_up.tools.kpc.set_config(KpcClasses::CONFIGURABLE, words)
}

fn actions(set_up: &mut SamplingSetup, what: &SampledThreads, trigger: SamplingTrigger) -> io::Result<()> {
    let sampler = &set_up.tools.sampler;
    sampler.set_action_count(ONLY)?;
    set_up.did(SetUp::Actions);
    let sampler = &set_up.tools.sampler;
    sampler.set_samplers(ONLY, SAMPLER_THREAD_COUNTERS)?;
    sampler.limit_to_process(ONLY, what.pid)?;
    match trigger {
        SamplingTrigger::Overflow { counter, period } => {
            let fixed = set_up.tools.kpc.counter_count(KpcClasses::FIXED);
            let (class, index) = match counter.checked_sub(fixed) {
                None => (KpcClasses::FIXED, counter),
                Some(index) => (KpcClasses::CONFIGURABLE, index),
            };
            let mut periods = vec![0; index + 1];
            periods[index] = period.get();
            sampler.set_periods(class, &periods)?;
            let mut actions = vec![0; index + 1];
            actions[index] = ONLY;
            sampler.set_interrupt_actions(class, &actions)
        }
        SamplingTrigger::Timer { period, every_thread } => {
            sampler.set_timer_count(ONLY)?;
            let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
            sampler.set_timer_period(ONLY, period_ns)?;
            sampler.set_timer_action(ONLY, ONLY)?;
            if every_thread { sampler.sample_every_thread(ONLY) } else { Ok(()) }
        }
    }
}

fn buffer(set_up: &mut SamplingSetup, what: &SampledThreads) -> io::Result<()> {
    // The records of a sample: both ends of the interrupt, and the counters in fours.
    let each = 2 + set_up.tools.kpc.counter_count(all()).div_ceil(4);
    let records = what.most_rows.saturating_mul(each).clamp(BATCH, MOST_RECORDS);
    let kdebug = &set_up.tools.kdebug;
    kdebug.remove()?;
    kdebug.set_buffers(u32::try_from(records).unwrap_or(u32::MAX))?;
    kdebug.set_up()?;
    set_up.did(SetUp::Buffer);
    // The kernel compares numbers without the bits for start and end.
    set_up.tools.kdebug.keep_only([HANDLER, THREAD_DATA, HANDLER, THREAD_DATA])
}

fn refusal(step: &str, error: &io::Error) -> Refusal {
    let (kind, obstacle) = match error.raw_os_error() {
        Some(errno::EPERM) => (RefusalKind::NoPermission, KperfObstacle::NotRoot),
        Some(errno::EACCES) => (RefusalKind::Busy, KperfObstacle::CountersTaken),
        Some(errno::EBUSY) => (RefusalKind::Busy, KperfObstacle::PmuTaken),
        Some(errno::ESRCH) => (RefusalKind::NoSuchTarget, KperfObstacle::NoSuchProcess),
        _ => (RefusalKind::Other, KperfObstacle::Reported(error.to_string())),
    };
    Refusal::of_target(kind, KperfRefusal::Sampling { step: step.to_owned(), obstacle })
}

fn failed(what: &str, error: io::Error) -> Error {
    Error::new(ErrorKind::StateLost, format!("cannot {what}: {error}")).with_source(error)
}

impl Windowing for KperfWindows {
    fn start(&mut self) -> Result<()> {
        let running = |error| failed("start sampling", error);
        self.began_ticks = self.set_up.tools.kdebug.now_ticks();
        self.set_up.tools.kdebug.enable(true).map_err(running)?;
        self.set_up.did(SetUp::Tracing);
        self.set_up.tools.sampler.sample(true).map_err(running)?;
        self.set_up.did(SetUp::Sampling);
        self.set_up.tools.kpc.set_thread_counting(all()).map_err(running)?;
        self.set_up.did(SetUp::ThreadCounting);
        if self.counts {
            self.set_up.tools.kpc.set_counting(all()).map_err(running)?;
            self.set_up.did(SetUp::Counting);
        }
        self.state = KperfWindowsState::Running;
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.set_up.stop();
        self.state = KperfWindowsState::Stopped;
        Ok(())
    }

    fn next(&mut self, until: Instant, batch: &mut RowBatch) -> Result<WindowingState> {
        loop {
            match self.state {
                KperfWindowsState::Over => return Ok(WindowingState::Ended),
                KperfWindowsState::Opened => return Ok(WindowingState::Open),
                KperfWindowsState::Running | KperfWindowsState::Stopped => {}
            }
            let taken = self.take(batch)?;
            if self.state == KperfWindowsState::Stopped && taken == 0 {
                self.state = KperfWindowsState::Over;
            } else if !batch.rows.is_empty() || Instant::now() >= until {
                return Ok(WindowingState::Open);
            } else if taken == 0 {
                std::thread::sleep(PAUSE.min(until.saturating_duration_since(Instant::now())));
            }
        }
    }

    fn notes(&self) -> Vec<String> {
        let (lost, broken) = (self.samples.lost(), self.samples.broken());
        let full =
            (lost > 0).then(|| format!("the kernel's trace buffer was full {lost} times: rows are lost"));
        let cut = (broken > 0).then(|| format!("{broken} samples were incomplete"));
        self.notes.iter().cloned().chain(full).chain(cut).collect()
    }
}
