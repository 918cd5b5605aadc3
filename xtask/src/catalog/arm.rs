//! Arm's tables: ARM-software/data, the telemetry specifications, and names and numbers of Linux's folders.
//!
//! The three sources agree: no name has two numbers in any core. Linux names events of the Cortex-A53 that
//! Arm's file has as numbers only; Arm's telemetry is the newest for the cores it has.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use cyclometer_catalog::table::{CpuTable, Generic};
use cyclometer_import::arm::{self, ArmFile};
use cyclometer_import::arm_table::{ArmEvents, ArmPmu, REQUIRED, generic_of};
use cyclometer_import::file_linux::{self, Number};

use super::csv;

const ARM_DATA: &str = "https://github.com/ARM-software/data 6aeb4c89a62b3b811744d3192f4831a4bb735f85";
const TELEMETRY: &str = "https://git.gitlab.arm.com/telemetry-solution/telemetry-solution 917257c776b40f04c1ea4cb25871b518eb1ed6a4";
const LINUX: &str = "Linux 7.2.8 tools/perf/pmu-events/arch/arm64";
const LINUX_VERSION: &str = "Linux 7.2.8";
const APACHE: &str = "Apache-2.0";
const APACHE_AND_LINUX: &str = "Apache-2.0; names and numbers also from GPL-2.0";
const GPL: &str = "GPL-2.0 (names and numbers only)";

/// A core that only Linux has an event file for.
struct Other {
    /// Folder below `arch/arm64`; the last part is the id.
    folder: &'static str,
    title: &'static str,
    /// The architecture's events, for the widths.
    architecture: &'static str,
    /// Event counters.
    counters: u32,
}

const fn other(
    folder: &'static str,
    title: &'static str,
    architecture: &'static str,
    counters: u32,
) -> Other {
    Other { folder, title, architecture, counters }
}

/// Other vendors' cores.
///
/// # Source
///
/// Architectures: the vendors' manuals, as Linux `arch/arm64` and GCC's `aarch64-cores.def` have them.
/// Counters: A64FX Microarchitecture Manual, MONAKA's event file; six elsewhere, what nearly all cores have.
const OTHERS: [Other; 8] = [
    other("ampere/ampereone", "AmpereOne", "armv8.6-a", 6),
    other("ampere/ampereonex", "AmpereOneX", "armv8.7-a", 6),
    other("ampere/emag", "eMAG", "armv8-a", 6),
    other("cavium/thunderx2", "ThunderX2", "armv8.1-a", 6),
    other("fujitsu/a64fx", "A64FX", "armv8.2-a", 8),
    other("fujitsu/monaka", "MONAKA", "armv9.3-a", 8),
    other("hisilicon/hip08", "Kunpeng 920 (TSV110)", "armv8.2-a", 6),
    other("nvidia/t410", "Olympus", "armv9.2-a", 6),
];

/// Cores whose file says Armv8, meaning any version; their manuals say Armv8.2.
///
/// # Source
///
/// Technical reference manuals of the Cortex-A65, A65AE, A75, A76 and A76AE, "Supported standards".
const ARMV8_2: [&str; 5] = ["cortex-a65", "cortex-a65ae", "cortex-a75", "cortex-a76", "cortex-a76ae"];

/// Further ids of the same cores: implementer, part, table.
///
/// # Source
///
/// Linux `arch/arm64/include/asm/cputype.h` (Microsoft's Cobalt 100 is a Neoverse N2);
/// `tools/perf/pmu-events/arch/arm64/mapfile.csv` (Broadcom's Brahma B53 has the Cortex-A53's events).
const SAME_CORES: [(u32, u32, &str); 2] = [(0x6d, 0xd49, "neoverse-n2"), (0x42, 0x100, "cortex-a53")];

/// Cores that have the Cortex-A53's implementation-defined events under the same numbers.
///
/// Arm's files describe them in the same words as the A53's, but name them neither there nor here.
///
/// # Source
///
/// ARM-software/data `pmu/cortex-{a32,a34,a35,a53}.json`, codes 0xC0 to 0xE8.
const LIKE_A53: [&str; 3] = ["cortex-a32", "cortex-a34", "cortex-a35"];

/// All tables of Arm.
pub(super) fn tables(from: &Path) -> Result<Vec<CpuTable>> {
    let material = ArmInputs::load(from)?;
    let mut tables = vec![material.architecture("common_armv7", "armv7")?];
    tables.push(material.architecture("common_armv8", "armv8")?);
    tables.push(material.architecture("common_armv9", "armv9")?);
    for (id, core) in &material.cores {
        tables.extend(material.core(id, core)?);
    }
    for core in &OTHERS {
        tables.push(material.other(core)?);
    }
    Ok(tables)
}

/// A core's files, as far as there are any.
#[derive(Default)]
struct CoreFiles {
    data: Option<ArmFile>,
    telemetry: Option<ArmFile>,
}

/// The collected files, read.
struct ArmInputs {
    arm: PathBuf,
    /// By table id.
    cores: BTreeMap<String, CoreFiles>,
    /// Names that the architecture defines, by Linux.
    standard: BTreeMap<String, u16>,
    /// Implementer, part and folder.
    mapfile: Vec<(u32, u32, String)>,
    /// Generic events with the events that they can be.
    generic: Vec<(String, Vec<u16>)>,
}

impl ArmInputs {
    fn load(from: &Path) -> Result<ArmInputs> {
        let arm = from.join("events/arm");
        let mut material = ArmInputs {
            cores: cores(&arm)?,
            standard: standard(&arm.join("linux"))?,
            mapfile: mapfile(&arm.join("linux/mapfile.csv"))?,
            generic: generic(&from.join("events/perf-generic/arm64_hw_events.csv"))?,
            arm,
        };
        material.standard.extend(REQUIRED.map(|(code, name)| (name.to_owned(), code)));
        Ok(material)
    }

    /// The events of an architecture, for cores that are not known.
    fn architecture(&self, file: &str, id: &str) -> Result<CpuTable> {
        let core = read_data(&self.arm.join(format!("arm-data/pmu/{file}.json")))?;
        let mut events = ArmEvents::default();
        events.add_file(&core.events)?;
        let linux = core.pmu_version == Some(3);
        if linux {
            self.standard.iter().try_for_each(|(name, code)| events.add(name, *code).map(|_| ()))?;
        }
        let pmu = ArmPmu::of(&core);
        let title = format!("Arm{}, events of the architecture", id.trim_start_matches("arm"));
        let mut table = self.table(pmu, id, &title, events)?;
        table.header.version = "arm-data 6aeb4c8".to_owned();
        table.header.date = core.date;
        table.header.sources = vec![format!("{ARM_DATA} pmu/{file}.json")];
        table.header.licence = (if linux { APACHE_AND_LINUX } else { APACHE }).to_owned();
        if linux {
            table.header.version += ", Linux 7.2.8";
            table
                .header
                .sources
                .push(format!("{LINUX}/common-and-microarch.json, recommended.json, sbsa.json"));
        }
        Ok(table)
    }

    /// A core of Arm's; `None` for one whose events have no names in any source.
    fn core(&self, id: &str, core: &CoreFiles) -> Result<Option<CpuTable>> {
        let Some(facts) = core.data.as_ref().or(core.telemetry.as_ref()) else { bail!("{id}: no file") };
        let mut events = ArmEvents::default();
        for file in [&core.data, &core.telemetry].into_iter().flatten() {
            events.add_file(&file.events).with_context(|| id.to_owned())?;
        }
        let folder = self.folder(facts.part);
        if let Some(folder) = folder {
            self.add_linux(folder, &mut events)?;
        }
        if LIKE_A53.contains(&id) {
            self.name_like_a53(facts, &mut events)?;
        }
        let mut table = self.table(pmu(id, facts), id, &facts.title, events)?;
        if table.events.is_empty() {
            return Ok(None);
        }
        origin(&mut table, id, core, folder);
        table.header.matches = self.matches(id, facts.part);
        Ok(Some(table))
    }

    /// Gives numbers without a name the Cortex-A53's names.
    fn name_like_a53(&self, facts: &ArmFile, events: &mut ArmEvents) -> Result<()> {
        let mut a53 = ArmEvents::default();
        self.add_linux("arm/cortex-a53", &mut a53)?;
        let names: BTreeMap<u16, String> =
            a53.into_table(Default::default()).into_iter().map(|e| (e.code.select, e.name)).collect();
        for event in facts.events.iter().filter(|event| event.name.is_empty()) {
            if let Some(name) = names.get(&event.code) {
                events.add(name, event.code)?;
            }
        }
        Ok(())
    }

    /// Another vendor's core.
    ///
    /// The files of some hold implementation-defined events only, because the kernel finds the others in
    /// PMCEID; what every PMUv3 has is added.
    fn other(&self, core: &Other) -> Result<CpuTable> {
        let id = core.folder.rsplit('/').next().unwrap_or(core.folder);
        let mut events = ArmEvents::default();
        self.add_linux(core.folder, &mut events)?;
        REQUIRED.iter().try_for_each(|(code, name)| events.add(name, *code).map(|_| ()))?;
        let parts = self.mapfile.iter().filter(|(.., folder)| folder == core.folder);
        let parts: Vec<(u32, u32)> = parts.map(|(implementer, part, _)| (*implementer, *part)).collect();
        let file = ArmFile {
            architecture: core.architecture.to_owned(),
            part: parts.first().copied(),
            counters: Some(core.counters),
            ..ArmFile::default()
        };
        let pmu = ArmPmu::of(&file);
        let mut table = self.table(pmu, id, core.title, events)?;
        table.header.matches = parts.iter().map(|(implementer, part)| pattern(*implementer, *part)).collect();
        table.header.version = LINUX_VERSION.to_owned();
        table.header.sources = vec![format!("{LINUX}/{}", core.folder)];
        table.header.licence = GPL.to_owned();
        Ok(table)
    }

    fn table(&self, pmu: ArmPmu, id: &str, title: &str, events: ArmEvents) -> Result<CpuTable> {
        let generic: Vec<Generic> = generic_of(&self.generic, &events);
        let events = events.into_table(pmu.mask());
        let too_large = events.iter().find(|event| u32::from(event.code.select) >> pmu.selector_bits != 0);
        ensure!(too_large.is_none(), "{id}: more than {} bits: {too_large:?}", pmu.selector_bits);
        Ok(CpuTable { header: pmu.header(id, title), events, generic })
    }

    /// Linux's folder of a core.
    fn folder(&self, part: Option<(u32, u32)>) -> Option<&str> {
        let found =
            self.mapfile.iter().find(|(implementer, number, _)| Some((*implementer, *number)) == part);
        found.map(|(.., folder)| folder.as_str())
    }

    fn matches(&self, id: &str, part: Option<(u32, u32)>) -> Vec<String> {
        let same = SAME_CORES.iter().filter(|(.., table)| *table == id).map(|(i, p, _)| (*i, *p));
        part.into_iter().chain(same).map(|(implementer, part)| pattern(implementer, part)).collect()
    }

    /// Adds what Linux's folder has: names and numbers, and names of errata.
    fn add_linux(&self, folder: &str, events: &mut ArmEvents) -> Result<()> {
        let standard = |name: &str| {
            self.standard.get(&name.to_ascii_uppercase()).map(|code| Number::Code((*code).into()))
        };
        for path in json_files(&self.arm.join("linux").join(folder))? {
            let bytes = fs::read(&path)?;
            let list = file_linux::events(&bytes, &standard).with_context(|| path.display().to_string())?;
            for event in list {
                let code = u16::try_from(event.number.config()).map_err(|_| anyhow!("{}", event.name))?;
                events.add(&event.name, code)?.errata.extend(event.errata);
            }
        }
        Ok(())
    }
}

/// Says where a core's table comes from.
fn origin(table: &mut CpuTable, id: &str, core: &CoreFiles, folder: Option<&str>) {
    let header = &mut table.header;
    let mut version = Vec::new();
    if let Some(file) = &core.data {
        version.push("arm-data 6aeb4c8");
        header.date.clone_from(&file.date);
        header.sources.push(format!("{ARM_DATA} pmu/{id}.json"));
    }
    if let Some(file) = &core.telemetry {
        version.push("telemetry 917257c");
        header.date.clone_from(&file.date);
        header.sources.push(format!("{TELEMETRY} data/pmu/cpu"));
    }
    if let Some(folder) = folder {
        version.push(LINUX_VERSION);
        header.sources.push(format!("{LINUX}/{folder}"));
    }
    header.version = version.join(", ");
    header.licence = (if folder.is_some() { APACHE_AND_LINUX } else { APACHE }).to_owned();
}

fn pmu(id: &str, facts: &ArmFile) -> ArmPmu {
    match ARMV8_2.contains(&id) {
        true => ArmPmu::of(&ArmFile { architecture: "armv8.2-a".to_owned(), ..facts.clone() }),
        false => ArmPmu::of(facts),
    }
}

fn pattern(implementer: u32, part: u32) -> String {
    format!("arm-{implementer:#x}-{part:#x}")
}

/// Arm's cores by table id.
fn cores(arm: &Path) -> Result<BTreeMap<String, CoreFiles>> {
    let mut cores: BTreeMap<String, CoreFiles> = BTreeMap::new();
    for path in json_files(&arm.join("arm-data/pmu"))? {
        let stem = stem(&path);
        if !stem.starts_with("common_") && stem != "pmu-schema" {
            cores.entry(stem).or_default().data = Some(read_data(&path)?);
        }
    }
    for folder in ["neoverse", "lumex"] {
        for path in json_files(&arm.join("telemetry").join(folder))? {
            let file = arm::telemetry(&fs::read(&path)?).with_context(|| path.display().to_string())?;
            merge_telemetry(&mut cores, file)?;
        }
    }
    Ok(cores)
}

/// Adds a telemetry file. A second one of a core (Neoverse N2 r0p3 beside r0p2) has other metrics but the
/// same events.
fn merge_telemetry(cores: &mut BTreeMap<String, CoreFiles>, file: ArmFile) -> Result<()> {
    let id = file.title.to_ascii_lowercase().replace(' ', "-");
    let core = cores.entry(id.clone()).or_default();
    match &core.telemetry {
        Some(known) => {
            let numbers = |file: &ArmFile| -> BTreeMap<String, u16> {
                file.events.iter().map(|event| (event.name.clone(), event.code)).collect()
            };
            ensure!(numbers(known) == numbers(&file), "{id}: two revisions with different events");
        }
        None => core.telemetry = Some(file),
    }
    Ok(())
}

fn read_data(path: &Path) -> Result<ArmFile> {
    arm::data(&fs::read(path)?).with_context(|| path.display().to_string())
}

/// The events that `ArchStdEvent` can name.
fn standard(linux: &Path) -> Result<BTreeMap<String, u16>> {
    let mut names = BTreeMap::new();
    for file in ["common-and-microarch", "recommended", "sbsa"] {
        let path = linux.join(format!("{file}.json"));
        let list =
            file_linux::events(&fs::read(&path)?, &|_| None).with_context(|| path.display().to_string())?;
        for event in list {
            names.insert(event.name.to_ascii_uppercase(), u16::try_from(event.number.config())?);
        }
    }
    Ok(names)
}

/// Implementer, part and folder of each line such as `0x00000000410fd0c0,v1,arm/neoverse-n1,core`.
fn mapfile(path: &Path) -> Result<Vec<(u32, u32, String)>> {
    let mut rows = Vec::new();
    for row in csv::rows(path)? {
        let [midr, _, folder, kind] = row.as_slice() else { bail!("{}: {row:?}", path.display()) };
        let midr = u64::from_str_radix(midr.trim_start_matches("0x"), 16)? as u32;
        if kind == "core" {
            rows.push((midr >> 24, midr >> 4 & 0xfff, folder.clone()));
        }
    }
    Ok(rows)
}

/// Generic events with the events that they can be, in the kernel's order: `0x21 or 0x0c`.
fn generic(path: &Path) -> Result<Vec<(String, Vec<u16>)>> {
    let mut map = Vec::new();
    for row in csv::rows(path)?.into_iter().skip(1) {
        let codes: Result<Vec<u16>, _> = row[1]
            .split(" or ")
            .filter(|code| !code.is_empty())
            .map(|code| u16::from_str_radix(code.trim_start_matches("0x"), 16))
            .collect();
        map.push((row[0].clone(), codes.with_context(|| row.join(","))?));
    }
    Ok(map)
}

pub(super) fn json_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    Ok(files)
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
