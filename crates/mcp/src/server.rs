//! The session: requests of the protocol, and their answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
    ErrorCode, ErrorData, Implementation, JsonObject, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::allowed::clean;
use crate::call::{Caller, Invocation, Stopped, ToolAnswer};
use crate::tools::{CallRules, Presented, RefusedCall, Task, ToolKind, prepare, present};

/// The most calls that run or wait.
const MOST_CALLS: usize = 64;

/// The time between two messages about progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// The server of one session.
pub struct AgentSession {
    caller: Caller,
    rules: CallRules,
    tools: Vec<ToolKind>,
    /// Permits of calls that run. Measurements at the same time would disturb each other.
    running: Arc<Semaphore>,
    /// Permits of calls that run or wait.
    waiting: Arc<Semaphore>,
    /// Cancelled when the client has gone away, or a signal ends the server.
    ended: CancellationToken,
}

impl AgentSession {
    /// A session with these tools.
    pub fn new(
        caller: Caller,
        rules: CallRules,
        tools: Vec<ToolKind>,
        ended: CancellationToken,
    ) -> AgentSession {
        let running = Arc::new(Semaphore::new(caller.limits.jobs));
        AgentSession { caller, rules, tools, running, waiting: Arc::new(Semaphore::new(MOST_CALLS)), ended }
    }

    /// The permits of calls that run: all are free once no process of a call is left.
    pub fn running(&self) -> Arc<Semaphore> {
        Arc::clone(&self.running)
    }

    fn instructions(&self) -> String {
        let folders = self.rules.allowed.folders();
        let allowed = match folders {
            [] => "Programs cannot be run: the server was started without --allow.".to_owned(),
            folders => {
                let folders: Vec<String> =
                    folders.iter().map(|folder| folder.display().to_string()).collect();
                format!("Programs below these folders can be run: {}.", folders.join(", "))
            }
        };
        format!(
            "Performance counters of programs. {allowed} No shell is involved: give the path of a program and its \
             arguments as a list. For a figure that repeats, measure the event instructions: without a PMU, the \
             software PMU counts it exactly. Times vary. A value that was not counted is null and has a reason; \
             it is never zero."
        )
    }

    async fn answered(
        &self,
        kind: ToolKind,
        arguments: Option<JsonObject>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let task = match prepare(kind, arguments, &self.rules) {
            Ok(task) => task,
            Err(RefusedCall::Params(why)) => {
                return Err(ErrorData::invalid_params(format!("{}: {why}", kind.name()), None));
            }
            Err(RefusedCall::Refused(why)) => return Ok(failed(why)),
        };
        let Ok(_place) = self.waiting.try_acquire() else {
            return Ok(failed(format!("{MOST_CALLS} calls are running or waiting: wait for one of them")));
        };
        let stop = context.ct.child_token();
        let stopped_by_end = self.ended.clone();
        let work = self.worked(&task, stop.clone());
        let outcome = tokio::select! {
            outcome = with_progress(work, context, task.main.timeout) => outcome,
            () = cancel_with(stop, stopped_by_end) => Err(Stopped::Cancelled.message()),
        };
        Ok(match outcome {
            Ok(presented) => succeeded(presented),
            Err(why) => failed(why),
        })
    }

    /// Makes the calls of a task, when it is its turn.
    async fn worked(&self, task: &Task, stop: CancellationToken) -> Result<Presented, String> {
        let turn = tokio::select! {
            turn = self.running.acquire() => turn,
            () = stop.cancelled() => return Err(Stopped::Cancelled.message()),
        };
        let _turn = turn.map_err(|_| "the server ends".to_owned())?;
        let answer = self.called(&task.main, &stop).await?;
        let encoding = match &task.encoding {
            Some(encoding) => self.called(encoding, &stop).await.ok(),
            None => None,
        };
        let presented = present(task, &answer, encoding.as_ref())?;
        let most = self.caller.limits.output_bytes;
        match serde_json::to_vec(&presented.structured) {
            Ok(bytes) if bytes.len() <= most => Ok(presented),
            _ => Err(Stopped::TooLarge(most).message()),
        }
    }

    async fn called(&self, invocation: &Invocation, stop: &CancellationToken) -> Result<ToolAnswer, String> {
        self.caller.call(invocation, stop.clone()).await.map_err(|stopped| stopped.message())
    }
}

/// Cancels a call when the session ends; never ready, so that the call itself ends its processes.
async fn cancel_with(stop: CancellationToken, ended: CancellationToken) {
    ended.cancelled().await;
    stop.cancel();
    std::future::pending::<()>().await;
}

/// Waits for work, and reports progress to the client every second if the client requested that.
async fn with_progress<T>(
    work: impl Future<Output = T>,
    context: &RequestContext<RoleServer>,
    limit: Duration,
) -> T {
    let Some(token) = context.meta.get_progress_token() else { return work.await };
    tokio::pin!(work);
    let start = Instant::now();
    let first = tokio::time::Instant::now() + PROGRESS_INTERVAL;
    let mut ticks = tokio::time::interval_at(first, PROGRESS_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = ticks.tick() => {
                let seconds = start.elapsed().as_secs_f64();
                let message = format!("in progress for {seconds:.0} s; a call runs for at most {} s", limit.as_secs());
                let progress = ProgressNotificationParam::new(token.clone(), seconds).with_message(message);
                // A client that has gone away ends the session by itself.
                let _ = tokio::time::timeout(PROGRESS_INTERVAL, context.peer.notify_progress(progress)).await;
            }
        }
    }
}

fn succeeded(presented: Presented) -> CallToolResult {
    let mut result = CallToolResult::structured(presented.structured);
    result.content = vec![ContentBlock::text(presented.text)];
    result
}

fn failed(why: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(why)])
}

impl ServerHandler for AgentSession {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("cyclometer", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(self.instructions());
        info
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.iter().map(|kind| kind.definition()).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|kind| kind.name() == name).map(|kind| kind.definition())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let text = format!("this server has no method {}", clean(&request.method));
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, text, None))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(kind) = self.tools.iter().find(|kind| kind.name() == request.name) else {
            let names: Vec<&str> = self.tools.iter().map(|kind| kind.name()).collect();
            let text = format!("no tool is called {}; there are {}", clean(&request.name), names.join(", "));
            return Err(ErrorData::invalid_params(text, None));
        };
        let arguments = request.arguments;
        self.answered(*kind, arguments, &context).await.map(CallToolResponse::from)
    }
}
