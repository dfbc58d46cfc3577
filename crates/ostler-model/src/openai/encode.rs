//! Requests in OpenAI's format.

use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Spec, ToolOffer};
use serde_json::{Map, Value, json};

use crate::message::{Content, Message, ToolRequest};
use crate::request::ModelRequest;
use crate::tool_schema;

/// Options of all requests to one server.
#[derive(Debug, Clone, Default)]
pub struct RequestOptions {
    /// Whether the server is OpenAI's own, which names one of the fields differently.
    official: bool,
    max_tokens: Option<u64>,
    temperature: Option<RawJson>,
    reasoning_effort: Option<String>,
    without_usage: bool,
    extra_body: Option<String>,
}

impl RequestOptions {
    /// Reads the options from an agent's settings.
    #[must_use]
    pub fn of(spec: &Spec, official: bool) -> Self {
        let value = |key: &str| spec.value(key);
        Self {
            official,
            max_tokens: value("max_tokens").and_then(|count| count.parse().ok()),
            temperature: value("temperature").and_then(|number| RawJson::parse(&number).ok()),
            reasoning_effort: value("reasoning_effort"),
            without_usage: value("stream_usage").is_some_and(|on| on == "false"),
            extra_body: value("extra_body"),
        }
    }

    /// Returns the body of a request.
    pub fn encode(&self, request: &ModelRequest) -> RawJson {
        let schema = |schema: &RawJson| json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}});
        let messages: Vec<Value> = request.messages.iter().map(message).collect();
        let tools: Vec<Value> = request.tools.iter().map(offer).collect();
        let body = json!({
            "model": request.model,
            "messages": messages,
            "stream": true,
            "stream_options": (!self.without_usage).then(|| json!({"include_usage": true})),
            "tools": Some(tools).filter(|tools| !tools.is_empty()),
            "response_format": request.schema.as_ref().map(schema),
            "max_tokens": self.max_tokens.filter(|_| !self.official),
            "max_completion_tokens": self.max_tokens.filter(|_| self.official),
            "temperature": self.temperature,
            "reasoning_effort": self.reasoning_effort,
        });
        let mut body: Map<String, Value> = serde_json::from_value(body).unwrap_or_default();
        body.retain(|_, member| !member.is_null());
        let extra = self.extra_body.as_deref();
        let extra = extra.and_then(|extra| serde_json::from_str::<Map<_, _>>(extra).ok());
        body.extend(extra.unwrap_or_default());
        RawJson::of(&body)
    }
}

fn offer(offer: &ToolOffer) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": offer.name,
            "description": offer.description,
            "parameters": tool_schema::adapt(&offer.parameters),
        },
    })
}

/// Returns a message in OpenAI's form. A message in another role is a user's, with its name.
fn message(message: &Message) -> Value {
    let content = match message.content() {
        Content::Structured(raw) if raw.get().starts_with('[') => json!(raw),
        other => json!(other.as_text()),
    };
    match message {
        Message::System { .. } => json!({"role": "system", "content": content}),
        Message::User { .. } => json!({"role": "user", "content": content}),
        Message::Tool { tool_call_id, .. } => {
            json!({"role": "tool", "tool_call_id": tool_call_id, "content": content})
        }
        Message::Other { name, .. } if name == "developer" => {
            json!({"role": "developer", "content": content})
        }
        Message::Other { name, .. } => json!({"role": "user", "name": name, "content": content}),
        Message::Assistant { tool_calls, .. } if tool_calls.is_empty() => {
            json!({"role": "assistant", "content": content})
        }
        Message::Assistant { tool_calls, .. } => {
            let content = Some(content).filter(|content| content != "");
            let calls: Vec<Value> = tool_calls.iter().map(call).collect();
            json!({"role": "assistant", "content": content, "tool_calls": calls})
        }
    }
}

fn call(call: &ToolRequest) -> Value {
    json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.args.get()},
    })
}
