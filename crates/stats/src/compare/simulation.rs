//! Coverage of the statements: comparisons of simulated runs under drift and spikes, where the truth is
//! known.
//!
//! The settings are those in which blocked designs fail: noise of 0.5 % and drift of 2 %. The drift is
//! linear, in one step or a random walk, with and without delays of 8 % of the runs. All seeds are fixed.

use cyclometer_core::Random;

use super::signed_rank::{SignedRank, paired};
use super::{ComparisonFinding, Design, Question, Series, THRESHOLD, compare_single};

const TRIALS: usize = 1_500;
const NOISE: f64 = 0.005;
const DRIFT: f64 = 0.02;
const SPIKES: f64 = 0.08;

#[derive(Clone, Copy, Debug)]
enum Course {
    Steady,
    Line,
    Step,
    Walk,
}

const COURSES: [Course; 4] = [Course::Steady, Course::Line, Course::Step, Course::Walk];

/// Simulated time and noise.
struct World {
    random: Random,
    course: Course,
    spikes: bool,
    /// Number of executions, and the number of the first one after the step.
    total: usize,
    step_at: usize,
    level: f64,
    now: usize,
}

impl World {
    fn new(seed: u64, course: Course, spikes: bool, total: usize) -> World {
        let mut random = Random::seeded(seed);
        let step_at = random.below(total);
        World { random, course, spikes, total, step_at, level: 0.0, now: 0 }
    }

    fn uniform(&mut self) -> f64 {
        (self.random.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Normal deviates by Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// The next execution of a command whose true cost is `cost`.
    fn run(&mut self, cost: f64) -> f64 {
        let position = self.now as f64 / self.total as f64;
        if matches!(self.course, Course::Walk) {
            self.level += self.normal() * DRIFT / (self.total as f64).sqrt();
        }
        let drift = match self.course {
            Course::Steady => 0.0,
            Course::Line => DRIFT * position,
            Course::Step => {
                if self.now >= self.step_at {
                    DRIFT
                } else {
                    0.0
                }
            }
            Course::Walk => self.level,
        };
        self.now += 1;
        let spike = if self.spikes && self.uniform() < SPIKES { 0.05 + 0.25 * self.uniform() } else { 0.0 };
        cost * (drift + NOISE * self.normal()).exp() * (1.0 + spike)
    }

    /// Pairs in random order.
    fn pairs(&mut self, n: usize, change: f64) -> (Vec<f64>, Vec<f64>) {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for _ in 0..n {
            let a_first = self.random.word() & 1 == 0;
            if a_first {
                a.push(self.run(1e9));
            }
            b.push(self.run(1e9 * (1.0 + change)));
            if !a_first {
                a.push(self.run(1e9));
            }
        }
        (a, b)
    }
}

fn settings() -> impl Iterator<Item = (Course, bool)> {
    COURSES.into_iter().flat_map(|course| [(course, false), (course, true)])
}

/// The pairs of one trial of a setting.
fn trial(seed: u64, (course, spikes): (Course, bool), n: usize, change: f64) -> (Vec<f64>, Vec<f64>) {
    let seed = Random::seeded(seed ^ (n as u64) << 40).word();
    World::new(seed, course, spikes, 2 * n).pairs(n, change)
}

/// Three standard errors of a share of the trials.
fn errors(share: f64) -> f64 {
    3.0 * (share * (1.0 - share) / TRIALS as f64).sqrt()
}

#[test]
fn equal_commands_are_called_different_in_5_percent_at_most_under_every_drift() {
    for n in [6, 10, 20, 40] {
        let table = SignedRank::of(n);
        for setting in settings() {
            let alarms = (0..TRIALS as u64).filter(|seed| {
                let (a, b) = trial(*seed, setting, n, 0.0);
                let ratios: Vec<f64> = a.iter().zip(&b).map(|(a, b)| (b / a).ln()).collect();
                paired(&ratios, &table).unwrap().p.unwrap() <= 0.05
            });
            let share = alarms.count() as f64 / TRIALS as f64;
            assert!(share <= 0.05 + errors(0.05), "{setting:?}, {n} pairs: {share}");
            // A test that never finds a change would pass, too; the exact levels are 3.1 % for six pairs to
            // 4.9 % for forty.
            assert!(share >= 0.015, "{setting:?}, {n} pairs: {share}");
        }
    }
}

#[test]
fn a_change_of_1_percent_lies_in_95_of_100_intervals_under_every_drift() {
    let truth = 1.01f64.ln();
    for n in [6, 10, 20, 40] {
        let table = SignedRank::of(n);
        for setting in settings() {
            let covered = (0..TRIALS as u64).filter(|seed| {
                let (a, b) = trial(seed + 1_000_000, setting, n, 0.01);
                let ratios: Vec<f64> = a.iter().zip(&b).map(|(a, b)| (b / a).ln()).collect();
                let (low, high) = paired(&ratios, &table).unwrap().interval.unwrap();
                low <= truth && truth <= high
            });
            let share = covered.count() as f64 / TRIALS as f64;
            assert!((0.95 - errors(0.05)..=0.99).contains(&share), "{setting:?}, {n} pairs: {share}");
        }
    }
}

fn finding(a: &[f64], b: &[f64]) -> ComparisonFinding {
    let question = Question { design: Design::Paired, threshold: THRESHOLD };
    compare_single(&Series::of("t", a), &Series::of("t", b), question).finding
}

#[test]
fn equal_commands_have_hardly_ever_changed_and_3_percent_mostly() {
    for setting in settings() {
        let (mut alarms, mut found) = (0, 0);
        for seed in 0..300 {
            let (a, b) = trial(seed + 2_000_000, setting, 20, 0.0);
            alarms += usize::from(finding(&a, &b) == ComparisonFinding::Changed);
            let (a, b) = trial(seed + 3_000_000, setting, 20, 0.03);
            found += usize::from(finding(&a, &b) == ComparisonFinding::Changed);
        }
        assert!(alarms <= 3, "{setting:?}: {alarms} of 300");
        // Delays of 5 to 30 % in 8 % of the runs reduce the power of the test, but not its validity.
        let least = if setting.1 { 220 } else { 295 };
        assert!(found >= least, "{setting:?}: {found} of 300");
    }
}

#[test]
fn one_after_the_other_would_be_fooled_by_drift() {
    // The same runs, all of A before all of B, compared without pairs: this shows why runs are paired.
    let mut alarms = 0;
    for seed in 0..300 {
        let mut world = World::new(seed, Course::Line, false, 40);
        let a: Vec<f64> = (0..20).map(|_| world.run(1e9)).collect();
        let b: Vec<f64> = (0..20).map(|_| world.run(1e9)).collect();
        alarms += usize::from(super::shift(&a, &b).unwrap().p.unwrap() <= 0.05);
    }
    assert!(alarms >= 290, "{alarms} of 300");
}
