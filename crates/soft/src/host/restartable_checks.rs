//! Checks for restartable sequences: before a process gets a second thread, a handler or shared memory.
//!
//! The types are in [`restartable`](super::restartable).

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use cyclometer_sys::trace::{self, Registers};

use super::maps::{MemoryMapping, MemoryMaps};
use super::process::TracedProcess;
use super::remote_syscalls::number;
use super::restartable::{FilePart, OVERLAP, check, has_signature};
use super::syscalls::PROT_EXEC;
use super::trace_error::{TraceError, TraceResult};
use super::writers::is_for_writing;

/// Searches for restartable sequences. Parts of files without any are remembered for all processes.
#[derive(Default)]
pub(super) struct RestartableSearch {
    /// Parts of files that have no restartable sequences.
    pub(super) without: HashSet<FilePart>,
}

/// The action before a system call, by its effect on restartable sequences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SharingAction {
    /// The call shares no memory, nor brings code beside shared memory.
    None,
    /// The process is about to share memory with others: all of its code is searched.
    Search,
    /// The call brings a restartable sequence into a process that shares memory: it cannot be followed.
    Refuse,
}

/// Whether a system call gives a process memory that others can write to and that it can, now or by
/// `mprotect` later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NewSharing {
    Never,
    Always,
    /// If this descriptor of the process is open for writing.
    IfWritable(u64),
}

/// The code that a system call makes executable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NewCode {
    None,
    /// A part of the file of a descriptor, in bytes.
    OfFile {
        descriptor: u64,
        offset: u64,
        len: u64,
    },
    /// Memory between two addresses.
    OfMemory {
        start: u64,
        end: u64,
    },
}

/// A system call that is about to be made: its number and its arguments, in the kernel's order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct WatchedCall {
    number: u64,
    arguments: [u64; 6],
}

impl WatchedCall {
    fn of(registers: &Registers) -> WatchedCall {
        let Registers { rax, rdi, rsi, rdx, r10, r8, r9, .. } = *registers;
        WatchedCall { number: rax & 0xffff_ffff, arguments: [rdi, rsi, rdx, r10, r8, r9] }
    }
}

impl SharingAction {
    /// The action before a call of a task; `shares`: its process shares memory with others already.
    ///
    /// # Errors
    ///
    /// The mappings of the process cannot be read.
    pub(super) fn before(tid: u32, registers: &Registers, shares: bool) -> Result<SharingAction, TraceError> {
        let is_writable = |number: u64| is_for_writing(&descriptor(tid, number));
        SharingAction::of(WatchedCall::of(registers), shares, is_writable, |code| brings_signature(tid, code))
    }

    /// The action before a call, by answers about descriptors and code. Code is looked at only where the
    /// answer matters.
    fn of(
        call: WatchedCall,
        shares: bool,
        is_writable: impl FnOnce(u64) -> bool,
        brings_signature: impl FnOnce(NewCode) -> Result<bool, TraceError>,
    ) -> Result<SharingAction, TraceError> {
        let begins_to_share = match NewSharing::by(call) {
            NewSharing::Never => false,
            NewSharing::Always => true,
            NewSharing::IfWritable(descriptor) => is_writable(descriptor),
        };
        Ok(match NewCode::by(call) {
            _ if begins_to_share => SharingAction::Search,
            NewCode::None => SharingAction::None,
            code if shares && brings_signature(code)? => SharingAction::Refuse,
            NewCode::OfFile { .. } | NewCode::OfMemory { .. } => SharingAction::None,
        })
    }
}

impl NewSharing {
    /// # Source
    ///
    /// `mmap(2)`, `shmat(2)`; Linux `include/uapi/linux/mman.h`, `include/uapi/asm-generic/mman-common.h`,
    /// `include/uapi/linux/shm.h`.
    fn by(call: WatchedCall) -> NewSharing {
        const PROT_WRITE: u64 = 2;
        const MAP_SHARED: u64 = 1;
        const MAP_SHARED_VALIDATE: u64 = 3;
        const MAP_TYPE: u64 = 0xf;
        const SHM_RDONLY: u64 = 0o10_000;
        let [_, _, protection_or_flags, mapping_flags, descriptor, _] = call.arguments;
        match call.number {
            number::MMAP if ![MAP_SHARED, MAP_SHARED_VALIDATE].contains(&(mapping_flags & MAP_TYPE)) => {
                NewSharing::Never
            }
            number::MMAP if protection_or_flags & PROT_WRITE != 0 || mapping_flags & MAP_ANONYMOUS != 0 => {
                NewSharing::Always
            }
            number::MMAP => NewSharing::IfWritable(descriptor),
            number::SHMAT if protection_or_flags & SHM_RDONLY == 0 => NewSharing::Always,
            _ => NewSharing::Never,
        }
    }
}

impl NewCode {
    fn by(call: WatchedCall) -> NewCode {
        let [start, len, protection, mapping_flags, descriptor, offset] = call.arguments;
        match call.number {
            number::MMAP if protection & PROT_EXEC != 0 && mapping_flags & MAP_ANONYMOUS == 0 => {
                NewCode::OfFile { descriptor, offset, len }
            }
            number::MPROTECT | number::PKEY_MPROTECT if protection & PROT_EXEC != 0 => {
                NewCode::OfMemory { start, end: start.saturating_add(len) }
            }
            _ => NewCode::None,
        }
    }
}

impl RestartableSearch {
    /// Searches all code of a task's process for restartable sequences, once.
    ///
    /// # Errors
    ///
    /// The process has some, or its mappings cannot be read.
    pub(super) fn search(&mut self, process: &mut TracedProcess, tid: u32, beside: &str) -> TraceResult {
        if std::mem::replace(&mut process.no_restarts, true) {
            return Ok(());
        }
        let maps = MemoryMaps::read(tid)?;
        // Shared memory is not translated. The code cache itself is shared, and is not searched.
        for mapping in maps.code().filter(|mapping| !mapping.shared) {
            let part = part(tid, mapping);
            if part.is_none_or(|part| !self.without.contains(&part)) {
                check(tid, (mapping.start, mapping.end), beside)?;
                self.without.extend(part);
            }
        }
        Ok(())
    }
}

/// Whether new code of a process contains a restartable sequence. Code that cannot be read may contain one.
fn brings_signature(tid: u32, code: NewCode) -> Result<bool, TraceError> {
    match code {
        NewCode::None => Ok(false),
        NewCode::OfFile { descriptor: number, offset, len } => {
            let found = file_has_signature(&descriptor(tid, number), offset, len);
            Ok(found.unwrap_or_else(|error| error.kind() != io::ErrorKind::NotFound))
        }
        NewCode::OfMemory { start, end } => {
            let maps = MemoryMaps::read(tid)?;
            let mut mappings = maps.among(start, end);
            let read = |at, bytes: &mut [u8]| trace::read_memory(tid, at, bytes);
            // It may start in code that was mapped before, or end there.
            let (start, end) = (start.saturating_sub(OVERLAP), end.saturating_add(OVERLAP));
            Ok(mappings.any(|mapping| has_signature(mapping.start.max(start), mapping.end.min(end), read)))
        }
    }
}

/// Whether a part of a file, in bytes, contains a restartable sequence. Only regular files do: others cannot
/// be mapped, or are devices.
///
/// # Errors
///
/// The operating system's, as where the file may not be opened again.
fn file_has_signature(path: &Path, offset: u64, len: u64) -> io::Result<bool> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Ok(false);
    }
    let file = fs::File::open(path)?;
    let end = offset.saturating_add(len).min(metadata.len());
    Ok(has_signature(offset, end, |at, bytes| file.read_at(bytes, at)))
}

/// The link of a descriptor of a process.
fn descriptor(tid: u32, number: u64) -> PathBuf {
    PathBuf::from(format!("/proc/{tid}/fd/{}", number as u32 as i32))
}

const MAP_ANONYMOUS: u64 = 0x20;

/// The part of a file that a mapping shows; `None` also where its time of change is unknown.
fn part(tid: u32, mapping: &MemoryMapping) -> Option<FilePart> {
    let file = mapping.file.filter(|_| !mapping.writable)?;
    let metadata = fs::metadata(format!("/proc/{tid}/root{}", mapping.name)).ok()?;
    let changed = (metadata.ctime(), metadata.ctime_nsec());
    Some(FilePart { file, changed, offset: mapping.offset, len: mapping.end - mapping.start })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROT_READ: u64 = 1;
    const PROT_WRITE: u64 = 2;
    const MAP_SHARED: u64 = 1;
    const MAP_PRIVATE: u64 = 2;
    const SHM_RDONLY: u64 = 0o10_000;

    fn mmap(protection: u64, flags: u64) -> WatchedCall {
        WatchedCall { number: number::MMAP, arguments: [0, 0x2000, protection, flags, 4, 0x1000] }
    }

    fn shmat(flags: u64) -> WatchedCall {
        WatchedCall { number: number::SHMAT, arguments: [9, 0, flags, 0, 0, 0] }
    }

    fn protect(number: u64, protection: u64) -> WatchedCall {
        WatchedCall { number, arguments: [0x4000, 0x1000, protection, 0, 0, 0] }
    }

    /// The action of a call where descriptor 4 is open for writing, and code has no restartable sequence.
    fn action(call: WatchedCall, shares: bool) -> SharingAction {
        SharingAction::of(call, shares, |descriptor| descriptor == 4, |_| Ok(false)).unwrap()
    }

    #[test]
    fn memory_that_others_can_write_to_has_the_code_searched() {
        for call in [
            mmap(PROT_READ | PROT_WRITE, MAP_SHARED),
            mmap(PROT_READ, MAP_SHARED | MAP_ANONYMOUS),
            mmap(PROT_READ, MAP_SHARED),
            shmat(0),
        ] {
            assert_eq!(action(call, false), SharingAction::Search, "{call:?}");
            assert_eq!(action(call, true), SharingAction::Search, "{call:?}");
        }
    }

    #[test]
    fn memory_of_its_own_changes_nothing() {
        let read_only = |call| SharingAction::of(call, false, |_| false, |_| Ok(true)).unwrap();
        for call in [
            mmap(PROT_READ | PROT_WRITE, MAP_PRIVATE),
            mmap(PROT_READ, MAP_SHARED),
            shmat(SHM_RDONLY),
            WatchedCall { number: number::GETRLIMIT, ..mmap(PROT_READ, MAP_SHARED) },
        ] {
            assert_eq!(read_only(call), SharingAction::None, "{call:?}");
        }
    }

    #[test]
    fn code_is_looked_at_only_beside_shared_memory() {
        let code = mmap(PROT_READ | PROT_EXEC, MAP_PRIVATE);
        let looked = |shares| SharingAction::of(code, shares, |_| false, |_| Ok(true)).unwrap();
        assert_eq!((looked(false), looked(true)), (SharingAction::None, SharingAction::Refuse));
        assert_eq!(action(code, true), SharingAction::None, "it has no restartable sequence");
    }

    #[test]
    fn the_code_of_a_call_is_a_part_of_a_file_or_of_memory() {
        let file = NewCode::OfFile { descriptor: 4, offset: 0x1000, len: 0x2000 };
        assert_eq!(NewCode::by(mmap(PROT_EXEC, MAP_PRIVATE)), file);
        assert_eq!(NewCode::by(mmap(PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS)), NewCode::None);
        assert_eq!(NewCode::by(mmap(PROT_READ, MAP_PRIVATE)), NewCode::None);
        for call in [number::MPROTECT, number::PKEY_MPROTECT] {
            let memory = NewCode::OfMemory { start: 0x4000, end: 0x5000 };
            assert_eq!(NewCode::by(protect(call, PROT_EXEC | PROT_READ)), memory);
            assert_eq!(NewCode::by(protect(call, PROT_READ)), NewCode::None);
        }
    }

    #[test]
    fn an_error_of_reading_mappings_is_passed_on() {
        let code = mmap(PROT_EXEC, MAP_PRIVATE);
        let gone = SharingAction::of(code, true, |_| false, |_| Err(TraceError::Gone));
        assert!(matches!(gone, Err(TraceError::Gone)));
    }
}
