//! Energy counters: the energy that a zone used, with wraps of its counter added.

use std::fs;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use cyclometer_core::energy::EnergyZone;
use cyclometer_core::exec::{At, Cell, CounterAt, Raw, ReadWay, RefusalKind};
use cyclometer_core::{Refusal, Slot, SlotId};

/// The counter of one zone for one slot.
#[derive(Debug)]
pub(super) struct Meter {
    slot: SlotId,
    part: usize,
    zone: EnergyZone,
    /// The counter's last value and when it was read; `None` before the first.
    last: Option<(u64, Instant)>,
    /// Energy since the start, in µJ.
    used_uj: u64,
    /// Why the used energy is no longer known.
    lost: Option<String>,
}

impl Meter {
    /// A counter that can be read.
    ///
    /// # Errors
    ///
    /// `RefusalKind::NoPermission` with the remedy: since 5.10, kernels let only root read it, as it reveals
    /// secrets of other processes. `RefusalKind::NotSupported` where there is no such counter.
    pub(super) fn open(slot: &Slot, part: usize, zone: &EnergyZone) -> Result<Meter, Refusal> {
        let meter = Meter { slot: slot.id, part, zone: zone.clone(), last: None, used_uj: 0, lost: None };
        match meter.value() {
            Ok(_) => Ok(meter),
            Err(error) => Err(refusal(slot.id, zone, &error)),
        }
    }

    fn value(&self) -> io::Result<u64> {
        let text = fs::read_to_string(self.zone.file())?;
        text.trim().parse().map_err(|_| io::Error::new(ErrorKind::InvalidData, "it holds no number"))
    }

    /// Starts counting from the present value.
    pub(super) fn start(&mut self) {
        (self.last, self.used_uj, self.lost) = (None, 0, None);
        self.refresh();
    }

    /// Reads the counter again.
    pub(super) fn refresh(&mut self) {
        let now = match self.value() {
            Ok(now) => now,
            Err(error) => return self.lose(format!("{} cannot be read any more: {error}", self.zone.file())),
        };
        if let Some((before, at)) = self.last.replace((now, Instant::now())) {
            self.used_uj = self.used_uj.saturating_add(self.zone.between(before, now));
            if at.elapsed() > self.zone.longest_pause() {
                self.lose(
                    "it was not read for so long that its counter may have begun anew twice".to_owned(),
                );
            }
        }
    }

    fn lose(&mut self, reason: String) {
        self.lost.get_or_insert(reason);
    }

    pub(super) fn longest_pause(&self) -> Duration {
        self.zone.longest_pause()
    }

    fn at(&self) -> At {
        At { part: self.part, pmu: self.zone.name().to_owned(), ..At::default() }
    }

    /// The energy used during this time.
    pub(super) fn cell(&self, over_ns: u64) -> Cell {
        let time_ns = if self.lost.is_some() { 0 } else { over_ns.max(1) };
        Cell {
            at: self.at(),
            lost: self.lost.clone(),
            ..Cell::new(self.slot, self.used_uj, time_ns, time_ns)
        }
    }

    pub(super) fn counter(&self) -> CounterAt {
        CounterAt { slot: self.slot, at: self.at(), way: ReadWay::Kernel(String::new()), partial: None }
    }

    /// The raw value for regions, which judge their own length.
    pub(super) fn raw(&self, over_ns: u64) -> Raw {
        let is_lost = self.last.is_none();
        Raw { value: self.used_uj, time_enabled_ns: over_ns.max(1), time_running_ns: over_ns.max(1), is_lost }
    }
}

fn refusal(slot: SlotId, zone: &EnergyZone, error: &io::Error) -> Refusal {
    let file = zone.file();
    let (kind, text) = match error.kind() {
        ErrorKind::PermissionDenied => (
            RefusalKind::NoPermission,
            format!("{file} can be read by root alone; to permit it: sudo chmod a+r {file}"),
        ),
        _ => (RefusalKind::NotSupported, format!("{file} cannot be read: {error}")),
    };
    Refusal { slot: Some(slot), kind, text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_core::energy::EnergyDomain;
    use cyclometer_core::{Part, Rung};

    fn zone(range_uj: u64) -> EnergyZone {
        let folder = "/sys/class/powercap/intel-rapl:0".to_owned();
        EnergyZone { domain: EnergyDomain::Package, folder, max_energy_range_uj: range_uj }
    }

    #[test]
    fn a_counter_for_root_alone_is_refused_with_the_remedy() {
        let refused = refusal(SlotId(3), &zone(1), &io::Error::from(ErrorKind::PermissionDenied));
        let file = "/sys/class/powercap/intel-rapl:0/energy_uj";
        assert_eq!((refused.slot, refused.kind), (Some(SlotId(3)), RefusalKind::NoPermission));
        assert_eq!(
            refused.text,
            format!("{file} can be read by root alone; to permit it: sudo chmod a+r {file}")
        );
    }

    #[test]
    fn a_pause_in_which_a_counter_may_begin_anew_twice_loses_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("energy_uj"), "5").unwrap();
        // At any real power, this range lasts less than a µs.
        let zone = EnergyZone { folder: folder.path().display().to_string(), ..zone(10) };
        let slot = Slot::new(SlotId(0), "energy-pkg", Rung::Os, vec![Part::Energy(zone.clone())]);
        let mut meter = Meter::open(&slot, 0, &zone).unwrap();
        meter.start();
        assert_eq!(meter.cell(9).lost, None);
        meter.refresh();
        assert!(meter.cell(9).lost.unwrap().contains("begun anew twice"));
        meter.start();
        assert_eq!(meter.cell(9).lost, None, "what counts anew has lost nothing");
    }
}
