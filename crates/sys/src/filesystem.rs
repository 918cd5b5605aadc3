//! What kind of file system something is on, and which rights a file gives.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Whether a folder is a control group, of version 1 or 2: whether it is on a file system of those.
///
/// # Errors
///
/// The operating system's, when there is no such folder.
///
/// # Source
///
/// `statfs(2)`: `CGROUP_SUPER_MAGIC`, `CGROUP2_SUPER_MAGIC`.
pub fn is_control_group(folder: &Path) -> io::Result<bool> {
    let path = CString::new(folder.as_os_str().as_bytes())?;
    let mut raw = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: `path` ends in zero; writes one statfs.
    if unsafe { libc::statfs(path.as_ptr(), raw.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded and wrote the struct.
    let kind = unsafe { raw.assume_init() }.f_type as u32;
    Ok(matches!(kind, 0x0027_e0eb | 0x6367_7270))
}

/// Whether a file gives capabilities to who executes it; not where that cannot be found out.
///
/// # Source
///
/// `capabilities(7)`, "File capabilities": the extended attribute `security.capability`.
pub fn has_capabilities(file: &Path) -> bool {
    let Ok(path) = CString::new(file.as_os_str().as_bytes()) else { return false };
    // SAFETY: both strings end in zero; without room nothing is written.
    unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_file_gives_no_capabilities() {
        assert!(!has_capabilities(Path::new("/proc/self/exe")));
        assert!(!has_capabilities(Path::new("/no/such/file")));
    }

    #[test]
    fn proc_is_no_control_group_and_what_does_not_exist_is_an_error() {
        assert!(!is_control_group(Path::new("/proc")).unwrap());
        assert!(is_control_group(Path::new("/no/such/folder")).is_err());
    }
}
