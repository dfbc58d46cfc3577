//! `read_file`: reads a text file or some of its lines, up to a fixed limit.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Seek};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Render;
use super::hard_links::DeniedHardLinks;
use super::limits::{HEAD_BYTES, LINE_CHARS, READ_BYTES, READ_LINES, SCAN_BYTES};
use super::open::{binary, open_at};
use super::resolve::{LinkMode, ResolvedPath};
use super::root::Root;
use super::rules::Access;
use super::truncate::with_marker;
use crate::{Code, ToolError};

/// Arguments of `read_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadFile {
    /// The file, relative to the workspace.
    path: String,
    /// The first line to return, counted from 1.
    offset: Option<u64>,
    /// The number of lines to return.
    limit: Option<u64>,
    /// Whether to prefix each line with its number.
    line_numbers: Option<bool>,
}

/// Result of `read_file`.
#[derive(Debug, Serialize)]
pub(crate) struct ReadResult {
    path: String,
    content: String,
    /// Number of the first line of the content.
    first_line: u64,
    lines: u64,
    /// Number of lines in the file, if its end was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_lines: Option<u64>,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl Render for ReadResult {
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

/// Reads the file.
pub(crate) fn run(root: &Root, args: &ReadFile) -> Result<ReadResult, ToolError> {
    for (name, number) in [("offset", args.offset), ("limit", args.limit)] {
        if number == Some(0) {
            return Err(ToolError::bad_arguments(format!(
                "`{name}` must be 1 or more: lines count from 1"
            )));
        }
    }
    let given = root.parse_path(&args.path, Access::Read)?;
    let resolved = root.resolve(&given, LinkMode::Follow)?;
    let (mut file, metadata) = open_at(root, &resolved, &DeniedHardLinks::default())?;
    let size = metadata.len();
    check_head(&mut file, &resolved)?;
    if args.offset.is_none() && args.limit.is_none() && size > READ_BYTES {
        let message = format!(
            "has {size} bytes, more than the {READ_BYTES} of one read: read a part with `offset` \
             and `limit` (lines), or find what you need with search_files"
        );
        return Err(resolved.error(Code::TooLarge, &message));
    }
    let first_line = args.offset.unwrap_or(1);
    let mut lines = LineReader::new(BufReader::new(file), &resolved);
    for skipped in 1..first_line {
        if !lines.skip_line()? {
            return Err(past_the_end(&resolved, skipped - 1));
        }
    }
    let mut read = collect(&mut lines, args, first_line)?;
    if read.lines == 0 && first_line > 1 {
        return Err(past_the_end(&resolved, first_line - 1));
    }
    read.size = size;
    Ok(read)
}

fn past_the_end(resolved: &ResolvedPath, lines: u64) -> ToolError {
    resolved.error(
        Code::BadArguments,
        &format!("has only {lines} lines: give a smaller `offset`"),
    )
}

/// Refuses a file whose beginning shows that it is not text.
pub(super) fn check_head(file: &mut File, resolved: &ResolvedPath) -> Result<(), ToolError> {
    let mut head = Vec::new();
    let read = (&*file)
        .take(HEAD_BYTES)
        .read_to_end(&mut head)
        .and_then(|_| file.rewind());
    read.map_err(|error| resolved.io_error(&error))?;
    if head.contains(&0) {
        Err(binary(resolved))
    } else {
        Ok(())
    }
}

fn collect(
    lines: &mut LineReader<'_>,
    args: &ReadFile,
    first_line: u64,
) -> Result<ReadResult, ToolError> {
    let max = args.limit.unwrap_or(READ_LINES);
    let mut read = ReadResult {
        path: lines.resolved.real.to_string_lossy().into_owned(),
        content: String::new(),
        first_line,
        lines: 0,
        total_lines: None,
        size: 0,
        note: None,
    };
    while read.lines < max {
        let Some(line) = lines.next_line()? else {
            read.total_lines = Some(first_line - 1 + read.lines);
            return Ok(read);
        };
        if read.lines > 0 && (read.content.len() + line.len()) as u64 > READ_BYTES {
            read.note = Some(more_follows(&read));
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
        read.note = Some(more_follows(&read));
    }
    Ok(read)
}

fn more_follows(read: &ReadResult) -> String {
    let next_line = read.first_line + read.lines;
    format!(
        "lines {} to {}; there is more: continue with offset {next_line}",
        read.first_line,
        next_line - 1
    )
}

/// Reader of a file's lines, one after the other. Holds no more of a line than is shown.
pub(super) struct LineReader<'p> {
    reader: BufReader<File>,
    resolved: &'p ResolvedPath,
    seen: u64,
}

impl<'p> LineReader<'p> {
    pub(super) fn new(reader: BufReader<File>, resolved: &'p ResolvedPath) -> Self {
        Self {
            reader,
            resolved,
            seen: 0,
        }
    }

    /// Returns the next line with its line ending, truncated if it is long.
    fn next_line(&mut self) -> Result<Option<String>, ToolError> {
        // Enough for the characters that are shown, whatever their size, and for one that is split.
        let mut start = Vec::new();
        let Some(bytes) = self.consume_line(LINE_CHARS * 4 + 4, &mut start)? else {
            return Ok(None);
        };
        let is_whole = bytes == start.len();
        let text = match std::str::from_utf8(&start) {
            Ok(text) => text,
            // A character may be split at the point of truncation; anywhere else, invalid UTF-8
            // means binary.
            Err(error) if !is_whole && error.error_len().is_none() => {
                std::str::from_utf8(&start[..error.valid_up_to()]).unwrap_or_default()
            }
            Err(_) => return Err(binary(self.resolved)),
        };
        let body = text.trim_end_matches(['\r', '\n']);
        match body.char_indices().nth(LINE_CHARS) {
            None if is_whole => Ok(Some(text.to_owned())),
            None => Ok(Some(with_marker(body, bytes - body.len()) + "\n")),
            Some((at, _)) => Ok(Some(with_marker(&body[..at], bytes - at) + "\n")),
        }
    }

    /// Skips a line; returns false at the end of the file.
    pub(super) fn skip_line(&mut self) -> Result<bool, ToolError> {
        Ok(self.consume_line(0, &mut Vec::new())?.is_some())
    }

    fn is_at_end(&mut self) -> Result<bool, ToolError> {
        let rest = self
            .reader
            .fill_buf()
            .map_err(|error| self.resolved.io_error(&error))?;
        Ok(rest.is_empty())
    }

    /// Consumes a line, appends its beginning until `start` holds `max` bytes, and returns its full
    /// length.
    pub(super) fn consume_line(
        &mut self,
        max: usize,
        start: &mut Vec<u8>,
    ) -> Result<Option<usize>, ToolError> {
        let mut bytes = 0;
        loop {
            let buffer = self
                .reader
                .fill_buf()
                .map_err(|error| self.resolved.io_error(&error))?;
            if buffer.is_empty() {
                return Ok((bytes > 0).then_some(bytes));
            }
            let end = buffer
                .iter()
                .position(|byte| *byte == b'\n')
                .map(|at| at + 1);
            let taken = end.unwrap_or(buffer.len());
            let room = max.saturating_sub(start.len()).min(taken);
            start.extend_from_slice(&buffer[..room]);
            self.reader.consume(taken);
            bytes += taken;
            self.seen += taken as u64;
            if self.seen > SCAN_BYTES {
                let message = format!(
                    "is too large to read that far: at most {SCAN_BYTES} bytes are scanned"
                );
                return Err(self.resolved.error(Code::TooLarge, &message));
            }
            if end.is_some() {
                return Ok(Some(bytes));
            }
        }
    }
}
