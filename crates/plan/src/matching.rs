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
    let masks: Vec<CounterBits> = masks.iter().map(|mask| bits(*mask)).collect();
    match_bits(&masks, bits(available)).into_iter().map(|bit| bit.map(counter)).collect()
}

/// Counters as one number, whose bit 0 is fixed counter 0 and bit 64 general counter 0: the lowest bit is the
/// counter to take first, as a fixed one leaves general ones to others.
pub(crate) type CounterBits = u128;

pub(crate) fn bits(mask: CounterMask) -> CounterBits {
    CounterBits::from(mask.fixed_bits()) | CounterBits::from(mask.general_bits()) << 64
}

pub(crate) fn mask(bits: CounterBits) -> CounterMask {
    CounterMask::from_bits((bits >> 64) as u64, bits as u64)
}

/// The counter of a bit, 0 to 127.
pub(crate) fn counter(bit: u8) -> CounterId {
    if bit < 64 { CounterId::Fixed(bit) } else { CounterId::General(bit - 64) }
}

pub(crate) fn bit_of(counter: CounterId) -> u8 {
    match counter {
        CounterId::Fixed(n) => n & 63,
        CounterId::General(n) => 64 + (n & 63),
    }
}

/// The numbers of the bits that are set, ascending.
pub(crate) fn each(mut bits: CounterBits) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let lowest = (bits != 0).then(|| bits.trailing_zeros() as u8);
        bits &= bits.wrapping_sub(1);
        lowest
    })
}

/// As [`place`], on bits.
pub(crate) fn match_bits(masks: &[CounterBits], available: CounterBits) -> Vec<Option<u8>> {
    let mut matching = CounterMatching { masks, available, holders: [0; 128], taken: 0 };
    for event in 0..masks.len() {
        matching.assign(event, &mut 0);
    }
    let mut placed = vec![None; masks.len()];
    for bit in each(matching.taken) {
        placed[matching.holders[usize::from(bit)]] = Some(bit);
    }
    placed
}

struct CounterMatching<'m> {
    masks: &'m [CounterBits],
    available: CounterBits,
    /// The event on each counter that is taken.
    holders: [usize; 128],
    taken: CounterBits,
}

impl CounterMatching<'_> {
    /// Gives `event` a counter, if one is free or those who sit can move; `tried` are the counters whose
    /// holders cannot.
    fn assign(&mut self, event: usize, tried: &mut CounterBits) -> bool {
        let usable = self.masks[event] & self.available;
        let free = usable & !self.taken;
        let found = if free != 0 { Some(free.trailing_zeros() as u8) } else { self.vacate(usable, tried) };
        if let Some(bit) = found {
            self.taken |= 1 << bit;
            self.holders[usize::from(bit)] = event;
        }
        found.is_some()
    }

    /// One of these counters whose holder finds another.
    fn vacate(&mut self, usable: CounterBits, tried: &mut CounterBits) -> Option<u8> {
        while usable & !*tried != 0 {
            let bit = (usable & !*tried).trailing_zeros() as u8;
            *tried |= 1 << bit;
            if self.assign(self.holders[usize::from(bit)], tried) {
                return Some(bit);
            }
        }
        None
    }
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
