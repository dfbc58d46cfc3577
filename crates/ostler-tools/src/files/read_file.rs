//! `read_file`: a text file or some of its lines, never more than a model can take.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Seek};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Answer;
use super::cut::marked;
use super::hard_links::Twins;
use super::limits::{HEAD_BYTES, LINE_CHARS, READ_BYTES, READ_LINES, SCAN_BYTES};
use super::open::{binary, open_at};
use super::resolve::{Links, Place};
use super::root::Root;
use super::rules::Access;
use crate::{Code, ToolError};

/// What to read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadFile {
    /// The file, relative to the workspace.
    path: String,
    /// The first line to give, counted from 1.
    offset: Option<u64>,
    /// How many lines to give.
    limit: Option<u64>,
    /// Whether to put its number before each line.
    line_numbers: Option<bool>,
}

/// What was read.
#[derive(Debug, Serialize)]
pub(crate) struct Read {
    path: String,
    content: String,
    /// The number of the first line of the content.
    first_line: u64,
    lines: u64,
    /// How many lines the file has, if its end was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_lines: Option<u64>,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl Answer for Read {
    fn text(&self) -> String {
        match &self.note {
            None if self.content.is_empty() => "(the file is empty)".to_owned(),
            None => self.content.clone(),
            Some(note) => {
                let end = if self.content.is_empty() || self.content.ends_with('\n') {
                    ""
                } else {
                    "\n"
                };
                format!("{}{end}[{note}]", self.content)
            }
        }
    }
}

/// Reads.
pub(crate) fn run(root: &Root, args: &ReadFile) -> Result<Read, ToolError> {
    for (name, number) in [("offset", args.offset), ("limit", args.limit)] {
        if number == Some(0) {
            return Err(ToolError::new(
                Code::BadArguments,
                format!("`{name}` must be 1 or more: lines count from 1"),
            ));
        }
    }
    let given = root.given(&args.path, Access::Read)?;
    let place = root.place(&given, Links::Follow)?;
    let (mut file, about) = open_at(root, &place, &Twins::default())?;
    let size = about.len();
    check_head(&mut file, &place)?;
    if args.offset.is_none() && args.limit.is_none() && size > READ_BYTES {
        let says = format!(
            "has {size} bytes, more than the {READ_BYTES} of one read: read a part of it with `offset` and `limit` \
             (lines), or look for what you need with search_files"
        );
        return Err(place.error(Code::TooLarge, &says));
    }
    let first_line = args.offset.unwrap_or(1);
    let mut lines = Lines::new(BufReader::new(file), &place);
    for skipped in 1..first_line {
        if !lines.skip()? {
            return Err(past_the_end(&place, skipped - 1));
        }
    }
    let mut read = collect(&mut lines, args, first_line)?;
    if read.lines == 0 && first_line > 1 {
        return Err(past_the_end(&place, first_line - 1));
    }
    read.size = size;
    Ok(read)
}

fn past_the_end(place: &Place, lines: u64) -> ToolError {
    place.error(
        Code::BadArguments,
        &format!("has only {lines} lines: give a smaller `offset`"),
    )
}

/// A file that is no text is told from the beginning of it.
pub(super) fn check_head(file: &mut File, place: &Place) -> Result<(), ToolError> {
    let mut head = Vec::new();
    let read = (&*file)
        .take(HEAD_BYTES)
        .read_to_end(&mut head)
        .and_then(|_| file.rewind());
    read.map_err(|error| place.told(&error))?;
    if head.contains(&0) {
        Err(binary(place))
    } else {
        Ok(())
    }
}

fn collect(lines: &mut Lines<'_>, args: &ReadFile, first_line: u64) -> Result<Read, ToolError> {
    let most = args.limit.unwrap_or(READ_LINES);
    let mut read = Read {
        path: lines.place.real.to_string_lossy().into_owned(),
        content: String::new(),
        first_line,
        lines: 0,
        total_lines: None,
        size: 0,
        note: None,
    };
    while read.lines < most {
        let Some(line) = lines.next()? else {
            read.total_lines = Some(first_line - 1 + read.lines);
            return Ok(read);
        };
        if read.lines > 0 && (read.content.len() + line.len()) as u64 > READ_BYTES {
            read.note = Some(goes_on(&read));
            return Ok(read);
        }
        if args.line_numbers == Some(true) {
            read.content
                .push_str(&format!("{:>6}\t", first_line + read.lines));
        }
        read.content.push_str(&line);
        read.lines += 1;
    }
    if lines.is_at_end()? {
        read.total_lines = Some(first_line - 1 + read.lines);
    } else {
        read.note = Some(goes_on(&read));
    }
    Ok(read)
}

fn goes_on(read: &Read) -> String {
    let next = read.first_line + read.lines;
    format!(
        "lines {} to {}; the file goes on: read on with offset {next}",
        read.first_line,
        next - 1
    )
}

/// The lines of a file, one after the other; no more of one is held than is shown.
pub(super) struct Lines<'p> {
    from: BufReader<File>,
    place: &'p Place,
    seen: u64,
}

impl<'p> Lines<'p> {
    pub(super) fn new(from: BufReader<File>, place: &'p Place) -> Self {
        Self {
            from,
            place,
            seen: 0,
        }
    }

    /// The next line with its end, cut if it is long.
    fn next(&mut self) -> Result<Option<String>, ToolError> {
        // Enough for the characters that are shown, whatever their size, and for one that is cut through.
        let mut kept = Vec::new();
        let Some(bytes) = self.pass(LINE_CHARS * 4 + 4, &mut kept)? else {
            return Ok(None);
        };
        let is_whole = bytes == kept.len();
        let text = match std::str::from_utf8(&kept) {
            Ok(text) => text,
            // A character may be cut through where we stopped to keep; anywhere else this is no text.
            Err(error) if !is_whole && error.error_len().is_none() => {
                std::str::from_utf8(&kept[..error.valid_up_to()]).unwrap_or_default()
            }
            Err(_) => return Err(binary(self.place)),
        };
        let body = text.trim_end_matches(['\r', '\n']);
        match body.char_indices().nth(LINE_CHARS) {
            None if is_whole => Ok(Some(text.to_owned())),
            None => Ok(Some(marked(body, bytes - body.len()) + "\n")),
            Some((at, _)) => Ok(Some(marked(&body[..at], bytes - at) + "\n")),
        }
    }

    /// Goes past a line; false at the end of the file.
    pub(super) fn skip(&mut self) -> Result<bool, ToolError> {
        Ok(self.pass(0, &mut Vec::new())?.is_some())
    }

    fn is_at_end(&mut self) -> Result<bool, ToolError> {
        let rest = self
            .from
            .fill_buf()
            .map_err(|error| self.place.told(&error))?;
        Ok(rest.is_empty())
    }

    /// Goes past a line, keeps its beginning while no more than `most` is kept, and says how long it was.
    pub(super) fn pass(
        &mut self,
        most: usize,
        kept: &mut Vec<u8>,
    ) -> Result<Option<usize>, ToolError> {
        let mut bytes = 0;
        loop {
            let buffer = self
                .from
                .fill_buf()
                .map_err(|error| self.place.told(&error))?;
            if buffer.is_empty() {
                return Ok((bytes > 0).then_some(bytes));
            }
            let end = buffer
                .iter()
                .position(|byte| *byte == b'\n')
                .map(|at| at + 1);
            let taken = end.unwrap_or(buffer.len());
            let room = most.saturating_sub(kept.len()).min(taken);
            kept.extend_from_slice(&buffer[..room]);
            self.from.consume(taken);
            bytes += taken;
            self.seen += taken as u64;
            if self.seen > SCAN_BYTES {
                let says = format!(
                    "is too large to be read as far as that: no more than {SCAN_BYTES} bytes are"
                );
                return Err(self.place.error(Code::TooLarge, &says));
            }
            if end.is_some() {
                return Ok(Some(bytes));
            }
        }
    }
}
