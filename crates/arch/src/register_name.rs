//! Names of registers.

use std::fmt;

/// A register's name: what stands before and behind its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterName {
    /// Before the number.
    pub stem: &'static str,
    /// The number, of one of several alike.
    pub index: Option<u8>,
    /// Behind the number.
    pub tail: &'static str,
}

impl RegisterName {
    /// The name of a register that is there once.
    pub const fn one(stem: &'static str) -> RegisterName {
        RegisterName { stem, index: None, tail: "" }
    }

    /// The name of one of several.
    pub const fn numbered(stem: &'static str, index: u8) -> RegisterName {
        RegisterName { stem, index: Some(index), tail: "" }
    }

    /// The same with something behind the number.
    pub const fn with_tail(self, tail: &'static str) -> RegisterName {
        RegisterName { tail, ..self }
    }

    pub(crate) fn with_stem(self, stem: &'static str) -> RegisterName {
        RegisterName { stem, ..self }
    }
}

impl fmt::Display for RegisterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            Some(index) => write!(f, "{}{index}{}", self.stem, self.tail),
            None => write!(f, "{}{}", self.stem, self.tail),
        }
    }
}
