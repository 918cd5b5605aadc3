//! Whether a signal went to our whole process group.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the kernel may take to deliver a signal to one member of a group after another.
const PATIENCE: Duration = Duration::from_millis(20);

/// How often to look meanwhile.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// Looks at the helper, which is in our process group and lets the signals of terminals and shells pend: what
/// pends there went to the whole group.
#[derive(Clone, Debug, Default)]
pub struct Witness {
    /// `/proc/PID/status` of the helper; it reads as an error when the helper has gone, even if its id is
    /// somebody else's by then.
    status: Option<Arc<File>>,
}

impl Witness {
    /// One that looks at the helper with this id.
    pub(super) fn of(helper: u32) -> Witness {
        Witness { status: File::open(format!("/proc/{helper}/status")).ok().map(Arc::new) }
    }

    /// Whether a signal that has just come to us went to our whole process group: to be asked at once. `None`
    /// without a helper.
    ///
    /// Takes up to 20 ms to say no. A signal that went to the group before still pends: a later one of the same
    /// number counts as sent to the group as well.
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

/// The signals that pend for a process or its thread.
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
