//! The system's assembler and linker, with limits, in a folder of their own.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind as IoKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cyclometer_core::{Error, ErrorKind, Recovery, Result};
use cyclometer_sys::invoker::with_rights;
use cyclometer_sys::process::ToolLimits;

use super::{as_invoker, failed};

/// The limits of the assembler and of the linker: few lines of assembly can ask for much.
const LIMITS: ToolLimits = ToolLimits { memory_bytes: 1 << 30, file_bytes: 64 << 20, cpu_seconds: 15 };

/// The longest time that a tool may take.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// How much of a tool's messages is read, in bytes.
const MESSAGE_BYTES: u64 = 16 << 10;

/// How often folders of this name exist before none is made.
const MOST_FOLDERS: u32 = 1000;

/// Runs the assembler or the linker, with a text as its input.
///
/// # Errors
///
/// A missing tool, its refusal in its own words, and a tool that reaches a limit.
pub(super) fn run(tool: &mut Command, name: &str, input: &str, folder: &WorkFolder) -> Result<()> {
    let program = tool.get_program().to_string_lossy().into_owned();
    let at_folder = |error| failed(name, "cannot be given to the tools", error);
    // Files in place of pipes: a tool that writes while it is written to would wait forever.
    let input = folder.file("input", input).map_err(at_folder)?;
    let messages = folder.file("messages", "").map_err(at_folder)?;
    let errors = messages.try_clone().map_err(at_folder)?;
    let tool = as_invoker(tool)?.stdin(input).stdout(Stdio::null()).stderr(errors);
    LIMITS.apply(tool);
    let child = tool.spawn().map_err(|error| {
        failed(name, &format!("needs the program `{program}`"), error)
            .with_recovery(Recovery::fix("install the system's assembler and linker (the package binutils)"))
    })?;
    let ended = wait_within(child, TIME_LIMIT).map_err(|error| failed(name, "was not assembled", error))?;
    let why = match ended {
        Some(status) if status.success() => return Ok(()),
        None => {
            return Err(unlimited(name, &program, &format!("did not end within {} s", TIME_LIMIT.as_secs())));
        }
        Some(status) => match status.signal() {
            Some(signal) => {
                return Err(unlimited(name, &program, &format!("was ended by signal {signal}")));
            }
            None => first_lines(messages).map_err(at_folder)?,
        },
    };
    let text = format!("{name} was refused by `{program}`: {why}");
    Err(Error::new(ErrorKind::InvalidInput, text).with_recovery(Recovery::fix(
        "the file is assembly for this machine, with `.globl kernel` and the label `kernel:`",
    )))
}

fn unlimited(name: &str, program: &str, what: &str) -> Error {
    let text = format!("{name}: `{program}` {what}");
    let ToolLimits { memory_bytes, file_bytes, cpu_seconds } = LIMITS;
    Error::new(ErrorKind::InvalidInput, text).with_recovery(Recovery::fix(format!(
        "shorten its repetitions (.rept, .fill, macros): the tools have {cpu_seconds} s, {} MiB of memory, \
         and {} MiB for a file",
        memory_bytes >> 20,
        file_bytes >> 20
    )))
}

/// Waits for a child; one that takes longer is killed, and `None` is returned.
fn wait_within(mut child: Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let end = Instant::now() + limit;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= end {
            // A child that has ended meanwhile is only reaped.
            let _ = child.kill();
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// The first lines that a tool has written, in one.
fn first_lines(mut messages: File) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    messages.seek(SeekFrom::Start(0))?;
    messages.take(MESSAGE_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(3).collect();
    Ok(lines.join("; "))
}

/// A folder of our own, which is removed with everything in it.
pub(super) struct WorkFolder(PathBuf);

impl WorkFolder {
    /// A new folder. It belongs to the invoker, with whose rights the tools run.
    pub(super) fn new() -> Result<WorkFolder> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let path = || {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            std::env::temp_dir().join(format!("cyclometer-kernel-{}-{number}", std::process::id()))
        };
        WorkFolder::first_free(path)
    }

    /// The first folder of these that does not exist: another process of the same number may have left some.
    fn first_free(mut path: impl FnMut() -> PathBuf) -> Result<WorkFolder> {
        let mut folder = path();
        for _ in 0..MOST_FOLDERS {
            let made = with_rights(|| DirBuilder::new().mode(0o700).create(&folder)).and_then(|made| made);
            match made {
                Ok(()) => return Ok(WorkFolder(folder)),
                Err(error) if error.kind() == IoKind::AlreadyExists => folder = path(),
                Err(error) => return Err(failed(&folder.display().to_string(), "cannot be made", error)),
            }
        }
        let text = format!("{} and {MOST_FOLDERS} folders before it exist", folder.display());
        Err(Error::new(ErrorKind::Os, text)
            .with_recovery(Recovery::fix("remove the folders of that name, or set TMPDIR to another folder")))
    }

    /// The path of a file in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A file with a text, which is read from its begin.
    fn file(&self, name: &str, text: &str) -> std::io::Result<File> {
        let path = self.path(name);
        let open = || OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path);
        let mut file = with_rights(open).and_then(|opened| opened)?;
        file.write_all(text.as_bytes())?;
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    }

    /// Writes a text to a file, whose path is returned.
    pub(super) fn write(&self, name: &str, text: &str) -> std::io::Result<PathBuf> {
        self.file(name, text).map(|_| self.path(name))
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        // A folder for temporary files is cleared by the system, too.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The bytes of a file that a tool has made.
pub(super) fn made(path: &Path) -> std::io::Result<Vec<u8>> {
    let file = with_rights(|| File::open(path)).and_then(|opened| opened)?;
    let mut bytes = Vec::new();
    file.take(LIMITS.file_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_folder_is_left() {
        let folder = WorkFolder::new().unwrap();
        let path = folder.0.clone();
        std::fs::write(path.join("file"), "text").unwrap();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_that_exists_is_left_alone_and_the_next_number_is_taken() {
        let parent = WorkFolder::new().unwrap();
        std::fs::create_dir(parent.path("0")).unwrap();
        let mut number = 0..;
        let folder = WorkFolder::first_free(|| parent.path(&number.next().unwrap().to_string())).unwrap();
        assert_eq!(folder.0, parent.path("1"));
        drop(folder);
        assert!(parent.path("0").exists() && !parent.path("1").exists());
        let error = WorkFolder::first_free(|| parent.path("0")).err().unwrap();
        assert!(error.recovery().to_string().contains("TMPDIR"), "{}", error.recovery());
    }

    #[test]
    fn a_tool_that_does_not_end_is_killed() {
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        assert!(wait_within(child, Duration::from_millis(20)).unwrap().is_none());
        let child = Command::new("true").spawn().unwrap();
        assert!(wait_within(child, Duration::from_secs(1000)).unwrap().unwrap().success());
    }

    #[test]
    fn a_missing_tool_is_named_with_its_package() {
        let folder = WorkFolder::new().unwrap();
        let error = run(&mut Command::new("no-such-assembler"), "real.s", "", &folder).unwrap_err();
        assert!(error.to_string().contains("real.s needs the program `no-such-assembler`"), "{error}");
        assert!(error.recovery().to_string().contains("binutils"), "{}", error.recovery());
    }
}
