//! Groups of events that are opened together: single events, and groups with their leader first.

use std::collections::BTreeSet;

use cyclometer_core::event::{PerfClass, PerfEvent};
use cyclometer_core::exec::RefusalKind;
use cyclometer_core::reason::{EventFamily, EventPmus, PerfRefusal, RefusalReason};
use cyclometer_core::{Part, Refusal, Slot};

/// One part of one slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct PerfMember<'a> {
    pub(super) slot: &'a Slot,
    /// Index of the part.
    pub(super) part: usize,
    pub(super) event: &'a PerfEvent,
}

/// Events that the kernel schedules together; the first one leads. A single event leads itself.
#[derive(Clone, Debug)]
pub(super) struct PerfGroup<'a> {
    pub(super) members: Vec<PerfMember<'a>>,
}

impl<'a> PerfGroup<'a> {
    /// The first event, which leads the group.
    pub(super) fn leader(&self) -> Option<&PerfMember<'a>> {
        self.members.first()
    }

    /// The rotation group of the leader, which the others follow.
    pub(super) fn rotation_group(&self) -> Option<u32> {
        self.leader().and_then(|leader| leader.slot.rotation_group)
    }
}

/// `PERF_TYPE_SOFTWARE`.
const SOFTWARE: u32 = 1;

/// Makes one unit of the kernel's software events that are units of their own. They always count, alone or
/// together, and one system call reads a unit.
pub(super) fn join_software(units: Vec<PerfGroup<'_>>) -> Vec<PerfGroup<'_>> {
    let mut joined: Vec<PerfGroup<'_>> = Vec::with_capacity(units.len());
    let mut at: Option<usize> = None;
    for unit in units {
        match at {
            Some(at) if can_join(&unit) => joined[at].members.extend(unit.members),
            _ => {
                at = at.or_else(|| can_join(&unit).then_some(joined.len()));
                joined.push(unit);
            }
        }
    }
    joined
}

fn can_join(unit: &PerfGroup<'_>) -> bool {
    let [PerfMember { slot, event, .. }] = unit.members.as_slice() else { return false };
    let is_plain = !slot.pinned && !slot.exclusive && slot.rotation_group.is_none();
    event.class == PerfClass::Software && event.pmu_type == SOFTWARE && is_plain
}

/// Splits the slots into units; on a hybrid a group has one unit for each core PMU.
pub(super) fn units(slots: &[Slot]) -> Result<Vec<PerfGroup<'_>>, Refusal> {
    let mut units = Vec::new();
    let mut done = BTreeSet::new();
    for slot in slots {
        match slot.group {
            None => {
                units.extend(members(slot)?.into_iter().map(|member| PerfGroup { members: vec![member] }))
            }
            Some(group) if done.insert(group) => units.extend(group_units(slots, group)?),
            Some(_) => {}
        }
    }
    Ok(units)
}

fn members(slot: &Slot) -> Result<Vec<PerfMember<'_>>, Refusal> {
    slot.parts.iter().enumerate().map(|(part, what)| member(slot, part, what)).collect()
}

fn member<'a>(slot: &'a Slot, part: usize, what: &'a Part) -> Result<PerfMember<'a>, Refusal> {
    match what {
        Part::Perf(event) => Ok(PerfMember { slot, part, event }),
        _ => {
            let reason = RefusalReason::NotAmongEvents { event: slot.name.clone(), of: EventFamily::Perf };
            Err(Refusal::of_slot(slot.id, RefusalKind::Invalid, reason))
        }
    }
}

/// Software events may follow a hardware leader; all others must be on the leader's PMU.
///
/// # Source
///
/// `perf_event_open(2)`, `group_fd`; Linux `kernel/events/core.c`, `perf_event_open`.
fn group_units(slots: &[Slot], group: u32) -> Result<Vec<PerfGroup<'_>>, Refusal> {
    let of_group = slots.iter().filter(|slot| slot.group == Some(group));
    let lists = of_group.map(members).collect::<Result<Vec<_>, _>>()?;
    let is_soft = |list: &Vec<PerfMember<'_>>| list.iter().all(|member| is_software(member));
    let (soft, hard): (Vec<_>, Vec<_>) = lists.into_iter().partition(is_soft);
    let Some(first) = hard.first() else {
        return Ok(vec![PerfGroup { members: soft.concat() }]);
    };
    if let Some(other) = hard.iter().find(|list| !are_on_the_same(first, list)) {
        return Err(two_pmus(first, other));
    }
    let mut units: Vec<PerfGroup<'_>> = pmus_of(first).iter().map(|pmu| on_pmu(pmu, &hard)).collect();
    match units.as_mut_slice() {
        [only] => only.members.extend(soft.concat()),
        // On a hybrid no single leader runs all the time, and software events have to count all the time.
        _ => units.extend(soft.concat().into_iter().map(|member| PerfGroup { members: vec![member] })),
    }
    Ok(units)
}

fn on_pmu<'a>(pmu: &str, lists: &[Vec<PerfMember<'a>>]) -> PerfGroup<'a> {
    let members = lists.iter().flatten().filter(|member| member.event.pmu == pmu);
    PerfGroup { members: members.copied().collect() }
}

fn is_software(member: &PerfMember<'_>) -> bool {
    member.event.class == PerfClass::Software
}

/// The PMUs of some events, each once. Names are compared, as generic, cache and raw events of one PMU have
/// different types. Events of one PMU need not follow each other.
fn pmus_of<'a>(list: &[PerfMember<'a>]) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    list.iter().map(|member| member.event.pmu.as_str()).filter(|pmu| seen.insert(*pmu)).collect()
}

fn are_on_the_same(one: &[PerfMember<'_>], other: &[PerfMember<'_>]) -> bool {
    let set = |list| pmus_of(list).into_iter().collect::<BTreeSet<_>>();
    set(one) == set(other)
}

fn two_pmus(first: &[PerfMember<'_>], other: &[PerfMember<'_>]) -> Refusal {
    let pmus = |list: &[PerfMember<'_>]| EventPmus {
        event: list.first().map_or(String::new(), |member| member.slot.name.clone()),
        pmus: pmus_of(list).into_iter().map(str::to_owned).collect(),
    };
    let reason = PerfRefusal::GroupOnTwoPmus(Box::new([pmus(first), pmus(other)])).into();
    let slot = other.first().map(|member| member.slot.id);
    Refusal { slot, kind: RefusalKind::GroupMixed, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::program::tests::{event, slot};

    const CORE: PerfClass = PerfClass::Core;
    const SOFT: PerfClass = PerfClass::Software;

    fn shape(slots: &[Slot]) -> Vec<Vec<String>> {
        let units = units(slots).unwrap();
        let named = |m: &PerfMember<'_>| format!("{}@{}", m.slot.name, m.event.pmu);
        units.iter().map(|unit| unit.members.iter().map(named).collect()).collect()
    }

    #[test]
    fn single_events_are_units_of_one() {
        let slots =
            [slot(0, None, vec![event("cpu", 4, CORE)]), slot(1, None, vec![event("software", 1, SOFT)])];
        assert_eq!(shape(&slots), [["e0@cpu"], ["e1@software"]]);
    }

    #[test]
    fn software_events_can_be_joined_and_others_stay_alone() {
        let mut slots = [
            slot(0, None, vec![event("cpu", 4, CORE)]),
            slot(1, None, vec![event("software", 1, SOFT)]),
            slot(2, None, vec![event("tracepoint", 2, SOFT)]),
            slot(3, None, vec![event("software", 1, SOFT)]),
            slot(4, None, vec![event("software", 1, SOFT)]),
            slot(5, Some(0), vec![event("software", 1, SOFT)]),
            slot(6, Some(0), vec![event("software", 1, SOFT)]),
        ];
        slots[4].pinned = true;
        let joined = join_software(units(&slots).unwrap());
        let named =
            |unit: &PerfGroup<'_>| unit.members.iter().map(|m| m.slot.name.clone()).collect::<Vec<_>>();
        let names: Vec<_> = joined.iter().map(named).collect();
        assert_eq!(
            names,
            [vec!["e0"], vec!["e1", "e3"], vec!["e2"], vec!["e4"], vec!["e5", "e6"]]
                .map(|unit| unit.to_vec())
        );
    }

    #[test]
    fn a_hardware_event_leads_and_software_follows() {
        let slots = [
            slot(0, Some(3), vec![event("software", 1, SOFT)]),
            slot(1, Some(3), vec![event("cpu", 4, CORE)]),
            slot(2, Some(3), vec![event("cpu", 4, CORE)]),
        ];
        assert_eq!(shape(&slots), [["e1@cpu", "e2@cpu", "e0@software"]]);
    }

    #[test]
    fn generic_and_raw_events_of_one_pmu_share_a_group() {
        let slots =
            [slot(0, Some(0), vec![event("cpu", 0, CORE)]), slot(1, Some(0), vec![event("cpu", 4, CORE)])];
        assert_eq!(shape(&slots), [["e0@cpu", "e1@cpu"]]);
    }

    #[test]
    fn a_group_of_a_hybrid_is_one_unit_on_each_core_pmu() {
        let both = || vec![event("cpu_core", 4, CORE), event("cpu_atom", 10, CORE)];
        let soft = vec![event("software", 1, SOFT)];
        let slots = [slot(0, Some(0), both()), slot(1, Some(0), both()), slot(2, Some(0), soft)];
        let expected =
            [vec!["e0@cpu_core", "e1@cpu_core"], vec!["e0@cpu_atom", "e1@cpu_atom"], vec!["e2@software"]];
        assert_eq!(shape(&slots), expected);
    }

    #[test]
    fn the_summands_of_a_sum_are_in_the_group_of_their_pmu() {
        let sum = || vec![event("cpu", 4, CORE), event("cpu", 4, CORE)];
        assert_eq!(shape(&[slot(0, None, sum())]), [["e0@cpu"], ["e0@cpu"]]);
        let slots = [slot(0, Some(0), sum()), slot(1, Some(0), vec![event("cpu", 4, CORE)])];
        assert_eq!(shape(&slots), [["e0@cpu", "e0@cpu", "e1@cpu"]]);
        let hybrid = ["cpu_core", "cpu_core", "cpu_atom"].map(|pmu| event(pmu, 4, CORE)).to_vec();
        let slots = [
            slot(0, Some(0), hybrid),
            slot(1, Some(0), vec![event("cpu_core", 4, CORE), event("cpu_atom", 4, CORE)]),
        ];
        let expected =
            [vec!["e0@cpu_core", "e0@cpu_core", "e1@cpu_core"], vec!["e0@cpu_atom", "e1@cpu_atom"]];
        assert_eq!(shape(&slots), expected);
    }

    #[test]
    fn each_summand_is_in_one_unit_in_any_order_of_the_parts() {
        let parts = |pmus: &[&str]| pmus.iter().map(|pmu| event(pmu, 4, CORE)).collect();
        let slots = [
            slot(0, Some(0), parts(&["cpu_core", "cpu_atom", "cpu_core"])),
            slot(1, Some(0), parts(&["cpu_atom", "cpu_core", "cpu_atom", "cpu_core"])),
        ];
        let expected = [
            ["e0@cpu_core", "e0@cpu_core", "e1@cpu_core", "e1@cpu_core"].as_slice(),
            &["e0@cpu_atom", "e1@cpu_atom", "e1@cpu_atom"],
        ];
        assert_eq!(shape(&slots), expected);
    }

    #[test]
    fn a_group_on_two_pmus_is_refused_by_name() {
        let device = PerfClass::TaskDevice;
        let slots =
            [slot(0, Some(0), vec![event("cpu", 4, CORE)]), slot(1, Some(0), vec![event("msr", 9, device)])];
        let refusal = units(&slots).unwrap_err();
        assert_eq!((refusal.slot, refusal.kind), (Some(slots[1].id), RefusalKind::GroupMixed));
        assert_eq!(
            refusal.reason.to_string(),
            "e0 is on cpu and e1 is on msr: events of a group must be on one PMU"
        );
    }
}
