//! The operating system's accounting.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::common;

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use common::{command, ended, os_slot, read, skip, slot, until, value};
use cyclometer_backend::{Launcher, OsSource};
use cyclometer_core::energy::{EnergyDomain, EnergyZone};
use cyclometer_core::event::{OsMetric, PerfClass};
use cyclometer_core::exec::{Exit, Reading, RefusalKind, Waited};
use cyclometer_core::{
    Counting, CpuSet, Launch, MissingReason, Part, PartReason, Refusal, Rung, Slot, SlotId, Source, Target,
};

const EVERY: [OsMetric; 11] = [
    OsMetric::WallTime,
    OsMetric::UserTime,
    OsMetric::SystemTime,
    OsMetric::CpuTime,
    OsMetric::PeakRss,
    OsMetric::PageFaults,
    OsMetric::MinorFaults,
    OsMetric::MajorFaults,
    OsMetric::ContextSwitches,
    OsMetric::VoluntarySwitches,
    OsMetric::InvoluntarySwitches,
];

fn slots(metrics: &[OsMetric]) -> Vec<Slot> {
    metrics.iter().enumerate().map(|(id, metric)| os_slot(id, *metric)).collect()
}

fn open(metrics: &[OsMetric], on: &Target) -> Result<Box<dyn Counting>, Refusal> {
    OsSource::new().open(&slots(metrics), on)
}

fn spin(time: Duration) {
    let started = Instant::now();
    while started.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[test]
fn a_commands_accounts_are_those_of_its_end() {
    let launcher = Launcher::start().unwrap();
    let script = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done";
    let mut child = launcher.prepare(&command("sh", &["-c", script])).unwrap();
    let mut counting = open(&EVERY, &Target::Child(child.pid().unwrap())).unwrap();
    counting.start().unwrap();
    child.release().unwrap();
    let exit = ended(child.as_mut());
    counting.stop().unwrap();
    counting.exited(&exit);
    let reading = read(counting.as_mut());
    let usage = exit.usage.unwrap();
    let expected = [
        exit.wall_ns,
        usage.user_ns,
        usage.system_ns,
        usage.user_ns + usage.system_ns,
        usage.peak_rss_bytes,
        usage.minor_faults + usage.major_faults,
        usage.minor_faults,
        usage.major_faults,
        usage.voluntary_switches + usage.involuntary_switches,
        usage.voluntary_switches,
        usage.involuntary_switches,
    ];
    for (id, expected) in expected.into_iter().enumerate() {
        assert_eq!(value(&reading, id), expected, "{:?}", EVERY[id]);
    }
    assert!(value(&reading, 3) > 0 && value(&reading, 5) > 10);
}

#[test]
fn a_command_is_seen_while_it_runs() {
    let launcher = Launcher::start().unwrap();
    let mut child = launcher.prepare(&command("sh", &["-c", "while :; do :; done"])).unwrap();
    let metrics = [OsMetric::WallTime, OsMetric::CpuTime, OsMetric::PeakRss];
    let mut counting = open(&metrics, &Target::Child(child.pid().unwrap())).unwrap();
    counting.start().unwrap();
    child.release().unwrap();
    let soon = Some(Instant::now() + Duration::from_millis(20));
    assert_eq!(child.wait(soon).unwrap(), Waited::TimedOut);
    let reading = until(counting.as_mut(), |reading| value(reading, 1) >= 20_000_000);
    assert!(value(&reading, 0) >= 20_000_000);
    assert!(value(&reading, 2) > 100 << 10);
}

#[test]
fn a_process_is_accounted_from_the_start_and_keeps_its_last_values() {
    let launcher = Launcher::start().unwrap();
    let mut child = launcher.prepare(&command("sh", &["-c", "while :; do :; done"])).unwrap();
    child.release().unwrap();
    let pid = child.pid().unwrap();
    thread::sleep(Duration::from_millis(60));
    let mut counting = open(&EVERY, &Target::Process { pid, inherit: true }).unwrap();
    counting.start().unwrap();
    let reading = until(counting.as_mut(), |reading| value(reading, 3) >= 20_000_000);
    let (wall, cpu) = (value(&reading, 0), value(&reading, 3));
    // Time before the start is left out; the rest is known to a tick.
    assert!(cpu <= wall + 20_000_000, "{reading:?}");
    child.signal(9);
    ended(child.as_mut());
    counting.stop().unwrap();
    let after = read(counting.as_mut());
    assert!(value(&after, 3) >= cpu);
    assert!(value(&after, 4) > 100 << 10);
}

#[test]
fn a_process_that_vanishes_before_the_first_read_is_lost_and_not_zero() {
    let launcher = Launcher::start().unwrap();
    let mut child = launcher.prepare(&command("sleep", &["60"])).unwrap();
    child.release().unwrap();
    let pid = child.pid().unwrap();
    let mut counting = open(&[OsMetric::UserTime], &Target::Process { pid, inherit: true }).unwrap();
    counting.start().unwrap();
    child.signal(9);
    ended(child.as_mut());
    assert_eq!(read(counting.as_mut()).cells, []);
    counting.stop().unwrap();
    let reading = read(counting.as_mut());
    let reason = MissingReason::EndedUnread { target: format!("process {pid}") };
    assert_eq!(reading.cells[0].lost, Some(reason));
}

#[test]
fn several_processes_are_accounted_together_and_one_that_ends_keeps_its_last_values() {
    let launcher = Launcher::start().unwrap();
    let mut busy = launcher.prepare(&command("sh", &["-c", "while :; do :; done"])).unwrap();
    let mut idle = launcher.prepare(&command("sleep", &["60"])).unwrap();
    busy.release().unwrap();
    idle.release().unwrap();
    let target =
        |child: &dyn cyclometer_core::Child| Target::Process { pid: child.pid().unwrap(), inherit: true };
    let both = Target::Several(vec![target(busy.as_ref()), target(idle.as_ref())]);
    let metrics = [OsMetric::WallTime, OsMetric::CpuTime, OsMetric::ContextSwitches];
    let mut counting = open(&metrics, &both).unwrap();
    counting.start().unwrap();
    let reading = until(counting.as_mut(), |reading| value(reading, 1) >= 20_000_000);
    let cpu = value(&reading, 1);
    busy.signal(9);
    ended(busy.as_mut());
    let after = read(counting.as_mut());
    assert!(value(&after, 1) >= cpu && value(&after, 0) > 0, "{after:?}");
    let said = after.cells[1].partial.clone().map_or_else(String::new, |part| part.to_string());
    assert!(said.contains("1 of 2 was read ") && said.ends_with(" ms before it ended"), "{said}");
    idle.signal(9);
    ended(idle.as_mut());
    counting.stop().unwrap();
    assert!(value(&read(counting.as_mut()), 1) >= cpu);
    let refusal = open(&[OsMetric::PeakRss], &both).err().unwrap();
    assert!(refusal.reason.to_string().starts_with("there is no process"), "{}", refusal.reason);
}

#[test]
fn the_peak_of_several_is_no_sum_of_theirs() {
    let launcher = Launcher::start().unwrap();
    let mut child = launcher.prepare(&command("sleep", &["60"])).unwrap();
    child.release().unwrap();
    let own = Target::Process { pid: std::process::id(), inherit: true };
    let both = Target::Several(vec![own, Target::Process { pid: child.pid().unwrap(), inherit: true }]);
    let refusal = open(&[OsMetric::PeakRss], &both).err().unwrap();
    assert!(refusal.reason.to_string().contains(" and process "), "{}", refusal.reason);
    child.signal(9);
    ended(child.as_mut());
}

#[test]
fn this_thread_and_a_named_one_are_accounted() {
    let link = fs::read_link("/proc/thread-self").unwrap();
    let tid: u32 = link.file_name().unwrap().to_str().unwrap().parse().unwrap();
    let metrics = [OsMetric::CpuTime, OsMetric::PageFaults, OsMetric::ContextSwitches];
    for target in [Target::ThisThread, Target::Thread(tid)] {
        let mut counting = open(&metrics, &target).unwrap();
        counting.start().unwrap();
        until(counting.as_mut(), |reading| {
            spin(Duration::from_millis(1));
            value(reading, 0) >= 20_000_000
        });
        thread::sleep(Duration::from_millis(1));
        counting.stop().unwrap();
        let reading = read(counting.as_mut());
        assert!(value(&reading, 2) >= 1, "{reading:?}");
        let refusal = open(&[OsMetric::PeakRss], &target).err().unwrap();
        assert_eq!((refusal.slot, refusal.kind), (Some(SlotId(0)), RefusalKind::TargetNotSupported));
    }
}

#[test]
fn cpus_have_times_and_nothing_else() {
    let cpus: CpuSet = [0].into_iter().collect();
    let target = Target::Cpus(cpus);
    let mut counting = open(&[OsMetric::WallTime, OsMetric::CpuTime], &target).unwrap();
    counting.start().unwrap();
    spin(Duration::from_millis(30));
    counting.stop().unwrap();
    let reading = read(counting.as_mut());
    let (wall, cpu) = (value(&reading, 0), value(&reading, 1));
    // CPU times come in ticks.
    assert!(wall >= 30_000_000 && cpu <= wall + 20_000_000, "{reading:?}");
    let refusal = open(&[OsMetric::WallTime, OsMetric::PageFaults], &target).err().unwrap();
    assert_eq!((refusal.slot, refusal.kind), (Some(SlotId(1)), RefusalKind::TargetNotSupported));
    assert_eq!(refusal.reason.to_string(), "the operating system does not account PageFaults for CPU 0");
}

#[test]
fn a_control_group_has_the_times_of_its_processes() {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mount =
        mounts.lines().find(|line| line.contains(" cgroup2 ")).and_then(|line| line.split(' ').nth(1));
    let name = format!("cyclometer-test-{}", std::process::id());
    let Some(folder) = mount.map(|mount| format!("{mount}/{name}")) else {
        return skip("control groups of version 2 are not mounted");
    };
    if let Err(e) = fs::create_dir(&folder) {
        return skip(&format!("{folder}: {e}"));
    }
    let launcher = Launcher::start().unwrap();
    let script = format!("echo $$ > {folder}/cgroup.procs; i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done");
    let mut child = launcher.prepare(&command("sh", &["-c", &script])).unwrap();
    let target = Target::Cgroup { path: name.into(), cpus: [0].into_iter().collect() };
    let mut counting = open(&[OsMetric::UserTime], &target).unwrap();
    counting.start().unwrap();
    child.release().unwrap();
    let usage = ended(child.as_mut()).usage.unwrap();
    counting.stop().unwrap();
    let user = value(&read(counting.as_mut()), 0);
    fs::remove_dir(&folder).unwrap();
    assert!(user > usage.user_ns / 4 && user < usage.user_ns * 2, "{user} {usage:?}");
}

#[test]
fn short_times_of_the_root_group_say_that_they_come_in_steps() {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mount = mounts.lines().find(|line| line.contains(" cgroup2 "));
    match mount.and_then(|mount| mount.split(' ').nth(1)) {
        None => return skip("control groups of version 2 are not mounted"),
        Some(mount) if fs::exists(format!("{mount}/cgroup.type")).unwrap_or(false) => {
            return skip("the mounted control groups are those of a container");
        }
        Some(_) => {}
    }
    let target = Target::Cgroup { path: "/".into(), cpus: [0].into_iter().collect() };
    let mut counting = match open(
        &[OsMetric::UserTime, OsMetric::SystemTime, OsMetric::CpuTime, OsMetric::WallTime],
        &target,
    ) {
        Ok(counting) => counting,
        Err(refusal) => return skip(&refusal.reason.to_string()),
    };
    counting.start().unwrap();
    counting.stop().unwrap();
    let reading = read(counting.as_mut());
    let (wall, times) = reading.cells.split_last().unwrap();
    assert_eq!((wall.partial.as_ref(), times.len()), (None, 3));
    // From 1 s on, the steps do not show.
    for cell in times.iter().filter(|cell| cell.raw < 1_000_000_000) {
        assert!(matches!(cell.partial, Some(PartReason::InSteps { .. })), "{cell:?}");
    }
}

#[test]
fn what_does_not_exist_and_what_is_no_metric_is_refused() {
    for target in [
        Target::Process { pid: 0x7fff_fff0, inherit: true },
        Target::Thread(0x7fff_fff0),
        Target::Cpus([60_000].into_iter().collect()),
        Target::Cgroup { path: "no-such-group".into(), cpus: CpuSet::default() },
    ] {
        let refusal = open(&[OsMetric::WallTime], &target).err().unwrap();
        assert_eq!((refusal.slot, refusal.kind), (None, RefusalKind::NoSuchTarget), "{refusal:?}");
    }
    let event = slot(0, "cycles", common::perf_part("cpu", 4, 0, PerfClass::Core));
    let refusal = OsSource::new().open(&[event], &Target::ThisThread).err().unwrap();
    assert_eq!(refusal.kind, RefusalKind::Invalid);
}

#[test]
fn what_a_running_process_accounts_says_what_it_blurs_and_leaves_out() {
    let launcher = Launcher::start().unwrap();
    let mut child = launcher.prepare(&command("sh", &["-c", "sleep 2; :"])).unwrap();
    child.release().unwrap();
    let pid = child.pid().unwrap();
    let metrics = [OsMetric::WallTime, OsMetric::CpuTime, OsMetric::PeakRss, OsMetric::PageFaults];
    let mut with = open(&metrics, &Target::Process { pid, inherit: true }).unwrap();
    let mut alone = open(&metrics, &Target::Process { pid, inherit: false }).unwrap();
    with.start().unwrap();
    alone.start().unwrap();
    let leaves_out = "the process itself, without its children";
    let last = |reading: &Reading, id: usize| reading.cells[id].partial.as_ref().map(|part| part.to_string());
    if !fs::exists(format!("/proc/{pid}/task/{pid}/children")).unwrap() {
        return skip("this kernel does not list children");
    }
    let reading = until(with.as_mut(), |reading| last(reading, 3).is_some());
    assert_eq!(last(&reading, 3).as_deref(), Some(leaves_out));
    assert!(last(&reading, 1).unwrap().starts_with("in steps of "), "{reading:?}");
    assert!(last(&reading, 1).unwrap().ends_with(&format!("; {leaves_out}")), "{reading:?}");
    assert_eq!(last(&reading, 0), None);
    assert_eq!(last(&read(alone.as_mut()), 3), None);
    let peak = value(&reading, 2);
    child.signal(9);
    ended(child.as_mut());
    let ended_after = Exit { wall_ns: 77, status: None, usage: None };
    thread::sleep(Duration::from_millis(3));
    with.exited(&ended_after);
    with.stop().unwrap();
    let after = read(with.as_mut());
    assert_eq!((value(&after, 0), value(&after, 2)), (77, peak));
    let note = last(&after, 2).unwrap();
    assert!(note.contains("; read ") && note.ends_with(" ms before it ended"), "{note}");
}

#[test]
fn a_control_group_of_version_1_is_refused_slot_by_slot_and_a_folder_is_no_group() {
    let cpus: CpuSet = [0].into_iter().collect();
    let refusal = open(&[OsMetric::WallTime], &Target::Cgroup { path: "/tmp".into(), cpus: cpus.clone() })
        .err()
        .unwrap();
    assert_eq!(
        (refusal.slot, refusal.reason.to_string().as_str()),
        (None, "there is no control group '/tmp'")
    );
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let Some(old) = mounts.lines().find_map(|line| line.strip_prefix("cgroup ")) else {
        return skip("control groups of version 1 are not mounted");
    };
    let path = old.split(' ').next().unwrap().into();
    let refusal =
        open(&[OsMetric::WallTime, OsMetric::CpuTime], &Target::Cgroup { path, cpus }).err().unwrap();
    assert_eq!((refusal.slot, refusal.kind), (Some(SlotId(1)), RefusalKind::TargetNotSupported));
    assert!(refusal.reason.to_string().contains("version 1"), "{refusal:?}");
}

#[test]
fn energy_is_read_for_regions_and_values_grow_from_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("energy_uj");
    fs::write(&file, "900\n").unwrap();
    let zone = EnergyZone {
        domain: EnergyDomain::Package,
        folder: folder.path().display().to_string(),
        max_energy_range_uj: 1_000_000_000_000,
    };
    let energy = Slot::new(SlotId(1), "energy-pkg", Rung::Os, vec![Part::Energy(zone.clone())]);
    let slots = [os_slot(0, OsMetric::WallTime), energy];
    let mut counting = OsSource::new().open(&slots, &Target::ThisThread).unwrap();
    assert_eq!(counting.longest_pause(), Some(zone.longest_pause()));
    counting.start().unwrap();
    let places: Vec<SlotId> = counting.counters().iter().map(|counter| counter.slot).collect();
    assert_eq!(places, [SlotId(0), SlotId(1)]);
    let mut rows = Vec::new();
    for shown in [1_000, 1_500] {
        fs::write(&file, shown.to_string()).unwrap();
        counting.sample(&mut rows).unwrap();
        assert_eq!(counting.value(1).unwrap(), Some(shown - 900));
    }
    assert_eq!((rows[1].value, rows[3].value, rows[3].is_lost), (100, 600, false));
    counting.stop().unwrap();
    fs::write(&file, "9000").unwrap();
    let after = value(&read(counting.as_mut()), 1);
    assert_eq!(after, 600, "what is used after the end is not counted");
    let exit = Exit { status: None, wall_ns: 5, usage: None };
    counting.exited(&exit);
    rows.clear();
    counting.sample(&mut rows).unwrap();
    let after_exit = value(&read(counting.as_mut()), 1);
    assert_eq!((after_exit, rows[1].value), (600, 600), "the end of the target adds nothing after the stop");
}
