//! Advice with evidence: what the counts of a program say about its faults.
//!
//! ```text
//! Facts (name, number or reason) ──judge──> Advice: findings, rules that could not be judged
//!                                    │
//!                         Rules: a table of formulas, thresholds and their sources
//! ```
//!
//! A rule has several *tests*, best evidence first: top-down metrics of the vendor, hardware events, modelled
//! counts. The first test of which every input was measured decides, with its alternatives of
//! the same evidence. A rule with no such test is *not
//! measured*, and names what it lacks; nothing is guessed.
//!
//! [`history`] compares many runs of one command.
//!
//! ```
//! use cyclometer_advise::{Facts, FactOrigin, Rules, judge};
//!
//! let mut facts = Facts::default();
//! facts.put("user_time", 1e9, FactOrigin::Kernel);
//! facts.put("system_time", 4e9, FactOrigin::Kernel);
//! facts.put("wall_time", 5e9, FactOrigin::Kernel);
//! facts.put("minor_faults", 4e6, FactOrigin::Kernel);
//! let advice = judge(Rules::embedded(), &facts);
//! assert_eq!(advice.findings[0].rule, "page-faults");
//! assert!(advice.not_measured.iter().any(|rule| rule.rule == "branch-mispredictions"));
//! ```
//!
//! The crate is pure: it reads no file and no clock.
#![forbid(unsafe_code)]

mod confidence;
mod facts;
pub mod history;
mod judge;
mod rules;

pub use confidence::Confidence;
pub use facts::{Fact, FactOrigin, Facts};
pub use judge::{Advice, AdviceFinding, Evidence, NotMeasured, judge};
pub use rules::{Rule, RuleBound, RuleNeed, RuleTest, Rules, RulesError};
