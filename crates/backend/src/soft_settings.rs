//! How the software PMU runs commands.

/// What may be chosen of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SoftwareSettings {
    /// Leaves the layout of addresses and the kernel's 16 random bytes (`AT_RANDOM`) as they are drawn; else both are
    /// the same in every run, as far as that is permitted, so that counts repeat.
    pub random_layout: bool,
}
