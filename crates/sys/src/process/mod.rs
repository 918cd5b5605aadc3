//! Commands as processes: a helper that starts them, pipes for their output, waiting, accounting, limits.
//!
//! The kernel preserves the peak resident set of a process over `exec`. A process forked by a large program
//! therefore has its maker's peak, not its own. [`Launcher::start`] forks a small *helper* while the program
//! is still small, and the helper creates the commands. It uses `CLONE_PARENT`, so that they are our own
//! children and no other process reaps them.
//!
//! # Source
//!
//! `clone(2)`, flag `CLONE_PARENT`; `getrusage(2)`, `ru_maxrss`; `execve(2)`.

mod accounting;
mod direct;
#[cfg(target_os = "linux")]
mod drain;
#[cfg(not(target_os = "linux"))]
#[path = "drain_other.rs"]
mod drain;
#[cfg(all(test, target_os = "linux"))]
mod drain_other;
#[cfg(target_os = "linux")]
mod helper;
#[cfg(not(target_os = "linux"))]
#[path = "helper_none.rs"]
mod helper;
mod image;
mod limits;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
#[path = "other.rs"]
mod linux;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "the helper needs all of it, and is Linux's"))]
mod origin;
mod pid;
#[cfg(any(test, not(target_os = "linux")))]
#[cfg_attr(target_os = "linux", allow(dead_code, reason = "only tests need it on Linux"))]
mod posix;
mod tool;
mod wait;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only the helper can be looked at"))]
mod witness;

use std::cell::RefCell;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

pub use accounting::{ResourceUsage, clock_ticks_per_second, page_size, thread_usage};
pub use drain::Drain;
#[cfg(target_os = "linux")]
pub(crate) use image::leave;
#[cfg(target_os = "linux")]
pub(crate) use limits::open_files;
pub use limits::{raise_open_files, raise_private_memory, with_stack};
#[cfg(target_os = "linux")]
pub use linux::address_limits;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) use linux::allow_any_tracer;
#[cfg(target_os = "linux")]
pub(crate) use linux::time_left;
pub use linux::{PidFd, adopt_orphans, check_process_list, kernel_ticks_per_second, poll_readable};
#[cfg(target_os = "linux")]
pub(crate) use origin::all_signals;
#[cfg(any(test, target_os = "linux"))]
pub(crate) use origin::set as set_disposition;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) use pid::to_pid;
pub use tool::ToolLimits;
pub use wait::{Ended, Reap, Status, group_of, has_ended, own_group, reap, signal, signal_group};
pub use witness::Witness;

use helper::Helper;
use origin::{KeptChildren, Origin};

/// Error numbers of the operating system, for callers that distinguish them.
pub mod errno {
    pub use libc::{
        E2BIG, EACCES, EBUSY, EINVAL, EISDIR, ELOOP, EMFILE, ENAMETOOLONG, ENFILE, ENODEV, ENOENT, ENOEXEC,
        ENOSYS, ENOTDIR, EOPNOTSUPP, EPERM, ESRCH, ETXTBSY,
    };
}

/// Kills a process; it cannot be handled.
pub const SIGKILL: i32 = libc::SIGKILL;

/// Stops a process until [`SIGCONT`]; it cannot be handled.
pub const SIGSTOP: i32 = libc::SIGSTOP;

/// Continues a stopped process.
pub const SIGCONT: i32 = libc::SIGCONT;

/// The signal that terminals send to their foreground group on Ctrl-C.
pub const SIGINT: i32 = libc::SIGINT;

/// The signal that terminals send to their foreground group on Ctrl-\.
pub const SIGQUIT: i32 = libc::SIGQUIT;

/// The command to start, byte for byte.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The program; looked up in `PATH` when it has no slash.
    pub program: &'a OsStr,
    /// Its arguments, without the program.
    pub args: &'a [OsString],
    /// Its standard input; `None` for ours.
    pub stdin: Option<BorrowedFd<'a>>,
    /// Its standard output; `None` for ours.
    pub stdout: Option<BorrowedFd<'a>>,
    /// Its standard error; `None` for ours.
    pub stderr: Option<BorrowedFd<'a>>,
    /// The preparation for a tracer; `None` when the command will not be traced.
    pub traced: Option<Traced>,
}

/// A command that will be traced by a process other than its parent. It permits that (Yama requires it) from
/// before [`Launcher::spawn`] returns until it is released. Has no effect on systems other than Linux.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traced {
    /// Whether to place its code, stack and heap at the same addresses in every run (no randomisation), and
    /// those of its children. Some sandboxes forbid that: see [`Pending::layout_fixed`].
    pub fixed_layout: bool,
}

impl Request<'_> {
    /// The descriptors for 0, 1 and 2, with -1 for no change.
    fn streams(&self) -> [RawFd; 3] {
        [self.stdin, self.stdout, self.stderr].map(|stream| stream.map_or(-1, |fd| fd.as_raw_fd()))
    }
}

/// Starts commands.
///
/// Commands get the environment, working directory, signal dispositions, signal mask, open-files limit and
/// inheritable descriptors that this program had when the launcher was started. Only `SIGPIPE` has its
/// default, as Rust's runtime changes it before `main`.
///
/// Dropping it ends the helper and reaps it; commands continue.
#[derive(Debug)]
pub struct Launcher {
    helper: Option<Helper>,
    origin: Origin,
    _children: KeptChildren,
    // Not `Sync`, and must not be: answers come back in the order of requests.
    found: RefCell<Option<(OsString, Vec<CString>)>>,
}

impl Launcher {
    /// Forks the helper. Call it first in `main`, while the program is small.
    ///
    /// If `SIGCHLD` is ignored, it is set to its default until the last launcher is dropped, because the
    /// kernel would reap our commands otherwise.
    ///
    /// # Errors
    ///
    /// The operating system's, when no socket or process can be created.
    pub fn start() -> io::Result<Launcher> {
        let origin = Origin::record()?;
        let helper = Helper::start(&origin)?;
        Ok(Launcher { helper, origin, _children: KeptChildren::hold(), found: RefCell::default() })
    }

    /// A witness that can tell whether a signal was sent to our whole process group.
    pub fn witness(&self) -> Witness {
        self.helper.as_ref().map_or_else(Witness::default, Helper::witness)
    }

    /// Creates a process that waits for [`Pending::release`] before it executes the command.
    ///
    /// # Errors
    ///
    /// The operating system's; `InvalidInput` when the command contains a NUL byte.
    pub fn spawn(&self, request: &Request<'_>) -> io::Result<Pending> {
        self.spawn_padded(request, 0, &[])
    }

    /// The same with additional variables. If `padding` is not 0, a variable [`PADDING`] of this many bytes
    /// moves the stack, so that effects of addresses differ between runs. Other variables, as `NAME=VALUE`,
    /// precede the existing ones.
    ///
    /// # Errors
    ///
    /// As [`Launcher::spawn`].
    pub fn spawn_padded(
        &self,
        request: &Request<'_>,
        padding: u16,
        variables: &[OsString],
    ) -> io::Result<Pending> {
        let (candidates, argv) = (self.candidates(request.program)?, argv(request)?);
        let strings = Strings { candidates, argv, variables: added(padding, variables)? };
        let (gate, theirs) = UnixStream::pair()?;
        linux::never_raise_sigpipe(&gate)?;
        linux::never_raise_sigpipe(&theirs)?;
        let pid = self.make(&strings, request, &theirs)?;
        drop(theirs);
        let gate = OwnedFd::from(gate);
        let layout_fixed = request.traced.is_some() && image::read_prepared(&gate);
        Ok(Pending { pid, gate: Some(gate), layout_fixed })
    }

    /// The paths at which the program may be. The last answer is cached, as in shells. A program that appears
    /// in an earlier folder of `PATH` meanwhile is not found; one that disappears is looked up in the later
    /// ones.
    fn candidates(&self, program: &OsStr) -> io::Result<Vec<CString>> {
        let mut found = self.found.borrow_mut();
        if let Some((_, candidates)) = found.as_ref().filter(|(name, _)| name == program) {
            return Ok(candidates.clone());
        }
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
        let candidates: Result<Vec<CString>, _> =
            in_sight(candidates(program, &path)).into_iter().map(CString::new).collect();
        let candidates = candidates?;
        let exists =
            candidates.first().is_some_and(|first| Path::new(OsStr::from_bytes(first.as_bytes())).exists());
        *found = exists.then(|| (program.to_owned(), candidates.clone()));
        Ok(candidates)
    }

    fn make(&self, strings: &Strings, request: &Request<'_>, gate: &UnixStream) -> io::Result<u32> {
        if let Some(helper) = &self.helper {
            match helper.spawn(strings, request.streams(), gate.as_raw_fd(), request.traced) {
                // User-mode emulators of Linux (qemu-user) lack CLONE_PARENT.
                Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) => {}
                answer => return answer,
            }
        }
        direct::spawn(strings, request.streams(), gate.as_raw_fd(), &self.origin, request.traced)
    }
}

/// A process that has not executed its command yet.
///
/// Dropping it unreleased makes the process exit by itself; it must be reaped nevertheless.
#[derive(Debug)]
pub struct Pending {
    pid: u32,
    gate: Option<OwnedFd>,
    layout_fixed: bool,
}

impl Pending {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the layout of the command in memory will be the same in every run: requested by [`Traced`],
    /// and granted. A command that gains rights at exec (setuid) has a random layout nevertheless.
    pub fn layout_fixed(&self) -> bool {
        self.layout_fixed
    }

    /// Lets it execute the command without waiting for that, because waking up would take CPU time.
    ///
    /// A process that was killed meanwhile is no error here; reaping it shows that.
    pub fn release(&mut self) {
        if let Some(gate) = &self.gate {
            let _ = linux::send_quietly(gate, &[1]);
        }
    }

    /// The usage of the process at the time when it executed its command, to be subtracted from its
    /// accounting. The peak resident set is not included, as it is no sum. The usage is zero when the process
    /// was never released. Call it once, after the process was reaped.
    ///
    /// # Errors
    ///
    /// The reason why the command could not be executed: the operating system's from `execve(2)`.
    pub fn used_before_exec(&mut self) -> io::Result<ResourceUsage> {
        let Some(gate) = self.gate.take() else { return Ok(ResourceUsage::default()) };
        let story = image::read_story(&gate)?;
        match story.failure {
            None => Ok(story.before),
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

/// The strings of a request: paths to try, then the argument vector.
#[derive(Debug)]
struct Strings {
    candidates: Vec<CString>,
    argv: Vec<CString>,
    /// Variables to add to the environment, replacing those of the same names.
    variables: Vec<CString>,
}

/// The variable that pads the environment.
pub const PADDING: &str = "CYCLOMETER_PADDING";

/// The name of a variable, given as `name=value`.
fn name_of(variable: &[u8]) -> &[u8] {
    variable.split(|byte| *byte == b'=').next().unwrap_or_default()
}

fn added(padding: u16, variables: &[OsString]) -> io::Result<Vec<CString>> {
    let pad = format!("{PADDING}={}", "x".repeat(padding.into()));
    let pad = (padding > 0).then(|| OsString::from(pad));
    let all = variables.iter().chain(&pad).map(|variable| CString::new(variable.as_bytes()));
    Ok(all.collect::<Result<Vec<CString>, _>>()?)
}

fn argv(request: &Request<'_>) -> io::Result<Vec<CString>> {
    let argv = std::iter::once(request.program).chain(request.args.iter().map(OsString::as_os_str));
    let argv: Result<Vec<CString>, _> = argv.map(|arg| CString::new(arg.as_bytes())).collect();
    Ok(argv?)
}

/// The paths that a program's name may refer to, in order, as `execvp(3)` looks them up.
fn candidates(program: &OsStr, path: &OsStr) -> Vec<Vec<u8>> {
    let name = program.as_bytes();
    if name.is_empty() || name.contains(&b'/') {
        return vec![name.to_vec()];
    }
    let folders = path.as_bytes().split(|byte| *byte == b':');
    folders.map(|folder| join(folder, name)).collect()
}

/// Omits paths that do not exist, so that the command spends no time on them. The last path remains, so that
/// the kernel reports the error.
fn in_sight(mut candidates: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let last = candidates.pop();
    let exists = |path: &Vec<u8>| Path::new(OsStr::from_bytes(path)).exists();
    let mut seen: Vec<Vec<u8>> = candidates.into_iter().filter(exists).collect();
    seen.extend(last);
    seen
}

fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = OsString::from_vec(folder.to_vec()).into_vec();
    if !folder.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn launch(program: &str, args: &[&str]) -> (io::Result<()>, Ended) {
        let launcher = Launcher::start().unwrap();
        run(&launcher, program, args)
    }

    fn run(launcher: &Launcher, program: &str, args: &[&str]) -> (io::Result<()>, Ended) {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let request = Request {
            program: program.as_ref(),
            args: &args,
            stdin: None,
            stdout: None,
            stderr: None,
            traced: None,
        };
        let mut pending = launcher.spawn(&request).unwrap();
        pending.release();
        let ended = reap(pending.pid(), Reap::Block).unwrap().unwrap();
        (pending.used_before_exec().map(drop), ended)
    }

    #[test]
    fn a_command_is_our_own_child_and_gives_its_status() {
        let (released, ended) = launch("sh", &["-c", "exit 7"]);
        released.unwrap();
        assert_eq!(ended.status, Status::Code(7));
    }

    #[test]
    fn variables_are_added_with_and_without_a_helper() {
        let path = std::env::var("PATH").unwrap();
        for has_helper in [true, false] {
            let mut launcher = Launcher::start().unwrap();
            if !has_helper {
                launcher.helper = None;
            }
            for padding in [0u16, 1, 4000] {
                // The other variables are still present.
                let script = format!(
                    "[ ${{#CYCLOMETER_PADDING}} = {padding} ] && [ \"$PATH\" = '{path}' ] && [ $X = 7 ]"
                );
                let args: Vec<OsString> = ["-c", &script].iter().map(OsString::from).collect();
                let request = Request {
                    program: "sh".as_ref(),
                    args: &args,
                    stdin: None,
                    stdout: None,
                    stderr: None,
                    traced: None,
                };
                let mut pending = launcher.spawn_padded(&request, padding, &["X=7".into()]).unwrap();
                pending.release();
                let ended = reap(pending.pid(), Reap::Block).unwrap().unwrap();
                assert_eq!(ended.status, Status::Code(0), "helper {has_helper}, padding {padding}");
            }
        }
    }

    #[test]
    fn a_variable_replaces_the_one_of_its_name() {
        for has_helper in [true, false] {
            let mut launcher = Launcher::start().unwrap();
            if !has_helper {
                launcher.helper = None;
            }
            // A shell would hide duplicates.
            let script = "[ \"$(tr '\\0' '\\n' < /proc/$$/environ | grep '^PATH=')\" = PATH=/usr/bin:/bin ]";
            let args: Vec<OsString> = ["-c", script].iter().map(OsString::from).collect();
            let request = Request {
                program: "sh".as_ref(),
                args: &args,
                stdin: None,
                stdout: None,
                stderr: None,
                traced: None,
            };
            let variables = ["PATH=/usr/bin:/bin".into()];
            let mut pending = launcher.spawn_padded(&request, 0, &variables).unwrap();
            pending.release();
            let ended = reap(pending.pid(), Reap::Block).unwrap().unwrap();
            assert_eq!(ended.status, Status::Code(0), "helper {has_helper}");
        }
    }

    #[test]
    fn the_way_without_a_helper_gives_the_same() {
        let mut launcher = Launcher::start().unwrap();
        launcher.helper = None;
        let (released, ended) = run(&launcher, "sh", &["-c", "kill -TERM $$"]);
        released.unwrap();
        assert_eq!(ended.status, Status::Signal(libc::SIGTERM));
        let (released, ended) = run(&launcher, "/nonexistent", &[]);
        assert_eq!(released.unwrap_err().raw_os_error(), Some(libc::ENOENT));
        assert_eq!(ended.status, Status::Code(127));
    }

    #[test]
    fn exec_errors_come_back_as_the_kernels_number() {
        let cases = [
            ("no-such-command-at-all", libc::ENOENT),
            ("/", libc::EACCES),
            ("/dev/null/x", libc::ENOTDIR),
            ("", libc::ENOENT),
        ];
        for (program, errno) in cases {
            let (released, ended) = launch(program, &[]);
            assert_eq!(released.unwrap_err().raw_os_error(), Some(errno), "{program}");
            assert_eq!(ended.status, Status::Code(127));
        }
    }

    #[test]
    fn a_process_that_is_never_released_exits_quietly() {
        let launcher = Launcher::start().unwrap();
        let request = Request {
            program: "false".as_ref(),
            args: &[],
            stdin: None,
            stdout: None,
            stderr: None,
            traced: None,
        };
        let pending = launcher.spawn(&request).unwrap();
        let pid = pending.pid();
        drop(pending);
        assert_eq!(reap(pid, Reap::Block).unwrap().unwrap().status, Status::Code(0));
    }

    #[test]
    fn many_processes_may_wait_and_too_many_are_refused() {
        let launcher = Launcher::start().unwrap();
        let request = Request {
            program: "true".as_ref(),
            args: &[],
            stdin: None,
            stdout: None,
            stderr: None,
            traced: None,
        };
        for _ in 0..2 {
            let mut waiting = Vec::new();
            let refused = loop {
                match launcher.spawn(&request) {
                    Ok(pending) => waiting.push(pending),
                    Err(e) => break e,
                }
            };
            // Without a helper, the system's own limit would be reached first.
            assert!(waiting.len() >= 64, "{refused}");
            for mut pending in waiting {
                pending.release();
                assert_eq!(reap(pending.pid(), Reap::Block).unwrap().unwrap().status, Status::Code(0));
            }
        }
    }

    #[test]
    fn commands_start_with_the_signals_of_the_program() {
        let Ok(status) = std::fs::read_to_string("/proc/thread-self/status") else { return };
        let ours = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap()
        };
        // Rust's runtime ignores SIGPIPE, and the helper ignores SIGINT and others.
        let ignored = ours("SigIgn:") & !(1 << (libc::SIGPIPE - 1));
        let expected = [format!("SigIgn:\t{ignored:016x}"), format!("SigBlk:\t{:016x}", ours("SigBlk:"))];
        let script = r#"grep -qx "$0" /proc/self/status && grep -qx "$1" /proc/self/status"#;
        for helper in [true, false] {
            let mut launcher = Launcher::start().unwrap();
            launcher.helper = launcher.helper.take().filter(|_| helper);
            let (released, ended) = run(&launcher, "sh", &["-c", script, &expected[0], &expected[1]]);
            released.unwrap();
            assert_eq!(ended.status, Status::Code(0), "helper: {helper}, {expected:?}");
        }
    }

    /// The layout that a command reports of itself, and the one that we report.
    fn layout(launcher: &Launcher, traced: Option<Traced>) -> Option<(String, bool)> {
        let (mut output, theirs) = std::io::pipe().unwrap();
        let request = Request {
            program: "cat".as_ref(),
            args: &["/proc/self/personality".into()],
            stdin: None,
            stdout: Some(std::os::fd::AsFd::as_fd(&theirs)),
            stderr: None,
            traced,
        };
        let mut pending = launcher.spawn(&request).unwrap();
        pending.release();
        drop(theirs);
        let mut said = String::new();
        output.read_to_string(&mut said).unwrap();
        let ended = reap(pending.pid(), Reap::Block).unwrap().unwrap();
        pending.used_before_exec().unwrap();
        (ended.status == Status::Code(0)).then(|| (said.trim().to_owned(), pending.layout_fixed()))
    }

    #[test]
    fn a_layout_is_fixed_when_asked_for_and_only_then() {
        for helper in [true, false] {
            let mut launcher = Launcher::start().unwrap();
            launcher.helper = launcher.helper.take().filter(|_| helper);
            // Impossible on systems without /proc.
            let Some((ours, fixed)) = layout(&launcher, None) else { return };
            assert!(!fixed);
            let random = layout(&launcher, Some(Traced { fixed_layout: false })).unwrap();
            assert_eq!(random, (ours.clone(), false));
            let (theirs, fixed) = layout(&launcher, Some(Traced { fixed_layout: true })).unwrap();
            let bits = |text: &str| u32::from_str_radix(text, 16).unwrap();
            // If a sandbox refused, the layout is unchanged.
            let expected = if fixed { bits(&ours) | 0x0004_0000 } else { bits(&ours) };
            assert_eq!(bits(&theirs), expected, "helper: {helper}");
        }
    }

    #[test]
    fn what_a_traced_command_reports_is_what_any_other_does() {
        let launcher = Launcher::start().unwrap();
        for (program, errno) in [("true", None), ("/nonexistent", Some(libc::ENOENT))] {
            let traced = Some(Traced { fixed_layout: true });
            let request = Request {
                program: program.as_ref(),
                args: &[],
                stdin: None,
                stdout: None,
                stderr: None,
                traced,
            };
            let mut pending = launcher.spawn(&request).unwrap();
            pending.release();
            reap(pending.pid(), Reap::Block).unwrap();
            let used = pending.used_before_exec().map(|used| used.minor_faults > 0);
            assert_eq!(used.map_err(|e| e.raw_os_error()), errno.map_or(Ok(true), |errno| Err(Some(errno))));
        }
    }

    #[test]
    fn a_nul_byte_is_refused() {
        let launcher = Launcher::start().unwrap();
        let args = [OsString::from("a\0b")];
        let request = Request {
            program: "true".as_ref(),
            args: &args,
            stdin: None,
            stdout: None,
            stderr: None,
            traced: None,
        };
        assert_eq!(launcher.spawn(&request).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn what_does_not_exist_is_not_tried_but_the_last() {
        let paths = |list: &[&str]| list.iter().map(|s| s.as_bytes().to_vec()).collect::<Vec<_>>();
        let all = paths(&["/no/sh", "/bin/sh", "/no/way/sh"]);
        assert_eq!(in_sight(all), paths(&["/bin/sh", "/no/way/sh"]));
        assert_eq!(in_sight(paths(&["/no/sh"])), paths(&["/no/sh"]));
    }

    #[test]
    fn programs_are_looked_up_as_execvp_does() {
        let check = |program: &str, path: &str, expected: &[&str]| {
            let found = candidates(program.as_ref(), path.as_ref());
            assert_eq!(found, expected.iter().map(|s| s.as_bytes().to_vec()).collect::<Vec<_>>());
        };
        check("ls", "/bin:/usr/bin", &["/bin/ls", "/usr/bin/ls"]);
        check("./ls", "/bin:/usr/bin", &["./ls"]);
        check("ls", "", &["ls"]);
        check("ls", "/bin::", &["/bin/ls", "ls", "ls"]);
    }
}
