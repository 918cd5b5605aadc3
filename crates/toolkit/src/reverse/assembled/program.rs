//! The program that a file of assembly is linked to, and its program headers.
//!
//! A linker of another kind may ignore the layout of ours. So the program headers are checked before the
//! program is started: the kernel obeys some of them before the first instruction runs.

/// The layout, for the linker.
pub(super) const LAYOUT: &str = include_str!("kernel.ld");

/// Checks that a program is of this kind: ELF, 64 bits, at fixed addresses, with segments to load only.
///
/// # Errors
///
/// The part that is unexpected.
///
/// # Source
///
/// `elf(5)`; Linux `fs/binfmt_elf.c`, `load_elf_binary`.
pub(super) fn check(program: &[u8]) -> Result<(), String> {
    const ELF64_LITTLE_ENDIAN: &[u8] = b"\x7fELF\x02\x01";
    const FIXED_ADDRESSES: u16 = 2;
    const ENTRY_BYTES: u16 = 56;
    let cut = || "its header is cut off".to_owned();
    if !program.starts_with(ELF64_LITTLE_ENDIAN) || half(program, 16) != Some(FIXED_ADDRESSES) {
        return Err("it is no 64-bit ELF program at fixed addresses".to_owned());
    }
    if half(program, 54) != Some(ENTRY_BYTES) {
        return Err("its program headers have another size".to_owned());
    }
    let first = word(program, 32).and_then(|at| usize::try_from(at).ok()).ok_or_else(cut)?;
    let number = half(program, 56).ok_or_else(cut)?;
    for index in 0..usize::from(number) {
        let at = first.checked_add(index * usize::from(ENTRY_BYTES)).ok_or_else(cut)?;
        let kind = array(program, at).map(u32::from_le_bytes).ok_or_else(cut)?;
        if !is_expected(kind) {
            return Err(format!("it has a program header of type {kind:#x}{}", name_of(kind)));
        }
    }
    Ok(())
}

fn is_expected(kind: u32) -> bool {
    const LOAD: u32 = 1;
    const STACK: u32 = 0x6474_e551;
    matches!(kind, LOAD | STACK)
}

fn name_of(kind: u32) -> &'static str {
    match kind {
        2 => " (PT_DYNAMIC)",
        3 => " (PT_INTERP)",
        4 => " (PT_NOTE)",
        6 => " (PT_PHDR)",
        7 => " (PT_TLS)",
        _ => "",
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(kinds: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56 * kinds.len()];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[16] = 2;
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = u8::try_from(kinds.len()).unwrap();
        for (index, kind) in kinds.iter().enumerate() {
            bytes[64 + 56 * index..][..4].copy_from_slice(&kind.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn a_program_that_names_an_interpreter_is_refused() {
        assert_eq!(check(&program(&[1, 1, 0x6474_e551])), Ok(()));
        let error = check(&program(&[1, 3])).unwrap_err();
        assert_eq!(error, "it has a program header of type 0x3 (PT_INTERP)");
        let error = check(&program(&[0x7000_0001])).unwrap_err();
        assert_eq!(error, "it has a program header of type 0x70000001");
    }

    #[test]
    fn a_damaged_program_is_refused() {
        assert!(check(b"").is_err() && check(b"#!/bin/sh\n").is_err());
        let whole = program(&[1]);
        (0..whole.len() - 52).for_each(|bytes| assert!(check(&whole[..bytes]).is_err(), "{bytes}"));
        let mut far = whole.clone();
        far[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(check(&far).is_err());
        let mut relocatable = whole;
        relocatable[16] = 3;
        assert!(check(&relocatable).is_err());
    }
}
