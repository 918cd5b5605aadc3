//! Folders that are made in, removed from or moved between watched folders, by inotify.
//!
//! # Source
//!
//! `inotify(7)`, `inotify_add_watch(2)`.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

/// A queue of changes of watched folders.
#[derive(Debug)]
pub struct FolderWatch(OwnedFd);

/// The number of a watched folder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WatchedFolder(i32);

/// A change of a watched folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FolderChange {
    /// A folder of this name is there now.
    Made(WatchedFolder, OsString),
    /// A folder in it is gone.
    Removed(WatchedFolder),
    /// The watched folder itself is gone; its number may be used again.
    Unwatched(WatchedFolder),
    /// Changes are missing: more came than the system keeps.
    Lost,
}

/// The changes that are asked for.
const CHANGES: u32 = libc::IN_CREATE
    | libc::IN_DELETE
    | libc::IN_MOVED_FROM
    | libc::IN_MOVED_TO
    | libc::IN_ONLYDIR
    | libc::IN_DONT_FOLLOW;

/// Room for changes: each has at most 16 bytes and a name of 256.
const ROOM: usize = 64 << 10;

/// The bytes of a change without its name: watch, mask, cookie, length of the name.
const HEAD: usize = 16;

impl FolderWatch {
    /// A queue that watches nothing yet.
    ///
    /// # Errors
    ///
    /// The operating system's: `EMFILE` where the user has too many queues.
    pub fn new() -> io::Result<FolderWatch> {
        // SAFETY: takes a number.
        let fd = unsafe { libc::inotify_init1(libc::IN_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call succeeded, so that the descriptor is new and nobody else's.
        Ok(FolderWatch(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Watches a folder. It has the same number again if it is watched already.
    ///
    /// # Errors
    ///
    /// The operating system's: `ENOSPC` where the user watches too many folders.
    pub fn add(&self, folder: &Path) -> io::Result<WatchedFolder> {
        let path = CString::new(folder.as_os_str().as_bytes())?;
        // SAFETY: reads a string that ends with a zero byte.
        let number = unsafe { libc::inotify_add_watch(self.0.as_raw_fd(), path.as_ptr(), CHANGES) };
        if number < 0 { Err(io::Error::last_os_error()) } else { Ok(WatchedFolder(number)) }
    }

    /// Waits for changes.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn wait(&self) -> io::Result<Vec<FolderChange>> {
        let mut room = vec![0_u8; ROOM];
        loop {
            // SAFETY: writes at most the length of `room` to it.
            let read = unsafe { libc::read(self.0.as_raw_fd(), room.as_mut_ptr().cast(), room.len()) };
            match usize::try_from(read) {
                Ok(read) => return Ok(changes(room.get(..read).unwrap_or_default())),
                Err(_) => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error => return Err(error),
                },
            }
        }
    }
}

/// The changes in what the system wrote; those of files are left out.
fn changes(mut bytes: &[u8]) -> Vec<FolderChange> {
    let mut found = Vec::new();
    while let Some((change, rest)) = next(bytes) {
        found.extend(change);
        bytes = rest;
    }
    found
}

fn next(bytes: &[u8]) -> Option<(Option<FolderChange>, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let word = |at: usize| Some(u32::from_ne_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let (folder, mask) = (WatchedFolder(word(0)?.cast_signed()), word(4)?);
    let (name, rest) = rest.split_at_checked(usize::try_from(word(12)?).ok()?)?;
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let is = |bits: u32| mask & bits != 0;
    let change = match is(libc::IN_ISDIR) {
        _ if is(libc::IN_Q_OVERFLOW) => Some(FolderChange::Lost),
        _ if is(libc::IN_IGNORED) => Some(FolderChange::Unwatched(folder)),
        true if is(libc::IN_CREATE | libc::IN_MOVED_TO) => {
            Some(FolderChange::Made(folder, OsString::from_vec(name.to_vec())))
        }
        true if is(libc::IN_DELETE | libc::IN_MOVED_FROM) => Some(FolderChange::Removed(folder)),
        _ => None,
    };
    Some((change, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn folders_that_come_and_go_are_told_and_files_are_not() {
        let root = tempfile::tempdir().unwrap();
        let watch = FolderWatch::new().unwrap();
        let top = watch.add(root.path()).unwrap();
        assert_eq!(watch.add(root.path()).unwrap(), top);
        fs::write(root.path().join("file"), "").unwrap();
        fs::create_dir(root.path().join("a")).unwrap();
        assert_eq!(watch.wait().unwrap(), [FolderChange::Made(top, "a".into())]);
        let below = watch.add(&root.path().join("a")).unwrap();
        fs::rename(root.path().join("a"), root.path().join("b")).unwrap();
        assert_eq!(watch.wait().unwrap(), [FolderChange::Removed(top), FolderChange::Made(top, "b".into())]);
        fs::remove_dir(root.path().join("b")).unwrap();
        let mut gone = watch.wait().unwrap();
        while !gone.contains(&FolderChange::Removed(top)) {
            gone.extend(watch.wait().unwrap());
        }
        assert!(gone.contains(&FolderChange::Unwatched(below)), "{gone:?}");
    }

    #[test]
    fn what_is_no_folder_cannot_be_watched() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink(root.path(), root.path().join("link")).unwrap();
        let watch = FolderWatch::new().unwrap();
        for name in ["file", "link", "gone"] {
            assert!(watch.add(&root.path().join(name)).is_err(), "{name}");
        }
    }

    #[test]
    fn a_cut_message_and_an_overflow_are_understood() {
        let mut bytes = [0_u8; 20];
        bytes[4..8].copy_from_slice(&libc::IN_Q_OVERFLOW.to_ne_bytes());
        assert_eq!(changes(&bytes), [FolderChange::Lost]);
        bytes[12] = 200;
        assert_eq!(changes(&bytes), []);
        assert_eq!(changes(&[]), []);
    }
}
