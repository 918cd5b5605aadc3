//! Tables of metrics: top-down formulas from the vendors' files or from definitions of ours, with
//! descriptions of ours.
//!
//! Only names of events, numbers and arithmetic are taken over, and those only from files that may be copied:
//! perf's own formulas are not looked at. A metric for which `words` has no description is an error, so that
//! none slips in with the vendor's.

mod amd;
mod arm;
mod intel;
mod words;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use cyclometer_catalog::metric::text::FIRST_LINE;
use cyclometer_stats::formula::{Expression, Formula};

/// The metrics of one CPU, or of several that share them.
struct MetricTable {
    family: &'static str,
    cpus: &'static [&'static str],
    source: String,
    licence: &'static str,
    metrics: Vec<MetricEntry>,
}

/// A metric as it is written.
#[derive(Clone, PartialEq, Debug)]
struct MetricEntry {
    name: String,
    unit: &'static str,
    groups: Vec<String>,
    level: Option<u8>,
    formula: String,
}

/// Writes all tables that are made here, and the list that embeds them; the portable one is written by hand.
pub(super) fn write(root: &Path, from: &Path) -> Result<()> {
    let mut tables = intel::tables(from).context("intel")?;
    tables.extend(amd::tables());
    tables.extend(arm::tables(from).context("arm")?);
    let folder = super::data(root).join("metrics");
    for family in tables.iter().map(|table| table.family).collect::<BTreeSet<_>>() {
        if folder.join(family).exists() {
            fs::remove_dir_all(folder.join(family))?;
        }
    }
    for table in &tables {
        let path = folder.join(table.family).join(table.cpus[0]);
        fs::create_dir_all(path.parent().unwrap_or(&folder))?;
        fs::write(&path, written(table)?).with_context(|| path.display().to_string())?;
    }
    fs::write(root.join("crates/catalog/src/metric/tables.rs"), list(&tables))?;
    let metrics: usize = tables.iter().map(|table| table.metrics.len()).sum();
    eprintln!("metrics: {} tables, {metrics} metrics", tables.len());
    Ok(())
}

fn written(table: &MetricTable) -> Result<String> {
    let MetricTable { cpus, source, licence, metrics, .. } = table;
    let mut out = format!("{FIRST_LINE}\ncpu {}\nsource {source}\nlicence {licence}\n", cpus.join(" "));
    for metric in metrics {
        let MetricEntry { name, unit, groups, level, formula } = metric;
        let find = |wanted: &str| {
            metrics.iter().find(|other| other.name == wanted).map(|other| other.formula.as_str())
        };
        Expression::resolve(name, formula, find).with_context(|| format!("{}: {name}", cpus[0]))?;
        let about = words::about(name).with_context(|| format!("{name} has no description in words.rs"))?;
        let _ = writeln!(out, "\n{name}\nabout {about}\nunit {unit}");
        if !groups.is_empty() {
            let _ = writeln!(out, "group {}", groups.join(" "));
        }
        if let Some(level) = level {
            let _ = writeln!(out, "level {level}");
        }
        let _ = writeln!(out, "formula {formula}");
    }
    Ok(out)
}

/// The source file that embeds the tables.
fn list(tables: &[MetricTable]) -> String {
    let mut out = String::from(
        "//! The embedded tables of metrics; `cargo xtask catalog` writes this list.\n\n\
         pub(super) const ALL: &[&str] = &[\n    include_str!(\"../../data/metrics/portable\"),\n",
    );
    for MetricTable { family, cpus, .. } in tables {
        let _ = writeln!(out, "    #[cfg(feature = \"{family}\")]");
        let _ = writeln!(out, "    include_str!(\"../../data/metrics/{family}/{}\"),", cpus[0]);
    }
    out + "];\n"
}

/// A formula without the blanks and parentheses that machines leave behind, and otherwise as it is.
fn tidied(formula: &str) -> Result<String> {
    let words: Vec<&str> = formula.split_whitespace().collect();
    let mut text = words.join(" ").replace("( ", "(").replace(" )", ")").replace(" ,", ",");
    while let Some(shorter) = without_needless(&text)? {
        text = shorter;
    }
    Ok(text)
}

/// Without one pair of parentheses around a single name or number; `None` when there is none.
fn without_needless(text: &str) -> Result<Option<String>> {
    for (open, _) in text.match_indices('(') {
        let function =
            text[..open].chars().next_back().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        let inner = text[open + 1..].split(')').next().unwrap_or_default();
        let single =
            !inner.is_empty() && inner.chars().all(|c| c.is_ascii_alphanumeric() || "_.:".contains(c));
        if single && !function {
            let shorter = format!("{}{inner}{}", &text[..open], &text[open + 2 + inner.len()..]);
            let (before, after) = (Formula::parse(text)?, Formula::parse(&shorter)?);
            ensure!(before.names() == after.names(), "'{text}' is not '{shorter}'");
            return Ok(Some(shorter));
        }
    }
    Ok(None)
}

/// The whole text of a file as JSON.
macro_rules! json {
    ($path:expr) => {{
        let path = $path;
        let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
        cyclometer_import::json::parse(&bytes).with_context(|| path.display().to_string())?
    }};
}
use json;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_tidied_without_being_changed() {
        for (given, expected) in [
            ("100 * ( a / ( ( 4 ) * ( b ) ) )", "100 * (a / (4 * b))"),
            ("max( 0 , ( x.y:c1 ) - 1 )", "max(0, x.y:c1 - 1)"),
            ("( ( a / 2 ) if #smt_on else ( b ) )", "((a / 2) if #smt_on else b)"),
            ("min( a , b )", "min(a, b)"),
        ] {
            assert_eq!(tidied(given).unwrap(), expected);
        }
    }

    #[test]
    fn a_table_is_written_with_descriptions_of_ours_only() {
        let metric = |name: &str| MetricEntry {
            name: name.to_owned(),
            unit: "100%",
            groups: vec!["TopdownL1".to_owned()],
            level: Some(1),
            formula: "a / b".to_owned(),
        };
        let table = |name| MetricTable {
            family: "intel",
            cpus: &["skylake"],
            source: "file".to_owned(),
            licence: "none",
            metrics: vec![metric(name)],
        };
        let text = written(&table("tma_retiring")).unwrap();
        assert!(text.contains("\n\ntma_retiring\nabout slots whose"), "{text}");
        assert!(text.ends_with("unit 100%\ngroup TopdownL1\nlevel 1\nformula a / b\n"), "{text}");
        assert!(written(&table("no_such_metric")).unwrap_err().to_string().contains("no description"));
    }
}
