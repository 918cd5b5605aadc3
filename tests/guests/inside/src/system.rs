//! Commands with a time limit, settings of the kernel, modules.

use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// The user that runs a command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Root,
    User,
}

/// An ordinary user's id, and group.
const USER: u32 = 1000;

/// Time limit for a command.
const LIMIT: Duration = Duration::from_secs(90);

/// The result of a command.
pub(crate) struct Finished {
    /// The exit status, or 128 and the signal.
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Finished {
    /// All output.
    pub(crate) fn printed(&self) -> String {
        format!("{}{}", self.out, self.err)
    }

    /// Fails unless the exit status is that.
    pub(crate) fn expect(self, status: i32) -> Result<Self> {
        self.expect_one_of(&[status])
    }

    /// Fails unless the exit status is one of those.
    pub(crate) fn expect_one_of(self, statuses: &[i32]) -> Result<Self> {
        let wanted = statuses.iter().map(i32::to_string).collect::<Vec<_>>().join(" or ");
        ensure!(
            statuses.contains(&self.status),
            "exit {} instead of {wanted}\n{}",
            self.status,
            self.printed()
        );
        Ok(self)
    }

    /// Fails unless the output has all these words; line breaks do not matter.
    pub(crate) fn says(&self, words: &[&str]) -> Result<()> {
        let printed = self.printed().split_whitespace().collect::<Vec<_>>().join(" ");
        for wanted in words {
            ensure!(printed.contains(wanted), "nothing said of {wanted:?}\n{}", self.printed());
        }
        Ok(())
    }
}

/// Starts a command with its output in files below /tmp.
pub(crate) fn start(who: Who, program: &str, args: &[&str], stdin: Stdio) -> Result<Started> {
    let folder = format!("/tmp/{}", if who == Who::Root { "root" } else { "user" });
    fs::create_dir_all(&folder)?;
    let (out, err) = (format!("{folder}/out"), format!("{folder}/err"));
    let mut command = Command::new(program);
    command.args(args).stdin(stdin).env_clear().env("PATH", "/").env("HOME", "/tmp");
    command.stdout(File::create(&out)?).stderr(File::create(&err)?);
    if who == Who::User {
        command.uid(USER).gid(USER);
    }
    let child = command.spawn().with_context(|| format!("starting {program}"))?;
    Ok(Started { child, out, err })
}

/// A running command.
pub(crate) struct Started {
    pub(crate) child: Child,
    out: String,
    err: String,
}

impl Started {
    /// Whether it has a perf counter, which is one of its files, or has ended; `None` while neither is true.
    pub(crate) fn has_counter(&mut self) -> Option<()> {
        let ended = self.child.try_wait().is_ok_and(|status| status.is_some());
        let files = fs::read_dir(format!("/proc/{}/fd", self.child.id())).into_iter().flatten().flatten();
        let mut targets = files.filter_map(|file| fs::read_link(file.path()).ok());
        (ended || targets.any(|target| target.to_string_lossy().contains("[perf_event]"))).then_some(())
    }

    /// Kills it.
    pub(crate) fn kill(mut self) -> Result<Finished> {
        self.child.kill()?;
        self.finish()
    }

    /// Waits for its end, and kills it after the time limit.
    pub(crate) fn finish(mut self) -> Result<Finished> {
        let status = wait_for("its end", LIMIT, || Ok(self.child.try_wait()?));
        if status.is_err() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let (out, err) = (text(&self.out), text(&self.err));
        let status = status.with_context(|| format!("killed\n{out}{err}"))?;
        let status = status.code().unwrap_or(128 + status.signal().unwrap_or(0));
        Ok(Finished { status, out, err })
    }
}

/// Runs a command to its end with an empty standard input.
pub(crate) fn run(who: Who, program: &str, args: &[&str]) -> Result<Finished> {
    start(who, program, args, Stdio::null())?.finish()
}

/// Waits until a condition is met.
pub(crate) fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut there: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let begin = Instant::now();
    loop {
        if let Some(found) = there()? {
            return Ok(found);
        }
        if begin.elapsed() > limit {
            bail!("waited {} s for {what}", limit.as_secs());
        }
        sleep(Duration::from_millis(5));
    }
}

fn text(file: &str) -> String {
    String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned()
}

/// Writes one of the kernel's numbers, as in `kernel/perf_event_paranoid`.
pub(crate) fn sysctl(name: &str, value: &str) -> Result<()> {
    fs::write(format!("/proc/sys/{name}"), value).with_context(|| format!("setting {name} to {value}"))
}

/// Loads a module of the RAM disk. The inner result is the kernel's answer.
pub(crate) fn load(module: &str) -> Result<rustix::io::Result<()>> {
    let file = File::open(format!("/modules/{module}.ko")).with_context(|| format!("the module {module}"))?;
    Ok(rustix::system::finit_module(file, c"", 0))
}
