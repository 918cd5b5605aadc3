//! The names of kernels.

use crate::Kernel;

impl Kernel {
    /// The word used in output and on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Kernel::Additions => "additions",
            Kernel::Jumps => "jumps",
            Kernel::NotTaken => "not_taken",
            Kernel::Random => "random",
            Kernel::Calls => "calls",
            Kernel::IndirectCalls => "indirect_calls",
            Kernel::IndirectJumps => "indirect_jumps",
            Kernel::Loads => "loads",
            Kernel::Stores => "stores",
            Kernel::Copies => "copies",
            Kernel::ChaseResident => "chase_resident",
            Kernel::ChaseCold => "chase_cold",
            Kernel::SystemCalls => "system_calls",
        }
    }

    /// The kernel of a word.
    pub fn from_word(word: &str) -> Option<Kernel> {
        Kernel::ALL.into_iter().find(|kernel| kernel.word() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_means_one_kernel() {
        for kernel in Kernel::ALL {
            assert_eq!(Kernel::from_word(kernel.word()), Some(kernel));
        }
        assert_eq!(Kernel::from_word("loops"), None);
    }
}
