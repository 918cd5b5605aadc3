//! Dynamic libraries, opened at run time.

use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// An open dynamic library. It stays loaded until the process ends, so that its functions stay valid.
#[derive(Debug)]
pub struct Library {
    handle: NonNull<c_void>,
    path: PathBuf,
}

/// Why a library or one of its functions is not there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LibraryError {
    /// The library cannot be opened.
    NotOpened {
        /// Its path.
        path: PathBuf,
        /// The dynamic linker's reason.
        reason: String,
    },
    /// The library lacks a function.
    NoFunction {
        /// The path of the library.
        path: PathBuf,
        /// The function.
        name: String,
    },
}

impl fmt::Display for LibraryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LibraryError::NotOpened { path, reason } => write!(f, "cannot open {}: {reason}", path.display()),
            LibraryError::NoFunction { path, name } => {
                write!(f, "{} has no function {name}", path.display())
            }
        }
    }
}

impl std::error::Error for LibraryError {}

impl Library {
    /// Opens a library, whose initialisers run now.
    ///
    /// # Errors
    ///
    /// The dynamic linker's.
    pub fn open(path: &Path) -> Result<Library, LibraryError> {
        let failed = |reason: String| LibraryError::NotOpened { path: path.to_owned(), reason };
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| failed(error.to_string()))?;
        // SAFETY: the name is a live C string. The caller chose a library whose initialisers may run.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        match NonNull::new(handle) {
            Some(handle) => Ok(Library { handle, path: path.to_owned() }),
            None => Err(failed(reason())),
        }
    }

    /// A function of the library, as a function pointer of type `F`.
    ///
    /// # Errors
    ///
    /// [`LibraryError::NoFunction`].
    ///
    /// # Safety
    ///
    /// `F` is an `extern "C"` function pointer type, and the function of that name has this signature.
    pub unsafe fn function<F: Copy>(&self, name: &CStr) -> Result<F, LibraryError> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the handle is open, because libraries are never closed, and the name is a live C string.
        let address = unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) };
        if address.is_null() {
            let name = name.to_string_lossy().into_owned();
            return Err(LibraryError::NoFunction { path: self.path.clone(), name });
        }
        // SAFETY: the caller promises that this address is one of a function of type `F`; sizes are equal.
        Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address) })
    }
}

/// The reason of the dynamic linker's last failure in this thread.
fn reason() -> String {
    // SAFETY: takes no argument; the string that it returns lives until the thread's next call.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the dynamic linker gives no reason".to_owned();
    }
    // SAFETY: not null, so a C string that is live as said above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named_with_the_reason() {
        let error = Library::open(Path::new("/nonexistent/kperf")).unwrap_err().to_string();
        assert!(error.starts_with("cannot open /nonexistent/kperf: "), "{error}");
        assert!(error.len() > "cannot open /nonexistent/kperf: ".len());
    }

    #[test]
    fn a_path_that_no_library_can_have_is_refused() {
        assert!(matches!(Library::open(Path::new("a\0b")), Err(LibraryError::NotOpened { .. })));
    }

    #[test]
    fn a_file_that_is_no_library_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "no library").unwrap();
        assert!(matches!(Library::open(file.path()), Err(LibraryError::NotOpened { .. })));
    }
}
