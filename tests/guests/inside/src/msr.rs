//! x86's counter registers through the kernel's own driver, /dev/cpu/N/msr.

use std::fs::{self, File};
use std::io::PipeWriter;
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::cases::Cases;
use crate::programs::{LOOP, TOOL, WAITING};
use crate::stat::counted;
use crate::system::{Started, Who, load, run, start, sysctl, wait_for};

/// Selects, counters and enable registers of both vendors; registers that a chip lacks are left out.
const REGISTERS: &[u32] = &[
    0x186,
    0x187,
    0x188,
    0x189,
    0xc1,
    0xc2,
    0xc3,
    0xc4,
    0x309,
    0x30a,
    0x30b,
    0x38d,
    0x38f,
    0xc001_0200,
    0xc001_0201,
    0xc001_0202,
    0xc001_0203,
    0xc001_0204,
    0xc001_0205,
    0xc001_0206,
    0xc001_0207,
    0xc001_0208,
    0xc001_0209,
    0xc001_020a,
    0xc001_020b,
];

/// The folder of the journals from which registers are restored.
const JOURNALS: &str = "/run/cyclometer";

/// Every case; the order matters: the driver is loaded and the watchdog switched off on the way.
pub(crate) fn cases(cases: &mut Cases) {
    cases.case("msr without the kernel's driver is refused with the remedy", || {
        refused("the msr driver is not loaded")?;
        run(Who::Root, TOOL, &["doctor"])?.expect(0)?.says(&["sudo modprobe msr"])
    });
    cases.case("the kernel's driver loads", load_driver);
    if watchdog() {
        cases.case("msr while the NMI watchdog counts is refused with the remedy", || {
            let before = registers()?;
            refused("the NMI watchdog is on")?;
            run(Who::Root, TOOL, &["stat", "--backend", "msr", "--", LOOP.path])?
                .expect(125)?
                .says(&["sudo sysctl kernel.nmi_watchdog=0"])?;
            ensure!(controls(&registers()?) == controls(&before), "registers were written");
            run(Who::Root, TOOL, &["doctor"])?.expect(0)?.says(&["sudo sysctl kernel.nmi_watchdog=0"])
        });
        cases.case("the watchdog can be switched off", || sysctl("kernel/nmi_watchdog", "0"));
    }
    cases.case("msr counts a loop, and what else runs there", count);
    cases.case("msr leaves registers as they were", || {
        let before = registers()?;
        counted(&msr(&["-C", "0", "-e", "instructions:u,cycles:uk", "--", LOOP.path]))?;
        let after = registers()?;
        ensure!(after == before, "{after:x?} instead of {before:x?}");
        no_journals()
    });
    cases.case("msr gives registers back when it is killed", killed);
    cases.case("what nobody could give back is told by doctor, and restored by it", both_killed);
    cases.case("msr is refused where the kernel's driver forbids writes", || {
        let setting = "/sys/module/msr/parameters/allow_writes";
        let before = fs::read_to_string(setting)?;
        fs::write(setting, "off")?;
        let refused = refused("allow_writes is off");
        fs::write(setting, before.trim())?;
        refused
    });
    cases.case("an ordinary user is refused", || {
        let args =
            [&["stat"], msr(&["-C", "0", "-e", "instructions:u", "--", LOOP.path]).as_slice()].concat();
        run(Who::User, TOOL, &args)?.expect(125)?.says(&["error:", "needs root", "help:"])
    });
    cases.case("perf counts afterwards as before", || {
        sysctl("kernel/perf_event_paranoid", "-1")?;
        counted(&["-e", "instructions:u", "--", LOOP.path])?.equals(0, LOOP.instructions, 1)
    });
}

/// A machine without a PMU: its registers accept every write and store none.
pub(crate) fn no_registers(cases: &mut Cases) {
    cases.case("the kernel's driver loads", load_driver);
    cases.case("registers that a CPU does not have are not counted with", || refused("no counters"));
}

/// The same, but the CPU claims to have a PMU.
pub(crate) fn vanishing_writes(cases: &mut Cases) {
    cases.case("the kernel's driver loads", load_driver);
    cases.case("perf has no hardware events", || {
        run(Who::Root, TOOL, &["doctor"])?.expect(0)?.says(&["hardware events? no"])
    });
    cases.case("writes that vanish are noticed, and no number is told", || {
        let _ = sysctl("kernel/nmi_watchdog", "0");
        let args = ["stat", "--backend", "msr", "-C", "0", "-e", "instructions:u", "--", LOOP.path];
        let finished = run(Who::Root, TOOL, &args)?.expect(125)?;
        finished.says(&["error:", "stands still", "does not let us have the PMU"])?;
        no_journals()
    });
}

fn msr<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&["--backend", "msr"], args].concat()
}

/// The tool refuses to begin, with a reason and a remedy; the command is not run.
fn refused(reason: &str) -> Result<()> {
    let args = [&["stat"], msr(&["-C", "0", "-e", "instructions:u", "--", LOOP.path]).as_slice()].concat();
    run(Who::Root, TOOL, &args)?.expect(125)?.says(&["error:", reason, "help:"])
}

fn load_driver() -> Result<()> {
    load("msr")?.context("loading msr")?;
    let there = || Ok(fs::exists("/dev/cpu/0/msr")?.then_some(()));
    wait_for("/dev/cpu/0/msr", Duration::from_secs(60), there)
}

fn watchdog() -> bool {
    fs::read_to_string("/proc/sys/kernel/nmi_watchdog").is_ok_and(|text| text.trim() == "1")
}

/// All registers of CPU 0 that can be read.
fn registers() -> Result<Vec<(u32, u64)>> {
    let device = File::open("/dev/cpu/0/msr").context("opening /dev/cpu/0/msr")?;
    let mut found = Vec::new();
    for register in REGISTERS {
        let mut bytes = [0; 8];
        if device.read_at(&mut bytes, u64::from(*register)).is_ok() {
            found.push((*register, u64::from_le_bytes(bytes)));
        }
    }
    ensure!(!found.is_empty(), "no register can be read");
    Ok(found)
}

/// The registers that do not count.
fn controls(registers: &[(u32, u64)]) -> Vec<(u32, u64)> {
    let is_counter = |register: u32| {
        matches!(register, 0xc1..=0xc4 | 0x309..=0x30b) || register >> 16 == 0xc001 && register & 1 == 1
    };
    registers.iter().copied().filter(|(register, _)| !is_counter(*register)).collect()
}

/// The tool's own instructions are counted too, so the number is no less than the loop's, and of its size.
fn count() -> Result<()> {
    let stat = counted(&msr(&["-C", "0", "-e", "instructions:u,cycles:u", "--", LOOP.path]))?;
    for (index, each) in [(0, 1), (1, 2)] {
        let metric = stat.metric(index)?;
        ensure!(metric["source"] == "msr", "{}", metric["source"]);
        let value = stat.one(index)?;
        let least = each * LOOP.instructions;
        ensure!((least..least + least / 5).contains(&value), "{value} for at least {least}");
    }
    Ok(())
}

/// The tool, counting a command that waits as long as its standard input is open.
struct Counting {
    started: Started,
    _command: PipeWriter,
}

/// Time limit for every wait.
const LIMIT: Duration = Duration::from_secs(120);

impl Counting {
    /// Starts it, and waits until registers are written.
    fn start(before: &[(u32, u64)]) -> Result<Self> {
        let args =
            [&["stat"], msr(&["-C", "0", "-e", "instructions:u", "--", WAITING.path]).as_slice()].concat();
        let (reader, writer) = std::io::pipe()?;
        let started = start(Who::Root, TOOL, &args, Stdio::from(reader))?;
        let changed = || Ok((controls(&registers()?) != controls(before)).then_some(()));
        match wait_for("registers to be written", LIMIT, changed) {
            Ok(()) => Ok(Self { started, _command: writer }),
            Err(error) => Err(error.context(started.kill()?.printed())),
        }
    }

    fn kill(self) -> Result<()> {
        let finished = self.started.kill()?;
        ensure!(finished.status == 128 + 9, "exit {}", finished.status);
        Ok(())
    }
}

fn killed() -> Result<()> {
    let before = registers()?;
    Counting::start(&before)?.kill()?;
    wait_for("registers to be restored", LIMIT, || Ok((registers()? == before).then_some(())))
        .with_context(|| format!("{:x?} instead of {before:x?}", registers().unwrap_or_default()))?;
    wait_for("journals to be gone", LIMIT, || Ok(no_journals().is_ok().then_some(())))
}

/// Kills the tool that counts and the process that would restore the registers.
fn both_killed() -> Result<()> {
    let before = registers()?;
    let counting = Counting::start(&before)?;
    let daemons = processes("cyclometer-keep")?;
    ensure!(!daemons.is_empty(), "no daemon runs");
    for daemon in daemons {
        kill_process(daemon, Signal::KILL)?;
    }
    counting.kill()?;
    std::thread::sleep(Duration::from_millis(200));
    ensure!(controls(&registers()?) != controls(&before), "somebody restored the registers all the same");
    run(Who::Root, TOOL, &["doctor"])?.expect(0)?.says(&["--restore"])?;
    run(Who::Root, TOOL, &["doctor", "--restore"])?.expect(0)?;
    let after = registers()?;
    ensure!(after == before, "{after:x?} instead of {before:x?}");
    no_journals()
}

/// The processes with a name, as far as the kernel stores it.
fn processes(name: &str) -> Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let id = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let own = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        let own = own.trim_end();
        if !own.is_empty() && own.len() >= name.len().min(15) && name.starts_with(own) {
            found.extend(id.and_then(Pid::from_raw));
        }
    }
    Ok(found)
}

fn no_journals() -> Result<()> {
    let left: Vec<_> =
        fs::read_dir(JOURNALS).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
    ensure!(left.is_empty(), "{JOURNALS} has {left:?}");
    Ok(())
}
