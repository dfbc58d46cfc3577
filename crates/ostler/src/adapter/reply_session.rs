//! A session that serves as a plain model: how its reply is read, and how it is suspended while the
//! caller runs tools.

use std::collections::BTreeMap;
use std::time::Duration;

use ostler_core::event::{Event, EventKind, NoticeCode, Text, TextKind, ToolCall, TurnEnded};
use ostler_core::outcome::{Cause, Outcome, Reason};
use ostler_core::spec::ToolOffer;
use ostler_core::usage::{Scope, Usage};
use ostler_model::plain::Gate;
use ostler_model::{Message, Reply, Stop, ToolRequest};
use tempfile::TempDir;

use super::{ModelError, Update, Updates, model_error, reply_timed_out};
use crate::session::{Session, SubmittedResult};

/// How long to wait for further calls after an agent called a tool. They belong to the same reply,
/// so that the caller can run them in parallel. Later ones come with the next reply.
const CALL_WINDOW: Duration = Duration::from_millis(50);

/// How long an agent may take to exit after its reply.
const GRACE: Duration = Duration::from_secs(1);

/// A session whose events are read for a reply.
pub(super) struct ReplySession {
    /// `None` once the reply is no longer wanted.
    session: Option<Session>,
    /// The directory that was created for the session.
    place: Option<TempDir>,
    /// Calls whose results the agent is waiting for.
    waiting: Vec<ToolRequest>,
    text: String,
    /// Bytes of reply text in the whole turn.
    length: usize,
    usage: BTreeMap<Option<String>, Usage>,
    /// Usage of earlier, abandoned sessions that is not reported yet.
    unreported: Vec<Usage>,
}

/// A session that is waiting for tool results, with the messages it has replied to.
pub(super) struct SuspendedSession {
    session: ReplySession,
    messages: Vec<Message>,
}

/// Conditions of a reply.
pub(super) struct ReplyTerms<'a> {
    pub(super) agent: &'a str,
    /// Tools that the agent may call. It waits for their results.
    pub(super) bound: &'a [ToolOffer],
    /// Maximum size in bytes.
    pub(super) max_bytes: usize,
    /// Maximum time.
    pub(super) time: Duration,
}

/// Destination of a reply's text, and a filter for it.
pub(super) struct UpdateFilter<'a> {
    pub(super) updates: &'a Updates,
    /// Filter for a reply whose text can contain a block of tool calls.
    pub(super) gate: Option<Gate>,
}

impl UpdateFilter<'_> {
    fn text(&mut self, mut text: Text) {
        if let (TextKind::Reply, Some(gate)) = (text.kind, &mut self.gate) {
            text.text = gate.pass(&text.text).unwrap_or_default();
        }
        if text.text.is_empty() {
            self.updates.send(&Update::Alive);
        } else {
            self.updates.text(text);
        }
    }
}

impl ReplySession {
    pub(super) fn new(session: Session, place: Option<TempDir>) -> Self {
        Self {
            session: Some(session),
            place,
            waiting: Vec::new(),
            text: String::new(),
            length: 0,
            usage: BTreeMap::new(),
            unreported: Vec::new(),
        }
    }

    /// Adds the usage of an abandoned session to this one's.
    pub(super) fn add_usage(&mut self, usage: Vec<Usage>) {
        self.unreported.extend(usage);
    }

    /// Reads events until there is a reply. Returns `None` if the agent is waiting for tools
    /// instead.
    pub(super) async fn read_reply(
        &mut self,
        terms: &ReplyTerms<'_>,
        filter: &mut UpdateFilter<'_>,
    ) -> Result<Option<Reply>, ModelError> {
        let result = tokio::time::timeout(terms.time, self.read_events(terms, filter)).await;
        let result = result.unwrap_or_else(|_| Err(reply_timed_out(terms.time)));
        result.map_err(|mut error| {
            if error.usage.is_empty() {
                error.usage = self.take_usage(None);
            }
            error
        })
    }

    /// Takes the usage that is not reported yet; `total` is that of the turn, if its parts are
    /// unknown.
    fn take_usage(&mut self, total: Option<Usage>) -> Vec<Usage> {
        let mut usage: Vec<Usage> = std::mem::take(&mut self.usage).into_values().collect();
        if usage.is_empty() {
            usage.extend(total);
        }
        usage.append(&mut self.unreported);
        usage
    }

    async fn read_events(
        &mut self,
        terms: &ReplyTerms<'_>,
        filter: &mut UpdateFilter<'_>,
    ) -> Result<Option<Reply>, ModelError> {
        loop {
            let event = match self.next().await {
                NextStep::Event(event) => event,
                NextStep::Waiting => return Ok(None),
                NextStep::Ended => {
                    let why = "The session ended without an outcome.";
                    return Err(model_error(Cause::Protocol, why));
                }
            };
            match event.kind {
                EventKind::Text(text) if text.parent.is_none() => {
                    if text.kind == TextKind::Reply {
                        self.length += text.text.len();
                        self.text.push_str(&text.text);
                    }
                    if self.length > terms.max_bytes {
                        return Err(reply_too_long(terms.max_bytes));
                    }
                    filter.text(text);
                }
                EventKind::Unreadable(line)
                    if usize::try_from(line.length)
                        .is_ok_and(|length| length > terms.max_bytes) =>
                {
                    return Err(reply_too_long(terms.max_bytes));
                }
                EventKind::ToolCall(call)
                    if terms.bound.iter().any(|tool| tool.name == call.name) =>
                {
                    let ToolCall {
                        id, name, input, ..
                    } = call;
                    self.waiting.push(ToolRequest {
                        id,
                        name,
                        args: input,
                    });
                }
                EventKind::ToolCall(call) => {
                    return Err(own_tool(terms.agent, &call.name));
                }
                // The result did not come from the caller: the agent has its own tool of the same
                // name.
                EventKind::ToolResult(result)
                    if self.waiting.iter().any(|call| call.id == result.id) =>
                {
                    return Err(own_tool(terms.agent, &result.name.unwrap_or_default()));
                }
                EventKind::Notice(notice) if notice.code == NoticeCode::NoBridge => {
                    return Err(model_error(Cause::Unavailable, notice.message));
                }
                EventKind::Usage(usage) if usage.scope == Scope::Turn => {
                    self.usage.insert(usage.model.clone(), *usage);
                }
                EventKind::TurnEnded(turn) => return self.on_turn_ended(*turn).map(Some),
                EventKind::Ended(ended) => return Err(ModelError::new(ended.outcome)),
                _ => filter.updates.send(&Update::Alive),
            }
        }
    }

    /// Returns the next event, or that the agent is waiting and has made all its calls.
    async fn next(&mut self) -> NextStep {
        let Some(session) = &mut self.session else {
            return NextStep::Ended;
        };
        let event = loop {
            if self.waiting.is_empty() {
                break session.next().await;
            }
            if let Ok(event) = tokio::time::timeout(CALL_WINDOW, session.next()).await {
                break event;
            }
            // A call is reported before the agent requests it, and some agents request one at a
            // time.
            let mut calls = self.waiting.iter();
            if calls.any(|call| session.remote().awaits_result(&call.id)) {
                return NextStep::Waiting;
            }
        };
        event.map_or(NextStep::Ended, |event| NextStep::Event(Box::new(event)))
    }

    fn on_turn_ended(&mut self, turn: TurnEnded) -> Result<Reply, ModelError> {
        if let (Some(call), Cause::Completed) = (self.waiting.first(), turn.outcome.cause) {
            let message = format!(
                "The agent ended its turn without waiting for the result of {}.",
                call.name
            );
            return Err(model_error(Cause::Protocol, message));
        }
        let usage = self.take_usage(turn.usage);
        let stop = match turn.outcome.cause {
            Cause::Completed => Stop::End,
            Cause::Refused => Stop::Refused,
            _ => {
                let outcome = Box::new(turn.outcome);
                return Err(ModelError { outcome, usage });
            }
        };
        // In a turn with tools, text before the calls was already in an earlier reply.
        let text = std::mem::take(&mut self.text);
        let content = if self.length == text.len() {
            turn.text
        } else {
            text
        };
        Ok(Reply {
            content: content.trim().to_owned(),
            tool_calls: Vec::new(),
            usage,
            stop,
        })
    }

    /// Suspends the session, and returns the reply that requests the tools.
    pub(super) fn suspend(mut self, messages: &[Message]) -> (SuspendedSession, Reply) {
        let content = std::mem::take(&mut self.text).trim().to_owned();
        let reply = Reply {
            content,
            tool_calls: self.waiting.clone(),
            usage: Vec::new(),
            stop: Stop::ToolCalls,
        };
        (
            SuspendedSession {
                session: self,
                messages: messages.to_vec(),
            },
            reply,
        )
    }

    /// Waits for the agent to exit after its reply, and kills it if that takes too long.
    pub(super) async fn finish(&mut self) {
        if let Some(session) = &mut self.session {
            let _ = tokio::time::timeout(GRACE, async { while session.next().await.is_some() {} })
                .await;
        }
        self.end().await;
    }

    /// Kills the agent and removes its directory.
    pub(super) async fn end(&mut self) {
        if let Some(session) = &mut self.session {
            session.kill();
            while session.next().await.is_some() {}
        }
        drop(self.place.take());
    }
}

/// Result of waiting for an event.
enum NextStep {
    Event(Box<Event>),
    Waiting,
    Ended,
}

/// Kills the agent, because the reply is no longer wanted.
impl Drop for ReplySession {
    fn drop(&mut self) {
        let (session, place) = (self.session.take(), self.place.take());
        let Some(mut session) = session else { return };
        session.kill();
        // Remove the directory once the agent has exited. Without a runtime, the session ends with
        // its task, immediately.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                while session.next().await.is_some() {}
                drop(place);
            });
        }
    }
}

impl SuspendedSession {
    /// Resumes the session if the messages continue those it has replied to with the results it is
    /// waiting for. Otherwise, or if the agent has exited, kills it and returns the usage so far.
    pub(super) async fn resume(self, messages: &[Message]) -> Result<ReplySession, Vec<Usage>> {
        let Self {
            session: mut suspended,
            messages: answered,
        } = self;
        let results = results(&answered, messages, &suspended.waiting);
        if let (Some(results), Some(session)) = (results, &suspended.session)
            && session.remote().submit_tool_results(results).is_ok()
        {
            suspended.waiting.clear();
            return Ok(suspended);
        }
        suspended.end().await;
        let mut usage = suspended.take_usage(None);
        if usage.iter().all(|usage| usage.cost_usd.is_none()) {
            usage.push(Usage::unknown(Scope::Turn)); // something was used, at an unknown cost
        }
        Err(usage)
    }
}

/// Returns the results of the pending calls, if the messages continue the answered ones.
fn results(
    answered: &[Message],
    messages: &[Message],
    waiting: &[ToolRequest],
) -> Option<Vec<SubmittedResult>> {
    let [Message::Assistant { tool_calls, .. }, rest @ ..] = messages.strip_prefix(answered)?
    else {
        return None;
    };
    let called = tool_calls.iter().map(|call| &call.id);
    if !called.eq(waiting.iter().map(|call| &call.id)) || rest.len() != waiting.len() {
        return None;
    }
    let result = |call: &ToolRequest| {
        rest.iter().find_map(|message| match message {
            Message::Tool {
                tool_call_id,
                content,
            } if *tool_call_id == call.id => Some(SubmittedResult {
                id: call.id.clone(),
                ok: true,
                output: content.as_text().into_owned(),
            }),
            _ => None,
        })
    };
    waiting.iter().map(result).collect()
}

fn reply_too_long(max_bytes: usize) -> ModelError {
    let message = format!("The reply is longer than {max_bytes} bytes.");
    ModelError::new(
        Outcome::new(Cause::OutputLimit, message)
            .hint("Raise the limit (ModelOptions::max_output)."),
    )
}

/// Returns the error of an agent that used its own tool although it serves as a model.
fn own_tool(agent: &str, tool: &str) -> ModelError {
    let message = format!("{agent} used its own tool {tool}, which a plain model must not do.");
    let outcome = Outcome::new(Cause::Protocol, message)
        .hint("Disable the tool in the agent's settings, or use another agent as the model.")
        .because(Reason::OwnTool);
    ModelError::new(outcome)
}

#[cfg(test)]
mod tests {
    use ostler_core::raw_json::RawJson;

    use super::*;

    fn call(id: &str) -> ToolRequest {
        ToolRequest {
            id: id.into(),
            name: "add".into(),
            args: RawJson::of(&[0; 0]),
        }
    }

    fn assistant(calls: &[&str]) -> Message {
        Message::Assistant {
            content: "I add.".into(),
            tool_calls: calls.iter().map(|id| call(id)).collect(),
        }
    }

    /// Returns the results found for two pending calls after one message.
    fn found(messages: &[Message]) -> Option<Vec<(String, String)>> {
        let submitted = results(&[Message::user("Add.")], messages, &[call("a"), call("b")])?;
        Some(
            submitted
                .into_iter()
                .map(|result| (result.id, result.output))
                .collect(),
        )
    }

    #[test]
    fn results_are_found_in_the_order_of_the_calls() {
        let asked = Message::user("Add.");
        let both = [
            asked,
            assistant(&["a", "b"]),
            Message::tool("b", "2"),
            Message::tool("a", "1"),
        ];
        let wanted = vec![
            ("a".to_owned(), "1".to_owned()),
            ("b".to_owned(), "2".to_owned()),
        ];
        assert_eq!(found(&both), Some(wanted));
    }

    #[test]
    fn other_messages_do_not_resume_the_session() {
        let (asked, reply) = (Message::user("Add."), assistant(&["a", "b"]));
        let (first, second) = (Message::tool("a", "1"), Message::tool("b", "2"));
        let others: [&[Message]; 10] = [
            &[],
            std::slice::from_ref(&asked),
            &[asked.clone(), reply.clone()],
            &[asked.clone(), reply.clone(), first.clone()],
            &[asked.clone(), reply.clone(), first.clone(), first.clone()],
            &[
                asked.clone(),
                reply.clone(),
                first.clone(),
                Message::tool("c", "3"),
            ],
            &[
                asked.clone(),
                reply.clone(),
                first.clone(),
                second.clone(),
                Message::user("And?"),
            ],
            &[
                asked.clone(),
                assistant(&["a"]),
                first.clone(),
                second.clone(),
            ],
            &[
                asked.clone(),
                Message::user("Add."),
                first.clone(),
                second.clone(),
            ],
            &[Message::user("Subtract."), reply, first, second],
        ];
        for messages in others {
            assert_eq!(found(messages), None, "{messages:?}");
        }
    }
}
