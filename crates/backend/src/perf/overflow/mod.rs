//! Samples at overflows: after each period of events, the kernel records the instruction address.

mod open;
mod trouble;

use std::num::NonZeroU64;
use std::time::Instant;

use cyclometer_core::exec::{At, Cell, Reading};
use cyclometer_core::{Error, ErrorKind, Refusal, Result, Slot, SlotId, Target};
use cyclometer_sys::perf::{OpenEvent, Reach};
use cyclometer_sys::ring::{self, ForkRecord, Format, MappingRecord, Read, Record, Ring, TaskRecord, Woken};

pub use cyclometer_sys::ring::Mode;

/// How an event is sampled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverflowSampling {
    /// Events between two samples.
    pub period_events: NonZeroU64,
    /// Room for samples that were not taken out yet: pages of memory for each sampled place, a power of two.
    pub ring_pages: usize,
    /// Samples at one place after which [`Overflows::wait`] comes back; 0: when its room is half full.
    pub wake_after: u32,
    /// Whether samples contain the accessed address, where the event reports one.
    pub with_addresses: bool,
    /// Whether one thread is followed for windows: not with the threads that it creates, but with records of
    /// them ([`OverflowRecord::Forked`]), of its switches, of executable memory that it maps and of its end.
    /// Windows of CPUs have none of these records, as those of all tasks would fill the ring. Samples then
    /// have the counts of the group and its times. Addresses are those of plain interrupts: with `precise_ip`
    /// Linux counts some events by another unit (IBS of AMD), or counts another event (cycles on older CPUs
    /// of Intel), and here counts come first.
    pub for_windows: bool,
}

impl OverflowSampling {
    /// A sample after each period of so many events, with room for some thousand samples.
    pub fn every(period_events: NonZeroU64) -> OverflowSampling {
        OverflowSampling {
            period_events,
            ring_pages: 64,
            wake_after: 0,
            with_addresses: false,
            for_windows: false,
        }
    }
}

/// A member of a sampled group that is sampled, too, at a period of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FurtherPeriod {
    /// The member.
    pub slot: SlotId,
    /// Its events between two of its samples.
    pub period_events: NonZeroU64,
}

/// An event that is sampled at every place of a target. Dropping it ends the sampling.
///
/// Each sample is one overflow, which the hardware reports by a delayed interrupt. The address is therefore
/// that of a later instruction: by a few on hardware, by more where interrupts were off. Overflows that
/// follow each other faster than interrupts are served share one sample. The kernel stops an event that
/// interrupts too often for the rest of the tick ([`OverflowRecord::Throttled`]). So there are at most as
/// many samples as the count has whole periods.
#[derive(Debug)]
pub struct Overflows {
    rings: Vec<SampledEvent>,
    /// The events of the group, in the order of their values; the sampled one first.
    slots: Vec<SlotId>,
    how: OverflowSampling,
    further: Vec<FurtherPeriod>,
}

/// The event at one place.
#[derive(Debug)]
struct SampledEvent {
    // Dropped before the event whose memory it maps.
    ring: Ring,
    event: OpenEvent,
    /// Kept open for the values of the other events of the group.
    _members: Vec<OpenEvent>,
    /// The members that are sampled, too, by their ids in records.
    further: Vec<(u64, SlotId)>,
    format: Format,
    at: At,
    name: String,
    starts_at_exec: bool,
    has_ended: bool,
}

/// A record that [`Overflows::drain`] passes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OverflowRecord {
    /// A sample.
    Sample(OverflowSample),
    /// The ring was full, and so many records were lost.
    Lost {
        /// Where.
        at: At,
        /// Number of records: samples, and all others that the event was opened with, so at most as many
        /// samples.
        records: u64,
    },
    /// From here to the next [`OverflowRecord::Unthrottled`] the event does not count, as it interrupted too
    /// often.
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
    /// The thread created another one, or a process.
    Forked(ForkRecord),
    /// The thread mapped executable memory into its process.
    Mapped(MappingRecord),
    /// The process executed another program: what it had mapped is gone.
    Executed {
        /// The process.
        pid: u32,
    },
    /// This thread has ended.
    Ended {
        /// Where.
        at: At,
        /// The thread.
        task: TaskRecord,
    },
    /// The thread lost its CPU.
    SwitchedOut {
        /// Where.
        at: At,
    },
    /// The thread got a CPU.
    SwitchedIn {
        /// Where.
        at: At,
        /// The CPU; `None` where the kernel does not report it.
        cpu: Option<u32>,
    },
}

/// One overflow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OverflowSample {
    /// The place that was sampled.
    pub at: At,
    /// The event that overflowed.
    pub slot: SlotId,
    /// The mode that was interrupted.
    pub mode: Mode,
    /// Address of the instruction that was next then; `None` where the kernel does not say.
    pub ip: Option<u64>,
    /// The process; `None` where it has ended.
    pub pid: Option<u32>,
    /// The thread; `None` where it has ended.
    pub tid: Option<u32>,
    /// The CPU; `None` where the kernel does not say.
    pub cpu: Option<u32>,
    /// In ns of the monotonic clock; `None` where the kernel does not say.
    pub time_ns: Option<u64>,
    /// Number of events that the sample stands for.
    pub period_events: u64,
    /// The accessed address; `None` where it was not requested, or the event does not report it.
    pub addr: Option<u64>,
    /// Counts of the group's events, the sampled one first; empty for an event in no group.
    pub values: Vec<(SlotId, u64)>,
    /// How long the group was enabled, in ns; `None` without counts.
    pub time_enabled_ns: Option<u64>,
    /// How long the group was on counters, in ns; `None` without counts.
    pub time_running_ns: Option<u64>,
}

/// Why a wait is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// Samples are available; or one of several places has ended, and there may be none.
    Samples,
    /// The deadline was reached first.
    TimedOut,
    /// All sampled places have ended. There may be samples.
    Ended,
}

impl Overflows {
    /// Opens an event that is sampled, and others whose counts each sample contains. Sampling begins at
    /// [`Overflows::start`]; for a command that has not begun, when it begins.
    ///
    /// A command is sampled with its children, on each CPU separately. To sample a process that runs already,
    /// sample each of its threads as [`Target::Thread`].
    ///
    /// # Errors
    ///
    /// The kernel's refusal, with its remedy where there is one: an event that the PMU lacks, a PMU without
    /// interrupts, no permission, too little lockable memory.
    pub fn open(
        slot: &Slot,
        members: &[Slot],
        on: &Target,
        how: OverflowSampling,
    ) -> std::result::Result<Overflows, Refusal> {
        Overflows::open_several(slot, members, &[], on, how)
    }

    /// As [`Overflows::open`], with members that are sampled, too. Each has its own period, which overflows
    /// of others do not restart.
    ///
    /// # Errors
    ///
    /// Those of [`Overflows::open`].
    pub fn open_several(
        slot: &Slot,
        members: &[Slot],
        further: &[FurtherPeriod],
        on: &Target,
        how: OverflowSampling,
    ) -> std::result::Result<Overflows, Refusal> {
        let rings = open::rings(slot, members, on, open::GroupSampling { how, further })?;
        let slots = std::iter::once(slot).chain(members).map(|slot| slot.id).collect();
        Ok(Overflows { rings, slots, how, further: further.to_vec() })
    }

    /// Starts sampling; for a command, sampling begins by itself when the command does.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn start(&self) -> Result<()> {
        let now = self.rings.iter().filter(|sampled| !sampled.starts_at_exec);
        now.into_iter().try_for_each(|sampled| sampled.control("start", |event| event.enable(Reach::Event)))
    }

    /// Stops sampling.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn stop(&self) -> Result<()> {
        self.rings.iter().try_for_each(|sampled| sampled.control("stop", |event| event.disable(Reach::Event)))
    }

    /// Waits for samples. Signals do not end the wait.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StateLost`] where an event did not get or keep its counter, as Linux reports from 6.15
    /// on. Errors of the operating system.
    pub fn wait(&mut self, until: Option<Instant>) -> Result<Wake> {
        let mut left: Vec<&mut SampledEvent> =
            self.rings.iter_mut().filter(|sampled| !sampled.has_ended).collect();
        if left.is_empty() {
            return Ok(Wake::Ended);
        }
        let events: Vec<&OpenEvent> = left.iter().map(|sampled| &sampled.event).collect();
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

    /// Passes every available record to `each`, and makes room for more: place by place, each in order of
    /// time.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StateLost`] where the kernel's records cannot be parsed, or this is a forked child.
    pub fn drain(&mut self, mut each: impl FnMut(OverflowRecord)) -> Result<()> {
        let (slots, how, periods) = (&self.slots, self.how, &self.further);
        for SampledEvent { ring, format, at, name, further, .. } in &mut self.rings {
            let of_group = SampledGroup { slots, how, further, periods };
            let drained = ring.drain(*format, |record| each_of(record, at, of_group, &mut each));
            drained.map_err(|e| {
                Error::new(ErrorKind::StateLost, format!("the samples of {name} are lost: {e}"))
            })?;
        }
        Ok(())
    }

    /// The counts of the event and its group, for each place.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
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

    /// Samples that were lost so far for lack of room, including those that no record reports yet. `None`
    /// where the kernel does not count them, before Linux 6.0.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn lost(&self) -> Result<Option<u64>> {
        let mut sum = Some(0);
        for sampled in &self.rings {
            let lost = sampled.read()?.values.first().and_then(|value| value.lost);
            sum = sum.zip(lost).map(|(sum, lost)| sum + lost);
        }
        Ok(sum)
    }
}

impl SampledEvent {
    fn control(&self, verb: &str, how: impl Fn(&OpenEvent) -> std::io::Result<()>) -> Result<()> {
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
        Error::new(ErrorKind::Os, format!("cannot {verb} {} on {}: {e}", self.name, self.at.counted_by()))
            .with_source(e)
    }
}

/// The events that the records of a ring belong to.
#[derive(Clone, Copy)]
struct SampledGroup<'a> {
    slots: &'a [SlotId],
    how: OverflowSampling,
    further: &'a [(u64, SlotId)],
    periods: &'a [FurtherPeriod],
}

impl SampledGroup<'_> {
    /// The event with this id in records, and its period; the leader unless a further one has the id.
    fn sampled(self, id: Option<u64>) -> (SlotId, NonZeroU64) {
        let further = self.further.iter().find(|(known, _)| Some(*known) == id).map(|(_, slot)| *slot);
        let period = self.periods.iter().find(|further_one| Some(further_one.slot) == further);
        match (further, period) {
            (Some(slot), Some(period)) => (slot, period.period_events),
            _ => (self.slots[0], self.how.period_events),
        }
    }
}

/// Passes a record on; records of other kinds are ignored.
fn each_of(record: Record, at: &At, group: SampledGroup<'_>, each: &mut dyn FnMut(OverflowRecord)) {
    let at = || at.clone();
    match record {
        Record::Sample(sample) => each(OverflowRecord::Sample(taken(sample, at(), group))),
        Record::Lost { records, .. } | Record::LostSamples { samples: records } => {
            each(OverflowRecord::Lost { at: at(), records });
        }
        Record::Throttled { time_ns, .. } => each(OverflowRecord::Throttled { at: at(), time_ns }),
        Record::Unthrottled { time_ns, .. } => each(OverflowRecord::Unthrottled { at: at(), time_ns }),
        Record::Forked(fork) => each(OverflowRecord::Forked(fork)),
        Record::Mapped(mapping) => each(OverflowRecord::Mapped(mapping)),
        Record::Executed { pid } => each(OverflowRecord::Executed { pid }),
        Record::Ended(task) => each(OverflowRecord::Ended { at: at(), task }),
        Record::SwitchedOut => each(OverflowRecord::SwitchedOut { at: at() }),
        Record::SwitchedIn { cpu } => each(OverflowRecord::SwitchedIn { at: at(), cpu }),
        Record::Other { .. } => {}
    }
}

/// A sample has all fields that `open` requested; one without them is malformed, and is rejected earlier.
fn taken(sample: ring::SampleRecord, at: At, group: SampledGroup<'_>) -> OverflowSample {
    let (slot, period) = group.sampled(sample.id);
    let read = sample.read.unwrap_or_default();
    let values = read.values.into_iter().map(|value| value.value);
    OverflowSample {
        at,
        slot,
        mode: sample.mode,
        ip: sample.ip,
        pid: sample.pid,
        tid: sample.tid,
        cpu: sample.cpu,
        time_ns: sample.time_ns,
        period_events: sample.period_events.unwrap_or(period.get()),
        addr: sample.addr,
        values: group.slots.iter().copied().zip(values).collect(),
        time_enabled_ns: read.time_enabled_ns,
        time_running_ns: read.time_running_ns,
    }
}
