//! A single request to a model, for callers that manage the conversation themselves: messages
//! become a request, and the chunks of the response a reply. Also the reverse, for a model that is
//! not an API but must look like one.

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
use super::prices::Price;
use super::reply::{Audience, PartialReply};
use super::runner_protocol::Failed;
use crate::plain::{self, Content, Message, Stop, ToolRequest};

/// A request: the conversation so far and the available tools.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ModelRequest<'a> {
    /// Name of the model.
    pub model: &'a str,
    /// The conversation.
    #[serde(serialize_with = "messages")]
    pub messages: &'a [Message],
    /// Tools that the model may call.
    #[serde(serialize_with = "offers", skip_serializing_if = "<[_]>::is_empty")]
    pub tools: &'a [ToolOffer],
}

impl ModelRequest<'_> {
    /// Serializes the request for a server.
    #[must_use]
    pub fn request(&self) -> String {
        #[derive(Serialize)]
        struct Streamed<'a> {
            #[serde(flatten)]
            question: &'a ModelRequest<'a>,
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

/// A message in the format of the API.
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
            // A list of parts. Servers accept no other structured content.
            Content::Structured(raw) if raw.get().starts_with('[') => {
                map.serialize_entry("content", raw)?;
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

/// Parser for the response to a request.
#[derive(Debug)]
pub struct ReplyParser {
    reply: PartialReply,
    out: Outbox,
    /// Whether the server is OpenAI's own, whose prices are known.
    official: bool,
}

impl ReplyParser {
    /// Creates a parser for the response of this model.
    #[must_use]
    pub fn new(model: &str, official: bool) -> Self {
        let reply = PartialReply::new(Audience::Caller, String::new(), model.to_owned());
        Self {
            reply,
            out: Outbox::default(),
            official,
        }
    }

    /// Parses a payload from the server and returns the text it adds.
    pub fn push(&mut self, payload: &str) -> Vec<Text> {
        match serde_json::from_str::<Chunk<'_>>(payload) {
            _ if payload.trim() == "[DONE]" => self.reply.done = true,
            Ok(chunk) => self.reply.push(&chunk, &mut self.out),
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

    /// Returns the complete reply.
    ///
    /// # Errors
    /// Returns why there is no reply, and its usage.
    pub fn finish(self) -> Result<plain::Reply, (Outcome, Vec<Usage>)> {
        let Self {
            reply, official, ..
        } = self;
        let model = reply
            .model
            .clone()
            .unwrap_or_else(|| reply.requested_model.clone());
        let usage = reply.usage.map(|reported| {
            let usage = Usage::for_turn(Some(model.clone()), reported.tokens);
            let listed = || {
                Price::listed(&model)
                    .filter(|_| official)
                    .map(|price| price.of(&reported.tokens))
            };
            match (
                reported.cost,
                reported.partial,
                reported.estimate.or_else(listed),
            ) {
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
            // Arguments that are not an object are passed on, so that the tool reports the error.
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

/// Determines the outcome of a failed call.
#[must_use]
pub fn outcome_of(failed: &Failed) -> Outcome {
    blame::of_failure(failed)
}

/// A request written by Ostler's own conversation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ParsedRequest {
    /// The conversation.
    pub messages: Vec<Message>,
    /// The available tools.
    pub tools: Vec<ToolOffer>,
}

impl ParsedRequest {
    /// Parses a request.
    ///
    /// # Errors
    /// Returns the parser's error. The request is Ostler's own, so this is a bug in Ostler.
    pub fn of(request: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Request {
            messages: Vec<RawMessage>,
            #[serde(default)]
            tools: Vec<Offer>,
        }
        #[derive(Deserialize)]
        struct RawMessage {
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
        let message = |line: RawMessage| {
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

/// Formats text as a chunk, as a server would send it.
#[must_use]
pub fn text_chunk(text: &Text) -> String {
    let key = match text.kind {
        ostler_core::event::TextKind::Reply => "content",
        ostler_core::event::TextKind::Thinking => "reasoning_content",
    };
    json!({"choices": [{"index": 0, "delta": {key: text.text}}]}).to_string()
}

/// Formats the chunks after the text of a reply: tool calls, finish reason and usage.
#[must_use]
pub fn final_chunks(reply: &plain::Reply) -> Vec<String> {
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
    calls
        .chain([end])
        .chain(usage_chunk(&reply.usage))
        .collect()
}

/// Formats usage as a chunk. Several models are combined, because a server's answer has one model.
#[must_use]
pub fn usage_chunk(usage: &[Usage]) -> Option<String> {
    let mut sum = usage.first()?.clone();
    usage[1..].iter().for_each(|other| sum.add(other));
    let input = [sum.input, sum.cache_read, sum.cache_write]
        .into_iter()
        .flatten()
        .reduce(u64::saturating_add);
    let mut tokens = serde_json::Map::new();
    // Unknown counts are omitted rather than reported as zero.
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
    let key = match sum.cost_source {
        CostSource::Reported => "cost",
        CostSource::Partial => "partial_cost",
        CostSource::Estimated | CostSource::Unknown => "estimated_cost",
    };
    if let Some(cost) = sum.cost_usd {
        tokens.insert(key.into(), json!(cost));
    }
    let mut last = json!({"choices": [], "usage": tokens});
    if let Some(model) = &sum.model {
        last["model"] = json!(model);
    }
    Some(last.to_string())
}

/// Formats the placeholder for usage that is reported with a later answer.
#[must_use]
pub fn usage_later_chunk() -> String {
    json!({"choices": [], "usage": {"later": "true"}}).to_string()
}

/// Creates a failure with this outcome.
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
