//! Counting through perf, on a PMU that counts.

use std::fs;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::cases::Cases;
use crate::programs::{FORK, LONG, LOOP, Program, TOOL, WAITING};
use crate::stat::{Stat, counted};
use crate::system::{Started, Who, run, start, wait_for};

/// The properties of a machine's PMU.
pub(crate) struct Pmu {
    /// Kernel PMUs of the core types; one name if all are of one type.
    core_pmus: &'static [&'static str],
    /// Whether instructions of another CPU may be counted too: QEMU has one instruction clock for all CPUs.
    shared_clock: bool,
    /// Greatest number of kernel instructions between the starts of two counters.
    apart: u64,
    /// Whether `instructions` may be counted twice at the same time.
    several: bool,
    /// Events that all count instructions, more than there are counters.
    pub(crate) many: &'static [&'static str],
    /// Greatest factor of an estimate's error, up or down. Instructions are even over time if they are the
    /// emulator's clock; otherwise they are as uneven as the host is busy.
    off_by: f64,
    /// The raw event that counts instructions; `None` if the PMU's driver accepts none.
    raw: Option<&'static str>,
    /// A raw event that opens, and never gets a counter.
    raw_stuck: Option<&'static str>,
    /// Whether the catalogue knows the CPU.
    known: bool,
    /// Number of its core types in the catalogue.
    core_types: usize,
}

const PLAIN: Pmu = Pmu {
    core_pmus: &["cpu"],
    shared_clock: false,
    apart: 0,
    several: true,
    many: &[],
    off_by: 4.0,
    raw: Some("r00c0"),
    raw_stuck: None,
    known: true,
    core_types: 1,
};

/// QEMU's PMUv3: six counters and one for cycles.
pub(crate) const ARM64: Pmu = Pmu {
    core_pmus: &["armv8_pmuv3"],
    off_by: 1.5,
    raw: Some("r0008"),
    many: &["r0008", "r10008", "r20008", "r30008", "r40008", "r50008", "r60008", "r70008"],
    ..PLAIN
};

/// The same, described as two PMUs.
pub(crate) const ARM64_HYBRID: Pmu =
    Pmu { core_pmus: &["armv8_cortex_a53", "armv8_cortex_a72"], shared_clock: true, raw: None, ..PLAIN };

/// QEMU's Sscofpmf: one counter that counts instructions.
pub(crate) const RISCV64: Pmu =
    Pmu { several: false, known: false, raw: None, raw_stuck: Some("r1234"), ..PLAIN };

/// The plugin's four general and three fixed counters. Event attributes do not change the plugin's counts.
pub(crate) const X86: Pmu = Pmu {
    many: &["r010000c0", "r020000c0", "r030000c0", "r040000c0", "r050000c0", "r060000c0", "r070000c0"],
    ..PLAIN
};

/// The plugin's six counters, which do not start together.
pub(crate) const X86_AMD: Pmu = Pmu {
    apart: 2000,
    many: &[
        "r010000c0",
        "r020000c0",
        "r030000c0",
        "r040000c0",
        "r050000c0",
        "r060000c0",
        "r070000c0",
        "r080000c0",
    ],
    ..PLAIN
};

/// The plugin's core and atom PMUs.
pub(crate) const X86_HYBRID: Pmu = Pmu { core_pmus: &["cpu_core", "cpu_atom"], core_types: 2, ..PLAIN };

impl Pmu {
    fn hybrid(&self) -> bool {
        self.core_pmus.len() > 1
    }

    /// Fails unless a metric has the number of instructions of a program in each of `runs` runs. If all CPUs
    /// share the clock, it must be at least that number and less than twice as much.
    pub(crate) fn counts(&self, stat: &Stat, index: usize, program: &Program, runs: usize) -> Result<()> {
        if !self.shared_clock {
            return stat.equals(index, program.instructions, runs);
        }
        let values = stat.exact(index)?;
        let most = program.instructions * 2;
        let fits = values.len() == runs && values.iter().all(|v| (program.instructions..most).contains(v));
        ensure!(fits, "{values:?} instead of {} to {most}", program.instructions);
        Ok(())
    }
}

/// Every case of counting.
pub(crate) fn cases(cases: &mut Cases, pmu: &Pmu) {
    cases.case("doctor says that perf works", || {
        run(Who::Root, TOOL, &["doctor"])?.expect(0)?.says(&["perf works", "hardware events? yes"])
    });
    cases.case("cpus names the kernel's PMUs", || {
        run(Who::Root, TOOL, &["cpus"])?.expect(0)?.says(pmu.core_pmus)
    });
    cases.case("list has the events of the machine", || {
        run(Who::Root, TOOL, &["list", "instructions"])?.expect(0)?.says(&["instructions"])
    });
    cases.case("plan places two events in one pass, or says that the CPU is unknown", || plan(pmu));
    cases.case("instructions of a loop are the known number in each of five runs", || {
        let stat = counted(&["-r", "5", "-e", "instructions:u", "--", LOOP.path])?;
        pmu.counts(&stat, 0, &LOOP, 5)
    });
    cases.case("a group counts cycles and instructions of the same time", || group(pmu));
    cases.case("modes are kept apart", || modes(pmu));
    cases.case("what a command forks is counted with it", || {
        let stat = counted(&["-r", "3", "-e", "instructions:u", "--", FORK.path])?;
        pmu.counts(&stat, 0, &FORK, 3)
    });
    if pmu.several && !pmu.shared_clock {
        cases.case("rows of a command end after so many instructions, and add up", rows);
    }
    cases.case("a running process is counted from where it is", || process(pmu));
    cases.case("a running thread is counted from where it is", || thread(pmu));
    cases.case("a process that does not exist is named", nobody);
    cases.case("everything on one CPU is counted", one_cpu);
    cases.case("everything on all CPUs is counted", || whole_machine(pmu));
    cases.case("a control group without controllers is named, with what gives it one", bare_control_group);
    cases.case("a control group is counted", || control_group(pmu));
    cases.case("software events count", software);
    cases.case("an event that the PMU lacks is no number", || {
        let stat = counted(&["-e", "instructions:u,LLC-prefetch-misses", "--", LOOP.path])?;
        pmu.counts(&stat, 0, &LOOP, 1)?;
        ensure!(stat.metric(1)?["mean"].is_null(), "{}", stat.metric(1)?);
        Ok(())
    });
    if let Some(raw) = pmu.raw {
        cases.case("a raw event counts what the code means", || {
            let stat = counted(&["-r", "3", "-e", &format!("{raw}:u"), "--", LOOP.path])?;
            pmu.counts(&stat, 0, &LOOP, 3)
        });
    }
    if let Some(stuck) = pmu.raw_stuck {
        cases.case("a raw event that never gets a counter is no number", || {
            counted(&["-e", &format!("{stuck}:u"), "--", LOOP.path])?.no_number(0, "")
        });
    }
    if !pmu.many.is_empty() {
        cases.case("more events than counters are exact in as many runs as there are passes", || passes(pmu));
        cases.case("more events than counters take turns in one run", || turns(pmu));
        cases.case("a group that does not fit is refused", || too_big(pmu));
    }
    if pmu.hybrid() {
        cases.case("an event is counted on every core type", || core_types(pmu));
    }
}

/// Instructions of a row.
const ROW: u64 = 1_000_000;

/// Records a loop, and adds up its rows.
fn rows() -> Result<()> {
    let every = format!("{ROW}:instructions:u");
    let record =
        ["record", "-q", "--backend", "perf", "--every", &every, "-e", "instructions:u", "-o", "/tmp/rows"];
    run(Who::Root, TOOL, &[&record[..], &["--", LONG.path]].concat())?.expect(0)?;
    let converted = run(Who::Root, TOOL, &["convert", "/tmp/rows", "--to", "jsonl"])?.expect(0)?;
    let (mut sum, mut ended_by_events) = (0, 0);
    for line in converted.out.lines() {
        let row: serde_json::Value = serde_json::from_str(line)?;
        let value = row["counts"]["instructions:u"]["value"]
            .as_u64()
            .with_context(|| format!("no count in {line}"))?;
        sum += value;
        ended_by_events += u64::from(row["cause"] == "boundary");
    }
    let expected = LONG.instructions / ROW;
    ensure!(sum == LONG.instructions, "{sum} instead of {}\n{}", LONG.instructions, converted.out);
    ensure!((expected / 2..=expected).contains(&ended_by_events), "{ended_by_events} rows of {expected}");
    Ok(())
}

fn plan(pmu: &Pmu) -> Result<()> {
    let finished = run(Who::Root, TOOL, &["plan", "-e", "cycles,instructions", "--json"])?;
    if !pmu.known {
        return finished.expect(125)?.says(&["error"]);
    }
    let finished = finished.expect(0)?;
    let plan: serde_json::Value = serde_json::from_str(&finished.out).context("the plan is no JSON")?;
    let plans = plan["core_types"].as_array().map_or(std::slice::from_ref(&plan), Vec::as_slice);
    ensure!(plans.len() == pmu.core_types, "{} plans", plans.len());
    for plan in plans {
        ensure!(plan["passes"].as_array().is_some_and(|passes| passes.len() == 1), "{}", finished.out);
    }
    Ok(())
}

/// The emulators count two cycles for each instruction.
fn group(pmu: &Pmu) -> Result<()> {
    let stat = counted(&["-e", "{cycles:u,instructions:u}", "--", LOOP.path])?;
    pmu.counts(&stat, 1, &LOOP, 1)?;
    let (cycles, instructions) = (stat.one(0)?, stat.one(1)?);
    ensure!(cycles == 2 * instructions, "{cycles} cycles for {instructions} instructions");
    Ok(())
}

fn modes(pmu: &Pmu) -> Result<()> {
    let events = "instructions:u,instructions:k,instructions:uk";
    if !pmu.several {
        let stat = counted(&["-r", "3", "-e", "instructions:u", "--", LOOP.path])?;
        stat.equals(0, LOOP.instructions, 3)?;
        let kernel = counted(&["-e", "instructions:k", "--", LOOP.path])?.one(0)?;
        let both = counted(&["-e", "instructions:uk", "--", LOOP.path])?.one(0)?;
        ensure!(kernel > 0 && both > LOOP.instructions, "{kernel} in the kernel, {both} in all");
        return Ok(());
    }
    let stat = counted(&["-e", events, "--", LOOP.path])?;
    pmu.counts(&stat, 0, &LOOP, 1)?;
    let (user, kernel, both) = (stat.one(0)?, stat.one(1)?, stat.one(2)?);
    ensure!(kernel > 0, "nothing in the kernel");
    let apart = both.abs_diff(user + kernel);
    ensure!(pmu.shared_clock || apart <= pmu.apart, "{user} and {kernel} are not {both}");
    Ok(())
}

/// A process that waits for the end of its standard input.
fn waiting() -> Result<std::process::Child> {
    let mut command = std::process::Command::new(WAITING.path);
    command.stdin(Stdio::piped()).spawn().context("starting /waiting")
}

/// `stat` with a target, started and counting.
fn attached(args: &[&str]) -> Result<Started> {
    let report = ["stat", "--export-json", REPORT];
    let mut started = start(Who::Root, TOOL, &[&report, args].concat(), Stdio::null())?;
    // The counted work begins only afterwards, because the process waits. Without a counter the report has
    // the reason.
    let _ = wait_for("a counter", Duration::from_secs(30), || Ok(started.has_counter()));
    std::thread::sleep(Duration::from_millis(300));
    Ok(started)
}

/// The report of `stat` with a target.
const REPORT: &str = "/tmp/root.json";

fn process(pmu: &Pmu) -> Result<()> {
    let mut child = waiting()?;
    let pid = child.id().to_string();
    let started = attached(&["-p", &pid, "-e", "instructions:u"]);
    drop(child.stdin.take());
    let status = child.wait()?;
    let finished = started?.finish()?.expect(0)?;
    ensure!(status.success(), "{status}");
    pmu.counts(&Stat::read(REPORT, finished)?, 0, &WAITING, 1)
}

fn thread(pmu: &Pmu) -> Result<()> {
    let mut child = waiting()?;
    let tid = child.id().to_string();
    let started = attached(&["-t", &tid, "-e", "instructions:u"]);
    drop(child.stdin.take());
    child.wait()?;
    pmu.counts(&Stat::read(REPORT, started?.finish()?.expect(0)?)?, 0, &WAITING, 1)
}

fn nobody() -> Result<()> {
    run(Who::Root, TOOL, &["stat", "-p", "4194303", "-e", "instructions:u"])?
        .expect(125)?
        .says(&["error:", "4194303"])
}

const GROUP: &str = "/sys/fs/cgroup/counted";

/// A command that lasts as long as the control group has processes.
pub(crate) fn pause() -> ExitCode {
    let empty = || Ok(fs::read_to_string(format!("{GROUP}/cgroup.procs"))?.is_empty().then_some(()));
    match wait_for("the control group to be empty", Duration::from_secs(60), empty) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Before any controller is enabled for the root's children, they lack perf_event too.
fn bare_control_group() -> Result<()> {
    fs::create_dir_all(GROUP).context("making a control group")?;
    let args = ["stat", "-G", "counted", "-e", "instructions:u", "--", LOOP.path];
    let finished = run(Who::Root, TOOL, &args);
    fs::remove_dir(GROUP).context("removing the control group")?;
    finished?.expect(125)?.says(&["'counted'", "no controllers", "/sys/fs/cgroup/cgroup.subtree_control"])
}

fn control_group(pmu: &Pmu) -> Result<()> {
    let folder = GROUP;
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+pids").context("giving children a controller")?;
    fs::create_dir_all(folder).context("making a control group")?;
    let mut child = waiting()?;
    fs::write(format!("{folder}/cgroup.procs"), child.id().to_string())
        .context("moving a process into it")?;
    let started = attached(&["-G", "counted", "-e", "instructions:u", "--", "/init", "pause"]);
    drop(child.stdin.take());
    child.wait()?;
    let finished = started?.finish()?.expect(0)?;
    fs::remove_dir(folder).context("removing the control group")?;
    let stat = Stat::read(REPORT, finished)?;
    pmu.counts(&stat, 0, &WAITING, 1)
}

/// Other processes may run there meanwhile, in user mode too.
fn one_cpu() -> Result<()> {
    let stat = counted(&["-C", "0", "-e", "instructions:u,cycles:uk", "--", LOOP.path])?;
    ensure!(stat.metric(0)?["scope"] == "cpus", "{}", stat.metric(0)?["scope"]);
    ensure!(stat.one(0)? > 0 && stat.one(1)? > stat.one(0)?, "{:?} {:?}", stat.one(0), stat.one(1));
    Ok(())
}

fn whole_machine(pmu: &Pmu) -> Result<()> {
    let stat = counted(&["-a", "-e", "instructions:u", "--", LOOP.path])?;
    ensure!(stat.metric(0)?["scope"] == "system", "{}", stat.metric(0)?["scope"]);
    let value = stat.one(0)?;
    let most = LOOP.instructions * if pmu.hybrid() { 4 } else { 3 };
    ensure!((LOOP.instructions..most).contains(&value), "{value} for at least {}", LOOP.instructions);
    Ok(())
}

fn software() -> Result<()> {
    let stat = counted(&["-e", "page-faults,context-switches,task-clock", "--", FORK.path])?;
    let faults = stat.values(0, "exact", "kernel")?;
    ensure!(faults[0] > 0, "no page faults");
    ensure!(stat.values(2, "exact", "kernel")?[0] > 0, "no time");
    Ok(())
}

fn passes(pmu: &Pmu) -> Result<()> {
    let events = user_mode(pmu.many);
    let stat = counted(&["-r", "4", "-e", &events, "--", LOOP.path])?;
    for index in 0..pmu.many.len() {
        let values = stat.exact(index)?;
        let all = values.iter().all(|value| *value == LOOP.instructions);
        ensure!(values.len() >= 2 && all, "{values:?} instead of {}", LOOP.instructions);
    }
    Ok(())
}

/// The count of an event that shared counters in rotation is an estimate, marked as one, and near the truth.
fn turns(pmu: &Pmu) -> Result<()> {
    let stat = counted(&["-e", &user_mode(pmu.many), "--", LONG.path])?;
    let mut scaled = 0;
    for index in 0..pmu.many.len() {
        if stat.metric(index)?["count"] != "scaled" {
            stat.equals(index, LONG.instructions, 1)?;
            continue;
        }
        scaled += 1;
        shares(stat.metric(index)?)?;
        let value = stat.metric(index)?["mean"].as_f64().context("no estimate")?;
        let ratio = value / LONG.instructions as f64;
        let near = (1.0 / pmu.off_by..pmu.off_by).contains(&ratio);
        ensure!(near, "{value} is not near {}\n{}", LONG.instructions, stat.finished.printed());
    }
    ensure!(scaled >= 2, "{scaled} events shared counters in rotation\n{}", stat.finished.printed());
    Ok(())
}

/// An estimate reports the share of the time that was observed: more than none and less than all.
fn shares(metric: &serde_json::Value) -> Result<()> {
    let value = &metric["values"][0];
    let time = |field: &str| value[field].as_u64().with_context(|| format!("no {field}: {value}"));
    let (enabled, running) = (time("time_enabled_ns")?, time("time_running_ns")?);
    let (raw, estimate) = (time("raw")?, value["value"].as_f64().context("no estimate")?);
    ensure!(0 < running && running < enabled, "observed {running} of {enabled} ns");
    ensure!(raw > 0 && (raw as f64) < estimate, "estimate {estimate} from {raw}");
    let interval = metric["interval"].is_object() || metric["interval_reason"].is_string();
    ensure!(interval, "neither an interval nor why there is none: {metric}");
    Ok(())
}

fn too_big(pmu: &Pmu) -> Result<()> {
    let group = format!("{{{}}}", user_mode(pmu.many));
    run(Who::Root, TOOL, &["stat", "-e", &group, "--", LOOP.path])?
        .expect(125)?
        .says(&["does not fit", "help:"])
}

fn user_mode(events: &[&str]) -> String {
    events.iter().map(|event| format!("{event}:u")).collect::<Vec<_>>().join(",")
}

fn core_types(pmu: &Pmu) -> Result<()> {
    let stat = counted(&["-a", "-e", "instructions:uk", "--", LOOP.path])?;
    let parts = stat.metric(0)?["parts"].as_array().context("no parts")?;
    let text = serde_json::Value::from(parts.clone()).to_string();
    for name in pmu.core_pmus {
        ensure!(text.contains(name), "{name} is not among {text}");
    }
    Ok(())
}
