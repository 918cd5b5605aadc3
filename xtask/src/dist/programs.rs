//! The programs that are delivered.

/// A program that is delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DistProgram {
    /// The package that builds it.
    pub package: &'static str,
    /// Its file, and how its bill of materials is named.
    pub name: &'static str,
    /// The manual page that its option `--man` prints, below `share/man`; the tool has a subcommand instead.
    pub own_page: Option<&'static str>,
}

/// The command-line tool.
pub(super) const TOOL: DistProgram =
    DistProgram { package: "cyclometer-cli", name: "cyclometer", own_page: None };
/// The exporter for Prometheus and OpenTelemetry.
pub(super) const EXPORTER: DistProgram = DistProgram {
    package: "cyclometer-exporter",
    name: "cyclometer-exporter",
    own_page: Some("man8/cyclometer-exporter.8"),
};
/// The server for coding agents, which `cyclometer mcp` executes.
pub(super) const AGENT_SERVER: DistProgram = DistProgram {
    package: "cyclometer-mcp",
    name: "cyclometer-mcp",
    own_page: Some("man1/cyclometer-mcp.1"),
};

/// All programs of an archive, the command-line tool first.
pub(super) const PROGRAMS: [DistProgram; 3] = [TOOL, EXPORTER, AGENT_SERVER];
