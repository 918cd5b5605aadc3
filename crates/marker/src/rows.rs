//! The names and rows of a process.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, TryLockError};

use crate::board::{AttachedBoard, LabelAt};

/// The known names and rows.
#[derive(Debug, Default)]
pub(crate) struct Rows(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    labels: HashMap<Box<str>, LabelAt>,
    /// Rows of threads of a process that have ended.
    free: HashMap<LabelAt, Vec<usize>>,
    /// The process of these threads.
    pid: u32,
}

/// How often to try to lock data. In a forked child, the thread that holds the lock may not exist.
pub(crate) const ATTEMPTS: usize = 10_000;

impl Rows {
    fn lock(&self) -> Option<MutexGuard<'_, Known>> {
        for _ in 0..ATTEMPTS {
            match self.0.try_lock() {
                Ok(known) => return Some(known),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
        None
    }

    /// A row for a thread and a name; `None` where no row is free.
    pub(crate) fn take(
        &self,
        board: &AttachedBoard,
        (pid, tid): (u32, u32),
        label: &str,
    ) -> Option<(LabelAt, usize)> {
        let Some(mut known) = self.lock() else {
            let at = board.put_label(label)?;
            return Some((at, board.take_row(pid, tid, at)?));
        };
        let at = match known.labels.get(label) {
            Some(at) => *at,
            None => {
                let at = board.put_label(label)?;
                known.labels.insert(label.into(), at);
                at
            }
        };
        if board.is_crowded()
            && known.pid == pid
            && let Some(row) = known.free.get_mut(&at).and_then(Vec::pop)
        {
            board.take_over(row);
            return Some((at, row));
        }
        Some((at, board.take_row(pid, tid, at)?))
    }

    /// Releases the rows of a thread that has ended, so that other threads can reuse them.
    pub(crate) fn give_back(&self, pid: u32, rows: impl Iterator<Item = (LabelAt, usize)>) {
        let Some(mut known) = self.lock() else { return };
        if known.pid != pid {
            // A child must not reuse rows of its parent.
            known.free.clear();
            known.pid = pid;
        }
        rows.for_each(|(label, row)| known.free.entry(label).or_default().push(row));
    }
}
