//! A read of all counters, as families.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use axum::body::Bytes;
use cyclometer_toolkit::core::Unit;
use cyclometer_toolkit::core::ladder::RungState;
use cyclometer_toolkit::{Machine, StandingValue};

use crate::answers::TextPlaces;
use crate::exposition::{TextFormat, render};
use crate::families::{FamilyKind, LabelSet, MetricFamily, MetricSample, OwnLabels, TargetKind};

/// Families of one moment; each text of them is made once.
#[derive(Debug)]
pub struct Snapshot {
    /// When reading began.
    pub at: Instant,
    /// The same as a time of day.
    pub wall: SystemTime,
    /// The families.
    pub families: Vec<MetricFamily>,
    open_metrics: OnceLock<Bytes>,
    prometheus: OnceLock<Bytes>,
}

impl Snapshot {
    /// A snapshot of this moment.
    pub fn new(at: Instant, families: Vec<MetricFamily>) -> Snapshot {
        let (open_metrics, prometheus) = (OnceLock::new(), OnceLock::new());
        Snapshot { at, wall: SystemTime::now(), families, open_metrics, prometheus }
    }

    /// Its text, which all scrapes share; `None` if too many texts of other snapshots are being sent.
    pub fn text(&self, format: TextFormat, places: &TextPlaces) -> Option<Bytes> {
        let text = match format {
            TextFormat::OpenMetrics => &self.open_metrics,
            TextFormat::Prometheus => &self.prometheus,
        };
        if let Some(text) = text.get() {
            return Some(text.clone());
        }
        let made = places.keep(|| render(&self.families, format))?;
        Some(text.get_or_init(|| made).clone())
    }
}

/// The families of events.
#[derive(Debug)]
pub struct EventFamilies {
    events: MetricFamily,
    seconds: MetricFamily,
    joules: MetricFamily,
    others: MetricFamily,
    peaks: MetricFamily,
    gauges: MetricFamily,
    /// The states of events without a number, by the kind of their target.
    states: BTreeMap<TargetKind, Vec<MetricSample>>,
    enabled: MetricFamily,
    running: MetricFamily,
    /// Number of targets of each kind.
    targets: BTreeMap<TargetKind, usize>,
}

/// The most series that one event of a target has: its value and two times.
pub const SERIES_OF_AN_EVENT: usize = 3;

impl Default for EventFamilies {
    fn default() -> EventFamilies {
        use FamilyKind::{Counter, Gauge};
        let seconds = Some("seconds");
        let family = MetricFamily::new;
        EventFamilies {
            targets: BTreeMap::new(),
            events: family("cyclometer_events", Counter, None, "Events since their counters were opened."),
            seconds: family(
                "cyclometer_time_seconds",
                Counter,
                seconds,
                "Time since its counters were opened.",
            ),
            joules: family(
                "cyclometer_energy_joules",
                Counter,
                Some("joules"),
                "Energy since its counters were opened.",
            ),
            others: family(
                "cyclometer_quantity",
                Counter,
                None,
                "Quantities in the unit of the label, since their counters were opened.",
            ),
            peaks: family("cyclometer_peak_bytes", Gauge, Some("bytes"), "The highest value so far."),
            gauges: family(
                "cyclometer_gauge",
                Gauge,
                None,
                "The mean of a sampled quantity since the last read, in the unit of the label.",
            ),
            states: BTreeMap::new(),
            enabled: family(
                "cyclometer_counter_enabled_seconds",
                Counter,
                seconds,
                "Time for which an event was to be counted, over all CPUs.",
            ),
            running: family(
                "cyclometer_counter_running_seconds",
                Counter,
                seconds,
                "Time for which an event was on a counter, over all CPUs.",
            ),
        }
    }
}

impl EventFamilies {
    /// Adds the values of a target. An event that is listed twice is added once: two samples with the same
    /// labels would spoil the whole scrape.
    pub fn add(&mut self, kind: TargetKind, target: &Arc<LabelSet>, values: Vec<StandingValue>) {
        let mut names = BTreeSet::new();
        for value in values {
            if names.insert(value.name.clone()) {
                self.add_value(kind, target, value);
            }
        }
        *self.targets.entry(kind).or_default() += 1;
    }

    fn add_value(&mut self, kind: TargetKind, target: &Arc<LabelSet>, value: StandingValue) {
        let sample = |own, value| MetricSample { target: Arc::clone(target), own, value };
        let event = || ("event", Cow::Owned(value.name.clone()));
        if let Some(times) = value.times {
            let seconds = |ns: u64| ns as f64 / 1e9;
            self.enabled.samples.push(sample(vec![event()], seconds(times.enabled_ns)));
            self.running.samples.push(sample(vec![event()], seconds(times.running_ns)));
        }
        let (Some(verdict), true) = (value.verdict, value.latest.value().is_some()) else {
            let reason = value.latest.reason().unwrap_or_else(|| "no value was read".to_owned());
            let state = ("state", Cow::Borrowed(value.latest.verdict().word()));
            let own = vec![event(), state, ("reason", Cow::Owned(reason))];
            return self.states.entry(kind).or_default().push(sample(own, 1.0));
        };
        let mut own = vec![event(), ("verdict", Cow::Borrowed(verdict.word()))];
        own.extend(value.provenance.map(|provenance| ("provenance", Cow::Borrowed(provenance.word()))));
        own.push(("scope", Cow::Borrowed(value.scope.word())));
        let number = value.total as f64 * value.scale;
        let (family, number) = match &value.unit {
            _ if value.is_peak => (&mut self.peaks, number),
            unit if value.is_gauge => {
                own.push(("unit", Cow::Owned(unit.symbol().to_owned())));
                (&mut self.gauges, number)
            }
            Unit::Count => (&mut self.events, number),
            Unit::Nanoseconds => (&mut self.seconds, number / 1e9),
            Unit::Joules => (&mut self.joules, number),
            unit => {
                own.push(("unit", Cow::Owned(unit.symbol().to_owned())));
                (&mut self.others, number)
            }
        };
        family.samples.push(sample(own, number));
    }

    /// The families.
    pub fn into_families(self) -> Vec<MetricFamily> {
        let EventFamilies {
            events,
            seconds,
            joules,
            others,
            peaks,
            gauges,
            states,
            enabled,
            running,
            targets,
        } = self;
        let help = "An event without a number, and the reason.";
        let mut without = MetricFamily::new("cyclometer_event_state", FamilyKind::Gauge, None, help);
        for (kind, samples) in states {
            let targets = targets.get(&kind).copied().unwrap_or(0);
            without.samples.extend(merged(samples, kind, targets));
        }
        vec![events, seconds, joules, others, peaks, gauges, without, enabled, running]
    }
}

/// The states of the targets of a kind, with one sample in place of those that all of them have: an event
/// that no group of a machine can count has one state.
fn merged(samples: Vec<MetricSample>, kind: TargetKind, targets: usize) -> Vec<MetricSample> {
    let mut alike: BTreeMap<OwnLabels, Vec<MetricSample>> = BTreeMap::new();
    for sample in samples {
        alike.entry(sample.own.clone()).or_default().push(sample);
    }
    let of_all = |(own, samples): (_, Vec<MetricSample>)| {
        if samples.len() < 2 || samples.len() != targets {
            return samples;
        }
        vec![MetricSample { target: Arc::new(vec![kind.label()]), own, value: 1.0 }]
    };
    alike.into_iter().flat_map(of_all).collect()
}

/// Families about the machine, and about the sources that work there, as `cyclometer doctor` reports them.
pub fn machine_families(machine: &Machine) -> Vec<MetricFamily> {
    let mut build =
        MetricFamily::new("cyclometer_build", FamilyKind::Info, None, "The version of the exporter.");
    build.push(vec![("version", Cow::Borrowed(env!("CARGO_PKG_VERSION")))], 1.0);
    let mut about = MetricFamily::new("cyclometer_machine", FamilyKind::Info, None, "The machine.");
    let text = |text: &Option<String>| Cow::Owned(text.clone().unwrap_or_default());
    about.push(
        vec![
            ("architecture", Cow::Owned(machine.architecture.to_string())),
            ("vendor", Cow::Owned(machine.cpu.vendor.to_string())),
            ("cpu", text(&machine.cpu.name)),
            ("hypervisor", text(&machine.hypervisor)),
            ("kernel", text(&machine.kernel_release)),
            ("cpus", Cow::Owned(machine.online.len().to_string())),
        ],
        1.0,
    );
    const HELP: &str = "Whether a source of counts works, and the first reason if it does not.";
    let mut sources = MetricFamily::new("cyclometer_source_state", FamilyKind::Gauge, None, HELP);
    machine.ladder.rungs.iter().for_each(|state| sources.push(source_labels(state), 1.0));
    vec![build, about, sources]
}

fn source_labels(state: &RungState) -> OwnLabels {
    let reason = state.causes.first().map(|cause| cause.text.clone()).unwrap_or_default();
    vec![
        ("source", Cow::Borrowed(state.rung.word())),
        ("state", Cow::Borrowed(state.works.word())),
        ("reason", Cow::Owned(reason)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_toolkit::core::{Count, Provenance, Scope, Verdict};
    use cyclometer_toolkit::{CounterTimes, StandingValue};

    fn value(name: &str, latest: Count, total: u64, unit: Unit) -> StandingValue {
        StandingValue {
            name: name.to_owned(),
            event: name.to_owned(),
            verdict: latest.verdict().has_value().then_some(Verdict::Exact),
            latest,
            total,
            times: None,
            is_peak: false,
            is_gauge: false,
            scale: 1.0,
            unit,
            provenance: Some(Provenance::Kernel),
            rung: None,
            scope: Scope::Cgroup,
            modes: None,
        }
    }

    fn text(values: Vec<StandingValue>) -> String {
        let mut families = EventFamilies::default();
        families.add(TargetKind::Cgroup, &Arc::new(vec![("cgroup", "/a".to_owned())]), values);
        render(&families.into_families(), TextFormat::Prometheus)
    }

    #[test]
    fn a_value_has_its_verdict_and_provenance_as_labels_and_its_unit_in_the_name() {
        let text = text(vec![
            value("page-faults", Count::Exact(2), 7, Unit::Count),
            value("task-clock", Count::Exact(2), 1_500_000_000, Unit::Nanoseconds),
            value("uncore", Count::Exact(2), 3, Unit::Other("MiB".into())),
        ]);
        let labels = |event: &str| {
            format!(
                "{{cgroup=\"/a\",event=\"{event}\",verdict=\"exact\",provenance=\"kernel\",scope=\"cgroup\""
            )
        };
        assert!(text.contains(&format!("cyclometer_events_total{}}} 7\n", labels("page-faults"))), "{text}");
        assert!(
            text.contains(&format!("cyclometer_time_seconds_total{}}} 1.5\n", labels("task-clock"))),
            "{text}"
        );
        assert!(
            text.contains(&format!("cyclometer_quantity_total{},unit=\"MiB\"}} 3\n", labels("uncore"))),
            "{text}"
        );
    }

    #[test]
    fn a_gauge_is_a_gauge_with_its_unit_as_a_label_and_no_counter() {
        let mut power = value("gpu-power", Count::Exact(2), 250_500, Unit::Other("W".into()));
        (power.is_gauge, power.scale, power.scope) = (true, 1e-3, Scope::Device);
        let text = text(vec![power]);
        assert!(text.contains("# TYPE cyclometer_gauge gauge\n"), "{text}");
        let labels = "verdict=\"exact\",provenance=\"kernel\",scope=\"device\",unit=\"W\"";
        let line = format!("cyclometer_gauge{{cgroup=\"/a\",event=\"gpu-power\",{labels}}} 250.5\n");
        assert!(text.contains(&line), "{text}");
    }

    #[test]
    fn what_is_not_counted_has_a_state_and_no_sample() {
        let reason = "no PMU".into();
        let text = text(vec![value("cycles", Count::NotSupported { reason }, 0, Unit::Count)]);
        let expected = "cyclometer_event_state{cgroup=\"/a\",event=\"cycles\",state=\"not_supported\",reason=\"no PMU\"} 1\n";
        assert!(text.ends_with(expected), "{text}");
        assert!(!text.contains("cyclometer_events_total"), "{text}");
    }

    #[test]
    fn a_state_of_all_groups_is_one_sample_and_one_of_some_is_of_those() {
        let cycles =
            |reason: &str| value("cycles", Count::NotCounted { reason: reason.into() }, 0, Unit::Count);
        let states = |reasons: [&str; 2]| {
            let mut families = EventFamilies::default();
            for (name, reason) in ["/a", "/b"].iter().zip(reasons) {
                let labels = vec![TargetKind::Cgroup.label(), ("cgroup", (*name).to_owned())];
                families.add(TargetKind::Cgroup, &Arc::new(labels), vec![cycles(reason)]);
            }
            render(&families.into_families(), TextFormat::Prometheus)
        };
        let same = states(["no PMU", "no PMU"]);
        let line = "cyclometer_event_state{target=\"cgroup\",event=\"cycles\",state=\"not_counted\",reason=\"no PMU\"} 1";
        assert!(same.lines().filter(|line| !line.starts_with('#')).eq([line]), "{same}");
        let different = states(["no PMU", "busy"]);
        assert_eq!(different.matches("cgroup=\"/").count(), 2, "{different}");
    }

    #[test]
    fn the_times_of_an_event_that_shares_its_counter_are_shown() {
        let mut shared = value("cycles", Count::Exact(4), 8, Unit::Count);
        shared.verdict = Some(Verdict::Scaled);
        shared.times = Some(CounterTimes { enabled_ns: 2_000_000_000, running_ns: 500_000_000 });
        let text = text(vec![shared]);
        assert!(text.contains("verdict=\"scaled\""), "{text}");
        assert!(
            text.contains("cyclometer_counter_enabled_seconds_total{cgroup=\"/a\",event=\"cycles\"} 2\n"),
            "{text}"
        );
        assert!(
            text.contains("cyclometer_counter_running_seconds_total{cgroup=\"/a\",event=\"cycles\"} 0.5\n"),
            "{text}"
        );
    }
}
