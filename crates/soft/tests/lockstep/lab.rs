//! Runs programs natively, translated, and both at a time.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufRead, BufReader, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cyclometer_soft::ExecutionEvent;
use cyclometer_soft::flow::Redundancy;
use cyclometer_soft::host::protocol::{self, ProcessCounts};
use cyclometer_soft::host::{self, InstructionProbe, TracerSettings};
use cyclometer_soft::translate::{self, RcxTest};
use cyclometer_sys::process::{Launcher, Pending, Reap, Request, SIGKILL, Status, Traced, reap, signal};
use cyclometer_sys::{daemon, trace};
use cyclometer_test_support::skip;

use crate::compare::Lockstep;
use crate::probes::{self, SharedNotes};

/// After this time a program is killed.
const DEADLINE: Duration = Duration::from_secs(600);

/// Makes processes. One test at a time has one: a file that is being written cannot be executed, and a
/// process that another test makes meanwhile would hold it open.
pub struct TranslationLab {
    launcher: Launcher,
    /// The test of rcx in translated code, unless it is that of the processor.
    pub rcx_test: Option<RcxTest>,
    _alone: MutexGuard<'static, ()>,
}

/// The command to run.
#[derive(Clone, Copy)]
pub struct LabCommand<'a> {
    pub program: &'a Path,
    pub args: &'a [OsString],
}

/// The effects of a program that others can see.
#[derive(Clone, PartialEq, Eq)]
pub struct LabOutcome {
    pub status: Status,
    pub output: Vec<u8>,
}

/// A run under translation.
pub struct TranslatedRun {
    pub outcome: LabOutcome,
    /// The counts of each process.
    pub counted: Vec<ProcessCounts>,
    /// The notes of the probe.
    pub notes: String,
}

impl fmt::Debug for LabOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = &self.output[..self.output.len().min(200)];
        write!(f, "{:?}, {} bytes: {start:x?}", self.status, self.output.len())
    }
}

impl LabOutcome {
    /// A program that was killed tests little.
    #[track_caller]
    pub fn ended(self, name: &str) -> LabOutcome {
        assert!(matches!(self.status, Status::Code(0 | 7)), "{name}: {:?}", self.status);
        self
    }
}

impl TranslatedRun {
    /// Instructions of the first process.
    pub fn instructions(&self) -> Result<u64, String> {
        self.counted[0].count(ExecutionEvent::Instructions)
    }
}

impl TranslationLab {
    /// `None` where tracing is not permitted, which is said.
    pub fn open() -> Option<TranslationLab> {
        static ALONE: Mutex<()> = Mutex::new(());
        if let Err(error) = trace::permitted() {
            skip(&format!("tracing is not permitted here: {error}"));
            return None;
        }
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let launcher = Launcher::start().unwrap();
        Some(TranslationLab { launcher, rcx_test: None, _alone: alone })
    }

    fn settings(&self) -> TracerSettings {
        let translation = translate::TranslationSettings {
            redundancy: Redundancy::PerEpoch(1),
            rcx_test: self.rcx_test,
            ..Default::default()
        };
        TracerSettings { translation, fixed_layout: true, ..TracerSettings::default() }
    }

    fn prepare(&self, command: LabCommand<'_>) -> (Pending, PipeReader) {
        let (reader, writer) = io::pipe().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        let request = Request {
            program: command.program.as_os_str(),
            args: command.args,
            stdin: Some(null.as_fd()),
            stdout: Some(writer.as_fd()),
            stderr: None,
            traced: Some(Traced { fixed_layout: true }),
        };
        (self.launcher.spawn(&request).unwrap(), reader)
    }

    /// Runs it as it is.
    pub fn native(&self, command: LabCommand<'_>) -> LabOutcome {
        let (pending, reader) = self.prepare(command);
        finish(pending, reader)
    }

    /// Runs it under translation, with a probe that is made in the tracer.
    pub fn translated<P: InstructionProbe + 'static>(
        &self,
        command: LabCommand<'_>,
        probe: Option<impl FnOnce() -> P>,
    ) -> TranslatedRun
    where
        SharedNotes<P>: Notes,
    {
        let (pending, reader) = self.prepare(command);
        let (pid, settings) = (pending.pid(), self.settings());
        let tracer = daemon::fork(move |socket| match probe {
            None => host::follow(pid, socket, settings, None),
            Some(make) => drop(follow_probed(pid, socket, settings, make())),
        });
        let tracer = tracer.unwrap();
        let mut lines = BufReader::new(tracer.socket());
        expect(&mut lines, "ready");
        let outcome = finish(pending, reader);
        report(outcome, lines)
    }

    /// Runs it translated and natively at once, comparing at every instruction, up to a number of them.
    pub fn lockstep(&self, command: LabCommand<'_>, most: u64) -> TranslatedRun {
        let (mut twin, twins_reader) = self.prepare(command);
        let (pending, reader) = self.prepare(command);
        let (pid, twin_pid, settings) = (pending.pid(), twin.pid(), self.settings());
        let tracer = daemon::fork(move |mut socket| {
            let _ = arm(twin_pid, &mut socket);
            let lockstep = probes::begin(twin_pid).map(|()| Lockstep::new(twin_pid, most));
            if let Ok(lockstep) = lockstep {
                drop(follow_probed(pid, socket, settings, lockstep));
            }
        });
        let tracer = tracer.unwrap();
        let mut lines = BufReader::new(tracer.socket());
        expect(&mut lines, "armed");
        twin.release();
        expect(&mut lines, "ready");
        let outcome = finish(pending, reader);
        let native = finish(twin, twins_reader);
        let mut run = report(outcome, lines);
        if run.outcome != native {
            run.notes +=
                &format!(" the twin ended otherwise: {:?}, not {:?}", native.status, run.outcome.status);
        }
        run
    }

    /// How many instructions it executes natively.
    pub fn steps(&self, command: LabCommand<'_>) -> u64 {
        let (mut pending, reader) = self.prepare(command);
        let pid = pending.pid();
        let tracer = daemon::fork(move |mut socket| {
            let _ = arm(pid, &mut socket);
            let count = probes::begin(pid).and_then(|()| probes::count_steps(pid));
            let _ = write!(socket, "{}", count.unwrap_or(0));
        });
        let tracer = tracer.unwrap();
        let mut lines = BufReader::new(tracer.socket());
        expect(&mut lines, "armed");
        pending.release();
        finish(pending, reader);
        let mut text = String::new();
        lines.read_to_string(&mut text).unwrap();
        text.parse().unwrap()
    }
}

/// The notes of a probe at the end.
pub trait Notes {
    fn notes(&self) -> String;
}

fn follow_probed<P: InstructionProbe + 'static>(
    pid: u32,
    mut socket: UnixStream,
    settings: TracerSettings,
    probe: P,
) -> io::Result<()>
where
    SharedNotes<P>: Notes,
{
    let shared = SharedNotes(Rc::new(RefCell::new(probe)));
    host::follow_probed(pid, socket.try_clone()?, settings, Box::new(shared.clone()));
    socket.write_all(shared.notes().as_bytes())
}

/// Begins to trace a process that waits to be released, and says so.
fn arm(pid: u32, socket: &mut UnixStream) -> io::Result<()> {
    trace::seize(pid, trace::Options::EXEC | trace::Options::EXIT_KILL)?;
    socket.write_all(b"armed\n")
}

#[track_caller]
fn expect(lines: &mut impl BufRead, word: &str) {
    assert_eq!(protocol::read_line(lines).unwrap().as_deref(), Some(word));
}

fn report(outcome: LabOutcome, mut lines: BufReader<&UnixStream>) -> TranslatedRun {
    let counted = protocol::read_report(&mut lines).unwrap();
    let mut notes = String::new();
    lines.read_to_string(&mut notes).unwrap();
    TranslatedRun { outcome, counted, notes }
}

/// Releases a program and waits for its end; kills it if that takes too long.
fn finish(mut pending: Pending, mut reader: PipeReader) -> LabOutcome {
    let pid = pending.pid();
    let (done, ended) = channel::<()>();
    let guard = std::thread::spawn(move || {
        if ended.recv_timeout(DEADLINE) == Err(RecvTimeoutError::Timeout) {
            let _ = signal(pid, SIGKILL);
        }
    });
    pending.release();
    let mut output = Vec::new();
    reader.read_to_end(&mut output).unwrap();
    let ended = reap(pid, Reap::Block).unwrap().unwrap();
    drop(done);
    guard.join().unwrap();
    LabOutcome { status: ended.status, output }
}
