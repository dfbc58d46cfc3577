//! Result of a loop.

use ostler_core::event::{Event, EventKind, NoticeCode, ToolCall};
use ostler_core::outcome::{Cause, Outcome, Reason};
use ostler_core::usage::Usage;
use ostler_model::History;
use ostler_model::Message;

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
    NeedsInput(Box<Waiting>),
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
    /// The tool calls that wait for approval. Empty if the model asks a question.
    pub calls: Vec<ToolCall>,
    session: Session,
    events: Vec<Event>,
}

impl Waiting {
    /// Answers the question and continues the loop. The text goes to the model: it never approves
    /// a call.
    ///
    /// # Errors
    /// Returns an error if the session has ended.
    pub async fn answer(self, text: impl Into<String>) -> Result<LoopResult, SessionEnded> {
        self.session.send(text)?;
        Ok(of_turn(self.session, self.events).await)
    }

    /// Approves all pending calls and continues the loop. They are made once.
    ///
    /// # Errors
    /// As for [`Waiting::approve_calls`].
    pub async fn approve(self) -> Result<LoopResult, ApprovalError> {
        let ids = self.calls.iter().map(|call| call.id.clone()).collect();
        self.approve_calls(ids).await
    }

    /// Approves the pending calls with these ids and continues the loop. They are made once, and
    /// the others not at all.
    ///
    /// # Errors
    /// Returns an error if one of the ids does not belong to a pending call, or if the session has
    /// ended. Nothing is made in that case.
    pub async fn approve_calls(self, ids: Vec<String>) -> Result<LoopResult, ApprovalError> {
        let waits = |id: &&String| self.calls.iter().any(|call| call.id == **id);
        if ids.is_empty() {
            return Err(ApprovalError::NoCalls);
        }
        if let Some(id) = ids.iter().find(|id| !waits(id)) {
            return Err(ApprovalError::NotWaiting(id.clone()));
        }
        self.session.remote().approve(ids)?;
        Ok(of_turn(self.session, self.events).await)
    }

    /// Refuses the pending calls and continues the loop. The model receives the reason.
    ///
    /// # Errors
    /// Returns an error if the session has ended.
    pub async fn refuse(self, why: &str) -> Result<LoopResult, SessionEnded> {
        self.answer(format!("No, do not do that. {why}")).await
    }
}

/// Why calls were not approved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApprovalError {
    /// No call was given.
    #[error("no tool call was given")]
    NoCalls,
    /// No call with this id waits for approval.
    #[error("no tool call {0:?} waits for approval")]
    NotWaiting(String),
    /// The session has ended.
    #[error(transparent)]
    Ended(#[from] SessionEnded),
}

/// Reads a session until its turn ends, and returns the result.
pub(super) async fn of_turn(mut session: Session, mut events: Vec<Event>) -> LoopResult {
    let outcome = Outcome::new(Cause::Protocol, "The session ended without an outcome.");
    let (mut outcome, mut text, mut structured) = (outcome, String::new(), None);
    while let Some(event) = session.next().await {
        let is_over = match &event.kind {
            EventKind::TurnEnded(turn) => {
                outcome = turn.outcome.clone();
                (text, structured) = (turn.text.clone(), turn.structured.clone());
                true
            }
            EventKind::Ended(ended) => {
                outcome = ended.outcome.clone();
                true
            }
            _ => false,
        };
        events.push(event);
        if is_over {
            break;
        }
    }
    let usage = usage_of(&events);
    let thread = History::rebuild(events.iter().map(|event| &event.kind))
        .messages()
        .collect();
    let iterations = events
        .iter()
        .filter(|event| is_iteration(&event.kind))
        .count() as u64;
    let ending = if outcome.cause == Cause::NeedsInput {
        Ending::NeedsInput(Box::new(Waiting {
            question: outcome.message.clone(),
            calls: pending_calls(&outcome, &events),
            session,
            events,
        }))
    } else {
        session.stop();
        while session.next().await.is_some() {}
        match condition(&outcome) {
            _ if outcome.cause == Cause::Completed => Ending::Completed,
            Some(condition) => Ending::Stopped(condition),
            None => Ending::Failed,
        }
    };
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

/// Returns the calls that wait for approval.
fn pending_calls(outcome: &Outcome, events: &[Event]) -> Vec<ToolCall> {
    let ids = outcome
        .detail
        .iter()
        .flat_map(|detail| &detail.pending_calls);
    let call = |id: &String| {
        events.iter().rev().find_map(|event| match &event.kind {
            EventKind::ToolCall(call) if call.id == *id => Some(call.clone()),
            _ => None,
        })
    };
    ids.filter_map(call).collect()
}

fn is_iteration(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Notice(notice) if notice.code == NoticeCode::Iteration)
}

/// Returns the usage of all turns together.
fn usage_of(events: &[Event]) -> Option<Usage> {
    let usages = events.iter().filter_map(|event| match &event.kind {
        EventKind::TurnEnded(turn) => turn.usage.clone(),
        _ => None,
    });
    usages.reduce(|mut sum, usage| {
        sum.add(&usage);
        sum
    })
}

/// Returns the condition behind an outcome. The model's own limits are not conditions of the loop.
fn condition(outcome: &Outcome) -> Option<Condition> {
    Some(match (outcome.cause, outcome.reason()) {
        (_, Some(Reason::Model | Reason::OwnTool)) => return None,
        (Cause::TurnLimit, Some(Reason::ToolCalls)) => Condition::ToolCalls,
        (Cause::TurnLimit, Some(Reason::Errors)) => Condition::Errors,
        (Cause::TurnLimit, _) => Condition::Iterations,
        (Cause::Budget, Some(Reason::InputTokens)) => Condition::InputTokens,
        (Cause::Budget, Some(Reason::OutputTokens)) => Condition::OutputTokens,
        (Cause::Budget, _) => Condition::Budget,
        (Cause::WallLimit, _) => Condition::Time,
        (Cause::Stopped, Some(Reason::Hook)) => Condition::Hook,
        (Cause::Stopped | Cause::Interrupted, _) => Condition::Caller,
        _ => return None,
    })
}
