//! `advise --history`: the run of a folder that is unlike the others.

use std::path::{Path, PathBuf};

use cyclometer_toolkit::advise::history::{History, HistoryError, HistoryRun, LEAST_RUNS};
use cyclometer_toolkit::{Error, ErrorKind, Recovery, Result};

use super::{AdviseArgs, file};
use crate::args::Cli;
use crate::exit;
use crate::failure::{FileUse, of_file};
use crate::output::{Channel, clean_os};
use crate::render::{advice, json};

/// Most files of a folder.
const MOST_FILES: usize = 10_000;

/// Judges a folder; gives the exit code.
///
/// # Errors
///
/// A folder or a file that cannot be read, and too few runs.
pub fn run(args: &AdviseArgs, cli: &Cli, folder: &Path) -> Result<u8> {
    let runs: Vec<HistoryRun> = files(folder)?.iter().map(|path| run_of(path)).collect::<Result<_>>()?;
    let history = History::new(runs).map_err(|error| refused(folder, &error))?;
    super::super::print(&match args.json {
        true => json::pretty(&advice::history_json(&history)),
        false => advice::history(&history, super::super::paint(cli, Channel::Out)),
    })?;
    Ok(exit::OK)
}

/// Extensions of files of runs: JSON, and recordings.
const EXTENSIONS: [&str; 2] = ["json", "cyc"];

/// The JSON files and recordings of a folder, by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| of_file("--history", FileUse::Read, folder, error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_run = |extension: &std::ffi::OsStr| EXTENSIONS.iter().any(|known| extension == *known);
        if path.extension().is_some_and(is_run) && path.is_file() {
            found.push(path);
        }
        if found.len() > MOST_FILES {
            let message = format!("{} has more than {MOST_FILES} files", clean_os(folder.as_os_str()));
            return Err(Error::new(ErrorKind::InvalidInput, message)
                .with_recovery(Recovery::fix("move older ones to another folder")));
        }
    }
    found.sort();
    Ok(found)
}

fn run_of(path: &Path) -> Result<HistoryRun> {
    let read = file::read(path)?;
    let mut run =
        HistoryRun { name: path.file_name().map(clean_os).unwrap_or_default(), ..HistoryRun::default() };
    for (name, fact) in read.facts.iter() {
        match &fact.value {
            Ok(value) => drop(run.values.insert(name.to_owned(), *value)),
            Err(_) => drop(run.lacking.insert(name.to_owned())),
        }
    }
    Ok(run)
}

fn refused(folder: &Path, error: &HistoryError) -> Error {
    let name = clean_os(folder.as_os_str());
    let (message, fix) = match error {
        HistoryError::TooFewRuns(runs) => (
            format!("{name} has {runs} runs, and {LEAST_RUNS} are needed to tell which is unlike the others"),
            "add more runs: cyclometer stat --export-json FOLDER/N.json -- COMMAND, or record -o FOLDER/N.cyc",
        ),
        HistoryError::NothingInCommon => (
            format!("the runs in {name} have no counter in common"),
            "measure all of them with the same events",
        ),
    };
    Error::new(ErrorKind::InvalidInput, message).with_recovery(Recovery::fix(fix))
}
