//! Commands under translation, as children.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cyclometer_core::code::OwnerKind;
use cyclometer_core::exec::{CommandSpec, KillCause, Layout, Waited};
use cyclometer_core::{Child, CpuBaseline, Error, ErrorKind, Launch, Result};
use cyclometer_soft::code_profile::ProfileOwner;
use cyclometer_soft::{ProcessorBaseline, host};
use cyclometer_sys::daemon::{self, Daemon};
use cyclometer_sys::process::{PidFd, Traced, poll_readable};
use cyclometer_sys::trace;

use super::link::{Link, Silence};
use super::{Links, file, hints};
use crate::cgroup::memory::GroupBefore;
use crate::launch::{Launcher, NativeChild, shown};
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
        let cpu_baseline = self.settings.cpu_baseline;
        let settings = host::TracerSettings {
            fixed_layout,
            profiled: self.settings.by_code,
            owners: self.settings.owners.filter(|_| self.settings.by_code).map(profile_owner),
            ..host::TracerSettings::default()
        }
        .with_baseline(cpu_baseline.and_then(baseline))
        .counting(self.settings.events())
        .with_call_paths(self.settings.by_code && self.settings.call_paths);
        let hints = if self.settings.hints { hints::folder() } else { None };
        let (native, link) = child_with_tracer(self.native, command, settings, hints.as_deref())?;
        let link = Rc::new(RefCell::new(link));
        let mut links = self.links.borrow_mut();
        links.retain(|_, link| link.strong_count() > 0);
        links.insert(native.process(), Rc::downgrade(&link));
        Ok(Box::new(Translated { native, cpu_baseline, _link: link }))
    }
}

fn profile_owner(kind: OwnerKind) -> ProfileOwner {
    match kind {
        OwnerKind::Process => ProfileOwner::Process,
        OwnerKind::Thread => ProfileOwner::Thread,
    }
}

/// A command at its gate, with a tracer.
///
/// # Errors
///
/// The launcher's, and `ErrorKind::PermissionDenied` where tracing is not permitted.
pub(super) fn child_with_tracer(
    native: &Launcher,
    command: &CommandSpec,
    settings: host::TracerSettings,
    hints: Option<&Path>,
) -> Result<(NativeChild, Link)> {
    let child = native.child(command, Some(Traced { fixed_layout: settings.fixed_layout }))?;
    let pid = child.process();
    let link = kept(|| traced(pid, settings, hints), |within| ends(pid, within));
    Ok((child, link.map_err(|problem| problem.about(&command.program))?))
}

/// A command that a tracer follows.
struct Translated {
    // Dropped first, while the tracer still waits for it.
    native: NativeChild,
    cpu_baseline: Option<CpuBaseline>,
    _link: Rc<RefCell<Link>>,
}

impl Child for Translated {
    fn pid(&self) -> Option<u32> {
        Some(self.native.process())
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
        // The layout was requested unchanged, or may not be changed.
        Some(self.native.layout().unwrap_or(Layout::Random))
    }

    fn kill_cause(&self) -> Option<KillCause> {
        self.native.kill_cause()
    }

    fn cpu_baseline(&self) -> Option<CpuBaseline> {
        self.cpu_baseline
    }
}

/// A baseline in the translator's type.
fn baseline(wanted: CpuBaseline) -> Option<ProcessorBaseline> {
    ProcessorBaseline::named(wanted.word())
}

/// The feature of a baseline that this machine's processor lacks, or its system has disabled. `None` where it
/// has all of them.
pub fn baseline_lacks(wanted: CpuBaseline) -> Option<&'static str> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    baseline(wanted)?.lacking(&cpuinfo)
}

/// How long a process may take to end with the tracer that traces it.
const END_WITH_TRACER: Duration = Duration::from_secs(1);

/// The result of `make` for a process that waits at its gate. Calls `make` again where a tracer was killed
/// before it traced the process.
fn kept<T>(
    mut make: impl FnMut() -> std::result::Result<T, Problem>,
    has_ended: impl Fn(Duration) -> bool,
) -> std::result::Result<T, Problem> {
    let mut made = make();
    let mut patience = Duration::ZERO;
    if made.as_ref().is_err_and(Problem::is_early_death) && !has_ended(patience) {
        // A tracer that traced it already takes it along, but not at once: then the second tracer may be
        // refused.
        (made, patience) = (make(), END_WITH_TRACER);
    }
    made.map_err(|problem| if has_ended(patience) { Problem::Ended } else { problem })
}

/// Starts a tracer for the process, which waits at its gate.
fn traced(
    pid: u32,
    settings: host::TracerSettings,
    hints: Option<&Path>,
) -> std::result::Result<Link, Problem> {
    let tracer: Daemon =
        daemon::fork(|socket| host::follow(pid, socket, settings, hints)).map_err(Problem::NoTracer)?;
    let mut link = Link::new(tracer, GroupBefore::now());
    let line = link.first_line().map_err(|silence| match silence {
        Silence::Ended => Problem::Died,
        other => Problem::NoWord(other.to_string()),
    })?;
    match line.split_once(' ') {
        None if line == "ready" => Ok(link),
        Some(("refused", number)) => Err(refused(pid, number.parse().unwrap_or(0))),
        _ => Err(Problem::NoWord(format!("unexpected reply of the tracer: '{line}'"))),
    }
}

/// Why the kernel refused to let a tracer trace a process at its gate, with this error number. Often it has a
/// tracer already.
fn refused(pid: u32, number: i32) -> Problem {
    let Some(tracer) = trace::tracer_of(pid) else { return Problem::Refused(number) };
    let name = std::fs::read_to_string(format!("/proc/{tracer}/comm"));
    Problem::Traced(match name {
        Ok(name) => format!("{} (process {tracer})", shown(name.trim_end().as_ref())),
        Err(_) => format!("process {tracer}"),
    })
}

/// Whether a child that waits at its gate ends there within a time. The kernel refuses to trace an ended
/// process with the same error as a forbidden one.
fn ends(pid: u32, within: Duration) -> bool {
    let until = Some(Instant::now() + within);
    let end = PidFd::process(pid).and_then(|end| poll_readable(&[end.as_fd()], until));
    end.is_ok_and(|readable| readable.is_some())
}

/// Why a command is not traced.
#[derive(Debug)]
enum Problem {
    NoTracer(io::Error),
    NoWord(String),
    /// The tracer ended before it sent anything.
    Died,
    /// A signal ended the process before it began.
    Ended,
    /// The kernel refused, with this error number.
    Refused(i32),
    /// This process traces it already.
    Traced(String),
}

impl Problem {
    /// Whether the tracer was killed, as far as is known, before it traced anything.
    fn is_early_death(&self) -> bool {
        match self {
            Problem::NoTracer(e) => e.kind() == io::ErrorKind::UnexpectedEof,
            Problem::Died => true,
            _ => false,
        }
    }

    fn about(self, program: &OsStr) -> Error {
        match self {
            Problem::NoTracer(e) => {
                let reason = format!("its tracer cannot be started: {e}");
                Error::new(ErrorKind::Os, not_run(program, &reason)).with_source(e)
            }
            Problem::NoWord(reason) => Error::new(ErrorKind::Os, not_run(program, &reason)),
            Problem::Died => Error::new(ErrorKind::Os, not_run(program, &Silence::Ended.to_string())),
            Problem::Ended => {
                Error::new(ErrorKind::Os, not_run(program, "a signal ended it before it began"))
            }
            Problem::Traced(tracer) => {
                let reason = format!(
                    "{tracer} traces it already, and a process can have one tracer only: count without that one"
                );
                Error::new(ErrorKind::PermissionDenied, not_run(program, &reason))
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
        assert_eq!(known, ProcessorBaseline::ALL);
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
        let traced = "gdb (process 7) traces it already, and a process can have one tracer only: count without that one";
        check(Problem::Traced("gdb (process 7)".to_owned()), ErrorKind::PermissionDenied, traced);
    }

    fn killed() -> Problem {
        Problem::NoTracer(io::ErrorKind::UnexpectedEof.into())
    }

    /// Checks the outcomes of successive attempts: the number of attempts, and the result.
    #[track_caller]
    fn check_kept(
        outcomes: Vec<std::result::Result<(), Problem>>,
        ended: bool,
        attempts: usize,
        words: &str,
    ) {
        let mut made = 0;
        let mut outcomes = outcomes.into_iter();
        let made_one = || {
            made += 1;
            outcomes.next().expect("no more attempts")
        };
        let kept = kept(made_one, |_| ended);
        let said = kept.map_or_else(|problem| problem.about("foo".as_ref()).to_string(), |()| String::new());
        assert_eq!(made, attempts);
        assert!(said.ends_with(words) && said.is_empty() == words.is_empty(), "{said}");
    }

    #[test]
    fn a_tracer_that_is_killed_early_is_replaced_once() {
        check_kept(vec![Ok(())], false, 1, "");
        check_kept(vec![Err(killed()), Ok(())], false, 2, "");
        check_kept(vec![Err(Problem::Died), Ok(())], false, 2, "");
        check_kept(vec![Err(killed()), Err(Problem::Died)], false, 2, "the tracer died");
    }

    #[test]
    fn no_other_tracer_is_made_for_what_another_one_would_not_change() {
        check_kept(vec![Err(Problem::Refused(1))], false, 1, "Operation not permitted (os error 1)");
        check_kept(vec![Err(Problem::NoWord("silence".to_owned()))], false, 1, "silence");
        let none = Problem::NoTracer(io::Error::from_raw_os_error(11));
        check_kept(vec![Err(none)], false, 1, "Resource temporarily unavailable (os error 11)");
        check_kept(vec![Err(Problem::Died)], true, 1, "a signal ended it before it began");
    }

    #[test]
    fn a_process_that_its_tracer_took_along_has_ended() {
        let ended = |within: Duration| !within.is_zero();
        let mut outcomes = [Problem::Died, Problem::Refused(1)].into_iter();
        let kept: std::result::Result<(), Problem> = kept(|| Err(outcomes.next().unwrap()), ended);
        assert!(matches!(kept, Err(Problem::Ended)), "{kept:?}");
    }

    #[test]
    fn a_child_has_ended_when_it_is_not_reaped_yet() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(!ends(child.id(), Duration::ZERO));
        child.kill().unwrap();
        assert!(ends(child.id(), Duration::from_secs(300)), "it was killed");
        child.wait().unwrap();
    }
}
