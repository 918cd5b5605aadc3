//! Verdicts on events of simulated chips.
//!
//! All files are modules of one program, because each test program is linked and lint-checked by itself.

mod world;

mod hidden_tables;
mod verdicts;
