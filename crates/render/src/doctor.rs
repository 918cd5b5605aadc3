//! The ladder for people and as JSON by `schemas/doctor-1.json`.

use cyclometer_toolkit::core::Machine;
use cyclometer_toolkit::core::ladder::{Cause, RungState, Works};
use cyclometer_toolkit::core::machine::AccessRights;
use cyclometer_toolkit::{LeftRegisters, LeftState, Restoration, Restored};
use serde_json::{Value, json};

use crate::paint::{Paint, Style};
use crate::text::clean;
use crate::{WIDTH, machine, wrap};

/// Version of the schema.
pub const SCHEMA_VERSION: u32 = 1;

/// Columns before the text of a line.
const INDENT: usize = 12;

/// The machine in a few lines, then each source with causes and remedies, and counter registers that were not
/// restored.
pub fn render(machine: &Machine, left: &[LeftRegisters], paint: Paint) -> String {
    let mut out = String::new();
    out += &entry("cpu", &machine::cpu_text(machine), paint);
    for core in &machine.core_types {
        out += &entry("cores", &machine::core_type_text(core), paint);
        out += &entry("counters", &machine::counters_text(core), paint);
    }
    for device in &machine.gpus.devices {
        out += &entry("gpu", &machine::gpu_text(device, &machine.gpus), paint);
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
            Err(cause) => format!("no: {}", clean(&cause.text)),
        };
        out += &paragraph(&format!("perf can count {name}? {text}"), 0, Style::Plain, paint);
    }
    if !left.is_empty() {
        out += "\n";
        out += &left_text(left, paint);
    }
    out
}

fn left_text(left: &[LeftRegisters], paint: Paint) -> String {
    let style = |left: &LeftRegisters| if can_restore(left) { Style::Bad } else { Style::Plain };
    let each = left.iter().map(|left| paragraph(&clean(&left.to_string()), 0, style(left), paint));
    let fix = left.iter().any(can_restore).then(|| fix_text("sudo cyclometer doctor --restore", paint));
    each.chain(fix).collect()
}

/// The line of a remedy; more lines where it is long, each below the beginning of the remedy.
fn fix_text(fix: &str, paint: Paint) -> String {
    let head = "fix: ";
    let indent = INDENT + head.len();
    let below = paragraph(fix, indent, Style::Good, paint);
    format!("{:INDENT$}{head}{}", "", below.trim_start_matches(' '))
}

/// Whether restoring by hand helps.
fn can_restore(left: &LeftRegisters) -> bool {
    matches!(left.state, LeftState::Left | LeftState::Reset)
}

/// A text for each restoration of counter registers; the command also reports the first failure as its
/// error.
pub fn restored(all: &[Restoration]) -> String {
    if all.is_empty() {
        return "no counter registers are left to be restored\n".to_owned();
    }
    all.iter().map(restored_line).collect()
}

fn restored_line(restoration: &Restoration) -> String {
    let cpu = restoration.registers.cpu.map_or_else(String::new, |cpu| format!(" of CPU {cpu}"));
    let text = match &restoration.outcome {
        Ok(Restored::Restored) => format!("counter registers{cpu}: restored"),
        Ok(Restored::Forgotten) => {
            format!("counter registers{cpu}: a boot has reset them, nothing to restore")
        }
        Ok(_) => clean(&restoration.registers.to_string()) + "; left alone",
        Err(error) => format!("counter registers{cpu}: not restored: {}", clean(&error.to_string())),
    };
    wrap(&text, WIDTH).join("\n") + "\n"
}

fn classes(machine: &Machine) -> [(&'static str, &Result<(), Cause>); 4] {
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

fn rights_text(access: &AccessRights) -> String {
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
        if let Some(fix) = &cause.mend {
            out += &fix_text(&clean(fix), paint);
        }
    }
    out
}

/// Sources of other systems are not of interest.
fn is_of_interest(works: Works) -> bool {
    !matches!(works, Works::NotHere | Works::NotBuilt)
}

/// The diagnosis as JSON.
pub fn json(machine: &Machine, left: &[LeftRegisters]) -> Value {
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
        "gpus": machine.gpus.devices.iter().map(machine::gpu_json).collect::<Vec<_>>(),
        "ladder": ladder_json(machine),
        "left_registers": left.iter().map(left_json).collect::<Vec<_>>(),
    })
}

/// The sources, best first.
pub fn ladder_json(machine: &Machine) -> Value {
    machine.ladder.rungs.iter().map(rung_json).collect()
}

fn left_json(left: &LeftRegisters) -> Value {
    json!({ "cpu": left.cpu, "pid": left.pid, "state": left.state.word(), "text": left.to_string() })
}

fn offer(state: &Result<(), Cause>) -> Value {
    json!({ "available": state.is_ok(), "reason": state.as_ref().err().map(|cause| &cause.text) })
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
    use crate::testing::{golden, vm_without_pmu};

    #[test]
    fn each_rung_has_its_cause_and_its_cure() {
        golden("doctor.txt", &render(&vm_without_pmu(), &[], Paint::NONE));
    }

    #[test]
    fn no_line_of_the_diagnosis_is_wider_than_a_terminal() {
        use cyclometer_toolkit::core::ladder::CauseKind;
        use cyclometer_toolkit::{Error, ErrorKind};
        let mut machine = vm_without_pmu();
        let long =
            "unshare --mount-proc cyclometer … (or start the sandbox with its own: bwrap --proc /proc) "
                .repeat(2);
        for cause in machine.ladder.rungs.iter_mut().flat_map(|state| &mut state.causes) {
            (cause.text, cause.mend) = (long.clone(), Some(long.clone()));
        }
        machine.ladder.perf_hardware = Err(Cause::new(CauseKind::NoPmu, long.clone()));
        let unreadable = left(3, LeftState::Unreadable { why: long.clone() });
        let outcome = Err(Error::new(ErrorKind::Os, long.clone()));
        let restored = restored(&[Restoration { registers: unreadable.clone(), outcome }]);
        let text = render(&machine, &[unreadable], Paint::NONE) + &restored;
        let widest = text.lines().max_by_key(|line| crate::columns(line)).unwrap();
        assert!(crate::columns(widest) <= WIDTH, "{widest}");
        let fix = "            fix: unshare --mount-proc cyclometer … (or start the sandbox with\n";
        let below = "                 its own: bwrap --proc /proc) unshare --mount-proc cyclometer …\n";
        assert!(text.contains(&format!("{fix}{below}")), "{text}");
    }

    fn left(cpu: u32, state: LeftState) -> LeftRegisters {
        let file = format!("/run/cyclometer/registers-{cpu}");
        LeftRegisters { file, cpu: Some(cpu), pid: Some(71), state }
    }

    #[test]
    fn registers_that_were_left_are_told_with_the_cure() {
        let unreadable = LeftState::Unreadable { why: "cannot read it: permission denied".to_owned() };
        let unreadable = LeftRegisters { cpu: None, pid: None, ..left(3, unreadable) };
        let all = [left(0, LeftState::InUse), left(1, LeftState::BeingRestored { by: 72 }), unreadable];
        let text = left_text(&all, Paint::NONE);
        assert_eq!(
            text,
            "counter registers of CPU 0: used by process 71, which runs\n\
             counter registers of CPU 1: process 71 died, process 72 is restoring them\n\
             /run/cyclometer/registers-3: cannot read it: permission denied\n"
        );
        let text = render(&vm_without_pmu(), &[left(2, LeftState::Left)], Paint::NONE);
        assert!(text.ends_with("            fix: sudo cyclometer doctor --restore\n"), "{text}");
    }

    #[test]
    fn what_became_of_registers_is_told_one_by_one() {
        use cyclometer_toolkit::{Error, ErrorKind};
        let failed = Err(Error::new(ErrorKind::Os, "the kernel forbids it"));
        let outcomes = [Ok(Restored::Restored), Ok(Restored::Forgotten), Ok(Restored::Untouched), failed];
        let registers = left(4, LeftState::InUse);
        let all = outcomes.map(|outcome| Restoration { registers: registers.clone(), outcome });
        assert_eq!(
            restored(&all),
            "counter registers of CPU 4: restored\n\
             counter registers of CPU 4: a boot has reset them, nothing to restore\n\
             counter registers of CPU 4: used by process 71, which runs; left alone\n\
             counter registers of CPU 4: not restored: the kernel forbids it\n"
        );
        assert_eq!(restored(&[]), "no counter registers are left to be restored\n");
    }

    #[test]
    fn the_diagnosis_obeys_its_schema() {
        let text =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/doctor-1.json"));
        let schema = jsonschema::validator_for(&serde_json::from_str(&text.unwrap()).unwrap()).unwrap();
        let states =
            [LeftState::Left, LeftState::BeingRestored { by: 5 }, LeftState::InUse, LeftState::Reset];
        let mut all: Vec<LeftRegisters> = states.map(|state| left(2, state)).into();
        let why = "no".to_owned();
        all.push(LeftRegisters { cpu: None, pid: None, ..left(2, LeftState::Unreadable { why }) });
        let mut value = json(&vm_without_pmu(), &all);
        assert!(schema.is_valid(&value), "{:?}", schema.validate(&value));
        value["ladder"][0]["works"] = json!("perhaps");
        assert!(!schema.is_valid(&value));
    }
}
