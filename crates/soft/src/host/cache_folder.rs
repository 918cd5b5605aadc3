//! A folder with data for the next run. An unreadable folder is not an error: that run is slower.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::trusted_path;
use crate::translate::PAGE;

/// Do not follow a symbolic link.
///
/// # Source
///
/// Linux `include/uapi/asm-generic/fcntl.h`.
const O_NOFOLLOW: i32 = 0o400_000;

/// Do not wait for who writes to a pipe, and take no terminal.
///
/// # Source
///
/// As above.
pub(super) const O_NONBLOCK_NOCTTY: i32 = 0o4000 | 0o400;

/// The age of an unfinished file that is removed.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Bytes that are written at once.
const AT_ONCE: usize = 1 << 18;

/// A folder to which only this user can write.
pub(super) struct CacheFolder(PathBuf);

impl CacheFolder {
    /// Opens a folder, which is created if it is missing; `None` where it cannot be trusted. Nothing is
    /// created below a folder that is not.
    pub(super) fn open(path: &Path) -> Option<CacheFolder> {
        let path = std::path::absolute(path).ok()?;
        let existing = path.ancestors().find(|folder| fs::symlink_metadata(folder).is_ok())?;
        let mut folder = trusted_path::resolve(existing)?;
        for name in path.strip_prefix(existing).ok()?.components() {
            folder.push(name);
            // Another user can be first in a folder with the sticky bit, with a link for example.
            let _ = DirBuilder::new().mode(0o700).create(&folder);
            is_own_folder(&folder).then_some(())?;
        }
        (is_own_folder(&path) && is_own_folder(&folder)).then_some(CacheFolder(folder))
    }

    /// Opens a file to be read, if this user owns it. Returns its length in bytes, too.
    pub(super) fn read(&self, name: &str) -> Option<(File, u64)> {
        let path = self.0.join(name);
        let file =
            OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK_NOCTTY).open(path).ok()?;
        let metadata = file.metadata().ok().filter(|metadata| metadata.is_file() && is_ours(metadata))?;
        Some((file, metadata.len()))
    }

    /// Replaces a file at once: a reader sees the old file or the new one.
    ///
    /// # Errors
    ///
    /// The operating system's, or that of `write`: the old file stays.
    pub(super) fn replace(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        // Ids are the same in every container that may share the folder.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let new = self.0.join(format!("{name}.{}.{}", std::process::id(), now.as_nanos()));
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).custom_flags(O_NOFOLLOW).open(&new)?;
        let mut file = BufWriter::with_capacity(AT_ONCE, file);
        let written = write(&mut file).and_then(|()| file.flush());
        let replaced = written.and_then(|()| fs::rename(&new, self.0.join(name)));
        replaced.inspect_err(|_| drop(fs::remove_file(&new)))
    }

    /// Sets the time of a file's last use; without a file it does nothing.
    pub(super) fn date(&self, name: &str, time: SystemTime) {
        let file = OpenOptions::new().write(true).custom_flags(O_NOFOLLOW).open(self.0.join(name));
        let _ = file.and_then(|file| file.set_modified(time));
    }

    /// Removes a file. One that another process has removed meanwhile is no error.
    pub(super) fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.0.join(name));
    }

    /// Removes the oldest files where there are too many, or too many bytes of them. Unfinished files of
    /// killed processes are removed after a while. A file with a name that is not of the cache is never
    /// removed.
    pub(super) fn clear_out(&self, most_files: usize, most_bytes: u64) {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let dated = entries.filter(|entry| is_of_cache(&entry.file_name())).filter_map(|entry| {
            let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((metadata.mtime(), metadata.mtime_nsec(), entry.path(), metadata.len()))
        });
        let mut files: Vec<_> = dated.collect();
        files.sort_unstable();
        files.retain(|(_, _, path, _)| !is_abandoned(path) || fs::remove_file(path).is_err());
        let mut bytes = 0_u64;
        for (number, (_, _, path, len)) in files.into_iter().rev().enumerate() {
            bytes = bytes.saturating_add(len);
            if number >= most_files || bytes > most_bytes {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Whether a name is one of [`name_for`], or that of an unfinished file.
fn is_of_cache(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let (name, unfinished) = name.split_once('.').unwrap_or((name, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    name.len() == NAME
        && name.bytes().all(|byte| byte.is_ascii_hexdigit())
        && unfinished.split('.').all(is_digits)
}

/// Whether a file was not finished and not touched for long: only these have an extension.
fn is_abandoned(path: &Path) -> bool {
    let time = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
    path.extension().is_some() && time.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > ABANDONED))
}

/// Whether a path is a folder of this user, and no link to one.
fn is_own_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir() && is_ours(&metadata))
}

/// Whether this user owns it, and no other user can write to it.
fn is_ours(metadata: &fs::Metadata) -> bool {
    const OTHERS_WRITE: u32 = 0o022;
    metadata.uid() == cyclometer_sys::host::effective_uid() && metadata.mode() & OTHERS_WRITE == 0
}

/// A sum over the device, the number, the length, the modification time and the first page of a file, by
/// which a file that was replaced is noticed.
///
/// # Errors
///
/// The operating system's; `InvalidInput` for what is no regular file.
pub fn file_sum(path: &Path) -> io::Result<String> {
    let metadata = fs::metadata(path)?;
    Ok(format!("{}-{:x}-{:x}", name_of(path)?, metadata.dev(), metadata.ino()))
}

/// A name for the current content of a file: by its length, its time of change, and its first page, where
/// programs and libraries have their build id.
pub(super) fn name_of(path: &Path) -> io::Result<String> {
    // Only regular files are opened.
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK_NOCTTY).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut first = Vec::new();
    file.take(PAGE).read_to_end(&mut first)?;
    let stamp = [metadata.len(), metadata.mtime().cast_unsigned(), metadata.mtime_nsec().cast_unsigned()];
    let words: Vec<u8> = stamp.into_iter().flat_map(u64::to_le_bytes).chain(first).collect();
    Ok(name_for(&words))
}

/// Characters of a name.
const NAME: usize = 32;

/// A name for some bytes, of [`NAME`] hexadecimal digits. Different bytes may have one name: what is read by
/// it is compared.
pub(super) fn name_for(bytes: &[u8]) -> String {
    let (mut one, mut other) = (0xcbf2_9ce4_8422_2325_u64, 0x9ae1_6a3b_2f90_404f_u64);
    for byte in bytes {
        one = (one ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        other = (other.rotate_left(5) ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    format!("{one:016x}{other:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_missing_folder_is_created_with_those_above_it_for_this_user_alone() {
        let outer = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = outer.path().join("a/b/c");
        assert!(CacheFolder::open(&path).is_some() && CacheFolder::open(&path).is_some());
        let modes = ["a", "a/b", "a/b/c"]
            .map(|folder| fs::metadata(outer.path().join(folder)).unwrap().mode() & 0o7777);
        assert_eq!(modes, [0o700; 3]);
    }

    #[test]
    fn nothing_is_created_below_a_folder_or_behind_a_link_that_cannot_be_trusted() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let outer = tempfile::tempdir_in("/var/tmp").unwrap();
        let at = |path: &str| outer.path().join(path);
        for folder in ["open", "open/ours", "ours"] {
            fs::create_dir(at(folder)).unwrap();
        }
        fs::set_permissions(at("open"), fs::Permissions::from_mode(0o777)).unwrap();
        symlink(at("ours"), at("open/link")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        for path in ["open/new/deep", "open/ours/new", "open/link/new", "dangling/new", "dangling"] {
            assert!(CacheFolder::open(&at(path)).is_none(), "{path}");
        }
        assert_eq!((names(&at("open")), names(&at("ours"))), (vec!["link".into(), "ours".into()], vec![]));
        assert!(names(&at("open/ours")).is_empty() && !at("nowhere").exists());
    }

    #[test]
    fn the_oldest_files_go_where_they_are_too_many_or_too_long() {
        let outer = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = outer.path().join("folder");
        let folder = CacheFolder::open(&path).unwrap();
        let all = ["new", "middle", "old"].map(|text| name_for(text.as_bytes()));
        for (age, name) in all.iter().enumerate() {
            folder.replace(name, |file| file.write_all(&[0; 100])).unwrap();
            let file = File::options().write(true).open(path.join(name)).unwrap();
            file.set_modified(SystemTime::now() - std::time::Duration::from_secs(age as u64)).unwrap();
        }
        fs::create_dir(path.join("a folder")).unwrap();
        let left = |count: usize| {
            let mut left = all[..count].to_vec();
            left.push("a folder".to_owned());
            left.sort();
            left
        };
        folder.clear_out(3, 300);
        assert_eq!(names(&path), left(3));
        folder.clear_out(2, 300);
        assert_eq!(names(&path), left(2));
        folder.clear_out(2, 199);
        assert_eq!(names(&path), left(1));
    }

    #[test]
    fn unfinished_files_are_removed_after_a_while() {
        let outer = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = outer.path().join("folder");
        let folder = CacheFolder::open(&path).unwrap();
        let name = name_for(b"name");
        let [new, old] = [".12.34", ".12.35"].map(|end| name.clone() + end);
        for (name, hours) in [(&new, 0), (&old, 2), (&name, 2)] {
            folder.replace(name, |file| file.write_all(&[0; 100])).unwrap();
            folder.date(name, SystemTime::now() - Duration::from_secs(hours * 3600));
        }
        folder.clear_out(3, 300);
        assert_eq!(names(&path), [name, new]);
    }

    #[test]
    fn files_that_are_not_of_the_cache_are_never_removed() {
        let outer = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = outer.path().join("folder");
        let folder = CacheFolder::open(&path).unwrap();
        let name = name_for(b"name");
        let others =
            ["thesis.tex", "a.12.34", &name[1..], &format!("{name}.old"), &format!("{name}0"), "notes"]
                .map(str::to_owned);
        for other in &others {
            fs::write(path.join(other), "precious").unwrap();
            folder.date(other, SystemTime::now() - Duration::from_secs(365 * 24 * 3600));
        }
        folder.replace(&name, |file| file.write_all(&[0; 100])).unwrap();
        folder.clear_out(0, 0);
        let mut expected = others.to_vec();
        expected.sort();
        assert_eq!(names(&path), expected);
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_the_old_one() {
        let outer = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = outer.path().join("folder");
        let folder = CacheFolder::open(&path).unwrap();
        folder.replace("name", |file| file.write_all(b"old")).unwrap();
        let failed =
            folder.replace("name", |file| file.write_all(b"new").and(Err(io::ErrorKind::Other.into())));
        assert!(failed.is_err());
        assert_eq!(names(&path), ["name"]);
        let (mut file, len) = folder.read("name").unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), len), ("old", 3));
    }
}
