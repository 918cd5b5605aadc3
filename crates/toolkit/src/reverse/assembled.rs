//! Kernels of the user's: assembly that runs in processes of its own.
//!
//! The system's assembler and linker make a program of a file and of a few instructions of ours. These give
//! up every privilege but reading a number, writing a byte and exiting (`seccomp(2)`, strict mode) before
//! the file's code runs. So it reaches no file, no network and no other process. It ends with the thread
//! that started it.

mod program;
mod tools;

use std::hash::{BuildHasher as _, RandomState};
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};

use cyclometer_core::{Error, ErrorKind, Recovery, Result};
use cyclometer_sys::invoker::invoker;

use tools::WorkFolder;

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
    /// The answer to the last request. A file that writes answers of its own does not know it.
    answer: u64,
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
        let at_folder = |error| failed(&file.name, "cannot be linked", error);
        let layout = folder.write("kernel.ld", program::LAYOUT).map_err(at_folder)?;
        let [frame_object, object, program] = ["frame.o", "kernel.o", "kernel"].map(|name| folder.path(name));
        for (name, text, object) in [
            ("the frame of kernels", frame, &frame_object),
            (file.name.as_str(), file.text.as_str(), &object),
        ] {
            tools::run(Command::new("as").arg("-o").arg(object).arg("-"), name, text, &folder)?;
        }
        let mut linker = Command::new("ld");
        linker.args(["-static", "-z", "noexecstack", "-T"]).arg(&layout).arg("-o").arg(&program);
        tools::run(linker.arg(&frame_object).arg(&object), &file.name, "", &folder)?;
        check(&file.name, &tools::made(&program).map_err(at_folder)?)?;
        let mut command = Command::new(&program);
        let command = as_invoker(&mut command)?.stdin(Stdio::piped()).stdout(Stdio::piped());
        let started = command.stderr(Stdio::null()).env_clear().spawn();
        let child = started.map_err(|error| failed(&file.name, "cannot be started", error))?;
        Ok(AssembledKernel { name: file.name.clone(), child, answer: RandomState::new().hash_one(0) })
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
    /// A program that has ended, with the signal, and one that has written to its standard output itself.
    pub(super) fn run(&mut self, times: u64) -> Result<()> {
        self.answer = self.answer.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let request = [times.to_ne_bytes(), self.answer.to_ne_bytes()];
        let mut answer = [0; 8];
        let asked = self.child.stdin.as_mut().map(|pipe| pipe.write_all(request.as_flattened()));
        let answered = self.child.stdout.as_mut().map(|pipe| pipe.read_exact(&mut answer));
        match (asked, answered) {
            (Some(Ok(())), Some(Ok(()))) if u64::from_ne_bytes(answer) == self.answer => Ok(()),
            (Some(Ok(())), Some(Ok(()))) => Err(wrote(&self.name)),
            _ => Err(self.died()),
        }
    }

    fn died(&mut self) -> Error {
        let name = &self.name;
        match self.child.wait() {
            Ok(status) => Error::new(ErrorKind::InvalidInput, format!("{name}: its code {}", end_of(status)))
                .with_recovery(Recovery::fix(PERMITTED)),
            Err(error) => failed(name, "cannot be waited for", error),
        }
    }
}

/// The permitted work of a file's code.
const PERMITTED: &str =
    "the function `kernel` may compute, use the stack and the memory at its argument, and must return";

fn wrote(name: &str) -> Error {
    let text = format!("{name}: its code wrote to the standard output, so that its runs cannot be counted");
    Error::new(ErrorKind::InvalidInput, text).with_recovery(Recovery::fix(PERMITTED))
}

/// Refuses a program that does not begin with the frame.
fn check(name: &str, program: &[u8]) -> Result<()> {
    program::check(program).map_err(|why| {
        let text = format!("{name}: its program is not started: {why}");
        Error::new(ErrorKind::InvalidInput, text).with_recovery(Recovery::fix(
            "use the linker of GNU binutils as `ld`, and sections for code and data only",
        ))
    })
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

fn frame_of(architecture: &str) -> Result<&'static str> {
    match architecture {
        "x86_64" => Ok(include_str!("assembled/frame_x86_64.s")),
        "aarch64" => Ok(include_str!("assembled/frame_aarch64.s")),
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
    fn a_section_that_names_an_interpreter_starts_no_other_program() {
        if !is_here() {
            return;
        }
        let text = ".section .interp,\"a\"\n.string \"/bin/true\"\n.text\n.globl kernel\nkernel: ret\n";
        let mut kernel = start(text).unwrap();
        // `/bin/true` would not answer.
        kernel.run(3).unwrap();
        let folder = WorkFolder::new().unwrap();
        let (object, program) = (folder.path("kernel.o"), folder.path("kernel"));
        tools::run(Command::new("as").arg("-o").arg(&object).arg("-"), "real.s", text, &folder).unwrap();
        let mut linker = Command::new("ld");
        linker.args(["-static", "-e", "kernel", "-o"]).arg(&program).arg(&object);
        tools::run(&mut linker, "real.s", "", &folder).unwrap();
        let error = check("real.s", &tools::made(&program).unwrap()).unwrap_err().to_string();
        let said = "real.s: its program is not started: it has a program header of type";
        assert!(error.starts_with(said), "{error}");
    }

    #[test]
    fn a_long_file_of_bad_lines_is_refused_in_few_words() {
        if !is_here() {
            return;
        }
        let line = "bogus words here\n";
        let error = start(&line.repeat(MAX_ASSEMBLY_BYTES / line.len())).unwrap_err().to_string();
        assert!(error.starts_with("real.s was refused by `as`: ") && error.contains("bogus"), "{error}");
        assert!(error.len() < 1000, "{}", error.len());
    }

    #[test]
    fn a_file_that_asks_for_a_large_object_is_refused() {
        if !is_here() {
            return;
        }
        let error = start(".globl kernel\nkernel: ret\n.fill 0x40000000,1,0x90\n").unwrap_err();
        assert!(error.to_string().contains("`as`"), "{error}");
    }

    #[test]
    fn code_that_writes_answers_of_its_own_is_an_error() {
        if !is_here() {
            return;
        }
        let write = "mov $1,%eax\nmov $1,%edi\nlea kernel(%rip),%rsi\nmov $1,%edx\nsyscall\nret\n";
        let mut kernel = start(&format!(".globl kernel\nkernel: {write}")).unwrap();
        let error = kernel.run(1).unwrap_err().to_string();
        assert!(error.starts_with("real.s: its code wrote to the standard output"), "{error}");
    }
}
