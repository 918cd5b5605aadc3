//! The identity of the file that a descriptor or a path names, and opening a file by its identity.
//!
//! A path such as `/proc/PID/fd/N` depends on how the mounted `/proc` numbers processes. Where `/proc`
//! belongs to another PID namespace, it names a file of an unrelated process. A file of another process is
//! therefore opened by `open_same`, which compares its [`FileIdentity`] before it opens anything, or by
//! `descriptor_of`, which needs no path.

#[cfg(target_os = "linux")]
mod linux;

use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::str::FromStr;

#[cfg(target_os = "linux")]
pub use linux::{descriptor_of, open_same};

/// The identity of an open file among all files of this system: its file system and its inode number.
///
/// Its text form is `DEVICE:INODE`, both in decimal.
///
/// # Source
///
/// `inode(7)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FileIdentity {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

impl FileIdentity {
    /// The identity of an open file.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn of(file: &File) -> io::Result<FileIdentity> {
        file.metadata().map(|metadata| FileIdentity::from(&metadata))
    }
}

impl From<&Metadata> for FileIdentity {
    fn from(metadata: &Metadata) -> FileIdentity {
        FileIdentity { device: metadata.dev(), inode: metadata.ino() }
    }
}

impl fmt::Display for FileIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.device, self.inode)
    }
}

impl FromStr for FileIdentity {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<FileIdentity> {
        let parse = |number: &str| number.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
        let (device, inode) = text.split_once(':').ok_or(io::ErrorKind::InvalidInput)?;
        Ok(FileIdentity { device: parse(device)?, inode: parse(inode)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_as_it_is_written() {
        let identity = FileIdentity { device: 1, inode: u64::MAX };
        assert_eq!(identity.to_string().parse::<FileIdentity>().unwrap(), identity);
        for text in ["", "1", "1:", ":1", "1:2:3", "-1:2", "1:18446744073709551616"] {
            assert!(text.parse::<FileIdentity>().is_err(), "{text}");
        }
    }
}
