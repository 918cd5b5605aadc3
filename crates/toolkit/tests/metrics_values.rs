//! The metrics that are written here from definitions, each held against a share that was worked out by hand.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::collections::HashMap;

use cyclometer_catalog::metric::{self, Metric};
use cyclometer_toolkit::stats::formula::{Expression, Inputs};

/// Invented counts; an event that is not among them is an error, not 0.
struct Counts {
    events: HashMap<&'static str, f64>,
    smt: f64,
}

impl Counts {
    fn new(counts: &[(&'static str, f64)]) -> Counts {
        Counts { events: counts.iter().copied().collect(), smt: 0.0 }
    }

    fn with(mut self, event: &'static str, count: f64) -> Counts {
        self.events.insert(event, count);
        self
    }
}

impl Inputs for Counts {
    fn value(&self, name: &str) -> Result<f64, String> {
        self.events.get(name).copied().ok_or_else(|| format!("{name} was not counted"))
    }

    fn literal(&self, name: &str) -> Option<f64> {
        (name == "smt_on").then_some(self.smt)
    }

    fn is_cpu(&self, _: &str) -> Option<bool> {
        None
    }
}

fn value(cpu: &str, name: &str, counts: &Counts) -> Result<f64, String> {
    let all: Vec<Metric<'static>> = metric::metrics(Some(cpu)).collect();
    let find = |name: &str| all.iter().find(|metric| metric.name == name).map(|metric| metric.formula);
    let formula = find(name).unwrap_or_else(|| panic!("{cpu} has no {name}"));
    let expression = Expression::resolve(name, formula, find).unwrap();
    expression.evaluate(counts).map_err(|error| error.to_string())
}

fn check(cpu: &str, counts: &Counts, expected: &[(&str, f64)]) {
    for (name, expected) in expected {
        let value = value(cpu, name, counts).unwrap_or_else(|error| panic!("{cpu}: {name}: {error}"));
        assert!((value - expected).abs() < 1e-12, "{cpu}: {name} is {value}, not {expected}");
    }
    let levels = metric::metrics(Some(cpu)).filter(|metric| metric.level.is_some()).count();
    let shares = expected.iter().filter(|(_, share)| *share <= 1.0).count();
    assert_eq!(shares, levels, "{cpu} has other metrics than are looked at");
}

/// 12,000 slots of an AMD CPU: 3,000 starved, 1,800 of these in cycles that starved altogether. 1,800 were
/// held up by the back end, 600 given to the other thread. 6,600 operations were dispatched, of which 6,000
/// retired, 1,200 of these from microcode.
fn amd(cycles: f64) -> Counts {
    Counts::new(&[
        ("ls_not_halted_cyc", cycles),
        ("de_no_dispatch_per_slot.no_ops_from_frontend", 3000.0),
        ("de_no_dispatch_per_slot.backend_stalls", 1800.0),
        ("de_no_dispatch_per_slot.smt_contention", 600.0),
        ("de_src_op_disp.all", 6600.0),
        ("ex_ret_ops", 6000.0),
        ("ex_ret_ucode_ops", 1200.0),
        ("ex_ret_brn_misp", 30.0),
        ("ex_no_retire.load_not_complete", 40.0),
        ("ex_no_retire.not_complete", 100.0),
    ])
}

#[test]
fn amds_slots_go_where_the_counts_say() {
    let starved_altogether_6 = "de_no_dispatch_per_slot.no_ops_from_frontend:c6";
    let starved_altogether_8 = "de_no_dispatch_per_slot.no_ops_from_frontend:c8";
    let zen4 = amd(2000.0).with(starved_altogether_6, 300.0).with("resyncs_or_nc_redirects", 10.0);
    check(
        "amdzen4",
        &zen4,
        &[
            ("total_dispatch_slots", 12_000.0),
            ("frontend_bound", 0.25),
            ("bad_speculation", 0.05),
            ("backend_bound", 0.15),
            ("smt_contention", 0.05),
            ("retiring", 0.5),
            ("frontend_bound_latency", 0.15),
            ("frontend_bound_bandwidth", 0.1),
            ("bad_speculation_mispredicts", 0.0375),
            ("bad_speculation_pipeline_restarts", 0.0125),
            ("backend_bound_memory", 0.06),
            ("backend_bound_cpu", 0.09),
            ("retiring_fastpath", 0.4),
            ("retiring_microcode", 0.1),
        ],
    );
    for (cpu, restarts) in [("amdzen5", "bp_redirects.resync"), ("amdzen6", "bp_fe_redir.resync")] {
        let counts = amd(1500.0).with(starved_altogether_8, 225.0).with(restarts, 10.0);
        check(
            cpu,
            &counts,
            &[
                ("total_dispatch_slots", 12_000.0),
                ("frontend_bound", 0.25),
                ("bad_speculation", 0.05),
                ("backend_bound", 0.15),
                ("smt_contention", 0.05),
                ("retiring", 0.5),
                ("frontend_bound_by_latency", 0.15),
                ("frontend_bound_by_bandwidth", 0.1),
                ("bad_speculation_from_mispredicts", 0.0375),
                ("bad_speculation_from_pipeline_restarts", 0.0125),
                ("backend_bound_by_memory", 0.06),
                ("backend_bound_by_cpu", 0.09),
                ("retiring_from_fastpath", 0.4),
                ("retiring_from_microcode", 0.1),
            ],
        );
    }
}

#[test]
fn a_part_of_a_node_that_never_happened_is_not_countable() {
    let none = amd(2000.0).with("ex_ret_brn_misp", 0.0).with("resyncs_or_nc_redirects", 0.0);
    let error = value("amdzen4", "bad_speculation_mispredicts", &none).unwrap_err();
    assert!(error.contains('0'), "{error}");
    assert!(value("amdzen4", "retiring", &amd(0.0)).is_err(), "no cycle, no share");
}

/// The counts of Intel's E-cores in 120,000 slots: 24,000 starved, 36,000 held up by the back end, 48,000
/// retired.
const E_CORE: [(&str, f64); 12] = [
    ("TOPDOWN_FE_BOUND.ALL", 24_000.0),
    ("TOPDOWN_FE_BOUND.ALL_P", 24_000.0),
    ("TOPDOWN_FE_BOUND.FRONTEND_LATENCY", 18_000.0),
    ("TOPDOWN_FE_BOUND.FRONTEND_BANDWIDTH", 6_000.0),
    ("TOPDOWN_BE_BOUND.ALL", 36_000.0),
    ("TOPDOWN_BE_BOUND.ALL_P", 36_000.0),
    ("TOPDOWN_BE_BOUND.ALLOC_RESTRICTIONS", 9_000.0),
    ("TOPDOWN_RETIRING.ALL", 48_000.0),
    ("TOPDOWN_RETIRING.ALL_P", 48_000.0),
    ("TOPDOWN_BAD_SPECULATION.ALL_P", 12_000.0),
    ("TOPDOWN_BAD_SPECULATION.MISPREDICT", 7_200.0),
    ("TOPDOWN_BAD_SPECULATION.MACHINE_CLEARS", 4_800.0),
];

const E_CORE_SHARES: [(&str, f64); 10] = [
    ("tma_frontend_bound", 0.2),
    ("tma_bad_speculation", 0.1),
    ("tma_backend_bound", 0.3),
    ("tma_retiring", 0.4),
    ("tma_ifetch_latency", 0.15),
    ("tma_ifetch_bandwidth", 0.05),
    ("tma_branch_mispredicts", 0.06),
    ("tma_machine_clears", 0.04),
    ("tma_core_bound", 0.075),
    ("tma_resource_bound", 0.225),
];

#[test]
fn e_cores_share_their_slots_by_their_width() {
    for (cycles, cpus) in [
        (24_000.0, &["alderlake/atom", "alderlaken"][..]),
        (20_000.0, &["meteorlake/atom", "arrowlake/lowpower", "sierraforest", "grandridge"]),
        (15_000.0, &["lunarlake/atom", "arrowlake/atom", "pantherlake/atom", "clearwaterforest"]),
    ] {
        let counts = Counts::new(&E_CORE).with("CPU_CLK_UNHALTED.CORE", cycles);
        cpus.iter().for_each(|cpu| check(cpu, &counts, &E_CORE_SHARES));
    }
}

#[test]
fn tremont_adds_up_the_causes_of_its_front_end() {
    let causes = [
        ("TOPDOWN_FE_BOUND.ICACHE", 9_000.0),
        ("TOPDOWN_FE_BOUND.ITLB", 2_000.0),
        ("TOPDOWN_FE_BOUND.BRANCH_DETECT", 3_000.0),
        ("TOPDOWN_FE_BOUND.BRANCH_RESTEER", 4_000.0),
        ("TOPDOWN_FE_BOUND.CISC", 1_000.0),
        ("TOPDOWN_FE_BOUND.DECODE", 2_500.0),
        ("TOPDOWN_FE_BOUND.PREDECODE", 500.0),
        ("TOPDOWN_FE_BOUND.OTHER", 2_000.0),
    ];
    let whole = E_CORE.into_iter().filter(|(event, _)| !event.contains("FRONTEND_"));
    let counts: Vec<(&str, f64)> = whole.chain(causes).collect();
    let counts = Counts::new(&counts).with("CPU_CLK_UNHALTED.CORE", 30_000.0);
    for cpu in ["snowridgex", "elkhartlake"] {
        check(cpu, &counts, &E_CORE_SHARES);
    }
}

/// 4,000 slots in 1,000 cycles of a Sandy Bridge, with the events that have other names on Ivy Bridge. 800
/// slots starved, 600 of them in 150 cycles that starved altogether. 1,760 micro-operations were issued,
/// 1,600 retired; 10 cycles of recovery.
fn bridge(idle: &'static str, behind_loads: &'static str, executed: [&'static str; 3]) -> Counts {
    Counts::new(&[
        ("CPU_CLK_UNHALTED.THREAD", 1000.0),
        ("INST_RETIRED.ANY", 1500.0),
        ("IDQ_UOPS_NOT_DELIVERED.CORE", 800.0),
        ("IDQ_UOPS_NOT_DELIVERED.CYCLES_0_UOPS_DELIV.CORE", 150.0),
        ("UOPS_ISSUED.ANY", 1760.0),
        ("UOPS_RETIRED.RETIRE_SLOTS", 1600.0),
        ("INT_MISC.RECOVERY_CYCLES", 10.0),
        ("BR_MISP_RETIRED.ALL_BRANCHES", 9.0),
        ("MACHINE_CLEARS.COUNT", 1.0),
        ("IDQ.MS_UOPS", 440.0),
        ("RESOURCE_STALLS.SB", 20.0),
        ("RS_EVENTS.EMPTY_CYCLES", 50.0),
        (idle, 300.0),
        (behind_loads, 180.0),
        (executed[0], 700.0),
        (executed[1], 570.0),
        (executed[2], 400.0),
    ])
}

#[test]
fn sandy_and_ivy_bridge_share_four_slots_a_cycle() {
    let sandy = bridge(
        "CYCLE_ACTIVITY.CYCLES_NO_DISPATCH",
        "CYCLE_ACTIVITY.STALLS_L1D_PENDING",
        ["UOPS_DISPATCHED.CORE:c1", "UOPS_DISPATCHED.CORE:c2", "UOPS_DISPATCHED.CORE:c3"],
    );
    let ivy = bridge(
        "CYCLE_ACTIVITY.CYCLES_NO_EXECUTE",
        "CYCLE_ACTIVITY.STALLS_LDM_PENDING",
        ["UOPS_EXECUTED.CORE:c1", "UOPS_EXECUTED.CORE:c2", "UOPS_EXECUTED.CORE:c3"],
    );
    // Back-end cycles: 300 idle, 130 with one micro-operation, without the 50 that the front end left empty,
    // 20 of stores. From these 400, the 180 behind loads and the 20 of stores are memory's: half.
    let expected = [
        ("tma_frontend_bound", 0.2),
        ("tma_bad_speculation", 0.05),
        ("tma_backend_bound", 0.35),
        ("tma_retiring", 0.4),
        ("tma_fetch_latency", 0.15),
        ("tma_fetch_bandwidth", 0.05),
        ("tma_branch_mispredicts", 0.045),
        ("tma_machine_clears", 0.005),
        ("tma_memory_bound", 0.175),
        ("tma_core_bound", 0.175),
        ("tma_heavy_operations", 0.1),
        ("tma_light_operations", 0.3),
    ];
    for (counts, cpus) in [(&sandy, ["sandybridge", "jaketown"]), (&ivy, ["ivybridge", "ivytown"])] {
        cpus.iter().for_each(|cpu| check(cpu, counts, &expected));
    }
}

#[test]
fn a_thread_of_two_has_half_of_the_cores_slots() {
    let mut counts = Counts::new(&[
        ("CPU_CLK_UNHALTED.THREAD_ANY", 2000.0),
        ("UOPS_ISSUED.ANY", 1760.0),
        ("UOPS_RETIRED.RETIRE_SLOTS", 1600.0),
        ("INT_MISC.RECOVERY_CYCLES_ANY", 20.0),
    ]);
    counts.smt = 1.0;
    for cpu in ["sandybridge", "ivytown"] {
        assert_eq!(value(cpu, "tma_retiring", &counts), Ok(0.4));
        assert_eq!(value(cpu, "tma_bad_speculation", &counts), Ok(0.05));
    }
}
