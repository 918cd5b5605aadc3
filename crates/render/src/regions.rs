//! Regions that a command marked: a table for each, below that of the whole command.

use cyclometer_toolkit::core::report::Run;
use cyclometer_toolkit::core::{Count, LaunchKind, Rung, Scope, Unit};
use cyclometer_toolkit::stats::{self, MetricRequest, Summary, summarise_with};
use cyclometer_toolkit::{MarkedRegion, MarkedRegions, MarkedRun, MarkedThread};

use crate::paint::Paint;
use crate::text::clean;
use crate::{Results, table, units};

/// Regions with their statistics.
#[derive(Debug)]
pub struct Regions {
    all: Vec<CountedRegion>,
    notes: Vec<String>,
}

/// The regions of one name with their statistics.
#[derive(Debug)]
pub struct CountedRegion {
    /// The region as it was measured.
    pub region: MarkedRegion,
    /// Its statistics.
    pub summary: Summary,
    /// The statistics of the events that can be counted in a region.
    shown: Summary,
}

/// The most regions that are shown; exports have all.
const SHOWN: usize = 100;

/// The longest name that is shown, in characters; exports have all of it.
const SHOWN_CHARS: usize = 60;

impl Regions {
    /// Computes the statistics, and the metrics that were asked for.
    pub fn new(marked: MarkedRegions, requests: &[MetricRequest]) -> Regions {
        let counted = |region: MarkedRegion| {
            let summary = summarise_with(&region.report, Scope::Thread, requests);
            let mut shown = summary.clone();
            // Lines that the system accounts for whole processes would repeat one remark on each region.
            shown.lines.retain(|line| line.rung != Some(Rung::Os));
            CountedRegion { region, summary, shown }
        };
        Regions { all: marked.regions.into_iter().map(counted).collect(), notes: marked.notes }
    }

    /// All of them, in the order in which they came first.
    pub fn all(&self) -> &[CountedRegion] {
        &self.all
    }

    /// The remarks about all regions, or the reason why there are none.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// A table for each region, and the remarks.
    pub fn tables(&self, whole: &Results<'_>, verbose: bool, paint: Paint) -> String {
        let mut out: String =
            self.all.iter().take(SHOWN).map(|counted| counted.table(whole, verbose, paint)).collect();
        let mut notes = self.notes.clone();
        if let Some(more) = self.all.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            notes.push(format!("{more} more regions are not shown: --export-json has all"));
        }
        let left_out: Vec<String> = not_of_regions(&whole.summary.lines);
        if !self.all.is_empty() && !left_out.is_empty() {
            notes.push(format!(
                "not counted in regions, as the system accounts it for processes: {}",
                left_out.join(", ")
            ));
        }
        if !notes.is_empty() {
            out += "\n";
        }
        out + &notes.iter().map(|note| table::remark(&clean(note), paint)).collect::<String>()
    }
}

fn not_of_regions(lines: &[stats::LineSummary]) -> Vec<String> {
    lines.iter().filter(|line| line.rung == Some(Rung::Os)).map(|line| clean(&line.name)).collect()
}

impl CountedRegion {
    /// The results of this region instead of those of the whole command.
    pub fn results<'a>(&'a self, whole: &Results<'a>) -> Results<'a> {
        Results {
            report: &self.region.report,
            summary: &self.summary,
            regions: None,
            by_code: None,
            intervals: None,
            ..*whole
        }
    }

    /// The same without the events that cannot be counted in any region.
    pub fn shown<'a>(&'a self, whole: &Results<'a>) -> Results<'a> {
        Results { summary: &self.shown, ..self.results(whole) }
    }

    /// How often, by how many threads, how long.
    pub fn heading(&self) -> String {
        let runs: Vec<&MarkedRun> = self.region.runs.iter().collect();
        let of = |number: fn(&MarkedRun) -> u64, one: &str, many: &str| {
            let numbers = runs.iter().map(|run| number(run));
            let (low, high) = (numbers.clone().min().unwrap_or(0), numbers.max().unwrap_or(0));
            let range = if low == high { low.to_string() } else { format!("{low} … {high}") };
            format!("{range} {}", if high == 1 { one } else { many })
        };
        format!(
            "{} · {} · {}",
            of(|run| run.calls, "call", "calls"),
            of(|run| run.threads, "thread", "threads"),
            self.time(),
        )
    }

    /// How long a run was in the region, in the mean of the runs on the processor itself: translation takes
    /// its own time. Where all were translated, it says so.
    fn time(&self) -> String {
        let all = || self.region.runs.iter().zip(&self.region.report.runs);
        let has_native = all().any(|(_, run)| !is_translated(run));
        let times: Vec<f64> = all()
            .filter(|(_, run)| !has_native || !is_translated(run))
            .map(|(marked, _)| marked.time_ns as f64)
            .collect();
        let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
        let each = if self.region.runs.len() > 1 { " a run" } else { "" };
        let how = if has_native { "" } else { ", translated" };
        format!("{}{each}{how}", units::short(mean, &Unit::Nanoseconds))
    }

    /// The counts of a thread for each event that can be counted in a region. Each has its name, its value in
    /// the event's unit, and its quality.
    pub fn of_thread(&self, thread: &MarkedThread) -> Vec<(String, Option<f64>, Count)> {
        let plan = &self.region.report.plan;
        let counted = |line: &stats::LineSummary| {
            let of_plan = plan.lines.get(line.slot.0)?;
            thread.reading.cells.iter().find(|cell| cell.slot == line.slot)?;
            let count = stats::settle(of_plan, &thread.reading, line.slot, Scope::Thread);
            let scale = of_plan.candidate().map_or(1.0, |candidate| candidate.scale);
            Some((line.name.clone(), count.value().map(|value| value as f64 * scale), count))
        };
        self.shown.lines.iter().filter_map(counted).collect()
    }

    fn table(&self, whole: &Results<'_>, verbose: bool, paint: Paint) -> String {
        let heading = format!("region {} · {}", shortened(&clean(&self.region.label)), self.heading());
        let table = table::render_below(&heading, &self.shown(whole), verbose, paint);
        let notes = self.region.notes.iter().map(|note| {
            let note = format!("{}: {note}", shortened(&clean(&self.region.label)));
            table::remark(&note, paint)
        });
        format!("\n{table}") + &notes.collect::<String>()
    }
}

/// Whether the software PMU translated the command in a run.
pub fn is_translated(run: &Run) -> bool {
    run.launch == LaunchKind::Translated
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
