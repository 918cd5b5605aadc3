//! Inputs on which a search could run forever.

use cyclometer_core::event::{ExtraRegister, ExtraRegisterKind};
use cyclometer_core::{CounterMask, Random};
use cyclometer_plan::passes::{CounterEncoding, Demand, PackingProblem, PmuNeed};

/// The inputs, each with the property that makes it hard.
pub(super) fn problems() -> Vec<(&'static str, PackingProblem)> {
    vec![
        ("120 groups of 3 to 5 on 8 counters", groups(120, 3, 3, 0xff)),
        ("60 groups of 3 on 8 counters, and no room to spare", groups(60, 3, 1, 0xff)),
        ("3,000 groups of 2 to 4 on 8 counters", groups(3_000, 2, 3, 0xff)),
        ("40 groups that share events", overlapping(40)),
        ("48 events in pairs of counters, 48 that take one", pairs(48)),
        ("200 events of any masks and registers", registers(200)),
        ("60 events of any masks and registers", registers(60)),
        ("2,000 events of any masks on 64 counters", masks(2_000)),
        ("12 groups of 24 on 64 counters", groups(12, 24, 1, u64::MAX)),
    ]
}

fn event(ways: Vec<CounterEncoding>, wide: bool) -> Demand {
    Demand { needs: vec![PmuNeed { pmu: 0, ways, wide }], alone: false }
}

fn way(bits: u64, extra: Option<ExtraRegister>) -> CounterEncoding {
    CounterEncoding { counters: CounterMask::from_bits(bits, 0), extra }
}

fn problem(counters: u64, demands: Vec<Demand>, together: Vec<Vec<usize>>) -> PackingProblem {
    PackingProblem {
        pmus: vec![CounterMask::from_bits(counters, 0)],
        demands,
        together,
        ..PackingProblem::default()
    }
}

fn groups(count: usize, least: usize, sizes: usize, counters: u64) -> PackingProblem {
    let mut random = Random::seeded(1);
    let (mut demands, mut together) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let size = least + random.below(sizes);
        together.push((demands.len()..demands.len() + size).collect());
        demands.extend((0..size).map(|_| event(vec![way(counters, None)], false)));
    }
    problem(counters, demands, together)
}

fn overlapping(count: usize) -> PackingProblem {
    let mut random = Random::seeded(2);
    let demands = (0..60).map(|_| event(vec![way(0xff, None)], false)).collect();
    let group = |_| {
        let mut events: Vec<usize> = (0..4).map(|_| random.below(60)).collect();
        events.sort_unstable();
        events.dedup();
        events
    };
    let together = (0..count).map(group).collect();
    problem(0xff, demands, together)
}

fn pairs(count: usize) -> PackingProblem {
    let mut random = Random::seeded(3);
    let mut mask = |wide| event(vec![way(0x3f & !(1 << random.below(6)), None)], wide);
    let demands = (0..2 * count).map(|n| mask(n < count)).collect();
    problem(0x3f, demands, Vec::new())
}

fn registers(count: usize) -> PackingProblem {
    let mut random = Random::seeded(4);
    let mut one = || {
        let register = ExtraRegisterKind::ALL[random.below(3)];
        let extra = ExtraRegister { register, value: random.below(12) as u64 };
        let bits = 1 + random.below(255) as u64;
        way(bits, (random.below(3) > 0).then_some(extra))
    };
    let demands = (0..count).map(|n| event((0..1 + n % 3).map(|_| one()).collect(), false)).collect();
    problem(0xff, demands, Vec::new())
}

fn masks(count: usize) -> PackingProblem {
    let mut random = Random::seeded(5);
    let demands = (0..count).map(|_| event(vec![way(random.word() | 1, None)], false)).collect();
    problem(u64::MAX, demands, Vec::new())
}
