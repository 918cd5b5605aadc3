//! Windows of the register source on simulated chips: rows add up to the true counts, skid is measured, and
//! counters that another user takes leave no wrong number.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cyclometer_arch::{Fault, PmuReg, Registers, Step};
use cyclometer_backend::registers::{Bound, Bus, CorePmu, RegisterSource};
use cyclometer_backend::sim::SimBus;
use cyclometer_core::event::{RegisterAssignment, RegisterCode, RegisterEvent};
use cyclometer_core::exec::{Reading, RefusalKind};
use cyclometer_core::window::{
    RowBatch, WindowBoundary, WindowCause, WindowRow, WindowSpec, WindowThread, Windowing, WindowingState,
};
use cyclometer_core::{
    Count, CounterId, CounterMask, Counting, CpuSet, EventCode, Modes, Part, Refusal, Rung, Slot, SlotId,
    Source, Target,
};
use cyclometer_sim::{Concept, InjectedFault, Model, Settings, SimMachine, ThreadId, Workload};

/// Events that every chip counts at the same time; the first is the leader.
const EVENTS: [Concept; 4] =
    [Concept::Instructions, Concept::Cycles, Concept::Branches, Concept::Mispredicts];

const N: u64 = 300_000;

/// The time between two drains, as in a session.
const DRAIN_NS: u64 = 10_000_000;

/// Longer than any skid of a simulated chip, in instructions.
const MOST_SKID: u64 = 30_000;

fn core(model: &Model, cpus: u32) -> CorePmu {
    CorePmu { name: model.id.to_owned(), cpus: (0..cpus).collect(), chip: model.chip, cycles: None }
}

/// Each event on the first general counter that is free.
fn slots(model: &Model, cpus: u32) -> Vec<Slot> {
    let mut taken = 0u64;
    let slot = |(id, concept): (usize, &Concept)| {
        let row = model.events.iter().find(|row| row.meaning.is_sum_of(&[*concept])).unwrap();
        let counter = (row.counters.general_bits() & !taken).trailing_zeros() as u8;
        taken |= 1 << counter;
        let counter = CounterId::General(counter);
        let (select, umask) = model.select(row.code);
        let code = EventCode { select, umask, ..EventCode::default() };
        let counters = CounterMask::from_iter([counter]);
        let event = RegisterEvent {
            pmu: model.id.to_owned(),
            cpus: (0..cpus).collect(),
            codes: vec![RegisterCode { code, counters }],
            wide: false,
            assignments: vec![RegisterAssignment { rotation_group: None, counter, code }],
        };
        let slot = Slot::new(SlotId(id), format!("{concept:?}"), Rung::Sim, vec![Part::Registers(event)]);
        Slot { filter: Some(Modes::USER), ..slot }
    };
    EVENTS.iter().enumerate().map(slot).collect()
}

fn every(slot: usize, period: u64) -> WindowBoundary {
    WindowBoundary::Events { slot: SlotId(slot), period: NonZeroU64::new(period).unwrap() }
}

fn spec(boundaries: &[WindowBoundary]) -> WindowSpec {
    WindowSpec { boundaries: boundaries.to_vec(), most_rows: WindowSpec::MOST_ROWS }
}

/// A simulated machine with its counters and windows.
struct Bench {
    bus: Rc<RefCell<SimBus>>,
    counting: Box<dyn Counting>,
    windows: Box<dyn Windowing>,
    threads: Vec<ThreadId>,
    rows: Vec<WindowRow>,
    lost: u64,
    /// The registers before the counters were opened.
    before: Vec<(PmuReg, u64)>,
}

fn registers(model: &Model, bus: &mut SimBus) -> Vec<(PmuReg, u64)> {
    let all = PmuReg::all(&model.chip);
    all.into_iter().filter_map(|register| Some((register, bus.read(0, register).ok()?))).collect()
}

impl Bench {
    fn new(
        model: &'static Model,
        settings: Settings,
        workloads: &[Workload],
        faults: &[InjectedFault],
        spec: &WindowSpec,
    ) -> Bench {
        let mut machine = SimMachine::new(model, settings);
        let cpus: Vec<u32> = (0..machine.cpus()).collect();
        let threads = workloads.iter().map(|workload| machine.spawn(workload.clone(), &cpus).unwrap());
        let threads = threads.collect();
        let bus = Rc::new(RefCell::new(SimBus::new(machine)));
        let before = registers(model, &mut bus.borrow_mut());
        let source = RegisterSource::new(Rung::Sim, vec![core(model, settings.cpus)], Rc::clone(&bus));
        let on = Target::Cpus((0..settings.cpus).collect());
        let mut counting = source.open(&slots(model, settings.cpus), &on).unwrap();
        let windows = counting.windows(spec).unwrap().unwrap();
        for fault in faults {
            bus.borrow_mut().machine_mut().inject(*fault).unwrap();
        }
        let mut bench = Bench { bus, counting, windows, threads, rows: Vec::new(), lost: 0, before };
        bench.counting.start().unwrap();
        bench.windows.start().unwrap();
        bench
    }

    fn drain(&mut self) -> WindowingState {
        let mut batch = RowBatch::default();
        let state = self.windows.next(Instant::now(), &mut batch).unwrap();
        self.rows.extend(batch.rows);
        self.lost += batch.lost;
        state
    }

    fn run(&mut self, ms: u64) {
        for _ in 0..ms * 1_000_000 / DRAIN_NS {
            self.bus.borrow_mut().pass(DRAIN_NS);
            assert_eq!(self.drain(), WindowingState::Open);
        }
    }

    /// Ends the recording; the totals of the counters.
    fn stop(&mut self) -> Vec<Count> {
        self.counting.stop().unwrap();
        let mut reading = Reading::default();
        self.counting.read(&mut reading).unwrap();
        self.windows.stop().unwrap();
        assert_eq!(self.drain(), WindowingState::Ended);
        reading.cells.sort_by_key(|cell| cell.slot);
        let total = |cell: cyclometer_core::exec::Cell| match cell.lost {
            Some(reason) => Count::Lost { reason },
            None => Count::Exact(cell.raw),
        };
        reading.cells.into_iter().map(total).collect()
    }

    fn truth(&self, thread: usize, slot: usize) -> u64 {
        self.bus.borrow().machine().truth(self.threads[thread], EVENTS[slot])
    }

    fn rows_of(&self, thread: usize) -> Vec<&WindowRow> {
        let tid = self.threads[thread].index() as u32 + 1;
        self.rows.iter().filter(|row| row.thread == Some(WindowThread { pid: 1, tid })).collect()
    }

    /// The sum of a slot over the rows of a thread; `None` if one of them has no number.
    fn sum(&self, thread: usize, slot: usize) -> Option<u64> {
        self.rows_of(thread).iter().map(|row| row.counts[slot].value()).sum()
    }

    fn assert_adds_up(&mut self) {
        let totals = self.stop();
        for (slot, total) in totals.iter().enumerate() {
            let of = |thread| self.sum(thread, slot);
            let sums: Vec<Option<u64>> = (0..self.threads.len()).map(of).collect();
            let truths: Vec<_> =
                (0..self.threads.len()).map(|thread| Some(self.truth(thread, slot))).collect();
            assert_eq!(sums, truths, "slot {slot}");
            assert_eq!(Some(total.clone()), truths.into_iter().sum::<Option<u64>>().map(Count::Exact));
        }
    }
}

fn endless(name: &str) -> Workload {
    Workload::named(name).unwrap()
}

fn settings(cpus: u32, migrations_percent: u32) -> Settings {
    Settings { cpus, seed: 5, slice_ns: 1_000_000, migrations_percent, ..Settings::default() }
}

#[test]
fn rows_of_threads_that_migrate_add_up_to_what_happened_and_to_the_totals() {
    for model in Model::ALL {
        let workloads = ["phases", "noisy", "loop"].map(endless);
        let mut bench = Bench::new(model, settings(2, 50), &workloads, &[], &spec(&[every(0, N)]));
        bench.run(40);
        bench.assert_adds_up();
        assert_eq!(bench.lost, 0);
        for thread in 0..3 {
            let rows = bench.rows_of(thread);
            assert!(rows.len() > 10, "{}", model.id);
            assert!(rows.iter().any(|row| row.flags.migrations.unwrap() > 0), "{}", model.id);
            assert!(rows.is_sorted_by_key(|row| row.time_ns), "{}", model.id);
            let running: u64 = rows.iter().map(|row| row.running_ns.unwrap()).sum();
            assert!(running > 0 && running <= 40_000_000, "{}: {running}", model.id);
        }
    }
}

#[test]
fn the_skid_is_in_the_count_of_the_leader_and_boundaries_do_not_drift() {
    for model in Model::ALL {
        let mut bench = Bench::new(model, settings(1, 0), &[endless("noisy")], &[], &spec(&[every(0, N)]));
        bench.run(20);
        bench.assert_adds_up();
        let rows = bench.rows_of(0);
        let (last, boundaries) = rows.split_last().unwrap();
        assert_eq!(last.cause, WindowCause::End, "{}", model.id);
        let mut position = 0;
        for (row, reached) in boundaries.iter().zip(1..) {
            assert_eq!(row.cause, WindowCause::Boundary(0), "{}", model.id);
            position += row.counts[0].value().unwrap();
            let overshoot = position.checked_sub(reached * N).unwrap();
            assert!(overshoot < MOST_SKID, "{}: {overshoot}", model.id);
        }
        assert!(boundaries[0].counts[0].value().unwrap() > N, "{}: no skid", model.id);
    }
}

#[test]
fn a_row_names_the_boundary_that_it_reached() {
    for id in ["skylake", "apple-m1", "amdzen2", "neoverse-n1"] {
        let model = Model::find(id).unwrap();
        let both = spec(&[every(0, 1_000_000), every(2, 70_000)]);
        let mut bench = Bench::new(model, settings(1, 0), &[endless("phases")], &[], &both);
        bench.run(20);
        bench.assert_adds_up();
        for boundary in 0..2 {
            let own = bench.rows.iter().filter(|row| row.cause == WindowCause::Boundary(boundary)).count();
            assert!(own > 5, "{id}: {own} rows at boundary {boundary}");
        }
    }
}

#[test]
fn a_thread_that_ends_has_its_last_row_before_the_recording_ends() {
    let model = Model::find("icelake").unwrap();
    let short = endless("loop").for_rounds(3);
    let mut bench =
        Bench::new(model, settings(1, 0), &[short, endless("memory")], &[], &spec(&[every(0, N)]));
    bench.run(30);
    let last = bench.rows_of(0).last().unwrap().cause;
    assert_eq!(last, WindowCause::End);
    assert!(bench.rows_of(1).iter().all(|row| row.cause == WindowCause::Boundary(0)));
    bench.assert_adds_up();
}

#[test]
fn narrow_counters_that_wrap_between_boundaries_lose_nothing() {
    let model = Model::find("neoverse-n1").unwrap();
    let rare = spec(&[every(3, 1_000_000)]);
    let mut bench = Bench::new(model, settings(1, 0), &[endless("loop")], &[], &rare);
    bench.run(1_000);
    assert!(bench.truth(0, 0) > 1 << 32);
    bench.assert_adds_up();
    let most = bench.rows.iter().map(|row| row.counts[0].value().unwrap()).max().unwrap();
    assert!(most > 1 << 31, "no row is longer than a signed half of the counter: {most}");
}

#[test]
fn rows_that_find_no_room_are_counted_and_totals_keep_them() {
    let model = Model::find("skylake").unwrap();
    let few = WindowSpec { most_rows: 4, ..spec(&[every(0, N)]) };
    let mut bench = Bench::new(model, settings(1, 0), &[endless("loop")], &[], &few);
    bench.run(50);
    let totals = bench.stop();
    assert_eq!(totals[0], Count::Exact(bench.truth(0, 0)));
    assert!(bench.lost > 10);
    let flagged: u64 = bench.rows.iter().map(|row| row.flags.lost_before).sum();
    assert!((1..=bench.lost).contains(&flagged), "{flagged} of {}", bench.lost);
    assert!(bench.sum(0, 0).unwrap() < bench.truth(0, 0));
}

#[test]
fn a_counter_that_another_user_takes_is_lost_and_the_others_stay_exact() {
    for model in Model::ALL {
        let slots = slots(model, 1);
        // A counter of an event that is not the leader.
        let Part::Registers(event) = &slots[3].parts[0] else { panic!() };
        let CounterId::General(counter) = event.assignments[0].counter else { panic!() };
        let steal = InjectedFault::StealCounter { cpu: 0, counter, after_ns: 5_000_000 };
        let mut bench =
            Bench::new(model, settings(1, 0), &[endless("loop")], &[steal], &spec(&[every(0, N)]));
        bench.run(20);
        let totals = bench.stop();
        assert!(
            matches!(&totals[3], Count::Lost { reason } if !reason.to_string().is_empty()),
            "{}: {totals:?}",
            model.id
        );
        let first = bench.rows.iter().find(|row| row.counts[3].value().is_none()).unwrap();
        assert!(matches!(first.cause, WindowCause::CountersLost | WindowCause::Boundary(0)), "{}", model.id);
        for (slot, total) in totals[..3].iter().enumerate() {
            match total {
                Count::Exact(total) => {
                    assert_eq!(*total, bench.truth(0, slot), "{} slot {slot}", model.id);
                    assert_eq!(bench.sum(0, slot), Some(*total), "{} slot {slot}", model.id);
                }
                Count::Lost { reason } => assert!(!reason.to_string().is_empty()),
                other => panic!("{other:?}"),
            }
        }
        // The other user's counter goes on.
        let Bench { bus, counting, windows, .. } = bench;
        drop((counting, windows));
        let restored = registers(model, &mut bus.borrow_mut());
        bus.borrow_mut().pass(DRAIN_NS);
        assert_ne!(registers(model, &mut bus.borrow_mut()), restored, "{}: no counter counts", model.id);
    }
}

#[test]
fn a_kernel_that_writes_over_the_controls_leaves_no_wrong_number() {
    for model in Model::ALL {
        let rewrite = InjectedFault::RewriteControl { every_ns: 2_000_000 };
        let workloads = ["loop", "phases"].map(endless);
        let mut bench = Bench::new(model, settings(1, 0), &workloads, &[rewrite], &spec(&[every(0, N)]));
        bench.run(20);
        let totals = bench.stop();
        for (slot, total) in totals.iter().enumerate() {
            match total {
                Count::Lost { reason } => assert!(!reason.to_string().is_empty(), "{}", model.id),
                total => {
                    let truth = bench.truth(0, slot) + bench.truth(1, slot);
                    assert_eq!(total, &Count::Exact(truth), "{}", model.id);
                }
            }
        }
        let mut numbers: BTreeMap<u32, u64> = BTreeMap::new();
        for row in bench.rows.iter().filter(|row| row.thread.is_some()) {
            *numbers.entry(row.thread.unwrap().tid).or_default() += row.counts[0].value().unwrap_or(0);
        }
        for (thread, tid) in (0..2).zip(1..) {
            let found = numbers.get(&tid).copied().unwrap_or(0);
            assert!(found <= bench.truth(thread, 0), "{}: {found}", model.id);
        }
        assert!(bench.rows.iter().any(|row| matches!(row.counts[0], Count::Lost { .. })), "{}", model.id);
    }
}

#[test]
fn registers_are_left_as_they_were() {
    for model in Model::ALL {
        for workloads in [vec![], vec![endless("loop")]] {
            let mut bench = Bench::new(model, settings(1, 0), &workloads, &[], &spec(&[every(0, N)]));
            bench.run(10);
            bench.stop();
            assert_eq!(bench.rows.is_empty(), workloads.is_empty(), "{}", model.id);
            let Bench { bus, counting, windows, before, .. } = bench;
            drop((counting, windows));
            assert_eq!(registers(model, &mut bus.borrow_mut()), before, "{}", model.id);
        }
    }
}

#[test]
fn windows_that_are_dropped_while_they_count_leave_registers_as_they_were() {
    for model in Model::ALL {
        let mut bench = Bench::new(model, settings(1, 0), &[endless("loop")], &[], &spec(&[every(0, N)]));
        bench.run(10);
        let Bench { bus, counting, windows, before, .. } = bench;
        drop((windows, counting));
        assert_eq!(registers(model, &mut bus.borrow_mut()), before, "{}", model.id);
    }
}

/// Registers whose interrupts do not reach this process, as those of device files.
struct WithoutInterrupts(SimBus);

impl Registers for WithoutInterrupts {
    fn read(&mut self, cpu: u32, register: PmuReg) -> Result<u64, Fault> {
        self.0.read(cpu, register)
    }

    fn write(&mut self, cpu: u32, register: PmuReg, value: u64) -> Result<(), Fault> {
        self.0.write(cpu, register, value)
    }

    fn barrier(&mut self, cpu: u32) {
        self.0.barrier(cpu);
    }
}

impl Bus for WithoutInterrupts {
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    fn keep(&mut self, _: u32, _: &[Step]) -> cyclometer_core::Result<()> {
        Ok(())
    }

    fn let_go(&mut self, _: u32) {}

    fn exercise(&mut self, cpu: u32) -> cyclometer_core::Result<()> {
        self.0.exercise(cpu)
    }

    fn bind(&mut self, child: u32, among: &CpuSet) -> cyclometer_core::Result<Bound> {
        self.0.bind(child, among)
    }
}

/// The answer of a source on a bus of this kind.
fn refusal_of<B: Bus + 'static>(bus: B, model: &Model, slots: &[Slot], spec: &WindowSpec) -> Refusal {
    let bus = Rc::new(RefCell::new(bus));
    let source = RegisterSource::new(Rung::Sim, vec![core(model, 1)], bus);
    source.windows(slots, &Target::Cpus([0].into_iter().collect()), spec).err().unwrap()
}

#[test]
fn registers_without_interrupts_refuse_windows_with_the_reason() {
    let model = Model::find("skylake").unwrap();
    let bus = WithoutInterrupts(SimBus::new(SimMachine::new(model, Settings::default())));
    let refusal = refusal_of(bus, model, &slots(model, 1), &spec(&[every(0, N)]));
    assert_eq!(refusal.kind, RefusalKind::TargetNotSupported);
    assert_eq!(
        refusal.reason.to_string(),
        "windows by events need the interrupts of counters: the kernel does not pass interrupts of counters on to \
         user space"
    );
}

#[test]
fn windows_that_no_counter_can_make_are_refused_by_name() {
    let model = Model::find("skylake").unwrap();
    let refusal = |slots: &[Slot], spec: &WindowSpec| {
        refusal_of(SimBus::new(SimMachine::new(model, Settings::default())), model, slots, spec)
    };
    let all = slots(model, 1);
    let wide = refusal(&all, &spec(&[every(0, 1 << 60)]));
    assert_eq!(wide.kind, RefusalKind::Invalid);
    assert!(
        wide.reason.to_string().contains("Instructions") && wide.reason.to_string().contains("at most"),
        "{wide:?}"
    );
    let absent = refusal(&all, &spec(&[every(7, N)]));
    assert_eq!((absent.kind, absent.slot), (RefusalKind::NotSupported, Some(SlotId(7))));
    let timed = refusal(&all, &WindowSpec::new(WindowBoundary::Interval(Duration::from_millis(1))));
    assert!(timed.reason.to_string().contains("readings"), "{timed:?}");
    let twice = refusal(&all, &spec(&[every(0, N), every(0, 2 * N)]));
    assert!(twice.reason.to_string().contains("two periods"), "{twice:?}");
}
