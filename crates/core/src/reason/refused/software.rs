//! Refusals of the software PMU.

use std::fmt;

/// Why the software PMU does not count or record events.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SoftwareRefusal {
    /// The software PMU counts commands that it starts.
    StartsCommands,
    /// Another launcher started the process.
    NotStarted {
        /// The process.
        pid: u32,
    },

    // ---------------------------------------------------------------------- of a program that it runs
    /// A program under the software PMU reads the counts of the calling thread only.
    OfCallingThread,
    /// A request has room for fewer events.
    TooManyEvents {
        /// The most events.
        most: usize,
    },
    /// The event was not requested when the program was started.
    NotRequested {
        /// The event.
        event: String,
    },

    // ------------------------------------------------------------------------------------- windows
    /// The tracer gave no answer.
    Silent {
        /// The launcher's words.
        error: String,
    },
    /// The request has more bytes than the tracer takes: it names too many events.
    RequestTooLong,
    /// The tracer cannot read the request.
    MalformedRequest,
    /// The command has begun.
    Released,
    /// A size of a set has no windows.
    SizeOfSet {
        /// The event.
        event: &'static str,
    },
    /// Windows end after one number of instructions.
    OneBoundary,
    /// Windows do not end after a time.
    WindowsByTime,
    /// Windows end after instructions only.
    OtherLeader {
        /// The event; `None` where it is not among the events.
        event: Option<&'static str>,
    },
}

impl fmt::Display for SoftwareRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use SoftwareRefusal as S;
        match self {
            S::StartsCommands => f.write_str("the software PMU counts commands that it starts, nothing else"),
            S::NotStarted { pid } => write!(f, "the software PMU did not start process {pid}"),
            S::OfCallingThread => f.write_str(
                "under the software PMU, only the calling thread can be counted (target: this thread)",
            ),
            S::TooManyEvents { most } => {
                write!(f, "the software PMU reports at most {most} events per request")
            }
            S::NotRequested { event } => {
                write!(f, "the software PMU was not asked for {event} when it started this program")
            }
            S::Silent { error } => write!(f, "the software PMU records no windows: {error}"),
            S::RequestTooLong => {
                f.write_str("windows of the software PMU cannot have so many events: request fewer")
            }
            S::MalformedRequest => f.write_str(
                "internal error: the tracer cannot read the request for windows; please report it",
            ),
            S::Released => f.write_str(
                "windows of the software PMU begin with the command, and it was released: request them before",
            ),
            S::SizeOfSet { event } => {
                write!(f, "windows have no {event}: it is the size of a set, not a sum; leave it out")
            }
            S::OneBoundary => {
                f.write_str("windows of the software PMU end after one number of instructions: give one")
            }
            S::WindowsByTime => f.write_str(
                "windows of the software PMU end after instructions, not after a time: make rows of readings at \
                 an interval instead",
            ),
            S::OtherLeader { event } => {
                let name = event.unwrap_or("an unknown event");
                write!(
                    f,
                    "windows of the software PMU end after instructions, not {name}: end them after instructions, \
                     and count {name} in them"
                )
            }
        }
    }
}
