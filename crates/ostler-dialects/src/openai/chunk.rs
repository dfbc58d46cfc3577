//! What a server sends: one piece of a streamed answer, or a whole one. Every field borrows, none is required.

use serde_json::value::RawValue;

use crate::lenient::{Content, List, Node, Scalar, wire};

wire! {
    /// One piece of an answer, or a whole answer.
    struct Chunk {
        id: Scalar<'a>,
        model: Scalar<'a>,
        choices: List<Node<'a, Choice<'a>>>,
        usage: Node<'a, Tokens<'a>>,
        // Groq says it here.
        x_groq: Node<'a, Extra<'a>>,
        error: Node<'a, Fault<'a>>,
        // Some servers put an error's fields at the top.
        object: Scalar<'a>,
        message: Scalar<'a>,
        code: Scalar<'a>,
    }

    /// One of the answers; only the first is asked for.
    struct Choice {
        index: Scalar<'a>,
        delta: Node<'a, Delta<'a>>,
        // Instead of `delta` when the answer comes as a whole.
        message: Node<'a, Delta<'a>>,
        finish_reason: Scalar<'a>,
        error: Node<'a, Fault<'a>>,
    }

    /// What came on top.
    struct Delta {
        content: Content<'a, Node<'a, Part<'a>>>,
        reasoning_content: Scalar<'a>,
        reasoning: Scalar<'a>,
        refusal: Scalar<'a>,
        tool_calls: List<Node<'a, CallPiece<'a>>>,
        // The form from before tools.
        function_call: Node<'a, Function<'a>>,
    }

    /// A part of a content that is a list.
    struct Part {
        #[serde(rename = "type")]
        kind: Scalar<'a>,
        text: Scalar<'a>,
        thinking: Content<'a, Node<'a, Part<'a>>>,
    }

    /// A piece of a tool call.
    struct CallPiece {
        index: Scalar<'a>,
        id: Scalar<'a>,
        function: Node<'a, Function<'a>>,
        // Some servers leave `function` out.
        name: Scalar<'a>,
        arguments: Option<&'a RawValue>,
    }

    /// The function of a tool call.
    struct Function {
        name: Scalar<'a>,
        arguments: Option<&'a RawValue>,
    }

    /// Tokens.
    struct Tokens {
        prompt_tokens: Scalar<'a>,
        completion_tokens: Scalar<'a>,
        prompt_tokens_details: Node<'a, Details<'a>>,
        completion_tokens_details: Node<'a, Details<'a>>,
        // DeepSeek
        prompt_cache_hit_tokens: Scalar<'a>,
        // OpenRouter: what it cost, in dollars
        cost: Scalar<'a>,
        // Ostler itself, for a model that is asked in another way: what it probably cost, or at least, and that it is told later
        estimated_cost: Scalar<'a>,
        partial_cost: Scalar<'a>,
        later: Scalar<'a>,
    }

    /// Parts of the token counts.
    struct Details {
        cached_tokens: Scalar<'a>,
        // OpenRouter: those that were written to a cache
        cache_write_tokens: Scalar<'a>,
        reasoning_tokens: Scalar<'a>,
    }

    /// What stands beside the standard.
    struct Extra {
        usage: Node<'a, Tokens<'a>>,
        error: Scalar<'a>,
    }

    /// What went wrong.
    struct Fault {
        message: Scalar<'a>,
        #[serde(rename = "type")]
        kind: Scalar<'a>,
        code: Scalar<'a>,
        status: Scalar<'a>,
    }
}

impl Chunk<'_> {
    /// The error it carries instead of an answer.
    pub(super) fn fault(&self) -> Option<Problem> {
        let choice = self.choices.0.first().and_then(Node::map);
        for node in [Some(&self.error), choice.map(|choice| &choice.error)]
            .into_iter()
            .flatten()
        {
            match node {
                // Beside an answer, an error that says nothing is none.
                Node::Map(fault)
                    if Problem::of(fault) == Problem::default() && choice.is_some() => {}
                Node::Text(text) if text.is_empty() => {}
                Node::Map(fault) => return Some(Problem::of(fault)),
                Node::Text(text) => {
                    return Some(Problem {
                        message: text.to_string(),
                        ..Problem::default()
                    });
                }
                Node::None => {}
            }
        }
        let bare = self.object.text() == Some("error")
            || (self.choices.0.is_empty() && self.usage.map().is_none());
        let message = self.message.text().filter(|_| bare)?;
        Some(Problem {
            message: message.to_owned(),
            code: word(&self.code),
            ..Problem::default()
        })
    }
}

/// The longest message of an error, in characters.
const MESSAGE: usize = 2000;

/// An error as a server says it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) message: String,
    pub(super) kind: String,
    pub(super) code: String,
}

impl Problem {
    fn of(fault: &Fault<'_>) -> Self {
        let code = [word(&fault.code), word(&fault.status)]
            .into_iter()
            .find(|w| !w.is_empty())
            .unwrap_or_default();
        Self {
            message: fault.message.or_empty().chars().take(MESSAGE).collect(),
            kind: word(&fault.kind),
            code,
        }
    }
}

/// A word, or a number written as one: codes come as both.
fn word(scalar: &Scalar<'_>) -> String {
    scalar
        .count()
        .map_or_else(|| scalar.or_empty().to_owned(), |number| number.to_string())
}

/// The text of a tool call's arguments: they come as a string that holds JSON, or as the object itself.
pub(super) fn arguments(raw: Option<&RawValue>) -> String {
    match raw.map(RawValue::get) {
        None | Some("null") => String::new(),
        Some(text) if text.starts_with('"') => serde_json::from_str(text).unwrap_or_default(),
        Some(text) => text.to_owned(),
    }
}
