//! A text as it is, for a program that writes it back: nothing is cut, and what is too much is refused.

use std::io::BufReader;

use super::hard_links::Twins;
use super::limits::WRITE_BYTES;
use super::open::{binary, open_at, read_text};
use super::read_file::{Lines, check_head};
use super::resolve::{Links, Place};
use super::root::Root;
use super::rules::Access;
use crate::{Code, ToolError};

/// Which lines are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// The first one, counted from 1.
    pub line: Option<u64>,
    /// How many.
    pub limit: Option<u64>,
}

/// Reads a file, or some of its lines; past its end there are none.
pub(crate) fn read(root: &Root, path: &str, span: Span) -> Result<String, ToolError> {
    let given = root.given(path, Access::Read)?;
    let place = root.place(&given, Links::Follow)?;
    let (mut file, _) = open_at(root, &place, &Twins::default())?;
    if span == Span::default() {
        return read_text(&mut file, WRITE_BYTES, &place);
    }
    check_head(&mut file, &place)?;
    let mut lines = Lines::new(BufReader::new(file), &place);
    for _ in 1..span.line.unwrap_or(1) {
        if !lines.skip()? {
            return Ok(String::new());
        }
    }
    let mut text = Vec::new();
    for _ in 0..span.limit.unwrap_or(u64::MAX) {
        let room = usize::try_from(WRITE_BYTES).unwrap_or(usize::MAX);
        let before = text.len();
        match lines.pass(room, &mut text)? {
            Some(bytes) if text.len() - before < bytes => return Err(too_much(&place)),
            Some(_) => {}
            None => break,
        }
    }
    String::from_utf8(text).map_err(|_| binary(&place))
}

fn too_much(place: &Place) -> ToolError {
    place.error(
        Code::TooLarge,
        &format!("has more than {WRITE_BYTES} bytes in those lines: ask for fewer"),
    )
}
