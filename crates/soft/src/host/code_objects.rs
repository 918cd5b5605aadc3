//! Files of code, by path and content, for counts by code address.
//!
//! A path may lead to another file by the time its code is read: a library is replaced, an inode is used
//! again. So each page of code is compared with the file at its path. A page that differs belongs to a file
//! of that path whose names are unknown.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::cache_folder::{O_NONBLOCK_NOCTTY, file_sum};
use super::escaped_path::path_in_root;
use super::function_starts::FunctionStarts;
use super::proc;
use super::protocol::{ObjectOrigin, RunTimeCodeOwner};
use crate::translate::{ObjectPage, PAGE};

/// Files of code that programs have mapped, and processes with code of no file.
pub(super) struct CodeObjects {
    objects: Vec<ExecutedObject>,
    numbers: HashMap<(String, Option<FileStamp>), u32>,
    memory: HashMap<u32, u32>,
    /// When the first command began, in nanoseconds since 1970.
    since_ns: u64,
    /// By path, where they were needed.
    starts: HashMap<String, FunctionStarts>,
}

/// An object as programs saw it.
enum ExecutedObject {
    /// A file: its path and the sum of [`file_sum`]; `None` for a file that its path did not lead to.
    File(String, Option<String>),
    /// The memory of a process.
    Memory(RunTimeCodeOwner),
}

/// Facts by which a file that was replaced or written is told from the one before.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct FileStamp([u64; 7]);

impl FileStamp {
    fn of(file: &File) -> io::Result<FileStamp> {
        let facts = file.metadata()?;
        let times = [facts.mtime(), facts.mtime_nsec(), facts.ctime(), facts.ctime_nsec()];
        let [mtime, mtime_ns, ctime, ctime_ns] = times.map(i64::cast_unsigned);
        Ok(FileStamp([facts.dev(), facts.ino(), facts.len(), mtime, mtime_ns, ctime, ctime_ns]))
    }
}

impl Default for CodeObjects {
    fn default() -> CodeObjects {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        CodeObjects {
            objects: Vec::new(),
            numbers: HashMap::new(),
            memory: HashMap::new(),
            since_ns: u64::try_from(now.as_nanos()).unwrap_or(0),
            starts: HashMap::new(),
        }
    }
}

impl CodeObjects {
    /// The file of a page that was mapped from an offset of a file called so, and has these bytes.
    pub(super) fn of_page(
        &mut self,
        tid: u32,
        (name, offset): (&str, u64),
        bytes: &[u8; PAGE as usize],
    ) -> ObjectPage {
        let path = path_in_root(tid, name);
        let stamp = same_content(&path, offset, bytes);
        let object = match self.numbers.get(&(name.to_owned(), stamp)) {
            Some(number) => *number,
            None => self.add(name, stamp, &path),
        };
        ObjectPage { object, offset }
    }

    /// The page at an address of the memory of a process, which has code of no file there.
    pub(super) fn of_memory(&mut self, tid: u32, address: u64) -> Option<ObjectPage> {
        let pid = proc::first_thread(tid)?;
        let owner = RunTimeCodeOwner { pid, since_ns: self.since_ns };
        let object = *self.memory.entry(pid).or_insert_with(|| {
            self.objects.push(ExecutedObject::Memory(owner));
            self.objects.len() as u32 - 1
        });
        Some(ObjectPage { object, offset: address })
    }

    /// Whether a function starts at an offset of a file called so.
    pub(super) fn is_function_start(&mut self, tid: u32, name: &str, offset: u64) -> bool {
        if let Some(known) = self.starts.get(name) {
            return known.contains(offset);
        }
        let starts = FunctionStarts::of(&path_in_root(tid, name));
        self.starts.entry(name.to_owned()).or_insert(starts).contains(offset)
    }

    fn add(&mut self, name: &str, stamp: Option<FileStamp>, path: &Path) -> u32 {
        let sum = stamp.and_then(|_| file_sum(path).ok());
        self.objects.push(ExecutedObject::File(name.to_owned(), sum));
        let number = self.objects.len() as u32 - 1;
        self.numbers.insert((name.to_owned(), stamp), number);
        number
    }

    /// The origin of an object, by its number.
    pub(super) fn origin(&self, number: u32) -> Option<ObjectOrigin<'_>> {
        let origin = |object| match object {
            &ExecutedObject::Memory(owner) => ObjectOrigin::Memory(owner),
            ExecutedObject::File(path, sum) => ObjectOrigin::File(path, sum.as_deref()),
        };
        self.objects.get(number as usize).map(origin)
    }
}

/// The stamp of the file at a path, if it has these bytes at an offset. Behind its end a page is zero.
fn same_content(path: &Path, offset: u64, bytes: &[u8; PAGE as usize]) -> Option<FileStamp> {
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK_NOCTTY).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut content = [0; PAGE as usize];
    let mut read = 0;
    while read < content.len() {
        match file.read_at(&mut content[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    if read == 0 || content != *bytes { None } else { FileStamp::of(&file).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_no_file_belongs_to_its_process() {
        let mut objects = CodeObjects::default();
        let tid = std::process::id();
        let page = objects.of_memory(tid, 0x7f00_0000).unwrap();
        assert_eq!(objects.of_memory(tid, 0x1000).map(|page| page.object), Some(page.object));
        assert_eq!(page.offset, 0x7f00_0000);
        let origin = objects.origin(page.object).unwrap();
        assert!(matches!(origin, ObjectOrigin::Memory(owner) if owner.pid == tid), "{origin:?}");
        assert_eq!(objects.of_memory(u32::MAX, 0), None, "there is no such thread");
    }

    #[test]
    fn a_page_belongs_to_the_file_at_its_path_only_with_the_same_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut content = vec![7; PAGE as usize];
        content.extend([8; 100]);
        std::fs::write(&path, &content).unwrap();
        let mut last = [0; PAGE as usize];
        last[..100].fill(8);
        assert!(same_content(&path, 0, &[7; PAGE as usize]).is_some());
        assert!(same_content(&path, PAGE, &last).is_some(), "behind the end there are zeros");
        assert!(same_content(&path, 0, &last).is_none());
        assert!(same_content(&path, 2 * PAGE, &[0; PAGE as usize]).is_none(), "the file ends before");
        assert!(same_content(folder.path(), 0, &last).is_none(), "a folder is no file");
        assert!(same_content(&folder.path().join("none"), 0, &last).is_none());
    }
}
