//! The scenario file: which devices there are, what they report, and what fails.
//!
//! A line is a word and its arguments; `#` begins a comment.
//!
//! | line | meaning |
//! |---|---|
//! | `driver 550.54.15` | the version of the driver |
//! | `device NVIDIA H100` | a device of this model; lines about it follow |
//! | `instance 1 MIG 1g.10gb` | a MIG instance of the last device, at this index; lines about it follow |
//! | `power 250000 +50000` | the value of a quantity, in NVML's unit, and its step at each read |
//! | `process sleep 512` | each process of this name has 512 MiB on it |
//! | `fail nvmlInit_v2 1 18` | the first call of a function returns this code; `always`: each call |
//! | `fail nvmlDeviceGetPowerUsage@1 always 3` | calls about the device of this index alone |
//! | `hang nvmlDeviceGetPowerUsage 3` | the third call never returns |
//!
//! Quantities are `utilisation`, `memory-utilisation`, `sm-clock`, `memory-clock`, `power`, `energy`,
//! `memory-used`, `pcie-rx`, `pcie-tx`, `temperature`, `reasons`. A device does not
//! support those that it has no line for.

use std::collections::BTreeMap;

use cyclometer_fake_library::{ScenarioError, nth_call};

/// A driver with its devices.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scenario {
    /// The version of the driver.
    pub driver: String,
    /// Devices and MIG instances, in the order of the file.
    pub devices: Vec<FakeDevice>,
    /// Calls that fail.
    pub faults: Vec<Fault>,
}

/// A device or an instance.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FakeDevice {
    /// The model.
    pub model: String,
    /// For an instance: its device, as an index of [`Scenario::devices`], and its index there.
    pub instance_of: Option<(usize, u32)>,
    /// The value of each quantity, and its step.
    pub quantities: BTreeMap<String, (u64, u64)>,
    /// Names of processes, each with its memory in MiB.
    pub processes: Vec<(String, u64)>,
}

/// A call that fails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The function.
    pub call: String,
    /// The device of NVML's index that it concerns; `None`: all.
    pub device: Option<usize>,
    /// The number of the call, from 1 on; `None`: each call.
    pub nth: Option<u64>,
    /// Its effect.
    pub effect: FaultEffect,
}

/// The effect of a call that fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultEffect {
    /// It returns this code.
    Code(i32),
    /// It never returns.
    Hang,
}

/// The quantities that a line may set.
const QUANTITIES: [&str; 11] = [
    "utilisation",
    "memory-utilisation",
    "sm-clock",
    "memory-clock",
    "power",
    "energy",
    "memory-used",
    "pcie-rx",
    "pcie-tx",
    "temperature",
    "reasons",
];

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    ///
    /// The first line that is none.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        cyclometer_fake_library::read(text, Scenario::add)
    }

    fn add(&mut self, words: &[&str]) -> Option<()> {
        match words {
            ["driver", version] => self.driver = (*version).to_owned(),
            ["device", model @ ..] => {
                self.devices.push(FakeDevice { model: model.join(" "), ..FakeDevice::default() });
            }
            ["instance", index, model @ ..] => {
                let parent = self.devices.iter().rposition(|device| device.instance_of.is_none())?;
                let instance_of = Some((parent, index.parse().ok()?));
                self.devices.push(FakeDevice {
                    model: model.join(" "),
                    instance_of,
                    ..FakeDevice::default()
                });
            }
            ["process", name, mib] => {
                let process = ((*name).to_owned(), mib.parse().ok()?);
                self.devices.last_mut()?.processes.push(process);
            }
            ["fail", call, nth, code] => self.add_fault(call, nth, FaultEffect::Code(code.parse().ok()?))?,
            ["hang", call, nth] => self.add_fault(call, nth, FaultEffect::Hang)?,
            [quantity, value] => self.add_quantity(quantity, value, "+0")?,
            [quantity, value, step] => self.add_quantity(quantity, value, step)?,
            _ => return None,
        }
        Some(())
    }

    fn add_quantity(&mut self, quantity: &str, value: &str, step: &str) -> Option<()> {
        let known = QUANTITIES.contains(&quantity).then(|| quantity.to_owned())?;
        let values = (value.parse().ok()?, step.strip_prefix('+')?.parse().ok()?);
        self.devices.last_mut()?.quantities.insert(known, values);
        Some(())
    }

    fn add_fault(&mut self, call: &str, nth: &str, effect: FaultEffect) -> Option<()> {
        let nth = nth_call(nth)?;
        let (call, device) = match call.split_once('@') {
            Some((call, device)) => (call, Some(device.parse().ok()?)),
            None => (call, None),
        };
        self.faults.push(Fault { call: call.to_owned(), device, nth, effect });
        Some(())
    }

    /// The devices that are no instances, by their indices in [`Scenario::devices`].
    pub fn whole_devices(&self) -> impl Iterator<Item = usize> {
        (0..self.devices.len()).filter(|index| self.devices[*index].instance_of.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_read_line_by_line() {
        let text = "driver 550.1 # yes\ndevice NVIDIA A100\npower 1000 +5\ninstance 1 MIG 1g\nmemory-used 7\n\
                    process sleep 5\ndevice NVIDIA T4\nfail nvmlInit_v2 1 18\nhang nvmlDeviceGetName@1 always\n";
        let scenario = Scenario::parse(text).unwrap();
        assert_eq!(scenario.whole_devices().collect::<Vec<_>>(), [0, 2]);
        assert_eq!(scenario.devices[1].instance_of, Some((0, 1)));
        assert_eq!(scenario.devices[0].quantities["power"], (1000, 5));
        assert_eq!(scenario.devices[1].processes, [("sleep".to_owned(), 5)]);
        assert_eq!((scenario.faults[0].nth, scenario.faults[0].effect), (Some(1), FaultEffect::Code(18)));
        assert_eq!((scenario.faults[1].device, scenario.faults[1].effect), (Some(1), FaultEffect::Hang));
    }

    #[test]
    fn a_line_that_is_none_is_named_with_its_number() {
        for line in ["power 5", "device X\nfan 5", "fail nvmlInit_v2 1 EPERM", "instance 0 MIG", "fly"] {
            let number = line.lines().count();
            let last = line.lines().last().unwrap();
            let error = Scenario::parse(line).unwrap_err();
            assert_eq!(error.to_string(), format!("line {number} is none of a scenario: {last}"));
        }
    }
}
