//! `edit_file`: replaces text in a file, all edits or none.

use schemars::JsonSchema;
use serde::Deserialize;

use super::atomic_write::{WriteResult, check_size, check_writable, write_over};
use super::hard_links::DeniedHardLinks;
use super::limits::WRITE_BYTES;
use super::open::{open_at, read_text};
use super::resolve::{LinkMode, ResolvedPath};
use super::root::Root;
use super::rules::Access;
use super::suggestions;
use crate::{Code, ToolError};

/// Arguments of `edit_file`: either `find` and `replace`, or several of them as `edits`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditFile {
    /// The file, relative to the workspace.
    path: String,
    /// The exact text to replace, including white space. It must occur exactly once.
    find: Option<String>,
    /// The replacement text; empty to remove `find`.
    replace: Option<String>,
    /// Replace every occurrence of `find`, instead of exactly one.
    all: Option<bool>,
    /// Several replacements at once, instead of `find` and `replace`. Applied in order, each to the
    /// result of the one before; if one fails, the file is unchanged.
    edits: Option<Vec<EditArguments>>,
}

/// A replacement.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditArguments {
    /// The exact text to replace. It must occur exactly once.
    find: String,
    /// The replacement text; empty to remove `find`.
    replace: String,
    /// Replace every occurrence of `find`.
    all: Option<bool>,
}

/// Edits the file.
pub(crate) fn run(root: &Root, args: &EditFile) -> Result<WriteResult, ToolError> {
    let edits = edits_of(args)?;
    let given = root.parse_path(&args.path, Access::Write)?;
    let resolved = root.resolve(&given, LinkMode::Follow)?;
    resolved.check(root, Access::Write)?;
    let (mut file, metadata) = open_at(root, &resolved, &DeniedHardLinks::default())?;
    check_writable(&resolved, &metadata)?;
    let old = read_text(&mut file, WRITE_BYTES, &resolved)?;
    let mut new = old.clone();
    for (at, edit) in edits.iter().enumerate() {
        let label = if edits.len() == 1 {
            String::new()
        } else {
            format!("edit {} of {}: ", at + 1, edits.len())
        };
        let labelled =
            |error: ToolError| ToolError::new(error.code, format!("{label}{}", error.message));
        new = apply(&new, edit, &resolved).map_err(labelled)?;
    }
    write_over(&resolved, &old, &new)
}

/// Converts the two forms of the arguments into one list.
fn edits_of(args: &EditFile) -> Result<Vec<Edit<'_>>, ToolError> {
    let bad = |message: &str| Err(ToolError::bad_arguments(message));
    match (&args.find, &args.replace, &args.edits) {
        (Some(find), Some(replace), None) => Ok(vec![Edit {
            find,
            replace,
            replaces_all: args.all == Some(true),
        }]),
        (None, None, Some(edits)) if edits.is_empty() => bad("`edits` is empty: give at least one"),
        (None, None, Some(_)) if args.all.is_some() => {
            bad("set `all` inside each of the `edits` it applies to")
        }
        (None, None, Some(edits)) => Ok(edits.iter().map(Edit::from).collect()),
        (Some(_), None, None) => {
            bad("`replace` is missing: give the text to put in place of `find`")
        }
        (None, Some(_), None) => bad("`find` is missing: give the exact text to replace"),
        (None, None, None) => bad("give `find` and `replace`, or `edits`"),
        (_, _, Some(_)) => bad("give either `find` and `replace`, or `edits`, not both"),
    }
}

/// A replacement to apply.
struct Edit<'a> {
    find: &'a str,
    replace: &'a str,
    replaces_all: bool,
}

impl<'a> From<&'a EditArguments> for Edit<'a> {
    fn from(edit: &'a EditArguments) -> Self {
        Self {
            find: &edit.find,
            replace: &edit.replace,
            replaces_all: edit.all == Some(true),
        }
    }
}

fn apply(text: &str, edit: &Edit<'_>, resolved: &ResolvedPath) -> Result<String, ToolError> {
    let Edit {
        find,
        replace,
        replaces_all,
    } = *edit;
    if find.is_empty() {
        return Err(ToolError::bad_arguments(
            "`find` is empty: give the exact text to replace",
        ));
    }
    if find == replace {
        return Err(ToolError::bad_arguments(
            "`find` and `replace` are the same: nothing would change",
        ));
    }
    let count = text.matches(find).count();
    if count == 0 {
        return Err(not_found(text, find, resolved));
    }
    if !replaces_all && occurs_twice(text, find) {
        return Err(not_unique(text, find, resolved));
    }
    // Checked before allocating: a short text replaced in many places can grow without bound.
    let size = text.len() - count * find.len() + count.saturating_mul(replace.len());
    check_size(size, &resolved.display)?;
    Ok(text.replace(find, replace))
}

/// Returns true if a text occurs more than once, including overlapping occurrences.
fn occurs_twice(text: &str, find: &str) -> bool {
    let Some(first) = text.find(find) else {
        return false;
    };
    let next = text[first..]
        .chars()
        .next()
        .map_or(first, |char| first + char.len_utf8());
    text[next..].contains(find)
}

fn not_found(text: &str, find: &str, resolved: &ResolvedPath) -> ToolError {
    let hint = if find.contains('\n')
        && !find.contains('\r')
        && text.contains(&find.replace('\n', "\r\n"))
    {
        "; it occurs with \\r\\n line endings: use them in `find` and `replace`".to_owned()
    } else if let Some((number, line)) = suggestions::line(text, find) {
        let line: String = line.chars().take(200).collect();
        format!(
            "; the closest match is line {number}: `{line}` (white space counts; read the file \
             again if it changed)"
        )
    } else {
        "; nothing in the file is similar: read the file again".to_owned()
    };
    resolved.error(
        Code::FindNotFound,
        &format!("does not contain the text of `find`{hint}"),
    )
}

fn not_unique(text: &str, find: &str, resolved: &ResolvedPath) -> ToolError {
    const SHOWN: usize = 10;
    let mut numbers: Vec<String> = Vec::new();
    let (mut line, mut from) = (1, 0);
    for (at, _) in text.match_indices(find).take(SHOWN) {
        line += text[from..at].bytes().filter(|byte| *byte == b'\n').count();
        from = at;
        numbers.push(line.to_string());
    }
    let count = text.matches(find).count();
    let more = if count > SHOWN { ", …" } else { "" };
    let message = format!(
        "contains the text of `find` {} times (lines {}{more}): add surrounding lines until it \
         is unique, or set `all`",
        count.max(2),
        numbers.join(", ")
    );
    resolved.error(Code::FindNotUnique, &message)
}
