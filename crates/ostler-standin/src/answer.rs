//! Answers of the scripted model, independent of a provider's wire format: blocks, an error, or a
//! misbehaviour.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::request::{Request, plain};
use super::server_style::ServerStyle;

/// An answer of the model, built with [`Answer::text`], [`Answer::tool`], [`Answer::error`] or
/// [`Answer::hang`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[must_use]
pub struct Answer {
    /// The content, in order.
    pub blocks: Vec<Block>,
    /// Error sent instead of content, or within the stream with [`Ending::ErrorAfter`].
    pub error: Option<Failure>,
    /// Overrides the stop reason that follows from the blocks (`tool_use` or `end_turn`).
    pub stop_reason: Option<String>,
    /// The reported token counts. The default is [`Usage::of_nth`].
    pub usage: Option<Usage>,
    /// Delay before the first byte.
    pub delay_ms: u64,
    /// Delay before each delta.
    pub delta_delay_ms: u64,
    /// How the answer ends.
    pub ending: Ending,
    /// Style of the server's output.
    pub manner: ServerStyle,
}

/// One content block.
///
/// In text and thinking, `{user_text}` and `{tool_result}` stand for the last ones of the request.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Block {
    /// Text for the user.
    Text {
        /// The whole text.
        text: String,
        /// Number of deltas when streamed.
        #[serde(default = "one")]
        deltas: usize,
    },
    /// Thinking, streamed with a signature.
    Thinking {
        /// The whole text.
        thinking: String,
        /// Number of deltas when streamed.
        #[serde(default = "one")]
        deltas: usize,
    },
    /// A tool call with a unique generated id.
    ToolUse {
        /// The tool's name.
        name: String,
        /// Its arguments. In chat completions, a string is sent as is, even if it is not JSON.
        input: Value,
    },
}

impl Block {
    /// Returns the text to send, with placeholders filled in, or the arguments of a call.
    pub(super) fn text(&self, request: &Request) -> String {
        match self {
            Self::Text { text, .. } | Self::Thinking { thinking: text, .. } => {
                let results = request.last_tool_results();
                let result = results.last().map_or("", |result| &result.text);
                text.replace("{tool_result}", result)
                    .replace("{user_text}", &request.last_user_text())
            }
            Self::ToolUse { input, .. } => plain(input),
        }
    }

    /// Returns the number of deltas when streamed.
    pub(super) fn deltas(&self) -> usize {
        match self {
            Self::Text { deltas, .. } | Self::Thinking { deltas, .. } => *deltas,
            // Two pieces, to catch a reader that takes one piece for the whole input.
            Self::ToolUse { .. } => 2,
        }
    }

    /// Returns true for a tool call.
    pub(super) fn is_call(&self) -> bool {
        matches!(self, Self::ToolUse { .. })
    }
}

/// An error response of the provider.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The HTTP status.
    pub status: u16,
    /// The provider's error type, such as `authentication_error`.
    pub kind: String,
    /// The provider's message.
    pub message: String,
    /// The provider's error code, such as `model_not_found`, if it has codes besides types.
    pub code: Option<String>,
    /// Body sent instead of the provider's, such as the error page of a proxy.
    pub body: Option<String>,
    /// Extra response headers, such as `retry-after`.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
}

/// Token counts of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Usage {
    /// Input that was neither written to nor read from the cache.
    pub input: u64,
    /// Input written to the cache.
    pub cache_creation: u64,
    /// Input read from the cache.
    pub cache_read: u64,
    /// Output, as reported at the end.
    pub output: u64,
    /// The part of the output that was thinking, for providers that report it.
    pub reasoning: u64,
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Completely.
    #[default]
    Complete,
    /// The request is accepted, and nothing is ever sent, not even a status.
    Silent,
    /// Hangs after this many deltas. With 0, the headers and the start of the message are sent.
    HangAfter(usize),
    /// Drops the connection after this many deltas.
    CutAfter(usize),
    /// Drops the connection after the headers.
    CutAtOnce,
    /// Sends the answer's error within the stream, after this many deltas.
    ErrorAfter(usize),
    /// Ends the stream with invalid JSON after this many deltas.
    GarbageAfter(usize),
}

impl Default for Usage {
    fn default() -> Self {
        Self::of_nth(1)
    }
}

impl Usage {
    /// The counts of the answer to a side call, such as one for a title.
    pub(super) const SIDE_CALL: Self = Self {
        input: 5000,
        cache_creation: 300,
        cache_read: 400,
        output: 700,
        reasoning: 50,
    };

    /// Returns the counts of a server's nth answer, from 1.
    ///
    /// Each answer has distinct counts that grow by different powers of `nth`, so that counting one
    /// call twice does not compensate for dropping another.
    #[must_use]
    pub const fn of_nth(nth: u64) -> Self {
        Self {
            input: 99 + nth * nth,
            cache_creation: 6 + nth,
            cache_read: 9 + 2 * nth,
            output: 23 + nth * (nth + 1),
            reasoning: 3 + nth,
        }
    }

    /// Returns the whole input, including the cache.
    pub(super) fn prompt(self) -> u64 {
        self.input + self.cache_read + self.cache_creation
    }
}

impl Answer {
    /// Creates an answer with one text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::default().and_text(text)
    }

    /// Creates an answer with one tool call.
    pub fn tool(name: impl Into<String>, input: Value) -> Self {
        Self::default().and_tool(name, input)
    }

    /// Creates an answer with thinking. Add text with [`Answer::and_text`].
    pub fn thinking(thinking: impl Into<String>) -> Self {
        Self::default().and(Block::Thinking {
            thinking: thinking.into(),
            deltas: 1,
        })
    }

    /// Creates an error response, such as `(401, "authentication_error", "invalid x-api-key")`.
    pub fn error(status: u16, kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            error: Some(Failure {
                status,
                kind: kind.into(),
                message: message.into(),
                ..Failure::default()
            }),
            ..Self::default()
        }
    }

    /// Creates an answer that never sends a byte.
    pub fn hang() -> Self {
        Self::default().ending(Ending::Silent)
    }

    fn and(mut self, block: Block) -> Self {
        self.blocks.push(block);
        self
    }

    fn ending(mut self, ending: Ending) -> Self {
        self.ending = ending;
        self
    }

    /// Changes the error, if there is one.
    fn with_error(mut self, change: impl FnOnce(&mut Failure)) -> Self {
        self.error.as_mut().map(change);
        self
    }

    /// Adds a text block.
    pub fn and_text(self, text: impl Into<String>) -> Self {
        self.and(Block::Text {
            text: text.into(),
            deltas: 1,
        })
    }

    /// Adds a tool call.
    pub fn and_tool(self, name: impl Into<String>, input: Value) -> Self {
        self.and(Block::ToolUse {
            name: name.into(),
            input,
        })
    }

    /// Splits the text or thinking block added last into `count` deltas.
    pub fn deltas(mut self, count: usize) -> Self {
        if let Some(Block::Text { deltas, .. } | Block::Thinking { deltas, .. }) =
            self.blocks.last_mut()
        {
            *deltas = count;
        }
        self
    }

    /// Adds a response header to an error.
    pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.with_error(|error| error.headers.push((name.into(), value.into())))
    }

    /// Sets the code of an error.
    pub fn code(self, code: impl Into<String>) -> Self {
        self.with_error(|error| error.code = Some(code.into()))
    }

    /// Replaces the body of an error.
    pub fn body(self, body: impl Into<String>) -> Self {
        self.with_error(|error| error.body = Some(body.into()))
    }

    /// Overrides the stop reason, for example with `refusal` or `max_tokens`.
    pub fn stop_reason(mut self, reason: impl Into<String>) -> Self {
        self.stop_reason = Some(reason.into());
        self
    }

    /// Sets the token counts.
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Returns the token counts to send.
    pub(super) fn counts(&self) -> Usage {
        self.usage.unwrap_or_default()
    }

    /// Sets the delay before the first byte.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay_ms = millis(delay);
        self
    }

    /// Sets the delay before each delta.
    pub fn delta_delay(mut self, delay: Duration) -> Self {
        self.delta_delay_ms = millis(delay);
        self
    }

    /// Hangs after `deltas` deltas, with the connection open.
    pub fn hang_after(self, deltas: usize) -> Self {
        self.ending(Ending::HangAfter(deltas))
    }

    /// Drops the connection after `deltas` deltas.
    pub fn cut_after(self, deltas: usize) -> Self {
        self.ending(Ending::CutAfter(deltas))
    }

    /// Drops the connection after the headers.
    pub fn cut_at_once(self) -> Self {
        self.ending(Ending::CutAtOnce)
    }

    /// Ends with an error within the stream, after `deltas` deltas. The HTTP status is 200.
    pub fn error_after(
        mut self,
        deltas: usize,
        kind: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        self.error = Self::error(200, kind, message).error;
        self.ending(Ending::ErrorAfter(deltas))
    }

    /// Ends the stream with invalid JSON, after `deltas` deltas.
    pub fn garbage_after(self, deltas: usize) -> Self {
        self.ending(Ending::GarbageAfter(deltas))
    }

    /// Sets the style of the server's output, or a single deviation.
    pub fn manner(mut self, manner: impl Into<ServerStyle>) -> Self {
        self.manner = manner.into();
        self
    }

    /// Returns the stop reason to send: the override, or the one that follows from the blocks.
    pub(super) fn effective_stop_reason(&self) -> &str {
        match &self.stop_reason {
            Some(reason) => reason,
            None if self.blocks.iter().any(Block::is_call) => "tool_use",
            None => "end_turn",
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn one() -> usize {
    1
}

#[cfg(test)]
mod tests {
    use super::Usage;

    /// Returns all multisets of `calls` numbers from 1 to `from`.
    fn selections(calls: u64, from: u64) -> Vec<Vec<u64>> {
        if calls == 0 {
            return vec![Vec::new()];
        }
        let last = |n: u64, rest: Vec<u64>| rest.into_iter().chain([n]).collect();
        (1..=from)
            .flat_map(|n| {
                selections(calls - 1, n)
                    .into_iter()
                    .map(move |rest| last(n, rest))
            })
            .collect()
    }

    // Issue 15, point 12. Compares what every agent reports: the input including the cache, and the
    // output.
    #[test]
    fn no_call_compensates_for_another() {
        for calls in 1..=6 {
            let sum = |chosen: &Vec<u64>| {
                let counts = chosen.iter().map(|nth| Usage::of_nth(*nth));
                counts.fold((0, 0), |(input, output), of| {
                    (
                        input + of.input + of.cache_creation + of.cache_read,
                        output + of.output,
                    )
                })
            };
            let each_once: Vec<u64> = (1..=calls).collect();
            let same: Vec<_> = selections(calls, calls)
                .into_iter()
                .filter(|chosen| sum(chosen) == sum(&each_once))
                .collect();
            assert_eq!(same, [each_once]);
        }
    }
}
