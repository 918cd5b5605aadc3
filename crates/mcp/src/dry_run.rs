//! `--dry-run`: what the server would allow.

use std::ffi::OsStr;
use std::io::{self, Write as _};

use crate::allowed::{FoundPrograms, clean};
use crate::call::Caller;
use crate::tools::{CallRules, ToolKind};

/// Prints folders, programs, limits, environment and tools.
///
/// # Errors
///
/// The system's.
pub fn print(caller: &Caller, rules: &CallRules, tools: &[ToolKind]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let shown = |path: &OsStr| clean(&path.to_string_lossy());
    writeln!(out, "tool         {}", shown(caller.tool.as_os_str()))?;
    let names: Vec<&str> = tools.iter().map(|kind| kind.name()).collect();
    writeln!(out, "tools        {}", names.join(", "))?;
    let limits = caller.limits;
    writeln!(
        out,
        "limits       {} s a call, results of {} KiB, {} at once",
        limits.timeout.as_secs(),
        limits.output_bytes / 1024,
        limits.jobs
    )?;
    let variables: Vec<String> = caller.environment.iter().map(|(name, _)| shown(name)).collect();
    writeln!(out, "environment  {}", variables.join(", "))?;
    if rules.allowed.folders().is_empty() {
        return writeln!(out, "allowed      no program: --allow DIR allows those of a folder");
    }
    for folder in rules.allowed.folders() {
        writeln!(out, "allowed      {}", shown(folder.as_os_str()))?;
    }
    let found = FoundPrograms::below(&rules.allowed);
    writeln!(out, "programs now {}{}", found.programs.len(), if found.is_cut { ", and more" } else { "" })?;
    for program in &found.programs {
        writeln!(out, "  {}", shown(program.as_os_str()))?;
    }
    Ok(())
}
