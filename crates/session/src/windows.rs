//! Windows that are recorded beside the counters: opened with them, taken out while the command runs.

use std::time::{Duration, Instant};

use cyclometer_core::exec::{Counting, RefusalKind};
use cyclometer_core::skipped::Skipped;
use cyclometer_core::window::{RowBatch, WindowBoundary, WindowSpec, Windowing, WindowingState};
use cyclometer_core::{Error, ErrorKind, Pass, Recovery, Refusal, Result, Rung, Slot, SlotId, Target};

use crate::RunningSession;

/// How often rows are taken out while the command runs. A source keeps at least
/// [`WindowSpec::MOST_ROWS`] rows, so that some million rows per second are possible.
pub(crate) const DRAIN_EVERY: Duration = Duration::from_millis(10);

/// The longest wait for the last rows after the end.
const LAST_ROWS: Duration = Duration::from_secs(10);

/// Open windows.
pub(crate) struct OpenWindows {
    windowing: Box<dyn Windowing>,
    batch: RowBatch,
}

impl OpenWindows {
    pub(crate) fn start(&mut self) -> Result<()> {
        self.windowing.start()
    }

    /// Ends the windows; their last rows are taken by [`RunningSession::last_windows`].
    fn stop(&mut self) -> Result<()> {
        self.windowing.stop()
    }

    /// The rows that there are; waits for them until a point in time.
    fn next(&mut self, until: Instant) -> Result<(&RowBatch, WindowingState)> {
        self.batch.rows.clear();
        self.batch.code_memory.clear();
        self.batch.lost = 0;
        let state = self.windowing.next(until, &mut self.batch)?;
        Ok((&self.batch, state))
    }
}

impl RunningSession<'_, '_> {
    /// Opens the windows of a pass, if any are to be recorded; only its measured runs have them. The open
    /// counters of a slot record them themselves where they can.
    ///
    /// # Errors
    ///
    /// `ErrorKind::EventUnsupported` where the source of the leader has no windows, or the leader is not in
    /// the pass.
    pub(crate) fn open_windows<'a>(
        &self,
        pass: &Pass,
        target: &Target,
        counting_of: impl FnOnce(SlotId) -> Option<&'a mut (dyn Counting + 'static)>,
    ) -> Result<Option<OpenWindows>> {
        let Some(spec) = &self.settings.windows else { return Ok(None) };
        let rung = source_of(spec, pass)?;
        let slots: Vec<Slot> = pass.of(rung).into_iter().filter(|slot| slot.twin_of.is_none()).collect();
        let counting = slots.first().and_then(|slot| counting_of(slot.id));
        let windowing = match counting.and_then(|counting| counting.windows(spec)) {
            Some(windowing) => windowing,
            None => self.source(rung)?.windows(&slots, target, spec),
        };
        let windowing = windowing.map_err(|refusal| refused(&refusal, self.better_source(&refusal, spec)))?;
        Ok(Some(OpenWindows { windowing, batch: RowBatch::default() }))
    }

    /// The better source of the leader, with the reason why it is not used, where a source has no windows.
    fn better_source(&self, refusal: &Refusal, spec: &WindowSpec) -> Option<&Skipped> {
        let leader = spec.boundaries.iter().find_map(|boundary| match boundary {
            WindowBoundary::Events { slot, .. } => self.report.plan.lines.get(slot.0),
            WindowBoundary::Interval(_) | WindowBoundary::Timer { .. } => None,
        });
        let skipped = leader.and_then(|line| line.skipped.first());
        skipped.filter(|_| refusal.kind == RefusalKind::TargetNotSupported)
    }

    /// Reports the rows that there are. Windows that fail end: the command and its counters go on.
    pub(crate) fn drain_windows(&mut self, windows: &mut Option<OpenWindows>) {
        self.on_windows(windows, RunningSession::take_rows);
    }

    /// Ends the windows before the counters of the totals end, so that no row has more than those.
    pub(crate) fn stop_windows(&mut self, windows: &mut Option<OpenWindows>) {
        self.on_windows(windows, |_, windows| windows.stop());
    }

    /// Reports the last rows, after the end.
    pub(crate) fn last_windows(&mut self, windows: &mut Option<OpenWindows>) {
        self.on_windows(windows, RunningSession::take_last_rows);
    }

    fn on_windows(
        &mut self,
        windows: &mut Option<OpenWindows>,
        act: impl FnOnce(&mut Self, &mut OpenWindows) -> Result<()>,
    ) {
        let Some(open) = windows else { return };
        if let Err(error) = act(self, open) {
            let notes = open.windowing.notes().into_iter();
            let notes = notes.chain([format!("the rows end before the run: {error}")]).collect();
            self.observer.window_notes(notes);
            *windows = None;
        }
    }

    fn take_rows(&mut self, windows: &mut OpenWindows) -> Result<()> {
        let (batch, _) = windows.next(Instant::now())?;
        if *batch != RowBatch::default() {
            self.observer.windows(batch, &self.report.plan);
        }
        Ok(())
    }

    fn take_last_rows(&mut self, windows: &mut OpenWindows) -> Result<()> {
        let limit = Instant::now() + LAST_ROWS;
        loop {
            let (batch, state) = windows.next(limit)?;
            self.observer.windows(batch, &self.report.plan);
            match state {
                WindowingState::Ended => {
                    self.observer.window_notes(windows.windowing.notes());
                    return Ok(());
                }
                WindowingState::Open if Instant::now() < limit => {}
                WindowingState::Open => {
                    let text =
                        format!("the source did not give its last rows within {} s", LAST_ROWS.as_secs());
                    return Err(Error::new(ErrorKind::StateLost, text));
                }
            }
        }
    }
}

/// The source of the leaders. All of them are of one source, as a row has the counts of one.
fn source_of(spec: &WindowSpec, pass: &Pass) -> Result<Rung> {
    let mut found = None;
    for boundary in &spec.boundaries {
        if let WindowBoundary::Timer { source, .. } = boundary {
            return with_events(*source, pass);
        }
        let WindowBoundary::Events { slot, .. } = boundary else { continue };
        let Some(leader) = pass.slots.iter().find(|held| held.id == *slot) else {
            let text = "an event at which windows end is not counted in this run";
            return Err(Error::new(ErrorKind::EventUnsupported, text));
        };
        match found {
            Some(rung) if rung != leader.rung => {
                let text = format!(
                    "windows end at events of one source, and {} is counted by {}, another one by {rung}",
                    leader.name, leader.rung
                );
                return Err(Error::new(ErrorKind::InvalidInput, text));
            }
            _ => found = Some(leader.rung),
        }
    }
    found.or_else(|| pass.rungs().first().copied()).ok_or_else(|| {
        Error::new(ErrorKind::EventUnsupported, "no event is counted in this run, so there are no windows")
    })
}

/// The source whose timer ends rows, if it counts an event of the pass.
fn with_events(source: Rung, pass: &Pass) -> Result<Rung> {
    let text = || format!("rows end at {source}'s timer, and {source} counts no event here");
    let fix = "name events of this CPU: `cyclometer list` shows them, and `cyclometer doctor` the sources";
    let error = || Error::new(ErrorKind::EventUnsupported, text()).with_recovery(Recovery::fix(fix));
    (!pass.of(source).is_empty()).then_some(source).ok_or_else(error)
}

/// The error of windows that are refused. Rows by time are the remedy where events cannot end rows, and for
/// no other refusal.
fn refused(refusal: &Refusal, better: Option<&Skipped>) -> Error {
    use RefusalKind as Kind;
    let by_time = "record a row for each length of time: --interval 10";
    let (kind, fix) = match refusal.kind {
        Kind::Invalid => (
            ErrorKind::InvalidInput,
            "choose another period or other events, or record by time: --interval 10",
        ),
        Kind::NoPermission => {
            (ErrorKind::PermissionDenied, "`cyclometer doctor` shows what gives the permission")
        }
        Kind::Busy => {
            (ErrorKind::CounterBusy, "end the other user of the counters; `cyclometer doctor` names it")
        }
        Kind::NoSuchTarget => (ErrorKind::NoSuchTarget, refusal.shows_targets()),
        Kind::TooManyFiles => (ErrorKind::Os, "raise the limit: ulimit -n"),
        Kind::Other => (ErrorKind::Os, by_time),
        _ => (ErrorKind::EventUnsupported, by_time),
    };
    let text = match better {
        Some(better) => format!("{}; {}: {}", refusal.reason, better.rung, better.reason),
        None => refusal.reason.to_string(),
    };
    Error::new(kind, text).with_recovery(Recovery::fix(fix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_core::skipped::SkipReason;

    #[test]
    fn windows_that_are_refused_are_an_error_of_that_kind_with_its_remedy() {
        for (kind, expected, remedy) in [
            (RefusalKind::TargetNotSupported, ErrorKind::EventUnsupported, "--interval 10"),
            (RefusalKind::NotSupported, ErrorKind::EventUnsupported, "--interval 10"),
            (RefusalKind::GroupTooLarge, ErrorKind::EventUnsupported, "--interval 10"),
            (RefusalKind::GroupMixed, ErrorKind::EventUnsupported, "--interval 10"),
            (RefusalKind::Invalid, ErrorKind::InvalidInput, "--interval 10"),
            (RefusalKind::NoPermission, ErrorKind::PermissionDenied, "doctor"),
            (RefusalKind::Busy, ErrorKind::CounterBusy, "doctor"),
            (RefusalKind::NoSuchTarget, ErrorKind::NoSuchTarget, "ps -eL"),
            (RefusalKind::TooManyFiles, ErrorKind::Os, "ulimit -n"),
        ] {
            let error = refused(&Refusal::of_target(kind, "the reason"), None);
            assert_eq!((error.kind(), error.to_string().as_str()), (expected, "the reason"));
            assert!(error.recovery().to_string().contains(remedy), "{kind:?}: {:?}", error.recovery());
        }
    }

    #[test]
    fn the_reason_of_a_better_source_follows() {
        let refusal = Refusal::of_target(RefusalKind::TargetNotSupported, "no windows");
        let better = Skipped { rung: Rung::Perf, reason: SkipReason::SeesNoGuests };
        let error = refused(&refusal, Some(&better));
        assert_eq!(error.to_string(), "no windows; perf: the software PMU sees no guests");
    }
}
