//! Passes as drivers make them: an event takes the lowest counter that is free, and never moves.

use cyclometer_core::{CounterId, CounterMask};
use cyclometer_plan::passes::{Demand, PackingProblem};

/// The passes that events need in the given order. Each event takes the first free counter; a pass ends with
/// the first event that finds none.
///
/// # Source
///
/// Linux `drivers/perf/arm_pmu.c` and `apple_m1_cpu_pmu.c`, `get_event_idx`: in the order of the events.
/// `arch/x86/events/core.c`, `perf_assign_events`: `by_weight`, those with few counters first.
/// `kernel/events/core.c`, `merge_sched_in`: events after the first that does not fit are not tried.
pub(super) fn first_fit(problem: &PackingProblem, order: &[usize], by_weight: bool) -> usize {
    let mut pass: Vec<usize> = Vec::new();
    let mut passes = 0;
    for event in order {
        pass.push(*event);
        if pass.len() == 1 || !fits(problem, &pass, by_weight) {
            pass = vec![*event];
            passes += 1;
        }
    }
    passes
}

fn fits(problem: &PackingProblem, pass: &[usize], by_weight: bool) -> bool {
    let mut events = pass.to_vec();
    if by_weight {
        events.sort_by_key(|event| weight(&problem.demands[*event]));
    }
    let mut taken = TakenCounters::default();
    events.into_iter().all(|event| taken.take(problem, event))
}

/// The number of counters that an event can use.
fn weight(demand: &Demand) -> u32 {
    let ways = demand.needs.iter().flat_map(|need| &need.ways);
    ways.fold(CounterMask::EMPTY, |all, way| all.or(way.counters)).len()
}

#[derive(Default)]
struct TakenCounters {
    counters: CounterMask,
    registers: Vec<(u32, u64)>,
}

impl TakenCounters {
    fn take(&mut self, problem: &PackingProblem, event: usize) -> bool {
        for way in problem.demands[event].needs.iter().flat_map(|need| &need.ways) {
            let wanted = way.extra.map(|extra| (extra.register.msr(), extra.value));
            let clash = |(register, value): (u32, u64)| {
                self.registers.iter().any(|(r, v)| *r == register && *v != value)
            };
            if wanted.is_some_and(clash) {
                continue;
            }
            let free = way.counters.and(problem.pmus[0]).without(self.counters);
            if let Some(counter) = free.iter().next() {
                self.counters = self.counters.or(std::iter::once::<CounterId>(counter).collect());
                self.registers.extend(wanted);
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_plan::passes::{CounterEncoding, PmuNeed};

    #[test]
    fn an_event_of_one_counter_that_is_taken_begins_a_pass_unless_few_counters_go_first() {
        let event = |bits| Demand {
            needs: vec![PmuNeed {
                pmu: 0,
                ways: vec![CounterEncoding { counters: CounterMask::from_bits(bits, 0), extra: None }],
                wide: false,
            }],
            alone: false,
        };
        let problem = PackingProblem {
            pmus: vec![CounterMask::first(2, 0)],
            demands: vec![event(0b11), event(0b01)],
            ..PackingProblem::default()
        };
        let passes = |order: &[usize], by_weight| first_fit(&problem, order, by_weight);
        assert_eq!((passes(&[0, 1], false), passes(&[1, 0], false), passes(&[0, 1], true)), (2, 1, 1));
    }
}
