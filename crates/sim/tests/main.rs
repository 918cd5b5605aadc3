//! Simulated chips.
//!
//! All files are modules of one program, because each test program is linked and lint-checked by itself.

mod support;

mod fault_injection;
mod registers;
mod semantics;
