//! Samples at overflows: each time an event has happened so often, the kernel writes down where the program was.

mod open;
mod trouble;

use std::num::NonZeroU64;
use std::time::Instant;

use cyclometer_core::exec::{At, Cell, Reading};
use cyclometer_core::{Error, ErrorKind, Refusal, Result, Slot, SlotId, Target};
use cyclometer_sys::perf::{Event, Reach};
use cyclometer_sys::ring::{self, Format, Read, Record, Ring, Woken};

pub use cyclometer_sys::ring::Mode;

/// How an event is sampled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sampling {
    /// Events between two samples.
    pub period_events: NonZeroU64,
    /// Room for samples that were not taken out yet: pages of memory for each place that is sampled, a power of two.
    pub ring_pages: usize,
    /// Samples at one place after which [`Overflows::wait`] comes back; 0: when its room is half full.
    pub wake_after: u32,
    /// Whether samples tell the address that was accessed, where the event knows one.
    pub with_addresses: bool,
}

impl Sampling {
    /// A sample after each so many events; room for some thousand of them.
    pub fn every(period_events: NonZeroU64) -> Sampling {
        Sampling { period_events, ring_pages: 64, wake_after: 0, with_addresses: false }
    }
}

/// An event that is sampled, everywhere on a target. Dropping it ends that.
///
/// Each sample is one overflow, which the hardware tells by an interrupt some time after it: the address is that of a later
/// instruction, by a few on metal, by more where interrupts were off. Overflows that follow each other faster than interrupts
/// are served make one sample together, and the kernel stops an event for the rest of a tick that interrupts too often
/// ([`Taken::Throttled`]). So there are at most as many samples as the count has whole periods.
#[derive(Debug)]
pub struct Overflows {
    rings: Vec<Sampled>,
    /// The events of the group, in the order of their values; the sampled one first.
    slots: Vec<SlotId>,
    how: Sampling,
}

/// The event at one place.
#[derive(Debug)]
struct Sampled {
    // Before the event that it is the memory of.
    ring: Ring,
    event: Event,
    /// Kept open: the values of the others in its group.
    _members: Vec<Event>,
    format: Format,
    at: At,
    name: String,
    starts_at_exec: bool,
    has_ended: bool,
}

/// What is taken out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taken {
    /// A sample.
    Sample(OverflowSample),
    /// There was no room for so many records.
    Lost {
        /// Where.
        at: At,
        /// Number of records: samples, and what the kernel tells of throttling, so at most as many samples.
        samples: u64,
    },
    /// From here to the next [`Taken::Unthrottled`] the event does not count, as it interrupted too often.
    Throttled {
        /// Where.
        at: At,
        /// In ns of the monotonic clock.
        time_ns: u64,
    },
    /// The event counts again.
    Unthrottled {
        /// Where.
        at: At,
        /// In ns of the monotonic clock.
        time_ns: u64,
    },
}

/// One overflow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OverflowSample {
    /// The place that was sampled.
    pub at: At,
    /// What was interrupted.
    pub mode: Mode,
    /// Address of the instruction that was next then.
    pub ip: u64,
    /// The process; [`u32::MAX`] where it has ended.
    pub pid: u32,
    /// The thread; [`u32::MAX`] where it has ended.
    pub tid: u32,
    /// The CPU.
    pub cpu: u32,
    /// In ns of the monotonic clock.
    pub time_ns: u64,
    /// Events that it stands for.
    pub period_events: u64,
    /// The address that was accessed; `None` where it was not asked for, or the event knows none.
    pub addr: Option<u64>,
    /// What each event of the group had counted, the sampled one first; empty for an event in no group.
    pub values: Vec<(SlotId, u64)>,
}

/// Why a wait is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// There are samples; or one of several places has ended, and there may be none.
    Samples,
    /// The time came first.
    TimedOut,
    /// Nobody is left who could be sampled. There may be samples.
    Ended,
}

impl Overflows {
    /// Opens an event that is sampled, and others whose counts each sample tells. Nothing is sampled before
    /// [`Overflows::start`]; of a command that has not begun, from its begin on.
    ///
    /// A command is sampled with its children, on each CPU by itself. In a process that runs already its threads are sampled,
    /// each as [`Target::Thread`].
    ///
    /// # Errors
    ///
    /// The kernel's refusal: an event that the PMU lacks, a PMU without interrupts, a lack of permission, of memory that may be
    /// locked; each with what mends it, where something does.
    pub fn open(
        slot: &Slot,
        members: &[Slot],
        on: &Target,
        how: Sampling,
    ) -> std::result::Result<Overflows, Refusal> {
        let rings = open::rings(slot, members, on, how)?;
        let slots = std::iter::once(slot).chain(members).map(|slot| slot.id).collect();
        Ok(Overflows { rings, slots, how })
    }

    /// Starts sampling; a command's begins by itself when the command does.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn start(&self) -> Result<()> {
        let now = self.rings.iter().filter(|sampled| !sampled.starts_at_exec);
        now.into_iter().try_for_each(|sampled| sampled.control("start", |event| event.enable(Reach::Event)))
    }

    /// Stops sampling.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn stop(&self) -> Result<()> {
        self.rings.iter().try_for_each(|sampled| sampled.control("stop", |event| event.disable(Reach::Event)))
    }

    /// Waits for samples. Signals do not end the wait.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StateLost`] where an event did not get or keep its counter, as Linux tells from 6.15 on; the operating system's.
    pub fn wait(&mut self, until: Option<Instant>) -> Result<Wake> {
        let mut left: Vec<&mut Sampled> =
            self.rings.iter_mut().filter(|sampled| !sampled.has_ended).collect();
        if left.is_empty() {
            return Ok(Wake::Ended);
        }
        let events: Vec<&Event> = left.iter().map(|sampled| &sampled.event).collect();
        let woken = ring::wait(&events, until)
            .map_err(|e| Error::new(ErrorKind::Os, format!("cannot wait for samples: {e}")).with_source(e))?;
        for (sampled, Woken { has_ended, .. }) in left.iter_mut().zip(&woken) {
            sampled.has_ended = *has_ended;
        }
        if let Some((sampled, _)) = left.iter().zip(&woken).find(|(_, woken)| woken.has_no_counter) {
            return Err(sampled.without_counter());
        }
        let some = |is: fn(&Woken) -> bool| woken.iter().any(is);
        Ok(match (some(|woken| woken.has_samples), some(|woken| woken.has_ended)) {
            (true, _) => Wake::Samples,
            (false, true) if self.rings.iter().all(|sampled| sampled.has_ended) => Wake::Ended,
            (false, true) => Wake::Samples,
            (false, false) => Wake::TimedOut,
        })
    }

    /// Hands over everything that is there, and makes room for more: place by place, and at each in the order of time.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StateLost`] where what the kernel wrote cannot be understood, or this is a forked child.
    pub fn drain(&mut self, mut each: impl FnMut(Taken)) -> Result<()> {
        let (slots, how) = (&self.slots, self.how);
        for Sampled { ring, format, at, name, .. } in &mut self.rings {
            let drained = ring.drain(*format, |record| each_of(record, at, slots, how, &mut each));
            drained.map_err(|e| {
                Error::new(ErrorKind::StateLost, format!("the samples of {name} are lost: {e}"))
            })?;
        }
        Ok(())
    }

    /// What the event and its group have counted, for each place.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn counts(&self) -> Result<Reading> {
        let mut reading = Reading::default();
        for sampled in &self.rings {
            let read = sampled.read()?;
            for (slot, value) in self.slots.iter().zip(&read.values) {
                let (enabled, running) =
                    (read.time_enabled_ns.unwrap_or_default(), read.time_running_ns.unwrap_or_default());
                let cell = Cell::new(*slot, value.value, enabled, running);
                reading.cells.push(Cell { at: sampled.at.clone(), ..cell });
            }
        }
        Ok(reading)
    }

    /// Samples for which there was no room so far, those included of which no record tells yet; `None` where the kernel does not
    /// count them, before Linux 6.0.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn lost(&self) -> Result<Option<u64>> {
        let mut sum = Some(0);
        for sampled in &self.rings {
            let lost = sampled.read()?.values.first().and_then(|value| value.lost);
            sum = sum.zip(lost).map(|(sum, lost)| sum + lost);
        }
        Ok(sum)
    }
}

impl Sampled {
    fn control(&self, verb: &str, how: impl Fn(&Event) -> std::io::Result<()>) -> Result<()> {
        how(&self.event).map_err(|e| self.error(verb, e))
    }

    fn read(&self) -> Result<Read> {
        match self.event.read_as(self.format) {
            Ok(Some(read)) => Ok(read),
            Ok(None) => Err(self.without_counter()),
            Err(e) => Err(self.error("read", e)),
        }
    }

    fn without_counter(&self) -> Error {
        let text = format!("{}: the pinned event did not get or keep a counter", self.name);
        Error::new(ErrorKind::StateLost, text)
    }

    fn error(&self, verb: &str, e: std::io::Error) -> Error {
        Error::new(ErrorKind::Os, format!("cannot {verb} {} on {}: {e}", self.name, self.at.pmu))
            .with_source(e)
    }
}

/// Hands over a record; those of other kinds say nothing of samples.
fn each_of(record: Record, at: &At, slots: &[SlotId], how: Sampling, each: &mut dyn FnMut(Taken)) {
    let at = || at.clone();
    match record {
        Record::Sample(sample) => each(Taken::Sample(taken(sample, at(), slots, how))),
        Record::Lost { records: samples, .. } | Record::LostSamples { samples } => {
            each(Taken::Lost { at: at(), samples });
        }
        Record::Throttled { time_ns, .. } => each(Taken::Throttled { at: at(), time_ns }),
        Record::Unthrottled { time_ns, .. } => each(Taken::Unthrottled { at: at(), time_ns }),
        Record::Other { .. } => {}
    }
}

/// A sample has all fields that `open` asked for: without one of them it is malformed, and does not come here.
fn taken(sample: ring::Sample, at: At, slots: &[SlotId], how: Sampling) -> OverflowSample {
    let values = sample.read.map(|read| read.values).unwrap_or_default();
    OverflowSample {
        at,
        mode: sample.mode,
        ip: sample.ip.unwrap_or_default(),
        pid: sample.pid.unwrap_or(u32::MAX),
        tid: sample.tid.unwrap_or(u32::MAX),
        cpu: sample.cpu.unwrap_or_default(),
        time_ns: sample.time_ns.unwrap_or_default(),
        period_events: sample.period_events.unwrap_or(how.period_events.get()),
        addr: sample.addr.filter(|addr| *addr != 0),
        values: slots.iter().copied().zip(values.into_iter().map(|value| value.value)).collect(),
    }
}
