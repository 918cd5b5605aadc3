//! The lines of source code of a file.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use addr2line::Context;
use gimli::Dwarf;

use crate::inlined_functions::SectionBytes;
use crate::source_line::SourceLine;

/// The line tables of a file.
pub(crate) struct LineTables {
    context: Context<SectionBytes>,
    sections: Arc<Dwarf<SectionBytes>>,
    /// Whether the context has left out units that are damaged.
    has_damaged_units: OnceCell<bool>,
    is_damaged: Cell<bool>,
}

impl LineTables {
    /// The tables of these sections.
    ///
    /// # Errors
    ///
    /// The sections are damaged.
    pub(crate) fn of(sections: Dwarf<SectionBytes>) -> gimli::Result<LineTables> {
        #[allow(clippy::arc_with_non_send_sync, reason = "the library asks for an Arc")]
        let sections = Arc::new(sections);
        let context = Context::from_arc_dwarf(Arc::clone(&sections))?;
        let (has_damaged_units, is_damaged) = Default::default();
        Ok(LineTables { context, sections, has_damaged_units, is_damaged })
    }

    /// The line at an address.
    pub(crate) fn line(&self, address: u64) -> Option<SourceLine> {
        let location = match self.context.find_location(address) {
            Ok(Some(location)) => location,
            Ok(None) => {
                if *self.has_damaged_units.get_or_init(|| has_damaged_units(&self.sections)) {
                    self.is_damaged.set(true);
                }
                return None;
            }
            Err(_) => {
                self.is_damaged.set(true);
                return None;
            }
        };
        let file = location.file?.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        Some(SourceLine { file, line: location.line.filter(|line| *line > 0) })
    }

    /// Whether a line that was looked up may be missing because of damage.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged.get()
    }
}

fn has_damaged_units(sections: &Dwarf<SectionBytes>) -> bool {
    let mut headers = sections.units();
    loop {
        match headers.next() {
            Ok(Some(header)) => {
                if sections.unit(header).is_err() {
                    return true;
                }
            }
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}
