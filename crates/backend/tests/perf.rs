//! The perf source on a stock kernel, with or without a hardware PMU.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::common;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{command, ended, perf_part, read, skip, slot, until, value};
use cyclometer_backend::{Launcher, PerfSource};
use cyclometer_core::event::PerfClass;
use cyclometer_core::exec::{Reading, RefusalKind};
use cyclometer_core::reason::{PerfAnswer, PerfRefusal, RefusalReason};
use cyclometer_core::{Counting, CpuSet, Launch, Modes, Refusal, Slot, SlotId, Source, Target};

/// `PERF_COUNT_SW_CPU_CLOCK`, `_TASK_CLOCK`, `_PAGE_FAULTS`, `_CONTEXT_SWITCHES`.
const CPU_CLOCK: u64 = 0;
const TASK_CLOCK: u64 = 1;
const PAGE_FAULTS: u64 = 2;
const CONTEXT_SWITCHES: u64 = 3;

fn software(id: usize, config: u64) -> Slot {
    slot(id, &format!("software-{config}"), perf_part("software", 1, config, PerfClass::Software))
}

fn open(slots: &[Slot], on: &Target) -> Result<Box<dyn Counting>, Refusal> {
    PerfSource::new().open(slots, on)
}

/// Opens, or reports why that is not allowed here; any other refusal fails.
fn permitted(slots: &[Slot], on: &Target) -> Option<Box<dyn Counting>> {
    match open(slots, on) {
        Ok(counting) => Some(counting),
        Err(refusal) if matches!(refusal.kind, RefusalKind::NoPermission) => {
            skip(&refusal.reason.to_string());
            None
        }
        Err(refusal) if refusal.reason == RefusalReason::Perf(PerfRefusal::Answer(PerfAnswer::NoPerf)) => {
            skip(&refusal.reason.to_string());
            None
        }
        Err(refusal) => panic!("{refusal:?}"),
    }
}

/// The filter that an ordinary user may request where kernel mode is forbidden.
fn filtered(mut slots: Vec<Slot>) -> Vec<Slot> {
    if matches!(open(&slots, &Target::ThisThread), Err(r) if r.kind == RefusalKind::NoPermission) {
        slots.iter_mut().for_each(|slot| slot.filter = Some(Modes::USER));
    }
    slots
}

#[test]
fn a_command_is_counted_from_exec_to_exit() {
    let slots = filtered(vec![software(0, TASK_CLOCK), software(1, PAGE_FAULTS)]);
    let launcher = Launcher::start().unwrap();
    let script = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";
    let mut child = launcher.prepare(&command("sh", &["-c", script])).unwrap();
    let Some(mut counting) = permitted(&slots, &Target::Child(child.pid().unwrap())) else { return };
    counting.start().unwrap();
    let before = read(counting.as_mut());
    assert!(before.cells.iter().all(|cell| cell.raw == 0 && cell.time_enabled_ns == 0), "{before:?}");
    child.release().unwrap();
    let exit = ended(child.as_mut());
    counting.stop().unwrap();
    let reading = read(counting.as_mut());
    let (clock, faults) = (value(&reading, 0), value(&reading, 1));
    let usage = exit.usage.unwrap();
    let cpu = usage.user_ns + usage.system_ns;
    // The rest is the work of execve itself before it reset the counts.
    assert!(clock > cpu / 2 && clock < exit.wall_ns, "{clock} {exit:?}");
    let accounted = usage.minor_faults + usage.major_faults;
    let fewest = if slots[0].filter.is_some() { 1 } else { accounted.saturating_sub(10) };
    assert!(faults >= fewest && faults <= accounted, "{faults} {usage:?}");
    assert_eq!(reading.cells[1].time_enabled_ns, reading.cells[1].time_running_ns);
}

#[test]
fn accounts_begin_at_exec_as_counters_do() {
    let slots = [software(0, PAGE_FAULTS), software(1, CONTEXT_SWITCHES)];
    let launcher = Launcher::start().unwrap();
    let mut fewest = u64::MAX;
    for _ in 0..20 {
        let mut child = launcher.prepare(&command("true", &[])).unwrap();
        let Some(mut counting) = permitted(&slots, &Target::Child(child.pid().unwrap())) else { return };
        // The child sleeps before it is released.
        thread::sleep(Duration::from_millis(2));
        counting.start().unwrap();
        child.release().unwrap();
        let usage = ended(child.as_mut()).usage.unwrap();
        let reading = read(counting.as_mut());
        let (faults, switches) = (value(&reading, 0), value(&reading, 1));
        assert!(faults.abs_diff(usage.minor_faults + usage.major_faults) <= 2, "{faults} {usage:?}");
        fewest = fewest.min(usage.voluntary_switches.saturating_sub(switches));
    }
    // The kernel accounts for the switch away at a process's end, which perf does not count any more.
    assert!(fewest <= 1, "{fewest}");
}

#[test]
fn descendants_are_counted_with_the_command() {
    let slots = filtered(vec![software(0, PAGE_FAULTS)]);
    let launcher = Launcher::start().unwrap();
    let count = |script: &str| {
        let mut child = launcher.prepare(&command("sh", &["-c", script])).unwrap();
        let mut counting = permitted(&slots, &Target::Child(child.pid().unwrap()))?;
        counting.start().unwrap();
        child.release().unwrap();
        ended(child.as_mut());
        Some(value(&read(counting.as_mut()), 0))
    };
    let (Some(alone), Some(with)) = (count("exit"), count("sh -c exit; sh -c exit")) else { return };
    assert!(with > alone + alone / 2, "{alone} {with}");
}

#[test]
fn a_device_of_the_kernel_counts_for_a_command() {
    let Ok(number) = fs::read_to_string("/sys/bus/event_source/devices/msr/type") else {
        return skip("this kernel has no msr PMU");
    };
    let part = perf_part("msr", number.trim().parse().unwrap(), 0, PerfClass::TaskDevice);
    let slots = [slot(0, "msr/tsc/", part)];
    let launcher = Launcher::start().unwrap();
    let mut child = launcher.prepare(&command("true", &[])).unwrap();
    let Some(mut counting) = permitted(&slots, &Target::Child(child.pid().unwrap())) else { return };
    counting.start().unwrap();
    child.release().unwrap();
    ended(child.as_mut());
    let reading = read(counting.as_mut());
    assert!(value(&reading, 0) > 10_000, "{reading:?}");
    assert_eq!(reading.cells[0].at.pmu.as_deref(), Some("msr"));
}

#[test]
fn every_thread_of_a_process_has_its_cell() {
    let stop = Arc::new(AtomicBool::new(false));
    let busy = || {
        let stop = Arc::clone(&stop);
        thread::spawn(move || while !stop.load(Ordering::Relaxed) {})
    };
    let threads = [busy(), busy()];
    let slots = filtered(vec![software(0, TASK_CLOCK)]);
    let pid = std::process::id();
    for inherit in [false, true] {
        let Some(mut counting) = permitted(&slots, &Target::Process { pid, inherit }) else { break };
        counting.start().unwrap();
        let reading = until(counting.as_mut(), |reading| {
            reading.cells.iter().filter(|cell| cell.raw > 5_000_000).count() >= 2
        });
        counting.stop().unwrap();
        let tids: std::collections::BTreeSet<_> = reading.cells.iter().map(|cell| cell.at.tid).collect();
        assert_eq!(tids.len(), reading.cells.len());
        assert!(tids.len() >= 3 && !tids.contains(&None), "{tids:?}");
    }
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Set in a process that starts threads all the time.
const ROLE: &str = "CYCLOMETER_TEST_STARTS_THREADS";

/// Not a test by itself: the next test runs it.
#[test]
fn start_threads() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let mut threads = 0;
    loop {
        if threads < 150 {
            thread::spawn(|| spin(Duration::from_secs(30)));
            threads += 1;
        }
        thread::sleep(Duration::from_micros(500));
    }
}

#[test]
fn threads_that_start_while_others_are_opened_are_not_counted_twice() {
    // Many events, so that opening them takes a while.
    let slots = filtered((0..8).map(|id| software(id, TASK_CLOCK)).collect());
    let me = std::env::current_exe().unwrap();
    let mut process = std::process::Command::new(me)
        .args(["perf::start_threads", "--exact"])
        .env(ROLE, "1")
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let pid = process.id();
    thread::sleep(Duration::from_millis(30));
    let counted = permitted(&slots, &Target::Process { pid, inherit: true }).map(|mut counting| {
        let before = cpu_ns(pid);
        counting.start().unwrap();
        let started = cpu_ns(pid);
        thread::sleep(Duration::from_millis(600));
        let least = cpu_ns(pid) - started;
        let reading = read(counting.as_mut());
        (reading, least, cpu_ns(pid) - before)
    });
    process.kill().unwrap();
    process.wait().unwrap();
    let Some((reading, least, most)) = counted else { return };
    let cells: Vec<_> = reading.cells.iter().filter(|cell| cell.slot == SlotId(0)).collect();
    let clock: u64 = cells.iter().map(|cell| cell.raw).sum();
    assert!(clock < most + most / 10, "{clock} of {most}");
    let whole = cells.iter().all(|cell| cell.partial.is_none());
    assert!(!whole || clock > least - least / 10, "{clock} of {least}");
}

/// CPU time of the threads that a process has now.
fn cpu_ns(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let spent = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_ascii_whitespace().next()?.parse::<u64>().ok()
    });
    spent.sum()
}

#[test]
fn this_thread_is_counted_between_start_and_stop() {
    let slots = filtered(vec![software(0, TASK_CLOCK)]);
    let Some(mut counting) = permitted(&slots, &Target::ThisThread) else { return };
    spin(Duration::from_millis(5));
    assert_eq!(value(&read(counting.as_mut()), 0), 0);
    counting.start().unwrap();
    spin(Duration::from_millis(20));
    counting.stop().unwrap();
    let clock = value(&read(counting.as_mut()), 0);
    assert!(clock > 1_000_000, "{clock}");
    spin(Duration::from_millis(5));
    assert_eq!(value(&read(counting.as_mut()), 0), clock);
}

/// A clock that always counts, and one for each of two rotation groups.
fn clocks() -> Vec<Slot> {
    let clock = |id, rotation_group| Slot { rotation_group, ..software(id, TASK_CLOCK) };
    filtered(vec![clock(0, None), clock(1, Some(0)), clock(2, Some(1))])
}

fn raws(counting: &mut dyn Counting) -> [u64; 3] {
    let reading = read(counting);
    [0, 1, 2].map(|slot| value(&reading, slot))
}

#[test]
fn only_the_selected_turn_counts() {
    let Some(mut counting) = permitted(&clocks(), &Target::ThisThread) else { return };
    counting.start().unwrap();
    spin(Duration::from_millis(20));
    counting.select(1).unwrap();
    let first = raws(counting.as_mut());
    assert!(first[1] > 1_000_000 && first[2] < first[1], "{first:?}");
    spin(Duration::from_millis(20));
    counting.select(0).unwrap();
    let second = raws(counting.as_mut());
    assert!(second[1].abs_diff(first[1]) < 1_000_000 && second[2] > 1_000_000, "{first:?} {second:?}");
    counting.stop().unwrap();
    let reading = read(counting.as_mut());
    let enabled: Vec<u64> = reading.cells.iter().map(|cell| cell.time_enabled_ns).collect();
    let running: Vec<u64> = reading.cells.iter().map(|cell| cell.time_running_ns).collect();
    assert!(enabled[1] + enabled[2] <= enabled[0], "{enabled:?}");
    assert_eq!(enabled, running);
    let mut of_rotation_group = Reading::default();
    counting.read_rotation_group(1, &mut of_rotation_group).unwrap();
    let slots: Vec<SlotId> = of_rotation_group.cells.iter().map(|cell| cell.slot).collect();
    assert_eq!(slots, [SlotId(0), SlotId(2)]);
}

#[test]
fn turns_reach_the_children_that_a_command_has_and_those_that_it_makes() {
    let launcher = Launcher::start().unwrap();
    // A child that lives through the rotation, and others that are created after it.
    let spin = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done";
    let script = format!("({spin}) & for n in 1 2 3 4; do ({spin}); done; wait");
    let mut child = launcher.prepare(&command("sh", &["-c", &script])).unwrap();
    let Some(mut counting) = permitted(&clocks(), &Target::Child(child.pid().unwrap())) else { return };
    counting.start().unwrap();
    child.release().unwrap();
    until(counting.as_mut(), |reading| value(reading, 0) > 20_000_000);
    counting.select(1).unwrap();
    let [_, first, _] = raws(counting.as_mut());
    ended(child.as_mut());
    let [all, still, second] = raws(counting.as_mut());
    assert_eq!(first, still, "the first turn is over, in children too");
    assert!((all - first - second) < all / 10, "{all} {first} {second}");
}

#[test]
fn a_turn_of_cpus_and_of_running_threads_can_be_selected() {
    let pid = std::process::id();
    for target in [Target::Cpus([0].into_iter().collect()), Target::Process { pid, inherit: true }] {
        let Some(mut counting) = permitted(&clocks(), &target) else { continue };
        counting.start().unwrap();
        until(counting.as_mut(), |reading| total(reading, 1) > 3_000_000);
        counting.select(1).unwrap();
        let first = total(&read(counting.as_mut()), 1);
        let reading = until(counting.as_mut(), |reading| total(reading, 2) > 3_000_000);
        assert_eq!(total(&reading, 1), first, "{target:?}");
    }
}

/// The raw values of a slot, over all threads or CPUs; the calling thread spins to let time pass.
fn total(reading: &Reading, slot: usize) -> u64 {
    spin(Duration::from_millis(1));
    reading.cells.iter().filter(|cell| cell.slot == SlotId(slot)).map(|cell| cell.raw).sum()
}

fn spin(time: Duration) {
    let started = Instant::now();
    while started.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[test]
fn a_group_counts_at_the_same_time() {
    let mut slots = filtered(vec![software(0, TASK_CLOCK), software(1, PAGE_FAULTS)]);
    slots.iter_mut().for_each(|slot| slot.group = Some(0));
    let launcher = Launcher::start().unwrap();
    let mut child = launcher.prepare(&command("true", &[])).unwrap();
    let Some(mut counting) = permitted(&slots, &Target::Child(child.pid().unwrap())) else { return };
    counting.start().unwrap();
    child.release().unwrap();
    ended(child.as_mut());
    counting.stop().unwrap();
    let reading = read(counting.as_mut());
    assert!(value(&reading, 0) > 0 && value(&reading, 1) > 0, "{reading:?}");
    assert_eq!(reading.cells[0].time_enabled_ns, reading.cells[1].time_enabled_ns);
}

#[test]
fn a_cpu_is_counted_as_a_whole() {
    let cpus: CpuSet = [0].into_iter().collect();
    let Some(mut counting) = permitted(&[software(0, CPU_CLOCK)], &Target::Cpus(cpus)) else { return };
    counting.start().unwrap();
    thread::sleep(Duration::from_millis(20));
    counting.stop().unwrap();
    let reading = read(counting.as_mut());
    assert!(value(&reading, 0) >= 15_000_000, "{reading:?}");
    assert_eq!((reading.cells[0].at.cpu, reading.cells[0].at.tid), (Some(0), None));
}

#[test]
fn a_control_group_is_counted_by_its_folder() {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mount =
        mounts.lines().find(|line| line.contains(" cgroup2 ")).and_then(|line| line.split(' ').nth(1));
    let Some(mount) = mount else { return skip("control groups of version 2 are not mounted") };
    let cpus: CpuSet = [0].into_iter().collect();
    let target = Target::Cgroup { path: mount.into(), cpus };
    match open(&[software(0, CPU_CLOCK)], &target) {
        Ok(mut counting) => {
            counting.start().unwrap();
            assert_eq!(read(counting.as_mut()).cells[0].at.cpu, Some(0));
        }
        Err(refusal) => skip(&refusal.reason.to_string()),
    }
}

#[test]
fn what_the_machine_does_not_have_is_refused_by_name() {
    let mut nothing = slot(7, "nothing:u", perf_part("none", 0xffff_fff0, 0x3c, PerfClass::Core));
    nothing.filter = Some(Modes::USER);
    let refusal = open(&[nothing], &Target::ThisThread).err().unwrap();
    if refusal.kind == RefusalKind::NoPermission {
        return skip(&refusal.reason.to_string());
    }
    assert_eq!((refusal.slot, refusal.kind), (Some(SlotId(7)), RefusalKind::NotSupported));
    assert_eq!(refusal.reason.to_string(), "the PMU none does not have this event (ENOENT)");
}

#[test]
fn a_process_that_does_not_exist_is_no_target() {
    let slots = filtered(vec![software(0, TASK_CLOCK)]);
    for target in [
        Target::Process { pid: 0x7fff_fff0, inherit: true },
        Target::Thread(0x7fff_fff0),
        Target::Child(0x7fff_fff0),
        Target::Cpus([60_000].into_iter().collect()),
        Target::Cgroup { path: "no-such-group".into(), cpus: [0].into_iter().collect() },
    ] {
        let refusal = open(&slots, &target).err().unwrap();
        if refusal.kind == RefusalKind::NoPermission {
            return skip(&refusal.reason.to_string());
        }
        assert_eq!((refusal.slot, refusal.kind), (None, RefusalKind::NoSuchTarget), "{refusal:?}");
    }
}

#[test]
fn a_group_that_no_pmu_can_hold_is_refused_as_too_large() {
    let cycles = |id| {
        let part = perf_part("cpu", 0, 0, PerfClass::Core);
        Slot { filter: Some(Modes::USER), group: Some(0), ..slot(id, "cycles:u", part) }
    };
    let one = [Slot { group: None, ..cycles(0) }];
    if let Err(refusal) = open(&one, &Target::ThisThread) {
        return skip(&refusal.reason.to_string());
    }
    let many: Vec<Slot> = (0..64).map(cycles).collect();
    match open(&many, &Target::ThisThread) {
        Err(refusal) => assert_eq!(refusal.kind, RefusalKind::GroupTooLarge, "{refusal:?}"),
        Ok(_) => skip("this kernel's driver takes groups of any size"),
    }
}
