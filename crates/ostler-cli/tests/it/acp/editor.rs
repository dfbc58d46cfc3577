//! An editor: the client of the official SDK, over the pipes of the program. Every line of the program's is checked.

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

use super::valid::Checker;
use crate::rig::PATIENCE;

/// What an editor has heard.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<acp::SessionNotification>>>);

/// How an editor answers questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Says {
    Allow,
    Always,
    Reject,
    /// It leaves the question open.
    Nothing,
}

/// An editor at work.
pub(crate) struct Editor {
    pub(crate) to: ConnectionTo<Agent>,
    pub(crate) greeting: acp::InitializeResponse,
    heard: Heard,
    asked: Arc<Mutex<Vec<acp::RequestPermissionRequest>>>,
}

/// Has an editor talk to the program, which is then left by closing its stdin. Gives what the talk came to, and the
/// program's exit code.
pub(crate) fn edit<R>(
    command: std::process::Command,
    says: Says,
    talk: impl AsyncFnOnce(&Editor) -> R,
) -> (R, Option<i32>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut child = start(command);
        let talked = tokio::time::timeout(2 * PATIENCE, connect(&mut child, says, talk)).await;
        let talked = talked.unwrap_or_else(|_| panic!("the talk came to no end"));
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
        let ended = ended.unwrap_or_else(|_| panic!("the program did not end"));
        (talked, ended.unwrap().code())
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

async fn connect<R>(child: &mut Child, says: Says, talk: impl AsyncFnOnce(&Editor) -> R) -> R {
    let (heard, asked, checker) = (
        Heard::default(),
        Arc::new(Mutex::new(Vec::new())),
        Checker::default(),
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
        async |(mut stdin, check): (ChildStdin, Checker), line: String| {
            check.asks(&line);
            stdin.write_all(format!("{line}\n").as_bytes()).await?;
            stdin.flush().await?;
            Ok::<_, std::io::Error>((stdin, check))
        },
    );
    let (hears, asks) = (heard.clone(), asked.clone());
    Client
        .v1()
        .name("test")
        .on_receive_notification(
            async move |notification: acp::SessionNotification, _| {
                hears.0.lock().unwrap().push(notification);
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: acp::RequestPermissionRequest, responder, _| {
                let kind = match says {
                    Says::Allow => Some(acp::PermissionOptionKind::AllowOnce),
                    Says::Always => Some(acp::PermissionOptionKind::AllowAlways),
                    Says::Reject => Some(acp::PermissionOptionKind::RejectOnce),
                    Says::Nothing => None,
                };
                let option = request
                    .options
                    .iter()
                    .find(|option| Some(option.kind) == kind)
                    .map(|o| o.option_id.clone());
                asks.lock().unwrap().push(request);
                match option {
                    Some(option) => responder.respond(acp::RequestPermissionResponse::new(
                        acp::RequestPermissionOutcome::Selected(
                            acp::SelectedPermissionOutcome::new(option),
                        ),
                    )),
                    None => {
                        std::mem::forget(responder); // it would answer when it is dropped
                        Ok(())
                    }
                }
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(
            Lines::new(Box::pin(outgoing), Box::pin(incoming)),
            async |to: ConnectionTo<Agent>| {
                let greeting = to
                    .send_request(acp::InitializeRequest::new(ProtocolVersion::V1))
                    .block_task()
                    .await?;
                Ok(talk(&Editor {
                    to,
                    greeting,
                    heard,
                    asked,
                })
                .await)
            },
        )
        .await
        .unwrap()
}

impl Editor {
    /// Begins a session.
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

    /// Ends the turn that is under way.
    pub(crate) fn cancel(&self, session: &acp::SessionId) {
        self.to
            .send_notification(acp::CancelNotification::new(session.clone()))
            .unwrap();
    }

    /// What was told of a session, as JSON.
    pub(crate) fn told(&self, session: &acp::SessionId) -> Vec<Value> {
        let heard = self.heard.0.lock().unwrap();
        let own = heard.iter().filter(|told| told.session_id == *session);
        own.map(|told| serde_json::to_value(&told.update).unwrap())
            .collect()
    }

    /// The kinds of what was told, one for many of the same kind.
    pub(crate) fn story(&self, session: &acp::SessionId) -> Vec<String> {
        let told = self.told(session);
        let mut kinds: Vec<String> = told
            .iter()
            .map(|update| update["sessionUpdate"].as_str().unwrap().into())
            .collect();
        kinds.dedup();
        kinds
    }

    /// The words of one kind of chunk, in order.
    pub(crate) fn words(&self, session: &acp::SessionId, kind: &str) -> String {
        let told = self.told(session);
        let own = told.iter().filter(|update| update["sessionUpdate"] == kind);
        own.map(|update| update["content"]["text"].as_str().unwrap())
            .collect()
    }

    /// Waits until something was told.
    pub(crate) async fn until(&self, session: &acp::SessionId, kind: impl Fn(&Value) -> bool) {
        let wait = async {
            while !self.told(session).iter().any(&kind) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait)
            .await
            .unwrap_or_else(|_| panic!("it was never told"));
    }

    /// The questions that were asked.
    pub(crate) fn asked(&self) -> Vec<acp::RequestPermissionRequest> {
        self.asked.lock().unwrap().clone()
    }
}
