//! `cyclometer-mcp`: measurements for coding agents, by the Model Context Protocol.
#![forbid(unsafe_code)]

mod allowed;
mod args;
mod call;
mod descendants;
mod dry_run;
mod environment;
mod excerpt;
mod params;
mod schema;
mod server;
mod summary;
mod supervisor;
mod tools;
mod wire;

use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, Parser as _};
use rmcp::service::{ServerInitializeError, ServiceExt as _};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::allowed::{AllowedFolders, reason};
use crate::args::ServerArgs;
use crate::call::{Caller, tool_beside};
use crate::server::AgentSession;
use crate::tools::{CallRules, ToolKind};
use crate::wire::Wire;

/// The server failed, or its arguments make no sense.
const FAILURE: u8 = 125;

/// How long the processes of calls may take to end when the session does.
const END_TIMEOUT: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some((first, command)) = words.split_first()
        && first == supervisor::WORD
    {
        return ExitCode::from(supervisor::run(command));
    }
    let args = match ServerArgs::try_parse() {
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
            let _ = writeln!(std::io::stderr(), "cyclometer-mcp: error: {message}");
            ExitCode::from(FAILURE)
        }
    }
}

fn print_manual_page() -> Result<(), String> {
    let page = clap_mangen::Man::new(ServerArgs::command());
    let printed = page.render(&mut std::io::stdout());
    printed.map_err(|error| format!("cannot write the manual page: {}", reason(&error)))
}

fn run(args: &ServerArgs) -> Result<(), String> {
    let allowed = AllowedFolders::new(&args.allow)?;
    let own =
        std::env::current_exe().map_err(|error| format!("cannot find this program: {}", reason(&error)))?;
    let tool = tool_beside(&own, std::env::var_os("PATH"))
        .ok_or("cyclometer lies neither beside cyclometer-mcp nor in PATH: `cargo install --locked --path crates/cli` in a clone of the repository installs it")?;
    let environment = environment::passed(&args.env, |name| std::env::var_os(name));
    let caller = Caller { supervisor: own, tool, environment, limits: args.limits() };
    let tools = tools_of(&caller)?;
    let rules = CallRules { allowed, timeout: caller.limits.timeout };
    if args.dry_run {
        return match dry_run::print(&caller, &rules, &tools) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(format!("cannot write: {}", reason(&error)))
            }
            _ => Ok(()),
        };
    }
    if std::io::stdin().is_terminal() {
        let hint =
            "waiting for a client on standard input; clients start this program themselves (Ctrl-D ends it)";
        let _ = writeln!(std::io::stderr(), "cyclometer-mcp: {hint}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the server: {}", reason(&error)))?;
    let served = runtime.block_on(serve(caller, rules, tools));
    // A read of standard input that waits cannot be cancelled.
    runtime.shutdown_background();
    served
}

/// The tools whose subcommand this version of the command-line tool has.
fn tools_of(caller: &Caller) -> Result<Vec<ToolKind>, String> {
    let out = std::process::Command::new(&caller.tool)
        .arg("--help")
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|error| format!("cannot execute {}: {}", caller.tool.display(), reason(&error)))?;
    let help = String::from_utf8_lossy(&out.stdout);
    let tools: Vec<ToolKind> =
        ToolKind::ALL.into_iter().filter(|kind| is_listed(&help, kind.subcommand())).collect();
    match tools.is_empty() {
        true => Err(format!("{} lists none of the commands that this server needs", caller.tool.display())),
        false => Ok(tools),
    }
}

/// Whether a help text lists a subcommand: as the first word of a line.
fn is_listed(help: &str, subcommand: &str) -> bool {
    help.lines().any(|line| line.starts_with(' ') && line.split_ascii_whitespace().next() == Some(subcommand))
}

async fn serve(caller: Caller, rules: CallRules, tools: Vec<ToolKind>) -> Result<(), String> {
    let ended = CancellationToken::new();
    let watch = |kind| signal(kind).map_err(|error| format!("cannot watch signals: {}", reason(&error)));
    let (mut interrupt, mut terminate) = (watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?);
    let jobs = u32::try_from(caller.limits.jobs).unwrap_or(u32::MAX);
    let session = AgentSession::new(caller, rules, tools, ended.clone());
    let running = session.running();
    let wire = Wire::new(tokio::io::stdin(), tokio::io::stdout(), ended.clone());
    let served = tokio::select! {
        served = served(session, wire, ended.clone()) => served,
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    };
    ended.cancel();
    // A call gives its place back when its processes have ended.
    let _ = tokio::time::timeout(END_TIMEOUT, running.acquire_many(jobs)).await;
    served
}

/// Serves until the client closes its end.
async fn served(
    session: AgentSession,
    wire: Wire<tokio::io::Stdin>,
    ended: CancellationToken,
) -> Result<(), String> {
    match session.serve_with_ct(wire, ended).await {
        Ok(service) => {
            let _ = service.waiting().await;
            Ok(())
        }
        // The client closed its end before it asked for anything.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
        Err(error) => Err(format!("the session could not begin: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subcommand_is_listed_by_its_name_alone() {
        let help =
            "Usage: cyclometer advise\n\nCommands:\n  stat     Run a command\n  doctor   Show advise\n";
        assert!(is_listed(help, "stat") && is_listed(help, "doctor"));
        assert!(!is_listed(help, "advise") && !is_listed(help, "sta"));
    }
}
