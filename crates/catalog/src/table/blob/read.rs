//! Reads the bytes in place.

use std::cmp::Ordering;

use cyclometer_core::event::{ExtraRegister, ExtraRegisterKind};
use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterMask, CounterWidth, EventCode};

use super::write::Key;
use super::{BlobPart, CODE, CPU, DEF, GENERIC, HEAD, MAGIC, ROW, SECTIONS, STRING, WHOLE, flag, hash};
use crate::table::model::{Also, Generic};

/// Tables as bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Blob<'a> {
    bytes: &'a [u8],
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

impl<'a> Blob<'a> {
    /// Takes bytes that [`write`](super::write) made; `None` for other bytes.
    pub const fn new(bytes: &'a [u8]) -> Option<Blob<'a>> {
        if bytes.len() < HEAD {
            return None;
        }
        let mut i = 0;
        while i < MAGIC.len() {
            if bytes[i] != MAGIC[i] {
                return None;
            }
            i += 1;
        }
        Some(Blob { bytes })
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is no CPU.
    pub fn is_empty(&self) -> bool {
        self.count(BlobPart::Cpus) == 0
    }

    fn at(&self, section: BlobPart) -> usize {
        u32_at(self.bytes, 8 + 8 * section as usize) as usize
    }

    fn count(&self, section: BlobPart) -> usize {
        const { assert!(BlobPart::Strings as usize == SECTIONS - 1) };
        u32_at(self.bytes, 12 + 8 * section as usize) as usize
    }

    fn record(&self, section: BlobPart, size: usize, index: usize) -> &'a [u8] {
        let at = self.at(section) + size * index;
        self.bytes.get(at..at + size).unwrap_or_default()
    }

    fn bytes_of(&self, place: &[u8]) -> &'a [u8] {
        let at = self.at(BlobPart::Text) + u32_at(place, 0) as usize;
        self.bytes.get(at..at + u32_at(place, 4) as usize).unwrap_or_default()
    }

    fn text(&self, place: &[u8]) -> &'a str {
        std::str::from_utf8(self.bytes_of(place)).unwrap_or_default()
    }

    fn name(&self, id: u16) -> &'a str {
        self.text(self.record(BlobPart::Names, STRING, id.into()))
    }

    /// The number of a name, in any case.
    fn name_id(&self, name: &str) -> Option<u16> {
        // The length is a power of two.
        let last = self.count(BlobPart::Hash).checked_sub(1)?;
        let mut slot = hash(name) as usize & last;
        loop {
            let id = u16_at(self.record(BlobPart::Hash, 2, slot), 0).checked_sub(1)?;
            let known = self.bytes_of(self.record(BlobPart::Names, STRING, id.into()));
            if known.eq_ignore_ascii_case(name.as_bytes()) {
                return Some(id);
            }
            slot = (slot + 1) & last;
        }
    }

    /// Every CPU, by id.
    pub fn cpus(self) -> impl DoubleEndedIterator<Item = Cpu<'a>> + ExactSizeIterator {
        (0..self.count(BlobPart::Cpus)).map(move |i| self.cpu_at(i))
    }

    fn cpu_at(self, index: usize) -> Cpu<'a> {
        Cpu { blob: self, record: self.record(BlobPart::Cpus, CPU, index) }
    }

    /// The CPU with an id, in any case.
    pub fn cpu(self, id: &str) -> Option<Cpu<'a>> {
        let id = id.to_ascii_lowercase();
        let found = search(self.count(BlobPart::Cpus), |i| self.cpu_at(i).id().cmp(&id));
        found.map(|i| self.cpu_at(i))
    }

    /// Every name of every CPU, aliases included, by name.
    pub fn names(self) -> impl ExactSizeIterator<Item = &'a str> {
        (0..self.count(BlobPart::Names)).map(move |i| self.name(i as u16))
    }
}

impl std::fmt::Debug for Blob<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Blob({} CPUs, {} bytes)", self.count(BlobPart::Cpus), self.bytes.len())
    }
}

/// Any position at which the order is equal.
fn search(count: usize, order: impl Fn(usize) -> Ordering) -> Option<usize> {
    let first = first_not_less(count, &order);
    (first < count && order(first) == Ordering::Equal).then_some(first)
}

/// The first position that is not less.
fn first_not_less(count: usize, order: impl Fn(usize) -> Ordering) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if order(middle) == Ordering::Less { low = middle + 1 } else { high = middle }
    }
    low
}

/// One CPU, or one core type of a hybrid, of the catalogue.
#[derive(Clone, Copy)]
pub struct Cpu<'a> {
    blob: Blob<'a>,
    record: &'a [u8],
}

impl<'a> Cpu<'a> {
    fn string(&self, index: usize) -> &'a str {
        self.blob.text(&self.record[8 * index..])
    }

    fn small(&self, index: usize) -> u32 {
        self.record.get(7 * 8 + index).copied().unwrap_or(0).into()
    }

    fn number(&self, index: usize) -> usize {
        u32_at(self.record, 80 + 4 * index) as usize
    }

    /// Its id: `skylake`, `alderlake/core`, `apple-m1`.
    pub fn id(&self) -> &'a str {
        self.string(0)
    }

    /// The common name; empty if the table has none.
    pub fn title(&self) -> &'a str {
        self.string(1)
    }

    /// Version of the vendor's file.
    pub fn version(&self) -> &'a str {
        self.string(2)
    }

    /// Date of the vendor's file, `2026-03-24`; empty where it has none.
    pub fn date(&self) -> &'a str {
        self.string(3)
    }

    /// The licence under which the source is published.
    pub fn licence(&self) -> &'a str {
        self.string(4)
    }

    /// The CPUs of this table, in the vendor's terms.
    pub fn matches(&self) -> impl Iterator<Item = &'a str> {
        self.string(5).lines()
    }

    /// The sources of its facts.
    pub fn sources(&self) -> impl Iterator<Item = &'a str> {
        self.string(6).lines()
    }

    /// The layout of its registers.
    pub fn family(&self) -> Family {
        Family::ALL[(self.small(0) as usize).min(Family::ALL.len() - 1)]
    }

    /// Version of the architecture's PMU; `None` where there is none.
    pub fn pmu_version(&self) -> Option<u32> {
        Some(self.small(1)).filter(|version| *version != 0)
    }

    /// Bits of the event select field; `None` when unknown.
    pub fn selector_bits(&self) -> Option<u32> {
        Some(self.small(2)).filter(|bits| *bits != 0)
    }

    /// Width of the counters; `None` when unknown.
    pub fn counter_width(&self) -> Option<CounterWidth> {
        let width = CounterWidth { bits: self.small(3), overflow_bit: self.small(4) };
        (width.bits != 0).then_some(width)
    }

    /// The CPU's counters.
    pub fn counters(&self) -> CounterMask {
        CounterMask::from_bits(u64_at(self.record, 64), u64_at(self.record, 72))
    }

    /// The kernel's encodings of its generic events.
    pub fn generic(&self) -> impl Iterator<Item = Generic> + use<'a> {
        let (blob, first) = (self.blob, self.number(2));
        (first..first + self.number(3)).map(move |i| {
            let record = blob.record(BlobPart::Generic, GENERIC, i);
            Generic {
                name: blob.text(record).to_owned(),
                config: u64_at(record, STRING),
                config1: u64_at(record, STRING + 8),
            }
        })
    }

    fn row(&self, index: usize) -> Entry<'a> {
        let row = self.blob.record(BlobPart::Rows, ROW, self.number(0) + index);
        let def = self.blob.record(BlobPart::Defs, DEF, u16_at(row, 2).into());
        Entry { blob: self.blob, cpu: self.record, name: u16_at(row, 0), own: u16_at(row, 4), def }
    }

    fn rows(&self) -> usize {
        self.number(1)
    }

    /// Its events, by name.
    pub fn events(self) -> impl Iterator<Item = Entry<'a>> {
        (0..self.rows()).map(move |i| self.row(i)).filter(|entry| entry.name == entry.own)
    }

    /// Its aliases, by name, with their events.
    pub fn aliases(self) -> impl Iterator<Item = (&'a str, Entry<'a>)> {
        let others = (0..self.rows()).map(move |i| self.row(i)).filter(|row| row.name != row.own);
        others.map(|row| (row.blob.name(row.name), Entry { name: row.own, ..row }))
    }

    /// The event with a name or alias, in any case.
    pub fn event(&self, name: &str) -> Option<Entry<'a>> {
        let mut id = self.blob.name_id(name)?;
        let rows_at = self.blob.at(BlobPart::Rows) + ROW * self.number(0);
        loop {
            let found = search(self.rows(), |i| u16_at(self.blob.bytes, rows_at + ROW * i).cmp(&id));
            if let Some(found) = found {
                let entry = self.row(found);
                return Some(Entry { name: entry.own, ..entry });
            }
            // Another CPU may spell it otherwise; then this CPU's spelling is the next one.
            id = id.checked_add(1).filter(|next| self.blob.name(*next).eq_ignore_ascii_case(name))?;
        }
    }

    /// The events with a code of these selects, unit masks and extra register; or, if one is given, those
    /// with this whole config.
    pub fn by_code(
        &self,
        code: &EventCode,
        config: Option<u64>,
    ) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        let key = config.map_or_else(|| Key::of(code), Key::whole);
        let (cpu, codes) = (*self, self.number(5));
        let first = first_not_less(codes, |i| cpu.key(i).cmp(&key));
        let same = move |i: &usize| cpu.key(*i) == key;
        (first..codes).take_while(same).map(move |i| cpu.row(u16_at(cpu.code(i), 0).into()))
    }

    fn code(&self, index: usize) -> &'a [u8] {
        self.blob.record(BlobPart::Codes, CODE, self.number(4) + index)
    }

    fn key(&self, index: usize) -> Key {
        let code = self.code(index);
        let entry = self.row(u16_at(code, 0).into());
        match u16_at(code, 2) {
            WHOLE => Key::whole(entry.config().unwrap_or(0)),
            0 => Key::of(&entry.code()),
            i => Key::of(&entry.other(i.into()).code()),
        }
    }
}

impl std::fmt::Debug for Cpu<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cpu({}, {} names)", self.id(), self.rows())
    }
}

/// One event of one CPU of the catalogue.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    blob: Blob<'a>,
    cpu: &'a [u8],
    name: u16,
    own: u16,
    def: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The vendor's name.
    pub fn name(&self) -> &'a str {
        self.blob.name(self.own)
    }

    /// Other names of the event on its CPU.
    pub fn aliases(self) -> impl Iterator<Item = &'a str> {
        let cpu = Cpu { blob: self.blob, record: self.cpu };
        (0..cpu.rows())
            .map(move |i| cpu.row(i))
            .filter(move |other| other.own == self.own && other.name != self.own)
            .map(|other| other.blob.name(other.name))
    }

    fn flag(&self, bit: u8) -> bool {
        self.def.get(5).is_some_and(|flags| flags & bit != 0)
    }

    fn value(&self) -> u64 {
        u64_at(self.def, 16)
    }

    /// The code for a counter; for a fixed event, the vendor's pseudo code.
    pub fn code(&self) -> EventCode {
        let byte = |at: usize| self.def.get(at).copied().unwrap_or(0);
        let register = ExtraRegisterKind::from_msr(u16_at(self.def, 6).into());
        EventCode {
            select: u16_at(self.def, 0),
            umask: byte(2),
            umask2: byte(3),
            cmask: byte(4),
            inv: self.flag(flag::INV),
            edge: self.flag(flag::EDGE),
            eq: self.flag(flag::EQ),
            any: self.flag(flag::ANY),
            extra: register.map(|register| ExtraRegister { register, value: self.value() }),
        }
    }

    /// The whole config word, if the event has no select and unit mask.
    pub fn config(&self) -> Option<u64> {
        self.flag(flag::CONFIG).then(|| self.value())
    }

    /// The counters that may count it; `None` if the vendor names none.
    pub fn counters(&self) -> Option<CounterMask> {
        let masks = self.blob.record(BlobPart::Masks, 16, u16_at(self.def, 8).into());
        let mask = CounterMask::from_bits(u64_at(masks, 0), u64_at(masks, 8));
        (!mask.is_empty()).then_some(mask)
    }

    /// Codes that count the same with another extra register.
    pub fn also(self) -> impl Iterator<Item = Also> + use<'a> {
        (1..=self.others()).map(move |i| {
            let other = self.other(i);
            Also { code: other.code(), counters: other.counters() }
        })
    }

    fn list(&self) -> usize {
        self.blob.at(BlobPart::Lists) + 2 * usize::from(u16_at(self.def, 10))
    }

    /// The number of other codes.
    fn others(&self) -> usize {
        u16_at(self.blob.bytes, self.list()).into()
    }

    /// The same event by another of its codes, from 1.
    fn other(self, i: usize) -> Entry<'a> {
        let def = u16_at(self.blob.bytes, self.list() + 2 * i);
        Entry { def: self.blob.record(BlobPart::Defs, DEF, def.into()), ..self }
    }

    /// Whether the vendor deprecates it.
    pub fn deprecated(&self) -> bool {
        self.flag(flag::DEPRECATED)
    }

    /// Whether no other event may be counted while it is sampled.
    pub fn taken_alone(&self) -> bool {
        self.flag(flag::ALONE)
    }

    /// Names of its errata.
    pub fn errata(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let place = self.blob.record(BlobPart::Strings, STRING, u16_at(self.def, 12).into());
        self.blob.text(place).split(',').filter(|name| !name.is_empty())
    }
}

impl std::fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Entry({})", self.name())
    }
}
