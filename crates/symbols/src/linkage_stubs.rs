//! The stubs of the procedure linkage table, by which a file calls functions of others. No symbol names them.

use std::collections::HashMap;
use std::ops::Range;

use object::{Architecture, Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationTarget};

/// The least distance of two stubs, and the greatest length of one, in bytes.
const STEP: usize = 8;
const LONGEST: u64 = 16;

/// Instructions that a stub may begin with: `endbr64`, and the prefix `bnd` of its jump.
const BEFORE: [&[u8]; 4] = [&[], &[0xf3, 0x0f, 0x1e, 0xfa], &[0xf2], &[0xf3, 0x0f, 0x1e, 0xfa, 0xf2]];

/// `jmp [rip + disp32]`, without the displacement.
const JUMP: [u8; 2] = [0xff, 0x25];

/// A stub.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LinkageStub<'a> {
    /// The symbol of the function that it jumps to.
    pub(crate) symbol: &'a [u8],
    /// Its addresses.
    pub(crate) addresses: Range<u64>,
}

/// The stubs of a file for x86-64.
///
/// # Source
///
/// System V ABI for x86-64, "Procedure Linkage Table".
pub(crate) fn linkage_stubs<'a>(file: &object::File<'a>) -> Vec<LinkageStub<'a>> {
    let targets = if file.architecture() == Architecture::X86_64 { targets(file) } else { HashMap::new() };
    if targets.is_empty() {
        return Vec::new();
    }
    let is_table =
        |section: &object::Section<'_, '_>| section.name().is_ok_and(|name| name.starts_with(".plt"));
    let stubs = |section: object::Section<'_, '_>| {
        let data = section.data().unwrap_or_default();
        in_table(section.address(), data, |cell| targets.get(&cell).copied())
    };
    file.sections().filter(is_table).flat_map(stubs).collect()
}

/// The stubs of a table at an address; `target` gives the symbol of the function whose address is in a
/// cell.
fn in_table<'a>(address: u64, data: &[u8], target: impl Fn(u64) -> Option<&'a [u8]>) -> Vec<LinkageStub<'a>> {
    let end = address.saturating_add(data.len() as u64);
    let mut stubs: Vec<LinkageStub<'_>> = Vec::new();
    for at in (0..data.len()).step_by(STEP) {
        let start = address.saturating_add(at as u64);
        let Some(symbol) = cell(start, &data[at..]).and_then(&target) else { continue };
        if let Some(before) = stubs.last_mut() {
            before.addresses.end = before.addresses.end.min(start);
        }
        stubs.push(LinkageStub { symbol, addresses: start..start.saturating_add(LONGEST).min(end) });
    }
    stubs
}

/// The address of the cell that a stub jumps through.
fn cell(start: u64, code: &[u8]) -> Option<u64> {
    let (before, rest) = BEFORE.iter().find_map(|before| {
        let rest = code.strip_prefix(*before)?.strip_prefix(&JUMP)?;
        Some((before.len(), rest))
    })?;
    let distance = i32::from_le_bytes(*rest.first_chunk()?);
    let next = start.wrapping_add((before + JUMP.len() + size_of::<i32>()) as u64);
    Some(next.wrapping_add_signed(distance.into()))
}

/// The symbols of functions of other files, by the address of the cell that the loader writes their address
/// to.
fn targets<'a>(file: &object::File<'a>) -> HashMap<u64, &'a [u8]> {
    let (Some(symbols), Some(relocations)) = (file.dynamic_symbol_table(), file.dynamic_relocations()) else {
        return HashMap::new();
    };
    let target = |(cell, relocation): (u64, object::Relocation)| {
        let RelocationTarget::Symbol(index) = relocation.target() else { return None };
        let symbol = symbols.symbol_by_index(index).ok()?;
        Some((cell, symbol.name_bytes().ok().filter(|name| !name.is_empty())?))
    };
    relocations.filter_map(target).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(data: &[u8]) -> Vec<(u64, u64, &str)> {
        let target = |cell| match cell {
            0x3000 => Some(&b"f"[..]),
            0x3008 => Some(&b"g"[..]),
            _ => None,
        };
        let stubs = in_table(0x1000, data, target).into_iter();
        let text = |symbol| std::str::from_utf8(symbol).unwrap();
        stubs.map(|stub| (stub.addresses.start, stub.addresses.end, text(stub.symbol))).collect()
    }

    /// A stub at an offset that jumps through a cell, filled up with `nop`.
    fn stub(at: i32, cell: i32, before: &[u8], len: usize) -> Vec<u8> {
        let mut code = before.to_vec();
        code.extend(JUMP);
        code.extend((cell - (0x1000 + at + code.len() as i32 + 4)).to_le_bytes());
        code.resize(len, 0x90);
        code
    }

    #[test]
    fn a_stub_has_the_name_of_the_function_that_it_jumps_to() {
        let endbr = [0xf3, 0x0f, 0x1e, 0xfa];
        let expected = |ends: [u64; 2], second| vec![(0x1000, ends[0], "f"), (second, ends[1], "g")];
        let long = [stub(0, 0x3000, &endbr, 16), stub(16, 0x3008, &endbr, 16)].concat();
        assert_eq!(found(&long), expected([0x1010, 0x1020], 0x1010));
        let short = [stub(0, 0x3000, &[], 8), stub(8, 0x3008, &[], 8)].concat();
        assert_eq!(found(&short), expected([0x1008, 0x1010], 0x1008));
    }

    #[test]
    fn other_code_is_no_stub() {
        assert_eq!(found(&[]), []);
        assert_eq!(found(&[0xff, 0x25, 0, 0]), [], "the displacement is cut off");
        assert_eq!(found(&stub(0, 0x4000, &[], 16)), [], "no function is known there");
        assert_eq!(found(&[0x90; 64]), []);
    }
}
