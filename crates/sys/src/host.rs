//! Properties of the host: kernel, user, CPUs, `sysctl` on macOS.

#[cfg(target_os = "macos")]
pub use apple::{sysctl_integer, sysctl_string};
#[cfg(unix)]
pub use posix::{effective_uid, is_privileged, uname};

/// Number of CPUs that this process may use, at least 1; for systems without a list of CPUs.
pub fn online_cpu_count() -> u32 {
    let count = std::thread::available_parallelism().map_or(1, |count| count.get());
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The parts of `uname(2)` that identify a system; the host's name is omitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Uname {
    /// Operating system: `Linux`, `Darwin`.
    pub system: String,
    /// Kernel release: `6.12.107`.
    pub release: String,
    /// Machine: `x86_64`, `aarch64`, `arm64`, `riscv64`.
    pub machine: String,
}

#[cfg(unix)]
mod posix {
    use super::Uname;
    use std::mem::MaybeUninit;

    /// Queries the kernel's identity; `None` when the call fails.
    ///
    /// # Source
    ///
    /// `uname(2)`.
    pub fn uname() -> Option<Uname> {
        let mut raw = MaybeUninit::<libc::utsname>::zeroed();
        // SAFETY: `raw` is a live, writable `utsname`; the call writes nothing beyond it.
        if unsafe { libc::uname(raw.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: the structure holds only character arrays, which are valid for any bytes, and was zeroed.
        let raw = unsafe { raw.assume_init() };
        Some(Uname { system: text(&raw.sysname), release: text(&raw.release), machine: text(&raw.machine) })
    }

    /// The effective user id.
    pub fn effective_uid() -> u32 {
        // SAFETY: `geteuid` takes nothing, touches no memory and cannot fail.
        unsafe { libc::geteuid() }
    }

    /// Whether this process has more rights than the user who started it: root, or a set-id program. The
    /// environment must not be trusted then.
    pub fn is_privileged() -> bool {
        // SAFETY: takes nothing, touches no memory and cannot fail.
        let real_user = unsafe { libc::getuid() };
        // SAFETY: as above.
        let real_group = unsafe { libc::getgid() };
        // SAFETY: as above.
        let group = unsafe { libc::getegid() };
        effective_uid() == 0 || effective_uid() != real_user || group != real_group
    }

    fn text(chars: &[libc::c_char]) -> String {
        let bytes: Vec<u8> = chars.iter().map(|c| c.to_ne_bytes()[0]).take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(target_os = "macos")]
mod apple {
    use std::ffi::CString;

    /// Greatest length of a value, in bytes.
    const LIMIT: usize = 4096;

    /// The value of a `sysctl` that is a number of 4 or 8 bytes; 4-byte numbers are read as unsigned.
    ///
    /// # Source
    ///
    /// `sysctlbyname(3)`.
    pub fn sysctl_integer(name: &str) -> Option<u64> {
        let bytes = sysctl(name)?;
        match bytes.len() {
            4 => Some(u32::from_ne_bytes(bytes.try_into().ok()?).into()),
            8 => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
            _ => None,
        }
    }

    /// The value of a `sysctl` that is text, up to its terminating zero byte.
    ///
    /// # Source
    ///
    /// `sysctlbyname(3)`.
    pub fn sysctl_string(name: &str) -> Option<String> {
        let bytes = sysctl(name)?;
        let text = bytes.split(|byte| *byte == 0).next()?;
        String::from_utf8(text.to_vec()).ok()
    }

    /// The raw bytes of a `sysctl`, at most 4096; `None` when it does not exist.
    fn sysctl(name: &str) -> Option<Vec<u8>> {
        let name = CString::new(name).ok()?;
        let mut value = vec![0u8; LIMIT];
        let mut length = value.len();
        // SAFETY: `name` ends in zero; `value` has `length` writable bytes and both outlive the call;
        // nothing is set (null, 0).
        let status = unsafe {
            libc::sysctlbyname(name.as_ptr(), value.as_mut_ptr().cast(), &mut length, std::ptr::null_mut(), 0)
        };
        value.truncate(length.min(LIMIT));
        (status == 0).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_at_least_one_cpu() {
        assert!(online_cpu_count() >= 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn uname_agrees_with_proc() {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let uname = uname().unwrap();
        assert_eq!(uname.system, "Linux");
        assert_eq!(uname.release, release.trim());
        assert!(!uname.machine.is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_effective_user_is_that_of_proc() {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let uids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
        assert_eq!(uids.split_whitespace().nth(1), Some(effective_uid().to_string().as_str()));
    }
}
