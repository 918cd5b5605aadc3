//! Messages on standard input and output: one JSON text on a line each.
//!
//! The SDK's own transport drops a line that is no JSON, and a line that is too long. Here both get the error
//! that JSON-RPC names for them, so that a client that waits for an answer gets one.
//!
//! # Source
//!
//! Model Context Protocol, "Transports", stdio; JSON-RPC 2.0, section 5.1.

use std::io;

use futures::StreamExt as _;
use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};
use tokio_util::sync::CancellationToken;

/// The longest line that is read. Calls have a few hundred bytes.
pub const MOST_LINE_BYTES: usize = 1 << 20;

/// How many messages wait to be written before senders wait.
const WAITING_MESSAGES: usize = 16;

/// The transport of a session.
pub struct Wire<R> {
    lines: FramedRead<R, LinesCodec>,
    out: mpsc::Sender<Vec<u8>>,
    /// An error that is to be sent before the next line is read.
    reply: Option<Vec<u8>>,
    /// Whether a request has arrived. The SDK ends a session that begins with another message.
    is_open: bool,
    /// The decoder ends its stream once after an error, and goes on.
    has_failed: bool,
    session: CancellationToken,
}

impl<R: AsyncRead + Unpin> Wire<R> {
    /// A transport over two streams. `session` is cancelled when the input ends.
    pub fn new<W>(input: R, output: W, session: CancellationToken) -> Wire<R>
    where
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (out, messages) = mpsc::channel(WAITING_MESSAGES);
        tokio::spawn(write_messages(output, messages));
        Wire {
            lines: FramedRead::new(input, LinesCodec::new_with_max_length(MOST_LINE_BYTES)),
            out,
            reply: None,
            is_open: false,
            has_failed: false,
            session,
        }
    }

    /// The next thing that a line says; `None` at the end of the input.
    async fn next_line(&mut self) -> Option<Line> {
        match self.lines.next().await {
            Some(Ok(line)) => Some(Line::read(&line)),
            None if std::mem::take(&mut self.has_failed) => Some(Line::Ignored),
            None => None,
            Some(Err(error)) => {
                self.has_failed = true;
                match error {
                    LinesCodecError::MaxLineLengthExceeded => {
                        let text =
                            format!("a message has at most {MOST_LINE_BYTES} bytes; this one was dropped");
                        Some(Line::Wrong(ErrorData::invalid_request(text, None), None))
                    }
                    LinesCodecError::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
                        Some(Line::Wrong(ErrorData::parse_error("the message is not UTF-8", None), None))
                    }
                    LinesCodecError::Io(_) => None,
                }
            }
        }
    }
}

/// The content of a line of the client.
#[derive(Debug)]
enum Line {
    Message(Box<ClientJsonRpcMessage>),
    /// An empty line, or a notification that the protocol does not have.
    Ignored,
    /// No message: the error to answer with, and the id that it is about.
    Wrong(ErrorData, Option<RequestId>),
}

impl Line {
    fn read(text: &str) -> Line {
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.is_empty() {
            return Line::Ignored;
        }
        let value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => {
                return Line::Wrong(ErrorData::parse_error(format!("no JSON: {error}"), None), None);
            }
        };
        let id = value.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
        let has_method = value.get("method").is_some_and(Value::is_string);
        match serde_json::from_value::<ClientJsonRpcMessage>(value) {
            Ok(message) => Line::of_message(message),
            Err(_) if has_method && id.is_none() => Line::Ignored,
            Err(_) if has_method => {
                Line::Wrong(ErrorData::invalid_params("the request's parameters have a wrong form", None), id)
            }
            Err(_) => {
                Line::Wrong(ErrorData::invalid_request("the message is no JSON-RPC 2.0 request", None), id)
            }
        }
    }

    /// A request of a method that the protocol has, with parameters of a wrong form, is a custom one for the
    /// SDK.
    fn of_message(message: ClientJsonRpcMessage) -> Line {
        if let JsonRpcMessage::Request(request) = &message
            && let ClientRequest::CustomRequest(custom) = &request.request
            && KNOWN_METHODS.contains(&custom.method.as_str())
        {
            let text = format!("the parameters of {} have a wrong form", custom.method);
            return Line::Wrong(ErrorData::invalid_params(text, None), Some(request.id.clone()));
        }
        Line::Message(Box::new(message))
    }
}

/// The methods that this server answers.
const KNOWN_METHODS: [&str; 4] = ["initialize", "ping", "tools/list", "tools/call"];

impl<R: AsyncRead + Send + Unpin + 'static> Transport<RoleServer> for Wire<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let out = self.out.clone();
        async move {
            let line = line_of(&message)?;
            out.send(line).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
        }
    }

    /// The next message. This may be dropped between two lines at any time: what was read of a line stays in
    /// the decoder, and an error that waits to be sent stays in `reply`.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if self.reply.is_some() {
                let place = self.out.reserve().await.ok();
                if let (Some(place), Some(line)) = (place, self.reply.take()) {
                    place.send(line);
                }
            }
            match self.next_line().await {
                Some(Line::Message(message)) => {
                    self.is_open |= matches!(*message, JsonRpcMessage::Request(_));
                    if self.is_open {
                        return Some(*message);
                    }
                }
                Some(Line::Ignored) => {}
                Some(Line::Wrong(error, id)) => {
                    self.reply = line_of(&ServerJsonRpcMessage::error(error, id)).ok();
                }
                None => {
                    self.session.cancel();
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        Ok(())
    }
}

fn line_of(message: &ServerJsonRpcMessage) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Writes messages until the last sender is gone, or the client has closed its end.
async fn write_messages(mut output: impl AsyncWrite + Unpin, mut messages: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = messages.recv().await {
        if output.write_all(&line).await.is_err() || output.flush().await.is_err() {
            return;
        }
    }
}
