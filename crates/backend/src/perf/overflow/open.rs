//! Opens an event with a ring at every place of a target.

use std::io;
use std::num::NonZeroU64;

use cyclometer_core::event::{PerfClass, PerfEvent};
use cyclometer_core::exec::RefusalKind;
use cyclometer_core::reason::{EventFamily, PerfRefusal, RefusalReason};
use cyclometer_core::{Part, Refusal, Slot, SlotId, Target};
use cyclometer_sys::perf::{Attr, CLOCK_MONOTONIC, OpenEvent, flags};
use cyclometer_sys::process::errno;
use cyclometer_sys::ring::{Format, Ring, read_format, sample_type};

use super::{FurtherPeriod, OverflowSampling, SampledEvent, trouble};
use crate::perf::group::{PerfGroup, PerfMember};
use crate::perf::program::{attributes, open_event, refused};
use crate::perf::target::{self, EventTarget};

/// The sampled events of a group, and how they are sampled.
#[derive(Clone, Copy)]
pub(super) struct GroupSampling<'a> {
    pub(super) how: OverflowSampling,
    /// Members that interrupt at periods of their own.
    pub(super) further: &'a [FurtherPeriod],
}

impl GroupSampling<'_> {
    /// The period of a member; `None` where only its counts are in the samples.
    fn period_of(self, member: &PerfMember<'_>) -> Option<NonZeroU64> {
        let of_it = |further: &&FurtherPeriod| further.slot == member.slot.id;
        self.further.iter().find(of_it).map(|further| further.period_events)
    }
}

/// Opens everything, or nothing.
pub(super) fn rings(
    slot: &Slot,
    members: &[Slot],
    on: &Target,
    sampling: GroupSampling<'_>,
) -> Result<Vec<SampledEvent>, Refusal> {
    let how = sampling.how;
    if !target::processes(on).is_empty() {
        return Err(Refusal::of_target(RefusalKind::TargetNotSupported, PerfRefusal::SampledByThreads));
    }
    let mut places = if how.for_windows { target::places(on)? } else { places(on)? };
    places.iter_mut().for_each(|place| place.inherit &= !how.for_windows);
    let units = units(slot, members)?;
    if how.for_windows {
        units.iter().skip(1).try_for_each(alone_on_its_pmu)?;
    }
    let mut wanted = Vec::new();
    for (unit, leader) in units.iter().filter_map(|unit| Some((unit, unit.leader()?))) {
        let at = target::narrowed(&places, leader.event);
        wanted.extend(at.into_iter().map(|place| (unit, leader, place)));
    }
    if wanted.is_empty() {
        let reason = PerfRefusal::NotOnCpus { event: slot.name.clone() };
        return Err(Refusal::of_slot(slot.id, RefusalKind::TargetNotSupported, reason));
    }
    let rings = wanted.len();
    wanted.iter().map(|(unit, leader, place)| ring(unit, leader, place, sampling, rings)).collect()
}

/// The places of a target. Unless they are bound to a CPU, the kernel gives no ring to events that new
/// threads inherit.
///
/// # Source
///
/// Linux `kernel/events/core.c`, `perf_mmap`.
fn places(on: &Target) -> Result<Vec<EventTarget>, Refusal> {
    let places = target::places(on)?;
    let Some(online) = target::all_online() else { return Ok(places) };
    let split = |place: EventTarget| match (place.inherit, place.cpu()) {
        (true, None) => place.on_each(&online),
        _ => vec![place],
    };
    Ok(places.into_iter().flat_map(split).collect())
}

/// The event on each of its PMUs, with the members on the same PMU and the kernel's own.
fn units<'a>(slot: &'a Slot, members: &'a [Slot]) -> Result<Vec<PerfGroup<'a>>, Refusal> {
    let leaders = events(slot)?;
    let unit = |leader: PerfMember<'a>| {
        let mut unit = PerfGroup { members: vec![leader] };
        for member in members {
            let beside = events(member)?.into_iter().find(|member| is_beside(member.event, leader.event));
            unit.members.push(beside.ok_or_else(|| elsewhere(member, leader.event))?);
        }
        Ok(unit)
    };
    leaders.into_iter().map(unit).collect()
}

fn events(slot: &Slot) -> Result<Vec<PerfMember<'_>>, Refusal> {
    let events: Vec<PerfMember<'_>> = slot
        .parts
        .iter()
        .enumerate()
        .map(|(part, what)| event(slot, part, what))
        .collect::<Result<_, _>>()?;
    let pmu = |i: usize| events[i].event.pmu.as_str();
    if (1..events.len()).any(|i| (0..i).any(|other| pmu(other) == pmu(i))) {
        let reason = PerfRefusal::SampleOfSum { event: slot.name.clone() };
        return Err(Refusal::of_slot(slot.id, RefusalKind::Invalid, reason));
    }
    Ok(events)
}

fn event<'a>(slot: &'a Slot, part: usize, what: &'a Part) -> Result<PerfMember<'a>, Refusal> {
    match what {
        Part::Perf(event) => Ok(PerfMember { slot, part, event }),
        _ => {
            let of = EventFamily::SampledPerf;
            let reason = RefusalReason::NotAmongEvents { event: slot.name.clone(), of };
            Err(Refusal::of_slot(slot.id, RefusalKind::Invalid, reason))
        }
    }
}

/// On a hybrid a thread has a group on each PMU; the kernel's own events would be in all of them.
fn alone_on_its_pmu(unit: &PerfGroup<'_>) -> Result<(), Refusal> {
    let of_kernel = unit.members.iter().find(|member| member.event.class == PerfClass::Software);
    of_kernel.map_or(Ok(()), |member| {
        let reason = PerfRefusal::CountedByEachPmu { event: member.slot.name.clone() };
        Err(Refusal::of_slot(member.slot.id, RefusalKind::GroupMixed, reason))
    })
}

fn is_beside(event: &PerfEvent, leader: &PerfEvent) -> bool {
    event.pmu == leader.pmu || event.class == PerfClass::Software || leader.class == PerfClass::Software
}

fn elsewhere(member: &Slot, leader: &PerfEvent) -> Refusal {
    let reason = PerfRefusal::NotOnPmuOfGroup { event: member.name.clone(), pmu: leader.pmu.clone() };
    Refusal::of_slot(member.id, RefusalKind::GroupMixed, reason)
}

/// Opens the event with its members at one place, and its ring; `rings` is the number of all rings.
fn ring(
    unit: &PerfGroup<'_>,
    leader: &PerfMember<'_>,
    place: &EventTarget,
    sampling: GroupSampling<'_>,
    rings: usize,
) -> Result<SampledEvent, Refusal> {
    let how = sampling.how;
    let (event, format) = leading(unit, leader, place, sampling)?;
    let mut members: Vec<OpenEvent> = Vec::new();
    for member in unit.members.iter().skip(1) {
        let attr = beside(unit, member, place, sampling, format);
        let before = members.len() + 1;
        let opened = open_event(&attr, place, Some(&event));
        members.push(opened.map_err(|e| match attr.sample_period {
            0 => refused(unit, member, place, &e, before),
            _ => trouble::of_leader(unit, member, place, &attr, &e),
        })?);
    }
    let ring = Ring::of(&event, how.ring_pages);
    let ring = ring.map_err(|e| trouble::of_ring(leader.slot, place, how, rings, &e))?;
    let further = into_one_ring(unit, &members, &event, sampling).map_err(|(member, e)| {
        let reason = PerfRefusal::NotInBuffer { event: member.name.clone(), error: e.to_string() };
        Refusal::of_slot(member.id, RefusalKind::Other, reason)
    })?;
    Ok(SampledEvent {
        ring,
        event,
        _members: members,
        further,
        format,
        at: place.at(leader.part, &leader.event.pmu),
        name: leader.slot.name.clone(),
        starts_at_exec: place.starts_at_exec,
        has_ended: false,
    })
}

/// Opens the sampled event. Kernels before 6.0 do not count lost samples, and reject a request to do so.
fn leading(
    unit: &PerfGroup<'_>,
    leader: &PerfMember<'_>,
    place: &EventTarget,
    sampling: GroupSampling<'_>,
) -> Result<(OpenEvent, Format), Refusal> {
    let how = sampling.how;
    let mut answer = Err(io::Error::from_raw_os_error(errno::EINVAL));
    for lost in [read_format::LOST, 0] {
        let format = format(unit, leader.event, sampling, lost);
        answer = open_event(&sampled(unit, leader, place, how, format), place, None);
        match answer {
            Ok(event) => return Ok((event, format)),
            Err(ref e) if e.raw_os_error() == Some(errno::EINVAL) => {}
            Err(_) => break,
        }
    }
    let why = answer.err().unwrap_or_else(|| io::Error::from_raw_os_error(errno::EINVAL));
    let attr = sampled(unit, leader, place, how, format(unit, leader.event, sampling, 0));
    Err(trouble::of_leader(unit, leader, place, &attr, &why))
}

/// The attributes of a member of the group. Its samples have the fields of the leader's, as they are in the
/// same ring.
fn beside(
    unit: &PerfGroup<'_>,
    member: &PerfMember<'_>,
    place: &EventTarget,
    sampling: GroupSampling<'_>,
    format: Format,
) -> Attr {
    let attr = timed(attributes(unit, member, place, false));
    match sampling.period_of(member) {
        Some(period) => {
            let mut attr = attr.sampling(period.get(), format);
            attr.flags |= flags::SAMPLE_ID_ALL;
            attr
        }
        None => attr,
    }
}

/// Has members that are sampled write to the ring of the leader; gives their ids in its records.
///
/// # Source
///
/// `perf_event_open(2)`, `PERF_EVENT_IOC_SET_OUTPUT`.
fn into_one_ring<'a>(
    unit: &PerfGroup<'a>,
    members: &[OpenEvent],
    leader: &OpenEvent,
    sampling: GroupSampling<'_>,
) -> Result<Vec<(u64, SlotId)>, (&'a Slot, io::Error)> {
    let sampled = unit.members.iter().skip(1).zip(members);
    let sampled = sampled.filter(|(member, _)| sampling.period_of(member).is_some());
    let ids = sampled.map(|(member, event)| {
        let id = event.write_to_ring_of(leader).and_then(|()| event.id());
        id.map(|id| (id, member.slot.id)).map_err(|e| (member.slot, e))
    });
    ids.collect()
}

/// Takes times from the monotonic clock, which the whole group has to use.
fn timed(mut attr: Attr) -> Attr {
    attr.flags |= flags::USE_CLOCKID;
    attr.clockid = CLOCK_MONOTONIC;
    attr
}

/// The attributes of the sampled event.
fn sampled(
    unit: &PerfGroup<'_>,
    leader: &PerfMember<'_>,
    place: &EventTarget,
    how: OverflowSampling,
    format: Format,
) -> Attr {
    let attr = attributes(unit, leader, place, true).sampling(how.period_events.get(), format);
    let mut attr = timed(attr);
    attr.wakeup_events = how.wake_after;
    if how.for_windows {
        attr.flags |= flags::SAMPLE_ID_ALL;
        if !place.is_everyones() {
            attr.flags |= flags::TASK | flags::CONTEXT_SWITCH;
            attr.flags |= flags::MMAP | flags::MMAP2 | flags::COMM | flags::COMM_EXEC;
        }
        // The counters of the totals beside would share the PMU with windows otherwise.
        attr.flags |= flags::PINNED;
    }
    attr
}

/// The fields of samples and readings, for all sampled events of the group. The period of an event that the
/// kernel counts itself is known, and not requested: requesting it would sample the event each time it
/// happens.
///
/// # Source
///
/// Linux `kernel/events/core.c`, `perf_swevent_event`.
fn format(unit: &PerfGroup<'_>, event: &PerfEvent, sampling: GroupSampling<'_>, lost: u64) -> Format {
    use sample_type as tells;
    let how = sampling.how;
    let further = unit.members.iter().filter(|member| sampling.period_of(member).is_some());
    let of_kernel = std::iter::once(event)
        .chain(further.map(|member| member.event))
        .any(|event| event.class == PerfClass::Software);
    let of_group = unit.members.len() > 1;
    let fields = [
        (true, tells::IDENTIFIER | tells::IP | tells::TID | tells::TIME | tells::CPU),
        (!of_kernel, tells::PERIOD),
        (how.with_addresses, tells::ADDR),
        (of_group || how.for_windows, tells::READ),
    ];
    let times = read_format::TIME_ENABLED | read_format::TIME_RUNNING;
    let group = if of_group { read_format::GROUP } else { 0 };
    let fields = fields.iter().filter(|(is, _)| *is).map(|(_, fields)| fields).sum();
    // The format supports all of these fields.
    Format::new(fields, times | group | lost).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::program::tests::{event, slot};

    fn alone() -> GroupSampling<'static> {
        GroupSampling { how: how(), further: &[] }
    }

    fn how() -> OverflowSampling {
        OverflowSampling { with_addresses: true, wake_after: 3, ..OverflowSampling::every(NonZeroU64::MIN) }
    }

    #[test]
    fn only_the_kernels_own_events_are_not_asked_for_their_period() {
        for (class, asked) in [(PerfClass::Core, true), (PerfClass::Software, false)] {
            let slots = [slot(0, None, vec![event("p", 4, class)])];
            let units = units(&slots[0], &[]).unwrap();
            let format = format(&units[0], units[0].members[0].event, alone(), 0);
            assert_eq!(format.samples(sample_type::PERIOD), asked);
            assert!(format.samples(sample_type::IP) && format.samples(sample_type::ADDR));
            assert!(!format.samples(sample_type::READ) && !format.reads(read_format::GROUP));
        }
    }

    #[test]
    fn windows_of_a_cpu_have_no_records_of_its_tasks() {
        let slots = [slot(0, None, vec![event("p", 4, PerfClass::Software)])];
        let units = units(&slots[0], &[]).unwrap();
        let first = units[0].members[0];
        let how = OverflowSampling { for_windows: true, ..how() };
        let format = format(&units[0], first.event, GroupSampling { how, further: &[] }, 0);
        let of = |target: &Target| {
            let place = target::places(target).unwrap().remove(0);
            sampled(&units[0], &first, &place, how, format).flags
        };
        let of_tasks = flags::TASK | flags::CONTEXT_SWITCH | flags::MMAP | flags::COMM;
        assert_eq!(of(&Target::ThisThread) & of_tasks, of_tasks);
        assert_eq!(of(&Target::Cpus([0].into_iter().collect())) & of_tasks, 0);
    }

    #[test]
    fn the_leader_interrupts_and_its_samples_have_the_values_of_the_members() {
        let [leader, member] = [0, 1].map(|id| slot(id, None, vec![event("cpu", 4, PerfClass::Core)]));
        let members = [member];
        let units = units(&leader, &members).unwrap();
        let place = places(&Target::ThisThread).unwrap().remove(0);
        let first = units[0].members[0];
        let format = format(&units[0], first.event, alone(), read_format::LOST);
        let attr = sampled(&units[0], &first, &place, how(), format);
        assert!(format.samples(sample_type::READ) && format.reads(read_format::GROUP));
        assert_eq!((attr.sample_period, attr.wakeup_events, attr.clockid), (1, 3, CLOCK_MONOTONIC));
        assert_eq!(attr.sample_type, format.sample_type());
        assert_eq!(attributes(&units[0], &units[0].members[1], &place, false).sample_period, 0);
    }

    #[test]
    fn a_member_with_a_period_interrupts_too_and_its_samples_have_the_fields_of_the_leaders() {
        let leader = slot(0, None, vec![event("cpu", 4, PerfClass::Core)]);
        let members =
            [(1, "cpu", PerfClass::Core), (2, "software", PerfClass::Software), (3, "cpu", PerfClass::Core)]
                .map(|(id, pmu, class)| slot(id, None, vec![event(pmu, 4, class)]));
        let units = units(&leader, &members).unwrap();
        let place = places(&Target::ThisThread).unwrap().remove(0);
        let period = |id: usize| FurtherPeriod {
            slot: members[id - 1].id,
            period_events: NonZeroU64::new(700 + id as u64).unwrap(),
        };
        for (further, tells_period) in [(vec![period(1)], true), (vec![period(1), period(2)], false)] {
            let sampling = GroupSampling { how: how(), further: &further };
            let format = format(&units[0], units[0].members[0].event, sampling, 0);
            assert_eq!(format.samples(sample_type::PERIOD), tells_period);
            let periods: Vec<u64> = units[0].members[1..]
                .iter()
                .map(|member| beside(&units[0], member, &place, sampling, format))
                .inspect(|attr| assert!(attr.sample_period == 0 || attr.sample_type == format.sample_type()))
                .map(|attr| attr.sample_period)
                .collect();
            assert_eq!(periods, [701, if tells_period { 0 } else { 702 }, 0]);
        }
    }

    #[test]
    fn a_sum_of_events_has_no_period_and_is_no_member() {
        let sum = slot(0, None, vec![event("cpu", 4, PerfClass::Core), event("cpu", 4, PerfClass::Core)]);
        let single = slot(1, None, vec![event("cpu", 4, PerfClass::Core)]);
        for refused in [units(&sum, &[]), units(&single, std::slice::from_ref(&sum))] {
            let refused = refused.unwrap_err();
            assert_eq!((refused.slot, refused.kind), (Some(sum.id), RefusalKind::Invalid));
            assert!(
                refused.reason.to_string().starts_with("e0 is a sum of events here"),
                "{}",
                refused.reason
            );
        }
    }

    #[test]
    fn on_a_hybrid_each_core_type_has_its_group() {
        let both = || vec![event("cpu_core", 4, PerfClass::Core), event("cpu_atom", 10, PerfClass::Core)];
        let (leader, beside) = (slot(0, None, both()), slot(1, None, both()));
        let soft = slot(2, None, vec![event("software", 1, PerfClass::Software)]);
        let members = [beside, soft];
        let found = units(&leader, &members).unwrap();
        let pmus =
            |unit: &PerfGroup<'_>| unit.members.iter().map(|one| one.event.pmu.clone()).collect::<Vec<_>>();
        let shape: Vec<_> = found.iter().map(pmus).collect();
        assert_eq!(shape, [["cpu_core", "cpu_core", "software"], ["cpu_atom", "cpu_atom", "software"]]);
        let alone = [slot(3, None, vec![event("cpu_core", 4, PerfClass::Core)])];
        let refusal = units(&leader, &alone).unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::GroupMixed);
        assert!(refusal.reason.to_string().contains("e3 is not on cpu_atom"), "{}", refusal.reason);
    }

    #[test]
    fn a_command_is_sampled_on_each_cpu_and_a_running_process_is_refused() {
        let Some(online) = target::all_online() else { return };
        let child = places(&Target::Child(7)).unwrap();
        assert_eq!(child.len(), online.len());
        assert!(child.iter().all(|place| place.cpu().is_some() && place.starts_at_exec && place.inherit));
        let clock = slot(0, None, vec![event("software", 1, PerfClass::Software)]);
        let refusal = rings(&clock, &[], &Target::Process { pid: 1, inherit: true }, alone()).unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::TargetNotSupported);
    }
}
