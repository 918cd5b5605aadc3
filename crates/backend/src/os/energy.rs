//! Energy counters: the energy that a zone used, with wraps of its counter added.

use std::fs;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use cyclometer_core::energy::EnergyZone;
use cyclometer_core::exec::{At, Cell, CounterAt, Raw, ReadWay, RefusalKind};
use cyclometer_core::reason::AccountRefusal;
use cyclometer_core::{MissingReason, Refusal, Slot, SlotId};

/// The counter of one zone for one slot.
#[derive(Debug)]
pub(super) struct EnergyMeter {
    slot: SlotId,
    part: usize,
    zone: EnergyZone,
    /// The counter's last value and when it was read; `None` before the first.
    last: Option<(u64, Instant)>,
    /// Energy since the start, in µJ.
    used_uj: u64,
    state: EnergyState,
}

/// Whether the energy since the start is known.
#[derive(Clone, PartialEq, Eq, Debug)]
enum EnergyState {
    Counting,
    /// Two reads were so far apart that the counter may have wrapped twice. A shorter region can still be
    /// counted.
    PausedTooLong,
    /// A read failed, for this reason.
    Unreadable(String),
}

impl EnergyState {
    /// Why the energy since the start is unknown.
    fn obstacle(&self) -> Option<MissingReason> {
        match self {
            EnergyState::Counting => None,
            EnergyState::PausedTooLong => Some(MissingReason::MayHaveWrapped),
            EnergyState::Unreadable(reason) => Some(MissingReason::Reported(reason.clone())),
        }
    }
}

impl EnergyMeter {
    /// A counter that can be read.
    ///
    /// # Errors
    ///
    /// `RefusalKind::NoPermission` with the remedy: since 5.10, kernels let only root read it, as it reveals
    /// secrets of other processes. `RefusalKind::NotSupported` where there is no such counter.
    pub(super) fn open(slot: &Slot, part: usize, zone: &EnergyZone) -> Result<EnergyMeter, Refusal> {
        let (zone, state) = (zone.clone(), EnergyState::Counting);
        let meter = EnergyMeter { slot: slot.id, part, zone, last: None, used_uj: 0, state };
        match meter.value() {
            Ok(_) => Ok(meter),
            Err(error) => Err(refusal(slot.id, &meter.zone, &error)),
        }
    }

    fn value(&self) -> io::Result<u64> {
        let text = fs::read_to_string(self.zone.file())?;
        text.trim().parse().map_err(|_| io::Error::new(ErrorKind::InvalidData, "it holds no number"))
    }

    /// Starts counting from the present value.
    pub(super) fn start(&mut self) {
        (self.last, self.used_uj, self.state) = (None, 0, EnergyState::Counting);
        self.refresh();
    }

    /// Reads the counter again, until a read fails.
    pub(super) fn refresh(&mut self) {
        if let EnergyState::Unreadable(_) = self.state {
            return;
        }
        match self.value() {
            Ok(now) => self.advance(now),
            Err(error) => {
                let reason = format!("{} cannot be read any more: {error}", self.zone.file());
                self.state = EnergyState::Unreadable(reason);
            }
        }
    }

    fn advance(&mut self, now: u64) {
        let Some((before, at)) = self.last.replace((now, Instant::now())) else { return };
        self.used_uj = self.used_uj.saturating_add(self.zone.between(before, now));
        if at.elapsed() > self.zone.longest_pause() {
            self.state = EnergyState::PausedTooLong;
        }
    }

    pub(super) fn longest_pause(&self) -> Duration {
        self.zone.longest_pause()
    }

    fn at(&self) -> At {
        At { part: self.part, pmu: Some(self.zone.name().to_owned()), ..At::default() }
    }

    /// The energy used during this time.
    pub(super) fn cell(&self, over_ns: u64) -> Cell {
        let lost = self.state.obstacle();
        let time_ns = if lost.is_some() { 0 } else { over_ns.max(1) };
        Cell { at: self.at(), lost, ..Cell::new(self.slot, self.used_uj, time_ns, time_ns) }
    }

    pub(super) fn counter(&self) -> CounterAt {
        CounterAt { slot: self.slot, at: self.at(), way: ReadWay::Kernel(None), partial: None }
    }

    /// The raw value for regions, which judge their own length.
    pub(super) fn raw(&self, over_ns: u64) -> Raw {
        let is_lost = self.last.is_none() || matches!(self.state, EnergyState::Unreadable(_));
        Raw { value: self.used_uj, time_enabled_ns: over_ns.max(1), time_running_ns: over_ns.max(1), is_lost }
    }
}

fn refusal(slot: SlotId, zone: &EnergyZone, error: &io::Error) -> Refusal {
    let file = zone.file();
    let (kind, reason) = match error.kind() {
        ErrorKind::PermissionDenied => (RefusalKind::NoPermission, AccountRefusal::EnergyForRoot { file }),
        _ => {
            let error = error.to_string();
            (RefusalKind::NotSupported, AccountRefusal::EnergyUnreadable { file, error })
        }
    };
    Refusal::of_slot(slot, kind, reason)
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
            refused.reason.to_string(),
            format!("{file} can be read by root alone; to permit it: sudo chmod a+r {file}")
        );
    }

    #[test]
    fn a_pause_in_which_a_counter_may_wrap_twice_loses_it() {
        // At any real power, this range lasts less than a µs.
        let (_folder, mut meter) = meter(10);
        meter.start();
        assert_eq!(meter.cell(9).lost, None);
        meter.refresh();
        assert!(meter.cell(9).lost.unwrap().to_string().contains("wrapped twice"));
        assert!(!meter.raw(9).is_lost, "regions judge their own length");
        meter.start();
        assert_eq!(meter.cell(9).lost, None, "a new start has lost nothing");
    }

    #[test]
    fn a_read_that_fails_loses_the_energy_of_regions_too() {
        for range_uj in [10, u64::MAX] {
            let (folder, mut meter) = meter(range_uj);
            let file = folder.path().join("energy_uj");
            meter.start();
            meter.refresh();
            assert!(!meter.raw(9).is_lost);
            fs::remove_file(&file).unwrap();
            meter.refresh();
            assert!(meter.raw(9).is_lost, "the last value is not the present one");
            assert!(meter.cell(9).lost.unwrap().to_string().contains("cannot be read any more"));
            fs::write(&file, "9").unwrap();
            meter.refresh();
            assert!(meter.raw(9).is_lost, "the counter may have begun at 0 meanwhile");
            meter.start();
            assert!(!meter.raw(9).is_lost && meter.cell(9).lost.is_none());
        }
    }

    /// The meter of a zone in a folder of files, whose counter is at 5 µJ.
    fn meter(range_uj: u64) -> (tempfile::TempDir, EnergyMeter) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("energy_uj"), "5").unwrap();
        let zone = EnergyZone { folder: folder.path().display().to_string(), ..zone(range_uj) };
        let slot = Slot::new(SlotId(0), "energy-pkg", Rung::Os, vec![Part::Energy(zone.clone())]);
        (folder, EnergyMeter::open(&slot, 0, &zone).unwrap())
    }
}
