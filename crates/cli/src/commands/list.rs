//! `list`: the events that can be named.

use cyclometer::{Error, ErrorKind, Listing, Result, list_events};

use crate::args::{Cli, ListArgs};
use crate::output::{Channel, clean};
use crate::render::{json, list};

/// Lists events.
///
/// # Errors
///
/// `ErrorKind::UnknownEvent` when no event fits the pattern.
pub fn run(args: &ListArgs, cli: &Cli) -> Result<u8> {
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
