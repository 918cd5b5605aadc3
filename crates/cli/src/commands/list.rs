//! `list`: the events that can be named, and the metrics.

use cyclometer::{
    Error, ErrorKind, Listing, MetricListing, Result, list_events, list_metrics, list_metrics_of,
};

use crate::args::{Cli, ListArgs};
use crate::output::{Channel, clean};
use crate::render::{json, list, metrics};

/// Lists events, or metrics.
///
/// # Errors
///
/// `ErrorKind::UnknownEvent` when nothing fits the pattern, `ErrorKind::InvalidInput` for a CPU that is not known.
pub fn run(args: &ListArgs, cli: &Cli) -> Result<u8> {
    if args.metrics {
        return run_metrics(args, cli);
    }
    let machine = super::machine_of(args.machine.machine.as_deref())?;
    let all = list_events(&machine);
    let pattern = args.pattern.as_deref();
    let fitting: Vec<&Listing> =
        all.iter().filter(|event| pattern.is_none_or(|pattern| list::fits(event, pattern))).collect();
    if let (true, Some(pattern)) = (fitting.is_empty(), pattern) {
        return Err(Error::new(ErrorKind::UnknownEvent, format!("no event fits '{}'", clean(pattern))));
    }
    super::print(&match args.machine.json {
        true => json::pretty(&list::json(&fitting)),
        false => list::render(&fitting, super::paint(cli, Channel::Out)),
    })
}

fn run_metrics(args: &ListArgs, cli: &Cli) -> Result<u8> {
    let all = match &args.cpu {
        Some(cpu) => list_metrics_of(cpu)?,
        None => list_metrics(&super::machine_of(args.machine.machine.as_deref())?),
    };
    let pattern = args.pattern.as_deref();
    let fitting: Vec<&MetricListing> =
        all.iter().filter(|metric| pattern.is_none_or(|pattern| metrics::fits(metric, pattern))).collect();
    if let (true, Some(pattern)) = (fitting.is_empty(), pattern) {
        return Err(Error::new(ErrorKind::UnknownEvent, format!("no metric fits '{}'", clean(pattern))));
    }
    super::print(&match args.machine.json {
        true => json::pretty(&metrics::json(&fitting)),
        false => metrics::render(&fitting, cli.verbose, super::paint(cli, Channel::Out)),
    })
}
