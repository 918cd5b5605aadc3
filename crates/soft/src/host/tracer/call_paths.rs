//! Call paths of threads: the points of a thread's life at which its log is replayed.
//!
//! The log is replayed when it is full, before its block numbers lose their meaning, and before another stack
//! begins with its frames.

use std::rc::Rc;

use cyclometer_sys::trace::Registers;

use super::Tracer;
use crate::call_paths::CallTree;
use crate::code_profile::CodeProfile;
use crate::host::action::{ActionResult, TaskAction};
use crate::host::process::TaskMode;
use crate::host::protocol;
use crate::host::thread_calls::{ForkedCalls, ThreadCalls};
use crate::host::trace_error::TraceResult;
use crate::host::translation_context::TranslationContext;
use crate::translate::BUDGET;

impl Tracer {
    /// A thread is about to enter translated code in its context, from outside of every block.
    pub(super) fn enter_calls(&mut self, tid: u32, context: &TranslationContext) -> TraceResult {
        if self.call_places.is_none() {
            return Ok(());
        }
        let calls = self.task(tid)?.calls.get_or_insert_with(|| Box::new(ThreadCalls::new(None)));
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
    pub(super) fn begin_function(&mut self, tid: u32, registers: &Registers) {
        let Some(places) = self.call_places.clone() else { return };
        self.replay_calls(tid);
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        let (TaskMode::Translated(context), Some(calls)) = (&task.mode, &mut task.calls) else { return };
        let place = context.cache.borrow().translation.place(registers.rip);
        let tree = &mut self.processes[task.process].call_tree;
        calls.begin(tree, registers.rsp, || places.borrow_mut().function(place));
    }

    /// A handler is about to begin in a thread.
    pub(super) fn begin_handler(&mut self, tid: u32, sp: u64) {
        let calls = self.tasks.get_mut(&tid).and_then(|task| task.calls.as_mut());
        calls.into_iter().for_each(|calls| calls.begin_handler(sp));
    }

    /// The log of a thread is full.
    pub(super) fn empty_log(&mut self, tid: u32) -> ActionResult {
        self.replay_calls(tid);
        Ok(TaskAction::Resume)
    }

    /// Replays the log of a thread.
    pub(super) fn replay_calls(&mut self, tid: u32) {
        let (Some(places), Some(task)) = (self.call_places.clone(), self.tasks.get_mut(&tid)) else { return };
        let (TaskMode::Translated(context) | TaskMode::Native(context)) = &task.mode else { return };
        let tree = &mut self.processes[task.process].call_tree;
        let places = &mut places.borrow_mut();
        task.calls
            .iter_mut()
            .for_each(|calls| calls.replay(&context.cache.borrow(), context.slot, (tree, places)));
    }

    /// A thread gives its context up, in which it is outside of every block.
    pub(super) fn close_calls(&mut self, tid: u32) {
        if self.call_places.is_none() {
            return;
        }
        self.replay_calls(tid);
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        let (TaskMode::Translated(context) | TaskMode::Native(context)) = &task.mode else { return };
        // Where the counts are unknown, those of the process are lost.
        if let (Some(calls), Ok(instructions)) = (&mut task.calls, context.instructions_outside()) {
            calls.close(&mut self.processes[task.process].call_tree, instructions);
        }
    }

    /// The calls that a child of a thread has not returned from.
    pub(super) fn forked_calls(&mut self, tid: u32) -> Option<Rc<ForkedCalls>> {
        self.call_places.as_ref()?;
        self.replay_calls(tid);
        let task = self.tasks.get(&tid)?;
        let mut tree = CallTree::default();
        let stack = task.calls.as_ref()?.forked(&self.processes[task.process].call_tree, &mut tree)?;
        Some(Rc::new(ForkedCalls { tree, stack }))
    }

    /// A new process has the calls of its parent.
    pub(super) fn inherit_calls(&mut self, child: u32, forked: &ForkedCalls) {
        let Some(task) = self.tasks.get_mut(&child) else { return };
        task.calls = Some(Box::new(ThreadCalls::new(Some(forked.stack.clone()))));
        self.processes[task.process].call_tree = forked.tree.clone();
    }

    /// The lines of the call paths of all processes with counts, if they are requested.
    pub(super) fn path_lines(&mut self, profile: &CodeProfile) -> String {
        let Some(places) = self.call_places.clone() else { return String::new() };
        let mut tree = std::mem::take(&mut self.ended_calls);
        let counted = self.processes.iter().filter(|process| process.lost.is_none());
        counted.for_each(|process| tree.merge(&process.call_tree));
        let paths = tree.paths(&places.borrow());
        let objects = self.objects.as_ref().map(|objects| objects.borrow());
        protocol::paths(&paths, profile, |number| objects.as_ref().and_then(|objects| objects.origin(number)))
    }
}
