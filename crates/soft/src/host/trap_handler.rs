//! The program's own action for SIGTRAP, which stops of the translator would reset.

use cyclometer_sys::trace;

use super::action::{ActionResult, TaskAction};
use super::proc::{has_signal, status};
use super::process::TracedTask;
use super::remote_syscalls::{RemoteSyscalls, number};
use super::signal_policy::trap_action;
use super::trace_error::TraceError;
use super::tracees::Tracees;

const SIGTRAP: i32 = 5;

impl Tracees {
    /// The program sets its action for SIGTRAP, which is at this address.
    pub(super) fn set_trap_handler(&mut self, tid: u32, action: u64) -> ActionResult {
        let mut bytes = [0; 32];
        if trace::read_memory(tid, action, &mut bytes).unwrap_or(0) == bytes.len() {
            let action = trap_action(bytes).map_err(|reason| TraceError::Detach(reason.to_owned()))?;
            self.update_threads(tid, |task| task.trap_action = action)?;
        }
        Ok(TaskAction::Resume)
    }
}

impl TracedTask {
    /// Restores the handler and the block. The kernel resets both when a trap comes while SIGTRAP is blocked,
    /// as in its own handler.
    ///
    /// # Source
    ///
    /// Linux `kernel/signal.c`, `force_sig_info_to_task`.
    pub(super) fn restore_trap_handler(&self, tid: u32) -> Result<(), TraceError> {
        let Some(action) = self.trap_action.filter(|_| !self.filtered) else { return Ok(()) };
        let Some(context) = self.context() else { return Ok(()) };
        if has_signal(&status(tid), "SigCgt:", SIGTRAP) {
            return Ok(());
        }
        let cache = context.cache.borrow();
        cache.write_scratch(context.slot, &action);
        let address = cache.scratch_address(context.slot);
        let remote = RemoteSyscalls::new(tid, cache.gadget());
        remote.call(number::RT_SIGACTION, [SIGTRAP as u64, address, 0, 8, 0, 0])?;
        let blocked = trace::signal_mask(tid)? | 1 << (SIGTRAP - 1);
        Ok(trace::set_signal_mask(tid, blocked)?)
    }
}
