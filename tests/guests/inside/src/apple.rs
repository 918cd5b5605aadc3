//! Apple's counter registers through the module of `kernel/apple-pmu`.

use std::fs;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::io::Errno;
use rustix::system::delete_module;

use crate::cases::Cases;
use crate::programs::{LOOP, TOOL, WAITING};
use crate::stat::counted;
use crate::system::{Who, load, run, start, wait_for};

const MODULE: &str = "apple_pmu_el0";
const DEVICE: &str = "/dev/apple_pmu_el0";

/// Apple's machine, with the registers.
pub(crate) fn granted(cases: &mut Cases) {
    cases.case("sysreg without the module is refused with the remedy", || {
        refused("sudo modprobe apple_pmu_el0")
    });
    cases.case("the module loads", || {
        load(MODULE)?.context("loading the module")?;
        ensure!(fs::exists(DEVICE)?, "there is no {DEVICE}");
        Ok(())
    });
    cases.case("sysreg counts a loop, in each of three runs", count);
    cases.case("sysreg counts the same again after it gave the registers back", count);
    cases.case("a device that another process holds is refused by name", || {
        let held = File::options().read(true).write(true).open(DEVICE).context("opening the device")?;
        refused("is open in another process")?;
        drop(held);
        count()
    });
    cases.case("after kill -9 the device is free, and counts", killed);
    cases.case("an ordinary user is refused", || {
        let args = ["stat", "--backend", "sysreg", "-e", "instructions:u", "--", LOOP.path];
        run(Who::User, TOOL, &args)?.expect(125)?.says(&["error:", "help:"])
    });
    cases.case("the module is not unloaded while the device is held, and then is", || {
        let held = File::options().read(true).write(true).open(DEVICE).context("opening the device")?;
        let busy = unload();
        ensure!(busy == Err(Errno::AGAIN) || busy == Err(Errno::BUSY), "{busy:?}");
        drop(held);
        unload().context("unloading the module")?;
        ensure!(!fs::exists(DEVICE)?, "{DEVICE} is still there");
        refused("apple_pmu_el0 is not loaded")
    });
    cases.case("the kernel complained of nothing", quiet);
}

/// Machines that lack something: the module does not load, and nothing breaks.
pub(crate) fn refused_by_module(cases: &mut Cases) {
    cases.case("the module does not load", || match load(MODULE)? {
        Err(Errno::NODEV) => Ok(()),
        other => bail!("{other:?} instead of ENODEV"),
    });
    cases.case("sysreg is refused", || refused("apple_pmu_el0 is not loaded"));
    cases.case("the kernel complained of nothing", quiet);
}

fn unload() -> rustix::io::Result<()> {
    // O_NONBLOCK: does not wait for users of the module.
    delete_module(c"apple_pmu_el0", 0o4000)
}

/// The tool refuses to begin, with a reason and a remedy.
fn refused(reason: &str) -> Result<()> {
    let args = ["stat", "--backend", "sysreg", "-e", "instructions:u", "--", LOOP.path];
    run(Who::Root, TOOL, &args)?.expect(125)?.says(&["error:", reason, "help:"])
}

/// Everything that runs on the CPU is counted: the count is no less than the loop's, and of its size.
fn count() -> Result<()> {
    let events = "instructions:u,cycles:u";
    let stat = counted(&["--backend", "sysreg", "-r", "3", "-e", events, "--", LOOP.path])?;
    for (index, each) in [(0, 1), (1, 2)] {
        let metric = stat.metric(index)?;
        ensure!(metric["source"] == "sysreg" && metric["provenance"] == "hardware", "{metric}");
        let values = metric["values"].as_array().map_or(&[][..], Vec::as_slice);
        let least = each * LOOP.instructions;
        let fits = |value: &serde_json::Value| {
            value["value"].as_f64().is_some_and(|value| value >= least as f64 && value < 1.2 * least as f64)
        };
        let fit = values.iter().filter(|value| fits(value)).count();
        ensure!(
            values.len() == 3 && fit == 3,
            "{values:?} for at least {least}\n{}",
            stat.finished.printed()
        );
    }
    Ok(())
}

fn killed() -> Result<()> {
    let (reader, writer) = std::io::pipe()?;
    let args = ["stat", "--backend", "sysreg", "-e", "instructions:u", "--", WAITING.path];
    let started = start(Who::Root, TOOL, &args, Stdio::from(reader))?;
    let held = || Ok(File::options().read(true).write(true).open(DEVICE).is_err().then_some(()));
    let counting = wait_for("the device to be held", Duration::from_secs(120), held);
    let finished = started.kill()?;
    drop(writer);
    counting.with_context(|| finished.printed())?;
    ensure!(finished.status == 128 + 9, "exit {}", finished.status);
    let free = || Ok(File::options().read(true).write(true).open(DEVICE).ok().map(drop));
    wait_for("the device to be free", Duration::from_secs(120), free)?;
    count()
}

/// The kernel's log reports no fault.
fn quiet() -> Result<()> {
    let log = kernel_log()?;
    ensure!(!log.is_empty(), "the kernel's log is empty");
    for line in log.lines() {
        let fault = ["Oops", "BUG:", "WARNING:", "Call trace", "Undefined instruction"];
        ensure!(!fault.iter().any(|word| line.contains(word)), "{line}");
    }
    Ok(())
}

/// Each read returns one record, until none is left.
fn kernel_log() -> Result<String> {
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits())?;
    let mut file = File::options().read(true).custom_flags(nonblocking).open("/dev/kmsg")?;
    let mut log = String::new();
    let mut record = [0; 8192];
    while let Ok(bytes) = file.read(&mut record) {
        log.push_str(&String::from_utf8_lossy(&record[..bytes]));
    }
    Ok(log)
}
