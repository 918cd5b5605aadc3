//! The report of a search by a threshold.

use cyclometer_toolkit::inference::{ThresholdAnswer, ThresholdRule};
use cyclometer_toolkit::reverse::SweepMachine;
use cyclometer_toolkit::sweep::ThresholdCode;

use crate::paint::{Paint, Style};
use crate::table;
use crate::text::clean;

/// A row for each hit, and the numbers of the other codes.
pub fn render(found: &[ThresholdCode], rule: ThresholdRule, paint: Paint) -> String {
    let heading = format!("  {:<8} {:>7} {:>14} {:>14}", "code", "counter", "control", "kernel");
    let mut out = format!("{}\n", paint.paint(Style::Heading, &heading));
    let (mut hits, mut noise, mut misses) = (0, 0, 0);
    for code in found {
        match &code.answer {
            Ok(ThresholdAnswer::Hit(index)) => {
                hits += 1;
                out += &row(code, *index);
            }
            Ok(ThresholdAnswer::Noise(_)) => noise += 1,
            Ok(ThresholdAnswer::Miss) => misses += 1,
            Err(_) => {}
        }
    }
    let ThresholdRule { runs, deviation } = rule;
    out += &format!(
        "\n  hit   {hits:>5}  {runs} ± {deviation} with the kernel, at most {deviation} with the control\n\
         \x20 noise {noise:>5}  more than {deviation} with the control\n  miss  {misses:>5}  neither\n\n"
    );
    for (code, why) in found.iter().filter_map(|code| Some((code.code, code.answer.as_ref().err()?))) {
        out += &table::remark(&clean(&format!("refused: {code:#04x}: {why}")), paint);
    }
    out += &table::remark(
        "a hit may count an instruction that the control lacks, and not its effect; without --kernel, `reverse` \
         compares misses with hits of the same instruction",
        paint,
    );
    out
}

/// A hit, with the counts on the counter that shows it; a counter without a number is the kernel's choice.
fn row(code: &ThresholdCode, index: usize) -> String {
    let count = |counts: &[u64]| counts.get(index).copied().unwrap_or_default();
    let counter = code.counter(index).map_or_else(|| "?".to_owned(), |counter| counter.to_string());
    let name = format!("{:#04x}", code.code);
    format!("  {name:<8} {counter:>7} {:>14} {:>14}\n", count(&code.control), count(&code.real))
}

/// The extent of a search, before it is made.
pub fn dry_run(machine: &SweepMachine, codes: usize, rule: ThresholdRule) -> String {
    format!(
        "{codes} codes of {}\neach {} times with the control, and as often with the kernel\nnothing was swept\n",
        clean(&machine.identity()),
        rule.runs
    )
}
