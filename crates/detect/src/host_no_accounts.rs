//! Systems without accounts of counters.

use crate::facts::AccountFacts;

/// There are none.
pub(super) fn find() -> Option<AccountFacts> {
    None
}
