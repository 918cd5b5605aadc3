//! Programs that are told of another processor: what they find is the baseline's, on every machine.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use crate::support;

use cyclometer_soft::{ExecutionEvent, ProcessorBaseline};
use cyclometer_sys::process::Status;
use support::compare::assert_same_counts;
use support::programs::{BuildRecipe, build};
use support::run::{TestJob, TestRun, TraceMethod, settings};
use support::{installed, ready, skip};

fn under(baseline: ProcessorBaseline) -> TraceMethod {
    TraceMethod::Soft(settings().with_baseline(Some(baseline)))
}

/// Whether this machine has what a baseline asks for.
fn is_possible(baseline: ProcessorBaseline) -> bool {
    let lacking = baseline.lacking(&std::fs::read_to_string("/proc/cpuinfo").unwrap());
    if let Some(feature) = lacking {
        skip(&format!("this machine lacks {feature} of {}", baseline.name()));
    }
    lacking.is_none()
}

fn runs(job: &TestJob) -> Vec<(ProcessorBaseline, TestRun)> {
    let possible = ProcessorBaseline::ALL.into_iter().filter(|baseline| is_possible(*baseline));
    possible.map(|baseline| (baseline, job.run(under(baseline)))).collect()
}

fn processor() -> Option<TestJob> {
    let recipe = BuildRecipe { source: "processor.c", flags: &["-O3"] };
    ready().then(|| build(&recipe)).flatten().map(|program| TestJob::new(program, &[]))
}

fn line<'a>(run: &'a TestRun, start: &str) -> Option<&'a str> {
    run.stdout.lines().find_map(|line| line.strip_prefix(start))
}

fn vectors(run: &TestRun, event: ExecutionEvent) -> u64 {
    run.counts[0].count(event).unwrap()
}

#[test]
fn a_program_finds_the_processor_of_the_baseline() {
    let Some(job) = processor() else { return };
    for (baseline, run) in runs(&job) {
        assert_eq!(run.status, Status::Code(0), "{baseline:?}");
        for leaf in [0, 1, 2, 4, 7, 11, 0x8000_0000, 0x8000_0001, 0x8000_0002, 0x8000_0006] {
            let [a, b, c, d] = baseline.cpuid(leaf, 0, |_, _| unreachable!("of no leaf here"));
            let expected = format!("{a:x} {b:x} {c:x} {:x}", if leaf == 11 { 0 } else { d });
            assert_eq!(line(&run, &format!("{leaf:x} ")), Some(&*expected), "{baseline:?}");
        }
        let xcr0 = format!("{:x} 0", baseline.xcr0());
        let has_state = baseline >= ProcessorBaseline::X86_64V3;
        assert_eq!(line(&run, "xcr0 "), has_state.then_some(&*xcr0));
        assert_eq!(line(&run, "state "), has_state.then(|| format!("{:x} 1 0", baseline.xcr0())).as_deref());
        assert_eq!(line(&run, "r11 "), Some("9"));
        assert_eq!(line(&run, "hwcap "), Some("78bfbff 0"));
    }
}

#[test]
fn the_ways_that_libraries_take_are_those_of_the_baseline() {
    let Some(job) = processor() else { return };
    let runs = runs(&job);
    for (baseline, run) in &runs {
        assert!(run.stdout.ends_with("4999 2998.000000\n"), "{}", run.stdout);
        let wide = vectors(run, ExecutionEvent::Simd256) + vectors(run, ExecutionEvent::Simd512);
        assert_eq!(wide > 0, *baseline >= ProcessorBaseline::X86_64V3, "{baseline:?}: {wide}");
        let widest = vectors(run, ExecutionEvent::Simd512);
        assert_eq!(widest > 0, *baseline >= ProcessorBaseline::X86_64V4, "{baseline:?}: {widest}");
        assert_same_counts(&run.counts, &job.run(under(*baseline)).counts);
    }
    let mut counts: Vec<u64> =
        runs.iter().map(|(_, run)| vectors(run, ExecutionEvent::Instructions)).collect();
    counts.dedup();
    assert_eq!(counts.len(), runs.len(), "baselines make a difference");
}

#[test]
fn programs_of_the_system_do_what_they_do_by_themselves() {
    if !ready() {
        return;
    }
    for (name, args) in [("sort", ["--version"]), ("dash", ["-cecho $((6*7))"]), ("openssl", ["version"])] {
        let Some(program) = installed(name) else { continue };
        let job = TestJob::new(program, &args);
        let native = job.run(TraceMethod::Nobody);
        for (baseline, run) in runs(&job) {
            assert_eq!((run.status, &run.stdout), (native.status, &native.stdout), "{name} {baseline:?}");
            assert!(run.lost().is_empty(), "{:?}", run.lost());
        }
    }
}
