//! The ladder for people and as JSON by `schemas/doctor-1.json`.

use cyclometer::core::Machine;
use cyclometer::core::ladder::{RungState, Works};
use cyclometer::core::machine::Access;
use serde_json::{Value, json};

use crate::output::clean;
use crate::render::paint::{Paint, Style};
use crate::render::{WIDTH, machine, wrap};

/// Version of the schema.
pub const SCHEMA_VERSION: u32 = 1;

/// Columns before the text of a line.
const INDENT: usize = 12;

/// The machine in a few lines, then each rung with cause and cure.
pub fn render(machine: &Machine, paint: Paint) -> String {
    let mut out = String::new();
    out += &entry("cpu", &machine::cpu_text(machine), paint);
    for core in &machine.core_types {
        out += &entry("cores", &machine::core_type_text(core), paint);
        out += &entry("counters", &machine::counters_text(core), paint);
    }
    out += &entry("system", &machine::system_text(machine), paint);
    out += &entry("rights", &rights_text(&machine.access), paint);
    out += "\n";
    for state in &machine.ladder.rungs {
        out += &rung(state, paint);
    }
    out += "\n";
    for (name, state) in classes(machine) {
        let text = match state {
            Ok(()) => "yes".to_owned(),
            Err(reason) => format!("no: {}", clean(reason)),
        };
        out += &paragraph(&format!("perf can count {name}? {text}"), 0, Style::Plain, paint);
    }
    out
}

fn classes(machine: &Machine) -> [(&'static str, &Result<(), String>); 4] {
    let ladder = &machine.ladder;
    [
        ("hardware events", &ladder.perf_hardware),
        ("software events", &ladder.perf_software),
        ("in kernel mode", &ladder.perf_kernel_mode),
        ("whole CPUs", &ladder.perf_cpu_wide),
    ]
}

fn entry(name: &str, text: &str, paint: Paint) -> String {
    let mut lines = wrap(text, WIDTH - INDENT).into_iter();
    let first = lines.next().unwrap_or_default();
    let name = paint.paint(Style::Heading, name) + &" ".repeat(INDENT.saturating_sub(name.len()));
    let rest: String = lines.map(|line| format!("{:INDENT$}{line}\n", "")).collect();
    format!("{name}{first}\n{rest}")
}

fn paragraph(text: &str, indent: usize, style: Style, paint: Paint) -> String {
    let lines = wrap(text, WIDTH - indent);
    lines.iter().map(|line| format!("{:indent$}{}\n", "", paint.paint(style, line))).collect()
}

fn rights_text(access: &Access) -> String {
    let mut parts = vec![if access.root { "root" } else { "not root" }.to_owned()];
    let number = |name: &str, value: Option<i32>| value.map(|value| format!("{name} {value}"));
    parts.extend(number("perf_event_paranoid", access.perf_event_paranoid));
    parts.extend(number("perf_user_access", access.perf_user_access));
    parts.extend(number("ptrace_scope", access.ptrace_scope));
    parts.extend(access.nmi_watchdog.map(|on| format!("nmi_watchdog {}", if on { "on" } else { "off" })));
    if access.seccomp.is_some_and(|mode| mode > 0) {
        parts.push("seccomp filter".to_owned());
    }
    parts.extend(access.capabilities.iter().map(|name| clean(name)));
    parts.join(", ")
}

fn rung(state: &RungState, paint: Paint) -> String {
    let style = match state.works {
        Works::Yes => Style::Good,
        Works::Partly => Style::Caution,
        Works::No => Style::Bad,
        _ => Style::Dim,
    };
    let word = state.works.word();
    let name = format!("{:INDENT$}", state.rung.word());
    let pad = " ".repeat(20usize.saturating_sub(word.len()));
    let mut out = format!(
        "{}{}{pad}{}\n",
        paint.paint(Style::Heading, &name),
        paint.paint(style, word),
        state.rung.title()
    );
    for cause in state.causes.iter().filter(|_| is_of_interest(state.works)) {
        out += &paragraph(&clean(&cause.text), INDENT, Style::Plain, paint);
        if let Some(mend) = &cause.mend {
            out += &format!("{:INDENT$}mend: {}\n", "", paint.paint(Style::Good, &clean(mend)));
        }
    }
    out
}

/// Why a rung of another system does not work is no news.
fn is_of_interest(works: Works) -> bool {
    !matches!(works, Works::NotHere | Works::NotBuilt)
}

/// The diagnosis as JSON.
pub fn json(machine: &Machine) -> Value {
    let [hardware, software, kernel_mode, cpu_wide] = classes(machine).map(|(_, state)| offer(state));
    json!({
        "schema_version": SCHEMA_VERSION,
        "machine": machine::json(machine),
        "core_types": machine.core_types.iter().map(machine::core_type_json).collect::<Vec<_>>(),
        "capabilities": machine::capabilities_json(machine),
        "access": machine::access_json(&machine.access),
        "perf": {
            "hardware": hardware,
            "software": software,
            "kernel_mode": kernel_mode,
            "cpu_wide": cpu_wide,
        },
        "ladder": machine.ladder.rungs.iter().map(rung_json).collect::<Vec<_>>(),
    })
}

fn offer(state: &Result<(), String>) -> Value {
    json!({ "available": state.is_ok(), "reason": state.as_ref().err() })
}

fn rung_json(state: &RungState) -> Value {
    let causes = state
        .causes
        .iter()
        .map(|cause| json!({ "kind": cause.kind.word(), "text": cause.text, "mend": cause.mend }));
    json!({
        "rung": state.rung.word(),
        "title": state.rung.title(),
        "works": works_word(state.works),
        "causes": causes.collect::<Vec<_>>(),
    })
}

fn works_word(works: Works) -> &'static str {
    match works {
        Works::Yes => "yes",
        Works::Partly => "partly",
        Works::No => "no",
        Works::NotHere => "not_here",
        Works::NotBuilt => "not_built",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::testing::{golden, vm_without_pmu};

    #[test]
    fn each_rung_has_its_cause_and_its_cure() {
        golden("doctor.txt", &render(&vm_without_pmu(), Paint::NONE));
    }

    #[test]
    fn the_diagnosis_obeys_its_schema() {
        let text =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/doctor-1.json"));
        let schema = jsonschema::validator_for(&serde_json::from_str(&text.unwrap()).unwrap()).unwrap();
        let mut value = json(&vm_without_pmu());
        assert!(schema.is_valid(&value), "{:?}", schema.validate(&value));
        value["ladder"][0]["works"] = json!("perhaps");
        assert!(!schema.is_valid(&value));
    }
}
