//! One call of the command-line tool: started under a supervisor, bounded in time and output.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use crate::allowed::reason;
use crate::args::CallLimits;
use crate::excerpt::Excerpt;
use crate::supervisor;

/// How long a supervisor may take to end its processes before it is killed itself.
const END_TIMEOUT: Duration = Duration::from_secs(8);

/// The programs that calls are made with, and what is the same for all calls.
#[derive(Clone, Debug)]
pub struct Caller {
    /// This program, as supervisor.
    pub supervisor: PathBuf,
    /// The command-line tool.
    pub tool: PathBuf,
    /// The environment of all calls.
    pub environment: Vec<(OsString, OsString)>,
    /// The limits of each call.
    pub limits: CallLimits,
}

/// How one call of the tool is made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invocation {
    /// The arguments of the tool.
    pub args: Vec<OsString>,
    /// The working directory.
    pub folder: PathBuf,
    /// The longest time.
    pub timeout: Duration,
}

/// The outcome of a call that ended by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolAnswer {
    /// The exit status of the tool, as a shell has it.
    pub exit_status: i32,
    /// All of its standard output.
    pub stdout: Vec<u8>,
    /// The beginning and the end of its standard error, with that of the measured program.
    pub stderr: Excerpt,
}

/// The reason why a call was stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stopped {
    /// It took longer.
    Timeout(Duration),
    /// The result is larger, in bytes.
    TooLarge(usize),
    /// The client cancelled it, or went away.
    Cancelled,
    /// The system refused.
    System(String),
}

impl Stopped {
    /// The event and its remedy, in words.
    pub fn message(&self) -> String {
        match self {
            Stopped::Timeout(limit) => format!(
                "the call was stopped after {} s, and its processes were ended. Measure less work, or ask for \
                 fewer runs; the server's limit is that of --timeout",
                limit.as_secs_f64()
            ),
            Stopped::TooLarge(bytes) => format!(
                "the result is larger than {} KiB, and the call was stopped. Ask for less, such as fewer runs or \
                 events; the server's limit is that of --max-output",
                bytes / 1024
            ),
            Stopped::Cancelled => "the call was cancelled, and its processes were ended".to_owned(),
            Stopped::System(why) => why.clone(),
        }
    }
}

impl Caller {
    /// Makes the call. Its processes have ended when this returns, whatever the outcome.
    ///
    /// # Errors
    ///
    /// The reason why the call was stopped.
    pub async fn call(
        &self,
        invocation: &Invocation,
        stop: CancellationToken,
    ) -> Result<ToolAnswer, Stopped> {
        let mut child = self.started(invocation)?;
        // Closing it tells the supervisor to end everything.
        let pipe = child.stdin.take();
        let outcome = tokio::select! {
            outcome = finished(&mut child, self.limits.output_bytes) => outcome,
            () = tokio::time::sleep(invocation.timeout) => Err(Stopped::Timeout(invocation.timeout)),
            () = stop.cancelled() => Err(Stopped::Cancelled),
        };
        drop(pipe);
        end(&mut child).await;
        outcome
    }

    fn started(&self, invocation: &Invocation) -> Result<Child, Stopped> {
        let mut command = Command::new(&self.supervisor);
        command
            .arg(supervisor::WORD)
            .arg(&self.tool)
            .args(&invocation.args)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&invocation.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        command.spawn().map_err(|error| {
            let (program, why) = (self.supervisor.display(), reason(&error));
            Stopped::System(format!("cannot start {program} in {}: {why}", invocation.folder.display()))
        })
    }
}

/// Reads both outputs to their ends, and waits for the supervisor.
async fn finished(child: &mut Child, most: usize) -> Result<ToolAnswer, Stopped> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = tokio::try_join!(read_all(stdout, most), read_excerpt(stderr))?;
    let status = child.wait().await.map_err(|error| of_reading(&error))?;
    Ok(ToolAnswer { exit_status: status.code().unwrap_or(i32::from(supervisor::FAILURE)), stdout, stderr })
}

/// Waits for the end of the supervisor, which ends its processes first; kills it if that takes too long.
async fn end(child: &mut Child) {
    if tokio::time::timeout(END_TIMEOUT, child.wait()).await.is_err() {
        let _ = child.start_kill();
        let _ = tokio::time::timeout(END_TIMEOUT, child.wait()).await;
    }
}

async fn read_all(from: Option<impl AsyncRead + Unpin>, most: usize) -> Result<Vec<u8>, Stopped> {
    let (mut all, Some(from)) = (Vec::new(), from) else { return Ok(Vec::new()) };
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    from.take(limit).read_to_end(&mut all).await.map_err(|error| of_reading(&error))?;
    if all.len() > most { Err(Stopped::TooLarge(most)) } else { Ok(all) }
}

async fn read_excerpt(from: Option<impl AsyncRead + Unpin>) -> Result<Excerpt, Stopped> {
    let (mut excerpt, Some(mut from)) = (Excerpt::default(), from) else { return Ok(Excerpt::default()) };
    let mut buffer = [0; 8192];
    loop {
        match from.read(&mut buffer).await.map_err(|error| of_reading(&error))? {
            0 => return Ok(excerpt),
            read => excerpt.add(buffer.get(..read).unwrap_or_default()),
        }
    }
}

fn of_reading(error: &std::io::Error) -> Stopped {
    Stopped::System(format!("cannot read the result of a call: {}", reason(error)))
}

/// The command-line tool: beside this program, or else in a folder of `PATH`.
pub fn tool_beside(own: &Path, path: Option<OsString>) -> Option<PathBuf> {
    let beside = own.parent().map(|folder| folder.join("cyclometer"));
    let others = path.iter().flat_map(std::env::split_paths).map(|folder| folder.join("cyclometer"));
    beside.into_iter().chain(others.collect::<Vec<_>>()).find(|path| path.is_absolute() && path.is_file())
}
