//! Cycles and instructions on a Mac without root: the program on a library that behaves as macOS does.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::support;

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use support::{cyclometer, one_line, schema, stderr, stdout, unwrapped};
use tempfile::TempDir;

/// An M4 with macOS 15, on which each process has executed the same work when it ends.
const SAME_WORK: &str = "chip apple-m4\ncpus 10\nmacos 15.0\nuser\nprocess loop:100 75\n";

/// The same Mac, on which processes work as long as they use a CPU.
const REAL_TIME: &str = "chip apple-m4\ncpus 10\nmacos 15.0\nuser\nprocess loop 75\n";

fn mac(scenario: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    cyclometer_fake_kperf::install(folder.path(), scenario);
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/machines");
    std::fs::copy(fixtures.join("m4-macos.txt"), folder.path().join("machine")).unwrap();
    folder
}

fn run(mac: &TempDir, arguments: &[&str]) -> Output {
    cyclometer().args(arguments).env("CYCLOMETER_FAKE_DEVICES", mac.path()).output().unwrap()
}

/// The first command in the JSON of `stat`.
fn json(mac: &TempDir, arguments: &[&str]) -> Value {
    let file = mac.path().join("out.json");
    let export = ["--export-json", file.to_str().unwrap()];
    let out = run(mac, &[&["stat"], &export[..], arguments].concat());
    assert!(file.exists(), "{}", stderr(&out));
    let told: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert!(schema("stat-1.json").is_valid(&told), "{told}");
    told["commands"][0].clone()
}

fn metric<'a>(command: &'a Value, name: &str) -> &'a Value {
    let metrics = command["metrics"].as_array().unwrap();
    metrics.iter().find(|metric| metric["name"] == name).unwrap_or_else(|| panic!("no {name}: {command}"))
}

/// A process that lasts until the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The cycles of 100 ms of work on an M4: those of its chip, and some of the kernel's timer.
fn is_the_work(cycles: f64) -> bool {
    let megahertz = cyclometer_sim::Model::find("apple-m4").unwrap().mhz;
    let expected = (megahertz * 100_000) as f64;
    (expected * 0.999..expected * 1.01).contains(&cycles)
}

#[test]
fn a_command_has_cycles_and_instructions_without_root() {
    let command = json(&mac(SAME_WORK), &["--", "true"]);
    let cycles = metric(&command, "cycles:uk");
    assert!(is_the_work(cycles["mean"].as_f64().unwrap()), "{cycles}");
    let expected = ["exact", "hardware", "selfcounts", "uk"];
    let found =
        ["count", "provenance", "source", "modes"].map(|key| cycles[key].as_str().unwrap_or_default());
    assert_eq!(found, expected, "{cycles}");
    assert_eq!(metric(&command, "instructions:uk")["count"], "exact");
    let mean = |name: &str| metric(&command, name)["mean"].as_f64().unwrap();
    let ipc = mean("instructions:uk") / mean("cycles:uk");
    assert!((2.9..3.01).contains(&ipc), "{ipc}");
    assert_eq!(command["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn core_types_and_energy_are_shares_of_the_whole() {
    let list = "cycles,pcore_cycles,ecore_cycles,instructions,pcore_instructions,ecore_instructions,\
                process_energy,pcore_energy";
    let command = json(&mac(SAME_WORK), &["-e", list, "--", "true"]);
    let mean = |name: &str| metric(&command, name)["mean"].as_f64().unwrap();
    let share = mean("pcore_cycles:uk") / mean("cycles:uk");
    assert!((0.749..0.751).contains(&share), "{share}");
    for what in ["cycles", "instructions"] {
        let parts = mean(&format!("pcore_{what}:uk")) + mean(&format!("ecore_{what}:uk"));
        assert_eq!(parts, mean(&format!("{what}:uk")));
    }
    let energy = mean("process_energy");
    assert!((0.1..10.0).contains(&energy) && mean("pcore_energy") < energy, "joules: {energy}");
    assert_eq!(metric(&command, "process_energy")["unit"], "J");
}

#[test]
fn children_are_not_in_the_account_and_the_count_says_so() {
    let mac = mac(SAME_WORK);
    let command = json(&mac, &["-e", "cycles", "--", "sh", "-c", "ls / >/dev/null; true"]);
    let cycles = metric(&command, "cycles:uk");
    assert_eq!(cycles["count"], "partial", "{cycles}");
    assert!(cycles["reason"].as_str().unwrap().contains("without its children"), "{cycles}");
    let out = run(&mac, &["stat", "--strict", "-e", "cycles", "--", "sh", "-c", "ls / >/dev/null; true"]);
    assert_eq!(out.status.code(), Some(124), "{}", stderr(&out));
    let out = run(&mac, &["stat", "--strict", "-e", "cycles", "--", "true"]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
}

#[test]
fn intervals_are_read_from_the_running_command_and_add_up_to_the_total() {
    let work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let mac = mac(REAL_TIME);
    let out = run(&mac, &["stat", "-I", "50", "-e", "cycles", "--", "sh", "-c", work]);
    let text = stderr(&out);
    let is_row = |line: &&str| line.contains("cycles:uk") && line.trim_start().contains('.');
    let number = |word: &str| word.replace(',', "").parse::<u64>().ok();
    let rows: Vec<u64> = text
        .lines()
        .take_while(|line| !line.contains("1 run"))
        .filter(is_row)
        .filter_map(|line| number(line.split_whitespace().nth(1)?))
        .collect();
    let summary = text.lines().skip_while(|line| !line.contains("1 run"));
    let total = summary.filter(|line| line.trim_start().starts_with("cycles:uk"));
    let total: Vec<u64> = total.filter_map(|line| number(line.split_whitespace().nth(1)?)).collect();
    assert!(rows.len() > 1 && rows.iter().all(|row| *row > 0), "{text}");
    assert_eq!(total, [rows.iter().sum::<u64>()], "{text}");
}

#[test]
fn a_running_process_is_counted_while_another_command_lasts() {
    let work = "while true; do :; done";
    let busy = Command::new("sh").args(["-c", work]).stdin(Stdio::null()).spawn().unwrap();
    let busy = Running(busy);
    let pid = busy.0.id().to_string();
    let command = json(&mac(REAL_TIME), &["-e", "cycles", "-p", &pid, "--", "sleep", "0.5"]);
    let cycles = metric(&command, "cycles:uk");
    assert!(cycles["mean"].as_f64().unwrap() > 0.0, "{cycles}");
    assert_eq!((&cycles["scope"], &cycles["count"]), (&"tree".into(), &"exact".into()));
}

#[test]
fn a_process_that_did_not_run_meanwhile_counted_zero_and_has_no_broken_counter() {
    let stopped = Running(Command::new("sleep").arg("100").stdin(Stdio::null()).spawn().unwrap());
    let pid = stopped.0.id().to_string();
    assert!(Command::new("kill").args(["-STOP", &pid]).status().unwrap().success());
    let is_stopped = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ");
    while !is_stopped() {
        std::thread::yield_now();
    }
    let command = json(&mac(REAL_TIME), &["-e", "cycles,pcore_cycles", "-p", &pid, "--", "true"]);
    for name in ["cycles:uk", "pcore_cycles:uk"] {
        let metric = metric(&command, name);
        assert_eq!((&metric["count"], &metric["mean"]), (&"exact".into(), &0.into()), "{metric}");
    }
}

#[test]
fn core_types_are_not_counted_where_all_cores_are_of_one_type() {
    let mac = mac(SAME_WORK);
    let machine = mac.path().join("machine");
    let recorded = std::fs::read_to_string(&machine).unwrap();
    let levels = recorded.replace("sysctl hw.nperflevels 2", "sysctl hw.nperflevels 1");
    assert_ne!(levels, recorded);
    std::fs::write(&machine, levels).unwrap();
    let command = json(&mac, &["-e", "cycles,ecore_cycles,process_energy", "--", "true"]);
    let metrics = command["metrics"].as_array().unwrap();
    let counted: Vec<bool> = metrics.iter().map(|metric| !metric["mean"].is_null()).collect();
    assert_eq!(counted, [true, false, true], "{metrics:?}");
    assert_eq!(metrics[1]["count"], "not_supported", "{metrics:?}");
}

#[test]
fn user_mode_alone_whole_cpus_and_branches_are_refused_with_the_reason() {
    let mac = mac(SAME_WORK);
    let told = |arguments: &[&str]| {
        unwrapped(&run(&mac, &[&["stat", "--backend", "selfcounts"], arguments].concat()))
    };
    let out = told(&["-e", "cycles:u", "--", "true"]);
    assert!(out.contains("macOS accounts cycles in user and kernel mode together"), "{out}");
    let out = told(&["-e", "cycles", "-a", "--", "true"]);
    assert!(out.contains("for processes and the calling thread without root, not for CPUs"), "{out}");
    let out = told(&["-e", "branches", "--", "true"]);
    assert!(out.contains("the requested source 'selfcounts' does not count it"), "{out}");
}

#[test]
fn a_call_that_fails_costs_the_count_and_not_the_command() {
    let always = |errno: &str| mac(&format!("{SAME_WORK}fail proc_pid_rusage always {errno}\n"));
    let out = run(&always("EPERM"), &["stat", "-e", "cycles", "--", "sh", "-c", "echo ran"]);
    assert_eq!((stdout(&out).as_str(), out.status.code()), ("ran\n", Some(0)));
    assert!(unwrapped(&out).contains("to its own user and to root only"), "{}", unwrapped(&out));
    // The first call opens, the second one starts, the third one is made between end and reaping.
    let last = mac(&format!("{SAME_WORK}fail proc_pid_rusage 3 EINVAL\nfail proc_pid_rusage 4 EINVAL\n"));
    let command = json(&last, &["-e", "cycles", "--", "true"]);
    let cycles = metric(&command, "cycles:uk");
    assert_eq!((&cycles["count"], &cycles["mean"]), (&"lost".into(), &Value::Null), "{cycles}");
}

#[test]
fn a_virtual_machine_without_counters_never_shows_zero() {
    let events = "cycles,instructions,pcore_cycles,ecore_instructions,process_energy,pcore_energy";
    let command = json(&mac(&format!("{SAME_WORK}vm\n")), &["-e", events, "--", "true"]);
    for metric in command["metrics"].as_array().unwrap() {
        assert_eq!(metric["mean"], Value::Null, "{metric}");
    }
    for name in ["cycles:uk", "instructions:uk"] {
        assert_eq!(metric(&command, name)["mean"], Value::Null, "{command}");
        assert_eq!(metric(&command, name)["count"], "not_counted", "{command}");
    }
}

#[test]
fn an_early_macos_has_totals_and_says_what_it_lacks() {
    let early = SAME_WORK.replace("macos 15.0", "macos 12.0");
    let command = json(&mac(&early), &["-e", "cycles,pcore_cycles", "--", "true"]);
    assert!(is_the_work(metric(&command, "cycles:uk")["mean"].as_f64().unwrap()), "{command}");
    let metrics = command["metrics"].as_array().unwrap();
    let lacking = metrics.iter().find(|metric| metric["mean"].is_null()).unwrap();
    assert!(lacking["reason"].as_str().unwrap().contains("from 13 on"), "{lacking}");
}

#[test]
fn commands_are_compared_by_instructions() {
    let mac = mac(SAME_WORK);
    let out = run(&mac, &["compare", "-r", "6", "-e", "instructions", "true", "true"]);
    let text = one_line(&stdout(&out));
    assert_eq!(out.status.code(), Some(0), "{text}");
    assert!(text.contains("instructions:uk") && text.contains("= same"), "{text}");
}

#[test]
fn doctor_and_list_say_what_is_counted_without_root() {
    let mac = mac(SAME_WORK);
    let out = one_line(&stdout(&run(&mac, &["doctor"])));
    assert!(out.contains("selfcounts works"), "{out}");
    assert!(out.contains("user and kernel mode together, without child processes"), "{out}");
    let out = stdout(&run(&mac, &["list", "--json", "pcore"]));
    let listed: Value = serde_json::from_str(&out).unwrap();
    assert!(schema("list-1.json").is_valid(&listed), "{listed}");
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().filter_map(|event| event["name"].as_str()).collect();
    assert_eq!(names, ["pcore_cycles", "pcore_instructions", "pcore_energy"]);
}

#[test]
fn as_root_rows_end_at_instructions_of_each_thread() {
    let mac = mac("chip apple-m4\ncpus 2\nmacos 15.0\nworkload 0 loop\nworkload 1 memory\n");
    let machine = mac.path().join("machine");
    let recorded =
        std::fs::read_to_string(&machine).unwrap().replace("euid 501", "euid 0").replace("cpus 10", "cpus 2");
    std::fs::write(&machine, recorded).unwrap();
    let file = mac.path().join("rows");
    let file = file.to_str().unwrap();
    let command = ["-e", "CORE_ACTIVE_CYCLE", "-o", file, "--", "sleep", "0.3"];
    let every = ["record", "--every", "1000000:INST_ALL"];
    let out = run(&mac, &[&every[..], &["--backend", "kperf"], &command].concat());
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    assert!(unwrapped(&out).contains("one every 1,000,000 INST_ALL:u"), "{}", unwrapped(&out));
    let rows = stdout(&run(&mac, &["convert", file, "--to", "csv"]));
    let mut lines = rows.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let windows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let windows: Vec<_> = windows.iter().filter(|row| row[column("cause")] == "boundary").collect();
    assert!(windows.len() > 10, "{rows}");
    for row in windows {
        assert!(row[column("INST_ALL:u")].parse::<u64>().unwrap() > 0, "{row:?}");
        assert_eq!(row[column("INST_ALL:u.count")], "exact", "{row:?}");
        assert!(["4096", "4097"].contains(&row[column("tid")]), "{row:?}");
    }
    let out = run(&mac, &[&every[..], &command].concat());
    assert!(unwrapped(&out).contains("one every 1,000,000 INST_ALL:u"), "{}", unwrapped(&out));
    // As root kperf counts the leader, too; the sums of macOS raise no interrupt.
    let out = run(&mac, &["record", "--every", "1000000", "-o", file, "--", "sleep", "0.1"]);
    assert!(unwrapped(&out).contains("one every 1,000,000 instructions:u"), "{}", unwrapped(&out));
    let by_sums = ["--backend", "selfcounts", "-o", file, "--", "true"];
    let out = run(&mac, &[&["record", "--every", "1000000"], &by_sums[..]].concat());
    assert_eq!(out.status.code(), Some(125), "{}", unwrapped(&out));
}

#[test]
fn rows_of_a_recording_end_at_times_and_not_at_instructions() {
    let mac = mac(REAL_TIME);
    let file = mac.path().join("rows");
    let file = file.to_str().unwrap();
    let out = run(&mac, &["record", "-e", "instructions", "--every", "100000", "-o", file, "--", "true"]);
    assert_eq!(out.status.code(), Some(125));
    assert!(unwrapped(&out).contains("--interval"), "{}", unwrapped(&out));
    let work = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let out = run(&mac, &["record", "-e", "cycles", "-I", "20", "-o", file, "--", "sh", "-c", work]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    assert!(Path::new(file).exists());
}
