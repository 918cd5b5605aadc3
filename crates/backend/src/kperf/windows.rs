//! Windows of a process's threads, beside the counters of CPUs that are its totals.
//!
//! Both use the same counters: those are configured and count for the totals, and an action notes the sums
//! of a thread whenever the leader's counter interrupts.

use std::rc::Rc;
use std::time::Instant;

use cyclometer_core::exec::RefusalKind;
use cyclometer_core::reason::{KperfRefusal, RefusalReason};
use cyclometer_core::window::{RowBatch, WindowBoundary, WindowSpec, Windowing, WindowingState};
use cyclometer_core::{Refusal, Result, Rung, Slot, Target};
use cyclometer_sys::macos::{KdebugFunctions, Library, LibraryError, SamplerFunctions};

use super::hold::CounterHold;
use super::layout::CounterLayout;
use super::{KperfSource, place};
use crate::kdebug::{KperfWindows, SampledCounters, SampledThreads, SamplingTools, SamplingTrigger};

/// Windows, and the counters that they need.
struct HeldWindows {
    windows: KperfWindows,
    _hold: CounterHold,
}

/// Opens windows on a command or a process.
pub(super) fn open(
    source: &KperfSource,
    slots: &[Slot],
    on: &Target,
    spec: &WindowSpec,
) -> std::result::Result<Box<dyn Windowing>, Refusal> {
    let pid = match on {
        Target::Child(pid) | Target::Process { pid, .. } => *pid,
        _ => return Err(refusal(KperfRefusal::WindowsOfOneProcess)),
    };
    let [boundary] = spec.boundaries[..] else {
        return Err(refusal(KperfRefusal::WindowsOfOneBoundary));
    };
    let hold = CounterHold::take(Rc::clone(&source.kpc), &source.sharing, &source.cores)?;
    let layout = CounterLayout::of(slots, &source.cores, hold.counters())?;
    let value = |slot: &Slot| {
        let mut parts = layout.all().into_iter().filter(|part| part.slot == slot.id);
        let (first, more) = (parts.next(), parts.next());
        let (Some(first), None) = (first, more) else {
            return Err(refusal(KperfRefusal::SeveralCounters { event: slot.name.clone() }));
        };
        match first.rotation_group {
            None => Ok(first.value),
            Some(_) => Err(refusal(KperfRefusal::NoRotation)),
        }
    };
    let columns: Vec<usize> = slots.iter().map(value).collect::<std::result::Result<_, _>>()?;
    let trigger = trigger(boundary, slots, &columns)?;
    let tools = tools(source).map_err(|error| refusal(KperfRefusal::NoTools { error: error.to_string() }))?;
    let what = SampledThreads {
        pid,
        counters: SampledCounters::Shared,
        columns,
        trigger,
        most_rows: spec.most_rows,
    };
    Ok(Box::new(HeldWindows { windows: KperfWindows::open(tools, &what)?, _hold: hold }))
}

/// The interrupt of the leader's counter, or of the timer.
fn trigger(
    boundary: WindowBoundary,
    slots: &[Slot],
    columns: &[usize],
) -> std::result::Result<SamplingTrigger, Refusal> {
    match boundary {
        WindowBoundary::Events { slot: leader, period } => {
            let counter = slots.iter().zip(columns).find(|(slot, _)| slot.id == leader);
            let (_, counter) = counter.ok_or_else(|| refusal(RefusalReason::LeaderNotAmongEvents))?;
            Ok(SamplingTrigger::Overflow { counter: *counter, period })
        }
        WindowBoundary::Timer { source: Rung::Kperf, period } => {
            Ok(SamplingTrigger::Timer { period, every_thread: false })
        }
        WindowBoundary::Interval(_) | WindowBoundary::Timer { .. } => {
            Err(refusal(KperfRefusal::WindowsOfOneBoundary))
        }
    }
}

fn tools(source: &KperfSource) -> std::result::Result<SamplingTools, LibraryError> {
    let kperf = Library::open(&source.library)?;
    let system = Library::open(&place::system_library(&source.library))?;
    Ok(SamplingTools {
        kpc: Rc::clone(&source.kpc),
        sampler: Box::new(SamplerFunctions::find(&kperf)?),
        kdebug: Box::new(KdebugFunctions::find(&system)?),
    })
}

fn refusal(reason: impl Into<RefusalReason>) -> Refusal {
    Refusal::of_target(RefusalKind::TargetNotSupported, reason)
}

impl Windowing for HeldWindows {
    fn start(&mut self) -> Result<()> {
        self.windows.start()
    }

    fn stop(&mut self) -> Result<()> {
        self.windows.stop()
    }

    fn next(&mut self, until: Instant, batch: &mut RowBatch) -> Result<WindowingState> {
        self.windows.next(until, batch)
    }

    fn notes(&self) -> Vec<String> {
        self.windows.notes()
    }
}
