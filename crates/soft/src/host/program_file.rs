//! Whether a program can be followed, by its file.

use std::fs::{self, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cyclometer_sys::trace;

/// Scripts whose interpreters are scripts are followed this far, as the kernel does.
const MOST_INTERPRETERS: usize = 5;

/// Bytes of a script's first line that the kernel reads.
///
/// # Source
///
/// `execve(2)`, "Interpreter scripts".
const FIRST_LINE: usize = 255;

/// The reason why a program that a stopped process executes cannot be followed, in words that follow "the
/// program". `None` where it can, or where the kernel will refuse it.
pub(crate) fn unfollowable(tid: u32, folder: Option<i32>, path: u64) -> Option<String> {
    let root = format!("/proc/{tid}/root");
    refusal(&opened(tid, folder, path)?, Path::new(&root), &format!("/proc/{tid}/cwd"))
}

/// The path at an address, as the tracer sees it. It is relative to a descriptor, or to the working directory
/// for `None`.
pub(crate) fn opened(tid: u32, folder: Option<i32>, path: u64) -> Option<PathBuf> {
    let path = read_path(tid, path)?;
    // In the tracer these paths would name the tracer.
    for own in ["/proc/self", "/proc/thread-self"] {
        if let Ok(rest) = path.strip_prefix(own) {
            return Some(Path::new(&format!("/proc/{tid}")).join(rest));
        }
    }
    let start = match folder {
        _ if path.is_absolute() => PathBuf::from(format!("/proc/{tid}/root")),
        Some(descriptor) if descriptor >= 0 => PathBuf::from(format!("/proc/{tid}/fd/{descriptor}")),
        _ => PathBuf::from(format!("/proc/{tid}/cwd")),
    };
    Some(start.join(path.strip_prefix("/").unwrap_or(&path)))
}

/// The reason why a command cannot be followed from the start, in words that follow "the program"; `None`
/// where it can.
pub fn refuses(file: &Path) -> Option<String> {
    refusal(file, Path::new("/"), ".")
}

fn refusal(file: &Path, root: &Path, working: &str) -> Option<String> {
    let mut file = file.to_owned();
    for _ in 0..MOST_INTERPRETERS {
        let metadata = fs::metadata(&file).ok().filter(Metadata::is_file)?;
        let head = first_bytes(&file);
        let Some(script) = head.strip_prefix(b"#!") else {
            return by_rights(&metadata, &file).or_else(|| by_format(&head));
        };
        let interpreter = Path::new(std::ffi::OsStr::from_bytes(interpreter(script)?)).to_owned();
        file = match interpreter.strip_prefix("/") {
            Ok(inside) => root.join(inside),
            Err(_) => Path::new(working).join(&interpreter),
        };
    }
    None
}

fn interpreter(line: &[u8]) -> Option<&[u8]> {
    let line = line.split(|byte| *byte == b'\n').next()?;
    line.split(|byte| matches!(byte, b' ' | b'\t')).find(|word| !word.is_empty())
}

/// Opens without blocking: the file may have become a pipe meanwhile.
///
/// # Source
///
/// `open(2)`; Linux `include/uapi/asm-generic/fcntl.h`.
fn first_bytes(file: &Path) -> Vec<u8> {
    const O_NONBLOCK: i32 = 0o4000;
    let mut bytes = vec![0; FIRST_LINE];
    // A file that cannot be read may be executable. Then its memory cannot be read, and it is detached.
    let opened = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(file);
    let count = opened.and_then(|mut file| file.read(&mut bytes)).unwrap_or(0);
    bytes.truncate(count);
    bytes
}

/// The kernel gives a traced process no rights that its file would give it, unless the tracer has them all.
fn by_rights(metadata: &Metadata, file: &Path) -> Option<String> {
    const SET_USER: u32 = 0o4000;
    const SET_GROUP: u32 = 0o2010;
    let mode = metadata.mode();
    let special = mode & SET_USER != 0 || mode & SET_GROUP == SET_GROUP;
    let capable = may_trace_all();
    if special && !capable {
        return Some(format!("executes a set-user-id or set-group-id file ({})", shown(file)));
    }
    let capabilities = !capable && cyclometer_sys::filesystem::has_capabilities(file);
    capabilities.then(|| format!("executes a file with capabilities ({})", shown(file)))
}

/// Whether this process has `CAP_SYS_PTRACE`. It does not change its capabilities, so it asks once.
///
/// # Source
///
/// `proc(5)`, `/proc/pid/status`: `CapEff`; Linux `include/uapi/linux/capability.h`.
fn may_trace_all() -> bool {
    const CAP_SYS_PTRACE: u32 = 19;
    static MAY_TRACE: OnceLock<bool> = OnceLock::new();
    *MAY_TRACE.get_or_init(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let mask = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        mask >> CAP_SYS_PTRACE & 1 == 1
    })
}

/// # Source
///
/// `elf(5)`: the class is byte 4, the machine bytes 18 and 19.
fn by_format(head: &[u8]) -> Option<String> {
    const CLASS_64: u8 = 2;
    const X86_64: u16 = 62;
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    let machine = head.get(18..20).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
    match (head.get(4), machine) {
        (Some(&CLASS_64), Some(X86_64)) => None,
        (Some(1), Some(3 | X86_64)) => Some("executes a 32-bit program".to_owned()),
        _ => Some("executes a program of another architecture".to_owned()),
    }
}

/// The file's name, as it is shown to people.
fn shown(file: &Path) -> String {
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// A path in the memory of a stopped process.
fn read_path(tid: u32, address: u64) -> Option<PathBuf> {
    let mut path = Vec::new();
    while path.len() < 4096 {
        let at = address.checked_add(path.len() as u64)?;
        let mut bytes = vec![0; 4096 - (at % 4096) as usize];
        let count = trace::read_memory(tid, at, &mut bytes).ok()?;
        bytes.truncate(count);
        if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
            path.extend_from_slice(&bytes[..end]);
            return Some(PathBuf::from(std::ffi::OsStr::from_bytes(&path)));
        }
        path.extend_from_slice(&bytes);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_nobody_writes_to_has_no_first_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(first_bytes(&pipe)));
        let got = receiver.recv_timeout(std::time::Duration::from_secs(300));
        assert_eq!(got, Ok(Vec::new()));
    }
}
