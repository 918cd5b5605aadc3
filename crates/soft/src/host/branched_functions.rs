//! The functions that logged branches lead to, by block and by address.

use crate::call_paths::{EnteredPlaces, FunctionId};
use crate::hash::AddressMap;
use crate::recent_values::RecentValues;
use crate::translate::Translation;

/// The functions that the branches of a translation lead to.
#[derive(Default)]
pub(crate) struct BranchedFunctions {
    by_block: Vec<Option<FunctionId>>,
    by_address: AddressMap<u64, FunctionId>,
    recent: RecentValues,
}

impl BranchedFunctions {
    /// The function that the branch at the end of a block leads to, whose target is in the instruction.
    #[inline]
    pub(super) fn of_block(
        &mut self,
        translation: &Translation,
        places: &mut EnteredPlaces,
        block: u32,
    ) -> FunctionId {
        let known = self.by_block.get(block as usize).copied().flatten();
        known.unwrap_or_else(|| self.find_of_block(translation, places, block))
    }

    #[cold]
    fn find_of_block(
        &mut self,
        translation: &Translation,
        places: &mut EnteredPlaces,
        block: u32,
    ) -> FunctionId {
        let target = translation.branch_target(block).unwrap_or_default();
        let function = places.function(translation.place(target));
        let index = block as usize;
        if self.by_block.len() <= index {
            self.by_block.resize(index + 1, None);
        }
        self.by_block[index] = Some(function);
        function
    }

    /// The function at an address that a branch led to.
    #[inline]
    pub(super) fn at(
        &mut self,
        translation: &Translation,
        places: &mut EnteredPlaces,
        address: u64,
    ) -> FunctionId {
        let recent = self.recent.get(address);
        recent.map_or_else(|| self.find_at(translation, places, address), FunctionId)
    }

    #[cold]
    fn find_at(&mut self, translation: &Translation, places: &mut EnteredPlaces, address: u64) -> FunctionId {
        let new = || places.function(translation.place(address));
        let function = *self.by_address.entry(address).or_insert_with(new);
        self.recent.keep(address, function.0, self.by_address.len());
        function
    }
}
