//! SWE-bench rows as cases, and predictions in its format.
//!
//! The row's tests need the environment that SWE-bench builds, so they are not run here: a trial is
//! `skipped`, and SWE-bench's own harness grades the predictions.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::files::read_named;
use super::tree::{Position, Problem, ProblemCode, Problems};
use crate::case::{Case, EvaluatorSpec, Source, TrialLimits, WorkspaceSettings};
use crate::evaluators::SWE_BENCH;

/// Maximum size of a file of rows, in bytes.
const MAX_ROWS: u64 = 512 * 1024 * 1024;

/// The fields of a row that a case is made of.
#[derive(Debug, Deserialize)]
struct Row {
    instance_id: String,
    repo: String,
    base_commit: String,
    problem_statement: String,
    #[serde(default)]
    version: Option<String>,
}

/// One line of a file of predictions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prediction {
    /// The row.
    pub instance_id: String,
    /// The contender.
    pub model_name_or_path: String,
    /// The diff against the base commit.
    pub model_patch: String,
}

/// Reads a file of rows, one JSON object per line.
///
/// # Errors
/// Every line that is not a row.
pub fn load(path: &Path) -> Result<Vec<Case>, Problems> {
    let text = read_named(path, MAX_ROWS).map_err(|error| {
        Problems(vec![Problem {
            file: path.to_owned(),
            at: None,
            key: String::new(),
            code: ProblemCode::Unreadable,
            message: error.to_string(),
        }])
    })?;
    parse_rows(&text, path)
}

/// Parses rows. `path` is the file that they come from.
///
/// # Errors
/// Every line that is not a row.
pub fn parse_rows(text: &str, path: &Path) -> Result<Vec<Case>, Problems> {
    let (mut cases, mut problems) = (Vec::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let mut fault = |column, key: &str, code, message| {
            problems.push(Problem {
                file: path.to_owned(),
                at: Some(Position {
                    line: index + 1,
                    column,
                }),
                key: key.to_owned(),
                code,
                message,
            });
        };
        match serde_json::from_str::<Row>(line) {
            Ok(row) => match check(&row) {
                Ok(()) => cases.push(case(row, path)),
                Err((key, message)) => {
                    fault(1, key, ProblemCode::OutOfBounds, message.to_owned());
                }
            },
            Err(error) => {
                let message = format!("is not a row of SWE-bench: {error}");
                fault(error.column().max(1), "", ProblemCode::Syntax, message);
            }
        }
    }
    if problems.is_empty() {
        Ok(cases)
    } else {
        Err(Problems(problems))
    }
}

/// Checks what becomes part of a path or of a command.
fn check(row: &Row) -> Result<(), (&'static str, &'static str)> {
    let is_name = |text: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        !text.is_empty() && text.chars().all(allowed) && !text.starts_with(['.', '-'])
    };
    let parts: Vec<&str> = row.repo.split('/').collect();
    if parts.len() != 2 || !parts.iter().all(|part| is_name(part)) {
        return Err(("repo", "must be owner/name"));
    }
    if !is_name(&row.instance_id) {
        return Err((
            "instance_id",
            "must consist of letters, digits, `.`, `_` and `-`",
        ));
    }
    let is_commit = row.base_commit.len() >= 7;
    if !is_commit || !row.base_commit.chars().all(|c| c.is_ascii_hexdigit()) {
        return Err(("base_commit", "must be a commit"));
    }
    if row.problem_statement.trim().is_empty() {
        return Err(("problem_statement", "must not be empty"));
    }
    Ok(())
}

fn case(row: Row, path: &Path) -> Case {
    let description = match &row.version {
        Some(version) => format!("{} {version}", row.repo),
        None => row.repo.clone(),
    };
    Case {
        name: row.instance_id,
        description: Some(description),
        file: path.to_owned(),
        source: Source::Repository {
            url: format!("https://github.com/{}.git", row.repo),
            branch: None,
            commit: Some(row.base_commit),
        },
        prompt: row.problem_statement,
        agent: None,
        expected: None,
        evaluators: vec![EvaluatorSpec {
            name: SWE_BENCH.to_owned(),
            kind: SWE_BENCH.to_owned(),
            config: Map::new(),
            weight: 1.0,
            required: true,
        }],
        pre_execution: Vec::new(),
        post_evaluation: Vec::new(),
        limits: TrialLimits::default(),
        mounts: None,
        workspace: WorkspaceSettings::default(),
        exports: Vec::new(),
    }
}

/// Writes predictions, one JSON object per line.
#[must_use]
pub fn write_predictions(predictions: &[Prediction]) -> String {
    let lines = predictions
        .iter()
        .filter_map(|it| serde_json::to_string(it).ok());
    lines.map(|line| line + "\n").collect()
}
