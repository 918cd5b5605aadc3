//! Which events can count at once on a CPU of the catalogue, and on which counters.

use cyclometer_catalog::select::{Selected, chip, select};
use cyclometer_catalog::table::Cpu;
use cyclometer_core::event::{ExtraRegister, ExtraRegisterKind};
use cyclometer_core::syntax::EventRequest;
use cyclometer_core::{CounterId, CounterMask, EventCode, Result};

/// What becomes of events that are to count at the same time.
#[derive(Clone, Debug)]
pub struct Placement<'a> {
    /// Each event with its counter, in the order of the request; `None` for those that do not fit beside the others.
    pub events: Vec<Placed<'a>>,
    /// The counters that stay free.
    pub free: CounterMask,
}

/// One event of a placement.
#[derive(Clone, Debug)]
pub struct Placed<'a> {
    /// As it was written.
    pub text: String,
    /// What it is on the CPU.
    pub selected: Selected<'a>,
    /// The counters that may count it.
    pub allowed: CounterMask,
    /// Where it counts, or why it cannot beside the others.
    pub counter: std::result::Result<CounterId, Obstacle>,
}

/// Why an event does not fit beside others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Obstacle {
    /// Every counter that it may use is taken by an event that can use no other.
    Counters,
    /// Another event needs a different value in a register that both refine their event by.
    Register {
        /// The register.
        register: &'static str,
        /// The other event.
        other: String,
    },
}

/// Places events of a CPU: as many as possible at once, whatever their order. A pin (`event@7`) leaves an event one counter.
///
/// # Errors
///
/// Those of [`select`].
pub fn place<'a>(cpu: Cpu<'a>, requests: &[EventRequest]) -> Result<Placement<'a>> {
    let mut events = Vec::new();
    for request in requests {
        for selected in select(cpu, request)? {
            let allowed = allowed(&cpu, &selected, request.pin);
            events.push(Placed {
                text: request.text.clone(),
                selected,
                allowed,
                counter: Err(Obstacle::Counters),
            });
        }
    }
    share_registers(&mut events);
    let Arrangement { placed, taken, .. } = arrange(&cpu, &events);
    for (event, counter) in events.iter_mut().zip(placed) {
        if let Some(counter) = counter {
            event.counter = Ok(counter);
        }
    }
    Ok(Placement { events, free: cpu.counters().without(taken) })
}

/// One way to give events their counters.
#[derive(Default)]
struct Arrangement {
    placed: Vec<Option<CounterId>>,
    taken: CounterMask,
    count: usize,
}

/// The arrangement that has a counter for most events. Where some take two counters, all ways to place those are tried: a
/// CPU has room for three.
fn arrange(cpu: &Cpu<'_>, events: &[Placed<'_>]) -> Arrangement {
    const TRIED: usize = 5;
    let masks: Vec<CounterMask> = events.iter().map(mask_of).collect();
    let is_wide = |event: &Placed<'_>| cyclometer_arch::takes_two_counters(&chip(cpu), &event.selected.coded);
    let wide: Vec<usize> = (0..events.len()).filter(|i| is_wide(&events[*i])).collect();
    let narrow: Vec<CounterMask> = masks
        .iter()
        .enumerate()
        .map(|(i, mask)| if wide.contains(&i) { CounterMask::EMPTY } else { *mask })
        .collect();
    let mut best: Option<Arrangement> = None;
    for pairs in pairs_of(&wide[..wide.len().min(TRIED)], &masks, cpu.counters()) {
        let both = |n: u8| CounterMask::from_bits(0b11 << n, 0);
        let held = pairs.iter().fold(CounterMask::EMPTY, |held, (_, n)| held.or(both(*n)));
        let mut placed = cyclometer_plan::place(&narrow, cpu.counters().without(held));
        let taken = held.or(placed.iter().flatten().copied().collect());
        for (event, n) in pairs {
            placed[event] = Some(CounterId::General(n));
        }
        let count = placed.iter().flatten().count();
        if best.as_ref().is_none_or(|best| count > best.count) {
            best = Some(Arrangement { placed, taken, count });
        }
    }
    best.unwrap_or_default()
}

/// Every way to give events a counter and the one behind it, or none.
fn pairs_of(wide: &[usize], masks: &[CounterMask], free: CounterMask) -> Vec<Vec<(usize, u8)>> {
    let Some((event, rest)) = wide.split_first() else { return vec![Vec::new()] };
    let mut all = Vec::new();
    for counter in masks[*event].and(free).iter() {
        let CounterId::General(n) = counter else { continue };
        let both = CounterMask::from_bits(0b11 << n, 0);
        if !both.without(free).is_empty() {
            continue;
        }
        for mut pairs in pairs_of(rest, masks, free.without(both)) {
            pairs.push((*event, n));
            all.push(pairs);
        }
    }
    all.extend(pairs_of(rest, masks, free));
    all
}

/// The counters that take part in the matching: none for what a register keeps out.
fn mask_of(event: &Placed<'_>) -> CounterMask {
    match event.counter {
        Err(Obstacle::Register { .. }) => CounterMask::EMPTY,
        _ => event.allowed,
    }
}

fn allowed(cpu: &Cpu<'_>, selected: &Selected<'_>, pin: Option<u8>) -> CounterMask {
    let counters = selected.coded.counters;
    let all = match counters.is_empty() {
        true => CounterMask::from_bits(cpu.counters().general_bits(), 0),
        false => counters.and(cpu.counters()),
    };
    match pin {
        None => all,
        Some(n) => {
            let bit = 1u64.checked_shl(n.into()).unwrap_or(0);
            let general = CounterMask::from_bits(all.general_bits() & bit, 0);
            if general.is_empty() { all.and(CounterMask::from_bits(0, bit)) } else { general }
        }
    }
}

/// Gives each event that is refined by a register one that has its value, or none has taken yet.
fn share_registers(events: &mut [Placed<'_>]) {
    let mut taken: Vec<(ExtraRegister, String)> = Vec::new();
    for event in events {
        let Some(first) = event.selected.coded.code.extra else { continue };
        let also = event.selected.entry.into_iter().flat_map(|entry| entry.also()).map(|also| also.code);
        let own = event.selected.coded.code;
        let same = event.selected.entry.is_some_and(|entry| entry.code() == own);
        let kernels = event.selected.generic.as_ref().and_then(|_| twin(&own));
        let codes: Vec<EventCode> =
            std::iter::once(own).chain(also.filter(|_| same)).chain(kernels).collect();
        let fits = |code: &&EventCode| {
            code.extra.is_some_and(|extra| {
                taken.iter().all(|(other, _)| other.register != extra.register || other.value == extra.value)
            })
        };
        match codes.iter().find(fits).copied() {
            Some(code) => {
                event.selected.coded.code = code;
                taken.extend(code.extra.map(|extra| (extra, event.selected.name.clone())));
            }
            None => {
                let other = taken.iter().find(|(other, _)| other.register == first.register);
                event.counter = Err(Obstacle::Register {
                    register: first.register.name(),
                    other: other.map(|(_, name)| name.clone()).unwrap_or_default(),
                });
            }
        }
    }
}

/// The other code of an offcore response, to which the kernel changes where the first register is taken.
///
/// # Source
///
/// Linux `arch/x86/events/intel/core.c`, `intel_alt_er` and `intel_fixup_er`.
fn twin(code: &EventCode) -> Option<EventCode> {
    let extra = code.extra?;
    let (select, register) = match (code.select, extra.register) {
        (0xb7, ExtraRegisterKind::OffcoreResponse0) => (0xbb, ExtraRegisterKind::OffcoreResponse1),
        (0x2a, ExtraRegisterKind::OffcoreResponse0) => (0x2b, ExtraRegisterKind::OffcoreResponse1),
        _ => return None,
    };
    Some(EventCode { select, extra: Some(ExtraRegister { register, ..extra }), ..*code })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_catalog::cpus::cpu;
    use cyclometer_core::syntax::parse_events;
    use proptest::prelude::*;

    fn placed(id: &str, list: &str) -> Vec<(String, Option<CounterId>)> {
        let placement = place(cpu(id).unwrap(), &parse_events(list).unwrap()).unwrap();
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
        let placement = place(cpu("amdzen5").unwrap(), &parse_events(wide).unwrap()).unwrap();
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
        let placement = place(cpu("skylake").unwrap(), &parse_events(list).unwrap()).unwrap();
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
        let placed = place(cpu, &parse_events(&offcore.join(",")).unwrap()).unwrap();
        let fitting = placed.events.iter().filter(|event| event.counter.is_ok()).count();
        assert_eq!(fitting, 2, "{offcore:?}: there are two registers");
    }
}
