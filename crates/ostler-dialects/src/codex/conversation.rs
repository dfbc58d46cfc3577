//! Conversation with Codex's app-server: dispatch of its messages, and what is sent to it.
//!
//! Notifications that only show that it is alive yield nothing: the line itself counts as activity.
//! Unknown notifications are reported whole in a notice.

use ostler_core::dialect::{
    Change, Conversation, Exit, FromConversation, Outbox, ToAgent, TurnResult, Version,
};
use ostler_core::event::{NoticeCode, Started, TextKind};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::spec::{Denials, Spec};

use serde_json::{Value, json};

use super::items::{Delta, Items};
use super::notifications::{self, Notification};
use super::permissions::{AskContext, OpenPermissions, Request, Requester};
use super::plan::Plan;
use super::requests;
use super::rpc::{RPC, RequestKind};
use super::settings::MODES;
use super::subagents::SubagentItems;
use super::usage::UsageTracker;
use super::wire::{Message, Params, Response, TurnError};
use super::{NAME, TITLE, blame, plan};
use crate::blame::interrupted;
use crate::json_lines::{self, LineReader, report_unknown, without_nulls};
use crate::jsonrpc::{Call, Client, Kind, RpcError};
use crate::mcp::ToolOutput;
use crate::structured;

/// State of one conversation. Whatever belongs to a turn is in [`Turn`] and [`Items`] and is
/// dropped with it.
pub(super) struct AppServerConversation {
    plan: Plan,
    /// Additional directories, for a sandbox that is selected later.
    roots: Vec<String>,
    version: Option<String>,
    cwd: Option<String>,
    model: Option<String>,
    /// Changes that take effect with the next turn.
    next_model: Option<String>,
    next_sandbox: Option<Value>,
    phase: Phase,
    /// A prompt that waits for the thread.
    queued_prompt: Option<String>,
    rpc: Client<RequestKind>,
    turn: Turn,
    items: Items,
    subagents: SubagentItems,
    permissions: OpenPermissions,
    usage: UsageTracker,
}

/// Progress of the handshake.
enum Phase {
    Handshake,
    /// The thread of the conversation.
    Ready(String),
    /// The thread could not be opened.
    Failed(Outcome),
}

/// State of the current turn.
#[derive(Default)]
struct Turn {
    open: bool,
    /// Its id, once Codex has started it. Before that, Codex accepts neither interrupts nor
    /// messages.
    id: Option<String>,
    interrupt: Interrupt,
    /// The sandbox it was requested with, which is settled once the turn has started.
    sandbox: Option<Value>,
    steers: Vec<String>,
    /// Number of messages sent into the turn, and of user messages that Codex has accepted,
    /// including the prompt.
    steered: usize,
    accepted: usize,
    /// The error that made Codex give up.
    error: Option<Outcome>,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Interrupt {
    #[default]
    None,
    /// Waits until the turn can be interrupted.
    Pending,
    Sent,
}

impl AppServerConversation {
    pub(super) fn new(spec: &Spec) -> Self {
        let plan = Plan::of(spec);
        Self {
            roots: plan::roots(spec, plan.dir.as_deref()),
            version: None,
            cwd: None,
            model: None,
            next_model: None,
            next_sandbox: None,
            phase: Phase::Handshake,
            queued_prompt: None,
            rpc: Client::new(RPC),
            turn: Turn::default(),
            items: Items::new(plan.dir.clone()).streaming(plan.partial),
            subagents: SubagentItems::default(),
            permissions: OpenPermissions::new(spec),
            usage: UsageTracker::default(),
            plan,
        }
    }

    fn ask_context(&mut self) -> AskContext<'_> {
        AskContext {
            plan: &self.plan,
            items: &mut self.items,
            permissions: &mut self.permissions,
            requester: Requester::Own,
        }
    }

    fn prompt(&mut self, prompt: String, out: &mut Outbox) {
        self.turn = Turn {
            open: true,
            ..Turn::default()
        };
        self.items.start_turn();
        match &self.phase {
            Phase::Handshake => self.queued_prompt = Some(prompt),
            Phase::Failed(outcome) => {
                let outcome = outcome.clone();
                self.finish_turn(TurnResult::new(outcome), out);
            }
            Phase::Ready(thread) => {
                let params = without_nulls(json!({
                    "threadId": thread,
                    "input": requests::input(&prompt),
                    "model": self.next_model,
                    "sandboxPolicy": self.next_sandbox,
                    "outputSchema": self.plan.schema,
                }));
                self.turn.sandbox.clone_from(&self.next_sandbox);
                self.rpc.request(
                    RequestKind::Turn,
                    Call {
                        method: "turn/start",
                        params,
                    },
                    out,
                );
            }
        }
    }

    /// Handles a successful response.
    fn on_response(&mut self, kind: RequestKind, response: &Response<'_>, out: &mut Outbox) {
        match kind {
            RequestKind::Initialize => {
                self.version = response
                    .user_agent
                    .text()
                    .and_then(Version::find)
                    .map(|version| version.to_string());
                RPC.notify("initialized", None::<()>, out);
                let call = Call {
                    method: self.plan.method,
                    params: &self.plan.thread,
                };
                self.rpc.request(RequestKind::Thread, call, out);
            }
            RequestKind::Thread => {
                let Some(thread) = response.thread.id.owned() else {
                    return self.on_error_response(kind, None, out);
                };
                self.model = response.model.owned();
                self.cwd = response.cwd.owned();
                if self.cwd.is_some() {
                    self.items.session_dir.clone_from(&self.cwd);
                }
                self.phase = Phase::Ready(thread);
                self.emit_started(out);
                self.send_queued_prompt(out);
            }
            _ => {}
        }
    }

    /// Sends the queued prompt, unless it was interrupted.
    fn send_queued_prompt(&mut self, out: &mut Outbox) {
        let Some(prompt) = self.queued_prompt.take() else {
            return;
        };
        if self.turn.interrupt == Interrupt::Pending {
            return self.finish_turn(TurnResult::new(interrupted()), out);
        }
        let steers = std::mem::take(&mut self.turn.steers);
        self.prompt(prompt, out);
        self.turn.steers = steers;
    }

    /// Handles an error response.
    fn on_error_response(
        &mut self,
        kind: RequestKind,
        error: Option<&RpcError<'_>>,
        out: &mut Outbox,
    ) {
        match kind {
            RequestKind::Initialize | RequestKind::Thread => {
                let method = match kind {
                    RequestKind::Thread => self.plan.method,
                    _ => "initialize",
                };
                let outcome = blame::of_rpc_error(method, error);
                self.phase = Phase::Failed(outcome.clone());
                if self.turn.open {
                    self.finish_turn(TurnResult::new(outcome), out);
                }
            }
            RequestKind::Turn if self.turn.open && self.turn.id.is_none() => {
                self.finish_turn(
                    TurnResult::new(blame::of_rpc_error("turn/start", error)),
                    out,
                );
            }
            RequestKind::Steer => {
                self.turn.steered = self.turn.steered.saturating_sub(1);
                let why = error
                    .map(|error| error.message.or_empty())
                    .unwrap_or_default();
                let message = format!("A steering message did not reach the model ({why}).");
                out.warn(NoticeCode::SteerDropped, message);
            }
            // The turn has not started yet, or has ended already. In the first case the interrupt
            // is retried.
            RequestKind::Interrupt if self.turn.open => self.turn.interrupt = Interrupt::Pending,
            _ => {}
        }
    }

    fn emit_started(&self, out: &mut Outbox) {
        let Phase::Ready(thread) = &self.phase else {
            return;
        };
        out.event(Started {
            agent: NAME.to_owned(),
            agent_version: self.version.clone(),
            native_session: Some(thread.clone()),
            model: self.model.clone(),
            cwd: self.cwd.clone(),
            tools: self.permissions.names(),
        });
    }

    /// Returns true if a notification is about the conversation's thread, and not about one of a
    /// sub-agent.
    fn is_own(&self, params: &Params<'_>) -> bool {
        match (&self.phase, params.thread_id.text()) {
            (Phase::Ready(own), Some(thread)) => own == thread,
            _ => true,
        }
    }

    fn on_notification(&mut self, notification: &Notification<'_>, out: &mut Outbox) {
        let Notification { method, params, .. } = *notification;
        match method {
            "thread/tokenUsage/updated" => return self.on_token_usage(params, out),
            "serverRequest/resolved" => {
                return self
                    .permissions
                    .withdraw(params.request_id.map_or("", |id| id.get()), out);
            }
            _ => {}
        }
        if !self.is_own(params) {
            return self.subagents.on_notification(
                method,
                params,
                self.items.session_dir.as_deref(),
            );
        }
        match method {
            "turn/started" => self.on_turn_started(params, out),
            "turn/completed" => self.on_turn_completed(params, out),
            "error" => self.on_error(params, out),
            "model/rerouted" => {
                let message = format!(
                    "Codex switched to {} instead of {}.",
                    params.to_model.or_empty(),
                    params.from_model.or_empty()
                );
                out.warn(NoticeCode::ModelFallback, message);
                self.model = params.to_model.owned().or(self.model.take());
            }
            _ if self.on_item(notification, out) => {}
            _ => notifications::on_other(notification, out),
        }
        if self.turn.interrupt == Interrupt::Pending && method.starts_with("item/") {
            self.interrupt(out);
        }
    }

    /// Handles what the agent says and does. Returns false for any other notification.
    fn on_item(&mut self, notification: &Notification<'_>, out: &mut Outbox) -> bool {
        let Notification {
            method,
            params,
            raw,
        } = *notification;
        if !self.turn.open && method.starts_with("item/") {
            // The end of a command that was left running. Its call already has its result.
            return true;
        }
        let id = params.item_id.or_empty();
        let delta = |kind| Delta {
            kind,
            message: id,
            text: params.delta.or_empty(),
        };
        match (method, params.item.map()) {
            ("item/agentMessage/delta", _) => {
                self.items.on_delta(delta(TextKind::Reply), out);
            }
            ("item/reasoning/summaryTextDelta" | "item/reasoning/textDelta", _) => {
                self.items.on_delta(delta(TextKind::Thinking), out);
            }
            ("item/reasoning/summaryPartAdded", _) => self.items.on_part_added(id, out),
            ("item/started", Some(item)) => {
                self.turn.accepted += usize::from(item.kind.text() == Some("userMessage"));
                self.items.on_started(item, out);
            }
            ("item/completed", Some(item)) => self.items.on_completed(item, raw, out),
            ("item/fileChange/patchUpdated", _) => self.items.on_patch_updated(id, params.changes),
            _ => return false,
        }
        true
    }

    fn on_turn_started(&mut self, params: &Params<'_>, out: &mut Outbox) {
        if !self.turn.open {
            // Codex started a turn by itself.
            self.turn = Turn {
                open: true,
                ..Turn::default()
            };
            self.items.start_turn();
        }
        self.turn.id = params.turn.id.owned();
        self.usage.begin_turn();
        out.push(FromConversation::TurnStarted);
        if self.turn.sandbox.is_some() && self.turn.sandbox == self.next_sandbox {
            self.next_sandbox = None;
        }
        if let Some(model) = self
            .next_model
            .take()
            .filter(|model| self.model.as_ref() != Some(model))
        {
            self.model = Some(model);
            self.emit_started(out);
        }
        for message in std::mem::take(&mut self.turn.steers) {
            self.steer(message, out);
        }
        if self.turn.interrupt == Interrupt::Pending {
            self.interrupt(out);
        }
    }

    fn on_token_usage(&mut self, params: &Params<'_>, out: &mut Outbox) {
        let Some(usage) = params.token_usage.map() else {
            return;
        };
        let in_turn = self.turn.open && self.turn.id.is_some();
        self.usage
            .on_counts(params.thread_id.or_empty(), usage, in_turn);
        if in_turn {
            out.events(self.usage.turn_usage(self.model.as_ref()));
        }
    }

    fn on_error(&mut self, params: &Params<'_>, out: &mut Outbox) {
        let empty = TurnError::default();
        let error = params.error.map().unwrap_or(&empty);
        if params.will_retry.is_true() {
            return out.warn(NoticeCode::ApiRetry, blame::retry(error));
        }
        self.turn.error = Some(blame::of_error(error));
    }

    fn on_turn_completed(&mut self, params: &Params<'_>, out: &mut Outbox) {
        if !self.turn.open {
            return;
        }
        let turn = &params.turn;
        let error = turn.error.map().map(blame::of_error);
        let error = error.or(self.turn.error.take());
        let outcome = match turn.status.or_empty() {
            "completed"
                if self.items.denied.is_empty() || self.plan.denials == Denials::Tolerate =>
            {
                Outcome::completed()
            }
            "completed" => blame::denied(std::mem::take(&mut self.items.denied)),
            "interrupted" => {
                self.clean_terminals(out);
                interrupted()
            }
            _ => error.unwrap_or_else(|| blame::of_error(&TurnError::default())),
        };
        let failed = !outcome.is_success() && outcome.cause != Cause::Denied;
        let text = self.items.reply.take().filter(|_| !failed);
        let structured = match self.plan.schema {
            Some(_) => structured::parse(text.as_deref(), &outcome, out),
            None => None,
        };
        let usage = self
            .usage
            .turn_usage(self.model.as_ref())
            .into_iter()
            .collect();
        self.finish_turn(
            TurnResult {
                outcome,
                text,
                structured,
                usage,
            },
            out,
        );
    }

    /// Terminates the commands of the turn, which Codex leaves running when it is interrupted.
    fn clean_terminals(&mut self, out: &mut Outbox) {
        if let Phase::Ready(thread_id) = &self.phase {
            let params = requests::clean_terminals(thread_id);
            let method = "thread/backgroundTerminals/clean";
            self.rpc
                .request(RequestKind::Clean, Call { method, params }, out);
        }
    }

    fn finish_turn(&mut self, result: TurnResult, out: &mut Outbox) {
        self.permissions.withdraw_all(out);
        self.drop_steers(out);
        self.queued_prompt = None;
        self.turn = Turn::default();
        out.push(result);
    }

    fn drop_steers(&mut self, out: &mut Outbox) {
        for message in std::mem::take(&mut self.turn.steers) {
            let message = format!("The turn ended before it received this message: {message}");
            out.warn(NoticeCode::SteerDropped, message);
        }
        for _ in self.turn.accepted.max(1)..=std::mem::take(&mut self.turn.steered) {
            let message = "The turn ended before a steering message reached the model.";
            out.warn(NoticeCode::SteerDropped, message);
        }
    }

    fn interrupt(&mut self, out: &mut Outbox) {
        self.turn.interrupt = Interrupt::Pending;
        if let (Phase::Ready(thread_id), Some(turn_id)) = (&self.phase, &self.turn.id) {
            let params = requests::interrupt(thread_id, turn_id);
            self.rpc.request(
                RequestKind::Interrupt,
                Call {
                    method: "turn/interrupt",
                    params,
                },
                out,
            );
            self.turn.interrupt = Interrupt::Sent;
        }
    }

    fn steer(&mut self, message: String, out: &mut Outbox) {
        match (&self.phase, &self.turn.id) {
            (Phase::Ready(thread_id), Some(turn_id)) => {
                let params = requests::steer(thread_id, turn_id, &message);
                self.rpc.request(
                    RequestKind::Steer,
                    Call {
                        method: "turn/steer",
                        params,
                    },
                    out,
                );
                self.turn.steered += 1;
            }
            _ => self.turn.steers.push(message),
        }
    }

    /// Records a change. Model and mode take effect with the next turn, whose request carries them.
    fn change(&mut self, change: Change) -> Option<String> {
        match change {
            Change::Model(model) => self.next_model = Some(model),
            Change::PermissionMode(mode) => match requests::sandbox_policy(&mode, &self.roots) {
                Some(sandbox) => self.next_sandbox = Some(sandbox),
                None => return Some(format!("expected one of: {}", MODES.join(", "))),
            },
        }
        None
    }
}

impl LineReader for AppServerConversation {
    type Line<'a> = Message<'a>;

    fn on_message(&mut self, message: &Message<'_>, raw: &str, out: &mut Outbox) {
        let params = &*message.params;
        match message.kind() {
            Kind::Request(id, method) => {
                let requester = if self.is_own(params) {
                    Requester::Own
                } else {
                    Requester::Subagent(self.subagents.items_of(params))
                };
                let request = Request { id, method, params };
                AskContext {
                    plan: &self.plan,
                    items: &mut self.items,
                    permissions: &mut self.permissions,
                    requester,
                }
                .on_request(&request, raw, out);
            }
            Kind::Notification(method) => {
                let notification = Notification {
                    method,
                    params,
                    raw,
                };
                self.on_notification(&notification, out);
            }
            Kind::Response(id) => {
                let Some(kind) = self.rpc.complete(&id) else {
                    return;
                };
                match (message.error(), message.result.map()) {
                    (Some(error), _) => self.on_error_response(kind, Some(&error), out),
                    (None, Some(response)) => self.on_response(kind, response, out),
                    (None, None)
                        if matches!(kind, RequestKind::Initialize | RequestKind::Thread) =>
                    {
                        self.on_error_response(kind, None, out);
                    }
                    (None, None) => {}
                }
            }
            Kind::Invalid => report_unknown(TITLE, "a message without a method", raw, out),
        }
    }
}

impl Conversation for AppServerConversation {
    fn on_start(&mut self, out: &mut Outbox) {
        let params = requests::initialize();
        self.rpc.request(
            RequestKind::Initialize,
            Call {
                method: "initialize",
                params,
            },
            out,
        );
    }

    fn send(&mut self, message: ToAgent, out: &mut Outbox) {
        match message {
            ToAgent::Prompt(prompt) => self.prompt(prompt, out),
            ToAgent::Steer(message) => self.steer(message, out),
            ToAgent::Interrupt => self.interrupt(out),
            ToAgent::Verdict { id, verdict } => self.ask_context().on_verdict(&id, &verdict, out),
            ToAgent::ToolDone { id, ok, output } => {
                let result = ToolOutput { ok, text: &output };
                self.permissions.on_tool_result(&id, result, out);
            }
            ToAgent::ToolProgress { .. } | ToAgent::FileDone { .. } | ToAgent::Approve(_) => {}
            ToAgent::Change { id, change } => {
                let error = self.change(change);
                out.push(FromConversation::Changed { id, error });
            }
        }
    }

    fn on_line(&mut self, raw: &str, out: &mut Outbox) {
        json_lines::deliver(self, raw, out);
    }

    fn on_exit(&mut self, exit: &Exit, out: &mut Outbox) {
        self.drop_steers(out);
        let turn = std::mem::take(&mut self.turn);
        if !turn.open {
            return;
        }
        let usage: Vec<_> = self
            .usage
            .turn_usage(self.model.as_ref())
            .into_iter()
            .filter(|_| turn.id.is_some())
            .collect();
        let in_handshake = matches!(self.phase, Phase::Handshake);
        match blame::BLAME.of_exit(exit).filter(|_| in_handshake) {
            Some(outcome) => out.push(TurnResult {
                usage,
                ..TurnResult::new(outcome)
            }),
            // The session driver determines how the turn ended; only the usage is known here.
            None => out.events(usage),
        }
    }
}
