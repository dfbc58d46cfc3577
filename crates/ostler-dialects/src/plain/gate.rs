//! Tells text while it comes in, and holds back what may become a block of tool calls.

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
            self.held.drain(..self.held.len() - self.held.trim_start().len());
        }
        // A reply that begins with a brace may be nothing but calls.
        let end = match self.held.find("```") {
            _ if self.told.is_empty() && self.held.starts_with('{') => 0,
            Some(fence) => fence,
            None => self.held.len() - trailing(&self.held, '`'),
        };
        self.shut =
            end < self.held.len() && !self.held[end..].chars().all(|c| c == '`') || self.held[end..].starts_with("```");
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

fn trailing(text: &str, c: char) -> usize {
    text.len() - text.trim_end_matches(c).len()
}
