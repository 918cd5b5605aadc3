//! The event counts of one execution of an instruction.

use iced_x86::{FlowControl, Instruction, InstructionInfo, Mnemonic as M, OpKind};

use crate::addend::Addend;
use crate::event::ExecutionEvent;
use crate::vector::EventTally;
use crate::{floating, memory, simd};

/// The counts of an instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InstructionCounts {
    /// The counts of every execution.
    pub events: EventTally,
    /// The counts that depend on registers or flags.
    pub addend: Option<Addend>,
}

/// The near branches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Branch {
    Conditional,
    Jump,
    IndirectJump,
    Call,
    IndirectCall,
    Return,
}

/// The counts of one execution of an instruction, when it retires.
///
/// `info` is the result of [`InstructionInfoFactory::info`](iced_x86::InstructionInfoFactory::info) for the
/// same instruction, with its memory usage.
///
/// An instruction that always raises a fault (ud2) counts nothing. One that may fault (division, any access)
/// counts as if it did not: the host knows where it faulted.
pub fn classify(instruction: &Instruction, info: &InstructionInfo) -> InstructionCounts {
    let mut events = EventTally::new();
    if instruction.flow_control() == FlowControl::Exception {
        return InstructionCounts { events, addend: None };
    }
    events.add(ExecutionEvent::Instructions, 1);
    let direction = branches(instruction, &mut events);
    let access = memory::tally(instruction, info, &mut events);
    simd::tally(instruction, &mut events);
    floating::tally(instruction, &mut events);
    for event in others(instruction).into_iter().flatten() {
        events.add(event, 1);
    }
    InstructionCounts { events, addend: direction.or(access) }
}

/// The kind of a near branch. Far branches, system calls and interrupts are none.
pub(crate) fn branch(instruction: &Instruction) -> Option<Branch> {
    match instruction.flow_control() {
        FlowControl::ConditionalBranch => Some(Branch::Conditional),
        FlowControl::UnconditionalBranch if instruction.is_jmp_short_or_near() => Some(Branch::Jump),
        FlowControl::IndirectBranch if instruction.is_jmp_near_indirect() => Some(Branch::IndirectJump),
        FlowControl::Call if instruction.is_call_near() => Some(Branch::Call),
        FlowControl::IndirectCall if instruction.is_call_near_indirect() => Some(Branch::IndirectCall),
        FlowControl::Return if instruction.mnemonic() == M::Ret => Some(Branch::Return),
        _ => None,
    }
}

fn branches(instruction: &Instruction, events: &mut EventTally) -> Option<Addend> {
    let kind = branch(instruction)?;
    let counts: &[ExecutionEvent] = match kind {
        Branch::Conditional => &[ExecutionEvent::ConditionalBranches, ExecutionEvent::DirectBranches],
        Branch::Jump => &[ExecutionEvent::TakenBranches, ExecutionEvent::DirectBranches],
        Branch::IndirectJump => &[ExecutionEvent::TakenBranches, ExecutionEvent::IndirectBranches],
        Branch::Call => {
            &[ExecutionEvent::TakenBranches, ExecutionEvent::DirectBranches, ExecutionEvent::Calls]
        }
        Branch::IndirectCall => &[
            ExecutionEvent::TakenBranches,
            ExecutionEvent::IndirectBranches,
            ExecutionEvent::Calls,
            ExecutionEvent::IndirectCalls,
        ],
        Branch::Return => &[ExecutionEvent::TakenBranches, ExecutionEvent::Returns],
    };
    for event in counts {
        events.add(*event, 1);
    }
    events.add(ExecutionEvent::Branches, 1);
    events.add(ExecutionEvent::BasicBlocks, 1);
    (kind == Branch::Conditional).then_some(Addend::Direction)
}

/// Events that follow from the mnemonic, or nearly.
fn others(instruction: &Instruction) -> [Option<ExecutionEvent>; 4] {
    let system_call = is_system_call(instruction);
    let ends_run = system_call || instruction.flow_control() == FlowControl::Interrupt;
    [
        of_mnemonic(instruction.mnemonic()).or(system_call.then_some(ExecutionEvent::SystemCalls)),
        ends_run.then_some(ExecutionEvent::BasicBlocks),
        is_atomic(instruction).then_some(ExecutionEvent::Atomics),
        memory::is_repeated(instruction).then_some(ExecutionEvent::RepInstructions),
    ]
}

fn of_mnemonic(mnemonic: M) -> Option<ExecutionEvent> {
    match mnemonic {
        M::Mul | M::Imul | M::Mulx => Some(ExecutionEvent::IntegerMultiplies),
        M::Div | M::Idiv => Some(ExecutionEvent::IntegerDivides),
        M::Mfence | M::Lfence | M::Sfence | M::Serialize => Some(ExecutionEvent::Fences),
        M::Nop | M::Reservednop => Some(ExecutionEvent::Nops),
        _ => None,
    }
}

fn is_system_call(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        M::Syscall | M::Sysenter => true,
        M::Int => instruction.immediate8() == 0x80,
        _ => false,
    }
}

/// Whether an instruction reads, modifies and writes memory at once.
fn is_atomic(instruction: &Instruction) -> bool {
    #[rustfmt::skip]
    let by_nature = match instruction.mnemonic() {
        M::Xchg => (0..2).any(|i| instruction.op_kind(i) == OpKind::Memory),
        M::Aadd | M::Aand | M::Aor | M::Axor
        | M::Cmpbexadd | M::Cmpbxadd | M::Cmplexadd | M::Cmplxadd | M::Cmpnbexadd | M::Cmpnbxadd
        | M::Cmpnlexadd | M::Cmpnlxadd | M::Cmpnoxadd | M::Cmpnpxadd | M::Cmpnsxadd | M::Cmpnzxadd
        | M::Cmpoxadd | M::Cmppxadd | M::Cmpsxadd | M::Cmpzxadd => true,
        _ => false,
    };
    by_nature || instruction.has_lock_prefix()
}

#[cfg(test)]
pub(crate) mod tests;
