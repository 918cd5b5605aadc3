//! AMD: pipeline utilisation, levels 1 and 2.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::{Metric, Table, json, tidied};

/// The CPUs that have the file.
const CPUS: &[&[&str]] = &[&["amdzen4"], &["amdzen5"], &["amdzen6"]];

pub(super) fn tables(from: &Path) -> Result<Vec<Table>> {
    CPUS.iter().map(|cpus| table(from, cpus)).collect()
}

fn table(from: &Path, cpus: &'static [&'static str]) -> Result<Table> {
    let file = json!(from.join("events/amd").join(cpus[0]).join("pipeline.json"));
    let metrics: Result<Vec<Metric>> = file.as_array().context("no list")?.iter().map(metric).collect();
    Ok(Table {
        family: "amd",
        cpus,
        source: format!(
            "facts of Linux 7.2.8 tools/perf/pmu-events/arch/x86/{}/pipeline.json and AMD's PPR of the family",
            cpus[0]
        ),
        licence: "facts only: names of events, numbers",
        metrics: metrics?,
    })
}

fn metric(metric: &serde_json::Value) -> Result<Metric> {
    let name = metric["MetricName"].as_str().context("a metric has no name")?;
    let formula = metric["MetricExpr"].as_str().with_context(|| format!("{name} has no formula"))?;
    let vendors: Vec<&str> = metric["MetricGroup"].as_str().unwrap_or_default().split(';').collect();
    let level = match vendors[0] {
        "PipelineL1" => Some(1),
        "PipelineL2" => Some(2),
        _ => None,
    };
    let share = metric["ScaleUnit"].as_str().is_some_and(|unit| unit.starts_with("100%"));
    ensure!(share == level.is_some(), "{name} is a share without a level, or no share");
    let groups = level.iter().map(|level| format!("TopdownL{level}"));
    let groups =
        groups.chain(vendors.iter().filter(|group| !group.is_empty()).map(|group| (*group).to_owned()));
    Ok(Metric {
        name: name.to_owned(),
        unit: if share { "100%" } else { "1" },
        groups: groups.collect(),
        level,
        formula: tidied(formula).with_context(|| name.to_owned())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipeline_metrics_keep_their_quoted_events() {
        let json = r#"{"MetricName": "m", "MetricExpr": "d_ratio((6 * cpu@e\\,cmask\\=0x6@), slots)",
                       "MetricGroup": "PipelineL2;g_group", "ScaleUnit": "100%slots"}"#;
        let metric = metric(&cyclometer_import::json::parse(json.as_bytes()).unwrap()).unwrap();
        assert_eq!(metric.formula, r"d_ratio((6 * cpu@e\,cmask\=0x6@), slots)");
        assert_eq!(metric.groups, ["TopdownL2", "PipelineL2", "g_group"]);
        assert_eq!((metric.level, metric.unit), (Some(2), "100%"));
    }
}
