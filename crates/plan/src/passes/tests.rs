use super::*;
use proptest::prelude::*;

/// Assignments are right: allowed, each counter once, each register one value, sets whole, every event
/// somewhere.
fn check(problem: &PackingProblem, packing: &Packing) {
    let allowed = |assignment: &CounterAssignment| {
        let need =
            problem.demands[assignment.demand].needs.iter().find(|need| need.pmu == assignment.pmu).unwrap();
        assert!(need.ways[assignment.way].counters.contains(assignment.counter), "{assignment:?}");
        assert!(problem.pmus[assignment.pmu].contains(assignment.counter), "{assignment:?}");
        (need.wide, need.ways[assignment.way].extra)
    };
    for pass in &packing.passes {
        assert!(!pass.is_empty(), "{packing:?}");
        let (mut taken, mut values) = (Vec::new(), Vec::new());
        for assignment in pass {
            let (wide, extra) = allowed(assignment);
            taken.push((assignment.pmu, assignment.counter));
            if let (true, CounterId::General(n)) = (wide, assignment.counter) {
                assert!(
                    n % 2 == 0 && problem.pmus[assignment.pmu].contains(CounterId::General(n + 1)),
                    "{assignment:?}"
                );
                taken.push((assignment.pmu, CounterId::General(n + 1)));
            }
            values.extend(extra.map(|extra| (assignment.pmu, extra.register, extra.value)));
        }
        let all = taken.len();
        taken.sort();
        taken.dedup();
        assert_eq!(taken.len(), all, "{pass:?}");
        values.sort();
        values.dedup();
        let mut registers: Vec<_> = values.iter().map(|(pmu, register, _)| (pmu, register)).collect();
        registers.dedup();
        assert_eq!(registers.len(), values.len(), "{pass:?}");
        let alone = pass.iter().any(|assignment| problem.demands[assignment.demand].alone);
        assert!(!alone || pass.iter().all(|assignment| assignment.demand == pass[0].demand));
    }
    let whole = |set: &[usize], pass: &[CounterAssignment]| {
        set.iter().all(|event| {
            let needs = &problem.demands[*event].needs;
            needs.iter().all(|need| {
                pass.iter().any(|assignment| (assignment.demand, assignment.pmu) == (*event, need.pmu))
            })
        })
    };
    for event in
        (0..problem.demands.len()).filter(|event| !packing.refused.contains(&Unplaceable::Event(*event)))
    {
        let passes = packing.passes.iter().filter(|pass| whole(&[event], pass)).count();
        assert!(passes > 0 || problem.demands[event].needs.is_empty(), "{event} in {packing:?}");
    }
    for (i, set) in problem.together.iter().enumerate() {
        let refused = packing.refused.iter().any(|refused| match refused {
            Unplaceable::Event(event) => set.contains(event),
            Unplaceable::Set { set, .. } => *set == i,
        });
        let nothing = set.iter().all(|event| problem.demands[*event].needs.is_empty());
        assert!(
            refused || nothing || packing.passes.iter().any(|pass| whole(set, pass)),
            "{set:?} in {packing:?}"
        );
    }
}

/// The bound that a certificate proves, by itself.
///
/// A search proves nothing that could be checked without another one: `None`.
fn proved(problem: &PackingProblem, packing: &Packing, certificate: &Certificate) -> Option<usize> {
    let refused = |event: usize| packing.refused.contains(&Unplaceable::Event(event));
    let needs =
        |event: usize, pmu: usize| problem.demands[event].needs.iter().find(|need| need.pmu == pmu).unwrap();
    match certificate {
        Certificate::Nothing => Some(0),
        Certificate::One => Some(1),
        Certificate::Counters { pmu, counters, events } => {
            for event in events {
                assert!(!refused(*event));
                let need = needs(*event, *pmu);
                let pair = if need.wide { 0b11 } else { 0b1 };
                let usable = need.ways.iter().fold(CounterMask::EMPTY, |all, way| all.or(way.counters));
                let usable = usable.and(problem.pmus[*pmu]);
                let stray = usable.without(*counters);
                assert!(pair == 0b11 || stray.is_empty(), "{need:?} outside of {counters}");
            }
            Some(events.len().div_ceil(counters.len() as usize))
        }
        Certificate::Registers { pmu, registers, events } => {
            for event in events {
                let need = needs(*event, *pmu);
                let usable = |way: &&CounterEncoding| {
                    try_all(
                        problem,
                        &[&PmuNeed { ways: vec![**way], ..need.clone() }],
                        &mut Vec::new(),
                        &mut Vec::new(),
                    )
                };
                let ways = need.ways.iter().filter(usable);
                assert!(ways.map(|way| way.extra.unwrap()).all(|extra| registers.contains(&extra.register)));
            }
            Some(events.len().div_ceil(registers.len()))
        }
        Certificate::Apart { sets } => {
            let clash = |a: &[usize], b: &[usize]| !fits(problem, &union(a, b));
            for (i, a) in sets.iter().enumerate() {
                assert!(sets[..i].iter().all(|b| clash(a, b)), "{sets:?}");
            }
            Some(sets.len())
        }
        Certificate::Crowded { pmu, counters, sets, at_most } => {
            let places = |event: &usize| {
                let mut own = problem.demands[*event].needs.iter();
                let Some(need) = own.find(|need| need.pmu == *pmu) else { return 0 };
                let usable = need.ways.iter().fold(CounterMask::EMPTY, |all, way| all.or(way.counters));
                assert!(need.wide || usable.and(problem.pmus[*pmu]).without(*counters).is_empty());
                if need.wide { 2 } else { 1 }
            };
            let mut sizes: Vec<u32> = sets.iter().map(|set| set.iter().map(places).sum()).collect();
            sizes.sort_unstable();
            assert!(
                sizes[..sizes.len().min(at_most + 1)].iter().sum::<u32>() > counters.len()
                    || sizes.len() <= *at_most
            );
            let all: Vec<usize> = sets.concat();
            assert_eq!(union(&all, &[]).len(), all.len(), "sets share an event");
            Some(sets.len().div_ceil(*at_most))
        }
        Certificate::Searched { .. } => None,
        Certificate::Alone { events, others } => Some(events.len() + proved(problem, packing, others)?),
    }
}

fn union(a: &[usize], b: &[usize]) -> Vec<usize> {
    let mut all = [a, b].concat();
    all.sort_unstable();
    all.dedup();
    all
}

/// The least number of passes, by trying every division of the events.
fn brute_force(problem: &PackingProblem, refused: &[Unplaceable]) -> usize {
    // An event that needs nothing is in any pass.
    let counts = |event: &usize| {
        !refused.contains(&Unplaceable::Event(*event)) && !problem.demands[*event].needs.is_empty()
    };
    let events: Vec<usize> = (0..problem.demands.len()).filter(counts).collect();
    let is_refused = |set: usize| {
        refused.iter().any(|refused| matches!(refused, Unplaceable::Set { set: other, .. } if *other == set))
    };
    let sets: Vec<Vec<usize>> = problem
        .together
        .iter()
        .enumerate()
        .filter(|(i, _)| !is_refused(*i))
        .map(|(_, set)| set.iter().copied().filter(counts).collect::<Vec<_>>())
        .filter(|set| !set.is_empty())
        .collect();
    (0..=events.len() + sets.len())
        .find(|passes| divide(problem, &events, &sets, &mut vec![Vec::new(); *passes]))
        .unwrap()
}

fn divide(
    problem: &PackingProblem,
    events: &[usize],
    sets: &[Vec<usize>],
    passes: &mut [Vec<usize>],
) -> bool {
    let (atom, events, sets): (Vec<usize>, &[usize], &[Vec<usize>]) = match (sets, events) {
        ([set, rest @ ..], _) => (set.clone(), events, rest),
        ([], [event, rest @ ..]) if passes.iter().any(|pass| pass.contains(event)) => {
            return divide(problem, rest, sets, passes);
        }
        ([], [event, rest @ ..]) => (vec![*event], rest, sets),
        ([], []) => return true,
    };
    for pass in 0..passes.len() {
        let with = union(&passes[pass], &atom);
        if fits(problem, &with) {
            let before = std::mem::replace(&mut passes[pass], with);
            if divide(problem, events, sets, passes) {
                return true;
            }
            passes[pass] = before;
        }
    }
    false
}

/// Whether events fit at once, by trying every counter and every way.
fn fits(problem: &PackingProblem, events: &[usize]) -> bool {
    let alone = events.iter().any(|event| problem.demands[*event].alone);
    let needs: Vec<&PmuNeed> = events.iter().flat_map(|event| &problem.demands[*event].needs).collect();
    !(alone && events.len() > 1) && try_all(problem, &needs, &mut Vec::new(), &mut Vec::new())
}

type HeldRegister = (usize, cyclometer_core::event::ExtraRegisterKind, u64);

fn try_all(
    problem: &PackingProblem,
    needs: &[&PmuNeed],
    taken: &mut Vec<(usize, CounterId)>,
    held: &mut Vec<HeldRegister>,
) -> bool {
    let Some((need, rest)) = needs.split_first() else { return true };
    for way in &need.ways {
        let clash = |extra: &ExtraRegister| {
            held.iter().any(|(pmu, r, v)| (*pmu, *r) == (need.pmu, extra.register) && *v != extra.value)
        };
        if way.extra.as_ref().is_some_and(clash) {
            continue;
        }
        for counter in way.counters.and(problem.pmus[need.pmu]).iter() {
            let mut wanted = vec![(need.pmu, counter)];
            if need.wide {
                let CounterId::General(n) = counter else { continue };
                wanted.push((need.pmu, CounterId::General(n + 1)));
                if n % 2 == 1 {
                    continue;
                }
            }
            let usable = |(pmu, counter): &(usize, CounterId)| problem.pmus[*pmu].contains(*counter);
            if wanted.iter().any(|w| taken.contains(w) || !usable(w)) {
                continue;
            }
            let (before, before_held) = (taken.len(), held.len());
            taken.extend(wanted);
            held.extend(way.extra.map(|extra| (need.pmu, extra.register, extra.value)));
            if try_all(problem, rest, taken, held) {
                return true;
            }
            taken.truncate(before);
            held.truncate(before_held);
        }
    }
    false
}

fn way(general: u64) -> CounterEncoding {
    CounterEncoding { counters: CounterMask::from_bits(general, 0), extra: None }
}

fn event(ways: Vec<CounterEncoding>) -> Demand {
    Demand { needs: vec![PmuNeed { pmu: 0, ways, wide: false }], alone: false }
}

fn plain(masks: &[u64], counters: u64) -> PackingProblem {
    let demands = masks.iter().map(|mask| event(vec![way(*mask)])).collect();
    PackingProblem { pmus: vec![CounterMask::from_bits(counters, 0)], demands, ..PackingProblem::default() }
}

fn offcore(value: u64, counters: u64) -> Demand {
    let way = |register| CounterEncoding {
        counters: CounterMask::from_bits(counters, 0),
        extra: Some(ExtraRegister { register, value }),
    };
    event(vec![way(ExtraRegisterKind::OffcoreResponse0), way(ExtraRegisterKind::OffcoreResponse1)])
}

#[test]
fn twenty_four_events_of_three_counters_need_eight_passes() {
    // Apple M1: two fixed events, some anywhere, 24 on PMC5 to 7.
    let masks: Vec<u64> = [vec![0x3fc; 30], vec![0xe0; 24]].concat();
    let packing = pack(&plain(&masks, 0x3fc));
    check(&plain(&masks, 0x3fc), &packing);
    assert_eq!((packing.passes.len(), packing.lower_bound), (8, 8));
    let Certificate::Counters { counters, events, .. } = packing.certificate else { panic!() };
    assert_eq!((counters, events.len()), (CounterMask::from_bits(0xe0, 0), 24));
}

#[test]
fn values_of_two_registers_need_half_as_many_passes_and_equal_ones_share() {
    let demands: Vec<Demand> = [1, 2, 3, 4, 5, 1, 2].map(|value| offcore(value, 0xf)).to_vec();
    let problem =
        PackingProblem { pmus: vec![CounterMask::first(4, 0)], demands, ..PackingProblem::default() };
    let packing = pack(&problem);
    check(&problem, &packing);
    assert_eq!((packing.passes.len(), packing.lower_bound), (3, 3));
    assert!(matches!(packing.certificate, Certificate::Registers { .. }), "{:?}", packing.certificate);
}

#[test]
fn groups_are_packed_like_bins() {
    // 5 + 5 + 3 + 3 + 2 + 2 + 2 + 2 = 24 events on 8 counters: 3 passes hold them, if the groups are well
    // chosen.
    let sizes = [5, 5, 3, 3, 2, 2, 2, 2];
    let mut problem = plain(&[0xff; 24], 0xff);
    let mut next = 0;
    for size in sizes {
        problem.together.push((next..next + size).collect());
        next += size;
    }
    let packing = pack(&problem);
    check(&problem, &packing);
    assert_eq!((packing.passes.len(), packing.lower_bound), (3, 3));
}

#[test]
fn a_group_of_another_pmu_is_no_reason() {
    let on =
        |pmu, bits| Demand { needs: vec![PmuNeed { pmu, ways: vec![way(bits)], wide: false }], alone: false };
    let demands = [vec![on(0, 0xff); 6], vec![on(1, 0x3); 2]].concat();
    let together = vec![vec![0, 1], vec![2, 3], vec![4, 5], vec![6, 7]];
    let pmus = vec![CounterMask::first(6, 0), CounterMask::first(2, 0)];
    let mut problem = PackingProblem { pmus, demands, together, ..PackingProblem::default() };
    assert_eq!((pack(&problem).passes.len(), pack(&problem).lower_bound), (1, 1));
    // With a seventh event of the first there is no single pass, and nothing else changes.
    problem.demands.push(on(0, 0xff));
    assert_eq!((pack(&problem).passes.len(), pack(&problem).lower_bound), (2, 2));
}

#[test]
fn a_group_with_an_event_that_nothing_can_count_is_refused_as_a_whole() {
    let mut problem = plain(&[0xf, 0x80, 0xf], 0xf);
    problem.together = vec![vec![0, 1, 2]];
    let packing = pack(&problem);
    check(&problem, &packing);
    let conflict = Conflict { events: vec![1], because: Because::Impossible };
    assert_eq!(packing.refused, [Unplaceable::Event(1), Unplaceable::Set { set: 0, conflict }]);
    assert_eq!(packing.passes.len(), 1);
}

#[test]
fn conflicts_say_what_they_are_about() {
    let mut problem = plain(&[0x3f; 5], 0x3f);
    problem.demands[..3].iter_mut().for_each(|demand| demand.needs[0].wide = true);
    let found = conflict(&problem, &[0, 1, 2, 3]).unwrap();
    let because = Because::Counters { pmu: 0, counters: CounterMask::from_bits(0x3f, 0), places: 7 };
    assert_eq!(found, Conflict { events: vec![0, 1, 2, 3], because });
    problem.demands[4].alone = true;
    assert_eq!(conflict(&problem, &[3, 4]).unwrap().because, Because::Alone);
}

#[test]
fn groups_that_leave_counters_free_are_proved_by_how_many_fit() {
    let mut problem = plain(&[0xff; 60], 0xff);
    problem.together = (0..20).map(|group| (3 * group..3 * group + 3).collect()).collect();
    let packing = pack(&problem);
    check(&problem, &packing);
    assert_eq!((packing.passes.len(), packing.lower_bound), (10, 10));
    assert!(
        matches!(packing.certificate, Certificate::Crowded { at_most: 2, .. }),
        "{:?}",
        packing.certificate
    );
    assert_eq!(proved(&problem, &packing, &packing.certificate), Some(10));
}

#[test]
fn a_search_proves_what_counting_cannot() {
    // 3 + 3 + 3 + 1 = 10 events on 5 counters would fit in two passes, but only one group of three fits in
    // each.
    let mut problem = plain(&[0x1f; 10], 0x1f);
    problem.together = vec![vec![0, 1, 2], vec![3, 4, 5], vec![6, 7, 8]];
    let packing = pack(&problem);
    check(&problem, &packing);
    assert_eq!((packing.passes.len(), packing.lower_bound), (3, 3));
    assert_eq!(proved(&problem, &packing, &packing.certificate), Some(3));
    // Two of the three pairs of these groups fit, and all three do not.
    let mut problem = plain(&[0x3f; 12], 0x3f);
    problem.together = vec![vec![0, 1, 2, 3], vec![4, 5, 6], vec![7, 8, 9], vec![10, 11]];
    let packing = pack(&problem);
    assert_eq!((packing.passes.len(), packing.lower_bound), (2, 2));
}

#[test]
fn events_alone_have_a_pass_each() {
    let mut problem = plain(&[0xf, 0xf, 0xf, 0xf], 0xf);
    problem.demands[1].alone = true;
    problem.demands[2].alone = true;
    let packing = pack(&problem);
    check(&problem, &packing);
    assert_eq!((packing.passes.len(), packing.lower_bound), (3, 3));
}

#[test]
fn what_no_counter_can_count_is_refused_and_the_rest_is_packed() {
    let problem = plain(&[0x80, 0xf], 0xf);
    let packing = pack(&problem);
    check(&problem, &packing);
    assert_eq!((packing.refused, packing.passes.len()), (vec![Unplaceable::Event(0)], 1));
}

#[test]
fn without_counters_everything_is_refused() {
    let packing = pack(&plain(&[0xf, 0x1], 0));
    assert_eq!(packing.refused, [Unplaceable::Event(0), Unplaceable::Event(1)]);
    assert_eq!((packing.passes.len(), packing.lower_bound), (0, 0));
    assert_eq!(pack(&PackingProblem::default()).passes.len(), 0);
}

#[test]
fn a_set_that_never_fits_names_the_smallest_conflict() {
    let mut problem = plain(&[0xff, 0x80, 0xff, 0x80, 0xff], 0xff);
    problem.together = vec![vec![0, 1, 2, 3, 4]];
    let packing = pack(&problem);
    let because = Because::Counters { pmu: 0, counters: CounterMask::from_bits(0x80, 0), places: 2 };
    assert_eq!(
        packing.refused,
        [Unplaceable::Set { set: 0, conflict: Conflict { events: vec![1, 3], because } }]
    );
    assert_eq!(packing.passes.len(), 2);
}

#[test]
fn partners_meet_where_that_costs_no_pass() {
    let mut problem = plain(&[0xf; 7], 0xf);
    problem.partners = vec![vec![0, 6], vec![1, 5], vec![0, 1, 2, 3, 4]];
    let packing = pack(&problem);
    check(&problem, &packing);
    let together = |a, b| {
        packing
            .passes
            .iter()
            .any(|pass| [a, b].iter().all(|event| pass.iter().any(|assignment| assignment.demand == *event)))
    };
    assert!(together(0, 6) && together(1, 5), "{packing:?}");
    assert_eq!(packing.passes.len(), 2);
}

#[test]
fn counters_that_stay_free_repeat_events() {
    let mut problem = plain(&[0xf; 6], 0xf);
    problem.repeats = true;
    let packing = pack(&problem);
    check(&problem, &packing);
    assert!(packing.passes.iter().all(|pass| pass.len() == 4), "{packing:?}");
    assert_eq!(packing.passes.iter().flatten().filter(|assignment| assignment.repeats).count(), 2);
}

#[test]
fn events_on_two_pmus_are_in_one_pass_on_both() {
    let both = |a: u64, b: u64| {
        let need = |pmu, mask| PmuNeed { pmu, ways: vec![way(mask)], wide: false };
        Demand { needs: vec![need(0, a), need(1, b)], alone: false }
    };
    let demands: Vec<Demand> = (0..12).map(|i| both(0xff, if i % 2 == 0 { 0x3 } else { 0x3f })).collect();
    let problem = PackingProblem {
        pmus: vec![CounterMask::first(8, 0), CounterMask::first(6, 0)],
        demands,
        ..PackingProblem::default()
    };
    let packing = pack(&problem);
    check(&problem, &packing);
    assert_eq!((packing.passes.len(), packing.lower_bound), (3, 3));
}

/// Masks, registers, pairs and sets as no vendor would make them, on one to three PMUs.
fn instance() -> impl Strategy<Value = PackingProblem> {
    let register =
        prop_oneof![Just(ExtraRegisterKind::OffcoreResponse0), Just(ExtraRegisterKind::OffcoreResponse1)];
    let extra = prop::option::weighted(0.4, (register, 0u64..3));
    let way = (1u64..32, extra).prop_map(|(mask, extra)| CounterEncoding {
        counters: CounterMask::from_bits(mask, 0),
        extra: extra.map(|(register, value)| ExtraRegister { register, value }),
    });
    let need = (prop::collection::vec(way, 1..3), prop::bool::weighted(0.15));
    let demand = (prop::collection::vec(prop::option::weighted(0.7, need), 3), prop::bool::weighted(0.05));
    let demand = demand.prop_map(|(needs, alone)| {
        let need = |(pmu, need): (usize, Option<(Vec<CounterEncoding>, bool)>)| {
            need.map(|(ways, wide)| PmuNeed { pmu, ways, wide })
        };
        Demand { needs: needs.into_iter().enumerate().filter_map(need).collect(), alone }
    });
    let sets = prop::collection::vec(prop::collection::btree_set(0usize..7, 2..4), 0..4);
    let pmus = prop_oneof![3 => Just(1usize), 1 => Just(2), 1 => Just(3)];
    let counters = prop::collection::vec(1u64..32, 3);
    (prop::collection::vec(demand, 1..7), sets, counters, pmus).prop_map(
        |(mut demands, sets, counters, pmus)| {
            for demand in &mut demands {
                demand.needs.retain(|need| need.pmu < pmus);
            }
            let all = demands.len();
            let together = sets
                .into_iter()
                .map(|set| set.into_iter().filter(|event| *event < all).collect::<Vec<_>>())
                .filter(|set| set.len() > 1)
                .collect();
            let pmus = counters[..pmus].iter().map(|bits| CounterMask::from_bits(*bits, 0)).collect();
            PackingProblem { pmus, demands, together, ..PackingProblem::default() }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn plain_events_take_as_many_passes_as_brute_force_needs(
        masks in prop::collection::vec(1u64..32, 1..9),
        counters in 1u64..32,
    ) {
        let problem = plain(&masks, counters);
        let packing = pack(&problem);
        check(&problem, &packing);
        prop_assert_eq!(packing.passes.len(), brute_force(&problem, &packing.refused));
        prop_assert!(packing.is_optimal());
        prop_assert_eq!(proved(&problem, &packing, &packing.certificate), Some(packing.lower_bound));
    }

    #[test]
    fn made_up_events_take_as_many_passes_as_brute_force_needs(problem in instance()) {
        let packing = pack(&problem);
        check(&problem, &packing);
        let least = brute_force(&problem, &packing.refused);
        prop_assert!(packing.lower_bound <= least, "{} is no bound for {least}", packing.lower_bound);
        prop_assert_eq!(packing.passes.len(), least);
        let proved = proved(&problem, &packing, &packing.certificate);
        prop_assert!(proved.is_none_or(|proved| proved >= packing.lower_bound));
    }

    #[test]
    fn a_conflict_is_one_and_loses_it_with_any_event_less(problem in instance()) {
        let refused = pack(&problem).refused;
        let events: Vec<usize> =
            (0..problem.demands.len()).filter(|event| !refused.contains(&Unplaceable::Event(*event))).collect();
        match conflict(&problem, &events) {
            None => prop_assert!(fits(&problem, &events)),
            Some(found) => {
                prop_assert!(!fits(&problem, &found.events), "{found:?}");
                for event in &found.events {
                    let fewer: Vec<usize> = found.events.iter().copied().filter(|other| other != event).collect();
                    prop_assert!(fits(&problem, &fewer), "{found:?} without {event}");
                }
            }
        }
    }

    #[test]
    fn order_does_not_change_the_number_of_passes(
        masks in prop::collection::vec(1u64..64, 1..20).prop_shuffle(),
    ) {
        let passes = pack(&plain(&masks, 0x3f)).passes.len();
        let mut sorted = masks.clone();
        sorted.sort_unstable();
        prop_assert_eq!(pack(&plain(&sorted, 0x3f)).passes.len(), passes);
    }
}
