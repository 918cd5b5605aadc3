//! The functions that logged branches lead to, by block and by address.

use crate::call_paths::{EnteredPlaces, FunctionId};
use crate::hash::AddressMap;
use crate::translate::{CallRecord, RecordKind, Translation};

/// The functions that the branches of a translation lead to.
#[derive(Default)]
pub(crate) struct BranchedFunctions {
    by_block: Vec<Option<FunctionId>>,
    by_address: AddressMap<u64, FunctionId>,
}

impl BranchedFunctions {
    /// The function that a branch led to.
    pub(super) fn of(
        &mut self,
        translation: &Translation,
        places: &mut EnteredPlaces,
        record: &CallRecord,
    ) -> FunctionId {
        let mut at = |address| places.function(translation.place(address));
        let in_instruction = matches!(record.kind, RecordKind::Call | RecordKind::Jump);
        if !in_instruction {
            return *self.by_address.entry(record.target).or_insert_with(|| at(record.target));
        }
        let block = record.block as usize;
        if self.by_block.len() <= block {
            self.by_block.resize(block + 1, None);
        }
        let target = || translation.branch_target(record.block).unwrap_or_default();
        *self.by_block[block].get_or_insert_with(|| at(target()))
    }
}
