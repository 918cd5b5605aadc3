//! The heat of blocks: how often each was executed, approximately.

use crate::profile::BlockHeat;

/// The heat of the blocks of a translation, by their numbers. Blocks that were not executed are cold.
#[derive(Default)]
pub(crate) struct HeatMap(Vec<BlockHeat>);

impl HeatMap {
    /// A process has executed a block.
    pub(crate) fn note(&mut self, block: u32, heats: BlockHeat) {
        let index = block as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, BlockHeat::default());
        }
        self.0[index] = self.0[index].or_hotter(heats);
    }

    pub(super) fn of(&self, block: u32) -> Option<BlockHeat> {
        self.0.get(block as usize).copied().filter(|heats| *heats != BlockHeat::default())
    }
}
