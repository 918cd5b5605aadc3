//! The register driver as a source of counts.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cyclometer_core::event::Part;
use cyclometer_core::exec::{Clock, Reading, RefusalKind};
use cyclometer_core::reason::RegisterRefusal;
use cyclometer_core::window::{WindowSpec, Windowing};
use cyclometer_core::{
    CounterId, CounterMask, Counting, CpuSet, Error, ErrorKind, MissingReason, PartReason, Refusal, Result,
    Rung, Slot, Source, Target,
};

use super::driver::Driver;
use super::program::{Recipe, options};
use super::windowing::{RegisterWindowing, RegisterWindows, SharedWindows};
use super::{Bound, Bus, CorePmu, in_use, probe};

/// Counts by programming the registers of CPUs directly.
///
/// It counts CPUs, never threads. It has the kernel bind a child to one CPU, and reports the other work that
/// is counted there.
pub struct RegisterSource<B> {
    rung: Rung,
    cores: Vec<CorePmu>,
    bus: Rc<RefCell<B>>,
    /// Counters that were seen to move.
    moving: RefCell<BTreeSet<(u32, CounterId)>>,
    /// The time of this process that corresponds to the start of the bus's clock.
    start: Instant,
}

impl<B: Bus + 'static> RegisterSource<B> {
    /// The source over a bus, under the name of `rung`.
    pub fn new(rung: Rung, cores: Vec<CorePmu>, bus: Rc<RefCell<B>>) -> RegisterSource<B> {
        RegisterSource { rung, cores, bus, moving: RefCell::default(), start: Instant::now() }
    }

    fn place(&self, slots: &[Slot], on: &Target) -> std::result::Result<CountedCpus, Refusal> {
        match on {
            Target::Cpus(cpus) => Ok(CountedCpus { cpus: cpus.iter().collect(), company: None, child: None }),
            Target::Child(pid) => {
                let among = self.cpus_for(slots);
                let Bound { cpu, company } =
                    self.bus.borrow_mut().bind(*pid, &among).map_err(|error| refusal(&error))?;
                let child = company.is_some().then_some(*pid);
                Ok(CountedCpus { cpus: vec![cpu], company, child })
            }
            _ => {
                let reason = RegisterRefusal::CountsCpus(self.rung);
                Err(Refusal::of_target(RefusalKind::TargetNotSupported, reason))
            }
        }
    }

    fn counting(&self, slots: &[Slot], on: &Target) -> std::result::Result<RegisterCounting<B>, Refusal> {
        let place = self.place(slots, on)?;
        let drivers = self.drivers(slots, &place.cpus)?;
        Ok(RegisterCounting {
            bus: Rc::clone(&self.bus),
            slots: slots.to_vec(),
            drivers,
            windows: None,
            place,
            selected: 0,
        })
    }

    /// The CPUs of the core types that count the most of these events.
    fn cpus_for(&self, slots: &[Slot]) -> CpuSet {
        let has = |core: &CorePmu, slot: &&Slot| {
            slot.parts.iter().any(|part| part.core().is_some_and(|part| part.pmu == core.name))
        };
        let count = |core: &CorePmu| slots.iter().filter(|slot| has(core, slot)).count();
        let most = self.cores.iter().map(count).max().unwrap_or(0);
        let best = self.cores.iter().filter(|core| count(core) == most);
        best.flat_map(|core| core.cpus.iter()).collect()
    }

    fn drivers(&self, slots: &[Slot], cpus: &[u32]) -> std::result::Result<Vec<Driver>, Refusal> {
        let mut open = Opening { bus: &self.bus, drivers: Vec::new() };
        for &cpu in cpus {
            let core = self.cores.iter().find(|core| core.cpus.contains(cpu)).ok_or_else(|| unknown(cpu))?;
            let options = options(core, cpu, &mut *self.bus.borrow_mut());
            let Some(recipe) = Recipe::of(slots, core, options)? else { continue };
            let used = slots.iter().flat_map(|slot| &slot.parts).flat_map(counters_of).collect();
            let mut bus = self.bus.borrow_mut();
            let users = in_use(&core.chip, cpu, &mut *bus).map_err(|fault| refusal(&fault.into()))?;
            if !users.is_empty() {
                return Err(match bus.claimed(cpu) {
                    Some(error) => refusal(&error),
                    None => busy(cpu, users.into_iter().collect()),
                });
            }
            let mut driver = Driver::new(cpu, &core.name, recipe, &mut *bus).map_err(|e| refusal(&e))?;
            let ready =
                self.see_move(core, cpu, used, options, &mut *bus).and_then(|()| driver.set_up(&mut *bus));
            drop(bus);
            open.drivers.push(driver);
            ready.map_err(|error| refusal(&error))?;
        }
        Ok(std::mem::take(&mut open.drivers))
    }

    /// Checks once that each counter of a CPU moves.
    fn see_move(
        &self,
        core: &CorePmu,
        cpu: u32,
        used: CounterMask,
        options: cyclometer_arch::ProgramOptions,
        bus: &mut dyn Bus,
    ) -> Result<()> {
        let known: CounterMask =
            self.moving.borrow().iter().filter(|(of, _)| *of == cpu).map(|(_, counter)| *counter).collect();
        let new = used.without(known).and(core.chip.counters.known());
        probe::moves(core, cpu, new, options, bus)?;
        self.moving.borrow_mut().extend(new.iter().map(|counter| (cpu, counter)));
        Ok(())
    }
}

/// The CPUs where counting happens.
struct CountedCpus {
    cpus: Vec<u32>,
    /// The other work that is counted there.
    company: Option<PartReason>,
    /// The child that was bound to the CPU.
    child: Option<u32>,
}

/// Drivers that are being opened: all of them are restored when one cannot be opened.
struct Opening<'a, B: Bus> {
    bus: &'a RefCell<B>,
    drivers: Vec<Driver>,
}

impl<B: Bus> Drop for Opening<'_, B> {
    fn drop(&mut self) {
        restore_all(&mut self.drivers, &mut *self.bus.borrow_mut());
    }
}

fn restore_all(drivers: &mut [Driver], bus: &mut dyn Bus) {
    for driver in drivers {
        // The bus keeps registers that cannot be restored here, and tries again.
        let _ = driver.restore(bus);
    }
}

fn counters_of(part: &Part) -> Vec<CounterId> {
    match part {
        Part::Registers(event) => event.assignments.iter().map(|assignment| assignment.counter).collect(),
        _ => Vec::new(),
    }
}

fn busy(cpu: u32, counters: CounterMask) -> Refusal {
    Refusal::of_target(RefusalKind::Busy, RegisterRefusal::InUse { cpu, counters })
}

fn unknown(cpu: u32) -> Refusal {
    Refusal::of_target(RefusalKind::NoSuchTarget, RegisterRefusal::UnknownCpu(cpu))
}

fn refusal(error: &Error) -> Refusal {
    let kind = match error.kind() {
        ErrorKind::PermissionDenied => RefusalKind::NoPermission,
        ErrorKind::CounterBusy => RefusalKind::Busy,
        ErrorKind::NoSuchTarget => RefusalKind::NoSuchTarget,
        _ => RefusalKind::Other,
    };
    Refusal::of_target(kind, error.to_string())
}

impl<B: Bus + 'static> Source for RegisterSource<B> {
    fn rung(&self) -> Rung {
        self.rung
    }

    fn open(&self, slots: &[Slot], on: &Target) -> std::result::Result<Box<dyn Counting>, Refusal> {
        Ok(Box::new(self.counting(slots, on)?))
    }

    fn windows(
        &self,
        slots: &[Slot],
        on: &Target,
        spec: &WindowSpec,
    ) -> std::result::Result<Box<dyn Windowing>, Refusal> {
        self.counting(slots, on)?.record(spec)
    }

    fn clock(&self) -> Option<&dyn Clock> {
        Some(self)
    }
}

impl<B: Bus + 'static> Clock for RegisterSource<B> {
    fn now(&self) -> Instant {
        self.start + Duration::from_nanos(self.bus.borrow().now_ns())
    }

    fn pass(&self, time: Duration) {
        self.bus.borrow_mut().pass(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }
}

/// Counters that are programmed. Dropping this restores the previous values.
struct RegisterCounting<B: Bus> {
    bus: Rc<RefCell<B>>,
    slots: Vec<Slot>,
    /// Empty where windows have the counters.
    drivers: Vec<Driver>,
    windows: Option<Rc<SharedWindows<B>>>,
    place: CountedCpus,
    selected: u32,
}

/// How often to check whether a command is still bound to its CPU.
const LOOK: Duration = Duration::from_millis(20);

impl<B: Bus + 'static> RegisterCounting<B> {
    /// Records windows with the counters.
    fn record(&mut self, spec: &WindowSpec) -> std::result::Result<Box<dyn Windowing>, Refusal> {
        let (slots, child) = (&self.slots, self.place.child);
        let bus = Rc::clone(&self.bus);
        let windows = RegisterWindows::open(&mut self.drivers, slots, child, spec, &mut *bus.borrow_mut())?;
        let shared = Rc::new(SharedWindows::new(bus, windows)?);
        self.windows = Some(Rc::clone(&shared));
        Ok(Box::new(RegisterWindowing(shared)))
    }
}

impl<B: Bus> RegisterCounting<B> {
    fn each(&mut self, mut what: impl FnMut(&mut Driver, &mut dyn Bus) -> Result<()>) -> Result<()> {
        let mut bus = self.bus.borrow_mut();
        self.drivers.iter_mut().try_for_each(|driver| what(driver, &mut *bus))
    }

    fn update(&mut self) -> Result<()> {
        self.look_after_child();
        self.each(Driver::update)
    }

    /// A command that left its CPU is not counted any more, but other work is: the counts are lost.
    fn look_after_child(&mut self) {
        let (Some(child), [cpu]) = (self.place.child, self.place.cpus.as_slice()) else { return };
        if !self.bus.borrow_mut().is_bound(child, *cpu) {
            let reason = MissingReason::LeftCpu { pid: None, cpu: *cpu };
            self.drivers.iter_mut().for_each(|driver| driver.lose(&reason));
        }
    }

    fn put(&mut self, rotation_group: Option<u32>, out: &mut Reading) {
        for driver in &self.drivers {
            out.cells.extend(driver.cells(rotation_group, self.place.company.as_ref()));
        }
    }
}

impl<B: Bus + 'static> Counting for RegisterCounting<B> {
    fn start(&mut self) -> Result<()> {
        self.each(Driver::start)
    }

    fn stop(&mut self) -> Result<()> {
        match &self.windows {
            Some(windows) => windows.with(RegisterWindows::stop),
            None => self.each(Driver::stop),
        }
    }

    fn windows(&mut self, spec: &WindowSpec) -> Option<std::result::Result<Box<dyn Windowing>, Refusal>> {
        Some(self.record(spec))
    }

    fn select(&mut self, rotation_group: u32) -> Result<()> {
        if rotation_group == self.selected {
            return Ok(());
        }
        self.selected = rotation_group;
        self.each(|driver, bus| driver.select(rotation_group, bus))
    }

    fn read(&mut self, out: &mut Reading) -> Result<()> {
        if let Some(windows) = &self.windows {
            let company = self.place.company.as_ref();
            return windows.with(|windows, bus| windows.read(company, bus, out));
        }
        self.update()?;
        self.put(None, out);
        Ok(())
    }

    /// The rotation group may have ended: its counts were added up when another was selected.
    fn read_rotation_group(&mut self, rotation_group: u32, out: &mut Reading) -> Result<()> {
        self.update()?;
        self.put(Some(rotation_group), out);
        Ok(())
    }

    /// Narrow counters of windows interrupt before they wrap.
    fn longest_pause(&self) -> Option<Duration> {
        let narrowest = self.drivers.iter().filter_map(Driver::longest_pause_ns).min();
        let looks = self.place.child.map(|_| LOOK);
        narrowest.map(Duration::from_nanos).into_iter().chain(looks).min()
    }
}

impl<B: Bus> Drop for RegisterCounting<B> {
    fn drop(&mut self) {
        restore_all(&mut self.drivers, &mut *self.bus.borrow_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimBus;
    use cyclometer_core::EventCode;
    use cyclometer_core::SlotId;
    use cyclometer_core::event::{RegisterCode, RegisterEvent};
    use cyclometer_sim::{Model, Settings, SimMachine};

    fn slot(pmus: &[&str]) -> Slot {
        let part = |pmu: &&str| {
            Part::Registers(RegisterEvent {
                pmu: (*pmu).to_owned(),
                cpus: CpuSet::default(),
                codes: vec![RegisterCode { code: EventCode::default(), counters: CounterMask::first(4, 0) }],
                wide: false,
                assignments: Vec::new(),
            })
        };
        Slot::new(SlotId(0), "e", Rung::Msr, pmus.iter().map(part).collect())
    }

    #[test]
    fn a_command_goes_where_most_of_its_events_count() {
        let model = Model::find("icelake").unwrap();
        let core = |name: &str, cpus: &str| CorePmu {
            name: name.to_owned(),
            cpus: CpuSet::parse(cpus).unwrap(),
            chip: model.chip,
            cycles: None,
        };
        let cores = vec![core("cpu_core", "0-7"), core("cpu_atom", "8-9")];
        let bus = Rc::new(RefCell::new(SimBus::new(SimMachine::new(model, Settings::default()))));
        let source = RegisterSource::new(Rung::Msr, cores, bus);
        for (slots, expected) in [
            (vec![slot(&["cpu_core"])], "0-7"),
            (vec![slot(&["cpu_atom"])], "8-9"),
            (vec![slot(&["cpu_core", "cpu_atom"])], "0-9"),
            (vec![slot(&["cpu_core", "cpu_atom"]), slot(&["cpu_atom"])], "8-9"),
        ] {
            assert_eq!(source.cpus_for(&slots).to_string(), expected);
        }
    }
}
