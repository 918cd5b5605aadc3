//! Call paths of threads: the points of a thread's life at which its log is replayed.
//!
//! The log is replayed when it is full, before its block numbers lose their meaning, and before another stack
//! begins with its frames.

use std::cell::RefCell;
use std::rc::Rc;

use cyclometer_sys::trace::Registers;

use super::code_objects::CodeObjects;
use super::process::{TaskMode, TracedProcess, TracedTask};
use super::protocol;
use super::thread_calls::{ForkedCalls, ThreadCalls};
use super::trace_error::TraceResult;
use super::tracees::Tracees;
use super::translation_context::TranslationContext;
use crate::call_paths::{CallTree, EnteredPlaces};
use crate::code_profile::CodeProfile;
use crate::translate::BUDGET;

/// Call paths that are recorded.
#[derive(Default)]
pub(super) struct CallPathRecording {
    /// The functions that were entered.
    places: RefCell<EnteredPlaces>,
    /// The instructions by call path of processes that have ended.
    ended: CallTree,
}

impl CallPathRecording {
    /// A thread is about to enter translated code in its context, from outside of every block.
    pub(super) fn enter(task: &mut TracedTask, context: &TranslationContext) -> TraceResult {
        let calls = task.calls.get_or_insert_with(|| Box::new(ThreadCalls::new(None)));
        if calls.needs_instructions() {
            let instructions = context.instructions_outside()?;
            calls.enter(&context.cache.borrow(), context.slot, instructions);
        } else if context.is_checked() {
            let budget = context.cache.borrow().load(context.slot, BUDGET);
            let expected = calls.budget_after(context.instructions_outside()?);
            assert_eq!(Some(budget), expected, "the budget is the rest of the instructions");
        }
        Ok(())
    }

    /// A thread is at the start of a block, with these registers of the program's: its first function or a
    /// handler may begin there.
    pub(super) fn begin_function(&self, tracees: &mut Tracees, tid: u32, registers: &Registers) {
        self.replay(tracees, tid);
        let Some(task) = tracees.tasks.get_mut(&tid) else { return };
        let (TaskMode::Translated(context), Some(calls)) = (&task.mode, &mut task.calls) else { return };
        let place = context.cache.borrow().translation.place(registers.rip);
        let tree = &mut tracees.processes[task.process].call_tree;
        calls.begin(tree, registers.rsp, || self.places.borrow_mut().function(place));
    }

    /// Replays the log of a thread.
    pub(super) fn replay(&self, tracees: &mut Tracees, tid: u32) {
        let Some(task) = tracees.tasks.get_mut(&tid) else { return };
        let (TaskMode::Translated(context) | TaskMode::Native(context)) = &task.mode else { return };
        let tree = &mut tracees.processes[task.process].call_tree;
        let places = &mut self.places.borrow_mut();
        task.calls
            .iter_mut()
            .for_each(|calls| calls.replay(&context.cache.borrow(), context.slot, (tree, places)));
    }

    /// A thread gives its context up, in which it is outside of every block.
    pub(super) fn close(&self, tracees: &mut Tracees, tid: u32) {
        self.replay(tracees, tid);
        let Some(task) = tracees.tasks.get_mut(&tid) else { return };
        let (TaskMode::Translated(context) | TaskMode::Native(context)) = &task.mode else { return };
        // Where the counts are unknown, those of the process are lost.
        if let (Some(calls), Ok(instructions)) = (&mut task.calls, context.instructions_outside()) {
            calls.close(&mut tracees.processes[task.process].call_tree, instructions);
        }
    }

    /// The calls that a child of a thread has not returned from.
    pub(super) fn forked(&self, tracees: &mut Tracees, tid: u32) -> Option<Rc<ForkedCalls>> {
        self.replay(tracees, tid);
        let task = tracees.tasks.get(&tid)?;
        let mut tree = CallTree::default();
        let stack = task.calls.as_ref()?.forked(&tracees.processes[task.process].call_tree, &mut tree)?;
        Some(Rc::new(ForkedCalls { tree, stack }))
    }

    /// Adds the call paths of a process that has ended.
    pub(super) fn add_ended(&mut self, process: &mut TracedProcess) {
        let calls = std::mem::take(&mut process.call_tree);
        if process.lost.is_none() {
            self.ended.merge(&calls);
        }
    }

    /// The lines of the call paths of all processes with counts. Uses up those of ended processes.
    pub(super) fn lines(
        &mut self,
        processes: &[TracedProcess],
        objects: Option<&CodeObjects>,
        profile: &CodeProfile,
    ) -> String {
        let mut tree = std::mem::take(&mut self.ended);
        let counted = processes.iter().filter(|process| process.lost.is_none());
        counted.for_each(|process| tree.merge(&process.call_tree));
        let paths = tree.paths(&self.places.borrow());
        protocol::paths(&paths, profile, |number| objects.and_then(|objects| objects.origin(number)))
    }
}

impl Tracees {
    /// A new process has the calls of its parent.
    pub(super) fn inherit_calls(&mut self, child: u32, forked: &ForkedCalls) {
        let Some(task) = self.tasks.get_mut(&child) else { return };
        task.calls = Some(Box::new(ThreadCalls::new(Some(forked.stack.clone()))));
        self.processes[task.process].call_tree = forked.tree.clone();
    }
}
