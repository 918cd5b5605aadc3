//! A limit on bytes of memory, as a kernel has it for a process.

/// A limit on bytes. Limits are in order: no number is above [`MemoryLimit::Unlimited`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum MemoryLimit {
    /// The most bytes.
    Bytes(u64),
    /// There is no limit.
    Unlimited,
}

/// # Source
///
/// Linux `include/uapi/linux/resource.h`, `RLIM64_INFINITY`.
const KERNEL_UNLIMITED: u64 = u64::MAX;

impl MemoryLimit {
    /// The limit of a number of the kernel.
    pub(super) fn from_kernel(number: u64) -> MemoryLimit {
        match number {
            KERNEL_UNLIMITED => MemoryLimit::Unlimited,
            bytes => MemoryLimit::Bytes(bytes),
        }
    }

    /// The limit as a number of the kernel.
    pub(super) fn to_kernel(self) -> u64 {
        match self {
            MemoryLimit::Bytes(bytes) => bytes,
            MemoryLimit::Unlimited => KERNEL_UNLIMITED,
        }
    }

    /// The limit of a word in the kernel's list of limits.
    ///
    /// # Source
    ///
    /// `proc(5)`, `/proc/pid/limits`.
    pub(super) fn from_word(word: &str) -> Option<MemoryLimit> {
        match word {
            "unlimited" => Some(MemoryLimit::Unlimited),
            number => number.parse().ok().map(MemoryLimit::Bytes),
        }
    }

    /// The limit raised by bytes.
    pub(super) fn raised_by(self, bytes: u64) -> MemoryLimit {
        MemoryLimit::from_kernel(self.to_kernel().saturating_add(bytes))
    }

    /// Whether so many bytes are within the limit.
    pub(super) fn permits(self, bytes: u64) -> bool {
        MemoryLimit::Bytes(bytes) <= self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_is_above_unlimited() {
        assert!(MemoryLimit::Bytes(u64::MAX) < MemoryLimit::Unlimited);
        assert!(MemoryLimit::Unlimited.permits(u64::MAX));
        assert!(MemoryLimit::Bytes(7).permits(7) && !MemoryLimit::Bytes(7).permits(8));
    }

    #[test]
    fn numbers_and_words_of_the_kernel_are_decoded() {
        for (number, word, limit) in
            [(7, "7", MemoryLimit::Bytes(7)), (u64::MAX, "unlimited", MemoryLimit::Unlimited)]
        {
            assert_eq!((MemoryLimit::from_kernel(number), limit.to_kernel()), (limit, number));
            assert_eq!(MemoryLimit::from_word(word), Some(limit));
        }
        assert_eq!(MemoryLimit::from_word("many"), None);
    }

    #[test]
    fn a_limit_that_is_raised_beyond_all_numbers_is_none() {
        assert_eq!(MemoryLimit::Bytes(5).raised_by(2), MemoryLimit::Bytes(7));
        assert_eq!(MemoryLimit::Bytes(u64::MAX - 1).raised_by(2), MemoryLimit::Unlimited);
        assert_eq!(MemoryLimit::Unlimited.raised_by(2), MemoryLimit::Unlimited);
    }
}
