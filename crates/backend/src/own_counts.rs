//! Regions of a program that the software PMU runs: each thread requests its own counts.

use cyclometer_core::exec::{Cell, Raw, Reading, RefusalKind};
use cyclometer_core::reason::SoftwareRefusal;
use cyclometer_core::{
    Counting, Error, ErrorKind, MissingReason, Refusal, Result, Rung, Slot, SlotId, Source, Target,
};
use cyclometer_sys::marks;

use crate::soft_events::line;

/// Maximum number of events of one request, which also asks for the time.
const MOST: usize = marks::MOST_WORDS - 1;

/// The software PMU that runs this process, if there is one, for regions of its threads.
pub(crate) fn source() -> Option<Box<dyn Source>> {
    Some(Box::new(OwnCounts))
}

/// The software PMU that runs this process, as a source for its threads.
///
/// Counts include the last instruction before the request. Their start is arbitrary, so only differences are
/// meaningful.
#[derive(Clone, Copy, Debug)]
struct OwnCounts;

impl Source for OwnCounts {
    fn rung(&self) -> Rung {
        Rung::Soft
    }

    fn open(&self, slots: &[Slot], on: &Target) -> std::result::Result<Box<dyn Counting>, Refusal> {
        // An obstacle that all events share is reported for the first one, so that each of them falls back to
        // its next source.
        let refuse = |slot: Option<&Slot>, kind, reason| {
            let slot = slot.or(slots.first()).map(|slot| slot.id);
            Refusal { slot, kind, reason }
        };
        if *on != Target::ThisThread {
            let reason = SoftwareRefusal::OfCallingThread.into();
            return Err(refuse(None, RefusalKind::TargetNotSupported, reason));
        }
        if let Some(beyond) = slots.get(MOST) {
            let reason = SoftwareRefusal::TooManyEvents { most: MOST }.into();
            return Err(refuse(Some(beyond), RefusalKind::NotSupported, reason));
        }
        let lines = slots.iter().map(line).collect::<std::result::Result<Vec<_>, _>>()?;
        let events = lines.iter().map(|(_, event)| event.index() as u64);
        let mut counting = OwnCounting {
            slots: lines.iter().map(|(slot, _)| *slot).collect(),
            request: events.chain([marks::ASK_TIME]).collect(),
            words: vec![0; lines.len() + 1],
        };
        let (values, _) =
            counting.ask().map_err(|e| refuse(None, RefusalKind::NotSupported, e.to_string().into()))?;
        let unknown = values.iter().position(|value| *value == UNKNOWN).and_then(|i| slots.get(i));
        match unknown {
            Some(slot) => {
                let reason = SoftwareRefusal::NotRequested { event: slot.name.clone() }.into();
                Err(refuse(Some(slot), RefusalKind::NotSupported, reason))
            }
            None => Ok(Box::new(counting)),
        }
    }
}

/// The software PMU returns this instead of an unknown count.
const UNKNOWN: u64 = u64::MAX;

/// The counts of one thread.
struct OwnCounting {
    slots: Vec<SlotId>,
    /// The numbers of the events, and the request for the time. The tracer reads the clock, as a read in this
    /// thread adds to the counts of a region, by a varying amount.
    request: Vec<u64>,
    /// Buffer for the request and its answer.
    words: Vec<u64>,
}

impl OwnCounting {
    /// The counts of this thread up to now, and the time in ns.
    fn ask(&mut self) -> Result<(&[u64], u64)> {
        self.words.copy_from_slice(&self.request);
        match (marks::ask_counts(&mut self.words), self.words.as_slice()) {
            (Ok(()), [values @ .., time_ns]) if *time_ns != UNKNOWN => Ok((values, *time_ns)),
            (Ok(()), _) => {
                let text = "the software PMU of another version of cyclometer does not report times";
                Err(Error::new(ErrorKind::StateLost, text))
            }
            (Err(e), _) => {
                let text = format!("the software PMU does not report the counts of this thread: {e}");
                Err(Error::new(ErrorKind::StateLost, text).with_source(e))
            }
        }
    }
}

impl Counting for OwnCounting {
    fn start(&mut self) -> Result<()> {
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        Ok(())
    }

    fn read(&mut self, out: &mut Reading) -> Result<()> {
        let mut values = Vec::with_capacity(self.slots.len());
        self.sample(&mut values)?;
        out.cells.extend(self.slots.iter().zip(values).map(|(slot, raw)| match raw.is_lost {
            false => Cell::new(*slot, raw.value, raw.time_enabled_ns, raw.time_running_ns),
            true => Cell { lost: Some(MissingReason::NoCountOfThreads), ..Cell::new(*slot, 0, 0, 0) },
        }));
        Ok(())
    }

    fn sample(&mut self, out: &mut Vec<Raw>) -> Result<()> {
        let (values, time_ns) = self.ask()?;
        let raw = |value: &u64| match *value {
            UNKNOWN => Raw::LOST,
            value => Raw { value, time_enabled_ns: time_ns, time_running_ns: time_ns, is_lost: false },
        };
        out.extend(values.iter().map(raw));
        Ok(())
    }
}
