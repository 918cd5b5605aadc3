//! Counts a command by the software PMU: `cargo run --release --example count -- CMD ARGS`.
#![allow(clippy::print_stderr, missing_docs)]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() -> std::io::Result<()> {
    use cyclometer_soft::Event;
    use cyclometer_soft::host::{Settings, follow, protocol};
    use cyclometer_sys::{keeper, process};
    use std::io::{BufReader, Write};

    let mut args = std::env::args_os().skip(1);
    let program = args.next().ok_or(std::io::ErrorKind::InvalidInput)?;
    let args: Vec<_> = args.collect();
    let launcher = process::Launcher::start()?;
    let traced = Some(process::Traced { fixed_layout: true });
    let request = process::Request { program: &program, args: &args, stdin: None, stdout: None, stderr: None, traced };
    let mut pending = launcher.spawn(&request)?;
    let pid = pending.pid();
    let settings = Settings { fixed_layout: true, ..Settings::default() };
    let keeper = keeper::fork(|socket| follow(pid, socket, settings))?;
    let mut lines = BufReader::new(keeper.socket());
    eprintln!("{:?}", protocol::read_line(&mut lines)?);
    let start = std::time::Instant::now();
    pending.release();
    let ended = process::reap(pid, process::Reap::Block)?;
    eprintln!("{:?} after {:?}", ended.map(|ended| ended.status), start.elapsed());
    let _ = keeper.socket().write_all(&[protocol::FINISH]);
    for process in protocol::read_report(&mut lines)? {
        eprintln!("{} {} {}", process.pid, process.parent, process.name);
        for event in Event::ALL {
            match process.count(*event) {
                Ok(count) => eprintln!("  {count:>16} {event}"),
                Err(reason) => eprintln!("  {event}: {reason}"),
            }
            if process.counts.is_err() {
                break;
            }
        }
    }
    Ok(())
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {}
