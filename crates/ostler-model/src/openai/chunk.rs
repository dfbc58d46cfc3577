//! Response of a server: a chunk of a streamed answer, or a whole one. All fields are borrowed and
//! optional.

use serde_json::value::RawValue;

use ostler_core::lenient::{Content, List, Node, Scalar, wire};

wire! {
    /// A chunk of an answer, or a whole answer.
    struct Chunk {
        id,
        model,
        choices: List<Node<'a, Choice<'a>>>,
        usage: Node<'a, Tokens<'a>>,
        // Usage, as reported by Groq.
        x_groq: Node<'a, Extra<'a>>,
        error: Node<'a, ErrorBody<'a>>,
        // Some servers put the fields of an error at the top level.
        object,
        message,
        code,
    }

    /// One of the answers; only the first is requested.
    struct Choice {
        index,
        delta: Node<'a, Delta<'a>>,
        // Instead of `delta` if the answer is not streamed.
        message: Node<'a, Delta<'a>>,
        finish_reason,
        error: Node<'a, ErrorBody<'a>>,
    }

    /// Increment of an answer.
    struct Delta {
        content: Content<'a, Node<'a, Part<'a>>>,
        reasoning_content,
        reasoning,
        refusal,
        tool_calls: List<Node<'a, CallChunk<'a>>>,
        // Legacy function format.
        function_call: Node<'a, Function<'a>>,
    }

    /// Part of a content list.
    struct Part {
        #[serde(rename = "type")]
        kind,
        text,
        thinking: Content<'a, Node<'a, Part<'a>>>,
    }

    /// Chunk of a tool call.
    struct CallChunk {
        index,
        id,
        function: Node<'a, Function<'a>>,
        // Some servers omit `function`.
        name,
        arguments: Option<&'a RawValue>,
    }

    /// The function of a tool call.
    struct Function {
        name,
        arguments: Option<&'a RawValue>,
    }

    /// Token counters.
    struct Tokens {
        prompt_tokens,
        completion_tokens,
        prompt_tokens_details: Node<'a, Details<'a>>,
        completion_tokens_details: Node<'a, Details<'a>>,
        // DeepSeek
        prompt_cache_hit_tokens,
        // OpenRouter: cost in dollars
        cost,
    }

    /// Breakdown of the token counts.
    struct Details {
        cached_tokens,
        // OpenRouter: tokens written to a cache
        cache_write_tokens,
        reasoning_tokens,
    }

    /// Non-standard fields.
    struct Extra {
        usage: Node<'a, Tokens<'a>>,
        error,
    }

    /// Error of the server.
    struct ErrorBody {
        message,
        #[serde(rename = "type")]
        kind,
        code,
        status,
    }
}

impl Chunk<'_> {
    /// Returns the error that the chunk carries instead of an answer.
    pub(super) fn api_error(&self) -> Option<ApiError> {
        let choice = self.choices.0.first().and_then(Node::map);
        for node in [Some(&self.error), choice.map(|choice| &choice.error)]
            .into_iter()
            .flatten()
        {
            match node {
                // Next to an answer, an empty error does not count.
                Node::Map(api_error)
                    if ApiError::of(api_error) == ApiError::default() && choice.is_some() => {}
                Node::Text(text) if text.is_empty() => {}
                Node::Map(api_error) => return Some(ApiError::of(api_error)),
                Node::Text(text) => {
                    return Some(ApiError {
                        message: text.to_string(),
                        ..ApiError::default()
                    });
                }
                Node::None => {}
            }
        }
        let bare = self.object.text() == Some("error")
            || (self.choices.0.is_empty() && self.usage.map().is_none());
        let message = self.message.text().filter(|_| bare)?;
        Some(ApiError {
            message: message.to_owned(),
            code: scalar_text(&self.code),
            ..ApiError::default()
        })
    }
}

/// Maximum length of an error message, in characters.
const MESSAGE: usize = 2000;

/// Error reported by a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ApiError {
    pub(super) message: String,
    pub(super) kind: String,
    pub(super) code: String,
}

impl ApiError {
    fn of(api_error: &ErrorBody<'_>) -> Self {
        let code = [scalar_text(&api_error.code), scalar_text(&api_error.status)]
            .into_iter()
            .find(|w| !w.is_empty())
            .unwrap_or_default();
        Self {
            message: api_error.message.or_empty().chars().take(MESSAGE).collect(),
            kind: scalar_text(&api_error.kind),
            code,
        }
    }
}

/// Returns a string, or a number as a string: codes come as both.
fn scalar_text(scalar: &Scalar<'_>) -> String {
    scalar
        .count()
        .map_or_else(|| scalar.or_empty().to_owned(), |number| number.to_string())
}

/// Returns the arguments of a tool call as text. They come as a string that contains JSON, or as an
/// object.
pub(super) fn arguments(raw: Option<&RawValue>) -> String {
    match raw.map(RawValue::get) {
        None | Some("null") => String::new(),
        Some(text) if text.starts_with('"') => serde_json::from_str(text).unwrap_or_default(),
        Some(text) => text.to_owned(),
    }
}
