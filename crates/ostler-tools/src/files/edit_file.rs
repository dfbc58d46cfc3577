//! `edit_file`: texts in a file replaced by others, all of them or none.

use schemars::JsonSchema;
use serde::Deserialize;

use super::hard_links::Twins;
use super::limits::WRITE_BYTES;
use super::nearest;
use super::open::{open_at, read_text};
use super::resolve::{Links, Place};
use super::root::Root;
use super::rules::Access;
use super::store::{Stored, check_size, check_writable, write_over};
use crate::{Code, ToolError};

/// What to edit: either `find` and `replace`, or several of them as `edits`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditFile {
    /// The file, relative to the workspace.
    path: String,
    /// The exact text to replace, with its white space. It must be in the file exactly once, so take enough lines.
    find: Option<String>,
    /// What to put in its place; empty to remove it.
    replace: Option<String>,
    /// Replace every place where `find` is, instead of the only one.
    all: Option<bool>,
    /// Several replacements at once, instead of `find` and `replace`. Done in order, each on the result of the one before;
    /// if one fails the file stays as it was.
    edits: Option<Vec<OneOfEdits>>,
}

/// One replacement.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneOfEdits {
    /// The exact text to replace. It must be in the file exactly once.
    find: String,
    /// What to put in its place; empty to remove it.
    replace: String,
    /// Replace every place where `find` is.
    all: Option<bool>,
}

/// Edits.
pub(crate) fn run(root: &Root, args: &EditFile) -> Result<Stored, ToolError> {
    let edits = edits_of(args)?;
    let given = root.given(&args.path, Access::Write)?;
    let place = root.place(&given, Links::Follow)?;
    place.check(root, Access::Write)?;
    let (mut file, about) = open_at(root, &place, &Twins::default())?;
    check_writable(&place, &about)?;
    let old = read_text(&mut file, WRITE_BYTES, &place)?;
    let mut new = old.clone();
    for (at, edit) in edits.iter().enumerate() {
        let label = if edits.len() == 1 {
            String::new()
        } else {
            format!("edit {} of {}: ", at + 1, edits.len())
        };
        let labelled =
            |error: ToolError| ToolError::new(error.code, format!("{label}{}", error.message));
        new = apply(&new, edit, &place).map_err(labelled)?;
    }
    write_over(&place, &old, &new)
}

/// The two forms of the arguments, as one.
fn edits_of(args: &EditFile) -> Result<Vec<Edit<'_>>, ToolError> {
    let bad = |message: &str| Err(ToolError::new(Code::BadArguments, message));
    match (&args.find, &args.replace, &args.edits) {
        (Some(find), Some(replace), None) => Ok(vec![Edit {
            find,
            replace,
            is_of_all: args.all == Some(true),
        }]),
        (None, None, Some(edits)) if edits.is_empty() => bad("`edits` is empty: give at least one"),
        (None, None, Some(_)) if args.all.is_some() => {
            bad("`all` belongs into each of the `edits` that it is meant for")
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

/// One replacement, ready to be done.
struct Edit<'a> {
    find: &'a str,
    replace: &'a str,
    is_of_all: bool,
}

impl<'a> From<&'a OneOfEdits> for Edit<'a> {
    fn from(edit: &'a OneOfEdits) -> Self {
        Self {
            find: &edit.find,
            replace: &edit.replace,
            is_of_all: edit.all == Some(true),
        }
    }
}

fn apply(text: &str, edit: &Edit<'_>, place: &Place) -> Result<String, ToolError> {
    let Edit {
        find,
        replace,
        is_of_all,
    } = *edit;
    if find.is_empty() {
        return Err(ToolError::new(
            Code::BadArguments,
            "`find` is empty: give the exact text to replace",
        ));
    }
    if find == replace {
        return Err(ToolError::new(
            Code::BadArguments,
            "`find` and `replace` are the same: nothing would change",
        ));
    }
    let count = text.matches(find).count();
    if count == 0 {
        return Err(not_found(text, find, place));
    }
    if !is_of_all && occurs_twice(text, find) {
        return Err(not_unique(text, find, place));
    }
    // Before the memory is taken: a short text put in many places can become endless.
    let size = text.len() - count * find.len() + count.saturating_mul(replace.len());
    check_size(size, &place.shown)?;
    Ok(text.replace(find, replace))
}

/// Whether a text is there more than once, also if the places overlap.
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

fn not_found(text: &str, find: &str, place: &Place) -> ToolError {
    let hint = if find.contains('\n')
        && !find.contains('\r')
        && text.contains(&find.replace('\n', "\r\n"))
    {
        "; it is there with line ends \\r\\n: write them so in `find` and `replace`".to_owned()
    } else if let Some((number, line)) = nearest::line(text, find) {
        let line: String = line.chars().take(200).collect();
        format!(
            "; the closest is line {number}: `{line}` (white space counts; read the file again if it changed)"
        )
    } else {
        "; nothing in the file is close to it: read the file again".to_owned()
    };
    place.error(
        Code::FindNotFound,
        &format!("does not hold the text of `find`{hint}"),
    )
}

fn not_unique(text: &str, find: &str, place: &Place) -> ToolError {
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
    let says = format!(
        "holds the text of `find` {} times (lines {}{more}): add lines around it until it is unique, or set `all`",
        count.max(2),
        numbers.join(", ")
    );
    place.error(Code::FindNotUnique, &says)
}
