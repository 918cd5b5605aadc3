//! From the tool's JSON to the result of a call.

use serde_json::{Value, json};

use super::{EntryLimit, KeptEntries, Task, ToolKind};
use crate::call::ToolAnswer;
use crate::summary;

/// The most names that an error suggests.
const MOST_NAMES: usize = 10;

/// The result of a call, in both forms.
#[derive(Clone, PartialEq, Debug)]
pub struct Presented {
    /// For clients that read structured content.
    pub structured: Value,
    /// For the others.
    pub text: String,
}

/// Presents the answer of the command-line tool.
///
/// # Errors
///
/// The tool's error message, where it gave no report, or the reason why the report has not what was asked
/// for.
pub fn present(task: &Task, answer: &ToolAnswer, encoding: Option<&ToolAnswer>) -> Result<Presented, String> {
    let Ok(mut report) = serde_json::from_slice::<Value>(&answer.stdout) else { return Err(failure(answer)) };
    let omitted = trim(&mut report, &task.kept)?;
    let mut text = summary_of(task.kind, &report);
    text += &words_of_omitted(omitted, &task.kept);
    if answer.exit_status != 0 {
        text += &format!("exit status {}\n", answer.exit_status);
    }
    let stderr = answer.stderr.text();
    if !stderr.trim().is_empty() {
        text += &format!("standard error:\n{}\n", stderr.trim_end());
    }
    let mut structured = json!({
        "report": report,
        "exit_status": answer.exit_status,
        "stderr": {"text": stderr, "omitted_bytes": answer.stderr.omitted_bytes()},
        "omitted_entries": omitted,
        "command_line": command_line(task),
    });
    if task.kind == ToolKind::ExplainEvent {
        let encoding = encoding.filter(|answer| answer.exit_status == 0);
        structured["encoding"] =
            encoding.and_then(|answer| serde_json::from_slice(&answer.stdout).ok()).unwrap_or(Value::Null);
        text += &summary::of_encoding(&structured["encoding"]);
    }
    Ok(Presented { structured, text })
}

/// How many rows or entries are left out, and the argument that shows more.
fn words_of_omitted(omitted: usize, kept: &KeptEntries) -> String {
    let KeptEntries::First(EntryLimit { most, argument, greatest }) = kept else { return String::new() };
    match omitted {
        0 => String::new(),
        _ if most == greatest => format!("{omitted} more rows or entries are left out\n"),
        _ => format!("{omitted} more rows or entries are left out; {argument} shows up to {greatest}\n"),
    }
}

fn summary_of(kind: ToolKind, report: &Value) -> String {
    match kind {
        ToolKind::Measure | ToolKind::ProfileByFunction => summary::of_stat(report),
        ToolKind::Compare => summary::of_comparison(report),
        ToolKind::Advise => summary::of_advice(report),
        ToolKind::Plan => summary::of_plan(report),
        ToolKind::ListEvents | ToolKind::ExplainEvent => summary::of_list(report),
        ToolKind::Doctor => summary::of_doctor(report),
    }
}

/// The message of an answer without a report.
fn failure(answer: &ToolAnswer) -> String {
    let text = answer.stderr.text();
    match text.trim() {
        "" => format!("cyclometer gave no result, and exit status {}", answer.exit_status),
        text => text.to_owned(),
    }
}

/// The command as it can be typed in.
fn command_line(task: &Task) -> String {
    let words = task.main.args.iter().map(|word| word.to_string_lossy().into_owned());
    shell_words::join(std::iter::once("cyclometer".to_owned()).chain(words))
}

/// Removes what was not asked for; returns how many rows or entries of the result are left out.
fn trim(report: &mut Value, kept: &KeptEntries) -> Result<usize, String> {
    match kept {
        KeptEntries::All => Ok(0),
        KeptEntries::First(limit) => Ok(cut(report, usize::try_from(limit.most).unwrap_or(usize::MAX))),
        KeptEntries::Event(name) => keep_event(report, name),
    }
}

fn cut(report: &mut Value, most: usize) -> usize {
    let mut omitted = cut_list(report, most);
    let has_changes = report.get("comparisons").is_some();
    for command in of_field(report, "commands") {
        let Some(rows) = command.pointer_mut("/by/rows") else { continue };
        // A comparison has its changes. The rows of both sides are the material of a baseline only.
        match has_changes {
            true => *rows = json!([]),
            false => omitted += cut_list(rows, most),
        }
    }
    for comparison in of_field(report, "comparisons") {
        omitted += comparison.pointer_mut("/by/changes").map_or(0, |changes| cut_list(changes, most));
    }
    omitted
}

fn of_field<'a>(report: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    report.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

fn cut_list(list: &mut Value, most: usize) -> usize {
    let Some(entries) = list.as_array_mut() else { return 0 };
    let omitted = entries.len().saturating_sub(most);
    entries.truncate(most);
    omitted
}

/// Keeps the entries of one event.
fn keep_event(report: &mut Value, name: &str) -> Result<usize, String> {
    let Some(entries) = report.as_array_mut() else { return Ok(0) };
    let names = |entry: &Value| -> Vec<String> {
        let aliases = entry["aliases"].as_array().into_iter().flatten();
        std::iter::once(&entry["name"])
            .chain(aliases)
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect()
    };
    let is_it = |entry: &Value| names(entry).iter().any(|known| known.eq_ignore_ascii_case(name));
    if !entries.iter().any(is_it) {
        let near: Vec<&str> =
            entries.iter().filter_map(|entry| entry["name"].as_str()).take(MOST_NAMES).collect();
        return Err(format!(
            "no event is called {}; similar: {}",
            crate::allowed::clean(name),
            near.join(", ")
        ));
    }
    entries.retain(is_it);
    Ok(0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where something fails")]
mod tests {
    use super::*;

    #[test]
    fn rows_beyond_the_limit_are_counted() {
        let mut report = json!({"commands": [{"by": {"rows": [1, 2, 3]}}, {"by": null}, {}]});
        assert_eq!(cut(&mut report, 2), 1);
        assert_eq!(report["commands"][0]["by"]["rows"], json!([1, 2]));
        let mut list = json!([1, 2, 3]);
        assert_eq!((cut(&mut list, 1), list), (2, json!([1])));
    }

    #[test]
    fn the_argument_that_shows_more_is_named_until_it_is_at_its_greatest() {
        let limit = EntryLimit { most: 20, argument: "top", greatest: 200 };
        let words = |omitted, limit| words_of_omitted(omitted, &KeptEntries::First(limit));
        assert_eq!(words(0, limit), "");
        assert_eq!(words(3, limit), "3 more rows or entries are left out; top shows up to 200\n");
        assert_eq!(words(3, EntryLimit { most: 200, ..limit }), "3 more rows or entries are left out\n");
    }

    #[test]
    fn a_comparison_keeps_its_changes_and_no_rows() {
        let mut report =
            json!({"commands": [{"by": {"rows": [1, 2]}}], "comparisons": [{"by": {"changes": [1, 2]}}]});
        assert_eq!(cut(&mut report, 1), 1, "the rows of both sides are no part of the result");
        assert_eq!(report["comparisons"][0]["by"]["changes"], json!([1]));
    }

    #[test]
    fn an_event_is_found_by_its_name_or_an_alias_and_else_similar_names_are_told() {
        let all = json!([{"name": "branches", "aliases": ["branch-instructions"]}, {"name": "branch-misses", "aliases": []}]);
        for name in ["BRANCHES", "branch-instructions"] {
            let mut report = all.clone();
            keep_event(&mut report, name).unwrap();
            assert_eq!(report.as_array().unwrap().len(), 1, "{report}");
        }
        let error = keep_event(&mut all.clone(), "branch").unwrap_err();
        assert!(error.contains("branches, branch-misses"), "{error}");
    }
}
