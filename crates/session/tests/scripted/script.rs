//! A launcher and sources that follow a script, and the events and machine they play on.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use cyclometer_core::event::{OsMetric, PerfClass, PerfEvent, Unit};
use cyclometer_core::exec::*;
use cyclometer_core::ladder::{Ladder, RungState, Works};
use cyclometer_core::machine::{
    AccessRights, Architecture, Capabilities, CoreType, CpuId, MachineCpu, Os, PmuFacts, Vendor,
};
use cyclometer_core::modes::Modes;
use cyclometer_core::{
    Candidate, CounterMask, CpuSet, Error, ErrorKind, Event, Machine, Part, Provenance, Refusal, Result,
    Rung, Slot, SlotId,
};

/// The log of events, in order; shared by everything in one script.
use super::windows::{ScriptedWindows, WindowFate};
use cyclometer_core::window::{WindowSpec, Windowing};

pub type Log = Rc<RefCell<Vec<String>>>;

/// How one child behaves.
#[derive(Clone)]
pub enum Act {
    /// Runs and ends so.
    Exit(ExitStatus),
    /// The kernel kills it, for this cause.
    Killed(KillCause),
    /// Waits for that many deadlines, then exits with status 0.
    Deadlines(u32),
    /// Cannot be executed.
    NotFound,
    /// We get a signal that often while it runs; it takes no notice and exits with status 0.
    Deaf(Signalled, u32),
    /// We get a signal while it runs; if it is passed on, it dies of it.
    Signalled(Signalled),
}

pub struct ScriptedLaunch {
    pub log: Log,
    pub acts: RefCell<VecDeque<Act>>,
}

/// Starts commands under translation, or refuses to.
pub struct ScriptedTranslation {
    pub log: Log,
    /// The answers to `prepare`, in order; what is missing is no refusal.
    pub refusals: RefCell<VecDeque<Option<&'static str>>>,
    pub acts: RefCell<VecDeque<Act>>,
}

impl Launch for ScriptedTranslation {
    fn prepare(&self, _: &CommandSpec) -> Result<Box<dyn Child>> {
        self.log.borrow_mut().push("prepare translated".into());
        if let Some(Some(refusal)) = self.refusals.borrow_mut().pop_front() {
            return Err(Error::new(ErrorKind::ArchUnsupported, refusal));
        }
        let act = self.acts.borrow_mut().pop_front().unwrap_or(Act::Exit(ExitStatus::Code(0)));
        let layout = Some(Layout::Fixed);
        Ok(Box::new(ScriptedChild { log: self.log.clone(), act, waits: 0, signalled: None, layout }))
    }
}

impl Launch for ScriptedLaunch {
    fn prepare(&self, _: &CommandSpec) -> Result<Box<dyn Child>> {
        self.log.borrow_mut().push("prepare".into());
        let act = self.acts.borrow_mut().pop_front().unwrap_or(Act::Exit(ExitStatus::Code(0)));
        Ok(Box::new(ScriptedChild { log: self.log.clone(), act, waits: 0, signalled: None, layout: None }))
    }
}

struct ScriptedChild {
    log: Log,
    act: Act,
    waits: u32,
    signalled: Option<i32>,
    layout: Option<Layout>,
}

impl Child for ScriptedChild {
    fn pid(&self) -> Option<u32> {
        Some(4711)
    }

    fn release(&mut self) -> Result<()> {
        self.log.borrow_mut().push("release".into());
        Ok(())
    }

    fn wait(&mut self, until: Option<Instant>) -> Result<Waited> {
        self.waits += 1;
        let exited = |status| {
            Ok(Waited::Exited(Exit { status: Some(status), wall_ns: 1000, usage: Some(Usage::default()) }))
        };
        match (&self.act, self.signalled) {
            (Act::Deaf(signalled, times), _) if self.waits <= *times => Ok(Waited::Interrupted(*signalled)),
            (Act::Deaf(..), _) => exited(ExitStatus::Code(0)),
            (_, Some(signal)) => exited(ExitStatus::Signal(signal)),
            (Act::Signalled(signalled), None) if self.waits == 1 => Ok(Waited::Interrupted(*signalled)),
            (Act::Deadlines(n), _) if self.waits <= *n => {
                let until = until.expect("a wait without a deadline");
                std::thread::sleep(until.saturating_duration_since(Instant::now()));
                Ok(Waited::TimedOut)
            }
            (Act::NotFound, _) => Err(Error::new(ErrorKind::CommandNotFound, "command 'x' not found")),
            (Act::Exit(status), _) => exited(*status),
            (Act::Killed(_), _) => exited(ExitStatus::Signal(9)),
            _ => exited(ExitStatus::Code(0)),
        }
    }

    fn signal(&mut self, signal: i32) {
        self.log.borrow_mut().push(format!("signal {signal}"));
        self.signalled = Some(signal);
    }

    fn layout(&self) -> Option<Layout> {
        self.layout
    }

    fn kill_cause(&self) -> Option<KillCause> {
        if let Act::Killed(cause) = self.act { Some(cause) } else { None }
    }
}

/// Answers one `open` call.
pub enum OpenAnswer {
    Open,
    Refuse(&'static str, RefusalKind),
    /// Refuses the last slot.
    RefuseLast(RefusalKind),
    /// Refuses the whole pass.
    RefuseAll(&'static str),
}

/// The behaviour of a source's counters once open.
#[derive(Clone, Copy, PartialEq)]
pub enum Fate {
    Count,
    /// The last read fails.
    Lose,
    /// The values are not to be used.
    Leave,
}

/// The cells of each slot: part, CPU, thread, raw, running share in percent.
pub type SlotCells = Vec<(usize, Option<u32>, Option<u32>, u64, u64)>;

pub struct ScriptedSource {
    pub rung: Rung,
    pub log: Log,
    pub answers: RefCell<VecDeque<OpenAnswer>>,
    pub fate: Fate,
    pub cells: SlotCells,
    /// The slots that count in a probe, by their position and their name; `None`: nothing can be probed.
    pub probed: Option<Probed>,
    /// The script of its windows; `None`: it has none.
    pub windows: Option<WindowFate>,
}

/// Whether an event counts in a probe.
pub type Probed = fn(usize, &str) -> bool;

impl ScriptedSource {
    pub fn new(rung: Rung, log: &Log) -> ScriptedSource {
        let cells = vec![(0, None, None, 100, 100)];
        ScriptedSource {
            rung,
            log: log.clone(),
            answers: RefCell::default(),
            fate: Fate::Count,
            cells,
            probed: None,
            windows: None,
        }
    }

    pub fn answering(self, answers: impl IntoIterator<Item = OpenAnswer>) -> ScriptedSource {
        self.answers.borrow_mut().extend(answers);
        self
    }
}

impl Source for ScriptedSource {
    fn rung(&self) -> Rung {
        self.rung
    }

    fn open(&self, slots: &[Slot], on: &Target) -> std::result::Result<Box<dyn Counting>, Refusal> {
        let names: Vec<String> = slots.iter().map(shown).collect();
        self.log.borrow_mut().push(format!("open {} {} on {}", self.rung, names.join("+"), target(on)));
        match self.answers.borrow_mut().pop_front() {
            Some(OpenAnswer::Refuse(name, kind)) => {
                let slot = slots.iter().find(|slot| slot.name == name).map(|slot| slot.id);
                Err(Refusal { slot, kind, reason: format!("{name}: {kind:?}").into() })
            }
            Some(OpenAnswer::RefuseLast(kind)) => {
                let slot = slots.last().map(|slot| slot.id);
                Err(Refusal { slot, kind, reason: format!("{kind:?}").into() })
            }
            Some(OpenAnswer::RefuseAll(text)) => {
                Err(Refusal::of_target(RefusalKind::TargetNotSupported, text))
            }
            Some(OpenAnswer::Open) | None => Ok(Box::new(ScriptedCounting {
                rung: self.rung,
                log: self.log.clone(),
                slots: slots.iter().map(|slot| slot.id).collect(),
                cells: self.cells.clone(),
                fate: self.fate,
                stopped: false,
                logs_stop: self.windows.is_some(),
            })),
        }
    }

    fn windows(
        &self,
        _: &[Slot],
        _: &Target,
        _: &WindowSpec,
    ) -> std::result::Result<Box<dyn Windowing>, Refusal> {
        match self.windows {
            Some(fate) => Ok(Box::new(ScriptedWindows { log: self.log.clone(), fate, stopped: false })),
            None => Err(Refusal::of_target(RefusalKind::TargetNotSupported, "none")),
        }
    }

    fn probe(&self, slots: &[Slot]) -> Option<Reading> {
        let counts = self.probed?;
        let names: Vec<&str> = slots.iter().map(|slot| slot.name.as_str()).collect();
        self.log.borrow_mut().push(format!("probe {}", names.join("+")));
        Some(probed(slots, counts))
    }
}

/// The result of a probe of these slots.
fn probed(slots: &[Slot], counts: Probed) -> Reading {
    let cell = |(i, slot): (usize, &Slot)| {
        let running = if counts(i, &slot.name) { 100_000 } else { 0 };
        Cell {
            at: At { pmu: Some("pmu0".to_owned()), ..At::default() },
            ..Cell::new(slot.id, running, 100_000, running)
        }
    };
    Reading { cells: slots.iter().enumerate().map(cell).collect() }
}

fn shown(slot: &Slot) -> String {
    match slot.filter {
        Some(modes) => format!("{}:{modes}", slot.name),
        None => slot.name.clone(),
    }
}

fn target(on: &Target) -> String {
    match on {
        Target::Child(pid) => format!("child {pid}"),
        Target::Cpus(cpus) => format!("cpus {cpus}"),
        other => format!("{other:?}"),
    }
}

struct ScriptedCounting {
    rung: Rung,
    log: Log,
    slots: Vec<SlotId>,
    cells: SlotCells,
    fate: Fate,
    stopped: bool,
    logs_stop: bool,
}

impl Counting for ScriptedCounting {
    fn start(&mut self) -> Result<()> {
        self.log.borrow_mut().push(format!("start {}", self.rung));
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        if self.logs_stop {
            self.log.borrow_mut().push(format!("stop {}", self.rung));
        }
        self.stopped = true;
        Ok(())
    }

    fn read(&mut self, out: &mut Reading) -> Result<()> {
        if self.stopped && self.fate == Fate::Lose {
            return Err(Error::new(ErrorKind::StateLost, "the registers were overwritten"));
        }
        for slot in &self.slots {
            out.cells.extend(self.cells.iter().map(|(part, cpu, tid, raw, running)| {
                Cell {
                    at: At { part: *part, pmu: Some(format!("pmu{part}")), cpu: *cpu, tid: *tid },
                    lost: (self.fate == Fate::Leave)
                        .then(|| "detached at 0x401000: the program started a thread".into()),
                    ..Cell::new(*slot, *raw, 100, *running)
                }
            }));
        }
        Ok(())
    }
}

impl Drop for ScriptedCounting {
    fn drop(&mut self) {
        self.log.borrow_mut().push(format!("close {}", self.rung));
    }
}

pub fn machine() -> Machine {
    let state = |rung| RungState { rung, works: Works::Yes, causes: Vec::new() };
    Machine {
        os: Os::Linux,
        kernel_release: None,
        architecture: Architecture::X86_64,
        cpu: MachineCpu { vendor: Vendor::Intel, id: CpuId::Unknown, name: None },
        core_types: Vec::new(),
        online: CpuSet::parse("0-1").unwrap(),
        smt_active: None,
        energy: Vec::new(),
        gpus: cyclometer_core::gpu::Gpus::default(),
        hypervisor: None,
        container: None,
        pmus: Vec::new(),
        access: AccessRights::default(),
        capabilities: Capabilities {
            architecture: String::new(),
            counter_count: 0,
            fixed_counters: 0,
            counter_width_bits: None,
            user_mode_access: false,
            needs_kernel_patch: false,
        },
        ladder: Ladder {
            rungs: [Rung::Perf, Rung::Soft, Rung::Os].map(state).to_vec(),
            perf_hardware: Ok(()),
            perf_software: Ok(()),
            perf_kernel_mode: Ok(()),
            perf_cpu_wide: Ok(()),
        },
    }
}

fn event(name: &str, candidates: Vec<Candidate>) -> Event {
    Event::new(name, Unit::Count, candidates)
}

fn perf(name: &str, modes: Option<Modes>, parts: usize) -> Candidate {
    let code = name.bytes().fold(0, |code, byte| code << 8 | u64::from(byte));
    let part = |i| PerfEvent::new(format!("pmu{i}"), 4, code, PerfClass::Core);
    Candidate::perf((0..parts).map(part).collect(), Provenance::Hardware, modes)
}

/// A hardware event for perf only.
pub fn hardware(name: &str) -> Event {
    event(name, vec![perf(name, Some(Modes::USER), 1)])
}

/// A hardware event for any of the four counters of [`machine_with_counters`].
pub fn placed(name: &str) -> Event {
    let mut event = hardware(name);
    let Some(Part::Perf(part)) = event.candidates[0].parts.first_mut() else { return event };
    part.constraint = Some(CounterMask::first(4, 0));
    event
}

/// A machine whose core PMU has four counters.
pub fn machine_with_counters() -> Machine {
    let core = CoreType {
        cpu_id: None,
        microarchitecture: None,
        cpus: CpuSet::parse("0-1").unwrap(),
        pmu: PmuFacts { counters: CounterMask::first(4, 0), ..PmuFacts::default() },
        kernel_pmu: Some("pmu0".to_owned()),
    };
    Machine { core_types: vec![core], ..machine() }
}

/// A hardware event in user and kernel mode.
pub fn both_modes(name: &str) -> Event {
    event(name, vec![perf(name, Some(Modes::USER_KERNEL), 1)])
}

/// A hardware event with one part for each of two core PMUs.
pub fn hybrid(name: &str) -> Event {
    event(name, vec![perf(name, Some(Modes::USER), 2)])
}

fn os(metric: OsMetric) -> Candidate {
    Candidate::accounting(metric, "rusage")
}

/// A kernel event with the accounting below it.
pub fn software(name: &str) -> Event {
    event(name, vec![perf(name, None, 1), os(OsMetric::PageFaults)])
}

/// An event of the software PMU alone.
pub fn soft(name: &str) -> Event {
    event(name, vec![Candidate::soft(name, Modes::USER)])
}

/// A hardware event with the software PMU below it.
pub fn portable(name: &str) -> Event {
    event(name, vec![perf(name, Some(Modes::USER), 1), Candidate::soft(name, Modes::USER)])
}

/// A metric of the accounting.
pub fn accounting(name: &str) -> Event {
    event(name, vec![os(OsMetric::WallTime)])
}
