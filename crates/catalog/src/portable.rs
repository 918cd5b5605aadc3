//! Portable events: one name for an event of every CPU, resolved through the vendor's own name on each.
//!
//! The data (`data/portable`) names vendor events, never codes, so that a wrong code cannot be written by
//! hand. A line of it serves all CPUs that its patterns fit and whose table has the events it names. The
//! first such line answers. The data is read on first use, and the lines of an event on the first use of that
//! event.

mod text;

use std::sync::{LazyLock, OnceLock};

use cyclometer_core::pmu::Family;

use crate::cpus;
use crate::table::Cpu;

/// The data; its head describes the format.
const DATA: &str = include_str!("../data/portable");

static PORTABLE: LazyLock<PortableTable> = LazyLock::new(|| text::read(DATA));

/// The parsed data.
#[derive(Debug, Default)]
struct PortableTable {
    /// Lines that are tried before the lines of every event.
    first: Vec<PortableLine>,
    all: Vec<Portable>,
}

/// The reason why an id outside the catalogue has no answer.
const UNKNOWN_CPU: &str = "the catalogue has no CPU of this id";

/// The reason why a CPU without a line has no answer; every CPU of the catalogue has a line.
const NO_LINE: &str = "the CPU's table names no such event";

/// A portable event.
#[derive(Debug)]
pub struct Portable {
    name: &'static str,
    aliases: Vec<&'static str>,
    about: &'static str,
    /// The event whose lines follow its own.
    like: Option<&'static str>,
    /// Its lines as they are written.
    written: Vec<&'static str>,
    read: OnceLock<Vec<PortableLine>>,
}

/// The definition of a portable event on some CPUs.
#[derive(Debug)]
struct PortableLine {
    family: Family,
    /// Patterns of CPU ids; `!` marks those that are left out.
    cpus: Vec<&'static str>,
    says: Says,
    /// The note of events; for a CPU without the event, the reason.
    remark: &'static str,
}

/// The events of a line.
#[derive(Debug)]
enum Says {
    /// Alternatives, best first, each one event or the sum of several.
    Events(Vec<Vec<&'static str>>),
    /// No such event; these come nearest.
    Nothing(Vec<&'static str>),
}

/// The resolution of a portable event on one CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PortableEvents {
    /// The CPU counts it.
    Event {
        /// The vendor's name; several names are summands.
        names: Vec<&'static str>,
        /// The difference from other CPUs.
        note: Option<&'static str>,
    },
    /// The CPU does not count it.
    None {
        /// The reason.
        reason: &'static str,
        /// Events of the CPU that come near; may be empty. They are suggested, never used instead.
        nearest: Vec<&'static str>,
    },
}

/// Every portable event, in the order of the data: general ones first, then by part of the CPU.
pub fn all() -> &'static [Portable] {
    &PORTABLE.all
}

/// The names of all portable events.
pub fn names() -> impl ExactSizeIterator<Item = &'static str> {
    all().iter().map(|portable| portable.name)
}

/// The portable event with a name or alias, in any case.
pub fn find(name: &str) -> Option<&'static Portable> {
    all().iter().find(|portable| portable.is_named(name))
}

impl Portable {
    /// Its name: `l1d_cache_misses`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its other names, for example perf's.
    pub fn aliases(&self) -> &[&'static str] {
        &self.aliases
    }

    /// The description, in a line.
    pub fn about(&self) -> &'static str {
        self.about
    }

    fn is_named(&self, name: &str) -> bool {
        std::iter::once(&self.name).chain(&self.aliases).any(|own| own.eq_ignore_ascii_case(name))
    }

    fn lines(&self) -> &[PortableLine] {
        self.read.get_or_init(|| self.written.iter().copied().filter_map(text::cpu_line).collect())
    }

    /// The resolution on the catalogue's CPU of this id.
    pub fn on(&self, cpu_id: &str) -> PortableEvents {
        match cpus::cpu(cpu_id) {
            Ok(cpu) => self.on_cpu(&cpu),
            Err(_) => PortableEvents::None { reason: UNKNOWN_CPU, nearest: Vec::new() },
        }
    }

    /// The resolution on a CPU of the catalogue.
    pub fn on_cpu(&self, cpu: &Cpu<'_>) -> PortableEvents {
        self.among(cpu.family(), cpu.id(), |name| cpu.event(name).is_some())
    }

    /// The resolution on a CPU whose table `has` events by name, which may be a table of the user.
    pub fn among(&self, family: Family, cpu_id: &str, has: impl Fn(&str) -> bool) -> PortableEvents {
        self.fitting(family, cpu_id, &has)
            .map_or(PortableEvents::None { reason: NO_LINE, nearest: Vec::new() }, |(_, answer)| answer)
    }

    /// The first line that answers, and its answer.
    fn fitting(
        &self,
        family: Family,
        cpu_id: &str,
        has: &dyn Fn(&str) -> bool,
    ) -> Option<(&PortableLine, PortableEvents)> {
        let of_other = self.like.and_then(find).map_or(&[][..], Portable::lines);
        let lines = PORTABLE.first.iter().chain(self.lines()).chain(of_other);
        let fits = |line: &&PortableLine| line.family == family && is_among(&line.cpus, cpu_id);
        lines.filter(fits).find_map(|line| Some((line, line.answer(has)?)))
    }
}

impl PortableLine {
    fn answer(&self, has: &dyn Fn(&str) -> bool) -> Option<PortableEvents> {
        match &self.says {
            Says::Events(alternatives) => {
                let names = alternatives.iter().find(|sum| sum.iter().all(|name| has(name)))?.clone();
                let note = (!self.remark.is_empty()).then_some(self.remark);
                Some(PortableEvents::Event { names, note })
            }
            Says::Nothing(nearest) => {
                let nearest = nearest.iter().copied().filter(|name| has(name)).collect();
                Some(PortableEvents::None { reason: self.remark, nearest })
            }
        }
    }
}

/// Whether an id fits one of the patterns and none of those that are left out.
fn is_among(patterns: &[&str], id: &str) -> bool {
    let fits = |pattern: &str| is_like(pattern, id);
    let left_out = patterns.iter().filter_map(|pattern| pattern.strip_prefix('!')).any(fits);
    !left_out && patterns.iter().filter(|pattern| !pattern.starts_with('!')).any(|pattern| fits(pattern))
}

/// Whether an id matches a pattern, in which `*` matches anything.
fn is_like(pattern: &str, id: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == id };
    let Some(tail) = id.strip_prefix(head) else { return false };
    (0..=tail.len()).any(|at| tail.is_char_boundary(at) && is_like(rest, &tail[at..]))
}

#[cfg(test)]
mod tests;
