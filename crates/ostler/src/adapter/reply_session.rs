//! A session that answers as a plain model: what is heard of it, and how it waits while the caller runs tools.

use std::collections::BTreeMap;
use std::time::Duration;

use ostler_core::event::{Event, EventKind, Text, TextKind, ToolCall, TurnEnded};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::spec::ToolOffer;
use ostler_core::usage::{Scope, Usage};
use ostler_dialects::plain::{Gate, Message, Reply, Stop, ToolRequest};
use tempfile::TempDir;

use super::{ModelError, Update, Updates, too_late};
use crate::session::{Session, SubmittedResult};

/// How long an agent that has called a tool is listened to for further calls. They belong to the same reply, so that the caller
/// can run them at once; those that come later come with the next one.
const TOGETHER: Duration = Duration::from_millis(50);

/// How long an agent that has answered may take to end.
const GRACE: Duration = Duration::from_secs(1);

/// A session that is listened to.
pub(super) struct Hearing {
    /// Taken when nobody wants the reply any more.
    session: Option<Session>,
    /// The directory that was made for it.
    place: Option<TempDir>,
    /// The calls that it waits for.
    waiting: Vec<ToolRequest>,
    said: String,
    /// How much was said in the whole turn.
    length: usize,
    usage: BTreeMap<Option<String>, Usage>,
    /// What sessions before it have used that were given up.
    owed: Vec<Usage>,
}

/// A session that waits for the results of tools, and the messages that it has answered.
pub(super) struct Held {
    hearing: Hearing,
    messages: Vec<Message>,
}

/// What holds for a reply.
pub(super) struct Terms<'a> {
    pub(super) agent: &'a str,
    /// The tools that the agent may call: it waits for their results.
    pub(super) bound: &'a [ToolOffer],
    /// The most bytes.
    pub(super) most: usize,
    /// The longest time.
    pub(super) time: Duration,
}

/// Who is told what the agent says, and what is held back from it.
pub(super) struct Audience<'a> {
    pub(super) updates: &'a Updates,
    /// For a reply whose text can hold a block of tool calls.
    pub(super) gate: Option<Gate>,
}

impl Audience<'_> {
    fn text(&mut self, mut text: Text) {
        if let (TextKind::Reply, Some(gate)) = (text.kind, &mut self.gate) {
            text.text = gate.pass(&text.text).unwrap_or_default();
        }
        if text.text.is_empty() {
            self.updates.tell(&Update::Alive)
        } else {
            self.updates.text(text)
        }
    }
}

impl Hearing {
    pub(super) fn new(session: Session, place: Option<TempDir>) -> Self {
        Self {
            session: Some(session),
            place,
            waiting: Vec::new(),
            said: String::new(),
            length: 0,
            usage: BTreeMap::new(),
            owed: Vec::new(),
        }
    }

    /// What a session that was given up has used is told with this one's.
    pub(super) fn owes(&mut self, usage: Vec<Usage>) {
        self.owed.extend(usage);
    }

    /// Listens until there is a reply; none when the agent waits for tools instead.
    pub(super) async fn hear(
        &mut self,
        terms: &Terms<'_>,
        audience: &mut Audience<'_>,
    ) -> Result<Option<Reply>, ModelError> {
        let heard = tokio::time::timeout(terms.time, self.listen(terms, audience)).await;
        let heard = heard.unwrap_or_else(|_| Err(ModelError::new(too_late(terms.time))));
        heard.map_err(|mut error| {
            if error.usage.is_empty() {
                error
                    .usage
                    .extend(std::mem::take(&mut self.usage).into_values());
                error.usage.append(&mut self.owed);
            }
            error
        })
    }

    async fn listen(
        &mut self,
        terms: &Terms<'_>,
        audience: &mut Audience<'_>,
    ) -> Result<Option<Reply>, ModelError> {
        loop {
            let event = match self.next().await {
                Next::Event(event) => event,
                Next::Waits => return Ok(None),
                Next::Over => {
                    return Err(ModelError::new(Outcome::new(
                        Cause::Protocol,
                        "The session ended without a word.",
                    )));
                }
            };
            match event.kind {
                EventKind::Text(text) if text.parent.is_none() => {
                    if text.kind == TextKind::Reply {
                        self.length += text.text.len();
                        self.said.push_str(&text.text);
                    }
                    if self.length > terms.most {
                        return Err(too_long(terms.most));
                    }
                    audience.text(text);
                }
                EventKind::Unreadable(line)
                    if usize::try_from(line.length).is_ok_and(|length| length > terms.most) =>
                {
                    return Err(too_long(terms.most));
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
                    return Err(ModelError::new(own_tool(terms.agent, &call.name)));
                }
                // It has a result, and not from the caller: a tool of the agent's own, with the name of one of the caller's.
                EventKind::ToolResult(result)
                    if self.waiting.iter().any(|call| call.id == result.id) =>
                {
                    let name = result.name.unwrap_or_default();
                    return Err(ModelError::new(own_tool(terms.agent, &name)));
                }
                EventKind::Notice(notice) if notice.code == "no_bridge" => {
                    return Err(ModelError::new(Outcome::new(
                        Cause::Unavailable,
                        notice.message,
                    )));
                }
                EventKind::Usage(usage) if usage.scope == Scope::Turn => {
                    self.usage.insert(usage.model.clone(), usage);
                }
                EventKind::TurnEnded(turn) => return self.over(turn).map(Some),
                EventKind::Ended(ended) => return Err(ModelError::new(ended.outcome)),
                _ => audience.updates.tell(&Update::Alive),
            }
        }
    }

    /// The next event; or that the agent waits for its calls, and has said all that belongs to them.
    async fn next(&mut self) -> Next {
        let Some(session) = &mut self.session else {
            return Next::Over;
        };
        if self.waiting.is_empty() {
            return session
                .next()
                .await
                .map_or(Next::Over, |event| Next::Event(Box::new(event)));
        }
        loop {
            match tokio::time::timeout(TOGETHER, session.next()).await {
                Ok(event) => return event.map_or(Next::Over, |event| Next::Event(Box::new(event))),
                // A call is told before the agent asks for it, and some agents ask for one at a time.
                Err(_)
                    if self
                        .waiting
                        .iter()
                        .any(|call| session.awaits_result(&call.id)) =>
                {
                    return Next::Waits;
                }
                Err(_) => {}
            }
        }
    }

    fn over(&mut self, turn: TurnEnded) -> Result<Reply, ModelError> {
        if let (Some(call), Cause::Completed) = (self.waiting.first(), turn.outcome.cause) {
            let message = format!(
                "The agent gave up on its call of {} before it had a result.",
                call.name
            );
            return Err(ModelError::new(Outcome::new(Cause::Protocol, message)));
        }
        let mut usage: Vec<Usage> = std::mem::take(&mut self.usage).into_values().collect();
        if usage.is_empty() {
            usage.extend(turn.usage);
        }
        usage.append(&mut self.owed);
        match turn.outcome.cause {
            Cause::Completed | Cause::Refused => {
                let stop = if turn.outcome.cause == Cause::Refused {
                    Stop::Refused
                } else {
                    Stop::End
                };
                // In a turn with tools, what was said before them was told with them.
                let said = std::mem::take(&mut self.said);
                let content = if self.length == said.len() {
                    turn.text
                } else {
                    said
                };
                Ok(Reply {
                    content: content.trim().to_owned(),
                    tool_calls: Vec::new(),
                    usage,
                    stop,
                })
            }
            _ => Err(ModelError {
                outcome: Box::new(turn.outcome),
                usage,
            }),
        }
    }

    /// The reply that asks for tools, and the session, which waits for them.
    pub(super) fn hold(mut self, messages: &[Message]) -> (Held, Reply) {
        let content = std::mem::take(&mut self.said).trim().to_owned();
        let reply = Reply {
            content,
            tool_calls: self.waiting.clone(),
            usage: Vec::new(),
            stop: Stop::ToolCalls,
        };
        (
            Held {
                hearing: self,
                messages: messages.to_vec(),
            },
            reply,
        )
    }

    /// The reply is there: the agent ends by itself, and is ended when that takes long.
    pub(super) async fn end_well(&mut self) {
        if let Some(session) = &mut self.session {
            let _ = tokio::time::timeout(GRACE, async { while session.next().await.is_some() {} })
                .await;
        }
        self.end().await;
    }

    /// Ends what is left of it.
    pub(super) async fn end(&mut self) {
        if let Some(session) = &mut self.session {
            session.kill();
            while session.next().await.is_some() {}
        }
        drop(self.place.take());
    }
}

/// What comes of listening.
enum Next {
    Event(Box<Event>),
    Waits,
    Over,
}

/// Nobody wants the reply any more: there is nothing that the agent could bring to a good end.
impl Drop for Hearing {
    fn drop(&mut self) {
        let (session, place) = (self.session.take(), self.place.take());
        let Some(mut session) = session else { return };
        session.kill();
        // The directory goes when the agent is gone. Without a runtime the session ends with its task, and at once.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                while session.next().await.is_some() {}
                drop(place);
            });
        }
    }
}

impl Held {
    /// Goes on with the session if these messages are those that it has answered, and then the results that it waits for. If
    /// they are not, or the agent is gone, the session is ended, and what it used is given back.
    pub(super) async fn go_on(self, messages: &[Message]) -> Result<Hearing, Vec<Usage>> {
        let Self {
            mut hearing,
            messages: answered,
        } = self;
        let results = results(&answered, messages, &hearing.waiting);
        if let (Some(results), Some(session)) = (results, &hearing.session)
            && session.submit_tool_results(results).is_ok()
        {
            hearing.waiting.clear();
            return Ok(hearing);
        }
        hearing.end().await;
        let mut usage: Vec<Usage> = std::mem::take(&mut hearing.usage).into_values().collect();
        usage.append(&mut hearing.owed);
        if usage.iter().all(|usage| usage.cost_usd.is_none()) {
            usage.push(Usage::unknown(Scope::Turn)); // something was used, and nobody says what it cost
        }
        Err(usage)
    }
}

/// The results of the calls that are waited for, if the messages go on where the answered ones ended.
fn results(
    answered: &[Message],
    messages: &[Message],
    waiting: &[ToolRequest],
) -> Option<Vec<SubmittedResult>> {
    let [Message::Assistant { tool_calls, .. }, rest @ ..] = messages.strip_prefix(answered)?
    else {
        return None;
    };
    if !tool_calls
        .iter()
        .map(|call| &call.id)
        .eq(waiting.iter().map(|call| &call.id))
        || rest.len() != waiting.len()
    {
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

fn too_long(most: usize) -> ModelError {
    let message = format!("The reply is longer than {most} bytes.");
    ModelError::new(
        Outcome::new(Cause::OutputLimit, message).hint("Allow more (ModelOptions::max_output)."),
    )
}

/// The agent did what it was not to do.
fn own_tool(agent: &str, tool: &str) -> Outcome {
    let message = format!(
        "{agent} used its own tool {tool}, although it serves as a plain model: a breach of contract."
    );
    Outcome::new(Cause::Protocol, message)
        .hint("Forbid the tool in the agent's own settings, or use another agent as the model.")
        .with(|detail| detail.native = Some("own_tool".to_owned()))
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

    /// The results that are found when two calls are waited for, behind one message.
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
    fn anything_else_is_another_conversation() {
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
