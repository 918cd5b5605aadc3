//! The CPUs that a thread may run on.
//!
//! # Source
//!
//! `sched_setaffinity(2)`.

use std::io;

/// Words of a mask: room for 8192 CPUs, the most that Linux can be built for.
const WORDS: usize = 128;

/// A set of CPUs: CPU n is bit n % 64 of word n / 64.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Affinity {
    words: Box<[u64; WORDS]>,
}

impl Affinity {
    /// The CPUs that a thread may run on.
    ///
    /// # Errors
    ///
    /// The operating system's: `ESRCH`.
    pub fn of(tid: u32) -> io::Result<Affinity> {
        let mut words = Box::new([0u64; WORDS]);
        let pid = tid.cast_signed();
        // SAFETY: `words` is a live array of exactly the length passed, and any bits are a valid value of it.
        let copied = unsafe { libc::sched_getaffinity(pid, size_of_val(&*words), words.as_mut_ptr().cast()) };
        if copied < 0 { Err(io::Error::last_os_error()) } else { Ok(Affinity { words }) }
    }

    /// The set with one CPU; empty where the number is beyond the mask.
    pub fn only(cpu: u32) -> Affinity {
        let mut words = Box::new([0u64; WORDS]);
        if let Some(word) = words.get_mut(cpu as usize / 64) {
            *word = 1 << (cpu % 64);
        }
        Affinity { words }
    }

    /// The set with one more CPU.
    #[must_use]
    pub fn with(mut self, cpu: u32) -> Affinity {
        if let Some(word) = self.words.get_mut(cpu as usize / 64) {
            *word |= 1 << (cpu % 64);
        }
        self
    }

    /// Whether a CPU is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.words.get(cpu as usize / 64).is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }

    /// Number of CPUs in the set.
    pub fn len(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Restricts a thread to these CPUs.
    ///
    /// # Errors
    ///
    /// The operating system's: `ESRCH`, `EPERM`, `EINVAL` where none of them may be used.
    pub fn give(&self, tid: u32) -> io::Result<()> {
        let pid = tid.cast_signed();
        // SAFETY: `words` is a live array of exactly the length passed; the kernel only reads it.
        let done =
            unsafe { libc::sched_setaffinity(pid, size_of_val(&*self.words), self.words.as_ptr().cast()) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_bound_and_let_free_again() {
        std::thread::spawn(|| {
            let before = Affinity::of(0).unwrap();
            assert!(!before.is_empty());
            let cpu = (0..8192).find(|cpu| before.words[cpu / 64] >> (cpu % 64) & 1 == 1).unwrap();
            Affinity::only(cpu as u32).give(0).unwrap();
            assert_eq!(Affinity::of(0).unwrap(), Affinity::only(cpu as u32));
            before.give(0).unwrap();
            assert_eq!(Affinity::of(0).unwrap(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn no_cpu_at_all_is_refused() {
        let none = Affinity::only(u32::MAX);
        assert!(none.is_empty());
        assert_eq!(none.give(0).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }
}
