//! Messages for the errors with which the kernel refuses to execute a command.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cyclometer_core::{Error, ErrorKind, Recovery, Result};
use cyclometer_sys::process::errno;

/// Longest name that a message shows, in characters.
const SHOWN_CHARS: usize = 200;

/// A name for a message: control characters escaped, not too long.
pub(crate) fn shown(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    let mut text = String::new();
    for c in name.chars().take(SHOWN_CHARS) {
        if c.is_control() { text.extend(c.escape_default()) } else { text.push(c) }
    }
    if name.chars().nth(SHOWN_CHARS).is_some() {
        text.push('…');
    }
    text
}

/// The process for the command could not be created.
pub(super) fn spawning(program: &OsStr, e: io::Error) -> Error {
    let message = format!("cannot make a process for '{}': {e}", shown(program));
    let kind = if e.kind() == io::ErrorKind::InvalidInput { ErrorKind::InvalidInput } else { ErrorKind::Os };
    Error::new(kind, message).with_source(e)
}

/// The process could not execute the command.
pub(super) fn executing(program: &OsStr, e: io::Error) -> Error {
    let name = shown(program);
    let (kind, message, hint) = match e.raw_os_error() {
        Some(errno::ENOENT) if exists(program) => (
            ErrorKind::CommandNotExecutable,
            format!("command '{name}' cannot be executed: its interpreter does not exist"),
            "check the path behind #! in its first line, or the loader that it was linked for".to_owned(),
        ),
        Some(errno::ENOENT) => not_found(program),
        // The kernel returns this for a folder of PATH that may not be searched, or is no folder.
        Some(errno::EACCES | errno::ENOTDIR) if !has_slash(program) && !exists(program) => not_found(program),
        Some(errno::EACCES) if Path::new(program).is_dir() => (
            ErrorKind::CommandNotExecutable,
            format!("command '{name}' cannot be executed: it is a directory"),
            "name a program".to_owned(),
        ),
        // The kernel returns the error of the interpreter, which is a folder or has no execute permission.
        Some(errno::EACCES) if is_executable_script(program) => (
            ErrorKind::CommandNotExecutable,
            format!("command '{name}' cannot be executed: its interpreter cannot be executed"),
            "check the path behind #! in its first line".to_owned(),
        ),
        Some(errno::EACCES) => (
            ErrorKind::CommandNotExecutable,
            format!("command '{name}' cannot be executed: permission denied"),
            format!("make it executable: chmod +x {name}"),
        ),
        Some(errno::ENOEXEC) => (
            ErrorKind::CommandNotExecutable,
            format!("command '{name}' is neither a program for this machine nor a script with a #! line"),
            format!("run a script by its interpreter: sh {name}"),
        ),
        Some(errno::E2BIG) => (
            ErrorKind::CommandNotExecutable,
            format!("command '{name}' cannot be executed: its arguments and environment are too long"),
            "pass fewer or shorter arguments; `getconf ARG_MAX` is the limit in bytes".to_owned(),
        ),
        _ => (
            ErrorKind::CommandNotExecutable,
            format!("command '{name}' cannot be executed: {e}"),
            "check the path".to_owned(),
        ),
    };
    Error::new(kind, message).with_recovery(Recovery::fix(hint)).with_source(e)
}

/// Whether the program exists, at its path or in a folder of `PATH`.
fn exists(program: &OsStr) -> bool {
    found(program).is_some()
}

/// Checks that the program of a command exists, before anything is executed. Whether it can be executed shows
/// when it is.
///
/// # Errors
///
/// `ErrorKind::CommandNotFound`, as for a command that is executed.
pub fn check_program(program: &OsStr) -> Result<()> {
    let is_absent = match has_slash(program) {
        // A folder that may not be searched is no proof.
        true => matches!(Path::new(program).try_exists(), Ok(false)),
        false => !exists(program),
    };
    if !is_absent {
        return Ok(());
    }
    let (kind, message, hint) = not_found(program);
    Err(Error::new(kind, message).with_recovery(Recovery::fix(hint)))
}

fn found(program: &OsStr) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    match has_slash(program) {
        // No folder has a file without a name.
        _ if program.is_empty() => None,
        true => Some(PathBuf::from(program)).filter(|path| path.exists()),
        false => std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.exists()),
    }
}

/// Whether the program is a file that has execute permission and begins with `#!`.
fn is_executable_script(program: &OsStr) -> bool {
    let begins = |path: PathBuf| {
        let mut file = File::open(path).ok()?;
        let is_executable = file.metadata().ok()?.permissions().mode() & 0o111 != 0;
        let mut first = [0; 2];
        file.read_exact(&mut first).ok()?;
        Some(is_executable && first == *b"#!")
    };
    found(program).and_then(begins).unwrap_or(false)
}

fn has_slash(program: &OsStr) -> bool {
    program.as_encoded_bytes().contains(&b'/')
}

fn not_found(program: &OsStr) -> (ErrorKind, String, String) {
    let message = format!("command '{}' not found", shown(program));
    (ErrorKind::CommandNotFound, message, not_found_hint(program))
}

fn not_found_hint(program: &OsStr) -> String {
    let name = shown(program);
    if has_slash(program) {
        "check the path: there is no such file".to_owned()
    } else if Path::new(program).is_file() {
        format!("write ./{name} for the file in this directory")
    } else if let Some((word, _)) = name.split_once(' ') {
        format!(
            "pass the program and its arguments as separate words: {word} …; or run a shell: sh -c '{name}'"
        )
    } else {
        "check the spelling, or give a path: it is in no folder of PATH".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(program: &str, errno: i32, kind: ErrorKind, message: &str, hint: &str) {
        let error = executing(program.as_ref(), io::Error::from_raw_os_error(errno));
        assert_eq!(error.kind(), kind);
        assert_eq!(error.to_string(), message);
        assert!(error.recovery().to_string().contains(hint), "{}", error.recovery());
    }

    #[test]
    fn every_way_to_fail_has_its_words_and_a_hint() {
        let (absent, unfit) = (ErrorKind::CommandNotFound, ErrorKind::CommandNotExecutable);
        check("foo", errno::ENOENT, absent, "command 'foo' not found", "PATH");
        check("ls -l", errno::ENOENT, absent, "command 'ls -l' not found", "sh -c 'ls -l'");
        check("", errno::ENOENT, absent, "command '' not found", "PATH");
        check("./foo", errno::ENOENT, absent, "command './foo' not found", "no such file");
        check("Cargo.toml", errno::ENOENT, absent, "command 'Cargo.toml' not found", "./Cargo.toml");
        check("/", errno::EACCES, unfit, "command '/' cannot be executed: it is a directory", "program");
        let message = "command './f' cannot be executed: permission denied";
        check("./f", errno::EACCES, unfit, message, "chmod +x ./f");
        check("foo", errno::EACCES, absent, "command 'foo' not found", "PATH");
        let message = "command './Cargo.toml' cannot be executed: its interpreter does not exist";
        check("./Cargo.toml", errno::ENOENT, unfit, message, "#!");
    }

    #[test]
    fn a_program_that_does_not_exist_is_found_missing_before_it_is_executed() {
        for program in ["sh", "/bin/sh", "./Cargo.toml", "src"] {
            let found = check_program(program.as_ref());
            assert_eq!(found.is_ok(), program != "src", "{program}: {found:?}");
        }
        for program in ["no_such_program", "./no_such_program", "/no/such/program", ""] {
            let error = check_program(program.as_ref()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CommandNotFound, "{program}");
            let executed = executing(program.as_ref(), io::Error::from_raw_os_error(errno::ENOENT));
            assert_eq!((error.to_string(), error.recovery()), (executed.to_string(), executed.recovery()));
        }
    }

    #[test]
    fn a_script_that_may_be_executed_is_not_to_be_made_executable() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        let remedy = |text: &str, mode: u32| {
            std::fs::write(&script, text).unwrap();
            std::fs::set_permissions(&script, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = executing(script.as_os_str(), io::Error::from_raw_os_error(errno::EACCES));
            error.recovery().to_string()
        };
        for text in ["#!", "#!/\n", "#!/etc/passwd\n"] {
            assert!(remedy(text, 0o755).contains("behind #!"), "{text}");
            assert!(remedy(text, 0o644).contains("chmod +x"), "{text}");
        }
        assert!(remedy("", 0o755).contains("chmod +x"));
    }

    #[test]
    fn control_characters_of_a_name_do_not_reach_the_terminal() {
        assert_eq!(shown(OsStr::new("a\x1b[2Jé\n")), "a\\u{1b}[2Jé\\n");
        assert_eq!(shown(OsStr::new(&"x".repeat(300))).chars().count(), SHOWN_CHARS + 1);
    }
}
