//! Call paths: the instructions of a thread by the functions that have called each other.
//!
//! # Problem
//!
//! A count of a function is its own (exclusive). The count of a function with everything below it (inclusive)
//! needs the path of calls at each instruction. Calls and returns do not always match: `longjmp` and
//! exceptions skip frames, and coroutines switch stacks.
//!
//! # Solution
//!
//! Translated code logs each call and return with the stack pointer and the instructions so far. A
//! `CallStack` replays the log: instructions between two records belong to one node of a `CallTree`. So
//! each instruction belongs to exactly one path, whatever the program does with its stack, and no inclusive
//! count exceeds the total.
//!
//! # Terms
//!
//! - *Node*: a path of functions, from the start of a thread. Direct recursion stays in its node.
//! - *Frame*: a call that has not returned, by the address of its return address on the stack.
//! - *Segment*: the frames of one stack. A thread with coroutines, or a handler on an alternate stack, has
//!   several.
//! - *Partial*: a node whose instructions may belong to a neighbouring path, because frames were skipped.
//!
//! # Literature
//!
//! G. Ammons, T. Ball, J. R. Larus: Exploiting hardware performance counters with flow and context sensitive
//! profiling, PLDI 1997 (calling context trees).

use std::collections::HashMap;

use crate::code_profile::InstructionPlace;
use crate::hash::AddressMap;
use crate::recent_values::RecentValues;

/// Most nodes of a tree. Calls from there on count as part of their caller, which is marked.
const MOST_NODES: usize = 4_000_000;

/// Most stacks of a thread.
const MOST_SEGMENTS: usize = 4096;

/// A stack pointer that is further below the latest frame belongs to another stack, in bytes.
const FAR: u64 = 1 << 20;

/// A stack pointer that is further above the oldest frame belongs to another stack, in bytes.
const ABOVE: u64 = 1 << 16;

/// The number of a function, by the place where it was entered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct FunctionId(pub(crate) u32);

/// The number of a node in its tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct NodeId(u32);

const ROOT: NodeId = NodeId(0);

/// The places where functions were entered.
#[derive(Default)]
pub(crate) struct EnteredPlaces {
    places: Vec<InstructionPlace>,
    numbers: HashMap<InstructionPlace, FunctionId>,
}

impl EnteredPlaces {
    /// The number of the function that was entered at a place.
    pub(crate) fn function(&mut self, place: InstructionPlace) -> FunctionId {
        let next = FunctionId(self.places.len() as u32);
        let number = *self.numbers.entry(place).or_insert(next);
        if number == next {
            self.places.push(place);
        }
        number
    }
}

/// A path of functions.
#[derive(Clone)]
struct CallNode {
    parent: NodeId,
    /// `None` for the root.
    function: Option<FunctionId>,
    calls: u64,
    /// Calls by itself.
    recursions: u64,
    own: u64,
    is_partial: bool,
}

impl CallNode {
    fn new(parent: NodeId, function: Option<FunctionId>) -> CallNode {
        CallNode { parent, function, calls: 0, recursions: 0, own: 0, is_partial: false }
    }
}

/// A parent and a function, as one word.
fn child_key(parent: NodeId, function: FunctionId) -> u64 {
    u64::from(parent.0) << 32 | u64::from(function.0)
}

/// The instructions of a process by call path.
#[derive(Clone)]
pub(crate) struct CallTree {
    nodes: Vec<CallNode>,
    /// By parent and function.
    children: AddressMap<u64, NodeId>,
    /// The children that were found lately.
    recent: RecentValues,
}

impl Default for CallTree {
    fn default() -> CallTree {
        CallTree {
            nodes: vec![CallNode::new(ROOT, None)],
            children: AddressMap::default(),
            recent: RecentValues::default(),
        }
    }
}

/// A call path with its instructions, as it is reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallPath {
    /// The index of the path of its caller, which is before it; `None` at the start of a thread.
    pub parent: Option<u32>,
    /// The place where the function was entered.
    pub place: InstructionPlace,
    /// The number of calls from its caller.
    pub calls: u64,
    /// The number of calls by itself, which stay in this path.
    pub recursions: u64,
    /// The instructions of this path alone.
    pub own: u64,
    /// Whether some instructions may belong to a neighbouring path.
    pub is_partial: bool,
}

impl CallTree {
    fn node(&mut self, id: NodeId) -> &mut CallNode {
        &mut self.nodes[id.0 as usize]
    }

    /// The node of a function below another one.
    #[inline]
    fn child(&mut self, parent: NodeId, function: FunctionId) -> NodeId {
        let recent = self.recent.get(child_key(parent, function));
        recent.map_or_else(|| self.find_child(parent, function), NodeId)
    }

    #[cold]
    fn find_child(&mut self, parent: NodeId, function: FunctionId) -> NodeId {
        let key = child_key(parent, function);
        let node = match self.children.get(&key) {
            Some(known) => *known,
            None if self.nodes.len() >= MOST_NODES => {
                self.mark(parent);
                return parent;
            }
            None => {
                let new = NodeId(self.nodes.len() as u32);
                self.nodes.push(CallNode::new(parent, Some(function)));
                self.children.insert(key, new);
                new
            }
        };
        self.recent.keep(key, node.0, self.nodes.len());
        node
    }

    fn mark(&mut self, node: NodeId) {
        self.node(node).is_partial = true;
    }

    /// Adds another tree, whose functions have the same numbers.
    pub(crate) fn merge(&mut self, other: &CallTree) {
        let mut here = vec![ROOT; other.nodes.len()];
        for (index, from) in other.nodes.iter().enumerate() {
            // A parent comes before its children.
            let to =
                from.function.map_or(ROOT, |function| self.child(here[from.parent.0 as usize], function));
            here[index] = to;
            let sum = self.node(to);
            sum.calls += from.calls;
            sum.recursions += from.recursions;
            sum.own = sum.own.wrapping_add(from.own);
            sum.is_partial |= from.is_partial;
        }
    }

    /// Every path that was entered. Instructions outside of all functions are in none.
    pub(crate) fn paths(&self, places: &EnteredPlaces) -> Vec<CallPath> {
        let paths = self.nodes.iter().filter_map(|node| {
            let place = places.places[node.function?.0 as usize];
            let parent = node.parent.0.checked_sub(1);
            let CallNode { calls, recursions, own, is_partial, .. } = *node;
            Some(CallPath { parent, place, calls, recursions, own, is_partial })
        });
        paths.collect()
    }
}

/// A call that has not returned.
#[derive(Clone, Copy)]
struct CallFrame {
    /// The address of the return address.
    sp: u64,
    /// The path of the caller.
    back: NodeId,
}

/// The frames of one stack, the oldest first.
#[derive(Clone)]
struct StackSegment {
    number: u32,
    /// The segment that was left for this one; its own number for the first.
    below: u32,
    /// The highest stack pointer so far.
    high: u64,
    frames: Vec<CallFrame>,
    /// The path from which it was entered.
    base: NodeId,
    /// The path of the next instruction on this stack.
    node: NodeId,
}

impl StackSegment {
    /// Whether a stack pointer is on this stack.
    fn has(&self, sp: u64) -> bool {
        let lowest = self.frames.last().map_or(self.high, |frame| frame.sp);
        sp <= self.high.saturating_add(ABOVE) && sp >= lowest.saturating_sub(FAR)
    }
}

/// The calls of a thread that have not returned.
#[derive(Clone)]
pub(crate) struct CallStack {
    /// The stack in use.
    segment: StackSegment,
    others: Vec<StackSegment>,
    next_number: u32,
}

impl CallStack {
    /// The stack of a thread that starts in a function.
    pub(crate) fn new(tree: &mut CallTree, sp: u64, function: FunctionId) -> CallStack {
        let node = tree.child(ROOT, function);
        tree.node(node).calls += 1;
        let segment = StackSegment { number: 0, below: 0, high: sp, frames: Vec::new(), base: node, node };
        CallStack { segment, others: Vec::new(), next_number: 1 }
    }

    /// Adds instructions to the path.
    #[inline]
    pub(crate) fn spend(&mut self, tree: &mut CallTree, instructions: u64) {
        let own = &mut tree.node(self.segment.node).own;
        *own = own.wrapping_add(instructions);
    }

    /// Says that the instructions of the path are not certain.
    pub(crate) fn mark(&mut self, tree: &mut CallTree) {
        tree.mark(self.segment.node);
    }

    /// A call, which stores its return address at `sp`.
    #[inline]
    pub(crate) fn call(&mut self, tree: &mut CallTree, sp: u64, function: FunctionId) {
        self.skip(tree, sp, sp.saturating_add(1));
        self.push(tree, sp, function);
    }

    #[inline]
    fn push(&mut self, tree: &mut CallTree, sp: u64, function: FunctionId) {
        let segment = &mut self.segment;
        let back = segment.node;
        segment.frames.push(CallFrame { sp, back });
        segment.high = segment.high.max(sp);
        if tree.node(back).function == Some(function) {
            tree.node(back).recursions += 1;
            return;
        }
        let node = tree.child(back, function);
        segment.node = node;
        if node != back {
            tree.node(node).calls += 1;
        }
    }

    /// A jump by which a stub leads to its function: the function takes the place of the stub.
    pub(crate) fn replace(&mut self, tree: &mut CallTree, sp: u64, function: FunctionId) {
        self.skip(tree, sp, sp);
        let segment = &mut self.segment;
        let Some(back) = segment.frames.last().map(|frame| frame.back) else {
            return self.jump(tree, sp, function);
        };
        if tree.node(back).function == Some(function) {
            tree.node(back).recursions += 1;
            segment.node = back;
            return;
        }
        let node = tree.child(back, function);
        segment.node = node;
        if node != back {
            tree.node(node).calls += 1;
        }
    }

    /// A return, whose return address is at `sp`. Without its call, the function that it leads to goes on.
    #[inline]
    pub(crate) fn ret(&mut self, tree: &mut CallTree, sp: u64, to: impl FnOnce() -> FunctionId) {
        self.skip(tree, sp, sp);
        let segment = &mut self.segment;
        match segment.frames.last().copied() {
            Some(frame) if frame.sp == sp => {
                segment.frames.pop();
                segment.node = frame.back;
                if segment.frames.is_empty() {
                    self.leave_empty();
                }
            }
            _ => {
                tree.mark(segment.node);
                self.jump(tree, sp, to());
                self.mark(tree);
            }
        }
    }

    /// A jump to the start of another function, in place of a call: its return is that of the function that
    /// jumps.
    pub(crate) fn jump(&mut self, tree: &mut CallTree, sp: u64, function: FunctionId) {
        self.skip(tree, sp, sp);
        let segment = &mut self.segment;
        let back = segment.frames.last().map(|frame| frame.back);
        // A function that was in this frame before goes on.
        let mut known = segment.node;
        while known != ROOT && Some(known) != back {
            if tree.node(known).function == Some(function) {
                segment.node = known;
                return;
            }
            known = tree.node(known).parent;
        }
        let from = segment.node;
        segment.node = tree.child(from, function);
        let node = segment.node;
        if node != from {
            tree.node(node).calls += 1;
        }
    }

    /// A signal handler begins, which returns from `sp`. It may have a stack of its own.
    pub(crate) fn enter_handler(&mut self, tree: &mut CallTree, sp: u64, function: FunctionId) {
        let segment = &self.segment;
        let is_above = segment.frames.last().is_some_and(|frame| frame.sp <= sp);
        if is_above || !segment.has(sp) {
            self.add_segment(sp);
        }
        self.push(tree, sp, function);
    }

    /// Drops frames below a limit, which were skipped, and finds the stack of a stack pointer.
    #[inline]
    fn skip(&mut self, tree: &mut CallTree, sp: u64, limit: u64) {
        let top = self.segment.frames.last();
        if top.is_some_and(|frame| frame.sp >= limit && frame.sp - sp < FAR) {
            return;
        }
        self.settle(tree, sp, limit);
    }

    #[cold]
    fn settle(&mut self, tree: &mut CallTree, sp: u64, limit: u64) {
        if !self.segment.has(sp) {
            // The instructions since the switch belong to another stack.
            self.mark(tree);
            let known = self.others.iter_mut().filter(|other| other.has(sp));
            match known.min_by_key(|known| known.number) {
                Some(known) => std::mem::swap(&mut self.segment, known),
                None => self.add_segment(sp),
            }
            self.mark(tree);
        }
        let segment = &mut self.segment;
        let mut skipped = false;
        while let Some(frame) = segment.frames.last().copied().filter(|frame| frame.sp < limit) {
            tree.mark(segment.node);
            segment.node = frame.back;
            segment.frames.pop();
            skipped = true;
        }
        if skipped {
            tree.mark(segment.node);
        }
    }

    /// Begins another stack, above the path of this one.
    fn add_segment(&mut self, sp: u64) {
        if self.others.len() + 1 >= MOST_SEGMENTS {
            let numbered = self.others.iter().enumerate().map(|(index, other)| (other.number, index));
            numbered.min().into_iter().for_each(|(_, oldest)| drop(self.others.swap_remove(oldest)));
        }
        let StackSegment { number: below, node, .. } = self.segment;
        let number = self.next_number;
        self.next_number += 1;
        let new = StackSegment { number, below, high: sp, frames: Vec::new(), base: node, node };
        self.others.push(std::mem::replace(&mut self.segment, new));
    }

    /// Goes back to the stack that was left for one whose oldest call has returned. A stack that began with a
    /// jump goes on.
    #[cold]
    fn leave_empty(&mut self) {
        let StackSegment { number, below, base, node, .. } = self.segment;
        if number == below || node != base {
            return;
        }
        let left = self.others.iter().position(|other| other.number == below);
        left.into_iter().for_each(|left| self.segment = self.others.swap_remove(left));
    }

    /// The stack of a forked process, which has the same frames and has executed nothing, in a tree of its
    /// own.
    pub(crate) fn forked(&self, tree: &CallTree, child: &mut CallTree) -> CallStack {
        let mut stack = self.clone();
        for segment in std::iter::once(&mut stack.segment).chain(&mut stack.others) {
            segment.base = copied(tree, child, segment.base);
            segment.node = copied(tree, child, segment.node);
            segment.frames.iter_mut().for_each(|frame| frame.back = copied(tree, child, frame.back));
        }
        stack
    }
}

/// The node of the same path in another tree.
fn copied(tree: &CallTree, to: &mut CallTree, node: NodeId) -> NodeId {
    let mut functions = Vec::new();
    let mut at = &tree.nodes[node.0 as usize];
    while let Some(function) = at.function {
        functions.push(function);
        at = &tree.nodes[at.parent.0 as usize];
    }
    functions.into_iter().rev().fold(ROOT, |node, function| to.child(node, function))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: u64 = 0x7fff_0000;

    struct Replay {
        tree: CallTree,
        places: EnteredPlaces,
        stack: CallStack,
    }

    impl Replay {
        fn new() -> Replay {
            let (mut tree, mut places) = (CallTree::default(), EnteredPlaces::default());
            let start = places.function(place(0));
            let stack = CallStack::new(&mut tree, STACK, start);
            Replay { tree, places, stack }
        }

        fn spend(&mut self, instructions: u64) -> &mut Replay {
            self.stack.spend(&mut self.tree, instructions);
            self
        }

        fn call(&mut self, sp: u64, offset: u64) -> &mut Replay {
            let function = self.places.function(place(offset));
            self.stack.call(&mut self.tree, sp, function);
            self
        }

        fn ret(&mut self, sp: u64) -> &mut Replay {
            let to = self.places.function(place(7));
            self.stack.ret(&mut self.tree, sp, || to);
            self
        }

        fn jump(&mut self, sp: u64, offset: u64) -> &mut Replay {
            let function = self.places.function(place(offset));
            self.stack.jump(&mut self.tree, sp, function);
            self
        }

        fn handler(&mut self, sp: u64, offset: u64) -> &mut Replay {
            let function = self.places.function(place(offset));
            self.stack.enter_handler(&mut self.tree, sp, function);
            self
        }

        /// Each path as text, with its instructions: `?` for partial ones.
        fn paths(&self) -> Vec<String> {
            let paths = self.tree.paths(&self.places);
            let name = |path: &CallPath| {
                let mut names = vec![path.place.offset.to_string()];
                let mut parent = path.parent;
                while let Some(above) = parent.map(|parent| &paths[parent as usize]) {
                    names.push(above.place.offset.to_string());
                    parent = above.parent;
                }
                names.reverse();
                names.join(">")
            };
            let text = |path: &CallPath| {
                format!("{} {}{}", name(path), path.own, if path.is_partial { "?" } else { "" })
            };
            paths.iter().map(text).collect()
        }
    }

    fn place(offset: u64) -> InstructionPlace {
        InstructionPlace { object: None, offset, owner: None }
    }

    #[test]
    fn instructions_belong_to_the_path_of_calls() {
        let mut replay = Replay::new();
        replay.spend(5).call(STACK - 8, 1).spend(10).call(STACK - 40, 2).spend(3);
        replay.ret(STACK - 40).spend(2).ret(STACK - 8).spend(1).call(STACK - 8, 2).spend(7).ret(STACK - 8);
        assert_eq!(replay.paths(), ["0 6", "0>1 12", "0>1>2 3", "0>2 7"]);
    }

    #[test]
    fn direct_recursion_stays_in_its_path_and_is_counted() {
        let mut replay = Replay::new();
        replay.call(STACK - 8, 1).spend(1);
        for depth in 2..=100 {
            replay.call(STACK - 8 * depth, 1).spend(1);
        }
        for depth in (1..=100).rev() {
            replay.ret(STACK - 8 * depth).spend(1);
        }
        assert_eq!(replay.paths(), ["0 1", "0>1 199"]);
        assert_eq!(replay.tree.paths(&replay.places)[1].recursions, 99);
    }

    #[test]
    fn skipped_frames_are_dropped_and_their_paths_are_partial() {
        let mut replay = Replay::new();
        replay.call(STACK - 8, 1).call(STACK - 48, 2).call(STACK - 80, 3).spend(4);
        // `longjmp` to the first function, whose next call shows it.
        replay.call(STACK - 48, 4).spend(2).ret(STACK - 48).spend(1).ret(STACK - 8).spend(9);
        assert_eq!(replay.paths(), ["0 9", "0>1 1?", "0>1>2 0?", "0>1>2>3 4?", "0>1>4 2"]);
    }

    #[test]
    fn a_return_without_a_call_leads_to_a_function_and_marks_both() {
        let mut replay = Replay::new();
        replay.call(STACK - 8, 1).spend(1).ret(STACK - 64).spend(2).ret(STACK - 8).spend(1);
        assert_eq!(replay.paths(), ["0 1", "0>1 1?", "0>1>7 2?"]);
    }

    #[test]
    fn coroutines_keep_their_frames_while_another_stack_runs() {
        let other = STACK - (64 << 20);
        let mut replay = Replay::new();
        replay.call(STACK - 8, 1).spend(1).call(STACK - 16, 2);
        replay.call(other, 3).spend(10).call(other - 8, 4).spend(1);
        // Back on the first stack, where the switch returns, and on the second one again.
        replay.ret(STACK - 16).spend(100).call(STACK - 16, 2).ret(other - 8).spend(20);
        replay.ret(other).ret(STACK - 16).ret(STACK - 8).spend(7);
        let paths = replay.paths();
        let total: u64 = replay.tree.paths(&replay.places).iter().map(|path| path.own).sum();
        assert_eq!(total, 139, "each instruction belongs to one path");
        assert!(paths.contains(&"0 7".to_owned()), "{paths:?}");
        assert!(paths.contains(&"0>1 101".to_owned()), "{paths:?}");
        assert!(paths.contains(&"0>1>2>3 30".to_owned()), "{paths:?}");
    }

    #[test]
    fn a_stack_that_begins_with_a_return_goes_on_after_its_first_call() {
        let other = STACK - (64 << 20);
        let mut replay = Replay::new();
        replay.call(STACK - 8, 1).ret(other).spend(1).call(other - 8, 2).spend(10).ret(other - 8).spend(100);
        assert_eq!(replay.paths(), ["0 0", "0>1 0?", "0>1>7 101?", "0>1>7>2 10"]);
    }

    #[test]
    fn handlers_on_both_kinds_of_stack_leave_the_interrupted_path_as_it_was() {
        for sp in [STACK - 600, STACK + (8 << 20), STACK - (8 << 20)] {
            let mut replay = Replay::new();
            replay.call(STACK - 8, 1).spend(1).handler(sp, 9).spend(5).call(sp - 8, 2).ret(sp - 8).ret(sp);
            replay.spend(1).ret(STACK - 8).spend(3);
            assert_eq!(replay.paths(), ["0 3", "0>1 2", "0>1>9 5", "0>1>9>2 0"]);
        }
    }

    #[test]
    fn a_function_that_is_jumped_to_returns_for_the_one_before() {
        let mut replay = Replay::new();
        replay.call(STACK - 8, 1).spend(2).jump(STACK - 8, 2).spend(3).jump(STACK - 8, 1).spend(1);
        replay.ret(STACK - 8).spend(5);
        assert_eq!(replay.paths(), ["0 5", "0>1 3", "0>1>2 3"]);
    }

    #[test]
    fn a_function_takes_the_place_of_the_stub_that_leads_to_it() {
        let mut replay = Replay::new();
        replay.call(STACK - 8, 1).spend(2);
        let function = replay.places.function(place(2));
        replay.stack.replace(&mut replay.tree, STACK - 8, function);
        replay.spend(30).ret(STACK - 8).spend(5);
        assert_eq!(replay.paths(), ["0 5", "0>1 2", "0>2 30"]);
    }

    #[test]
    fn a_forked_process_has_the_frames_and_no_instructions() {
        let mut replay = Replay::new();
        replay.call(STACK - 8, 1).spend(5).call(STACK - 48, 2).spend(1);
        let mut tree = CallTree::default();
        let stack = replay.stack.forked(&replay.tree, &mut tree);
        let mut child = Replay { tree, places: std::mem::take(&mut replay.places), stack };
        child.spend(3).ret(STACK - 48).spend(2).ret(STACK - 8).spend(1);
        assert_eq!(child.paths(), ["0 1", "0>1 2", "0>1>2 3"]);
        let mut sum = CallTree::default();
        sum.merge(&replay.tree);
        sum.merge(&child.tree);
        let own: Vec<u64> = sum.paths(&child.places).iter().map(|path| path.own).collect();
        assert_eq!(own, [1, 7, 4]);
    }
}
