//! Test editor: the official SDK's client over the program's pipes. Every line from the program is
//! checked.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema as acp;
use agent_client_protocol::{Agent, Client, Lines};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin};

use super::protocol_checker::ProtocolChecker;
use crate::rig::PATIENCE;

/// Session notifications received so far.
type Updates = Arc<Mutex<Vec<acp::SessionNotification>>>;

/// The editor's answer to permission requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PermissionAnswer {
    Allow,
    Always,
    Reject,
    /// Leaves the request open.
    None,
}

/// A connected editor.
pub(crate) struct Editor {
    pub(crate) to: ConnectionTo<Agent>,
    pub(crate) initialized: acp::InitializeResponse,
    updates: Updates,
    permission_requests: Arc<Mutex<Vec<acp::RequestPermissionRequest>>>,
}

/// Runs a conversation with the program, then closes its stdin. Returns the conversation's result
/// and the program's exit code.
pub(crate) fn with_editor<R>(
    command: std::process::Command,
    answer: PermissionAnswer,
    conversation: impl AsyncFnOnce(&Editor) -> R,
) -> (R, Option<i32>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut child = start(command);
        let result =
            tokio::time::timeout(2 * PATIENCE, connect(&mut child, answer, conversation)).await;
        let result = result.unwrap_or_else(|_| panic!("the conversation timed out"));
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
        let ended = ended.unwrap_or_else(|_| panic!("the program did not exit"));
        (result, ended.unwrap().code())
    })
}

fn start(mut command: std::process::Command) -> Child {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let mut command = tokio::process::Command::from(command);
    command.kill_on_drop(true).spawn().unwrap()
}

async fn connect<R>(
    child: &mut Child,
    answer: PermissionAnswer,
    conversation: impl AsyncFnOnce(&Editor) -> R,
) -> R {
    let (updates, permission_requests, checker) = (
        Updates::default(),
        Arc::new(Mutex::new(Vec::new())),
        ProtocolChecker::default(),
    );
    let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    let check = checker.clone();
    let incoming = futures_util::stream::unfold((stdout, check), async |(mut lines, check)| {
        let line = lines.next_line().await.unwrap()?;
        check.check(&line);
        Some((Ok(line), (lines, check)))
    });
    let stdin = (child.stdin.take().unwrap(), checker);
    let outgoing = futures_util::sink::unfold(
        stdin,
        async |(mut stdin, check): (ChildStdin, ProtocolChecker), line: String| {
            check.record_request(&line);
            stdin.write_all(format!("{line}\n").as_bytes()).await?;
            stdin.flush().await?;
            Ok::<_, std::io::Error>((stdin, check))
        },
    );
    let (sink, requests) = (updates.clone(), permission_requests.clone());
    Client
        .v1()
        .name("test")
        .on_receive_notification(
            async move |notification: acp::SessionNotification, _| {
                sink.lock().unwrap().push(notification);
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: acp::RequestPermissionRequest, responder, _| {
                let kind = match answer {
                    PermissionAnswer::Allow => Some(acp::PermissionOptionKind::AllowOnce),
                    PermissionAnswer::Always => Some(acp::PermissionOptionKind::AllowAlways),
                    PermissionAnswer::Reject => Some(acp::PermissionOptionKind::RejectOnce),
                    PermissionAnswer::None => None,
                };
                let option = request
                    .options
                    .iter()
                    .find(|option| Some(option.kind) == kind)
                    .map(|o| o.option_id.clone());
                requests.lock().unwrap().push(request);
                match option {
                    Some(option) => responder.respond(acp::RequestPermissionResponse::new(
                        acp::RequestPermissionOutcome::Selected(
                            acp::SelectedPermissionOutcome::new(option),
                        ),
                    )),
                    None => {
                        std::mem::forget(responder); // dropping it would send a response
                        Ok(())
                    }
                }
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(
            Lines::new(Box::pin(outgoing), Box::pin(incoming)),
            async |to: ConnectionTo<Agent>| {
                let initialized = to
                    .send_request(acp::InitializeRequest::new(ProtocolVersion::V1))
                    .block_task()
                    .await?;
                Ok(conversation(&Editor {
                    to,
                    initialized,
                    updates,
                    permission_requests,
                })
                .await)
            },
        )
        .await
        .unwrap()
}

impl Editor {
    /// Starts a session.
    pub(crate) async fn open(&self, dir: &std::path::Path) -> acp::SessionId {
        self.to
            .send_request(acp::NewSessionRequest::new(dir))
            .block_task()
            .await
            .unwrap()
            .session_id
    }

    /// Sends a message and waits for the end of its turn.
    pub(crate) async fn prompt(
        &self,
        session: &acp::SessionId,
        text: &str,
    ) -> Result<acp::PromptResponse, agent_client_protocol::Error> {
        let text = acp::ContentBlock::Text(acp::TextContent::new(text));
        self.to
            .send_request(acp::PromptRequest::new(session.clone(), vec![text]))
            .block_task()
            .await
    }

    /// Cancels the current turn.
    pub(crate) fn cancel(&self, session: &acp::SessionId) {
        self.to
            .send_notification(acp::CancelNotification::new(session.clone()))
            .unwrap();
    }

    /// Returns a session's updates as JSON.
    pub(crate) fn updates(&self, session: &acp::SessionId) -> Vec<Value> {
        let updates = self.updates.lock().unwrap();
        let of_session = updates
            .iter()
            .filter(|update| update.session_id == *session);
        of_session
            .map(|update| serde_json::to_value(&update.update).unwrap())
            .collect()
    }

    /// Returns the kinds of a session's updates, with consecutive duplicates removed.
    pub(crate) fn update_kinds(&self, session: &acp::SessionId) -> Vec<String> {
        let updates = self.updates(session);
        let mut kinds: Vec<String> = updates
            .iter()
            .map(|update| update["sessionUpdate"].as_str().unwrap().into())
            .collect();
        kinds.dedup();
        kinds
    }

    /// Returns the concatenated text of all chunks of one kind.
    pub(crate) fn text(&self, session: &acp::SessionId, kind: &str) -> String {
        let updates = self.updates(session);
        let chunks = updates
            .iter()
            .filter(|update| update["sessionUpdate"] == kind);
        chunks
            .map(|update| update["content"]["text"].as_str().unwrap())
            .collect()
    }

    /// Waits for an update that matches.
    pub(crate) async fn wait_for_update(
        &self,
        session: &acp::SessionId,
        matches: impl Fn(&Value) -> bool,
    ) {
        let wait = async {
            while !self.updates(session).iter().any(&matches) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait)
            .await
            .unwrap_or_else(|_| panic!("no such update"));
    }

    /// Returns the permission requests received so far.
    pub(crate) fn permission_requests(&self) -> Vec<acp::RequestPermissionRequest> {
        self.permission_requests.lock().unwrap().clone()
    }
}
