//! Handles the SIGILL of an access that the CPU refuses, and passes every other SIGILL on.
//!
//! No state is stored for an access. The thread's own registers show that the instruction is ours (x9 holds
//! [`mark`]), and the handler writes its answer to the thread's own registers (x10). Accesses of several
//! threads are therefore independent, and the handler needs no lock.

#[cfg(target_os = "linux")]
#[path = "context_linux.rs"]
mod context;
#[cfg(target_os = "macos")]
#[path = "context_macos.rs"]
mod context;

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use libc::{c_int, c_void, siginfo_t};

/// The static whose address x9 holds during an access.
static MARK: u8 = 0;

/// The value of x9 during an access: an address of this process without any other use.
pub(super) fn mark() -> u64 {
    (&raw const MARK).addr() as u64
}

/// Handler and flags of the disposition before ours, for the handler.
static FORMER_HANDLER: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
static FORMER_FLAGS: AtomicI32 = AtomicI32::new(0);

/// The state of the handler's installation.
static INSTALLED: Mutex<Installed> = Mutex::new(Installed { guards: 0, former: None, buried: false });

struct Installed {
    guards: usize,
    /// The disposition before ours.
    former: Option<libc::sigaction>,
    /// Whether another handler was installed over ours. It may call ours, so ours must stay installed.
    buried: bool,
}

/// Handles SIGILL of our accesses for its lifetime. The last guard restores the former disposition.
#[derive(Debug)]
pub(super) struct Guard(());

impl Guard {
    /// Installs the handler if necessary.
    ///
    /// # Errors
    ///
    /// The operating system's; `ResourceBusy` when another handler was installed over ours.
    pub(super) fn install() -> io::Result<Guard> {
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        if installed.guards == 0 {
            installed.begin()?;
        }
        installed.guards += 1;
        Ok(Guard(()))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        installed.guards -= 1;
        if installed.guards == 0 {
            installed.end();
        }
    }
}

/// Unblocks SIGILL in the calling thread for its lifetime. Where SIGILL is blocked, a refused access ends the
/// process, whatever handler is installed. Programs that handle signals in one thread often block all of them
/// in the others.
pub(super) struct Unblocked {
    before: libc::sigset_t,
}

impl std::fmt::Debug for Unblocked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the thread's signals from before")
    }
}

impl Unblocked {
    /// Unblocks SIGILL in the calling thread.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub(super) fn new() -> io::Result<Unblocked> {
        let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: makes an empty set of live memory of that size.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        // SAFETY: adds an existing signal to the set.
        unsafe { libc::sigaddset(set.as_mut_ptr(), libc::SIGILL) };
        let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: both point to sets; the first is read, the second written.
        let error = unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), before.as_mut_ptr()) };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        // SAFETY: the call succeeded and wrote the set.
        Ok(Unblocked { before: unsafe { before.assume_init() } })
    }
}

impl Drop for Unblocked {
    fn drop(&mut self) {
        // SAFETY: asks a valid set whether a signal is in it.
        let was_blocked = unsafe { libc::sigismember(&raw const self.before, libc::SIGILL) } == 1;
        if was_blocked {
            let mut set = self.before;
            // SAFETY: makes an empty set of live memory of that size: other signals may have changed since.
            unsafe { libc::sigemptyset(&raw mut set) };
            // SAFETY: adds an existing signal to the set.
            unsafe { libc::sigaddset(&raw mut set, libc::SIGILL) };
            // SAFETY: reads a valid set; a null old one is allowed.
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        }
    }
}

impl Installed {
    fn begin(&mut self) -> io::Result<()> {
        let former = disposition()?;
        if is_ours(&former) {
            return Ok(());
        }
        if self.buried {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        FORMER_HANDLER.store(former.sa_sigaction, Ordering::SeqCst);
        FORMER_FLAGS.store(former.sa_flags, Ordering::SeqCst);
        let mut ours = former;
        ours.sa_sigaction = handler();
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | former.sa_flags & libc::SA_NODEFER;
        set(&ours)?;
        self.former = Some(former);
        Ok(())
    }

    fn end(&mut self) {
        if !disposition().is_ok_and(|current| is_ours(&current)) {
            self.buried = true;
        } else if let Some(former) = self.former.take()
            && set(&former).is_err()
        {
            // It was in force before, so the system accepts it. If not, ours remains, and passes on other
            // signals.
            self.former = Some(former);
        }
    }
}

fn handler() -> usize {
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_illegal_instruction;
    handler as libc::sighandler_t
}

fn is_ours(action: &libc::sigaction) -> bool {
    action.sa_sigaction == handler()
}

fn disposition() -> io::Result<libc::sigaction> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action changes nothing; the old one is written to `action`.
    if unsafe { libc::sigaction(libc::SIGILL, std::ptr::null(), action.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded and wrote the struct.
    Ok(unsafe { action.assume_init() })
}

fn set(action: &libc::sigaction) -> io::Result<()> {
    // SAFETY: the action is one that was in force, or ours, whose handler has the signature that its flags
    // promise and does only what `signal-safety(7)` allows; a null old action is allowed.
    match unsafe { libc::sigaction(libc::SIGILL, action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether an instruction reads or writes a register of Apple's PMU: `MRS` or `MSR` of op0 3, CRn 15.
///
/// # Source
///
/// Arm ARM, C6.2, `MRS` and `MSR (register)`: bit 21 is the direction, op0 - 2 is bit 19, CRn bits 12 to 15.
const fn is_access(instruction: u32) -> bool {
    instruction & 0xffd8_f000 == 0xd518_f000
}

extern "C" fn on_illegal_instruction(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the system calls a handler with SA_SIGINFO with the context of the interrupted thread, valid
    // during the call.
    let mut thread = unsafe { context::Interrupted::new(context) };
    if thread.x(9) == mark() && is_access(instruction_at(thread.pc())) {
        thread.set_x(10, 1);
        thread.set_pc(thread.pc() + 4);
    } else {
        pass_on(signal, info, context);
    }
}

fn instruction_at(pc: u64) -> u32 {
    let place = std::ptr::with_exposed_provenance::<u32>(pc as usize);
    // SAFETY: x9 is ours, so that the thread is at or shortly behind one of our accesses, in memory that was
    // just executed and that systems map readable.
    unsafe { place.read_unaligned() }
}

/// Does what would have happened without our handler.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let former = FORMER_HANDLER.load(Ordering::SeqCst);
    if former == libc::SIG_DFL || former == libc::SIG_IGN {
        // SAFETY: a disposition that was in force. The instruction is tried again, and the system decides.
        unsafe { libc::signal(signal, former) };
        if former == libc::SIG_DFL {
            // SAFETY: async-signal-safe; for a signal that somebody sent, whose instruction is a good one.
            unsafe { libc::raise(signal) };
        }
    } else if FORMER_FLAGS.load(Ordering::SeqCst) & libc::SA_SIGINFO != 0 {
        // SAFETY: the flags in force with it say that it is a handler of three arguments.
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
            unsafe { std::mem::transmute(former) };
        handler(signal, info, context);
    } else {
        // SAFETY: without SA_SIGINFO it is a handler of one argument.
        let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(former) };
        handler(signal);
    }
}

/// Held by tests that change the process-wide disposition.
#[cfg(test)]
pub(super) static ALONE: Mutex<()> = Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apple::{PMCR0, access};
    use std::arch::asm;

    /// Number of calls of the handler that was installed before ours.
    static CALLED: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn skipping(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
        CALLED.fetch_add(1, Ordering::SeqCst);
        // SAFETY: as in the handler under test.
        let mut thread = unsafe { context::Interrupted::new(context) };
        thread.set_pc(thread.pc() + 4);
    }

    fn undefined() {
        // SAFETY: the handler of this test skips the instruction, or the process of the test ends by it.
        unsafe { asm!("udf #0", out("x9") _, options(nostack)) };
    }

    #[test]
    fn only_accesses_of_the_pmu_are_taken() {
        assert!(is_access(0xd539_f000)); // mrs x0, s3_1_c15_c0_0
        assert!(is_access(0xd51a_f125)); // msr s3_2_c15_c1_1, x5
        assert!(!is_access(0xd53b_d040)); // mrs x0, tpidr_el0
        assert!(!is_access(0xd503_3fdf)); // isb
        assert!(!is_access(0x0000_0000)); // udf #0
    }

    #[test]
    fn refused_accesses_are_skipped_and_other_illegal_instructions_passed_on() {
        let _alone = ALONE.lock().unwrap();
        let first = disposition().unwrap();
        let mut own = first;
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = skipping;
        own.sa_sigaction = handler as libc::sighandler_t;
        own.sa_flags = libc::SA_SIGINFO;
        set(&own).unwrap();
        {
            let _outer = Guard::install().unwrap();
            let inner = Guard::install().unwrap();
            // On an Apple core with open registers no access is refused, and the handler is not called.
            let read = access::read(PMCR0).unwrap();
            assert!(read.refused || read.value != 0);
            assert_eq!(CALLED.load(Ordering::SeqCst), 0);
            drop(inner);
            assert_eq!(access::read(PMCR0).unwrap().refused, read.refused);
            undefined();
            assert_eq!(CALLED.load(Ordering::SeqCst), 1);
        }
        assert_eq!(disposition().unwrap().sa_sigaction, own.sa_sigaction);
        set(&first).unwrap();
        a_process_without_a_handler_dies_of_other_illegal_instructions();
        many_threads_are_refused_at_once();
        a_thread_with_signals_blocked_survives();
        a_handler_over_ours_stays();
        set(&first).unwrap();
        INSTALLED.lock().unwrap().buried = false;
    }

    fn a_process_without_a_handler_dies_of_other_illegal_instructions() {
        let _guard = Guard::install().unwrap();
        // SAFETY: the child executes an instruction that ends it, and `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            undefined();
            // SAFETY: ends the child without anything of the test's being run.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: our own child; the status is written to a live integer.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGILL, "{status:#x}");
    }

    fn many_threads_are_refused_at_once() {
        let _guard = Guard::install().unwrap();
        let expected = access::read(PMCR0).unwrap().refused;
        let reads = move || (0..1000).all(|_| access::read(PMCR0).unwrap().refused == expected);
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(reads)).collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    }

    fn a_thread_with_signals_blocked_survives() {
        let _guard = Guard::install().unwrap();
        let is_blocked = || {
            let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
            // SAFETY: a null new set changes nothing; the old one is written.
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr()) };
            // SAFETY: asks the set that was written.
            unsafe { libc::sigismember(mask.as_ptr(), libc::SIGILL) == 1 }
        };
        let blocked = std::thread::spawn(move || {
            let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
            // SAFETY: fills a set of live memory of that size.
            unsafe { libc::sigfillset(all.as_mut_ptr()) };
            // SAFETY: reads that set; a null old one is allowed.
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut()) };
            let before = is_blocked();
            let unblocked = Unblocked::new().unwrap();
            let meanwhile = is_blocked();
            access::read(PMCR0).unwrap();
            drop(unblocked);
            (before, meanwhile, is_blocked())
        });
        assert_eq!(blocked.join().unwrap(), (true, false, true));
    }

    fn a_handler_over_ours_stays() {
        let guard = Guard::install().unwrap();
        let mut over = disposition().unwrap();
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = skipping;
        over.sa_sigaction = handler as libc::sighandler_t;
        set(&over).unwrap();
        drop(guard);
        assert_eq!(disposition().unwrap().sa_sigaction, over.sa_sigaction);
        assert_eq!(Guard::install().unwrap_err().kind(), io::ErrorKind::ResourceBusy);
    }
}
