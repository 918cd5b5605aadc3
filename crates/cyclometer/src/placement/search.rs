//! The greatest number of events that can count at once, where some need a value in a register that others share.
//!
//! With the registers' values given, each event may use the counters of those of its ways that agree, and the rest is
//! a matching. So values are searched, and only those that can make a difference: events that are alike beyond the number of
//! counters, and values with the same events beyond the number of registers, are left out.

use std::collections::HashMap;

use cyclometer_core::event::{ExtraRegister, ExtraRegisterKind};
use cyclometer_core::{CounterId, CounterMask};

/// One way to count an event: what a register must hold, if one must, and the counters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Way {
    pub extra: Option<ExtraRegister>,
    pub mask: CounterMask,
}

/// An event that wants a counter.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Item {
    /// Ways to count it, best first.
    pub ways: Vec<Way>,
    /// Whether it takes an even counter and the one behind it.
    pub wide: bool,
}

/// The way and the counter of each item, where it has one; the counters that they take.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Solution {
    pub placed: Vec<Option<(usize, CounterId)>>,
    pub taken: CounterMask,
}

/// Values times items that are tried before the best that was found is taken: far more than vendors' events need.
const MOST_TRIED: usize = 1_000_000;

/// Places as many items as possible; among as many, the first.
pub(super) fn solve(items: &[Item], counters: CounterMask) -> Solution {
    let kept = worth_trying(items, counters);
    let few: Vec<&Item> = kept.iter().map(|i| &items[*i]).collect();
    let mut search = Search::new(&few, counters);
    search.decide(&mut Vec::new());
    let mut placed = vec![None; items.len()];
    for (i, found) in kept.into_iter().zip(search.best.placed) {
        placed[i] = found;
    }
    Solution { placed, taken: search.best.taken }
}

/// The items that make a difference: of those alike as many as there are counters, of values with the same events as many
/// as there are registers.
fn worth_trying(items: &[Item], counters: CounterMask) -> Vec<usize> {
    let mut seen: HashMap<&Item, u32> = HashMap::new();
    let mut first = |item| {
        let count = seen.entry(item).or_default();
        *count += 1;
        *count <= counters.len()
    };
    let kept: Vec<usize> = (0..items.len()).filter(|i| first(&items[*i])).collect();
    let registers = registers_of(kept.iter().map(|i| &items[*i])).len();
    let values = values_worth_trying(&kept, items, registers);
    kept.into_iter().filter(|i| value_of(&items[*i]).is_none_or(|value| values.contains(&value))).collect()
}

/// What an item is beside the value that it needs: its ways' registers and counters, and whether it takes two.
type Kind = (Vec<(u32, u64, u64)>, bool);

fn kind(item: &Item) -> Kind {
    let way = |way: &Way| {
        let register = way.extra.map_or(0, |extra| extra.register.msr());
        (register, way.mask.general_bits(), way.mask.fixed_bits())
    };
    (item.ways.iter().map(way).collect(), item.wide)
}

/// The value that an item needs, in whichever register; `None` where it needs none, or different ones.
fn value_of(item: &Item) -> Option<u64> {
    let mut values = item.ways.iter().filter_map(|way| way.extra).map(|extra| extra.value);
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

/// Values whose events are of the same kinds can take each other's place, so a few of them do.
fn values_worth_trying(kept: &[usize], items: &[Item], registers: usize) -> Vec<u64> {
    let mut order: Vec<u64> = Vec::new();
    let mut kinds: HashMap<u64, Vec<Kind>> = HashMap::new();
    for item in kept.iter().map(|i| &items[*i]) {
        let Some(value) = value_of(item) else { continue };
        if !order.contains(&value) {
            order.push(value);
        }
        kinds.entry(value).or_default().push(kind(item));
    }
    // What is mixed with another value is not like any.
    let mixed: Vec<u64> = kept
        .iter()
        .map(|i| &items[*i])
        .filter(|item| value_of(item).is_none())
        .flat_map(|item| item.ways.iter().filter_map(|way| way.extra))
        .map(|extra| extra.value)
        .collect();
    let mut alike: HashMap<Vec<Kind>, usize> = HashMap::new();
    order.retain(|value| {
        let mut own = kinds.remove(value).unwrap_or_default();
        own.sort();
        let count = alike.entry(own).or_default();
        *count += 1;
        *count <= registers || mixed.contains(value)
    });
    order
}

fn registers_of<'a>(items: impl Iterator<Item = &'a Item>) -> Vec<ExtraRegisterKind> {
    let extras = items.flat_map(|item| &item.ways).filter_map(|way| way.extra);
    let mut registers: Vec<ExtraRegisterKind> = extras.map(|extra| extra.register).collect();
    registers.sort();
    registers.dedup();
    registers
}

/// A search over the values of registers, one register after the other.
struct Search<'a> {
    items: &'a [&'a Item],
    counters: CounterMask,
    /// For each register its values with the number of items that use each, the most used first.
    values: Vec<(ExtraRegisterKind, Vec<(u64, usize)>)>,
    best: Solution,
    count: Option<usize>,
    tried: usize,
}

impl<'a> Search<'a> {
    fn new(items: &'a [&'a Item], counters: CounterMask) -> Search<'a> {
        let registers = registers_of(items.iter().copied());
        let values = registers.into_iter().map(|register| (register, values_in(register, items))).collect();
        Search { items, counters, values, best: Solution::default(), count: None, tried: 0 }
    }

    /// Gives the next register each of its values in turn, as long as that can still be better than the best.
    fn decide(&mut self, decided: &mut Vec<u64>) {
        self.tried += self.items.len().max(1);
        if self.count.is_some_and(|count| self.bound(decided) <= count || self.tried > MOST_TRIED) {
            return;
        }
        let Some((_, values)) = self.values.get(decided.len()) else { return self.take(decided) };
        for (value, _) in values.clone() {
            decided.push(value);
            self.decide(decided);
            decided.pop();
        }
    }

    /// A number of items that can never be exceeded once these registers have their values.
    fn bound(&self, decided: &[u64]) -> usize {
        let all = self.arranged(|extra| self.holds(decided, extra).unwrap_or(true)).count();
        let open = &self.values[decided.len()..];
        if open.is_empty() {
            return all;
        }
        let fixed = self.arranged(|extra| self.holds(decided, extra).unwrap_or(false)).count();
        let most: usize = open.iter().filter_map(|(_, values)| values.first()).map(|(_, uses)| uses).sum();
        all.min(fixed + most)
    }

    /// Whether a register has the value that is needed; `None` where it has none yet.
    fn holds(&self, decided: &[u64], extra: ExtraRegister) -> Option<bool> {
        let at = self.values.iter().position(|(register, _)| *register == extra.register)?;
        decided.get(at).map(|value| *value == extra.value)
    }

    fn arranged(&self, agrees: impl Fn(ExtraRegister) -> bool) -> Arrangement {
        let usable = |way: &&Way| way.extra.is_none_or(&agrees);
        let masks = self.items.iter().map(|item| union(item.ways.iter().filter(usable)));
        arrange(&masks.collect::<Vec<_>>(), &|i| self.items[i].wide, self.counters)
    }

    fn take(&mut self, decided: &[u64]) {
        let agrees = |extra| self.holds(decided, extra) == Some(true);
        let Arrangement { placed, taken } = self.arranged(agrees);
        let way = |(item, counter): (&&Item, &Option<CounterId>)| {
            let counter = (*counter)?;
            let mut ways = item.ways.iter();
            let at = ways.position(|way| way.extra.is_none_or(agrees) && way.mask.contains(counter))?;
            Some((at, counter))
        };
        let placed: Vec<_> = self.items.iter().zip(&placed).map(way).collect();
        self.count = Some(placed.iter().flatten().count());
        self.best = Solution { placed, taken };
    }
}

/// The values that items need in a register, the most used first, else as they come.
fn values_in(register: ExtraRegisterKind, items: &[&Item]) -> Vec<(u64, usize)> {
    let mut found: Vec<(u64, usize)> = Vec::new();
    for item in items {
        let extras = item.ways.iter().filter_map(|way| way.extra);
        for extra in extras.filter(|extra| extra.register == register) {
            match found.iter_mut().find(|(value, _)| *value == extra.value) {
                Some((_, uses)) => *uses += 1,
                None => found.push((extra.value, 1)),
            }
        }
    }
    found.sort_by_key(|(_, uses)| std::cmp::Reverse(*uses));
    found
}

fn union<'w>(ways: impl Iterator<Item = &'w Way>) -> CounterMask {
    ways.fold(CounterMask::EMPTY, |all, way| all.or(way.mask))
}

/// One way to give events their counters.
#[derive(Default)]
struct Arrangement {
    placed: Vec<Option<CounterId>>,
    taken: CounterMask,
}

impl Arrangement {
    fn count(&self) -> usize {
        self.placed.iter().flatten().count()
    }
}

/// The arrangement that has a counter for most events. Where some take two counters, every choice of pairs is tried: six
/// counters make three.
fn arrange(masks: &[CounterMask], wide: &dyn Fn(usize) -> bool, counters: CounterMask) -> Arrangement {
    let of = |wanted: bool| -> Vec<CounterMask> {
        let mask =
            |(i, mask): (usize, &CounterMask)| if wide(i) == wanted { *mask } else { CounterMask::EMPTY };
        masks.iter().enumerate().map(mask).collect()
    };
    let (narrow, wide) = (of(false), of(true));
    let mut best: Option<Arrangement> = None;
    for pairs in pairs(&wide, counters) {
        let held = pairs.or(CounterMask::from_bits(pairs.general_bits() << 1, 0));
        let mut placed = cyclometer_plan::place(&narrow, counters.without(held));
        let taken = held.or(placed.iter().flatten().copied().collect());
        for (place, pair) in placed.iter_mut().zip(cyclometer_plan::place(&wide, pairs)) {
            *place = place.or(pair);
        }
        let found = Arrangement { placed, taken };
        if best.as_ref().is_none_or(|best| found.count() > best.count()) {
            best = Some(found);
        }
    }
    best.unwrap_or_default()
}

/// The even counters.
const EVEN: u64 = 0x5555_5555_5555_5555;

/// Every set of first counters of pairs that events which take two can fill; larger sets first.
fn pairs(wide: &[CounterMask], counters: CounterMask) -> Vec<CounterMask> {
    const MOST: usize = 12;
    let both = EVEN & counters.general_bits() & counters.general_bits() >> 1;
    let wanted = wide.iter().fold(CounterMask::EMPTY, |all, mask| all.or(*mask)).general_bits() & both;
    let firsts: Vec<CounterId> = CounterMask::from_bits(wanted, 0).iter().take(MOST).collect();
    let mut sets = vec![CounterMask::EMPTY];
    for first in firsts {
        let with = |set: &CounterMask| set.or(std::iter::once(first).collect());
        let filled = |set: &CounterMask| {
            cyclometer_plan::place(wide, *set).iter().flatten().count() == set.len() as usize
        };
        let larger: Vec<CounterMask> = sets.iter().map(with).filter(filled).collect();
        sets.extend(larger);
    }
    sets.sort_by_key(|set| std::cmp::Reverse(set.len()));
    sets
}
