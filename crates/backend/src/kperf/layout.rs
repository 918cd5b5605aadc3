//! Configuration words for slots on counters, and the places of their counts among the values that are read.

use cyclometer_arch::Coded;
use cyclometer_arch::apple::kpc_word;
use cyclometer_core::event::{Part, RegisterEvent};
use cyclometer_core::reason::KperfRefusal;
use cyclometer_core::{CounterId, CounterMask, Modes, Refusal, Slot, SlotId};

use super::refused::of_event;
use crate::registers::CorePmu;

/// The event of each counter in each rotation group.
#[derive(Clone, Debug)]
pub(super) struct CounterLayout {
    counters: CounterMask,
    rotation_groups: Vec<Vec<CountedPart>>,
}

/// An event, or a summand of one, on a counter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CountedPart {
    pub(super) slot: SlotId,
    /// The index of its part.
    pub(super) part: usize,
    pub(super) pmu: String,
    /// The rotation group; `None`: it counts in all of them.
    pub(super) rotation_group: Option<u32>,
    /// The place of its count among the values of a CPU or thread.
    pub(super) value: usize,
    /// Its configuration word and the place of that; `None` for a fixed counter.
    word: Option<(usize, u64)>,
}

impl CountedPart {
    /// Whether a fixed counter counts it.
    pub(super) const fn is_fixed(&self) -> bool {
        self.word.is_none()
    }
}

impl CounterLayout {
    /// The layout of slots on the available counters.
    ///
    /// # Errors
    ///
    /// The event whose counter is not available, or whose code does not fit.
    pub(super) fn of(
        slots: &[Slot],
        cores: &[CorePmu],
        counters: CounterMask,
    ) -> Result<CounterLayout, Refusal> {
        let last = slots.iter().filter_map(|slot| slot.rotation_group).max().unwrap_or(0);
        let in_turn = |rotation_group: u32| -> Result<Vec<CountedPart>, Refusal> {
            let counts =
                slots.iter().filter(|slot| slot.rotation_group.is_none_or(|own| own == rotation_group));
            let parts = counts.flat_map(|slot| parts(slot).map(move |(part, event)| (slot, part, event)));
            parts
                .map(|(slot, part, event)| counted(slot, part, event, cores, counters, rotation_group))
                .collect()
        };
        Ok(CounterLayout {
            counters,
            rotation_groups: (0..=last).map(in_turn).collect::<Result<_, Refusal>>()?,
        })
    }

    /// The rotation groups; one where events do not rotate.
    pub(super) fn rotation_groups(&self) -> impl DoubleEndedIterator<Item = u32> + use<> {
        0..u32::try_from(self.rotation_groups.len()).unwrap_or(u32::MAX)
    }

    /// The events that count in a rotation group.
    pub(super) fn parts(&self, rotation_group: u32) -> &[CountedPart] {
        self.rotation_groups.get(rotation_group as usize).map_or(&[], Vec::as_slice)
    }

    /// Every event once.
    pub(super) fn all(&self) -> Vec<CountedPart> {
        let mut all: Vec<CountedPart> = Vec::new();
        for part in self.rotation_groups.iter().flatten() {
            if !all.iter().any(|known| (known.slot, known.part) == (part.slot, part.part)) {
                all.push(part.clone());
            }
        }
        all
    }

    /// The configuration words of a rotation group: one for each available configurable counter.
    pub(super) fn words(&self, rotation_group: u32) -> Vec<u64> {
        let mut words = vec![0; self.counters.general_bits().count_ones() as usize];
        for (index, word) in self.parts(rotation_group).iter().filter_map(|part| part.word) {
            words[index] = word;
        }
        words
    }

    /// The slot whose word has this index.
    pub(super) fn slot_of(&self, rotation_group: u32, index: usize) -> Option<SlotId> {
        let has = |part: &&CountedPart| part.word.is_some_and(|(own, _)| own == index);
        self.parts(rotation_group).iter().find(has).map(|part| part.slot)
    }
}

fn parts(slot: &Slot) -> impl Iterator<Item = (usize, &RegisterEvent)> {
    slot.parts.iter().enumerate().filter_map(|(i, part)| match part {
        Part::Registers(event) => Some((i, event)),
        _ => None,
    })
}

fn counted(
    slot: &Slot,
    part: usize,
    event: &RegisterEvent,
    cores: &[CorePmu],
    counters: CounterMask,
    rotation_group: u32,
) -> Result<CountedPart, Refusal> {
    let assignment = event
        .assignment_in(rotation_group)
        .ok_or_else(|| of_event(slot, |event| KperfRefusal::NoCounter { event }))?;
    let core = cores.iter().find(|core| core.name == event.pmu);
    let core = core.ok_or_else(|| {
        of_event(slot, |name| KperfRefusal::OtherPmu { event: name, pmu: event.pmu.clone() })
    })?;
    if !counters.contains(assignment.counter) {
        let counter = name(assignment.counter);
        return Err(of_event(slot, |event| KperfRefusal::PowerManager { event, counter }));
    }
    let fixed = counters.fixed_bits().count_ones() as usize;
    let (value, word) = match assignment.counter {
        CounterId::Fixed(n) => (usize::from(n), None),
        CounterId::General(n) => {
            let coded = Coded::new(assignment.code).on([assignment.counter].into_iter().collect());
            let modes = slot.filter.unwrap_or(Modes::USER_KERNEL);
            let word = kpc_word(&core.chip, &coded, assignment.counter, modes)
                .map_err(|error| error.to_string())
                .map_err(|error| of_event(slot, |event| KperfRefusal::NotEncoded { event, error }))?;
            let index = (counters.general_bits() & ((1 << n) - 1)).count_ones() as usize;
            (fixed + index, Some((index, word.word)))
        }
    };
    Ok(CountedPart {
        slot: slot.id,
        part,
        pmu: event.pmu.clone(),
        rotation_group: slot.rotation_group,
        value,
        word,
    })
}

fn name(counter: CounterId) -> String {
    let (CounterId::Fixed(n) | CounterId::General(n)) = counter;
    format!("PMC{n}")
}
