//! Every event of every table of the catalogue, there and back: perf's words and registers decode to the same
//! code.
#![allow(clippy::unwrap_used, reason = "a test that cannot read the tables fails")]

use std::fs;
use std::path::{Path, PathBuf};

use cyclometer_arch::{
    Chip, ChipCounters, Coded, CounterOptions, DecodedEvent, EncodeError, decode, decode_words, perf_words,
    registers,
};
use cyclometer_catalog::table::{CpuTable, Header, TableEvent, text};
use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterId, CounterMask, EventCode, Modes};

fn tables() -> Vec<CpuTable> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../catalog/data");
    let mut files = Vec::new();
    for family in Family::ALL {
        collect(&data.join(family.word()), &mut files);
    }
    let read = |file: &PathBuf| {
        let table = fs::read_to_string(file).unwrap();
        text::read(&table).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    };
    files.iter().map(read).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { collect(&path, files) } else { files.push(path) }
    }
}

fn chip(header: &Header) -> Chip {
    Chip {
        family: header.family,
        pmu_version: header.pmu_version,
        selector_bits: header.selector_bits,
        counter_width: header.counter_width,
        counters: ChipCounters::of(header.counters),
    }
}

/// An event's codes: its own, and those with another extra register.
fn codes(event: &TableEvent) -> Vec<Coded> {
    let own = Coded { code: event.code, config: event.config, counters: event.counters };
    let also = event.also.iter().map(|also| Coded { counters: also.counters, ..Coded::new(also.code) });
    std::iter::once(own).chain(also).collect()
}

/// Calls `check` for every code of every event, and fails with all that it found.
fn for_every_code(check: impl Fn(&Chip, &Coded) -> Result<(), String>) {
    let (mut failures, mut seen) = (Vec::new(), 0);
    for table in tables() {
        let chip = chip(&table.header);
        for event in &table.events {
            for coded in codes(event) {
                seen += 1;
                let failed = check(&chip, &coded).err();
                failures.extend(failed.map(|why| format!("{} {}: {why}", table.header.cpu, event.name)));
            }
        }
    }
    assert!(seen > 20_000, "only {seen} events");
    let shown: Vec<&String> = failures.iter().take(20).collect();
    assert!(failures.is_empty(), "{} of {seen}: {shown:#?}", failures.len());
}

/// Whether what was decoded is the event; RISC-V's events are whole words.
fn is(coded: &Coded, event: &DecodedEvent) -> bool {
    let counters = coded.counters;
    let here = event.counter.is_none_or(|counter| counters.is_none_or(|named| named.contains(counter)));
    event.code == coded.code && here && coded.config.is_none_or(|config| event.config == Some(config))
}

#[test]
fn perf_words_of_every_event_come_back_as_its_code() {
    for_every_code(|chip, coded| {
        let words = match perf_words(chip, coded) {
            // Only the kernel's driver for chips with 8-bit events has codes for Apple's fixed counters.
            Err(EncodeError::NoPerfCode { .. }) if chip.selector_bits == Some(16) => return Ok(()),
            other => other.map_err(|error| error.to_string())?,
        };
        if let (Family::Intel, Some(config)) = (chip.family, coded.config) {
            // The kernel has another code for it than the vendor, which stands for a fixed counter or an
            // alias.
            let same = words.config == config;
            return if same { Ok(()) } else { Err(format!("{coded:?} became {words:x?}")) };
        }
        let decoded = decode_words(chip, &words);
        let found = decoded.events.iter().any(|event| is(coded, event));
        match (found, &decoded.warnings[..]) {
            (true, []) => Ok(()),
            _ => Err(format!("{coded:?} became {words:x?}: {decoded:?}")),
        }
    });
}

#[test]
fn registers_of_every_event_come_back_as_its_code_on_every_counter() {
    for_every_code(|chip, coded| {
        let named = coded.counters.unwrap_or(CounterMask::EMPTY).and(chip.counters.known());
        let mut on: Vec<Option<CounterId>> = named.iter().map(Some).collect();
        on.push(None);
        on.iter().try_for_each(|counter| there_and_back(chip, coded, *counter))
    });
}

fn there_and_back(chip: &Chip, coded: &Coded, counter: Option<CounterId>) -> Result<(), String> {
    let writes = match registers(chip, coded, counter, CounterOptions::counting(Modes::USER)) {
        Err(EncodeError::NoRegister) if chip.family == Family::RiscV => return Ok(()),
        other => other.map_err(|error| format!("on {counter:?}: {error}"))?,
    };
    let extra = writes
        .iter()
        .find(|write| coded.code.extra.is_some_and(|extra| write.name() == extra.register.name()));
    if extra.map(|write| write.value) != coded.code.extra.map(|extra| extra.value) {
        return Err(format!("{coded:?} has another extra register: {writes:?}"));
    }
    let events = writes.iter().flat_map(|write| decode(chip, write.register, write.value).events);
    let config = coded.config.filter(|_| chip.family == Family::RiscV);
    let plain = Coded { code: EventCode { extra: None, ..coded.code }, config, ..*coded };
    let mut here = events.filter(|event| counter.is_none() || event.counter == counter);
    match here.any(|event| is(&plain, &event)) {
        true => Ok(()),
        false => Err(format!("on {counter:?}: {coded:?} is not in {writes:?}")),
    }
}
