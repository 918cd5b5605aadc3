//! The hardware PMU, the kernel's software events and its dynamic PMUs, through `perf_event_open`.

mod group;
mod program;
mod read;
mod refusal;
mod target;

use cyclometer_core::exec::Reading;
use cyclometer_core::{Counting, Error, ErrorKind, Refusal, Result, Rung, Slot, Source, Target};
use cyclometer_sys::perf::{Event, Reach};
use std::io;

use program::Opened;

/// Opens events through `perf_event_open(2)`.
///
/// Nothing is changed on the machine but the open files of this process, whose soft limit is raised to the
/// hard one when there are too few.
#[derive(Clone, Copy, Debug, Default)]
pub struct PerfSource;

impl PerfSource {
    /// The source.
    pub fn new() -> PerfSource {
        PerfSource
    }
}

impl Source for PerfSource {
    fn rung(&self) -> Rung {
        Rung::Perf
    }

    fn open(&self, slots: &[Slot], on: &Target) -> std::result::Result<Box<dyn Counting>, Refusal> {
        Ok(Box::new(PerfCounting { events: program::open_all(slots, on)? }))
    }
}

/// Open events; dropping them closes them.
#[derive(Debug)]
struct PerfCounting {
    events: Vec<Opened>,
}

impl PerfCounting {
    fn control(
        &self,
        verb: &str,
        which: fn(&Opened) -> bool,
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
        self.control("start", |opened| opened.leads && !opened.starts_at_exec, |e| e.enable(Reach::Event))
    }

    fn stop(&mut self) -> Result<()> {
        self.control("stop", |opened| opened.leads, |e| e.disable(Reach::Event))
    }

    fn read(&mut self, out: &mut Reading) -> Result<()> {
        out.cells.extend(self.events.iter().map(read::cell));
        Ok(())
    }
}
