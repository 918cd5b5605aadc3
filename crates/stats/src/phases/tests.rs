use std::ops::Range;

use cyclometer_core::Random;

use super::{LEAST_FOR_INTERVAL, MOST_STEPS, Phases, WindowRates, phases};

/// Part of a program: so many windows with these rates.
type Stretch = (usize, [f64; 3]);

/// A value of the standard normal distribution, to within what twelve uniform ones give.
fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.word() as f64 / 2f64.powi(64)).sum::<f64>() - 6.0
}

fn program(stretches: &[Stretch], noise: f64, random: &mut Random) -> WindowRates {
    let rates = stretches.iter().flat_map(|(windows, rates)| std::iter::repeat_n(*rates, *windows));
    let noisy = |value: f64, random: &mut Random| Some(value * (1.0 + noise * normal(random)));
    let rows: Vec<[Option<f64>; 3]> = rates.map(|row| row.map(|value| noisy(value, random))).collect();
    WindowRates {
        weights: vec![1.0; rows.len()],
        columns: (0..3).map(|column| rows.iter().map(|row| row[column]).collect()).collect(),
        divisors: Vec::new(),
    }
}

fn bounds(stretches: &[Stretch]) -> Vec<usize> {
    let ends = stretches.iter().scan(0, |end, (windows, _)| {
        *end += windows;
        Some(*end)
    });
    ends.take(stretches.len() - 1).collect()
}

fn found(phases: &Phases) -> Vec<usize> {
    phases.segments.iter().skip(1).map(|segment| segment.windows.start).collect()
}

/// How many of the first are within one window of one of the second.
fn near(some: &[usize], others: &[usize]) -> usize {
    some.iter().filter(|a| others.iter().any(|b| a.abs_diff(*b) <= 1)).count()
}

const READ: [f64; 3] = [0.30, 0.10, 5.0];
const COMPUTE: [f64; 3] = [0.20, 0.05, 1.0];
const WRITE: [f64; 3] = [0.25, 0.20, 2.0];

/// A random program of three kinds of work, each stretch longer than nine windows.
fn random_program(random: &mut Random) -> Vec<Stretch> {
    let kinds = [READ, COMPUTE, WRITE];
    let mut kind = random.below(3);
    let stretches = (0..3 + random.below(8)).map(|_| {
        kind = (kind + 1 + random.below(2)) % 3;
        (10 + random.below(90), kinds[kind])
    });
    stretches.collect()
}

#[test]
fn boundaries_of_known_programs_are_found_and_no_others() {
    for noise in [0.0, 0.005, 0.02, 0.05] {
        let (mut true_ones, mut recalled, mut reported, mut right) = (0, 0, 0, 0);
        for seed in 0..100 {
            let mut random = Random::seeded(seed);
            let stretches = random_program(&mut random);
            let phases = phases(&program(&stretches, noise, &mut random));
            let (truth, found) = (bounds(&stretches), found(&phases));
            true_ones += truth.len();
            recalled += near(&truth, &found);
            reported += found.len();
            right += near(&found, &truth);
        }
        let (recall, precision) = (recalled as f64 / true_ones as f64, right as f64 / reported as f64);
        assert!(recall >= 0.95 && precision >= 0.95, "noise {noise}: recall {recall}, precision {precision}");
    }
}

#[test]
fn the_same_work_is_the_same_phase_each_time() {
    let stretches = [(30, READ), (50, COMPUTE), (20, READ), (40, WRITE), (25, COMPUTE)];
    let phases = phases(&program(&stretches, 0.02, &mut Random::seeded(1)));
    let kinds: Vec<usize> = phases.segments.iter().map(|segment| segment.phase).collect();
    assert_eq!(kinds, [0, 1, 0, 2, 1]);
    assert_eq!(phases.phases.iter().map(|phase| phase.segments).collect::<Vec<_>>(), [2, 2, 1]);
    let windows: usize = phases.phases.iter().map(|phase| phase.windows).sum();
    assert_eq!(windows, 165);
    let share: f64 = phases.phases.iter().map(|phase| phase.share).sum();
    assert!((share - 1.0).abs() < 1e-9, "{share}");
    let rate = phases.phases[0].rates[2].as_ref().map(|rate| (rate.mean, rate.interval));
    let Some((mean, Some((low, high)))) = rate else { panic!("{rate:?}") };
    assert!((4.9..5.1).contains(&mean) && low < mean && mean < high && high - low < 0.2, "{rate:?}");
}

#[test]
fn a_window_that_holds_both_sides_of_a_boundary_is_no_phase() {
    let mixed = std::array::from_fn(|rate| (READ[rate] + COMPUTE[rate]) / 2.0);
    let stretches = [(40, READ), (1, mixed), (60, COMPUTE), (1, mixed), (40, READ)];
    let phases = phases(&program(&stretches, 0.0, &mut Random::seeded(2)));
    assert_eq!(phases.phases.len(), 2, "{:?}", phases.segments);
    assert_eq!(near(&found(&phases), &[40, 41, 101, 102]), 2, "{:?}", phases.segments);
    assert_eq!(phases.segments.len(), 3);
}

#[test]
fn noise_and_outliers_alone_are_one_phase() {
    for seed in 0..50 {
        let mut random = Random::seeded(seed);
        let mut rates = program(&[(400, READ)], 0.1, &mut random);
        rates.columns[1][random.below(400)] = Some(3.0);
        let phases = phases(&rates);
        let segments: Vec<Range<usize>> = phases.segments.into_iter().map(|s| s.windows).collect();
        assert!(segments.len() <= 3, "seed {seed}: {segments:?}");
        assert!(
            segments.iter().filter(|segment| segment.len() > 2).count() <= 2,
            "seed {seed}: {segments:?}"
        );
    }
}

#[test]
fn a_rate_that_never_changes_and_one_that_is_missing_do_not_disturb() {
    let mut rates = program(&[(50, READ), (50, COMPUTE)], 0.01, &mut Random::seeded(3));
    rates.columns.push(vec![Some(7.0); 100]);
    rates.columns.push(vec![None; 100]);
    rates.columns.push((0..100).map(|i| (i % 2 == 0).then_some(f64::NAN)).collect());
    rates.columns[0][20] = None;
    let phases = phases(&rates);
    assert_eq!(found(&phases), [50]);
    assert_eq!(phases.unused_columns, [4, 5]);
    assert_eq!(phases.phases[0].rates[4], None);
    assert_eq!(phases.phases[0].rates[3].map(|rate| rate.mean), Some(7.0));
}

#[test]
fn few_windows_are_one_phase_and_none_are_none() {
    assert_eq!(phases(&WindowRates::default()), Phases::default());
    let rates = program(&[(3, READ), (4, COMPUTE)], 0.0, &mut Random::seeded(4));
    let phases = phases(&rates);
    assert_eq!((phases.segments.len(), phases.phases.len()), (1, 1));
    assert!(phases.phases[0].windows < LEAST_FOR_INTERVAL);
    assert_eq!(phases.phases[0].rates[0].and_then(|rate| rate.interval), None);
}

#[test]
fn a_share_is_that_of_the_weights() {
    let mut rates = program(&[(50, READ), (50, COMPUTE)], 0.0, &mut Random::seeded(5));
    rates.weights[..50].fill(3.0);
    let phases = phases(&rates);
    assert_eq!(phases.phases.iter().map(|phase| phase.share).collect::<Vec<_>>(), [0.75, 0.25]);
}

#[test]
fn the_mean_of_a_rate_is_the_ratio_of_the_sums() {
    // Instructions per cycle of 2 and 0.5 with as many instructions: 2,000 of them in 2,500 cycles.
    let columns = vec![vec![Some(2.0), Some(0.5)]];
    let rates = WindowRates { weights: vec![1000.0; 2], columns, divisors: vec![vec![500.0, 2000.0]] };
    let mean = phases(&rates).phases[0].rates[0].map(|rate| rate.mean);
    assert_eq!(mean, Some(0.8));
}

#[test]
fn boundaries_in_a_long_recording_are_right_to_the_window() {
    let stretches = [(23_456, READ), (34_567, COMPUTE), (12_345, WRITE), (29_632, READ)];
    let phases = phases(&program(&stretches, 0.02, &mut Random::seeded(6)));
    let (truth, found) = (bounds(&stretches), found(&phases));
    assert_eq!((found.len(), near(&found, &truth)), (3, 3), "{found:?} for {truth:?}");
}

#[test]
fn the_interval_of_a_rate_that_is_never_negative_begins_at_zero_at_least() {
    let mut rates = WindowRates {
        weights: vec![1.0; 100],
        columns: vec![vec![Some(0.0); 100]],
        ..WindowRates::default()
    };
    rates.columns[0][50] = Some(40.0);
    let phases = phases(&rates);
    let interval = phases.phases[0].rates[0].and_then(|rate| rate.interval);
    let Some((low, high)) = interval else { panic!("{:?}", phases.phases) };
    assert!(low == 0.0 && high > 0.4, "{low} … {high}");
}

#[test]
fn work_that_changes_faster_than_phases_are_found_is_reported_and_no_other() {
    // Many segments take long to group, so the longer runs have none.
    let lengths: [(usize, f64, &[usize]); 4] = [
        (400, 0.0, &[1, 2, 4, 7]),
        (400, 0.05, &[1, 2, 4, 7]),
        (3 * MOST_STEPS, 0.02, &[1, 2]),
        (10 * MOST_STEPS, 0.02, &[4, 7]),
    ];
    for (windows, noise, lengths) in lengths {
        for &length in lengths {
            let rotation_groups: Vec<Stretch> =
                (0..windows / length).map(|i| (length, if i % 2 == 0 { READ } else { COMPUTE })).collect();
            let phases = phases(&program(&rotation_groups, noise, &mut Random::seeded(7)));
            let is_reported = phases.fast_columns == [0, 1, 2];
            let shares: Vec<f64> = phases.phases.iter().map(|phase| phase.share).collect();
            let is_found = shares.len() == 2 && shares.iter().all(|share| (0.48..0.52).contains(share));
            assert!(is_reported != is_found, "{length} of {windows}: {:?} {shares:?}", phases.fast_columns);
        }
    }
    for seed in 0..100 {
        let mut random = Random::seeded(seed);
        let known = random_program(&mut random);
        assert!(phases(&program(&known, 0.05, &mut random)).fast_columns.is_empty(), "seed {seed}");
        let noise = program(&[(25 + random.below(400), READ)], 0.3, &mut random);
        assert!(phases(&noise).fast_columns.is_empty(), "seed {seed}");
    }
}

#[test]
fn fast_changes_of_a_part_of_the_run_are_reported_and_tiny_ones_are_not() {
    let rotation_groups = |windows: usize, other: [f64; 3]| {
        (0..windows).map(move |i| (1, if i % 2 == 0 { READ } else { other }))
    };
    let hair = READ.map(|rate| rate * 1.01);
    let phases_of = |stretches: Vec<Stretch>| phases(&program(&stretches, 0.0, &mut Random::seeded(8)));
    assert!(phases_of(rotation_groups(200, hair).collect()).fast_columns.is_empty());
    let late = phases_of([(300, READ)].into_iter().chain(rotation_groups(200, COMPUTE)).collect());
    assert_eq!(late.fast_columns, [0, 1, 2]);
}

#[test]
fn a_mean_of_two_batches_has_no_interval() {
    for batches in 1..=3 {
        let divisors: Vec<f64> = (0..25).map(|i| if i < 5 * batches { 1.0 } else { 0.0 }).collect();
        let columns = vec![(0..25).map(|i| Some(f64::from(i % 5))).collect()];
        let rates = WindowRates { weights: vec![1.0; 25], columns, divisors: vec![divisors] };
        let rate = phases(&rates).phases[0].rates[0].unwrap();
        assert_eq!((rate.mean, rate.interval.is_some()), (2.0, batches == 3), "{batches}: {rate:?}");
    }
}
