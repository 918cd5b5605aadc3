//! Programs under the software PMU.
//!
//! All files are modules of one program, because each test program is linked and lint-checked by itself.

mod support;

mod agreement;
mod baseline;
mod changing;
mod exact;
mod execution_profile;
mod modelled;
mod odd_code;
mod retranslation;
mod sharing;
mod threads;
mod translation_cache;
mod valgrind;
mod windows;
