//! Exit codes: their meaning, and the errors that lead to them.

use cyclometer_toolkit::core::exec::ExitStatus;
use cyclometer_toolkit::core::{Error, ErrorKind};

/// Everything went well.
pub const OK: u8 = 0;
/// `selftest`: an event contradicted a known count.
pub const UNTRUE: u8 = 1;
/// `compare`: a condition of `--fail-if` holds, or outputs differ.
pub const GATE: u8 = 1;
/// `--strict`, and a value is not exact.
pub const STRICT: u8 = 124;
/// cyclometer failed, or the arguments are invalid.
pub const FAILURE: u8 = 125;
/// The command cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// The command does not exist.
pub const NOT_FOUND: u8 = 127;

/// The table of exit codes, as `--help` and the manual page give it.
pub const TABLE: &str = "\
Exit status:
  0        all went well
  1        of compare: a condition of --fail-if holds, or outputs differ
  n        the command exited with status n
  128 + n  signal n ended the command, or cut several runs short
  124      --strict was given, and a value is not exact
  125      cyclometer failed, or its arguments are invalid
  126      the command cannot be executed
  127      the command does not exist";

/// The exit code of an error.
pub fn of_error(error: &Error) -> u8 {
    match error.kind() {
        ErrorKind::CommandNotFound => NOT_FOUND,
        ErrorKind::CommandNotExecutable => NOT_EXECUTABLE,
        _ => FAILURE,
    }
}

/// The exit code that passes on how a command ended, as a shell does.
pub fn of_status(status: ExitStatus) -> u8 {
    u8::try_from(status.shell_code()).unwrap_or(u8::MAX)
}

/// The exit code after a signal to us: that of the only run if there was one and it ended by itself.
pub fn of_interrupted(signal: i32, only_run: Option<ExitStatus>) -> u8 {
    of_status(only_run.unwrap_or(ExitStatus::Signal(signal)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_codes_of_a_shell() {
        for (kind, code) in [
            (ErrorKind::CommandNotFound, 127),
            (ErrorKind::CommandNotExecutable, 126),
            (ErrorKind::UnknownEvent, 125),
            (ErrorKind::InvalidInput, 125),
            (ErrorKind::Io, 125),
        ] {
            assert_eq!(of_error(&Error::new(kind, "x")), code, "{kind:?}");
        }
    }

    #[test]
    fn the_status_of_a_command_is_passed_on() {
        assert_eq!(of_status(ExitStatus::Code(7)), 7);
        assert_eq!(of_status(ExitStatus::Signal(9)), 137);
        assert_eq!(of_interrupted(2, None), 130);
        assert_eq!(of_interrupted(2, Some(ExitStatus::Code(0))), 0);
        assert_eq!(of_interrupted(2, Some(ExitStatus::Signal(15))), 143);
    }
}
