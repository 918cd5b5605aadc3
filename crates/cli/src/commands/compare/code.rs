//! `compare --by`: the counts by code of each counted run, from the measurement and from a baseline.

use cyclometer::code_is_unchanged;
use cyclometer::core::code::CodeCounts;
use cyclometer::core::{Report, Result, SlotId};
use cyclometer::stats::Summary;
use cyclometer::stats::compare::Series;
use cyclometer::symbols::{CodeSeries, CountsByCode, Grouping, group};

/// The counts by code of a run, or why there are none.
type CodeOfRun = std::result::Result<CountsByCode, String>;

/// The counts by code of all commands. Names are looked up after each run, since hooks can build the next
/// program over this one.
#[derive(Debug)]
pub struct CodeOfArms {
    grouping: Grouping,
    /// The arm and the number of each run.
    runs: Vec<(usize, u32, CodeOfRun)>,
}

impl CodeOfArms {
    pub fn new(grouping: Grouping) -> CodeOfArms {
        CodeOfArms { grouping, runs: Vec::new() }
    }

    /// Adds a run.
    pub fn add(&mut self, arm: usize, run: u32, counts: Result<CodeCounts>) {
        let grouped = counts.map(|counts| group(&counts, self.grouping, code_is_unchanged));
        self.runs.push((arm, run, grouped.map_err(|error| error.to_string())));
    }

    /// The counts of an arm over those of its runs that its report keeps.
    pub fn series(&self, arm: usize, report: &Report, summary: &Summary, series: &[Series]) -> CodeSeries {
        let kept = |run: u32| {
            let mut runs = report.runs.iter().filter(|kept| kept.dropped_because.is_none());
            runs.any(|kept| kept.index == run)
        };
        let of_arm = || self.runs.iter().filter(|(of, run, _)| *of == arm && kept(*run));
        let name = |slot: &SlotId| {
            summary.lines.iter().find(|line| line.slot == *slot).map(|line| line.name.clone())
        };
        let slots =
            of_arm().find_map(|(_, _, counts)| Some(counts.as_ref().ok()?.slots.clone())).unwrap_or_default();
        let events = slots.iter().map(|slot| name(slot).unwrap_or_default()).collect();
        let mut all = CodeSeries::new(self.grouping, events);
        for (_, run, counts) in of_arm() {
            let told = match counts {
                Ok(counts) if counts.slots == slots => {
                    all.add(counts.clone());
                    incomplete(&all.events, *run, counts, series)
                }
                Ok(_) => vec!["its runs counted different events".to_owned()],
                Err(why) => vec![format!("where counts were made is unknown: {why}")],
            };
            let new: Vec<String> = told.into_iter().filter(|note| !all.notes.contains(note)).collect();
            all.notes.extend(new);
        }
        if all.runs == 0 && all.notes.is_empty() {
            all.notes.push(
                "where counts were made is unknown: the software PMU did not run the command".to_owned(),
            );
        }
        all
    }
}

/// The events of which the rows do not add up to the count of a run.
fn incomplete(events: &[String], run: u32, counts: &CountsByCode, series: &[Series]) -> Vec<String> {
    let text = |(event, sum): (&String, &Option<u64>)| {
        let series = series.iter().find(|series| series.name == *event)?;
        let value = series.values.iter().find(|value| value.run == run).and_then(|value| value.value);
        match (value, sum) {
            (Some(value), Some(sum)) if value == *sum as f64 => None,
            (Some(_), _) => Some(format!("{event}: the rows do not add up to the count of the command")),
            (None, _) => Some(format!("{event}: the rows are of the processes that have a count")),
        }
    };
    events.iter().zip(&counts.totals).filter_map(text).collect()
}
