//! Counting as an ordinary user, by kernel.perf_event_paranoid.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::cases::Cases;
use crate::perf::Pmu;
use crate::programs::{LOOP, TOOL, WAITING};
use crate::stat::{Stat, stat};
use crate::system::{Who, run, start, sysctl, wait_for};

/// Every case; all other suites test the rights of root.
pub(crate) fn cases(cases: &mut Cases, pmu: &Pmu) {
    cases.case("an ordinary user counts the kernel too at paranoid 1", || {
        let user = at("1", &["-e", "instructions:u", "--", LOOP.path], 0)?;
        pmu.counts(&user, 0, &LOOP, 1)?;
        let kernel = at("1", &["-e", "instructions:k", "--", LOOP.path], 0)?;
        ensure!(kernel.one(0)? > 0, "nothing in the kernel");
        Ok(())
    });
    cases.case("an ordinary user counts user mode only at paranoid 2, and is told so", || {
        let stat = at("2", &["-e", "instructions:u", "--", LOOP.path], 0)?;
        pmu.counts(&stat, 0, &LOOP, 1)?;
        let narrowed = at("2", &["-e", "instructions:uk", "--", LOOP.path], 0)?;
        ensure!(narrowed.metric(0)?["name"] == "instructions:u", "{}", narrowed.metric(0)?["name"]);
        pmu.counts(&narrowed, 0, &LOOP, 1)?;
        narrowed.finished.says(&["EACCES", "user mode only"])?;
        at("2", &["-e", "instructions:k", "--", LOOP.path], 0)?.no_number(0, "not permitted")
    });
    cases.case("an ordinary user counts a process of theirs, and nobody else's", || {
        sysctl("kernel/perf_event_paranoid", "2")?;
        own_process(pmu)?;
        let mut other = start(Who::Root, WAITING.path, &[], Stdio::piped())?;
        let pid = other.child.id().to_string();
        // No event can be counted, so `stat` must not wait for the end of the process.
        let refused = run(Who::User, TOOL, &["stat", "-p", &pid, "-e", "instructions:u"]);
        drop(other.child.stdin.take());
        other.finish()?.expect(0)?;
        let refused = refused?.expect(125)?;
        refused.says(&["not permitted", "nothing is counted", "as root"])
    });
    cases.case("an ordinary user does not count other CPUs' work at paranoid 2", || {
        let finished = run(Who::User, TOOL, &["stat", "-a", "-e", "instructions:u", "--", LOOP.path])?;
        ensure!(!finished.printed().contains(&LOOP.instructions.to_string()), "{}", finished.printed());
        finished.says(&["not permitted on CPU", "(EACCES)"])
    });
    cases.case("an ordinary user counts no hardware at paranoid 3, and is told the fix", || {
        at("3", &["--", LOOP.path], 0)?.finished.says(&["perf_event_paranoid is 3", "to count"])?;
        run(Who::User, TOOL, &["doctor"])?.expect(0)?.says(&["sudo sysctl kernel.perf_event_paranoid=2"])?;
        at("3", &["--backend", "perf", "-e", "instructions:u", "--strict", "--", LOOP.path], 124)?
            .not_counted(0, &["perf_event_paranoid is 3", "sudo sysctl kernel.perf_event_paranoid=2"])
    });
    cases.case("doctor tells an ordinary user the setting that is in the way", || {
        run(Who::User, TOOL, &["doctor"])?.expect(0)?.says(&["perf_event_paranoid", "hardware events? no"])
    });
    let _ = sysctl("kernel/perf_event_paranoid", "2");
}

/// A user counts their own process from its current point on.
fn own_process(pmu: &Pmu) -> Result<()> {
    const REPORT: &str = "/tmp/own.json";
    let mut process = start(Who::User, WAITING.path, &[], Stdio::piped())?;
    let pid = process.child.id().to_string();
    let args = ["stat", "--export-json", REPORT, "-p", &pid, "-e", "instructions:u"];
    let mut started = start(Who::User, TOOL, &args, Stdio::null())?;
    let _ = wait_for("a counter", Duration::from_secs(30), || Ok(started.has_counter()));
    std::thread::sleep(Duration::from_millis(300));
    drop(process.child.stdin.take());
    process.finish()?.expect(0)?;
    pmu.counts(&Stat::read(REPORT, started.finish()?.expect(0)?)?, 0, &WAITING, 1)
}

/// Runs `stat` as an ordinary user at a setting.
fn at(paranoid: &str, args: &[&str], status: i32) -> Result<Stat> {
    sysctl("kernel/perf_event_paranoid", paranoid)?;
    let stat = stat(Who::User, args)?;
    let Stat { finished, .. } = &stat;
    ensure!(
        finished.status == status,
        "exit {} instead of {status}\n{}",
        finished.status,
        finished.printed()
    );
    Ok(stat)
}
