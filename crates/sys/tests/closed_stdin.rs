//! A program whose standard input is closed. A single test, because it closes it for the whole process.

use std::fs::{self, File};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use cyclometer_sys::process::{Launcher, Reap, Request, Status, reap};

#[test]
fn a_closed_stream_stays_closed_for_the_command_and_disturbs_nothing() {
    // SAFETY: no code in this process uses standard input; it is closed here, once.
    drop(unsafe { OwnedFd::from_raw_fd(0) });
    // The helper's socket and each command's gate now get the descriptor number 0.
    let launcher = Launcher::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("output");
    for _ in 0..2 {
        let file = File::create(&path).unwrap();
        let args =
            ["-c", "ls -l /proc/self/fd/0 2>/dev/null | grep -c -e socket -e pipe; echo end"].map(Into::into);
        let request = Request {
            program: "sh".as_ref(),
            args: &args,
            stdin: None,
            stdout: Some(file.as_fd()),
            stderr: None,
            traced: None,
        };
        let mut pending = launcher.spawn(&request).unwrap();
        pending.release();
        assert_eq!(reap(pending.pid(), Reap::Block).unwrap().unwrap().status, Status::Code(0));
        assert_eq!(fs::read_to_string(&path).unwrap(), "0\nend\n");
    }
}
