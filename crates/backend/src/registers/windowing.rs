//! Windows of the register source: interrupts of the bus go to the state machine of [`super::windows`], and
//! its rows are kept until they are taken out.
//!
//! The counters are those of the totals, as a counter cannot be programmed twice. A CPU that executes no
//! thread has windows too, of the CPU, so that the rows have every event that the counters count.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Instant;

use cyclometer_core::exec::{At, Cell, Reading, RefusalKind};
use cyclometer_core::reason::RegisterRefusal;
use cyclometer_core::window::{
    RowBatch, WindowBoundary, WindowCause, WindowFlags, WindowRow, WindowSpec, WindowThread, Windowing,
    WindowingState,
};
use cyclometer_core::{
    Count, CounterId, Error, ErrorKind, MissingReason, PartReason, Refusal, Result, Slot, SlotId,
};

use super::driver::Driver;
use super::program::SlotPart;
use super::{
    Bus, InterruptHandler, Outcome, OverflowSource, Row, ThreadSwitch, WindowCount, WindowEnd, WindowSetup,
    Windows,
};

/// The owner of the events of a CPU at one moment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum EventOwner {
    Thread(WindowThread),
    /// No thread: a CPU that is idle, or whose switches are not delivered.
    Cpu(u32),
}

impl EventOwner {
    fn of(thread: Option<WindowThread>, cpu: u32) -> EventOwner {
        thread.map_or(EventOwner::Cpu(cpu), EventOwner::Thread)
    }
}

/// The windows on all CPUs.
pub(super) struct RegisterWindows {
    cores: Vec<CoreWindows>,
    /// The slots in the order of a row's counts.
    order: Vec<SlotId>,
    kept: KeptRows,
    clocks: BTreeMap<EventOwner, OwnerClock>,
    /// A child that is bound to the only CPU.
    child: Option<u32>,
    /// Why all counts from here on are lost.
    disturbance: Option<MissingReason>,
    began_ns: u64,
    ended_ns: Option<u64>,
    /// The first error in a handler, which has no caller that could take it.
    error: Option<Error>,
}

/// The windows on the CPUs of one core type.
struct CoreWindows {
    pmu: String,
    setup: WindowSetup,
    /// The event and counter of each slot of the setup.
    members: Vec<(SlotPart, CounterId)>,
    /// The index of the boundary of each source of the setup.
    boundaries: Vec<usize>,
    /// One for each CPU. They hold the previous values of the registers.
    drivers: Vec<Driver>,
    /// `None` before the start and after the end.
    windows: Option<Windows<EventOwner>>,
    /// The counts of all rows so far, also of those that were lost for lack of memory.
    totals: Vec<WindowCount>,
}

/// Time of a thread on CPUs, or of a CPU without threads.
#[derive(Clone, Copy, Default)]
struct OwnerClock {
    /// When it got its CPU; `None` while it has none.
    since_ns: Option<u64>,
    /// Its time since its last boundary, up to that moment.
    ran_ns: u64,
}

impl OwnerClock {
    fn settle(&mut self, now_ns: u64) {
        if let Some(since) = &mut self.since_ns {
            self.ran_ns += now_ns.saturating_sub(*since);
            *since = now_ns;
        }
    }
}

/// Rows that nobody has taken out yet.
struct KeptRows {
    rows: VecDeque<WindowRow>,
    most: usize,
    lost: u64,
    lost_of: BTreeMap<EventOwner, u64>,
}

impl KeptRows {
    fn push(&mut self, owner: EventOwner, mut row: WindowRow) {
        if self.rows.len() < self.most {
            row.flags.lost_before = self.lost_of.remove(&owner).unwrap_or(0);
            self.rows.push_back(row);
        } else {
            self.lost += 1;
            *self.lost_of.entry(owner).or_default() += 1;
        }
    }
}

impl RegisterWindows {
    /// Gives counters the periods of windows; they are stopped. The drivers are restored before others with
    /// more registers replace them.
    ///
    /// # Errors
    ///
    /// A boundary that no counter can make; errors of the bus. Registers are restored then.
    pub(super) fn open(
        drivers: &mut Vec<Driver>,
        slots: &[Slot],
        child: Option<u32>,
        spec: &WindowSpec,
        bus: &mut dyn Bus,
    ) -> std::result::Result<RegisterWindows, Refusal> {
        let mut cores: Vec<CoreWindows> = Vec::new();
        for driver in drivers.iter() {
            if cores.iter().all(|core| core.pmu != driver.pmu()) {
                cores.push(CoreWindows::of(driver, slots, spec)?);
            }
        }
        let mut windows = RegisterWindows {
            cores,
            order: slots.iter().map(|slot| slot.id).collect(),
            kept: KeptRows { rows: VecDeque::new(), most: spec.most_rows, lost: 0, lost_of: BTreeMap::new() },
            clocks: BTreeMap::new(),
            child,
            disturbance: None,
            began_ns: 0,
            ended_ns: None,
            error: None,
        };
        windows.replace(drivers, bus).map_err(|error| {
            windows.restore(bus);
            Refusal::of_target(RefusalKind::Other, error.to_string())
        })?;
        Ok(windows)
    }

    fn replace(&mut self, drivers: &mut Vec<Driver>, bus: &mut dyn Bus) -> Result<()> {
        while let Some(driver) = drivers.last_mut() {
            driver.restore(bus)?;
            if let Some(core) = self.cores.iter_mut().find(|core| core.pmu == driver.pmu()) {
                let recipe = driver.recipe().with_periods(core.setup.placed());
                core.drivers.push(Driver::new(driver.cpu(), driver.pmu(), recipe, bus)?);
            }
            drivers.pop();
        }
        Ok(())
    }

    fn cpus(&self) -> Vec<u32> {
        self.cores.iter().flat_map(|core| &core.drivers).map(Driver::cpu).collect()
    }

    /// Starts the first window on each CPU, of the thread that has it.
    fn start(&mut self, running: &[(u32, Option<WindowThread>)], bus: &mut dyn Bus) -> Result<()> {
        if self.ended_ns.is_some() || self.cores.iter().any(|core| core.windows.is_some()) {
            return Ok(());
        }
        self.began_ns = bus.now_ns();
        for core in &mut self.cores {
            core.windows = Some(Windows::of_all(core.setup.clone()));
        }
        for (cpu, thread) in running {
            let owner = EventOwner::of(*thread, *cpu);
            self.on_cpu(bus, *cpu, |windows, bus| windows.begin(bus, *cpu, Some(owner)))?;
            self.clocks.entry(owner).or_default().since_ns = Some(self.began_ns);
        }
        Ok(())
    }

    /// Does something with the windows of a CPU, and keeps the rows that it makes.
    fn on_cpu(
        &mut self,
        bus: &mut dyn Bus,
        cpu: u32,
        act: impl FnOnce(&mut Windows<EventOwner>, &mut dyn Bus) -> Result<Outcome<EventOwner>>,
    ) -> Result<()> {
        let index = self.cores.iter().position(|core| core.drivers.iter().any(|driver| driver.cpu() == cpu));
        let Some(index) = index else { return Ok(()) };
        let core = &mut self.cores[index];
        let Some(windows) = &mut core.windows else { return Ok(()) };
        let outcome = act(windows, bus)?;
        core.give_away(cpu, &outcome.lost_slots, bus)?;
        self.keep(index, outcome.rows, bus.now_ns());
        Ok(())
    }

    fn keep(&mut self, core: usize, rows: Vec<Row<EventOwner>>, now_ns: u64) {
        for row in rows {
            let clock = self.clocks.entry(row.thread).or_default();
            clock.settle(now_ns);
            let ran_ns = std::mem::take(&mut clock.ran_ns);
            let (owner, core) = (row.thread, &mut self.cores[core]);
            core.add(&row);
            let mut row = core.window_row(&row, &self.order, ran_ns);
            row.time_ns = Some(now_ns.saturating_sub(self.began_ns));
            if let Some(reason) = &self.disturbance {
                row.counts.fill(Count::Lost { reason: reason.clone() });
            }
            self.kept.push(owner, row);
        }
    }

    /// Checks that all counters are still ours, and reads them.
    pub(super) fn look(&mut self, bus: &mut dyn Bus) -> Result<()> {
        for cpu in self.cpus() {
            self.on_cpu(bus, cpu, |windows, bus| windows.look(bus, cpu))?;
            if let Some(child) = self.child.filter(|child| !bus.is_bound(*child, cpu)) {
                self.disturbance.get_or_insert(MissingReason::LeftCpu { pid: Some(child), cpu });
            }
        }
        if self.disturbance.is_none() {
            self.disturbance = bus.disturbance();
        }
        Ok(())
    }

    /// Ends all windows, and the recording.
    pub(super) fn stop(&mut self, bus: &mut dyn Bus) -> Result<()> {
        if self.ended_ns.is_some() {
            return Ok(());
        }
        // The end of windows does not say which counters were lost, and those must not be restored.
        let looked = self.look(bus);
        let now_ns = bus.now_ns();
        self.ended_ns = Some(now_ns);
        for core in 0..self.cores.len() {
            let Some(windows) = self.cores[core].windows.take() else { continue };
            let rows = windows.finish(bus);
            self.keep(core, rows, now_ns);
        }
        looked
    }

    /// The counts since the start.
    pub(super) fn read(
        &mut self,
        company: Option<&PartReason>,
        bus: &mut dyn Bus,
        out: &mut Reading,
    ) -> Result<()> {
        if self.ended_ns.is_none() {
            self.look(bus)?;
        }
        let elapsed_ns = self.ended_ns.unwrap_or_else(|| bus.now_ns()).saturating_sub(self.began_ns);
        for core in &self.cores {
            for ((place, _), count) in core.members.iter().zip(core.counts()) {
                let at = At { part: place.part, pmu: Some(core.pmu.clone()), cpu: None, tid: None };
                let reason = match &count {
                    WindowCount::Lost(loss) => Some(loss.into()),
                    WindowCount::Exact(_) => self.disturbance.clone(),
                };
                out.cells.push(Cell {
                    at,
                    lost: reason,
                    partial: company.cloned(),
                    ..Cell::new(place.slot, count.exact().unwrap_or(0), elapsed_ns, elapsed_ns)
                });
            }
        }
        Ok(())
    }

    /// Restores the previous values of all registers.
    fn restore(&mut self, bus: &mut dyn Bus) {
        for driver in self.cores.iter_mut().flat_map(|core| &mut core.drivers) {
            // The bus keeps registers that cannot be restored here, and tries again.
            let _ = driver.restore(bus);
        }
    }

    fn note(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
    }
}

impl InterruptHandler for RegisterWindows {
    fn on_interrupt(&mut self, bus: &mut dyn Bus, cpu: u32) {
        let handled = self.on_cpu(bus, cpu, |windows, bus| windows.on_interrupt(bus, cpu));
        self.note(handled);
    }

    fn on_switch(&mut self, bus: &mut dyn Bus, switch: ThreadSwitch) {
        let ThreadSwitch { cpu, from, to, has_ended } = switch;
        let (from, to, now_ns) = (EventOwner::of(from, cpu), EventOwner::of(to, cpu), bus.now_ns());
        let handled = self.on_cpu(bus, cpu, |windows, bus| windows.on_switch(bus, cpu, Some(from), Some(to)));
        self.note(handled);
        let clock = self.clocks.entry(from).or_default();
        clock.settle(now_ns);
        clock.since_ns = None;
        if has_ended {
            self.end(from, now_ns);
        }
        if self.cpus().contains(&cpu) {
            self.clocks.entry(to).or_default().since_ns = Some(now_ns);
        }
    }
}

impl RegisterWindows {
    /// Ends the last windows of a thread.
    fn end(&mut self, owner: EventOwner, now_ns: u64) {
        for core in 0..self.cores.len() {
            match self.cores[core].windows.as_mut().map(|windows| windows.end(owner)) {
                Some(Ok(Some(row))) => self.keep(core, vec![row], now_ns),
                Some(Err(error)) => self.note(Err(error)),
                Some(Ok(None)) | None => {}
            }
        }
        self.clocks.remove(&owner);
        self.kept.lost_of.remove(&owner);
    }
}

impl CoreWindows {
    fn of(driver: &Driver, slots: &[Slot], spec: &WindowSpec) -> std::result::Result<CoreWindows, Refusal> {
        let events = driver.recipe().at_once().ok_or_else(|| {
            Refusal::of_target(RefusalKind::GroupTooLarge, RegisterRefusal::WindowsDoNotRotate)
        })?;
        let (mut ends, mut boundaries) = (Vec::new(), Vec::new());
        for (index, boundary) in spec.boundaries.iter().enumerate() {
            let WindowBoundary::Events { slot, period } = boundary else {
                let reason = RegisterRefusal::WindowsByTime;
                return Err(Refusal::of_target(RefusalKind::TargetNotSupported, reason));
            };
            let slot = leader(*slot, &events, slots, driver.pmu())?;
            ends.push(OverflowSource { slot, period_events: period.get() });
            boundaries.push(index);
        }
        let placed: Vec<_> = events.iter().map(|(_, placed)| *placed).collect();
        let setup = driver.recipe().window_setup(&placed, &ends).map_err(|error| {
            let kind = match error.kind() {
                ErrorKind::InvalidInput => RefusalKind::Invalid,
                _ => RefusalKind::NotSupported,
            };
            let name = |end: &OverflowSource| name_of(events[end.slot].0.slot, slots).to_owned();
            let (events, error) = (ends.iter().map(name).collect(), error.to_string());
            Refusal::of_target(kind, RegisterRefusal::WindowsNotEncoded { events, error })
        })?;
        Ok(CoreWindows {
            pmu: driver.pmu().to_owned(),
            setup,
            members: events.iter().map(|(place, placed)| (*place, placed.counter)).collect(),
            boundaries,
            drivers: Vec::new(),
            windows: None,
            totals: vec![WindowCount::Exact(0); placed.len()],
        })
    }

    /// Leaves counters to the user who has taken them.
    fn give_away(&mut self, cpu: u32, slots: &[usize], bus: &mut dyn Bus) -> Result<()> {
        let Some(on_cpu) = self.windows.as_ref().and_then(|windows| windows.on(cpu)) else { return Ok(()) };
        let lost = on_cpu.lost().filter(|(slot, _)| slots.contains(slot));
        let taken: Vec<(CounterId, MissingReason)> =
            lost.map(|(slot, loss)| (self.members[slot].1, loss.into())).collect();
        match self.drivers.iter_mut().find(|driver| driver.cpu() == cpu) {
            Some(driver) => driver.give_away(&taken, bus),
            None => Ok(()),
        }
    }

    fn add(&mut self, row: &Row<EventOwner>) {
        self.totals.iter_mut().zip(&row.counts).for_each(|(total, count)| total.join(count));
    }

    /// The counts of all windows, those that are open among them.
    fn counts(&self) -> Vec<WindowCount> {
        let mut counts = self.totals.clone();
        for window in self.windows.iter().flat_map(Windows::open) {
            counts.iter_mut().zip(window.counts()).for_each(|(total, count)| total.join(count));
        }
        counts
    }

    fn window_row(&self, row: &Row<EventOwner>, order: &[SlotId], ran_ns: u64) -> WindowRow {
        // A thread gets its first CPU without having lost another.
        let switches = row.switches.saturating_sub(u32::from(row.sequence == 0));
        let (thread, cpu, flags) = match row.thread {
            EventOwner::Thread(thread) => {
                let (switches, migrations) = (Some(switches), Some(row.migrations));
                (Some(thread), row.cpu, WindowFlags { switches, migrations, ..WindowFlags::default() })
            }
            EventOwner::Cpu(cpu) => (None, Some(cpu), WindowFlags::default()),
        };
        WindowRow {
            thread,
            cpu,
            time_ns: None,
            address: None,
            cause: self.cause(row),
            counts: order.iter().map(|slot| self.count(row, *slot)).collect(),
            enabled_ns: Some(ran_ns),
            running_ns: Some(ran_ns),
            flags,
        }
    }

    fn cause(&self, row: &Row<EventOwner>) -> WindowCause {
        let reached = |slot: usize| {
            let source = self.setup.sources().iter().position(|source| source.slot == slot)?;
            self.boundaries.get(source).copied()
        };
        match row.fired.iter().filter_map(|fired| reached(fired.slot)).min() {
            Some(boundary) => WindowCause::Boundary(boundary),
            None if row.end == WindowEnd::Finish => WindowCause::End,
            None => WindowCause::CountersLost,
        }
    }

    /// The count of a slot: the sum of its events.
    fn count(&self, row: &Row<EventOwner>, slot: SlotId) -> Count {
        let own = self.members.iter().zip(&row.counts).filter(|((place, _), _)| place.slot == slot);
        let sum = own.map(|(_, count)| count.clone()).reduce(|mut sum, count| {
            sum.join(&count);
            sum
        });
        match sum {
            Some(sum) => Count::from(&sum),
            None => Count::NotCounted { reason: MissingReason::NotOnPmu { pmu: self.pmu.clone() } },
        }
    }
}

/// The event at whose overflow windows end.
fn leader(
    slot: SlotId,
    events: &[(SlotPart, cyclometer_arch::Placed)],
    slots: &[Slot],
    pmu: &str,
) -> std::result::Result<usize, Refusal> {
    let name = name_of(slot, slots);
    let own = |(index, (place, _)): (usize, &(SlotPart, _))| (place.slot == slot).then_some(index);
    let own: Vec<usize> = events.iter().enumerate().filter_map(own).collect();
    let (event, pmu) = (name.to_owned(), pmu.to_owned());
    let reason = match own[..] {
        [one] => return Ok(one),
        [] => RegisterRefusal::LeaderNotCounted { event, pmu },
        _ => RegisterRefusal::LeaderIsSum { event, summands: own.len(), pmu },
    };
    Err(Refusal::of_slot(slot, RefusalKind::NotSupported, reason))
}

fn name_of(slot: SlotId, slots: &[Slot]) -> &str {
    slots.iter().find(|known| known.id == slot).map_or("an event", |known| known.name.as_str())
}

/// Windows with the bus of their registers. Dropping the last owner restores the registers.
pub(super) struct SharedWindows<B: Bus> {
    bus: Rc<RefCell<B>>,
    windows: Rc<RefCell<RegisterWindows>>,
}

impl<B: Bus> SharedWindows<B> {
    /// Has the bus deliver interrupts and switches to these windows.
    ///
    /// # Errors
    ///
    /// The bus does not deliver them.
    pub(super) fn new(
        bus: Rc<RefCell<B>>,
        windows: RegisterWindows,
    ) -> std::result::Result<SharedWindows<B>, Refusal> {
        let shared = SharedWindows { bus, windows: Rc::new(RefCell::new(windows)) };
        let handler: Rc<RefCell<dyn InterruptHandler>> =
            Rc::<RefCell<RegisterWindows>>::clone(&shared.windows);
        let delivered = shared.bus.borrow_mut().deliver(Rc::downgrade(&handler));
        delivered.map_err(|reason| {
            Refusal::of_target(RefusalKind::TargetNotSupported, RegisterRefusal::NoInterrupts { reason })
        })?;
        Ok(shared)
    }

    pub(super) fn with<R>(&self, act: impl FnOnce(&mut RegisterWindows, &mut dyn Bus) -> R) -> R {
        act(&mut self.windows.borrow_mut(), &mut *self.bus.borrow_mut())
    }
}

impl<B: Bus> Drop for SharedWindows<B> {
    fn drop(&mut self) {
        self.with(|windows, bus| {
            // Rows that are left have no reader; the counters must stop.
            let _ = windows.stop(bus);
            windows.restore(bus);
        });
    }
}

/// Windows as the session takes their rows.
pub(super) struct RegisterWindowing<B: Bus>(pub(super) Rc<SharedWindows<B>>);

impl<B: Bus> Windowing for RegisterWindowing<B> {
    fn start(&mut self) -> Result<()> {
        let cpus = self.0.windows.borrow().cpus();
        // This may deliver switches to the windows, which must not be borrowed meanwhile.
        let running: Vec<(u32, Option<WindowThread>)> =
            cpus.into_iter().map(|cpu| (cpu, self.0.bus.borrow_mut().thread_on(cpu))).collect();
        self.0.with(|windows, bus| windows.start(&running, bus))
    }

    fn stop(&mut self) -> Result<()> {
        self.0.with(RegisterWindows::stop)
    }

    /// Does not wait: no time passes on the bus meanwhile.
    fn next(&mut self, _until: Instant, batch: &mut RowBatch) -> Result<WindowingState> {
        self.0.with(|windows, bus| {
            if windows.ended_ns.is_none() {
                windows.look(bus)?;
            }
            if let Some(error) = windows.error.take() {
                return Err(error);
            }
            batch.rows.extend(windows.kept.rows.drain(..));
            batch.lost += std::mem::take(&mut windows.kept.lost);
            Ok(if windows.ended_ns.is_some() { WindowingState::Ended } else { WindowingState::Open })
        })
    }
}
