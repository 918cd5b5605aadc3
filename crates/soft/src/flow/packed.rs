//! A graph as numbers in a file.

use std::num::NonZeroU32;

use super::redundancy::{self, Redundancy};
use super::sets::Sets;
use super::{Arc, ArcId, Counter, Epoch, Flow, Role};
use crate::chunks::Chunks;
use crate::pack::{Packer, Unpacker};

impl ArcId {
    /// An arc that there may be.
    pub(crate) fn pack(arc: Option<ArcId>, to: &mut Packer<'_>) {
        to.u32(arc.map_or(0, |arc| arc.0.get()));
    }

    pub(crate) fn unpack(from: &mut Unpacker<'_>) -> Option<Option<ArcId>> {
        Some(NonZeroU32::new(from.u32()?).map(ArcId))
    }
}

impl Role {
    fn unpack(from: &mut Unpacker<'_>) -> Option<Role> {
        [Role::Needed, Role::Redundant, Role::Observed].into_iter().nth(from.u8()?.into())
    }
}

impl Flow {
    /// Writes a graph of which every arc is decided.
    pub(crate) fn pack(&self, to: &mut Packer<'_>) {
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

    /// Reads one; `redundancy` is for what is added to it.
    pub(crate) fn unpack(from: &mut Unpacker<'_>, redundancy: Redundancy) -> Option<Flow> {
        let mut arcs = Chunks::new();
        for _ in 0..from.count()? {
            arcs.push(Arc { from: from.u32()?, to: from.u32()?, counter: from.u32()? });
        }
        let blocks = from.list(|from| ArcId::unpack(from)?)?;
        let counters =
            from.list(|from| Some(Counter { arc: ArcId::unpack(from)??, role: Role::unpack(from)? }))?;
        let forest = Sets::with(from.list(|from| Some(from.u32()?.cast_signed()))?);
        let unchecked = from.count()?;
        Some(Flow {
            arcs,
            blocks,
            counters,
            open: Vec::new(),
            forest,
            redundancy,
            unchecked,
            epoch: Epoch::default(),
            scratch: redundancy::Scratch::default(),
        })
    }

    /// Whether every arc is decided.
    pub(crate) fn is_closed(&self) -> bool {
        self.open.is_empty()
    }
}
