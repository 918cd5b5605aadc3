use super::*;
use cyclometer_catalog::cpus::cpu;
use cyclometer_core::event::ExtraRegisterKind;
use cyclometer_core::syntax::parse_events;
use proptest::prelude::*;

fn placed(id: &str, list: &str) -> Vec<(String, Option<CounterId>)> {
    let placement = place(&[cpu(id).unwrap()], &parse_events(list).unwrap()).unwrap();
    placement.events.into_iter().map(|event| (event.selected.name, event.counter.ok())).collect()
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
        let placed = placed("apple-m2", &order.join(","));
        for (name, counter) in &placed {
            prop_assert!(counter.is_some(), "{name} in {order:?}");
            if name == "INST_LDST" {
                prop_assert_eq!(*counter, Some(CounterId::General(7)));
            }
        }
    }
}

#[test]
fn generic_events_use_fixed_counters_and_both_offcore_registers_as_the_kernel_does() {
    let list = "cycles,instructions,ref-cycles,branches,branch-misses,LLC-loads,LLC-load-misses";
    let placed = placed("skylake", list);
    assert!(placed.iter().all(|(_, counter)| counter.is_some()), "{placed:?}");
    assert_eq!(placed[4].0, "branch-misses");
    assert!(
        placed[..3].iter().all(|(_, counter)| matches!(counter, Some(CounterId::Fixed(_)))),
        "{placed:?}"
    );
}

#[test]
fn two_events_of_one_counter_do_not_fit() {
    let placed = placed("apple-m1", "INST_LDST,RETIRE_UOP,FIXED_CYCLES");
    assert_eq!(placed.iter().filter(|(_, counter)| counter.is_none()).count(), 1);
    assert_eq!(placed[2].1, Some(CounterId::Fixed(0)));
}

#[test]
fn events_that_take_two_counters_share_none_of_them() {
    let wide = "fp_ret_sse_avx_ops.all";
    let general = |list: &str| -> Vec<Option<u8>> {
        let placed = placed("amdzen5", list).into_iter();
        placed
            .map(|(_, counter)| match counter {
                Some(CounterId::General(n)) => Some(n),
                _ => None,
            })
            .collect()
    };
    for list in [format!("instructions,{wide}"), format!("{wide},instructions@1,cycles@2")] {
        let found = general(&list);
        let wide = found.iter().zip(list.split(',')).find(|(_, name)| name.starts_with("fp_"));
        let n = wide.and_then(|(n, _)| *n).unwrap();
        assert!(n % 2 == 0 && !found.contains(&Some(n + 1)), "{list}: {found:?}");
        assert!(found.iter().all(Option::is_some), "{list}: {found:?}");
    }
    let four = general(&[wide; 4].join(","));
    assert_eq!(four.iter().flatten().count(), 3, "{four:?}: six counters are three pairs");
    let five = "cycles,instructions,cache-misses,branches,branch-misses";
    let found = general(&format!("{wide},{five}"));
    assert_eq!(
        found.iter().flatten().count(),
        5,
        "{found:?}: one of six counters is left, or two for one event"
    );
    let placement = place(&[cpu("amdzen5").unwrap()], &parse_events(wide).unwrap()).unwrap();
    assert_eq!(placement.free.len(), 4, "{:?}", placement.free);
}

#[test]
fn a_pin_leaves_one_counter() {
    assert_eq!(placed("skylake", "BR_MISP_RETIRED.ALL_BRANCHES@2")[0].1, Some(CounterId::General(2)));
    assert_eq!(placed("skylake", "INST_RETIRED.ANY@0")[0].1, Some(CounterId::Fixed(0)));
    assert_eq!(placed("skylake", "INST_RETIRED.ANY@1")[0].1, None);
}

#[test]
fn different_values_of_one_register_do_not_fit_and_a_second_register_helps() {
    let list = "FRONTEND_RETIRED.L2_MISS,FRONTEND_RETIRED.L1I_MISS";
    let placement = place(&[cpu("skylake").unwrap()], &parse_events(list).unwrap()).unwrap();
    let expected =
        Obstacle::Register { register: "MSR_PEBS_FRONTEND", other: "FRONTEND_RETIRED.L2_MISS".into() };
    assert_eq!(placement.events[1].counter, Err(expected));
    let cpu = cpu("skylake").unwrap();
    let offcore: Vec<&str> = cpu
        .events()
        .filter(|event| event.also().count() == 1 && event.code().extra.is_some())
        .map(|event| event.name())
        .take(3)
        .collect();
    let placed = place(&[cpu], &parse_events(&offcore.join(",")).unwrap()).unwrap();
    let fitting = placed.events.iter().filter(|event| event.counter.is_ok()).count();
    assert_eq!(fitting, 2, "{offcore:?}: there are two registers");
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
    codes.map(|(extra, mask)| (extra, pinned(mask.and(cpu.counters())))).collect()
}

/// How many events can count at once, by trying every code on every counter.
fn brute_force(events: &[Codes], free: CounterMask, held: &[ExtraRegister]) -> usize {
    let Some((first, rest)) = events.split_first() else { return 0 };
    let mut best = brute_force(rest, free, held);
    for (extra, mask) in first {
        let clash = |held: &ExtraRegister| {
            extra.is_some_and(|extra| extra.register == held.register && extra.value != held.value)
        };
        if held.iter().any(clash) {
            continue;
        }
        let held: Vec<ExtraRegister> = held.iter().copied().chain(*extra).collect();
        for counter in mask.and(free).iter() {
            let rest = brute_force(rest, free.without(std::iter::once(counter).collect()), &held);
            best = best.max(1 + rest);
        }
    }
    best
}

fn permutations(of: &[String]) -> Vec<Vec<String>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for i in 0..of.len() {
        let mut rest = of.to_vec();
        let first = rest.remove(i);
        for mut order in permutations(&rest) {
            order.insert(0, first.clone());
            all.push(order);
        }
    }
    all
}

/// CPUs with two counters and two registers, one register, four, and values that only the first register takes.
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
    let mut kinds: std::collections::BTreeMap<_, usize> = std::collections::BTreeMap::new();
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
    fn as_many_refined_events_fit_as_brute_force_finds_in_every_order(
        id in prop::sample::select(REFINED.to_vec()),
        picks in prop::collection::vec((any::<prop::sample::Index>(), prop::option::weighted(0.3, 0u8..3)), 1..5),
    ) {
        let cpu = cpu(id).unwrap();
        let pool = refined(&cpu);
        let events: Vec<(&str, Option<u8>)> = picks.iter().map(|(pick, pin)| (*pick.get(&pool), *pin)).collect();
        let codes: Vec<Codes> = events.iter().map(|(name, pin)| table_codes(&cpu, name, *pin)).collect();
        let expected = brute_force(&codes, cpu.counters(), &[]);
        let texts: Vec<String> = events
            .iter()
            .map(|(name, pin)| pin.map_or_else(|| (*name).to_owned(), |pin| format!("{name}@{pin}")))
            .collect();
        for order in permutations(&texts) {
            let placement = place(&[cpu], &parse_events(&order.join(",")).unwrap()).unwrap();
            check(&cpu, &placement)?;
            let placed = placement.events.iter().filter(|event| event.counter.is_ok()).count();
            prop_assert_eq!(placed, expected, "{} {:?}", id, order);
        }
    }
}

/// Every counter is taken once, by an event that may use it with the code that was chosen; every register has one value.
fn check(cpu: &Cpu<'_>, placement: &Placement<'_>) -> std::result::Result<(), TestCaseError> {
    let mut taken: Vec<CounterId> = Vec::new();
    let mut held: Vec<ExtraRegister> = Vec::new();
    for event in &placement.events {
        let Ok(counter) = event.counter else { continue };
        let coded = event.selected.coded;
        prop_assert!(!taken.contains(&counter) && coded.counters.contains(counter), "{:?}", placement);
        prop_assert!(cpu.counters().contains(counter) && !placement.free.contains(counter));
        taken.push(counter);
        if let Some(extra) = coded.code.extra {
            let clash = held.iter().any(|o| o.register == extra.register && o.value != extra.value);
            prop_assert!(!clash, "{:?}", placement);
            held.push(extra);
        }
    }
    Ok(())
}

#[test]
fn an_event_that_one_register_alone_counts_gets_it_in_any_order() {
    let pair = ["OFFCORE_RESPONSE.ANY_READ.DDR", "OFFCORE_RESPONSE.ANY_CODE_RD.OUTSTANDING"];
    for list in [pair.join(","), format!("{},{}", pair[1], pair[0])] {
        let placed = placed("knightslanding", &list);
        assert!(placed.iter().all(|(_, counter)| counter.is_some()), "{list}: {placed:?}");
    }
}

#[test]
fn raw_codes_use_the_second_register_as_the_kernel_does_and_only_for_values_that_it_has() {
    let fitting =
        |id: &str, list: &str| placed(id, list).iter().filter(|(_, counter)| counter.is_some()).count();
    let (first, second) =
        ("event=0xb7,umask=1,offcore_rsp=0x10001", "event=0xb7,umask=1,offcore_rsp=0x10002");
    for (id, expected) in [("skylake", 2), ("silvermont", 2), ("nehalemep", 1)] {
        assert_eq!(fitting(id, &format!("cpu/{first}/,cpu/{second}/")), expected, "{id}");
    }
    let placement =
        place(&[cpu("silvermont").unwrap()], &parse_events(&format!("cpu/{first}/,cpu/{second}/")).unwrap());
    let umasks: Vec<u8> = placement.unwrap().events.iter().map(|e| e.selected.coded.code.umask).collect();
    assert_eq!(umasks, [1, 2], "the second register goes with another unit mask there");
    let outstanding = "event=0xb7,umask=1,offcore_rsp=0x4000010044";
    let other = "event=0xb7,umask=1,offcore_rsp=0x4000010002";
    assert_eq!(fitting("knightslanding", &format!("cpu/{outstanding}/,cpu/{other}/")), 1);
    assert_eq!(fitting("knightslanding", &format!("cpu/{outstanding}/,cpu/{first}/")), 2);
}

#[test]
fn many_events_are_placed_in_time() {
    for id in ["skylake", "novalake/core", "knightslanding", "amdzen5", "apple-m4"] {
        let cpu = cpu(id).unwrap();
        let all: Vec<&str> = cpu.events().map(|entry| entry.name()).collect();
        let requests: Vec<EventRequest> =
            all.iter().filter_map(|name| parse_events(name).ok()).flatten().collect();
        let placement = place(&[cpu], &requests).unwrap();
        let fitting = placement.events.iter().filter(|event| event.counter.is_ok()).count();
        assert!(fitting as u32 >= cpu.counters().general_bits().count_ones() / 2, "{id}: {fitting}");
    }
}

/// Registers that made-up events are refined by.
const REGISTERS: [ExtraRegisterKind; 3] =
    [ExtraRegisterKind::OffcoreResponse0, ExtraRegisterKind::OffcoreResponse1, ExtraRegisterKind::Frontend];

/// A way with a register and a value, or none, on some of six counters.
fn made_up_way() -> impl Strategy<Value = Way> {
    let extra = prop::option::weighted(0.8, (prop::sample::select(REGISTERS.to_vec()), 0u64..4));
    (extra, 0u64..64).prop_map(|(extra, bits)| Way {
        extra: extra.map(|(register, value)| ExtraRegister { register, value }),
        mask: CounterMask::from_bits(bits, 0),
    })
}

fn made_up_item() -> impl Strategy<Value = Item> {
    let ways = prop::collection::vec(made_up_way(), 1..4);
    (ways, prop::bool::weighted(0.2)).prop_map(|(ways, wide)| Item { ways, wide })
}

/// The counters that a way takes, for each way to take them.
fn takes(way: &Way, wide: bool, free: u64) -> Vec<u64> {
    let singles = (0..6).filter(|n| way.mask.general_bits() >> n & 1 == 1);
    let taken: Vec<u64> = match wide {
        true => singles.filter(|n| n % 2 == 0).map(|n| 0b11 << n).collect(),
        false => singles.map(|n| 1 << n).collect(),
    };
    taken.into_iter().filter(|bits| bits & free == *bits).collect()
}

fn most(items: &[Item], free: u64, held: &[ExtraRegister]) -> usize {
    let Some((first, rest)) = items.split_first() else { return 0 };
    let mut best = most(rest, free, held);
    for way in &first.ways {
        let clash = |held: &ExtraRegister| {
            way.extra.is_some_and(|extra| extra.register == held.register && extra.value != held.value)
        };
        if held.iter().any(clash) {
            continue;
        }
        let held: Vec<ExtraRegister> = held.iter().copied().chain(way.extra).collect();
        for bits in takes(way, first.wide, free) {
            best = best.max(1 + most(rest, free & !bits, &held));
        }
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn made_up_events_are_placed_as_brute_force_places_them(
        items in prop::collection::vec(made_up_item(), 0..5),
        free in 0u64..64,
    ) {
        let solution = search::solve(&items, CounterMask::from_bits(free, 0));
        let mut left = free;
        let mut held: Vec<ExtraRegister> = Vec::new();
        for (item, found) in items.iter().zip(&solution.placed) {
            let Some((way, CounterId::General(n))) = found else { continue };
            let way = &item.ways[*way];
            let bits = if item.wide { 0b11 << n } else { 1 << n };
            prop_assert!(takes(way, item.wide, left).contains(&bits), "{:?}", solution);
            left &= !bits;
            held.extend(way.extra);
        }
        for (i, extra) in held.iter().enumerate() {
            prop_assert!(held[..i].iter().all(|o| o.register != extra.register || o.value == extra.value));
        }
        prop_assert_eq!(solution.taken.general_bits(), free & !left);
        prop_assert_eq!(solution.placed.iter().flatten().count(), most(&items, free, &[]));
    }
}
