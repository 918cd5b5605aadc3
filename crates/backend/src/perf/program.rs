//! Opens the events of slots.

use std::collections::BTreeSet;
use std::io;

use cyclometer_core::event::PerfClass;
use cyclometer_core::exec::{At, RefusalKind};
use cyclometer_core::pmu::CorePmuName;
use cyclometer_core::reason::{PerfRefusal, RefusalReason};
use cyclometer_core::{Modes, PartReason, Refusal, Slot, SlotId, Target};
use cyclometer_sys::perf::{self, Attr, GroupValues, OpenEvent, Values, flags};
use cyclometer_sys::process::{self, errno};

use super::group::{self, PerfGroup, PerfMember};
use super::refusal;
use super::target::{self, EventTarget};

/// An open event.
#[derive(Debug)]
pub(super) struct OpenedEvent {
    pub(super) slot: SlotId,
    /// The event's name, for messages.
    pub(super) name: String,
    pub(super) at: At,
    pub(super) event: OpenEvent,
    /// It leads: it is enabled and disabled itself, and others follow it.
    pub(super) leads: bool,
    pub(super) starts_at_exec: bool,
    /// The rotation group in which it counts; `None`: all.
    pub(super) rotation_group: Option<u32>,
    /// Why its value may be incomplete.
    pub(super) partial: Option<PartReason>,
    /// A core PMU counts it.
    pub(super) is_core: bool,
    /// Number of events that reading it reads: itself, and those that follow it here.
    pub(super) reads: usize,
}

/// Number of events that are read without allocating memory.
const ROOM: usize = 29;

impl OpenedEvent {
    /// Its own value; `None` when a pinned event has lost its counter.
    pub(super) fn read(&self) -> io::Result<Option<Values>> {
        if self.reads == 1 {
            return self.event.read();
        }
        let (mut few, mut many) = ([0; GroupValues::words(ROOM)], Vec::new());
        let room = match self.reads {
            0..=ROOM => few.as_mut_slice(),
            _ => {
                many.resize(GroupValues::words(self.reads), 0);
                many.as_mut_slice()
            }
        };
        Ok(self.event.read_group(room)?.and_then(|group| group.of(0)))
    }
}

/// How events are opened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct How {
    /// Events of the calling thread may be read by instructions.
    pub(super) user_reads: bool,
    /// Reads share system calls: software events form a group, and the leader reads a group.
    pub(super) together: bool,
}

/// Opens every slot on a target; a refusal closes everything again.
pub(super) fn open_all(slots: &[Slot], target: &Target, how: How) -> Result<Vec<OpenedEvent>, Refusal> {
    let units = group::units(slots)?;
    let mut places = target::places(target)?;
    let of_this_thread = *target == Target::ThisThread;
    // Events that are inherited cannot be read as a group.
    let not_inherited = of_this_thread || matches!(target, Target::Cpus(_) | Target::Cgroup { .. });
    let together = how.together && not_inherited;
    for place in &mut places {
        (place.user_reads, place.together) = (how.user_reads && of_this_thread, together);
    }
    if !together {
        return open_units(slots, &units, &places, target);
    }
    let joined = group::join_software(units.clone());
    match open_units(slots, &joined, &places, target) {
        // The user did not request that group. After a refusal the events are opened separately, and the
        // refusal is that of the event itself.
        Err(_) if joined.len() < units.len() => open_units(slots, &units, &places, target),
        answer => answer,
    }
}

fn open_units(
    slots: &[Slot],
    units: &[PerfGroup<'_>],
    places: &[EventTarget],
    target: &Target,
) -> Result<Vec<OpenedEvent>, Refusal> {
    let mut opened = Vec::new();
    for unit in units {
        let Some(leader) = unit.leader() else { continue };
        for place in target::narrowed(places, leader.event) {
            opened.extend(open_unit(unit, &place)?);
        }
    }
    for (pid, inherit) in target::processes(target) {
        opened.extend(open_threads(units, pid, inherit)?);
    }
    match slots.iter().find(|slot| opened.iter().all(|o| o.slot != slot.id)) {
        Some(slot) => Err(nowhere(slot)),
        None => Ok(opened),
    }
}

/// How often to retry when threads start during opening.
const ATTEMPTS: usize = 3;

/// Opens the units on every thread of a process.
///
/// A thread that starts meanwhile is counted by inheritance, or missed, and which of the two is unknown. Then
/// all events are closed and opened again. After the last attempt, the events are marked as partial. Opening
/// such a thread as well could count it twice.
fn open_threads(units: &[PerfGroup<'_>], pid: u32, inherit: bool) -> Result<Vec<OpenedEvent>, Refusal> {
    let unrelated = |error: std::io::Error| {
        let reason = PerfRefusal::ThreadsNotListed { pid, error: error.to_string() };
        Refusal::of_target(RefusalKind::TargetNotSupported, reason)
    };
    process::check_process_list().map_err(unrelated)?;
    let mut attempts = 1;
    loop {
        let listed: BTreeSet<u32> = target::threads(pid).into_iter().collect();
        let mut opened = open_listed(units, pid, &listed, inherit)?;
        let newcomers = target::threads(pid).into_iter().filter(|tid| !listed.contains(tid)).count();
        if newcomers == 0 {
            return Ok(opened);
        }
        if attempts == ATTEMPTS {
            opened.iter_mut().for_each(|opened| opened.partial = Some(PartReason::NewThreads(newcomers)));
            return Ok(opened);
        }
        attempts += 1;
    }
}

fn open_listed(
    units: &[PerfGroup<'_>],
    pid: u32,
    listed: &BTreeSet<u32>,
    inherit: bool,
) -> Result<Vec<OpenedEvent>, Refusal> {
    let mut opened = Vec::new();
    for tid in listed {
        match open_thread(units, &EventTarget::thread(*tid, inherit)) {
            Ok(events) => opened.extend(events),
            // The thread ended between listing and opening.
            Err(refusal) if refusal.kind == RefusalKind::NoSuchTarget => {}
            Err(refusal) => return Err(refusal),
        }
    }
    let bound_to_threads = |unit: &PerfGroup<'_>| !is_system_wide(unit);
    if opened.is_empty() && (listed.is_empty() || units.iter().any(bound_to_threads)) {
        let reason = RefusalReason::NoTarget { target: format!("process {pid}") };
        return Err(Refusal::of_target(RefusalKind::NoSuchTarget, reason));
    }
    Ok(opened)
}

fn open_thread(units: &[PerfGroup<'_>], place: &EventTarget) -> Result<Vec<OpenedEvent>, Refusal> {
    let mut opened = Vec::new();
    for unit in units.iter().filter(|unit| !is_system_wide(unit)) {
        opened.extend(open_unit(unit, place)?);
    }
    Ok(opened)
}

fn is_system_wide(unit: &PerfGroup<'_>) -> bool {
    unit.leader().is_some_and(|leader| leader.event.class == PerfClass::SystemDevice)
}

fn nowhere(slot: &Slot) -> Refusal {
    let reason = PerfRefusal::NotOnCpus { event: slot.name.clone() };
    Refusal::of_slot(slot.id, RefusalKind::TargetNotSupported, reason)
}

/// Opens the events of a unit at one place, the leader first.
fn open_unit(unit: &PerfGroup<'_>, place: &EventTarget) -> Result<Vec<OpenedEvent>, Refusal> {
    let mut opened: Vec<OpenedEvent> = Vec::with_capacity(unit.members.len());
    for member in &unit.members {
        let leader = opened.first().map(|first| &first.event);
        let reads = if place.together && leader.is_none() { unit.members.len() } else { 1 };
        let attr = attributes(unit, member, place, leader.is_none());
        let attr = if reads > 1 { attr.read_as_group() } else { attr };
        let event =
            open_event(&attr, place, leader).map_err(|e| refused(unit, member, place, &e, opened.len()))?;
        opened.push(OpenedEvent {
            slot: member.slot.id,
            name: member.slot.name.clone(),
            at: place.at(member.part, &member.event.pmu),
            event,
            leads: opened.is_empty(),
            starts_at_exec: place.starts_at_exec,
            rotation_group: unit.rotation_group(),
            partial: None,
            is_core: member.event.class == PerfClass::Core,
            reads,
        });
    }
    Ok(opened)
}

/// Opens an event; retries with a higher limit when this process has too many files open.
pub(super) fn open_event(
    attr: &Attr,
    place: &EventTarget,
    leader: Option<&OpenEvent>,
) -> io::Result<OpenEvent> {
    let open = || perf::open(attr, place.whom(), place.cpu(), leader);
    match open() {
        Err(e) if e.raw_os_error() == Some(errno::EMFILE) && process::raise_open_files().is_ok() => open(),
        answer => answer,
    }
}

/// The attributes of an event; attributes of the whole group are set on the leader only.
pub(super) fn attributes(
    unit: &PerfGroup<'_>,
    member: &PerfMember<'_>,
    place: &EventTarget,
    leads: bool,
) -> Attr {
    let mut attr = Attr::new(member.event.pmu_type, member.event.words.config);
    attr.config1 = member.event.words.config1;
    attr.config2 = member.event.words.config2;
    attr.flags = mode_flags(member.slot);
    let any = |is: fn(&Slot) -> bool| unit.members.iter().any(|member| is(member.slot));
    let facts = [
        (leads, flags::DISABLED),
        (leads && place.starts_at_exec && is_first(unit.rotation_group()), flags::ENABLE_ON_EXEC),
        (leads && any(|slot| slot.pinned), flags::PINNED),
        (leads && any(|slot| slot.exclusive), flags::EXCLUSIVE),
        (place.inherit, flags::INHERIT),
    ];
    attr.flags |= chosen(&facts);
    if place.user_reads {
        attr.config1 |= user_read_bits(&member.event.pmu);
    }
    attr
}

/// The bits of `config1` that an event needs so that its counter may be read in user space.
pub(super) fn user_read_bits(pmu: &str) -> u64 {
    match CorePmuName::of(pmu) {
        Some(driver) if driver.shares_counters_on_request() => ARM_USER_READ,
        _ => 0,
    }
}

/// The bit that requests reads in user space from Arm's PMUs.
///
/// # Source
///
/// Linux `drivers/perf/arm_pmuv3.c`, format attribute `rdpmc`: `config1:1`.
const ARM_USER_READ: u64 = 1 << 1;

/// Whether events of this rotation group count from the start.
pub(super) fn is_first(rotation_group: Option<u32>) -> bool {
    matches!(rotation_group, None | Some(0))
}

pub(super) fn mode_flags(slot: &Slot) -> u64 {
    let counted = slot.filter.unwrap_or(Modes::ALL);
    chosen(&[
        (!counted.user, flags::EXCLUDE_USER),
        (!counted.kernel, flags::EXCLUDE_KERNEL),
        (!counted.hypervisor, flags::EXCLUDE_HV),
        (slot.exclude_idle, flags::EXCLUDE_IDLE),
        (slot.exclude_guest || slot.host_only, flags::EXCLUDE_GUEST),
        (slot.guest_only, flags::EXCLUDE_HOST),
    ])
}

fn chosen(facts: &[(bool, u64)]) -> u64 {
    facts.iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum()
}

/// Why an event was not opened. If a member of a group opens alone, the group is too large.
pub(super) fn refused(
    unit: &PerfGroup<'_>,
    member: &PerfMember<'_>,
    place: &EventTarget,
    e: &io::Error,
    before: usize,
) -> Refusal {
    let (kind, answer) = refusal::meaning(e, &member.event.pmu, &place.to_string());
    let alone = attributes(&PerfGroup { members: vec![*member] }, member, place, true);
    if kind == RefusalKind::Invalid && before > 0 && open_event(&alone, place, None).is_ok() {
        let reason = PerfRefusal::GroupTooLarge {
            events: unit.members.iter().map(|member| member.slot.name.clone()).collect(),
            pmu: member.event.pmu.clone(),
            opened: before,
        };
        return Refusal::of_slot(member.slot.id, RefusalKind::GroupTooLarge, reason);
    }
    let opens_beside = |elsewhere: &EventTarget| open_event(&alone, elsewhere, None).is_ok();
    if e.raw_os_error() == Some(errno::ENOENT)
        && let Some(reason) = place.without_controller()
        && place.without_group().as_ref().is_some_and(opens_beside)
    {
        return Refusal::of_target(RefusalKind::NoSuchTarget, reason);
    }
    match kind {
        RefusalKind::NoSuchTarget => Refusal::of_target(kind, PerfRefusal::Answer(answer)),
        _ => Refusal::of_slot(member.slot.id, kind, PerfRefusal::Answer(answer)),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use cyclometer_core::event::PerfEvent;
    use cyclometer_core::pmu::ConfigWords;
    use cyclometer_core::{Part, Rung};

    pub(in crate::perf) fn perf_event(pmu: &str, pmu_type: u32, class: PerfClass) -> PerfEvent {
        let words = ConfigWords { config: 1, config1: 2, config2: 3 };
        PerfEvent { words, ..PerfEvent::new(pmu, pmu_type, 0, class) }
    }

    pub(in crate::perf) fn event(pmu: &str, pmu_type: u32, class: PerfClass) -> Part {
        Part::Perf(perf_event(pmu, pmu_type, class))
    }

    pub(in crate::perf) fn slot(id: usize, group: Option<u32>, parts: Vec<Part>) -> Slot {
        Slot { group, ..Slot::new(SlotId(id), format!("e{id}"), Rung::Perf, parts) }
    }

    fn attr_of(slot: &Slot, target: &Target, leads: bool) -> Attr {
        let slots = [slot.clone()];
        let units = group::units(&slots).unwrap();
        let place = target::places(target).unwrap().remove(0);
        attributes(&units[0], &units[0].members[0], &place, leads)
    }

    #[test]
    fn a_child_is_armed_for_exec_and_a_thread_is_not() {
        let slot = slot(0, None, vec![event("cpu", 4, PerfClass::Core)]);
        let child = attr_of(&slot, &Target::Child(1), true);
        assert_eq!(child.flags, flags::DISABLED | flags::ENABLE_ON_EXEC | flags::INHERIT);
        assert_eq!((child.pmu_type, child.config, child.config1, child.config2), (4, 1, 2, 3));
        assert_eq!(attr_of(&slot, &Target::ThisThread, true).flags, flags::DISABLED);
        assert_eq!(attr_of(&slot, &Target::Child(1), false).flags, flags::INHERIT);
    }

    #[test]
    fn a_later_turn_is_not_armed_for_exec() {
        let mut slot = slot(0, None, vec![event("cpu", 4, PerfClass::Core)]);
        for (rotation_group, armed) in [(None, true), (Some(0), true), (Some(1), false)] {
            slot.rotation_group = rotation_group;
            let set = attr_of(&slot, &Target::Child(1), true).flags;
            assert_eq!((set & flags::ENABLE_ON_EXEC != 0, set & flags::DISABLED != 0), (armed, true));
        }
    }

    #[test]
    fn a_filter_excludes_what_it_does_not_name() {
        let mut slot = slot(0, None, vec![]);
        assert_eq!(mode_flags(&slot), 0);
        slot.filter = Some(Modes::USER);
        assert_eq!(mode_flags(&slot), flags::EXCLUDE_KERNEL | flags::EXCLUDE_HV);
        slot.filter = Some(Modes::KERNEL);
        assert_eq!(mode_flags(&slot), flags::EXCLUDE_USER | flags::EXCLUDE_HV);
        slot.filter = Some(Modes::ALL);
        (slot.exclude_guest, slot.guest_only, slot.exclude_idle) = (true, true, true);
        assert_eq!(mode_flags(&slot), flags::EXCLUDE_GUEST | flags::EXCLUDE_HOST | flags::EXCLUDE_IDLE);
    }

    #[test]
    fn a_pinned_member_pins_the_leader() {
        let mut slots = [0, 1].map(|id| slot(id, Some(0), vec![event("cpu", 4, PerfClass::Core)]));
        (slots[1].pinned, slots[1].exclusive) = (true, true);
        let units = group::units(&slots).unwrap();
        let place = target::places(&Target::ThisThread).unwrap().remove(0);
        let flags_of = |i: usize| attributes(&units[0], &units[0].members[i], &place, i == 0).flags;
        assert_eq!(flags_of(0), flags::DISABLED | flags::PINNED | flags::EXCLUSIVE);
        assert_eq!(flags_of(1), 0);
    }
}
