//! The software PMU as a launcher and a source: a command under translation, and the counts of its tracer.
//!
//! ```text
//! SoftwareLauncher ──makes──> child, at the gate <──traces── tracer
//!        │                                                     │
//!        └── by pid ──> SoftwareSource ──asks and is told──────┘
//! ```
//!
//! The child is ours: its streams, status, accounting and signals are those of a native one. The tracer, a
//! process forked for each child, runs it under translation and reports the counts.

mod file;
mod hints;
mod inbox;
mod launch;
mod link;
mod modelled;
mod name_files;
mod read;
mod windows;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use cyclometer_core::exec::RefusalKind;
use cyclometer_core::reason::SoftwareRefusal;
use cyclometer_core::window::{WindowSpec, Windowing};
use cyclometer_core::{Counting, Launch, Refusal, Rung, Slot, SlotId, Source, Target};
use cyclometer_soft::ExecutionEvent;

use crate::Launcher;
use crate::soft_events::line;
use crate::soft_settings::SoftwareSettings;
use launch::SoftwareLauncher;
pub use launch::baseline_lacks;
use link::Link;
pub(crate) use modelled::ModelledCommand;
pub use name_files::name_files;
use read::SoftwareCounting;
pub use read::counted_file;
use windows::SoftwareWindowing;

/// Commands that are being translated, by process id.
type Links = Rc<RefCell<HashMap<u32, Weak<RefCell<Link>>>>>;

/// The software PMU: runs commands under translation, and counts them exactly.
///
/// Its launcher and its source belong together: the source counts the commands of the launcher.
#[derive(Debug, Default)]
pub struct Software {
    settings: SoftwareSettings,
    links: Links,
}

/// The software PMU; `None` on systems other than Linux on x86-64. Detection finds out whether it works here.
pub fn software(settings: SoftwareSettings) -> Option<Software> {
    Some(Software { settings, links: Links::default() })
}

impl Software {
    /// Starts commands under translation; `native` creates their processes.
    ///
    /// A command that cannot be followed is refused before it exists (set-user-id, capabilities, 32-bit,
    /// another architecture), or before it is released (tracing is not permitted). `prepare` then fails with
    /// the reason, and has changed nothing.
    pub fn launcher<'a>(&'a self, native: &'a Launcher) -> Box<dyn Launch + 'a> {
        Box::new(SoftwareLauncher { native, settings: self.settings, links: Rc::clone(&self.links) })
    }

    /// Counts the commands that [`Software::launcher`] started, with all their descendants. The count is the
    /// sum over all processes, up to the end of the command's own process.
    pub fn source(&self) -> Box<dyn Source> {
        Box::new(SoftwareSource { links: Rc::clone(&self.links), by_code: self.settings.by_code })
    }
}

struct SoftwareSource {
    links: Links,
    by_code: bool,
}

impl Source for SoftwareSource {
    fn rung(&self) -> Rung {
        Rung::Soft
    }

    fn open(&self, slots: &[Slot], on: &Target) -> std::result::Result<Box<dyn Counting>, Refusal> {
        let link = self.link(on)?;
        Ok(Box::new(SoftwareCounting::new(lines(slots)?, link, self.by_code)))
    }

    fn windows(
        &self,
        slots: &[Slot],
        on: &Target,
        spec: &WindowSpec,
    ) -> std::result::Result<Box<dyn Windowing>, Refusal> {
        let link = self.link(on)?;
        Ok(Box::new(SoftwareWindowing::open(&lines(slots)?, spec, link)?))
    }
}

impl SoftwareSource {
    /// The tracer of a command that its launcher has made.
    fn link(&self, on: &Target) -> std::result::Result<Rc<RefCell<Link>>, Refusal> {
        let Target::Child(pid) = on else {
            let reason = SoftwareRefusal::StartsCommands;
            return Err(Refusal::of_target(RefusalKind::TargetNotSupported, reason));
        };
        let link = self.links.borrow().get(pid).and_then(Weak::upgrade);
        link.ok_or_else(|| {
            let reason = SoftwareRefusal::NotStarted { pid: *pid };
            Refusal::of_target(RefusalKind::TargetNotSupported, reason)
        })
    }
}

/// The events that slots request.
fn lines(slots: &[Slot]) -> std::result::Result<Vec<(SlotId, ExecutionEvent)>, Refusal> {
    slots.iter().map(line).collect()
}

impl SoftwareSettings {
    fn events(&self) -> impl Iterator<Item = ExecutionEvent> {
        let wanted = self.wanted;
        ExecutionEvent::ALL.iter().copied().filter(move |event| wanted.contains(event.index() as u64))
    }
}
