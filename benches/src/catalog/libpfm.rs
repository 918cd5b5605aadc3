//! libpfm4 at run time, if it is installed: an event's name to perf's words.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// `PFM_SUCCESS`.
const SUCCESS: c_int = 0;
/// `PFM_OS_PERF_EVENT`.
const OS_PERF_EVENT: c_int = 1;
/// `PFM_PLM3`, user mode.
const USER: c_int = 8;
/// Room for a `perf_event_attr` of any kernel, in words of 64 bits.
const ATTR_WORDS: usize = 64;

type Initialize = unsafe extern "C" fn() -> c_int;
type Encode = unsafe extern "C" fn(*const c_char, c_int, c_int, *mut c_void) -> c_int;

/// What `pfm_get_os_event_encoding` takes and fills.
///
/// # Source
///
/// libpfm4 `include/perfmon/pfmlib_perf_event.h`, `pfm_perf_encode_arg_t`.
#[repr(C)]
struct Arguments {
    attr: *mut u64,
    text: *mut *mut c_char,
    size: usize,
    index: c_int,
    cpu: c_int,
    flags: c_int,
    padding: c_int,
}

/// The loaded library.
pub(super) struct Libpfm {
    encode: Encode,
}

impl Libpfm {
    /// Loads and initialises the library; the events of CPUs that are not this machine's are encoded too.
    ///
    /// # Errors
    ///
    /// Why there is no library.
    pub(super) fn load() -> Result<Libpfm, String> {
        // SAFETY: the benchmark has one thread, so nobody reads the environment at the same time.
        unsafe { std::env::set_var("LIBPFM_ENCODE_INACTIVE", "1") };
        // SAFETY: the name is a C string; loading the library runs no code but its own constructors, of which it has none.
        let library = unsafe { libc::dlopen(c"libpfm.so.4".as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return Err("libpfm.so.4 is not installed (package libpfm4)".to_owned());
        }
        let initialize = symbol(library, c"pfm_initialize")?;
        // SAFETY: `pfm_initialize` is declared as `pfm_err_t pfm_initialize(void)`, `pfm_err_t` being `int`.
        let initialize = unsafe { std::mem::transmute::<*mut c_void, Initialize>(initialize) };
        let encode = symbol(library, c"pfm_get_os_event_encoding")?;
        // SAFETY: declared as `pfm_err_t (const char *, int, pfm_os_t, void *)`; `pfm_os_t` is an enumeration, an `int`.
        let encode = unsafe { std::mem::transmute::<*mut c_void, Encode>(encode) };
        // SAFETY: the function takes nothing and may be called once, which is here.
        let status = unsafe { initialize() };
        if status != SUCCESS {
            return Err(format!("pfm_initialize failed with {status}"));
        }
        Ok(Libpfm { encode })
    }

    /// perf's `config` and `config1` of an event; `None` for what the library does not know.
    pub(super) fn encode(&self, event: &CStr) -> Option<(u64, u64)> {
        let mut attr = [0u64; ATTR_WORDS];
        let mut arguments = Arguments {
            attr: attr.as_mut_ptr(),
            text: std::ptr::null_mut(),
            size: size_of::<Arguments>(),
            index: 0,
            cpu: -1,
            flags: 0,
            padding: 0,
        };
        let arguments: *mut Arguments = &raw mut arguments;
        // SAFETY: the text is a C string; the arguments and the attr behind them are alive, say their size, and are larger
        // than any `perf_event_attr` that the library was built with.
        let status = unsafe { (self.encode)(event.as_ptr(), USER, OS_PERF_EVENT, arguments.cast()) };
        // `config` is the second word, `config1` the eighth: linux/perf_event.h.
        (status == SUCCESS).then_some((attr[1], attr[7]))
    }
}

fn symbol(library: *mut c_void, name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: the library is loaded and stays so; the name is a C string.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    if found.is_null() {
        return Err(format!("libpfm.so.4 has no {}", name.to_string_lossy()));
    }
    Ok(found)
}

/// libpfm4's spelling of an Intel event: the PMU in front, a colon before the unit mask.
pub(super) fn spelled(pmu: &str, name: &str) -> Option<CString> {
    CString::new(format!("{pmu}::{}", name.replacen('.', ":", 1))).ok()
}
