//! The activity of a core: how often each concept happens, and how often it has happened.

use cyclometer_core::Concept;
use cyclometer_core::concept::Nature;

/// The binary digits behind the point of an amount.
pub(crate) const FRACTION_BITS: u32 = 32;

/// The greatest amount of a concept, in events a cycle.
const GREATEST_RATE: f64 = 16.0;

/// Slots of a cycle.
const SLOTS_A_CYCLE: u64 = 4;

/// Number of times that each concept happens in an iteration of some cycles, in steps of 2⁻³².
///
/// An iteration of one cycle makes amounts rates. Events are spread evenly over the cycles of an iteration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Activity {
    cycles: u32,
    is_loop: bool,
    amounts: [u64; Concept::COUNT],
    /// Bit `i` is set if amount `i` is not 0: few concepts occur, and time passes in many short steps.
    occurring: u128,
}

/// Concepts are the bits of a word.
const _: () = assert!(Concept::COUNT <= 128);

impl Activity {
    /// Cycles that do nothing: reference cycles as cycles, four slots each, none of them attributed.
    pub const IDLE: Activity = Activity::idle(1);

    /// The parts of slots of which the fields of Intel's PERF_METRICS are shares, from bit 0 on.
    pub const SLOT_PARTS: [Concept; 8] = [
        Concept::RetiringSlots,
        Concept::BadSpeculationSlots,
        Concept::FrontendSlots,
        Concept::BackendSlots,
        Concept::HeavyOperationSlots,
        Concept::BranchMispredictSlots,
        Concept::FetchLatencySlots,
        Concept::MemoryBoundSlots,
    ];

    const fn idle(cycles: u32) -> Activity {
        let mut amounts = [0; Concept::COUNT];
        amounts[Concept::Cycles as usize] = (cycles as u64) << FRACTION_BITS;
        amounts[Concept::ReferenceCycles as usize] = (cycles as u64) << FRACTION_BITS;
        amounts[Concept::Slots as usize] = (cycles as u64 * SLOTS_A_CYCLE) << FRACTION_BITS;
        Activity { cycles, is_loop: false, amounts, occurring: CLOCKS }
    }

    /// The activity of a loop: the cycles of an iteration, at least 1, and its events.
    ///
    /// Amounts are rounded up to steps of 2⁻³², so that `n` iterations have at least the whole part of `n`
    /// times the amount, and no event more while `n` is below 2³².
    pub fn of_iteration(cycles: u32, amounts: &[(Concept, f64)]) -> Activity {
        let idle = Activity { is_loop: true, ..Activity::idle(cycles.max(1)) };
        amounts.iter().fold(idle, |activity, (concept, amount)| activity.set(*concept, *amount, f64::ceil))
    }

    /// The same with so many events of a concept in an iteration, rounded down to steps of 2⁻³², at most 16
    /// for each of its cycles. A number below 0 and NaN are 0. Cycles, reference cycles and slots are kept.
    #[must_use]
    pub fn with(self, concept: Concept, amount: f64) -> Activity {
        self.set(concept, amount, f64::floor)
    }

    fn set(mut self, concept: Concept, amount: f64, round: impl Fn(f64) -> f64) -> Activity {
        if !is_clock(concept) {
            let scale = (1u64 << FRACTION_BITS) as f64;
            let most = GREATEST_RATE * f64::from(self.cycles);
            self.put(concept as usize, round(amount.clamp(0.0, most) * scale) as u64);
        }
        self
    }

    const fn put(&mut self, place: usize, amount: u64) {
        self.amounts[place] = amount;
        let bit = 1 << place;
        self.occurring = if amount == 0 { self.occurring & !bit } else { self.occurring | bit };
    }

    /// The places of the concepts that occur, with their amounts.
    fn occurring(&self) -> impl Iterator<Item = (usize, u64)> {
        let mut left = self.occurring;
        std::iter::from_fn(move || {
            let place = left.trailing_zeros() as usize;
            let amount = self.amounts.get(place)?;
            left &= left - 1;
            Some((place, *amount))
        })
    }

    /// The same with so many of the four slots of a cycle for each of [`Self::SLOT_PARTS`].
    #[must_use]
    pub fn with_slots(self, slots: [f64; 8]) -> Activity {
        let cycles = f64::from(self.cycles);
        let parts = Activity::SLOT_PARTS.into_iter().zip(slots);
        parts.fold(self, |activity, (concept, n)| activity.with(concept, n * cycles))
    }

    /// The same with the amount of each concept that occurs times a factor. Clocks are kept, slots, whose
    /// parts add up, and the architectural concepts of a loop, which its program decides.
    #[must_use]
    pub fn scaled(&self, factor: impl Fn(Concept) -> f64) -> Activity {
        let mut scaled = *self;
        for (place, amount) in self.occurring() {
            let concept = Concept::ALL[place];
            let decided = self.is_loop && concept.nature() == Nature::Architectural;
            if !decided && !is_clock(concept) && !Activity::SLOT_PARTS.contains(&concept) {
                scaled.put(place, (amount as f64 * factor(concept).max(0.0)) as u64);
            }
        }
        scaled
    }

    /// The cycles of an iteration.
    pub const fn cycles(&self) -> u32 {
        self.cycles
    }

    /// The events of a concept in an iteration.
    pub fn amount(&self, concept: Concept) -> f64 {
        self.fixed(concept) as f64 / (1u64 << FRACTION_BITS) as f64
    }

    /// The same in steps of 2⁻³².
    pub(crate) const fn fixed(&self, concept: Concept) -> u64 {
        self.amounts[concept as usize]
    }
}

const CLOCKS: u128 =
    1 << Concept::Cycles as u32 | 1 << Concept::ReferenceCycles as u32 | 1 << Concept::Slots as u32;

/// Whether a concept follows from cycles alone, so that no workload can set it.
const fn is_clock(concept: Concept) -> bool {
    matches!(concept, Concept::Cycles | Concept::ReferenceCycles | Concept::Slots)
}

/// The activity of a thread or of the kernel since its beginning.
///
/// Between two changes of the activity the position is known to the cycle, so that a count does not depend on
/// where a driver stops to look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ActivityProgress {
    /// Events up to the begin of the present iteration, in steps of 2⁻³².
    begun: [u128; Concept::COUNT],
    /// Cycles of the present iteration that have passed.
    within: u32,
}

impl Default for ActivityProgress {
    fn default() -> ActivityProgress {
        ActivityProgress { begun: [0; Concept::COUNT], within: 0 }
    }
}

impl ActivityProgress {
    /// The events of a concept since the beginning.
    pub fn events(&self, activity: &Activity, concept: Concept) -> u64 {
        self.events_after(activity, concept, 0)
    }

    /// The same when `cycles` more have passed.
    pub(crate) fn events_after(&self, activity: &Activity, concept: Concept, cycles: u64) -> u64 {
        let amount = u128::from(activity.fixed(concept));
        let passed = spread(amount, self.since_begin(cycles), activity.cycles());
        ((self.begun[concept as usize] + passed) >> FRACTION_BITS) as u64
    }

    /// Events up to the begin of the present iteration, in steps of 2⁻³².
    pub(crate) const fn begun(&self, concept: Concept) -> u128 {
        self.begun[concept as usize]
    }

    /// The cycles from the begin of the present iteration to `cycles` from now.
    pub(crate) const fn since_begin(&self, cycles: u64) -> u128 {
        self.within as u128 + cycles as u128
    }

    /// Lets `cycles` pass.
    pub fn advance(&mut self, activity: &Activity, cycles: u64) {
        let (iterations, within) = divided(self.since_begin(cycles), activity.cycles());
        self.within = within;
        for (place, amount) in activity.occurring() {
            self.begun[place] += u128::from(amount) * iterations;
        }
    }

    /// Ends the present iteration where it is, for another activity to begin.
    pub fn cut_iteration(&mut self, activity: &Activity) {
        if self.within != 0 {
            let within = u128::from(self.within);
            for (place, amount) in activity.occurring() {
                self.begun[place] += spread(amount.into(), within, activity.cycles());
            }
            self.within = 0;
        }
    }

    /// Adds an interrupt.
    pub fn interrupt(&mut self) {
        self.begun[Concept::Interrupts as usize] += 1 << FRACTION_BITS;
    }
}

/// The part of an amount per iteration in so many cycles from the begin of an iteration, rounded down.
pub(crate) fn spread(amount: u128, cycles: u128, iteration_cycles: u32) -> u128 {
    if amount == 0 {
        return 0;
    }
    let (iterations, within) = divided(cycles, iteration_cycles);
    amount * iterations + quotient(amount * u128::from(within), iteration_cycles.into())
}

/// Quotient and remainder.
fn divided(cycles: u128, length: u32) -> (u128, u32) {
    if length == 1 {
        return (cycles, 0);
    }
    let iterations = quotient(cycles, length.into());
    (iterations, (cycles - iterations * u128::from(length)) as u32)
}

/// Quotient of numbers that are small for the most part: a division of 128 bits takes long.
pub(crate) fn quotient(number: u128, by: u64) -> u128 {
    match u64::try_from(number) {
        Ok(number) => u128::from(number / by),
        Err(_) => number / u128::from(by),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_stays_within_what_a_core_can_do_and_clocks_are_not_changed() {
        let activity = Activity::IDLE.with(Concept::Loads, 0.5).with(Concept::Cycles, 7.0);
        assert_eq!(activity.fixed(Concept::Loads), 1 << 31);
        assert_eq!(activity.fixed(Concept::Cycles), 1 << 32);
        for (asked, expected) in [(-1.0, 0), (f64::NAN, 0), (1e9, 16 << 32)] {
            assert_eq!(Activity::IDLE.with(Concept::Loads, asked).fixed(Concept::Loads), expected, "{asked}");
        }
    }

    #[test]
    fn iterations_have_exactly_their_events_however_many_cycles_they_take() {
        for (cycles, amount, iterations, expected) in [
            (7, 3.0, 1_000_000, 3_000_000),
            (3, 0.1, 10, 1),
            (1, 0.2, 1_000_000_005, 200_000_001),
            (5, 1.25, 8, 10),
        ] {
            let activity = Activity::of_iteration(cycles, &[(Concept::Loads, amount)]);
            let mut progress = ActivityProgress::default();
            progress.advance(&activity, iterations * u64::from(cycles));
            assert_eq!(progress.events(&activity, Concept::Loads), expected, "{amount} in {cycles} cycles");
            assert_eq!(progress.events(&activity, Concept::Cycles), iterations * u64::from(cycles));
            assert_eq!(progress.events(&activity, Concept::Slots), 4 * iterations * u64::from(cycles));
        }
    }

    #[test]
    fn an_iteration_that_is_cut_keeps_the_events_that_have_passed() {
        let slow = Activity::of_iteration(10, &[(Concept::Loads, 5.0)]);
        let fast = Activity::IDLE.with(Concept::Loads, 1.0);
        let mut progress = ActivityProgress::default();
        progress.advance(&slow, 14);
        progress.cut_iteration(&slow);
        progress.advance(&fast, 3);
        assert_eq!(progress.events(&fast, Concept::Loads), 10);
        assert_eq!(progress.events(&fast, Concept::Cycles), 17);
    }

    #[test]
    fn a_factor_leaves_clocks_and_slots() {
        let activity = Activity::IDLE.with(Concept::Loads, 1.0).with(Concept::RetiringSlots, 2.0);
        let half = activity.scaled(|_| 0.5);
        assert_eq!(half.amount(Concept::Loads), 0.5);
        assert_eq!((half.amount(Concept::RetiringSlots), half.amount(Concept::Cycles)), (2.0, 1.0));
    }

    #[test]
    fn a_factor_leaves_what_the_program_of_a_loop_decides() {
        let activity = Activity::of_iteration(4, &[(Concept::Loads, 3.0), (Concept::L1dLoadMisses, 1.0)]);
        let half = activity.scaled(|_| 0.5);
        assert_eq!((half.amount(Concept::Loads), half.amount(Concept::L1dLoadMisses)), (3.0, 0.5));
    }
}
