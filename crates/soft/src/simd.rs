//! The width of vector operands.

use iced_x86::{Instruction, Mnemonic as M, OpKind, Register};

use crate::event::ExecutionEvent;
use crate::vector::EventTally;

/// The class of an instruction with a vector operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Width {
    /// One element of an XMM register.
    Scalar,
    /// An MMX register.
    Bits64,
    /// An XMM register.
    Bits128,
    /// A YMM register, or as much memory.
    Bits256,
    /// A ZMM register, or as much memory.
    Bits512,
}

/// Adds the event of the width.
pub(crate) fn tally(instruction: &Instruction, into: &mut EventTally) {
    let event = match width(instruction) {
        None => return,
        Some(Width::Scalar) => ExecutionEvent::SimdScalar,
        Some(Width::Bits64) => ExecutionEvent::Simd64,
        Some(Width::Bits128) => ExecutionEvent::Simd128,
        Some(Width::Bits256) => ExecutionEvent::Simd256,
        Some(Width::Bits512) => ExecutionEvent::Simd512,
    };
    into.add(event, 1);
}

/// The class of an instruction; `None` where no operand is a vector register.
pub(crate) fn width(instruction: &Instruction) -> Option<Width> {
    let register =
        widest_register(instruction).or(is_vector_with_memory(instruction.mnemonic()).then_some(0))?;
    if is_scalar(instruction, register) {
        return Some(Width::Scalar);
    }
    match register.max(memory_bytes(instruction)) {
        8 => Some(Width::Bits64),
        16 => Some(Width::Bits128),
        32 => Some(Width::Bits256),
        _ => Some(Width::Bits512),
    }
}

/// Bytes of the widest vector register among the operands.
fn widest_register(instruction: &Instruction) -> Option<usize> {
    (0..instruction.op_count())
        .filter(|i| instruction.op_kind(*i) == OpKind::Register)
        .map(|i| instruction.op_register(i))
        .filter(|register| is_vector(*register))
        .map(Register::size)
        .max()
}

/// Whether the only vector operand of an instruction may be memory: it counts then as it does with a
/// register.
fn is_vector_with_memory(mnemonic: M) -> bool {
    #[rustfmt::skip]
    let known = matches!(
        mnemonic,
        M::Cvtsd2si | M::Cvtss2si | M::Cvttsd2si | M::Cvttss2si | M::Vcvtsd2si | M::Vcvtsd2usi |
        M::Vcvtsh2si | M::Vcvtsh2usi | M::Vcvtss2si | M::Vcvtss2usi | M::Vcvttsd2si | M::Vcvttsd2usi |
        M::Vcvttsh2si | M::Vcvttsh2usi | M::Vcvttss2si | M::Vcvttss2usi | M::Vfpclasspd | M::Vfpclassph |
        M::Vfpclassps | M::Vfpclasssd | M::Vfpclasssh | M::Vfpclassss
    );
    known
}

fn is_vector(register: Register) -> bool {
    register.is_mm() || register.is_vector_register()
}

/// Bytes of the memory operand, for a broadcast those of the whole vector; 0 without one.
///
/// A conversion to narrower elements has its widest operand in memory: `vcvtpd2ps ymm, [m512]`.
fn memory_bytes(instruction: &Instruction) -> usize {
    let has_memory = (0..instruction.op_count()).any(|i| instruction.op_kind(i) == OpKind::Memory);
    if !has_memory || instruction.is_vsib() {
        return 0;
    }
    let mut plain = *instruction;
    plain.set_is_broadcast(false);
    plain.memory_size().size()
}

const MMX_BYTES: usize = 8;

/// Whether the instruction works on one element of its registers.
///
/// The decoder's table of operand sizes gives the answer, for forms with registers only too: `addss` has 4
/// bytes. The exceptions are listed: instructions that spread one element over the register, and scalars
/// without such a size.
fn is_scalar(instruction: &Instruction, register: usize) -> bool {
    let size = instruction.memory_size();
    match instruction.mnemonic() {
        M::Vmovss | M::Vmovsd | M::Vmovsh | M::Pextrw | M::Vpextrw => register != MMX_BYTES,
        M::Vfmaddcsh | M::Vfcmaddcsh | M::Vfmulcsh | M::Vfcmulcsh | M::V4fmaddss | M::V4fnmaddss => true,
        M::Movddup | M::Vmovddup | M::Vbroadcastss | M::Vbroadcastsd | M::Vpbroadcastb => false,
        M::Vpbroadcastw | M::Vpbroadcastd | M::Vpbroadcastq | M::Vbcstnesh2ps | M::Vbcstnebf162ps => false,
        _ if instruction.is_vsib() || instruction.is_broadcast() => false,
        _ => !size.is_packed() && register != MMX_BYTES && matches!(size.size(), 1..=8),
    }
}
