//! `cyclometer-exporter`: counters of a machine, its control groups and processes for Prometheus.
#![forbid(unsafe_code)]

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::{CommandFactory as _, Parser};
use cyclometer_exporter::answers::{MOST_TEXTS, TextPlaces};
use cyclometer_exporter::auth::Users;
use cyclometer_exporter::budget::{self, TargetNeed};
use cyclometer_exporter::cgroup_news::CgroupNews;
use cyclometer_exporter::cgroup_watch;
use cyclometer_exporter::collector::{Collector, Rescan};
use cyclometer_exporter::config::{ExporterConfig, Limits};
use cyclometer_exporter::counters::HostCounters;
use cyclometer_exporter::exposition::{TextFormat, render};
use cyclometer_exporter::hub::{self, Hub, ReaderEnd};
use cyclometer_exporter::scrapes::ScrapeCounts;
use cyclometer_exporter::server::{self, ServerSetup, ServerState};
use cyclometer_toolkit::{counted_cgroup_root, diagnosed_machine, raise_open_files};
use glob::Pattern;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// The exporter failed, or its arguments make no sense.
const FAILURE: u8 = 125;

/// The stack of the thread that owns the counters.
const READER_STACK: usize = 2 << 20;

/// For how long work that is still going on may take when the exporter ends.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// How many files a process may open where that is unknown.
const OPEN_FILES: u64 = 1024;

/// Serves the counters of this machine, its control groups and processes as OpenMetrics.
#[derive(Parser, Debug)]
#[command(
    version,
    name = "cyclometer-exporter",
    after_help = "Exit status: 0 after SIGINT or SIGTERM; 125 on failure"
)]
struct ExporterArgs {
    /// Configuration file (YAML); docs/guides/fleet.md lists its keys
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address to listen on [default: 127.0.0.1:9753]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    listen: Option<SocketAddr>,
    /// Events of the machine, as in `cyclometer stat -e`
    #[arg(long, value_name = "EVENTS")]
    events: Option<String>,
    /// Pattern of control groups to count, such as 'system.slice/*'; repeatable
    #[arg(long, value_name = "PATTERN")]
    cgroups: Vec<Pattern>,
    /// Send the metrics to this OpenTelemetry collector as well, such as http://127.0.0.1:4318
    #[cfg(feature = "otlp")]
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
    /// Time between two messages to the collector, in seconds
    #[cfg(feature = "otlp")]
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=3600))]
    otlp_interval: u64,
    /// Check configuration, events, TLS files and --otlp, and exit
    #[arg(long)]
    check: bool,
    /// Print the metrics once, in the text format of Prometheus, and exit
    #[arg(long)]
    once: bool,
    /// Print the manual page, in troff, and exit
    #[arg(long)]
    man: bool,
}

fn main() -> ExitCode {
    let args = match ExporterArgs::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let code = if error.use_stderr() { FAILURE } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let done = if args.man { print_manual_page() } else { run(&args) };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "cyclometer-exporter: error: {message}");
            ExitCode::from(FAILURE)
        }
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "it is no address with a port, such as 127.0.0.1:9753".to_owned())
}

fn print_manual_page() -> Result<(), String> {
    let page = clap_mangen::Man::new(ExporterArgs::command()).section("8");
    page.render(&mut std::io::stdout()).map_err(|error| format!("cannot write the manual page: {error}"))
}

fn configured(args: &ExporterArgs) -> Result<ExporterConfig, String> {
    let mut config = match &args.config {
        Some(path) => ExporterConfig::read(path)?,
        None => ExporterConfig::default(),
    };
    config.listen = args.listen.unwrap_or(config.listen);
    if let Some(events) = &args.events {
        config.machine_events.clone_from(events);
    }
    if !args.cgroups.is_empty() {
        config.cgroups.include.clone_from(&args.cgroups);
    }
    Ok(config)
}

fn run(args: &ExporterArgs) -> Result<(), String> {
    let config = configured(args)?;
    let machine = diagnosed_machine();
    let counters = HostCounters::new(&machine, &config)?;
    if let Some(root) = &config.cgroups.root {
        std::fs::read_dir(root)
            .map_err(|error| format!("cgroups.root: cannot read the folder {}: {error}", root.display()))?;
    }
    let tls = config.tls.as_ref().map(server::tls_config).transpose()?;
    #[cfg(feature = "otlp")]
    args.otlp.as_deref().map(cyclometer_exporter::otlp::collector_address).transpose()?;
    if args.check {
        return Ok(());
    }
    let room = Room::of_this_process(config.limits);
    let scrapes = Arc::new(ScrapeCounts::default());
    let root = config.cgroups.root.clone().or_else(counted_cgroup_root);
    let watched_root = root.clone();
    let collector = {
        let (config, scrapes) = (config.clone(), Arc::clone(&scrapes));
        move || Collector::new(counters, config, &machine, root, room.counters, scrapes)
    };
    if args.once {
        return print_once(collector());
    }
    let listener = server::listen(config.listen)?;
    let (hub, end) = hub::channel(config.max_age, config.deadline);
    let news = watched_groups(&config, watched_root, &hub);
    let reader = start_reader(collector, end, config.rescan, news)?;
    let setup =
        ServerSetup { listener, tls, connections: room.connections, head_timeout: server::HEAD_TIMEOUT };
    let (users, texts) = (Users::new(config.users.clone()), TextPlaces::new(MOST_TEXTS));
    let state = Arc::new(ServerState { hub: hub.clone(), users, scrapes, texts });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the server: {error}"))?;
    let result = runtime.block_on(serve((args, &config), setup, state, hub, reader.ended));
    // The reader ends when nothing can ask it any more.
    runtime.shutdown_timeout(END_TIMEOUT);
    let read = joined(reader.thread);
    result?;
    read
}

/// Joins the thread that reads the counters. A read that hangs, as on a file system without a server, must
/// not keep the process: the thread ends with it.
fn joined(thread: JoinHandle<()>) -> Result<(), String> {
    let until = Instant::now() + END_TIMEOUT;
    while !thread.is_finished() {
        if Instant::now() >= until {
            let seconds = END_TIMEOUT.as_secs();
            warn(&format!("the thread that reads the counters did not end within {seconds} s"));
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    thread.join().map_err(|_| "the thread that reads the counters failed".to_owned())
}

fn warn(text: &str) {
    let _ = writeln!(std::io::stderr(), "cyclometer-exporter: warning: {text}");
}

/// The shares of counters and connections in what this process may open.
#[derive(Clone, Copy)]
struct Room {
    counters: TargetNeed,
    connections: usize,
}

impl Room {
    fn of_this_process(limits: Limits) -> Room {
        let open_files = usize::try_from(raise_open_files().unwrap_or(OPEN_FILES)).unwrap_or(usize::MAX);
        let connections = budget::connections(open_files, limits.connections);
        let descriptors = budget::descriptors_for_counters(open_files, connections);
        let descriptors = limits.descriptors.map_or(descriptors, |wanted| wanted.min(descriptors));
        Room { counters: TargetNeed { descriptors, series: limits.series }, connections }
    }
}

fn print_once(mut collector: Collector<HostCounters>) -> Result<(), String> {
    while collector.rescan() == Rescan::MoreToOpen {}
    let text = render(&collector.read().families, TextFormat::Prometheus);
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| format!("cannot write: {error}"))
}

/// The watch of the control groups, if any are counted and the system permits it.
fn watched_groups(config: &ExporterConfig, root: Option<PathBuf>, hub: &Hub) -> Option<CgroupNews> {
    let root = root.filter(|_| !config.cgroups.include.is_empty())?;
    let watch = cgroup_watch::start(&root, hub.reader_wake());
    watch
        .map_err(|error| {
            let seconds = config.rescan.as_secs();
            warn(&format!(
                "control groups are searched every {seconds} s, as they cannot be watched: {error}; if there \
                 are too many, raise fs.inotify.max_user_watches"
            ));
        })
        .ok()
}

/// The thread that owns the counters.
struct Reader {
    thread: JoinHandle<()>,
    /// Ready when the thread has ended, however it did.
    ended: oneshot::Receiver<()>,
}

fn start_reader(
    collector: impl FnOnce() -> Collector<HostCounters> + Send + 'static,
    end: ReaderEnd,
    rescan: Duration,
    news: Option<CgroupNews>,
) -> Result<Reader, String> {
    let (drops, ended) = oneshot::channel::<()>();
    let thread = std::thread::Builder::new()
        .name("counters".to_owned())
        .stack_size(READER_STACK)
        .spawn(move || {
            let _drops = drops;
            end.run(&mut collector(), rescan, news.as_ref());
        })
        .map_err(|error| format!("cannot start the thread that reads the counters: {error}"))?;
    Ok(Reader { thread, ended })
}

async fn serve(
    (args, config): (&ExporterArgs, &ExporterConfig),
    service: ServerSetup,
    state: Arc<ServerState>,
    hub: Hub,
    reader_ended: oneshot::Receiver<()>,
) -> Result<(), String> {
    let watch = |kind| signal(kind).map_err(|error| format!("cannot watch signals: {error}"));
    let (mut interrupt, mut terminate) = (watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?);
    #[cfg(feature = "otlp")]
    if let Some(url) = &args.otlp {
        let interval = Duration::from_secs(args.otlp_interval);
        let sender = cyclometer_exporter::otlp::OtlpSender::new(url)?;
        tokio::spawn(cyclometer_exporter::otlp::run(sender, hub.clone(), interval));
    }
    drop((args, hub));
    warn_of_open_address(config);
    // The port that the system chose, where the configured one is 0.
    let address = service.listener.local_addr().unwrap_or(config.listen);
    let _ =
        writeln!(std::io::stderr(), "cyclometer-exporter: serving {}://{address}/metrics", scheme(config));
    let end = async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = reader_ended => {}
        }
    };
    server::serve(service, state, end).await.map_err(|error| format!("cannot serve: {error}"))
}

fn scheme(config: &ExporterConfig) -> &'static str {
    if config.tls.is_some() { "https" } else { "http" }
}

/// Counts say what runs on a machine, and passwords in plain text can be read.
fn warn_of_open_address(config: &ExporterConfig) {
    if config.listen.ip().is_loopback() {
        return;
    }
    match (config.tls.is_some(), config.users.is_empty()) {
        (_, true) => {
            warn("everybody who reaches the address can read the metrics; the key users asks for a password")
        }
        (false, false) => warn("passwords travel in plain text; the key tls encrypts them"),
        (true, false) => {}
    }
}
