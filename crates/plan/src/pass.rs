//! Lines to passes: slots, counters, groups, turns.

use std::collections::{BTreeMap, BTreeSet};

use cyclometer_core::event::{PerfClass, RegisterAssignment, RegisterEvent};
use cyclometer_core::plan::{Multiplex, Outcome, PlanLine, TooLarge};
use cyclometer_core::{
    Candidate, Count, Counted, CounterId, Error, ErrorKind, Intent, LaunchKind, Machine, MissingReason, Part,
    Pass, Plan, Recovery, Result, Rung, Slot, SlotId,
};

use crate::sharing::{Cores, FoundSets, SlotAssignment, is_core};
use crate::words::{listed, number};

/// Puts every line that is counted into passes.
///
/// Events of the software PMU make a pass of translated runs, and everything else native ones, so that times
/// and hardware counts are those of the program as it is. Where every run is translated there is one pass,
/// without the events of core PMUs: they would count the translation.
///
/// Events of core PMUs that do not fit on the counters at once are put into as few sets as possible, each of
/// which fits. With enough native runs each set makes a pass, and everything else is in all of them.
/// Otherwise there is one native pass, in which the sets rotate.
///
/// # Errors
///
/// `ErrorKind::HardwareLimit` for a `{group}` that can never fit its PMU, and for events that do not fit at
/// once where they must not rotate and the runs are too few; `ErrorKind::ConstraintConflict` for a group that
/// would be divided between passes; `ErrorKind::InvalidInput` for a pinned counter where the source chooses
/// counters itself.
pub fn assemble(mut lines: Vec<PlanLine>, machine: &Machine, intent: Intent) -> Result<Plan> {
    refuse_pins(&lines)?;
    ungroup_software(&mut lines);
    let slots = slots(&lines);
    refuse_divided_groups(&slots, &intent, &lines)?;
    let runs = native_runs(&slots, &intent);
    let rotates = intent.multiplex == Multiplex::Always;
    let shared = match runs {
        0 => FoundSets::default(),
        _ => Cores::new(&slots, &lines, machine).share(&intent, runs as usize, rotates)?,
    };
    let mut plan = Plan { lines, passes: Vec::new(), sharing: shared.sharing, intent };
    for sum in plan.sharing.too_large.iter().filter(|sum| sum.treatment == TooLarge::NotCounted) {
        let reason = MissingReason::SumTooLarge { summands: sum.reason.clone() };
        plan.lines[sum.slot.0].outcome = Outcome::NotCounted(Count::NotCounted { reason });
    }
    arrange(plan, &shared.assignments)
}

/// Divides groups of which only software events of the kernel are counted. Nothing can keep those from
/// counting, alone or together, while an event in a group waits for the counters of the others.
///
/// # Source
///
/// Linux `kernel/events/core.c`, `group_can_go_on`.
fn ungroup_software(lines: &mut [PlanLine]) {
    let waits = |line: &PlanLine| line.candidate().is_some_and(|candidate| !is_software(candidate));
    let waiting: BTreeSet<u32> =
        lines.iter().filter(|line| waits(line)).filter_map(|line| line.event.group).collect();
    for line in lines {
        line.event.group = line.event.group.filter(|group| waiting.contains(group));
    }
}

fn is_software(candidate: &Candidate) -> bool {
    candidate.parts.iter().all(|part| match part {
        Part::Perf(event) => event.class == PerfClass::Software,
        _ => false,
    })
}

/// Makes the passes of a plan by its sets.
///
/// # Errors
///
/// `ErrorKind::HardwareLimit` where the sets are more than the runs and events must not take turns.
pub(crate) fn arrange(mut plan: Plan, assignments: &[Vec<SlotAssignment>]) -> Result<Plan> {
    let mut slots = slots(&plan.lines);
    for slot in &mut slots {
        slot.group = slot.group.filter(|group| !plan.sharing.ungrouped.contains(group));
    }
    let runs = native_runs(&slots, &plan.intent);
    refuse_sharing(&plan, runs)?;
    let sets = &plan.sharing.sets;
    let rotates =
        sets.len() > 1 && (plan.intent.multiplex == Multiplex::Always || sets.len() > runs as usize);
    let soft = plan.intent.subject.is_command() && slots.iter().any(is_soft);
    let mut passes = Vec::new();
    if soft {
        let suits = |slot: &&Slot| if runs == 0 { !is_core(slot) } else { is_soft(slot) };
        passes.push(Pass {
            launch: LaunchKind::Translated,
            slots: slots.iter().filter(suits).cloned().collect(),
        });
    }
    if runs > 0 && !slots.is_empty() {
        let native: Vec<Slot> = slots.into_iter().filter(|slot| !(soft && is_soft(slot))).collect();
        match rotates {
            true => passes.push(rotated(native, sets, assignments)),
            false => passes.extend(of_sets(&native, sets, assignments)),
        }
    }
    plan.passes = passes;
    Ok(plan)
}

/// The slots of all lines that are counted; those that a core PMU counts twice are twins.
fn slots(lines: &[PlanLine]) -> Vec<Slot> {
    let mut slots: Vec<Slot> = Vec::new();
    for mut slot in lines.iter().enumerate().filter_map(|(i, line)| slot(SlotId(i), line)) {
        slot.twin_of = slots.iter().find(|known| counts_the_same(known, &slot)).map(Slot::opened_as);
        slots.push(slot);
    }
    slots
}

/// Whether one counter is enough for both. Members of groups have counters of their own.
fn counts_the_same(known: &Slot, other: &Slot) -> bool {
    let alike = |slot: &Slot| Slot { id: SlotId(0), name: String::new(), twin_of: None, ..slot.clone() };
    let free = |slot: &Slot| is_core(slot) && slot.group.is_none() && !slot.pinned && !slot.exclusive;
    free(known) && free(other) && alike(known) == alike(other)
}

/// The runs that count events of core PMUs: regions of a program that is translated already have no other
/// ones.
fn native_runs(slots: &[Slot], intent: &Intent) -> u32 {
    match intent.subject.is_command() && slots.iter().any(is_soft) {
        true => intent.runs - intent.translated_runs(),
        false => intent.runs.max(1),
    }
}

/// A pass for each set; one where there is none.
fn of_sets(native: &[Slot], sets: &[Vec<SlotId>], assignments: &[Vec<SlotAssignment>]) -> Vec<Pass> {
    let pass = |set: Option<usize>| {
        let of_set = set.map_or(&[][..], |set| &sets[set]);
        let takes_part = |slot: &&Slot| !is_core(slot) || of_set.contains(&slot.opened_as());
        let assignments = set.and_then(|set| assignments.get(set));
        let slots =
            native.iter().filter(takes_part).map(|slot| with_assignments(slot, assignments)).collect();
        Pass { launch: LaunchKind::Native, slots }
    };
    match sets.len() {
        0 => vec![pass(None)],
        n => (0..n).map(|set| pass(Some(set))).collect(),
    }
}

/// Whether an event whose counter we choose ourselves has the same one in all sets: only so it can count on
/// when they change.
fn stays(slot: &Slot, assignments: &[Vec<SlotAssignment>]) -> bool {
    let ours = slot.parts.iter().any(|part| matches!(part, Part::Registers(_)));
    let own = |set: &Vec<SlotAssignment>| -> Vec<(usize, CounterId, usize)> {
        let of_slot = set.iter().filter(|assignment| assignment.slot == slot.opened_as());
        let mut own: Vec<_> =
            of_slot.map(|assignment| (assignment.part, assignment.counter, assignment.way)).collect();
        own.sort();
        own
    };
    !ours || assignments.windows(2).all(|two| own(&two[0]) == own(&two[1]))
}

/// The slot with its counters in one set.
fn with_assignments(slot: &Slot, assignments: Option<&Vec<SlotAssignment>>) -> Slot {
    let assignments: Vec<(Option<u32>, &SlotAssignment)> =
        assignments.into_iter().flatten().map(|assignment| (None, assignment)).collect();
    placed(slot, &assignments)
}

/// The slot with its counters in each turn in which it counts.
fn assigned_in_rotation(
    slot: &Slot,
    rotation_group: Option<u32>,
    assignments: &[Vec<SlotAssignment>],
) -> Slot {
    let of_rotation_group =
        (0u32..).zip(assignments).filter(|(of, _)| rotation_group.is_none_or(|own| own == *of));
    let assignments: Vec<(Option<u32>, &SlotAssignment)> = of_rotation_group
        .flat_map(|(of, assignments)| assignments.iter().map(move |assignment| (Some(of), assignment)))
        .collect();
    placed(slot, &assignments)
}

/// The slot with its counters; parts that we program ourselves get them, with the codes that count there.
fn placed(slot: &Slot, assignments: &[(Option<u32>, &SlotAssignment)]) -> Slot {
    let own = |(_, assignment): &&(Option<u32>, &SlotAssignment)| assignment.slot == slot.opened_as();
    let assignments: Vec<&(Option<u32>, &SlotAssignment)> = assignments.iter().filter(own).collect();
    let on = |part: usize, event: &RegisterEvent| {
        let of_pmu = assignments
            .iter()
            .filter(|(_, assignment)| assignment.part == part && assignment.pmu == event.pmu);
        let assignment = |(rotation_group, assignment): &&(Option<u32>, &SlotAssignment)| {
            let way = event.codes.get(assignment.way)?;
            Some(RegisterAssignment {
                rotation_group: *rotation_group,
                counter: assignment.counter,
                code: way.code,
            })
        };
        of_pmu.filter_map(assignment).collect()
    };
    let parts = slot.parts.iter().enumerate().map(|(i, part)| match part {
        Part::Registers(event) => {
            Part::Registers(RegisterEvent { assignments: on(i, event), ..event.clone() })
        }
        other => other.clone(),
    });
    let counter = assignments.first().map(|(_, assignment)| assignment.counter);
    Slot { counter, parts: parts.collect(), ..slot.clone() }
}

/// One pass in which the sets rotate. An event that is in all of them always counts, and so does one that no
/// core PMU counts: it leaves its group, if that rotates.
fn rotated(native: Vec<Slot>, sets: &[Vec<SlotId>], assignments: &[Vec<SlotAssignment>]) -> Pass {
    let rotation_group_of = |slot: &Slot| -> Option<usize> {
        let holds = |set: &Vec<SlotId>| set.contains(&slot.opened_as());
        let is_always = !is_core(slot) || sets.iter().all(holds) && stays(slot, assignments);
        if is_always { None } else { sets.iter().position(holds) }
    };
    let rotated: Vec<Option<u32>> =
        native.iter().filter(|slot| rotation_group_of(slot).is_some()).map(|slot| slot.group).collect();
    let slots = native.iter().map(|slot| {
        let rotation_group =
            rotation_group_of(slot).and_then(|rotation_group| u32::try_from(rotation_group).ok());
        let stays = is_core(slot) || !rotated.contains(&slot.group);
        Slot {
            rotation_group,
            group: slot.group.filter(|_| stays),
            ..assigned_in_rotation(slot, rotation_group, assignments)
        }
    });
    Pass { launch: LaunchKind::Native, slots: slots.collect() }
}

/// Refuses that events take turns, where they must not.
fn refuse_sharing(plan: &Plan, runs: u32) -> Result<()> {
    let needed = plan.sharing.sets.len();
    if plan.intent.multiplex != Multiplex::Never || needed <= runs as usize || runs == 0 {
        return Ok(());
    }
    let because = plan.sharing.because.as_ref().map(|because| format!("{because}: ")).unwrap_or_default();
    let given = match plan.intent.subject.is_command() {
        true => format!("-r gives {}", number(runs as usize, "run")),
        false => "what runs already is counted once".to_owned(),
    };
    let passes = number(needed, "pass");
    let message = format!("{because}{passes} are needed, and {given}");
    let translated = plan.intent.runs.saturating_sub(runs) as usize;
    let remedy = match plan.intent.subject.is_command() {
        true => format!("use -r {}, ask for fewer events, or leave --no-multiplex out", needed + translated),
        false => "ask for fewer events, or leave --no-multiplex out".to_owned(),
    };
    Err(Error::new(ErrorKind::HardwareLimit, message).with_recovery(Recovery::fix(remedy)))
}

/// The plan with its lines as they are now, before anything was counted by a plan of its own.
///
/// # Errors
///
/// Those of [`assemble`].
pub(crate) fn reassemble(mut plan: Plan, machine: &Machine) -> Result<Plan> {
    if !plan.intent.begun {
        return assemble(plan.lines, machine, plan.intent);
    }
    let slots = slots(&plan.lines);
    let renewed = |old: &Slot| {
        let new = slots.iter().find(|slot| slot.id == old.id)?.clone();
        let parts = if new.rung == old.rung { old.parts.clone() } else { new.parts.clone() };
        Some(Slot {
            rotation_group: old.rotation_group,
            counter: old.counter,
            group: new.group.and(old.group),
            parts,
            ..new
        })
    };
    for pass in &mut plan.passes {
        pass.slots = pass.slots.iter().filter_map(renewed).collect();
    }
    for set in &mut plan.sharing.sets {
        set.retain(|id| slots.iter().any(|slot| slot.id == *id));
    }
    Ok(plan)
}

/// Which slots each kind of run could count.
fn launches(slots: &[Slot], intent: &Intent) -> Vec<Vec<SlotId>> {
    let ids = |suits: &dyn Fn(&Slot) -> bool| slots.iter().filter(|s| suits(s)).map(|s| s.id).collect();
    match (slots.iter().any(is_soft), native_runs(slots, intent)) {
        (false, _) => vec![ids(&|_| true)],
        (true, 0) => vec![ids(&|slot| !is_core(slot))],
        (true, _) => vec![ids(&is_soft), ids(&|slot| !is_soft(slot))],
    }
}

fn is_soft(slot: &Slot) -> bool {
    slot.rung == Rung::Soft
}

/// Events of a group cover the same time, which those of two runs do not.
fn refuse_divided_groups(slots: &[Slot], intent: &Intent, lines: &[PlanLine]) -> Result<()> {
    let kinds = launches(slots, intent);
    let mut groups: BTreeMap<u32, Vec<&Slot>> = BTreeMap::new();
    for slot in slots {
        if let Some(group) = slot.group {
            groups.entry(group).or_default().push(slot);
        }
    }
    for members in groups.values() {
        let holds = |kind: &Vec<SlotId>| members.iter().all(|member| kind.contains(&member.id));
        let weak = members.iter().any(|member| lines[member.id.0].event.modifiers.weak);
        if !weak && !kinds.iter().any(holds) {
            return Err(divided(members, slots, intent));
        }
    }
    Ok(())
}

/// `all`: the slots of the plan, one of which is translated.
fn divided(members: &[&Slot], all: &[Slot], intent: &Intent) -> Error {
    let names: Vec<&str> = members.iter().map(|slot| slot.name.as_str()).collect();
    let translated: Vec<&str> =
        all.iter().filter(|slot| is_soft(slot)).map(|slot| slot.name.as_str()).collect();
    let message = format!(
        "the group {{{}}} cannot be counted in one run: {} needs a translated run, of which a hardware counter would \
         count the translation",
        names.join(","),
        listed(&translated),
    );
    let error = Error::new(ErrorKind::ConstraintConflict, message);
    match members.iter().any(|slot| is_soft(slot)) {
        true => error.with_recovery(Recovery::SplitIntoPasses),
        false => error.with_recovery(Recovery::fix(native_too(&listed(&translated), intent))),
    }
}

/// How to have a run that is not translated.
fn native_too(translated: &str, intent: &Intent) -> String {
    match intent.counted {
        Counted::All => format!("leave {translated} out"),
        Counted::Runs(runs) | Counted::AtMost(runs) => {
            format!("use -r {}, or leave {translated} out", runs.saturating_add(1))
        }
        Counted::Auto => format!("use -r 2, or leave {translated} out"),
    }
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

/// A pin is for who chooses counters here; the kernel chooses itself.
fn refuse_pins(lines: &[PlanLine]) -> Result<()> {
    let is_ours = |line: &PlanLine| {
        let mut parts = line.candidate()?.parts.iter();
        Some(parts.any(|part| matches!(part, Part::Registers(_))))
    };
    let mut pinned = lines.iter().filter(|line| is_ours(line) == Some(false));
    match pinned.find_map(|line| Some((&line.event.name, line.event.pin?))) {
        None => Ok(()),
        Some((name, pin)) => Err(Error::new(
            ErrorKind::InvalidInput,
            format!("{name}@{pin}: the operating system chooses counters itself and takes no pin"),
        )
        .with_recovery(Recovery::fix(format!("write {name} without @{pin}")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        core_event, fixed_event, in_group, machine, machine_with_soft, soft_event, software_event, sum_event,
        unknown_event, with_modes,
    };
    use crate::{Replan, place, replan, route};
    use cyclometer_core::CounterMask;
    use cyclometer_core::event::{ExtraRegister, ExtraRegisterKind, Part, RegisterCode, Unit};
    use cyclometer_core::exec::RefusalKind;
    use cyclometer_core::ladder::{RungState, Works};
    use cyclometer_core::plan::IntentSubject;
    use cyclometer_core::{Candidate, Event, EventCode, Modes, Provenance, Refusal};
    use proptest::prelude::*;

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
    fn a_group_that_a_translated_event_beside_it_takes_away_names_that_event_and_the_remedy() {
        let group = ["instructions", "cycles"].map(|name| in_group(core_event(name), 0));
        let events = || group.iter().cloned().chain([soft_event("calls")]).collect();
        let error = passes_of(events(), 1).unwrap_err();
        assert!(error.to_string().contains("in one run: calls needs a translated run"), "{error}");
        assert_eq!(error.recovery().to_string(), "use -r 2, or leave calls out");
        assert!(passes_of(events(), 2).is_ok());
        assert_eq!(
            native_too("calls", &Intent { counted: Counted::Runs(3), ..with_runs(3) }),
            "use -r 4, or leave calls out"
        );
        assert_eq!(native_too("calls", &Intent { counted: Counted::All, ..with_runs(3) }), "leave calls out");
    }

    #[test]
    fn events_that_fit_each_have_a_counter() {
        let events = vec![fixed_event("cycles", 1), core_event("branches"), core_event("branch-misses")];
        let plan = assembled(events, &machine()).unwrap();
        assert_eq!((plan.sharing.sets.len(), plan.passes.len(), plan.is_rotated()), (1, 1, false));
        let mut counters: Vec<_> = plan.passes[0].slots.iter().map(|s| s.counter.unwrap()).collect();
        assert_eq!(counters[0], CounterId::Fixed(1));
        counters.sort();
        assert_eq!(counters, [CounterId::General(0), CounterId::General(1), CounterId::Fixed(1)]);
    }

    /// So many events for any of four counters.
    fn many(n: usize) -> Vec<Event> {
        (0..n).map(|i| core_event(&format!("e{i}"))).collect()
    }

    fn planned(events: Vec<Event>, intent: Intent) -> Result<Plan> {
        crate::plan(events, &machine(), intent)
    }

    fn with_runs(runs: u32) -> Intent {
        Intent { runs, ..Intent::default() }
    }

    /// The events of each pass by name, sorted.
    fn names(plan: &Plan) -> Vec<Vec<&str>> {
        let of =
            |pass: &Pass| pass.slots.iter().map(|slot| plan.lines[slot.id.0].event.name.as_str()).collect();
        plan.passes.iter().map(of).collect()
    }

    fn rotation_groups(plan: &Plan) -> Vec<Option<u32>> {
        plan.passes[0].slots.iter().map(|slot| slot.rotation_group).collect()
    }

    #[test]
    fn with_a_run_for_each_pass_none_takes_turns_and_every_event_is_in_one_at_least() {
        let mut events = many(9);
        events.extend([fixed_event("cycles", 1), software_event("page-faults")]);
        let plan = planned(events, with_runs(3)).unwrap();
        assert_eq!((plan.passes.len(), plan.is_rotated(), plan.sharing.lower_bound), (3, false, 3));
        assert_eq!(plan.sharing.because.as_deref(), Some("9 events of cpu can only use counters 0-3"));
        for pass in names(&plan) {
            assert!(pass.contains(&"cycles") && pass.contains(&"page-faults"), "{pass:?}");
            assert_eq!(pass.len(), 6, "no counter stays free: {pass:?}");
        }
        for line in &plan.lines {
            assert!(names(&plan).iter().flatten().any(|name| *name == line.event.name));
        }
        for pass in &plan.passes {
            let mut counters: Vec<_> = pass.slots.iter().filter_map(|slot| slot.counter).collect();
            counters.sort();
            counters.dedup();
            assert_eq!(counters.len(), 5, "{pass:?}");
        }
    }

    #[test]
    fn with_too_few_runs_there_is_one_pass_with_turns() {
        let mut events = many(9);
        events.extend([fixed_event("cycles", 1), software_event("page-faults")]);
        for (runs, multiplex) in [(1, Multiplex::Auto), (2, Multiplex::Auto), (9, Multiplex::Always)] {
            let plan = planned(events.clone(), Intent { multiplex, ..with_runs(runs) }).unwrap();
            assert_eq!((plan.passes.len(), plan.exact_runs()), (1, Some(3)));
            let rotation_groups = rotation_groups(&plan);
            assert_eq!(rotation_groups[9..], [None, None], "what has a counter of its own always counts");
            for rotation_group in 0..3 {
                let members = rotation_groups.iter().filter(|own| **own == Some(rotation_group)).count();
                assert!((1..=4).contains(&members), "{rotation_groups:?}");
            }
            assert_eq!(rotation_groups.iter().flatten().count(), 9);
        }
    }

    #[test]
    fn events_that_fit_never_take_turns() {
        let plan = planned(many(4), Intent { multiplex: Multiplex::Always, ..with_runs(1) }).unwrap();
        assert_eq!(rotation_groups(&plan), [None; 4]);
    }

    #[test]
    fn cycles_always_count_where_that_takes_no_turn_more() {
        let steady = |name: &str| {
            let mut event = core_event(name);
            event.candidates[0].never_zero = true;
            event
        };
        let with_both = |others: usize| {
            let mut events = many(others);
            events.extend([steady("cycles"), steady("instructions")]);
            planned(events, with_runs(1)).unwrap()
        };
        let plan = with_both(4);
        assert_eq!((rotation_groups(&plan)[4..].to_vec(), plan.sharing.sets.len()), (vec![None, None], 2));
        let plan = with_both(5);
        assert_eq!(
            rotation_groups(&plan)[4..].iter().flatten().count(),
            2,
            "only one of both: {:?}",
            rotation_groups(&plan)
        );
        assert_eq!(plan.sharing.sets.len(), 2);
        let plan = with_both(6);
        assert_eq!((rotation_groups(&plan).iter().flatten().count(), plan.sharing.sets.len()), (8, 2));
    }

    #[test]
    fn where_turns_are_forbidden_too_few_runs_are_refused_with_the_reason_and_the_remedy() {
        let never = |runs| Intent { multiplex: Multiplex::Never, ..with_runs(runs) };
        let error = planned(many(7), never(1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "7 events of cpu can only use counters 0-3: 2 passes are needed, and -r gives 1 run"
        );
        let help = "use -r 2, ask for fewer events, or leave --no-multiplex out";
        assert_eq!((error.recovery().to_string().as_str(), error.kind()), (help, ErrorKind::HardwareLimit));
        assert!(planned(many(7), never(2)).is_ok() && planned(many(4), never(1)).is_ok());
        let attached = Intent { subject: IntentSubject::Running, ..never(1) };
        assert!(planned(many(7), attached).unwrap_err().to_string().ends_with("is counted once"));
    }

    #[test]
    fn translated_runs_are_no_runs_for_hardware_passes() {
        let mut events = many(7);
        events.push(soft_event("calls"));
        let planned = |runs| crate::plan(events.clone(), &machine_with_soft(), with_runs(runs)).unwrap();
        assert!(planned(3).is_rotated(), "one native run");
        let plan = planned(4);
        assert_eq!((plan.passes.len(), plan.is_rotated(), plan.exact_runs()), (3, false, Some(4)));
        let mut kinds: Vec<LaunchKind> = (0..4).map(|run| plan.launch_of(run)).collect();
        kinds.dedup();
        assert_eq!(kinds, [LaunchKind::Translated, LaunchKind::Native]);
    }

    #[test]
    fn the_watchdog_takes_the_fixed_cycle_counter() {
        let mut machine = machine();
        let mut events = many(4);
        events.push(fixed_event("cycles", 1));
        assert_eq!(assembled(events.clone(), &machine).unwrap().sharing.sets.len(), 1);
        machine.access.nmi_watchdog = Some(true);
        assert_eq!(assembled(events, &machine).unwrap().sharing.sets.len(), 2);
    }

    #[test]
    fn an_event_whose_counters_nobody_knows_is_in_every_pass() {
        let mut events = many(5);
        events.push(unknown_event("x"));
        let plan = planned(events, with_runs(2)).unwrap();
        assert!(names(&plan).iter().all(|pass| pass.contains(&"x")), "{:?}", names(&plan));
        let only = planned(vec![unknown_event("x"), unknown_event("y")], with_runs(2)).unwrap();
        assert_eq!((only.sharing.sets.len(), only.sharing.lower_bound), (1, 1));
    }

    #[test]
    fn values_of_one_register_share_no_pass_and_equal_ones_do() {
        let with_value = |name: &str, value| {
            let mut event = core_event(name);
            let Some(Part::Perf(part)) = event.candidates[0].parts.first_mut() else { panic!() };
            part.extras = vec![ExtraRegister { register: ExtraRegisterKind::Frontend, value }];
            event
        };
        let events = vec![with_value("a", 1), with_value("b", 2), with_value("c", 1)];
        let plan = planned(events, with_runs(2)).unwrap();
        let mut passes = names(&plan);
        passes.sort();
        assert_eq!(passes, [vec!["a", "c"], vec!["b"]]);
        let because = "events of cpu need 2 values in MSR_PEBS_FRONTEND, which holds one at a time";
        assert_eq!(plan.sharing.because.as_deref(), Some(because));
    }

    #[test]
    fn an_event_of_two_counters_leaves_two_of_four() {
        let mut events = many(3);
        let Some(Part::Perf(part)) = events[0].candidates[0].parts.first_mut() else { panic!() };
        part.wide = true;
        // As vendors have it: the even ones, and the one behind is taken along.
        part.constraint = Some(CounterMask::from_bits(0b101, 0));
        assert_eq!(planned(events.clone(), with_runs(1)).unwrap().sharing.sets.len(), 1);
        events.push(core_event("one too many"));
        assert_eq!(planned(events, with_runs(1)).unwrap().sharing.sets.len(), 2);
    }

    #[test]
    fn an_event_that_wants_no_company_has_a_pass_of_its_own() {
        let mut events = many(2);
        events.push(core_event("e"));
        events[2].modifiers.exclusive = true;
        let plan = planned(events, with_runs(2)).unwrap();
        let mut passes = names(&plan);
        passes.sort();
        assert_eq!(passes, [vec!["e"], vec!["e0", "e1"]]);
        assert_eq!(plan.sharing.because.as_deref(), Some("e can only be counted alone"));
    }

    #[test]
    fn a_group_is_whole_in_one_pass_and_in_no_pass_in_part() {
        for runs in [1, 3] {
            let mut events = many(4);
            events.extend(["a", "b", "c"].map(|name| in_group(core_event(name), 7)));
            let plan = planned(events, with_runs(runs)).unwrap();
            let sets = &plan.sharing.sets;
            let inside = |set: &Vec<SlotId>| set.iter().filter(|slot| slot.0 >= 4).count();
            assert!(sets.iter().any(|set| inside(set) == 3), "{sets:?}");
            assert!(sets.iter().all(|set| [0, 3].contains(&inside(set))), "{sets:?}");
        }
    }

    #[test]
    fn what_no_core_pmu_counts_leaves_a_group_that_takes_turns() {
        let mut events = many(5);
        events.extend([in_group(core_event("a"), 0), in_group(software_event("page-faults"), 0)]);
        let plan = planned(events, with_runs(1)).unwrap();
        let slot = |i: usize| &plan.passes[0].slots[i];
        assert_eq!((slot(5).group, slot(6).group, slot(6).rotation_group), (Some(0), None, None));
        assert!(slot(5).rotation_group.is_some());
    }

    #[test]
    fn a_group_of_software_events_alone_is_none_as_nothing_keeps_them_from_counting() {
        let software = |name| in_group(software_event(name), 0);
        let groups = |events: Vec<Event>| {
            let plan = planned(events, with_runs(1)).unwrap();
            let of_slots: Vec<_> = plan.passes[0].slots.iter().map(|slot| slot.group).collect();
            let of_lines: Vec<_> = plan.lines.iter().map(|line| line.event.group).collect();
            assert_eq!(of_slots, of_lines);
            of_lines
        };
        assert_eq!(groups(vec![software("page-faults"), software("context-switches")]), [None, None]);
        let with_core = vec![software("page-faults"), in_group(core_event("cycles"), 0)];
        assert_eq!(groups(with_core), [Some(0), Some(0)], "it waits for the counter of the other");
        let other = vec![software("page-faults"), in_group(core_event("cycles"), 1)];
        assert_eq!(groups(other), [None, Some(1)]);
    }

    #[test]
    fn a_group_that_can_never_fit_is_an_error_that_names_it() {
        let events: Vec<_> = (0..5).map(|i| in_group(core_event(&format!("e{i}")), 0)).collect();
        let error = assembled(events.clone(), &machine()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the group {e0,e1,e2,e3,e4} does not fit on the PMU: e0, e1, e2, e3 and e4 can each only use counters 0-3 \
             of cpu"
        );
        let weak: Vec<Event> = events
            .into_iter()
            .map(|mut event| {
                event.modifiers.weak = true;
                event
            })
            .collect();
        let plan = planned(weak, with_runs(2)).unwrap();
        assert_eq!(plan.passes.len(), 2);
        assert!(plan.passes.iter().flat_map(|pass| &pass.slots).all(|slot| slot.group.is_none()));
    }

    #[test]
    fn sets_that_belong_together_are_whole_in_a_pass_or_told_to_be_divided() {
        let intent = |set: &[usize]| Intent { together: vec![set.to_vec()], ..with_runs(2) };
        let plan = planned(many(6), intent(&[0, 2, 5])).unwrap();
        let holds = |set: &Vec<SlotId>| [0, 2, 5].iter().all(|i| set.contains(&SlotId(*i)));
        assert!(plan.sharing.sets.iter().any(holds), "{:?}", plan.sharing.sets);
        assert_eq!(plan.sharing.divided, []);
        let plan = planned(many(6), intent(&[0, 1, 2, 3, 5])).unwrap();
        let reason = "e0, e1, e2, e3 and e5 can each only use counters 0-3 of cpu".to_owned();
        assert_eq!(plan.sharing.divided, [(0, reason)]);
        assert_eq!(plan.passes.len(), 2, "the events are counted all the same");
    }

    #[test]
    fn once_there_are_results_passes_stay_what_they_are() {
        let mut plan = planned(many(6), with_runs(2)).unwrap();
        plan.intent.begun = true;
        let before = names(&plan).into_iter().map(|pass| pass.iter().map(|n| (*n).to_owned()).collect());
        let before: Vec<Vec<String>> = before.collect();
        let lost = plan.passes[1].slots[0].id;
        plan.lines[lost.0].outcome = Outcome::NotCounted(Count::NotCounted { reason: "no".into() });
        let after = reassemble(plan, &machine()).unwrap();
        for (pass, before) in names(&after).iter().zip(&before) {
            let expected: Vec<&String> =
                before.iter().filter(|name| **name != format!("e{}", lost.0)).collect();
            assert_eq!(pass.iter().collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn an_event_that_is_named_twice_takes_one_counter() {
        let mut events = many(4);
        events.extend([core_event("e1"), core_event("e1"), with_modes(core_event("e1"), Modes::KERNEL)]);
        let plan = planned(events.clone(), with_runs(2)).unwrap();
        let twins = |slot: &Slot| (slot.id.0, slot.twin_of.map(|twin| twin.0));
        for pass in &plan.passes {
            let held: Vec<_> = pass.slots.iter().map(twins).collect();
            assert!(pass.slots.iter().filter(|slot| slot.twin_of.is_none()).count() <= 4, "{held:?}");
            assert_eq!(held.contains(&(1, None)), held.contains(&(4, Some(1))), "{held:?}");
            assert_eq!(held.contains(&(1, None)), held.contains(&(5, Some(1))), "{held:?}");
        }
        assert_eq!(plan.passes.len(), 2, "kernel mode is another event");
        let rotation_groups = rotation_groups(&planned(events, with_runs(1)).unwrap());
        assert_eq!((rotation_groups[4], rotation_groups[5]), (rotation_groups[1], rotation_groups[1]));
    }

    #[test]
    fn a_sum_takes_a_counter_for_each_summand_and_is_whole_in_one_pass() {
        let sum = |name| sum_event(name, &["x", "y", "z"]);
        let mut events = many(1);
        events.push(sum("s"));
        let plan = planned(events.clone(), with_runs(1)).unwrap();
        assert_eq!((plan.sharing.sets.len(), plan.is_rotated()), (1, false), "four counters for four");
        events.extend(many(2).split_off(1));
        for runs in [1, 2] {
            let plan = planned(events.clone(), with_runs(runs)).unwrap();
            assert_eq!((plan.sharing.sets.len(), plan.is_rotated()), (2, runs == 1), "five are too many");
            let holding: Vec<&Slot> =
                plan.passes.iter().flat_map(|pass| &pass.slots).filter(|slot| slot.id == SlotId(1)).collect();
            assert!(holding.iter().all(|slot| slot.parts.len() == 3), "{holding:?}");
            assert!(plan.sharing.because.is_some(), "{:?}", plan.sharing);
        }
        let twins = planned(vec![sum("s"), sum("t")], with_runs(1)).unwrap();
        assert_eq!(
            twins.passes[0].slots[1].twin_of,
            Some(SlotId(0)),
            "a sum that is named twice counts once"
        );
        let grouped = vec![in_group(sum("s"), 0), in_group(core_event("e"), 0)];
        assert_eq!(planned(grouped, with_runs(1)).unwrap().sharing.sets, [[SlotId(0), SlotId(1)]]);
    }

    #[test]
    fn a_sum_of_more_events_than_counters_is_alone_and_says_why() {
        let summands = ["v", "w", "x", "y", "z"];
        let alone = planned(vec![sum_event("s", &summands)], with_runs(1)).unwrap();
        assert_eq!((alone.passes[0].slots.len(), alone.is_rotated()), (1, false));
        let note = "it is the sum of v, w, x, y and z, which do not fit on the counters at once: v, w, x, y and z can \
                    each only use counters 0-3 of cpu";
        assert_eq!(alone.sharing.note(SlotId(0)), Some(note));
        let mut events = many(2);
        events.push(sum_event("s", &summands));
        let plan = planned(events.clone(), with_runs(2)).unwrap();
        let mut passes = names(&plan);
        passes.sort();
        assert_eq!((passes, plan.sharing.lower_bound), (vec![vec!["e0", "e1"], vec!["s"]], 2));
        let strict = Intent { multiplex: Multiplex::Never, ..with_runs(2) };
        let plan = planned(events, strict).unwrap();
        assert_eq!((plan.passes.len(), plan.lines[2].candidate()), (1, None));
        let Outcome::NotCounted(count) = &plan.lines[2].outcome else { panic!() };
        assert!(count.reason().unwrap().ends_with("count them one by one"), "{count:?}");
        let grouped = vec![in_group(sum_event("s", &summands), 0)];
        let error = planned(grouped, with_runs(1)).unwrap_err().to_string();
        assert!(error.starts_with("the group {s} does not fit on the PMU: v, w, x, y and z can"), "{error}");
    }

    #[test]
    fn a_sum_that_is_not_counted_raises_no_bound() {
        let mut alone = core_event("e");
        alone.modifiers.exclusive = true;
        let others = vec![alone, unknown_event("x")];
        let sum = sum_event("s", &["a", "b", "c", "d", "f"]);
        let bound = |events: &[Event], multiplex| {
            let sharing = planned(events.to_vec(), Intent { multiplex, ..with_runs(3) }).unwrap().sharing;
            (sharing.sets.len(), sharing.lower_bound, sharing.is_optimal())
        };
        let with_sum = [others.clone(), vec![sum.clone()]].concat();
        assert_eq!(bound(&others, Multiplex::Never), (2, 1, false), "x could count anywhere");
        assert_eq!(bound(&with_sum, Multiplex::Never), (2, 1, false));
        assert_eq!(bound(&with_sum, Multiplex::Auto), (3, 2, false), "the kernel counts the sum alone");
        assert_eq!(bound(&[sum], Multiplex::Never), (0, 0, true));
    }

    #[test]
    fn the_note_of_a_sum_is_there_once_and_for_as_long_as_it_is_true() {
        let mut sum = sum_event("s", &["a", "b", "c", "d", "f"]);
        sum.candidates.push(software_event("s").candidates.remove(1));
        let plan = planned(vec![sum, core_event("e")], with_runs(2)).unwrap();
        let noted = |plan: &Plan| [0, 1].map(|slot| plan.sharing.note(SlotId(slot)).is_some());
        assert_eq!(noted(&plan), [true, false]);
        let plan = reassemble(plan, &machine()).unwrap();
        assert_eq!((noted(&plan), plan.sharing.too_large.len()), ([true, false], 1));
        let refusal = |slot| Refusal { slot: Some(slot), kind: RefusalKind::Other, reason: "no".into() };
        let Replan::Try(plan, _) = replan(plan, &refusal(SlotId(0)), &machine()).unwrap() else { panic!() };
        assert_eq!(plan.lines[0].candidate().unwrap().rung, Rung::Os);
        assert_eq!((noted(&plan), plan.lines[0].event.notes.len()), ([false, false], 0));
    }

    #[test]
    fn summands_get_counters_of_their_own_in_registers_or_the_sum_is_not_counted() {
        let mut machine = machine();
        machine.ladder.rungs.push(RungState { rung: Rung::Sim, works: Works::Yes, causes: Vec::new() });
        let sum = |summands: u16| {
            let code = |select| EventCode { select, ..EventCode::default() };
            let part = |select| RegisterEvent {
                pmu: "cpu".to_owned(),
                cpus: [0].into_iter().collect(),
                codes: vec![RegisterCode { code: code(select), counters: CounterMask::first(4, 0) }],
                wide: false,
                assignments: Vec::new(),
            };
            let parts = (0..summands).map(part).collect();
            let way = Candidate::registers(Rung::Sim, parts, Provenance::Simulated, Modes::USER);
            let names = (0..summands).map(|n| format!("E{n}")).collect();
            Event::new("s", Unit::Count, vec![way.with_summands(names)])
        };
        let plan = crate::plan(vec![sum(3)], &machine, with_runs(1)).unwrap();
        let mut assignments: Vec<(CounterId, u16)> = Vec::new();
        for part in &plan.passes[0].slots[0].parts {
            let Part::Registers(event) = part else { panic!() };
            assignments.extend(
                event.assignments.iter().map(|assignment| (assignment.counter, assignment.code.select)),
            );
        }
        let counters: std::collections::BTreeSet<CounterId> =
            assignments.iter().map(|assignment| assignment.0).collect();
        let codes: Vec<u16> = assignments.iter().map(|assignment| assignment.1).collect();
        assert_eq!((counters.len(), codes), (3, vec![0, 1, 2]), "{assignments:?}");
        let plan = crate::plan(vec![sum(5)], &machine, with_runs(1)).unwrap();
        let Outcome::NotCounted(count) = &plan.lines[0].outcome else { panic!("{:?}", plan.lines[0]) };
        let reason = count.reason().unwrap();
        assert!(reason.starts_with("it is the sum of E0, E1, E2, E3 and E4, which do not fit"), "{reason}");
        assert!(plan.passes.iter().all(|pass| pass.slots.is_empty()), "{:?}", plan.passes);
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

    proptest! {
        #[test]
        fn every_event_is_in_a_set_and_every_set_fits(
            masks in prop::collection::vec(1u64..16, 1..14),
            runs in 1u32..6,
            groups in prop::collection::vec(0u32..9, 14),
        ) {
            let event = |(i, mask): (usize, &u64)| {
                let mut event = core_event(&format!("e{i}"));
                let Some(Part::Perf(part)) = event.candidates[0].parts.first_mut() else { panic!() };
                part.constraint = Some(CounterMask::from_bits(*mask, 0));
                event.group = Some(groups[i]).filter(|group| *group < 3);
                event.modifiers.weak = true;
                event
            };
            let events: Vec<Event> = masks.iter().enumerate().map(event).collect();
            let plan = planned(events, with_runs(runs)).unwrap();
            let sets = &plan.sharing.sets;
            prop_assert!((0..masks.len()).all(|i| sets.iter().any(|set| set.contains(&SlotId(i)))));
            for set in sets {
                let of_set: Vec<CounterMask> =
                    set.iter().map(|slot| CounterMask::from_bits(masks[slot.0], 0)).collect();
                prop_assert!(place(&of_set, CounterMask::first(4, 0)).iter().all(Option::is_some));
            }
            prop_assert!(plan.sharing.lower_bound <= sets.len());
            prop_assert_eq!(plan.is_rotated(), sets.len() > runs as usize);
            let pass_of = |set: &Vec<SlotId>| plan.passes.iter().any(|pass| {
                set.iter().all(|slot| pass.slots.iter().any(|held| held.id == *slot))
            });
            prop_assert!(sets.iter().all(pass_of));
        }
    }
}
