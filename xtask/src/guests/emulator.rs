//! QEMU: which one, and machines that run in it for a limited time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::machine::GuestMachine;
use crate::command::step;

/// Names a folder with QEMU's programs that are to be used instead of the packages'.
pub(super) const VARIABLE: &str = "CYCLOMETER_QEMU";

/// The first version whose plugins may write registers and move the program counter.
const OLDEST: u32 = 11;

/// A signal that ends this program ends the machine, too, whatever the signal.
const WITH_US: [&str; 2] = ["-run-with", "exit-with-parent=on"];

/// QEMU's programs.
pub(super) struct Emulator {
    /// A command that takes the name of a program and its arguments; `None` if programs are started
    /// themselves.
    launcher: Option<PathBuf>,
    folder: Option<PathBuf>,
}

/// How a machine ended.
#[derive(Debug)]
pub(super) enum EmulatorEnd {
    /// By itself.
    Exited(ExitStatus),
    /// It was killed when its time was over.
    Killed,
}

impl Emulator {
    /// That of the packages, unpacked in a folder, unless the environment names another.
    pub(super) fn new(packages: impl FnOnce() -> Result<PathBuf>) -> Result<Self> {
        match std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) {
            Some(folder) => Ok(Self { launcher: None, folder: Some(folder.into()) }),
            None => Ok(Self { launcher: Some(packages()?.join("qemu")), folder: None }),
        }
    }

    /// Fails unless a program is there, and recent enough for the plugin.
    pub(super) fn check(&self, program: &str) -> Result<()> {
        let output = self.command(program).arg("--version").output();
        let output = output.with_context(|| format!("starting {}", self.name_of(program)))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        recent_enough(&text).with_context(|| self.name_of(program))
    }

    /// Starts a machine's emulator with more arguments than its own, and waits until it ends or its time is
    /// over.
    pub(super) fn boot(
        &self,
        machine: &GuestMachine,
        args: &[String],
        log: &Path,
        limit: Duration,
    ) -> Result<EmulatorEnd> {
        let mut command = self.of(machine)?;
        command.args(["-m", "512", "-nographic", "-no-reboot"]).args(WITH_US).args(args);
        within(command, log, limit).with_context(|| format!("starting {}", machine.name))
    }

    /// Writes the device tree that the emulator would give a machine.
    pub(super) fn dump_tree(&self, machine: &GuestMachine, to: &Path) -> Result<()> {
        let mut command = self.of(machine)?;
        command.args(["-m", "512", "-nographic", "-machine"]).arg(format!("dumpdtb={}", to.display()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        step(&format!("the device tree of {}", machine.name), command)
    }

    /// Converts a device tree from one form to another.
    pub(super) fn device_tree_compiler(
        &self,
        from: &Path,
        form: &str,
        to: &Path,
        to_form: &str,
    ) -> Result<()> {
        let mut command = self.command("dtc");
        command.args(["-q", "-I", form, "-O", to_form, "-o"]).arg(to).arg(from);
        step(&format!("dtc for {}", to.display()), command)
    }

    /// A command that takes the name of a program and its arguments.
    pub(super) fn launcher(&self) -> String {
        self.launcher.as_ref().map_or_else(|| "env".to_owned(), |launcher| launcher.display().to_string())
    }

    /// A folder that has QEMU's programs, where one was named.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    fn of(&self, machine: &GuestMachine) -> Result<Command> {
        let Some((program, args)) = machine.emulator.split_first() else {
            bail!("{} has no emulator", machine.name)
        };
        let mut command = self.command(program);
        command.args(args);
        Ok(command)
    }

    fn command(&self, program: &str) -> Command {
        match (&self.launcher, &self.folder) {
            (Some(launcher), _) => {
                let mut command = Command::new(launcher);
                command.arg(program);
                command
            }
            (None, Some(folder)) if folder.join(program).exists() => Command::new(folder.join(program)),
            (None, _) => Command::new(program),
        }
    }

    fn name_of(&self, program: &str) -> String {
        self.command(program).get_program().to_string_lossy().into_owned()
    }
}

/// `QEMU emulator version 11.1.3 (Debian …)`.
fn recent_enough(text: &str) -> Result<()> {
    let version = text.lines().next().and_then(|line| line.split_once(" version ")).map(|(_, rest)| rest);
    let major: Option<u32> =
        version.and_then(|version| version.split('.').next()).and_then(|major| major.parse().ok());
    match major {
        Some(major) if major >= OLDEST => Ok(()),
        Some(_) => bail!(
            "QEMU {} is too old: plugins write registers from {OLDEST} on; unset {VARIABLE}, and Debian's packages are used",
            version.unwrap_or_default()
        ),
        None => {
            bail!("it does not tell the version of a QEMU; unset {VARIABLE}, and Debian's packages are used")
        }
    }
}

/// Runs a command with its output in a file, no longer than a limit; the command is killed then, and reaped.
pub(super) fn within(mut command: Command, log: &Path, limit: Duration) -> Result<EmulatorEnd> {
    let out = File::create(log).with_context(|| format!("writing {}", log.display()))?;
    command.stdin(Stdio::null()).stderr(out.try_clone()?).stdout(out);
    let mut child = command.spawn()?;
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(EmulatorEnd::Exited(status));
        }
        if begin.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(EmulatorEnd::Killed);
        }
        sleep(Duration::from_millis(50));
    }
}

/// The lines of a machine's console, without the escapes that firmware writes.
pub(super) fn console(log: &Path) -> Result<Vec<String>> {
    let bytes = fs::read(log).with_context(|| format!("reading {}", log.display()))?;
    Ok(lines(&String::from_utf8_lossy(&bytes)))
}

fn lines(text: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' if chars.next_if_eq(&'[').is_some() => {
                // A sequence ends with a letter; one that clears the screen ends the line, too.
                let end = chars.by_ref().find(|c| c.is_ascii_alphabetic());
                plain.extend((end == Some('J')).then_some('\n'));
            }
            '\u{1b}' => drop(chars.next()),
            '\r' => {}
            c => plain.push(c),
        }
    }
    plain.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_emulator_is_named_with_the_remedy() {
        assert!(recent_enough("QEMU emulator version 11.1.3 (Debian 1:11.1.3)\nCopyright").is_ok());
        let error = recent_enough("QEMU emulator version 7.2.22 (Debian 1:7.2)\n").unwrap_err().to_string();
        assert!(error.starts_with("QEMU 7.2.22 (Debian 1:7.2) is too old"), "{error}");
        assert!(error.contains("unset CYCLOMETER_QEMU"), "{error}");
        assert!(recent_enough("bash, version x").is_err());
    }

    #[test]
    fn what_hangs_is_killed_and_what_ends_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut hangs = Command::new("sh");
        hangs.args(["-c", "echo begun; exec sleep 1000"]);
        let begin = Instant::now();
        assert!(matches!(within(hangs, &log, Duration::from_secs(2)).unwrap(), EmulatorEnd::Killed));
        assert!(begin.elapsed() < Duration::from_secs(60));
        assert_eq!(console(&log).unwrap(), ["begun"]);
        let mut ends = Command::new("sh");
        ends.args(["-c", "exit 3"]);
        let ended = within(ends, &log, Duration::from_secs(60)).unwrap();
        assert!(matches!(ended, EmulatorEnd::Exited(status) if status.code() == Some(3)), "{ended:?}");
    }

    #[test]
    fn escapes_of_firmware_do_not_hide_lines() {
        assert_eq!(
            lines("\u{1b}c\u{1b}[?7l\u{1b}[2J\u{1b}[0mSeaBIOS\r\ncase: x\r\n"),
            ["", "SeaBIOS", "case: x"]
        );
        assert_eq!(lines("a\u{1b}[2Jcase: y"), ["a", "case: y"]);
    }
}
