//! Counters that this process has requested, and what was configured before.

use std::rc::Rc;

use cyclometer_core::exec::RefusalKind;
use cyclometer_core::{CounterMask, Refusal, Slot};
use cyclometer_sys::macos::{Kpc, KpcClasses};

use super::layout::Layout;
use super::refused::{errno, of_event, refusal};

/// The classes that are used.
pub(super) const CLASSES: KpcClasses = KpcClasses::from_bits(3);

/// PMC2 to PMC9, and what the power manager leaves of them until all are requested.
///
/// # Source
///
/// kpep `config_counters` 1020, `power_counters` 224 on every chip from M1 to M5.
const ALL: u64 = 0x3fc;
const WITHOUT_POWER: u64 = 0x31c;

/// All counters, as far as they can be had. Dropping this stops the counters, restores the configuration, and
/// gives the power manager its counters back. The kernel does the last when the process is killed.
pub(super) struct CounterHold {
    kpc: Rc<dyn Kpc>,
    /// Whether the counters of the power manager were requested by this hold.
    forced: bool,
    /// The classes that counted before, and the configuration.
    counting: KpcClasses,
    words: Vec<u64>,
    counters: CounterMask,
}

impl CounterHold {
    /// Requests all counters. Where another task has requested them and does not count, the hold is of those
    /// that the kernel offers.
    ///
    /// # Errors
    ///
    /// The kernel's refusal; a number of counters whose layout is not known.
    pub(super) fn take(kpc: Rc<dyn Kpc>) -> Result<CounterHold, Refusal> {
        let was_forced =
            kpc.has_forced_counters().map_err(|error| refusal("kpc_force_all_ctrs_get", &error))?;
        let counting = kpc.counting();
        let forced = match kpc.force_counters(true) {
            Ok(()) => !was_forced,
            Err(error) if error.raw_os_error() == Some(errno::EACCES) => {
                // What counts is configured by the task that holds the counters.
                if counting.contains(KpcClasses::CONFIGURABLE) {
                    return Err(refusal("kpc_force_all_ctrs_set", &error));
                }
                false
            }
            Err(error) => return Err(refusal("kpc_force_all_ctrs_set", &error)),
        };
        let mut hold = CounterHold { kpc, forced, counting, words: Vec::new(), counters: CounterMask::EMPTY };
        hold.look()?;
        Ok(hold)
    }

    /// Finds out which counters there are, and what is configured.
    fn look(&mut self) -> Result<(), Refusal> {
        let general = match self.kpc.counter_count(KpcClasses::CONFIGURABLE) {
            8 => ALL,
            5 => WITHOUT_POWER,
            0 => 0,
            other => {
                let text =
                    format!("kperf offers {other} configurable counters, and no layout of so many is known");
                return Err(Refusal { slot: None, kind: RefusalKind::Other, text });
            }
        };
        let fixed = self.kpc.counter_count(KpcClasses::FIXED).min(2);
        self.counters = CounterMask::from_bits(general, (1 << fixed) - 1);
        self.words = self.kpc.config(KpcClasses::CONFIGURABLE).unwrap_or_default();
        Ok(())
    }

    pub(super) fn kpc(&self) -> &dyn Kpc {
        self.kpc.as_ref()
    }

    /// The counters that can be used.
    pub(super) const fn counters(&self) -> CounterMask {
        self.counters
    }

    /// Sets the words of each rotation group once, so that the kernel can refuse them.
    ///
    /// # Errors
    ///
    /// The event that the kernel does not allow; another error of the kernel.
    pub(super) fn try_words(&self, layout: &Layout, slots: &[Slot]) -> Result<(), Refusal> {
        for turn in layout.turns().rev() {
            let words = layout.words(turn);
            let Err(error) = self.set(&words) else { continue };
            if error.raw_os_error() != Some(errno::EPERM) {
                return Err(refusal("kpc_set_config", &error));
            }
            // Root has requested the counters, so that one of the selectors is refused.
            let is_refused = |index: &usize| {
                let mut alone = vec![0; words.len()];
                alone[*index] = words[*index];
                self.set(&alone).is_err()
            };
            let culprit = (0..words.len()).filter(|index| words[*index] != 0).find(is_refused);
            let slot = culprit.and_then(|index| layout.slot_of(turn, index));
            let slot = slot.and_then(|id| slots.iter().find(|slot| slot.id == id));
            return Err(match (slot, culprit) {
                (Some(slot), Some(index)) => {
                    let selector = words[index] & 0xffff;
                    let reason = format!("this version of macOS does not allow the event {selector:#x}");
                    of_event(slot, &reason)
                }
                _ => refusal("kpc_set_config", &error),
            });
        }
        Ok(())
    }

    /// Sets the words of the configurable counters, of which a virtual machine has none.
    pub(super) fn set(&self, words: &[u64]) -> std::io::Result<()> {
        match words.is_empty() {
            true => Ok(()),
            false => self.kpc.set_config(KpcClasses::CONFIGURABLE, words),
        }
    }

    /// Whether a configuration is still in force: another program may have set its own.
    pub(super) fn has(&self, words: &[u64]) -> bool {
        let is_same = self.kpc.config(KpcClasses::CONFIGURABLE).is_ok_and(|found| found == words);
        self.kpc.counting().contains(self.classes()) && (words.is_empty() || is_same)
    }

    /// The classes that have counters.
    pub(super) fn classes(&self) -> KpcClasses {
        if self.counters.general_bits() == 0 { KpcClasses::FIXED } else { CLASSES }
    }
}

impl Drop for CounterHold {
    /// Errors have no remedy here: the kernel drops the configuration with the counters.
    fn drop(&mut self) {
        let _ = self.kpc.set_counting(self.counting);
        let _ = self.kpc.set_thread_counting(KpcClasses::NONE);
        let _ = self.set(&self.words);
        if self.forced {
            let _ = self.kpc.force_counters(false);
        }
    }
}
