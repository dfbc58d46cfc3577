//! Result of a loop.

use ostler_core::event::{Event, EventKind, TurnEnded};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::usage::Usage;
use ostler_dialects::openai::History;
use ostler_dialects::plain::Message;

use crate::session::{Session, SessionEnded};

/// Result of a loop.
#[derive(Debug)]
pub struct LoopResult {
    /// How the loop ended.
    pub ending: Ending,
    /// The final answer, or the text up to the end.
    pub text: String,
    /// The structured answer, if a schema was given.
    pub structured: Option<ostler_core::raw_json::RawJson>,
    /// The conversation of this session, without the instructions.
    pub thread: Vec<Message>,
    /// Tokens and cost, as far as known.
    pub usage: Option<Usage>,
    /// Number of requests to the model.
    pub iterations: u64,
    /// The session's outcome.
    pub outcome: Outcome,
}

/// How a loop ended.
#[derive(Debug)]
pub enum Ending {
    /// The task is done, and the check, if any, has passed.
    Completed,
    /// A condition stopped the loop.
    Stopped(Condition),
    /// The loop is waiting for a person.
    NeedsInput(Waiting),
    /// The loop failed. The outcome has the reason.
    Failed,
}

/// A condition that stops a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// The number of model replies.
    Iterations,
    /// The number of tool calls.
    ToolCalls,
    /// The number of input tokens.
    InputTokens,
    /// The number of output tokens.
    OutputTokens,
    /// The cost, or another budget of the session. Also used if the cost of the model is unknown.
    Budget,
    /// The duration.
    Time,
    /// Too many consecutive failed steps.
    Errors,
    /// A hook stopped the loop.
    Hook,
    /// The caller stopped or interrupted the session.
    Caller,
}

/// A loop that is waiting for a person. Dropping it ends the session.
#[derive(Debug)]
pub struct Waiting {
    /// The question.
    pub question: String,
    /// Whether the loop waits for the approval of tool calls.
    pub approval: bool,
    session: Session,
    events: Vec<Event>,
}

impl Waiting {
    /// Answers the question and continues the loop.
    ///
    /// # Errors
    /// Returns an error if the session has ended.
    pub async fn answer(self, text: impl Into<String>) -> Result<LoopResult, SessionEnded> {
        self.session.send(text)?;
        Ok(of_turn(self.session, self.events).await)
    }

    /// Approves the pending calls and continues the loop. They are made once.
    ///
    /// # Errors
    /// Returns an error if the session has ended.
    pub async fn approve(self) -> Result<LoopResult, SessionEnded> {
        self.answer("approve").await
    }

    /// Refuses the pending calls and continues the loop. The model receives the reason.
    ///
    /// # Errors
    /// Returns an error if the session has ended.
    pub async fn refuse(self, why: &str) -> Result<LoopResult, SessionEnded> {
        self.answer(format!("No, do not do that. {why}")).await
    }
}

/// Reads a session until its turn ends, and returns the result.
pub(super) async fn of_turn(mut session: Session, mut events: Vec<Event>) -> LoopResult {
    let mut turn: Option<TurnEnded> = None;
    let mut outcome = Outcome::new(Cause::Protocol, "The session ended without an outcome.");
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

/// Returns the usage of all turns together.
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

/// Returns the condition behind an outcome. The model's own limits are not conditions of the loop.
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
