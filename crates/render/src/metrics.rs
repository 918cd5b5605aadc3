//! Metrics that can be asked for, for people and as JSON.

use cyclometer_toolkit::MetricListing;
use cyclometer_toolkit::catalogue::search::Pattern;
use serde_json::{Value, json};

use crate::paint::{Paint, Style};
use crate::text::clean;
use crate::{WIDTH, wrap};

/// Columns before the text below a name.
const INDENT: usize = 6;

/// The metrics by CPU, each with its description; with its formula and its events on request.
pub fn render(metrics: &[&MetricListing], verbose: bool, paint: Paint) -> String {
    let mut out = String::new();
    let mut last = None;
    for metric in metrics {
        if last != Some(&metric.cpu) {
            let of = metric.cpu.as_deref().unwrap_or("every CPU");
            out += &format!("{}\n", paint.paint(Style::Heading, &format!("metrics of {}", clean(of))));
            last = Some(&metric.cpu);
        }
        out += &entry(metric, verbose, paint);
    }
    out
}

fn entry(metric: &MetricListing, verbose: bool, paint: Paint) -> String {
    let mut head = clean(&metric.name);
    if !metric.unit.symbol().is_empty() {
        head += &format!(" [{}]", clean(metric.unit.symbol()));
    }
    if !metric.groups.is_empty() {
        head += &format!("  {}", metric.groups.join(", "));
    }
    let mut out = String::new();
    for (i, line) in wrap(&head, WIDTH - 2 - INDENT).iter().enumerate() {
        out += &format!("{:1$}{line}\n", "", if i == 0 { 2 } else { INDENT });
    }
    let mut below = vec![clean(&metric.about)];
    if verbose {
        below.push(format!("= {}", clean(&metric.formula)));
        below.push(format!("counts {}", clean(&metric.events.join(", "))));
    }
    for line in below.iter().flat_map(|text| wrap(text, WIDTH - INDENT)) {
        out += &format!("{:INDENT$}{}\n", "", paint.paint(Style::Dim, &line));
    }
    out
}

/// An array with an object for each metric.
pub fn json(metrics: &[&MetricListing]) -> Value {
    let entry = |metric: &&MetricListing| {
        json!({
            "name": metric.name,
            "cpu": metric.cpu,
            "unit": metric.unit.symbol(),
            "groups": metric.groups,
            "level": metric.level,
            "formula": metric.formula,
            "events": metric.events,
            "description": metric.about,
        })
    };
    Value::Array(metrics.iter().map(entry).collect())
}

/// Whether a pattern matches a metric's name or one of its groups, or its words the description.
pub fn fits(metric: &MetricListing, pattern: &Pattern) -> bool {
    [&metric.name].into_iter().chain(&metric.groups).any(|name| pattern.fits(name, || metric.about.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::golden;

    fn of(cpu: &str, pattern: &str) -> Vec<MetricListing> {
        let all = cyclometer_toolkit::list_metrics_of(cpu).unwrap();
        all.into_iter().filter(|metric| fits(metric, &Pattern::parse(pattern).unwrap())).collect()
    }

    fn shown(cpu: &str, pattern: &str, verbose: bool) -> String {
        let metrics = of(cpu, pattern);
        render(&metrics.iter().collect::<Vec<_>>(), verbose, Paint::NONE)
    }

    #[test]
    fn metrics_are_found_by_name_and_group_in_any_case() {
        for (pattern, expected) in
            [("/^ipc$/", 1), ("topdownl1", 8), ("tma_memory*", 1), ("no_such_thing", 0)]
        {
            assert_eq!(of("alderlake", pattern).len(), expected, "{pattern}");
        }
    }

    #[test]
    fn a_list_says_what_each_metric_tells() {
        let text = shown("amdzen4", "*bound*", false) + &shown("amdzen4", "ipc", true);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        golden("list-metrics.txt", &text);
    }

    #[test]
    fn json_has_the_formula_and_the_events() {
        let metrics = of("skylake", "branch_mpki");
        let value = json(&metrics.iter().collect::<Vec<_>>());
        assert_eq!(value[0]["formula"], "branch_misses / instructions");
        assert_eq!(value[0]["events"], serde_json::json!(["branch_misses", "instructions"]));
        assert_eq!((&value[0]["cpu"], &value[0]["unit"]), (&Value::Null, &serde_json::json!("MPKI")));
    }
}
