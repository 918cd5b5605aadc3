//! Files in which programs name the code that they make while they run.
//!
//! Any user can put a file of such a name into `/tmp`. So a file is read only if it belongs to the user who
//! runs the command, or to root, if no other user can write to it, and if it is no link. A file that is older
//! than the run is about another process that had the same id.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cyclometer_core::code::ProcessMemory;
use cyclometer_sys::host::effective_uid;
use cyclometer_sys::invoker::invoker;

/// The largest file that is read, in bytes.
const LARGEST: u64 = 256 << 20;

/// The time by which the clock of a file system may be late, in nanoseconds: a tick of the kernel.
const CLOCK_IS_LATE_NS: u64 = 20_000_000;

/// `O_NOFOLLOW`, `O_NONBLOCK`, `O_NOCTTY`: neither a link nor a pipe that nobody writes to.
///
/// # Source
///
/// Linux, `asm-generic/fcntl.h`, as on x86-64.
const NO_LINK_AND_NO_WAIT: i32 = 0o400_000 | 0o4000 | 0o400;

/// A file of names, and its content or why it is not read.
pub type NameFileContent = (PathBuf, Result<Vec<u8>, String>);

/// The files that name code which a process made, those that exist.
pub fn name_files(memory: ProcessMemory) -> Vec<NameFileContent> {
    let ProcessMemory { pid, since_ns } = memory;
    let paths = [format!("/tmp/perf-{pid}.map"), format!("/tmp/jit-{pid}.dump"), format!("jit-{pid}.dump")];
    let content = |path: String| match content(Path::new(&path), since_ns) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        content => Some((PathBuf::from(path), content.map_err(|error| error.to_string()))),
    };
    paths.into_iter().filter_map(content).collect()
}

fn content(path: &Path, since_ns: u64) -> io::Result<Vec<u8>> {
    let refused = |why: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    if std::fs::symlink_metadata(path)?.is_symlink() {
        return refused("it is a link");
    }
    let file = OpenOptions::new().read(true).custom_flags(NO_LINK_AND_NO_WAIT).open(path)?;
    let found = file.metadata()?;
    let invoker = invoker().ok().flatten().map(|(user, _)| user);
    let changed_ns = found.mtime().cast_unsigned().saturating_mul(1_000_000_000);
    let changed_ns = changed_ns.saturating_add(found.mtime_nsec().cast_unsigned());
    if !found.is_file() {
        return refused("it is no regular file");
    }
    if ![Some(effective_uid()), Some(0), invoker].contains(&Some(found.uid())) {
        return refused("it belongs to another user");
    }
    if found.mode() & 0o002 != 0 {
        return refused("every user can write to it");
    }
    if changed_ns.saturating_add(CLOCK_IS_LATE_NS) < since_ns {
        return refused("it is older than the run, and so about another process");
    }
    bounded(file, LARGEST)
}

/// The content of a file of at most so many bytes.
fn bounded(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.take(most + 1).read_to_end(&mut content)?;
    match content.len() as u64 <= most {
        true => Ok(content),
        false => Err(io::Error::other(format!("it has more than {} MB", most >> 20))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn why(path: &Path, since_ns: u64) -> String {
        content(path, since_ns).unwrap_err().to_string()
    }

    #[test]
    fn only_a_file_of_this_user_and_this_run_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("perf-1.map");
        fs::write(&path, "1000 10 f\n").unwrap();
        assert_eq!(content(&path, 0).unwrap(), b"1000 10 f\n");
        assert!(why(&path, u64::MAX).contains("older than the run"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(why(&path, 0).contains("every user can write"));
        let link = folder.path().join("perf-2.map");
        symlink(&path, &link).unwrap();
        assert!(why(&link, 0).contains("link"));
        assert!(why(folder.path(), 0).contains("no regular file"));
        assert_eq!(content(&folder.path().join("none"), 0).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_file_without_an_end_is_refused() {
        assert!(bounded(File::open("/dev/zero").unwrap(), 1 << 20).unwrap_err().to_string().contains("1 MB"));
    }
}
