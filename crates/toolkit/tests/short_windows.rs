//! Sampling by registers that the kernel writes as well, on a simulated chip whose true counts are known.
//! Windows become as short as the kernel makes them.
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cyclometer_backend::sim::SimBus;
use cyclometer_monitor::{Monitor, Sampling, Setup};
use cyclometer_sim::{Concept, InjectedFault, Model, Settings, SimMachine, Workload};
use cyclometer_toolkit::core::event::{
    PerfClass, PerfEvent, RegisterAssignment, RegisterCode, RegisterEvent,
};
use cyclometer_toolkit::core::exec::{Clock, CounterAt, Raw, Reading};
use cyclometer_toolkit::core::plan::IntentSubject;
use cyclometer_toolkit::core::{
    Candidate, CounterId, CounterMask, Counting, Event, EventCode, Intent, Part, Refusal, Slot, SlotId,
    Source, Target,
};
use cyclometer_toolkit::registers::{CorePmu, RegisterSource};
use cyclometer_toolkit::{Count, Modes, Provenance, Result, Rung, Samples, Scope, Unit};

const CHIP: &str = "apple-m3";
/// The kernel writes its own value over PMCR0 about so often, in ns.
const REWRITES_NS: u64 = 100_000;
/// How much simulated time passes from one sample to the next, in ns.
const BETWEEN_NS: u64 = 1_000_000;

/// The driver on a simulated chip that does a loop all the time; its time passes between samples, too.
struct Living {
    driver: RegisterSource<SimBus>,
    bus: Rc<RefCell<SimBus>>,
}

/// Counters of a window are read twice; a reader that reads them more often keeps them open, so that time
/// passes before those reads.
struct Open {
    counting: Box<dyn Counting>,
    bus: Rc<RefCell<SimBus>>,
    reads: u32,
}

impl Source for Living {
    fn rung(&self) -> Rung {
        self.driver.rung()
    }

    fn open(&self, slots: &[Slot], on: &Target) -> std::result::Result<Box<dyn Counting>, Refusal> {
        let counting = self.driver.open(slots, on)?;
        Ok(Box::new(Open { counting, bus: Rc::clone(&self.bus), reads: 0 }))
    }

    fn clock(&self) -> Option<&dyn Clock> {
        self.driver.clock()
    }
}

impl Counting for Open {
    fn start(&mut self) -> Result<()> {
        self.counting.start()
    }

    fn stop(&mut self) -> Result<()> {
        self.counting.stop()
    }

    fn read(&mut self, out: &mut Reading) -> Result<()> {
        self.counting.read(out)
    }

    fn counters(&mut self) -> Vec<CounterAt> {
        self.counting.counters()
    }

    fn sample(&mut self, out: &mut Vec<Raw>) -> Result<()> {
        self.reads += 1;
        if self.reads > 2 {
            self.bus.borrow_mut().machine_mut().run(BETWEEN_NS, |_, _| {});
        }
        self.counting.sample(out)
    }
}

fn source(troubles: &[InjectedFault]) -> Living {
    let model = Model::find(CHIP).unwrap();
    let mut machine = SimMachine::new(model, Settings { seed: 5, ..Settings::default() });
    machine.spawn(Workload::named("loop").unwrap(), &[0]).unwrap();
    troubles.iter().for_each(|trouble| machine.inject(*trouble).unwrap());
    let bus = Rc::new(RefCell::new(SimBus::new(machine)));
    let core =
        CorePmu { name: CHIP.to_owned(), cpus: [0].into_iter().collect(), chip: model.chip, cycles: None };
    let driver = RegisterSource::new(Rung::Sysreg, vec![core], Rc::clone(&bus));
    Living { driver, bus }
}

/// Cycles and instructions, on the fixed counters that count them.
fn parts() -> [(&'static str, Part); 2] {
    [("cycles", 0), ("instructions", 1)].map(|(name, n)| {
        let (counter, code) = (CounterId::Fixed(n), EventCode::default());
        let counters = CounterMask::from_iter([counter]);
        let event = RegisterEvent {
            pmu: CHIP.to_owned(),
            cpus: [0].into_iter().collect(),
            codes: vec![RegisterCode { code, counters }],
            wide: false,
            assignments: vec![RegisterAssignment { rotation_group: None, counter, code }],
        };
        (name, Part::Registers(event))
    })
}

/// A monitor that samples them a thousand times a second.
fn monitor(troubles: &'static [InjectedFault], longest_window: Option<Duration>) -> Monitor {
    let recording = include_str!("../../../fixtures/machines/skylake.txt");
    let machine = cyclometer_toolkit::replay_machine(recording).unwrap();
    let event = |(i, (name, _)): (usize, (&str, Part))| {
        let part = PerfEvent::new("cpu", 4, i as u64, PerfClass::Core);
        let way = Candidate::perf(vec![part], Provenance::Simulated, Some(Modes::USER));
        Event::new(name.to_owned(), Unit::Count, vec![way])
    };
    let intent = Intent { subject: IntentSubject::Running, ..Intent::default() };
    let events = parts().into_iter().enumerate().map(event).collect();
    let mut plan = cyclometer_plan::plan(events, &machine, intent).unwrap();
    for (line, (_, part)) in plan.lines.iter_mut().zip(parts()) {
        for way in &mut line.event.candidates {
            (way.rung, way.parts) = (Rung::Sysreg, vec![part.clone()]);
        }
    }
    for slot in plan.passes.iter_mut().flat_map(|pass| &mut pass.slots) {
        (slot.rung, slot.parts) = (Rung::Sysreg, vec![parts()[slot.id.0].1.clone()]);
        slot.filter = Some(Modes::USER);
    }
    let cpus = Target::Cpus([0].into_iter().collect());
    let setup = Setup {
        plan,
        machine,
        target: cpus.clone(),
        scope: Scope::Cpus,
        sources: Arc::new(move || vec![Box::new(source(troubles))]),
        calibrate: false,
        steps: Vec::new(),
        sampling: Some((Sampling::at(1000, 1 << 16).unwrap(), cpus)),
        longest_window,
    };
    Monitor::open(setup).unwrap()
}

/// At least this many samples, and all that are available.
fn samples(monitor: &Monitor, number: usize) -> Samples {
    let mut all = monitor.samples();
    while all.rows.len() < number {
        std::thread::sleep(Duration::from_millis(5));
        let more = monitor.samples();
        all.rows.extend(more.rows);
        (all.counters, all.windows, all.refused) = (more.counters, more.windows, more.refused);
    }
    assert_eq!(all.refused, [], "{all:?}");
    all
}

/// Counts match the duration, up to the cycles in which counters are started and read.
fn is_true(samples: &Samples) {
    let mhz = Model::find(CHIP).unwrap().mhz as f64;
    let good: Vec<_> = samples.rows.iter().filter(|row| row.values.iter().all(|raw| !raw.is_lost)).collect();
    assert!(good.len() > 10, "{samples:?}");
    let whole = good.last().unwrap();
    let (cycles, instructions) = (whole.values[0], whole.values[1]);
    let expected = cycles.time_running_ns as f64 * mhz / 1000.0;
    let windows = samples.windows.first().map_or(1, |windows| windows.held);
    let allowed = 2.0 * mhz / 1000.0 * (windows + 1) as f64;
    assert!((cycles.value as f64 - expected).abs() <= allowed, "{cycles:?}, and {expected} ± {allowed}");
    let ratio = instructions.value as f64 / cycles.value as f64;
    assert!((ratio - true_ratio()).abs() < 0.05 * true_ratio(), "{ratio}, and {} is true", true_ratio());
}

/// Instructions a cycle of the loop.
fn true_ratio() -> f64 {
    let mut machine = SimMachine::new(Model::find(CHIP).unwrap(), Settings::default());
    let thread = machine.spawn(Workload::named("loop").unwrap(), &[0]).unwrap();
    machine.run(10_000_000, |_, _| {});
    machine.truth(thread, Concept::Instructions) as f64 / machine.truth(thread, Concept::Cycles) as f64
}

#[test]
fn windows_become_as_short_as_the_kernel_leaves_them() {
    let monitor = monitor(&[InjectedFault::RewriteControl { every_ns: REWRITES_NS }], None);
    let samples = samples(&monitor, 200);
    let [windows] = samples.windows[..] else { panic!("{:?}", samples.windows) };
    assert_eq!(windows.rung, Rung::Sysreg);
    assert!(windows.held >= 150 && windows.tried > windows.held, "{windows:?}");
    assert!(windows.length_ns < REWRITES_NS && windows.share().unwrap() > 0.5, "{windows:?}");
    is_true(&samples);
    let estimates = samples.estimates(SlotId(0));
    assert!(estimates.iter().flatten().count() > 150, "{estimates:?}");
}

#[test]
fn what_the_configuration_says_is_the_longest_window_from_the_start() {
    let monitor = monitor(&[], Some(Duration::from_micros(20)));
    let samples = samples(&monitor, 50);
    let [windows] = samples.windows[..] else { panic!("{:?}", samples.windows) };
    assert_eq!((windows.held, windows.length_ns), (windows.tried, 20_000), "nothing was lost");
    is_true(&samples);
}

/// The first sample whose values are of a window, as its counters count for a part of the time.
fn first_of_windows(samples: &Samples) -> usize {
    let is_of_part =
        |raw: &Raw| !raw.is_lost && raw.time_running_ns > 0 && raw.time_running_ns < raw.time_enabled_ns;
    samples.rows.iter().position(|row| is_of_part(&row.values[0])).unwrap()
}

#[test]
fn estimates_are_of_the_time_before_windows_began_as_well() {
    let mhz = Model::find(CHIP).unwrap().mhz as f64;
    let lost: &'static [InjectedFault] = &[InjectedFault::RewriteControl { every_ns: REWRITES_NS }];
    for (troubles, longest) in [(&[][..], Some(Duration::from_micros(20))), (lost, None)] {
        let monitor = monitor(troubles, longest);
        let samples = samples(&monitor, 20);
        let first = first_of_windows(&samples);
        // The counters were open for all of this time before they were lost, or open for longer than they may
        // be.
        let passed = samples.rows[first].values[0].time_enabled_ns;
        assert!(passed >= BETWEEN_NS, "{passed} ns, and {BETWEEN_NS} passed before windows began");
        let estimate = samples.estimates(SlotId(0))[first].unwrap();
        let expected = passed as f64 * mhz / 1000.0;
        assert!(
            estimate.is_scaled && (estimate.value - expected).abs() < 0.2 * expected,
            "{estimate:?}, {expected}"
        );
    }
}

#[test]
fn counters_that_stay_ours_count_all_the_time() {
    let monitor = monitor(&[], None);
    let samples = samples(&monitor, 50);
    assert_eq!(samples.windows, []);
    let last = samples.rows.last().unwrap();
    assert!(last.values.iter().all(|raw| !raw.is_lost && raw.time_running_ns == raw.time_enabled_ns));
    assert!(last.values[0].time_running_ns >= 40 * BETWEEN_NS, "{last:?}");
    is_true(&samples);
    assert!(samples.estimates(SlotId(1)).iter().flatten().all(|estimate| !estimate.is_scaled));
}

#[test]
fn regions_do_not_take_registers_from_who_samples_them() {
    let monitor = monitor(&[], None);
    let region = monitor.region("x");
    match &region.stop().values[0].count {
        Count::Lost { reason } => assert!(reason.to_string().contains("it is sampled"), "{reason}"),
        other => panic!("{other:?}"),
    }
    let told: Vec<String> = monitor.ladder().iter().map(ToString::to_string).collect();
    assert!(told.iter().any(|step| step.starts_with("cycles: regions: it is sampled")), "{told:?}");
}
