//! The type of a file system, and the rights of files.

use std::ffi::CString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Whether a folder is a control group of version 1 or 2, by the type of its file system.
///
/// # Errors
///
/// The operating system's, when the folder does not exist.
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

/// Whether executing a file grants capabilities; false where this cannot be determined.
///
/// # Source
///
/// `capabilities(7)`, "File capabilities": the extended attribute `security.capability`.
pub fn has_capabilities(file: &Path) -> bool {
    let Ok(path) = CString::new(file.as_os_str().as_bytes()) else { return false };
    // SAFETY: both strings end in zero; without room nothing is written.
    unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

/// Creates a folder that only the current user may use, unless it exists.
///
/// # Errors
///
/// The operating system's; as [`check_private_folder`].
pub fn make_private_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => check_private_folder(path),
    }
}

/// Checks that a path is a folder (not a link to one) that belongs to the current user and that only this
/// user may use.
///
/// # Errors
///
/// The operating system's; `PermissionDenied` in all other cases.
pub fn check_private_folder(path: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(path)?;
    let ours = found.is_dir() && found.uid() == crate::host::effective_uid();
    if ours && found.mode() & 0o077 == 0 { Ok(()) } else { Err(not_private(path)) }
}

fn not_private(path: &Path) -> io::Error {
    let text = format!("{} is not ours alone (owner or rights are wrong, or it is a link)", path.display());
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

/// Creates a file that only the current user may use.
///
/// # Errors
///
/// The operating system's: `AlreadyExists` where the path exists, also as a link.
pub fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// Opens a file for reading that belongs to the current user and that only this user may use.
///
/// # Errors
///
/// The operating system's: `ELOOP` for a link; `PermissionDenied` where it is no file, or where others may
/// use it.
pub fn open_private(path: &Path) -> io::Result<File> {
    // A pipe at this path must not block us.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    let ours = found.is_file() && found.uid() == crate::host::effective_uid();
    if ours && found.mode() & 0o077 == 0 { Ok(file) } else { Err(not_private(path)) }
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

    #[test]
    fn a_private_folder_is_made_once_and_refused_when_others_may_use_it() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("folder");
        make_private_folder(&path).unwrap();
        make_private_folder(&path).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(make_private_folder(&path).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        std::fs::remove_dir(&path).unwrap();
        std::os::unix::fs::symlink("/", &path).unwrap();
        assert_eq!(make_private_folder(&path).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_private_file_is_new_and_no_link_is_followed_to_one() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("folder");
        make_private_folder(&folder).unwrap();
        let (file, link) = (folder.join("a"), folder.join("b"));
        create_private(&file).unwrap();
        assert_eq!(create_private(&file).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(create_private(&link).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(open_private(&link).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        assert!(open_private(&file).is_ok());
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o604)).unwrap();
        assert_eq!(open_private(&file).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(open_private(&folder).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
