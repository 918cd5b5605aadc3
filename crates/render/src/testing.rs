//! Hand-made machines and reports, and golden files, for the tests of every format.
#![allow(clippy::unwrap_used)] // Code of tests.

use std::path::Path;

use cyclometer_toolkit::core::event::{Event, OsMetric, PerfClass, PerfEvent, Unit};
use cyclometer_toolkit::core::exec::{Cell, CommandSpec, ExitStatus, InputStream, OutputStream, Reading};
use cyclometer_toolkit::core::ladder::{Cause, CauseKind, RungState, Works};
use cyclometer_toolkit::core::machine::{
    AccessRights, Architecture, Capabilities, CoreType, CpuId, Machine, MachineCpu, Os, PmuFacts, Vendor,
};
use cyclometer_toolkit::core::plan::{Outcome, PlanLine, Sharing};
use cyclometer_toolkit::core::pmu::KernelPmu;
use cyclometer_toolkit::core::report::{FallbackStep, LaunchKind, Run, SessionFailure, Slice, SliceCount};
use cyclometer_toolkit::core::{
    Candidate, Count, CpuSet, Intent, Ladder, Layout, Modes, Pass, Plan, Provenance, Random, Recovery,
    Report, Rung, Scope, Slot, SlotId,
};
use cyclometer_toolkit::stats::formula::Expression;
use cyclometer_toolkit::stats::{Environment, MetricRequest, asked_scope, summarise_with};

use crate::Results;

/// Compares with a file below `tests/golden`; set `UPDATE_GOLDEN` to write it anew.
pub fn golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, actual).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(actual, expected, "{} differs", path.display());
}

/// A report with its machine, ready to be rendered.
pub struct Show {
    /// The report.
    pub report: Report,
    /// Where it was measured.
    pub machine: Machine,
}

impl Show {
    /// Without requested metrics.
    pub fn show(&self, render: impl Fn(&Results<'_>) -> String) -> String {
        self.show_with(&[], render)
    }

    /// With metrics that were asked for.
    pub fn show_with(&self, metrics: &[MetricRequest], render: impl Fn(&Results<'_>) -> String) -> String {
        let summary = summarise_with(&self.report, asked_scope(&self.report), metrics);
        render(&Results {
            report: &self.report,
            summary: &summary,
            machine: &self.machine,
            regions: None,
            by_code: None,
            intervals: None,
        })
    }
}

/// A virtual machine to which no PMU is passed on.
pub fn vm_without_pmu() -> Machine {
    let cause = |kind, text: &str, mend: Option<&str>| Cause {
        kind,
        text: text.to_owned(),
        mend: mend.map(str::to_owned),
    };
    let restricted = Cause::new(CauseKind::NoPermission, "kernel.perf_event_paranoid is 3");
    let state = |rung, works, causes| RungState { rung, works, causes };
    let no_pmu =
        cause(CauseKind::NoVirtualPmu, "the hypervisor (KVM) passes no PMU on to this machine", None);
    let paranoid = cause(
        CauseKind::NoPermission,
        "kernel.perf_event_paranoid is 3: unprivileged users may count nothing at all",
        Some("sudo sysctl kernel.perf_event_paranoid=2"),
    );
    let yama = cause(
        CauseKind::NoPermission,
        "kernel.yama.ptrace_scope is 2: only CAP_SYS_PTRACE may trace",
        Some("sudo sysctl kernel.yama.ptrace_scope=1"),
    );
    Machine {
        os: Os::Linux,
        kernel_release: Some("6.12.1".into()),
        architecture: Architecture::X86_64,
        cpu: MachineCpu {
            vendor: Vendor::Intel,
            id: CpuId::X86 { family: 6, model: 0x8f, stepping: 8 },
            name: Some("Intel(R) Xeon(R) Processor @ 2.10GHz".into()),
        },
        core_types: vec![CoreType {
            cpu_id: Some("sapphirerapids".into()),
            microarchitecture: Some("Golden Cove".into()),
            cpus: CpuSet::parse("0-1").unwrap(),
            pmu: PmuFacts { source: "CPUID 0xA".into(), ..PmuFacts::default() },
            kernel_pmu: None,
        }],
        online: CpuSet::parse("0-1").unwrap(),
        smt_active: None,
        energy: Vec::new(),
        gpus: cyclometer_toolkit::core::gpu::Gpus::default(),
        hypervisor: Some("KVM".into()),
        container: Some("docker".into()),
        pmus: vec![KernelPmu { name: "msr".into(), pmu_type: 9, ..KernelPmu::default() }],
        access: AccessRights { perf_event_paranoid: Some(3), seccomp: Some(2), ..AccessRights::default() },
        capabilities: Capabilities {
            architecture: "intel sapphirerapids".into(),
            counter_count: 0,
            fixed_counters: 0,
            counter_width_bits: None,
            user_mode_access: false,
            needs_kernel_patch: false,
        },
        ladder: Ladder {
            rungs: vec![
                state(Rung::Perf, Works::Partly, vec![no_pmu, paranoid]),
                state(Rung::Kperf, Works::NotHere, Vec::new()),
                state(Rung::Soft, Works::No, vec![yama]),
                state(Rung::Os, Works::Yes, Vec::new()),
            ],
            perf_hardware: Err(Cause::new(CauseKind::NoVirtualPmu, "no PMU in this virtual machine")),
            perf_software: Ok(()),
            perf_kernel_mode: Err(restricted.clone()),
            perf_cpu_wide: Err(restricted),
        },
    }
}

fn machine_with_pmu() -> Machine {
    let mut machine = vm_without_pmu();
    machine.ladder.perf_hardware = Ok(());
    machine
}

fn line(name: &str, requested: bool, unit: Unit, candidate: Candidate) -> PlanLine {
    PlanLine {
        event: Event { requested, ..Event::new(name, unit, vec![candidate]) },
        outcome: Outcome::Counted { candidate: 0, filter: None, exclude_guest: false },
        skipped: Vec::new(),
    }
}

fn hardware(name: &str, requested: bool) -> PlanLine {
    line(name, requested, Unit::Count, perf_candidate(&["cpu"], Some(Modes::USER)))
}

fn perf_candidate(pmus: &[&str], modes: Option<Modes>) -> Candidate {
    let part = |pmu: &&str| PerfEvent::new(*pmu, 4, 0x3c, PerfClass::Core);
    let resolution = "cpu/config=0x3c/".into();
    Candidate { resolution, ..Candidate::perf(pmus.iter().map(part).collect(), Provenance::Hardware, modes) }
}

fn accounting(name: &str, unit: Unit, metric: OsMetric) -> PlanLine {
    line(name, false, unit, Candidate::accounting(metric, "getrusage"))
}

/// The events of the operating system's accounting, in slots 0 to 4.
fn basics() -> Vec<PlanLine> {
    vec![
        accounting("wall_time", Unit::Nanoseconds, OsMetric::WallTime),
        accounting("user_time", Unit::Nanoseconds, OsMetric::UserTime),
        accounting("system_time", Unit::Nanoseconds, OsMetric::SystemTime),
        accounting("peak_rss", Unit::Bytes, OsMetric::PeakRss),
        accounting("page-faults", Unit::Count, OsMetric::PageFaults),
    ]
}

fn basic_cells(factor: f64) -> Vec<Cell> {
    let raws = [151_234_567.0, 120_100_000.0, 29_050_000.0, 4_210_688.0, 1534.0];
    raws.iter().enumerate().map(|(slot, raw)| cell(slot, (raw * factor) as u64)).collect()
}

fn cell(slot: usize, raw: u64) -> Cell {
    timed(slot, raw, 100_000_000, 100_000_000)
}

fn timed(slot: usize, raw: u64, time_enabled_ns: u64, time_running_ns: u64) -> Cell {
    Cell::new(SlotId(slot), raw, time_enabled_ns, time_running_ns)
}

fn refuse(mut line: PlanLine, count: Count) -> PlanLine {
    line.outcome = Outcome::NotCounted(count);
    line
}

fn report(lines: Vec<PlanLine>, cells: Vec<Vec<Cell>>) -> Report {
    let slot = |id: usize| Slot::new(SlotId(id), format!("slot {id}"), Rung::Perf, Vec::new());
    let pass = Pass { slots: (0..lines.len()).map(slot).collect(), ..Pass::default() };
    let mut command = CommandSpec::new("gzip");
    command.args = vec!["-kc".into(), "big file".into()];
    let run = |(index, cells): (usize, Vec<Cell>)| Run {
        index: index as u32,
        launch: LaunchKind::Native,
        layout: None,
        cpu_baseline: None,
        pass: 0,
        exit: Some(ExitStatus::Code(0)),
        dropped_because: None,
        wall_ns: 151_234_567,
        reading: Reading { cells },
        slices: Vec::new(),
    };
    Report {
        command: Some(command),
        target: None,
        plan: Plan { lines, passes: vec![pass], sharing: Sharing::default(), intent: Intent::default() },
        runs: cells.into_iter().enumerate().map(run).collect(),
        steps: Vec::new(),
        interrupted: None,
        failure: None,
    }
}

/// One run of the default events on a machine without a PMU.
pub fn one_run() -> Show {
    let reason = || Count::NotSupported { reason: "no PMU in this virtual machine".into() };
    let mut lines = basics();
    for name in ["cycles", "instructions", "branches", "branch-misses", "cache-references", "cache-misses"] {
        lines.push(refuse(hardware(name, false), reason()));
    }
    Show { report: report(lines, vec![basic_cells(1.0)]), machine: vm_without_pmu() }
}

/// Ten runs with a PMU; one is an outlier, one was dropped.
pub fn several_runs() -> Show {
    let mut lines = basics();
    lines.extend([hardware("cycles", false), hardware("instructions", false)]);
    let factors = [1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.01, 3.0, 0.99, 5.0];
    let cells = factors.iter().map(|factor| {
        let mut cells = basic_cells(*factor);
        cells.extend([cell(5, (312_345_678.0 * factor) as u64), cell(6, 700_000_123)]);
        cells
    });
    let mut report = report(lines, cells.collect());
    report.runs[9].dropped_because = Some("exited with status 1".into());
    report.runs[9].exit = Some(ExitStatus::Code(1));
    report.failure = Some(SessionFailure {
        message: "the command exited with status 1 in run 10".into(),
        recovery: Recovery::None,
    });
    Show { report, machine: machine_with_pmu() }
}

/// The same with `-i`, so that runs count that failed in two ways. The command read a file, and its output
/// was discarded.
pub fn failing_runs() -> Show {
    let mut show = several_runs();
    let report = &mut show.report;
    report.failure = None;
    report.runs[9].dropped_because = None;
    report.runs[3].exit = Some(ExitStatus::Signal(11));
    report.runs[4].exit = Some(ExitStatus::Code(1));
    if let Some(command) = &mut report.command {
        command.stdin = InputStream::Replay { offset_bytes: 0 };
        command.stdout = OutputStream::Discard;
        command.stderr = OutputStream::Discard;
    }
    show
}

/// Requested events with every verdict and every provenance.
pub fn every_verdict(runs: usize) -> Show {
    let reason = |text: &str| text.into();
    let mut lines = vec![
        hardware("exact_one", true),
        hardware("scaled_one", true),
        hardware("partial_one", true),
        hardware("starved_one", true),
        refuse(
            hardware("unsupported_one", true),
            Count::NotSupported { reason: reason("this CPU has no such event; the nearest is cache-misses") },
        ),
        hardware("lost_one", true),
        hardware("by_the_software_pmu", true),
        hardware("by_a_model", true),
        hardware("by_simulation", true),
        line("power/energy-pkg/", true, Unit::Joules, perf_candidate(&["power"], None)),
    ];
    let provenances = [Provenance::Counted, Provenance::Modelled, Provenance::Simulated];
    for (line, provenance) in lines[6..9].iter_mut().zip(provenances) {
        line.event.candidates[0].provenance = provenance;
    }
    let energy = &mut lines[9].event.candidates[0];
    (energy.widest, energy.scale) = (Some(Scope::Package), 2.328_306_436_538_696_3e-10);
    let cells = (0..runs).map(|i| verdict_cells(i as u64)).collect();
    let mut report = report(lines, cells);
    report.steps.push(FallbackStep {
        event: Some("exact_one:u".into()),
        refused: "EBUSY: the counter is held by another".into(),
        done: "tried again".into(),
    });
    Show { report, machine: machine_with_pmu() }
}

fn verdict_cells(i: u64) -> Vec<Cell> {
    let on = |mut cell: Cell, cpu: u32, lost: Option<&str>| {
        cell.at.cpu = Some(cpu);
        cell.lost = lost.map(Into::into);
        cell
    };
    let mut lost = cell(5, 99);
    lost.lost = Some("the control registers changed".into());
    vec![
        cell(0, 1_234_567 + i),
        timed(1, 41_000 + i, 100_000_000, 41_000_000),
        on(cell(2, 5_000), 0, None),
        on(cell(2, 5_000), 1, Some("cpu 1 went offline")),
        timed(3, 0, 100_000_000, 0),
        lost,
        cell(6, 777_777),
        cell(7, 88_888),
        cell(8, 9_999),
        cell(9, 9_000_000_000 + 100_000_000 * i),
    ]
}

/// A virtual machine without a PMU where the software PMU works.
pub fn vm_with_soft() -> Machine {
    let mut machine = vm_without_pmu();
    for state in machine.ladder.rungs.iter_mut().filter(|state| state.rung == Rung::Soft) {
        *state = RungState { rung: Rung::Soft, works: Works::Yes, causes: Vec::new() };
    }
    machine
}

fn soft(name: &str, requested: bool) -> PlanLine {
    line(name, requested, Unit::Count, Candidate::soft(name, Modes::USER))
}

fn translated(run: &mut Run, layout: Layout) {
    (run.launch, run.layout) = (LaunchKind::Translated, Some(layout));
}

/// The only run, under the software PMU; one event was lost in it, and the hardware could not count.
pub fn translated_run() -> Show {
    let mut lines = basics();
    lines.extend([soft("instructions", true), soft("calls", true), hardware("cycles", true)]);
    let left =
        Cell { lost: Some("detached at 0x401136: the program started a thread".into()), ..cell(6, 77) };
    let mut cells = basic_cells(1.0);
    cells.extend([cell(5, 700_000_123), left]);
    let mut report = report(lines, vec![cells]);
    report.plan.passes[0].launch = LaunchKind::Translated;
    report.plan.passes[0].slots.truncate(7);
    translated(&mut report.runs[0], Layout::Random);
    Show { report, machine: vm_with_soft() }
}

/// Five runs: two are counted, three are timed.
pub fn counted_runs() -> Show {
    let mut lines = basics();
    lines.extend([soft("instructions", false), soft("branches", false)]);
    let counted = |branches| vec![cell(5, 700_000_123), cell(6, branches)];
    let cells = vec![
        counted(101_000_000),
        counted(101_000_002),
        basic_cells(1.0),
        basic_cells(1.01),
        basic_cells(0.99),
    ];
    let mut report = report(lines, cells);
    let slots = std::mem::take(&mut report.plan.passes[0].slots);
    let (basics, counts) = slots.into_iter().partition(|slot: &Slot| slot.id.0 < 5);
    report.plan.passes = vec![
        Pass { launch: LaunchKind::Translated, slots: counts },
        Pass { slots: basics, ..Pass::default() },
    ];
    report.plan.intent.runs = 5;
    for (i, run) in report.runs.iter_mut().enumerate() {
        match i < 2 {
            true => translated(run, Layout::Fixed),
            false => run.pass = 1,
        }
    }
    Show { report, machine: vm_with_soft() }
}

/// Events with known counts, and metrics over them with every kind of result.
pub fn metrics(runs: usize) -> (Show, Vec<MetricRequest>) {
    let names =
        ["instructions", "cpu_cycles", "cpu/slots/", "cpu/topdown-retiring/", "branch_misses", "page_walks"];
    let mut lines: Vec<PlanLine> = names.iter().map(|name| hardware(name, true)).collect();
    let reason = "the PMU cpu does not have this event (ENOENT)".into();
    lines[5] = refuse(lines[5].clone(), Count::NotSupported { reason });
    let cells = |i: u64| {
        vec![
            cell(0, 3_000_000 + 1000 * i),
            cell(1, 1_500_000),
            cell(2, 9_000_000),
            cell(3, 4_500_000),
            timed(4, 600, 100_000_000, 50_000_000),
        ]
    };
    let requests = vec![
        request("ipc", Unit::Ratio, 1.0, "instructions / cpu_cycles", &[0, 1]),
        request(
            "tma_retiring",
            Unit::Other("%".into()),
            100.0,
            r"cpu@topdown\-retiring@ / cpu@slots@",
            &[3, 2],
        ),
        request("branch_mpki", Unit::Other("MPKI".into()), 1000.0, "branch_misses / instructions", &[4, 0]),
        request("walk_mpki", Unit::Other("MPKI".into()), 1000.0, "page_walks / instructions", &[5, 0]),
        request(
            "core_ipc",
            Unit::Ratio,
            1.0,
            "instructions / (cpu_cycles / 2 if #smt_on else cpu_cycles)",
            &[0, 1],
        ),
    ];
    (
        Show { report: report(lines, (0..runs as u64).map(cells).collect()), machine: machine_with_pmu() },
        requests,
    )
}

/// A metric over events in slots, in the order of the formula.
fn request(name: &str, unit: Unit, scale: f64, formula: &str, slots: &[usize]) -> MetricRequest {
    let expression = Expression::resolve(name, formula, |_| None).unwrap();
    let events: Vec<String> = expression.events().iter().map(|event| (*event).to_owned()).collect();
    let inputs = events.into_iter().zip(slots).map(|(event, slot)| (event, Ok(SlotId(*slot)))).collect();
    let (name, environment) = (name.into(), Environment::default());
    MetricRequest { name, unit, scale, bounds: None, expression, inputs, environment }
}

/// Seven runs that made three passes: cycles are in all of them, the last event in one.
pub fn three_passes() -> Show {
    let names = ["cycles", "loads", "stores", "page_walks"];
    let lines = names.iter().map(|name| hardware(name, true)).collect();
    let raws = |run: u64| (0..4).map(move |slot| cell(slot, 1_000_000 * (slot as u64 + 1) + run)).collect();
    let mut report = report(lines, (0..7).map(raws).collect());
    let all = report.plan.passes.remove(0).slots;
    let sets = [[0, 1], [0, 2], [0, 3]];
    let pass =
        |set: &[usize; 2]| Pass { slots: set.map(|slot| all[slot].clone()).to_vec(), ..Pass::default() };
    report.plan.passes = sets.iter().map(pass).collect();
    report.plan.sharing = Sharing {
        sets: sets.iter().map(|set| set.map(SlotId).to_vec()).collect(),
        lower_bound: 2,
        because: Some("3 events of cpu can only use 1 counter".into()),
        contradictions: vec![
            "the kernel does not count page_walks while it counts loads, though by what is known of the counters \
             they fit"
                .into(),
        ],
        ..Sharing::default()
    };
    for (run, pass) in report.runs.iter_mut().zip([1, 0, 2, 0, 1, 1, 0]) {
        run.pass = pass;
        run.reading.cells.retain(|cell| sets[pass].contains(&cell.slot.0));
    }
    Show { report, machine: machine_with_pmu() }
}

/// Events some of which are rotated: a run for each number of slices.
///
/// Instructions always count. Cache misses come in proportion to them, branch misses almost, and page walks
/// in few moments only.
pub fn rotated(runs: &[usize]) -> Show {
    let names = ["instructions", "cache-misses", "branch-misses", "branches", "page_walks"];
    let rotation_groups = [None, Some(0), Some(1), Some(1), Some(2)];
    let lines = names.iter().map(|name| hardware(name, true)).collect();
    let mut report = report(lines, vec![Vec::new(); runs.len()]);
    for (slot, rotation_group) in report.plan.passes[0].slots.iter_mut().zip(rotation_groups) {
        slot.rotation_group = rotation_group;
    }
    let set = |rotation_group: u32| {
        (0..5).filter(|id| rotation_groups[*id].is_none_or(|own| own == rotation_group)).map(SlotId).collect()
    };
    (report.plan.sharing.sets, report.plan.sharing.lower_bound) = ((0..3).map(set).collect(), 3);
    for (run, slices) in report.runs.iter_mut().zip(runs) {
        let mut random = Random::seeded(u64::from(run.index));
        let order = (0..*slices).flat_map(|_| random.permutation(3)).take(*slices);
        run.slices = order
            .enumerate()
            .map(|(number, rotation_group)| turning_slice(number as u64, rotation_group, &rotation_groups))
            .collect();
        run.reading.cells = (0..rotation_groups.len()).map(|slot| sum(slot, &run.slices)).collect();
    }
    Show { report, machine: machine_with_pmu() }
}

fn turning_slice(number: u64, rotation_group: usize, rotation_groups: &[Option<u32>]) -> Slice {
    let instructions = 3_000_000 + 7_919 * number;
    let raws = [
        instructions,
        instructions / 100,
        instructions / 50 + number * 31 % 977,
        instructions / 5,
        if number % 50 == 7 { 40_000 } else { 0 },
    ];
    let count = |slot: usize| SliceCount {
        slot: SlotId(slot),
        raw: raws[slot],
        time_enabled_ns: 10_000_000,
        time_running_ns: 10_000_000,
    };
    let counts = (0..rotation_groups.len())
        .filter(|slot| rotation_groups[*slot].is_none_or(|own| own as usize == rotation_group));
    Slice { rotation_group: rotation_group as u32, wall_ns: 10_000_000, counts: counts.map(count).collect() }
}

fn sum(slot: usize, slices: &[Slice]) -> Cell {
    let counts: Vec<&SliceCount> = slices.iter().filter_map(|slice| slice.count(SlotId(slot))).collect();
    let of = |what: fn(&SliceCount) -> u64| counts.iter().map(|count| what(count)).sum();
    timed(slot, of(|count| count.raw), of(|count| count.time_enabled_ns), of(|count| count.time_running_ns))
}

/// A hybrid machine: one event on two core types.
pub fn hybrid() -> Show {
    let candidate = perf_candidate(&["cpu_core", "cpu_atom"], Some(Modes::USER));
    let cells = [("cpu_core", 700_000, 75_000_000), ("cpu_atom", 30_000, 25_000_000)];
    of_parts("cycles", candidate, &cells)
}

/// The sum of two vendor events on one core PMU, the second of which shared its counter.
pub fn summands() -> Show {
    let names = ["MEM_LOADS.HIT", "MEM_LOADS.MISS"].map(str::to_owned).to_vec();
    let candidate = perf_candidate(&["cpu", "cpu"], Some(Modes::USER)).with_summands(names);
    of_parts("loads", candidate, &[("cpu", 700_000, 100_000_000), ("cpu", 30_000, 50_000_000)])
}

/// An event in a run of 100 ms: PMU, raw value and running time of each part.
fn of_parts(name: &str, candidate: Candidate, parts: &[(&str, u64, u64)]) -> Show {
    let of_part = |(part, (pmu, raw, running)): (usize, &(&str, u64, u64))| {
        let mut cell = timed(0, *raw, 100_000_000, *running);
        (cell.at.part, cell.at.pmu) = (part, Some((*pmu).to_owned()));
        cell
    };
    let cells = parts.iter().enumerate().map(of_part).collect();
    let lines = vec![line(name, true, Unit::Count, candidate)];
    Show { report: report(lines, vec![cells]), machine: machine_with_pmu() }
}

/// Events with notes, events without a value for several reasons, steps of recovery that several events
/// share.
pub fn remarks() -> Show {
    let noted = |mut line: PlanLine, note: &str| {
        line.event.notes.push(note.to_owned());
        line
    };
    let cache = "means the last-level cache on this CPU: not comparable across vendors";
    let raw = "a raw code that the CPU lacks counts zero; the kernel does not check it";
    let mut time = noted(basics().remove(1), "split by sampling");
    time.event.requested = true;
    let missing = |name: &str, requested, reason: &str| {
        refuse(noted(hardware(name, requested), cache), Count::NotSupported { reason: reason.into() })
    };
    let lines = vec![
        time,
        noted(hardware("cache-references", true), cache),
        noted(hardware("cache-misses", true), cache),
        noted(hardware("r1c5", true), raw),
        noted(hardware("rdead", true), raw),
        missing("LLC-loads", true, "the PMU cpu does not have this event (ENOENT)"),
        missing("cycles", false, "no PMU in this virtual machine: the hypervisor provides none"),
        missing("instructions", false, "no PMU in this virtual machine"),
        missing("branches", false, "the PMU cpu does not have this event (ENOENT)"),
    ];
    let cells = vec![cell(0, 5_000_000), cell(1, 200), cell(2, 20), cell(3, 7), cell(4, 0)];
    let mut report = report(lines, vec![cells]);
    for (name, line) in [("cache-references", 1), ("cache-misses", 2)] {
        report.plan.lines[line].event.candidates[0].modes = Some(Modes::ALL);
        report.steps.push(FallbackStep {
            event: Some(name.into()),
            refused: "the PMU cpu refuses these attributes (EINVAL)".to_owned(),
            done: "counted all modes".into(),
        });
    }
    Show { report, machine: machine_with_pmu() }
}

/// A first run that was interrupted, with control characters in the command.
pub fn interrupted() -> Show {
    let mut report = report(basics(), vec![basic_cells(1.0)]);
    if let Some(command) = &mut report.command {
        command.args.push("evil\x1b[2J\r\nname".into());
    }
    report.runs[0].exit = Some(ExitStatus::Signal(2));
    report.runs[0].dropped_because = Some("interrupted by signal 2".into());
    report.interrupted = Some(2);
    Show { report, machine: machine_with_pmu() }
}

/// One of two commands of a comparison: two counted runs, then twelve timed ones; of the second, those take 5
/// % more time.
pub fn compared_report(arm: u64, command: &str) -> Report {
    let mut lines = basics();
    lines.extend([soft("instructions", false), soft("branches", false)]);
    let mut cells = vec![vec![cell(5, 700_000_123 + 12_345 * arm), cell(6, 101_000_000 + arm)]; 2];
    cells[1][1] = cell(6, 101_000_000 + 3 * arm);
    cells.extend((0..12u64).map(|i| {
        // No two runs are equal, and both drift upwards.
        let noise = ((i * 7 + 5 * arm) % 12) as f64 / 4_000.0;
        let factor = (1.0 + 0.05 * arm as f64) * (1.0 + noise + i as f64 / 1_500.0);
        let mut cells = basic_cells(factor);
        cells[3] = cell(3, 4_210_688 + 4096 * ((i + arm) % 3));
        cells[4] = cell(4, 1534);
        cells
    }));
    let mut report = report(lines, cells);
    let passes = [LaunchKind::Translated, LaunchKind::Native];
    let slots = report.plan.passes[0].slots.clone();
    report.plan.passes = passes
        .into_iter()
        .zip([&slots[5..], &slots[..5]])
        .map(|(launch, slots)| Pass { launch, slots: slots.to_vec() })
        .collect();
    report.plan.intent.runs = 14;
    report.plan.intent.counted = cyclometer_toolkit::core::Counted::Runs(2);
    for run in &mut report.runs[..2] {
        translated(run, Layout::Fixed);
    }
    for run in &mut report.runs[2..] {
        run.pass = 1;
    }
    let (program, arguments) = command.split_once(' ').unwrap();
    let args = arguments.split(' ').map(Into::into).collect();
    report.command = Some(CommandSpec { args, ..CommandSpec::new(program) });
    report
}
