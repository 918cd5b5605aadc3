//! Which events of core PMUs count at the same time: as few sets as possible, each of which fits on the
//! counters.
//!
//! Events whose counters nobody knows are taken to fit beside all others; whether they do, the kernel tells
//! ([`split`](crate::split())).

use std::collections::BTreeMap;

use cyclometer_core::event::{CorePart, Part};
use cyclometer_core::machine::Vendor;
use cyclometer_core::plan::{Multiplex, PlanLine, Sharing, TooLarge, TooLargeSum};
use cyclometer_core::{
    CounterId, CounterMask, Error, ErrorKind, Intent, Machine, Recovery, Result, Slot, SlotId,
};

use crate::passes::{
    Conflict, CounterAssignment, CounterEncoding, Demand, Packing, PackingProblem, PmuNeed, Unplaceable,
    conflict, pack,
};
use crate::words::{ProblemNames, listed};

/// The demands of core PMUs' slots on the counters, and the free counters.
pub(crate) struct Cores<'a> {
    /// The demands on the counters: the summands of every slot but twins.
    demands: Vec<Summand<'a>>,
    all: &'a [Slot],
    lines: &'a [PlanLine],
    /// The core PMUs whose counters are known, each with the counters that are free now.
    inventories: Vec<(String, CounterMask)>,
}

/// A slot of core PMUs; of an event that is a sum, one of its summands.
#[derive(Clone, Copy, Debug)]
struct Summand<'a> {
    slot: &'a Slot,
    /// Its number among the slot's parts on each PMU; 0 for an event that is no sum.
    number: usize,
}

impl<'a> Summand<'a> {
    fn of(slot: &'a Slot) -> impl Iterator<Item = Summand<'a>> {
        let pmus = || slot.parts.iter().filter_map(Part::core).map(|part| part.pmu);
        let most = pmus().map(|pmu| pmus().filter(|other| *other == pmu).count()).max().unwrap_or(0);
        (0..most).map(move |number| Summand { slot, number })
    }

    /// Its part on a PMU, with the index among all parts of the slot.
    fn on_pmu(self, pmu: &str) -> Option<(usize, CorePart<'a>)> {
        let cores = self.slot.parts.iter().enumerate().filter_map(|(i, part)| Some((i, part.core()?)));
        cores.filter(|(_, part)| part.pmu == pmu).nth(self.number)
    }
}

/// The sets that were found, and what follows for the slots.
#[derive(Debug, Default)]
pub(crate) struct FoundSets {
    pub(crate) sharing: Sharing,
    /// For each set the counters of its events, as far as they are known.
    pub(crate) assignments: Vec<Vec<SlotAssignment>>,
}

/// Where an event of a set counts on one core PMU.
#[derive(Clone, Debug)]
pub(crate) struct SlotAssignment {
    pub(crate) slot: SlotId,
    /// The PMU's name.
    pub(crate) pmu: String,
    /// The index of the slot's part.
    pub(crate) part: usize,
    pub(crate) counter: CounterId,
    /// The index of the way in which it is counted there, as [`CorePart::ways`] has them.
    pub(crate) way: usize,
}

/// Groups and sets that do not fit as a whole.
#[derive(Default)]
struct Divided {
    /// Weak groups.
    groups: Vec<u32>,
    /// Sets of the intent, by index, each with the reason.
    sets: Vec<(usize, String)>,
}

/// Sets of demands, with their counters.
struct AssignedSets {
    sets: Vec<Vec<usize>>,
    assignments: Vec<Vec<CounterAssignment>>,
}

/// Whether a PMU of the cores counts it.
pub(crate) fn is_core(slot: &Slot) -> bool {
    slot.parts.iter().any(|part| part.core().is_some())
}

impl<'a> Cores<'a> {
    pub(crate) fn new(slots: &'a [Slot], lines: &'a [PlanLine], machine: &Machine) -> Cores<'a> {
        let opened = slots.iter().filter(|slot| is_core(slot) && slot.twin_of.is_none());
        Cores {
            demands: opened.flat_map(Summand::of).collect(),
            all: slots,
            lines,
            inventories: inventories(machine),
        }
    }

    /// The fewest sets; when events are to take turns and it costs no turn, with cycles and instructions in
    /// each, as estimates follow them.
    ///
    /// # Errors
    ///
    /// `ErrorKind::HardwareLimit` for a group that does not fit on the counters.
    pub(crate) fn share(&self, intent: &Intent, runs: usize, rotates: bool) -> Result<FoundSets> {
        if self.demands.is_empty() {
            return Ok(FoundSets::default());
        }
        let groups = self.groups();
        let mut problem = self.problem(&groups, intent);
        let names = self.names();
        let too_large = self.take_too_large(&mut problem, &names, intent.multiplex);
        let packing = pack(&problem);
        let divided = self.refused(&packing, &groups, &problem, &names)?;
        let rotated = rotates || packing.passes.len() > runs;
        let always = rotated.then(|| self.with_always(&problem, &packing)).flatten();
        let found = always.unwrap_or_else(|| AssignedSets::of(&packing));
        let mut sets = self.whole(found.sets, &problem, &groups, &divided.groups);
        let alone = set_apart(&mut sets, &too_large);
        let assignments = found.assignments.iter().map(|assignments| self.by_slot(assignments)).collect();
        let sharing = Sharing {
            lower_bound: (packing.lower_bound + alone).max(sets.len().min(1)),
            sets,
            too_large,
            because: names.certificate(&packing.certificate),
            divided: divided.sets,
            ungrouped: divided.groups,
            ..Sharing::default()
        };
        Ok(FoundSets { sharing, assignments })
    }

    fn by_slot(&self, assignments: &[CounterAssignment]) -> Vec<SlotAssignment> {
        assignments.iter().filter_map(|assignment| self.of_slot(assignment)).collect()
    }

    fn of_slot(&self, assignment: &CounterAssignment) -> Option<SlotAssignment> {
        let (pmu, summand) = (&self.inventories[assignment.pmu].0, self.demands[assignment.demand]);
        let (part, _) = summand.on_pmu(pmu)?;
        let (slot, counter) = (summand.slot.id, assignment.counter);
        Some(SlotAssignment { slot, pmu: pmu.clone(), part, counter, way: self.way_of_part(assignment) })
    }

    /// The index of an assignment's encoding among all encodings of the event there, also those without a
    /// free counter.
    fn way_of_part(&self, assignment: &CounterAssignment) -> usize {
        let (pmu, free) = &self.inventories[assignment.pmu];
        let Some((_, part)) = self.demands[assignment.demand].on_pmu(pmu) else { return 0 };
        let mut usable =
            (0..part.ways.len()).filter(|way| usable(part.ways[*way].0, *free, part.wide).is_some());
        usable.nth(assignment.way).unwrap_or(0)
    }

    fn names(&self) -> ProblemNames<'_> {
        ProblemNames {
            pmus: self.inventories.iter().map(|(pmu, _)| pmu.as_str()).collect(),
            events: self.demands.iter().map(|summand| self.name(*summand)).collect(),
        }
    }

    /// The event's name; of a summand the vendor's, as the sum has several.
    fn name(&self, summand: Summand<'a>) -> &'a str {
        let candidate = self.lines.get(summand.slot.id.0).and_then(|line| line.candidate());
        let part = self.inventories.iter().find_map(|(pmu, _)| summand.on_pmu(pmu)).map(|(part, _)| part);
        let own = candidate.zip(part).and_then(|(candidate, part)| candidate.summands.get(part));
        own.map_or(summand.slot.name.as_str(), String::as_str)
    }

    /// The summands of each sum, by index.
    fn sums(&self) -> Vec<Vec<usize>> {
        let mut sums: BTreeMap<SlotId, Vec<usize>> = BTreeMap::new();
        for (i, summand) in self.demands.iter().enumerate() {
            sums.entry(summand.slot.id).or_default().push(i);
        }
        sums.into_values().filter(|sum| sum.len() > 1).collect()
    }

    /// Takes sums out of a problem whose summands cannot be counted at the same time. Those in groups stay: a
    /// group that does not fit is an error of its own.
    fn take_too_large(
        &self,
        problem: &mut PackingProblem,
        names: &ProblemNames<'_>,
        multiplex: Multiplex,
    ) -> Vec<TooLargeSum> {
        let mut found = Vec::new();
        for sum in self.sums() {
            let slot = self.demands[sum[0]].slot;
            let conflict = conflict(problem, &sum).filter(|_| slot.group.is_none());
            if let Some(conflict) = conflict {
                let summands: Vec<&str> = sum.iter().map(|i| self.name(self.demands[*i])).collect();
                let (summands, conflict) = (listed(&summands), names.conflict(&conflict));
                let reason = format!(
                    "it is the sum of {summands}, which do not fit on the counters at once: {conflict}"
                );
                found.push(TooLargeSum { slot: slot.id, treatment: treatment(slot, multiplex), reason });
                sum.iter().for_each(|i| problem.demands[*i] = Demand::default());
                problem.together.iter_mut().for_each(|set| set.retain(|i| !sum.contains(i)));
                problem.partners.iter_mut().for_each(|set| set.retain(|i| !sum.contains(i)));
            }
        }
        found
    }

    /// The members of each group, by index.
    fn groups(&self) -> BTreeMap<u32, Vec<usize>> {
        let mut groups: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (i, summand) in self.demands.iter().enumerate() {
            if let Some(group) = summand.slot.group {
                groups.entry(group).or_default().push(i);
            }
        }
        groups
    }

    fn problem(&self, groups: &BTreeMap<u32, Vec<usize>>, intent: &Intent) -> PackingProblem {
        let indices = |set: &Vec<usize>| -> Vec<usize> {
            let wanted = self.all.iter().filter(|slot| set.contains(&slot.id.0));
            let opened: Vec<SlotId> = wanted.map(Slot::opened_as).collect();
            (0..self.demands.len()).filter(|i| opened.contains(&self.demands[*i].slot.id)).collect()
        };
        PackingProblem {
            pmus: self.inventories.iter().map(|(_, free)| *free).collect(),
            demands: self.demands.iter().map(|summand| self.demand(*summand)).collect(),
            together: groups
                .values()
                .cloned()
                .chain(intent.together.iter().map(indices))
                .chain(self.sums())
                .collect(),
            partners: intent.partners.iter().map(indices).filter(|set| set.len() > 1).collect(),
            repeats: true,
        }
    }

    /// The counters that a slot needs. An event that no free counter can count needs none here: the kernel
    /// may know better.
    fn demand(&self, summand: Summand<'_>) -> Demand {
        let needs: Vec<PmuNeed> = self
            .inventories
            .iter()
            .enumerate()
            .filter_map(|(pmu, (name, free))| Some(need(pmu, &summand.on_pmu(name)?.1, *free)))
            .filter(|need| !need.ways.is_empty())
            .collect();
        let alone = summand.slot.exclusive && summand.slot.group.is_none() && !needs.is_empty();
        Demand { needs, alone }
    }

    /// The weak groups that do not fit; the sets of the intent that do not, with the reason.
    fn refused(
        &self,
        packing: &Packing,
        groups: &BTreeMap<u32, Vec<usize>>,
        problem: &PackingProblem,
        names: &ProblemNames<'_>,
    ) -> Result<Divided> {
        let mut found = Divided::default();
        for refused in &packing.refused {
            let Unplaceable::Set { set, conflict } = refused else { continue };
            let members = &problem.together[*set];
            match groups.keys().nth(*set) {
                None => found.sets.push((set - groups.len(), names.conflict(conflict))),
                Some(group) if members.iter().any(|i| self.is_weak(*i)) => found.groups.push(*group),
                Some(_) => return Err(self.too_large(members, conflict, names)),
            }
        }
        Ok(found)
    }

    fn is_weak(&self, i: usize) -> bool {
        self.lines.get(self.demands[i].slot.id.0).is_some_and(|line| line.event.modifiers.weak)
    }

    fn too_large(&self, members: &[usize], conflict: &Conflict, names: &ProblemNames<'_>) -> Error {
        let mut members: Vec<&str> = members.iter().map(|i| self.demands[*i].slot.name.as_str()).collect();
        members.dedup();
        too_large(&members, Some(&names.conflict(conflict)))
    }

    /// As many sets, with cycles and instructions in each of them: both, or one.
    fn with_always(&self, problem: &PackingProblem, packing: &Packing) -> Option<AssignedSets> {
        if problem.demands.iter().any(|demand| demand.alone) {
            return None;
        }
        let is_steady = |i: &usize| {
            let slot = self.demands[*i].slot;
            let candidate = self.lines.get(slot.id.0).and_then(|line| line.candidate());
            candidate.is_some_and(|candidate| candidate.never_zero) && slot.group.is_none() && !slot.exclusive
        };
        let steady: Vec<usize> = (0..self.demands.len()).filter(is_steady).collect();
        let each = steady.iter().rev().map(|i| vec![*i]);
        let choices = std::iter::once(steady.clone()).chain(each);
        choices.filter(|always| !always.is_empty()).find_map(|always| reserved(problem, &always, packing))
    }

    /// The sets as slots, each with the events that need nothing, and groups in them whole or not at all.
    fn whole(
        &self,
        mut sets: Vec<Vec<usize>>,
        problem: &PackingProblem,
        groups: &BTreeMap<u32, Vec<usize>>,
        ungrouped: &[u32],
    ) -> Vec<Vec<SlotId>> {
        let has_needs = |i: &usize| !problem.demands[*i].needs.is_empty();
        let is_alone = |set: &[usize]| set.iter().any(|i| problem.demands[*i].alone);
        let easy: Vec<usize> = (0..self.demands.len()).filter(|i| !has_needs(i)).collect();
        let sums = self.sums();
        if !easy.is_empty() && sets.iter().all(|set| is_alone(set)) {
            sets.push(Vec::new());
        }
        for set in sets.iter_mut().filter(|set| !is_alone(set)) {
            set.extend(&easy);
            let kept = groups.iter().filter(|(group, _)| !ungrouped.contains(group));
            for members in kept.map(|(_, members)| members).chain(&sums) {
                if !members.iter().filter(|i| has_needs(i)).all(|i| set.contains(i)) {
                    set.retain(|i| !members.contains(i));
                }
            }
            set.sort_unstable();
            set.dedup();
        }
        let slots = |set: &Vec<usize>| {
            let mut slots: Vec<SlotId> = set.iter().map(|i| self.demands[*i].slot.id).collect();
            slots.dedup();
            slots
        };
        sets.iter().map(slots).collect()
    }
}

/// The kernel can share counters among the summands, and its count says so. A driver of ours cannot.
fn treatment(slot: &Slot, multiplex: Multiplex) -> TooLarge {
    let is_ours = slot.parts.iter().any(|part| matches!(part, Part::Registers(_)));
    if is_ours || multiplex == Multiplex::Never { TooLarge::NotCounted } else { TooLarge::KernelShares }
}

/// Takes sums that are too large out of the sets, and gives those that the kernel shares a set each. The
/// result is the number of these sets.
fn set_apart(sets: &mut Vec<Vec<SlotId>>, too_large: &[TooLargeSum]) -> usize {
    if too_large.is_empty() {
        return 0;
    }
    sets.iter_mut().for_each(|set| set.retain(|slot| too_large.iter().all(|sum| sum.slot != *slot)));
    sets.retain(|set| !set.is_empty());
    let others = sets.len();
    let shared = too_large.iter().filter(|sum| sum.treatment == TooLarge::KernelShares);
    sets.extend(shared.map(|sum| vec![sum.slot]));
    sets.len() - others
}

impl AssignedSets {
    fn of(packing: &Packing) -> AssignedSets {
        let set = |pass: &Vec<CounterAssignment>| {
            let mut set: Vec<usize> = pass.iter().map(|assignment| assignment.demand).collect();
            set.sort_unstable();
            set.dedup();
            set
        };
        AssignedSets { sets: packing.passes.iter().map(set).collect(), assignments: packing.passes.clone() }
    }
}

/// No more sets than those of `plain`, with the events `always` in each, if that refuses nothing more.
fn reserved(problem: &PackingProblem, always: &[usize], plain: &Packing) -> Option<AssignedSets> {
    let mut rest = problem.clone();
    let mut held = Vec::new();
    for i in always {
        for need in std::mem::take(&mut rest.demands[*i].needs) {
            let wanted = need.ways.first().filter(|way| !need.wide && way.extra.is_none())?;
            let counter = spare(wanted.counters.and(rest.pmus[need.pmu]))?;
            rest.pmus[need.pmu] = rest.pmus[need.pmu].without(std::iter::once(counter).collect());
            held.push(CounterAssignment { demand: *i, pmu: need.pmu, way: 0, counter, repeats: false });
        }
    }
    let packing = pack(&rest);
    let is_event = |refused: &Unplaceable| matches!(refused, Unplaceable::Event(_));
    let refuses_more = packing.refused.len() > plain.refused.len() || packing.refused.iter().any(is_event);
    if packing.passes.is_empty() || packing.passes.len() > plain.passes.len() || refuses_more {
        return None;
    }
    let mut sets = AssignedSets::of(&packing);
    sets.sets.iter_mut().for_each(|set| set.extend(always));
    sets.assignments.iter_mut().for_each(|assignments| assignments.extend(&held));
    Some(sets)
}

/// The counter that others miss least: a fixed one, or the last of the general ones.
fn spare(counters: CounterMask) -> Option<CounterId> {
    let fixed = counters.iter().find(|counter| matches!(counter, CounterId::Fixed(_)));
    fixed.or_else(|| counters.iter().last())
}

fn need(pmu: usize, part: &CorePart<'_>, free: CounterMask) -> PmuNeed {
    let ways = part.ways.iter().filter_map(|(counters, extra)| {
        let counters = usable(*counters, free, part.wide)?;
        Some(CounterEncoding { counters, extra: *extra })
    });
    PmuNeed { pmu, ways: ways.collect(), wide: part.wide }
}

/// The counters that an event may use, if they are known and one of them is free. An event that takes two
/// needs the counter behind it, too.
fn usable(counters: Option<CounterMask>, free: CounterMask, wide: bool) -> Option<CounterMask> {
    counters.filter(|counters| {
        let usable = counters.and(free);
        if wide { has_pair(usable, free) } else { !usable.is_empty() }
    })
}

/// Whether nothing of what is free can count a part. It is false for a PMU whose counters are unknown.
pub(crate) fn is_without_counter(part: &CorePart<'_>, machine: &Machine) -> bool {
    let inventories = inventories(machine);
    let known = inventories.iter().find(|(pmu, _)| pmu == part.pmu);
    known.is_some_and(|(_, free)| {
        part.ways.iter().all(|(counters, _)| usable(*counters, *free, part.wide).is_none())
    })
}

/// Whether an even general counter of these is there with the one behind it.
fn has_pair(usable: CounterMask, free: CounterMask) -> bool {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    usable.general_bits() & EVEN & free.general_bits() >> 1 != 0
}

/// The core PMUs whose counters are known, each with the counters that are free now.
fn inventories(machine: &Machine) -> Vec<(String, CounterMask)> {
    let mut found: Vec<(String, CounterMask)> = Vec::new();
    for core in &machine.core_types {
        let pmu = core.pmu_name();
        if let Some(all) = core.pmu.known_counters()
            && found.iter().all(|(known, _)| known != pmu)
        {
            found.push((pmu.to_owned(), all.without(taken_by_watchdog(machine, all))));
        }
    }
    found
}

/// The counter of a core PMU that the NMI watchdog holds, if it is on: it pins a cycles event on every CPU.
///
/// # Source
///
/// Linux `kernel/watchdog_perf.c`: `PERF_COUNT_HW_CPU_CYCLES`, pinned; on Intel that is fixed counter 1.
pub fn taken_by_watchdog(machine: &Machine, all: CounterMask) -> CounterMask {
    if machine.access.nmi_watchdog != Some(true) {
        return CounterMask::EMPTY;
    }
    let cycles = CounterMask::from_bits(0, 0b10).and(all);
    match machine.cpu.vendor {
        Vendor::Intel if !cycles.is_empty() => cycles,
        _ => all.iter().last().into_iter().collect(),
    }
}

/// The error for a group that cannot count as one.
pub(crate) fn too_large(names: &[&str], why: Option<&str>) -> Error {
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    Error::new(
        ErrorKind::HardwareLimit,
        format!("the group {{{}}} does not fit on the PMU{why}", names.join(",")),
    )
    .with_recovery(Recovery::SplitIntoPasses)
}
