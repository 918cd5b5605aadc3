//! The comparison of several commands, or of one command and a baseline, in every format.

pub mod code;
pub mod csv;
pub mod delta;
pub mod json;
mod level;
pub mod markdown;
pub mod plot;
pub mod strip;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use cyclometer_toolkit::compare::Executions;
use cyclometer_toolkit::core::{Machine, Report};
use cyclometer_toolkit::interleaved::Comparison;
use cyclometer_toolkit::stats::compare::{Compared, GateOutcome, Question, Series};
use cyclometer_toolkit::stats::{Failures, Summary};
use cyclometer_toolkit::symbols::CodeSeries;

use crate::Results;
use crate::compare::code::CodeVersus;
use crate::paint::Paint;
use crate::table::{self, remark};
use crate::target::shortened;
use crate::text::clean;

/// One of the commands, with its results.
#[derive(Debug)]
pub struct ArmShown {
    /// The command as it is shown.
    pub name: String,
    /// Its statistics.
    pub summary: Summary,
    /// Its metrics over runs.
    pub series: Vec<Series>,
    /// Its counts by code, if they were asked for.
    pub code: Option<CodeSeries>,
}

/// The side that others are compared with.
#[derive(Clone, PartialEq, Debug)]
pub enum Reference {
    /// The first command.
    First,
    /// A file.
    Baseline {
        /// How the file is shown.
        file: String,
        /// The command in it.
        command: String,
        /// Its metrics over runs.
        series: Vec<Series>,
        /// Its counts by code, if they were asked for.
        code: Option<Box<CodeSeries>>,
        /// The number of its runs that failed.
        failures: Failures,
        /// Remarks on the baseline: another kernel, a format with few details.
        notes: Vec<String>,
    },
}

/// One command against the reference.
#[derive(Debug)]
pub struct Versus {
    /// Which command.
    pub arm: usize,
    /// Every metric of both.
    pub metrics: Vec<Compared>,
    /// The outcomes of the gates.
    pub gates: Vec<GateOutcome>,
    /// The changes by code, if they were asked for.
    pub code: Option<CodeVersus>,
}

/// The input of every output format of `compare`.
#[derive(Debug)]
pub struct Contest<'a> {
    /// The machine of the measurement.
    pub machine: &'a Machine,
    /// The reports of the measurement.
    pub comparison: &'a Comparison,
    /// The commands.
    pub arms: Vec<ArmShown>,
    /// The side that the commands are compared with.
    pub reference: Reference,
    /// The comparisons; none where one command became a baseline.
    pub versus: Vec<Versus>,
    /// The method of comparison.
    pub question: Question,
    /// The number of executions, as announced.
    pub executions: Executions,
    /// The differences of the outputs, if these were compared and differ.
    pub output_difference: Option<String>,
    /// Whether outputs were compared.
    pub output_checked: bool,
}

impl Contest<'_> {
    /// The name of the reference.
    pub fn reference_name(&self) -> String {
        match &self.reference {
            Reference::First => self.arms.first().map(|arm| arm.name.clone()).unwrap_or_default(),
            Reference::Baseline { file, command, .. } => format!("{command} (baseline {file})"),
        }
    }

    /// The same for a terminal, with the beginning of a long command.
    pub fn reference_shown(&self) -> String {
        match &self.reference {
            Reference::First => shortened(self.reference_name()),
            Reference::Baseline { file, command, .. } => {
                format!("{} (baseline {file})", shortened(command.clone()))
            }
        }
    }

    /// The metrics of the reference.
    pub fn reference_series(&self) -> &[Series] {
        match &self.reference {
            Reference::First => self.arms.first().map(|arm| arm.series.as_slice()).unwrap_or_default(),
            Reference::Baseline { series, .. } => series,
        }
    }

    /// The counts by code of the reference, if they were asked for.
    pub fn reference_code(&self) -> Option<&CodeSeries> {
        match &self.reference {
            Reference::First => self.arms.first().and_then(|arm| arm.code.as_ref()),
            Reference::Baseline { code, .. } => code.as_deref(),
        }
    }

    /// The runs of the reference that failed.
    pub fn reference_failures(&self) -> Failures {
        match &self.reference {
            Reference::First => self.comparison.reports.first().map(Failures::of).unwrap_or_default(),
            Reference::Baseline { failures, .. } => failures.clone(),
        }
    }

    /// A command as other formats of results show it.
    pub fn results(&self, arm: usize) -> Results<'_> {
        Results {
            report: self.report(arm),
            summary: &self.arms[arm].summary,
            machine: self.machine,
            regions: None,
            by_code: None,
            intervals: None,
        }
    }

    /// The report of a command.
    pub fn report(&self, arm: usize) -> &Report {
        &self.comparison.reports[arm]
    }
}

/// A table for each command, then the differences.
pub fn render(contest: &Contest<'_>, verbose: bool, paint: Paint) -> String {
    let mut said = Vec::new();
    let mut out = String::new();
    for arm in 0..contest.arms.len() {
        if contest.report(arm).runs.is_empty() {
            let name = shortened(clean(&contest.arms[arm].name));
            out += &remark(&format!("command {} was not measured: {name}", arm + 1), paint);
            out.push('\n');
            continue;
        }
        out += &table::render_among(&contest.results(arm), verbose, paint, &mut said);
        out.push('\n');
    }
    out += &delta::render(contest, verbose, paint);
    out
}
