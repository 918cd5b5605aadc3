//! Basic authentication: users with bcrypt hashes of their passwords.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bcrypt::HashParts;
use tokio::sync::Semaphore;

/// Passwords that are checked at the same time. One takes some 100 ms of a CPU.
const CHECKS_AT_ONCE: usize = 2;

/// The cost, salt and hash behind that are compared with the password of an unknown user.
const NOBODY: &str = "$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay";

/// The SHA-256 of a name with a password.
type CredentialsDigest = [u8; 32];

/// The users.
#[derive(Debug)]
pub struct Users {
    hashes: BTreeMap<String, String>,
    /// A hash of the highest cost of all users. The password of an unknown user is compared with it, so that
    /// the time does not tell which names are known.
    unknown: String,
    /// The credentials of each user that were accepted last.
    accepted: Mutex<BTreeMap<String, CredentialsDigest>>,
    checks: Semaphore,
}

/// The answer to a request's credentials.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UserAccess {
    /// It may read.
    Granted,
    /// It has no valid credentials.
    Denied,
    /// Too many passwords are being checked.
    Busy,
}

impl Users {
    /// The users with the hashes of their passwords; without any, everybody may read.
    pub fn new(hashes: BTreeMap<String, String>) -> Users {
        let costs = hashes.values().filter_map(|hash| Some(hash.parse::<HashParts>().ok()?.get_cost()));
        let unknown = format!("$2b${:02}{NOBODY}", costs.max().unwrap_or(bcrypt::DEFAULT_COST));
        Users { hashes, unknown, accepted: Mutex::default(), checks: Semaphore::new(CHECKS_AT_ONCE) }
    }

    /// Checks the `Authorization` header of a request.
    pub async fn check(&self, header: Option<&str>) -> UserAccess {
        if self.hashes.is_empty() {
            return UserAccess::Granted;
        }
        let Some(header) = header else { return UserAccess::Denied };
        let Some((user, password)) = credentials(header) else { return UserAccess::Denied };
        let digest = digest(&user, &password);
        if self.accepted.lock().unwrap_or_else(PoisonError::into_inner).get(&user) == Some(&digest) {
            return UserAccess::Granted;
        }
        let Ok(_permit) = self.checks.try_acquire() else { return UserAccess::Busy };
        let known = self.hashes.get(&user).cloned();
        let hash = known.clone().unwrap_or_else(|| self.unknown.clone());
        let check = tokio::task::spawn_blocking(move || bcrypt::verify(password, &hash).unwrap_or(false));
        if !check.await.unwrap_or(false) || known.is_none() {
            return UserAccess::Denied;
        }
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).insert(user, digest);
        UserAccess::Granted
    }
}

fn digest(user: &str, password: &str) -> CredentialsDigest {
    let text = format!("{user}:{password}");
    let mut bytes = CredentialsDigest::default();
    bytes.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()).as_ref());
    bytes
}

/// User and password of a header `Basic …`.
///
/// # Source
///
/// RFC 7617, section 2.
fn credentials(header: &str) -> Option<(String, String)> {
    let (scheme, text) = header.split_once(' ')?;
    let decoded =
        BASE64_STANDARD.decode(text.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    let text = String::from_utf8(decoded).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where something fails")]
mod tests {
    use super::*;

    fn header(text: &str) -> String {
        format!("Basic {}", BASE64_STANDARD.encode(text))
    }

    fn check(users: &Users, header: Option<&str>) -> UserAccess {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(users.check(header))
    }

    #[test]
    fn a_user_is_known_by_the_password_and_by_nothing_else() {
        let hash = bcrypt::hash("open:sesame", 4).unwrap();
        let users = Users::new(BTreeMap::from([("ali".to_owned(), hash)]));
        for _ in 0..2 {
            assert_eq!(check(&users, Some(&header("ali:open:sesame"))), UserAccess::Granted);
        }
        for wrong in ["ali:open", "baba:open:sesame", "ali", ""] {
            assert_eq!(check(&users, Some(&header(wrong))), UserAccess::Denied, "{wrong}");
        }
        for wrong in [None, Some("Bearer x"), Some("Basic"), Some("Basic !")] {
            assert_eq!(check(&users, wrong), UserAccess::Denied, "{wrong:?}");
        }
    }

    #[test]
    fn one_digest_is_kept_for_each_user_and_unknown_names_cost_as_much_as_the_slowest() {
        let hash = |cost| bcrypt::hash("sesame", cost).unwrap();
        let users = Users::new(BTreeMap::from([("ali".to_owned(), hash(4)), ("baba".to_owned(), hash(5))]));
        assert!(users.unknown.starts_with("$2b$05$") && users.unknown.parse::<HashParts>().is_ok());
        let written = header("ali:sesame");
        for spelling in [written.clone(), written.replace("Basic", "basic"), written.replace(' ', "  ")] {
            assert_eq!(check(&users, Some(&spelling)), UserAccess::Granted, "{spelling}");
        }
        let accepted = users.accepted.lock().unwrap();
        assert_eq!(accepted.keys().collect::<Vec<_>>(), ["ali"]);
        assert!(!format!("{accepted:?}").contains("sesame"));
    }

    #[test]
    fn without_users_everybody_may_read() {
        assert_eq!(check(&Users::new(BTreeMap::new()), None), UserAccess::Granted);
    }
}
