//! Files that are opened for writing.
//!
//! The types are in [`writers`](super::writers).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cyclometer_sys::trace::{self, Registers};

use super::action::TaskAction;
use super::process::TracedTask;
use super::program_file::opened;
use super::remote_syscalls::number;
use super::trace_error::TraceError;
use super::tracees::Tracees;
use super::writers::FileId;

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

/// The effect of a call that opens a file, or changes its length.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum WriteEffect {
    /// It changes no code of a tracee.
    None,
    /// It may change any code of the calling process.
    OwnMemory,
    /// It may change the code of another tracee, which is unknown.
    AnyMemory,
    /// It may change a file whose code these tasks execute.
    Code {
        /// The tasks.
        of: Vec<u32>,
    },
}

/// The process to which the memory belongs that a task opens for writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MemoryOwner {
    /// The task's own.
    Caller,
    /// One that is not followed.
    Unfollowed,
    /// One that is followed, or any.
    Unknown,
}

impl MemoryOwner {
    /// The owner of the memory that a path names. `process` is the index of a task's process, and
    /// `is_followed` is whether a task is followed or will be.
    fn of(
        path: &Path,
        tid: u32,
        process: impl Fn(u32) -> Option<usize>,
        is_followed: impl Fn(u32) -> bool,
    ) -> MemoryOwner {
        let root = format!("/proc/{tid}/root");
        let parts = path.strip_prefix(root).or_else(|_| path.strip_prefix("/")).unwrap_or(path).components();
        let parts: Vec<&str> = parts.filter_map(|part| part.as_os_str().to_str()).collect();
        let ids = match *parts {
            ["proc", process, "mem"] => [process, process],
            ["proc", process, "task", thread, "mem"] => [process, thread],
            _ => return MemoryOwner::Unknown,
        };
        let ids: Vec<u32> = ids.into_iter().filter_map(|id| id.parse().ok()).collect();
        let own = process(tid);
        match ids.len() {
            2 if ids.iter().all(|id| own.is_some() && process(*id) == own) => MemoryOwner::Caller,
            2 if !ids.iter().any(|id| is_followed(*id)) => MemoryOwner::Unfollowed,
            _ => MemoryOwner::Unknown,
        }
    }
}

impl Tracees {
    /// The effect of a call by which a task opens the file whose path is at this address.
    pub(super) fn effect_of_opening(&self, tid: u32, path: u64, registers: &Registers) -> WriteEffect {
        if !writes(tid, registers) {
            return WriteEffect::None;
        }
        let relative = matches!(registers.rax & 0xffff_ffff, number::OPENAT | number::OPENAT2);
        let folder = relative.then_some(registers.rdi as u32 as i32);
        let Some(path) = opened(tid, folder, path) else { return WriteEffect::None };
        if is_memory(&path) {
            let process = |id: u32| self.tasks.get(&id).map(|task| task.process);
            return match MemoryOwner::of(&path, tid, process, |id| self.is_or_will_be_followed(id)) {
                MemoryOwner::Unfollowed => WriteEffect::None,
                MemoryOwner::Caller => WriteEffect::OwnMemory,
                MemoryOwner::Unknown => WriteEffect::AnyMemory,
            };
        }
        let Some(file) = FileId::at(&path) else { return WriteEffect::None };
        let executes = |task: &TracedTask| task.context().is_some_and(|context| context.maps.executes(file));
        let of: Vec<u32> =
            self.tasks.iter().filter(|(_, task)| executes(task)).map(|(other, _)| *other).collect();
        if of.is_empty() { WriteEffect::None } else { WriteEffect::Code { of } }
    }
}

impl TracedTask {
    /// All code of its process can change from now on: it moves to a translation that expects that. Returns
    /// the action in place of its system call, which is made there; `None` if it is there already.
    pub(super) fn expect_all_changes(&mut self) -> Result<Option<TaskAction>, TraceError> {
        let mut cache = self.translated()?.cache.borrow_mut();
        if cache.change_history.expects_all() {
            return Ok(None);
        }
        cache.change_history.expect_all_next();
        Ok(Some(TaskAction::Flush))
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
    fn memory_belongs_to_the_caller_only_if_process_and_thread_are_its_own() {
        let process =
            |id| [(7, 0), (8, 0), (9, 1)].iter().find(|(tid, _)| *tid == id).map(|(_, index)| *index);
        let owner = |path: &str| MemoryOwner::of(Path::new(path), 7, process, |id| id < 10);
        for path in ["/proc/7/mem", "/proc/8/mem", "/proc/7/task/8/mem", "/proc/7/root/proc/7/mem"] {
            assert_eq!(owner(path), MemoryOwner::Caller, "{path}");
        }
        for path in
            ["/proc/9/mem", "/proc/7/task/9/mem", "/proc/12/task/9/mem", "/other/7/mem", "/proc/x/mem"]
        {
            assert_eq!(owner(path), MemoryOwner::Unknown, "{path}");
        }
        for path in ["/proc/12/mem", "/proc/12/task/13/mem"] {
            assert_eq!(owner(path), MemoryOwner::Unfollowed, "{path}");
        }
    }

    #[test]
    fn a_caller_that_is_not_followed_any_more_owns_nothing() {
        let owner = MemoryOwner::of(Path::new("/proc/7/mem"), 7, |_| None, |_| true);
        assert_eq!(owner, MemoryOwner::Unknown);
    }
}
