//! Why there are no fewer passes, and why events cannot be counted at the same time, in words.

use crate::passes::{Because, Certificate, Conflict};

/// Names that are spelled out before the rest is counted.
const NAMED: usize = 5;

/// The names behind the numbers of a [`PackingProblem`](crate::passes::PackingProblem).
#[derive(Clone, Debug, Default)]
pub struct ProblemNames<'a> {
    /// The name of each PMU; empty where it needs no name.
    pub pmus: Vec<&'a str>,
    /// The name of each event.
    pub events: Vec<&'a str>,
}

impl ProblemNames<'_> {
    /// ` of cpu_core`, where that has to be said.
    fn of_pmu(&self, pmu: usize) -> String {
        self.pmus.get(pmu).map(|pmu| format!(" of {pmu}")).unwrap_or_default()
    }

    /// The names of events, of many the first ones.
    pub fn listed(&self, events: &[usize]) -> String {
        let names: Vec<&str> = events.iter().filter_map(|event| self.events.get(*event).copied()).collect();
        match names.len().saturating_sub(NAMED) {
            0 => listed(&names),
            more => format!("{} and {more} more", names[..NAMED].join(", ")),
        }
    }

    /// Why there are no fewer passes; `None` where that is plain.
    pub fn certificate(&self, certificate: &Certificate) -> Option<String> {
        Some(match certificate {
            Certificate::Nothing | Certificate::One => return None,
            Certificate::Counters { pmu, counters, events } => {
                let mut each = events.clone();
                each.sort_unstable();
                each.dedup();
                let places = match events.len() - each.len() {
                    0 => String::new(),
                    _ => format!(" take {} places and", events.len()),
                };
                let events = format!("{}{}", number(each.len(), "event"), self.of_pmu(*pmu));
                format!("{events}{places} can only use {}", counters.in_words())
            }
            Certificate::Registers { pmu, registers, events } => {
                let names: Vec<&str> = registers.iter().map(|register| register.name()).collect();
                let each = if names.len() == 1 { "which holds" } else { "each of which holds" };
                let values = number(events.len(), "value");
                format!(
                    "events{} need {values} in {}, {each} one at a time",
                    self.of_pmu(*pmu),
                    listed(&names)
                )
            }
            Certificate::Apart { sets } => {
                let shown: Vec<String> = sets.iter().take(NAMED).map(|set| self.set(set)).collect();
                let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
                match sets.len() - shown.len() {
                    0 => format!("no two of {} fit at the same time", listed(&shown)),
                    more => format!("no two of {} and {more} more fit at the same time", shown.join(", ")),
                }
            }
            Certificate::Crowded { pmu, counters, sets, at_most } => {
                let (sets, groups) = (sets.len(), number(*at_most, "group"));
                let counters = counters.in_words();
                format!("of {sets} groups{} no more than {groups} fit on {counters}", self.of_pmu(*pmu))
            }
            Certificate::Searched { .. } => "every way to place the events in fewer was tried".to_owned(),
            Certificate::Alone { events, others } => {
                let alone = format!("{} can only be counted alone", self.listed(events));
                match self.certificate(others) {
                    None => alone,
                    Some(others) => format!("{alone}; {others}"),
                }
            }
        })
    }

    fn set(&self, events: &[usize]) -> String {
        let names: Vec<&str> = events.iter().filter_map(|event| self.events.get(*event).copied()).collect();
        match names.as_slice() {
            [only] => (*only).to_owned(),
            several => format!("{{{}}}", several.join(",")),
        }
    }

    /// Why events cannot be counted at the same time.
    pub fn conflict(&self, conflict: &Conflict) -> String {
        self.conflict_of(conflict, &conflict.events)
    }

    /// As [`ProblemNames::conflict`]; `confined` are the events that can use the counters of the conflict
    /// only, which may be more than are needed for it.
    pub fn conflict_of(&self, conflict: &Conflict, confined: &[usize]) -> String {
        let events = self.listed(&conflict.events);
        match &conflict.because {
            Because::Counters { pmu, counters, places } if *places > conflict.events.len() => {
                let counters = counters.in_words();
                format!("{events} take {places} places and can only use {counters}{}", self.of_pmu(*pmu))
            }
            Because::Counters { pmu, counters, .. } => {
                let each = if confined.len() > 2 { "can each" } else { "can both" };
                let counters = counters.in_words();
                format!("{} {each} only use {counters}{}", self.listed(confined), self.of_pmu(*pmu))
            }
            Because::Registers { registers, .. } => {
                let names: Vec<&str> = registers.iter().map(|register| register.name()).collect();
                let there = if names.len() == 1 { "which holds one" } else { "which hold one each" };
                format!("{events} need different values in {}, {there}", listed(&names))
            }
            Because::Both => {
                format!(
                    "{events} cannot be placed at the same time, with the pairs and registers that they need"
                )
            }
            Because::Alone => format!("{events} must be apart: one of them can only be counted alone"),
            Because::Impossible => format!("no free counter can count {events}"),
            Because::Unknown => format!("no way to place {events} was found, though not all were tried"),
        }
    }
}

/// How the bound follows from a certificate: `25 / 3 = 8.3, so 9 passes`; `None` where there is nothing to
/// divide.
pub fn sum(certificate: &Certificate) -> Option<String> {
    Some(match certificate {
        Certificate::Counters { counters, events, .. } => divided(events.len(), counters.len() as usize),
        Certificate::Registers { registers, events, .. } => divided(events.len(), registers.len()),
        Certificate::Apart { sets } => divided(sets.len(), 1),
        Certificate::Crowded { sets, at_most, .. } => divided(sets.len(), *at_most),
        Certificate::Nothing
        | Certificate::One
        | Certificate::Searched { .. }
        | Certificate::Alone { .. } => return None,
    })
}

fn divided(wanted: usize, places: usize) -> String {
    let passes = number(wanted.div_ceil(places.max(1)), "pass");
    match places {
        0 | 1 => passes,
        _ if wanted.is_multiple_of(places) => format!("{wanted} / {places} = {passes}"),
        _ => format!("{wanted} / {places} = {:.1}, so {passes}", wanted as f64 / places as f64),
    }
}

/// `a`, `a and b`, `a, b and c`.
pub fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

/// `1 pass`, `2 passes`.
pub fn number(n: usize, what: &str) -> String {
    let plural = if what.ends_with('s') { "es" } else { "s" };
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}{plural}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_core::CounterMask;
    use cyclometer_core::event::ExtraRegisterKind;

    fn names() -> ProblemNames<'static> {
        ProblemNames { pmus: vec!["cpu"], events: vec!["a", "b", "c", "d", "e"] }
    }

    #[test]
    fn certificates_name_what_is_too_little() {
        let (pmu, events) = (0, vec![0, 1, 2]);
        let registers = vec![ExtraRegisterKind::OffcoreResponse0, ExtraRegisterKind::OffcoreResponse1];
        let counters = |n| CounterMask::first(n, 0);
        for (certificate, expected) in [
            (
                Certificate::Counters { pmu, counters: counters(2), events: events.clone() },
                "3 events of cpu can only use counters 0-1",
            ),
            (
                Certificate::Registers { pmu, registers: registers[..1].to_vec(), events: events.clone() },
                "events of cpu need 3 values in MSR_OFFCORE_RSP_0, which holds one at a time",
            ),
            (
                Certificate::Registers { pmu, registers, events },
                "events of cpu need 3 values in MSR_OFFCORE_RSP_0 and MSR_OFFCORE_RSP_1, each of which holds one \
                 at a time",
            ),
            (
                Certificate::Apart { sets: vec![vec![0, 1], vec![2], vec![3, 4]] },
                "no two of {a,b}, c and {d,e} fit at the same time",
            ),
            (
                Certificate::Alone { events: vec![4], others: Box::new(Certificate::One) },
                "e can only be counted alone",
            ),
            (
                Certificate::Crowded {
                    pmu,
                    counters: counters(4),
                    sets: vec![vec![0, 1, 2], vec![3, 4]],
                    at_most: 1,
                },
                "of 2 groups of cpu no more than 1 group fit on counters 0-3",
            ),
        ] {
            assert_eq!(names().certificate(&certificate).as_deref(), Some(expected));
        }
        assert_eq!(names().certificate(&Certificate::One), None);
    }

    #[test]
    fn the_bound_is_shown_as_a_division() {
        let counters = |events: usize, counters| Certificate::Counters {
            pmu: 0,
            counters: CounterMask::first(counters, 0),
            events: (0..events).collect(),
        };
        for (certificate, expected) in [
            (counters(24, 3), "24 / 3 = 8 passes"),
            (counters(25, 3), "25 / 3 = 8.3, so 9 passes"),
            (counters(2, 1), "2 passes"),
            (Certificate::Apart { sets: vec![vec![0], vec![1], vec![2]] }, "3 passes"),
        ] {
            assert_eq!(sum(&certificate).as_deref(), Some(expected));
        }
    }

    #[test]
    fn conflicts_name_the_events_and_what_they_share() {
        let conflict = |events: &[usize], because| Conflict { events: events.to_vec(), because };
        let counters = CounterMask::from_bits(1 << 7, 0);
        for (conflict, expected) in [
            (
                conflict(&[0, 1, 2], Because::Counters { pmu: 0, counters, places: 3 }),
                "a, b and c can each only use counter 7 of cpu",
            ),
            (
                conflict(
                    &[0, 1],
                    Because::Registers { pmu: 0, registers: vec![ExtraRegisterKind::Frontend] },
                ),
                "a and b need different values in MSR_PEBS_FRONTEND, which holds one",
            ),
            (
                conflict(&[0, 1], Because::Counters { pmu: 0, counters, places: 4 }),
                "a and b take 4 places and can only use counter 7 of cpu",
            ),
            (conflict(&[3], Because::Impossible), "no free counter can count d"),
            (
                conflict(&[3, 4], Because::Both),
                "d and e cannot be placed at the same time, with the pairs and registers that they need",
            ),
        ] {
            assert_eq!(names().conflict(&conflict), expected);
        }
    }
}
