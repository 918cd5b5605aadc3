//! An instruction set without loops.

use super::{LoopCode, RecipeLoop};
use crate::recipe::InstructionSet;

pub(crate) const HOST: Option<InstructionSet> = None;

pub(crate) fn has_fused_multiply_add() -> bool {
    false
}

pub(crate) fn code_of(_: RecipeLoop) -> Option<LoopCode> {
    None
}
