//! A source whose counters say what a test wants.

use std::cell::RefCell;
use std::rc::Rc;

use cyclometer_core::exec::{Cell, Reading, RefusalKind};
use cyclometer_core::{Counting, Modes, Refusal, Result, Rung, Slot, SlotId, Source, Target};

#[derive(Clone, Debug)]
pub(crate) enum Behaviour {
    /// Each work adds the next of these numbers, to every slot.
    Steps(Vec<u64>),
    /// As the riscv driver: the first slot counts so much, the others claim to count, and read 0.
    FirstOnly(u64),
    /// As the one before, but the others say that they did not run.
    FirstOnlyHonest(u64),
    NoFilter,
    Refused,
    Lost,
}

pub(crate) struct FakeMeter(Behaviour);

impl FakeMeter {
    pub(crate) fn new(behaviour: Behaviour) -> FakeMeter {
        FakeMeter(behaviour)
    }

    pub(crate) fn slots(count: usize) -> Vec<Slot> {
        let slot = |id| Slot::new(SlotId(id), format!("e{id}"), Rung::Perf, Vec::new());
        (0..count).map(|id| Slot { filter: Some(Modes::USER), ..slot(id) }).collect()
    }
}

impl Source for FakeMeter {
    fn rung(&self) -> Rung {
        Rung::Perf
    }

    fn open(&self, slots: &[Slot], _: &Target) -> std::result::Result<Box<dyn Counting>, Refusal> {
        let refusal = |kind, text: &str| Refusal::of_target(kind, text);
        match &self.0 {
            Behaviour::Refused => return Err(refusal(RefusalKind::NoPermission, "not permitted")),
            Behaviour::NoFilter if slots.iter().any(|slot| slot.filter.is_some()) => {
                return Err(refusal(RefusalKind::Invalid, "no filters"));
            }
            _ => {}
        }
        let behaviour = Rc::new(RefCell::new(self.0.clone()));
        let cells = slots.iter().map(|slot| Cell::new(slot.id, 7, 70, 70)).collect();
        Ok(Box::new(OpenFake { behaviour, cells }))
    }
}

struct OpenFake {
    behaviour: Rc<RefCell<Behaviour>>,
    cells: Vec<Cell>,
}

impl Counting for OpenFake {
    fn start(&mut self) -> Result<()> {
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        let mut behaviour = self.behaviour.borrow_mut();
        for (i, cell) in self.cells.iter_mut().enumerate() {
            cell.time_enabled_ns += 100;
            cell.time_running_ns += 100;
            match &mut *behaviour {
                Behaviour::Steps(steps) => cell.raw += steps[0],
                Behaviour::FirstOnly(count) if i == 0 => cell.raw += *count,
                Behaviour::FirstOnlyHonest(count) if i == 0 => cell.raw += *count,
                Behaviour::FirstOnlyHonest(_) => cell.time_running_ns -= 100,
                Behaviour::Lost => cell.lost = Some("pinned".into()),
                _ => {}
            }
        }
        if let Behaviour::Steps(steps) = &mut *behaviour {
            steps.remove(0);
        }
        Ok(())
    }

    fn read(&mut self, out: &mut Reading) -> Result<()> {
        out.cells.extend(self.cells.iter().cloned());
        Ok(())
    }
}
