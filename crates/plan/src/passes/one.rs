//! Whether events fit into one pass, all of them, and how.

use cyclometer_core::event::ExtraRegisterKind;

use super::{PackedEvent, PackedNeed, TrialBudget};
use crate::matching::{CounterBits, each, match_bits};

/// Whether events fit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum PassFit {
    /// The way and the counter of each need of each event.
    Yes(Vec<Vec<Chosen>>),
    /// They do not, however they are placed.
    No,
    /// That could not be found out within the budget.
    Unknown,
}

/// How one need is met: index of the way, bit of the counter.
pub(super) type Chosen = (usize, u8);

/// Tries to place all of these events at once.
pub(super) fn fit(items: &[&PackedEvent], pmus: &[CounterBits], budget: &mut TrialBudget) -> PassFit {
    let mut chosen: Vec<Vec<Chosen>> = items.iter().map(|item| vec![(0, 0); item.needs.len()]).collect();
    for (pmu, available) in pmus.iter().enumerate() {
        let at = |(i, item): (usize, &&PackedEvent)| -> Vec<(usize, usize)> {
            let of_pmu = item.needs.iter().enumerate().filter(|(_, need)| need.pmu == pmu);
            of_pmu.map(|(n, _)| (i, n)).collect()
        };
        let places: Vec<(usize, usize)> = items.iter().enumerate().flat_map(at).collect();
        let needs: Vec<&PackedNeed> = places.iter().map(|(i, n)| &items[*i].needs[*n]).collect();
        let mut trial =
            PassTrial { needs: &needs, available: *available, budget, values: Vec::new(), gave_up: false };
        match trial.decide(0) {
            Some(found) => places.iter().zip(found).for_each(|((i, n), found)| chosen[*i][*n] = found),
            None if trial.gave_up => return PassFit::Unknown,
            None => return PassFit::No,
        }
    }
    PassFit::Yes(chosen)
}

/// The events of one pass on one PMU.
struct PassTrial<'a> {
    needs: &'a [&'a PackedNeed],
    available: CounterBits,
    budget: &'a mut TrialBudget,
    /// The values of registers, as far as decided.
    values: Vec<(ExtraRegisterKind, u64)>,
    gave_up: bool,
}

impl PassTrial<'_> {
    /// Decides the registers for the needs from number `next` on, then gives out the counters.
    fn decide(&mut self, next: usize) -> Option<Vec<Chosen>> {
        let choosy = (next..self.needs.len()).find(|n| self.needs[*n].has_registers());
        let Some(next) = choosy else { return self.assign() };
        let need = self.needs[next];
        let settled = need.ways.iter().any(|way| self.agrees(way.extra));
        if settled {
            let found = self.decide(next + 1);
            if found.is_some() || need.is_uniform() {
                return found;
            }
        }
        for way in &need.ways {
            let Some(extra) = way.extra.filter(|extra| self.value_of(extra.0).is_none()) else { continue };
            self.values.push(extra);
            let found = self.decide(next + 1);
            self.values.pop();
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn value_of(&self, register: ExtraRegisterKind) -> Option<u64> {
        self.values.iter().find(|(other, _)| *other == register).map(|(_, value)| *value)
    }

    fn agrees(&self, extra: Option<(ExtraRegisterKind, u64)>) -> bool {
        extra.is_none_or(|(register, value)| self.value_of(register) == Some(value))
    }

    fn assign(&mut self) -> Option<Vec<Chosen>> {
        if !self.budget.spend(self.needs.len()) {
            self.gave_up = true;
            return None;
        }
        let usable = |need: &&PackedNeed| {
            let ways = need.ways.iter().filter(|way| self.agrees(way.extra));
            ways.fold(0, |all, way| all | way.counters)
        };
        let masks: Vec<CounterBits> = self.needs.iter().map(usable).collect();
        let bits = if self.needs.iter().any(|need| need.wide) {
            self.assign_pairs(&masks)?
        } else {
            match_bits(&masks, self.available).into_iter().collect::<Option<Vec<u8>>>()?
        };
        let way = |(need, bit): (&&PackedNeed, u8)| {
            let fits = |way: &super::PackedEncoding| self.agrees(way.extra) && way.counters >> bit & 1 == 1;
            Some((need.ways.iter().position(fits)?, bit))
        };
        self.needs.iter().zip(bits).map(way).collect()
    }

    /// Events that take two counters take every choice of pairs in turn; the others what is left.
    fn assign_pairs(&mut self, masks: &[CounterBits]) -> Option<Vec<u8>> {
        let part = |wide: bool| -> Vec<CounterBits> {
            let mask = |(need, mask): (&&PackedNeed, &CounterBits)| if need.wide == wide { *mask } else { 0 };
            self.needs.iter().zip(masks).map(mask).collect()
        };
        let (wide, narrow) = (part(true), part(false));
        let wanted = self.needs.iter().filter(|need| need.wide).count();
        let firsts: Vec<u8> = each(wide.iter().fold(0, |all, mask| all | mask) & self.available).collect();
        let mut choice = Choice { firsts: &firsts, wanted, chosen: 0, next: 0 };
        self.choose_pairs(&mut choice, &wide, &narrow)
    }

    fn choose_pairs(
        &mut self,
        choice: &mut Choice<'_>,
        wide: &[CounterBits],
        narrow: &[CounterBits],
    ) -> Option<Vec<u8>> {
        if choice.chosen.count_ones() as usize == choice.wanted {
            return self.assign_beside(choice.chosen, wide, narrow);
        }
        for next in choice.next..choice.firsts.len() {
            let (chosen, before) = (choice.chosen, choice.next);
            (choice.chosen, choice.next) = (chosen | 1 << choice.firsts[next], next + 1);
            let found = self.choose_pairs(choice, wide, narrow);
            (choice.chosen, choice.next) = (chosen, before);
            if found.is_some() || self.gave_up {
                return found;
            }
        }
        None
    }

    fn assign_beside(
        &mut self,
        pairs: CounterBits,
        wide: &[CounterBits],
        narrow: &[CounterBits],
    ) -> Option<Vec<u8>> {
        if !self.budget.spend(self.needs.len()) {
            self.gave_up = true;
            return None;
        }
        let firsts = match_bits(wide, pairs);
        let others = match_bits(narrow, self.available & !pairs & !(pairs << 1));
        firsts.into_iter().zip(others).map(|(first, other)| first.or(other)).collect()
    }
}

/// Pairs that are taken, by their first counters.
struct Choice<'f> {
    firsts: &'f [u8],
    wanted: usize,
    chosen: CounterBits,
    next: usize,
}
