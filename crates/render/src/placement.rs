//! Events on their counters, pass by pass, for people.

use std::ops::Range;

use cyclometer_toolkit::catalogue::table::Cpu;
use cyclometer_toolkit::core::{CounterId, CounterMask};
use cyclometer_toolkit::placement::{Because, CounterAssignment, Placement, PlacementEvent, Unplaceable};

use crate::paint::{Paint, Style};
use crate::text::clean;
use crate::{WIDTH, columns, hanging, proof};

/// The placement of the events on one core type.
pub struct PlacementOnCpu<'a> {
    /// The core type.
    pub cpu: Cpu<'a>,
    /// The events that it has.
    pub placement: Placement<'a>,
    /// Those that it lacks, as they were written, and why.
    pub lacking: Vec<(String, String)>,
    /// Counters that were to be left out.
    pub asked: CounterMask,
    /// Counters that the NMI watchdog of this machine holds.
    pub watchdog: CounterMask,
    /// Counters that the power manager of this Mac keeps.
    pub power: CounterMask,
}

impl PlacementOnCpu<'_> {
    /// Counters that cannot be used.
    pub fn held(&self) -> CounterMask {
        self.asked.or(self.watchdog).or(self.power)
    }
}

/// Columns of the name of a counter.
const COUNTER: usize = 9;

/// Columns that names of events are filled up to at most.
const NAME: usize = 36;

/// The most reasons that are shown for events that cannot be in one pass.
const CONFLICTS: usize = 8;

/// For each CPU its events with their counters and passes, the proof that fewer passes are impossible, and
/// the events that cannot be counted.
pub fn render(placed: &[PlacementOnCpu<'_>], explain: bool, paint: Paint) -> String {
    placed.iter().map(|on| one(on, explain, paint)).collect()
}

fn one(on: &PlacementOnCpu<'_>, explain: bool, paint: Paint) -> String {
    let mut out = format!("{}\n", paint.paint(Style::Heading, &head(on)));
    out += &match on.placement.packing.passes.as_slice() {
        [] => String::new(),
        [pass] => single(&on.placement, pass, paint),
        passes => picture(&on.placement, passes, paint),
    };
    if let Some(why) = proof::certificate(&on.placement) {
        out += &hanging("  why       ", &why, str::to_owned);
    }
    for line in held(on) {
        out += &hanging("  held      ", &line, |line| paint.paint(Style::Caution, line));
    }
    for line in named_twice(&on.placement) {
        out += &hanging("  note      ", &line, |line| paint.paint(Style::Dim, line));
    }
    for line in not(on) {
        out += &hanging("  not       ", &line, |line| paint.paint(Style::Bad, line));
    }
    if explain {
        out += &explained(on, paint);
    }
    out
}

fn head(PlacementOnCpu { cpu, placement, .. }: &PlacementOnCpu<'_>) -> String {
    let packing = &placement.packing;
    let refused = packing.refused.iter().filter(|refused| matches!(refused, Unplaceable::Event(_))).count();
    let events = placement.events.len() - refused;
    let events = if events == 1 { "1 event".to_owned() } else { format!("{events} events") };
    match packing.passes.len() {
        0 => format!("{}: nothing to count", cpu.id()),
        1 => format!("{}: {events} at once", cpu.id()),
        passes if packing.is_optimal() => {
            format!("{}: {events} in {passes} passes, the fewest possible", cpu.id())
        }
        passes => {
            format!("{}: {events} in {passes} passes, at least {} are needed", cpu.id(), packing.lower_bound)
        }
    }
}

/// One pass: a line for each event, and the counters that stay free.
fn single(placement: &Placement<'_>, pass: &[CounterAssignment], paint: Paint) -> String {
    let mut out = String::new();
    for assignment in in_order(pass) {
        let event = &placement.events[assignment.demand];
        out += &format!(
            "  {:<COUNTER$} {}{}\n",
            name(assignment.counter),
            event.selected.name,
            second(event, assignment.counter)
        );
    }
    let free = placement.free_in(pass);
    if !free.is_empty() {
        out += &paint.paint(Style::Dim, &format!("  {:<COUNTER$} {free}", "free"));
        out.push('\n');
    }
    out
}

fn in_order(pass: &[CounterAssignment]) -> Vec<&CounterAssignment> {
    let mut assignments: Vec<&CounterAssignment> = pass.iter().collect();
    assignments.sort_by_key(|assignment| (assignment.demand, assignment.counter));
    assignments
}

/// Several passes: a line for each counter, a column for each pass. Names stand in it where they have room,
/// else numbers.
fn picture(placement: &Placement<'_>, passes: &[Vec<CounterAssignment>], paint: Paint) -> String {
    let used = passes
        .iter()
        .flatten()
        .map(|assignment| assignment.counters(placement.events[assignment.demand].wide));
    let counters: Vec<CounterId> = used.fold(CounterMask::EMPTY, |all, own| all.or(own)).iter().collect();
    let cells = |shown: &dyn Fn(usize) -> String| -> Vec<Vec<String>> {
        let cell = |pass: &[CounterAssignment], counter| {
            sits(placement, pass, counter).map_or("-".to_owned(), shown)
        };
        passes.iter().map(|pass| counters.iter().map(|counter| cell(pass, *counter)).collect()).collect()
    };
    let names = cells(&|event| placement.events[event].selected.name.clone());
    let grid = Grid { counters: &counters, cells: names };
    match (0..passes.len()).map(|pass| grid.width(pass)).sum::<usize>() <= ROOM {
        true => grid.render(paint),
        false => {
            let numbers = cells(&|event| (event + 1).to_string());
            Grid { counters: &counters, cells: numbers }.render(paint) + &legend(placement)
        }
    }
}

/// Columns for passes.
const ROOM: usize = WIDTH - COUNTER - 2;

/// The content of each counter in each pass.
struct Grid<'g> {
    counters: &'g [CounterId],
    cells: Vec<Vec<String>>,
}

impl Grid<'_> {
    /// Columns of a pass, with the gap in front.
    fn width(&self, pass: usize) -> usize {
        let number = (pass + 1).to_string();
        2 + self.cells[pass].iter().chain([&number]).map(|cell| columns(cell)).max().unwrap_or(0)
    }

    /// As many passes beside each other as have room, the others below.
    fn render(&self, paint: Paint) -> String {
        let mut out = String::new();
        let mut from = 0;
        while from < self.cells.len() {
            let mut to = from + 1;
            let mut used = self.width(from);
            while to < self.cells.len() && used + self.width(to) <= ROOM {
                used += self.width(to);
                to += 1;
            }
            out += &self.block(from..to, paint);
            from = to;
        }
        out
    }

    fn block(&self, passes: Range<usize>, paint: Paint) -> String {
        let row = |head: &str, cell: &dyn Fn(usize) -> String| {
            let cells: String =
                passes.clone().map(|pass| format!("  {:<1$}", cell(pass), self.width(pass) - 2)).collect();
            format!("  {head:<COUNTER$}{cells}").trim_end().to_owned() + "\n"
        };
        let mut out = paint.paint(Style::Dim, &row("pass", &|pass| (pass + 1).to_string()));
        for (at, counter) in self.counters.iter().enumerate() {
            out += &row(&name(*counter), &|pass| self.cells[pass][at].clone());
        }
        out
    }
}

/// The event on a counter of a pass.
fn sits(placement: &Placement<'_>, pass: &[CounterAssignment], counter: CounterId) -> Option<usize> {
    let on = |assignment: &&CounterAssignment| {
        assignment.counters(placement.events[assignment.demand].wide).contains(counter)
    };
    pass.iter().find(on).map(|assignment| assignment.demand)
}

/// The legend of the numbers in a picture.
fn legend(placement: &Placement<'_>) -> String {
    let digits = placement.events.len().to_string().len();
    let line =
        |(n, event): (usize, &PlacementEvent<'_>)| format!("  {:>digits$} {}\n", n + 1, event.selected.name);
    placement.events.iter().enumerate().map(line).collect()
}

/// The second counter of an event that takes two.
fn second(event: &PlacementEvent<'_>, counter: CounterId) -> String {
    match counter {
        CounterId::General(n) if event.wide => format!(", with {}", name(CounterId::General(n + 1))),
        _ => String::new(),
    }
}

/// A counter as registers are named: `PMC3`, `fixed 0`.
pub fn name(counter: CounterId) -> String {
    match counter {
        CounterId::General(n) => format!("PMC{n}"),
        CounterId::Fixed(n) => format!("fixed {n}"),
    }
}

/// Counters that were not there to be used, and why.
pub fn held(on: &PlacementOnCpu<'_>) -> Vec<String> {
    let mut held = Vec::new();
    if !on.asked.is_empty() {
        held.push(format!("{} left out, as asked for", on.asked));
    }
    if !on.watchdog.is_empty() {
        held.push(format!(
            "{} held by the kernel's NMI watchdog (`sysctl kernel.nmi_watchdog=0` gives it back)",
            on.watchdog
        ));
    }
    if !on.power.is_empty() {
        held.push(format!("{} kept by the power manager of macOS", on.power));
    }
    held
}

fn named_twice(placement: &Placement<'_>) -> Vec<String> {
    let twice = placement.events.iter().filter(|event| event.texts.len() > 1);
    twice
        .map(|event| format!("{} is named {} times and counted once", event.selected.name, event.texts.len()))
        .collect()
}

/// The events that are not counted, or not as requested, each with the reason.
fn not(on: &PlacementOnCpu<'_>) -> Vec<String> {
    let refused = on.placement.packing.refused.iter().map(|refused| match refused {
        Unplaceable::Event(event) => {
            format!("{}: {}", on.placement.events[*event].selected.name, impossible(on, *event))
        }
        Unplaceable::Set { set, conflict } => {
            let group = proof::names(&on.placement).listed(&on.placement.groups[*set]);
            format!(
                "the group of {group} is not counted as one: {}",
                proof::conflict(&on.placement, conflict, &on.placement.groups[*set])
            )
        }
    });
    refused.chain(on.lacking.iter().map(|(event, why)| clean(&format!("{event}: {why}")))).collect()
}

/// The reason why no counter can count an event.
pub fn impossible(on: &PlacementOnCpu<'_>, event: usize) -> String {
    let event = &on.placement.events[event];
    let taken = on.held();
    match (event.allowed.is_empty(), event.unpinned.is_empty()) {
        _ if on.cpu.counters().general_bits() == 0 => {
            "only the firmware knows which counters this CPU has".to_owned()
        }
        (true, false) => format!("not on the counter behind its @; it may use {}", event.unpinned),
        (true, true) => "no counter of this CPU may count it".to_owned(),
        (false, _) if event.allowed.without(taken).is_empty() => {
            format!("it may use {} only, which something else holds", event.allowed)
        }
        (false, _) if event.wide => {
            "it takes an even counter and the one behind it, and no such two are free".to_owned()
        }
        (false, _) => format!("it may use {} only", event.allowed),
    }
}

/// The reason for the counter of each event, and the events that cannot be in one pass.
fn explained(on: &PlacementOnCpu<'_>, paint: Paint) -> String {
    let placement = &on.placement;
    let width =
        placement.events.iter().map(|event| columns(&event.selected.name)).max().unwrap_or(0).min(NAME);
    let mut out = String::new();
    for (pass, assignments) in placement.packing.passes.iter().enumerate() {
        for assignment in in_order(assignments).into_iter().filter(|assignment| !assignment.repeats) {
            let event = &placement.events[assignment.demand];
            let head = format!("  {:<width$} ", event.selected.name);
            let text = format!(
                "pass {}, {}{}: {}",
                pass + 1,
                name(assignment.counter),
                second(event, assignment.counter),
                reason(placement, assignment)
            );
            out += &hanging(&head, &text, str::to_owned);
        }
    }
    for conflict in conflicts(placement) {
        out += &hanging("  apart     ", &conflict, |line| paint.paint(Style::Caution, line));
    }
    out
}

fn reason(placement: &Placement<'_>, assignment: &CounterAssignment) -> String {
    let event = &placement.events[assignment.demand];
    let free = event.allowed.and(placement.counters);
    let choice = match free.len() {
        1 => "the only counter that it may use".to_owned(),
        _ if event.wide => format!("a pair of {free}"),
        n => format!("one of {n} that it may use ({free})"),
    };
    let extra = event.codes[assignment.way].code.extra;
    let register = extra.map(|extra| format!(", with {:#x} in {}", extra.value, extra.register.name()));
    choice + &register.unwrap_or_default()
}

/// Why events cannot meet: for each reason those that it holds for.
pub fn conflicts(placement: &Placement<'_>) -> Vec<String> {
    let mut left: Vec<usize> = (0..placement.events.len())
        .filter(|event| !placement.packing.refused.contains(&Unplaceable::Event(*event)))
        .collect();
    let mut found = Vec::new();
    while let Some(conflict) = placement.conflict(&left).filter(|_| found.len() < CONFLICTS) {
        found.push(proof::conflict(placement, &conflict, &left));
        match conflict.because {
            Because::Counters { counters, .. } => {
                // As many as there are counters can stay.
                let mut stay = counters.len();
                left.retain(|event| {
                    let confined = proof::is_confined(placement, *event, counters);
                    let stays = !confined || stay > 0;
                    stay -= u32::from(confined && stays);
                    stays
                });
            }
            _ => left
                .retain(|event| conflict.events.first() == Some(event) || !conflict.events.contains(event)),
        }
    }
    found
}
