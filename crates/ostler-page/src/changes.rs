//! Whole-session diff, composed from the edits that the events record.
//!
//! Edits of one file are composed in order: one that changes text which an earlier edit wrote is
//! merged with it, so that an edit and its reversal leave nothing. Files that only commands changed
//! are unknown.

use std::collections::HashMap;

use ostler_core::change::{self, ChangeKind, FileChange};
use ostler_core::event::{Event, EventKind, ToolCall};
use ostler_core::permission::ToolUse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diff::{FileDiff, Hunk, between, parse_hunks};
use crate::tools::ToolContext;

/// Types of the events that [`ChangeLog::push`] needs; it ignores all others.
pub const EVENT_TYPES: &[&str] = &["tool_call", "tool_result"];

/// Note for people on what the changes do not contain.
const NOTE: &str =
    "Composed from the agent's edit tools. Changes that commands made are not known.";

/// The changes of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Changes {
    /// One diff per file, in the order in which they were changed first.
    pub files: Vec<FileDiff>,
    /// Number of added lines.
    pub added: u64,
    /// Number of removed lines.
    pub removed: u64,
    /// Where the changes come from.
    pub source: ChangeSource,
    /// What they do not contain.
    pub note: String,
}

/// Where changes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeSource {
    /// The edits that the events record.
    Events,
}

/// Incremental composition of a session's edits.
#[derive(Debug, Default)]
pub struct ChangeLog {
    tools: ToolContext,
    running: HashMap<String, (ToolUse, ToolCall)>,
    files: Vec<FileState>,
}

/// A file that was changed.
#[derive(Debug, Default)]
struct FileState {
    path: String,
    moved_from: Option<String>,
    /// The text before and after, if the whole text was written at some point.
    whole: Option<(String, String)>,
    /// Replaced parts, at unknown positions of the rest.
    parts: Vec<Part>,
    deleted: bool,
    partial: bool,
}

/// A replaced part of a file.
#[derive(Debug)]
struct Part {
    old: String,
    new: String,
    /// Line numbers before and after; 0 if they are unknown.
    starts: (u64, u64),
}

impl ChangeLog {
    /// Creates an empty log.
    #[must_use]
    pub fn new(tools: ToolContext) -> Self {
        Self {
            tools,
            ..Self::default()
        }
    }

    /// Adds an event.
    pub fn push(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ToolCall(call) => {
                let wants = self.tools.tool_use(&call.name, &call.input);
                self.running.insert(call.id.clone(), (wants, call.clone()));
            }
            EventKind::ToolResult(result) => {
                let Some((wants, call)) = self.running.remove(&result.id) else {
                    return;
                };
                if result.ok {
                    for change in change::of_call(&wants, &call, result) {
                        self.apply(&change);
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the changes so far.
    #[must_use]
    pub fn changes(&self) -> Changes {
        let files: Vec<FileDiff> = self.files.iter().filter_map(FileState::diff).collect();
        Changes {
            added: files.iter().map(|file| file.added).sum(),
            removed: files.iter().map(|file| file.removed).sum(),
            files,
            source: ChangeSource::Events,
            note: NOTE.to_owned(),
        }
    }

    fn apply(&mut self, change: &FileChange) {
        let path = self.tools.relative(&change.path);
        let at = self.files.iter().position(|file| file.path == path);
        let at = at.unwrap_or_else(|| {
            self.files.push(FileState {
                path: path.clone(),
                ..FileState::default()
            });
            self.files.len() - 1
        });
        let moved_to = change.moved_to.as_deref().map(|to| self.tools.relative(to));
        let Some(file) = self.files.get_mut(at) else {
            return;
        };
        file.apply(&change.kind);
        if let Some(to) = moved_to {
            let from = std::mem::replace(&mut file.path, to);
            file.moved_from.get_or_insert(from);
        }
    }
}

impl FileState {
    fn apply(&mut self, kind: &ChangeKind) {
        match kind {
            ChangeKind::Replace { old, new } => self.replace(Part {
                old: old.clone(),
                new: new.clone(),
                starts: if old.is_empty() { (1, 1) } else { (0, 0) },
            }),
            ChangeKind::Patch(patch) => {
                for hunk in parse_hunks(patch) {
                    let (old, new) = hunk.texts();
                    self.replace(Part {
                        old,
                        new,
                        starts: (hunk.old_start, hunk.new_start),
                    });
                }
            }
            ChangeKind::Write(text) => self.write(text),
            ChangeKind::Delete => self.delete(),
            ChangeKind::Create | ChangeKind::Edit => self.partial = true,
        }
        if !matches!(kind, ChangeKind::Delete) {
            self.deleted = false;
        }
    }

    fn write(&mut self, text: &str) {
        match &mut self.whole {
            Some((_, after)) => text.clone_into(after),
            None => {
                // A file that the session created has no text before.
                let is_new = matches!(&self.parts[..], [part] if part.old.is_empty());
                self.partial |= !is_new;
                self.whole = Some((String::new(), text.to_owned()));
            }
        }
        self.parts.clear();
    }

    fn delete(&mut self) {
        self.deleted = true;
        match &mut self.whole {
            Some((_, after)) => after.clear(),
            None => {
                // A file that the session created leaves nothing.
                let is_new = matches!(&self.parts[..], [part] if part.old.is_empty());
                if is_new {
                    self.whole = Some(Default::default());
                } else {
                    self.partial = true;
                }
            }
        }
        self.parts.clear();
    }

    fn replace(&mut self, part: Part) {
        if !part.old.is_empty() {
            if let Some((_, after)) = &mut self.whole
                && after.contains(&part.old)
            {
                *after = after.replacen(&part.old, &part.new, 1);
                return;
            }
            if let Some(earlier) = self.parts.iter_mut().find(|it| it.new.contains(&part.old)) {
                earlier.new = earlier.new.replacen(&part.old, &part.new, 1);
                return;
            }
            let around = self.parts.iter_mut().find(|it| {
                !it.new.is_empty() && part.old.matches(it.new.as_str()).take(2).count() == 1
            });
            if let Some(inner) = around {
                inner.old = part.old.replacen(&inner.new, &inner.old, 1);
                inner.new = part.new;
                inner.starts = part.starts;
                return;
            }
        }
        self.parts.push(part);
    }

    /// Returns the diff, or `None` if nothing is left of the changes.
    fn diff(&self) -> Option<FileDiff> {
        let whole = self.whole.iter().flat_map(|(old, new)| between(old, new));
        let parts = self.parts.iter().flat_map(Part::hunks);
        let diff = FileDiff {
            path: self.path.clone(),
            moved_from: self.moved_from.clone(),
            deleted: self.deleted,
            partial: self.partial,
            ..FileDiff::default()
        }
        .with_hunks(whole.chain(parts).collect());
        let is_known = diff.partial || diff.binary || diff.moved_from.is_some();
        (!diff.hunks.is_empty() || is_known).then_some(diff)
    }
}

impl Part {
    fn hunks(&self) -> Vec<Hunk> {
        let (old, new) = self.starts;
        // The numbers of the hunk count from the start of the part.
        let shift = |start: u64, base: u64| if base == 0 { 0 } else { start + base - 1 };
        let hunks = between(&self.old, &self.new).into_iter();
        hunks
            .map(|hunk| Hunk {
                old_start: shift(hunk.old_start, old),
                new_start: shift(hunk.new_start, new),
                ..hunk
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replace(old: &str, new: &str) -> ChangeKind {
        ChangeKind::Replace {
            old: old.into(),
            new: new.into(),
        }
    }

    /// Composes changes of files, and shows the result.
    fn composed(changes: &[(&str, ChangeKind)]) -> String {
        let mut log = ChangeLog::default();
        for (path, kind) in changes {
            let (path, moved_to) = match path.split_once('>') {
                Some((from, to)) => (from, Some(to.to_owned())),
                None => (*path, None),
            };
            log.apply(&FileChange {
                path: path.to_owned(),
                moved_to,
                kind: kind.clone(),
            });
        }
        let changes = log.changes();
        let file = |file: &FileDiff| {
            let lines = file.hunks.iter().flat_map(|hunk| &hunk.lines);
            let lines: Vec<String> = lines
                .map(|line| {
                    let op = serde_json::to_value(line.op).unwrap();
                    format!("{}{}", op.as_str().unwrap(), line.text)
                })
                .collect();
            let flags = [
                (file.partial, "?"),
                (file.deleted, "x"),
                (file.moved_from.is_some(), ">"),
            ];
            let flags: String = flags.iter().filter(|it| it.0).map(|it| it.1).collect();
            format!("{}{flags}[{}]", file.path, lines.join("|"))
        };
        let files: Vec<String> = changes.files.iter().map(file).collect();
        format!(
            "+{} -{} {}",
            changes.added,
            changes.removed,
            files.join(" ")
        )
    }

    #[test]
    fn edits_of_a_file_are_composed_in_order() {
        let patch = |text: &str| ChangeKind::Patch(text.into());
        let write = |text: &str| ChangeKind::Write(text.into());
        let table: &[(&[(&str, ChangeKind)], &str)] = &[
            (&[("a", replace("1", "2"))], "+1 -1 a[-1|+2]"),
            // Merged: the second changes what the first wrote.
            (
                &[("a", replace("1\n", "2\n")), ("a", replace("2", "3"))],
                "+1 -1 a[-1|+3]",
            ),
            // Merged: the second is larger than the first.
            (
                &[
                    ("a", replace("1\n", "2\n")),
                    ("a", replace("x\n2\n", "y\n2\n")),
                ],
                "+2 -2 a[-x|-1|+y|+2]",
            ),
            // Reversed: nothing is left.
            (
                &[("a", replace("1", "2")), ("a", replace("2", "1"))],
                "+0 -0 ",
            ),
            (
                &[
                    ("a", replace("", "1\n2\n")),
                    ("b", replace("x", "y")),
                    ("a", replace("2", "3")),
                ],
                "+3 -1 a[+1|+3] b[-x|+y]",
            ),
            (
                &[("a", write("1\n")), ("a", replace("1", "2"))],
                "+1 -0 a?[+2]",
            ),
            (
                &[("a", replace("", "1\n")), ("a", write("2\n"))],
                "+1 -0 a[+2]",
            ),
            (
                &[("a", replace("", "1\n")), ("a", ChangeKind::Delete)],
                "+0 -0 ",
            ),
            (&[("a", ChangeKind::Delete)], "+0 -0 a?x[]"),
            (
                &[("a", ChangeKind::Edit), ("a", replace("1", "2"))],
                "+1 -1 a?[-1|+2]",
            ),
            (
                &[
                    ("a>b", patch("@@ -5,2 +5,2 @@\n x\n-1\n+2\n")),
                    ("b", replace("2", "3")),
                ],
                "+1 -1 b>[ x|-1|+3]",
            ),
        ];
        for (changes, want) in table {
            assert_eq!(composed(changes), *want, "{changes:?}");
        }
    }

    #[test]
    fn positions_of_patches_are_known() {
        let mut log = ChangeLog::default();
        log.apply(&FileChange {
            path: "a".into(),
            moved_to: None,
            kind: ChangeKind::Patch("@@ -5,3 +7,3 @@\n x\n y\n-1\n+2\n".into()),
        });
        let files = log.changes().files;
        assert_eq!(
            (files[0].hunks[0].old_start, files[0].hunks[0].new_start),
            (5, 7)
        );
    }
}
