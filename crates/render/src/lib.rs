//! From values to text: tables, JSON, CSV, Markdown, pictures, and recordings in other formats.
//!
//! This crate is internal: the command-line tool is its only user, and its API changes in any release. Its
//! loops go over data, millions of rows for a recording. The rest of the tool runs once and is built without
//! optimisation, so this is a crate of its own. A function takes values, and returns a text or writes to a
//! writer that it is given. Command lines, files and streams of the process are the tool's.
#![forbid(unsafe_code)]

pub mod advice;
pub mod by_code;
pub mod call_paths;
pub mod claims;
pub mod code_exports;
pub mod code_names;
pub mod compare;
mod counters;
pub mod cpus;
pub mod csv;
pub mod decoded;
pub mod doctor;
pub mod encoding;
pub mod events;
pub mod footer;
pub mod interval;
pub mod json;
pub mod lanes;
pub mod list;
pub mod live;
pub mod machine;
pub mod markdown;
mod marks;
pub mod metrics;
pub mod paint;
pub mod phases;
pub mod placement;
pub mod placement_json;
pub mod plot;
pub mod portable;
pub mod proof;
pub mod recorded;
pub mod recording;
pub mod regions;
pub mod registers;
pub mod reversed;
pub mod selftest;
pub mod stream;
pub mod table;
pub mod target;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;
pub mod threshold;
pub mod units;

use cyclometer_toolkit::core::report::Run;
use cyclometer_toolkit::core::{LaunchKind, Machine, Report, SlotId};
use cyclometer_toolkit::stats::Summary;

/// Width that text is laid out for, in columns, whether a terminal is there or not.
pub const WIDTH: usize = 80;

/// The input of every output format of `stat`.
#[derive(Clone, Copy, Debug)]
pub struct Results<'a> {
    /// The report of the measurement.
    pub report: &'a Report,
    /// Its statistics.
    pub summary: &'a Summary,
    /// Where it was measured.
    pub machine: &'a Machine,
    /// The regions that were counted beside; `None` where that was not asked for.
    pub regions: Option<&'a regions::Regions>,
    /// The counts by function, line or file; `None` where they were not asked for, or are missing.
    pub by_code: Option<&'a by_code::ByCode>,
    /// The values of intervals; `None` where they were not asked for.
    pub intervals: Option<&'a [interval::IntervalValues]>,
}

impl Results<'_> {
    /// The runs that could have counted an event: those that enter the statistics, translated or native as
    /// the event's pass is.
    pub fn runs_for(&self, slot: SlotId) -> usize {
        let mut passes = self.report.plan.passes.iter();
        let held = passes.find(|pass| pass.slots.iter().any(|held| held.id == slot));
        self.runs_of(held.map(|pass| pass.launch))
    }

    /// The runs that enter the statistics and make a pass of this kind; with `None`, of any.
    pub fn runs_of(&self, launch: Option<LaunchKind>) -> usize {
        let kept = |run: &&Run| self.summary.only_dropped || run.dropped_because.is_none();
        let suits = |run: &&Run| launch.is_none() || self.launch_of_pass(run.pass) == launch;
        self.report.runs.iter().filter(kept).filter(suits).count()
    }

    /// How runs of a pass are started.
    pub fn launch_of_pass(&self, pass: usize) -> Option<LaunchKind> {
        self.report.plan.passes.get(pass).map(|pass| pass.launch)
    }
}

/// Breaks text at blanks so that each line has at most `width` columns, longer words excepted.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if columns(line) + 1 + columns(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Text behind a head, broken at blanks below its own beginning; each line is given its style.
pub fn hanging(head: &str, text: &str, style: impl Fn(&str) -> String) -> String {
    let indent = columns(head).min(WIDTH - 30);
    let mut out = String::new();
    for (i, line) in wrap(text, WIDTH - indent).iter().enumerate() {
        let line = if i == 0 { format!("{head}{line}") } else { format!("{:indent$}{line}", "") };
        out += &(style(&line) + "\n");
    }
    if out.is_empty() { style(head.trim_end()) + "\n" } else { out }
}

/// How many columns a text takes; every character that we print takes one.
pub fn columns(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_at_blanks_only() {
        assert_eq!(wrap("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(wrap("a_long_word b", 4), ["a_long_word", "b"]);
        assert_eq!(wrap("", 4), [""; 0]);
    }

    #[test]
    fn text_behind_a_head_goes_on_below_its_beginning() {
        let text = hanging("  head: ", &"word ".repeat(20), str::to_owned);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("  head: word") && lines[1].starts_with("        word"), "{text}");
        assert!(lines.iter().all(|line| columns(line) <= WIDTH), "{text}");
        assert_eq!(hanging("  head: ", "", str::to_owned), "  head:\n");
    }
}
