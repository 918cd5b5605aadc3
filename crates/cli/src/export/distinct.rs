//! Files that options and standard streams name: none is written by one and used by another.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use cyclometer_toolkit::core::Result;
use cyclometer_toolkit::{InputStream, OutputStream, with_invoker_rights};

use super::{MOST_LINKS, descriptor_behind, identity};
use crate::failure::usage;
use crate::output::clean_os;

/// The files of one invocation, with the options that name them.
#[derive(Debug, Default)]
pub struct NamedFiles {
    all: Vec<NamedFile>,
}

#[derive(Debug)]
struct NamedFile {
    /// The option, or the standard stream.
    name: &'static str,
    /// As it was named; a standard stream has none.
    path: Option<PathBuf>,
    location: Location,
    is_written: bool,
    /// The text goes to an open descriptor, whose file is not replaced.
    is_descriptor: bool,
}

/// Equal for two paths that lead to one file.
#[derive(PartialEq, Eq, Debug)]
enum Location {
    /// Device and inode of a file.
    Existing(u64, u64),
    /// Device and inode of a folder, and the name that a new file will have there.
    New(u64, u64, OsString),
}

impl NamedFiles {
    /// A file that results or the command's output go to.
    pub fn written(self, option: &'static str, path: Option<&Path>) -> NamedFiles {
        self.with(option, path, true)
    }

    /// A file that is read.
    pub fn read(self, option: &'static str, path: Option<&Path>) -> NamedFiles {
        self.with(option, path, false)
    }

    /// The streams of the commands, and our own, which they or the tables use.
    pub fn streams(self, input: &InputStream, output: &OutputStream) -> NamedFiles {
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let named = match input {
            InputStream::File(path) => self.read("--input", Some(path)),
            InputStream::Null => self,
            _ => self.standard("standard input", stdin.as_fd(), false),
        };
        let named = match output {
            OutputStream::File(path) => named.written("--output", Some(path)),
            _ => named,
        };
        named.standard("standard output", stdout.as_fd(), true).standard(
            "standard error",
            stderr.as_fd(),
            true,
        )
    }

    fn with(mut self, name: &'static str, path: Option<&Path>, is_written: bool) -> NamedFiles {
        let Some(path) = path else { return self };
        // Under sudo a path leads where it leads the invoker.
        let location = with_invoker_rights(|| Location::of(path)).ok().flatten();
        let is_descriptor = descriptor_behind(path).is_some();
        let path = Some(path.to_owned());
        self.all.extend(location.map(|location| NamedFile {
            name,
            path,
            location,
            is_written,
            is_descriptor,
        }));
        self
    }

    fn standard(mut self, name: &'static str, stream: BorrowedFd<'_>, is_written: bool) -> NamedFiles {
        let location = Location::of_descriptor(stream);
        self.all.extend(location.map(|location| NamedFile {
            name,
            path: None,
            location,
            is_written,
            is_descriptor: true,
        }));
        self
    }

    /// Refuses two names of one file, of which one is written: it would lose the contents of the other.
    ///
    /// # Errors
    ///
    /// Usage, naming both options and the file.
    pub fn check(&self) -> Result<()> {
        let pairs = self.all.iter().enumerate().flat_map(|(i, b)| self.all[..i].iter().map(move |a| (a, b)));
        let Some((a, b)) = pairs.into_iter().find(|(a, b)| a.clashes_with(b)) else { return Ok(()) };
        let path = b.path.as_ref().or(a.path.as_ref());
        let file = path.map(|path| clean_os(path.as_os_str())).unwrap_or_default();
        let what = if a.is_written && b.is_written { "both go to" } else { "are one file:" };
        let message = format!("{} and {} {what} {file}", a.name, b.name);
        Err(usage(message, "give each a file of its own"))
    }
}

impl NamedFile {
    fn clashes_with(&self, other: &NamedFile) -> bool {
        let is_shared_stream = self.is_descriptor && other.is_descriptor;
        let is_ours = self.path.is_none() || other.path.is_none();
        self.location == other.location
            && (self.is_written || other.is_written)
            && !(is_shared_stream && is_ours)
    }
}

impl Location {
    /// `None` for a device, which keeps no text, and for a path that leads nowhere.
    fn of(path: &Path) -> Option<Location> {
        if path.as_os_str() == "-" {
            return Location::of_descriptor(io::stdout().as_fd());
        }
        match fs::metadata(path) {
            Ok(file) => Location::existing(&file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Location::new(path),
            Err(_) => None,
        }
    }

    fn of_descriptor(stream: BorrowedFd<'_>) -> Option<Location> {
        let file = File::from(stream.try_clone_to_owned().ok()?);
        Location::existing(&file.metadata().ok()?)
    }

    fn existing(file: &Metadata) -> Option<Location> {
        let (device, inode) = identity(file);
        (!file.file_type().is_char_device()).then_some(Location::Existing(device, inode))
    }

    /// The location of a file that does not exist yet, through links that lead to it.
    fn new(path: &Path) -> Option<Location> {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new(".")).to_owned();
            match fs::read_link(&path) {
                Ok(target) => path = folder.join(target),
                Err(_) => {
                    let (device, inode) = identity(&fs::metadata(folder).ok()?);
                    return Some(Location::New(device, inode, path.file_name()?.to_owned()));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn verdict(written: [&Path; 2], read: Option<&Path>) -> std::result::Result<(), String> {
        let named = NamedFiles::default().written("--one", Some(written[0]));
        let named = named.written("--other", Some(written[1])).read("--input", read);
        named.check().map_err(|error| error.to_string())
    }

    #[test]
    fn two_spellings_of_one_file_are_refused_whether_it_exists_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("sub")).unwrap();
        fs::write(at("old"), "").unwrap();
        fs::hard_link(at("old"), at("hard")).unwrap();
        symlink("new", at("dangling")).unwrap();
        symlink("dangling", at("far")).unwrap();
        symlink(folder.path(), at("sub/up")).unwrap();
        for (one, other) in [
            ("new", "./new"),
            ("new", "sub/../new"),
            ("new", "dangling"),
            ("far", "new"),
            ("new", "sub/up/new"),
            ("old", "hard"),
            ("old", "sub/up/old"),
        ] {
            let expected = format!("--one and --other both go to {}", at(other).display());
            assert_eq!(verdict([&at(one), &at(other)], None), Err(expected), "{one} {other}");
        }
    }

    #[test]
    fn files_of_their_own_and_devices_are_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("sub")).unwrap();
        fs::write(at("old"), "").unwrap();
        for (one, other) in [("new", "newer"), ("new", "sub/new"), ("old", "new"), ("none/x", "none/x")] {
            assert_eq!(verdict([&at(one), &at(other)], None), Ok(()), "{one} {other}");
        }
        assert_eq!(verdict([Path::new("/dev/null"), Path::new("/dev/null")], None), Ok(()));
    }

    #[test]
    fn a_file_that_is_read_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let (input, other) = (folder.path().join("input"), folder.path().join("other"));
        fs::write(&input, "data").unwrap();
        let expected = format!("--other and --input are one file: {}", input.display());
        assert_eq!(verdict([&other, &input], Some(&input)), Err(expected));
        let twice = NamedFiles::default().read("--input", Some(&input)).read("--events", Some(&input));
        assert!(twice.check().is_ok(), "both read it");
    }
}
