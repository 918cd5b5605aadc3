//! The tables of metrics, held against the grammar of formulas and the tables of events.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::collections::BTreeSet;

use cyclometer_catalog::encode;
use cyclometer_catalog::metric::{self, Metric, is_pseudo_event};
use cyclometer_catalog::select::select;
use cyclometer_catalog::{SoftEvent, cpus, portable, soft_events};
use cyclometer_toolkit::core::syntax::parse_event;
use cyclometer_toolkit::stats::formula::{Expression, Inputs};

/// Names that the portable table may use beside portable events: the system's accounting, the software PMU's
/// own, and those of kernel devices.
const SYSTEM: &[&str] = &[
    "wall_time",
    "user_time",
    "system_time",
    "task-clock",
    "cache_references",
    "cache_misses",
    "power/energy-pkg/",
];

fn expression(metric: &Metric<'_>, all: &[Metric<'static>]) -> Expression {
    let find = |name: &str| all.iter().find(|other| other.name == name).map(|other| other.formula);
    Expression::resolve(metric.name, metric.formula, find)
        .unwrap_or_else(|error| panic!("{}: {error}", metric.name))
}

/// An event of a formula without the terms that say how it is counted: `cpu/X,cmask=1/`, `X:c1`.
fn bare(event: &str) -> &str {
    let event = event.strip_prefix("cpu/").unwrap_or(event);
    event.split([',', ':']).next().unwrap_or(event)
}

#[test]
fn every_event_in_a_cpus_formulas_is_in_its_table() {
    let mut checked = 0;
    for table in metric::tables() {
        let all: Vec<Metric<'static>> = table.metrics().collect();
        for id in table.cpus().filter(|id| *id != "*") {
            let cpu = cpus::cpu(id).unwrap_or_else(|error| panic!("{error}"));
            for metric in &all {
                for event in expression(metric, &all).events() {
                    let known = is_pseudo_event(event) || cpu.event(bare(event)).is_some();
                    assert!(known, "{id}: {} needs {event}, which the table of events lacks", metric.name);
                    // Arm's core PMUs are named by driver and number.
                    let pmu = encode::device(&cpu).unwrap_or("armv8_pmuv3_0");
                    let request = metric::request(event, pmu, false);
                    let read = parse_event(&request).unwrap_or_else(|error| panic!("{id}: {error}"));
                    if !is_pseudo_event(event) {
                        select(cpu, &read).unwrap_or_else(|error| panic!("{id}: {request}: {error}"));
                    }
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 1000, "only {checked} events were looked at");
}

#[test]
fn every_miss_rate_of_a_cache_has_its_hit_rate_over_the_same_events() {
    let portable: Vec<Metric<'static>> = metric::metrics(None).collect();
    let of_caches = portable.iter().filter(|metric| metric.groups.contains(&"Caches"));
    let misses: Vec<&Metric<'_>> = of_caches.filter(|metric| metric.name.ends_with("_miss_rate")).collect();
    assert_eq!(misses.len(), 5);
    for miss in misses {
        let name = miss.name.replace("_miss_rate", "_hit_rate");
        let hit = portable.iter().find(|metric| metric.name == name);
        let hit = hit.unwrap_or_else(|| panic!("there is no {name}"));
        assert_eq!(hit.formula, format!("1 - {}", miss.formula));
        assert_eq!(hit.groups, miss.groups);
    }
    for metric in portable.iter().filter(|metric| metric.name.ends_with("_rate")) {
        assert_eq!(metric.bounds, Some((0.0, 1.0)), "{} is a share", metric.name);
    }
}

#[test]
fn portable_metrics_are_over_portable_events() {
    let portable: Vec<Metric<'static>> = metric::metrics(None).collect();
    let soft: Vec<SoftEvent> = soft_events().collect();
    assert!(portable.len() >= 25);
    for metric in &portable {
        for event in expression(metric, &portable).events() {
            let name = event.split(':').next().unwrap_or(event);
            let known = portable::find(name).is_some()
                || SYSTEM.contains(&name)
                || soft.iter().any(|event| event.name == name);
            assert!(known, "{} needs {event}, which is not portable", metric.name);
        }
    }
}

#[test]
fn the_cpus_with_formulas_have_level_1_and_most_have_level_2() {
    let mut seen = BTreeSet::new();
    for table in metric::tables() {
        let all: Vec<Metric<'static>> = table.metrics().collect();
        let level_1 = all.iter().filter(|metric| metric.groups.contains(&"TopdownL1")).count();
        let level_2 = all.iter().filter(|metric| metric.groups.contains(&"TopdownL2")).count();
        if level_1 > 0 {
            seen.extend(table.cpus());
            assert!((4..=5).contains(&level_1), "{level_1} of level 1");
            assert!(matches!(level_2, 0 | 4 | 6 | 8), "{level_2} of level 2");
        }
    }
    for cpu in
        ["sandybridge", "ivytown", "haswell", "skylakex", "icelake", "sapphirerapids", "lunarlake/core"]
    {
        assert!(seen.contains(cpu), "{cpu}");
    }
    for cpu in ["amdzen4", "amdzen5", "amdzen6", "neoverse-n2", "neoverse-n3", "neoverse-v1", "neoverse-v3"] {
        assert!(seen.contains(cpu), "{cpu}");
    }
    // Its events do not say how many slots were lost.
    assert!(!seen.contains("neoverse-n1"));
}

#[test]
fn every_e_core_from_tremont_to_darkmont_has_level_2() {
    for cpu in [
        "snowridgex",
        "elkhartlake",
        "alderlake/atom",
        "alderlaken",
        "meteorlake/atom",
        "arrowlake/atom",
        "arrowlake/lowpower",
        "sierraforest",
        "grandridge",
        "lunarlake/atom",
        "pantherlake/atom",
        "clearwaterforest",
    ] {
        for (group, count) in [("TopdownL1", 4), ("TopdownL2", 6)] {
            assert_eq!(metric::metric(group, Some(cpu)).unwrap().len(), count, "{cpu}: {group}");
        }
    }
}

/// Counts of a program that does a little of everything; the fields of PERF_METRICS are those of 1,000 slots.
struct Ordinary;

impl Inputs for Ordinary {
    fn value(&self, name: &str) -> Result<f64, String> {
        let known = [
            ("PERF_METRICS.RETIRING", 400.0),
            ("PERF_METRICS.BAD_SPECULATION", 100.0),
            ("PERF_METRICS.FRONTEND_BOUND", 200.0),
            ("PERF_METRICS.BACKEND_BOUND", 300.0),
            ("PERF_METRICS.HEAVY_OPERATIONS", 100.0),
            ("PERF_METRICS.BRANCH_MISPREDICTS", 60.0),
            ("PERF_METRICS.FETCH_LATENCY", 120.0),
            ("PERF_METRICS.MEMORY_BOUND", 200.0),
            ("TOPDOWN.SLOTS:perf_metrics", 1000.0),
            ("CPU_CLK_UNHALTED.THREAD", 250.0),
            ("CPU_CLK_UNHALTED.THREAD_ANY", 500.0),
            ("CPU_CLK_UNHALTED.CORE", 250.0),
            ("IDQ_UOPS_NOT_DELIVERED.CORE", 200.0),
            ("UOPS_ISSUED.ANY", 460.0),
            ("UOPS_RETIRED.RETIRE_SLOTS", 400.0),
            ("TOPDOWN_FE_BOUND.ALL", 200.0),
            ("TOPDOWN_BE_BOUND.ALL", 300.0),
            ("TOPDOWN_RETIRING.ALL", 400.0),
        ];
        let found = known.iter().find(|(event, _)| event.eq_ignore_ascii_case(name));
        Ok(found.map_or(10.0, |(_, value)| *value))
    }

    fn literal(&self, _: &str) -> Option<f64> {
        Some(1.0)
    }

    fn is_cpu(&self, _: &str) -> Option<bool> {
        Some(false)
    }
}

/// Intel's cores on which one of the four shares is the rest of the slots, so that they add up to the whole.
/// The newer E-cores and the other vendors count each share by itself.
#[test]
fn top_down_shares_add_up_to_the_whole() {
    let mut checked = 0;
    for table in metric::tables() {
        let all: Vec<Metric<'static>> = table.metrics().collect();
        let of = |group: &str| {
            let members = all.iter().filter(|metric| metric.groups.contains(&group));
            members.map(|metric| expression(metric, &all).evaluate(&Ordinary).unwrap()).collect::<Vec<f64>>()
        };
        let own_events = all.iter().any(|metric| metric.formula.contains("TOPDOWN_BAD_SPECULATION"));
        if own_events || !all.iter().any(|metric| metric.name == "tma_retiring") {
            continue;
        }
        let cpus: Vec<&str> = table.cpus().collect();
        let whole: f64 = of("TopdownL1").iter().sum();
        assert!((whole - 1.0).abs() < 1e-9, "{cpus:?}: {whole}");
        for parent in all.iter().filter(|metric| metric.level == Some(1)) {
            let children = of(&format!("{}_group", parent.name));
            let share = expression(parent, &all).evaluate(&Ordinary).unwrap();
            let parts: f64 = children.iter().sum();
            assert!(
                children.is_empty() || (parts - share).abs() < 1e-9,
                "{cpus:?}: {} {parts} {share}",
                parent.name
            );
        }
        checked += 1;
    }
    assert!(checked >= 19, "{checked}");
}
