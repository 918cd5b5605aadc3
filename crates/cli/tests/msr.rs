//! `stat --backend msr` on simulated chips behind sockets: from the command line to the registers and back.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::fake_devices;
use crate::support;

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use cyclometer_core::CounterId;
use cyclometer_sim::{InjectedFault, Model, Settings, SimMachine, Workload};
use fake_devices::{EPERM, FakeDevices, VARIABLE, recording};
use serde_json::Value;
use support::{cyclometer, skip, stderr, stdout};

/// A machine of two CPUs that are never idle.
fn busy(model: &str, machine: &str, troubles: &[InjectedFault]) -> FakeDevices {
    let settings = Settings { cpus: 2, ..Settings::default() };
    let mut sim = SimMachine::new(Model::find(model).unwrap(), settings);
    for cpu in 0..2 {
        sim.spawn(Workload::named("loop").unwrap(), &[cpu]).unwrap();
    }
    troubles.iter().for_each(|trouble| sim.inject(*trouble).unwrap());
    FakeDevices::start_on(sim, &recording(machine, 2))
}

fn skylake() -> FakeDevices {
    busy("skylake", "skylake", &[])
}

fn command(devices: &FakeDevices, words: &[&str]) -> Command {
    let mut command = cyclometer();
    command.args(["stat", "--backend", "msr"]).args(words).env(VARIABLE, devices.folder());
    command
}

fn stat(devices: &FakeDevices, words: &[&str]) -> Output {
    command(devices, words).output().unwrap()
}

fn metrics(devices: &FakeDevices, words: &[&str]) -> Vec<Value> {
    let out = stat(devices, &[&["--json", "--output", "null"], words].concat());
    assert!(out.status.success(), "{}", stderr(&out));
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    report["commands"][0]["metrics"].as_array().unwrap().clone()
}

/// The registers that a driver may have changed, of both CPUs.
fn controls(devices: &FakeDevices) -> Vec<u64> {
    let names = [
        "IA32_PERFEVTSEL0",
        "IA32_PERFEVTSEL1",
        "IA32_PERFEVTSEL2",
        "IA32_PERFEVTSEL3",
        "IA32_FIXED_CTR_CTRL",
        "IA32_PERF_GLOBAL_CTRL",
        "IA32_PMC0",
        "IA32_PMC3",
        "IA32_FIXED_CTR0",
        "IA32_FIXED_CTR1",
    ];
    (0..2).flat_map(|cpu| names.map(|name| devices.register(cpu, name))).collect()
}

/// The seed's events: mispredicted branches, misses of the last level, loads, stores, and the fixed counters.
const SEED: &str = "INST_RETIRED.ANY,CPU_CLK_UNHALTED.THREAD,CPU_CLK_UNHALTED.REF_TSC,BR_MISP_RETIRED.ALL_BRANCHES,\
                    LONGEST_LAT_CACHE.MISS,MEM_INST_RETIRED.ALL_LOADS,MEM_INST_RETIRED.ALL_STORES";

#[test]
fn fixed_and_programmable_counters_of_cpus_are_counted_and_left_as_they_were() {
    let devices = skylake();
    // Leftovers of another program and of the BIOS: counters are enabled, but none counts.
    for cpu in 0..2 {
        devices.set_register(cpu, "IA32_PERF_GLOBAL_CTRL", 0xf);
        devices.set_register(cpu, "IA32_PERFEVTSEL1", 0x13_00c0);
        devices.set_register(cpu, "IA32_PMC0", 1234);
    }
    let before = controls(&devices);
    let began = Instant::now();
    let found = metrics(&devices, &["-a", "-e", SEED, "--", "sleep", "0.2"]);
    let most = 6e9 * began.elapsed().as_secs_f64();
    assert_eq!(found.len(), 7);
    for metric in &found {
        assert_eq!((&metric["count"], &metric["source"]), (&"exact".into(), &"msr".into()), "{metric}");
        assert_eq!(metric["scope"], "system");
    }
    let mean = |i: usize| found[i]["mean"].as_f64().unwrap();
    // Both CPUs at 3,000 cycles a microsecond and three instructions in each; sockets take their time.
    assert!((1.1e9..most).contains(&mean(1)), "{} of at most {most}", mean(1));
    assert!((mean(0) / mean(1) - 3.0).abs() < 0.05, "{} {}", mean(0), mean(1));
    assert!((mean(5) / mean(1) - 0.75).abs() < 0.05, "{} {}", mean(5), mean(1));
    assert_eq!(controls(&devices), before);
    assert_eq!(journals(&devices), 0);
}

fn journals(devices: &FakeDevices) -> usize {
    std::fs::read_dir(devices.journals()).map_or(0, Iterator::count)
}

#[test]
fn what_is_written_first_is_what_the_seed_writes() {
    let devices = skylake();
    let found = metrics(&devices, &["-C", "0", "-e", SEED, "--", "true"]);
    assert_eq!(found[3]["count"], "exact");
    let written = devices.written();
    let last = |name: &str| {
        let mut own = written.iter().filter(|one| one.register.to_string() == name && one.value != 0);
        own.next_back().map_or(0, |one| one.value)
    };
    assert_eq!(last("IA32_FIXED_CTR_CTRL"), 0x222, "user mode only, and no interrupts");
    assert_eq!(last("IA32_PERF_GLOBAL_CTRL"), 0x7_0000_000f);
    let selects: Vec<u64> = (0..4).map(|n| last(&format!("IA32_PERFEVTSEL{n}"))).collect();
    let mut sorted = selects.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [0x41_00c5, 0x41_412e, 0x41_81d0, 0x41_82d0], "{selects:x?}");
    assert!(written.iter().all(|one| one.cpu == 0));
}

#[test]
fn a_command_is_bound_to_a_cpu_and_everything_there_is_counted() {
    let devices = skylake();
    let found = metrics(&devices, &["-e", "instructions", "--", "sleep", "0.05"]);
    assert_eq!(found[0]["count"], "partial");
    let reason = found[0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("everything on CPU ") && reason.contains("bound"), "{reason}");
    let allowed =
        stat(&devices, &["-e", "instructions", "--", "grep", "Cpus_allowed_list", "/proc/self/status"]);
    let list = stdout(&allowed);
    assert!(list.trim().rsplit('\t').next().unwrap().parse::<u32>().is_ok(), "one CPU: {list}");
}

#[test]
fn rows_come_at_intervals_and_add_up() {
    let devices = skylake();
    let out = stat(&devices, &["-C", "1", "-e", "cycles", "-I", "50", "--", "sleep", "0.4"]);
    let error = stderr(&out);
    let rows = error.lines().filter(|line| line.contains("cycles:u") && line.trim().starts_with("0."));
    let counts: Vec<f64> =
        rows.filter_map(|row| row.split_whitespace().nth(1)?.replace(',', "").parse().ok()).collect();
    assert!(counts.len() >= 4, "{error}");
    assert!(counts.iter().all(|count| *count > 0.0), "{error}");
}

#[test]
fn more_events_than_counters_take_turns() {
    let devices = skylake();
    let events = format!("{SEED},MEM_LOAD_RETIRED.L1_MISS,BR_INST_RETIRED.ALL_BRANCHES");
    let found = metrics(&devices, &["-C", "0", "-e", &events, "--", "sleep", "0.6"]);
    let scaled = found.iter().filter(|metric| metric["count"] == "scaled").count();
    assert!(scaled >= 2, "{found:?}");
    assert_eq!(found[0]["count"], "exact", "a fixed counter takes no turns");
    assert_eq!(controls(&devices)[..4], [0; 4]);
}

#[test]
fn a_pmu_that_somebody_has_is_refused_with_the_cause() {
    let watchdog = InjectedFault::Watchdog { cpu: 1, counter: CounterId::Fixed(1), period_cycles: 1 << 40 };
    let devices = busy("skylake", "skylake", &[watchdog]);
    let before = controls(&devices);
    let out = stat(&devices, &["-a", "-e", "branches", "--", "true"]);
    assert_eq!(out.status.code(), Some(125));
    let error = stderr(&out);
    assert!(error.contains("counter fixed 1 of CPU 1 is in use by other software"), "{error}");
    assert!(error.contains("help: "), "{error}");
    let after = controls(&devices);
    let moving = 2 * 10 - 1;
    assert_eq!(after[..moving], before[..moving], "only the watchdog's counter goes on");
}

#[test]
fn registers_that_cannot_be_written_and_writes_that_vanish_are_told() {
    let devices = skylake();
    devices.refuse_writes(Some(EPERM));
    let out = stat(&devices, &["-C", "0", "-e", "branches", "--", "true"]);
    assert_eq!(out.status.code(), Some(125), "{}", stderr(&out));
    assert!(stderr(&out).contains("cannot write IA32_"), "{}", stderr(&out));
    let ignoring = busy("skylake", "skylake", &[InjectedFault::IgnoreWrites]);
    let out = stat(&ignoring, &["-C", "0", "-e", "branches", "--", "true"]);
    assert_eq!(out.status.code(), Some(125));
    assert!(stderr(&out).contains("does not let us have the PMU"), "{}", stderr(&out));
}

#[test]
fn a_counter_that_is_taken_away_is_lost_and_no_number() {
    let thief = InjectedFault::StealCounter { cpu: 0, counter: 2, after_ns: 500_000_000 };
    let devices = busy("skylake", "skylake", &[thief]);
    let found = metrics(&devices, &["-C", "0", "-e", "branches@2", "--", "sleep", "1.5"]);
    assert_eq!((&found[0]["count"], &found[0]["mean"]), (&"lost".into(), &Value::Null), "{found:?}");
    assert!(found[0]["reason"].as_str().unwrap().contains("IA32_PERFEVTSEL2 of CPU 0"), "{found:?}");
}

#[test]
fn what_always_counts_misses_no_change_of_turns() {
    // How long the change of turns takes depends on who uses the machine beside us.
    if !(0..5).any(|_| is_rest_of_turns_estimated()) {
        skip("the machine is too busy to judge an estimate");
    }
}

/// Rotates events on the fake registers, and checks what is exact; and what is estimated, unless the changes
/// of turns took too long for that: `false`.
fn is_rest_of_turns_estimated() -> bool {
    let devices = skylake();
    let few = "CPU_CLK_UNHALTED.THREAD,INST_RETIRED.ANY";
    let many = format!(
        "{few},branches,branch-misses,MEM_INST_RETIRED.ALL_LOADS,MEM_INST_RETIRED.ALL_STORES,MEM_LOAD_RETIRED.L1_MISS,\
         LONGEST_LAT_CACHE.MISS,LONGEST_LAT_CACHE.REFERENCE"
    );
    let found = metrics(&devices, &["-C", "0", "-e", &many, "--", "sleep", "1"]);
    assert_eq!((&found[0]["count"], &found[8]["count"]), (&"exact".into(), &"scaled".into()));
    let branches = &found[2];
    let number = |name: &str| branches["values"][0][name].as_f64().unwrap();
    let (raw, enabled, running) = (number("raw"), number("time_enabled_ns"), number("time_running_ns"));
    let global = |values: &WrittenValues| values.get("IA32_PERF_GLOBAL_CTRL").copied().unwrap_or(0);
    // 3 cycles a ns, in one time without a gap. Simulated time is real time, so nothing depends on how long
    // an access takes: the program's writes tell when something counted.
    let always = counted(&devices, 0, |values| global(values) & (1 << 33) != 0).pop().unwrap();
    let cycles = found[0]["mean"].as_f64().unwrap();
    let all_cycles = 3.0 * sum_ns(&[always]);
    assert!(cycles > 2.98e9 && (cycles / all_cycles - 1.0).abs() < 0.001, "{cycles} of {all_cycles}");
    // 0.375 branches a cycle, in each time in which they counted.
    let own = counted(&devices, 0, |values| counts(values, "IA32_PERFEVTSEL", global(values), 0xc4));
    let own_ns = sum_ns(&own);
    assert!(running < own_ns && own_ns < enabled, "{running} {own_ns} {enabled}");
    assert!((1.125 * running..1.125 * own_ns * 1.001).contains(&raw), "{running} {raw} {own_ns}");
    // The rest of the time is counted at their rate, within a tenth, if they were known to count for nearly
    // as long as they did. The change of turns before each time is slow by sockets; it may be taken for time
    // without branches.
    let any = counted(&devices, 0, |values| global(values) & 0xf != 0);
    let changes: f64 = own.iter().map(|time| (time.start - before(&any, time.start)) as f64).sum();
    if running < 0.97 * own_ns || changes > 0.3 * own_ns {
        return false;
    }
    let (least, most) = (0.9 * raw * enabled / (own_ns + changes), 1.1 * raw * enabled / running);
    assert!((least..most).contains(&number("value")), "{least} to {most}: {branches}");
    true
}

/// The end of the last time before a moment.
fn before(times: &[Range<u64>], moment: u64) -> u64 {
    times.iter().map(|time| time.end).filter(|end| *end <= moment).max().unwrap_or(0)
}

/// The enable bit of a select register.
const ENABLED: u64 = 1 << 22;

/// The values of a CPU's registers, by name, as far as the program has written them.
type WrittenValues = BTreeMap<String, u64>;

/// Whether a general counter counts an event, by the name of the select registers and the bits of the global
/// one.
fn counts(values: &WrittenValues, select: &str, global: u64, code: u64) -> bool {
    (0..8).any(|n| {
        let value = values.get(&format!("{select}{n}")).copied().unwrap_or(0);
        value & 0xff == code && value & ENABLED != 0 && global & (1 << n) != 0
    })
}

/// The times in which something counted on a CPU, in simulated ns, by the writes of the program.
fn counted(devices: &FakeDevices, cpu: u32, counts: impl Fn(&WrittenValues) -> bool) -> Vec<Range<u64>> {
    let (mut values, mut since, mut all) = (WrittenValues::new(), None, Vec::new());
    for one in devices.written().iter().filter(|one| one.cpu == cpu) {
        values.insert(one.register.to_string(), one.value);
        match (counts(&values), since) {
            (true, None) => since = Some(one.at_ns),
            (false, Some(began)) => {
                all.push(began..one.at_ns);
                since = None;
            }
            _ => {}
        }
    }
    all
}

fn sum_ns(times: &[Range<u64>]) -> f64 {
    times.iter().map(|time| time.end - time.start).sum::<u64>() as f64
}

#[test]
fn what_somebody_took_meanwhile_is_left_to_him() {
    let thief = InjectedFault::StealCounter { cpu: 0, counter: 2, after_ns: 600_000_000 };
    let devices = busy("skylake", "skylake", &[thief]);
    let found = metrics(&devices, &["-C", "0", "-e", "branches@2,branch-misses@1", "--", "sleep", "1.5"]);
    assert_eq!((&found[0]["count"], &found[1]["count"]), (&"lost".into(), &"exact".into()), "{found:?}");
    assert_eq!(devices.register(0, "IA32_PERFEVTSEL2"), 0x43_003c);
    assert_eq!(devices.register(0, "IA32_PERF_GLOBAL_CTRL"), 0b100, "his counter goes on, ours does not");
    assert_eq!(devices.register(0, "IA32_PERFEVTSEL1"), 0);
    let counted = devices.register(0, "IA32_PMC2");
    std::thread::sleep(Duration::from_millis(20));
    assert!(devices.register(0, "IA32_PMC2") > counted);
}

#[test]
fn a_command_that_leaves_its_cpu_is_lost() {
    let devices = skylake();
    let found = metrics(&devices, &["-e", "instructions", "--", "taskset", "0x1", "sleep", "0.5"]);
    let moved = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1);
    let expected = if moved { "lost" } else { "partial" };
    assert_eq!(found[0]["count"], expected, "{found:?}");
}

#[test]
fn who_is_killed_leaves_the_registers_as_they_were() {
    let devices = skylake();
    let before = controls(&devices);
    let mut killed = command(&devices, &["-a", "-e", "branches,branch-misses", "--", "sleep", "30"]);
    let mut killed = killed.process_group(0).spawn().unwrap();
    let until = |what: &str, happened: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !happened() {
            assert!(began.elapsed() < Duration::from_secs(300), "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    until("it counts", &|| (0..2).all(|cpu| devices.register(cpu, "IA32_PERF_GLOBAL_CTRL") != 0));
    assert_eq!(journals(&devices), 2);
    killed.kill().unwrap();
    killed.wait().unwrap();
    until("registers are restored", &|| controls(&devices) == before);
    until("journals are gone", &|| journals(&devices) == 0);
    // Its command is in its process group; without the `--`, a `kill` that reads `-1234` as `-1` ends every
    // process.
    let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", killed.id())]).status();
}

#[test]
fn what_registers_cannot_count_is_refused() {
    let devices = skylake();
    for (words, message) in [
        (&["-p", "1", "-e", "branches"][..], "the source 'msr' counts CPUs"),
        (&["-C", "0", "-e", "branches@9", "--", "true"], ""),
    ] {
        let out = stat(&devices, words);
        let all = stderr(&out) + &stdout(&out);
        match message {
            "" => assert!(all.contains("cannot use counter 9 of skylake"), "{all}"),
            _ => assert!(all.contains(message) && out.status.code() == Some(125), "{all}"),
        }
    }
    assert_eq!(devices.written(), [], "nothing was written");
}

#[test]
fn nothing_is_written_unless_registers_are_asked_for() {
    let devices = skylake();
    let out = cyclometer()
        .args(["stat", "-e", "page-faults,wall_time", "--", "true"])
        .env(VARIABLE, devices.folder())
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", stderr(&out));
    assert_eq!(devices.written(), []);
}

#[test]
fn amd_is_counted_with_and_without_global_registers() {
    for (model, machine, is_global) in [("amdzen2", "zen2", false), ("amdzen4", "zen4", true)] {
        let devices = busy(model, machine, &[]);
        let found = metrics(&devices, &["-C", "1", "-e", "instructions,cycles", "--", "sleep", "0.2"]);
        assert_eq!(devices.register(1, "PERF_CTL0"), 0);
        // 3.4 cycles a ns with three instructions each, for as long as each counted by its own writes.
        for (metric, code, per_ns) in [(&found[0], 0xc0, 10.2), (&found[1], 0x76, 3.4)] {
            assert_eq!(metric["count"], "exact", "{model}: {found:?}");
            let event_counts = |values: &WrittenValues| {
                let global = values.get("PERF_CNTR_GLOBAL_CTL").copied();
                counts(values, "PERF_CTL", if is_global { global.unwrap_or(0) } else { u64::MAX }, code)
            };
            let time = counted(&devices, 1, event_counts).pop().unwrap();
            let last = sum_ns(&[time]);
            let mean = metric["mean"].as_f64().unwrap();
            assert!(
                (mean / (per_ns * last) - 1.0).abs() < 0.001,
                "{model}: {code:#x} {mean} in {last} ns, {:?}",
                devices.written()
            );
        }
    }
}
