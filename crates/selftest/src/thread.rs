//! Counting the calling thread.

use std::time::Instant;

use cyclometer_core::exec::{Reading, RefusalKind};
use cyclometer_core::{Counting, Slot, SlotId, Source, Target};
use cyclometer_kernels::KernelMemory;

use crate::meter::{EventMeter, MeterSample, MeteredWork};

/// Open counters on the calling thread.
pub struct ThreadMeter<'a> {
    counting: Box<dyn Counting>,
    slots: Vec<SlotId>,
    memory: &'a mut KernelMemory,
    /// Whether the PMU could not leave the kernel out.
    unfiltered: bool,
}

impl<'a> ThreadMeter<'a> {
    /// Opens the slots on the calling thread, all at the same time. Where the PMU cannot filter modes they
    /// count all of them.
    ///
    /// # Errors
    ///
    /// The source's reason against it.
    pub fn open(
        source: &dyn Source,
        slots: &[Slot],
        memory: &'a mut KernelMemory,
    ) -> Result<ThreadMeter<'a>, String> {
        let opened = source.open(slots, &Target::ThisThread);
        let (counting, unfiltered) = match opened {
            Ok(counting) => (counting, false),
            Err(refusal) if refusal.kind == RefusalKind::Invalid => {
                let all: Vec<Slot> = slots.iter().map(|slot| Slot { filter: None, ..slot.clone() }).collect();
                let counting =
                    source.open(&all, &Target::ThisThread).map_err(|_| refusal.reason.to_string())?;
                (counting, slots.iter().any(|slot| slot.filter.is_some()))
            }
            Err(refusal) => return Err(refusal.reason.to_string()),
        };
        let slots = slots.iter().map(|slot| slot.id).collect();
        Ok(ThreadMeter { counting, slots, memory, unfiltered })
    }

    /// Whether counts include the kernel, as the PMU refused to leave it out.
    pub fn is_unfiltered(&self) -> bool {
        self.unfiltered
    }

    /// The counts of every slot for the work, in their order.
    ///
    /// # Errors
    ///
    /// Why there is no number.
    pub fn count_all(&mut self, work: MeteredWork) -> Result<Vec<MeterSample>, String> {
        let words = |error: cyclometer_core::Error| error.to_string();
        // Outside the counted time: neither memory for a reading nor the kernel's first look at anything is
        // part of it.
        let before = self.read()?;
        let begin = Instant::now();
        self.counting.start().map_err(words)?;
        work.run(self.memory);
        self.counting.stop().map_err(words)?;
        let wall = begin.elapsed();
        let after = self.read()?;
        let wall_ns = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
        self.slots.iter().map(|slot| sample(*slot, &before, &after, wall_ns)).collect()
    }

    fn read(&mut self) -> Result<Reading, String> {
        let mut reading = Reading::default();
        self.counting.read(&mut reading).map_err(|error| error.to_string())?;
        Ok(reading)
    }
}

impl EventMeter for ThreadMeter<'_> {
    fn count(&mut self, work: MeteredWork) -> Result<MeterSample, String> {
        self.count_all(work)?.into_iter().next().ok_or_else(|| "nothing is open".to_owned())
    }
}

/// The sum over the cells of a slot, one for each core PMU. Those are wanted at about the same time, and run
/// in turn: that a PMU of another core type was wanted and never ran takes nothing from the others.
fn sample(slot: SlotId, before: &Reading, after: &Reading, wall_ns: u64) -> Result<MeterSample, String> {
    let mut sum = MeterSample { wall_ns, ..MeterSample::default() };
    let cells = after.cells.iter().filter(|cell| cell.slot == slot);
    let (mut found, mut wanted) = (false, 0);
    for cell in cells {
        if let Some(reason) = &cell.lost {
            return Err(reason.to_string());
        }
        let old = before.cells.iter().find(|old| old.slot == slot && old.at == cell.at);
        let since = |new: u64, old: Option<u64>| new.wrapping_sub(old.unwrap_or(0));
        found = true;
        sum.raw = sum.raw.wrapping_add(since(cell.raw, old.map(|old| old.raw)));
        let enabled = since(cell.time_enabled_ns, old.map(|old| old.time_enabled_ns));
        let running = since(cell.time_running_ns, old.map(|old| old.time_running_ns));
        wanted = wanted.max(enabled);
        sum.time_enabled_ns = sum.time_enabled_ns.max(if running > 0 { enabled } else { 0 });
        sum.time_running_ns += running;
    }
    if sum.time_running_ns == 0 {
        sum.time_enabled_ns = wanted;
    }
    found.then_some(sum).ok_or_else(|| "it was not read".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Behaviour, FakeMeter};
    use cyclometer_kernels::{Kernel, Rounds};

    fn work() -> MeteredWork {
        MeteredWork::Kernel(Kernel::Additions, Rounds::MIN)
    }

    #[test]
    fn a_count_is_that_of_the_work_alone() {
        let mut memory = KernelMemory::new();
        let source = FakeMeter::new(Behaviour::Steps(vec![10, 20]));
        let mut meter = ThreadMeter::open(&source, &FakeMeter::slots(1), &mut memory).unwrap();
        assert_eq!(meter.count(work()).unwrap().raw, 10);
        assert_eq!(meter.count(work()).unwrap().raw, 20);
        assert!(!meter.is_unfiltered());
    }

    #[test]
    fn a_pmu_that_cannot_filter_is_counted_without_filter_and_that_is_known() {
        let mut memory = KernelMemory::new();
        let source = FakeMeter::new(Behaviour::NoFilter);
        let meter = ThreadMeter::open(&source, &FakeMeter::slots(1), &mut memory).unwrap();
        assert!(meter.is_unfiltered());
    }

    #[test]
    fn a_core_pmu_that_never_ran_takes_nothing_from_the_one_that_did() {
        use cyclometer_core::exec::{At, Cell};
        let cells = |parts: [(u64, u64, u64); 2]| {
            let cell = |(part, (raw, enabled, running))| {
                let at = At { part, ..At::default() };
                Cell { at, ..Cell::new(SlotId(0), raw, enabled, running) }
            };
            Reading { cells: parts.into_iter().enumerate().map(cell).collect() }
        };
        let before = cells([(0, 0, 0), (0, 0, 0)]);
        // Starting one takes a while in which the other is wanted already.
        let after = cells([(0, 100, 0), (7, 40, 40)]);
        let sample = sample(SlotId(0), &before, &after, 0).unwrap();
        assert!(sample.is_whole() && sample.raw == 7, "{sample:?}");
        let never = self::sample(SlotId(0), &before, &cells([(0, 100, 0), (0, 90, 0)]), 0).unwrap();
        assert!(!never.is_whole() && never.time_running_ns == 0, "{never:?}");
    }

    #[test]
    fn a_refusal_and_a_loss_have_their_reasons() {
        let open = |behaviour| {
            let (mut memory, source) = (KernelMemory::new(), FakeMeter::new(behaviour));
            ThreadMeter::open(&source, &FakeMeter::slots(1), &mut memory).map(|mut meter| meter.count(work()))
        };
        assert_eq!(open(Behaviour::Refused), Err("not permitted".to_owned()));
        assert_eq!(open(Behaviour::Lost), Ok(Err("pinned".to_owned())));
    }
}
