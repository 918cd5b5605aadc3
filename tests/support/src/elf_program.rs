//! Files of code with any number of functions.

/// The address of the first function.
pub const ADDRESS: u64 = 0x40_0000;
/// Bytes of each function.
pub const FUNCTION_LEN: u64 = 16;

/// Sizes of the parts of an ELF file for 64 bits.
const HEADER: u64 = 64;
const SEGMENT: u64 = 56;
const SYMBOL: u64 = 24;

/// An executable file for Linux on x86-64, which starts at its first function.
pub struct ElfProgram {
    /// The file.
    pub bytes: Vec<u8>,
    /// The offset of the code of the first function.
    pub code_at: u64,
    /// The offset of the symbol of the first function.
    pub first_symbol_at: u64,
}

impl ElfProgram {
    /// A file with so many functions, one after the other, and their names. `code` is that of the first
    /// functions, each of [`FUNCTION_LEN`] bytes; the others have zeros.
    ///
    /// # Source
    ///
    /// System V gABI, chapters "Object Files" and "Program Loading".
    pub fn new(functions: u64, name: impl Fn(u64) -> String, code: &[u8]) -> ElfProgram {
        let (mut symbols, mut names) = (vec![0; SYMBOL as usize], vec![0]);
        for index in 0..functions {
            // A global function of the first section.
            symbols.extend((names.len() as u32).to_le_bytes());
            symbols.extend([0x12, 0, 1, 0]);
            symbols.extend([ADDRESS + index * FUNCTION_LEN, FUNCTION_LEN].map(u64::to_le_bytes).concat());
            names.extend(name(index).into_bytes());
            names.push(0);
        }
        let symbols_at = HEADER + SEGMENT;
        let names_at = symbols_at + symbols.len() as u64;
        // A segment and its bytes begin at the same place of a page.
        let code_at = (names_at + names.len() as u64).next_multiple_of(0x1000);
        let code_len = functions * FUNCTION_LEN;
        let sections_at = code_at + code_len;
        let words = |words: &[u64]| words.iter().copied().flat_map(u64::to_le_bytes).collect::<Vec<u8>>();
        let halves = |halves: &[u32]| halves.iter().copied().flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
        // Magic number; an executable of x86-64 with one segment and four sections, whose names are unknown.
        let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        bytes.extend(halves(&[0x003e_0002, 1]));
        bytes.extend(words(&[ADDRESS, HEADER, sections_at]));
        bytes.extend(halves(&[0, 0x0038_0040, 0x0040_0001, 0x0003_0004]));
        bytes.extend(halves(&[1, 5]));
        bytes.extend(words(&[code_at, ADDRESS, ADDRESS, code_len, code_len, 0x1000]));
        let (symbols_len, names_len) = (symbols.len() as u64, names.len() as u64);
        bytes.extend(symbols);
        bytes.extend(names);
        bytes.resize(code_at as usize, 0);
        bytes.extend(code);
        bytes.resize(sections_at as usize, 0);
        let section = |kind: u32, flags: u64, place: [u64; 3], link: [u32; 2], entry: u64| {
            let [address, at, len] = place;
            let ends = [halves(&link), words(&[1, entry])].concat();
            [halves(&[0, kind]), words(&[flags, address, at, len]), ends].concat()
        };
        bytes.extend(section(0, 0, [0; 3], [0; 2], 0));
        bytes.extend(section(1, 6, [ADDRESS, code_at, code_len], [0; 2], 0));
        bytes.extend(section(2, 0, [0, symbols_at, symbols_len], [3, 1], SYMBOL));
        bytes.extend(section(3, 0, [0, names_at, names_len], [0; 2], 0));
        ElfProgram { bytes, code_at, first_symbol_at: symbols_at + SYMBOL }
    }
}
