//! Launchers and sources as they are, but that each command finds a board in its environment, with the events
//! it is counted with.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cyclometer_backend::{event_number, thread_events};
use cyclometer_core::exec::{CommandSpec, CounterAt, Exit, Layout, Raw, Reading, Waited};
use cyclometer_core::{
    Child, Counting, CpuBaseline, Error, ErrorKind, Launch, MissingReason, Part, Refusal, Result, Rung, Slot,
    SlotId, Source, Target,
};
use cyclometer_marker::board::{Board, BoardRow, Counts, MOST_COUNTERS};

/// The boards of the commands of a measurement, and the contents of those that ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Boards(Rc<RefCell<BoardsState>>);

#[derive(Debug, Default)]
struct BoardsState {
    /// Commands that have not been released, by process id.
    prepared: HashMap<u32, Marked>,
    /// Commands that were released and have not ended, by process id.
    released: HashMap<u32, Marked>,
    /// The contents of the boards of commands that have ended, in their order.
    ended: Vec<BoardContents>,
}

/// The board of one command.
#[derive(Debug)]
pub(crate) struct Marked {
    pub(crate) board: Board,
    /// The events of the counters on it.
    pub(crate) counters: Vec<MarkedCounter>,
    /// Slots that have no counter there, each with the reason.
    pub(crate) left_out: Vec<(SlotId, MissingReason)>,
}

/// The contents of the board of a command when it had ended. The board itself takes a descriptor and much of
/// the address space, so that no measurement keeps one for each run.
#[derive(Debug)]
pub(crate) struct BoardContents {
    pub(crate) rows: Vec<BoardRow>,
    pub(crate) dropped: u64,
    /// Whether there was no row for a thread and a name.
    pub(crate) is_out_of_rows: bool,
    /// Whether there was no room for a name.
    pub(crate) is_out_of_names: bool,
    pub(crate) cut: u64,
    pub(crate) other_version: Option<u64>,
    /// The events of the counters in its rows.
    pub(crate) counters: Vec<MarkedCounter>,
    /// Slots that have no counter there, each with the reason.
    pub(crate) left_out: Vec<(SlotId, MissingReason)>,
}

impl From<Marked> for BoardContents {
    fn from(marked: Marked) -> BoardContents {
        let Marked { board, counters, left_out } = marked;
        BoardContents {
            rows: board.rows(),
            dropped: board.dropped(),
            is_out_of_rows: board.is_out_of_rows(),
            is_out_of_names: board.is_out_of_names(),
            cut: board.cut(),
            other_version: board.other_version(),
            counters,
            left_out,
        }
    }
}

/// A counter of a board.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MarkedCounter {
    pub(crate) slot: SlotId,
    pub(crate) rung: Rung,
    pub(crate) part: usize,
    pub(crate) pmu: String,
}

impl Boards {
    /// The contents of the boards of the executed commands, in their order.
    pub(crate) fn take(&self) -> Vec<BoardContents> {
        std::mem::take(&mut self.0.borrow_mut().ended)
    }

    fn release(&self, pid: u32) {
        let mut state = self.0.borrow_mut();
        let marked = state.prepared.remove(&pid);
        state.released.extend(marked.map(|marked| (pid, marked)));
    }

    /// Reads the board of a command that was executed, and gives it back.
    fn end(&self, pid: u32) {
        let mut state = self.0.borrow_mut();
        state.prepared.remove(&pid);
        let counted = state.released.remove(&pid).map(BoardContents::from);
        state.ended.extend(counted);
    }

    /// Puts slots that count a command on its board.
    fn put(&self, pid: u32, slots: &[Slot]) {
        if let Some(marked) = self.0.borrow_mut().prepared.get_mut(&pid) {
            slots.iter().for_each(|slot| marked.put(slot));
        }
    }
}

impl Marked {
    fn put(&mut self, slot: &Slot) {
        let software = slot.parts.iter().enumerate().filter_map(|(part, event)| match event {
            Part::Soft(name) => Some((part, String::new(), Counts::Software(event_number(name)?))),
            _ => None,
        });
        let native = thread_events(slot).into_iter().map(|event| {
            let (pmu_type, config, flags, user_reads) =
                (event.pmu_type, event.config, event.flags, event.user_reads);
            (event.part, event.pmu, Counts::Perf { pmu_type, config, flags, user_reads })
        });
        let counters: Vec<_> = software.chain(native).collect();
        if counters.is_empty() {
            self.left_out.push((slot.id, left_out(slot.rung)));
        }
        for (part, pmu, counts) in counters {
            match self.board.add_counter(counts) {
                Some(_) => {
                    self.counters.push(MarkedCounter { slot: slot.id, rung: slot.rung, part, pmu });
                }
                None => {
                    let reason = MissingReason::TooManyCounters { most: MOST_COUNTERS };
                    self.left_out.push((slot.id, reason));
                }
            }
        }
    }
}

/// Why an event is not counted in regions.
fn left_out(rung: Rung) -> MissingReason {
    match rung {
        Rung::Os => MissingReason::OfProcesses,
        Rung::Perf => MissingReason::OfSystem,
        _ => MissingReason::NoThreads,
    }
}

/// A launcher that gives each command a board.
pub(crate) struct MarkedLaunch<'a> {
    pub(crate) inner: &'a dyn Launch,
    pub(crate) boards: Boards,
}

impl Launch for MarkedLaunch<'_> {
    fn prepare(&self, command: &CommandSpec) -> Result<Box<dyn Child>> {
        let board = Board::make().map_err(|error| {
            let text = format!("cannot make the memory that regions report to: {error}");
            Error::new(ErrorKind::Os, text).with_source(error)
        })?;
        let mut command = command.clone();
        command.variables.push(board.variable().into());
        let inner = self.inner.prepare(&command)?;
        let marked = Marked { board, counters: Vec::new(), left_out: Vec::new() };
        self.boards.0.borrow_mut().prepared.extend(inner.pid().map(|pid| (pid, marked)));
        Ok(Box::new(MarkedChild { inner, boards: self.boards.clone() }))
    }
}

/// A command with a board.
struct MarkedChild {
    inner: Box<dyn Child>,
    boards: Boards,
}

impl Child for MarkedChild {
    fn pid(&self) -> Option<u32> {
        self.inner.pid()
    }

    fn release(&mut self) -> Result<()> {
        self.inner.pid().into_iter().for_each(|pid| self.boards.release(pid));
        self.inner.release()
    }

    fn wait(&mut self, until: Option<Instant>) -> Result<Waited> {
        self.inner.wait(until)
    }

    fn signal(&mut self, signal: i32) {
        self.inner.signal(signal);
    }

    fn clock(&self) -> Option<Instant> {
        self.inner.clock()
    }

    fn layout(&self) -> Option<Layout> {
        self.inner.layout()
    }

    fn cpu_baseline(&self) -> Option<CpuBaseline> {
        self.inner.cpu_baseline()
    }
}

impl Drop for MarkedChild {
    fn drop(&mut self) {
        self.inner.pid().into_iter().for_each(|pid| self.boards.end(pid));
    }
}

/// A source that puts the counters of a command on its board.
pub(crate) struct MarkedSource {
    pub(crate) inner: Box<dyn Source>,
    pub(crate) boards: Boards,
}

impl Source for MarkedSource {
    fn rung(&self) -> Rung {
        self.inner.rung()
    }

    fn open(&self, slots: &[Slot], on: &Target) -> std::result::Result<Box<dyn Counting>, Refusal> {
        let inner = self.inner.open(slots, on)?;
        Ok(match on {
            Target::Child(pid) => {
                let (slots, boards) = (slots.to_vec(), self.boards.clone());
                Box::new(MarkedCounting { inner, pid: *pid, slots, boards })
            }
            _ => inner,
        })
    }

    fn probe(&self, slots: &[Slot]) -> Option<Reading> {
        self.inner.probe(slots)
    }
}

/// Counters of a command. They are put on its board when they are started: those that are opened to see
/// whether they can be are not.
struct MarkedCounting {
    inner: Box<dyn Counting>,
    pid: u32,
    slots: Vec<Slot>,
    boards: Boards,
}

impl Counting for MarkedCounting {
    fn start(&mut self) -> Result<()> {
        self.boards.put(self.pid, &std::mem::take(&mut self.slots));
        self.inner.start()
    }

    fn stop(&mut self) -> Result<()> {
        self.inner.stop()
    }

    fn select(&mut self, rotation_group: u32) -> Result<()> {
        self.inner.select(rotation_group)
    }

    fn exited(&mut self, exit: &Exit) {
        self.inner.exited(exit);
    }

    fn read(&mut self, out: &mut Reading) -> Result<()> {
        self.inner.read(out)
    }

    fn longest_pause(&self) -> Option<Duration> {
        self.inner.longest_pause()
    }

    fn read_rotation_group(&mut self, rotation_group: u32, out: &mut Reading) -> Result<()> {
        self.inner.read_rotation_group(rotation_group, out)
    }

    fn counters(&mut self) -> Vec<CounterAt> {
        self.inner.counters()
    }

    fn sample(&mut self, out: &mut Vec<Raw>) -> Result<()> {
        self.inner.sample(out)
    }

    fn value(&mut self, counter: usize) -> Result<Option<u64>> {
        self.inner.value(counter)
    }
}
