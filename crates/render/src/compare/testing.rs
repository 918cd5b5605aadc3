//! A comparison made by hand, for the tests of every format.
#![allow(clippy::unwrap_used)] // Code of tests.

use cyclometer_toolkit::compare::Executions;
use cyclometer_toolkit::core::{Machine, Report};
use cyclometer_toolkit::interleaved::{Comparison, Round};
use cyclometer_toolkit::stats::compare::{Design, FailedRuns, Gate, GateSide, Question, Series, compare};
use cyclometer_toolkit::stats::{Failures, summarise};

use super::{ArmShown, Contest, Reference, Versus};
use crate::testing::{compared_report, vm_with_soft};

/// Two commands of twelve pairs and two counted runs each; the second takes 5 % longer and counts 12,345
/// instructions more.
pub fn shown(test: impl Fn(&Machine, &Comparison)) {
    let reports = vec![compared_report(0, "gzip -6 -kc file"), compared_report(1, "gzip -7 -kc file")];
    let order = |i: usize| if i.is_multiple_of(3) { vec![1, 0] } else { vec![0, 1] };
    let padding = |i: usize| if i < 2 { 0 } else { (i * 331 % 4096) as u16 };
    let rounds = (0..14).map(|i| Round { order: order(i), padding: padding(i) }).collect();
    test(&vm_with_soft(), &Comparison { reports, rounds, ended: None, failed_cleanups: Vec::new() });
}

fn arm(report: &Report) -> ArmShown {
    let summary = summarise(report);
    let name = crate::target::command_text(report.command.as_ref().unwrap());
    ArmShown { name, series: Series::all_of(&summary), summary, code: None }
}

fn gates() -> Vec<Gate> {
    let texts = ["instructions > +1%", "wall_time > +1%", "peak_rss > +0.1%"];
    texts.iter().map(|text| Gate::parse(text).unwrap()).collect()
}

/// Both, the second against the first.
pub fn contest<'a>(machine: &'a Machine, comparison: &'a Comparison) -> Contest<'a> {
    let arms: Vec<ArmShown> = comparison.reports.iter().map(arm).collect();
    judged(machine, comparison, arms, Reference::First, Design::Paired)
}

/// The second against a file that holds the first.
pub fn against_baseline<'a>(machine: &'a Machine, comparison: &'a Comparison) -> Contest<'a> {
    let mut arms: Vec<ArmShown> = comparison.reports.iter().map(arm).collect();
    let second = arms.pop().unwrap();
    let first = arms.pop().unwrap();
    let reference = Reference::Baseline {
        file: "base.json".to_owned(),
        command: first.name,
        series: first.series,
        code: None,
        failures: Failures::default(),
        notes: vec!["the kernel was 6.12.0 then and is 6.12.1 now".to_owned()],
    };
    judged(machine, comparison, vec![second], reference, Design::Apart)
}

fn judged<'a>(
    machine: &'a Machine,
    comparison: &'a Comparison,
    arms: Vec<ArmShown>,
    reference: Reference,
    design: Design,
) -> Contest<'a> {
    let first = usize::from(reference == Reference::First);
    let question = Question { design, threshold: 0.005 };
    let executions = Executions { commands: arms.len() as u32, warmups: 1, counted: 2, native: 12 };
    let mut contest = Contest {
        machine,
        comparison,
        arms,
        reference,
        versus: Vec::new(),
        question,
        executions,
        output_difference: None,
        output_checked: true,
    };
    let (a, b) = (contest.reference_series(), contest.arms[first].series.as_slice());
    let metrics = compare(a, &[b], question).remove(0);
    let failures = Failures::default();
    let of = |series| GateSide { series, failures: &failures };
    let gates = gates().iter().map(|gate| gate.apply(of(a), of(b), question, FailedRuns::Refuse)).collect();
    contest.versus = vec![Versus { arm: first, metrics, gates, code: None }];
    contest
}

/// Whether a report has both kinds of runs; else the tests would show too little.
#[test]
fn the_reports_have_counted_and_timed_runs() {
    use cyclometer_toolkit::core::report::LaunchKind;

    shown(|_, comparison| {
        for report in &comparison.reports {
            let launches = [LaunchKind::Native, LaunchKind::Translated];
            assert!(launches.iter().all(|kind| report.runs.iter().any(|run| run.launch == *kind)));
        }
    });
}
