//! Detects whether a signal was sent to our whole process group.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest time that the kernel may take to deliver a signal to all members of a group.
const PATIENCE: Duration = Duration::from_millis(20);

/// The interval of checks meanwhile.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// Reads the pending signals of the helper, which is in our process group and lets the signals of terminals
/// and shells pend. Signals that pend there were sent to the whole group.
#[derive(Clone, Debug, Default)]
pub struct Witness {
    /// `/proc/PID/status` of the helper. Reading it fails when the helper has gone, even if another process
    /// has its id by then.
    status: Option<Arc<File>>,
}

impl Witness {
    /// A witness for the helper with this id.
    pub(super) fn of(helper: u32) -> Witness {
        Witness { status: File::open(format!("/proc/{helper}/status")).ok().map(Arc::new) }
    }

    /// Whether a signal that we have just received was sent to our whole process group; call it at once.
    /// `None` without a helper.
    ///
    /// A negative answer takes up to 20 ms. A signal that was sent to the group earlier still pends. A later
    /// one of the same number therefore counts as sent to the group as well.
    ///
    /// # Source
    ///
    /// `proc_pid_status(5)`, `SigPnd`, `ShdPnd`; `kill(2)` of a group visits its members in turn.
    pub fn saw(&self, signal: i32) -> Option<bool> {
        let late = Instant::now() + PATIENCE;
        while !self.pends(signal)? {
            if Instant::now() >= late {
                return Some(false);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Some(true)
    }

    fn pends(&self, signal: i32) -> Option<bool> {
        let mut bytes = [0; 8192];
        let length = self.status.as_ref()?.read_at(&mut bytes, 0).ok()?;
        let set = pending(bytes.get(..length)?)?;
        let bit = u32::try_from(signal - 1).ok().and_then(|n| 1u64.checked_shl(n))?;
        Some(set & bit != 0)
    }
}

/// The pending signals of a process or its thread.
fn pending(status: &[u8]) -> Option<u64> {
    let set = |name: &[u8]| {
        let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(std::str::from_utf8(line).ok()?.trim(), 16).ok()
    };
    Some(set(b"SigPnd:")? | set(b"ShdPnd:")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pends_for_the_thread_and_the_process_pends() {
        let status =
            b"Name:\tx\nSigQ:\t0/9\nSigPnd:\t0000000000000001\nShdPnd:\t0000000000000002\nSigBlk:\t0000\n";
        assert_eq!(pending(status), Some(3));
        assert_eq!(pending(b"Name:\tx\n"), None);
    }

    #[test]
    fn nobody_saw_anything_without_a_helper() {
        assert_eq!(Witness::default().saw(2), None);
        assert_eq!(Witness::of(u32::MAX).saw(2), None);
    }
}
