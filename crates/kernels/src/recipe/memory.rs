//! The memory of recipes, which is prepared once and kept from run to run.

use std::collections::BTreeMap;

use super::geometry::Geometry;
use super::instruction::InstructionSet;
use super::ring;
use super::setting::RecipeSetting;
use crate::counts::{FIRST, INCREMENT};
use crate::loops::LoopArguments;
use crate::memory::{ChainLayout, PointerChain};
use crate::pages::{ExecutablePages, without_huge_pages};

/// Memory for all recipes: chains, bytes that are written, generated code. None of it is shared.
///
/// Each is made when a recipe needs it for the first time. A later run goes on where the last one ended, so
/// that a footprint is visited wholly however short the runs are.
#[derive(Debug, Default)]
pub struct RecipeMemory {
    /// By the size of a page.
    lines: BTreeMap<usize, AlignedWords>,
    /// By the size of a page.
    dropped: BTreeMap<usize, AlignedWords>,
    chains: BTreeMap<ChainLayout, (PointerChain, usize)>,
    bytes: BTreeMap<usize, (AlignedWords, u64)>,
    rings: BTreeMap<(usize, usize), (ExecutablePages, usize)>,
    /// The state of the generator that branches depend on.
    number: Option<u64>,
}

/// Words, and room before them, so that their first one is at the begin of a page.
#[derive(Debug)]
struct AlignedWords {
    words: Box<[usize]>,
    /// The word at the begin of the first page.
    first: usize,
}

const WORD: usize = size_of::<usize>();

/// The smallest page of a supported system.
const SMALLEST_PAGE: usize = 4096;

impl AlignedWords {
    fn new(bytes: usize, page_bytes: usize) -> AlignedWords {
        let mut words = untouched((bytes + page_bytes) / WORD, page_bytes);
        // No iteration is the first to touch a page: it would fault.
        words.iter_mut().step_by(SMALLEST_PAGE / WORD).for_each(|word| *word = 1);
        let address = words.as_ptr() as usize;
        AlignedWords { first: (address.next_multiple_of(page_bytes) - address) / WORD, words }
    }

    fn address(&mut self) -> usize {
        self.words[self.first..].as_mut_ptr() as usize
    }
}

/// Zeroed words in small pages. A large allocation is fresh from the system, and no page of it was touched.
fn untouched(words: usize, page_bytes: usize) -> Box<[usize]> {
    let mut words = vec![0; words].into_boxed_slice();
    without_huge_pages(&mut words, page_bytes);
    words
}

/// Pages of lines that hit: for lines, for accesses that cross a page, and two for lines as large as pages.
const PAGES: usize = 4;

/// The most pages that are dropped at once.
const DROPPED: usize = 2;

/// The largest page of a supported system. A kernel drops whole pages, however large the geometry has them.
const LARGEST_PAGE: usize = 64 << 10;

impl RecipeMemory {
    /// New memory, with nothing in it yet.
    pub fn new() -> RecipeMemory {
        RecipeMemory::default()
    }

    /// The registers that a loop begins with.
    pub(super) fn arguments(
        &mut self,
        setting: RecipeSetting,
        set: InstructionSet,
        geometry: &Geometry,
    ) -> std::io::Result<LoopArguments> {
        let (line, page) = (geometry.line_bytes, geometry.page_bytes);
        let lines = self.lines(geometry);
        let number = *self.number.get_or_insert(FIRST);
        let plain = LoopArguments {
            read: lines,
            write: lines + line.max(256),
            number,
            increment: INCREMENT,
            ..LoopArguments::default()
        };
        Ok(match setting {
            RecipeSetting::Lines => plain,
            RecipeSetting::Chain(layout) => {
                let (_, at) = self.chain(layout, page);
                LoopArguments { read: *at, ..plain }
            }
            RecipeSetting::Bytes(bytes) => {
                let (words, offset) = self.bytes(bytes, page);
                let (write, mask) = (words.address(), bytes - 1);
                let increment = INCREMENT.wrapping_mul(line as u64);
                LoopArguments { write, mask, increment, number: *offset, ..plain }
            }
            RecipeSetting::Random { bits } => LoopArguments { mask: random_bits(bits), ..plain },
            RecipeSetting::Targets { bits } => LoopArguments { mask: ((1 << bits) - 1) << 4, ..plain },
            RecipeSetting::At(offset) => {
                LoopArguments { read: lines + offset, write: lines + offset, ..plain }
            }
            RecipeSetting::Forward(distance) => {
                LoopArguments { write: lines, read: lines + distance, ..plain }
            }
            RecipeSetting::Aliases { bits } => {
                LoopArguments { write: lines, mask: ((1 << bits) - 1) << 6, other: 1, ..plain }
            }
            RecipeSetting::WrongPath { mispredicted, bytes } => {
                let (words, _) = self.bytes(bytes, page);
                let (write, other) = (words.address(), (bytes - 1) & !(line - 1));
                LoopArguments { write, other, mask: random_bits(u32::from(mispredicted)), ..plain }
            }
            RecipeSetting::Ring { links, spacing } => {
                LoopArguments { read: self.ring(set, links, spacing)?, ..plain }
            }
            RecipeSetting::Pages { advice, pages, .. } => {
                let (write, read) = (self.dropped(page), pages * page);
                LoopArguments { write, read, mask: advice, other: page, ..plain }
            }
        })
    }

    /// Keeps where a run ended.
    pub(super) fn keep(&mut self, setting: RecipeSetting, reached: &LoopArguments) {
        match setting {
            RecipeSetting::Chain(layout) => {
                if let Some((_, at)) = self.chains.get_mut(&layout) {
                    *at = reached.read;
                }
            }
            RecipeSetting::Bytes(bytes) => {
                if let Some((_, offset)) = self.bytes.get_mut(&bytes) {
                    *offset = reached.number;
                }
            }
            _ => self.number = Some(reached.number),
        }
    }

    fn lines(&mut self, geometry: &Geometry) -> usize {
        let page = geometry.page_bytes;
        self.lines.entry(page).or_insert_with(|| AlignedWords::new(PAGES * page, page)).address()
    }

    fn dropped(&mut self, page: usize) -> usize {
        let align = page.max(LARGEST_PAGE);
        let bytes = (DROPPED * page).next_multiple_of(align);
        self.dropped.entry(page).or_insert_with(|| AlignedWords::new(bytes, align)).address()
    }

    fn chain(&mut self, layout: ChainLayout, page_bytes: usize) -> &(PointerChain, usize) {
        self.chains.entry(layout).or_insert_with(|| {
            let chain = PointerChain::in_words(untouched(layout.words(), page_bytes), layout);
            let first = chain.first() as usize;
            (chain, first)
        })
    }

    fn bytes(&mut self, bytes: usize, page_bytes: usize) -> &mut (AlignedWords, u64) {
        self.bytes.entry(bytes).or_insert_with(|| (AlignedWords::new(bytes, page_bytes), 0))
    }

    fn ring(&mut self, set: InstructionSet, links: usize, spacing: usize) -> std::io::Result<usize> {
        if let Some((pages, entry)) = self.rings.get(&(links, spacing)) {
            return Ok(pages.address(*entry));
        }
        let code = ring::code(set, links, spacing).ok_or(std::io::ErrorKind::Unsupported)?;
        let pages = ExecutablePages::new(code.bytes, &code.pieces)?;
        let address = pages.address(code.entry);
        self.rings.insert((links, spacing), (pages, code.entry));
        Ok(address)
    }
}

/// The bits of a random number that are zero in one of 2ⁿ cases. The lowest bits of the generator repeat
/// soon.
fn random_bits(bits: u32) -> usize {
    (((1u64 << bits) - 1) << 40) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_begin_at_a_page_and_have_all_their_bytes() {
        for (bytes, page) in [(8, 4096), (16384, 4096), (100_000, 16384)] {
            let mut words = AlignedWords::new(bytes, page);
            assert!(words.words.chunks(SMALLEST_PAGE / WORD).all(|page| page[0] != 0), "all were touched");
            assert!(words.address().is_multiple_of(page));
            assert!((words.words.len() - words.first) * WORD >= bytes, "{bytes}");
        }
    }

    #[test]
    fn a_chain_goes_on_where_it_ended() {
        let (mut memory, geometry) = (RecipeMemory::new(), Geometry::default());
        let setting = RecipeSetting::Chain(ChainLayout {
            links: 8,
            spacing: 64,
            order: crate::memory::ChainOrder::Random,
        });
        let set = InstructionSet::X86_64;
        let first = memory.arguments(setting, set, &geometry).unwrap();
        let reached = LoopArguments { read: first.read + 64, ..first };
        memory.keep(setting, &reached);
        assert_eq!(memory.arguments(setting, set, &geometry).unwrap().read, reached.read);
    }

    #[test]
    fn lines_and_pages_stay_within_their_memory_for_every_geometry() {
        let mut memory = RecipeMemory::new();
        for (line_bytes, page_bytes) in [(16, 1024), (64, 4096), (128, 16384), (4096, 1), (64, 1 << 20)] {
            let geometry = Geometry { line_bytes, page_bytes, ..Geometry::default() }.usable();
            let (line, page) = (geometry.line_bytes, geometry.page_bytes);
            let start = memory.lines(&geometry);
            for setting in [
                RecipeSetting::Lines,
                RecipeSetting::At(page - 4),
                RecipeSetting::Forward(2 * line),
                RecipeSetting::Aliases { bits: 2 },
            ] {
                let arguments = memory.arguments(setting, InstructionSet::X86_64, &geometry).unwrap();
                let last = arguments.read.max(arguments.write) + arguments.mask;
                assert!(last + 72 <= start + PAGES * page, "{setting:?} {geometry:?}");
            }
            let pages = RecipeSetting::Pages { advice: 4, drops: true, pages: DROPPED };
            let arguments = memory.arguments(pages, InstructionSet::X86_64, &geometry).unwrap();
            let words = &memory.dropped[&page];
            let end = words.words.as_ptr_range().end as usize;
            // A kernel with the largest pages drops so much.
            let dropped = arguments.read.next_multiple_of(LARGEST_PAGE);
            assert!(arguments.write.is_multiple_of(LARGEST_PAGE) && arguments.write + dropped <= end);
        }
    }

    #[test]
    fn random_stores_stay_within_their_bytes() {
        let (mut memory, geometry) = (RecipeMemory::new(), Geometry::default());
        let arguments =
            memory.arguments(RecipeSetting::Bytes(4096), InstructionSet::X86_64, &geometry).unwrap();
        let mut offset = arguments.number;
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..64 {
            offset = offset.wrapping_mul(crate::counts::MULTIPLIER).wrapping_add(arguments.increment);
            offset &= arguments.mask as u64;
            assert!(offset.is_multiple_of(64) && seen.insert(offset), "{offset}");
        }
        assert_eq!(seen.len(), 64, "each line once");
    }
}
