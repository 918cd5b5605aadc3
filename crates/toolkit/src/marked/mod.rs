//! Regions that programs mark, as `stat` counts them.

mod launch;

use std::collections::{HashMap, HashSet};

use cyclometer_backend::thread_refusal;
use cyclometer_core::exec::{At, Cell, Reading};
use cyclometer_core::report::Run;
use cyclometer_core::{MissingReason, PartReason, Report, Rung, Slot, SlotId};
use cyclometer_marker::board::{BoardRow, LABEL_BYTES, LONGEST_LABEL, Loss, ROWS, Sum, VERSION};

use launch::{BoardContents, MarkedCounter};
pub(crate) use launch::{Boards, MarkedLaunch, MarkedSource};

/// The counts of the regions that a command marked.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MarkedRegions {
    /// One for each name, in the order in which they came first.
    pub regions: Vec<MarkedRegion>,
    /// Remarks about the regions, or the reason why there are none.
    pub notes: Vec<String>,
}

/// The regions of one name.
#[derive(Clone, PartialEq, Debug)]
pub struct MarkedRegion {
    /// The name.
    pub label: String,
    /// How often it was executed in each run; runs without it are there with zeros.
    pub runs: Vec<MarkedRun>,
    /// The measurement, with the counts of these regions instead of those of whole runs.
    pub report: Report,
    /// Remarks about ends of the region that do not match.
    pub notes: Vec<String>,
}

/// The regions of one name in one run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MarkedRun {
    /// Number of the run, from 0.
    pub run: u32,
    /// How many regions began.
    pub calls: u64,
    /// How many of them ended.
    pub ended: u64,
    /// How many ends had no beginning.
    pub unmatched: u64,
    /// The sum of the times of outermost regions over all threads, in ns.
    pub time_ns: u64,
    /// How many threads executed it.
    pub threads: u64,
    /// The counts of each thread.
    pub by_thread: Vec<MarkedThread>,
}

/// The regions of one name in one thread.
#[derive(Clone, PartialEq, Debug)]
pub struct MarkedThread {
    /// The process.
    pub pid: u32,
    /// The thread; `None`: several of the process, one after the other.
    pub tid: Option<u32>,
    /// How many regions began.
    pub calls: u64,
    /// How many of them ended.
    pub ended: u64,
    /// The time of outermost regions, in ns.
    pub time_ns: u64,
    /// The counts in these regions.
    pub reading: Reading,
}

/// Reads the boards of a measurement. `warmups` commands were executed before the runs of the report.
pub(crate) fn collect(boards: &Boards, report: &Report, warmups: u32) -> MarkedRegions {
    let all = boards.take();
    let boards = all.get(warmups as usize..).unwrap_or_default();
    let rows: Vec<&[BoardRow]> = boards.iter().map(|marked| marked.rows.as_slice()).collect();
    let regions = by_label(&rows).iter().map(|own| region(own, report, boards)).collect();
    MarkedRegions { regions, notes: notes(boards) }
}

/// The rows of one name: for each run those of its threads.
struct OfLabel<'a> {
    label: &'a str,
    rows: Vec<Vec<&'a BoardRow>>,
}

/// The rows by name, in the order in which names came first.
fn by_label<'a>(rows: &[&'a [BoardRow]]) -> Vec<OfLabel<'a>> {
    let mut found: Vec<OfLabel<'a>> = Vec::new();
    let mut places: HashMap<&'a str, usize> = HashMap::new();
    for (run, row) in rows.iter().enumerate().flat_map(|(run, rows)| rows.iter().map(move |row| (run, row))) {
        let place = *places.entry(&row.label).or_insert_with(|| {
            found.push(OfLabel { label: &row.label, rows: vec![Vec::new(); rows.len()] });
            found.len() - 1
        });
        found[place].rows[run].push(row);
    }
    found
}

fn region(own: &OfLabel<'_>, report: &Report, boards: &[BoardContents]) -> MarkedRegion {
    let mut report = report.clone();
    for pass in &mut report.plan.passes {
        // In its own threads a program counts all events all the time, as far as the kernel has counters for
        // them.
        pass.slots.iter_mut().for_each(|slot| slot.rotation_group = None);
    }
    let (mut runs, mut faults) = (Vec::new(), Faults::default());
    let passes = report.plan.passes.clone();
    for (i, run) in report.runs.iter_mut().enumerate() {
        let slots = passes.get(run.pass).map(|pass| pass.slots.as_slice()).unwrap_or_default();
        let rows = own.rows.get(i).map(Vec::as_slice).unwrap_or_default();
        faults.add(rows);
        runs.push(in_run(run, slots, boards.get(i), rows));
    }
    MarkedRegion { label: own.label.to_owned(), runs, report, notes: faults.notes() }
}

/// Replaces the counts of a whole run by those of some regions.
fn in_run(run: &mut Run, slots: &[Slot], marked: Option<&BoardContents>, rows: &[&BoardRow]) -> MarkedRun {
    run.slices = Vec::new();
    // Others only ended regions: of before a fork, or by mistake.
    let begun = || rows.iter().filter(|row| row.begun > 0);
    let by_thread: Vec<MarkedThread> = begun().map(|row| thread(row, slots, marked)).collect();
    run.reading.cells =
        in_one_place(by_thread.iter().flat_map(|thread| thread.reading.cells.iter().cloned()));
    if by_thread.is_empty() {
        let reason = if rows.is_empty() { MissingReason::NotExecuted } else { MissingReason::NeverBegan };
        run.reading.cells = slots.iter().map(|slot| lost(slot.id, reason.clone())).collect();
    }
    let sum = |of: fn(&BoardRow) -> u64| rows.iter().map(|row| of(row)).fold(0, u64::saturating_add);
    MarkedRun {
        run: run.index,
        calls: sum(|row| row.begun),
        ended: sum(|row| row.ended),
        unmatched: sum(|row| row.unmatched),
        time_ns: sum(|row| row.time_ns),
        threads: threads(begun().copied()),
        by_thread,
    }
}

/// How many threads were there: one that executed another program has a row of each.
fn threads<'a>(rows: impl Iterator<Item = &'a BoardRow>) -> u64 {
    let mut known = HashSet::new();
    // The threads that shared a row left only their number.
    let counted = |row: &BoardRow| match row.tid {
        None => row.threads,
        Some(tid) => u64::from(known.insert((row.pid, tid))),
    };
    rows.map(counted).fold(0, u64::saturating_add)
}

fn thread(row: &BoardRow, slots: &[Slot], marked: Option<&BoardContents>) -> MarkedThread {
    let cells = slots.iter().flat_map(|slot| slot_cells(slot, row, marked)).collect();
    MarkedThread {
        pid: row.pid,
        tid: row.tid,
        calls: row.begun,
        ended: row.ended,
        time_ns: row.time_ns,
        reading: Reading { cells },
    }
}

/// Adds up the counts of each slot and origin. Several rows may have one origin: threads that ran one after
/// the other, or a program and the one that it executes. Each was counted over its own time, where cells of
/// one origin share theirs.
fn in_one_place(cells: impl Iterator<Item = Cell>) -> Vec<Cell> {
    let mut found: Vec<Cell> = Vec::new();
    let mut places: HashMap<(SlotId, At), usize> = HashMap::new();
    for cell in cells {
        let place = *places.entry((cell.slot, cell.at.clone())).or_insert(found.len());
        match found.get_mut(place) {
            Some(sum) => join(sum, cell),
            None => found.push(cell),
        }
    }
    found
}

/// Adds a count of the same slot and origin over another time. If one of the two is lost, the sum is partial.
fn join(sum: &mut Cell, other: Cell) {
    let missing = match (sum.lost.take(), other.lost) {
        (Some(reason), Some(_)) => {
            sum.lost = Some(reason);
            None
        }
        (one, another) => one.or(another),
    };
    sum.partial = sum.partial.take().or(other.partial).or(missing.map(PartReason::WithoutSome));
    sum.raw = sum.raw.saturating_add(other.raw);
    sum.time_enabled_ns = sum.time_enabled_ns.saturating_add(other.time_enabled_ns);
    sum.time_running_ns = sum.time_running_ns.saturating_add(other.time_running_ns);
}

/// The counts of a thread for an event.
fn slot_cells(slot: &Slot, row: &BoardRow, marked: Option<&BoardContents>) -> Vec<Cell> {
    let counted_as = slot.opened_as();
    let why_not = || {
        let left_out = marked.and_then(|marked| marked.left_out.iter().find(|(id, _)| *id == counted_as));
        let reason = left_out.map_or(MissingReason::NotOpened, |(_, reason)| reason.clone());
        vec![lost(slot.id, reason)]
    };
    let Some(marked) = marked else { return why_not() };
    let counters = marked.counters.iter().zip(&row.sums).filter(|(counter, _)| counter.slot == counted_as);
    let cells: Vec<Cell> = counters.map(|(counter, sum)| cell(slot.id, counter, sum, row)).collect();
    if cells.is_empty() { why_not() } else { cells }
}

fn cell(slot: SlotId, counter: &MarkedCounter, sum: &Sum, row: &BoardRow) -> Cell {
    let at = At { part: counter.part, pmu: Some(counter.pmu.clone()), cpu: None, tid: row.tid };
    if sum.lost > 0 {
        let reason = why_lost(sum.reason, &counter.pmu);
        let reason = match sum.lost < row.ended {
            true => MissingReason::OfCalls { reason: Box::new(reason), lost: sum.lost, calls: row.ended },
            false => reason,
        };
        return Cell { at, ..lost(slot, reason) };
    }
    if row.counted == 0 {
        return Cell { at, ..lost(slot, why_nothing(row)) };
    }
    let (enabled, running) = match counter.rung {
        // Its counts are of all that was executed.
        Rung::Soft => (row.time_ns.max(1), row.time_ns.max(1)),
        _ => (sum.time_enabled_ns, sum.time_running_ns),
    };
    Cell { at, partial: why_partial(row, counter.rung), ..Cell::new(slot, sum.value, enabled, running) }
}

/// The reason why the counts of a region are incomplete.
fn why_partial(row: &BoardRow, rung: Rung) -> Option<PartReason> {
    if row.is_torn {
        return Some(PartReason::DiedAtEnd);
    }
    if rung == Rung::Soft && row.disordered > 0 {
        return Some(PartReason::MarksDiffer);
    }
    let calls = PartReason::Calls { counted: row.counted, begun: row.begun };
    (row.counted < row.begun).then_some(calls)
}

/// Why a region has no counts that began.
fn why_nothing(row: &BoardRow) -> MissingReason {
    match row {
        BoardRow { is_torn: true, .. } => MissingReason::DiedAtEnd,
        BoardRow { ended: 0, .. } => MissingReason::NeverEnded,
        // All other calls are taken for calls within the outermost one.
        _ => MissingReason::OutermostNeverEnded,
    }
}

fn lost(slot: SlotId, reason: MissingReason) -> Cell {
    Cell { lost: Some(reason), ..Cell::new(slot, 0, 0, 0) }
}

fn why_lost(reason: u64, pmu: &str) -> MissingReason {
    let errno = || i32::try_from(reason).unwrap_or(0);
    match Loss::of_code(reason) {
        Some(Loss::Unread) => MissingReason::UnreadAtEnds,
        Some(Loss::NotTranslated) => MissingReason::NotTranslatedAtEnds,
        Some(Loss::NotOfThreads) => MissingReason::OfTranslatedProcesses,
        Some(Loss::BiasUnknown) => MissingReason::BiasUnknown,
        None => MissingReason::Reported(thread_refusal(errno(), pmu)),
    }
}

/// Errors in the ends of regions, over all runs.
#[derive(Default)]
struct Faults {
    begun: u64,
    counted: u64,
    unclosed: u64,
    unmatched: u64,
    crossed: u64,
    forked: u64,
    torn: u64,
}

impl Faults {
    fn add(&mut self, rows: &[&BoardRow]) {
        for row in rows {
            // The program writes them: they may be any numbers.
            let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
            add(&mut self.begun, row.begun);
            add(&mut self.counted, row.counted);
            add(&mut self.unclosed, row.begun.saturating_sub(row.ended));
            add(&mut self.unmatched, row.unmatched);
            add(&mut self.crossed, row.crossed);
            add(&mut self.forked, row.forked);
            add(&mut self.torn, u64::from(row.is_torn));
        }
    }

    fn notes(&self) -> Vec<String> {
        let times = |n: u64| if n == 1 { "once".to_owned() } else { format!("{n} times") };
        let counted = match self.counted {
            0 => "nothing is counted".to_owned(),
            counted => format!("its counts are of {counted} of {} calls", self.begun),
        };
        let notes = [
            (self.unclosed, "begun and not ended", counted.as_str()),
            (self.unmatched, "ended without having begun", "those ends count nothing"),
            (
                self.crossed,
                "ended before a region that had begun in it",
                "each counts from its begin to its end",
            ),
            (self.forked, "begun before a fork and ended in the child", "the parent counts it"),
            (self.torn, "being ended when the process died", "that call may be counted in part"),
        ];
        let told = notes.into_iter().filter(|(n, ..)| *n > 0);
        told.map(|(n, what, so)| format!("{what} {}: {so}", times(n))).collect()
    }
}

/// Remarks about all regions.
fn notes(boards: &[BoardContents]) -> Vec<String> {
    let mut notes = Vec::new();
    let sum = |of: fn(&BoardContents) -> u64| boards.iter().map(of).fold(0, u64::saturating_add);
    let dropped = sum(|marked| marked.dropped);
    let cut = sum(|marked| marked.cut);
    if let Some(version) = boards.iter().find_map(|marked| marked.other_version) {
        notes.push(format!(
            "the program marks regions with a library of another version: it writes format {version}, and this is {VERSION}; \
             build both from one release"
        ));
    } else if boards.iter().all(|marked| marked.rows.is_empty()) && dropped == 0 {
        notes.push(NO_REGIONS.to_owned());
    }
    if dropped > 0 {
        let is_out = |of: fn(&BoardContents) -> bool| boards.iter().any(of);
        let why =
            why_not_noted(is_out(|marked| marked.is_out_of_rows), is_out(|marked| marked.is_out_of_names));
        notes.push(format!("{dropped} begins and ends of regions were not noted: {why}"));
    }
    if cut > 0 {
        notes.push(format!(
            "names of regions are cut to {LONGEST_LABEL} bytes, and equal ones are one region"
        ));
    }
    notes
}

/// Why begins and ends were not noted.
fn why_not_noted(is_out_of_rows: bool, is_out_of_names: bool) -> String {
    let rows = format!("there are more than {ROWS} names and threads");
    let names = format!("names of regions take more than {} MiB", LABEL_BYTES >> 20);
    let here = "they came in the handler of a signal, or while their thread ended".to_owned();
    let known: Vec<String> =
        [(is_out_of_rows, rows), (is_out_of_names, names), (!is_out_of_rows && !is_out_of_names, here)]
            .into_iter()
            .filter_map(|(is_so, why)| is_so.then_some(why))
            .collect();
    known.join(", and ")
}

/// Why there may be none.
const NO_REGIONS: &str = "no region was marked: the command does not use the library's markers, did not come to one, or may not \
                          open the memory that they report to (another user, set-id, another /proc)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_told_with_its_number() {
        assert!(Faults::default().notes().is_empty());
        let mut none = Faults::default();
        none.add(&[&BoardRow { begun: 2, ..BoardRow::default() }]);
        assert_eq!(none.notes(), ["begun and not ended 2 times: nothing is counted"]);
        let row =
            BoardRow { begun: 5, ended: 3, counted: 2, unmatched: 1, is_torn: true, ..BoardRow::default() };
        let mut faults = Faults::default();
        faults.add(&[&row]);
        assert_eq!(
            faults.notes(),
            [
                "begun and not ended 2 times: its counts are of 2 of 5 calls",
                "ended without having begun once: those ends count nothing",
                "being ended when the process died once: that call may be counted in part",
            ]
        );
    }

    #[test]
    fn a_thread_that_executes_another_program_is_one_thread() {
        let row = |pid, tid, threads| BoardRow { pid, tid, threads, begun: 1, ..BoardRow::default() };
        let rows =
            [row(7, Some(7), 1), row(7, Some(7), 1), row(7, Some(8), 1), row(9, None, 5), row(9, Some(9), 1)];
        assert_eq!(threads(rows.iter()), 8);
    }

    #[test]
    fn numbers_of_faults_do_not_wrap() {
        let row = BoardRow {
            begun: u64::MAX,
            unmatched: u64::MAX,
            crossed: u64::MAX,
            forked: u64::MAX,
            ..BoardRow::default()
        };
        let mut faults = Faults::default();
        faults.add(&[&row, &row]);
        assert_eq!((faults.unclosed, faults.unmatched, faults.forked), (u64::MAX, u64::MAX, u64::MAX));
    }

    #[test]
    fn marks_without_room_are_told_what_room_it_was() {
        assert_eq!(why_not_noted(true, false), "there are more than 65536 names and threads");
        assert_eq!(why_not_noted(false, true), "names of regions take more than 8 MiB");
        assert!(why_not_noted(false, false).starts_with("they came in the handler of a signal"));
        assert!(why_not_noted(true, true).contains(", and names"));
    }

    #[test]
    fn rows_of_one_thread_add_up_with_their_times() {
        let at = At { tid: Some(7), ..At::default() };
        let of =
            |raw, enabled, running| Cell { at: at.clone(), ..Cell::new(SlotId(0), raw, enabled, running) };
        let lost = || Cell { at: at.clone(), ..lost(SlotId(0), MissingReason::UnreadAtEnds) };
        let all = |cells: Vec<Cell>| in_one_place(cells.into_iter());
        assert_eq!(all(vec![of(5, 100, 50), of(6, 80, 50)]), [of(11, 180, 100)]);
        let elsewhere = Cell { at: At::default(), ..of(1, 2, 2) };
        assert_eq!(all(vec![of(5, 9, 9), elsewhere.clone()]), [of(5, 9, 9), elsewhere]);
        let partial =
            Cell { partial: Some(PartReason::WithoutSome(MissingReason::UnreadAtEnds)), ..of(5, 9, 9) };
        for both in [vec![lost(), of(5, 9, 9)], vec![of(5, 9, 9), lost()]] {
            assert_eq!(all(both).as_slice(), std::slice::from_ref(&partial));
        }
        assert_eq!(all(vec![lost(), lost()]), [lost()]);
    }

    #[test]
    fn a_region_without_a_value_is_no_zero() {
        let counter = MarkedCounter { slot: SlotId(0), rung: Rung::Perf, part: 0, pmu: "cpu".to_owned() };
        let row = BoardRow { begun: 2, ended: 2, counted: 2, tid: Some(7), ..BoardRow::default() };
        let of = |sum: Sum, row: &BoardRow| cell(SlotId(0), &counter, &sum, row);
        let counted = of(Sum { value: 5, time_enabled_ns: 9, time_running_ns: 9, ..Sum::default() }, &row);
        assert_eq!((counted.raw, counted.lost, counted.at.tid), (5, None, Some(7)));
        let lost = of(Sum { value: 5, lost: 1, reason: Loss::Unread.code(), ..Sum::default() }, &row);
        assert_eq!(lost.raw, 0);
        assert_eq!(
            lost.lost.unwrap().to_string(),
            "the counter could not be read at both ends (1 of 2 calls)"
        );
        let never = of(Sum::default(), &BoardRow { begun: 1, ..BoardRow::default() });
        assert_eq!(never.lost, Some(MissingReason::NeverEnded));
        let inner = of(Sum::default(), &BoardRow { begun: 6, ended: 5, ..BoardRow::default() });
        assert_eq!(inner.lost, Some(MissingReason::OutermostNeverEnded));
        let some = of(Sum::default(), &BoardRow { begun: 9, ended: 8, counted: 3, ..BoardRow::default() });
        assert_eq!((some.lost, some.partial), (None, Some(PartReason::Calls { counted: 3, begun: 9 })));
        let torn = BoardRow { begun: 2, ended: 2, is_torn: true, ..BoardRow::default() };
        assert_eq!(of(Sum::default(), &torn).lost, Some(MissingReason::DiedAtEnd));
        let torn = of(Sum::default(), &BoardRow { counted: 2, ..torn });
        assert_eq!((torn.lost, torn.partial), (None, Some(PartReason::DiedAtEnd)));
    }
}
