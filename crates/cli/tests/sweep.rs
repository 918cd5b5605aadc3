//! `reverse` without `--machine`, on simulated chips behind sockets: from the command line to the registers
//! and back.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::fake_devices;
use crate::support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cyclometer_core::concept::Concept;
use cyclometer_sim::{Activity, Model, Semantics, Settings, SimMachine};
use cyclometer_toolkit::sweep::{SimulatedTarget, kernels_for};
use fake_devices::{EPERM, FakeDevices, ServedKernel, VARIABLE, recording};
use serde_json::Value;
use support::{cyclometer, schema, stderr, stdout};

/// Cycles, by which drivers see that counters move, and some codes to be found out.
const HIDDEN: &str = "cyclometer-semantics 1
0x003c counters=0x0ff counts cycles
0x81d0 counters=0x00f counts loads
0x82d0 counters=0x00f counts stores
0x00c4 counters=0x003 counts branches
0x01b1 counters=0x00f counts stores at-most 1 per cycle
";

const KERNELS: [&str; 14] = [
    "empty",
    "nops",
    "adds",
    "moves",
    "hit_loads",
    "hit_stores",
    "hit_copies",
    "chase_l1",
    "load_misaligned",
    "branch_never",
    "branch_always",
    "jumps",
    "calls",
    "forward",
];

/// The CPU that kernels run on: the last one.
const CPU: u32 = 1;

fn served(model: &str, machine: &str, answers: usize) -> FakeDevices {
    let model = Model::find(model).unwrap();
    let settings = Settings { cpus: 2, ..Settings::default() };
    let semantics = Arc::new(Semantics::parse(HIDDEN.as_bytes()).unwrap());
    let sim = SimMachine::with_semantics(model, settings, Arc::clone(&semantics));
    let devices = FakeDevices::start_on(sim, &recording(machine, 2));
    let set = cyclometer_toolkit::reverse::InstructionSet::X86_64;
    let mut kernels = kernels_for(set, &cyclometer_toolkit::reverse::Geometry::default());
    let target = SimulatedTarget::new(model, settings, semantics, &mut kernels);
    let names = kernels.iter().map(|kernel| kernel.recipe.name.to_owned());
    // Each run asks for every register through a socket: a few kernels are enough to see what is counted.
    let kernels = names.zip(target.activities().iter().copied());
    let kernels: Vec<ServedKernel> = kernels.filter(|(name, _)| KERNELS.contains(&name.as_str())).collect();
    assert_eq!(kernels.len(), KERNELS.len());
    // The chip's work while the user's files run on the CPU.
    let plain = [(Concept::Instructions, 4.0), (Concept::Cycles, 4.0)];
    let loading = [&plain[..], &[(Concept::Loads, 1.0)]].concat();
    let files = [("control.s", &plain[..]), ("real.s", &loading)];
    let files = files.map(|(name, amounts)| (name.to_owned(), Activity::of_iteration(4, amounts)));
    let kernels = [kernels, files.to_vec()].concat();
    devices.serve_kernels(CPU, kernels, answers);
    devices
}

fn skylake() -> FakeDevices {
    served("skylake", "skylake", usize::MAX)
}

fn reverse(devices: &FakeDevices, words: &[&str]) -> Command {
    let mut command = cyclometer();
    command.args(["reverse", "--backend", "msr", "--repeats", "1", "--iterations", "61"]).args(words);
    command.env(VARIABLE, devices.folder());
    command
}

fn report(out: &Output) -> Value {
    assert!(out.status.success(), "{}", stderr(out));
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    let errors: Vec<String> = schema("reverse-1.json").iter_errors(&report).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    report
}

fn event(report: &Value, code: u64) -> &Value {
    report["events"].as_array().unwrap().iter().find(|event| event["code"] == code).unwrap()
}

/// The registers that a sweep writes.
fn controls(devices: &FakeDevices) -> Vec<u64> {
    let names = [
        "IA32_PERFEVTSEL0",
        "IA32_PERFEVTSEL3",
        "IA32_FIXED_CTR_CTRL",
        "IA32_PERF_GLOBAL_CTRL",
        "IA32_PMC0",
        "IA32_FIXED_CTR0",
    ];
    names.map(|name| devices.register(CPU, name)).to_vec()
}

fn journals(devices: &FakeDevices) -> usize {
    fs::read_dir(devices.journals()).map_or(0, Iterator::count)
}

#[test]
fn codes_on_registers_are_found_out_with_their_counters_and_everything_is_restored() {
    let devices = skylake();
    devices.set_register(CPU, "IA32_PERFEVTSEL3", 0x13_00c0);
    let before = controls(&devices);
    let out = reverse(&devices, &["--json", "--ids", "0x81d0,0x82d0,0xc4,0x1b1,0x77"]).output().unwrap();
    let report = report(&out);
    assert!(report["machine"].as_str().unwrap().contains("source msr, CPU 1"), "{}", report["machine"]);
    let sum = |code: u64| &event(&report, code)["hypotheses"][0]["sum"];
    assert_eq!(sum(0x81d0), "loads");
    assert_eq!(event(&report, 0x81d0)["counters"], serde_json::json!(["0", "1", "2", "3"]));
    assert_eq!(sum(0x82d0), "stores");
    assert_eq!(event(&report, 0xc4)["counters"], serde_json::json!(["0", "1"]));
    assert_ne!(event(&report, 0x1b1)["verdict"], "A", "a limit is no sum");
    assert_eq!(event(&report, 0x77)["verdict"], "E");
    assert_eq!((controls(&devices), journals(&devices)), (before, 0));
}

#[test]
fn labels_of_the_vendor_are_checked_on_registers() {
    let devices = skylake();
    let labels = "MEM_INST_RETIRED.ALL_LOADS,MEM_INST_RETIRED.ALL_STORES";
    let out = reverse(&devices, &["--check", labels]).output().unwrap();
    let text = stdout(&out);
    assert!(out.status.success(), "{}", stderr(&out));
    assert!(text.contains("MEM_INST_RETIRED.ALL_LOADS") && text.contains("cannot tell"), "{text}");
}

#[test]
fn a_denied_code_is_never_written_to_a_register() {
    let devices = skylake();
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("deny");
    fs::write(&list, "0x77 # hangs\n").unwrap();
    let list = list.to_str().unwrap();
    let out = reverse(&devices, &["--ids", "0x77,0x81d0", "--deny", list]).output().unwrap();
    assert!(stdout(&out).contains("excluded: 0x77: on the list of codes"), "{}", stdout(&out));
    let selects =
        |low: u64| devices.written().iter().filter(|one| one.value & 0xff_ffff == 0x41_0000 | low).count();
    assert_eq!(selects(0x77), 0);
    assert!(selects(0x81d0) >= 4);
}

#[test]
fn a_sweep_that_is_killed_restores_its_registers_and_goes_on_from_its_journal() {
    let devices = skylake();
    let before = controls(&devices);
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let path = journal.to_str().unwrap();
    let ids = ["--ids", "0x81d0,0xc4,0x70-0x74"];
    let mut child =
        reverse(&devices, &[&ids[..], &["--journal", path]].concat()).stdout(Stdio::null()).spawn().unwrap();
    until("no code is done", || lines(&journal) > 9);
    child.kill().unwrap();
    child.wait().unwrap();
    until("registers are not restored", || controls(&devices) == before);
    until("the journal of registers stays", || journals(&devices) == 0);
    let done = lines(&journal);
    let resumed = report(&reverse_resumed(&devices, path).output().unwrap());
    assert!(lines(&journal) > done);
    let whole = report(&reverse(&devices, &[&ids[..], &["--json"]].concat()).output().unwrap());
    let verdicts = |report: &Value| -> Vec<(Value, Value, Value)> {
        let events = report["events"].as_array().unwrap().iter();
        events.map(|one| (one["code"].clone(), one["verdict"].clone(), one["text"].clone())).collect()
    };
    assert_eq!(verdicts(&resumed), verdicts(&whole));
    // The same journal on another machine.
    let other = served("sapphirerapids", "sapphire-rapids", usize::MAX);
    let out = reverse_resumed(&other, path).output().unwrap();
    assert_eq!(out.status.code(), Some(125));
    assert!(stderr(&out).contains("the journal is of another machine: skylake"), "{}", stderr(&out));
}

fn reverse_resumed(devices: &FakeDevices, journal: &str) -> Command {
    let mut command = cyclometer();
    command.args(["reverse", "--backend", "msr", "--json", "--resume", journal]);
    command.env(VARIABLE, devices.folder());
    command
}

fn lines(file: &Path) -> usize {
    fs::read_to_string(file).map_or(0, |text| text.lines().count())
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(300);
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_kernel_that_never_ends_is_an_error_with_the_code_and_registers_are_restored() {
    let devices = served("skylake", "skylake", 120);
    let before = controls(&devices);
    let out = reverse(&devices, &["--ids", "0x81d0", "--step-limit", "10"]).output().unwrap();
    assert_eq!(out.status.code(), Some(125), "{}", stdout(&out));
    let error = stderr(&out);
    assert!(error.contains("event 0x81d0: a step of the sweep did not end within 10 s"), "{error}");
    until("registers are not restored", || controls(&devices) == before);
}

#[test]
fn registers_that_cannot_be_written_and_sources_that_place_nothing_are_errors() {
    let devices = skylake();
    devices.refuse_writes(Some(EPERM));
    let out = reverse(&devices, &["--ids", "0x81d0"]).output().unwrap();
    assert_eq!(out.status.code(), Some(125));
    assert!(stderr(&out).contains("cannot write IA32_"), "{}", stderr(&out));
    for (words, said) in [
        (&["--cpu", "7"][..], "this machine has no CPU 7: 0-1 are online"),
        (&["--backend", "soft"], "'soft' cannot place a code on counters"),
    ] {
        let mut command = cyclometer();
        let all = if words[0] == "--cpu" { [&["--backend", "msr"], words].concat() } else { words.to_vec() };
        let out = command.arg("reverse").args(all).env(VARIABLE, devices.folder()).output().unwrap();
        assert_eq!(out.status.code(), Some(125));
        assert!(stderr(&out).contains(said), "{}", stderr(&out));
    }
}

#[test]
fn a_dry_run_on_registers_says_how_long_the_sweep_will_take_and_writes_nothing() {
    let devices = skylake();
    let out = reverse(&devices, &["--dry-run"]).output().unwrap();
    let text = stdout(&out);
    assert!(out.status.success(), "{}", stderr(&out));
    assert!(
        text.contains("2296 codes, on all counters")
            && text.contains("skylake (")
            && text.contains("each bit of it"),
        "{text}"
    );
    assert!(text.contains(" if no kernel moves a code, "), "{text}");
    assert_eq!(devices.written(), []);
}

#[test]
fn a_machine_without_a_pmu_says_what_is_needed_and_offers_a_simulated_chip() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("machine"), recording("vm-without-vpmu", 2)).unwrap();
    for words in [&[][..], &["--dry-run"], &["--check"]] {
        let out = cyclometer().arg("reverse").args(words).env(VARIABLE, folder.path()).output().unwrap();
        assert_eq!(out.status.code(), Some(125), "{}", stdout(&out));
        let error = stderr(&out);
        assert!(error.contains("no event of this machine can be counted by the source 'perf'"), "{error}");
        assert!(error.contains("help: ") && error.contains("--"), "{error}");
    }
    let out =
        cyclometer().args(["reverse", "--backend", "sysreg"]).env(VARIABLE, folder.path()).output().unwrap();
    assert!(stderr(&out).contains("--machine sim:skylake"), "{}", stderr(&out));
}

#[test]
fn files_of_assembly_run_in_processes_of_their_own_and_hits_are_shown_with_their_counter() {
    if Command::new("as").arg("--version").output().is_err() {
        cyclometer_test_support::skip("no assembler");
        return;
    }
    let devices = skylake();
    let before = controls(&devices);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, body: &str| {
        let path = folder.path().join(name);
        fs::write(&path, format!(".globl kernel\nkernel: {body}\nret\n")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let config = folder.path().join("config.h");
    fs::write(&config, "#define TEST_TIME 5000\n#define DEVIATION 50\n").unwrap();
    let (real, control) = (file("real.s", "mov (%rdi), %eax"), file("control.s", "nop"));
    let search = |ids: &str, real: &str, limit: &str| {
        let mut command = cyclometer();
        command.args(["reverse", "--backend", "msr", "--ids", ids, "--kernel", real, "--control", &control]);
        command.args(["--step-limit", limit, "--config", config.to_str().unwrap()]);
        command.env(VARIABLE, devices.folder()).output().unwrap()
    };
    let out = search("0x81d0,0x3c,0x77", &real, "60");
    let text = stdout(&out);
    assert!(out.status.success(), "{}", stderr(&out));
    let hit = text.lines().find(|line| line.contains("0x81d0")).unwrap_or_else(|| panic!("{text}"));
    let fields: Vec<&str> = hit.split_whitespace().collect();
    assert_eq!(fields, ["0x81d0", "0", "0", "5000"]);
    assert!(text.contains("noise     1") && text.contains("miss      1"), "{text}");
    let crash = search("0x81d0", &file("crash.s", "ud2"), "60");
    assert_eq!(crash.status.code(), Some(125));
    assert!(stderr(&crash).contains("crash.s: its code was killed by signal 4"), "{}", stderr(&crash));
    let hang = search("0x81d0", &file("hang.s", "1: jmp 1b"), "10");
    assert_eq!(hang.status.code(), Some(125));
    assert!(stderr(&hang).contains("event 0x81d0: a step of the sweep did not end"), "{}", stderr(&hang));
    until("registers are not restored", || controls(&devices) == before);
}
