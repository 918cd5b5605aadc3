//! Quantities in a simulated core, and their rates.

/// Something that happens in a core and that events count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Quantity {
    /// Cycles in which the core was not halted.
    Cycles,
    /// The same in cycles of the reference clock.
    ReferenceCycles,
    /// Instructions retired.
    Instructions,
    /// Micro-operations retired.
    Uops,
    /// Branches retired.
    Branches,
    /// Branches retired that had been predicted wrongly.
    BranchMisses,
    /// Loads retired.
    Loads,
    /// Stores retired.
    Stores,
    /// Loads that missed the first-level data cache.
    L1dLoadMisses,
    /// Accesses that missed the first-level data TLB.
    L1dTlbMisses,
    /// Fetches that missed the first-level instruction cache.
    L1iMisses,
    /// Requests to the last-level cache.
    LlcReferences,
    /// Requests that missed the last-level cache.
    LlcMisses,
    /// Operations on floating-point numbers retired, each element of a vector on its own.
    FloatOperations,
    /// Slots: cycles times the width of the core.
    Slots,
    /// Slots of operations that retired.
    RetiringSlots,
    /// Slots lost to speculation that was wrong.
    BadSpeculationSlots,
    /// Slots that the front end left empty.
    FrontendSlots,
    /// Slots in which the back end could take nothing.
    BackendSlots,
    /// Those of retiring that belong to instructions of several operations.
    HeavyOperationSlots,
    /// Those of bad speculation that mispredicted branches cost.
    BranchMispredictSlots,
    /// Those of the front end that its latency costs.
    FetchLatencySlots,
    /// Those of the back end that memory costs.
    MemoryBoundSlots,
}

impl Quantity {
    /// Every quantity.
    pub const ALL: [Quantity; 23] = [
        Quantity::Cycles,
        Quantity::ReferenceCycles,
        Quantity::Instructions,
        Quantity::Uops,
        Quantity::Branches,
        Quantity::BranchMisses,
        Quantity::Loads,
        Quantity::Stores,
        Quantity::L1dLoadMisses,
        Quantity::L1dTlbMisses,
        Quantity::L1iMisses,
        Quantity::LlcReferences,
        Quantity::LlcMisses,
        Quantity::FloatOperations,
        Quantity::Slots,
        Quantity::RetiringSlots,
        Quantity::BadSpeculationSlots,
        Quantity::FrontendSlots,
        Quantity::BackendSlots,
        Quantity::HeavyOperationSlots,
        Quantity::BranchMispredictSlots,
        Quantity::FetchLatencySlots,
        Quantity::MemoryBoundSlots,
    ];

    /// The quantities of which the fields of PERF_METRICS are shares of slots, from bit 0 on, 8 bits each.
    pub const METRICS: [Quantity; 8] = [
        Quantity::RetiringSlots,
        Quantity::BadSpeculationSlots,
        Quantity::FrontendSlots,
        Quantity::BackendSlots,
        Quantity::HeavyOperationSlots,
        Quantity::BranchMispredictSlots,
        Quantity::FetchLatencySlots,
        Quantity::MemoryBoundSlots,
    ];

    pub(crate) const COUNT: usize = Quantity::ALL.len();

    /// Whether noise leaves it alone: the parts of slots add up.
    const fn is_steady(self) -> bool {
        self as usize >= Quantity::Slots as usize || self.is_clock()
    }

    /// Whether it follows from cycles alone, so that no workload can say how often it is.
    pub(crate) const fn is_clock(self) -> bool {
        matches!(self, Quantity::Cycles | Quantity::ReferenceCycles | Quantity::Slots)
    }
}

/// The binary digits behind the point of a rate.
pub(crate) const FRACTION_BITS: u32 = 32;

/// The greatest rate of a quantity, in events a cycle.
const GREATEST_RATE: f64 = 16.0;

/// How often each quantity happens in a cycle, in steps of 2⁻³².
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rates([u64; Quantity::COUNT]);

impl Rates {
    /// Cycles that do nothing: reference cycles as cycles, four slots each, of which nobody says what became
    /// of them.
    pub const IDLE: Rates = {
        let mut rates = [0; Quantity::COUNT];
        rates[Quantity::Cycles as usize] = 1 << FRACTION_BITS;
        rates[Quantity::ReferenceCycles as usize] = 1 << FRACTION_BITS;
        rates[Quantity::Slots as usize] = 4 << FRACTION_BITS;
        Rates(rates)
    };

    /// The same with so many events of a quantity in a cycle, at most 16; what is not a number or below 0 is
    /// 0. Cycles, reference cycles and slots stay as they are.
    #[must_use]
    pub fn with(mut self, quantity: Quantity, per_cycle: f64) -> Rates {
        if !quantity.is_clock() {
            let scale = (1u64 << FRACTION_BITS) as f64;
            self.0[quantity as usize] = (per_cycle.clamp(0.0, GREATEST_RATE) * scale) as u64;
        }
        self
    }

    pub(crate) const fn of(&self, quantity: Quantity) -> u64 {
        self.0[quantity as usize]
    }

    /// The same with so many of the four slots of a cycle for each of [`Quantity::METRICS`].
    #[must_use]
    pub fn with_slots(self, slots: [f64; 8]) -> Rates {
        Quantity::METRICS.into_iter().zip(slots).fold(self, |rates, (quantity, n)| rates.with(quantity, n))
    }

    /// Each rate times a factor of its own, those of clocks and slots excepted.
    pub(crate) fn scaled(mut self, mut factor: impl FnMut() -> f64) -> Rates {
        for quantity in Quantity::ALL.into_iter().filter(|quantity| !quantity.is_steady()) {
            let rate = &mut self.0[quantity as usize];
            *rate = (*rate as f64 * factor().max(0.0)) as u64;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_stays_within_what_a_core_can_do_and_clocks_are_not_changed() {
        let rates = Rates::IDLE.with(Quantity::Loads, 0.5).with(Quantity::Cycles, 7.0);
        assert_eq!(rates.of(Quantity::Loads), 1 << 31);
        assert_eq!(rates.of(Quantity::Cycles), 1 << 32);
        for (asked, expected) in [(-1.0, 0), (f64::NAN, 0), (1e9, 16 << 32)] {
            assert_eq!(Rates::IDLE.with(Quantity::Loads, asked).of(Quantity::Loads), expected, "{asked}");
        }
    }
}
