//! A graph as numbers in a file.

use std::num::NonZeroU32;

use super::redundancy::{self, Redundancy};
use super::sets::DisjointSets;
use super::{ArcId, CounterRole, EpochArcs, FlowArc, FlowCounter, FlowGraph};
use crate::chunks::ChunkedVec;
use crate::pack::{ChunkReader, ChunkWriter};

impl ArcId {
    /// An arc that there may be.
    pub(crate) fn pack(arc: Option<ArcId>, to: &mut ChunkWriter<'_>) {
        to.u32(arc.map_or(0, |arc| arc.0.get()));
    }

    pub(crate) fn unpack(from: &mut ChunkReader<'_>) -> Option<Option<ArcId>> {
        Some(NonZeroU32::new(from.u32()?).map(ArcId))
    }
}

impl CounterRole {
    fn unpack(from: &mut ChunkReader<'_>) -> Option<CounterRole> {
        [CounterRole::Needed, CounterRole::Redundant, CounterRole::Observed]
            .into_iter()
            .nth(from.u8()?.into())
    }
}

impl FlowGraph {
    /// Writes a graph of which every arc is decided.
    pub(crate) fn pack(&self, to: &mut ChunkWriter<'_>) {
        to.count(self.arcs.len());
        for arc in self.arcs.iter() {
            [arc.from, arc.to, arc.counter].into_iter().for_each(|number| to.u32(number));
        }
        to.count(self.blocks.len());
        self.blocks.iter().for_each(|arc| ArcId::pack(Some(*arc), to));
        to.count(self.counters.len());
        for counter in &self.counters {
            ArcId::pack(Some(counter.arc), to);
            to.u8(counter.role as u8);
        }
        to.count(self.forest.len());
        self.forest.as_numbers().iter().for_each(|above| to.u32(above.cast_unsigned()));
        to.count(self.unchecked);
    }

    /// Reads a graph; `redundancy` applies to later epochs.
    pub(crate) fn unpack(from: &mut ChunkReader<'_>, redundancy: Redundancy) -> Option<FlowGraph> {
        let mut arcs = ChunkedVec::new();
        for _ in 0..from.count()? {
            arcs.push(FlowArc { from: from.u32()?, to: from.u32()?, counter: from.u32()? });
        }
        let blocks = from.list(|from| ArcId::unpack(from)?)?;
        let counters = from.list(|from| {
            Some(FlowCounter { arc: ArcId::unpack(from)??, role: CounterRole::unpack(from)? })
        })?;
        let forest = DisjointSets::with(from.list(|from| Some(from.u32()?.cast_signed()))?);
        let unchecked = from.count()?;
        Some(FlowGraph {
            arcs,
            blocks,
            counters,
            open: Vec::new(),
            forest,
            redundancy,
            unchecked,
            epoch: EpochArcs::default(),
            scratch: redundancy::RedundancyScratch::default(),
        })
    }

    /// Whether every arc is decided.
    pub(crate) fn is_closed(&self) -> bool {
        self.open.is_empty()
    }
}
