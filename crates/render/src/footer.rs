//! The lines below the table: how the session ended, what was not counted, footnotes.

use cyclometer_toolkit::core::ladder::{Cause, CauseKind, RungState, Works};
use cyclometer_toolkit::core::plan::{Multiplex, Outcome};
use cyclometer_toolkit::core::report::FallbackStep;
use cyclometer_toolkit::core::skipped::SkipReason;
use cyclometer_toolkit::core::syntax::{Selector, parse_event};
use cyclometer_toolkit::core::{Layout, Modes, Plan, Provenance, Rung, SlotId, Unit, Verdict};
use cyclometer_toolkit::stats::{DroppedRun, Failures, LineSummary, RunValue};
use cyclometer_toolkit::{InputStream, OutputStream};

use crate::Results;
use crate::marks::marked;
use crate::text::clean;

/// One text for each remark, not yet broken into lines.
pub fn lines(results: &Results<'_>, verbose: bool) -> Vec<String> {
    let mut lines = ending(results);
    lines.extend(folded(results));
    lines.extend(hint(results));
    lines.extend(passes(results));
    lines.extend(rotation_groups(results));
    let contradictions = results.report.plan.sharing.contradictions.iter();
    // With `verbose`, the steps report them as well.
    lines.extend(contradictions.filter(|_| !verbose).map(|text| clean(text)));
    lines.extend(legend(results));
    lines.extend(translation(results));
    lines.extend(streams(results));
    lines.extend(footnotes(results, verbose));
    lines.extend(steps(results, verbose));
    lines
}

/// An event that was not requested and has no value is reported below the table, unless its value was lost.
pub fn is_folded(line: &LineSummary) -> bool {
    !line.requested && line.statistics.mean.is_none() && line.verdict != Verdict::Lost
}

/// Names under each text, texts in the order of their first name.
#[derive(Default)]
struct Grouped(Vec<(String, Vec<String>)>);

impl Grouped {
    fn add(&mut self, text: String, name: String) {
        let Grouped(groups) = self;
        match groups.iter_mut().find(|(known, _)| *known == text) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => groups.push((text, vec![name])),
        }
    }

    /// `cycles, instructions: the text`; without a name, the text alone.
    fn texts(&self) -> Vec<String> {
        let text = |(text, names): &(String, Vec<String>)| match names.join(", ") {
            names if names.is_empty() => text.clone(),
            names => format!("{names}: {text}"),
        };
        self.0.iter().map(text).collect()
    }
}

/// How the session ended, where that is worth a word.
fn ending(results: &Results<'_>) -> Vec<String> {
    let only = results.summary.only_dropped;
    let mut lines: Vec<String> = results.summary.dropped.iter().map(|run| dropped_text(run, only)).collect();
    if let (Some(signal), []) = (results.report.interrupted, lines.as_slice()) {
        let ended = results.report.runs.first().is_some_and(|run| run.exit.is_some());
        let what = if ended { "the command has ended" } else { "this is what was measured until then" };
        lines.push(format!("signal {signal} came: {what}"));
    }
    let early = if results.report.runs.len() > 1 { "ended early: " } else { "" };
    match &results.report.failure {
        Some(failure) => lines.push(format!("{early}{}", clean(&failure.to_string()))),
        None => lines.extend(Failures::of(results.report).text()),
    }
    lines
}

fn dropped_text(dropped: &DroppedRun, only: bool) -> String {
    let what = if only { "is shown, as no run is complete" } else { "is left out" };
    format!("run {} {what}: {}", dropped.run + 1, clean(&dropped.reason))
}

/// One line for all events that were not requested and have no value, by reason.
fn folded(results: &Results<'_>) -> Option<String> {
    let mut by_reason = Grouped::default();
    for line in results.summary.lines.iter().filter(|line| is_folded(line)) {
        by_reason.add(clean(line.reason.as_deref().unwrap_or_default()), clean(&line.name));
    }
    let texts = by_reason.texts();
    let more = "`cyclometer doctor` says more";
    (!texts.is_empty()).then(|| format!("not counted here: {}. {more}", texts.join("; ")))
}

/// The remarks that a reader of a value needs, each of them once.
fn footnotes(results: &Results<'_>, verbose: bool) -> Vec<String> {
    let mut by_note = Grouped::default();
    for line in results.summary.lines.iter().filter(|line| verbose || wants_notes(line)) {
        for note in &line.notes {
            by_note.add(clean(note), clean(&line.name));
        }
    }
    by_note.texts()
}

/// Whether the notes matter to the value that is shown. Accounting needs a note only for a time of zero,
/// which is a sampled one. A raw code needs none if it counts at all.
fn wants_notes(line: &LineSummary) -> bool {
    let Some(mean) = line.statistics.mean else { return false };
    if line.rung == Some(Rung::Os) {
        return line.unit == Unit::Nanoseconds && mean == 0.0;
    }
    let raw = parse_event(&line.event).is_ok_and(|event| matches!(event.selector, Selector::Raw(_)));
    line.requested && !(raw && mean > 0.0)
}

/// The fallback steps: those that changed the meaning of a name, or all of them.
fn steps(results: &Results<'_>, verbose: bool) -> Vec<String> {
    let mut by_text = Grouped::default();
    for step in results.report.steps.iter().filter(|step| verbose || changes_a_name(results, step)) {
        let event = step.event.as_deref().unwrap_or_default();
        by_text.add(format!("{}: {}", clean(&step.refused), clean(&step.done)), clean(event));
    }
    by_text.texts()
}

/// The one line that says how hardware events could be counted.
fn hint(results: &Results<'_>) -> Option<String> {
    let wanted = |line: &LineSummary| line.modes.is_some() && !line.verdict.has_value();
    let ladder = &results.machine.ladder;
    if ladder.perf_hardware.is_ok() || !results.summary.lines.iter().any(wanted) {
        return None;
    }
    if could_translate(results) {
        return Some("to count instructions exactly, by translation: -e instructions, or -r 3".to_owned());
    }
    hardware_mend(&ladder.state(Rung::Perf)?.causes).map(|mend| format!("to count them: {}", clean(mend)))
}

/// The remark that events were rotated, with the reason, and the number of runs that makes rotation
/// unnecessary.
fn rotation_groups(results: &Results<'_>) -> Option<String> {
    let estimated = |value: &RunValue| value.rotation_group.is_some() && value.value.is_some();
    let rotated = |line: &LineSummary| line.values.iter().any(estimated);
    if !results.summary.lines.iter().any(rotated) {
        return None;
    }
    let plan = &results.report.plan;
    let remark = format!("events shared counters in rotation{}", because(plan));
    let Some(runs) = plan.exact_runs().filter(|_| plan.intent.subject.is_command()) else {
        return Some(remark);
    };
    let without = if plan.intent.multiplex == Multiplex::Always { "without --multiplex, " } else { "" };
    Some(format!("{remark}: {without}-r {runs} counts each exactly"))
}

/// How the passes were spread over the runs, and why there are several.
fn passes(results: &Results<'_>) -> Option<String> {
    let plan = &results.report.plan;
    let passes = plan.sharing.sets.len();
    if passes < 2 || plan.is_rotated() {
        return None;
    }
    let shared = |line: &&LineSummary| plan.sharing.sets.iter().flatten().any(|slot| *slot == line.slot);
    let counted = results.summary.lines.iter().filter(shared).map(|line| (line.values.len(), line.slot));
    let (times, slots): (Vec<usize>, Vec<SlotId>) = counted.unzip();
    let (least, most) = (times.iter().copied().min()?, times.iter().copied().max()?);
    let runs = slots.first().map_or(0, |slot| results.runs_for(*slot));
    let over = if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
    let proof = match plan.sharing.is_optimal() {
        true => String::new(),
        false => format!(" (at least {} are needed)", plan.sharing.lower_bound),
    };
    let because = because(plan);
    let each = in_passes(least, most);
    Some(format!("{passes} passes{proof} over {over}{because}: {each}"))
}

/// In how many runs each event had its pass.
fn in_passes(least: usize, most: usize) -> String {
    match (least, most) {
        (0, _) => "the passes of some events were in no run that counts".to_owned(),
        (least, most) if least == most => format!("each event is in the passes of {most} of them"),
        _ => format!("each event is in the passes of {least} to {most} of them"),
    }
}

/// The reason why events share counters, if it is known.
fn because(plan: &Plan) -> String {
    let because = plan.sharing.because.as_ref();
    because.map(|because| format!(", as {}", clean(because))).unwrap_or_default()
}

/// Whether the software PMU works and was left out only because it was not requested.
fn could_translate(results: &Results<'_>) -> bool {
    let works = |state: &RungState| matches!(state.works, Works::Yes | Works::Partly);
    let intent = &results.report.plan.intent;
    let left_out = |line: &LineSummary| {
        let soft = line.skipped.iter().find(|skipped| skipped.rung == Rung::Soft);
        soft.is_some_and(|skipped| skipped.reason == SkipReason::TranslationOnRequest)
    };
    intent.subject.is_command()
        && intent.interval.is_none()
        && results.machine.ladder.state(Rung::Soft).is_some_and(works)
        && results.summary.lines.iter().any(left_out)
}

/// The effect of translation on the values, where they are not those of the untranslated program.
fn translation(results: &Results<'_>) -> Vec<String> {
    let lines = &results.summary.lines;
    let times = lines.iter().any(LineSummary::is_of_the_translation);
    let random = results.report.runs.iter().any(|run| run.layout == Some(Layout::Random));
    let times =
        times.then_some("translated: measured under translation; with -r 3 one run is timed natively");
    let random = random
        .then_some("layout: random: addresses differ between the translated runs, so counts may differ, too");
    let baseline = results.report.runs.iter().find_map(|run| run.cpu_baseline);
    let baseline = baseline.map(|baseline| {
        format!("cpu baseline: the translated runs saw a processor with {} only", baseline.word())
    });
    times.into_iter().chain(random).map(str::to_owned).chain(baseline).collect()
}

/// Where the command read and wrote, as far as that was not where ours leads.
fn streams(results: &Results<'_>) -> Vec<String> {
    let Some(command) = &results.report.command else { return Vec::new() };
    let input = match command.stdin {
        InputStream::Replay { .. } => Some("standard input: the same file in each run"),
        _ => None,
    };
    let output = match command.stdout {
        OutputStream::Null => Some("standard output: /dev/null, for which some programs do less work"),
        OutputStream::Discard => Some("standard output: discarded (not through /dev/null)"),
        OutputStream::Pipe => Some("standard output: a pipe, read and discarded"),
        OutputStream::File(_) => Some("standard output: a file"),
        _ => None,
    };
    input.into_iter().chain(output).map(str::to_owned).collect()
}

/// The command that brings hardware events; none where the hardware itself is missing.
fn hardware_mend(causes: &[Cause]) -> Option<&str> {
    let missing = [
        CauseKind::NoVirtualPmu,
        CauseKind::NoPmu,
        CauseKind::HypervisorFilter,
        CauseKind::UnknownCpu,
        CauseKind::NotInKernel,
    ];
    match causes.iter().find(|cause| missing.contains(&cause.kind)) {
        Some(cause) => cause.mend.as_deref(),
        None => causes.iter().find_map(|cause| cause.mend.as_deref()),
    }
}

fn legend(results: &Results<'_>) -> Option<String> {
    let mut marked: Vec<Provenance> = results.summary.lines.iter().filter_map(marked).collect();
    marked.sort_unstable();
    marked.dedup();
    let meanings: Vec<String> = marked
        .iter()
        .filter(|who| !who.mark().is_empty())
        .map(|who| format!("{} {}", who.mark(), meaning(*who)))
        .collect();
    (!meanings.is_empty()).then(|| meanings.join(", "))
}

fn meaning(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::Counted => "counted exactly by the software PMU",
        Provenance::Modelled => "from a model, not from this CPU",
        Provenance::Simulated => "simulated: no program's behaviour",
        _ => "",
    }
}

/// Whether a step left an event with other modes than asked for.
fn changes_a_name(results: &Results<'_>, step: &FallbackStep) -> bool {
    let Some(event) = &step.event else { return false };
    results.report.plan.lines.iter().any(|line| {
        let asked = line.event.modifiers.modes.unwrap_or(Modes::USER);
        let named = event == &line.event.name || event.starts_with(&format!("{}:", line.event.name));
        let counted = matches!(line.outcome, Outcome::Counted { .. });
        let effective = cyclometer_toolkit::stats::effective_modes(line);
        named && counted && effective.is_some_and(|modes| modes != asked)
    })
}
