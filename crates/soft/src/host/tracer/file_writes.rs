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
