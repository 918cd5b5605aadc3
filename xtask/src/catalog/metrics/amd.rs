//! AMD: where the dispatch slots went, levels 1 and 2, from definitions of this project.

use super::{MetricEntry, MetricTable};

/// A chip that counts the dispatch slots that stayed empty.
struct EmptySlotChip {
    cpus: &'static [&'static str],
    /// Dispatch slots in a cycle.
    ///
    /// # Source
    ///
    /// AMD's PPR of the families, performance measurement; Linux 7.2.8, perf's events of amdzen4 to amdzen6.
    width: u32,
    /// The event that counts restarts of the pipeline other than those of mispredicted branches.
    restarts: &'static str,
    /// Whether perf puts a word between the names of a node and of its part: `frontend_bound_by_latency`.
    linked: bool,
}

const CHIPS: &[EmptySlotChip] = &[
    EmptySlotChip { cpus: &["amdzen4"], width: 6, restarts: "resyncs_or_nc_redirects", linked: false },
    EmptySlotChip { cpus: &["amdzen5"], width: 8, restarts: "bp_redirects.resync", linked: true },
    EmptySlotChip { cpus: &["amdzen6"], width: 8, restarts: "bp_fe_redir.resync", linked: true },
];

/// Empty slots for want of operations from the front end; with a threshold of the width, cycles without a
/// single one.
const STARVED: &str = "de_no_dispatch_per_slot.no_ops_from_frontend";

/// The cycles of the thread.
const CYCLES: &str = "ls_not_halted_cyc";

pub(super) fn tables() -> Vec<MetricTable> {
    CHIPS.iter().map(table).collect()
}

fn table(chip: &EmptySlotChip) -> MetricTable {
    let mut metrics = vec![slots(chip)];
    metrics.extend(level_1());
    metrics.extend(level_2(chip));
    MetricTable {
        family: "amd",
        cpus: chip.cpus,
        source: format!(
            "this project, by definition: shares of {} dispatch slots a cycle; \
             width and names of metrics as in AMD's PPR and perf",
            chip.width
        ),
        licence: "that of this project",
        metrics,
    }
}

fn slots(chip: &EmptySlotChip) -> MetricEntry {
    MetricEntry {
        name: "total_dispatch_slots".to_owned(),
        unit: "1",
        groups: Vec::new(),
        level: None,
        formula: format!("{} * {CYCLES}", chip.width),
    }
}

/// Each slot is empty for one of three reasons, or takes an operation that retires or does not.
fn level_1() -> Vec<MetricEntry> {
    let empty = |reason: &str| format!("de_no_dispatch_per_slot.{reason}");
    let counts = [
        ("frontend_bound", STARVED.to_owned()),
        ("bad_speculation", "(de_src_op_disp.all - ex_ret_ops)".to_owned()),
        ("backend_bound", empty("backend_stalls")),
        ("smt_contention", empty("smt_contention")),
        ("retiring", "ex_ret_ops".to_owned()),
    ];
    let metric = |(name, count): (&str, String)| MetricEntry {
        name: name.to_owned(),
        unit: "100%",
        groups: vec!["TopdownL1".to_owned(), "PipelineL1".to_owned()],
        level: Some(1),
        formula: format!("{count} / total_dispatch_slots"),
    };
    counts.into_iter().map(metric).collect()
}

/// Each node in two: the part that an event gives, and what is left of the node.
fn level_2(chip: &EmptySlotChip) -> Vec<MetricEntry> {
    let name = |node: &str, link: &str, part: &str| match chip.linked {
        true => format!("{node}_{link}_{part}"),
        false => format!("{node}_{part}"),
    };
    let restarts = chip.restarts;
    let nodes = [
        // A cycle in which every slot starved loses as many slots as it has: the width cancels out.
        ("frontend_bound", "by", "latency", "bandwidth", format!("{STARVED}:c{} / {CYCLES}", chip.width)),
        (
            "bad_speculation",
            "from",
            "mispredicts",
            "pipeline_restarts",
            format!("bad_speculation * ex_ret_brn_misp / (ex_ret_brn_misp + {restarts})"),
        ),
        (
            "backend_bound",
            "by",
            "memory",
            "cpu",
            "backend_bound * ex_no_retire.load_not_complete / ex_no_retire.not_complete".to_owned(),
        ),
        ("retiring", "from", "microcode", "fastpath", "ex_ret_ucode_ops / total_dispatch_slots".to_owned()),
    ];
    let mut metrics = Vec::new();
    for (node, link, counted, rest, formula) in nodes {
        let counted = name(node, link, counted);
        let left = format!("{node} - {counted}");
        for (name, formula) in [(counted, formula), (name(node, link, rest), left)] {
            let groups = vec!["TopdownL2".to_owned(), "PipelineL2".to_owned(), format!("{node}_group")];
            metrics.push(MetricEntry { name, unit: "100%", groups, level: Some(2), formula });
        }
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_two_parts_with_the_names_of_its_generation() {
        for (at, expected) in [
            (0, ["frontend_bound_latency", "frontend_bound_bandwidth"]),
            (1, ["frontend_bound_by_latency", "frontend_bound_by_bandwidth"]),
        ] {
            let metrics = table(&CHIPS[at]).metrics;
            let parts =
                metrics.iter().filter(|metric| metric.groups.contains(&"frontend_bound_group".to_owned()));
            assert_eq!(parts.map(|metric| metric.name.as_str()).collect::<Vec<_>>(), expected);
            assert_eq!(metrics.iter().filter(|metric| metric.level == Some(2)).count(), 8);
        }
    }
}
