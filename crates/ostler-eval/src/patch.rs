//! Diffs in Git's format: which files changed, and by how many lines.

/// Name of the file with an agent's changes, among the artifacts of a trial.
pub const DIFF_FILE: &str = "diff.patch";

/// A file in a diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Path after the change, or before it if the file was deleted.
    pub path: String,
    /// Lines that were added.
    pub added: u64,
    /// Lines that were removed.
    pub removed: u64,
    /// Whether its content is binary; then no lines are counted.
    pub binary: bool,
}

/// Returns the files of a diff, in its order.
#[must_use]
pub fn files(diff: &str) -> Vec<FileChange> {
    let mut files: Vec<FileChange> = Vec::new();
    // Lines that the current hunk still has, before and after the change.
    let (mut old, mut new) = (0_u64, 0_u64);
    for line in diff.split('\n') {
        if old > 0 || new > 0 {
            let Some(file) = files.last_mut() else {
                break;
            };
            match line.as_bytes().first() {
                Some(b'+') => {
                    file.added += 1;
                    new = new.saturating_sub(1);
                }
                Some(b'-') => {
                    file.removed += 1;
                    old = old.saturating_sub(1);
                }
                Some(b'\\') => {}
                _ => {
                    old = old.saturating_sub(1);
                    new = new.saturating_sub(1);
                }
            }
            continue;
        }
        if let Some(paths) = line.strip_prefix("diff --git ") {
            files.push(FileChange {
                path: header_path(paths),
                added: 0,
                removed: 0,
                binary: false,
            });
            continue;
        }
        let Some(file) = files.last_mut() else {
            continue;
        };
        if let Some(path) = line
            .strip_prefix("+++ ")
            .or_else(|| line.strip_prefix("--- "))
        {
            if let Some(path) = side(path) {
                file.path = path;
            }
        } else if let Some(path) = line.strip_prefix("rename to ") {
            file.path = unquote(path);
        } else if line.starts_with("Binary files ") || line == "GIT binary patch" {
            file.binary = true;
        } else if let Some(ranges) = line.strip_prefix("@@ -") {
            (old, new) = hunk(ranges).unwrap_or_default();
        }
    }
    files
}

/// Returns how evenly changes are spread over files, in bits: 0 if all are in one file.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of lines are far below 2^52"
)]
pub fn entropy(files: &[FileChange]) -> f64 {
    let total: u64 = files.iter().map(|file| file.added + file.removed).sum();
    if total == 0 {
        return 0.0;
    }
    let shares = files
        .iter()
        .map(|file| (file.added + file.removed) as f64 / total as f64);
    let sum: f64 = shares
        .filter(|share| *share > 0.0)
        .map(|share| -share * share.log2())
        .sum();
    // One file has an entropy of -0.
    sum.max(0.0) + 0.0
}

/// Parses the lengths of a hunk: `1,2 +3,4 @@`.
fn hunk(ranges: &str) -> Option<(u64, u64)> {
    let (old, rest) = ranges.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let length = |range: &str| match range.split_once(',') {
        Some((_, length)) => length.parse().ok(),
        None => Some(1),
    };
    Some((length(old)?, length(new)?))
}

/// Returns the path of one side of a change; `None` for `/dev/null`.
fn side(text: &str) -> Option<String> {
    let text = text.strip_suffix('\t').unwrap_or(text);
    let path = unquote(text);
    if path == "/dev/null" {
        return None;
    }
    let stripped = path.strip_prefix("a/").or_else(|| path.strip_prefix("b/"));
    Some(stripped.map_or_else(|| path.clone(), str::to_owned))
}

/// Returns the path in the first line of a file's diff. Both sides are the same there, unless the
/// file was renamed, in which case a later line names the path.
fn header_path(paths: &str) -> String {
    if let Some(quoted) = paths.strip_suffix('"')
        && let Some(at) = quoted.rfind(" \"")
    {
        return side(&paths[at + 1..]).unwrap_or_default();
    }
    // `a/PATH b/PATH`: the second half.
    let half = paths.len() / 2;
    let second = paths.get(half + 1..).unwrap_or(paths);
    side(second).unwrap_or_default()
}

/// Decodes a path that Git quoted.
fn unquote(text: &str) -> String {
    let Some(inner) = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
    else {
        return text.to_owned();
    };
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'r') => bytes.push(b'\r'),
            Some(b'a') => bytes.push(7),
            Some(b'b') => bytes.push(8),
            Some(b'f') => bytes.push(12),
            Some(b'v') => bytes.push(11),
            Some(first @ b'0'..=b'3') => {
                let mut value = first - b'0';
                for _ in 0..2 {
                    if let Some(digit @ b'0'..=b'7') = rest.next() {
                        value = value.wrapping_mul(8).wrapping_add(digit - b'0');
                    }
                }
                bytes.push(value);
            }
            Some(other) => bytes.push(other),
            None => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, added: u64, removed: u64) -> FileChange {
        FileChange {
            path: path.into(),
            added,
            removed,
            binary: false,
        }
    }

    #[test]
    fn files_and_lines_are_counted() {
        let diff = "diff --git a/a b c.rs b/a b c.rs\nindex 1..2 100644\n--- a/a b c.rs\t\n\
            +++ b/a b c.rs\t\n@@ -1,2 +1,3 @@ fn x\n line\n--- not a header\n+++ nor this\n+new\n\
            diff --git a/gone.txt b/gone.txt\ndeleted file mode 100644\n--- a/gone.txt\n\
            +++ /dev/null\n@@ -1 +0,0 @@\n-x\n\\ No newline at end of file\n\
            diff --git a/old.rs b/new.rs\nsimilarity index 100%\nrename from old.rs\n\
            rename to new.rs\n\
            diff --git \"a/\\303\\244.txt\" \"b/\\303\\244.txt\"\nnew file mode 100644\n\
            Binary files /dev/null and \"b/\\303\\244.txt\" differ\n";
        let mut found = files(diff);
        assert!(found[3].binary);
        found[3].binary = false;
        let expected = [
            change("a b c.rs", 2, 1),
            change("gone.txt", 0, 1),
            change("new.rs", 0, 0),
            change("ä.txt", 0, 0),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn entropy_is_zero_for_one_file_and_one_bit_for_two_equal_ones() {
        assert!(entropy(&[]).abs() < 1e-12);
        assert!(entropy(&[change("a", 3, 4)]).abs() < 1e-12);
        assert!((entropy(&[change("a", 2, 0), change("b", 1, 1)]) - 1.0).abs() < 1e-12);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_parsed(text in "(?s).{0,400}") {
            let _ = files(&text);
        }
    }
}
