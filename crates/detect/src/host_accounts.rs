//! macOS's accounts of counters.

use cyclometer_sys::counter_accounts::{CounterAccounts, of_system};

use crate::facts::{AccountFacts, ProcessAccounts};

/// Asks for those of this thread and process.
pub(super) fn find() -> Option<AccountFacts> {
    let accounts = of_system()?;
    let process = accounts.process(std::process::id()).ok();
    Some(AccountFacts {
        process: process.map(|account| match account.cores {
            Some(_) => ProcessAccounts::ByCoreType,
            None => ProcessAccounts::Totals,
        }),
        thread: accounts.thread().is_ok(),
        counts: process.is_some_and(|account| account.cycles > 0 && account.instructions > 0),
    })
}
