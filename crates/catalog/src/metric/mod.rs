//! Metrics by name: formulas over events, for every CPU or for one.
//!
//! The tables (`data/metrics`) are text that is read in place, and only when a metric is requested. This
//! crate does not interpret formulas: the statistics crate parses and evaluates them.

mod spelling;
mod tables;
pub mod text;

use cyclometer_core::event::Unit;
use cyclometer_core::{Error, ErrorKind, Recovery, Result};

use crate::suggest;

pub use spelling::{PERF_METRICS, is_pseudo_event, request};
pub use text::Table;

/// The id of all CPUs in the header of a table.
const EVERY_CPU: &str = "*";

/// A metric of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Metric<'t> {
    /// Its name, unique among those of a CPU.
    pub name: &'t str,
    /// The description, in a line.
    pub about: &'t str,
    /// The factor from the formula's value to its unit.
    pub scale: f64,
    /// The symbol of its unit; empty for a ratio.
    pub symbol: &'t str,
    /// The least and the greatest value that the formula can have over events of the same kind; `None`
    /// without a limit.
    pub bounds: Option<(f64, f64)>,
    /// The groups that it belongs to (`TopdownL1`).
    pub groups: Vec<&'t str>,
    /// Its level in a top-down tree, from 1; `None` where there is no tree.
    pub level: Option<u8>,
    /// Whether it is a metric of every CPU, over portable events.
    pub of_every_cpu: bool,
    /// The formula, over names of events and of other metrics of the same CPU. The values of other metrics
    /// enter without their scale.
    pub formula: &'t str,
}

impl Metric<'_> {
    /// The unit of its values.
    pub fn unit(&self) -> Unit {
        if self.symbol.is_empty() { Unit::Ratio } else { Unit::Other(self.symbol.to_owned()) }
    }

    /// Whether `name` is its name or one of its groups, in any case and with `-` as `_`.
    pub fn answers_to(&self, name: &str) -> bool {
        is_same(self.name, name) || self.groups.iter().any(|group| is_same(group, name))
    }
}

fn is_same(a: &str, b: &str) -> bool {
    let fold = |byte: u8| if byte == b'-' { b'_' } else { byte.to_ascii_lowercase() };
    a.len() == b.len() && a.bytes().map(fold).eq(b.bytes().map(fold))
}

/// The embedded tables: the one for every CPU first.
pub fn tables() -> impl Iterator<Item = Table<'static>> {
    tables::ALL.iter().filter_map(|text| Table::new(text))
}

/// The metrics of a CPU, those of every CPU last; with `None` only those of every CPU.
///
/// The CPU's own metric replaces a metric of every CPU with the same name.
pub fn metrics(cpu: Option<&str>) -> impl Iterator<Item = Metric<'static>> {
    let of = |wanted: &str| {
        tables()
            .filter(|table| table.cpus().any(|cpu| is_same(cpu, wanted)))
            .flat_map(|t| t.metrics())
            .collect()
    };
    let own: Vec<Metric<'static>> = cpu.map(of).unwrap_or_default();
    let portable: Vec<Metric<'static>> = of(EVERY_CPU);
    let hidden = |metric: &Metric<'_>| own.iter().any(|other| is_same(other.name, metric.name));
    let portable: Vec<_> = portable.into_iter().filter(|metric| !hidden(metric)).collect();
    own.into_iter().chain(portable)
}

/// The metrics of a CPU that have this name or belong to a group of this name.
///
/// # Errors
///
/// `ErrorKind::UnknownEvent` with the nearest names of the CPU's metrics and groups, and with the CPUs that
/// have a metric or group of that name.
pub fn metric(name: &str, cpu: Option<&str>) -> Result<Vec<Metric<'static>>> {
    let all: Vec<Metric<'static>> = metrics(cpu).collect();
    let found: Vec<Metric<'static>> = match all.iter().find(|metric| is_same(metric.name, name)) {
        Some(metric) => vec![metric.clone()],
        None => all.iter().filter(|metric| metric.answers_to(name)).cloned().collect(),
    };
    if found.is_empty() { Err(unknown(name, cpu, &all)) } else { Ok(found) }
}

fn unknown(name: &str, cpu: Option<&str>, all: &[Metric<'_>]) -> Error {
    let shown: String = name.chars().take(80).flat_map(char::escape_debug).collect();
    let elsewhere = cpus_with(name);
    let message = match (elsewhere.first(), cpu) {
        (Some(_), Some(cpu)) => format!("{cpu} has no metric '{shown}'"),
        (Some(_), None) => format!("this CPU has no metric '{shown}'"),
        (None, _) => format!("no metric is named '{shown}'"),
    };
    let names = all.iter().flat_map(|metric| metric.groups.iter().copied().chain([metric.name]));
    let near = suggest::nearest(name, names);
    let recovery = match (near.is_empty(), elsewhere.is_empty()) {
        (false, _) => Recovery::OfferNearest { names: near },
        (true, false) => Recovery::fix(format!("it is one of {}", elsewhere.join(", "))),
        (true, true) => Recovery::fix("`cyclometer list --metrics` shows them"),
    };
    Error::new(ErrorKind::UnknownEvent, message).with_recovery(recovery)
}

/// The CPUs that have a metric or a group of that name.
fn cpus_with(name: &str) -> Vec<&'static str> {
    let has = |table: &Table<'static>| table.metrics().any(|metric| metric.answers_to(name));
    tables().filter(has).flat_map(|table| table.cpus()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_table_is_one_and_every_block_a_metric() {
        assert_eq!(tables().count(), tables::ALL.len());
        for (table, text) in tables().zip(tables::ALL) {
            let blocks = text.split("\n\n").count() - 1;
            let cpus: Vec<&str> = table.cpus().collect();
            assert_eq!(table.metrics().count(), blocks, "{cpus:?}");
            assert!(table.sources().next().is_some() && !cpus.is_empty(), "{cpus:?}");
            for metric in table.metrics() {
                assert!(!metric.about.is_empty() && !metric.name.contains(' '), "{cpus:?}: {}", metric.name);
                assert!(metric.about.len() <= 100, "{cpus:?}: {} is long", metric.name);
            }
        }
    }

    #[test]
    fn no_cpu_has_two_tables_or_a_metric_twice() {
        let mut cpus = HashSet::new();
        for table in tables() {
            let mut names = HashSet::new();
            assert!(table.cpus().all(|cpu| cpus.insert(cpu)));
            assert!(table.metrics().all(|metric| names.insert(metric.name.to_lowercase())));
        }
    }

    #[test]
    fn metrics_and_groups_are_found_in_any_case() {
        let names = |name, cpu| metric(name, cpu).unwrap().iter().map(|m| m.name).collect::<Vec<_>>();
        assert_eq!(names("IPC", None), ["ipc"]);
        assert_eq!(names("branch-miss-rate", Some("skylake")), ["branch_miss_rate"]);
        let level_1 = ["tma_frontend_bound", "tma_bad_speculation", "tma_backend_bound", "tma_retiring"];
        assert_eq!(names("topdownl1", Some("skylake")), level_1);
        assert_eq!(names("TopdownL1", Some("alderlake/atom")), level_1);
        assert_eq!(names("TopdownL2", Some("SapphireRapids")).len(), 8);
    }

    #[test]
    fn an_unknown_metric_offers_the_nearest_or_the_cpus_that_have_it() {
        let error = metric("tma_frontend_bund", Some("skylake")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnknownEvent);
        assert!(error.recovery().to_string().contains("tma_frontend_bound"), "{}", error.recovery());
        let error = metric("smt_contention", Some("skylake")).unwrap_err();
        assert_eq!(error.to_string(), "skylake has no metric 'smt_contention'");
        let error = metric("zzzzzzzzzzz", None).unwrap_err();
        assert_eq!(error.to_string(), "no metric is named 'zzzzzzzzzzz'");
    }
}
