//! The memory of some shape and the masks of random numbers that a recipe gives to its loop.

use std::fmt;

use crate::memory::{ChainLayout, ChainOrder};

/// The memory and numbers of a recipe. Every loop also has a few lines that hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecipeSetting {
    /// Lines that hit, and nothing else.
    Lines,
    /// Links that lead to each other.
    Chain(ChainLayout),
    /// Bytes that are written in no order; a power of two.
    Bytes(usize),
    /// A branch that is taken where so many random bits are zero.
    Random { bits: u32 },
    /// 2 to the power of `bits` targets of an indirect jump.
    Targets { bits: u32 },
    /// An access so many bytes behind the begin of a page.
    At(usize),
    /// A load so many bytes behind a store.
    Forward(usize),
    /// 2 to the power of `bits` lines that a store chooses from at random. The load is from the first.
    Aliases { bits: u32 },
    /// Bytes that are read on wrong paths only; a power of two.
    WrongPath { mispredicted: bool, bytes: usize },
    /// A ring of jumps in generated code.
    Ring { links: usize, spacing: usize },
    /// Pages that are given to `madvise(2)`.
    Pages { advice: usize, drops: bool, pages: usize },
}

/// The number that tells a recipe from others with the same instructions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Knob {
    /// There is none.
    Fixed,
    /// Bytes that are visited again and again, each line once.
    Footprint {
        /// Lines that are visited.
        lines: usize,
        /// Bytes from one to the next in memory.
        spacing_bytes: usize,
    },
    /// A branch is taken with probability 1 / 2ⁿ, at random.
    TakenBits(u32),
    /// Targets at random.
    Targets(u32),
    /// Bytes behind the begin of a page or line.
    Offset(usize),
    /// Bytes from the begin of a store to that of the load.
    Distance(usize),
    /// Lines that a store chooses from at random.
    Aliases(u32),
    /// Pages that are dropped.
    DroppedPages(usize),
}

impl RecipeSetting {
    pub(crate) fn knob(self, line_bytes: usize) -> Knob {
        let lines_of =
            |bytes: usize| Knob::Footprint { lines: bytes / line_bytes, spacing_bytes: line_bytes };
        match self {
            RecipeSetting::Lines => Knob::Fixed,
            RecipeSetting::Chain(ChainLayout { links, spacing, .. })
            | RecipeSetting::Ring { links, spacing } => {
                Knob::Footprint { lines: links, spacing_bytes: spacing }
            }
            RecipeSetting::Bytes(bytes) => lines_of(bytes),
            RecipeSetting::Random { bits } => Knob::TakenBits(bits),
            RecipeSetting::Targets { bits } => Knob::Targets(1 << bits),
            RecipeSetting::Aliases { bits } => Knob::Aliases(1 << bits),
            RecipeSetting::At(offset) => Knob::Offset(offset),
            RecipeSetting::Forward(distance) => Knob::Distance(distance),
            RecipeSetting::WrongPath { mispredicted, .. } => Knob::TakenBits(u32::from(mispredicted)),
            RecipeSetting::Pages { drops, pages, .. } => Knob::DroppedPages(if drops { pages } else { 0 }),
        }
    }

    /// The most bytes of memory that it needs.
    pub(crate) fn bytes(self) -> usize {
        match self {
            RecipeSetting::Chain(ChainLayout { links, spacing, .. })
            | RecipeSetting::Ring { links, spacing } => links.saturating_mul(spacing),
            RecipeSetting::Bytes(bytes) | RecipeSetting::WrongPath { bytes, .. } => bytes,
            _ => 0,
        }
    }

    /// Whether an access is at an address that is no multiple of its size.
    pub(crate) fn is_misaligned(self) -> bool {
        matches!(self, RecipeSetting::At(offset) | RecipeSetting::Forward(offset) if !offset.is_multiple_of(8))
    }

    pub(crate) fn invites_prefetchers(self) -> bool {
        matches!(self, RecipeSetting::Chain(ChainLayout { order: ChainOrder::Ascending, .. }))
    }
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Knob::Fixed => f.write_str("-"),
            Knob::Footprint { lines, spacing_bytes } => write!(f, "{lines} × {spacing_bytes} B"),
            Knob::TakenBits(0) => f.write_str("always the same way"),
            Knob::TakenBits(bits) => write!(f, "p = 1/{}", 1u32 << bits),
            Knob::Targets(1) => f.write_str("1 target"),
            Knob::Targets(targets) => write!(f, "{targets} targets"),
            Knob::Aliases(1) => f.write_str("1 line"),
            Knob::Aliases(lines) => write!(f, "{lines} lines"),
            Knob::Offset(bytes) => write!(f, "at {bytes} B"),
            Knob::Distance(bytes) => write!(f, "{bytes} B apart"),
            Knob::DroppedPages(pages) => write!(f, "{pages} dropped"),
        }
    }
}
