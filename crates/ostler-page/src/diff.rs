//! Diffs of files as hunks, from the changes that a tool call made or requests.

use std::time::Duration;

use ostler_core::change::{ChangeKind, FileChange};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use similar::{ChangeTag, TextDiff};

/// Number of unchanged lines around a change.
const CONTEXT: usize = 3;

/// Time limit for a diff; after that it is correct, but not minimal.
const TIME_LIMIT: Duration = Duration::from_millis(200);

/// The diff of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileDiff {
    /// Path of the file, relative to the workspace if it is inside of it.
    pub path: String,
    /// Previous path, if the file was moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_from: Option<String>,
    /// Number of added lines.
    pub added: u64,
    /// Number of removed lines.
    pub removed: u64,
    /// True if the file is not text.
    #[serde(default, skip_serializing_if = "is_false")]
    pub binary: bool,
    /// True if the file was deleted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub deleted: bool,
    /// True if part of the change is unknown: the text before it, or the change itself.
    #[serde(default, skip_serializing_if = "is_false")]
    pub partial: bool,
    /// What was read to compare with, if the request for the change replaces a whole file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<TextBefore>,
    /// The changed parts, in order.
    pub hunks: Vec<Hunk>,
}

/// What a requested text of a whole file was compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextBefore {
    /// The file did not exist.
    Missing,
    /// The text of the file.
    File,
}

/// A changed part of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hunk {
    /// Number of the first line before the change, from 1; 0 if it is unknown.
    pub old_start: u64,
    /// Number of the first line after the change, from 1; 0 if it is unknown.
    pub new_start: u64,
    /// The lines.
    pub lines: Vec<DiffLine>,
}

/// A line of a diff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffLine {
    /// What happened to the line.
    pub op: LineOp,
    /// The line, without its end.
    pub text: String,
}

/// What happened to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LineOp {
    /// Nothing.
    #[serde(rename = " ")]
    Same,
    /// It was added.
    #[serde(rename = "+")]
    Added,
    /// It was removed.
    #[serde(rename = "-")]
    Removed,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(value: &bool) -> bool {
    !value
}

impl FileDiff {
    /// Returns the diffs of a call's changes. Changes of the same file in a row are one diff.
    pub fn of_changes<'a>(
        changes: impl IntoIterator<Item = &'a FileChange>,
        relative: impl Fn(&str) -> String,
    ) -> Vec<Self> {
        let mut diffs: Vec<Self> = Vec::new();
        for change in changes {
            let mut diff = Self::of(change);
            diff.path = relative(&diff.path);
            diff.moved_from = diff.moved_from.as_deref().map(&relative);
            match diffs.last_mut().filter(|last| last.path == diff.path) {
                Some(last) => last.append(diff),
                None => diffs.push(diff),
            }
        }
        diffs
    }

    /// Returns the diff of a change. The text before a written file is unknown.
    #[must_use]
    pub fn of(change: &FileChange) -> Self {
        let hunks = match &change.kind {
            ChangeKind::Replace { old, new } => between(old, new),
            ChangeKind::Write(new) => between("", new),
            ChangeKind::Patch(patch) => parse_hunks(patch),
            ChangeKind::Delete | ChangeKind::Create | ChangeKind::Edit => Vec::new(),
        };
        // The position of a replaced part is unknown.
        let is_part = matches!(&change.kind, ChangeKind::Replace { old, .. } if !old.is_empty());
        let hunks = if is_part {
            hunks.into_iter().map(Hunk::without_position).collect()
        } else {
            hunks
        };
        let (path, moved_from) = match &change.moved_to {
            Some(to) => (to.clone(), Some(change.path.clone())),
            None => (change.path.clone(), None),
        };
        let partial = matches!(
            change.kind,
            ChangeKind::Write(_) | ChangeKind::Delete | ChangeKind::Create | ChangeKind::Edit
        );
        Self {
            path,
            moved_from,
            deleted: change.kind == ChangeKind::Delete,
            partial,
            ..Self::default()
        }
        .with_hunks(hunks)
    }

    /// Returns the diff of a file's whole text.
    #[must_use]
    pub fn between_texts(path: &str, old: &str, new: &str, before: TextBefore) -> Self {
        Self {
            path: path.to_owned(),
            before: Some(before),
            ..Self::default()
        }
        .with_hunks(between(old, new))
    }

    /// Sets the hunks, and counts their lines. Text with a NUL is binary.
    #[must_use]
    pub fn with_hunks(mut self, hunks: Vec<Hunk>) -> Self {
        let lines = || hunks.iter().flat_map(|hunk| &hunk.lines);
        let count = |op| lines().filter(|line| line.op == op).count() as u64;
        (self.added, self.removed) = (count(LineOp::Added), count(LineOp::Removed));
        if lines().any(|line| line.text.contains('\0')) {
            return Self {
                binary: true,
                added: 0,
                removed: 0,
                hunks: Vec::new(),
                ..self
            };
        }
        self.hunks = hunks;
        self
    }

    /// Appends another diff of the same file.
    fn append(&mut self, other: Self) {
        self.added += other.added;
        self.removed += other.removed;
        self.binary |= other.binary;
        self.deleted = other.deleted;
        self.partial |= other.partial;
        self.hunks.extend(other.hunks);
    }
}

impl Hunk {
    fn without_position(self) -> Self {
        Self {
            old_start: 0,
            new_start: 0,
            ..self
        }
    }

    /// Returns the text before and after the change.
    #[must_use]
    pub fn texts(&self) -> (String, String) {
        let side = |without: LineOp| {
            let lines = self.lines.iter().filter(|line| line.op != without);
            lines.fold(String::new(), |mut text, line| {
                text.push_str(&line.text);
                text.push('\n');
                text
            })
        };
        (side(LineOp::Added), side(LineOp::Removed))
    }
}

/// Returns the difference between two texts.
#[must_use]
pub fn between(old: &str, new: &str) -> Vec<Hunk> {
    let diff = TextDiff::configure()
        .timeout(TIME_LIMIT)
        .diff_lines(old, new);
    let hunk = |group: &Vec<similar::DiffOp>| {
        let first = group.first()?;
        let lines = group
            .iter()
            .flat_map(|op| diff.iter_changes(op))
            .map(|change| DiffLine {
                op: match change.tag() {
                    ChangeTag::Equal => LineOp::Same,
                    ChangeTag::Delete => LineOp::Removed,
                    ChangeTag::Insert => LineOp::Added,
                },
                text: change.value().trim_end_matches(['\r', '\n']).to_owned(),
            });
        Some(Hunk {
            old_start: first.old_range().start as u64 + 1,
            new_start: first.new_range().start as u64 + 1,
            lines: lines.collect(),
        })
    };
    diff.grouped_ops(CONTEXT).iter().filter_map(hunk).collect()
}

/// Parses the hunks of a patch. Anything before the first one is a heading.
#[must_use]
pub fn parse_hunks(patch: &str) -> Vec<Hunk> {
    let mut hunks: Vec<Hunk> = Vec::new();
    for line in patch.lines().skip_while(|line| !line.starts_with("@@")) {
        let text = || line.get(1..).unwrap_or_default().to_owned();
        let op = match line.bytes().next() {
            Some(b'@') => {
                let (old_start, new_start) = positions(line).unwrap_or_default();
                hunks.push(Hunk {
                    old_start,
                    new_start,
                    lines: Vec::new(),
                });
                continue;
            }
            Some(b'\\') => continue,
            Some(b'+') => LineOp::Added,
            Some(b'-') => LineOp::Removed,
            _ => LineOp::Same,
        };
        let text = text();
        if let Some(hunk) = hunks.last_mut() {
            hunk.lines.push(DiffLine { op, text });
        }
    }
    hunks.retain(|hunk| !hunk.lines.is_empty());
    hunks
}

/// Parses the line numbers of `@@ -1,2 +3,4 @@`.
fn positions(line: &str) -> Option<(u64, u64)> {
    let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
    let number = |text: &str| -> Option<u64> {
        let digits = text.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    };
    Some((number(old)?, number(rest)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(hunks: &[Hunk]) -> String {
        let line = |line: &DiffLine| {
            let op = serde_json::to_value(line.op).unwrap();
            format!("{}{}\n", op.as_str().unwrap(), line.text)
        };
        let hunk = |hunk: &Hunk| {
            let lines: String = hunk.lines.iter().map(line).collect();
            format!("@{},{}\n{lines}", hunk.old_start, hunk.new_start)
        };
        hunks.iter().map(hunk).collect()
    }

    fn change(kind: ChangeKind) -> FileChange {
        FileChange {
            path: "/w/a".into(),
            moved_to: None,
            kind,
        }
    }

    #[test]
    fn changes_become_hunks() {
        let long: String = (1..=20).map(|n| format!("{n}\n")).collect();
        let longer = long.replace("\n3\n", "\nthree\n").replace("\n17\n", "\n");
        let replace = |old: &str, new: &str| ChangeKind::Replace {
            old: old.into(),
            new: new.into(),
        };
        let table = [
            (replace("one\ntwo\n", "one\n2\n"), "@0,0\n one\n-two\n+2\n", false),
            (replace("", "one\r\ntwo"), "@1,1\n+one\n+two\n", false),
            (replace("same", "same"), "", false),
            (
                ChangeKind::Write("a\nb\n".into()),
                "@1,1\n+a\n+b\n",
                true,
            ),
            (
                ChangeKind::Patch(
                    "--- a\n+++ b\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n\n@@ -9 +8 @@ fn f\n-é\n\\ No newline\n@@\n"
                        .into(),
                ),
                "@1,1\n x\n-y\n+z\n \n@9,8\n-é\n",
                false,
            ),
            (ChangeKind::Patch("@@ fn x\n 1\n-2\n+3\n".into()), "@0,0\n 1\n-2\n+3\n", false),
            (ChangeKind::Delete, "", true),
            (ChangeKind::Edit, "", true),
        ];
        for (kind, want, partial) in table {
            let diff = FileDiff::of(&change(kind.clone()));
            assert_eq!(
                (&*shown(&diff.hunks), diff.partial),
                (want, partial),
                "{kind:?}"
            );
        }
        assert_eq!(
            shown(&between(&long, &longer)),
            "@1,1\n 1\n 2\n-3\n+three\n 4\n 5\n 6\n@14,14\n 14\n 15\n 16\n-17\n 18\n 19\n 20\n"
        );
    }

    #[test]
    fn changes_of_one_file_are_one_diff() {
        let replace = |old: &str, new: &str| {
            change(ChangeKind::Replace {
                old: old.into(),
                new: new.into(),
            })
        };
        let moved = FileChange {
            moved_to: Some("/w/c".into()),
            ..change(ChangeKind::Patch(String::new()))
        };
        let changes = [replace("1", "2"), replace("3\n4", "5"), moved];
        let diffs = FileDiff::of_changes(&changes, |path| path.replace("/w/", ""));
        assert_eq!(diffs.len(), 2);
        assert_eq!((diffs[0].added, diffs[0].removed), (2, 3));
        assert_eq!(diffs[0].hunks.len(), 2);
        assert_eq!(
            (&*diffs[1].path, diffs[1].moved_from.as_deref()),
            ("c", Some("a"))
        );
        let binary = FileDiff::of(&change(ChangeKind::Write("a\0b".into())));
        assert!(binary.binary && binary.hunks.is_empty() && binary.added == 0);
        let json = serde_json::to_value(&diffs[0]).unwrap();
        assert_eq!(json["hunks"][0]["lines"][0]["op"], "-");
        assert!(json.get("binary").is_none() && json.get("moved_from").is_none());
    }
}
