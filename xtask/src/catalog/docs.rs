//! `cargo xtask events-page [--check]`: the tables of docs/reference/events.md, from the catalogue's data.
//!
//! The prose of the page is written by hand; what lies between the two marks is generated. With `--check`
//! nothing is written, and a page that is not up to date is an error.

use std::fmt::Write as _;

use cyclometer_catalog::cpus;
use cyclometer_catalog::portable::{self, Portable, PortableEvents};
use cyclometer_catalog::table::Cpu;
use cyclometer_core::pmu::Family;

use crate::page::{GeneratedPage, title};

/// The page of events.
pub(crate) const PAGE: GeneratedPage =
    GeneratedPage { path: "docs/reference/events.md", command: "events-page", generated };

/// Groups of more CPUs than this are not listed when they are the rest of a family.
const LONGEST_LIST: usize = 8;

fn generated() -> String {
    let mut out = overview();
    for event in portable::all() {
        section(&mut out, event);
    }
    out
}

/// The families with those of their CPUs that count any portable event.
fn families() -> Vec<(Family, Vec<Cpu<'static>>)> {
    let counts = |cpu: &Cpu<'static>| portable::all().iter().any(|event| has(event, cpu));
    let of = |family| cpus::cpus().filter(|cpu| cpu.family() == family && counts(cpu)).collect();
    Family::ALL.into_iter().map(|family| (family, of(family))).collect()
}

/// How many CPUs of each family count each event.
fn overview() -> String {
    let families = families();
    let mut out = String::from("## How many CPUs count it\n\n| event |");
    for (family, cpus) in &families {
        let _ = write!(out, " {}, {} CPUs |", title(*family), cpus.len());
    }
    out.push_str("\n|---|---|---|---|---|---|\n");
    for event in portable::all() {
        let _ = write!(out, "| [{0}](#{0}) |", event.name());
        for (_, cpus) in &families {
            let _ = write!(out, " {} |", share(event, cpus));
        }
        out.push('\n');
    }
    out
}

fn has(event: &Portable, cpu: &Cpu<'static>) -> bool {
    matches!(event.on_cpu(cpu), PortableEvents::Event { .. })
}

fn share(event: &Portable, cpus: &[Cpu<'static>]) -> String {
    match cpus.iter().filter(|cpu| has(event, cpu)).count() {
        0 => "none".to_owned(),
        n if n == cpus.len() => "all".to_owned(),
        n => n.to_string(),
    }
}

/// An event: what it is, and what on which CPU.
fn section(out: &mut String, event: &Portable) {
    let _ = write!(out, "\n### {}\n\n{}", event.name(), capital(event.about()));
    if !event.aliases().is_empty() {
        let aliases: Vec<String> = event.aliases().iter().map(|alias| format!("`{alias}`")).collect();
        let _ = write!(out, ". Also {}", aliases.join(", "));
    }
    out.push_str(".\n\n| CPUs | event | remark |\n|---|---|---|\n");
    for (family, cpus) in families() {
        rows(out, event, family, &cpus);
    }
}

/// The rows of a family: its CPUs by answer, the largest group last.
fn rows(out: &mut String, event: &Portable, family: Family, cpus: &[Cpu<'static>]) {
    let groups = grouped(event, cpus);
    let last = groups.len().saturating_sub(1);
    for (i, (answer, ids)) in groups.iter().enumerate() {
        let who = match (groups.len(), i == last && ids.len() > LONGEST_LIST) {
            (1, _) => title(family).to_owned(),
            (_, true) => format!("{}, the other {}", title(family), ids.len()),
            (_, false) => ids.join(", "),
        };
        let (events, remark) = cells(answer);
        let _ = writeln!(out, "| {who} | {events} | {remark} |");
    }
}

fn grouped(event: &Portable, cpus: &[Cpu<'static>]) -> Vec<(PortableEvents, Vec<&'static str>)> {
    let mut groups: Vec<(PortableEvents, Vec<&'static str>)> = Vec::new();
    for cpu in cpus {
        let answer = event.on_cpu(cpu);
        match groups.iter_mut().find_map(|(known, ids)| joined(known, &answer).then_some(ids)) {
            Some(ids) => ids.push(cpu.id()),
            None => groups.push((answer, vec![cpu.id()])),
        }
    }
    groups.sort_by_key(|(_, ids)| ids.len());
    groups
}

/// Whether an answer says what a known one does; one reason for several CPUs takes up all of their nearest
/// events.
fn joined(known: &mut PortableEvents, answer: &PortableEvents) -> bool {
    match (known, answer) {
        (PortableEvents::None { reason, nearest }, PortableEvents::None { reason: same, nearest: more })
            if reason == same =>
        {
            let fresh: Vec<_> = more.iter().filter(|name| !nearest.contains(name)).collect();
            nearest.extend(fresh);
            true
        }
        (known, answer) => known == answer,
    }
}

fn cells(answer: &PortableEvents) -> (String, String) {
    let quoted = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
    match answer {
        PortableEvents::Event { names, note } => {
            (quoted(names).join(" + "), note.unwrap_or_default().to_owned())
        }
        PortableEvents::None { reason, nearest } if nearest.is_empty() => {
            ("none".to_owned(), (*reason).to_owned())
        }
        PortableEvents::None { reason, nearest } => {
            ("none".to_owned(), format!("{reason}; nearest: {}", quoted(nearest).join(", ")))
        }
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_page_is_up_to_date() {
        PAGE.run(&crate::root(), ["--check".to_owned()].into_iter()).unwrap();
    }

    #[test]
    fn one_reason_takes_up_all_nearest_events_and_different_answers_stay_apart() {
        let none =
            |reason, nearest: &[&'static str]| PortableEvents::None { reason, nearest: nearest.to_vec() };
        let mut known = none("not counted", &["A"]);
        assert!(joined(&mut known, &none("not counted", &["B", "A"])));
        assert_eq!(known, none("not counted", &["A", "B"]));
        assert!(!joined(&mut known, &none("not there", &["A"])));
        assert!(!joined(&mut known, &PortableEvents::Event { names: vec!["A"], note: None }));
    }

    #[test]
    fn every_cpu_stands_in_one_group_of_each_event() {
        for (_, cpus) in families() {
            for event in portable::all() {
                let listed: usize = grouped(event, &cpus).iter().map(|(_, ids)| ids.len()).sum();
                assert_eq!(listed, cpus.len(), "{}", event.name());
            }
        }
    }
}
