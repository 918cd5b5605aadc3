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

mod alike;
mod answers;
mod births;
mod calls;
mod claims;
mod classes;
mod code;
mod common;
mod engine;
mod exits;
mod file;
mod folder;
mod hindsight;
mod hints;
mod kept;
mod ledger;
mod limits;
mod listing;
mod maps;
mod own_counts;
mod pace;
mod probe;
mod proc;
mod process;
pub mod protocol;
mod reading;
mod remote;
mod renewal;
mod restartable;
mod sharing;
mod signals;
mod space;
mod surface;
mod threads;
mod trust;
mod warm;
mod writers;

use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::addend::AddendKinds;
use crate::translate;
use crate::{ExecutionEvent, ProcessorBaseline};

pub use engine::FIXED_BYTES;
pub use file::refuses;
pub use hindsight::Retranslation;
#[doc(hidden)]
pub use probe::{InstructionProbe, ProbeOrder, ProbeView};

/// How programs are run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TracerSettings {
    /// How code is translated.
    pub translation: translate::TranslationSettings,
    /// Which processor programs are told that they have; `None`: the one that there is. [`translate::TranslationSettings::asks`] must
    /// be set with it.
    pub baseline: Option<ProcessorBaseline>,
    /// Whether programs get the same 16 bytes each time instead of random ones.
    pub fixed_layout: bool,
    /// Whether each program is translated anew, whatever others before it have executed: for comparison.
    pub apart: bool,
    /// Which programs get another translation for what they have executed themselves.
    pub hindsight: Retranslation,
}

impl TracerSettings {
    /// With a processor that is the same on every machine.
    pub fn with_baseline(self, baseline: Option<ProcessorBaseline>) -> TracerSettings {
        let translation = translate::TranslationSettings { asks: baseline.is_some(), ..self.translation };
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

/// Traces a process that has not executed its command yet, and follows it and its descendants; [`protocol`] tells
/// what comes over the socket. To be called in a process of its own: it waits for every child that there is.
///
/// `hints` is a folder for hints of what is worth to be translated ahead, which the next run finds there ([`crate::hints`]);
/// translations are kept beside it, in a folder `translations`.
pub fn follow(pid: u32, socket: UnixStream, settings: TracerSettings, hints: Option<&Path>) {
    engine::follow(pid, socket, settings, hints, None);
}

/// The same with somebody who looks at every instruction of translated code: for tests, and slow.
#[doc(hidden)]
pub fn follow_probed(
    pid: u32,
    socket: UnixStream,
    settings: TracerSettings,
    probe: Box<dyn InstructionProbe>,
) {
    engine::follow(pid, socket, settings, None, Some(probe));
}
