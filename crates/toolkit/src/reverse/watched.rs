//! A sweep on a thread of its own, which another one watches.
//!
//! A source or a kernel that does not come back cannot be ended from within the process. So the sweep has its
//! own thread: if that takes too long for one step, the error names the code, and the thread is left behind.
//! When the process ends, the kernel closes its counters, and the restore daemon restores its registers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use cyclometer_core::{CounterId, Error, ErrorKind, Recovery, Result};
use cyclometer_inference::KernelIndex;
use cyclometer_sweep::{
    CodePlacement, JournalHeader, SweepCounts, SweepError, SweepJournal, SweepKernel, SweepObserver,
    SweepProgress, SweepRun, SweepSettings, SweepTarget, SweptCode,
};

/// The longest time of one step if none is given.
pub const STEP_LIMIT: Duration = Duration::from_secs(60);

/// How a machine is swept.
#[derive(Clone, Debug)]
pub struct SweepOptions {
    /// How it counts.
    pub settings: SweepSettings,
    /// Codes that are never placed.
    pub denied: BTreeSet<u32>,
    /// The longest time that placing a code or a run of a kernel may take.
    pub step_limit: Duration,
    /// The journal of an earlier sweep, which this one goes on with.
    pub resumed: Option<SweepJournal>,
}

impl SweepOptions {
    /// A sweep from the begin, with [`STEP_LIMIT`] and no denied codes.
    pub fn new(settings: SweepSettings) -> SweepOptions {
        SweepOptions { settings, denied: BTreeSet::new(), step_limit: STEP_LIMIT, resumed: None }
    }
}

/// The recipient of what happens during a sweep.
pub trait ReverseObserver {
    /// The sweep begins; the header is that of its journal.
    ///
    /// # Errors
    ///
    /// The reason to end the sweep.
    fn begins(&mut self, header: &JournalHeader) -> Result<()> {
        let _ = header;
        Ok(())
    }

    /// A code is done; `is_new` unless an earlier sweep was done with it.
    ///
    /// # Errors
    ///
    /// The reason to end the sweep.
    fn swept(&mut self, code: &SweptCode, is_new: bool, progress: SweepProgress) -> Result<()>;

    /// A code of a search by a threshold is done.
    fn searched(&mut self, progress: SweepProgress) {
        let _ = progress;
    }
}

/// A machine that is ready to be swept.
pub(super) struct ReadyTarget {
    pub(super) target: Box<dyn SweepTarget>,
    /// The kernels, with their durations.
    pub(super) kernels: Vec<SweepKernel>,
}

/// The codes that were swept, and the kernels by which.
pub(super) struct FinishedSweep {
    pub(super) swept: Vec<SweptCode>,
    pub(super) kernels: Vec<SweepKernel>,
}

/// The progress of the thread that sweeps.
#[derive(Clone, Debug, Default)]
pub(super) struct Pulse(Arc<PulseState>);

#[derive(Debug, Default)]
struct PulseState {
    steps: AtomicU64,
    /// The code that is counted, plus 1.
    code: AtomicU64,
    ends: AtomicBool,
}

impl Pulse {
    /// A step has ended.
    pub(super) fn beat(&self) {
        self.0.steps.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn at(&self, code: u32) {
        self.0.code.store(u64::from(code) + 1, Ordering::Relaxed);
    }

    fn code(&self) -> Option<u64> {
        self.0.code.load(Ordering::Relaxed).checked_sub(1)
    }

    fn steps(&self) -> u64 {
        self.0.steps.load(Ordering::Relaxed)
    }
}

pub(super) enum Message<T> {
    Begins(Box<JournalHeader>),
    Swept(Box<SweptCode>, bool, SweepProgress),
    Searched(SweepProgress),
    Ended(Result<T>),
}

/// Sweeps codes of a machine, which `ready` makes on the thread that sweeps.
pub(super) fn sweep_watched(
    codes: Vec<u32>,
    machine: String,
    options: &SweepOptions,
    ready: impl FnOnce(&Pulse) -> Result<ReadyTarget> + Send + 'static,
    observer: &mut dyn ReverseObserver,
) -> Result<FinishedSweep> {
    let options_there = options.clone();
    let work = move |pulse: &Pulse, sender: &Sender<Message<FinishedSweep>>| {
        Job { codes, machine, options: options_there, pulse, sender }.run(ready)
    };
    watched(options.step_limit, work, observer)
}

/// Does some work on a thread of its own, as long as no step of it takes too long.
pub(super) fn watched<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce(&Pulse, &Sender<Message<T>>) -> Result<T> + Send + 'static,
    observer: &mut dyn ReverseObserver,
) -> Result<T> {
    let pulse = Pulse::default();
    let (sender, receiver) = channel();
    let there = pulse.clone();
    let work = move || {
        let ended = work(&there, &sender);
        // The receiver is gone if the other thread did not wait any longer.
        let _ = sender.send(Message::Ended(ended));
    };
    let spawned = std::thread::Builder::new().name("sweep".to_owned()).spawn(work);
    spawned.map_err(|error| {
        Error::new(ErrorKind::Os, format!("cannot start the thread that sweeps: {error}")).with_source(error)
    })?;
    watch(&receiver, &pulse, limit, observer)
}

/// Waits for the end of a sweep, or for a step that takes too long.
fn watch<T>(
    receiver: &Receiver<Message<T>>,
    pulse: &Pulse,
    limit: Duration,
    observer: &mut dyn ReverseObserver,
) -> Result<T> {
    let mut refused = None;
    let (mut steps, mut since) = (pulse.steps(), Instant::now());
    loop {
        let answer = match receiver.recv_timeout(limit.min(Duration::from_millis(500))) {
            Ok(Message::Ended(ended)) => return refused.map_or(ended, Err),
            Ok(_) if refused.is_some() => Ok(()),
            Ok(Message::Begins(header)) => observer.begins(&header),
            Ok(Message::Swept(code, is_new, progress)) => observer.swept(&code, is_new, progress),
            Ok(Message::Searched(progress)) => {
                observer.searched(progress);
                Ok(())
            }
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::new(ErrorKind::Os, "the thread that sweeps has ended without a result"));
            }
        };
        if let Err(error) = answer {
            pulse.0.ends.store(true, Ordering::Relaxed);
            refused = Some(error);
        }
        match pulse.steps() {
            now if now != steps => (steps, since) = (now, Instant::now()),
            _ if since.elapsed() >= limit => return Err(refused.unwrap_or_else(|| stuck(pulse, limit))),
            _ => {}
        }
    }
}

fn stuck(pulse: &Pulse, limit: Duration) -> Error {
    let what = match pulse.code() {
        Some(code) => format!("event {code:#x}: a step of the sweep"),
        None => "a step before the first event".to_owned(),
    };
    let text = format!("{what} did not end within {} s", limit.as_secs_f64());
    let hint = match pulse.code() {
        Some(code) => format!(
            "put {code:#x} on a list of codes that are never programmed (--deny FILE), and go on with --resume"
        ),
        None => "give a step more time: --step-limit SECONDS".to_owned(),
    };
    Error::new(ErrorKind::Os, text).with_recovery(Recovery::fix(hint))
}

/// The work of the thread that sweeps.
struct Job<'a> {
    codes: Vec<u32>,
    machine: String,
    options: SweepOptions,
    pulse: &'a Pulse,
    sender: &'a Sender<Message<FinishedSweep>>,
}

impl Job<'_> {
    fn run(self, ready: impl FnOnce(&Pulse) -> Result<ReadyTarget>) -> Result<FinishedSweep> {
        let ReadyTarget { target, mut kernels } = ready(self.pulse)?;
        let header = JournalHeader {
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            machine: self.machine.clone(),
            kernels: JournalHeader::digest(&kernels),
            settings: self.options.settings.clone(),
            counters: target.counters(),
            durations: kernels.iter().map(|kernel| kernel.durations.clone()).collect(),
            codes: self.codes.clone(),
        };
        let mut known = BTreeMap::new();
        if let Some(journal) = &self.options.resumed {
            journal.header.check(&header).map_err(|error| other_journal(&error))?;
            for (kernel, durations) in kernels.iter_mut().zip(&journal.header.durations) {
                kernel.durations.clone_from(durations);
            }
            known.clone_from(&journal.done);
        }
        let _ = self.sender.send(Message::Begins(Box::new(header)));
        let mut target = BeatingTarget { inner: target, pulse: self.pulse.clone() };
        let run = SweepRun {
            codes: &self.codes,
            kernels: &kernels,
            settings: &self.options.settings,
            denied: &self.options.denied,
            known: &known,
        };
        let mut messenger = Messenger { sender: self.sender, pulse: self.pulse, new: None };
        let swept = run.run(&mut target, &mut messenger).map_err(ended)?;
        Ok(FinishedSweep { swept, kernels })
    }
}

fn other_journal(error: &dyn std::error::Error) -> Error {
    let hint =
        Recovery::fix("sweep anew with --journal FILE, or go on where and with what the journal was made");
    Error::new(ErrorKind::InvalidInput, format!("cannot go on with this journal: {error}"))
        .with_recovery(hint)
}

pub(super) fn ended(error: SweepError) -> Error {
    match error {
        SweepError::Target { code, error } => {
            let text = format!("event {code:#x}: {error}");
            Error::new(error.kind(), text).with_recovery(error.recovery().clone())
        }
        SweepError::Begin(error) | SweepError::Observer(error) => error,
        other => Error::new(ErrorKind::EventUnsupported, other.to_string()),
    }
}

/// Passes what happens on to the thread that watches.
struct Messenger<'a> {
    sender: &'a Sender<Message<FinishedSweep>>,
    pulse: &'a Pulse,
    /// The code that is being counted.
    new: Option<u32>,
}

impl SweepObserver for Messenger<'_> {
    fn begins(&mut self, code: u32) {
        self.new = Some(code);
        self.pulse.at(code);
    }

    fn swept(&mut self, code: &SweptCode, progress: SweepProgress) -> Result<()> {
        let is_new = self.new == Some(code.code);
        let sent = self.sender.send(Message::Swept(Box::new(code.clone()), is_new, progress));
        match sent.is_err() || self.pulse.0.ends.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::Os, "the sweep was ended")),
            false => Ok(()),
        }
    }
}

/// A target whose steps are seen.
pub(super) struct BeatingTarget {
    pub(super) inner: Box<dyn SweepTarget>,
    pub(super) pulse: Pulse,
}

impl SweepTarget for BeatingTarget {
    fn counters(&self) -> Vec<Option<CounterId>> {
        self.inner.counters()
    }

    fn place(&mut self, code: u32) -> Result<CodePlacement> {
        self.pulse.beat();
        self.inner.place(code)
    }

    fn clear(&mut self) -> Result<bool> {
        self.pulse.beat();
        self.inner.clear()
    }

    fn count(&mut self, kernel: KernelIndex, iterations: u64) -> Result<SweepCounts> {
        self.pulse.beat();
        self.inner.count(kernel, iterations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_kernels::{Geometry, InstructionSet};
    use cyclometer_sweep::kernels_for;

    /// A target on which code 7 never comes back, and no code moves.
    struct Hanging(u32);

    impl SweepTarget for Hanging {
        fn counters(&self) -> Vec<Option<CounterId>> {
            vec![None]
        }

        fn place(&mut self, code: u32) -> Result<CodePlacement> {
            self.0 = code;
            Ok(CodePlacement::Placed)
        }

        fn count(&mut self, _: KernelIndex, _: u64) -> Result<SweepCounts> {
            if self.0 == 7 {
                loop {
                    std::thread::park();
                }
            }
            Ok(SweepCounts { counts: vec![0], instructions: None })
        }
    }

    #[derive(Default)]
    struct Seen {
        new: Vec<u32>,
        header: Option<JournalHeader>,
        refuses: bool,
    }

    impl ReverseObserver for Seen {
        fn begins(&mut self, header: &JournalHeader) -> Result<()> {
            self.header = Some(header.clone());
            Ok(())
        }

        fn swept(&mut self, code: &SweptCode, is_new: bool, _: SweepProgress) -> Result<()> {
            self.new.extend(is_new.then_some(code.code));
            match self.refuses {
                true => Err(Error::new(ErrorKind::Io, "the disk is full")),
                false => Ok(()),
            }
        }
    }

    fn swept(codes: &[u32], options: &SweepOptions, seen: &mut Seen) -> Result<Vec<SweptCode>> {
        let ready = |_: &Pulse| {
            let kernels = kernels_for(InstructionSet::X86_64, &Geometry::default());
            Ok(ReadyTarget { target: Box::new(Hanging(0)), kernels })
        };
        let found = sweep_watched(codes.to_vec(), "a machine".to_owned(), options, ready, seen);
        found.map(|finished| finished.swept)
    }

    fn options(step_limit: Duration) -> SweepOptions {
        SweepOptions { step_limit, ..SweepOptions::new(SweepSettings::default()) }
    }

    #[test]
    fn a_step_that_never_ends_is_an_error_that_names_the_code() {
        let error = swept(&[7], &options(Duration::from_millis(300)), &mut Seen::default()).err().unwrap();
        assert_eq!(error.to_string(), "event 0x7: a step of the sweep did not end within 0.3 s");
        assert!(error.recovery().to_string().contains("--deny"), "{}", error.recovery());
    }

    #[test]
    fn a_sweep_that_comes_to_its_end_is_not_disturbed() {
        let mut seen = Seen::default();
        let found = swept(&[1, 2, 3], &options(STEP_LIMIT), &mut seen).unwrap();
        assert_eq!(found.iter().map(|one| one.code).collect::<Vec<_>>(), [1, 2, 3]);
        seen.new.sort_unstable();
        assert_eq!((seen.new, seen.header.unwrap().machine.as_str()), (vec![1, 2, 3], "a machine"));
    }

    #[test]
    fn an_observer_that_cannot_write_ends_the_sweep_with_its_own_error() {
        let mut seen = Seen { refuses: true, ..Seen::default() };
        let error = swept(&[1, 2, 3], &options(STEP_LIMIT), &mut seen).err().unwrap();
        assert_eq!(error.to_string(), "the disk is full");
    }
}
