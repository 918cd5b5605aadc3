//! Values of the options about sources, runs and CPUs that `stat` and `compare` share.

use clap::ValueEnum;
use cyclometer_toolkit::core::{Counted, CpuBaseline, CpuSet, Rung};
use cyclometer_toolkit::modelled_misses::{
    HierarchyGeometry, ModelledPart, NamedSize, host_geometry, host_tlbs,
};
use cyclometer_toolkit::symbols::Grouping;

/// Which source to use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Backend {
    /// The best one that works, event by event.
    Auto,
    /// Linux's perf_event only.
    Perf,
    /// macOS's kperf only: counters of whole CPUs, as root.
    Kperf,
    /// The software PMU only: exact counts by translation.
    Soft,
    /// x86 PMU registers only, written through the msr driver: as root, and while no other program uses the
    /// counters.
    Msr,
    /// Apple's PMU registers only, of one CPU, from user mode: with the module apple_pmu_el0 on Linux, or a
    /// patched macOS.
    Sysreg,
    /// macOS's accounts of cycles, instructions and energy only, which need no root.
    Selfcounts,
    /// Clocks and accounting of the operating system only.
    Os,
}

impl Backend {
    /// The source that it names; `None` for all sources.
    pub fn rung(self) -> Option<Rung> {
        match self {
            Backend::Auto => None,
            Backend::Perf => Some(Rung::Perf),
            Backend::Kperf => Some(Rung::Kperf),
            Backend::Soft => Some(Rung::Soft),
            Backend::Msr => Some(Rung::Msr),
            Backend::Sysreg => Some(Rung::Sysreg),
            Backend::Selfcounts => Some(Rung::SelfCounts),
            Backend::Os => Some(Rung::Os),
        }
    }
}

/// Reads the kind of code that counts are added up by.
pub fn grouping(text: &str) -> Result<Grouping, String> {
    let words = || Grouping::ALL.map(Grouping::word).join(", ");
    let found = Grouping::ALL.into_iter().find(|grouping| grouping.word() == text);
    found.ok_or_else(|| format!("one of {}", words()))
}

/// The model that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelRequest {
    /// The part of the command that it sees.
    pub part: ModelledPart,
    /// Its caches, and its TLBs if it has any.
    pub geometry: HierarchyGeometry,
}

/// One value of `--model`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelValue {
    part: ModelledPart,
    sizes: Vec<NamedSize>,
}

impl ModelRequest {
    /// The model of all values of `--model` together; `None` without a value. Sizes that none of them names
    /// are the machine's.
    pub fn of(values: &[ModelValue]) -> Option<ModelRequest> {
        let is_full = values.iter().any(|value| value.part == ModelledPart::Full);
        let sizes: Vec<NamedSize> = values.iter().flat_map(|value| value.sizes.iter().copied()).collect();
        (!values.is_empty()).then(|| ModelRequest {
            part: if is_full { ModelledPart::Full } else { ModelledPart::Windows },
            geometry: host_geometry().with(&sizes, &host_tlbs()),
        })
    }
}

/// Reads a value of `--model`: nothing, `full`, sizes of caches and TLBs, or both.
pub fn model(text: &str) -> Result<ModelValue, String> {
    let (part, sizes) = match text.strip_prefix("full") {
        Some("") => (ModelledPart::Full, ""),
        Some(rest) if rest.starts_with(':') => (ModelledPart::Full, &rest[1..]),
        _ => (ModelledPart::Windows, text),
    };
    let sizes = match sizes {
        "" if !text.ends_with(':') => Vec::new(),
        sizes => NamedSize::list(sizes).map_err(|why| format!("{why}; a command stands behind --"))?,
    };
    Ok(ModelValue { part, sizes })
}

/// How many runs the software PMU counts.
pub fn counted(text: &str) -> Result<Counted, String> {
    match text.parse() {
        _ if text == "all" => Ok(Counted::All),
        Ok(0) => Err("at least one run has to be counted; --backend perf or os translates none".to_owned()),
        Ok(runs) => Ok(Counted::Runs(runs)),
        Err(_) => Err(format!("'{text}' is neither a number of runs nor 'all'")),
    }
}

/// The name of a CPU baseline.
pub fn cpu_baseline(text: &str) -> Result<CpuBaseline, String> {
    let found = CpuBaseline::ALL.into_iter().find(|baseline| baseline.word() == text);
    let names = CpuBaseline::ALL.map(CpuBaseline::word).join(", ");
    found.ok_or_else(|| format!("no baseline has that name; there are {names}"))
}

/// A list of CPUs, as in `0-3,8`.
pub fn cpu_list(text: &str) -> Result<CpuSet, String> {
    let cpus = CpuSet::parse(text).map_err(|part| format!("'{part}' is no CPU and no range"))?;
    if cpus.is_empty() { Err("no CPU is named".to_owned()) } else { Ok(cpus) }
}
