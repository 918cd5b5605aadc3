//! Tables as text: one line per fact and per event, easy to read and to compare.
//!
//! ```text
//! cyclometer-events 1
//! cpu skylake
//! layout intel
//! match GenuineIntel-6-4e
//! counters general=0xff fixed=0x7 width=48 overflow=48 selector=8 version=4
//! [generic]
//! cache-misses 0x412e
//! [events]
//! BR_MISP_RETIRED.ALL_BRANCHES event=0xc5 counters=0xff
//! ```
//!
//! An event's line has its name and the facts that differ from 0. `event`, `umask`, `umask2` and `cmask` have
//! a number; `inv`, `edge`, `eq` and `any` have none. `extra=MSR:VALUE` is an extra register, and `config` a
//! whole word. `counters` and `fixed` have masks, `alias`, `also` (all of the above, separated by commas) and
//! `errata` lists. `deprecated` and `alone` have no value. `#` starts a comment.

use std::collections::HashSet;
use std::fmt::{self, Write as _};

use cyclometer_core::event::{ExtraRegister, ExtraRegisterKind};
use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterMask, CounterWidth, EventCode};

use super::model::{Also, CpuTable, Generic, Header, TableEvent};

/// The first line of a table.
pub const FIRST_LINE: &str = "cyclometer-events 1";

/// The longest table that is read, in bytes.
pub const MAX_BYTES: usize = 16 << 20;

/// The longest name of an event or CPU, in bytes.
pub const MAX_NAME: usize = 200;

/// An error in a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableError {
    /// The line, from 1.
    pub line: usize,
    /// The description of the error.
    pub message: String,
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for TableError {}

type LineResult<T> = Result<T, String>;

/// Reads a table.
///
/// # Errors
///
/// The first line that is no part of a table; a duplicate event; a table that is too long. An event must also
/// fit the CPU's select field and counters, if the header has them.
pub fn read(text: &str) -> Result<CpuTable, TableError> {
    let at = |line: usize, message: String| TableError { line: line + 1, message };
    if text.len() > MAX_BYTES {
        return Err(at(0, format!("the table has {} bytes; at most {MAX_BYTES} are read", text.len())));
    }
    if text.lines().next().map(str::trim_end) != Some(FIRST_LINE) {
        return Err(at(0, format!("a table starts with the line '{FIRST_LINE}'")));
    }
    let mut reader = TableReader::default();
    for (i, line) in text.lines().enumerate().skip(1) {
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            reader.line(line).map_err(|message| at(i, message))?;
        }
    }
    if reader.table.header.cpu.is_empty() {
        return Err(at(0, "the table names no cpu".to_owned()));
    }
    Ok(reader.table)
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum TableSection {
    #[default]
    Header,
    Generic,
    Events,
}

#[derive(Default)]
struct TableReader {
    table: CpuTable,
    section: TableSection,
    names: HashSet<String>,
}

impl TableReader {
    fn line(&mut self, line: &str) -> LineResult<()> {
        match (line, self.section) {
            ("[generic]", _) => self.section = TableSection::Generic,
            ("[events]", _) => self.section = TableSection::Events,
            (_, TableSection::Header) => header_line(&mut self.table.header, line)?,
            (_, TableSection::Generic) => self.table.generic.push(generic_line(line)?),
            (_, TableSection::Events) => {
                let event = event_line(line)?;
                fits(&self.table.header, &event).map_err(|why| format!("{}: {why}", event.name))?;
                for name in std::iter::once(&event.name).chain(&event.aliases) {
                    if !self.names.insert(name.to_ascii_lowercase()) {
                        return Err(format!("the event {name} is there twice"));
                    }
                }
                self.table.events.push(event);
            }
        }
        Ok(())
    }
}

fn header_line(header: &mut Header, line: &str) -> LineResult<()> {
    let (key, value) = line.split_once(' ').ok_or_else(|| format!("'{line}' has no value"))?;
    let value = value.trim();
    match key {
        "cpu" => header.cpu = name(value)?,
        "title" => header.title = value.to_owned(),
        "layout" => header.family = family(value)?,
        "match" => header.matches.push(value.to_owned()),
        "counters" => counters(header, value)?,
        "version" => header.version = value.to_owned(),
        "date" => header.date = value.to_owned(),
        "source" => header.sources.push(value.to_owned()),
        "licence" => header.licence = value.to_owned(),
        _ => return Err(format!("'{key}' is no fact of a CPU")),
    }
    Ok(())
}

fn family(word: &str) -> LineResult<Family> {
    let found = Family::ALL.into_iter().find(|family| family.word() == word);
    found.ok_or_else(|| format!("'{word}' is no layout; there are intel, amd, arm, riscv, apple"))
}

fn counters(header: &mut Header, line: &str) -> LineResult<()> {
    let (mut general, mut fixed, mut width, mut overflow) = (0, 0, 0, 0);
    for token in line.split_whitespace() {
        let (key, value) = token.split_once('=').ok_or_else(|| format!("'{token}' has no value"))?;
        let value = number(value)?;
        match key {
            "general" => general = value,
            "fixed" => fixed = value,
            "width" => width = small(value, 64)? as u32,
            "overflow" => overflow = small(value, 64)? as u32,
            "selector" => header.selector_bits = Some(small(value, 64)? as u32).filter(|bits| *bits != 0),
            "version" => header.pmu_version = Some(small(value, 255)? as u32).filter(|version| *version != 0),
            _ => return Err(format!("'{key}' is nothing that counters have")),
        }
    }
    header.counters = CounterMask::from_bits(general, fixed);
    header.counter_width = counter_width(width, overflow)?;
    Ok(())
}

/// The width of counters as a table has it: 0 stands for what it does not say. Counters of a width alone
/// overflow by a carry.
fn counter_width(bits: u32, overflow_bit: u32) -> LineResult<Option<CounterWidth>> {
    match (bits, overflow_bit) {
        (0, 0) => Ok(None),
        (_, 0) => Ok(Some(CounterWidth::carrying(bits))),
        _ if overflow_bit <= bits => Ok(Some(CounterWidth { bits, overflow_bit })),
        (0, _) => Err(format!("overflow={overflow_bit} needs the width of the counters: width=48")),
        _ => Err(format!("overflow={overflow_bit} is beyond the {bits} bits of a counter")),
    }
}

fn generic_line(line: &str) -> LineResult<Generic> {
    let mut words = line.split_whitespace();
    let name = name(words.next().unwrap_or_default())?;
    let config = number(words.next().ok_or_else(|| format!("{name} has no config"))?)?;
    let config1 = words.next().map_or(Ok(0), number)?;
    match words.next() {
        None => Ok(Generic { name, config, config1 }),
        Some(more) => Err(format!("'{more}' behind the config words of {name}")),
    }
}

fn event_line(line: &str) -> LineResult<TableEvent> {
    let mut words = line.split_whitespace();
    let mut event = TableEvent { name: name(words.next().unwrap_or_default())?, ..TableEvent::default() };
    for word in words {
        fact(&mut event, word).map_err(|message| format!("{}: {message}", event.name))?;
    }
    Ok(event)
}

/// Checks that every code of an event fits the select field, and names counters of the CPU.
fn fits(header: &Header, event: &TableEvent) -> LineResult<()> {
    let also = event.also.iter().map(|also| (also.code, also.counters));
    std::iter::once((event.code, event.counters)).chain(also).try_for_each(|(code, counters)| {
        if let Some(bits) = header.selector_bits.filter(|bits| *bits < 16) {
            small(code.select.into(), (1 << bits) - 1)?;
        }
        counters.map_or(Ok(()), |counters| there_are(header.counters, counters))
    })
}

/// Checks that counters are among those of the CPU. No CPU has only fixed counters: then the general ones are
/// unknown.
fn there_are(all: CounterMask, used: CounterMask) -> LineResult<()> {
    let general = if all.general_bits() == 0 { u64::MAX } else { all.general_bits() };
    let fixed = if all.is_empty() { u64::MAX } else { all.fixed_bits() };
    match (used.general_bits() & !general, used.fixed_bits() & !fixed) {
        (0, 0) => Ok(()),
        (0, beyond) => Err(format!("fixed={beyond:#x} are no counters of this CPU, which has {fixed:#x}")),
        (beyond, _) => Err(format!("counters={beyond:#x} are none of this CPU, which has {general:#x}")),
    }
}

fn fact(event: &mut TableEvent, word: &str) -> LineResult<()> {
    match word.split_once('=').unwrap_or((word, "")) {
        ("alias", value) => event.aliases.push(name(value)?),
        ("errata", value) => event.errata.extend(value.split(',').map(str::to_owned)),
        ("config", value) => event.config = Some(number(value)?),
        ("also", value) => event.also.push(also(value)?),
        ("deprecated", "") => event.deprecated = true,
        ("alone", "") => event.taken_alone = true,
        (key, value) => field(&mut event.code, &mut event.counters, key, value)?,
    }
    Ok(())
}

fn also(list: &str) -> LineResult<Also> {
    let mut also = Also { code: EventCode::default(), counters: None };
    for word in list.split(',') {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        field(&mut also.code, &mut also.counters, key, value)?;
    }
    Ok(also)
}

fn field(code: &mut EventCode, counters: &mut Option<CounterMask>, key: &str, value: &str) -> LineResult<()> {
    match (key, value) {
        ("inv", "") => code.inv = true,
        ("edge", "") => code.edge = true,
        ("eq", "") => code.eq = true,
        ("any", "") => code.any = true,
        ("event", value) => code.select = small(number(value)?, u16::MAX.into())? as u16,
        ("umask", value) => code.umask = small(number(value)?, 255)? as u8,
        ("umask2", value) => code.umask2 = small(number(value)?, 255)? as u8,
        ("cmask", value) => code.cmask = small(number(value)?, 255)? as u8,
        ("extra", value) => code.extra = Some(extra(value)?),
        ("counters", value) => *counters = with(*counters, CounterMask::from_bits(number(value)?, 0)),
        ("fixed", value) => *counters = with(*counters, CounterMask::from_bits(0, number(value)?)),
        _ => return Err(format!("'{key}' is no field of an event")),
    }
    Ok(())
}

/// More counters; `None` where none is named.
fn with(counters: Option<CounterMask>, more: CounterMask) -> Option<CounterMask> {
    let all = counters.unwrap_or(CounterMask::EMPTY).or(more);
    (!all.is_empty()).then_some(all)
}

fn extra(text: &str) -> LineResult<ExtraRegister> {
    let (register, value) = text.split_once(':').ok_or_else(|| format!("'{text}' is not MSR:VALUE"))?;
    let address = small(number(register)?, u32::MAX.into())? as u32;
    let register =
        ExtraRegisterKind::from_msr(address).ok_or_else(|| format!("{address:#x} is no extra register"))?;
    Ok(ExtraRegister { register, value: number(value)? })
}

fn name(text: &str) -> LineResult<String> {
    // A line that begins with one of these is not an event, once the name stands alone on it.
    let is_mark = text.starts_with(['[', '#']);
    let fits = !is_mark && !text.is_empty() && text.len() <= MAX_NAME;
    let fits = fits && text.chars().all(|c| c.is_ascii_graphic());
    if fits { Ok(text.to_owned()) } else { Err(format!("'{}' is no name", text.escape_debug())) }
}

fn number(text: &str) -> LineResult<u64> {
    cyclometer_core::syntax::parse_number(text).ok_or_else(|| format!("'{text}' is no number"))
}

fn small(value: u64, most: u64) -> LineResult<u64> {
    if value <= most { Ok(value) } else { Err(format!("{value:#x} is more than {most:#x}")) }
}

/// Writes a table; [`read`] reads it back unchanged.
pub fn write(table: &CpuTable) -> String {
    let mut out = String::new();
    let Header { cpu, title, family, matches, sources, counters, version, date, licence, .. } = &table.header;
    let _ = writeln!(out, "{FIRST_LINE}\ncpu {cpu}");
    let line = |out: &mut String, key: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(out, "{key} {value}");
        }
    };
    line(&mut out, "title", title);
    line(&mut out, "layout", family.word());
    matches.iter().for_each(|pattern| line(&mut out, "match", pattern));
    let (general, fixed) = (counters.general_bits(), counters.fixed_bits());
    let pmu_version = table.header.pmu_version.unwrap_or(0);
    let selector = table.header.selector_bits.unwrap_or(0);
    let width = table.header.counter_width;
    let (bits, overflow) = width.map_or((0, 0), |width| (width.bits, width.overflow_bit));
    let _ = writeln!(
        out,
        "counters general={general:#x} fixed={fixed:#x} width={bits} overflow={overflow} \
         selector={selector} version={pmu_version}"
    );
    line(&mut out, "version", version);
    line(&mut out, "date", date);
    sources.iter().for_each(|source| line(&mut out, "source", source));
    line(&mut out, "licence", licence);
    if !table.generic.is_empty() {
        out.push_str("[generic]\n");
    }
    for Generic { name, config, config1 } in &table.generic {
        let _ = write!(out, "{name} {config:#x}");
        let _ = if *config1 == 0 { writeln!(out) } else { writeln!(out, " {config1:#x}") };
    }
    out.push_str("[events]\n");
    table.events.iter().for_each(|event| write_event(&mut out, event));
    out
}

fn write_event(out: &mut String, event: &TableEvent) {
    out.push_str(&event.name);
    for fact in facts(&event.code, event.counters) {
        let _ = write!(out, " {fact}");
    }
    if let Some(config) = event.config {
        let _ = write!(out, " config={config:#x}");
    }
    for also in &event.also {
        let _ = write!(out, " also={}", facts(&also.code, also.counters).join(","));
    }
    for alias in &event.aliases {
        let _ = write!(out, " alias={alias}");
    }
    if !event.errata.is_empty() {
        let _ = write!(out, " errata={}", event.errata.join(","));
    }
    out.push_str(if event.deprecated { " deprecated" } else { "" });
    out.push_str(if event.taken_alone { " alone\n" } else { "\n" });
}

fn facts(code: &EventCode, counters: Option<CounterMask>) -> Vec<String> {
    let EventCode { select, umask, umask2, cmask, inv, edge, eq, any, extra } = *code;
    let numbers = [
        ("event", u64::from(select)),
        ("umask", umask.into()),
        ("umask2", umask2.into()),
        ("cmask", cmask.into()),
    ];
    let flags = [("inv", inv), ("edge", edge), ("eq", eq), ("any", any)];
    let counters = counters.unwrap_or(CounterMask::EMPTY);
    let masks = [("counters", counters.general_bits()), ("fixed", counters.fixed_bits())];
    let number = |(key, value): &(&str, u64)| (*value != 0).then(|| format!("{key}={value:#x}"));
    let mut facts: Vec<String> = numbers.iter().filter_map(number).collect();
    facts.extend(flags.iter().filter(|(_, set)| *set).map(|(key, _)| (*key).to_owned()));
    facts.extend(extra.map(|extra| format!("extra={:#x}:{:#x}", extra.register.msr(), extra.value)));
    facts.extend(masks.iter().filter_map(number));
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "cyclometer-events 1
cpu skylake
title Skylake
layout intel
match GenuineIntel-6-4e
counters general=0xff fixed=0x7 width=48 overflow=48 selector=8 version=4
version 60
date 2026-03-24
source vendor/file.json
licence BSD-3-Clause
[generic]
cache-misses 0x412e
LLC-load-misses 0x1b7 0x3fc0408000
[events]
BR_MISP_RETIRED.ALL_BRANCHES event=0xc5 counters=0xff errata=SKL091,SKL044
FRONTEND_RETIRED.L2_MISS event=0xc6 umask=0x1 extra=0x3f7:0x13 counters=0xf deprecated alone
OFFCORE_RESPONSE.ANY event=0xb7 umask=0x1 extra=0x1a6:0x10001 counters=0xf also=event=0xbb,umask=0x1,extra=0x1a7:0x10001,counters=0xf
INST_RETIRED.ANY umask=0x1 fixed=0x1 alias=inst_any
CYCLE_ACTIVITY.STALLS event=0xa3 umask=0x4 umask2=0x1 cmask=0x4 inv edge eq any counters=0xf
firmware_event config=0x800000000000001f
";

    #[test]
    fn a_table_survives_being_read_and_written() {
        let table = read(SAMPLE).unwrap();
        assert_eq!(table.events.len(), 6);
        assert_eq!(write(&table), SAMPLE);
        assert_eq!(read(&write(&table)), Ok(table));
    }

    #[test]
    fn what_the_cpu_does_not_have_is_refused_with_the_line() {
        let line = |counters: &str, event: &str| {
            let text = format!("{FIRST_LINE}\ncpu x\n{counters}\n[events]\nA {event}\n");
            read(&text).err().map(|error| error.to_string())
        };
        let refused = |event: &str, expected: &str| {
            let error = line("counters general=0xf fixed=0x5 selector=8", event);
            assert_eq!(error.as_deref(), Some(expected), "{event}");
        };
        refused("event=0x1ff", "line 5: A: 0x1ff is more than 0xff");
        refused("event=0xff counters=0x3f", "line 5: A: counters=0x30 are none of this CPU, which has 0xf");
        refused("fixed=0x2", "line 5: A: fixed=0x2 are no counters of this CPU, which has 0x5");
        refused("event=1 also=event=0x100,counters=1", "line 5: A: 0x100 is more than 0xff");
        refused("also=counters=0x10", "line 5: A: counters=0x10 are none of this CPU, which has 0xf");
        for (counters, event) in [
            ("counters general=0xf fixed=0x5 selector=8", "event=0xff counters=0xf fixed=0x5"),
            ("counters general=0xf fixed=0x5", "event=0xffff"),
            ("counters fixed=0x5 selector=56", "event=0xffff counters=0xff fixed=0x4"),
            ("counters selector=12", "event=0xfff counters=0xff fixed=0xff"),
            ("", "event=0xffff counters=0xff fixed=0xff"),
        ] {
            assert_eq!(line(counters, event), None, "{counters}: {event}");
        }
    }

    #[test]
    fn counters_of_a_width_alone_overflow_by_a_carry_and_an_overflow_bit_needs_a_width() {
        let width = |counters: &str| {
            let text = format!("{FIRST_LINE}\ncpu x\ncounters {counters}\n[events]\nA event=1\n");
            let header = read(&text).map_err(|error| error.to_string())?.header;
            Ok::<_, String>((header.counter_width, header.selector_bits))
        };
        let wide = |bits, overflow_bit| Some(CounterWidth { bits, overflow_bit });
        assert_eq!(width("width=48"), Ok((wide(48, 48), None)));
        assert_eq!(width("overflow=47 width=48 selector=8"), Ok((wide(48, 47), Some(8))));
        for nothing_known in ["width=0 overflow=0 selector=0", "general=0xf"] {
            assert_eq!(width(nothing_known), Ok((None, None)), "{nothing_known}");
        }
        assert_eq!(
            width("overflow=47").unwrap_err(),
            "line 3: overflow=47 needs the width of the counters: width=48"
        );
        assert_eq!(
            width("width=32 overflow=47").unwrap_err(),
            "line 3: overflow=47 is beyond the 32 bits of a counter"
        );
    }

    #[test]
    fn what_is_no_table_is_refused_with_the_line() {
        let cases = [
            ("", "line 1: a table starts with the line 'cyclometer-events 1'"),
            ("cyclometer-events 1\n", "line 1: the table names no cpu"),
            (
                "cyclometer-events 1\ncpu x\nlayout vax",
                "line 3: 'vax' is no layout; there are intel, amd, arm",
            ),
            ("cyclometer-events 1\ncpu x\ncounters general=0xzz", "line 3: '0xzz' is no number"),
            (
                "cyclometer-events 1\ncpu x\n[events]\nA event=0x10000",
                "line 4: A: 0x10000 is more than 0xffff",
            ),
            ("cyclometer-events 1\ncpu x\n[events]\n[events] umask=1", "line 4: '[events]' is no name"),
            ("cyclometer-events 1\ncpu x\n[events]\nA umask=256", "line 4: A: 0x100 is more than 0xff"),
            ("cyclometer-events 1\ncpu x\n[events]\nA b=1", "line 4: A: 'b' is no field of an event"),
            ("cyclometer-events 1\ncpu x\n[events]\nA extra=0x1:2", "line 4: A: 0x1 is no extra register"),
            (
                "cyclometer-events 1\ncpu x\n[events]\nA event=1\na event=2",
                "line 5: the event a is there twice",
            ),
            ("cyclometer-events 1\ncpu x\n[generic]\ncycles", "line 4: cycles has no config"),
        ];
        for (text, expected) in cases {
            let error = read(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
    }
}
