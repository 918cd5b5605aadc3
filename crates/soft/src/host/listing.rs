//! The program's list of its own mappings, without ours.
//!
//! Many programs read `/proc/self/maps` when they start, to find their stack, and would count a line more for each
//! mapping of the translator. While such a file is open its reads are answered here, in the portions in which the kernel
//! would give them.

use std::fs;
use std::io;

use cyclometer_sys::trace::{self, Registers};

use super::engine::{Engine, Trouble};
use super::process::Mode;
use super::remote::{Remote, number};
use super::space::Space;

/// The kernel's buffer for such files, in bytes.
///
/// # Source
///
/// Linux `fs/seq_file.c`, `seq_read_iter`: a page; what does not leave a byte of it free waits for the next portion.
const BUFFER: usize = 4096;

/// Most bytes of a path that is compared.
const MOST_PATH: usize = 40;

/// A list that a process reads.
pub(crate) struct Listing {
    descriptor: u64,
    /// Lines of mappings from this address on are still to come.
    next: u64,
    /// What came with the last portion and was not asked for yet.
    rest: Vec<u8>,
}

impl Listing {
    fn new(descriptor: u64) -> Listing {
        Listing { descriptor, next: 0, rest: Vec::new() }
    }

    /// The next bytes, as many as were asked for at most. `text` is the whole list, `is_ours` tells mappings to leave out.
    fn read(&mut self, size: usize, text: &str, is_ours: impl Fn(u64, u64) -> bool) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.rest.drain(..self.rest.len().min(size)).collect();
        if !self.rest.is_empty() || bytes.len() == size {
            return bytes;
        }
        let mut portion: Vec<u8> = Vec::new();
        for line in text.split_inclusive('\n') {
            let Some((start, end)) = range(line) else { continue };
            if start < self.next || is_ours(start, end) {
                continue;
            }
            let full = portion.len() >= size - bytes.len();
            if full || (!portion.is_empty() && portion.len() + line.len() >= BUFFER) {
                break;
            }
            portion.extend_from_slice(line.as_bytes());
            self.next = end;
        }
        let now = portion.len().min(size - bytes.len());
        self.rest = portion.split_off(now);
        bytes.extend(portion);
        bytes
    }
}

fn range(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    Some((hex(start)?, hex(end)?))
}

/// Whether the text at an address names the list of the process's own mappings.
fn names_listing(tid: u32, address: u64) -> bool {
    const START: u64 = u64::from_le_bytes(*b"/proc/\0\0");
    let first = trace::peek(tid, address).unwrap_or(0);
    if first & 0xffff_ffff_ffff != START {
        return false;
    }
    let mut bytes = [0; MOST_PATH];
    let count = trace::read_memory(tid, address, &mut bytes).unwrap_or(0);
    let path = bytes[..count].split(|byte| *byte == 0).next().unwrap_or_default();
    let own = format!("/proc/{tid}/maps");
    [b"/proc/self/maps", b"/proc/thread-self/maps".as_slice(), own.as_bytes()].contains(&path)
}

impl Engine {
    /// A file is about to be opened, whose path is at this address.
    pub(super) fn opens(&mut self, tid: u32, path: u64, registers: Registers) -> Result<(), Trouble> {
        let task = self.task(tid)?;
        let ordinary = task.filtered || task.listing.is_some() || !names_listing(tid, path);
        let Mode::Translated(seat) = &task.mode else { return Err(Trouble::Gone) };
        if ordinary {
            return self.go(tid);
        }
        let Registers { rax, rdi, rsi, rdx, r10, r8, r9, .. } = registers;
        let space = seat.space.clone();
        let remote = Remote { tid, gadget: space.borrow().gadget() };
        match remote.call(rax, [rdi, rsi, rdx, r10, r8, r9]) {
            Ok(descriptor) => {
                self.task(tid)?.listing = Some(Listing::new(descriptor));
                space.borrow_mut().watch_listing(true);
                self.answer_call(tid, registers, descriptor)
            }
            Err(error) => self.answer_call(tid, registers, refusal(&error)),
        }
    }

    /// A descriptor is about to be read.
    pub(super) fn reads(&mut self, tid: u32, registers: Registers) -> Result<(), Trouble> {
        let task = self.task(tid)?;
        let Mode::Translated(seat) = &task.mode else { return Err(Trouble::Gone) };
        let listing = task.listing.as_mut().filter(|listing| listing.descriptor == registers.rdi);
        let Some(listing) = listing else { return self.go(tid) };
        let text = fs::read(format!("/proc/{tid}/maps"))?;
        let space = seat.space.borrow();
        let size = usize::try_from(registers.rdx).unwrap_or(usize::MAX);
        let bytes =
            listing.read(size, &String::from_utf8_lossy(&text), |start, end| space.overlaps(start, end));
        drop(space);
        let written = if bytes.is_empty() { Ok(0) } else { trace::write_memory(tid, registers.rsi, &bytes) };
        let result = match written {
            Ok(count) if count == bytes.len() => count as u64,
            _ => -super::calls::EFAULT as u64,
        };
        self.answer_call(tid, registers, result)
    }

    /// A descriptor is about to be closed.
    pub(super) fn closes(&mut self, tid: u32, registers: Registers) -> Result<(), Trouble> {
        let task = self.task(tid)?;
        if task.listing.as_ref().is_some_and(|listing| listing.descriptor == registers.rdi) {
            task.listing = None;
            if let Mode::Translated(seat) = &task.mode {
                seat.space.borrow_mut().watch_listing(false);
            }
        }
        self.go(tid)
    }

    /// Goes on behind a system call that is not made, with its result.
    pub(super) fn answer_call(&mut self, tid: u32, registers: Registers, rax: u64) -> Result<(), Trouble> {
        let behind = Registers { rax, rip: registers.rip + 2, r11: registers.eflags, ..registers };
        trace::set_registers(tid, &behind)?;
        self.go(tid)
    }
}

/// What a system call returns that was refused.
fn refusal(error: &io::Error) -> u64 {
    -i64::from(error.raw_os_error().unwrap_or(cyclometer_sys::process::errno::EACCES)) as u64
}

impl Space {
    /// Looks at reads and closes while a process of ours has its list open.
    pub(crate) fn watch_listing(&mut self, opened: bool) {
        self.listings = if opened { self.listings + 1 } else { self.listings.saturating_sub(1) };
        for number in [number::READ, number::CLOSE] {
            self.watch(number, self.listings > 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> String {
        (0..200)
            .map(|i| format!("{:08x}-{:08x} r--p 0 00:00 0 /lib/{i}\n", i * 0x2000, i * 0x2000 + 0x1000))
            .collect()
    }

    fn read_all(size: usize, ours: &dyn Fn(u64, u64) -> bool) -> (Vec<usize>, String) {
        let (mut listing, mut sizes, mut all) = (Listing::new(3), Vec::new(), Vec::new());
        loop {
            let bytes = listing.read(size, &text(), ours);
            if bytes.is_empty() {
                return (sizes, String::from_utf8(all).unwrap());
            }
            sizes.push(bytes.len());
            all.extend(bytes);
        }
    }

    #[test]
    fn small_reads_are_filled_and_large_ones_end_with_a_line() {
        let whole = text();
        let (sizes, all) = read_all(1024, &|_, _| false);
        assert_eq!(all, whole);
        assert!(sizes[..sizes.len() - 1].iter().all(|size| *size == 1024), "{sizes:?}");
        let (sizes, all) = read_all(1 << 20, &|_, _| false);
        assert_eq!(all, whole);
        assert!(sizes.iter().all(|size| *size < BUFFER) && sizes[0] > BUFFER - 60, "{sizes:?}");
    }

    #[test]
    fn what_is_ours_is_left_out() {
        let (_, all) = read_all(100, &|start, _| start == 0x4000);
        assert_eq!(all, text().replace("00004000-00005000 r--p 0 00:00 0 /lib/2\n", ""));
    }
}
