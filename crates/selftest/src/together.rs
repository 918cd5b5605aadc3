//! The same event several times at once.

use cyclometer_kernels::{Kernel, KernelQuantity, Rounds};

use crate::finding::{EventVerdict, Finding, Measurement};
use crate::judge::ROUNDS;
use crate::meter::{MeterSample, MeteredWork};
use crate::thread::ThreadMeter;

/// How far a copy may be off: what runs while the copies are started one after another, and interrupts.
const APART: u64 = 10_000;

/// Whether copies of an event of instructions that count at the same time tell the truth: each has the known
/// number, or says that it did not run. Some drivers claim that all of them run, and let most of them read 0.
pub fn together(event: &str, meter: &mut ThreadMeter<'_>) -> Finding {
    let work = MeteredWork::Kernel(Kernel::Additions, Rounds::MIN.saturating_add(10 * ROUNDS));
    if !Kernel::Additions.is_here() {
        return Finding::not_counted(event, "there are no loops of known length for this instruction set");
    }
    match meter.count_all(work) {
        Ok(samples) => judged(event, work, &samples),
        Err(why) => Finding::not_counted(event, why),
    }
}

fn judged(event: &str, work: MeteredWork, samples: &[MeterSample]) -> Finding {
    let MeteredWork::Kernel(kernel, rounds) = work else {
        return Finding::not_counted(event, "nothing is known");
    };
    let expected = kernel.counts(rounds).of(KernelQuantity::Instructions);
    let lies = |sample: &&MeterSample| sample.is_whole() && sample.raw.abs_diff(expected) > APART;
    let (copies, lying) = (samples.len(), samples.iter().filter(lies).count());
    let honest = samples.iter().filter(|sample| !sample.is_whole()).count();
    let (verdict, why) = match (lying, honest) {
        (0, 0) => (EventVerdict::Plausible, format!("all {copies} count the same time")),
        (0, honest) if honest == copies => (
            EventVerdict::Unjudged,
            format!("all {copies} say that they had to wait: none can be held against anything"),
        ),
        (0, _) => (EventVerdict::Plausible, format!("{honest} of {copies} say that they had to wait")),
        _ => {
            let text = format!(
                "{lying} of {copies} claim to have counted all the time, and did not: count fewer events at once"
            );
            (EventVerdict::Wrong, text)
        }
    };
    let values = samples.iter().map(|sample| i64::try_from(sample.raw).unwrap_or(i64::MAX)).collect();
    let measurements = vec![Measurement { work, expected: Some(expected), values }];
    Finding { event: event.to_owned(), verdict, why, counts_as: None, measurements }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Behaviour, FakeMeter};
    use cyclometer_kernels::KernelMemory;

    const RIGHT: u64 = 18 * (10 * ROUNDS as u64 + 1);

    fn check(behaviour: Behaviour) -> Finding {
        let mut memory = KernelMemory::new();
        let source = FakeMeter::new(behaviour);
        let mut meter = ThreadMeter::open(&source, &FakeMeter::slots(3), &mut memory).unwrap();
        together("instructions", &mut meter)
    }

    #[test]
    fn copies_that_agree_are_fine_and_so_are_those_that_say_that_they_waited() {
        let finding = check(Behaviour::Steps(vec![RIGHT + 100]));
        assert_eq!(
            (finding.verdict, finding.why.as_str()),
            (EventVerdict::Plausible, "all 3 count the same time")
        );
        let finding = check(Behaviour::FirstOnlyHonest(RIGHT));
        assert_eq!(finding.why, "2 of 3 say that they had to wait");
    }

    #[test]
    fn copies_of_which_none_counted_all_the_time_show_nothing() {
        let waited = MeterSample { raw: 5, time_enabled_ns: 100, time_running_ns: 30, wall_ns: 100 };
        let work = MeteredWork::Kernel(Kernel::Additions, Rounds::MIN);
        assert_eq!(judged("e", work, &[waited; 3]).verdict, EventVerdict::Unjudged);
    }

    #[test]
    fn a_driver_that_lies_about_what_does_not_count_is_noticed() {
        let finding = check(Behaviour::FirstOnly(RIGHT));
        assert_eq!(finding.verdict, EventVerdict::Wrong);
        assert!(finding.why.starts_with("2 of 3 claim"), "{}", finding.why);
    }
}
