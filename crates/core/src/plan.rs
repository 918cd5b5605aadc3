//! Plans: which event is counted by which source, on which counter, in which pass.

use std::time::Duration;

use crate::count::Count;
use crate::event::{Candidate, Event};
use crate::exec::LaunchKind;
use crate::ladder::Rung;
use crate::modes::{Modes, Modifiers};
use crate::random::Random;
use crate::skipped::Skipped;
use crate::slot::{Slot, SlotId};

/// All events with their outcomes, and the passes.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// One line for each event, in the order asked for.
    pub lines: Vec<PlanLine>,
    /// The passes; [`Plan::pass_of`] gives the one that a run of the command makes.
    pub passes: Vec<Pass>,
    /// How the events of core PMUs share counters in native runs.
    pub sharing: Sharing,
    /// The intent from which the plan was made.
    pub intent: Intent,
}

impl Plan {
    /// The pass that run number `run` makes, an index into [`Plan::passes`]; 0 when there is none.
    ///
    /// The first [`Intent::translated_runs`] make the translated passes and the others the native ones. Where
    /// all passes are of one kind, all runs make them. Every pass comes once in each round, in an order that
    /// [`Intent::seed`] decides for the round.
    pub fn pass_of(&self, run: u32) -> usize {
        let of_kind = |kind| (0..self.passes.len()).filter(|i| self.passes[*i].launch == kind).collect();
        let (translated, native): (Vec<usize>, Vec<usize>) =
            (of_kind(LaunchKind::Translated), of_kind(LaunchKind::Native));
        let first = self.intent.translated_runs();
        let (passes, number) = match (translated.is_empty(), native.is_empty()) {
            (true, _) => (native, run),
            (false, true) => (translated, run),
            (false, false) if run < first => (translated, run),
            (false, false) => (native, run - first),
        };
        self.drawn(&passes, number)
    }

    /// The pass of run number `number` among the runs that make these passes.
    fn drawn(&self, passes: &[usize], number: u32) -> usize {
        if passes.len() < 2 {
            return passes.first().copied().unwrap_or(0);
        }
        let (round, place) = (number as usize / passes.len(), number as usize % passes.len());
        let of_round = Random::seeded(self.intent.seed ^ round as u64).word();
        passes[Random::seeded(of_round).permutation(passes.len())[place]]
    }

    /// Whether events rotate within a run.
    pub fn is_rotated(&self) -> bool {
        self.passes.iter().flat_map(|pass| &pass.slots).any(|slot| slot.rotation_group.is_some())
    }

    /// Number of native runs among `runs` runs.
    pub fn native_runs(&self, runs: u32) -> u32 {
        let has = |kind| self.passes.iter().any(|pass| pass.launch == kind);
        match (has(LaunchKind::Translated), has(LaunchKind::Native)) {
            (false, _) => runs,
            (true, true) => runs - Intent { runs, ..self.intent.clone() }.translated_runs(),
            (true, false) => 0,
        }
    }

    /// The fewest runs in which every event of a core PMU is counted for the whole of a run. `None` where all
    /// runs are translated, whatever their number.
    pub fn exact_runs(&self) -> Option<u32> {
        let needed = u32::try_from(self.sharing.sets.len().max(1)).unwrap_or(u32::MAX);
        (needed..=needed.saturating_add(MOST_TRANSLATED))
            .find(|runs| self.native_runs(*runs) >= needed)
            .or_else(|| {
                let (Counted::Runs(translated) | Counted::AtMost(translated)) = self.intent.counted else {
                    return None;
                };
                needed.checked_add(translated)
            })
    }

    /// How run number `run` is started.
    pub fn launch_of(&self, run: u32) -> LaunchKind {
        self.passes.get(self.pass_of(run)).map(|pass| pass.launch).unwrap_or_default()
    }
}

/// The most runs that [`Counted::Auto`] translates.
const MOST_TRANSLATED: u32 = 2;

/// How the events of core PMUs share counters: sets of events that count at the same time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sharing {
    /// The sets; an event may be in several, and each is in at least one. With one set, no counter is shared;
    /// with none, core PMUs count no event.
    pub sets: Vec<Vec<SlotId>>,
    /// A lower bound of the number of sets, whatever the counter assignment.
    pub lower_bound: usize,
    /// The reason for the bound, in words; `None` where it is trivial.
    pub because: Option<String>,
    /// Sets of [`Intent::together`], by index, that do not fit on the counters, with the reason.
    pub divided: Vec<(usize, String)>,
    /// Weak groups that do not fit on the counters: their events are counted one by one.
    pub ungrouped: Vec<u32>,
    /// Sums whose summands do not fit on the counters at once.
    pub too_large: Vec<TooLargeSum>,
    /// Number of sets, at the end, that exist because the kernel did not count all events of another set at
    /// the same time.
    pub found_by_trial: usize,
    /// The events that the kernel did not count at the same time, although they fit on the known counters.
    pub contradictions: Vec<String>,
}

impl Sharing {
    /// Whether fewer sets are proved to be impossible.
    pub fn is_optimal(&self) -> bool {
        self.sets.len() <= self.lower_bound
    }

    /// The remark for the value of a sum among whose summands the kernel shares the counters.
    pub fn note(&self, slot: SlotId) -> Option<&str> {
        let shared = |sum: &&TooLargeSum| sum.slot == slot && sum.treatment == TooLarge::KernelShares;
        self.too_large.iter().find(shared).map(|sum| sum.reason.as_str())
    }
}

/// A sum whose summands do not fit on the counters at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TooLargeSum {
    /// The event.
    pub slot: SlotId,
    /// The treatment of the event.
    pub treatment: TooLarge,
    /// The summands and the reason why they do not fit, in words.
    pub reason: String,
}

/// The treatment of a sum whose summands do not fit on the counters at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TooLarge {
    /// The kernel shares the counters among the summands, in a set without other events.
    KernelShares,
    /// The sum is in no set, because the tool chooses counters itself or sharing is forbidden.
    NotCounted,
}

/// The purpose of a session, as far as the choice of sources depends on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Intent {
    /// The only source that may be used, if one was requested.
    pub only: Option<Rung>,
    /// Exact number of measured executions, at least 1.
    pub runs: u32,
    /// Number of runs that the software PMU may count.
    pub counted: Counted,
    /// The subject of the counts.
    pub subject: IntentSubject,
    /// The interval at which counts are read while the command runs.
    pub interval: Option<Duration>,
    /// Whether a result exists already; if so, no event moves to the software PMU or to another pass.
    pub begun: bool,
    /// The treatment of events that do not fit on the counters at once.
    pub multiplex: Multiplex,
    /// Sets of events, by index, that are useful only if they were counted at the same time.
    pub together: Vec<Vec<usize>>,
    /// Sets of events, by index, that are more useful if they were counted at the same time.
    pub partners: Vec<Vec<usize>>,
    /// The seed of the order of passes.
    pub seed: u64,
}

impl Default for Intent {
    fn default() -> Intent {
        Intent {
            only: None,
            runs: 1,
            counted: Counted::Auto,
            subject: IntentSubject::Command,
            interval: None,
            begun: false,
            multiplex: Multiplex::Auto,
            together: Vec::new(),
            partners: Vec::new(),
            seed: 0,
        }
    }
}

impl Intent {
    /// Number of translated runs, which come first, when the software PMU counts an event.
    pub fn translated_runs(&self) -> u32 {
        let wanted = match self.counted {
            Counted::Auto if self.runs < 3 => 1,
            Counted::Auto => MOST_TRANSLATED,
            Counted::Runs(wanted) | Counted::AtMost(wanted) => wanted,
            Counted::All => self.runs,
        };
        wanted.min(self.runs)
    }
}

/// The thing that a session counts, as far as the choice of sources depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum IntentSubject {
    /// A command that the session starts.
    #[default]
    Command,
    /// A target that runs already, natively.
    Running,
    /// Regions of threads of this program, which runs natively.
    Regions,
    /// Regions of threads of this program, which the software PMU runs.
    TranslatedRegions,
}

impl IntentSubject {
    /// Whether the session starts it, and can run it again.
    pub fn is_command(self) -> bool {
        self == IntentSubject::Command
    }
}

/// How many runs the software PMU counts, when it counts. The others run natively and are timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Counted {
    /// One; two if there are three or more runs, so that equal values can be recognised.
    #[default]
    Auto,
    /// This number.
    Runs(u32),
    /// This number, and fewer where a run loses its counts.
    AtMost(u32),
    /// All of them.
    All,
}

/// The treatment of events that do not fit on the counters at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Multiplex {
    /// With enough runs, each run counts some of them exactly; otherwise they rotate within each run.
    #[default]
    Auto,
    /// They rotate within each run.
    Always,
    /// They are refused where there are not enough runs.
    Never,
}

/// One event of a plan.
#[derive(Clone, PartialEq, Debug)]
pub struct PlanLine {
    /// The event.
    pub event: Event,
    /// The outcome of planning for it.
    pub outcome: Outcome,
    /// The sources before the chosen one that could have counted it, each with the reason why it is not used.
    pub skipped: Vec<Skipped>,
}

impl PlanLine {
    /// The chosen candidate, if any.
    pub fn candidate(&self) -> Option<&Candidate> {
        match &self.outcome {
            Outcome::Counted { candidate, .. } => self.event.candidates.get(*candidate),
            Outcome::NotCounted(_) => None,
        }
    }

    /// The modes that it covers; `None` where modes do not apply (time, memory).
    ///
    /// For an event that is not counted these are the requested modes.
    pub fn effective_modes(&self) -> Option<Modes> {
        match &self.outcome {
            Outcome::Counted { filter, .. } => {
                let counted = self.candidate()?.modes?;
                Some(filter.unwrap_or(counted))
            }
            Outcome::NotCounted(_) => {
                let best = self.event.candidates.first();
                self.event.modifiers.modes.or_else(|| best?.modes)
            }
        }
    }

    /// The name as it is printed: `instructions:u`, `cpu/event=0xc5/u`, `wall_time`.
    pub fn label(&self) -> String {
        let name = &self.event.name;
        let letters = letters(self.effective_modes(), self.event.modifiers);
        let colon = if letters.is_empty() || name.ends_with('/') { "" } else { ":" };
        format!("{name}{colon}{letters}")
    }
}

fn letters(modes: Option<Modes>, modifiers: Modifiers) -> String {
    let mut letters = modes.map(|modes| modes.to_string()).unwrap_or_default();
    let restrictions =
        [(modifiers.guest_only, 'G'), (modifiers.host_only, 'H'), (modifiers.exclude_idle, 'I')];
    letters.extend(restrictions.into_iter().filter(|(on, _)| *on).map(|(_, letter)| letter));
    letters
}

/// The outcome of planning for an event.
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
    /// The event is not counted; the state has the reason.
    NotCounted(Count),
}

/// The events that are counted at the same time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pass {
    /// How the command is started for it.
    pub launch: LaunchKind,
    /// The events of the pass, in the order asked for.
    pub slots: Vec<Slot>,
}

impl Pass {
    /// The slots that one source opens.
    pub fn of(&self, rung: Rung) -> Vec<Slot> {
        self.slots.iter().filter(|slot| slot.rung == rung).cloned().collect()
    }

    /// The sources that take part, best first.
    pub fn rungs(&self) -> Vec<Rung> {
        let mut rungs: Vec<Rung> = self.slots.iter().map(|slot| slot.rung).collect();
        rungs.sort_unstable();
        rungs.dedup();
        rungs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(launches: &[LaunchKind], runs: u32, counted: Counted) -> Plan {
        let passes = launches.iter().map(|launch| Pass { launch: *launch, slots: Vec::new() }).collect();
        let intent = Intent { runs, counted, ..Intent::default() };
        Plan { lines: Vec::new(), passes, sharing: Sharing::default(), intent }
    }

    fn passes(launches: &[LaunchKind], runs: u32, counted: Counted) -> Vec<usize> {
        let plan = plan(launches, runs, counted);
        (0..runs).map(|run| plan.pass_of(run)).collect()
    }

    const BOTH: [LaunchKind; 2] = [LaunchKind::Translated, LaunchKind::Native];

    #[test]
    fn one_or_two_runs_are_translated_unless_told_otherwise() {
        for (runs, counted, expected) in [
            (2, Counted::Auto, vec![0, 1]),
            (3, Counted::Auto, vec![0, 0, 1]),
            (5, Counted::Auto, vec![0, 0, 1, 1, 1]),
            (4, Counted::Runs(3), vec![0, 0, 0, 1]),
            (3, Counted::All, vec![0, 0, 0]),
            (2, Counted::Runs(9), vec![0, 0]),
        ] {
            assert_eq!(passes(&BOTH, runs, counted), expected, "{runs} {counted:?}");
        }
    }

    #[test]
    fn passes_of_one_kind_take_turns_over_all_runs() {
        for round in passes(&[LaunchKind::Native; 3], 60, Counted::Auto).chunks(3) {
            let mut sorted = round.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2], "{round:?}");
        }
        assert_eq!(passes(&[LaunchKind::Translated], 2, Counted::Auto), [0, 0]);
    }

    #[test]
    fn the_order_of_passes_is_drawn_for_each_round_and_follows_from_the_seed() {
        let order = |seed| {
            let mut plan = plan(&[LaunchKind::Native; 3], 600, Counted::Auto);
            plan.intent.seed = seed;
            (0..600).map(|run| plan.pass_of(run)).collect::<Vec<_>>()
        };
        let drawn = order(7);
        let rounds: std::collections::BTreeSet<&[usize]> = drawn.chunks(3).collect();
        assert_eq!(rounds.len(), 6, "200 rounds have every order");
        assert_eq!(drawn, order(7));
        assert_ne!(drawn, order(8));
    }

    #[test]
    fn native_runs_are_those_that_are_not_translated() {
        for (launches, counted, sets, expected) in [
            (&[LaunchKind::Native][..], Counted::Auto, 3, Some(3)),
            (&BOTH, Counted::Auto, 1, Some(2)),
            (&BOTH, Counted::Auto, 3, Some(5)),
            (&BOTH, Counted::Runs(9), 3, Some(12)),
            (&BOTH, Counted::All, 3, None),
            (&[LaunchKind::Native], Counted::Auto, 0, Some(1)),
        ] {
            let mut plan = plan(launches, 1, counted);
            plan.sharing.sets = vec![Vec::new(); sets];
            let runs = plan.exact_runs();
            assert_eq!(runs, expected, "{launches:?} {counted:?}");
            assert!(runs.is_none_or(|runs| plan.native_runs(runs) as usize >= sets));
        }
    }

    #[test]
    fn without_a_pass_the_command_runs_as_it_is() {
        let plan = plan(&[], 1, Counted::All);
        assert_eq!((plan.pass_of(0), plan.launch_of(0)), (0, LaunchKind::Native));
    }
}
