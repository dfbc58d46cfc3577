//! The conversation itself: what is typed and what is heard, and what each of them leads to.

use std::pin::Pin;
use std::time::Duration;

use ostler::event::{Origin, SessionState};
use ostler::{
    Cause, Event, EventKind, Interruption, PendingInterrupt, Remote, RequestError, Session, Usage,
};
use tokio::time::Sleep;

use super::command::{self, ChatInput};
use super::input::PromptInput;
use super::{Chat, PER_SESSION_SETTINGS, reports};
use crate::exit::{self, Code};
use crate::output::style::{BAD, DIM, GOOD};
use crate::output::{self, name, word};
use crate::spec::{self, ChosenAgent};

/// Why a session is being left.
pub(super) enum Leaving {
    Quit,
    /// To go on with this one.
    Resume(Box<PendingResume>),
}

/// A session that is being resumed, and the events read before it was known that it can be.
pub(super) struct PendingResume {
    pub(super) session: Session,
    pub(super) chosen: ChosenAgent,
    /// As it was asked for.
    id: String,
    /// Whether the session is known to exist; otherwise only the agent can say so.
    is_known: bool,
    pub(super) heard: Vec<Event>,
    /// When this is over, it is taken for ready without having said so.
    trial: Pin<Box<Sleep>>,
}

/// How long a session has to end if it cannot be gone on with. Some agents say nothing before the first message.
const TRIAL: Duration = Duration::from_secs(1);

/// How long the agent has to confirm a session that nobody else knows.
const CONFIRMATION: Duration = Duration::from_secs(30);

/// It has not ended for long enough.
pub(super) struct Ready;

/// The next event of a session that is to be gone on with; waits for ever when there is no such session.
pub(super) async fn next_event(next: &mut Option<PendingResume>) -> Result<Option<Event>, Ready> {
    let Some(next) = next else {
        return std::future::pending().await;
    };
    tokio::select! {
        biased;
        event = next.session.next() => Ok(event),
        () = &mut next.trial => Err(Ready),
    }
}

/// Where the conversation stands.
pub(super) struct ConversationState {
    pub(super) remote: Remote,
    pub(super) is_over: bool,
    pub(super) leaving: Option<Leaving>,
    pub(super) code: Code,
    /// Messages that were sent and have not come to their end.
    sent: u32,
    open: Option<Origin>,
    turn: Option<Usage>,
    last: Option<Cause>,
}

impl ConversationState {
    pub(super) fn new(remote: Remote, is_prompted: bool) -> Self {
        let (sent, code) = (u32::from(is_prompted), exit::OK);
        Self {
            remote,
            is_over: false,
            leaving: None,
            code,
            sent,
            open: None,
            turn: None,
            last: None,
        }
    }

    /// Whether the agent has something to do.
    pub(super) fn is_busy(&self) -> bool {
        self.sent > 0 || self.open.is_some()
    }

    /// Notes what an event means for the conversation.
    fn on_event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::TurnStarted(turn) => self.open = Some(turn.origin),
            EventKind::TurnEnded(turn) => {
                if self.open.take() == Some(Origin::Caller) {
                    self.sent = self.sent.saturating_sub(1);
                }
                self.turn.clone_from(&turn.usage);
                self.last = Some(turn.outcome.cause);
            }
            EventKind::Refused(refused) if refused.request == "send" => {
                self.sent = self.sent.saturating_sub(1)
            }
            // A session that ends by itself says why; one that was left has its code.
            EventKind::Ended(ended) if self.leaving.is_none() => {
                self.code = exit::of(ended.outcome.cause)
            }
            _ => {}
        }
    }
}

/// What came of an interrupt, when the turn's own end does not tell.
pub(super) async fn interrupted(asked: PendingInterrupt) -> Option<String> {
    match asked.await {
        Interruption::Acknowledged => Some(format!(
            "{DIM}· the agent acknowledged the interrupt{DIM:#}"
        )),
        Interruption::NotAcknowledged => Some(format!(
            "{DIM}· the agent did not react and was ended; the next message starts it again{DIM:#}"
        )),
        Interruption::TooLate | Interruption::NoTurn => None,
    }
}

/// What came of a change. A refusal is an event too, and shown as such.
fn changed(result: Result<(), RequestError>, kind: &str) -> Option<String> {
    match result {
        Ok(()) => Some(format!("{GOOD}✓{GOOD:#} {kind}")),
        Err(RequestError::Refused(_)) => None,
        Err(error) => Some(format!("{BAD}✗{BAD:#} {error}")),
    }
}

fn unknown(id: &str) -> String {
    format!(
        "there is no session {}; `/resume` alone lists those of this directory",
        name(id)
    )
}

impl Chat {
    pub(super) fn on_event(&mut self, event: Option<Event>) {
        let Some(event) = event else {
            self.conversation.is_over = true;
            return;
        };
        self.prompter.on_event(&event, &mut self.screen);
        self.conversation.on_event(&event);
        self.screen.push(event);
    }

    pub(super) fn on_input(&mut self, typed: PromptInput) {
        match typed {
            PromptInput::Interrupt(draft) => self.interrupt_prompt(draft),
            PromptInput::End => self.leave(self.quit_code()),
            PromptInput::ReadFailed(why) => {
                self.screen.line(format!(
                    "{BAD}✗{BAD:#} nothing can be read any more: {}",
                    word(&why, 200)
                ));
                self.leave(exit::INTERNAL);
            }
            PromptInput::Lossy(line) => {
                self.screen
                    .remark("not all of the next message is UTF-8 text; what is not was replaced");
                self.on_input(PromptInput::Line(line));
            }
            PromptInput::Line(line) => {
                self.quit_timer = None;
                self.draft.clear();
                self.run_input(command::parse(&line));
            }
        }
    }

    /// A script is told how its last turn went; a person has seen it.
    fn quit_code(&self) -> Code {
        match self.conversation.last {
            Some(cause) if !self.setup.is_attended => exit::of(cause),
            _ => exit::OK,
        }
    }

    fn run_input(&mut self, input: ChatInput) {
        let remote = self.conversation.remote.clone();
        match input {
            ChatInput::Empty => {}
            ChatInput::Message(message) => self.say(message),
            ChatInput::Help => self.lines(command::help(output::columns())),
            ChatInput::Model(model) if model.is_empty() => self.models(),
            ChatInput::Model(model) => {
                let defaults = self.setup.config.defaults(&self.setup.chosen.name);
                let model =
                    defaults.map_or(model.clone(), |defaults| defaults.model(&model).to_owned());
                drop(self.jobs.spawn(async move {
                    let told = format!("model {} from the next turn on", name(&model));
                    changed(remote.set_model(model).await, &told)
                }));
            }
            ChatInput::Permissions(mode) if mode.is_empty() => {
                self.lines(vec!["  /permissions MODE".into()])
            }
            ChatInput::Permissions(mode) => drop(self.jobs.spawn(async move {
                let told = format!("permission mode {}", name(&mode));
                changed(remote.set_permission_mode(mode).await, &told)
            })),
            ChatInput::Usage => self.lines(reports::usage(
                self.conversation.turn.as_ref(),
                remote.status().usage.as_ref(),
            )),
            ChatInput::Status => {
                self.lines(reports::status(
                    &*self.setup.chosen.agent,
                    &self.setup.dir,
                    &remote.status(),
                    remote.id(),
                ));
            }
            ChatInput::Resume(id) if id.is_empty() => self.lines(match &self.setup.store {
                Some(store) => reports::sessions(store, &self.setup.dir),
                None => vec!["  no sessions are kept here".into()],
            }),
            ChatInput::Resume(id) => self.resume(&id),
            ChatInput::Quit => self.leave(self.quit_code()),
            ChatInput::Invalid(why) => self.screen.remark(word(&why, 300)),
        }
    }

    fn lines(&mut self, lines: Vec<String>) {
        lines.into_iter().for_each(|line| self.screen.line(line));
    }

    fn say(&mut self, message: String) {
        if !self.setup.is_attended {
            // On a terminal the message stands there already.
            self.screen
                .line(format!("{DIM}› {}{DIM:#}", word(&message, 500)));
        }
        if self.conversation.remote.send(message).is_ok() {
            self.conversation.sent += 1;
        }
    }

    fn models(&mut self) {
        let model = self.conversation.remote.status().model;
        let used = model
            .as_deref()
            .map_or_else(|| "not said yet".to_owned(), name);
        self.screen.line(format!("  model: {used}"));
        let defaults = self.setup.config.defaults(&self.setup.chosen.name);
        let aliases = defaults
            .map_or_else(Vec::new, |defaults| defaults.aliases())
            .into_iter()
            .map(name);
        let known: Vec<String> = self
            .setup
            .chosen
            .agent
            .models()
            .iter()
            .map(ToString::to_string)
            .chain(aliases)
            .collect();
        if !known.is_empty() {
            self.screen.line(format!(
                "  {DIM}known: {}; others may work too{DIM:#}",
                known.join(", ")
            ));
        }
    }

    /// Begins another session. This one is left when that one can be gone on with.
    fn resume(&mut self, id: &str) {
        let row = match self
            .setup
            .store
            .as_ref()
            .map(|store| store.look_up(id))
            .transpose()
        {
            Err(error) => return self.screen.remark(word(&error.to_string(), 300)),
            Ok(row) => row.flatten(),
        };
        if row
            .as_ref()
            .is_some_and(|row| row.session == self.conversation.remote.id())
        {
            return self.screen.remark("this is that session");
        }
        let mut chosen = self.setup.chosen.clone();
        let checks = chosen
            .agent
            .dialect()
            .transcripts()
            .map(|transcripts| (transcripts.is_id)(id));
        if row.is_none() && checks == Some(false) {
            return self.screen.remark(unknown(id));
        }
        // An agent that stores transcripts is not started when there is none of that id.
        let is_known = row.is_some() || checks == Some(true);
        let mut native = id.to_owned();
        if let Some(row) = row {
            // Another agent has defaults of its own, and does not get what was meant for this one.
            if row.agent != chosen.agent.name() {
                chosen = spec::find_agent(&self.setup.config, &row.agent).unwrap_or(chosen);
            }
            native = row.native_session.unwrap_or(row.session);
        }
        let mut spec = match self.setup.requested.spec(&self.setup.config, &chosen) {
            Ok((spec, _)) => spec,
            Err(fault) => return self.screen.remark(word(&fault.outcome().message, 300)),
        };
        PER_SESSION_SETTINGS
            .iter()
            .for_each(|key| spec.settings.remove(key));
        spec.settings.set(ostler::keys::RESUME, native);
        spec.prompt = String::new();
        // An agent with a process for each turn confirms nothing before the first one.
        let dialect = chosen.agent.dialect();
        let confirms = dialect
            .select_transport(&spec)
            .unwrap_or(dialect)
            .capabilities()
            .many_turns;
        if !is_known && !confirms {
            return self.screen.remark(unknown(id));
        }
        match chosen.agent.start(&self.setup.host, spec) {
            Err(error) => self.screen.remark(word(&error.to_string(), 300)),
            Ok(session) => {
                let patience = if is_known { TRIAL } else { CONFIRMATION };
                let (id, trial) = (id.to_owned(), Box::pin(tokio::time::sleep(patience)));
                self.next = Some(PendingResume {
                    session,
                    chosen,
                    id,
                    is_known,
                    heard: Vec::new(),
                    trial,
                });
            }
        }
    }

    /// Goes on with another session once that is ready, or stays here when it ends before.
    pub(super) fn try_next(&mut self, event: Result<Option<Event>, Ready>) {
        let Some(mut next) = self.next.take() else {
            return;
        };
        let Ok(event) = event else {
            return if next.is_known {
                self.switch_to(next)
            } else {
                self.screen.remark(unknown(&next.id))
            };
        };
        let (id, kind) = (
            name(&next.id),
            event.as_ref().map(|event| event.kind.clone()),
        );
        next.heard.extend(event);
        match kind {
            Some(EventKind::Started(_)) => self.switch_to(next),
            Some(EventKind::State(state))
                if next.is_known
                    && matches!(state.to, SessionState::Idle | SessionState::Working) =>
            {
                self.switch_to(next);
            }
            Some(EventKind::Ended(ended)) => {
                let why = word(&ended.outcome.message, 300);
                let hint = ended
                    .outcome
                    .hint
                    .map_or_else(String::new, |hint| format!(" {}", word(&hint, 300)));
                self.screen
                    .remark(format!("{id} cannot be gone on with: {why}{hint}"));
            }
            // It goes on living, but has no session: the one that works is kept.
            Some(EventKind::Notice(notice)) if notice.code == "handshake_failed" => {
                self.screen.remark(format!(
                    "{id} cannot be gone on with: {}",
                    word(&notice.message, 600)
                ));
            }
            None => self.screen.remark(format!("{id} cannot be gone on with")),
            Some(_) => self.next = Some(next),
        }
    }

    fn switch_to(&mut self, next: PendingResume) {
        self.screen
            .line(format!("{DIM}· going on with {}{DIM:#}", name(&next.id)));
        self.conversation.leaving = Some(Leaving::Resume(Box::new(next)));
        self.conversation.remote.stop();
    }
}
