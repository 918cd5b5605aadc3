//! Counts of events that shared counters in rotation, from the slices of a run.

use cyclometer_core::event::Part;
use cyclometer_core::exec::Reading;
use cyclometer_core::plan::Multiplex;
use cyclometer_core::report::{Run, Slice, SliceCount};
use cyclometer_core::{Candidate, Count, Interval, MissingReason, Modes, Plan, Scope, SlotId};

use crate::label::effective_modes;
use crate::rotation::{Rotation, TotalEstimate};
use crate::settle::{Observed, SlotReading, Span};
use crate::times::{Slack, total};

/// Shortfall of running against enabled time in one slice that is not another user of the counter. The kernel
/// needs this time to put the event on the counter.
const SLACK: Slack = Slack { least_ns: 20_000, divisor: 100 };

/// Greatest difference between the time of an event in its slice and the time of events that always count. A
/// switch of the rotation group takes time, at most a twentieth of a slice.
const SWITCH: Slack = Slack { least_ns: 200_000, divisor: 10 };

/// The slices of a run, or of an interval of it, with the facts needed to judge them.
#[derive(Clone, Copy)]
pub(crate) struct RotatedSlices<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) pass: usize,
    pub(crate) slices: &'a [Slice],
    pub(crate) span: Span,
}

/// The count of an event that shared counters in rotation, over these slices of a run; `None` where it
/// counted all the time.
///
/// `reading` has the raw values of the same time. A slice in which others used the event's counter is
/// not used. [`Rotation`] extrapolates the counts in the slices of the event's own rotation group to the
/// other slices. It uses the time that the target ran in each slice, and the counts of hardware events that
/// count in every slice. Those of the same modes come first.
pub fn settle_slices(
    plan: &Plan,
    pass: usize,
    slices: &[Slice],
    reading: &Reading,
    slot: SlotId,
    asked: Scope,
) -> Option<Count> {
    RotatedSlices { plan, pass, slices, span: Span::Interval }.settle(reading, slot, asked)
}

impl<'a> RotatedSlices<'a> {
    pub(crate) fn of_run(plan: &'a Plan, run: &'a Run) -> RotatedSlices<'a> {
        RotatedSlices { plan, pass: run.pass, slices: &run.slices, span: Span::Whole }
    }

    /// The rotation group of a slot; `None` where it counted all the time, or without rotation.
    pub(crate) fn rotation_group(&self, slot: SlotId) -> Option<u32> {
        if self.slices.is_empty() {
            return None;
        }
        let pass = self.plan.passes.get(self.pass)?;
        pass.slots.iter().find(|held| held.id == slot)?.rotation_group
    }

    pub(crate) fn settle(&self, reading: &Reading, slot: SlotId, asked: Scope) -> Option<Count> {
        let rotation_group = self.rotation_group(slot)?;
        let line = self.plan.lines.get(slot.0)?;
        let of = SlotReading { line, reading, slot, asked };
        Some(of.count_of_rotation_group(self.span, || self.observed(slot, rotation_group)))
    }

    /// The note about the slices of a slot, if there is one.
    pub(crate) fn note(&self, slot: SlotId) -> Option<String> {
        let rotation_group = self.rotation_group(slot)?;
        let candidate = self.plan.lines.get(slot.0)?.candidate()?;
        if candidate.only.is_some() {
            // The target may have been on the other core type, and no slice is left out.
            return None;
        }
        let counts: Vec<&SliceCount> =
            self.own(rotation_group).filter_map(|slice| slice.count(slot)).collect();
        let held = counts.iter().filter(|count| !is_whole(count)).count();
        let of = counts.len();
        (held > 0).then(|| format!("{held} of its {of} slices are left out: others used a counter in them"))
    }

    fn own(&self, rotation_group: u32) -> impl Iterator<Item = &'a Slice> {
        self.slices.iter().filter(move |slice| slice.rotation_group == rotation_group)
    }

    fn observed(&self, slot: SlotId, rotation_group: u32) -> Observed {
        let own: Vec<&SliceCount> = self.own(rotation_group).filter_map(|slice| slice.count(slot)).collect();
        let whole: Vec<&SliceCount> = own.iter().copied().filter(|count| is_whole(count)).collect();
        let lengths: Vec<u64> = self.slices.iter().map(length_ns).collect();
        let time_enabled_ns = total(lengths.iter().copied());
        let ran = |counts: &[&SliceCount]| total(counts.iter().map(|count| count.time_running_ns));
        let seen = self.seen(slot, rotation_group);
        match (ran(&own), ran(&whole)) {
            _ if own.is_empty() => Observed::Nothing(self.not_scheduled()),
            _ if time_enabled_ns == 0 || seen.iter().all(Option::is_some) => Observed::All,
            (0, _) => Observed::Nothing(never_ran(&own)),
            (time_running_ns, 0) => Observed::Scaled { time_enabled_ns, time_running_ns },
            (_, time_running_ns) => match self.rotation(slot, &lengths).estimate(&seen) {
                None => Observed::Nothing(self.not_scheduled()),
                Some(estimate) => Observed::Estimated {
                    total: estimate.total.round() as u64,
                    interval: interval(&estimate),
                    time_enabled_ns,
                    time_running_ns,
                },
            },
        }
    }

    fn not_scheduled(&self) -> MissingReason {
        let is_run = self.span == Span::Whole;
        let may_repeat = self.plan.intent.subject.is_command() && is_run;
        let more_runs_help = may_repeat && self.plan.intent.multiplex != Multiplex::Always;
        MissingReason::NotScheduled {
            time_ns: total(self.slices.iter().map(|slice| slice.wall_ns)),
            is_run,
            exact_runs: self.plan.exact_runs().filter(|_| more_runs_help),
        }
    }

    fn rotation(&self, slot: SlotId, lengths: &[u64]) -> Rotation {
        let lengths: Vec<f64> = lengths.iter().map(|length| *length as f64).collect();
        let columns = self.always(slot);
        let columns: Vec<&[f64]> = columns.iter().map(Vec::as_slice).collect();
        Rotation::new(&lengths, &columns)
    }

    /// The counts of every slice: a column for each hardware event without a rotation group, those of the
    /// slot's modes first.
    fn always(&self, slot: SlotId) -> Vec<Vec<f64>> {
        let modes = self.modes(slot);
        let mut ids = self.always_ids();
        ids.sort_by_key(|id| self.modes(*id) != modes);
        ids.into_iter().filter_map(|id| self.column(id)).collect()
    }

    /// The hardware events without a rotation group.
    fn always_ids(&self) -> Vec<SlotId> {
        let Some(pass) = self.plan.passes.get(self.pass) else { return Vec::new() };
        let of_core = |id: &SlotId| {
            let candidate = self.plan.lines.get(id.0).and_then(|line| line.candidate());
            candidate.is_some_and(is_of_core)
        };
        let without_group =
            pass.slots.iter().filter(|held| held.rotation_group.is_none()).map(|held| held.id);
        without_group.filter(of_core).collect()
    }

    /// The slot's count in each slice where it is known. Slices that are out of step are used if there are no
    /// others.
    fn seen(&self, slot: SlotId, rotation_group: u32) -> Vec<Option<u64>> {
        let all: Vec<Option<u64>> =
            self.slices.iter().map(|slice| seen(slice, slot, rotation_group)).collect();
        let step = |(slice, seen): (&Slice, &Option<u64>)| seen.filter(|_| self.is_in_step(slice, slot));
        let in_step: Vec<Option<u64>> = self.slices.iter().zip(&all).map(step).collect();
        if in_step.iter().any(Option::is_some) { in_step } else { all }
    }

    /// Whether an event of a rotation group counted for about as long as the events that always count.
    /// Otherwise the switch of the rotation group was delayed, and the next group has a part of this slice.
    fn is_in_step(&self, slice: &Slice, slot: SlotId) -> bool {
        let times = self.always_ids().into_iter().filter_map(|held| slice.count(held));
        let times = times.map(|count| count.time_enabled_ns);
        match (times.max(), slice.count(slot)) {
            (Some(always), Some(own)) => SWITCH.covers(always.abs_diff(own.time_enabled_ns), always),
            _ => true,
        }
    }

    fn modes(&self, slot: SlotId) -> Option<Modes> {
        self.plan.lines.get(slot.0).and_then(effective_modes)
    }

    /// The slot's count in each slice; `None` if a slice lacks it, or if other users held its counter.
    fn column(&self, slot: SlotId) -> Option<Vec<f64>> {
        let whole =
            |slice: &Slice| slice.count(slot).filter(|count| is_whole(count)).map(|count| count.raw as f64);
        self.slices.iter().map(whole).collect()
    }
}

fn never_ran(own: &[&SliceCount]) -> MissingReason {
    match own.iter().any(|count| count.time_enabled_ns > 0) {
        true => MissingReason::NeverOnCounter { summand: None },
        false => MissingReason::ScheduledWithoutTarget,
    }
}

fn interval(estimate: &TotalEstimate) -> Interval {
    match &estimate.half_width {
        Ok(half_width) => {
            let half_width = half_width.ceil() as u64;
            Interval::Known { half_width, concentrated: estimate.concentrated }
        }
        Err(reason) => Interval::Unknown { reason: reason.clone() },
    }
}

fn is_of_core(candidate: &Candidate) -> bool {
    candidate.parts.iter().all(|part| Part::core(part).is_some())
}

/// The slot's count in a slice of its rotation group; `None` if it did not count the whole slice.
fn seen(slice: &Slice, slot: SlotId, rotation_group: u32) -> Option<u64> {
    let count = slice.count(slot).filter(|_| slice.rotation_group == rotation_group)?;
    is_whole(count).then_some(count.raw)
}

fn is_whole(count: &SliceCount) -> bool {
    SLACK.is_whole(count.time_running_ns, count.time_enabled_ns)
}

/// The time that the target ran in a slice, which is the enabled time of the events that counted in it.
fn length_ns(slice: &Slice) -> u64 {
    slice.counts.iter().map(|count| count.time_enabled_ns).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line_summary::LineSummary;
    use crate::summary::{Summary, summarise};
    use crate::testing::{hardware, report, turning_pass, turning_run};
    use cyclometer_core::plan::PlanLine;
    use cyclometer_core::{NoInterval, Report, Verdict};

    /// The length of a slice in the tests, in ns.
    const SLICE_NS: u64 = 10_000_000;

    /// Slot 0 always counts; slots 1 and 2 are in the rotation groups 0 and 1.
    const THREE: [Option<u32>; 3] = [None, Some(0), Some(1)];

    fn lines(n: usize) -> Vec<PlanLine> {
        ["instructions", "branches", "branch-misses", "loads"][..n].iter().map(|n| hardware(n, 1)).collect()
    }

    fn reported(rotation_groups: &[Option<u32>], runs: Vec<Run>) -> Report {
        report(lines(rotation_groups.len()), vec![turning_pass(rotation_groups)], runs)
    }

    fn line(summary: &Summary, slot: usize) -> &LineSummary {
        &summary.lines[slot]
    }

    /// An irregular order of rotation groups.
    fn order(n: usize, rotation_groups: u32) -> Vec<u32> {
        let mut random = cyclometer_core::Random::seeded(9);
        let rounds = (0..n).flat_map(|_| random.permutation(rotation_groups as usize));
        rounds.map(|rotation_group| rotation_group as u32).take(n).collect()
    }

    /// A program whose rates grow: in slice i, slot 0 counts 1000 i, the others a fifth of it.
    fn ramp(rotation_groups: &[Option<u32>], order: &[u32]) -> Run {
        turning_run(0, rotation_groups, order, |slice, slot| {
            let all = 1000 * slice as u64;
            (if slot == 0 { all } else { all / 5 }, SLICE_NS, SLICE_NS)
        })
    }

    fn only(report: &Report, slot: usize) -> Count {
        line(&summarise(report), slot).values[0].count.clone()
    }

    #[test]
    fn what_always_counts_tells_what_was_not_seen() {
        let report = reported(&THREE, vec![ramp(&THREE, &order(100, 2))]);
        let truth = (0..100).map(|slice| 200 * slice).sum::<u64>();
        for slot in [1, 2] {
            let Count::Scaled { raw, estimate, time_enabled_ns, time_running_ns, interval } =
                only(&report, slot)
            else {
                panic!()
            };
            assert!(raw < truth && estimate.abs_diff(truth) <= 1, "{estimate} for {truth}");
            assert_eq!((time_enabled_ns, time_running_ns), (100 * SLICE_NS, 50 * SLICE_NS));
            assert!(interval.half_width().unwrap() < truth / 1000, "{interval:?}");
        }
        assert_eq!(only(&report, 0).verdict(), Verdict::Exact);
    }

    #[test]
    fn without_anything_that_always_counts_time_is_all_there_is() {
        let rotation_groups = [Some(0), Some(1)];
        let slices = turning_run(0, &rotation_groups, &order(80, 2), |slice, _| match slice % 3 {
            0 => (300, 3 * SLICE_NS, 3 * SLICE_NS),
            _ => (100, SLICE_NS, SLICE_NS),
        });
        let truth = slices.slices.iter().map(|slice| slice.counts[0].raw).sum::<u64>();
        let report = reported(&rotation_groups, vec![slices]);
        let Count::Scaled { estimate, .. } = only(&report, 0) else { panic!() };
        assert_eq!(estimate, truth);
    }

    #[test]
    fn an_interval_needs_twenty_slices() {
        for (slices, known) in [(38, false), (40, true)] {
            let report = reported(&THREE, vec![ramp(&THREE, &order(slices, 2))]);
            let line = &summarise(&report).lines[1];
            assert_eq!(line.interval.as_ref().unwrap().is_ok(), known, "{:?}", line.interval);
            assert_eq!(line.values[0].half_width.is_some(), known);
            assert_eq!(
                (line.verdict, line.reason.as_deref()),
                (Verdict::Scaled, Some("observed 50 % of the time"))
            );
        }
    }

    #[test]
    fn an_event_that_was_not_scheduled_is_not_counted_and_says_what_would_count_it() {
        let rotation_groups = [None, Some(0), Some(1), Some(2)];
        let report = reported(&rotation_groups, vec![ramp(&rotation_groups, &[1])]);
        assert_eq!(
            only(&report, 1).reason().unwrap(),
            "not scheduled during the 10 ms run; -r 3 counts it exactly"
        );
        assert_eq!(only(&report, 1).verdict(), Verdict::NotCounted);
        assert_eq!(only(&report, 2), Count::Exact(0), "the only turn that there was counted all the time");
    }

    #[test]
    fn a_turn_that_came_only_while_nothing_ran_tells_nothing() {
        let run = turning_run(0, &THREE, &[0, 1, 0], |slice, _| match slice {
            1 => (0, 0, 0),
            _ => (50, SLICE_NS, SLICE_NS),
        });
        let report = reported(&THREE, vec![run]);
        let reason = MissingReason::ScheduledWithoutTarget;
        assert_eq!(only(&report, 2), Count::NotCounted { reason });
        assert_eq!(only(&report, 1).verdict(), Verdict::Scaled);
    }

    #[test]
    fn slices_in_which_another_held_the_counter_are_left_out_and_told() {
        let run = turning_run(0, &THREE, &order(100, 2), |slice, slot| match (slice % 10, slot) {
            (0 | 1, 1) => (1, SLICE_NS, SLICE_NS / 2),
            (_, slot) => (100 * (slot as u64 + 1), SLICE_NS, SLICE_NS),
        });
        let summary = summarise(&reported(&THREE, vec![run]));
        let line = line(&summary, 1);
        assert_eq!(line.statistics.mean, Some(100.0 * 200.0));
        let note = line.notes.last().unwrap();
        assert!(note.ends_with("slices are left out: others used a counter in them"), "{note}");
        assert!(summary.lines[2].notes.is_empty());
    }

    #[test]
    fn slices_in_which_we_were_held_up_while_turns_changed_are_left_out() {
        // In every tenth slice of rotation group 0, the group ended after half of the slice.
        let run = turning_run(0, &THREE, &order(100, 2), |slice, slot| match (slice % 10, slot) {
            (0, 1) => (50, SLICE_NS / 2, SLICE_NS / 2),
            _ => (100, SLICE_NS, SLICE_NS),
        });
        let Count::Scaled { estimate, .. } = only(&reported(&THREE, vec![run]), 1) else { panic!() };
        assert_eq!(estimate, 100 * 100);
        let run = turning_run(0, &THREE, &order(100, 2), |_, slot| match slot {
            1 => (50, SLICE_NS / 2, SLICE_NS / 2),
            _ => (100, SLICE_NS, SLICE_NS),
        });
        let Count::Scaled { estimate, .. } = only(&reported(&THREE, vec![run]), 1) else { panic!() };
        assert_eq!(estimate, 50 * 100, "there are no others");
    }

    #[test]
    fn where_another_held_the_counter_all_the_time_the_count_is_scaled_without_interval() {
        let run = turning_run(0, &THREE, &order(100, 2), |_, slot| match slot {
            1 => (30, SLICE_NS, SLICE_NS / 2),
            2 => (0, SLICE_NS, 0),
            _ => (100, SLICE_NS, SLICE_NS),
        });
        let report = reported(&THREE, vec![run]);
        let Count::Scaled { estimate, interval, .. } = only(&report, 1) else { panic!() };
        assert_eq!((estimate, interval.half_width()), (100 * 60, None));
        let Count::NotCounted { reason } = only(&report, 2) else { panic!() };
        assert_eq!(reason, MissingReason::NeverOnCounter { summand: None });
    }

    #[test]
    fn an_event_that_others_held_up_is_no_measure_for_the_rest() {
        let run = turning_run(0, &THREE, &order(100, 2), |slice, slot| match slot {
            0 => (1000 * slice as u64, SLICE_NS, SLICE_NS / 3),
            _ => (100, SLICE_NS, SLICE_NS),
        });
        let rotation_groups = reported(&THREE, vec![run]);
        let of =
            |report: &Report| RotatedSlices::of_run(&report.plan, &report.runs[0]).always(SlotId(1)).len();
        assert_eq!(of(&rotation_groups), 0);
        assert_eq!(of(&reported(&THREE, vec![ramp(&THREE, &order(100, 2))])), 1);
    }

    #[test]
    fn what_was_lost_stays_lost_and_what_lost_a_cpu_is_partial() {
        let mut report = reported(&THREE, vec![ramp(&THREE, &order(100, 2))]);
        let cell = report.runs[0].reading.cells.iter_mut().find(|cell| cell.slot == SlotId(1)).unwrap();
        cell.at.cpu = Some(0);
        let mut gone = cell.clone();
        (gone.at.cpu, gone.lost) = (Some(1), Some("cpu went offline".into()));
        report.runs[0].reading.cells.push(gone.clone());
        let Count::Partial { part, .. } = only(&report, 1) else { panic!() };
        let part = part.to_string();
        assert!(
            part.starts_with("without cpu 1 (cpu went offline); observed 50 % of the time, ± "),
            "{part}"
        );
        report.runs[0].reading.cells.retain(|cell| cell.slot != SlotId(1));
        report.runs[0].reading.cells.push(gone);
        assert_eq!(only(&report, 1), Count::Lost { reason: MissingReason::from("cpu went offline") });
    }

    #[test]
    fn the_interval_of_a_mean_is_narrower_than_those_of_its_runs() {
        let noisy = |run| {
            turning_run(run, &THREE, &order(60, 2), |slice, slot| {
                (1000 + 37 * (slice as u64 * (slot as u64 + 3) % 11), SLICE_NS, SLICE_NS)
            })
        };
        let one = summarise(&reported(&THREE, vec![noisy(0)]));
        let four = summarise(&reported(&THREE, (0..4).map(noisy).collect()));
        let half = |summary: &Summary| line(summary, 1).interval.clone().unwrap().unwrap().half_width;
        assert!(half(&one) > 0.0);
        assert!((half(&four) - half(&one) / 2.0).abs() < 1e-9, "four equal runs: half of one's");
        assert_eq!(line(&four, 0).interval, None, "nothing was estimated");
    }

    #[test]
    fn a_run_without_an_interval_takes_that_of_the_mean() {
        let mut short = ramp(&THREE, &order(10, 2));
        short.index = 1;
        let summary = summarise(&reported(&THREE, vec![ramp(&THREE, &order(100, 2)), short]));
        let reason = line(&summary, 1).interval.clone().unwrap().unwrap_err();
        assert_eq!(reason, NoInterval::TooFewSlices { slices: 5, needed: 20 });
    }

    #[test]
    fn only_events_of_one_turn_divide_and_those_that_always_count() {
        let rate = |rotation_groups: &[Option<u32>]| {
            let summary = summarise(&reported(rotation_groups, vec![ramp(rotation_groups, &order(60, 2))]));
            summary.derived.into_iter().find(|metric| metric.name == "branch_miss_rate:u").unwrap()
        };
        let apart = rate(&THREE);
        assert_eq!((apart.verdict, apart.statistics.mean), (Verdict::NotCounted, None));
        assert_eq!(
            apart.reason.as_deref(),
            Some(
                "branch-misses:u and branches:u shared counters in rotation: they were never counted at the same time"
            )
        );
        let together = rate(&[None, Some(0), Some(0), Some(1)]);
        assert_eq!((together.verdict, together.statistics.mean), (Verdict::Scaled, Some(1.0)));
        let always = rate(&[Some(1), None, Some(0)]);
        assert!((always.statistics.mean.unwrap() - 1.0).abs() < 1e-3, "{always:?}");
    }

    #[test]
    fn a_pass_whose_turns_did_not_change_is_settled_as_any_other() {
        let mut run = ramp(&THREE, &order(10, 2));
        run.slices.clear();
        let report = reported(&THREE, vec![run]);
        assert_eq!(only(&report, 1).verdict(), Verdict::Exact);
    }

    #[test]
    fn part_of_a_run_is_settled_by_the_slices_in_it() {
        let report = reported(&THREE, vec![ramp(&THREE, &[0, 1, 1, 0])]);
        let run = &report.runs[0];
        let count = |slices: &[Slice], slot| {
            settle_slices(&report.plan, 0, slices, &run.reading, SlotId(slot), Scope::Tree)
        };
        let Some(Count::Scaled { interval, .. }) = count(&run.slices, 1) else { panic!() };
        assert_eq!(
            interval,
            Interval::Unknown { reason: NoInterval::TooFewSlices { slices: 2, needed: 20 } }
        );
        let Some(Count::NotCounted { reason }) = count(&run.slices[1..3], 1) else { panic!() };
        assert_eq!(reason.to_string(), "not scheduled during the 20 ms interval");
        assert_eq!(count(&run.slices, 0), None, "it has no turn");
    }
}
