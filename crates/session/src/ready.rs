//! Before the command is executed: a child of the right kind with open counters, however often the plan
//! changes.

use cyclometer_core::exec::RefusalKind;
use cyclometer_core::{Child, Error, ErrorKind, LaunchKind, MissingReason, Refusal, Result, Rung, Target};
use cyclometer_plan::abandon;

use crate::open::{OpenedPass, OpeningOutcome};
use crate::{Execution, RunningSession};

/// A child that has executed nothing yet, with its counters.
pub(crate) struct Ready {
    pub(crate) child: Box<dyn Child>,
    pub(crate) opened: OpenedPass,
    pub(crate) launch: LaunchKind,
}

impl RunningSession<'_, '_> {
    /// Prepares and opens until plan, launcher and sources agree. Children that do not suit any more are
    /// dropped: they have not executed the command.
    pub(crate) fn ready(&mut self, execution: Execution) -> Result<Ready> {
        loop {
            let launch = self.launch_of(execution);
            let refusal = match self.child(launch) {
                Ok(child) => match self.open(execution, &self.target(child.as_ref())?)? {
                    OpeningOutcome::Open(opened) => return Ok(Ready { child, opened, launch }),
                    OpeningOutcome::OtherLaunch => continue,
                    OpeningOutcome::NotTranslated(refusal) => refusal,
                },
                Err(error) if launch == LaunchKind::Translated => as_refusal(&error),
                Err(error) => return Err(error),
            };
            if self.is_settled(execution) {
                return self.without_counts(execution, &refusal);
            }
            let plan = self.report.plan.clone();
            let (plan, step) = abandon(plan, Rung::Soft, &refusal, self.means.machine)?;
            self.change(plan, step)?;
        }
    }

    /// The command as it is, in place of a translated run that is refused when others have given results:
    /// what that run was to count is lost.
    fn without_counts(&mut self, execution: Execution, refusal: &Refusal) -> Result<Ready> {
        let child = self.child(LaunchKind::Native)?;
        let refused =
            self.pass(execution).slots.iter().map(|slot| (slot.id, MissingReason::from(refusal))).collect();
        let opened = OpenedPass { sources: Vec::new(), refused, rotation: None, windows: None };
        Ok(Ready { child, opened, launch: LaunchKind::Native })
    }

    fn target(&self, child: &dyn Child) -> Result<Target> {
        let target = self.job.target.clone().or_else(|| child.pid().map(Target::Child));
        target.ok_or_else(|| Error::new(ErrorKind::InvalidInput, "a run of the whole system names no target"))
    }

    fn child(&mut self, launch: LaunchKind) -> Result<Box<dyn Child>> {
        match (&self.job.command, launch, self.means.translated) {
            (None, ..) => self.job.watched.take().ok_or_else(|| {
                Error::new(ErrorKind::InvalidInput, "a running process can be watched once only")
            }),
            (Some(command), LaunchKind::Translated, Some(translated)) => translated.prepare(command),
            (Some(_), LaunchKind::Translated, None) => {
                Err(Error::new(ErrorKind::ArchUnsupported, "this program has no software PMU here"))
            }
            (Some(command), ..) => self.means.launch.prepare(command),
        }
    }

    /// Warm-ups are for the caches of the native runs, so that they run as those do.
    pub(crate) fn launch_of(&self, execution: Execution) -> LaunchKind {
        match execution.warmup {
            true => LaunchKind::Native,
            false => self.report.plan.launch_of(execution.index),
        }
    }
}

fn as_refusal(error: &Error) -> Refusal {
    let kind = match error.kind() {
        ErrorKind::PermissionDenied => RefusalKind::NoPermission,
        _ => RefusalKind::TargetNotSupported,
    };
    Refusal::of_target(kind, error.to_string())
}
