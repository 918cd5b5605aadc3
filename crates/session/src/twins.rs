//! Events that are there twice: one counter gives the values of both.

use cyclometer_core::code::CodeCounts;
use cyclometer_core::exec::{Cell, Counting, Exit, Reading};
use cyclometer_core::window::{WindowSpec, Windowing};
use cyclometer_core::{Refusal, Result, Slot, SlotId};

/// Counters with the values of their twins beside their own.
pub(crate) struct WithTwins {
    counting: Box<dyn Counting>,
    /// Each twin with the slot that is open.
    twins: Vec<(SlotId, SlotId)>,
}

impl WithTwins {
    /// Adds the twins among these slots; where there are none the counters are as they were.
    pub(crate) fn of(slots: &[Slot], counting: Box<dyn Counting>) -> Box<dyn Counting> {
        let twins = slots.iter().filter_map(|slot| Some((slot.id, slot.twin_of?)));
        let twins: Vec<(SlotId, SlotId)> = twins.collect();
        if twins.is_empty() { counting } else { Box::new(WithTwins { counting, twins }) }
    }

    fn add(&self, own: Reading, out: &mut Reading) {
        for (twin, open) in &self.twins {
            let cells = own.cells.iter().filter(|cell| cell.slot == *open);
            out.cells.extend(cells.map(|cell| Cell { slot: *twin, ..cell.clone() }));
        }
        out.cells.extend(own.cells);
    }
}

impl Counting for WithTwins {
    fn start(&mut self) -> Result<()> {
        self.counting.start()
    }

    fn stop(&mut self) -> Result<()> {
        self.counting.stop()
    }

    fn select(&mut self, rotation_group: u32) -> Result<()> {
        self.counting.select(rotation_group)
    }

    fn windows(&mut self, spec: &WindowSpec) -> Option<std::result::Result<Box<dyn Windowing>, Refusal>> {
        self.counting.windows(spec)
    }

    fn exited(&mut self, exit: &Exit) {
        self.counting.exited(exit);
    }

    fn take_code(&mut self) -> Option<Result<CodeCounts>> {
        self.counting.take_code()
    }

    fn read(&mut self, out: &mut Reading) -> Result<()> {
        let mut own = Reading::default();
        self.counting.read(&mut own)?;
        self.add(own, out);
        Ok(())
    }

    fn read_rotation_group(&mut self, rotation_group: u32, out: &mut Reading) -> Result<()> {
        let mut own = Reading::default();
        self.counting.read_rotation_group(rotation_group, &mut own)?;
        self.add(own, out);
        Ok(())
    }
}
