//! The driver as a source of counts.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use cyclometer_core::event::Part;
use cyclometer_core::exec::{Reading, RefusalKind};
use cyclometer_core::{
    CounterId, CounterMask, Counting, Error, ErrorKind, Refusal, Result, Rung, Slot, Source, Target,
};

use super::driver::Driver;
use super::program::{options, turns};
use super::{Bound, Bus, CorePmu, in_use, probe};

/// Counts by programming the registers of CPUs ourselves.
///
/// It counts CPUs, never threads: of a child it has the kernel bind it to one CPU, and says what else is counted there.
pub struct RegisterSource<B> {
    rung: Rung,
    cores: Vec<CorePmu>,
    bus: Rc<RefCell<B>>,
    /// The counters that were seen to move.
    moving: RefCell<BTreeSet<(u32, CounterId)>>,
}

impl<B: Bus + 'static> RegisterSource<B> {
    /// The source of a rung over a bus.
    pub fn new(rung: Rung, cores: Vec<CorePmu>, bus: Rc<RefCell<B>>) -> RegisterSource<B> {
        RegisterSource { rung, cores, bus, moving: RefCell::default() }
    }

    fn place(&self, on: &Target) -> std::result::Result<(Vec<u32>, Option<String>), Refusal> {
        match on {
            Target::Cpus(cpus) => Ok((cpus.iter().collect(), None)),
            Target::Child(pid) => {
                let among = self.cores.iter().flat_map(|core| core.cpus.iter()).collect();
                let Bound { cpu, company } =
                    self.bus.borrow_mut().bind(*pid, &among).map_err(|error| refusal(&error))?;
                Ok((vec![cpu], company))
            }
            _ => Err(Refusal {
                slot: None,
                kind: RefusalKind::TargetNotSupported,
                text: format!(
                    "the source '{}' counts CPUs: use -a, -C, or a command, which is then bound to one CPU",
                    self.rung
                ),
            }),
        }
    }

    fn drivers(&self, slots: &[Slot], cpus: &[u32]) -> std::result::Result<Vec<Driver>, Refusal> {
        let mut open = Opening { bus: &self.bus, drivers: Vec::new() };
        for &cpu in cpus {
            let core = self.cores.iter().find(|core| core.cpus.contains(cpu)).ok_or_else(|| unknown(cpu))?;
            let options = options(core, cpu, &mut *self.bus.borrow_mut());
            let Some(turns) = turns(slots, core, options)? else { continue };
            let used = slots.iter().flat_map(|slot| &slot.parts).flat_map(counters_of).collect();
            let mut bus = self.bus.borrow_mut();
            let users = in_use(&core.chip, cpu, &mut *bus).map_err(|fault| refusal(&fault.into()))?;
            if !users.is_empty() {
                return Err(busy(cpu, users.into_iter().collect()));
            }
            let mut driver = Driver::new(cpu, &core.name, turns, &mut *bus).map_err(|e| refusal(&e))?;
            let ready =
                self.see_move(core, cpu, used, options, &mut *bus).and_then(|()| driver.set_up(&mut *bus));
            drop(bus);
            open.drivers.push(driver);
            ready.map_err(|error| refusal(&error))?;
        }
        Ok(std::mem::take(&mut open.drivers))
    }

    /// Sees each counter of a CPU move once.
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
        let new = used.without(known).and(core.chip.counters);
        probe::moves(core, cpu, new, options, bus)?;
        self.moving.borrow_mut().extend(new.iter().map(|counter| (cpu, counter)));
        Ok(())
    }
}

/// Drivers that are being opened: all of them are restored when one cannot be.
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
        // What cannot be restored by us stays kept, and whoever keeps it tries again.
        let _ = driver.restore(bus);
    }
}

fn counters_of(part: &Part) -> Vec<CounterId> {
    match part {
        Part::Registers(event) => event.seats.iter().map(|seat| seat.counter).collect(),
        _ => Vec::new(),
    }
}

fn busy(cpu: u32, counters: CounterMask) -> Refusal {
    let (noun, verb) = if counters.len() == 1 { ("counter", "is") } else { ("counters", "are") };
    let text = format!("{noun} {counters} of CPU {cpu} {verb} in use: something else has the PMU");
    Refusal { slot: None, kind: RefusalKind::Busy, text }
}

fn unknown(cpu: u32) -> Refusal {
    let text = format!("CPU {cpu} is none whose registers are known");
    Refusal { slot: None, kind: RefusalKind::NoSuchTarget, text }
}

fn refusal(error: &Error) -> Refusal {
    let kind = match error.kind() {
        ErrorKind::PermissionDenied => RefusalKind::NoPermission,
        ErrorKind::CounterBusy => RefusalKind::Busy,
        ErrorKind::NoSuchTarget => RefusalKind::NoSuchTarget,
        _ => RefusalKind::Other,
    };
    Refusal { slot: None, kind, text: error.to_string() }
}

impl<B: Bus + 'static> Source for RegisterSource<B> {
    fn rung(&self) -> Rung {
        self.rung
    }

    fn open(&self, slots: &[Slot], on: &Target) -> std::result::Result<Box<dyn Counting>, Refusal> {
        let (cpus, company) = self.place(on)?;
        let drivers = self.drivers(slots, &cpus)?;
        Ok(Box::new(RegisterCounting { bus: Rc::clone(&self.bus), drivers, company, selected: 0 }))
    }
}

/// Counters that are programmed. Dropping it writes back what was there before.
struct RegisterCounting<B: Bus> {
    bus: Rc<RefCell<B>>,
    drivers: Vec<Driver>,
    company: Option<String>,
    selected: u32,
}

impl<B: Bus> RegisterCounting<B> {
    fn each(&mut self, mut what: impl FnMut(&mut Driver, &mut dyn Bus) -> Result<()>) -> Result<()> {
        let mut bus = self.bus.borrow_mut();
        self.drivers.iter_mut().try_for_each(|driver| what(driver, &mut *bus))
    }

    fn put(&mut self, turn: Option<u32>, out: &mut Reading) {
        for driver in &self.drivers {
            out.cells.extend(driver.cells(turn, self.company.as_deref()));
        }
    }
}

impl<B: Bus> Counting for RegisterCounting<B> {
    fn start(&mut self) -> Result<()> {
        self.each(Driver::start)
    }

    fn stop(&mut self) -> Result<()> {
        self.each(Driver::stop)
    }

    fn select(&mut self, turn: u32) -> Result<()> {
        if turn == self.selected {
            return Ok(());
        }
        self.selected = turn;
        self.each(|driver, bus| driver.select(turn as usize, bus))
    }

    fn read(&mut self, out: &mut Reading) -> Result<()> {
        self.each(Driver::update)?;
        self.put(None, out);
        Ok(())
    }

    /// The turn that is read may have ended: what it counted was added up when another was selected.
    fn read_turn(&mut self, turn: u32, out: &mut Reading) -> Result<()> {
        self.each(Driver::update)?;
        self.put(Some(turn), out);
        Ok(())
    }

    fn longest_pause(&self) -> Option<Duration> {
        self.drivers.iter().filter_map(Driver::longest_pause_ns).min().map(Duration::from_nanos)
    }
}

impl<B: Bus> Drop for RegisterCounting<B> {
    fn drop(&mut self) {
        restore_all(&mut self.drivers, &mut *self.bus.borrow_mut());
    }
}
