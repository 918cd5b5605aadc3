use std::sync::OnceLock;

use cyclometer_core::{NoInterval, Random};
use proptest::prelude::*;

use super::programs::{
    EVENTS, Hard, KINDS, ProgramKind, ProgramRun, round_robin, run, seen, shuffled, sleeper, slices as cut,
};
use super::*;

const TURNS: [usize; 3] = [2, 4, 8];

/// Runs of each kind of program and number of rotation groups: enough that chance moves a coverage by a
/// percentage point only.
const REPEATS: usize = 40;

/// The results of the estimates of many runs.
#[derive(Default, Debug)]
struct Tally {
    estimates: f64,
    inside: f64,
    error: f64,
}

impl Tally {
    fn add(&mut self, estimate: &TotalEstimate, truth: f64) {
        let error = (estimate.total - truth).abs();
        self.estimates += 1.0;
        self.inside += f64::from(u8::from(error <= *estimate.half_width.as_ref().unwrap()));
        self.error += error / truth;
    }

    /// Share of the intervals that hold the true total, in percent.
    fn coverage(&self) -> f64 {
        100.0 * self.inside / self.estimates
    }

    /// Mean error, in percent of the true total.
    fn mean_error(&self) -> f64 {
        100.0 * self.error / self.estimates
    }
}

impl Tally {
    /// Adds the estimates of all events of a run.
    fn add_run(&mut self, run: &ProgramRun, columns: &[&[f64]], rotation_groups: usize, order: &[usize]) {
        let rotation = Rotation::new(&run.lengths, columns);
        for (event, counts) in run.events.iter().enumerate() {
            let estimate = rotation.estimate(&seen(event, counts, rotation_groups, order)).unwrap();
            self.add(&estimate, counts.iter().sum::<u64>() as f64);
        }
    }
}

/// The estimates of a kind of program with a number of rotation groups.
struct Trial {
    kind: ProgramKind,
    rotation_groups: usize,
    /// In a random order, by the counts of every slice.
    random: Tally,
    /// In the same order each round, by time.
    fixed: Tally,
}

impl Trial {
    fn of(kind: ProgramKind, rotation_groups: usize) -> Trial {
        let mut trial = Trial { kind, rotation_groups, random: Tally::default(), fixed: Tally::default() };
        let mut random = Random::seeded(rotation_groups as u64);
        for _ in 0..REPEATS {
            let run = run(kind, rotation_groups, &mut random);
            let order = shuffled(rotation_groups, &mut random);
            trial.random.add_run(&run, &[&run.cycles, &run.instructions], rotation_groups, &order);
            trial.fixed.add_run(&run, &[], rotation_groups, &round_robin(rotation_groups));
        }
        assert_eq!(trial.random.estimates, (REPEATS * EVENTS) as f64);
        trial
    }
}

/// Every kind of program with every number of rotation groups, computed once for all tests.
fn trials() -> &'static [Trial] {
    static ALL: OnceLock<Vec<Trial>> = OnceLock::new();
    ALL.get_or_init(|| {
        KINDS
            .into_iter()
            .flat_map(|kind| TURNS.map(|rotation_groups| Trial::of(kind, rotation_groups)))
            .collect()
    })
}

fn check_errors(kinds: &[ProgramKind], right: impl Fn(f64, f64) -> bool) {
    for trial in trials().iter().filter(|trial| kinds.contains(&trial.kind)) {
        let (random, fixed) = (trial.random.mean_error(), trial.fixed.mean_error());
        assert!(
            right(random, fixed),
            "{:?}, {} turns: {random:.2} %, {fixed:.2} %",
            trial.kind,
            trial.rotation_groups
        );
    }
}

#[test]
fn intervals_hold_the_total_of_every_kind_of_program_as_often_as_they_say() {
    for trial in trials() {
        let coverage = trial.random.coverage();
        assert!(
            (91.0..=99.0).contains(&coverage),
            "{:?}, {} turns: {coverage:.1} %",
            trial.kind,
            trial.rotation_groups
        );
    }
}

#[test]
fn intervals_hold_the_total_of_a_program_that_sleeps() {
    for rotation_groups in TURNS {
        let (mut random, mut tally) = (Random::seeded(7), Tally::default());
        for _ in 0..REPEATS {
            let run = sleeper(&mut random);
            tally.add_run(&run, &[], rotation_groups, &shuffled(rotation_groups, &mut random));
        }
        let coverage = tally.coverage();
        assert!((91.0..=99.0).contains(&coverage), "{rotation_groups} turns: {coverage:.1} %");
    }
}

/// Estimates of a hard program, with slices that grow or not.
fn hard(kind: Hard, rotation_groups: usize, grow: bool, repeats: usize) -> Tally {
    let (mut random, mut tally) = (Random::seeded(rotation_groups as u64), Tally::default());
    for _ in 0..repeats {
        let (lengths, order): (Vec<usize>, Vec<usize>) =
            cut(rotation_groups, grow, &mut random).into_iter().unzip();
        tally.add_run(&kind.run(&lengths, &mut random), &[], rotation_groups, &order);
    }
    tally
}

#[test]
fn intervals_of_a_start_that_is_unlike_the_rest_hold_where_turns_are_short_at_first() {
    for rotation_groups in TURNS {
        let coverage = hard(Hard::Start, rotation_groups, true, REPEATS).coverage();
        assert!(coverage >= 91.0, "{rotation_groups} turns: {coverage:.1} %");
    }
    let long = hard(Hard::Start, 8, false, REPEATS).coverage();
    assert!(long < 85.0, "turns of one length do it as well: {long:.1} %");
}

/// The documentation's claim: for such a program, the coverage is below that of the interval.
#[test]
fn intervals_of_programs_with_few_heavy_moments_hold_as_seldom_as_documented() {
    for (kind, documented) in [(Hard::Bursts, [84.6, 65.3, 43.9]), (Hard::HeavyTail, [83.2, 77.7, 73.0])] {
        for (rotation_groups, expected) in TURNS.into_iter().zip(documented) {
            let coverage = hard(kind, rotation_groups, true, REPEATS).coverage();
            assert!((coverage - expected).abs() < 8.0, "{kind:?}, {rotation_groups} turns: {coverage:.1} %");
        }
    }
}

#[test]
fn a_period_that_is_that_of_the_rotation_does_not_mislead_a_random_order() {
    check_errors(&[ProgramKind::PeriodOfRotation], |random, fixed| random < 5.0 && random * 10.0 < fixed);
}

#[test]
fn a_period_that_shares_a_factor_with_the_rotation_does_not_mislead_a_random_order() {
    check_errors(&[ProgramKind::Periodic], |random, fixed| random < 2.0 && random * 4.0 < fixed);
}

#[test]
fn programs_without_a_period_are_told_about_as_well_as_by_time_or_better() {
    let kinds = [ProgramKind::Blocks, ProgramKind::Markov, ProgramKind::Spikes, ProgramKind::Ramp];
    check_errors(&kinds, |random, fixed| random < fixed * 1.2);
}

/// Every second slice seen, with as many slices as it takes to see `count`.
fn alternate(count: usize) -> Vec<Option<u64>> {
    (0..2 * count).map(|slice| (slice % 2 == 0).then_some(1000 + slice as u64 * 37 % 100)).collect()
}

#[test]
fn fewer_than_twenty_slices_have_no_interval() {
    for count in 1..30 {
        let seen = alternate(count);
        let estimate = Rotation::new(&vec![1.0; seen.len()], &[]).estimate(&seen).unwrap();
        match estimate.half_width {
            Err(reason) => {
                assert_eq!(
                    (reason, count < 20),
                    (NoInterval::TooFewSlices { slices: count, needed: LEAST_SLICES }, true)
                )
            }
            Ok(half_width) => assert!(count >= 20 && half_width > 0.0, "{count}"),
        }
        assert!((estimate.total - 2.0 * estimate.seen as f64).abs() < 1e-6);
        assert_eq!((estimate.slices, estimate.observed), (count, 0.5));
    }
}

#[test]
fn slices_in_which_nothing_ran_are_no_part_of_the_sample() {
    let awake = |slice: usize| slice % 40 < 2;
    let lengths: Vec<f64> = (0..400).map(|slice| if awake(slice) { 1.0 } else { 0.0 }).collect();
    let count = |slice: usize| if awake(slice) { 1000 + slice as u64 } else { 0 };
    let seen: Vec<_> = (0..400).map(|slice| (slice % 2 == 0).then(|| count(slice))).collect();
    let estimate = Rotation::new(&lengths, &[]).estimate(&seen).unwrap();
    assert_eq!(estimate.half_width, Err(NoInterval::TooFewSlices { slices: 10, needed: LEAST_SLICES }));
    assert_eq!((estimate.total, estimate.observed), (2.0 * estimate.seen as f64, 0.5));
    let asleep: Vec<_> = (0..400).map(|slice| (!awake(slice)).then_some(0)).collect();
    assert_eq!(Rotation::new(&lengths, &[]).estimate(&asleep), None);
}

#[test]
fn slices_in_which_nothing_ran_change_no_interval() {
    let seen = alternate(40);
    let without = Rotation::new(&[1.0; 80], &[]).estimate(&seen).unwrap();
    let idle = |count: Option<u64>| [count, count.map(|_| 0)];
    let with: Vec<_> = seen.iter().copied().flat_map(idle).collect();
    let lengths: Vec<f64> = (0..160).map(|slice| f64::from(1 - slice % 2)).collect();
    let estimate = Rotation::new(&lengths, &[]).estimate(&with).unwrap();
    assert!(same(&estimate, &without) && estimate.slices == 40, "{estimate:?}, {without:?}");
}

#[test]
fn an_event_that_never_counted_has_no_estimate() {
    assert_eq!(Rotation::new(&[1.0; 40], &[]).estimate(&[None; 40]), None);
    assert_eq!(Rotation::new(&[], &[]).estimate(&[]), None);
}

#[test]
fn without_columns_the_total_is_what_was_seen_by_the_time_seen() {
    let rotation = Rotation::new(&[10.0, 10.0, 30.0, 50.0], &[]);
    let estimate = rotation.estimate(&[Some(7), None, Some(33), None]).unwrap();
    assert_eq!((estimate.total, estimate.observed, estimate.seen), (100.0, 0.4, 40));
}

#[test]
fn what_is_always_counted_tells_the_slices_not_seen() {
    let cycles: Vec<f64> = (0..80).map(|slice| f64::from(slice * slice % 17)).collect();
    let counts = |slice: usize| 5 + 3 * cycles[slice] as u64;
    let seen: Vec<_> = (0..80).map(|slice| (slice % 3 == 0).then(|| counts(slice))).collect();
    let truth = (0..80).map(counts).sum::<u64>() as f64;
    let by = |columns: &[&[f64]]| Rotation::new(&[1.0; 80], columns).estimate(&seen).unwrap().total;
    assert!((by(&[&cycles]) - truth).abs() < 1e-6);
    assert!((by(&[]) - truth).abs() > 1.0);
}

#[test]
fn nothing_seen_in_part_of_the_time_may_be_three_in_as_much_time() {
    let mut seen = vec![None; 100];
    seen[..25].fill(Some(0));
    let estimate = Rotation::new(&[1.0; 100], &[]).estimate(&seen).unwrap();
    assert_eq!((estimate.total, estimate.half_width), (0.0, Ok(9.0)));
}

#[test]
fn a_count_that_few_slices_hold_is_told() {
    let mut seen = vec![Some(10); 100];
    seen.extend([None; 100]);
    let rotation = Rotation::new(&[1.0; 200], &[]);
    for (one, concentrated) in [(10, false), (980, false), (990, true), (u64::MAX, true)] {
        seen[50] = Some(one);
        assert_eq!(rotation.estimate(&seen).unwrap().concentrated, concentrated, "{one}");
    }
}

#[test]
fn slices_seen_without_any_time_have_no_interval() {
    let seen: Vec<_> = (0..60).map(|slice| (slice < 30).then_some(5)).collect();
    for none in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY, 1e-300] {
        let lengths: Vec<f64> = (0..60).map(|slice| if slice < 30 { none } else { 1.0 }).collect();
        let estimate = Rotation::new(&lengths, &[]).estimate(&seen).unwrap();
        assert_eq!((estimate.half_width, estimate.total), (Err(NoInterval::NoTime), 150.0), "{none}");
    }
}

#[test]
fn slices_that_all_lack_a_length_are_taken_to_be_of_the_same() {
    let estimate = Rotation::new(&[0.0; 4], &[]).estimate(&[Some(3), None, Some(5), None]).unwrap();
    assert_eq!((estimate.total, estimate.observed), (16.0, 0.5));
}

#[test]
fn few_slices_are_told_by_time_alone() {
    let cycles = [1.0, 2.0, 9.0, 4.0, 8.0, 3.0, 2.0, 1.0];
    let seen = [Some(10), Some(30), Some(20), Some(40), None, None, None, None];
    let by = |columns: &[&[f64]]| Rotation::new(&[1.0; 8], columns).estimate(&seen).unwrap().total;
    assert_eq!((by(&[&cycles]), by(&[])), (200.0, 200.0));
}

#[test]
fn a_slice_that_was_cut_short_is_told_by_its_time() {
    let estimate = Rotation::new(&[1e-4, 1.0], &[]).estimate(&[Some(7), None]).unwrap();
    assert!(close(estimate.total, 70_007.0), "{}", estimate.total);
}

#[test]
fn counts_whose_sum_is_too_great_stay_great() {
    let estimate =
        Rotation::new(&[1.0; 4], &[]).estimate(&[Some(u64::MAX), Some(u64::MAX), None, None]).unwrap();
    assert_eq!((estimate.seen, estimate.total), (u64::MAX, 4.0 * u64::MAX as f64));
}

#[test]
#[should_panic(expected = "an entry for each slice")]
fn counts_of_another_number_of_slices_are_a_mistake() {
    Rotation::new(&[1.0; 3], &[]).estimate(&[Some(1)]);
}

#[test]
fn reasons_say_what_is_missing() {
    assert_eq!(
        NoInterval::TooFewSlices { slices: 3, needed: LEAST_SLICES }.to_string(),
        "seen in 3 slices of time; an interval needs 20"
    );
    assert_eq!(
        NoInterval::TooFewSlices { slices: 1, needed: LEAST_SLICES }.to_string(),
        "seen in 1 slice of time; an interval needs 20"
    );
}

/// Slices with a length, cycles, and a count if seen: at least one is.
fn slices() -> impl Strategy<Value = Vec<(f64, f64, Option<u64>)>> {
    let slice = (0.5f64..2.0, 1e5f64..1e7, proptest::option::weighted(0.4, 10_000u64..10_000_000));
    proptest::collection::vec(slice, 1..150)
        .prop_filter("one slice is seen", |slices| slices.iter().any(|slice| slice.2.is_some()))
}

fn estimate(slices: &[(f64, f64, Option<u64>)], more: &[&[f64]]) -> TotalEstimate {
    let lengths: Vec<f64> = slices.iter().map(|slice| slice.0).collect();
    let cycles: Vec<f64> = slices.iter().map(|slice| slice.1).collect();
    let seen: Vec<_> = slices.iter().map(|slice| slice.2).collect();
    let columns: Vec<&[f64]> = std::iter::once(cycles.as_slice()).chain(more.iter().copied()).collect();
    Rotation::new(&lengths, &columns).estimate(&seen).unwrap()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs())
}

fn same(a: &TotalEstimate, b: &TotalEstimate) -> bool {
    let half_widths = match (&a.half_width, &b.half_width) {
        (Ok(a), Ok(b)) => close(*a, *b),
        (a, b) => a == b,
    };
    half_widths && close(a.total, b.total) && close(a.observed, b.observed)
}

proptest! {
    #[test]
    fn the_total_does_not_depend_on_the_order_of_the_slices(slices in slices(), seed: u64) {
        let order = Random::seeded(seed).permutation(slices.len());
        let shuffled: Vec<_> = order.iter().map(|&slice| slices[slice]).collect();
        prop_assert!(close(estimate(&slices, &[]).total, estimate(&shuffled, &[]).total));
    }

    #[test]
    fn time_may_as_well_run_backwards(slices in slices()) {
        let backwards: Vec<_> = slices.iter().rev().copied().collect();
        prop_assert!(same(&estimate(&slices, &[]), &estimate(&backwards, &[])));
    }

    #[test]
    fn a_column_that_follows_from_the_others_changes_nothing(slices in slices(), a in -3.0f64..3.0) {
        let before = estimate(&slices, &[]);
        let follows: Vec<f64> = slices.iter().map(|slice| 1e6 * slice.0 + a * slice.1).collect();
        let zeros = vec![0.0; slices.len()];
        prop_assert_eq!(&estimate(&slices, &[&zeros]), &before);
        prop_assert!(same(&estimate(&slices, &[&follows]), &before));
    }

    #[test]
    fn a_column_that_is_not_of_numbers_is_left_out(slices in slices(), at: prop::sample::Index) {
        let before = estimate(&slices, &[]);
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut column: Vec<f64> = slices.iter().map(|slice| slice.1.sqrt()).collect();
            *at.get_mut(&mut column) = bad;
            prop_assert_eq!(&estimate(&slices, &[&column]), &before);
        }
        prop_assert_eq!(&estimate(&slices, &[&vec![1.0; slices.len() + 1]]), &before);
    }

    #[test]
    fn twice_the_counts_have_twice_the_total_and_the_interval(slices in slices()) {
        let twice: Vec<_> = slices.iter().map(|slice| (slice.0, slice.1, slice.2.map(|count| 2 * count))).collect();
        let (one, two) = (estimate(&slices, &[]), estimate(&twice, &[]));
        prop_assert!(close(2.0 * one.total, two.total));
        if let (Ok(one), Ok(two)) = (one.half_width, two.half_width) {
            prop_assert!(close(2.0 * one, two));
        }
    }

    #[test]
    fn units_do_not_matter(slices in slices(), time in 1e-9f64..1e9, cycles in 1e-9f64..1e9) {
        let scaled: Vec<_> = slices.iter().map(|slice| (slice.0 * time, slice.1 * cycles, slice.2)).collect();
        prop_assert!(same(&estimate(&slices, &[]), &estimate(&scaled, &[])));
    }

    #[test]
    fn all_slices_seen_give_the_sum_without_error(counts in proptest::collection::vec(0u64..1 << 40, 1..60)) {
        let lengths: Vec<f64> = counts.iter().map(|count| 1.0 + (count % 7) as f64).collect();
        let seen: Vec<_> = counts.iter().copied().map(Some).collect();
        let estimate = Rotation::new(&lengths, &[&lengths]).estimate(&seen).unwrap();
        prop_assert_eq!(estimate.total, counts.iter().sum::<u64>() as f64);
        prop_assert_eq!((estimate.half_width, estimate.observed), (Ok(0.0), 1.0));
    }

    #[test]
    fn no_input_gives_a_total_below_what_was_seen_or_a_number_that_is_none(
        slices in proptest::collection::vec(
            (any::<f64>(), any::<f64>(), -1e3f64..1e3, proptest::option::of(any::<u64>())), 1..80),
    ) {
        let columns = [0, 1, 2].map(|column| -> Vec<f64> {
            slices.iter().map(|slice| [slice.0, slice.1, slice.2][column]).collect()
        });
        let seen: Vec<_> = slices.iter().map(|slice| slice.3).collect();
        if let Some(estimate) = Rotation::new(&columns[0], &[&columns[1], &columns[2]]).estimate(&seen) {
            prop_assert!(estimate.total.is_finite() && estimate.total >= estimate.seen as f64);
            prop_assert!(estimate.half_width.as_ref().map_or(true, |h| h.is_finite() && *h >= 0.0));
            prop_assert!((0.0..=1.0 + 1e-12).contains(&estimate.observed));
        }
    }
}
