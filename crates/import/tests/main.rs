//! Event files of vendors and of the kernel.
//!
//! All files are modules of one program, because each test program is linked and lint-checked by itself.

mod file;
mod hostile;
