//! System calls that concern the tracer, and the action for each.

use std::io;

use cyclometer_sys::marks;
use cyclometer_sys::trace::{self, Registers};

use super::address_limits::{LimitCall, limit_call};
use super::remote_syscalls::number;
use super::restartable;

/// The reason why the rest of a process is not counted, in words that follow "what the process did".
pub(super) const TRACED: &str = "after another process traced it (ptrace)";

/// Every call that is watched.
pub(crate) const WATCHED: [u64; 40] = [
    number::OPEN,
    number::RT_SIGACTION,
    number::ALARM,
    number::SETITIMER,
    number::OPENAT,
    number::MMAP,
    number::MPROTECT,
    number::MUNMAP,
    number::RT_SIGRETURN,
    number::MREMAP,
    number::MADVISE,
    number::SHMAT,
    number::CLONE,
    number::EXECVE,
    number::EXIT,
    number::SHMDT,
    number::TRUNCATE,
    number::CREAT,
    number::PTRACE,
    number::PERSONALITY,
    number::MLOCKALL,
    number::MODIFY_LDT,
    number::PRCTL,
    number::ARCH_PRCTL,
    number::GETRLIMIT,
    number::SETRLIMIT,
    number::PRLIMIT64,
    number::SCHED_SETAFFINITY,
    number::SCHED_GETAFFINITY,
    number::REMAP_FILE_PAGES,
    number::SECCOMP,
    number::TIMER_SETTIME,
    number::TIMER_DELETE,
    number::EXECVEAT,
    number::USERFAULTFD,
    number::PKEY_MPROTECT,
    number::RSEQ,
    number::CLONE3,
    number::OPENAT2,
    number::PROCESS_MADVISE,
];

/// The action for a system call that is about to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SyscallAction {
    /// It is made, and the program continues in translated code.
    Make,
    /// It is made, and mappings in these ranges are other ones then.
    ChangeMappings(MappingCall),
    /// It is made, and discards the bytes of this range.
    DiscardMemory(u64, u64),
    /// A new program may be executed.
    Execute {
        /// The descriptor that the path is relative to; `None` for the working directory.
        folder: Option<i32>,
        /// Address of the path.
        path: u64,
    },
    /// It ends a thread, or the process.
    End,
    /// It returns from a signal's handler.
    ReturnFromHandler,
    /// It installs a system call filter: no call may be made on behalf of the tracee from then on.
    InstallFilter,
    /// It opens a file, whose path is at this address.
    Open(u64),
    /// It changes the bytes of a file, or opens one in an unusual way: its path is at this address.
    OpenForWriting(u64),
    /// It reads from a descriptor.
    Read,
    /// It closes a descriptor.
    Close,
    /// It changes the offset into a file.
    Seek,
    /// It uses a descriptor in another way.
    UseDescriptor,
    /// It reads or sets the CPUs that a task may use.
    CpuMask {
        /// Whether the call names the calling task only.
        own: bool,
    },
    /// It reads or sets the limits on addresses.
    AddressLimits(LimitCall),
    /// It sets the action for SIGTRAP, which is at this address.
    TrapHandler(u64),
    /// It is not made, and returns 0 after this word was written to this address.
    Answer {
        /// Where.
        address: u64,
        /// The word.
        value: u64,
    },
    /// It is not made: a thread asks for its own counts, in words at this address.
    OwnCounts {
        /// Where.
        address: u64,
        /// The number of words.
        words: u64,
    },
    /// The program must be detached; the reason, in words that follow "the program".
    Detach(&'static str),
    /// The program must be detached, and the code cache unmapped.
    DetachUnmapped(&'static str),
    /// The process must be detached, and stays counted up to this call; the reason, in words that follow
    /// "what the process did".
    EndCounted(&'static str),
    /// It is about to trace another task.
    Trace(u32),
}

/// A system call that changes mappings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MappingCall {
    /// The ranges that it names.
    pub(super) ranges: Vec<(u64, u64)>,
    /// Whether there may be new code, which processes that share the translation need not have.
    pub(super) code: bool,
    /// Whether it changes the protection of memory only.
    pub(super) protects: bool,
}

/// Looks at a system call: number and arguments are in the registers.
pub(crate) fn action_for(tid: u32, registers: &Registers) -> SyscallAction {
    let Registers { rdi, rsi, rdx, r10, .. } = *registers;
    let range = |start: u64, len: u64| (start, start.saturating_add(len.max(1)));
    match registers.rax & 0xffff_ffff {
        number if number & X32 != 0 || ONLY_X32.contains(&number) => {
            SyscallAction::Detach("makes system calls of another kind (x32)")
        }
        number::MADVISE if DISCARDS.contains(&rdx) => {
            SyscallAction::DiscardMemory(rdi, rdi.saturating_add(rsi.max(1)))
        }
        // Its ranges are in memory of the program.
        number::PROCESS_MADVISE if DISCARDS.contains(&r10) => {
            SyscallAction::Detach("discards the memory of a process (process_madvise)")
        }
        number::USERFAULTFD => SyscallAction::Detach("handles its own page faults (userfaultfd)"),
        number::MMAP if r10 & MAP_FIXED != 0 => mapping_change(vec![range(rdi, rsi)], rdx),
        number::MMAP if rdx & PROT_EXEC != 0 => mapping_change(vec![], rdx),
        number::MPROTECT | number::PKEY_MPROTECT => protection_change(range(rdi, rsi), rdx),
        number::MUNMAP => mapping_change(vec![range(rdi, rsi)], 0),
        // The moved memory may be code.
        number::REMAP_FILE_PAGES => mapping_change(vec![range(rdi, rsi)], PROT_EXEC),
        number::MREMAP if r10 & MREMAP_FIXED != 0 => {
            mapping_change(vec![range(rdi, rsi), range(registers.r8, rdx)], PROT_EXEC)
        }
        number::MREMAP => mapping_change(vec![range(rdi, rsi)], 0),
        number::SHMAT if rdx & SHM_EXEC != 0 => SyscallAction::Detach("executes memory that it shares"),
        number::SHMAT if rdx & SHM_REMAP != 0 => {
            SyscallAction::Detach("maps shared memory over other memory")
        }
        number::OPEN => SyscallAction::Open(rdi),
        number::OPENAT => SyscallAction::Open(rsi),
        number::CREAT | number::TRUNCATE => SyscallAction::OpenForWriting(rdi),
        number::OPENAT2 => SyscallAction::OpenForWriting(rsi),
        number::READ => SyscallAction::Read,
        number::CLOSE => SyscallAction::Close,
        number::LSEEK => SyscallAction::Seek,
        number if super::maps_listing::OTHER_USES.contains(&number) => SyscallAction::UseDescriptor,
        number::RT_SIGACTION if rdi == SIGTRAP && rsi != 0 => SyscallAction::TrapHandler(rsi),
        number::SCHED_SETAFFINITY | number::SCHED_GETAFFINITY => {
            SyscallAction::CpuMask { own: [0, tid].contains(&(rdi as u32)) }
        }
        number @ (number::GETRLIMIT | number::SETRLIMIT | number::PRLIMIT64) => {
            limit_call(number, [rdi, rsi, rdx, r10]).map_or(SyscallAction::Make, SyscallAction::AddressLimits)
        }
        number::RT_SIGRETURN => SyscallAction::ReturnFromHandler,
        number::EXIT | number::EXIT_GROUP => SyscallAction::End,
        number::EXECVE => SyscallAction::Execute { folder: None, path: rdi },
        number::EXECVEAT => SyscallAction::Execute { folder: Some(rdi as u32 as i32), path: rsi },
        number::CLONE => clone(rdi),
        number::CLONE3 => clone(trace::peek(tid, rdi).unwrap_or(0)),
        number::PTRACE => trace_call(rdi, rsi as u32),
        number::PERSONALITY if has_code_everywhere(rdi) => {
            SyscallAction::Detach("makes readable mappings executable (READ_IMPLIES_EXEC)")
        }
        // It would lock the memory of the code cache, and count it.
        number::MLOCKALL if rdi != 0 => SyscallAction::DetachUnmapped("locks all of its memory (mlockall)"),
        number::MODIFY_LDT => SyscallAction::Detach("changes its segments"),
        number::RSEQ if r10 as u32 != restartable::SIGNATURE => {
            SyscallAction::Detach("has restartable sequences with a signature of its own (rseq)")
        }
        number::PRCTL => prctl(tid, registers),
        number::ARCH_PRCTL => arch_prctl(registers),
        number::SECCOMP if rdi == SECCOMP_SET_MODE_FILTER || rdi == SECCOMP_SET_MODE_STRICT => {
            filter(tid, rdi == SECCOMP_SET_MODE_FILTER, rdx)
        }
        _ => SyscallAction::Make,
    }
}

/// Whether a personality makes readable mappings executable.
///
/// # Source
///
/// `personality(2)`: all bits only ask; Linux `include/uapi/linux/personality.h`.
fn has_code_everywhere(persona: u64) -> bool {
    const ONLY_ASKS: u64 = 0xffff_ffff;
    const READ_IMPLIES_EXEC: u64 = 0x040_0000;
    let persona = persona & 0xffff_ffff;
    persona != ONLY_ASKS && persona & READ_IMPLIES_EXEC != 0
}

/// Whether programs may have shadow stacks on this machine. If not, the kernel refuses every such call.
///
/// # Source
///
/// Linux `arch/x86/include/asm/cpufeatures.h`, `X86_FEATURE_USER_SHSTK`.
fn has_shadow_stacks() -> bool {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.is_empty() || text.split_ascii_whitespace().any(|word| word == "user_shstk")
}

fn mapping_change(ranges: Vec<(u64, u64)>, protection: u64) -> SyscallAction {
    SyscallAction::ChangeMappings(MappingCall { ranges, code: protection & PROT_EXEC != 0, protects: false })
}

fn protection_change(range: (u64, u64), protection: u64) -> SyscallAction {
    let (ranges, code) = (vec![range], protection & PROT_EXEC != 0);
    SyscallAction::ChangeMappings(MappingCall { ranges, code, protects: true })
}

/// The range that a system call has mapped, if it has.
pub(super) fn remapped(registers: &Registers, result: &io::Result<u64>) -> Option<(u64, u64)> {
    let Registers { rsi, rdx, .. } = *registers;
    let start = *result.as_ref().ok()?;
    match registers.rax & 0xffff_ffff {
        number::MMAP => Some((start, start.saturating_add(rsi))),
        number::MREMAP => Some((start, start.saturating_add(rdx))),
        _ => None,
    }
}

/// The registers behind a system call that the program does not make itself, with its result.
pub(super) fn behind_call(registers: Registers, rax: u64) -> Registers {
    Registers { rax, rip: registers.rip + 2, r11: registers.eflags, ..registers }
}

/// # Source
///
/// `clone(2)`: a task that shares memory is a thread, or suspends its parent (vfork), or is not followed.
pub(super) fn clone(flags: u64) -> SyscallAction {
    const CLONE_VM: u64 = 0x100;
    const CLONE_VFORK: u64 = 0x4000;
    const CLONE_THREAD: u64 = 0x1_0000;
    const CLONE_UNTRACED: u64 = 0x80_0000;
    if flags & CLONE_UNTRACED != 0 {
        SyscallAction::EndCounted("after it started a process that cannot be traced")
    } else if flags & CLONE_VM != 0 && flags & (CLONE_VFORK | CLONE_THREAD) == 0 {
        SyscallAction::Detach("started a process that shares its memory")
    } else {
        SyscallAction::Make
    }
}

/// Other requests are about a task that is traced already.
///
/// # Source
///
/// `ptrace(2)`; Linux `include/uapi/linux/ptrace.h`.
fn trace_call(request: u64, target: u32) -> SyscallAction {
    const PTRACE_TRACEME: u64 = 0;
    const PTRACE_ATTACH: u64 = 16;
    const PTRACE_SEIZE: u64 = 0x4206;
    match request {
        PTRACE_TRACEME => SyscallAction::EndCounted(TRACED),
        PTRACE_ATTACH | PTRACE_SEIZE => SyscallAction::Trace(target),
        _ => SyscallAction::Make,
    }
}

/// # Source
///
/// `prctl(2)`.
fn prctl(tid: u32, registers: &Registers) -> SyscallAction {
    const ASK_COUNTS: u64 = marks::ASK_COUNTS as u64;
    const PR_SET_DUMPABLE: u64 = 4;
    const PR_SET_SECCOMP: u64 = 22;
    const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
    match (registers.rdi, registers.rsi) {
        (ASK_COUNTS, address) => SyscallAction::OwnCounts { address, words: registers.rdx },
        (PR_SET_DUMPABLE, 0) => SyscallAction::Detach("hides its memory (PR_SET_DUMPABLE)"),
        (PR_SET_SECCOMP, mode) => filter(tid, mode == SECCOMP_MODE_FILTER, registers.rdx),
        (PR_SET_SYSCALL_USER_DISPATCH, on) if on != 0 => {
            SyscallAction::Detach("handles its own system calls (PR_SET_SYSCALL_USER_DISPATCH)")
        }
        _ => SyscallAction::Make,
    }
}

/// A system call filter is about to be installed. One that reads the instruction pointer would see addresses
/// in translated code.
pub(super) fn filter(tid: u32, has_program: bool, program: u64) -> SyscallAction {
    if has_program && looks_at_instruction_pointer(tid, program) {
        return SyscallAction::Detach("filters its system calls by instruction pointer");
    }
    SyscallAction::InstallFilter
}

/// Whether a filter reads the instruction pointer.
///
/// # Source
///
/// `seccomp(2)`: `struct sock_fprog`, `struct sock_filter`, and `struct seccomp_data`, whose bytes 8 to 15 it
/// is; only aligned words can be loaded. Linux `include/uapi/linux/bpf_common.h`.
fn looks_at_instruction_pointer(tid: u32, program: u64) -> bool {
    const LOAD_WORD: u16 = 0x20;
    const MOST_RULES: usize = 4096;
    let word = |at: u64| trace::peek(tid, at).unwrap_or(0);
    let count = usize::from(word(program) as u16).min(MOST_RULES);
    let mut rules = vec![0; 8 * count];
    let read = trace::read_memory(tid, word(program.wrapping_add(8)), &mut rules).unwrap_or(0);
    rules[..read].as_chunks::<8>().0.iter().any(|[low, high, _, _, at @ ..]| {
        u16::from_le_bytes([*low, *high]) == LOAD_WORD && matches!(u32::from_le_bytes(*at), 8 | 12)
    })
}

/// # Source
///
/// `arch_prctl(2)`; `arch/x86/include/uapi/asm/prctl.h`.
fn arch_prctl(registers: &Registers) -> SyscallAction {
    const ARCH_SET_GS: u64 = 0x1001;
    const ARCH_GET_GS: u64 = 0x1004;
    const ARCH_SHSTK: std::ops::RangeInclusive<u64> = 0x5001..=0x5005;
    match registers.rdi {
        ARCH_SET_GS => SyscallAction::Detach("sets the base of %gs"),
        // Only a program that has set the base has another one, and such a program is detached.
        ARCH_GET_GS => SyscallAction::Answer { address: registers.rsi, value: 0 },
        code if ARCH_SHSTK.contains(&code) && has_shadow_stacks() => {
            SyscallAction::Detach("switches its shadow stack on or off")
        }
        _ => SyscallAction::Make,
    }
}

/// Advice that changes the bytes of memory: `MADV_DONTNEED`, `MADV_FREE`, `MADV_REMOVE`,
/// `MADV_DONTNEED_LOCKED`, `MADV_GUARD_INSTALL`.
///
/// # Source
///
/// `madvise(2)`; Linux `include/uapi/asm-generic/mman-common.h`.
const DISCARDS: [u64; 5] = [4, 8, 9, 24, 102];

/// The bit of system calls of the x32 ABI.
///
/// # Source
///
/// Linux `arch/x86/include/uapi/asm/unistd.h`, `__X32_SYSCALL_BIT`.
const X32: u64 = 0x4000_0000;

/// System calls of x32 alone, without that bit.
///
/// # Source
///
/// Linux `arch/x86/entry/syscalls/syscall_64.tbl`, 512 to 547.
pub(crate) const ONLY_X32: std::ops::RangeInclusive<u64> = 512..=547;
const SIGTRAP: u64 = 5;
const MAP_FIXED: u64 = 0x10;
pub(super) const PROT_EXEC: u64 = 4;
const MREMAP_FIXED: u64 = 2;
const SHM_EXEC: u64 = 0o100_000;
const SHM_REMAP: u64 = 0o40_000;
const SECCOMP_SET_MODE_STRICT: u64 = 0;
const SECCOMP_SET_MODE_FILTER: u64 = 1;
const SECCOMP_MODE_FILTER: u64 = 2;
pub(super) const EFAULT: i64 = 14;
