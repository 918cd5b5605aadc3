//! Lines to passes: slots, counters, groups.

use std::collections::BTreeMap;

use cyclometer_core::event::{Part, PerfClass, PerfEvent};
use cyclometer_core::machine::Vendor;
use cyclometer_core::plan::{Outcome, PlanLine};
use cyclometer_core::{
    CounterId, CounterMask, Error, ErrorKind, Intent, LaunchKind, Machine, Pass, Plan, Recovery, Result,
    Rung, Slot, SlotId,
};

use crate::matching::place;

/// Puts every line that is counted into a pass and finds it a counter where the inventory is known.
///
/// What the software PMU counts makes a pass of translated runs, and everything else one of native runs, so that
/// times and hardware counts are those of the program as it is. Where every run is translated there is one pass,
/// without the events of core PMUs: they would count the translation.
///
/// # Errors
///
/// `ErrorKind::HardwareLimit` for a `{group}` that can never fit its PMU, `ErrorKind::ConstraintConflict` for one
/// that would be divided between passes, `ErrorKind::InvalidInput` for a pinned counter where the source chooses
/// counters itself.
pub fn assemble(lines: Vec<PlanLine>, machine: &Machine, intent: Intent) -> Result<Plan> {
    let mut slots: Vec<Slot> =
        lines.iter().enumerate().filter_map(|(i, line)| slot(SlotId(i), line)).collect();
    refuse_pins(&lines)?;
    let mut shares_counters = false;
    for (pmu, available) in inventories(machine) {
        refuse_large_groups(&slots, &lines, &pmu, available)?;
        shares_counters |= !place_on(&mut slots, &pmu, available);
    }
    let counted = slots.clone();
    let passes = passes(slots, &intent);
    refuse_divided_groups(&counted, &passes, &lines)?;
    Ok(Plan { lines, passes, shares_counters, intent })
}

fn passes(slots: Vec<Slot>, intent: &Intent) -> Vec<Pass> {
    let pass = |launch, slots| Pass { launch, slots };
    if slots.is_empty() {
        return Vec::new();
    }
    if !slots.iter().any(is_soft) {
        return vec![pass(LaunchKind::Native, slots)];
    }
    if intent.translated_runs() == intent.runs {
        let slots = slots.into_iter().filter(|slot| !is_core(slot)).collect();
        return vec![pass(LaunchKind::Translated, slots)];
    }
    let (soft, others) = slots.into_iter().partition(is_soft);
    vec![pass(LaunchKind::Translated, soft), pass(LaunchKind::Native, others)]
}

fn is_soft(slot: &Slot) -> bool {
    slot.rung == Rung::Soft
}

/// Whether a PMU of the cores counts it.
fn is_core(slot: &Slot) -> bool {
    slot.parts.iter().any(|part| matches!(part, Part::Perf(event) if event.class == PerfClass::Core))
}

/// Events of a group cover the same time, which those of two runs do not.
fn refuse_divided_groups(slots: &[Slot], passes: &[Pass], lines: &[PlanLine]) -> Result<()> {
    let mut groups: BTreeMap<u32, Vec<&Slot>> = BTreeMap::new();
    for slot in slots {
        if let Some(group) = slot.group {
            groups.entry(group).or_default().push(slot);
        }
    }
    for members in groups.values() {
        let holds = |pass: &Pass| members.iter().all(|member| pass.slots.iter().any(|s| s.id == member.id));
        let weak = members.iter().any(|member| lines[member.id.0].event.modifiers.weak);
        if !weak && !passes.iter().any(holds) {
            return Err(divided(members));
        }
    }
    Ok(())
}

fn divided(members: &[&Slot]) -> Error {
    let names: Vec<&str> = members.iter().map(|slot| slot.name.as_str()).collect();
    let by: Vec<String> = members.iter().map(|slot| format!("{} by {}", slot.name, slot.rung)).collect();
    let message = format!(
        "the group {{{}}} cannot be counted in one run: {} (a hardware counter would count the translation)",
        names.join(","),
        by.join(", "),
    );
    Error::new(ErrorKind::ConstraintConflict, message).with_recovery(Recovery::SplitIntoPasses)
}

fn slot(id: SlotId, line: &PlanLine) -> Option<Slot> {
    let Outcome::Counted { candidate, filter, exclude_guest } = line.outcome else { return None };
    let candidate = &line.event.candidates[candidate];
    let modifiers = line.event.modifiers;
    Some(Slot {
        group: line.event.group,
        filter,
        exclude_guest,
        guest_only: modifiers.guest_only,
        host_only: modifiers.host_only,
        exclude_idle: modifiers.exclude_idle,
        pinned: modifiers.pinned,
        exclusive: modifiers.exclusive,
        ..Slot::new(id, &line.event.name, candidate.rung, candidate.parts.clone())
    })
}

fn refuse_pins(lines: &[PlanLine]) -> Result<()> {
    let pinned = lines.iter().find_map(|line| line.event.pin.map(|pin| (&line.event.name, pin)));
    match pinned {
        None => Ok(()),
        Some((name, pin)) => Err(Error::new(
            ErrorKind::InvalidInput,
            format!("{name}@{pin}: the operating system chooses counters itself and takes no pin"),
        )
        .with_recovery(Recovery::fix(format!("write {name} without @{pin}")))),
    }
}

/// The core PMUs whose counters are known, each with the counters that are free now.
fn inventories(machine: &Machine) -> Vec<(String, CounterMask)> {
    machine
        .core_types
        .iter()
        .filter(|core| !core.pmu.counters.is_empty())
        .filter_map(|core| Some((core.kernel_pmu.clone()?, core.pmu.counters)))
        .map(|(pmu, all)| (pmu, all.without(taken_by_watchdog(machine, all))))
        .collect()
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

fn on_pmu<'s>(slot: &'s Slot, pmu: &str) -> Option<&'s PerfEvent> {
    slot.parts.iter().find_map(|part| match part {
        Part::Perf(event)
            if slot.rung == Rung::Perf && event.class == PerfClass::Core && event.pmu == pmu =>
        {
            Some(event)
        }
        _ => None,
    })
}

/// Places the slots of one PMU; whether all of them found a counter.
fn place_on(slots: &mut [Slot], pmu: &str, available: CounterMask) -> bool {
    let known: Vec<(usize, CounterMask)> = slots
        .iter()
        .enumerate()
        .filter_map(|(i, slot)| on_pmu(slot, pmu).map(|event| (i, event.constraint)))
        .filter(|(_, mask)| !mask.is_empty())
        .collect();
    let masks: Vec<CounterMask> = known.iter().map(|(_, mask)| *mask).collect();
    let placed = place(&masks, available);
    for ((i, _), counter) in known.iter().zip(&placed) {
        slots[*i].counter = slots[*i].counter.or(*counter);
    }
    placed.iter().all(Option::is_some)
}

fn refuse_large_groups(slots: &[Slot], lines: &[PlanLine], pmu: &str, available: CounterMask) -> Result<()> {
    let mut groups: BTreeMap<u32, Vec<(SlotId, CounterMask)>> = BTreeMap::new();
    for slot in slots {
        if let (Some(group), Some(event)) = (slot.group, on_pmu(slot, pmu)) {
            groups.entry(group).or_default().push((slot.id, event.constraint));
        }
    }
    for members in groups.values() {
        let masks: Vec<CounterMask> =
            members.iter().map(|(_, mask)| *mask).filter(|mask| !mask.is_empty()).collect();
        let placed: Vec<CounterId> = place(&masks, available).into_iter().flatten().collect();
        let weak = members.iter().any(|(id, _)| lines[id.0].event.modifiers.weak);
        if placed.len() < masks.len() && !weak {
            return Err(group_too_large(members, lines, placed.len()));
        }
    }
    Ok(())
}

fn group_too_large(members: &[(SlotId, CounterMask)], lines: &[PlanLine], fit: usize) -> Error {
    let names: Vec<&str> = members.iter().map(|(id, _)| lines[id.0].event.name.as_str()).collect();
    too_large(&names, Some(fit))
}

/// The error for a group that cannot count as one; `fit` is how many of its events can.
pub(crate) fn too_large(names: &[&str], fit: Option<usize>) -> Error {
    let fit =
        fit.map_or(String::new(), |fit| format!(": {fit} of its {} events can count at once", names.len()));
    Error::new(
        ErrorKind::HardwareLimit,
        format!("the group {{{}}} does not fit on the PMU{fit}", names.join(",")),
    )
    .with_recovery(Recovery::SplitIntoPasses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route;
    use crate::testing::{
        core_event, fixed_event, in_group, machine, machine_with_soft, soft_event, software_event,
    };
    use cyclometer_core::Event;

    fn assembled(events: Vec<Event>, machine: &Machine) -> Result<Plan> {
        let intent = Intent::default();
        assemble(route(events, machine, &intent), machine, intent)
    }

    fn passes_of(events: Vec<Event>, runs: u32) -> Result<Vec<(LaunchKind, Vec<usize>)>> {
        let intent = Intent { runs, ..Intent::default() };
        let plan = crate::plan(events, &machine_with_soft(), intent)?;
        let ids = |pass: &Pass| pass.slots.iter().map(|slot| slot.id.0).collect();
        Ok(plan.passes.iter().map(|pass| (pass.launch, ids(pass))).collect())
    }

    #[test]
    fn translated_and_native_runs_are_never_mixed() {
        let events = || vec![core_event("cycles"), soft_event("calls"), software_event("page-faults")];
        assert_eq!(
            passes_of(events(), 2).unwrap(),
            [(LaunchKind::Translated, vec![1]), (LaunchKind::Native, vec![0, 2])]
        );
        assert_eq!(passes_of(events(), 1).unwrap(), [(LaunchKind::Translated, vec![1, 2])]);
        assert_eq!(passes_of(vec![core_event("cycles")], 2).unwrap(), [(LaunchKind::Native, vec![0])]);
        assert_eq!(
            passes_of(vec![soft_event("calls")], 3).unwrap(),
            [(LaunchKind::Translated, vec![0]), (LaunchKind::Native, vec![])]
        );
    }

    #[test]
    fn a_group_that_needs_two_runs_is_refused_by_name() {
        let group = |other: Event| vec![in_group(other, 0), in_group(soft_event("calls"), 0)];
        let error = passes_of(group(core_event("cycles")), 1).unwrap_err();
        assert!(error.to_string().starts_with("the group {cycles,calls} cannot be counted in one run: "));
        assert_eq!(error.kind(), ErrorKind::ConstraintConflict);
        assert!(passes_of(group(software_event("page-faults")), 2).is_err());
        assert!(passes_of(group(software_event("page-faults")), 1).is_ok());
        assert!(passes_of(group(soft_event("returns")), 3).is_ok());
    }

    #[test]
    fn events_that_fit_each_have_a_counter() {
        let events = vec![fixed_event("cycles", 1), core_event("branches"), core_event("branch-misses")];
        let plan = assembled(events, &machine()).unwrap();
        assert!(!plan.shares_counters);
        let mut counters: Vec<_> = plan.passes[0].slots.iter().map(|s| s.counter.unwrap()).collect();
        assert_eq!(counters[0], CounterId::Fixed(1));
        counters.sort();
        assert_eq!(counters, [CounterId::General(0), CounterId::General(1), CounterId::Fixed(1)]);
    }

    #[test]
    fn too_many_events_share_counters() {
        let events = (0..5).map(|i| core_event(&format!("e{i}"))).collect();
        assert!(assembled(events, &machine()).unwrap().shares_counters);
    }

    #[test]
    fn the_watchdog_takes_the_fixed_cycle_counter() {
        let mut machine = machine();
        machine.access.nmi_watchdog = Some(true);
        let mut events: Vec<_> = (0..4).map(|i| core_event(&format!("e{i}"))).collect();
        events.push(fixed_event("cycles", 1));
        assert!(assembled(events, &machine).unwrap().shares_counters);
    }

    #[test]
    fn a_group_that_can_never_fit_is_an_error_that_names_it() {
        let events: Vec<_> = (0..5).map(|i| in_group(core_event(&format!("e{i}")), 0)).collect();
        let error = assembled(events.clone(), &machine()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the group {e0,e1,e2,e3,e4} does not fit on the PMU: 4 of its 5 events can count at once"
        );
        let weak = events.into_iter().map(|mut event| {
            event.modifiers.weak = true;
            event
        });
        assert!(assembled(weak.collect(), &machine()).unwrap().shares_counters);
    }

    #[test]
    fn a_pin_is_refused_where_the_kernel_chooses() {
        let mut event = core_event("cycles");
        event.pin = Some(3);
        let error = assembled(vec![event], &machine()).unwrap_err();
        assert!(error.to_string().starts_with("cycles@3: "));
    }

    #[test]
    fn nothing_to_count_makes_no_pass() {
        assert_eq!(assemble(Vec::new(), &machine(), Intent::default()).unwrap().passes, []);
    }
}
