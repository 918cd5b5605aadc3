//! Targets that are commands: files that the command-line tool reads in code of its own.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use crate::limits::limited_in_time;
use crate::options::MutateOptions;
use crate::{MOST_FAULTS, changed, files, keep, write};

/// A command that reads a file.
pub(crate) struct CommandTarget {
    pub name: &'static str,
    pub reads: &'static str,
    /// Arguments, of which `FILE` is the changed file, and `FOLDER` its folder.
    arguments: &'static [&'static str],
    /// Whether the changed file is the standard input. It is cut to [`MOST_INPUT_BYTES`].
    is_input: bool,
    /// A program that the tool executes, which lies beside it.
    program: Option<&'static str>,
    /// Unchanged files in that folder, which come after the changed one.
    beside: usize,
}

/// The most bytes of standard input. A server answers each request, so more bytes are only more answers.
const MOST_INPUT_BYTES: usize = 16 << 10;

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
        is_input: false,
        program: None,
        beside: 0,
    },
    CommandTarget {
        name: "converted",
        reads: "recordings, as convert reads them",
        arguments: &["convert", "FILE", "--to", "csv"],
        is_input: false,
        program: None,
        beside: 0,
    },
    CommandTarget {
        name: "results",
        reads: "results of advise and of stat, as advise reads them",
        arguments: &["advise", "FILE"],
        is_input: false,
        program: None,
        beside: 0,
    },
    CommandTarget {
        name: "history",
        reads: "results of many runs, as advise --history reads them",
        arguments: &["advise", "--history", "FOLDER"],
        is_input: false,
        program: None,
        beside: 8,
    },
    CommandTarget {
        name: "mcp",
        reads: "messages of agents to the server, as mcp reads them",
        // No program lies below the folder, so no call of a tool runs one.
        arguments: &["mcp", "--allow", "FOLDER", "--timeout", "5"],
        is_input: true,
        program: Some("cyclometer-mcp"),
        beside: 0,
    },
];

/// Runs a target on all changes, on every CPU; gives the number of faults.
pub(crate) fn run(target: &CommandTarget, tool: &Path, options: &MutateOptions) -> Result<usize> {
    let tool = tool.canonicalize().with_context(|| tool.display().to_string())?;
    if let Some(program) = target.program.map(|name| tool.with_file_name(name)) {
        ensure!(program.is_file(), "{}: {} is missing; build it first", target.name, program.display());
    }
    let changes = CommandChanges {
        target,
        tool: &tool,
        options,
        files: files(target.name)?,
        next: AtomicU64::new(0),
        faults: AtomicUsize::new(0),
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(|| changes.work())).collect();
        running.into_iter().try_for_each(|worker| match worker.join() {
            Ok(ended) => ended,
            Err(_) => bail!("{}: a thread of this program panicked", target.name),
        })
    })?;
    Ok(changes.faults.into_inner())
}

/// The changes of a target that its threads share.
struct CommandChanges<'a> {
    target: &'a CommandTarget,
    tool: &'a Path,
    options: &'a MutateOptions,
    files: Vec<Vec<u8>>,
    next: AtomicU64,
    faults: AtomicUsize,
}

impl CommandChanges<'_> {
    /// Tries one change after the other.
    fn work(&self) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let others = self.files.iter().cycle().take(self.target.beside);
        for (number, other) in others.enumerate() {
            write(&folder.path().join(format!("b{number}.json")), other)?;
        }
        while self.faults.load(Ordering::Relaxed) < MOST_FAULTS {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.options.command_files {
                break;
            }
            self.one(number, folder.path())?;
        }
        Ok(())
    }

    fn one(&self, number: u64, folder: &Path) -> Result<()> {
        let CommandTarget { name, arguments, .. } = self.target;
        let mut bytes = changed(name, &self.files, self.options.seed, number);
        if self.target.is_input {
            bytes.truncate(MOST_INPUT_BYTES);
        }
        let path = folder.join("a.json");
        write(&path, &bytes)?;
        let argument = |argument: &&str| -> OsString {
            match *argument {
                "FILE" => path.clone().into(),
                "FOLDER" => folder.into(),
                word => word.into(),
            }
        };
        let mut command = limited_in_time(self.tool);
        command.args(arguments.iter().map(argument)).current_dir(folder);
        if self.target.is_input {
            command.stdin(File::open(&path).with_context(|| path.display().to_string())?);
        }
        let out = command.output().context("starting the tool")?;
        if let Some(why) = fault(&out) {
            keep(self.options, name, number, &bytes, &why)?;
            self.faults.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
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
