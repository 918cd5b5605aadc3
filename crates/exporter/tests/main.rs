//! The exporter: its collector, its pages and its program.
//!
//! All files are modules of one program, because each test program is linked and lint-checked by itself.

mod collector;
mod program;
mod server;
