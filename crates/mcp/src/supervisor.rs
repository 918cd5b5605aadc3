//! The supervisor of a call: a process that runs one command and leaves none of its processes behind.
//!
//! The server starts the supervisor with a pipe as its standard input. The supervisor adopts the orphans
//! among its descendants, runs the command, and kills what is left of its processes when the command ends or
//! when the pipe closes. The server closes the pipe to stop a call, and the kernel does so when the server
//! dies. So daemons, too, end with their call: they become children of the supervisor when their parent
//! exits.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use cyclometer_sys::process::{Reap, SIGKILL, adopt_orphans, has_ended, signal_group};

use crate::allowed::reason;
use crate::descendants;

/// The first argument of a supervisor; no user types it.
pub const WORD: &str = "--supervise-one-call";

/// The exit status where the command cannot be started.
pub const FAILURE: u8 = 125;

/// How long the supervisor waits for processes that it killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Held by the thread that ends the processes, so that the command's end and that of the pipe do not mix.
static ENDING: Mutex<()> = Mutex::new(());

/// Runs the command; returns its exit status as a shell does.
pub fn run(words: &[OsString]) -> u8 {
    // Elsewhere than on Linux, only the processes of the command's group are ended.
    let _ = adopt_orphans();
    let Some((program, args)) = words.split_first() else { return FAILURE };
    let spawned = Command::new(program).args(args).stdin(Stdio::null()).process_group(0).spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            say(&format!("cannot start {}: {}", program.display(), reason(&error)));
            return FAILURE;
        }
    };
    let group = child.id();
    std::thread::spawn(move || end_with_pipe(group));
    let _ = has_ended(group, Reap::Block);
    let _ending = ENDING.lock();
    // The group keeps its number until its leader is reaped.
    let _ = signal_group(group, SIGKILL);
    let status = child.wait();
    let left = descendants::kill_all(KILL_TIMEOUT);
    if left > 0 {
        say(&format!("{left} processes of the command could not be ended"));
    }
    status.map_or(FAILURE, exit_code)
}

/// Waits until the server closes the pipe, and ends everything.
fn end_with_pipe(group: u32) {
    let mut byte = [0];
    while std::io::stdin().read(&mut byte).is_ok_and(|read| read > 0) {}
    let _ending = ENDING.lock();
    let _ = signal_group(group, SIGKILL);
    descendants::kill_all(KILL_TIMEOUT);
    std::process::exit(i32::from(FAILURE));
}

fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "cyclometer-mcp: {text}");
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
