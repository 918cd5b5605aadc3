//! Labels and whether their codes count that, for people and as JSON by `schemas/reverse-check-1.json`.

use cyclometer_toolkit::catalogue::claims::ClaimTable;
use cyclometer_toolkit::claims::{CheckedClaim, CheckedClaims};
use cyclometer_toolkit::inference::{ClaimDoubt, ClaimFinding, ClaimRefutation, Identification, KernelTable};
use cyclometer_toolkit::simulated::PREFIX;
use cyclometer_toolkit::sweep::SweepSettings;
use serde_json::{Value, json};

use crate::paint::{Paint, Style};
use crate::reversed::meaning;
use crate::text::clean;
use crate::{WIDTH, hanging, table, wrap};

/// Version of the schema.
pub const SCHEMA_VERSION: u32 = 1;

/// Columns before the explanation of a row.
const INDENT: usize = 11;

/// A row for each label, then how many agree.
pub fn render(checked: &CheckedClaims, labels: &ClaimTable, machine: &str, paint: Paint) -> String {
    let heading = format!("  {:<8} {:<12} label", "code", "");
    let mut out = format!("{}\n", paint.paint(Style::Heading, &heading));
    checked.claims.iter().for_each(|claim| out += &row(claim, &checked.kernels, paint));
    let [agree, disagree, undecided] = checked.numbers();
    out += "\n";
    for (word, number, about) in [
        ("agrees", agree, "nothing else explains the counts"),
        ("disagrees", disagree, "the counts are not what the label says"),
        ("cannot tell", undecided, "these kernels do not decide"),
    ] {
        out += &format!("  {word:<12} {number:>5}  {about}\n");
    }
    out += "\n";
    for (claim, why) in &checked.excluded {
        let labels = claim.labels.join(", ");
        out += &table::remark(&clean(&format!("not counted: {:#04x} ({labels}): {why}", claim.code)), paint);
    }
    out += &table::remark(&clean(&format!("labels of {}: {}", labels.name, labels.title)), paint);
    if let Some(note) = other_machine(labels, machine) {
        out += &table::remark(&clean(&note), paint);
    }
    out
}

fn row(checked: &CheckedClaim, kernels: &KernelTable, paint: Paint) -> String {
    let CheckedClaim { claim, finding, .. } = checked;
    let style = match finding {
        ClaimFinding::Agrees => Style::Good,
        ClaimFinding::Disagrees(_) => Style::Bad,
        ClaimFinding::Undecided(_) => Style::Dim,
    };
    let word = paint.paint(style, &format!("{:<12}", outcome(finding)));
    let head = format!("  {:<8} {word} ", format!("{:#04x}", claim.code));
    let labels = clean(&claim.labels.join(", "));
    let indent = INDENT + 13;
    let mut out = String::new();
    for (i, part) in wrap(&labels, WIDTH - indent).iter().enumerate() {
        out += &if i == 0 { format!("{head}{part}\n") } else { format!("{:indent$}{part}\n", "") };
    }
    let text = clean(&reason(checked, kernels));
    out + &hanging(&" ".repeat(INDENT), &text, str::to_owned)
}

const fn outcome(finding: &ClaimFinding) -> &'static str {
    match finding {
        ClaimFinding::Agrees => "agrees",
        ClaimFinding::Disagrees(_) => "disagrees",
        ClaimFinding::Undecided(_) => "cannot tell",
    }
}

/// The reason for the outcome, as a sentence without full stop.
fn reason(checked: &CheckedClaim, kernels: &KernelTable) -> String {
    let verdict = &checked.event.judgement.verdict;
    let counts = counted(verdict, kernels);
    match &checked.finding {
        ClaimFinding::Agrees => counts,
        ClaimFinding::Disagrees(ClaimRefutation::Whole) => {
            format!("{counts}: all of them, where the label says some")
        }
        ClaimFinding::Disagrees(ClaimRefutation::Slope { kernel, predicted, measured }) => {
            let name = &kernels.kernel(*kernel).name;
            let measured = measured.max(0.0);
            format!("{counts}; in {name} {measured:.2} for each iteration, by the label {predicted:.2}")
        }
        ClaimFinding::Undecided(ClaimDoubt::NoConcept) => {
            let why = checked.claim.unclear.as_deref().unwrap_or("no concept for the label");
            format!("{why}; {counts}")
        }
        ClaimFinding::Undecided(doubt @ (ClaimDoubt::FitsToo(_) | ClaimDoubt::NotMoved)) => doubt.to_string(),
        ClaimFinding::Undecided(doubt) => format!("{doubt}; {counts}"),
    }
}

fn counted(verdict: &Identification, kernels: &KernelTable) -> String {
    match verdict {
        Identification::NoSignal => "counts nothing here".to_owned(),
        verdict => format!("counts {}", meaning(verdict, kernels)),
    }
}

/// The remark that the labels are of another chip.
fn other_machine(labels: &ClaimTable, machine: &str) -> Option<String> {
    let chip = machine.strip_prefix(PREFIX).unwrap_or(machine);
    let other = !labels.cpus.is_empty() && !labels.cpus.iter().any(|cpu| cpu == chip);
    other.then(|| format!("these labels are about {}, and the machine is {machine}", labels.cpus.join(", ")))
}

/// As `schemas/reverse-check-1.json`.
pub fn json(checked: &CheckedClaims, labels: &ClaimTable, machine: &str, settings: &SweepSettings) -> Value {
    let [agree, disagree, undecided] = checked.numbers();
    json!({
        "schema_version": SCHEMA_VERSION,
        "generator": concat!("cyclometer ", env!("CARGO_PKG_VERSION")),
        "machine": machine,
        "table": {
            "name": labels.name,
            "title": labels.title,
            "source": labels.source,
            "cpus": labels.cpus,
            "vendor": labels.vendor,
        },
        "seed": settings.seed,
        "repeats": settings.repeats,
        "sizes": settings.sizes(),
        "numbers": { "agrees": agree, "disagrees": disagree, "cannot_tell": undecided },
        "claims": checked.claims.iter().map(|claim| claim_json(claim, &checked.kernels)).collect::<Vec<_>>(),
        "excluded": checked.excluded.iter().map(|(claim, why)| json!({
            "code": claim.code,
            "labels": claim.labels,
            "reason": why.to_string(),
        })).collect::<Vec<_>>(),
    })
}

fn claim_json(checked: &CheckedClaim, kernels: &KernelTable) -> Value {
    let CheckedClaim { claim, finding, event } = checked;
    let evidence = match finding {
        ClaimFinding::Disagrees(ClaimRefutation::Slope { kernel, predicted, measured }) => json!({
            "kernel": kernels.kernel(*kernel).name,
            "predicted": predicted,
            "measured": measured,
        }),
        _ => Value::Null,
    };
    json!({
        "code": claim.code,
        "labels": claim.labels,
        "meanings": claim.meanings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "outcome": outcome(finding),
        "reason": reason(checked, kernels),
        "evidence": evidence,
        "verdict": event.judgement.verdict.letter().to_string(),
        "counts": meaning(&event.judgement.verdict, kernels),
        "documented": event.documented.iter().map(|known| known.name.as_str()).collect::<Vec<_>>(),
    })
}
