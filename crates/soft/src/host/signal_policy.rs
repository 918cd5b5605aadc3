//! The cause of a signal in translated code, and its effect on the program.
//!
//! ```text
//! SIGTRAP at an exit stub          ──> a stop of the translator: handled, not delivered
//! SIGSEGV by a wrong prediction    ──> a return that must use the lookup table
//! a fault while memory is checked  ──> the tracer looks at the memory
//! all others                       ──> a signal of the program, with a disposition
//! ```

use super::proc::has_signal;
use crate::translate::StopReason;

/// The `si_code` of the trap that the kernel raises for `int3`.
///
/// # Source
///
/// Linux `include/uapi/asm-generic/siginfo.h`.
const SI_KERNEL: i32 = 0x80;

/// The `si_code` of a single step, which the program has requested by its trap flag.
const TRAP_TRACE: i32 = 2;

const SIGTRAP: i32 = 5;
const SIGBUS: i32 = 7;
const SIGSEGV: i32 = 11;

/// Facts about a signal that has stopped a task in translated code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SignalFacts {
    /// Its number.
    pub(super) signal: i32,
    /// The stop of the translator before the instruction pointer.
    pub(super) stop: Option<StopReason>,
    /// Whether it may be the fault of a return whose entry of the return-address table is wrong.
    pub(super) is_missed_return: bool,
    /// Whether the instruction is one of the translator that looks at the program's memory.
    pub(super) is_checking: bool,
}

/// The cause of a signal in translated code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SignalCause {
    /// The task has reached a stop of the translator.
    TranslatorStop(StopReason),
    /// A return must use the lookup table.
    MissedReturn,
    /// The program has set its trap flag.
    OwnStep,
    /// The translator cannot read memory of the program.
    FailedCheck,
    /// It is a signal of the program.
    OfProgram,
}

impl SignalFacts {
    /// The cause of the signal. `code` reads the `si_code`, which costs a system call, and is called only
    /// where it decides.
    ///
    /// # Errors
    ///
    /// Those of `code`.
    pub(super) fn cause<E>(&self, code: impl Fn() -> Result<i32, E>) -> Result<SignalCause, E> {
        match self.stop.filter(|_| self.signal == SIGTRAP) {
            Some(StopReason::SystemCall) if code()? != SI_KERNEL => {}
            Some(stop) => return Ok(SignalCause::TranslatorStop(stop)),
            None if self.is_missed_return => return Ok(SignalCause::MissedReturn),
            None => {}
        }
        Ok(match self.signal {
            SIGTRAP if code()? == TRAP_TRACE => SignalCause::OwnStep,
            SIGSEGV | SIGBUS if self.is_checking && code()? > 0 => SignalCause::FailedCheck,
            _ => SignalCause::OfProgram,
        })
    }
}

/// The effect of a signal on a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SignalDisposition {
    /// It has no effect: without a tracer it would not even wake the process up.
    Ignored,
    /// The process stops until it is continued.
    Stops,
    /// A handler is called.
    Handled,
    /// The process is killed.
    Kills,
}

/// The effect of a signal on a process, by the text of its status.
///
/// # Source
///
/// `signal(7)`; `proc(5)`, `/proc/pid/status`: `SigIgn`, `SigCgt`.
pub(super) fn disposition(status: &str, signal: i32) -> SignalDisposition {
    const IGNORED: [i32; 4] = [17, 18, 23, 28];
    const STOP: [i32; 4] = [19, 20, 21, 22];
    let has = |field: &str| has_signal(status, field, signal);
    if has("SigCgt:") {
        SignalDisposition::Handled
    } else if has("SigIgn:") || IGNORED.contains(&signal) {
        SignalDisposition::Ignored
    } else if STOP.contains(&signal) {
        SignalDisposition::Stops
    } else {
        SignalDisposition::Kills
    }
}

/// The program's action for SIGTRAP, by the bytes that it gives to the kernel; `None` for the default.
///
/// # Errors
///
/// The reason why the program cannot be followed with that action.
///
/// # Source
///
/// `rt_sigaction(2)`; Linux `arch/x86/include/uapi/asm/signal.h`, `struct sigaction`: the handler comes
/// first.
pub(super) fn trap_action(bytes: [u8; 32]) -> Result<Option<[u8; 32]>, &'static str> {
    const SIG_DFL: u64 = 0;
    const SIG_IGN: u64 = 1;
    match bytes.first_chunk().map_or(SIG_DFL, |word| u64::from_le_bytes(*word)) {
        SIG_DFL => Ok(None),
        // Every stop of the translator would reset that.
        SIG_IGN => Err("ignores SIGTRAP"),
        _ => Ok(Some(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGUSR1: i32 = 10;
    const SIGCHLD: i32 = 17;
    const SIGTSTP: i32 = 20;

    /// The text of a status with these ignored and caught signals.
    fn status_with(ignored: &[i32], caught: &[i32]) -> String {
        let mask = |signals: &[i32]| signals.iter().fold(0u64, |mask, signal| mask | 1 << (signal - 1));
        format!("Name:\tx\nSigIgn:\t{:016x}\nSigCgt:\t{:016x}\n", mask(ignored), mask(caught))
    }

    #[test]
    fn a_signal_is_handled_or_ignored_or_stops_or_kills_as_the_kernel_would_have_it() {
        let none = status_with(&[], &[]);
        assert_eq!(disposition(&none, SIGUSR1), SignalDisposition::Kills);
        assert_eq!(disposition(&none, SIGCHLD), SignalDisposition::Ignored, "by default");
        assert_eq!(disposition(&none, SIGTSTP), SignalDisposition::Stops);
        for signal in [SIGUSR1, SIGCHLD, SIGTSTP] {
            let (ignored, caught) = (status_with(&[signal], &[]), status_with(&[], &[signal]));
            assert_eq!(disposition(&ignored, signal), SignalDisposition::Ignored);
            assert_eq!(disposition(&caught, signal), SignalDisposition::Handled);
        }
    }

    #[test]
    fn a_status_that_cannot_be_read_has_no_signal() {
        assert!(!has_signal("", "SigCgt:", SIGTRAP) && !has_signal("SigCgt:\tnonsense", "SigCgt:", SIGTRAP));
        assert!(has_signal(&status_with(&[], &[SIGTRAP, 64]), "SigCgt:", 64));
    }

    /// The cause of a signal with this `si_code`.
    fn cause(facts: SignalFacts, code: i32) -> SignalCause {
        facts.cause(|| Ok::<i32, ()>(code)).unwrap()
    }

    fn facts(signal: i32) -> SignalFacts {
        SignalFacts { signal, stop: None, is_missed_return: false, is_checking: false }
    }

    #[test]
    fn a_translator_stop_is_no_signal_of_the_program() {
        for stop in [StopReason::DirectLink, StopReason::Budget, StopReason::Breakpoint] {
            let facts = SignalFacts { stop: Some(stop), ..facts(SIGTRAP) };
            let unread = facts.cause(|| -> Result<i32, ()> { panic!("its siginfo is not needed") });
            assert_eq!(unread, Ok(SignalCause::TranslatorStop(stop)));
        }
    }

    #[test]
    fn a_trap_at_a_system_call_is_a_translator_stop_only_if_the_kernel_raised_it() {
        let facts = SignalFacts { stop: Some(StopReason::SystemCall), ..facts(SIGTRAP) };
        assert_eq!(cause(facts, SI_KERNEL), SignalCause::TranslatorStop(StopReason::SystemCall));
        assert_eq!(cause(facts, 0), SignalCause::OfProgram, "another process sent it");
    }

    #[test]
    fn a_step_that_the_program_requested_is_told_from_a_trap_that_was_sent() {
        assert_eq!(cause(facts(SIGTRAP), TRAP_TRACE), SignalCause::OwnStep);
        assert_eq!(cause(facts(SIGTRAP), 0), SignalCause::OfProgram);
    }

    #[test]
    fn a_fault_of_the_translation_is_no_fault_of_the_program() {
        let missed = SignalFacts { is_missed_return: true, ..facts(SIGSEGV) };
        assert_eq!(cause(missed, 1), SignalCause::MissedReturn);
        for signal in [SIGSEGV, SIGBUS] {
            let checking = SignalFacts { is_checking: true, ..facts(signal) };
            assert_eq!(cause(checking, 1), SignalCause::FailedCheck);
            assert_eq!(cause(checking, 0), SignalCause::OfProgram, "another process sent it");
            assert_eq!(cause(facts(signal), 1), SignalCause::OfProgram);
        }
        let other = SignalFacts { is_checking: true, ..facts(SIGUSR1) };
        assert_eq!(cause(other, 1), SignalCause::OfProgram);
    }

    #[test]
    fn an_unreadable_siginfo_is_an_error_where_it_decides() {
        assert_eq!(facts(SIGTRAP).cause(|| Err("gone")), Err("gone"));
        assert_eq!(facts(SIGUSR1).cause(|| Err("gone")), Ok(SignalCause::OfProgram));
    }

    #[test]
    fn an_action_for_traps_is_kept_unless_it_is_the_default_and_refused_if_it_ignores_them() {
        let action = |handler: u64| {
            let mut bytes = [7; 32];
            bytes[..8].copy_from_slice(&handler.to_le_bytes());
            bytes
        };
        assert_eq!(trap_action(action(0x1234)), Ok(Some(action(0x1234))));
        assert_eq!(trap_action(action(0)), Ok(None));
        assert_eq!(trap_action(action(1)), Err("ignores SIGTRAP"));
    }
}
