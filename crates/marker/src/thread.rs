//! The regions of one thread.
//!
//! # Problem
//!
//! A mark executes instructions itself, and under the software PMU each of them is counted. The counts of a
//! region must have none of those, to the last one.
//!
//! # Terms
//!
//! - *Mark*: the call at one end of a region. It reads the counters when it begins, when it ends, or both.
//! - *Bias*: the counts that marks add to a region. It depends on the language of the caller, so it is
//!   measured with empty regions of each language (*calibration*).
//! - *Own counts*: the sum of the biases of all marks so far. A region subtracts those of the marks inside
//!   it.
//!
//! # Invariants
//!
//! - Both ends execute the same code before their first read and after their last one. Work that would follow
//!   the last read is left to the next mark ([`DeferredWork`]).
//! - Only this thread writes its rows. A mark that interrupts another one, as in a signal handler, is
//!   dropped.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Instant;

use crate::board::{LabelAt, Loss, Sum, Word};
use crate::meter::{self, Meter, ProcessBirth};
use crate::session::Session;
use crate::{Empty, Label};

/// The two ends of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RegionEdge {
    Begin,
    End,
}

thread_local! {
    static THREAD_MARKS: RefCell<Option<ThreadMarks>> = const { RefCell::new(None) };
}

/// The result of recording an end of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MarkResult {
    Recorded,
    /// This thread, or the child process that it became, has no open counters yet.
    NotReady,
    /// The mark came while another one was being recorded, as in a signal handler, or after the thread had
    /// ended.
    Impossible,
}

/// Records one end of a region of this thread.
pub(crate) fn mark(session: &'static Session, edge: RegionEdge, label: impl Label, empty: &'static Empty) {
    let mut label = Some(label);
    // A single path: the code after the last read of counters must be the same for the first region of a
    // thread.
    loop {
        match try_mark(session, edge, &mut label, empty) {
            MarkResult::Recorded => return,
            MarkResult::NotReady => set_up(session, empty),
            MarkResult::Impossible => return session.board.drop_one(),
        }
    }
}

#[inline(always)]
fn try_mark(
    session: &'static Session,
    edge: RegionEdge,
    label: &mut Option<impl Label>,
    empty: &'static Empty,
) -> MarkResult {
    let result = THREAD_MARKS.try_with(|here| {
        let Ok(mut here) = here.try_borrow_mut() else { return MarkResult::Impossible };
        match here.as_mut() {
            Some(thread) if thread.process.is_here() => {
                if !thread.select_language(empty) {
                    return thread.refuse_or_set_up();
                }
                thread.mark(session, edge, label);
                MarkResult::Recorded
            }
            _ => MarkResult::NotReady,
        }
    });
    result.unwrap_or(MarkResult::Impossible)
}

/// Opens the counters of this thread if necessary, and measures an empty region of this language.
#[cold]
#[inline(never)]
fn set_up(session: &'static Session, empty: &'static Empty) {
    let is_exact = with_thread(session, |thread| {
        thread.open.iter_mut().for_each(|frame| frame.has_unknown_bias = true);
        // Registered before the measurement, so that measured marks take the same path as others.
        thread.languages.push(Language { empty, bias: None });
        thread.meter.is_exact()
    });
    // The first measurement includes code that was never executed before, so the second one is used. The
    // others are spare ones, in case a signal handler disturbs a measurement.
    let mut bias =
        if is_exact == Some(true) { (0..4).filter_map(|_| measure(session, empty)).nth(1) } else { None };
    let _ = with_thread(session, |thread| {
        let own = thread.languages.iter_mut().find(|language| std::ptr::eq(language.empty, empty));
        own.into_iter().for_each(|language| language.bias = bias.take());
    });
}

/// Calls `work` with this thread, whose counters are opened if necessary; `None` where that is impossible.
fn with_thread<T>(session: &'static Session, work: impl FnOnce(&mut ThreadMarks) -> T) -> Option<T> {
    let done = THREAD_MARKS.try_with(|here| {
        let mut here = here.try_borrow_mut().ok()?;
        if !here.as_ref().is_some_and(|thread| thread.process.is_here()) {
            let before = here.take().map(ThreadMarks::into_child);
            *here = Some(ThreadMarks::open(session, before.unwrap_or_default()));
        }
        here.as_mut().map(work)
    });
    done.ok().flatten()
}

/// The count of a region without the bias of marking; `None` where the bias is greater than the count.
fn without_bias(value: u64, bias: u64) -> Option<u64> {
    (value.saturating_add(PASSING) >= bias).then_some(value.saturating_sub(bias))
}

/// Tolerance: events of the program that are counted for passing the name. A measured region has them, too.
const PASSING: u64 = 4;

/// The bias of a language's marks; `None` where another mark disturbed the measurement.
fn measure(session: &'static Session, empty: &Empty) -> Option<MarkBias> {
    let flat = calibrate(session, empty.flat, 2)?;
    let nested = calibrate(session, empty.nested, 4)?;
    let less = |from: &[u64], other: &[u64]| -> Option<Vec<u64>> {
        from.iter().zip(other).map(|(from, other)| from.checked_sub(*other)).collect()
    };
    let both = less(&nested.outermost, &flat.outermost)?;
    Some(MarkBias {
        end: less(&both, &nested.inner_begin)?,
        begin: nested.inner_begin,
        region: flat.outermost,
    })
}

fn calibrate(session: &'static Session, empty: fn(), marks: u32) -> Option<Calibration> {
    with_thread(session, |thread| thread.calibration = Some(Calibration::default()));
    empty();
    let found = with_thread(session, |thread| thread.calibration.take())??;
    (found.marks == marks && !found.is_disturbed).then_some(found)
}

/// The measurement of empty regions.
#[derive(Debug, Default)]
struct Calibration {
    /// The counts of the outermost region.
    outermost: Vec<u64>,
    /// The counts between the reads of two marks of which the second is a begin.
    inner_begin: Vec<u64>,
    /// Number of marks.
    marks: u32,
    /// Whether other marks came meanwhile, as in a signal handler.
    is_disturbed: bool,
}

/// The bias that marking regions adds to the counts of the software PMU.
#[derive(Debug)]
struct MarkBias {
    /// Added to a region itself.
    region: Vec<u64>,
    /// Added by a begin to the surrounding regions, beyond the counts between its two reads.
    begin: Vec<u64>,
    /// Added by an end to the surrounding regions.
    end: Vec<u64>,
}

/// A language of this thread, with its bias.
#[derive(Debug)]
struct Language {
    empty: &'static Empty,
    /// `None`: unknown, or not needed.
    bias: Option<MarkBias>,
}

/// The open regions of a thread, its counters, and the bias of its marks.
#[derive(Debug)]
struct ThreadMarks {
    session: &'static Session,
    process: ProcessBirth,
    ids: (u32, u32),
    meter: Meter,
    languages: Vec<Language>,
    /// The language of the current mark.
    language: usize,
    /// Present while the bias of that language is measured.
    calibration: Option<Calibration>,
    names: HashMap<Box<str>, usize>,
    labels: Vec<LabelRow>,
    open: Vec<OpenRegion>,
    /// Values at the start of this call.
    entry: Vec<Sum>,
    /// Values at the start of the last call.
    last_entry: Vec<Sum>,
    /// Values at the end of the last call.
    exit: Vec<Sum>,
    /// The meaning of `exit` for the next call.
    pending: DeferredWork,
    /// The counts of marks inside regions.
    own: Vec<u64>,
    /// Number of unmatched marks.
    unmatched_marks: u64,
}

/// A name and its row.
#[derive(Debug)]
struct LabelRow {
    name: Box<str>,
    at: Option<(LabelAt, usize)>,
    /// Number of open regions of that name.
    depth: usize,
    /// Number of regions that began since none was open.
    calls: u64,
}

impl LabelRow {
    /// Ends a region. If it was the outermost, returns the number of calls, including those inside.
    fn leave(&mut self) -> Option<u64> {
        self.depth = self.depth.saturating_sub(1);
        (self.depth == 0).then(|| std::mem::take(&mut self.calls))
    }
}

/// An open region.
#[derive(Debug)]
struct OpenRegion {
    label: usize,
    starts: Vec<Sum>,
    own: Vec<u64>,
    /// The language that began it.
    language: usize,
    /// Number of unmatched marks when it began.
    unmatched_marks: u64,
    /// Whether the region contains marks of unknown bias.
    has_unknown_bias: bool,
    began: Instant,
    /// Whether it began in the parent process, before a fork.
    inherited: bool,
}

/// The work that a call leaves to the next one, because no code may follow its last read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct DeferredWork {
    /// The innermost region begins with `exit`.
    begins: bool,
    /// The counts between `last_entry` and `exit` belong to no region.
    own: bool,
}

/// The data that a forked child inherits from its thread.
#[derive(Debug, Default)]
struct Inherited {
    names: HashMap<Box<str>, usize>,
    labels: Vec<LabelRow>,
    open: Vec<OpenRegion>,
}

impl ThreadMarks {
    fn open(session: &'static Session, before: Inherited) -> ThreadMarks {
        let meter = Meter::open(&session.board.counters);
        let zeros = vec![Sum::default(); meter.len()];
        ThreadMarks {
            session,
            process: ProcessBirth::now(),
            ids: meter::here(),
            languages: Vec::new(),
            language: 0,
            calibration: None,
            names: before.names,
            labels: before.labels,
            open: before.open,
            entry: zeros.clone(),
            last_entry: zeros.clone(),
            exit: zeros,
            pending: DeferredWork::default(),
            own: vec![0; meter.len()],
            unmatched_marks: 0,
            meter,
        }
    }

    /// The data for a forked child: names, and regions of which it has no counts.
    fn into_child(mut self) -> Inherited {
        let mut labels = std::mem::take(&mut self.labels);
        labels.iter_mut().for_each(|label| (label.at, label.depth, label.calls) = (None, 0, 0));
        let mut open = std::mem::take(&mut self.open);
        open.iter_mut().for_each(|frame| frame.inherited = true);
        Inherited { names: std::mem::take(&mut self.names), labels, open }
    }

    /// Whether the marks of a language were measured, or are being measured. If so, it becomes the current
    /// language.
    #[inline(always)]
    fn select_language(&mut self, empty: &'static Empty) -> bool {
        let place = self.languages.iter().position(|language| std::ptr::eq(language.empty, empty));
        self.language = place.unwrap_or(self.language);
        place.is_some()
    }

    /// Handles a mark in a language that was not measured.
    #[cold]
    #[inline(never)]
    fn refuse_or_set_up(&mut self) -> MarkResult {
        let Some(calibration) = &mut self.calibration else { return MarkResult::NotReady };
        calibration.is_disturbed = true;
        MarkResult::Impossible
    }

    /// Both ends execute the same code up to the first read and from the last one on.
    #[inline(always)]
    fn mark(&mut self, session: &'static Session, edge: RegionEdge, label: &mut Option<impl Label>) {
        let was_open = !self.open.is_empty();
        if was_open | (edge == RegionEdge::End) {
            self.meter.read_for_end(&mut self.entry);
        }
        self.record(session, edge, label, was_open);
        if self.pending.begins | self.pending.own {
            self.meter.read_for_begin(&mut self.exit);
        }
    }

    /// The work of a call between its reads.
    #[inline(never)]
    fn record(
        &mut self,
        session: &Session,
        edge: RegionEdge,
        label: &mut Option<impl Label>,
        was_open: bool,
    ) {
        self.settle();
        if let Some(label) = label.take() {
            label.with(&mut |label| self.apply_edge(session, edge, label));
        }
        self.last_entry.copy_from_slice(&self.entry);
        let goes_on = !self.open.is_empty();
        self.pending = DeferredWork { begins: edge == RegionEdge::Begin, own: was_open & goes_on };
    }

    fn apply_edge(&mut self, session: &Session, edge: RegionEdge, label: &str) {
        if self.is_foreign(label) {
            return session.board.drop_one();
        }
        self.calibrate_edge();
        match edge {
            RegionEdge::Begin => self.begin(session, label),
            RegionEdge::End => self.end(session, label),
        }
    }

    /// Whether a mark interrupts the measurement of others, as in a signal handler.
    fn is_foreign(&mut self, label: &str) -> bool {
        let Some(calibration) = &mut self.calibration else { return false };
        calibration.is_disturbed |= !label.is_empty();
        !label.is_empty()
    }

    fn calibrate_edge(&mut self) {
        let Some(calibration) = &mut self.calibration else { return };
        calibration.marks += 1;
        if calibration.marks == 2 {
            // With nested regions, the second mark is the inner begin.
            let reads = self.exit.iter().zip(&self.entry);
            calibration.inner_begin = reads.map(|(from, to)| to.value.saturating_sub(from.value)).collect();
        }
    }

    /// Adds the bias of a mark to the own counts, which the regions around it subtract.
    fn add_bias_to_open(&mut self, of: fn(&MarkBias) -> &[u64]) {
        if self.calibration.is_some() {
            return;
        }
        match self.languages.get(self.language).and_then(|language| language.bias.as_ref()) {
            Some(bias) => self.own.iter_mut().zip(of(bias)).for_each(|(own, add)| *own += add),
            None => self.open.iter_mut().for_each(|frame| frame.has_unknown_bias = true),
        }
    }

    /// Does the work that the last call could not do after its last read.
    fn settle(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        if pending.own && self.meter.is_exact() {
            for ((own, from), to) in self.own.iter_mut().zip(&self.last_entry).zip(&self.exit) {
                *own += to.value.saturating_sub(from.value);
            }
        }
        if let (true, Some(frame)) = (pending.begins, self.open.last_mut()) {
            frame.starts.copy_from_slice(&self.exit);
            frame.own.copy_from_slice(&self.own);
        }
    }

    fn begin(&mut self, session: &Session, label: &str) {
        let label = self.label(label);
        let counters = self.meter.len();
        self.labels[label].depth += 1;
        self.labels[label].calls += 1;
        self.note(session, label, Word::Begun);
        self.add_bias_to_open(|bias| &bias.begin);
        self.open.push(OpenRegion {
            label,
            starts: vec![Sum::default(); counters],
            own: vec![0; counters],
            language: self.language,
            unmatched_marks: self.unmatched_marks,
            has_unknown_bias: false,
            began: Instant::now(),
            inherited: false,
        });
    }

    fn end(&mut self, session: &Session, label: &str) {
        let label = self.label(label);
        match self.open.iter().rposition(|frame| frame.label == label) {
            Some(place) => self.end_frame(session, place),
            None => {
                self.unmatched_marks += 1;
                self.note(session, label, Word::Unmatched);
            }
        }
        self.add_bias_to_open(|bias| &bias.end);
    }

    fn end_frame(&mut self, session: &Session, place: usize) {
        let is_innermost = place + 1 == self.open.len();
        let frame = self.open.remove(place);
        if !is_innermost {
            self.unmatched_marks += 1;
            self.note(session, frame.label, Word::Crossed);
        }
        if frame.inherited {
            self.unmatched_marks += 1;
            return self.note(session, frame.label, Word::Forked);
        }
        let time_ns = u64::try_from(frame.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let outermost = self.labels[frame.label].leave();
        let counted = self.counted(&frame);
        if let Some(calibration) = &mut self.calibration {
            // The outermost region ends last, so its counts remain.
            calibration.outermost = counted.iter().map(|sum| sum.value).collect();
            return;
        }
        match (outermost, self.row(session, frame.label)) {
            (Some(calls), Some((_, row))) => {
                let disordered = u64::from(frame.unmatched_marks != self.unmatched_marks);
                session.board.add(row, Word::Disordered, disordered);
                session.board.add_sums(row, calls, time_ns, &counted);
            }
            _ => self.note(session, frame.label, Word::Ended),
        }
    }

    /// The counts of a region that ends.
    fn counted(&self, frame: &OpenRegion) -> Vec<Sum> {
        let counted = frame.starts.iter().zip(&self.entry).map(|(start, end)| between(*start, *end));
        let mut counted: Vec<Sum> = counted.collect();
        if !self.meter.is_exact() {
            return counted;
        }
        for counter in self.meter.software() {
            if let Some(sum) = counted.get_mut(counter).filter(|sum| sum.lost == 0) {
                let program = self.bias_of(frame, counter).and_then(|bias| without_bias(sum.value, bias));
                *sum = program.map_or(Sum::lost(Loss::BiasUnknown.code()), |value| Sum { value, ..*sum });
            }
        }
        counted
    }

    /// The bias of marking in a region; `None` where it is unknown.
    fn bias_of(&self, frame: &OpenRegion, counter: usize) -> Option<u64> {
        let own = self.own.get(counter)?.checked_sub(*frame.own.get(counter)?)?;
        if self.calibration.is_some() {
            return Some(own);
        }
        let bias = self.languages.get(frame.language)?.bias.as_ref()?;
        if frame.has_unknown_bias || frame.language != self.language {
            return None;
        }
        own.checked_add(*bias.region.get(counter)?)
    }

    /// The index of a name.
    fn label(&mut self, label: &str) -> usize {
        let label = if label.is_empty() && self.calibration.is_none() { UNNAMED } else { label };
        if let Some(known) = self.names.get(label) {
            return *known;
        }
        self.labels.push(LabelRow { name: label.into(), at: None, depth: 0, calls: 0 });
        self.names.insert(label.into(), self.labels.len() - 1);
        self.labels.len() - 1
    }

    /// Adds one to a word of a name's row.
    fn note(&mut self, session: &Session, label: usize, word: Word) {
        if self.calibration.is_some() {
            return;
        }
        match self.row(session, label) {
            Some((_, row)) => session.board.add(row, word, 1),
            None => session.board.drop_one(),
        }
    }

    /// The row of a name, which is allocated if necessary.
    fn row(&mut self, session: &Session, label: usize) -> Option<(LabelAt, usize)> {
        if self.labels[label].at.is_none() {
            let name = &self.labels[label].name;
            self.labels[label].at = session.rows.take(&session.board, self.ids, name);
        }
        self.labels[label].at
    }
}

impl Drop for ThreadMarks {
    fn drop(&mut self) {
        if self.process.is_here() {
            self.session.rows.give_back(self.ids.0, self.labels.iter().filter_map(|label| label.at));
        }
    }
}

/// The label of regions with an empty name.
const UNNAMED: &str = "(no name)";

/// The counts between two values.
fn between(start: Sum, end: Sum) -> Sum {
    if start.lost > 0 || end.lost > 0 {
        return Sum::lost(start.reason.max(end.reason));
    }
    let difference = || {
        Some(Sum {
            value: end.value.checked_sub(start.value)?,
            time_enabled_ns: end.time_enabled_ns.checked_sub(start.time_enabled_ns)?,
            time_running_ns: end.time_running_ns.checked_sub(start.time_running_ns)?,
            ..Sum::default()
        })
    };
    difference().unwrap_or(Sum::lost(Loss::Unread.code()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_passes_the_name_may_be_missing_in_a_region() {
        assert_eq!(
            [without_bias(460, 458), without_bias(454, 458), without_bias(453, 458)],
            [Some(2), Some(0), None]
        );
    }
}
