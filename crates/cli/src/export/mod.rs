//! Files that results are written to: tried before the command runs, written when it has run.
//!
//! A regular file is replaced as a whole: after a full disk or an early end it has its old contents. Devices,
//! pipes and descriptors that we were started with take the text as it is.

mod distinct;
mod replacement;

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use cyclometer_render::stream::{StreamError, Streamed};
use cyclometer_toolkit::core::{Error, ErrorKind, Recovery, Result};
use cyclometer_toolkit::{
    FileSizeSignalIgnored, InputStream, OutputStream, inherited_output, with_invoker_rights,
};

use crate::failure::{self, FileUse, of_file};
use crate::output::clean_os;

pub use distinct::NamedFiles;

/// The most links that are followed, as the kernel does (`path_resolution(7)`).
const MOST_LINKS: usize = 40;

/// Descriptor number of standard output.
const STDOUT: i32 = 1;

/// An option, and the file that it names for results.
pub type NamedResult<'a> = (&'static str, Option<&'a Path>);

/// Refuses results that would mix on standard output, and options that lead to one file, of which one would
/// lose what the other needs. `input` and `output` are the streams of the commands.
///
/// # Errors
///
/// Usage, naming the options.
pub fn check(
    results: &[NamedResult<'_>],
    tables: &[PathBuf],
    (input, output): (&InputStream, &OutputStream),
) -> Result<()> {
    let is_shown = |result: &&NamedResult<'_>| result.1.is_some_and(is_stdout);
    let on_stdout: Vec<&str> = results.iter().filter(is_shown).map(|(option, _)| *option).collect();
    if on_stdout.len() > 1 {
        let message = format!("only one of {} can go to standard output", on_stdout.join(", "));
        return Err(failure::usage(message, "give the others a file"));
    }
    if let ([option], OutputStream::Inherit) = (&on_stdout[..], output) {
        let message = format!("the command's output and that of {option} would mix on standard output");
        return Err(failure::usage(message, "add --output null, or write the results to a file"));
    }
    let files = tables.iter().fold(NamedFiles::default(), |files, path| files.read("--events", Some(path)));
    let files = results.iter().fold(files, |files, (option, path)| files.written(option, *path));
    files.streams(input, output).check()
}

/// A destination of results that has proved writable.
#[derive(Debug)]
pub struct Export {
    /// The option that names it.
    option: &'static str,
    /// As it was named.
    path: PathBuf,
    destination: Destination,
}

#[derive(Debug)]
enum Destination {
    /// Our standard output.
    Stdout,
    /// A device, or a copy of a descriptor that we were started with.
    Stream(File),
    /// A named pipe: opening it waits for a reader, so that is left for later.
    Pipe,
    /// A regular file, or one to be made, by its path without links.
    File(PathBuf),
}

/// A destination of contents that are written while the command runs.
#[derive(Debug)]
pub enum LiveDestination {
    /// Standard output, a device, a pipe or an inherited descriptor.
    Stream(File),
    /// A regular file, or one to be made, by its path without links. It is not changed yet.
    File(PathBuf),
}

impl Export {
    /// Finds out where a path leads, without changing the file; `-` is standard output.
    ///
    /// Symbolic links are followed: their target is replaced, not they. Under sudo all this is done with the
    /// rights of the invoker, so that a path leads nowhere that the invoker could not write by other means.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Io` when it cannot be written.
    pub fn open(option: &'static str, path: &Path) -> Result<Export> {
        let found = with_invoker_rights(|| Destination::find(path)).and_then(|found| found);
        let destination = found.map_err(|error| of_file(option, FileUse::Written, path, error))?;
        Ok(Export { option, path: path.to_owned(), destination })
    }

    /// Whether it is standard output.
    pub fn is_stdout(&self) -> bool {
        matches!(self.destination, Destination::Stdout)
    }

    /// The destination for contents that are written while the command runs. A named pipe waits for its
    /// reader here.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Io`, naming the file.
    pub fn into_live(self) -> Result<LiveDestination> {
        let Export { option, path, destination } = self;
        let opened = match destination {
            Destination::File(file) => return Ok(LiveDestination::File(file)),
            Destination::Stdout => inherited_output(STDOUT).map(File::from),
            Destination::Stream(stream) => Ok(stream),
            Destination::Pipe => open_pipe(&path),
        };
        opened.map(LiveDestination::Stream).map_err(|error| of_file(option, FileUse::Written, &path, error))
    }

    /// Whether writing may wait for a reader, however long that takes.
    pub fn may_wait(&self) -> bool {
        matches!(self.destination, Destination::Pipe | Destination::Stream(_))
    }

    /// The current text of a regular file; `None` if there is no file, if it is not text, or if it is longer
    /// than `most_bytes`.
    pub fn former_text(&self, most_bytes: u64) -> Option<String> {
        let Destination::File(path) = &self.destination else { return None };
        let file = with_invoker_rights(|| File::open(path)).ok()?.ok()?;
        let is_short = file.metadata().is_ok_and(|file| file.len() <= most_bytes);
        let mut text = String::new();
        is_short.then(|| file.take(most_bytes).read_to_string(&mut text))?.ok()?;
        Some(text)
    }

    /// Replaces the contents of a file, or adds to a stream.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Io`, naming the file; a regular file is then as it was.
    pub fn write(self, text: &str) -> Result<()> {
        self.stream(|out| Ok(out.write_all(text.as_bytes())?)).map(|_| ())
    }

    /// The same with contents that are written piece by piece. `None`: the reader of a stream has gone away,
    /// which is not an error.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Io`, naming the file, and the error of contents that could not be made; a regular file is
    /// then as it was.
    pub fn stream<T>(self, fill: impl FnOnce(&mut (dyn Write + Send)) -> Streamed<T>) -> Result<Option<T>> {
        let Export { option, path, destination } = self;
        let cannot_write = |error| of_file(option, FileUse::Written, &path, error);
        // A limit of the size of files is an error as others are.
        let _ignored = FileSizeSignalIgnored::new().map_err(cannot_write)?;
        match destination {
            Destination::Stdout => {
                // Without a buffer of the library, which it would write once more at the exit.
                let stdout =
                    inherited_output(STDOUT).map(File::from).map_err(|error| cannot_print(&error))?;
                stream_to(stdout, fill).map_err(|error| error.named(|error| cannot_print(&error)))
            }
            Destination::Stream(stream) => stream_to(stream, fill).map_err(|error| error.named(cannot_write)),
            Destination::Pipe => {
                let pipe = open_pipe(&path).map_err(cannot_write)?;
                stream_to(pipe, fill).map_err(|error| error.named(cannot_write))
            }
            Destination::File(file) => {
                let replaced = with_invoker_rights(|| replacement::replace(&file, fill));
                let replaced = replaced.map_err(StreamError::from).and_then(|replaced| replaced);
                let failed = |error| with_state(&path, &file, cannot_write(error));
                replaced.map(Some).map_err(|error| error.named(failed))
            }
        }
    }
}

impl Destination {
    fn find(path: &Path) -> io::Result<Destination> {
        match descriptor_behind(path) {
            Some(STDOUT) => Ok(Destination::Stdout),
            Some(number) => Ok(Destination::Stream(inherited_output(number)?.into())),
            None if is_pipe(path) => Ok(Destination::Pipe),
            None => Destination::opened(path),
        }
    }

    /// The destination that a path leads to when it is opened for writing. The kernel decides whether we may
    /// follow the links on the way.
    fn opened(path: &Path) -> io::Result<Destination> {
        let (file, is_new) = open_file(path)?;
        let opened = file.metadata()?;
        if !opened.is_file() {
            return Ok(Destination::Stream(file));
        }
        let resolved = fs::canonicalize(path)?;
        if identity(&fs::symlink_metadata(&resolved)?) != identity(&opened) {
            return Err(io::Error::other("the path led to another file a moment later"));
        }
        if is_new {
            // It was made to see that it can be. Nothing is measured yet, so no file is to exist.
            fs::remove_file(&resolved)?;
        }
        Ok(Destination::File(resolved))
    }
}

/// Writes every export, even when another fails; the first failure is given back.
///
/// `unwatch` lets signals end us again, which are only noted before: it is called when files are written, and
/// before those that may wait for a reader.
pub fn write_all<'a>(
    all: impl IntoIterator<Item = (Export, String)>,
    unwatch: impl FnOnce() + 'a,
) -> Result<()> {
    let (waiting, files): (Vec<_>, Vec<_>) = all.into_iter().partition(|(export, _)| export.may_wait());
    let write = |(export, text): (Export, String)| export.write(&text);
    let mut written: Vec<Result<()>> = files.into_iter().map(write).collect();
    unwatch();
    written.extend(waiting.into_iter().map(write));
    written.into_iter().collect()
}

/// Whether a path means our standard output: `-`, or a name of the descriptor.
pub fn is_stdout(path: &Path) -> bool {
    descriptor_behind(path) == Some(STDOUT)
}

/// The descriptor of ours that a path names, itself or through links.
///
/// Opening such a name anew would begin a regular file from its start, and fails for sockets, so that the
/// descriptor itself is taken.
fn descriptor_behind(path: &Path) -> Option<i32> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        if let Some(number) = descriptor_named(&path) {
            return Some(number);
        }
        let target = fs::read_link(&path).ok()?;
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    None
}

fn descriptor_named(path: &Path) -> Option<i32> {
    let (folder, name) = (path.parent()?, path.file_name()?.to_str()?);
    // Paths are equal whatever slashes they repeat.
    let is_in = |other: &str| folder == Path::new(other);
    match name {
        "-" if is_in("") => Some(STDOUT),
        "stdout" if is_in("/dev") => Some(STDOUT),
        "stderr" if is_in("/dev") => Some(2),
        number if is_in("/dev/fd") || is_in("/proc/self/fd") => number.parse().ok(),
        _ => None,
    }
}

/// Opens a named pipe, which waits for its reader.
fn open_pipe(path: &Path) -> io::Result<File> {
    with_invoker_rights(|| OpenOptions::new().write(true).open(path)).and_then(|pipe| pipe)
}

fn is_pipe(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.file_type().is_fifo())
}

/// Opens the file of a path for writing, and returns whether this created it. Nothing in it is changed.
fn open_file(path: &Path) -> io::Result<(File, bool)> {
    // The first attempt follows no link, so that the file is certainly ours if it succeeds.
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => return Ok((file, true)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        // For a name with a slash at its end the kernel says so of folders that do not exist too.
        Err(error) if error.kind() == io::ErrorKind::IsADirectory && fs::symlink_metadata(path).is_err() => {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the path ends with / and no such folder exists",
            ));
        }
        Err(error) => return Err(error),
    }
    match OpenOptions::new().write(true).open(path) {
        // The path is a link whose target does not exist yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
            let is_empty = file.metadata()?.len() == 0;
            Ok((file, is_empty))
        }
        opened => Ok((opened?, false)),
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Writes to a stream; a reader that has gone away is not an error.
fn stream_to<T>(
    stream: impl Write + Send,
    fill: impl FnOnce(&mut (dyn Write + Send)) -> Streamed<T>,
) -> Streamed<Option<T>> {
    let mut stream = BufWriter::new(stream);
    let filled = fill(&mut stream);
    let written = filled.and_then(|done| Ok(stream.flush().map(|()| done)?));
    match written {
        Err(StreamError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(None),
        written => written.map(Some),
    }
}

/// The error of results that standard output did not take.
pub fn cannot_print(error: &io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot write to standard output: {}", failure::reason(error)))
        .with_recovery(Recovery::fix("redirect standard output to another file"))
}

/// The error with the state of the file that was to be replaced.
fn with_state(path: &Path, file: &Path, error: Error) -> Error {
    let name = clean_os(path.as_os_str());
    let state = if fs::symlink_metadata(file).is_ok() { "is unchanged" } else { "was not created" };
    let help = format!("{name} {state}; {}", error.recovery());
    error.with_recovery(Recovery::fix(help))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn an_export_that_is_not_written_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new.json");
        drop(Export::open("--export-json", &path).unwrap());
        assert!(!path.exists());
        fs::write(&path, "old").unwrap();
        drop(Export::open("--export-json", &path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_export_replaces_all_that_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        for (before, text) in [("something longer", "short"), ("", "longer than nothing")] {
            fs::write(&path, before).unwrap();
            Export::open("--export-json", &path).unwrap().write(text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "a temporary file is left");
    }

    #[test]
    fn the_target_of_a_link_is_replaced_and_the_link_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        let far = folder.path().join("link to the link");
        symlink("target", &link).unwrap();
        symlink(&link, &far).unwrap();
        for (path, text) in [(&link, "made through a dangling link"), (&far, "replaced"), (&link, "again")] {
            drop(Export::open("--export-json", path).unwrap());
            Export::open("--export-json", path).unwrap().write(text).unwrap();
            assert_eq!(fs::read_to_string(&target).unwrap(), text);
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
            assert!(fs::symlink_metadata(&far).unwrap().is_symlink());
        }
    }

    #[test]
    fn a_dangling_link_whose_export_is_not_written_still_dangles() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink("target", &link).unwrap();
        drop(Export::open("--export-json", &link).unwrap());
        assert!(!folder.path().join("target").exists() && link.is_symlink());
    }

    #[test]
    fn links_that_lead_to_each_other_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        symlink(&a, &b).unwrap();
        symlink(&b, &a).unwrap();
        let error = Export::open("--export-json", &a).unwrap_err().to_string();
        assert!(error.starts_with(&format!("--export-json: cannot write {}: ", a.display())), "{error}");
    }

    #[test]
    fn names_of_descriptors_are_known_and_those_of_files_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("log");
        symlink("/dev/stdout", &link).unwrap();
        for (path, expected) in [
            ("-", Some(1)),
            ("/dev/stdout", Some(1)),
            ("/dev/stderr", Some(2)),
            ("/dev//fd/63", Some(63)),
            ("/proc/self/fd/1", Some(1)),
            (link.to_str().unwrap(), Some(1)),
            ("./-", None),
            ("/dev/null", None),
            ("/dev/fd/x", None),
            ("stdout", None),
        ] {
            assert_eq!(descriptor_behind(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn a_device_takes_what_is_written_and_a_full_one_is_an_error() {
        Export::open("--export-json", Path::new("/dev/null")).unwrap().write("text").unwrap();
        if !Path::new("/dev/full").exists() {
            return;
        }
        let error = Export::open("--export-json", Path::new("/dev/full")).unwrap().write("text").unwrap_err();
        assert!(error.to_string().starts_with("--export-json: cannot write /dev/full: "), "{error}");
    }

    #[test]
    fn what_cannot_be_written_is_named_before_anything_runs() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let through_a_file = file.join("x.json");
        let slash = folder.path().join("new.json/");
        for path in
            [folder.path().to_owned(), folder.path().join("no/such/folder.json"), through_a_file, slash]
        {
            let error = Export::open("--export-json", &path).unwrap_err();
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
        let slash = Export::open("--export-json", &folder.path().join("new.json/")).unwrap_err().to_string();
        assert!(slash.ends_with("the path ends with / and no such folder exists"), "{slash}");
        let not_open = Export::open("--export-json", Path::new("/dev/fd/987")).unwrap_err();
        let expected = "--export-json: cannot write /dev/fd/987: descriptor 987 is not open";
        assert_eq!(not_open.to_string(), expected);
    }
}
