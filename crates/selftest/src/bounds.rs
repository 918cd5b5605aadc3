//! Events whose numbers nobody knows: what they must look like.

use cyclometer_kernels::{Kernel, KernelQuantity, Rounds};

use crate::finding::{EventVerdict, Finding, Measurement};
use crate::judge::{Examination, ROUNDS};
use crate::meter::{MeterSample, MeteredWork, PAGE_BYTES};
use crate::truth::Truth;

/// The result: whether it is as it should be, and in words.
type BoundsVerdict = (EventVerdict, String);

/// Counts work that shows whether an event can be what its name says.
pub(crate) fn examine(event: &str, truth: Truth, examination: Examination<'_>) -> Finding {
    let mut bench = BoundsCheck { examination, measurements: Vec::new() };
    let outcome = match truth {
        Truth::Cycles => bench.cycles(),
        Truth::OtherCycles => bench.other_cycles(),
        Truth::BranchMisses => bench.branch_misses(),
        Truth::Misses => bench.chase(&Chase { resident_at_most: 0.05, cold_at_least: 0.5 }),
        Truth::Requests => bench.chase(&Chase { resident_at_most: 0.5, cold_at_least: 0.05 }),
        Truth::FarMisses => bench.chase(&Chase { resident_at_most: 0.5, cold_at_least: 0.0 }),
        Truth::Time => bench.time(),
        Truth::Faults => bench.faults(),
        Truth::Switches => bench.switches(),
        Truth::Known(_) | Truth::Near(_) | Truth::Unknown => bench.nothing_known(),
    };
    let measurements = bench.measurements;
    match outcome {
        Ok((verdict, why)) => {
            Finding { event: event.to_owned(), verdict, why, counts_as: None, measurements }
        }
        Err(why) => Finding { measurements, ..Finding::not_counted(event, why) },
    }
}

/// Shares of loads.
struct Chase {
    resident_at_most: f64,
    cold_at_least: f64,
}

struct BoundsCheck<'a> {
    examination: Examination<'a>,
    measurements: Vec<Measurement>,
}

/// Instructions in a cycle that no CPU reaches.
const MOST_IN_A_CYCLE: f64 = 20.0;

/// Instructions in a cycle below which a loop of additions never is, even where an emulator's clock counts.
const FEWEST_IN_A_CYCLE: f64 = 0.02;

/// Instructions in a cycle of another clock that no CPU reaches: several in each cycle of 5 GHz, where the
/// clock has 19.2 MHz.
const MOST_IN_ANOTHER_CYCLE: f64 = 5000.0;

/// The least share of the time that the busiest of several runs has a CPU, even where many programs want it.
const LEAST_ON_CPU: f64 = 0.05;

impl BoundsCheck<'_> {
    /// The least count that a kernel makes.
    fn least(&mut self, kernel: Kernel) -> Result<f64, String> {
        if !kernel.is_here() {
            return Err("there are no loops of known length for this instruction set".to_owned());
        }
        let measurement = self.examination.kernel(kernel, None)?;
        let least = measurement.least();
        self.measurements.push(measurement);
        Ok(least as f64)
    }

    fn plain(&mut self, work: MeteredWork) -> Result<Vec<MeterSample>, String> {
        let (measurement, samples) = self.examination.plain(work)?;
        self.measurements.push(measurement);
        Ok(samples)
    }

    fn cycles(&mut self) -> Result<BoundsVerdict, String> {
        let Some(ipc) = self.instructions_in_one()? else { return Ok(no_cycle()) };
        let fits = (FEWEST_IN_A_CYCLE..=MOST_IN_A_CYCLE).contains(&ipc);
        Ok(plausible_if(fits, format!("{ipc:.2} additions a cycle")))
    }

    fn other_cycles(&mut self) -> Result<BoundsVerdict, String> {
        let Some(per) = self.instructions_in_one()? else { return Ok(no_cycle()) };
        let fits = (FEWEST_IN_A_CYCLE..=MOST_IN_ANOTHER_CYCLE).contains(&per);
        Ok(plausible_if(fits, format!("{per:.2} additions in one of its cycles")))
    }

    /// Instructions for each event; `None` where no event was counted, which no limit allows.
    fn instructions_in_one(&mut self) -> Result<Option<f64>, String> {
        let counted = self.least(Kernel::Additions)?;
        let instructions = known(Kernel::Additions, KernelQuantity::Instructions);
        Ok((counted > 0.0).then(|| instructions / counted))
    }

    fn branch_misses(&mut self) -> Result<BoundsVerdict, String> {
        let (random, steady) = (self.least(Kernel::Random)?, self.least(Kernel::NotTaken)?);
        let share = |misses: f64, kernel| misses / known(kernel, KernelQuantity::Branches);
        let (random, steady) = (share(random, Kernel::Random), share(steady, Kernel::NotTaken));
        let fits = (0.05..=1.0).contains(&random) && steady < 0.02;
        let text =
            format!("{} of branches at random, {} of those never taken", percent(random), percent(steady));
        Ok(plausible_if(fits, text))
    }

    fn chase(&mut self, limits: &Chase) -> Result<BoundsVerdict, String> {
        let loads = known(Kernel::ChaseCold, KernelQuantity::Loads);
        let resident = self.least(Kernel::ChaseResident)? / loads;
        let cold = self.least(Kernel::ChaseCold)? / loads;
        let fits = resident <= limits.resident_at_most
            && (limits.cold_at_least..=MOST_EACH).contains(&cold.max(0.0));
        let text =
            format!("{} of the loads from memory of 8 KiB, {} from 16 MiB", percent(resident), percent(cold));
        match fits && limits.cold_at_least == 0.0 {
            true => Ok((EventVerdict::Unjudged, text + "; what further caches hold is not known")),
            false => Ok(plausible_if(fits, text)),
        }
    }

    fn time(&mut self) -> Result<BoundsVerdict, String> {
        let work = MeteredWork::Kernel(Kernel::Additions, Rounds::MIN.saturating_add(10 * ROUNDS));
        let samples = self.plain(work)?;
        let fits = samples.iter().all(|sample| sample.raw > 0 && sample.raw <= longest(sample));
        let share = |sample: &MeterSample| sample.raw as f64 / sample.wall_ns.max(1) as f64;
        let most = samples.iter().map(share).fold(0.0, f64::max);
        let fits = fits && most >= LEAST_ON_CPU;
        Ok(plausible_if(fits, format!("up to {} of the time that passed", percent(most))))
    }

    fn faults(&mut self) -> Result<BoundsVerdict, String> {
        let pages = TOUCHED / PAGE_BYTES;
        let samples = self.plain(MeteredWork::Touch(TOUCHED))?;
        let least = samples.iter().map(|sample| sample.raw).min().unwrap_or(0);
        let fits = (1..=pages as u64 + 64).contains(&least);
        Ok(plausible_if(fits, format!("{least} for 4 MiB of fresh memory")))
    }

    fn switches(&mut self) -> Result<BoundsVerdict, String> {
        let samples = self.plain(MeteredWork::Sleep(NAPS))?;
        let least = samples.iter().map(|sample| sample.raw).min().unwrap_or(0);
        // A nap that is over before the thread is off its CPU is no switch.
        let fits = (u64::from(NAPS / 2)..=u64::from(3 * NAPS)).contains(&least);
        Ok(plausible_if(fits, format!("{least} for {NAPS} naps")))
    }

    fn nothing_known(&mut self) -> Result<BoundsVerdict, String> {
        let counted = self.least(Kernel::Copies)?;
        let chased = self.least(Kernel::ChaseCold)?;
        let text = format!("{counted} in a loop of copies, {chased} in one of cold loads: nothing is known");
        Ok((EventVerdict::Unjudged, text))
    }
}

/// Events for each load that no cache counts.
const MOST_EACH: f64 = 4.0;

/// Bytes that are touched.
const TOUCHED: usize = 4 * 1024 * 1024;

/// How often the thread sleeps.
const NAPS: u32 = 20;

/// The kernel's clock and ours may differ by this much.
fn longest(sample: &MeterSample) -> u64 {
    sample.wall_ns + sample.wall_ns / 20 + 20_000
}

/// The counts of [`ROUNDS`] more rounds than one.
fn known(kernel: Kernel, quantity: KernelQuantity) -> f64 {
    let of = |rounds: Rounds| kernel.counts(rounds).of(quantity);
    (of(Rounds::MIN.saturating_add(ROUNDS)) - of(Rounds::MIN)) as f64
}

fn plausible_if(fits: bool, text: String) -> BoundsVerdict {
    (if fits { EventVerdict::Plausible } else { EventVerdict::Wrong }, text)
}

fn no_cycle() -> BoundsVerdict {
    plausible_if(false, "none was counted during the additions".to_owned())
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examine::examine;
    use crate::judge::Repetitions;
    use crate::meter::EventMeter;

    struct Fixed<F>(F);

    impl<F: Fn(MeteredWork) -> u64> EventMeter for Fixed<F> {
        fn count(&mut self, work: MeteredWork) -> Result<MeterSample, String> {
            Ok(MeterSample { wall_ns: 1_000_000, ..MeterSample::whole((self.0)(work)) })
        }
    }

    fn verdict(name: &str, count: impl Fn(MeteredWork) -> u64) -> EventVerdict {
        examine(name, Truth::of(name), &mut Fixed(count), Repetitions::HARDWARE).verdict
    }

    fn loads(work: MeteredWork, of: Kernel, share: f64) -> u64 {
        match work {
            MeteredWork::Kernel(kernel, rounds) if kernel == of => {
                (f64::from(rounds.get()) * 4.0 * share) as u64
            }
            _ => 3,
        }
    }

    fn branches(work: MeteredWork, share: f64) -> u64 {
        match work {
            MeteredWork::Kernel(Kernel::Random, rounds) => (f64::from(rounds.get()) * share) as u64,
            _ => 3,
        }
    }

    #[test]
    fn cycles_without_a_sane_rate_are_wrong() {
        let cycles = |each: f64| {
            move |work: MeteredWork| match work {
                MeteredWork::Kernel(_, rounds) => (f64::from(rounds.get()) * 18.0 * each) as u64,
                _ => 0,
            }
        };
        assert_eq!(verdict("cycles", cycles(0.25)), EventVerdict::Plausible);
        assert_eq!(verdict("cycles", cycles(2.0)), EventVerdict::Plausible);
        assert_eq!(verdict("cycles", cycles(0.0)), EventVerdict::Wrong);
        assert_eq!(verdict("cycles", cycles(0.01)), EventVerdict::Wrong);
        assert_eq!(verdict("ref-cycles", cycles(0.0)), EventVerdict::Wrong);
        assert_eq!(verdict("bus-cycles", cycles(0.01)), EventVerdict::Plausible);
        assert_eq!(verdict("bus-cycles", cycles(0.00001)), EventVerdict::Wrong);
        assert_eq!(verdict("ref-cycles", cycles(100.0)), EventVerdict::Wrong);
    }

    #[test]
    fn misses_must_follow_what_is_hard_to_predict_or_to_keep() {
        assert_eq!(verdict("branch-misses", |work| branches(work, 0.5)), EventVerdict::Plausible);
        assert_eq!(verdict("branch-misses", |_| 0), EventVerdict::Wrong);
        let cold = |share| move |work| loads(work, Kernel::ChaseCold, share);
        assert_eq!(verdict("L1-dcache-load-misses", cold(0.98)), EventVerdict::Plausible);
        assert_eq!(verdict("L1-dcache-load-misses", cold(0.01)), EventVerdict::Wrong);
        let resident = |work| loads(work, Kernel::ChaseResident, 0.9);
        assert_eq!(verdict("L1-dcache-load-misses", resident), EventVerdict::Wrong);
        assert_eq!(verdict("LLC-load-misses", cold(0.0)), EventVerdict::Unjudged);
        assert_eq!(verdict("LLC-load-misses", cold(9.0)), EventVerdict::Wrong);
    }

    #[test]
    fn software_events_are_held_against_the_clock_and_the_work() {
        assert_eq!(verdict("task-clock", |_| 900_000), EventVerdict::Plausible);
        assert_eq!(verdict("task-clock", |_| 0), EventVerdict::Wrong);
        assert_eq!(verdict("task-clock", |_| 9_000_000), EventVerdict::Wrong);
        assert_eq!(verdict("task-clock", |_| 1), EventVerdict::Wrong);
        assert_eq!(verdict("page-faults", |_| 1025), EventVerdict::Plausible);
        assert_eq!(verdict("page-faults", |_| 0), EventVerdict::Wrong);
        assert_eq!(verdict("context-switches", |_| 20), EventVerdict::Plausible);
        assert_eq!(verdict("context-switches", |_| 3), EventVerdict::Wrong);
        assert_eq!(verdict("dummy", |_| 0), EventVerdict::Unjudged);
    }
}
