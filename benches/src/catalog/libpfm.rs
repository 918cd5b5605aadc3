//! libpfm4, if it is installed: a small C program that encodes event names to perf's words and measures the
//! time.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::limits::NS;

const SOURCE: &str = include_str!("libpfm.c");

/// The running program; it ends at the end of its input.
pub(super) struct Libpfm {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    _folder: TempDir,
}

impl Libpfm {
    /// Builds and starts the program; it also encodes events of CPUs other than this machine's.
    ///
    /// # Errors
    ///
    /// No C compiler, or no library.
    pub(super) fn start() -> Result<Libpfm> {
        let folder = tempfile::tempdir()?;
        let (source, program) = (folder.path().join("libpfm.c"), folder.path().join("libpfm"));
        std::fs::write(&source, SOURCE)?;
        let built = Command::new("cc").args(["-O2", "-o"]).args([&program, &source]).arg("-ldl").status();
        ensure!(built.context("there is no C compiler (package gcc)")?.success(), "libpfm.c does not build");
        let mut command = Command::new(program);
        command.env("LIBPFM_ENCODE_INACTIVE", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().context("no output")?);
        let mut peer = Libpfm { child, input, output, _folder: folder };
        match peer.answer()?.as_str() {
            "ready" => Ok(peer),
            _ => bail!("libpfm.so.4 is not installed (package libpfm4)"),
        }
    }

    /// perf's `config` and `config1` of an event; `None` if the library does not know it.
    ///
    /// # Errors
    ///
    /// The program has ended.
    pub(super) fn encode(&mut self, event: &str) -> Result<Option<(u64, u64)>> {
        let answer = self.ask(&format!("encode {event}"))?;
        let words = answer.split_once(' ');
        Ok(words.and_then(|(config, config1)| Some((config.parse().ok()?, config1.parse().ok()?))))
    }

    /// Adds an event to the events of a round.
    ///
    /// # Errors
    ///
    /// The program has ended.
    pub(super) fn keep(&mut self, event: &str) -> Result<()> {
        self.ask(&format!("keep {event}")).map(|_| ())
    }

    /// Encodes all added events once; returns the seconds for one.
    ///
    /// # Errors
    ///
    /// The program has ended, or no event was added.
    pub(super) fn round(&mut self) -> Result<f64> {
        let answer = self.ask("round")?;
        let time_ns: f64 = answer.split(' ').next().unwrap_or_default().parse()?;
        Ok(time_ns * NS)
    }

    fn ask(&mut self, line: &str) -> Result<String> {
        writeln!(self.input.as_mut().context("it has ended")?, "{line}")?;
        self.answer()
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.output.read_line(&mut line)? > 0, "the program that calls libpfm4 has ended");
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Libpfm {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// libpfm4's spelling of an Intel event: the PMU in front, a colon before the unit mask.
pub(super) fn spelled(pmu: &str, name: &str) -> String {
    format!("{pmu}::{}", name.replacen('.', ":", 1))
}
