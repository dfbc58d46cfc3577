//! Shared parts of the wire formats: stream frames, and the functions that each format provides.

use std::fmt::Display;

use serde_json::{Value, json};

use super::answer::{Answer, Failure};
use super::request::Request;

/// Wire format of a provider.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wire {
    /// Renders the answer as a stream.
    pub(super) stream: fn(&Answer, &Request) -> Vec<Frame>,
    /// Renders the answer as one message.
    pub(super) whole: fn(&Answer, &Request) -> Value,
    /// Renders the body of an error response.
    pub(super) error: fn(&Failure) -> Value,
    /// Renders an error within a stream.
    pub(super) error_frame: fn(&Failure) -> Frame,
}

/// One server-sent event, and whether it counts as a delta for delays, hangs and cuts.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) text: String,
    pub(super) is_delta: bool,
}

impl Frame {
    /// Returns a frame without an event name.
    pub(super) fn data(data: impl Display) -> Self {
        Self {
            text: format!("data: {data}\n\n"),
            is_delta: false,
        }
    }

    /// Returns a frame with an event name, which is also the type of its data.
    pub(super) fn event(name: &str, mut data: Value) -> Self {
        data["type"] = json!(name);
        Self {
            text: format!("event: {name}\ndata: {data}\n\n"),
            is_delta: false,
        }
    }

    /// Marks the frame as a delta.
    pub(super) fn delta(self) -> Self {
        Self {
            is_delta: true,
            ..self
        }
    }
}

/// Cuts a text into `count` pieces of about the same length, or fewer if the text is shorter.
pub(super) fn cut(text: &str, count: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let size = characters.len().div_ceil(count.max(1)).max(1);
    characters
        .chunks(size)
        .map(|piece| piece.iter().collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(cut("äöü", 2), ["äö", "ü"]);
        assert_eq!(cut("a", 5), ["a"]);
        assert!(cut("", 3).is_empty());
    }
}
