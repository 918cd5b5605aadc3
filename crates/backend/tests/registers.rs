//! The register driver on every simulated chip: counts equal the truth, and registers are restored.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::cell::RefCell;
use std::rc::Rc;

use cyclometer_arch::{Coded, Fault, PmuReg, Registers, Step};
use cyclometer_backend::registers::{Bound, Bus, CorePmu, RegisterSource};
use cyclometer_backend::sim::SimBus;
use cyclometer_core::event::{RegisterAssignment, RegisterCode, RegisterEvent};
use cyclometer_core::exec::{Cell, Reading, RefusalKind};
use cyclometer_core::pmu::Family;
use cyclometer_core::{
    CounterId, CounterMask, Counting, CpuSet, EventCode, MissingReason, Modes, Part, Rung, Slot, SlotId,
    Source, Target,
};
use cyclometer_sim::{Concept, InjectedFault, Model, Settings, SimMachine, ThreadId, Workload};

/// A chip with the driver on it.
struct Bench {
    model: &'static Model,
    bus: Rc<RefCell<SimBus>>,
    source: RegisterSource<SimBus>,
}

/// An event of a chip, on a counter, with the concepts that it counts.
#[derive(Clone)]
struct Counted {
    slot: Slot,
    counts: Vec<Concept>,
}

impl Bench {
    fn new(model: &'static Model) -> Bench {
        Bench::with(model, &[])
    }

    fn with(model: &'static Model, troubles: &[InjectedFault]) -> Bench {
        let mut machine = SimMachine::new(model, Settings { seed: 3, ..Settings::default() });
        troubles.iter().for_each(|trouble| machine.inject(*trouble).unwrap());
        let bus = Rc::new(RefCell::new(SimBus::new(machine)));
        let cores = vec![core(model)];
        let source = RegisterSource::new(Rung::Sim, cores, Rc::clone(&bus));
        Bench { model, bus, source }
    }

    /// Every register that keeps its value, without counters and flags that change by themselves.
    fn controls(&self) -> Vec<(PmuReg, u64)> {
        let all = PmuReg::all(&self.model.chip);
        let mut bus = self.bus.borrow_mut();
        all.into_iter().filter_map(|register| Some((register, bus.read(0, register).ok()?))).collect()
    }

    fn run(&self, workload: &str, ms: u64) -> ThreadId {
        let mut bus = self.bus.borrow_mut();
        let machine = bus.machine_mut();
        let thread = machine.spawn(Workload::named(workload).unwrap(), &[0]).unwrap();
        machine.run(ms * 1_000_000, |_, _| {});
        thread
    }

    fn pass(&self, ms: u64) {
        self.bus.borrow_mut().machine_mut().run(ms * 1_000_000, |_, _| {});
    }

    fn truth(&self, thread: ThreadId, counts: &[Concept]) -> u64 {
        let bus = self.bus.borrow();
        counts.iter().map(|concept| bus.machine().truth(thread, *concept)).sum()
    }

    fn open(&self, events: &[Counted]) -> Box<dyn Counting> {
        let slots: Vec<Slot> = events.iter().map(|event| event.slot.clone()).collect();
        self.source.open(&slots, &cpu()).unwrap()
    }
}

fn cpu() -> Target {
    Target::Cpus([0].into_iter().collect())
}

fn core(model: &Model) -> CorePmu {
    let cycles = model.events.iter().find(|row| row.meaning.is_sum_of(&[Concept::Cycles]));
    let coded = |select, umask, general| {
        Coded::new(EventCode { select, umask, ..EventCode::default() }).on(CounterMask::from_bits(general, 0))
    };
    CorePmu {
        name: model.id.to_owned(),
        cpus: [0].into_iter().collect(),
        chip: model.chip,
        cycles: cycles.map(|row| {
            let (select, umask) = model.select(row.code);
            coded(select, umask, row.counters.general_bits())
        }),
    }
}

fn event(model: &Model, id: usize, code: EventCode, counter: CounterId, rotation_group: Option<u32>) -> Slot {
    let counters = CounterMask::from_iter([counter]);
    let event = RegisterEvent {
        pmu: model.id.to_owned(),
        cpus: [0].into_iter().collect(),
        codes: vec![RegisterCode { code, counters }],
        wide: false,
        assignments: vec![RegisterAssignment { rotation_group, counter, code }],
    };
    let slot = Slot::new(SlotId(id), format!("e{id}"), Rung::Sim, vec![Part::Registers(event)]);
    Slot { filter: Some(Modes::USER), rotation_group, ..slot }
}

/// An event for each counter of a chip.
fn every_counter(model: &'static Model) -> Vec<Counted> {
    let mut rows: Vec<_> = model.events.iter().collect();
    // AMD's floating-point event takes two counters, or fewer bits of them.
    rows.retain(|row| row.meaning.is_plain_sum() && !row.meaning.is_sum_of(&[Concept::FloatOperations]));
    let general = (0..64u8).filter(|n| model.chip.counters.known().general_bits() >> n & 1 == 1).map(|n| {
        let own: Vec<_> = rows.iter().filter(|row| row.counters.general_bits() >> n & 1 == 1).collect();
        let row = own[usize::from(n) % own.len()];
        let (select, umask) = model.select(row.code);
        let code = EventCode { select, umask, ..EventCode::default() };
        (code, CounterId::General(n), row.meaning.terms().map(|term| term.concept).collect())
    });
    let fixed = model.fixed.iter().map(|(n, counts)| {
        let umask = if model.chip.family == Family::Intel { n + 1 } else { 0 };
        let code = EventCode { umask, ..EventCode::default() };
        (code, CounterId::Fixed(*n), vec![*counts])
    });
    let all = general.collect::<Vec<_>>().into_iter().chain(fixed);
    all.enumerate()
        .map(|(id, (code, counter, counts))| Counted { slot: event(model, id, code, counter, None), counts })
        .collect()
}

fn cells(counting: &mut dyn Counting) -> Vec<Cell> {
    let mut reading = Reading::default();
    counting.read(&mut reading).unwrap();
    reading.cells.sort_by_key(|cell| cell.slot);
    reading.cells
}

#[test]
fn every_counter_of_every_chip_counts_what_happened_and_is_left_as_it_was() {
    for model in Model::ALL {
        let bench = Bench::new(model);
        let events = every_counter(model);
        let before = bench.controls();
        let mut counting = bench.open(&events);
        counting.start().unwrap();
        let thread = bench.run("phases", 7);
        counting.stop().unwrap();
        let stopped = cells(counting.as_mut());
        bench.pass(3);
        assert_eq!(cells(counting.as_mut()), stopped, "{}: what has stopped counts no more", model.id);
        drop(counting);
        assert_eq!(bench.controls(), before, "{}", model.id);
        // The true counts continue: the stopped counters have those of the first 7 ms.
        let bench = Bench::new(model);
        let mut counting = bench.open(&events);
        counting.start().unwrap();
        let again = bench.run("phases", 7);
        for (cell, event) in stopped.iter().zip(&events) {
            let truth = bench.truth(again, &event.counts);
            assert_eq!((cell.raw, &cell.lost), (truth, &None), "{} {:?}", model.id, event.slot.parts);
            assert_eq!(cell.time_running_ns, cell.time_enabled_ns);
            assert!((6_999_000..=7_001_000).contains(&cell.time_enabled_ns), "{}", cell.time_enabled_ns);
        }
        drop(counting);
        assert_eq!(again, thread);
    }
}

#[test]
fn counters_that_wrap_between_readings_are_added_up() {
    let bench = Bench::new(Model::find("neoverse-n1").unwrap());
    let events = every_counter(bench.model);
    let mut counting = bench.open(&events);
    let pause = counting.longest_pause().unwrap();
    assert!(pause.as_millis() >= 10, "32 bits last for {pause:?}");
    counting.start().unwrap();
    let thread = bench.run("loop", 1);
    let mut last = Vec::new();
    for _ in 0..100 {
        bench.pass(20);
        last = cells(counting.as_mut());
    }
    for (cell, event) in last.iter().zip(&events) {
        assert_eq!((cell.raw, &cell.lost), (bench.truth(thread, &event.counts), &None));
    }
    let most = last.iter().map(|cell| cell.raw).max().unwrap();
    assert!(most > 1 << 32, "none has wrapped: {most}");
}

#[test]
fn a_narrow_counter_that_was_read_too_late_is_no_number() {
    let bench = Bench::new(Model::find("neoverse-n1").unwrap());
    let events = every_counter(bench.model);
    let mut counting = bench.open(&events);
    counting.start().unwrap();
    bench.run("loop", 100);
    for cell in cells(counting.as_mut()) {
        let narrow = !matches!(events[cell.slot.0].slot.parts[0], Part::Registers(ref event)
            if matches!(event.assignments[0].counter, CounterId::Fixed(_)));
        assert_eq!(cell.lost.is_some(), narrow, "{cell:?}");
        assert!(cell.lost.is_none_or(|reason| matches!(reason, MissingReason::ReadTooLate { .. })));
    }
}

#[test]
fn control_registers_that_somebody_wrote_over_make_lost_counts() {
    for model in Model::ALL {
        let bench = Bench::with(model, &[InjectedFault::RewriteControl { every_ns: 100_000 }]);
        let mut counting = bench.open(&every_counter(model));
        counting.start().unwrap();
        bench.run("loop", 1);
        for cell in cells(counting.as_mut()) {
            let reason = cell.lost.unwrap_or_else(|| panic!("{}: a count", model.id));
            assert!(matches!(reason, MissingReason::Rewritten { .. }), "{reason}");
        }
    }
}

#[test]
fn a_counter_that_was_taken_away_is_seen() {
    for model in Model::ALL {
        let counter = model.chip.counters.known().general_bits().trailing_zeros() as u8;
        let stolen = InjectedFault::StealCounter { cpu: 0, counter, after_ns: 2_000_000 };
        let bench = Bench::with(model, &[stolen]);
        let mut counting = bench.open(&every_counter(model));
        counting.start().unwrap();
        bench.run("loop", 1);
        assert!(cells(counting.as_mut()).iter().all(|cell| cell.lost.is_none()), "{}", model.id);
        bench.pass(5);
        assert!(cells(counting.as_mut())[0].lost.is_some(), "{}", model.id);
    }
}

#[test]
fn a_machine_that_drops_writes_is_found_out_before_anything_is_counted() {
    for model in Model::ALL {
        let bench = Bench::with(model, &[InjectedFault::IgnoreWrites]);
        let slots: Vec<Slot> = every_counter(model).into_iter().map(|event| event.slot).collect();
        let refusal = bench.source.open(&slots, &cpu()).err().unwrap();
        assert_eq!(refusal.kind, RefusalKind::Other);
        let text = refusal.reason.to_string();
        assert!(text.contains("stands still") || text.contains("does not keep"), "{text}");
    }
}

#[test]
fn turns_count_their_own_events_and_what_always_counts_misses_nothing() {
    let model = Model::find("skylake").unwrap();
    let bench = Bench::new(model);
    let code = |select| EventCode { select, ..EventCode::default() };
    let fixed = EventCode { umask: 1, ..EventCode::default() };
    let slots = [
        event(model, 0, fixed, CounterId::Fixed(0), None),
        event(model, 1, code(0xc4), CounterId::General(2), Some(0)),
        event(model, 2, code(0xc5), CounterId::General(2), Some(1)),
    ];
    let mut counting = bench.source.open(&slots, &cpu()).unwrap();
    counting.start().unwrap();
    let thread = bench.run("loop", 1);
    let truth = |concept| bench.truth(thread, &[concept]);
    let first = truth(Concept::Branches);
    counting.select(1).unwrap();
    let misses = truth(Concept::Mispredicts);
    bench.pass(3);
    let second = truth(Concept::Mispredicts) - misses;
    counting.select(0).unwrap();
    let branches = truth(Concept::Branches);
    bench.pass(1);
    let values: Vec<u64> = cells(counting.as_mut()).iter().map(|cell| cell.raw).collect();
    let third = truth(Concept::Branches) - branches;
    assert_eq!(values, [truth(Concept::Instructions), first + third, second]);
    let times: Vec<u64> =
        cells(counting.as_mut()).iter().map(|cell| cell.time_enabled_ns / 100_000).collect();
    assert_eq!(times, [50, 20, 30]);
}

#[test]
fn only_cpus_and_children_can_be_counted() {
    let bench = Bench::new(Model::find("skylake").unwrap());
    let slots = [every_counter(bench.model)[0].slot.clone()];
    for target in [Target::ThisThread, Target::Thread(7), Target::Process { pid: 7, inherit: true }] {
        let refusal = bench.source.open(&slots, &target).err().unwrap();
        assert_eq!(refusal.kind, RefusalKind::TargetNotSupported);
        assert!(refusal.reason.to_string().contains("use -a, -C, or a command"), "{}", refusal.reason);
    }
    let refusal = bench.source.open(&slots, &Target::Cpus([9].into_iter().collect())).err().unwrap();
    assert_eq!(refusal.reason.to_string(), "the registers of CPU 9 are not known");
    assert!(bench.source.open(&slots, &Target::Child(1)).is_ok());
}

#[test]
fn an_event_without_a_counter_is_refused_by_name() {
    let bench = Bench::new(Model::find("skylake").unwrap());
    let mut slot = every_counter(bench.model)[0].slot.clone();
    let Part::Registers(part) = &mut slot.parts[0] else { panic!() };
    part.assignments[0].counter = CounterId::General(9);
    let refusal = bench.source.open(&[slot], &cpu()).err().unwrap();
    assert_eq!(refusal.slot, Some(SlotId(0)));
    assert!(refusal.reason.to_string().starts_with("e0 on skylake: "), "{}", refusal.reason);
}

/// Simulated registers that report a disturbance, so that their counts are invalid.
struct Disturbed(SimBus);

impl Registers for Disturbed {
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

impl Bus for Disturbed {
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    fn keep(&mut self, cpu: u32, restoring: &[Step]) -> cyclometer_core::Result<()> {
        self.0.keep(cpu, restoring)
    }

    fn let_go(&mut self, cpu: u32) {
        self.0.let_go(cpu);
    }

    fn exercise(&mut self, cpu: u32) -> cyclometer_core::Result<()> {
        self.0.exercise(cpu)
    }

    fn bind(&mut self, child: u32, among: &CpuSet) -> cyclometer_core::Result<Bound> {
        self.0.bind(child, among)
    }

    fn disturbance(&mut self) -> Option<MissingReason> {
        Some(MissingReason::PerfHasBegun)
    }
}

#[test]
fn what_disturbed_a_count_is_asked_for_at_its_end_too() {
    let model = Model::find("apple-m1").unwrap();
    let bus = Rc::new(RefCell::new(Disturbed(SimBus::new(SimMachine::new(model, Settings::default())))));
    let source = RegisterSource::new(Rung::Sim, vec![core(model)], bus);
    let slots: Vec<Slot> = every_counter(model).into_iter().map(|event| event.slot).collect();
    let mut counting = source.open(&slots, &cpu()).unwrap();
    counting.start().unwrap();
    counting.stop().unwrap();
    for cell in cells(counting.as_mut()) {
        assert_eq!(cell.lost, Some(MissingReason::PerfHasBegun));
    }
}

#[test]
fn a_share_whose_slots_were_taken_is_no_number() {
    let model = Model::find("sapphirerapids").unwrap();
    let bench = Bench::new(model);
    let code = |umask| EventCode { umask, ..EventCode::default() };
    let slots = [
        event(model, 0, code(4), CounterId::Fixed(3), None),
        event(model, 1, code(0x80), CounterId::Fixed(16), None),
    ];
    let mut counting = bench.source.open(&slots, &cpu()).unwrap();
    counting.start().unwrap();
    bench.run("loop", 1);
    let whole = cells(counting.as_mut());
    assert!(whole.iter().all(|cell| cell.lost.is_none() && cell.raw > 0), "{whole:?}");
    // Another user takes the slots counter, and only that.
    let control = PmuReg::all(&model.chip).into_iter().find(|one| one.to_string() == "IA32_FIXED_CTR_CTRL");
    bench.bus.borrow_mut().write(0, control.unwrap(), 0).unwrap();
    bench.pass(1);
    for cell in cells(counting.as_mut()) {
        assert!(cell.lost.is_some(), "{cell:?}");
    }
}

#[test]
fn the_counter_of_another_user_goes_on_after_ours_are_restored() {
    for model in Model::ALL {
        let counter = (model.chip.counters.known().general_bits().trailing_zeros()) as u8;
        let steal = InjectedFault::StealCounter { cpu: 0, counter, after_ns: 1_000_000 };
        let bench = Bench::with(model, &[]);
        let mut counting = bench.open(&every_counter(model));
        bench.bus.borrow_mut().machine_mut().inject(steal).unwrap();
        counting.start().unwrap();
        bench.run("loop", 5);
        counting.stop().unwrap();
        drop(counting);
        let restored = bench.controls();
        bench.pass(5);
        assert_ne!(bench.controls(), restored, "{}: no counter counts", model.id);
    }
}
