//! Counts of scrapes.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::families::{FamilyKind, MetricFamily};

/// Counts of scrapes by their outcome.
#[derive(Debug, Default)]
pub struct ScrapeCounts {
    answered: AtomicU64,
    refused: AtomicU64,
}

impl ScrapeCounts {
    /// Counts a scrape that got its answer.
    pub fn answer(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a scrape, or a connection, that was refused.
    pub fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts as a family.
    pub fn family(&self) -> MetricFamily {
        let help = "Scrapes and connections by outcome.";
        let mut family = MetricFamily::new("cyclometer_exporter_scrapes", FamilyKind::Counter, None, help);
        for (outcome, number) in [("answered", &self.answered), ("refused", &self.refused)] {
            family.push(vec![("outcome", outcome.into())], number.load(Ordering::Relaxed) as f64);
        }
        family
    }
}
