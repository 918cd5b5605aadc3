//! Advice about a command: what is measured for it, and the rules' judgement.

use std::time::Duration;

use cyclometer_backend::{Launcher, ModelRunSettings, ModelledRun, modelled_run};
use cyclometer_core::code::CodeCounts;
use cyclometer_core::exec::{CommandSpec, ExitStatus};
use cyclometer_core::ladder::Works;
use cyclometer_core::{Error, Machine, Provenance, Report, Result, Rung};
use cyclometer_session::Observer;
use cyclometer_stats::{Summary, summarise_with};
use cyclometer_symbols::{CountsByCode, Grouping, group};

use crate::HostCodeFiles;
use crate::{EventTables, Stat};

pub use cyclometer_advise::history;
pub use cyclometer_advise::{
    Advice, AdviceFinding, Confidence, Evidence, Fact, FactOrigin, Facts, NotMeasured, Rule, RuleBound,
    Rules, judge,
};

/// Events of every native run.
const KERNEL_EVENTS: &str = "wall_time,user_time,system_time,peak_rss,minor-faults,major-faults,\
     voluntary_switches,involuntary_switches";

/// Hardware events that rules know, where there is a PMU.
const HARDWARE_EVENTS: &str = "cycles,instructions,branch_misses,llc_misses,stalls_frontend";

/// The vendor's metrics of the first level.
const TOP_DOWN: &str = "TopdownL1";

/// Events that the software PMU counts.
const COUNTED_EVENTS: &str = "instructions,branches_conditional,calls,atomics,system_calls,fp_scalar,fp_packed,\
     simd_scalar,simd_128,simd_256,simd_512";

/// Windows that the models need at least.
const LEAST_WINDOWS: u32 = 2;

/// Looks at threads without which shares of them say nothing.
const LEAST_LOOKS: u64 = 8;

/// Instructions that the models need at least.
const LEAST_STEPS: u64 = 5_000;

/// The part of the time in which a command waits for a CPU on a busy machine, at least, as in the rules.
const BUSY_PART: f64 = 0.3;

/// Names of functions that allocate, without namespaces and arguments.
///
/// # Source
///
/// C11 section 7.22.3; glibc `malloc/malloc.c`; jemalloc and mimalloc, their prefixes; Rust `alloc::alloc`.
const ALLOCATORS: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "free",
    "cfree",
    "aligned_alloc",
    "posix_memalign",
    "_int_malloc",
    "_int_free",
    "_int_realloc",
    "_int_free_merge_chunk",
    "_int_free_create_chunk",
    "malloc_consolidate",
    "unlink_chunk",
    "tcache_",
    "sysmalloc",
    "systrim",
    "checked_request2size",
    "je_",
    "mi_",
    "operator new",
    "operator delete",
    "__libc_malloc",
    "__libc_free",
    "__libc_calloc",
    "__libc_realloc",
    "__rust_alloc",
    "__rust_dealloc",
    "__rust_realloc",
    "__rdl_alloc",
    "__rdl_dealloc",
];

/// The executions that advice is made from, in order; more of them answer more questions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AdviseExecution {
    /// A native run with the kernel's accounting and the hardware PMU.
    Native,
    /// A run that the software PMU counts.
    Counted,
    /// A native run with windows for the models.
    Modelled,
}

impl AdviseExecution {
    /// All of them.
    pub const ALL: [AdviseExecution; 3] =
        [AdviseExecution::Native, AdviseExecution::Counted, AdviseExecution::Modelled];

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            AdviseExecution::Native => "native",
            AdviseExecution::Counted => "counted",
            AdviseExecution::Modelled => "modelled",
        }
    }
}

/// Measures a command for advice.
#[derive(Clone, Debug)]
pub struct AdviseRun {
    machine: Machine,
    tables: EventTables,
    command: CommandSpec,
    executions: usize,
}

/// A function's part of a fact.
#[derive(Clone, PartialEq, Debug)]
pub struct FunctionShare {
    /// Its name; `None`: unknown.
    pub function: Option<String>,
    /// The path of its file of code; `None`: code of no file.
    pub object: Option<String>,
    /// Its part of the whole program's count, 0 to 1.
    pub share: f64,
}

/// The measurements of a command.
#[derive(Clone, Debug, Default)]
pub struct Measurements {
    /// Numbers, and reasons for those that are missing.
    pub facts: Facts,
    /// The executions that were made.
    pub executions: Vec<AdviseExecution>,
    /// How the first one that failed ended.
    pub failed: Option<ExitStatus>,
    /// The signal that ended the measurement early.
    pub interrupted: Option<i32>,
    /// Notes on the measurement for the reader.
    pub notes: Vec<String>,
    counted: Option<(Vec<String>, CountsByCode)>,
    modelled: Option<(Vec<String>, CountsByCode)>,
}

/// The counts by code of the last run.
#[derive(Default)]
struct LastCodeCounts(Option<Result<CodeCounts>>);

impl Observer for LastCodeCounts {
    fn code(&mut self, counts: Result<CodeCounts>) {
        self.0 = Some(counts);
    }
}

impl AdviseRun {
    /// For a command on this machine. It is executed up to three times.
    pub fn new(machine: Machine, command: CommandSpec) -> AdviseRun {
        AdviseRun {
            machine,
            tables: EventTables::embedded(),
            command,
            executions: AdviseExecution::ALL.len(),
        }
    }

    /// Makes so many of [`AdviseExecution::ALL`] at most, in order.
    #[must_use]
    pub fn executions(self, executions: usize) -> AdviseRun {
        AdviseRun { executions, ..self }
    }

    /// Looks names of events up in these tables.
    #[must_use]
    pub fn tables(self, tables: EventTables) -> AdviseRun {
        AdviseRun { tables, ..self }
    }

    /// Measures.
    ///
    /// # Errors
    ///
    /// Only if nothing was measured.
    pub fn run(&self, launcher: &Launcher) -> Result<Measurements> {
        let mut all = Measurements::default();
        all.facts.put(
            "cpus",
            f64::from(u32::try_from(self.machine.online.len()).unwrap_or(1)),
            FactOrigin::Kernel,
        );
        all.facts.put("page_bytes", cyclometer_sys::process::page_size() as f64, FactOrigin::Kernel);
        for execution in AdviseExecution::ALL {
            let is_wanted = all.executions.len() < self.executions && all.failed.is_none();
            if !is_wanted || all.interrupted.is_some() {
                all.lack(execution, "this execution was not made");
                continue;
            }
            match execution {
                AdviseExecution::Native => self.native(launcher, &mut all)?,
                AdviseExecution::Counted => self.counted(launcher, &mut all),
                AdviseExecution::Modelled => self.modelled(launcher, &mut all),
            }
        }
        Ok(all)
    }

    fn stat(&self) -> Stat {
        Stat::new(self.machine.clone()).tables(self.tables.clone()).command(self.command.clone())
    }

    fn native(&self, launcher: &Launcher, all: &mut Measurements) -> Result<()> {
        let mut stat = self.stat().events(KERNEL_EVENTS)?;
        if self.has_pmu() {
            stat = stat.events(HARDWARE_EVENTS)?;
            // Not every CPU has them.
            stat = stat.clone().metrics(TOP_DOWN).unwrap_or(stat);
        }
        let report = stat.run(launcher, &mut cyclometer_session::Quiet)?;
        let summary =
            summarise_with(&report, cyclometer_stats::asked_scope(&report), &stat.metric_requests());
        all.executed(AdviseExecution::Native, &report);
        all.take(&summary);
        HARDWARE_EVENTS.split(',').for_each(|name| all.facts.lack(name, "no hardware PMU here"));
        Ok(())
    }

    fn has_pmu(&self) -> bool {
        let works = |rung| {
            let state = self.machine.ladder.state(rung);
            state.is_some_and(|state| matches!(state.works, Works::Yes | Works::Partly))
        };
        self.machine.core_pmus().next().is_some() && works(Rung::Perf)
    }

    fn counted(&self, launcher: &Launcher, all: &mut Measurements) {
        match self.count(launcher) {
            Ok((report, code)) => {
                all.executed(AdviseExecution::Counted, &report);
                let summary = cyclometer_stats::summarise(&report);
                all.take(&summary);
                match code {
                    Some(Ok(code)) => all.take_code(&code, &summary),
                    Some(Err(error)) => all.notes.push(format!("functions are unknown: {error}")),
                    None => {}
                }
                all.facts.lack("allocation_instructions", "the counts have no functions");
                all.lack(AdviseExecution::Counted, "the software PMU did not count it");
            }
            Err(error) => {
                all.lack(AdviseExecution::Counted, &format!("the software PMU did not run it: {error}"))
            }
        }
    }

    fn count(&self, launcher: &Launcher) -> Result<(Report, Option<Result<CodeCounts>>)> {
        let stat = self.stat().events(COUNTED_EVENTS)?.backend(Some(Rung::Soft)).by_code(true);
        let plan = stat.plan()?;
        let is_counted =
            plan.passes.iter().any(|pass| pass.launch == cyclometer_core::LaunchKind::Translated);
        if !is_counted {
            let reason = plan.lines.iter().find_map(|line| match &line.outcome {
                cyclometer_core::plan::Outcome::NotCounted(count) => {
                    count.reason().map(|why| why.to_string())
                }
                cyclometer_core::plan::Outcome::Counted { .. } => None,
            });
            let text = reason.unwrap_or_else(|| "it does not work here".to_owned());
            return Err(Error::new(cyclometer_core::ErrorKind::ArchUnsupported, text));
        }
        let mut code = LastCodeCounts::default();
        let report = stat.run(launcher, &mut code)?;
        Ok((report, code.0))
    }

    fn modelled(&self, launcher: &Launcher, all: &mut Measurements) {
        let time = |name| all.facts.value(name).unwrap_or(0.0).max(0.0);
        let (wall_ns, cpu_ns) = (time("wall_time"), time("user_time") + time("system_time"));
        // On a busy machine much of the time may have been spent waiting for a CPU.
        let expected_ns = wall_ns.min(2.0 * cpu_ns);
        let settings = ModelRunSettings {
            bursts: 5,
            burst_windows: 10,
            steps: 8_000,
            burst_time: Duration::from_secs(4),
            most_time: Duration::from_secs(16),
            expected: Duration::from_secs_f64(expected_ns / 1e9),
        };
        match modelled_run(launcher, &self.command, settings) {
            Ok(run) => {
                all.executions.push(AdviseExecution::Modelled);
                all.ended(AdviseExecution::Modelled, run.exit);
                all.take_model(run);
            }
            Err(error) => {
                if error.kind() == cyclometer_core::ErrorKind::Interrupted {
                    all.interrupted = launcher.take_signal().or(Some(2));
                }
                all.lack(AdviseExecution::Modelled, &format!("the models did not run: {error}"));
            }
        }
    }
}

impl Measurements {
    /// Those of facts that were measured before: functions are unknown.
    pub fn of(facts: Facts) -> Measurements {
        Measurements { facts, ..Measurements::default() }
    }

    /// Notes the reason for everything that an execution would have measured.
    fn lack(&mut self, execution: AdviseExecution, reason: &str) {
        let lacks = |facts: &mut Facts, names: &str| {
            names.split(',').for_each(|name| facts.lack(&fact_name(name), reason));
        };
        match execution {
            AdviseExecution::Native => lacks(&mut self.facts, KERNEL_EVENTS),
            AdviseExecution::Counted => {
                lacks(&mut self.facts, COUNTED_EVENTS);
                self.facts.lack("allocation_instructions", reason);
            }
            AdviseExecution::Modelled => {
                let names = MODELLED.iter().chain(SAMPLED);
                names.for_each(|name| self.facts.lack(name, reason));
            }
        }
    }

    fn executed(&mut self, execution: AdviseExecution, report: &Report) {
        self.executions.push(execution);
        self.interrupted = self.interrupted.or(report.interrupted);
        self.ended(execution, report.runs.iter().filter_map(|run| run.exit).find(|exit| !exit.success()));
    }

    /// Notes the end of an execution if the command failed.
    fn ended(&mut self, execution: AdviseExecution, exit: Option<ExitStatus>) {
        if let Some(failed) = exit.filter(|exit| !exit.success()) {
            self.failed.get_or_insert(failed);
            self.notes.push(format!("the {} run of the command failed", execution.word()));
        }
    }

    /// Takes the numbers of a summary.
    fn take(&mut self, summary: &Summary) {
        for line in &summary.lines {
            let name = fact_name(&line.event);
            match (line.statistics.mean, line.provenance) {
                (Some(value), Some(provenance)) => self.facts.put(&name, value, origin(provenance)),
                _ => self.facts.lack(&name, line.reason.clone().unwrap_or_else(|| "not counted".to_owned())),
            }
        }
        for derived in &summary.derived {
            let name = fact_name(&derived.metric);
            match derived.statistics.mean {
                Some(value) => self.facts.put(&name, value, FactOrigin::Hardware),
                None => self.facts.lack(&name, derived.reason.clone().unwrap_or_default()),
            }
        }
    }

    fn take_code(&mut self, code: &CodeCounts, summary: &Summary) {
        let counts = group(code, Grouping::Function, &HostCodeFiles);
        let name =
            |slot| summary.lines.iter().find(|line| line.slot == slot).map(|line| fact_name(&line.event));
        let names: Vec<String> = counts.slots.iter().map(|slot| name(*slot).unwrap_or_default()).collect();
        if let Some(index) = names.iter().position(|name| name == "instructions") {
            let allocators = counts.rows.iter().filter(|row| is_allocator(row.name.function.as_deref()));
            let sum: u64 = allocators.map(|row| row.counts[index]).sum();
            self.facts.put("allocation_instructions", sum as f64, FactOrigin::Counted);
        }
        self.counted = Some((names, counts));
    }

    fn take_model(&mut self, run: ModelledRun) {
        let looks =
            run.states.iter().find(|(name, _)| *name == "sampled_looks").map_or(0, |(_, looks)| *looks);
        for (name, value) in &run.states {
            match looks >= LEAST_LOOKS {
                true => self.facts.put(name, *value as f64, FactOrigin::Sampled),
                false => self.facts.lack(
                    name,
                    format!(
                        "the command ended after {looks} looks at its threads, of at least {LEAST_LOOKS}"
                    ),
                ),
            }
        }
        self.notes.extend(busy_machine(&run.states));
        let steps = run.counts.first().map_or(0, |(_, steps)| *steps);
        let is_enough = run.windows >= LEAST_WINDOWS && steps >= LEAST_STEPS;
        for (name, value) in run.counts.iter().chain(&run.estimates) {
            match is_enough {
                true => self.facts.put(name, *value as f64, FactOrigin::Modelled),
                false => self.facts.lack(
                    name,
                    format!(
                        "the command is too short or waits too much: {steps} instructions in {} window{}",
                        run.windows,
                        if run.windows == 1 { "" } else { "s" }
                    ),
                ),
            }
        }
        let names = run.counts.iter().map(|(name, _)| (*name).to_owned()).collect();
        self.modelled = Some((names, group(&run.code, Grouping::Function, &HostCodeFiles)));
    }

    /// The functions with the largest parts of a fact, largest first.
    pub fn functions(&self, fact: &str, most: usize) -> Vec<FunctionShare> {
        let allocators_only = fact == "allocation_instructions";
        let fact = if allocators_only { "instructions" } else { fact };
        let tables = self.counted.iter().chain(&self.modelled);
        let found =
            tables.filter_map(|(names, counts)| Some((names.iter().position(|name| name == fact)?, counts)));
        let Some((index, counts)) = found.into_iter().next() else { return Vec::new() };
        let total: u64 = counts.rows.iter().map(|row| row.counts[index]).sum();
        let rows = counts.rows.iter().filter(|row| row.counts[index] > 0);
        let mut shares: Vec<FunctionShare> = rows
            .filter(|row| !allocators_only || is_allocator(row.name.function.as_deref()))
            .map(|row| FunctionShare {
                function: row.name.function.clone(),
                object: row.name.object.clone(),
                share: row.counts[index] as f64 / total as f64,
            })
            .collect();
        shares.sort_by(|one, other| other.share.total_cmp(&one.share));
        shares.truncate(most);
        shares
    }
}

/// A note about a machine whose CPUs others used while a command ran.
fn busy_machine(states: &[(&'static str, u64)]) -> Option<String> {
    let state = |name| states.iter().find(|(state, _)| *state == name).map_or(0, |(_, value)| *value) as f64;
    let (ran, queued) = (state("sampled_cpu_time"), state("sampled_queue_time"));
    let queued = queued / (ran + queued).max(1.0);
    let stolen = state("sampled_stolen_ticks") / state("sampled_system_ticks").max(1.0);
    let busy = |part: f64, of: &str| {
        (part > BUSY_PART).then(|| {
            format!(
                "the machine is busy: the command {of} {:.0} % of the time in which it could have run; findings \
                 by looks at its threads are possible at most",
                part * 100.0
            )
        })
    };
    busy(queued, "waited for a CPU in").or_else(|| busy(stolen, "had its CPU taken by the hypervisor in"))
}

/// Names of modelled counts, where no model ran.
const MODELLED: &[&str] = &[
    "modelled_instructions",
    "modelled_irregular_touches",
    "modelled_unknown_touches",
    "modelled_irregular_misses",
    "modelled_working_set",
    "modelled_mispredictions",
    "modelled_false_sharing",
    "modelled_true_sharing",
    "modelled_unit_stride_loads",
    "modelled_accesses",
    "modelled_page_touches",
];

/// Names of what was seen of threads.
const SAMPLED: &[&str] = &[
    "sampled_looks",
    "sampled_threads",
    "sampled_running",
    "sampled_device_waits",
    "sampled_futex_waits",
    "sampled_other_waits",
    "most_threads",
    "working_threads",
    "busiest_process_time",
    "busiest_thread_time",
    "sampled_cpu_time",
    "sampled_queue_time",
    "sampled_system_ticks",
    "sampled_stolen_ticks",
];

/// The name of an event as the name of a fact: formulas take a dash for a minus.
pub fn fact_name(event: &str) -> String {
    event.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_").to_ascii_lowercase()
}

fn origin(provenance: Provenance) -> FactOrigin {
    match provenance {
        Provenance::Hardware => FactOrigin::Hardware,
        Provenance::Counted => FactOrigin::Counted,
        Provenance::Modelled | Provenance::Simulated => FactOrigin::Modelled,
        _ => FactOrigin::Kernel,
    }
}

fn is_allocator(function: Option<&str>) -> bool {
    let Some(name) = function else { return false };
    ALLOCATORS.iter().any(|known| match name.strip_prefix(known) {
        Some("") => true,
        Some(rest) => known.ends_with('_') || rest.starts_with(['(', '[', '.', '@', ' ']),
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_allocate_are_known_by_their_names() {
        for name in [
            "malloc",
            "free",
            "_int_malloc",
            "unlink_chunk.constprop.0",
            "operator new(unsigned long)",
            "tcache_init",
        ] {
            assert!(is_allocator(Some(name)), "{name}");
        }
        for name in ["main", "free_list", "mallocator", "tcache", "freeze"] {
            assert!(!is_allocator(Some(name)), "{name}");
        }
        assert!(!is_allocator(None));
    }

    #[test]
    fn names_of_facts_can_stand_in_formulas() {
        assert_eq!(fact_name("minor-faults"), "minor_faults");
        assert_eq!(fact_name("BR_MISP.ALL"), "br_misp_all");
    }
}
