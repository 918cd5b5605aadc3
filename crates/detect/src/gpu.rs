//! The GPUs of a machine, found without waking their drivers.

use cyclometer_core::gpu::{GpuAccess, GpuDevice, GpuFile, GpuQuantity, Gpus};
use cyclometer_core::machine::Os;

use crate::facts::{FactSource, NvmlFacts};
use crate::{DetectionDepth, text};

/// Where the kernel lists graphics devices.
const CARDS: &str = "/sys/class/drm";

/// Where the kernel lists PCI devices.
const PCI: &str = "/sys/bus/pci/devices";

/// NVIDIA's kernel driver, and the devices that drivers' files describe.
///
/// # Source
///
/// NVIDIA driver README, "The /proc Filesystem Interface"; Linux `Documentation/gpu/amdgpu/thermal.rst`,
/// `Documentation/gpu/amdgpu/driver-misc.rst`.
pub(crate) fn detect(facts: &dyn FactSource, depth: DetectionDepth) -> Gpus {
    match facts.os() {
        Os::Linux => {}
        Os::MacOs => return Gpus { devices: vec![unsupported("apple0", None, APPLE)], ..Gpus::default() },
        _ => return Gpus::default(),
    }
    let version = facts.read("/proc/driver/nvidia/version");
    let nvidia_driver = version.as_deref().map(|text| driver_version(text).unwrap_or_default());
    let nodes = facts.list("/dev");
    let nvidia_nodes = nodes.iter().any(|name| name == "nvidiactl" || name == "dxg");
    let mut gpus = Gpus { nvidia_driver, nvidia_nodes, devices: cards(facts) };
    if depth.tries_all() && !gpus.may_have_nvml() {
        gpus.devices.extend(without_driver(facts, &gpus.devices));
    }
    gpus
}

/// The devices that NVML lists come before those of other drivers.
pub(crate) fn with_nvml(gpus: &mut Gpus, found: &NvmlFacts) {
    let device = |(name, model): &(String, String)| GpuDevice {
        name: text::clean(name),
        model: Some(text::clean(model)).filter(|model| !model.is_empty()),
        access: GpuAccess::Nvml,
    };
    let nvml: Vec<GpuDevice> = found.devices.iter().map(device).collect();
    gpus.devices.splice(0..0, nvml);
    gpus.nvidia_driver.get_or_insert_with(String::new).clone_from(&text::clean(&found.driver));
}

const APPLE: &str = "Apple's GPUs are not supported";

fn unsupported(name: &str, model: Option<String>, reason: &str) -> GpuDevice {
    GpuDevice { name: name.to_owned(), model, access: GpuAccess::Unsupported(reason.to_owned()) }
}

/// The version in the text of NVIDIA's driver: the first word of digits with points in it.
fn driver_version(text: &str) -> Option<String> {
    let is_version = |word: &&str| {
        word.contains('.')
            && word.starts_with(|c: char| c.is_ascii_digit())
            && word.chars().all(|c| c.is_ascii_digit() || c == '.')
    };
    text.lines().next()?.split_whitespace().find(is_version).map(str::to_owned)
}

/// How many devices of each vendor have a name.
#[derive(Default)]
struct DeviceNumbers {
    amd: u32,
    intel: u32,
    apple: u32,
    nvidia: u32,
}

/// The next name of a vendor's device.
fn next_name(vendor: &str, number: &mut u32) -> String {
    let name = format!("{vendor}{number}");
    *number += 1;
    name
}

/// The devices with a graphics driver other than NVIDIA's own.
fn cards(facts: &dyn FactSource) -> Vec<GpuDevice> {
    let number = |name: &String| name.strip_prefix("card")?.parse::<u32>().ok();
    let mut cards: Vec<u32> = facts.list(CARDS).iter().filter_map(number).collect();
    cards.sort_unstable();
    let mut numbers = DeviceNumbers::default();
    cards.into_iter().filter_map(|card| device(facts, card, &mut numbers)).collect()
}

fn device(facts: &dyn FactSource, card: u32, numbers: &mut DeviceNumbers) -> Option<GpuDevice> {
    let folder = format!("{CARDS}/card{card}/device");
    // This file is the kernel's own: reading it wakes no device.
    let events = facts.read(&format!("{folder}/uevent"))?;
    let value = |key: &str| events.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let model = value("PCI_ID").map(|id| format!("PCI {}", text::clean(&id.to_ascii_lowercase())));
    Some(match value("DRIVER")? {
        "amdgpu" => GpuDevice {
            name: next_name("amd", &mut numbers.amd),
            model,
            access: GpuAccess::Files(files(facts, &folder)),
        },
        "radeon" => {
            let reason = "its driver radeon reports too little; amdgpu does it for newer devices";
            unsupported(&next_name("amd", &mut numbers.amd), model, reason)
        }
        "i915" | "xe" => {
            let reason = "Intel's GPUs are not supported";
            unsupported(&next_name("intel", &mut numbers.intel), model, reason)
        }
        "asahi" => unsupported(&next_name("apple", &mut numbers.apple), model, APPLE),
        "nouveau" => {
            let reason = "its driver nouveau has no NVML; NVIDIA's own driver has it";
            unsupported(&next_name("nvidia", &mut numbers.nvidia), model, reason)
        }
        _ => return None,
    })
}

/// The files of a device by quantity, those that exist.
fn files(facts: &dyn FactSource, folder: &str) -> Vec<(GpuQuantity, GpuFile)> {
    use GpuQuantity::{
        Energy, MemoryClock, MemoryUsed, MemoryUtilisation, Power, SmClock, Temperature, Utilisation,
    };
    let of_device = facts.list(folder);
    let monitors = facts.list(&format!("{folder}/hwmon"));
    let monitor = monitors.iter().find(|name| name.starts_with("hwmon"));
    let monitor = monitor.map(|name| format!("{folder}/hwmon/{name}")).unwrap_or_default();
    let of_monitor = if monitor.is_empty() { Vec::new() } else { facts.list(&monitor) };
    let file = |quantity, name: &str, multiplier, divisor| {
        let (folder, names) = if of_device.iter().any(|there| there == name) {
            (folder, &of_device)
        } else {
            (&*monitor, &of_monitor)
        };
        let is_there = names.iter().any(|there| there == name);
        is_there.then(|| (quantity, GpuFile { path: format!("{folder}/{name}"), multiplier, divisor }))
    };
    let found = [
        file(Utilisation, "gpu_busy_percent", 1000, 1),
        file(MemoryUtilisation, "mem_busy_percent", 1000, 1),
        file(MemoryUsed, "mem_info_vram_used", 1, 1024),
        file(SmClock, "freq1_input", 1, 1000),
        file(MemoryClock, "freq2_input", 1, 1000),
        // The mean of a short time where there is one, else the value of a moment.
        file(Power, "power1_average", 1, 1000).or_else(|| file(Power, "power1_input", 1, 1000)),
        file(Energy, "energy1_input", 1, 1000),
        file(Temperature, "temp1_input", 1, 1),
    ];
    found.into_iter().flatten().collect()
}

/// NVIDIA's display controllers on the PCI bus that no driver drives, for a diagnosis.
///
/// # Source
///
/// PCI Code and ID Assignment Specification: class 3 is that of display controllers, vendor 0x10de NVIDIA.
fn without_driver(facts: &dyn FactSource, known: &[GpuDevice]) -> Vec<GpuDevice> {
    if known.iter().any(|device| device.name.starts_with("nvidia")) {
        return Vec::new();
    }
    let is_nvidia = |name: &&String| {
        let read = |file: &str| facts.read(&format!("{PCI}/{name}/{file}")).unwrap_or_default();
        read("vendor").trim() == "0x10de" && read("class").trim().starts_with("0x03")
    };
    let reason = "the kernel driver nvidia is not loaded";
    let devices = facts.list(PCI);
    let found = devices.iter().filter(is_nvidia).enumerate();
    found.map(|(number, _)| unsupported(&format!("nvidia{number}"), None, reason)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordedFacts;

    fn gpus(text: &str) -> Gpus {
        let facts = RecordedFacts::parse(&format!("note synthetic: x\nos linux\n{text}")).unwrap();
        detect(&facts, DetectionDepth::Everything)
    }

    const AMD: &str = "list /sys/class/drm card0 card0-DP-1 card1 card10 renderD128\n\
        file /sys/class/drm/card0/device/uevent\n| DRIVER=i915\n| PCI_ID=8086:9A49\n\
        file /sys/class/drm/card1/device/uevent\n| DRIVER=amdgpu\n| PCI_ID=1002:744C\n\
        file /sys/class/drm/card10/device/uevent\n| DRIVER=amdgpu\n| PCI_ID=1002:740F\n\
        list /sys/class/drm/card1/device gpu_busy_percent mem_info_vram_used hwmon\n\
        list /sys/class/drm/card1/device/hwmon hwmon3\n\
        list /sys/class/drm/card1/device/hwmon/hwmon3 freq1_input power1_input temp1_input name\n\
        list /sys/class/drm/card10/device mem_busy_percent\n";

    #[test]
    fn devices_of_amd_are_named_in_order_with_the_files_that_they_have() {
        let gpus = gpus(AMD);
        let names: Vec<&str> = gpus.devices.iter().map(|device| device.name.as_str()).collect();
        assert_eq!(names, ["intel0", "amd0", "amd1"]);
        let files: Vec<_> = gpus.by_files().collect();
        let of_first: Vec<(&str, &str)> =
            files[0].1.iter().map(|(quantity, file)| (quantity.name(), file.path.as_str())).collect();
        let device = "/sys/class/drm/card1/device";
        let expected = [
            ("utilisation", format!("{device}/gpu_busy_percent")),
            ("memory-used", format!("{device}/mem_info_vram_used")),
            ("sm-clock", format!("{device}/hwmon/hwmon3/freq1_input")),
            ("power", format!("{device}/hwmon/hwmon3/power1_input")),
            ("temperature", format!("{device}/hwmon/hwmon3/temp1_input")),
        ];
        assert_eq!(of_first, expected.each_ref().map(|(name, path)| (*name, path.as_str())));
        assert_eq!(files[0].0.model.as_deref(), Some("PCI 1002:744c"));
        assert_eq!(files[1].1.len(), 1);
    }

    #[test]
    fn the_mean_power_goes_before_that_of_a_moment() {
        let gpus = gpus(&AMD.replace("power1_input", "power1_average power1_input"));
        let (_, files) = gpus.by_files().next().unwrap();
        let power = files.iter().find(|(quantity, _)| *quantity == GpuQuantity::Power).unwrap();
        assert!(power.1.path.ends_with("power1_average"), "{power:?}");
    }

    #[test]
    fn the_versions_of_both_kernel_modules_of_nvidia_are_read() {
        for text in [
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.104.05  Release Build  (a@b)",
        ] {
            let gpus =
                gpus(&format!("file /proc/driver/nvidia/version {text}\nlist /dev nvidia0 nvidiactl\n"));
            assert_eq!((gpus.nvidia_driver.as_deref(), gpus.nvidia_nodes), (Some("535.104.05"), true));
        }
    }

    #[test]
    fn a_device_of_nvidia_without_its_driver_is_named_by_a_diagnosis() {
        let pci = "list /sys/bus/pci/devices 0000:00:1f.3 0000:01:00.0\n\
            file /sys/bus/pci/devices/0000:00:1f.3/vendor 0x10de\n\
            file /sys/bus/pci/devices/0000:00:1f.3/class 0x040300\n\
            file /sys/bus/pci/devices/0000:01:00.0/vendor 0x10de\n\
            file /sys/bus/pci/devices/0000:01:00.0/class 0x030200\n";
        let found = gpus(pci);
        assert_eq!(found.devices.len(), 1, "{found:?}");
        assert!(
            matches!(&found.devices[0].access, GpuAccess::Unsupported(reason) if reason.contains("not loaded"))
        );
        let facts = RecordedFacts::parse(&format!("note synthetic: x\nos linux\n{pci}")).unwrap();
        assert_eq!(detect(&facts, DetectionDepth::WhatCounts).devices, [], "a measurement does not look");
    }

    #[test]
    fn cards_without_a_driver_that_is_known_are_left_out() {
        let found =
            gpus("list /sys/class/drm card0\nfile /sys/class/drm/card0/device/uevent DRIVER=virtio-pci\n");
        assert_eq!(found, Gpus::default());
    }
}
