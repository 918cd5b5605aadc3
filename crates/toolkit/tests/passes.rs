//! More events than counters on recorded machines: how many passes, and why.
#![allow(clippy::unwrap_used, reason = "a test may")]

use cyclometer_toolkit::core::event::{ExtraRegisterKind, Part, PerfEvent};
use cyclometer_toolkit::core::{Plan, SlotId};
use cyclometer_toolkit::{CommandSpec, ErrorKind, Machine, Multiplex, Stat, replay_machine};

fn machine(name: &str) -> Machine {
    let path = format!("{}/../../fixtures/machines/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let recording = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    replay_machine(&recording).unwrap_or_else(|error| panic!("{error}"))
}

fn stat(on: &str, events: &str) -> Stat {
    let stat = Stat::new(machine(on)).command(CommandSpec::new("true")).seed(1);
    stat.events(events).unwrap_or_else(|error| panic!("{on} {events}: {error}"))
}

fn plan(on: &str, events: &str, runs: u32) -> Plan {
    stat(on, events).runs(runs).plan().unwrap_or_else(|error| panic!("{on} {events}: {error}"))
}

fn perf(on: &str, event: &str) -> PerfEvent {
    match plan(on, event, 1).lines.remove(0).event.candidates.remove(0).parts.remove(0) {
        Part::Perf(event) => event,
        other => panic!("{other:?}"),
    }
}

/// Raw codes that any general counter counts.
fn raw(n: usize) -> String {
    (1..=n).map(|i| format!("r{i:02x}0000c0")).collect::<Vec<_>>().join(",")
}

#[test]
fn raw_codes_need_a_general_counter_unless_a_fixed_one_counts_them() {
    for (on, event, general, fixed) in [
        ("skylake", "r010000c0", 8, 0),
        ("skylake", "r00c0", 8, 1),
        ("skylake", "r003c", 8, 2),
        ("skylake", "r0300", 0, 4),
        ("skylake", "cpu/event=0xc4/", 8, 0),
        ("zen4", "r00c0", 6, 0),
    ] {
        let constraint = perf(on, event).constraint.unwrap();
        assert!(constraint.general_bits().count_ones() <= general, "{event}: {constraint}");
        assert_eq!(constraint.general_bits() != 0, general > 0, "{event}: {constraint}");
        assert_eq!(constraint.fixed_bits(), fixed, "{event}: {constraint}");
    }
}

#[test]
fn nine_codes_beside_cycles_and_instructions_take_as_many_passes_as_nine_by_the_counters() {
    let mut machine = machine("skylake");
    let general = machine.core_types[0].pmu.counters.general_bits().count_ones() as usize;
    let needed = 9usize.div_ceil(general);
    let events = format!("instructions,cycles,{}", raw(9));
    machine.access.nmi_watchdog = Some(false);
    let stat = Stat::new(machine).command(CommandSpec::new("true")).seed(1).events(&events).unwrap();
    let one = stat.plan().unwrap();
    assert_eq!((one.passes.len(), one.is_rotated(), one.sharing.sets.len()), (1, true, needed));
    assert!(one.sharing.is_optimal());
    let always =
        one.passes[0].slots.iter().filter(|slot| slot.rotation_group.is_none()).map(|slot| slot.id.0);
    assert_eq!(always.collect::<Vec<_>>(), [0, 1]);
    let runs = u32::try_from(needed).unwrap();
    let many = stat.clone().runs(runs).plan().unwrap();
    assert_eq!((many.passes.len(), many.is_rotated()), (needed, false));
    let without = stat.multiplex(Multiplex::Never).plan().unwrap_err();
    assert_eq!(without.kind(), ErrorKind::HardwareLimit);
    assert_eq!(
        without.to_string(),
        format!(
            "9 events of cpu can only use counters 0-{}: {needed} passes are needed, and -r gives 1 run",
            general - 1
        )
    );
}

#[test]
fn registers_that_counters_share_hold_one_value_in_a_pass() {
    let frontend = perf("skylake", "FRONTEND_RETIRED.DSB_MISS").extras;
    assert_eq!(
        frontend.iter().map(|extra| extra.register).collect::<Vec<_>>(),
        [ExtraRegisterKind::Frontend]
    );
    let events = "FRONTEND_RETIRED.DSB_MISS,FRONTEND_RETIRED.L1I_MISS,FRONTEND_RETIRED.L2_MISS";
    let plan = plan("skylake", events, 3);
    assert_eq!(plan.passes.len(), 3);
    assert_eq!(
        plan.sharing.because.as_deref(),
        Some("events of cpu need 3 values in MSR_PEBS_FRONTEND, which holds one at a time")
    );
}

#[test]
fn offcore_events_have_two_registers_whoever_names_them() {
    let both = [ExtraRegisterKind::OffcoreResponse0, ExtraRegisterKind::OffcoreResponse1];
    let raw = perf("skylake", "cpu/event=0xb7,umask=1,offcore_rsp=0x10001/").extras;
    assert_eq!(
        raw.iter().map(|extra| (extra.register, extra.value)).collect::<Vec<_>>(),
        both.map(|r| (r, 0x10001))
    );
    let three = |n: usize| -> Vec<String> {
        (1..=n).map(|i| format!("cpu/event=0xb7,umask=1,offcore_rsp={i:#x}0001/")).collect()
    };
    assert_eq!(plan("skylake", &three(2).join(","), 2).passes.len(), 1);
    assert_eq!(plan("skylake", &three(3).join(","), 2).passes.len(), 2);
}

#[test]
fn amds_large_increments_take_two_counters() {
    assert!(perf("zen4", "r0f03").wide && perf("zen4", "cpu/event=0x03,umask=0xf/").wide);
    assert!(!perf("zen4", "cache-misses").wide && !perf("zen4", "dTLB-loads").wide);
    assert!(!perf("skylake", "r0f03").wide);
    let of = |n: usize| (1..=n).map(|i| format!("r{i:02x}03")).collect::<Vec<_>>().join(",");
    let pairs = machine("zen4").core_types[0].pmu.counters.len() as usize / 2;
    let watchdog = usize::from(machine("zen4").access.nmi_watchdog == Some(true));
    assert_eq!(plan("zen4", &of(pairs - watchdog), 2).sharing.sets.len(), 1);
    assert_eq!(plan("zen4", &of(pairs + 1), 2).sharing.sets.len(), 2);
}

#[test]
fn a_group_and_its_metric_partners_stay_together() {
    let plan = plan("skylake", &format!("branches,{},branch-misses", raw(7)), 4);
    let holds = |set: &Vec<SlotId>| set.contains(&SlotId(0)) && set.contains(&SlotId(8));
    assert!(plan.sharing.sets.iter().any(holds), "{:?}", plan.sharing.sets);
}

#[test]
fn the_events_of_a_metric_are_in_one_pass() {
    let general = machine("skylake").core_types[0].pmu.counters.general_bits().count_ones() as usize;
    let stat = stat("skylake", &raw(general + 2)).metrics("branch_mpki").unwrap().runs(4);
    let wanted = stat.metric_requests()[0].slots();
    let plan = stat.plan().unwrap();
    let holds = |set: &Vec<SlotId>| wanted.iter().all(|slot| set.contains(&SlotId(*slot)));
    assert!(wanted.len() > 1 && plan.sharing.sets.iter().any(holds), "{:?}", plan.sharing.sets);
}

#[test]
fn each_core_type_of_a_hybrid_has_its_own_counters() {
    let plan = plan("alder-lake", &raw(12), 4);
    assert!(plan.passes.len() > 1 && plan.sharing.is_optimal(), "{:?}", plan.sharing);
    assert!(plan.passes.iter().flat_map(|pass| &pass.slots).all(|slot| slot.parts.len() == 2));
}

#[test]
fn an_event_that_is_named_twice_is_a_line_twice() {
    let plan = plan("skylake", "instructions,instructions", 1);
    assert_eq!((plan.lines.len(), plan.passes.len()), (2, 1));
}

#[test]
fn hundreds_of_events_are_planned_for_one_run_and_for_many() {
    let codes = (1..=400).map(|i| format!("r{:02x}{:02x}c4", i / 250 + 1, i % 250)).collect::<Vec<_>>();
    let events = format!("instructions,cycles,{}", codes.join(","));
    for (runs, passes) in [(1, 1), (200, 101)] {
        let plan = plan("skylake", &events, runs);
        assert_eq!(
            (plan.passes.len(), plan.sharing.is_optimal()),
            (passes, true),
            "{:?}",
            plan.sharing.because
        );
    }
}
