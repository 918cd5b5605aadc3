//! Identities of processes and boots.

use std::fs;
use std::io;

use crate::registers::journal::Process;

/// This process.
///
/// # Errors
///
/// `/proc` cannot be read, or belongs to another PID namespace: a journal would then name an unrelated
/// process.
pub(super) fn this() -> io::Result<Process> {
    cyclometer_sys::process::check_process_list()?;
    let pid = std::process::id();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let started = started(&stat).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Process { pid, started })
}

/// The process that has that id now.
pub(super) fn with_id(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(Process { pid, started: started(&stat)? })
}

/// Whether a process runs. A zombie does not.
pub(super) fn runs(process: Process) -> bool {
    with_id(process.pid) == Some(process)
}

/// The id of this boot.
///
/// # Errors
///
/// `/proc` cannot be read.
///
/// # Source
///
/// `random(4)`, `/proc/sys/kernel/random/boot_id`.
pub(super) fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// When a process was started, in clock ticks since the boot; `None` for one that has ended.
///
/// # Source
///
/// `proc_pid_stat(5)`: fields 3 (state) and 22 (starttime); the name before may have blanks and brackets.
fn started(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let started = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X" | "x")).then_some(started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_run_and_a_process_that_was_started_at_another_time_does_not() {
        let this = this().unwrap();
        assert!(runs(this));
        assert!(!runs(Process { started: this.started + 1, ..this }));
        assert!(!runs(Process { pid: 0x7fff_fff0, started: 0 }));
    }

    #[test]
    fn the_name_of_a_process_does_not_shift_the_fields() {
        let rest = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21";
        assert_eq!(started(&format!("12 (a) S 3) R {rest}")), Some(4711));
        assert_eq!(started(&format!("12 (a) Z {rest}")), None);
        assert_eq!(started("12 (a"), None);
        assert_eq!(started("12 (a) R 1 2"), None);
    }

    #[test]
    fn a_boot_has_a_name_that_a_journal_can_hold() {
        let boot = boot().unwrap();
        assert_eq!((boot.len(), boot.matches('-').count()), (36, 4), "{boot}");
    }
}
