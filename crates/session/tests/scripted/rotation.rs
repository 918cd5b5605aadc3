//! Rotation groups within a run, in a world whose time passes only while the session waits.

use std::cell::{Cell as Shared, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cyclometer_core::exec::*;
use cyclometer_core::plan::{Outcome, PlanLine, Sharing};
use cyclometer_core::report::{Run, Slice};
use cyclometer_core::{Error, ErrorKind, Intent, Pass, Plan, Refusal, Report, Result, Rung, Slot, SlotId};
use cyclometer_session::{MeasurementJob, Moment, Observer, SessionResources, SessionSettings, run};

use crate::script::{hardware, machine};

/// The length of a unit of the world's time, in ns.
const UNIT_NS: u64 = 10_000_000;

/// A world with its time, and everything that may go wrong in it.
#[derive(Clone, Default)]
struct RotationWorld {
    time: Rc<Shared<u64>>,
    opened: Rc<RefCell<Vec<Slot>>>,
    /// How long each execution is.
    lasts: u64,
    /// When the command is executed.
    exec_at: u64,
    /// Selecting fails for the time that comes from this on.
    select_fails_at: Option<u64>,
    /// Reading fails from then on.
    read_fails_at: Option<u64>,
    cpus: Vec<u32>,
}

impl RotationWorld {
    fn lasting(lasts: u64) -> RotationWorld {
        RotationWorld { lasts, ..RotationWorld::default() }
    }
}

impl cyclometer_core::Launch for RotationWorld {
    fn prepare(&self, _: &CommandSpec) -> Result<Box<dyn Child>> {
        self.time.set(0);
        Ok(Box::new(self.clone()))
    }
}

impl Child for RotationWorld {
    fn pid(&self) -> Option<u32> {
        Some(1)
    }

    fn release(&mut self) -> Result<()> {
        Ok(())
    }

    fn wait(&mut self, until: Option<Instant>) -> Result<Waited> {
        self.time.set(self.time.get() + 1);
        if self.time.get() >= self.lasts || until.is_none() {
            self.time.set(self.lasts);
            let status = Some(ExitStatus::Code(0));
            return Ok(Waited::Exited(Exit { status, wall_ns: self.lasts * UNIT_NS, usage: None }));
        }
        std::thread::sleep(until.unwrap().saturating_duration_since(Instant::now()));
        Ok(Waited::TimedOut)
    }

    fn signal(&mut self, _: i32) {}
}

impl cyclometer_core::Source for RotationWorld {
    fn rung(&self) -> Rung {
        Rung::Perf
    }

    fn open(&self, slots: &[Slot], _: &Target) -> std::result::Result<Box<dyn Counting>, Refusal> {
        *self.opened.borrow_mut() = slots.to_vec();
        let counters = slots.iter().map(|slot| (slot.clone(), 0)).collect();
        Ok(Box::new(RotatingCounters { world: self.clone(), counters, selected: 0, seen: 0 }))
    }
}

/// Slot n counts n + 1 in each unit of time on each CPU while its rotation group is selected.
struct RotatingCounters {
    world: RotationWorld,
    counters: Vec<(Slot, u64)>,
    selected: u32,
    seen: u64,
}

impl RotatingCounters {
    fn catch_up(&mut self) {
        let now = self.world.time.get();
        let passed = now.saturating_sub(self.seen.max(self.world.exec_at));
        self.seen = now;
        for (slot, units) in &mut self.counters {
            if slot.rotation_group.is_none_or(|rotation_group| rotation_group == self.selected) {
                *units += passed;
            }
        }
    }

    fn cells(&mut self, rotation_group: Option<u32>, out: &mut Reading) -> Result<()> {
        self.catch_up();
        if self.world.read_fails_at.is_some_and(|at| self.seen >= at) {
            return Err(Error::new(ErrorKind::Os, "it is gone"));
        }
        let cpus = match self.world.cpus.as_slice() {
            [] => vec![None],
            cpus => cpus.iter().copied().map(Some).collect(),
        };
        for (slot, units) in &self.counters {
            if rotation_group.is_none()
                || slot.rotation_group.is_none()
                || slot.rotation_group == rotation_group
            {
                let raw = (slot.id.0 as u64 + 1) * units;
                out.cells.extend(cpus.iter().map(|cpu| Cell {
                    at: At { cpu: *cpu, ..At::default() },
                    ..Cell::new(slot.id, raw, units * UNIT_NS, units * UNIT_NS)
                }));
            }
        }
        Ok(())
    }
}

impl Counting for RotatingCounters {
    fn start(&mut self) -> Result<()> {
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        Ok(())
    }

    fn select(&mut self, rotation_group: u32) -> Result<()> {
        self.catch_up();
        if self.world.select_fails_at.is_some_and(|at| self.seen >= at) {
            return Err(Error::new(ErrorKind::Os, "no such device"));
        }
        self.selected = rotation_group;
        Ok(())
    }

    fn read(&mut self, out: &mut Reading) -> Result<()> {
        self.cells(None, out)
    }

    fn read_rotation_group(&mut self, rotation_group: u32, out: &mut Reading) -> Result<()> {
        self.cells(Some(rotation_group), out)
    }
}

/// Slots with these rotation groups, in one pass.
fn plan(rotation_groups: &[Option<u32>]) -> Plan {
    let line = |id: usize| PlanLine {
        event: hardware(&format!("e{id}")),
        outcome: Outcome::Counted { candidate: 0, filter: None, exclude_guest: false },
        skipped: Vec::new(),
    };
    let slot = |(id, rotation_group): (usize, &Option<u32>)| Slot {
        rotation_group: *rotation_group,
        ..Slot::new(SlotId(id), format!("e{id}"), Rung::Perf, Vec::new())
    };
    let slots = rotation_groups.iter().enumerate().map(slot).collect();
    Plan {
        lines: (0..rotation_groups.len()).map(line).collect(),
        passes: vec![Pass { slots, ..Pass::default() }],
        sharing: Sharing::default(),
        intent: Intent::default(),
    }
}

#[derive(Default)]
struct SliceRows(Vec<(u64, Vec<Slice>)>);

impl Observer for SliceRows {
    fn interval(&mut self, moment: &Moment<'_>, _: &Plan) {
        let raws = moment.reading.cells.iter().filter(|cell| cell.slot == SlotId(0)).map(|cell| cell.raw);
        self.0.push((raws.sum(), moment.slices.to_vec()));
    }
}

fn played(
    world: &RotationWorld,
    rotation_groups: &[Option<u32>],
    settings: SessionSettings,
    rows: &mut SliceRows,
) -> Report {
    let settings = SessionSettings { slice: Duration::ZERO, seed: settings.seed.or(Some(5)), ..settings };
    let machine = machine();
    let means = SessionResources { launch: world, translated: None, sources: &[world], machine: &machine };
    let job = MeasurementJob { command: Some(CommandSpec::new("x")), target: None, watched: None };
    run(job, plan(rotation_groups), &settings, &means, rows).unwrap()
}

fn run_of(world: &RotationWorld, rotation_groups: &[Option<u32>]) -> Run {
    played(world, rotation_groups, SessionSettings::default(), &mut SliceRows::default()).runs.remove(0)
}

fn final_raw(run: &Run, slot: usize) -> u64 {
    run.reading.cells.iter().filter(|cell| cell.slot == SlotId(slot)).map(|cell| cell.raw).sum()
}

fn sliced_raw(slices: &[Slice], slot: usize) -> u64 {
    slices.iter().filter_map(|slice| slice.count(SlotId(slot))).map(|count| count.raw).sum()
}

fn order(run: &Run) -> Vec<u32> {
    run.slices.iter().map(|slice| slice.rotation_group).collect()
}

/// One event that always counts and four that take two rotation groups.
const MIXED: [Option<u32>; 5] = [None, Some(0), Some(1), Some(0), Some(1)];

#[test]
fn all_that_was_counted_is_in_exactly_one_slice() {
    let run = run_of(&RotationWorld::lasting(40), &MIXED);
    assert_eq!(run.slices.len(), 40);
    for slot in 0..5 {
        assert_eq!(sliced_raw(&run.slices, slot), final_raw(&run, slot), "slot {slot}");
    }
    assert_eq!(final_raw(&run, 0), 40, "what always counts never stops");
    assert_eq!(final_raw(&run, 1) / 2 + final_raw(&run, 2) / 3, 40, "one turn or the other");
}

#[test]
fn a_slice_has_the_events_that_always_count_and_those_of_its_group() {
    let run = run_of(&RotationWorld::lasting(10), &MIXED);
    for slice in &run.slices {
        let slots: Vec<usize> = slice.counts.iter().map(|count| count.slot.0).collect();
        assert_eq!(slots, if slice.rotation_group == 0 { [0, 1, 3] } else { [0, 2, 4] });
        assert!(slice.counts.iter().all(|count| count.raw == count.slot.0 as u64 + 1));
        assert!(slice.counts.iter().all(|count| count.time_enabled_ns == UNIT_NS));
    }
}

#[test]
fn every_round_has_each_group_once_in_an_order_of_its_own() {
    let run = run_of(&RotationWorld::lasting(120), &[Some(0), Some(1), Some(2)]);
    let order = order(&run);
    let rounds: BTreeMap<&[u32], usize> = order.chunks(3).map(|round| (round, 1)).collect();
    assert!(
        rounds.keys().all(|round| (0..3).all(|rotation_group| round.contains(&rotation_group))),
        "{rounds:?}"
    );
    assert_eq!(rounds.len(), 6, "40 rounds have every order");
}

#[test]
fn rotation_without_anything_that_always_counts_is_logged_too() {
    let run = run_of(&RotationWorld::lasting(20), &[Some(0), Some(1)]);
    assert!(run.slices.iter().all(|slice| slice.counts.len() == 1));
    assert_eq!(final_raw(&run, 0) + final_raw(&run, 1) / 2, 20);
}

#[test]
fn the_order_follows_from_the_seed_and_differs_between_runs() {
    let orders = |seed| {
        let settings = SessionSettings { seed: Some(seed), runs: 2, ..SessionSettings::default() };
        let report = played(&RotationWorld::lasting(30), &MIXED, settings, &mut SliceRows::default());
        report.runs.iter().map(order).collect::<Vec<_>>()
    };
    let first = orders(1);
    assert_eq!(first, orders(1));
    assert_ne!(first, orders(2));
    assert_ne!(first[0], first[1]);
}

#[test]
fn each_group_sees_the_beginning_of_some_runs() {
    let settings = SessionSettings { runs: 20, ..SessionSettings::default() };
    let report = played(&RotationWorld::lasting(1), &MIXED, settings, &mut SliceRows::default());
    let firsts: Vec<u32> = report.runs.iter().map(|run| order(run)[0]).collect();
    assert!(firsts.contains(&0) && firsts.contains(&1), "{firsts:?}");
}

#[test]
fn in_a_run_that_is_too_short_only_the_first_group_has_a_slice() {
    let run = run_of(&RotationWorld::lasting(1), &MIXED);
    let [slice] = run.slices.as_slice() else { panic!("{:?}", run.slices) };
    let (seen, unseen) = if slice.rotation_group == 0 { ([1, 3], [2, 4]) } else { ([2, 4], [1, 3]) };
    assert!(seen.iter().all(|slot| final_raw(&run, *slot) > 0));
    assert!(unseen.iter().all(|slot| final_raw(&run, *slot) == 0 && sliced_raw(&run.slices, *slot) == 0));
}

#[test]
fn a_group_that_is_alone_counts_all_the_time_and_has_no_slices() {
    let world = RotationWorld::lasting(5);
    let run = run_of(&world, &[None, Some(2), Some(2)]);
    assert_eq!((run.slices.as_slice(), final_raw(&run, 1)), (&[][..], 10));
    assert!(world.opened.borrow().iter().all(|slot| slot.rotation_group.is_none()));
}

#[test]
fn groups_do_not_change_before_the_command_is_executed() {
    let world = RotationWorld { exec_at: 5, ..RotationWorld::lasting(20) };
    let run = run_of(&world, &MIXED);
    let counted = |slice: &Slice| slice.count(SlotId(0)).is_some_and(|count| count.raw > 0);
    assert!(run.slices.iter().all(counted), "{:?}", run.slices);
    assert_eq!(final_raw(&run, 0), 15);
}

#[test]
fn when_groups_cannot_change_any_more_their_values_are_lost_and_the_command_goes_on() {
    let world = RotationWorld { select_fails_at: Some(4), ..RotationWorld::lasting(20) };
    let run = run_of(&world, &MIXED);
    assert_eq!(run.exit, Some(ExitStatus::Code(0)));
    assert_eq!(world.time.get(), 20);
    for cell in &run.reading.cells {
        let reason = cell.lost.as_ref().map(|reason| reason.to_string());
        match cell.slot {
            SlotId(0) => assert_eq!((cell.raw, reason), (20, None)),
            _ => assert_eq!(
                reason.as_deref(),
                Some("its rotation group could not be selected: no such device")
            ),
        }
    }
}

#[test]
fn a_source_that_cannot_be_read_any_more_leaves_the_slices_it_had() {
    let world = RotationWorld { read_fails_at: Some(10), ..RotationWorld::lasting(20) };
    let run = run_of(&world, &MIXED);
    assert!(run.reading.cells.iter().all(|cell| cell.lost == Some("it is gone".into())));
    assert_eq!(run.slices.iter().filter(|slice| !slice.counts.is_empty()).count(), 9);
}

#[test]
fn cpus_add_up_in_a_slice() {
    let world = RotationWorld { cpus: vec![0, 1, 7], ..RotationWorld::lasting(8) };
    let run = run_of(&world, &MIXED);
    let always = run.slices.iter().map(|slice| *slice.count(SlotId(0)).unwrap());
    assert!(always.into_iter().all(|count| count.raw == 3 && count.time_enabled_ns == 3 * UNIT_NS));
    assert_eq!(sliced_raw(&run.slices, 2), final_raw(&run, 2));
}

#[test]
fn rows_hold_whole_slices() {
    let settings = SessionSettings { interval: Some(Duration::from_micros(1)), ..SessionSettings::default() };
    let mut rows = SliceRows::default();
    played(&RotationWorld::lasting(200), &MIXED, settings, &mut rows);
    assert!(rows.0.len() > 2, "{} rows", rows.0.len());
    for (raw, slices) in &rows.0 {
        assert_eq!(sliced_raw(slices, 0), *raw);
    }
}
