use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use cyclometer_core::event::OsMetric;
use cyclometer_core::exec::Cell;
use cyclometer_core::pmu::Family;
use cyclometer_inference::Inference;
use cyclometer_kernels::{Geometry, InstructionSet};
use cyclometer_sweep::{
    Exclusion, SweepObserver, SweepProgress, SweepRun, SweptCode, kernel_table, kernels_for,
};

use cyclometer_arch::ChipCounters;

use super::*;

/// The PMU of a kernel that runs on this thread: what the kernels did so far, and how perf behaves.
#[derive(Default)]
struct FakePmu {
    done: BTreeMap<Concept, f64>,
    /// Every `config` that was opened.
    opened: Vec<u64>,
    /// Another user's events take turns with these.
    shares: bool,
}

/// perf on that PMU: `config` 0x81d0 is loads, 0x82d0 stores, 0x0010 is invalid.
struct FakePerf(Rc<RefCell<FakePmu>>);

struct FakeCounting {
    pmu: Rc<RefCell<FakePmu>>,
    /// The slots, with what each counts and its value at the start.
    events: Vec<(SlotId, Option<Concept>, f64)>,
}

impl Source for FakePerf {
    fn rung(&self) -> Rung {
        Rung::Perf
    }

    fn open(&self, slots: &[Slot], on: &Target) -> std::result::Result<Box<dyn Counting>, Refusal> {
        assert_eq!(*on, Target::ThisThread);
        let mut events = Vec::new();
        for slot in slots {
            let concept = match &slot.parts[0] {
                Part::Perf(event) => {
                    assert_eq!((event.pmu_type, slot.filter), (4, Some(Modes::USER)));
                    self.0.borrow_mut().opened.push(event.words.config);
                    match event.words.config {
                        0x81d0 => Some(Concept::Loads),
                        0x82d0 => Some(Concept::Stores),
                        0x0010 => {
                            let text = "the kernel refuses the attributes (EINVAL)".to_owned();
                            return Err(Refusal::of_slot(slot.id, RefusalKind::Invalid, text));
                        }
                        _ => None,
                    }
                }
                _ => Some(Concept::Instructions),
            };
            events.push((slot.id, concept, 0.0));
        }
        Ok(Box::new(FakeCounting { pmu: Rc::clone(&self.0), events }))
    }
}

impl Counting for FakeCounting {
    fn start(&mut self) -> Result<()> {
        let pmu = self.pmu.borrow();
        for (_, concept, start) in &mut self.events {
            *start = concept.and_then(|concept| pmu.done.get(&concept).copied()).unwrap_or(0.0);
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        Ok(())
    }

    fn read(&mut self, out: &mut Reading) -> Result<()> {
        let pmu = self.pmu.borrow();
        let running = if pmu.shares { 50 } else { 100 };
        out.cells.extend(self.events.iter().map(|(slot, concept, start)| {
            let now = concept.and_then(|concept| pmu.done.get(&concept).copied()).unwrap_or(0.0);
            Cell::new(*slot, (now - start) as u64, 100, running)
        }));
        Ok(())
    }
}

/// Executes kernels by adding up what they do.
struct FakeRunner {
    kernels: Vec<SweepKernel>,
    pmu: Rc<RefCell<FakePmu>>,
}

impl RunsKernels for FakeRunner {
    fn run(&mut self, kernel: usize, iterations: u64) -> Result<()> {
        let mut pmu = self.pmu.borrow_mut();
        for (concept, number) in self.kernels[kernel].recipe.per_iteration() {
            *pmu.done.entry(*concept).or_default() += number * iterations as f64;
        }
        Ok(())
    }
}

fn target() -> (HardwareTarget, Vec<SweepKernel>, Rc<RefCell<FakePmu>>) {
    let kernels = kernels_for(InstructionSet::X86_64, &Geometry::default());
    let pmu = Rc::new(RefCell::new(FakePmu::default()));
    let chip = Chip {
        family: Family::Intel,
        counters: ChipCounters::of(CounterMask::from_bits(0xf, 0x7)),
        ..Chip::default()
    };
    // Instructions are not asked for by a raw code.
    let witness = Slot::new(SlotId(0), "instructions", Rung::Perf, vec![Part::Os(OsMetric::WallTime)]);
    let target = HardwareTarget {
        source: Box::new(FakePerf(Rc::clone(&pmu))),
        on: Target::ThisThread,
        codes: CodeSlots { rung: Rung::Perf, pmu: "cpu".to_owned(), chip, perf: 4 },
        witness: Some(witness),
        runner: Box::new(FakeRunner { kernels: kernels.clone(), pmu: Rc::clone(&pmu) }),
        open: None,
    };
    (target, kernels, pmu)
}

/// Nothing to be told.
struct Quiet;

impl SweepObserver for Quiet {
    fn swept(&mut self, _: &SweptCode, _: SweepProgress) -> Result<()> {
        Ok(())
    }
}

fn settings() -> SweepSettings {
    SweepSettings { iterations: 101, repeats: 2, is_noisy: true, ..SweepSettings::default() }
}

#[test]
fn perf_counts_codes_on_a_counter_that_it_chooses_and_says_nothing_about_masks() {
    let (mut target, kernels, pmu) = target();
    let (denied, known) = (BTreeSet::from([0x55]), BTreeMap::new());
    let codes = [0x81d0, 0x82d0, 0x10, 0x55, 0x99];
    let settings = settings();
    let run =
        SweepRun { codes: &codes, kernels: &kernels, settings: &settings, denied: &denied, known: &known };
    let swept = run.run(&mut target, &mut Quiet).unwrap();
    let table = kernel_table(&kernels).unwrap();
    let inference = Inference::new(&table);
    let judged = |index: usize| inference.judge(swept[index].observations().unwrap()).unwrap();
    for (index, sum) in [(0, "loads"), (1, "stores")] {
        let judgement = judged(index);
        assert_eq!(judgement.verdict.identified().unwrap().sum.to_string(), sum);
        assert!(!judgement.mask.observable, "the kernel chooses the counter");
    }
    assert_eq!(judged(4).verdict.letter(), 'E');
    let refused = Exclusion::Refused("the kernel refuses the attributes (EINVAL)".to_owned());
    assert_eq!(swept[2].exclusion(), Some(&refused));
    assert_eq!(swept[3].exclusion(), Some(&Exclusion::Denied));
    assert!(!pmu.borrow().opened.contains(&0x55), "a denied code is never programmed");
}

#[test]
fn counts_that_another_user_has_a_share_of_are_no_numbers() {
    let (mut target, _, pmu) = target();
    assert_eq!(target.place(0x81d0).unwrap(), CodePlacement::Placed);
    assert!(target.count(KernelIndex(0), 10).unwrap().instructions.unwrap() > 0);
    pmu.borrow_mut().shares = true;
    let error = target.count(KernelIndex(0), 10).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CounterBusy);
}

#[test]
fn the_cycles_of_kernels_are_measured_before_the_sweep() {
    let (mut target, mut kernels, pmu) = target();
    let slots = vec![Slot::new(SlotId(0), "cycles", Rung::Perf, vec![Part::Os(OsMetric::WallTime)])];
    target.measure_cycles(&mut kernels, slots, &settings(), &Pulse::default()).unwrap();
    assert!(pmu.borrow().opened.is_empty());
    for kernel in &kernels {
        // This PMU has instructions in place of cycles.
        let expected = kernel.recipe.number_of(Concept::Instructions);
        assert_eq!(kernel.durations.len(), 1);
        assert!((kernel.durations[0].1 - expected).abs() < 0.1, "{kernel:?}");
    }
}

#[test]
fn registers_get_a_code_on_every_general_counter() {
    let (target, _, _) = target();
    let codes = CodeSlots { rung: Rung::Msr, ..target.codes.clone() };
    let slots = codes.of(0x81d0).unwrap();
    let assignments: Vec<CounterId> = slots
        .iter()
        .map(|slot| match &slot.parts[0] {
            Part::Registers(event) => event.assignments[0].counter,
            part => panic!("{part:?}"),
        })
        .collect();
    assert_eq!(assignments, (0..4).map(CounterId::General).collect::<Vec<_>>());
    assert_eq!(codes.counters(), assignments.into_iter().map(Some).collect::<Vec<_>>());
}
