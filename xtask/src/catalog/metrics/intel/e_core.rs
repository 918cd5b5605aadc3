//! Intel's E-cores without a metric file: shares of their slots, levels 1 and 2, from definitions of this
//! project.

use super::super::{MetricEntry, MetricTable};
use super::LEVEL_1;

/// E-cores of one kind.
struct ECore {
    cpus: &'static [&'static str],
    /// Slots in a cycle.
    width: u32,
    /// The suffix of events that count a whole share: `_P` where any general counter counts them.
    suffix: &'static str,
    /// Whether one event counts all that is lost to bad speculation.
    counts_all_lost: bool,
    /// The events of TOPDOWN_FE_BOUND whose counts make up the latency of the front end, and its bandwidth.
    latency: &'static [&'static str],
    bandwidth: &'static [&'static str],
}

/// From Gracemont on one event counts all causes of latency, and one all of bandwidth.
const GRACEMONT: ECore = ECore {
    cpus: &["alderlake/atom", "alderlaken"],
    width: 5,
    suffix: "",
    counts_all_lost: false,
    latency: &["FRONTEND_LATENCY"],
    bandwidth: &["FRONTEND_BANDWIDTH"],
};

/// Tremont has an event for each cause; their unit masks make up those of Gracemont's two events.
const TREMONT: ECore = ECore {
    cpus: &["snowridgex", "elkhartlake"],
    width: 4,
    latency: &["ICACHE", "ITLB", "BRANCH_DETECT", "BRANCH_RESTEER"],
    bandwidth: &["CISC", "DECODE", "PREDECODE", "OTHER"],
    ..GRACEMONT
};

/// From Crestmont on the events of bad speculation count the recovery, too.
const CRESTMONT: ECore = ECore {
    cpus: &["meteorlake/atom", "arrowlake/lowpower"],
    width: 6,
    suffix: "_P",
    counts_all_lost: true,
    ..GRACEMONT
};

const SKYMONT: ECore = ECore { cpus: &["lunarlake/atom", "arrowlake/atom"], width: 8, ..CRESTMONT };

const DARKMONT: ECore = ECore { cpus: &["pantherlake/atom", "clearwaterforest"], ..SKYMONT };

/// # Source
///
/// Intel 64 and IA-32 Architectures Optimization Reference Manual, chapters on the E-cores: width of the
/// allocation stage; event names and unit masks of perfmon's event files.
const E_CORES: [ECore; 5] = [TREMONT, GRACEMONT, CRESTMONT, SKYMONT, DARKMONT];

pub(super) fn tables() -> impl Iterator<Item = MetricTable> {
    E_CORES.iter().map(table)
}

fn table(core: &ECore) -> MetricTable {
    MetricTable {
        family: "intel",
        cpus: core.cpus,
        source: format!(
            "this project, by definition: shares of {} slots a cycle, by Intel's Optimization Reference Manual; \
             events of github.com/intel/perfmon",
            core.width
        ),
        licence: "that of this project; names of events BSD-3-Clause",
        metrics: level_1(core).into_iter().chain(level_2(core)).collect(),
    }
}

/// The share of the slots that events of TOPDOWN_`node` count together.
fn share(core: &ECore, node: &str, events: &[&str]) -> String {
    let counts: Vec<String> = events.iter().map(|event| format!("TOPDOWN_{node}.{event}")).collect();
    let sum = counts.join(" + ");
    let sum = if counts.len() > 1 { format!("({sum})") } else { sum };
    format!("{sum} / ({} * CPU_CLK_UNHALTED.CORE)", core.width)
}

fn level_1(core: &ECore) -> Vec<MetricEntry> {
    let whole = format!("ALL{}", core.suffix);
    let share = |node: &str| share(core, node, &[&whole]);
    let lost = match core.counts_all_lost {
        true => share("BAD_SPECULATION"),
        false => "max(0, 1 - tma_frontend_bound - tma_backend_bound - tma_retiring)".to_owned(),
    };
    let formulas = [share("FE_BOUND"), lost, share("BE_BOUND"), share("RETIRING")];
    let metric = |(name, formula): (&str, String)| metric(name, 1, None, formula);
    LEVEL_1.into_iter().zip(formulas).map(metric).collect()
}

fn level_2(core: &ECore) -> Vec<MetricEntry> {
    let share = |node: &str, events: &[&str]| share(core, node, events);
    let [front, lost, back, _] = LEVEL_1;
    [
        ("tma_ifetch_latency", front, share("FE_BOUND", core.latency)),
        ("tma_ifetch_bandwidth", front, share("FE_BOUND", core.bandwidth)),
        ("tma_branch_mispredicts", lost, share("BAD_SPECULATION", &["MISPREDICT"])),
        // Clears of either kind, the fast ones and those that start all over.
        ("tma_machine_clears", lost, share("BAD_SPECULATION", &["MACHINE_CLEARS"])),
        ("tma_core_bound", back, share("BE_BOUND", &["ALLOC_RESTRICTIONS"])),
        ("tma_resource_bound", back, "max(0, tma_backend_bound - tma_core_bound)".to_owned()),
    ]
    .into_iter()
    .map(|(name, node, formula)| metric(name, 2, Some(node), formula))
    .collect()
}

fn metric(name: &str, level: u8, node: Option<&str>, formula: String) -> MetricEntry {
    let groups = [format!("TopdownL{level}")].into_iter();
    MetricEntry {
        name: name.to_owned(),
        unit: "100%",
        groups: groups.chain(node.map(|node| format!("{node}_group"))).collect(),
        level: Some(level),
        formula,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_events_of_a_share_are_added_before_they_are_divided() {
        assert_eq!(share(&GRACEMONT, "A", &["B"]), "TOPDOWN_A.B / (5 * CPU_CLK_UNHALTED.CORE)");
        let sum = "(TOPDOWN_A.B + TOPDOWN_A.C) / (4 * CPU_CLK_UNHALTED.CORE)";
        assert_eq!(share(&TREMONT, "A", &["B", "C"]), sum);
    }

    #[test]
    fn every_kind_has_four_shares_and_six_parts() {
        for table in tables() {
            let of = |level| table.metrics.iter().filter(|metric| metric.level == Some(level)).count();
            assert_eq!((of(1), of(2)), (4, 6), "{:?}", table.cpus);
        }
    }
}
