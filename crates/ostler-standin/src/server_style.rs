//! Variations of chat-completions servers: compatible servers differ, and clients must handle all.

use serde::Deserialize;

/// Style of a server. The default is that of OpenAI's own server.
///
/// A single deviation converts into a style: `answer.manner(Shape::WithoutId)`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerStyle {
    /// How tool calls are split into deltas.
    pub shape: Shape,
    /// The field that holds the reasoning.
    pub reasoning: Reasoning,
    /// Position of the token counts.
    pub tokens: Tokens,
    /// Format of the stream's lines, for every provider.
    pub framing: Framing,
    /// Whether the server honours `stream`, for every provider.
    pub delivery: Delivery,
}

/// How tool calls are split into deltas. P63.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// The index in every piece, id and name in the first, the arguments in two more pieces.
    #[default]
    Usual,
    /// No id at all.
    WithoutId,
    /// An id in the first piece, no index anywhere.
    WithoutIndex,
    /// Neither id nor index: each call in one piece.
    WithoutIdAndIndex,
    /// Index 0 for every call, with a distinct id in its first piece.
    CollidingIndex,
    /// Each call in one piece, including the arguments.
    OnePiece,
    /// All calls in one chunk.
    OneChunk,
    /// The calls in the chunk with the finish reason.
    WithTheEnd,
    /// The arguments one character at a time.
    ManyPieces,
    /// Empty arguments, whatever the script says.
    EmptyArguments,
    /// No arguments field, whatever the script says.
    NoArguments,
    /// The pieces of several calls interleaved.
    Interleaved,
    /// The id in every piece.
    IdRepeated,
    /// The name in every piece, and the id.
    NameRepeated,
    /// Id and name are empty strings after the first piece.
    BlankedAfterwards,
    /// The arguments are an object instead of a string.
    ObjectArguments,
}

/// Field that holds the reasoning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reasoning {
    /// `reasoning_content`
    #[default]
    Content,
    /// `reasoning`
    Plain,
    /// Both, with the same text.
    Both,
}

/// Position of the token counts in a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tokens {
    /// In a separate chunk without choices, if the request asks for it.
    #[default]
    AsAsked,
    /// Nowhere, not even in a whole message.
    Never,
    /// In every chunk: the count so far, and the total in the last.
    InEveryChunk,
    /// In the chunk with the finish reason.
    InTheLastChoice,
}

/// Format of the stream's lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    /// As specified.
    #[default]
    Usual,
    /// A comment before each event.
    Comments,
    /// Lines end with carriage return and line feed.
    CrLf,
    /// The bytes arrive a few at a time, cut within characters.
    Torn,
    /// No final `[DONE]`.
    WithoutDone,
}

/// Whether the server honours `stream`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// As requested.
    #[default]
    AsAsked,
    /// One JSON message, even if a stream was requested.
    AlwaysWhole,
}

/// Converts each single deviation into a style.
macro_rules! single_deviations {
    ($($field:ident: $deviation:ty),*) => {$(
        impl From<$deviation> for ServerStyle {
            fn from($field: $deviation) -> Self {
                Self { $field, ..Self::default() }
            }
        }
    )*};
}

single_deviations!(
    shape: Shape,
    reasoning: Reasoning,
    tokens: Tokens,
    framing: Framing,
    delivery: Delivery
);
