//! Limits that programs set on their addresses (`RLIMIT_AS`), as a shell's `ulimit -v` does.
//!
//! A program means its own memory, and not the code cache. So the kernel gets a limit that is higher by the
//! size of a translation, and the program reads the limit that it has set. It keeps that view over `execve`,
//! and its children inherit it, as they inherit the limits.
//!
//! A limit from before the command cannot be raised. There a translation takes half of it at most, and a
//! program with less is detached.

use super::cache_addresses::MOST_ADDRESSES;
use super::memory_limit::MemoryLimit;
use super::remote_syscalls::number;

/// The limits on the addresses of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AddressLimits {
    /// The limit that the kernel enforces.
    pub(super) soft: MemoryLimit,
    /// The limit up to which the process may raise the soft one.
    pub(super) hard: MemoryLimit,
}

impl AddressLimits {
    /// The limits of numbers of the kernel: the soft limit and the hard one.
    pub(super) fn from_kernel([soft, hard]: [u64; 2]) -> AddressLimits {
        AddressLimits { soft: MemoryLimit::from_kernel(soft), hard: MemoryLimit::from_kernel(hard) }
    }

    /// The limits as numbers of the kernel: the soft limit and the hard one.
    pub(super) fn to_kernel(self) -> [u64; 2] {
        [self.soft.to_kernel(), self.hard.to_kernel()]
    }
}

/// A system call that reads or sets the limits on addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LimitCall {
    /// The process that the call names; `None` for the caller.
    pub(super) of: Option<u32>,
    /// The address of the new limits.
    pub(super) new: Option<u64>,
    /// The address for the old limits.
    pub(super) old: Option<u64>,
}

/// The limit on addresses.
///
/// # Source
///
/// Linux `include/uapi/asm-generic/resource.h`.
pub(super) const RLIMIT_AS: u32 = 9;

/// The call as a question about limits on addresses, if it is one.
///
/// # Source
///
/// `getrlimit(2)`.
pub(super) fn limit_call(number: u64, arguments: [u64; 4]) -> Option<LimitCall> {
    let [first, second, third, fourth] = arguments;
    let some = |address: u64| (address != 0).then_some(address);
    let (of, resource, new, old) = match number {
        number::SETRLIMIT => (None, first, Some(second), None),
        number::GETRLIMIT => (None, first, None, Some(second)),
        number::PRLIMIT64 => (Some(first as u32).filter(|id| *id != 0), second, some(third), some(fourth)),
        _ => return None,
    };
    (resource as u32 == RLIMIT_AS).then_some(LimitCall { of, new, old })
}

/// Limits that a process believes in, and those that the kernel has for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReportedLimits {
    pub(super) reported: AddressLimits,
    pub(super) real: AddressLimits,
}

/// The limits to give to the kernel for those that a program asks for. `real` are its limits in the kernel,
/// `remembered` those that it was told.
pub(super) fn widened(call: AddressLimits, real: AddressLimits, remembered: AddressLimits) -> AddressLimits {
    let soft = call.soft.raised_by(MOST_ADDRESSES);
    let hard = call.hard.raised_by(MOST_ADDRESSES);
    if call.soft > call.hard {
        // The kernel refuses that.
        call
    } else if call.hard <= remembered.hard {
        // A program that keeps or lowers its hard limit may do so.
        AddressLimits { soft: soft.min(real.hard), hard: hard.min(real.hard) }
    } else {
        // Raising it may be refused.
        AddressLimits { soft, hard }
    }
}

/// The limits on addresses in a list of all limits.
///
/// # Source
///
/// `proc(5)`, `/proc/pid/limits`.
pub(super) fn listed(text: &str) -> Option<AddressLimits> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let mut limits = line.split_ascii_whitespace().map(MemoryLimit::from_word);
    Some(AddressLimits { soft: limits.next()??, hard: limits.next()?? })
}

#[cfg(test)]
mod tests {
    use cyclometer_sys::process::address_limits;

    use super::*;

    /// The kernel's number for no limit.
    const UNLIMITED: u64 = u64::MAX;
    const FREE: [u64; 2] = [UNLIMITED; 2];

    fn widened(call: [u64; 2], real: [u64; 2], remembered: [u64; 2]) -> [u64; 2] {
        let [call, real, remembered] = [call, real, remembered].map(AddressLimits::from_kernel);
        super::widened(call, real, remembered).to_kernel()
    }

    fn listed(text: &str) -> Option<[u64; 2]> {
        super::listed(text).map(AddressLimits::to_kernel)
    }

    #[test]
    fn limits_are_higher_by_a_translation_for_the_kernel() {
        let wide = |limit: u64| limit + MOST_ADDRESSES;
        assert_eq!(widened([100, 200], FREE, FREE), [wide(100), wide(200)]);
        assert_eq!(widened([100, UNLIMITED], FREE, FREE), [wide(100), UNLIMITED]);
        assert_eq!(widened(FREE, FREE, FREE), FREE);
        // Lower than before, and back to the hard one.
        let (real, remembered) = ([wide(100), wide(200)], [100, 200]);
        assert_eq!(widened([50, 150], real, remembered), [wide(50), wide(150)]);
        assert_eq!(widened([200, 200], real, remembered), [wide(200), wide(200)]);
    }

    #[test]
    fn a_hard_limit_that_was_there_before_is_not_raised() {
        let real = [1000, 1000];
        assert_eq!(widened([500, 1000], real, real), [1000, 1000]);
        assert_eq!(widened([500, 600], real, real), [1000, 1000]);
        assert_eq!(widened([500, 1001], real, real)[1], 1001 + MOST_ADDRESSES, "which is refused");
    }

    #[test]
    fn a_soft_limit_above_the_hard_one_stays_so() {
        for call in [[300, 200], [UNLIMITED, 200], [UNLIMITED, UNLIMITED - 1]] {
            assert_eq!(widened(call, FREE, FREE), call);
        }
    }

    #[test]
    fn limits_are_read_from_the_list_of_all() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
            Max open files            1024                 4096                 files     \n\
            Max address space         4000000000           unlimited            bytes     \n";
        assert_eq!(listed(text), Some([4_000_000_000, UNLIMITED]));
        assert_eq!(listed(""), None);
        let own = super::super::proc::text("/proc/self/limits").unwrap();
        assert_eq!(listed(&own), address_limits(std::process::id()).ok());
    }

    #[test]
    fn calls_about_other_limits_are_none_of_these() {
        let call = |number, first, second| limit_call(number, [first, second, 3, 4]);
        assert_eq!(call(number::SETRLIMIT, 9, 7), Some(LimitCall { of: None, new: Some(7), old: None }));
        assert_eq!(call(number::GETRLIMIT, 9, 7), Some(LimitCall { of: None, new: None, old: Some(7) }));
        assert_eq!(
            call(number::PRLIMIT64, 5, 9),
            Some(LimitCall { of: Some(5), new: Some(3), old: Some(4) })
        );
        assert_eq!(call(number::PRLIMIT64, 0, 9).map(|call| call.of), Some(None), "the caller");
        assert_eq!(call(number::PRLIMIT64, 5, 7), None);
        assert_eq!(call(number::GETRLIMIT, 3, 7), None);
        assert_eq!(call(number::PRCTL, 9, 7), None);
    }
}
