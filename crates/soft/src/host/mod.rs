//! The host of translated programs on Linux: a tracer process that runs a command and its descendants in
//! translated code.
//!
//! # Problem
//!
//! The tracees execute translated code at full speed, and stop (ptrace) where the tracer must act. At each
//! stop the tracer must know the program's own state, although the processor executes other code. A program
//! that the tracer cannot follow must continue natively, and its counts are lost with a reason.
//!
//! # Terms
//!
//! - *Tracee*, *task*: a thread that is traced. A *process* is one or more tasks with one memory.
//! - *Code cache*: memory with translated code, mapped in the tracer and in the tracees (`code_cache`).
//! - *Slot*: memory of one task with its counters and saved registers.
//! - *Native state*: the program's own registers and instruction pointer, as if it had never been translated.
//! - *Detach*: the process continues in its own code, untraced.
//!
//! ```text
//! a stop ──> tracer::* (handler) ──> action ──> tracer (loop): resume, flush, detach
//!                │
//!                v asks
//! rooms, which know nothing of the tracer
//!   ptrace access    proc, remote_syscalls, restore_guard, trace_error, restarted_calls
//!   tracees          tracees, process, task_state, native_state, translation_context, slot_assignment
//!   life of a task   fork_event, first_stop, unseen_end, detach_progress, traced_by_others, cpu_binding
//!   signals          signal_policy, trap_handler, delayed_signals, signal_throttling
//!   system calls     syscalls, mapping_policy, mapping_calls, limit_calls, listing_calls, file_writes
//!   code             restartable, restartable_checks, program_file, writers, code_changes, flush_readiness
//!   code cache       code_cache, code_reader, code_admission, shared_code, claims, maps, mapping_permission
//!   counts           ledger, readout, process_counts, own_counts, equivalent_blocks, protocol, window_*
//!   call paths       call_path_recording, thread_calls
//!   models           stepped_windows, modelled_accesses, thread_states, thread_times
//!   persistence      translation_store, profile_store, translation_cache, cache_folder, process_rights
//!   retranslation    retranslation, retranslation_rounds, heat_map
//! ```
//!
//! The handlers are in `tracer`, one file each: `exits`, `forks`, `threads`, `signals`, `syscall_handlers`,
//! `translating`, `cache_flush`, `readings` and `probe`. A decision is a function of values in a room, with
//! tests of its own; a handler gathers the values, and applies the decision.
//!
//! # Invariants
//!
//! - The tracer never blocks on one tracee: every wait is for the next event of any of them.
//! - Counters of a slot are written by one task only, and read while it does not run.
//! - Each task is detached together with all threads of its process.
//! - Modules import in one direction: the loop and its handlers import the rooms, never the reverse.

mod action;
mod address_limits;
mod branched_functions;
mod cache_addresses;
mod cache_folder;
mod cache_record;
mod call_path_recording;
mod claims;
mod code_admission;
mod code_cache;
mod code_changes;
mod code_objects;
mod code_reader;
mod cpu_affinity;
mod cpu_binding;
mod cpu_queries;
mod delayed_signals;
mod detach_progress;
mod equivalent_blocks;
mod escaped_path;
mod file_writes;
mod first_stop;
mod flush_readiness;
mod fork_event;
mod function_starts;
mod heat_map;
mod instruction_counts;
mod ledger;
mod limit_calls;
mod listing_calls;
mod mapping_calls;
mod mapping_changes;
mod mapping_permission;
mod mapping_policy;
mod maps;
mod maps_listing;
mod memory_limit;
mod modelled_accesses;
mod modelled_blocks;
mod native_state;
mod own_counts;
mod proc;
mod process;
mod process_counts;
mod process_rights;
mod profile_owners;
mod profile_store;
mod program_file;
pub mod protocol;
mod readout;
mod remote_syscalls;
mod restartable;
mod restartable_checks;
mod restarted_calls;
mod restore_guard;
mod retranslation;
mod retranslation_rounds;
mod shared_code;
mod shared_translations;
mod signal_policy;
mod signal_throttling;
mod slot_assignment;
pub mod stepped_windows;
mod syscalls;
mod task_rounds;
mod task_state;
mod thread_calls;
pub mod thread_states;
pub mod thread_times;
mod trace_error;
mod traced_by_others;
mod tracees;
mod tracer;
mod translated_pc;
mod translation_cache;
mod translation_context;
mod translation_store;
mod trap_handler;
mod trusted_path;
mod unseen_end;
mod window_boundaries;
mod window_counts;
pub mod window_protocol;
mod window_rows;
mod writers;

use std::num::NonZeroU64;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::addend::AddendKinds;
use crate::code_profile::ProfileOwner;
use crate::model::misses::ModelSizes;
use crate::translate;
use crate::{EventSet, ExecutionEvent, ProcessorBaseline};

pub use cache_folder::file_sum;
pub use escaped_path::{escaped_path, unescaped_path};
pub use program_file::refuses;
pub use retranslation::RetranslationPolicy;
pub use tracer::FIXED_BYTES;
#[doc(hidden)]
pub use tracer::probe::{InstructionProbe, ProbeOrder, ProbeView};
#[doc(hidden)]
pub use translation_cache::fuzzing as stored_translations;

/// Settings of the tracer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TracerSettings {
    /// Settings of the translation.
    pub translation: translate::TranslationSettings,
    /// The processor that programs see; `None`: the real one.
    /// [`translate::TranslationSettings::stop_at_cpu_queries`] must be set with it.
    pub baseline: Option<ProcessorBaseline>,
    /// Whether programs get the same 16 bytes each time instead of random ones.
    pub fixed_layout: bool,
    /// Whether each program gets a translation of its own: for comparison.
    pub separate: bool,
    /// The programs that are retranslated with their own execution profile.
    pub retranslation: RetranslationPolicy,
    /// The events that are reported before the end.
    pub events: EventSet,
    /// Whether the last report says how often each instruction was executed.
    pub profiled: bool,
    /// The owners whose executions the last report keeps apart; `None`: all are added up.
    pub owners: Option<ProfileOwner>,
    /// Whether the last report has the call paths too: [`TracerSettings::with_call_paths`].
    pub has_call_paths: bool,
    /// The caches and TLBs that are modelled: [`TracerSettings::with_caches`].
    pub caches: Option<ModelSizes>,
}

impl TracerSettings {
    /// Sets a processor that is the same on every machine.
    pub fn with_baseline(self, baseline: Option<ProcessorBaseline>) -> TracerSettings {
        let translation =
            translate::TranslationSettings { stop_at_cpu_queries: baseline.is_some(), ..self.translation };
        TracerSettings { baseline, translation, ..self }
    }

    /// Reports the call paths, or not. Then each program has a budget, which counts its instructions.
    #[must_use]
    pub fn with_call_paths(self, has_call_paths: bool) -> TracerSettings {
        let budget = NonZeroU64::new(thread_calls::FULL_BUDGET).filter(|_| has_call_paths);
        let translation =
            translate::TranslationSettings { budget, logs_calls: has_call_paths, ..self.translation };
        TracerSettings { translation, has_call_paths, ..self }
    }

    /// Gives each instruction to a model of caches of instructions, of data and the last level, or of TLBs
    /// too, whose counts the last report has. Then there are no call paths.
    #[must_use]
    pub fn with_caches(self, caches: impl Into<ModelSizes>) -> TracerSettings {
        let settings = self.with_call_paths(false).counting([]);
        let translation = translate::TranslationSettings { logs_accesses: true, ..settings.translation };
        TracerSettings { translation, caches: Some(caches.into()), ..settings }
    }

    /// Chooses the instructions that this machine's processor executes fastest, unless a setting names them.
    fn for_this_processor(self) -> TracerSettings {
        let [_, ebx, ecx, edx] = cyclometer_sys::cpuid::cpuid(0, 0);
        let fastest = translate::RcxTest::of_processor([ebx, edx, ecx]);
        let rcx_test = self.translation.rcx_test.or(Some(fastest));
        let translation = translate::TranslationSettings { rcx_test, ..self.translation };
        TracerSettings { translation, ..self }
    }

    /// Counts no units but those that these events need, and reports no other events during the run.
    #[must_use]
    pub fn counting(self, events: impl IntoIterator<Item = ExecutionEvent>) -> TracerSettings {
        let events: EventSet = events.into_iter().collect();
        let counted = AddendKinds::needed_for(events.iter()).among(AddendKinds::OF_UNITS);
        let translation = translate::TranslationSettings { counted, ..self.translation };
        TracerSettings { translation, events, ..self }
    }
}

/// Traces a process that has not executed its command yet, and its descendants; [`protocol`] describes the
/// text on the socket. The caller must be a process of its own: this waits for all of its children.
///
/// `profile` is a folder for execution profiles, which the next run reads ([`crate::profile`]). Stored
/// translations are beside it, in the folder `translations`.
pub fn follow(pid: u32, socket: UnixStream, settings: TracerSettings, profile: Option<&Path>) {
    tracer::follow(pid, socket, settings, profile, None);
}

/// Traces with a probe that looks at every translated instruction: for tests, and slow.
#[doc(hidden)]
pub fn follow_probed(
    pid: u32,
    socket: UnixStream,
    settings: TracerSettings,
    probe: Box<dyn InstructionProbe>,
) {
    tracer::follow(pid, socket, settings, None, Some(probe));
}
