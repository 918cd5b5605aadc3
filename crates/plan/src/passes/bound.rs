//! How many passes there must be: what counters and registers prove.

use cyclometer_core::event::ExtraRegisterKind;

use super::flow::spread;
use super::{Certificate, PackedEvent, PackedNeed, PassPacker};
use crate::matching::{CounterBits, mask};

/// Registers as bits, by their place in [`ExtraRegisterKind::ALL`].
pub(super) fn register_bit(register: ExtraRegisterKind) -> CounterBits {
    ExtraRegisterKind::ALL.iter().position(|other| *other == register).map_or(0, |place| 1 << place)
}

pub(super) fn registers_of(bits: CounterBits) -> Vec<ExtraRegisterKind> {
    let all = ExtraRegisterKind::ALL.into_iter();
    all.filter(|register| register_bit(*register) & bits != 0).collect()
}

/// The registers that a need may use, if it cannot do without one.
pub(super) fn registers(need: &PackedNeed) -> Option<CounterBits> {
    need.ways
        .iter()
        .map(|way| way.extra.map(|extra| register_bit(extra.0)))
        .try_fold(0, |all, bit| Some(all | bit?))
}

/// The value that a need wants in whichever register, where it is one.
pub(super) fn value(need: &PackedNeed) -> Option<u64> {
    let mut values = need.ways.iter().map(|way| way.extra.map(|extra| extra.1));
    let first = values.next()??;
    values.all(|value| value == Some(first)).then_some(first)
}

/// The passes that these items need at least, and why.
pub(super) fn lower(packer: &PassPacker, items: &[usize]) -> (usize, Certificate) {
    if items.is_empty() {
        return (0, Certificate::Nothing);
    }
    let pmus = 0..packer.pmus.len();
    let bounds = pmus.flat_map(|pmu| [by_counters(packer, items, pmu), by_registers(packer, items, pmu)]);
    let best = bounds.flatten().max_by_key(|(passes, _)| *passes);
    best.filter(|(passes, _)| *passes > 1).unwrap_or((1, Certificate::One))
}

/// The needs of items on one PMU.
pub(super) fn needs_on<'p>(
    packer: &'p PassPacker,
    items: &'p [usize],
    pmu: usize,
) -> impl Iterator<Item = (&'p PackedEvent, &'p PackedNeed)> {
    let of = move |i: &usize| {
        let item = &packer.items[*i];
        item.needs.iter().filter(move |need| need.pmu == pmu).map(move |need| (item, need))
    };
    items.iter().flat_map(of)
}

fn by_counters(packer: &PassPacker, items: &[usize], pmu: usize) -> Option<(usize, Certificate)> {
    let (mut masks, mut demands) = (Vec::new(), Vec::new());
    for (item, need) in needs_on(packer, items, pmu) {
        let counters = need.counters();
        let second = need.wide.then_some(counters << 1);
        for counters in std::iter::once(counters).chain(second) {
            masks.push(counters);
            demands.push(item.demand);
        }
    }
    let loads = (!masks.is_empty()).then(|| spread(&masks))?;
    let within = masks.iter().zip(&demands).filter(|(mask, _)| **mask & !loads.critical == 0);
    let events = within.map(|(_, demand)| *demand).collect();
    Some((loads.passes, Certificate::Counters { pmu, counters: mask(loads.critical), events }))
}

/// Values of registers with the events that need each.
pub(super) struct ValueClass {
    pub value: u64,
    pub registers: CounterBits,
    /// Index of each item, and the counters that it can use.
    pub members: Vec<(usize, CounterBits)>,
}

/// The values that items need on a PMU; those in registers that are never in question for the same event are
/// different.
pub(super) fn classes(packer: &PassPacker, items: &[usize], pmu: usize) -> Vec<ValueClass> {
    let mut classes: Vec<ValueClass> = Vec::new();
    for i in items {
        for need in packer.items[*i].needs.iter().filter(|need| need.pmu == pmu) {
            let (Some(value), Some(registers)) = (value(need), registers(need)) else { continue };
            let mut own = ValueClass { value, registers, members: vec![(*i, need.counters())] };
            let is_same = |class: &ValueClass, own: &ValueClass| {
                class.value == own.value && class.registers & own.registers != 0
            };
            while let Some(at) = classes.iter().position(|class| is_same(class, &own)) {
                let mut other = classes.swap_remove(at);
                own.registers |= other.registers;
                other.members.append(&mut own.members);
                own.members = other.members;
            }
            classes.push(own);
        }
    }
    classes
}

fn by_registers(packer: &PassPacker, items: &[usize], pmu: usize) -> Option<(usize, Certificate)> {
    let (mut masks, mut events) = (Vec::new(), Vec::new());
    for class in classes(packer, items, pmu) {
        let counters: Vec<CounterBits> = class.members.iter().map(|(_, counters)| *counters).collect();
        // The value has to be there as often as its events need counters.
        let times = if counters.len() == 1 { 1 } else { spread(&counters).passes };
        for (item, _) in class.members.iter().take(times) {
            masks.push(class.registers);
            events.push(packer.items[*item].demand);
        }
    }
    let loads = (!masks.is_empty()).then(|| spread(&masks))?;
    let within = masks.iter().zip(&events).filter(|(mask, _)| **mask & !loads.critical == 0);
    let events = within.map(|(_, demand)| *demand).collect();
    Some((loads.passes, Certificate::Registers { pmu, registers: registers_of(loads.critical), events }))
}
