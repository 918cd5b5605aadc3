//! The registers of Apple's PMU, used from user mode by `MRS` and `MSR`.
//!
//! A kernel opens them by a bit of PMCR0, for each CPU separately, and may close them again at any time. An
//! access therefore needs an [`AppleRegisters`], which exists on Apple's cores only. An access that the CPU
//! refuses returns [`Denied::Closed`]; it does not end the process.
//!
//! # Source
//!
//! AsahiLinux/docs, `docs/hw/cpu/system-registers.md`: encodings, and bit 30 of PMCR0.

mod access;
mod guard;
#[cfg(target_os = "linux")]
#[path = "place_linux.rs"]
mod place;
#[cfg(target_os = "macos")]
#[path = "place_macos.rs"]
mod place;

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use guard::{Guard, Unblocked};
use place::AppleThread;

/// A system register: op0, op1, CRn, CRm, op2.
pub type Encoding = [u8; 5];

/// PMCR0, whose bit 30 opens the registers to user mode.
pub const PMCR0: Encoding = [3, 1, 15, 0, 0];

/// The registers that can be accessed: PMCR0 to PMCR4, PMESR0, PMESR1, PMSR, PMC0 to PMC9.
pub const REGISTERS: &[Encoding] = access::REGISTERS;

/// Proof that the registers of Apple's PMU can be used from this thread. The CPU is one of Apple's, SIGILL of
/// an access is caught, and a first access succeeded.
///
/// On Linux the thread is bound to the CPU for the lifetime of this value, unless other code binds it to
/// another one. macOS has no such binding: an access is executed by the CPU that the thread is on, and
/// [`AppleRegisters::cpu_now`] shows moves.
#[derive(Debug)]
pub struct AppleRegisters {
    place: AppleThread,
    _unblocked: Unblocked,
    _guard: Guard,
    /// Not `Send`, because it belongs to the thread that is bound.
    _thread: PhantomData<*const ()>,
}

impl AppleRegisters {
    /// Tries the registers on a CPU, or with `None` on the CPU where the thread is: one read of PMCR0. On
    /// cores that are not Apple's, no access is executed.
    ///
    /// # Errors
    ///
    /// The reason why access is impossible. On macOS a CPU by number is [`NoAccess::Unbindable`].
    pub fn probe(cpu: Option<u32>) -> Result<AppleRegisters, NoAccess> {
        let place = AppleThread::take(cpu)?;
        let guard = Guard::install().map_err(NoAccess::Handler)?;
        let unblocked = Unblocked::new().map_err(NoAccess::Handler)?;
        let registers = AppleRegisters { place, _unblocked: unblocked, _guard: guard, _thread: PhantomData };
        match registers.read(PMCR0) {
            Ok(_) => Ok(registers),
            Err(_) => Err(NoAccess::Closed),
        }
    }

    /// The CPU that the thread is bound to; `None` where the system has no binding.
    pub fn bound_to(&self) -> Option<u32> {
        self.place.bound_to()
    }

    /// The CPU that the thread is on. Unless it is bound, it may be on another one at the next moment.
    pub fn cpu_now(&self) -> u32 {
        place::cpu_now()
    }

    /// Number of times that the CPU was taken from the thread, or given up by it. macOS does not count this
    /// for a thread; there it is the number for all threads of the process. `None` when the system does not
    /// report it.
    ///
    /// # Source
    ///
    /// `getrusage(2)`: `ru_nvcsw`, `ru_nivcsw`.
    pub fn switches(&self) -> Option<u64> {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: writes a `rusage` to live memory of that size.
        if unsafe { libc::getrusage(place::WHOSE_USAGE, usage.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: the call succeeded and wrote the struct.
        let usage = unsafe { usage.assume_init() };
        u64::try_from(usage.ru_nvcsw.checked_add(usage.ru_nivcsw)?).ok()
    }

    /// Reads a register of the CPU that the thread is on. Earlier instructions may be executed later; see
    /// [`AppleRegisters::barrier`].
    ///
    /// # Errors
    ///
    /// A register that is not among [`REGISTERS`]; an access that the CPU refuses.
    pub fn read(&self, register: Encoding) -> Result<u64, Denied> {
        let answer = access::read(register).ok_or(Denied::NotListed)?;
        if answer.refused { Err(Denied::Closed) } else { Ok(answer.value) }
    }

    /// Writes a whole register of the CPU that the thread is on. The value takes effect at the next
    /// [`AppleRegisters::barrier`].
    ///
    /// # Errors
    ///
    /// As [`AppleRegisters::read`].
    pub fn write(&self, register: Encoding, value: u64) -> Result<(), Denied> {
        let answer = access::write(register, value).ok_or(Denied::NotListed)?;
        if answer.refused { Err(Denied::Closed) } else { Ok(()) }
    }

    /// Waits for earlier instructions, and lets values written to registers take effect.
    pub fn barrier(&self) {
        access::barrier();
    }
}

/// Restricts a process with one thread, and its future children, to one CPU.
///
/// # Errors
///
/// The operating system's; `Unsupported` on macOS, which has no binding to CPUs.
pub fn bind(process: u32, cpu: u32) -> io::Result<()> {
    place::bind(process, cpu)
}

/// The reason why the registers cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum NoAccess {
    /// The CPU is not one of Apple's, or its vendor is unknown.
    NotApple {
        /// The system's description of the CPU.
        found: String,
    },
    /// The thread cannot be bound to the CPU.
    Unbindable {
        /// The CPU.
        cpu: u32,
        /// The reason.
        error: io::Error,
    },
    /// SIGILL cannot be caught.
    Handler(io::Error),
    /// User mode may not use the registers: the CPU refused to read PMCR0.
    Closed,
}

impl fmt::Display for NoAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoAccess::NotApple { found } => write!(f, "the CPU is none of Apple's ({found})"),
            NoAccess::Unbindable { cpu, error } => write!(f, "cannot bind the thread to CPU {cpu}: {error}"),
            NoAccess::Handler(error) => write!(f, "cannot catch SIGILL: {error}"),
            NoAccess::Closed => f.write_str("the kernel has not opened the PMU's registers to user mode"),
        }
    }
}

impl std::error::Error for NoAccess {}

/// The reason why one register could not be accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Denied {
    /// It is not among [`REGISTERS`]; no instruction was executed.
    NotListed,
    /// The CPU refused: user mode may not use the registers, or may not use them any more.
    Closed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_complete_and_skips_c8() {
        assert_eq!(REGISTERS.len(), 5 + 2 + 1 + 10);
        assert!(REGISTERS.contains(&PMCR0));
        let counters: Vec<u8> = REGISTERS.iter().filter(|code| code[1] == 2).map(|code| code[3]).collect();
        assert_eq!(counters, [0, 1, 2, 3, 4, 5, 6, 7, 9, 10]);
    }

    // Tests run on CI machines or emulators: the core is not Apple's, or its registers are closed.
    #[test]
    fn a_probe_tells_why_there_is_no_access_and_the_process_lives_on() {
        let _alone = guard::ALONE.lock().unwrap();
        match AppleRegisters::probe(None) {
            Ok(registers) => assert!(registers.read(PMCR0).is_ok()),
            Err(error) => assert!(
                matches!(error, NoAccess::NotApple { .. } | NoAccess::Closed),
                "{error}: neither another CPU nor a closed one"
            ),
        }
    }

    #[test]
    fn a_register_outside_the_list_is_not_tried() {
        assert!(access::read([3, 1, 15, 7, 0]).is_none());
        assert!(access::write([3, 2, 15, 8, 0], 0).is_none());
    }
}
