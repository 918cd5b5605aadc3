//! The result of a machine, and the table of all.

use std::fmt::Write as _;
use std::time::Duration;

use super::emulator::EmulatorEnd;

/// The result of a machine.
pub(super) enum GuestOutcome {
    /// Its suite came to an end: cases, and those that failed.
    Finished { cases: usize, failed: Vec<String> },
    /// It did not, for a reason.
    Broken(String),
    /// Something that it needs is not there.
    Skipped(String),
}

/// A row of the table.
pub(super) struct GuestRow {
    pub(super) machine: &'static str,
    pub(super) kernel: String,
    pub(super) outcome: GuestOutcome,
    pub(super) took: Duration,
}

impl GuestOutcome {
    /// The result that a console shows. A suite has come to its end if its last line is there, and names as
    /// many cases as were told.
    pub(super) fn of(ended: &EmulatorEnd, console: &[String], limit: Duration) -> Self {
        let told = console.iter().filter(|line| line.starts_with("case: ")).count();
        let failed: Vec<String> = console
            .iter()
            .filter_map(|line| line.strip_prefix("case: FAILED: "))
            .map(str::to_owned)
            .collect();
        let last = console.iter().find_map(|line| {
            let (cases, failed) = line.strip_prefix("suite: ")?.split_once(" cases, ")?;
            Some((cases.parse::<usize>().ok()?, failed.strip_suffix(" failed")?.parse::<usize>().ok()?))
        });
        match (ended, last) {
            (EmulatorEnd::Killed, _) => {
                Self::Broken(format!("killed after {} s, {told} cases told", limit.as_secs()))
            }
            (EmulatorEnd::Exited(status), None) => {
                Self::Broken(format!("ended early ({status}), {told} cases told"))
            }
            (_, Some((cases, wrong))) if cases == told && cases > 0 && wrong == failed.len() => {
                Self::Finished { cases, failed }
            }
            (_, Some((cases, _))) => {
                Self::Broken(format!("{told} of {cases} cases can be read on its console"))
            }
        }
    }

    /// Whether every case passed.
    pub(super) fn passed(&self) -> bool {
        matches!(self, Self::Finished { failed, .. } if failed.is_empty())
    }

    fn word(&self) -> String {
        match self {
            Self::Finished { cases, failed } if failed.is_empty() => format!("passed, {cases} cases"),
            Self::Finished { cases, failed } => format!("FAILED, {} of {cases} cases", failed.len()),
            Self::Broken(why) => format!("BROKEN: {why}"),
            Self::Skipped(why) => format!("skipped: {why}"),
        }
    }
}

/// The table.
pub(super) fn table(rows: &[GuestRow]) -> String {
    let width = |column: fn(&GuestRow) -> usize, head: &str| {
        rows.iter().map(column).chain([head.len()]).max().unwrap_or_default()
    };
    let machine = width(|row| row.machine.len(), "machine");
    let kernel = width(|row| row.kernel.len(), "kernel");
    let mut text = format!("{:machine$}  {:kernel$}  {:>5}  result\n", "machine", "kernel", "s");
    for row in rows {
        let seconds = row.took.as_secs();
        let _ = writeln!(
            text,
            "{:machine$}  {:kernel$}  {seconds:>5}  {}",
            row.machine,
            row.kernel,
            row.outcome.word()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn of(console: &[&str]) -> String {
        let console: Vec<String> = console.iter().map(|line| (*line).to_owned()).collect();
        GuestOutcome::of(&EmulatorEnd::Exited(ExitStatus::from_raw(0)), &console, Duration::from_secs(7))
            .word()
    }

    #[test]
    fn a_suite_passes_only_if_it_came_to_its_end_with_every_case_told() {
        assert_eq!(
            of(&["suite: x begins", "case: passed: a", "suite: 1 cases, 0 failed"]),
            "passed, 1 cases"
        );
        let failed = ["case: passed: a", "case: FAILED: b", "suite: 2 cases, 1 failed"];
        assert_eq!(of(&failed), "FAILED, 1 of 2 cases");
        assert_eq!(of(&["case: passed: a"]), "BROKEN: ended early (exit status: 0), 1 cases told");
        assert_eq!(of(&["suite: 0 cases, 0 failed"]), "BROKEN: 0 of 0 cases can be read on its console");
        assert_eq!(
            of(&["case: passed: a", "suite: 2 cases, 0 failed"]),
            "BROKEN: 1 of 2 cases can be read on its console"
        );
        let console = ["suite: 1 cases, 0 failed".to_owned()];
        let killed = GuestOutcome::of(&EmulatorEnd::Killed, &console, Duration::from_secs(7));
        assert_eq!(killed.word(), "BROKEN: killed after 7 s, 0 cases told");
        assert!(!killed.passed());
    }
}
