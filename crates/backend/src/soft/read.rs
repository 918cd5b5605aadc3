//! Reports of a tracer as cells.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cyclometer_core::code::{
    CodeCall, CodeCounts, CodeObject, CodeOwner, CodePath, CodePlace, ProcessMemory,
};
use cyclometer_core::exec::{Cell, Exit, Reading};
use cyclometer_core::{Counting, Error, ErrorKind, MissingReason, PartReason, Result, SlotId};
use cyclometer_soft::ExecutionEvent;
use cyclometer_soft::host::protocol::{
    CodeReport, ProcessCounts, ReportedOwner, RunTimeCodeOwner, TracerReport,
};
use cyclometer_soft::host::{file_sum, unescaped_path};

use super::link::Link;

/// A number, or why it is missing.
pub(super) type EventSum = std::result::Result<u64, MissingReason>;

/// The counts of one command and all its descendants.
pub(super) struct SoftwareCounting {
    lines: Vec<(SlotId, ExecutionEvent)>,
    link: Rc<RefCell<Link>>,
    started: Option<Instant>,
    exit: Option<Exit>,
    /// The last values read, in the order of the lines.
    sums: Vec<EventSum>,
    /// Whether these are the final values.
    settled: bool,
    /// Why the counts are incomplete, if they are.
    partial: Option<PartReason>,
    /// Whether counts by instruction were requested.
    by_code: bool,
}

impl SoftwareCounting {
    pub(super) fn new(
        lines: Vec<(SlotId, ExecutionEvent)>,
        link: Rc<RefCell<Link>>,
        by_code: bool,
    ) -> SoftwareCounting {
        let (sums, settled, partial) = (Vec::new(), false, None);
        SoftwareCounting { lines, link, started: None, exit: None, sums, settled, partial, by_code }
    }

    fn settle(&mut self, exit: &Exit) {
        let report = self.link.borrow_mut().last_report(exit.status);
        let sums = self.lines.iter().enumerate().map(|(i, (_, event))| {
            let report = report.as_ref().map_err(|silence| MissingReason::Reported(silence.clone()))?;
            let sum = sum(&report.processes, *event)?;
            match self.sums.get(i) {
                Some(Ok(before)) if *before > sum => Err(MissingReason::CountsBelowEarlier),
                _ => Ok(sum),
            }
        });
        self.sums = sums.collect();
        self.partial = report.ok().and_then(|report| incompleteness(&report)).map(PartReason::Reported);
        self.settled = true;
    }

    fn refresh(&mut self) -> Result<()> {
        let report = self.link.borrow_mut().ask();
        let report = report.map_err(|silence| Error::new(ErrorKind::StateLost, silence.to_string()))?;
        let sums: Vec<EventSum> = self.lines.iter().map(|(_, event)| sum(&report, *event)).collect();
        // A process that waits for its child to execute a program cannot be read: its last counts would be
        // missing.
        if self.sums.iter().zip(&sums).any(|pair| matches!(pair, (Ok(before), Ok(now)) if now < before)) {
            return Err(Error::new(ErrorKind::StateLost, "a process cannot be read now"));
        }
        self.sums = sums;
        Ok(())
    }
}

impl Counting for SoftwareCounting {
    fn start(&mut self) -> Result<()> {
        self.started = Some(Instant::now());
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        Ok(())
    }

    fn exited(&mut self, exit: &Exit) {
        self.link.borrow_mut().finish();
        self.exit = Some(exit.clone());
    }

    fn take_code(&mut self) -> Option<Result<CodeCounts>> {
        let report = self.link.borrow_mut().take_code().filter(|_| self.by_code)?;
        Some(code_counts(&report, &self.lines))
    }

    fn read(&mut self, out: &mut Reading) -> Result<()> {
        let elapsed_ns = match self.exit.clone() {
            None => {
                self.refresh()?;
                nanos(self.started.map_or(Duration::ZERO, |started| started.elapsed()))
            }
            Some(exit) => {
                if !self.settled {
                    self.settle(&exit);
                }
                exit.wall_ns
            }
        };
        out.cells.extend(
            self.lines.iter().zip(&self.sums).map(|((slot, _), sum)| Cell {
                partial: self.partial.clone(),
                ..cell(*slot, sum, elapsed_ns)
            }),
        );
        Ok(())
    }
}

/// The path of the file whose code the software PMU counted; `None`: it was replaced since.
pub fn counted_file(object: &CodeObject) -> Option<PathBuf> {
    let path = unescaped_path(&object.path);
    file_sum(&path).is_ok_and(|sum| sum == object.sum).then_some(path)
}

/// The counts of each instruction of the events that are sums.
fn code_counts(report: &CodeReport, lines: &[(SlotId, ExecutionEvent)]) -> Result<CodeCounts> {
    let is_sum = |(_, event): &&(SlotId, ExecutionEvent)| *event != ExecutionEvent::DistinctCodeBytes;
    let (slots, events): (Vec<SlotId>, Vec<ExecutionEvent>) = lines.iter().filter(is_sum).copied().unzip();
    let instructions = slots.iter().zip(&events).filter(|(_, event)| **event == ExecutionEvent::Instructions);
    let instructions = instructions.map(|(slot, _)| *slot).collect();
    let counted = report.profile.attribute(&events);
    let (counted, calls) = counted.map_err(|error| Error::new(ErrorKind::StateLost, error.to_string()))?;
    let files = report.objects.iter().map(|object| {
        (object.number, CodeObject { path: object.path.clone(), sum: object.sum.clone(), memory: None })
    });
    let memory = report.memory.iter().map(|(number, RunTimeCodeOwner { pid, since_ns })| {
        let memory = Some(ProcessMemory { pid: *pid, since_ns: *since_ns });
        (*number, CodeObject { memory, ..CodeObject::default() })
    });
    let (numbers, objects): (Vec<u32>, Vec<CodeObject>) = files.chain(memory).unzip();
    let index_of: HashMap<u32, usize> = numbers.into_iter().zip(0..).collect();
    let index = |number: u32| index_of.get(&number).copied();
    let owner_of: HashMap<u32, usize> = report.owners.iter().map(|(number, _)| *number).zip(0..).collect();
    let owner = |number: u32| owner_of.get(&number).copied();
    let owners = report.owners.iter().map(|(_, ReportedOwner { pid, tid, name })| CodeOwner {
        name: name.clone(),
        pid: *pid,
        tid: *tid,
    });
    let places = counted.into_iter().map(|counted| CodePlace {
        object: counted.place.object.and_then(index),
        offset: counted.place.offset,
        owner: counted.place.owner.and_then(owner),
        counts: counted.counts,
    });
    let calls = calls.into_iter().map(|call| CodeCall {
        object: call.place.object.and_then(index),
        offset: call.place.offset,
        owner: call.place.owner.and_then(owner),
        distance: call.distance,
        times: call.times,
    });
    let paths = report.paths.iter().map(|path| CodePath {
        parent: path.parent.map(|parent| parent as usize),
        object: path.place.object.and_then(index),
        offset: path.place.offset,
        calls: path.calls,
        recursions: path.recursions,
        instructions: path.own,
        is_partial: path.is_partial,
    });
    Ok(CodeCounts {
        slots,
        instructions,
        owners: owners.collect(),
        objects,
        places: places.collect(),
        calls: calls.collect(),
        paths: paths.collect(),
    })
}

fn cell(slot: SlotId, sum: &EventSum, elapsed_ns: u64) -> Cell {
    match sum {
        Ok(sum) => Cell::new(slot, *sum, elapsed_ns.max(1), elapsed_ns.max(1)),
        Err(reason) => Cell { lost: Some(reason.clone()), ..Cell::new(slot, 0, 0, 0) },
    }
}

/// The sum over all processes; no sum when one has no count.
pub(super) fn sum(report: &[ProcessCounts], event: ExecutionEvent) -> EventSum {
    let mut sum = 0_u64;
    let mut losers = Vec::new();
    for process in report {
        match process.count(event) {
            Ok(count) => sum = sum.checked_add(count).ok_or(MissingReason::SumTooBig)?,
            Err(reason) => losers.push((process, reason)),
        }
    }
    match losers.as_slice() {
        [] if report.is_empty() => Err(MissingReason::NoReport),
        [] => Ok(sum),
        [(process, reason), others @ ..] => {
            let text = format!("{}: {reason}{}", named(process), more(others.len()));
            Err(MissingReason::Reported(text))
        }
    }
}

fn named(process: &ProcessCounts) -> String {
    match process.name.as_str() {
        "" => format!("process {}", process.pid),
        name => format!("{name} ({})", process.pid),
    }
}

/// The reasons why the counts of a last report are incomplete, if they are.
pub(super) fn incompleteness(report: &TracerReport) -> Option<String> {
    let parts = [uncounted(&report.processes), still_ran(report.running)];
    parts.into_iter().flatten().reduce(|all, part| format!("{all}; {part}"))
}

/// The note on processes that were counted up to a point only.
fn uncounted(processes: &[ProcessCounts]) -> Option<String> {
    let mut ended = processes.iter().filter_map(|process| Some((process, process.uncounted.as_ref()?)));
    let (process, reason) = ended.next()?;
    Some(format!("without what {} did {reason}{}", named(process), more(ended.count())))
}

/// The note on processes that continue after the last report.
fn still_ran(processes: usize) -> Option<String> {
    match processes {
        0 => None,
        1 => Some("without what a process did that still ran when the command had ended".to_owned()),
        more => Some(format!("without what {more} processes did that still ran when the command had ended")),
    }
}

fn more(others: usize) -> String {
    match others {
        0 => String::new(),
        1 => "; another process too".to_owned(),
        _ => format!("; {others} other processes too"),
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, name: &str, loads: std::result::Result<u64, &str>) -> ProcessCounts {
        let counts = loads.map(|loads| vec![(ExecutionEvent::Loads, Ok(loads))]).map_err(str::to_owned);
        ProcessCounts { pid, parent: 1, name: name.to_owned(), counts, uncounted: None }
    }

    #[test]
    fn a_count_is_the_sum_over_all_processes() {
        let report = [process(7, "sh", Ok(3)), process(8, "ls", Ok(4))];
        assert_eq!(sum(&report, ExecutionEvent::Loads), Ok(7));
        assert!(sum(&report, ExecutionEvent::Stores).is_err(), "it was not reported");
        assert!(sum(&[], ExecutionEvent::Loads).is_err(), "nobody is not zero");
        let large = [process(7, "sh", Ok(u64::MAX)), process(8, "ls", Ok(4))];
        assert!(sum(&large, ExecutionEvent::Loads).is_err());
    }

    #[test]
    fn one_lost_process_loses_the_sum_and_is_named() {
        let lost = "detached at 0x10: the program started a thread";
        let mut report = vec![process(7, "sh", Ok(3)), process(8, "sort", Err(lost))];
        assert_eq!(sum(&report, ExecutionEvent::Loads), Err(format!("sort (8): {lost}").into()));
        report.push(process(9, "", Err("x")));
        assert_eq!(
            sum(&report, ExecutionEvent::Loads),
            Err(format!("sort (8): {lost}; another process too").into())
        );
        assert_eq!(sum(&report[2..], ExecutionEvent::Loads), Err("process 9: x".into()));
    }

    #[test]
    fn processes_that_are_counted_up_to_a_point_keep_the_sum_and_are_named() {
        let until = |name, reason: &str| ProcessCounts {
            uncounted: Some(reason.to_owned()),
            ..process(8, name, Ok(4))
        };
        let report =
            |processes, running| TracerReport { processes, last: true, running, code: CodeReport::default() };
        assert_eq!(incompleteness(&report(vec![process(7, "sh", Ok(3))], 0)), None);
        let one = report(vec![process(7, "sh", Ok(3)), until("ls", "after x")], 0);
        assert_eq!(sum(&one.processes, ExecutionEvent::Loads), Ok(7));
        assert_eq!(incompleteness(&one).as_deref(), Some("without what ls (8) did after x"));
        let more = report(vec![until("ls", "after x"), until("", "after y")], 1);
        assert_eq!(
            incompleteness(&more).as_deref(),
            Some(
                "without what ls (8) did after x; another process too; \
                without what a process did that still ran when the command had ended"
            )
        );
    }

    #[test]
    fn what_is_lost_has_no_time() {
        let lost = cell(SlotId(1), &Err("x".into()), 5);
        assert_eq!((lost.raw, lost.time_enabled_ns, lost.lost), (0, 0, Some("x".into())));
        let counted = cell(SlotId(1), &Ok(9), 5);
        assert_eq!((counted.raw, counted.time_enabled_ns, counted.time_running_ns), (9, 5, 5));
    }
}
