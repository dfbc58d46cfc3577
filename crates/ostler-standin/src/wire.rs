//! What the wire formats have in common: frames of a stream, and the few things that each format can write.

use serde_json::Value;

use super::answer::{Answer, Failure};
use super::request::Request;

/// How one provider writes answers down.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wire {
    /// The answer as a stream.
    pub(super) stream: fn(&Answer, &Request) -> Vec<Frame>,
    /// The answer as one message.
    pub(super) whole: fn(&Answer, &Request) -> Value,
    /// The body of an error answer.
    pub(super) error: fn(&Failure) -> Value,
    /// An error that comes within a stream.
    pub(super) error_frame: fn(&Failure) -> Frame,
}

/// One server-sent event, and whether it counts as a delta for delays, hangs and cuts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) text: String,
    pub(super) is_delta: bool,
}

impl Frame {
    /// A frame with nothing but data.
    pub(super) fn data(data: &str) -> Self {
        Self {
            text: format!("data: {data}\n\n"),
            is_delta: false,
        }
    }
}

/// A text of the script with its placeholders filled in.
pub(super) fn filled(text: &str, request: &Request) -> String {
    let results = request.last_tool_results();
    let result = results
        .last()
        .map(|result| result.text.as_str())
        .unwrap_or_default();
    text.replace("{tool_result}", result)
        .replace("{user_text}", &request.last_user_text())
}

/// `count` pieces of about the same number of characters; fewer when the text is shorter than that.
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
