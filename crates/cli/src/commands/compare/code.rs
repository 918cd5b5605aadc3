//! `compare --by`: the counts by code of each counted run, from the measurement and from a baseline.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use cyclometer_toolkit::HostCodeFiles;
use cyclometer_toolkit::core::code::CodeCounts;
use cyclometer_toolkit::core::{Report, SlotId, Verdict};
use cyclometer_toolkit::stats::{RunValue, Summary};
use cyclometer_toolkit::symbols::{
    CodeSeries, CountsByCode, CountsOfCode, Grouping, group, group_with_inlined, left_out_note,
};

use crate::failure::without_numbers;

/// The counts by code of a run, or why there are none.
type CodeOfRun = Result<CountsByCode, String>;

/// The counts by code of all commands. Names are looked up after each run, since hooks can build the next
/// program over this one.
#[derive(Debug)]
pub struct CodeOfArms {
    grouping: Grouping,
    /// Whether inlined functions have rows of their own; only by function.
    has_inlined: bool,
    /// The arm and the number of each run.
    runs: Vec<(usize, u32, CodeOfRun)>,
}

impl CodeOfArms {
    pub fn new(grouping: Grouping, has_inlined: bool) -> CodeOfArms {
        CodeOfArms { grouping, has_inlined, runs: Vec::new() }
    }

    /// Adds a run. A signal of `next_signal` ends the look-up of names, and is returned.
    pub fn add(
        &mut self,
        arm: usize,
        run: u32,
        counts: cyclometer_toolkit::Result<CodeCounts>,
        next_signal: impl FnMut() -> Option<i32>,
    ) -> Option<i32> {
        let (grouping, has_inlined) = (self.grouping, self.has_inlined);
        let look_up = |counts: CodeCounts| {
            let look_up = move || match has_inlined {
                true => group_with_inlined(&counts, &HostCodeFiles),
                false => group(&counts, grouping, &HostCodeFiles),
            };
            interruptible(look_up, next_signal)
        };
        let (grouped, signal) = match counts.map(look_up) {
            Ok(Ok(grouped)) => (Ok(grouped), None),
            Ok(Err(signal)) => {
                (Err(format!("signal {signal} came while names were looked up")), Some(signal))
            }
            Err(error) => (Err(error.to_string()), None),
        };
        self.runs.push((arm, run, grouped));
        signal
    }

    /// The counts of an arm over those of its runs that its report keeps. A run in which the count of the
    /// command is missing is left out, with a note; so is an event without a count in all other runs.
    pub fn series(&self, arm: usize, report: &Report, summary: &Summary) -> CodeSeries {
        let kept = |run: u32| {
            let mut runs = report.runs.iter().filter(|kept| kept.dropped_because.is_none());
            runs.any(|kept| kept.index == run)
        };
        let of_arm: Vec<_> = self.runs.iter().filter(|(of, run, _)| *of == arm && kept(*run)).collect();
        let mut notes = Vec::new();
        let slots = of_arm.iter().find_map(|(_, _, counts)| Some(counts.as_ref().ok()?.slots.clone()));
        let slots = slots.unwrap_or_default();
        let mut counted = Vec::new();
        for (_, run, counts) in &of_arm {
            match counts {
                Ok(counts) if counts.slots == slots => counted.push(RunByCode { run: *run, counts }),
                Ok(_) => notes.push("its runs counted different events".to_owned()),
                Err(why) => notes.push(format!("where counts were made is unknown: {why}")),
            }
        }
        let events = slots.iter().map(|slot| EventOfRuns::of(*slot, summary)).collect::<Vec<_>>();
        let Complete { events: columns, left_out, runs } = complete(&events, counted, &mut notes);
        let names = columns.iter().map(|column| events[*column].name.clone()).collect();
        let has_inlined = self.has_inlined;
        let mut all = CodeSeries { left_out, has_inlined, ..CodeSeries::new(self.grouping, names) };
        for RunByCode { run, counts } in runs {
            notes.extend(
                columns.iter().filter_map(|column| events[*column].other_sum(run, counts.totals[*column])),
            );
            all.add(of_columns(counts, &columns));
        }
        if all.runs == 0 && notes.is_empty() {
            notes.push(
                "where counts were made is unknown: the software PMU did not run the command".to_owned(),
            );
        }
        for note in notes {
            if !all.notes.contains(&note) {
                all.notes.push(note);
            }
        }
        all
    }
}

/// The time between two looks for a signal.
const SIGNAL_LOOKS: Duration = Duration::from_millis(10);

/// The result of some work, or the signal that came meanwhile. Then the work goes on in a thread of its own,
/// which the end of this process ends.
fn interruptible<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
    mut next_signal: impl FnMut() -> Option<i32>,
) -> Result<T, i32> {
    let (sender, receiver) = channel();
    let thread = std::thread::spawn(move || {
        // The receiver is gone after a signal.
        let _ = sender.send(work());
    });
    loop {
        match receiver.recv_timeout(SIGNAL_LOOKS) {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(signal) = next_signal() {
                    return Err(signal);
                }
            }
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => unreachable!("the thread sends before it ends"),
            },
        }
    }
}

/// A run with counts by code.
#[derive(Clone, Copy)]
struct RunByCode<'a> {
    run: u32,
    counts: &'a CountsByCode,
}

/// An event with the counts of the command in all runs.
struct EventOfRuns<'a> {
    name: String,
    values: &'a [RunValue],
}

impl<'a> EventOfRuns<'a> {
    fn of(slot: SlotId, summary: &'a Summary) -> EventOfRuns<'a> {
        match summary.lines.iter().find(|line| line.slot == slot) {
            Some(line) => EventOfRuns { name: line.name.clone(), values: &line.values },
            None => EventOfRuns { name: String::new(), values: &[] },
        }
    }

    /// The reason why the count of the command is missing in a run; `None` if it is there.
    fn missing(&self, run: u32) -> Option<String> {
        let Some(value) = self.values.iter().find(|value| value.run == run) else {
            return Some("it was not counted".to_owned());
        };
        let is_there = value.value.is_some() && value.count.verdict() == Verdict::Exact;
        let reason = || value.count.reason().unwrap_or_else(|| "it was not counted".to_owned());
        (!is_there).then(|| without_numbers(&reason()))
    }

    /// The note on a run whose rows do not add up to the count of the command.
    fn other_sum(&self, run: u32, sum: Option<u64>) -> Option<String> {
        let value = self.values.iter().find(|value| value.run == run)?.value?;
        let adds_up = sum.is_some_and(|sum| sum as f64 == value);
        (!adds_up).then(|| format!("{}: the rows do not add up to the count of the command", self.name))
    }
}

/// The events and runs of which all counts are there.
struct Complete<'a> {
    /// The indices of the events.
    events: Vec<usize>,
    /// The names of the events that are left out.
    left_out: Vec<String>,
    runs: Vec<RunByCode<'a>>,
}

/// Selects the events that have counts, and the runs in which all of them have. An event that would leave no
/// run is left out.
fn complete<'a>(
    events: &[EventOfRuns<'_>],
    mut runs: Vec<RunByCode<'a>>,
    notes: &mut Vec<String>,
) -> Complete<'a> {
    let (mut with_counts, mut left_out) = (Vec::new(), Vec::new());
    for (index, event) in events.iter().enumerate() {
        let name = &event.name;
        let has_count = |run: &&RunByCode<'_>| event.missing(run.run).is_none();
        let having: Vec<RunByCode<'a>> = runs.iter().filter(has_count).copied().collect();
        let missing = runs.iter().find_map(|run| Some((run.run, event.missing(run.run)?)));
        let Some((run, why)) = missing else {
            with_counts.push(index);
            continue;
        };
        if having.is_empty() {
            notes.push(left_out_note(name, &format!("no run has its count: {why}")));
            left_out.push(name.clone());
        } else {
            let (left, all) = (runs.len() - having.len(), runs.len());
            let is = if left == 1 { "is" } else { "are" };
            notes.push(format!(
                "{left} of {all} counted runs {is} left out: no count of {name} in run {}: {why}",
                run + 1
            ));
            with_counts.push(index);
            runs = having;
        }
    }
    if with_counts.is_empty() {
        runs.clear();
    }
    Complete { events: with_counts, left_out, runs }
}

/// The counts of some events.
fn of_columns(counts: &CountsByCode, columns: &[usize]) -> CountsByCode {
    let rows = counts.rows.iter().map(|row| CountsOfCode {
        name: row.name.clone(),
        counts: columns.iter().map(|column| row.counts[*column]).collect(),
    });
    CountsByCode {
        grouping: counts.grouping,
        slots: columns.iter().map(|column| counts.slots[*column]).collect(),
        instructions: counts.instructions.clone(),
        rows: rows.collect(),
        totals: columns.iter().map(|column| counts.totals[*column]).collect(),
        calls: Vec::new(),
        graph: None,
        notes: counts.notes.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_toolkit::core::Count;
    use cyclometer_toolkit::symbols::Grouping;

    fn value(run: u32, count: Result<u64, &str>) -> RunValue {
        let count = match count {
            Ok(count) => Count::Exact(count),
            Err(reason) => Count::Lost { reason: reason.into() },
        };
        let value = match count {
            Count::Exact(count) => Some(count as f64),
            _ => None,
        };
        RunValue { run, pass: 0, value, count, half_width: None, rotation_group: None }
    }

    /// The events and runs that are left, and the notes.
    fn left(values: &[(&str, &[Result<u64, &str>])]) -> (Vec<usize>, Vec<u32>, Vec<String>) {
        let all: Vec<(&str, Vec<RunValue>)> = values
            .iter()
            .map(|(name, values)| {
                (*name, (0..).zip(*values).map(|(run, count)| value(run, *count)).collect())
            })
            .collect();
        let events: Vec<EventOfRuns<'_>> =
            all.iter().map(|(name, values)| EventOfRuns { name: (*name).to_owned(), values }).collect();
        let counts = CountsByCode {
            grouping: Grouping::Function,
            slots: Vec::new(),
            instructions: Vec::new(),
            rows: Vec::new(),
            totals: Vec::new(),
            calls: Vec::new(),
            graph: None,
            notes: Vec::new(),
        };
        let runs = (0..values[0].1.len() as u32).map(|run| RunByCode { run, counts: &counts }).collect();
        let mut notes = Vec::new();
        let Complete { events, runs, .. } = complete(&events, runs, &mut notes);
        (events, runs.iter().map(|run| run.run).collect(), notes)
    }

    #[test]
    fn runs_and_events_without_a_count_are_left_out_with_the_reason() {
        assert_eq!(left(&[("a", &[Ok(1), Ok(1)]), ("b", &[Ok(2), Ok(2)])]), (vec![0, 1], vec![0, 1], vec![]));
        let note = "1 of 2 counted runs is left out: no count of a in run 2: detached".to_owned();
        assert_eq!(left(&[("a", &[Ok(1), Err("detached")])]), (vec![0], vec![0], vec![note]));
        let (events, runs, notes) = left(&[("a", &[Err("p: ptrace"), Err("p: ptrace")])]);
        assert_eq!((events, runs), (vec![], vec![]));
        assert_eq!(notes, ["a is not compared by code: no run has its count: p: ptrace"]);
        let lost = [Err("x"), Err("x")];
        assert_eq!(left(&[("a", &lost), ("b", &[Ok(1), Ok(1)])]).0, [1], "the other event is compared");
    }

    #[test]
    fn a_signal_ends_the_wait_for_work_that_takes_long() {
        assert_eq!(interruptible(|| 7, || None), Ok(7));
        let (release, wait) = channel::<()>();
        let mut looks = 0;
        let signal = || {
            looks += 1;
            (looks == 3).then_some(2)
        };
        // The work would end with the test only.
        assert_eq!(interruptible(move || wait.recv().is_ok(), signal), Err(2));
        drop(release);
        let panics = || interruptible(|| -> u8 { panic!("broken") }, || None);
        assert!(std::panic::catch_unwind(panics).is_err());
    }

    #[test]
    fn rows_that_do_not_add_up_are_told() {
        let values = [value(0, Ok(5))];
        let event = EventOfRuns { name: "a".to_owned(), values: &values };
        assert_eq!(event.other_sum(0, Some(5)), None);
        assert!(event.other_sum(0, Some(4)).is_some() && event.other_sum(0, None).is_some());
    }
}
