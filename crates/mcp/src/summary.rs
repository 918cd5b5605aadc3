//! Short texts beside the structured results, for clients that show or read only these.

use std::fmt::Write as _;

use serde_json::Value;

/// The most rows of a text.
const MOST_ROWS: usize = 20;

/// Counts of `stat`, with verdict and provenance.
pub fn of_stat(report: &Value) -> String {
    let mut out = String::new();
    for command in list(&report["commands"]) {
        let runs = list(&command["runs"]).len();
        let _ = writeln!(out, "{}: {runs} run{}", words(&command["command"]), plural(runs));
        if let Some(failure) = command["failure"].as_str() {
            let _ = writeln!(out, "warning: {failure}");
        }
        for metric in list(&command["metrics"]).iter().chain(asked(&command["derived"])) {
            let _ = writeln!(out, "{}", of_metric(metric));
        }
        out += &of_rows(&command["by"]);
    }
    for step in list(&report["steps"]) {
        let event = step["event"].as_str().map(|event| format!("{event}: ")).unwrap_or_default();
        let _ = writeln!(out, "note: {event}{}; {}", text(&step["refused"]), text(&step["done"]));
    }
    out
}

/// Derived metrics that have a value, or that were asked for.
fn asked(derived: &Value) -> impl Iterator<Item = &Value> {
    list(derived).iter().filter(|metric| metric["asked"] == true || metric["mean"].is_number())
}

fn of_metric(metric: &Value) -> String {
    let name = text(&metric["name"]);
    let verdict = text(&metric["count"]).replace('_', " ");
    if metric["mean"].is_null() {
        return format!("{name}: {verdict}: {}", text(&metric["reason"]));
    }
    let provenance = match (metric["provenance"].as_str(), &metric["provenances"]) {
        (Some(one), _) => one.to_owned(),
        (None, many) => list(many).iter().map(text).collect::<Vec<_>>().join(" and "),
    };
    let mut out =
        format!("{name}: {} ({verdict}, {provenance}", quantity(&metric["mean"], text(&metric["unit"])));
    match metric["determinism"].as_str() {
        Some("deterministic") => out += ", the same in all counted runs",
        Some("not_checked") | None => {}
        Some(other) => out += &format!(", {}", other.replace('_', " ")),
    }
    if let Some(reason) = metric["reason"].as_str() {
        out += &format!("; {reason}");
    }
    out + ")"
}

/// The rows of `--by`, the largest first.
fn of_rows(by: &Value) -> String {
    let mut out = String::new();
    let total = by["totals"][0].as_f64().filter(|total| *total > 0.0);
    for row in list(&by["rows"]).iter().take(MOST_ROWS) {
        let count = &row["counts"][0];
        let share = total.and_then(|total| Some(100.0 * count.as_f64()? / total));
        let share = share.map_or_else(|| "?".to_owned(), |share| format!("{share:.1}"));
        let _ = writeln!(out, "{:>15} {share:>5} %  {}", quantity(count, ""), place(row));
    }
    out
}

/// The function, line or file of code of a row.
fn place(row: &Value) -> String {
    let object =
        row["object"].as_str().map(|path| path.rsplit('/').next().unwrap_or(path)).unwrap_or_default();
    let line = row["line"].as_u64().map(|line| format!(":{line}")).unwrap_or_default();
    let file = row["file"].as_str().map(|file| format!("{file}{line} ")).unwrap_or_default();
    let function = row["function"].as_str().map(|function| format!("{function} ")).unwrap_or_default();
    format!("{function}{file}{object}")
}

/// Findings of `compare`: each command against the first.
pub fn of_comparison(report: &Value) -> String {
    let mut out = String::new();
    for warning in list(&report["warnings"]) {
        let _ =
            writeln!(out, "warning: {}", warning.as_str().map_or_else(|| warning.to_string(), str::to_owned));
    }
    let commands = list(&report["commands"]);
    let name = |at: usize| commands.get(at).map(|command| text(&command["name"])).unwrap_or_default();
    for failure in commands.iter().filter_map(|command| command["failure"].as_str()) {
        let _ = writeln!(out, "warning: {failure}");
    }
    for comparison in list(&report["comparisons"]) {
        let at = comparison["command"].as_u64().and_then(|at| usize::try_from(at).ok()).unwrap_or_default();
        let _ = writeln!(out, "{} against {}:", name(at), name(0));
        for metric in list(&comparison["metrics"]) {
            let _ = writeln!(out, "{}", of_change(metric));
        }
        for change in list(&comparison["by"]["changes"]).iter().take(MOST_ROWS) {
            let _ = writeln!(out, "{}", of_code(change));
        }
    }
    out
}

fn of_change(metric: &Value) -> String {
    let (unit, finding) = (text(&metric["unit"]), text(&metric["finding"]).replace('_', " "));
    let mut out = format!("{}: {finding}", text(&metric["name"]));
    if metric["a"]["mean"].is_number() && metric["b"]["mean"].is_number() {
        let (a, b) = (quantity(&metric["a"]["mean"], unit), quantity(&metric["b"]["mean"], unit));
        out += &format!(", {a} to {b}");
    }
    if let Some(change) = signed_change(&metric["change"], "estimate", unit) {
        let bounds =
            [signed_change(&metric["change"], "low", unit), signed_change(&metric["change"], "high", unit)];
        out += &match (metric["basis"].as_str(), bounds) {
            (Some("deterministic"), _) => format!(" ({change}, exactly)"),
            (_, [Some(low), Some(high)]) => format!(" ({change}, 95 % interval {low} to {high})"),
            _ => format!(" ({change})"),
        };
    }
    if let Some(reason) = metric["reason"].as_str() {
        out += &format!("; {reason}");
    }
    out
}

/// One number of a change: a share, or a difference in the unit of the metric.
fn signed_change(change: &Value, field: &str, unit: &str) -> Option<String> {
    match (change["is_relative"].as_bool(), &change[field]) {
        (Some(true), share) => Some(format!("{:+.2} %", 100.0 * share.as_f64()?)),
        (Some(false), difference) => Some(signed(difference.as_f64()?, unit)),
        (None, _) => None,
    }
}

/// The change of a function: its counts of the first event.
fn of_code(change: &Value) -> String {
    let difference = change["counts"][0]["change"].as_f64();
    let code = if change["b"].is_null() { &change["a"] } else { &change["b"] };
    let difference = difference.map_or_else(|| "?".to_owned(), |difference| signed(difference, ""));
    format!("{difference:>15} {}", place(code))
}

/// Passes of `plan`; of each core type, where there are several.
pub fn of_plan(report: &Value) -> String {
    if let Some(plans) = report["core_types"].as_array() {
        return plans.iter().map(|plan| format!("{}: {}", text(&plan["cpu"]), of_plan(plan))).collect();
    }
    let passes = list(&report["passes"]);
    let mut out = format!("{} pass{}\n", passes.len(), if passes.len() == 1 { "" } else { "es" });
    for (number, pass) in passes.iter().enumerate() {
        let events = list(pass)
            .iter()
            .map(|one| format!("{} on counter {}", text(&one["event"]), text(&one["counter"])));
        let _ = writeln!(out, "pass {}: {}", number + 1, events.collect::<Vec<_>>().join(", "));
    }
    for event in list(&report["unplaced"]) {
        let group: Vec<&str> =
            list(&event["group"]).iter().chain([&event["event"]]).filter_map(Value::as_str).collect();
        let _ = writeln!(out, "not counted: {}: {}", group.join(", "), text(&event["reason"]));
    }
    out
}

/// Entries of `list`.
pub fn of_list(report: &Value) -> String {
    let mut out = String::new();
    for entry in list(report) {
        let _ = write!(out, "{}", text(&entry["name"]));
        if let Some(description) = entry["description"].as_str().filter(|text| !text.is_empty()) {
            let _ = write!(out, ": {description}");
        }
        match (entry["available"].as_bool(), entry["reason"].as_str()) {
            (Some(false), Some(reason)) => out += &format!(" (not here: {reason})"),
            (Some(true), _) => out += &format!(" (counted by {})", text(&entry["source"])),
            _ => {}
        }
        out.push('\n');
    }
    out
}

/// Codes of `encode`.
pub fn of_encoding(encoding: &Value) -> String {
    let codes = list(encoding).iter().filter(|one| one["config"].is_string());
    codes
        .map(|one| {
            format!(
                "{} on {}: perf config {}\n",
                text(&one["event"]),
                text(&one["cpu"]),
                text(&one["config"])
            )
        })
        .collect()
}

/// Sources of `doctor`.
pub fn of_doctor(report: &Value) -> String {
    let machine = &report["machine"];
    let mut out = format!("{} {}", text(&machine["vendor"]), text(&machine["cpu_name"]));
    if let Some(hypervisor) = machine["hypervisor"].as_str() {
        let _ = write!(out, ", in {hypervisor}");
    }
    out.push('\n');
    for source in list(&report["ladder"]).iter().filter(|source| source["works"] != "not_here") {
        let _ = writeln!(
            out,
            "{} ({}): {}",
            text(&source["rung"]),
            text(&source["title"]),
            text(&source["works"])
        );
        for cause in list(&source["causes"]) {
            let _ = writeln!(out, "  {}", text(&cause["text"]));
            if let Some(fix) = cause["mend"].as_str() {
                let _ = writeln!(out, "  fix: {fix}");
            }
        }
    }
    out
}

/// Findings of `advise`, the most costly first, each with its numbers.
pub fn of_advice(report: &Value) -> String {
    let mut out: String = list(&report["findings"]).iter().map(of_finding).collect();
    let has_judged = !list(&report["inconspicuous"]).is_empty();
    if out.is_empty() {
        out += if has_judged { "nothing stands out\n" } else { "nothing could be judged\n" };
    }
    for (what, failed) in [("exit status", "exit"), ("signal", "signal")] {
        if let Some(number) = report["failed"][failed].as_i64() {
            let _ = writeln!(out, "warning: an execution of the command failed with {what} {number}");
        }
    }
    let unjudged: Vec<&str> = list(&report["not_measured"]).iter().map(|rule| text(&rule["rule"])).collect();
    if !unjudged.is_empty() {
        let _ = writeln!(out, "not judged, for want of counts: {}", unjudged.join(", "));
    }
    for note in list(&report["notes"]) {
        let _ = writeln!(out, "note: {}", text(note));
    }
    out
}

fn of_finding(finding: &Value) -> String {
    let share = finding["share"].as_f64().map(|share| format!("; about {:.0} % of the time", 100.0 * share));
    let (title, confidence) = (text(&finding["title"]), text(&finding["confidence"]));
    let mut out =
        format!("{title} ({confidence}, by {}{})\n", text(&finding["evidence"]), share.unwrap_or_default());
    for number in list(&finding["numbers"]) {
        let value = number["value"].as_f64().map_or_else(|| "?".to_owned(), rounded);
        let _ = writeln!(out, "  {value} {} ({})", text(&number["label"]), text(&number["threshold"]));
    }
    for function in list(&finding["functions"]).iter().take(MOST_ROWS) {
        let _ = writeln!(out, "  in {}", place(function));
    }
    let _ = writeln!(out, "  advice: {}", text(&finding["advice"]));
    // A command is one line, so that it can be copied.
    for command in list(&finding["next"]) {
        let _ = writeln!(out, "  next: {}", text(command));
    }
    out
}

/// A number with three or more digits.
fn rounded(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => signed_digits(value, magnitude(size.round())),
        size if size >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

fn signed_digits(value: f64, digits: String) -> String {
    if value < 0.0 { format!("-{digits}") } else { digits }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

fn words(command: &Value) -> String {
    shell_words::join(list(command).iter().map(text))
}

/// A number with its unit: whole numbers with separators, others with six digits.
fn quantity(value: &Value, unit: &str) -> String {
    let digits = match (value.as_u64(), value.as_f64()) {
        (Some(whole), _) => separated(whole),
        (None, Some(real)) => magnitude(real),
        (None, None) => "?".to_owned(),
    };
    with_unit(digits, unit)
}

/// A difference with its sign.
fn signed(difference: f64, unit: &str) -> String {
    let digits = magnitude(difference.abs());
    with_unit(if difference < 0.0 { format!("-{digits}") } else { format!("+{digits}") }, unit)
}

fn magnitude(real: f64) -> String {
    let is_whole = real.fract() == 0.0 || real >= 1e6;
    match is_whole && (0.0..1e18).contains(&real) {
        true => separated(real.round() as u64),
        false => format!("{real:.6}").trim_end_matches('0').trim_end_matches('.').to_owned(),
    }
}

fn with_unit(digits: String, unit: &str) -> String {
    if unit.is_empty() { digits } else { format!("{digits} {unit}") }
}

fn separated(whole: u64) -> String {
    let digits = whole.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_metric_says_how_it_was_counted_and_a_missing_one_why_it_is_missing() {
        let counted = json!({"name": "instructions:u", "mean": 1234567, "unit": "", "count": "exact",
            "provenance": "counted", "determinism": "deterministic", "reason": null});
        assert_eq!(
            of_metric(&counted),
            "instructions:u: 1,234,567 (exact, counted, the same in all counted runs)"
        );
        let missing = json!({"name": "cycles:u", "mean": null, "count": "not_supported", "reason": "no PMU"});
        assert_eq!(of_metric(&missing), "cycles:u: not supported: no PMU");
        let derived = json!({"name": "ipc", "mean": 1.25, "unit": "", "count": "scaled",
            "provenances": ["hardware", "kernel"], "reason": "shared"});
        assert_eq!(of_metric(&derived), "ipc: 1.25 (scaled, hardware and kernel; shared)");
    }

    #[test]
    fn a_failed_run_is_in_the_text() {
        let report = json!({"commands": [{"command": ["./a", "b c"], "runs": [{}, {}],
            "failure": "the command exited with status 3 in run 1", "metrics": [], "derived": []}]});
        let text = of_stat(&report);
        assert_eq!(text, "./a 'b c': 2 runs\nwarning: the command exited with status 3 in run 1\n");
    }

    #[test]
    fn rows_have_shares_and_places() {
        let by = json!({"totals": [200], "rows": [
            {"object": "/lib/libc.so.6", "function": "memcpy", "file": null, "line": null, "counts": [150]},
            {"object": "/x/a", "function": null, "file": "a.c", "line": 7, "counts": [50]}]});
        assert_eq!(
            of_rows(&by),
            "            150  75.0 %  memcpy libc.so.6\n             50  25.0 %  a.c:7 a\n"
        );
    }

    #[test]
    fn a_change_has_both_values() {
        let exact = json!({"name": "loads:u", "unit": "", "finding": "changed", "basis": "deterministic",
            "change": {"is_relative": true, "estimate": 0.5, "low": 0.5, "high": 0.5}, "reason": null,
            "a": {"mean": 1000}, "b": {"mean": 1500}});
        assert_eq!(of_change(&exact), "loads:u: changed, 1,000 to 1,500 (+50.00 %, exactly)");
        let difference = json!({"name": "system_time", "unit": "ns", "finding": "inconclusive", "basis": "pairs",
            "change": {"is_relative": false, "estimate": -1295333.5, "low": -2e6, "high": 5.0},
            "reason": null, "a": {"mean": 1295333.5}, "b": {"mean": 0}});
        assert_eq!(
            of_change(&difference),
            "system_time: inconclusive, 1,295,334 ns to 0 ns (-1,295,334 ns, 95 % interval -2,000,000 ns to +5 ns)"
        );
    }

    #[test]
    fn advice_has_numbers_functions_and_what_was_not_judged() {
        let report = json!({
            "findings": [{"title": "bound by memory", "share": 0.4, "confidence": "likely", "evidence": "model",
                "numbers": [{"label": "misses in 1,000 instructions", "value": 166.4, "threshold": "> 4"},
                    {"label": "loads", "value": 1234567.0, "threshold": "> 0"},
                    {"label": "a rate", "value": null, "threshold": "> 0"}],
                "functions": [{"object": "/x/a", "function": "walk", "share": 0.9}], "advice": "walk by rows",
                "next": ["cyclometer stat", "perf c2c"]}],
            "inconspicuous": [], "not_measured": [{"rule": "branches", "needs": ["a PMU"]}], "notes": []});
        assert_eq!(
            of_advice(&report),
            "bound by memory (likely, by model; about 40 % of the time)\n  \
             166 misses in 1,000 instructions (> 4)\n  1,234,567 loads (> 0)\n  ? a rate (> 0)\n  in walk a\n  \
             advice: walk by rows\n  next: cyclometer stat\n  next: perf c2c\nnot judged, for want of counts: branches\n"
        );
    }

    #[test]
    fn advice_without_findings_tells_whether_anything_was_judged_and_that_the_command_failed() {
        let report = |judged: Value, exit: Value| json!({"findings": [], "inconspicuous": judged, "failed": {"exit": exit, "signal": null}});
        assert_eq!(of_advice(&report(json!(["page-faults"]), Value::Null)), "nothing stands out\n");
        assert_eq!(
            of_advice(&report(json!([]), json!(3))),
            "nothing could be judged\nwarning: an execution of the command failed with exit status 3\n"
        );
    }

    #[test]
    fn a_missing_interval_is_no_zero() {
        let few = json!({"name": "wall_time", "unit": "ns", "finding": "inconclusive", "basis": "pairs",
            "change": {"is_relative": true, "estimate": -0.5, "low": null, "high": null},
            "reason": "too few pairs", "a": {"mean": 10}, "b": {"mean": 5}});
        assert_eq!(of_change(&few), "wall_time: inconclusive, 10 ns to 5 ns (-50.00 %); too few pairs");
    }
}
