//! Tracing of real processes.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::arch::asm;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use cyclometer_sys::daemon;
use cyclometer_sys::process::{SIGKILL, signal};
use cyclometer_sys::trace::{
    self, Change, Options, detach, event_message, interrupt, listen, peek, poke, read_memory, registers,
    resume, seize, send_signal, set_instruction_pointer, set_registers, set_signal_info, set_signal_mask,
    signal_info, signal_mask, step, wait_for, write_memory,
};
use cyclometer_sys::tracer_call::TracerCall;

/// A traced child process; killed and reaped when it is dropped.
struct Tracee(u32);

impl Tracee {
    /// Forks a process that does `work` after it was seized. The work must not allocate, because threads of
    /// other tests may have held locks.
    fn seized(options: Options, work: impl FnOnce()) -> Tracee {
        let (gate, theirs) = UnixStream::pair().unwrap();
        // SAFETY: the child calls only functions that are safe after fork, and never returns.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let _ = (&theirs).read(&mut [0]);
            work();
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) };
        }
        let tracee = Tracee(u32::try_from(pid).unwrap());
        seize(tracee.0, options | Options::EXIT_KILL).unwrap();
        (&gate).write_all(&[1]).unwrap();
        tracee
    }

    /// A tracee that was interrupted in its work, which does not end.
    fn stopped(work: impl FnOnce()) -> Tracee {
        let (mut begun, theirs) = UnixStream::pair().unwrap();
        let tracee = Tracee::seized(Options::default(), || {
            let _ = (&theirs).write(&[1]);
            work();
        });
        begun.read_exact(&mut [0]).unwrap();
        interrupt(tracee.0).unwrap();
        assert_eq!(tracee.next(), Change::Interrupted);
        tracee
    }

    fn next(&self) -> Change {
        wait_for(self.0).unwrap()
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        let _ = signal(self.0, SIGKILL);
        // A stop at the beginning of the end may come first.
        while wait_for(self.0).is_ok_and(|change| !matches!(change, Change::Exited(_) | Change::Killed(_))) {}
    }
}

/// Whether this machine forbids tracing; reports that.
fn cannot_trace() -> bool {
    // SAFETY: the child calls only functions that are safe after fork, and never returns.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        sleep();
    }
    let child = Tracee(u32::try_from(pid).unwrap());
    let Err(error) = seize(child.0, Options::default()) else { return false };
    cyclometer_test_support::skip(&format!("processes cannot be traced here: {error}"));
    true
}

fn errno<T: std::fmt::Debug>(answer: std::io::Result<T>) -> i32 {
    answer.unwrap_err().raw_os_error().unwrap()
}

/// Increments `rcx` for ever.
fn count() {
    // SAFETY: changes a register and the flags.
    unsafe { asm!("2: inc rcx", "jmp 2b", inout("rcx") 0u64 => _, options(nomem, nostack)) };
}

fn sleep() {
    loop {
        // SAFETY: takes nothing.
        unsafe { libc::pause() };
    }
}

#[test]
fn a_tracee_executes_one_instruction_a_step_and_sees_the_registers_it_is_given() {
    if cannot_trace() {
        return;
    }
    let tracee = Tracee::stopped(count);
    let mut before = registers(tracee.0).unwrap();
    // It may have been interrupted on its way into the loop.
    while peek(tracee.0, before.rip).unwrap() & 0xff_ffff != 0xc1_ff48 {
        step(tracee.0, 0).unwrap();
        assert_eq!(tracee.next(), Change::Signal(libc::SIGTRAP));
        before = registers(tracee.0).unwrap();
    }
    before.rcx = 1000;
    set_registers(tracee.0, &before).unwrap();
    for (rcx, offset) in [(1001, 3), (1001, 0), (1002, 3), (1002, 0)] {
        step(tracee.0, 0).unwrap();
        assert_eq!(tracee.next(), Change::Signal(libc::SIGTRAP));
        assert_eq!(signal_info(tracee.0).unwrap().code(), libc::TRAP_TRACE);
        let now = registers(tracee.0).unwrap();
        assert_eq!((now.rcx, now.rip - before.rip), (rcx, offset));
    }
    set_instruction_pointer(tracee.0, before.rip + 3).unwrap();
    let now = registers(tracee.0).unwrap();
    assert_eq!((now.rip - before.rip, now.rcx, now.rsp), (3, 1002, before.rsp));
}

#[test]
fn memory_is_read_and_written_in_the_tracee_only() {
    if cannot_trace() {
        return;
    }
    let mut ours = [7u8; 100];
    let address = ours.as_mut_ptr() as u64;
    let tracee = Tracee::stopped(sleep);
    ours.fill(1);
    let mut bytes = [0; 100];
    assert_eq!(read_memory(tracee.0, address, &mut bytes).unwrap(), 100);
    assert_eq!(bytes, [7; 100]);
    assert_eq!(write_memory(tracee.0, address + 50, &[9; 50]).unwrap(), 50);
    poke(tracee.0, address, u64::from_ne_bytes(*b"cyclomet")).unwrap();
    assert_eq!(peek(tracee.0, address).unwrap().to_ne_bytes(), *b"cyclomet");
    assert_eq!(read_memory(tracee.0, address, &mut bytes).unwrap(), 100);
    assert_eq!((&bytes[..8], &bytes[8..50], &bytes[50..]), (&b"cyclomet"[..], &[7; 42][..], &[9; 50][..]));
    assert_eq!(ours, [1; 100]);
}

/// Three pages: writable, read-only, without any access.
fn pages() -> u64 {
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping.
    let start = unsafe {
        libc::mmap(std::ptr::null_mut(), 3 * 4096, libc::PROT_READ | libc::PROT_WRITE, kind, -1, 0)
    };
    assert_ne!(start, libc::MAP_FAILED);
    for (page, access) in [(1, libc::PROT_READ), (2, libc::PROT_NONE)] {
        // SAFETY: inside the mapping.
        let place = unsafe { start.add(page * 4096) };
        // SAFETY: nobody uses the page.
        assert_eq!(unsafe { libc::mprotect(place, 4096, access) }, 0);
    }
    start as u64
}

#[test]
fn what_cannot_be_accessed_ends_a_transfer_or_refuses_it() {
    if cannot_trace() {
        return;
    }
    let start = pages();
    let tracee = Tracee::stopped(sleep);
    let mut bytes = [0; 3 * 4096];
    assert_eq!(read_memory(tracee.0, start, &mut bytes).unwrap(), 8192);
    assert_eq!(read_memory(tracee.0, start + 8191, &mut bytes[..2]).unwrap(), 1);
    assert_eq!(errno(read_memory(tracee.0, start + 8192, &mut bytes)), libc::EFAULT);
    assert_eq!(write_memory(tracee.0, start + 4095, &[1; 10]).unwrap(), 1);
    assert_eq!(errno(write_memory(tracee.0, start + 4096, &[1])), libc::EFAULT);
    poke(tracee.0, start + 4096, 5).unwrap();
    assert_eq!(peek(tracee.0, start + 4096).unwrap(), 5);
    assert!(matches!(errno(peek(tracee.0, 8)), libc::EIO | libc::EFAULT));
}

#[test]
fn every_request_about_a_stranger_is_refused() {
    let own = std::process::id();
    let mut byte = [0];
    let answers = [
        errno(interrupt(own)),
        errno(resume(own, 0)),
        errno(step(own, 0)),
        errno(listen(own)),
        errno(detach(own, 0)),
        errno(registers(own)),
        errno(event_message(own)),
        errno(signal_info(own)),
        errno(signal_mask(own)),
        errno(set_signal_mask(own, 0)),
        errno(peek(own, 0)),
        errno(poke(own, 0, 0)),
        errno(seize(0x7fff_fff0, Options::default())),
        errno(read_memory(0x7fff_fff0, 0, &mut byte)),
        errno(write_memory(0, 0, &byte)),
        errno(send_signal(own, 0x7fff_fff0, 0)),
    ];
    assert_eq!(answers, [libc::ESRCH; 16]);
    assert_eq!(errno(seize(own, Options::default())), libc::EPERM);
}

#[test]
fn a_blocked_signal_stays_with_the_tracee_until_its_mask_lets_it_through() {
    if cannot_trace() {
        return;
    }
    let tracee = Tracee::stopped(sleep);
    let before = signal_mask(tracee.0).unwrap();
    let bit = 1 << (libc::SIGUSR2 - 1);
    set_signal_mask(tracee.0, before | bit).unwrap();
    assert_eq!(signal_mask(tracee.0).unwrap(), before | bit);
    send_signal(tracee.0, tracee.0, libc::SIGUSR2).unwrap();
    send_signal(tracee.0, tracee.0, libc::SIGUSR1).unwrap();
    resume(tracee.0, 0).unwrap();
    assert_eq!(tracee.next(), Change::Signal(libc::SIGUSR1));
    set_signal_mask(tracee.0, before).unwrap();
    resume(tracee.0, 0).unwrap();
    assert_eq!(tracee.next(), Change::Signal(libc::SIGUSR2));
}

#[test]
fn a_signal_names_its_sender_and_can_be_swallowed_or_delivered() {
    if cannot_trace() {
        return;
    }
    let tracee = Tracee::stopped(sleep);
    resume(tracee.0, 0).unwrap();
    for _ in 0..2 {
        send_signal(tracee.0, tracee.0, libc::SIGUSR1).unwrap();
        assert_eq!(tracee.next(), Change::Signal(libc::SIGUSR1));
        let info = signal_info(tracee.0).unwrap();
        assert_eq!((info.number(), info.code()), (libc::SIGUSR1, libc::SI_TKILL));
        assert_eq!(info.sender(), Some(std::process::id()));
        resume(tracee.0, 0).unwrap();
    }
    send_signal(tracee.0, tracee.0, libc::SIGUSR1).unwrap();
    assert_eq!(tracee.next(), Change::Signal(libc::SIGUSR1));
    resume(tracee.0, libc::SIGUSR1).unwrap();
    assert_eq!(tracee.next(), Change::Killed(libc::SIGUSR1));
}

#[test]
fn the_address_of_a_fault_can_be_read_and_replaced() {
    if cannot_trace() {
        return;
    }
    let tracee = Tracee::seized(Options::default(), || {
        // SAFETY: takes numbers. Rust's runtime has a handler for it.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        // SAFETY: reads where nothing is mapped, on purpose: this process ends here.
        unsafe { asm!("mov eax, [{}]", in(reg) 0x18u64, out("eax") _) };
    });
    assert_eq!(tracee.next(), Change::Signal(libc::SIGSEGV));
    let mut info = signal_info(tracee.0).unwrap();
    assert_eq!((info.number(), info.address(), info.sender()), (libc::SIGSEGV, 0x18, None));
    info.set_address(0x7000_0000_1234);
    set_signal_info(tracee.0, &info).unwrap();
    assert_eq!(signal_info(tracee.0).unwrap(), info);
    assert!(format!("{info:?}").contains("0x700000001234"));
    resume(tracee.0, libc::SIGSEGV).unwrap();
    assert_eq!(tracee.next(), Change::Killed(libc::SIGSEGV));
}

/// Creates a process that exits with 3, with these flags of `clone(2)`.
fn clone(flags: i32) {
    // SAFETY: no new stack or memory: as a fork.
    if unsafe { libc::syscall(libc::SYS_clone, i64::from(flags), 0, 0, 0, 0) } == 0 {
        // SAFETY: ends the child.
        unsafe { libc::_exit(3) };
    }
}

#[test]
fn a_new_process_is_traced_from_its_birth_and_named() {
    if cannot_trace() {
        return;
    }
    let all = Options::FORK | Options::VFORK | Options::CLONE;
    let kinds = [
        (libc::SIGCHLD, Change::Fork),
        (libc::SIGCHLD | libc::CLONE_VFORK, Change::VFork),
        (0, Change::Clone),
    ];
    for (flags, event) in kinds {
        let tracee = Tracee::seized(all, || clone(flags));
        assert_eq!(tracee.next(), event);
        let child = u32::try_from(event_message(tracee.0).unwrap()).unwrap();
        assert_eq!(wait_for(child).unwrap(), Change::Interrupted);
        resume(tracee.0, 0).unwrap();
        resume(child, 0).unwrap();
        assert_eq!(wait_for(child).unwrap(), Change::Exited(3));
        let end = loop {
            match tracee.next() {
                Change::Signal(libc::SIGCHLD) => resume(tracee.0, 0).unwrap(),
                change => break change,
            }
        };
        assert_eq!(end, Change::Exited(0), "{event:?}");
    }
}

#[test]
fn a_new_program_and_the_end_are_announced() {
    if cannot_trace() {
        return;
    }
    let tracee = Tracee::seized(Options::EXEC | Options::EXIT, || {
        let argv = [c"sh".as_ptr(), c"-c".as_ptr(), c"exit 5".as_ptr(), std::ptr::null()];
        // SAFETY: C strings, and a null pointer at the end.
        unsafe { libc::execv(c"/bin/sh".as_ptr(), argv.as_ptr()) };
    });
    let before = tracee.next();
    assert_eq!(before, Change::Exec);
    assert_eq!(event_message(tracee.0).unwrap(), u64::from(tracee.0));
    resume(tracee.0, 0).unwrap();
    assert_eq!(tracee.next(), Change::Exiting);
    assert_eq!(event_message(tracee.0).unwrap(), 5 << 8);
    assert!(registers(tracee.0).unwrap().rip != 0);
    resume(tracee.0, 0).unwrap();
    assert_eq!(tracee.next(), Change::Exited(5));
}

#[test]
fn the_stop_of_a_group_lasts_until_somebody_continues_it() {
    if cannot_trace() {
        return;
    }
    let tracee = Tracee::stopped(sleep);
    resume(tracee.0, 0).unwrap();
    signal(tracee.0, libc::SIGSTOP).unwrap();
    assert_eq!(tracee.next(), Change::Signal(libc::SIGSTOP));
    assert_eq!(errno(listen(tracee.0)), libc::EIO);
    resume(tracee.0, libc::SIGSTOP).unwrap();
    assert_eq!(tracee.next(), Change::Group(libc::SIGSTOP));
    assert_eq!(signal_info(tracee.0).unwrap().code(), libc::PTRACE_EVENT_STOP << 8 | libc::SIGSTOP);
    listen(tracee.0).unwrap();
    signal(tracee.0, libc::SIGCONT).unwrap();
    assert_eq!(tracee.next(), Change::Interrupted);
    resume(tracee.0, 0).unwrap();
    assert_eq!(tracee.next(), Change::Signal(libc::SIGCONT));
    resume(tracee.0, libc::SIGCONT).unwrap();
    interrupt(tracee.0).unwrap();
    assert_eq!(tracee.next(), Change::Interrupted);
}

#[test]
fn a_detached_process_runs_on_by_itself() {
    if cannot_trace() {
        return;
    }
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let tracee = Tracee::stopped(|| {
        let _ = (&theirs).read(&mut [0]);
        let _ = (&theirs).write(&[2]);
    });
    detach(tracee.0, 0).unwrap();
    assert_eq!(errno(registers(tracee.0)), libc::ESRCH);
    ours.write_all(&[1]).unwrap();
    ours.read_exact(&mut [0]).unwrap();
    assert_eq!(tracee.next(), Change::Exited(0));
}

#[test]
fn a_detached_process_gets_the_signal_that_goes_with_it() {
    if cannot_trace() {
        return;
    }
    let tracee = Tracee::stopped(sleep);
    resume(tracee.0, 0).unwrap();
    send_signal(tracee.0, tracee.0, libc::SIGUSR1).unwrap();
    assert_eq!(tracee.next(), Change::Signal(libc::SIGUSR1));
    detach(tracee.0, libc::SIGTERM).unwrap();
    assert_eq!(tracee.next(), Change::Killed(libc::SIGTERM));
}

/// Runs a test that must have a process of its own in a daemon, and returns the data that it sends.
fn alone(work: impl FnOnce(&mut UnixStream)) -> Vec<u8> {
    let daemon = daemon::fork(|mut socket| work(&mut socket)).unwrap();
    daemon.socket().set_read_timeout(Some(Duration::from_secs(300))).unwrap();
    let mut said = Vec::new();
    daemon.socket().read_to_end(&mut said).unwrap();
    said
}

#[test]
fn a_wait_for_anybody_finds_each_change_once_and_nothing_without_tracees() {
    if cannot_trace() {
        return;
    }
    let said = alone(|socket| {
        let nobody = trace::wait().unwrap();
        let first = Tracee::seized(Options::default(), sleep);
        let idle = trace::wait().unwrap();
        let second = Tracee::seized(Options::default(), || ());
        let mut changes = Vec::new();
        interrupt(first.0).unwrap();
        while changes.len() < 2 {
            changes.extend(trace::wait().unwrap());
        }
        changes.sort_by_key(|(tid, _)| *tid != first.0);
        let expected = vec![(first.0, Change::Interrupted), (second.0, Change::Exited(0))];
        let again = trace::wait().unwrap();
        write!(socket, "{nobody:?} {idle:?} {again:?} {}", changes == expected).unwrap();
    });
    assert_eq!(String::from_utf8(said).unwrap(), "None None None true");
}

#[test]
fn the_end_of_a_tracer_kills_those_that_are_to_die_with_it() {
    if cannot_trace() {
        return;
    }
    let (ours, theirs) = UnixStream::pair().unwrap();
    // SAFETY: the child calls only functions that are safe after fork, and never returns.
    let tracee = unsafe { libc::fork() };
    if tracee == 0 {
        trace_me();
        let _ = (&theirs).write(&[1]);
        sleep();
    }
    let tracee = u32::try_from(tracee).unwrap();
    (&ours).read_exact(&mut [0]).unwrap();
    let said = alone(|socket| {
        let answer = seize(tracee, Options::EXIT_KILL);
        write!(socket, "{answer:?}").unwrap();
    });
    assert_eq!(String::from_utf8(said).unwrap(), "Ok(())");
    assert_eq!(wait_for(tracee).unwrap(), Change::Killed(SIGKILL));
}

/// Permits being traced, where Yama requires it.
fn trace_me() {
    // SAFETY: takes a number.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY) };
}

#[test]
fn tracing_is_tried_without_a_trace_left() {
    if cannot_trace() {
        return;
    }
    let said = alone(|socket| {
        let permitted = trace::permitted();
        let left = trace::wait();
        // SAFETY: asks for a child; there is none.
        let child = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) };
        let open = std::fs::read_dir("/proc/self/fd").unwrap().count();
        write!(socket, "{permitted:?} {left:?} {child} {open}").unwrap();
    });
    // 0, 1, 2, the socket and the folder.
    assert_eq!(String::from_utf8(said).unwrap(), "Ok(()) Ok(None) -1 5");
}

#[test]
fn a_sandbox_that_forbids_a_call_of_the_software_pmu_is_found_out_by_the_calls_name() {
    if cannot_trace() {
        return;
    }
    let calls = [
        (TracerCall::Ptrace, libc::SYS_ptrace),
        (TracerCall::ProcessVmReadv, libc::SYS_process_vm_readv),
        (TracerCall::ProcessVmWritev, libc::SYS_process_vm_writev),
        (TracerCall::MemfdCreate, libc::SYS_memfd_create),
        (TracerCall::Ftruncate, libc::SYS_ftruncate),
        (TracerCall::Prlimit, libc::SYS_prlimit64),
    ];
    let actions = [
        (libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, libc::EPERM),
        (libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32, libc::ENOSYS),
        (libc::SECCOMP_RET_KILL_PROCESS, libc::EPERM),
    ];
    for ((call, number), (action, errno)) in
        calls.into_iter().flat_map(|call| actions.map(|what| (call, what)))
    {
        let said = alone(|socket| {
            forbid(number, action);
            write!(socket, "{:?}", trace::permitted()).unwrap();
        });
        let expected = format!("{:?}", Err::<(), _>(trace::Forbidden::Call { call, errno }));
        assert_eq!(String::from_utf8(said).unwrap(), expected);
    }
}

#[test]
fn tracing_is_tried_where_ends_of_children_are_ignored() {
    if cannot_trace() {
        return;
    }
    let said = alone(|socket| {
        // SAFETY: no handler is installed.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        write!(socket, "{:?}", trace::permitted()).unwrap();
    });
    assert_eq!(String::from_utf8(said).unwrap(), "Ok(())");
}

/// Installs a filter that does `action` at each system call with this number, of this process and its
/// children.
fn forbid(call: libc::c_long, action: u32) {
    let statement = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, action),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_ptr().cast_mut() };
    // SAFETY: takes numbers.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: reads the program, which lives.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(set, 0);
}
