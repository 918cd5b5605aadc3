//! Rotation within a run: which events count now, and what they counted in each slice of time.
//!
//! A rotation group ends in this order: the next one is selected, then the old one is read. So an event
//! misses only the moment between the control of its rotation group and that of the other, and not the time
//! that reading takes; what always counts is read in one moment, which ends one slice and begins the next.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use cyclometer_core::event::Part;
use cyclometer_core::exec::{At, Cell, CellKey, PlaceCells, Reading};
use cyclometer_core::report::{Slice, SliceCount};
use cyclometer_core::{MissingReason, Pass, Random, Result, SlotId};

use crate::open_source::OpenSource;

/// A slice is at least one part in this many of the time that has passed, so that the log of a long run stays
/// small: 8,400 slices for 2 minutes, 22,000 for an hour.
const SLICES: u32 = 4_000;

/// A slice is at least this many times as long as it takes to change groups, so that this costs at most 5 %.
const TIMES_COST: u32 = 20;

/// How long a rotation group of the first round lasts: what a program does while it starts is short and
/// unlike the rest, and every rotation group should see some of it.
const FIRST: Duration = Duration::from_millis(1);

/// The growth of the length of a rotation group from round to round, up to the usual length.
const GROWTH: u32 = 2;

/// Until an event has counted, the next look is after one part in this many of the time that has passed.
const WAITED: u32 = 10;

/// The greatest growth of the estimated cost of a change of groups from one change to the next: an
/// interrupted change is an exception.
const MOST_GROWTH: u32 = 2;

/// The rotation groups of an open pass, and what they have counted so far.
pub(crate) struct PassRotation {
    /// For each rotation group that the sources know, its number in the plan.
    groups: Vec<u32>,
    /// The rotation group that is selected, as the sources know it.
    current: usize,
    /// The groups that are left of this round; the last comes next.
    round: Vec<usize>,
    random: Random,
    /// Shortest length of a rotation group in this round.
    shortest: Duration,
    /// The same once the rotation groups have grown to their usual length.
    usual: Duration,
    /// How long a change of groups takes.
    cost: Duration,
    clock: SliceClock,
    begun: bool,
    failure: Option<MissingReason>,
    last: LastValues,
    slices: Vec<Slice>,
}

/// The start of the run, the start of the slice, and the planned end of the slice.
struct SliceClock {
    started: Instant,
    since: Instant,
    due: Instant,
}

impl PassRotation {
    /// Numbers the rotation groups of a pass anew, in random order, because the first group sees the
    /// beginning of the run. `None` where there are fewer than two: then all slots count all the time.
    /// Rotation groups last at least `usual`, and less in the first rounds.
    pub(crate) fn of(pass: &mut Pass, random: &mut Random, usual: Duration) -> Option<PassRotation> {
        let mut known: Vec<u32> = pass.slots.iter().filter_map(|slot| slot.rotation_group).collect();
        known.sort_unstable();
        known.dedup();
        if known.len() < 2 {
            pass.slots.iter_mut().for_each(|slot| slot.renumber_rotation_groups(|_| None));
            return None;
        }
        let groups: Vec<u32> =
            random.permutation(known.len()).into_iter().map(|group| known[group]).collect();
        let opened = |old: u32| u32::try_from(groups.iter().position(|group| *group == old)?).ok();
        pass.slots.iter_mut().for_each(|slot| slot.renumber_rotation_groups(opened));
        let (now, shortest) = (Instant::now(), usual.min(FIRST));
        Some(PassRotation {
            round: (1..groups.len()).rev().collect(),
            groups,
            current: 0,
            random: Random::seeded(random.word()),
            shortest,
            usual,
            cost: shortest / TIMES_COST,
            clock: SliceClock { started: now, since: now, due: now + shortest },
            begun: false,
            failure: None,
            last: LastValues::of(pass),
            slices: Vec::new(),
        })
    }

    /// The run begins now.
    pub(crate) fn start(&mut self, now: Instant) {
        self.clock = SliceClock { started: now, since: now, due: now + self.shortest };
    }

    /// When the slice is to end; `None` when there will be no other.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.failure.is_none().then_some(self.clock.due)
    }

    /// The slices that have ended.
    pub(crate) fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// Ends the slice, and begins one of the next rotation group. Before anything has counted the rotation
    /// group stays: a command may not have been executed yet.
    pub(crate) fn next_group(&mut self, sources: &mut [OpenSource], now: &dyn Fn() -> Instant) {
        let began = now();
        if self.failure.is_some() || !self.has_begun(sources) {
            self.clock.due = began + self.pause(began - self.clock.started);
            return;
        }
        let (old, next) = (self.current, self.draw());
        if let Err(error) = each(sources, |source| source.counting.select(number(next))) {
            self.failure = Some(MissingReason::NotSelected { error: error.to_string() });
            return;
        }
        self.current = next;
        let mut reading = Reading::default();
        for source in sources.iter_mut().filter(|source| source.rotates()) {
            // Counters that cannot be read are missing in this slice.
            let mut own = Reading::default();
            if source.counting.read_rotation_group(number(old), &mut own).is_ok() {
                reading.cells.append(&mut own.cells);
            }
        }
        let ended = now();
        self.close(old, &reading, sources, ended);
        self.cost = self.likely_cost(ended - began);
        self.clock.due = ended + self.length(ended - self.clock.started);
    }

    fn likely_cost(&self, measured: Duration) -> Duration {
        measured.clamp(self.usual.min(FIRST) / TIMES_COST, self.cost * MOST_GROWTH)
    }

    /// How long to wait for the run to begin that has not begun in so much time.
    fn pause(&self, waited: Duration) -> Duration {
        (waited / WAITED).clamp(self.usual.min(FIRST), self.usual)
    }

    /// How long a slice is when so much time has passed.
    fn length(&self, passed: Duration) -> Duration {
        self.shortest.max(passed / SLICES).max(self.cost * TIMES_COST)
    }

    /// Ends the last slice by what was read when everything had stopped. Where rotation groups could not be
    /// changed any more, the values of all that rotated are lost.
    pub(crate) fn end(mut self, reading: &mut Reading, sources: &[OpenSource], now: Instant) -> Vec<Slice> {
        let Some(failure) = self.failure.take() else {
            self.close(self.current, reading, sources, now);
            return self.slices;
        };
        let rotating = |slot: SlotId| sources.iter().any(|source| source.group_of(slot).is_some());
        for cell in reading.cells.iter_mut().filter(|cell| rotating(cell.slot)) {
            cell.lost.get_or_insert_with(|| failure.clone());
        }
        self.slices
    }

    /// Whether the events that rotate have counted for any time at all.
    fn has_begun(&mut self, sources: &mut [OpenSource]) -> bool {
        if !self.begun {
            let mut reading = Reading::default();
            // A source that cannot be read has not begun.
            let _ = each(sources, |source| {
                source.counting.read_rotation_group(number(self.current), &mut reading)
            });
            self.begun = reading.cells.iter().any(|cell| cell.time_enabled_ns > 0);
        }
        self.begun
    }

    /// The next rotation group: every one once in each round, in an order that is drawn for the round. Those
    /// of a round are of the same length, and longer than in the round before until they have their usual
    /// length.
    fn draw(&mut self) -> usize {
        if self.round.is_empty() {
            self.round = self.random.permutation(self.groups.len());
            self.shortest = self.usual.min(self.shortest * GROWTH);
        }
        self.round.pop().unwrap_or(0)
    }

    fn close(&mut self, group: usize, reading: &Reading, sources: &[OpenSource], now: Instant) {
        let wall_ns = crate::nanos(now - self.clock.since);
        self.clock.since = now;
        let counted = |slot: SlotId| {
            let groups = sources.iter().filter(|source| source.rotates() && source.holds(slot));
            groups.map(|source| source.group_of(slot)).any(|own| own.is_none_or(|own| own == number(group)))
        };
        let cells = reading.cells.iter().filter(|cell| counted(cell.slot));
        let counts = self.last.counts(cells);
        self.slices.push(Slice { rotation_group: self.groups[group], wall_ns, counts });
    }
}

fn number(group: usize) -> u32 {
    u32::try_from(group).unwrap_or(u32::MAX)
}

/// Does something to every source with slots that rotate; all of them, also after an error.
fn each(sources: &mut [OpenSource], mut what: impl FnMut(&mut OpenSource) -> Result<()>) -> Result<()> {
    let done: Vec<Result<()>> = sources.iter_mut().filter(|source| source.rotates()).map(&mut what).collect();
    done.into_iter().collect()
}

/// The value of every counter when its last slice ended.
#[derive(Default)]
struct LastValues {
    shown: HashMap<SlotId, HashMap<At, LastValue>>,
    /// The parts of each slot.
    parts: HashMap<SlotId, Vec<Part>>,
}

#[derive(Clone, Copy, Default)]
struct LastValue {
    raw: u64,
    time_enabled_ns: u64,
    time_running_ns: u64,
}

impl LastValue {
    /// The counts since then; `None` when a value went back.
    fn since(self, before: LastValue) -> Option<LastValue> {
        Some(LastValue {
            raw: self.raw.checked_sub(before.raw)?,
            time_enabled_ns: self.time_enabled_ns.checked_sub(before.time_enabled_ns)?,
            time_running_ns: self.time_running_ns.checked_sub(before.time_running_ns)?,
        })
    }

    /// With another summand on the same PMU, of which there is a sum for no longer than both counted.
    fn with_summand(self, other: LastValue) -> LastValue {
        LastValue {
            raw: self.raw.saturating_add(other.raw),
            time_enabled_ns: self.time_enabled_ns.max(other.time_enabled_ns),
            time_running_ns: self.time_running_ns.min(other.time_running_ns),
        }
    }

    /// With the part on another PMU of the same thread or CPU: wanted at the same time, counting at others.
    fn with_part(self, other: LastValue) -> LastValue {
        LastValue {
            raw: self.raw.saturating_add(other.raw),
            time_enabled_ns: self.time_enabled_ns.max(other.time_enabled_ns),
            time_running_ns: self.time_running_ns.saturating_add(other.time_running_ns),
        }
    }
}

impl LastValues {
    fn of(pass: &Pass) -> LastValues {
        let parts = pass.slots.iter().map(|slot| (slot.id, slot.parts.clone()));
        LastValues { parts: parts.collect(), ..LastValues::default() }
    }

    /// The counts of the slots of these cells since the last values, which these become.
    ///
    /// A CPU or thread with a lost cell, or without a summand of a sum, is left out, as at the end of the
    /// run. Its last values are kept: if it can be read again, the next counts include this slice. A slot of
    /// which a value went back has no count, because the rest of it would be less than what happened.
    fn counts<'a>(&mut self, cells: impl IntoIterator<Item = &'a Cell>) -> Vec<SliceCount> {
        let mut slots: BTreeMap<SlotId, Option<SliceCount>> = BTreeMap::new();
        for (CellKey { slot, .. }, place) in PlaceCells::group(cells) {
            let parts = self.parts.get(&slot).map(Vec::as_slice).unwrap_or_default();
            let is_lost = place.pmus().flatten().any(|cell| cell.lost.is_some());
            if is_lost || place.absent(parts).is_some() {
                continue;
            }
            let counted = self.renew(&place);
            let count = slots.entry(slot).or_insert(Some(zero(slot)));
            *count = count.zip(counted).map(|(count, counted)| with(count, counted));
        }
        slots.into_values().flatten().collect()
    }

    /// The counts of a place since its last values, which these become; `None` when a value went back.
    fn renew(&mut self, place: &PlaceCells<'_>) -> Option<LastValue> {
        let of_pmu = |cells: &[&Cell]| {
            let counted: Vec<Option<LastValue>> = cells.iter().map(|cell| self.renew_cell(cell)).collect();
            counted.into_iter().reduce(|a, b| Some(a?.with_summand(b?))).flatten()
        };
        let of_pmus: Vec<Option<LastValue>> = place.pmus().map(of_pmu).collect();
        of_pmus.into_iter().reduce(|a, b| Some(a?.with_part(b?))).flatten()
    }

    fn renew_cell(&mut self, cell: &Cell) -> Option<LastValue> {
        let now = LastValue {
            raw: cell.raw,
            time_enabled_ns: cell.time_enabled_ns,
            time_running_ns: cell.time_running_ns,
        };
        let of_slot = self.shown.entry(cell.slot).or_default();
        match of_slot.get_mut(&cell.at) {
            Some(last) => now.since(std::mem::replace(last, now)),
            None => {
                of_slot.insert(cell.at.clone(), now);
                Some(now)
            }
        }
    }
}

fn zero(slot: SlotId) -> SliceCount {
    SliceCount { slot, raw: 0, time_enabled_ns: 0, time_running_ns: 0 }
}

fn with(count: SliceCount, more: LastValue) -> SliceCount {
    SliceCount {
        raw: count.raw.saturating_add(more.raw),
        time_enabled_ns: count.time_enabled_ns.saturating_add(more.time_enabled_ns),
        time_running_ns: count.time_running_ns.saturating_add(more.time_running_ns),
        ..count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_core::event::{PerfClass, PerfEvent};
    use cyclometer_core::{Rung, Slot};

    fn pass(groups: &[Option<u32>]) -> Pass {
        let slot = |(id, group): (usize, &Option<u32>)| Slot {
            rotation_group: *group,
            ..Slot::new(SlotId(id), format!("e{id}"), Rung::Perf, Vec::new())
        };
        Pass { slots: groups.iter().enumerate().map(slot).collect(), ..Pass::default() }
    }

    fn rotation(groups: &[Option<u32>], seed: u64) -> (Pass, Option<PassRotation>) {
        let mut pass = pass(groups);
        let rotation = PassRotation::of(&mut pass, &mut Random::seeded(seed), Duration::ZERO);
        (pass, rotation)
    }

    #[test]
    fn every_group_is_the_first_of_some_run() {
        let firsts =
            (0..40).map(|seed| rotation(&[Some(0), Some(1), Some(2), None], seed).1.unwrap().groups[0]);
        let firsts: std::collections::BTreeSet<u32> = firsts.collect();
        assert_eq!(firsts.into_iter().collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn slots_keep_their_company_when_groups_are_numbered_anew() {
        for seed in 0..20 {
            let (pass, rotation) = rotation(&[Some(4), None, Some(9), Some(4)], seed);
            let of = |slot: usize| pass.slots[slot].rotation_group;
            assert_eq!((of(1), of(0)), (None, of(3)));
            let groups = rotation.unwrap().groups;
            assert_eq!((groups[of(0).unwrap() as usize], groups[of(2).unwrap() as usize]), (4, 9));
        }
    }

    #[test]
    fn a_group_that_is_alone_counts_all_the_time() {
        for groups in [&[Some(3), None, Some(3)][..], &[None], &[]] {
            let (pass, rotation) = rotation(groups, 1);
            assert!(
                rotation.is_none() && pass.slots.iter().all(|slot| slot.rotation_group.is_none()),
                "{groups:?}"
            );
        }
    }

    #[test]
    fn every_round_has_each_group_once_and_orders_differ() {
        let (_, rotation) = rotation(&[Some(0), Some(1), Some(2), Some(3)], 7);
        let mut rotation = rotation.unwrap();
        let first: Vec<usize> = (0..3).map(|_| rotation.draw()).collect();
        assert_eq!(first, [1, 2, 3], "the first turn has been selected when the pass was opened");
        let mut rounds = std::collections::BTreeSet::new();
        for _ in 0..30 {
            let round: Vec<usize> = (0..4).map(|_| rotation.draw()).collect();
            let mut sorted = round.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3]);
            rounds.insert(round);
        }
        assert!(rounds.len() > 10, "{rounds:?}");
    }

    #[test]
    fn slices_grow_with_the_run_and_with_what_a_change_costs() {
        let mut pass = pass(&[Some(0), Some(1)]);
        let ms = Duration::from_millis;
        let mut rotation = PassRotation::of(&mut pass, &mut Random::seeded(1), ms(10)).unwrap();
        (rotation.shortest, rotation.cost) = (ms(10), Duration::from_micros(500));
        assert_eq!(rotation.length(ms(0)), ms(10));
        assert_eq!(rotation.length(ms(100_000)), ms(25));
        rotation.cost = ms(2);
        assert_eq!(rotation.length(ms(0)), ms(40));
        assert_eq!(rotation.likely_cost(ms(500)), ms(4), "one interruption is not believed");
        assert_eq!(rotation.likely_cost(ms(0)), Duration::from_micros(50));
    }

    #[test]
    fn groups_are_short_at_first_so_that_each_sees_the_start_and_grow_from_round_to_round() {
        let mut pass = pass(&[Some(0), Some(1), Some(2)]);
        let ms = Duration::from_millis;
        let mut rotation = PassRotation::of(&mut pass, &mut Random::seeded(1), ms(10)).unwrap();
        let mut lengths = vec![rotation.length(ms(0))];
        for _ in 1..18 {
            rotation.draw();
            lengths.push(rotation.length(ms(0)));
        }
        let expected = [1, 2, 4, 8, 10, 10].into_iter().flat_map(|length| [ms(length); 3]);
        assert_eq!(lengths, expected.collect::<Vec<_>>());
        let pauses = [0, 5, 50, 5_000].map(|waited| rotation.pause(ms(waited)));
        assert_eq!(pauses, [ms(1), ms(1), ms(5), ms(10)]);
    }

    #[test]
    fn groups_asked_to_be_shorter_than_the_first_ones_are_of_one_length() {
        let mut pass = pass(&[Some(0), Some(1)]);
        let asked = Duration::from_micros(300);
        let mut rotation = PassRotation::of(&mut pass, &mut Random::seeded(1), asked).unwrap();
        for _ in 0..6 {
            rotation.draw();
            assert_eq!(rotation.length(Duration::ZERO), asked);
        }
    }

    #[test]
    fn the_log_of_a_long_run_stays_small() {
        let mut pass = pass(&[Some(0), Some(1)]);
        let mut rotation =
            PassRotation::of(&mut pass, &mut Random::seeded(1), Duration::from_millis(10)).unwrap();
        let (mut passed, mut slices) = (Duration::ZERO, 0);
        while passed < Duration::from_secs(24 * 3600) {
            rotation.draw();
            passed += rotation.length(passed);
            slices += 1;
        }
        assert!((20_000..40_000).contains(&slices), "{slices}");
    }

    fn cell(slot: usize, part: usize, tid: Option<u32>, raw: u64, times: (u64, u64)) -> Cell {
        let at = At { part, pmu: Some(format!("pmu{part}")), cpu: None, tid };
        Cell { at, ..Cell::new(SlotId(slot), raw, times.0, times.1) }
    }

    #[test]
    fn the_summands_of_a_sum_add_up_while_both_were_on_a_counter() {
        let on_pmu = |part, raw, times| {
            let mut cell = cell(0, part, None, raw, times);
            cell.at.pmu = Some("cpu".to_owned());
            cell
        };
        let mut last = LastValues::default();
        let counts = last.counts([on_pmu(0, 70, (100, 100)), on_pmu(1, 30, (100, 60))].iter());
        let expected = SliceCount { slot: SlotId(0), raw: 100, time_enabled_ns: 100, time_running_ns: 60 };
        assert_eq!(counts, [expected]);
    }

    #[test]
    fn threads_add_up_and_the_parts_of_a_hybrid_are_wanted_once() {
        let mut last = LastValues::default();
        let cells = [
            cell(0, 0, Some(7), 70, (100, 60)),
            cell(0, 1, Some(7), 30, (100, 40)),
            cell(0, 0, Some(8), 5, (50, 50)),
        ];
        let counts = last.counts(cells.iter());
        let expected = SliceCount { slot: SlotId(0), raw: 105, time_enabled_ns: 150, time_running_ns: 150 };
        assert_eq!(counts, [expected]);
    }

    /// A slot that is the sum of two events of one PMU, after a slice that counted 10 of each.
    fn sum_after_one_slice() -> LastValues {
        let event = || Part::Perf(PerfEvent::new("cpu", 4, 0, PerfClass::Core));
        let parts = [(SlotId(0), vec![event(), event()])].into();
        let mut last = LastValues { parts, ..LastValues::default() };
        last.counts([&summand(0, 10, 100), &summand(1, 10, 100)]);
        last
    }

    fn summand(part: usize, raw: u64, time_ns: u64) -> Cell {
        let at = At { part, pmu: Some("cpu".to_owned()), ..At::default() };
        Cell { at, ..Cell::new(SlotId(0), raw, time_ns, time_ns) }
    }

    #[test]
    fn a_sum_of_which_a_summand_went_back_has_no_count() {
        let mut last = sum_after_one_slice();
        assert_eq!(last.counts([&summand(0, 80, 200), &summand(1, 5, 200)]), []);
        let after = SliceCount { slot: SlotId(0), raw: 3, time_enabled_ns: 10, time_running_ns: 10 };
        assert_eq!(last.counts([&summand(0, 82, 210), &summand(1, 6, 210)]), [after], "since then");
    }

    #[test]
    fn a_sum_without_a_summand_has_no_count_until_all_are_read_again() {
        let gone = Cell { lost: Some("busy".into()), ..summand(1, 0, 0) };
        for unread in [vec![summand(0, 80, 200)], vec![summand(0, 80, 200), gone]] {
            let mut last = sum_after_one_slice();
            assert_eq!(last.counts(&unread), []);
            let both = SliceCount { slot: SlotId(0), raw: 75, time_enabled_ns: 110, time_running_ns: 110 };
            assert_eq!(last.counts([&summand(0, 81, 210), &summand(1, 14, 210)]), [both]);
        }
    }

    #[test]
    fn a_thread_that_went_back_leaves_no_count_of_the_others_alone() {
        let mut last = LastValues::default();
        let threads = |a, b| [cell(0, 0, Some(7), a, (a, a)), cell(0, 0, Some(8), b, (b, b))];
        last.counts(&threads(50, 50));
        assert_eq!(last.counts(&threads(90, 3)), []);
        assert_eq!(last.counts(&threads(91, 5)).first().map(|count| count.raw), Some(3));
    }

    #[test]
    fn a_cpu_with_a_lost_part_is_left_out_beside_the_others() {
        let mut last = LastValues::default();
        let on_cpu = |cpu, part| {
            let mut cell = cell(0, part, None, 5, (9, 9));
            cell.at.cpu = Some(cpu);
            cell
        };
        let gone = Cell { lost: Some("cpu went offline".into()), ..on_cpu(1, 1) };
        let counts = last.counts([&on_cpu(0, 0), &on_cpu(1, 0), &gone]);
        let expected = SliceCount { slot: SlotId(0), raw: 5, time_enabled_ns: 9, time_running_ns: 9 };
        assert_eq!(counts, [expected]);
    }

    #[test]
    fn a_slice_is_what_happened_since_the_last_one() {
        let mut last = LastValues::default();
        last.counts([cell(0, 0, None, 10, (5, 5)), cell(1, 0, None, 1, (1, 1))].iter());
        let counts = last.counts([cell(0, 0, None, 25, (9, 8)), cell(1, 0, None, 0, (2, 2))].iter());
        let expected = SliceCount { slot: SlotId(0), raw: 15, time_enabled_ns: 4, time_running_ns: 3 };
        assert_eq!(counts, [expected], "a value that went back is none");
    }
}
