//! The command line.

use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use cyclometer_fuzz_targets::{SELF_TEST, TARGETS};

use crate::commands;

const USAGE: &str = "usage: mutate [--files N] [--command-files N] [--seed S] [--tool FILE] [--keep DIR] [--list] [TARGET...]";

/// The options of a run.
pub(crate) struct MutateOptions {
    /// Changed files for each target.
    pub files: u64,
    /// Changed files for each target that is a command, of which each starts a process: as many by default.
    pub command_files: u64,
    pub seed: u64,
    /// The command-line tool, for targets that are commands.
    pub tool: Option<PathBuf>,
    /// The folder for files that break a promise.
    pub keep: PathBuf,
    names: Vec<String>,
}

/// A part of the changes of a target, for a process with limits.
pub(crate) struct ChildPart {
    pub name: String,
    pub seed: u64,
    pub begin: u64,
    pub end: u64,
    /// The file with the number of the change that is being tried.
    pub progress: PathBuf,
}

pub(crate) enum MutateRequest {
    All(MutateOptions),
    Child(ChildPart),
}

impl MutateOptions {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<MutateRequest> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut options = MutateOptions {
            files: 200,
            command_files: 200,
            seed: u64::from(now.subsec_nanos()),
            tool: None,
            keep: PathBuf::from("target/mutations"),
            names: Vec::new(),
        };
        let mut command_files = None;
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{argument} needs a value\n{USAGE}"));
            match argument.as_str() {
                "--files" => options.files = number(&value()?)?,
                "--command-files" => command_files = Some(number(&value()?)?),
                "--seed" => options.seed = number(&value()?)?,
                "--tool" => options.tool = Some(value()?.into()),
                "--keep" => options.keep = value()?.into(),
                "--list" => return list(),
                "--child" => {
                    let name = value()?;
                    let [seed, begin, end] = [number(&value()?)?, number(&value()?)?, number(&value()?)?];
                    let progress = value()?.into();
                    return Ok(MutateRequest::Child(ChildPart { name, seed, begin, end, progress }));
                }
                option if option.starts_with('-') => bail!("'{option}' is no option\n{USAGE}"),
                name if names().chain([SELF_TEST.name]).any(|known| known == name) => {
                    options.names.push(argument);
                }
                name => bail!("no target '{name}'; there are {}", names().collect::<Vec<_>>().join(", ")),
            }
        }
        options.command_files = command_files.unwrap_or(options.files);
        Ok(MutateRequest::All(options))
    }

    /// Whether a target is to run: all are, unless some are named.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names(name)
    }

    /// Whether a target is named.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.names.iter().any(|wanted| wanted == name)
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    TARGETS.iter().map(|target| target.name).chain(commands::TARGETS.iter().map(|target| target.name))
}

fn list() -> Result<MutateRequest> {
    bail!("the targets are {}", names().collect::<Vec<_>>().join(", "))
}

fn number(text: &str) -> Result<u64> {
    text.parse().with_context(|| format!("'{text}' is no whole number of 0 or more"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<MutateRequest> {
        MutateOptions::parse(arguments.iter().map(|argument| (*argument).to_owned()))
    }

    #[test]
    fn options_and_targets_mix() {
        let MutateRequest::All(options) = parsed(&["--files", "7", "machine", "--seed", "3"]).unwrap() else {
            panic!("it is no part")
        };
        assert_eq!((options.files, options.command_files, options.seed), (7, 7, 3));
        assert!(options.wants("machine") && !options.wants("events"));
    }

    #[test]
    fn mistakes_name_what_is_wrong() {
        for (arguments, words) in [
            (&["--files"][..], "--files needs a value"),
            (&["--files", "x"], "'x' is no whole number"),
            (&["--fast"], "'--fast' is no option"),
            (&["machines"], "no target 'machines'; there are events, "),
        ] {
            let error = parsed(arguments).err().unwrap().to_string();
            assert!(error.starts_with(words), "{error}");
        }
    }
}
