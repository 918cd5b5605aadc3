//! The operations that a register allows.

/// The operations that a register allows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// It is read, never written.
    Read,
    /// It is read, and these bits of it are written; the others belong to somebody else.
    Write {
        /// The bits.
        bits: u64,
    },
}

impl Access {
    /// Reading, and writing of every bit.
    pub const ALL: Access = Access::Write { bits: u64::MAX };

    /// The bits that may be written.
    pub const fn writable(self) -> u64 {
        match self {
            Access::Read => 0,
            Access::Write { bits } => bits,
        }
    }
}
