//! Prompts and instructions: as text, or in a file beside the case.

use super::LoadContext;
use super::files::{FileError, MAX_PATH, read_below};
use super::section::{Findings, Section};
use super::tree::ProblemCode;

/// Maximum length of a prompt, in characters.
pub(crate) const MAX_PROMPT: usize = 1_000_000;

/// Maximum size of a file with a prompt, in bytes: a character has at most four.
const MAX_PROMPT_FILE: u64 = 4 * MAX_PROMPT as u64;

/// Reads `<key>` or `<key>_file`. Both are an error; `None` if there is neither.
pub(crate) fn text_or_file(
    section: &Section<'_>,
    key: &str,
    context: &LoadContext<'_>,
    findings: &mut Findings,
) -> Option<String> {
    let file_key = format!("{key}_file");
    if section.exclusive(key, &file_key, findings) {
        return None;
    }
    if section.has(key) {
        return section.bounded(key, MAX_PROMPT, findings);
    }
    let path = section.bounded(&file_key, MAX_PATH, findings)?;
    match read_below(context.dir, &path, MAX_PROMPT_FILE) {
        Ok(text) if text.trim().is_empty() => {
            let message = format!("the file {path} is empty");
            section.fault(&file_key, ProblemCode::OutOfBounds, message, findings);
            None
        }
        Ok(text) if text.chars().count() > MAX_PROMPT => {
            let message = format!("the file has more than {MAX_PROMPT} characters");
            section.fault(&file_key, ProblemCode::OutOfBounds, message, findings);
            None
        }
        Ok(text) => Some(text),
        Err(error) => {
            section.fault(&file_key, file_code(&error), error.to_string(), findings);
            None
        }
    }
}

/// Returns the kind of fault that an unusable file is.
pub(crate) fn file_code(error: &FileError) -> ProblemCode {
    match error {
        FileError::Escapes | FileError::LeavesByLink => ProblemCode::OutsideDirectory,
        FileError::TooLong(_) | FileError::TooLarge(_) => ProblemCode::OutOfBounds,
        FileError::Missing(_) | FileError::Unreadable(_) | FileError::NotText => {
            ProblemCode::Unreadable
        }
    }
}
