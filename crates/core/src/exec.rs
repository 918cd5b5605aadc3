//! The execution seam: what `session` asks of launchers and sources.
//!
//! A source never scales, guesses, retries or chooses. What the kernel or another user refuses is a
//! [`Refusal`]: data for a replan. None of the traits is `Send`: ptrace, rdpmc and kpc are bound to a thread.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::cpuset::CpuSet;
use crate::error::Result;
use crate::ladder::Rung;
use crate::plan::{Slot, SlotId};

/// A command to run: passed on byte for byte, never through a shell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandSpec {
    /// The program, looked up in `PATH` when it has no slash.
    pub program: OsString,
    /// Its arguments, without the program.
    pub args: Vec<OsString>,
    /// Where its standard input comes from.
    pub stdin: Stream,
    /// Where its standard output goes.
    pub stdout: Stream,
    /// Where its standard error goes.
    pub stderr: Stream,
    /// Length of a variable that is added to its environment, in bytes; 0: the environment is as it is. Different lengths
    /// move the stack, on whose place times can depend.
    pub padding: u16,
    /// Variables that are put before those of its environment, as `NAME=VALUE`.
    pub variables: Vec<OsString>,
}

impl CommandSpec {
    /// A command that inherits all three streams.
    pub fn new(program: impl Into<OsString>) -> CommandSpec {
        CommandSpec {
            program: program.into(),
            args: Vec::new(),
            stdin: Stream::Inherit,
            stdout: Stream::Inherit,
            stderr: Stream::Inherit,
            padding: 0,
            variables: Vec::new(),
        }
    }
}

/// Where a standard stream leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stream {
    /// To where ours leads.
    Inherit,
    /// To the null device.
    Null,
    /// Of output: to a device that drops everything and that no program takes for the null device. Some programs do
    /// less work when they see that one (`grep` stops at the first match). As input: empty.
    Discard,
    /// Of output: to a pipe of this run, which is read to its end and dropped. As input: empty.
    Pipe,
    /// To a file: read from its start, or written anew at each run.
    File(PathBuf),
    /// Of input: the file that is our standard input, read by each run from this offset. As output: where ours leads.
    Replay {
        /// Where each run begins, in bytes from the start of the file.
        offset_bytes: u64,
    },
}

impl Stream {
    /// The word used in JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Stream::Inherit => "inherit",
            Stream::Null => "null",
            Stream::Discard => "discard",
            Stream::Pipe => "pipe",
            Stream::File(_) => "file",
            Stream::Replay { .. } => "replay",
        }
    }
}

/// Makes children.
pub trait Launch {
    /// Makes a process that exists and has not executed the command yet.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Os` when no process can be made, `ErrorKind::Io` when a stream cannot be opened.
    fn prepare(&self, command: &CommandSpec) -> Result<Box<dyn Child>>;
}

/// A process whose end is waited for; of a command, its only reaper.
pub trait Child {
    /// Its process id.
    fn pid(&self) -> u32;

    /// Lets it execute its command. That it cannot be executed is told by [`Child::wait`], so that nobody
    /// needs to wake up when it begins to run.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Os` when it cannot be reached.
    fn release(&mut self) -> Result<()>;

    /// Waits for its end, a point in time or a signal to us, whichever is first.
    ///
    /// # Errors
    ///
    /// `ErrorKind::CommandNotFound`, `ErrorKind::CommandNotExecutable` when the command could not be executed:
    /// the process is gone then. `ErrorKind::Os` when waiting fails.
    fn wait(&mut self, until: Option<Instant>) -> Result<Waited>;

    /// Sends it a signal, if it still exists.
    fn signal(&mut self, signal: i32);

    /// The time on a clock of its own, by which its waits end; `None` where it has ours.
    fn clock(&self) -> Option<Instant> {
        None
    }

    /// Whether its addresses are the same in every run; `None` when nobody made sure of it. Asked when it has
    /// ended.
    fn layout(&self) -> Option<Layout> {
        None
    }

    /// Which processor it was told that it has; `None`: the one that there is.
    fn cpu_baseline(&self) -> Option<CpuBaseline> {
        None
    }
}

/// A processor that a command is told that it has, the same on every machine, so that libraries take the same ways.
///
/// # Source
///
/// System V ABI, AMD64 supplement, section 3.1.1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CpuBaseline {
    /// SSE2, as every 64-bit processor of the kind has.
    X86_64,
    /// SSE4.2 and POPCNT beside that.
    X86_64V2,
    /// AVX2, BMI and FMA beside that.
    X86_64V3,
    /// AVX-512 beside that.
    X86_64V4,
}

impl CpuBaseline {
    /// All of them, from the least to the most.
    pub const ALL: [CpuBaseline; 4] =
        [CpuBaseline::X86_64, CpuBaseline::X86_64V2, CpuBaseline::X86_64V3, CpuBaseline::X86_64V4];

    /// The name that compilers give it (`-march`), which is also the word used in JSON.
    pub fn word(self) -> &'static str {
        match self {
            CpuBaseline::X86_64 => "x86-64",
            CpuBaseline::X86_64V2 => "x86-64-v2",
            CpuBaseline::X86_64V3 => "x86-64-v3",
            CpuBaseline::X86_64V4 => "x86-64-v4",
        }
    }
}

/// How the addresses of a process are laid out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Layout {
    /// The same in every run: what depends on addresses repeats.
    Fixed,
    /// Drawn anew in every run, by the kernel: what depends on addresses varies.
    #[doc(alias = "ASLR")]
    Random,
}

impl Layout {
    /// The word used in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Layout::Fixed => "fixed",
            Layout::Random => "random",
        }
    }
}

/// Why a wait ended.
#[derive(Clone, PartialEq, Debug)]
pub enum Waited {
    /// The process ended.
    Exited(Exit),
    /// The time came first.
    TimedOut,
    /// We were sent a signal (SIGINT, SIGQUIT, SIGTERM, SIGHUP).
    Interrupted(Signalled),
}

/// A signal that was sent to us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signalled {
    /// Its number.
    pub signal: i32,
    /// Whether the command has got it as well, as it went to our whole process group (from the terminal, or by
    /// `kill` of the group) and the command is in it.
    pub reached_command: bool,
}

/// The end of a process.
#[derive(Clone, PartialEq, Debug)]
pub struct Exit {
    /// How it ended; `None` when it is not our child, so that nobody tells us.
    pub status: Option<ExitStatus>,
    /// From release to reaping, in ns.
    pub wall_ns: u64,
    /// What the kernel accounted for it and its reaped descendants; `None` when it is not our child.
    pub usage: Option<Usage>,
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExitStatus {
    /// It exited with this status, 0 to 255.
    Code(i32),
    /// A signal killed it.
    Signal(i32),
}

impl ExitStatus {
    /// The status as a shell gives it: 128 + n for signal n.
    pub fn shell_code(self) -> i32 {
        match self {
            ExitStatus::Code(code) => code,
            ExitStatus::Signal(signal) => 128 + signal,
        }
    }

    /// Whether it exited with status 0.
    pub fn success(self) -> bool {
        self == ExitStatus::Code(0)
    }
}

/// The kernel's accounting.
///
/// # Source
///
/// `getrusage(2)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// CPU time in user mode, in ns.
    pub user_ns: u64,
    /// CPU time in kernel mode, in ns.
    pub system_ns: u64,
    /// Peak resident set of the largest process of the tree, in bytes.
    pub peak_rss_bytes: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Switches because the task waited.
    pub voluntary_switches: u64,
    /// Switches because the scheduler took the CPU away.
    pub involuntary_switches: u64,
}

/// What is to be counted.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Target {
    /// The calling thread.
    ThisThread,
    /// One thread.
    Thread(u32),
    /// A running process with its threads; with `inherit`, also those that it makes from now on.
    Process {
        /// Its id.
        pid: u32,
        /// Whether new threads and children are counted too.
        inherit: bool,
    },
    /// Several running processes, or several threads, counted together.
    Several(Vec<Target>),
    /// A child that has not executed its command yet, with all its descendants: counting begins at exec.
    Child(u32),
    /// Everything on these CPUs.
    Cpus(CpuSet),
    /// A control group, on these CPUs.
    Cgroup {
        /// Its folder below the cgroup mount.
        path: PathBuf,
        /// The CPUs.
        cpus: CpuSet,
    },
}

/// A source of counts.
pub trait Source {
    /// Which rung of the ladder it is.
    fn rung(&self) -> Rung;

    /// Opens the slots on a target, stopped; on [`Target::Child`] armed to start at exec.
    ///
    /// Of slots with a turn, those of turn 0 are selected; see [`Counting::select`].
    ///
    /// # Errors
    ///
    /// A [`Refusal`]; nothing is left open then.
    fn open(&self, slots: &[Slot], on: &Target) -> std::result::Result<Box<dyn Counting>, Refusal>;

    /// Counts the slots for a moment, all at the same time, on the calling thread, which executes instructions
    /// meanwhile, on each core type that the slots need and the thread may run on; `None` where that cannot be done or is
    /// not permitted, which opening them tells better.
    fn probe(&self, slots: &[Slot]) -> Option<Reading> {
        let _ = slots;
        None
    }

    /// The clock by which its counters count, where that is not the calling thread's.
    fn clock(&self) -> Option<&dyn Clock> {
        None
    }
}

/// A clock that may stand still as long as nobody waits, as that of a simulated machine.
pub trait Clock {
    /// The time, as a point in ours.
    fn now(&self) -> Instant;

    /// Lets a short time pass, on this CPU and without sleeping.
    fn pass(&self, time: Duration);
}

/// Open counters; dropping them restores what was changed.
pub trait Counting {
    /// Starts counting, the slots with a turn other than the selected one excepted; does nothing where counting
    /// starts at exec.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Os`, `ErrorKind::StateLost`.
    fn start(&mut self) -> Result<()>;

    /// Stops counting; values stay readable.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Os`, `ErrorKind::StateLost`.
    fn stop(&mut self) -> Result<()>;

    /// Lets the slots of this turn count, and those of the turn before not any more; slots without a turn count on.
    /// The values of those that do not count stay readable, and their times stand still.
    ///
    /// To be called while counting: on a child, after it executed its command. Sources without slots that take
    /// turns do nothing.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Os`, `ErrorKind::StateLost`: then nobody knows which slots with a turn count.
    fn select(&mut self, turn: u32) -> Result<()> {
        let _ = turn;
        Ok(())
    }

    /// Takes note of how the process ended, before the counters are stopped and read for the last time.
    fn exited(&mut self, exit: &Exit) {
        let _ = exit;
    }

    /// Appends a cell for every open counter: raw values since start, never scaled.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Os`, `ErrorKind::StateLost`.
    fn read(&mut self, out: &mut Reading) -> Result<()>;

    /// How long its counters may go unread, so that none of them wraps twice unseen; `None`: for ever.
    fn longest_pause(&self) -> Option<Duration> {
        None
    }

    /// As [`Counting::read`], for the slots of this turn and those without one only, where that is cheaper.
    ///
    /// # Errors
    ///
    /// Those of [`Counting::read`].
    fn read_turn(&mut self, turn: u32, out: &mut Reading) -> Result<()> {
        let _ = turn;
        self.read(out)
    }

    /// The counters that [`Counting::sample`] reads, in its order; it never changes.
    ///
    /// Asked when it has been started.
    fn counters(&mut self) -> Vec<CounterAt> {
        let mut reading = Reading::default();
        let _ = self.read(&mut reading);
        reading.cells.into_iter().map(CounterAt::of).collect()
    }

    /// Appends the raw value of every counter, in the order of [`Counting::counters`].
    ///
    /// This is what a region of a program does at its start and end: a source that can, reads without allocating memory and
    /// without a system call.
    ///
    /// # Errors
    ///
    /// Those of [`Counting::read`]; then nothing was appended.
    fn sample(&mut self, out: &mut Vec<Raw>) -> Result<()> {
        let mut reading = Reading::default();
        self.read(&mut reading)?;
        out.extend(reading.cells.iter().map(Raw::of));
        Ok(())
    }

    /// The raw value of one counter alone, by its place in [`Counting::counters`], as cheaply as it can be had; `None` where it
    /// is lost. Nothing tells whether the event was on a counter all the time.
    ///
    /// # Errors
    ///
    /// Those of [`Counting::read`].
    fn value(&mut self, counter: usize) -> Result<Option<u64>> {
        value_of(self, counter)
    }
}

/// The value of one counter alone.
fn value_of(counting: &mut (impl Counting + ?Sized), counter: usize) -> Result<Option<u64>> {
    let mut all = Vec::new();
    counting.sample(&mut all)?;
    Ok(all.get(counter).filter(|raw| !raw.is_lost).map(|raw| raw.value))
}

/// One counter of those that [`Counting::sample`] reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CounterAt {
    /// The event.
    pub slot: SlotId,
    /// Where it is counted.
    pub at: At,
    /// How it is read.
    pub way: ReadWay,
    /// What its values leave out, add or blur, if so.
    pub partial: Option<String>,
}

impl CounterAt {
    /// The counter of a cell, read through the kernel.
    pub fn of(cell: Cell) -> CounterAt {
        CounterAt { slot: cell.slot, at: cell.at, way: ReadWay::Kernel(String::new()), partial: cell.partial }
    }
}

/// How a counter is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadWay {
    /// By an instruction, without a system call; the kernel is asked only at moments when the event is on no counter.
    #[doc(alias = "rdpmc")]
    UserSpace,
    /// By a system call, for this reason; empty where there is no other way.
    Kernel(String),
}

/// A raw value with its times, as it is read many times a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Raw {
    /// The raw value.
    pub value: u64,
    /// How long the event was wanted, in ns.
    pub time_enabled_ns: u64,
    /// How long it was on a counter, in ns.
    pub time_running_ns: u64,
    /// Whether the value is not to be used.
    pub is_lost: bool,
}

impl Raw {
    /// No value.
    pub const LOST: Raw = Raw { value: 0, time_enabled_ns: 0, time_running_ns: 0, is_lost: true };

    fn of(cell: &Cell) -> Raw {
        Raw {
            value: cell.raw,
            time_enabled_ns: cell.time_enabled_ns,
            time_running_ns: cell.time_running_ns,
            is_lost: cell.lost.is_some(),
        }
    }
}

/// What was read, cell by cell.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Reading {
    /// The cells, in no particular order.
    pub cells: Vec<Cell>,
}

/// One counter's value.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    /// The event.
    pub slot: SlotId,
    /// Where it was counted.
    pub at: At,
    /// The raw value.
    pub raw: u64,
    /// How long the event was wanted, in ns.
    pub time_enabled_ns: u64,
    /// How long it was on a counter, in ns.
    pub time_running_ns: u64,
    /// Why the value is not to be used, if so.
    pub lost: Option<String>,
    /// What the value leaves out, adds or blurs, if so (`in steps of 10 ms`).
    pub partial: Option<String>,
}

impl Cell {
    /// A good value at no particular place; times in ns.
    pub fn new(slot: SlotId, raw: u64, time_enabled_ns: u64, time_running_ns: u64) -> Cell {
        Cell { slot, at: At::default(), raw, time_enabled_ns, time_running_ns, lost: None, partial: None }
    }
}

/// Where a cell was counted.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct At {
    /// Index of the event's part (which core PMU).
    pub part: usize,
    /// The PMU's name, empty for the operating system's accounting.
    pub pmu: String,
    /// The CPU, for CPU-wide counts.
    pub cpu: Option<u32>,
    /// The thread, for counts of running threads.
    pub tid: Option<u32>,
}

/// Why a source does not open what the plan says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The slot that was refused; `None` when it is the target or the whole pass.
    pub slot: Option<SlotId>,
    /// What kind of refusal.
    pub kind: RefusalKind,
    /// What the kernel said, in words, with the object.
    pub text: String,
}

/// Kinds of refusal, each with its own way to replan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum RefusalKind {
    /// The PMU does not have the event (ENOENT, EOPNOTSUPP, ENODEV).
    NotSupported,
    /// Not permitted (EACCES, EPERM).
    NoPermission,
    /// The attributes do not suit the PMU (EINVAL): perhaps it cannot filter modes.
    Invalid,
    /// The group does not fit on the PMU.
    GroupTooLarge,
    /// The group's events belong to different PMUs, which cannot count as one.
    GroupMixed,
    /// Another user holds the PMU exclusively (EBUSY).
    Busy,
    /// The process, thread, CPU or control group does not exist.
    NoSuchTarget,
    /// The source cannot count this kind of target.
    TargetNotSupported,
    /// Too many open files.
    TooManyFiles,
    /// Anything else.
    Other,
}
