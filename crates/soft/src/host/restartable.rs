//! Restartable sequences (rseq): code that the kernel restarts when its thread loses the CPU in it.
//!
//! The kernel knows such code by its addresses, and knows nothing of a translated copy. A copy would continue
//! on another CPU, or after another thread, a signal handler or another process, and corrupt the data that
//! they share.
//!
//! So a process with restartable sequences is detached when it gets a second thread, its first handled
//! signal, or memory that other processes can write to. Such a sequence is recognised by the signature in
//! front of its abort address. The signature is the same in all programs that do not register another one.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use cyclometer_sys::trace::{self, Registers};

use super::maps::{MemoryMapping, MemoryMaps};
use super::remote_syscalls::number;
use super::syscalls::PROT_EXEC;
use super::tracer::{TraceError, TraceResult, Tracer};
use super::writers::{FileId, is_for_writing};
use crate::pack::{ChunkReader, ChunkWriter};

/// The signature in front of each abort address. A program that registers another one is detached.
///
/// # Source
///
/// `rseq(2)`; Linux `tools/testing/selftests/rseq/rseq-x86.h`, glibc
/// `sysdeps/unix/sysv/linux/x86/bits/rseq.h`: `RSEQ_SIG`.
pub(super) const SIGNATURE: u32 = 0x5305_3053;

/// The signature, behind an opcode that makes a harmless or an invalid instruction of it.
///
/// # Source
///
/// `rseq(2)`; Linux `include/uapi/linux/rseq.h` and `tools/testing/selftests/rseq/rseq-x86.h`, `RSEQ_SIG`:
/// `ud1` with the signature as a displacement; tcmalloc `tcmalloc/internal/percpu_rseq_x86_64.S`: `nop` with
/// it.
const SIGNATURES: [[u8; 7]; 2] =
    [[0x0f, 0xb9, 0x3d, 0x53, 0x30, 0x05, 0x53], [0x0f, 0x1f, 0x05, 0x53, 0x30, 0x05, 0x53]];

/// Bytes that are searched at a time.
const CHUNK: usize = 1 << 20;

/// Bytes that are skipped at once if they cannot contain a signature.
const STRETCH: usize = 256;

/// A part of a file, as it is mapped.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FilePart {
    file: FileId,
    /// When the file was changed last, in seconds and nanoseconds: another one may have got its number.
    changed: (i64, i64),
    /// In bytes.
    offset: u64,
    len: u64,
}

impl FilePart {
    /// The file.
    pub(super) fn file(&self) -> FileId {
        self.file
    }

    pub(super) fn pack(&self, to: &mut ChunkWriter<'_>) {
        FileId::pack(Some(self.file), to);
        [self.changed.0.cast_unsigned(), self.changed.1.cast_unsigned(), self.offset, self.len]
            .into_iter()
            .for_each(|number| to.u64(number));
    }

    pub(super) fn unpack(from: &mut ChunkReader<'_>) -> Option<FilePart> {
        let file = FileId::unpack(from)??;
        let changed = (from.u64()?.cast_signed(), from.u64()?.cast_signed());
        Some(FilePart { file, changed, offset: from.u64()?, len: from.u64()? })
    }
}

/// The property of a process that restartable sequences do not permit, in words that follow "has".
pub(super) const THREADS: &str = "threads";
pub(super) const HANDLERS: &str = "handlers of signals";
pub(super) const SHARED: &str = "memory that others can write to";

impl Tracer {
    /// Searches all code of a process for restartable sequences, once. Parts of files without any are
    /// remembered for all processes.
    pub(super) fn check_restartable(&mut self, tid: u32, beside: &str) -> TraceResult {
        let Some(process) = self.process(tid).filter(|process| !process.no_restarts) else { return Ok(()) };
        process.no_restarts = true;
        let maps = MemoryMaps::read(tid)?;
        // Shared memory is not translated. The code cache itself is shared, and is not searched.
        for mapping in maps.code().filter(|mapping| !mapping.shared) {
            let part = part(tid, mapping);
            if part.is_none_or(|part| !self.without_sequences.contains(&part)) {
                check(tid, (mapping.start, mapping.end), beside)?;
                self.without_sequences.extend(part);
            }
        }
        Ok(())
    }
}

impl Tracer {
    /// A system call is about to be made: if it gives the process memory that others can write to, or code
    /// beside such memory, restartable sequences are looked for.
    pub(super) fn check_sharing(&mut self, tid: u32, registers: &Registers) -> TraceResult {
        if shares(tid, registers) {
            self.process(tid).into_iter().for_each(|process| process.shares = true);
            // A parent that shares the memory (vfork) continues in it.
            let parents = self.tasks.iter().filter(|(_, task)| task.waits_for_child(tid));
            let parents: Vec<(u32, usize)> = parents.map(|(parent, task)| (*parent, task.process)).collect();
            parents.iter().for_each(|(_, process)| self.processes[*process].shares = true);
            let checked = self.check_restartable(tid, SHARED);
            if let Err(TraceError::Detach(reason)) = &checked {
                parents.iter().for_each(|(parent, _)| self.request_detach(*parent, Some(reason.clone())));
            }
            return checked;
        }
        match self.process(tid).is_some_and(|process| process.shares) {
            true if brings_signature(tid, registers)? => Err(found(SHARED)),
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

fn found(beside: &str) -> TraceError {
    TraceError::Detach(format!("has {beside} and restartable sequences"))
}

const MAP_ANONYMOUS: u64 = 0x20;

/// The part of a file that a mapping shows; `None` also where its time of change is unknown.
fn part(tid: u32, mapping: &MemoryMapping) -> Option<FilePart> {
    let file = mapping.file.filter(|_| !mapping.writable)?;
    let metadata = fs::metadata(format!("/proc/{tid}/root{}", mapping.name)).ok()?;
    let changed = (metadata.ctime(), metadata.ctime_nsec());
    Some(FilePart { file, changed, offset: mapping.offset, len: mapping.end - mapping.start })
}

/// Looks for restartable sequences in a range of addresses.
pub(super) fn check(tid: u32, (start, end): (u64, u64), beside: &str) -> TraceResult {
    if has_signature(start, end, |at, bytes| trace::read_memory(tid, at, bytes)) {
        return Err(found(beside));
    }
    Ok(())
}

/// Bytes of a signature, but for the last one.
const OVERLAP: u64 = SIGNATURES[0].len() as u64 - 1;

/// Memory that cannot be read cannot be executed. The exception is execute-only memory, which is not
/// translated.
fn has_signature(start: u64, end: u64, mut read: impl FnMut(u64, &mut [u8]) -> io::Result<usize>) -> bool {
    let mut bytes = vec![0; CHUNK];
    let mut at = start;
    while at < end {
        let wanted = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
        let got = read(at, &mut bytes[..wanted]).unwrap_or(0);
        if contains_signature(&bytes[..got]) {
            return true;
        }
        at = match got {
            0 => (at & !0xfff) + 0x1000,
            _ if at + got as u64 >= end => end,
            _ => at + (got as u64).saturating_sub(OVERLAP).max(1),
        };
    }
    false
}

fn contains_signature(bytes: &[u8]) -> bool {
    let is_signature = |window: &[u8]| SIGNATURES.iter().any(|signature| signature == window);
    (0..bytes.len()).step_by(STRETCH).any(|start| {
        // A signature that begins in a stretch may end behind it.
        let end = bytes.len().min(start + STRETCH + SIGNATURES[0].len() - 1);
        let stretch = &bytes[start..end];
        may_have_signature(stretch) && stretch.windows(SIGNATURES[0].len()).any(is_signature)
    })
}

/// Whether two adjacent bytes of every signature are there. Compilers vectorise this loop.
fn may_have_signature(stretch: &[u8]) -> bool {
    let pairs = stretch.iter().zip(stretch.iter().skip(1));
    pairs.fold(false, |found, (one, next)| found | ((*one == 0x30) & (*next == 0x05)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_at(position: usize, size: usize, signature: &[u8], expected: bool) {
        let mut memory = vec![0x1f; size];
        memory[position..position + signature.len()].copy_from_slice(signature);
        let read = |at: u64, bytes: &mut [u8]| {
            let rest = &memory[at as usize..];
            let count = rest.len().min(bytes.len());
            bytes[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        };
        assert_eq!(has_signature(0, size as u64, read), expected, "{position} of {size}");
    }

    #[test]
    fn a_signature_is_found_wherever_it_is() {
        for signature in SIGNATURES {
            for position in [
                0,
                1,
                250,
                255,
                256,
                4000,
                CHUNK - 7,
                CHUNK - 6,
                CHUNK - 1,
                CHUNK,
                2 * CHUNK - 12,
                2 * CHUNK - 7,
            ] {
                check_at(position, 2 * CHUNK, &signature, true);
            }
            check_at(100, CHUNK, &signature[..6], false);
        }
    }

    #[test]
    fn memory_that_cannot_be_read_is_skipped() {
        let mut asked = Vec::new();
        let nothing = |at: u64, _: &mut [u8]| {
            asked.push(at);
            Err(io::ErrorKind::PermissionDenied.into())
        };
        assert!(!has_signature(0x1800, 0x4000, nothing));
        assert_eq!(asked, [0x1800, 0x2000, 0x3000]);
    }
}
