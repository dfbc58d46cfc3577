//! The answer of a judge: its schema, and a strict parser.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::JudgeReply;

/// Score of one assertion.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Score {
    pub(super) value: f64,
    pub(super) reason: String,
}

/// Scores by the name of the assertion.
pub(super) type Scores = BTreeMap<String, Score>;

/// An answer that does not have the required form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReplyError {
    #[error("the judge's answer is not the required JSON: {0}")]
    Malformed(String),
    #[error("the judge scored {0:?}, which was not asked for")]
    Unknown(String),
    #[error("the judge scored {0:?} twice")]
    Twice(String),
    #[error("the judge did not score {0:?}")]
    Missing(String),
    #[error("the judge's score of {0:?} is not between 0 and 1")]
    OutOfRange(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    assertions: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    score: f64,
    #[serde(default)]
    reason: String,
}

/// Returns the JSON schema of an answer.
pub(super) fn schema(assertions: &BTreeMap<String, String>) -> Value {
    let names: Vec<&String> = assertions.keys().collect();
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["assertions"],
        "properties": {"assertions": {
            "type": "array",
            "minItems": names.len(),
            "maxItems": names.len(),
            "items": {
                "type": "object",
                "additionalProperties": false,
                "required": ["name", "score", "reason"],
                "properties": {
                    "name": {"enum": names},
                    "score": {"type": "number", "minimum": 0, "maximum": 1},
                    "reason": {"type": "string"},
                },
            },
        }},
    })
}

/// Parses an answer: each assertion exactly once, each score from 0 to 1.
pub(super) fn parse(
    reply: &JudgeReply,
    assertions: &BTreeMap<String, String>,
) -> Result<Scores, ReplyError> {
    let answer: Result<Answer, _> = match &reply.structured {
        Some(value) => serde_json::from_value(value.clone()),
        None => serde_json::from_str(object(&reply.text)),
    };
    let answer = answer.map_err(|error| ReplyError::Malformed(error.to_string()))?;
    let mut scores = Scores::new();
    for entry in answer.assertions {
        if !assertions.contains_key(&entry.name) {
            return Err(ReplyError::Unknown(entry.name));
        }
        if !(0.0..=1.0).contains(&entry.score) {
            return Err(ReplyError::OutOfRange(entry.name));
        }
        let score = Score {
            value: entry.score,
            reason: entry.reason,
        };
        if scores.insert(entry.name.clone(), score).is_some() {
            return Err(ReplyError::Twice(entry.name));
        }
    }
    match assertions.keys().find(|name| !scores.contains_key(*name)) {
        Some(missing) => Err(ReplyError::Missing(missing.clone())),
        None => Ok(scores),
    }
}

/// Returns the JSON in a text: the whole text, or the content of its only code block.
fn object(text: &str) -> &str {
    let text = text.trim();
    let Some(start) = text.find("```") else {
        return text;
    };
    let block = &text[start + 3..];
    let block = block.split_once('\n').map_or(block, |(_, block)| block);
    match block.split_once("```") {
        Some((block, rest)) if !rest.contains("```") => block.trim(),
        _ => text,
    }
}
