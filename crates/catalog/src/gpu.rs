//! Events of GPUs: what their drivers report.

use cyclometer_core::gpu::{GpuAccess, GpuPart, GpuPlace, GpuQuantity};
use cyclometer_core::syntax::Term;
use cyclometer_core::{
    Candidate, Error, ErrorKind, LackReason, Machine, Part, Provenance, Recovery, Result, Rung, Scope,
};

use crate::suggest;

/// The device in the names of these events: `gpu/power/`.
pub(crate) const PMU: &str = "gpu";

/// An event of GPUs as it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct GpuEvent {
    pub(crate) quantity: GpuQuantity,
    /// The device; `None` for all.
    pub(crate) device: Option<String>,
}

/// The event of a name without slashes: `gpu-power`, in any case.
pub(crate) fn named(name: &str) -> Option<GpuEvent> {
    let prefix = name.get(..4).filter(|prefix| prefix.eq_ignore_ascii_case("gpu-"))?;
    let quantity = GpuQuantity::named(&name[prefix.len()..])?;
    Some(GpuEvent { quantity, device: None })
}

/// The event of the terms of `gpu/power,nvidia0/`.
///
/// # Errors
///
/// `ErrorKind::UnknownEvent` for another quantity, with the nearest; `ErrorKind::InvalidInput` for more terms
/// than a quantity and a device.
pub(crate) fn of_terms(terms: &[Term], text: &str) -> Result<GpuEvent> {
    let plain: Option<Vec<&str>> =
        terms.iter().map(|term| term.value.is_none().then_some(term.name.as_str())).collect();
    let (name, device) = match plain.as_deref() {
        Some([name]) => (*name, None),
        Some([name, device]) => (*name, Some((*device).to_owned())),
        _ => {
            let message = format!("{text}: between the slashes stand a quantity and, if need be, a device");
            let fix =
                Recovery::fix("write gpu/power/ or gpu/power,nvidia0/; `cyclometer doctor` names devices");
            return Err(Error::new(ErrorKind::InvalidInput, message).with_recovery(fix));
        }
    };
    match GpuQuantity::named(name) {
        Some(quantity) => Ok(GpuEvent { quantity, device }),
        None => {
            let names = suggest::nearest(name, GpuQuantity::ALL.into_iter().map(GpuQuantity::name));
            let recovery = match names.is_empty() {
                false => Recovery::OfferNearest { names },
                true => Recovery::fix(format!(
                    "quantities: {}",
                    GpuQuantity::ALL.map(GpuQuantity::name).join(", ")
                )),
            };
            let message = format!("GPUs have no quantity '{name}' (in {text})");
            Err(Error::new(ErrorKind::UnknownEvent, message).with_recovery(recovery))
        }
    }
}

impl GpuEvent {
    /// The candidate that reads it on this machine.
    ///
    /// # Errors
    ///
    /// Why the machine has no device that may report it.
    pub(crate) fn candidate(&self, machine: &Machine) -> std::result::Result<Candidate, LackReason> {
        let parts = self.parts(machine);
        if parts.is_empty() {
            return Err(self.missing(machine));
        }
        let by_nvml = parts.iter().any(|part| matches!(part.place, GpuPlace::Nvml(_)));
        let of_process = self.quantity == GpuQuantity::ProcessMemory;
        Ok(Candidate {
            rung: Rung::Gpu,
            provenance: if by_nvml { Provenance::Nvml } else { Provenance::Kernel },
            resolution: parts.iter().map(resolution).collect::<Vec<_>>().join(" + "),
            scale: self.quantity.scale(),
            modes: None,
            widest: (!of_process).then_some(Scope::Device),
            only: None,
            never_zero: false,
            uncertain: None,
            parts: parts.into_iter().map(Part::Gpu).collect(),
            summands: Vec::new(),
        })
    }

    /// One part for NVML with all its devices, and one for each device that is read by files.
    fn parts(&self, machine: &Machine) -> Vec<GpuPart> {
        let (quantity, gpus) = (self.quantity, &machine.gpus);
        let is_meant = |name: &str| self.device.as_deref().is_none_or(|device| device == name);
        let mut places = Vec::new();
        if gpus.may_have_nvml() && self.device.as_deref().is_none_or(|device| device.starts_with("nvidia")) {
            places.push(GpuPlace::Nvml(self.device.clone()));
        }
        for (device, files) in gpus.by_files().filter(|(device, _)| is_meant(&device.name)) {
            let own = |quantity| files.iter().find(|(held, _)| *held == quantity);
            // Without a counter of energy the power is added up.
            let power = || own(GpuQuantity::Power).filter(|_| quantity == GpuQuantity::Energy);
            let found = own(quantity).or_else(power);
            places.extend(found.map(|(holds, file)| GpuPlace::File {
                device: device.name.clone(),
                holds: *holds,
                file: file.clone(),
            }));
        }
        places.into_iter().map(|place| GpuPart { quantity, place }).collect()
    }

    /// The reason why no device of this machine reports it.
    fn missing(&self, machine: &Machine) -> LackReason {
        let gpus = &machine.gpus;
        let known = |name: &str| gpus.devices.iter().find(|device| device.name == name);
        let quantity = self.quantity.name();
        match self.device.as_deref() {
            Some(device) => match known(device).map(|device| &device.access) {
                Some(GpuAccess::Unsupported(reason)) => {
                    LackReason::GpuUnusable { device: device.to_owned(), reason: reason.clone() }
                }
                Some(_) => LackReason::GpuQuantity { device: Some(device.to_owned()), quantity },
                None => LackReason::NoGpu { device: device.to_owned() },
            },
            None if gpus.by_files().next().is_some() => LackReason::GpuQuantity { device: None, quantity },
            None => {
                let cause = machine.ladder.state(Rung::Gpu).and_then(|state| state.causes.first());
                cause.map_or(LackReason::NoGpus, |cause| LackReason::Gpus(cause.text.clone()))
            }
        }
    }
}

fn resolution(part: &GpuPart) -> String {
    match &part.place {
        GpuPlace::Nvml(device) => {
            format!("NVML {} of {}", function(part.quantity), device.as_deref().unwrap_or("all devices"))
        }
        GpuPlace::File { file, .. } => file.path.clone(),
    }
}

/// The function of NVML that reports a quantity.
fn function(quantity: GpuQuantity) -> &'static str {
    match quantity {
        GpuQuantity::Utilisation | GpuQuantity::MemoryUtilisation => "nvmlDeviceGetUtilizationRates",
        GpuQuantity::SmClock | GpuQuantity::MemoryClock => "nvmlDeviceGetClockInfo",
        GpuQuantity::Power => "nvmlDeviceGetPowerUsage",
        GpuQuantity::Energy => "nvmlDeviceGetTotalEnergyConsumption",
        GpuQuantity::MemoryUsed => "nvmlDeviceGetMemoryInfo",
        GpuQuantity::ProcessMemory => "nvmlDeviceGetComputeRunningProcesses",
        GpuQuantity::PcieReceive | GpuQuantity::PcieTransmit => "nvmlDeviceGetPcieThroughput",
        GpuQuantity::Temperature => "nvmlDeviceGetTemperature",
        _ => "nvmlDeviceGetCurrentClocksEventReasons",
    }
}

/// Remarks for readers of a value.
pub(crate) fn notes(quantity: GpuQuantity) -> Vec<String> {
    let note = match quantity {
        GpuQuantity::Utilisation => {
            "the share of the time in which any kernel executed, not the share of the GPU in use"
        }
        GpuQuantity::ProcessMemory => "of the processes that the driver lists; not supported in a container",
        _ => return Vec::new(),
    };
    vec![note.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve_list;
    use crate::testing::vm_without_pmu;
    use cyclometer_core::gpu::{GpuDevice, GpuFile, Gpus};
    use cyclometer_core::{Event, Unit};

    fn machine() -> Machine {
        let file = |path: &str| GpuFile { path: path.to_owned(), multiplier: 1, divisor: 1 };
        let files = vec![
            (GpuQuantity::Power, file("/amd0/power1_average")),
            (GpuQuantity::Utilisation, file("/amd0/gpu_busy_percent")),
        ];
        let device = |name: &str, access| GpuDevice { name: name.to_owned(), model: None, access };
        let devices = vec![
            device("amd0", GpuAccess::Files(files)),
            device("intel0", GpuAccess::Unsupported("Intel's GPUs are not supported".to_owned())),
        ];
        let gpus = Gpus { nvidia_driver: Some("550.1".to_owned()), nvidia_nodes: true, devices };
        Machine { gpus, ..vm_without_pmu() }
    }

    fn event(text: &str) -> Event {
        resolve_list(text, &machine(), true).unwrap().remove(0)
    }

    #[test]
    fn an_event_without_a_device_is_of_all_drivers_and_one_with_a_device_of_its_driver() {
        let resolved = |text: &str| event(text).candidates.first().map(|found| found.resolution.clone());
        let both = "NVML nvmlDeviceGetPowerUsage of all devices + /amd0/power1_average".to_owned();
        for text in ["gpu-power", "GPU-Power", "gpu/power/"] {
            assert_eq!(resolved(text), Some(both.clone()), "{text}");
        }
        assert_eq!(resolved("gpu/power,amd0/").as_deref(), Some("/amd0/power1_average"));
        let one = "NVML nvmlDeviceGetPowerUsage of nvidia1".to_owned();
        assert_eq!(resolved("gpu/power,nvidia1/"), Some(one));
        assert_eq!(event("gpu/power,amd0/").candidates[0].provenance, Provenance::Kernel);
        assert_eq!(event("gpu-power").candidates[0].provenance, Provenance::Nvml);
    }

    #[test]
    fn values_of_devices_are_wider_than_a_command_and_those_of_its_processes_are_not() {
        assert_eq!(event("gpu-utilization").candidates[0].widest, Some(Scope::Device));
        assert_eq!(event("gpu-process-memory").candidates[0].widest, None);
        assert_eq!(event("gpu-memory-used").unit, Unit::Bytes);
    }

    #[test]
    fn energy_without_a_counter_is_added_up_from_power() {
        assert_eq!(event("gpu/energy,amd0/").candidates[0].resolution, "/amd0/power1_average");
    }

    #[test]
    fn what_no_device_reports_has_the_reason() {
        let reason = |text: &str| {
            let event = event(text);
            assert_eq!(event.candidates, [], "{text}");
            event.unsupported.unwrap().to_string()
        };
        assert_eq!(reason("gpu/power,intel0/"), "intel0: Intel's GPUs are not supported");
        assert_eq!(reason("gpu/pcie-rx,amd0/"), "the driver of amd0 does not report pcie-rx");
        assert!(reason("gpu/power,amd7/").starts_with("there is no device amd7 here"));
        let none = resolve_list("gpu-power", &vm_without_pmu(), true).unwrap().remove(0);
        assert_eq!(none.unsupported.unwrap().to_string(), "there is no GPU of NVIDIA or AMD here");
    }

    #[test]
    fn a_wrong_event_is_refused_with_the_nearest_or_the_form() {
        let error = |text: &str| resolve_list(text, &machine(), true).unwrap_err();
        assert!(
            matches!(error("gpu/powr/").recovery(), Recovery::OfferNearest { names } if *names == ["power"])
        );
        assert_eq!(error("gpu/power=3/").kind(), ErrorKind::InvalidInput);
        assert_eq!(error("gpu/power,amd0,amd1/").kind(), ErrorKind::InvalidInput);
        assert_eq!(error("gpu-power:u").kind(), ErrorKind::InvalidInput, "a GPU has no modes");
    }
}
