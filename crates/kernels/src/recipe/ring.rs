//! Machine code of a ring of jumps: code of any footprint, in an order that no prefetcher knows.
//!
//! ```text
//! 0         count down; nop; branch back to link 0 while rounds are left; return
//! HEAD      link 0: jump to another link
//! + spacing link 1: jump to another link
//! …         the last link in the ring jumps to 0
//! ```
//!
//! The code is entered at link 0. Each round executes every link once.

use super::instruction::InstructionSet;
use crate::memory::ring;

/// Bytes before the first link: a cache line of the largest kind.
const HEAD: usize = 128;

/// Code in pieces, each with its offset.
#[derive(Debug)]
pub(crate) struct RingCode {
    pub(crate) pieces: Vec<(usize, Vec<u8>)>,
    /// Bytes from the first to behind the last.
    pub(crate) bytes: usize,
    /// The offset at which it is entered.
    pub(crate) entry: usize,
}

/// The bytes that a ring of so many links needs.
pub(crate) fn bytes_of(links: usize, spacing: usize) -> usize {
    HEAD + links * spacing
}

/// The code of a ring; `None` where a jump does not reach that far.
pub(crate) fn code(set: InstructionSet, links: usize, spacing: usize) -> Option<RingCode> {
    let at = |link: usize| HEAD + link * spacing;
    let mut pieces = vec![(0, end(set))];
    for (link, next) in ring(links).into_iter().enumerate() {
        let to = if next == 0 { 0 } else { at(next) };
        pieces.push((at(link), jump(set, to as i64 - at(link) as i64)?));
    }
    Some(RingCode { pieces, bytes: bytes_of(links, spacing), entry: HEAD })
}

/// Whether jumps of an instruction set reach so far.
pub(crate) fn reaches(set: InstructionSet, bytes: usize) -> bool {
    i64::try_from(bytes)
        .is_ok_and(|bytes| jump(set, bytes & !7).is_some() && jump(set, -(bytes & !7)).is_some())
}

/// Counts down in the register of the rounds, branches to [`HEAD`] or returns.
fn end(set: InstructionSet) -> Vec<u8> {
    let head = HEAD as u32;
    match set {
        InstructionSet::X86_64 => {
            // dec r8; nop; jnz HEAD; ret
            let mut code = vec![0x49, 0xff, 0xc8, 0x90, 0x0f, 0x85];
            code.extend((head - 10).to_le_bytes());
            code.push(0xc3);
            code
        }
        InstructionSet::Aarch64 => {
            let branch = 0x5400_0001 | ((head - 8) / 4) << 5;
            // subs x9, x9, #1; nop; b.ne HEAD; ret
            words(&[0xf100_0529, 0xd503_201f, branch, 0xd65f_03c0])
        }
        InstructionSet::Riscv64 => {
            let offset = head - 8;
            let (high, low) = ((offset >> 5 & 0x3f) << 25, (offset >> 1 & 0xf) << 8);
            // addi t0, t0, -1; nop; bnez t0, HEAD; ret
            words(&[0xfff2_8293, 0x0000_0013, 0x0002_9063 | high | low, 0x0000_8067])
        }
    }
}

fn jump(set: InstructionSet, offset: i64) -> Option<Vec<u8>> {
    match set {
        InstructionSet::X86_64 => {
            let offset = i32::try_from(offset - 5).ok()?;
            Some([&[0xe9], &offset.to_le_bytes()[..]].concat())
        }
        InstructionSet::Aarch64 => {
            fits(offset, 28)?;
            Some(words(&[0x1400_0000 | (offset / 4) as u32 & 0x03ff_ffff]))
        }
        InstructionSet::Riscv64 => {
            fits(offset, 21)?;
            let offset = offset as u32;
            let fields = (offset >> 20 & 1) << 31
                | (offset >> 1 & 0x3ff) << 21
                | (offset >> 11 & 1) << 20
                | (offset >> 12 & 0xff) << 12;
            Some(words(&[0x6f | fields]))
        }
    }
}

/// Whether a signed number of so many bits holds an offset.
fn fits(offset: i64, bits: u32) -> Option<()> {
    let half = 1i64 << (bits - 1);
    (-half..half).contains(&offset).then_some(())
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_are_encoded_as_assemblers_do() {
        // From `llvm-mc`: jmp .+0x100; b .+0x100, b .-8; j .+0x100, j .-8, j .+0x812.
        let x86 = |offset| jump(InstructionSet::X86_64, offset);
        assert_eq!(x86(0x100).unwrap(), [0xe9, 0xfb, 0, 0, 0]);
        assert_eq!(x86(i64::from(i32::MAX) + 6), None);
        let arm = |offset| jump(InstructionSet::Aarch64, offset);
        assert_eq!(arm(0x100).unwrap(), words(&[0x1400_0040]));
        assert_eq!(arm(-8).unwrap(), words(&[0x17ff_fffe]));
        assert_eq!(arm(1 << 27), None);
        let riscv = |offset| jump(InstructionSet::Riscv64, offset);
        assert_eq!(riscv(0x100).unwrap(), words(&[0x1000_006f]));
        assert_eq!(riscv(-8).unwrap(), words(&[0xff9f_f06f]));
        assert_eq!(riscv(0x812).unwrap(), words(&[0x0130_006f]));
        assert_eq!(riscv(1 << 20), None);
    }

    #[test]
    fn pieces_of_a_ring_do_not_overlap_and_stay_within_it() {
        for set in InstructionSet::ALL {
            for (links, spacing) in [(1, 8), (2, 64), (1000, 8), (50, 4160)] {
                let ring = code(set, links, spacing).unwrap();
                let mut end = 0;
                for (at, piece) in &ring.pieces {
                    assert!(*at >= end, "{set:?} {links} {spacing}");
                    end = at + piece.len();
                }
                assert!(end <= ring.bytes && ring.entry < ring.bytes);
            }
        }
    }

    #[test]
    fn a_ring_that_is_too_long_for_the_jumps_of_riscv_is_none() {
        assert!(code(InstructionSet::Riscv64, 3072, 4160).is_none());
        assert!(!reaches(InstructionSet::Riscv64, 3072 * 4160) && reaches(InstructionSet::Riscv64, 64 << 10));
        assert!(reaches(InstructionSet::X86_64, 3072 * 4160) && reaches(InstructionSet::Aarch64, 64 << 20));
    }
}
