//! Why events cannot be counted at the same time, in words.

use crate::passes::{Because, Certificate, Conflict};

/// The names behind the numbers of a problem.
pub(crate) struct Names<'a> {
    /// Of each PMU.
    pub(crate) pmus: Vec<&'a str>,
    /// Of each event.
    pub(crate) events: Vec<&'a str>,
}

impl Names<'_> {
    fn pmu(&self, pmu: usize) -> &str {
        self.pmus.get(pmu).copied().unwrap_or("the PMU")
    }

    fn listed(&self, events: &[usize]) -> String {
        listed(&events.iter().filter_map(|event| self.events.get(*event).copied()).collect::<Vec<_>>())
    }

    /// Why there are no fewer passes; empty where that is plain.
    pub(crate) fn certificate(&self, certificate: &Certificate) -> String {
        match certificate {
            Certificate::Nothing | Certificate::One => String::new(),
            Certificate::Counters { pmu, counters, events } => {
                let (n, pmu) = (events.len(), self.pmu(*pmu));
                format!("{n} events of {pmu} can only use {}", number(counters.len() as usize, "counter"))
            }
            Certificate::Registers { pmu, registers, events } => {
                let names: Vec<&str> = registers.iter().map(|register| register.name()).collect();
                let (n, pmu) = (events.len(), self.pmu(*pmu));
                let each = if names.len() == 1 { "which holds" } else { "each of which holds" };
                format!("events of {pmu} need {n} values in {}, {each} one at a time", listed(&names))
            }
            Certificate::Apart { sets } => {
                let sets: Vec<String> = sets.iter().map(|set| self.set(set)).collect();
                let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
                format!("no two of {} fit at the same time", listed(&sets))
            }
            Certificate::Crowded { pmu, counters, sets, at_most } => {
                let counters = number(counters.len() as usize, "counter");
                let groups = number(*at_most, "group");
                format!(
                    "of {} groups of {} no more than {groups} fit on {counters}",
                    sets.len(),
                    self.pmu(*pmu)
                )
            }
            Certificate::Searched { .. } => "every way to place the events in fewer was tried".to_owned(),
            Certificate::Alone { events, others } => {
                let alone = format!("{} can only be counted alone", self.listed(events));
                match self.certificate(others) {
                    others if others.is_empty() => alone,
                    others => format!("{alone}; {others}"),
                }
            }
        }
    }

    fn set(&self, events: &[usize]) -> String {
        match events {
            [event] => self.events.get(*event).map_or(String::new(), |name| (*name).to_owned()),
            several => format!(
                "{{{}}}",
                several.iter().filter_map(|e| self.events.get(*e).copied()).collect::<Vec<_>>().join(",")
            ),
        }
    }

    /// Why events cannot be counted at the same time.
    pub(crate) fn conflict(&self, conflict: &Conflict) -> String {
        let events = self.listed(&conflict.events);
        match &conflict.because {
            Because::Counters { pmu, counters } => {
                let word = if counters.len() == 1 { "counter" } else { "counters" };
                format!("{events} can only use {word} {counters} of {}", self.pmu(*pmu))
            }
            Because::Registers { registers, .. } => {
                let names: Vec<&str> = registers.iter().map(|register| register.name()).collect();
                format!("{events} need different values in {}", listed(&names))
            }
            Because::Both => format!("{events} need more counters and registers than there are"),
        }
    }
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

/// `1 pass`, `2 passes`.
pub(crate) fn number(n: usize, what: &str) -> String {
    let plural = if what.ends_with('s') { "es" } else { "s" };
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}{plural}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_core::CounterMask;
    use cyclometer_core::event::ExtraRegisterKind;

    fn names() -> Names<'static> {
        Names { pmus: vec!["cpu"], events: vec!["a", "b", "c", "d", "e"] }
    }

    #[test]
    fn certificates_name_what_is_too_little() {
        let (pmu, events) = (0, vec![0, 1, 2]);
        let registers = vec![ExtraRegisterKind::OffcoreResponse0, ExtraRegisterKind::OffcoreResponse1];
        let counters = |n| CounterMask::first(n, 0);
        for (certificate, expected) in [
            (Certificate::One, ""),
            (
                Certificate::Counters { pmu, counters: counters(2), events: events.clone() },
                "3 events of cpu can only use 2 counters",
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
        ] {
            assert_eq!(names().certificate(&certificate), expected);
        }
    }

    #[test]
    fn conflicts_name_the_events_and_what_they_share() {
        let conflict = |events: &[usize], because| Conflict { events: events.to_vec(), because };
        let counters = CounterMask::from_bits(1 << 7, 0);
        for (conflict, expected) in [
            (
                conflict(&[0, 1, 2], Because::Counters { pmu: 0, counters }),
                "a, b and c can only use counter 7 of cpu",
            ),
            (
                conflict(
                    &[0, 1],
                    Because::Registers { pmu: 0, registers: vec![ExtraRegisterKind::Frontend] },
                ),
                "a and b need different values in MSR_PEBS_FRONTEND",
            ),
            (conflict(&[3, 4], Because::Both), "d and e need more counters and registers than there are"),
        ] {
            assert_eq!(names().conflict(&conflict), expected);
        }
    }
}
