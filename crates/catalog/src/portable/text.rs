//! Reads the table of portable events.

use std::sync::OnceLock;

use cyclometer_core::pmu::Family;

use super::{Portable, PortableLine, PortableTable, Says};

/// The name of the section whose lines are tried before those of every event.
const FIRST: &str = "*";

/// Reads the table. A line that cannot be read is skipped; the tests check that none is.
pub(super) fn read(text: &'static str) -> PortableTable {
    let mut table = PortableTable::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match (line.strip_prefix('[').and_then(|line| line.strip_suffix(']')), table.all.last_mut()) {
            (Some(FIRST), _) => (),
            (Some(name), _) => table.all.push(empty(name)),
            (None, Some(portable)) => fact(portable, line),
            (None, None) => table.first.extend(cpu_line(line)),
        }
    }
    table
}

fn empty(name: &'static str) -> Portable {
    Portable { name, aliases: Vec::new(), about: "", like: None, written: Vec::new(), read: OnceLock::new() }
}

fn fact(portable: &mut Portable, line: &'static str) {
    if let Some(about) = line.strip_prefix("about ") {
        portable.about = about.trim();
    } else if let Some(aliases) = line.strip_prefix("alias ") {
        portable.aliases.extend(aliases.split_whitespace());
    } else if let Some(like) = line.strip_prefix("like ") {
        portable.like = Some(like.trim());
    } else {
        portable.written.push(line);
    }
}

/// A line of four fields: family, ids, events, remark.
pub(super) fn cpu_line(line: &'static str) -> Option<PortableLine> {
    let mut fields = line.splitn(4, '|').map(str::trim);
    let family = fields.next()?;
    let family = Family::ALL.into_iter().find(|known| known.word() == family)?;
    let cpus = fields.next()?.split_whitespace().collect();
    let says = says(fields.next()?);
    Some(PortableLine { family, cpus, says, remark: fields.next().unwrap_or_default() })
}

fn says(field: &'static str) -> Says {
    match field.strip_prefix("none") {
        Some(nearest) => Says::Nothing(list(nearest.trim_start_matches(':'), ';')),
        None => Says::Events(field.split(';').map(|sum| list(sum, '+')).collect()),
    }
}

fn list(text: &'static str, separator: char) -> Vec<&'static str> {
    text.split(separator).map(str::trim).filter(|name| !name.is_empty()).collect()
}

/// The number of lines of a table that are neither empty nor comments: each must have been read.
#[cfg(test)]
pub(super) fn lines(text: &str) -> usize {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).count()
}
