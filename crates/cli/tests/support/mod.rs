//! Runs the program and reads its output.

#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::process::{Command, Output, Stdio};

/// The program, with an environment that does not colour its output.
pub fn cyclometer() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cyclometer"));
    command.env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Says why a test does not run here: to the terminal, and to the list that `cargo xtask test` shows.
#[allow(clippy::print_stderr, reason = "a skipped test says why")]
pub fn skip(why: &str) {
    use std::io::Write as _;
    eprintln!("skipped: {why}");
    if let Some(log) = std::env::var_os("CYCLOMETER_SKIP_LOG") {
        let list = std::fs::OpenOptions::new().append(true).create(true).open(log);
        let _ = list.and_then(|mut list| writeln!(list, "{why}"));
    }
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

/// A committed schema.
pub fn schema(name: &str) -> jsonschema::Validator {
    let path = format!("{}/../../schemas/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap()
}

/// Whether a signal was ignored before we began; our children inherit that.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let set = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| set & (1 << (signal - 1)) != 0)
}

/// The program where it hears a signal: jobs in the background ignore some, as `nohup` and shells arrange.
/// The env of GNU gives them their default actions back; `None` where it is needed and missing.
#[cfg(unix)]
pub fn hears(signal: i32) -> Option<Command> {
    if !is_ignored(signal) {
        return Some(cyclometer());
    }
    let mut env = Command::new("env");
    env.arg("--default-signal");
    let works = Command::new("env").args(["--default-signal", "true"]).output();
    if !works.is_ok_and(|out| out.status.success()) {
        skip(&format!("signal {signal} is ignored here, and env cannot change that"));
        return None;
    }
    let plain = cyclometer();
    env.arg(plain.get_program()).env("NO_COLOR", "1").stdin(Stdio::null());
    Some(env)
}
