//! Untruncated text, for a program that writes it back. A text that is too large is refused.

use std::io::BufReader;

use super::hard_links::DeniedHardLinks;
use super::limits::WRITE_BYTES;
use super::open::{binary, open_at, read_text};
use super::read_file::{LineReader, check_head};
use super::resolve::{LinkMode, ResolvedPath};
use super::root::Root;
use super::rules::Access;
use crate::{Code, ToolError};

/// A range of lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// First line, counted from 1.
    pub line: Option<u64>,
    /// Number of lines.
    pub limit: Option<u64>,
}

/// Reads a file or some of its lines; empty past the end of the file.
pub(crate) fn read(root: &Root, path: &str, span: Span) -> Result<String, ToolError> {
    let given = root.parse_path(path, Access::Read)?;
    let resolved = root.resolve(&given, LinkMode::Follow)?;
    let (mut file, _) = open_at(root, &resolved, &DeniedHardLinks::default())?;
    if span == Span::default() {
        return read_text(&mut file, WRITE_BYTES, &resolved);
    }
    check_head(&mut file, &resolved)?;
    let mut lines = LineReader::new(BufReader::new(file), &resolved);
    for _ in 1..span.line.unwrap_or(1) {
        if !lines.skip_line()? {
            return Ok(String::new());
        }
    }
    let mut text = Vec::new();
    for _ in 0..span.limit.unwrap_or(u64::MAX) {
        let room = usize::try_from(WRITE_BYTES).unwrap_or(usize::MAX);
        let before = text.len();
        match lines.consume_line(room, &mut text)? {
            Some(bytes) if text.len() - before < bytes => return Err(too_much(&resolved)),
            Some(_) => {}
            None => break,
        }
    }
    String::from_utf8(text).map_err(|_| binary(&resolved))
}

fn too_much(resolved: &ResolvedPath) -> ToolError {
    resolved.error(
        Code::TooLarge,
        &format!("has more than {WRITE_BYTES} bytes in those lines: ask for fewer"),
    )
}
