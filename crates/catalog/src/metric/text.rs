//! Tables of metrics as text, read in place.
//!
//! ```text
//! cyclometer-metrics 1
//! cpu skylake
//! source …
//! licence …
//!
//! tma_frontend_bound
//! about share of the slots in which the front end delivered nothing
//! unit 100%
//! group TopdownL1
//! level 1
//! formula IDQ_UOPS_NOT_DELIVERED.CORE / tma_info_thread_slots
//! ```
//!
//! A table has a header of facts, then a block for each metric after an empty line: its name, and a line for
//! each fact. `unit` is perf's: the factor for the formula's value, and the symbol of the product. `bounds`
//! are the least and the greatest value of the formula. `#` starts a comment.

use super::{EVERY_CPU, Metric};

/// The first line of a table.
pub const FIRST_LINE: &str = "cyclometer-metrics 1";

/// A table: its header, and its metrics as text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Table<'t> {
    header: &'t str,
    body: &'t str,
}

impl<'t> Table<'t> {
    /// Takes a text for a table; `None` when it does not begin like one. The rest is not read yet.
    pub fn new(text: &'t str) -> Option<Table<'t>> {
        let rest = text.strip_prefix(FIRST_LINE)?.strip_prefix('\n')?;
        let (header, body) = rest.split_once("\n\n").unwrap_or((rest, ""));
        Some(Table { header, body })
    }

    /// The CPUs of its metrics; `*` for all.
    pub fn cpus(&self) -> impl Iterator<Item = &'t str> + use<'t> {
        facts(self.header, "cpu").flat_map(str::split_whitespace)
    }

    /// The sources of its facts.
    pub fn sources(&self) -> impl Iterator<Item = &'t str> + use<'t> {
        facts(self.header, "source")
    }

    /// Its metrics, in order; a block without a name or a formula is skipped.
    pub fn metrics(&self) -> impl Iterator<Item = Metric<'t>> + use<'t> {
        let of_every_cpu = self.cpus().any(|cpu| cpu == EVERY_CPU);
        self.body.split("\n\n").filter_map(block).map(move |metric| Metric { of_every_cpu, ..metric })
    }
}

fn facts<'t>(text: &'t str, key: &'static str) -> impl Iterator<Item = &'t str> {
    text.lines().filter_map(move |line| line.strip_prefix(key)?.strip_prefix(' ')).map(str::trim)
}

fn block(text: &str) -> Option<Metric<'_>> {
    let name = text.lines().find(|line| !line.starts_with('#') && !line.is_empty())?.trim();
    let fact = |key| facts(text, key).next();
    let (scale, symbol) = unit(fact("unit").unwrap_or_default());
    Some(Metric {
        name,
        about: fact("about").unwrap_or_default(),
        scale,
        symbol,
        bounds: fact("bounds").and_then(bounds),
        groups: facts(text, "group").flat_map(str::split_whitespace).collect(),
        level: fact("level").and_then(|level| level.parse().ok()),
        of_every_cpu: false,
        formula: fact("formula")?,
    })
}

/// `100%`: the factor and the symbol.
fn unit(text: &str) -> (f64, &str) {
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (factor, symbol) = text.split_at(digits);
    (factor.parse().unwrap_or(1.0), symbol.trim())
}

/// `0 1`: the least and the greatest value.
fn bounds(text: &str) -> Option<(f64, f64)> {
    let (least, greatest) = text.split_once(' ')?;
    Some((least.parse().ok()?, greatest.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "cyclometer-metrics 1
cpu skylake skylakex
source one
source two

# what a comment says
share
about part of the whole
unit 100%
group Parts Topdown
level 2
bounds 0 1
formula a / b

plain
formula a | b
";

    #[test]
    fn a_table_is_read_in_place() {
        let table = Table::new(SAMPLE).unwrap();
        assert_eq!(table.cpus().collect::<Vec<_>>(), ["skylake", "skylakex"]);
        assert_eq!(table.sources().collect::<Vec<_>>(), ["one", "two"]);
        let metrics: Vec<Metric<'_>> = table.metrics().collect();
        let share = &metrics[0];
        assert_eq!((share.name, share.scale, share.symbol), ("share", 100.0, "%"));
        assert_eq!((share.about, share.level), ("part of the whole", Some(2)));
        assert_eq!((share.bounds, metrics[1].bounds), (Some((0.0, 1.0)), None));
        assert_eq!((share.groups.as_slice(), share.formula), (&["Parts", "Topdown"][..], "a / b"));
        let plain = &metrics[1];
        assert_eq!((plain.name, plain.scale, plain.symbol, plain.formula), ("plain", 1.0, "", "a | b"));
        assert_eq!((plain.level, plain.groups.len(), metrics.len()), (None, 0, 2));
    }

    #[test]
    fn what_is_no_table_or_no_metric_is_left_out() {
        assert_eq!(Table::new("cyclometer-events 1\n"), None);
        let table = Table::new("cyclometer-metrics 1\ncpu *\n\nname without formula\nunit 1\n\n\n").unwrap();
        assert_eq!(table.metrics().count(), 0);
    }
}
