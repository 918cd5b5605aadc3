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

use super::cache_folder::{O_NONBLOCK_NOCTTY, file_sum};
use super::function_starts::FunctionStarts;
use crate::translate::{ObjectPage, PAGE};

/// Files of code that programs have mapped.
#[derive(Default)]
pub(super) struct CodeObjects {
    files: Vec<MappedFile>,
    numbers: HashMap<(String, Option<FileStamp>), u32>,
    /// By path, where they were needed.
    starts: HashMap<String, FunctionStarts>,
}

/// A file as programs saw it.
struct MappedFile {
    path: String,
    /// The sum of [`file_sum`]; `None` for a file that its path did not lead to.
    sum: Option<String>,
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

impl CodeObjects {
    /// The file of a page that was mapped from an offset of a file called so, and has these bytes.
    pub(super) fn of_page(
        &mut self,
        tid: u32,
        (name, offset): (&str, u64),
        bytes: &[u8; PAGE as usize],
    ) -> ObjectPage {
        let path = format!("/proc/{tid}/root{name}");
        let stamp = same_content(Path::new(&path), offset, bytes);
        let object = match self.numbers.get(&(name.to_owned(), stamp)) {
            Some(number) => *number,
            None => self.add(name, stamp, Path::new(&path)),
        };
        ObjectPage { object, offset }
    }

    /// Whether a function starts at an offset of a file called so.
    pub(super) fn is_function_start(&mut self, tid: u32, name: &str, offset: u64) -> bool {
        if let Some(known) = self.starts.get(name) {
            return known.contains(offset);
        }
        let starts = FunctionStarts::of(Path::new(&format!("/proc/{tid}/root{name}")));
        self.starts.entry(name.to_owned()).or_insert(starts).contains(offset)
    }

    fn add(&mut self, name: &str, stamp: Option<FileStamp>, path: &Path) -> u32 {
        let sum = stamp.and_then(|_| file_sum(path).ok());
        self.files.push(MappedFile { path: name.to_owned(), sum });
        let number = self.files.len() as u32 - 1;
        self.numbers.insert((name.to_owned(), stamp), number);
        number
    }

    /// The path of a file and its sum, if that is known.
    pub(super) fn file(&self, number: u32) -> Option<(&str, Option<&str>)> {
        self.files.get(number as usize).map(|file| (file.path.as_str(), file.sum.as_deref()))
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
