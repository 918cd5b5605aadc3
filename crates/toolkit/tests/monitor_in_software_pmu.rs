//! A program that counts its own regions while the software PMU runs it: neither loses its counts. The
//! program is this one.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;

use cyclometer_core::Target;
use cyclometer_kernels::{Kernel, KernelMemory, Rounds};
use cyclometer_test_support::skip;
use cyclometer_toolkit::{
    Command, CommandSpec, CountedScope, Launcher, Measured, Monitor, OutputStream, Rung, diagnosed_machine,
    machine,
};

/// Gives the program its task, and the file for its results.
const ASKED: &str = "CYCLOMETER_TEST_PROGRAM";
const FOUND: &str = "CYCLOMETER_TEST_FOUND";

#[test]
fn program() {
    let (Ok(asked), Ok(file)) = (std::env::var(ASKED), std::env::var(FOUND)) else { return };
    let found = match asked.as_str() {
        "threads" => in_threads(),
        "process" => of_the_process(),
        "machines" => every_question_about_the_machine(),
        "times" => times_around_a_pause(),
        other => panic!("no program {other}"),
    };
    std::fs::write(file, found.join("\n")).unwrap();
}

fn additions(rounds: u32, memory: &mut KernelMemory) {
    Kernel::Additions.run(Rounds::new(rounds).unwrap(), memory);
}

fn instructions(rounds: u32) -> u64 {
    Kernel::Additions.counts(Rounds::new(rounds).unwrap()).instructions
}

/// The rounds of the loops; the rest of each region counts the same.
const ROUNDS: [u32; 3] = [1000, 2000, 4000];

/// An event of a region: its number, or the reason why there is none.
fn value(measured: &Measured, event: &str) -> String {
    match measured.get(event) {
        Some(value) => value.number().map_or_else(|| value.reason().unwrap_or_default(), |n| n.to_string()),
        None => "no such event".to_owned(),
    }
}

fn in_threads() -> Vec<String> {
    let monitor = Monitor::builder().event("instructions,cycles,wall_time").build().unwrap();
    std::thread::scope(|scope| {
        for rounds in ROUNDS {
            let monitor = &monitor;
            scope.spawn(move || {
                let mut memory = KernelMemory::new();
                monitor.measure("first", || additions(10, &mut memory));
                monitor.measure(&rounds.to_string(), || additions(rounds, &mut memory));
            });
        }
    });
    let of = |label: String, event| value(&monitor.total(&label).unwrap(), event);
    let instructions = ROUNDS.iter().map(|rounds| of(rounds.to_string(), "instructions"));
    let first = monitor.total("first").unwrap();
    let has_net = |event| first.get(event).is_some_and(|value| value.net.is_some()).to_string();
    let others = [value(&first, "cycles"), has_net("instructions"), has_net("wall_time")];
    instructions.chain(others).collect()
}

fn of_the_process() -> Vec<String> {
    let builder = Monitor::builder().event("instructions,page-faults").scope(CountedScope::Process);
    let monitor = builder.build().unwrap();
    monitor.measure("loop", || additions(1000, &mut KernelMemory::new()));
    let total = monitor.total("loop").unwrap();
    vec![value(&total, "instructions"), value(&total, "page-faults")]
}

fn every_question_about_the_machine() -> Vec<String> {
    let works = |machine: cyclometer_toolkit::Machine| {
        let state = machine.ladder.state(Rung::Soft).cloned().unwrap();
        format!("{}: {}", state.works.word(), state.causes.first().map_or("", |cause| cause.text.as_str()))
    };
    vec![works(machine()), works(diagnosed_machine())]
}

/// The length of a pause between two reads.
const PAUSE: Duration = Duration::from_millis(5);

/// The enabled and running time in ns of a thread that pauses.
fn times_around_a_pause() -> Vec<String> {
    let monitor = Monitor::builder().event("instructions").backend(Rung::Soft).build().unwrap();
    let slots = monitor.plan().passes[0].of(Rung::Soft);
    let sources = cyclometer_backend::region_sources(Err("not asked for".to_owned()));
    let source = sources.iter().find(|source| source.rung() == Rung::Soft).unwrap();
    let mut counting = source.open(&slots, &Target::ThisThread).unwrap();
    let mut samples = Vec::new();
    counting.sample(&mut samples).unwrap();
    std::thread::sleep(PAUSE);
    counting.sample(&mut samples).unwrap();
    let [first, second] = samples.as_slice() else { panic!("one event: {samples:?}") };
    let times =
        [second.time_enabled_ns - first.time_enabled_ns, second.time_running_ns - first.time_running_ns];
    times.map(|time| time.to_string()).to_vec()
}

/// Runs the program under the software PMU; returns the software PMU's count and the program's own. `None`,
/// and a word why, where there is no software PMU.
fn counted(asked: &str) -> Option<(f64, Vec<String>)> {
    let here = diagnosed_machine();
    let state = here.ladder.state(Rung::Soft).unwrap();
    if let Some(cause) = state.causes.first() {
        skip(&cause.text);
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("found");
    let mut spec = CommandSpec::new("env");
    let own = std::env::current_exe().unwrap();
    spec.args = vec![
        format!("{ASKED}={asked}").into(),
        format!("{FOUND}={}", file.display()).into(),
        own.into(),
        "--exact".into(),
        "monitor_in_software_pmu::program".into(),
    ];
    spec.stdout = OutputStream::Null;
    let launcher = Launcher::start().unwrap();
    let summary =
        Command::new(spec).backend(Rung::Soft).events("instructions").unwrap().run(&launcher).unwrap();
    let found = std::fs::read_to_string(&file).unwrap();
    let line = &summary.lines[0];
    let whole = line.statistics.mean.unwrap_or_else(|| panic!("{asked}: {:?}", line.reason));
    Some((whole, found.lines().map(str::to_owned).collect()))
}

#[test]
fn the_regions_of_each_thread_and_the_whole_are_counted() {
    let Some((whole, found)) = counted("threads") else { return };
    let counts: Vec<u64> = found[..3].iter().map(|count| count.parse().unwrap()).collect();
    let around: Vec<u64> =
        ROUNDS.iter().zip(&counts).map(|(rounds, count)| count - instructions(*rounds)).collect();
    // In builds with checks a copy takes another path where it goes to a higher address.
    let (least, most) = (around.iter().min().unwrap(), around.iter().max().unwrap());
    assert!(*most < 5000 && most - least <= 8, "{found:?}: {around:?} around the loops");
    assert!(whole > counts.iter().sum::<u64>() as f64, "{whole}: {counts:?}");
    assert!(found[3].parse::<u64>().is_err() || has_cycles(), "a reason why there are no cycles: {found:?}");
    assert_eq!(found[4..], ["true", "false"], "two measurements are too few for the bias of a clock");
}

fn has_cycles() -> bool {
    machine().ladder.perf_hardware.is_ok()
}

#[test]
fn what_the_software_pmu_does_not_tell_has_a_reason_and_the_whole_is_counted() {
    let Some((_, found)) = counted("process") else { return };
    assert!(found[0].parse::<u64>().is_err() && !found[0].is_empty() || has_cycles(), "{found:?}");
    assert!(found[1].parse::<u64>().is_ok(), "{found:?}");
}

#[test]
fn no_question_about_the_machine_disturbs_what_counts_the_program() {
    let Some((_, found)) = counted("machines") else { return };
    let already = "no: it already counts this process and what that starts";
    assert!(found.len() == 2 && found.iter().all(|answer| answer.starts_with(already)), "{found:?}");
}

#[test]
fn the_times_of_a_thread_are_nanoseconds() {
    let Some((_, found)) = counted("times") else { return };
    let times: Vec<u128> = found.iter().map(|time| time.parse().unwrap()).collect();
    assert!(times[0] >= PAUSE.as_nanos() && times[0] == times[1], "{times:?}");
}
