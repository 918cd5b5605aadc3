//! The folder of execution profiles of earlier runs.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use cyclometer_sys::host::{effective_uid, is_privileged};

/// The folder for root, for whom the environment is not trusted.
const OF_ROOT: &str = "/var/cache";

/// The folder below the user's cache folder; `None` where no folder can be trusted.
///
/// # Source
///
/// XDG Base Directory Specification 0.8, `XDG_CACHE_HOME`; Filesystem Hierarchy Standard 3.0, 5.5.
pub(super) fn folder() -> Option<PathBuf> {
    let caches = match (effective_uid(), is_privileged()) {
        (0, _) => Some(PathBuf::from(OF_ROOT)),
        (_, true) => None,
        _ => of_user(env::var_os("XDG_CACHE_HOME"), env::var_os("HOME")),
    };
    caches.map(|caches| caches.join("cyclometer").join("hints"))
}

/// Relative paths are ignored.
fn of_user(caches: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let caches = caches.map(PathBuf::from).and_then(absolute);
    caches.or_else(|| Some(absolute(home?.into())?.join(".cache")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_kept_where_the_user_keeps_such_things() {
        let folder = |caches: Option<&str>, home: Option<&str>| {
            of_user(caches.map(OsString::from), home.map(OsString::from))
                .map(|path| path.display().to_string())
        };
        assert_eq!(folder(Some("/c"), Some("/h")).as_deref(), Some("/c"));
        assert_eq!(folder(Some("c"), Some("/h")).as_deref(), Some("/h/.cache"));
        assert_eq!(folder(Some(""), Some("/h")).as_deref(), Some("/h/.cache"));
        assert_eq!(folder(None, Some("h")), None);
        assert_eq!(folder(None, None), None);
    }
}
