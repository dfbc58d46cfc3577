//! Streams a reply's text as it arrives, holding back anything that may become a block of tool
//! calls.

use super::read::find_block_start;

/// Streaming state of one reply.
#[derive(Debug, Default)]
pub struct Gate {
    passed: String,
    /// Possible start of a block, or trailing whitespace.
    held: String,
    shut: bool,
}

impl Gate {
    /// Adds a piece of text and returns the part that is certainly not in a block.
    pub fn pass(&mut self, piece: &str) -> Option<String> {
        if self.shut {
            return None;
        }
        self.held.push_str(piece);
        if self.passed.is_empty() {
            self.held
                .drain(..self.held.len() - self.held.trim_start().len());
        }
        // A possible start of a fence is held back. After a fence, or a brace at the start of a
        // line, everything is.
        let begins = find_block_start(&self.held, self.passed.is_empty());
        let end = begins.map_or(self.held.trim_end_matches(['`', '~']).len(), |(at, _)| at);
        self.shut = begins.is_some();
        let sure = self.held[..end].trim_end().len();
        let text: String = self.held.drain(..sure).collect();
        self.passed.push_str(&text);
        Some(text).filter(|text| !text.is_empty())
    }

    /// Returns the text that has not been passed yet, given the final content of the reply.
    #[must_use]
    pub fn rest<'a>(&self, content: &'a str) -> &'a str {
        content.strip_prefix(&*self.passed).unwrap_or_default()
    }
}
