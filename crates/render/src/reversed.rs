//! Verdicts on events, for people and as JSON by `schemas/reverse-1.json`.

use std::collections::BTreeMap;
use std::time::Duration;

use cyclometer_toolkit::core::CounterMask;
use cyclometer_toolkit::inference::{
    Hypothesis, Identification, Irregularity, Judgement, KernelIndex, KernelTable, Linearity, MaskFinding,
    Relation, Split, Stability,
};
use cyclometer_toolkit::reverse::{Reversed, ReversedEvent, SweepMachine, SweepTime};
use cyclometer_toolkit::sweep::SweepSettings;
use serde_json::{Value, json};

use crate::paint::{Paint, Style};
use crate::text::clean;
use crate::{WIDTH, table};

/// Version of the schema.
pub const SCHEMA_VERSION: u32 = 1;

/// Hypotheses that a row shows.
const MOST_SHOWN: usize = 3;

/// A row for each event that some kernel moves, then what the sweep cannot tell.
///
/// Dead codes and all doubts are shown with `verbose`.
pub fn render(found: &Reversed, machine: &SweepMachine, verbose: bool, paint: Paint) -> String {
    let heading = format!("  {:<8} {:<8} {:<3} counts", "code", "counters", "");
    let mut out = format!("{}\n", paint.paint(Style::Heading, &heading));
    let shown = found.events.iter().filter(|event| verbose || event.judgement.verdict.letter() != 'E');
    shown.for_each(|event| out += &row(event, found, verbose, paint));
    out += "\n";
    for (letter, what) in [
        ('A', "identified: one sum of concepts explains every kernel"),
        ('B', "identified up to a choice, or not certain"),
        ('C', "moved by kernels, and explained by no sum"),
        ('D', "no count of concepts: cycles, limits, noise"),
        ('E', "moved by no kernel"),
    ] {
        out += &format!("  {letter} {:>5}  {what}\n", found.with_verdict(letter).count());
    }
    out += "\n";
    notes(found, machine).iter().for_each(|note| out += &table::remark(note, paint));
    out
}

fn row(event: &ReversedEvent, found: &Reversed, verbose: bool, paint: Paint) -> String {
    let Judgement { verdict, mask, .. } = &event.judgement;
    let counters = counters(mask);
    let letter = verdict.letter();
    let head = format!("  {:<8} {counters:<8} {letter}   ", format!("{:#04x}", event.code));
    let indent = head.chars().count();
    let text = meaning(verdict, &found.kernels);
    let names: Vec<&str> = event.documented.iter().map(|event| event.name.as_str()).collect();
    let mut out = String::new();
    for (i, part) in crate::wrap(&text, WIDTH - indent).iter().enumerate() {
        let begin = if i == 0 { head.clone() } else { " ".repeat(indent) };
        out += &format!("{begin}{part}\n");
    }
    if !names.is_empty() {
        let text = clean(&names.join(", "));
        out += &format!("{}{}\n", " ".repeat(indent), paint.paint(Style::Dim, &text));
    }
    if let (true, Identification::Ambiguous(ambiguity)) = (verbose, verdict) {
        for doubt in &ambiguity.doubts {
            out += &format!("{}{}\n", " ".repeat(indent), paint.paint(Style::Dim, &doubt.to_string()));
        }
    }
    out
}

/// The counters of an event; `?` where they cannot be observed.
pub(super) fn counters(mask: &MaskFinding) -> String {
    match mask.observable {
        true => mask.belongs.to_string(),
        false => "?".to_owned(),
    }
}

/// The verdict in words.
pub(super) fn meaning(verdict: &Identification, kernels: &KernelTable) -> String {
    let kernel = |index: KernelIndex| kernels.kernel(index).name.clone();
    match verdict {
        Identification::Identified(hypothesis) => hypothesis.sum.to_string(),
        Identification::Ambiguous(ambiguity) => {
            let sums: Vec<String> =
                ambiguity.hypotheses.iter().take(MOST_SHOWN).map(|one| one.sum.to_string()).collect();
            let more = ambiguity.hypotheses.len().saturating_sub(MOST_SHOWN) + ambiguity.not_listed;
            let more = if more > 0 { format!(", or {more} others") } else { String::new() };
            let split = match ambiguity.split {
                Some(Split::Kernel { kernel: index, .. }) => format!("; {} would tell", kernel(index)),
                _ => String::new(),
            };
            format!("{}{more}{split}", sums.join(" or "))
        }
        Identification::Unexplained(response) => {
            let moving = response.kernels.len();
            format!("something that {moving} kernel{} move", if moving == 1 { "" } else { "s" })
        }
        Identification::Irregular(Irregularity::CycleLike { concept, factor }) => {
            format!("cycles: {factor:.2} for each of {concept}")
        }
        Identification::Irregular(Irregularity::Saturating(index)) => {
            format!("up to a limit, in {}", kernel(*index))
        }
        Identification::Irregular(Irregularity::NonLinear(index)) => {
            format!("not in proportion to iterations, in {}", kernel(*index))
        }
        Identification::Irregular(_) => "inconclusive: the counts differ too much".to_owned(),
        Identification::NoSignal => "nothing that these kernels do".to_owned(),
    }
}

/// Remarks for a reader of the verdicts.
pub fn notes(found: &Reversed, machine: &SweepMachine) -> Vec<String> {
    let mut notes = exclusions(found);
    if !machine.observes_masks() {
        notes.push(
            "counters are not observable: perf chooses them; --backend msr, as root, places codes itself"
                .to_owned(),
        );
    }
    notes.push(format!(
        "control: with the names of the kernels shuffled, {} of {} judgements identify an event",
        found.control.identified.len(),
        found.control.judged
    ));
    let same: Vec<String> = found.not_told_apart().iter().map(ToString::to_string).collect();
    if !same.is_empty() {
        notes.push(format!(
            "these kernels do not tell every concept apart; never identified alone: {}",
            same.join(", ")
        ));
    }
    for relation in &found.relations {
        let name = |index: &usize| format!("{:#04x}", found.events[*index].code);
        match relation {
            Relation::Duplicates(same) => {
                notes.push(format!("the same: {}", same.iter().map(name).collect::<Vec<_>>().join(", ")));
            }
            Relation::Sum { whole, parts } => {
                let part = |(index, factor): &(usize, u8)| match factor {
                    1 => name(index),
                    factor => format!("{factor} {}", name(index)),
                };
                let parts: Vec<String> = parts.iter().map(part).collect();
                notes.push(format!("{} = {}", name(whole), parts.join(" + ")));
            }
            _ => {}
        }
    }
    notes
}

/// The codes without a verdict, those of one reason together.
fn exclusions(found: &Reversed) -> Vec<String> {
    let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (code, why) in &found.excluded {
        by_reason.entry(why.to_string()).or_default().push(format!("{code:#04x}"));
    }
    let text = |(why, codes): (String, Vec<String>)| clean(&format!("excluded: {}: {why}", codes.join(", ")));
    by_reason.into_iter().map(text).collect()
}

/// The extent of a sweep, before it is made; `time` is that of one code.
pub fn dry_run(
    machine: &SweepMachine,
    codes: &[u32],
    is_usual: bool,
    settings: &SweepSettings,
    time: Option<SweepTime>,
) -> String {
    let sizes: Vec<String> = settings.sizes().iter().map(ToString::to_string).collect();
    let place = match machine.observes_masks() {
        true => "on all counters at once",
        false => "on a counter that the kernel chooses",
    };
    let mut out = format!("{} codes, {place}\n", codes.len());
    for part in crate::wrap(&clean(&machine.identity()), WIDTH) {
        out += &format!("{part}\n");
    }
    if is_usual && machine.has_unit_masks() {
        out += "each select without a unit mask and with each bit of it; --ids names others\n";
    }
    out += &format!(
        "each kernel twice; if one moves the code, {} times at {} iterations\n",
        settings.repeats,
        sizes.join(", ")
    );
    if let Some(SweepTime { dead_code, live_code }) = time {
        let number = u32::try_from(codes.len()).unwrap_or(u32::MAX);
        out += &format!(
            "about {} if no kernel moves a code, {} if one moves each of them\n",
            duration(dead_code.saturating_mul(number)),
            duration(live_code.saturating_mul(number))
        );
    }
    out + "nothing was swept\n"
}

/// A time in the unit that a reader would take.
fn duration(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 90.0 => format!("{seconds:.1} s"),
        seconds if seconds < 5400.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    }
}

/// As `schemas/reverse-1.json`.
pub fn json(found: &Reversed, machine: &SweepMachine, settings: &SweepSettings) -> Value {
    json!({
        "schema_version": SCHEMA_VERSION,
        "generator": concat!("cyclometer ", env!("CARGO_PKG_VERSION")),
        "machine": machine.identity(),
        "seed": settings.seed,
        "repeats": settings.repeats,
        "sizes": settings.sizes(),
        "kernels": found.kernels.kernels().iter().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>(),
        "control": { "judged": found.control.judged, "identified": found.control.identified.len() },
        "not_told_apart": found.not_told_apart().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "events": found.events.iter().map(|event| event_json(event, found)).collect::<Vec<_>>(),
        "excluded": found.excluded.iter().map(|(code, why)| json!({
            "code": code,
            "reason": why.to_string(),
        })).collect::<Vec<_>>(),
    })
}

fn event_json(event: &ReversedEvent, found: &Reversed) -> Value {
    let Judgement { verdict, mask, linearity, stability, signature, .. } = &event.judgement;
    let hypotheses: Vec<Value> = match verdict {
        Identification::Identified(hypothesis) => vec![hypothesis_json(hypothesis)],
        Identification::Ambiguous(ambiguity) => ambiguity.hypotheses.iter().map(hypothesis_json).collect(),
        _ => Vec::new(),
    };
    let doubts: Vec<String> = match verdict {
        Identification::Ambiguous(ambiguity) => ambiguity.doubts.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    };
    let counters = |mask: CounterMask| mask.iter().map(|counter| counter.to_string()).collect::<Vec<_>>();
    let slopes = signature.responding().map(|slope| {
        json!({
            "kernel": found.kernels.kernel(slope.kernel).name,
            "slope": slope.value,
            "half_width": slope.half_width,
        })
    });
    json!({
        "code": event.code,
        "verdict": verdict.letter().to_string(),
        "text": meaning(verdict, &found.kernels),
        "hypotheses": hypotheses,
        "doubts": doubts,
        "counters": mask.observable.then(|| counters(mask.belongs)),
        "differing_counters": mask.differs.iter().map(|(counter, ratio)| json!({
            "counter": counter.to_string(),
            "ratio": ratio,
        })).collect::<Vec<_>>(),
        "linearity": linearity_word(*linearity),
        "stability": stability_word(*stability),
        "slopes": slopes.collect::<Vec<_>>(),
        "documented": event.documented.iter().map(|known| json!({
            "name": known.name,
            "counters": counters(known.counters.unwrap_or(CounterMask::EMPTY)),
        })).collect::<Vec<_>>(),
    })
}

fn hypothesis_json(hypothesis: &Hypothesis) -> Value {
    json!({
        "sum": hypothesis.sum.to_string(),
        "terms": hypothesis.sum.terms().iter().map(|(concept, weight)| json!({
            "concept": concept.name(),
            "weight": weight.factor(),
        })).collect::<Vec<_>>(),
        "fitting_error": hypothesis.fitting_error,
        "held_out_error": hypothesis.held_out_error,
    })
}

fn linearity_word(linearity: Linearity) -> &'static str {
    match linearity {
        Linearity::Untested => "untested",
        Linearity::Linear => "linear",
        Linearity::Saturating => "saturating",
        Linearity::NonLinear => "non-linear",
    }
}

fn stability_word(stability: Stability) -> &'static str {
    match stability {
        Stability::NotRepeated => "not repeated",
        Stability::Deterministic => "deterministic",
        Stability::CountsInterrupts => "counts interrupts",
        Stability::Noisy => "noisy",
    }
}
