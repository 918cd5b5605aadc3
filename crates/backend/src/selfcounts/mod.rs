//! macOS's accounts of counters: cycles, instructions and energy of threads and processes, without root.
//!
//! The kernel adds up what its fixed counters count, in user and kernel mode, whenever a thread leaves a
//! CPU. It shows the sums to each process of the same user. A process has none of its children's counts.
//!
//! The account of a command is complete between its end and its reaping, so the launcher reads it there, and
//! it arrives with the [`Exit`]. Meanwhile this source reads it from the running process.
//!
//! # Source
//!
//! xnu `osfmk/kern/recount.c`, `bsd/kern/kern_resource.c` (`proc_pid_rusage`), `bsd/kern/sys_recount.c`.

mod totals;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cyclometer_core::event::AccountedCount;
use cyclometer_core::exec::{Cell, CounterUsage, Exit, Raw, Reading, RefusalKind};
use cyclometer_core::reason::{AccountRefusal, EventFamily, RefusalReason};
use cyclometer_core::{
    Counting, Error, ErrorKind, MissingReason, Modes, Part, PartReason, Refusal, Result, Rung, Slot, SlotId,
    Source, Target,
};
use cyclometer_sys::counter_accounts::CounterAccounts;
use cyclometer_sys::process::errno;

use crate::counter_accounts;

use totals::Totals;

/// The source of this system's accounts, where it has some.
pub(crate) fn source() -> Option<Box<dyn Source>> {
    counter_accounts::here().map(|accounts| -> Box<dyn Source> { Box::new(SelfCountsSource::new(accounts)) })
}

/// The account of a child that has ended and is not reaped.
pub(crate) fn at_end(accounts: &dyn CounterAccounts, pid: u32) -> Option<CounterUsage> {
    accounts.process(pid).ok().map(totals::shared)
}

/// Reads the accounts of threads and processes.
#[derive(Clone, Debug)]
pub struct SelfCountsSource {
    accounts: Arc<dyn CounterAccounts>,
}

impl SelfCountsSource {
    /// The source on these functions.
    pub fn new(accounts: Arc<dyn CounterAccounts>) -> SelfCountsSource {
        SelfCountsSource { accounts }
    }
}

impl Source for SelfCountsSource {
    fn rung(&self) -> Rung {
        Rung::SelfCounts
    }

    fn open(&self, slots: &[Slot], on: &Target) -> std::result::Result<Box<dyn Counting>, Refusal> {
        let account = match on {
            Target::ThisThread => Account::ThisThread,
            Target::Process { pid, inherit } => Account::Process { pid: *pid, inherit: *inherit },
            Target::Child(pid) => Account::Child { pid: *pid },
            other => return Err(not_a_process(slots, other)),
        };
        let requested: Vec<RequestedCount> =
            slots.iter().map(requested).collect::<std::result::Result<_, _>>()?;
        let now = account.take(self.accounts.as_ref()).map_err(|error| account.refusal(slots, &error))?;
        for (slot, count) in slots.iter().zip(&requested) {
            if !now.has(count.count) {
                return Err(account.without(slot));
            }
        }
        Ok(Box::new(SelfCounting {
            accounts: Arc::clone(&self.accounts),
            account,
            requested,
            base: now,
            state: SelfCountingState::Opened,
        }))
    }
}

fn requested(slot: &Slot) -> std::result::Result<RequestedCount, Refusal> {
    if let Some(modes) = slot.filter.filter(|modes| *modes != Modes::USER_KERNEL) {
        let reason = AccountRefusal::ModesTogether { event: slot.name.clone(), modes };
        return Err(Refusal::of_slot(slot.id, RefusalKind::NotSupported, reason));
    }
    match slot.parts.as_slice() {
        [Part::Account(count)] => Ok(RequestedCount { slot: slot.id, count: *count }),
        _ => {
            let of = EventFamily::MacAccounts;
            let reason = RefusalReason::NotAmongEvents { event: slot.name.clone(), of };
            Err(Refusal::of_slot(slot.id, RefusalKind::Invalid, reason))
        }
    }
}

fn not_a_process(slots: &[Slot], target: &Target) -> Refusal {
    let targets = match target {
        Target::Thread(_) => "threads of other programs",
        Target::Several(_) => "several targets together",
        Target::Cpus(_) => "CPUs",
        Target::Cgroup { .. } => "control groups",
        _ => "this target",
    };
    let reason = AccountRefusal::NotAProcess { targets }.into();
    Refusal { slot: slots.first().map(|slot| slot.id), kind: RefusalKind::TargetNotSupported, reason }
}

/// One requested value.
#[derive(Clone, Copy, Debug)]
struct RequestedCount {
    slot: SlotId,
    count: AccountedCount,
}

/// The account that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Account {
    ThisThread,
    /// A running process; `inherit`: its children were requested, too.
    Process {
        pid: u32,
        inherit: bool,
    },
    /// A command, whose launcher reads its last account.
    Child {
        pid: u32,
    },
}

impl Account {
    fn take(self, accounts: &dyn CounterAccounts) -> io::Result<Totals> {
        match self {
            Account::ThisThread => accounts.thread().map(Totals::from),
            Account::Process { pid, .. } | Account::Child { pid } => accounts.process(pid).map(Totals::from),
        }
    }

    fn name(self) -> String {
        match self {
            Account::ThisThread => "this thread".to_owned(),
            Account::Process { pid, .. } => format!("process {pid}"),
            Account::Child { .. } => "the command".to_owned(),
        }
    }

    fn refusal(self, slots: &[Slot], error: &io::Error) -> Refusal {
        let target = self.name();
        let (kind, reason) = match error.raw_os_error() {
            Some(errno::ESRCH) => {
                return Refusal::of_target(RefusalKind::NoSuchTarget, RefusalReason::NoTarget { target });
            }
            Some(errno::EPERM | errno::EACCES) => {
                (RefusalKind::NoPermission, AccountRefusal::OtherUser { target })
            }
            _ if error.kind() == io::ErrorKind::Unsupported => {
                (RefusalKind::NotSupported, AccountRefusal::NoAccountInVersion { target })
            }
            _ => (RefusalKind::Other, AccountRefusal::Unreadable { target, error: error.to_string() }),
        };
        Refusal { slot: slots.first().map(|slot| slot.id), kind, reason: reason.into() }
    }

    /// Why the account does not have this value.
    fn without(self, slot: &Slot) -> Refusal {
        let event = slot.name.clone();
        let reason = match self {
            Account::ThisThread => AccountRefusal::OfProcesses { event },
            _ => AccountRefusal::OfLaterVersion { event },
        };
        Refusal::of_slot(slot.id, RefusalKind::NotSupported, reason)
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum SelfCountingState {
    Opened,
    /// Reading goes on; `missed` is the time of the first read that failed.
    Running {
        since: Instant,
        last: Option<AccountAt>,
        missed: Option<Duration>,
    },
    /// The values are final; none where the last account could not be read.
    Over {
        last: Option<AccountAt>,
        missed: Option<Duration>,
    },
}

/// The counts since the start, and the time until then.
#[derive(Clone, Copy, PartialEq, Debug)]
struct AccountAt {
    totals: Totals,
    /// The account itself, with the counts before the start.
    account: Totals,
    elapsed: Duration,
}

impl AccountAt {
    fn new(account: Totals, base: Totals, elapsed: Duration) -> AccountAt {
        AccountAt { totals: account.since(base), account, elapsed }
    }

    /// The value of an event; `None` where the kernel does not count it here.
    fn value(&self, count: AccountedCount) -> Option<u64> {
        if self.account.counts(count) { self.totals.value(count) } else { None }
    }

    /// How long an event was counted: a process that did not run was not.
    fn counted_ns(&self, count: AccountedCount) -> u64 {
        let is_idle = self.value(count).is_some() && self.totals.is_idle();
        if is_idle { 0 } else { nanos(self.elapsed).max(1) }
    }
}

struct SelfCounting {
    accounts: Arc<dyn CounterAccounts>,
    account: Account,
    requested: Vec<RequestedCount>,
    base: Totals,
    state: SelfCountingState,
}

impl SelfCounting {
    /// Reads the account, unless the values are final. One that cannot be read any more keeps its last
    /// values.
    fn refresh(&mut self) {
        let SelfCountingState::Running { since, last, missed } = &mut self.state else { return };
        match self.account.take(self.accounts.as_ref()) {
            Ok(now) => {
                *last = Some(AccountAt::new(now, self.base, since.elapsed()));
                *missed = None;
            }
            Err(_) => *missed = missed.or_else(|| Some(since.elapsed())),
        }
    }

    fn last(&self) -> (Option<AccountAt>, Option<Duration>) {
        match self.state {
            SelfCountingState::Opened => (None, None),
            SelfCountingState::Running { last, missed, .. } | SelfCountingState::Over { last, missed } => {
                (last, missed)
            }
        }
    }

    /// The cell of a value. An event that the kernel does not count here has none, so that its zero is not
    /// taken for a count; a zero of one that is never zero is recognised as such.
    fn cell(&self, requested: RequestedCount) -> Option<Cell> {
        let RequestedCount { slot, count } = requested;
        let Some(last) = self.last().0 else {
            let lost = Some(MissingReason::EndedUnread { target: self.account.name() });
            return Some(Cell { lost, ..Cell::new(slot, 0, 0, 0) });
        };
        let time = last.counted_ns(count);
        match last.value(count) {
            Some(value) => Some(Cell { partial: self.partial(), ..Cell::new(slot, value, time, time) }),
            None => count.is_never_zero().then(|| Cell::new(slot, 0, time, time)),
        }
    }

    /// The counts that are missing from the values.
    fn partial(&self) -> Option<PartReason> {
        let (last, missed) = self.last();
        let last = last?;
        let wants_children = match self.account {
            Account::Child { .. } => true,
            Account::Process { inherit, .. } => inherit,
            Account::ThisThread => false,
        };
        let children =
            (wants_children && last.totals.children_time > 0).then_some(PartReason::WithoutChildren);
        let missed = missed
            .map(|missed| PartReason::ReadBeforeEnd { ms: missed.saturating_sub(last.elapsed).as_millis() });
        PartReason::all(children.into_iter().chain(missed))
    }

    fn raw(&self, requested: RequestedCount) -> Raw {
        let (last, missed) = self.last();
        let value = last.and_then(|last| Some((last.value(requested.count)?, last.elapsed)));
        value.map_or(Raw::LOST, |(value, elapsed)| {
            let ns = nanos(elapsed).max(1);
            Raw { value, time_enabled_ns: ns, time_running_ns: ns, is_lost: missed.is_some() }
        })
    }
}

impl Counting for SelfCounting {
    fn start(&mut self) -> Result<()> {
        self.base = self.account.take(self.accounts.as_ref()).map_err(|error| {
            let text = format!("macOS gives no account of {}: {error}", self.account.name());
            Error::new(ErrorKind::StateLost, text).with_source(error)
        })?;
        self.state = SelfCountingState::Running { since: Instant::now(), last: None, missed: None };
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.refresh();
        if let SelfCountingState::Running { last, missed, .. } = self.state {
            self.state = SelfCountingState::Over { last, missed };
        }
        Ok(())
    }

    fn exited(&mut self, exit: &Exit) {
        if !matches!(self.account, Account::Child { .. }) {
            return self.refresh();
        }
        let elapsed = Duration::from_nanos(exit.wall_ns);
        let counters = exit.usage.and_then(|usage| usage.counters);
        let last = counters.map(|counters| AccountAt::new(Totals::from(counters), self.base, elapsed));
        self.state = SelfCountingState::Over { last, missed: None };
    }

    fn read(&mut self, out: &mut Reading) -> Result<()> {
        self.refresh();
        if self.state != SelfCountingState::Opened {
            out.cells.extend(self.requested.iter().filter_map(|requested| self.cell(*requested)));
        }
        Ok(())
    }

    fn sample(&mut self, out: &mut Vec<Raw>) -> Result<()> {
        self.refresh();
        out.extend(self.requested.iter().map(|requested| self.raw(*requested)));
        Ok(())
    }

    fn value(&mut self, counter: usize) -> Result<Option<u64>> {
        self.refresh();
        let raw = self.requested.get(counter).map_or(Raw::LOST, |requested| self.raw(*requested));
        Ok((!raw.is_lost).then_some(raw.value))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
