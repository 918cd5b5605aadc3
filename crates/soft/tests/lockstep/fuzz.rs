//! Random programs do the same under translation, and are counted exactly.

use crate::lab::{Command, Lab};
use crate::pool::Pool;
use crate::probes::LeaveAt;
use crate::random;

/// A number from the environment.
fn chosen(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn random_programs_do_the_same_under_translation() {
    let Some(lab) = Lab::open() else { return };
    let pool = Pool::new();
    assert!(pool.len() > 300, "{}", pool.len());
    let first = chosen("CYCLOMETER_FUZZ_SEED", 10_000);
    for seed in first..first + chosen("CYCLOMETER_FUZZ_PROGRAMS", 150) {
        check(&lab, &pool, seed);
    }
}

fn check(lab: &Lab, pool: &Pool, seed: u64) {
    let program = random::program(seed, pool);
    let command = Command { program: program.path(), args: &[] };
    let native = lab.native(command).ended(&format!("seed {seed}"));
    let steps = lab.steps(command);
    let run = lab.translated(command, None::<fn() -> LeaveAt>);
    let instructions = run.instructions();
    if run.outcome == native && instructions == Ok(steps) {
        return;
    }
    let same = run.outcome == native;
    let compared = lab.lockstep(command, u64::MAX);
    panic!(
        "seed {seed} (CYCLOMETER_FUZZ_SEED={seed} CYCLOMETER_FUZZ_PROGRAMS=1, {}): {instructions:?} of {steps} \
         instructions; {}; in lockstep: {}",
        program.keep(&format!("fuzz-{seed}")).display(),
        if same { "the output is the same" } else { "the output differs" },
        compared.notes
    );
}
