//! What is mapped where in the program.

use std::fs;
use std::io;

/// A mapping of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) executable: bool,
    pub(crate) writable: bool,
    pub(crate) shared: bool,
}

/// The mappings of a process, ascending.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Maps(Vec<Mapping>);

/// Why code is not taken from somewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoCode {
    /// Nothing there, or nothing executable: the program faults there by itself.
    NotExecutable,
    /// It may change without a system call: the program can write it.
    Writable,
    /// It may change without a system call: somebody else can write it.
    Shared,
}

impl NoCode {
    /// The reason, in words that follow "the program".
    pub(crate) fn word(self) -> &'static str {
        match self {
            NoCode::NotExecutable => "went to where no code is",
            NoCode::Writable => "executes memory that it can write",
            NoCode::Shared => "executes memory that it shares",
        }
    }
}

impl Maps {
    /// Reads them.
    ///
    /// # Errors
    ///
    /// The operating system's.
    ///
    /// # Source
    ///
    /// `proc(5)`, `/proc/pid/maps`.
    pub(crate) fn read(pid: u32) -> io::Result<Maps> {
        let text = fs::read(format!("/proc/{pid}/maps"))?;
        Ok(Maps::parse(&String::from_utf8_lossy(&text)))
    }

    fn parse(text: &str) -> Maps {
        Maps(text.lines().filter_map(Mapping::parse).collect())
    }

    /// Whether code can be taken from a page.
    ///
    /// # Errors
    ///
    /// Why not.
    pub(crate) fn code_at(&self, page: u64) -> Result<(), NoCode> {
        let found = self.0.iter().find(|mapping| (mapping.start..mapping.end).contains(&page));
        match found {
            Some(mapping) if mapping.executable && mapping.writable => Err(NoCode::Writable),
            Some(mapping) if mapping.executable && mapping.shared => Err(NoCode::Shared),
            Some(mapping) if mapping.executable => Ok(()),
            _ => Err(NoCode::NotExecutable),
        }
    }

    /// Where anything can be executed.
    pub(crate) fn code(&self) -> impl Iterator<Item = (u64, u64)> {
        let code = self.0.iter().filter(|mapping| mapping.executable);
        code.map(|mapping| (mapping.start, mapping.end))
    }

    /// Whether anything in a range can be executed.
    pub(crate) fn executes(&self, start: u64, end: u64) -> bool {
        self.0.iter().any(|mapping| mapping.executable && mapping.start < end && mapping.end > start)
    }

    /// Whether nothing is mapped in a range.
    pub(crate) fn is_free(&self, start: u64, len: u64) -> bool {
        self.0.iter().all(|mapping| mapping.start >= start + len || mapping.end <= start)
    }
}

impl Mapping {
    fn parse(line: &str) -> Option<Mapping> {
        let mut fields = line.split(' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let access = fields.next()?.as_bytes();
        let hex = |text| u64::from_str_radix(text, 16).ok();
        Some(Mapping {
            start: hex(start)?,
            end: hex(end)?,
            writable: access.get(1) == Some(&b'w'),
            executable: access.get(2) == Some(&b'x'),
            shared: access.get(3) == Some(&b's'),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "00400000-00401000 r-xp 00000000 fe:00 1 /bin/x y\n\
        00500000-00502000 rwxp 00000000 00:00 0 \n\
        7f0000000000-7f0000001000 r-xs 00000000 00:01 7 /memfd:jit\n\
        7fff00000000-7fff00001000 rw-p 00000000 00:00 0 [stack]\n";

    #[test]
    fn code_is_taken_from_private_pages_that_cannot_be_written() {
        let maps = Maps::parse(TEXT);
        assert_eq!(maps.code_at(0x40_0000), Ok(()));
        assert_eq!(maps.code_at(0x50_1000), Err(NoCode::Writable));
        assert_eq!(maps.code_at(0x7f00_0000_0000), Err(NoCode::Shared));
        assert_eq!(maps.code_at(0x7fff_0000_0000), Err(NoCode::NotExecutable));
        assert_eq!(maps.code_at(0), Err(NoCode::NotExecutable));
    }

    #[test]
    fn what_is_free_has_no_mapping_in_it() {
        let maps = Maps::parse(TEXT);
        assert!(maps.is_free(0x40_1000, 0xff000));
        assert!(!maps.is_free(0x40_1000, 0xff001));
        assert!(!maps.is_free(0x40_0fff, 1));
        assert!(maps.is_free(0x1_0000, 0x1000));
    }
}
