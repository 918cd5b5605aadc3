//! The host of translated programs on Linux: a keeper process that traces them.
//!
//! ```text
//! a stop ──engine──> own stop: translate, link, go on       (code, space)
//!                    signal: to the handler and back         (signals, surface; in time to go on: pace)
//!                    system call: by what it means to us     (calls, file, listing)
//!                    birth, exec, end                        (births, exits, threads, process, ledger)
//!                    translations of programs that come again (sharing, common, claims)
//!                    what earlier runs have executed         (hints, folder)
//!                    what earlier runs have translated       (kept, trust)
//!                    a limit on its addresses                (limits)
//!                    a request for counts                   (reading, protocol; of a thread for its own: own_counts)
//! ```
//!
//! Nothing of the program waits for anything but its own stops. What cannot be followed *leaves*: it goes on in its own
//! code, untraced, and its counts are lost, with the reason.

mod address_limits;
mod cache_flush;
mod cache_folder;
mod claims;
mod code_cache;
mod code_reader;
mod cpu_affinity;
mod cpu_queries;
mod equivalent_blocks;
mod exits;
mod forks;
mod instruction_counts;
mod ledger;
mod maps;
mod maps_listing;
mod native_state;
mod own_counts;
mod probe;
mod proc;
mod process;
mod process_rights;
mod profile_store;
mod program_file;
pub mod protocol;
mod readings;
mod remote_syscalls;
mod restartable;
mod retranslation;
mod shared_code;
mod shared_translations;
mod signal_throttling;
mod signals;
mod syscalls;
mod threads;
mod tracer;
mod translation_cache;
mod writers;

use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::addend::AddendKinds;
use crate::translate;
use crate::{ExecutionEvent, ProcessorBaseline};

#[doc(hidden)]
pub use probe::{InstructionProbe, ProbeOrder, ProbeView};
pub use program_file::refuses;
pub use retranslation::Retranslation;
pub use tracer::FIXED_BYTES;

/// How programs are run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TracerSettings {
    /// How code is translated.
    pub translation: translate::TranslationSettings,
    /// The processor that programs see; `None`: the real one.
    /// [`translate::TranslationSettings::stop_at_cpu_queries`] must be set with it.
    pub baseline: Option<ProcessorBaseline>,
    /// Whether programs get the same 16 bytes each time instead of random ones.
    pub fixed_layout: bool,
    /// Whether each program is translated anew, whatever others before it have executed: for comparison.
    pub separate: bool,
    /// Which programs get another translation for what they have executed themselves.
    pub retranslation: Retranslation,
}

impl TracerSettings {
    /// With a processor that is the same on every machine.
    pub fn with_baseline(self, baseline: Option<ProcessorBaseline>) -> TracerSettings {
        let translation =
            translate::TranslationSettings { stop_at_cpu_queries: baseline.is_some(), ..self.translation };
        TracerSettings { baseline, translation, ..self }
    }

    /// With no units counted but those that some events need.
    #[must_use]
    pub fn counting(self, events: impl IntoIterator<Item = ExecutionEvent>) -> TracerSettings {
        let counted = AddendKinds::needed_for(events).among(AddendKinds::OF_UNITS);
        let translation = translate::TranslationSettings { counted, ..self.translation };
        TracerSettings { translation, ..self }
    }
}

/// Traces a process that has not executed its command yet, and its descendants; [`protocol`] describes the
/// text on the socket. The caller must be a process of its own: this waits for all of its children.
///
/// `profile` is a folder for execution profiles, which the next run reads ([`crate::profile`]). Stored
/// translations are beside it, in the folder `translations`.
pub fn follow(pid: u32, socket: UnixStream, settings: TracerSettings, profile: Option<&Path>) {
    tracer::follow(pid, socket, settings, profile, None);
}

/// Traces with a probe that looks at every translated instruction: for tests, and slow.
#[doc(hidden)]
pub fn follow_probed(
    pid: u32,
    socket: UnixStream,
    settings: TracerSettings,
    probe: Box<dyn InstructionProbe>,
) {
    tracer::follow(pid, socket, settings, None, Some(probe));
}
