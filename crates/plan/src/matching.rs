//! Events to counters: the greatest number of events that can count at once.
//!
//! Order never matters: an augmenting path moves events that already sit, so a request that can be placed is
//! placed, whatever its order. (Kernels and Apple's allocator take the lowest free counter and never move.)

use cyclometer_core::{CounterId, CounterMask};

/// Gives each event a counter of its mask, each counter to one event at most; as many events as possible.
///
/// The result has one entry for each mask; `None` where the event found no counter.
///
/// # Source
///
/// Kuhn's augmenting-path algorithm for maximum bipartite matching (H. W. Kuhn, 1955).
pub fn place(masks: &[CounterMask], available: CounterMask) -> Vec<Option<CounterId>> {
    let counters: Vec<CounterId> = available.iter().collect();
    let mut holder: Vec<Option<usize>> = vec![None; counters.len()];
    for event in 0..masks.len() {
        let mut seen = vec![false; counters.len()];
        augment(event, masks, &counters, &mut holder, &mut seen);
    }
    let mut placed = vec![None; masks.len()];
    for (counter, event) in counters.iter().zip(&holder) {
        if let Some(event) = event {
            placed[*event] = Some(*counter);
        }
    }
    placed
}

fn augment(
    event: usize,
    masks: &[CounterMask],
    counters: &[CounterId],
    holder: &mut [Option<usize>],
    seen: &mut [bool],
) -> bool {
    for (i, counter) in counters.iter().enumerate() {
        if seen[i] || !masks[event].contains(*counter) {
            continue;
        }
        seen[i] = true;
        if holder[i].is_none_or(|other| augment(other, masks, counters, holder, seen)) {
            holder[i] = Some(event);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn general(bits: u64) -> CounterMask {
        CounterMask::from_bits(bits, 0)
    }

    /// How many events can count at once, by trying everything.
    fn brute_force(masks: &[u64], free: u64) -> usize {
        match masks.split_first() {
            None => 0,
            Some((mask, rest)) => (0..8)
                .filter(|n| mask & free & (1 << n) != 0)
                .map(|n| 1 + brute_force(rest, free & !(1 << n)))
                .chain([brute_force(rest, free)])
                .max()
                .unwrap_or(0),
        }
    }

    #[test]
    fn an_event_with_one_counter_is_placed_in_any_order() {
        // Apple M2: six events of mask 0x3fc and INST_LDST, which counts on PMC7 only.
        let flexible = vec![general(0x3fc); 6];
        for at in 0..=6 {
            let mut masks = flexible.clone();
            masks.insert(at, general(0x80));
            let placed = place(&masks, general(0x3fc));
            assert!(placed.iter().all(Option::is_some), "{at}");
            assert_eq!(placed[at], Some(CounterId::General(7)));
        }
    }

    #[test]
    fn fixed_counters_leave_general_ones_to_others() {
        let cycles = CounterMask::from_bits(0b11, 0b10);
        let placed = place(&[cycles, general(0b11), general(0b11)], CounterMask::first(2, 3));
        assert_eq!(placed[0], Some(CounterId::Fixed(1)));
        assert!(placed.iter().all(Option::is_some));
    }

    #[test]
    fn more_events_than_counters_leave_some_without() {
        let placed = place(&[general(0xf); 6], general(0xf));
        assert_eq!(placed.iter().flatten().count(), 4);
    }

    proptest! {
        #[test]
        fn as_many_events_are_placed_as_brute_force_can(
            masks in prop::collection::vec(0u64..256, 0..6),
            free in 0u64..256,
        ) {
            let typed: Vec<CounterMask> = masks.iter().copied().map(general).collect();
            let placed = place(&typed, general(free));
            prop_assert_eq!(placed.iter().flatten().count(), brute_force(&masks, free));
            let mut used: Vec<CounterId> = placed.iter().flatten().copied().collect();
            for (mask, counter) in typed.iter().zip(&placed) {
                prop_assert!(counter.is_none_or(|c| mask.contains(c) && general(free).contains(c)));
            }
            used.sort();
            used.dedup();
            prop_assert_eq!(used.len(), placed.iter().flatten().count());
        }

        #[test]
        fn request_order_does_not_change_how_many_fit(
            mut masks in prop::collection::vec(0u64..256, 0..8),
            free in 0u64..256,
        ) {
            let count = |masks: &[u64]| {
                let typed: Vec<_> = masks.iter().copied().map(general).collect();
                place(&typed, general(free)).iter().flatten().count()
            };
            let forward = count(&masks);
            masks.reverse();
            prop_assert_eq!(forward, count(&masks));
        }
    }
}
