//! Events to counters of several passes at once: those that must be in a pass stay there, the others move.

use crate::matching::{CounterBits, each};

/// An event that wants a counter.
#[derive(Clone, Copy)]
pub(super) struct Guest {
    pub counters: CounterBits,
    /// The only pass where it may be; `None` for any.
    pub pass: Option<usize>,
}

/// Gives every guest a counter in a pass; `None` where that is impossible. The result has the pass of each.
///
/// # Source
///
/// Kuhn's augmenting-path algorithm, as [`crate::place`].
pub(super) fn assign_all(guests: &[Guest], free: &[CounterBits]) -> Option<Vec<usize>> {
    let mut assigned = Reassignment {
        guests,
        free,
        taken: vec![0; free.len()],
        holders: vec![0; free.len() * 128],
        passes: vec![0; guests.len()],
    };
    // Guests without a choice of a pass come first.
    let mut order: Vec<usize> = (0..guests.len()).collect();
    order.sort_by_key(|guest| (guests[*guest].pass.is_none(), guests[*guest].counters.count_ones()));
    for guest in order {
        let mut tried = vec![0; free.len()];
        if !assigned.assign(guest, &mut tried) {
            return None;
        }
    }
    Some(assigned.passes)
}

struct Reassignment<'g> {
    guests: &'g [Guest],
    free: &'g [CounterBits],
    taken: Vec<CounterBits>,
    holders: Vec<usize>,
    passes: Vec<usize>,
}

impl Reassignment<'_> {
    fn assign(&mut self, guest: usize, tried: &mut [CounterBits]) -> bool {
        let found = self.room(guest).or_else(|| self.vacate(guest, tried));
        if let Some((pass, bit)) = found {
            self.taken[pass] |= 1 << bit;
            self.holders[pass * 128 + usize::from(bit)] = guest;
            self.passes[guest] = pass;
        }
        found.is_some()
    }

    fn passes_of(&self, guest: usize) -> std::ops::Range<usize> {
        self.guests[guest].pass.map_or(0..self.free.len(), |pass| pass..pass + 1)
    }

    fn room(&self, guest: usize) -> Option<(usize, u8)> {
        self.passes_of(guest).find_map(|pass| {
            let free = self.guests[guest].counters & self.free[pass] & !self.taken[pass];
            Some((pass, each(free).next()?))
        })
    }

    fn vacate(&mut self, guest: usize, tried: &mut [CounterBits]) -> Option<(usize, u8)> {
        for pass in self.passes_of(guest) {
            let usable = self.guests[guest].counters & self.free[pass];
            while usable & !tried[pass] != 0 {
                let bit = (usable & !tried[pass]).trailing_zeros() as u8;
                tried[pass] |= 1 << bit;
                if self.assign(self.holders[pass * 128 + usize::from(bit)], tried) {
                    return Some((pass, bit));
                }
            }
        }
        None
    }
}
