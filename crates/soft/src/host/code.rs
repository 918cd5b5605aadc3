//! The program's code, as far as it can be translated.

use cyclometer_sys::trace;

use super::maps::{Known, Maps, NoCode};
use crate::translate::{Code, PAGE};

/// Reads the code of a stopped process.
pub(crate) struct Reader<'a> {
    tid: u32,
    known: &'a mut Known,
}

impl Reader<'_> {
    /// `known` is what is known of its mappings.
    pub(crate) fn new(tid: u32, known: &mut Known) -> Reader<'_> {
        Reader { tid, known }
    }

    /// Why code is not taken from an address; `None` where it is, or cannot be read for another reason.
    pub(crate) fn why_not(&mut self, address: u64) -> Option<NoCode> {
        self.maps()?.code_at(address & !(PAGE - 1)).err()
    }

    fn maps(&mut self) -> Option<&Maps> {
        self.known.look(self.tid)
    }
}

impl Code for Reader<'_> {
    fn page(&mut self, address: u64) -> Option<Box<[u8; PAGE as usize]>> {
        self.maps()?.code_at(address).ok()?;
        let mut bytes = Box::new([0; PAGE as usize]);
        let count = trace::read_memory(self.tid, address, &mut bytes[..]).ok()?;
        (count == PAGE as usize).then_some(bytes)
    }
}
