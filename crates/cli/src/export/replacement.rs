//! Gives a file new contents: all of them, or it stays as it was.
//!
//! The text goes to a new file in the same folder, which then takes the name (`rename(2)`). Where that would
//! change more than the contents, the file is written over, and its old contents are restored if that fails:
//!
//! - it has other names (hard links), which would keep the old contents;
//! - it belongs to another user or group, and we cannot give a new file to them;
//! - its folder takes no new file, or it is a mount point of its own, as a file in a container can be.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use super::Streamed;

/// How many names are tried for the new file.
const MOST_NAMES: u32 = 100;

/// Only we may read a new file before it has the permissions of the old one.
const PRIVATE: u32 = 0o600;

/// Replaces a regular file, or makes it.
///
/// # Errors
///
/// The operating system's; the file is then as it was.
///
/// A file that has to be written over gets its contents from memory, so that it is written at once.
pub(super) fn replace<T>(
    target: &Path,
    fill: impl FnOnce(&mut (dyn Write + Send)) -> Streamed<T>,
) -> Streamed<T> {
    let former = former(target)?;
    let Some(mut new) = Temporary::replacing(target, former.as_ref())? else {
        let mut text = Vec::new();
        let done = fill(&mut text)?;
        write_over(target, &text)?;
        return Ok(done);
    };
    let done = new.fill(fill)?;
    match new.rename_to(target) {
        Err(_) if former.is_some() => write_over(target, &fs::read(&new.path)?)?,
        renamed => renamed?,
    }
    Ok(done)
}

/// The file that is there.
fn former(target: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(target) {
        Ok(file) if file.is_file() => Ok(Some(file)),
        Ok(_) => Err(io::Error::other("it is no longer a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A new file, which goes away unless it takes its name.
struct Temporary {
    path: PathBuf,
    file: File,
    is_renamed: bool,
}

impl Temporary {
    /// Makes one that can take the place of `former`; `None` if that has to be written over.
    fn replacing(target: &Path, former: Option<&Metadata>) -> io::Result<Option<Temporary>> {
        match former {
            None => Temporary::beside(target, None).map(Some),
            Some(former) if former.nlink() > 1 => Ok(None),
            Some(former) => Ok(Temporary::beside(target, Some(former)).ok()),
        }
    }

    /// Makes one in the folder of `target`, with the owner and permissions of `former`.
    fn beside(target: &Path, former: Option<&Metadata>) -> io::Result<Temporary> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if former.is_some() {
            options.mode(PRIVATE);
        }
        let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
        for number in 0..MOST_NAMES {
            let name = format!(".cyclometer-{}-{number}.tmp", std::process::id());
            let path = target.with_file_name(name);
            match options.open(&path) {
                Ok(file) => {
                    let new = Temporary { path, file, is_renamed: false };
                    former.map_or(Ok(()), |former| new.resemble(former))?;
                    return Ok(new);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
                Err(error) => return Err(error),
            }
        }
        Err(taken)
    }

    fn resemble(&self, former: &Metadata) -> io::Result<()> {
        let own = self.file.metadata()?;
        if (own.uid(), own.gid()) != (former.uid(), former.gid()) {
            fchown(&self.file, Some(former.uid()), Some(former.gid()))?;
        }
        // Behind the owner, which takes the set-user-id bit away.
        self.file.set_permissions(former.permissions())
    }

    fn fill<T>(&mut self, fill: impl FnOnce(&mut (dyn Write + Send)) -> Streamed<T>) -> Streamed<T> {
        let mut file = BufWriter::new(&self.file);
        let done = fill(&mut file)?;
        file.flush()?;
        self.file.sync_all()?;
        Ok(done)
    }

    fn rename_to(&mut self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_renamed {
            // Only a file that cannot be removed stays.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Writes over a file that cannot be replaced.
fn write_over(target: &Path, text: &[u8]) -> io::Result<()> {
    // The path has no links; one that has come meanwhile is not followed.
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(target)?;
    let length = file.metadata()?.len();
    let mut former = Vec::new();
    (&file).take(text.len() as u64).read_to_end(&mut former)?;
    let written = file.write_all_at(text, 0).and_then(|()| file.sync_all());
    if written.is_err() {
        // The space is still allocated, so that this succeeds unless the disk is failing. The first error is
        // returned.
        let _ = file.write_all_at(&former, 0).and_then(|()| file.set_len(length));
        return written;
    }
    file.set_len(text.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn replace(target: &Path, text: &[u8]) -> Streamed<()> {
        super::replace(target, |out| Ok(out.write_all(text)?))
    }

    fn names(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn the_permissions_of_a_file_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for mode in [0o600, 0o644, 0o664, 0o755] {
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let before = fs::metadata(&path).unwrap();
            replace(&path, b"new").unwrap();
            let after = fs::metadata(&path).unwrap();
            assert_eq!(after.permissions().mode() & 0o7777, mode);
            assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
            assert_ne!(after.ino(), before.ino(), "it was written over");
        }
    }

    #[test]
    fn a_file_that_was_open_keeps_its_contents_for_its_readers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        let mut reader = File::open(&path).unwrap();
        replace(&path, b"new").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), fs::read_to_string(&path).unwrap().as_str()), ("old", "new"));
    }

    #[test]
    fn all_names_of_a_file_have_the_new_contents() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("file"), folder.path().join("other"));
        for text in ["longer than before", "short"] {
            fs::write(&path, "something old").unwrap();
            let _ = fs::remove_file(&other);
            fs::hard_link(&path, &other).unwrap();
            replace(&path, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&other).unwrap(), text);
        }
    }

    #[test]
    fn a_file_that_cannot_be_filled_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        drop(Temporary::beside(&path, None).unwrap());
        assert_eq!(names(folder.path()), 1);
        let taken = folder.path().join(format!(".cyclometer-{}-0.tmp", std::process::id()));
        fs::write(&taken, "of another process with our number").unwrap();
        replace(&path, b"new").unwrap();
        assert_eq!(names(folder.path()), 2);
        assert_eq!(fs::read_to_string(&taken).unwrap(), "of another process with our number");
    }

    #[test]
    fn what_has_become_a_link_or_a_folder_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = (folder.path().join("file"), folder.path().join("target"));
        fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        let over = |target: &Path, text: &[u8]| Ok(write_over(target, text)?);
        for write in [replace, over] {
            assert!(write(&path, b"new").is_err());
            assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
        }
        assert!(replace(folder.path(), b"new").is_err());
    }

    #[test]
    fn contents_that_could_not_be_made_leave_the_file_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("file"), folder.path().join("other"));
        let half = |out: &mut (dyn Write + Send)| -> Streamed<()> {
            out.write_all(b"half")?;
            Err(io::Error::other("no more").into())
        };
        assert!(super::replace(&path, half).is_err());
        assert_eq!(names(folder.path()), 0, "a new file is left");
        fs::write(&path, "old").unwrap();
        assert!(super::replace(&path, half).is_err());
        fs::hard_link(&path, &other).unwrap();
        assert!(super::replace(&path, half).is_err());
        assert_eq!(fs::read_to_string(&other).unwrap(), "old");
        assert_eq!(names(folder.path()), 2);
    }
}
