//! The results of `cyclometer selftest` on a machine: the events that it must trust, and those that it must
//! not.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::cases::Cases;
use crate::programs::TOOL;
use crate::system::{Who, run, sysctl};

/// The expected results for hardware events, by name; `None` without a PMU.
pub(crate) type Truths = Option<&'static [(&'static str, &'static str)]>;

/// The kernel's events that must be correct, and their results for root.
const ROOTS: &[(&str, &str)] =
    &[("task-clock", "plausible"), ("page-faults", "plausible"), ("context-switches", "plausible")];

/// The same for an ordinary user, whose counts cover user mode; context switches happen in the kernel.
const USERS: &[(&str, &str)] =
    &[("task-clock", "plausible"), ("page-faults:u", "plausible"), ("context-switches", "not_counted")];

/// Every case. The software PMU is left out: this build of it takes minutes to translate all loops in an
/// emulator. The tool's own tests run the loops under it.
pub(crate) fn cases(cases: &mut Cases, truths: Truths) {
    cases.case("selftest trusts what can be trusted, and nothing else", || tested(Who::Root, truths, ROOTS));
}

/// The results for an ordinary user at paranoid 2: the same for hardware.
pub(crate) fn of_user(cases: &mut Cases, truths: Truths) {
    cases.case("selftest tells an ordinary user the same, but for what they may not see", || {
        sysctl("kernel/perf_event_paranoid", "2")?;
        tested(Who::User, truths, USERS)
    });
}

fn tested(who: Who, truths: Truths, software: &[(&str, &str)]) -> Result<()> {
    let file = if who == Who::Root { "/tmp/selftest.json" } else { "/tmp/selftest-user.json" };
    let finished = run(who, TOOL, &["selftest", "--backend", "perf", "--report", file])?;
    // For the reader of the console.
    finished.out.lines().for_each(|line| println!("selftest: {line}"));
    let text = std::fs::read_to_string(file).with_context(|| finished.printed())?;
    let report: Value = serde_json::from_str(&text).context("the report is no JSON")?;
    let told_truth = report["truth"] == true;
    ensure!(finished.status == i32::from(!told_truth), "exit {} of {}", finished.status, report["wrong"]);
    check(&report, truths, software)
}

fn check(report: &Value, truths: Truths, software: &[(&str, &str)]) -> Result<()> {
    match truths {
        None => {
            let hardware = sections(report, "hardware")?;
            ensure!(hardware.iter().all(|section| section["absent"].is_string()), "a PMU was found");
        }
        Some(verdicts) => {
            for (event, verdict) in verdicts {
                is(report, "hardware", event, verdict)?;
            }
        }
    }
    software.iter().try_for_each(|(event, verdict)| is(report, "software", event, verdict))
}

/// The sections of a kind: a hybrid has several for hardware.
fn sections<'a>(report: &'a Value, kind: &str) -> Result<Vec<&'a Value>> {
    let all = report["sections"].as_array().context("no sections")?;
    let found: Vec<&Value> = all.iter().filter(|section| section["kind"] == kind).collect();
    ensure!(!found.is_empty(), "no section {kind}");
    Ok(found)
}

fn is(report: &Value, kind: &str, event: &str, verdict: &str) -> Result<()> {
    for section in sections(report, kind)? {
        let events = section["events"].as_array().context("no events")?;
        let found = events.iter().find(|found| found["event"] == event);
        let found = found.with_context(|| format!("{kind} has no {event}: {}", section["absent"]))?;
        ensure!(found["verdict"] == verdict, "{kind} event instead of {verdict}: {found}");
    }
    Ok(())
}
