//! A translation as bytes, to be used in a later run: everything but its code.
//!
//! It is loaded at the same addresses, for a program whose code is the same. Two things are left out: exit
//! stubs that are linked, because no task is at one; and the exit stubs that wait for a block, because they
//! are linked when the program reaches them.

use std::num::NonZeroU32;
use std::rc::Rc;

use super::pages::{CodePages, StoredPages};
use super::pending_links::PendingLinks;
use super::region::CodeRegion;
use super::{
    BlockEnd, BlockExit, CpuQuery, ExitStub, PAGE, TranslatedBlock, Translation, TranslationSettings, batch,
    emit,
};
use crate::block::DetachReason;
use crate::chunks::ChunkedVec;
use crate::flow::{ArcId, BlockId, FlowGraph};
use crate::hash::AddressMap;
use crate::pack::{ChunkReader, ChunkWriter, MOST_AT_ONCE};

const ENDS: [BlockEnd; 5] =
    [BlockEnd::Next, BlockEnd::Conditional, BlockEnd::Branch, BlockEnd::Return, BlockEnd::Other];

const EXITS: [BlockExit; 2] = [BlockExit::Next, BlockExit::Taken];

const QUESTIONS: [CpuQuery; 2] = [CpuQuery::Features, CpuQuery::ExtendedState];

impl Translation {
    /// The pages that it was made of, in the order of their numbers.
    pub(crate) fn fresh_pages(&self) -> impl Iterator<Item = &[u8; PAGE as usize]> {
        self.pages.fresh_pages()
    }

    /// The PC maps of its code, one after the other.
    pub(crate) fn all_pc_maps(&self) -> impl Iterator<Item = &[u8]> {
        self.regions.iter().flat_map(CodeRegion::all_pc_maps)
    }

    /// Writes the rest of it. No write to the program's memory may be pending.
    pub(crate) fn pack(&self, to: &mut ChunkWriter<'_>) {
        to.u64(self.table);
        to.u64(self.lookup_missed);
        to.u64(self.return_missed);
        to.u32(self.unit_counters);
        self.flow.pack(to);
        to.count(self.blocks.len());
        self.blocks.iter().for_each(|translated| translated.pack(to));
        self.pages.pack(to);
        to.count(self.straddling.len());
        for (block, bytes) in &self.straddling {
            to.u32(*block);
            to.counted(bytes);
        }
        to.count(self.regions.len());
        self.regions.iter().fold(0, |begin, region| region.pack(begin, to));
        let live =
            || self.exit_stubs.iter().filter(|(_, exit_stub)| !matches!(exit_stub, ExitStub::Linked(_)));
        to.count(live().count());
        for (stop, exit_stub) in live() {
            to.u64(*stop);
            exit_stub.pack(to);
        }
        to.count(self.lookup_targets.len());
        self.lookup_targets.iter().for_each(|stub| to.u64(*stub));
        to.count(self.indirect_entries.len());
        for (address, hit) in &self.indirect_entries {
            to.u64(*address);
            to.u64(*hit);
        }
        to.count(self.table_heads.len());
        for (entry, head) in &self.table_heads {
            to.u32(*entry);
            to.u64(*head);
        }
    }

    /// Reads a translation. `stored_pages` has the pages that it was made from. `files` maps the file numbers
    /// of the time when it was written to those of now.
    pub(crate) fn unpack(
        from: &mut ChunkReader<'_>,
        settings: TranslationSettings,
        stored_pages: Rc<dyn StoredPages>,
        files: &AddressMap<u32, u32>,
    ) -> Option<Translation> {
        let (table, lookup_missed, return_missed, unit_counters) =
            (from.u64()?, from.u64()?, from.u64()?, from.u32()?);
        let flow = FlowGraph::unpack(from, settings.redundancy)?;
        let mut blocks = ChunkedVec::new();
        for number in 0..from.count()? {
            blocks.push(TranslatedBlock::unpack(from, BlockId(number as u32))?);
        }
        let address =
            |block: u32| blocks.get(block as usize).map(|translated: &TranslatedBlock| translated.address);
        let pages = CodePages::unpack(from, stored_pages.clone(), files, &address)?;
        let straddling = map(from, |from| Some((from.u32()?, from.counted()?.into())))?;
        let regions = from.list(|from| CodeRegion::unpack(from, &*stored_pages))?;
        let exit_stubs = map(from, |from| Some((from.u64()?, ExitStub::unpack(from)?)))?;
        let lookup_targets = from.list(ChunkReader::u64)?;
        let indirect_entries = map(from, |from| Some((from.u64()?, from.u64()?)))?;
        let table_heads = map(from, |from| Some((from.u32()?, from.u64()?)))?;
        Some(Translation {
            table,
            table_heads,
            pages,
            regions,
            blocks,
            straddling,
            flow,
            stop_at_cpu_queries: settings.stop_at_cpu_queries,
            budget: settings.budget,
            logs_calls: settings.logs_calls,
            logs_accesses: settings.logs_accesses,
            rcx_test: settings.rcx_test.unwrap_or_default(),
            access_plans: AddressMap::default(),
            budget_loops: Vec::new(),
            counted: settings.counted,
            exit_stubs,
            waiting: PendingLinks::default(),
            stored_pages: Some(stored_pages),
            lookup_targets,
            indirect_entries,
            versions: super::CodeVersions::default(),
            lookup_missed,
            return_missed,
            unit_counters,
            writes: Vec::new(),
            scratch: batch::BatchScratch::default(),
            buffers: emit::EmitterBuffers::default(),
        })
    }

    /// Whether no arc is undecided, no write is pending, and no code changes.
    pub(crate) fn is_settled(&self) -> bool {
        self.writes.is_empty() && self.flow.is_closed() && self.versions.is_empty()
    }

    /// The address of the lookup table.
    pub(crate) fn table(&self) -> u64 {
        self.table
    }

    /// Every entry of the table that leads somewhere, and where.
    pub(crate) fn table_entries(&self) -> impl Iterator<Item = (u32, u64)> {
        self.table_heads.iter().map(|(entry, head)| (*entry, *head))
    }

    /// The address and the used bytes of each region.
    pub(crate) fn used_regions(&self) -> impl Iterator<Item = (u64, u32)> {
        self.regions.iter().map(|region| (region.base(), region.used()))
    }

    /// The number of its blocks that were in the profile before they were translated.
    pub(crate) fn profiled(&self) -> usize {
        self.pages.profiled()
    }

    /// Whether the block at an address was.
    pub(crate) fn is_profiled(&self, address: u64) -> bool {
        self.pages.was_executed(address)
    }

    /// The numbers of the files that its pages are from, ascending.
    pub(crate) fn files(&self) -> Vec<u32> {
        let mut files: Vec<u32> = self.pages_of_files().map(|(origin, _)| origin.file).collect();
        files.sort_unstable();
        files.dedup();
        files
    }
}

fn map<K: Eq + std::hash::Hash, V>(
    from: &mut ChunkReader<'_>,
    mut one: impl FnMut(&mut ChunkReader<'_>) -> Option<(K, V)>,
) -> Option<AddressMap<K, V>> {
    let count = from.count()?;
    let mut map = AddressMap::with_capacity_and_hasher(count.min(MOST_AT_ONCE), Default::default());
    for _ in 0..count {
        let (key, value) = one(from)?;
        map.insert(key, value);
    }
    Some(map)
}

impl TranslatedBlock {
    fn pack(&self, to: &mut ChunkWriter<'_>) {
        to.u64(self.address);
        to.u64(self.body);
        to.u16(self.len);
        to.u16(self.instructions);
        to.u8(self.live_in);
        to.u8(self.end as u8);
        to.u32(self.distance);
        self.edges.into_iter().chain([self.from_outside]).for_each(|arc| ArcId::pack(arc, to));
        to.u32(self.units.map_or(0, NonZeroU32::get));
    }

    /// Blocks of the program are those of the graph.
    fn unpack(from: &mut ChunkReader<'_>, block: BlockId) -> Option<TranslatedBlock> {
        Some(TranslatedBlock {
            address: from.u64()?,
            body: from.u64()?,
            len: from.u16()?,
            is_version: false,
            instructions: from.u16()?,
            live_in: from.u8()?,
            end: one_of(&ENDS, from)?,
            distance: from.u32()?,
            block,
            edges: [ArcId::unpack(from)?, ArcId::unpack(from)?],
            from_outside: ArcId::unpack(from)?,
            units: NonZeroU32::new(from.u32()?),
        })
    }
}

impl ExitStub {
    fn pack(&self, to: &mut ChunkWriter<'_>) {
        match self {
            ExitStub::DirectLink { from, exit, target, jump } => {
                to.u8(0);
                to.u32(*from);
                to.u8(*exit as u8);
                to.u64(*target);
                to.u64(*jump);
            }
            ExitStub::ReturnSite { stub, target, jump } => {
                to.u8(1);
                to.u32(*stub);
                to.u64(*target);
                to.u64(*jump);
            }
            // Neither is stored.
            ExitStub::Linked(_) | ExitStub::Versions(_) => to.u8(2),
            ExitStub::IndirectBranch => to.u8(3),
            ExitStub::SystemCall => to.u8(4),
            ExitStub::CpuQuery(question) => {
                to.u8(5);
                to.u8(*question as u8);
            }
            ExitStub::Detach(reason) => {
                to.u8(6);
                to.u8(*reason as u8);
            }
            ExitStub::Breakpoint => to.u8(7),
            ExitStub::Budget => to.u8(8),
            ExitStub::CallLog => to.u8(10),
            ExitStub::FarTransfer => to.u8(11),
        }
    }

    fn unpack(from: &mut ChunkReader<'_>) -> Option<ExitStub> {
        Some(match from.u8()? {
            0 => ExitStub::DirectLink {
                from: from.u32()?,
                exit: one_of(&EXITS, from)?,
                target: from.u64()?,
                jump: from.u64()?,
            },
            1 => ExitStub::ReturnSite { stub: from.u32()?, target: from.u64()?, jump: from.u64()? },
            3 => ExitStub::IndirectBranch,
            4 => ExitStub::SystemCall,
            5 => ExitStub::CpuQuery(one_of(&QUESTIONS, from)?),
            6 => ExitStub::Detach(one_of(&DetachReason::ALL, from)?),
            7 => ExitStub::Breakpoint,
            8 => ExitStub::Budget,
            10 => ExitStub::CallLog,
            11 => ExitStub::FarTransfer,
            _ => return None,
        })
    }
}

/// The value with the next number.
fn one_of<T: Copy>(all: &[T], from: &mut ChunkReader<'_>) -> Option<T> {
    all.get(usize::from(from.u8()?)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_has_the_number_of_its_position() {
        let numbers = |words: &mut dyn Iterator<Item = u8>| words.collect::<Vec<_>>();
        assert_eq!(numbers(&mut ENDS.iter().map(|end| *end as u8)), [0, 1, 2, 3, 4]);
        assert_eq!(numbers(&mut EXITS.iter().map(|exit| *exit as u8)), [0, 1]);
        assert_eq!(numbers(&mut QUESTIONS.iter().map(|question| *question as u8)), [0, 1]);
        let leaves = numbers(&mut DetachReason::ALL.iter().map(|reason| *reason as u8));
        assert_eq!(leaves, (0..DetachReason::ALL.len() as u8).collect::<Vec<_>>());
    }
}
