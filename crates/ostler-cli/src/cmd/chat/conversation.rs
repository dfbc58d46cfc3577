//! State of the conversation, and handling of prompt input and events.

use std::pin::Pin;
use std::time::Duration;

use ostler::event::{NoticeCode, Origin, RequestKind, SessionState};
use ostler::session::{Interruption, PendingInterrupt, RequestError};
use ostler::{Cause, Event, EventKind, Remote, Session, Usage};
use tokio::time::Sleep;

use super::command::{self, ChatInput};
use super::{Chat, PER_SESSION_SETTINGS, reports};
use crate::exit::{self, Code};
use crate::line_editor::PromptInput;
use crate::output::style::{BAD, DIM, GOOD};
use crate::output::{self, name, one_line};
use crate::spec::{self, ChosenAgent};

/// Why a session is being stopped.
pub(super) enum Leaving {
    Quit,
    /// To resume this one.
    Resume(Box<PendingResume>),
}

/// A session that is being resumed, with the events read before it was ready.
pub(super) struct PendingResume {
    pub(super) session: Session,
    pub(super) chosen: ChosenAgent,
    /// The id as the user typed it.
    id: String,
    /// Whether the session is known to exist; otherwise the agent must confirm it.
    is_known: bool,
    pub(super) heard: Vec<Event>,
    /// When this elapses, the session counts as ready even without a confirmation.
    trial: Pin<Box<Sleep>>,
}

/// Time in which a session that cannot be resumed is expected to end. Some agents report nothing
/// before the first message.
const TRIAL: Duration = Duration::from_secs(1);

/// Time for the agent to confirm a session that is not in the store.
const CONFIRMATION: Duration = Duration::from_secs(30);

/// The trial time elapsed without the session ending.
pub(super) struct Ready;

/// Waits for the next event of a session that is being resumed; pending forever if there is none.
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

/// State of the conversation.
pub(super) struct ConversationState {
    pub(super) remote: Remote,
    pub(super) is_over: bool,
    pub(super) leaving: Option<Leaving>,
    pub(super) code: Code,
    /// Number of sent messages whose turn has not ended.
    sent: u32,
    open: Option<Origin>,
    turn: Option<Usage>,
    last: Option<Cause>,
}

impl ConversationState {
    pub(super) fn new(remote: Remote, is_prompted: bool) -> Self {
        Self {
            remote,
            is_over: false,
            leaving: None,
            code: exit::OK,
            sent: u32::from(is_prompted),
            open: None,
            turn: None,
            last: None,
        }
    }

    /// Returns true if the agent is working.
    pub(super) fn is_busy(&self) -> bool {
        self.sent > 0 || self.open.is_some()
    }

    /// Updates the state after an event.
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
            EventKind::Refused(refused) if refused.request == RequestKind::Send => {
                self.sent = self.sent.saturating_sub(1);
            }
            // A session that ended on its own sets the exit code; one that was stopped already has
            // it.
            EventKind::Ended(ended) if self.leaving.is_none() => {
                self.code = exit::of(ended.outcome.cause);
            }
            _ => {}
        }
    }
}

/// Returns a line about the result of an interrupt, unless the end of the turn shows it.
pub(super) async fn interrupted(asked: PendingInterrupt) -> Option<String> {
    match asked.await {
        Interruption::Acknowledged => Some(format!(
            "{DIM}· the agent acknowledged the interrupt{DIM:#}"
        )),
        Interruption::NotAcknowledged => Some(format!(
            "{DIM}· the agent did not respond and was stopped; the next message restarts it{DIM:#}"
        )),
        Interruption::TooLate | Interruption::NoTurn => None,
    }
}

/// Returns a line about the result of a change. Refusals are shown by their own event.
fn changed(result: Result<(), RequestError>, kind: &str) -> Option<String> {
    match result {
        Ok(()) => Some(format!("{GOOD}✓{GOOD:#} {kind}")),
        Err(RequestError::Refused(_)) => None,
        Err(error) => Some(format!("{BAD}✗{BAD:#} {error}")),
    }
}

fn unknown(id: &str) -> String {
    format!(
        "no session {}; `/resume` without an id lists those of this directory",
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
                    "{BAD}✗{BAD:#} cannot read input: {}",
                    one_line(&why, 200)
                ));
                self.leave(exit::INTERNAL);
            }
            PromptInput::Lossy(line) => {
                self.screen
                    .remark("the next message is not valid UTF-8; invalid bytes were replaced");
                self.on_input(PromptInput::Line(line));
            }
            PromptInput::Line(line) => {
                self.quit_timer = None;
                self.draft.clear();
                self.run_input(command::parse(&line));
            }
        }
    }

    /// Returns the exit code for quitting: that of the last turn for a script, success for a user.
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
            ChatInput::Message(message) => self.send_message(message),
            ChatInput::Help => self.lines(command::help(output::columns())),
            ChatInput::Model(model) if model.is_empty() => self.models(),
            ChatInput::Model(model) => {
                let defaults = self.setup.config.defaults(&self.setup.chosen.name);
                let model =
                    defaults.map_or(model.clone(), |defaults| defaults.model(&model).to_owned());
                drop(self.jobs.spawn(async move {
                    let done = format!("model {} from the next turn", name(&model));
                    changed(remote.set_model(model).await, &done)
                }));
            }
            ChatInput::Permissions(mode) if mode.is_empty() => {
                self.lines(vec!["  /permissions MODE".into()]);
            }
            ChatInput::Permissions(mode) => drop(self.jobs.spawn(async move {
                let done = format!("permission mode {}", name(&mode));
                changed(remote.set_permission_mode(mode).await, &done)
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
                None => vec!["  sessions are not stored".into()],
            }),
            ChatInput::Resume(id) => self.resume(&id),
            ChatInput::Quit => self.leave(self.quit_code()),
            ChatInput::Invalid(why) => self.screen.remark(one_line(&why, 300)),
        }
    }

    fn lines(&mut self, lines: Vec<String>) {
        lines.into_iter().for_each(|line| self.screen.line(line));
    }

    fn send_message(&mut self, message: String) {
        if !self.setup.is_attended {
            // On a terminal, the message is already on the screen.
            self.screen
                .line(format!("{DIM}› {}{DIM:#}", one_line(&message, 500)));
        }
        if self.conversation.remote.send(message).is_ok() {
            self.conversation.sent += 1;
        }
    }

    fn models(&mut self) {
        let model = self.conversation.remote.status().model;
        let current = model
            .as_deref()
            .map_or_else(|| "not reported yet".to_owned(), name);
        self.screen.line(format!("  model: {current}"));
        let defaults = self.setup.config.defaults(&self.setup.chosen.name);
        let aliases = defaults
            .map_or_else(Vec::new, |defaults| defaults.aliases())
            .into_iter()
            .map(name);
        let models = self.setup.chosen.agent.about().models.iter();
        let known: Vec<String> = models.map(ToString::to_string).chain(aliases).collect();
        if !known.is_empty() {
            self.screen.line(format!(
                "  {DIM}known models: {}; others may work too{DIM:#}",
                known.join(", ")
            ));
        }
    }

    /// Starts resuming another session. The current one ends only when that one is ready.
    fn resume(&mut self, id: &str) {
        let store = self.setup.store.as_ref();
        let row = match store.map(|store| store.look_up(id)).transpose() {
            Err(error) => return self.screen.remark(one_line(&error.to_string(), 300)),
            Ok(row) => row.flatten(),
        };
        let own = self.conversation.remote.id();
        if row.as_ref().is_some_and(|row| row.session == own) {
            return self.screen.remark("this is the current session");
        }
        let mut chosen = self.setup.chosen.clone();
        let transcripts = chosen.agent.about().transcripts;
        let checks = transcripts.map(|transcripts| (transcripts.is_id)(id));
        if row.is_none() && checks == Some(false) {
            return self.screen.remark(unknown(id));
        }
        // An agent that stores transcripts is not started if it has none for this id.
        let is_known = row.is_some() || checks == Some(true);
        let mut native = id.to_owned();
        if let Some(row) = row {
            // Another agent has its own defaults and does not get this one's settings.
            if row.agent != chosen.agent.about().name {
                chosen = spec::find_agent(&self.setup.config, &row.agent).unwrap_or(chosen);
            }
            native = row.native_session.unwrap_or(row.session);
        }
        let mut spec = match self.setup.requested.spec(&self.setup.config, &chosen) {
            Ok((spec, _)) => spec,
            Err(fault) => return self.screen.remark(one_line(&fault.outcome().message, 300)),
        };
        PER_SESSION_SETTINGS.iter().for_each(|key| spec.unset(key));
        spec.resume = Some(native);
        spec.prompt = String::new();
        // An agent with one process per turn confirms nothing before the first turn.
        let about = spec::dialect_for(&*chosen.agent, &spec).about();
        if !is_known && !about.capabilities.many_turns {
            return self.screen.remark(unknown(id));
        }
        match chosen.agent.start(&self.setup.host, spec) {
            Err(error) => self.screen.remark(one_line(&error.to_string(), 300)),
            Ok(session) => {
                let patience = if is_known { TRIAL } else { CONFIRMATION };
                self.next = Some(PendingResume {
                    session,
                    chosen,
                    id: id.to_owned(),
                    is_known,
                    heard: Vec::new(),
                    trial: Box::pin(tokio::time::sleep(patience)),
                });
            }
        }
    }

    /// Switches to the other session once it is ready, or stays here if it ends first.
    pub(super) fn try_next(&mut self, event: Result<Option<Event>, Ready>) {
        let Some(mut next) = self.next.take() else {
            return;
        };
        let Ok(event) = event else {
            return if next.is_known {
                self.switch_to(next);
            } else {
                self.screen.remark(unknown(&next.id));
            };
        };
        let id = name(&next.id);
        let kind = event.as_ref().map(|event| event.kind.clone());
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
                let why = one_line(&ended.outcome.message, 300);
                let hint = ended.outcome.hint;
                let hint = hint.map(|hint| format!(" {}", one_line(&hint, 300)));
                let hint = hint.unwrap_or_default();
                self.screen
                    .remark(format!("cannot resume {id}: {why}{hint}"));
            }
            // The agent keeps running without a session, so the current session stays.
            Some(EventKind::Notice(notice)) if notice.code == NoticeCode::HandshakeFailed => {
                self.screen.remark(format!(
                    "cannot resume {id}: {}",
                    one_line(&notice.message, 600)
                ));
            }
            None => self.screen.remark(format!("cannot resume {id}")),
            Some(_) => self.next = Some(next),
        }
    }

    fn switch_to(&mut self, next: PendingResume) {
        self.screen
            .line(format!("{DIM}· resuming {}{DIM:#}", name(&next.id)));
        self.conversation.leaving = Some(Leaving::Resume(Box::new(next)));
        self.conversation.remote.stop();
    }
}
