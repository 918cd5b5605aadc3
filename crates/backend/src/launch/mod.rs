//! Commands as children, and running processes that are only observed.

mod attached;
mod failure;
mod native;
mod ours;
#[cfg(target_os = "linux")]
mod pinned;
#[cfg(not(target_os = "linux"))]
#[path = "pinned_other.rs"]
mod pinned;
mod streams;
mod vigil;

use std::sync::Arc;

use cyclometer_core::exec::CommandSpec;
use cyclometer_core::{Child, Error, ErrorKind, Launch, Result};
use cyclometer_sys::counter_accounts::CounterAccounts;
use cyclometer_sys::process::{self, Traced, Witness};
use cyclometer_sys::signals::Watch;

use crate::counter_accounts;

pub use attached::Attached;
pub use failure::check_program;
#[cfg(all(feature = "software-pmu", target_os = "linux", target_arch = "x86_64"))]
pub(crate) use failure::shown;
pub(crate) use native::NativeChild;
pub use ours::{StandardInput, standard_output_is_null};
pub use pinned::Pinned;
use streams::{Sinks, Streams};

/// Starts commands natively.
///
/// A helper process creates them, so that the peak resident set of a command is its own and not ours. Start
/// the launcher first in `main`. Commands get the environment, the working directory, the signal
/// dispositions, the limits and the inheritable descriptors of that moment. Their arguments are passed byte
/// for byte.
#[derive(Debug)]
pub struct Launcher {
    raw: process::Launcher,
    signals: Option<Signals>,
    sinks: Sinks,
    /// The system's accounts of counters, where it has some.
    accounts: Option<Arc<dyn CounterAccounts>>,
}

/// The signals that come to this process, and the witness that shows whether the command's group got them
/// too.
#[derive(Clone, Debug)]
struct Signals {
    watch: Arc<Watch>,
    witness: Witness,
}

impl Launcher {
    /// Forks the helper.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Os` when the process cannot be created.
    pub fn start() -> Result<Launcher> {
        match process::Launcher::start() {
            Ok(raw) => {
                let accounts = counter_accounts::here();
                Ok(Launcher { raw, signals: None, sinks: Sinks::default(), accounts })
            }
            Err(e) => {
                Err(Error::new(ErrorKind::Os, format!("cannot start the helper process: {e}")).with_source(e))
            }
        }
    }

    /// The same launcher, whose children's waits end when a signal comes.
    pub fn with_signals(mut self, watch: impl Into<Arc<Watch>>) -> Launcher {
        self.signals = Some(Signals { watch: watch.into(), witness: self.raw.witness() });
        self
    }

    /// The next signal that came to this process, if signals are watched.
    pub fn take_signal(&self) -> Option<i32> {
        self.signals.as_ref().and_then(|signals| signals.watch.take())
    }

    /// The watch of signals, if there is one.
    #[cfg(feature = "simulated")]
    pub(crate) fn watch(&self) -> Option<Arc<Watch>> {
        self.signals.as_ref().map(|signals| Arc::clone(&signals.watch))
    }

    /// The same running process, whose waits end when a signal comes to the launcher's watch.
    pub fn watched(&self, attached: Attached) -> Attached {
        match &self.signals {
            Some(signals) => attached.with_signals(Arc::clone(&signals.watch)),
            None => attached,
        }
    }
}

impl Launch for Launcher {
    fn prepare(&self, command: &CommandSpec) -> Result<Box<dyn Child>> {
        Ok(Box::new(self.child(command, None)?))
    }
}

impl Launcher {
    /// A child at its gate; `traced` is its preparation for a tracer, if there will be one.
    pub(crate) fn child(&self, command: &CommandSpec, traced: Option<Traced>) -> Result<NativeChild> {
        let streams = Streams::open(command, &self.sinks)?;
        let request = process::Request {
            program: &command.program,
            args: &command.args,
            stdin: streams.stdin(),
            stdout: streams.stdout(),
            stderr: streams.stderr(),
            traced,
        };
        let pending = self
            .raw
            .spawn_padded(&request, command.padding, &command.variables)
            .map_err(|e| failure::spawning(&command.program, e))?;
        let child = NativeChild::new(pending, &command.program, self.signals.clone());
        Ok(child.with_accounts(self.accounts.clone()))
    }
}
