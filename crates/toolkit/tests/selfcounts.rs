//! Regions of this very program on a library that behaves as macOS does, without root.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::Command;

use cyclometer_toolkit::{Count, CountedScope, Measured, Monitor, Rung, Value};

/// The environment variable that says that this process is on a Mac.
const ON_A_MAC: &str = "CYCLOMETER_FAKE_DEVICES";

/// Runs one of the tests below again in a process that finds itself on a Mac.
fn on_a_mac(test: &str, scenario: &str) {
    let folder = tempfile::tempdir().unwrap();
    cyclometer_fake_kperf::install(folder.path(), &format!("chip apple-m2\nmacos 14.0\nuser\n{scenario}"));
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/machines");
    std::fs::copy(fixtures.join("m4-macos.txt"), folder.path().join("machine")).unwrap();
    let mut again = Command::new(std::env::current_exe().unwrap());
    again
        .args(["--exact", &format!("selfcounts::{test}"), "--ignored", "--nocapture"])
        .env(ON_A_MAC, folder.path());
    let out = again.output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && text.contains("1 passed"), "{text}");
}

fn work(rounds: u64) -> u64 {
    (0..rounds).fold(1, |hash, round| std::hint::black_box(hash ^ round).wrapping_mul(0x0100_0000_01b3))
}

fn value<'a>(measured: &'a Measured, event: &str) -> &'a Value {
    measured.get(event).unwrap_or_else(|| panic!("{event} is not in {measured:?}"))
}

#[test]
fn a_region_has_the_cycles_of_its_own_thread() {
    on_a_mac("inside_a_region_of_a_thread", "process loop 75\n");
}

#[test]
#[ignore = "runs on a Mac that another test makes"]
fn inside_a_region_of_a_thread() {
    let monitor = Monitor::builder().event("cycles,instructions,process_energy").build().unwrap();
    let region = monitor.region("work");
    work(20_000_000);
    let measured = region.stop();
    let cycles = value(&measured, "cycles");
    assert!(matches!(cycles.count, Count::Exact(_)) && cycles.rung == Some(Rung::SelfCounts), "{cycles:?}");
    let (cycles, instructions) =
        (cycles.number().unwrap(), value(&measured, "instructions").number().unwrap());
    // The chip of the library executes three instructions in a cycle.
    assert!(cycles > 1e6 && (2.9..3.1).contains(&(instructions / cycles)), "{cycles} {instructions}");
    assert!(value(&measured, "process_energy").number().unwrap() > 0.0);
    let idle = monitor.region("idle").stop();
    assert!(value(&idle, "cycles").number().unwrap_or(0.0) < cycles / 2.0, "{idle:?}");
    let other = std::thread::scope(|scope| scope.spawn(|| monitor.region("thread").stop()).join().unwrap());
    assert!(value(&other, "cycles").number().unwrap_or(0.0) < cycles / 2.0, "a thread counts for itself");
}

#[test]
fn a_process_has_the_shares_of_core_types_and_a_thread_has_not() {
    on_a_mac("inside_a_process", "process loop 60\n");
}

#[test]
#[ignore = "runs on a Mac that another test makes"]
fn inside_a_process() {
    let events = "cycles,pcore_cycles,ecore_cycles";
    let monitor = Monitor::builder().event(events).scope(CountedScope::Process).build().unwrap();
    let region = monitor.region("work");
    work(20_000_000);
    let measured = region.stop();
    let number = |event: &str| value(&measured, event).number().unwrap();
    let share = number("pcore_cycles") / number("cycles");
    assert!((0.55..0.65).contains(&share), "{measured:?}");
    let monitor = Monitor::builder().event(events).build().unwrap();
    let region = monitor.region("work");
    work(1_000_000);
    let measured = region.stop();
    assert!(value(&measured, "cycles").number().is_some(), "{measured:?}");
    let lacking = value(&measured, "pcore_cycles");
    assert_eq!(lacking.number(), None, "{lacking:?}");
    let reason = lacking.reason().unwrap_or_default();
    assert!(reason.contains("accounted for processes only"), "{lacking:?}");
}

/// Runs a test again on a Mac as root, with this text as the event database of its macOS.
fn on_a_mac_as_root(test: &str, database: Option<&str>) {
    let folder = tempfile::tempdir().unwrap();
    cyclometer_fake_kperf::install(folder.path(), "chip apple-m4\ncpus 2\nworkload 0 loop\n");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/machines");
    let machine = std::fs::read_to_string(fixtures.join("m4-macos.txt")).unwrap();
    let mut machine = machine.replace("euid 501", "euid 0").replace("cpus 10", "cpus 2");
    machine += "sysctl hw.cputype 16777228\nsysctl hw.cpusubtype 2\n";
    if let Some(text) = database {
        machine += "file /usr/share/kpep/cpu_100000c_2_6f5129ac.plist\n";
        text.lines().for_each(|line| machine += &format!("| {line}\n"));
    }
    std::fs::write(folder.path().join("machine"), machine).unwrap();
    let mut again = Command::new(std::env::current_exe().unwrap());
    again
        .args(["--exact", &format!("selfcounts::{test}"), "--ignored", "--nocapture"])
        .env(ON_A_MAC, folder.path());
    let out = again.output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && text.contains("1 passed"), "{text}");
}

/// A database with one event, whose name no table of ours has.
const DATABASE: &str = "<plist version=\"1.0\"><dict><key>name</key><string>as4</string>
<key>system</key><dict><key>cpu</key><dict><key>architecture</key><string>arm64</string>
<key>config_counters</key><integer>1020</integer><key>fixed_counters</key><integer>3</integer>
<key>power_counters</key><integer>224</integer><key>events</key><dict>
<key>ONLY_HERE</key><dict><key>number</key><integer>33</integer></dict>
</dict></dict></dict></dict></plist>";

#[test]
fn a_region_counts_the_events_of_the_hosts_database() {
    on_a_mac_as_root("inside_with_a_database", Some(DATABASE));
}

#[test]
#[ignore = "runs on a Mac that another test makes"]
fn inside_with_a_database() {
    let monitor = Monitor::builder().event("ONLY_HERE").calibrate(false).build().unwrap();
    let region = monitor.region("work");
    work(20_000_000);
    let measured = region.stop();
    let counted = value(&measured, "ONLY_HERE");
    assert!(counted.rung == Some(Rung::Kperf) && counted.number().unwrap() > 0.0, "{counted:?}");
    assert!(monitor.ladder().iter().all(|step| !step.tried.contains("database")), "{:?}", monitor.ladder());
}

#[test]
fn a_region_counts_by_the_built_in_tables_where_no_database_can_be_used_and_says_so() {
    for database in [None, Some(&DATABASE[..DATABASE.len() / 2])] {
        on_a_mac_as_root("inside_without_a_database", database);
    }
}

#[test]
#[ignore = "runs on a Mac that another test makes"]
fn inside_without_a_database() {
    let monitor = Monitor::builder().event("INST_BRANCH").calibrate(false).build().unwrap();
    let region = monitor.region("work");
    work(20_000_000);
    let measured = region.stop();
    let counted = value(&measured, "INST_BRANCH");
    assert!(counted.rung == Some(Rung::Kperf) && counted.number().unwrap() > 0.0, "{counted:?}");
    let step = monitor.ladder().iter().find(|step| step.tried.contains("database")).unwrap();
    assert!(
        step.done.as_ref().unwrap().contains("built-in") && format!("{step:?}").contains("/usr/share/kpep"),
        "{step:?}"
    );
}
