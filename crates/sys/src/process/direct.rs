//! Starting a command by a plain fork of this process, where no helper exists.
//!
//! The peak resident set of such a command includes ours.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;

use libc::c_char;

use super::image::{self, Image, Surroundings};
use super::origin::{self, Origin};
use super::{Strings, Traced, name_of};

/// Creates the process; see `Launcher::spawn`.
pub(super) fn spawn(
    strings: &Strings,
    streams: [RawFd; 3],
    gate: RawFd,
    origin: &Origin,
    traced: Option<Traced>,
) -> io::Result<u32> {
    let (candidates, argv) = (pointers(&strings.candidates), pointers(&strings.argv));
    let variables = (!strings.variables.is_empty()).then(|| with_ours(&strings.variables)).transpose()?;
    let environment = variables.as_deref().map(pointers);
    let image = Image {
        candidates: candidates.as_ptr(),
        argv: argv.as_ptr(),
        environment: environment.as_ref().map_or(std::ptr::null(), Vec::as_ptr),
    };
    // SAFETY: the child calls only functions that are safe after fork, allocates nothing and never returns.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => run(image, streams, gate, origin, traced),
        pid => Ok(pid.unsigned_abs()),
    }
}

/// The given variables and our environment, without those of ours that they replace.
fn with_ours(variables: &[CString]) -> io::Result<Vec<CString>> {
    let joined = |(name, value): (OsString, OsString)| {
        CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).map_err(io::Error::from)
    };
    let names: Vec<&[u8]> = variables.iter().map(|variable| name_of(variable.as_bytes())).collect();
    let inherited = std::env::vars_os().filter(|(name, _)| !names.contains(&name.as_bytes()));
    variables.iter().cloned().map(Ok).chain(inherited.map(joined)).collect()
}

fn run(image: Image, streams: [RawFd; 3], gate: RawFd, origin: &Origin, traced: Option<Traced>) -> ! {
    let [stdin, stdout, stderr] = streams.map(image::above_standard);
    match (stdin, stdout, stderr, image::above_standard(gate)) {
        (Ok(stdin), Ok(stdout), Ok(stderr), Ok(gate)) => {
            let surroundings = Surroundings { streams: [stdin, stdout, stderr], gate, traced };
            image::become_command(image, surroundings, origin, origin::all_signals())
        }
        _ => image::leave(126),
    }
}

/// Pointers to the strings and a null pointer; valid as long as the strings.
fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}
