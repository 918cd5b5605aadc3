//! The hardware PMU, the kernel's software events and its dynamic PMUs, through `perf_event_open`.

mod cores;
mod group;
mod of_threads;
pub(crate) mod overflow;
mod program;
mod read;
mod refusal;
mod sample;
mod target;
mod windows;

use cyclometer_core::exec::{CounterAt, Raw, Reading};
use cyclometer_core::window::{WindowSpec, Windowing};
use cyclometer_core::{Counting, Error, ErrorKind, Refusal, Result, Rung, Slot, Source, Target};
use cyclometer_sys::affinity::Affinity;
use cyclometer_sys::perf::{OpenEvent, Reach};
use cyclometer_sys::user_read::Serialisation;
use std::io;
use std::time::{Duration, Instant};

use crate::affinity::AffinityGuard;
pub use of_threads::{thread_events, thread_refusal};
use program::{How, OpenedEvent, is_first};
use sample::PageSampler;

/// Opens events through `perf_event_open(2)`.
///
/// The source changes nothing on the machine but the open files of this process. It raises their soft limit
/// to the hard one when there are too few.
#[derive(Clone, Debug)]
pub struct PerfSource {
    user_reads: std::result::Result<Serialisation, String>,
    /// Events that one system call can read are read by one.
    together: bool,
}

impl Default for PerfSource {
    fn default() -> PerfSource {
        PerfSource::new()
    }
}

impl PerfSource {
    /// The source; its counters are read through the kernel.
    pub fn new() -> PerfSource {
        PerfSource { user_reads: Err("reads in user space were not asked for".to_owned()), together: false }
    }

    /// Reads counters of the calling thread by an instruction where the kernel allows it, serialised in this
    /// way. An `Err` is the reason not to.
    ///
    /// Allow this only where every CPU that the thread may run on has the same counters. On a hybrid the
    /// thread may move between the check of the page and the instruction, which would then fault.
    #[must_use]
    pub fn with_user_reads(self, how: std::result::Result<Serialisation, String>) -> PerfSource {
        PerfSource { user_reads: how, ..self }
    }

    /// Lets events share system calls when they are read. The kernel's software events form one group, and
    /// the events of a group are read at once. Use this for frequent reads.
    #[must_use]
    pub fn read_together(self) -> PerfSource {
        PerfSource { together: true, ..self }
    }
}

impl Source for PerfSource {
    fn rung(&self) -> Rung {
        Rung::Perf
    }

    fn open(&self, slots: &[Slot], on: &Target) -> std::result::Result<Box<dyn Counting>, Refusal> {
        let how = How { user_reads: self.user_reads.is_ok(), together: self.together };
        let events = program::open_all(slots, on, how)?;
        let sampler = PageSampler::of(&events, on, &self.user_reads);
        Ok(Box::new(PerfCounting { events, selected: 0, sampler }))
    }

    fn windows(
        &self,
        slots: &[Slot],
        on: &Target,
        spec: &WindowSpec,
    ) -> std::result::Result<Box<dyn Windowing>, Refusal> {
        Ok(Box::new(windows::open(slots, on, spec)?))
    }

    fn probe(&self, slots: &[Slot]) -> Option<Reading> {
        let Ok(own) = Affinity::of(0) else { return self.probe_here(slots) };
        let mut sum: Option<Reading> = None;
        for place in cores::places(slots, &own, cores::cpus_of) {
            let _bound = match place {
                None => None,
                Some(cpu) => Some(AffinityGuard::new(cpu, &own)?),
            };
            let reading = self.probe_here(slots)?;
            let reading = match place {
                None => reading,
                Some(cpu) => read::of_cpu(reading, cpu, cores::cpus_of),
            };
            sum = Some(match sum {
                None => reading,
                Some(before) => read::sum(before, &reading),
            });
        }
        sum
    }
}

impl PerfSource {
    fn probe_here(&self, slots: &[Slot]) -> Option<Reading> {
        let together: Vec<Slot> =
            slots.iter().map(|slot| Slot { rotation_group: None, ..slot.clone() }).collect();
        let mut counting = self.open(&together, &Target::ThisThread).ok()?;
        counting.start().ok()?;
        // Starting one event stops the others for a moment, so the measured time begins after all have
        // started.
        let mut before = Reading::default();
        counting.read(&mut before).ok()?;
        let started = Instant::now();
        while started.elapsed() < PROBE {
            std::hint::spin_loop();
        }
        let mut after = Reading::default();
        counting.read(&mut after).ok()?;
        Some(read::since(&before, after))
    }
}

/// How long a probe counts. That is long compared with the time the kernel needs to put events on counters,
/// and short compared with its rotation interval.
const PROBE: Duration = Duration::from_micros(100);

/// Open events; dropping them closes them.
#[derive(Debug)]
struct PerfCounting {
    events: Vec<OpenedEvent>,
    /// The rotation group that counts.
    selected: u32,
    sampler: PageSampler,
}

impl PerfCounting {
    fn control(
        &self,
        verb: &str,
        which: impl Fn(&OpenedEvent) -> bool,
        how: fn(&OpenEvent) -> io::Result<()>,
    ) -> Result<()> {
        for opened in self.events.iter().filter(|opened| which(opened)) {
            how(&opened.event).map_err(|e| {
                let message = format!("cannot {verb} {} on {}: {e}", opened.name, opened.at.counted_by());
                Error::new(ErrorKind::Os, message).with_source(e)
            })?;
        }
        Ok(())
    }
}

impl Counting for PerfCounting {
    fn start(&mut self) -> Result<()> {
        let starts = |opened: &OpenedEvent| !opened.starts_at_exec && is_first(opened.rotation_group);
        self.control("start", |opened| opened.leads && starts(opened), |e| e.enable(Reach::Event))?;
        self.sampler.settle(&self.events);
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.control("stop", |opened| opened.leads, |e| e.disable(Reach::Event))
    }

    /// Stops the old rotation group before it starts the new one, as both would not fit. The kernel applies
    /// this to the copies of an event in threads and children. New copies inherit the state of their parent
    /// (`perf_event_for_each_child`, `inherit_event` in Linux `kernel/events/core.c`).
    fn select(&mut self, rotation_group: u32) -> Result<()> {
        if rotation_group == self.selected {
            return Ok(());
        }
        let leads_in = |rotation_group: u32| {
            move |opened: &OpenedEvent| opened.leads && opened.rotation_group == Some(rotation_group)
        };
        self.control("pause", leads_in(self.selected), |e| e.disable(Reach::Event))?;
        self.selected = rotation_group;
        self.control("resume", leads_in(rotation_group), |e| e.enable(Reach::Event))
    }

    fn read(&mut self, out: &mut Reading) -> Result<()> {
        out.cells.extend(self.events.iter().map(read::cell));
        Ok(())
    }

    fn read_rotation_group(&mut self, rotation_group: u32, out: &mut Reading) -> Result<()> {
        let counts = |opened: &&OpenedEvent| opened.rotation_group.is_none_or(|own| own == rotation_group);
        out.cells.extend(self.events.iter().filter(counts).map(read::cell));
        Ok(())
    }

    fn counters(&mut self) -> Vec<CounterAt> {
        self.sampler.counters(&self.events)
    }

    fn sample(&mut self, out: &mut Vec<Raw>) -> Result<()> {
        self.sampler.sample(&self.events, out);
        Ok(())
    }

    fn value(&mut self, counter: usize) -> Result<Option<u64>> {
        Ok(self.events.get(counter).and_then(|opened| self.sampler.value(counter, opened)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where something fails")]
mod tests {
    use super::*;
    use cyclometer_core::event::{PerfClass, PerfEvent};
    use cyclometer_core::pmu::ConfigWords;
    use cyclometer_core::{Modes, Part, SlotId};

    /// `PERF_COUNT_SW_TASK_CLOCK`, `PERF_COUNT_SW_PAGE_FAULTS`, `PERF_COUNT_SW_CPU_MIGRATIONS` of
    /// `PERF_TYPE_SOFTWARE`.
    const EVENTS: [u64; 3] = [1, 2, 4];

    fn slots() -> Vec<Slot> {
        let slot = |(id, config): (usize, &u64)| {
            let words = ConfigWords { config: *config, ..ConfigWords::default() };
            let event = PerfEvent { words, ..PerfEvent::new("software", 1, 0, PerfClass::Software) };
            let slot = Slot::new(SlotId(id), format!("e{id}"), Rung::Perf, vec![Part::Perf(event)]);
            Slot { filter: Some(Modes::USER), ..slot }
        };
        EVENTS.iter().enumerate().map(slot).collect()
    }

    fn touch(pages: usize) {
        let memory = vec![1u8; pages * 4096];
        std::hint::black_box(&memory);
        std::mem::forget(memory);
    }

    #[test]
    fn software_events_that_are_read_together_count_as_those_that_are_not() {
        let mut counted = Vec::new();
        for source in [PerfSource::new(), PerfSource::new().read_together()] {
            // Without perf there is nothing to read; `a_software_event_counts_between_enable_and_disable`
            // reports that.
            let Ok(mut counting) = source.open(&slots(), &Target::ThisThread) else { return };
            counting.start().unwrap();
            let slots: Vec<usize> = counting.counters().iter().map(|counter| counter.slot.0).collect();
            assert_eq!(slots, [0, 1, 2]);
            let (mut before, mut after, mut cells) = (Vec::new(), Vec::new(), Reading::default());
            counting.sample(&mut before).unwrap();
            touch(64);
            counting.sample(&mut after).unwrap();
            counting.stop().unwrap();
            counting.read(&mut cells).unwrap();
            assert!(before.iter().chain(&after).all(|raw| !raw.is_lost), "{before:?} {after:?}");
            let faults = after[1].value - before[1].value;
            assert!(after[0].value > before[0].value && faults >= 1, "{before:?} {after:?}");
            for (i, (cell, raw)) in cells.cells.iter().zip(&after).enumerate() {
                assert!(cell.raw >= raw.value && cell.lost.is_none(), "{cell:?}");
                assert_eq!(counting.value(i).unwrap(), Some(cell.raw), "it stands still");
                assert_eq!(cell.time_enabled_ns, cell.time_running_ns);
            }
            counted.push(faults);
        }
        assert!(counted[0].abs_diff(counted[1]) <= 32, "{counted:?}");
    }

    #[test]
    fn software_events_that_the_kernel_does_not_take_as_one_group_are_opened_apart() {
        // The kernel refuses groups whose values take more than 16 KiB: some 2000 events.
        let one = slots().remove(1);
        let many: Vec<Slot> = (0..2500).map(|i| Slot { id: SlotId(i), ..one.clone() }).collect();
        if PerfSource::new().open(&many, &Target::ThisThread).is_err() {
            return; // Without perf, or with few open files, there is nothing to compare with.
        }
        let mut counting = PerfSource::new().read_together().open(&many, &Target::ThisThread).unwrap();
        assert_eq!(counting.counters().len(), many.len());
    }
}
