//! Tells text while it comes in, and holds back what may become a block of tool calls.

use super::read::first_place;

/// What of a reply was told already.
#[derive(Debug, Default)]
pub struct Gate {
    told: String,
    /// What may be the beginning of a block, or the white space at the end of the reply.
    held: String,
    shut: bool,
}

impl Gate {
    /// Takes a piece of the text, and gives what of it is certainly not a part of a block.
    pub fn pass(&mut self, piece: &str) -> Option<String> {
        if self.shut {
            return None;
        }
        self.held.push_str(piece);
        if self.told.is_empty() {
            self.held
                .drain(..self.held.len() - self.held.trim_start().len());
        }
        // What may be the beginning of a fence is held back; behind one, or behind a brace that begins a line, everything is.
        let begins = first_place(&self.held, self.told.is_empty());
        let end = begins.map_or(self.held.trim_end_matches(['`', '~']).len(), |(at, _)| at);
        self.shut = begins.is_some();
        let sure = self.held[..end].trim_end().len();
        let text: String = self.held.drain(..sure).collect();
        self.told.push_str(&text);
        Some(text).filter(|text| !text.is_empty())
    }

    /// What is left to tell, now that the words of the reply are known.
    #[must_use]
    pub fn rest<'a>(&self, content: &'a str) -> &'a str {
        content.strip_prefix(&*self.told).unwrap_or_default()
    }
}
