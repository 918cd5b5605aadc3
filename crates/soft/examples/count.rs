//! Counts a command by the software PMU: `cargo run --release --example count -- [OPTIONS] CMD ARGS`.
//!
//! `--redundancy none|full|N`: which counters are there as a check; `--output null`: nothing that the command
//! prints. It fails where the command does, and where there are no counts.
#![allow(clippy::print_stderr, missing_docs)]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod count {
    use std::ffi::OsString;
    use std::fs::File;
    use std::io::{self, BufReader, Write};
    use std::os::fd::AsFd;

    use cyclometer_soft::flow::Redundancy;
    use cyclometer_soft::host::{TracerSettings, follow, protocol};
    use cyclometer_soft::{ExecutionEvent, translate};
    use cyclometer_sys::{daemon, process};

    struct CountOptions {
        redundancy: Redundancy,
        output: Option<File>,
        command: Vec<OsString>,
    }

    fn options() -> io::Result<CountOptions> {
        let mut words = std::env::args_os().skip(1).peekable();
        let mut options = CountOptions {
            redundancy: translate::TranslationSettings::default().redundancy,
            output: None,
            command: Vec::new(),
        };
        while let Some(name) = words.next_if(|word| word.as_encoded_bytes().starts_with(b"--")) {
            let value = words.next().unwrap_or_default();
            match (name.to_str(), value.to_str()) {
                (Some("--redundancy"), Some(value)) => options.redundancy = redundancy(value)?,
                (Some("--output"), Some("null")) => {
                    options.output = Some(File::options().write(true).open("/dev/null")?);
                }
                _ => return Err(io::ErrorKind::InvalidInput.into()),
            }
        }
        options.command = words.collect();
        Ok(options)
    }

    fn redundancy(value: &str) -> io::Result<Redundancy> {
        match value {
            "none" => Ok(Redundancy::None),
            "full" => Ok(Redundancy::Full),
            most => most.parse().map(Redundancy::PerEpoch).map_err(|_| io::ErrorKind::InvalidInput.into()),
        }
    }

    pub fn main() -> io::Result<()> {
        let options = options()?;
        let (program, args) = options.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let launcher = process::Launcher::start()?;
        let traced = Some(process::Traced { fixed_layout: true });
        let stdout = options.output.as_ref().map(AsFd::as_fd);
        let request = process::Request { program, args, stdin: None, stdout, stderr: None, traced };
        let mut pending = launcher.spawn(&request)?;
        let pid = pending.pid();
        let translation =
            translate::TranslationSettings { redundancy: options.redundancy, ..Default::default() };
        let tracer = daemon::fork(|socket| {
            let settings = TracerSettings { translation, fixed_layout: true, ..TracerSettings::default() };
            follow(pid, socket, settings, None)
        })?;
        let mut lines = BufReader::new(tracer.socket());
        eprintln!("{:?}", protocol::read_line(&mut lines)?);
        let start = std::time::Instant::now();
        pending.release();
        let ended = process::reap(pid, process::Reap::Block)?.map(|ended| ended.status);
        eprintln!("{ended:?} after {:?}", start.elapsed());
        let _ = tracer.socket().write_all(&[protocol::FINISH]);
        let report = protocol::read_report(&mut lines)?;
        report.iter().for_each(print);
        let counted = !report.is_empty() && report.iter().all(|process| process.counts.is_ok());
        if ended == Some(process::Status::Code(0)) && counted {
            Ok(())
        } else {
            Err(io::Error::other("no counts"))
        }
    }

    fn print(process: &protocol::ProcessCounts) {
        eprintln!("{} {} {}", process.pid, process.parent, process.name);
        for event in ExecutionEvent::ALL {
            match process.count(*event) {
                Ok(count) => eprintln!("  {count:>16} {event}"),
                Err(reason) => eprintln!("  {event}: {reason}"),
            }
            if process.counts.is_err() {
                break;
            }
        }
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() -> std::io::Result<()> {
    count::main()
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {}
