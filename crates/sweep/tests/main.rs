//! Sweeps over simulated machines.
//!
//! All files are modules of one program, because each test program is linked and lint-checked by itself.

mod interrupted;
mod simulated;
