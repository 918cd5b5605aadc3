//! Files of code that a process could write.
//!
//! A private mapping shows writes to its file, as long as the page was not written through the mapping. The
//! code would change, and no call on the mapping would show it. So code is not taken from a file that the
//! process has open for writing. A process that executes a file is detached when a process opens that file
//! for writing. Processes that are not followed are not seen.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::pack::{ChunkReader, ChunkWriter};

/// A file, by its device and number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct FileId {
    device: (u32, u32),
    inode: u64,
}

impl FileId {
    /// Parses a line of a list of mappings: the device as `major:minor`, in hexadecimal, and the inode.
    /// `None` without a file.
    ///
    /// # Source
    ///
    /// `proc(5)`, `/proc/pid/maps`.
    pub(crate) fn parse(device: &str, inode: &str) -> Option<FileId> {
        let (major, minor) = device.split_once(':')?;
        let hex = |text| u32::from_str_radix(text, 16).ok();
        let inode = inode.parse().ok().filter(|inode| *inode != 0)?;
        Some(FileId { device: (hex(major)?, hex(minor)?), inode })
    }

    pub(crate) fn at(path: impl AsRef<Path>) -> Option<FileId> {
        loop {
            match fs::metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                found => return Some(FileId::of(&found.ok()?)),
            }
        }
    }

    /// A file that there may be.
    pub(crate) fn pack(file: Option<FileId>, to: &mut ChunkWriter<'_>) {
        let (major, minor) = file.map_or((0, 0), |file| file.device);
        to.u32(major);
        to.u32(minor);
        to.u64(file.map_or(0, |file| file.inode));
    }

    pub(crate) fn unpack(from: &mut ChunkReader<'_>) -> Option<Option<FileId>> {
        let (device, inode) = ((from.u32()?, from.u32()?), from.u64()?);
        Some((inode != 0).then_some(FileId { device, inode }))
    }

    /// The identity in the metadata of a file.
    pub(crate) fn of(metadata: &fs::Metadata) -> FileId {
        FileId { device: numbers(metadata.dev()), inode: metadata.ino() }
    }
}

/// The two numbers of a device.
///
/// # Source
///
/// `makedev(3)`; glibc `bits/sysmacros.h`.
fn numbers(device: u64) -> (u32, u32) {
    let major = (device >> 8 & 0xfff) | (device >> 32 & 0xffff_f000);
    let minor = (device & 0xff) | (device >> 12 & 0xffff_ff00);
    (major as u32, minor as u32)
}

/// The files that a process has open for writing.
pub(crate) fn open_for_writing(pid: u32) -> HashSet<FileId> {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return HashSet::new() };
    let links = descriptors.flatten().map(|descriptor| descriptor.path());
    links.filter(|link| is_for_writing(link)).filter_map(FileId::at).collect()
}

/// Whether a descriptor is open for writing, by its link.
///
/// # Source
///
/// `proc(5)`, `/proc/pid/fd`: the owner's permission to write of a link itself.
pub(super) fn is_for_writing(link: &Path) -> bool {
    const OWNER_WRITES: u32 = 0o200;
    fs::symlink_metadata(link).is_ok_and(|metadata| metadata.mode() & OWNER_WRITES != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_those_of_the_list_of_mappings() {
        let file = FileId::parse("fe:1a0", "77").unwrap();
        assert_eq!(file, FileId { device: (0xfe, 0x1a0), inode: 77 });
        assert_eq!(FileId::parse("00:00", "0"), None);
        assert_eq!(FileId::parse("fe", "1"), None);
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let own = std::env::current_exe().unwrap();
        let line = maps.lines().find(|line| line.ends_with(&*own.to_string_lossy())).unwrap();
        let fields: Vec<&str> = line.split(' ').collect();
        assert_eq!(FileId::parse(fields[3], fields[4]), FileId::at(own));
    }

    #[test]
    fn devices_are_split_as_the_c_library_does() {
        assert_eq!(numbers(0xfe01), (0xfe, 1));
        assert_eq!(numbers(0x0010_0abc), (0xa, 0x1bc));
    }

    #[test]
    fn only_what_is_open_for_writing_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let written = fs::File::create(&path).unwrap();
        let file = FileId::at(&path).unwrap();
        assert!(open_for_writing(std::process::id()).contains(&file));
        drop(written);
        let _read = fs::File::open(&path).unwrap();
        assert!(!open_for_writing(std::process::id()).contains(&file));
    }
}
