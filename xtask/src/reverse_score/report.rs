//! The score as text.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use super::found::Found;
use super::hidden_chip::HiddenChip;
use super::tally::{Certainty, Tally};
use super::truth::HiddenKind;

const KINDS: [HiddenKind; 11] = [
    HiddenKind::Single,
    HiddenKind::Sum,
    HiddenKind::Scaled,
    HiddenKind::Noisy,
    HiddenKind::WrongPaths,
    HiddenKind::Saturating,
    HiddenKind::Threshold,
    HiddenKind::State,
    HiddenKind::Duration,
    HiddenKind::Differing,
    HiddenKind::Dead,
];

/// The score on one chip.
pub(crate) fn of_chip(chip: &HiddenChip, seeds: &RangeInclusive<u64>, tally: &Tally) -> String {
    let mut text = format!(
        "sim:{}, seeds {} to {}, {} kernels\n\n",
        chip.model.id,
        seeds.start(),
        seeds.end(),
        chip.table.kernels().len()
    );
    letters(&mut text, tally);
    calibration(&mut text, tally);
    threshold(&mut text, tally);
    controls(&mut text, tally);
    speed(&mut text, tally);
    text
}

fn letters(text: &mut String, tally: &Tally) {
    let _ = writeln!(text, "{:<22}{:>7}{:>7}{:>7}{:>7}{:>7}", "hidden event", 'A', 'B', 'C', 'D', 'E');
    for kind in KINDS {
        let _ = write!(text, "{kind:<22}");
        for letter in 'A'..='E' {
            let count = tally.letters.get(&(kind, letter)).copied().unwrap_or(0);
            let _ = write!(text, "{count:>7}");
        }
        let same =
            tally.equals.get(&kind).map(|same| format!("   {same} of A count the same in every kernel"));
        let _ = writeln!(text, "{}", same.unwrap_or_default());
    }
}

fn calibration(text: &mut String, tally: &Tally) {
    let _ =
        writeln!(text, "\n{:<36}{:>8}{:>12}{:>12}", "verdict on sums", "events", "first right", "one right");
    for (certainty, counts) in &tally.calibration {
        let name = match certainty {
            Certainty::Identified => "A",
            Certainty::Doubted => "B, one hypothesis",
            Certainty::Few => "B, 2 or 3 hypotheses",
            Certainty::Many => "B, 4 to 24 hypotheses",
            Certainty::NotAllListed => "B, more than 24, of which 24 listed",
        };
        let _ = writeln!(text, "{name:<36}{:>8}{:>12}{:>12}", counts.answers, counts.first, counts.some);
    }
}

fn threshold(text: &mut String, tally: &Tally) {
    let _ =
        writeln!(text, "\n{:<36}{:>8}{:>12}{:>12}", "five documented misses", "found", "precision", "recall");
    let rows: [(&str, Found); 3] = [
        ("threshold method", tally.threshold.published),
        ("threshold method, matched controls", tally.threshold.matched),
        ("verdict A", tally.threshold.inference),
    ];
    for (name, found) in rows {
        let _ =
            writeln!(text, "{name:<36}{:>8}{:>12.3}{:>12.3}", found.found, found.precision(), found.recall());
    }
}

fn controls(text: &mut String, tally: &Tally) {
    let families = tally.families;
    let _ = writeln!(
        text,
        "\none family left out of {} checks: {} right, {} undecided, {} right but a kernel left out is not predicted, \
         {} wrong and refuted by it, {} wrong",
        families.checks,
        families.right,
        families.undecided,
        families.not_predicted,
        families.refuted,
        families.wrong
    );
}

fn speed(text: &mut String, tally: &Tally) {
    let tables = tally.tables.max(1) as f64;
    let _ = writeln!(
        text,
        "{:.1} s to sweep {} codes, {:.2} ms to judge a live one (median)",
        tally.sweep_time.as_secs_f64() / tables,
        tally.codes / tally.tables.max(1),
        1000.0 * tally.judging_time().as_secs_f64()
    );
}

/// The figures that have limits, over all chips.
pub(crate) fn limits(tally: &Tally) -> String {
    let (dead, identifiable, masks) = (tally.dead(), tally.identifiable, tally.masks);
    format!(
        "live hidden events         {}\n\
         verdicts A                 {}, {} wrong (at most {:.2} % at 95 % confidence)\n\
         sums of concepts           {} of {} identified\n\
         those that can be told     {} of {} identified: recall {:.3}\n\
         masks                      {} of {} exact\n\
         dead codes                 {} of {} found, {} live ones called dead\n\
         shuffled labels            {} of {} verdicts are A\n",
        tally.live(),
        tally.identified(),
        tally.wrong().len(),
        100.0 * tally.error_bound(),
        tally.sums.right,
        tally.sums.wanted,
        identifiable.right,
        identifiable.wanted,
        identifiable.recall(),
        masks.right,
        masks.wanted,
        dead.right,
        dead.wanted,
        dead.found - dead.right,
        tally.shuffled_identified(),
        tally.shuffled,
    )
}
