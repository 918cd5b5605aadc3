//! Families of samples, in no particular format.

use std::borrow::Cow;
use std::sync::Arc;

/// The labels of a target, which all of its samples share.
pub type LabelSet = Vec<(&'static str, String)>;

/// The labels of a sample beside those of its target.
pub type OwnLabels = Vec<(&'static str, Cow<'static, str>)>;

/// The kind of a target.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TargetKind {
    /// A control group.
    Cgroup,
    /// The machine.
    Machine,
    /// A configured process.
    Process,
}

impl TargetKind {
    /// Every kind, in the order of the families about targets.
    pub const ALL: [TargetKind; 3] = [TargetKind::Machine, TargetKind::Process, TargetKind::Cgroup];

    /// The value of the label `target`.
    pub fn word(self) -> &'static str {
        match self {
            TargetKind::Cgroup => "cgroup",
            TargetKind::Machine => "machine",
            TargetKind::Process => "process",
        }
    }

    /// The label `target`.
    pub fn label(self) -> (&'static str, String) {
        ("target", self.word().to_owned())
    }
}

/// The kind of a family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FamilyKind {
    /// A sum that only grows.
    Counter,
    /// A value that goes up and down.
    Gauge,
    /// Labels without a value.
    Info,
}

/// Samples of one name.
#[derive(Clone, PartialEq, Debug)]
pub struct MetricFamily {
    /// The name, with its unit, without the suffix of the kind.
    pub name: &'static str,
    /// The kind.
    pub kind: FamilyKind,
    /// The unit, with which the name ends.
    pub unit: Option<&'static str>,
    /// One sentence.
    pub help: &'static str,
    /// The samples.
    pub samples: Vec<MetricSample>,
}

/// One sample.
#[derive(Clone, PartialEq, Debug)]
pub struct MetricSample {
    /// The labels of the target.
    pub target: Arc<LabelSet>,
    /// Its own labels.
    pub own: OwnLabels,
    /// The value.
    pub value: f64,
}

impl MetricFamily {
    /// A family without samples.
    pub fn new(name: &'static str, kind: FamilyKind, unit: Option<&'static str>, help: &'static str) -> Self {
        MetricFamily { name, kind, unit, help, samples: Vec::new() }
    }

    /// A family with one value that belongs to no target.
    pub fn single(
        name: &'static str,
        kind: FamilyKind,
        unit: Option<&'static str>,
        help: &'static str,
        value: f64,
    ) -> Self {
        let mut family = MetricFamily::new(name, kind, unit, help);
        family.push(Vec::new(), value);
        family
    }

    /// Adds a sample that belongs to no target.
    pub fn push(&mut self, own: OwnLabels, value: f64) {
        self.samples.push(MetricSample { target: Arc::default(), own, value });
    }
}

impl MetricSample {
    /// All labels, those of the target first.
    pub fn labels(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let target = self.target.iter().map(|(name, value)| (*name, value.as_str()));
        target.chain(self.own.iter().map(|(name, value)| (*name, value.as_ref())))
    }
}
