//! Code that changes while it runs: versions of blocks, and the checks before them.
//!
//! # Problem
//!
//! A compiler at run time writes code, executes it, and writes it again. No system call shows that: the bytes
//! can be writable, be mapped twice, or belong to memory that another process writes.
//!
//! # Terms
//!
//! - *Changing code*: code on pages whose bytes can change without a system call that the host sees
//!   ([`CodeStability`]).
//! - *Version*: a translated block of changing code. An address has a version for each content that was
//!   executed there.
//! - *Check*: the code before a version. It compares the program's bytes with those that were translated.
//! - *Version stub*: the only way to the versions of an address. It jumps to the newest check, or stops.
//!
//! ```text
//! exit, lookup stub, return site ──> version stub of the address
//!                                         │ jump, replaced when a version is added
//!                                         v     differs          differs
//!                                      check 3 ────────> check 2 ────────> ... ──> stop
//!                                         │ same            │ same        the host reads
//!                                         v                 v             the bytes, and
//!                                     version 3         version 2         adds a version
//! ```
//!
//! # Invariants
//!
//! - An instruction is executed only if all bytes of its block were compared since the last store that could
//!   have changed them: a version ends behind such a store.
//! - A version stub is outside of every block. So an exit to changing code is an edge to the outside, and a
//!   check that succeeds an edge from there. Counts do not depend on the version that follows.
//! - A check changes no flags: the code that is there instead may read them.
//! - All flags are live at an exit to changing code.
//! - A version is never removed. A stub that is closed stops, and the host looks at the memory again.
//!
//! # Literature
//!
//! N. Nethercote, J. Seward: Valgrind, PLDI 2007, section 3.16 (`--smc-check`); A. Klaiber: The Technology
//! Behind Crusoe Processors, 2000 (translation groups).

use super::emit::{CodeEmitter, EmitState, reaches};
use super::*;

/// The versions of changing code.
#[derive(Default)]
pub(super) struct CodeVersions {
    by_address: AddressMap<u64, VersionStub>,
    /// The addresses on each page.
    by_page: AddressMap<u64, Vec<u64>>,
}

/// The versions of the code at an address.
pub(super) struct VersionStub {
    /// The address of the stub in translated code.
    pub(super) at: u64,
    /// The number of the address among all that stubs check for.
    subject: u32,
    /// The check that the stub jumps to, if it was not closed; the stop where there is none.
    first: u64,
    /// The versions, the newest last.
    versions: Vec<CodeVersion>,
}

#[derive(Clone, Copy)]
struct CodeVersion {
    block: u32,
    /// The address of its check.
    check: u64,
    /// The address behind the check, where its execution is counted.
    behind: u64,
}

/// Bytes of a version stub: a stop or jump, and the stop behind all checks.
const STUB_BYTES: usize = 16;

/// The offset of that stop.
const LAST_STOP: u64 = 8;

/// Most checks in a row. Older versions are found by the host.
const MOST_CHECKS: usize = 16;

/// Most versions that the host compares with the memory.
const MOST_COMPARED: usize = 256;

impl CodeVersions {
    pub(super) fn is_empty(&self) -> bool {
        self.by_address.is_empty()
    }

    fn insert(&mut self, address: u64, stub: VersionStub) {
        self.by_address.insert(address, stub);
        self.by_page.entry(address & !(PAGE - 1)).or_default().push(address);
    }

    /// The addresses with versions in a range.
    fn within(&self, start: u64, end: u64) -> Vec<u64> {
        let pages = self.by_page.iter().filter(|(page, _)| **page + PAGE > start && **page < end);
        let all = pages.flat_map(|(_, addresses)| addresses.iter().copied());
        all.filter(|address| (start..end).contains(address)).collect()
    }
}

impl Translation {
    /// Whether the bytes at an address can change without a call that the host sees.
    pub(super) fn can_change(&self, address: u64) -> bool {
        self.pages.can_change(address)
    }

    /// Whether the translation depends on code in a range that cannot change by itself: it becomes invalid
    /// when a system call changes that.
    pub fn touches_fixed(&self, start: u64, end: u64) -> bool {
        self.touches(start, end) && !self.pages.all_can_change(start, end)
    }

    /// The pages of a range that were read as if they could not change by themselves.
    pub fn fixed_pages(&self, start: u64, end: u64) -> Vec<u64> {
        let pages = self.pages.pages_in(start, end).into_iter();
        pages.map(|(page, _)| page).filter(|page| !self.pages.can_change(*page)).collect()
    }

    /// Whether an address in translated code is in a check, which reads the program's memory.
    pub fn is_checking(&self, pc: u64) -> bool {
        let region = self.regions.iter().find(|region| region.contains(pc));
        let entry = region.and_then(|region| region.pc_entry(pc, self.stored_pages.as_deref()));
        entry.is_some_and(|PcEntry { subject, bits, .. }| {
            let address = self.lookup_targets.get(subject as usize);
            bits.has(PcBits::TO_STUB)
                && bits.has(PcBits::IN_STUB)
                && address.is_some_and(|address| self.versions.by_address.contains_key(address))
        })
    }

    /// The version for the bytes that are at an address now. `None` where the code cannot change.
    pub(super) fn ensure_version(
        &mut self,
        code: &mut dyn CodeSource,
        address: u64,
    ) -> Result<Option<u32>, TranslationNeed> {
        if !self.can_change(address) {
            return Ok(None);
        }
        for page in [address, address.wrapping_add(PAGE)] {
            for block in self.pages.refresh(code, page) {
                let CodeBytes { address, bytes } = self.code(block);
                if !self.pages.has_bytes(address, bytes) {
                    self.pages.remove_block(address);
                }
            }
        }
        let found = self.version_now(address);
        self.pages.remove_block(address);
        if let Some(version) = found {
            self.pages.add_block(address, version.block);
            self.open(address, version.check);
            return Ok(Some(version.block));
        }
        let region = self.region_near(address)?;
        self.translate(code, address, region);
        self.block_at(address).map(Some).ok_or(TranslationNeed::NewTranslation)
    }

    /// The version with the bytes that the pages have at an address.
    fn version_now(&self, address: u64) -> Option<CodeVersion> {
        let versions = &self.versions.by_address.get(&address)?.versions;
        let same = |version: &&CodeVersion| {
            let CodeBytes { bytes, .. } = self.code(version.block);
            !bytes.is_empty() && self.pages.has_bytes(address, bytes)
        };
        versions.iter().rev().take(MOST_COMPARED).find(same).copied()
    }

    /// The address behind the check of a version.
    pub(super) fn behind_check(&self, version: u32) -> Option<u64> {
        let address = self.blocks[version as usize].address;
        let versions = &self.versions.by_address.get(&address)?.versions;
        versions.iter().rev().find(|known| known.block == version).map(|known| known.behind)
    }

    /// Closes the stubs of a range: the memory is looked at again before any of it is executed.
    pub fn close_versions(&mut self, start: u64, end: u64) {
        for address in self.versions.within(start, end) {
            if let Some(stub) = self.versions.by_address.get_mut(&address) {
                stub.first = stub.at + LAST_STOP;
                let bytes = [0xcc; 8];
                self.writes.push(CodeWrite { address: stub.at, bytes: WriteBytes::of(&bytes) });
            }
        }
    }

    /// Lets the stub of an address jump to a check.
    fn open(&mut self, address: u64, check: u64) {
        let Some(stub) = self.versions.by_address.get_mut(&address) else { return };
        if stub.first == check || !reaches(stub.at, check) {
            return;
        }
        stub.first = check;
        let mut bytes = [0xe9, 0, 0, 0, 0, 0xcc, 0xcc, 0xcc];
        bytes[1..5].copy_from_slice(&(check.wrapping_sub(stub.at + 5) as u32).to_le_bytes());
        self.writes.push(CodeWrite { address: stub.at, bytes: WriteBytes::of(&bytes) });
    }

    /// The version stub of an address, emitted here if there is none.
    pub(super) fn version_stub(&mut self, address: u64, out: &mut CodeEmitter) -> u64 {
        if let Some(stub) = self.versions.by_address.get(&address) {
            return stub.at;
        }
        let subject = self.lookup_targets.len() as u32;
        self.lookup_targets.push(address);
        out.align(STUB_BYTES);
        let at = out.here();
        for stop in [at, at + LAST_STOP] {
            debug_assert_eq!(out.here(), stop);
            self.exit_stubs.insert(stop, ExitStub::Versions(address));
            out.put(CodeEmitter::in_stub(subject), &[0xcc]);
            out.skip(LAST_STOP as usize - 1);
        }
        let stub = VersionStub { at, subject, first: at + LAST_STOP, versions: Vec::new() };
        self.versions.insert(address, stub);
        at
    }

    /// The check of a version, which is emitted next. Its execution is counted on the edge from the outside.
    pub(super) fn emit_check(&mut self, id: u32, out: &mut CodeEmitter) {
        let address = self.blocks[id as usize].address;
        self.version_stub(address, out);
        let Some(stub) = self.versions.by_address.get(&address) else { return };
        let is_checked = self.blocks[id as usize].len > 0;
        let (at, last) = (CodeEmitter::in_stub(stub.subject), stub.at + LAST_STOP);
        let next = if stub.versions.len() % MOST_CHECKS == 0 { last } else { stub.first };
        let (mut check, rcx_test) = (out.here(), self.rcx_test);
        if is_checked {
            let CodeBytes { bytes, .. } = self.code(id);
            let checked = CheckedCode { address, bytes, next };
            check = out.check(at, checked, rcx_test);
        }
        let behind = out.here();
        if let Some((offset, flags_dead)) = self.counter_in(id) {
            out.count(at, offset, flags_dead);
        }
        if let Some(stub) = self.versions.by_address.get_mut(&address) {
            stub.versions.push(CodeVersion { block: id, check, behind });
        }
    }

    /// Lets the stubs of new versions jump to their checks, which were written.
    pub(super) fn open_versions(&mut self, first: u32) {
        for id in first..self.blocks.len() as u32 {
            let TranslatedBlock { address, len, .. } = self.blocks[id as usize];
            let newest =
                self.versions.by_address.get(&address).and_then(|stub| stub.versions.last().copied());
            if let Some(version) = newest.filter(|version| version.block == id && len > 0) {
                self.open(address, version.check);
            }
        }
    }
}

/// The bytes that a check compares with the program's, and where it goes on if they differ.
pub(super) struct CheckedCode<'a> {
    pub(super) address: u64,
    pub(super) bytes: &'a [u8],
    pub(super) next: u64,
}

/// The distance that `loop` jumps back at most.
const LOOP_BACK: u64 = 128;

/// Bytes of a step of a check, at most: a load, a constant, a difference and `loop`.
const STEP_BYTES: u64 = 7 + 10 + 4 + 2;

impl CodeEmitter {
    /// Compares the program's bytes with others, eight at a time. Where they differ, goes on to `next`.
    /// Returns the address of the check.
    ///
    /// Flags and registers stay as they are: `lea` computes a difference, and `jrcxz` or `loop` tests it.
    pub(super) fn check(&mut self, at: EmitState, code: CheckedCode<'_>, test: RcxTest) -> u64 {
        let (busy, CheckedCode { address, bytes, next }) = (at.with(PcBits::RCX), code);
        let differs = self.here();
        self.load(busy, 1, slot_layout::RCX);
        if reaches(self.here(), next) {
            self.put_to(at, &[0xe9], next);
        } else {
            self.put_literal(at, &[0xff, 0x25], next);
        }
        let check = self.here();
        self.store(at, 1, slot_layout::RCX);
        let (mut done, mut near) = (0, differs);
        while done < bytes.len() {
            let width = [8, 4, 2, 1].into_iter().find(|width| done + width <= bytes.len()).unwrap_or(1);
            let mut word = [0; 8];
            word[..width].copy_from_slice(&bytes[done..done + width]);
            let value = u64::from_le_bytes(word);
            if test == RcxTest::Loop && self.here() + STEP_BYTES - near > LOOP_BACK {
                near = self.hidden_jump(busy, differs);
            }
            match test {
                RcxTest::Jrcxz => {
                    self.subtract_from_memory(busy, address + done as u64, width, value);
                    // Skips the jump.
                    self.put(busy, &[0xe3, 5]);
                    self.put_to(busy, &[0xe9], differs);
                }
                RcxTest::Loop => {
                    self.subtract_from_memory(busy, address + done as u64, width, value.wrapping_sub(1));
                    let distance = near.wrapping_sub(self.here() + 2) as u8;
                    self.put(busy, &[0xe2, distance]);
                }
            }
            done += width;
        }
        self.load(busy, 1, slot_layout::RCX);
        check
    }

    /// A jump that is not in the way. Returns its address.
    fn hidden_jump(&mut self, at: EmitState, to: u64) -> u64 {
        let field = self.begin_hidden_jump(at, at);
        self.fill(field, to);
        self.address(field) - 1
    }

    /// `mov rcx, [address]` of some bytes, and rcx minus a value by `lea`.
    fn subtract_from_memory(&mut self, at: EmitState, address: u64, width: usize, value: u64) {
        let load: &[u8] = match width {
            8 => &[0x48, 0x8b, 0x0d],
            4 => &[0x8b, 0x0d],
            2 => &[0x0f, 0xb7, 0x0d],
            _ => &[0x0f, 0xb6, 0x0d],
        };
        self.put_to(at, load, address);
        if width == 8 {
            let mut constant = vec![0x49, 0xbb];
            constant.extend(value.wrapping_neg().to_le_bytes());
            self.put(at, &constant);
            self.put(at, &[0x4a, 0x8d, 0x0c, 0x19]);
        } else {
            self.put32(at, &[0x8d, 0x89], (value as u32).wrapping_neg());
        }
    }
}
