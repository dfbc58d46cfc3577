//! One attempt at a trial: availability, checkout, setup, agent, capture, evaluators, verdict.

mod capture;
mod grade;
mod reference;
mod runtime;
mod setup;

use std::path::PathBuf;
use std::sync::Arc;

use ostler::event::{Event, EventKind, Timestamp};
use ostler::outcome::Outcome;
use ostler::{Cause, Usage};
use ostler_core::usage::Scope;
use tokio::sync::watch;

use crate::adapter::{AgentAdapter, ErrorCode, Execution, ExecutionContext, until_true};
use crate::case::{Case, Contender, Isolation};
use crate::embedder::{AgentRequest, Embedder, Projection};
use crate::git::Git;
use crate::identity;
use crate::registry::Evaluators;
use crate::trial::{Blame, TrialIdentity, TrialKey, TrialResult, Verdict};

pub use self::grade::regrade;
pub use self::reference::REFERENCE_AGENTS;
use self::setup::{Setback, TrialAgent};
pub use crate::patch::DIFF_FILE;

/// Name of the file with the result of a trial.
pub const RESULT_FILE: &str = "result.json";

/// The agent whose answers come from a script, and not from a model.
const SCRIPTED: &str = "scripted";

/// What all trials of a run share.
pub struct TrialServices {
    /// The program around the evaluation.
    pub embedder: Arc<dyn Embedder>,
    /// The evaluators.
    pub evaluators: Evaluators,
    /// Git and its cache.
    pub git: Git,
    /// Directory for workspaces, which are removed when a trial ends.
    pub work: PathBuf,
    /// Further projections of events, written to the artifacts.
    pub projections: Vec<Arc<dyn Projection>>,
    /// Options.
    pub options: TrialOptions,
}

/// Options of all trials of a run.
#[derive(Debug, Clone, Default)]
pub struct TrialOptions {
    /// The isolation; the sandbox where it holds by default.
    pub isolation: Option<Isolation>,
    /// Whether agents use the user's home directory, with its logins and settings.
    pub share_login: bool,
    /// Whether workspaces are left in place.
    pub keep_workspaces: bool,
}

/// One attempt at a trial.
#[derive(Debug, Clone)]
pub struct TrialRequest {
    /// Name of the run.
    pub run: String,
    /// The case.
    pub case: Arc<Case>,
    /// The agent.
    pub contender: Contender,
    /// The repetition, from 1.
    pub repetition: u32,
    /// Number of the attempt.
    pub attempt: u64,
    /// Directory of its artifacts.
    pub artifacts: PathBuf,
    /// What it may spend of the run's budget.
    pub cap_usd: Option<f64>,
}

impl TrialRequest {
    /// Returns which trial it is.
    #[must_use]
    pub fn key(&self) -> TrialKey {
        TrialKey {
            case: self.case.name.clone(),
            contender: self.contender.label.clone(),
            repetition: self.repetition,
        }
    }
}

/// What an attempt is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Checks the agent and creates the workspace.
    Preparing,
    /// The agent works.
    Working,
    /// The evaluators judge.
    Evaluating,
}

/// How a caller follows an attempt.
pub struct TrialHooks<'a> {
    /// Called when the phase changes.
    pub on_phase: &'a (dyn Fn(Phase) + Sync),
    /// Called with the session's id when tokens or cost change.
    pub on_usage: &'a (dyn Fn(&str, &Usage) + Sync),
    /// Becomes true when the attempt is cancelled.
    pub cancelled: watch::Receiver<bool>,
}

/// Result of an attempt, and what becomes of it.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The result.
    pub result: TrialResult,
    /// What becomes of it.
    pub disposition: Disposition,
}

/// What becomes of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// It is the trial's result.
    Accept,
    /// The infrastructure failed in a way that may pass, at the earliest at this time.
    Retry(Option<Timestamp>),
    /// The user, or the run's budget, cancelled it.
    Cancel,
    /// Its machine gave it up without a result. The trial is tried again.
    Lost,
}

/// Runs one attempt. It never fails: whatever happens is in its result.
pub async fn run_trial(
    request: &TrialRequest,
    services: &TrialServices,
    hooks: TrialHooks<'_>,
) -> Attempt {
    let started = services.embedder.now();
    (hooks.on_phase)(Phase::Preparing);
    let mut result = blank(request, started);
    let mut stop = hooks.cancelled.clone();
    let setup = tokio::select! {
        setup = setup::prepare(request, services, &mut result.identity) => Some(setup),
        () = until_true(&mut stop) => None,
    };
    let disposition = match setup {
        Some(Ok(ready)) if !*hooks.cancelled.borrow() => {
            work(request, services, &hooks, &mut result, ready).await
        }
        Some(Err(setback)) => set_back(&mut result, &setback),
        Some(Ok(_)) | None => cancelled(&mut result),
    };
    result.completed_at = services.embedder.now().to_string();
    capture::write_result(&request.artifacts, &mut result);
    Attempt {
        result,
        disposition,
    }
}

/// Runs the agent and the evaluators in a prepared workspace.
async fn work(
    request: &TrialRequest,
    services: &TrialServices,
    hooks: &TrialHooks<'_>,
    result: &mut TrialResult,
    mut ready: setup::Ready,
) -> Disposition {
    (hooks.on_phase)(Phase::Working);
    let now = || services.embedder.now();
    let context = ExecutionContext {
        artifacts: &request.artifacts,
        now: &now,
        on_usage: hooks.on_usage,
        cancelled: hooks.cancelled.clone(),
    };
    let execution = match &ready.agent {
        TrialAgent::Adapter(adapter) => {
            result.replayed = adapter.agent.about().name == SCRIPTED;
            adapter.execute(&context).await
        }
        TrialAgent::Reference(agent) => agent.execute(request, services, &ready, &context).await,
    };
    // Neither evaluators nor a workspace that is kept have a login.
    drop(std::mem::take(&mut ready.login));
    record(result, &execution);
    let warnings = capture::project(request, services, &ready, &execution);
    result.warnings.extend(warnings);
    if *hooks.cancelled.borrow() {
        return cancelled(result);
    }
    let outcome = &execution.outcome;
    if outcome.cause == Cause::Budget && ready.is_capped_by_run {
        result.message = Some("the budget of the run ended the trial".to_owned());
        result.blame = Some(Blame::Cancelled);
        result.verdict = Verdict::Skipped;
        return Disposition::Cancel;
    }
    let blame = blame(outcome.cause);
    if blame == Some(Blame::Infrastructure) {
        result.blame = blame;
        result.verdict = Verdict::Errored;
        result.message = Some(message(outcome));
        return match is_transient(outcome.cause) {
            true => Disposition::Retry(resets_at(outcome)),
            false => Disposition::Accept,
        };
    }
    (hooks.on_phase)(Phase::Evaluating);
    let mut stop = hooks.cancelled.clone();
    let judged = tokio::select! {
        judged = judge(request, services, &ready, (&execution, blame), result) => Some(judged),
        () = until_true(&mut stop) => None,
    };
    match judged {
        Some(Ok(())) => Disposition::Accept,
        Some(Err(setback)) => set_back(result, &setback),
        None => cancelled(result),
    }
}

/// Captures what the agent left, and runs the evaluators and the commands after them.
async fn judge(
    request: &TrialRequest,
    services: &TrialServices,
    ready: &setup::Ready,
    (execution, blame): (&Execution, Option<Blame>),
    result: &mut TrialResult,
) -> Result<(), Setback> {
    let captured = capture::capture(request, services, ready, execution).await?;
    result.diff_files = u32::try_from(captured.diff.files.len()).unwrap_or(u32::MAX);
    grade::evaluate(request, services, ready, &captured, result).await;
    grade::conclude(result, blame, Some(&execution.outcome));
    grade::after(request, services, ready, &captured, result).await;
    Ok(())
}

/// Returns the result of an attempt that a place could not run at all.
#[must_use]
pub fn unplaced(request: &TrialRequest, at: Timestamp, message: String) -> TrialResult {
    TrialResult {
        blame: Some(Blame::Infrastructure),
        message: Some(message),
        ..blank(request, at)
    }
}

/// Writes the result of a trial that ran elsewhere to its artifacts, and to the files that the
/// case names.
pub fn publish_result(request: &TrialRequest, result: &mut TrialResult) {
    grade::export(request, result);
    capture::write_result(&request.artifacts, result);
}

/// Writes the result of a trial with the usage of all its attempts to its artifacts.
pub(crate) fn rewrite_result(result: &mut TrialResult) {
    let artifacts = result.artifacts.clone();
    capture::write_result(&artifacts, result);
}

/// Returns a result without a verdict.
fn blank(request: &TrialRequest, started: Timestamp) -> TrialResult {
    let prompt = identity::prompt(&request.case, &request.contender);
    TrialResult {
        key: request.key(),
        identity: TrialIdentity {
            case: request.case.name.clone(),
            case_hash: identity::case_hash(&request.case),
            commit: String::new(),
            agent: request.contender.agent.clone(),
            agent_version: None,
            model: request.contender.model.clone(),
            reported_model: None,
            prompt_hash: identity::sha256(&prompt),
            settings_hash: identity::settings_hash(&request.contender),
            isolation: Isolation::Directory,
            ostler: env!("CARGO_PKG_VERSION").to_owned(),
        },
        verdict: Verdict::Errored,
        blame: None,
        cause: None,
        message: None,
        score: None,
        evaluations: Vec::new(),
        usage: Usage::unknown(Scope::Session),
        attempts: u32::try_from(request.attempt).unwrap_or(u32::MAX),
        session: None,
        started_at: started.to_string(),
        completed_at: started.to_string(),
        agent_ms: 0,
        working_ms: None,
        diff_files: 0,
        artifacts: request.artifacts.clone(),
        replayed: false,
        metered: false,
        unmetered_attempts: Vec::new(),
        warnings: Vec::new(),
    }
}

/// Records what is known of an execution.
fn record(result: &mut TrialResult, execution: &Execution) {
    result.cause = Some(execution.outcome.cause);
    result.session.clone_from(&execution.session);
    result.agent_ms = execution.result.duration_ms;
    result.working_ms = working_ms(execution.events.iter());
    if let Some(usage) = &execution.usage {
        result.metered = usage.total().is_some() || usage.cost_usd.is_some();
        result.usage = usage.clone();
    }
    if execution.agent_version.is_some() {
        result
            .identity
            .agent_version
            .clone_from(&execution.agent_version);
    }
    result.identity.reported_model.clone_from(&execution.model);
    let notes = execution.result.errors.iter();
    let notes = notes.filter(|error| matches!(error.code, ErrorCode::Adapter(_)));
    result
        .warnings
        .extend(notes.map(|error| error.message.clone()));
}

/// Returns the time of an agent's turns; `None` if none ended.
fn working_ms(events: impl Iterator<Item = Event>) -> Option<u64> {
    let (mut started, mut sum) = (None, None);
    for event in events {
        match (&event.kind, started) {
            (EventKind::TurnStarted(_), _) => started = Some(event.at),
            (EventKind::TurnEnded(_), Some(at)) => {
                let took = u64::try_from(event.at.0.saturating_sub(at.0)).unwrap_or(0);
                sum = Some(sum.unwrap_or(0) + took);
                started = None;
            }
            _ => {}
        }
    }
    sum
}

fn cancelled(result: &mut TrialResult) -> Disposition {
    result.evaluations.clear();
    result.score = None;
    result.verdict = Verdict::Skipped;
    result.blame = Some(Blame::Cancelled);
    result.message = Some("the run was cancelled".to_owned());
    Disposition::Cancel
}

fn set_back(result: &mut TrialResult, setback: &Setback) -> Disposition {
    result.verdict = Verdict::Errored;
    result.blame = Some(Blame::Infrastructure);
    result.message = Some(setback.message.clone());
    result.cause = result.cause.or(setback.cause);
    match setback.is_transient {
        true => Disposition::Retry(None),
        false => Disposition::Accept,
    }
}

/// Returns who is to blame for an ending, or `None` if the agent finished.
#[must_use]
pub fn blame(cause: Cause) -> Option<Blame> {
    Some(match cause {
        Cause::Completed => return None,
        Cause::Auth
        | Cause::RateLimit
        | Cause::Overloaded
        | Cause::ServerError
        | Cause::Network
        | Cause::StartupLimit
        | Cause::BadRequest
        | Cause::Unavailable => Blame::Infrastructure,
        Cause::Budget
        | Cause::TurnLimit
        | Cause::WallLimit
        | Cause::IdleLimit
        | Cause::OutputLimit => Blame::Limit,
        Cause::Denied | Cause::Refused | Cause::AgentDied | Cause::Protocol | Cause::NeedsInput => {
            Blame::Agent
        }
        Cause::Interrupted | Cause::Stopped => Blame::Cancelled,
    })
}

/// Returns true if an infrastructure failure may pass by itself.
fn is_transient(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::RateLimit
            | Cause::Overloaded
            | Cause::ServerError
            | Cause::Network
            | Cause::StartupLimit
    )
}

/// Returns when a rate limit resets, if the agent reported a time.
fn resets_at(outcome: &Outcome) -> Option<Timestamp> {
    outcome.detail.as_ref()?.resets_at.as_ref()?.parse().ok()
}

/// Returns the message of an outcome, with its hint.
fn message(outcome: &Outcome) -> String {
    match &outcome.hint {
        Some(hint) => format!("{} {hint}", outcome.message),
        None => outcome.message.clone(),
    }
}

/// Returns the request for the agent of a trial.
fn agent_request(request: &TrialRequest, dir: PathBuf) -> AgentRequest {
    AgentRequest {
        contender: request.contender.clone(),
        prompt: identity::prompt(&request.case, &request.contender),
        dir,
        limits: request.case.limits.clone(),
    }
}

/// Returns true if the agent is an external program.
fn is_program(adapter: &AgentAdapter) -> bool {
    adapter.agent.about().is_program()
}
