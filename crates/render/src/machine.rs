//! A machine as JSON and in words.

use cyclometer_toolkit::core::Machine;
use cyclometer_toolkit::core::gpu::{GpuAccess, GpuDevice, Gpus};
use cyclometer_toolkit::core::machine::{AccessRights, CoreType};
use serde_json::{Value, json};

use crate::text::clean;

/// The machine as `stat`, `doctor` and `cpus` give it; nothing in it names a user or a host.
pub fn json(machine: &Machine) -> Value {
    let ids: Vec<&Option<String>> = machine.core_types.iter().map(|core| &core.cpu_id).collect();
    json!({
        "os": machine.os.to_string(),
        "kernel": machine.kernel_release,
        "architecture": machine.architecture.to_string(),
        "vendor": machine.cpu.vendor.to_string(),
        "cpu_name": machine.cpu.name,
        "cpu_id": machine.cpu.id.to_string(),
        "core_types": ids,
        "hypervisor": machine.hypervisor,
        "container": machine.container,
    })
}

/// One core type as JSON.
pub fn core_type_json(core: &CoreType) -> Value {
    let (general, fixed) = (core.pmu.counters.general_bits(), core.pmu.counters.fixed_bits());
    json!({
        "cpu_id": core.cpu_id,
        "microarchitecture": core.microarchitecture,
        "cpus": core.cpus.to_string(),
        "kernel_pmu": core.kernel_pmu,
        "pmu_version": core.pmu.version,
        "counters": general_counters(core),
        "fixed_counters": fixed.count_ones(),
        "counter_mask": format!("{general:#x}"),
        "fixed_counter_mask": format!("{fixed:#x}"),
        "counter_width_bits": core.pmu.counter_width_bits,
        "source": core.pmu.source,
    })
}

/// The capability record as JSON.
pub fn capabilities_json(machine: &Machine) -> Value {
    let capabilities = &machine.capabilities;
    let is_unknown = machine.core_types.first().is_none_or(|core| general_counters(core).is_none());
    json!({
        "architecture": capabilities.architecture,
        "counter_count": (!is_unknown).then_some(capabilities.counter_count),
        "fixed_counters": capabilities.fixed_counters,
        "counter_width_bits": capabilities.counter_width_bits,
        "user_mode_access": capabilities.user_mode_access,
        "needs_kernel_patch": capabilities.needs_kernel_patch,
    })
}

/// The access rights of this process, as JSON.
pub fn access_json(access: &AccessRights) -> Value {
    json!({
        "root": access.root,
        "perf_event_paranoid": access.perf_event_paranoid,
        "perf_user_access": access.perf_user_access,
        "nmi_watchdog": access.nmi_watchdog,
        "capabilities": access.capabilities,
        "seccomp": access.seccomp,
        "ptrace_scope": access.ptrace_scope,
    })
}

/// The CPU in a line: name, ids; of a CPU without a name, those of its cores.
pub fn cpu_text(machine: &Machine) -> String {
    let (vendor, id) = (clean(&machine.cpu.vendor.to_string()), &machine.cpu.id);
    let mut cores: Vec<String> =
        machine.core_types.iter().filter_map(|core| core.microarchitecture.as_deref().map(clean)).collect();
    cores.dedup();
    match &machine.cpu.name {
        Some(name) => format!("{} ({vendor}, {id})", clean(name)),
        None if cores.is_empty() => format!("unknown CPU ({vendor}, {id})"),
        None => format!("{vendor} {} ({id})", cores.join(" and ")),
    }
}

/// A GPU in a line: its name in events, the model, and how it is read.
pub fn gpu_text(device: &GpuDevice, of: &Gpus) -> String {
    let model = device.model.as_deref().map(|model| format!(" ({})", clean(model))).unwrap_or_default();
    let access = match (&device.access, &of.nvidia_driver) {
        (GpuAccess::Nvml, Some(driver)) => format!("NVML, driver {}", clean(driver)),
        (GpuAccess::Nvml, None) => "NVML".to_owned(),
        (GpuAccess::Files(_), _) => "files of amdgpu".to_owned(),
        (GpuAccess::Unsupported(_), _) => "not read".to_owned(),
    };
    format!("{}{model}: {access}", clean(&device.name))
}

/// A GPU as JSON.
pub fn gpu_json(device: &GpuDevice) -> Value {
    let (access, reason) = match &device.access {
        GpuAccess::Nvml => ("nvml", None),
        GpuAccess::Files(_) => ("files", None),
        GpuAccess::Unsupported(reason) => ("none", Some(reason)),
    };
    json!({ "name": device.name, "model": device.model, "access": access, "reason": reason })
}

/// The system in a line: operating system, architecture, hypervisor and container.
pub fn system_text(machine: &Machine) -> String {
    let kernel = machine.kernel_release.as_deref().unwrap_or("");
    let mut text = format!("{} {}", machine.os, clean(kernel)).trim_end().to_owned();
    let cpus = if machine.online.len() == 1 { "CPU" } else { "CPUs" };
    text += &format!(", {}, {} {cpus} online", machine.architecture, machine.online.len());
    if let Some(hypervisor) = &machine.hypervisor {
        text += &format!(", virtual machine ({})", clean(hypervisor));
    }
    if let Some(container) = &machine.container {
        text += &format!(", container ({})", clean(container));
    }
    text
}

/// One core type in a line: ids and CPUs.
pub fn core_type_text(core: &CoreType) -> String {
    let name = core.microarchitecture.as_deref().unwrap_or("unknown microarchitecture");
    let id = core.cpu_id.as_deref().map(|id| format!(" ({})", clean(id))).unwrap_or_default();
    let cpus = if core.cpus.is_empty() { String::new() } else { format!(", cpus {}", core.cpus) };
    format!("{}{id}{cpus}", clean(name))
}

/// The counters of one core type in a line.
pub fn counters_text(core: &CoreType) -> String {
    let counters = core.pmu.counters;
    if counters.is_empty() && core.kernel_pmu.is_none() {
        return "none are visible".to_owned();
    }
    let general = general_counters(core)
        .map_or("unknown number of general counters".to_owned(), |n| format!("{n} general"));
    let fixed = match (counters.is_empty(), counters.fixed_bits().count_ones()) {
        (true, _) => String::new(),
        (false, n) => format!(", {n} fixed"),
    };
    let width = core.pmu.counter_width_bits.map(|bits| format!(", {bits} bits wide")).unwrap_or_default();
    let source = clean(&core.pmu.source);
    let source = if source.is_empty() { source } else { format!(" ({source})") };
    format!("{general}{fixed}{width}{source}")
}

/// The number of general counters; `None` when it is unknown, as where the kernel drives a PMU of which we
/// see none.
fn general_counters(core: &CoreType) -> Option<u32> {
    match core.pmu.counters.general_bits().count_ones() {
        0 if core.kernel_pmu.is_some() => None,
        n => Some(n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::vm_without_pmu;
    use cyclometer_toolkit::core::CounterMask;
    use cyclometer_toolkit::core::machine::{CpuId, Vendor};

    #[test]
    fn an_unknown_number_of_counters_is_not_zero() {
        let mut machine = vm_without_pmu();
        let core = &mut machine.core_types[0];
        assert_eq!(counters_text(core), "none are visible");
        assert_eq!(core_type_json(core)["counters"], 0);
        core.kernel_pmu = Some("armv8_pmuv3_0".into());
        core.pmu.counters = CounterMask::first(0, 1);
        core.pmu.source = "PMUv3".into();
        assert_eq!(counters_text(core), "unknown number of general counters, 1 fixed (PMUv3)");
        assert_eq!(core_type_json(core)["counters"], Value::Null);
        assert_eq!(capabilities_json(&machine)["counter_count"], Value::Null);
    }

    #[test]
    fn a_cpu_without_a_name_goes_by_those_of_its_cores() {
        let mut machine = vm_without_pmu();
        (machine.cpu.name, machine.cpu.vendor) = (None, Vendor::Arm);
        machine.cpu.id = CpuId::Arm { midr: 0x410f_d083 };
        machine.core_types[0].microarchitecture = Some("Cortex-A72".into());
        assert_eq!(cpu_text(&machine), "Arm Cortex-A72 (MIDR 0x410fd083)");
        machine.core_types[0].microarchitecture = None;
        assert_eq!(cpu_text(&machine), "unknown CPU (Arm, MIDR 0x410fd083)");
    }
}
