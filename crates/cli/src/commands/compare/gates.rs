//! Checks of gates before anything runs.

use cyclometer_toolkit::catalogue::nearest_names;
use cyclometer_toolkit::core::{Pass, Plan, PlanLine};
use cyclometer_toolkit::stats::compare::{Gate, Series};
use cyclometer_toolkit::{Error, Result, Stat};

use super::baseline::Baseline;
use crate::failure::usage;
use crate::output::clean;

/// Metrics of every report that has their inputs.
const OF_EVERY_REPORT: [&str; 4] = ["cpu_utilization", "ipc", "branch_miss_rate", "cache_miss_rate"];

/// Refuses gates on unmeasured metrics, on metrics that the baseline lacks, and on those that no run could
/// decide.
///
/// # Errors
///
/// Usage, naming the gate and the metric.
pub fn check(gates: &[Gate], plan: &Plan, stat: &Stat, baseline: Option<&Baseline>) -> Result<()> {
    let mut known: Vec<String> = OF_EVERY_REPORT.iter().map(|name| (*name).to_owned()).collect();
    known.extend(plan.lines.iter().flat_map(|line| [fold(&line.event.name), fold(&line.label())]));
    known.extend(stat.metric_requests().iter().map(|request| fold(&request.name)));
    for gate in gates {
        for name in gate.names() {
            if !known.contains(&fold(name)) && !known.contains(&stem(name)) {
                return Err(not_measured(gate, name, plan, stat));
            }
            is_one(gate, name, plan)?;
            if baseline.is_some_and(|baseline| !baseline.series.iter().any(|series| is_called(series, name)))
            {
                let why = format!("the baseline has no {}", clean(name));
                return Err(wrong(gate, &why, "save the baseline anew with the same -e and -M"));
            }
        }
        has_a_run(gate, plan)?;
    }
    Ok(())
}

fn not_measured(gate: &Gate, name: &str, plan: &Plan, stat: &Stat) -> Error {
    let requests = stat.metric_requests();
    let labels: Vec<String> = plan.lines.iter().map(PlanLine::label).collect();
    let measured = labels.iter().map(String::as_str).chain(OF_EVERY_REPORT);
    let measured = measured.chain(requests.iter().map(|request| request.name.as_str()));
    let nearest = nearest_names(name, measured).join(", ");
    let near = if nearest.is_empty() { nearest } else { format!("nearest of the measured: {nearest}; ") };
    let hint = format!("{near}to measure others, name an event with -e, or a metric with -M");
    wrong(gate, &format!("{} is not measured", clean(name)), &hint)
}

fn fold(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

fn stem(name: &str) -> String {
    fold(name.split(':').next().unwrap_or(name))
}

fn is_called(series: &Series, name: &str) -> bool {
    [fold(&series.name), fold(&series.event), stem(&series.name)].contains(&fold(name))
}

fn wrong(gate: &Gate, why: &str, hint: &str) -> Error {
    usage(format!("--fail-if '{}': {why}", clean(gate.text())), hint)
}

/// The events that a name may mean, by index: one by its whole name, else all of that name in other modes.
fn meant(name: &str, plan: &Plan) -> Vec<usize> {
    let of = |is_it: &dyn Fn(&PlanLine) -> bool| -> Vec<usize> {
        (0..plan.lines.len()).filter(|i| is_it(&plan.lines[*i])).collect()
    };
    let mut printed = of(&|line| fold(&line.label()) == fold(name));
    printed.truncate(1);
    match printed.is_empty() {
        true => of(&|line| fold(&line.event.name) == fold(name)),
        false => printed,
    }
}

/// A name is of one event, in a unit that the limit fits.
fn is_one(gate: &Gate, name: &str, plan: &Plan) -> Result<()> {
    let meant = meant(name, plan);
    let mut labels: Vec<String> = meant.iter().map(|i| plan.lines[*i].label()).collect();
    labels.sort_unstable();
    labels.dedup();
    if labels.len() > 1 {
        let why = format!("{} may be any of {}", clean(name), clean(&labels.join(", ")));
        let hint =
            if gate.is_formula() { "measure one of them alone" } else { "write the one with its modes" };
        return Err(wrong(gate, &why, hint));
    }
    let units = meant.first().map(|i| plan.lines[*i].event.unit.symbol());
    match units.and_then(|unit| gate.misfit(unit)) {
        Some(why) => {
            Err(wrong(gate, &why, "write the change as a share, +0.5%, or in the unit of the metric"))
        }
        None => Ok(()),
    }
}

/// A formula needs all its events from one run.
fn has_a_run(gate: &Gate, plan: &Plan) -> Result<()> {
    let events: Vec<usize> =
        gate.names().iter().filter_map(|name| meant(name, plan).first().copied()).collect();
    let counted = events.iter().filter(|i| plan.lines[**i].candidate().is_some());
    let counted: Vec<usize> = counted.copied().collect();
    let has = |pass: &Pass, event: &usize| pass.slots.iter().any(|slot| slot.id.0 == *event);
    let has_all = |pass: &Pass| counted.iter().all(|event| has(pass, event));
    if counted.is_empty() || plan.passes.iter().any(has_all) {
        return Ok(());
    }
    let why = "no run has values of all its metrics: some are of other runs, or of those that the software PMU counts";
    Err(wrong(gate, why, "compute with metrics that are measured together"))
}
