//! Cache lines that several threads access in one window.

use std::collections::HashMap;

use super::{LINE_BYTES, MemoryAccess};

/// Fewer transfers of a line in a window are no contention.
const LEAST_TRANSFERS: u64 = 16;

/// The lines of a window.
#[derive(Debug, Default)]
pub(super) struct LineSharing {
    lines: HashMap<u64, LineState>,
}

#[derive(Debug, Default)]
struct LineState {
    last: Option<(u32, bool)>,
    /// For each thread a bit for each byte that it read and that it wrote.
    threads: HashMap<u32, (u64, u64)>,
    /// Transfers by site.
    transfers: HashMap<u64, u64>,
}

/// The bits of the bytes of a line that an access covers.
fn covered(access: &MemoryAccess) -> u64 {
    let from = access.address % LINE_BYTES;
    let bytes = access.bytes.clamp(1, LINE_BYTES - from);
    (u64::MAX >> (LINE_BYTES - bytes)) << from
}

impl LineSharing {
    /// Notes an access.
    pub(super) fn access(&mut self, thread: u32, pc: u64, access: &MemoryAccess) {
        let line = self.lines.entry(access.address / LINE_BYTES).or_default();
        let bytes = covered(access);
        let (read, written) = line.threads.entry(thread).or_default();
        match access.writes {
            true => *written |= bytes,
            false => *read |= bytes,
        }
        let is_transfer = line.last.is_some_and(|(last, wrote)| last != thread && (wrote || access.writes));
        let wrote_before = line.last.is_some_and(|(last, wrote)| last == thread && wrote);
        line.last = Some((thread, access.writes || wrote_before));
        if is_transfer {
            *line.transfers.entry(pc).or_default() += 1;
        }
    }

    /// Gives for each site of each contended line whether it is false sharing, and the transfers; forgets the
    /// window.
    pub(super) fn end_window(&mut self, mut found: impl FnMut(u64, bool, u64)) {
        for (_, line) in self.lines.drain() {
            if line.transfers.values().sum::<u64>() < LEAST_TRANSFERS {
                continue;
            }
            let is_false = line.is_false();
            line.transfers.into_iter().for_each(|(pc, transfers)| found(pc, is_false, transfers));
        }
    }
}

impl LineState {
    /// Whether no byte that one thread wrote was accessed by another.
    fn is_false(&self) -> bool {
        self.threads.iter().all(|(thread, (_, written))| {
            let others = self.threads.iter().filter(|(other, _)| *other != thread);
            others.map(|(_, (read, wrote))| read | wrote).all(|touched| touched & written == 0)
        })
    }
}
