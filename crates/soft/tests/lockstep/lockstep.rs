//! Every instruction of translated code has the effect of the program's own instruction.

use std::path::Path;

use cyclometer_soft::translate::RcxTest;

use crate::instruction_pool::InstructionPool;
use crate::lab::{LabCommand, TranslatedRun, TranslationLab};
use crate::programs;
use crate::random;

/// Steps of the twin, looks, and what is wrong.
#[track_caller]
fn verdict(run: &TranslatedRun) -> (u64, u64) {
    let mut words = run.notes.splitn(3, ' ');
    let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let numbers = (number(), number());
    let wrong = words.next().unwrap_or("nothing was compared");
    assert!(wrong.is_empty(), "{wrong}");
    numbers
}

#[track_caller]
fn whole(lab: &TranslationLab, name: &str, program: &Path) {
    let run = lab.lockstep(LabCommand { program, args: &[] }, u64::MAX);
    let (steps, looks) = verdict(&run);
    run.outcome.clone().ended(name);
    assert_eq!(run.instructions(), Ok(steps), "{name}");
    assert!(looks > steps, "{name}: {looks} looks at {steps} instructions");
}

#[test]
fn programs_written_by_hand_keep_step() {
    let Some(mut lab) = TranslationLab::open() else { return };
    for test in [RcxTest::Jrcxz, RcxTest::Loop] {
        lab.rcx_test = Some(test);
        for (name, program) in programs::all().iter().filter(|(name, _)| *name != "children") {
            whole(&lab, &format!("{name}, {test:?}"), program.path());
        }
    }
}

#[test]
fn handlers_of_signals_keep_step() {
    let Some(lab) = TranslationLab::open() else { return };
    let program = programs::signals();
    let run = lab.lockstep(LabCommand { program: program.path(), args: &[] }, u64::MAX);
    verdict(&run);
}

#[test]
fn random_programs_keep_step() {
    let Some(mut lab) = TranslationLab::open() else { return };
    let pool = InstructionPool::new();
    for seed in 1..=25 {
        let tests = [RcxTest::Jrcxz, RcxTest::Loop];
        lab.rcx_test = Some(tests[seed as usize % 2]);
        let program = random::program(seed, &pool);
        whole(&lab, &format!("seed {seed}"), program.path());
    }
}

#[test]
fn a_program_with_a_library_keeps_step() {
    let Some(lab) = TranslationLab::open() else { return };
    let command = LabCommand { program: Path::new("/bin/true"), args: &[] };
    let (steps, _) = verdict(&lab.lockstep(command, 60_000));
    assert!(steps > 10_000, "{steps}");
}
