//! Changes of folders, which are watched on Linux alone.

use std::ffi::OsString;
use std::io;
use std::path::Path;

/// A queue of changes of watched folders; this system has none.
#[derive(Debug)]
pub struct FolderWatch(());

/// The number of a watched folder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WatchedFolder(());

/// A change of a watched folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FolderChange {
    /// A folder of this name is there now.
    Made(WatchedFolder, OsString),
    /// A folder in it is gone.
    Removed(WatchedFolder),
    /// The watched folder itself is gone.
    Unwatched(WatchedFolder),
    /// Changes are missing.
    Lost,
}

impl FolderWatch {
    /// Fails.
    ///
    /// # Errors
    ///
    /// `Unsupported`.
    pub fn new() -> io::Result<FolderWatch> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Fails.
    ///
    /// # Errors
    ///
    /// `Unsupported`.
    pub fn add(&self, _folder: &Path) -> io::Result<WatchedFolder> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Fails.
    ///
    /// # Errors
    ///
    /// `Unsupported`.
    pub fn wait(&self) -> io::Result<Vec<FolderChange>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
