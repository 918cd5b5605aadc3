//! Names of threads, as the kernel shows them.

use cyclometer_core::window::WindowThread;

/// The name of a thread of our PID namespace that still exists; `None` for others, and without `/proc`.
///
/// # Source
///
/// `proc(5)`, `/proc/PID/task/TID/comm`.
pub fn thread_name(thread: WindowThread) -> Option<String> {
    let WindowThread { pid, tid } = thread;
    let name = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(name.trim_end_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_has_the_name_that_it_was_given_and_one_that_is_gone_has_none() {
        let named = std::thread::Builder::new().name("a worker".to_owned());
        let worker = named.spawn(|| {
            let link = std::fs::read_link("/proc/thread-self").unwrap();
            let tid = link.file_name().unwrap().to_str().unwrap().parse().unwrap();
            let thread = WindowThread { pid: std::process::id(), tid };
            (thread, thread_name(thread))
        });
        let (thread, name) = worker.unwrap().join().unwrap();
        assert_eq!(name.as_deref(), Some("a worker"));
        assert_eq!(thread_name(WindowThread { pid: thread.pid, tid: u32::MAX >> 2 }), None);
    }
}
