//! Misses of modelled caches and TLBs of a command, as the results of a measurement.

use std::time::Duration;

use cyclometer_backend::{Launcher, MissRun, MissRunKind, MissSums, WindowMisses, miss_run};
use cyclometer_core::code::{CodeCounts, CodePlace};
use cyclometer_core::count::Interval;
use cyclometer_core::exec::{CommandSpec, Reading};
use cyclometer_core::plan::Sharing;
use cyclometer_core::report::Run;
use cyclometer_core::{
    Count, Intent, LaunchKind, Modes, Plan, Provenance, Report, Result, Rung, Scope, SlotId, Target, Unit,
    Verdict,
};
use cyclometer_stats::miss_rates::{LEAST_WINDOWS, RateWindow, miss_rate};
use cyclometer_stats::{LineSummary, MeanInterval, RunValue, Statistics, Summary};

pub use cyclometer_core::cache_geometry::{CacheGeometry, HierarchyGeometry, NamedSize};
pub use cyclometer_core::tlb_geometry::{FirstTlb, TlbGeometry, TlbHierarchy};

/// The part of the command that the model sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ModelledPart {
    /// Each instruction, under translation.
    Full,
    /// Windows of a native run.
    Windows,
}

/// Measures a command by a model of its caches.
#[derive(Clone, Debug)]
pub struct ModelledMisses {
    /// The command.
    pub command: CommandSpec,
    /// The caches, and the TLBs if they are modelled.
    pub geometry: HierarchyGeometry,
    /// The part of it that the model sees.
    pub part: ModelledPart,
}

/// Misses of modelled caches, as the results of a measurement.
#[derive(Clone, Debug)]
pub struct ModelledResults {
    /// The report, whose plan is empty: no event was counted.
    pub report: Report,
    /// The values.
    pub summary: Summary,
    /// The same by instruction, where each was seen.
    pub code: CodeCounts,
}

/// Windows: of 20,000 instructions, which take some 50 ms, with up to 150 ms between them.
const WINDOWS: MissRunKind =
    MissRunKind::Windows { steps: 20_000, time: Duration::from_millis(150), gap: Duration::from_millis(150) };

/// The names of misses in windows, in the order of [`MissSums::known`].
const RATES: [&str; 7] = [
    "modelled_l1i_mpki",
    "modelled_l1d_mpki",
    "modelled_ll_mpki",
    "modelled_branch_mpki",
    "modelled_itlb_mpki",
    "modelled_dtlb_mpki",
    "modelled_stlb_mpki",
];

/// The name of the estimate of cycles.
const CYCLES: &str = "estimated_cycles";

/// The formula of the estimate of cycles.
///
/// # Source
///
/// Valgrind manual, "Callgrind: Cycle Estimation", without its terms for branches and the bus. It has none
/// for TLBs.
const CYCLES_FORMULA: &str = "instructions + 10 × L1 misses + 100 × LL misses, the formula of Callgrind";

impl ModelledMisses {
    /// Runs the command once.
    ///
    /// # Errors
    ///
    /// `ErrorKind::ArchUnsupported` where processes cannot be stepped, `ErrorKind::PermissionDenied` where
    /// tracing is not permitted, and the launcher's.
    pub fn run(&self, launcher: &Launcher) -> Result<ModelledResults> {
        let kind = match self.part {
            ModelledPart::Full => MissRunKind::Full,
            ModelledPart::Windows => WINDOWS,
        };
        let run = miss_run(launcher, &self.command, &self.geometry, kind)?;
        let lines = match self.part {
            ModelledPart::Full => self.counts(&run),
            ModelledPart::Windows => self.rates(&run.windows),
        };
        let summary = Summary {
            scope: Scope::Tree,
            lines,
            derived: Vec::new(),
            dropped: Vec::new(),
            only_dropped: false,
        };
        Ok(ModelledResults { report: self.report(&run), summary, code: with_cycles(run.code) })
    }

    fn report(&self, run: &MissRun) -> Report {
        let plan = Plan {
            lines: Vec::new(),
            passes: Vec::new(),
            sharing: Sharing::default(),
            intent: Intent::default(),
        };
        let only = Run {
            index: 0,
            launch: LaunchKind::Native,
            layout: None,
            cpu_baseline: None,
            pass: 0,
            exit: run.exit,
            dropped_because: None,
            wall_ns: u64::try_from(run.wall.as_nanos()).unwrap_or(u64::MAX),
            reading: Reading::default(),
            slices: Vec::new(),
        };
        Report {
            command: Some(self.command.clone()),
            target: None::<Target>,
            plan,
            runs: vec![only],
            steps: Vec::new(),
            interrupted: run.interrupted,
            failure: None,
        }
    }

    /// The counts of a command of which each instruction was seen.
    fn counts(&self, run: &MissRun) -> Vec<LineSummary> {
        let sum = run.windows.first().map_or_else(MissSums::default, |window| window.sums);
        let len = MissSums::value_count(self.geometry.tlbs.is_some());
        let names = MissSums::NAMES[..len].iter().map(|name| format!("modelled_{name}"));
        let values = sum.values();
        let cycles = estimated_cycles(&values);
        let all = names.zip(values).chain([(CYCLES.to_owned(), cycles)]);
        let line = |(slot, (name, value)): (usize, (String, u64))| {
            let mut line = self.line(slot, &name);
            if run.windows.is_empty() {
                line.reason = Some("the model has seen no instruction of the command".to_owned());
                return line;
            }
            line.statistics = Statistics::of(&[value as f64]);
            let count = match &run.left {
                Some(left) => Count::Partial { raw: value, part: left.clone().into() },
                None => Count::Exact(value),
            };
            line.verdict = count.verdict();
            line.reason = count.reason();
            line.values.push(of_run(value as f64, count, None));
            if name == CYCLES {
                line.notes.push(CYCLES_FORMULA.to_owned());
            }
            line
        };
        all.enumerate().map(line).collect()
    }

    /// The misses of windows, for each thousand instructions.
    fn rates(&self, windows: &[WindowMisses]) -> Vec<LineSummary> {
        let instructions: u64 = windows.iter().map(|window| window.sums.instructions).sum();
        let seen = format!("estimated from {} windows with {instructions} instructions", windows.len());
        let line = |(slot, name): (usize, &&str)| {
            let mut line = self.line(slot, name);
            line.unit = Unit::Ratio;
            let of_windows: Vec<RateWindow> = windows.iter().map(|window| rate(window, slot)).collect();
            match miss_rate(&of_windows) {
                Some(rate) => {
                    let (value, half_width) = (1000.0 * rate.middle(), 1000.0 * rate.half_width());
                    line.verdict = Verdict::Scaled;
                    line.reason = Some(seen.clone());
                    line.statistics = Statistics::of(&[value]);
                    line.interval = Some(Ok(MeanInterval { half_width, concentrated: false }));
                    let known = windows.iter().map(|window| window.sums.known[slot]).sum();
                    let count = Count::Scaled {
                        raw: known,
                        estimate: (rate.middle() * instructions as f64).round() as u64,
                        time_enabled_ns: 0,
                        time_running_ns: 0,
                        interval: Interval::Known {
                            half_width: (rate.half_width() * instructions as f64).ceil() as u64,
                            concentrated: false,
                        },
                    };
                    line.values.push(of_run(value, count, Some(half_width)));
                }
                None => {
                    line.reason = Some(format!(
                        "the command is too short: {} of at least {LEAST_WINDOWS} windows; use --model full",
                        windows.len()
                    ));
                }
            }
            line
        };
        let of_tlbs = if self.geometry.tlbs.is_some() { 0 } else { MissSums::OF_TLBS };
        RATES[..RATES.len() - of_tlbs].iter().enumerate().map(line).collect()
    }

    /// The parts that are modelled, in words.
    fn parts(&self) -> &'static str {
        if self.geometry.tlbs.is_some() { "caches and TLBs" } else { "caches" }
    }

    /// The sizes of the model, one note for the caches and one for the TLBs.
    fn sizes(&self) -> Vec<String> {
        let caches = HierarchyGeometry { tlbs: None, ..self.geometry };
        let caches = format!("the caches of all rows (bytes, ways, line): {caches}");
        let tlbs =
            self.geometry.tlbs.map(|tlbs| format!("the TLBs of all rows (entries, ways, page): {tlbs}"));
        [caches].into_iter().chain(tlbs).collect()
    }

    /// A line without a value yet.
    fn line(&self, slot: usize, name: &str) -> LineSummary {
        LineSummary {
            slot: SlotId(slot),
            name: name.to_owned(),
            event: name.to_owned(),
            requested: true,
            unit: Unit::Count,
            rung: Some(Rung::Soft),
            provenance: Some(Provenance::Modelled),
            scope: Scope::Tree,
            modes: Some(Modes::USER),
            resolution: Some(format!("a model of the {} {}", self.parts(), self.geometry)),
            skipped: Vec::new(),
            // The table needs it once.
            notes: if slot == 0 { self.sizes() } else { Vec::new() },
            launch: Some(LaunchKind::Native),
            determinism: None,
            verdict: Verdict::NotCounted,
            reason: None,
            not_planned: None,
            statistics: Statistics::default(),
            interval: None,
            values: Vec::new(),
            is_hybrid: false,
            parts: Vec::new(),
        }
    }
}

fn of_run(value: f64, count: Count, half_width: Option<f64>) -> RunValue {
    RunValue { run: 0, pass: 0, value: Some(value), count, half_width, rotation_group: None }
}

fn rate(window: &WindowMisses, cache: usize) -> RateWindow {
    RateWindow {
        weight: window.native.as_secs_f64(),
        instructions: window.sums.instructions as f64,
        known: window.sums.known[cache] as f64,
        unknown: window.sums.unknown[cache] as f64,
    }
}

/// By [`CYCLES_FORMULA`], of values in the order of [`MissSums::NAMES`], which has more than five.
fn estimated_cycles(values: &[u64]) -> u64 {
    let [instructions, _, l1i, l1d, ll, ..] = values else {
        unreachable!("a model has a value of each name")
    };
    instructions + 10 * (l1i + l1d) + 100 * ll
}

/// Counts by instruction with estimated cycles as the last slot.
fn with_cycles(code: CodeCounts) -> CodeCounts {
    let with = |place: CodePlace| {
        let cycles = estimated_cycles(&place.counts);
        CodePlace { counts: place.counts.iter().copied().chain([cycles]).collect(), ..place }
    };
    let slots = (0..=code.slots.len()).map(SlotId).collect();
    CodeCounts { slots, places: code.places.into_iter().map(with).collect(), ..code }
}

/// The caches of this machine's first CPU; those that the system does not list are usual ones.
pub fn host_geometry() -> HierarchyGeometry {
    cyclometer_detect::cache_geometry(&cyclometer_detect::HostFacts)
}

/// The TLBs of this machine's first CPU; those that it does not list are usual ones.
pub fn host_tlbs() -> TlbHierarchy {
    cyclometer_detect::tlb_geometry(&cyclometer_detect::HostFacts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_estimated_by_the_formula_that_is_named() {
        assert_eq!(estimated_cycles(&[1000, 400, 2, 3, 1, 50, 4]), 1000 + 10 * 5 + 100);
    }
}
