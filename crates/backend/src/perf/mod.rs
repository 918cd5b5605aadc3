//! The hardware PMU, the kernel's software events and its dynamic PMUs, through `perf_event_open`.

mod cores;
mod group;
mod of_threads;
mod program;
mod read;
mod refusal;
mod sample;
mod target;

use cyclometer_core::exec::{CounterAt, Raw, Reading};
use cyclometer_core::{Counting, Error, ErrorKind, Refusal, Result, Rung, Slot, Source, Target};
use cyclometer_sys::affinity::Affinity;
use cyclometer_sys::perf::{Event, Reach};
use cyclometer_sys::user_read::Serialisation;
use std::io;
use std::time::{Duration, Instant};

use crate::affinity::OnCpu;
pub use of_threads::{thread_events, thread_refusal};
use program::{Opened, is_first};
use sample::Sampler;

/// Opens events through `perf_event_open(2)`.
///
/// Nothing is changed on the machine but the open files of this process, whose soft limit is raised to the
/// hard one when there are too few.
#[derive(Clone, Debug)]
pub struct PerfSource {
    user_reads: std::result::Result<Serialisation, String>,
}

impl Default for PerfSource {
    fn default() -> PerfSource {
        PerfSource::new()
    }
}

impl PerfSource {
    /// The source; its counters are read through the kernel.
    pub fn new() -> PerfSource {
        PerfSource { user_reads: Err("reads in user space were not asked for".to_owned()) }
    }

    /// Reads counters of the calling thread by an instruction where the kernel allows it, serialised in this way; or does
    /// not, for this reason.
    ///
    /// To be allowed only where every CPU that the thread may run on has the same counters: on a hybrid the thread may
    /// move between the look at the page and the instruction, which would then fault.
    #[must_use]
    pub fn with_user_reads(self, how: std::result::Result<Serialisation, String>) -> PerfSource {
        PerfSource { user_reads: how }
    }
}

impl Source for PerfSource {
    fn rung(&self) -> Rung {
        Rung::Perf
    }

    fn open(&self, slots: &[Slot], on: &Target) -> std::result::Result<Box<dyn Counting>, Refusal> {
        let events = program::open_all(slots, on, self.user_reads.is_ok())?;
        let sampler = Sampler::of(&events, on, &self.user_reads);
        Ok(Box::new(PerfCounting { events, selected: 0, sampler }))
    }

    fn probe(&self, slots: &[Slot]) -> Option<Reading> {
        let Ok(own) = Affinity::of(0) else { return self.probe_here(slots) };
        let mut sum: Option<Reading> = None;
        for place in cores::places(slots, &own, cores::cpus_of) {
            let _bound = match place {
                None => None,
                Some(cpu) => Some(OnCpu::new(cpu, &own)?),
            };
            let reading = self.probe_here(slots)?;
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
        let together: Vec<Slot> = slots.iter().map(|slot| Slot { turn: None, ..slot.clone() }).collect();
        let mut counting = self.open(&together, &Target::ThisThread).ok()?;
        counting.start().ok()?;
        // Starting one event stops the others for a moment, so times begin when all have started.
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

/// How long a probe counts: long against the time that the kernel needs to put events on counters, short against that
/// after which it lets others have them.
const PROBE: Duration = Duration::from_micros(100);

/// Open events; dropping them closes them.
#[derive(Debug)]
struct PerfCounting {
    events: Vec<Opened>,
    /// The turn that counts.
    selected: u32,
    sampler: Sampler,
}

impl PerfCounting {
    fn control(
        &self,
        verb: &str,
        which: impl Fn(&Opened) -> bool,
        how: fn(&Event) -> io::Result<()>,
    ) -> Result<()> {
        for opened in self.events.iter().filter(|opened| which(opened)) {
            how(&opened.event).map_err(|e| {
                let message = format!("cannot {verb} {} on {}: {e}", opened.name, opened.at.pmu);
                Error::new(ErrorKind::Os, message).with_source(e)
            })?;
        }
        Ok(())
    }
}

impl Counting for PerfCounting {
    fn start(&mut self) -> Result<()> {
        let starts = |opened: &Opened| !opened.starts_at_exec && is_first(opened.turn);
        self.control("start", |opened| opened.leads && starts(opened), |e| e.enable(Reach::Event))?;
        self.sampler.settle();
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.control("stop", |opened| opened.leads, |e| e.disable(Reach::Event))
    }

    /// The old turn stops before the new one starts: both would not fit. The kernel passes either on to the copies of an
    /// event in threads and children, and new ones begin as their parent's is (`perf_event_for_each_child`,
    /// `inherit_event` in Linux `kernel/events/core.c`).
    fn select(&mut self, turn: u32) -> Result<()> {
        if turn == self.selected {
            return Ok(());
        }
        let leads_in = |turn: u32| move |opened: &Opened| opened.leads && opened.turn == Some(turn);
        self.control("pause", leads_in(self.selected), |e| e.disable(Reach::Event))?;
        self.selected = turn;
        self.control("resume", leads_in(turn), |e| e.enable(Reach::Event))
    }

    fn read(&mut self, out: &mut Reading) -> Result<()> {
        out.cells.extend(self.events.iter().map(read::cell));
        Ok(())
    }

    fn read_turn(&mut self, turn: u32, out: &mut Reading) -> Result<()> {
        let counts = |opened: &&Opened| opened.turn.is_none_or(|own| own == turn);
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
