//! Events on their counters, pass by pass, as JSON.

use cyclometer_toolkit::placement::{Certificate, CounterAssignment, Placement, Unplaceable};
use serde_json::{Value, json};

use super::placement::{PlacementOnCpu, conflicts, impossible, name};
use super::proof;

/// The plan of a CPU; of one with several core types an object that holds a plan for each.
pub fn object(cpu: Option<&str>, placed: &[PlacementOnCpu<'_>]) -> Value {
    match placed {
        [on] => plan(on),
        several => json!({ "cpu": cpu, "core_types": several.iter().map(plan).collect::<Vec<_>>() }),
    }
}

fn plan(on: &PlacementOnCpu<'_>) -> Value {
    let placement = &on.placement;
    let packing = &placement.packing;
    let passes: Vec<Vec<Value>> = packing
        .passes
        .iter()
        .map(|pass| pass.iter().map(|assignment| event(placement, assignment)).collect())
        .collect();
    let held = on.held();
    json!({
        "cpu": on.cpu.id(),
        "passes": passes,
        "optimal": packing.is_optimal(),
        "lower_bound": packing.lower_bound,
        "certificate": certificate(placement),
        "conflicts": if packing.passes.len() > 1 { conflicts(placement) } else { Vec::new() },
        "held": held.iter().map(name).collect::<Vec<_>>(),
        "unplaced": unplaced(on),
    })
}

fn event(placement: &Placement<'_>, assignment: &CounterAssignment) -> Value {
    let event = &placement.events[assignment.demand];
    let extra = event.codes[assignment.way].code.extra;
    json!({
        "event": event.selected.name,
        "requested": event.texts,
        "counter": name(assignment.counter),
        "second_counter": assignment.counters(event.wide).iter().nth(1).map(name),
        "register": extra.map(|extra| json!({ "name": extra.register.name(), "value": format!("{:#x}", extra.value) })),
        "repeats": assignment.repeats,
    })
}

/// The proof of the bound, for a program to check. It names events that can use only these counters, or that
/// each need their own value in these registers.
fn certificate(placement: &Placement<'_>) -> Value {
    let names = |events: &[usize]| -> Vec<&str> {
        events.iter().map(|event| placement.events[*event].selected.name.as_str()).collect()
    };
    let (mut counters, mut registers, mut events, mut sets, mut alone) = Default::default();
    let mut at_most = None;
    let mut of = &placement.packing.certificate;
    if let Certificate::Alone { events, others } = of {
        (alone, of) = (names(events), others);
    }
    let kind = match of {
        Certificate::Nothing | Certificate::One | Certificate::Alone { .. } => "none",
        Certificate::Counters { counters: all, events: within, .. } => {
            (counters, events) = (all.iter().map(name).collect::<Vec<_>>(), names(within));
            "counters"
        }
        Certificate::Registers { registers: all, events: within, .. } => {
            (registers, events) =
                (all.iter().map(|register| register.name()).collect::<Vec<_>>(), names(within));
            "registers"
        }
        Certificate::Apart { sets: apart } => {
            sets = apart.iter().map(|set| names(set)).collect::<Vec<_>>();
            at_most = Some(1);
            "apart"
        }
        Certificate::Crowded { counters: all, sets: crowded, at_most: most, .. } => {
            counters = all.iter().map(name).collect::<Vec<_>>();
            sets = crowded.iter().map(|set| names(set)).collect::<Vec<_>>();
            at_most = Some(*most);
            "crowded"
        }
        Certificate::Searched { .. } => "searched",
    };
    json!({
        "kind": kind,
        "counters": counters,
        "registers": registers,
        "events": events,
        "groups": sets,
        "at_most": at_most,
        "alone": alone,
        "because": proof::certificate(placement).unwrap_or_default(),
    })
}

fn unplaced(on: &PlacementOnCpu<'_>) -> Vec<Value> {
    let placement = &on.placement;
    let refused = placement.packing.refused.iter().map(|refused| match refused {
        Unplaceable::Event(event) => {
            json!({ "event": placement.events[*event].selected.name, "reason": impossible(on, *event) })
        }
        Unplaceable::Set { set, conflict } => {
            let group =
                placement.groups[*set].iter().map(|event| placement.events[*event].selected.name.as_str());
            json!({
                "group": group.collect::<Vec<_>>(),
                "reason": proof::conflict(placement, conflict, &placement.groups[*set]),
            })
        }
    });
    let lacking = on.lacking.iter().map(|(event, why)| json!({ "event": event, "reason": why }));
    refused.chain(lacking).collect()
}
