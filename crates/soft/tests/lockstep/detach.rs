//! The program can be detached at each instruction of translated code, and can enter it again.

use crate::instruction_pool::{InstructionPool, RandomSource};
use crate::lab::{LabCommand, LabOutcome, TranslationLab};
use crate::probes::{DetachAt, Reenter};
use crate::{programs, random};

/// How many instructions of a program are tried where not all are.
const POINTS: u64 = 60;

/// How many instructions of translated code a program executes.
fn looks(lab: &TranslationLab, command: LabCommand<'_>, native: &LabOutcome) -> u64 {
    let run = lab.translated(command, Some(|| DetachAt::new(u64::MAX)));
    assert_eq!(&run.outcome, native);
    run.notes.parse().unwrap()
}

/// Every so many of them that there are at most `points`, and all where they are few.
fn stride(all: u64, points: u64) -> usize {
    const FEW: u64 = 250;
    if all <= FEW { 1 } else { all.div_ceil(points) as usize }
}

/// Leaves for good at each instruction, or at so many of them.
#[track_caller]
fn leaves_everywhere(lab: &TranslationLab, name: &str, command: LabCommand<'_>, points: u64) {
    let native = lab.native(command).ended(name);
    let all = looks(lab, command, &native);
    assert!(all > 30, "{name}: {all}");
    for at in (1..=all).step_by(stride(all, points)) {
        let run = lab.translated(command, Some(move || DetachAt::new(at)));
        let lost: Vec<_> = run.counted.iter().map(|process| process.counts.as_ref().err()).collect();
        assert_eq!(run.outcome, native, "{name} left at {at} of {all}: {lost:?}");
        let lost = run.counted.iter().find_map(|process| process.counts.as_ref().err());
        let reason = lost.map(String::as_str).unwrap_or_default();
        let told = reason.starts_with("detached at 0x") && reason.ends_with("the program was told to");
        assert!(told, "{name} left at {at} of {all}: {reason:?}");
    }
}

/// Leaves and enters where a choice says so; gives the instructions of all processes.
#[track_caller]
fn reenters<F: FnMut(u64) -> bool + Clone + 'static>(
    lab: &TranslationLab,
    name: &str,
    command: LabCommand<'_>,
    native: &LabOutcome,
    choose: F,
) -> Vec<Result<u64, String>> {
    let run = lab.translated(command, Some(move || Reenter::new(choose)));
    assert_eq!(&run.outcome, native, "{name}: {}", run.notes);
    let count = |process: &cyclometer_soft::host::protocol::ProcessCounts| {
        process.count(cyclometer_soft::ExecutionEvent::Instructions)
    };
    run.counted.iter().map(count).collect()
}

#[track_caller]
fn reenters_everywhere(lab: &TranslationLab, name: &str, command: LabCommand<'_>, points: u64) {
    let native = lab.native(command).ended(name);
    let all = looks(lab, command, &native);
    let exact = reenters(lab, name, command, &native, |_| false);
    assert!(exact.iter().all(Result::is_ok), "{name}: {exact:?}");
    let always = reenters(lab, name, command, &native, |_| true);
    assert_eq!(always, exact, "{name}, entered again at every instruction");
    for at in (0..all).step_by(stride(all, points)) {
        let counts = reenters(lab, name, command, &native, move |seen| seen == at);
        assert_eq!(counts, exact, "{name}, entered again at {at} of {all}");
    }
}

#[test]
fn programs_run_on_natively_wherever_they_leave() {
    let Some(lab) = TranslationLab::open() else { return };
    for (name, program) in programs::all() {
        leaves_everywhere(&lab, name, LabCommand { program: program.path(), args: &[] }, POINTS);
    }
    let program = programs::signals();
    leaves_everywhere(&lab, "signals", LabCommand { program: program.path(), args: &[] }, u64::MAX);
}

#[test]
fn counts_are_exact_wherever_programs_leave_for_a_moment() {
    let Some(lab) = TranslationLab::open() else { return };
    for (name, program) in programs::all() {
        reenters_everywhere(&lab, name, LabCommand { program: program.path(), args: &[] }, POINTS);
    }
    let program = programs::signals();
    reenters_everywhere(&lab, "signals", LabCommand { program: program.path(), args: &[] }, u64::MAX);
}

#[test]
fn random_programs_leave_for_a_moment_anywhere() {
    let Some(lab) = TranslationLab::open() else { return };
    let pool = InstructionPool::new();
    for seed in 1000..1020 {
        let program = random::program(seed, &pool);
        let command = LabCommand { program: program.path(), args: &[] };
        let native = lab.native(command);
        let steps = lab.steps(command);
        let mut random = RandomSource(seed);
        for one_of in [1, 3, 20] {
            let mut random = RandomSource(random.word());
            let run = lab.translated(command, Some(move || Reenter::new(move |_| random.below(one_of) == 0)));
            assert_eq!(run.outcome, native, "seed {seed}, one of {one_of}: {}", run.notes);
            assert_eq!(run.instructions(), Ok(steps), "seed {seed}, one of {one_of}");
        }
    }
}

#[test]
#[ignore = "takes minutes: every instruction of every program"]
fn every_instruction_is_a_way_out() {
    let Some(lab) = TranslationLab::open() else { return };
    for (name, program) in programs::all() {
        let command = LabCommand { program: program.path(), args: &[] };
        leaves_everywhere(&lab, name, command, u64::MAX);
        reenters_everywhere(&lab, name, command, u64::MAX);
    }
    let pool = InstructionPool::new();
    for seed in 5000..5010 {
        let program = random::program(seed, &pool);
        let command = LabCommand { program: program.path(), args: &[] };
        leaves_everywhere(&lab, &format!("seed {seed}"), command, 300);
    }
    let command = LabCommand { program: std::path::Path::new("/bin/true"), args: &[] };
    leaves_everywhere(&lab, "true", command, 200);
}
