//! The restore daemon: the process that restores registers when this process cannot.
//!
//! The daemon receives each CPU's restore steps before the registers are written, and answers when it is
//! ready. When its maker has gone, it restores the registers that it still keeps, CPU by CPU, and ends. After
//! a fault it continues with the other registers.
//!
//! A message is a letter, the length of the body in 4 bytes, and the body; an answer has the same form.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use cyclometer_arch::{Registers, Step, carry_out};
use cyclometer_sys::daemon::{self, Daemon};
use cyclometer_sys::process::{PidFd, poll_readable};

use super::devices::Devices;
use super::folder::Folder;
use super::place::MsrLocation;
use crate::registers::Chips;
use crate::registers::journal::{Journal, MAX_BYTES, Process};

/// How long the daemon may take to answer, and this process to send a whole message.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long the daemon may take to restore registers when this process ends.
const LAST_PATIENCE: Duration = Duration::from_secs(10);

const KEEP: u8 = b'k';
const LET_GO: u8 = b'l';
const DONE: u8 = b'd';
const REFUSED: u8 = b'r';

/// The connection to the daemon.
#[derive(Debug)]
pub(super) struct DaemonConnection {
    daemon: Daemon,
    /// The daemon did not answer once: a later answer might belong to an earlier message.
    is_lost: bool,
}

impl DaemonConnection {
    /// Starts the daemon.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub(super) fn start(place: &MsrLocation, chips: &Chips, maker: Process) -> io::Result<DaemonConnection> {
        let (place, chips) = (place.clone(), chips.clone());
        let daemon = daemon::fork(move |socket| RestoreDaemon::new(place, chips, maker).attend(socket))?;
        daemon.socket().set_read_timeout(Some(PATIENCE))?;
        daemon.socket().set_write_timeout(Some(PATIENCE))?;
        Ok(DaemonConnection { daemon, is_lost: false })
    }

    pub(super) fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    /// Makes the daemon keep a journal.
    ///
    /// # Errors
    ///
    /// The refusal of the daemon; an error of the operating system when it does not answer.
    pub(super) fn keep(&mut self, journal: &Journal) -> io::Result<()> {
        self.ask(KEEP, journal.to_text().as_bytes())
    }

    /// Makes the daemon forget a CPU.
    ///
    /// # Errors
    ///
    /// An error of the operating system when the daemon does not answer.
    pub(super) fn let_go(&mut self, cpu: u32) -> io::Result<()> {
        self.ask(LET_GO, &cpu.to_ne_bytes())
    }

    fn ask(&mut self, letter: u8, body: &[u8]) -> io::Result<()> {
        if self.is_lost {
            return Err(io::Error::other("it did not answer before"));
        }
        let mut socket = self.daemon.socket();
        let answer = send(&mut socket, letter, body).and_then(|()| receive(&mut socket));
        match answer {
            Ok((DONE, _)) => Ok(()),
            Ok((_, why)) => Err(io::Error::other(String::from_utf8_lossy(&why).into_owned())),
            Err(error) => {
                self.is_lost = true;
                Err(error)
            }
        }
    }

    /// Makes the daemon restore the registers that it still keeps, and waits a limited time for its end.
    pub(super) fn end(self) {
        let mut socket = self.daemon.socket();
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let _ = socket.set_read_timeout(Some(LAST_PATIENCE));
        let _ = socket.read(&mut [0]);
    }
}

fn send(socket: &mut impl Write, letter: u8, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut message = vec![letter];
    message.extend(length.to_ne_bytes());
    message.extend(body);
    socket.write_all(&message)
}

fn receive(socket: &mut impl Read) -> io::Result<(u8, Vec<u8>)> {
    let (mut letter, mut length) = ([0], [0; 4]);
    socket.read_exact(&mut letter)?;
    socket.read_exact(&mut length)?;
    let length = u32::from_ne_bytes(length) as usize;
    if length > MAX_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length];
    socket.read_exact(&mut body)?;
    Ok((letter[0], body))
}

/// The work of the restore daemon, in its process.
struct RestoreDaemon {
    folder: Folder,
    chips: Chips,
    maker: Process,
    devices: Devices,
    kept: BTreeMap<u32, Vec<Step>>,
}

impl RestoreDaemon {
    fn new(place: MsrLocation, chips: Chips, maker: Process) -> RestoreDaemon {
        let folder = Folder::of(&place);
        RestoreDaemon { folder, chips, maker, devices: Devices::new(place), kept: BTreeMap::new() }
    }

    /// Answers until the maker has gone, then restores.
    fn attend(mut self, mut socket: UnixStream) {
        // Other processes may hold a copy of the maker's socket, so its closing alone is no proof. Without a
        // PID file descriptor it has to be.
        let maker = PidFd::process(self.maker.pid).ok();
        let _ = socket.set_read_timeout(Some(PATIENCE));
        let _ = socket.set_write_timeout(Some(PATIENCE));
        while says_something(&socket, maker.as_ref()) {
            let Ok((letter, body)) = receive(&mut socket) else { break };
            let (answer, why) = match self.obey(letter, &body) {
                Ok(()) => (DONE, String::new()),
                Err(why) => (REFUSED, why),
            };
            if send(&mut socket, answer, why.as_bytes()).is_err() {
                break;
            }
        }
        self.restore();
        self.clear();
    }

    fn obey(&mut self, letter: u8, body: &[u8]) -> Result<(), String> {
        match letter {
            KEEP => self.keep(body),
            LET_GO => {
                let cpu = body.try_into().map_err(|_| "no CPU was named")?;
                self.kept.remove(&u32::from_ne_bytes(cpu));
                Ok(())
            }
            _ => Err("this request is unknown".to_owned()),
        }
    }

    /// Makes sure that a CPU's registers can be restored: parses the steps, and opens the device.
    fn keep(&mut self, text: &[u8]) -> Result<(), String> {
        let journal = Journal::parse(text).map_err(|error| error.to_string())?;
        let cpu = journal.cpu;
        let chip = self.chips.of(cpu).ok_or_else(|| format!("the chip of CPU {cpu} is unknown"))?;
        let steps = journal.steps(chip).map_err(|error| error.to_string())?;
        let first = steps.iter().find_map(|step| match step {
            Step::Write(bits) => Some(bits.register),
            Step::Barrier => None,
        });
        if let Some(register) = first {
            self.devices.open(cpu, register).map_err(|fault| fault.to_string())?;
        }
        self.kept.insert(cpu, steps);
        Ok(())
    }

    /// Restores every CPU that is still kept; journals of CPUs with a fault stay.
    fn restore(&mut self) {
        for (cpu, steps) in std::mem::take(&mut self.kept) {
            match restore(&steps, &mut self.devices, cpu) {
                Ok(()) => drop(self.folder.remove(cpu)),
                Err(_) => drop(self.kept.insert(cpu, steps)),
            }
        }
    }

    /// Removes journals of the maker that the daemon does not keep: nothing was written yet, or all is
    /// restored.
    fn clear(&self) {
        for path in self.folder.files().unwrap_or_default() {
            let Ok(journal) = self.folder.read(&path) else { continue };
            let ours = journal.maker == self.maker && journal.daemon.pid == std::process::id();
            if ours && !self.kept.contains_key(&journal.cpu) {
                let _ = self.folder.remove(journal.cpu);
            }
        }
    }
}

/// Whether a message has arrived; otherwise the maker has gone.
fn says_something(socket: &UnixStream, maker: Option<&PidFd>) -> bool {
    let fds: Vec<_> = std::iter::once(socket.as_fd()).chain(maker.map(AsFd::as_fd)).collect();
    matches!(poll_readable(&fds, None), Ok(Some(0)))
}

/// Carries out all steps, including those after a fault.
///
/// # Errors
///
/// The first fault.
pub(super) fn restore(
    steps: &[Step],
    on: &mut dyn Registers,
    cpu: u32,
) -> Result<(), cyclometer_arch::Fault> {
    let mut first = Ok(());
    for step in steps {
        let made = carry_out(std::slice::from_ref(step), on, cpu);
        first = first.and(made);
    }
    first
}
