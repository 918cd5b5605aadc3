//! Each verdict, and the reasons that lead to it.

#![allow(clippy::unwrap_used, reason = "observations are complete")]

use crate::world;

use cyclometer_core::{Concept, CounterId};
use cyclometer_inference::{
    Ambiguity, CounterObservations, Doubt, EventObservations, Identification, Inference, Irregularity,
    Judgement, KernelIndex, KernelRole, KernelTable, Linearity, Observation, Relation, Split, Stability,
    TableKernel, relations,
};
use proptest::prelude::*;

/// Counts of an event with so many events in an iteration of each kernel, without noise.
fn counts(counter: Option<u8>, rates: impl Iterator<Item = f64>, sizes: &[u64]) -> CounterObservations {
    let observation = |kernel: usize, rate: f64, iterations: u64| Observation {
        kernel: KernelIndex(kernel),
        iterations,
        counts: vec![(rate * (iterations + 3) as f64) as u64; 3],
        interrupts: vec![],
    };
    let observations = rates
        .enumerate()
        .flat_map(|(kernel, rate)| sizes.iter().map(move |&size| observation(kernel, rate, size)))
        .collect();
    CounterObservations { counter: counter.map(CounterId::General), observations }
}

const SIZES: [u64; 4] = [1021, 2042, 4084, 8168];

fn event(counters: Vec<CounterObservations>) -> EventObservations {
    EventObservations { event: "0x42".into(), counters }
}

/// The rates of a weighted sum.
fn sum(table: &KernelTable, terms: &[(Concept, f64)]) -> Vec<f64> {
    let rate =
        |kernel: usize| terms.iter().map(|(concept, weight)| weight * table.column(*concept)[kernel]).sum();
    (0..table.kernels().len()).map(rate).collect()
}

fn judge_rates(table: &KernelTable, rates: &[f64]) -> Judgement {
    let counters = vec![counts(Some(0), rates.iter().copied(), &SIZES)];
    Inference::new(table).judge(&event(counters)).unwrap()
}

fn formula(judgement: &Judgement) -> String {
    judgement.verdict.identified().map(|hypothesis| hypothesis.sum.to_string()).unwrap_or_default()
}

fn ambiguity(judgement: &Judgement) -> &Ambiguity {
    match &judgement.verdict {
        Identification::Ambiguous(ambiguity) => ambiguity,
        other => panic!("{other:?}"),
    }
}

/// The table with some numbers replaced.
fn changed(table: &KernelTable, change: impl Fn(&TableKernel, Concept, f64) -> f64) -> KernelTable {
    let kernels = table.kernels().iter().map(|kernel| {
        let mut kernel = kernel.clone();
        let numbers = Concept::ALL.iter().map(|concept| {
            let listed = kernel.per_iteration.iter().find(|(other, _)| other == concept);
            (*concept, change(&kernel, *concept, listed.map_or(0.0, |(_, number)| *number)))
        });
        kernel.per_iteration = numbers.filter(|(_, number)| *number > 0.0).collect();
        kernel
    });
    KernelTable::new(kernels.collect()).unwrap()
}

/// The table in which returns happen where calls do: everywhere, or in fitting kernels only.
fn balanced(everywhere: bool) -> KernelTable {
    let table = world::table();
    changed(&table, |kernel, concept, number| {
        let replaced = everywhere || kernel.role == KernelRole::Fitting;
        let calls = kernel.per_iteration.iter().find(|(other, _)| *other == Concept::Calls);
        match concept {
            Concept::Returns if replaced => calls.map_or(0.0, |(_, number)| *number),
            _ => number,
        }
    })
}

#[test]
fn concepts_that_all_fitting_kernels_move_alike_are_ambiguous() {
    let table = balanced(false);
    let judgement = judge_rates(&table, &sum(&table, &[(Concept::Returns, 1.0)]));
    let found = ambiguity(&judgement);
    let sums: Vec<String> = found.hypotheses.iter().map(|one| one.sum.to_string()).collect();
    assert!(sums.contains(&"calls".to_owned()) && sums.contains(&"returns".to_owned()), "{sums:?}");
    let Some(Split::Kernel { kernel, predictions }) = found.split else { panic!("{found:?}") };
    assert_eq!(table.kernel(kernel).name, "mix-3");
    assert_ne!(predictions[0], predictions[1]);
}

#[test]
fn concepts_that_no_kernel_tells_apart_are_named() {
    let table = balanced(true);
    let judgement = judge_rates(&table, &sum(&table, &[(Concept::Returns, 1.0)]));
    assert_eq!(ambiguity(&judgement).split, Some(Split::Inseparable(Concept::Calls, Concept::Returns)));
    let with_loads = judge_rates(&table, &sum(&table, &[(Concept::Returns, 1.0), (Concept::Loads, 2.0)]));
    let found = ambiguity(&with_loads);
    assert_eq!(found.hypotheses.len(), 2, "{found:?}");
    assert_eq!(found.split, Some(Split::Inseparable(Concept::Calls, Concept::Returns)));
}

#[test]
fn sums_of_up_to_eight_concepts_are_identified() {
    let table = world::table();
    for (terms, expected) in [
        (&[(Concept::Loads, 0.5)] as &[_], "1/2 × loads"),
        (&[(Concept::Stores, 4.0), (Concept::LlcMisses, 1.0)], "4 × stores + llc-misses"),
        (
            &[
                (Concept::IntegerAlu, 1.0),
                (Concept::IntegerMultiplies, 1.0),
                (Concept::Nops, 2.0),
                (Concept::Branches, 1.0),
                (Concept::MemoryInstructions, 1.0),
            ],
            "integer-alu + integer-multiplies + 2 × nops + memory-instructions + branches",
        ),
        (
            &[
                (Concept::FloatAdds, 1.0),
                (Concept::FloatMultiplies, 1.0),
                (Concept::FloatDivides, 4.0),
                (Concept::FusedMultiplyAdds, 1.0),
                (Concept::SimdFloat, 2.0),
                (Concept::SimdInteger, 1.0),
            ],
            "float-adds + float-multiplies + 4 × float-divides + fused-multiply-adds + simd-integer + 2 × simd-float",
        ),
    ] {
        let judgement = judge_rates(&table, &sum(&table, terms));
        assert_eq!(formula(&judgement), expected, "{:?}", judgement.verdict);
    }
}

#[test]
fn an_estimate_binds_nothing_but_what_is_certain() {
    let plain = world::table();
    let estimated = |names: &'static [&'static str], concept: Concept| {
        let kernels = plain.kernels().iter().cloned().map(|mut kernel| {
            kernel.estimates.extend(names.contains(&kernel.name.as_str()).then_some(concept));
            kernel
        });
        KernelTable::new(kernels.collect()).unwrap()
    };
    // The kernel's number of misses is wrong, which the table says.
    let mut rates = sum(&plain, &[(Concept::L1dLoadMisses, 1.0)]);
    rates[plain.index_of("stride").unwrap().0] = 1.9;
    rates[plain.index_of("nops").unwrap().0] = 0.1;
    assert_eq!(judge_rates(&plain, &rates).verdict.letter(), 'C');
    let table = estimated(&["stride", "nops"], Concept::L1dLoadMisses);
    assert_eq!(formula(&judge_rates(&table, &rates)), "l1d-load-misses");
    // Loads are certain in that kernel, so that a sum with them counts them there.
    let mut rates = sum(&plain, &[(Concept::L1dLoadMisses, 1.0), (Concept::Loads, 1.0)]);
    assert_eq!(formula(&judge_rates(&table, &rates)), "loads + l1d-load-misses");
    rates[plain.index_of("stride").unwrap().0] = 0.5;
    assert_eq!(judge_rates(&table, &rates).verdict.letter(), 'C');
    // Nothing is left where all numbers are estimates.
    let all = estimated(&["barrier", "barrier-2", "mix-6"], Concept::Barriers);
    assert_eq!(judge_rates(&all, &sum(&plain, &[(Concept::Barriers, 1.0)])).verdict.letter(), 'C');
}

#[test]
fn twice_a_concept_may_be_a_sum_with_its_near_twin() {
    // In this table a tenth of the misses of one kernel is on wrong paths, and nothing else differs.
    let plain = world::table();
    let table = changed(&plain, |kernel, concept, number| {
        let misses = kernel.per_iteration.iter().find(|(other, _)| *other == Concept::L1dLoadMisses);
        let misses = misses.map_or(0.0, |(_, number)| *number);
        match concept {
            Concept::L1dLoadMissesSpeculative if kernel.name == "chase-llc" => 1.15 * misses,
            Concept::L1dLoadMissesSpeculative => misses,
            _ => number,
        }
    });
    let twins = [(Concept::L1dLoadMisses, 1.0), (Concept::L1dLoadMissesSpeculative, 1.0)];
    let judgement = judge_rates(&table, &sum(&table, &twins));
    let [a, b] = [Concept::L1dLoadMisses, Concept::L1dLoadMissesSpeculative];
    let doubts = &ambiguity(&judgement).doubts;
    assert!(doubts.contains(&Doubt::HalfOf(a, b)) || doubts.contains(&Doubt::HalfOf(b, a)), "{doubts:?}");
    assert_eq!(judge_rates(&table, &sum(&table, &[(Concept::LineCrossings, 2.0)])).verdict.letter(), 'A');
}

#[test]
fn a_weight_that_no_hypothesis_has_is_unexplained() {
    let table = world::table();
    let judgement = judge_rates(&table, &sum(&table, &[(Concept::Loads, 3.0)]));
    let Identification::Unexplained(response) = &judgement.verdict else { panic!("{judgement:?}") };
    assert!(response.admissible.contains(&Concept::Loads) && response.admissible.len() < 20);
    assert_eq!(response.kernels.len(), table.column(Concept::Loads).iter().filter(|n| **n > 0.0).count());
}

#[test]
fn a_sum_that_held_out_kernels_refute_is_unexplained() {
    let table = world::table();
    let mut rates = sum(&table, &[(Concept::Stores, 1.0)]);
    let mixture = table.index_of("mix-4").unwrap();
    rates[mixture.0] += 0.5;
    let judgement = judge_rates(&table, &rates);
    let Identification::Unexplained(response) = &judgement.verdict else { panic!("{judgement:?}") };
    let refuted = response.refuted.as_ref().unwrap();
    assert_eq!((refuted.sum.to_string().as_str(), refuted.predicts_held_out), ("stores", false));
    assert!((refuted.held_out_error.unwrap() - 0.5 / rates[mixture.0]).abs() < 0.01);
}

#[test]
fn events_in_proportion_to_measured_cycles_are_cycle_like() {
    let plain = world::table();
    let cycles = |kernel: &TableKernel| {
        let bytes =
            kernel.name.bytes().fold(7u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        1.0 + f64::from(bytes % 97) / 10.0
    };
    let table = changed(&plain, |kernel, concept, number| match concept {
        Concept::Cycles => cycles(kernel),
        _ => number,
    });
    let rates: Vec<f64> = table.column(Concept::Cycles).iter().map(|cycles| 0.3 * cycles).collect();
    let judgement = judge_rates(&table, &rates);
    let Identification::Irregular(Irregularity::CycleLike { concept, factor }) = judgement.verdict else {
        panic!("{judgement:?}")
    };
    assert_eq!(concept, Concept::Cycles);
    assert!((factor - 0.3).abs() < 0.01);
    assert_eq!(judge_rates(&plain, &rates).verdict.letter(), 'C');

    // Where each instruction takes a cycle nobody can tell the two apart.
    let table = changed(&plain, |kernel, concept, number| match concept {
        Concept::Cycles => {
            kernel.per_iteration.iter().find(|(other, _)| *other == Concept::Instructions).unwrap().1
        }
        _ => number,
    });
    let judgement = judge_rates(&table, &sum(&table, &[(Concept::Instructions, 1.0)]));
    assert_eq!(ambiguity(&judgement).doubts, [Doubt::CycleLike(Concept::Cycles)]);
}

#[test]
fn one_counter_or_an_unknown_one_is_enough() {
    let table = world::table();
    let rates = sum(&table, &[(Concept::Barriers, 1.0)]);
    let judgement = judge_rates(&table, &rates);
    assert_eq!(
        (formula(&judgement).as_str(), judgement.mask.belongs.to_string().as_str()),
        ("barriers", "0")
    );
    let unknown = event(vec![counts(None, rates.iter().copied(), &SIZES)]);
    let judgement = Inference::new(&table).judge(&unknown).unwrap();
    assert_eq!(formula(&judgement), "barriers");
    assert!(!judgement.mask.observable && judgement.mask.belongs.is_empty());
}

#[test]
fn an_event_that_counts_otherwise_on_another_counter_is_not_identified() {
    let table = world::table();
    let rates = sum(&table, &[(Concept::Loads, 1.0)]);
    let counters = [1.0, 1.0, 0.0, 0.5].iter().enumerate().map(|(counter, factor)| {
        counts(Some(counter as u8), rates.iter().map(move |rate| rate * factor), &SIZES)
    });
    let judgement = Inference::new(&table).judge(&event(counters.collect())).unwrap();
    assert_eq!(ambiguity(&judgement).doubts, [Doubt::MaskUnclear]);
    assert_eq!(judgement.mask.belongs.to_string(), "0-1");
    assert_eq!(judgement.mask.dead.to_string(), "2");
    let [(counter, ratio)] = judgement.mask.differs[..] else { panic!("{:?}", judgement.mask) };
    assert_eq!(counter, CounterId::General(3));
    assert!((ratio - 0.5).abs() < 0.01);
}

#[test]
fn what_was_not_measured_leaves_doubts() {
    let table = world::table();
    let rates = sum(&table, &[(Concept::Loads, 1.0)]);
    let judge = |observed: CounterObservations| Inference::new(&table).judge(&event(vec![observed])).unwrap();

    let mut without_mixtures = counts(Some(0), rates.iter().copied(), &SIZES);
    without_mixtures.observations.retain(|one| table.kernel(one.kernel).role == KernelRole::Fitting);
    let judgement = judge(without_mixtures);
    assert_eq!(ambiguity(&judgement).doubts, [Doubt::NotHeldOut(Concept::Loads)]);
    assert_eq!(ambiguity(&judgement).hypotheses[0].held_out_error, None);

    let judgement = judge(counts(Some(0), rates.iter().copied(), &SIZES[..2]));
    assert_eq!(judgement.linearity, Linearity::Untested);
    assert_eq!(ambiguity(&judgement).doubts, [Doubt::LinearityUntested]);

    let few = ["loads", "load-store", "mix-1"];
    let mut of_few = counts(Some(0), rates.iter().copied(), &SIZES);
    of_few.observations.retain(|one| few.contains(&table.kernel(one.kernel).name.as_str()));
    let judgement = judge(of_few);
    assert!(ambiguity(&judgement).hypotheses.len() > 1);

    let judgement = judge(counts(Some(0), rates.iter().copied(), &SIZES[..1]));
    assert_eq!(judgement.verdict, Identification::Irregular(Irregularity::NotMeasured));
    let nothing = CounterObservations { counter: Some(CounterId::General(0)), observations: vec![] };
    assert_eq!(judge(nothing).verdict, Identification::Irregular(Irregularity::NotMeasured));
}

#[test]
fn counted_interrupts_are_taken_off() {
    let table = world::table();
    let rates = sum(&table, &[(Concept::Branches, 1.0)]);
    let mut observed = counts(Some(0), rates.iter().copied(), &SIZES);
    for (index, observation) in observed.observations.iter_mut().enumerate() {
        // Many interrupts, which a median does not hide.
        observation.interrupts = (0..3).map(|repeat| (index as u64 * 7 + repeat * 5) % 40).collect();
        let interrupts = observation.interrupts.iter();
        observation.counts.iter_mut().zip(interrupts).for_each(|(count, interrupts)| *count += interrupts);
    }
    let judgement = Inference::new(&table).judge(&event(vec![observed.clone()])).unwrap();
    assert_eq!(judgement.stability, Stability::CountsInterrupts);
    assert_eq!(formula(&judgement), "branches");
    observed.observations.iter_mut().for_each(|observation| observation.interrupts.clear());
    let judgement = Inference::new(&table).judge(&event(vec![observed])).unwrap();
    assert!(
        judgement.stability == Stability::Noisy && ["", "branches"].contains(&formula(&judgement).as_str())
    );
}

#[test]
fn relations_between_events_need_no_concepts() {
    let table = world::table();
    let add = |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a + b).collect() };
    let of = |concept: Concept| sum(&table, &[(concept, 1.0)]);
    // Events 4 and 5 count what no concept is.
    let odd: Vec<f64> = (0..table.kernels().len()).map(|kernel| [0.0, 1.3, 0.7][kernel % 3]).collect();
    let rates = [
        of(Concept::Loads),
        of(Concept::Stores),
        of(Concept::Loads),
        add(&of(Concept::Loads), &of(Concept::Stores)),
        odd.clone(),
        odd.iter().map(|rate| 2.0 * rate).collect(),
        add(&odd, &of(Concept::Nops)),
        of(Concept::Nops),
        vec![0.0; table.kernels().len()],
    ];
    let judgements: Vec<Judgement> = rates.iter().map(|rates| judge_rates(&table, rates)).collect();
    let found = relations(&judgements);
    for expected in [
        Relation::Duplicates(vec![0, 2]),
        Relation::Double { event: 5, of: 4 },
        Relation::Subset { part: 0, whole: 3 },
        Relation::Subset { part: 4, whole: 6 },
        Relation::Sum { whole: 3, parts: vec![(0, 1), (1, 1)] },
        Relation::Sum { whole: 6, parts: vec![(4, 1), (7, 1)] },
    ] {
        assert!(found.contains(&expected), "{expected:?} in {found:?}");
    }
    assert!(!found.contains(&Relation::Subset { part: 0, whole: 1 }));
    let named = |event: usize| {
        found.iter().any(|relation| match relation {
            Relation::Duplicates(events) => events.contains(&event),
            Relation::Double { event: one, of } => *one == event || *of == event,
            Relation::Subset { part, whole } => *part == event || *whole == event,
            Relation::Sum { whole, parts } => *whole == event || parts.iter().any(|part| part.0 == event),
        })
    };
    assert!(!named(8), "a dead event has relations: {found:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_counts_are_judged(
        counts in prop::collection::vec((0usize..88, 1u64..u64::MAX, prop::collection::vec(any::<u64>(), 1..5)), 0..200),
    ) {
        let table = world::table();
        let observations = counts
            .into_iter()
            .map(|(kernel, iterations, counts)| Observation { kernel: KernelIndex(kernel), iterations, counts, interrupts: vec![] })
            .collect();
        let observed = event(vec![CounterObservations { counter: None, observations }]);
        if let Ok(judgement) = Inference::new(&table).judge(&observed) {
            prop_assert!(judgement.verdict.letter() != 'A');
        }
    }
}
