//! One question to a model and its answer, for whoever keeps the conversation: messages become a request, the pieces of the
//! answer a reply. And the other way round, for a model that is asked in some other way and is to look like a server.

use ostler_core::dialect::{FromConversation, Outbox};
use ostler_core::event::{EventKind, Text};
use ostler_core::outcome::Outcome;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::ToolOffer;
use ostler_core::usage::{CostSource, Usage};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;

use super::blame;
use super::chunk::Chunk;
use super::orders::Failed;
use super::prices::Price;
use super::reply::{Audience, Reply};
use crate::plain::{self, Content, Message, Stop, ToolRequest};

/// A question: the conversation so far, and the tools that there are.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Question<'a> {
    /// The model that is asked.
    pub model: &'a str,
    /// What was said.
    #[serde(serialize_with = "messages")]
    pub messages: &'a [Message],
    /// The tools that the model may ask for.
    #[serde(serialize_with = "offers", skip_serializing_if = "<[_]>::is_empty")]
    pub tools: &'a [ToolOffer],
}

impl Question<'_> {
    /// The request for a server.
    #[must_use]
    pub fn request(&self) -> String {
        #[derive(Serialize)]
        struct Streamed<'a> {
            #[serde(flatten)]
            question: &'a Question<'a>,
            stream: bool,
            stream_options: Options,
        }
        #[derive(Serialize)]
        struct Options {
            include_usage: bool,
        }
        let stream_options = Options {
            include_usage: true,
        };
        RawJson::of(&Streamed {
            question: self,
            stream: true,
            stream_options,
        })
        .get()
        .to_owned()
    }
}

fn messages<S: Serializer>(messages: &[Message], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(messages.iter().map(Written))
}

fn offers<S: Serializer>(tools: &[ToolOffer], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Offer<'a> {
        r#type: &'static str,
        function: &'a ToolOffer,
    }
    serializer.collect_seq(tools.iter().map(|function| Offer {
        r#type: "function",
        function,
    }))
}

/// A message as the interface has it.
struct Written<'a>(&'a Message);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let role = match self.0 {
            Message::System { .. } => "system",
            Message::User { .. } => "user",
            Message::Assistant { .. } => "assistant",
            Message::Tool { .. } => "tool",
            Message::Other { name, .. } if name == "developer" => "developer",
            // Servers know no other roles.
            Message::Other { .. } => "user",
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", role)?;
        if let (Message::Other { name, .. }, "user") = (self.0, role) {
            map.serialize_entry("name", name)?;
        }
        if let Message::Tool { tool_call_id, .. } = self.0 {
            map.serialize_entry("tool_call_id", tool_call_id)?;
        }
        match self.0.content() {
            // Parts are a list; what is structured in any other way is no content that a server takes.
            Content::Structured(raw) if raw.get().starts_with('[') => {
                map.serialize_entry("content", raw)?
            }
            other => map.serialize_entry("content", &other.as_text())?,
        }
        if let Message::Assistant { tool_calls, .. } = self.0
            && !tool_calls.is_empty()
        {
            map.serialize_entry(
                "tool_calls",
                &tool_calls.iter().map(wrapped).collect::<Vec<_>>(),
            )?;
        }
        map.end()
    }
}

fn wrapped(call: &ToolRequest) -> serde_json::Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.args.get()}})
}

/// The answer to a question, while it comes in.
#[derive(Debug)]
pub struct Answering {
    reply: Reply,
    out: Outbox,
    /// Whether OpenAI's own server answers: its prices are known.
    official: bool,
}

impl Answering {
    /// The answer of this model.
    #[must_use]
    pub fn new(model: &str, official: bool) -> Self {
        let reply = Reply::new(Audience::Caller, String::new(), model.to_owned());
        Self {
            reply,
            out: Outbox::default(),
            official,
        }
    }

    /// Takes a payload of the server's, and says what it adds to the answer.
    pub fn hear(&mut self, payload: &str) -> Vec<Text> {
        match serde_json::from_str::<Chunk<'_>>(payload) {
            _ if payload.trim() == "[DONE]" => self.reply.done = true,
            Ok(chunk) => self.reply.take(&chunk, &mut self.out),
            Err(_) => self.reply.unreadable += 1,
        }
        let text = |out| {
            if let FromConversation::Event(EventKind::Text(text)) = out {
                Some(text)
            } else {
                None
            }
        };
        self.out.drain().filter_map(text).collect()
    }

    /// The whole answer.
    ///
    /// # Errors
    /// Why it is none, and what it used all the same.
    pub fn finish(self) -> Result<plain::Reply, (Outcome, Vec<Usage>)> {
        let Self {
            reply, official, ..
        } = self;
        let model = reply.model.clone().unwrap_or_else(|| reply.asked.clone());
        let usage = reply.spent.map(|spent| {
            let usage = Usage::of(Some(model.clone()), spent.tokens);
            let listed = || {
                Price::listed(&model)
                    .filter(|_| official)
                    .map(|price| price.of(&spent.tokens))
            };
            match (spent.cost, spent.partial, spent.estimate.or_else(listed)) {
                (Some(cost), ..) => usage.reported(cost),
                (None, Some(partial), _) => usage.partial(partial),
                (None, None, Some(estimate)) => usage.estimated(estimate),
                (None, None, None) => usage,
            }
        });
        let usage = usage.into_iter().collect();
        if let Some(outcome) = blame::unfinished(&reply) {
            return Err((outcome, usage));
        }
        let finish = reply.finish.clone().unwrap_or_default();
        let refused = reply.refused || finish == "content_filter";
        let (content, calls) = reply.into_parts();
        let request = |(n, call): (usize, &super::calls::Call)| {
            let id = if call.id.is_empty() {
                format!("call_{}", n + 1)
            } else {
                call.id.clone()
            };
            // What is no object is passed on as it came: the tool says what is wrong with it.
            let args = call
                .input()
                .unwrap_or_else(|_| RawJson::string(&call.arguments));
            ToolRequest {
                id,
                name: call.name.clone(),
                args,
            }
        };
        let tool_calls: Vec<_> = calls.iter().enumerate().map(request).collect();
        let stop = match &*finish {
            _ if refused => Stop::Refused,
            "length" => Stop::Length,
            _ if !tool_calls.is_empty() => Stop::ToolCalls,
            _ => Stop::End,
        };
        Ok(plain::Reply {
            content,
            tool_calls,
            usage,
            stop,
        })
    }
}

/// What a failed call comes to.
#[must_use]
pub fn outcome_of(failed: &Failed) -> Outcome {
    blame::of_failure(failed)
}

/// A question as Ostler's own conversation wrote it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Asked {
    /// What was said.
    pub messages: Vec<Message>,
    /// The tools that there are.
    pub tools: Vec<ToolOffer>,
}

impl Asked {
    /// Reads a request.
    ///
    /// # Errors
    /// The parser's words. The request is Ostler's own, so it is a fault in Ostler.
    pub fn of(request: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Request {
            messages: Vec<Line>,
            #[serde(default)]
            tools: Vec<Offer>,
        }
        #[derive(Deserialize)]
        struct Line {
            role: String,
            #[serde(default)]
            name: Option<String>,
            #[serde(default)]
            content: Option<Content>,
            #[serde(default)]
            tool_call_id: String,
            #[serde(default)]
            tool_calls: Vec<Wrapped>,
        }
        #[derive(Deserialize)]
        struct Wrapped {
            id: String,
            function: Function,
        }
        #[derive(Deserialize)]
        struct Function {
            name: String,
            arguments: String,
        }
        #[derive(Deserialize)]
        struct Offer {
            function: ToolOffer,
        }
        let request: Request = serde_json::from_str(request)?;
        let call = |Wrapped {
                        id,
                        function: Function { name, arguments },
                    }| {
            let args =
                RawJson::parse(&arguments).unwrap_or_else(|_| RawJson::of(&serde_json::Map::new()));
            ToolRequest { id, name, args }
        };
        let message = |line: Line| {
            let content = line.content.unwrap_or_default();
            match &*line.role {
                "system" => Message::System { content },
                "user" => match line.name {
                    Some(name) => Message::Other { name, content },
                    None => Message::User { content },
                },
                "assistant" => Message::Assistant {
                    content,
                    tool_calls: line.tool_calls.into_iter().map(call).collect(),
                },
                "tool" => Message::Tool {
                    tool_call_id: line.tool_call_id,
                    content,
                },
                _ => Message::Other {
                    name: line.role,
                    content,
                },
            }
        };
        Ok(Self {
            messages: request.messages.into_iter().map(message).collect(),
            tools: request
                .tools
                .into_iter()
                .map(|offer| offer.function)
                .collect(),
        })
    }
}

/// A piece of an answer, as a server would send it.
#[must_use]
pub fn piece(text: &Text) -> String {
    let key = match text.kind {
        ostler_core::event::TextKind::Reply => "content",
        ostler_core::event::TextKind::Thinking => "reasoning_content",
    };
    json!({"choices": [{"index": 0, "delta": {key: text.text}}]}).to_string()
}

/// What follows the text of an answer: its tool calls, how it ended, what it used.
#[must_use]
pub fn pieces_behind(reply: &plain::Reply) -> Vec<String> {
    let calls = reply.tool_calls.iter().enumerate().map(|(index, call)| {
        let mut call = wrapped(call);
        call["index"] = json!(index);
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}).to_string()
    });
    let finish = match reply.stop {
        Stop::End => "stop",
        Stop::ToolCalls => "tool_calls",
        Stop::Length => "length",
        Stop::Refused => "content_filter",
    };
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}).to_string();
    calls.chain([end]).chain(spent(&reply.usage)).collect()
}

/// What an answer used. Several models become one sum: an answer of a server has one model.
#[must_use]
pub fn spent(usage: &[Usage]) -> Option<String> {
    let mut sum = usage.first()?.clone();
    usage[1..].iter().for_each(|other| sum.add(other));
    let input = [sum.input, sum.cache_read, sum.cache_write]
        .into_iter()
        .flatten()
        .reduce(u64::saturating_add);
    let mut tokens = serde_json::Map::new();
    // What is not known is left out, and not said to be nothing.
    if let Some(input) = input {
        tokens.insert("prompt_tokens".into(), json!(input));
        let (read, written) = (sum.cache_read.unwrap_or(0), sum.cache_write.unwrap_or(0));
        let details = json!({"cached_tokens": read, "cache_write_tokens": written});
        tokens.insert("prompt_tokens_details".into(), details);
    }
    if let Some(output) = sum.output {
        tokens.insert("completion_tokens".into(), json!(output));
    }
    if let Some(reasoning) = sum.reasoning {
        tokens.insert(
            "completion_tokens_details".into(),
            json!({"reasoning_tokens": reasoning}),
        );
    }
    let word = match sum.cost_source {
        CostSource::Reported => "cost",
        CostSource::Partial => "partial_cost",
        CostSource::Estimated | CostSource::Unknown => "estimated_cost",
    };
    if let Some(cost) = sum.cost_usd {
        tokens.insert(word.into(), json!(cost));
    }
    let mut last = json!({"choices": [], "usage": tokens});
    if let Some(model) = &sum.model {
        last["model"] = json!(model);
    }
    Some(last.to_string())
}

/// What is said in its place when it is told with a later answer.
#[must_use]
pub fn spent_later() -> String {
    json!({"choices": [], "usage": {"later": "true"}}).to_string()
}

/// The failure that has this outcome.
#[must_use]
pub fn failed_with(outcome: Outcome) -> Failed {
    Failed {
        message: outcome.message.clone(),
        ended: Some(Box::new(outcome)),
        ..Failed::default()
    }
}

#[cfg(test)]
mod tests;
