//! Metrics on recorded machines: the events that they add to the plan, and their values from known counts.
#![allow(clippy::unwrap_used, reason = "a test may")]

use cyclometer_toolkit::core::event::{Part, PerfEvent};
use cyclometer_toolkit::core::exec::{Cell, ExitStatus, Reading};
use cyclometer_toolkit::core::report::{LaunchKind, Run};
use cyclometer_toolkit::core::{CounterMask, Plan, Report, SlotId};
use cyclometer_toolkit::stats::{DerivedSummary, summarise_with};
use cyclometer_toolkit::{
    CommandSpec, ErrorKind, Machine, Rung, Scope, Stat, Verdict, list_metrics_of, replay_machine,
};

fn machine(name: &str) -> Machine {
    let path = format!("{}/../../fixtures/machines/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let recording = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    replay_machine(&recording).unwrap_or_else(|error| panic!("{error}"))
}

fn stat(on: &str, events: &str, metrics: &str) -> Stat {
    let stat = Stat::new(machine(on)).command(CommandSpec::new("true"));
    let stat = if events.is_empty() { stat } else { stat.events(events).unwrap() };
    stat.metrics(metrics).unwrap_or_else(|error| panic!("{error}: {}", error.recovery()))
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.lines.iter().map(|line| line.event.name.as_str()).collect()
}

fn perf<'p>(plan: &'p Plan, name: &str) -> &'p PerfEvent {
    let line = plan.lines.iter().find(|line| line.event.name == name).unwrap_or_else(|| panic!("no {name}"));
    match &line.event.candidates[0].parts[0] {
        Part::Perf(event) => event,
        other => panic!("{other:?}"),
    }
}

/// The metrics of a measurement in which every planned event counts the value of `count`, all the time.
fn counted(stat: &Stat, count: impl Fn(&str) -> u64) -> Vec<DerivedSummary> {
    counted_over(stat, Scope::Tree, count)
}

fn counted_over(stat: &Stat, scope: Scope, count: impl Fn(&str) -> u64) -> Vec<DerivedSummary> {
    let plan = stat.plan().unwrap();
    let slots = plan.passes.iter().flat_map(|pass| &pass.slots);
    let cell = |id: SlotId| Cell::new(id, count(&plan.lines[id.0].event.name), 1_000_000, 1_000_000);
    let cells = slots.map(|slot| cell(slot.id)).collect();
    let run = Run {
        index: 0,
        launch: LaunchKind::Native,
        layout: None,
        cpu_baseline: None,
        pass: 0,
        exit: Some(ExitStatus::Code(0)),
        dropped_because: None,
        wall_ns: 1_000_000,
        reading: Reading { cells },
        slices: Vec::new(),
    };
    let report = Report {
        command: Some(CommandSpec::new("true")),
        target: None,
        plan,
        runs: vec![run],
        steps: Vec::new(),
        interrupted: None,
        failure: None,
    };
    let summary = summarise_with(&report, scope, &stat.metric_requests());
    summary.derived.into_iter().filter(|metric| metric.asked).collect()
}

fn values(metrics: &[DerivedSummary]) -> Vec<(&str, Option<f64>)> {
    metrics.iter().map(|metric| (metric.name.as_str(), metric.statistics.mean)).collect()
}

#[test]
fn the_events_of_metrics_are_added_once_each() {
    let plan = stat("skylake", "cycles,instructions", "ipc,branch_mpki,cpi").plan().unwrap();
    assert_eq!(names(&plan), ["cycles", "instructions", "branch_misses"]);
    let plan = stat("skylake", "", "ipc").plan().unwrap();
    assert_eq!(names(&plan), ["instructions", "cpu_cycles"]);
    let plan = stat("skylake", "instructions:k", "ipc").plan().unwrap();
    assert_eq!(names(&plan), ["instructions", "instructions", "cpu_cycles"], "of other modes");
}

#[test]
fn an_event_that_the_user_spelled_otherwise_is_the_same_event() {
    let plan = stat("skylake", "cpu-cycles:k,cpu-cycles", "cpi").plan().unwrap();
    assert_eq!(names(&plan), ["cpu-cycles", "cpu-cycles", "instructions"]);
}

#[test]
fn known_counts_give_known_metrics() {
    let count = |name: &str| match name {
        "instructions" => 3_000,
        "cpu_cycles" => 1_500,
        "branch_misses" => 6,
        "branch_instructions" => 600,
        _ => 0,
    };
    let metrics = counted(&stat("skylake", "", "ipc,cpi,branch_mpki,branch_miss_rate"), count);
    let expected = [
        ("ipc:u", Some(2.0)),
        ("cpi:u", Some(0.5)),
        ("branch_mpki:u", Some(2.0)),
        ("branch_miss_rate:u", Some(0.01)),
    ];
    assert_eq!(values(&metrics), expected);
    assert!(metrics.iter().all(|metric| metric.verdict == Verdict::Exact));
    assert_eq!(metrics[2].unit.symbol(), "MPKI");
}

#[test]
fn hit_rates_stand_beside_miss_rates_also_over_events_that_are_sums() {
    // On Zen 4 the L3 is outside of the core. Its misses and those of Arm are of reads and writes.
    for (on, last_level) in [("skylake", Some(0.25)), ("neoverse-n1", Some(0.25)), ("zen4", None)] {
        let count = |name: &str| match name {
            "l1d_cache_misses" => 50,
            "l1d_cache_miss_base" => 1_000,
            "l2_cache_misses" => 10,
            "l2_cache_miss_base" => 40,
            "llc_misses" => 3,
            "llc_miss_base" => 4,
            _ => 0,
        };
        let metrics = counted(&stat(on, "", "l1d_hit_rate,l1d_miss_rate,l2_hit_rate,llc_hit_rate"), count);
        let expected = [Some(0.95), Some(0.05), Some(0.75), last_level];
        let found: Vec<Option<f64>> = metrics.iter().map(|metric| metric.statistics.mean).collect();
        assert_eq!(found, expected, "{on}: {metrics:?}");
    }
}

#[test]
fn a_rate_is_of_accesses_of_the_same_kind_as_its_misses() {
    // Loads on Skylake; loads and stores, whose code is another, on Neoverse N1.
    let base = |on| perf(&stat(on, "", "l1d_hit_rate").plan().unwrap(), "l1d_cache_miss_base").words.config;
    assert_eq!((base("skylake"), base("neoverse-n1")), (0x81d0, 0x04));
    for metric in counted(&stat("neoverse-n1", "", "l1d_hit_rate,l1d_miss_rate,branch_miss_rate"), |name| {
        if name.ends_with("misses") { 30 } else { 20 }
    }) {
        assert_eq!((metric.statistics.mean, metric.verdict), (None, Verdict::NotCounted), "{}", metric.name);
        assert!(metric.reason.clone().unwrap().contains("outside of 0 to 1"), "{metric:?}");
    }
}

#[test]
fn a_hit_rate_without_accesses_is_not_countable() {
    let metrics = counted(&stat("skylake", "", "l1d_hit_rate,llc_hit_rate"), |_| 0);
    assert!(
        metrics.iter().all(|metric| metric.statistics.mean.is_none() && metric.reason.is_some()),
        "{metrics:?}"
    );
    let missing = counted(&stat("zen4", "", "llc_hit_rate"), |_| 1);
    let reason = missing[0].reason.clone().unwrap();
    assert!(reason.starts_with("llc_misses is missing"), "{reason}");
}

#[test]
fn energy_divides_only_with_counts_of_the_whole_system() {
    let stat = stat("sapphire-rapids", "", "instructions_per_joule,ghz");
    // One joule is 2^32 steps of the counter.
    let count = |name: &str| match name {
        "power/energy-pkg/" => 1 << 32,
        "instructions" => 5_000_000,
        "cpu_cycles" => 3_000_000,
        "task-clock" => 1_000_000,
        other => panic!("{other}"),
    };
    let over = |scope| counted_over(&stat, scope, count).into_iter().map(|metric| metric.statistics.mean);
    assert_eq!(over(Scope::System).collect::<Vec<_>>(), [Some(5e6), Some(3.0)]);
    assert_eq!(over(Scope::Tree).collect::<Vec<_>>(), [None, Some(3.0)]);
    let reason = counted(&stat, count).swap_remove(0).reason.unwrap();
    assert!(reason.contains("cover different modes or scopes"), "{reason}");
}

#[test]
fn a_group_of_metrics_is_asked_for_by_its_name() {
    let metrics = counted(&stat("skylake", "", "Rates"), |_| 0);
    assert!(metrics.len() >= 5, "{metrics:?}");
    for metric in metrics {
        assert_eq!((metric.statistics.mean, metric.verdict.has_value()), (None, false), "{}", metric.name);
        let reason = metric.reason.unwrap();
        assert!(reason.contains("was 0") || reason.contains("missing"), "{}: {reason}", metric.name);
    }
}

#[test]
fn top_down_events_of_the_kernel_count_in_one_group_behind_the_slots() {
    let plan = stat("sapphire-rapids", "", "TopdownL1,tma_memory_bound").plan().unwrap();
    let group = plan.lines[0].event.group;
    assert!(group.is_some());
    let members: Vec<&str> = plan
        .lines
        .iter()
        .filter(|line| line.event.group == group)
        .map(|line| line.event.name.as_str())
        .collect();
    assert_eq!(
        members,
        [
            "cpu/slots/",
            "cpu/topdown-retiring/",
            "cpu/topdown-bad-spec/",
            "cpu/topdown-fe-bound/",
            "cpu/topdown-be-bound/",
            "cpu/topdown-mem-bound/",
        ]
    );
    assert_eq!(perf(&plan, "cpu/slots/").words.config, 0x0400);
    assert_eq!(perf(&plan, "cpu/slots/").constraint, Some(CounterMask::from_bits(0, 0b1000)));
    assert_eq!(perf(&plan, "cpu/topdown-mem-bound/").words.config, 0x8700);
    assert_eq!(perf(&plan, "cpu/topdown-mem-bound/").constraint, None, "the kernel takes it from slots");
}

#[test]
fn a_machine_whose_slots_counter_is_not_known_leaves_it_to_the_kernel() {
    let mut small = machine("sapphire-rapids");
    small.core_types[0].pmu.counters = CounterMask::first(4, 3);
    let stat = Stat::new(small).command(CommandSpec::new("true")).metrics("TopdownL1").unwrap();
    let plan = stat.plan().unwrap();
    assert_eq!(perf(&plan, "cpu/slots/").constraint, None);
}

#[test]
fn top_down_shares_of_known_slots_are_computed() {
    let count = |name: &str| match name {
        "cpu/slots/" => 1_000,
        "cpu/topdown-retiring/" => 500,
        "cpu/topdown-bad-spec/" => 100,
        "cpu/topdown-fe-bound/" => 150,
        "cpu/topdown-be-bound/" => 250,
        "cpu/topdown-mem-bound/" => 200,
        _ => 0,
    };
    let metrics =
        counted(&stat("sapphire-rapids", "", "tma_retiring,tma_backend_bound,tma_core_bound"), count);
    let rounded: Vec<_> =
        values(&metrics).into_iter().map(|(name, value)| (name, value.map(f64::round))).collect();
    let expected = [
        ("tma_retiring:u", Some(50.0)),
        ("tma_backend_bound:u", Some(25.0)),
        ("tma_core_bound:u", Some(5.0)),
    ];
    assert_eq!(rounded, expected);
    assert_eq!(metrics[0].unit.symbol(), "%");
}

#[test]
fn a_kernel_without_the_events_makes_the_metric_not_countable() {
    let mut old = machine("sapphire-rapids");
    old.pmus.iter_mut().for_each(|pmu| pmu.events.clear());
    let stat = Stat::new(old).command(CommandSpec::new("true")).metrics("tma_retiring").unwrap();
    assert!(stat.plan().unwrap().lines.iter().all(|line| line.candidate().is_none()));
    let metrics = counted(&stat, |_| 1);
    assert_eq!((metrics[0].verdict, metrics[0].statistics.mean), (Verdict::NotCounted, None));
    assert!(metrics[0].reason.as_ref().unwrap().contains("cpu/topdown-"), "{:?}", metrics[0].reason);
}

#[test]
fn a_hybrid_has_each_core_types_own_metric_and_a_portable_one_once() {
    let stat = stat("alder-lake", "", "tma_retiring,ipc");
    let requests = stat.metric_requests();
    let named: Vec<&str> = requests.iter().map(|request| request.name.as_str()).collect();
    assert_eq!(named, ["cpu_core/tma_retiring/", "cpu_atom/tma_retiring/", "ipc"]);
    let plan = stat.plan().unwrap();
    let atoms = names(&plan);
    assert!(atoms.contains(&"cpu_core/topdown-retiring/"), "{atoms:?}");
    assert!(atoms.contains(&"cpu_atom/TOPDOWN_RETIRING.ALL/"), "{atoms:?}");
}

#[test]
fn what_a_formula_asks_of_the_machine_is_known_or_missing() {
    let environment = |on: &str, metric: &str| stat(on, "", metric).metric_requests()[0].environment.clone();
    assert_eq!(environment("skylake", "ipc").literal("smt_on"), Some(1.0));
    assert_eq!(environment("skylake", "ipc").literal("num_cpus"), Some(8.0));
    assert_eq!(environment("zen4", "ipc").literal("smt_on"), None);
    assert_eq!(environment("neoverse-n1", "ipc").literal("slots"), None, "the driver says 0");
    assert_eq!(environment("neoverse-n1", "ipc").is_cpu("0x413fd0c1"), Some(true));
}

#[test]
fn a_metric_that_the_cpu_lacks_is_an_error_with_a_remedy() {
    let error = Stat::new(machine("zen4")).metrics("ipc,tma_retiring").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownEvent);
    assert_eq!(error.to_string(), "amdzen4 has no metric 'tma_retiring'");
    assert!(error.recovery().to_string().contains("retiring"), "{}", error.recovery());
    let error = Stat::new(machine("zen4")).metrics("").unwrap_err();
    assert_eq!(error.to_string(), "no metric is named ''");
}

#[test]
fn without_a_pmu_a_metric_of_exact_counts_translates_the_run() {
    let stat = stat("vm-without-vpmu", "", "loads_per_instruction");
    let plan = stat.plan().unwrap();
    assert_eq!(plan.launch_of(0), LaunchKind::Translated);
    assert!(plan.lines.iter().all(|line| line.candidate().is_some_and(|c| c.rung == Rung::Soft)));
}

#[test]
fn with_a_pmu_one_source_counts_all_events_of_a_metric() {
    let mut both = machine("skylake");
    let works = machine("vm-without-vpmu").ladder.state(Rung::Soft).cloned().unwrap();
    both.ladder.rungs.retain(|state| state.rung != Rung::Soft);
    both.ladder.rungs.push(works);
    let plan = |events: &str, metrics: &str| {
        let stat = Stat::new(both.clone()).command(CommandSpec::new("true")).runs(3);
        let stat = if events.is_empty() { stat } else { stat.events(events).unwrap() };
        stat.metrics(metrics).unwrap().plan().unwrap()
    };
    let soft = |plan: &Plan| {
        let rungs = plan.lines.iter().map(|line| line.event.candidates.iter().map(|way| way.rung).collect());
        rungs.collect::<Vec<Vec<Rung>>>()
    };
    let hardware = plan("", "branch_miss_rate");
    let by_hardware = [Rung::Perf, Rung::Msr];
    assert!(soft(&hardware).iter().all(|rungs| *rungs == by_hardware), "{:?}", soft(&hardware));
    // Only the software PMU has bytes that were loaded.
    let exact = plan("instructions", "arithmetic_intensity");
    assert_eq!(names(&exact)[0], "instructions");
    assert!(soft(&exact)[1..].iter().all(|rungs| *rungs == [Rung::Soft]), "{:?}", soft(&exact));
    // An event that the user asked for serves the metric, too.
    assert_eq!(
        names(&plan("branch_instructions", "branch_miss_rate")),
        ["branch_instructions", "branch_misses"]
    );
}

#[test]
fn metrics_of_any_cpu_are_listed() {
    let all = list_metrics_of("alderlake").unwrap();
    let retiring = all.iter().filter(|metric| metric.name == "tma_retiring");
    let cpus: Vec<_> = retiring.filter_map(|metric| metric.cpu.as_deref()).collect();
    assert_eq!(cpus, ["alderlake/atom", "alderlake/core"]);
    let ipc: Vec<_> = all.iter().filter(|metric| metric.name == "ipc").collect();
    assert_eq!((ipc.len(), ipc[0].cpu.as_deref()), (1, None));
    assert_eq!(ipc[0].events, ["instructions", "cpu_cycles"]);
    assert!(list_metrics_of("alderlak").unwrap_err().recovery().to_string().contains("alderlake"));
}
