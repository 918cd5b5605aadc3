//! The regions of one thread.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Instant;

use crate::board::{LabelAt, Loss, Sum, Word};
use crate::meter::{self, Meter, Process};
use crate::session::Session;
use crate::{Empty, Label};

/// Which end of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Edge {
    Begin,
    End,
}

thread_local! {
    static HERE: RefCell<Option<Thread>> = const { RefCell::new(None) };
}

/// What became of an end of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Noted,
    /// This thread, or the child that it has become, has no counters yet.
    NotReady,
    /// It came while another one was being noted, as in the handler of a signal, or when the thread has ended.
    Impossible,
}

/// Notes one end of a region of this thread.
pub(crate) fn mark(session: &'static Session, edge: Edge, label: impl Label, empty: &Empty) {
    let mut label = Some(label);
    // One way for all: what comes behind the last read of counters is the same for the first region of a thread.
    loop {
        match noted(session, edge, &mut label) {
            Outcome::Noted => return,
            Outcome::NotReady => set_up(session, empty),
            Outcome::Impossible => return session.board.drop_one(),
        }
    }
}

#[inline(always)]
fn noted(session: &'static Session, edge: Edge, label: &mut Option<impl Label>) -> Outcome {
    let noted = HERE.try_with(|here| {
        let Ok(mut here) = here.try_borrow_mut() else { return Outcome::Impossible };
        match here.as_mut() {
            Some(thread) if thread.process.is_here() => {
                thread.mark(session, edge, label);
                Outcome::Noted
            }
            _ => Outcome::NotReady,
        }
    });
    noted.unwrap_or(Outcome::Impossible)
}

/// Opens the counters of this thread, and finds out what a region has that is empty.
#[cold]
#[inline(never)]
fn set_up(session: &'static Session, empty: &Empty) {
    let exact = HERE.try_with(|here| {
        let mut here = here.try_borrow_mut().ok()?;
        let before = here.take().map(Thread::into_child);
        let thread = here.insert(Thread::open(session, before.unwrap_or_default()));
        Some(thread.meter.is_exact())
    });
    if exact.is_ok_and(|exact| exact == Some(true)) {
        // The first of each has code that was not executed before, which is no matter to what is counted.
        for _ in 0..2 {
            calibrate(empty.flat, |found, bias| bias.flat = found);
            calibrate(empty.nested, |found, bias| {
                bias.nested =
                    found.iter().zip(&bias.flat).map(|(all, flat)| all.saturating_sub(*flat)).collect();
            });
        }
    }
    let _ = HERE.try_with(|here| {
        if let Some(thread) = here.borrow_mut().as_mut() {
            thread.calibration = None;
        }
    });
}

fn calibrate(empty: fn(), keep: impl FnOnce(Vec<u64>, &mut Bias)) {
    let set = |calibration| {
        let swapped = HERE.try_with(|here| {
            let mut here = here.try_borrow_mut().ok()?;
            here.as_mut().map(|thread| std::mem::replace(&mut thread.calibration, calibration))
        });
        swapped.ok().flatten().flatten()
    };
    set(Some(Vec::new()));
    empty();
    let found = set(None).unwrap_or_default();
    let _ = HERE.try_with(|here| {
        if let Some(thread) = here.borrow_mut().as_mut() {
            keep(found, &mut thread.bias);
        }
    });
}

/// What marking regions adds to what the software PMU counts.
#[derive(Debug, Default)]
struct Bias {
    /// To a region.
    flat: Vec<u64>,
    /// To the region around it, beyond what lies between the two reads of each end.
    nested: Vec<u64>,
}

#[derive(Debug)]
struct Thread {
    session: &'static Session,
    process: Process,
    ids: (u32, u32),
    meter: Meter,
    bias: Bias,
    /// While that is found out: what the outermost empty region counted.
    calibration: Option<Vec<u64>>,
    names: HashMap<Box<str>, usize>,
    labels: Vec<Labelled>,
    open: Vec<Frame>,
    /// Values when this call came.
    entry: Vec<Sum>,
    /// Values when the last call came.
    last_entry: Vec<Sum>,
    /// Values when the last call was about to return.
    exit: Vec<Sum>,
    /// What `exit` means for the next call.
    pending: Pending,
    /// What was counted between entry and exit of all calls.
    own: Vec<u64>,
    /// How many regions have ended.
    pairs: u64,
}

/// A name and its row.
#[derive(Debug)]
struct Labelled {
    name: Box<str>,
    at: Option<(LabelAt, usize)>,
    /// How many regions of that name are open.
    depth: usize,
    /// How many began since none was open.
    calls: u64,
}

impl Labelled {
    /// A region has ended; if it was the outermost, how many calls it was with those within.
    fn leave(&mut self) -> Option<u64> {
        self.depth = self.depth.saturating_sub(1);
        (self.depth == 0).then(|| std::mem::take(&mut self.calls))
    }
}

/// A region that is open.
#[derive(Debug)]
struct Frame {
    label: usize,
    starts: Vec<Sum>,
    own: Vec<u64>,
    pairs: u64,
    began: Instant,
    /// It began in the process that this one was forked from.
    inherited: bool,
}

/// What a call has left to do, as nothing must come behind its last read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Pending {
    /// The innermost region begins with `exit`.
    begins: bool,
    /// What lies between `last_entry` and `exit` is no part of any region.
    own: bool,
}

/// What a child has of the thread that it was forked from.
#[derive(Debug, Default)]
struct Inherited {
    names: HashMap<Box<str>, usize>,
    labels: Vec<Labelled>,
    open: Vec<Frame>,
}

impl Thread {
    fn open(session: &'static Session, before: Inherited) -> Thread {
        let meter = Meter::open(&session.board.counters);
        let zeros = vec![Sum::default(); meter.len()];
        Thread {
            session,
            process: Process::now(),
            ids: meter::here(),
            bias: Bias::default(),
            calibration: None,
            names: before.names,
            labels: before.labels,
            open: before.open,
            entry: zeros.clone(),
            last_entry: zeros.clone(),
            exit: zeros,
            pending: Pending::default(),
            own: vec![0; meter.len()],
            pairs: 0,
            meter,
        }
    }

    /// What a child goes on with: names, and regions of which it has no counts.
    fn into_child(mut self) -> Inherited {
        let mut labels = std::mem::take(&mut self.labels);
        labels.iter_mut().for_each(|label| (label.at, label.depth, label.calls) = (None, 0, 0));
        let mut open = std::mem::take(&mut self.open);
        open.iter_mut().for_each(|frame| frame.inherited = true);
        Inherited { names: std::mem::take(&mut self.names), labels, open }
    }

    /// Both ends come the same way up to the first read and from the last one on.
    #[inline(always)]
    fn mark(&mut self, session: &'static Session, edge: Edge, label: &mut Option<impl Label>) {
        let was_open = !self.open.is_empty();
        if was_open | (edge == Edge::End) {
            self.meter.read_for_end(&mut self.entry);
        }
        self.between(session, edge, label, was_open);
        if self.pending.begins | self.pending.own {
            self.meter.read_for_begin(&mut self.exit);
        }
    }

    /// All that a call does between its reads.
    #[inline(never)]
    fn between(&mut self, session: &Session, edge: Edge, label: &mut Option<impl Label>, was_open: bool) {
        self.settle();
        if let Some(label) = label.take() {
            label.with(&mut |label| match edge {
                Edge::Begin => self.begin(session, label),
                Edge::End => self.end(session, label),
            });
        }
        self.last_entry.copy_from_slice(&self.entry);
        let goes_on = !self.open.is_empty();
        self.pending = Pending { begins: edge == Edge::Begin, own: was_open & goes_on };
    }

    /// Does what the last call could not do behind its last read.
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
        self.open.push(Frame {
            label,
            starts: vec![Sum::default(); counters],
            own: vec![0; counters],
            pairs: self.pairs,
            began: Instant::now(),
            inherited: false,
        });
    }

    fn end(&mut self, session: &Session, label: &str) {
        let label = self.label(label);
        let Some(place) = self.open.iter().rposition(|frame| frame.label == label) else {
            return self.note(session, label, Word::Unmatched);
        };
        if place + 1 < self.open.len() {
            self.note(session, label, Word::Crossed);
        }
        let frame = self.open.remove(place);
        if frame.inherited {
            return self.note(session, label, Word::Forked);
        }
        let time_ns = u64::try_from(frame.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let outermost = self.labels[label].leave();
        let counted = self.counted(&frame);
        self.pairs += 1;
        if self.calibration.is_some() {
            // The outermost ends last.
            self.calibration = Some(counted.iter().map(|sum| sum.value).collect());
            return;
        }
        match (outermost, self.row(session, label)) {
            (Some(calls), Some((_, row))) => session.board.add_sums(row, calls, time_ns, &counted),
            _ => self.note(session, label, Word::Ended),
        }
    }

    /// What a region has counted that ends.
    fn counted(&self, frame: &Frame) -> Vec<Sum> {
        let counted = frame.starts.iter().zip(&self.entry).map(|(start, end)| between(*start, *end));
        let mut counted: Vec<Sum> = counted.collect();
        if !self.meter.is_exact() {
            return counted;
        }
        let (pairs, calibrates) = (self.pairs - frame.pairs, self.calibration.is_some());
        for counter in self.meter.software() {
            let own = self.own[counter] - frame.own[counter];
            let of = |bias: &[u64]| bias.get(counter).copied().filter(|_| !calibrates).unwrap_or(0);
            let all = own + of(&self.bias.flat) + pairs * of(&self.bias.nested);
            counted[counter].value = counted[counter].value.saturating_sub(all);
        }
        counted
    }

    /// The number of a name.
    fn label(&mut self, label: &str) -> usize {
        let label = if label.is_empty() && self.calibration.is_none() { UNNAMED } else { label };
        if let Some(known) = self.names.get(label) {
            return *known;
        }
        self.labels.push(Labelled { name: label.into(), at: None, depth: 0, calls: 0 });
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

    /// The row of a name, which is taken where there is none.
    fn row(&mut self, session: &Session, label: usize) -> Option<(LabelAt, usize)> {
        if self.labels[label].at.is_none() {
            let name = &self.labels[label].name;
            self.labels[label].at = session.rows.take(&session.board, self.ids, name);
        }
        self.labels[label].at
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if self.process.is_here() {
            self.session.rows.give_back(self.ids.0, self.labels.iter().filter_map(|label| label.at));
        }
    }
}

/// What regions are called that have an empty name.
const UNNAMED: &str = "(no name)";

/// What was counted from one value to another.
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
