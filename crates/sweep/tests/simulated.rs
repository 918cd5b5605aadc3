//! Sweeps of simulated chips: the same for a seed, exact masks, and dead codes that are left early.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use cyclometer_core::{CounterId, Error};
use cyclometer_inference::{EventObservations, Identification, Inference, KernelIndex, Stability};
use cyclometer_kernels::{Geometry, InstructionSet};
use cyclometer_sim::{Model, Semantics, Settings};
use cyclometer_sweep::{
    CodePlacement, SimulatedTarget, SweepCounts, SweepError, SweepKernel, SweepSettings, SweepTarget,
    kernel_table, kernels_for, sweep,
};

const MEANINGS: &str = "cyclometer-semantics 1
0x11 counters=0x0e0 counts loads
0x12 counters=0x3fc counts branches + stores
0x13 counters=0x3fc counts loads at-most 1 per cycle
0x14 counters=0x004 counts l1i-misses
";

fn target() -> (SimulatedTarget, Vec<SweepKernel>) {
    let mut kernels = kernels_for(InstructionSet::Aarch64, &Geometry::default());
    let semantics = Arc::new(Semantics::parse(MEANINGS.as_bytes()).unwrap());
    let model = Model::find("apple-m1").unwrap();
    let target = SimulatedTarget::new(model, Settings::default(), semantics, &mut kernels);
    (target, kernels)
}

fn swept(seed: u64, codes: &[u32]) -> (Vec<EventObservations>, Vec<SweepKernel>) {
    let (mut target, kernels) = target();
    let settings = SweepSettings { iterations: 1021, repeats: 2, seed, is_noisy: false };
    let observed = sweep(&mut target, codes, &kernels, &settings, |_| {}).unwrap();
    (observed, kernels)
}

#[test]
fn verdicts_are_the_meanings_that_the_chip_was_given() {
    let codes = [0x10, 0x11, 0x12, 0x13, 0x14];
    let (observed, kernels) = swept(3, &codes);
    let table = kernel_table(&kernels).unwrap();
    let inference = Inference::new(&table);
    let judged: Vec<_> = observed.iter().map(|event| inference.judge(event).unwrap()).collect();
    let sums: Vec<Option<String>> = judged
        .iter()
        .map(|judgement| judgement.verdict.identified().map(|hypothesis| hypothesis.sum.to_string()))
        .collect();
    assert_eq!(sums[1].as_deref(), Some("loads"));
    assert_eq!(judged[1].mask.belongs.to_string(), "5-7");
    assert_eq!(judged[1].stability, Stability::Deterministic);
    assert_eq!(sums[2].as_deref(), Some("stores + branches"));
    assert_eq!(sums[3], None, "a limit is no sum: {:?}", judged[3].verdict);
    assert_eq!(judged[4].mask.belongs.to_string(), "2");
    assert_eq!(judged[0].verdict, Identification::NoSignal);
}

#[test]
fn a_sweep_is_the_same_for_a_seed_whatever_the_order_of_codes() {
    let (one, _) = swept(5, &[0x11, 0x12]);
    let (again, _) = swept(5, &[0x11, 0x12]);
    assert_eq!(one, again);
    let (other, _) = swept(6, &[0x12, 0x11]);
    let counts = |event: &EventObservations| {
        let mut all: Vec<_> = event.counters[0]
            .observations
            .iter()
            .map(|seen| (seen.kernel, seen.iterations, seen.counts.clone()))
            .collect();
        all.sort();
        all
    };
    assert_eq!(counts(&one[0]), counts(&other[1]), "without noise the order does not matter");
}

#[test]
fn a_dead_code_is_counted_at_two_sizes_and_a_live_one_at_four() {
    let (observed, kernels) = swept(1, &[0x10, 0x11]);
    assert_eq!(observed[0].counters.len(), 8);
    assert_eq!(observed[0].counters[0].observations.len(), 2 * kernels.len());
    assert_eq!(observed[1].counters[0].observations.len(), 4 * kernels.len());
    assert!(observed[1].counters[0].observations.iter().all(|seen| seen.counts.len() == 2));
}

/// A target whose registers refuse a code, and that has so many counters.
struct Refusing(usize);

impl SweepTarget for Refusing {
    fn counters(&self) -> Vec<Option<CounterId>> {
        (0..self.0).map(|n| Some(CounterId::General(n as u8))).collect()
    }

    fn place(&mut self, code: u32) -> Result<CodePlacement, Error> {
        let refused = Error::new(cyclometer_core::ErrorKind::EventUnsupported, "reserved bits are set");
        if code == 7 { Err(refused) } else { Ok(CodePlacement::Placed) }
    }

    fn count(&mut self, _: KernelIndex, iterations: u64) -> Result<SweepCounts, Error> {
        Ok(SweepCounts { counts: vec![iterations; self.0], instructions: None })
    }
}

#[test]
fn a_code_that_is_refused_is_named_and_a_chip_without_counters_is_no_target() {
    let settings = SweepSettings { iterations: 1, repeats: 1, seed: 0, is_noisy: false };
    let kernels: Vec<SweepKernel> = target().1.into_iter().take(2).collect();
    let mut seen = Vec::new();
    let refused = sweep(&mut Refusing(1), &[7], &kernels, &settings, |now| seen.push(now)).unwrap_err();
    assert_eq!(refused.to_string(), "event 0x7: reserved bits are set");
    assert!(seen.is_empty());
    let none = sweep(&mut Refusing(0), &[1], &kernels, &settings, |_| {}).unwrap_err();
    assert!(matches!(none, SweepError::NoCounter));
    let one = sweep(&mut Refusing(1), &[1], &kernels, &settings, |now| seen.push(now)).unwrap();
    assert_eq!((one[0].event.as_str(), one[0].counters.len(), seen.len()), ("0x01", 1, 1));
}
