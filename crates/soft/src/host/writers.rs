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

use cyclometer_sys::trace::{self, Registers};

use super::action::TaskAction;
use super::process::TaskMode;
use super::program_file::opened;
use super::remote_syscalls::number;
use super::tracer::{TraceError, Tracer};
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

/// Whether a file is about to be opened so that its bytes can change.
///
/// # Source
///
/// `open(2)`, `openat2(2)`, `creat(2)`, `truncate(2)`; Linux `include/uapi/asm-generic/fcntl.h`.
fn writes(tid: u32, registers: &Registers) -> bool {
    const O_ACCMODE: u64 = 3;
    const O_TRUNC: u64 = 0o1000;
    let flags = match registers.rax & 0xffff_ffff {
        number::OPEN => registers.rsi,
        number::OPENAT => registers.rdx,
        number::OPENAT2 => trace::peek(tid, registers.rdx).unwrap_or(0),
        _ => return true,
    };
    flags & O_ACCMODE != 0 || flags & O_TRUNC != 0
}

impl Tracer {
    /// A file is about to be opened; its path is at this address. If it may be written, every process that
    /// executes its code is detached. Returns what to do with this one instead of making the call.
    pub(super) fn handle_open_for_writing(
        &mut self,
        tid: u32,
        path: u64,
        registers: &Registers,
    ) -> Result<Option<TaskAction>, TraceError> {
        if !writes(tid, registers) {
            return Ok(None);
        }
        let relative = matches!(registers.rax & 0xffff_ffff, number::OPENAT | number::OPENAT2);
        let folder = relative.then_some(registers.rdi as u32 as i32);
        let Some(path) = opened(tid, folder, path) else { return Ok(None) };
        if is_memory(&path) {
            return Ok(Some(TaskAction::DetachAll("opens the memory of a process for writing")));
        }
        let Some(file) = FileId::at(&path) else { return Ok(None) };
        let executes = |tracer: &Tracer, other: &u32| {
            let assigned = tracer.tasks.get(other).map(|task| &task.mode);
            let Some(TaskMode::Translated(context) | TaskMode::Native(context)) = assigned else {
                return false;
            };
            context.maps.executes(file)
        };
        let reason = "executes a file that is opened for writing";
        let others = self.tasks.keys().copied().filter(|other| *other != tid && executes(self, other));
        let others: Vec<u32> = others.collect();
        others.into_iter().for_each(|other| self.request_detach(other, Some(reason.to_owned())));
        if executes(self, &tid) { Err(TraceError::Detach(reason.to_owned())) } else { Ok(None) }
    }
}

/// Whether a path names the memory of a process.
fn is_memory(path: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).ok().map(|metadata| metadata.dev());
    path.file_name().is_some_and(|name| name == "mem") && device(path) == device(Path::new("/proc"))
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
