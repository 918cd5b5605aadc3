//! Limits of processes that read changed files.

use std::ffi::OsStr;
use std::process::Command;

/// The most address space, in KiB.
const MEMORY_KIB: &str = "2097152";

/// The most CPU time for a file, in s.
pub(crate) const CPU_S: u64 = 10;

/// The most time for a file, in s, also where a machine is busy: a process that waits for ever takes no CPU
/// time.
pub(crate) const WALL_S: u64 = 180;

/// A program whose memory is limited.
pub(crate) fn limited(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {MEMORY_KIB} && ulimit -c 0 && exec \"$@\""), "sh"]).arg(program);
    command
}

/// A program whose memory, CPU time and time are limited.
pub(crate) fn limited_in_time(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=1", &WALL_S.to_string(), "sh", "-c"]);
    command.arg(format!("ulimit -v {MEMORY_KIB} && ulimit -t {CPU_S} && ulimit -c 0 && exec \"$@\""));
    command.arg("sh").arg(program);
    command
}
