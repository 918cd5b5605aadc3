//! `cyclometer-exporter`: counters of a machine, its control groups and processes for Prometheus.
#![forbid(unsafe_code)]

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use cyclometer::{counted_cgroup_root, diagnosed_machine, raise_open_files};
use cyclometer_exporter::auth::Users;
use cyclometer_exporter::budget::{self, TargetNeed};
use cyclometer_exporter::collector::Collector;
use cyclometer_exporter::config::ExporterConfig;
use cyclometer_exporter::counters::HostCounters;
use cyclometer_exporter::exposition::{TextFormat, render};
use cyclometer_exporter::hub::{self, Hub, ScrapeCounts};
use cyclometer_exporter::server::{self, ServerState, Service};
use glob::Pattern;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// The exporter failed, or its arguments make no sense.
const FAILURE: u8 = 125;

/// The stack of the thread that owns the counters.
const READER_STACK: usize = 2 << 20;

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
    #[arg(long, value_name = "ADDRESS")]
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
    /// Check configuration, events and TLS files, and exit
    #[arg(long)]
    check: bool,
    /// Print the metrics once, in the text format of Prometheus, and exit
    #[arg(long)]
    once: bool,
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
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "cyclometer-exporter: error: {message}");
            ExitCode::from(FAILURE)
        }
    }
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
    let tls = config.tls.as_ref().map(server::tls_config).transpose()?;
    if args.check {
        return Ok(());
    }
    let open_files = usize::try_from(raise_open_files().unwrap_or(OPEN_FILES)).unwrap_or(usize::MAX);
    let connections = budget::connections(open_files, config.limits.connections);
    let most = TargetNeed {
        descriptors: config
            .limits
            .descriptors
            .unwrap_or(usize::MAX)
            .min(budget::descriptors_for_counters(open_files, connections)),
        series: config.limits.series,
    };
    let scrapes = Arc::new(ScrapeCounts::default());
    let root = config.cgroups.root.clone().or_else(counted_cgroup_root);
    let made = {
        let (config, scrapes) = (config.clone(), Arc::clone(&scrapes));
        move || Collector::new(counters, config, &machine, root, most, scrapes)
    };
    if args.once {
        let mut collector = made();
        collector.rescan();
        let text = render(&collector.read().families, TextFormat::Prometheus);
        return std::io::stdout()
            .write_all(text.as_bytes())
            .map_err(|error| format!("cannot write: {error}"));
    }
    let listener = server::listen(config.listen)?;
    let (hub, reader) = hub::channel(config.max_age, config.deadline);
    let (ended, reader_ended) = oneshot::channel::<()>();
    let rescan = config.rescan;
    let thread = std::thread::Builder::new()
        .name("counters".to_owned())
        .stack_size(READER_STACK)
        .spawn(move || {
            // Dropped when the thread ends, however it does.
            let _ended = ended;
            reader.run(&mut made(), rescan);
        })
        .map_err(|error| format!("cannot start the thread that reads the counters: {error}"))?;
    let state = Arc::new(ServerState { hub: hub.clone(), users: Users::new(config.users.clone()), scrapes });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the server: {error}"))?;
    let result = runtime.block_on(serve(
        (args, &config),
        Service { listener, tls, connections },
        state,
        hub,
        reader_ended,
    ));
    drop(runtime);
    let read = thread.join();
    result?;
    read.map_err(|_| "the thread that reads the counters failed".to_owned())
}

async fn serve(
    (args, config): (&ExporterArgs, &ExporterConfig),
    service: Service,
    state: Arc<ServerState>,
    hub: Hub,
    reader_ended: oneshot::Receiver<()>,
) -> Result<(), String> {
    let watch = |kind| signal(kind).map_err(|error| format!("cannot watch signals: {error}"));
    let (mut interrupt, mut terminate) = (watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?);
    #[cfg(feature = "otlp")]
    if let Some(url) = &args.otlp {
        let interval = std::time::Duration::from_secs(args.otlp_interval);
        let sender = cyclometer_exporter::otlp::OtlpSender::new(url)?;
        tokio::spawn(cyclometer_exporter::otlp::run(sender, hub.clone(), interval));
    }
    drop((args, hub));
    warn_of_open_address(config);
    let address = config.listen;
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
    let warn = |text: &str| {
        let _ = writeln!(std::io::stderr(), "cyclometer-exporter: warning: {text}");
    };
    match (config.tls.is_some(), config.users.is_empty()) {
        (_, true) => {
            warn("everybody who reaches the address can read the metrics; the key users asks for a password")
        }
        (false, false) => warn("passwords travel in plain text; the key tls encrypts them"),
        (true, false) => {}
    }
}
