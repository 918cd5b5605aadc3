//! Commands that cannot outlive their time, nor leave anything behind unnoticed.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cyclometer_sys::process::{PidFd, SIGKILL, adopt_orphans, poll_readable, signal};
use cyclometer_sys::signals::Watch;

use super::processes::{ProcessSnapshot, living};

/// How long processes may take to end after the command has.
const GRACE: Duration = Duration::from_secs(10);
/// How long a killed process may take to be gone.
const BURIAL: Duration = Duration::from_secs(10);
/// Pause between two looks at `/proc`.
const LOOK: Duration = Duration::from_millis(10);

/// The right to run commands: orphans come to us, and signals to us end what runs.
#[derive(Debug)]
pub(super) struct Supervisor {
    signals: Watch,
}

impl Supervisor {
    pub(super) fn new() -> Result<Supervisor> {
        adopt_orphans().context("becoming the parent of orphans; the corpus needs Linux")?;
        Ok(Supervisor { signals: Watch::install().context("watching for signals")? })
    }

    /// Starts a command in a process group of its own, with its streams in files `NAME.out` and `NAME.err` of
    /// a folder.
    pub(super) fn start(&self, mut command: Command, logs: &Path, name: &str) -> Result<RunningCommand<'_>> {
        let stream = |end| {
            let path = logs.join(format!("{name}.{end}"));
            File::create(&path).with_context(|| path.display().to_string())
        };
        command.process_group(0).stdin(Stdio::null()).stdout(stream("out")?).stderr(stream("err")?);
        let started = Instant::now();
        let shown = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("starting {shown}"))?;
        let end = PidFd::process(child.id()).context("watching a process (pidfd_open)")?;
        Ok(RunningCommand { child, started, end, supervisor: self, over: false })
    }
}

/// A command that runs; whatever is left of it when this is dropped is killed.
#[derive(Debug)]
pub(super) struct RunningCommand<'a> {
    child: Child,
    started: Instant,
    end: PidFd,
    supervisor: &'a Supervisor,
    over: bool,
}

/// A command that has ended by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedCommand {
    pub(super) status: ExitStatus,
    pub(super) wall: Duration,
}

impl RunningCommand<'_> {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// Waits for the end, at most until then.
    pub(super) fn wait(&mut self, until: Instant) -> Result<Option<EndedCommand>> {
        let fds = [self.end.as_fd(), self.supervisor.signals.as_fd()];
        match poll_readable(&fds, Some(until)).context("waiting for a command")? {
            None => Ok(None),
            Some(0) => {
                let wall = self.started.elapsed();
                Ok(Some(EndedCommand { status: self.child.wait()?, wall }))
            }
            Some(_) => bail!("interrupted by a signal"),
        }
    }

    /// Everyone who runs, the command itself too, if it does.
    pub(super) fn family(&self) -> Result<Vec<ProcessSnapshot>> {
        living(Some(self.child.id()))
    }

    /// Gives what the command left behind time to end, until a moment of its own or that of [`GRACE`]; who is
    /// there after that is killed, and told.
    pub(super) fn bury(mut self, grace: Option<Instant>) -> Result<Vec<ProcessSnapshot>> {
        let until = grace.unwrap_or_else(|| Instant::now() + GRACE);
        let left = self.gone(until)?;
        self.kill()?;
        Ok(left)
    }

    /// The processes that still exist at that time.
    fn gone(&self, until: Instant) -> Result<Vec<ProcessSnapshot>> {
        loop {
            let left = self.family()?;
            if left.is_empty() || Instant::now() >= until {
                return Ok(left);
            }
            if self.supervisor.signals.take().is_some() {
                bail!("interrupted by a signal");
            }
            std::thread::sleep(LOOK);
        }
    }

    fn kill(&mut self) -> Result<()> {
        self.over = true;
        let until = Instant::now() + BURIAL;
        loop {
            let left = living(None)?;
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() >= until {
                bail!("these cannot be killed: {}", shown(&left));
            }
            for process in &left {
                let _ = signal(process.pid, SIGKILL);
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for RunningCommand<'_> {
    fn drop(&mut self) {
        if !self.over {
            let _ = self.kill();
        }
    }
}

/// Processes in words.
pub(super) fn shown(processes: &[ProcessSnapshot]) -> String {
    let one = |process: &ProcessSnapshot| format!("{} ({}, {})", process.name, process.pid, process.state);
    processes.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;

    /// Set in a process that has no children but those of one test.
    const ROLE: &str = "CYCLOMETER_TEST_SUPERVISES";

    /// The processes that are left of a script after a time, by name; and its status, if it ended in that.
    fn left(supervisor: &Supervisor, script: &str, time: Duration) -> (Option<i32>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut running = supervisor.start(command, folder.path(), "log").unwrap();
        let until = running.started() + time;
        let ended = running.wait(until).unwrap();
        let mut left: Vec<String> = running.bury(Some(until)).unwrap().into_iter().map(|p| p.name).collect();
        left.sort();
        assert_eq!(living(None).unwrap(), [], "whoever was left is gone now");
        (ended.and_then(|ended| ended.status.code()), left)
    }

    /// Not a test by itself: the next one runs it in a process of its own, as it kills all descendants.
    #[test]
    fn supervise() {
        if env::var_os(ROLE).is_none() {
            return;
        }
        let supervisor = Supervisor::new().unwrap();
        let check = |script, ms, status, names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(left(&supervisor, script, Duration::from_millis(ms)), (status, names), "{script}");
        };
        check("exit 3", 20_000, Some(3), &[]);
        check("sleep 0.05 & exit 0", 20_000, Some(0), &[]);
        check("setsid sleep 60 & exit 0", 400, Some(0), &["sleep"]);
        check(
            "(setsid sh -c 'trap \"\" TERM HUP; sleep 60; :' &) & wait; exit 4",
            400,
            Some(4),
            &["sh", "sleep"],
        );
        check("kill -STOP $$; exit 0", 200, None, &["sh"]);
        check("sleep 60; exit 0", 200, None, &["sh", "sleep"]);
    }

    #[test]
    fn what_is_left_behind_or_hangs_is_told_and_killed() {
        if !Path::new("/proc/self/stat").exists() {
            return; // Not Linux: the corpus cannot run there, and says so.
        }
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["corpus::running::tests::supervise", "--exact", "--nocapture"]).env(ROLE, "1");
        let out = command.output().unwrap();
        let said = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() && said.contains("1 passed"), "{said}");
    }
}
