//! The threshold method on the same counts: kernels as its real and fake code.

use cyclometer_core::concept::Concept;
use cyclometer_inference::{
    ConceptSum, CounterObservations, EventObservations, KernelTable, TermWeight, ThresholdAnswer,
    ThresholdCounts, ThresholdRule,
};

use super::found::Found;
use super::truth::HiddenTruth;

/// The experiments of the published framework: the kernel that causes the event, its matched control, and
/// the event.
const EXPERIMENTS: [(&str, &str, Concept); 5] = [
    ("indirect_16", "indirect_1", Concept::IndirectMispredicts),
    ("branch_half", "branch_predicted", Concept::ConditionalMispredicts),
    ("store_l2", "store_l1", Concept::L1dStoreMisses),
    ("chase_l2", "chase_l1", Concept::L1dLoadMisses),
    ("pages_dtlb", "pages_few", Concept::L1dTlbMisses),
];

/// The kernel of the fake code of the published framework, which leaves out the instruction that causes the
/// event.
const WITHOUT_INSTRUCTION: &str = "empty";

/// The share of the expected count that is accepted as deviation, in runs: no kernel is off by more.
const RUNS_A_DEVIATION: u64 = 25;

/// The hits of the method: with the published fake code, and with matched controls in its place.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct ThresholdScore {
    pub(crate) published: Found,
    pub(crate) matched: Found,
    /// Verdicts A on the same events under the same names.
    pub(crate) inference: Found,
}

impl ThresholdScore {
    pub(crate) fn add(&mut self, other: ThresholdScore) {
        self.published.add(other.published);
        self.matched.add(other.matched);
        self.inference.add(other.inference);
    }

    /// The answers for one event, which inference identified as `identified`.
    pub(crate) fn of_event(
        table: &KernelTable,
        observed: &EventObservations,
        truth: &HiddenTruth<'_>,
        identified: Option<&ConceptSum>,
    ) -> ThresholdScore {
        let mut score = ThresholdScore::default();
        for (real, control, concept) in EXPERIMENTS {
            let target = ConceptSum::new(vec![(concept, TermWeight::One)]);
            let is_wanted = truth.counts_as(&target);
            let is_hit = |fake: &str| is_hit(table, observed, [real, fake], concept);
            score.published.count(is_wanted, is_hit(WITHOUT_INSTRUCTION));
            score.matched.count(is_wanted, is_hit(control));
            score.inference.count(is_wanted, identified == Some(&target));
        }
        score
    }
}

fn is_hit(
    table: &KernelTable,
    observed: &EventObservations,
    [real, fake]: [&str; 2],
    concept: Concept,
) -> bool {
    let Some(kernel) = table.index_of(real) else { return false };
    let per_iteration = table.column(concept)[kernel.0];
    let [(_, fake), (iterations, real)] = [fake, real].map(|kernel| longest_runs(table, observed, kernel));
    let runs = (per_iteration * iterations as f64).round() as u64;
    let rule = ThresholdRule { runs, deviation: runs / RUNS_A_DEVIATION };
    let answer = rule.answer(ThresholdCounts { fake: &fake, real: &real });
    runs > 0 && matches!(answer, ThresholdAnswer::Hit(_))
}

/// The iterations of the longest run of a kernel, and its first counts on each counter.
fn longest_runs(table: &KernelTable, observed: &EventObservations, kernel: &str) -> (u64, Vec<u64>) {
    let kernel = table.index_of(kernel);
    let longest = |counter: &CounterObservations| {
        let of_kernel = counter.observations.iter().filter(|one| Some(one.kernel) == kernel);
        let longest = of_kernel.max_by_key(|one| one.iterations)?;
        Some((longest.iterations, longest.counts.first().copied()?))
    };
    let runs: Vec<(u64, u64)> = observed.counters.iter().filter_map(longest).collect();
    (runs.first().map_or(0, |run| run.0), runs.iter().map(|run| run.1).collect())
}
