//! One reading of the system's accounting.

use cyclometer_core::event::OsMetric;
use cyclometer_core::exec::Usage;

/// Accounted values; `None` for a metric that the system does not report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Accounts {
    pub(super) user_ns: Option<u64>,
    pub(super) system_ns: Option<u64>,
    pub(super) peak_rss_bytes: Option<u64>,
    pub(super) minor_faults: Option<u64>,
    pub(super) major_faults: Option<u64>,
    pub(super) voluntary_switches: Option<u64>,
    pub(super) involuntary_switches: Option<u64>,
}

impl Accounts {
    /// The difference to `base`. A peak is no sum and stays unchanged.
    pub(super) fn since(self, base: Accounts) -> Accounts {
        Accounts {
            peak_rss_bytes: self.peak_rss_bytes,
            ..self.zip(base, |now, then| now.map(|now| now.saturating_sub(then.unwrap_or(0))))
        }
    }

    /// The sum of both. A value that one lacks is missing in the sum, and peaks are dropped.
    pub(super) fn plus(self, other: Accounts) -> Accounts {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        Accounts { peak_rss_bytes: None, ..self.zip(other, sum) }
    }

    /// These values; missing ones come from `other`.
    pub(super) fn or(self, other: Option<Accounts>) -> Accounts {
        self.zip(other.unwrap_or_default(), Option::or)
    }

    /// These values with a peak not below an earlier one. The kernel's peak falls when a process executes
    /// another program.
    pub(super) fn with_peak_of(self, earlier: Option<Accounts>) -> Accounts {
        let peak = earlier.and_then(|earlier| earlier.peak_rss_bytes);
        Accounts { peak_rss_bytes: self.peak_rss_bytes.max(peak), ..self }
    }

    fn zip(self, other: Accounts, f: fn(Option<u64>, Option<u64>) -> Option<u64>) -> Accounts {
        Accounts {
            user_ns: f(self.user_ns, other.user_ns),
            system_ns: f(self.system_ns, other.system_ns),
            peak_rss_bytes: f(self.peak_rss_bytes, other.peak_rss_bytes),
            minor_faults: f(self.minor_faults, other.minor_faults),
            major_faults: f(self.major_faults, other.major_faults),
            voluntary_switches: f(self.voluntary_switches, other.voluntary_switches),
            involuntary_switches: f(self.involuntary_switches, other.involuntary_switches),
        }
    }

    /// The value of a metric. Wall time is not accounted.
    pub(super) fn value(&self, metric: OsMetric) -> Option<u64> {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        match metric {
            OsMetric::UserTime => self.user_ns,
            OsMetric::SystemTime => self.system_ns,
            OsMetric::CpuTime => sum(self.user_ns, self.system_ns),
            OsMetric::PeakRss => self.peak_rss_bytes,
            OsMetric::PageFaults => sum(self.minor_faults, self.major_faults),
            OsMetric::MinorFaults => self.minor_faults,
            OsMetric::MajorFaults => self.major_faults,
            OsMetric::ContextSwitches => sum(self.voluntary_switches, self.involuntary_switches),
            OsMetric::VoluntarySwitches => self.voluntary_switches,
            OsMetric::InvoluntarySwitches => self.involuntary_switches,
            _ => None,
        }
    }
}

impl From<Usage> for Accounts {
    fn from(usage: Usage) -> Accounts {
        Accounts {
            user_ns: Some(usage.user_ns),
            system_ns: Some(usage.system_ns),
            peak_rss_bytes: Some(usage.peak_rss_bytes),
            minor_faults: Some(usage.minor_faults),
            major_faults: Some(usage.major_faults),
            voluntary_switches: Some(usage.voluntary_switches),
            involuntary_switches: Some(usage.involuntary_switches),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_count_from_the_base_and_peaks_do_not() {
        let base = Accounts { user_ns: Some(5), peak_rss_bytes: Some(100), ..Accounts::default() };
        let now = Accounts { user_ns: Some(7), peak_rss_bytes: Some(120), ..Accounts::default() };
        let since = now.since(base);
        assert_eq!(since.value(OsMetric::UserTime), Some(2));
        assert_eq!(since.value(OsMetric::PeakRss), Some(120));
    }

    #[test]
    fn a_peak_never_falls() {
        let peak = |peak_rss_bytes| Accounts { peak_rss_bytes, ..Accounts::default() };
        assert_eq!(peak(Some(5)).with_peak_of(Some(peak(Some(9)))).peak_rss_bytes, Some(9));
        assert_eq!(peak(None).with_peak_of(Some(peak(Some(9)))).peak_rss_bytes, Some(9));
        assert_eq!(peak(Some(5)).with_peak_of(None).peak_rss_bytes, Some(5));
    }

    #[test]
    fn a_sum_needs_both_of_its_parts() {
        let half = Accounts { user_ns: Some(7), ..Accounts::default() };
        assert_eq!(half.value(OsMetric::CpuTime), None);
        assert_eq!(Accounts { system_ns: Some(1), ..half }.value(OsMetric::CpuTime), Some(8));
    }

    #[test]
    fn what_is_missing_now_keeps_its_last_value() {
        let last = Accounts { user_ns: Some(7), peak_rss_bytes: Some(9), ..Accounts::default() };
        let now = Accounts { user_ns: Some(8), ..Accounts::default() };
        let kept = now.or(Some(last));
        assert_eq!((kept.user_ns, kept.peak_rss_bytes, kept.major_faults), (Some(8), Some(9), None));
    }
}
