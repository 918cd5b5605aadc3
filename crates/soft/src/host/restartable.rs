//! Restartable sequences (rseq): code that the kernel restarts when its thread loses the CPU in it.
//!
//! The kernel knows such code by its addresses, and knows nothing of a translated copy. A copy would continue
//! on another CPU, or after another thread, a signal handler or another process, and corrupt the data that
//! they share.
//!
//! So a process with restartable sequences is detached when it gets a second thread, its first handled
//! signal, or memory that other processes can write to. Such a sequence is recognised by the signature in
//! front of its abort address. The signature is the same in all programs that do not register another one.

use std::io;

use cyclometer_sys::trace::{self};
use memchr::memmem;

use super::trace_error::{TraceError, TraceResult};
use super::writers::FileId;
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
static SIGNATURES: [[u8; LENGTH]; 2] =
    [[0x0f, 0xb9, 0x3d, 0x53, 0x30, 0x05, 0x53], [0x0f, 0x1f, 0x05, 0x53, 0x30, 0x05, 0x53]];

/// Bytes of a signature.
const LENGTH: usize = 7;

/// Bytes of a signature that only it has; the others follow, and all have them.
const OWN: usize = 3;

/// The signatures, where an optimised comparison does not have them as constants in its code: a program with
/// this crate would be taken for one that has restartable sequences.
fn signatures() -> &'static [[u8; LENGTH]; 2] {
    std::hint::black_box(&SIGNATURES)
}

/// Bytes that are searched at a time.
const CHUNK: usize = 1 << 20;

/// A part of a file, as it is mapped.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FilePart {
    pub(super) file: FileId,
    /// When the file was changed last, in seconds and nanoseconds: another one may have got its number.
    pub(super) changed: (i64, i64),
    /// In bytes.
    pub(super) offset: u64,
    pub(super) len: u64,
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

pub(super) fn found(beside: &str) -> TraceError {
    TraceError::Detach(format!("has {beside} and restartable sequences"))
}

/// Looks for restartable sequences in a range of addresses.
pub(super) fn check(tid: u32, (start, end): (u64, u64), beside: &str) -> TraceResult {
    if has_signature(start, end, |at, bytes| trace::read_memory(tid, at, bytes)) {
        return Err(found(beside));
    }
    Ok(())
}

/// Bytes of a signature, but for the last one.
pub(super) const OVERLAP: u64 = LENGTH as u64 - 1;

/// Memory that cannot be read cannot be executed. The exception is execute-only memory, which is not
/// translated.
pub(super) fn has_signature(
    start: u64,
    end: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
) -> bool {
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
    let signatures = signatures();
    // Two signatures do not overlap, so none is passed over.
    memmem::find_iter(bytes, &signatures[0][OWN..]).any(|common| {
        let before = common.checked_sub(OWN).map(|start| &bytes[start..common]);
        signatures.iter().any(|signature| before == Some(&signature[..OWN]))
    })
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
        for signature in signatures() {
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
                check_at(position, 2 * CHUNK, signature, true);
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

    /// The ranges of this program's own code.
    fn own_code() -> Vec<(u64, u64)> {
        let program = std::env::current_exe().unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let of_program = maps.lines().filter(|line| line.ends_with(program.to_str().unwrap()));
        let code = of_program.filter(|line| line.contains(" r-xp "));
        let hexadecimal = |text| u64::from_str_radix(text, 16).unwrap();
        code.map(|line| line.split(' ').next().unwrap().split_once('-').unwrap())
            .map(|(start, end)| (hexadecimal(start), hexadecimal(end)))
            .collect()
    }

    #[test]
    fn code_that_looks_for_signatures_has_none() {
        use std::os::unix::fs::FileExt as _;
        let memory = std::fs::File::open("/proc/self/mem").unwrap();
        let code = own_code();
        assert!(!code.is_empty());
        for (start, end) in code {
            assert!(!has_signature(start, end, |at, bytes| memory.read_at(bytes, at)), "{start:x}-{end:x}");
        }
    }
}
