//! Kernels of the user's: assembly that runs in processes of its own.
//!
//! The system's assembler and linker make a program of a file and of a few instructions of ours. These give
//! up every privilege but reading a number, writing a byte and exiting (`seccomp(2)`, strict mode) before
//! the file's code runs. So it reaches no file, no network and no other process. It ends with the thread
//! that started it.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use cyclometer_core::{Error, ErrorKind, Recovery, Result};
use cyclometer_sys::invoker::{invoker, with_rights};

/// The longest file of assembly, in bytes.
pub const MAX_ASSEMBLY_BYTES: usize = 1 << 20;

/// A file of assembly that defines the function `kernel`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AssemblyFile {
    /// Its name in messages.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// A program that runs a file's function as often as it is told to.
#[derive(Debug)]
pub(super) struct AssembledKernel {
    name: String,
    child: Child,
}

impl AssembledKernel {
    /// Assembles and links a file, and starts it on the CPU of the calling thread.
    ///
    /// # Errors
    ///
    /// An instruction set without such programs, missing tools, and the assembler's and linker's own words.
    pub(super) fn start(file: &AssemblyFile) -> Result<AssembledKernel> {
        let frame = frame_of(std::env::consts::ARCH)?;
        let folder = WorkFolder::new()?;
        let (frame_object, object) = (folder.0.join("frame.o"), folder.0.join("kernel.o"));
        assemble("the frame of kernels", frame, &frame_object)?;
        assemble(&file.name, &file.text, &object)?;
        let program = folder.0.join("kernel");
        let mut linker = Command::new("ld");
        linker.args(["-static", "-z", "noexecstack", "-e", "cyclometer_start", "-o"]).arg(&program);
        run_tool(linker.arg(&frame_object).arg(&object), &file.name, "")?;
        let mut command = Command::new(&program);
        let started =
            as_invoker(&mut command)?.stdin(Stdio::piped()).stdout(Stdio::piped()).env_clear().spawn();
        let child = started.map_err(|error| failed(&file.name, "cannot be started", error))?;
        Ok(AssembledKernel { name: file.name.clone(), child })
    }

    /// The process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The name of its file.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Runs the function so many times.
    ///
    /// # Errors
    ///
    /// A program that has ended, with the signal.
    pub(super) fn run(&mut self, times: u64) -> Result<()> {
        let mut answer = [0];
        let told = self.child.stdin.as_mut().map(|pipe| pipe.write_all(&times.to_ne_bytes()));
        let answered = self.child.stdout.as_mut().map(|pipe| pipe.read_exact(&mut answer));
        match (told, answered) {
            (Some(Ok(())), Some(Ok(()))) => Ok(()),
            _ => Err(self.died()),
        }
    }

    fn died(&mut self) -> Error {
        let name = &self.name;
        match self.child.wait() {
            Ok(status) => Error::new(ErrorKind::InvalidInput, format!("{name}: its code {}", end_of(status)))
                .with_recovery(Recovery::fix(
                    "the function `kernel` may compute, use the stack and the memory at its argument, and must return",
                )),
            Err(error) => failed(name, "cannot be waited for", error),
        }
    }
}

impl Drop for AssembledKernel {
    fn drop(&mut self) {
        // A program that has ended is only reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Gives a program the user and the group of the one who called sudo.
fn as_invoker(command: &mut Command) -> Result<&mut Command> {
    use std::os::unix::process::CommandExt;
    let found = invoker().map_err(|error| failed("sudo", "names no user", error))?;
    Ok(match found {
        Some((uid, gid)) => command.uid(uid).gid(gid),
        None => command,
    })
}

fn end_of(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    const SIGKILL: i32 = 9;
    match (status.signal(), status.code()) {
        (Some(SIGKILL), _) => "was killed: it made a system call, which is not permitted".to_owned(),
        (Some(signal), _) => format!("was killed by signal {signal}"),
        (None, Some(NO_STRICT_MODE)) => "was not run: the kernel has no strict mode of seccomp".to_owned(),
        (None, code) => format!("ended with status {}", code.unwrap_or(0)),
    }
}

/// The status of a program that could not give up its privileges.
const NO_STRICT_MODE: i32 = 99;

fn failed(name: &str, what: &str, error: std::io::Error) -> Error {
    Error::new(ErrorKind::Os, format!("{name} {what}: {error}")).with_source(error)
}

fn assemble(name: &str, text: &str, object: &Path) -> Result<()> {
    run_tool(Command::new("as").arg("-o").arg(object).arg("-"), name, text)
}

/// Runs the assembler or the linker, with a text as its input.
fn run_tool(tool: &mut Command, name: &str, input: &str) -> Result<()> {
    let program = tool.get_program().to_string_lossy().into_owned();
    let missing = |error: std::io::Error| {
        failed(name, &format!("needs the program `{program}`"), error)
            .with_recovery(Recovery::fix("install the system's assembler and linker (the package binutils)"))
    };
    let tool = as_invoker(tool)?.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = tool.spawn().map_err(missing)?;
    if let Some(mut pipe) = child.stdin.take() {
        // A tool that ends early says why.
        let _ = pipe.write_all(input.as_bytes());
    }
    let out = child.wait_with_output().map_err(|error| failed(name, "was not assembled", error))?;
    if out.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    let first: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).take(3).collect();
    let text = format!("{name} was refused by `{program}`: {}", first.join("; "));
    Err(Error::new(ErrorKind::InvalidInput, text).with_recovery(Recovery::fix(
        "the file is assembly for this machine, with `.globl kernel` and the label `kernel:`",
    )))
}

/// A folder of our own, which is removed with everything in it.
struct WorkFolder(PathBuf);

impl WorkFolder {
    fn new() -> Result<WorkFolder> {
        use std::os::unix::fs::DirBuilderExt;
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("cyclometer-kernel-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        // The tools write to it with the invoker's rights, too.
        let made =
            with_rights(|| std::fs::DirBuilder::new().mode(0o700).create(&folder)).and_then(|made| made);
        made.map_err(|error| failed(&folder.display().to_string(), "cannot be made", error))?;
        Ok(WorkFolder(folder))
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        // A folder for temporary files is cleared by the system, too.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn frame_of(architecture: &str) -> Result<&'static str> {
    match architecture {
        "x86_64" => Ok(include_str!("frame_x86_64.s")),
        "aarch64" => Ok(include_str!("frame_aarch64.s")),
        other => Err(Error::new(
            ErrorKind::ArchUnsupported,
            format!("files of assembly run on x86-64 and arm64 only, and this is {other}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(text: &str) -> Result<AssembledKernel> {
        AssembledKernel::start(&AssemblyFile { name: "real.s".to_owned(), text: text.to_owned() })
    }

    /// Whether this machine can assemble x86-64.
    fn is_here() -> bool {
        let found =
            std::env::consts::ARCH == "x86_64" && Command::new("as").arg("--version").output().is_ok();
        if !found {
            cyclometer_test_support::skip("no assembler for x86-64");
        }
        found
    }

    #[test]
    fn a_function_runs_as_often_as_it_is_told_to_with_memory_of_its_own() {
        if !is_here() {
            return;
        }
        // It crashes at the fourth call.
        let text = ".globl kernel\nkernel: incl (%rdi)\ncmpl $4,(%rdi)\njne 1f\nud2\n1: ret\n";
        let mut kernel = start(text).unwrap();
        kernel.run(2).unwrap();
        kernel.run(1).unwrap();
        let error = kernel.run(1).unwrap_err().to_string();
        assert_eq!(error, "real.s: its code was killed by signal 4");
    }

    #[test]
    fn a_system_call_ends_the_process_and_names_the_file() {
        if !is_here() {
            return;
        }
        let mut kernel = start(".globl kernel\nkernel: mov $39,%eax\nsyscall\nret\n").unwrap();
        let error = kernel.run(1).unwrap_err();
        assert!(error.to_string().contains("real.s: its code was killed: it made a system call"), "{error}");
    }

    #[test]
    fn text_that_is_no_assembly_or_has_no_kernel_is_refused_in_the_words_of_the_tool() {
        if !is_here() {
            return;
        }
        let error = start("nonsense words\n").unwrap_err().to_string();
        assert!(error.starts_with("real.s was refused by `as`: ") && error.contains("nonsense"), "{error}");
        let error = start("other: ret\n").unwrap_err().to_string();
        assert!(error.starts_with("real.s was refused by `ld`: ") && error.contains("kernel"), "{error}");
    }

    #[test]
    fn no_folder_is_left() {
        let folder = WorkFolder::new().unwrap();
        let path = folder.0.clone();
        std::fs::write(path.join("file"), "text").unwrap();
        drop(folder);
        assert!(!path.exists());
    }
}
