//! Diffs of file changes, as lines to show and as numbers.

use std::collections::BTreeSet;
use std::time::Duration;

use ostler::render::change::{ChangeKind, FileChange};
use similar::{ChangeTag, TextDiff};

use super::counted;

/// Number of unchanged lines around a change.
const CONTEXT: usize = 2;

/// Time limit for a diff; after that it is correct, but not minimal.
const TIME_LIMIT: Duration = Duration::from_millis(200);

/// A line of a diff, without its mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DiffLine {
    Same(String),
    Removed(String),
    Added(String),
    /// Omitted unchanged lines.
    Gap,
}

/// The diff of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Diff {
    pub(super) lines: Vec<DiffLine>,
    pub(super) added: usize,
    pub(super) removed: usize,
    /// True if part of the change is unknown.
    pub(super) is_unknown: bool,
}

/// A file's text before and after a change, as far as it is known.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Texts<'a> {
    pub(super) before: Option<&'a str>,
    pub(super) after: Option<&'a str>,
}

impl Diff {
    /// Returns the diff of a change.
    pub(super) fn of(change: &FileChange, Texts { before, after }: Texts<'_>) -> Self {
        let unknown = Self {
            is_unknown: true,
            ..Self::default()
        };
        match &change.kind {
            ChangeKind::Replace { old, new } => Self::between(old, new),
            // A file that already contains the new text was read too late.
            ChangeKind::Write(new) => Self::between(
                before.filter(|before| before != new).unwrap_or_default(),
                new,
            ),
            ChangeKind::Patch(hunks) => Self::of_hunks(hunks),
            ChangeKind::Delete => before.map_or(unknown, |before| Self::between(before, "")),
            ChangeKind::Create => after.map_or(unknown, |after| Self::between("", after)),
            ChangeKind::Edit => match (before, after) {
                (Some(before), Some(after)) if before != after => Self::between(before, after),
                _ => unknown,
            },
        }
    }

    /// Returns the difference between two texts.
    pub(super) fn between(old: &str, new: &str) -> Self {
        let diff = TextDiff::configure()
            .timeout(TIME_LIMIT)
            .diff_lines(old, new);
        let mut found = Self::default();
        for group in diff.grouped_ops(CONTEXT) {
            if !found.lines.is_empty() {
                found.push(DiffLine::Gap);
            }
            for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
                let line = change.value().trim_end_matches(['\r', '\n']).to_owned();
                found.push(match change.tag() {
                    ChangeTag::Equal => DiffLine::Same(line),
                    ChangeTag::Delete => DiffLine::Removed(line),
                    ChangeTag::Insert => DiffLine::Added(line),
                });
            }
        }
        found
    }

    /// Parses hunks. Anything before the first one is a heading.
    fn of_hunks(hunks: &str) -> Self {
        let mut found = Self::default();
        for line in hunks.lines().skip_while(|line| !line.starts_with("@@")) {
            let rest = || line.get(1..).unwrap_or_default().to_owned();
            match line.bytes().next() {
                Some(b'@') if !found.lines.is_empty() => found.push(DiffLine::Gap),
                Some(b'@' | b'\\') => {}
                Some(b'+') => found.push(DiffLine::Added(rest())),
                Some(b'-') => found.push(DiffLine::Removed(rest())),
                _ => found.push(DiffLine::Same(rest())),
            }
        }
        found
    }

    /// Appends another diff of the same file.
    pub(super) fn append(&mut self, diff: Self) {
        self.is_unknown |= diff.is_unknown;
        self.push(DiffLine::Gap);
        diff.lines.into_iter().for_each(|line| self.push(line));
    }

    fn push(&mut self, line: DiffLine) {
        self.added += usize::from(matches!(line, DiffLine::Added(_)));
        self.removed += usize::from(matches!(line, DiffLine::Removed(_)));
        self.lines.push(line);
    }
}

/// The files that were changed, and by how many lines.
#[derive(Debug, Clone, Default)]
pub(super) struct Changed {
    files: BTreeSet<String>,
    added: usize,
    removed: usize,
    is_unknown: bool,
}

impl Changed {
    pub(super) fn add(&mut self, path: &str, diff: &Diff) {
        self.files.insert(path.to_owned());
        self.added += diff.added;
        self.removed += diff.removed;
        self.is_unknown |= diff.is_unknown;
    }

    /// Formats the totals, such as `3 files +12 −4`. Returns `None` without a change; omits the
    /// lines unless all are known.
    pub(super) fn brief(&self) -> Option<String> {
        let lines = if self.is_unknown {
            String::new()
        } else {
            format!(" +{} −{}", self.added, self.removed)
        };
        let files = counted(self.files.len() as u64, "file");
        (!self.files.is_empty()).then(|| files + &lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(diff: &Diff) -> String {
        let line = |line: &DiffLine| match line {
            DiffLine::Same(text) => format!(" {text}\n"),
            DiffLine::Removed(text) => format!("-{text}\n"),
            DiffLine::Added(text) => format!("+{text}\n"),
            DiffLine::Gap => "…\n".to_owned(),
        };
        format!(
            "+{} −{}\n{}",
            diff.added,
            diff.removed,
            diff.lines.iter().map(line).collect::<String>()
        )
    }

    fn change(kind: ChangeKind) -> FileChange {
        FileChange {
            path: "a".into(),
            moved_to: None,
            kind,
        }
    }

    #[test]
    fn changes_become_lines() {
        let long: String = (1..=20).map(|n| format!("{n}\n")).collect();
        let longer = long.replace("3\n", "three\n").replace("17\n", "");
        let replace = |old: &str, new: &str| ChangeKind::Replace {
            old: old.into(),
            new: new.into(),
        };
        let table = [
            (
                replace("one\ntwo\n", "one\n2\n"),
                None,
                "+1 −1\n one\n-two\n+2\n",
            ),
            (replace("", "one\r\ntwo"), None, "+2 −0\n+one\n+two\n"),
            (replace("same", "same"), None, "+0 −0\n"),
            (
                replace(&long, &longer),
                None,
                "+2 −3\n 1\n 2\n-3\n+three\n 4\n 5\n…\n 11\n 12\n-13\n+1three\n 14\n 15\n 16\n-17\n 18\n 19\n",
            ),
            (
                ChangeKind::Write("a\nb\n".into()),
                Some("a\n"),
                "+1 −0\n a\n+b\n",
            ),
            (
                ChangeKind::Write("a\nb\n".into()),
                Some("a\nb\n"),
                "+2 −0\n+a\n+b\n",
            ),
            (ChangeKind::Write("a\n".into()), None, "+1 −0\n+a\n"),
            (ChangeKind::Delete, Some("a\nb"), "+0 −2\n-a\n-b\n"),
            (ChangeKind::Create, None, "+1 −0\n+after\n"),
            (ChangeKind::Edit, Some("a\n"), "+1 −1\n-a\n+after\n"),
            (
                ChangeKind::Patch(
                    "--- a\n+++ b\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n\n@@ -9 +9 @@\n-é\n\\ No newline\n"
                        .into(),
                ),
                None,
                "+1 −2\n x\n-y\n+z\n \n…\n-é\n",
            ),
        ];
        for (kind, before, want) in table {
            let texts = Texts {
                before,
                after: Some("after\n"),
            };
            assert_eq!(
                shown(&Diff::of(&change(kind.clone()), texts)),
                want,
                "{kind:?}"
            );
        }
        for kind in [ChangeKind::Delete, ChangeKind::Create, ChangeKind::Edit] {
            assert!(Diff::of(&change(kind), Texts::default()).is_unknown);
        }
        let same = Texts {
            before: Some("a"),
            after: Some("a"),
        };
        assert!(
            Diff::of(&change(ChangeKind::Edit), same).is_unknown,
            "the file was read too late"
        );
    }

    #[test]
    fn a_file_counts_once() {
        let mut changed = Changed::default();
        assert_eq!(changed.brief(), None);
        changed.add("a", &Diff::between("1\n", "2\n3\n"));
        assert_eq!(changed.brief().unwrap(), "1 file +2 −1");
        changed.add("a", &Diff::between("", "2\n"));
        changed.add("b", &Diff::between("1\n", ""));
        assert_eq!(changed.brief().unwrap(), "2 files +3 −2");
        changed.add(
            "c",
            &Diff {
                is_unknown: true,
                ..Diff::default()
            },
        );
        assert_eq!(changed.brief().unwrap(), "3 files");
    }
}
