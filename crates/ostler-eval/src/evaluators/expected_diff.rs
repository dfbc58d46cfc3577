//! `expected-diff`: how similar the result is to the expected one.
//!
//! Files are compared line by line with a diff that needs memory linear in their size. The
//! similarity of two files is the share of their lines that they have in common; that of two trees
//! is the mean of their differing files, weighted by lines. Files that the task never touched
//! (equal in the base, the result and the expectation) do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use similar::{Algorithm, DiffOp};

use super::config::{Judgement, parse};
use crate::case::EvaluatorSpec;
use crate::evaluator::{ConfigProblem, EvaluateFuture, Evaluator, Evidence};
use crate::trial::Evaluation;

/// Compares the result with an expected one.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExpectedDiff;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    /// Similarity from which the evaluator passes.
    threshold: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self { threshold: 0.8 }
    }
}

/// How long the comparison of two files may look for the shortest difference. After that, what is
/// left counts as different.
const MAX_COMPARE: Duration = Duration::from_secs(10);

/// Largest file that is compared by lines; larger ones are equal or different.
const MAX_FILE: u64 = 8 << 20;

impl Evaluator for ExpectedDiff {
    fn kind(&self) -> &'static str {
        "expected-diff"
    }

    fn check(&self, spec: &EvaluatorSpec) -> Vec<ConfigProblem> {
        match parse::<Config>(spec) {
            Err(problem) => vec![problem],
            Ok(config) if !(0.0..=1.0).contains(&config.threshold) => vec![ConfigProblem {
                key: "config.threshold".to_owned(),
                message: format!("{} is not between 0 and 1", config.threshold),
            }],
            Ok(_) => Vec::new(),
        }
    }

    fn evaluate<'a>(&'a self, spec: &'a EvaluatorSpec, evidence: Evidence) -> EvaluateFuture<'a> {
        Box::pin(async move {
            let (spec_copy, result) = (spec.clone(), Judgement::new(spec));
            let work = tokio::task::spawn_blocking(move || evaluate(&spec_copy, &evidence));
            match work.await {
                Ok(evaluation) => evaluation,
                Err(error) => result.errored(format!("the comparison crashed: {error}")),
            }
        })
    }
}

fn evaluate(spec: &EvaluatorSpec, evidence: &Evidence) -> Evaluation {
    let mut result = Judgement::new(spec);
    let config: Config = match parse(spec) {
        Ok(config) => config,
        Err(problem) => return result.errored(problem.message),
    };
    let Some(expected) = &evidence.expected else {
        return result.skipped("the case does not say what is expected (`expected`)");
    };
    let trees = Trees {
        base: &evidence.base,
        actual: &evidence.workspace,
        expected,
    };
    let similarities = match trees.compare() {
        Ok(similarities) => similarities,
        Err(error) => return result.errored(format!("cannot read the files: {error}")),
    };
    let similarity = aggregate(similarities.values());
    result.metric("aggregate_similarity", similarity);
    result.metric("threshold", config.threshold);
    let count = |state: FileState| {
        let files = similarities.values();
        files.filter(|file| file.state == state).count()
    };
    result.metric("files_matched", count(FileState::Matched));
    result.metric("files_changed", count(FileState::Differs));
    result.metric("files_added", count(FileState::Unexpected));
    result.metric("files_removed", count(FileState::Missing));
    let details: Vec<_> = similarities
        .iter()
        .map(|(path, file)| {
            json!({"path": path, "similarity": file.similarity, "status": file.state.as_str()})
        })
        .collect();
    result.metric("file_similarities", details);
    result.score(similarity);
    result.at_least("aggregate_similarity", similarity, Some(config.threshold));
    result.finish()
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileState {
    Matched,
    Differs,
    Unexpected,
    Missing,
}

impl FileState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Matched => "matched",
            Self::Differs => "changed",
            Self::Unexpected => "added",
            Self::Missing => "removed",
        }
    }
}

/// Comparison of one file.
#[derive(Debug, Clone, PartialEq)]
struct FileSimilarity {
    state: FileState,
    similarity: f64,
    /// Lines of both sides.
    lines: u64,
}

/// Weighted mean over files; 1 if there is nothing to compare.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of lines are far below 2^52"
)]
fn aggregate<'a>(files: impl Iterator<Item = &'a FileSimilarity>) -> f64 {
    let (mut sum, mut weight) = (0.0, 0.0);
    for file in files {
        let lines = file.lines.max(1) as f64;
        sum += file.similarity * lines;
        weight += lines;
    }
    if weight > 0.0 { sum / weight } else { 1.0 }
}

struct Trees<'a> {
    base: &'a Path,
    actual: &'a Path,
    expected: &'a Path,
}

impl Trees<'_> {
    fn compare(&self) -> io::Result<BTreeMap<String, FileSimilarity>> {
        let mut paths = BTreeSet::new();
        list(self.actual, "", &mut paths)?;
        list(self.expected, "", &mut paths)?;
        let mut found = BTreeMap::new();
        for path in paths {
            if let Some(similarity) = self.compare_file(&path)? {
                let _ = found.insert(path, similarity);
            }
        }
        Ok(found)
    }

    /// Compares one file; `None` if it is untouched on both sides.
    fn compare_file(&self, path: &str) -> io::Result<Option<FileSimilarity>> {
        let actual = read(&self.actual.join(path))?;
        let expected = read(&self.expected.join(path))?;
        let file = match (actual, expected) {
            (Some(actual), Some(expected)) if actual == expected => {
                if read(&self.base.join(path))?.as_ref() == Some(&expected) {
                    return Ok(None);
                }
                FileSimilarity {
                    state: FileState::Matched,
                    similarity: 1.0,
                    lines: 2 * line_count(&expected),
                }
            }
            (Some(actual), Some(expected)) => FileSimilarity {
                state: FileState::Differs,
                similarity: similarity(&actual, &expected),
                lines: line_count(&actual) + line_count(&expected),
            },
            (Some(actual), None) => FileSimilarity {
                state: FileState::Unexpected,
                similarity: 0.0,
                lines: line_count(&actual),
            },
            (None, Some(expected)) => FileSimilarity {
                state: FileState::Missing,
                similarity: 0.0,
                lines: line_count(&expected),
            },
            (None, None) => return Ok(None),
        };
        Ok(Some(file))
    }
}

/// Content of a file, as far as it is compared.
#[derive(Debug, PartialEq, Eq)]
enum Content {
    Text(String),
    /// A binary or very large file, or where a symbolic link points.
    Opaque(Vec<u8>),
}

/// Reads a file without following links; `None` if it does not exist.
fn read(path: &Path) -> io::Result<Option<Content>> {
    let meta = match path.symlink_metadata() {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(None),
        Err(error) => return Err(error),
    };
    if meta.is_symlink() {
        let target = std::fs::read_link(path)?;
        let target = target.into_os_string().into_encoded_bytes();
        return Ok(Some(Content::Opaque(target)));
    }
    if !meta.is_file() {
        return Ok(None);
    }
    let bytes = std::fs::read(path)?;
    Ok(Some(if meta.len() > MAX_FILE || bytes.contains(&0) {
        Content::Opaque(bytes)
    } else {
        match String::from_utf8(bytes) {
            Ok(text) => Content::Text(text),
            Err(error) => Content::Opaque(error.into_bytes()),
        }
    }))
}

fn line_count(content: &Content) -> u64 {
    match content {
        Content::Text(text) => u64::try_from(text.lines().count()).unwrap_or(u64::MAX),
        Content::Opaque(_) => 1,
    }
}

/// Returns the share of lines that two files have in common, from 0 to 1.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of lines are far below 2^52"
)]
fn similarity(actual: &Content, expected: &Content) -> f64 {
    let (Content::Text(actual), Content::Text(expected)) = (actual, expected) else {
        return 0.0;
    };
    let (old, new): (Vec<&str>, Vec<&str>) = (actual.lines().collect(), expected.lines().collect());
    let total = old.len() + new.len();
    if total == 0 {
        return 1.0;
    }
    let diff = similar::TextDiff::configure()
        .algorithm(Algorithm::Myers)
        .timeout(MAX_COMPARE)
        .diff_slices(&old, &new);
    let common: usize = diff
        .ops()
        .iter()
        .map(|op| match op {
            DiffOp::Equal { len, .. } => *len,
            _ => 0,
        })
        .sum();
    2.0 * common as f64 / total as f64
}

/// Lists the files below a directory, without Git's own.
fn list(root: &Path, below: &str, paths: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in std::fs::read_dir(root.join(below))? {
        let entry = entry?;
        let name = entry.file_name();
        if name == ".git" {
            continue;
        }
        let name = name.to_string_lossy();
        let path = if below.is_empty() {
            name.into_owned()
        } else {
            format!("{below}/{name}")
        };
        if entry.file_type()?.is_dir() {
            list(root, &path, paths)?;
        } else {
            let _ = paths.insert(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &[&str]) -> Content {
        Content::Text(lines.join("\n"))
    }

    #[test]
    fn similarity_is_the_share_of_common_lines() {
        for (actual, expected, share) in [
            (&["a", "b"][..], &["a", "b"][..], 1.0),
            (&["a", "b"], &["a", "c"], 0.5),
            (&["a"], &["b"], 0.0),
            (&["a", "b", "c"], &["a"], 0.5),
            (&[], &[], 1.0),
        ] {
            let found = similarity(&text(actual), &text(expected));
            assert!(
                (found - share).abs() < 1e-12,
                "{actual:?} {expected:?}: {found}"
            );
        }
        let binary = Content::Opaque(vec![0]);
        assert!(similarity(&binary, &text(&["a"])).abs() < 1e-12);
    }

    /// Catalogue 27: a table of all pairs of lines would need 16 GB here.
    #[test]
    fn large_files_are_compared_in_linear_memory() {
        let lines = |every: usize| {
            let lines = (0..64_000).map(|at| match at % every {
                0 => format!("changed {at} {every}"),
                _ => format!("line {at}"),
            });
            lines.collect::<Vec<_>>().join("\n")
        };
        let found = similarity(&Content::Text(lines(1000)), &Content::Text(lines(900)));
        assert!(found > 0.99 && found < 1.0, "{found}");
    }

    #[test]
    fn untouched_files_do_not_count() {
        let dir = tempfile::tempdir().unwrap();
        for (tree, name, content) in [
            ("base", "same", "x"),
            ("actual", "same", "x"),
            ("expected", "same", "x"),
            ("base", "fixed", "bad"),
            ("actual", "fixed", "good"),
            ("expected", "fixed", "good"),
            ("actual", "sub/extra", "1\n2\n"),
            ("expected", "missing", "1"),
        ] {
            let path = dir.path().join(tree).join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let trees = Trees {
            base: &dir.path().join("base"),
            actual: &dir.path().join("actual"),
            expected: &dir.path().join("expected"),
        };
        let found = trees.compare().unwrap();
        let states: Vec<_> = found
            .iter()
            .map(|(path, file)| (&**path, file.state))
            .collect();
        assert_eq!(
            states,
            [
                ("fixed", FileState::Matched),
                ("missing", FileState::Missing),
                ("sub/extra", FileState::Unexpected),
            ]
        );
        // 2 of 5 lines: the fixed file has one on each side.
        assert!((aggregate(found.values()) - 0.4).abs() < 1e-12);
    }
}
