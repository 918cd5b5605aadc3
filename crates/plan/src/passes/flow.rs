//! How often the busiest counter has to be used: the least number of passes, and the counters that prove it.
//!
//! Events that one pass can count are those that can be matched to counters. Copies of such a system are one
//! again, with every counter there once for each pass: `k` passes suffice exactly if every event can have a
//! counter that no more than `k` share.

use crate::matching::{CounterBits, each};

/// Events given to counters so that the busiest has as few as possible.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Loads {
    /// The greatest number of events on one counter.
    pub passes: usize,
    /// Counters that so many events need, that fewer passes are impossible: the events whose masks lie
    /// within, divided by the counters, rounded up.
    pub critical: CounterBits,
    /// The counter of each event: a bit of its mask.
    pub given: Vec<u8>,
}

/// Spreads events over counters. Every mask has a bit.
///
/// # Source
///
/// J. Edmonds, "Minimum partition of a matroid into independent subsets" (1965), for transversal matroids;
/// the bound is Hall's condition with every counter there `k` times.
pub(super) fn spread(masks: &[CounterBits]) -> Loads {
    if masks.is_empty() {
        return Loads::default();
    }
    let classes = MaskClasses::of(masks);
    let mut flow = CounterFlow::new(&classes);
    let (mut passes, mut critical) = classes.first_bound();
    loop {
        match flow.saturate(passes) {
            None => return Loads { passes, critical, given: classes.deal(&flow) },
            Some(tight) => (passes, critical) = (classes.bound_within(tight), tight),
        }
    }
}

/// Events with the same mask.
struct MaskClasses {
    masks: Vec<CounterBits>,
    members: Vec<Vec<usize>>,
}

impl MaskClasses {
    fn of(masks: &[CounterBits]) -> MaskClasses {
        let mut order: Vec<usize> = (0..masks.len()).collect();
        // Those with few counters first: they have no choice.
        order.sort_by_key(|event| (masks[*event].count_ones(), masks[*event]));
        let mut classes = MaskClasses { masks: Vec::new(), members: Vec::new() };
        for event in order {
            if classes.masks.last() != Some(&masks[event]) {
                classes.masks.push(masks[event]);
                classes.members.push(Vec::new());
            }
            if let Some(members) = classes.members.last_mut() {
                members.push(event);
            }
        }
        classes
    }

    /// The passes that the events within these counters need at least.
    fn bound_within(&self, counters: CounterBits) -> usize {
        let within =
            |(mask, members): (&CounterBits, &Vec<usize>)| (mask & !counters == 0).then_some(members.len());
        let events: usize = self.masks.iter().zip(&self.members).filter_map(within).sum();
        events.div_ceil(counters.count_ones().max(1) as usize)
    }

    /// The best bound that single masks, and all of them together, give.
    fn first_bound(&self) -> (usize, CounterBits) {
        let all = self.masks.iter().fold(0, |all, mask| all | mask);
        let bounds = self.masks.iter().chain([&all]).map(|mask| (self.bound_within(*mask), *mask));
        bounds.max_by_key(|(bound, mask)| (*bound, std::cmp::Reverse(mask.count_ones()))).unwrap_or((0, all))
    }

    fn deal(&self, flow: &CounterFlow<'_>) -> Vec<u8> {
        let mut given = vec![0; self.members.iter().map(Vec::len).sum()];
        for (class, members) in self.members.iter().enumerate() {
            let counters = flow.counters.iter().zip(&flow.used[class]);
            let each = counters.flat_map(|(bit, times)| std::iter::repeat_n(*bit, *times));
            members.iter().zip(each).for_each(|(event, bit)| given[*event] = bit);
        }
        given
    }
}

/// How many events of each class use each counter.
struct CounterFlow<'c> {
    classes: &'c MaskClasses,
    counters: Vec<u8>,
    used: Vec<Vec<usize>>,
    load: Vec<usize>,
    /// Events of each class that have no counter yet.
    waiting: Vec<usize>,
}

/// Where a search came from: the class that wants each counter, the counter whose holder each class is.
struct Trail {
    wants: Vec<Option<usize>>,
    holds: Vec<Option<usize>>,
}

impl<'c> CounterFlow<'c> {
    fn new(classes: &'c MaskClasses) -> CounterFlow<'c> {
        let counters: Vec<u8> = each(classes.masks.iter().fold(0, |all, mask| all | mask)).collect();
        let used = vec![vec![0; counters.len()]; classes.masks.len()];
        let load = vec![0; counters.len()];
        CounterFlow { classes, used, load, waiting: classes.members.iter().map(Vec::len).collect(), counters }
    }

    fn may_use(&self, class: usize, counter: usize) -> bool {
        self.classes.masks[class] >> self.counters[counter] & 1 == 1
    }

    /// Gives every event a counter that at most `most` share; else the counters on which too many depend.
    fn saturate(&mut self, most: usize) -> Option<CounterBits> {
        for class in 0..self.waiting.len() {
            self.fill(class, most);
            while self.waiting[class] > 0 {
                if let Err(tight) = self.augment(class, most) {
                    return Some(tight);
                }
            }
        }
        None
    }

    /// Takes what is free, the least used counters first.
    fn fill(&mut self, class: usize, most: usize) {
        while self.waiting[class] > 0 {
            let usable = (0..self.counters.len()).filter(|counter| self.may_use(class, *counter));
            let Some(least) = usable.min_by_key(|counter| self.load[*counter]) else { return };
            if self.load[least] >= most {
                return;
            }
            self.take(class, least, 1);
        }
    }

    fn take(&mut self, class: usize, counter: usize, events: usize) {
        self.used[class][counter] += events;
        self.load[counter] += events;
        self.waiting[class] -= events;
    }

    /// Finds room for waiting events of a class by moving others; the counters that were reached where there
    /// is none.
    fn augment(&mut self, class: usize, most: usize) -> Result<(), CounterBits> {
        let mut trail =
            Trail { wants: vec![None; self.counters.len()], holds: vec![None; self.waiting.len()] };
        let mut open = vec![class];
        while let Some(from) = open.pop() {
            for counter in 0..self.counters.len() {
                if trail.wants[counter].is_some() || !self.may_use(from, counter) {
                    continue;
                }
                trail.wants[counter] = Some(from);
                if self.load[counter] < most {
                    self.shift(class, counter, &trail, most);
                    return Ok(());
                }
                for other in 0..self.waiting.len() {
                    if other != class && trail.holds[other].is_none() && self.used[other][counter] > 0 {
                        trail.holds[other] = Some(counter);
                        open.push(other);
                    }
                }
            }
        }
        let reached = self.counters.iter().zip(&trail.wants).filter(|(_, wants)| wants.is_some());
        Err(reached.fold(0, |bits, (bit, _)| bits | 1 << bit))
    }

    /// Moves as many events as the trail from `class` to a counter with room carries.
    fn shift(&mut self, class: usize, room: usize, trail: &Trail, most: usize) {
        let mut moves: Vec<(usize, Option<usize>, usize)> = Vec::new();
        let mut to = room;
        while let Some(mover) = trail.wants[to] {
            let from = trail.holds[mover];
            moves.push((mover, from, to));
            match from {
                Some(counter) => to = counter,
                None => break,
            }
        }
        let carried = moves.iter().filter_map(|(mover, from, _)| Some(self.used[*mover][(*from)?])).min();
        let events = carried.unwrap_or(usize::MAX).min(self.waiting[class]).min(most - self.load[room]);
        for (mover, from, to) in moves {
            self.used[mover][to] += events;
            if let Some(from) = from {
                self.used[mover][from] -= events;
            }
        }
        self.load[room] += events;
        self.waiting[class] -= events;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every non-empty set of counters, and the events whose masks lie within.
    fn closed_form(masks: &[CounterBits], counters: u32) -> usize {
        (1..1u128 << counters)
            .map(|set| {
                masks.iter().filter(|mask| **mask & !set == 0).count().div_ceil(set.count_ones() as usize)
            })
            .max()
            .unwrap_or(0)
    }

    #[test]
    fn events_of_few_counters_decide() {
        // Six events anywhere, three on the last counter only.
        let masks = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x80, 0x80, 0x80];
        let loads = spread(&masks);
        assert_eq!((loads.passes, loads.critical), (3, 0x80));
    }

    #[test]
    fn nothing_needs_no_pass() {
        assert_eq!(spread(&[]), Loads::default());
    }

    proptest! {
        #[test]
        fn the_loads_are_those_of_the_closed_form(masks in prop::collection::vec(1u128..64, 1..40)) {
            let loads = spread(&masks);
            prop_assert_eq!(loads.passes, closed_form(&masks, 6));
            let within = masks.iter().filter(|mask| **mask & !loads.critical == 0).count();
            prop_assert_eq!(within.div_ceil(loads.critical.count_ones() as usize), loads.passes);
            let mut load = [0; 128];
            for (mask, bit) in masks.iter().zip(&loads.given) {
                prop_assert!(mask >> bit & 1 == 1);
                load[usize::from(*bit)] += 1;
            }
            prop_assert_eq!(load.into_iter().max(), Some(loads.passes));
        }
    }
}
