//! Sessions of the protocol's official client with the server and the command-line tool, as users install
//! them.
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

#[path = "support/mod.rs"]
mod support;

use rmcp::model::{
    CallToolRequestParams, ClientRequest, PingRequest, ProgressNotificationParam, ServerResult,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RoleClient, ServiceError};
use rmcp::{ClientHandler, ServiceExt as _};
use serde_json::{Value, json};

use support::{Place, Server, alive, failure, text};

#[tokio::test]
async fn every_tool_is_listed_with_schemas_and_says_whether_it_runs_programs() {
    let place = Place::new();
    let server = Server::start(&place);
    let client = server.client().await;
    let tools = client.list_all_tools().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    let offered = [
        "measure",
        "compare",
        "profile_by_function",
        "advise",
        "plan",
        "list_events",
        "explain_event",
        "doctor",
    ];
    for name in offered {
        assert!(names.contains(&name), "{names:?}");
    }
    for tool in &tools {
        let schema = tool.output_schema.as_ref().unwrap();
        assert!(schema["required"].as_array().unwrap().contains(&json!("report")), "{}", tool.name);
        let lookup = ["plan", "list_events", "explain_event", "doctor"].contains(&tool.name.as_ref());
        assert_eq!(tool.annotations.as_ref().unwrap().read_only_hint, Some(lookup), "{}", tool.name);
    }
    let info = client.peer_info().unwrap();
    assert!(info.instructions.as_ref().unwrap().contains(place.folder()), "{info:?}");
}

#[tokio::test]
async fn a_measurement_has_a_verdict_a_provenance_and_the_programs_standard_error() {
    let place = Place::new();
    let server = Server::start(&place);
    let client = server.client().await;
    let result =
        server.call(&client, "measure", json!({"program": "speak", "events": ["page-faults"]})).await;
    let content = result.structured_content.clone().unwrap();
    let metric = &content["report"]["commands"][0]["metrics"][0];
    assert_eq!((&metric["count"], &metric["provenance"]), (&json!("exact"), &json!("kernel")), "{content}");
    assert!(metric["mean"].as_u64().unwrap() > 0, "{metric}");
    assert!(content["stderr"]["text"].as_str().unwrap().contains("hello"), "{content}");
    assert!(
        text(&result).contains("page-faults: ") && text(&result).contains("(exact, kernel"),
        "{result:?}"
    );
}

#[tokio::test]
async fn a_program_that_fails_is_measured_and_its_exit_status_is_told() {
    let place = Place::new();
    let server = Server::start(&place);
    let client = server.client().await;
    let result = server.call(&client, "measure", json!({"program": "fail", "arguments": ["7"]})).await;
    assert_eq!(result.structured_content.as_ref().unwrap()["exit_status"], 7);
    assert!(text(&result).contains("the command exited with status 7"), "{result:?}");
}

#[tokio::test]
async fn arguments_reach_the_program_as_they_are() {
    let place = Place::new();
    let server = Server::start(&place);
    let client = server.client().await;
    let arguments = ["--json", "a b", "$HOME", "", "ü", "*", "'"];
    let program = json!({"program": "tell", "arguments": arguments});
    let measured = server.call(&client, "measure", program.clone()).await;
    let heard = measured.structured_content.unwrap()["stderr"]["text"].as_str().unwrap().to_owned();
    for argument in arguments {
        assert!(heard.contains(&format!("<{argument}>\n")), "{heard}");
    }
    let both = json!({"commands": [program, program], "events": ["page-faults"], "pairs": 1});
    let compared = server.call(&client, "compare", both).await;
    let content = compared.structured_content.unwrap();
    let command = content["report"]["commands"][1]["command"].as_array().unwrap();
    assert_eq!(command[1..], arguments.map(Value::from), "{content}");
}

#[tokio::test]
async fn a_comparison_tells_its_findings() {
    let place = Place::new();
    let server = Server::start(&place);
    let client = server.client().await;
    let commands = json!([{"program": "speak"}, {"program": "fail", "arguments": ["0"]}]);
    let arguments = json!({"commands": commands, "events": ["page-faults"], "pairs": 2});
    let result = server.call(&client, "compare", arguments).await;
    let content = result.structured_content.clone().unwrap();
    let finding = &content["report"]["comparisons"][0]["metrics"][0]["finding"];
    assert!(finding.is_string(), "{content}");
    assert!(text(&result).contains("against"), "{result:?}");
}

#[tokio::test]
async fn a_comparison_by_function_shows_as_many_changes_as_asked_for() {
    let place = Place::new();
    let server = Server::start(&place);
    let client = server.client().await;
    if !server.software_pmu_works(&client).await {
        return;
    }
    let commands = json!([{"program": "speak"}, {"program": "fail", "arguments": ["0"]}]);
    let changes = async |top: u32| {
        let arguments = json!({"commands": commands, "by_function": true, "pairs": 1, "top": top});
        let result = server.call(&client, "compare", arguments).await;
        let content = result.structured_content.clone().unwrap();
        let changes = content["report"]["comparisons"][0]["by"]["changes"].as_array().unwrap().len() as u64;
        (changes, content["omitted_entries"].as_u64().unwrap(), text(&result).to_owned())
    };
    let (one, omitted, text) = changes(1).await;
    assert!(
        one == 1 && omitted > 0 && text.contains("left out; top shows up to 200"),
        "{one} {omitted} {text}"
    );
    let (all, none, text) = changes(200).await;
    assert!(all > one && none == 0 && !text.contains("left out"), "{all} {none} {text}");
    let without = json!({"commands": commands, "top": 3});
    let refused = client.call_tool(support::request("compare", without)).await.unwrap_err();
    assert!(refused.to_string().contains("top needs by_function"), "{refused}");
}

#[tokio::test]
async fn a_profile_names_the_functions_exactly() {
    let place = Place::new();
    let server = Server::start(&place);
    let client = server.client().await;
    if !server.software_pmu_works(&client).await {
        return;
    }
    let arguments = json!({"program": "speak", "top": 3});
    let result = server.call(&client, "profile_by_function", arguments).await;
    let content = result.structured_content.clone().unwrap();
    let command = &content["report"]["commands"][0];
    assert_eq!(command["metrics"][0]["provenance"], "counted", "{content}");
    let rows = command["by"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3, "{content}");
    assert!(content["omitted_entries"].as_u64().unwrap() > 0, "{content}");
    assert!(text(&result).contains(rows[0]["function"].as_str().unwrap()), "{result:?}");
}

#[tokio::test]
async fn advice_fits_its_schema_and_its_text_says_what_was_judged() {
    let place = Place::new();
    let server = Server::start(&place);
    let client = server.client().await;
    let result = server.call(&client, "advise", json!({"program": "fail", "arguments": ["3"]})).await;
    let content = result.structured_content.clone().unwrap();
    assert_eq!(content["report"]["failed"]["exit"], 3, "{content}");
    assert!(!content["report"]["facts"].as_array().unwrap().is_empty(), "{content}");
    assert!(text(&result).contains("failed with exit status 3"), "{result:?}");
    let refused = client.call_tool(support::request("advise", json!({"program": "/bin/sh"}))).await.unwrap();
    assert!(failure(&refused).contains("is refused"), "{refused:?}");
}

#[tokio::test]
async fn the_catalogue_answers_without_an_allowed_folder() {
    let place = Place::new();
    let server = Server::start_with(&place, &[]);
    let client = server.client().await;
    let plan =
        server.call(&client, "plan", json!({"events": ["cycles", "instructions"], "cpu": "skylake"})).await;
    let passes = &plan.structured_content.as_ref().unwrap()["report"]["passes"];
    assert_eq!(passes.as_array().unwrap().len(), 1, "{plan:?}");
    let listed = server
        .call(&client, "list_events", json!({"pattern": "mispred", "cpu": "skylake", "limit": 2}))
        .await;
    let content = listed.structured_content.unwrap();
    assert_eq!(content["report"].as_array().unwrap().len(), 2, "{content}");
    assert!(content["omitted_entries"].as_u64().unwrap() > 0, "{content}");
    let event = json!({"event": "br_misp_retired.all_branches", "cpu": "skylake"});
    let explained = server.call(&client, "explain_event", event).await.structured_content.unwrap();
    assert_eq!(explained["encoding"][0]["config"], "0xc5", "{explained}");
    let doctor = server.call(&client, "doctor", json!({})).await.structured_content.unwrap();
    assert!(doctor["report"]["ladder"].is_array(), "{doctor}");
    let refused =
        client.call_tool(support::request("measure", json!({"program": place.path("speak")}))).await;
    assert!(failure(&refused.unwrap()).contains("--allow DIR"));
}

#[tokio::test]
async fn a_program_outside_of_the_folders_is_refused_also_by_a_link_that_leads_out() {
    let place = Place::new();
    std::os::unix::fs::symlink("/bin/sh", place.path("shell")).unwrap();
    let server = Server::start(&place);
    let client = server.client().await;
    for program in ["/bin/sh", "shell", "../../../../../../bin/sh"] {
        let result =
            client.call_tool(support::request("measure", json!({"program": program}))).await.unwrap();
        assert!(failure(&result).contains("is refused"), "{program}: {result:?}");
    }
    let arguments = json!({"program": "speak", "working_directory": "/"});
    let result = client.call_tool(support::request("measure", arguments)).await.unwrap();
    assert!(failure(&result).contains("working directory / is refused"), "{result:?}");
}

#[tokio::test]
async fn the_error_of_the_tool_is_the_result_of_the_call() {
    let place = Place::new();
    let server = Server::start(&place);
    let client = server.client().await;
    let arguments = json!({"program": "speak", "events": ["no-such-event-here"]});
    let result = client.call_tool(support::request("measure", arguments)).await.unwrap();
    assert!(failure(&result).contains("no-such-event-here"), "{result:?}");
}

#[tokio::test]
async fn wrong_parameters_are_errors_of_the_protocol_and_the_session_goes_on() {
    let place = Place::new();
    let server = Server::start(&place);
    let client = server.client().await;
    for (name, arguments) in [
        ("measure", json!({})),
        ("measure", json!({"program": "speak", "runs": 1000})),
        ("measure", json!({"program": "speak", "events": ["--export-json=/tmp/x"]})),
        ("measure", json!({"program": "speak", "shell": true})),
        ("no_such_tool", json!({})),
    ] {
        match client.call_tool(support::request(name, arguments.clone())).await {
            Err(ServiceError::McpError(error)) => assert_eq!(error.code.0, -32602, "{error:?}"),
            other => panic!("{name} {arguments}: {other:?}"),
        }
    }
    server.call(&client, "doctor", json!({})).await;
}

#[tokio::test]
async fn a_program_that_runs_for_ever_is_stopped_with_all_of_its_processes() {
    let place = Place::new();
    let server = Server::start_with(&place, &["--allow", place.folder(), "--timeout", "600"]);
    let client = server.client().await;
    // On a busy machine, the program may need some time until it has started its processes.
    for seconds in [2, 10, 50, 250] {
        let arguments =
            json!({"program": "run_for_ever", "arguments": [place.path("pids")], "timeout_seconds": seconds});
        let result = client.call_tool(support::request("measure", arguments)).await.unwrap();
        assert!(failure(&result).contains(&format!("stopped after {seconds} s")), "{result:?}");
        if place.has("pids") {
            break;
        }
    }
    place.expect_no_process_of("pids");
    server.call(&client, "doctor", json!({})).await;
}

#[tokio::test]
async fn a_daemon_that_a_program_leaves_behind_is_ended_with_the_call() {
    let place = Place::new();
    let server = Server::start(&place);
    let client = server.client().await;
    let arguments = json!({"program": "leave_daemon", "arguments": [place.path("pids")], "source": "os"});
    server.call(&client, "measure", arguments).await;
    place.expect_no_process_of("pids");
}

#[tokio::test]
async fn a_result_beyond_the_limit_is_an_error_and_endless_standard_error_is_cut() {
    let place = Place::new();
    let server = Server::start_with(&place, &["--allow", place.folder(), "--max-output", "1"]);
    let client = server.client().await;
    let result = client.call_tool(support::request("measure", json!({"program": "speak"}))).await.unwrap();
    assert!(failure(&result).contains("larger than 1 KiB"), "{result:?}");
    let server = Server::start(&place);
    let client = server.client().await;
    let shout = json!({"program": "shout", "events": ["page-faults"]});
    let content = server.call(&client, "measure", shout).await.structured_content.unwrap();
    assert!(content["stderr"]["omitted_bytes"].as_u64().unwrap() > 100_000, "{content}");
    assert!(content["stderr"]["text"].as_str().unwrap().contains("bytes left out"), "{content}");
}

/// A client that counts the messages about progress.
#[derive(Clone, Default)]
struct Listener(std::sync::Arc<tokio::sync::Notify>);

impl ClientHandler for Listener {
    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        assert!(params.message.is_some_and(|message| message.contains("in progress for")));
        self.0.notify_one();
    }
}

#[tokio::test]
async fn a_cancelled_call_ends_its_processes_after_it_has_told_its_progress() {
    let place = Place::new();
    let server = Server::start(&place);
    let listener = Listener::default();
    let client = listener.clone().serve(server.streams()).await.unwrap();
    let arguments = json!({"program": "run_for_ever", "arguments": [place.path("pids")]});
    let request = ClientRequest::CallToolRequest(rmcp::model::CallToolRequest::new(support::request(
        "measure", arguments,
    )));
    let handle = client.send_cancellable_request(request, PeerRequestOptions::no_options()).await.unwrap();
    listener.0.notified().await;
    place.wait_for("pids").await;
    handle.cancel(Some("enough".to_owned())).await.unwrap();
    // The next call runs when the processes of the cancelled one have ended.
    let doctor = client.call_tool(CallToolRequestParams::new("doctor")).await.unwrap();
    assert_eq!(doctor.is_error, Some(false), "{doctor:?}");
    place.expect_no_process_of("pids");
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_no_process_behind() {
    let place = Place::new();
    let mut server = Server::start(&place);
    let client = server.client().await;
    let arguments = json!({"program": "run_for_ever", "arguments": [place.path("pids")]});
    let peer = client.peer().clone();
    let call = tokio::spawn(async move { peer.call_tool(support::request("measure", arguments)).await });
    place.wait_for("pids").await;
    call.abort();
    drop(client);
    assert!(server.ended().await.success());
    place.expect_no_process_of("pids");
}

#[tokio::test]
async fn a_server_that_is_killed_leaves_no_process_behind() {
    let place = Place::new();
    let mut server = Server::start(&place);
    let client = server.client().await;
    let arguments = json!({"program": "run_for_ever", "arguments": [place.path("pids")]});
    let peer = client.peer().clone();
    tokio::spawn(async move { peer.call_tool(support::request("measure", arguments)).await });
    place.wait_for("pids").await;
    server.kill().await;
    // The supervisor ends the processes by itself.
    for pid in place.pids("pids") {
        while alive(pid) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test]
async fn calls_at_the_same_time_are_all_answered_one_after_the_other() {
    let place = Place::new();
    let server = Server::start(&place);
    let client = server.client().await;
    let calls = (0..4)
        .map(|_| server.call(&client, "measure", json!({"program": "alone", "arguments": [place.folder()]})));
    for result in futures::future::join_all(calls).await {
        assert_eq!(
            result.structured_content.as_ref().unwrap()["exit_status"],
            0,
            "two ran at once: {result:?}"
        );
    }
}

#[tokio::test]
async fn programs_get_the_documented_environment_alone() {
    let place = Place::new();
    let allow = ["--allow", place.folder(), "--env", "MINE=yes"];
    let server = Server::start_with(&place, &allow);
    let client = server.client().await;
    let content =
        server.call(&client, "measure", json!({"program": "environment"})).await.structured_content.unwrap();
    let told = content["stderr"]["text"].as_str().unwrap();
    assert!(told.contains("MINE=yes") && told.contains("PATH="), "{told}");
    assert!(!told.contains("SECRET"), "{told}");
}

#[tokio::test]
async fn lines_that_are_no_requests_get_errors_and_the_session_goes_on() {
    let place = Place::new();
    let mut server = Server::start(&place);
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params":
        {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}});
    // Before the handshake, too.
    assert_eq!(server.exchange(b"{]").await["error"]["code"], -32700);
    server.send(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/none\"}").await;
    assert!(server.exchange(initialize.to_string().as_bytes()).await["result"]["serverInfo"].is_object());
    let huge = vec![b'x'; 3 << 20];
    let deep = b"[".repeat(100_000);
    for (line, code) in [
        (&b"no JSON"[..], -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":9", -32700),
        (b"\xff\xfe", -32700),
        (&deep, -32700),
        (&huge, -32600),
        (b"[]", -32600),
        (b"5", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":9}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"no/such\"}", -32601),
        (b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\",\"params\":5}", -32602),
        (b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\",\"params\":{\"name\":[]}}", -32602),
    ] {
        let shown = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
        let answer = server.exchange(line).await;
        assert_eq!(answer["error"]["code"], code, "{shown}: {answer}");
    }
    let ping = server.exchange(b"{\"jsonrpc\":\"2.0\",\"id\":10,\"method\":\"ping\"}").await;
    assert_eq!((&ping["id"], &ping["result"]), (&json!(10), &json!({})), "{ping}");
    server.close();
    assert!(server.ended().await.success());
}

#[tokio::test]
async fn a_ping_is_answered_while_a_measurement_runs() {
    let place = Place::new();
    let server = Server::start(&place);
    let client = server.client().await;
    let arguments = json!({"program": "run_for_ever", "arguments": [place.path("pids")]});
    let peer = client.peer().clone();
    let call = tokio::spawn(async move { peer.call_tool(support::request("measure", arguments)).await });
    place.wait_for("pids").await;
    let ping = ClientRequest::PingRequest(PingRequest::default());
    assert!(matches!(client.send_request(ping).await, Ok(ServerResult::EmptyResult(_))));
    call.abort();
}

#[test]
fn the_manual_page_is_printed_without_a_client_and_without_the_tool() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_cyclometer-mcp"));
    let out = command.arg("--man").env("PATH", "/no/such/folder").output().unwrap();
    let page = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success() && page.contains(".TH cyclometer-mcp 1 "), "{page}");
    assert!(page.contains("\\-\\-allow") && page.contains("\\-\\-dry\\-run"), "{page}");
}
