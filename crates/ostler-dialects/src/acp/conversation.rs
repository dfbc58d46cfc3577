//! Conversation with an agent that speaks ACP: dispatch of its messages, and what is sent to it.

use std::collections::{BTreeMap, VecDeque};

use ostler_core::dialect::{
    Change, Conversation, Exit, FromConversation, Launching, Outbox, ToAgent, TurnResult,
};
use ostler_core::event::{Level, NoticeCode};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::spec::Denials;
use serde_json::json;
use serde_json::value::RawValue;

use super::calls::{CallContext, Calls};
use super::files::Files;
use super::handshake::{SessionStart, Step};
use super::options::SessionOptions;
use super::profile::AgentProfile;
use super::quirks::Quirks;
use super::rpc::RequestKind;
use super::updates::TurnText;
use super::usage::UsageTracker;
use super::version::Version;
use super::wire::{Message, Params};
use super::{
    blame, bridge_calls, ending, files, handshake, options, permissions, settings, updates,
};
use crate::json_lines::{self, LineReader};
use crate::jsonrpc::{Call, Client, Failure, Kind, METHOD_NOT_FOUND, RequestId, RpcError, V2};
use crate::lenient::Node;
use crate::mcp::{ClientQuirks, ToolOutput, ToolServer};

/// State of one conversation. Whatever belongs to a turn is in [`Turn`] and is dropped with it.
pub(super) struct AcpConversation {
    pub(super) profile: &'static AgentProfile,
    pub(super) quirks: Quirks,
    pub(super) denials: Denials,
    /// Whether a policy is set.
    pub(super) policy: bool,
    pub(super) start: SessionStart,
    pub(super) phase: Phase,
    pub(super) version: Version,
    pub(super) rpc: Client<RequestKind>,
    /// The agent's id of the session.
    pub(super) session: String,
    pub(super) options: SessionOptions,
    /// Remaining setup steps before the first prompt.
    pub(super) steps: VecDeque<Step>,
    /// Whether incoming updates replay the history of a session that is being loaded.
    pub(super) replaying: bool,
    /// A prompt that arrived before the session was open.
    queued_prompt: Option<String>,
    /// Changes requested before the session was open.
    changes: Vec<(u64, Change)>,
    pub(super) permissions: BTreeMap<String, permissions::PendingPermission>,
    pub(super) files: Files,
    pub(super) server: ToolServer,
    /// Names of the caller's tools.
    pub(super) bound: Vec<String>,
    pub(super) calls: Calls,
    pub(super) usage: UsageTracker,
    turns: u64,
    /// Number of tool jobs so far, including ids that were reserved and not used.
    pub(super) job_count: u64,
    /// Whether the agent was given a bridge to the caller's tools and has not connected to it yet.
    pub(super) tools_unreached: bool,
    pub(super) turn: Turn,
}

/// Progress of the handshake.
#[derive(Debug)]
pub(super) enum Phase {
    /// The handshake is under way.
    Opening,
    /// The session is open.
    Ready,
    /// The session could not be opened.
    Failed(Box<Outcome>),
}

/// State of the current turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Whether a turn is in progress.
    pub(super) open: bool,
    /// Whether the agent was asked to cancel it.
    pub(super) interrupted: bool,
    /// Whether a tool was called.
    pub(super) used_tools: bool,
    /// Tools whose calls were denied.
    pub(super) denied: Vec<String>,
    /// Outcome of the turn once the agent has reported that its session is lost. The turn ends with
    /// it when the process has exited.
    pub(super) lost: Option<Outcome>,
    /// The agent's error text, once it has reported a failure for a turn that it ends as
    /// successful.
    pub(super) failure: Option<String>,
    /// Last HTTP status that the agent reported from the model API.
    pub(super) status: Option<u16>,
    pub(super) text: TurnText,
}

/// A request of the agent.
pub(super) struct Request<'a> {
    pub(super) id: RequestId,
    pub(super) method: &'a str,
    pub(super) params: &'a Params<'a>,
}

/// The response to one of our requests: its result as JSON, and the error if it failed.
pub(super) struct Response<'a> {
    pub(super) result: &'a str,
    pub(super) error: Option<RpcError<'a>>,
}

impl<'a> Response<'a> {
    /// Parses the result. Anything that is not an object counts as an empty one.
    pub(super) fn parse<T: serde::Deserialize<'a> + Default>(&self) -> T {
        match serde_json::from_str(self.result) {
            Ok(Node::Map(result)) => result,
            _ => T::default(),
        }
    }
}

impl AcpConversation {
    pub(super) fn new(profile: &'static AgentProfile, launching: &Launching<'_>) -> Self {
        let spec = launching.spec;
        let quirks = settings::quirks(profile, spec);
        let start = SessionStart::new(profile, launching);
        Self {
            profile,
            quirks,
            denials: spec.denials,
            policy: spec.policy.is_some(),
            phase: Phase::Opening,
            version: Version::One,
            rpc: Client::new(V2),
            session: String::new(),
            options: SessionOptions::default(),
            steps: VecDeque::new(),
            replaying: false,
            queued_prompt: None,
            changes: Vec::new(),
            permissions: BTreeMap::new(),
            files: Files::new(start.fs, quirks.missing_reads_empty),
            server: ToolServer::new(
                &spec.bound_tools,
                &ClientQuirks {
                    meta: quirks
                        .tool_meta
                        .and_then(|meta| serde_json::from_str(meta).ok()),
                    reads_json: quirks.reads_json,
                    ..ClientQuirks::default()
                },
            ),
            bound: spec
                .bound_tools
                .iter()
                .map(|tool| tool.name.clone())
                .collect(),
            calls: Calls::default(),
            usage: UsageTracker::new(start.resume.is_some()),
            start,
            turns: 0,
            job_count: 0,
            tools_unreached: launching.bridge.is_some(),
            turn: Turn::default(),
        }
    }

    /// Returns the tool calls, and what they depend on.
    pub(super) fn calls_in_context(&mut self) -> (&mut Calls, CallContext<'_>) {
        let context = CallContext {
            profile: self.profile,
            quirks: &self.quirks,
            bound: &self.bound,
            cut_off: self.turn.interrupted,
        };
        (&mut self.calls, context)
    }

    /// Returns true if the agent has a prompt that it has not answered yet.
    pub(super) fn is_working(&self) -> bool {
        self.turn.open && self.queued_prompt.is_none() && matches!(self.phase, Phase::Ready)
    }

    fn prompt(&mut self, prompt: String, out: &mut Outbox) {
        self.turns += 1;
        self.turn = Turn {
            open: true,
            text: TurnText::new(self.turns),
            ..Turn::default()
        };
        match &self.phase {
            Phase::Opening => self.queued_prompt = Some(prompt),
            Phase::Ready => self.send(&prompt, out),
            Phase::Failed(outcome) => {
                let outcome = (**outcome).clone();
                self.finish_turn(TurnResult::new(outcome), out);
            }
        }
    }

    fn send(&mut self, prompt: &str, out: &mut Outbox) {
        self.usage.begin_turn();
        let prompt = json!([{"type": "text", "text": prompt}]);
        let call = Call {
            method: "session/prompt",
            params: json!({"sessionId": self.session, "prompt": prompt}),
        };
        self.rpc.request(RequestKind::Prompt, call, out);
        out.push(FromConversation::TurnStarted);
    }

    /// Sends whatever was queued until the session was open.
    pub(super) fn on_session_ready(&mut self, out: &mut Outbox) {
        self.phase = Phase::Ready;
        self.replaying = false;
        for (id, change) in std::mem::take(&mut self.changes) {
            options::request_change(self, id, &change, out);
        }
        if let Some(prompt) = self.queued_prompt.take() {
            self.send(&prompt, out);
        }
    }

    /// Records that the session could not be opened.
    pub(super) fn fail(&mut self, outcome: Outcome, out: &mut Outbox) {
        self.queued_prompt = None;
        for (id, _) in std::mem::take(&mut self.changes) {
            out.push(FromConversation::Changed {
                id,
                error: Some(outcome.message.clone()),
            });
        }
        if self.turn.open {
            self.finish_turn(TurnResult::new(outcome.clone()), out);
        } else {
            self.report_failure(&outcome, out);
        }
        self.phase = Phase::Failed(Box::new(outcome));
    }

    /// Reports a failed handshake as a notice while no turn is waiting for it.
    fn report_failure(&self, outcome: &Outcome, out: &mut Outbox) {
        let (cause, message) = (outcome.cause.as_str(), &outcome.message);
        let hint = outcome.hint.as_deref().unwrap_or_default();
        let message = format!(
            "{} could not open a session ({cause}): {message} {hint}",
            self.profile.name
        );
        out.notice(
            Level::Error,
            NoticeCode::HandshakeFailed,
            message.trim_end(),
        );
    }

    /// Ends the turn.
    pub(super) fn finish_turn(&mut self, result: TurnResult, out: &mut Outbox) {
        self.turn.text.release(out);
        permissions::cancel_all(self, out);
        bridge_calls::cancel_all(self, out);
        self.calls.end_turn(self.turn.interrupted, out);
        if self.is_working() && std::mem::take(&mut self.tools_unreached) {
            let AgentProfile {
                name,
                unreached_hint,
                ..
            } = self.profile;
            let message = format!(
                "{name} has not started the bridge to the caller's tools, so it has none of \
                 them.{unreached_hint}"
            );
            out.warn(NoticeCode::ToolsUnreached, message);
        }
        self.turn = Turn::default();
        out.push(result);
    }

    fn interrupt(&mut self, out: &mut Outbox) {
        if !self.turn.open {
            return;
        }
        if self.is_working() {
            self.turn.interrupted = true;
            let params = json!({"sessionId": self.session});
            V2.notify("session/cancel", Some(params), out);
            permissions::cancel_all(self, out);
            bridge_calls::cancel_all(self, out);
        } else {
            // The agent has not received the prompt, and never will.
            self.queued_prompt = None;
            let outcome = Outcome::new(
                Cause::Interrupted,
                "The turn was interrupted before it reached the agent.",
            );
            self.finish_turn(
                TurnResult::new(outcome.with(|d| d.acknowledged = Some(true))),
                out,
            );
        }
    }

    fn on_request(&mut self, request: &Request<'_>, raw: &str, out: &mut Outbox) {
        match request.method {
            "session/request_permission" => permissions::on_request(self, request, out),
            "fs/read_text_file" | "fs/write_text_file" if self.files.served => {
                files::on_request(self, request, out);
            }
            method => {
                let message = format!("no method {method:?}");
                let failure = Failure {
                    code: METHOD_NOT_FOUND,
                    message: &message,
                };
                V2.reply_error(&request.id, failure, out);
                if !self.quirks.ignored_methods.contains(&method) {
                    self.report_unknown(raw, &format!("the request {method:?}"), out);
                }
            }
        }
    }

    fn on_response(&mut self, kind: &RequestKind, message: &Message<'_>, out: &mut Outbox) {
        let response = Response {
            result: message.result.map_or("null", RawValue::get),
            error: message.error(),
        };
        match kind {
            RequestKind::Prompt => ending::on_prompt_response(self, &response, out),
            RequestKind::Change(change) => {
                options::on_change_response(self, *change, &response, out);
            }
            _ => handshake::on_response(self, kind, &response, out),
        }
    }

    /// Reports an unknown message in a notice that carries it whole.
    pub(super) fn report_unknown(&self, raw: &str, kind: &str, out: &mut Outbox) {
        json_lines::report_unknown(self.profile.name, kind, raw, out);
    }
}

impl LineReader for AcpConversation {
    type Line<'a> = Message<'a>;

    fn on_message(&mut self, message: &Message<'_>, raw: &str, out: &mut Outbox) {
        let params = &*message.params;
        match message.kind() {
            Kind::Notification("session/update") => updates::on_update(self, params, raw, out),
            // Extensions of the protocol begin with an underscore and can be ignored.
            Kind::Notification(method) if method.starts_with('_') => {}
            Kind::Notification(method) if self.quirks.ignored_methods.contains(&method) => {}
            Kind::Notification(method) => {
                self.report_unknown(raw, &format!("the notification {method:?}"), out);
            }
            Kind::Request(id, method) => {
                let request = Request { id, method, params };
                self.on_request(&request, raw, out);
            }
            Kind::Response(id) => match self.rpc.complete(&id) {
                Some(kind) => self.on_response(&kind, message, out),
                None => self.report_unknown(raw, "a response to an unknown request", out),
            },
            Kind::Invalid => out.unreadable(raw, "a JSON object, but not a JSON-RPC message"),
        }
    }
}

impl Conversation for AcpConversation {
    fn on_start(&mut self, out: &mut Outbox) {
        handshake::send_initialize(self, out);
    }

    fn send(&mut self, message: ToAgent, out: &mut Outbox) {
        match message {
            ToAgent::Prompt(prompt) => self.prompt(prompt, out),
            ToAgent::Interrupt => self.interrupt(out),
            ToAgent::Verdict { id, verdict } => permissions::on_verdict(self, &id, &verdict, out),
            ToAgent::ToolDone { id, ok, output } => {
                bridge_calls::on_result(self, &id, ToolOutput { ok, text: &output }, out);
            }
            ToAgent::FileDone { id, result } => self.files.on_result(&id, result, out),
            ToAgent::Change { id, change } => match &self.phase {
                Phase::Opening => self.changes.push((id, change)),
                Phase::Ready => options::request_change(self, id, &change, out),
                Phase::Failed(outcome) => out.push(FromConversation::Changed {
                    id,
                    error: Some(outcome.message.clone()),
                }),
            },
            ToAgent::ToolProgress { id, message } => {
                bridge_calls::progress(self, &id, &message, out);
            }
            ToAgent::Steer(_) | ToAgent::Approve(_) => {}
        }
    }

    fn on_line(&mut self, raw: &str, out: &mut Outbox) {
        json_lines::deliver(self, raw, out);
    }

    fn on_bridge_line(&mut self, from: u32, line: &str, out: &mut Outbox) {
        bridge_calls::on_line(self, from, line, out);
    }

    fn owes_bridge_reply(&self, to: u32) -> bool {
        self.server.pending_for(to).next().is_some()
    }

    fn on_bridge_closed(&mut self, from: u32, out: &mut Outbox) {
        bridge_calls::on_client_closed(self, from, out);
    }

    fn on_exit(&mut self, exit: &Exit, out: &mut Outbox) {
        self.turn.text.release(out);
        if let Some(outcome) = self.turn.lost.take() {
            return self.finish_turn(TurnResult::new(outcome), out);
        }
        let silent = matches!(self.phase, Phase::Opening);
        match blame::of_exit(self.profile, exit).filter(|_| silent) {
            Some(outcome) if self.turn.open => self.finish_turn(TurnResult::new(outcome), out),
            Some(outcome) => self.report_failure(&outcome, out),
            None => {}
        }
    }
}
