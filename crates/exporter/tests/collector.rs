//! Finding, opening and closing targets, on a tree of folders in place of control groups and counters that
//! count reads.
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cyclometer_exporter::budget::TargetNeed;
use cyclometer_exporter::cgroup_watch;
use cyclometer_exporter::collector::{Collector, Rescan};
use cyclometer_exporter::config::ExporterConfig;
use cyclometer_exporter::counters::{EventsOf, OpenTarget, TargetCounters};
use cyclometer_exporter::exposition::{TextFormat, render};
use cyclometer_exporter::hub;
use cyclometer_exporter::scrapes::ScrapeCounts;
use cyclometer_toolkit::core::{Count, Error, ErrorKind, Result, Unit};
use cyclometer_toolkit::{Machine, Provenance, Scope, StandingValue, Target, Verdict};

/// Counters of a made-up machine, which notes what is open.
#[derive(Clone, Default)]
struct MadeUp {
    open: Rc<Cell<usize>>,
    opened: Rc<RefCell<Vec<String>>>,
    /// Names of groups that cannot be opened, as if they had vanished.
    vanish: Rc<RefCell<BTreeSet<String>>>,
}

const EVENTS: usize = 2;
const COUNTERS: usize = 4;

struct MadeUpCounters {
    open: Rc<Cell<usize>>,
    reads: u64,
}

impl OpenTarget for MadeUp {
    fn events(&self, _: EventsOf) -> usize {
        EVENTS
    }

    fn open(&mut self, _: EventsOf, target: Target) -> Result<Box<dyn TargetCounters>> {
        let name = match &target {
            Target::Cgroup { path, .. } => path.file_name().unwrap().to_string_lossy().into_owned(),
            Target::Process { .. } => "process".to_owned(),
            _ => "machine".to_owned(),
        };
        if self.vanish.borrow().contains(&name) {
            return Err(Error::new(ErrorKind::NoSuchTarget, "it has vanished"));
        }
        self.opened.borrow_mut().push(name);
        self.open.set(self.open.get() + COUNTERS);
        Ok(Box::new(MadeUpCounters { open: Rc::clone(&self.open), reads: 0 }))
    }
}

impl Drop for MadeUpCounters {
    fn drop(&mut self) {
        self.open.set(self.open.get() - COUNTERS);
    }
}

impl TargetCounters for MadeUpCounters {
    fn counters(&self) -> usize {
        COUNTERS
    }

    fn read(&mut self) -> Vec<StandingValue> {
        self.reads += 1;
        let value = |name: &str, latest: Count| StandingValue {
            name: name.to_owned(),
            event: name.to_owned(),
            verdict: latest.verdict().has_value().then_some(Verdict::Exact),
            latest,
            total: self.reads,
            times: None,
            is_peak: false,
            is_gauge: false,
            scale: 1.0,
            unit: Unit::Count,
            provenance: Some(Provenance::Kernel),
            rung: None,
            scope: Scope::Cgroup,
            modes: None,
        };
        let reason = "another user holds the PMU cpu (EBUSY)".into();
        let named_twice = || value("page-faults", Count::Exact(1));
        vec![named_twice(), value("cycles", Count::NotCounted { reason }), named_twice()]
    }
}

/// A machine of two CPUs, as it was recorded.
fn machine() -> Machine {
    let mut machine = cyclometer_toolkit::machine_for_regions();
    machine.online = cyclometer_toolkit::CpuSet::parse("0-1").unwrap();
    machine
}

struct Fixture {
    root: tempfile::TempDir,
    made_up: MadeUp,
    collector: Collector<MadeUp>,
}

impl Fixture {
    fn new(config: &str, most: TargetNeed) -> Fixture {
        let root = tempfile::tempdir().unwrap();
        let made_up = MadeUp::default();
        let config = ExporterConfig::parse(config).unwrap();
        let folder = Some(PathBuf::from(root.path()));
        let scrapes = Arc::new(ScrapeCounts::default());
        let collector = Collector::new(made_up.clone(), config, &machine(), folder, most, scrapes);
        Fixture { root, made_up, collector }
    }

    fn make(&self, path: impl AsRef<Path>) {
        fs::create_dir_all(self.root.path().join(path)).unwrap();
    }

    fn remove(&self, path: &str) {
        fs::remove_dir(self.root.path().join(path)).unwrap();
    }

    fn rescan(&mut self) {
        while self.collector.rescan() == Rescan::MoreToOpen {}
    }

    fn scrape(&mut self) -> String {
        render(&self.collector.read().families, TextFormat::Prometheus)
    }

    /// The value of the only series that begins so.
    fn value(&mut self, series: &str) -> f64 {
        let text = self.scrape();
        let line =
            text.lines().find(|line| line.starts_with(series)).unwrap_or_else(|| panic!("{series}: {text}"));
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    }
}

const ALL: &str = "cgroups: {include: ['**']}";
const PLENTY: TargetNeed = TargetNeed { descriptors: 10_000, series: 10_000 };

#[test]
fn the_machine_and_its_groups_are_counted_and_values_move() {
    let mut fixture = Fixture::new(ALL, PLENTY);
    fixture.make("a/b");
    fixture.rescan();
    assert_eq!(*fixture.made_up.opened.borrow(), ["machine", "a", "b"]);
    let series =
        "cyclometer_events_total{target=\"cgroup\",cgroup=\"/a/b\",event=\"page-faults\",verdict=\"exact\"";
    let first = fixture.value(series);
    assert_eq!(fixture.value(series), first + 1.0);
    let text = fixture.scrape();
    assert!(text.contains("cyclometer_events_total{target=\"machine\",event=\"page-faults\""), "{text}");
    let taken = "cyclometer_event_state{target=\"cgroup\",event=\"cycles\",state=\"not_counted\",\
        reason=\"another user holds the PMU cpu (EBUSY)\"} 1";
    assert!(text.contains(taken), "{text}");
    assert!(!text.contains("event=\"cycles\",verdict"), "what is not counted has no sample: {text}");
}

#[test]
fn a_group_that_vanishes_between_rescan_and_scrape_has_no_samples_and_its_counters_are_closed() {
    let mut fixture = Fixture::new(ALL, PLENTY);
    fixture.make("a");
    fixture.make("b");
    fixture.rescan();
    assert_eq!(fixture.made_up.open.get(), 3 * COUNTERS);
    fixture.remove("a");
    let text = fixture.scrape();
    assert!(!text.contains("cgroup=\"/a\"") && text.contains("cgroup=\"/b\""), "{text}");
    assert_eq!(fixture.made_up.open.get(), 2 * COUNTERS);
    assert_eq!(fixture.value("cyclometer_exporter_ended_targets_total"), 1.0);
}

#[test]
fn a_group_that_vanishes_while_it_is_opened_is_dropped_and_tried_again() {
    let mut fixture = Fixture::new(ALL, PLENTY);
    fixture.make("a");
    fixture.made_up.vanish.borrow_mut().insert("a".to_owned());
    fixture.rescan();
    fixture.rescan();
    assert_eq!(fixture.value("cyclometer_exporter_dropped_targets{reason=\"vanished\"}"), 1.0);
    assert_eq!(fixture.value("cyclometer_exporter_drops_total{reason=\"vanished\"}"), 1.0, "counted once");
    fixture.made_up.vanish.borrow_mut().clear();
    fixture.rescan();
    assert_eq!(fixture.value("cyclometer_exporter_dropped_targets{reason=\"vanished\"}"), 0.0);
    assert_eq!(fixture.made_up.open.get(), 2 * COUNTERS);
}

#[test]
fn thousands_of_groups_that_come_and_go_leave_nothing_open() {
    let mut fixture = Fixture::new(ALL, PLENTY);
    for round in 0..50 {
        for i in 0..40 {
            fixture.make(format!("round-{round}-{i}"));
        }
        fixture.rescan();
        assert_eq!(fixture.made_up.open.get(), 41 * COUNTERS);
        for i in 0..40 {
            fixture.remove(&format!("round-{round}-{i}"));
        }
        if round % 2 == 0 {
            fixture.rescan();
        } else {
            fixture.scrape();
        }
        assert_eq!(fixture.made_up.open.get(), COUNTERS, "the machine's");
    }
    assert_eq!(fixture.value("cyclometer_exporter_counters "), COUNTERS as f64);
    assert_eq!(fixture.value("cyclometer_exporter_ended_targets_total"), 2000.0);
}

#[test]
fn where_descriptors_are_too_few_the_machine_is_counted_and_groups_are_dropped() {
    // Ten descriptors: the machine takes four, and each group two events on two CPUs.
    let mut fixture = Fixture::new(ALL, TargetNeed { descriptors: 10, ..PLENTY });
    for name in ["a", "b", "c"] {
        fixture.make(name);
    }
    fixture.rescan();
    assert_eq!(*fixture.made_up.opened.borrow(), ["machine", "a"]);
    assert_eq!(fixture.value("cyclometer_exporter_dropped_targets{reason=\"descriptors\"}"), 2.0);
    assert_eq!(fixture.value("cyclometer_exporter_drops_total{reason=\"descriptors\"}"), 2.0);
    fixture.remove("a");
    fixture.rescan();
    assert_eq!(*fixture.made_up.opened.borrow(), ["machine", "a", "b"], "there is room again");
    assert_eq!(fixture.value("cyclometer_exporter_dropped_targets{reason=\"descriptors\"}"), 1.0);
}

#[test]
fn series_have_a_limit_of_their_own() {
    // Three for each of two events.
    let mut fixture = Fixture::new(ALL, TargetNeed { series: 12, ..PLENTY });
    for name in ["a", "b"] {
        fixture.make(name);
    }
    fixture.rescan();
    assert_eq!(*fixture.made_up.opened.borrow(), ["machine", "a"]);
    assert_eq!(fixture.value("cyclometer_exporter_drops_total{reason=\"series\"}"), 1.0);
}

#[test]
fn names_that_are_no_text_are_escaped_and_two_with_one_label_are_not_both_shown() {
    let mut fixture = Fixture::new(ALL, PLENTY);
    fixture.make("quote\"new\nline");
    fixture.make(Path::new(std::ffi::OsStr::from_bytes(b"bytes\xff")));
    fixture.make("bytes\\xff");
    fixture.rescan();
    let text = fixture.scrape();
    assert!(text.contains("cgroup=\"/quote\\\"new\\nline\""), "{text}");
    assert!(text.contains("cgroup=\"/bytes\\\\xff\""), "{text}");
    assert_eq!(fixture.value("cyclometer_exporter_dropped_targets{reason=\"same_labels\"}"), 1.0);
    assert_eq!(text.matches("cgroup=\"/bytes\\\\xff\",event=\"page-faults\"").count(), 1, "{text}");
}

#[test]
fn a_configured_process_is_counted_until_it_ends() {
    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let config = format!("processes: [{{name: sleeper, pid: {}}}]", child.id());
    let mut fixture = Fixture::new(&config, PLENTY);
    fixture.rescan();
    let series =
        format!("cyclometer_events_total{{target=\"process\",process=\"sleeper\",pid=\"{}\"", child.id());
    assert!(fixture.scrape().contains(&series));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!fixture.scrape().contains(&series));
    assert_eq!(fixture.made_up.open.get(), COUNTERS, "the machine's");
}

#[test]
fn a_configured_process_that_does_not_run_or_cannot_be_opened_has_a_state_with_the_reason() {
    let own = std::process::id();
    let config = format!(
        "processes: [{{name: gone, pid_file: /no/such/file}}, {{name: gone, pid_file: /no/such/file}}, \
         {{name: own, pid: {own}}}]"
    );
    let mut fixture = Fixture::new(&config, PLENTY);
    fixture.made_up.vanish.borrow_mut().insert("process".to_owned());
    fixture.rescan();
    let text = fixture.scrape();
    let gone = "cyclometer_process_state{target=\"process\",process=\"gone\",state=\"not_found\",\
        reason=\"cannot read pid_file /no/such/file: ";
    assert_eq!(text.matches(gone).count(), 1, "{text}");
    let dropped = format!("process=\"own\",pid=\"{own}\",state=\"dropped\",reason=\"it has vanished");
    assert!(text.contains(&dropped), "{text}");
    assert!(
        text.contains("cyclometer_exporter_drop_error{reason=\"vanished\",error=\"it has vanished"),
        "{text}"
    );
    fixture.made_up.vanish.borrow_mut().clear();
    fixture.rescan();
    let text = fixture.scrape();
    assert!(!text.contains("drop_error{") && !text.contains("process=\"own\",pid=\"{own}\",state"), "{text}");
}

#[test]
fn no_two_samples_have_the_same_name_and_labels() {
    let mut fixture = Fixture::new(ALL, PLENTY);
    fixture.make("a");
    fixture.make("b");
    fixture.rescan();
    let text = fixture.scrape();
    let series: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.rsplit_once(' ').unwrap().0)
        .collect();
    assert!(series.iter().any(|series| series.contains("event=\"page-faults\"")), "{text}");
    assert_eq!(series.iter().collect::<BTreeSet<_>>().len(), series.len(), "{text}");
}

#[test]
fn a_root_that_cannot_be_read_is_reported_and_the_machine_is_counted() {
    let mut fixture = Fixture::new(ALL, PLENTY);
    fs::remove_dir(fixture.root.path()).unwrap();
    fixture.rescan();
    let text = fixture.scrape();
    assert!(
        text.contains("cyclometer_exporter_scan_error{reason=\"cannot read the control groups below "),
        "{text}"
    );
    assert!(text.contains("cyclometer_events_total{target=\"machine\""), "{text}");
    fixture.make("");
}

#[test]
fn a_group_that_is_made_is_counted_without_a_search_of_the_period() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("early")).unwrap();
    let (hub, end) = hub::channel(Duration::ZERO, Duration::from_secs(600));
    let news = cgroup_watch::start(root.path(), hub.reader_wake()).unwrap();
    let folder = root.path().to_owned();
    let reader = std::thread::spawn(move || {
        let config = ExporterConfig::parse("cgroups: {include: ['**']}\n").unwrap();
        let scrapes = Arc::new(ScrapeCounts::default());
        let mut collector =
            Collector::new(MadeUp::default(), config, &machine(), Some(folder), PLENTY, scrapes);
        end.run(&mut collector, Duration::from_secs(3600), Some(&news));
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let scrape = || {
        let snapshot = runtime.block_on(hub.snapshot()).unwrap();
        render(&snapshot.families, TextFormat::Prometheus)
    };
    assert!(scrape().contains("cgroup=\"/early\""));
    fs::create_dir_all(root.path().join("late/inner")).unwrap();
    while !scrape().contains("cgroup=\"/late/inner\"") {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(hub);
    reader.join().unwrap();
}
