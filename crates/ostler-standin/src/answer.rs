//! What the scripted model says: blocks, an error, or a misbehaviour, in words no provider's wire format owns.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::server_style::Manner;

/// One answer of the model. Build it with [`Answer::text`], [`Answer::tool`], [`Answer::error`], [`Answer::hang`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Answer {
    /// The content, in order.
    pub blocks: Vec<Block>,
    /// Sent instead of content; with [`Ending::ErrorAfter`], within the stream.
    pub error: Option<Failure>,
    /// Overrides the stop reason that follows from the blocks (`tool_use` or `end_turn`).
    pub stop_reason: Option<String>,
    /// The token counts reported; without them, those of [`Usage::of_nth`].
    pub usage: Option<Usage>,
    /// How long the server waits before the first byte.
    pub delay_ms: u64,
    /// How long the server waits before each delta.
    pub delta_delay_ms: u64,
    /// How the answer ends.
    pub ending: Ending,
    /// How the server writes it down.
    pub manner: Manner,
}

/// One content block.
///
/// In text and thinking, `{user_text}` and `{tool_result}` stand for what the request said last.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Block {
    /// Words to the user.
    Text {
        /// The whole text.
        text: String,
        /// Into how many deltas it is cut when streamed.
        #[serde(default = "one")]
        deltas: usize,
    },
    /// Words to itself; streamed with a signature.
    Thinking {
        /// The whole thought.
        thinking: String,
        /// Into how many deltas it is cut when streamed.
        #[serde(default = "one")]
        deltas: usize,
    },
    /// A call of a tool; its id is made up, unique.
    ToolUse {
        /// The tool's name.
        name: String,
        /// Its arguments. In chat completions, a string is sent as it is, also when it is no JSON.
        input: Value,
    },
}

/// An error answer of the provider.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The HTTP status.
    pub status: u16,
    /// The provider's name for it, e.g. `authentication_error`.
    pub kind: String,
    /// The provider's sentence.
    pub message: String,
    /// The provider's code for it, where it has codes besides names, e.g. `model_not_found`.
    #[serde(default)]
    pub code: Option<String>,
    /// Sent as it is, instead of what the provider would write: the page of a proxy, say.
    #[serde(default)]
    pub body: Option<String>,
    /// Extra response headers, e.g. `retry-after`.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
}

/// The token counts of one answer.
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
    /// The part of the output that was thinking, for providers that tell.
    pub reasoning: u64,
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// As it should.
    #[default]
    Complete,
    /// The request is taken and nothing is ever sent back, not even a status.
    Silent,
    /// After this many deltas nothing more comes (0: the headers and the start of the message come).
    HangAfter(usize),
    /// After this many deltas the connection is dropped.
    CutAfter(usize),
    /// After the headers the connection is dropped.
    CutAtOnce,
    /// After this many deltas the answer's error comes, within a stream that began well.
    ErrorAfter(usize),
    /// After this many deltas a line comes that is no JSON, and the stream ends.
    GarbageAfter(usize),
}

impl Default for Usage {
    fn default() -> Self {
        Self::of_nth(1)
    }
}

impl Usage {
    /// The counts of an answer to a call that is not part of the script, such as one for a title.
    pub(super) const ASIDE: Self = Self {
        input: 5000,
        cache_creation: 300,
        cache_read: 400,
        output: 700,
        reasoning: 50,
    };

    /// The counts of the nth answer of a server, from 1. Each answer has its own, and they grow by a different power of `nth`:
    /// a call that is counted twice is not made up for by one that is dropped.
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
}

impl Answer {
    /// One text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::default().and_text(text)
    }

    /// One tool call.
    #[must_use]
    pub fn tool(name: impl Into<String>, input: Value) -> Self {
        Self::default().and_tool(name, input)
    }

    /// A thought; add words with [`Answer::and_text`].
    #[must_use]
    pub fn thinking(thinking: impl Into<String>) -> Self {
        let block = Block::Thinking {
            thinking: thinking.into(),
            deltas: 1,
        };
        Self {
            blocks: vec![block],
            ..Self::default()
        }
    }

    /// An error of the provider, e.g. `(401, "authentication_error", "invalid x-api-key")`.
    #[must_use]
    pub fn error(status: u16, kind: impl Into<String>, message: impl Into<String>) -> Self {
        let (kind, message) = (kind.into(), message.into());
        let failure = Failure {
            status,
            kind,
            message,
            code: None,
            body: None,
            headers: Vec::new(),
        };
        Self {
            error: Some(failure),
            ..Self::default()
        }
    }

    /// Takes the request and never sends a byte.
    #[must_use]
    pub fn hang() -> Self {
        Self {
            ending: Ending::Silent,
            ..Self::default()
        }
    }

    /// Adds a text block.
    #[must_use]
    pub fn and_text(mut self, text: impl Into<String>) -> Self {
        self.blocks.push(Block::Text {
            text: text.into(),
            deltas: 1,
        });
        self
    }

    /// Adds a tool call.
    #[must_use]
    pub fn and_tool(mut self, name: impl Into<String>, input: Value) -> Self {
        self.blocks.push(Block::ToolUse {
            name: name.into(),
            input,
        });
        self
    }

    /// Cuts the text or thinking block added last into `count` deltas.
    #[must_use]
    pub fn deltas(mut self, count: usize) -> Self {
        if let Some(Block::Text { deltas, .. } | Block::Thinking { deltas, .. }) =
            self.blocks.last_mut()
        {
            *deltas = count;
        }
        self
    }

    /// Adds a response header to an error answer.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Some(failure) = &mut self.error {
            failure.headers.push((name.into(), value.into()));
        }
        self
    }

    /// Gives an error answer a code.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        if let Some(failure) = &mut self.error {
            failure.code = Some(code.into());
        }
        self
    }

    /// Gives an error answer a body that is not the provider's.
    #[must_use]
    pub fn body(mut self, body: impl Into<String>) -> Self {
        if let Some(failure) = &mut self.error {
            failure.body = Some(body.into());
        }
        self
    }

    /// Overrides the stop reason, e.g. `refusal` or `max_tokens`.
    #[must_use]
    pub fn stop_reason(mut self, reason: impl Into<String>) -> Self {
        self.stop_reason = Some(reason.into());
        self
    }

    /// Sets the token counts.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// The token counts that are sent.
    pub(super) fn counts(&self) -> Usage {
        self.usage.unwrap_or_default()
    }

    /// Waits before the first byte.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay_ms = millis(delay);
        self
    }

    /// Waits before each delta.
    #[must_use]
    pub fn delta_delay(mut self, delay: Duration) -> Self {
        self.delta_delay_ms = millis(delay);
        self
    }

    /// Stops talking after `deltas` deltas but keeps the connection open.
    #[must_use]
    pub fn hang_after(mut self, deltas: usize) -> Self {
        self.ending = Ending::HangAfter(deltas);
        self
    }

    /// Drops the connection after `deltas` deltas.
    #[must_use]
    pub fn cut_after(mut self, deltas: usize) -> Self {
        self.ending = Ending::CutAfter(deltas);
        self
    }

    /// Drops the connection after the headers.
    #[must_use]
    pub fn cut_at_once(mut self) -> Self {
        self.ending = Ending::CutAtOnce;
        self
    }

    /// Breaks off with an error within the stream, after `deltas` deltas; the HTTP status is a good one.
    #[must_use]
    pub fn error_after(
        mut self,
        deltas: usize,
        kind: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        self.error = Self::error(200, kind, message).error;
        self.ending = Ending::ErrorAfter(deltas);
        self
    }

    /// Ends the stream with a line that is no JSON, after `deltas` deltas.
    #[must_use]
    pub fn garbage_after(mut self, deltas: usize) -> Self {
        self.ending = Ending::GarbageAfter(deltas);
        self
    }

    /// Sets how the server writes it down; one habit is a manner by itself.
    #[must_use]
    pub fn manner(mut self, manner: impl Into<Manner>) -> Self {
        self.manner = manner.into();
        self
    }

    /// The stop reason sent: the override, or what follows from the blocks.
    pub(super) fn effective_stop_reason(&self) -> &str {
        let calls_tool = self
            .blocks
            .iter()
            .any(|block| matches!(block, Block::ToolUse { .. }));
        match &self.stop_reason {
            Some(reason) => reason,
            None if calls_tool => "tool_use",
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

    /// Every way to count `calls` of the first `calls` answers, each as often as one likes.
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

    // Issue 15, point 12. What an agent reports at the least: the input without the cache apart, and the output.
    #[test]
    fn no_call_makes_up_for_another() {
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
