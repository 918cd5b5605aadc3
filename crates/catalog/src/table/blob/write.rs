//! Writes tables as bytes.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterMask, EventCode};

use super::{BlobPart, HEAD, MAGIC, SECTIONS, WHOLE, flag, hash};
use crate::table::model::{CpuTable, TableEvent};

/// Too many items of a kind for the layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooMany(pub &'static str);

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the tables have too many {}", self.0)
    }
}

impl std::error::Error for TooMany {}

/// Tables as bytes.
///
/// # Errors
///
/// [`TooMany`] names, definitions, masks or errata: more than 65,535.
pub fn write(tables: &[CpuTable]) -> Result<Vec<u8>, TooMany> {
    let mut tables: Vec<&CpuTable> = tables.iter().collect();
    tables.sort_by(|a, b| a.header.cpu.cmp(&b.header.cpu));
    let mut writer = Writer::new(&tables)?;
    for table in &tables {
        writer.cpu(table)?;
    }
    Ok(writer.finish(tables.len()))
}

struct Writer {
    parts: [Vec<u8>; SECTIONS],
    texts: HashMap<String, u32>,
    /// Number of each name as it is spelled.
    names: HashMap<String, u16>,
    masks: HashMap<CounterMask, u16>,
    defs: HashMap<Vec<u8>, u16>,
    lists: HashMap<Vec<u16>, u16>,
    strings: HashMap<String, u16>,
    counts: [u32; SECTIONS],
}

fn number(count: usize, what: &'static str) -> Result<u16, TooMany> {
    u16::try_from(count).map_err(|_| TooMany(what))
}

impl Writer {
    fn new(tables: &[&CpuTable]) -> Result<Writer, TooMany> {
        let mut writer = Writer {
            parts: Default::default(),
            texts: HashMap::new(),
            names: HashMap::new(),
            masks: HashMap::new(),
            defs: HashMap::new(),
            lists: HashMap::new(),
            strings: HashMap::new(),
            counts: [0; SECTIONS],
        };
        writer.list(&[])?;
        writer.string("")?;
        writer.names(tables)?;
        Ok(writer)
    }

    fn part(&mut self, section: BlobPart) -> &mut Vec<u8> {
        &mut self.parts[section as usize]
    }

    fn count(&mut self, section: BlobPart) -> usize {
        self.counts[section as usize] += 1;
        self.counts[section as usize] as usize - 1
    }

    /// The offset and length of a text.
    fn text(&mut self, text: &str) -> [u8; 8] {
        let at = match self.texts.get(text) {
            Some(at) => *at,
            None => {
                let at = self.part(BlobPart::Text).len() as u32;
                self.part(BlobPart::Text).extend_from_slice(text.as_bytes());
                self.texts.insert(text.to_owned(), at);
                at
            }
        };
        let mut place = [0; 8];
        place[..4].copy_from_slice(&at.to_le_bytes());
        place[4..].copy_from_slice(&(text.len() as u32).to_le_bytes());
        place
    }

    /// Every name, sorted, and the table of their hashes.
    fn names(&mut self, tables: &[&CpuTable]) -> Result<(), TooMany> {
        let events = tables.iter().flat_map(|table| &table.events);
        let all: BTreeSet<(String, &String)> = events
            .flat_map(|event| std::iter::once(&event.name).chain(&event.aliases))
            .map(|name| (name.to_ascii_lowercase(), name))
            .collect();
        let slots = (all.len() * 2).next_power_of_two().max(2);
        let mut table = vec![0u16; slots];
        let mut last = String::new();
        for (folded, name) in all {
            let id = number(self.count(BlobPart::Names) + 1, "names")? - 1;
            let place = self.text(name);
            self.part(BlobPart::Names).extend(place);
            self.names.insert(name.clone(), id);
            // Spellings that differ by case are adjacent; the hash finds the first.
            if folded == last {
                continue;
            }
            let mut slot = hash(&folded) as usize % slots;
            while table[slot] != 0 {
                slot = (slot + 1) % slots;
            }
            table[slot] = id + 1;
            last = folded;
        }
        self.counts[BlobPart::Hash as usize] = slots as u32;
        self.parts[BlobPart::Hash as usize] = table.iter().flat_map(|id| id.to_le_bytes()).collect();
        Ok(())
    }

    /// A mask of counters; an empty one where they are unknown.
    fn mask(&mut self, mask: Option<CounterMask>) -> Result<u16, TooMany> {
        let mask = mask.unwrap_or(CounterMask::EMPTY);
        if let Some(known) = self.masks.get(&mask) {
            return Ok(*known);
        }
        let id = number(self.count(BlobPart::Masks), "counter masks")?;
        self.part(BlobPart::Masks).extend(mask.general_bits().to_le_bytes());
        self.part(BlobPart::Masks).extend(mask.fixed_bits().to_le_bytes());
        self.masks.insert(mask, id);
        Ok(id)
    }

    /// A list of definitions: the position of its number, in units of 2 bytes.
    fn list(&mut self, defs: &[u16]) -> Result<u16, TooMany> {
        if let Some(known) = self.lists.get(defs) {
            return Ok(*known);
        }
        let at = number(self.part(BlobPart::Lists).len() / 2, "other codes")?;
        let count = number(defs.len(), "other codes")?;
        self.part(BlobPart::Lists).extend(count.to_le_bytes());
        self.part(BlobPart::Lists).extend(defs.iter().flat_map(|id| id.to_le_bytes()));
        self.lists.insert(defs.to_vec(), at);
        Ok(at)
    }

    fn string(&mut self, text: &str) -> Result<u16, TooMany> {
        if let Some(known) = self.strings.get(text) {
            return Ok(*known);
        }
        let id = number(self.count(BlobPart::Strings), "lists of errata")?;
        let place = self.text(text);
        self.part(BlobPart::Strings).extend(place);
        self.strings.insert(text.to_owned(), id);
        Ok(id)
    }

    fn event(&mut self, event: &TableEvent) -> Result<u16, TooMany> {
        let mut also = Vec::new();
        for other in &event.also {
            also.push(self.def(&other.code, None, other.counters, 0, &[], "")?);
        }
        let mut flags = if event.deprecated { flag::DEPRECATED } else { 0 };
        flags |= if event.taken_alone { flag::ALONE } else { 0 };
        self.def(&event.code, event.config, event.counters, flags, &also, &event.errata.join(","))
    }

    fn def(
        &mut self,
        code: &EventCode,
        config: Option<u64>,
        counters: Option<CounterMask>,
        mut flags: u8,
        also: &[u16],
        errata: &str,
    ) -> Result<u16, TooMany> {
        let EventCode { select, umask, umask2, cmask, inv, edge, eq, any, extra } = *code;
        let bits = [
            (inv, flag::INV),
            (edge, flag::EDGE),
            (eq, flag::EQ),
            (any, flag::ANY),
            (config.is_some(), flag::CONFIG),
        ];
        bits.iter().filter(|(set, _)| *set).for_each(|(_, bit)| flags |= bit);
        let register = extra.map_or(0, |extra| extra.register.msr()) as u16;
        let value = config.or(extra.map(|extra| extra.value)).unwrap_or(0);
        let mut bytes = select.to_le_bytes().to_vec();
        bytes.extend([umask, umask2, cmask, flags]);
        bytes.extend(register.to_le_bytes());
        bytes.extend(self.mask(counters)?.to_le_bytes());
        bytes.extend(self.list(also)?.to_le_bytes());
        bytes.extend(self.string(errata)?.to_le_bytes());
        bytes.extend([0, 0]);
        bytes.extend(value.to_le_bytes());
        if let Some(known) = self.defs.get(&bytes) {
            return Ok(*known);
        }
        let id = number(self.count(BlobPart::Defs), "definitions")?;
        self.part(BlobPart::Defs).extend(&bytes);
        self.defs.insert(bytes, id);
        Ok(id)
    }

    fn cpu(&mut self, table: &CpuTable) -> Result<(), TooMany> {
        let rows_at = self.counts[BlobPart::Rows as usize];
        let codes_at = self.counts[BlobPart::Codes as usize];
        let rows = self.rows(table)?;
        let codes = self.counts[BlobPart::Codes as usize] - codes_at;
        let generic_at = self.counts[BlobPart::Generic as usize];
        for generic in &table.generic {
            let name = self.text(&generic.name);
            self.count(BlobPart::Generic);
            self.part(BlobPart::Generic).extend(name);
            self.part(BlobPart::Generic).extend(generic.config.to_le_bytes());
            self.part(BlobPart::Generic).extend(generic.config1.to_le_bytes());
        }
        let header = &table.header;
        let family = Family::ALL.iter().position(|family| *family == header.family).unwrap_or(0);
        let texts = [
            header.cpu.clone(),
            header.title.clone(),
            header.version.clone(),
            header.date.clone(),
            header.licence.clone(),
            header.matches.join("\n"),
            header.sources.join("\n"),
        ];
        let mut record: Vec<u8> = Vec::new();
        texts.iter().for_each(|text| record.extend(self.text(text)));
        let small = [
            family as u32,
            header.pmu_version.unwrap_or(0),
            header.selector_bits.unwrap_or(0),
            header.counter_width.map_or(0, |width| width.bits),
            header.counter_width.map_or(0, |width| width.overflow_bit),
            0,
        ];
        record.extend(small.iter().map(|n| *n as u8));
        record.extend([0, 0]);
        record.extend(header.counters.general_bits().to_le_bytes());
        record.extend(header.counters.fixed_bits().to_le_bytes());
        let counts = [rows_at, rows, generic_at, table.generic.len() as u32, codes_at, codes];
        record.extend(counts.iter().flat_map(|n| n.to_le_bytes()));
        debug_assert_eq!(record.len(), super::CPU);
        self.count(BlobPart::Cpus);
        self.part(BlobPart::Cpus).extend(record);
        Ok(())
    }

    /// The rows of a CPU and their order by code; returns their number.
    fn rows(&mut self, table: &CpuTable) -> Result<u32, TooMany> {
        let mut rows = BTreeSet::new();
        let mut codes = BTreeSet::new();
        for event in &table.events {
            let def = self.event(event)?;
            let own = self.names[&event.name];
            if let Some(config) = event.config {
                codes.insert((Key::whole(config), own, WHOLE));
            }
            if event.config.is_none() || event.code != EventCode::default() {
                codes.insert((Key::of(&event.code), own, 0));
            }
            for (i, also) in event.also.iter().enumerate() {
                codes.insert((Key::of(&also.code), own, number(i + 1, "other codes")?));
            }
            for name in std::iter::once(&event.name).chain(&event.aliases) {
                rows.insert((self.names[name], def, own));
            }
        }
        let position: HashMap<u16, u16> =
            rows.iter().enumerate().map(|(i, (name, _, _))| (*name, i as u16)).collect();
        for (name, def, own) in &rows {
            self.count(BlobPart::Rows);
            self.part(BlobPart::Rows).extend([name, def, own].iter().flat_map(|n| n.to_le_bytes()));
        }
        number(rows.len(), "events of one CPU")?;
        for (_, name, which) in codes {
            self.count(BlobPart::Codes);
            self.part(BlobPart::Codes).extend([position[&name], which].iter().flat_map(|n| n.to_le_bytes()));
        }
        Ok(rows.len() as u32)
    }

    fn finish(mut self, cpus: usize) -> Vec<u8> {
        debug_assert_eq!(self.counts[BlobPart::Cpus as usize] as usize, cpus);
        self.counts[BlobPart::Text as usize] = self.part(BlobPart::Text).len() as u32;
        let mut bytes = MAGIC.to_vec();
        let mut at = HEAD as u32;
        for (part, count) in self.parts.iter().zip(self.counts) {
            bytes.extend(at.to_le_bytes());
            bytes.extend(count.to_le_bytes());
            at += part.len() as u32;
        }
        self.parts.iter().for_each(|part| bytes.extend(part));
        bytes
    }
}

/// The sort key of codes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    whole: bool,
    code: u64,
    register: u32,
    value: u64,
}

impl Key {
    /// The key of a whole config.
    pub(super) fn whole(config: u64) -> Key {
        Key { whole: true, code: config, register: 0, value: 0 }
    }

    /// The key of select, unit masks and extra register.
    pub(super) fn of(code: &EventCode) -> Key {
        let fields = u64::from(code.select) << 16 | u64::from(code.umask) << 8 | u64::from(code.umask2);
        let (register, value) = code.extra.map_or((0, 0), |extra| (extra.register.msr(), extra.value));
        Key { whole: false, code: fields, register, value }
    }
}
