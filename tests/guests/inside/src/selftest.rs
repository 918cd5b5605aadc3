//! What `cyclometer selftest` finds out on a machine: the events that it must trust, and those that it must not.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::cases::Cases;
use crate::programs::TOOL;
use crate::system::{Who, run};

/// What must be found out.
pub(crate) struct Truths {
    /// Verdicts of hardware events; `None` where there is no PMU.
    pub(crate) hardware: Option<&'static [(&'static str, &'static str)]>,
    /// Whether the software PMU counts every loop to the instruction.
    pub(crate) translated: bool,
}

/// Every case.
pub(crate) fn cases(cases: &mut Cases, truths: &Truths) {
    cases.case("selftest trusts what can be trusted, and nothing else", || {
        let finished = run(Who::Root, TOOL, &["selftest"])?;
        // For who reads the console.
        finished.out.lines().for_each(|line| println!("selftest: {line}"));
        let finished = run(Who::Root, TOOL, &["selftest", "--json"])?;
        let report: Value =
            serde_json::from_str(&finished.out).with_context(|| finished.printed()).context("no JSON")?;
        let told_truth = report["truth"] == true;
        ensure!(finished.status == i32::from(!told_truth), "exit {} of {}", finished.status, report["wrong"]);
        check(&report, truths)
    });
}

fn check(report: &Value, truths: &Truths) -> Result<()> {
    match truths.hardware {
        None => ensure!(section(report, "hardware")?["absent"].is_string(), "a PMU was found"),
        Some(verdicts) => {
            for (event, verdict) in verdicts {
                is(report, "hardware", event, verdict)?;
            }
        }
    }
    for event in ["task-clock", "page-faults", "context-switches"] {
        is(report, "software", event, "plausible")?;
    }
    if truths.translated {
        for event in ["instructions", "branches", "branches_taken", "calls", "returns", "loads", "stores"] {
            is(report, "translated", event, "exact")?;
        }
    }
    Ok(())
}

fn section<'a>(report: &'a Value, kind: &str) -> Result<&'a Value> {
    let sections = report["sections"].as_array().context("no sections")?;
    sections.iter().find(|section| section["kind"] == kind).with_context(|| format!("no section {kind}"))
}

fn is(report: &Value, kind: &str, event: &str, verdict: &str) -> Result<()> {
    let section = section(report, kind)?;
    let events = section["events"].as_array().context("no events")?;
    let found = events.iter().find(|found| found["event"] == event);
    let found = found.with_context(|| format!("{kind} has no {event}: {}", section["absent"]))?;
    ensure!(found["verdict"] == verdict, "{kind} event instead of {verdict}: {found}");
    Ok(())
}
