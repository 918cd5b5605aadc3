//! Programs to measure, and servers to measure them.

use std::fs;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use cyclometer_test_support::{executable, skip};
use rmcp::ServiceExt as _;
use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::{Peer, RoleClient, RunningService};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Programs, by name.
const PROGRAMS: [(&str, &str); 8] = [
    ("speak", "echo hello >&2"),
    ("fail", "exit $1"),
    ("tell", "for a; do printf '<%s>\\n' \"$a\" >&2; done"),
    ("environment", "env >&2"),
    ("shout", "i=0; while [ $i -lt 2000 ]; do printf '%0100d\\n' $i >&2; i=$((i+1)); done"),
    // Exit status 1 if it runs twice at the same time.
    ("alone", "mkdir \"$1/lock\" || exit 1\nsleep 0.05\nrmdir \"$1/lock\""),
    // Both write the ids of their processes to a file. A process has a session of its own.
    (
        "run_for_ever",
        "setsid sleep 100000 &\necho $$ $! >\"$1.new\"\nmv \"$1.new\" \"$1\"\nwhile :; do sleep 1000; done",
    ),
    (
        "leave_daemon",
        "(setsid sh -c 'echo $$ >\"$1.new\"; mv \"$1.new\" \"$1\"; exec sleep 100000' x \"$1\" >/dev/null 2>&1 &)\n\
         while [ ! -e \"$1\" ]; do sleep 0.01; done",
    ),
];

/// A folder with programs.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in PROGRAMS {
            let path = folder.path().join(name);
            executable(&path, format!("#!/bin/sh\n{text}\n").as_bytes());
        }
        Place(folder)
    }

    pub fn folder(&self) -> &str {
        self.0.path().to_str().unwrap()
    }

    pub fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder())
    }

    /// Whether a program has written a file.
    pub fn has(&self, name: &str) -> bool {
        Path::new(&self.path(name)).exists()
    }

    /// Waits until a program has written a file.
    pub async fn wait_for(&self, name: &str) {
        while !self.has(name) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The ids of processes in a file that a program has written.
    pub fn pids(&self, name: &str) -> Vec<u32> {
        let text = fs::read_to_string(self.path(name)).unwrap();
        let pids: Vec<u32> = text.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect();
        assert!(!pids.is_empty(), "{text}");
        pids
    }

    pub fn expect_no_process_of(&self, name: &str) {
        for pid in self.pids(name) {
            assert!(!alive(pid), "process {pid} is left");
        }
    }
}

/// Whether a process exists.
pub fn alive(pid: u32) -> bool {
    let mut kill = std::process::Command::new("kill");
    kill.args(["-0", &pid.to_string()]).stderr(Stdio::null()).status().unwrap().success()
}

/// A server, which is ended with the test.
pub struct Server {
    child: Child,
    streams: Mutex<Option<(BufReader<ChildStdout>, ChildStdin)>>,
}

impl Server {
    /// A server that allows the programs of a place.
    pub fn start(place: &Place) -> Server {
        Server::start_with(place, &["--allow", place.folder()])
    }

    pub fn start_with(place: &Place, args: &[&str]) -> Server {
        build_tool();
        let mut child = Command::new(env!("CARGO_BIN_EXE_cyclometer-mcp"))
            .args(args)
            // Profiles of the software PMU stay in the place.
            .env("XDG_CACHE_HOME", place.path("cache"))
            .env("SECRET", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let streams = (BufReader::new(child.stdout.take().unwrap()), child.stdin.take().unwrap());
        Server { child, streams: Mutex::new(Some(streams)) }
    }

    /// Its streams, for one client.
    pub fn streams(&self) -> (BufReader<ChildStdout>, ChildStdin) {
        self.streams.lock().unwrap().take().unwrap()
    }

    /// The protocol's official client, connected.
    pub async fn client(&self) -> RunningService<RoleClient, ()> {
        ().serve(self.streams()).await.unwrap()
    }

    /// A call that gives a result, which fits the schema that the tool has.
    pub async fn call(
        &self,
        client: &Peer<RoleClient>,
        name: &'static str,
        arguments: Value,
    ) -> CallToolResult {
        let result = client.call_tool(request(name, arguments)).await.unwrap();
        assert_eq!(result.is_error, Some(false), "{result:?}");
        let tools = client.list_all_tools().await.unwrap();
        let tool = tools.into_iter().find(|tool| tool.name == name).unwrap();
        let schema = Value::Object(tool.output_schema.unwrap().as_ref().clone());
        let content = result.structured_content.as_ref().unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> = validator.iter_errors(content).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}\n{content}");
        result
    }

    /// Whether the software PMU works here, as `doctor` says.
    pub async fn software_pmu_works(&self, client: &Peer<RoleClient>) -> bool {
        let doctor = self.call(client, "doctor", serde_json::json!({})).await;
        let content = doctor.structured_content.unwrap();
        let sources = content["report"]["ladder"].as_array().unwrap();
        let works = sources.iter().any(|source| source["rung"] == "soft" && source["works"] == "yes");
        if !works {
            skip("the software PMU does not work here");
        }
        works
    }

    /// Sends a line.
    pub async fn send(&mut self, line: &[u8]) {
        let (_, stdin) = self.streams.get_mut().unwrap().as_mut().unwrap();
        stdin.write_all(line).await.unwrap();
        stdin.write_all(b"\n").await.unwrap();
    }

    /// Sends a line and reads one.
    pub async fn exchange(&mut self, line: &[u8]) -> Value {
        self.send(line).await;
        let (stdout, _) = self.streams.get_mut().unwrap().as_mut().unwrap();
        let mut answer = String::new();
        stdout.read_line(&mut answer).await.unwrap();
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
    }

    /// Closes both streams.
    pub fn close(&mut self) {
        self.streams.get_mut().unwrap().take();
    }

    /// Waits for its end.
    pub async fn ended(&mut self) -> ExitStatus {
        self.child.wait().await.unwrap()
    }

    pub async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }
}

/// A request for a tool.
pub fn request(name: &'static str, arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else { panic!("{arguments}") };
    CallToolRequestParams::new(name).with_arguments(arguments)
}

/// The text of a result.
pub fn text(result: &CallToolResult) -> &str {
    &result.content[0].as_text().unwrap().text
}

/// The text of a result that is an error.
pub fn failure(result: &CallToolResult) -> &str {
    assert_eq!(result.is_error, Some(true), "{result:?}");
    text(result)
}

/// Builds the command-line tool, where a run of these tests alone has not: it has to lie beside the server.
fn build_tool() {
    static BUILT: std::sync::Once = std::sync::Once::new();
    BUILT.call_once(|| {
        let tool = Path::new(env!("CARGO_BIN_EXE_cyclometer-mcp")).with_file_name("cyclometer");
        if !tool.exists() {
            let mut build = std::process::Command::new(env!("CARGO"));
            assert!(
                build.args(["build", "--locked", "--package", "cyclometer-cli"]).status().unwrap().success()
            );
        }
    });
}
