//! What a loop came to.

use ostler_core::event::{Event, EventKind, TurnEnded};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::usage::Usage;
use ostler_dialects::openai::History;
use ostler_dialects::plain::Message;

use crate::session::{Session, SessionEnded};

/// What a loop came to.
#[derive(Debug)]
pub struct LoopResult {
    /// How it ended.
    pub ending: Ending,
    /// The answer, or what had been said.
    pub text: String,
    /// The structured answer, when a schema was given.
    pub structured: Option<ostler_core::raw_json::RawJson>,
    /// The conversation of this session, without the instructions.
    pub thread: Vec<Message>,
    /// Tokens and cost, as far as they are known.
    pub usage: Option<Usage>,
    /// How often the model was asked.
    pub iterations: u64,
    /// How it ended, in the words of every session.
    pub outcome: Outcome,
}

/// How a loop ended.
#[derive(Debug)]
pub enum Ending {
    /// The task is done, and the check, if there is one, says so too.
    Completed,
    /// A condition stopped it.
    Stopped(Condition),
    /// It waits for a person.
    NeedsInput(Waiting),
    /// It failed: the outcome says why.
    Failed,
}

/// A condition that stops a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// The number of the model's answers.
    Iterations,
    /// The number of tool calls.
    ToolCalls,
    /// Tokens in.
    InputTokens,
    /// Tokens out.
    OutputTokens,
    /// Money, also when what the model costs is not known; or another budget of the session's.
    Budget,
    /// Time.
    Time,
    /// Too many steps in a row came to nothing.
    Errors,
    /// A hook.
    Hook,
    /// The caller: the session was stopped or interrupted.
    Caller,
}

/// A loop that waits for a person. Dropped, it is ended.
#[derive(Debug)]
pub struct Waiting {
    /// What is asked.
    pub question: String,
    /// Whether it is asked to approve calls, which are made then.
    pub approval: bool,
    session: Session,
    events: Vec<Event>,
}

impl Waiting {
    /// Goes on with this answer.
    ///
    /// # Errors
    /// When the session is over.
    pub async fn answer(self, text: impl Into<String>) -> Result<LoopResult, SessionEnded> {
        self.session.send(text)?;
        Ok(of_turn(self.session, self.events).await)
    }

    /// Approves the calls that wait: they are made now, once, and the loop goes on.
    ///
    /// # Errors
    /// When the session is over.
    pub async fn approve(self) -> Result<LoopResult, SessionEnded> {
        self.answer("approve").await
    }

    /// The calls that wait are not made; the model is told why, and the loop goes on.
    ///
    /// # Errors
    /// When the session is over.
    pub async fn refuse(self, why: &str) -> Result<LoopResult, SessionEnded> {
        self.answer(format!("No, do not do that. {why}")).await
    }
}

/// Follows a session to the end of its turn.
pub(super) async fn of_turn(mut session: Session, mut events: Vec<Event>) -> LoopResult {
    let mut turn: Option<TurnEnded> = None;
    let mut outcome = Outcome::new(Cause::Protocol, "The session ended without a word.");
    while let Some(event) = session.next().await {
        let over = match &event.kind {
            EventKind::TurnEnded(ended) => {
                turn = Some(ended.clone());
                true
            }
            EventKind::Ended(ended) => {
                outcome = ended.outcome.clone();
                true
            }
            _ => false,
        };
        events.push(event);
        if over {
            break;
        }
    }
    let (text, structured) = match turn {
        Some(turn) => {
            outcome = turn.outcome;
            (turn.text, turn.structured)
        }
        None => (String::new(), None),
    };
    let usage = usage_of(&events);
    let thread = History::rebuild(events.iter().map(|event| &event.kind))
        .messages()
        .iter()
        .map(Message::from)
        .collect();
    let iterations = events
        .iter()
        .filter(|event| is_iteration(&event.kind))
        .count() as u64;
    let ending = match condition(&outcome) {
        _ if outcome.cause == Cause::Completed => Ending::Completed,
        _ if outcome.cause == Cause::NeedsInput => {
            let approval = native(&outcome) == "approval";
            let question = outcome.message.clone();
            return LoopResult {
                ending: Ending::NeedsInput(Waiting {
                    question,
                    approval,
                    session,
                    events,
                }),
                text,
                structured,
                thread,
                usage,
                iterations,
                outcome,
            };
        }
        Some(condition) => Ending::Stopped(condition),
        None => Ending::Failed,
    };
    session.stop();
    while session.next().await.is_some() {}
    LoopResult {
        ending,
        text,
        structured,
        thread,
        usage,
        iterations,
        outcome,
    }
}

fn is_iteration(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Notice(notice) if notice.code == "iteration")
}

fn native(outcome: &Outcome) -> &str {
    outcome
        .detail
        .as_ref()
        .and_then(|detail| detail.native.as_deref())
        .unwrap_or_default()
}

/// What all turns have used together.
fn usage_of(events: &[Event]) -> Option<Usage> {
    let turns = events.iter().filter_map(|event| {
        if let EventKind::TurnEnded(turn) = &event.kind {
            Some(turn)
        } else {
            None
        }
    });
    let mut usages = turns.filter_map(|turn| turn.usage.clone());
    let mut sum = usages.next()?;
    usages.for_each(|usage| sum.add(&usage));
    Some(sum)
}

/// The condition behind an outcome. What the model's own limits came to is none.
fn condition(outcome: &Outcome) -> Option<Condition> {
    Some(match (outcome.cause, native(outcome)) {
        (_, "model" | "own_tool") => return None,
        (Cause::TurnLimit, "tool_calls") => Condition::ToolCalls,
        (Cause::TurnLimit, "errors") => Condition::Errors,
        (Cause::TurnLimit, _) => Condition::Iterations,
        (Cause::Budget, "input_tokens") => Condition::InputTokens,
        (Cause::Budget, "output_tokens") => Condition::OutputTokens,
        (Cause::Budget, _) => Condition::Budget,
        (Cause::WallLimit, _) => Condition::Time,
        (Cause::Stopped, "hook") => Condition::Hook,
        (Cause::Stopped | Cause::Interrupted, _) => Condition::Caller,
        _ => return None,
    })
}
