//! Recordings, written, read and damaged.
//!
//! All files are modules of one program, because each test program is linked and lint-checked by itself.

mod support;

mod hostile;
mod round_trip;
