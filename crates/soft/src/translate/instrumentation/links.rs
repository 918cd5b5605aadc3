//! Links: jumps that replace exit stubs when their targets are translated.

use super::super::batch::expected;
use super::edges::ONCE;
use super::*;
use crate::flow::FlowPoint;

/// A stop that waits for a block, and the block.
pub(super) struct LinkRequest {
    stop: u64,
    jump: u64,
    to: u32,
    arc: ArcId,
    at: EmitState,
}

/// A jump that replaces a stop.
pub(super) struct LinkPatch {
    stop: u64,
    jump: u64,
    destination: u64,
}

impl Translation {
    /// The links of exit stubs that wait for the new blocks, with their edges: at most [`MOST_LINKS`].
    pub(super) fn links_to_new_blocks(&mut self, first: u32) -> Vec<LinkRequest> {
        let mut links = Vec::new();
        for to in first..self.blocks.len() as u32 {
            let mut stops = self.waiting.take(self.blocks[to as usize].address);
            while let Some(stop) = self.waiting.next(&mut stops) {
                let link = if links.len() < MOST_LINKS { self.edge_of(stop, to) } else { None };
                links.extend(link);
            }
        }
        links
    }

    /// Sixteen bytes that stop, until a jump is written there.
    pub(super) fn link_stop(
        &mut self,
        at: EmitState,
        field: JumpField,
        exit_stub: ExitStub,
        out: &mut CodeEmitter,
    ) {
        out.align(16);
        let here = out.here();
        out.fill(field, here);
        if let ExitStub::DirectLink { target, .. } | ExitStub::ReturnSite { target, .. } = exit_stub {
            self.waiting.add(target, here);
        }
        self.stop(at, exit_stub, out);
        out.skip(15);
    }

    /// Translates the target of an exit stub. Returns the address where the program continues, with its
    /// registers unchanged; `None` where there is no such stub.
    ///
    /// # Errors
    ///
    /// [`TranslationNeed`].
    pub fn link(&mut self, code: &mut dyn CodeSource, stop: u64) -> Result<Option<u64>, TranslationNeed> {
        let target = match self.exit_stubs.get(&stop) {
            Some(ExitStub::DirectLink { target, .. } | ExitStub::ReturnSite { target, .. }) => *target,
            Some(ExitStub::Linked(to)) => return Ok(Some(*to)),
            Some(ExitStub::Versions(address)) => {
                let version = self.ensure(code, *address)?;
                return Ok(self.behind_check(version));
            }
            _ => return Ok(None),
        };
        // The stops that wait for the block are linked when it is translated, unless they are too many.
        let to = self.ensure(code, target)?;
        if let Some(ExitStub::Linked(to)) = self.exit_stubs.get(&stop) {
            return Ok(Some(*to));
        }
        self.link_alone(stop, to)
    }

    /// Links a stop to a block that was translated before.
    fn link_alone(&mut self, stop: u64, to: u32) -> Result<Option<u64>, TranslationNeed> {
        let region = self.region_near(self.blocks[to as usize].address)?;
        let Some(link) = self.edge_of(stop, to) else { return Ok(None) };
        self.flow.close_epoch();
        let mut out = self.emitter(region);
        let patch = self.link_to(link, &mut out);
        let destination = patch.destination;
        self.publish(region, out);
        self.patch(patch);
        Ok(Some(destination))
    }

    /// The edge of a link to a block, and the state at the link.
    fn edge_of(&mut self, stop: u64, to: u32) -> Option<LinkRequest> {
        match self.exit_stubs.get(&stop).copied()? {
            ExitStub::DirectLink { from, exit, jump, .. } => {
                let is_version = self.blocks[to as usize].is_version;
                let translated = self.blocks[from as usize];
                let entry = FlowPoint::Entry(self.blocks[to as usize].block);
                let entry = if is_version { FlowPoint::Outside } else { entry };
                let ends = (FlowPoint::Exit(translated.block), entry);
                let known = translated.edges[exit as usize];
                let heats = self.pages.heats(translated.address);
                let executions = expected(heats.map(|heats| heats.exits[exit as usize]), ONCE);
                let weight = executions * self.edge_counter_cost(to, true);
                let arc = known.unwrap_or_else(|| self.flow.edge(ends.0, ends.1, weight));
                self.blocks[from as usize].edges[exit as usize] = Some(arc);
                let counted = self.block_counter(from).map_or(PcBits::CLEAN, |_| PcBits::COUNTED);
                let bits = counted.with(if exit == BlockExit::Next { PcBits::NEXT } else { PcBits::TAKEN });
                let at = EmitState { subject: from, done: translated.instructions, bits };
                Some(LinkRequest { stop, jump, to, arc, at })
            }
            ExitStub::ReturnSite { stub, jump, .. } => {
                if self.blocks[to as usize].from_outside.is_none() {
                    self.add_outside_edge(to, ONCE);
                }
                let arc = self.blocks[to as usize].from_outside?;
                Some(LinkRequest { stop, jump, to, arc, at: CodeEmitter::in_stub(stub) })
            }
            _ => None,
        }
    }

    /// The destination of a link: the block, or an edge counter before it.
    pub(super) fn link_to(&mut self, link: LinkRequest, out: &mut CodeEmitter) -> LinkPatch {
        let LinkRequest { stop, jump, to, arc, at } = link;
        if self.blocks[to as usize].is_version {
            let destination = self.link_to_version(to, arc, at, out);
            self.exit_stubs.insert(stop, ExitStub::Linked(destination));
            return LinkPatch { stop, jump, destination };
        }
        let mut destination = self.blocks[to as usize].body;
        if self.counter(Some(arc)).is_some() {
            destination = out.here();
            let at = self.count_edge(Some(arc), at, to, out);
            self.jump_to(to, at, out, &mut Vec::new());
        }
        self.exit_stubs.insert(stop, ExitStub::Linked(destination));
        LinkPatch { stop, jump, destination }
    }

    /// The destination of a link to changing code: the version stub, or a counter before it. Behind a return
    /// site, the execution is outside already.
    fn link_to_version(&mut self, to: u32, arc: ArcId, at: EmitState, out: &mut CodeEmitter) -> u64 {
        let stub = self.version_stub(self.blocks[to as usize].address, out);
        let outside = at.bits.has(PcBits::IN_STUB);
        let Some(offset) = self.counter(Some(arc)).filter(|_| !outside) else { return stub };
        let destination = out.here();
        out.count(at, offset, false);
        self.jump_to_address(at.with(PcBits::OUTSIDE), stub, out);
        destination
    }

    /// Writes a jump over an exit stub, and lets the exit jump directly to the target.
    pub(super) fn patch(&mut self, LinkPatch { stop, jump, destination }: LinkPatch) {
        let word = |address: u64, bytes: &[u8]| CodeWrite { address, bytes: WriteBytes::of(bytes) };
        if reaches(stop, destination) {
            let mut bytes = [0xe9, 0, 0, 0, 0, 0xcc, 0xcc, 0xcc];
            bytes[1..5].copy_from_slice(&(destination.wrapping_sub(stop + 5) as u32).to_le_bytes());
            self.writes.push(word(stop, &bytes));
        } else {
            let target = destination.to_le_bytes();
            let mut head = vec![0xff, 0x25, 0, 0, 0, 0];
            head.extend(&target[..2]);
            self.writes.push(word(stop + 8, &[&target[2..], &[0xcc, 0xcc]].concat()));
            self.writes.push(word(stop, &head));
        }
        if reaches(jump, destination) && jump / 8 == (jump + 3) / 8 {
            let distance = destination.wrapping_sub(jump + 4) as u32;
            self.writes.push(word(jump, &distance.to_le_bytes()));
        }
    }

    /// Lets a jump reach an address, by another jump if it is too far away.
    pub(super) fn fill_or_jump(&self, field: JumpField, at: EmitState, to: u64, out: &mut CodeEmitter) {
        if reaches(out.address(field), to) {
            return out.fill(field, to);
        }
        out.fill(field, out.here());
        self.jump_to_address(at, to, out);
    }

    pub(in crate::translate) fn jump_to_address(&self, at: EmitState, to: u64, out: &mut CodeEmitter) {
        if reaches(out.here(), to) {
            out.put_to(at, &[0xe9], to)
        } else {
            out.put_literal(at, &[0xff, 0x25], to)
        }
    }
}
