//! The program's code, read for the translator.

use std::cell::RefCell;
use std::rc::Rc;

use cyclometer_sys::trace;

use super::code_objects::CodeObjects;
use super::mapping_changes::MappingChanges;
use super::maps::{MapsCache, NoCode};
use super::profile_store::ProfileStore;
use crate::translate::{CodeSource, CodeStability, FilePage, ObjectPage, PAGE};

/// Reads the code of a stopped process.
pub(crate) struct CodeReader<'a> {
    tid: u32,
    known: &'a mut MapsCache,
    profile: Option<&'a RefCell<ProfileStore>>,
    objects: Option<&'a RefCell<CodeObjects>>,
    expected: Option<Rc<MappingChanges>>,
}

impl<'a> CodeReader<'a> {
    /// `known` are its mappings, read on demand.
    pub(crate) fn new(
        tid: u32,
        known: &'a mut MapsCache,
        profile: Option<&'a RefCell<ProfileStore>>,
    ) -> CodeReader<'a> {
        CodeReader { tid, known, profile, objects: None, expected: None }
    }

    /// The same, with the places of its code in files.
    pub(super) fn placing(self, objects: Option<&'a RefCell<CodeObjects>>) -> CodeReader<'a> {
        CodeReader { objects, ..self }
    }

    /// The same, for a translation that expects these changes.
    pub(super) fn expecting(self, changes: Rc<MappingChanges>) -> CodeReader<'a> {
        CodeReader { expected: Some(changes), ..self }
    }

    /// The reason why code is not taken from an address; `None` where it is, or cannot be read for another
    /// reason.
    pub(crate) fn why_not(&mut self, address: u64) -> Option<NoCode> {
        self.code_at(address & !(PAGE - 1))?.err()
    }

    /// The stability of the code of a page. A block that begins on it may end on the next one.
    fn stability_at(&mut self, page: u64) -> CodeStability {
        // Only code can end on the next page.
        let reaches = if self.code_at(page) == Some(Err(NoCode::NotExecutable)) { 1 } else { 2 };
        let pages = [page, page.wrapping_add(PAGE)].into_iter().take(reaches);
        let changing = pages.into_iter().find(|page| self.changes(*page));
        let Some(changing) = changing else { return CodeStability::Fixed };
        let Ok(stack) = trace::registers(self.tid).map(|registers| registers.rsp) else {
            return CodeStability::ChangingWithStack;
        };
        let mapping = self.known.read(self.tid).ok().and_then(|maps| maps.at(changing));
        match mapping.is_some_and(|mapping| !(mapping.start..mapping.end).contains(&stack)) {
            true => CodeStability::Changing,
            false => CodeStability::ChangingWithStack,
        }
    }

    /// Whether the code of a page can change, or its mapping is expected to.
    fn changes(&mut self, page: u64) -> bool {
        if matches!(self.code_at(page), Some(Err(NoCode::Writable | NoCode::Shared | NoCode::Written))) {
            return true;
        }
        let (Some(expected), Ok(maps)) = (&self.expected, self.known.read(self.tid)) else { return false };
        expected.expects(page, maps)
    }

    /// Whether code can be taken from a page; `None` where nothing is known.
    fn code_at(&mut self, page: u64) -> Option<Result<(), NoCode>> {
        let known = self.known.read(self.tid).ok()?.code_at(page);
        if known != Err(NoCode::Written) {
            return Some(known);
        }
        // A process that had the file open for writing may have closed it since.
        self.known.forget();
        Some(self.known.read(self.tid).ok()?.code_at(page))
    }
}

impl CodeSource for CodeReader<'_> {
    fn page(&mut self, address: u64) -> Option<Box<[u8; PAGE as usize]>> {
        if self.code_at(address)? == Err(NoCode::NotExecutable) {
            return None;
        }
        let mut bytes = Box::new([0; PAGE as usize]);
        let count = trace::read_memory(self.tid, address, &mut bytes[..]).unwrap_or(0);
        if count < PAGE as usize {
            // Memory that can only be executed is read by words.
            for (word, at) in bytes.as_chunks_mut().0.iter_mut().zip((address..).step_by(8)) {
                *word = trace::peek(self.tid, at).ok()?.to_le_bytes();
            }
        }
        Some(bytes)
    }

    fn stability(&mut self, address: u64) -> CodeStability {
        self.stability_at(address)
    }

    fn origin(&mut self, address: u64) -> Option<FilePage> {
        let profile = self.profile?;
        let mapping = self.known.read(self.tid).ok()?.at(address)?;
        profile.borrow_mut().origin(self.tid, mapping, address)
    }

    fn object(&mut self, address: u64, bytes: &[u8; PAGE as usize]) -> Option<ObjectPage> {
        let objects = self.objects?;
        let mapping = self.known.read(self.tid).ok()?.at(address)?;
        if mapping.is_memory() {
            return self.memory(address);
        }
        mapping.file?;
        let place = (mapping.name.as_str(), address - mapping.start + mapping.offset);
        Some(objects.borrow_mut().of_page(self.tid, place, bytes))
    }

    fn memory(&mut self, address: u64) -> Option<ObjectPage> {
        let mapping = self.known.read(self.tid).ok()?.at(address)?;
        let objects = self.objects.filter(|_| mapping.is_memory())?;
        objects.borrow_mut().of_memory(self.tid, address)
    }

    fn is_function_start(&mut self, address: u64) -> bool {
        let (Some(objects), Ok(maps)) = (self.objects, self.known.read(self.tid)) else { return false };
        let Some(mapping) = maps.at(address).filter(|mapping| mapping.file.is_some()) else { return false };
        let offset = address - mapping.start + mapping.offset;
        objects.borrow_mut().is_function_start(self.tid, &mapping.name, offset)
    }
}
