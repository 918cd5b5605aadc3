//! Intel: top-down levels 1 and 2 from perfmon's metric files; of cores without one, from those of a core
//! that counts alike or from definitions.

mod alike;
mod e_core;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use cyclometer_stats::formula::{Expression, Formula, Inputs};

use super::{MetricEntry, MetricTable, json, tidied};

/// A metric file, and the CPUs that it serves.
struct MetricFile {
    file: &'static str,
    cpus: &'static [&'static str],
}

const fn source(file: &'static str, cpus: &'static [&'static str]) -> MetricFile {
    MetricFile { file, cpus }
}

/// Which file serves which CPU.
///
/// # Source
///
/// perfmon `mapfile.csv`, event type `metrics`. Broadwell-DE has no row there; it has the cores of Broadwell.
const SOURCES: &[MetricFile] = &[
    source("HSW/metrics/haswell_metrics.json", &["haswell"]),
    source("HSX/metrics/haswellx_metrics.json", &["haswellx"]),
    source("BDW/metrics/broadwell_metrics.json", &["broadwell", "broadwellde"]),
    source("BDX/metrics/broadwellx_metrics.json", &["broadwellx"]),
    source("SKL/metrics/skylake_metrics.json", &["skylake"]),
    source("SKX/metrics/skylakex_metrics.json", &["skylakex"]),
    source("CLX/metrics/cascadelakex_metrics.json", &["cascadelakex"]),
    source("ICL/metrics/icelake_metrics.json", &["icelake"]),
    source("ICX/metrics/icelakex_metrics.json", &["icelakex"]),
    source("TGL/metrics/tigerlake_metrics.json", &["tigerlake"]),
    source("RKL/metrics/rocketlake_metrics.json", &["rocketlake"]),
    source("SPR/metrics/sapphirerapids_metrics.json", &["sapphirerapids"]),
    source("EMR/metrics/emeraldrapids_metrics.json", &["emeraldrapids"]),
    source("GNR/metrics/graniterapids_metrics.json", &["graniterapids"]),
    source("ADL/metrics/alderlake_metrics_goldencove_core.json", &["alderlake/core"]),
    source("MTL/metrics/meteorlake_metrics_redwoodcove_core.json", &["meteorlake/core"]),
    source("ARL/metrics/arrowlake_metrics_lioncove_core.json", &["arrowlake/core"]),
    source("LNL/metrics/lunarlake_metrics_lioncove_core.json", &["lunarlake/core"]),
    source("SRF/metrics/sierraforest_metrics.json", &["sierraforest"]),
    source("GRR/metrics/grandridge_metrics.json", &["grandridge"]),
];

const LEVEL_1: [&str; 4] = ["tma_frontend_bound", "tma_bad_speculation", "tma_backend_bound", "tma_retiring"];

pub(super) fn tables(from: &Path) -> Result<Vec<MetricTable>> {
    let folder = from.join("events/intel");
    let mut made: Vec<MetricTable> =
        SOURCES.iter().map(|source| table(&folder, source)).collect::<Result<_>>()?;
    let alike: Result<Vec<MetricTable>> =
        alike::ALIKE.iter().map(|cores| alike::table(cores, &made)).collect();
    made.extend(alike?);
    made.extend(e_core::tables());
    Ok(made)
}

fn table(folder: &Path, source: &MetricFile) -> Result<MetricTable> {
    let file = json!(folder.join(source.file));
    let mut records = BTreeMap::new();
    for metric in file["Metrics"].as_array().context("no Metrics")? {
        if metric["Category"].as_str() == Some("TMA") {
            let record = MetricRecord::new(metric)?;
            records.insert(record.name.clone(), record);
        }
    }
    let metrics = chosen(&records).with_context(|| source.file)?;
    let version = file["Header"]["Version"].as_str().unwrap_or_default();
    let date = file["Header"]["DatePublished"].as_str().unwrap_or_default();
    let origin = format!("github.com/intel/perfmon {} version {version}, {date}", source.file);
    Ok(MetricTable { family: "intel", cpus: source.cpus, source: origin, licence: "BSD-3-Clause", metrics })
}

/// The needed fields of a metric in the file.
struct MetricRecord {
    name: String,
    level: u64,
    parent: Option<String>,
    base: String,
    formula: String,
    /// Lower case, as in the base formula, to the vendor's name; and the name of each letter in the formula.
    events: BTreeMap<String, String>,
    letters: BTreeMap<String, String>,
}

impl MetricRecord {
    fn new(metric: &serde_json::Value) -> Result<MetricRecord> {
        let text = |field: &str| metric[field].as_str().map(str::trim).filter(|text| !text.is_empty());
        let name = text("MetricName").context("a metric has no name")?;
        let mut record = MetricRecord {
            name: format!("tma_{}", name.to_lowercase()),
            level: metric["Level"].as_u64().unwrap_or_default(),
            parent: text("ParentCategory").map(|parent| format!("tma_{}", parent.to_lowercase())),
            base: text("BaseFormula").unwrap_or_default().to_owned(),
            formula: text("Formula").unwrap_or_default().to_owned(),
            events: BTreeMap::new(),
            letters: BTreeMap::new(),
        };
        for event in metric["Events"].as_array().into_iter().flatten() {
            let (Some(event), Some(letter)) = (event["Name"].as_str(), event["Alias"].as_str()) else {
                bail!("{name}: an event without name or alias");
            };
            record.events.insert(event.to_lowercase(), event.to_owned());
            record.letters.insert(letter.to_owned(), event.to_owned());
        }
        Ok(record)
    }
}

/// Levels 1 and 2, in the order of the tree, and behind them the metrics that their formulas need.
fn chosen(records: &BTreeMap<String, MetricRecord>) -> Result<Vec<MetricEntry>> {
    let mut names: Vec<&str> = LEVEL_1.to_vec();
    for parent in LEVEL_1 {
        let below = records.values().filter(|r| r.level == 2 && r.parent.as_deref() == Some(parent));
        names.extend(below.map(|record| record.name.as_str()));
    }
    let mut done = BTreeSet::new();
    let mut metrics = Vec::new();
    let mut at = 0;
    while let Some(name) = names.get(at).copied() {
        at += 1;
        if !done.insert(name) {
            continue;
        }
        let record = records.get(name).with_context(|| format!("no metric {name}"))?;
        let formula = named(record).with_context(|| record.name.clone())?;
        for needed in Formula::parse(&formula)?.names().iter().filter(|name| name.starts_with("tma_")) {
            names.extend(records.get_key_value(needed).map(|(name, _)| name.as_str()));
        }
        metrics.push(metric(record, formula));
    }
    for metric in &metrics {
        check(metric, &metrics, &records[&metric.name])?;
    }
    Ok(metrics)
}

fn metric(record: &MetricRecord, formula: String) -> MetricEntry {
    let level = match record.level {
        1 if LEVEL_1.contains(&record.name.as_str()) => Some(1),
        2 => Some(2),
        _ => None,
    };
    let mut groups: Vec<String> = level.iter().map(|level| format!("TopdownL{level}")).collect();
    groups.extend(record.parent.iter().filter(|_| level.is_some()).map(|parent| format!("{parent}_group")));
    let share = level.is_some() || record.name == "tma_microcode_sequencer";
    MetricEntry { name: record.name.clone(), unit: if share { "100%" } else { "1" }, groups, level, formula }
}

/// The base formula with the vendor's names and with literals for constants.
fn named(record: &MetricRecord) -> Result<String> {
    let words = record.base.split_whitespace().map(|word| match record.events.get(word) {
        Some(event) => event.as_str(),
        None if word == "smt_on" => "#smt_on",
        None => word,
    });
    let formula = tidied(&words.collect::<Vec<_>>().join(" "))?;
    let strange =
        |name: &&String| !name.starts_with("tma_") && !record.events.values().any(|event| event == *name);
    match Formula::parse(&formula)?.names().iter().find(strange) {
        Some(name) => bail!("'{name}' is neither an event nor a metric"),
        None => Ok(formula),
    }
}

/// The file says everything twice, once with metrics in formulas and once without: both must give the same.
fn check(metric: &MetricEntry, metrics: &[MetricEntry], record: &MetricRecord) -> Result<()> {
    let find =
        |name: &str| metrics.iter().find(|other| other.name == name).map(|other| other.formula.as_str());
    let expression = Expression::resolve(&metric.name, &metric.formula, find)?;
    let scale = if metric.unit == "100%" { 100.0 } else { 1.0 };
    let flat = Formula::parse(&record.formula.replace("smt_on", "#smt_on"))?;
    for (seed, smt) in [(1, false), (2, true), (3, false), (4, true)] {
        let inputs = Invented { letters: &record.letters, seed, smt };
        let ours = expression.evaluate(&inputs).map(|value| value * scale);
        let theirs = flat.evaluate(&inputs);
        let (Ok(ours), Ok(theirs)) = (&ours, &theirs) else { bail!("{}: {ours:?}, {theirs:?}", metric.name) };
        let near = (ours - theirs).abs() <= 1e-9 * ours.abs().max(1.0);
        ensure!(near, "{}: {ours} by the base formula, {theirs} by the formula", metric.name);
    }
    Ok(())
}

/// Invented counts: of an event by its name, whether it is called so or by its letter.
struct Invented<'a> {
    letters: &'a BTreeMap<String, String>,
    seed: u64,
    smt: bool,
}

impl Inputs for Invented<'_> {
    fn value(&self, name: &str) -> Result<f64, String> {
        let event = self.letters.get(name).map_or(name, String::as_str);
        // FNV-1a, 64 bits.
        let start = 0xcbf2_9ce4_8422_2325 ^ self.seed;
        let hash =
            event.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Ok((1000 + hash % 9000) as f64)
    }

    fn literal(&self, _: &str) -> Option<f64> {
        Some(f64::from(self.smt))
    }

    fn is_cpu(&self, _: &str) -> Option<bool> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(base: &str, formula: &str) -> Result<Vec<MetricEntry>> {
        let event = |name: &str, alias: &str| format!(r#"{{"Name": "{name}", "Alias": "{alias}"}}"#);
        let events = [event("A.B:c1", "a"), event("C.D", "b")].join(",");
        let metric = |name: &str, base: &str, formula: &str| {
            format!(
                r#"{{"MetricName": "{name}", "Level": 1, "Category": "TMA", "BaseFormula": "{base}",
                    "Formula": "{formula}", "Events": [{events}]}}"#
            )
        };
        let text = format!(
            "[{},{},{},{}]",
            metric("Frontend_Bound", base, formula),
            metric("Bad_Speculation", "1 - tma_frontend_bound", &format!("100 * ( 1 - {formula} / 100 )")),
            metric(
                "Backend_Bound",
                "( a.b:c1 / 2 ) if smt_on else c.d",
                "100 * ( ( a / 2 ) if smt_on else b )"
            ),
            metric("Retiring", "c.d", "100 * b"),
        );
        let json = cyclometer_import::json::parse(text.as_bytes())?;
        let records: Result<Vec<MetricRecord>> =
            json.as_array().unwrap().iter().map(MetricRecord::new).collect();
        chosen(&records?.into_iter().map(|record| (record.name.clone(), record)).collect())
    }

    #[test]
    fn base_formulas_get_the_vendors_names_and_literals() {
        let metrics = file("a.b:c1 / ( c.d )", "100 * ( a / ( b ) )").unwrap();
        let formulas: Vec<&str> = metrics.iter().map(|metric| metric.formula.as_str()).collect();
        assert_eq!(
            formulas,
            ["A.B:c1 / C.D", "1 - tma_frontend_bound", "(A.B:c1 / 2) if #smt_on else C.D", "C.D"]
        );
    }

    #[test]
    fn a_base_formula_that_says_something_else_is_refused() {
        let error = file("a.b:c1 / ( c.d )", "100 * ( b / ( a ) )").unwrap_err();
        assert!(error.to_string().starts_with("tma_frontend_bound: "), "{error}");
        assert!(error.to_string().contains("by the base formula"), "{error}");
        let error = file("x.y / ( c.d )", "100 * ( b / ( a ) )").unwrap_err();
        assert!(format!("{error:#}").contains("'x.y' is neither"), "{error:#}");
    }
}
