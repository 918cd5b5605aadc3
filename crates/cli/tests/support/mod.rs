//! Running the program and reading what it said.

#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::process::{Command, Output, Stdio};

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

/// What it wrote to standard output.
pub fn stdout(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// What it wrote to standard error.
pub fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// A committed schema.
pub fn schema(name: &str) -> jsonschema::Validator {
    let path = format!("{}/../../schemas/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap()
}
