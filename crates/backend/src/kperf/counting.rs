//! Counters that count, and their counts so far.

use std::collections::HashMap;
use std::io;
use std::time::Instant;

use cyclometer_core::exec::{At, Cell, Reading};
use cyclometer_core::{Counting, Error, ErrorKind, MissingReason, PartReason, Recovery, Result, SlotId};

use super::hold::CounterHold;
use super::layout::{CountedPart, CounterLayout};

/// Where counting happens.
#[derive(Clone, Debug)]
pub(super) enum CountedPlace {
    /// The calling thread.
    ThisThread,
    /// These CPUs, with the other work that is counted there.
    Cpus(Vec<u32>, Option<PartReason>),
}

impl CountedPlace {
    pub(super) fn cpus(cpus: Vec<u32>, company: Option<PartReason>) -> CountedPlace {
        CountedPlace::Cpus(cpus, company)
    }
}

/// Open counters. The values of all counters are read at once, and what each has counted since the last read
/// is added up.
pub(super) struct KperfCounting {
    hold: CounterHold,
    layout: CounterLayout,
    place: CountedPlace,
    /// The CPUs whose values the kernel gives.
    cpus: usize,
    selected: u32,
    /// The values at the last read; `None` while nothing counts.
    last: Option<ValuesAt>,
    /// Counts so far: by slot, part and row.
    sums: HashMap<(SlotId, usize, usize), u64>,
    /// How long each event has counted, in ns.
    running_ns: HashMap<(SlotId, usize), u64>,
    /// How long any event has counted, in ns, with the pauses in which another rotation group is configured.
    enabled_ns: u64,
    lost: Option<MissingReason>,
}

/// The values of counters at a moment, one row for each CPU or for the thread.
struct ValuesAt {
    when: Instant,
    rows: Vec<Vec<u64>>,
}

impl KperfCounting {
    pub(super) fn new(
        hold: CounterHold,
        layout: CounterLayout,
        place: CountedPlace,
        cpus: usize,
    ) -> KperfCounting {
        let (sums, running_ns) = Default::default();
        let (selected, last, enabled_ns, lost) = (0, None, 0, None);
        KperfCounting { hold, layout, place, cpus, selected, last, sums, running_ns, enabled_ns, lost }
    }

    /// Configures the selected rotation group and lets it count. macOS 26 needs the configuration before
    /// counting starts; one that is set while counters count acts from the next start on.
    fn begin(&mut self) -> Result<()> {
        let words = self.layout.words(self.selected);
        self.hold.set(&words).map_err(|error| failed("kpc_set_config", error))?;
        self.hold.start().map_err(|error| failed("kpc_set_counting", error))?;
        if matches!(self.place, CountedPlace::ThisThread) {
            let started = self.hold.kpc().set_thread_counting(self.hold.classes());
            started.map_err(|error| failed("kpc_set_thread_counting", error))?;
        }
        // The first sample after a new configuration can be an old one; reading all CPUs flushes it.
        self.values_of_cpus().map_err(|error| failed("kpc_get_cpu_counters", error))?;
        self.last = Some(self.values()?);
        Ok(())
    }

    fn values_of_cpus(&self) -> io::Result<Vec<Vec<u64>>> {
        let classes = self.hold.classes();
        let counters = self.hold.kpc().counter_count(classes).max(1);
        let values = self.hold.kpc().cpu_counters(classes, self.cpus)?;
        Ok(values.chunks(counters).map(<[u64]>::to_vec).collect())
    }

    fn values(&self) -> Result<ValuesAt> {
        let rows = match self.place {
            CountedPlace::ThisThread => {
                let values = self.hold.kpc().thread_counters(self.hold.classes());
                vec![values.map_err(|error| failed("kpc_get_thread_counters", error))?]
            }
            CountedPlace::Cpus(..) => {
                self.values_of_cpus().map_err(|error| failed("kpc_get_cpu_counters", error))?
            }
        };
        Ok(ValuesAt { when: Instant::now(), rows })
    }

    /// Adds up what was counted since the last read.
    fn update(&mut self) -> Result<()> {
        let Some(before) = self.last.take() else { return Ok(()) };
        let after = self.values()?;
        if self.lost.is_none() && !self.hold.has(&self.layout.words(self.selected)) {
            self.lost = Some(MissingReason::KperfTaken);
        }
        self.add(&before, &after, |_| true);
        self.last = Some(after);
        Ok(())
    }

    /// Adds up what some events of the selected rotation group have counted between two reads.
    fn add(&mut self, before: &ValuesAt, after: &ValuesAt, counts: impl Fn(&CountedPart) -> bool) {
        let ns = after.when.duration_since(before.when).as_nanos();
        let ns = u64::try_from(ns).unwrap_or(u64::MAX);
        self.enabled_ns += ns;
        for part in self.layout.parts(self.selected).iter().filter(|part| counts(part)) {
            *self.running_ns.entry((part.slot, part.part)).or_default() += ns;
            for (row, (before, after)) in before.rows.iter().zip(&after.rows).enumerate() {
                let values = before.get(part.value).zip(after.get(part.value));
                let Some((before, after)) = values else { continue };
                *self.sums.entry((part.slot, part.part, row)).or_default() += after.wrapping_sub(*before);
            }
        }
    }

    /// The rows that are reported, with their CPUs.
    fn rows(&self) -> Vec<(usize, Option<u32>)> {
        match &self.place {
            CountedPlace::ThisThread => vec![(0, None)],
            CountedPlace::Cpus(cpus, _) => cpus.iter().map(|cpu| (*cpu as usize, Some(*cpu))).collect(),
        }
    }

    fn put(&self, parts: &[CountedPart], out: &mut Reading) {
        let partial = match &self.place {
            CountedPlace::Cpus(_, company) => company.clone(),
            CountedPlace::ThisThread => None,
        };
        for (part, (row, cpu)) in
            parts.iter().flat_map(|part| self.rows().into_iter().map(move |row| (part, row)))
        {
            let raw = self.sums.get(&(part.slot, part.part, row)).copied().unwrap_or(0);
            let running = self.running_ns.get(&(part.slot, part.part)).copied().unwrap_or(0);
            // Events of a rotation group count for as long as it is selected.
            let enabled = if part.rotation_group.is_none() { self.enabled_ns } else { running };
            let at = At { part: part.part, pmu: Some(part.pmu.clone()), cpu, tid: None };
            let (lost, partial) = (self.lost.clone(), partial.clone());
            out.cells.push(Cell { at, lost, partial, ..Cell::new(part.slot, raw, enabled, running) });
        }
    }
}

impl Counting for KperfCounting {
    fn start(&mut self) -> Result<()> {
        self.begin()
    }

    fn stop(&mut self) -> Result<()> {
        self.update()?;
        self.last = None;
        self.hold.stop().map_err(|error| failed("kpc_set_counting", error))
    }

    /// Fixed counters go on while another rotation group is configured.
    fn select(&mut self, rotation_group: u32) -> Result<()> {
        if rotation_group == self.selected {
            return Ok(());
        }
        self.update()?;
        self.selected = rotation_group;
        let Some(before) = self.last.take() else { return Ok(()) };
        self.begin()?;
        if let Some(after) = self.last.take() {
            self.add(&before, &after, CountedPart::is_fixed);
            self.last = Some(after);
        }
        Ok(())
    }

    fn read(&mut self, out: &mut Reading) -> Result<()> {
        self.update()?;
        self.put(&self.layout.all(), out);
        Ok(())
    }

    fn read_rotation_group(&mut self, rotation_group: u32, out: &mut Reading) -> Result<()> {
        self.update()?;
        self.put(self.layout.parts(rotation_group), out);
        Ok(())
    }
}

fn failed(call: &str, error: io::Error) -> Error {
    let refusal = super::refused::refusal(call, &error);
    let recovery = Recovery::fix("`cyclometer doctor` tells whether kperf works here");
    Error::new(ErrorKind::Os, refusal.reason.to_string()).with_recovery(recovery).with_source(error)
}
