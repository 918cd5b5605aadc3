//! Loads, stores and bytes of an instruction.

use iced_x86::{Instruction, InstructionInfo, MemorySize, Mnemonic as M, OpAccess, OpKind, Register};

use crate::addend::{Addend, ElementMask, MaskedElements, StringIteration};
use crate::event::ExecutionEvent;
use crate::vector::EventTally;

/// Bytes that an instruction of the xsave family counts: the legacy region (512) and the header (64).
///
/// # Source
///
/// Intel SDM volume 1 (253665), section 13.4. The extended region's size depends on the processor, on XCR0,
/// on edx:eax and on what is in use; it is not counted.
pub(crate) const XSAVE_BYTES: u32 = 512 + 64;

/// Adds the accesses of an instruction; returns the part that depends on registers.
pub(crate) fn tally(
    instruction: &Instruction,
    info: &InstructionInfo,
    into: &mut EventTally,
) -> Option<Addend> {
    if accesses_nothing(instruction.mnemonic()) {
        return None;
    }
    let once = accesses(instruction, info);
    if is_repeated(instruction) {
        return Some(Addend::Iterations(StringIteration::of(&once)));
    }
    let addend = partial(instruction, &once);
    let open = match &addend {
        Some(Addend::Elements(MaskedElements { event, .. }) | Addend::Bytes { event }) => Some(*event),
        _ => None,
    };
    for event in [
        ExecutionEvent::Loads,
        ExecutionEvent::Stores,
        ExecutionEvent::BytesLoaded,
        ExecutionEvent::BytesStored,
    ] {
        if open != Some(event) {
            into.add(event, once.of(event));
        }
    }
    addend
}

/// Instructions of which the decoder's tables list an access that is none here: flushes of cache lines, which
/// move no data to or from the program.
pub(crate) fn accesses_nothing(mnemonic: M) -> bool {
    matches!(mnemonic, M::Clflush | M::Clflushopt | M::Clwb)
}

/// Whether this is a string instruction with a repeat prefix. On others the prefix has no meaning, or another
/// one.
pub(crate) fn is_repeated(instruction: &Instruction) -> bool {
    instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

/// The accesses as the decoder's tables list them, without repeat prefixes.
fn accesses(instruction: &Instruction, info: &InstructionInfo) -> EventTally {
    let mut tally = EventTally::new();
    for used in info.used_memory() {
        // Under a repeat prefix the tables give no size, as it depends on rcx.
        let repeated = is_repeated(instruction);
        let size = if repeated { instruction.memory_size() } else { used.memory_size() };
        let (reads, writes) = directions(used.access(), size);
        if reads {
            tally.add(ExecutionEvent::Loads, 1);
            tally.add(ExecutionEvent::BytesLoaded, bytes(size));
        }
        if writes {
            tally.add(ExecutionEvent::Stores, 1);
            tally.add(ExecutionEvent::BytesStored, bytes(size));
        }
    }
    tally
}

/// Whether an access reads, and whether it writes.
///
/// An access that the tables call conditional does happen: cmov loads whatever the condition, cmpxchg writes
/// back the value that it read when it fails (Intel SDM volume 2). An access that depends on a mask or on rcx
/// becomes an addend. A save that reads the area's header before it writes counts as a store only.
fn directions(access: OpAccess, size: MemorySize) -> (bool, bool) {
    match access {
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write | OpAccess::CondWrite => (false, true),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => (!is_save_area(size), true),
        OpAccess::None | OpAccess::NoMemAccess => (false, false),
    }
}

fn is_save_area(size: MemorySize) -> bool {
    matches!(size, MemorySize::Xsave | MemorySize::Xsave64)
}

fn bytes(size: MemorySize) -> u32 {
    // No operand has more than 512 bytes.
    if is_save_area(size) { XSAVE_BYTES } else { size.size() as u32 }
}

/// The bytes that are known at run time only.
fn partial(instruction: &Instruction, once: &EventTally) -> Option<Addend> {
    let stores = once.of(ExecutionEvent::Stores) > 0;
    if !stores && once.of(ExecutionEvent::Loads) == 0 {
        return None;
    }
    let event = if stores { ExecutionEvent::BytesStored } else { ExecutionEvent::BytesLoaded };
    if instruction.memory_size() == MemorySize::Tile {
        return Some(Addend::Bytes { event });
    }
    let mask = mask(instruction, stores)?;
    let (lanes, element_bytes) = lanes(instruction);
    Some(Addend::Elements(MaskedElements { event, mask, lanes, element_bytes }))
}

/// The mask that selects elements of the memory operand, if any.
fn mask(instruction: &Instruction, stores: bool) -> Option<ElementMask> {
    match instruction.mnemonic() {
        M::Maskmovq | M::Maskmovdqu | M::Vmaskmovdqu => Some(ElementMask::Signs(instruction.op2_register())),
        M::Vmaskmovps | M::Vmaskmovpd | M::Vpmaskmovd | M::Vpmaskmovq => {
            Some(ElementMask::Signs(instruction.op1_register()))
        }
        _ if instruction.has_op_mask() => {
            let selects = stores || instruction.is_vsib() || is_masked_load(instruction.mnemonic());
            selects.then(|| ElementMask::Opmask(instruction.op_mask()))
        }
        _ if instruction.is_vsib() => Some(ElementMask::Signs(instruction.op2_register())),
        _ => None,
    }
}

/// The number of elements in memory, and the bytes of each.
fn lanes(instruction: &Instruction) -> (u8, u8) {
    let size = instruction.memory_size();
    let (lanes, element) = match instruction.mnemonic() {
        M::Maskmovq | M::Maskmovdqu | M::Vmaskmovdqu => (size.size(), 1),
        _ if instruction.is_vsib() => (vsib_lanes(instruction), size.size()),
        _ => (size.element_count(), size.element_size()),
    };
    // At most 64 bytes in memory: both fit.
    (lanes as u8, element as u8)
}

/// Elements of a gather or scatter: as many as both its data and its index register hold.
fn vsib_lanes(instruction: &Instruction) -> usize {
    let data = (0..2)
        .filter(|i| instruction.op_kind(*i) == OpKind::Register)
        .map(|i| instruction.op_register(i))
        .map(Register::size)
        .max()
        .unwrap_or(0);
    let index = if instruction.is_vsib64() { 8 } else { 4 };
    (data / instruction.memory_size().size()).min(instruction.memory_index().size() / index)
}

/// Loads whose opmask selects the bytes that are read: moves that copy or widen, and expands.
///
/// Elsewhere the mask selects results, and the operand counts whole.
pub(crate) fn is_masked_load(mnemonic: M) -> bool {
    #[rustfmt::skip]
    let masked = matches!(
        mnemonic,
        M::Vmovaps | M::Vmovapd | M::Vmovups | M::Vmovupd | M::Vmovss | M::Vmovsd | M::Vmovsh
        | M::Vmovdqa32 | M::Vmovdqa64 | M::Vmovdqu8 | M::Vmovdqu16 | M::Vmovdqu32 | M::Vmovdqu64
        | M::Vpmovsxbw | M::Vpmovsxbd | M::Vpmovsxbq | M::Vpmovsxwd | M::Vpmovsxwq | M::Vpmovsxdq
        | M::Vpmovzxbw | M::Vpmovzxbd | M::Vpmovzxbq | M::Vpmovzxwd | M::Vpmovzxwq | M::Vpmovzxdq
        | M::Vexpandps | M::Vexpandpd | M::Vpexpandb | M::Vpexpandw | M::Vpexpandd | M::Vpexpandq
    );
    masked
}
