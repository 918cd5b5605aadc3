//! The event tables and what is made of them.
//!
//! All files are modules of one program, because each test program is linked and lint-checked by itself.

mod encode_golden;
mod hostile;
mod tables;
