//! The command line of the server.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

/// The longest time limit.
const MOST_SECONDS: u64 = 24 * 3600;

/// Serves measurements to coding agents: the Model Context Protocol on standard input and output.
#[derive(Parser, Debug)]
#[command(
    version,
    name = "cyclometer-mcp",
    max_term_width = 80,
    after_help = "Without --allow the tools that run programs refuse every program.\n\n\
                  Exit status: 0 at the end of the session, or after SIGINT or SIGTERM; 125 on failure"
)]
pub struct ServerArgs {
    /// A folder whose programs may be run, with everything below it; repeatable. Links are resolved first
    #[arg(long, value_name = "DIR")]
    pub allow: Vec<PathBuf>,
    /// The longest time that a call may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120,
          value_parser = clap::value_parser!(u64).range(1..=MOST_SECONDS))]
    pub timeout: u64,
    /// The largest result that a call may have, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 1024,
          value_parser = clap::value_parser!(u64).range(1..=65536))]
    pub max_output: u64,
    /// Number of calls that run at once; more than 1 disturb each other's times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: u32,
    /// Pass this variable of the server's environment to programs, too, or NAME=VALUE; repeatable
    #[arg(long, value_name = "NAME", value_parser = variable)]
    pub env: Vec<OsString>,
    /// Show what is allowed and which programs are there, and exit
    #[arg(long)]
    pub dry_run: bool,
    /// Print the manual page, in troff, and exit
    #[arg(long)]
    pub man: bool,
}

impl ServerArgs {
    /// The limits of each call.
    pub fn limits(&self) -> CallLimits {
        CallLimits {
            timeout: Duration::from_secs(self.timeout),
            output_bytes: usize::try_from(self.max_output.saturating_mul(1024)).unwrap_or(usize::MAX),
            jobs: usize::try_from(self.jobs).unwrap_or(1),
        }
    }
}

/// The limits of each call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallLimits {
    /// The longest time.
    pub timeout: Duration,
    /// The largest result.
    pub output_bytes: usize,
    /// How many run at once.
    pub jobs: usize,
}

fn variable(text: &str) -> Result<OsString, String> {
    match text.split_once('=').map_or(text, |(name, _)| name) {
        "" => Err("write it as NAME or NAME=VALUE".to_owned()),
        _ if text.contains('\0') => Err("a variable has no zero byte".to_owned()),
        _ => Ok(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent_and_limits_are_bounded() {
        ServerArgs::command().debug_assert();
        let read = |words: &[&str]| ServerArgs::try_parse_from([&["cyclometer-mcp"], words].concat());
        assert_eq!(read(&["--timeout", "7"]).unwrap().limits().timeout, Duration::from_secs(7));
        for words in [["--timeout", "0"], ["--jobs", "0"], ["--max-output", "0"], ["--env", "=x"]] {
            assert!(read(&words).is_err(), "{words:?}");
        }
    }
}
