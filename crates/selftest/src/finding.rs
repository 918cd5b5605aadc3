//! The verdict about an event.

use crate::meter::MeteredWork;

/// How far an event can be trusted here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EventVerdict {
    /// Every count was the known number.
    Exact,
    /// No count was too low, and none too high by more than interrupts explain.
    Overcounts,
    /// The number is unknown; the counts are plausible.
    Plausible,
    /// It counts; nothing is known that it could be held against.
    Unjudged,
    /// Counts contradict what is known.
    Wrong,
    /// It cannot be counted here.
    NotCounted,
}

impl EventVerdict {
    /// Every verdict, best first.
    pub const ALL: [EventVerdict; 6] = [
        EventVerdict::Exact,
        EventVerdict::Overcounts,
        EventVerdict::Plausible,
        EventVerdict::Unjudged,
        EventVerdict::Wrong,
        EventVerdict::NotCounted,
    ];

    /// The word used in output.
    pub fn word(self) -> &'static str {
        match self {
            EventVerdict::Exact => "exact",
            EventVerdict::Overcounts => "overcounts",
            EventVerdict::Plausible => "plausible",
            EventVerdict::Unjudged => "unjudged",
            EventVerdict::Wrong => "wrong",
            EventVerdict::NotCounted => "not_counted",
        }
    }
}

/// The count of some work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measurement {
    /// The work. The count of a kernel is the difference to a single round.
    pub work: MeteredWork,
    /// The known number of events; `None` where it is unknown.
    pub expected: Option<u64>,
    /// The counts, one for each time that the work was done, in events or ns. A negative one says that more
    /// work counted less.
    pub values: Vec<i64>,
}

impl Measurement {
    /// The least count: what disturbs a count mostly makes it higher.
    pub(crate) fn least(&self) -> i64 {
        self.values.iter().copied().min().unwrap_or(0)
    }
}

/// The verdict about an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The event's name.
    pub event: String,
    /// How far it can be trusted.
    pub verdict: EventVerdict,
    /// Why, in words.
    pub why: String,
    /// The quantity that it turned out to count, in the software PMU's words; `None` where that is unknown.
    pub counts_as: Option<&'static str>,
    /// Everything that was counted.
    pub measurements: Vec<Measurement>,
}

impl Finding {
    /// An event that cannot be counted.
    pub fn not_counted(event: impl Into<String>, why: impl Into<String>) -> Finding {
        let (event, why) = (event.into(), why.into());
        Finding { event, verdict: EventVerdict::NotCounted, why, counts_as: None, measurements: Vec::new() }
    }
    /// The same of counts that include the kernel, as the PMU cannot leave it out: that they are higher than
    /// a loop's own is nothing against them.
    #[must_use]
    pub fn with_kernel(self) -> Finding {
        let judged_by_number = self.measurements.iter().any(has_known);
        if self.verdict == EventVerdict::NotCounted || !judged_by_number || !self.is_nowhere_low() {
            return self;
        }
        let why = "the PMU cannot leave the kernel out: no count is lower than the loop's own".to_owned();
        Finding { verdict: EventVerdict::Unjudged, why, counts_as: None, ..self }
    }

    /// Whether counts are wrong, and all of them too high.
    pub fn is_too_high(&self) -> bool {
        self.verdict == EventVerdict::Wrong
            && self.is_nowhere_low()
            && self.measurements.iter().any(has_known)
    }

    fn is_nowhere_low(&self) -> bool {
        let low = |one: &Measurement| {
            one.expected.is_some_and(|known| one.least() < i64::try_from(known).unwrap_or(i64::MAX))
        };
        !self.measurements.iter().any(low)
    }
}

fn has_known(measurement: &Measurement) -> bool {
    measurement.expected.is_some_and(|known| known > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(verdict: EventVerdict, values: &[i64]) -> Finding {
        let measurement =
            Measurement { work: MeteredWork::Sleep(1), expected: Some(10), values: values.to_vec() };
        Finding { verdict, measurements: vec![measurement], ..Finding::not_counted("e", "w") }
    }

    #[test]
    fn with_the_kernel_counted_along_more_is_no_contradiction_and_less_is() {
        assert_eq!(finding(EventVerdict::Wrong, &[90, 10]).with_kernel().verdict, EventVerdict::Unjudged);
        assert_eq!(finding(EventVerdict::Wrong, &[90, 9]).with_kernel().verdict, EventVerdict::Wrong);
        assert_eq!(finding(EventVerdict::NotCounted, &[]).with_kernel().verdict, EventVerdict::NotCounted);
    }

    #[test]
    fn too_high_is_never_too_low() {
        assert!(finding(EventVerdict::Wrong, &[160, 170]).is_too_high());
        assert!(!finding(EventVerdict::Wrong, &[160, 7]).is_too_high());
        assert!(!finding(EventVerdict::Exact, &[10]).is_too_high());
    }
}
