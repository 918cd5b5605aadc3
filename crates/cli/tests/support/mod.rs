//! Runs the program and reads its output.

#![allow(dead_code, unused_imports, reason = "each test binary uses a part")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::process::{Command, Output, Stdio};

use cyclometer_toolkit::recording::RecordedEvent;
use cyclometer_toolkit::{Modes, Provenance, Rung, Unit};
use serde_json::Value;

pub use cyclometer_test_support::{has, one_line, skip, skip_without_peer};

/// A hardware event of user mode, as a column of a recording.
pub fn recorded_event(name: &str) -> RecordedEvent {
    RecordedEvent {
        name: name.to_owned(),
        unit: Unit::Count,
        scale: 1.0,
        source: Some(Rung::Perf),
        provenance: Some(Provenance::Hardware),
        modes: Some(Modes::USER),
    }
}

/// The program, with an environment that does not colour its output.
pub fn cyclometer() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cyclometer"));
    command.env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Runs it with these arguments.
pub fn run(arguments: &[&str]) -> Output {
    cyclometer().args(arguments).output().unwrap()
}

/// Runs it with these arguments behind common ones.
pub fn run_with(common: &[&str], arguments: &[&str]) -> Output {
    run(&[common, arguments].concat())
}

/// The text of its standard output.
pub fn stdout(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// The text of its standard error.
pub fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// Both outputs.
pub fn text(out: &Output) -> String {
    stdout(out) + &stderr(out)
}

/// Both outputs without line breaks, as tables fold them.
pub fn unwrapped(out: &Output) -> String {
    one_line(&text(out))
}

/// The output of `doctor --json`.
pub fn machine(doctor: &Output) -> Value {
    serde_json::from_str(&stdout(doctor)).unwrap_or_else(|error| panic!("{error}: {doctor:?}"))
}

/// The state of the software PMU in the output of `doctor --json`.
pub fn soft_state(doctor: &Output) -> Value {
    let machine = machine(doctor);
    let mut sources = machine["ladder"].as_array().unwrap().iter();
    sources.find(|source| source["rung"] == "soft").unwrap().clone()
}

/// Whether the software PMU works here, as `doctor` says.
pub fn software_pmu_works() -> bool {
    let state = soft_state(&run(&["doctor", "--json"]));
    let works = state["works"] == "yes";
    if !works {
        skip(&format!("the software PMU does not work here: {}", state["causes"][0]["text"]));
    }
    works
}

/// Whether the software PMU works here, and no hardware PMU counts before it.
pub fn software_pmu_is_first() -> bool {
    let has_pmu = machine(&run(&["doctor", "--json"]))["perf"]["hardware"]["available"] == true;
    if has_pmu {
        skip("the hardware PMU counts here");
    }
    !has_pmu && software_pmu_works()
}

/// A committed schema.
pub fn schema(name: &str) -> jsonschema::Validator {
    let path = format!("{}/../../schemas/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap()
}
