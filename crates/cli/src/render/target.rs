//! What was measured, in words.

use std::iter;

use cyclometer::core::exec::CommandSpec;
use cyclometer::core::{Report, Target};

use crate::output::{clean_os, shown_command};

/// The command as it is shown.
pub fn command_text(command: &CommandSpec) -> String {
    shown_command(iter::once(command.program.as_os_str()).chain(command.args.iter().map(AsRef::as_ref)))
}

/// The command's words, control characters and all, as far as they are Unicode.
pub fn command_words(report: &Report) -> Vec<String> {
    let command = report.command.iter();
    command
        .flat_map(|command| iter::once(&command.program).chain(&command.args))
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// The subject of a report: its target, or else its command.
pub fn subject(report: &Report) -> String {
    let command = report.command.as_ref().map(command_text);
    match (target_text(report.target.as_ref()), command) {
        (None, Some(command)) => command,
        (None, None) => "nothing".to_owned(),
        (Some(target), None) => target,
        (Some(target), Some(command)) => format!("{target} during {command}"),
    }
}

fn target_text(target: Option<&Target>) -> Option<String> {
    Some(match target? {
        Target::ThisThread => "this thread".to_owned(),
        Target::Thread(tid) => format!("thread {tid}"),
        Target::Process { pid, .. } => format!("process {pid}"),
        Target::Cpus(cpus) if cpus.len() == 1 => format!("cpu {cpus}"),
        Target::Cpus(cpus) => format!("cpus {cpus}"),
        Target::Cgroup { path, .. } => format!("cgroup {}", clean_os(path.as_os_str())),
        _ => return None,
    })
}
