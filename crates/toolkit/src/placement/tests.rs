use super::*;
use cyclometer_catalog::cpus::cpu;
use cyclometer_core::CounterId;
use cyclometer_core::event::ExtraRegister;
use cyclometer_core::syntax::parse_events;
use proptest::prelude::*;

fn placement(id: &str, list: &str) -> Placement<'static> {
    Placement::of(&[cpu(id).unwrap()], &parse_events(list).unwrap(), Wishes::default()).unwrap()
}

/// The names and counters of each pass.
fn passes(id: &str, list: &str) -> Vec<Vec<(String, CounterId)>> {
    let placement = placement(id, list);
    let assignment = |assignment: &CounterAssignment| {
        (placement.events[assignment.demand].selected.name.clone(), assignment.counter)
    };
    placement.packing.passes.iter().map(|pass| pass.iter().map(assignment).collect()).collect()
}

/// Every event of a CPU by name.
fn all_of(id: &str) -> Vec<EventRequest> {
    let cpu = cpu(id).unwrap();
    let names: Vec<&str> = cpu.events().map(|entry| entry.name()).collect();
    names.iter().filter_map(|name| parse_events(name).ok()).flatten().collect()
}

/// Whether all events of a list count at once.
fn is_one_pass(id: &str, list: &str) -> bool {
    let packing = placement(id, list).packing;
    packing.passes.len() == 1 && packing.refused.is_empty()
}

/// Six events that count anywhere, and one that only PMC7 counts: taken as they come, it finds PMC7 taken.
const APPLE: [&str; 8] = [
    "L1D_CACHE_MISS_LD",
    "L1D_CACHE_MISS_ST",
    "L1D_TLB_MISS",
    "L2_TLB_MISS_DATA",
    "L1I_CACHE_MISS_DEMAND",
    "CORE_ACTIVE_CYCLE",
    "L1D_TLB_ACCESS",
    "INST_LDST",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn eight_events_of_apples_m2_are_placed_in_any_order(order in Just(APPLE.to_vec()).prop_shuffle()) {
        let passes = passes("apple-m2", &order.join(","));
        prop_assert_eq!((passes.len(), passes[0].len()), (1, 8), "{:?}", order);
        prop_assert!(passes[0].contains(&("INST_LDST".to_owned(), CounterId::General(7))));
    }
}

/// All events of CPUs, and all that are not deprecated: how many, in how many passes, and the proof. The
/// proof is the counters with the number of events that can use no others.
const WHOLE: [(&str, bool, usize, usize, &str, usize); 14] = [
    ("apple-m1", true, 62, 9, "5-7", 25),
    ("apple-m1", false, 60, 8, "5-7", 24),
    ("apple-m2", true, 62, 9, "5-7", 26),
    ("apple-m2", false, 60, 9, "5-7", 25),
    ("apple-m3", true, 68, 9, "5-7", 25),
    ("apple-m4", true, 105, 13, "2-9", 103),
    ("icelakex", true, 363, 58, "0-3", 231),
    ("sapphirerapids", true, 411, 56, "0-3", 222),
    ("alderlake/core", true, 319, 40, "0-7", 314),
    ("graniterapids", true, 398, 51, "0-3", 203),
    ("lunarlake/core", true, 331, 33, "0-9", 325),
    ("skylakex", true, 470, 117, "0-3", 466),
    ("neoverse-v2", true, 155, 26, "0-5", 154),
    ("amdzen4", true, 336, 57, "0-5", 342),
];

#[test]
fn all_events_of_a_cpu_take_the_fewest_passes_and_the_certificate_says_why() {
    for (id, deprecated, events, passes, counters, within) in WHOLE {
        let known = |request: &EventRequest| cpu(id).unwrap().event(&request.text).unwrap();
        let mut all = all_of(id);
        all.retain(|request| deprecated || !known(request).deprecated());
        let placement = Placement::of(&[cpu(id).unwrap()], &all, Wishes::default()).unwrap();
        let packing = &placement.packing;
        let Certificate::Counters { counters: proof, events: proving, .. } = &packing.certificate else {
            panic!("{id}: {:?}", packing.certificate)
        };
        let found = (placement.events.len(), packing.passes.len(), proof.to_string(), proving.len());
        assert_eq!(found, (events, passes, counters.to_owned(), within), "{id} {deprecated}");
        assert!(packing.is_optimal() && packing.refused.is_empty());
        check(&placement);
    }
}

#[test]
fn generic_events_use_fixed_counters_and_both_offcore_registers_as_the_kernel_does() {
    let list = "cycles,instructions,ref-cycles,branches,branch-misses,LLC-loads,LLC-load-misses";
    let passes = passes("skylake", list);
    assert_eq!((passes.len(), passes[0].len()), (1, 7), "{passes:?}");
    let fixed = passes[0].iter().filter(|(_, counter)| matches!(counter, CounterId::Fixed(_)));
    assert_eq!(fixed.count(), 3, "{passes:?}");
}

#[test]
fn two_events_of_one_counter_take_two_passes() {
    let passes = passes("apple-m1", "INST_LDST,RETIRE_UOP,FIXED_CYCLES");
    let seven = |pass: &Vec<(String, CounterId)>| pass.iter().any(|(_, at)| *at == CounterId::General(7));
    assert!(passes.len() == 2 && passes.iter().all(seven), "{passes:?}");
}

#[test]
fn events_that_take_two_counters_share_none_of_them() {
    let wide = "fp_ret_sse_avx_ops.all";
    for list in [format!("instructions,{wide}"), format!("{wide},instructions@1,cycles@2")] {
        let placement = placement("amdzen5", &list);
        check(&placement);
        assert_eq!(placement.packing.passes.len(), 1, "{list}");
    }
    let five = "cycles,instructions,cache-misses,branches,branch-misses";
    let packing = placement("amdzen5", &format!("{wide},{five}")).packing;
    assert_eq!((packing.passes.len(), packing.lower_bound), (2, 2), "six counters, and seven are wanted");
    let alone = placement("amdzen5", wide);
    assert_eq!(alone.free_in(&alone.packing.passes[0]).len(), 4);
}

#[test]
fn a_pin_leaves_one_counter() {
    let at = |list| passes("skylake", list).first().map(|pass| pass[0].1);
    assert_eq!(at("BR_MISP_RETIRED.ALL_BRANCHES@2"), Some(CounterId::General(2)));
    assert_eq!(at("INST_RETIRED.ANY@0"), Some(CounterId::Fixed(0)));
    assert_eq!(at("INST_RETIRED.ANY@1"), None);
    assert_eq!(placement("skylake", "INST_RETIRED.ANY@1").packing.refused, [Unplaceable::Event(0)]);
    assert!(!is_one_pass("skylake", "instructions@2,branches@2"));
}

#[test]
fn what_is_named_twice_is_counted_once() {
    let placement = placement("skylake", "instructions,cycles,INSTRUCTIONS,instructions@1");
    let texts: Vec<usize> = placement.events.iter().map(|event| event.texts.len()).collect();
    assert_eq!(texts, [2, 1, 1]);
}

#[test]
fn a_group_is_in_one_pass_or_says_which_of_it_cannot_be() {
    let list = "{INST_LDST,INST_ALL},RETIRE_UOP";
    let placement = placement("apple-m1", list);
    check(&placement);
    let Unplaceable::Set { set: 0, conflict } = &placement.packing.refused[0] else { panic!() };
    let because = Because::Counters { pmu: 0, counters: CounterMask::from_bits(0x80, 0), places: 2 };
    assert_eq!((&conflict.events, &conflict.because), (&vec![0, 1], &because));
    assert!(is_one_pass("apple-m1", "{INST_LDST,INST_BRANCH}"));
}

#[test]
fn counters_that_something_else_holds_are_left_out() {
    let wishes = Wishes { without: CounterMask::from_bits(0xe0, 0), repeats: false };
    let requests = parse_events("INST_LDST,L1D_TLB_MISS").unwrap();
    let placement = Placement::of(&[cpu("apple-m1").unwrap()], &requests, wishes).unwrap();
    assert_eq!(placement.packing.refused, [Unplaceable::Event(0)]);
    assert_eq!(placement.packing.passes.len(), 1);
    assert_eq!(placement.counters, CounterMask::from_bits(0x31c, 0b11));
}

#[test]
fn different_values_of_one_register_take_turns_and_a_second_register_helps() {
    let list = "FRONTEND_RETIRED.L2_MISS,FRONTEND_RETIRED.L1I_MISS";
    let placement = placement("skylake", list);
    assert_eq!(placement.packing.passes.len(), 2);
    let Certificate::Registers { registers, .. } = &placement.packing.certificate else { panic!() };
    assert_eq!(registers[0].name(), "MSR_PEBS_FRONTEND");
    let cpu = cpu("skylake").unwrap();
    let offcore: Vec<&str> = cpu
        .events()
        .filter(|event| event.also().count() == 1 && event.code().extra.is_some())
        .map(|event| event.name())
        .take(5)
        .collect();
    assert_eq!(passes("skylake", &offcore.join(",")).len(), 3, "{offcore:?}: there are two registers");
}

#[test]
fn events_of_a_metric_meet_where_that_costs_no_pass() {
    // Five events of four counters; the ratio of the first and the last is a metric.
    let list = "branch_instructions,l1d_cache_misses,L2_RQSTS.REFERENCES,L2_RQSTS.MISS,branch_misses";
    let placement = placement("skylakex", list);
    assert_eq!(placement.packing.passes.len(), 2);
    let meets = |pass: &Vec<CounterAssignment>| {
        [0, 4].iter().all(|event| pass.iter().any(|assignment| assignment.demand == *event))
    };
    assert!(placement.packing.passes.iter().any(meets), "{:?}", placement.packing);
}

/// An event as the table has it: each of its codes' register and counters.
type Codes = Vec<(Option<ExtraRegister>, CounterMask)>;

fn table_codes(cpu: &Cpu<'_>, name: &str, pin: Option<u8>) -> Codes {
    let entry = cpu.event(name).unwrap();
    let also = entry.also().map(|also| (also.code.extra, also.counters));
    let codes = std::iter::once((entry.code().extra, entry.counters())).chain(also);
    let pinned = |mask: CounterMask| match pin {
        Some(n) if mask.general_bits() >> n & 1 == 1 => CounterMask::from_bits(1 << n, 0),
        Some(n) => mask.and(CounterMask::from_bits(0, 1 << n)),
        None => mask,
    };
    codes.map(|(extra, mask)| (extra, pinned(mask.unwrap().and(cpu.counters())))).collect()
}

/// Whether events count at once, by trying every code on every counter.
fn fit(events: &[&Codes], free: CounterMask, held: &[ExtraRegister]) -> bool {
    let Some((first, rest)) = events.split_first() else { return true };
    first.iter().any(|(extra, mask)| {
        let clash = |held: &ExtraRegister| {
            extra.is_some_and(|extra| extra.register == held.register && extra.value != held.value)
        };
        let with: Vec<ExtraRegister> = held.iter().copied().chain(*extra).collect();
        let one = |counter: CounterId| free.without(std::iter::once(counter).collect());
        !held.iter().any(clash) && mask.and(free).iter().any(|counter| fit(rest, one(counter), &with))
    })
}

/// The fewest passes, by trying every division.
fn fewest(events: &[Codes], counters: CounterMask) -> usize {
    fn divide<'c>(rest: &'c [Codes], passes: &mut Vec<Vec<&'c Codes>>, counters: CounterMask) -> bool {
        let Some((first, rest)) = rest.split_first() else { return true };
        (0..passes.len()).any(|at| {
            passes[at].push(first);
            let found = fit(&passes[at], counters, &[]) && divide(rest, passes, counters);
            passes[at].pop();
            found
        })
    }
    (0..=events.len()).find(|passes| divide(events, &mut vec![Vec::new(); *passes], counters)).unwrap()
}

/// CPUs with two counters and two registers, one register, four, and values that only the first register
/// takes.
const REFINED: [&str; 8] = [
    "knightslanding",
    "silvermont",
    "skylake",
    "haswellx",
    "sapphirerapids",
    "snowridgex",
    "novalake/core",
    "alderlake/atom",
];

/// The refined events of a CPU: those with other codes, without, and of other registers, a few of each.
fn refined(cpu: &Cpu<'static>) -> Vec<&'static str> {
    let mut kinds: BTreeMap<_, usize> = BTreeMap::new();
    let few = |entry: &cyclometer_catalog::table::Entry<'static>| {
        let Some(extra) = entry.code().extra else { return false };
        let count = kinds.entry((extra.register, entry.also().count())).or_default();
        *count += 1;
        *count <= 4
    };
    cpu.events().filter(few).map(|entry| entry.name()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn refined_events_take_as_few_passes_as_brute_force_finds_in_any_order(
        id in prop::sample::select(REFINED.to_vec()),
        picks in prop::collection::vec((any::<prop::sample::Index>(), prop::option::weighted(0.3, 0u8..3)), 1..6),
    ) {
        let cpu = cpu(id).unwrap();
        let pool = refined(&cpu);
        let mut events: Vec<(&str, Option<u8>)> = picks.iter().map(|(pick, pin)| (*pick.get(&pool), *pin)).collect();
        events.sort();
        events.dedup();
        let possible = |(name, pin): &(&str, Option<u8>)| {
            table_codes(&cpu, name, *pin).iter().any(|(_, mask)| !mask.is_empty())
        };
        events.retain(possible);
        let codes: Vec<Codes> = events.iter().map(|(name, pin)| table_codes(&cpu, name, *pin)).collect();
        let text = |(name, pin): &(&str, Option<u8>)| pin.map_or_else(|| (*name).to_owned(), |pin| format!("{name}@{pin}"));
        let texts: Vec<String> = events.iter().map(text).collect();
        let expected = fewest(&codes, cpu.counters());
        for rotation_group in 0..texts.len() {
            let mut order = texts.clone();
            order.rotate_left(rotation_group);
            for order in [order.clone(), order.into_iter().rev().collect()] {
                let placement = placement(id, &order.join(","));
                check(&placement);
                prop_assert_eq!(placement.packing.passes.len(), expected, "{} {:?}", id, order);
                prop_assert!(placement.packing.is_optimal());
            }
        }
    }
}

/// Every event has a counter assignment: a counter that it may use with the chosen code. In a pass every
/// counter is taken once and every register has one value.
#[track_caller]
fn check(placement: &Placement<'_>) {
    for pass in &placement.packing.passes {
        let mut taken = CounterMask::EMPTY;
        let mut held: Vec<ExtraRegister> = Vec::new();
        for assignment in pass {
            let event = &placement.events[assignment.demand];
            let coded = &event.codes[assignment.way];
            assert!(coded.counters.is_none_or(|named| named.contains(assignment.counter)), "{assignment:?}");
            let own = assignment.counters(event.wide);
            assert!(own.and(taken).is_empty() && own.without(placement.counters).is_empty(), "{pass:?}");
            taken = taken.or(own);
            held.extend(coded.code.extra);
        }
        let clash = |a: &ExtraRegister, b: &ExtraRegister| a.register == b.register && a.value != b.value;
        assert!(!held.iter().any(|a| held.iter().any(|b| clash(a, b))), "{pass:?}");
        assert_eq!(placement.free_in(pass), placement.counters.without(taken));
    }
    for event in 0..placement.events.len() {
        let assignments = placement
            .packing
            .passes
            .iter()
            .flatten()
            .filter(|assignment| assignment.demand == event && !assignment.repeats)
            .count();
        let refused = placement.packing.refused.contains(&Unplaceable::Event(event));
        assert!(assignments == usize::from(!refused), "{event} has {assignments} seats");
    }
}

#[test]
fn an_event_that_one_register_alone_counts_gets_it_in_any_order() {
    let pair = ["OFFCORE_RESPONSE.ANY_READ.DDR", "OFFCORE_RESPONSE.ANY_CODE_RD.OUTSTANDING"];
    for list in [pair.join(","), format!("{},{}", pair[1], pair[0])] {
        assert!(is_one_pass("knightslanding", &list), "{list}");
    }
}

#[test]
fn raw_codes_use_the_second_register_as_the_kernel_does_and_only_for_values_that_it_has() {
    let (first, second) =
        ("event=0xb7,umask=1,offcore_rsp=0x10001", "event=0xb7,umask=1,offcore_rsp=0x10002");
    for (id, expected) in [("skylake", 1), ("silvermont", 1), ("nehalemep", 2)] {
        assert_eq!(passes(id, &format!("cpu/{first}/,cpu/{second}/")).len(), expected, "{id}");
    }
    let both = placement("silvermont", &format!("cpu/{first}/,cpu/{second}/"));
    let umask =
        |assignment: &CounterAssignment| both.events[assignment.demand].codes[assignment.way].code.umask;
    let mut umasks: Vec<u8> = both.packing.passes[0].iter().map(umask).collect();
    umasks.sort_unstable();
    assert_eq!(umasks, [1, 2], "the second register goes with another unit mask there");
    let outstanding = "event=0xb7,umask=1,offcore_rsp=0x4000010044";
    let other = "event=0xb7,umask=1,offcore_rsp=0x4000010002";
    assert!(!is_one_pass("knightslanding", &format!("cpu/{outstanding}/,cpu/{other}/")));
    assert!(is_one_pass("knightslanding", &format!("cpu/{outstanding}/,cpu/{first}/")));
}
