//! The connection to the tracer of one command.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use cyclometer_core::exec::{ExitStatus, KillCause};
use cyclometer_soft::host::protocol::{self, CodeReport, ProcessCounts, TracerReport};
use cyclometer_soft::host::window_protocol::{self, WindowLine, WindowRefusal, WindowRequest};
use cyclometer_sys::process::SIGKILL;

use super::inbox::Inbox;
use crate::cgroup::memory::GroupBefore;

/// How long a tracer may take to answer when nothing else is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long it may take to answer while the command runs, and other tracers have to be read too.
const SHORT_PATIENCE: Duration = Duration::from_secs(1);

/// Long enough to read bytes that have already arrived.
const NO_PATIENCE: Duration = Duration::from_micros(1);

/// A tracer, or a test's replacement.
pub(super) trait TracerSocket: fmt::Debug {
    /// The socket to the tracer.
    fn socket(&self) -> &UnixStream;
}

impl TracerSocket for cyclometer_sys::daemon::Daemon {
    fn socket(&self) -> &UnixStream {
        self.socket()
    }
}

/// A tracer and its messages.
#[derive(Debug)]
pub(super) struct Link {
    tracer: Box<dyn TracerSocket>,
    inbox: Inbox,
    /// A request has no answer yet. At most one request is pending.
    asked: bool,
    /// The last report, once it has come. Counters and windows both need it.
    last: Option<TracerReport>,
    /// The executions by address of the last report.
    code: Option<CodeReport>,
    /// The memory control group before the command began.
    memory: GroupBefore,
}

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Silence {
    /// Nothing arrived for so long.
    Quiet(Duration),
    /// The tracer has ended.
    Ended,
    /// The received text is no report.
    Garbled,
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Silence::Quiet(time) => write!(f, "the tracer did not respond within {} s", time.as_secs()),
            Silence::Ended => f.write_str("the tracer died"),
            Silence::Garbled => f.write_str("the tracer sent no report"),
        }
    }
}

impl Link {
    pub(super) fn new(tracer: impl TracerSocket + 'static, memory: GroupBefore) -> Link {
        let (inbox, asked, last, code) = (Inbox::default(), false, None, None);
        Link { tracer: Box::new(tracer), inbox, asked, last, code, memory }
    }

    /// The first line of the tracer.
    pub(super) fn first_line(&mut self) -> Result<String, Silence> {
        loop {
            match self.inbox.line() {
                Some(line) => return Ok(line),
                None => self.hear(PATIENCE)?,
            }
        }
    }

    /// The counts so far.
    ///
    /// After a timeout, the late answer is discarded when it comes.
    pub(super) fn ask(&mut self) -> Result<Vec<ProcessCounts>, Silence> {
        if self.asked {
            // An answer of an earlier moment.
            let _ = self.report(NO_PATIENCE);
        }
        if !self.asked {
            self.say(protocol::READ);
            self.asked = true;
        }
        self.report(SHORT_PATIENCE)
    }

    /// Requests windows of a command that was not released yet, and returns the tracer's answer.
    ///
    /// # Errors
    ///
    /// [`Silence`].
    pub(super) fn record_windows(
        &mut self,
        request: &WindowRequest,
    ) -> Result<Result<(), WindowRefusal>, Silence> {
        // A failed write is noticed by the answer.
        let _ = self.tracer.socket().write_all(request.line().as_bytes());
        window_protocol::read_answer(&self.first_line()?).ok_or(Silence::Garbled)
    }

    /// Lines about windows that have arrived.
    pub(super) fn take_windows(&mut self) -> Vec<WindowLine> {
        self.inbox.windows()
    }

    /// Waits for lines about windows, or for the last report, which it returns.
    ///
    /// # Errors
    ///
    /// [`Silence`].
    pub(super) fn hear_windows(&mut self, patience: Duration) -> Result<Option<TracerReport>, Silence> {
        while self.last.is_none() {
            // The answer to an earlier request is not needed any more.
            if self.arrived_report()?.is_none() {
                return self.hear(patience.max(NO_PATIENCE)).map(|()| None);
            }
        }
        Ok(self.last.clone())
    }

    /// Tells the tracer that the command has ended.
    pub(super) fn finish(&mut self) {
        self.say(protocol::FINISH);
    }

    /// The last report, after the command ended in this way.
    ///
    /// # Errors
    ///
    /// The reason why there is none, in words.
    pub(super) fn last_report(&mut self, status: Option<ExitStatus>) -> Result<TracerReport, String> {
        while self.last.is_none() {
            match self.report(PATIENCE) {
                // An answer to an earlier request.
                Ok(_) => {}
                Err(Silence::Ended) => return Err(died(status, self.memory.shortage())),
                Err(silence) => return Err(silence.to_string()),
            }
        }
        self.last.clone().ok_or_else(|| died(status, None))
    }

    /// Keeps a report that is the last.
    fn keep_last(&mut self, mut report: TracerReport) {
        if report.last {
            self.code = Some(std::mem::take(&mut report.code));
            self.last = Some(report);
        }
    }

    /// The executions by address of the last report, once.
    pub(super) fn take_code(&mut self) -> Option<CodeReport> {
        self.code.take()
    }

    fn say(&mut self, word: u8) {
        // A failed write is ignored: the read of the answer finds that the tracer has ended.
        let _ = self.tracer.socket().write_all(&[word]);
    }

    /// The next report.
    fn report(&mut self, patience: Duration) -> Result<Vec<ProcessCounts>, Silence> {
        loop {
            match self.arrived_report()? {
                Some(processes) => return Ok(processes),
                None => self.hear(patience)?,
            }
        }
    }

    /// The next report, if it has arrived. It answers the pending request, if there is one. The last one is
    /// stored.
    fn arrived_report(&mut self) -> Result<Option<Vec<ProcessCounts>>, Silence> {
        let Some(report) = self.inbox.report() else { return Ok(None) };
        let report = report.map_err(|_| Silence::Garbled)?;
        self.asked = false;
        let processes = report.processes.clone();
        self.keep_last(report);
        Ok(Some(processes))
    }

    /// Waits for bytes.
    fn hear(&mut self, patience: Duration) -> Result<(), Silence> {
        let mut socket = self.tracer.socket();
        let _ = socket.set_read_timeout(Some(patience));
        let mut bytes = [0; 4096];
        loop {
            match socket.read(&mut bytes) {
                Ok(0) => return Err(Silence::Ended),
                Ok(count) => {
                    self.inbox.add(&bytes[..count]);
                    return Ok(());
                }
                Err(e) => because(&e, patience).map_or(Ok(()), Err)?,
            }
        }
    }
}

/// The meaning of a read error; `None`: retry.
fn because(error: &io::Error, patience: Duration) -> Option<Silence> {
    match error.kind() {
        ErrorKind::Interrupted => None,
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Some(Silence::Quiet(patience)),
        _ => Some(Silence::Ended),
    }
}

/// The kernel kills tracees when their tracer dies: translated code cannot continue without it.
fn died(status: Option<ExitStatus>, shortage: Option<KillCause>) -> String {
    let what = match status {
        Some(ExitStatus::Signal(SIGKILL)) => format!("{}, and the command with it", Silence::Ended),
        _ => Silence::Ended.to_string(),
    };
    // In a full memory control group the kernel kills the largest process, which a tracer often is.
    shortage.map_or(what.clone(), |shortage| format!("{what}: {shortage}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl TracerSocket for UnixStream {
        fn socket(&self) -> &UnixStream {
            self
        }
    }

    fn pair() -> (Link, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Link::new(ours, GroupBefore::default()), theirs)
    }

    fn report(loads: u64, end: &str) -> String {
        format!("process 7 1 a\ncount loads {loads}\n{end}\n")
    }

    fn loads(report: &[ProcessCounts]) -> u64 {
        report[0].count(cyclometer_soft::ExecutionEvent::Loads).unwrap()
    }

    #[test]
    fn an_answer_that_comes_late_is_not_taken_for_a_later_one() {
        let (mut link, mut tracer) = pair();
        assert_eq!(link.ask(), Err(Silence::Quiet(SHORT_PATIENCE)));
        let answers = report(1, protocol::SO_FAR) + &report(2, protocol::SO_FAR);
        tracer.write_all(answers.as_bytes()).unwrap();
        assert_eq!(loads(&link.ask().unwrap()), 2);
        let mut asked = [0; 2];
        tracer.read_exact(&mut asked).unwrap();
        assert_eq!(asked, [protocol::READ; 2]);
    }

    #[test]
    fn a_late_answer_that_comes_with_rows_is_the_end_of_its_request() {
        let (mut link, mut tracer) = pair();
        assert_eq!(link.ask(), Err(Silence::Quiet(SHORT_PATIENCE)));
        tracer.write_all((report(1, protocol::SO_FAR) + "lost-windows 3\n").as_bytes()).unwrap();
        assert_eq!(link.hear_windows(NO_PATIENCE), Ok(None));
        let quiet = link.hear_windows(NO_PATIENCE);
        assert!(matches!(quiet, Err(Silence::Quiet(_))), "{quiet:?}");
        assert_eq!(link.take_windows(), [WindowLine::Lost(3)]);
        tracer.write_all(report(2, protocol::SO_FAR).as_bytes()).unwrap();
        assert_eq!(loads(&link.ask().unwrap()), 2);
        let mut asked = [0; 2];
        tracer.read_exact(&mut asked).unwrap();
        assert_eq!(asked, [protocol::READ; 2], "the second answer was requested");
    }

    #[test]
    fn the_last_report_is_the_one_that_says_so() {
        let (mut link, mut tracer) = pair();
        let said = report(1, protocol::SO_FAR) + &report(2, protocol::SO_FAR) + &report(3, protocol::LAST);
        tracer.write_all(said.as_bytes()).unwrap();
        assert_eq!(loads(&link.ask().unwrap()), 1);
        drop(tracer);
        assert_eq!(loads(&link.last_report(None).unwrap().processes), 3);
        let again = link.last_report(None).unwrap();
        assert_eq!(loads(&again.processes), 3, "counters and windows both need it");
    }

    #[test]
    fn a_tracer_that_died_for_lack_of_memory_says_so() {
        let said = died(
            Some(ExitStatus::Signal(SIGKILL)),
            Some(KillCause::GroupOutOfMemory { limit_bytes: 64 << 20 }),
        );
        let cause = "its memory control group, limited to 64 MiB, ran out of memory";
        assert_eq!(said, format!("the tracer died, and the command with it: {cause}"));
        assert_eq!(died(None, None), "the tracer died");
    }

    #[test]
    fn the_last_report_may_be_the_answer_to_a_question() {
        for (end, known) in [(protocol::SO_FAR, false), (protocol::LAST, true)] {
            let (mut link, mut tracer) = pair();
            tracer.write_all(report(1, end).as_bytes()).unwrap();
            link.ask().unwrap();
            drop(tracer);
            assert_eq!(link.last_report(None).is_ok(), known);
        }
    }

    #[test]
    fn a_tracer_that_dies_or_talks_nonsense_has_counted_nothing() {
        let (mut link, tracer) = pair();
        drop(tracer);
        let killed = link.last_report(Some(ExitStatus::Signal(9))).unwrap_err();
        assert_eq!(killed, "the tracer died, and the command with it");
        assert_eq!(link.last_report(Some(ExitStatus::Code(0))).unwrap_err(), "the tracer died");
        assert_eq!(link.first_line(), Err(Silence::Ended));
        let (mut link, mut tracer) = pair();
        tracer.write_all(b"process 7 1 a\ncount loads").unwrap();
        drop(tracer);
        assert!(link.last_report(None).is_err(), "half a report is none");
        let (mut link, mut tracer) = pair();
        tracer.write_all(b"?\nend\n").unwrap();
        assert_eq!(link.ask(), Err(Silence::Garbled));
    }
}
