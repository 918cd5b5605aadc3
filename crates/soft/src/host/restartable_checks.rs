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
use super::remote_syscalls::number;
use super::restartable::{FilePart, OVERLAP, SHARED, check, found, has_signature};
use super::syscalls::PROT_EXEC;
use super::trace_error::{TraceError, TraceResult};
use super::tracees::Tracees;
use super::writers::is_for_writing;

/// Searches for restartable sequences. Parts of files without any are remembered for all processes.
#[derive(Default)]
pub(super) struct RestartableSearch {
    /// Parts of files that have no restartable sequences.
    pub(super) without: HashSet<FilePart>,
}

/// The reason why a process may not share memory with others.
pub(super) struct SharingRefusal {
    /// The reason.
    pub(super) error: TraceError,
    /// The tasks that are detached for the same reason, because they share the memory (vfork).
    pub(super) parents: Vec<u32>,
}

impl From<TraceError> for SharingRefusal {
    fn from(error: TraceError) -> SharingRefusal {
        SharingRefusal { error, parents: Vec::new() }
    }
}

impl RestartableSearch {
    /// Searches all code of a process for restartable sequences, once.
    pub(super) fn check(&mut self, tracees: &mut Tracees, tid: u32, beside: &str) -> TraceResult {
        let Some(process) = tracees.process(tid).filter(|process| !process.no_restarts) else {
            return Ok(());
        };
        process.no_restarts = true;
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

    /// A system call is about to be made: if it gives the process memory that others can write to, or code
    /// beside such memory, restartable sequences are looked for.
    ///
    /// # Errors
    ///
    /// Where there are some.
    pub(super) fn check_sharing(
        &mut self,
        tracees: &mut Tracees,
        tid: u32,
        registers: &Registers,
    ) -> Result<(), SharingRefusal> {
        if shares(tid, registers) {
            tracees.process(tid).into_iter().for_each(|process| process.shares = true);
            // A parent that shares the memory (vfork) continues in it.
            let parents = tracees.tasks.iter().filter(|(_, task)| task.waits_for_child(tid));
            let parents: Vec<(u32, usize)> = parents.map(|(parent, task)| (*parent, task.process)).collect();
            parents.iter().for_each(|(_, process)| tracees.processes[*process].shares = true);
            return self.check(tracees, tid, SHARED).map_err(|error| {
                let is_for_parents = matches!(error, TraceError::Detach(_));
                let parents = parents.iter().filter(|_| is_for_parents).map(|(parent, _)| *parent).collect();
                SharingRefusal { error, parents }
            });
        }
        match tracees.process(tid).is_some_and(|process| process.shares) {
            true if brings_signature(tid, registers)? => Err(found(SHARED).into()),
            _ => Ok(()),
        }
    }
}

/// Whether a system call gives a process memory that others can write to and that it can, now or by
/// `mprotect` later.
///
/// # Source
///
/// `mmap(2)`, `shmat(2)`; Linux `include/uapi/linux/mman.h`, `include/uapi/asm-generic/mman-common.h`,
/// `include/uapi/linux/shm.h`.
fn shares(tid: u32, registers: &Registers) -> bool {
    const PROT_WRITE: u64 = 2;
    const MAP_SHARED: u64 = 1;
    const MAP_SHARED_VALIDATE: u64 = 3;
    const MAP_TYPE: u64 = 0xf;
    const SHM_RDONLY: u64 = 0o10_000;
    let Registers { rdx, r10, r8, .. } = *registers;
    match registers.rax & 0xffff_ffff {
        number::MMAP if [MAP_SHARED, MAP_SHARED_VALIDATE].contains(&(r10 & MAP_TYPE)) => {
            rdx & PROT_WRITE != 0 || r10 & MAP_ANONYMOUS != 0 || is_for_writing(&descriptor(tid, r8))
        }
        number::SHMAT => rdx & SHM_RDONLY == 0,
        _ => false,
    }
}

/// Whether a system call maps a restartable sequence as code. Code that cannot be read may contain one.
fn brings_signature(tid: u32, registers: &Registers) -> Result<bool, TraceError> {
    let Registers { rdi, rsi, rdx, r10, r8, r9, .. } = *registers;
    match registers.rax & 0xffff_ffff {
        number::MMAP if rdx & PROT_EXEC != 0 && r10 & MAP_ANONYMOUS == 0 => {
            let found = file_has_signature(&descriptor(tid, r8), r9, rsi);
            Ok(found.unwrap_or_else(|error| error.kind() != io::ErrorKind::NotFound))
        }
        number::MPROTECT | number::PKEY_MPROTECT if rdx & PROT_EXEC != 0 => {
            let maps = MemoryMaps::read(tid)?;
            let (start, end) = (rdi, rdi.saturating_add(rsi));
            let mut mappings = maps.among(start, end);
            let read = |at, bytes: &mut [u8]| trace::read_memory(tid, at, bytes);
            // It may start in code that was mapped before, or end there.
            let (start, end) = (start.saturating_sub(OVERLAP), end.saturating_add(OVERLAP));
            Ok(mappings.any(|mapping| has_signature(mapping.start.max(start), mapping.end.min(end), read)))
        }
        _ => Ok(false),
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
