//! Starting a command by a plain fork of ourselves, where there is no helper.
//!
//! Peak resident set of such a command includes ours.

use std::ffi::CString;
use std::io;
use std::os::fd::RawFd;

use libc::c_char;

use super::Strings;
use super::image::{self, Descriptors, Image};
use super::origin::{self, Origin};

/// Makes the process; see `Launcher::spawn`.
pub(super) fn spawn(strings: &Strings, streams: [RawFd; 3], gate: RawFd, origin: &Origin) -> io::Result<u32> {
    let (candidates, argv) = (pointers(&strings.candidates), pointers(&strings.argv));
    let image = Image { candidates: candidates.as_ptr(), argv: argv.as_ptr() };
    // SAFETY: the child calls only functions that are safe after fork, allocates nothing and never returns.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => run(image, streams, gate, origin),
        pid => Ok(pid.unsigned_abs()),
    }
}

fn run(image: Image, streams: [RawFd; 3], gate: RawFd, origin: &Origin) -> ! {
    let [stdin, stdout, stderr] = streams.map(image::above_standard);
    match (stdin, stdout, stderr, image::above_standard(gate)) {
        (Ok(stdin), Ok(stdout), Ok(stderr), Ok(gate)) => {
            let descriptors = Descriptors { streams: [stdin, stdout, stderr], gate };
            image::become_command(image, descriptors, origin, origin::all_signals())
        }
        _ => image::leave(126),
    }
}

/// Pointers to the strings and a null pointer; valid as long as the strings.
fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}
