//! The handle: its counters, scope and last error.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_uint};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cyclometer_toolkit::{
    BegunRegion, Config, CountedScope, CpuSet, Error, ErrorKind, Monitor, MonitorBuilder, Result,
};

use crate::pointers::{borrow, give, invalid, take, text};
use crate::status::guarded;

/// Counts up to 64 events, in a thread, a process or on a CPU.
#[derive(Default)]
pub struct cyclometer_t {
    state: Mutex<MonitorState>,
    pub(crate) messages: Arc<Messages>,
}

/// The target of a monitor.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum cyclometer_scope_t {
    /// The thread that enables a counter or begins a region. The default.
    CYCLOMETER_SCOPE_THREAD = 0,
    /// The whole process.
    CYCLOMETER_SCOPE_PROCESS = 1,
    /// The process with the given id, and the processes that it starts from now on.
    CYCLOMETER_SCOPE_PID = 2,
    /// Everything on the CPU with the given number.
    CYCLOMETER_SCOPE_CPU = 3,
}

/// The configuration, and the façade's monitor of it once a counter is first needed.
#[derive(Default)]
pub(crate) struct MonitorState {
    pub(crate) scope: CountedScope,
    pub(crate) config: Config,
    pub(crate) slots: BTreeMap<u32, ConfiguredCounter>,
    monitor: Option<Monitor>,
}

/// A counter: its event, and the region that is open while it is enabled.
pub(crate) struct ConfiguredCounter {
    pub(crate) event: String,
    pub(crate) open: Option<BegunRegion>,
}

impl MonitorState {
    /// The façade's monitor, built when it is first needed.
    pub(crate) fn monitor(&mut self) -> Result<Monitor> {
        if let Some(monitor) = &self.monitor {
            return Ok(monitor.clone());
        }
        if self.slots.is_empty() {
            return Err(invalid("no counter is configured", "call cyclometer_configure first"));
        }
        let events = self.slots.values().map(|slot| slot.event.as_str());
        let monitor = self.builder().events(events).build()?;
        self.monitor = Some(monitor.clone());
        Ok(monitor)
    }

    /// The monitor where there is one already.
    pub(crate) fn built(&self) -> Option<&Monitor> {
        self.monitor.as_ref()
    }

    /// Assigns an event to a counter. All counts are reset.
    pub(crate) fn configure(&mut self, counter: u32, event: &str) -> Result<()> {
        self.check_idle("configure a counter")?;
        let tried = self.builder().event(event).calibrate(false).build()?;
        if tried.plan().lines.len() != 1 {
            let message =
                format!("`{event}` is {} events, and a counter counts one", tried.plan().lines.len());
            return Err(invalid(message, "configure one counter for each"));
        }
        self.slots.insert(counter, ConfiguredCounter { event: event.to_owned(), open: None });
        self.monitor = None;
        Ok(())
    }

    /// The builder of the monitor that counts regions, which does not sample.
    fn builder(&self) -> MonitorBuilder {
        let mut config = self.config.clone();
        config.sampling_interval_ms = None;
        Monitor::builder().config(config).scope(self.scope.clone())
    }

    /// Reads settings.
    fn load(&mut self, file: Option<&Path>) -> Result<()> {
        self.check_idle("change the configuration")?;
        (self.config, self.monitor) = (Config::load(file)?, None);
        Ok(())
    }

    /// Counts another target from now on.
    fn set_scope(&mut self, scope: CountedScope) -> Result<()> {
        self.check_idle("change the scope")?;
        self.builder().event("task-clock").scope(scope.clone()).calibrate(false).build()?;
        (self.scope, self.monitor) = (scope, None);
        Ok(())
    }

    fn check_idle(&self, what: &str) -> Result<()> {
        match self.monitor.as_ref().map_or(0, Monitor::open_regions) {
            0 => Ok(()),
            open => {
                let message = format!("cannot {what} while {open} counters or regions are counting");
                Err(invalid(
                    message,
                    "disable the counters and end the regions first, or open another monitor",
                ))
            }
        }
    }
}

impl cyclometer_t {
    pub(crate) fn state(&self) -> MutexGuard<'_, MonitorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last error, and its remedy.
#[derive(Default)]
pub(crate) struct Messages(Mutex<(String, String)>);

impl Messages {
    pub(crate) fn keep(&self, message: impl Into<String>, remedy: impl Into<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (message.into(), remedy.into());
    }

    pub(crate) fn last(&self) -> (String, String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs the body of a function and keeps its error.
    pub(crate) fn watch(&self, body: impl FnOnce() -> Result<c_int>) -> c_int {
        guarded(|| match catch_unwind(AssertUnwindSafe(body)) {
            Ok(Err(error)) => {
                self.keep(error.to_string(), error.recovery().to_string());
                Err(error)
            }
            Ok(status) => status,
            Err(panic) => {
                self.keep(
                    "the library made a mistake and stopped in the middle of its work",
                    "please report it",
                );
                std::panic::resume_unwind(panic)
            }
        })
    }
}

/// Runs the body of a function of a monitor.
///
/// # Safety
///
/// As [`borrow`].
pub(crate) unsafe fn with_monitor(
    monitor: *const cyclometer_t,
    body: impl FnOnce(&cyclometer_t) -> Result<c_int>,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise is that of `borrow`.
        let monitor = unsafe { borrow(monitor, "the monitor") }?;
        Ok(monitor.messages.watch(|| body(monitor)))
    })
}

/// Opens a monitor, which counts nothing yet. It is freed by `cyclometer_close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_open(monitor: *mut *mut cyclometer_t) -> c_int {
    guarded(|| {
        // SAFETY: the caller promises that a pointer can be written there.
        unsafe { give(monitor, cyclometer_t::default(), "the place for the monitor") }?;
        Ok(0)
    })
}

/// Disables all counters of this thread, frees the monitor and sets the pointer to null. Counters that are
/// enabled in other threads stay enabled until these threads end. Regions that have begun can still be ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_close(monitor: *mut *mut cyclometer_t) -> c_int {
    guarded(|| {
        // SAFETY: the caller promises that the pointer is one of ours and used by nobody else.
        drop(unsafe { take(monitor, "the monitor") }?);
        Ok(0)
    })
}

/// Sets the target: `scope` is a `cyclometer_scope_t`, and `id` the process or CPU where it needs one. All
/// counts are reset. A call while anything is counting is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_set_scope(monitor: *mut cyclometer_t, scope: c_int, id: c_uint) -> c_int {
    // SAFETY: the caller's promise is that of `with_monitor`.
    unsafe {
        with_monitor(monitor, |monitor| {
            monitor.state().set_scope(scope_of(scope, id)?)?;
            Ok(0)
        })
    }
}

/// Reads a configuration file (YAML, `performance_monitoring:`); settings of the environment override it. A
/// null pointer means the file that the variable `CYCLOMETER_CONFIG` names, if it is set. All counts are
/// reset. A call while anything is counting is an error. The sampling interval and buffer size are for
/// `cyclometer_samples_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_load(monitor: *mut cyclometer_t, file: *const c_char) -> c_int {
    let body = |monitor: &cyclometer_t| {
        let file = match file.is_null() {
            true => None,
            // SAFETY: it is not null, and the caller promises a text.
            false => Some(unsafe { text(file, "the name of the file") }?),
        };
        monitor.state().load(file.map(Path::new))?;
        Ok(0)
    };
    // SAFETY: the caller's promise is that of `with_monitor`.
    unsafe { with_monitor(monitor, body) }
}

fn scope_of(scope: c_int, id: u32) -> Result<CountedScope> {
    use cyclometer_scope_t as S;
    Ok(match scope {
        _ if scope == S::CYCLOMETER_SCOPE_THREAD as c_int => CountedScope::Thread,
        _ if scope == S::CYCLOMETER_SCOPE_PROCESS as c_int => CountedScope::Process,
        _ if scope == S::CYCLOMETER_SCOPE_PID as c_int => CountedScope::Pid(id),
        _ if scope == S::CYCLOMETER_SCOPE_CPU as c_int => CountedScope::Cpus(
            CpuSet::parse(&id.to_string()).map_err(|e| Error::new(ErrorKind::InvalidInput, e))?,
        ),
        _ => return Err(invalid(format!("{scope} is no scope"), "give one of CYCLOMETER_SCOPE_…")),
    })
}
