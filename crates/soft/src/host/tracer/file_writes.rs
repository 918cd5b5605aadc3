//! Files that are opened for writing.
//!
//! The types are in [`writers`](crate::host::writers).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cyclometer_sys::trace::{self, Registers};

use super::Tracer;
use crate::host::action::TaskAction;
use crate::host::process::TaskMode;
use crate::host::program_file::opened;
use crate::host::remote_syscalls::number;
use crate::host::trace_error::TraceError;
use crate::host::writers::FileId;

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
            return match self.owner_of_memory(tid, &path) {
                MemoryOwner::Unfollowed => Ok(None),
                MemoryOwner::Caller => self.expect_all_changes(tid),
                MemoryOwner::Unknown => {
                    Ok(Some(TaskAction::DetachAll("opens the memory of a process for writing")))
                }
            };
        }
        let Some(file) = FileId::at(&path) else { return Ok(None) };
        let executes = |tracer: &Tracer, other: &u32| {
            let assigned = tracer.tracees.tasks.get(other).map(|task| &task.mode);
            let Some(TaskMode::Translated(context) | TaskMode::Native(context)) = assigned else {
                return false;
            };
            context.maps.executes(file)
        };
        let reason = "executes a file that is opened for writing";
        let others =
            self.tracees.tasks.keys().copied().filter(|other| *other != tid && executes(self, other));
        let others: Vec<u32> = others.collect();
        others.into_iter().for_each(|other| self.request_detach(other, Some(reason.to_owned())));
        if executes(self, &tid) { Err(TraceError::Detach(reason.to_owned())) } else { Ok(None) }
    }
}

impl Tracer {
    /// The owner of the memory that a path names, which a task opens.
    fn owner_of_memory(&self, tid: u32, path: &Path) -> MemoryOwner {
        let root = format!("/proc/{tid}/root");
        let parts = path.strip_prefix(root).or_else(|_| path.strip_prefix("/")).unwrap_or(path).components();
        let parts: Vec<&str> = parts.filter_map(|part| part.as_os_str().to_str()).collect();
        let ids = match *parts {
            ["proc", process, "mem"] => [process, process],
            ["proc", process, "task", thread, "mem"] => [process, thread],
            _ => return MemoryOwner::Unknown,
        };
        let process = |id: &u32| self.tracees.tasks.get(id).map(|task| task.process);
        let ids: Vec<u32> = ids.into_iter().filter_map(|id| id.parse().ok()).collect();
        let own = process(&tid);
        match ids.len() {
            2 if ids.iter().all(|id| own.is_some() && process(id) == own) => MemoryOwner::Caller,
            2 if !ids.iter().any(|id| self.tracees.is_or_will_be_followed(*id)) => MemoryOwner::Unfollowed,
            _ => MemoryOwner::Unknown,
        }
    }

    /// All code of a process can change from now on: it moves to a translation that expects that. Returns
    /// what to do instead of its system call, which is made there.
    fn expect_all_changes(&mut self, tid: u32) -> Result<Option<TaskAction>, TraceError> {
        let TaskMode::Translated(context) = &self.tracees.task(tid)?.mode else {
            return Err(TraceError::Gone);
        };
        let mut cache = context.cache.borrow_mut();
        if cache.change_history.expects_all() {
            return Ok(None);
        }
        cache.change_history.expect_all_next();
        Ok(Some(TaskAction::Flush))
    }
}

/// The process to which the memory belongs that a task opens for writing.
enum MemoryOwner {
    /// The task's own.
    Caller,
    /// One that is not followed.
    Unfollowed,
    /// One that is followed, or any.
    Unknown,
}

/// Whether a path names the memory of a process.
fn is_memory(path: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).ok().map(|metadata| metadata.dev());
    path.file_name().is_some_and(|name| name == "mem") && device(path) == device(Path::new("/proc"))
}
