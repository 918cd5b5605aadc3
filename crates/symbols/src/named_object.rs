//! A file of code, or the memory of a process, with its names.

use std::rc::Rc;

use crate::code_files::NameFile;
use crate::code_name::CodeName;
use crate::object_file::ObjectFile;
use crate::run_time_names::RunTimeNames;

/// The names of a file or of memory, as far as they are known.
#[derive(Debug, Default)]
pub(crate) struct NamedObject {
    /// The path; `None` for memory.
    path: Option<String>,
    names: Names,
}

#[derive(Debug, Default)]
enum Names {
    #[default]
    Unknown,
    File(Box<ObjectFile>),
    Memory(RunTimeNames),
}

impl NamedObject {
    /// A file; `None` where its names are unknown.
    pub(crate) fn of_file(path: &str, file: Option<ObjectFile>) -> NamedObject {
        let names = file.map_or(Names::Unknown, |file| Names::File(Box::new(file)));
        NamedObject { path: Some(path.to_owned()), names }
    }

    /// The memory of a process, with the names of the first file that has any. Files that are not used have
    /// a note.
    pub(crate) fn of_memory(files: Vec<NameFile>, notes: &mut Vec<String>) -> NamedObject {
        for NameFile { path, content } in files {
            match content.and_then(|content| RunTimeNames::of(&content)) {
                Ok(names) if names.is_empty() => {}
                Ok(names) => return NamedObject { path: None, names: Names::Memory(names) },
                Err(why) => notes.push(format!("{path}: not used for names: {why}")),
            }
        }
        NamedObject::default()
    }

    /// A number that is the same for all places of the function at an offset, and for no place of another
    /// one; `None`: no function is known there.
    pub(crate) fn function_start(&self, offset: u64) -> Option<u64> {
        match &self.names {
            Names::Unknown => None,
            Names::File(file) => file.function_start(offset),
            Names::Memory(names) => names.function(offset).map(|(start, _)| start),
        }
    }

    fn function_name(&self, offset: u64, distance: u64) -> Option<String> {
        match &self.names {
            Names::Unknown => None,
            Names::File(file) => file.function_name(offset, distance).map(|name| name.to_string()),
            Names::Memory(names) => {
                names.function(offset.wrapping_add(distance)).map(|(_, name)| name.into_owned())
            }
        }
    }

    /// The name of the code at an offset, without its line.
    pub(crate) fn name(&self, offset: u64) -> CodeName {
        self.name_from(offset, 0)
    }

    /// The name of the code at a distance, modulo 2⁶⁴, from an offset.
    pub(crate) fn name_from(&self, offset: u64, distance: u64) -> CodeName {
        let (object, function) = (self.path.clone(), self.function_name(offset, distance));
        CodeName { object, function, ..CodeName::default() }
    }

    /// The innermost inlined function at an offset.
    pub(crate) fn inlined_function(&self, offset: u64) -> Option<Rc<str>> {
        self.file()?.inlined_function(offset)
    }

    /// The name of the code at an offset, which belongs to the innermost inlined function. Code outside
    /// of known functions has none.
    pub(crate) fn name_with_inlined(&self, offset: u64) -> CodeName {
        let name = self.name(offset);
        match self.inlined_function(offset).filter(|_| name.function.is_some()) {
            Some(inlined) => {
                let function = Some(inlined.to_string());
                CodeName { function, inlined_into: name.function, ..name }
            }
            None => name,
        }
    }

    /// The file, if there is one.
    pub(crate) fn file(&self) -> Option<&ObjectFile> {
        match &self.names {
            Names::File(file) => Some(file),
            Names::Unknown | Names::Memory(_) => None,
        }
    }

    /// The name of the code at an offset, with its line.
    pub(crate) fn name_with_line(&self, offset: u64) -> CodeName {
        CodeName { line: self.file().and_then(|file| file.line(offset)), ..self.name(offset) }
    }
}
