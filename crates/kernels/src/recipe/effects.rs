//! The expected work of a core: misses, mispredictions, forwards.

use cyclometer_core::concept::{Concept, Nature};

use super::geometry::{Geometry, missing_at_random, missing_in_turn};
use super::rows::RecipeRow;
use super::setting::RecipeSetting;
use super::{InstructionSet, KernelFamily};
use crate::loops::RecipeLoop as Of;
use crate::memory::ChainLayout;

/// Concepts per round, and those of them that are estimates.
#[derive(Default)]
pub(crate) struct Effects {
    pub(crate) expected: Vec<(Concept, f64)>,
    pub(crate) estimates: Vec<Concept>,
}

/// Micro-operations that a core issues before it finds out about a misprediction: an estimate.
const WRONG_PATH_UOPS: f64 = 16.0;

impl Effects {
    pub(crate) fn of(row: &RecipeRow, set: InstructionSet, geometry: &Geometry) -> Effects {
        let mut effects = Effects::default();
        effects.of_setting(row, geometry);
        effects.of_loop(row.runs, set, geometry);
        if row.family == KernelFamily::System {
            // The kernel executes and evicts what it needs.
            let disturbed = |concept: &Concept| concept.nature() == Nature::MicroArchitectural;
            effects.estimates.extend(Concept::ALL.iter().copied().filter(disturbed));
        }
        effects
    }

    fn add(&mut self, concept: Concept, number: f64) {
        self.expected.push((concept, number));
    }

    /// A share of accesses; where it is not foretold, an estimate of a half.
    fn share(&mut self, concept: Concept, accesses: f64, share: Option<f64>) {
        self.add(concept, accesses * share.unwrap_or(0.5));
        if share.is_none() {
            self.estimates.push(concept);
        }
    }

    fn mispredicts(&mut self, concept: Concept, number: f64) {
        use Concept::{Mispredicts, PipelineFlushes, UopsIssued};
        if number > 0.0 {
            [concept, Mispredicts, PipelineFlushes].into_iter().for_each(|one| self.add(one, number));
            self.add(UopsIssued, WRONG_PATH_UOPS * number);
            self.estimates.push(UopsIssued);
        }
    }

    fn of_setting(&mut self, row: &RecipeRow, geometry: &Geometry) {
        use Concept::*;
        let accesses = f64::from(accesses(row.runs));
        match row.setting {
            RecipeSetting::Lines => {}
            RecipeSetting::Chain(_) if row.setting.invites_prefetchers() => {
                self.add(Prefetches, accesses);
                self.estimates.extend([Prefetches, L1dLoadMisses, L1dLoadMissesSpeculative, L2Misses]);
                self.estimates.extend([LlcReferences, LlcMisses, L1dTlbMisses]);
            }
            RecipeSetting::Chain(layout) => self.chain(layout, accesses, geometry),
            RecipeSetting::Bytes(bytes) => self.written(row.runs, bytes, accesses, geometry),
            RecipeSetting::Random { bits } => {
                self.mispredicts(ConditionalMispredicts, mispredicted_share(bits));
            }
            RecipeSetting::Targets { bits } => {
                let wrong = 1.0 - 0.5f64.powi(bits as i32);
                self.mispredicts(IndirectMispredicts, wrong);
                if row.runs == Of::IndirectCall {
                    self.add(IndirectCallMispredicts, wrong);
                }
            }
            RecipeSetting::At(offset) => {
                let crosses = |size: usize| offset % size + 8 > size;
                if crosses(geometry.line_bytes) {
                    self.add(LineCrossings, accesses);
                }
                if crosses(geometry.page_bytes) {
                    self.add(PageCrossings, accesses);
                }
            }
            RecipeSetting::Forward(0) => self.add(StoreForwards, accesses),
            RecipeSetting::Forward(1..8) => {
                self.add(ForwardBlocks, accesses);
                self.estimates.push(StoreForwards);
            }
            RecipeSetting::Forward(_) => {}
            RecipeSetting::WrongPath { mispredicted, .. } => {
                if mispredicted {
                    self.mispredicts(ConditionalMispredicts, 0.5);
                    self.add(L1dLoadMissesSpeculative, 0.5);
                    self.estimates.push(L1dLoadMissesSpeculative);
                }
            }
            RecipeSetting::Aliases { bits } => self.late_store(bits),
            RecipeSetting::Ring { links, spacing } => self.ring(links, spacing, geometry),
            RecipeSetting::Pages { drops, pages, .. } => {
                if drops {
                    self.add(Faults, pages as f64);
                }
            }
        }
    }

    /// A load that depends on a store in one of so many cases. Cores learn to wait where it always does.
    fn late_store(&mut self, bits: u32) {
        use Concept::*;
        let depending = 0.5f64.powi(bits as i32);
        self.add(StoreForwards, depending);
        if bits > 0 {
            self.add(OrderViolations, depending / 2.0);
            self.add(PipelineFlushes, depending / 2.0);
            self.estimates.extend([OrderViolations, PipelineFlushes, StoreForwards, UopsIssued]);
        }
    }

    fn chain(&mut self, layout: ChainLayout, accesses: f64, geometry: &Geometry) {
        use Concept::*;
        let bytes = layout.links * geometry.line_bytes;
        let missing = missing_in_turn(bytes, geometry.l1d_bytes);
        self.share(L1dLoadMisses, accesses, missing);
        self.share(L1dLoadMissesSpeculative, accesses, missing);
        self.beyond_l1d(bytes, accesses, geometry);
        self.data_tlb(layout, accesses, geometry);
    }

    fn beyond_l1d(&mut self, bytes: usize, accesses: f64, geometry: &Geometry) {
        use Concept::*;
        let missing_l2 = missing_in_turn(bytes, geometry.l2_bytes);
        self.share(L2Misses, accesses, missing_l2);
        self.share(LlcReferences, accesses, missing_l2);
        self.share(LlcMisses, accesses, missing_in_turn(bytes, geometry.llc_bytes));
        if bytes > geometry.l1d_bytes / 2 {
            // Some prefetchers ask for the other line of a pair.
            self.estimates.push(Prefetches);
        }
    }

    fn data_tlb(&mut self, layout: ChainLayout, accesses: f64, geometry: &Geometry) {
        use Concept::*;
        let in_turn = layout.spacing >= geometry.page_bytes;
        let pages = match in_turn {
            true => layout.links,
            false => (layout.links * layout.spacing).div_ceil(geometry.page_bytes),
        };
        let missing = if in_turn { missing_in_turn } else { missing_at_random };
        self.share(L1dTlbMisses, accesses, missing(pages, geometry.dtlb_entries));
        let missing_l2 = missing(pages, geometry.l2_tlb_entries);
        self.share(L2TlbMisses, accesses, missing_l2);
        self.share(DataPageWalks, accesses, missing_l2);
    }

    fn written(&mut self, runs: Of, bytes: usize, accesses: f64, geometry: &Geometry) {
        use Concept::*;
        let missing = missing_in_turn(bytes, geometry.l1d_bytes);
        let (miss, speculative) = match runs {
            // The load has brought the line.
            Of::RandomUpdates => (L1dLoadMisses, L1dLoadMissesSpeculative),
            _ => (L1dStoreMisses, L1dStoreMissesSpeculative),
        };
        [miss, speculative, L1dWritebacks].into_iter().for_each(|one| self.share(one, accesses, missing));
        self.beyond_l1d(bytes, accesses, geometry);
        if missing_in_turn(bytes, geometry.l2_bytes) != Some(0.0) {
            // Lines that the second level evicts are written back.
            self.add(LlcReferences, accesses);
            self.estimates.push(LlcReferences);
        }
        let (links, spacing) = (bytes / geometry.line_bytes, geometry.line_bytes);
        let layout = ChainLayout { links, spacing, order: crate::memory::ChainOrder::Random };
        self.data_tlb(layout, accesses, geometry);
    }

    fn ring(&mut self, links: usize, spacing: usize, geometry: &Geometry) {
        use Concept::*;
        let jumps = links as f64;
        let lines = links * spacing.min(geometry.line_bytes) / geometry.line_bytes;
        let missing = missing_in_turn(lines * geometry.line_bytes, geometry.l1i_bytes);
        if spacing >= geometry.line_bytes {
            self.share(L1iMisses, jumps, missing);
        }
        let in_turn = spacing >= geometry.page_bytes;
        let pages = if in_turn { links } else { (links * spacing).div_ceil(geometry.page_bytes) };
        let missing = if in_turn { missing_in_turn } else { missing_at_random };
        self.share(ItlbMisses, jumps, missing(pages, geometry.itlb_entries));
        self.share(InstructionPageWalks, jumps, missing(pages, geometry.l2_tlb_entries));
        // More jumps than a core keeps targets of: some cores count what decoding corrects.
        self.estimates.extend([Mispredicts, PipelineFlushes, UopsIssued, Prefetches, L2Misses]);
        self.estimates.extend([LlcReferences, L2TlbMisses]);
    }

    fn of_loop(&mut self, runs: Of, set: InstructionSet, geometry: &Geometry) {
        use Concept::*;
        match runs {
            Of::Updates => self.add(StoreForwards, 4.0),
            Of::ReturnsElsewhere => self.mispredicts(ReturnMispredicts, 1.0),
            Of::ThriceElsewhere => self.mispredicts(ReturnMispredicts, 3.0),
            Of::ReturnsAlone => {
                // Some cores predict a return by its address where no call has led to it.
                self.mispredicts(ReturnMispredicts, 1.0);
                self.estimates.extend([ReturnMispredicts, Mispredicts, PipelineFlushes]);
            }
            Of::Recursion => {
                let beyond = 64usize.saturating_sub(geometry.return_stack_entries);
                self.mispredicts(ReturnMispredicts, beyond as f64);
                // All return to one place, so that a forgotten address may be guessed.
                self.estimates.extend([ReturnMispredicts, Mispredicts, PipelineFlushes]);
                if set != InstructionSet::X86_64 {
                    self.add(StoreForwards, 64.0);
                    self.estimates.push(StoreForwards);
                }
            }
            Of::InstructionBarriers => self.estimates.push(PipelineFlushes),
            _ => {}
        }
    }
}

/// Branches of [`Of::RandomBranch`] that are predicted wrongly in each round: the first one in each rarer
/// case. The second does the opposite of the first, which predictors see.
fn mispredicted_share(bits: u32) -> f64 {
    match bits {
        0 => 0.0,
        bits => 0.5f64.powi(bits as i32),
    }
}

/// The accesses of a round that a setting decides about.
fn accesses(runs: Of) -> u32 {
    match runs {
        Of::Chase | Of::StoresAt | Of::Forwards => 4,
        Of::LoadsAt => 8,
        Of::MixChase | Of::RandomStores => 2,
        Of::FewLinks | Of::RandomUpdates | Of::FewForwards => 1,
        Of::StoreBurst => 16,
        _ => 0,
    }
}
