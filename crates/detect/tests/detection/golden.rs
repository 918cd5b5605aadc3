//! Every recorded machine, detected and compared with what was expected.
//!
//! `UPDATE_GOLDEN=1 cargo test -p cyclometer-detect --test detection` rewrites the expectations.

use crate::support::{describe, fixtures, golden, machine, names};
use cyclometer_detect::{FactRecorder, RecordedFacts, detect};

#[test]
fn every_recorded_machine_is_detected_as_expected() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = Vec::new();
    for name in names(&fixtures()) {
        let found = describe(&detect(&machine(&name)));
        let file = golden().join(format!("{name}.txt"));
        if update {
            std::fs::write(&file, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&file).unwrap_or_default();
        if found != expected {
            wrong.push(format!("{name}:\n{}", difference(&expected, &found)));
        }
    }
    assert!(wrong.is_empty(), "{}\nUPDATE_GOLDEN=1 accepts what was found", wrong.join("\n"));
}

/// The lines that are in one of the texts only.
fn difference(expected: &str, found: &str) -> String {
    let missing = expected.lines().filter(|line| !found.lines().any(|other| other == *line));
    let added = found.lines().filter(|line| !expected.lines().any(|other| other == *line));
    missing
        .map(|line| format!("- {line}"))
        .chain(added.map(|line| format!("+ {line}")))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn recordings_and_expectations_match_one_to_one() {
    assert_eq!(names(&fixtures()), names(&golden()));
}

#[test]
fn a_recording_of_a_replay_gives_the_same_machine() {
    for name in names(&fixtures()) {
        let source = machine(&name);
        let recorder = FactRecorder::new(&source);
        let first = detect(&recorder);
        let again = RecordedFacts::parse(&recorder.to_text(source.note())).unwrap();
        assert_eq!(detect(&again), first, "{name}");
    }
}

#[test]
fn recordings_say_whether_they_are_real_and_one_is() {
    let is_real = |name: &String| machine(name).note().starts_with("recorded:");
    let real: Vec<String> = names(&fixtures()).into_iter().filter(is_real).collect();
    assert!(real.contains(&"vm-without-vpmu".to_owned()), "{real:?}");
}
