//! Names of the code that rows ended in: files of code and functions, read when a recording is converted.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cyclometer_toolkit::core::code_memory::MappedPlace;
use cyclometer_toolkit::core::window::WindowRow;
use cyclometer_toolkit::recording::RecordingHeader;
use cyclometer_toolkit::symbols::{DebugPart, ObjectFile};

/// The first address of kernels of 64 bits: user space ends below.
const FIRST_OF_KERNEL: u64 = 1 << 63;

const UNKNOWN: &str = "[unknown]";

/// The symbols of the files that rows are in.
#[derive(Debug)]
pub(super) struct PlaceNames {
    files: HashMap<String, Option<ObjectFile>>,
    /// Files that were changed after the recording began.
    changed: BTreeSet<String>,
    began: Option<SystemTime>,
}

impl PlaceNames {
    pub(super) fn new(header: &RecordingHeader) -> PlaceNames {
        let began = header.start_unix_ns.map(|ns| UNIX_EPOCH + Duration::from_nanos(ns));
        PlaceNames { files: HashMap::new(), changed: BTreeSet::new(), began }
    }

    /// The frames of the end of a row, outermost first: the file of code and the function, or the address
    /// where no mapping is known.
    pub(super) fn frames(&mut self, row: &WindowRow, place: Option<MappedPlace<'_>>) -> Vec<String> {
        match (row.address, place) {
            (None, _) => vec![UNKNOWN.to_owned()],
            (Some(_), Some(MappedPlace { file, offset })) => {
                let base = file.rsplit('/').next().filter(|base| !base.is_empty()).unwrap_or(file);
                vec![base.to_owned(), self.function(file, offset)]
            }
            (Some(address), None) if address >= FIRST_OF_KERNEL => vec!["[kernel]".to_owned()],
            (Some(address), None) => vec![format!("{address:#x}")],
        }
    }

    fn function(&mut self, file: &str, offset: u64) -> String {
        if !self.files.contains_key(file) {
            let symbols = self.symbols(file);
            self.files.insert(file.to_owned(), symbols);
        }
        let symbols = self.files.get(file).and_then(Option::as_ref);
        let function = symbols.and_then(|file| file.function(offset));
        function.map_or_else(|| UNKNOWN.to_owned(), |function| function.name.to_string())
    }

    /// The symbols of a file, unless it may be another one than that which was recorded.
    fn symbols(&mut self, file: &str) -> Option<ObjectFile> {
        let path = Path::new(file);
        let changed = fs::metadata(path).and_then(|metadata| metadata.modified()).ok()?;
        if self.began.is_some_and(|began| changed > began) {
            self.changed.insert(file.to_owned());
            return None;
        }
        ObjectFile::open(path, DebugPart::None).ok()
    }

    /// Warnings about files whose names could be wrong.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        self.changed
            .iter()
            .map(|file| format!("{file} was changed after the recording began: its functions have no names"))
    }
}
