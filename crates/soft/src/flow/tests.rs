use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// A program: for each block its successors, and whether it may end by an indirect branch to any block.
#[derive(Clone, Debug)]
struct RandomGraph {
    blocks: Vec<Hidden>,
}

#[derive(Clone, Debug)]
struct Hidden {
    successors: Vec<usize>,
    indirect: bool,
    weight: u64,
}

fn programs() -> impl Strategy<Value = RandomGraph> {
    programs_of(1..14)
}

/// Programs of that many blocks.
fn programs_of(blocks: std::ops::Range<usize>) -> impl Strategy<Value = RandomGraph> {
    let hidden = |n: usize| {
        (prop::collection::vec(0..n, 0..3), prop::bool::weighted(0.3), 0u64..50)
            .prop_map(|(successors, indirect, weight)| Hidden { successors, indirect, weight })
    };
    blocks
        .prop_flat_map(move |n| prop::collection::vec(hidden(n), n).prop_map(|blocks| RandomGraph { blocks }))
}

/// Runs a random program and finds its graph on the way, as a translator does.
struct Explorer<'a> {
    program: &'a RandomGraph,
    flow: FlowGraph,
    found: HashMap<usize, BlockId>,
    arcs: HashMap<(FlowPoint, FlowPoint), ArcId>,
    /// The true count of every arc.
    truth: Vec<u64>,
    /// The weight of every arc.
    weights: Vec<u64>,
}

impl<'a> Explorer<'a> {
    fn new(program: &'a RandomGraph, redundancy: Redundancy) -> Explorer<'a> {
        let flow = FlowGraph::new(redundancy);
        Explorer {
            program,
            flow,
            found: HashMap::new(),
            arcs: HashMap::new(),
            truth: vec![],
            weights: vec![],
        }
    }

    /// Everything that is reachable without indirect branches, in one epoch.
    fn ahead(&mut self) {
        for block in 0..self.program.blocks.len() {
            self.block(block);
        }
        for block in 0..self.program.blocks.len() {
            for next in self.program.blocks[block].successors.clone() {
                let to = FlowPoint::Entry(self.block(next));
                self.arc(FlowPoint::Exit(self.found[&block]), to);
            }
        }
        self.flow.close_epoch();
    }

    fn block(&mut self, hidden: usize) -> BlockId {
        if let Some(block) = self.found.get(&hidden) {
            return *block;
        }
        let weight = self.program.blocks[hidden].weight;
        let block = self.flow.block(weight);
        self.truth.push(0);
        self.weights.push(weight);
        self.found.insert(hidden, block);
        block
    }

    fn arc(&mut self, from: FlowPoint, to: FlowPoint) -> ArcId {
        if let Some(arc) = self.arcs.get(&(from, to)) {
            return *arc;
        }
        let weight = (u64::from(from.node()) * 7 + u64::from(to.node()) * 13) % 40;
        let arc = self.flow.edge(from, to, weight);
        self.truth.push(0);
        self.weights.push(weight);
        self.arcs.insert((from, to), arc);
        arc
    }

    fn go(&mut self, from: FlowPoint, to: FlowPoint) {
        let arc = self.arc(from, to);
        self.flow.close_epoch();
        self.truth[arc.index()] += 1;
    }

    /// One walk from outside to outside, led by `choices`.
    fn walk(&mut self, choices: &[usize]) {
        let mut at = choices.len() % self.program.blocks.len();
        let mut block = self.block(at);
        self.go(FlowPoint::Outside, FlowPoint::Entry(block));
        for choice in choices {
            self.truth[self.flow.arc_of(block).index()] += 1;
            let hidden = &self.program.blocks[at];
            let exit = FlowPoint::Exit(block);
            if hidden.indirect && choice % 2 == 0 {
                at = choice / 2 % self.program.blocks.len();
                self.go(exit, FlowPoint::Outside);
                block = self.block(at);
                self.go(FlowPoint::Outside, FlowPoint::Entry(block));
            } else if hidden.successors.is_empty() {
                self.go(exit, FlowPoint::Outside);
                return;
            } else {
                at = hidden.successors[choice % hidden.successors.len()];
                block = self.block(at);
                self.go(exit, FlowPoint::Entry(block));
            }
        }
        self.stop_before(block);
    }

    /// The walk ends before the block's counter: the host sees that.
    fn stop_before(&mut self, block: BlockId) {
        let (from, to) = (FlowPoint::Entry(block), FlowPoint::Outside);
        let arc = *self.arcs.entry((from, to)).or_insert_with(|| {
            self.truth.push(0);
            self.flow.observed(from, to)
        });
        self.flow.close_epoch();
        self.truth[arc.index()] += 1;
    }

    fn counters(&self) -> Vec<u64> {
        self.flow.counters().iter().map(|counter| self.truth[counter.arc.index()]).collect()
    }
}

fn all(solution: &Solution, explorer: &Explorer<'_>) -> Vec<u64> {
    (0..explorer.truth.len()).map(|i| solution.arc(ArcId::new(i))).collect()
}

fn walks() -> impl Strategy<Value = Vec<Vec<usize>>> {
    prop::collection::vec(prop::collection::vec(0usize..1000, 0..60), 0..6)
}

fn redundancies() -> impl Strategy<Value = Redundancy> {
    prop_oneof![
        Just(Redundancy::None),
        (0usize..3).prop_map(Redundancy::PerEpoch),
        (0usize..9).prop_map(Redundancy::OneIn),
        Just(Redundancy::Full),
    ]
}

fn explore<'a>(
    program: &'a RandomGraph,
    redundancy: Redundancy,
    ahead: bool,
    walks: &[Vec<usize>],
) -> Explorer<'a> {
    let mut explorer = Explorer::new(program, redundancy);
    if ahead {
        explorer.ahead();
    }
    for choices in walks {
        explorer.walk(choices);
    }
    explorer.flow.close_epoch();
    explorer
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_count_is_rebuilt_from_the_counters(
        program in programs(), walks in walks(), redundancy in redundancies(), ahead: bool,
    ) {
        let explorer = explore(&program, redundancy, ahead, &walks);
        let solution = explorer.flow.solve(&explorer.counters()).unwrap();
        prop_assert_eq!(&all(&solution, &explorer), &explorer.truth);
        for block in explorer.found.values() {
            prop_assert_eq!(solution.block(*block), explorer.truth[explorer.flow.arc_of(*block).index()]);
        }
    }

    #[test]
    fn weighted_counters_add_up_to_weighted_arcs(
        program in programs(), walks in walks(), redundancy in redundancies(), ahead: bool,
        values in prop::collection::vec(any::<i64>(), 1..40),
    ) {
        let explorer = explore(&program, redundancy, ahead, &walks);
        let (flow, counters) = (&explorer.flow, explorer.counters());
        let is_observed =
            |arc: ArcId| flow.counters()[flow.counter_of(arc).unwrap()].role == CounterRole::Observed;
        let observed: Vec<ArcId> =
            flow.counters().iter().map(|counter| counter.arc).filter(|arc| is_observed(*arc)).collect();
        let value = |arc: ArcId| if observed.contains(&arc) { 0 } else { values[arc.index() % values.len()] };
        let solution = flow.solve(&counters).unwrap();
        let expected = (0..explorer.truth.len()).map(ArcId::new).fold(0u64, |sum, arc| {
            sum.wrapping_add(value(arc).cast_unsigned().wrapping_mul(solution.arc(arc)))
        });
        let weights = LinearReadout::new(flow).weights(flow, value);
        prop_assert_eq!(weights.sum(&counters), expected);
    }

    #[test]
    fn a_readout_suits_a_graph_that_grows_by_observed_arcs_only(
        program in programs(), walks in walks(), redundancy in redundancies(), stop in 0usize..14,
    ) {
        let mut explorer = explore(&program, redundancy, true, &walks);
        let value = |arc: ArcId| 1 + 3 * arc.index() as i64;
        let readout = LinearReadout::new(&explorer.flow);
        let weights = readout.weights(&explorer.flow, value);
        let (before, arcs) = (explorer.counters(), explorer.truth.len());
        // An execution of the arc from the outside, which is seen, and of none of the block.
        let block = explorer.found[&(stop % program.blocks.len())];
        let enter = explorer.flow.observed(FlowPoint::Outside, FlowPoint::Entry(block));
        let leave = explorer.flow.observed(FlowPoint::Entry(block), FlowPoint::Outside);
        explorer.flow.close_epoch();
        explorer.truth.extend([5, 5]);
        prop_assert!(readout.suits(&explorer.flow));
        let solution = explorer.flow.solve(&explorer.counters()).unwrap();
        let expected =
            (0..arcs).map(ArcId::new).map(|arc| value(arc).cast_unsigned() * solution.arc(arc)).sum::<u64>();
        let seen = [enter, leave].map(|arc| weights.of_observed(&explorer.flow, arc).wrapping_mul(5));
        let sum = seen.into_iter().fold(weights.sum(&before), u64::wrapping_add);
        prop_assert_eq!(sum, expected);
        explorer.flow.block(1);
        explorer.flow.close_epoch();
        prop_assert!(!readout.suits(&explorer.flow), "a new block");
    }

    #[test]
    fn counts_that_fill_64_bits_are_rebuilt_like_small_ones(program in programs(), walks in walks()) {
        let explorer = explore(&program, Redundancy::Full, true, &walks);
        let most = explorer.truth.iter().copied().max().unwrap_or(0).max(1);
        let times = u64::MAX / most;
        let counters: Vec<u64> = explorer.counters().into_iter().map(|count| count * times).collect();
        let solution = explorer.flow.solve(&counters).unwrap();
        let expected: Vec<u64> = explorer.truth.iter().map(|count| count * times).collect();
        prop_assert_eq!(all(&solution, &explorer), expected);
    }

    #[test]
    fn one_wrong_counter_is_found_where_it_is_covered(
        program in programs(), walks in walks(), redundancy in redundancies(), ahead: bool,
        by in prop_oneof![Just(1u64), any::<u64>().prop_filter("no change", |by| *by != 0)],
    ) {
        let explorer = explore(&program, redundancy, ahead, &walks);
        let right = explorer.counters();
        for i in 0..right.len() {
            let mut wrong = right.clone();
            wrong[i] = wrong[i].wrapping_add(by);
            if explorer.flow.covers(i) {
                prop_assert!(explorer.flow.solve(&wrong).is_err(), "counter {}", i);
            }
        }
    }

    #[test]
    fn a_wrong_counter_never_gives_the_right_counts(
        program in programs(), walks in walks(), redundancy in redundancies(), at: prop::sample::Index,
    ) {
        let explorer = explore(&program, redundancy, true, &walks);
        let right = explorer.counters();
        // A graph without a free arc has nothing to get wrong.
        if right.is_empty() {
            return Ok(());
        }
        let mut wrong = right.clone();
        wrong[at.index(right.len())] += 1;
        if let Ok(solution) = explorer.flow.solve(&wrong) {
            prop_assert_ne!(&all(&solution, &explorer), &explorer.truth);
        }
    }

    #[test]
    fn full_redundancy_covers_every_counter_of_one_epoch(program in programs()) {
        let mut explorer = Explorer::new(&program, Redundancy::Full);
        explorer.ahead();
        for i in 0..explorer.flow.counters().len() {
            prop_assert!(explorer.flow.covers(i), "counter {}", i);
        }
    }

    #[test]
    fn needed_counters_are_the_fewest_at_all_times(
        program in programs(), walks in walks(), redundancy in redundancies(), ahead: bool,
    ) {
        let explorer = explore(&program, redundancy, ahead, &walks);
        let flow = &explorer.flow;
        let mut sets = DisjointSets::new(flow.forest.len() as u32);
        let is_observed = |counter: &&FlowCounter| counter.role == CounterRole::Observed;
        let observed = flow.counters.iter().filter(is_observed).map(|counter| counter.arc);
        let observed: Vec<ArcId> = observed.collect();
        let countable = flow.arcs.iter().zip(0..).filter(|(_, i)| !observed.contains(&ArcId::new(*i)));
        let free = countable.clone().filter(|(arc, _)| sets.join(arc.from, arc.to)).count();
        let needed = flow.counters.iter().filter(|counter| counter.role == CounterRole::Needed).count();
        prop_assert_eq!(needed, countable.count() - free);
    }

    #[test]
    fn counters_of_one_epoch_have_the_least_weight(program in programs_of(1..5)) {
        let mut explorer = Explorer::new(&program, Redundancy::None);
        explorer.ahead();
        let flow = &explorer.flow;
        let arcs: Vec<(&FlowArc, u64)> = flow.arcs.iter().zip(explorer.weights.iter().copied()).collect();
        let uncounted: u64 =
            arcs.iter().filter(|(arc, _)| arc.counter().is_none()).map(|(_, weight)| weight).sum();
        prop_assert_eq!(uncounted, heaviest_forest(&arcs, &DisjointSets::new(flow.forest.len() as u32)));
    }
}

/// The weight of the heaviest forest, by trying everything.
fn heaviest_forest(arcs: &[(&FlowArc, u64)], sets: &DisjointSets) -> u64 {
    let Some(((arc, weight), rest)) = arcs.split_first() else { return 0 };
    let without = heaviest_forest(rest, sets);
    let mut joined = sets.clone();
    if !joined.join(arc.from, arc.to) {
        return without;
    }
    without.max(weight + heaviest_forest(rest, &joined))
}

/// A loop of two blocks: outside, 0, 1, back to 0 or outside.
fn small_loop(redundancy: Redundancy) -> (FlowGraph, [ArcId; 4]) {
    let mut flow = FlowGraph::new(redundancy);
    let (head, body) = (flow.block(100), flow.block(90));
    let arcs = [
        flow.edge(FlowPoint::Outside, FlowPoint::Entry(head), 1),
        flow.edge(FlowPoint::Exit(head), FlowPoint::Entry(body), 90),
        flow.edge(FlowPoint::Exit(body), FlowPoint::Entry(head), 89),
        flow.edge(FlowPoint::Exit(head), FlowPoint::Outside, 1),
    ];
    flow.close_epoch();
    (flow, arcs)
}

#[test]
fn a_loop_is_counted_at_its_back_edge_and_its_door() {
    let (flow, [enter, _, back, leave]) = small_loop(Redundancy::None);
    let counted: Vec<ArcId> = flow.counters().iter().map(|counter| counter.arc).collect();
    assert_eq!(counted, [back, leave], "the lightest arc of each circle");
    let solution = flow.solve(&[41, 2]).unwrap();
    assert_eq!((solution.block(BlockId(0)), solution.block(BlockId(1))), (43, 41));
    assert_eq!(solution.arc(enter), 2);
}

#[test]
fn an_error_names_where_the_counts_contradict_each_other() {
    let (flow, [enter, ..]) = small_loop(Redundancy::PerEpoch(1));
    assert_eq!(
        flow.counters()[0],
        FlowCounter { arc: enter, role: CounterRole::Redundant },
        "cheap, and checks the exit"
    );
    let leave = flow.counter_of(ArcId::new(5)).unwrap();
    assert!(flow.covers(leave));
    let error = flow.solve(&[2, 41, 3]).unwrap_err();
    assert!(matches!(error, FlowError::Inconsistent { .. }), "{error}");
    assert_eq!(
        FlowError::Inconsistent { at: FlowPoint::Entry(BlockId(1)), inflow: 3, outflow: 2 }.to_string(),
        "inconsistent counts at the entry of block 1: 3 executions in, 2 out"
    );
}

#[test]
fn a_count_beyond_64_bits_is_an_error() {
    let (flow, _) = small_loop(Redundancy::None);
    let error = flow.solve(&[u64::MAX, 1]).unwrap_err();
    assert!(matches!(error, FlowError::Impossible { count, .. } if count == 1 << 64), "{error}");
}

#[test]
fn a_count_below_zero_is_an_error() {
    let mut flow = FlowGraph::new(Redundancy::None);
    let block = flow.block(5);
    flow.edge(FlowPoint::Outside, FlowPoint::Entry(block), 10);
    flow.edge(FlowPoint::Exit(block), FlowPoint::Outside, 3);
    flow.edge(FlowPoint::Exit(block), FlowPoint::Outside, 2);
    flow.edge(FlowPoint::Exit(block), FlowPoint::Outside, 20);
    flow.close_epoch();
    assert_eq!(flow.counters().len(), 3);
    let error = flow.solve(&[1, 1, 1]).unwrap_err();
    assert!(matches!(error, FlowError::Impossible { count: -1, .. }), "{error}");
}

#[test]
fn values_must_fit_the_counters_and_the_epoch_be_closed() {
    let (mut flow, _) = small_loop(Redundancy::None);
    assert_eq!(flow.solve(&[1]), Err(FlowError::WrongNumber { counters: 2, values: 1 }));
    flow.block(1);
    assert_eq!(flow.solve(&[1, 1]), Err(FlowError::OpenEpoch));
}

#[test]
fn an_order_serves_many_counters_until_the_graph_grows() {
    let (mut flow, _) = small_loop(Redundancy::None);
    let mut order = SolvingOrder::default();
    assert_eq!(flow.solve_in(&order, &[1, 1]), Err(FlowError::OpenEpoch), "no order was made");
    order.update(&flow).unwrap();
    for counters in [[0, 0], [1, 1], [1, 7], [3, 3], [u64::MAX, u64::MAX]] {
        assert_eq!(flow.solve_in(&order, &counters), flow.solve(&counters));
    }
    let block = flow.block(1);
    flow.edge(FlowPoint::Outside, FlowPoint::Entry(block), 1);
    flow.edge(FlowPoint::Exit(block), FlowPoint::Outside, 1);
    assert_eq!(order.update(&flow), Err(FlowError::OpenEpoch));
    flow.close_epoch();
    let counters = vec![2; flow.counters().len()];
    assert_eq!(flow.solve_in(&order, &counters), Err(FlowError::OpenEpoch), "the order is that of before");
    order.update(&flow).unwrap();
    assert_eq!(flow.solve_in(&order, &counters), flow.solve(&counters));
    assert!(flow.solve(&counters).is_ok());
}

#[test]
#[should_panic(expected = "not in the graph")]
fn an_arc_to_an_unknown_block_is_our_own_mistake() {
    FlowGraph::new(Redundancy::None).edge(FlowPoint::Outside, FlowPoint::Entry(BlockId(0)), 1);
}

#[test]
fn points_and_numbers_of_nodes_agree() {
    for node in 0..9 {
        assert_eq!(FlowPoint::of_node(node).node(), node);
    }
}
