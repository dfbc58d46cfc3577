//! One conversation with Codex's app-server: what is said to it, and which file reads which of its messages.
//!
//! Notes that only show that it is alive yield nothing: that a line came is activity enough. Notes that are not known here
//! are kept whole in a notice.

use ostler_core::dialect::{
    Change, Conversation, Exit, FromConversation, Outbox, ToAgent, TurnOver, Version,
};
use ostler_core::event::{Level, Started, TextKind};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Denials, Spec};

use super::items::{Items, unknown};
use super::notifications::{self, read};
use super::permissions::{AskContext, OpenPermissions, Requester};
use super::plan::Plan;
use super::requests::{self, Sandbox, Text, TurnStart};
use super::settings::MODES;
use super::subagents::Others;
use super::usage::Spend;
use super::wire::{Answer, Fault, Message, Params, TurnError};
use super::{NAME, blame, plan, rpc};

/// The ids of our requests: each says what the answer is about.
const INITIALIZE: &str = "initialize";
const THREAD: &str = "thread";
const TURN: &str = "turn";
const STEER: &str = "steer";
const INTERRUPT: &str = "interrupt";
const CLEAN: &str = "clean";

/// The state of one conversation. What belongs to a turn is in [`Turn`] and in [`Items`], and goes with it.
pub(super) struct AppServerConversation {
    plan: Plan,
    /// The further directories, for a sandbox that is chosen later.
    roots: Vec<String>,
    version: Option<String>,
    cwd: Option<String>,
    model: Option<String>,
    /// What is to be different from the next turn on.
    next_model: Option<String>,
    next_sandbox: Option<Sandbox>,
    stage: Stage,
    /// A prompt that waits until there is a thread.
    waiting: Option<String>,
    sent: u64,
    turn: Turn,
    items: Items,
    others: Others,
    permissions: OpenPermissions,
    spend: Spend,
}

/// How far the greeting is.
enum Stage {
    Greeting,
    /// The thread that is talked in.
    Ready(String),
    /// There will be none.
    Failed(Outcome),
}

/// What is known of the turn under way.
#[derive(Default)]
struct Turn {
    open: bool,
    /// Its id, once Codex said that it has begun. Before, it takes neither interrupts nor messages.
    id: Option<String>,
    interrupt: Interrupt,
    /// The sandbox that it was asked for with: settled once it has begun.
    sandbox: Option<Sandbox>,
    steers: Vec<String>,
    /// How many messages were sent into it, and how many of the user's Codex has taken up, the prompt among them.
    steered: usize,
    taken: usize,
    /// What Codex said went wrong, and that it gave up.
    error: Option<Outcome>,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Interrupt {
    #[default]
    None,
    /// It waits until the turn is there to be interrupted.
    Wanted,
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
            stage: Stage::Greeting,
            waiting: None,
            sent: 0,
            turn: Turn::default(),
            items: Items::new(plan.dir.clone()).showing(plan.partial),
            others: Others::default(),
            permissions: OpenPermissions::new(spec),
            spend: Spend::default(),
            plan,
        }
    }

    fn around(&mut self) -> AskContext<'_> {
        AskContext {
            plan: &self.plan,
            items: &mut self.items,
            permissions: &mut self.permissions,
            requester: Requester::Own,
        }
    }

    /// An id that was not used before; what it is about stays to be seen.
    fn fresh(&mut self, about: &str) -> String {
        self.sent += 1;
        format!("{about}-{}", self.sent)
    }

    fn prompt(&mut self, prompt: String, out: &mut Outbox) {
        self.turn = Turn {
            open: true,
            ..Turn::default()
        };
        self.items.renew();
        match &self.stage {
            Stage::Greeting => self.waiting = Some(prompt),
            Stage::Failed(outcome) => {
                let outcome = outcome.clone();
                self.over(TurnOver::bare(outcome), out);
            }
            Stage::Ready(thread) => {
                let params = RawJson::of(&TurnStart {
                    thread_id: thread,
                    input: [Text::new(&prompt)],
                    model: self.next_model.as_deref(),
                    sandbox_policy: self.next_sandbox.clone(),
                    output_schema: self.plan.schema.as_ref(),
                });
                self.turn.sandbox.clone_from(&self.next_sandbox);
                rpc::request((&self.fresh(TURN), "turn/start"), &params, out);
            }
        }
    }

    /// Reads a message of whatever kind.
    fn take(&mut self, message: &Message<'_>, raw: &str, out: &mut Outbox) {
        let empty = Params::default();
        let params = message.params.map().unwrap_or(&empty);
        let id = message.id.map(|id| id.get()).filter(|id| *id != "null");
        match (message.method.text(), id) {
            (Some(method), Some(id)) => {
                let requester = if self.is_own(params) {
                    Requester::Own
                } else {
                    Requester::Other(self.others.of(params))
                };
                let (items, permissions) = (&mut self.items, &mut self.permissions);
                AskContext {
                    plan: &self.plan,
                    items,
                    permissions,
                    requester,
                }
                .hear((id, method), (params, raw), out);
            }
            (Some(method), None) => self.note(method, (params, raw), out),
            (None, Some(id)) => {
                let id = id.trim_matches('"');
                let about = id.split('-').next().unwrap_or_default();
                match (message.result.map(), message.error.map()) {
                    (_, Some(fault)) => self.failed(about, Some(fault), out),
                    (Some(answer), _) => self.answered(about, answer, out),
                    (None, None) if matches!(about, INITIALIZE | THREAD) => {
                        self.failed(about, None, out)
                    }
                    (None, None) => {}
                }
            }
            (None, None) => unknown(raw, "a message without a method", out),
        }
    }

    /// A request of ours was carried out.
    fn answered(&mut self, about: &str, answer: &Answer<'_>, out: &mut Outbox) {
        match about {
            INITIALIZE => {
                self.version = answer
                    .user_agent
                    .text()
                    .and_then(Version::find)
                    .map(|version| version.to_string());
                rpc::note("initialized", out);
                let (method, params) = self.plan.thread();
                rpc::request((THREAD, method), &params, out);
            }
            THREAD => {
                let Some(thread) = answer.thread.map().and_then(|thread| thread.id.owned()) else {
                    return self.failed(THREAD, None, out);
                };
                self.model = answer.model.owned();
                self.cwd = answer.cwd.owned();
                if self.cwd.is_some() {
                    self.items.home.clone_from(&self.cwd);
                }
                self.stage = Stage::Ready(thread);
                self.introduce(out);
                self.say_what_waited(out);
            }
            _ => {}
        }
    }

    /// There is a thread: the prompt can be said, unless it is not wanted any more.
    fn say_what_waited(&mut self, out: &mut Outbox) {
        let Some(prompt) = self.waiting.take() else {
            return;
        };
        if self.turn.interrupt == Interrupt::Wanted {
            return self.over(TurnOver::bare(interrupted()), out);
        }
        let steers = std::mem::take(&mut self.turn.steers);
        self.prompt(prompt, out);
        self.turn.steers = steers;
    }

    /// A request of ours was not carried out.
    fn failed(&mut self, about: &str, fault: Option<&Fault<'_>>, out: &mut Outbox) {
        match about {
            INITIALIZE | THREAD => {
                let kind = if about == THREAD {
                    self.plan.thread().0
                } else {
                    about
                };
                let outcome = blame::of_fault(kind, fault);
                self.stage = Stage::Failed(outcome.clone());
                if self.turn.open {
                    self.over(TurnOver::bare(outcome), out);
                }
            }
            TURN if self.turn.open && self.turn.id.is_none() => {
                self.over(TurnOver::bare(blame::of_fault("turn/start", fault)), out);
            }
            STEER => {
                self.turn.steered = self.turn.steered.saturating_sub(1);
                let why = fault
                    .map(|fault| fault.message.or_empty())
                    .unwrap_or_default();
                let message = format!("A message for the turn did not reach the model ({why}).");
                out.notice(Level::Warning, "steer_dropped", message);
            }
            // The turn was not there yet, or is not there any more. In the first case it is tried again.
            INTERRUPT if self.turn.open => self.turn.interrupt = Interrupt::Wanted,
            _ => {}
        }
    }

    fn introduce(&self, out: &mut Outbox) {
        let Stage::Ready(thread) = &self.stage else {
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

    /// Whether a note is about the thread that is talked in, and not about one of a sub-agent.
    fn is_own(&self, params: &Params<'_>) -> bool {
        match (&self.stage, params.thread_id.text()) {
            (Stage::Ready(own), Some(thread)) => own == thread,
            _ => true,
        }
    }

    fn note(&mut self, method: &str, (params, raw): (&Params<'_>, &str), out: &mut Outbox) {
        match method {
            "thread/tokenUsage/updated" => return self.spent(params, out),
            "serverRequest/resolved" => {
                return self
                    .permissions
                    .withdraw(params.request_id.map_or("", |id| id.get()), out);
            }
            _ => {}
        }
        if !self.is_own(params) {
            return self.others.hear(method, params, self.items.home.as_deref());
        }
        match method {
            "turn/started" => self.began(params, out),
            "turn/completed" => self.completed(params, out),
            "error" => self.erred(params, out),
            "model/rerouted" => {
                let message = format!(
                    "Codex goes on with {} in place of {}.",
                    params.to_model.or_empty(),
                    params.from_model.or_empty()
                );
                out.notice(Level::Warning, "model_fallback", message);
                self.model = params.to_model.owned().or(self.model.take());
            }
            _ if self.spoke(method, (params, raw), out) => {}
            _ => notifications::remark(method, params, raw, out),
        }
        if self.turn.interrupt == Interrupt::Wanted && method.starts_with("item/") {
            self.interrupt(out);
        }
    }

    /// Reads what the agent says and does; false when the note is about something else.
    fn spoke(
        &mut self,
        method: &str,
        (params, raw): (&Params<'_>, &str),
        out: &mut Outbox,
    ) -> bool {
        if !self.turn.open && method.starts_with("item/") {
            // The end of a command that was left running: its call has had its result.
            return true;
        }
        let (id, delta) = (params.item_id.or_empty(), params.delta.or_empty());
        match (method, params.item.map()) {
            ("item/agentMessage/delta", _) => self.items.piece(TextKind::Reply, (id, delta), out),
            ("item/reasoning/summaryTextDelta" | "item/reasoning/textDelta", _) => {
                self.items.piece(TextKind::Thinking, (id, delta), out);
            }
            ("item/reasoning/summaryPartAdded", _) => self.items.apart(id, out),
            ("item/started", Some(item)) => {
                self.turn.taken += usize::from(item.kind.text() == Some("userMessage"));
                self.items.begun(item, out);
            }
            ("item/completed", Some(item)) => self.items.done(item, raw, out),
            ("item/fileChange/patchUpdated", _) => self.items.patched(id, params.changes),
            _ => return false,
        }
        true
    }

    fn began(&mut self, params: &Params<'_>, out: &mut Outbox) {
        if !self.turn.open {
            // Codex went on by itself.
            self.turn = Turn {
                open: true,
                ..Turn::default()
            };
            self.items.renew();
        }
        self.turn.id = params.turn.map().and_then(|turn| turn.id.owned());
        self.spend.turn_began();
        out.push(FromConversation::TurnBegan);
        if self.turn.sandbox.is_some() && self.turn.sandbox == self.next_sandbox {
            self.next_sandbox = None;
        }
        if let Some(model) = self
            .next_model
            .take()
            .filter(|model| self.model.as_ref() != Some(model))
        {
            self.model = Some(model);
            self.introduce(out);
        }
        for message in std::mem::take(&mut self.turn.steers) {
            self.steer(message, out);
        }
        if self.turn.interrupt == Interrupt::Wanted {
            self.interrupt(out);
        }
    }

    fn spent(&mut self, params: &Params<'_>, out: &mut Outbox) {
        let Some(usage) = params.token_usage.map() else {
            return;
        };
        let in_turn = self.turn.open && self.turn.id.is_some();
        self.spend.hear(params.thread_id.or_empty(), usage, in_turn);
        if in_turn {
            self.spend
                .turn(self.model.as_ref())
                .into_iter()
                .for_each(|usage| out.event(usage));
        }
    }

    fn erred(&mut self, params: &Params<'_>, out: &mut Outbox) {
        let empty = TurnError::default();
        let error = params.error.map().unwrap_or(&empty);
        if params.will_retry.is_true() {
            return out.notice(Level::Warning, "api_retry", blame::retry(error));
        }
        self.turn.error = Some(blame::of_error(error));
    }

    fn completed(&mut self, params: &Params<'_>, out: &mut Outbox) {
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
                self.clean(out);
                interrupted()
            }
            _ => error.unwrap_or_else(|| blame::of_error(&TurnError::default())),
        };
        let failed = !outcome.is_success() && outcome.cause != Cause::Denied;
        let text = self.items.answer.take().filter(|_| !failed);
        let wanted = text.as_deref().filter(|_| self.plan.schema.is_some());
        let structured = wanted.and_then(|text| RawJson::parse(text).ok());
        if self.plan.schema.is_some() && structured.is_none() && outcome.is_success() {
            out.notice(
                Level::Warning,
                "no_structured_answer",
                "A structured answer was asked for, and none was given.",
            );
        }
        let usage = self.spend.turn(self.model.as_ref()).into_iter().collect();
        self.over(
            TurnOver {
                outcome,
                text,
                structured,
                usage,
            },
            out,
        );
    }

    /// Ends the commands of the turn: Codex leaves them running when it is interrupted.
    fn clean(&mut self, out: &mut Outbox) {
        if let Stage::Ready(thread_id) = &self.stage {
            let params = requests::clean(thread_id);
            rpc::request(
                (&self.fresh(CLEAN), "thread/backgroundTerminals/clean"),
                &params,
                out,
            );
        }
    }

    fn over(&mut self, over: TurnOver, out: &mut Outbox) {
        self.permissions.withdraw_all(out);
        self.drop_steers(out);
        self.waiting = None;
        self.turn = Turn::default();
        out.push(FromConversation::TurnOver(over));
    }

    fn drop_steers(&mut self, out: &mut Outbox) {
        for message in std::mem::take(&mut self.turn.steers) {
            let message = format!("The turn ended before it got this message: {message}");
            out.notice(Level::Warning, "steer_dropped", message);
        }
        for _ in self.turn.taken.max(1)..=std::mem::take(&mut self.turn.steered) {
            let message = "The turn ended before a message for it reached the model.";
            out.notice(Level::Warning, "steer_dropped", message);
        }
    }

    fn interrupt(&mut self, out: &mut Outbox) {
        self.turn.interrupt = Interrupt::Wanted;
        if let (Stage::Ready(thread_id), Some(turn_id)) = (&self.stage, &self.turn.id) {
            let params = requests::interrupt(thread_id, turn_id);
            rpc::request((&self.fresh(INTERRUPT), "turn/interrupt"), &params, out);
            self.turn.interrupt = Interrupt::Sent;
        }
    }

    fn steer(&mut self, message: String, out: &mut Outbox) {
        match (&self.stage, &self.turn.id) {
            (Stage::Ready(thread_id), Some(turn_id)) => {
                let params = requests::steer(thread_id, turn_id, &message);
                rpc::request((&self.fresh(STEER), "turn/steer"), &params, out);
                self.turn.steered += 1;
            }
            _ => self.turn.steers.push(message),
        }
    }

    /// Both take effect with the next turn; Codex is told then.
    fn change(&mut self, change: Change) -> Option<String> {
        match change {
            Change::Model(model) => self.next_model = Some(model),
            Change::PermissionMode(mode) => match Sandbox::of(&mode, &self.roots) {
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
        rpc::request((INITIALIZE, INITIALIZE), &requests::hello(), out);
    }

    fn send(&mut self, message: ToAgent, out: &mut Outbox) {
        match message {
            ToAgent::Prompt(prompt) => self.prompt(prompt, out),
            ToAgent::Steer(message) => self.steer(message, out),
            ToAgent::Interrupt => self.interrupt(out),
            ToAgent::Verdict { id, verdict } => self.around().decided(&id, &verdict, out),
            ToAgent::ToolDone { id, ok, output } => self.permissions.done(&id, (ok, &output), out),
            ToAgent::ToolProgress { .. } | ToAgent::FileDone { .. } => {}
            ToAgent::Change { id, change } => {
                let error = self.change(change);
                out.push(FromConversation::Changed { id, error });
            }
        }
    }

    fn on_line(&mut self, raw: &str, out: &mut Outbox) {
        let mut heard =
            |text: &str, out: &mut Outbox| match serde_json::from_str::<Message<'_>>(text) {
                Ok(message) => {
                    self.take(&message, text, out);
                    None
                }
                Err(error) => Some(error),
            };
        read(raw, &mut heard, out);
    }

    fn on_exit(&mut self, exit: &Exit, out: &mut Outbox) {
        self.drop_steers(out);
        let turn = std::mem::take(&mut self.turn);
        if !turn.open {
            return;
        }
        let usage: Vec<_> = self
            .spend
            .turn(self.model.as_ref())
            .into_iter()
            .filter(|_| turn.id.is_some())
            .collect();
        let silent = matches!(self.stage, Stage::Greeting);
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
