//! Events that the kernel does not count at the same time, though they should fit, get sets of their own.

use cyclometer_core::event::{CorePart, Part};
use cyclometer_core::plan::Sharing;
use cyclometer_core::report::FallbackStep;
use cyclometer_core::{Plan, Result, SlotId};

use crate::pass::arrange;
use crate::words::listed;

/// Takes events out of a set of [`Sharing::sets`](cyclometer_core::plan::Sharing::sets) that the kernel did
/// not count beside the others of it. Those that are in no other set make a new one, or join the last that
/// was made so.
///
/// # Errors
///
/// `ErrorKind::HardwareLimit` where there are more sets than runs now, and events must not rotate.
pub fn split(mut plan: Plan, set: usize, stuck: &[SlotId]) -> Result<(Plan, FallbackStep)> {
    let Some(old) = plan.sharing.sets.get(set) else {
        return Ok((plan, FallbackStep { event: None, refused: String::new(), done: "nothing".to_owned() }));
    };
    let (stuck, others): (Vec<SlotId>, Vec<SlotId>) = old.iter().partition(|slot| stuck.contains(slot));
    let was_known = old.iter().all(|slot| is_known(&plan, *slot));
    let text = text(&plan, &stuck, &others, was_known);
    let sharing = &mut plan.sharing;
    sharing.sets[set] = others;
    let is_homeless = |slot: &SlotId| !sharing.sets.iter().any(|set| set.contains(slot));
    let homeless: Vec<SlotId> = stuck.into_iter().filter(is_homeless).collect();
    let last = sharing.sets.len() - 1;
    match homeless.as_slice() {
        [] => {}
        _ if sharing.found_by_trial > 0 && last != set => {
            sharing.sets[last].extend(homeless);
            sharing.sets[last].sort_unstable();
        }
        _ => {
            sharing.sets.push(homeless);
            sharing.found_by_trial += 1;
            sharing.because = Some(text.clone());
        }
    }
    drop_needless(sharing);
    if was_known {
        sharing.contradictions.push(text.clone());
    }
    let plan = arrange(plan, &[])?;
    let done = if plan.is_rotated() {
        "they share counters in rotation"
    } else {
        "counted them in different passes"
    };
    Ok((plan, FallbackStep { event: None, refused: text, done: done.to_owned() }))
}

/// Leaves sets out all of whose events are in others.
fn drop_needless(sharing: &mut Sharing) {
    let mut set = 0;
    while set < sharing.sets.len() {
        let others = || sharing.sets.iter().enumerate().filter(|(other, _)| *other != set);
        let is_elsewhere = |slot: &SlotId| others().any(|(_, other)| other.contains(slot));
        if sharing.sets[set].iter().all(is_elsewhere) {
            if set + sharing.found_by_trial >= sharing.sets.len() {
                sharing.found_by_trial -= 1;
            }
            sharing.sets.remove(set);
        } else {
            set += 1;
        }
    }
}

/// Adds events to a set that the kernel counts beside the others of it.
///
/// # Errors
///
/// None but those of [`split()`], which there were before.
pub fn join(mut plan: Plan, set: usize, more: &[SlotId]) -> Result<Plan> {
    if let Some(set) = plan.sharing.sets.get_mut(set) {
        set.extend(more);
        set.sort_unstable();
        set.dedup();
    }
    arrange(plan, &[])
}

/// Names beyond this many are told by their number.
const MOST_NAMED: usize = 8;

fn text(plan: &Plan, stuck: &[SlotId], others: &[SlotId], was_known: bool) -> String {
    let pmus: Vec<&str> = stuck.iter().flat_map(|slot| core_pmus(plan, *slot)).collect();
    let is_beside = |slot: &SlotId| core_pmus(plan, *slot).any(|pmu| pmus.contains(&pmu));
    let beside: Vec<SlotId> = others.iter().copied().filter(is_beside).collect();
    let (stuck, others) = (names(plan, stuck), names(plan, &beside));
    let though = if was_known { ", though by what is known of the counters they fit" } else { "" };
    format!("the kernel does not count {stuck} while it counts {others}{though}")
}

/// The core PMUs that count a slot.
fn core_pmus(plan: &Plan, slot: SlotId) -> impl Iterator<Item = &str> {
    let candidate = plan.lines.get(slot.0).and_then(|line| line.candidate());
    let parts = candidate.into_iter().flat_map(|candidate| &candidate.parts);
    parts.filter_map(Part::core).map(|part| part.pmu)
}

/// The names as they are printed, each once.
fn names(plan: &Plan, slots: &[SlotId]) -> String {
    let mut labels: Vec<String> = Vec::new();
    for line in slots.iter().filter_map(|slot| plan.lines.get(slot.0)) {
        let label = line.label();
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    let mut names: Vec<&str> = labels.iter().map(String::as_str).collect();
    let more = format!("{} more", names.len().saturating_sub(MOST_NAMED));
    if names.len() > MOST_NAMED + 1 {
        names.truncate(MOST_NAMED);
        names.push(&more);
    }
    listed(&names)
}

/// Whether the counters are known that may count an event.
fn is_known(plan: &Plan, slot: SlotId) -> bool {
    let parts = plan.lines.get(slot.0).and_then(|line| line.candidate()).map(|candidate| &candidate.parts);
    let is_known = |part: CorePart<'_>| part.ways.iter().all(|(counters, _)| counters.is_some());
    parts.is_some_and(|parts| parts.iter().filter_map(Part::core).all(is_known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{core_event, machine, unknown_event};
    use cyclometer_core::plan::Multiplex;
    use cyclometer_core::{Event, Intent, Modes};

    fn planned(events: Vec<Event>, runs: u32) -> Plan {
        crate::plan(events, &machine(), Intent { runs, ..Intent::default() }).unwrap()
    }

    fn events(names: &[&str], event: fn(&str) -> Event) -> Vec<Event> {
        names.iter().map(|name| event(name)).collect()
    }

    fn sets(plan: &Plan) -> Vec<Vec<usize>> {
        plan.sharing.sets.iter().map(|set| set.iter().map(|slot| slot.0).collect()).collect()
    }

    #[test]
    fn what_did_not_count_makes_a_set_and_a_pass_of_its_own() {
        let plan = planned(events(&["a", "b", "c"], core_event), 2);
        assert_eq!((sets(&plan), plan.passes.len()), (vec![vec![0, 1, 2]], 1));
        let (plan, step) = split(plan, 0, &[SlotId(1)]).unwrap();
        assert_eq!((sets(&plan), plan.passes.len()), (vec![vec![0, 2], vec![1]], 2));
        let text = "the kernel does not count b:u while it counts a:u and c:u, though by what is known of the \
                    counters they fit";
        assert_eq!((step.refused.as_str(), step.done.as_str()), (text, "counted them in different passes"));
        assert_eq!(plan.sharing.contradictions, [text]);
        assert!(!plan.sharing.is_optimal());
    }

    #[test]
    fn with_too_few_runs_they_rotate_or_are_refused() {
        let (plan, step) = split(planned(events(&["a", "b"], core_event), 1), 0, &[SlotId(0)]).unwrap();
        let rotation_groups: Vec<_> = plan.passes[0].slots.iter().map(|slot| slot.rotation_group).collect();
        assert_eq!(
            (rotation_groups, step.done.as_str()),
            (vec![Some(1), Some(0)], "they share counters in rotation")
        );
        let mut plan = planned(events(&["a", "b"], core_event), 1);
        plan.intent.multiplex = Multiplex::Never;
        let error = split(plan, 0, &[SlotId(0)]).unwrap_err().to_string();
        assert!(error.ends_with("they fit: 2 passes are needed, and -r gives 1 run"), "{error}");
    }

    #[test]
    fn many_names_are_not_all_told() {
        let names: Vec<String> = (0..40).map(|i| format!("e{i}")).collect();
        let events = names.iter().map(|name| unknown_event(name)).collect();
        let stuck: Vec<SlotId> = (1..40).map(SlotId).collect();
        let (_, step) = split(planned(events, 2), 0, &stuck).unwrap();
        let said = "the kernel does not count e1:u, e2:u, e3:u, e4:u, e5:u, e6:u, e7:u, e8:u and 31 more while it counts e0:u";
        assert_eq!(step.refused, said);
    }

    #[test]
    fn events_are_named_once_with_their_modes_and_only_those_of_the_same_pmu() {
        let with_modes = |modes| crate::testing::with_modes(unknown_event("r08"), modes);
        let mut events = vec![with_modes(Modes::USER), with_modes(Modes::KERNEL), unknown_event("x")];
        events.extend([with_modes(Modes::KERNEL), unknown_event("elsewhere")]);
        let Part::Perf(part) = &mut events[4].candidates[0].parts[0] else { panic!() };
        part.pmu = "cpu_atom".to_owned();
        let (_, step) = split(planned(events, 2), 0, &[SlotId(1), SlotId(3)]).unwrap();
        let said = "the kernel does not count r08:k while it counts r08:u and x:u";
        assert_eq!(step.refused, said);
    }

    #[test]
    fn an_event_that_joins_every_set_does_not_rotate() {
        let plan = planned(events(&["a", "b", "c"], unknown_event), 1);
        let (plan, _) = split(plan, 0, &[SlotId(2)]).unwrap();
        let plan = join(plan, 1, &[SlotId(0)]).unwrap();
        assert_eq!(sets(&plan), [vec![0, 1], vec![0, 2]]);
        let rotation_groups: Vec<_> = plan.passes[0].slots.iter().map(|slot| slot.rotation_group).collect();
        assert_eq!(rotation_groups, [None, Some(0), Some(1)]);
    }

    #[test]
    fn of_counters_that_are_not_known_nothing_is_contradicted() {
        let plan = planned(events(&["a", "b", "c"], unknown_event), 3);
        let (plan, step) = split(plan, 0, &[SlotId(1), SlotId(2)]).unwrap();
        assert_eq!(step.refused, "the kernel does not count b:u and c:u while it counts a:u");
        assert_eq!(plan.sharing.contradictions, [""; 0]);
        let (plan, _) = split(plan, 1, &[SlotId(2)]).unwrap();
        assert_eq!((sets(&plan), plan.sharing.found_by_trial), (vec![vec![0], vec![1], vec![2]], 2));
    }

    #[test]
    fn what_is_in_another_set_already_needs_none_of_its_own() {
        let mut names: Vec<Event> = events(&["a", "b", "c", "d", "e"], core_event);
        names.push(unknown_event("x"));
        let plan = planned(names, 2);
        assert!(plan.sharing.sets.iter().all(|set| set.contains(&SlotId(5))));
        let (plan, _) = split(plan, 0, &[SlotId(5)]).unwrap();
        assert_eq!(plan.sharing.sets.iter().filter(|set| set.contains(&SlotId(5))).count(), 1);
        assert_eq!((plan.sharing.sets.len(), plan.sharing.found_by_trial), (2, 0));
    }
}
