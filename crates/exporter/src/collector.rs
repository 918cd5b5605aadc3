//! The owner of all counters: finds targets, opens them within the budget, reads them, and closes those of
//! targets that have gone.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cyclometer_toolkit::core::ErrorKind;
use cyclometer_toolkit::{CpuSet, Machine, StandingValue, Target};

use crate::budget::{Budget, DropReason, TargetNeed};
use crate::cgroups::{self, CgroupPatterns, FoundCgroup};
use crate::config::ExporterConfig;
use crate::counters::{EventsOf, OpenTarget, TargetCounters};
use crate::families::{FamilyKind, LabelSet, MetricFamily, MetricSample, TargetKind};
use crate::labels;
use crate::own_cost::OwnCost;
use crate::processes::{self, FoundProcess};
use crate::scrapes::ScrapeCounts;
use crate::snapshot::{EventFamilies, SERIES_OF_AN_EVENT, Snapshot, machine_families};

/// How long a rescan opens counters before scrapes get their turn.
const OPENING_SLICE: Duration = Duration::from_millis(500);

/// A target, as long as it exists.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum FleetTarget {
    Machine,
    Process(FoundProcess),
    Cgroup(FoundCgroup),
}

impl FleetTarget {
    fn kind(&self) -> TargetKind {
        match self {
            FleetTarget::Machine => TargetKind::Machine,
            FleetTarget::Process(_) => TargetKind::Process,
            FleetTarget::Cgroup(_) => TargetKind::Cgroup,
        }
    }
}

/// A target whose counters are open.
struct CountedTarget {
    labels: Arc<LabelSet>,
    counters: Box<dyn TargetCounters>,
    need: TargetNeed,
}

/// Owns the counters. It belongs to one thread, as they do.
pub struct Collector<O> {
    opener: O,
    config: ExporterConfig,
    root: Option<PathBuf>,
    online: CpuSet,
    fixed: Vec<MetricFamily>,
    counted: BTreeMap<FleetTarget, CountedTarget>,
    /// Targets that exist and are not counted, with the reason.
    dropped: BTreeMap<FleetTarget, DropReason>,
    /// The latest error of opening counters, for each reason that is an error.
    drop_errors: BTreeMap<DropReason, String>,
    /// Index of each rule without a process, and the reason.
    missing: Vec<(usize, String)>,
    labels_in_use: BTreeSet<Arc<LabelSet>>,
    budget: Budget,
    /// Targets that ended while they were counted.
    ended: u64,
    reads: u64,
    scrapes: Arc<ScrapeCounts>,
    /// Why control groups cannot be found.
    scan_error: Option<String>,
    /// The control groups of the last search.
    groups: Vec<FoundCgroup>,
}

/// Whether a rescan has seen to every target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rescan {
    /// Every target is counted or dropped.
    Complete,
    /// Some are left for the next call.
    MoreToOpen,
}

impl<O: OpenTarget> Collector<O> {
    /// A collector that counts nothing yet. `root` is the folder of control groups, if there is one;
    /// `most` is what may be used.
    pub fn new(
        opener: O,
        config: ExporterConfig,
        machine: &Machine,
        root: Option<PathBuf>,
        most: TargetNeed,
        scrapes: Arc<ScrapeCounts>,
    ) -> Collector<O> {
        Collector {
            opener,
            config,
            root,
            online: machine.online.clone(),
            fixed: machine_families(machine),
            counted: BTreeMap::new(),
            dropped: BTreeMap::new(),
            drop_errors: BTreeMap::new(),
            missing: Vec::new(),
            labels_in_use: BTreeSet::new(),
            budget: Budget::new(most),
            ended: 0,
            reads: 0,
            scrapes,
            scan_error: None,
            groups: Vec::new(),
        }
    }

    /// Looks for targets: closes the counters of those that have gone, and opens those of new ones. The
    /// machine comes first, so that it is counted where the budget is too small for its groups.
    pub fn rescan(&mut self) -> Rescan {
        self.search_groups();
        self.rescan_known_groups()
    }

    /// The same with the control groups of the last search: no group has come or gone since.
    pub fn rescan_known_groups(&mut self) -> Rescan {
        let found = self.find();
        let existing: BTreeSet<&FleetTarget> = found.iter().collect();
        let gone: Vec<FleetTarget> =
            self.counted.keys().filter(|target| !existing.contains(target)).cloned().collect();
        gone.iter().for_each(|target| self.end(target));
        self.dropped.retain(|target, _| existing.contains(target));
        let until = Instant::now() + OPENING_SLICE;
        for target in found {
            if self.counted.contains_key(&target) {
                continue;
            }
            if Instant::now() >= until {
                return Rescan::MoreToOpen;
            }
            self.admit(target);
        }
        Rescan::Complete
    }

    fn find(&mut self) -> Vec<FleetTarget> {
        let mut found = vec![FleetTarget::Machine];
        let processes = processes::scan(&self.config.processes);
        self.missing = processes.missing;
        found.extend(processes.found.into_iter().map(FleetTarget::Process));
        found.extend(self.groups.iter().cloned().map(FleetTarget::Cgroup));
        found
    }

    fn search_groups(&mut self) {
        let rules = &self.config.cgroups;
        let patterns = CgroupPatterns { include: &rules.include, exclude: &rules.exclude };
        let groups = match &self.root {
            Some(root) => cgroups::scan(root, patterns)
                .map_err(|error| format!("cannot read the control groups below {}: {error}", root.display())),
            None if rules.include.is_empty() => Ok(Vec::new()),
            None => Err("this machine has no control groups that perf can count".to_owned()),
        };
        self.scan_error = groups.as_ref().err().cloned();
        self.groups = groups.unwrap_or_default();
    }

    fn admit(&mut self, target: FleetTarget) {
        let labels = Arc::new(self.labels(&target));
        match self.opened(&target, &labels) {
            Ok((counters, need)) => {
                self.budget.take(need);
                self.labels_in_use.insert(Arc::clone(&labels));
                self.dropped.remove(&target);
                self.counted.insert(target, CountedTarget { labels, counters, need });
            }
            Err(reason) => {
                if self.dropped.insert(target, reason).is_none() {
                    self.budget.drop_one(reason);
                }
            }
        }
    }

    fn opened(
        &mut self,
        target: &FleetTarget,
        labels: &Arc<LabelSet>,
    ) -> Result<(Box<dyn TargetCounters>, TargetNeed), DropReason> {
        if self.labels_in_use.contains(labels) {
            return Err(DropReason::SameLabels);
        }
        let of = events_of(target);
        let expected = self.expected(of, target);
        if let Some(reason) = self.budget.refuses(expected) {
            return Err(reason);
        }
        let counters = self.opener.open(of, self.target(target)).map_err(|error| {
            let reason = match error.kind() {
                ErrorKind::NoSuchTarget => DropReason::Vanished,
                _ => DropReason::Refused,
            };
            self.drop_errors.insert(reason, error.to_string());
            reason
        })?;
        let need = TargetNeed { descriptors: counters.counters(), series: expected.series };
        match self.budget.refuses(need) {
            Some(reason) => Err(reason),
            None => Ok((counters, need)),
        }
    }

    /// The expected need of a target, before it is opened.
    fn expected(&self, of: EventsOf, target: &FleetTarget) -> TargetNeed {
        let events = self.opener.events(of);
        let places = match target {
            FleetTarget::Process(process) => processes::threads(process.pid).max(1),
            _ => self.online.len(),
        };
        // Another group is the better estimate: events that cannot be counted take nothing.
        let same = || self.counted.iter().find(|(other, _)| matches!(other, FleetTarget::Cgroup(_)));
        let known = matches!(target, FleetTarget::Cgroup(_)).then(same).flatten();
        let descriptors = known.map_or(events * places, |(_, counted)| counted.need.descriptors);
        TargetNeed { descriptors, series: events * SERIES_OF_AN_EVENT }
    }

    fn target(&self, target: &FleetTarget) -> Target {
        match target {
            FleetTarget::Machine => Target::Cpus(self.online.clone()),
            FleetTarget::Process(process) => Target::Process { pid: process.pid, inherit: true },
            FleetTarget::Cgroup(group) => {
                let path =
                    self.root.as_ref().map_or_else(|| group.path.clone(), |root| root.join(&group.path));
                Target::Cgroup { path, cpus: self.online.clone() }
            }
        }
    }

    fn labels(&self, target: &FleetTarget) -> LabelSet {
        match target {
            FleetTarget::Machine => vec![TargetKind::Machine.label()],
            FleetTarget::Process(process) => {
                let mut labels = self.rule_labels(process.rule);
                labels.push(("pid", process.pid.to_string()));
                labels
            }
            FleetTarget::Cgroup(group) => labels::of_cgroup(&group.path),
        }
    }

    fn rule_labels(&self, rule: usize) -> LabelSet {
        let name = self.config.processes.get(rule).map(|rule| rule.name.clone());
        vec![TargetKind::Process.label(), ("process", name.unwrap_or_default())]
    }

    fn end(&mut self, target: &FleetTarget) {
        if let Some(counted) = self.counted.remove(target) {
            self.budget.give_back(counted.need);
            self.labels_in_use.remove(&counted.labels);
            self.ended += 1;
        }
    }

    /// Reads every counter. A target that has gone since the rescan is closed, and has no samples.
    pub fn read(&mut self) -> Snapshot {
        let at = Instant::now();
        let gone: Vec<FleetTarget> =
            self.counted.keys().filter(|target| !self.is_still_there(target)).cloned().collect();
        gone.iter().for_each(|target| self.end(target));
        let mut families = EventFamilies::default();
        for (target, counted) in &mut self.counted {
            let values: Vec<StandingValue> = counted.counters.read();
            families.add(target.kind(), &counted.labels, values);
        }
        self.reads += 1;
        let mut families: Vec<MetricFamily> =
            self.fixed.iter().cloned().chain(families.into_families()).collect();
        let series = families.iter().map(|family| family.samples.len()).sum();
        families.extend(self.own_families(series, at.elapsed()));
        Snapshot::new(at, families)
    }

    fn is_still_there(&self, target: &FleetTarget) -> bool {
        match (target, &self.root) {
            (FleetTarget::Machine, _) => true,
            (FleetTarget::Process(process), _) => processes::is_still_there(process),
            (FleetTarget::Cgroup(group), Some(root)) => cgroups::is_still_there(root, group),
            (FleetTarget::Cgroup(_), None) => false,
        }
    }

    /// The families about the exporter itself.
    fn own_families(&self, series: usize, took: Duration) -> Vec<MetricFamily> {
        let mut families = vec![
            self.targets(),
            self.dropped_now(),
            self.dropped_so_far(),
            self.drop_errors(),
            self.process_states(),
        ];
        families.extend(self.work(series, took));
        families.push(self.scrapes.family());
        families.extend(OwnCost::now().families());
        families.extend(self.scan_error.as_ref().map(|reason| {
            let help = "Why control groups cannot be found.";
            let mut family =
                MetricFamily::new("cyclometer_exporter_scan_error", FamilyKind::Gauge, None, help);
            family.push(vec![("reason", Cow::Owned(reason.clone()))], 1.0);
            family
        }));
        families
    }

    /// The families about what is open, what was read, and the limits on both.
    fn work(&self, series: usize, took: Duration) -> [MetricFamily; 7] {
        use FamilyKind::{Counter, Gauge};
        let (used, most) = (&self.budget.used, &self.budget.most);
        let of = MetricFamily::single;
        [
            of(
                "cyclometer_exporter_ended_targets",
                Counter,
                None,
                "Targets that ended while they were counted.",
                self.ended as f64,
            ),
            of("cyclometer_exporter_series", Gauge, None, "Series of targets in this answer.", series as f64),
            of(
                "cyclometer_exporter_series_limit",
                Gauge,
                None,
                "The limit on series of targets.",
                most.series as f64,
            ),
            of(
                "cyclometer_exporter_counters",
                Gauge,
                None,
                "Open counters, each of which may be a descriptor.",
                used.descriptors as f64,
            ),
            of(
                "cyclometer_exporter_counters_limit",
                Gauge,
                None,
                "The limit on open counters.",
                most.descriptors as f64,
            ),
            of("cyclometer_exporter_reads", Counter, None, "Reads of all counters.", self.reads as f64),
            of(
                "cyclometer_exporter_read_seconds",
                Gauge,
                Some("seconds"),
                "How long this read of all counters took.",
                took.as_secs_f64(),
            ),
        ]
    }

    fn targets(&self) -> MetricFamily {
        let help = "Targets whose counters are open.";
        let mut family = MetricFamily::new("cyclometer_exporter_targets", FamilyKind::Gauge, None, help);
        for kind in TargetKind::ALL {
            let number = self.counted.keys().filter(|target| target.kind() == kind).count();
            family.push(vec![("target", Cow::Borrowed(kind.word()))], number as f64);
        }
        family
    }

    fn dropped_now(&self) -> MetricFamily {
        let help = "Targets that exist and are not counted, by reason; the machine's counts include them.";
        let mut family =
            MetricFamily::new("cyclometer_exporter_dropped_targets", FamilyKind::Gauge, None, help);
        for reason in DropReason::ALL {
            let number = self.dropped.values().filter(|dropped| **dropped == reason).count();
            family.push(vec![("reason", Cow::Borrowed(reason.word()))], number as f64);
        }
        family
    }

    fn dropped_so_far(&self) -> MetricFamily {
        let help = "Targets that were found and not counted so far, by reason.";
        let mut family = MetricFamily::new("cyclometer_exporter_drops", FamilyKind::Counter, None, help);
        for reason in DropReason::ALL {
            family.push(vec![("reason", Cow::Borrowed(reason.word()))], self.budget.dropped(reason) as f64);
        }
        family
    }

    fn drop_errors(&self) -> MetricFamily {
        let help = "The latest error for which a target is not counted.";
        let mut family = MetricFamily::new("cyclometer_exporter_drop_error", FamilyKind::Gauge, None, help);
        let lasts = |reason: &DropReason| self.dropped.values().any(|dropped| dropped == reason);
        for (reason, error) in self.drop_errors.iter().filter(|(reason, _)| lasts(reason)) {
            let own = vec![("reason", Cow::Borrowed(reason.word())), ("error", Cow::Owned(error.clone()))];
            family.push(own, 1.0);
        }
        family
    }

    /// Two rules may have one name: each series is written once.
    fn process_states(&self) -> MetricFamily {
        let help = "A configured process that is not counted, and the reason.";
        let mut family = MetricFamily::new("cyclometer_process_state", FamilyKind::Gauge, None, help);
        let missing =
            self.missing.iter().map(|(rule, why)| (self.rule_labels(*rule), "not_found", why.clone()));
        let dropped = self.dropped.iter().filter(|(target, _)| target.kind() == TargetKind::Process);
        let dropped = dropped.map(|(target, reason)| {
            let error = self.drop_errors.get(reason).cloned();
            (self.labels(target), "dropped", error.unwrap_or_else(|| reason.word().to_owned()))
        });
        for (labels, state, why) in missing.chain(dropped).collect::<BTreeSet<_>>() {
            let own = vec![("state", Cow::Borrowed(state)), ("reason", Cow::Owned(why))];
            family.samples.push(MetricSample { target: Arc::new(labels), own, value: 1.0 });
        }
        family
    }
}

fn events_of(target: &FleetTarget) -> EventsOf {
    match target {
        FleetTarget::Machine => EventsOf::Machine,
        FleetTarget::Process(process) => EventsOf::Process(process.rule),
        FleetTarget::Cgroup(_) => EventsOf::Cgroups,
    }
}
