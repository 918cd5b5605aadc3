//! Where the loads run: folders, environment, and the comparison of what they left.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{FileTypeExt, MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::program::{CorpusProgram, LoadScale, User};
use crate::command::output;

/// The folder in which a load writes what is not compared.
pub(super) const ASIDE: &str = "aside";

/// Where programs are looked up, before the toolchain that builds us.
const SYSTEM: &str = "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin";

/// User and group of nobody. Source: Debian's `base-passwd`.
const NOBODY: u32 = 65534;

/// A folder for the whole corpus; removed when dropped.
#[derive(Debug)]
pub(super) struct CorpusFolder {
    root: PathBuf,
    path: OsString,
    port: u16,
    scale: LoadScale,
    is_root: bool,
}

impl CorpusFolder {
    pub(super) fn new(sources: &Path, scale: LoadScale) -> Result<CorpusFolder> {
        let root = std::env::temp_dir().join(format!("cyclometer-corpus-{}", std::process::id()));
        fs::create_dir(&root).with_context(|| root.display().to_string())?;
        let is_root = output("id", &["--user"])?.trim() == "0";
        let place = CorpusFolder { root, path: search_path(), port: free_port()?, scale, is_root };
        copy(sources, &place.shared())?;
        fs::write(place.shared().join("text"), text(scale.words()))?;
        Ok(place)
    }

    fn shared(&self) -> PathBuf {
        self.root.join("shared")
    }

    /// The input of the current row.
    pub(super) fn input(&self) -> PathBuf {
        self.root.join("row/input")
    }

    /// Where every run of the current row works: always the same path.
    pub(super) fn work(&self) -> PathBuf {
        self.root.join("row/work")
    }

    /// The files that the first native run left.
    pub(super) fn native(&self) -> PathBuf {
        self.root.join("row/native")
    }

    /// For `$TMPDIR` and `$HOME`.
    fn temporary(&self) -> PathBuf {
        self.root.join("row/tmp")
    }

    /// Where the streams of scripts and of the tool go, and its results.
    pub(super) fn logs(&self) -> PathBuf {
        self.root.join("row/logs")
    }

    /// A copy of the tool, where nobody may execute it, too.
    pub(super) fn tool(&self) -> PathBuf {
        self.root.join("cyclometer")
    }

    /// Copies the tool to where it is run.
    pub(super) fn take(&self, tool: &Path) -> Result<()> {
        fs::copy(tool, self.tool()).with_context(|| tool.display().to_string())?;
        Ok(())
    }

    /// Makes the folders of a row anew.
    pub(super) fn begin(&self, program: &CorpusProgram) -> Result<()> {
        let row = self.root.join("row");
        remove(&row)?;
        for folder in [&row, &self.input(), &self.temporary(), &self.logs()] {
            self.make(folder, program)?;
        }
        Ok(())
    }

    /// Fills the working folder with the input.
    pub(super) fn fresh(&self, program: &CorpusProgram) -> Result<()> {
        remove(&self.work())?;
        remove(&self.temporary())?;
        self.make(&self.temporary(), program)?;
        copy(&self.input(), &self.work())
    }

    /// Keeps the files of the first run for the comparison.
    pub(super) fn keep(&self) -> Result<()> {
        fs::rename(self.work(), self.native()).context("keeping what the native run left")
    }

    fn make(&self, folder: &Path, program: &CorpusProgram) -> Result<()> {
        fs::create_dir(folder).with_context(|| folder.display().to_string())?;
        if self.runs_as_nobody(program) {
            chown(folder, Some(NOBODY), Some(NOBODY))?;
        }
        Ok(())
    }

    fn runs_as_nobody(&self, program: &CorpusProgram) -> bool {
        self.is_root && program.user == User::NotRoot
    }

    /// A command with the corpus' environment, in a folder, as the row's user.
    pub(super) fn command(&self, argv: &[OsString], folder: &Path, program: &CorpusProgram) -> Command {
        let mut command = Command::new(argv.first().cloned().unwrap_or_default());
        command.args(argv.get(1..).unwrap_or_default()).current_dir(folder).env_clear();
        command.env("PATH", &self.path).env("LANG", "C.UTF-8").env("TZ", "UTC");
        command.env("HOME", self.temporary()).env("TMPDIR", self.temporary());
        command.env("SHARED", self.shared()).env("PORT", self.port.to_string());
        command.env("N", self.scale.turns().to_string());
        if self.runs_as_nobody(program) {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// Where a program is, by the corpus' search path.
    pub(super) fn find(&self, program: &str) -> Option<PathBuf> {
        std::env::split_paths(&self.path).map(|folder| folder.join(program)).find(|path| path.is_file())
    }
}

impl Drop for CorpusFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// The system's programs, those of PostgreSQL, which Debian puts elsewhere, and our own toolchain.
fn search_path() -> OsString {
    let mut path = OsString::from(SYSTEM);
    let mut versions: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).collect())
        .unwrap_or_default();
    versions.sort();
    let toolchain = output("rustc", &["--print", "sysroot"]).map(|root| Path::new(root.trim()).join("bin"));
    for folder in versions.into_iter().rev().take(1).chain(toolchain) {
        path.push(":");
        path.push(folder);
    }
    path
}

/// A port that nobody listens on at this moment.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("binding a port of the loopback")?;
    Ok(listener.local_addr()?.port())
}

/// Lines of random words; the same each time.
fn text(words: u32) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut text = String::new();
    for index in 1..=words {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let length = 2 + state % 8;
        // Few letters at the start, as in languages, so that words repeat.
        let letters = (0..length).map(|i| (state >> (8 + 5 * i) & if i < 2 { 7 } else { 15 }) as u8);
        text.extend(letters.map(|letter| char::from(b'a' + letter * 5 / 3)));
        text.push(if index % 10 == 0 { '\n' } else { ' ' });
    }
    text
}

/// Copies a folder or a file with modes and times.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp").arg("-a").arg("--").args([from, to]).status().context("starting cp")?;
    ensure!(status.success(), "cp -a {} {}: {status}", from.display(), to.display());
    Ok(())
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| folder.display().to_string())
        }
        _ => Ok(()),
    }
}

/// The differences between two folders, in words; empty when they are the same byte for byte. Names, kinds,
/// modes, contents and targets of links are compared; times and owners are not.
pub(super) fn differences(one: &Path, other: &Path) -> Result<String> {
    let mut found = String::new();
    compare(one, other, Path::new(""), &mut found)?;
    Ok(found)
}

fn compare(one: &Path, other: &Path, at: &Path, found: &mut String) -> Result<()> {
    for name in names(&one.join(at))?.union(&names(&other.join(at))?) {
        let at = at.join(name);
        if at == Path::new(ASIDE) {
            continue;
        }
        let pair = (one.join(&at), other.join(&at));
        match (fs::symlink_metadata(&pair.0), fs::symlink_metadata(&pair.1)) {
            (Ok(a), Ok(b)) if a.mode() != b.mode() => {
                let _ = write!(found, "{}: mode {:o} and {:o}; ", at.display(), a.mode(), b.mode());
            }
            (Ok(a), Ok(_)) if a.is_dir() => compare(one, other, &at, found)?,
            (Ok(a), Ok(_)) => {
                if let Some(difference) = difference(&a, &pair.0, &pair.1)? {
                    let _ = write!(found, "{}: {difference}; ", at.display());
                }
            }
            (Ok(_), Err(_)) => drop(write!(found, "{} is missing; ", at.display())),
            _ => drop(write!(found, "{} is there and should not be; ", at.display())),
        }
    }
    Ok(())
}

fn names(folder: &Path) -> Result<BTreeSet<OsString>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    entries.map(|entry| Ok(entry?.file_name())).collect()
}

/// Two things of the same kind that are no folders.
fn difference(metadata: &fs::Metadata, one: &Path, other: &Path) -> Result<Option<String>> {
    let kind = metadata.file_type();
    if kind.is_symlink() {
        let links = (fs::read_link(one)?, fs::read_link(other)?);
        return Ok((links.0 != links.1).then(|| format!("links to {links:?}")));
    }
    if kind.is_socket() || kind.is_fifo() {
        return Ok(None);
    }
    Ok(first_difference(one, other)?.map(|at| format!("differs from byte {at} on")))
}

/// Where the contents of two files begin to differ; the end of the shorter one counts.
fn first_difference(one: &Path, other: &Path) -> Result<Option<usize>> {
    let read = |path: &Path| fs::read(path).with_context(|| path.display().to_string());
    let (one, other) = (read(one)?, read(other)?);
    let common = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
    Ok((one != other).then_some(common))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn folders() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        for side in [&one, &other] {
            fs::create_dir_all(side.join("a/b")).unwrap();
            fs::write(side.join("a/b/file"), "same").unwrap();
            symlink("a/b/file", side.join("link")).unwrap();
        }
        (folder, one, other)
    }

    fn check(change: impl FnOnce(&Path), expected: &str) {
        let (_folder, one, other) = folders();
        change(&other);
        assert_eq!(differences(&one, &other).unwrap(), expected);
    }

    #[test]
    fn equal_folders_have_no_differences() {
        check(|_| {}, "");
    }

    #[test]
    fn every_kind_of_difference_is_found() {
        check(
            |other| fs::write(other.join("a/b/file"), "sane").unwrap(),
            "a/b/file: differs from byte 2 on; ",
        );
        check(
            |other| fs::write(other.join("a/b/file"), "sam").unwrap(),
            "a/b/file: differs from byte 3 on; ",
        );
        check(|other| fs::remove_file(other.join("a/b/file")).unwrap(), "a/b/file is missing; ");
        check(|other| fs::write(other.join("new"), "").unwrap(), "new is there and should not be; ");
        let mode = |other: &Path| {
            fs::set_permissions(other.join("a/b/file"), fs::Permissions::from_mode(0o600)).unwrap();
        };
        check(mode, "a/b/file: mode 100644 and 100600; ");
        let link = |other: &Path| {
            fs::remove_file(other.join("link")).unwrap();
            symlink("a", other.join("link")).unwrap();
        };
        check(link, "link: links to (\"a/b/file\", \"a\"); ");
    }

    #[test]
    fn what_lies_aside_is_not_compared() {
        let aside = |other: &Path| {
            fs::create_dir(other.join(ASIDE)).unwrap();
            fs::write(other.join("aside/times"), "1 s").unwrap();
        };
        check(aside, "");
    }

    #[test]
    fn the_text_is_the_same_each_time_and_has_lines_of_ten_words() {
        let made = text(100);
        assert_eq!(made, text(100));
        assert!(made.lines().all(|line| line.split(' ').count() == 10), "{made}");
        assert!(made.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b' ' | b'\n')), "{made}");
    }
}
