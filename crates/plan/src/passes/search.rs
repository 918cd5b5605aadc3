//! Sets that must be whole in one pass, and events that take two counters: a packing by branch and bound.
//!
//! A decision by trial is about an *atom*: a set, or an event that the exact algorithms cannot place. The
//! rest is *sand*, which goes where room is left. Without sets of more than two events this is bin packing
//! already, so the search has a budget, and what it did not refute is not claimed.

use super::assign::{Guest, assign_all};
use super::bound::lower;
use super::one::{PassFit, fit};
use super::shared::assigned_pass;
use super::{BUDGET, Certificate, CounterAssignment, PackedEvent, Packing, PassPacker, TrialBudget};
use crate::matching::CounterBits;

/// Events that are placed on trial for one question whether events fit.
const PER_QUESTION: u64 = 20_000;

/// Questions about pairs of sets that are asked for the bound.
const MOST_PAIRED: usize = 64;

/// Events outside of sets that are tried one by one.
const FEW: usize = 16;

/// Orders of atoms that are tried; the first is by size.
const ORDERS: usize = 8;

/// With more atoms, the order by size alone is tried.
const MOST_ORDERED: usize = 200;

/// Packs items so that each of the sets (of items, by index) is whole in a pass.
pub(super) fn pack(packer: &PassPacker, items: &[usize], sets: &[Vec<usize>], budget: u64) -> Packing {
    let parts = SearchParts::of(packer, items, sets);
    let (mut bound, mut certificate) = lower(packer, items);
    for (sets_bound, sets_certificate) in parts.bounds() {
        if sets_bound > bound {
            (bound, certificate) = (sets_bound, sets_certificate);
        }
    }
    let mut passes = parts.greedy(bound);
    let mut budget = TrialBudget(budget);
    let mut refuted = true;
    let mut fewer = bound;
    while fewer < passes.len() && refuted {
        let mut tree = SearchTree {
            parts: &parts,
            passes: vec![Vec::new(); fewer],
            budget: &mut budget,
            exact: true,
            nodes: 0,
        };
        match tree.descend(0, 0) {
            Some(found) => passes = found,
            None if tree.exact => {
                (bound, certificate) = (fewer + 1, Certificate::Searched { nodes: tree.nodes });
                fewer += 1;
            }
            None => {
                refuted = false;
            }
        }
    }
    Packing { passes, lower_bound: bound, certificate, refused: Vec::new() }
}

/// Atoms, the largest first, and sand.
struct SearchParts<'p> {
    packer: &'p PassPacker,
    atoms: Vec<Vec<usize>>,
    sand: Vec<usize>,
    /// For each atom, whether it needs the same as the one before it.
    alike: Vec<bool>,
    /// Whether a search that finds nothing has tried everything.
    exact: bool,
}

impl<'p> SearchParts<'p> {
    fn of(packer: &'p PassPacker, items: &[usize], sets: &[Vec<usize>]) -> SearchParts<'p> {
        let plain = |i: &usize| packer.items[*i].needs.iter().all(|need| need.is_uniform() && !need.wide);
        let bare = |i: &usize| !packer.items[*i].needs.iter().any(super::PackedNeed::has_registers);
        let simple = packer.pmus.len() == 1 && items.iter().all(plain);
        let mut in_set = vec![false; packer.items.len()];
        sets.iter().flatten().for_each(|i| in_set[*i] = true);
        let single: Vec<usize> = items.iter().copied().filter(|i| !in_set[*i]).collect();
        // Few events are tried one by one where the greedy placement of sand could miss a solution.
        let all_hard = single.len() <= FEW && !(simple && single.iter().all(bare));
        let (hard, sand): (Vec<usize>, Vec<usize>) =
            single.into_iter().partition(|i| all_hard || is_hard(&packer.items[*i]));
        let mut atoms: Vec<Vec<usize>> = sets.to_vec();
        atoms.extend(hard.into_iter().map(|i| vec![i]));
        let weight = |atom: &Vec<usize>| -> usize {
            atom.iter().flat_map(|i| &packer.items[*i].needs).map(|need| 1 + usize::from(need.wide)).sum()
        };
        atoms.sort_by_key(|atom| (std::cmp::Reverse(weight(atom)), shape(packer, atom)));
        let exact = sand.is_empty() || simple && sand.iter().all(bare);
        let alike = alike(packer, &atoms);
        SearchParts { packer, atoms, sand, alike, exact }
    }

    fn fits(&self, members: &[usize], budget: &mut TrialBudget) -> PassFit {
        let items: Vec<&PackedEvent> = members.iter().map(|i| &self.packer.items[*i]).collect();
        fit(&items, &self.packer.pmus, budget)
    }

    /// Whether an atom can go to a pass that has these events: then the events of both.
    fn beside(
        &self,
        pass: &[usize],
        atom: &[usize],
        budget: &mut TrialBudget,
    ) -> Result<Vec<usize>, PassFit> {
        let mut members = pass.to_vec();
        members.extend(atom.iter().filter(|i| !pass.contains(i)));
        match self.fits(&members, budget) {
            PassFit::Yes(_) => Ok(members),
            not => Err(not),
        }
    }

    /// The bound that atoms prove beside that of counters and registers.
    fn bounds(&self) -> Vec<(usize, Certificate)> {
        let apart = self.apart();
        let sets = apart.iter().map(|atom| self.demands(atom)).collect();
        let crowded = (0..self.packer.pmus.len()).flat_map(|pmu| self.crowded(pmu));
        crowded.chain([(apart.len(), Certificate::Apart { sets })]).collect()
    }

    fn demands(&self, atom: &[usize]) -> Vec<usize> {
        atom.iter().map(|i| self.packer.items[*i].demand).collect()
    }

    /// How many of the larger atoms fit into one pass at most, for each size to begin with.
    fn crowded(&self, pmu: usize) -> Vec<(usize, Certificate)> {
        let needs = |atom: &[usize]| -> (usize, CounterBits) {
            let own = super::bound::needs_on(self.packer, atom, pmu).map(|(_, need)| need);
            own.fold((0, 0), |(places, all), need| {
                let second = if need.wide { need.counters() << 1 } else { 0 };
                (places + 1 + usize::from(need.wide), all | need.counters() | second)
            })
        };
        let mut disjoint: Vec<(usize, CounterBits, &Vec<usize>)> = Vec::new();
        let mut seen = vec![false; self.packer.items.len()];
        for atom in &self.atoms {
            if !atom.iter().any(|i| seen[*i]) {
                atom.iter().for_each(|i| seen[*i] = true);
                let (places, counters) = needs(atom);
                // One that needs nothing here takes no room here.
                if places > 0 {
                    disjoint.push((places, counters, atom));
                }
            }
        }
        disjoint.sort_by_key(|(places, ..)| std::cmp::Reverse(*places));
        let mut counters: CounterBits = 0;
        let mut found = Vec::new();
        for (n, (places, own, _)) in disjoint.iter().enumerate() {
            counters |= own;
            let ends = disjoint.get(n + 1).is_none_or(|(next, ..)| next != places);
            let at_most = counters.count_ones() as usize / (*places).max(1);
            if ends && at_most > 0 {
                let sets = disjoint[..=n].iter().map(|(_, _, atom)| self.demands(atom)).collect();
                let counters = crate::matching::mask(counters);
                found
                    .push(((n + 1).div_ceil(at_most), Certificate::Crowded { pmu, counters, sets, at_most }));
            }
        }
        found
    }

    /// Atoms no two of which fit together, as many as are found quickly.
    fn apart(&self) -> Vec<Vec<usize>> {
        let mut found: Vec<Vec<usize>> = Vec::new();
        for atom in self.atoms.iter().take(MOST_PAIRED) {
            let clashes = |other: &Vec<usize>| {
                self.beside(other, atom, &mut TrialBudget(PER_QUESTION)) == Err(PassFit::No)
            };
            if found.iter().all(clashes) {
                found.push(atom.clone());
            }
        }
        found
    }

    /// Every atom in the first pass that takes it, in a few orders; the best of them, of at least `least`
    /// passes.
    fn greedy(&self, least: usize) -> Vec<Vec<CounterAssignment>> {
        let mut best: Option<Vec<Vec<CounterAssignment>>> = None;
        for rotation_group in 0..ORDERS {
            let found = self.first_fit(rotation_group, least);
            if best.as_ref().is_none_or(|best| found.len() < best.len()) {
                best = Some(found);
            }
            if !(2..MOST_ORDERED).contains(&self.atoms.len())
                || best.as_ref().is_some_and(|best| best.len() <= least)
            {
                break;
            }
        }
        best.unwrap_or_default()
    }

    fn first_fit(&self, rotation_group: usize, least: usize) -> Vec<Vec<CounterAssignment>> {
        let mut passes: Vec<Vec<usize>> = Vec::new();
        let mut room: Vec<Vec<usize>> = Vec::new();
        let whole: Vec<usize> = self.packer.pmus.iter().map(|free| free.count_ones() as usize).collect();
        let all = self.atoms.len();
        // The order by size, and then others that begin elsewhere or leave steps out.
        let stride =
            (1..).step_by(2).skip(rotation_group).find(|stride| gcd(*stride, all.max(1)) == 1).unwrap_or(1);
        for n in 0..all {
            let atom = &self.atoms[(n * stride + rotation_group) % all];
            let wanted = self.places_of(atom.iter());
            let taken = passes.iter().enumerate().find_map(|(at, pass)| {
                // Most passes are full: that is seen without trying.
                let full =
                    |wanted: &[usize]| wanted.iter().zip(&room[at]).any(|(wanted, room)| wanted > room);
                let is_new = |i: &usize| !pass.contains(i);
                if full(&wanted)
                    && (atom.iter().all(is_new) || full(&self.places_of(atom.iter().filter(|i| is_new(i)))))
                {
                    return None;
                }
                Some((at, self.beside(pass, atom, &mut TrialBudget(PER_QUESTION)).ok()?))
            });
            let at = taken.as_ref().map_or(passes.len(), |(at, _)| *at);
            match taken {
                Some((at, members)) => passes[at] = members,
                None => {
                    passes.push(atom.clone());
                    room.push(Vec::new());
                }
            }
            let places = self.places_of(passes[at].iter());
            room[at] = whole.iter().zip(places).map(|(whole, places)| whole.saturating_sub(places)).collect();
        }
        passes.resize(passes.len().max(least), Vec::new());
        loop {
            match self.strew(&passes) {
                Some(assignments) => return assignments,
                None => passes.push(Vec::new()),
            }
        }
    }

    /// The counters that items take, of each PMU.
    fn places_of<'i>(&self, items: impl Iterator<Item = &'i usize>) -> Vec<usize> {
        let mut places = vec![0; self.packer.pmus.len()];
        for need in items.flat_map(|i| &self.packer.items[*i].needs) {
            places[need.pmu] += 1 + usize::from(need.wide);
        }
        places
    }

    /// Puts the sand into passes that have their atoms; `None` where this finds no room for it.
    fn strew(&self, passes: &[Vec<usize>]) -> Option<Vec<Vec<CounterAssignment>>> {
        let mut passes = passes.to_vec();
        let is_choosy = |i: &&usize| self.packer.pmus.len() > 1 || self.needs_register(**i);
        let (choosy, easy): (Vec<usize>, Vec<usize>) = self.sand.iter().partition(is_choosy);
        for i in choosy {
            let mut order: Vec<usize> = (0..passes.len()).collect();
            order.sort_by_key(|pass| passes[*pass].len());
            let (at, members) = order.into_iter().find_map(|at| {
                Some((at, self.beside(&passes[at], &[i], &mut TrialBudget(PER_QUESTION)).ok()?))
            })?;
            passes[at] = members;
        }
        if !easy.is_empty() {
            self.strew_easy(&mut passes, &easy)?;
        }
        passes.retain(|pass| !pass.is_empty());
        passes.iter().map(|pass| assigned_pass(self.packer, pass, &mut TrialBudget(BUDGET))).collect()
    }

    fn needs_register(&self, i: usize) -> bool {
        self.packer.items[i].needs.iter().any(super::PackedNeed::has_registers)
    }

    /// Sand that needs counters of one PMU only.
    fn strew_easy(&self, passes: &mut [Vec<usize>], easy: &[usize]) -> Option<()> {
        let (mut guests, mut free) = (Vec::new(), Vec::new());
        for (at, pass) in passes.iter().enumerate() {
            let PassFit::Yes(chosen) = self.fits(pass, &mut TrialBudget(BUDGET)) else { return None };
            let mut open: CounterBits = self.packer.pmus[0];
            for (i, chosen) in pass.iter().zip(&chosen) {
                for (need, (_, bit)) in self.packer.items[*i].needs.iter().zip(chosen) {
                    match need.wide {
                        true => open &= !(0b11 << bit),
                        false => guests.push(Guest { counters: need.counters(), pass: Some(at) }),
                    }
                }
            }
            free.push(open);
        }
        let fixed = guests.len();
        let counters =
            |i: &usize| self.packer.items[*i].needs.iter().fold(0, |all, need| all | need.counters());
        guests.extend(easy.iter().map(|i| Guest { counters: counters(i), pass: None }));
        let assigned = assign_all(&guests, &free)?;
        for (i, pass) in easy.iter().zip(&assigned[fixed..]) {
            passes[*pass].push(*i);
        }
        Some(())
    }
}

/// Whether an event cannot be sand: it takes two counters, or its register decides about its counters.
fn is_hard(item: &PackedEvent) -> bool {
    item.needs.iter().any(|need| need.wide || (need.has_registers() && !need.is_uniform()))
}

/// A key that atoms with the same needs share, so that they are neighbours.
fn shape(packer: &PassPacker, atom: &[usize]) -> Vec<(usize, CounterBits, bool, u64)> {
    let of = |need: &super::PackedNeed| {
        let value = need.ways.iter().find_map(|way| way.extra).map_or(0, |extra| extra.1);
        (need.pmu, need.counters(), need.wide, value)
    };
    let mut shape: Vec<_> = atom.iter().flat_map(|i| packer.items[*i].needs.iter().map(of)).collect();
    shape.sort_unstable();
    shape
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A search through all ways to give atoms to a number of passes.
struct SearchTree<'t, 'p> {
    parts: &'t SearchParts<'p>,
    passes: Vec<Vec<usize>>,
    budget: &'t mut TrialBudget,
    /// Whether nothing was left out so far.
    exact: bool,
    nodes: u64,
}

impl SearchTree<'_, '_> {
    /// Gives atom number `next` a pass; passes that are empty are alike, and so are atoms that are alike.
    fn descend(&mut self, next: usize, first: usize) -> Option<Vec<Vec<CounterAssignment>>> {
        self.nodes += 1;
        if !self.budget.spend(1) {
            self.exact = false;
            return None;
        }
        let Some(atom) = self.parts.atoms.get(next) else { return self.strew() };
        let from = if self.parts.alike[next] { first } else { 0 };
        let used = self.passes.iter().position(Vec::is_empty).map_or(self.passes.len(), |empty| empty + 1);
        for pass in from..used {
            match self.parts.beside(&self.passes[pass], atom, self.budget) {
                Ok(members) => {
                    let before = std::mem::replace(&mut self.passes[pass], members);
                    let found = self.descend(next + 1, pass);
                    self.passes[pass] = before;
                    if found.is_some() {
                        return found;
                    }
                }
                Err(PassFit::Unknown) => self.exact = false,
                Err(_) => {}
            }
            if self.budget.0 == 0 {
                self.exact = false;
                return None;
            }
        }
        None
    }

    fn strew(&mut self) -> Option<Vec<Vec<CounterAssignment>>> {
        let found = self.parts.strew(&self.passes);
        self.budget.0 = self.budget.0.saturating_sub(self.passes.len() as u64);
        self.exact &= found.is_some() || self.parts.exact;
        found
    }
}

/// For each atom, whether it is as the one before it and neither shares an event with another: then their
/// order is all the same.
fn alike(packer: &PassPacker, atoms: &[Vec<usize>]) -> Vec<bool> {
    let mut holders = vec![0; packer.items.len()];
    atoms.iter().flatten().for_each(|i| holders[*i] += 1);
    let shares = |atom: &[usize]| atom.iter().any(|i| holders[*i] > 1);
    let needs = |atom: &[usize]| -> Vec<&[super::PackedNeed]> {
        let mut all: Vec<_> = atom.iter().map(|i| packer.items[*i].needs.as_slice()).collect();
        all.sort_by_key(|needs| needs.first().map(|need| (need.counters(), need.wide)));
        all
    };
    let pair =
        |pair: &[Vec<usize>]| !shares(&pair[0]) && !shares(&pair[1]) && needs(&pair[0]) == needs(&pair[1]);
    std::iter::once(false).chain(atoms.windows(2).map(pair)).collect()
}
