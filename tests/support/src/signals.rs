//! The default action of every signal in test programs.
//!
//! `nohup`, background jobs of scripts and service managers start programs with some signals ignored, and
//! `exec` and `fork` pass that on. A test that sends such a signal, or waits for a child while `SIGCHLD` is
//! ignored, would fail. Cargo has no setting that applies to tests alone: its `runner` also starts what
//! `cargo run` runs, and the environment cannot change a disposition.
//!
//! So a function in `.init_array` resets the dispositions. The loader calls it before `main`, and before the
//! Rust runtime ignores `SIGPIPE`.

use std::ffi::CStr;

use libc::c_int;

/// The signals of Linux. The C library refuses those that it needs itself.
const SIGNALS: std::ops::RangeInclusive<c_int> = 1..=64;

// SAFETY: the loader calls functions of this section with arguments that this one ignores, as the C calling
// convention permits, when the C library is ready and no other thread runs.
#[used]
#[unsafe(link_section = ".init_array")]
static RESET: extern "C" fn() = reset;

/// A test that starts itself with signals ignored sets this variable.
const KEPT: &CStr = c"CYCLOMETER_TEST_KEEP_SIGNALS";

extern "C" fn reset() {
    // SAFETY: the name is a C string, and no other thread runs that could change the environment.
    if !unsafe { libc::getenv(KEPT.as_ptr()) }.is_null() {
        return;
    }
    for signal in SIGNALS {
        // SAFETY: installs no handler. A number that is no signal is an error, and changes nothing.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}
