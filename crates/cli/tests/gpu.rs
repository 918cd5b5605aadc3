//! GPUs of NVIDIA's: the program on a library that behaves as NVML does.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::support;

use std::process::Output;

use cyclometer_core::RefusalKind;
use cyclometer_core::nvml::{NvmlObstacle, NvmlReturn};
use cyclometer_fake_nvml::OPENED;
use cyclometer_test_support::executable;
use serde_json::Value;
use support::{cyclometer, one_line, schema, stderr, stdout};
use tempfile::TempDir;

/// A machine on which NVIDIA's driver is loaded.
const FACTS: &str = "note synthetic: a machine with GPUs\nos linux\narchitecture x86_64\nrelease 6.8.0\neuid 1000\n\
    cpus 2\nfile /sys/devices/system/cpu/online 0-1\nlist /dev nvidia0 nvidiactl\n\
    file /proc/driver/nvidia/version NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\n";

/// Two devices, of which the first is divided and the second reports little.
const TWO: &str = "driver 550.54.15\ndevice NVIDIA H100\nutilisation 40\nmemory-utilisation 7\nsm-clock 1980\n\
    memory-clock 2619\npower 250000\nenergy 1000000 +25000\nmemory-used 4096\npcie-rx 120000\npcie-tx 3000\n\
    temperature 51\nreasons 5\nprocess sleep 512\n\
    instance 1 MIG 1g.10gb\nmemory-used 1024\n\
    device Tesla P4\nutilisation 20\npower 10000\nmemory-used 100\ntemperature 63\n";

/// A machine with the devices of a scenario.
fn machine(scenario: &str) -> TempDir {
    machine_with(FACTS, scenario)
}

fn machine_with(facts: &str, scenario: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    cyclometer_fake_nvml::install(folder.path(), scenario);
    std::fs::write(folder.path().join("machine"), facts).unwrap();
    folder
}

fn run(machine: &TempDir, arguments: &[&str]) -> Output {
    cyclometer().args(arguments).env("CYCLOMETER_FAKE_DEVICES", machine.path()).output().unwrap()
}

/// The metrics of a command.
fn metrics(machine: &TempDir, events: &str, command: &[&str]) -> Vec<Value> {
    let file = machine.path().join("out.json");
    let options = ["stat", "-e", events, "--export-json", file.to_str().unwrap(), "--"];
    let out = run(machine, &[&options[..], command].concat());
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let told: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert!(schema("stat-1.json").is_valid(&told), "{told}");
    told["commands"][0]["metrics"].as_array().unwrap().clone()
}

fn reason(metric: &Value) -> &str {
    metric["reason"].as_str().unwrap_or_default()
}

/// Whether a metric has this mean. In a run of less than 1 ms a mean has few digits.
fn is_about(metric: &Value, expected: f64) -> bool {
    metric["mean"].as_f64().is_some_and(|mean| (mean - expected).abs() <= expected / 100.0)
}

fn was_asked(machine: &TempDir) -> bool {
    machine.path().join(OPENED).exists()
}

#[test]
fn every_quantity_has_its_value_unit_and_scope() {
    let machine = machine(TWO);
    let expected = [
        ("utilisation", 40.0, "%"),
        ("memory-utilisation", 7.0, "%"),
        ("sm-clock", 1980.0, "MHz"),
        ("memory-clock", 2619.0, "MHz"),
        ("power", 250.0, "W"),
        ("memory-used", 4096.0 * 1024.0 * 1024.0, "B"),
        ("pcie-rx", 120e6, "B/s"),
        ("pcie-tx", 3e6, "B/s"),
        ("temperature", 51.0, "°C"),
        ("throttled", 100.0, "%"),
    ];
    let events: Vec<String> = expected.iter().map(|(name, ..)| format!("gpu/{name},nvidia0/")).collect();
    let metrics = metrics(&machine, &events.join(","), &["true"]);
    for (metric, (name, value, unit)) in metrics.iter().zip(expected) {
        assert!(is_about(metric, value) && metric["unit"] == unit, "{name}: {metric}");
        let words = ["count", "provenance", "source", "scope"].map(|key| metric[key].as_str().unwrap());
        assert_eq!(words, ["partial", "nvml", "gpu", "device"], "{metric}");
        assert!(reason(metric).starts_with("whole device, nvidia0 sampled "), "{metric}");
    }
    assert!(reason(&metrics[9]).ends_with(", by power cap"), "{}", metrics[9]);
}

#[test]
fn several_devices_add_up_or_are_averaged_and_each_has_its_own_value() {
    let metrics = metrics(&machine(TWO), "gpu-power,gpu-utilisation,gpu-temperature,gpu-sm-clock", &["true"]);
    for (metric, expected) in metrics.iter().zip([260.0, 30.0, 63.0, 1980.0]) {
        assert!(is_about(metric, expected), "{metric}");
    }
    assert!(reason(&metrics[0]).ends_with("sum of 2 devices"), "{}", metrics[0]);
    let parts: Vec<(&str, f64)> = metrics[0]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| (part["pmu"].as_str().unwrap(), part["mean"].as_f64().unwrap().round()))
        .collect();
    assert_eq!(parts, [("nvidia0", 250.0), ("nvidia1", 10.0)]);
    let lacking = "without nvidia1: the device does not report it (NVML_ERROR_NOT_SUPPORTED)";
    assert!(reason(&metrics[3]).ends_with(lacking), "{}", metrics[3]);
}

#[test]
fn an_instance_of_a_divided_device_is_read_by_its_name_and_is_in_no_sum() {
    let events = "gpu/memory-used,nvidia0-mig1/,gpu-memory-used,gpu/power,nvidia0-mig1/,gpu/power,nvidia7/";
    let metrics = metrics(&machine(TWO), events, &["true"]);
    for (metric, mib) in metrics.iter().zip([1024.0, 4196.0]) {
        assert!(is_about(metric, mib * f64::from(1 << 20)), "{metric}");
    }
    for metric in &metrics[2..] {
        assert_eq!(
            (metric["mean"].as_f64(), metric["count"].as_str()),
            (None, Some("not_supported")),
            "{metric}"
        );
    }
    assert_eq!(reason(&metrics[3]), "NVML has no device nvidia7; it has nvidia0, nvidia0-mig1, nvidia1");
}

#[test]
fn memory_of_the_command_is_that_of_its_processes_alone() {
    let name = "cyclo-gpu-test";
    let machine = machine(&format!("device X\nprocess {name} 512\nprocess sleep 1\n"));
    let copy = machine.path().join(name);
    executable(&copy, &std::fs::read("/bin/sleep").unwrap());
    let of = |command: &[&str]| metrics(&machine, "gpu-process-memory", command).remove(0);
    // Long enough for a sample in between on a busy machine.
    let own = of(&[copy.to_str().unwrap(), "1.5"]);
    assert_eq!(own["scope"], "tree");
    assert!(reason(&own).ends_with("0 MiB to 512 MiB"), "from the fork to the end: {own}");
    let _other = std::process::Command::new(&copy).arg("0.5").spawn().unwrap().wait();
    let other = of(&["sleep", "1"]);
    assert!(!reason(&other).contains("512 MiB"), "a process that is none of the command's: {other}");
    let short = of(&["true"]);
    assert_eq!(short["mean"].as_f64(), None, "{short}");
    assert!(reason(&short).contains("ended too soon"), "{short}");
}

#[test]
fn energy_is_counted_where_the_device_counts_it_and_else_added_up_from_power() {
    let metrics = metrics(&machine(TWO), "gpu/energy,nvidia0/,gpu/energy,nvidia1/", &["sleep", "0.15"]);
    let joules = metrics[0]["mean"].as_f64().unwrap();
    assert!(joules >= 25.0 && joules % 25.0 == 0.0, "25 J at each read: {joules}");
    assert!(reason(&metrics[1]).contains("nvidia1 added up from power, sampled "), "{}", metrics[1]);
    assert!(metrics[1]["mean"].as_f64().unwrap() >= 1.4, "10 W for 150 ms: {}", metrics[1]);
}

#[test]
fn nvml_is_opened_for_an_event_of_gpus_and_for_nothing_else() {
    let machine = machine(TWO);
    run(&machine, &["stat", "-e", "page-faults,energy-pkg", "--", "true"]);
    run(&machine, &["list"]);
    assert!(!was_asked(&machine), "a driver may wake a device");
    run(&machine, &["stat", "-e", "gpu-power", "--", "true"]);
    assert!(was_asked(&machine));
}

#[test]
fn every_return_code_has_its_kind_cause_and_remedy() {
    for code in NvmlReturn::all() {
        let machine = machine(&format!("device X\npower 5\nfail nvmlInit_v2 always {}\n", code.0));
        let obstacle = NvmlObstacle::Returned(code);
        let metric = metrics(&machine, "gpu-power", &["true"]).remove(0);
        let expected = match obstacle.refusal_kind() {
            RefusalKind::NotSupported => "not_supported",
            _ => "not_counted",
        };
        assert_eq!((metric["count"].as_str(), metric["mean"].as_f64()), (Some(expected), None), "{metric}");
        assert!(reason(&metric).starts_with(&obstacle.to_string()), "{metric}");
        let out = run(&machine, &["doctor", "--json"]);
        let told: Value = serde_json::from_str(&stdout(&out)).unwrap();
        assert!(schema("doctor-1.json").is_valid(&told), "{told}");
        let rungs = told["ladder"].as_array().unwrap();
        let cause = &rungs.iter().find(|rung| rung["rung"] == "gpu").unwrap()["causes"][0];
        let expected = obstacle.cause();
        assert_eq!(
            (cause["kind"].as_str(), cause["text"].as_str()),
            (Some(expected.kind.word()), Some(&*expected.text))
        );
        assert_eq!(cause["mend"].as_str(), expected.mend.as_deref());
    }
}

#[test]
fn a_device_that_fails_while_the_command_runs_loses_its_value_and_the_others_keep_theirs() {
    let scenario = format!("{TWO}fail nvmlDeviceGetPowerUsage@1 always 15\n").replace("@1 always", "@1 4");
    let metrics =
        metrics(&machine(&scenario), "gpu/power,nvidia1/,gpu/temperature,nvidia1/", &["sleep", "0.3"]);
    assert_eq!((metrics[0]["count"].as_str(), metrics[0]["mean"].as_f64()), (Some("lost"), None));
    assert!(reason(&metrics[0]).contains("the device has fallen off the bus"), "{}", metrics[0]);
    assert!(is_about(&metrics[1], 63.0), "{}", metrics[1]);
}

#[test]
fn a_library_that_never_answers_is_left_alone_and_the_other_events_are_counted() {
    for call in ["nvmlInit_v2 1", "nvmlDeviceGetPowerUsage 3"] {
        let metrics = metrics(&machine(&format!("{TWO}hang {call}\n")), "gpu-power,wall_time", &["true"]);
        assert_eq!(metrics[0]["mean"].as_f64(), None, "{call}");
        assert!(reason(&metrics[0]).ends_with("NVML did not answer within 5 s"), "{}", metrics[0]);
        assert!(metrics[1]["mean"].as_f64().unwrap() > 0.0, "{}", metrics[1]);
    }
}

#[test]
fn a_diagnosis_names_devices_and_is_not_held_up_by_a_library_that_never_answers() {
    let text = stdout(&run(&machine(TWO), &["doctor"]));
    for line in [
        "nvidia0 (NVIDIA H100): NVML, driver 550.54.15",
        "nvidia0-mig1 (MIG 1g.10gb): NVML, driver 550.54.15",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let silent = stdout(&run(&machine(&format!("{TWO}hang nvmlDeviceGetName 1\n")), &["doctor"]));
    assert!(one_line(&silent).contains("NVML did not answer within 5 s"), "{silent}");
}

#[test]
fn a_driver_without_device_files_or_library_is_told_with_the_remedy() {
    let without_nodes = FACTS.replace("list /dev nvidia0 nvidiactl\n", "");
    let machine = machine_with(&without_nodes, TWO);
    let metric = metrics(&machine, "gpu-power", &["true"]).remove(0);
    assert_eq!(metric["count"], "not_counted");
    assert!(
        reason(&metric).contains("/dev/nvidiactl is missing; to permit it: sudo nvidia-modprobe"),
        "{metric}"
    );
    assert!(!was_asked(&machine));
    let without_library = self::machine(TWO);
    std::fs::remove_file(without_library.path().join("nvml")).unwrap();
    let metric = metrics(&without_library, "gpu-power", &["true"]).remove(0);
    assert_eq!(metric["count"], "not_counted");
    assert!(reason(&metric).starts_with("NVML cannot be opened: "), "{metric}");
}

#[test]
fn rows_of_intervals_and_recordings_have_the_mean_of_their_time() {
    let machine = machine("device X\npower 100000 +1000\n");
    let out = run(&machine, &["stat", "-I", "100", "-e", "gpu-power", "--", "sleep", "0.25"]);
    let rows: Vec<f64> = stderr(&out)
        .lines()
        .filter(|line| line.contains("(whole device, sampled)"))
        .map(|line| line.split_whitespace().nth(1).unwrap().parse().unwrap())
        .collect();
    assert!(rows.len() >= 3 && rows.windows(2).all(|pair| pair[0] < pair[1]), "{rows:?}\n{}", stderr(&out));
    assert!(rows.iter().all(|watts| (100.0..1000.0).contains(watts)), "{rows:?}");
    let file = machine.path().join("recording");
    let options = ["record", "--interval", "50", "-e", "gpu-power,page-faults", "-o", file.to_str().unwrap()];
    let out = run(&machine, &[&options[..], &["--", "sleep", "0.2"]].concat());
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let text = stderr(&out);
    assert!(one_line(&text).contains("W partial whole device, nvidia0 sampled "), "{text}");
    let picture = machine.path().join("picture.svg");
    let out = run(&machine, &["plot", file.to_str().unwrap(), "-o", picture.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    assert!(std::fs::read_to_string(&picture).unwrap().contains("mean of each window"));
}

#[test]
fn rows_cannot_end_at_a_quantity_of_gpus() {
    let out = run(&machine(TWO), &["record", "--every", "5:gpu-energy", "--", "true"]);
    assert_eq!(out.status.code(), Some(125));
    assert!(one_line(&stderr(&out)).contains("the driver of a GPU raises no interrupt"), "{}", stderr(&out));
}
