//! Regions of a program that the software PMU runs: each thread requests its own counts.

use cyclometer_core::exec::{Cell, Raw, Reading, RefusalKind};
use cyclometer_core::{Counting, Error, ErrorKind, Refusal, Result, Rung, Slot, SlotId, Source, Target};
use cyclometer_sys::marks;

use super::line;

/// Maximum number of events of one request.
const MOST: usize = marks::MOST_WORDS;

/// The software PMU that runs this process, as a source for its threads.
///
/// Counts include the last instruction before the request. Their start is arbitrary, so only differences are
/// meaningful.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnCounts;

impl Source for OwnCounts {
    fn rung(&self) -> Rung {
        Rung::Soft
    }

    fn open(&self, slots: &[Slot], on: &Target) -> std::result::Result<Box<dyn Counting>, Refusal> {
        // An obstacle that all events share is reported for the first one, so that each of them falls back to
        // its next source.
        let refuse = |slot: Option<&Slot>, kind, text: String| {
            let slot = slot.or(slots.first()).map(|slot| slot.id);
            Refusal { slot, kind, text }
        };
        if *on != Target::ThisThread {
            let text = "under the software PMU, only the calling thread can be counted (target: this thread)"
                .to_owned();
            return Err(refuse(None, RefusalKind::TargetNotSupported, text));
        }
        if let Some(beyond) = slots.get(MOST) {
            let text = format!("the software PMU reports at most {MOST} events per request");
            return Err(refuse(Some(beyond), RefusalKind::NotSupported, text));
        }
        let lines = slots.iter().map(line).collect::<std::result::Result<Vec<_>, _>>()?;
        let mut counting = OwnCounting {
            slots: lines.iter().map(|(slot, _)| *slot).collect(),
            events: lines.iter().map(|(_, event)| event.index() as u64).collect(),
            words: vec![0; lines.len()],
            reads: 0,
        };
        let values = counting.ask().map_err(|e| refuse(None, RefusalKind::NotSupported, e.to_string()))?;
        let unknown = values.iter().position(|value| *value == UNKNOWN).and_then(|i| slots.get(i));
        match unknown {
            Some(slot) => {
                let text =
                    format!("the software PMU was not asked for {} when it started this program", slot.name);
                Err(refuse(Some(slot), RefusalKind::NotSupported, text))
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
    /// The numbers of the events.
    events: Vec<u64>,
    /// Buffer for the request and its answer.
    words: Vec<u64>,
    /// Number of reads, in place of times: reading a clock within a region adds to its counts, by a varying
    /// amount.
    reads: u64,
}

impl OwnCounting {
    /// The counts of this thread up to now.
    fn ask(&mut self) -> Result<&[u64]> {
        self.words.copy_from_slice(&self.events);
        match marks::ask_counts(&mut self.words) {
            Ok(()) => Ok(&self.words),
            Err(e) => {
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
            true => Cell {
                lost: Some("the software PMU has no per-thread count of this event".to_owned()),
                ..Cell::new(*slot, 0, 0, 0)
            },
        }));
        Ok(())
    }

    fn sample(&mut self, out: &mut Vec<Raw>) -> Result<()> {
        self.reads += 1;
        let reads = self.reads;
        let raw = |value: &u64| match *value {
            UNKNOWN => Raw::LOST,
            value => Raw { value, time_enabled_ns: reads, time_running_ns: reads, is_lost: false },
        };
        out.extend(self.ask()?.iter().map(raw));
        Ok(())
    }
}
