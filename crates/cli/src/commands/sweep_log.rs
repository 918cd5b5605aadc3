//! Progress and journal of a sweep, and its extent before it is made.

use cyclometer_toolkit::Result;
use cyclometer_toolkit::reverse::{ReverseObserver, SweepMachine, SweepOptions};
use cyclometer_toolkit::sweep::{JournalHeader, SweepProgress, SweptCode};

use super::sweep_journal::JournalFile;
use crate::args::ReverseArgs;
use crate::progress::Progress;
use crate::render::reversed;

/// The extent of a sweep, with its time on a real machine.
///
/// # Errors
///
/// Those of [`SweepMachine::time`].
pub fn dry_run(
    machine: &SweepMachine,
    codes: &[u32],
    is_usual: bool,
    options: &SweepOptions,
) -> Result<String> {
    let time = if machine.is_simulated() { None } else { Some(machine.time(&options.settings)?) };
    let codes: Vec<u32> = codes.iter().copied().filter(|code| !options.denied.contains(code)).collect();
    Ok(reversed::dry_run(machine, &codes, is_usual, &options.settings, time))
}

/// Shows progress, and writes the journal.
pub struct SweepLog {
    progress: Progress,
    journal: Option<JournalFile>,
}

impl SweepLog {
    /// The log of a sweep of so many codes; `resumed` is the journal that it goes on with.
    ///
    /// # Errors
    ///
    /// A journal that cannot be made.
    pub fn begin(args: &ReverseArgs, resumed: Option<JournalFile>, codes: usize) -> Result<SweepLog> {
        let new = args.journal.as_deref().map(JournalFile::create).transpose()?;
        let total = u32::try_from(codes).unwrap_or(u32::MAX);
        let progress = Progress::of_codes(total, super::shows_progress());
        Ok(SweepLog { progress, journal: new.or(resumed) })
    }
}

impl ReverseObserver for SweepLog {
    fn begins(&mut self, header: &JournalHeader) -> Result<()> {
        self.journal.as_mut().map_or(Ok(()), |journal| journal.begin(header))
    }

    fn swept(&mut self, code: &SweptCode, is_new: bool, progress: SweepProgress) -> Result<()> {
        if let Some(journal) = self.journal.as_mut().filter(|_| is_new) {
            journal.code(code)?;
        }
        self.searched(progress);
        Ok(())
    }

    fn searched(&mut self, progress: SweepProgress) {
        self.progress.advance(u32::try_from(progress.done).unwrap_or(u32::MAX));
    }
}
