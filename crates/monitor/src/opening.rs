//! Opens a plan's counters: once with replans until the plan is settled, and then in each thread unchanged.

use std::sync::Arc;
use std::time::Duration;

use cyclometer_core::exec::RefusalKind;
use cyclometer_core::plan::Outcome;
use cyclometer_core::reason::RefusalReason;
use cyclometer_core::{
    Counting, Error, ErrorKind, Machine, MissingReason, Plan, Recovery, Refusal, Result, Rung, Slot, SlotId,
    Source, Target,
};
use cyclometer_plan::{Replan, give_up, replan};

use crate::ladder::{LadderStep, kind_of};

/// Creates the sources of a thread: counters belong to threads, and so do their sources.
pub type SourceMaker = Arc<dyn Fn() -> Vec<Box<dyn Source>> + Send + Sync>;

/// Open counters of one thread.
#[derive(Default)]
pub(crate) struct OpenCounters {
    pub(crate) sources: Vec<Box<dyn Counting>>,
    /// The refused events, each with the reason.
    pub(crate) refused: Vec<(SlotId, MissingReason)>,
}

/// The sources, their target, and the machine for replans.
#[derive(Clone, Copy)]
pub(crate) struct Means<'a> {
    pub(crate) sources: &'a [Box<dyn Source>],
    pub(crate) target: &'a Target,
    pub(crate) machine: &'a Machine,
}

impl Means<'_> {
    /// Opens the plan, and replans until no event is refused any more.
    ///
    /// # Errors
    ///
    /// Errors without a possible replan: a target that does not exist, a `{group}` that does not fit.
    pub(crate) fn settle(&self, mut plan: Plan, steps: &mut Vec<LadderStep>) -> Result<(Plan, OpenCounters)> {
        let mut pauses = 0;
        loop {
            let Refused { rung, refusal } = match self.open(&slots(&plan)) {
                Ok(sources) => return Ok((plan, OpenCounters { sources, refused: Vec::new() })),
                Err(refused) => refused,
            };
            let event =
                refusal.slot.and_then(|slot| plan.lines.get(slot.0)).map(|line| line.event.name.clone());
            let (answer, done) = self.answer(plan, &refusal, &mut pauses)?;
            plan = answer;
            let because = (kind_of(refusal.kind), refusal.reason.to_string());
            steps.push(LadderStep::refused(event.as_deref(), rung.word(), because, done));
        }
    }

    fn answer(&self, plan: Plan, refusal: &Refusal, pauses: &mut u32) -> Result<(Plan, String)> {
        let answer = match replan(plan.clone(), refusal, self.machine)? {
            Replan::Retry(_) if pause(pauses) => return Ok((plan, "tried again".to_owned())),
            Replan::Retry(_) => {
                let busy = || Error::new(ErrorKind::CounterBusy, refusal.reason.to_string());
                give_up(plan.clone(), refusal.slot.ok_or_else(busy)?, refusal, self.machine)?
            }
            answer => answer,
        };
        Ok(match answer {
            Replan::Try(plan, step) => (*plan, step.done),
            Replan::Retry(step) => (plan, step.done),
        })
    }

    /// Opens a settled plan. Refused events are omitted and reported.
    pub(crate) fn open_settled(&self, plan: &Plan) -> OpenCounters {
        self.open_what_can_be(slots(plan), Vec::new())
    }

    /// The same without the register events, because the registers are already in use by this program.
    pub(crate) fn open_without_registers(&self, plan: &Plan) -> OpenCounters {
        let (of_registers, wanted): (Vec<Slot>, Vec<Slot>) =
            slots(plan).into_iter().partition(|slot| is_of_registers(slot.rung));
        let refused = of_registers.into_iter().map(|slot| (slot.id, MissingReason::SampledAlone));
        self.open_what_can_be(wanted, refused.collect())
    }

    fn open_what_can_be(
        &self,
        mut wanted: Vec<Slot>,
        mut refused: Vec<(SlotId, MissingReason)>,
    ) -> OpenCounters {
        loop {
            match self.open(&wanted) {
                Ok(sources) => return OpenCounters { sources, refused },
                Err(Refused { rung, refusal }) => {
                    let is_it = |slot: &Slot| match refusal.slot {
                        Some(id) if wanted.iter().any(|slot| slot.id == id) => slot.id == id,
                        _ => slot.rung == rung,
                    };
                    let (out, kept): (Vec<Slot>, Vec<Slot>) = wanted.iter().cloned().partition(is_it);
                    refused.extend(out.into_iter().map(|slot| (slot.id, MissingReason::from(&refusal))));
                    wanted = kept;
                }
            }
        }
    }

    /// Opens and starts every slot, or none.
    fn open(&self, slots: &[Slot]) -> std::result::Result<Vec<Box<dyn Counting>>, Refused> {
        let mut opened = Vec::new();
        for rung in rungs(slots) {
            let of_rung: Vec<Slot> = slots.iter().filter(|slot| slot.rung == rung).cloned().collect();
            let open = || {
                let source =
                    self.sources.iter().find(|source| source.rung() == rung).ok_or_else(|| none(rung))?;
                let mut counting = source.open(&of_rung, self.target)?;
                let failed = |error: Error| Refusal::of_target(RefusalKind::Other, error.to_string());
                counting.start().map_err(failed)?;
                Ok(counting)
            };
            opened.push(open().map_err(|refusal| Refused { rung, refusal })?);
        }
        Ok(opened)
    }
}

/// The sources of slots, in the order in which they are opened.
pub(crate) fn rungs(slots: &[Slot]) -> Vec<Rung> {
    let mut rungs: Vec<Rung> = slots.iter().map(|slot| slot.rung).collect();
    rungs.sort_unstable();
    rungs.dedup();
    rungs
}

/// Whether an event is counted on a counter that the planner chooses. Only one set of such events can be open
/// at a time.
pub(crate) fn is_of_registers(rung: Rung) -> bool {
    matches!(rung, Rung::Kperf | Rung::Msr | Rung::Sysreg | Rung::Sim)
}

struct Refused {
    rung: Rung,
    refusal: Refusal,
}

fn none(rung: Rung) -> Refusal {
    Refusal::of_target(RefusalKind::TargetNotSupported, RefusalReason::NoSource(rung))
}

/// Sleeps as the recovery for busy counters specifies; false after the last attempt.
fn pause(pauses: &mut u32) -> bool {
    let Recovery::RetryAfter { delay_ms, attempts } = ErrorKind::CounterBusy.strategy() else { return false };
    if *pauses >= attempts {
        return false;
    }
    *pauses += 1;
    std::thread::sleep(Duration::from_millis(delay_ms.into()));
    true
}

/// Everything that is counted, all of it at once. Rotation groups are for runs; here the kernel shares
/// counters among the events of a thread.
pub(crate) fn slots(plan: &Plan) -> Vec<Slot> {
    let counted = |slot: &&Slot| {
        let line = plan.lines.get(slot.id.0);
        slot.twin_of.is_none() && line.is_some_and(|line| matches!(line.outcome, Outcome::Counted { .. }))
    };
    let mut slots: Vec<Slot> = Vec::new();
    for slot in plan.passes.iter().flat_map(|pass| &pass.slots).filter(counted) {
        if slots.iter().all(|known| known.id != slot.id) {
            slots.push(Slot { rotation_group: None, ..slot.clone() });
        }
    }
    slots.sort_by_key(|slot| slot.id);
    slots
}

/// The slot whose counters an event uses: its own, or that of its twin.
pub(crate) fn opened_as(plan: &Plan, id: SlotId) -> SlotId {
    let of_it = |slot: &&Slot| slot.id == id;
    plan.passes.iter().flat_map(|pass| &pass.slots).find(of_it).map_or(id, Slot::opened_as)
}
