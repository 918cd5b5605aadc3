//! Support that the tests of all crates share.
//!
//! On Linux, a test program that names this crate starts with the default action of every signal
//! (`signals`).
#![allow(clippy::print_stderr, reason = "a test that cannot run says why")]

pub mod elf_program;
#[cfg(target_os = "linux")]
mod signals;

use std::io::Write as _;

/// Prints why a test does not run here, also to the file that `CYCLOMETER_SKIP_LOG` names.
///
/// `cargo xtask test` shows that file, because the test runner swallows the output of tests that pass.
pub fn skip(why: &str) {
    eprintln!("skipped: {why}");
    note(why);
}

/// The same for a test that needs a program to compare with.
///
/// # Panics
///
/// Panics where `CYCLOMETER_REQUIRE_PEERS` is set.
pub fn skip_without_peer(why: &str) {
    assert!(std::env::var_os("CYCLOMETER_REQUIRE_PEERS").is_none(), "{why}");
    skip(why);
}

/// Writes a line to the file that `CYCLOMETER_SKIP_LOG` names, for a test of which a part cannot run here.
pub fn note(text: &str) {
    let Some(log) = std::env::var_os("CYCLOMETER_SKIP_LOG") else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(log);
    // One write, so that the lines of test programs do not mix.
    let _ = file.and_then(|mut file| file.write_all(format!("{text}\n").as_bytes()));
}

/// A text on one line, however it was wrapped.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a program answers to `--version`.
pub fn has(tool: &str) -> bool {
    let out = std::process::Command::new(tool).arg("--version").output();
    out.is_ok_and(|out| out.status.success())
}

/// Writes a program or script that is executed at once.
///
/// A process of its own writes it: another test of this process may fork while a file is open for writing,
/// and the kernel executes no file that its child has open so ("text file busy").
///
/// # Panics
///
/// When it cannot be written.
pub fn executable(path: &std::path::Path, bytes: &[u8]) {
    let mut writer = std::process::Command::new("sh");
    writer
        .args(["-c", "cat > \"$1\" && chmod 755 \"$1\"", "sh"])
        .arg(path)
        .stdin(std::process::Stdio::piped());
    let mut writer = writer.spawn().unwrap_or_else(|error| panic!("sh: {error}"));
    let written = writer.stdin.take().map(|mut pipe| pipe.write_all(bytes));
    let ended = writer.wait();
    let is_done = matches!(written, Some(Ok(()))) && ended.as_ref().is_ok_and(|status| status.success());
    assert!(is_done, "{}: {written:?}, {ended:?}", path.display());
}
