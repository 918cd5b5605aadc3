//! A running process or thread that is not our child, or the whole system: it is only observed.

use std::fs;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cyclometer_core::exec::{Exit, Signalled, Waited};
use cyclometer_core::{Child, Error, ErrorKind, Recovery, Result};
use cyclometer_sys::process::{self, PidFd, errno};
use cyclometer_sys::signals::Watch;

use super::vigil::{News, Vigil};

/// How often to check whether the target has ended, where the kernel does not report it.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A target that runs already. It is not our child, so its end reports neither status nor usage.
#[derive(Debug)]
pub struct Attached {
    what: AttachTarget,
    vigil: Vigil,
    /// Targets to wait for after that one has ended.
    others: Vec<Attached>,
    since: Instant,
    ended: Option<Exit>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AttachTarget {
    Process(u32),
    Thread(u32),
    System,
}

impl Attached {
    /// A process.
    ///
    /// # Errors
    ///
    /// `ErrorKind::NoSuchTarget` when there is none with this id.
    pub fn process(pid: u32) -> Result<Attached> {
        Attached::to(AttachTarget::Process(pid), PidFd::process(pid))
    }

    /// A thread.
    ///
    /// # Errors
    ///
    /// `ErrorKind::NoSuchTarget` when there is none with this id.
    pub fn thread(tid: u32) -> Result<Attached> {
        Attached::to(AttachTarget::Thread(tid), PidFd::thread(tid))
    }

    /// Several processes: waits end when all have ended.
    ///
    /// # Errors
    ///
    /// `ErrorKind::NoSuchTarget` for the first process that does not exist, and for an empty list.
    pub fn processes(pids: &[u32]) -> Result<Attached> {
        Attached::to_all(pids, Attached::process)
    }

    /// Several threads: waits end when all have ended.
    ///
    /// # Errors
    ///
    /// `ErrorKind::NoSuchTarget` for the first thread that does not exist, and for an empty list.
    pub fn threads(tids: &[u32]) -> Result<Attached> {
        Attached::to_all(tids, Attached::thread)
    }

    fn to_all(ids: &[u32], attach: fn(u32) -> Result<Attached>) -> Result<Attached> {
        let mut others: Vec<Attached> = ids.iter().map(|id| attach(*id)).collect::<Result<_>>()?;
        let first = others
            .pop()
            .ok_or_else(|| Error::new(ErrorKind::NoSuchTarget, "no process and no thread is named"))?;
        Ok(Attached { others, ..first })
    }

    /// The whole system, which never ends: waits end at their deadline, or by a signal.
    pub fn system() -> Attached {
        let vigil = Vigil { end: None, signals: None, look_every: None };
        Attached { what: AttachTarget::System, vigil, others: Vec::new(), since: Instant::now(), ended: None }
    }

    /// The same, whose waits end when a signal comes.
    pub fn with_signals(mut self, watch: impl Into<Arc<Watch>>) -> Attached {
        let watch = watch.into();
        for other in &mut self.others {
            other.vigil.signals = Some(watch.clone());
        }
        self.vigil.signals = Some(watch);
        self
    }

    fn to(what: AttachTarget, end: io::Result<PidFd>) -> Result<Attached> {
        let gone = end.as_ref().is_err_and(|e| e.raw_os_error() == Some(errno::ESRCH));
        if gone || !what.exists() {
            return Err(what.missing());
        }
        let vigil = Vigil { end: end.ok(), signals: None, look_every: Some(LOOK_EVERY) };
        Ok(Attached { what, vigil, others: Vec::new(), since: Instant::now(), ended: None })
    }

    /// Continues with another target that may still run.
    fn turn_to_another(&mut self) -> bool {
        let Some(Attached { what, vigil, .. }) = self.others.pop() else { return false };
        (self.what, self.vigil) = (what, vigil);
        true
    }

    fn exited(&mut self) -> Waited {
        let wall_ns = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let exit = Exit { status: None, wall_ns, usage: None };
        self.ended = Some(exit.clone());
        Waited::Exited(exit)
    }
}

impl AttachTarget {
    fn exists(self) -> bool {
        let (id, stat) = match self {
            AttachTarget::Process(pid) => (pid, format!("/proc/{pid}/stat")),
            AttachTarget::Thread(tid) => (tid, format!("/proc/{tid}/task/{tid}/stat")),
            AttachTarget::System => return true,
        };
        // Without a /proc of this PID namespace, only signal 0 shows whether the target exists.
        if process::check_process_list().is_err() {
            let sent = process::signal(id, 0);
            return sent.is_ok() || sent.is_err_and(|error| error.raw_os_error() == Some(errno::EPERM));
        }
        fs::read(stat).is_ok_and(|stat| !is_dead(&stat))
    }

    fn missing(self) -> Error {
        let (what, id) = match self {
            AttachTarget::Process(pid) => ("process", pid),
            AttachTarget::Thread(tid) => ("thread", tid),
            AttachTarget::System => ("system", 0),
        };
        Error::new(ErrorKind::NoSuchTarget, format!("there is no {what} {id}"))
            .with_recovery(Recovery::fix("`ps -eL` shows processes (PID) and threads (LWP)"))
    }
}

/// Whether a line of `/proc/PID/stat` is that of a process that only waits to be reaped.
fn is_dead(stat: &[u8]) -> bool {
    let behind = stat.iter().rposition(|byte| *byte == b')').map_or(0, |end| end + 2);
    matches!(stat.get(behind), Some(b'Z' | b'X' | b'x'))
}

impl Child for Attached {
    /// Its id; 0 for the system.
    fn pid(&self) -> Option<u32> {
        match self.what {
            AttachTarget::Process(id) | AttachTarget::Thread(id) => Some(id),
            AttachTarget::System => None,
        }
    }

    /// The target runs already, so only the clock starts.
    fn release(&mut self) -> Result<()> {
        self.since = Instant::now();
        Ok(())
    }

    fn wait(&mut self, until: Option<Instant>) -> Result<Waited> {
        if let Some(exit) = &self.ended {
            return Ok(Waited::Exited(exit.clone()));
        }
        loop {
            let news = self.vigil.next(until).map_err(|e| {
                Error::new(ErrorKind::Os, format!("cannot wait for {:?}: {e}", self.what)).with_source(e)
            })?;
            match news {
                News::Look if self.what.exists() => {}
                News::Ended | News::Look if self.turn_to_another() => {}
                News::Ended | News::Look => return Ok(self.exited()),
                News::Time => return Ok(Waited::TimedOut),
                // A target that is only observed gets no signal from this process.
                News::Signal(signal) => {
                    return Ok(Waited::Interrupted(Signalled { signal, reached_command: true }));
                }
            }
        }
    }

    /// Does nothing: a target that is only observed gets no signals from this process.
    fn signal(&mut self, _signal: i32) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_does_not_look_dead() {
        assert!(!is_dead(b"1 (a) Z 1) S 1 1"));
        assert!(is_dead(b"1 (a) S) Z 1 1"));
        assert!(!is_dead(b""));
    }

    #[test]
    fn what_does_not_exist_is_named() {
        let error = Attached::process(0x7fff_fff0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSuchTarget);
        assert_eq!(error.to_string(), "there is no process 2147483632");
        assert_eq!(Attached::thread(0x7fff_fff0).unwrap_err().to_string(), "there is no thread 2147483632");
    }

    #[test]
    fn the_end_of_a_thread_is_seen_with_and_without_a_pidfd() {
        for pidfd in [true, false] {
            let (tid_sender, tid) = std::sync::mpsc::channel();
            let (leave, gate) = std::sync::mpsc::channel::<()>();
            let thread = std::thread::spawn(move || {
                let link = fs::read_link("/proc/thread-self").ok();
                tid_sender.send(link.and_then(|l| l.file_name()?.to_str()?.parse().ok())).unwrap();
                let _ = gate.recv();
            });
            let Some(tid) = tid.recv().unwrap() else { return };
            let mut attached = Attached::thread(tid).unwrap();
            if !pidfd {
                attached.vigil.end = None;
            }
            let soon = Some(Instant::now() + Duration::from_millis(20));
            assert_eq!(attached.wait(soon).unwrap(), Waited::TimedOut);
            drop(leave);
            let later = Some(Instant::now() + Duration::from_secs(20));
            assert!(matches!(attached.wait(later).unwrap(), Waited::Exited(Exit { status: None, .. })));
            thread.join().unwrap();
        }
    }
}
