//! File access with the rights of the user who called `sudo`.

use std::io;

use libc::{gid_t, uid_t};

/// Calls `open` with the file-system rights of the invoker when we are root through `sudo`; otherwise with
/// our own.
///
/// Files opened inside stay open. The rights are restored when this returns, also on panic.
///
/// # Errors
///
/// `InvalidInput` when sudo's variables are no ids, `PermissionDenied` when the ids cannot be set: `open` has
/// not been called then.
///
/// # Source
///
/// `setfsuid(2)`, `setfsgid(2)`: ids of the calling thread only; leaving fsuid 0 also takes the file-related
/// capabilities (`capabilities(7)`, "Effect of user ID changes on capabilities"). `sudo(8)`: `SUDO_UID`,
/// `SUDO_GID`.
pub fn with_rights<T>(open: impl FnOnce() -> T) -> io::Result<T> {
    match invoker()? {
        Some((uid, gid)) => {
            let _restored = FormerIds::on(uid, gid)?;
            Ok(open())
        }
        None => Ok(open()),
    }
}

/// The ids of the user who called sudo; `None` without sudo, or when it was root.
///
/// # Errors
///
/// `InvalidInput` when sudo's variables are no ids.
pub fn invoker() -> io::Result<Option<(uid_t, gid_t)>> {
    if crate::host::effective_uid() != 0 {
        return Ok(None);
    }
    let Some(uid) = id("SUDO_UID")? else { return Ok(None) };
    let gid = id("SUDO_GID")?.ok_or(io::ErrorKind::InvalidInput)?;
    Ok((uid != 0).then_some((uid, gid)))
}

fn id(variable: &str) -> io::Result<Option<u32>> {
    match std::env::var(variable) {
        Ok(text) => text.parse().map(Some).map_err(|_| io::ErrorKind::InvalidInput.into()),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// File-system ids that were set; dropping restores the former ones.
struct FormerIds {
    uid: uid_t,
    gid: gid_t,
}

impl FormerIds {
    fn on(uid: uid_t, gid: gid_t) -> io::Result<FormerIds> {
        // The group comes first, because it cannot be changed any more without fsuid 0.
        let taken = FormerIds { gid: set_gid(gid), uid: set_uid(uid) };
        // Setting an id to its current value returns that value, which shows whether the first call took
        // effect.
        let both = set_uid(uid) == uid && set_gid(gid) == gid;
        if both { Ok(taken) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }
}

impl Drop for FormerIds {
    fn drop(&mut self) {
        set_uid(self.uid);
        set_gid(self.gid);
    }
}

fn set_uid(uid: uid_t) -> uid_t {
    // SAFETY: takes a number; changes the file-system id of the calling thread or nothing.
    unsafe { libc::setfsuid(uid) as uid_t }
}

fn set_gid(gid: gid_t) -> gid_t {
    // SAFETY: takes a number; changes the file-system id of the calling thread or nothing.
    unsafe { libc::setfsgid(gid) as gid_t }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_test_support::skip;

    #[test]
    fn ids_are_taken_on_and_given_back() {
        if crate::host::effective_uid() != 0 {
            return skip("only root can take on other ids");
        }
        let before = (set_uid(0), set_gid(0));
        {
            let _taken = FormerIds::on(65_534, 65_534).unwrap();
            let denied = std::fs::File::open("/proc/1/environ").unwrap_err();
            assert_eq!(denied.kind(), io::ErrorKind::PermissionDenied);
        }
        assert_eq!((set_uid(0), set_gid(0)), (0, 0));
        assert_eq!(before, (0, 0));
    }

    #[test]
    fn a_variable_that_is_no_id_is_refused() {
        // `PATH` is set, and is no number, wherever tests run.
        assert_eq!(id("PATH").unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(id("CYCLOMETER_NO_SUCH_VARIABLE").unwrap(), None);
    }
}
