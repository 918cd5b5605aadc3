//! The parts of a model that a loop over many accesses keeps in registers.

use super::MissModel;
use super::branch_tables::{COUNTERS, TARGETS, count_outcome};
use super::cache_levels::{CachePlace, GUESSES, access_guessed};
use super::tlbs::FastTlbs;

/// The parts of a model that accesses need which hit, and branches of a program that is modelled from its
/// start. A loop can keep them in registers. [`FastModel::end`] has to follow.
pub(crate) struct FastModel<'a, const TLBS: bool> {
    tlbs: Option<FastTlbs<'a>>,
    clock: u64,
    history: usize,
    code_guesses: &'a [u16; GUESSES],
    data_guesses: &'a [u16; GUESSES],
    code_places: &'a mut [CachePlace],
    data_places: &'a mut [CachePlace],
    data_bits: u32,
    /// The bits of an address that its line has.
    data_mask: u64,
    counters: &'a mut [u8; COUNTERS],
    targets: &'a mut [Option<u64>],
    clocks: [&'a mut u64; 2],
    last_history: &'a mut usize,
}

impl<const TLBS: bool> FastModel<'_, TLBS> {
    /// Looks up the pages of a fetch from one byte to another, if the model finds all of them at once: each
    /// hits. [`MissModel::translate_fetch`] has to follow otherwise, as for [`FastModel::fetch`].
    #[inline(always)]
    pub(crate) fn translates_fetch(&mut self, first: u64, last: u64) -> bool {
        !TLBS || self.tlbs.as_mut().is_none_or(|tlbs| tlbs.fetch(first, last))
    }

    /// Fetches from lines in a row, if the model finds all of them at once: each hits. Otherwise it may have
    /// fetched from the first ones, and a fetch of all of them has to follow, by [`MissModel::fetch`].
    #[inline(always)]
    pub(crate) fn fetch(&mut self, first: u64, lines: u16) -> bool {
        self.fetch_line(first)
            && (lines == 1 || (1..u64::from(lines)).all(|line| self.fetch_line(first + line)))
    }

    #[inline(always)]
    fn fetch_line(&mut self, line: u64) -> bool {
        self.clock += 1;
        access_guessed(self.code_guesses, self.code_places, line, self.clock)
    }

    /// Accesses data, if the model finds it and its page at once: both hit. [`MissModel::access_data`] and
    /// [`MissModel::translate_data`] have to follow otherwise. `last` is the distance of the last byte,
    /// below the length of each line.
    #[inline(always)]
    pub(crate) fn hits_data(&mut self, address: u64, last: u8) -> bool {
        let end = address.wrapping_add(last.into());
        self.clock += 1;
        (address ^ end) & self.data_mask == 0
            && access_guessed(self.data_guesses, self.data_places, address >> self.data_bits, self.clock)
            && (!TLBS || self.tlbs.as_mut().is_none_or(|tlbs| tlbs.hits_data(address)))
    }

    /// Predicts a conditional branch; whether that is wrong.
    #[inline(always)]
    pub(crate) fn conditional_branch(&mut self, pc: u64, taken: bool) -> bool {
        let before = count_outcome(self.counters, &mut self.history, pc, taken);
        (before & 2 != 0) != taken
    }

    /// Predicts an indirect branch; whether that is wrong.
    #[inline(always)]
    pub(crate) fn indirect_branch(&mut self, pc: u64, target: u64) -> bool {
        let entry = self.targets.get_mut(pc as usize % TARGETS);
        entry.is_none_or(|entry| entry.replace(target) != Some(target))
    }

    /// Gives the model what has changed.
    #[inline(always)]
    pub(crate) fn end(self) {
        self.clocks.into_iter().for_each(|clock| *clock = self.clock);
        *self.last_history = self.history;
    }
}

impl MissModel {
    /// The parts that accesses need which hit. `TLBS` says whether TLBs are modelled: without them, nothing
    /// is done for them.
    #[inline(always)]
    pub(crate) fn fast<const TLBS: bool>(&mut self) -> FastModel<'_, TLBS> {
        let MissModel { l1i, l1d, tlbs, branches, .. } = self;
        FastModel {
            tlbs: tlbs.as_mut().filter(|_| TLBS).map(|tlbs| tlbs.fast()),
            clock: l1i.clock.max(l1d.clock),
            history: branches.history,
            code_guesses: &l1i.guesses,
            data_guesses: &l1d.guesses,
            code_places: &mut l1i.places,
            data_places: &mut l1d.places,
            data_bits: l1d.shape.line_bits,
            data_mask: l1d.shape.size.line_bytes.wrapping_neg(),
            counters: &mut branches.counters,
            targets: &mut branches.targets,
            clocks: [&mut l1i.clock, &mut l1d.clock],
            last_history: &mut branches.history,
        }
    }
}
