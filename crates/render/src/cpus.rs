//! The CPUs of a machine for people and as JSON.

use cyclometer_toolkit::core::Machine;
use cyclometer_toolkit::core::pmu::KernelPmu;
use serde_json::{Value, json};

use crate::paint::{Paint, Style};
use crate::text::clean;
use crate::{WIDTH, machine, wrap};

/// Each core type with its counters, then the kernel's PMU devices.
pub fn render(machine: &Machine, paint: Paint) -> String {
    let mut out = String::new();
    for line in wrap(&machine::cpu_text(machine), WIDTH) {
        out += &(paint.paint(Style::Heading, &line) + "\n");
    }
    for core in &machine.core_types {
        out += &hanging("  ", &machine::core_type_text(core));
        out += &hanging("    counters: ", &machine::counters_text(core));
        out += &hanging("    kernel PMU: ", &core.kernel_pmu.as_deref().map_or("none".to_owned(), clean));
    }
    out += &(paint.paint(Style::Heading, "kernel PMU devices") + "\n");
    if machine.pmus.is_empty() {
        out += "  none\n";
    }
    for pmu in &machine.pmus {
        out += &hanging("  ", &pmu_text(pmu));
    }
    out
}

/// Text behind a lead, its further lines below its beginning.
fn hanging(lead: &str, text: &str) -> String {
    let mut out = String::new();
    for (i, line) in wrap(text, WIDTH - lead.len()).iter().enumerate() {
        let lead = if i == 0 { lead.to_owned() } else { " ".repeat(lead.len()) };
        out += &format!("{lead}{line}\n");
    }
    out
}

fn pmu_text(pmu: &KernelPmu) -> String {
    let cpus = match (&pmu.cpus, &pmu.cpumask) {
        (Some(cpus), _) => format!(", cpus {cpus}"),
        (None, Some(mask)) => format!(", opened on cpu {mask}"),
        (None, None) => String::new(),
    };
    let events = match pmu.events.len() {
        0 => String::new(),
        1 => ", 1 named event".to_owned(),
        n => format!(", {n} named events"),
    };
    let kind = if pmu.is_core() { ", core" } else { "" };
    format!("{}: type {}{kind}{cpus}{events}", clean(&pmu.name), pmu.pmu_type)
}

/// The same as JSON.
pub fn json(machine: &Machine) -> Value {
    let pmu = |pmu: &KernelPmu| {
        json!({
            "name": pmu.name,
            "type": pmu.pmu_type,
            "core": pmu.is_core(),
            "cpus": pmu.cpus.as_ref().map(|cpus| cpus.to_string()),
            "cpumask": pmu.cpumask.as_ref().map(|cpus| cpus.to_string()),
            "events": pmu.events.keys().collect::<Vec<_>>(),
            "rdpmc": pmu.rdpmc,
        })
    };
    json!({
        "schema_version": 1,
        "machine": machine::json(machine),
        "online": machine.online.to_string(),
        "core_types": machine.core_types.iter().map(machine::core_type_json).collect::<Vec<_>>(),
        "pmus": machine.pmus.iter().map(pmu).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, vm_without_pmu};

    #[test]
    fn core_types_and_devices_are_shown() {
        golden("cpus.txt", &render(&vm_without_pmu(), Paint::NONE));
    }
}
