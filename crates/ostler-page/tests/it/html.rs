//! HTML as a browser's parser sees it.

use std::cell::RefCell;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, StartTag, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

/// A start tag: its name and attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) attributes: Vec<(String, String)>,
}

impl Element {
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// What a text consists of.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    pub(crate) elements: Vec<Element>,
    pub(crate) text: String,
    pub(crate) comments: usize,
}

#[derive(Default)]
struct Sink(RefCell<Parsed>);

impl TokenSink for Sink {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut parsed = self.0.borrow_mut();
        match token {
            Token::TagToken(tag) if tag.kind == StartTag => {
                let attributes = tag.attrs.iter();
                let attributes =
                    attributes.map(|it| (it.name.local.to_string(), it.value.to_string()));
                parsed.elements.push(Element {
                    name: tag.name.to_string(),
                    attributes: attributes.collect(),
                });
            }
            Token::CharacterTokens(text) => parsed.text.push_str(&text),
            Token::CommentToken(_) | Token::DoctypeToken(_) => parsed.comments += 1,
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

/// Parses the content of an element.
pub(crate) fn parse(html: &str) -> Parsed {
    let tokenizer = Tokenizer::new(Sink::default(), TokenizerOpts::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(html));
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.0.into_inner()
}
