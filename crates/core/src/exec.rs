//! The execution interface: what `session` asks of launchers and sources.
//!
//! A source never scales, guesses, retries or chooses. A refusal by the kernel or by another user is a
//! [`Refusal`]: data for a replan. None of the traits is `Send`, because ptrace, rdpmc and kpc belong to a
//! thread.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::code::CodeCounts;
use crate::cpuset::CpuSet;
use crate::error::Result;
use crate::event::Part;
use crate::ladder::Rung;
use crate::reason::{MissingReason, PartReason, RefusalReason};
pub use crate::refusal::{Refusal, RefusalKind};
use crate::slot::{Slot, SlotId};
use crate::window::{WindowSpec, Windowing};

/// A command to run: passed on byte for byte, never through a shell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandSpec {
    /// The program, looked up in `PATH` when it has no slash.
    pub program: OsString,
    /// Its arguments, without the program.
    pub args: Vec<OsString>,
    /// The source of its standard input.
    pub stdin: InputStream,
    /// The destination of its standard output.
    pub stdout: OutputStream,
    /// The destination of its standard error.
    pub stderr: OutputStream,
    /// Length of a variable that is added to its environment, in bytes; 0 leaves the environment unchanged.
    /// The length moves the stack, and run times can depend on its address.
    pub padding: u16,
    /// Variables, as `NAME=VALUE`, that precede those of its environment.
    pub variables: Vec<OsString>,
}

impl CommandSpec {
    /// A command that inherits all three streams.
    pub fn new(program: impl Into<OsString>) -> CommandSpec {
        CommandSpec {
            program: program.into(),
            args: Vec::new(),
            stdin: InputStream::Inherit,
            stdout: OutputStream::Inherit,
            stderr: OutputStream::Inherit,
            padding: 0,
            variables: Vec::new(),
        }
    }
}

/// The source of a command's standard input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InputStream {
    /// The same stream as ours.
    Inherit,
    /// The null device, which is empty.
    Null,
    /// A file, read from its start.
    File(PathBuf),
    /// The file that is our standard input, read by each run from this offset.
    Replay {
        /// The offset at which each run begins, in bytes from the start of the file.
        offset_bytes: u64,
    },
}

impl InputStream {
    /// The word used in JSON.
    pub fn word(&self) -> &'static str {
        match self {
            InputStream::Inherit => "inherit",
            InputStream::Null => "null",
            InputStream::File(_) => "file",
            InputStream::Replay { .. } => "replay",
        }
    }
}

/// The destination of a command's standard output or standard error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OutputStream {
    /// The same stream as ours.
    Inherit,
    /// The null device.
    Null,
    /// A device that drops everything and that no program recognises as the null device. Some programs do
    /// less work when they detect the null device (`grep` stops at the first match).
    Discard,
    /// A pipe of this run, which is read to its end and dropped.
    Pipe,
    /// A file, overwritten at each run.
    File(PathBuf),
}

impl OutputStream {
    /// The word used in JSON.
    pub fn word(&self) -> &'static str {
        match self {
            OutputStream::Inherit => "inherit",
            OutputStream::Null => "null",
            OutputStream::Discard => "discard",
            OutputStream::Pipe => "pipe",
            OutputStream::File(_) => "file",
        }
    }
}

/// The way in which a command was run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum LaunchKind {
    /// On the CPU, natively.
    #[default]
    Native,
    /// Under the software PMU.
    Translated,
    /// Without executing a program: a workload of a simulated machine.
    Simulated,
}

impl LaunchKind {
    /// The word used in JSON.
    pub fn word(self) -> &'static str {
        match self {
            LaunchKind::Native => "native",
            LaunchKind::Translated => "translated",
            LaunchKind::Simulated => "simulated",
        }
    }
}

/// Creates child processes.
pub trait Launch {
    /// Creates a process that has not executed the command yet.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Os` when the process cannot be created, `ErrorKind::Io` when a stream cannot be opened.
    fn prepare(&self, command: &CommandSpec) -> Result<Box<dyn Child>>;
}

impl<L: Launch + ?Sized> Launch for &L {
    fn prepare(&self, command: &CommandSpec) -> Result<Box<dyn Child>> {
        (**self).prepare(command)
    }
}

/// A process whose end can be waited for. For a command, this is its only reaper.
pub trait Child {
    /// The id of its process or thread; `None` where it is the whole system.
    fn pid(&self) -> Option<u32>;

    /// Lets it execute its command. [`Child::wait`] reports a command that cannot be executed, so that no
    /// process has to wake up when the command begins to run.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Os` when the process cannot be reached.
    fn release(&mut self) -> Result<()>;

    /// Waits for the process to end, for a point in time or for a signal to us, whichever is first.
    ///
    /// # Errors
    ///
    /// `ErrorKind::CommandNotFound`, `ErrorKind::CommandNotExecutable` when the command could not be
    /// executed; the process has then ended. `ErrorKind::Os` when waiting fails.
    fn wait(&mut self, until: Option<Instant>) -> Result<Waited>;

    /// Sends the process a signal, if it still exists.
    fn signal(&mut self, signal: i32);

    /// The time on the process's own clock, by which its waits end; `None` where it uses ours.
    fn clock(&self) -> Option<Instant> {
        None
    }

    /// Whether its addresses are the same in every run; `None` when this is unknown. Valid after the process
    /// has ended.
    fn layout(&self) -> Option<Layout> {
        None
    }

    /// The cause of its end where the kernel killed it, if that is known. Valid after the process has ended.
    fn kill_cause(&self) -> Option<KillCause> {
        None
    }

    /// The CPU baseline that was presented to it; `None`: the real processor.
    fn cpu_baseline(&self) -> Option<CpuBaseline> {
        None
    }
}

/// The cause for which the kernel killed a command.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum KillCause {
    /// The memory control group of the command ran out of memory.
    GroupOutOfMemory {
        /// The limit of the group, or of a group above, in bytes.
        limit_bytes: u64,
    },
}

impl fmt::Display for KillCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KillCause::GroupOutOfMemory { limit_bytes } = self;
        write!(f, "its memory control group, limited to {} MiB, ran out of memory", limit_bytes >> 20)
    }
}

/// A CPU that is presented to a command, the same on every machine. Libraries then choose the same code
/// everywhere.
///
/// # Source
///
/// System V ABI, AMD64 supplement, section 3.1.1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CpuBaseline {
    /// SSE2, which every 64-bit x86 processor has.
    X86_64,
    /// SSE4.2 and POPCNT in addition.
    X86_64V2,
    /// AVX2, BMI and FMA in addition.
    X86_64V3,
    /// AVX-512 in addition.
    X86_64V4,
}

impl CpuBaseline {
    /// All baselines, from the least to the most.
    pub const ALL: [CpuBaseline; 4] =
        [CpuBaseline::X86_64, CpuBaseline::X86_64V2, CpuBaseline::X86_64V3, CpuBaseline::X86_64V4];

    /// The name that compilers use (`-march`), which is also the word used in JSON.
    pub fn word(self) -> &'static str {
        match self {
            CpuBaseline::X86_64 => "x86-64",
            CpuBaseline::X86_64V2 => "x86-64-v2",
            CpuBaseline::X86_64V3 => "x86-64-v3",
            CpuBaseline::X86_64V4 => "x86-64-v4",
        }
    }
}

/// The address space layout of a process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Layout {
    /// The same in every run: what depends on addresses repeats.
    Fixed,
    /// Randomised by the kernel in every run: what depends on addresses varies.
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

/// The reason why a wait ended.
#[derive(Clone, PartialEq, Debug)]
pub enum Waited {
    /// The process ended.
    Exited(Exit),
    /// The time was reached first.
    TimedOut,
    /// A signal was sent to us (SIGINT, SIGQUIT, SIGTERM, SIGHUP).
    Interrupted(Signalled),
}

/// A signal that was sent to us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signalled {
    /// The signal's number.
    pub signal: i32,
    /// Whether the command received it as well. This is so when the command is in our process group, and the
    /// signal went to the whole group (from the terminal, or by `kill`).
    pub reached_command: bool,
}

/// The end of a process.
#[derive(Clone, PartialEq, Debug)]
pub struct Exit {
    /// The exit status; `None` when the process is not our child, because the kernel does not report it then.
    pub status: Option<ExitStatus>,
    /// From release to reaping, in ns.
    pub wall_ns: u64,
    /// The kernel's accounting for it and its reaped descendants; `None` when it is not our child. The
    /// counters are those of the process alone.
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
    /// Cycles, instructions and energy of the process itself, where the system accounts for them (macOS).
    pub counters: Option<CounterUsage>,
}

/// The system's account of what the counters of a process counted.
///
/// It has all threads of the process, in user and kernel mode, and none of its children.
///
/// # Source
///
/// xnu `bsd/sys/resource.h`, `rusage_info_v4` and `rusage_info_v6`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CounterUsage {
    /// Cycles.
    pub cycles: u64,
    /// Instructions.
    pub instructions: u64,
    /// The shares of performance cores, and energy; `None` where the system does not know them.
    pub cores: Option<CoreTypeUsage>,
    /// Grows when the process reaps a child that used time, whose counts are missing. The unit is the
    /// system's.
    pub children_time: u64,
}

/// Counts by core type, and energy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CoreTypeUsage {
    /// Cycles on performance cores.
    pub performance_cycles: u64,
    /// Instructions on performance cores.
    pub performance_instructions: u64,
    /// Energy on all cores, in nJ.
    pub energy_nj: u64,
    /// Energy on performance cores, in nJ.
    pub performance_energy_nj: u64,
}

/// The target of counting.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Target {
    /// The calling thread.
    ThisThread,
    /// One thread.
    Thread(u32),
    /// A running process with its threads; with `inherit`, also those that it creates from now on.
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
    /// The source that it is.
    fn rung(&self) -> Rung;

    /// Opens the slots on a target. They are stopped; on [`Target::Child`] they start at exec.
    ///
    /// If slots have rotation groups, those of group 0 are selected; see [`Counting::select`].
    ///
    /// # Errors
    ///
    /// A [`Refusal`]; no counter remains open then.
    fn open(&self, slots: &[Slot], on: &Target) -> std::result::Result<Box<dyn Counting>, Refusal>;

    /// Opens windows over the slots on a target: see [`crate::window`].
    ///
    /// # Errors
    ///
    /// A [`Refusal`]; no counter remains open then. Sources without windows refuse.
    fn windows(
        &self,
        slots: &[Slot],
        on: &Target,
        spec: &WindowSpec,
    ) -> std::result::Result<Box<dyn Windowing>, Refusal> {
        let _ = (slots, on, spec);
        let reason = RefusalReason::NoWindows(self.rung());
        Err(Refusal::of_target(RefusalKind::TargetNotSupported, reason))
    }

    /// Counts the slots for a moment, all at the same time, on the calling thread, which executes
    /// instructions meanwhile. It does so on each core type that the slots need and the thread may run on.
    /// `None` where that is impossible or not permitted; the error of opening them has the details.
    fn probe(&self, slots: &[Slot]) -> Option<Reading> {
        let _ = slots;
        None
    }

    /// The clock by which its counters count, when it is not the calling thread's.
    fn clock(&self) -> Option<&dyn Clock> {
        None
    }
}

/// A clock that may stand still while no thread waits, as that of a simulated machine.
pub trait Clock {
    /// The time, as a point in ours.
    fn now(&self) -> Instant;

    /// Lets a short time pass, on this CPU and without sleeping.
    fn pass(&self, time: Duration);
}

/// Open counters; dropping them restores what was changed.
pub trait Counting {
    /// Starts counting, except for slots of rotation groups that are not selected. Does nothing where
    /// counting starts at exec.
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

    /// Lets the slots of this rotation group count, instead of those of the group before. Slots without a
    /// group continue to count. The values of the other slots stay readable, and their times stand still.
    ///
    /// Call it while counting: on a child, after it executed its command. Sources without rotation do
    /// nothing.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Os`, `ErrorKind::StateLost`: it is then unknown which rotation group counts.
    fn select(&mut self, rotation_group: u32) -> Result<()> {
        let _ = rotation_group;
        Ok(())
    }

    /// Records windows with these counters themselves, which are stopped; their values stay the totals.
    /// `None` where windows need counters of their own: [`Source::windows`].
    fn windows(&mut self, spec: &WindowSpec) -> Option<std::result::Result<Box<dyn Windowing>, Refusal>> {
        let _ = spec;
        None
    }

    /// Records how the process ended, before the counters are stopped and read for the last time.
    fn exited(&mut self, exit: &Exit) {
        let _ = exit;
    }

    /// Appends a cell for every open counter: raw values since start, never scaled.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Os`, `ErrorKind::StateLost`.
    fn read(&mut self, out: &mut Reading) -> Result<()>;

    /// The counts of each instruction of a command that has ended and was read, once; `None` where they were
    /// not requested, or the source has none. The error says why they are missing.
    fn take_code(&mut self) -> Option<Result<CodeCounts>> {
        None
    }

    /// The longest time between two reads in which no counter can wrap twice; `None`: unlimited.
    fn longest_pause(&self) -> Option<Duration> {
        None
    }

    /// As [`Counting::read`], but only for the slots of this rotation group and those without one, where that
    /// is cheaper.
    ///
    /// # Errors
    ///
    /// Those of [`Counting::read`].
    fn read_rotation_group(&mut self, rotation_group: u32, out: &mut Reading) -> Result<()> {
        let _ = rotation_group;
        self.read(out)
    }

    /// The counters that [`Counting::sample`] reads, in its order; it never changes.
    ///
    /// Valid after counting has started.
    fn counters(&mut self) -> Vec<CounterAt> {
        let mut reading = Reading::default();
        let _ = self.read(&mut reading);
        reading.cells.into_iter().map(CounterAt::of).collect()
    }

    /// Appends the raw value of every counter, in the order of [`Counting::counters`].
    ///
    /// A region of a program does this at its start and end. A source that can do so reads without allocating
    /// memory and without a system call.
    ///
    /// # Errors
    ///
    /// Those of [`Counting::read`]; in that case no value is appended.
    fn sample(&mut self, out: &mut Vec<Raw>) -> Result<()> {
        let mut reading = Reading::default();
        self.read(&mut reading)?;
        out.extend(reading.cells.iter().map(Raw::of));
        Ok(())
    }

    /// The raw value of one counter alone, by its index in [`Counting::counters`], as cheaply as possible;
    /// `None` where it is lost. The value does not show whether the event was on a counter all the time.
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
    /// The part, CPU or thread that it belongs to.
    pub at: At,
    /// How it is read.
    pub way: ReadWay,
    /// The reason why its values omit, add or blur something, if they do.
    pub partial: Option<PartReason>,
}

impl CounterAt {
    /// The counter of a cell, read through the kernel.
    pub fn of(cell: Cell) -> CounterAt {
        CounterAt { slot: cell.slot, at: cell.at, way: ReadWay::Kernel(None), partial: cell.partial }
    }
}

/// How a counter is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadWay {
    /// By an instruction, without a system call; the kernel is asked only at moments when the event is on no
    /// counter.
    #[doc(alias = "rdpmc")]
    UserSpace,
    /// By a system call, with the reason; `None` where there is no alternative.
    Kernel(Option<String>),
}

/// A raw value with its times, as it is read many times a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Raw {
    /// The raw value.
    pub value: u64,
    /// How long the event was enabled, in ns.
    pub time_enabled_ns: u64,
    /// How long it was on a counter, in ns.
    pub time_running_ns: u64,
    /// Whether the value must not be used.
    pub is_lost: bool,
}

impl Raw {
    /// A lost value.
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

/// The result of a read, cell by cell.
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
    /// The part, CPU or thread that it was counted on.
    pub at: At,
    /// The raw value.
    pub raw: u64,
    /// How long the event was enabled, in ns.
    pub time_enabled_ns: u64,
    /// How long it was on a counter, in ns.
    pub time_running_ns: u64,
    /// Why the value must not be used, if so.
    pub lost: Option<MissingReason>,
    /// The reason why the value omits, adds or blurs something, if it does (`in steps of 10 ms`).
    pub partial: Option<PartReason>,
}

impl Cell {
    /// A valid value of no particular CPU or thread; times in ns.
    pub fn new(slot: SlotId, raw: u64, time_enabled_ns: u64, time_running_ns: u64) -> Cell {
        Cell { slot, at: At::default(), raw, time_enabled_ns, time_running_ns, lost: None, partial: None }
    }
}

/// The part, CPU or thread of a cell.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct At {
    /// Index of the event's part (which core PMU).
    pub part: usize,
    /// The name of the PMU or device; `None` for the operating system's accounting.
    pub pmu: Option<String>,
    /// The CPU, for CPU-wide counts.
    pub cpu: Option<u32>,
    /// The thread, for counts of running threads.
    pub tid: Option<u32>,
}

impl At {
    /// The name of the PMU or device, for messages.
    pub fn counted_by(&self) -> &str {
        self.pmu.as_deref().unwrap_or("the operating system")
    }
}

/// One event on one CPU, of one thread.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct CellKey {
    /// The event.
    pub slot: SlotId,
    /// The CPU, for CPU-wide counts.
    pub cpu: Option<u32>,
    /// The thread, for counts of running threads.
    pub tid: Option<u32>,
}

/// The cells of one [`CellKey`] by PMU. PMUs of a place count at different times, as a thread runs on one
/// core type at a time. The cells of one PMU are the summands of a sum, and count at the same time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PlaceCells<'a> {
    of_pmus: BTreeMap<Option<&'a str>, Vec<&'a Cell>>,
}

impl<'a> PlaceCells<'a> {
    /// Groups cells by place, those of a PMU in the order of the parts.
    pub fn group(cells: impl IntoIterator<Item = &'a Cell>) -> BTreeMap<CellKey, PlaceCells<'a>> {
        let mut places: BTreeMap<CellKey, PlaceCells<'a>> = BTreeMap::new();
        for cell in cells {
            let place = CellKey { slot: cell.slot, cpu: cell.at.cpu, tid: cell.at.tid };
            let of_pmus = &mut places.entry(place).or_default().of_pmus;
            of_pmus.entry(cell.at.pmu.as_deref()).or_default().push(cell);
        }
        let of_pmus = places.values_mut().flat_map(|place| place.of_pmus.values_mut());
        of_pmus.for_each(|cells| cells.sort_by_key(|cell| cell.at.part));
        places
    }

    /// The cells of each PMU.
    pub fn pmus(&self) -> impl Iterator<Item = &[&'a Cell]> {
        self.of_pmus.values().map(Vec::as_slice)
    }

    /// Index of the first of the event's parts without a cell, although its PMU has cells of other parts.
    pub fn absent(&self, parts: &[Part]) -> Option<usize> {
        let is_absent = |(i, part): (usize, &Part)| {
            let cells = self.of_pmus.get(&Some(part.core()?.pmu))?;
            cells.iter().all(|cell| cell.at.part != i).then_some(i)
        };
        parts.iter().enumerate().find_map(is_absent)
    }
}
