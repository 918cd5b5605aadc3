//! Events that start and stop together: those of one rotation group, or those that count all the time.

use cyclometer_arch::{Fault, Placed, PmuReg, RegisterBits, RegisterProgram, Step, carry_out, restore};
use cyclometer_core::{CounterId, MissingReason, Result};

use super::{longest_pause_ns, written_back};
use crate::registers::Bus;
use crate::registers::program::{GroupOf, Recipe, SlotPart};

/// Events of one rotation group on one CPU.
#[derive(Debug)]
pub(super) struct DriverGroup {
    rotation_group: Option<u32>,
    members: Vec<GroupMember>,
    /// The program of the members whose counters are still ours; `None` when there are none.
    program: Option<RegisterProgram>,
    /// The members that its reads belong to, in order.
    active: Vec<usize>,
    /// For each read, the value after the last setup, and the last value read.
    first: Vec<u64>,
    last: Vec<u64>,
    /// When the counters were last read; `None` while they do not count.
    since_ns: Option<u64>,
}

/// An event and its counts so far.
#[derive(Clone, Debug)]
pub(super) struct GroupMember {
    pub(super) place: SlotPart,
    placed: Placed,
    /// The program of this event alone; `None` for a share, which needs its slots.
    alone: Option<RegisterProgram>,
    /// Values of its registers while it counts, and while it is set up and stopped.
    holds: Vec<RegisterBits>,
    rests: Vec<RegisterBits>,
    pub(super) raw: u64,
    /// The value of `raw` when the group was last set up.
    before: u64,
    pub(super) counted_ns: u64,
    pub(super) lost: Option<MissingReason>,
    /// Whether another user has taken its counter.
    taken: bool,
}

impl DriverGroup {
    pub(super) fn new(of: GroupOf, recipe: &Recipe) -> DriverGroup {
        let member = |(place, placed): (SlotPart, Placed)| {
            // A share without its slots is no program: then it relies on the registers of all of them.
            let alone = recipe.program(&[placed]).ok();
            let bits = |of: fn(&RegisterProgram) -> &Vec<RegisterBits>| alone.as_ref().map(of).cloned();
            GroupMember {
                place,
                placed,
                holds: bits(|program| &program.holds).unwrap_or_default(),
                rests: bits(|program| &program.rests).unwrap_or_default(),
                raw: 0,
                before: 0,
                counted_ns: 0,
                lost: None,
                taken: false,
                alone,
            }
        };
        let mut group = DriverGroup {
            rotation_group: of.rotation_group,
            members: of.members.into_iter().map(member).collect(),
            program: None,
            active: Vec::new(),
            first: Vec::new(),
            last: Vec::new(),
            since_ns: None,
        };
        group.reprogram(recipe);
        group
    }

    pub(super) fn rotation_group(&self) -> Option<u32> {
        self.rotation_group
    }

    pub(super) fn program(&self) -> Option<&RegisterProgram> {
        self.program.as_ref()
    }

    pub(super) fn members(&self) -> &[GroupMember] {
        &self.members
    }

    /// Makes the program of the members that are still ours. The registers do not change, as the new program
    /// is a part of the old one.
    fn reprogram(&mut self, recipe: &Recipe) {
        let active: Vec<usize> = (0..self.members.len()).filter(|i| !self.members[*i].taken).collect();
        let placed: Vec<Placed> = active.iter().map(|i| self.members[*i].placed).collect();
        let kept = |values: &[u64]| -> Vec<u64> {
            let of = |i: &usize| values.get(self.active.iter().position(|old| old == i)?).copied();
            active.iter().filter_map(of).collect()
        };
        (self.first, self.last) = (kept(&self.first), kept(&self.last));
        // A part of a program is a program, except for shares whose slots are gone: they are lost.
        self.program = match recipe.program(&placed) {
            Ok(program) if !placed.is_empty() => Some(program),
            Ok(_) => None,
            Err(error) => {
                let reason = MissingReason::PartnerTaken { error: error.to_string() };
                active.iter().for_each(|i| {
                    self.members[*i].lost.get_or_insert_with(|| reason.clone());
                });
                None
            }
        };
        self.active = if self.program.is_some() { active } else { Vec::new() };
        let program = self.program.as_ref();
        for member in self.members.iter_mut().filter(|member| member.holds.is_empty()) {
            member.holds = program.map(|program| program.holds.clone()).unwrap_or_default();
            member.rests = program.map(|program| program.rests.clone()).unwrap_or_default();
        }
    }

    pub(super) fn set_up(&mut self, bus: &mut dyn Bus, cpu: u32) -> Result<()> {
        let Some(program) = &self.program else { return Ok(()) };
        carry_out(&program.set_up, bus, cpu)?;
        written_back(program, &program.set_up, bus, cpu)?;
        self.first = program.reads.iter().map(|read| read.preset).collect();
        self.last.clone_from(&self.first);
        self.members.iter_mut().for_each(|member| member.before = member.raw);
        Ok(())
    }

    pub(super) fn start(&mut self, bus: &mut dyn Bus, cpu: u32) -> Result<()> {
        let Some(program) = &self.program else { return Ok(()) };
        carry_out(&program.start, bus, cpu)?;
        written_back(program, &program.start, bus, cpu)?;
        self.since_ns = Some(bus.now_ns());
        Ok(())
    }

    /// Adds up the counts; returns the counters that another user has taken, with the reason.
    pub(super) fn update(&mut self, bus: &mut dyn Bus, cpu: u32) -> Result<Vec<(CounterId, MissingReason)>> {
        let (Some(program), Some(since)) = (&self.program, self.since_ns) else { return Ok(Vec::new()) };
        let now = bus.now_ns();
        // The values are read first: a control register that is still ours afterwards shows that they are
        // valid.
        let values = values(program, bus, cpu)?;
        let taken = self.intruders(bus, cpu, |member| &member.holds)?;
        self.add(&values, now.saturating_sub(since));
        self.since_ns = Some(now);
        Ok(taken)
    }

    /// Stops the counters, and adds their counts since the last read.
    pub(super) fn stop(&mut self, bus: &mut dyn Bus, cpu: u32) -> Result<Vec<(CounterId, MissingReason)>> {
        let since = self.since_ns.take();
        let (Some(program), Some(since)) = (&self.program, since) else { return Ok(Vec::new()) };
        carry_out(&program.stop, bus, cpu)?;
        let now = bus.now_ns();
        let values = values(program, bus, cpu)?;
        let taken = self.intruders(bus, cpu, |member| &member.rests)?;
        self.add(&values, now.saturating_sub(since));
        Ok(taken)
    }

    /// Counters whose registers another user has written, each with the reason. Each register is read once.
    fn intruders(
        &self,
        bus: &mut dyn Bus,
        cpu: u32,
        relied_on: impl Fn(&GroupMember) -> &Vec<RegisterBits>,
    ) -> std::result::Result<Vec<(CounterId, MissingReason)>, Fault> {
        let (mut seen, mut found): (Vec<(PmuReg, u64)>, _) = Default::default();
        for member in self.active.iter().map(|i| &self.members[*i]) {
            for bits in relied_on(member) {
                let known = seen.iter().find(|(register, _)| *register == bits.register);
                let value = match known {
                    Some((_, value)) => *value,
                    None => bus.read(cpu, bits.register)?,
                };
                seen.push((bits.register, value));
                if !bits.are_in(value) {
                    found_once(&mut found, member.placed.counter, intruder(bits, value, cpu));
                }
            }
        }
        Ok(found)
    }

    /// Adds the counts of so many ns.
    fn add(&mut self, values: &[u64], ns: u64) {
        let Some(program) = &self.program else { return };
        let too_late = longest_pause_ns(program).is_some_and(|longest| ns > longest);
        let counts = |before: &[u64]| program.counts(before, values).unwrap_or_default();
        let (since_first, since_last) = (counts(&self.first), counts(&self.last));
        for (((read, all), more), i) in
            program.reads.iter().zip(since_first).zip(since_last).zip(&self.active)
        {
            let member = &mut self.members[*i];
            // A share is one of all slots since setup; its increment may also be negative.
            member.raw = match read.share {
                None => member.raw.saturating_add(more),
                Some(_) => member.before.saturating_add(all),
            };
            member.counted_ns = member.counted_ns.saturating_add(ns);
            if too_late && read.share.is_none() && read.width_bits < u64::BITS {
                let (counter, width) = (read.counter, read.width_bits);
                member.lost.get_or_insert(MissingReason::ReadTooLate { counter, width_bits: width });
            }
        }
        self.last = values.to_vec();
    }

    /// Gives up counters that another user has taken: their events are lost, and their registers are not
    /// written any more.
    pub(super) fn give_away(&mut self, taken: &[(CounterId, MissingReason)], recipe: &Recipe) {
        let mut changed = false;
        for member in self.members.iter_mut().filter(|member| !member.taken) {
            if let Some((_, reason)) = taken.iter().find(|(counter, _)| *counter == member.placed.counter) {
                member.lost.get_or_insert_with(|| reason.clone());
                member.taken = true;
                changed = true;
            }
        }
        if changed {
            self.reprogram(recipe);
        }
    }

    /// Whether another user has taken one of its counters.
    pub(super) fn has_given_away(&self) -> bool {
        self.members.iter().any(|member| member.taken)
    }

    /// The steps that restore registers of taken counters that no other user has written. Overwriting the
    /// register that enables counters leaves our event selects in place.
    pub(super) fn left_behind(
        &self,
        saved: &[(PmuReg, u64)],
        bus: &mut dyn Bus,
        cpu: u32,
    ) -> std::result::Result<Vec<Step>, Fault> {
        let mut steps = Vec::new();
        for member in self.members.iter().filter(|member| member.taken) {
            let Some(alone) = &member.alone else { continue };
            if member.is_untouched(bus, cpu)? {
                let enables = |register| {
                    !alone.rests.iter().any(|bits| bits.register == register)
                        && alone.holds.iter().any(|bits| bits.register == register)
                };
                let own: Vec<(PmuReg, u64)> =
                    saved.iter().filter(|(register, _)| !enables(*register)).copied().collect();
                let is_ours = |step: &Step| !matches!(step, Step::Write(bits) if enables(bits.register));
                steps.extend(restore(alone, &own).into_iter().filter(is_ours));
            }
        }
        Ok(steps)
    }

    pub(super) fn lose(&mut self, reason: &MissingReason) {
        self.members.iter_mut().for_each(|member| {
            member.lost.get_or_insert_with(|| reason.clone());
        });
    }
}

impl GroupMember {
    /// Whether its registers hold the values that we wrote, except those that enable it.
    fn is_untouched(&self, bus: &mut dyn Bus, cpu: u32) -> std::result::Result<bool, Fault> {
        for bits in &self.rests {
            if !bits.are_in(bus.read(cpu, bits.register)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn values(program: &RegisterProgram, bus: &mut dyn Bus, cpu: u32) -> std::result::Result<Vec<u64>, Fault> {
    program.reads.iter().map(|read| bus.read(cpu, read.register)).collect()
}

fn found_once(found: &mut Vec<(CounterId, MissingReason)>, counter: CounterId, reason: MissingReason) {
    if found.iter().all(|(known, _)| *known != counter) {
        found.push((counter, reason));
    }
}

fn intruder(bits: &RegisterBits, value: u64, cpu: u32) -> MissingReason {
    let (register, ours, now) = (bits.register, bits.value, value & bits.mask);
    MissingReason::Rewritten { register: register.to_string(), cpu, found: now, written: ours }
}
