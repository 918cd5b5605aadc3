//! The counters of one CPU: programmed, let count, read, written back.

use cyclometer_arch::{Fault, PmuReg, RegisterProgram, Step, carry_out, restore};
use cyclometer_core::exec::{At, Cell};
use cyclometer_core::{Error, ErrorKind, Result};

use super::Bus;
use super::program::{Place, TurnProgram};

/// No core has more events in a nanosecond: sixteen in a cycle at eight gigahertz.
const MOST_EVENTS_A_NS: u64 = 128;

/// The counters of one CPU. Whoever has one restores it before it is dropped.
#[derive(Debug)]
pub(super) struct Driver {
    pub(super) cpu: u32,
    pmu: String,
    turns: Vec<TurnProgram>,
    /// The turn whose program is in the registers.
    selected: usize,
    /// What the registers held before, each once.
    saved: Vec<(PmuReg, u64)>,
    tallies: Vec<Tally>,
    /// For each read of the selected turn the value that was last seen, and the one after it was set up.
    last: Vec<u64>,
    first: Vec<u64>,
    /// When the counters were last read; `None` while they do not count.
    since_ns: Option<u64>,
}

/// What an event has come to.
#[derive(Clone, Debug)]
struct Tally {
    place: Place,
    raw: u64,
    /// The same when its turn was set up last.
    before: u64,
    counted_ns: u64,
    lost: Option<String>,
}

impl Driver {
    /// Saves the registers of a CPU, here and where it outlives us. Nothing is written yet.
    ///
    /// # Errors
    ///
    /// Those of the bus.
    pub(super) fn new(cpu: u32, pmu: &str, turns: Vec<TurnProgram>, bus: &mut dyn Bus) -> Result<Driver> {
        let mut saved: Vec<(PmuReg, u64)> = Vec::new();
        for register in turns.iter().flat_map(|turn| turn.program.touched()) {
            if saved.iter().all(|(known, _)| *known != register) {
                saved.push((register, bus.read(cpu, register)?));
            }
        }
        let mut tallies: Vec<Tally> = Vec::new();
        for place in turns.iter().flat_map(|turn| &turn.of) {
            if tallies.iter().all(|known| known.place != *place) {
                tallies.push(Tally { place: *place, raw: 0, before: 0, counted_ns: 0, lost: None });
            }
        }
        let driver = Driver {
            cpu,
            pmu: pmu.to_owned(),
            turns,
            selected: 0,
            saved,
            tallies,
            last: Vec::new(),
            first: Vec::new(),
            since_ns: None,
        };
        bus.keep(cpu, &driver.restoring())?;
        Ok(driver)
    }

    /// What makes the registers as they were before.
    fn restoring(&self) -> Vec<Step> {
        self.turns.iter().flat_map(|turn| restore(&turn.program, &self.saved)).collect()
    }

    /// Writes the selected turn's program; the counters stand.
    ///
    /// # Errors
    ///
    /// A fault of the bus; [`ErrorKind::ArchUnsupported`] where a register does not keep what is written to it.
    pub(super) fn set_up(&mut self, bus: &mut dyn Bus) -> Result<()> {
        let program = &self.turns[self.selected].program;
        carry_out(&program.set_up, bus, self.cpu)?;
        written_back(program, &program.set_up, bus, self.cpu)?;
        self.first = program.reads.iter().map(|read| read.preset).collect();
        self.last.clone_from(&self.first);
        self.tallies.iter_mut().for_each(|tally| tally.before = tally.raw);
        Ok(())
    }

    /// Lets the counters count.
    ///
    /// # Errors
    ///
    /// Those of [`Driver::set_up`].
    pub(super) fn start(&mut self, bus: &mut dyn Bus) -> Result<()> {
        let program = &self.turns[self.selected].program;
        carry_out(&program.start, bus, self.cpu)?;
        written_back(program, &program.start, bus, self.cpu)?;
        self.since_ns = Some(bus.now_ns());
        Ok(())
    }

    /// Stops the counters, and adds up what they counted.
    ///
    /// # Errors
    ///
    /// A fault of the bus.
    pub(super) fn stop(&mut self, bus: &mut dyn Bus) -> Result<()> {
        let Some(since) = self.since_ns.take() else { return Ok(()) };
        let program = &self.turns[self.selected].program;
        let intruder = intruder(program, bus, self.cpu)?;
        carry_out(&program.stop, bus, self.cpu)?;
        let now = bus.now_ns();
        self.collect(bus, now.saturating_sub(since), intruder)?;
        Ok(())
    }

    /// Adds up what was counted so far; the counters go on.
    ///
    /// # Errors
    ///
    /// A fault of the bus.
    pub(super) fn update(&mut self, bus: &mut dyn Bus) -> Result<()> {
        let Some(since) = self.since_ns else { return Ok(()) };
        let now = bus.now_ns();
        // The values come first: only then does a control register that is still ours say that they are good.
        let values = self.values(bus)?;
        let intruder = intruder(&self.turns[self.selected].program, bus, self.cpu)?;
        self.add(&values, now.saturating_sub(since), intruder.as_deref());
        self.since_ns = Some(now);
        Ok(())
    }

    /// Lets another turn count.
    ///
    /// # Errors
    ///
    /// Those of [`Driver::set_up`].
    pub(super) fn select(&mut self, turn: usize, bus: &mut dyn Bus) -> Result<()> {
        let counts = self.since_ns.is_some();
        self.stop(bus)?;
        self.selected = turn.min(self.turns.len() - 1);
        self.set_up(bus)?;
        if counts { self.start(bus) } else { Ok(()) }
    }

    /// A cell for every event of this turn and those without one; of all turns where none is named.
    pub(super) fn cells(&self, turn: Option<u32>, partial: Option<&str>) -> impl Iterator<Item = Cell> {
        let of_turn = move |tally: &&Tally| match (turn, tally.place.turn) {
            (Some(turn), Some(own)) => turn == own,
            _ => true,
        };
        self.tallies.iter().filter(of_turn).map(move |tally| {
            let at = At { part: tally.place.part, pmu: self.pmu.clone(), cpu: Some(self.cpu), tid: None };
            Cell {
                at,
                lost: tally.lost.clone(),
                partial: partial.map(str::to_owned),
                ..Cell::new(tally.place.slot, tally.raw, tally.counted_ns, tally.counted_ns)
            }
        })
    }

    /// How long counters may go unread, so that none wraps twice unseen, in ns; `None`: for ever.
    pub(super) fn longest_pause_ns(&self) -> Option<u64> {
        let reads =
            self.turns.iter().flat_map(|turn| &turn.program.reads).filter(|read| read.share.is_none());
        let narrowest = reads.map(|read| read.width_bits).min()?;
        Some(1u64.checked_shl(narrowest)? / MOST_EVENTS_A_NS)
    }

    /// Makes the registers as they were before.
    ///
    /// # Errors
    ///
    /// A fault of the bus; then what was kept stays kept.
    pub(super) fn restore(&mut self, bus: &mut dyn Bus) -> Result<()> {
        self.since_ns = None;
        carry_out(&self.restoring(), bus, self.cpu)?;
        bus.let_go(self.cpu);
        Ok(())
    }

    fn values(&self, bus: &mut dyn Bus) -> std::result::Result<Vec<u64>, Fault> {
        let reads = self.turns[self.selected].program.reads.iter();
        reads.map(|read| bus.read(self.cpu, read.register)).collect()
    }

    fn collect(&mut self, bus: &mut dyn Bus, ns: u64, intruder: Option<String>) -> Result<()> {
        let values = self.values(bus)?;
        self.add(&values, ns, intruder.as_deref());
        Ok(())
    }

    /// Adds what was counted in so many ns.
    fn add(&mut self, values: &[u64], ns: u64, intruder: Option<&str>) {
        let too_late = self.longest_pause_ns().is_some_and(|longest| ns > longest);
        let turn = &self.turns[self.selected];
        let counts = |before: &[u64]| turn.program.counts(before, values).unwrap_or_default();
        let (since_first, since_last) = (counts(&self.first), counts(&self.last));
        let new = turn.program.reads.iter().zip(since_first).zip(since_last).zip(&turn.of);
        for (((read, all), more), place) in new {
            let Some(tally) = self.tallies.iter_mut().find(|tally| tally.place == *place) else { continue };
            // A share is one of all slots since it was set up; what comes to it may also be less than nothing.
            tally.raw = match read.share {
                None => tally.raw.saturating_add(more),
                Some(_) => tally.before.saturating_add(all),
            };
            tally.counted_ns = tally.counted_ns.saturating_add(ns);
            let narrow = too_late && read.share.is_none() && read.width_bits < 64;
            let wrapped = narrow.then(|| {
                format!(
                    "counter {} has {} bits and was read too late to see how often it wrapped",
                    read.counter, read.width_bits
                )
            });
            if let Some(reason) = intruder.map(str::to_owned).or(wrapped) {
                tally.lost.get_or_insert(reason);
            }
        }
        self.last = values.to_vec();
    }
}

/// Who else wrote to the control registers while the program counted, in words.
fn intruder(
    program: &RegisterProgram,
    bus: &mut dyn Bus,
    cpu: u32,
) -> std::result::Result<Option<String>, Fault> {
    for bits in &program.holds {
        let value = bus.read(cpu, bits.register)?;
        if !bits.are_in(value) {
            let (ours, now) = (bits.value, value & bits.mask);
            let text = format!(
                "something else wrote {} of CPU {cpu} meanwhile: {now:#x} instead of {ours:#x}",
                bits.register
            );
            return Ok(Some(text));
        }
    }
    Ok(None)
}

/// Whether the registers have what these steps wrote, as far as the program holds it.
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
        "{register} of CPU {cpu} does not keep what is written to it: {written:#x} became {read:#x}; a hypervisor, or \
         the kernel, does not let us have the PMU"
    );
    Error::new(ErrorKind::ArchUnsupported, message)
}
