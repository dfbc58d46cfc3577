//! One conversation with Claude Code: what is said to it, and which file reads which of its lines.
//!
//! Lines that only show that it is alive (`keep_alive`, `system/status`, `system/thinking_tokens`, `tool_progress`, …) yield
//! nothing: that a line came is activity enough. Lines of a type that is not known here are kept whole in a notice.

use std::collections::{BTreeMap, BTreeSet};

use ostler_core::dialect::{Conversation, Exit, FromConversation, Outbox, ToAgent, TurnOver};
use ostler_core::event::Notice;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Denials, Spec, keys};
use serde::de::IgnoredAny;

use super::control::{self, Interrupt};
use super::mcp::Server;
use super::permissions::{self, Decided, OpenPermissions};
use super::steer::{self, Steers};
use super::stream::Streamed;
use super::system::Identity;
use super::tasks::Tasks;
use super::usage::Spend;
use super::wire::Line;
use super::{assistant, blame, result, stream, system, user};
use crate::surrogates;

/// The state of one conversation. What belongs to a turn is in [`Turn`] and goes with it.
#[derive(Debug)]
pub(super) struct ClaudeConversation {
    pub(super) denials: Denials,
    /// Whether a permission policy is in force.
    pub(super) is_ruled: bool,
    /// Whether a structured answer was asked for.
    pub(super) schema: bool,
    /// Who the agent said it is, last time.
    pub(super) identity: Option<Identity>,
    interrupt: Interrupt,
    pub(super) permissions: OpenPermissions,
    pub(super) server: Server,
    pub(super) steers: Steers,
    /// A prompt that waits until the turn of a message is over that came too late for the last one. Said at once, Claude
    /// Code would put the two together.
    pub(super) waiting: Option<String>,
    pub(super) tasks: Tasks,
    pub(super) spend: Spend,
    /// When the rate limit ends, as last heard.
    pub(super) resets_at: Option<String>,
    pub(super) turn: Turn,
}

/// What is known of the turn under way.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Whether one is under way: a message was said, or the agent began by itself.
    pub(super) open: bool,
    /// Whether the agent was heard in it.
    pub(super) heard: bool,
    /// Whether the agent said that it was interrupted.
    pub(super) interrupted: bool,
    /// The agent's own word for a failure of the model's service.
    pub(super) api_error: Option<String>,
    pub(super) streamed: Streamed,
    /// Tool calls: id and name.
    pub(super) tools: BTreeMap<String, String>,
    /// Tool calls that were denied.
    pub(super) denied: BTreeSet<String>,
    /// Tool calls on which the hook was given a decision.
    pub(super) decided: BTreeMap<String, Decided>,
}

/// How a `stream_event` begins when its type comes first, as it does.
const PIECE: &str = "{\"type\":\"stream_event\",";

impl ClaudeConversation {
    pub(super) fn new(spec: &Spec) -> Self {
        Self {
            denials: spec.denials,
            is_ruled: spec.policy.is_some(),
            schema: spec.settings.get(keys::JSON_SCHEMA).is_some(),
            identity: None,
            interrupt: Interrupt::default(),
            permissions: OpenPermissions::new(spec),
            server: Server::new(&spec.tools),
            steers: Steers::default(),
            waiting: None,
            tasks: Tasks::default(),
            spend: Spend::new(resumes(spec)),
            resets_at: None,
            turn: Turn::default(),
        }
    }

    fn take(&mut self, line: &Line<'_>, raw: &str, out: &mut Outbox) {
        match line.kind.or_empty() {
            "stream_event" => {
                if !self.take_piece(raw, out) && !self.take_piece(&surrogates::mend(raw), out) {
                    out.unreadable(raw, "a stream_event that cannot be read");
                }
            }
            "assistant" => assistant::hear(self, line, raw, out),
            "user" => user::hear(self, line, out),
            "system" => system::hear(self, line, raw, out),
            "result" => result::hear(self, line, out),
            "rate_limit_event" => system::rate_limit(self, line, out),
            "control_request" => control::hear(self, line, raw, out),
            "control_response" => control::answered(self, line, out),
            "control_cancel_request" => control::cancelled(self, line, out),
            "command_lifecycle" => self.lifecycle(line, out),
            "keep_alive" | "tool_progress" => {}
            _ if line.kind.text().is_none() => out.unreadable(raw, "a JSON object without a type"),
            other => unknown(raw, &format!("type {other:?}"), out),
        }
        // Echoes come between turns too: of what was said, of a change of the model.
        let speaks =
            matches!(line.kind.or_empty(), "assistant" | "user") && !line.is_replay.is_true();
        if speaks || line.subtype.text() == Some("init") {
            self.in_turn(out);
        }
    }

    /// Reads a `stream_event`; false when it cannot be read.
    fn take_piece(&mut self, raw: &str, out: &mut Outbox) -> bool {
        let Ok(piece) = serde_json::from_str(raw) else {
            return false;
        };
        stream::hear(self, &piece, raw, out);
        self.in_turn(out);
        true
    }

    /// The agent was heard in the turn. An interrupt waits for that: before, it can go unheard.
    fn in_turn(&mut self, out: &mut Outbox) {
        self.turn.heard = true;
        self.steers.release(out);
        self.interrupt.release(self.steers.any_queued(), out);
    }

    /// The caller, or Ostler itself, wants the turn ended.
    pub(super) fn interrupt(&mut self, out: &mut Outbox) {
        self.interrupt.want();
        if self.turn.heard {
            self.interrupt.release(self.steers.any_queued(), out);
        }
    }

    /// Begins the turn that was asked for.
    pub(super) fn prompt(&mut self, prompt: String, out: &mut Outbox) {
        self.turn = Turn {
            open: true,
            ..Turn::default()
        };
        self.interrupt.forget();
        if self.tasks.owed {
            self.waiting = Some(prompt);
        } else {
            out.push(FromConversation::Write(steer::user(&prompt, None)));
        }
    }

    /// Whether Claude Code must be told of hooks or tools first.
    pub(super) fn initializes(&self) -> bool {
        self.permissions.policy || self.server.has_tools()
    }

    /// Reads what became of a message for a turn.
    fn lifecycle(&mut self, line: &Line<'_>, out: &mut Outbox) {
        if self.steers.hear(line, out) && self.tasks.owed {
            // No turn will come of it.
            self.tasks.owed = false;
            self.tasks.report(out);
            if let Some(prompt) = self.waiting.take() {
                self.prompt(prompt, out);
            }
        }
    }
}

impl Conversation for ClaudeConversation {
    /// Interrupts, changes and questions of the agent's own layer work without the `initialize` handshake.
    fn on_start(&mut self, out: &mut Outbox) {
        if self.initializes() {
            control::initialize(self.permissions.policy, self.server.has_tools(), out);
        }
    }

    fn send(&mut self, message: ToAgent, out: &mut Outbox) {
        match message {
            ToAgent::Prompt(prompt) => self.prompt(prompt, out),
            ToAgent::Steer(message) => {
                self.steers.say(message);
                if self.turn.heard {
                    self.steers.release(out);
                }
            }
            ToAgent::Interrupt => self.interrupt(out),
            ToAgent::Verdict { id, verdict } => permissions::decided(self, &id, verdict, out),
            ToAgent::ToolDone { id, ok, output } => self.server.done(&id, (ok, &output), out),
            // Nothing that is said about progress makes Claude Code wait longer.
            ToAgent::ToolProgress { .. } | ToAgent::FileDone { .. } => {}
            ToAgent::Change { id, change } => control::change(id, &change, out),
        }
    }

    fn on_line(&mut self, raw: &str, out: &mut Outbox) {
        if raw.starts_with(PIECE) && self.take_piece(raw, out) {
            return;
        }
        // Asked first, because serde would read a list as the fields of a struct in their order.
        if !raw.trim_start().starts_with('{') {
            let json = serde_json::from_str::<IgnoredAny>(raw);
            out.unreadable(
                raw,
                &json.map_or_else(
                    |e| format!("not JSON: {e}"),
                    |_| "JSON, but not an object".into(),
                ),
            );
            return;
        }
        match serde_json::from_str(raw) {
            Ok(line) => self.take(&line, raw, out),
            Err(error) => {
                let mended = surrogates::mend(raw);
                match serde_json::from_str(&mended) {
                    Ok(line) => self.take(&line, &mended, out),
                    Err(_) => {
                        let json = serde_json::from_str::<IgnoredAny>(raw).is_ok();
                        let kind = if json { "not a message" } else { "not JSON" };
                        out.unreadable(raw, &format!("{kind}: {error}"));
                    }
                }
            }
        }
    }

    fn on_exit(&mut self, exit: &Exit, out: &mut Outbox) {
        self.steers.lost(out);
        let turn = std::mem::take(&mut self.turn);
        if !turn.open {
            return;
        }
        let usage = self.spend.unfinished();
        let silent = !turn.heard && self.identity.is_none();
        match blame::of_exit(exit).filter(|_| silent) {
            Some(outcome) => out.push(FromConversation::TurnOver(TurnOver {
                usage,
                ..TurnOver::bare(outcome)
            })),
            // How the turn ended is for others to say; what it used is known only here.
            None => usage.into_iter().for_each(|part| out.event(part)),
        }
    }
}

/// Whether the agent goes on with an earlier session.
fn resumes(spec: &Spec) -> bool {
    let flag = |arg: &String| {
        ["--resume", "-r", "--continue", "-c"].contains(&arg.split('=').next().unwrap_or_default())
    };
    spec.settings.get(keys::RESUME).is_some() || spec.extra_args.iter().any(flag)
}

/// Keeps a line that is not known here.
pub(super) fn unknown(raw: &str, kind: &str, out: &mut Outbox) {
    out.event(Notice::unknown_message(
        "Claude Code",
        kind,
        RawJson::parse(raw).ok(),
    ));
}
