//! Why an event cannot be sampled, and the remedy.

use std::fs;
use std::io;

use cyclometer_core::exec::RefusalKind;
use cyclometer_core::reason::{LockedPages, PerfRefusal, RefusalReason, SamplingPermit};
use cyclometer_core::{Modes, Refusal, Slot};
use cyclometer_sys::perf::{Attr, flags};
use cyclometer_sys::process::errno;
use cyclometer_sys::ring::page_size;

use super::OverflowSampling;
use crate::perf::group::{PerfGroup, PerfMember};
use crate::perf::program::{open_event, refused};
use crate::perf::target::{self, EventTarget};

/// Why the sampled event was not opened.
///
/// # Source
///
/// Linux `kernel/events/core.c`, `perf_event_open`: `EOPNOTSUPP` for a PMU without interrupts, but only when
/// nothing else is wrong. `perf_event_alloc`: `EINVAL` for values in the samples of inherited events, before
/// Linux 6.12.
pub(super) fn of_leader(
    unit: &PerfGroup<'_>,
    leader: &PerfMember<'_>,
    place: &EventTarget,
    attr: &Attr,
    e: &io::Error,
) -> Refusal {
    let answers = |attr: Attr| open_event(&attr, place, None);
    let says = |attr: Attr, number: i32| answers(attr).err().and_then(|e| e.raw_os_error()) == Some(number);
    let without = |set: u64| {
        let mut attr = *attr;
        attr.flags &= !set;
        attr
    };
    let number = e.raw_os_error();
    let without_interrupts = number == Some(errno::EOPNOTSUPP)
        || (number == Some(errno::EINVAL) && says(without(FILTERS), errno::EOPNOTSUPP));
    if without_interrupts {
        let reason = PerfRefusal::NoOverflows { pmu: leader.event.pmu.clone() };
        return Refusal::of_slot(leader.slot.id, RefusalKind::NotSupported, reason);
    }
    if number == Some(errno::EINVAL)
        && place.inherit
        && unit.members.len() > 1
        && answers(without(flags::INHERIT)).is_ok()
    {
        return Refusal::of_slot(leader.slot.id, RefusalKind::Invalid, PerfRefusal::InheritedValues);
    }
    let refusal = refused(&PerfGroup { members: vec![*leader] }, leader, place, e, 0);
    match refusal.reason {
        RefusalReason::Perf(PerfRefusal::Answer(answer)) if refusal.kind == RefusalKind::NoPermission => {
            let permit = permitting(paranoid(), place.is_everyones(), leader.slot.filter);
            let answer = Box::new(answer);
            Refusal { reason: PerfRefusal::SamplesForbidden { answer, permit }.into(), ..refusal }
        }
        reason => Refusal { reason, ..refusal },
    }
}

/// Flags that exclude modes.
const FILTERS: u64 = flags::EXCLUDE_USER | flags::EXCLUDE_KERNEL | flags::EXCLUDE_HV | flags::EXCLUDE_IDLE;

/// Why a ring was not mapped; `rings` is the number of all rings.
///
/// # Source
///
/// `perf_event_open(2)`, "MMAP layout"; Linux `kernel/events/core.c`, `perf_mmap`, for the limits.
pub(super) fn of_ring(
    slot: &Slot,
    place: &EventTarget,
    how: OverflowSampling,
    rings: usize,
    e: &io::Error,
) -> Refusal {
    let pages = how.ring_pages;
    let (kind, reason) = match e.raw_os_error() {
        Some(errno::EPERM) => {
            let locked = Locked {
                rings,
                ring_pages: pages,
                page: page_size(),
                cpus: target::all_online().map_or(1, |online| online.len()),
                allowed_kb: number("/proc/sys/kernel/perf_event_mlock_kb")
                    .and_then(|kb| u64::try_from(kb).ok()),
            };
            (RefusalKind::NoPermission, too_much_locked(locked, place))
        }
        Some(errno::EINVAL) if !pages.is_power_of_two() => {
            (RefusalKind::Invalid, PerfRefusal::PagesNoPowerOfTwo { pages })
        }
        _ => {
            let (place, error) = (place.to_string(), e.to_string());
            (RefusalKind::Other, PerfRefusal::NoBuffer { pages, place, error })
        }
    };
    Refusal::of_slot(slot.id, kind, reason)
}

/// Memory for rings, and the limits on it.
#[derive(Clone, Copy)]
struct Locked {
    /// Rings of one [`Overflows`](super::Overflows).
    rings: usize,
    /// Pages of data in each; the kernel uses one more.
    ring_pages: usize,
    /// Bytes of a page.
    page: usize,
    /// Online CPUs: the limit applies to each of them, and their sum may be used together.
    cpus: usize,
    /// `kernel.perf_event_mlock_kb`.
    allowed_kb: Option<u64>,
}

impl Locked {
    /// The setting that permits these rings, whatever else the user has locked within the present setting.
    /// Like the kernel, it counts whole pages.
    ///
    /// # Source
    ///
    /// Linux `kernel/events/core.c`, `perf_mmap`: `user_lock_limit`.
    fn permitting_kb(self) -> u64 {
        let of_a_ring = self.ring_pages.saturating_add(1);
        let for_each_cpu = of_a_ring.saturating_mul(self.rings).div_ceil(self.cpus.max(1));
        let more_kb = (for_each_cpu as u64).saturating_mul((self.page / 1024).max(1) as u64);
        self.allowed_kb.unwrap_or(USUAL_KB).saturating_add(more_kb)
    }
}

/// The kernel's default of `kernel.perf_event_mlock_kb` where pages have 4 KiB.
const USUAL_KB: u64 = 516;

fn too_much_locked(locked: Locked, place: &EventTarget) -> PerfRefusal {
    PerfRefusal::TooMuchLocked(Box::new(LockedPages {
        pages: locked.ring_pages,
        place: place.to_string(),
        buffers: locked.rings,
        allowed_kb: locked.allowed_kb,
        needed_kb: locked.permitting_kb(),
    }))
}

fn paranoid() -> Option<i64> {
    number("/proc/sys/kernel/perf_event_paranoid")
}

fn number(file: &str) -> Option<i64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The setting that permits the event, if a setting forbids it.
///
/// # Source
///
/// Linux `Documentation/admin-guide/sysctl/kernel.rst`, `perf_event_paranoid`; 3 is Debian's.
fn permitting(paranoid: Option<i64>, of_everyone: bool, modes: Option<Modes>) -> Option<SamplingPermit> {
    let wants_kernel = modes.unwrap_or(Modes::ALL).kernel;
    let needed = match (of_everyone, wants_kernel) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => 2,
    };
    let paranoid = paranoid.filter(|now| *now > needed)?;
    Some(SamplingPermit { paranoid, needed, user_mode_permitted: needed == 1 && paranoid == 2 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::target::places;
    use cyclometer_core::{Rung, SlotId, Target};
    use std::num::NonZeroU64;

    #[test]
    fn what_is_forbidden_is_told_with_the_setting_that_permits_it() {
        let user = Some(Modes::USER);
        let permit = |paranoid, needed, user_mode_permitted| {
            Some(SamplingPermit { paranoid, needed, user_mode_permitted })
        };
        assert_eq!(permitting(Some(3), false, user), permit(3, 2, false));
        assert_eq!(permitting(Some(2), false, user), None);
        assert_eq!(permitting(Some(2), false, None), permit(2, 1, true));
        assert_eq!(permitting(Some(1), true, user), permit(1, 0, false));
        assert_eq!(permitting(None, true, user), None);
    }

    #[test]
    fn a_ring_that_is_not_given_is_told_with_the_limit() {
        let place = places(&Target::ThisThread).unwrap().remove(0);
        let locked = Locked { rings: 4, ring_pages: 1024, page: 4096, cpus: 4, allowed_kb: Some(516) };
        let text = too_much_locked(locked, &place).to_string();
        assert!(text.contains("1024 pages") && text.contains("now 516 for each CPU"), "{text}");
        assert!(text.ends_with("`sudo sysctl kernel.perf_event_mlock_kb=4616`"), "{text}");
        let slot = Slot::new(SlotId(3), "e", Rung::Perf, Vec::new());
        let how = OverflowSampling { ring_pages: 3, ..OverflowSampling::every(NonZeroU64::MIN) };
        let refusal = of_ring(&slot, &place, how, 1, &io::Error::from_raw_os_error(errno::EINVAL));
        assert_eq!((refusal.slot, refusal.kind), (Some(SlotId(3)), RefusalKind::Invalid));
        assert!(refusal.reason.to_string().contains("power of two"), "{}", refusal.reason);
        let refusal = of_ring(&slot, &place, how, 1, &io::Error::from_raw_os_error(errno::EPERM));
        assert!(
            refusal.kind == RefusalKind::NoPermission
                && refusal.reason.to_string().contains("perf_event_mlock_kb")
        );
    }

    /// Pages that the kernel lets a user lock.
    fn limit(kb: u64, page: usize, cpus: usize) -> u64 {
        kb / (page as u64 / 1024) * cpus as u64
    }

    #[test]
    fn the_setting_that_is_named_permits_the_rings_beside_what_is_locked() {
        for (rings, ring_pages, page, cpus, allowed_kb) in [
            (1, 128, 4096, 1, Some(516)),
            (8, 64, 4096, 8, Some(516)),
            (100, 16_384, 4096, 3, Some(516)),
            (5, 1, 4096, 64, Some(0)),
            (7, 2, 65_536, 6, Some(577)),
            (1, 1024, 16_384, 0, Some(1)),
            (2, 8, 4096, 2, None),
        ] {
            let locked = Locked { rings, ring_pages, page, cpus, allowed_kb };
            let cpus = cpus.max(1);
            let needed = (rings * (ring_pages + 1)) as u64;
            let before = limit(allowed_kb.unwrap_or(0), page, cpus);
            let allowed = limit(locked.permitting_kb(), page, cpus);
            assert!(allowed >= before + needed, "{rings} rings of {ring_pages} pages: {allowed} of {needed}");
        }
    }
}
