//! Counts against what is known.

use cyclometer_kernels::{Kernel, KernelQuantity, Rounds};

use crate::finding::{EventVerdict, Finding, Measurement};
use crate::meter::{EventMeter, MeterSample, MeteredWork};

/// Rounds of a kernel beyond the one that it is compared with: short against the time between interrupts.
pub const ROUNDS: u32 = 10_000;

/// How often work is repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repetitions {
    /// A single round, whose least count is what stands around the loop.
    pub bases: u32,
    /// All rounds.
    pub repeats: u32,
}

impl Repetitions {
    /// The repetitions for a counter that interrupts disturb.
    pub const HARDWARE: Repetitions = Repetitions { bases: 3, repeats: 5 };

    /// The repetitions for a source without disturbance: twice the same.
    pub const UNDISTURBED: Repetitions = Repetitions { bases: 1, repeats: 2 };
}

/// How an event is counted.
pub(crate) struct Examination<'a> {
    pub(crate) meter: &'a mut dyn EventMeter,
    pub(crate) effort: Repetitions,
}

/// Which deviations from known counts are no contradiction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strictness {
    Exact,
    Near,
}

impl Examination<'_> {
    /// The difference that [`ROUNDS`] make, several times.
    pub(crate) fn kernel(&mut self, kernel: Kernel, expected: Option<u64>) -> Result<Measurement, String> {
        let base = self.bases(kernel, self.effort.bases)?.into_iter().min().unwrap_or(0);
        self.beyond(base, kernel, expected)
    }

    /// The count beyond that of the code around the loop.
    fn beyond(&mut self, base: i64, kernel: Kernel, expected: Option<u64>) -> Result<Measurement, String> {
        let work = MeteredWork::Kernel(kernel, Rounds::MIN.saturating_add(ROUNDS));
        let values = (0..self.effort.repeats).map(|_| Ok(signed(self.sample(work)?.raw) - base));
        Ok(Measurement { work, expected, values: values.collect::<Result<_, String>>()? })
    }

    /// The count of the code around the loop and of disturbances: the counts of a single round.
    fn bases(&mut self, kernel: Kernel, number: u32) -> Result<Vec<i64>, String> {
        let work = MeteredWork::Kernel(kernel, Rounds::MIN);
        (0..number).map(|_| Ok(signed(self.sample(work)?.raw))).collect()
    }

    /// As [`Examination::kernel`]. Where a count is too low by as little as interrupts add, each of the few
    /// single rounds may have been disturbed. Then what a single round usually counts decides: a counter that
    /// is too low now and then is so in few of them. Where single rounds usually count nothing in particular,
    /// the counts stay as they are.
    fn known_kernel(&mut self, kernel: Kernel, quantities: &[KernelQuantity]) -> Result<Measurement, String> {
        let base = self.bases(kernel, self.effort.bases)?.into_iter().min().unwrap_or(0);
        let mut measurement = self.beyond(base, kernel, None)?;
        let missing = |quantity: &KernelQuantity| signed(expected(kernel, *quantity)) - measurement.least();
        if self.effort.bases > 1
            && quantities.iter().all(|one| (1..=FEW).contains(&missing(one)))
            && let Some(usual) = usual(self.bases(kernel, MORE_BASES)?)
        {
            measurement.values.iter_mut().for_each(|value| *value += base - usual);
        }
        Ok(measurement)
    }

    /// The counts of other work, as they are.
    pub(crate) fn plain(&mut self, work: MeteredWork) -> Result<(Measurement, Vec<MeterSample>), String> {
        let samples: Vec<MeterSample> =
            (0..self.effort.repeats).map(|_| self.sample(work)).collect::<Result<_, _>>()?;
        let values = samples.iter().map(|sample| signed(sample.raw)).collect();
        Ok((Measurement { work, expected: None, values }, samples))
    }

    fn sample(&mut self, work: MeteredWork) -> Result<MeterSample, String> {
        let sample = self.meter.count(work)?;
        match (sample.is_whole(), sample.time_running_ns) {
            (true, _) => Ok(sample),
            (false, 0) => Err("it was opened, and never got a counter".to_owned()),
            (false, running) => {
                let share = 100.0 * running as f64 / sample.time_enabled_ns as f64;
                Err(format!("it shares its counter with others: counted {share:.0} % of the time"))
            }
        }
    }

    /// Counts the loops in which the event counts one of these quantities, and judges the counts.
    pub(crate) fn quantities(
        mut self,
        event: &str,
        quantities: &[KernelQuantity],
        strictness: Strictness,
    ) -> Finding {
        match self.counted(quantities) {
            Ok(measurements) => judged(event, quantities, measurements, strictness),
            Err(why) => Finding::not_counted(event, why),
        }
    }

    /// The counts of each kernel that is conclusive about these.
    fn counted(&mut self, quantities: &[KernelQuantity]) -> Result<Vec<Measurement>, String> {
        let says = |kernel: &Kernel| kernel.is_here() && quantities.iter().all(|one| kernel.knows(*one));
        let kernels: Vec<Kernel> = Kernel::ALL.into_iter().filter(says).collect();
        if kernels.is_empty() {
            return Err("there are no loops of known length for this instruction set".to_owned());
        }
        kernels.into_iter().map(|kernel| self.known_kernel(kernel, quantities)).collect()
    }
}

/// Single rounds that are counted where few of them may all have been disturbed.
const MORE_BASES: u32 = 21;

/// The most frequent value, the least of those; `None` where it is not a third of them: the least value of a
/// noisy counter would say nothing.
fn usual(mut values: Vec<i64>) -> Option<i64> {
    values.sort_unstable();
    let is_frequent = |run: &&[i64]| run.len() > 1 && 3 * run.len() >= values.len();
    let runs = values.chunk_by(|a, b| a == b).filter(is_frequent);
    // The first one of the longest: of several `max_by_key` takes the last.
    runs.rev().max_by_key(|run| run.len()).and_then(|run| run.first().copied())
}

fn signed(raw: u64) -> i64 {
    i64::try_from(raw).unwrap_or(i64::MAX)
}

/// The counts of [`ROUNDS`] more rounds than one.
fn expected(kernel: Kernel, quantity: KernelQuantity) -> u64 {
    let of = |rounds: Rounds| kernel.counts(rounds).of(quantity);
    of(Rounds::MIN.saturating_add(ROUNDS)) - of(Rounds::MIN)
}

/// The measurements with what is known of them.
fn with_expected(measurements: &[Measurement], quantity: KernelQuantity) -> Vec<Measurement> {
    let known = |measurement: &Measurement| match measurement.work {
        MeteredWork::Kernel(kernel, _) => Some(expected(kernel, quantity)),
        _ => None,
    };
    let each = measurements.iter().map(|one| Measurement { expected: known(one), ..one.clone() });
    each.collect()
}

/// Whether a measurement allows a verdict.
type Holds = fn(&Measurement) -> bool;

/// The best verdict that any of the quantities allows.
fn judged(
    event: &str,
    quantities: &[KernelQuantity],
    measurements: Vec<Measurement>,
    strictness: Strictness,
) -> Finding {
    let candidates: Vec<_> =
        quantities.iter().map(|one| (*one, with_expected(&measurements, *one))).collect();
    let verdicts: [(EventVerdict, Holds); 3] = [
        (EventVerdict::Exact, is_exact),
        (EventVerdict::Overcounts, is_little_more),
        (EventVerdict::Plausible, is_near),
    ];
    for (verdict, holds) in verdicts {
        if verdict == EventVerdict::Plausible && strictness == Strictness::Exact {
            continue;
        }
        let found = candidates.iter().find(|(_, measurements)| measurements.iter().all(holds));
        if let Some((quantity, measurements)) = found {
            let first = quantity == &quantities[0];
            let why = words(verdict, *quantity, first, measurements);
            let (counts_as, measurements) = (Some(quantity.word()), measurements.clone());
            return Finding { event: event.to_owned(), verdict, why, counts_as, measurements };
        }
    }
    let measurements = candidates.into_iter().next().map(|(_, first)| first).unwrap_or_default();
    let why = contradiction(&measurements);
    Finding { event: event.to_owned(), verdict: EventVerdict::Wrong, why, counts_as: None, measurements }
}

fn excesses(measurement: &Measurement) -> impl Iterator<Item = i64> {
    let expected = signed(measurement.expected.unwrap_or(0));
    measurement.values.iter().map(move |value| value - expected)
}

fn is_exact(measurement: &Measurement) -> bool {
    excesses(measurement).all(|excess| excess == 0)
}

/// More than this many events too many are not explained by interrupts, each of which adds one or two.
///
/// # Source
///
/// V. M. Weaver, D. Terpstra and S. Moore, Non-determinism and overcount on modern hardware performance
/// counter implementations (ISPASS 2013): on x86 every hardware interrupt counts as an instruction retired in
/// user mode.
const FEW: i64 = 8;

fn is_little_more(measurement: &Measurement) -> bool {
    excesses(measurement).all(|excess| (0..=FEW).contains(&excess))
}

/// Up to three times as many and some: accesses on wrong paths, and repeated ones, are counted too; and 5 %
/// fewer, as some CPUs take two accesses as one.
fn is_near(measurement: &Measurement) -> bool {
    let expected = signed(measurement.expected.unwrap_or(0));
    let most = 3 * expected + i64::from(ROUNDS) / 10;
    measurement.values.iter().all(|value| (expected - expected / 20..=most).contains(value))
}

fn words(
    verdict: EventVerdict,
    quantity: KernelQuantity,
    first: bool,
    measurements: &[Measurement],
) -> String {
    let values = measurements.iter().map(|one| one.values.len()).sum::<usize>();
    let loops = measurements.len();
    let what = quantity.word().replace('_', " ");
    let instead = if first { String::new() } else { format!(" as {what}") };
    match verdict {
        EventVerdict::Exact => {
            format!("the known number in each of {values} counts over {loops} loops{instead}")
        }
        EventVerdict::Overcounts => {
            let most = measurements.iter().flat_map(excesses).max().unwrap_or(0);
            let more = measurements.iter().flat_map(excesses).filter(|excess| *excess > 0).count();
            format!(
                "{more} of {values} counts over {loops} loops are up to {most} too high{instead}: so few are interrupts on x86"
            )
        }
        _ => format!("from 95 % of the {what} of {loops} loops to some three times as many"),
    }
}

/// The measurement that is furthest off, in words.
fn contradiction(measurements: &[Measurement]) -> String {
    let has_known = |one: &&Measurement| one.expected.is_some_and(|expected| expected > 0);
    let known: Vec<&Measurement> = measurements.iter().filter(has_known).collect();
    if !known.is_empty() && known.iter().all(|one| one.values.iter().all(|value| *value == 0)) {
        return "reads 0 in every loop, and claims to have counted".to_owned();
    }
    let off = |one: &&Measurement| excesses(one).map(i64::abs).max().unwrap_or(0);
    let Some(worst) = measurements.iter().max_by_key(off) else { return "nothing was counted".to_owned() };
    let (least, most) = (worst.least(), worst.values.iter().copied().max().unwrap_or(0));
    let counted = if least == most { least.to_string() } else { format!("{least} to {most}") };
    let expected = worst.expected.unwrap_or(0);
    format!("{counted} in the loop '{}', which has {expected}", worst.work.word())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examine::examine;
    use crate::truth::Truth;

    /// Counts a quantity as it is, changed by what a test wants.
    struct ChangedCounter<F>(KernelQuantity, F);

    impl<F: FnMut(u64) -> u64> EventMeter for ChangedCounter<F> {
        fn count(&mut self, work: MeteredWork) -> Result<MeterSample, String> {
            let MeteredWork::Kernel(kernel, rounds) = work else { return Err("no kernel".to_owned()) };
            // Something stands around the loop.
            Ok(MeterSample::whole((self.1)(kernel.counts(rounds).of(self.0)) + 41))
        }
    }

    fn check(name: &str, counted: KernelQuantity, change: impl FnMut(u64) -> u64) -> Finding {
        examine(name, Truth::of(name), &mut ChangedCounter(counted, change), Repetitions::HARDWARE)
    }

    #[test]
    fn the_known_number_every_time_is_exact() {
        let finding = check("instructions", KernelQuantity::Instructions, |count| count);
        assert_eq!(finding.verdict, EventVerdict::Exact, "{}", finding.why);
        assert!(finding.measurements.iter().all(|one| one.expected.is_some() && one.values.len() == 5));
    }

    #[test]
    fn a_few_too_many_now_and_then_are_interrupts_and_a_few_too_few_are_wrong() {
        let mut number = 0;
        let mut now_and_then = |few: i64| {
            check("instructions", KernelQuantity::Instructions, |count| {
                number += 1;
                if number % 7 == 0 { count.saturating_add_signed(few) } else { count }
            })
        };
        let finding = now_and_then(1);
        assert_eq!(finding.verdict, EventVerdict::Overcounts, "{}", finding.why);
        assert!(finding.why.contains("up to 1 too high"), "{}", finding.why);
        assert_eq!(now_and_then(-1).verdict, EventVerdict::Wrong);
        assert_eq!(now_and_then(50).verdict, EventVerdict::Wrong);
    }

    #[test]
    fn single_rounds_that_were_all_disturbed_are_counted_again() {
        let around = |disturbed: u64, every: u64| {
            let (mut rounds, mut number) = (0, 0);
            check("instructions", KernelQuantity::Instructions, move |count| {
                let single = count < 1_000;
                rounds += u64::from(single);
                number += 1;
                let disturb = (single && rounds <= disturbed) || (every > 0 && number % every == 0);
                count + u64::from(disturb)
            })
        };
        assert_eq!(around(3, 0).verdict, EventVerdict::Exact);
        assert_eq!(around(9, 0).verdict, EventVerdict::Exact);
        assert_eq!(around(3, 5).verdict, EventVerdict::Overcounts);
        let finding =
            check("instructions", KernelQuantity::Instructions, |count| count - u64::from(count > 1_000));
        assert_eq!(finding.verdict, EventVerdict::Wrong, "too low each time");
    }

    #[test]
    fn a_noisy_counter_that_is_too_low_is_not_put_right() {
        let mut rounds = 0;
        let finding = check("instructions", KernelQuantity::Instructions, |count| {
            if count > 1_000 {
                return count + 8;
            }
            rounds += 1;
            // Each loop has three counts that are alike, and as many as are counted again, all different.
            match (rounds - 1) % 24 {
                0..3 => count + 9,
                other => count + 8 + 10 * (other - 3),
            }
        });
        assert_eq!(finding.verdict, EventVerdict::Wrong, "{}", finding.why);
    }

    #[test]
    fn usual_is_what_a_third_of_the_values_agree_on() {
        for (values, expected) in [
            (vec![5, 3, 4, 4, 5, 9], Some(4)),
            (vec![5, 3, 4, 4, 6, 9, 8], None),
            (vec![5, 3, 4], None),
            (vec![5], None),
            (Vec::new(), None),
        ] {
            assert_eq!(usual(values.clone()), expected, "{values:?}");
        }
    }

    #[test]
    fn a_counter_that_claims_to_count_and_reads_zero_is_wrong() {
        let finding = check("branches", KernelQuantity::Branches, |_| 0);
        assert_eq!(finding.verdict, EventVerdict::Wrong);
        assert_eq!(finding.why, "reads 0 in every loop, and claims to have counted");
    }

    #[test]
    fn a_counter_of_something_else_is_recognised_where_that_is_documented() {
        let finding = check("branches", KernelQuantity::TakenBranches, |count| count);
        assert_eq!((finding.verdict, finding.counts_as), (EventVerdict::Exact, Some("branches_taken")));
        assert!(finding.why.ends_with("as branches taken"), "{}", finding.why);
        let finding = check("instructions", KernelQuantity::Branches, |count| count);
        assert_eq!(finding.verdict, EventVerdict::Wrong);
        assert!(finding.why.contains("which has"), "{}", finding.why);
    }

    #[test]
    fn speculative_loads_are_plausible_and_far_too_many_instructions_are_not() {
        let finding = check("L1-dcache-loads", KernelQuantity::Loads, |count| count + count / 3);
        assert_eq!(finding.verdict, EventVerdict::Plausible, "{}", finding.why);
        let finding = check("L1-dcache-loads", KernelQuantity::Loads, |count| count / 2);
        assert_eq!(finding.verdict, EventVerdict::Wrong, "{}", finding.why);
        let finding = check("instructions", KernelQuantity::Instructions, |count| count * 16);
        assert_eq!(finding.verdict, EventVerdict::Wrong, "{}", finding.why);
    }

    #[test]
    fn what_did_not_run_all_the_time_is_no_number() {
        struct SharedCounter(u64);
        impl EventMeter for SharedCounter {
            fn count(&mut self, _: MeteredWork) -> Result<MeterSample, String> {
                Ok(MeterSample { time_enabled_ns: 100, time_running_ns: self.0, ..MeterSample::default() })
            }
        }
        for (running, why) in [(0, "never got a counter"), (50, "counted 50 % of the time")] {
            let truth = Truth::of("instructions");
            let finding = examine("instructions", truth, &mut SharedCounter(running), Repetitions::HARDWARE);
            assert_eq!(finding.verdict, EventVerdict::NotCounted);
            assert!(finding.why.contains(why), "{}", finding.why);
        }
    }
}
