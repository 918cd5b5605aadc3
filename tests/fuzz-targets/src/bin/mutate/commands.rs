//! Targets that are commands: files that the command-line tool reads in code of its own.

use std::path::Path;
use std::process::Output;

use anyhow::{Context, Result};

use crate::limits::limited_in_time;
use crate::options::MutateOptions;
use crate::{MOST_FAULTS, changed, files, keep, write};

/// A command that reads a file.
pub(crate) struct CommandTarget {
    pub name: &'static str,
    pub reads: &'static str,
    /// Arguments, of which `FILE` is the changed file.
    arguments: &'static [&'static str],
}

/// A command starts in some milliseconds, so these targets get a part of the changes.
const SHARE: u64 = 10;

/// Every command that reads foreign bytes in code of its own.
pub(crate) const TARGETS: &[CommandTarget] = &[
    CommandTarget {
        name: "baseline",
        reads: "baselines of three formats, as compare --baseline reads them",
        arguments: &[
            "compare",
            "--baseline",
            "FILE",
            "--any-machine",
            "--runs",
            "2",
            "--warmup",
            "0",
            "-e",
            "task-clock",
            "true",
        ],
    },
    CommandTarget {
        name: "converted",
        reads: "recordings, as convert reads them",
        arguments: &["convert", "FILE", "--to", "csv"],
    },
];

/// Runs a target on its part of the changes; gives the number of faults.
pub(crate) fn run(target: &CommandTarget, tool: &Path, options: &MutateOptions) -> Result<usize> {
    let tool = tool.canonicalize().with_context(|| tool.display().to_string())?;
    let name = target.name;
    let files = files(name)?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("file");
    let mut faults = 0;
    for number in 0..options.files.div_ceil(SHARE) {
        let bytes = changed(name, &files, options.seed, number);
        write(&path, &bytes)?;
        let mut command = limited_in_time(&tool);
        for argument in target.arguments {
            if *argument == "FILE" {
                command.arg(&path)
            } else {
                command.arg(argument)
            };
        }
        let out = command.current_dir(&folder).output().context("starting the tool")?;
        if let Some(why) = fault(&out) {
            keep(options, name, number, &bytes, &why)?;
            faults += 1;
        }
        if faults == MOST_FAULTS {
            break;
        }
    }
    Ok(faults)
}

/// Why the end of a command is a fault; an error of the tool is none.
fn fault(out: &Output) -> Option<String> {
    let message = String::from_utf8_lossy(&out.stderr);
    let ended = match out.status.code() {
        None | Some(101 | 124 | 134..=139 | 152) => true,
        Some(_) => message.contains("panicked at"),
    };
    ended.then(|| format!("{}: {}", out.status, message.lines().take(4).collect::<Vec<_>>().join(" / ")))
}
