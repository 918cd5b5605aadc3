//! Serves what a machine, its control groups and configured processes count, for Prometheus and
//! OpenTelemetry.
//!
//! ```text
//! Collector (own thread)            Hub                 server, otlp
//! rescan, read ───> Snapshot ───> the latest ───> text, rendered once
//! ```
//!
//! The [`collector::Collector`] owns all counters: they open once, and are read when a scrape asks for it.
//! Any number of scrapes share a read. A scrape gets a [`snapshot::Snapshot`]: plain families of
//! samples, which [`exposition`] writes as text and `otlp` as protocol messages.
#![forbid(unsafe_code)]

pub mod answers;
pub mod auth;
pub mod budget;
pub mod cgroup_news;
pub mod cgroup_watch;
pub mod cgroups;
pub mod collector;
pub mod config;
pub mod counters;
pub mod exposition;
pub mod families;
pub mod hub;
pub mod labels;
#[cfg(feature = "otlp")]
pub mod otlp;
pub mod own_cost;
pub mod processes;
pub mod scrapes;
pub mod server;
pub mod snapshot;
pub mod streams;
