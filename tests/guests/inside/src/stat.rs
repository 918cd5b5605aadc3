//! `cyclometer stat` and its report.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::programs::TOOL;
use crate::system::{Finished, Who, run};

/// A finished `stat`.
pub(crate) struct Stat {
    pub(crate) finished: Finished,
    report: Value,
}

/// Runs `cyclometer stat` and reads its report, which is written whatever the exit status is.
pub(crate) fn stat(who: Who, args: &[&str]) -> Result<Stat> {
    let file = if who == Who::Root { "/tmp/root.json" } else { "/tmp/user.json" };
    let _ = fs::remove_file(file);
    let finished = run(who, TOOL, &[&["stat", "--export-json", file], args].concat())?;
    Stat::read(file, finished)
}

/// The same as root; it must succeed.
pub(crate) fn counted(args: &[&str]) -> Result<Stat> {
    let stat = stat(Who::Root, args)?;
    ensure!(stat.finished.status == 0, "exit {}\n{}", stat.finished.status, stat.finished.printed());
    Ok(stat)
}

impl Stat {
    /// Reads the report of a command that has finished.
    pub(crate) fn read(file: &str, finished: Finished) -> Result<Self> {
        let text = fs::read_to_string(file)
            .with_context(|| format!("no report; exit {}\n{}", finished.status, finished.printed()))?;
        let report = serde_json::from_str(&text).context("the report is no JSON")?;
        Ok(Self { finished, report })
    }

    fn metrics(&self) -> &[Value] {
        self.report["commands"][0]["metrics"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The metric of an event, by its index among the requested ones.
    pub(crate) fn metric(&self, index: usize) -> Result<&Value> {
        let found = self.metrics().get(index);
        found.with_context(|| format!("metric {index} is missing\n{}", self.finished.printed()))
    }

    /// The values of a metric that hardware counted for the whole time.
    pub(crate) fn exact(&self, index: usize) -> Result<Vec<u64>> {
        self.values(index, "exact", "hardware")
    }

    /// The values of a metric, which must have that count and provenance.
    pub(crate) fn values(&self, index: usize, count: &str, provenance: &str) -> Result<Vec<u64>> {
        let metric = self.metric(index)?;
        let is = |field: &str, wanted: &str| metric[field].as_str() == Some(wanted);
        ensure!(
            is("count", count) && is("provenance", provenance),
            "{} is {} {}, not {count} {provenance}: {}\n{}",
            metric["name"],
            metric["count"],
            metric["provenance"],
            metric["reason"],
            self.finished.printed()
        );
        let values = metric["values"].as_array().map_or(&[][..], Vec::as_slice);
        let numbers: Option<Vec<u64>> = values.iter().map(number).collect();
        let numbers = numbers.with_context(|| format!("{} has a value that is no number", metric["name"]))?;
        ensure!(!numbers.is_empty(), "{} has no value", metric["name"]);
        Ok(numbers)
    }

    /// The value of a metric of one run.
    pub(crate) fn one(&self, index: usize) -> Result<u64> {
        let values = self.exact(index)?;
        ensure!(values.len() == 1, "{values:?} are not one value");
        Ok(values[0])
    }

    /// Fails unless a metric was counted exactly, and has that value in each of `runs` runs.
    pub(crate) fn equals(&self, index: usize, wanted: u64, runs: usize) -> Result<()> {
        let values = self.exact(index)?;
        ensure!(values == vec![wanted; runs], "{values:?} instead of {runs} times {wanted}");
        Ok(())
    }

    /// Fails unless a metric was not counted, and the reason has all these words.
    pub(crate) fn not_counted(&self, index: usize, words: &[&str]) -> Result<()> {
        let metric = self.metric(index)?;
        ensure!(metric["count"] == "not_counted", "{} is {}", metric["name"], metric["count"]);
        words.iter().try_for_each(|word| self.no_number(index, word))
    }

    /// Fails unless a metric has no number, and the reason says so.
    pub(crate) fn no_number(&self, index: usize, reason: &str) -> Result<()> {
        let metric = self.metric(index)?;
        let none = matches!(metric["count"].as_str(), Some("not_counted" | "not_supported"));
        let why = metric["reason"].as_str().unwrap_or_default();
        ensure!(
            none && metric["mean"].is_null() && !why.is_empty() && why.contains(reason),
            "{} is {} ({}), mean {}",
            metric["name"],
            metric["count"],
            metric["reason"],
            metric["mean"]
        );
        Ok(())
    }
}

fn number(value: &Value) -> Option<u64> {
    let value = &value["value"];
    value.as_u64().or_else(|| {
        let float = value.as_f64().filter(|float| float.fract() == 0.0 && (0.0..9e15).contains(float))?;
        Some(float as u64)
    })
}
