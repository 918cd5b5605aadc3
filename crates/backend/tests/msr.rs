//! Registers through devices that tests serve: faults, and restoring after every kind of end.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::fake_devices;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cyclometer_arch::{
    Coded, Fault, Placed, PmuReg, ProgramOptions, Register, Registers, Step, carry_out, intel,
    register_program, restore,
};
use cyclometer_backend::msr::{MsrBus, MsrLocation, left_registers_in, restore_registers_in};
use cyclometer_backend::registers::{Bus, Chips, LeftState, Restored};
use cyclometer_core::{CounterId, CpuSet, ErrorKind, EventCode, Modes, Recovery};
use cyclometer_sim::{Model, Settings, SimMachine, Workload};
use cyclometer_sys::process::{SIGKILL, signal};
use fake_devices::{EPERM, FakeDevices, VARIABLE};

/// A generous timeout for operations that take no time on an idle machine.
const LATE: Duration = Duration::from_secs(300);

fn model() -> &'static Model {
    Model::find("skylake").unwrap()
}

fn chips(cpus: u32) -> Chips {
    Chips::new(vec![((0..cpus).collect::<CpuSet>(), model().chip)])
}

/// Two CPUs, a thread on each, and registers in the state in which perf leaves them.
fn devices() -> FakeDevices {
    let mut machine = SimMachine::new(model(), Settings { cpus: 2, ..Settings::default() });
    for cpu in 0..2 {
        machine.spawn(Workload::named("loop").unwrap(), &[cpu]).unwrap();
    }
    let devices = FakeDevices::start(machine);
    for cpu in 0..2 {
        devices.set_register(cpu, "IA32_PERF_GLOBAL_CTRL", 0x7_0000_000f);
        devices.set_register(cpu, "IA32_PERFEVTSEL0", 0x13_003c);
        devices.set_register(cpu, "IA32_A_PMC0", 0x1234_5678_9abc);
    }
    devices
}

fn bus(devices: &FakeDevices) -> MsrBus {
    MsrBus::at(MsrLocation::fake(devices.folder().to_owned()), chips(2))
}

fn register(register: intel::Register) -> PmuReg {
    PmuReg::of(&model().chip, Register::Intel(register)).unwrap()
}

/// The registers that [`count`] writes, on both CPUs.
fn held(devices: &FakeDevices) -> Vec<u64> {
    let names = ["IA32_PERF_GLOBAL_CTRL", "IA32_PERFEVTSEL0", "IA32_PMC0", "IA32_PERFEVTSEL1"];
    (0..2).flat_map(|cpu| names.map(|name| devices.register(cpu, name))).collect()
}

/// Keeps the restore steps of a CPU, starts counting branches on counter 0, and returns the steps.
fn count(bus: &mut MsrBus, cpu: u32) -> Vec<Step> {
    let coded = Coded::new(EventCode { select: 0xc4, ..EventCode::default() });
    let placed = Placed { coded, counter: CounterId::General(0), modes: Modes::USER, period: None };
    let options = ProgramOptions { full_width_writes: true, ..ProgramOptions::default() };
    let program = register_program(&model().chip, &[placed], options).unwrap();
    let saved: Vec<(PmuReg, u64)> =
        program.touched().into_iter().map(|register| (register, bus.read(cpu, register).unwrap())).collect();
    let restoring = restore(&program, &saved);
    bus.keep(cpu, &restoring).unwrap();
    carry_out(&program.set_up, bus, cpu).unwrap();
    carry_out(&program.start, bus, cpu).unwrap();
    restoring
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + LATE;
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn journals(devices: &FakeDevices) -> Vec<String> {
    let Ok(folder) = std::fs::read_dir(devices.journals()) else { return Vec::new() };
    let mut names: Vec<String> =
        folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A bus may be used on another thread than the one that made it.
const _: fn() = || {
    fn may_move<T: Send>() {}
    may_move::<MsrBus>();
};

#[test]
fn registers_are_read_and_written_and_count() {
    let devices = devices();
    let mut bus = bus(&devices);
    let counter = register(intel::Register::Counter(0));
    count(&mut bus, 0);
    let first = bus.read(0, counter).unwrap();
    until("nothing is counted", || bus.read(0, counter).unwrap() > first);
    assert_eq!(devices.register(0, "IA32_PERFEVTSEL0"), 0x41_00c4);
    assert_eq!(devices.register(1, "IA32_PERFEVTSEL0"), 0x13_003c);
    let before = bus.now_ns();
    until("time stands still", || bus.now_ns() > before);
}

#[test]
fn what_the_cpu_lacks_and_what_it_refuses_are_told_apart() {
    let devices = devices();
    let mut bus = bus(&devices);
    let newer = Model::find("icelake").unwrap().chip;
    let metrics = PmuReg::of(&newer, Register::Intel(intel::Register::Metrics)).unwrap();
    assert_eq!(bus.read(0, metrics), Err(Fault::NoRegister { register: metrics }));
    let select = register(intel::Register::EventSelect(1));
    let refused = bus.write(0, select, 1 << 60 | 0x41_00c0).unwrap_err();
    assert_eq!(refused, Fault::Reserved { register: select, bits: 1 << 60 | 0x41_00c0 });
    assert_eq!(bus.read(2, select), Err(Fault::NoCpu { cpu: 2 }));
    let status = register(intel::Register::GlobalStatus);
    assert_eq!(bus.write(0, status, 0), Err(Fault::ReadOnly { register: status }));
    assert_eq!(devices.written(), []);
}

#[test]
fn a_kernel_that_forbids_writing_is_told_with_what_to_look_at() {
    let devices = devices();
    let mut bus = bus(&devices);
    devices.refuse_writes(Some(EPERM));
    let fault = bus.write(0, register(intel::Register::GlobalControl), 0).unwrap_err();
    let Fault::System { writing: true, is_forbidden: true, reason, .. } = fault else { panic!("{fault}") };
    assert!(reason.contains("lockdown") && reason.contains("msr.allow_writes"), "{reason}");
}

#[test]
fn bits_of_others_are_not_written_whatever_a_driver_wants() {
    let devices = devices();
    let mut bus = bus(&devices);
    let debug = register(intel::Register::DebugControl);
    assert_eq!(bus.write(0, debug, 1), Err(Fault::Reserved { register: debug, bits: 1 }));
    assert_eq!(devices.written(), []);
    bus.write(0, debug, 1 << 12).unwrap();
    assert_eq!(bus.read(0, debug), Ok(1 << 12));
    bus.write(0, debug, 0).unwrap();
    assert_eq!(devices.register(0, "IA32_DEBUGCTL"), 0);
}

#[test]
fn nothing_is_kept_before_it_is_asked_for_and_nothing_is_left_after_it_is_let_go() {
    let devices = devices();
    let mut bus = bus(&devices);
    let before = held(&devices);
    assert_eq!((bus.daemon(), journals(&devices)), (None, vec![]));
    let restoring = count(&mut bus, 1);
    assert_eq!(journals(&devices), ["registers-1"]);
    carry_out(&restoring, &mut bus, 1).unwrap();
    bus.let_go(1);
    assert!(!devices.journals().exists());
    assert_eq!(held(&devices), before);
    let written = devices.written();
    drop(bus);
    assert_eq!(devices.written(), written, "there is nothing to restore any more");
}

#[test]
fn a_bus_that_is_dropped_restores_what_it_still_keeps() {
    let devices = devices();
    let before = held(&devices);
    let mut bus = bus(&devices);
    count(&mut bus, 0);
    count(&mut bus, 1);
    assert_ne!(held(&devices), before);
    assert_eq!(journals(&devices), ["registers-0", "registers-1"]);
    drop(bus);
    assert_eq!(held(&devices), before);
    assert!(!devices.journals().exists());
}

#[test]
fn the_last_steps_that_were_kept_are_those_that_are_made() {
    let devices = devices();
    let mut bus = bus(&devices);
    let mut restoring = count(&mut bus, 0);
    bus.keep(0, &restoring).unwrap();
    for step in &mut restoring {
        if let Step::Write(bits) = step
            && bits.register == register(intel::Register::EventSelect(0))
        {
            bits.value = 0x13_00c5;
        }
    }
    bus.keep(0, &restoring).unwrap();
    drop(bus);
    assert_eq!(devices.register(0, "IA32_PERFEVTSEL0"), 0x13_00c5);
}

#[test]
fn the_registers_of_a_cpu_are_one_bus_s_at_a_time() {
    let devices = devices();
    let (mut first, mut second) = (bus(&devices), bus(&devices));
    let restoring = count(&mut first, 0);
    let error = second.keep(0, &restoring).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CounterBusy);
    let expected = format!("process {} uses the counter registers of CPU 0", std::process::id());
    assert_eq!(error.to_string(), expected);
    count(&mut second, 1);
    drop(first);
    assert_eq!(journals(&devices), ["registers-1"], "that of the other bus stays");
    second.keep(0, &restoring).unwrap();
}

#[test]
fn what_nobody_could_restore_is_not_kept() {
    let devices = devices();
    let place = MsrLocation::fake(devices.folder().to_owned());
    let mut strange = MsrBus::at(place.clone(), chips(1));
    let global = register(intel::Register::GlobalControl);
    let bits = cyclometer_arch::RegisterBits { register: global, value: 0, mask: u64::MAX };
    let error = strange.keep(1, &[Step::Write(bits)]).unwrap_err();
    assert!(error.to_string().contains("the chip of CPU 1 is unknown"), "{error}");
    let mut far = MsrBus::at(place, chips(9));
    let error = far.keep(8, &[Step::Write(bits)]).unwrap_err();
    assert!(error.to_string().contains("there is no CPU 8"), "{error}");
    assert!(!devices.journals().exists());
}

#[test]
fn without_a_daemon_nothing_more_is_kept() {
    let devices = devices();
    let mut bus = bus(&devices);
    let restoring = count(&mut bus, 0);
    signal(bus.daemon().unwrap(), SIGKILL).unwrap();
    let error = bus.keep(1, &restoring).unwrap_err();
    assert!(
        error.to_string().contains("the registers of CPU 1 could not be restored after a crash"),
        "{error}"
    );
    assert_eq!(journals(&devices), ["registers-0"], "what was kept before is still written down");
    carry_out(&restoring, &mut bus, 0).unwrap();
    until("the daemon lives on", || {
        bus.let_go(0);
        !devices.journals().exists()
    });
}

#[test]
fn a_folder_that_others_may_write_to_is_no_place_for_journals() {
    let devices = devices();
    std::fs::create_dir(devices.journals()).unwrap();
    let open: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(devices.journals(), open).unwrap();
    let error = bus(&devices).keep(0, &[Step::Barrier]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("not ours alone"), "{error}");
}

/// The other process of the tests below: counts on both CPUs, prints the id of its restore daemon, and waits
/// to be killed.
#[test]
fn a_process_that_counts() {
    let Some(wait) = std::env::var_os("CYCLOMETER_TEST_COUNTS") else { return };
    assert_eq!(wait, "and waits");
    let mut bus = MsrBus::new(chips(2));
    count(&mut bus, 0);
    count(&mut bus, 1);
    let mut out = std::io::stdout();
    writeln!(out, "\nkeeper {}", bus.daemon().unwrap()).unwrap();
    out.flush().unwrap();
    std::thread::sleep(LATE * 4);
}

/// That process, when it counts, and its restore daemon.
fn counting(devices: &FakeDevices) -> (Child, u32) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "msr::a_process_that_counts", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, devices.folder())
        .env("CYCLOMETER_TEST_COUNTS", "and waits")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let daemon = lines.find_map(|line| line.strip_prefix("keeper ")?.parse().ok()).unwrap();
    (child, daemon)
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_process_that_is_killed_leaves_registers_as_they_were() {
    let devices = devices();
    let before = held(&devices);
    let (child, _) = counting(&devices);
    assert_ne!(held(&devices), before);
    assert_eq!(journals(&devices), ["registers-0", "registers-1"]);
    kill(child);
    until("nobody restores", || !devices.journals().exists());
    assert_eq!(held(&devices), before);
    assert_eq!(left_registers_in(&MsrLocation::fake(devices.folder().to_owned())), []);
}

#[test]
fn what_is_left_when_the_daemon_dies_too_is_told_and_restored() {
    let devices = devices();
    let place = MsrLocation::fake(devices.folder().to_owned());
    let before = held(&devices);
    let (child, daemon) = counting(&devices);
    let pid = child.id();
    let states = || left_registers_in(&place).into_iter().map(|left| left.state).collect::<Vec<_>>();
    assert_eq!(states(), [LeftState::InUse, LeftState::InUse]);
    for each in restore_registers_in(&place, &chips(2)) {
        assert_eq!(each.outcome.unwrap(), Restored::Untouched);
    }
    signal(daemon, SIGKILL).unwrap();
    kill(child);
    until("a dead daemon is believed to restore", || states() == [LeftState::Left, LeftState::Left]);
    let left = left_registers_in(&place).remove(1);
    assert_eq!((left.cpu, left.pid), (Some(1), Some(pid)));
    assert_ne!(held(&devices), before);

    let error = bus(&devices).keep(1, &[Step::Barrier]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CounterBusy);
    let remedy = Recovery::GrantAccess { command: "sudo cyclometer doctor --restore".to_owned() };
    assert_eq!(error.recovery(), &remedy);

    for each in restore_registers_in(&place, &chips(2)) {
        assert_eq!(each.outcome.unwrap(), Restored::Restored);
    }
    assert_eq!(held(&devices), before);
    assert!(!devices.journals().exists());
}

/// A modified journal that a dead process left.
fn left_and_changed(devices: &FakeDevices, change: impl Fn(String) -> String) -> MsrLocation {
    let (child, daemon) = counting(devices);
    signal(daemon, SIGKILL).unwrap();
    kill(child);
    let file = devices.journals().join("registers-0");
    let text = change(std::fs::read_to_string(&file).unwrap());
    std::fs::write(&file, text).unwrap();
    let place = MsrLocation::fake(devices.folder().to_owned());
    until("a dead daemon is believed to restore", || left_registers_in(&place)[1].state == LeftState::Left);
    place
}

#[test]
fn registers_that_a_boot_has_reset_are_not_written() {
    let devices = devices();
    let place = left_and_changed(&devices, |text| {
        let boot = text.lines().nth(1).unwrap().to_owned();
        text.replace(&boot, "boot 00000000-0000-0000-0000-000000000000")
    });
    let written = devices.written().len();
    assert_eq!(left_registers_in(&place)[0].state, LeftState::Reset);
    let outcomes = restore_registers_in(&place, &chips(2));
    assert_eq!(*outcomes[0].outcome.as_ref().unwrap(), Restored::Forgotten);
    assert!(devices.written()[written..].iter().all(|written| written.cpu == 1));
    assert!(!devices.journals().exists());
}

#[test]
fn a_journal_that_names_other_registers_restores_nothing_and_stays() {
    let devices = devices();
    let changes = [
        ("IA32_PERFEVTSEL0", "IA32_MISC_ENABLE", "IA32_MISC_ENABLE is no register"),
        ("\nend\n", "\n", "the last line is missing"),
        ("\ncpu 0\n", "\ncpu 1\n", "another CPU than its name"),
    ];
    let whole = {
        left_and_changed(&devices, |text| text);
        std::fs::read_to_string(devices.journals().join("registers-0")).unwrap()
    };
    let place = MsrLocation::fake(devices.folder().to_owned());
    let written = devices.written().len();
    for (from, to, expected) in changes {
        assert!(whole.contains(from), "{from}");
        std::fs::write(devices.journals().join("registers-0"), whole.replace(from, to)).unwrap();
        let first = restore_registers_in(&place, &chips(2)).remove(0);
        let error = first.outcome.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(devices.written()[written..].iter().all(|written| written.cpu == 1));
        assert_eq!(journals(&devices)[0], "registers-0");
    }
    std::fs::write(devices.journals().join("registers-0"), whole).unwrap();
    let error = restore_registers_in(&place, &Chips::default()).remove(0).outcome.unwrap_err();
    assert!(error.to_string().contains("its chip is unknown"), "{error}");
}

#[test]
fn a_cpu_that_cannot_be_restored_keeps_its_journal() {
    let devices = devices();
    let before = held(&devices);
    let place = left_and_changed(&devices, |text| text);
    devices.refuse_writes(Some(EPERM));
    let error = restore_registers_in(&place, &chips(2)).remove(0).outcome.unwrap_err();
    assert!(error.to_string().starts_with("cannot restore the registers of CPU 0: cannot write"), "{error}");
    assert_eq!(journals(&devices), ["registers-0", "registers-1"]);
    devices.refuse_writes(None);
    assert!(restore_registers_in(&place, &chips(2)).into_iter().all(|each| each.outcome.is_ok()));
    assert_eq!(held(&devices), before);
}

#[test]
fn a_daemon_that_cannot_restore_leaves_the_journal_for_others() {
    let devices = devices();
    let before = held(&devices);
    let (child, daemon) = counting(&devices);
    devices.refuse_writes(Some(EPERM));
    kill(child);
    until("the daemon tries for ever", || signal(daemon, 0).is_err());
    assert_eq!(journals(&devices), ["registers-0", "registers-1"]);
    devices.refuse_writes(None);
    let place = MsrLocation::fake(devices.folder().to_owned());
    assert!(restore_registers_in(&place, &chips(2)).into_iter().all(|each| each.outcome.is_ok()));
    assert_eq!(held(&devices), before);
}
