//! Bounded unified diffs of writes.

use std::time::Duration;

use similar::TextDiff;

use super::limits::{DIFF_BYTES, DIFF_INPUT_BYTES, DIFF_LINES};
use super::truncate::truncate;
use crate::names::quoted;

/// A diff, and a note if it is incomplete.
#[derive(Debug, PartialEq)]
pub(super) struct Diff {
    pub(super) text: String,
    pub(super) note: Option<&'static str>,
}

/// Time limit for the minimal diff; after it, the diff is correct but not the smallest.
const DIFF_TIMEOUT: Duration = Duration::from_millis(200);

/// Returns the difference between two versions of a file.
pub(super) fn diff(path: &str, old: &str, new: &str) -> Diff {
    if old.len().max(new.len()) > DIFF_INPUT_BYTES {
        return Diff {
            text: String::new(),
            note: Some("no diff: the file is too large"),
        };
    }
    let diff = TextDiff::configure()
        .timeout(DIFF_TIMEOUT)
        .diff_lines(old, new);
    let mut text = String::new();
    let mut lines = 0;
    for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
        if text.is_empty() {
            let (old, new) = (quoted(&format!("a/{path}")), quoted(&format!("b/{path}")));
            text.push_str(&format!("--- {old}\n+++ {new}\n"));
        }
        for line in hunk.to_string().split_inclusive('\n') {
            lines += 1;
            if lines > DIFF_LINES || text.len() + line.len().min(DIFF_BYTES / 4) > DIFF_BYTES {
                return Diff {
                    text,
                    note: Some("the diff is truncated here"),
                };
            }
            text.push_str(&truncate(line.trim_end_matches('\n')));
            text.push('\n');
        }
    }
    Diff { text, note: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diff_shows_the_changes() {
        let result = diff("a.txt", "one\ntwo\nthree\n", "one\n2\nthree\n");
        let text = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n";
        assert_eq!(
            result,
            Diff {
                text: text.to_owned(),
                note: None
            }
        );
        assert_eq!(diff("a", "same", "same").text, "");
        assert_eq!(
            diff("a", "", "x").text,
            "--- a/a\n+++ b/a\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n"
        );
    }

    #[test]
    fn diff_is_bounded() {
        let many = "a\n".repeat(5_000);
        let result = diff("a", "", &many);
        assert!(result.text.lines().count() <= DIFF_LINES + 2 && result.note.is_some());
        let wide = format!("{}\n", "w".repeat(500_000)).repeat(2);
        let result = diff("a", "x\n", &wide);
        assert!(
            result.text.len() <= DIFF_BYTES + 200,
            "{}",
            result.text.len()
        );
        let huge = "x".repeat(DIFF_INPUT_BYTES + 1);
        assert_eq!(diff("a", "", &huge).text, "");
    }
}
