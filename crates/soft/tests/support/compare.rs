//! Whether two runs are the same.

use cyclometer_soft::ExecutionEvent;
use cyclometer_soft::host::protocol::ProcessCounts;

use super::run::{TestJob, TestRun, TraceMethod, alone, soft};

/// A program's translated run and its run by steps agree in every event of every process.
#[track_caller]
pub fn check_exact(job: &TestJob) {
    let native = job.run(TraceMethod::Nobody);
    let stepped = job.run(TraceMethod::Oracle);
    let translated = job.run(soft());
    assert_same_end(&stepped, &native);
    assert_same_end(&translated, &native);
    assert_same_counts(&translated.counts, &stepped.counts);
}

/// Compares where a clock decides on the program's path now and then: of a few translated runs and a few
/// stepped ones, two agree. The longer a step takes, the likelier the clock decides. So no other test of this
/// program runs a job to its end meanwhile, and the stepper is on the same CPU.
#[track_caller]
pub fn check_exact_once(job: &TestJob) {
    const ROUNDS: usize = 8;
    let _alone = alone();
    let native = job.run_now(TraceMethod::Nobody);
    let (mut translated, mut stepped) = (Vec::new(), Vec::new());
    let mut differences = Vec::new();
    for _ in 0..ROUNDS {
        for (tracer, runs) in [(soft(), &mut translated), (TraceMethod::NearOracle, &mut stepped)] {
            let run = job.run_now(tracer);
            assert_same_end(&run, &native);
            runs.push(run.counts);
        }
        let pairs = translated.iter().flat_map(|one| stepped.iter().map(move |other| (one, other)));
        differences = pairs.map(|(one, other)| differences_of(one, other)).collect();
        if differences.iter().any(Vec::is_empty) {
            return;
        }
    }
    let nearest = differences.into_iter().min_by_key(Vec::len).unwrap_or_default();
    panic!("no two of {ROUNDS} runs agree; the nearest:\n{}", nearest.join("\n"));
}

/// Output and status are the same.
#[track_caller]
pub fn assert_same_end(run: &TestRun, other: &TestRun) {
    assert_eq!((run.status, &run.stdout), (other.status, &other.stdout), "{:?}", run.lost());
}

#[track_caller]
pub fn assert_same_counts(counts: &[ProcessCounts], expected: &[ProcessCounts]) {
    if let Some(failed) = expected.iter().find_map(|process| process.counts.as_ref().err()) {
        panic!("the stepper failed: {failed}");
    }
    let differences = differences_of(counts, expected);
    assert!(differences.is_empty(), "software PMU and stepper differ:\n{}", differences.join("\n"));
    let instructions: u64 =
        expected.iter().map(|process| process.count(ExecutionEvent::Instructions).unwrap()).sum();
    assert!(instructions > 50, "nothing to compare: {instructions} instructions");
}

fn differences_of(counts: &[ProcessCounts], expected: &[ProcessCounts]) -> Vec<String> {
    let (counts, expected) = (in_order(counts), in_order(expected));
    if counts.len() != expected.len() {
        return vec![format!("{} processes, not {}", counts.len(), expected.len())];
    }
    let pairs = counts.iter().zip(&expected).enumerate();
    pairs.flat_map(|(i, (process, expected))| differences(i, process, expected)).collect()
}

/// Ids differ from run to run: by what they executed.
fn in_order(counts: &[ProcessCounts]) -> Vec<&ProcessCounts> {
    let mut counts: Vec<&ProcessCounts> = counts.iter().collect();
    counts.sort_by_key(|process| (process.name.clone(), process.count(ExecutionEvent::Instructions).ok()));
    counts
}

fn differences(i: usize, process: &ProcessCounts, expected: &ProcessCounts) -> Vec<String> {
    if let Err(reason) = &process.counts {
        return vec![format!("{i} {}: lost: {reason}", process.name)];
    }
    let differ = |event: &&ExecutionEvent| match (process.count(**event), expected.count(**event)) {
        (Ok(count), Ok(expected)) => count != expected,
        (Err(_), Err(_)) => false,
        _ => true,
    };
    let line = |event: &ExecutionEvent| {
        format!(
            "{i} {}: {event}: {:?}, not {:?}",
            expected.name,
            process.count(*event),
            expected.count(*event)
        )
    };
    ExecutionEvent::ALL.iter().filter(differ).map(line).collect()
}

/// Every count is lost, for a reason that contains these words.
#[track_caller]
pub fn assert_lost(process: &ProcessCounts, words: &str) {
    match &process.counts {
        Err(reason) => assert!(reason.contains(words), "{reason:?} does not say {words:?}"),
        Ok(_) => panic!("counted: {:?} instructions", process.count(ExecutionEvent::Instructions)),
    }
}
