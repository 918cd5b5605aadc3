//! Counters that this process has requested, and what was configured before.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cyclometer_core::exec::RefusalKind;
use cyclometer_core::reason::KperfRefusal;
use cyclometer_core::{CounterMask, Refusal, Slot};
use cyclometer_sys::macos::{Kpc, KpcClasses};

use super::layout::CounterLayout;
use super::refused::{errno, of_event, refusal};
use crate::registers::CorePmu;

/// The classes that are used.
const CLASSES: KpcClasses = KpcClasses::from_bits(3);

/// PMC2 to PMC9, and what the power manager leaves of them until all are requested.
///
/// # Source
///
/// kpep `config_counters` 1020, `power_counters` 224 on every chip from M1 to M5.
const ALL: u64 = 0x3fc;
const WITHOUT_POWER: u64 = 0x31c;

/// The counters that the sources of a program share: the kernel has one configuration for the whole machine.
#[derive(Clone, Debug, Default)]
pub struct KperfSharing(Arc<Mutex<HeldCounters>>);

impl KperfSharing {
    fn lock(&self) -> MutexGuard<'_, HeldCounters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of the counters while at least one hold exists.
#[derive(Debug, Default)]
struct HeldCounters {
    holds: usize,
    /// How many of the holds count.
    running: usize,
    counters: CounterMask,
    /// The configuration words in force.
    words: Vec<u64>,
    before: FormerState,
}

/// The state before the first hold.
#[derive(Debug, Default)]
struct FormerState {
    /// Whether the counters of the power manager were not requested.
    unforced: bool,
    counting: KpcClasses,
    thread_counting: KpcClasses,
    words: Vec<u64>,
}

impl HeldCounters {
    /// Requests all counters. Where another task has requested them and does not count, those that the kernel
    /// offers are used.
    fn request(&mut self, kpc: &dyn Kpc, cores: &[CorePmu]) -> Result<(), Refusal> {
        let was_forced =
            kpc.has_forced_counters().map_err(|error| refusal("kpc_force_all_ctrs_get", &error))?;
        let counting = kpc.counting();
        let forced = match kpc.force_counters(true) {
            Ok(()) => true,
            // The task that has the counters has configured those that count.
            Err(error)
                if error.raw_os_error() == Some(errno::EACCES)
                    && !counting.contains(KpcClasses::CONFIGURABLE) =>
            {
                false
            }
            Err(error) => return Err(refusal("kpc_force_all_ctrs_set", &error)),
        };
        self.before = FormerState {
            unforced: forced && !was_forced,
            counting,
            thread_counting: kpc.thread_counting(),
            words: Vec::new(),
        };
        match available(kpc, cores) {
            Ok(counters) => self.counters = counters,
            Err(refusal) => {
                self.release(kpc);
                return Err(refusal);
            }
        }
        self.before.words = kpc.config(KpcClasses::CONFIGURABLE).unwrap_or_default();
        self.words.clone_from(&self.before.words);
        Ok(())
    }

    /// Restores what was there before. Errors have no remedy here: the kernel releases the counters of a
    /// process that ends. The configuration comes first: macOS 26 applies it when counting starts.
    fn release(&mut self, kpc: &dyn Kpc) {
        let before = std::mem::take(&mut self.before);
        if !before.words.is_empty() {
            let _ = kpc.set_config(KpcClasses::CONFIGURABLE, &before.words);
        }
        let _ = kpc.set_counting(before.counting);
        let _ = kpc.set_thread_counting(before.thread_counting);
        if before.unforced {
            let _ = kpc.force_counters(false);
        }
    }
}

/// The counters that can be used: those of the machine's PMUs, if kperf offers as many.
fn available(kpc: &dyn Kpc, cores: &[CorePmu]) -> Result<CounterMask, Refusal> {
    let offered = kpc.counter_count(KpcClasses::CONFIGURABLE);
    let known = cores.iter().map(|core| core.chip.counters.known().general_bits());
    let has_offered = |general: &u64| *general & !ALL == 0 && general.count_ones() as usize == offered;
    let known = known.into_iter().find(has_offered);
    let general = match (offered, known) {
        (_, Some(general)) => general,
        (8, None) => ALL,
        (5, None) => WITHOUT_POWER,
        (0, None) => 0,
        (other, None) => {
            let reason = KperfRefusal::UnknownLayout { counters: other };
            return Err(Refusal::of_target(RefusalKind::Other, reason));
        }
    };
    let fixed = kpc.counter_count(KpcClasses::FIXED).min(2);
    Ok(CounterMask::from_bits(general, (1 << fixed) - 1))
}

/// All counters, as far as they can be had. Dropping the last hold stops the counters, restores the
/// configuration, and gives the power manager its counters back.
pub(super) struct CounterHold {
    kpc: Rc<dyn Kpc>,
    sharing: KperfSharing,
    counters: CounterMask,
    runs: Cell<bool>,
}

impl CounterHold {
    /// Requests all counters, unless another hold has done so.
    ///
    /// # Errors
    ///
    /// The kernel's refusal; a number of counters whose layout is not known.
    pub(super) fn take(
        kpc: Rc<dyn Kpc>,
        sharing: &KperfSharing,
        cores: &[CorePmu],
    ) -> Result<CounterHold, Refusal> {
        let mut held = sharing.lock();
        if held.holds == 0 {
            held.request(kpc.as_ref(), cores)?;
        }
        held.holds += 1;
        let counters = held.counters;
        Ok(CounterHold { kpc, sharing: sharing.clone(), counters, runs: Cell::new(false) })
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
    pub(super) fn try_words(&self, layout: &CounterLayout, slots: &[Slot]) -> Result<(), Refusal> {
        layout.rotation_groups().rev().try_for_each(|rotation_group| {
            let words = layout.words(rotation_group);
            self.set(&words)
                .map_err(|error| self.why_refused(&error, &words, layout, (rotation_group, slots)))
        })
    }

    /// The event of which the kernel does not allow the selector, or the refusal of all.
    fn why_refused(
        &self,
        error: &io::Error,
        words: &[u64],
        layout: &CounterLayout,
        (rotation_group, slots): (u32, &[Slot]),
    ) -> Refusal {
        if error.raw_os_error() != Some(errno::EPERM) {
            return refusal("kpc_set_config", error);
        }
        // Root has requested the counters, so that one of the selectors is refused.
        let is_refused = |index: &usize| {
            let mut alone = vec![0; words.len()];
            alone[*index] = words[*index];
            self.set(&alone).is_err()
        };
        let culprit = (0..words.len()).filter(|index| words[*index] != 0).find(is_refused);
        let slot = culprit.and_then(|index| layout.slot_of(rotation_group, index));
        let slot = slot.and_then(|id| slots.iter().find(|slot| slot.id == id));
        match (slot, culprit) {
            (Some(slot), Some(index)) => {
                let selector = words[index] & 0xffff;
                of_event(slot, |event| KperfRefusal::Selector { event, selector })
            }
            _ => refusal("kpc_set_config", error),
        }
    }

    /// Sets the words of the configurable counters, of which a virtual machine has none.
    ///
    /// # Errors
    ///
    /// The kernel's; `ResourceBusy` while another hold counts with other words.
    pub(super) fn set(&self, words: &[u64]) -> io::Result<()> {
        let mut held = self.sharing.lock();
        if words == held.words.as_slice() {
            return Ok(());
        }
        if held.running > usize::from(self.runs.get()) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        self.kpc.set_config(KpcClasses::CONFIGURABLE, words)?;
        held.words = words.to_vec();
        Ok(())
    }

    /// Lets the counters count. macOS 26 applies a configuration when counting starts, so that it starts anew
    /// where no other hold counts.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub(super) fn start(&self) -> io::Result<()> {
        let mut held = self.sharing.lock();
        let others = held.running - usize::from(self.runs.get());
        if others == 0 {
            self.kpc.set_counting(KpcClasses::FIXED)?;
            self.kpc.set_counting(self.classes())?;
        }
        if !self.runs.replace(true) {
            held.running += 1;
        }
        Ok(())
    }

    /// Stops the counters, unless another hold counts.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub(super) fn stop(&self) -> io::Result<()> {
        let mut held = self.sharing.lock();
        if self.runs.replace(false) {
            held.running -= 1;
        }
        if held.running == 0 { self.kpc.set_counting(KpcClasses::NONE) } else { Ok(()) }
    }

    /// Whether a configuration is still in force: another program may have set its own.
    pub(super) fn has(&self, words: &[u64]) -> bool {
        let is_same = || self.kpc.config(KpcClasses::CONFIGURABLE).is_ok_and(|found| found == words);
        self.kpc.counting().contains(self.classes()) && (words.is_empty() || is_same())
    }

    /// The classes that have counters.
    pub(super) fn classes(&self) -> KpcClasses {
        if self.counters.general_bits() == 0 { KpcClasses::FIXED } else { CLASSES }
    }
}

impl Drop for CounterHold {
    fn drop(&mut self) {
        let _ = self.stop();
        let mut held = self.sharing.lock();
        held.holds -= 1;
        if held.holds == 0 {
            held.release(self.kpc.as_ref());
        }
    }
}
