//! The counters of one CPU: programming, starting, reading and restoring them.

mod group;

use cyclometer_arch::{Fault, PmuReg, Register, RegisterProgram, Step, arm, carry_out, restore};
use cyclometer_core::exec::{At, Cell};
use cyclometer_core::{CounterId, Error, ErrorKind, MissingReason, PartReason, Result};

use super::Bus;
use super::program::Recipe;
use group::DriverGroup;

/// An upper bound on the event rate of any core: sixteen events in a cycle at eight gigahertz.
const MOST_EVENTS_A_NS: u64 = 128;

/// The counters of one CPU. The owner restores them before dropping this.
///
/// Events that count all the time form a group of their own, which rotation does not touch. When another user
/// takes a counter, its events are lost, and its registers are not written any more.
#[derive(Debug)]
pub(super) struct Driver {
    cpu: u32,
    pmu: String,
    recipe: Recipe,
    groups: Vec<DriverGroup>,
    /// The rotation group that counts.
    selected: u32,
    counts: bool,
    /// The previous values of the registers, each register once.
    saved: Vec<(PmuReg, u64)>,
}

impl Driver {
    /// Saves the registers of a CPU, here and with `Bus::keep`, which outlives this process. Writes no
    /// register.
    ///
    /// # Errors
    ///
    /// Those of the bus.
    pub(super) fn new(cpu: u32, pmu: &str, recipe: Recipe, bus: &mut dyn Bus) -> Result<Driver> {
        let groups: Vec<DriverGroup> =
            recipe.groups().into_iter().map(|of| DriverGroup::new(of, &recipe)).collect();
        let mut saved: Vec<(PmuReg, u64)> = Vec::new();
        for register in groups.iter().filter_map(DriverGroup::program).flat_map(RegisterProgram::touched) {
            if saved.iter().all(|(known, _)| *known != register) {
                saved.push((register, bus.read(cpu, register)?));
            }
        }
        let driver = Driver { cpu, pmu: pmu.to_owned(), recipe, groups, selected: 0, counts: false, saved };
        let restoring = driver.restoring(bus)?;
        bus.keep(cpu, &restoring)?;
        Ok(driver)
    }

    pub(super) const fn cpu(&self) -> u32 {
        self.cpu
    }

    pub(super) fn pmu(&self) -> &str {
        &self.pmu
    }

    pub(super) const fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// The steps that restore the registers, except those that another user has taken.
    fn restoring(&self, bus: &mut dyn Bus) -> std::result::Result<Vec<Step>, Fault> {
        let programs = self.groups.iter().filter_map(DriverGroup::program);
        let mut steps: Vec<Step> = programs.flat_map(|program| restore(program, &self.saved)).collect();
        for group in &self.groups {
            steps.extend(group.left_behind(&self.saved, bus, self.cpu)?);
        }
        if self.groups.iter().any(DriverGroup::has_given_away) {
            steps.retain(|step| !enables_all(step));
        }
        Ok(steps)
    }

    /// The groups that count in the selected rotation group.
    fn current(&self) -> Vec<usize> {
        let counts = |group: &DriverGroup| {
            group.rotation_group().is_none_or(|rotation_group| rotation_group == self.selected)
        };
        (0..self.groups.len()).filter(|i| counts(&self.groups[*i])).collect()
    }

    /// Writes the programs of the selected rotation group; the counters stay stopped.
    ///
    /// # Errors
    ///
    /// A fault of the bus; [`ErrorKind::ArchUnsupported`] where a register does not keep its written value.
    pub(super) fn set_up(&mut self, bus: &mut dyn Bus) -> Result<()> {
        self.current().into_iter().try_for_each(|i| self.groups[i].set_up(bus, self.cpu))
    }

    /// Starts the counters.
    ///
    /// # Errors
    ///
    /// Those of [`Driver::set_up`].
    pub(super) fn start(&mut self, bus: &mut dyn Bus) -> Result<()> {
        self.counts = true;
        self.current().into_iter().try_for_each(|i| self.groups[i].start(bus, self.cpu))
    }

    /// Stops the counters, and adds up their counts.
    ///
    /// # Errors
    ///
    /// A fault of the bus.
    pub(super) fn stop(&mut self, bus: &mut dyn Bus) -> Result<()> {
        self.counts = false;
        self.current().into_iter().try_for_each(|i| self.stop_group(i, bus))
    }

    fn stop_group(&mut self, i: usize, bus: &mut dyn Bus) -> Result<()> {
        self.update_group(i, bus)?;
        let taken = self.groups[i].stop(bus, self.cpu)?;
        self.give_away(&taken, bus)
    }

    /// Adds up the counts so far; the counters continue.
    ///
    /// # Errors
    ///
    /// A fault of the bus.
    pub(super) fn update(&mut self, bus: &mut dyn Bus) -> Result<()> {
        self.current().into_iter().try_for_each(|i| self.update_group(i, bus))?;
        if let Some(reason) = bus.disturbance() {
            self.lose(&reason);
        }
        Ok(())
    }

    fn update_group(&mut self, i: usize, bus: &mut dyn Bus) -> Result<()> {
        let taken = self.groups[i].update(bus, self.cpu)?;
        self.give_away(&taken, bus)
    }

    /// Gives up counters that another user has taken, in all rotation groups.
    pub(super) fn give_away(
        &mut self,
        taken: &[(CounterId, MissingReason)],
        bus: &mut dyn Bus,
    ) -> Result<()> {
        if taken.is_empty() {
            return Ok(());
        }
        self.groups.iter_mut().for_each(|group| group.give_away(taken, &self.recipe));
        let restoring = self.restoring(bus)?;
        bus.keep(self.cpu, &restoring)
    }

    /// Marks everything that was counted here as lost.
    pub(super) fn lose(&mut self, reason: &MissingReason) {
        self.groups.iter_mut().for_each(|group| group.lose(reason));
    }

    /// Switches to another rotation group. Events that count all the time continue.
    ///
    /// # Errors
    ///
    /// Those of [`Driver::set_up`].
    pub(super) fn select(&mut self, rotation_group: u32, bus: &mut dyn Bus) -> Result<()> {
        let of = |driver: &Driver, rotation_group| {
            driver.groups.iter().position(|group| group.rotation_group() == Some(rotation_group))
        };
        if let Some(old) = of(self, self.selected).filter(|_| self.counts) {
            self.stop_group(old, bus)?;
        }
        self.selected = rotation_group;
        let Some(new) = of(self, rotation_group) else { return Ok(()) };
        self.groups[new].set_up(bus, self.cpu)?;
        if self.counts { self.groups[new].start(bus, self.cpu) } else { Ok(()) }
    }

    /// A cell for every event of this rotation group and for events that always count; with `None`, for all
    /// events.
    pub(super) fn cells(
        &self,
        rotation_group: Option<u32>,
        partial: Option<&PartReason>,
    ) -> impl Iterator<Item = Cell> {
        let of_rotation_group = move |group: &&DriverGroup| {
            rotation_group.is_none()
                || group.rotation_group().is_none()
                || group.rotation_group() == rotation_group
        };
        self.groups.iter().filter(of_rotation_group).flat_map(DriverGroup::members).map(move |member| {
            let at =
                At { part: member.place.part, pmu: Some(self.pmu.clone()), cpu: Some(self.cpu), tid: None };
            Cell {
                at,
                lost: member.lost.clone(),
                partial: partial.cloned(),
                ..Cell::new(member.place.slot, member.raw, member.counted_ns, member.counted_ns)
            }
        })
    }

    /// The longest time between reads, in ns, in which no counter can wrap twice unnoticed. `None`:
    /// unlimited.
    pub(super) fn longest_pause_ns(&self) -> Option<u64> {
        self.groups.iter().filter_map(DriverGroup::program).filter_map(longest_pause_ns).min()
    }

    /// Restores the previous values of the registers.
    ///
    /// # Errors
    ///
    /// A fault of the bus; then the bus keeps the saved values.
    pub(super) fn restore(&mut self, bus: &mut dyn Bus) -> Result<()> {
        // Stopping first detects counters that another user has taken since the last check.
        if self.counts {
            self.stop(bus)?;
        }
        carry_out(&self.restoring(bus)?, bus, self.cpu)?;
        bus.let_go(self.cpu);
        Ok(())
    }
}

fn longest_pause_ns(program: &RegisterProgram) -> Option<u64> {
    let counters = program.reads.iter().filter(|read| read.share.is_none());
    let narrowest = counters.map(|read| read.width_bits).min()?;
    Some(1u64.checked_shl(narrowest)? / MOST_EVENTS_A_NS)
}

/// Whether a step writes the bit that enables all counters of a CPU at once, those of other users too.
///
/// # Source
///
/// Arm ARM, PMCR_EL0.E.
fn enables_all(step: &Step) -> bool {
    matches!(step, Step::Write(bits) if bits.register.register() == Register::Arm(arm::Register::Control))
}

/// Checks that the registers have the values that these steps wrote, as far as the program holds them.
fn written_back(program: &RegisterProgram, steps: &[Step], bus: &mut dyn Bus, cpu: u32) -> Result<()> {
    for step in steps {
        let Step::Write(bits) = step else { continue };
        if !program.holds.contains(bits) {
            continue;
        }
        let value = bus.read(cpu, bits.register)?;
        if !bits.are_in(value) {
            return Err(dropped(bits.register, cpu, bits.value, value & bits.mask));
        }
    }
    Ok(())
}

fn dropped(register: PmuReg, cpu: u32, written: u64, read: u64) -> Error {
    let message = format!(
        "{register} of CPU {cpu} does not keep what is written to it: {written:#x} became {read:#x}; {}",
        super::NOT_OURS
    );
    Error::new(ErrorKind::ArchUnsupported, message)
}
