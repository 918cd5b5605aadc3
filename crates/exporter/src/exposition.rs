//! Families as text: OpenMetrics 1.0, and the older text format of Prometheus.
//!
//! # Source
//!
//! <https://prometheus.io/docs/specs/om/open_metrics_spec/>, sections "ABNF" and "MetricFamily";
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>, "Text-based format".

use std::fmt::Write as _;

use crate::families::{FamilyKind, MetricFamily, MetricSample};

/// The format of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format 0.0.4 of Prometheus.
    Prometheus,
}

impl TextFormat {
    /// The format for the `Accept` header of a request.
    pub fn accepted(accept: &str) -> TextFormat {
        match accept.to_ascii_lowercase().contains("application/openmetrics-text") {
            true => TextFormat::OpenMetrics,
            false => TextFormat::Prometheus,
        }
    }

    /// The `Content-Type` of the answer.
    pub fn content_type(self) -> &'static str {
        match self {
            TextFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            TextFormat::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Writes families; those without samples are left out.
pub fn render(families: &[MetricFamily], format: TextFormat) -> String {
    let samples: usize = families.iter().map(|family| family.samples.len()).sum();
    let mut out = String::with_capacity(samples * 200 + 4096);
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        render_family(family, format, &mut out);
    }
    if format == TextFormat::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

fn render_family(family: &MetricFamily, format: TextFormat, out: &mut String) {
    let suffix = match family.kind {
        FamilyKind::Counter => "_total",
        FamilyKind::Gauge => "",
        FamilyKind::Info => "_info",
    };
    let kind = match (family.kind, format) {
        (FamilyKind::Counter, _) => "counter",
        (FamilyKind::Info, TextFormat::OpenMetrics) => "info",
        _ => "gauge",
    };
    // Only OpenMetrics names the family; the older format names the series.
    let of_family = if format == TextFormat::OpenMetrics { "" } else { suffix };
    let name = family.name;
    let _ = writeln!(out, "# HELP {name}{of_family} {}", Escaped { text: family.help, quotes: false });
    let _ = writeln!(out, "# TYPE {name}{of_family} {kind}");
    if let Some(unit) = family.unit.filter(|_| format == TextFormat::OpenMetrics) {
        let _ = writeln!(out, "# UNIT {name} {unit}");
    }
    for sample in &family.samples {
        out.push_str(name);
        out.push_str(suffix);
        render_labels(sample, out);
        let _ = writeln!(out, " {}", sample.value);
    }
}

fn render_labels(sample: &MetricSample, out: &mut String) {
    let mut before = '{';
    for (name, value) in sample.labels() {
        let _ = write!(out, "{before}{name}=\"{}\"", Escaped { text: value, quotes: true });
        before = ',';
    }
    if before == ',' {
        out.push('}');
    }
}

/// A text whose backslashes and line ends, and quotes where wanted, are escaped.
struct Escaped<'a> {
    text: &'a str,
    quotes: bool,
}

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut rest = self.text;
        while let Some(at) = rest.find(['\\', '\n', '"']) {
            f.write_str(&rest[..at])?;
            f.write_str(match rest.as_bytes()[at] {
                b'\\' => "\\\\",
                b'\n' => "\\n",
                _ if self.quotes => "\\\"",
                _ => "\"",
            })?;
            rest = &rest[at + 1..];
        }
        f.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn families() -> Vec<MetricFamily> {
        let mut time =
            MetricFamily::new("a_seconds", FamilyKind::Counter, Some("seconds"), "Time \\ \"of\" a.");
        let target = Arc::new(vec![("cgroup", "/a\"b\nc\\d".to_owned())]);
        let own = vec![("event", "task-clock".into())];
        time.samples.push(MetricSample { target, own, value: 1.5 });
        let mut build = MetricFamily::new("build", FamilyKind::Info, None, "What this is.");
        build.push(vec![("version", "1".into())], 1.0);
        let mut up = MetricFamily::new("targets", FamilyKind::Gauge, None, "Targets.");
        up.push(Vec::new(), 3.0);
        vec![time, MetricFamily::new("none", FamilyKind::Gauge, None, "Nothing."), build, up]
    }

    #[test]
    fn open_metrics_names_families_and_units_and_ends_with_eof() {
        let expected = "# HELP a_seconds Time \\\\ \"of\" a.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n\
            a_seconds_total{cgroup=\"/a\\\"b\\nc\\\\d\",event=\"task-clock\"} 1.5\n\
            # HELP build What this is.\n# TYPE build info\nbuild_info{version=\"1\"} 1\n\
            # HELP targets Targets.\n# TYPE targets gauge\ntargets 3\n# EOF\n";
        assert_eq!(render(&families(), TextFormat::OpenMetrics), expected);
    }

    #[test]
    fn the_older_format_names_series() {
        let text = render(&families(), TextFormat::Prometheus);
        assert!(text.contains("# TYPE a_seconds_total counter\na_seconds_total{"), "{text}");
        assert!(text.contains("# TYPE build_info gauge\nbuild_info{"), "{text}");
        assert!(!text.contains("EOF") && !text.contains("UNIT"), "{text}");
    }

    #[test]
    fn large_sums_are_written_in_full() {
        let mut family = MetricFamily::new("a", FamilyKind::Counter, None, "A.");
        family.push(Vec::new(), 9_007_199_254_740_991.0);
        family.push(Vec::new(), 0.000_001);
        let text = render(&[family], TextFormat::Prometheus);
        assert!(text.ends_with("a_total 9007199254740991\na_total 0.000001\n"), "{text}");
    }

    #[test]
    fn prometheus_asks_for_open_metrics_by_its_accept_header() {
        let of_prometheus =
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(TextFormat::accepted(of_prometheus), TextFormat::OpenMetrics);
        assert_eq!(TextFormat::accepted("*/*"), TextFormat::Prometheus);
    }
}
