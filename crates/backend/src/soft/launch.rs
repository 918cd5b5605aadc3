//! Commands under translation, as children.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use cyclometer_core::exec::{CommandSpec, Layout, Waited};
use cyclometer_core::{Child, CpuBaseline, Error, ErrorKind, Launch, Result};
use cyclometer_soft::{Baseline, host};
use cyclometer_sys::keeper::{self, Keeper};
use cyclometer_sys::process::{PidFd, Traced, poll_readable};

use super::link::Link;
use super::{Links, file, hints};
use crate::launch::{Launcher, Native, shown};
use crate::soft_settings::SoftwareSettings;

/// Starts commands under the software PMU.
pub(super) struct SoftwareLauncher<'a> {
    pub(super) native: &'a Launcher,
    pub(super) settings: SoftwareSettings,
    pub(super) links: Links,
}

impl Launch for SoftwareLauncher<'_> {
    fn prepare(&self, command: &CommandSpec) -> Result<Box<dyn Child>> {
        if let Some(reason) = file::refuses(&command.program) {
            return Err(Error::new(ErrorKind::EventUnsupported, not_followed(&command.program, &reason)));
        }
        let fixed_layout = !self.settings.random_layout;
        let native = self.native.child(command, Some(Traced { fixed_layout }))?;
        let cpu_baseline = self.settings.cpu_baseline;
        let settings = host::Settings { fixed_layout, ..host::Settings::default() }
            .with_baseline(cpu_baseline.and_then(baseline))
            .counting(self.settings.events());
        let hints = if self.settings.hints { hints::folder() } else { None };
        let link = traced(native.pid(), settings, hints.as_deref()).map_err(|problem| {
            let problem = if has_ended(native.pid()) { Problem::Ended } else { problem };
            problem.about(&command.program)
        })?;
        let link = Rc::new(RefCell::new(link));
        let mut links = self.links.borrow_mut();
        links.retain(|_, link| link.strong_count() > 0);
        links.insert(native.pid(), Rc::downgrade(&link));
        Ok(Box::new(Translated { native, cpu_baseline, _link: link }))
    }
}

/// A command whose keeper follows it.
struct Translated {
    // Dropped first, while the keeper still waits for it.
    native: Native,
    cpu_baseline: Option<CpuBaseline>,
    _link: Rc<RefCell<Link>>,
}

impl Child for Translated {
    fn pid(&self) -> u32 {
        self.native.pid()
    }

    fn release(&mut self) -> Result<()> {
        self.native.release()
    }

    fn wait(&mut self, until: Option<Instant>) -> Result<Waited> {
        self.native.wait(until)
    }

    fn signal(&mut self, signal: i32) {
        self.native.signal(signal);
    }

    fn layout(&self) -> Option<Layout> {
        // Asked for as it is, or forbidden to change.
        Some(self.native.layout().unwrap_or(Layout::Random))
    }

    fn cpu_baseline(&self) -> Option<CpuBaseline> {
        self.cpu_baseline
    }
}

/// A baseline, as the translator knows it.
fn baseline(wanted: CpuBaseline) -> Option<Baseline> {
    Baseline::named(wanted.word())
}

/// The feature of a baseline that this machine's processor lacks, or its system has switched off; `None` where it has them all.
pub fn baseline_lacks(wanted: CpuBaseline) -> Option<&'static str> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    baseline(wanted)?.lacking(&cpuinfo)
}

/// A keeper that traces the process, which waits at its gate.
fn traced(pid: u32, settings: host::Settings, hints: Option<&Path>) -> std::result::Result<Link, Problem> {
    let keeper: Keeper =
        keeper::fork(|socket| host::follow(pid, socket, settings, hints)).map_err(Problem::NoKeeper)?;
    let mut link = Link::new(keeper);
    let line = link.first_line().map_err(|silence| Problem::NoWord(silence.to_string()))?;
    match line.split_once(' ') {
        None if line == "ready" => Ok(link),
        Some(("refused", number)) => Err(Problem::Refused(number.parse().unwrap_or(0))),
        _ => Err(Problem::NoWord(format!("the keeper process said '{line}'"))),
    }
}

/// Whether a child that waits at its gate has ended there. The kernel refuses to trace what has ended as if it were forbidden.
fn has_ended(pid: u32) -> bool {
    let end = PidFd::process(pid).and_then(|end| poll_readable(&[end.as_fd()], Some(Instant::now())));
    end.is_ok_and(|readable| readable.is_some())
}

/// Why a command is not traced.
#[derive(Debug)]
enum Problem {
    NoKeeper(io::Error),
    NoWord(String),
    /// A signal ended it before it began.
    Ended,
    /// By the kernel, with this error number.
    Refused(i32),
}

impl Problem {
    fn about(self, program: &OsStr) -> Error {
        match self {
            Problem::NoKeeper(e) => {
                let reason = format!("its keeper process cannot be made: {e}");
                Error::new(ErrorKind::Os, not_run(program, &reason)).with_source(e)
            }
            Problem::NoWord(reason) => Error::new(ErrorKind::Os, not_run(program, &reason)),
            Problem::Ended => {
                Error::new(ErrorKind::Os, not_run(program, "a signal ended it before it began"))
            }
            Problem::Refused(number) => {
                let e = io::Error::from_raw_os_error(number);
                let reason = format!("tracing is not permitted: {e}");
                Error::new(ErrorKind::PermissionDenied, not_run(program, &reason)).with_source(e)
            }
        }
    }
}

fn not_followed(program: &OsStr, reason: &str) -> String {
    format!("the software PMU cannot follow '{}': it {reason}", shown(program))
}

fn not_run(program: &OsStr, reason: &str) -> String {
    format!("the software PMU cannot run '{}': {reason}", shown(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_baseline_is_one_of_the_translator() {
        let known: Vec<_> = CpuBaseline::ALL.into_iter().filter_map(baseline).collect();
        assert_eq!(known, Baseline::ALL);
    }

    #[test]
    fn every_problem_says_what_and_why() {
        let check = |problem: Problem, kind, words: &str| {
            let error = problem.about("foo\x1b".as_ref());
            assert_eq!(error.kind(), kind);
            let start = "the software PMU cannot run 'foo\\u{1b}': ";
            assert_eq!(error.to_string().strip_prefix(start), Some(words));
        };
        let denied = "tracing is not permitted: Operation not permitted (os error 1)";
        check(Problem::Refused(1), ErrorKind::PermissionDenied, denied);
        check(Problem::NoWord("silence".to_owned()), ErrorKind::Os, "silence");
        check(Problem::Ended, ErrorKind::Os, "a signal ended it before it began");
    }

    #[test]
    fn a_child_has_ended_when_it_is_not_reaped_yet() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(!has_ended(child.id()));
        child.kill().unwrap();
        let late = Instant::now() + std::time::Duration::from_secs(20);
        while !has_ended(child.id()) {
            assert!(Instant::now() < late, "it was killed");
        }
        child.wait().unwrap();
    }
}
