//! Titles of sessions, and the SQL function that filters lists by text.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};

/// Maximum length of a title, in characters.
const MAX_TITLE: usize = 120;

/// Returns the title of a session with this prompt: its first line that is not blank.
pub(crate) fn title(prompt: &str) -> Option<String> {
    let line = prompt
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())?;
    Some(match line.char_indices().nth(MAX_TITLE) {
        None => line.to_owned(),
        Some(_) => line.chars().take(MAX_TITLE - 1).chain(['…']).collect(),
    })
}

/// Adds the function `mentions(text, prompt, other…)`: whether the title for the prompt, or one of
/// the other values, contains a text in lower case.
pub(crate) fn add_function(db: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function("mentions", -1, flags, |context| Ok(mentions(context)))
}

fn mentions(context: &Context<'_>) -> bool {
    let value = |at| match context.get_raw(at) {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes),
        _ => "".into(),
    };
    let text = value(0);
    let contains = |value: &str| value.to_lowercase().contains(&*text);
    title(&value(1)).is_some_and(|title| contains(&title))
        || (2..context.len()).any(|at| contains(&value(at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_line() {
        for (prompt, expected) in [
            ("", None),
            (" \n\t\n", None),
            ("\n  Fix it \nnow", Some("Fix it")),
        ] {
            assert_eq!(title(prompt).as_deref(), expected, "{prompt:?}");
        }
        let fits = "é".repeat(MAX_TITLE);
        assert_eq!(title(&fits), Some(fits.clone()));
        let long = title(&format!("{fits}e")).unwrap();
        assert_eq!(
            (long.chars().count(), long.ends_with("é…")),
            (MAX_TITLE, true)
        );
    }
}
