//! The memory mappings of a program.

use std::collections::HashSet;
use std::io;

use super::escaped_path::{escaped_of_maps, path_in_root};
use super::proc;
use super::writers::{self, FileId};

/// A mapping of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MemoryMapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) executable: bool,
    pub(crate) writable: bool,
    pub(crate) shared: bool,
    /// The mapped file, and the offset of the mapping in bytes.
    pub(crate) file: Option<FileId>,
    pub(crate) offset: u64,
    /// The kernel's name of executable memory: a path, or a word in brackets.
    pub(crate) name: String,
    /// Its code may change, because a process can write the file.
    pub(crate) unsteady: bool,
}

/// The mappings of a process, ascending.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct MemoryMaps(Vec<MemoryMapping>);

/// The reason why code is not taken from a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoCode {
    /// Unmapped, or not executable: the program faults there natively.
    NotExecutable,
    /// It may change without a system call: the program can write it.
    Writable,
    /// It may change without a system call: another process can write it.
    Shared,
    /// It may change without a change of its mapping: its file is open for writing.
    Written,
}

impl NoCode {
    /// The reason, in words that follow "the program".
    pub(crate) fn word(self) -> &'static str {
        match self {
            NoCode::NotExecutable => "jumped to memory without code",
            NoCode::Writable => "executes memory that it can write",
            NoCode::Shared => "executes memory that it shares",
            NoCode::Written => "executes a file that is open for writing",
        }
    }
}

impl MemoryMaps {
    /// Reads them.
    ///
    /// # Errors
    ///
    /// The operating system's.
    ///
    /// # Source
    ///
    /// `proc(5)`, `/proc/pid/maps`.
    pub(crate) fn read(pid: u32) -> io::Result<MemoryMaps> {
        let text = proc::bytes(format!("/proc/{pid}/maps"))?;
        Ok(MemoryMaps::of_bytes(&text))
    }

    /// Names are as [`escaped_path`](super::escaped_path::escaped_path) writes them.
    fn of_bytes(text: &[u8]) -> MemoryMaps {
        let is_plain = |text: &&str| text.bytes().all(|byte| byte >= b' ' && byte != b'\\' || byte == b'\n');
        match std::str::from_utf8(text).ok().filter(is_plain) {
            Some(text) => MemoryMaps::parse(text),
            None => {
                let lines = text.split(|byte| *byte == b'\n').map(escaped_of_maps);
                MemoryMaps(lines.filter_map(|line| MemoryMapping::parse(&line)).collect())
            }
        }
    }

    /// Those of a process that has ended.
    pub(crate) fn none() -> MemoryMaps {
        MemoryMaps(Vec::new())
    }

    #[cfg(test)]
    pub(crate) fn of(text: &str) -> MemoryMaps {
        MemoryMaps::parse(text)
    }

    pub(crate) fn parse(text: &str) -> MemoryMaps {
        MemoryMaps(text.lines().filter_map(MemoryMapping::parse).collect())
    }

    /// The path of the file with the code at an address, and the offset in it; `None` for code of no file.
    pub(crate) fn file_offset(&self, address: u64) -> Option<(&str, u64)> {
        let mapping = self.0.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))?;
        mapping
            .name
            .starts_with('/')
            .then(|| (mapping.name.as_str(), address - mapping.start + mapping.offset))
    }

    /// Whether code can be taken from a page.
    ///
    /// # Errors
    ///
    /// The reason why code is not taken from it.
    pub(crate) fn code_at(&self, page: u64) -> Result<(), NoCode> {
        match self.at(page) {
            Some(mapping) if mapping.executable && mapping.writable => Err(NoCode::Writable),
            Some(mapping) if mapping.executable && mapping.shared => Err(NoCode::Shared),
            Some(mapping) if mapping.executable && mapping.unsteady => Err(NoCode::Written),
            Some(mapping) if mapping.executable => Ok(()),
            _ => Err(NoCode::NotExecutable),
        }
    }

    /// The mapping that an address is in.
    pub(crate) fn at(&self, address: u64) -> Option<&MemoryMapping> {
        self.0.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))
    }

    /// Whether nothing at all is mapped: the process has ended.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The executable mappings.
    pub(crate) fn code(&self) -> impl Iterator<Item = &MemoryMapping> {
        self.0.iter().filter(|mapping| mapping.executable)
    }

    /// Finds the files of code that are open for writing. Files that are not join `steady`, and are not
    /// examined again.
    fn find_writers(&mut self, pid: u32, steady: &mut HashSet<FileId>) {
        let files = self.code().filter(|mapping| !mapping.shared).filter_map(|mapping| mapping.file);
        let unknown: HashSet<FileId> = files.filter(|file| !steady.contains(file)).collect();
        if unknown.is_empty() {
            return;
        }
        let mapped = self.0.iter().filter(|mapping| mapping.shared && mapping.writable);
        let mut written: HashSet<FileId> = mapped.filter_map(|mapping| mapping.file).collect();
        written.extend(writers::open_for_writing(pid));
        for mapping in &mut self.0 {
            let names = mapping.files(pid);
            mapping.unsteady = names.iter().any(|file| written.contains(file));
            if !mapping.unsteady && mapping.file.is_some_and(|file| unknown.contains(&file)) {
                steady.extend(names);
            }
        }
    }

    /// The mappings that overlap a range.
    pub(crate) fn among(&self, start: u64, end: u64) -> impl Iterator<Item = &MemoryMapping> {
        self.0.iter().filter(move |mapping| mapping.start < end && mapping.end > start)
    }

    /// Whether anything in a range can be executed.
    pub(crate) fn executes(&self, start: u64, end: u64) -> bool {
        self.among(start, end).any(|mapping| mapping.executable)
    }

    /// The free ranges between two mappings of the program, ascending.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.windows(2).map(|pair| (pair[0].end, pair[1].start)).filter(|(start, end)| start < end)
    }

    /// Whether nothing is mapped in a range.
    pub(crate) fn is_free(&self, start: u64, len: u64) -> bool {
        self.0.iter().all(|mapping| mapping.start >= start + len || mapping.end <= start)
    }
}

/// The mappings of a process, read on demand.
#[derive(Default)]
pub(crate) struct MapsCache {
    maps: Option<MemoryMaps>,
    /// Files of code that no process of the program has open for writing. From now on the tracer sees how
    /// they are opened.
    steady: HashSet<FileId>,
    /// How often the mappings were forgotten.
    changes: u64,
}

impl MapsCache {
    /// The mappings, read if they are not known.
    ///
    /// # Errors
    ///
    /// The operating system's: `EACCES` for a process whose memory this user may not read, as one with an
    /// execute-only program or with more rights.
    pub(crate) fn read(&mut self, pid: u32) -> io::Result<&MemoryMaps> {
        let maps = match self.maps.take() {
            Some(maps) => maps,
            None => {
                let mut maps = MemoryMaps::read(pid)?;
                maps.find_writers(pid, &mut self.steady);
                maps
            }
        };
        Ok(self.maps.insert(maps))
    }

    /// The mappings, if they are known.
    pub(crate) fn last(&self) -> Option<&MemoryMaps> {
        self.maps.as_ref()
    }

    /// Whether code of a file was executed.
    pub(crate) fn executes(&self, file: FileId) -> bool {
        self.steady.contains(&file)
    }

    /// Forgets the mappings, because they have changed.
    pub(crate) fn forget(&mut self) {
        self.maps = None;
        self.changes += 1;
    }

    /// A number that is another one after each change of the mappings.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }
}

impl MemoryMapping {
    /// Whether it is memory of the program itself: not a file's, and not the kernel's.
    pub(super) fn is_anonymous(&self) -> bool {
        self.file.is_none() && !["[vdso]", "[vsyscall]"].contains(&self.name.as_str())
    }

    /// Whether its code is at no offset of a file that stays: memory of the program itself, or memory of the
    /// kernel's without a path, as compilers at run time map it twice.
    pub(super) fn is_memory(&self) -> bool {
        let nameless = ["/memfd:", "/dev/zero", "/SYSV"];
        self.is_anonymous() || nameless.iter().any(|name| self.name.starts_with(name))
    }

    /// The identities of a file of code: as the list of mappings names it, and by its path. Overlay file
    /// systems report two devices.
    fn files(&self, pid: u32) -> Vec<FileId> {
        let file = self.file.filter(|_| self.executable && !self.shared);
        let path = || FileId::at(path_in_root(pid, &self.name));
        file.into_iter().flat_map(|file| path().into_iter().chain([file])).collect()
    }

    fn parse(line: &str) -> Option<MemoryMapping> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let access = fields.next()?.as_bytes();
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let offset = hex(fields.next()?)?;
        let file = FileId::parse(fields.next()?, fields.next()?);
        let executable = access.get(2) == Some(&b'x');
        let name =
            fields.next().filter(|_| executable).map_or_else(String::new, |name| name.trim().to_owned());
        Some(MemoryMapping {
            start: hex(start)?,
            end: hex(end)?,
            writable: access.get(1) == Some(&b'w'),
            executable,
            shared: access.get(3) == Some(&b's'),
            file,
            offset,
            name,
            unsteady: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const TEXT: &str = "00400000-00401000 r-xp 00000000 fe:00 1 /bin/x y\n\
        00500000-00502000 rwxp 00000000 00:00 0 \n\
        7f0000000000-7f0000001000 r-xs 00000000 00:01 7 /memfd:jit\n\
        7fff00000000-7fff00001000 rw-p 00000000 00:00 0 [stack]\n";

    #[test]
    fn code_is_taken_from_private_pages_that_cannot_be_written() {
        let maps = MemoryMaps::parse(TEXT);
        assert_eq!(maps.code_at(0x40_0000), Ok(()));
        assert_eq!(maps.code_at(0x50_1000), Err(NoCode::Writable));
        assert_eq!(maps.code_at(0x7f00_0000_0000), Err(NoCode::Shared));
        assert_eq!(maps.code_at(0x7fff_0000_0000), Err(NoCode::NotExecutable));
        assert_eq!(maps.code_at(0), Err(NoCode::NotExecutable));
    }

    #[test]
    fn code_is_not_taken_from_a_file_that_a_mapping_can_write() {
        let twice = "00400000-00401000 r-xp 00000000 00:01 9 /memfd:jit\n\
            00500000-00501000 rw-s 00000000 00:01 9 /memfd:jit\n\
            00600000-00601000 r-xp 00000000 00:02 9 /other\n";
        let (mut maps, mut steady) = (MemoryMaps::parse(twice), HashSet::new());
        maps.find_writers(u32::MAX, &mut steady);
        assert_eq!(maps.code_at(0x40_0000), Err(NoCode::Written));
        assert_eq!(maps.code_at(0x60_0000), Ok(()));
        let other = maps.0[2].file.unwrap();
        assert_eq!(steady.into_iter().collect::<Vec<_>>(), [other]);
    }

    #[test]
    fn a_file_that_is_listed_with_another_device_is_known_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let written = fs::File::create(&path).unwrap();
        let line = format!("00400000-00401000 r-xp 00000000 ff:ff 5 {}", path.display());
        let look = || {
            let (mut maps, mut steady) = (MemoryMaps::parse(&line), HashSet::new());
            maps.find_writers(std::process::id(), &mut steady);
            (maps.code_at(0x40_0000), steady.contains(&FileId::at(&path).unwrap()))
        };
        assert_eq!(look(), (Err(NoCode::Written), false));
        drop(written);
        assert_eq!(look(), (Ok(()), true));
    }

    #[test]
    fn a_free_range_has_no_mapping_in_it() {
        let maps = MemoryMaps::parse(TEXT);
        assert!(maps.is_free(0x40_1000, 0xff000));
        assert!(!maps.is_free(0x40_1000, 0xff001));
        assert!(!maps.is_free(0x40_0fff, 1));
        assert!(maps.is_free(0x1_0000, 0x1000));
    }
}
