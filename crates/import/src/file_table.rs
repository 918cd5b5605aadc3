//! The events of each format as a table, with the facts of the CPU from the catalogue.

use cyclometer_catalog::cpus;
use cyclometer_catalog::table::{CpuTable, Header, TableEvent, text};
use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterMask, CounterWidth};
use serde_json::Value;

use crate::arm::{self, ArmFile};
use crate::arm_table::{ArmEvents, ArmPmu};
use crate::error::{ImportError, ImportResult};
use crate::file_format::FileFormat;
use crate::file_linux::{self, LinuxEvent, Number};
use crate::{amd, intel, kpep, words};

const NO_EVENT: &str = "there is no event of a core in it";

/// The name of a file, and the options of the user for it.
#[derive(Clone, Copy)]
pub(crate) struct FileDescription<'a> {
    /// The file's name.
    pub name: &'a str,
    /// The id that the user gave.
    pub cpu: Option<&'a str>,
}

impl FileDescription<'_> {
    /// The table in a file of that format. JSON is parsed before.
    pub fn read(&self, format: FileFormat, bytes: &[u8], value: &Value) -> ImportResult<CpuTable> {
        let table = match format {
            FileFormat::Ours => self.ours(bytes),
            FileFormat::Intel => self.intel(bytes),
            FileFormat::Linux => self.linux(bytes, value),
            FileFormat::ArmData => arm::data_value(value).and_then(|file| self.arm(&file)),
            FileFormat::ArmTelemetry => arm::telemetry_value(value).and_then(|file| self.arm(&file)),
            FileFormat::Kpep => self.kpep(bytes),
        };
        let table = table.and_then(not_empty).map_err(|error| self.error(format.word(), error))?;
        Ok(self.tidied(table))
    }

    /// The error with the file and its format in front.
    pub fn error(&self, format: &str, error: ImportError) -> ImportError {
        let place = match error.place.as_str() {
            "" => format!("{} ({format})", shown(self.name)),
            place => format!("{} ({format}), {place}", shown(self.name)),
        };
        // Messages of the reader of tables quote the file without escapes.
        ImportError { place, message: printable(&error.message, 500) }
    }

    /// With a source and a licence.
    fn tidied(&self, mut table: CpuTable) -> CpuTable {
        if table.header.sources.is_empty() {
            table.header.sources.push(shown(self.name));
        }
        if table.header.licence.is_empty() {
            table.header.licence = "of the file's owner".to_owned();
        }
        table
    }

    /// The facts of the named CPU. Without a name they are those of `identity`, the CPU that the file names,
    /// and otherwise those of `new`.
    fn header(&self, identity: &str, new: impl FnOnce() -> Header) -> Header {
        if let Some(cpu) = catalogued(self.cpu.unwrap_or(identity)) {
            return cpu;
        }
        let facts = catalogued(identity).unwrap_or_else(new);
        let cpu = self.cpu.map_or_else(|| stem(self.name), str::to_owned);
        Header { cpu, matches: Vec::new(), ..facts }
    }

    fn ours(&self, bytes: &[u8]) -> ImportResult<CpuTable> {
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        let text =
            std::str::from_utf8(bytes).map_err(|error| ImportError::file(format!("no UTF-8: {error}")))?;
        let error = |e: text::TableError| ImportError::at(format!("line {}", e.line), e.message);
        let mut table = text::read(text).map_err(error)?;
        if let Some(id) = self.cpu {
            catalogued(id).map_or(Ok(()), |known| family_is(&known, table.header.family))?;
            id.clone_into(&mut table.header.cpu);
        }
        let Header { title, version, date, licence, matches, sources, .. } = &mut table.header;
        let texts = [title, version, date, licence].into_iter().chain(matches).chain(sources);
        texts.for_each(|text| *text = words::line(text));
        for event in &mut table.events {
            event.errata.iter_mut().for_each(|name| *name = words::word(name));
            event.errata.retain(|name| !name.is_empty());
        }
        Ok(table)
    }

    /// Intel's own format, and Linux's of the same data.
    fn intel(&self, bytes: &[u8]) -> ImportResult<CpuTable> {
        let file = intel::file(bytes, self.cpu.and_then(device))?;
        let union =
            file.events.iter().filter_map(|event| event.counters).fold(CounterMask::EMPTY, CounterMask::or);
        let mut header = self.header("", || Header {
            family: Family::Intel,
            selector_bits: Some(8),
            counter_width: Some(CounterWidth::carrying(48)),
            counters: union,
            ..Header::default()
        });
        family_is(&header, Family::Intel)?;
        (header.version, header.date) = (file.version, file.date);
        Ok(CpuTable { header, events: file.events, generic: Vec::new() })
    }

    fn linux(&self, bytes: &[u8], value: &Value) -> ImportResult<CpuTable> {
        match self.family(value)? {
            Family::Intel => self.intel(bytes),
            Family::Amd => {
                let header = self.header("", || Header {
                    family: Family::Amd,
                    selector_bits: Some(12),
                    counter_width: Some(CounterWidth::carrying(48)),
                    counters: amd::COUNTERS,
                    ..Header::default()
                });
                Ok(CpuTable { header, events: amd::core_events(bytes)?, generic: Vec::new() })
            }
            Family::Arm => self.linux_arm(value),
            Family::RiscV => self.linux_riscv(value),
            Family::Apple => Err(ImportError::file("Linux has no event files of Apple's chips")),
        }
    }

    /// The family of the named CPU, or the one that the fields belong to.
    fn family(&self, value: &Value) -> ImportResult<Family> {
        if let Some(cpu) = self.cpu.and_then(catalogued) {
            return Ok(cpu.family);
        }
        let entries = value.as_array().map(Vec::as_slice).unwrap_or_default();
        let has = |key: &str| entries.iter().any(|entry| entry.get(key).is_some());
        let standard = entries.iter().filter_map(|entry| entry.get("ArchStdEvent").and_then(Value::as_str));
        let is_firmware = |name: &str| riscv_standard(name).is_some();
        match () {
            () if !has("EventName") && !has("ArchStdEvent") => Err(ImportError::file(NO_EVENT)),
            () if has("ConfigCode") || standard.clone().any(is_firmware) => Ok(Family::RiscV),
            () if standard.clone().next().is_some() => Ok(Family::Arm),
            // AMD's files never had a period for sampling.
            () if has("Counter") || has("MSRIndex") || has("SampleAfterValue") => Ok(Family::Intel),
            () if has("UMask") => Ok(Family::Amd),
            () => Err(ImportError::file(
                "its fields do not tell whose events these are: name the CPU (`--cpu ID`)",
            )),
        }
    }

    fn linux_arm(&self, value: &Value) -> ImportResult<CpuTable> {
        let list = file_linux::events_of(value, &arm_standard)?;
        let header = self.header("", || catalogued("armv9").unwrap_or_default());
        family_is(&header, Family::Arm)?;
        let mut events = ArmEvents::default();
        for event in list {
            let code = event.number.config();
            let code = u16::try_from(code).map_err(|_| too_large(&event, u16::MAX.into()))?;
            let added = events.add(&event.name, code)?;
            added.errata.extend(event.errata);
            added.about = words::line(&event.about);
        }
        let events = fitting(events.into_table(header.counters), &header)?;
        Ok(CpuTable { header, events, generic: Vec::new() })
    }

    fn linux_riscv(&self, value: &Value) -> ImportResult<CpuTable> {
        let list = file_linux::events_of(value, &riscv_standard)?;
        let header = self.header("", || catalogued("riscv").unwrap_or_default());
        let events = list.into_iter().map(|event| TableEvent {
            name: event.name,
            config: Some(event.number.config()),
            errata: event.errata,
            about: words::line(&event.about),
            ..TableEvent::default()
        });
        let events: Vec<TableEvent> = events.collect();
        names_once(&events)?;
        Ok(CpuTable { header, events, generic: Vec::new() })
    }

    /// Arm's own formats.
    fn arm(&self, file: &ArmFile) -> ImportResult<CpuTable> {
        let id = file.title.to_ascii_lowercase().replace(' ', "-");
        let mut header = self.header(&id, || ArmPmu::of(file).header("", &words::line(&file.title)));
        family_is(&header, Family::Arm)?;
        header.date.clone_from(&file.date);
        let mut events = ArmEvents::default();
        events.add_file(&file.events)?;
        let mut events = events.into_table(header.counters);
        events.iter_mut().for_each(|event| event.about = words::line(&event.about));
        Ok(CpuTable { events: fitting(events, &header)?, header, generic: Vec::new() })
    }

    fn kpep(&self, bytes: &[u8]) -> ImportResult<CpuTable> {
        let database = kpep::database(bytes)?;
        let mut header = self.header(chip_of(&database.name), || Header {
            title: database.title.clone(),
            family: Family::Apple,
            selector_bits: Some(16),
            counter_width: Some(CounterWidth { bits: 64, overflow_bit: 63 }),
            ..Header::default()
        });
        family_is(&header, Family::Apple)?;
        header.counters = database.counters;
        header.version = database.name;
        Ok(CpuTable { header, events: database.events, generic: Vec::new() })
    }
}

/// The table of a database's chips.
///
/// # Source
///
/// jiegec/apple-pmu `README.md`: chips and databases.
fn chip_of(database: &str) -> &'static str {
    match database.split('-').next().unwrap_or_default() {
        "a14" => "apple-m1",
        "a15" => "apple-m2",
        "a16" | "as1" | "as2" | "as3" => "apple-m3",
        "as4" => "apple-m4",
        "as5" => "apple-m5",
        _ => "",
    }
}

/// The facts of a CPU of the catalogue, without the source and the date, which are those of the file.
fn catalogued(id: &str) -> Option<Header> {
    let cpu = cpus::tables().cpu(id)?;
    Some(Header {
        cpu: cpu.id().to_owned(),
        title: cpu.title().to_owned(),
        family: cpu.family(),
        matches: cpu.matches().map(str::to_owned).collect(),
        pmu_version: cpu.pmu_version(),
        selector_bits: cpu.selector_bits(),
        counter_width: cpu.counter_width(),
        counters: cpu.counters(),
        ..Header::default()
    })
}

/// The number of an Arm name of the architecture.
fn arm_standard(name: &str) -> Option<Number> {
    let event = cpus::tables().cpu("armv9")?.event(name)?;
    Some(Number::Code(event.code().select.into()))
}

/// The number of an SBI firmware event's name.
fn riscv_standard(name: &str) -> Option<Number> {
    cpus::tables().cpu("riscv")?.event(name)?.config().map(Number::Config)
}

/// The kernel's name of a hybrid's PMU, by the core type at the end of an id.
fn device(id: &str) -> Option<&'static str> {
    match id.split_once('/')?.1 {
        "core" => Some("cpu_core"),
        "atom" => Some("cpu_atom"),
        "lowpower" => Some("cpu_lowpower"),
        _ => None,
    }
}

fn not_empty(table: CpuTable) -> ImportResult<CpuTable> {
    if table.events.is_empty() { Err(ImportError::file(NO_EVENT)) } else { Ok(table) }
}

fn family_is(header: &Header, family: Family) -> ImportResult<()> {
    let message = || format!("{} is a CPU of the {} family", header.cpu, header.family.word());
    if header.family == family { Ok(()) } else { Err(ImportError::file(message())) }
}

/// The events, if each number fits the CPU's select field.
fn fitting(events: Vec<TableEvent>, header: &Header) -> ImportResult<Vec<TableEvent>> {
    let Some(bits) = header.selector_bits else { return Ok(events) };
    let too_large = events.iter().find(|event| u64::from(event.code.select) >> bits != 0);
    match too_large {
        None => Ok(events),
        Some(event) => Err(ImportError::at(
            event.name.clone(),
            format!("{:#x} does not fit the {} bits of {}", event.code.select, bits, header.cpu),
        )),
    }
}

fn too_large(event: &LinuxEvent, most: u64) -> ImportError {
    let message = format!("{:#x} is more than {most:#x}", event.number.config());
    ImportError::at(format!("{}, EventCode", event.name), message)
}

fn names_once(events: &[TableEvent]) -> ImportResult<()> {
    let mut names = std::collections::HashSet::new();
    match events.iter().find(|event| !names.insert(event.name.to_ascii_lowercase())) {
        None => Ok(()),
        Some(event) => Err(ImportError::at(event.name.clone(), "is there twice")),
    }
}

/// A file's name without folders and ending, as an id.
fn stem(name: &str) -> String {
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let id: String = stem
        .chars()
        .take(80)
        .map(|c| if c.is_ascii_graphic() { c.to_ascii_lowercase() } else { '-' })
        .collect();
    if id.is_empty() { "file".to_owned() } else { id }
}

/// A file's name for messages.
pub(crate) fn shown(name: &str) -> String {
    printable(name, 200)
}

/// The first characters of a text, without control characters.
fn printable(text: &str, most: usize) -> String {
    let mut printable = String::new();
    for character in text.chars().take(most) {
        match character.is_control() {
            true => printable.extend(character.escape_debug()),
            false => printable.push(character),
        }
    }
    printable
}
