//! `--check-output`: whether all runs of all commands write the same.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use cyclometer_toolkit::{Error, Recovery, Result};

use crate::failure;

/// The outputs of runs, each written to one file and compared with the first.
///
/// They lie in a folder of our own below the folder for temporary files, which goes away with this.
#[derive(Debug)]
pub struct Outputs {
    folder: PathBuf,
    /// The arm whose output came first.
    first: Option<usize>,
    /// The first difference between outputs, if there is one.
    difference: Option<String>,
}

impl Outputs {
    /// Makes the folder.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Io` where it cannot be made.
    pub fn new() -> Result<Outputs> {
        let parent = std::env::temp_dir();
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for attempt in 0..100 {
            let folder = parent.join(format!("cyclometer-{}-{attempt}", std::process::id()));
            match private_folder(&folder) {
                Ok(()) => return Ok(Outputs { folder, first: None, difference: None }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(cannot("make", &folder, error)),
            }
        }
        Err(cannot("make a folder in", &parent, last))
    }

    /// Where the commands' output is to go.
    pub fn file(&self) -> PathBuf {
        self.folder.join("output")
    }

    fn expected(&self) -> PathBuf {
        self.folder.join("expected")
    }

    /// Compares the output of a run that has just ended with the first; returns how it differs.
    pub fn check(&mut self, arm: usize, run: u32) -> Option<String> {
        let found = match self.first {
            None => {
                self.first = Some(arm);
                fs::rename(self.file(), self.expected()).map(|()| None)
            }
            Some(_) => first_difference(&self.expected(), &self.file()),
        };
        let first = self.first.unwrap_or(arm);
        let difference = match found {
            Ok(None) => return None,
            Ok(Some(at)) if first == arm => {
                format!(
                    "the output of command {} is not the same in every run: run {} differs from the first at byte {}",
                    arm + 1,
                    run + 1,
                    at + 1
                )
            }
            Ok(Some(at)) => {
                format!(
                    "the outputs of commands {} and {} differ, first at byte {}",
                    first + 1,
                    arm + 1,
                    at + 1
                )
            }
            Err(error) => {
                format!("the output of command {} cannot be read: {}", arm + 1, failure::reason(&error))
            }
        };
        self.difference = Some(difference.clone());
        Some(difference)
    }

    /// The first difference between outputs, if there is one.
    pub fn difference(&self) -> Option<&str> {
        self.difference.as_deref()
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        // Only a folder that another process uses can stay.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(unix)]
fn private_folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(path)
}

#[cfg(not(unix))]
fn private_folder(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}

/// Where two files differ first, counted from 0; `None` where they are the same.
fn first_difference(a: &Path, b: &Path) -> io::Result<Option<u64>> {
    let (mut a, mut b) = (BufReader::new(File::open(a)?).bytes(), BufReader::new(File::open(b)?).bytes());
    let mut at = 0;
    loop {
        match (a.next().transpose()?, b.next().transpose()?) {
            (None, None) => return Ok(None),
            (a, b) if a == b => at += 1,
            _ => return Ok(Some(at)),
        }
    }
}

fn cannot(what: &str, path: &Path, error: io::Error) -> Error {
    let path = crate::output::clean_os(path.as_os_str());
    failure::of_system(&format!("{what} {path}"), error)
        .with_recovery(Recovery::fix("name another folder in the variable TMPDIR"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_compared_byte_by_byte_and_nothing_is_left() {
        let mut outputs = Outputs::new().unwrap();
        let folder = outputs.folder.clone();
        let mut write = |arm, run, text: &str| {
            fs::write(outputs.file(), text).unwrap();
            outputs.check(arm, run)
        };
        assert_eq!(write(1, 0, "same\n"), None);
        assert_eq!(write(0, 0, "same\n"), None);
        assert_eq!(write(0, 1, "sane\n").unwrap(), "the outputs of commands 2 and 1 differ, first at byte 3");
        let again = write(1, 1, "same\nmore").unwrap();
        assert_eq!(
            again,
            "the output of command 2 is not the same in every run: run 2 differs from the first at byte 6"
        );
        assert!(outputs.difference().is_some() && folder.exists());
        drop(outputs);
        assert!(!folder.exists());
    }
}
