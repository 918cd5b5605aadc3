//! Systems without accounts of counters.

use super::AccountFunctions;

/// `None`, because this system has no such functions.
pub fn of_system() -> Option<AccountFunctions> {
    None
}
