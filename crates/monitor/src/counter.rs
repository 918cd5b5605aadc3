//! One counter, which can be read individually.

use std::fmt;

use crate::thread::Here;

/// An event's counters in the thread that requested them.
///
/// Not `Send`: a counter belongs to a thread.
pub struct Counter {
    here: Here,
    places: Vec<(usize, usize)>,
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counter").field("parts", &self.places.len()).finish()
    }
}

impl Counter {
    /// `None` where the event has no counter.
    pub(crate) fn of(here: Here, slot: cyclometer_core::SlotId) -> Option<Counter> {
        let places = here.try_borrow().ok()?.places(slot);
        (!places.is_empty()).then_some(Counter { here, places })
    }

    /// The raw count since the thread opened its counters: the cheapest read, for differences. It does not
    /// show whether the event shared its counter meanwhile, and no bias is subtracted; a
    /// [`Region`](crate::Region) does both.
    ///
    /// `None` where the value is lost, as in a forked child.
    #[inline]
    pub fn read(&self) -> Option<u64> {
        self.here.try_borrow_mut().ok()?.value(&self.places)
    }
}
