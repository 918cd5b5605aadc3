//! The system calls that the software PMU cannot do without, and the memory that they provide.

use std::fmt;

/// The length of the smallest memory file with which the software PMU works.
pub const MEMORY_FILE_BYTES: u64 = 0x7009_0000;

/// Private memory that a tracer needs at least, in bytes. A tracer without it could not go on, and the
/// programs that it traces end with it.
pub const PRIVATE_BYTES: u64 = 32 << 20;

/// A system call that the software PMU cannot do without.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TracerCall {
    /// `ptrace(2)`
    Ptrace,
    /// `wait4(2)`
    Wait4,
    /// `process_vm_readv(2)`
    ProcessVmReadv,
    /// `process_vm_writev(2)`
    ProcessVmWritev,
    /// `memfd_create(2)`
    MemfdCreate,
    /// `ftruncate(2)`
    Ftruncate,
    /// `fcntl(2)`
    Fcntl,
    /// `prlimit(2)`, for the limit on the size of files: reads it, or raises the soft limit as the hard limit
    /// permits.
    Prlimit,
    /// `setrlimit(2)`: raises the hard limit on the size of files, which is below [`MEMORY_FILE_BYTES`].
    RaiseFileSize,
    /// `mmap(2)`: maps private memory of [`PRIVATE_BYTES`].
    MapPrivate,
    /// `fork(2)`
    Fork,
    /// `socketpair(2)`
    Socketpair,
    /// `read(2)`
    Read,
}

impl TracerCall {
    /// All of them; each is at the index of its number.
    pub const ALL: [TracerCall; 13] = [
        TracerCall::Ptrace,
        TracerCall::Wait4,
        TracerCall::ProcessVmReadv,
        TracerCall::ProcessVmWritev,
        TracerCall::MemfdCreate,
        TracerCall::Ftruncate,
        TracerCall::Fcntl,
        TracerCall::Prlimit,
        TracerCall::RaiseFileSize,
        TracerCall::MapPrivate,
        TracerCall::Fork,
        TracerCall::Socketpair,
        TracerCall::Read,
    ];

    /// The name of the system call, for messages and recordings.
    pub fn name(self) -> &'static str {
        match self {
            TracerCall::Ptrace => "ptrace",
            TracerCall::Wait4 => "wait4",
            TracerCall::ProcessVmReadv => "process_vm_readv",
            TracerCall::ProcessVmWritev => "process_vm_writev",
            TracerCall::MemfdCreate => "memfd_create",
            TracerCall::Ftruncate => "ftruncate",
            TracerCall::Fcntl => "fcntl",
            TracerCall::Prlimit => "prlimit64",
            TracerCall::RaiseFileSize => "setrlimit",
            TracerCall::MapPrivate => "mmap",
            TracerCall::Fork => "fork",
            TracerCall::Socketpair => "socketpair",
            TracerCall::Read => "read",
        }
    }

    /// The call of a name.
    pub fn named(name: &str) -> Option<TracerCall> {
        TracerCall::ALL.into_iter().find(|call| call.name() == name)
    }
}

impl fmt::Display for TracerCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A number of bytes, shown in MiB and rounded up, as a need is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeededBytes(pub u64);

impl fmt::Display for NeededBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MiB", self.0.div_ceil(1 << 20))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_has_a_name_of_its_own_and_its_number_as_index() {
        for (index, call) in TracerCall::ALL.into_iter().enumerate() {
            assert_eq!(TracerCall::named(call.name()), Some(call));
            assert_eq!(call as usize, index);
        }
        assert_eq!(TracerCall::named("ptrace "), None);
    }

    #[test]
    fn a_need_is_rounded_up() {
        assert_eq!(NeededBytes(PRIVATE_BYTES).to_string(), "32 MiB");
        assert_eq!(NeededBytes(PRIVATE_BYTES + 1).to_string(), "33 MiB");
    }
}
