//! The limits of a tool that works on a file of the user's.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::limits::lower;
use super::linux::end_with_parent;

/// The limits of a program whose input was not checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ToolLimits {
    /// Its address space, in bytes.
    pub memory_bytes: u64,
    /// The largest file that it can write, in bytes.
    pub file_bytes: u64,
    /// Its CPU time, in seconds.
    pub cpu_seconds: u64,
}

impl ToolLimits {
    /// Gives a command these limits. On Linux, it is killed when the thread that starts it ends.
    ///
    /// Limits that are lower already stay.
    ///
    /// # Source
    ///
    /// `setrlimit(2)`, `RLIMIT_AS`, `RLIMIT_FSIZE`, `RLIMIT_CPU`.
    pub fn apply(self, command: &mut Command) {
        let limits = [
            (libc::RLIMIT_AS as libc::c_int, self.memory_bytes),
            (libc::RLIMIT_FSIZE as libc::c_int, self.file_bytes),
            (libc::RLIMIT_CPU as libc::c_int, self.cpu_seconds),
        ];
        let set = move || -> io::Result<()> {
            end_with_parent()?;
            limits.into_iter().try_for_each(|(resource, most)| lower(resource, most))
        };
        // SAFETY: `set` makes system calls and nothing else: it allocates no memory and takes no lock.
        unsafe { command.pre_exec(set) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limited_command_has_the_limits_and_its_parent_has_not() {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -t; ulimit -f"]);
        ToolLimits { memory_bytes: 1 << 30, file_bytes: 1 << 20, cpu_seconds: 7 }.apply(&mut command);
        let out = command.output().unwrap();
        // Shells write file sizes in blocks of 512 bytes or of 1 KiB.
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(text == "7\n2048\n" || text == "7\n1024\n", "{text}");
        let free = Command::new("sh").args(["-c", "ulimit -t"]).output().unwrap();
        assert_ne!(free.stdout, b"7\n");
    }
}
