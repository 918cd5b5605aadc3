//! Programs that write registers, on simulated chips behind sockets: the output and effects of `doctor`.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::fake_devices;
use crate::support;

use std::process::Output;

use cyclometer_sim::{Model, Settings, SimMachine};
use fake_devices::{EPERM, FakeDevices, VARIABLE, recording};
use support::{cyclometer, one_line, schema, stderr, stdout};

/// A machine of two CPUs.
fn devices(model: &str, machine: &str) -> FakeDevices {
    let settings = Settings { cpus: 2, ..Settings::default() };
    FakeDevices::start_on(SimMachine::new(Model::find(model).unwrap(), settings), &recording(machine, 2))
}

fn doctor(devices: &FakeDevices, arguments: &[&str]) -> Output {
    cyclometer().arg("doctor").args(arguments).env(VARIABLE, devices.folder()).output().unwrap()
}

/// Leaves what a killed process leaves: the registers of a CPU, and a journal with the steps that restore
/// them.
fn leave(devices: &FakeDevices, cpu: u32, steps: &str) {
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
    let _ = std::fs::DirBuilder::new().mode(0o700).create(devices.journals());
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let dead = 0x7fff_fff0;
    let text = format!(
        "cyclometer registers 1\nboot {}\nmaker {dead} 1\nkeeper {dead} 2\ncpu {cpu}\n{steps}end\n",
        boot.trim()
    );
    let file = devices.journals().join(format!("registers-{cpu}"));
    let mut how = std::fs::OpenOptions::new();
    let file = how.write(true).create_new(true).mode(0o600).open(file).unwrap();
    std::io::Write::write_all(&mut &file, text.as_bytes()).unwrap();
}

#[test]
fn doctor_tells_that_registers_can_be_written() {
    let out = stdout(&doctor(&devices("skylake", "skylake"), &[]));
    assert!(out.contains("msr         works"), "{out}");
}

#[test]
fn registers_that_were_left_are_told_and_restored() {
    let devices = devices("amdzen4", "zen4");
    let all = "0xffffffffffffffff";
    for cpu in 0..2 {
        devices.set_register(cpu, "PERF_CTL0", 0x43_0076);
        devices.set_register(cpu, "PERF_CNTR_GLOBAL_CTL", 0x3f);
        leave(
            &devices,
            cpu,
            &format!("write PERF_CNTR_GLOBAL_CTL 0x0 {all}\nwrite PERF_CTL0 0x130076 {all}\nbarrier\n"),
        );
    }
    let out = one_line(&stdout(&doctor(&devices, &[])));
    assert!(out.contains("counter registers of CPU 1: process 2147483632 wrote them, and died"), "{out}");
    assert!(out.contains("fix: sudo cyclometer doctor --restore"), "{out}");
    let told: serde_json::Value = serde_json::from_str(&stdout(&doctor(&devices, &["--json"]))).unwrap();
    assert!(schema("doctor-1.json").is_valid(&told), "{told}");
    assert_eq!(told["left_registers"][1]["state"], "left");

    let out = doctor(&devices, &["--restore"]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let expected = "counter registers of CPU 0: restored\ncounter registers of CPU 1: restored\n";
    assert_eq!(stdout(&out), expected);
    for cpu in 0..2 {
        assert_eq!(devices.register(cpu, "PERF_CTL0"), 0x13_0076);
        assert_eq!(devices.register(cpu, "PERF_CNTR_GLOBAL_CTL"), 0);
    }
    let out = doctor(&devices, &["--restore"]);
    assert_eq!(stdout(&out), "no counter registers are left to be restored\n");
    assert_eq!(out.status.code(), Some(0));
}

#[test]
fn what_could_not_be_restored_is_a_failure_and_stays() {
    let devices = devices("skylake", "skylake");
    leave(&devices, 0, "write IA32_PERFEVTSEL0 0x0 0xffffffffffffffff\n");
    leave(&devices, 1, "write IA32_MISC_ENABLE 0x0 0xffffffffffffffff\n");
    devices.refuse_writes(Some(EPERM));
    let out = doctor(&devices, &["--restore"]);
    assert_eq!(out.status.code(), Some(125));
    // Lines are wrapped to the width of a terminal.
    let said = support::one_line(&stdout(&out));
    let error = stderr(&out);
    assert!(
        said.contains(
            "CPU 0: not restored: cannot restore the registers of CPU 0: cannot write IA32_PERFEVTSEL0"
        ),
        "{said}"
    );
    assert!(
        said.contains("CPU 1: not restored: IA32_MISC_ENABLE is no register that a driver may use"),
        "{said}"
    );
    assert!(error.starts_with("cyclometer: error: cannot restore the registers of CPU 0"), "{error}");
    devices.refuse_writes(None);
    let out = doctor(&devices, &["--restore"]);
    assert_eq!(out.status.code(), Some(125));
    assert!(stdout(&out).starts_with("counter registers of CPU 0: restored\n"));
    assert!(devices.journals().join("registers-1").exists());
}

#[test]
fn restoring_is_of_this_machine_only() {
    let devices = devices("skylake", "skylake");
    for other in [&["--json"][..], &["--machine", "x"], &["--record", "x"]] {
        let out = doctor(&devices, &[&["--restore"], other].concat());
        assert_eq!(out.status.code(), Some(125), "{other:?}");
    }
}
