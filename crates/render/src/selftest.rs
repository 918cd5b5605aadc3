//! The result of a self-test, for people and as JSON by `schemas/selftest-1.json`.

use cyclometer_toolkit::Machine;
use cyclometer_toolkit::selftest::{EventVerdict, Examined, Finding, Measurement, Section, SectionKind};
use serde_json::{Value, json};

use crate::paint::{Paint, Style};
use crate::text::clean;
use crate::{WIDTH, columns, doctor, machine, wrap};

/// Version of the schema.
pub const SCHEMA_VERSION: u32 = 1;

/// Columns of names and verdicts.
const NAME: usize = 27;
const VERDICT: usize = 12;

/// A table for each kind of event, then the conclusion.
///
/// The reasons why events are not counted, or not judged, are shown with `verbose`, as all events are.
pub fn render(examined: &Examined, machine: &Machine, verbose: bool, paint: Paint) -> String {
    let mut out = lines(&machine::cpu_text(machine), 0) + &lines(&machine::system_text(machine), 0);
    for section in &examined.sections {
        out += "\n";
        out += &table(section, verbose, paint);
    }
    out += "\n";
    out += &conclusion(examined, paint);
    out
}

fn title(section: &Section) -> String {
    let what = match (section.kind, &section.pmu) {
        (SectionKind::Hardware, None) => "this PMU, user mode, on one thread".to_owned(),
        (SectionKind::Hardware, Some(pmu)) => format!("{}, user mode, on one thread", clean(pmu)),
        (SectionKind::Software, _) => "the kernel's software events".to_owned(),
        (SectionKind::Accounts, _) => "macOS's sums of a thread, user and kernel mode".to_owned(),
        (SectionKind::Translated, _) => "the software PMU".to_owned(),
    };
    format!("{what} ({})", section.rung)
}

fn table(section: &Section, verbose: bool, paint: Paint) -> String {
    let mut out = paint.paint(Style::Heading, &title(section)) + "\n";
    if let Some(reason) = &section.absent {
        return out + &lines(&format!("not here: {}", clean(reason)), 2);
    }
    let short = [EventVerdict::Unjudged, EventVerdict::NotCounted];
    for finding in section.findings.iter().filter(|finding| verbose || !short.contains(&finding.verdict)) {
        out += &row(finding, paint);
    }
    let named = short.into_iter().filter(|_| !verbose).map(|verdict| names(section, verdict, paint));
    out + &named.collect::<String>()
}

fn row(finding: &Finding, paint: Paint) -> String {
    let verdict = shown(finding.verdict);
    let pad = " ".repeat(VERDICT.saturating_sub(verdict.len()));
    let name = clean(&finding.event);
    let fill = " ".repeat(NAME.saturating_sub(columns(&name)).max(1));
    let head = format!("  {name}{fill}{}{pad}", paint.paint(style(finding.verdict), verdict));
    let indent = 2 + NAME + VERDICT;
    let mut why = wrap(&clean(&finding.why), WIDTH - indent).into_iter();
    let first = why.next().unwrap_or_default();
    let rest: String = why.map(|line| format!("{:indent$}{line}\n", "")).collect();
    format!("{head}{first}\n{rest}")
}

/// The reason why no event of a section is counted, if it is the same for all.
fn common_reason(section: &Section) -> Option<&str> {
    let first = section.findings.first()?;
    let same = |one: &Finding| one.verdict == EventVerdict::NotCounted && one.why == first.why;
    section.findings.iter().all(same).then_some(first.why.as_str())
}

/// The names of the events of a verdict, without reasons but one that all have.
fn names(section: &Section, verdict: EventVerdict, paint: Paint) -> String {
    let names: Vec<&str> = section.of(verdict).map(|finding| finding.event.as_str()).collect();
    if names.is_empty() {
        return String::new();
    }
    let what = match verdict {
        EventVerdict::NotCounted => "not counted here",
        _ => "counted, but nothing is known to hold them against",
    };
    let names = lines(&clean(&names.join(", ")), 4);
    let what = paint.paint(style(verdict), what);
    match common_reason(section) {
        Some(why) => format!("  {what}:\n{names}{}", lines(&format!("each: {}", clean(why)), 2)),
        None => format!("  {what} (--verbose tells more):\n{names}"),
    }
}

fn lines(text: &str, indent: usize) -> String {
    wrap(text, WIDTH - indent).iter().map(|line| format!("{:indent$}{line}\n", "")).collect()
}

fn shown(verdict: EventVerdict) -> &'static str {
    match verdict {
        EventVerdict::NotCounted => "not counted",
        other => other.word(),
    }
}

fn style(verdict: EventVerdict) -> Style {
    match verdict {
        EventVerdict::Exact => Style::Good,
        EventVerdict::Overcounts | EventVerdict::Plausible => Style::Plain,
        EventVerdict::Wrong => Style::Bad,
        _ => Style::Dim,
    }
}

/// The conclusion: which sources can be trusted, section by section.
fn conclusion(examined: &Examined, paint: Paint) -> String {
    let mut out = String::new();
    for section in examined.sections.iter().filter(|section| section.absent.is_none()) {
        out += &trusted(section, paint);
    }
    if examined
        .sections
        .iter()
        .any(|section| section.kind == SectionKind::Hardware && section.absent.is_some())
    {
        out += "No PMU was tested.\n";
    }
    if let Some(signal) = examined.interrupted {
        out += &format!("signal {signal} came: this is what was tested until then\n");
    }
    out
}

fn trusted(section: &Section, paint: Paint) -> String {
    let who = match (section.kind, &section.pmu) {
        (SectionKind::Hardware, None) => "This PMU".to_owned(),
        (SectionKind::Hardware, Some(pmu)) => clean(pmu),
        (SectionKind::Software, _) => "The kernel".to_owned(),
        (SectionKind::Accounts, _) => "The account of macOS".to_owned(),
        (SectionKind::Translated, _) => "The software PMU".to_owned(),
    };
    let names = |verdicts: &[EventVerdict]| {
        let is = |finding: &&Finding| verdicts.contains(&finding.verdict);
        let found: Vec<&str> = section.findings.iter().filter(is).map(|one| one.event.as_str()).collect();
        clean(&found.join(", "))
    };
    let exact = names(&[EventVerdict::Exact]);
    let few_too_many = names(&[EventVerdict::Overcounts]);
    let plausible = names(&[EventVerdict::Plausible]);
    let wrong = names(&[EventVerdict::Wrong]);
    let mut out = String::new();
    for (text, names, style) in [
        ("can be trusted for", exact, Style::Good),
        ("can be trusted but for a few too many", few_too_many, Style::Plain),
        ("is plausible for", plausible, Style::Plain),
        ("is not to be trusted for", wrong, Style::Bad),
    ] {
        if !names.is_empty() {
            let text = lines(&format!("{who} {text}: {names}"), 0);
            out += &text.lines().map(|line| paint.paint(style, line) + "\n").collect::<String>();
        }
    }
    out
}

/// The whole result, with the machine.
pub fn json(examined: &Examined, machine: &Machine) -> Value {
    let names = |verdict: EventVerdict| -> Vec<&str> {
        let of = examined.findings().filter(|finding| finding.verdict == verdict);
        of.map(|finding| finding.event.as_str()).collect()
    };
    cleaned(json!({
        "schema_version": SCHEMA_VERSION,
        "cyclometer": env!("CARGO_PKG_VERSION"),
        "machine": machine::json(machine),
        "core_types": machine.core_types.iter().map(machine::core_type_json).collect::<Vec<_>>(),
        "access": machine::access_json(&machine.access),
        "ladder": doctor::ladder_json(machine),
        "interrupted": examined.interrupted,
        "truth": examined.is_true(),
        "wrong": names(EventVerdict::Wrong),
        "sections": examined.sections.iter().map(section_json).collect::<Vec<_>>(),
    }))
}

fn section_json(section: &Section) -> Value {
    json!({
        "kind": section.kind.word(),
        "source": section.rung.word(),
        "pmu": section.pmu,
        "absent": section.absent,
        "events": section.findings.iter().map(finding_json).collect::<Vec<_>>(),
    })
}

fn finding_json(finding: &Finding) -> Value {
    json!({
        "event": finding.event,
        "verdict": finding.verdict.word(),
        "why": finding.why,
        "counts_as": finding.counts_as,
        "measurements": finding.measurements.iter().map(measurement_json).collect::<Vec<_>>(),
    })
}

fn measurement_json(measurement: &Measurement) -> Value {
    json!({
        "work": measurement.work.word(),
        "amount": measurement.work.amount(),
        "expected": measurement.expected,
        "values": measurement.values,
    })
}

/// The same without control characters in any text.
fn cleaned(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(clean(&text)),
        Value::Array(all) => all.into_iter().map(cleaned).collect(),
        Value::Object(all) => all.into_iter().map(|(name, value)| (clean(&name), cleaned(value))).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, vm_without_pmu};
    use cyclometer_toolkit::Rung;

    fn finding(event: &str, verdict: EventVerdict, why: &str) -> Finding {
        Finding { verdict, ..Finding::not_counted(event, why) }
    }

    fn examined() -> Examined {
        let findings = vec![
            finding(
                "instructions",
                EventVerdict::Exact,
                "the known number in each of 65 counts over 13 loops",
            ),
            finding("branches", EventVerdict::Wrong, "reads 0 in every loop, and claims to have counted"),
            finding("cycles", EventVerdict::Plausible, "3.10 additions a cycle"),
            finding("node-loads", EventVerdict::NotCounted, "the PMU cpu does not have this event (ENOENT)"),
            finding("bus-cycles", EventVerdict::NotCounted, "the PMU cpu does not have this event (ENOENT)"),
        ];
        let hardware =
            Section { kind: SectionKind::Hardware, rung: Rung::Perf, pmu: None, absent: None, findings };
        let absent = Some("the tracer\u{1b}[2J is forbidden".to_owned());
        let translated = Section {
            kind: SectionKind::Translated,
            rung: Rung::Soft,
            pmu: None,
            absent,
            findings: Vec::new(),
        };
        Examined { sections: vec![hardware, translated], interrupted: None }
    }

    #[test]
    fn a_table_says_what_can_be_trusted_and_why_the_rest_cannot() {
        golden("selftest.txt", &render(&examined(), &vm_without_pmu(), false, Paint::NONE));
    }

    #[test]
    fn reasons_of_what_is_not_counted_are_told_to_who_asks() {
        let text = render(&examined(), &vm_without_pmu(), true, Paint::NONE);
        assert_eq!(text.matches("(ENOENT)").count(), 2, "{text}");
    }

    #[test]
    fn a_reason_that_all_events_have_is_told_to_everybody() {
        let denied = |name| finding(name, EventVerdict::NotCounted, "not permitted on this thread (EACCES)");
        let section = Section {
            kind: SectionKind::Software,
            findings: vec![denied("task-clock"), denied("page-faults")],
            ..examined().sections[0].clone()
        };
        let text = table(&section, false, Paint::NONE);
        assert!(
            text.ends_with("task-clock, page-faults\n  each: not permitted on this thread (EACCES)\n"),
            "{text}"
        );
    }

    #[test]
    fn counts_that_are_a_little_too_high_are_not_called_exact_and_no_line_is_too_long() {
        let mut examined = examined();
        examined.sections[0].findings[0].verdict = EventVerdict::Overcounts;
        let text = render(&examined, &vm_without_pmu(), true, Paint::NONE);
        assert!(text.contains("This PMU can be trusted but for a few too many: instructions\n"), "{text}");
        assert!(text.lines().all(|line| columns(line) <= WIDTH), "{text}");
    }

    #[test]
    fn a_machine_without_a_pmu_is_told() {
        let mut examined = examined();
        examined.sections[0] = Section {
            absent: Some("no PMU here".into()),
            findings: Vec::new(),
            ..examined.sections[0].clone()
        };
        let text = render(&examined, &vm_without_pmu(), false, Paint::NONE);
        assert!(
            text.contains("  not here: no PMU here\n") && text.ends_with("No PMU was tested.\n"),
            "{text}"
        );
        assert!(examined.is_true());
    }

    #[test]
    fn an_interrupted_test_is_shown_as_such() {
        let examined = Examined { interrupted: Some(3), ..examined() };
        let text = render(&examined, &vm_without_pmu(), false, Paint::NONE);
        assert!(text.ends_with("\nsignal 3 came: this is what was tested until then\n"), "{text}");
        assert_eq!(json(&examined, &vm_without_pmu())["interrupted"], 3);
    }

    #[test]
    fn the_report_obeys_its_schema_and_has_no_control_bytes() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/selftest-1.json");
        let schema = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let schema = jsonschema::validator_for(&schema).unwrap();
        let mut value = json(&examined(), &vm_without_pmu());
        let errors: Vec<String> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
        assert_eq!(errors, [""; 0]);
        assert_eq!((value["truth"].as_bool(), value["wrong"][0].as_str()), (Some(false), Some("branches")));
        assert!(!value.to_string().contains("\\u001b"));
        value["sections"][0]["events"][0]["verdict"] = json!("perhaps");
        assert!(!schema.is_valid(&value));
    }
}
