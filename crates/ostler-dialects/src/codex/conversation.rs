//! Conversation with Codex's app-server: dispatch of its messages, and what is sent to it.
//!
//! Notifications that only show that it is alive yield nothing: the line itself counts as activity.
//! Unknown notifications are reported whole in a notice.

use ostler_core::dialect::{
    Change, Conversation, Exit, FromConversation, Outbox, ToAgent, TurnResult, Version,
};
use ostler_core::event::{Level, Started, TextKind};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Denials, Spec};

use super::items::{Items, report_unknown};
use super::notifications::{self, parse_line};
use super::permissions::{AskContext, OpenPermissions, Requester};
use super::plan::Plan;
use super::requests::{self, SandboxSetting, TextInput, TurnStart};
use super::settings::MODES;
use super::subagents::SubagentItems;
use super::usage::UsageTracker;
use super::wire::{Message, Params, Response, RpcError, TurnError};
use super::{NAME, blame, plan, rpc};

/// Prefixes of request ids: each names the purpose of the request.
const INITIALIZE: &str = "initialize";
const THREAD: &str = "thread";
const TURN: &str = "turn";
const STEER: &str = "steer";
const INTERRUPT: &str = "interrupt";
const CLEAN: &str = "clean";

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
    next_sandbox: Option<SandboxSetting>,
    phase: Phase,
    /// A prompt that waits for the thread.
    queued_prompt: Option<String>,
    request_count: u64,
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
    sandbox: Option<SandboxSetting>,
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
            request_count: 0,
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

    /// Returns an unused request id for this purpose.
    fn next_id(&mut self, purpose: &str) -> String {
        self.request_count += 1;
        format!("{purpose}-{}", self.request_count)
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
                let params = RawJson::of(&TurnStart {
                    thread_id: thread,
                    input: [TextInput::new(&prompt)],
                    model: self.next_model.as_deref(),
                    sandbox_policy: self.next_sandbox.clone(),
                    output_schema: self.plan.schema.as_ref(),
                });
                self.turn.sandbox.clone_from(&self.next_sandbox);
                rpc::request((&self.next_id(TURN), "turn/start"), &params, out);
            }
        }
    }

    /// Dispatches a message of any kind.
    fn dispatch(&mut self, message: &Message<'_>, raw: &str, out: &mut Outbox) {
        let empty = Params::default();
        let params = message.params.map().unwrap_or(&empty);
        let id = message.id.map(|id| id.get()).filter(|id| *id != "null");
        match (message.method.text(), id) {
            (Some(method), Some(id)) => {
                let requester = if self.is_own(params) {
                    Requester::Own
                } else {
                    Requester::Subagent(self.subagents.items_of(params))
                };
                let (items, permissions) = (&mut self.items, &mut self.permissions);
                AskContext {
                    plan: &self.plan,
                    items,
                    permissions,
                    requester,
                }
                .on_request((id, method), (params, raw), out);
            }
            (Some(method), None) => self.on_notification(method, (params, raw), out),
            (None, Some(id)) => {
                let id = id.trim_matches('"');
                let purpose = id.split('-').next().unwrap_or_default();
                match (message.result.map(), message.error.map()) {
                    (_, Some(error)) => self.on_error_response(purpose, Some(error), out),
                    (Some(response), _) => self.on_response(purpose, response, out),
                    (None, None) if matches!(purpose, INITIALIZE | THREAD) => {
                        self.on_error_response(purpose, None, out);
                    }
                    (None, None) => {}
                }
            }
            (None, None) => report_unknown(raw, "a message without a method", out),
        }
    }

    /// Handles a successful response.
    fn on_response(&mut self, purpose: &str, response: &Response<'_>, out: &mut Outbox) {
        match purpose {
            INITIALIZE => {
                self.version = response
                    .user_agent
                    .text()
                    .and_then(Version::find)
                    .map(|version| version.to_string());
                rpc::notify("initialized", out);
                let (method, params) = self.plan.thread();
                rpc::request((THREAD, method), &params, out);
            }
            THREAD => {
                let Some(thread) = response.thread.map().and_then(|thread| thread.id.owned())
                else {
                    return self.on_error_response(THREAD, None, out);
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
    fn on_error_response(&mut self, purpose: &str, error: Option<&RpcError<'_>>, out: &mut Outbox) {
        match purpose {
            INITIALIZE | THREAD => {
                let kind = if purpose == THREAD {
                    self.plan.thread().0
                } else {
                    purpose
                };
                let outcome = blame::of_rpc_error(kind, error);
                self.phase = Phase::Failed(outcome.clone());
                if self.turn.open {
                    self.finish_turn(TurnResult::new(outcome), out);
                }
            }
            TURN if self.turn.open && self.turn.id.is_none() => {
                self.finish_turn(
                    TurnResult::new(blame::of_rpc_error("turn/start", error)),
                    out,
                );
            }
            STEER => {
                self.turn.steered = self.turn.steered.saturating_sub(1);
                let why = error
                    .map(|error| error.message.or_empty())
                    .unwrap_or_default();
                let message = format!("A steering message did not reach the model ({why}).");
                out.notice(Level::Warning, "steer_dropped", message);
            }
            // The turn has not started yet, or has ended already. In the first case the interrupt
            // is retried.
            INTERRUPT if self.turn.open => self.turn.interrupt = Interrupt::Pending,
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

    fn on_notification(
        &mut self,
        method: &str,
        (params, raw): (&Params<'_>, &str),
        out: &mut Outbox,
    ) {
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
                out.notice(Level::Warning, "model_fallback", message);
                self.model = params.to_model.owned().or(self.model.take());
            }
            _ if self.on_item(method, (params, raw), out) => {}
            _ => notifications::on_other(method, params, raw, out),
        }
        if self.turn.interrupt == Interrupt::Pending && method.starts_with("item/") {
            self.interrupt(out);
        }
    }

    /// Handles what the agent says and does. Returns false for any other notification.
    fn on_item(
        &mut self,
        method: &str,
        (params, raw): (&Params<'_>, &str),
        out: &mut Outbox,
    ) -> bool {
        if !self.turn.open && method.starts_with("item/") {
            // The end of a command that was left running. Its call already has its result.
            return true;
        }
        let (id, delta) = (params.item_id.or_empty(), params.delta.or_empty());
        match (method, params.item.map()) {
            ("item/agentMessage/delta", _) => {
                self.items.on_delta(TextKind::Reply, (id, delta), out);
            }
            ("item/reasoning/summaryTextDelta" | "item/reasoning/textDelta", _) => {
                self.items.on_delta(TextKind::Thinking, (id, delta), out);
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
        self.turn.id = params.turn.map().and_then(|turn| turn.id.owned());
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
            self.usage
                .turn_usage(self.model.as_ref())
                .into_iter()
                .for_each(|usage| out.event(usage));
        }
    }

    fn on_error(&mut self, params: &Params<'_>, out: &mut Outbox) {
        let empty = TurnError::default();
        let error = params.error.map().unwrap_or(&empty);
        if params.will_retry.is_true() {
            return out.notice(Level::Warning, "api_retry", blame::retry(error));
        }
        self.turn.error = Some(blame::of_error(error));
    }

    fn on_turn_completed(&mut self, params: &Params<'_>, out: &mut Outbox) {
        if !self.turn.open {
            return;
        }
        let turn = params.turn.map();
        let error = turn
            .and_then(|turn| turn.error.map())
            .map(blame::of_error)
            .or(self.turn.error.take());
        let outcome = match turn.map(|turn| turn.status.or_empty()).unwrap_or_default() {
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
        let expected = text.as_deref().filter(|_| self.plan.schema.is_some());
        let structured = expected.and_then(|text| RawJson::parse(text).ok());
        if self.plan.schema.is_some() && structured.is_none() && outcome.is_success() {
            out.notice(
                Level::Warning,
                "no_structured_answer",
                "The agent gave no structured answer although one was requested.",
            );
        }
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
            rpc::request(
                (&self.next_id(CLEAN), "thread/backgroundTerminals/clean"),
                &params,
                out,
            );
        }
    }

    fn finish_turn(&mut self, result: TurnResult, out: &mut Outbox) {
        self.permissions.withdraw_all(out);
        self.drop_steers(out);
        self.queued_prompt = None;
        self.turn = Turn::default();
        out.push(FromConversation::TurnEnded(result));
    }

    fn drop_steers(&mut self, out: &mut Outbox) {
        for message in std::mem::take(&mut self.turn.steers) {
            let message = format!("The turn ended before it received this message: {message}");
            out.notice(Level::Warning, "steer_dropped", message);
        }
        for _ in self.turn.accepted.max(1)..=std::mem::take(&mut self.turn.steered) {
            let message = "The turn ended before a steering message reached the model.";
            out.notice(Level::Warning, "steer_dropped", message);
        }
    }

    fn interrupt(&mut self, out: &mut Outbox) {
        self.turn.interrupt = Interrupt::Pending;
        if let (Phase::Ready(thread_id), Some(turn_id)) = (&self.phase, &self.turn.id) {
            let params = requests::interrupt(thread_id, turn_id);
            rpc::request((&self.next_id(INTERRUPT), "turn/interrupt"), &params, out);
            self.turn.interrupt = Interrupt::Sent;
        }
    }

    fn steer(&mut self, message: String, out: &mut Outbox) {
        match (&self.phase, &self.turn.id) {
            (Phase::Ready(thread_id), Some(turn_id)) => {
                let params = requests::steer(thread_id, turn_id, &message);
                rpc::request((&self.next_id(STEER), "turn/steer"), &params, out);
                self.turn.steered += 1;
            }
            _ => self.turn.steers.push(message),
        }
    }

    /// Records a change. Model and mode take effect with the next turn, whose request carries them.
    fn change(&mut self, change: Change) -> Option<String> {
        match change {
            Change::Model(model) => self.next_model = Some(model),
            Change::PermissionMode(mode) => match SandboxSetting::of(&mode, &self.roots) {
                Some(sandbox) => self.next_sandbox = Some(sandbox),
                None => return Some(format!("expected one of: {}", MODES.join(", "))),
            },
        }
        None
    }
}

pub(super) fn interrupted() -> Outcome {
    Outcome::new(Cause::Interrupted, "The turn was interrupted.")
        .with(|d| d.acknowledged = Some(true))
}

impl Conversation for AppServerConversation {
    fn on_start(&mut self, out: &mut Outbox) {
        rpc::request((INITIALIZE, INITIALIZE), &requests::initialize(), out);
    }

    fn send(&mut self, message: ToAgent, out: &mut Outbox) {
        match message {
            ToAgent::Prompt(prompt) => self.prompt(prompt, out),
            ToAgent::Steer(message) => self.steer(message, out),
            ToAgent::Interrupt => self.interrupt(out),
            ToAgent::Verdict { id, verdict } => self.ask_context().on_verdict(&id, &verdict, out),
            ToAgent::ToolDone { id, ok, output } => {
                self.permissions.on_tool_result(&id, (ok, &output), out);
            }
            ToAgent::ToolProgress { .. } | ToAgent::FileDone { .. } => {}
            ToAgent::Change { id, change } => {
                let error = self.change(change);
                out.push(FromConversation::Changed { id, error });
            }
        }
    }

    fn on_line(&mut self, raw: &str, out: &mut Outbox) {
        let mut dispatch =
            |text: &str, out: &mut Outbox| match serde_json::from_str::<Message<'_>>(text) {
                Ok(message) => {
                    self.dispatch(&message, text, out);
                    None
                }
                Err(error) => Some(error),
            };
        parse_line(raw, &mut dispatch, out);
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
        match blame::of_exit(exit).filter(|_| in_handshake) {
            Some(outcome) => out.push(FromConversation::TurnEnded(TurnResult {
                usage,
                ..TurnResult::new(outcome)
            })),
            // The session driver determines how the turn ended; only the usage is known here.
            None => usage.into_iter().for_each(|part| out.event(part)),
        }
    }
}
