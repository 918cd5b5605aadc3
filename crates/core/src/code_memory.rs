//! The executable memory of processes: which file an address belongs to.

use std::collections::HashMap;
use std::sync::Arc;

/// A change of the executable memory of a process, which gives addresses of rows their meaning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CodeMemoryChange {
    /// A part of a file was mapped, in place of what was there before.
    Mapped(CodeMapping),
    /// The process was created with the mappings of another one.
    Forked {
        /// The new process.
        pid: u32,
        /// The process that created it.
        parent: u32,
    },
    /// The process executed another program: it has no mappings until the next ones.
    Executed {
        /// The process.
        pid: u32,
    },
}

/// A part of a file in the memory of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodeMapping {
    /// The id of the process.
    pub pid: u32,
    /// The first address.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// The path of the file; a name in brackets, or of two slashes, where the kernel has no file.
    pub file: String,
}

/// A place in a file of code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MappedPlace<'a> {
    /// The path of the file, or the kernel's name of the mapping.
    pub file: &'a str,
    /// The offset in the file.
    pub offset: u64,
}

/// The most mappings that are kept of a process, and of all processes together; further ones are not.
const MOST_OF_PROCESS: usize = 2048;
const MOST_MAPPINGS: usize = 1 << 16;

/// The executable memory of processes at some moment.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CodeMemory {
    processes: HashMap<u32, Vec<KnownMapping>>,
    mappings: usize,
}

/// A mapping of a process; processes that were forked share the texts.
#[derive(Clone, PartialEq, Eq, Debug)]
struct KnownMapping {
    start: u64,
    len: u64,
    offset: u64,
    file: Arc<str>,
}

impl CodeMemory {
    /// Brings the memory up to date.
    pub fn apply(&mut self, change: &CodeMemoryChange) {
        match change {
            CodeMemoryChange::Mapped(mapping) => self.map(mapping),
            CodeMemoryChange::Executed { pid } => self.replace(*pid, Vec::new()),
            CodeMemoryChange::Forked { pid, parent } => {
                let inherited = self.processes.get(parent).cloned().unwrap_or_default();
                self.replace(*pid, Vec::new());
                if self.mappings + inherited.len() <= MOST_MAPPINGS {
                    self.replace(*pid, inherited);
                }
            }
        }
    }

    /// The place in a file at an address of a process, by the newest mapping there; `None` where none is
    /// known.
    pub fn place(&self, pid: u32, address: u64) -> Option<MappedPlace<'_>> {
        let within = |mapping: &&KnownMapping| {
            address.checked_sub(mapping.start).is_some_and(|distance| distance < mapping.len)
        };
        let mapping = self.processes.get(&pid)?.iter().rev().find(within)?;
        let offset = mapping.offset.checked_add(address - mapping.start)?;
        Some(MappedPlace { file: &mapping.file, offset })
    }

    fn replace(&mut self, pid: u32, mappings: Vec<KnownMapping>) {
        self.mappings += mappings.len();
        let before = match mappings.is_empty() {
            true => self.processes.remove(&pid),
            false => self.processes.insert(pid, mappings),
        };
        self.mappings -= before.map_or(0, |before| before.len());
    }

    /// Adds a mapping; those that it covers are gone.
    fn map(&mut self, new: &CodeMapping) {
        let CodeMapping { pid, start, len, offset, file } = new;
        let known = self.processes.entry(*pid).or_default();
        let before = known.len();
        let end = start.saturating_add(*len);
        known.retain(|old| old.start < *start || old.start.saturating_add(old.len) > end);
        self.mappings -= before - known.len();
        if self.mappings < MOST_MAPPINGS && known.len() < MOST_OF_PROCESS {
            known.push(KnownMapping {
                start: *start,
                len: *len,
                offset: *offset,
                file: file.as_str().into(),
            });
            self.mappings += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(pid: u32, start: u64, len: u64, offset: u64, file: &str) -> CodeMemoryChange {
        CodeMemoryChange::Mapped(CodeMapping { pid, start, len, offset, file: file.to_owned() })
    }

    fn memory(changes: &[CodeMemoryChange]) -> CodeMemory {
        let mut memory = CodeMemory::default();
        changes.iter().for_each(|change| memory.apply(change));
        memory
    }

    #[test]
    fn an_address_belongs_to_the_newest_mapping_of_its_process() {
        let memory = memory(&[
            mapped(1, 0x1000, 0x4000, 0x2000, "/old"),
            mapped(1, 0x2000, 0x1000, 0, "/new"),
            mapped(2, 0x1000, 0x1000, 0, "/other"),
        ]);
        let at = |pid, address| memory.place(pid, address).map(|place| (place.file, place.offset));
        assert_eq!(at(1, 0x1fff), Some(("/old", 0x2fff)));
        assert_eq!(at(1, 0x2000), Some(("/new", 0)));
        assert_eq!(at(1, 0x3000), Some(("/old", 0x4000)));
        assert_eq!(at(2, 0x1000), Some(("/other", 0)));
        for (pid, address) in [(1, 0xfff), (1, 0x5000), (2, 0x2000), (3, 0x1000)] {
            assert_eq!(at(pid, address), None);
        }
    }

    #[test]
    fn a_child_has_the_mappings_of_its_parent_until_it_executes_a_program() {
        let first = mapped(1, 0x1000, 0x1000, 0, "/a");
        let forked = CodeMemoryChange::Forked { pid: 2, parent: 1 };
        let mut memory = memory(&[first, forked, mapped(1, 0x9000, 1, 0, "/b")]);
        assert_eq!(memory.place(2, 0x1004).map(|place| place.offset), Some(4));
        assert_eq!(memory.place(2, 0x9000), None);
        memory.apply(&CodeMemoryChange::Executed { pid: 2 });
        assert_eq!(memory.place(2, 0x1004), None);
        assert!(memory.place(1, 0x1004).is_some());
    }

    #[test]
    fn mappings_are_limited_in_number_and_covered_ones_are_gone() {
        let mut memory = CodeMemory::default();
        for turn in 0..5000 {
            memory.apply(&mapped(1, 0x1000, 0x1000, turn, "/jit"));
        }
        assert_eq!((memory.mappings, memory.processes[&1].len()), (1, 1));
        let processes = MOST_MAPPINGS / MOST_OF_PROCESS + 2;
        for pid in 2..2 + processes as u32 {
            (0..3 * MOST_OF_PROCESS as u64)
                .for_each(|page| memory.apply(&mapped(pid, page << 12, 0x1000, 0, "/b")));
            assert!(memory.processes[&pid].len() <= MOST_OF_PROCESS);
        }
        assert_eq!(memory.mappings, MOST_MAPPINGS);
        memory.apply(&CodeMemoryChange::Forked { pid: 1000, parent: 2 });
        assert_eq!((memory.mappings, memory.place(1000, 0x1000)), (MOST_MAPPINGS, None));
        (2..2 + processes as u32).for_each(|pid| memory.apply(&CodeMemoryChange::Executed { pid }));
        assert_eq!(memory.mappings, 1);
        memory.apply(&mapped(4, u64::MAX - 1, u64::MAX, u64::MAX, "/wide"));
        assert_eq!(memory.place(4, u64::MAX), None, "its offset has more than 64 bits");
    }
}
