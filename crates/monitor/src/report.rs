//! Counts with their provenance, scope and modes.

use std::fmt;

use cyclometer_core::exec::{At, Cell, Reading};
use cyclometer_core::plan::{Outcome, PlanLine};
use cyclometer_core::{Count, MissingReason, Modes, PartReason, Plan, Provenance, Rung, Scope, SlotId, Unit};
use cyclometer_stats::settle;

use crate::cost::{Bias, Cost};
use crate::opening::opened_as;
use crate::totals::{CounterSum, ThreadCounter, ThreadTotals};

/// The counts of the regions of one label.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// The label; empty for counts that belong to no region.
    pub label: String,
    /// The thread; `None` for the sum of several.
    pub thread: Option<ThreadName>,
    /// Number of regions that have ended.
    pub calls: u64,
    /// One value for each event, in the order asked for.
    pub values: Vec<Value>,
}

impl Measured {
    /// The value of an event, by its requested name or by the name with its modes.
    pub fn get(&self, event: &str) -> Option<&Value> {
        self.values.iter().find(|value| value.event == event || value.name == event)
    }

    /// The quotient of two events (instructions and cycles: IPC). `None` where either has no number, or the
    /// divisor is zero.
    pub fn ratio(&self, event: &str, by: &str) -> Option<f64> {
        let (event, by) = (self.get(event)?.number()?, self.get(by)?.number()?);
        (by != 0.0).then(|| event / by)
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", if self.label.is_empty() { "total" } else { &self.label })?;
        if let Some(thread) = &self.thread {
            write!(f, " in {thread}")?;
        }
        writeln!(f, ", {} {}:", self.calls, if self.calls == 1 { "region" } else { "regions" })?;
        self.values.iter().try_for_each(|value| writeln!(f, "  {value}"))
    }
}

/// A thread that measured.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ThreadName {
    /// The thread's number in the order of their first regions, from 1.
    pub number: u32,
    /// The thread's name, if it has one.
    pub name: Option<String>,
}

impl fmt::Display for ThreadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "thread {} ({name})", self.number),
            None => write!(f, "thread {}", self.number),
        }
    }
}

/// The value of one event.
#[derive(Clone, PartialEq, Debug)]
pub struct Value {
    /// The name with the modes that were counted (`instructions:u`).
    pub name: String,
    /// The requested name, without modifiers.
    pub event: String,
    /// The count, or the reason why there is none; in raw counts, as they were read.
    pub count: Count,
    /// The count less the bias of measuring; `None` where the bias is unknown.
    pub net: Option<Net>,
    /// The value of one raw count, in the unit.
    pub scale: f64,
    /// Unit of the scaled value.
    pub unit: Unit,
    /// The provenance; `None` when nothing was counted.
    pub provenance: Option<Provenance>,
    /// The source; `None` when none counted.
    pub rung: Option<Rung>,
    /// The scope of the value.
    pub scope: Scope,
    /// The modes that it covers; `None` where modes do not apply.
    pub modes: Option<Modes>,
    /// Remarks for readers of the value.
    pub notes: Vec<String>,
}

impl Value {
    /// The best number available, in the event's unit: the net value where the bias is known. `None` when
    /// nothing was counted, which differs from zero.
    pub fn number(&self) -> Option<f64> {
        match &self.net {
            Some(net) => Some(net.value * self.scale),
            None => Some(self.count.value()? as f64 * self.scale),
        }
    }

    /// The reason why the count is not exact; `None` when it is.
    pub fn reason(&self) -> Option<String> {
        self.count.reason()
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        let Some(number) = self.number() else {
            return write!(f, "{} ({})", self.count.verdict(), self.reason().unwrap_or_default());
        };
        write!(f, "{number:.0}")?;
        if let Some(net) = self.net.filter(|net| net.half_width > 0.0) {
            write!(f, " ± {:.0}", net.half_width * self.scale)?;
        }
        if !self.unit.symbol().is_empty() {
            write!(f, " {}", self.unit.symbol())?;
        }
        match self.reason() {
            Some(reason) => write!(f, " ({}: {reason})", self.count.verdict()),
            None => Ok(()),
        }
    }
}

/// A count less the bias of measuring, in raw counts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Net {
    /// The count less the median bias of all its regions; at least zero.
    pub value: f64,
    /// The uncertainty from the bias: the spread of each region, added up.
    pub half_width: f64,
}

impl Net {
    fn of(count: &Count, bias: &Bias, calls: u64, inner: u64) -> Option<Net> {
        let Count::Exact(raw) = count else { return None };
        let (empty, nested) = (bias.empty?, bias.nested?);
        let (calls, inner) = (calls as f64, inner as f64);
        let added = calls * empty.median + inner * nested.median;
        let half_width = calls * empty.spread() + inner * nested.spread();
        Some(Net { value: (*raw as f64 - added).max(0.0), half_width })
    }
}

/// The sums of one thread.
pub(crate) struct Share<'a> {
    pub(crate) thread: Option<u32>,
    pub(crate) totals: &'a ThreadTotals,
    pub(crate) sums: &'a [CounterSum],
    pub(crate) calls: u64,
    pub(crate) inner: u64,
}

/// The data needed to judge sums.
pub(crate) struct Judge<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) scope: Scope,
    pub(crate) cost: Option<&'a Cost>,
}

impl Judge<'_> {
    /// The values of all events, over all shares.
    pub(crate) fn values(&self, shares: &[Share<'_>]) -> Vec<Value> {
        let reading = Reading { cells: shares.iter().flat_map(cells).collect() };
        let lines = self.plan.lines.iter().enumerate();
        lines.map(|(i, line)| self.value(line, SlotId(i), &reading, shares)).collect()
    }

    /// The values of all events where no region has counted. Events that cannot be counted keep their own
    /// reasons.
    pub(crate) fn without_values(&self, reason: &MissingReason) -> Vec<Value> {
        let lines = self.plan.lines.iter().enumerate();
        let none = |(i, line): (usize, &PlanLine)| {
            let count = match &line.outcome {
                Outcome::NotCounted(count) => count.clone(),
                _ => Count::NotCounted { reason: reason.clone() },
            };
            self.judged(line, SlotId(i), count, &[])
        };
        lines.map(none).collect()
    }

    fn value(&self, line: &PlanLine, slot: SlotId, reading: &Reading, shares: &[Share<'_>]) -> Value {
        let count = settle(line, reading, opened_as(self.plan, slot), self.scope);
        self.judged(line, slot, count, shares)
    }

    fn judged(&self, line: &PlanLine, slot: SlotId, count: Count, shares: &[Share<'_>]) -> Value {
        let candidate = line.candidate().filter(|_| count.value().is_some());
        let bias = self.cost.and_then(|cost| cost.biases.get(slot.0));
        let calls = shares.iter().map(|share| share.calls).sum();
        let inner = shares.iter().map(|share| share.inner).sum();
        Value {
            name: line.label(),
            event: line.event.name.clone(),
            net: bias.and_then(|bias| Net::of(&count, bias, calls, inner)),
            scale: line.candidate().map_or(1.0, |candidate| candidate.scale),
            unit: line.event.unit.clone(),
            provenance: candidate.map(|candidate| candidate.provenance),
            rung: candidate.map(|candidate| candidate.rung),
            scope: self.scope.max(candidate.and_then(|way| way.widest).unwrap_or(self.scope)),
            modes: line.effective_modes(),
            notes: line.event.notes.clone(),
            count,
        }
    }
}

/// The sums of a thread as the cells of one reading.
fn cells(share: &Share<'_>) -> Vec<Cell> {
    let counted =
        share.totals.counters.iter().zip(share.sums).map(|(counter, sum)| cell(share, counter, *sum));
    let refused = share.totals.refused.iter().map(|(slot, reason)| Cell {
        at: At { tid: share.thread, ..At::default() },
        lost: Some(reason.clone()),
        ..Cell::new(*slot, 0, 0, 0)
    });
    counted.chain(refused).collect()
}

fn cell(share: &Share<'_>, counter: &ThreadCounter, sum: CounterSum) -> Cell {
    let reason = share.totals.trouble.clone().unwrap_or(MissingReason::RegionUnread);
    let regions = share.calls.max(1);
    let missing = (sum.lost > 0).then(|| PartReason::WithoutRegions {
        lost: sum.lost,
        regions,
        reason: reason.clone(),
    });
    let peak = counter.is_peak.then_some(PartReason::PeakUntilThen);
    let parts = [counter.counter.partial.clone(), missing, peak].into_iter().flatten();
    let at = counter.counter.at.clone();
    Cell {
        slot: counter.counter.slot,
        at: At { tid: at.tid.or(share.thread), ..at },
        raw: sum.value,
        time_enabled_ns: sum.time_enabled_ns,
        time_running_ns: sum.time_running_ns,
        lost: (sum.lost >= regions).then_some(reason),
        partial: PartReason::all(parts),
    }
}
