//! Request for one answer.

use ostler_core::raw_json::RawJson;
use serde::Serialize;
use serde_json::value::RawValue;

use super::config::LoopConfig;
use super::history::Message;
use super::runner_protocol::{Ready, ToolOffer};

/// Contents of a request.
pub(super) struct ChatRequest<'a> {
    pub(super) config: &'a LoopConfig,
    pub(super) ready: &'a Ready,
    pub(super) model: &'a str,
    pub(super) system: &'a str,
    pub(super) messages: &'a [Message],
    pub(super) tools: &'a [ToolOffer],
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Messages<'a>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Offer<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Format>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// System prompt, followed by the conversation.
struct Messages<'a> {
    system: &'a str,
    rest: &'a [Message],
}

#[derive(Serialize)]
struct System<'a> {
    role: &'static str,
    content: &'a str,
}

impl Serialize for Messages<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeSeq;
        let mut seq = serializer.serialize_seq(None)?;
        if !self.system.is_empty() {
            seq.serialize_element(&System {
                role: "system",
                content: self.system,
            })?;
        }
        for message in self.rest {
            seq.serialize_element(message)?;
        }
        seq.end()
    }
}

#[derive(Serialize)]
struct Offer<'a> {
    r#type: &'static str,
    function: &'a ToolOffer,
}

#[derive(Serialize)]
struct Format {
    r#type: &'static str,
    json_schema: Schema,
}

#[derive(Serialize)]
struct Schema {
    name: &'static str,
    schema: RawJson,
}

impl ChatRequest<'_> {
    /// Serializes the request.
    pub(super) fn to_json(&self) -> RawJson {
        let Self {
            config,
            ready,
            model,
            system,
            messages,
            tools,
        } = self;
        let schema = config
            .json_schema
            .as_deref()
            .and_then(|text| RawJson::parse(text).ok());
        let body = Body {
            model,
            messages: Messages {
                system,
                rest: messages,
            },
            stream: true,
            stream_options: config.stream_usage.then_some(StreamOptions {
                include_usage: true,
            }),
            tools: tools
                .iter()
                .map(|tool| Offer {
                    r#type: "function",
                    function: tool,
                })
                .collect(),
            response_format: schema.map(|schema| Format {
                r#type: "json_schema",
                json_schema: Schema {
                    name: "answer",
                    schema,
                },
            }),
            max_tokens: config.max_tokens.filter(|_| !ready.official),
            max_completion_tokens: config.max_tokens.filter(|_| ready.official),
            temperature: config
                .temperature
                .as_deref()
                .and_then(|t| serde_json::from_str(t).ok()),
            reasoning_effort: config.reasoning_effort.as_deref(),
        };
        let raw = RawJson::of(&body);
        config
            .extra_body
            .as_deref()
            .map_or(raw.clone(), |extra| merged(&raw, extra))
    }
}

/// Merges the caller's additional fields, which take precedence.
fn merged(body: &RawJson, extra: &str) -> RawJson {
    type Fields = serde_json::Map<String, serde_json::Value>;
    match (
        serde_json::from_str::<Fields>(body.get()),
        serde_json::from_str::<Fields>(extra),
    ) {
        (Ok(mut body), Ok(extra)) => {
            body.extend(extra);
            RawJson::of(&body)
        }
        _ => body.clone(),
    }
}
