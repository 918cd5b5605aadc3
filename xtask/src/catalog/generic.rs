//! The kernel's generic events by CPU: `x86_hw_events.csv` and `x86_hw_cache_events.csv`.
//!
//! The first has a line for each core and a column for each event; the second a line for each core and cache
//! event, with the vendor's config words where the kernel has some.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use cyclometer_catalog::table::Generic;
use cyclometer_core::syntax::parse_number;

/// Where the numbers come from, for the tables' `source` lines; `version` is the kernel's.
pub(super) fn source(version: &str, vendor: &str) -> String {
    format!("Linux {version} arch/x86/events/{vendor}/core.c (what generic events are)")
}

/// The generic events of both files, as text.
pub(super) struct GenericFiles {
    hardware: String,
    cache: String,
}

impl GenericFiles {
    /// Reads the files of the folder `perf-generic`.
    pub(super) fn read(folder: &Path) -> Result<GenericFiles> {
        let file = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).with_context(|| path.display().to_string())
        };
        Ok(GenericFiles { hardware: file("x86_hw_events.csv")?, cache: file("x86_hw_cache_events.csv")? })
    }

    /// The events that the kernel counts for its generic events on a core, by the names that the two files
    /// have for it.
    pub(super) fn of(&self, hardware: &str, cache: &str) -> Result<Vec<Generic>> {
        let mut generic = hardware_events(&self.hardware, hardware)?;
        generic.extend(cache_events(&self.cache, cache)?);
        Ok(generic)
    }
}

fn cells(line: &str) -> Vec<&str> {
    line.split(',').map(str::trim).collect()
}

fn hardware_events(csv: &str, core: &str) -> Result<Vec<Generic>> {
    let mut lines = csv.lines().map(cells);
    let names = lines.next().context("x86_hw_events.csv is empty")?;
    let line =
        lines.find(|line| line[0] == core).with_context(|| format!("x86_hw_events.csv has no {core}"))?;
    let events = names.iter().zip(line).skip(1).filter(|(_, config)| !config.is_empty());
    events.map(|(name, config)| generic((*name).to_owned(), config, "")).collect()
}

fn cache_events(csv: &str, core: &str) -> Result<Vec<Generic>> {
    let mut events = Vec::new();
    let lines: Vec<_> = csv.lines().map(cells).filter(|line| line[0] == core).collect();
    ensure!(!lines.is_empty(), "x86_hw_cache_events.csv has no {core}");
    for line in lines {
        let [_, cache, op, result, config, response, status, ..] = line[..] else {
            bail!("x86_hw_cache_events.csv: a line of {core} is short")
        };
        if status == "ok" {
            events.push(generic(cache_name(cache, op, result)?, config, response)?);
        }
    }
    Ok(events)
}

fn generic(name: String, config: &str, config1: &str) -> Result<Generic> {
    let number = |text: &str| match text {
        "" => Some(0),
        text => parse_number(text),
    };
    let words = number(config).zip(number(config1));
    let (config, config1) =
        words.with_context(|| format!("{name}: '{config}' or '{config1}' is no number"))?;
    ensure!(config != 0, "{name}: config 0 counts nothing");
    Ok(Generic { name, config, config1 })
}

/// perf's name of a cache event: `L1-dcache-load-misses`, `LLC-stores`.
///
/// # Source
///
/// Linux `tools/perf/util/evsel.c`, `evsel__hw_cache` (the first spelling of each word).
fn cache_name(cache: &str, op: &str, result: &str) -> Result<String> {
    let find = |words: &[(&str, &'static str)], word: &str| {
        let found = words.iter().find(|(known, _)| *known == word);
        found.map(|(_, name)| *name).with_context(|| format!("'{word}' is no word of cache events"))
    };
    let caches = [
        ("L1D", "L1-dcache"),
        ("L1I", "L1-icache"),
        ("LL", "LLC"),
        ("DTLB", "dTLB"),
        ("ITLB", "iTLB"),
        ("BPU", "branch"),
        ("NODE", "node"),
    ];
    let one = [("READ", "load"), ("WRITE", "store"), ("PREFETCH", "prefetch")];
    let many = [("READ", "loads"), ("WRITE", "stores"), ("PREFETCH", "prefetches")];
    let cache = find(&caches, cache)?;
    match result {
        "ACCESS" => Ok(format!("{cache}-{}", find(&many, op)?)),
        "MISS" => Ok(format!("{cache}-{}-misses", find(&one, op)?)),
        _ => bail!("'{result}' is no result of a cache event"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> GenericFiles {
        GenericFiles {
            hardware: "core,cpu-cycles,bus-cycles,ref-cycles\nx,0x3c,,0x300\n".to_owned(),
            cache: "core,cache,op,result,config,config1,status,vendor\n\
                    x,L1D,READ,ACCESS,0x81d0,,ok,MEM\n\
                    x,L1D,WRITE,MISS,,,unsupported,\n\
                    x,LL,PREFETCH,MISS,0x1b7,0x3fc,ok,\n\
                    x,ITLB,WRITE,MISS,,,invalid,\n\
                    y,NODE,READ,MISS,zz,,ok,\n"
                .to_owned(),
        }
    }

    #[test]
    fn generic_events_are_those_that_the_kernel_has_by_perfs_names() {
        let events = files().of("x", "x").unwrap();
        let shown: Vec<String> =
            events.iter().map(|e| format!("{} {:#x} {:#x}", e.name, e.config, e.config1)).collect();
        let expected = [
            "cpu-cycles 0x3c 0x0",
            "ref-cycles 0x300 0x0",
            "L1-dcache-loads 0x81d0 0x0",
            "LLC-prefetch-misses 0x1b7 0x3fc",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_core_that_is_not_there_and_a_number_that_is_none_are_errors() {
        let refused = |hardware: &str, cache: &str| files().of(hardware, cache).unwrap_err().to_string();
        assert_eq!(refused("z", "x"), "x86_hw_events.csv has no z");
        assert_eq!(refused("x", "z"), "x86_hw_cache_events.csv has no z");
        assert_eq!(refused("x", "y"), "node-load-misses: 'zz' or '' is no number");
    }
}
