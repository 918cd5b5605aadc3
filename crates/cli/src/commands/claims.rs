//! `reverse --check`: whether events count what their labels say.

use std::fs::File;
use std::io::{ErrorKind as IoKind, Read as _};
use std::path::Path;

use cyclometer_toolkit::catalogue::claims::{ClaimTable, EventClaim, MAX_BYTES};
use cyclometer_toolkit::catalogue::nearest_names;
use cyclometer_toolkit::reverse::{SweepMachine, SweepOptions};
use cyclometer_toolkit::{Error, ErrorKind, Recovery, Result};

use super::sweep_journal::JournalFile;
use super::sweep_log::SweepLog;
use crate::args::{Cli, ReverseArgs};
use crate::failure::{self, FileUse, of_file};
use crate::output::{Channel, clean, clean_os};
use crate::render::{claims, json};

/// Sweeps the codes of labels, and shows for each label whether its code counts that.
///
/// # Errors
///
/// A table that cannot be read, a label that it does not have, and those of [`SweepMachine::check_claims`].
pub fn run(
    machine: &SweepMachine,
    events: &[String],
    options: &SweepOptions,
    journal: Option<JournalFile>,
    args: &ReverseArgs,
    cli: &Cli,
) -> Result<u8> {
    let mut table = match &args.table {
        Some(name) => named_table(name)?,
        None => machine.vendor_claims(),
    };
    if !events.is_empty() {
        table.claims = chosen(&table, events)?;
    }
    if args.dry_run {
        let codes: Vec<u32> = table.claims.iter().map(|claim| claim.code).collect();
        return super::print(&super::sweep_log::dry_run(machine, &codes, false, options)?);
    }
    let mut observer = SweepLog::begin(args, journal, table.claims.len())?;
    let asked = std::mem::take(&mut table.claims);
    let checked = machine.check_claims(asked, options, &mut observer)?;
    drop(observer);
    super::print(&match args.json {
        true => json::pretty(&claims::json(&checked, &table, &machine.name(), &options.settings)),
        false => claims::render(&checked, &table, &machine.name(), super::paint(cli, Channel::Out)),
    })
}

/// The table that is part of this program, or else the file.
fn named_table(name: &Path) -> Result<ClaimTable> {
    if let Some(table) = name.to_str().and_then(ClaimTable::shipped) {
        return Ok(table);
    }
    let mut bytes = Vec::new();
    let read = File::open(name).and_then(|file| {
        // A byte more than is allowed shows that the file is too long.
        file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)
    });
    match read {
        Err(error) if error.kind() == IoKind::NotFound => return Err(unknown_table(name)),
        read => read.map_err(|error| of_file("--table", FileUse::Read, name, error))?,
    };
    let title = clean_os(name.as_os_str());
    ClaimTable::parse(&title, &bytes).map_err(|error| {
        let message = format!("--table: {title}: {error}");
        Error::new(ErrorKind::InvalidInput, message).with_recovery(Recovery::fix(error.remedy))
    })
}

fn unknown_table(name: &Path) -> Error {
    let tables: Vec<&str> = ClaimTable::shipped_names().collect();
    failure::usage(
        format!(
            "--table: '{}' is no file, and no table of claims is called that",
            clean_os(name.as_os_str())
        ),
        &format!("tables: {}", tables.join(", ")),
    )
}

/// The claims with these labels or codes, in the order of the table.
fn chosen(table: &ClaimTable, events: &[String]) -> Result<Vec<EventClaim>> {
    for event in events {
        if table.matching(event).next().is_none() {
            return Err(unknown_event(table, event));
        }
    }
    let is_chosen = |claim: &&EventClaim| {
        events.iter().any(|event| table.matching(event).any(|matching| matching.code == claim.code))
    };
    Ok(table.claims.iter().filter(is_chosen).cloned().collect())
}

fn unknown_event(table: &ClaimTable, event: &str) -> Error {
    let labels = table.claims.iter().flat_map(|claim| claim.labels.iter().map(String::as_str));
    let near = nearest_names(event, labels);
    let hint = match near.is_empty() {
        false => format!("did you mean {}?", near.join(", ")),
        true => format!(
            "--dry-run counts the {} codes of the table; --check without a label checks all",
            table.claims.len()
        ),
    };
    let message = format!("no event of {} has the label or code '{}'", table.name, clean(event));
    failure::usage(message, &hint)
}
