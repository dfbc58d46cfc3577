//! Evaluator `files`: which files exist, what they contain, and which paths must not change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use globset::{Glob, GlobSetBuilder};
use serde::Deserialize;
use serde_json::Value;

use super::config::{Judgement, inside, parse};
use crate::case::EvaluatorSpec;
use crate::evaluator::{ConfigProblem, EvaluateFuture, Evaluator, Evidence};
use crate::trial::Evaluation;

/// Largest file that is read.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// Configuration of the evaluator.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Paths that must exist.
    #[serde(default)]
    exists: Vec<String>,
    /// Paths that must not exist.
    #[serde(default)]
    absent: Vec<String>,
    /// Text that a file must contain.
    #[serde(default)]
    contains: BTreeMap<String, String>,
    /// Regular expression that a file must match.
    #[serde(default)]
    matches: BTreeMap<String, String>,
    /// JSON schema that a file must satisfy.
    #[serde(default)]
    json_schema: BTreeMap<String, Value>,
    /// Patterns of paths that the agent must not change.
    #[serde(default)]
    forbidden: Vec<String>,
}

impl Config {
    fn is_empty(&self) -> bool {
        self.exists.is_empty()
            && self.absent.is_empty()
            && self.contains.is_empty()
            && self.matches.is_empty()
            && self.json_schema.is_empty()
            && self.forbidden.is_empty()
    }
}

/// Checks files in a copy of the workspace.
pub struct FilesEvaluator;

impl FilesEvaluator {
    fn judge(spec: &EvaluatorSpec, evidence: &Evidence) -> Evaluation {
        let mut result = Judgement::new(spec);
        let config: Config = match parse(spec) {
            Ok(config) => config,
            Err(problem) => return result.errored(problem.message),
        };
        let root = &evidence.workspace;
        let mut failures = Vec::new();
        let mut checked: u64 = 0;
        let mut check = |failure: Option<String>| {
            checked += 1;
            failures.extend(failure);
        };
        for path in &config.exists {
            check(
                inside(root, path)
                    .is_none()
                    .then(|| format!("{path} does not exist")),
            );
        }
        for path in &config.absent {
            let exists = fs::symlink_metadata(root.join(path)).is_ok();
            check(exists.then(|| format!("{path} exists")));
        }
        for (path, text) in &config.contains {
            check(check_content(root, path, |found| {
                (!found.contains(text)).then(|| format!("{path} does not contain {text:?}"))
            }));
        }
        for (path, pattern) in &config.matches {
            check(check_content(root, path, |found| {
                let is_match = regex::Regex::new(pattern).is_ok_and(|re| re.is_match(found));
                (!is_match).then(|| format!("{path} does not match {pattern:?}"))
            }));
        }
        for (path, schema) in &config.json_schema {
            check(check_content(root, path, |found| {
                schema_failure(schema, found).map(|why| format!("{path}: {why}"))
            }));
        }
        for path in forbidden(&config.forbidden, &evidence.changed) {
            let path = path.display();
            check(Some(format!("{path} was changed, which is forbidden")));
        }
        result.metric("failures", failures.len());
        result.metric("checks", checked);
        failures
            .into_iter()
            .for_each(|failure| result.fail(failure));
        result.finish()
    }
}

/// Checks the content of a file. Returns what is wrong.
fn check_content(
    root: &Path,
    path: &str,
    check: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let Some(file) = inside(root, path) else {
        return Some(format!("{path} does not exist"));
    };
    let length = fs::metadata(&file).map_or(0, |meta| meta.len());
    if length > MAX_FILE {
        return Some(format!("{path} has {length} bytes, too many to check"));
    }
    match fs::read(&file) {
        Ok(bytes) => check(&String::from_utf8_lossy(&bytes)),
        Err(error) => Some(format!("{path}: {error}")),
    }
}

fn schema_failure(schema: &Value, text: &str) -> Option<String> {
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => return Some(format!("not JSON: {error}")),
    };
    match jsonschema::validator_for(schema) {
        Ok(validator) => {
            let first = validator.iter_errors(&value).next()?;
            Some(format!(
                "{first} (at {:?})",
                first.instance_path().to_string()
            ))
        }
        Err(error) => Some(format!("the schema is invalid: {error}")),
    }
}

/// Returns the changed paths that match a forbidden pattern.
fn forbidden<'a>(patterns: &[String], changed: &'a [PathBuf]) -> Vec<&'a PathBuf> {
    let mut set = GlobSetBuilder::new();
    for glob in patterns.iter().filter_map(|text| Glob::new(text).ok()) {
        set.add(glob);
    }
    let Ok(set) = set.build() else {
        return Vec::new();
    };
    changed.iter().filter(|path| set.is_match(path)).collect()
}

impl Evaluator for FilesEvaluator {
    fn kind(&self) -> &'static str {
        "files"
    }

    fn check(&self, spec: &EvaluatorSpec) -> Vec<ConfigProblem> {
        let config: Config = match parse(spec) {
            Ok(config) => config,
            Err(problem) => return vec![problem],
        };
        let mut problems = Vec::new();
        let mut add = |key: String, message: String| problems.push(ConfigProblem { key, message });
        if config.is_empty() {
            add(
                "config".to_owned(),
                "expected at least one check, such as `exists`".to_owned(),
            );
        }
        for (path, pattern) in &config.matches {
            if let Err(error) = regex::Regex::new(pattern) {
                add(format!("config.matches.{path}"), error.to_string());
            }
        }
        for (index, pattern) in config.forbidden.iter().enumerate() {
            if let Err(error) = Glob::new(pattern) {
                add(format!("config.forbidden[{index}]"), error.to_string());
            }
        }
        for (path, schema) in &config.json_schema {
            if let Err(error) = jsonschema::validator_for(schema) {
                add(format!("config.json_schema.{path}"), error.to_string());
            }
        }
        problems
    }

    fn evaluate<'a>(&'a self, spec: &'a EvaluatorSpec, evidence: Evidence) -> EvaluateFuture<'a> {
        Box::pin(async move { Self::judge(spec, &evidence) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_paths_match_patterns() {
        let changed = ["gone", "src/a.rs", "src/\u{e4} \"x\".rs", "x.bin"].map(PathBuf::from);
        let patterns = ["src/**".to_owned(), "x.*".to_owned()];
        let found = forbidden(&patterns, &changed);
        assert_eq!(found, changed[1..].iter().collect::<Vec<_>>());
    }
}
