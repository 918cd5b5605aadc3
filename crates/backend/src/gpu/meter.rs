//! One quantity of one device over time.

use std::time::Instant;

use cyclometer_core::exec::{At, Cell};
use cyclometer_core::gpu::GpuQuantity;
use cyclometer_core::reason::GpuObstacle;
use cyclometer_core::{MissingReason, PartReason, SlotId};

use super::processes::MeasuredProcesses;
use super::reader::{DeviceProbe, GpuReader, GpuSample, WantedPart};

/// Energy counters move in steps of up to this time.
///
/// # Source
///
/// NVML API Reference Guide, `nvmlDeviceGetTotalEnergyConsumption`, gives no period; power, from which the
/// driver adds it up, is updated every 100 ms at most on current devices (`nvidia-smi`, "Power Readings").
const ENERGY_STEP_NS: u64 = 100_000_000;

/// Bits of NVML that mean that power or temperature holds the clocks down, with their names.
///
/// # Source
///
/// NVML API Reference Guide, "Clocks Event Reasons".
const REASONS: [(u64, &str); 5] = [
    (0x04, "power cap"),
    (0x08, "hardware slowdown"),
    (0x20, "software thermal limit"),
    (0x40, "hardware thermal limit"),
    (0x80, "power brake"),
];

/// Whether one of these bits means that power or temperature holds the clocks down.
pub(super) fn is_throttled(bits: u64) -> bool {
    REASONS.iter().any(|(bit, _)| bits & bit != 0)
}

/// The samples of one quantity of one device.
#[derive(Debug)]
pub(super) struct GpuMeter {
    slot: SlotId,
    part: usize,
    /// The quantity of the event.
    quantity: GpuQuantity,
    probe: DeviceProbe,
    processes: MeasuredProcesses,
    sums: SampleSums,
    /// Why its values are lost: from the opening on, or since a sample failed.
    lost: Option<MissingReason>,
    /// Whether the device has reported it at all.
    is_reported: bool,
}

/// The sums of samples since the start.
#[derive(Clone, Debug, Default)]
struct SampleSums {
    last: Option<(Instant, u64)>,
    /// Integral over time, in raw units times ns.
    integral: u128,
    /// The count of a counter, in raw units.
    counted: u64,
    covered_ns: u64,
    samples: u64,
    least: u64,
    greatest: u64,
    reasons: u64,
}

impl SampleSums {
    fn add(&mut self, at: Instant, sample: GpuSample) {
        let GpuSample { value, reasons } = sample;
        if let Some((before, earlier)) = self.last {
            let ns = u64::try_from(at.saturating_duration_since(before).as_nanos()).unwrap_or(u64::MAX);
            // Between two samples the value is taken to change evenly.
            let twice = u128::from(earlier) + u128::from(value);
            self.integral = self.integral.saturating_add(twice * u128::from(ns) / 2);
            self.counted = self.counted.saturating_add(value.saturating_sub(earlier));
            self.covered_ns = self.covered_ns.saturating_add(ns);
            (self.least, self.greatest) = (self.least.min(value), self.greatest.max(value));
        } else {
            (self.least, self.greatest) = (value, value);
        }
        self.last = Some((at, value));
        self.samples += 1;
        self.reasons |= reasons;
    }
}

impl GpuMeter {
    /// A meter with its first answer: `None` if the device reports the quantity, else the obstacle.
    pub(super) fn open(
        wanted: &WantedPart,
        probe: DeviceProbe,
        reader: &mut dyn GpuReader,
    ) -> (GpuMeter, Option<GpuObstacle>) {
        let obstacle = reader.read(&probe, &wanted.processes).err();
        let meter = GpuMeter {
            slot: wanted.slot,
            part: wanted.index,
            quantity: wanted.part.quantity,
            probe,
            processes: wanted.processes.clone(),
            sums: SampleSums::default(),
            lost: obstacle.as_ref().map(|obstacle| obstacle.to_string().into()),
            is_reported: obstacle.is_none(),
        };
        let obstacle = obstacle.map(|obstacle| GpuObstacle::OfDevice {
            device: meter.probe.device.clone(),
            obstacle: Box::new(obstacle),
        });
        (meter, obstacle)
    }

    /// Forgets all samples.
    pub(super) fn restart(&mut self) {
        self.sums = SampleSums::default();
        if self.is_reported {
            self.lost = None;
        }
    }

    /// Samples now. After a failed sample the values are lost until the next start.
    pub(super) fn sample(&mut self, reader: &mut dyn GpuReader) {
        if self.lost.is_some() {
            return;
        }
        match reader.read(&self.probe, &self.processes) {
            Ok(sample) if self.went_back(sample) => {
                self.lost = Some(MissingReason::DriverReset);
            }
            Ok(sample) => self.sums.add(Instant::now(), sample),
            Err(obstacle) => self.lost = Some(obstacle.to_string().into()),
        }
    }

    fn is_counter(&self) -> bool {
        self.probe.quantity == GpuQuantity::Energy
    }

    /// Whether energy is added up from power.
    fn is_added_up(&self) -> bool {
        self.quantity == GpuQuantity::Energy && !self.is_counter()
    }

    fn went_back(&self, sample: GpuSample) -> bool {
        self.is_counter() && self.sums.last.is_some_and(|(_, before)| sample.value < before)
    }

    pub(super) fn cell(&self) -> Cell {
        let sums = &self.sums;
        let raw = match self.quantity {
            // From mW times ns to mJ.
            GpuQuantity::Energy if self.is_added_up() => sums.integral / 1_000_000_000,
            GpuQuantity::Energy => sums.counted.into(),
            _ => (sums.integral + 500_000) / 1_000_000,
        };
        let time_ns = if self.lost.is_some() { 0 } else { sums.covered_ns };
        Cell {
            at: At { part: self.part, pmu: Some(self.probe.device.clone()), ..At::default() },
            lost: self.lost.clone().or_else(|| self.is_still()).or_else(|| self.is_unseen()),
            partial: self.remark(),
            ..Cell::new(self.slot, u64::try_from(raw).unwrap_or(u64::MAX), time_ns, time_ns)
        }
    }

    /// Why a counter of energy that did not move is no count: any device uses some.
    fn is_still(&self) -> Option<MissingReason> {
        let is_still = self.is_counter() && self.sums.counted == 0 && self.sums.samples > 1;
        is_still.then_some(MissingReason::NoEnergyStep { ms: self.sums.covered_ns / 1_000_000 })
    }

    /// Why the memory of processes that were looked at only before they began and after they ended is no
    /// zero.
    fn is_unseen(&self) -> Option<MissingReason> {
        let is_by_process =
            self.quantity == GpuQuantity::ProcessMemory && self.processes != MeasuredProcesses::All;
        let is_unseen = is_by_process && self.sums.samples <= 2 && self.sums.greatest == 0;
        is_unseen.then_some(MissingReason::NotAsked)
    }

    /// The remark for readers of the value; `None` where there is nothing to say.
    fn remark(&self) -> Option<PartReason> {
        let (sums, device) = (&self.sums, self.probe.device.clone());
        if sums.samples == 0 {
            return None;
        }
        if self.is_counter() {
            let is_coarse = sums.covered_ns < 10 * ENERGY_STEP_NS;
            return is_coarse.then_some(PartReason::EnergyInSteps { device });
        }
        let samples = sums.samples;
        if self.is_added_up() {
            return Some(PartReason::FromPower { device, samples });
        }
        let [least, greatest] = [sums.least, sums.greatest].map(|value| shown(value, self.quantity));
        let range = if least == greatest { greatest } else { format!("{least} to {greatest}") };
        Some(PartReason::SampledRange { device, samples, range, causes: causes(sums.reasons) })
    }
}

/// A raw value in a unit for people, without decimals that say nothing.
fn shown(raw: u64, quantity: GpuQuantity) -> String {
    let value = raw as f64 * quantity.scale();
    let unit = quantity.unit();
    let (value, unit) = match unit.symbol() {
        "B" => (value / f64::from(1 << 20), "MiB"),
        "B/s" => (value / 1e6, "MB/s"),
        symbol => (value, symbol),
    };
    let text = format!("{value:.1}");
    format!("{} {unit}", text.strip_suffix(".0").unwrap_or(&text))
}

/// The names of the reasons for which power or temperature holds the clocks down.
fn causes(bits: u64) -> Vec<&'static str> {
    REASONS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::reader::ProbePlace;
    use cyclometer_core::gpu::{GpuPart, GpuPlace};
    use std::time::Duration;

    /// Gives prepared answers, one for each read.
    struct Prepared(Vec<Result<GpuSample, GpuObstacle>>);

    impl GpuReader for Prepared {
        fn probes(&mut self, _: &WantedPart) -> Result<Vec<DeviceProbe>, GpuObstacle> {
            Ok(vec![])
        }

        fn read(&mut self, _: &DeviceProbe, _: &MeasuredProcesses) -> Result<GpuSample, GpuObstacle> {
            self.0.remove(0)
        }
    }

    fn value(value: u64) -> Result<GpuSample, GpuObstacle> {
        Ok(GpuSample { value, reasons: 0 })
    }

    fn fault() -> Result<GpuSample, GpuObstacle> {
        Err(GpuObstacle::NoNumber { path: "/sys/f".to_owned() })
    }

    fn meter(
        quantity: GpuQuantity,
        read: GpuQuantity,
        answers: Vec<Result<GpuSample, GpuObstacle>>,
    ) -> (GpuMeter, Prepared) {
        let part = GpuPart { quantity, place: GpuPlace::Nvml(None) };
        let wanted = WantedPart { slot: SlotId(0), index: 0, part, processes: MeasuredProcesses::All };
        let probe = DeviceProbe { device: "nvidia0".to_owned(), quantity: read, place: ProbePlace::Nvml(0) };
        let mut reader = Prepared(answers);
        (GpuMeter::open(&wanted, probe, &mut reader).0, reader)
    }

    #[test]
    fn values_between_two_samples_change_evenly() {
        let (mut sums, start) = (SampleSums::default(), Instant::now());
        for (ms, value) in [(0, 10), (100, 30), (200, 30)] {
            sums.add(start + Duration::from_millis(ms), GpuSample { value, reasons: 0 });
        }
        assert_eq!(sums.integral / 1_000_000, 20 * 100 + 30 * 100);
        assert_eq!((sums.covered_ns, sums.samples, sums.least, sums.greatest), (200_000_000, 3, 10, 30));
    }

    #[test]
    fn energy_of_a_counter_is_its_difference_and_a_counter_that_went_back_is_lost() {
        let answers = vec![value(500), value(500), value(730), value(20)];
        let (mut meter, mut reader) = meter(GpuQuantity::Energy, GpuQuantity::Energy, answers);
        meter.sample(&mut reader);
        meter.sample(&mut reader);
        assert_eq!((meter.cell().raw, meter.cell().lost), (230, None));
        meter.sample(&mut reader);
        assert!(meter.cell().lost.unwrap().to_string().contains("went back"));
        meter.restart();
        assert_eq!(meter.cell().lost, None);
    }

    #[test]
    fn a_counter_of_energy_that_stands_still_is_no_zero() {
        let (mut meter, mut reader) =
            meter(GpuQuantity::Energy, GpuQuantity::Energy, vec![value(5), value(5), value(5)]);
        meter.sample(&mut reader);
        meter.sample(&mut reader);
        assert!(meter.cell().lost.unwrap().to_string().contains("did not move"), "{:?}", meter.cell());
    }

    #[test]
    fn memory_of_processes_that_were_not_looked_at_is_no_zero() {
        let zeros = |number: usize| (0..number).map(|_| value(0)).collect::<Vec<_>>();
        let (mut meter, mut reader) = meter(GpuQuantity::ProcessMemory, GpuQuantity::ProcessMemory, zeros(4));
        meter.processes = MeasuredProcesses::Trees(vec![7]);
        meter.sample(&mut reader);
        meter.sample(&mut reader);
        assert!(meter.cell().lost.unwrap().to_string().contains("ended too soon"));
        meter.sample(&mut reader);
        assert_eq!((meter.cell().lost, meter.cell().raw), (None, 0), "it was looked at in between");
    }

    #[test]
    fn energy_that_is_added_up_from_power_says_so() {
        let (meter, _) = meter(GpuQuantity::Energy, GpuQuantity::Power, vec![value(100)]);
        let mut meter = meter;
        let start = Instant::now();
        meter.sums.add(start, GpuSample { value: 100_000, reasons: 0 });
        meter.sums.add(start + Duration::from_millis(500), GpuSample { value: 100_000, reasons: 0 });
        assert_eq!(meter.cell().raw, 50_000, "100 W for 0.5 s are 50 J");
        assert_eq!(meter.cell().partial.unwrap().to_string(), "nvidia0 added up from power, sampled 2 times");
    }

    #[test]
    fn a_failed_sample_loses_the_value_until_the_next_start() {
        let answers = vec![value(1), value(1), fault(), value(1)];
        let (mut meter, mut reader) = meter(GpuQuantity::Power, GpuQuantity::Power, answers);
        meter.sample(&mut reader);
        meter.sample(&mut reader);
        assert_eq!(meter.cell().lost, Some("/sys/f holds no number".into()));
        assert_eq!(meter.cell().time_enabled_ns, 0);
        meter.restart();
        meter.sample(&mut reader);
        assert_eq!(meter.cell().lost, None);
    }

    #[test]
    fn the_remark_has_the_range_and_what_held_the_clocks_down() {
        let answers = vec![
            value(0),
            Ok(GpuSample { value: 0, reasons: 1 }),
            Ok(GpuSample { value: 100_000, reasons: 0x24 }),
        ];
        let (mut meter, mut reader) = meter(GpuQuantity::Throttled, GpuQuantity::Throttled, answers);
        meter.sample(&mut reader);
        meter.sample(&mut reader);
        assert_eq!(
            meter.cell().partial.unwrap().to_string(),
            "nvidia0 sampled 2 times, 0 % to 100 %, by power cap, software thermal limit"
        );
        assert!(!is_throttled(0x1 | 0x2 | 0x10 | 0x100) && is_throttled(0x40));
    }
}
