//! How a chat-completions server writes an answer down: compatible servers differ, and clients have to cope.

use serde::Deserialize;

/// The habits of one server. The default is what OpenAI's own does.
///
/// One habit is a manner by itself: `answer.manner(Shape::WithoutId)`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Manner {
    /// How tool calls are cut into deltas.
    pub shape: Shape,
    /// The field that thinking comes in.
    pub reasoning: Reasoning,
    /// Where the token counts are.
    pub tokens: Tokens,
    /// How the lines of the stream look; also for the other provider.
    pub framing: Framing,
    /// Whether the server heeds `stream`; also for the other provider.
    pub delivery: Delivery,
}

/// How tool calls are cut into deltas. P63.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Index in every piece, id and name in the first, arguments in two pieces after it.
    #[default]
    Usual,
    /// No id at all.
    WithoutId,
    /// An id in the first piece, no index anywhere.
    WithoutIndex,
    /// Neither id nor index: each call in one piece.
    WithoutIdAndIndex,
    /// Every call has index 0, and an id of its own in its first piece.
    CollidingIndex,
    /// Each call in one piece, arguments and all.
    OnePiece,
    /// All calls in one chunk.
    OneChunk,
    /// The calls come in the chunk that carries the finish reason.
    WithTheEnd,
    /// The arguments one character at a time.
    ManyPieces,
    /// The arguments are the empty string, whatever the script says.
    EmptyArguments,
    /// There is no field for arguments, whatever the script says.
    NoArguments,
    /// The pieces of several calls take turns.
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

/// The field that thinking comes in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reasoning {
    /// `reasoning_content`
    #[default]
    Content,
    /// `reasoning`
    Plain,
    /// Both, with the same words.
    Both,
}

/// Where the token counts of a stream are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tokens {
    /// In a chunk of their own without choices, when the request asks for it.
    #[default]
    AsAsked,
    /// Nowhere, nor in a whole message.
    Never,
    /// In every chunk: what was counted so far, and all of it in the last.
    InEveryChunk,
    /// In the chunk that carries the finish reason.
    InTheLastChoice,
}

/// How the lines of the stream look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    /// As they should.
    #[default]
    Usual,
    /// A comment before each event.
    Comments,
    /// Lines end with carriage return and line feed.
    CrLf,
    /// The bytes arrive a few at a time, cut where it hurts.
    Torn,
    /// `[DONE]` never comes.
    WithoutDone,
}

/// Whether the server heeds `stream`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// It does.
    #[default]
    AsAsked,
    /// The answer is one JSON message also when a stream was asked for.
    AlwaysWhole,
}

impl From<Shape> for Manner {
    fn from(shape: Shape) -> Self {
        Self {
            shape,
            ..Self::default()
        }
    }
}

impl From<Reasoning> for Manner {
    fn from(reasoning: Reasoning) -> Self {
        Self {
            reasoning,
            ..Self::default()
        }
    }
}

impl From<Tokens> for Manner {
    fn from(tokens: Tokens) -> Self {
        Self {
            tokens,
            ..Self::default()
        }
    }
}

impl From<Framing> for Manner {
    fn from(framing: Framing) -> Self {
        Self {
            framing,
            ..Self::default()
        }
    }
}

impl From<Delivery> for Manner {
    fn from(delivery: Delivery) -> Self {
        Self {
            delivery,
            ..Self::default()
        }
    }
}
