//! Pending links: exit stubs that wait for a block that is not translated. Few blocks have more than one.

use crate::hash::AddressMap;

/// Addresses of exit stubs by the address of the block that they wait for.
#[derive(Default)]
pub(crate) struct PendingLinks {
    /// The last stub for each block.
    last: AddressMap<u64, u32>,
    stops: Vec<LinkStop>,
    /// Places of stops that were taken.
    free: LinkChain,
}

struct LinkStop {
    address: u64,
    /// The stub before it for the same block.
    before: Option<u32>,
}

/// Stops that wait for the same block, the last one first.
#[derive(Default)]
pub(crate) struct LinkChain(Option<u32>);

impl PendingLinks {
    pub(crate) fn with_capacity(capacity: usize) -> PendingLinks {
        let last = AddressMap::with_capacity_and_hasher(capacity, Default::default());
        PendingLinks { last, stops: Vec::with_capacity(capacity), free: LinkChain(None) }
    }

    /// A stop waits for the block at an address.
    pub(crate) fn add(&mut self, block: u64, address: u64) {
        let number = match self.free.0 {
            Some(free) => {
                self.free.0 = self.stops[free as usize].before;
                free
            }
            None => self.stops.len() as u32,
        };
        let stop = LinkStop { address, before: self.last.insert(block, number) };
        match self.stops.get_mut(number as usize) {
            Some(place) => *place = stop,
            None => self.stops.push(stop),
        }
    }

    /// Removes and returns the stops that wait for a block.
    pub(crate) fn take(&mut self, block: u64) -> LinkChain {
        LinkChain(self.last.remove(&block))
    }

    /// The next one of those that were taken.
    pub(crate) fn next(&mut self, chain: &mut LinkChain) -> Option<u64> {
        let number = chain.0?;
        let stop = &mut self.stops[number as usize];
        (chain.0, stop.before) = (stop.before, self.free.0);
        self.free.0 = Some(number);
        Some(stop.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(waiting: &mut PendingLinks, block: u64) -> Vec<u64> {
        let mut chain = waiting.take(block);
        std::iter::from_fn(|| waiting.next(&mut chain)).collect()
    }

    #[test]
    fn each_block_gets_the_stops_that_wait_for_it_once() {
        let mut waiting = PendingLinks::with_capacity(2);
        for (block, stop) in [(1, 10), (2, 20), (1, 11), (3, 30), (1, 12)] {
            waiting.add(block, stop);
        }
        assert_eq!(taken(&mut waiting, 1), [12, 11, 10]);
        assert_eq!(taken(&mut waiting, 1), []);
        for (block, stop) in [(4, 40), (2, 21), (4, 41), (4, 42), (4, 43)] {
            waiting.add(block, stop);
        }
        assert_eq!(taken(&mut waiting, 2), [21, 20]);
        assert_eq!(taken(&mut waiting, 4), [43, 42, 41, 40]);
        assert_eq!(taken(&mut waiting, 3), [30]);
        assert_eq!(waiting.stops.len(), 7, "places are used again");
    }
}
