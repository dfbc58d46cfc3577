//! Grading of a trial: evaluators on copies, apart from each other, and the verdict.

use std::fs;
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use ostler::event::EventKind;
use ostler::outcome::Outcome;
use tokio::task::JoinHandle;

use super::capture::{self, Captured};
use super::setup::{self, Ready, Setback};
use super::{DIFF_FILE, TrialRequest, TrialServices, message, runtime};
use crate::case::{EvaluatorSpec, Isolation};
use crate::embedder::Embedder;
use crate::evaluator::{Evaluator, Evidence};
use crate::evaluators::Judgement;
use crate::event_log::EventLog;
use crate::git::{Diff, Seed, Snapshot};
use crate::normalized;
use crate::report::result_line;
use crate::tree::{self, Omit};
use crate::trial::{Blame, Evaluation, TrialIdentity, TrialResult, Verdict};
use crate::workspace::{CommandPlace, PrivateHome, Scratch, choose_isolation};

/// What evaluators of one trial share.
struct Grading<'a> {
    request: &'a TrialRequest,
    services: &'a TrialServices,
    scratch: &'a Scratch,
    seed: &'a Seed,
    base: &'a Snapshot,
    expected: Option<PathBuf>,
    captured: &'a Captured,
}

impl<'a> Grading<'a> {
    fn of(
        request: &'a TrialRequest,
        services: &'a TrialServices,
        ready: &'a Ready,
        captured: &'a Captured,
    ) -> Self {
        Self {
            request,
            services,
            scratch: &ready.scratch,
            seed: &ready.seed,
            base: &ready.base,
            expected: ready.expected.clone(),
            captured,
        }
    }

    /// Creates a copy of the workspace: the base, with exactly the changes in the diff. Nothing
    /// else that the agent wrote is in it, such as build output or its `.git`.
    async fn copy(&self, name: &str) -> Result<PathBuf, Setback> {
        let dir = self.scratch.part(name);
        fs::create_dir_all(&dir).map_err(Setback::io(&dir))?;
        let workspace = dir.join("workspace");
        let base = self.scratch.base();
        tree::copy(&base, &workspace, Omit::Git).map_err(Setback::io(&workspace))?;
        let git = &self.services.git;
        let change = (self.base, &self.captured.snapshot);
        git.apply(self.seed, &self.scratch.trial(), change, &workspace)
            .await?;
        if self.request.case.mounts.is_none() {
            git.give_repository(self.seed, &workspace).await?;
        }
        let (setup, home) = (self.scratch.part("setup-home"), dir.join("home"));
        tree::copy(&setup, &home, Omit::Nothing).map_err(Setback::io(&home))?;
        Ok(workspace)
    }

    async fn evidence(
        &self,
        index: usize,
        spec: &EvaluatorSpec,
        identity: &TrialIdentity,
    ) -> Result<Evidence, Setback> {
        let workspace = self.copy(&format!("evaluator-{index}")).await?;
        let expected = match &self.expected {
            Some(expected) => {
                let copy = workspace.with_file_name("expected");
                tree::copy(expected, &copy, Omit::Nothing).map_err(Setback::io(&copy))?;
                Some(copy)
            }
            None => None,
        };
        let artifacts = self.request.artifacts.join(artifacts_of(spec));
        fs::create_dir_all(&artifacts).map_err(Setback::io(&artifacts))?;
        Ok(Evidence {
            case: self.request.case.clone(),
            identity: identity.clone(),
            workspace,
            base: self.scratch.base(),
            expected,
            diff: String::from_utf8_lossy(&self.captured.diff.patch).into(),
            changed: self.captured.diff.files.clone().into(),
            events: self.captured.events.clone(),
            log: Some(self.request.artifacts.join(normalized::FILE_NAME))
                .filter(|log| log.is_file()),
            artifacts,
        })
    }

    /// Runs all evaluators in parallel.
    async fn run(&self, identity: &TrialIdentity) -> Vec<Evaluation> {
        let specs = &self.request.case.evaluators;
        let mut tasks = Vec::new();
        for (index, spec) in specs.iter().enumerate() {
            let Some(evaluator) = self.services.evaluators.get(&spec.kind) else {
                let reason = format!("there is no evaluator {:?}", spec.kind);
                tasks.push(Err(Judgement::new(spec).errored(reason)));
                continue;
            };
            tasks.push(match self.evidence(index, spec, identity).await {
                Ok(evidence) => {
                    let embedder = self.services.embedder.clone();
                    let task = judge(evaluator, spec.clone(), evidence, embedder);
                    Ok(AbortOnDrop(tokio::spawn(task)))
                }
                Err(setback) => {
                    let reason = format!("cannot copy the workspace: {}", setback.message);
                    Err(Judgement::new(spec).errored(reason))
                }
            });
        }
        let mut evaluations = Vec::new();
        for (spec, task) in specs.iter().zip(tasks) {
            let mut done = match task {
                Ok(mut task) => (&mut task.0).await.unwrap_or_else(|error| {
                    let reason = format!("the evaluator crashed: {error}");
                    Judgement::new(spec).errored(reason)
                }),
                Err(done) => done,
            };
            let below = artifacts_of(spec);
            done.artifacts
                .iter_mut()
                .for_each(|path| *path = below.join(&*path));
            evaluations.push(done);
        }
        evaluations
    }
}

/// A task that ends with its handle, such as when the trial is cancelled.
struct AbortOnDrop(JoinHandle<Evaluation>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs one evaluator and measures its time.
async fn judge(
    evaluator: Arc<dyn Evaluator>,
    spec: EvaluatorSpec,
    evidence: Evidence,
    embedder: Arc<dyn Embedder>,
) -> Evaluation {
    let started = embedder.now();
    let mut done = evaluator.evaluate(&spec, evidence).await;
    if done.duration_ms == 0 {
        let took = embedder.now().0.saturating_sub(started.0);
        done.duration_ms = u64::try_from(took).unwrap_or(0);
    }
    done
}

/// Returns the directory of an evaluator below the trial's artifacts, whatever its name is.
fn artifacts_of(spec: &EvaluatorSpec) -> PathBuf {
    let mut parts = Path::new(&spec.name).components();
    let is_plain = matches!(
        (parts.next(), parts.next()),
        (Some(Component::Normal(_)), None)
    );
    let name = match is_plain && !spec.name.ends_with('/') {
        true => spec.name.clone(),
        false => crate::file_names::file_name(&spec.name),
    };
    PathBuf::from("evaluators").join(name)
}

/// Runs the evaluators of a trial.
pub(super) async fn evaluate(
    request: &TrialRequest,
    services: &TrialServices,
    ready: &Ready,
    captured: &Captured,
    result: &mut TrialResult,
) {
    let grading = Grading::of(request, services, ready, captured);
    result.evaluations = grading.run(&result.identity).await;
}

/// Decides on a trial. The evaluators decide; how the agent ended only says who is to blame.
pub(super) fn conclude(result: &mut TrialResult, blame: Option<Blame>, outcome: Option<&Outcome>) {
    let judged = || {
        let evaluations = result.evaluations.iter();
        evaluations.filter(|evaluation| evaluation.verdict != Verdict::Skipped)
    };
    let first = |verdict: Verdict| {
        judged().find(|evaluation| evaluation.required && evaluation.verdict == verdict)
    };
    let why = |evaluation: &Evaluation| {
        let reason = evaluation.reason.as_deref().unwrap_or("no reason given");
        format!("{}: {reason}", evaluation.name)
    };
    let (verdict, blame, text) = if let Some(errored) = first(Verdict::Errored) {
        (Verdict::Errored, Some(Blame::Evaluator), Some(why(errored)))
    } else if let Some(failed) = first(Verdict::Failed) {
        let blame = blame.unwrap_or(Blame::Agent);
        let mut text = why(failed);
        if let Some(outcome) = outcome.filter(|_| blame == Blame::Limit) {
            text = format!("{text} ({})", message(outcome));
        }
        (Verdict::Failed, Some(blame), Some(text))
    } else if judged().next().is_some() {
        (Verdict::Passed, None, None)
    } else if let (Some(blame), Some(outcome)) = (blame, outcome) {
        (Verdict::Failed, Some(blame), Some(message(outcome)))
    } else if result.evaluations.is_empty() {
        (Verdict::Passed, None, None)
    } else {
        let skipped = result.evaluations.first();
        let reason = skipped.and_then(|it| it.reason.clone());
        let text = reason.unwrap_or_else(|| "no evaluator judged the trial".to_owned());
        (Verdict::Skipped, None, Some(text))
    };
    let (mut sum, mut weights) = (0.0, 0.0);
    for evaluation in judged() {
        // A required evaluator without a score gives no point. An optional one does not count.
        let none = evaluation.required.then_some(0.0);
        if let Some(score) = evaluation.score.or(none) {
            sum += score * evaluation.weight;
            weights += evaluation.weight;
        }
    }
    // Without any score, the trial has none either: an error is not a zero.
    let is_scored = judged().any(|evaluation| evaluation.score.is_some());
    result.score = (weights > 0.0 && is_scored).then(|| sum / weights);
    (result.verdict, result.blame, result.message) = (verdict, blame, text);
}

/// Runs the commands after the evaluation, in a copy of their own. A failure is a warning.
pub(super) async fn after(
    request: &TrialRequest,
    services: &TrialServices,
    ready: &Ready,
    captured: &Captured,
    result: &mut TrialResult,
) {
    export(request, result);
    if request.case.post_evaluation.is_empty() {
        return;
    }
    capture::write_result(&request.artifacts, result);
    let grading = Grading::of(request, services, ready, captured);
    let workspace = match grading.copy("after").await {
        Ok(workspace) => workspace,
        Err(setback) => {
            result
                .warnings
                .push(format!("post_evaluation: {}", setback.message));
            return;
        }
    };
    let Ok(home) = PrivateHome::beside(&workspace) else {
        return;
    };
    let host = services.embedder.host();
    let place = CommandPlace::new(host, &home, workspace, Isolation::Directory);
    for command in &request.case.post_evaluation {
        let mut command = runtime::command(command, request, place.dir());
        let artifacts = request.artifacts.to_string_lossy().into_owned();
        command
            .env
            .entry("EVAL_ARTIFACTS".to_owned())
            .or_insert(artifacts);
        let failure = match place.run(&command).await {
            Ok(output) if output.succeeded() => continue,
            Ok(output) => format!("exit code {:?}: {}", output.exit_code, output.stderr_text()),
            Err(error) => error.to_string(),
        };
        let shown = command.argv.join(" ");
        result
            .warnings
            .push(format!("post_evaluation `{shown}`: {failure}"));
    }
}

/// Writes the result to the files that the case names. A failure is a warning.
pub(super) fn export(request: &TrialRequest, result: &mut TrialResult) {
    let dir = request.case.file.parent().unwrap_or(Path::new("."));
    for export in &request.case.exports {
        let path = dir.join(&export.path);
        let line = result_line(result, export.full);
        let written = path
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| {
                let mut options = fs::File::options();
                options.create(true).append(export.append);
                options.write(true).truncate(!export.append);
                options.open(&path)?.write_all(line.as_bytes())
            });
        if let Err(error) = written {
            let path = path.display();
            result
                .warnings
                .push(format!("the result was not written to {path}: {error}"));
        }
    }
}

/// Evaluates an accepted attempt again, without its agent: from the stored diff and events.
///
/// # Errors
/// Says what is missing to do so.
pub async fn regrade(
    request: &TrialRequest,
    services: &TrialServices,
    old: &TrialResult,
) -> Result<TrialResult, RegradeError> {
    regrade_inner(request, services, old)
        .await
        .map_err(|setback| RegradeError(setback.message))
}

/// A trial that cannot be evaluated again, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RegradeError(String);

async fn regrade_inner(
    request: &TrialRequest,
    services: &TrialServices,
    old: &TrialResult,
) -> Result<TrialResult, Setback> {
    let patch_file = old.artifacts.join(DIFF_FILE);
    let patch = fs::read(&patch_file).map_err(Setback::io(&patch_file))?;
    let events = EventLog::of(&old.artifacts);
    let scratch = setup::create_scratch(request, services)?;
    let host = services.embedder.host();
    let isolation = choose_isolation(
        services.options.isolation,
        &request.case,
        &host,
        scratch.root(),
    )?;
    let (seed, base) = setup::restore_base(request, services, &scratch, old, isolation).await?;
    // The workspace is the base with the stored changes.
    let workspace = scratch.workspace();
    tree::copy(&scratch.base(), &workspace, Omit::Git).map_err(Setback::io(&workspace))?;
    if !patch.is_empty() {
        services.git.apply_patch(&workspace, &patch_file).await?;
    }
    let trial = scratch.trial();
    let git = &services.git;
    let snapshot = git
        .snapshot(&seed, &trial, &workspace, &scratch.base())
        .await?;
    let diff = git.diff(&seed, &trial, &base, &snapshot).await?;
    let expected = setup::check_out_expected(&request.case, services, &scratch).await?;
    let captured = Captured {
        snapshot,
        diff: Diff { patch, ..diff },
        events,
    };
    let mut result = old.clone();
    result.identity.case_hash = crate::identity::case_hash(&request.case);
    let grading = Grading {
        request,
        services,
        scratch: &scratch,
        seed: &seed,
        base: &base,
        expected,
        captured: &captured,
    };
    let identity = TrialIdentity {
        isolation,
        ..result.identity.clone()
    };
    result.evaluations = grading.run(&identity).await;
    let blame = result.cause.and_then(super::blame);
    let outcome = outcome_of(&captured.events, old);
    conclude(&mut result, blame, outcome.as_ref());
    result.completed_at = services.embedder.now().to_string();
    capture::write_result(&request.artifacts, &mut result);
    Ok(result)
}

/// Returns how the session of a stored trial ended: from its events, or from its result.
fn outcome_of(events: &EventLog, old: &TrialResult) -> Option<Outcome> {
    let ended = events.iter().filter_map(|event| match event.kind {
        EventKind::Ended(ended) => Some(ended.outcome),
        _ => None,
    });
    ended.last().or_else(|| {
        let text = old.message.as_deref().unwrap_or("the agent did not finish");
        Some(Outcome::new(old.cause?, text))
    })
}
