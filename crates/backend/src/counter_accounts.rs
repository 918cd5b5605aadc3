//! The accounts of counters of this system.

use std::sync::Arc;

use cyclometer_sys::counter_accounts::{CounterAccounts, of_system};

/// The system's accounts of counters; `None` where it has none.
pub(crate) fn here() -> Option<Arc<dyn CounterAccounts>> {
    Some(Arc::new(of_system()?))
}
