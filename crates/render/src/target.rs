//! The target of a measurement, in words.

use std::iter;

use cyclometer_toolkit::core::exec::CommandSpec;
use cyclometer_toolkit::core::{Report, Rung, Target};

use crate::Results;
use crate::text::{clean_os, shown_command};

/// Longest command or list of targets that is shown, in characters; exports have all of it.
const SHOWN_CHARS: usize = 300;

/// The command as it is shown.
pub fn command_text(command: &CommandSpec) -> String {
    let words = iter::once(command.program.as_os_str()).chain(command.args.iter().map(AsRef::as_ref));
    shortened(shown_command(words))
}

/// The beginning of a long text.
pub fn shortened(text: String) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The command's words, control characters and all, as far as they are Unicode.
pub fn command_words(report: &Report) -> Vec<String> {
    let command = report.command.iter();
    command
        .flat_map(|command| iter::once(&command.program).chain(&command.args))
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// The subject of a report: its target, or else its command; of a simulated machine that and its workload.
pub fn subject(results: &Results<'_>) -> String {
    let report = results.report;
    let command = report.command.as_ref().map(|command| match simulated(results) {
        Some(machine) => format!("workload {} on a {machine}", command_text(command)),
        None => command_text(command),
    });
    match (target_text(report.target.as_ref()), command) {
        (None, Some(command)) => command,
        (None, None) => "nothing".to_owned(),
        (Some(target), None) => target,
        (Some(target), Some(command)) => format!("{target} during {command}"),
    }
}

/// The name of the machine, where it is a simulated one.
fn simulated<'a>(results: &'a Results<'_>) -> Option<&'a str> {
    results.machine.ladder.state(Rung::Sim)?;
    results.machine.cpu.name.as_deref()
}

fn target_text(target: Option<&Target>) -> Option<String> {
    Some(match target? {
        Target::ThisThread => "this thread".to_owned(),
        Target::Thread(tid) => format!("thread {tid}"),
        Target::Process { pid, .. } => format!("process {pid}"),
        Target::Several(targets) => several_text(targets),
        Target::Cpus(cpus) if cpus.len() == 1 => format!("cpu {cpus}"),
        Target::Cpus(cpus) => format!("cpus {cpus}"),
        Target::Cgroup { path, .. } => format!("cgroup {}", clean_os(path.as_os_str())),
        _ => return None,
    })
}

/// `processes 12, 15`.
fn several_text(targets: &[Target]) -> String {
    let mut ids = Vec::new();
    let mut what = "processes";
    for target in targets {
        match target {
            Target::Process { pid, .. } => ids.push(pid.to_string()),
            Target::Thread(tid) => {
                what = "threads";
                ids.push(tid.to_string());
            }
            _ => {}
        }
    }
    shortened(format!("{what} {}", ids.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_is_shown_by_its_beginning() {
        let mut command = CommandSpec::new("echo");
        command.args.push("ä".repeat(1000).into());
        let text = command_text(&command);
        assert_eq!(text.chars().count(), SHOWN_CHARS + 1);
        assert!(text.starts_with("echo ä") && text.ends_with("ä…"));
    }

    #[test]
    fn many_targets_are_shown_by_the_first() {
        let targets: Vec<Target> = (1..=300).map(Target::Thread).collect();
        let text = several_text(&targets);
        assert_eq!(text.chars().count(), SHOWN_CHARS + 1);
        assert!(text.starts_with("threads 1, 2, 3, ") && text.ends_with('…'));
        assert_eq!(several_text(&targets[..2]), "threads 1, 2");
    }
}
