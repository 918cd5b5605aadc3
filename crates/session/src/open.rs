//! Opens the sources of a pass, and replans until they agree.

use std::time::Duration;

use cyclometer_core::exec::RefusalKind;
use cyclometer_core::report::FallbackStep;
use cyclometer_core::{
    Error, ErrorKind, LaunchKind, MissingReason, Pass, Plan, Recovery, Refusal, Result, Rung, Slot, SlotId,
    Source, Target,
};
use cyclometer_plan::{Replan, give_up, replan};

use crate::open_source::OpenSource;
use crate::rotation::PassRotation;
use crate::twins::WithTwins;
use crate::windows::OpenWindows;
use crate::{Execution, RunningSession};

/// Open counters of one pass, with what is missing from it.
pub(crate) struct OpenedPass {
    pub(crate) sources: Vec<OpenSource>,
    /// Slots that were refused after the plan was settled, each with the reason.
    pub(crate) refused: Vec<(SlotId, MissingReason)>,
    /// The rotation groups of events, where they rotate.
    pub(crate) rotation: Option<Box<PassRotation>>,
    /// The windows that are recorded beside.
    pub(crate) windows: Option<OpenWindows>,
}

/// The result of opening.
pub(crate) enum OpeningOutcome {
    /// The counters.
    Open(OpenedPass),
    /// The software PMU does not count this command, for this reason.
    NotTranslated(Refusal),
    /// The plan changed, and wants the command started otherwise.
    OtherLaunch,
}

impl RunningSession<'_, '_> {
    /// Opens the pass of an execution on `target`; the child has not executed anything yet.
    ///
    /// Before there is any result, the other passes of such runs are tried as well: what is refused later
    /// cannot change the passes any more. A refusal is answered by another plan, but for events that have a
    /// result: a line must not change its meaning then. They are left out of this run, and their values are
    /// lost, not replaced.
    pub(crate) fn open(&mut self, execution: Execution, target: &Target) -> Result<OpeningOutcome> {
        let (mut retries, mut refused) = (Retries::default(), Vec::new());
        let launch = self.launch_of(execution);
        while self.launch_of(execution) == launch {
            let mut pass = self.pass(execution);
            pass.slots.retain(|slot| !refused.iter().any(|(id, _)| *id == slot.id));
            if let Some(refusal) = self.refused_elsewhere(execution, target)? {
                self.replan(&refusal, &mut retries)?;
                continue;
            }
            let refusal = match self.try_pass(&pass, target)? {
                Ok(opened) => return Ok(OpeningOutcome::Open(OpenedPass { refused, ..opened })),
                Err(SourceRefusal { rung: Rung::Soft, refusal }) if refusal.slot.is_none() => {
                    return Ok(OpeningOutcome::NotTranslated(refusal));
                }
                Err(SourceRefusal { refusal, .. }) => refusal,
            };
            match refusal.slot.filter(|slot| pass.slots.iter().any(|held| held.id == *slot)) {
                Some(slot) if self.has_result(slot) => {
                    let same = pass.slots.iter().filter(|held| held.opened_as() == slot);
                    refused.extend(same.map(|held| (held.id, MissingReason::from(&refusal))));
                }
                None if self.is_settled(execution) => return Err(busy(&refusal)),
                _ => self.replan(&refusal, &mut retries)?,
            }
        }
        Ok(OpeningOutcome::OtherLaunch)
    }

    /// Refusals of the other passes of native runs, as long as there is no result.
    fn refused_elsewhere(&mut self, execution: Execution, target: &Target) -> Result<Option<Refusal>> {
        let (own, plan) = (self.pass_of(execution), &self.report.plan);
        if plan.intent.begun || self.launch_of(execution) != LaunchKind::Native {
            return Ok(None);
        }
        let native = plan.passes.iter().enumerate().filter(|(_, pass)| pass.launch == LaunchKind::Native);
        let others: Vec<Pass> = native.filter(|(i, _)| *i != own).map(|(_, pass)| pass.clone()).collect();
        for pass in others {
            if let Err(SourceRefusal { refusal, .. }) = self.try_pass(&pass, target)? {
                return Ok(Some(refusal));
            }
        }
        Ok(None)
    }

    /// Whether the pass of this execution has given a result.
    pub(crate) fn is_settled(&self, execution: Execution) -> bool {
        let pass = self.pass_of(execution);
        self.report.runs.iter().any(|run| run.pass == pass)
    }

    /// Whether a pass with this event has given a result.
    fn has_result(&self, slot: SlotId) -> bool {
        let holds = |pass: &Pass| pass.slots.iter().any(|held| held.id == slot);
        self.report.runs.iter().any(|run| self.report.plan.passes.get(run.pass).is_some_and(holds))
    }

    fn replan(&mut self, refusal: &Refusal, retries: &mut Retries) -> Result<()> {
        match replan(self.report.plan.clone(), refusal, self.means.machine)? {
            Replan::Try(plan, step) => self.change(*plan, step)?,
            Replan::Retry(step) if retries.pause(refusal) => self.note(step),
            Replan::Retry(_) => self.give_up(refusal)?,
        }
        Ok(())
    }

    pub(crate) fn change(&mut self, plan: Plan, step: FallbackStep) -> Result<()> {
        self.report.plan = plan;
        self.note(step);
        self.verify()
    }

    fn give_up(&mut self, refusal: &Refusal) -> Result<()> {
        let Some(slot) = refusal.slot else { return Err(busy(refusal)) };
        match give_up(self.report.plan.clone(), slot, refusal, self.means.machine)? {
            Replan::Try(plan, step) => self.change(*plan, step),
            Replan::Retry(step) => {
                self.note(step);
                Ok(())
            }
        }
    }

    pub(crate) fn pass(&self, execution: Execution) -> Pass {
        self.report.plan.passes.get(self.pass_of(execution)).cloned().unwrap_or_default()
    }

    /// Opens every source of the pass, or none.
    fn try_pass(
        &mut self,
        pass: &Pass,
        target: &Target,
    ) -> Result<std::result::Result<OpenedPass, SourceRefusal>> {
        let mut pass = pass.clone();
        let rotation = PassRotation::of(&mut pass, &mut self.random, self.settings.slice).map(Box::new);
        let mut sources = Vec::new();
        for rung in pass.rungs() {
            let slots = pass.of(rung);
            let opened: Vec<Slot> = slots.iter().filter(|slot| slot.twin_of.is_none()).cloned().collect();
            match self.source(rung)?.open(&opened, target) {
                Ok(counting) => {
                    let counting = WithTwins::of(&slots, counting);
                    let slots = slots.iter().map(|slot| (slot.id, slot.rotation_group)).collect();
                    sources.push(OpenSource { slots, counting });
                }
                Err(refusal) => return Ok(Err(SourceRefusal { rung, refusal })),
            }
        }
        let windows = self.open_windows(&pass, target, |slot| {
            let source = sources.iter_mut().find(|source| source.holds(slot))?;
            Some(source.counting.as_mut())
        })?;
        Ok(Ok(OpenedPass { sources, refused: Vec::new(), rotation, windows }))
    }

    pub(crate) fn source(&self, rung: Rung) -> Result<&dyn Source> {
        let found = self.means.sources.iter().find(|source| source.rung() == rung);
        found.copied().ok_or_else(|| {
            Error::new(ErrorKind::ArchUnsupported, format!("there is no source {rung} in this program"))
        })
    }
}

/// A refusal and the source that it came from.
struct SourceRefusal {
    rung: Rung,
    refusal: Refusal,
}

fn busy(refusal: &Refusal) -> Error {
    Error::new(ErrorKind::CounterBusy, refusal.reason.to_string())
}

/// Counts the pauses taken for a busy PMU, by the recovery of that error kind.
#[derive(Default)]
struct Retries(u32);

impl Retries {
    /// Sleeps before another attempt; false when there were enough.
    fn pause(&mut self, refusal: &Refusal) -> bool {
        debug_assert_eq!(refusal.kind, RefusalKind::Busy);
        let Recovery::RetryAfter { delay_ms, attempts } = ErrorKind::CounterBusy.strategy() else {
            return false;
        };
        if self.0 == attempts {
            return false;
        }
        self.0 += 1;
        std::thread::sleep(Duration::from_millis(delay_ms.into()));
        true
    }
}
