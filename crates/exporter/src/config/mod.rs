//! The configuration file.

mod keys;
mod tree;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use glob::Pattern;

/// The longest file that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// The events of the machine by default: those of a PMU, where there is one, and the kernel's.
pub const MACHINE_EVENTS: &str = "cycles,instructions,branch-misses,cache-misses,context-switches,cpu-migrations,\
page-faults,user_time,system_time,energy-pkg";

/// The events of control groups and processes by default.
pub const GROUP_EVENTS: &str = "cycles,instructions,context-switches,page-faults,task-clock";

/// Everything that a file can configure.
#[derive(Clone, Debug, PartialEq)]
pub struct ExporterConfig {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// How old a read may be that another scrape gets.
    pub max_age: Duration,
    /// How long a scrape waits for a read.
    pub deadline: Duration,
    /// How often control groups and processes are looked for.
    pub rescan: Duration,
    /// The limits on what is used.
    pub limits: Limits,
    /// The events of the machine, as a list.
    pub machine_events: String,
    /// The control groups.
    pub cgroups: CgroupRules,
    /// The processes.
    pub processes: Vec<ProcessRule>,
    /// The certificate and the key of TLS.
    pub tls: Option<TlsFiles>,
    /// The users, each with the bcrypt hash of the password; everybody may read where there is none.
    pub users: BTreeMap<String, String>,
}

/// The limits on what is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// File descriptors of counters; `None`: what the process may open, less a reserve for connections.
    pub descriptors: Option<usize>,
    /// Series of targets.
    pub series: usize,
    /// Connections at the same time.
    pub connections: usize,
}

/// Which control groups are counted.
#[derive(Clone, Debug, PartialEq)]
pub struct CgroupRules {
    /// The events, as a list.
    pub events: String,
    /// Patterns of paths below the root, without the leading slash. None: no control group is counted.
    pub include: Vec<Pattern>,
    /// Patterns of those that are left out all the same.
    pub exclude: Vec<Pattern>,
    /// The root folder; `None`: that of the hierarchy that perf counts.
    pub root: Option<PathBuf>,
}

/// One process, or all of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRule {
    /// The label.
    pub name: String,
    /// How it is found.
    pub finder: ProcessFinder,
    /// The events, as a list.
    pub events: String,
}

/// How a process is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessFinder {
    /// By its id.
    Pid(u32),
    /// By a file with its id.
    PidFile(PathBuf),
    /// By the name that the kernel has of it (`/proc/PID/comm`); several may have it.
    Comm(String),
}

/// The files of TLS, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, with those of its issuers behind it.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Default for ExporterConfig {
    fn default() -> ExporterConfig {
        ExporterConfig {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9753),
            max_age: Duration::from_millis(500),
            deadline: Duration::from_secs(5),
            rescan: Duration::from_secs(10),
            limits: Limits { descriptors: None, series: 20_000, connections: 1_024 },
            machine_events: MACHINE_EVENTS.to_owned(),
            cgroups: CgroupRules {
                events: GROUP_EVENTS.to_owned(),
                include: Vec::new(),
                exclude: Vec::new(),
                root: None,
            },
            processes: Vec::new(),
            tls: None,
            users: BTreeMap::new(),
        }
    }
}

/// A mistake in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Line, from 1; 0 where the file ends too early.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    /// The mistake, with the key.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.message),
            line => write!(f, "line {line}, column {}: {}", self.column, self.message),
        }
    }
}

impl std::error::Error for ConfigError {}

impl ExporterConfig {
    /// Reads the text of a file.
    ///
    /// # Errors
    ///
    /// A [`ConfigError`] with line, column and key.
    pub fn parse(text: &str) -> Result<ExporterConfig, ConfigError> {
        match tree::parse(text)? {
            None => Ok(ExporterConfig::default()),
            Some(root) => keys::read(&root),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The reason in words, with the file's name.
    pub fn read(path: &Path) -> Result<ExporterConfig, String> {
        let shown = path.display();
        let mut text = String::new();
        File::open(path)
            .and_then(|file| file.take(LONGEST + 1).read_to_string(&mut text))
            .map_err(|error| format!("cannot read the configuration {shown}: {error}"))?;
        if text.len() as u64 > LONGEST {
            return Err(format!("the configuration {shown} is longer than 1 MiB"));
        }
        ExporterConfig::parse(&text).map_err(|error| format!("{shown}: {error}"))
    }
}
