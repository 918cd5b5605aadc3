//! Plans: which event is counted by which source, on which counter, in which pass.

use crate::count::Count;
use crate::counter::CounterId;
use crate::event::{Candidate, Event, Part};
use crate::exec::RefusalKind;
use crate::ladder::Rung;
use crate::modes::Modes;

/// Names one slot; it is the index of the event in [`Plan::lines`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SlotId(pub usize);

/// Every event with how it is counted, and the passes.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// One line for each event, in the order asked for.
    pub lines: Vec<PlanLine>,
    /// The passes; each run of the command makes one.
    pub passes: Vec<Pass>,
    /// The greatest set of events that found a counter each did not hold all of them:
    /// the kernel will multiplex.
    pub shares_counters: bool,
}

/// One event of a plan.
#[derive(Clone, PartialEq, Debug)]
pub struct PlanLine {
    /// The event.
    pub event: Event,
    /// What was decided for it.
    pub outcome: Outcome,
    /// The rungs above the chosen one that could have counted it, each with why it is not used.
    pub skipped: Vec<Skipped>,
}

impl PlanLine {
    /// The way chosen, if any.
    pub fn candidate(&self) -> Option<&Candidate> {
        match &self.outcome {
            Outcome::Counted { candidate, .. } => self.event.candidates.get(*candidate),
            Outcome::NotCounted(_) => None,
        }
    }
}

/// How an event will be counted.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// By one of its candidates.
    Counted {
        /// Index into the event's candidates.
        candidate: usize,
        /// The modes that the source filters for; `None`: no filter is set.
        filter: Option<Modes>,
        /// Whether guests must be excluded explicitly (Apple on Linux).
        exclude_guest: bool,
    },
    /// Not at all; the state says why.
    NotCounted(Count),
}

/// A rung that is not used for an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Skipped {
    /// The rung.
    pub rung: Rung,
    /// Why not.
    pub reason: String,
    /// What the source said when it was asked to open the event; `None` when it was not asked.
    pub refusal: Option<RefusalKind>,
}

/// What is counted at the same time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pass {
    /// The events of the pass, in the order asked for.
    pub slots: Vec<Slot>,
}

impl Pass {
    /// The slots that one source opens.
    pub fn of(&self, rung: Rung) -> Vec<Slot> {
        self.slots.iter().filter(|slot| slot.rung == rung).cloned().collect()
    }

    /// The rungs that take part, best first.
    pub fn rungs(&self) -> Vec<Rung> {
        let mut rungs: Vec<Rung> = self.slots.iter().map(|slot| slot.rung).collect();
        rungs.sort_unstable();
        rungs.dedup();
        rungs
    }
}

/// One event of a pass, with all that its source needs.
#[derive(Clone, PartialEq, Debug)]
pub struct Slot {
    /// Its name.
    pub id: SlotId,
    /// The event's name with modifiers, for messages.
    pub name: String,
    /// The source.
    pub rung: Rung,
    /// One part for each core PMU.
    pub parts: Vec<Part>,
    /// Number of its group: events of one group are scheduled together.
    pub group: Option<u32>,
    /// The modes to filter for; `None`: set no filter.
    pub filter: Option<Modes>,
    /// Exclude guests explicitly.
    pub exclude_guest: bool,
    /// Count the guest only (`G`).
    pub guest_only: bool,
    /// Count the host only (`H`).
    pub host_only: bool,
    /// Do not count when idle (`I`).
    pub exclude_idle: bool,
    /// Stay on the PMU or fail (`D`).
    pub pinned: bool,
    /// Alone on the PMU (`e`).
    pub exclusive: bool,
    /// The counter that the matching found for it; `None` where the source decides.
    pub counter: Option<CounterId>,
}

impl Slot {
    /// A slot in no group, without filters.
    pub fn new(id: SlotId, name: impl Into<String>, rung: Rung, parts: Vec<Part>) -> Slot {
        Slot {
            id,
            name: name.into(),
            rung,
            parts,
            group: None,
            filter: None,
            exclude_guest: false,
            guest_only: false,
            host_only: false,
            exclude_idle: false,
            pinned: false,
            exclusive: false,
            counter: None,
        }
    }
}
