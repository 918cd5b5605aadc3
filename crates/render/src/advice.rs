//! Advice, for people and as JSON by `schemas/advise-1.json`; runs unlike the others, by
//! `schemas/advise-history-1.json`.

use cyclometer_toolkit::advise::history::{ALARM_RATE, History, UnlikeCounter, UnlikeRun};
use cyclometer_toolkit::advise::{Advice, AdviceFinding, Evidence, FunctionShare, Measurements, NotMeasured};
use cyclometer_toolkit::core::exec::ExitStatus;
use serde_json::{Value, json};

use crate::json::optional;
use crate::paint::{Paint, Style};
use crate::text::clean;
use crate::{WIDTH, units, wrap};

/// Version of both schemas.
pub const SCHEMA_VERSION: u32 = 1;

/// Most functions of a finding.
const MOST_FUNCTIONS: usize = 3;

/// Most counters that are shown of an unlike run.
const MOST_COUNTERS: usize = 5;

/// The subject of the advice.
pub struct AdviceSubject {
    /// The words of the command; none where a file has none.
    pub command: Vec<String>,
    /// Whether the facts come from a file.
    pub is_file: bool,
}

/// Advice with everything that is shown of it.
pub struct ShownAdvice<'a> {
    /// Its subject.
    pub subject: &'a AdviceSubject,
    /// The measurements.
    pub measured: &'a Measurements,
    /// The judgement.
    pub advice: &'a Advice,
    /// The command as it is shown.
    pub command: String,
}

impl ShownAdvice<'_> {
    fn functions(&self, finding: &AdviceFinding) -> Vec<FunctionShare> {
        let fact = finding.functions_by.as_deref();
        fact.map(|fact| self.measured.functions(fact, MOST_FUNCTIONS)).unwrap_or_default()
    }

    fn next(&self, finding: &AdviceFinding) -> Vec<String> {
        let command = if self.command.is_empty() { "COMMAND" } else { &self.command };
        finding.next.iter().map(|next| next.replace("{command}", command)).collect()
    }
}

/// A paragraph with blanks in front of each line.
fn indented(text: &str, indent: usize) -> String {
    let blanks = " ".repeat(indent);
    wrap(text, WIDTH - indent).into_iter().map(|line| format!("{blanks}{line}\n")).collect()
}

/// A number with three or more digits.
fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size >= 1000.0 => units::grouped(value.round()),
        _ if size >= 100.0 => format!("{value:.0}"),
        _ if size >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// The advice as text.
pub fn render(shown: &ShownAdvice<'_>, verbose: bool, paint: Paint) -> String {
    let subject = if shown.command.is_empty() { "results of a file" } else { shown.command.as_str() };
    let mut out = paint.paint(Style::Heading, &super::target::shortened(clean(subject))) + "\n";
    let findings = &shown.advice.findings;
    if findings.is_empty() {
        out += &format!("\n{}", indented(&nothing(shown.advice), 0));
    }
    for (index, one) in findings.iter().enumerate() {
        out += &finding(index + 1, one, shown, paint);
    }
    out += &not_measured(&shown.advice.not_measured, verbose);
    if !shown.advice.inconspicuous.is_empty() {
        out += &format!(
            "\n{}",
            indented(&format!("inconspicuous: {}", shown.advice.inconspicuous.join(", ")), 0)
        );
    }
    shown.measured.notes.iter().for_each(|note| out += &indented(&format!("note: {}", clean(note)), 0));
    out
}

fn nothing(advice: &Advice) -> String {
    match (advice.inconspicuous.len(), advice.not_measured.len()) {
        (0, _) => "Nothing could be judged: no rule has all of its numbers.".to_owned(),
        (judged, 0) => format!("Nothing stands out: {judged} rules were judged."),
        (judged, left) => format!("Nothing stands out: {judged} rules were judged, {left} could not be."),
    }
}

fn finding(index: usize, one: &AdviceFinding, shown: &ShownAdvice<'_>, paint: Paint) -> String {
    let title = indented(&format!("{index}. {}", one.title), 0);
    let mut out = format!("\n{}\n", paint.paint(Style::Heading, title.trim_end()));
    let (rule, share) = (&one.rule, units::percent(one.share));
    let kind = format!("{rule}: {}, by {}; about {share} of the time", one.confidence.word(), one.evidence);
    out += &indented(&kind, 3);
    one.numbers.iter().for_each(|evidence| out += &evidence_lines(evidence, paint));
    let functions: Vec<String> = shown.functions(one).iter().map(function_text).collect();
    if !functions.is_empty() {
        out += &indented(&format!("where: {}", functions.join(", ")), 3);
    }
    if !one.explains.is_empty() {
        out += &indented(&format!("explains: {}", one.explains.join(", ")), 3);
    }
    out += &indented(&format!("advice: {}", one.advice), 3);
    // A command is one line, so that it can be copied.
    shown.next(one).iter().for_each(|next| out += &format!("   next: {next}\n"));
    out
}

fn evidence_lines(evidence: &Evidence, paint: Paint) -> String {
    let label = format!("{} ({})", evidence.label, evidence.threshold);
    let value = number(evidence.value);
    let mut lines = wrap(&label, WIDTH - 20).into_iter();
    let first = lines.next().unwrap_or_default();
    let mut out = format!("   {value:>12}  {first}\n");
    lines.for_each(|line| out += &format!("{:17}{line}\n", ""));
    let source = wrap(&format!("threshold: {}", evidence.source), WIDTH - 17);
    source.iter().for_each(|line| out += &format!("{:17}{}\n", "", paint.paint(Style::Dim, line)));
    out
}

fn function_text(share: &FunctionShare) -> String {
    let function = share.function.as_deref().map_or_else(|| "?".to_owned(), clean);
    let object = share.object.as_deref().map(|path| path.rsplit('/').next().unwrap_or(path));
    let object = object.map(|name| format!(" ({})", clean(name))).unwrap_or_default();
    format!("{function}{object} {}", units::percent(share.share))
}

fn not_measured(rules: &[NotMeasured], verbose: bool) -> String {
    if rules.is_empty() {
        return String::new();
    }
    let mut out = "\nnot measured:\n".to_owned();
    for rule in rules {
        let most = if verbose { rule.needs.len() } else { 1 };
        let needs: Vec<String> = rule.needs.iter().rev().take(most).map(|need| clean(need)).collect();
        out += &indented(&format!("{} needs {}", rule.rule, needs.join("; or ")), 2);
    }
    out
}

/// The advice as JSON.
pub fn json(shown: &ShownAdvice<'_>) -> Value {
    let ShownAdvice { subject, measured, advice, .. } = shown;
    let facts = measured.facts.iter().map(|(name, fact)| {
        json!({
            "name": name,
            "value": optional(fact.value.as_ref().ok().copied()),
            "origin": fact.origin.map(|origin| origin.word()),
            "reason": fact.value.as_ref().err(),
        })
    });
    let (exit, signal) = match measured.failed {
        Some(ExitStatus::Code(code)) => (Some(code), None),
        Some(ExitStatus::Signal(signal)) => (None, Some(signal)),
        None => (None, None),
    };
    json!({
        "schema_version": SCHEMA_VERSION,
        "generator": concat!("cyclometer ", env!("CARGO_PKG_VERSION")),
        "command": subject.command,
        "from_file": subject.is_file,
        "executions": measured.executions.iter().map(|execution| execution.word()).collect::<Vec<_>>(),
        "failed": { "exit": exit, "signal": signal },
        "interrupted": measured.interrupted,
        "findings": advice.findings.iter().map(|one| finding_json(one, shown)).collect::<Vec<_>>(),
        "inconspicuous": advice.inconspicuous,
        "not_measured": advice.not_measured.iter().map(|rule| json!({ "rule": rule.rule, "needs": rule.needs })).collect::<Vec<_>>(),
        "facts": facts.collect::<Vec<_>>(),
        "notes": measured.notes,
    })
}

fn finding_json(one: &AdviceFinding, shown: &ShownAdvice<'_>) -> Value {
    let numbers = one.numbers.iter().map(|evidence| {
        json!({
            "label": evidence.label,
            "value": optional(Some(evidence.value)),
            "threshold": evidence.threshold,
            "source": evidence.source,
        })
    });
    let functions = shown.functions(one);
    let functions = functions.iter().map(|share| {
        json!({ "function": share.function, "object": share.object, "share": optional(Some(share.share)) })
    });
    json!({
        "rule": one.rule,
        "title": one.title,
        "share": optional(Some(one.share)),
        "confidence": one.confidence.word(),
        "evidence": one.evidence,
        "numbers": numbers.collect::<Vec<_>>(),
        "functions": functions.collect::<Vec<_>>(),
        "explains": one.explains,
        "advice": one.advice,
        "next": shown.next(one),
    })
}

/// The runs that are unlike the others, as text.
pub fn history(history: &History, paint: Paint) -> String {
    let (runs, counters) = (history.runs().len(), history.counters().len());
    let found = history.unlike();
    let s = if counters == 1 { "" } else { "s" };
    let title = format!("{} of {runs} runs unlike the others, by {counters} counter{s}", found.len());
    let mut out = paint.paint(Style::Heading, &title) + "\n";
    if found.is_empty() {
        out += "\nNo run stands out.\n";
    }
    found.iter().for_each(|unlike| out += &unlike_lines(unlike, history, paint));
    let (alarms, held_out) = history.held_out();
    let rate = units::percent(ALARM_RATE);
    let text = format!(
        "A counter is unlike the others beyond {:.1} standard deviations of theirs, which aims at false alarms in \
         {rate} of histories at most. Held out one by one, {alarms} of the other {held_out} runs would be called unlike the others.",
        history.threshold()
    );
    out += &format!("\n{}", indented(&text, 0));
    if !history.left_out().is_empty() {
        out += &indented(
            &format!(
                "Not judged, because some runs have no value that can be compared: {}",
                history.left_out().join(", ")
            ),
            0,
        );
    }
    out
}

fn unlike_lines(unlike: &UnlikeRun, history: &History, paint: Paint) -> String {
    let mut out = format!("\n{}\n", paint.paint(Style::Heading, &history.runs()[unlike.run].name));
    for one in unlike.counters.iter().take(MOST_COUNTERS) {
        let UnlikeCounter { counter, value, median, distance } = one;
        let head = format!("{} instead of {}", number(*value), number(*median));
        out += &indented(&format!("{counter}: {head}, {} standard deviations", number(*distance)), 3);
    }
    let more = unlike.counters.len().saturating_sub(MOST_COUNTERS);
    if more > 0 {
        out += &format!("   {more} more counters\n");
    }
    out
}

/// The runs that are unlike the others, as JSON.
pub fn history_json(history: &History) -> Value {
    let counter = |one: &UnlikeCounter| json!({ "counter": one.counter, "value": one.value, "median": one.median, "distance": optional(Some(one.distance)) });
    let unlike = history.unlike().into_iter().map(|unlike| {
        json!({
            "run": history.runs()[unlike.run].name,
            "counters": unlike.counters.iter().map(counter).collect::<Vec<_>>(),
        })
    });
    let (alarms, held_out) = history.held_out();
    json!({
        "schema_version": SCHEMA_VERSION,
        "generator": concat!("cyclometer ", env!("CARGO_PKG_VERSION")),
        "runs": history.runs().iter().map(|run| run.name.clone()).collect::<Vec<_>>(),
        "counters": history.counters(),
        "left_out": history.left_out(),
        "threshold": history.threshold(),
        "false_alarm_rate": ALARM_RATE,
        "held_out": { "alarms": alarms, "runs": held_out },
        "unlike": unlike.collect::<Vec<_>>(),
    })
}
