//! The daemon process, and the bell that wakes it.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cyclometer_sys::daemon::{self, Daemon};
use cyclometer_sys::process::{Launcher, Reap, Request, SIGKILL, Status, Traced, group_of, reap, signal};
use cyclometer_sys::signals::Watch;
use cyclometer_sys::trace::{self, Bell, Change, Options};
// Default signals.
use cyclometer_test_support as _;

/// An upper bound for operations that take almost no time.
const LATE: Duration = Duration::from_secs(20);

fn kept(work: impl FnOnce(UnixStream)) -> Daemon {
    let daemon = daemon::fork(work).unwrap();
    daemon.socket().set_read_timeout(Some(LATE)).unwrap();
    daemon
}

fn rest(daemon: &Daemon) -> String {
    let mut said = String::new();
    daemon.socket().read_to_string(&mut said).unwrap();
    said
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + LATE;
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends back all data until the other end closes.
fn echo(mut socket: UnixStream) {
    let mut byte = [0];
    while socket.read_exact(&mut byte).is_ok() {
        socket.write_all(&byte).unwrap();
    }
}

fn echoes(daemon: &Daemon) -> bool {
    let mut byte = [7];
    daemon.socket().write_all(&byte).is_ok() && daemon.socket().read_exact(&mut byte).is_ok() && byte == [7]
}

#[test]
fn a_daemon_is_nobodys_child_leads_its_group_and_has_a_name() {
    let daemon = kept(echo);
    assert!(echoes(&daemon));
    assert_eq!(group_of(daemon.pid()).unwrap(), daemon.pid());
    assert_eq!(reap(daemon.pid(), Reap::Poll).unwrap_err().raw_os_error(), Some(libc::ECHILD));
    let comm = fs::read_to_string(format!("/proc/{}/comm", daemon.pid())).unwrap();
    assert_eq!(comm, "cyclometer-keep\n");
    assert_eq!(fs::read_link(format!("/proc/{}/cwd", daemon.pid())).unwrap().to_str(), Some("/"));
}

#[test]
fn a_daemon_ends_when_its_maker_closes_the_socket() {
    let daemon = kept(echo);
    let pid = daemon.pid();
    assert!(echoes(&daemon));
    drop(daemon);
    until("the daemon lives on", || is_gone(pid));
}

/// Whether a process has ended; the process that adopted it may reap it late.
fn is_gone(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z ")
}

#[test]
fn a_daemon_has_its_socket_and_nothing_else_open() {
    // SAFETY: makes a descriptor that nobody owns, and that would stay open at exec.
    let far = unsafe { libc::fcntl(2, libc::F_DUPFD, 500) };
    let (_pipe, _writer) = io::pipe().unwrap();
    let daemon = kept(|mut socket| {
        let mut open: Vec<String> = fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(|entry| {
                let path = entry.unwrap().path();
                let to = fs::read_link(&path).ok()?;
                let to = to.to_str()?.split(':').next()?.to_owned();
                Some(format!("{}={to}", path.file_name()?.to_str()?))
            })
            .collect();
        open.sort();
        let own = std::process::id();
        write!(socket, "{}", open.join(" ").replace(&own.to_string(), "self")).unwrap();
    });
    assert_eq!(rest(&daemon), "0=/dev/null 1=/dev/null 2=/dev/null 3=socket 4=/proc/self/fd");
    // SAFETY: made above.
    drop(unsafe { OwnedFd::from_raw_fd(far) });
}

#[test]
fn signals_of_terminals_and_users_reach_neither_the_daemon_nor_our_watch_through_it() {
    let watch = Watch::install().unwrap();
    let daemon = kept(echo);
    let deaf_to = [1, 2, 3, 10, 12, 13, 15, 20, 21, 22, 25];
    for number in deaf_to {
        signal(daemon.pid(), number).unwrap();
        assert!(echoes(&daemon), "{number}");
    }
    assert_eq!(watch.take(), None);
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let set = |name: &str| {
        let text = status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
        u64::from_str_radix(text, 16).unwrap()
    };
    assert_eq!(set("SigBlk:"), 0);
    // The C library reserves two real-time signals, and does not permit changing their dispositions.
    let others = !(0b11 << 31);
    assert_eq!(set("SigCgt:") & others, 0);
    let ignored = deaf_to.into_iter().map(|number| 1u64 << (number - 1)).sum();
    assert_eq!(set("SigIgn:") & others, ignored);
    signal(daemon.pid(), SIGKILL).unwrap();
    until("the daemon lives on", || is_gone(daemon.pid()));
}

#[test]
fn a_daemon_may_allocate_while_other_threads_do() {
    let stop = Arc::new(AtomicBool::new(false));
    let busy = [(); 3].map(|()| {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || allocate(&stop))
    });
    for i in 0..50usize {
        let daemon = kept(|mut socket| {
            let many: Vec<String> = (0..100 + i).map(|n| n.to_string()).collect();
            write!(socket, "{}", many.len()).unwrap();
        });
        assert_eq!(rest(&daemon), (100 + i).to_string());
    }
    stop.store(true, Ordering::Relaxed);
    busy.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Allocates, and holds the lock of standard error, as often as possible.
fn allocate(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        drop(std::hint::black_box(vec![1u8; 3000]));
        let _stderr = std::hint::black_box(io::stderr().lock());
    }
}

#[test]
fn a_panic_ends_the_daemon_only() {
    let daemon = kept(|socket| {
        let _socket = socket;
        panic!("on purpose");
    });
    assert_eq!(rest(&daemon), "");
    until("the daemon lives on", || is_gone(daemon.pid()));
}

#[test]
fn a_daemon_outlives_its_maker_and_learns_of_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("on");
    let maker = kept(|mut socket| {
        let daemon = daemon::fork(|socket| {
            echo(socket);
            let _ = fs::write(&place, "on");
        });
        let daemon = daemon.unwrap();
        socket.write_all(&daemon.pid().to_ne_bytes()).unwrap();
        loop {
            // SAFETY: takes nothing.
            unsafe { libc::pause() };
        }
    });
    let mut pid = [0; 4];
    maker.socket().read_exact(&mut pid).unwrap();
    let daemon = u32::from_ne_bytes(pid);
    assert!(!is_gone(daemon) && !place.exists());
    signal(maker.pid(), SIGKILL).unwrap();
    until("the daemon did not go on", || fs::read(&place).is_ok_and(|text| text == b"on"));
    until("the daemon lives on", || is_gone(daemon));
}

#[test]
fn a_command_at_its_gate_is_seized_by_a_daemon_and_stays_ours_to_reap() {
    if trace::permitted().is_err() {
        // The tests of tracing report it.
        return;
    }
    let launcher = Launcher::start().unwrap();
    let traced = Some(Traced { fixed_layout: true });
    let args = ["-c", "exit 6"].map(Into::into);
    let request =
        Request { program: "sh".as_ref(), args: &args, stdin: None, stdout: None, stderr: None, traced };
    let mut pending = launcher.spawn(&request).unwrap();
    let pid = pending.pid();
    let daemon = kept(|mut socket| {
        let seized = trace::seize(pid, Options::EXEC | Options::EXIT);
        write!(socket, "{seized:?}").unwrap();
        for _ in 0..2 {
            let change = trace::wait_for(pid).unwrap();
            trace::resume(pid, 0).unwrap();
            write!(socket, " {change:?}").unwrap();
        }
        // The parent sees the end only after the tracer.
        write!(socket, " {:?}", trace::wait_for(pid)).unwrap();
    });
    let mut seized = [0; 6];
    daemon.socket().read_exact(&mut seized).unwrap();
    assert_eq!(&seized, b"Ok(())");
    pending.release();
    let ended = reap(pid, Reap::Block).unwrap().unwrap();
    assert_eq!(ended.status, Status::Code(6));
    assert_eq!(rest(&daemon), " Exec Exiting Ok(Exited(6))");
    assert!(pending.used_before_exec().unwrap().minor_faults > 0);
}

/// Forks a child that ends after a spin.
fn fork_one(spin: u32) -> u32 {
    // SAFETY: the child ends at once.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        (0..spin).for_each(|_| std::hint::spin_loop());
        // SAFETY: ends the process.
        unsafe { libc::_exit(0) };
    }
    u32::try_from(pid).unwrap()
}

/// Answers each byte: an even one at once, an odd one when a child has ended. Returns the number of children
/// that ended.
fn answer(socket: &UnixStream) -> io::Result<u32> {
    let bell = Bell::new(socket)?;
    let mut ended = 0;
    loop {
        let mut bytes = [0; 16];
        let mut stream = socket;
        match stream.read(&mut bytes) {
            Ok(0) => return Ok(ended),
            Ok(count) => {
                for byte in &bytes[..count] {
                    if byte % 2 == 0 {
                        stream.write_all(&[0])?;
                    } else {
                        fork_one(u32::from(*byte) * 20);
                    }
                }
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
        while let Some((_, change)) = bell.wait(None)? {
            assert_eq!(change, Change::Exited(0));
            ended += 1;
            stream.write_all(&[1])?;
        }
    }
}

#[test]
fn no_change_and_no_message_is_slept_through() {
    let daemon = kept(|socket| {
        let ended = answer(&socket).unwrap();
        (&socket).write_all(&ended.to_ne_bytes()).unwrap();
    });
    let mut socket = daemon.socket();
    let mut answer = [0];
    for round in 0..1500u32 {
        // Each round interrupts the daemon at another moment of its way into the wait.
        (0..round % 97 * 20).for_each(|_| std::hint::spin_loop());
        let byte = (round % 200) as u8;
        socket.write_all(&[byte]).unwrap();
        if round % 3 == 0 {
            socket.write_all(&[byte]).unwrap();
            socket.read_exact(&mut answer).unwrap();
        }
        socket.read_exact(&mut answer).unwrap();
        assert_eq!(answer[0], byte % 2, "{round}");
    }
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    let mut ended = [0; 4];
    socket.read_exact(&mut ended).unwrap();
    assert_eq!(u32::from_ne_bytes(ended), 1000);
}

#[test]
fn a_bell_gives_back_what_it_changed() {
    let daemon = kept(|mut socket| {
        let flags = || {
            // SAFETY: only asks for flags.
            unsafe { libc::fcntl(3, libc::F_GETFL) }
        };
        let caught = || {
            fs::read_to_string("/proc/self/status")
                .unwrap()
                .lines()
                .find(|l| l.starts_with("SigCgt"))
                .map(str::to_owned)
        };
        let before = (flags(), caught());
        let bell = Bell::new(&socket).unwrap();
        let while_it_lives = (flags(), caught());
        // If a signal of the timer or the socket still arrives after the bell is dropped, it ends the
        // process.
        assert_eq!(bell.wait(Some(Duration::from_millis(5))).unwrap(), None);
        // SAFETY: sends a signal to this process, which has a handler for it.
        unsafe { libc::raise(libc::SIGIO) };
        assert_eq!(bell.wait(None).unwrap(), None);
        // SAFETY: as above.
        unsafe { libc::raise(libc::SIGIO) };
        drop(bell);
        let after = (flags(), caught());
        std::thread::sleep(Duration::from_millis(20));
        write!(socket, "{} {}", before == after, before == while_it_lives).unwrap();
    });
    assert_eq!(rest(&daemon), "true false");
}
