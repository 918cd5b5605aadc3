//! Windows of a translated command, thread by thread.
//!
//! The tracer sends a row at the end of each window, and all totals at the end. The difference between the
//! totals and the sums of all rows is the last row, [`WindowCause::Unassigned`]: rows that were lost, and
//! executions that no window has.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cyclometer_core::code_memory::{CodeMapping, CodeMemoryChange};
use cyclometer_core::exec::RefusalKind;
use cyclometer_core::reason::SoftwareRefusal;
use cyclometer_core::window::{
    RowBatch, WindowBoundary, WindowCause, WindowFlags, WindowRow, WindowSpec, WindowThread, Windowing,
    WindowingState,
};
use cyclometer_core::{Count, MissingReason, Refusal, Result, SlotId};
use cyclometer_soft::ExecutionEvent;
use cyclometer_soft::host::protocol::TracerReport;
use cyclometer_soft::host::unescaped_path;
use cyclometer_soft::host::window_protocol::{
    TracedMapping, TracedWindow, TracedWindowEnd, WindowLine, WindowRefusal, WindowRequest,
};

use super::link::{Link, Silence};
use super::read::{incompleteness, sum};

/// The number of rows with which a batch is given out, although there are more.
const FULL_BATCH: usize = 4096;

/// Windows of one command and all its descendants.
pub(super) struct SoftwareWindowing {
    events: Vec<ExecutionEvent>,
    link: Rc<RefCell<Link>>,
    /// The sums of all rows, in the order of the events; `None` where a count of a row is unknown.
    sums: Vec<Option<u64>>,
    notes: Vec<String>,
    /// Lines that are in no batch yet.
    lines: VecDeque<WindowLine>,
    /// The report, with which the windows have ended.
    report: Option<std::result::Result<TracerReport, String>>,
    /// The last row was given out.
    ended: bool,
}

impl SoftwareWindowing {
    /// Requests windows of a command that was not released yet.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] of boundaries or events, or where the command has been released.
    pub(super) fn open(
        lines: &[(SlotId, ExecutionEvent)],
        spec: &WindowSpec,
        link: Rc<RefCell<Link>>,
    ) -> std::result::Result<SoftwareWindowing, Refusal> {
        let request = request(lines, spec)?;
        let answer = link.borrow_mut().record_windows(&request);
        match answer {
            Ok(Ok(())) => {}
            Ok(Err(refusal)) => return Err(refused(refusal)),
            Err(silence) => {
                let reason = SoftwareRefusal::Silent { error: silence.to_string() };
                return Err(Refusal::of_target(RefusalKind::Other, reason));
            }
        }
        let sums = vec![Some(0); lines.len()];
        let (notes, lines) = (Vec::new(), VecDeque::new());
        Ok(SoftwareWindowing { events: request.events, link, sums, notes, lines, report: None, ended: false })
    }

    fn add(&mut self, line: WindowLine, batch: &mut RowBatch) {
        match line {
            WindowLine::Lost(rows) => batch.lost += rows,
            WindowLine::Row(window) => {
                for (sum, count) in self.sums.iter_mut().zip(&window.counts) {
                    *sum = sum.zip(*count).and_then(|(sum, count)| sum.checked_add(count));
                }
                batch.rows.push(Self::row(window));
            }
            WindowLine::Name { pid, tid, name } => {
                batch.names.push((WindowThread { pid, tid }, unescaped(&name)));
            }
            WindowLine::Memory { pid } => batch.code_memory.push(CodeMemoryChange::Executed { pid }),
            WindowLine::Mapping(TracedMapping { pid, start, len, offset, file }) => {
                let mapping = CodeMapping { pid, start, len, offset, file: unescaped(&file) };
                batch.code_memory.push(CodeMemoryChange::Mapped(mapping));
            }
        }
    }

    /// Adds lines to a batch, as long as it has room. A name or mapping behind its first row belongs to the
    /// next batch. True if no line is left.
    fn add_lines(&mut self, batch: &mut RowBatch) -> bool {
        self.lines.extend(self.link.borrow_mut().take_windows());
        while let Some(line) = self.lines.pop_front() {
            let explains = !matches!(line, WindowLine::Row(_) | WindowLine::Lost(_));
            if batch.rows.len() >= FULL_BATCH || (explains && !batch.rows.is_empty()) {
                self.lines.push_front(line);
                return false;
            }
            self.add(line, batch);
        }
        true
    }

    fn row(window: TracedWindow) -> WindowRow {
        let TracedWindow { pid, tid, end, address, time_ns, lost_before, counts } = window;
        WindowRow {
            thread: Some(WindowThread { pid, tid }),
            cpu: None,
            time_ns: Some(time_ns),
            address,
            cause: match end {
                TracedWindowEnd::Period => WindowCause::Boundary(0),
                TracedWindowEnd::Exec => WindowCause::Exec,
                TracedWindowEnd::End => WindowCause::End,
            },
            counts: counts.into_iter().map(count).collect(),
            enabled_ns: None,
            running_ns: None,
            flags: WindowFlags { lost_before, ..WindowFlags::default() },
        }
    }

    /// The row of everything that is in no other row, if there is anything.
    fn unassigned(&self, report: &std::result::Result<TracerReport, String>) -> Option<WindowRow> {
        let rest = |(event, assigned): (&ExecutionEvent, &Option<u64>)| {
            let total = report
                .as_ref()
                .map_err(|silence| MissingReason::Reported(silence.clone()))
                .and_then(|report| sum(&report.processes, *event));
            match (total, assigned) {
                (Ok(total), Some(assigned)) if total >= *assigned => Count::Exact(total - assigned),
                (Ok(_), Some(_)) => Count::Lost { reason: MissingReason::RowsAboveTotals },
                (Ok(_), None) => count(None),
                (Err(reason), _) => Count::Lost { reason },
            }
        };
        let counts: Vec<Count> = self.events.iter().zip(&self.sums).map(rest).collect();
        counts.iter().any(|count| *count != Count::Exact(0)).then(|| WindowRow {
            thread: None,
            cpu: None,
            time_ns: None,
            address: None,
            cause: WindowCause::Unassigned,
            counts,
            enabled_ns: None,
            running_ns: None,
            flags: WindowFlags::default(),
        })
    }

    /// Adds the last row.
    fn end(&mut self, report: &std::result::Result<TracerReport, String>, batch: &mut RowBatch) {
        self.ended = true;
        batch.rows.extend(self.unassigned(report));
        let missing = report.as_ref().ok().and_then(incompleteness);
        self.notes.extend(missing.map(|text| format!("the rows are {text}")));
    }
}

impl Windowing for SoftwareWindowing {
    fn start(&mut self) -> Result<()> {
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.link.borrow_mut().finish();
        Ok(())
    }

    fn next(&mut self, until: Instant, batch: &mut RowBatch) -> Result<WindowingState> {
        while !self.ended {
            if !self.add_lines(batch) || batch.rows.len() >= FULL_BATCH {
                return Ok(WindowingState::Open);
            }
            if let Some(report) = self.report.take() {
                self.end(&report, batch);
                break;
            }
            let taken = !batch.rows.is_empty() || batch.lost > 0;
            let patience =
                if taken { Duration::ZERO } else { until.saturating_duration_since(Instant::now()) };
            let heard = self.link.borrow_mut().hear_windows(patience);
            match heard {
                Ok(None) => {}
                Ok(Some(report)) => self.report = Some(Ok(report)),
                Err(Silence::Quiet(_)) => {
                    self.add_lines(batch);
                    return Ok(WindowingState::Open);
                }
                Err(silence) => self.report = Some(Err(silence.to_string())),
            }
        }
        Ok(WindowingState::Ended)
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// A name of the kernel as text: bytes that are no UTF-8 are replaced.
fn unescaped(text: &str) -> String {
    unescaped_path(text).to_string_lossy().into_owned()
}

fn count(count: Option<u64>) -> Count {
    count.map_or(Count::Lost { reason: MissingReason::MadeAtRunTime }, Count::Exact)
}

/// The refusal of the tracer.
fn refused(refusal: WindowRefusal) -> Refusal {
    let (kind, reason) = match refusal {
        WindowRefusal::TooLong => (RefusalKind::Invalid, SoftwareRefusal::RequestTooLong),
        WindowRefusal::Malformed => (RefusalKind::Other, SoftwareRefusal::MalformedRequest),
        WindowRefusal::Released => (RefusalKind::Other, SoftwareRefusal::Released),
    };
    Refusal::of_target(kind, reason)
}

/// The request for a boundary and events.
fn request(
    lines: &[(SlotId, ExecutionEvent)],
    spec: &WindowSpec,
) -> std::result::Result<WindowRequest, Refusal> {
    if let Some((slot, event)) = lines.iter().find(|(_, event)| *event == ExecutionEvent::DistinctCodeBytes) {
        let reason = SoftwareRefusal::SizeOfSet { event: event.name() };
        return Err(Refusal::of_slot(*slot, RefusalKind::NotSupported, reason));
    }
    let [boundary] = spec.boundaries.as_slice() else {
        return Err(Refusal::of_target(RefusalKind::Invalid, SoftwareRefusal::OneBoundary));
    };
    let (slot, period) = match *boundary {
        WindowBoundary::Events { slot, period } => (slot, period),
        WindowBoundary::Interval(_) | WindowBoundary::Timer { .. } => {
            return Err(Refusal::of_target(RefusalKind::NotSupported, SoftwareRefusal::WindowsByTime));
        }
    };
    let event = lines.iter().find(|(known, _)| *known == slot).map(|(_, event)| *event);
    if event != Some(ExecutionEvent::Instructions) {
        let reason = SoftwareRefusal::OtherLeader { event: event.map(ExecutionEvent::name) };
        return Err(Refusal::of_slot(slot, RefusalKind::NotSupported, reason));
    }
    let events = lines.iter().map(|(_, event)| *event).collect();
    Ok(WindowRequest { period, most_rows: spec.most_rows, events })
}
