//! Follows a command and its descendants: what becomes of each stop.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use cyclometer_sys::trace::{self, Bell, Change, Options, Registers};

use super::Settings;
use super::code::Reader;
use super::probe::Probe;
use super::process::{Mode, Process, Seat, Suspended, Task, name_of};
use super::protocol;
use super::space::{AT_RANDOM, Space, auxiliary};
use crate::block::Leave;
use crate::translate::Stop;

/// The code segment of 64-bit programs.
///
/// # Source
///
/// Linux `arch/x86/include/asm/segment.h`, `__USER_CS`.
const USER_CS: u64 = 0x33;

const SIGTRAP: i32 = 5;

/// How many stops we stay on a CPU at least.
const MOVE_EVERY: u64 = 100;

/// How often the code of a process may change before it is left to itself.
const MOST_RENEWALS: u32 = 40;

/// What a program gets instead of 16 random bytes where its layout is fixed: any constant does.
pub const FIXED_BYTES: [u8; 16] = *b"\xc7c~L\x8fM3t7r\xabF1x3d";

/// Follows processes.
pub(crate) struct Engine {
    settings: Settings,
    pub(super) tasks: HashMap<u32, Task>,
    pub(super) processes: Vec<Process>,
    /// Children that we heard of before they stopped for the first time.
    born: HashMap<u32, Birth>,
    /// Children that stopped before we heard of them, and their parents.
    early: HashMap<u32, u32>,
    /// What killed processes would have made: nobody tells of a child whose maker was killed while it made it.
    orphanages: Vec<Birth>,
    root: u32,
    /// Stopped until every other process has gone on without us.
    held: Vec<(u32, String)>,
    /// Tasks that have not answered a request for counts.
    asked: HashSet<u32>,
    /// Totals of processes that have.
    answered: HashMap<usize, Result<crate::Totals, String>>,
    reading: bool,
    finishing: bool,
    /// How often we were asked to go on.
    stops: u64,
    /// Who looks at every instruction, in tests.
    pub(super) probe: Option<Box<dyn Probe>>,
}

/// What must be known of the maker of a process, which may be gone when its child stops for the first time.
struct Birth {
    parent: u32,
    /// The translation, and the maker's slot; `None` when nothing is translated yet.
    home: Option<(Rc<RefCell<Space>>, usize)>,
    filtered: bool,
}

/// How many killed processes are remembered for their children.
const MOST_ORPHANAGES: usize = 8;

/// Why a task cannot be followed any more.
pub(super) enum Trouble {
    /// It has ended, or is about to.
    Gone,
    /// It must go on without us; why.
    Unfollowed(String),
}

impl Birth {
    /// The same for another child.
    fn again(&self) -> Birth {
        Birth { parent: self.parent, home: self.home.clone(), filtered: self.filtered }
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        match error.raw_os_error() {
            Some(cyclometer_sys::process::errno::ESRCH) => Trouble::Gone,
            _ => Trouble::Unfollowed(format!("could not be translated: {error}")),
        }
    }
}

type Outcome = Result<(), Trouble>;

/// Traces a process that has not executed its command yet, says so, and follows it until it ends, with all that it
/// starts; then reports. See [`protocol`].
///
/// When the other end of the socket is closed, every process goes on without us.
pub(crate) fn follow(pid: u32, mut socket: UnixStream, settings: Settings, probe: Option<Box<dyn Probe>>) {
    let options =
        Options::FORK | Options::VFORK | Options::CLONE | Options::EXEC | Options::EXIT | Options::EXIT_KILL;
    if let Err(error) = trace::seize(pid, options) {
        let _ = writeln!(socket, "refused {}", error.raw_os_error().unwrap_or(0));
        return;
    }
    if socket.write_all(b"ready\n").is_err() {
        return;
    }
    let Ok(bell_socket) = socket.try_clone() else { return };
    let Ok(bell) = Bell::new(&bell_socket) else { return };
    let mut engine = Engine::new(pid, settings, probe);
    loop {
        while let Ok(Some((tid, change))) = trace::wait() {
            engine.handle(tid, change);
        }
        engine.release_held();
        if engine.tasks.is_empty() && engine.early.is_empty() {
            break;
        }
        engine.requests(&mut socket);
        if engine.tasks.is_empty() && engine.early.is_empty() {
            break;
        }
        let _ = bell.sleep();
    }
    let _ = socket.set_nonblocking(false);
    let _ = socket.write_all(engine.report().as_bytes());
}

impl Engine {
    fn new(root: u32, settings: Settings, probe: Option<Box<dyn Probe>>) -> Engine {
        let mut engine = Engine {
            settings,
            tasks: HashMap::new(),
            processes: Vec::new(),
            born: HashMap::new(),
            early: HashMap::new(),
            orphanages: Vec::new(),
            root,
            held: Vec::new(),
            asked: HashSet::new(),
            answered: HashMap::new(),
            reading: false,
            finishing: false,
            stops: 0,
            probe,
        };
        engine.adopt(root, 0, Mode::Waiting, false);
        engine
    }

    fn adopt(&mut self, tid: u32, parent: u32, mode: Mode, filtered: bool) {
        self.processes.push(Process::new(tid, parent));
        let task = Task {
            process: self.processes.len() - 1,
            mode,
            filtered,
            executes: None,
            suspended: None,
            dismissed: None,
            stopped_at: None,
            returning: None,
            renewals: 0,
        };
        self.tasks.insert(tid, task);
    }

    pub(super) fn task(&mut self, tid: u32) -> Result<&mut Task, Trouble> {
        self.tasks.get_mut(&tid).ok_or(Trouble::Gone)
    }

    /// What a task's process is called by.
    fn process(&mut self, tid: u32) -> Option<&mut Process> {
        let index = self.tasks.get(&tid)?.process;
        self.processes.get_mut(index)
    }

    fn handle(&mut self, tid: u32, change: Change) {
        let outcome = match change {
            Change::Exited(_) | Change::Killed(_) => {
                self.gone(tid);
                Ok(())
            }
            _ if !self.tasks.contains_key(&tid) => {
                self.stranger(tid);
                Ok(())
            }
            change => {
                self.tasks.entry(tid).and_modify(|task| task.stopped_at = None);
                if change == Change::Exiting { self.exiting(tid) } else { self.stopped(tid, change) }
            }
        };
        match outcome {
            Ok(()) => {}
            Err(Trouble::Gone) => self.let_go(tid),
            Err(Trouble::Unfollowed(reason)) => self.leave(tid, Some(reason), 0),
        }
    }

    /// A process that is about to be gone. It will be reaped, which tells; if it was not already, by who waited for
    /// something else of it.
    fn let_go(&mut self, tid: u32) {
        let _ = trace::resume(tid, 0);
        if !is_traced_by_us(tid) {
            self.gone(tid);
        }
    }

    fn stopped(&mut self, tid: u32, change: Change) -> Outcome {
        let dismissed = self.task(tid)?.dismissed.is_some();
        match change {
            Change::Exec => self.executed(tid),
            Change::Fork | Change::VFork | Change::Clone => self.gave_birth(tid, change),
            Change::Interrupted | Change::Group(_) if dismissed => {
                let reason = self.task(tid)?.dismissed.take().flatten();
                self.leave(tid, reason, 0);
                Ok(())
            }
            Change::Interrupted => {
                self.answer(tid)?;
                self.resume(tid, 0)
            }
            Change::Group(_) => {
                self.answer(tid)?;
                Ok(trace::listen(tid)?)
            }
            Change::Signal(signal) => self.signal(tid, signal),
            _ => self.resume(tid, 0),
        }
    }

    /// A process that we did not know stops for the first time.
    fn stranger(&mut self, tid: u32) {
        match self.born.remove(&tid) {
            Some(birth) => self.birth(tid, birth),
            None => match parent_of(tid) {
                Some(parent) if !self.tasks.contains_key(&parent) => self.orphan(tid, parent),
                parent => drop(self.early.insert(tid, parent.unwrap_or(0))),
            },
        }
    }

    /// A process that we did not know is no child of one that we know.
    fn orphan(&mut self, tid: u32, parent: u32) {
        let pc = trace::registers(tid).map_or(0, |registers| registers.rip);
        let made_here = |birth: &&Birth| birth.home.as_ref().is_some_and(|(space, _)| space.borrow().holds(pc));
        match self.orphanages.iter().rev().find(made_here).map(Birth::again) {
            Some(birth) => self.birth(tid, birth),
            None => drop(self.early.insert(tid, parent)),
        }
    }

    /// A process ends that may have made others without our hearing of it.
    fn adopt_early(&mut self, parent: u32) {
        let Some(birth) = self.birth_by(parent) else { return };
        let children: Vec<u32> =
            self.early.iter().filter(|(_, maker)| **maker == parent).map(|(child, _)| *child).collect();
        for child in children {
            self.early.remove(&child);
            self.birth(child, birth.again());
        }
        if birth.home.is_some() {
            self.orphanages.drain(..(self.orphanages.len() + 1).saturating_sub(MOST_ORPHANAGES));
            self.orphanages.push(birth);
        }
    }

    fn birth_by(&self, parent: u32) -> Option<Birth> {
        let maker = self.tasks.get(&parent)?;
        let home = match &maker.mode {
            Mode::Waiting => None,
            Mode::Translated(seat) | Mode::Native(seat) => Some((seat.space.clone(), seat.slot)),
        };
        Some(Birth { parent, home, filtered: maker.filtered })
    }

    fn gave_birth(&mut self, tid: u32, change: Change) -> Outcome {
        let child = trace::event_message(tid)? as u32;
        if change == Change::VFork {
            let pc = trace::registers(tid)?.rip;
            self.task(tid)?.suspended = Some(Suspended { by: child, pc });
        }
        let birth = self.birth_by(tid).ok_or(Trouble::Gone)?;
        if self.early.remove(&child).is_some() {
            self.birth(child, birth);
        } else {
            self.born.insert(child, birth);
        }
        self.resume(tid, 0)
    }

    /// A new process is where its maker's system call returns. It gets a slot of its own in the same translation.
    fn birth(&mut self, child: u32, birth: Birth) {
        self.adopt(child, birth.parent, Mode::Waiting, birth.filtered);
        let Some((space, slot)) = birth.home else { return drop(trace::resume(child, 0)) };
        match self.seat_child(child, &space, slot) {
            Ok(()) => {}
            Err(Trouble::Gone) => self.let_go(child),
            Err(Trouble::Unfollowed(reason)) => self.leave(child, Some(reason), 0),
        }
        if self.finishing {
            self.dismiss(child, None);
        } else if let Some((_, reason)) = self.held.first() {
            self.dismiss(child, Some(reason.clone()));
        }
    }

    fn seat_child(&mut self, child: u32, space: &Rc<RefCell<Space>>, maker: usize) -> Outcome {
        let mut registers = trace::registers(child)?;
        let place = space.borrow().translation.place(registers.rip);
        let place = place.ok_or_else(|| Trouble::Unfollowed("was born where no code is".to_owned()))?;
        super::surface::repair(&space.borrow(), maker, &place, &mut registers);
        registers.gs_base = 0;
        trace::set_registers(child, &registers)?;
        let slot = space.borrow_mut().take_slot();
        let slot = slot.ok_or_else(|| Trouble::Unfollowed("has too many processes at a time".to_owned()))?;
        let seat = Seat::new(space.clone(), slot);
        self.task(child)?.mode = Mode::Native(seat);
        self.enter(child, registers)
    }

    /// A new program is before its first instruction.
    fn executed(&mut self, tid: u32) -> Outcome {
        self.close_executed(tid)?;
        for task in self.tasks.values_mut().filter(|task| task.is_suspended_by(tid)) {
            task.suspended = None;
        }
        if let Some(process) = self.process(tid) {
            process.name = name_of(tid);
        }
        // The system call still has to return, into the first instruction.
        step_out(tid)?;
        let registers = trace::registers(tid)?;
        if registers.cs != USER_CS {
            return Err(Trouble::Unfollowed("executed a 32-bit program".to_owned()));
        }
        if self.finishing {
            self.leave(tid, None, 0);
            return Ok(());
        }
        let settings = self.settings.translation;
        let mut space = Space::new(tid, &registers, settings)?;
        if self.settings.fixed_layout {
            trace::write_memory(tid, auxiliary(tid, AT_RANDOM)?, &FIXED_BYTES)?;
        }
        let slot = space.take_slot().ok_or(Trouble::Gone)?;
        let seat = Seat::new(Rc::new(RefCell::new(space)), slot);
        self.task(tid)?.mode = Mode::Native(seat);
        self.enter(tid, registers)
    }

    /// The program before has executed its last instruction: the system call.
    fn close_executed(&mut self, tid: u32) -> Outcome {
        let task = self.task(tid)?;
        let asked = task.executes.take();
        if let Mode::Translated(seat) = &mut task.mode {
            let behind = asked.map(|pc| pc + 2);
            let place = behind.and_then(|pc| seat.space.borrow().translation.place(pc));
            match place {
                Some(place) => seat.ledger.leave(&mut seat.space.borrow_mut(), &place, 0),
                None => self.lose(tid, "executed a program by an unknown way"),
            }
        }
        self.close(tid);
        Ok(())
    }

    /// Goes on in translated code; the registers are the program's.
    pub(super) fn enter(&mut self, tid: u32, mut registers: Registers) -> Outcome {
        let task = self.task(tid)?;
        let filtered = task.filtered;
        let Mode::Native(mut seat) = std::mem::replace(&mut task.mode, Mode::Waiting) else {
            return Err(Trouble::Gone);
        };
        let body = {
            let space = &mut seat.space.borrow_mut();
            let mut reader = Reader::new(tid, &mut seat.maps);
            let address = registers.rip;
            let body = with_room(space, tid, filtered, |space| space.translation.enter(&mut reader, address));
            body.inspect(|_| {
                let block = space.translation.block_at(address);
                block.into_iter().for_each(|block| seat.ledger.enter(space, block));
                space.apply();
                registers.gs_base = space.base_of(seat.slot);
            })
        };
        let task = self.task(tid)?;
        match body {
            Ok(body) => {
                registers.rip = body;
                task.mode = Mode::Translated(seat);
                trace::set_registers(tid, &registers)?;
                self.go(tid)
            }
            Err(trouble) => {
                task.mode = Mode::Native(seat);
                Err(trouble)
            }
        }
    }

    /// The program goes on by itself from now on.
    pub(super) fn leave(&mut self, tid: u32, reason: Option<String>, signal: i32) {
        let at = self.surface(tid).map(|registers| registers.map(|registers| registers.rip));
        if let Some(reason) = reason {
            let place = at.ok().flatten().map_or_else(String::new, |pc| format!(" at {pc:#x}"));
            self.lose(tid, &format!("left translation{place}: the program {reason}"));
        }
        self.close(tid);
        self.tasks.remove(&tid);
        self.asked.remove(&tid);
        let _ = trace::detach(tid, signal);
    }

    pub(super) fn lose(&mut self, tid: u32, reason: &str) {
        if let Some(process) = self.process(tid) {
            process.lose(reason);
        }
    }

    /// Adds what was executed of the translation to the process, and gives the slot back.
    fn close(&mut self, tid: u32) {
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        let (Mode::Translated(seat) | Mode::Native(seat)) = std::mem::replace(&mut task.mode, Mode::Waiting)
        else {
            return;
        };
        let process = &mut self.processes[task.process];
        if process.lost.is_none() {
            process.add(seat.ledger.settle(&seat.space.borrow(), seat.slot));
        }
        seat.space.borrow_mut().give_slot(seat.slot);
    }

    /// It is about to end; its memory and registers are still there.
    fn exiting(&mut self, tid: u32) -> Outcome {
        let pc = trace::registers(tid).map(|registers| (registers.rip, registers.rcx));
        let task = self.task(tid)?;
        let mut unknown = false;
        if let Mode::Translated(seat) = &mut task.mode {
            let place = pc.ok().and_then(|(pc, rcx)| Some((seat.space.borrow().translation.place(pc)?, rcx)));
            match place {
                Some((place, rcx)) => seat.ledger.leave(&mut seat.space.borrow_mut(), &place, rcx),
                None => unknown = true,
            }
        }
        if unknown {
            self.lose(tid, "the process ended at an unknown place");
        }
        self.answer(tid)?;
        const SIGKILL: u64 = 9;
        if trace::event_message(tid)? & 0x7f == SIGKILL {
            self.adopt_early(tid);
        }
        self.close(tid);
        Ok(trace::resume(tid, 0)?)
    }

    fn gone(&mut self, tid: u32) {
        self.early.remove(&tid);
        self.born.remove(&tid);
        let seated = self.tasks.get(&tid).is_some_and(|task| !matches!(task.mode, Mode::Waiting));
        if seated {
            self.adopt_early(tid);
            self.lose(tid, "the process was killed before its counts were read");
            self.close(tid);
        }
        self.tasks.remove(&tid);
        self.asked.remove(&tid);
        self.held.retain(|(held, _)| *held != tid);
        for task in self.tasks.values_mut().filter(|task| task.is_suspended_by(tid)) {
            task.suspended = None;
        }
        if tid == self.root {
            self.finish();
        }
    }

    /// Everything that still runs goes on without us.
    fn finish(&mut self) {
        self.finishing = true;
        let all: Vec<u32> = self.tasks.keys().copied().collect();
        all.into_iter().for_each(|tid| self.dismiss(tid, None));
    }

    fn dismiss(&mut self, tid: u32, reason: Option<String>) {
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.dismissed.get_or_insert(reason);
            let _ = trace::interrupt(tid);
        }
    }

    /// Lets go of all processes, this one last, so that it finds them untraced.
    pub(super) fn leave_all(&mut self, tid: u32, reason: &str) {
        let others: Vec<u32> = self.tasks.keys().copied().filter(|other| *other != tid).collect();
        others.into_iter().for_each(|other| self.dismiss(other, Some(reason.to_owned())));
        self.held.push((tid, reason.to_owned()));
    }

    fn release_held(&mut self) {
        // Who waits for a child that is held cannot stop before that goes on.
        let waits = |task: &Task| task.suspended.is_some();
        let others = self.tasks.iter().filter(|(tid, task)| !waits(task) && !self.is_held(**tid)).count();
        if others == 0 {
            for (tid, reason) in std::mem::take(&mut self.held) {
                self.leave(tid, Some(reason), 0);
            }
        }
    }

    fn is_held(&self, tid: u32) -> bool {
        self.held.iter().any(|(held, _)| *held == tid)
    }

    /// Looks at what the other end of the socket wants.
    fn requests(&mut self, socket: &mut UnixStream) {
        let mut byte = [0];
        loop {
            match socket.read(&mut byte) {
                Ok(0) => return self.finish(),
                Ok(_) if byte[0] == protocol::FINISH => self.finish(),
                Ok(_) if byte[0] == protocol::READ => self.ask(),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        if self.reading && self.asked.is_empty() {
            self.reading = false;
            let text = self.snapshot(protocol::SO_FAR);
            let _ = socket.set_nonblocking(false);
            let _ = socket.write_all(text.as_bytes());
            let _ = socket.set_nonblocking(true);
        }
    }

    /// Stops every process to read its counts.
    fn ask(&mut self) {
        self.reading = true;
        self.answered.clear();
        let tasks: Vec<u32> = self.tasks.keys().copied().collect();
        for tid in tasks {
            let Some(task) = self.tasks.get(&tid) else { continue };
            match (&task.mode, task.suspended) {
                (Mode::Waiting, _) => {}
                // It does not execute translated code now.
                (Mode::Native(_), _) => self.record(tid, None),
                (Mode::Translated(_), Some(Suspended { pc, .. })) => self.record(tid, Some((pc, 0))),
                (Mode::Translated(_), None) if trace::interrupt(tid).is_ok() => drop(self.asked.insert(tid)),
                (Mode::Translated(_), None) => {}
            }
        }
    }

    /// Reads the counts of a stopped process, if they were asked for.
    fn answer(&mut self, tid: u32) -> Outcome {
        if self.asked.remove(&tid) {
            let registers = trace::registers(tid)?;
            self.record(tid, Some((registers.rip, registers.rcx)));
        }
        Ok(())
    }

    /// Reads the counts of a process that does not run; `at` is where it is in translated code, and its rcx.
    fn record(&mut self, tid: u32, at: Option<(u64, u64)>) {
        let Some(task) = self.tasks.get(&tid) else { return };
        let (Mode::Translated(seat) | Mode::Native(seat)) = &task.mode else { return };
        let mut ledger = seat.ledger.clone();
        let at = at.filter(|_| matches!(task.mode, Mode::Translated(_)));
        if let Some((pc, rcx)) = at {
            let place = seat.space.borrow().translation.place(pc);
            place.into_iter().for_each(|place| ledger.leave(&mut seat.space.borrow_mut(), &place, rcx));
        }
        let current = ledger.settle(&seat.space.borrow(), seat.slot);
        let totals = current.and_then(|current| self.processes[task.process].totals(Some(current)));
        self.answered.insert(task.process, totals);
    }

    fn snapshot(&self, end: &str) -> String {
        let lines = self.processes.iter().enumerate().map(|(i, process)| {
            let totals = self.answered.get(&i).cloned().unwrap_or_else(|| process.totals(None));
            protocol::process(process.pid, process.parent, &process.name, &totals)
        });
        lines.chain([format!("{end}\n")]).collect()
    }

    fn report(&mut self) -> String {
        self.answered.clear();
        self.snapshot(protocol::LAST)
    }

    /// What becomes of a stop that the translator put there.
    pub(super) fn own_stop(&mut self, tid: u32, stop: Stop, registers: Registers) -> Outcome {
        match stop {
            Stop::Link | Stop::Indirect => self.go_on(tid, stop, registers),
            Stop::SystemCall => self.system_call(tid, registers),
            Stop::Breakpoint => self.deliver(tid, SIGTRAP),
            Stop::Leave(Leave::Unreadable) => self.unreadable(tid),
            Stop::Leave(reason) => {
                self.leave(tid, Some(format!("has {}", reason.word())), 0);
                Ok(())
            }
        }
    }

    /// Translates what comes next, and goes on there.
    fn go_on(&mut self, tid: u32, stop: Stop, mut registers: Registers) -> Outcome {
        self.stay_near(tid);
        let task = self.task(tid)?;
        let filtered = task.filtered;
        let Mode::Translated(seat) = &mut task.mode else { return Err(Trouble::Gone) };
        let space = seat.space.clone();
        let mut space = space.borrow_mut();
        let mut reader = Reader::new(tid, &mut seat.maps);
        let (at, target) = (registers.rip.wrapping_sub(1), registers.rcx);
        let to = with_room(&mut space, tid, filtered, |space| match stop {
            Stop::Link => space.translation.link(&mut reader, at),
            _ => space.translation.indirect(&mut reader, target).map(Some),
        });
        space.apply();
        drop(space);
        registers.rip = to?.ok_or(Trouble::Gone)?;
        trace::set_registers(tid, &registers)?;
        self.go(tid)
    }

    /// Moves to the CPU of a process that stops often: we run while it waits.
    fn stay_near(&mut self, tid: u32) {
        if self.stops.is_multiple_of(MOVE_EVERY) {
            cpu_of(tid).into_iter().for_each(cyclometer_sys::keeper::run_on);
        }
        self.stops += 1;
    }

    /// Replaces the translation, because the code changes or there is no more room. The registers are the program's then.
    pub(super) fn renew(&mut self, tid: u32) -> Result<Registers, Trouble> {
        let registers = self.surface(tid)?.ok_or(Trouble::Gone)?;
        let settings = self.settings.translation;
        let task = self.task(tid)?;
        task.renewals += 1;
        let shared = task.suspended.is_some() || self.tasks.values().any(|other| other.is_suspended_by(tid));
        let task = self.task(tid)?;
        if task.renewals > MOST_RENEWALS || task.filtered || shared {
            return Err(Trouble::Unfollowed("keeps changing its code".to_owned()));
        }
        let Mode::Native(seat) = &task.mode else { return Err(Trouble::Gone) };
        let mut space = Space::after(&seat.space.borrow(), tid, registers.rip, settings)?;
        self.close(tid);
        let slot = space.take_slot().ok_or(Trouble::Gone)?;
        let seat = Seat::new(Rc::new(RefCell::new(space)), slot);
        self.task(tid)?.mode = Mode::Native(seat);
        Ok(registers)
    }

    /// Nothing executable is where the program went, or something that may change.
    fn unreadable(&mut self, tid: u32) -> Outcome {
        let registers = self.surface(tid)?.ok_or(Trouble::Gone)?;
        match Reader::new(tid, &mut None).why_not(registers.rip) {
            // It faults there by itself, and may have a handler for that.
            Some(super::maps::NoCode::NotExecutable) => Ok(trace::resume(tid, 0)?),
            Some(reason) => Err(Trouble::Unfollowed(reason.word().to_owned())),
            None => Err(Trouble::Unfollowed("has code that cannot be read".to_owned())),
        }
    }
}

/// Lets the translation do something, with more memory when it needs that.
fn with_room<T>(
    space: &mut Space,
    tid: u32,
    filtered: bool,
    mut work: impl FnMut(&mut Space) -> Result<T, crate::translate::Need>,
) -> Result<T, Trouble> {
    loop {
        match work(space) {
            Ok(done) => return Ok(done),
            Err(_) if filtered => {
                return Err(Trouble::Unfollowed("filters its system calls".to_owned()));
            }
            Err(need) => space.answer(tid, need)?,
        }
    }
}

/// The CPU that a process ran on last.
///
/// # Source
///
/// `proc(5)`, `/proc/pid/stat`: field 39, the 37th behind the name.
fn cpu_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(36)?.parse().ok()
}

/// # Source
///
/// `proc(5)`, `/proc/pid/status`: `TracerPid`.
fn is_traced_by_us(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.and_then(|tracer| tracer.trim().parse().ok()) == Some(std::process::id())
}

/// The parent of a process.
///
/// # Source
///
/// `proc(5)`, `/proc/pid/stat`: field 4, the second behind the name.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(1)?.parse().ok()
}

/// Runs a process that is about to return from a system call to its first instruction.
fn step_out(tid: u32) -> Outcome {
    let mut pending = 0;
    loop {
        trace::step(tid, 0)?;
        match trace::wait_for(tid)? {
            Change::Signal(SIGTRAP) => break,
            Change::Signal(signal) => pending = signal,
            Change::Interrupted | Change::Group(_) => {}
            _ => return Err(Trouble::Gone),
        }
    }
    if pending != 0 {
        trace::send_signal(tid, tid, pending)?;
    }
    Ok(())
}
