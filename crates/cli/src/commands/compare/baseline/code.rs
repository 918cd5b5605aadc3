//! The counts by code of a baseline.

use std::collections::BTreeSet;

use cyclometer_toolkit::core::Provenance;
use cyclometer_toolkit::stats::compare::Series;
use cyclometer_toolkit::symbols::{CodeName, CodeSeries, Grouping};
use serde_json::Value;

use super::{BaselineProblem, BaselineRead, SAVE_ANEW};

/// Reads `by` of a command that `compare` or `stat` wrote, with inlined functions apart if it has them;
/// `None` where it has none, or lines, which `compare` does not read.
pub(super) fn read(command: &Value) -> BaselineRead<Option<CodeSeries>> {
    let Some(by) = command.get("by") else { return Ok(None) };
    let word = by.get("grouping").and_then(Value::as_str).unwrap_or_default();
    let grouping = match word {
        "function" => Grouping::Function,
        "object" => Grouping::Object,
        "line" => return Ok(None),
        _ => return Err(problem("'by' has no grouping that is known")),
    };
    let texts = |key: &str| -> BaselineRead<Vec<String>> {
        let texts = by.get(key).and_then(Value::as_array);
        let texts = texts.map(|all| all.iter().filter_map(Value::as_str).map(str::to_owned).collect());
        texts.ok_or_else(|| problem(&format!("'by' has no list '{key}'")))
    };
    let mut series = CodeSeries::new(grouping, texts("events")?);
    series.notes = texts("notes")?;
    // A file of `stat` is of one run.
    let runs = by.get("runs").map_or(Some(1), Value::as_u64).and_then(|runs| usize::try_from(runs).ok());
    series.runs = runs
        .filter(|runs| (1..=MOST_RUNS).contains(runs))
        .ok_or_else(|| problem("'by' has no number of runs"))?;
    let rows = by.get("rows").and_then(Value::as_array).ok_or_else(|| problem("'by' has no list 'rows'"))?;
    series.has_inlined = rows.iter().any(|row| row.get("inlined_into").is_some());
    let mut names = BTreeSet::new();
    for row in rows {
        let [object, function, inlined_into] =
            ["object", "function", "inlined_into"].map(|key| part(row, key));
        let name = CodeName { object, function, inlined_into, ..CodeName::default() };
        let counts = counts(row, &series).ok_or_else(|| {
            let function = name.function.as_deref().unwrap_or("[unknown]");
            problem(&format!("the counts of {function} are not {} whole numbers", series.events.len()))
        })?;
        if !names.insert(name.clone()) {
            return Err(problem("'by' has two rows of one name"));
        }
        series.rows.insert(name, counts);
    }
    Ok(Some(series))
}

/// The counts for a comparison that shows inlined functions, or does not: then their counts are part of
/// those of the function around them.
pub(super) fn as_asked(code: CodeSeries, inlines: bool) -> BaselineRead<CodeSeries> {
    if inlines || !code.has_inlined {
        return Ok(code);
    }
    code.without_inlined().ok_or_else(|| problem("the counts of 'by' are too large"))
}

/// The counts by code of the events that the command has counts of; `None` where it has none. Events whose
/// metric says why they are not exact, and which have no counts by code, are left out.
pub(super) fn counted(mut code: CodeSeries, metrics: &[Series]) -> BaselineRead<Option<CodeSeries>> {
    let metric = |event: &str| metrics.iter().find(|metric| metric.name == event);
    for (index, event) in code.events.iter().enumerate() {
        let Some(metric) = metric(event) else { continue };
        let values = metric.present();
        let Some(count) = values.first().filter(|first| values.iter().all(|value| value == *first)) else {
            continue;
        };
        let other = |sum: &Option<u64>| sum.is_none_or(|sum| sum as f64 != *count);
        if metric.is_counted() && code.totals(index).iter().any(other) {
            return Err(problem(&format!("the rows of 'by' do not add up to {event}, which is {count}")));
        }
    }
    code.left_out =
        metrics.iter().filter(|metric| is_left_out(metric, &code)).map(|m| m.name.clone()).collect();
    let has_count = |event: &String| metric(event).is_none_or(|metric| !metric.present().is_empty());
    let kept: Vec<bool> = code.events.iter().map(has_count).collect();
    for run in code.rows.values_mut().flatten() {
        let mut kept = kept.iter();
        run.retain(|_| kept.next() == Some(&true));
    }
    let mut each = kept.iter();
    code.events.retain(|_| each.next() == Some(&true));
    Ok(Some(code).filter(|code| !code.events.is_empty()))
}

/// Whether an event of the software PMU has no counts by code, for the reason that its metric has.
fn is_left_out(metric: &Series, code: &CodeSeries) -> bool {
    let is_counted = |all: &Vec<Provenance>| all.contains(&Provenance::Counted);
    metric.reason.is_some()
        && metric.provenances.as_ref().is_none_or(is_counted)
        && !code.events.contains(&metric.name)
}

/// Most runs of a command: a row has a count for each.
const MOST_RUNS: usize = 1000;

fn part(row: &Value, key: &str) -> Option<String> {
    row.get(key).and_then(Value::as_str).map(str::to_owned)
}

/// The counts of each run: those of all runs that differ, else those of the first for each.
fn counts(row: &Value, series: &CodeSeries) -> Option<Vec<Vec<u64>>> {
    let of_run = |counts: &Value| -> Option<Vec<u64>> {
        let counts: Option<Vec<u64>> = counts.as_array()?.iter().map(Value::as_u64).collect();
        counts.filter(|counts| counts.len() == series.events.len())
    };
    match row.get("runs") {
        Some(runs) => {
            let runs: Option<Vec<Vec<u64>>> = runs.as_array()?.iter().map(of_run).collect();
            runs.filter(|runs| runs.len() == series.runs)
        }
        None => of_run(row.get("counts")?).map(|counts| vec![counts; series.runs]),
    }
}

fn problem(text: &str) -> BaselineProblem {
    BaselineProblem::new(text, SAVE_ANEW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::compare::code::series_json;
    use serde_json::json;

    fn series() -> CodeSeries {
        let mut series = CodeSeries::new(Grouping::Function, vec!["a".to_owned(), "b".to_owned()]);
        (series.runs, series.notes) = (2, vec!["note".to_owned()]);
        let name = |object: Option<&str>, function: Option<&str>| CodeName {
            object: object.map(str::to_owned),
            function: function.map(str::to_owned),
            ..CodeName::default()
        };
        series.rows.insert(name(Some("/p"), Some("f")), vec![vec![1, u64::MAX], vec![1, u64::MAX]]);
        series.rows.insert(name(Some("/p"), None), vec![vec![1, 2], vec![3, 4]]);
        series.rows.insert(name(None, None), vec![vec![5, 6], vec![5, 6]]);
        series
    }

    #[test]
    fn what_compare_wrote_is_read_again() {
        let written = json!({ "by": series_json(&series()) });
        assert_eq!(read(&written).unwrap(), Some(series()));
        assert_eq!(read(&json!({})).unwrap(), None);
        let mut inlined = series();
        inlined.has_inlined = true;
        let name = |into: Option<&str>| CodeName {
            function: Some("g".to_owned()),
            inlined_into: into.map(str::to_owned),
            ..CodeName::default()
        };
        inlined.rows.insert(name(Some("f")), vec![vec![7, 8]; 2]);
        inlined.rows.insert(name(None), vec![vec![9, 10]; 2]);
        let written = json!({ "by": series_json(&inlined) });
        assert_eq!(read(&written).unwrap(), Some(inlined));
    }

    #[test]
    fn what_stat_wrote_is_one_run() {
        let row = json!({"object": null, "function": "f", "file": null, "line": null, "counts": [7]});
        let mut by =
            json!({"grouping": "function", "events": ["a"], "totals": [7], "rows": [row], "notes": []});
        let read_by = |by: &Value| read(&json!({ "by": by })).unwrap();
        let series = read_by(&by).unwrap();
        assert_eq!((series.runs, series.totals(0)), (1, vec![Some(7)]));
        by["grouping"] = json!("line");
        assert_eq!(read_by(&by), None);
    }

    #[test]
    fn inlined_functions_are_part_of_the_function_around_them_unless_they_are_asked_for() {
        let row = |function: &str, into: Option<&str>, count: u64| {
            json!({"object": "/p", "function": function, "file": null, "line": null, "inlined_into": into,
                   "counts": [count]})
        };
        let read_rows = |rows: &[Value]| {
            let by = json!({"grouping": "function", "events": ["a"], "rows": rows, "notes": []});
            read(&json!({ "by": by })).map(Option::unwrap)
        };
        let rows = [row("f", Some("g"), 7), row("g", None, 5), row("f", None, 3), row("h", Some("g"), 2)];
        let apart = as_asked(read_rows(&rows).unwrap(), true).unwrap();
        assert_eq!((apart.rows.len(), apart.has_inlined, apart.totals(0)), (4, true, vec![Some(17)]));
        let series = as_asked(apart, false).unwrap();
        assert!(!series.has_inlined);
        let counts: Vec<(&str, u64)> = series
            .rows
            .iter()
            .map(|(name, counts)| (name.function.as_deref().unwrap(), counts[0][0]))
            .collect();
        assert_eq!((counts, series.totals(0)), (vec![("f", 3), ("g", 14)], vec![Some(17)]));
        let twice = read_rows(&[row("f", Some("g"), 1), row("f", Some("g"), 1)]).unwrap_err();
        assert_eq!(twice.text, "'by' has two rows of one name");
        let large = read_rows(&[row("f", Some("g"), u64::MAX), row("g", None, 1)]).unwrap();
        let large = as_asked(large, false).unwrap_err();
        assert_eq!(large.text, "the counts of 'by' are too large");
    }

    #[test]
    fn rows_belong_to_a_count_of_the_command() {
        let mut code = series();
        code.rows.retain(|name, _| name.object.is_none());
        let metric = |name: &str, values: &[f64]| Series {
            provenances: Some(vec![Provenance::Counted]),
            ..Series::of(name, values)
        };
        let (a, b) = (metric("a", &[5.0, 5.0]), metric("b", &[6.0, 6.0]));
        assert_eq!(counted(code.clone(), &[a.clone(), b.clone()]).unwrap(), Some(code.clone()));
        let wrong = counted(code.clone(), &[a, metric("b", &[7.0, 7.0])]).unwrap_err().text;
        assert_eq!(wrong, "the rows of 'by' do not add up to b, which is 7");
        let without_a = counted(code.clone(), &[metric("a", &[]), b]).unwrap().unwrap();
        assert_eq!((without_a.events.len(), without_a.totals(0)), (1, vec![Some(6), Some(6)]));
        assert_eq!(counted(code, &[metric("a", &[]), metric("b", &[])]).unwrap(), None);
    }

    #[test]
    fn an_event_without_counts_by_code_is_left_out_for_the_reason_of_its_metric() {
        let lost = |name: &str, provenances: Option<Vec<Provenance>>| Series {
            provenances,
            reason: Some("lost: the program uses ptrace".to_owned()),
            ..Series::of(name, &[])
        };
        let left_out = |metric: Series| counted(series(), &[metric]).unwrap().unwrap().left_out;
        assert_eq!(left_out(lost("calls:u", None)), ["calls:u"]);
        assert_eq!(left_out(lost("calls:u", Some(vec![Provenance::Counted]))), ["calls:u"]);
        assert!(left_out(lost("calls:u", Some(vec![Provenance::Hardware]))).is_empty());
        assert!(left_out(Series { reason: None, ..lost("calls:u", None) }).is_empty(), "no reason is shown");
        assert!(left_out(lost("b", None)).is_empty(), "it has rows");
    }

    #[test]
    fn counts_that_make_no_sense_are_named() {
        let good = series_json(&series());
        for (pointer, value, part) in [
            ("/grouping", json!("colour"), "no grouping"),
            ("/events", json!(["a"]), "are not 1 whole numbers"),
            ("/events", json!(null), "no list 'events'"),
            ("/rows", json!(7), "no list 'rows'"),
            ("/runs", json!(-1), "no number of runs"),
            ("/runs", json!(0), "no number of runs"),
            ("/runs", json!(1_000_000_000), "no number of runs"),
            ("/runs", json!(3), "whole numbers"),
            ("/rows/0/counts/0", json!(-1), "whole numbers"),
            ("/rows/0/counts/0", json!(1.5), "whole numbers"),
            ("/rows/0/function", json!("f"), "whole numbers"),
        ] {
            let mut bad = good.clone();
            *bad.pointer_mut(pointer).unwrap() = value;
            if pointer == "/rows/0/function" {
                bad["rows"][0]["counts"] = json!([]);
            }
            let text = read(&json!({ "by": bad })).unwrap_err().text;
            assert!(text.contains(part), "{pointer}: {text}");
        }
        let mut twice = good.clone();
        twice["rows"][1] = twice["rows"][0].clone();
        assert_eq!(read(&json!({ "by": twice })).unwrap_err().text, "'by' has two rows of one name");
    }
}
