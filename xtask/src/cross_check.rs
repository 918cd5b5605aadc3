//! `cargo xtask cross-check --jevents TREE`: our config words beside perf's reading of the same events.
//!
//! `TREE` is a source tree of Linux, or what of it is below `tools/perf/pmu-events`. Its `jevents.py` is run
//! by `python3` and makes perf's tables of events in C; their terms become config words by the kernel's
//! formats. Nothing of ours is used for that but the arithmetic of format fields. Where perf's file has the
//! version of our table every word must be the same, or a known error of perf must explain it; other versions
//! are shown and not judged.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use cyclometer_catalog::cpus::cpus;
use cyclometer_catalog::encode::{EventEncoding, encode_all};
use cyclometer_catalog::table::Cpu;
use cyclometer_core::EventCode;
use cyclometer_core::event::ExtraRegisterKind;
use cyclometer_core::pmu::{ConfigWords, Family, FormatField};
use cyclometer_core::syntax::parse_number;

use crate::cross_check_jevents::Jevents;

const USAGE: &str = "usage: cargo xtask cross-check --jevents TREE";

/// Where perf keeps its events.
const EVENTS: &str = "tools/perf/pmu-events";

/// The formats of perf's terms on Intel's core PMUs.
///
/// # Source
///
/// Linux `arch/x86/events/intel/core.c`, format attributes; `umask` as with a second unit mask, whose bits
/// are 0 elsewhere.
const INTEL: &[(&str, &str)] = &[
    ("event", "config:0-7"),
    ("umask", "config:8-15,40-47"),
    ("edge", "config:18"),
    ("any", "config:21"),
    ("inv", "config:23"),
    ("cmask", "config:24-31"),
    ("eq", "config:36"),
    ("config", "config:0-63"),
    ("ldlat", "config1:0-15"),
    ("frontend", "config1:0-23"),
    ("offcore_rsp", "config1:0-63"),
    ("snoop_rsp", "config1:0-63"),
];

/// The same for AMD.
///
/// # Source
///
/// Linux `arch/x86/events/amd/core.c`, format attributes.
const AMD: &[(&str, &str)] = &[
    ("event", "config:0-7,32-35"),
    ("umask", "config:8-15"),
    ("edge", "config:18"),
    ("inv", "config:23"),
    ("cmask", "config:24-31"),
];

/// Terms that say nothing about the code.
const IGNORED: &[&str] = &["period", "name"];

/// Runs the cross-check.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> Result<()> {
    let arguments: Vec<String> = arguments.collect();
    let [option, tree] = arguments.as_slice() else { bail!(USAGE) };
    ensure!(option == "--jevents", USAGE);
    let folder = Path::new(tree).join(EVENTS);
    let map = folder.join("arch/x86/mapfile.csv");
    let map = std::fs::read_to_string(&map).with_context(|| map.display().to_string())?;
    let perf = Perf { jevents: Jevents::parse(&generated(&folder)?)?, versions: versions(&map) };
    let outcomes: Vec<CpuComparison> = cpus()
        .filter(|cpu| matches!(cpu.family(), Family::Intel | Family::Amd))
        .map(|cpu| perf.compare(cpu))
        .collect();
    report(&outcomes)
}

/// The output of the tree's own script for the tree's own files.
fn generated(folder: &Path) -> Result<String> {
    let mut command = Command::new("python3");
    command.args(["jevents.py", "x86", "all", "arch"]).current_dir(folder);
    let output = command.output().context("starting python3")?;
    ensure!(
        output.status.success(),
        "jevents.py: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Versions by folder, from a map of CPUs: `GenuineIntel-6-AF,v1.17,sierraforest,core`.
fn versions(map: &str) -> BTreeMap<String, String> {
    let row = |line: &str| {
        let mut fields = line.rsplit(',');
        let (kind, folder, version) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "core").then(|| (folder.to_owned(), version.trim_start_matches('v').to_owned()))
    };
    map.lines().filter_map(row).collect()
}

/// perf's side.
struct Perf {
    jevents: Jevents,
    versions: BTreeMap<String, String>,
}

/// The result for one CPU.
#[derive(Default, Debug)]
struct CpuComparison {
    cpu: String,
    ours: String,
    /// The version of perf's file; `None` where perf has no such CPU.
    theirs: Option<String>,
    same: usize,
    /// Where a known error of perf explains the difference.
    known: Vec<String>,
    different: Vec<String>,
    /// Events with terms that have no format here.
    unread: Vec<String>,
    only_ours: usize,
    only_theirs: usize,
}

impl CpuComparison {
    fn is_equal_version(&self) -> bool {
        self.theirs.as_ref() == Some(&self.ours)
    }
}

impl Perf {
    fn compare(&self, cpu: Cpu<'_>) -> CpuComparison {
        let (folder, core) = cpu.id().split_once('/').unwrap_or((cpu.id(), ""));
        let mut outcome = CpuComparison {
            cpu: cpu.id().to_owned(),
            ours: cpu.version().to_owned(),
            ..CpuComparison::default()
        };
        let tables = tables(folder, core);
        let Some(events) = tables.iter().find_map(|table| self.jevents.events(table)) else { return outcome };
        outcome.theirs = self.versions.get(folder).cloned();
        let mut theirs: BTreeMap<String, String> =
            events.into_iter().map(|event| (event.name, event.terms)).collect();
        for encoding in encode_all(cpu) {
            match theirs.remove(&perfs_name(&encoding.selected.name)) {
                Some(terms) => outcome.add(cpu.family(), &encoding, &terms),
                None => outcome.only_ours += 1,
            }
        }
        outcome.only_theirs = theirs.len();
        outcome
    }
}

/// The names that perf may use for the table of a CPU; a PMU that the script does not know gets `uncore` in
/// its name.
fn tables(folder: &str, core: &str) -> Vec<String> {
    let folder = folder.replace('-', "_");
    match core {
        "" => vec![format!("{folder}_default_core")],
        core => vec![format!("{folder}_cpu_{core}"), format!("{folder}_uncore_cpu_{core}")],
    }
}

/// A name as perf's converter spells it: in lower case, the parts of an offcore response with dots.
fn perfs_name(name: &str) -> String {
    let name = name.to_ascii_lowercase().replace(":request=", ".").replace(":response=", ".");
    name.replace("offcore_response_0.", "offcore_response.")
}

impl CpuComparison {
    fn add(&mut self, family: Family, encoding: &EventEncoding<'_>, terms: &str) {
        let name = &encoding.selected.name;
        let code = encoding.selected.coded.code;
        if is_none_for_zero(&code, terms) {
            return self.known.push(format!("a value of 0 lost: {name} ({terms})"));
        }
        let theirs = match words(family, terms) {
            Ok(words) => words,
            Err(reason) => return self.unread.push(format!("{name}: {reason}")),
        };
        let ours = match &encoding.perf {
            Ok(words) => *words,
            Err(error) => return self.different.push(format!("{name}: {error}; perf: {terms}")),
        };
        if ours == theirs {
            self.same += 1;
            return;
        }
        let line = format!(
            "{name}: config {:#x}, config1 {:#x}; perf: {:#x}, {:#x} ({terms})",
            ours.config, ours.config1, theirs.config, theirs.config1
        );
        let known = known_error(&code, ours, theirs).or_else(|| fixed_by_name(name, &code, ours, theirs));
        match known {
            Some(error) => self.known.push(format!("{error}: {line}")),
            None => self.different.push(line),
        }
    }
}

/// perf's error that explains a difference, if one does.
///
/// - The second unit mask is lost where the first is 0.
/// - A list of unit masks stands for its first one, also where the event has the second register of offcore
///   responses only. On Knights Landing unit mask 1 goes with the first register and 2 with the second.
///
/// # Source
///
/// Linux `arch/x86/events/intel/core.c`, `intel_knl_extra_regs`.
fn known_error(code: &EventCode, ours: ConfigWords, theirs: ConfigWords) -> Option<&'static str> {
    let without_umask2 = ConfigWords { config: ours.config & !(0xff << 40), ..ours };
    if code.umask == 0 && code.umask2 != 0 && without_umask2 == theirs {
        return Some("second unit mask lost");
    }
    let first_umask = ConfigWords { config: ours.config & !0xff00 | 0x100, ..ours };
    let second_register =
        code.extra.is_some_and(|extra| extra.register == ExtraRegisterKind::OffcoreResponse1);
    if second_register && code.select == 0xb7 && code.umask == 2 && first_umask == theirs {
        return Some("unit mask of the other register");
    }
    None
}

/// perf's words for an event by its name only, where the vendor has a code for it on general counters: the
/// reference cycles of Atoms and Knights Landing become those of fixed counter 2, and Nehalem's and
/// Westmere's instructions become what the kernel may count on fixed counter 0.
///
/// # Source
///
/// Linux `tools/perf/pmu-events/jevents.py`, `fixed`.
fn fixed_by_name(
    name: &str,
    code: &EventCode,
    ours: ConfigWords,
    theirs: ConfigWords,
) -> Option<&'static str> {
    let (select, umask, perfs) = match name.to_ascii_uppercase().as_str() {
        "CPU_CLK_UNHALTED.REF" => (0x3c, 1, 0x300),
        "INST_RETIRED.ANY_P" => (0xc0, 1, 0xc0),
        _ => return None,
    };
    let vendors = EventCode { select, umask, ..EventCode::default() };
    let plain = |config| ConfigWords { config, ..ConfigWords::default() };
    let is_it = *code == vendors && ours == plain(u64::from(umask) << 8 | u64::from(select));
    (is_it && theirs == plain(perfs)).then_some("another code by name")
}

/// Whether perf writes `None` for a register's value that is 0, which it cannot read itself.
fn is_none_for_zero(code: &EventCode, terms: &str) -> bool {
    code.extra.is_some_and(|extra| extra.value == 0) && terms.split(',').any(|term| term.ends_with("=None"))
}

/// The config words of perf's terms.
fn words(family: Family, terms: &str) -> Result<ConfigWords, String> {
    let formats = if family == Family::Amd { AMD } else { INTEL };
    let mut words = ConfigWords::default();
    for term in terms.split(',') {
        let (field, value) = term.split_once('=').unwrap_or((term, "1"));
        if IGNORED.contains(&field) {
            continue;
        }
        let format = formats.iter().find(|(known, _)| *known == field);
        let format = format.and_then(|(_, format)| FormatField::parse(format));
        let format = format.ok_or_else(|| format!("no format for '{term}'"))?;
        let value = parse_number(value).ok_or_else(|| format!("'{term}' has no number"))?;
        format.deposit(value, &mut words).map_err(|most| format!("'{term}' is above {most:#x}"))?;
    }
    Ok(words)
}

/// Prints what came out.
///
/// # Errors
///
/// Differences at equal versions that nothing explains, events that could not be read there, no CPU at equal
/// versions.
fn report(outcomes: &[CpuComparison]) -> Result<()> {
    let (equal, other): (Vec<&CpuComparison>, Vec<&CpuComparison>) =
        outcomes.iter().partition(|outcome| outcome.is_equal_version());
    eprintln!("At perf's version of the events ({} CPUs):", equal.len());
    for outcome in &equal {
        eprintln!("  {}", line(outcome));
        outcome.known.iter().for_each(|line| eprintln!("    perf's error, {line}"));
        outcome.different.iter().for_each(|line| eprintln!("    DIFFERENT: {line}"));
        outcome.unread.iter().for_each(|line| eprintln!("    not read: {line}"));
    }
    eprintln!("At another version, not judged:");
    for outcome in other.iter().filter(|outcome| outcome.theirs.is_some()) {
        eprintln!("  {}", line(outcome));
        outcome.different.iter().for_each(|line| eprintln!("    differs: {line}"));
    }
    let absent: Vec<&str> =
        other.iter().filter(|outcome| outcome.theirs.is_none()).map(|outcome| outcome.cpu.as_str()).collect();
    eprintln!(
        "Skipped, perf has no such CPU: {}",
        if absent.is_empty() { "none".to_owned() } else { absent.join(", ") }
    );
    let sum = |of: fn(&CpuComparison) -> usize| equal.iter().map(|outcome| of(outcome)).sum::<usize>();
    let different = sum(|outcome| outcome.different.len());
    let unread = sum(|outcome| outcome.unread.len());
    let known = sum(|outcome| outcome.known.len());
    let same = sum(|outcome| outcome.same);
    eprintln!(
        "{} CPUs at equal versions: {same} events the same, {known} explained by errors of perf, {different} \
         different, {unread} not read",
        equal.len()
    );
    ensure!(!equal.is_empty(), "no CPU has perf's version of its events");
    ensure!(different + unread == 0, "{different} differences and {unread} events that could not be read");
    Ok(())
}

fn line(outcome: &CpuComparison) -> String {
    let version = match &outcome.theirs {
        Some(theirs) if !outcome.is_equal_version() => format!("{}, perf's {theirs}", outcome.ours),
        _ => outcome.ours.clone(),
    };
    format!(
        "{} ({version}): {} the same, {} explained, {} different, {} not read, {} only ours, {} only perf's",
        outcome.cpu,
        outcome.same,
        outcome.known.len(),
        outcome.different.len(),
        outcome.unread.len(),
        outcome.only_ours,
        outcome.only_theirs
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_core::event::ExtraRegister;

    fn config(family: Family, terms: &str) -> (u64, u64) {
        let words = words(family, terms).unwrap();
        (words.config, words.config1)
    }

    #[test]
    fn terms_become_words_by_the_kernels_formats() {
        assert_eq!(config(Family::Intel, "event=0xc4,period=400009,umask=4"), (0x4c4, 0));
        assert_eq!(config(Family::Intel, "event=0xb1,cmask=1,inv=1,umask=2"), (0x180_02b1, 0));
        assert_eq!(config(Family::Intel, "event=0xcd,umask=1,ldlat=0x4"), (0x1cd, 4));
        assert_eq!(config(Family::Intel, "event=0xc4,umask=0x100"), (0x100_0000_00c4, 0));
        assert_eq!(config(Family::Amd, "event=0x28f,umask=3"), (0x2_0000_038f, 0));
        assert!(words(Family::Amd, "event=1,ldlat=3").is_err());
        assert!(words(Family::Intel, "event=0x100").is_err());
        assert!(words(Family::Intel, "event=x").is_err());
    }

    #[test]
    fn only_known_errors_explain_a_difference() {
        let words = |config, config1| ConfigWords { config, config1, config2: 0 };
        let far = EventCode { select: 0xc4, umask2: 1, ..EventCode::default() };
        let ours = words(0x100_0000_00c4, 0);
        assert!(known_error(&far, ours, words(0xc4, 0)).is_some());
        assert!(known_error(&far, ours, words(0xc5, 0)).is_none());
        assert!(known_error(&far, ours, words(0xc4, 1)).is_none());
        assert!(
            known_error(&EventCode { umask: 4, ..far }, words(0x100_0000_04c4, 0), words(0x4c4, 0)).is_none()
        );
        let extra = |register, value| Some(ExtraRegister { register, value });
        let second = extra(ExtraRegisterKind::OffcoreResponse1, 0x14000);
        let offcore = EventCode { select: 0xb7, umask: 2, extra: second, ..EventCode::default() };
        assert!(known_error(&offcore, words(0x2b7, 0x14000), words(0x1b7, 0x14000)).is_some());
        assert!(known_error(&offcore, words(0x2b7, 0x14000), words(0x1b7, 0x14001)).is_none());
        let first = EventCode { extra: extra(ExtraRegisterKind::OffcoreResponse0, 1), ..offcore };
        assert!(known_error(&first, words(0x2b7, 1), words(0x1b7, 1)).is_none());
        let zero = EventCode { extra: extra(ExtraRegisterKind::LoadLatency, 0), ..far };
        assert!(is_none_for_zero(&zero, "event=0xb,umask=0x10,ldlat=None"));
        assert!(!is_none_for_zero(&far, "event=0xb,ldlat=None"));
    }

    #[test]
    fn words_by_name_explain_a_difference_for_the_vendors_code_of_that_name_only() {
        let words = |config| ConfigWords { config, ..ConfigWords::default() };
        let code = |select, umask| EventCode { select, umask, ..EventCode::default() };
        let explained = |name: &str, code: EventCode, ours, theirs| {
            fixed_by_name(name, &code, words(ours), words(theirs)).is_some()
        };
        assert!(explained("CPU_CLK_UNHALTED.REF", code(0x3c, 1), 0x13c, 0x300));
        assert!(explained("inst_retired.any_p", code(0xc0, 1), 0x1c0, 0xc0));
        assert!(!explained("CPU_CLK_UNHALTED.REF_P", code(0x3c, 1), 0x13c, 0x300));
        assert!(!explained("CPU_CLK_UNHALTED.REF", code(0x3c, 2), 0x23c, 0x300));
        assert!(!explained("CPU_CLK_UNHALTED.REF", code(0x3c, 1), 0x13c, 0x3c));
        assert!(!explained("CPU_CLK_UNHALTED.REF", code(0x3c, 1), 0x13d, 0x300));
        assert!(!explained("INST_RETIRED.ANY_P", code(0xc0, 1), 0x1c0, 0x300));
    }

    #[test]
    fn names_are_spelled_as_perf_spells_them() {
        assert_eq!(perfs_name("OFFCORE_RESPONSE:request=A:response=B.C"), "offcore_response.a.b.c");
        assert_eq!(perfs_name("OFFCORE_RESPONSE_0.ANY_DATA.B"), "offcore_response.any_data.b");
        assert_eq!(perfs_name("L1D.REPLACEMENT"), "l1d.replacement");
    }

    #[test]
    fn a_map_names_versions_by_folder() {
        let map = "Family-model,Version,Filename,EventType\nGenuineIntel-6-(57|85),v16,knightslanding,core\n";
        assert_eq!(versions(map), BTreeMap::from([("knightslanding".to_owned(), "16".to_owned())]));
        assert_eq!(tables("westmereep-dp", ""), ["westmereep_dp_default_core"]);
        assert_eq!(tables("arrowlake", "atom")[0], "arrowlake_cpu_atom");
    }

    #[test]
    fn a_difference_at_an_equal_version_fails() {
        let equal =
            || CpuComparison { ours: "1".into(), theirs: Some("1".into()), ..CpuComparison::default() };
        assert!(report(&[equal()]).is_ok());
        assert!(report(&[CpuComparison { different: vec!["a".into()], ..equal() }]).is_err());
        assert!(report(&[CpuComparison { unread: vec!["a".into()], ..equal() }]).is_err());
        assert!(report(&[CpuComparison { known: vec!["a".into()], ..equal() }]).is_ok());
        let other = CpuComparison { theirs: Some("2".into()), different: vec!["a".into()], ..equal() };
        assert!(report(&[other]).is_err(), "nothing was compared");
    }

    #[test]
    fn one_word_of_a_table_changed_is_found() {
        let source = "big_c_string =\n\"br_misp_retired.all_branches\\000t\\000d\\000event=0xc6\\000\"\n;\n\
                      static const struct compact_pmu_event pmu_events__skylake_default_core[] = {\n{ 0 },\n};\n";
        let skylake = cyclometer_catalog::cpus::cpu("skylake").unwrap();
        let compared = |source: &str| {
            let versions = BTreeMap::from([("skylake".to_owned(), skylake.version().to_owned())]);
            Perf { jevents: Jevents::parse(source).unwrap(), versions }.compare(skylake)
        };
        assert_eq!(compared(source).different.len(), 1);
        assert_eq!(compared(&source.replace("0xc6", "0xc5")).same, 1);
    }
}
