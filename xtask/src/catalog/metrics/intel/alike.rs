//! Intel's cores without a metric file whose pipeline counts as that of a core with one: its formulas hold
//! for them, too.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use cyclometer_catalog::metric::is_pseudo_event;
use cyclometer_stats::formula::Formula;

use super::super::{MetricEntry, MetricTable};

/// Cores, and the one whose formulas hold for them.
pub(super) struct SimilarCores {
    cpus: &'static [&'static str],
    like: &'static str,
    /// Why they hold.
    because: &'static str,
    /// Whether every event has to be a field of PERF_METRICS.
    register_only: bool,
    /// The name of an event on these cores, where it differs, without its modifiers.
    instead: &'static [(&'static str, &'static str)],
}

/// # Source
///
/// Intel SDM volume 3, PERF_METRICS: its eight fields mean the same on every core that has them. Where a
/// kernel does not offer them, the metrics are not countable.
///
/// Yasin, "A Top-Down method for performance analysis and counters architecture", ISPASS 2014: the
/// definitions for cores of four slots a cycle, which Sandy Bridge and Ivy Bridge are like Haswell. Sandy
/// Bridge counts stalls behind loads only from a miss of the level 1 cache on.
pub(super) const ALIKE: &[SimilarCores] = &[
    SimilarCores {
        cpus: &["pantherlake/core", "novalake/core"],
        like: "lunarlake/core",
        because: "fields of PERF_METRICS by Intel's SDM",
        register_only: true,
        instead: &[],
    },
    SimilarCores {
        cpus: &["ivybridge", "ivytown"],
        like: "haswell",
        because: "the top-down method as Yasin defines it (ISPASS 2014)",
        register_only: false,
        instead: &[],
    },
    SimilarCores {
        cpus: &["sandybridge", "jaketown"],
        like: "haswell",
        because: "the top-down method as Yasin defines it (ISPASS 2014)",
        register_only: false,
        instead: &[
            ("CYCLE_ACTIVITY.CYCLES_NO_EXECUTE", "CYCLE_ACTIVITY.CYCLES_NO_DISPATCH"),
            ("CYCLE_ACTIVITY.STALLS_LDM_PENDING", "CYCLE_ACTIVITY.STALLS_L1D_PENDING"),
            ("UOPS_EXECUTED.CORE", "UOPS_DISPATCHED.CORE"),
        ],
    },
];

/// The table of cores that are like one of those that are made already.
pub(super) fn table(alike: &SimilarCores, made: &[MetricTable]) -> Result<MetricTable> {
    let SimilarCores { cpus, like, because, register_only, instead } = alike;
    let model = made.iter().find(|table| table.cpus.contains(like)).context(*like)?;
    let instead: BTreeMap<&str, &str> = instead.iter().copied().collect();
    let mut metrics = Vec::new();
    for metric in &model.metrics {
        if *register_only {
            only_register(metric).with_context(|| format!("like {like}"))?;
        }
        metrics.push(MetricEntry { formula: renamed(&metric.formula, &instead)?, ..metric.clone() });
    }
    let source = format!("{because}; formulas as for {like}, from {}", model.source);
    Ok(MetricTable { family: "intel", cpus, source, licence: "BSD-3-Clause", metrics })
}

fn only_register(metric: &MetricEntry) -> Result<()> {
    let formula = Formula::parse(&metric.formula)?;
    let other = formula.names().iter().find(|name| !is_pseudo_event(name) && !name.starts_with("tma_"));
    ensure!(other.is_none(), "{} needs an event of its own core: {other:?}", metric.name);
    Ok(())
}

/// A formula with other events in the place of some; modifiers stay.
fn renamed(formula: &str, instead: &BTreeMap<&str, &str>) -> Result<String> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_.".contains(c);
    let (mut out, mut rest) = (String::new(), formula);
    while !rest.is_empty() {
        let length = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(length);
        out += instead.get(word).copied().unwrap_or(word);
        let gap = behind.find(is_of_name).unwrap_or(behind.len());
        out += &behind[..gap];
        rest = &behind[gap..];
    }
    Formula::parse(&out).with_context(|| out.clone())?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(formula: &str) -> Vec<MetricTable> {
        let metric = MetricEntry {
            name: "tma_retiring".to_owned(),
            unit: "100%",
            groups: Vec::new(),
            level: Some(1),
            formula: formula.to_owned(),
        };
        let source = "a file".to_owned();
        let cpus = &["lunarlake/core", "haswell"];
        vec![MetricTable { family: "intel", cpus, source, licence: "", metrics: vec![metric] }]
    }

    #[test]
    fn formulas_of_the_register_alone_hold_for_other_cores_and_others_do_not() {
        let [by_register, ..] = ALIKE else { panic!("no register") };
        let other = table(by_register, &made("PERF_METRICS.RETIRING / TOPDOWN.SLOTS:perf_metrics")).unwrap();
        assert_eq!((other.cpus, other.metrics.len()), (&["pantherlake/core", "novalake/core"][..], 1));
        let error = table(by_register, &made("PERF_METRICS.RETIRING / CPU_CLK_UNHALTED.THREAD"));
        assert!(error.is_err_and(|error| format!("{error:#}").contains("CPU_CLK_UNHALTED.THREAD")));
        assert!(table(by_register, &[]).is_err());
    }

    #[test]
    fn events_are_renamed_whole_and_keep_their_modifiers() {
        let instead = BTreeMap::from([("A.B", "X.Y")]);
        assert_eq!(
            renamed("(A.B:c1 - A.BC) / A.B if #smt_on else 1", &instead).unwrap(),
            "(X.Y:c1 - A.BC) / X.Y if #smt_on else 1"
        );
        let other = table(&ALIKE[2], &made("UOPS_EXECUTED.CORE:c3 / UOPS_EXECUTED.CORE_X")).unwrap();
        assert_eq!(other.metrics[0].formula, "UOPS_DISPATCHED.CORE:c3 / UOPS_EXECUTED.CORE_X");
        assert!(other.source.ends_with("as for haswell, from a file"), "{}", other.source);
    }
}
