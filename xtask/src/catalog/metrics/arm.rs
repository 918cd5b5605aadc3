//! Arm: top-down metrics of the telemetry specifications.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::{MetricEntry, MetricTable, json, tidied};

/// A specification, the newer one of the same core where revisions differ, and the CPUs that they serve.
struct Specification {
    file: &'static str,
    newer: Option<&'static str>,
    cpus: &'static [&'static str],
}

const fn source(file: &'static str, cpus: &'static [&'static str]) -> Specification {
    Specification { file, newer: None, cpus }
}

const SOURCES: &[Specification] = &[
    source("neoverse/neoverse-n1.json", &["neoverse-n1"]),
    Specification {
        file: "neoverse/neoverse-n2.json",
        newer: Some("neoverse/neoverse-n2-r0p3.json"),
        cpus: &["neoverse-n2"],
    },
    source("neoverse/neoverse-n3.json", &["neoverse-n3"]),
    source("neoverse/neoverse-v1.json", &["neoverse-v1"]),
    source("neoverse/neoverse-v2.json", &["neoverse-v2"]),
    source("neoverse/neoverse-v3.json", &["neoverse-v3", "neoverse-v3ae"]),
    source("lumex/arm-c1-nano-r0p0-pmu.json", &["c1-nano"]),
    source("lumex/arm-c1-pro-r0p0-pmu.json", &["c1-pro"]),
    source("lumex/arm-c1-premium-r0p0-pmu.json", &["c1-premium"]),
    source("lumex/arm-c1-ultra-r0p0-pmu.json", &["c1-ultra"]),
];

/// Which Neoverse N2 obeys the newer specification: Arm's from r0p3 on, and those of others.
///
/// # Source
///
/// Revision in `product_configuration` of both files; MIDR_EL1 as in Linux's
/// `arch/arm64/include/asm/cputype.h`.
const IS_NEWER_N2: &str = "strcmp_cpuid_str(0x410fd493) | (strcmp_cpuid_str(0x410fd490) ^ 1)";

/// The metrics that are taken where a specification has them, each with its level and its group.
const METRICS: &[(&str, u8, &str)] = &[
    ("frontend_bound", 1, "TopdownL1"),
    ("bad_speculation", 1, "TopdownL1"),
    ("backend_bound", 1, "TopdownL1"),
    ("retiring", 1, "TopdownL1"),
    ("frontend_stalled_cycles", 1, "CycleAccounting"),
    ("backend_stalled_cycles", 1, "CycleAccounting"),
    ("frontend_core_bound", 2, "TopdownL2"),
    ("frontend_mem_bound", 2, "TopdownL2"),
    ("backend_core_bound", 2, "TopdownL2"),
    ("backend_mem_bound", 2, "TopdownL2"),
];

pub(super) fn tables(from: &Path) -> Result<Vec<MetricTable>> {
    SOURCES.iter().map(|source| table(&from.join("events/arm/telemetry"), source)).collect()
}

fn table(folder: &Path, source: &Specification) -> Result<MetricTable> {
    let file = json!(folder.join(source.file));
    let newer = match source.newer {
        Some(newer) => Some(json!(folder.join(newer))),
        None => None,
    };
    let mut metrics = Vec::new();
    for (name, level, group) in METRICS {
        let Some(formula) = formula(&file, name)? else { continue };
        let formula = match newer.as_ref().map(|file| self::formula(file, name)).transpose()?.flatten() {
            Some(newer) if newer != formula => format!("({newer}) if {IS_NEWER_N2} else ({formula})"),
            _ => formula,
        };
        let groups = vec![(*group).to_owned()];
        metrics.push(MetricEntry {
            name: (*name).to_owned(),
            unit: "1%",
            groups,
            level: Some(*level),
            formula,
        });
    }
    ensure!(!metrics.is_empty(), "{} has none of the metrics", source.file);
    Ok(MetricTable {
        family: "arm",
        cpus: source.cpus,
        source: format!("Arm telemetry-solution data/pmu/cpu/{}, 2026-04-23", source.file),
        licence: "Apache-2.0",
        metrics,
    })
}

/// The formula, in percent as Arm writes it; `None` where the specification has no such metric.
fn formula(file: &serde_json::Value, name: &str) -> Result<Option<String>> {
    let metric = &file["metrics"][name];
    if metric.is_null() {
        return Ok(None);
    }
    let percent = metric["units"].as_str().is_some_and(|unit| unit.starts_with("percent"));
    ensure!(percent, "{name} is not in percent");
    let formula = metric["formula"].as_str().with_context(|| format!("{name} has no formula"))?;
    tidied(formula).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_taken_where_they_are_and_only_in_percent() {
        let file = r#"{"metrics": {"retiring": {"units": "percent of slots", "formula": "A / ( 5 * B ) * 100"},
                                   "ipc": {"units": "per cycle", "formula": "A / B"}}}"#;
        let file = cyclometer_import::json::parse(file.as_bytes()).unwrap();
        assert_eq!(formula(&file, "retiring").unwrap().as_deref(), Some("A / (5 * B) * 100"));
        assert_eq!(formula(&file, "frontend_bound").unwrap(), None);
        assert!(formula(&file, "ipc").is_err());
    }
}
