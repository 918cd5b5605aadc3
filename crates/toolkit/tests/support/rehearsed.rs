//! A monitor with rehearsed counters: it reads them in user space, by the shipped protocol, from words of
//! memory instead of the CPU's counters.

use std::sync::Arc;

use cyclometer_monitor::{Monitor, Setup};
use cyclometer_sys::user_read::rehearsal::Rehearsal;
use cyclometer_toolkit::core::event::{PerfClass, PerfEvent};
use cyclometer_toolkit::core::exec::{At, CounterAt, Raw, ReadWay, Reading};
use cyclometer_toolkit::core::plan::IntentSubject;
use cyclometer_toolkit::core::{Candidate, Counting, Event, Intent, Refusal, Slot, Source, Target};
use cyclometer_toolkit::{Modes, Provenance, Result, Rung, Scope, Unit};

/// Opens a rehearsal for every part of every slot.
struct RehearsedSource(Arc<Rehearsal>, Rung);

struct RehearsedCounting {
    slots: Vec<Slot>,
    counter: Arc<Rehearsal>,
}

impl Source for RehearsedSource {
    fn rung(&self) -> Rung {
        self.1
    }

    fn open(&self, slots: &[Slot], _: &Target) -> std::result::Result<Box<dyn Counting>, Refusal> {
        Ok(Box::new(RehearsedCounting { slots: slots.to_vec(), counter: Arc::clone(&self.0) }))
    }
}

impl Counting for RehearsedCounting {
    fn start(&mut self) -> Result<()> {
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        Ok(())
    }

    fn read(&mut self, _: &mut Reading) -> Result<()> {
        unreachable!("regions sample")
    }

    fn counters(&mut self) -> Vec<CounterAt> {
        let mut counters = Vec::new();
        for slot in &self.slots {
            counters.extend((0..slot.parts.len()).map(|part| CounterAt {
                slot: slot.id,
                at: At { part, pmu: Some("cpu".to_owned()), ..At::default() },
                way: ReadWay::UserSpace,
                partial: None,
            }));
        }
        counters
    }

    fn sample(&mut self, out: &mut Vec<Raw>) -> Result<()> {
        for _ in self.slots.iter().flat_map(|slot| &slot.parts) {
            let values = self.counter.read().expect("it is always on its counter");
            out.push(Raw {
                value: values.value,
                time_enabled_ns: values.time_enabled_ns,
                time_running_ns: values.time_running_ns,
                is_lost: false,
            });
        }
        Ok(())
    }
}

/// A monitor of this many events, all of which count as the rehearsal says.
pub fn monitor(events: usize, counter: &Arc<Rehearsal>) -> Monitor {
    Monitor::open(setup(events, counter, Rung::Perf)).expect("nothing is refused")
}

/// An event that is the sum of the events with these codes.
fn event(name: &str, codes: &[u64]) -> Event {
    let parts = codes.iter().map(|code| PerfEvent::new("cpu", 4, *code, PerfClass::Core)).collect();
    let way = Candidate::perf(parts, Provenance::Hardware, Some(Modes::USER));
    let names = codes.iter().map(|code| format!("EVENT_{code}")).collect();
    Event::new(name, Unit::Count, vec![way.with_summands(names)])
}

/// The setup of such a monitor, with this source.
pub fn setup(events: usize, counter: &Arc<Rehearsal>, rung: Rung) -> Setup {
    setup_of((0..events).map(|i| event(&format!("e{i}"), &[i as u64])).collect(), counter, rung)
}

/// The setup of a monitor with one event that is the sum of this many others.
#[allow(dead_code, reason = "each test file uses its own part")]
pub fn setup_of_sum(summands: u64, counter: &Arc<Rehearsal>) -> Setup {
    let codes: Vec<u64> = (0..summands).collect();
    setup_of(vec![event("sum", &codes)], counter, Rung::Perf)
}

fn setup_of(events: Vec<Event>, counter: &Arc<Rehearsal>, rung: Rung) -> Setup {
    // A recorded one: to probe this one would be counted, too.
    let recording = include_str!("../../../../fixtures/machines/skylake.txt");
    let machine = cyclometer_toolkit::replay_machine(recording).expect("it is a recording");
    let intent = Intent { subject: IntentSubject::Running, ..Intent::default() };
    let mut plan = cyclometer_plan::plan(events, &machine, intent).expect("it fits");
    plan.lines.iter_mut().flat_map(|line| &mut line.event.candidates).for_each(|way| way.rung = rung);
    plan.passes.iter_mut().flat_map(|pass| &mut pass.slots).for_each(|slot| slot.rung = rung);
    let counter = Arc::clone(counter);
    Setup {
        plan,
        machine,
        target: Target::ThisThread,
        scope: Scope::Thread,
        sources: Arc::new(move || vec![Box::new(RehearsedSource(Arc::clone(&counter), rung))]),
        calibrate: false,
        steps: Vec::new(),
        sampling: None,
        longest_window: None,
    }
}
