//! One conversation with Claude Code: writes messages to it and dispatches its lines by type.
//!
//! Lines that only signal liveness (`keep_alive`, `system/status`, `system/thinking_tokens`,
//! `tool_progress`, …) yield no event: the session already counts any line as activity. Lines of an
//! unknown type are preserved verbatim in a notice.

use std::collections::{BTreeMap, BTreeSet};

use ostler_core::dialect::{Action, Conversation, Exit, Outbox, ToAgent, TurnResult};
use ostler_core::spec::{Denials, Spec};

use super::control::{self, Interrupt};
use super::mcp::Server;
use super::permissions::{self, HookDecision, OpenPermissions};
use super::steer::{self, Steers};
use super::stream::Streamed;
use super::system::Identity;
use super::tasks::Tasks;
use super::usage::UsageTracker;
use super::wire::ClaudeLine;
use super::{TITLE, assistant, blame, delta, result, stream, system, user};
use crate::json_lines::{self, LineReader};
use crate::mcp::ToolOutput;
use crate::surrogates;

/// State of one conversation. Per-turn state is in [`Turn`] and dropped with it.
#[derive(Debug)]
pub(super) struct ClaudeConversation {
    pub(super) denials: Denials,
    /// Whether a permission policy is in force.
    pub(super) has_policy: bool,
    /// Whether a structured answer was requested.
    pub(super) wants_structured: bool,
    /// Identity last reported by the agent.
    pub(super) identity: Option<Identity>,
    interrupt: Interrupt,
    pub(super) permissions: OpenPermissions,
    pub(super) server: Server,
    pub(super) steers: Steers,
    /// Prompt held back while Claude Code runs a separate turn for a steering message that arrived
    /// too late for the previous one. If sent immediately, it would be merged with that message.
    pub(super) held_prompt: Option<String>,
    pub(super) tasks: Tasks,
    pub(super) usage: UsageTracker,
    /// When the rate limit resets, as last reported.
    pub(super) resets_at: Option<String>,
    pub(super) turn: Turn,
}

/// State of the current turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Whether a turn is in progress: a prompt was sent, or the agent started one itself.
    pub(super) open: bool,
    /// Whether the agent has produced output in this turn.
    active: bool,
    /// Whether the agent reported that it was interrupted.
    pub(super) interrupted: bool,
    /// The agent's error code for a model API failure.
    pub(super) api_error: Option<String>,
    pub(super) streamed: Streamed,
    /// Tool names by call id.
    pub(super) tools: BTreeMap<String, String>,
    /// Ids of denied tool calls.
    pub(super) denied: BTreeSet<String>,
    /// Decisions returned to the hook, by tool call id.
    pub(super) decided: BTreeMap<String, HookDecision>,
}

/// Prefix of a `stream_event` line. Claude Code always writes the type first.
const STREAM_EVENT_PREFIX: &str = "{\"type\":\"stream_event\",";

impl ClaudeConversation {
    pub(super) fn new(spec: &Spec) -> Self {
        Self {
            denials: spec.denials,
            has_policy: spec.policy.is_some(),
            wants_structured: spec.json_schema.is_some(),
            identity: None,
            interrupt: Interrupt::default(),
            permissions: OpenPermissions::new(spec),
            server: Server::new(&spec.bound_tools),
            steers: Steers::default(),
            held_prompt: None,
            tasks: Tasks::default(),
            usage: UsageTracker::new(resumes(spec)),
            resets_at: None,
            turn: Turn::default(),
        }
    }

    /// Handles a `stream_event`. Returns false if it cannot be parsed.
    fn on_stream_event(&mut self, raw: &str, out: &mut Outbox) -> bool {
        let Ok(event) = serde_json::from_str(raw) else {
            return false;
        };
        stream::on_line(self, &event, raw, out);
        self.mark_active(out);
        true
    }

    /// Marks the turn as active and releases held messages and interrupts. Claude Code may ignore
    /// an interrupt that arrives earlier.
    fn mark_active(&mut self, out: &mut Outbox) {
        self.turn.active = true;
        self.steers.release(out);
        self.interrupt.release(self.steers.any_queued(), out);
    }

    /// Interrupts the turn, on behalf of the caller or of Ostler itself.
    pub(super) fn interrupt(&mut self, out: &mut Outbox) {
        self.interrupt.request();
        if self.turn.active {
            self.interrupt.release(self.steers.any_queued(), out);
        }
    }

    /// Starts a turn with the given prompt.
    pub(super) fn prompt(&mut self, prompt: String, out: &mut Outbox) {
        self.turn = Turn {
            open: true,
            ..Turn::default()
        };
        self.interrupt.discard();
        if self.tasks.owes_turn {
            self.held_prompt = Some(prompt);
        } else {
            out.push(Action::Write(steer::user_message(&prompt, None)));
        }
    }

    /// Returns true if hooks or tools must be announced to Claude Code in a handshake.
    pub(super) fn needs_handshake(&self) -> bool {
        self.permissions.policy || self.server.has_tools()
    }

    /// Handles a status update about a steering message.
    fn on_lifecycle(&mut self, line: &ClaudeLine<'_>, out: &mut Outbox) {
        if self.steers.on_lifecycle(line, out) && self.tasks.owes_turn {
            // The message will not get a turn.
            self.tasks.owes_turn = false;
            self.tasks.report(out);
            if let Some(prompt) = self.held_prompt.take() {
                self.prompt(prompt, out);
            }
        }
    }
}

impl LineReader for ClaudeConversation {
    type Line<'a> = ClaudeLine<'a>;

    fn on_message(&mut self, line: &ClaudeLine<'_>, raw: &str, out: &mut Outbox) {
        match line.kind.or_empty() {
            "stream_event" => {
                if !self.on_stream_event(raw, out)
                    && !self.on_stream_event(&surrogates::repair(raw), out)
                {
                    out.unreadable(raw, "a malformed stream_event");
                }
            }
            "assistant" => assistant::on_line(self, line, raw, out),
            "user" => user::on_line(self, line, out),
            "system" => system::on_line(self, line, raw, out),
            "result" => result::on_line(self, line, out),
            "rate_limit_event" => system::rate_limit(self, line, out),
            "control_request" => control::on_request(self, line, raw, out),
            "control_response" => control::on_response(self, line, out),
            "control_cancel_request" => control::on_cancel(self, line, out),
            "command_lifecycle" => self.on_lifecycle(line, out),
            "keep_alive" | "tool_progress" => {}
            _ => json_lines::report_unknown_type(TITLE, line.kind.text(), raw, out),
        }
        // Echoes of sent messages and of model changes also arrive between turns.
        let is_output =
            matches!(line.kind.or_empty(), "assistant" | "user") && !line.is_replay.is_true();
        if is_output || line.subtype.text() == Some("init") {
            self.mark_active(out);
        }
    }
}

impl Conversation for ClaudeConversation {
    /// Sends the `initialize` handshake only if needed: interrupts, changes and Claude Code's own
    /// permission requests work without it.
    fn on_start(&mut self, out: &mut Outbox) {
        if self.needs_handshake() {
            control::initialize(self.permissions.policy, self.server.has_tools(), out);
        }
    }

    fn send(&mut self, message: ToAgent, out: &mut Outbox) {
        match message {
            ToAgent::Prompt(prompt) => self.prompt(prompt, out),
            ToAgent::Steer(message) => {
                self.steers.hold(message);
                if self.turn.active {
                    self.steers.release(out);
                }
            }
            ToAgent::Interrupt => self.interrupt(out),
            ToAgent::Verdict { id, verdict } => permissions::on_verdict(self, &id, verdict, out),
            ToAgent::ToolDone { id, ok, output } => {
                self.server.done(&id, ToolOutput { ok, text: &output }, out);
            }
            // Progress reports do not extend Claude Code's tool timeout.
            ToAgent::ToolProgress { .. } | ToAgent::FileDone { .. } | ToAgent::Approve(_) => {}
            ToAgent::Change { id, change } => control::change(id, &change, out),
        }
    }

    fn on_line(&mut self, raw: &str, out: &mut Outbox) {
        if let Some(rest) = raw.strip_prefix(STREAM_EVENT_PREFIX) {
            if let Some(delta) = delta::parse(rest) {
                stream::on_text(self, delta, out);
                return self.mark_active(out);
            }
            if self.on_stream_event(raw, out) {
                return;
            }
        }
        json_lines::deliver(self, raw, out);
    }

    fn on_exit(&mut self, exit: &Exit, out: &mut Outbox) {
        self.steers.on_exit(out);
        let turn = std::mem::take(&mut self.turn);
        if !turn.open {
            return;
        }
        let usage = self.usage.unfinished();
        let silent = !turn.active && self.identity.is_none();
        match blame::BLAME.of_exit(exit).filter(|_| silent) {
            Some(outcome) => out.push(TurnResult {
                usage,
                ..TurnResult::new(outcome)
            }),
            // The session determines the outcome; only the usage is known here.
            None => out.events(usage),
        }
    }
}

/// Returns true if the agent resumes an earlier session.
fn resumes(spec: &Spec) -> bool {
    let flag = |arg: &String| {
        ["--resume", "-r", "--continue", "-c"].contains(&arg.split('=').next().unwrap_or_default())
    };
    spec.resume.is_some() || spec.extra_args.iter().any(flag)
}
