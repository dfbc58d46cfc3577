//! Client of the API, over the Unix socket.
//!
//! ```no_run
//! # async fn example() -> Result<(), ostler_daemon::client::ClientError> {
//! use ostler_daemon::api::CreateSession;
//! use ostler_daemon::client::Client;
//!
//! let client = Client::new("/run/user/1000/ostler/daemon.sock");
//! let request = CreateSession {
//!     dir: "/project".into(),
//!     prompt: Some("Fix the failing test.".into()),
//!     ..CreateSession::default()
//! };
//! let session = client.create(&request).await?;
//! let mut events = client.events(&session.id, 0).await?;
//! while let Some(event) = events.next().await? {
//!     println!("{}", event.data);
//! }
//! # Ok(()) }
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use crate::api::{
    Answer, ApprovalCode, ApprovalList, ApprovalView, BrowserLink, CreateSession, Interrupted,
    SendMessage, SessionPage, SessionResult, SessionView,
};
use crate::problem::ProblemBody;

/// How long a stream may be silent before it counts as broken: three missed heartbeats (P60).
const SILENCE: Duration = Duration::from_secs(46);

/// Maximum size of one frame of a stream.
const MAX_FRAME: usize = 256 * 1024 * 1024;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// There is no daemon.
    #[error("no daemon is running ({}: {error})", path.display())]
    NotRunning {
        /// Path of the socket.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The daemon refused the request.
    #[error("{}", .0.detail)]
    Problem(Box<ProblemBody>),
    /// The connection failed.
    #[error("the connection to the daemon failed: {0}")]
    Connection(String),
    /// The response cannot be read.
    #[error("the daemon's response cannot be read: {0}")]
    Response(String),
    /// The stream was silent for too long.
    #[error("the daemon stopped responding")]
    Silent,
}

impl From<hyper::Error> for ClientError {
    fn from(error: hyper::Error) -> Self {
        Self::Connection(error.to_string())
    }
}

/// A client of the daemon. Each request has its own connection.
#[derive(Debug, Clone)]
pub struct Client {
    socket: PathBuf,
}

/// One frame of an event stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEvent {
    /// Its kind: `message` for an event of a session, or `caught_up`.
    pub event: String,
    /// The `id` of the frame.
    pub id: Option<String>,
    /// The event, as JSON.
    pub data: String,
}

/// An event stream.
#[derive(Debug)]
pub struct EventStream {
    body: Incoming,
    buffer: Vec<u8>,
    /// How much of the buffer was searched for the end of a frame.
    searched: usize,
}

impl Client {
    /// Creates a client for the daemon with this socket.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self {
            socket: socket.into(),
        }
    }

    /// Returns the path of the socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns true if a daemon answers.
    pub async fn is_running(&self) -> bool {
        self.request(Method::GET, "/healthz", None).await.is_ok()
    }

    /// Creates a session.
    ///
    /// # Errors
    /// If the daemon refuses it, or cannot be reached.
    pub async fn create(&self, request: &CreateSession) -> Result<SessionView, ClientError> {
        self.post("/v1/sessions", request).await
    }

    /// Lists sessions. `query` contains filters, such as `all=true`.
    ///
    /// # Errors
    /// If the daemon refuses it, or cannot be reached.
    pub async fn sessions(&self, query: &str) -> Result<SessionPage, ClientError> {
        self.get(&format!("/v1/sessions?{query}")).await
    }

    /// Returns a session, given by its id or an unambiguous prefix.
    ///
    /// # Errors
    /// If there is no such session, or the daemon cannot be reached.
    pub async fn session(&self, id: &str) -> Result<SessionView, ClientError> {
        self.get(&format!("/v1/sessions/{}", encode(id))).await
    }

    /// Sends a message.
    ///
    /// # Errors
    /// If the session does not run, or the daemon cannot be reached.
    pub async fn send(&self, id: &str, message: &SendMessage) -> Result<SessionView, ClientError> {
        let path = format!("/v1/sessions/{}/messages", encode(id));
        self.post(&path, message).await
    }

    /// Interrupts the current turn.
    ///
    /// # Errors
    /// If the session does not run, or the daemon cannot be reached.
    pub async fn interrupt(&self, id: &str) -> Result<Interrupted, ClientError> {
        self.act(id, "interrupt").await
    }

    /// Stops a session.
    ///
    /// # Errors
    /// If there is no such session, or the daemon cannot be reached.
    pub async fn stop(&self, id: &str) -> Result<SessionView, ClientError> {
        self.act(id, "stop").await
    }

    /// Does one of `pause`, `resume`, `restart` and `fork`.
    ///
    /// # Errors
    /// If the session cannot do it now, or the daemon cannot be reached.
    pub async fn control(&self, id: &str, action: &str) -> Result<SessionView, ClientError> {
        self.act(id, action).await
    }

    /// Returns the conclusion of the last turn, waiting for it at most this long.
    ///
    /// # Errors
    /// If there is no such session, or the daemon cannot be reached.
    pub async fn result(&self, id: &str, wait: Duration) -> Result<SessionResult, ClientError> {
        let path = format!(
            "/v1/sessions/{}/result?wait={}s",
            encode(id),
            wait.as_secs()
        );
        self.get(&path).await
    }

    /// Lists permission requests that wait for an answer.
    ///
    /// # Errors
    /// If the daemon cannot be reached.
    pub async fn pending_approvals(&self) -> Result<ApprovalList, ClientError> {
        self.get("/v1/approvals?state=pending").await
    }

    /// Lists permission requests. `query` contains filters, such as `state=pending`.
    ///
    /// # Errors
    /// If the daemon refuses it, or cannot be reached.
    pub async fn approvals(&self, query: &str) -> Result<ApprovalList, ClientError> {
        self.get(&format!("/v1/approvals?{query}")).await
    }

    /// Answers a permission request.
    ///
    /// # Errors
    /// If it was answered before, has expired or does not exist; or the daemon cannot be reached.
    pub async fn answer(&self, id: &str, answer: &Answer) -> Result<ApprovalView, ClientError> {
        self.post(&format!("/v1/approvals/{}", encode(id)), answer)
            .await
    }

    /// Returns the approval code for TCP clients.
    ///
    /// # Errors
    /// If the caller belongs to a session, or the daemon cannot be reached.
    pub async fn approval_code(&self) -> Result<ApprovalCode, ClientError> {
        self.get("/v1/approval-code").await
    }

    /// Creates a one-time link that logs a browser in.
    ///
    /// # Errors
    /// If the caller belongs to a session, or the daemon cannot be reached.
    pub async fn browser_link(&self) -> Result<BrowserLink, ClientError> {
        self.read(
            self.request(Method::POST, "/v1/browser-links", None)
                .await?,
        )
        .await
    }

    /// Streams the events of a session after number `since`.
    ///
    /// # Errors
    /// If there is no such session, or the daemon cannot be reached.
    pub async fn events(&self, id: &str, since: u64) -> Result<EventStream, ClientError> {
        self.stream(&format!("/v1/sessions/{}/events?since={since}", encode(id)))
            .await
    }

    /// Streams the events of all sessions from now on.
    ///
    /// # Errors
    /// If the daemon cannot be reached.
    pub async fn all_events(&self) -> Result<EventStream, ClientError> {
        self.stream("/v1/events").await
    }

    async fn stream(&self, path: &str) -> Result<EventStream, ClientError> {
        let body = self.request(Method::GET, path, None).await?;
        Ok(EventStream {
            body,
            buffer: Vec::new(),
            searched: 0,
        })
    }

    async fn act<T: DeserializeOwned>(&self, id: &str, action: &str) -> Result<T, ClientError> {
        let path = format!("/v1/sessions/{}/{action}", encode(id));
        self.read(self.request(Method::POST, &path, None).await?)
            .await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.read(self.request(Method::GET, path, None).await?)
            .await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body).map_err(|e| ClientError::Response(e.to_string()))?;
        self.read(self.request(Method::POST, path, Some(body)).await?)
            .await
    }

    async fn read<T: DeserializeOwned>(&self, body: Incoming) -> Result<T, ClientError> {
        let bytes = body.collect().await?.to_bytes();
        serde_json::from_slice(&bytes).map_err(|error| ClientError::Response(error.to_string()))
    }

    /// Sends a request, and returns the body of a successful response.
    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Incoming, ClientError> {
        let stream =
            UnixStream::connect(&self.socket)
                .await
                .map_err(|error| ClientError::NotRunning {
                    path: self.socket.clone(),
                    error,
                })?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.unwrap_or_default())))
            .map_err(|error| ClientError::Connection(error.to_string()))?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        let bytes = response.into_body().collect().await?.to_bytes();
        Err(match serde_json::from_slice(&bytes) {
            Ok(problem) => ClientError::Problem(Box::new(problem)),
            Err(_) => ClientError::Response(unexpected(status)),
        })
    }
}

fn unexpected(status: StatusCode) -> String {
    format!("status {status} without a problem")
}

impl EventStream {
    /// Waits for the next frame. Returns `None` at the end of the stream.
    ///
    /// # Errors
    /// If the connection fails, or nothing arrives for longer than three heartbeats.
    pub async fn next(&mut self) -> Result<Option<StreamEvent>, ClientError> {
        loop {
            while let Some(frame) = self.take_frame() {
                if let Some(event) = parse_frame(&frame) {
                    return Ok(Some(event));
                }
            }
            let frame = tokio::time::timeout(SILENCE, self.body.frame()).await;
            match frame.map_err(|_| ClientError::Silent)? {
                None => return Ok(None),
                Some(Err(error)) => return Err(error.into()),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                    if self.buffer.len() > MAX_FRAME {
                        return Err(ClientError::Response("a frame is too large".to_owned()));
                    }
                }
            }
        }
    }

    /// Takes a complete frame from the buffer.
    fn take_frame(&mut self) -> Option<Vec<u8>> {
        let from = self.searched.saturating_sub(1);
        let end = self.buffer[from..]
            .windows(2)
            .position(|pair| pair == b"\n\n");
        let Some(end) = end.map(|at| from + at + 2) else {
            self.searched = self.buffer.len();
            return None;
        };
        self.searched = 0;
        let rest = self.buffer.split_off(end);
        Some(std::mem::replace(&mut self.buffer, rest))
    }
}

/// Parses a frame; `None` for comments and settings.
fn parse_frame(frame: &[u8]) -> Option<StreamEvent> {
    let text = std::str::from_utf8(frame).ok()?;
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
        lines.next().map(|value| value.trim_start().to_owned())
    };
    Some(StreamEvent {
        data: field("data:")?,
        id: field("id:"),
        event: field("event:").unwrap_or_else(|| "message".to_owned()),
    })
}

/// Encodes a part of a path.
fn encode(part: &str) -> String {
    let mut encoded = String::new();
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_parsed() {
        assert_eq!(parse_frame(b": heartbeat\n\n"), None);
        assert_eq!(parse_frame(b"retry: 1000\n\n"), None);
        let event = parse_frame(b"id: 7\ndata: {\"a\":\"b: c\"}\n\n").unwrap();
        assert_eq!(
            (event.event.as_str(), event.id.as_deref()),
            ("message", Some("7"))
        );
        assert_eq!(event.data, "{\"a\":\"b: c\"}");
        let event = parse_frame(b"event: caught_up\ndata: {\"seq\":0}\n\n").unwrap();
        assert_eq!((event.event.as_str(), event.id), ("caught_up", None));
    }

    #[test]
    fn parts_of_a_path_are_encoded() {
        assert_eq!(encode("a-b_c.~9"), "a-b_c.~9");
        assert_eq!(encode("../é?"), "..%2F%C3%A9%3F");
    }
}
