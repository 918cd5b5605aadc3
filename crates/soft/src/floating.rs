//! Floating-point operations of an instruction.

use iced_x86::{Instruction, Mnemonic as M};

use crate::event::ExecutionEvent;
use crate::simd::{self, Width};
use crate::vector::EventTally;

/// The operation of an instruction on each element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FloatingOperation {
    Add,
    Multiply,
    DivideOrRoot,
    /// This number of fused multiply-adds.
    Fused(u32),
    /// Two multiplications and two fused multiply-adds: a complex product.
    Complex,
    /// Products of four or two elements, added up: one addition less than products.
    Dot(u32),
}

/// Operations of all elements.
#[derive(Default)]
struct OperationCounts {
    add: u32,
    multiply: u32,
    divide: u32,
    fused: u32,
}

/// Adds the floating-point events of an instruction.
pub(crate) fn tally(instruction: &Instruction, into: &mut EventTally) {
    let Some(shape) = shape(instruction.mnemonic()) else { return };
    let elements = elements(instruction);
    let operations = shape.operations(elements.unwrap_or(1));
    into.add(ExecutionEvent::FpAdd, operations.add);
    into.add(ExecutionEvent::FpMul, operations.multiply);
    into.add(ExecutionEvent::FpDivSqrt, operations.divide);
    into.add(ExecutionEvent::FpFma, operations.fused);
    let all = operations.add + operations.multiply + operations.divide + 2 * operations.fused;
    into.add(ExecutionEvent::FpOperations, all);
    into.add(if elements.is_some() { ExecutionEvent::FpPacked } else { ExecutionEvent::FpScalar }, 1);
}

/// The number of elements of a packed instruction; `None` for scalar ones and x87.
fn elements(instruction: &Instruction) -> Option<u32> {
    let bytes = match simd::width(instruction)? {
        Width::Scalar => return None,
        Width::Bits64 => 8,
        Width::Bits128 => 16,
        Width::Bits256 => 32,
        Width::Bits512 => 64,
    };
    let element = instruction.memory_size().element_size();
    u32::try_from(bytes / element.max(1)).ok()
}

impl FloatingOperation {
    fn operations(self, elements: u32) -> OperationCounts {
        let none = OperationCounts::default();
        match self {
            FloatingOperation::Add => OperationCounts { add: elements, ..none },
            FloatingOperation::Multiply => OperationCounts { multiply: elements, ..none },
            FloatingOperation::DivideOrRoot => OperationCounts { divide: elements, ..none },
            FloatingOperation::Fused(each) => OperationCounts { fused: each * elements, ..none },
            FloatingOperation::Complex => {
                OperationCounts { multiply: 2 * elements, fused: 2 * elements, ..none }
            }
            FloatingOperation::Dot(products) => {
                OperationCounts { multiply: elements, add: elements - elements / products, ..none }
            }
        }
    }
}

/// The operation of a mnemonic; `None` where it is not a floating-point operation in this sense.
///
/// # Source
///
/// Intel SDM volume 2 (325383), operation sections; AMD APM volume 6 (26568-70) for the four-operand FMA4
/// forms. Elements of the complex instructions are pairs, of bf16 dot products pairs too.
#[rustfmt::skip]
fn shape(mnemonic: M) -> Option<FloatingOperation> {
    let shape = match mnemonic {
        M::Addpd | M::Addps | M::Addsd | M::Addss | M::Addsubpd | M::Addsubps | M::Fadd | M::Faddp |
        M::Fiadd | M::Fisub | M::Fisubr | M::Fsub | M::Fsubp | M::Fsubr | M::Fsubrp | M::Haddpd |
        M::Haddps | M::Hsubpd | M::Hsubps | M::Subpd | M::Subps | M::Subsd | M::Subss | M::Vaddpd |
        M::Vaddph | M::Vaddps | M::Vaddsd | M::Vaddsh | M::Vaddss | M::Vaddsubpd | M::Vaddsubps |
        M::Vhaddpd | M::Vhaddps | M::Vhsubpd | M::Vhsubps | M::Vsubpd | M::Vsubph | M::Vsubps | M::Vsubsd
        | M::Vsubsh | M::Vsubss => FloatingOperation::Add,
        M::Fimul | M::Fmul | M::Fmulp | M::Mulpd | M::Mulps | M::Mulsd | M::Mulss | M::Vmulpd | M::Vmulph
        | M::Vmulps | M::Vmulsd | M::Vmulsh | M::Vmulss => FloatingOperation::Multiply,
        M::Divpd | M::Divps | M::Divsd | M::Divss | M::Fdiv | M::Fdivp | M::Fdivr | M::Fdivrp | M::Fidiv |
        M::Fidivr | M::Fsqrt | M::Sqrtpd | M::Sqrtps | M::Sqrtsd | M::Sqrtss | M::Vdivpd | M::Vdivph |
        M::Vdivps | M::Vdivsd | M::Vdivsh | M::Vdivss | M::Vsqrtpd | M::Vsqrtph | M::Vsqrtps | M::Vsqrtsd
        | M::Vsqrtsh | M::Vsqrtss => FloatingOperation::DivideOrRoot,
        M::Vfmadd132pd | M::Vfmadd132ph | M::Vfmadd132ps | M::Vfmadd132sd | M::Vfmadd132sh |
        M::Vfmadd132ss | M::Vfmadd213pd | M::Vfmadd213ph | M::Vfmadd213ps | M::Vfmadd213sd |
        M::Vfmadd213sh | M::Vfmadd213ss | M::Vfmadd231pd | M::Vfmadd231ph | M::Vfmadd231ps |
        M::Vfmadd231sd | M::Vfmadd231sh | M::Vfmadd231ss | M::Vfmaddpd | M::Vfmaddps | M::Vfmaddsd |
        M::Vfmaddss | M::Vfmaddsub132pd | M::Vfmaddsub132ph | M::Vfmaddsub132ps | M::Vfmaddsub213pd |
        M::Vfmaddsub213ph | M::Vfmaddsub213ps | M::Vfmaddsub231pd | M::Vfmaddsub231ph | M::Vfmaddsub231ps
        | M::Vfmaddsubpd | M::Vfmaddsubps | M::Vfmsub132pd | M::Vfmsub132ph | M::Vfmsub132ps |
        M::Vfmsub132sd | M::Vfmsub132sh | M::Vfmsub132ss | M::Vfmsub213pd | M::Vfmsub213ph |
        M::Vfmsub213ps | M::Vfmsub213sd | M::Vfmsub213sh | M::Vfmsub213ss | M::Vfmsub231pd |
        M::Vfmsub231ph | M::Vfmsub231ps | M::Vfmsub231sd | M::Vfmsub231sh | M::Vfmsub231ss |
        M::Vfmsubadd132pd | M::Vfmsubadd132ph | M::Vfmsubadd132ps | M::Vfmsubadd213pd | M::Vfmsubadd213ph
        | M::Vfmsubadd213ps | M::Vfmsubadd231pd | M::Vfmsubadd231ph | M::Vfmsubadd231ps | M::Vfmsubaddpd |
        M::Vfmsubaddps | M::Vfmsubpd | M::Vfmsubps | M::Vfmsubsd | M::Vfmsubss | M::Vfnmadd132pd |
        M::Vfnmadd132ph | M::Vfnmadd132ps | M::Vfnmadd132sd | M::Vfnmadd132sh | M::Vfnmadd132ss |
        M::Vfnmadd213pd | M::Vfnmadd213ph | M::Vfnmadd213ps | M::Vfnmadd213sd | M::Vfnmadd213sh |
        M::Vfnmadd213ss | M::Vfnmadd231pd | M::Vfnmadd231ph | M::Vfnmadd231ps | M::Vfnmadd231sd |
        M::Vfnmadd231sh | M::Vfnmadd231ss | M::Vfnmaddpd | M::Vfnmaddps | M::Vfnmaddsd | M::Vfnmaddss |
        M::Vfnmsub132pd | M::Vfnmsub132ph | M::Vfnmsub132ps | M::Vfnmsub132sd | M::Vfnmsub132sh |
        M::Vfnmsub132ss | M::Vfnmsub213pd | M::Vfnmsub213ph | M::Vfnmsub213ps | M::Vfnmsub213sd |
        M::Vfnmsub213sh | M::Vfnmsub213ss | M::Vfnmsub231pd | M::Vfnmsub231ph | M::Vfnmsub231ps |
        M::Vfnmsub231sd | M::Vfnmsub231sh | M::Vfnmsub231ss | M::Vfnmsubpd | M::Vfnmsubps | M::Vfnmsubsd |
        M::Vfnmsubss => FloatingOperation::Fused(1),
        M::Vdpbf16ps => FloatingOperation::Fused(2),
        M::V4fmaddps | M::V4fmaddss | M::V4fnmaddps | M::V4fnmaddss | M::Vfmaddcph | M::Vfmaddcsh |
        M::Vfcmaddcph | M::Vfcmaddcsh => FloatingOperation::Fused(4),
        M::Vfmulcph | M::Vfmulcsh | M::Vfcmulcph | M::Vfcmulcsh => FloatingOperation::Complex,
        M::Dpps | M::Vdpps => FloatingOperation::Dot(4),
        M::Dppd | M::Vdppd => FloatingOperation::Dot(2),
        _ => return None,
    };
    Some(shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a name reads as an addition, multiplication, division or root of floating-point elements.
    fn reads_as_arithmetic(name: &str) -> bool {
        let name = name.trim_start_matches('v');
        let typed = ["ss", "sd", "sh", "ps", "pd", "ph"].iter().any(|kind| name.ends_with(kind));
        let does = ["add", "sub", "mul", "div", "sqrt", "dpp"].iter().any(|word| name.contains(word));
        // Integers begin with p; approximations are none.
        typed && does && !name.starts_with('p') && !name.starts_with("rsqrt")
    }

    /// Forms of the first Xeon Phi, which the decoder does not accept.
    const FIRST_PHI: [&str; 6] = ["vaddnpd", "vaddnps", "vaddsetsps", "vfmadd233ps", "vsubrpd", "vsubrps"];

    #[test]
    fn every_mnemonic_that_reads_as_arithmetic_has_a_shape() {
        let mut seen = 0;
        for mnemonic in M::values() {
            let name = format!("{mnemonic:?}").to_lowercase();
            if reads_as_arithmetic(&name) && !FIRST_PHI.contains(&name.as_str()) {
                assert!(shape(mnemonic).is_some(), "{name}");
                seen += 1;
            }
        }
        assert!(seen > 150, "{seen}");
    }

    #[test]
    fn a_dot_product_adds_once_less_than_it_multiplies() {
        let four = FloatingOperation::Dot(4).operations(8);
        assert_eq!((four.multiply, four.add), (8, 6));
        let two = FloatingOperation::Dot(2).operations(2);
        assert_eq!((two.multiply, two.add), (2, 1));
    }
}
