//! `git-diff`: how much the agent changed, against thresholds.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::config::{Judgement, parse};
use crate::case::EvaluatorSpec;
use crate::evaluator::{ConfigProblem, EvaluateFuture, Evaluator, Evidence};
use crate::patch;
use crate::trial::Evaluation;

/// Evaluates the size and spread of a change.
#[derive(Debug, Clone, Copy, Default)]
pub struct GitDiff;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    /// Commit that the diff must be against. The diff is always against the recorded base, so any
    /// other commit is an error.
    base_commit: Option<String>,
    assertions: Thresholds,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Thresholds {
    min_files_changed: Option<f64>,
    max_files_changed: Option<f64>,
    min_lines_added: Option<f64>,
    max_lines_added: Option<f64>,
    max_lines_removed: Option<f64>,
    max_total_changes: Option<f64>,
    min_change_entropy: Option<f64>,
    max_change_entropy: Option<f64>,
}

impl Evaluator for GitDiff {
    fn kind(&self) -> &'static str {
        "git-diff"
    }

    fn check(&self, spec: &EvaluatorSpec) -> Vec<ConfigProblem> {
        parse::<Config>(spec).err().into_iter().collect()
    }

    fn evaluate<'a>(&'a self, spec: &'a EvaluatorSpec, evidence: Evidence) -> EvaluateFuture<'a> {
        Box::pin(async move { evaluate(spec, &evidence) })
    }
}

fn evaluate(spec: &EvaluatorSpec, evidence: &Evidence) -> Evaluation {
    let mut result = Judgement::new(spec);
    let config: Config = match parse(spec) {
        Ok(config) => config,
        Err(problem) => return result.errored(problem.message),
    };
    let commit = &evidence.identity.commit;
    if let Some(base) = config
        .base_commit
        .filter(|base| !commit.starts_with(base.as_str()))
    {
        return result.errored(format!(
            "base_commit is {base}, but the trial started from {commit}"
        ));
    }
    judge(&mut result, &config.assertions, &evidence.diff);
    if let Err(error) = write(&evidence.artifacts, &evidence.diff) {
        return result.errored(format!("cannot write the patch: {error}"));
    }
    result.artifact(PATCH);
    result.finish()
}

/// Name of the patch among the evaluator's artifacts.
const PATCH: &str = "git-diff.patch";

fn write(dir: &Path, diff: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    std::fs::write(dir.join(PATCH), diff)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of lines are far below 2^52"
)]
fn judge(result: &mut Judgement, limits: &Thresholds, diff: &str) {
    let files = patch::files(diff);
    let added: u64 = files.iter().map(|file| file.added).sum();
    let removed: u64 = files.iter().map(|file| file.removed).sum();
    let entropy = patch::entropy(&files);
    result.metric("files_changed", files.len());
    result.metric("lines_added", added);
    result.metric("lines_removed", removed);
    result.metric("total_changes", added + removed);
    result.metric("change_entropy", entropy);
    let changed: Vec<Value> = files
        .iter()
        .map(|file| {
            json!({"path": file.path, "added": file.added, "removed": file.removed,
                   "binary": file.binary})
        })
        .collect();
    result.metric("changed_files", changed);
    let count = files.len() as f64;
    result.at_least("files_changed", count, limits.min_files_changed);
    result.at_most("files_changed", count, limits.max_files_changed);
    result.at_least("lines_added", added as f64, limits.min_lines_added);
    result.at_most("lines_added", added as f64, limits.max_lines_added);
    result.at_most("lines_removed", removed as f64, limits.max_lines_removed);
    let total = (added + removed) as f64;
    result.at_most("total_changes", total, limits.max_total_changes);
    result.at_least("change_entropy", entropy, limits.min_change_entropy);
    result.at_most("change_entropy", entropy, limits.max_change_entropy);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Verdict;

    /// Two files with two added lines each, and one removed line.
    const DIFF: &str = "\
diff --git a/a b/a
--- a/a
+++ b/a
@@ -1 +1,2 @@
-old
+new
+more
diff --git a/b b/b
new file mode 100644
--- /dev/null
+++ b/b
@@ -0,0 +1,2 @@
+one
+two
";

    // Each threshold holds at its bound, and fails just beyond it.
    #[test]
    fn every_threshold_holds_and_fails() {
        let entropy = patch::entropy(&patch::files(DIFF));
        assert!(entropy > 0.9 && entropy < 1.0, "{entropy}");
        for (name, holds, fails) in [
            ("min_files_changed", 2.0, 3.0),
            ("max_files_changed", 2.0, 1.0),
            ("min_lines_added", 4.0, 5.0),
            ("max_lines_added", 4.0, 3.0),
            ("max_lines_removed", 1.0, 0.0),
            ("max_total_changes", 5.0, 4.0),
            ("min_change_entropy", entropy, 0.99),
            ("max_change_entropy", entropy, 0.9),
        ] {
            for (limit, wanted) in [(holds, Verdict::Passed), (fails, Verdict::Failed)] {
                let limits = json!({ name: limit });
                let config = json!({"assertions": limits});
                let spec = EvaluatorSpec {
                    name: "git-diff".into(),
                    kind: "git-diff".into(),
                    config: config.as_object().unwrap().clone(),
                    weight: 1.0,
                    required: true,
                };
                let config: Config = parse(&spec).unwrap();
                let mut result = Judgement::new(&spec);
                judge(&mut result, &config.assertions, DIFF);
                let found = result.finish();
                assert_eq!(found.verdict, wanted, "{name} {limit}: {found:?}");
            }
        }
    }
}
