//! The limits on open files, on private memory and on the stack.

use std::io;
use std::mem::MaybeUninit;

/// Raises the soft limit on open files to the hard one; returns the new one.
///
/// Commands still get the limit of the time when the launcher was started.
///
/// # Errors
///
/// The operating system's; no limit has changed then.
///
/// # Source
///
/// `getrlimit(2)`, `RLIMIT_NOFILE`.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = open_files()?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: reads one rlimit.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } {
        0 => Ok(limit.rlim_cur),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Raises the soft limit on private memory to the hard one, as far as the system permits. It allocates
/// nothing.
///
/// # Source
///
/// `getrlimit(2)`, `RLIMIT_DATA`.
pub fn raise_private_memory() {
    if let Ok(mut limit) = limit(libc::RLIMIT_DATA as libc::c_int) {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: reads one rlimit.
        unsafe { libc::setrlimit(libc::RLIMIT_DATA, &limit) };
    }
}

/// Runs `work` with at least this many bytes of stack, on the first thread of a process. If the thread's
/// limit is too low, the work runs in a thread with a stack of its own, for which this one waits.
///
/// Where no memory for such a thread is available, the work runs in this one.
///
/// # Source
///
/// `getrlimit(2)`, `RLIMIT_STACK`: the first thread's stack grows up to it.
pub fn with_stack<T: Send>(bytes: usize, work: impl FnOnce() -> T + Send) -> T {
    let has_room = stack().is_ok_and(|limit| limit.rlim_cur >= bytes as u64);
    if has_room { work() } else { in_thread(bytes, work) }
}

fn in_thread<T: Send>(bytes: usize, work: impl FnOnce() -> T + Send) -> T {
    // Stored here, so that the work is not lost where no thread can be created.
    let mut work = Some(work);
    let run = || work.take().map(|work| work());
    let done = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(bytes).spawn_scoped(scope, run).ok()?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    match (done, work) {
        (Some(done), _) => done,
        (None, Some(work)) => work(),
        (None, None) => unreachable!("work that was begun has ended or panicked"),
    }
}

/// The limits on open files, soft and hard.
pub(crate) fn open_files() -> io::Result<libc::rlimit> {
    limit(libc::RLIMIT_NOFILE as libc::c_int)
}

/// The limits on the first thread's stack, in bytes.
fn stack() -> io::Result<libc::rlimit> {
    limit(libc::RLIMIT_STACK as libc::c_int)
}

/// Lowers both limits on a resource. A limit that is lower already stays. It allocates nothing.
pub(super) fn lower(resource: libc::c_int, most: u64) -> io::Result<()> {
    let mut limit = limit(resource)?;
    limit.rlim_max = limit.rlim_max.min(most);
    limit.rlim_cur = limit.rlim_cur.min(most);
    // SAFETY: reads one rlimit.
    match unsafe { libc::setrlimit(resource as _, &limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The type of the resource number differs between C libraries.
fn limit(resource: libc::c_int) -> io::Result<libc::rlimit> {
    let mut limit = MaybeUninit::<libc::rlimit>::zeroed();
    // SAFETY: writes one rlimit.
    let done = unsafe { libc::getrlimit(resource as _, limit.as_mut_ptr()) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded and wrote the limit.
    Ok(unsafe { limit.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_has_the_stack_that_it_was_promised() {
        /// Uses a page of stack for each level.
        fn deep(levels: usize) -> usize {
            let page = std::hint::black_box([1u8; 4096]);
            if levels == 0 { 0 } else { usize::from(page[levels % 4096]) + deep(levels - 1) }
        }
        // Threads of tests have 2 MiB.
        const LARGE: usize = 256 << 20;
        assert_eq!(in_thread(LARGE, || deep(10_000)), 10_000);
        let caller = std::thread::current().id();
        assert_eq!(with_stack(1, || std::thread::current().id()), caller);
    }

    #[test]
    fn a_panic_comes_back_to_the_caller() {
        let caught = std::panic::catch_unwind(|| in_thread(1 << 20, || panic!("on purpose")));
        assert!(caught.is_err());
    }
}
