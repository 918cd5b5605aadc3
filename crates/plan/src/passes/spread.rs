//! Events without sets: spread over counters and registers, then coloured. Exact, and quick for any number of
//! events.

use super::bound::{register_bit, registers};
use super::colour::{ColourEdge, colour};
use super::flow;
use super::{CounterAssignment, PackedEvent, PackedNeed, PassPacker};
use crate::matching::{CounterBits, counter};

/// The resource that events take one of: the counters of a PMU, or its registers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ResourceKind {
    Counters,
    Registers,
}

/// Counters or registers of one PMU, with the events that take one.
struct ResourceFamily {
    kind: ResourceKind,
    /// Index of each event, and of its need.
    members: Vec<(usize, usize)>,
    masks: Vec<CounterBits>,
    /// The side of the graph where it is, 0 or 1.
    side: usize,
}

/// Spreads events so that each takes a register of its own; `None` where some take more than two things, or
/// the choice of one is not free of the other.
pub(super) fn spread(packer: &PassPacker, items: &[usize]) -> Option<Vec<Vec<CounterAssignment>>> {
    let is_simple = |need: &PackedNeed| need.is_uniform() && !need.wide;
    if !items.iter().all(|i| packer.items[*i].needs.iter().all(is_simple)) {
        return None;
    }
    let mut families = families(packer, items);
    take_sides(&mut families, items.len())?;
    let mut taken: Vec<Vec<u8>> = Vec::new();
    let mut passes = 1;
    for family in &families {
        let loads = flow::spread(&family.masks);
        passes = passes.max(loads.passes);
        taken.push(loads.given);
    }
    let mut edges: Vec<ColourEdge> = vec![[None, None]; items.len()];
    for ((at, family), given) in families.iter().enumerate().zip(&taken) {
        for ((event, _), bit) in family.members.iter().zip(given) {
            edges[*event][family.side] = Some(at * 128 + usize::from(*bit));
        }
    }
    let colours = colour(&edges, families.len() * 128, passes);
    let mut out = vec![Vec::new(); passes];
    for (event, pass) in colours.into_iter().enumerate() {
        let item = &packer.items[items[event]];
        let taken_by = |need: usize, kind: ResourceKind| {
            families.iter().zip(&taken).filter(|(family, _)| family.kind == kind).find_map(
                |(family, given)| {
                    let at = family.members.binary_search(&(event, need)).ok()?;
                    Some(given[at])
                },
            )
        };
        out[pass].extend((0..item.needs.len()).filter_map(|need| {
            let bit = taken_by(need, ResourceKind::Counters)?;
            Some(assignment(item, need, bit, taken_by(need, ResourceKind::Registers)))
        }));
    }
    out.retain(|pass| !pass.is_empty());
    Some(out)
}

fn families(packer: &PassPacker, items: &[usize]) -> Vec<ResourceFamily> {
    let kinds = [ResourceKind::Counters, ResourceKind::Registers];
    let all = (0..packer.pmus.len()).flat_map(|pmu| kinds.map(|kind| (pmu, kind)));
    let family = |(pmu, kind): (usize, ResourceKind)| {
        let mut family = ResourceFamily { kind, members: Vec::new(), masks: Vec::new(), side: 0 };
        for (event, i) in items.iter().enumerate() {
            for (at, need) in packer.items[*i].needs.iter().enumerate().filter(|(_, need)| need.pmu == pmu) {
                let mask =
                    if kind == ResourceKind::Counters { Some(need.counters()) } else { registers(need) };
                if let Some(mask) = mask {
                    family.members.push((event, at));
                    family.masks.push(mask);
                }
            }
        }
        family
    };
    all.map(family).filter(|family| !family.members.is_empty()).collect()
}

/// Puts families that an event takes from at once on different sides; `None` where that is not possible.
fn take_sides(families: &mut [ResourceFamily], events: usize) -> Option<()> {
    let mut of: Vec<Vec<usize>> = vec![Vec::new(); events];
    for (at, family) in families.iter().enumerate() {
        family.members.iter().for_each(|(event, _)| of[*event].push(at));
    }
    if of.iter().any(|taken| taken.len() > 2) {
        return None;
    }
    let mut sides: Vec<Option<usize>> = vec![None; families.len()];
    for start in 0..families.len() {
        let mut open = Vec::new();
        if sides[start].is_none() {
            sides[start] = Some(0);
            open.push(start);
        }
        while let Some(at) = open.pop() {
            let side = sides[at]?;
            let beside = of.iter().filter(|taken| taken.contains(&at)).flatten().copied();
            for other in beside.filter(|other| *other != at) {
                match sides[other] {
                    None => {
                        sides[other] = Some(1 - side);
                        open.push(other);
                    }
                    Some(taken) if taken == side => return None,
                    Some(_) => {}
                }
            }
        }
    }
    families.iter_mut().zip(sides).for_each(|(family, side)| family.side = side.unwrap_or(0));
    Some(())
}

fn assignment(item: &PackedEvent, need: usize, bit: u8, register: Option<u8>) -> CounterAssignment {
    let need = &item.needs[need];
    let holds = |way: &&super::PackedEncoding| match (register, way.extra) {
        (Some(register), Some(extra)) => register_bit(extra.0) >> register & 1 == 1,
        _ => way.counters >> bit & 1 == 1,
    };
    let way = need.ways.iter().find(holds).map_or(0, |way| way.way);
    CounterAssignment { demand: item.demand, pmu: need.pmu, way, counter: counter(bit), repeats: false }
}
