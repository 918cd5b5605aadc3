//! Lookup stubs: the entries of indirect branches and returns to a block.

use super::deferred::DeferredCode;
use super::*;

impl Translation {
    /// The address where an indirect branch to a target continues, with rcx in the slot.
    ///
    /// # Errors
    ///
    /// [`TranslationNeed`].
    pub fn indirect(&mut self, code: &mut dyn CodeSource, target: u64) -> Result<u64, TranslationNeed> {
        if let Some(hit) = self.indirect_entries.get(&target) {
            return Ok(*hit);
        }
        let to = self.ensure(code, target)?;
        if let Some(hit) = self.indirect_entries.get(&target) {
            return Ok(*hit);
        }
        let region = self.region_near(target)?;
        self.ensure_outside_edge(to);
        let mut out = self.emitter(region);
        let (entry, hit) = self.entry_jump(to, &mut out);
        self.publish(region, out);
        self.writes.push(entry);
        Ok(hit)
    }

    /// Emits the lookup stub of a block that was emitted. Returns the write to the lookup table, and the
    /// address behind the stub's check.
    pub(super) fn entry_jump(&mut self, to: u32, out: &mut CodeEmitter) -> (CodeWrite, u64) {
        let (entry, hit, at) = self.entry_path(to, out);
        let block = self.blocks[to as usize];
        if block.is_version {
            let stub = self.version_stub(block.address, out);
            self.jump_to_address(at, stub, out);
        } else {
            self.jump_to(to, at, out, &mut Vec::new());
        }
        (entry, hit)
    }

    /// Emits the lookup stub up to the block, which follows or is jumped to, and returns the state there too.
    pub(super) fn entry_path(&mut self, to: u32, out: &mut CodeEmitter) -> (CodeWrite, u64, EmitState) {
        let target = self.blocks[to as usize].address;
        let stub = self.lookup_targets.len() as u32;
        self.lookup_targets.push(target);
        let counter = self.counter_in(to).filter(|_| !self.blocks[to as usize].is_version);
        let entry = (target & 0xffff) as u32;
        let otherwise = self.table_heads.get(&entry).copied().unwrap_or(self.lookup_missed);
        let checked = StubAddress { address: target, otherwise };
        let emitted = out.lookup_stub(stub, checked, counter, self.rcx_test, false);
        self.table_heads.insert(entry, emitted.start);
        self.indirect_entries.insert(target, emitted.hit);
        let address = self.table + 8 * u64::from(entry);
        let write = CodeWrite { address, bytes: WriteBytes::of(&emitted.start.to_le_bytes()) };
        (write, emitted.hit, emitted.arrived)
    }

    /// The return site behind a call.
    pub(super) fn return_site(
        &mut self,
        call: u32,
        address: u64,
        out: &mut CodeEmitter,
        deferred: &mut DeferredCode,
    ) {
        let stub = self.lookup_targets.len() as u32;
        self.lookup_targets.push(address);
        let known = self.block_at(address).filter(|_| !self.can_change(address));
        let checked = StubAddress { address, otherwise: self.return_missed };
        let counter = known.and_then(|to| self.counter_in(to));
        let at = out.lookup_stub(stub, checked, counter, self.rcx_test, true).arrived;
        match known {
            Some(to) => self.flow_to(call, to, at, out, &mut deferred.bodies),
            None => deferred.sites.push((out.put_field(at, &[0xe9]), stub)),
        }
    }
}
