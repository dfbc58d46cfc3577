//! Reference agents without a model: `oracle` applies a case's own solution, `nop` does nothing.
//! They show that a case can be solved, and that it is not solved from the start.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use ostler::Cause;
use ostler::outcome::Outcome;
use serde_json::Value;

use super::setup::{Ready, Setback};
use super::{TrialRequest, TrialServices};
use crate::adapter::{Execution, ExecutionContext, ExecutionResult, ExecutionStatus, until_true};
use crate::case::{Case, CommandSpec, Expected, Isolation, PrivateRoot};
use crate::event_log::EventLog;
use crate::private_root;
use crate::tree::{self, Omit};
use crate::workspace::CommandPlace;

/// The names of the reference agents.
pub const REFERENCE_AGENTS: &[&str] = &["oracle", "nop"];

/// How long a solution may run if its case has no limit.
const TIMEOUT: Duration = Duration::from_secs(600);

/// A reference agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reference {
    /// Applies the case's own solution.
    Oracle,
    /// Does nothing.
    Nop,
}

impl Reference {
    /// Returns the reference agent of a name.
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            "oracle" => Some(Self::Oracle),
            "nop" => Some(Self::Nop),
            _ => None,
        }
    }

    /// Checks that a case has what the agent needs.
    pub(super) fn check(self, case: &Case) -> Result<(), Setback> {
        let has_solution = match &case.mounts {
            Some(root) => root.task_dir.join("solution/solve.sh").is_file(),
            None => case.expected.is_some(),
        };
        if self == Self::Nop || has_solution {
            return Ok(());
        }
        let message = "the case has no solution: `oracle` needs `expected`, or solution/solve.sh \
                       of a Harbor task";
        Err(Setback::lasting(message))
    }

    /// Works in the trial's workspace.
    pub(super) async fn execute(
        self,
        request: &TrialRequest,
        services: &TrialServices,
        ready: &Ready,
        context: &ExecutionContext<'_>,
    ) -> Execution {
        let started_at = (context.now)();
        let mut cancelled = context.cancelled.clone();
        let work = async {
            match (self, &request.case.mounts) {
                (Self::Nop, _) => Ok(()),
                (Self::Oracle, Some(root)) => solve(root, request, services, ready).await,
                (Self::Oracle, None) => apply_expected(&request.case, ready),
            }
        };
        let done = tokio::select! {
            done = work => done,
            () = until_true(&mut cancelled) => Ok(()),
        };
        let completed_at = (context.now)();
        let (outcome, exit_code) = match done {
            Ok(()) => (Outcome::new(Cause::Completed, "Done."), 0),
            Err(setback) => (Outcome::new(Cause::AgentDied, setback.message), 1),
        };
        let duration = completed_at.0.saturating_sub(started_at.0);
        Execution {
            result: ExecutionResult {
                status: ExecutionStatus::of(&outcome),
                exit_code,
                output: String::new(),
                started_at,
                completed_at,
                duration_ms: u64::try_from(duration).unwrap_or(0),
                errors: Vec::new(),
            },
            outcome,
            events: EventLog::default(),
            usage: None,
            session: None,
            agent_version: None,
            model: None,
            terminal_log: None,
        }
    }
}

/// Runs the solution of a Harbor task, in a private root like the agent's.
async fn solve(
    root: &PrivateRoot,
    request: &TrialRequest,
    services: &TrialServices,
    ready: &Ready,
) -> Result<(), Setback> {
    let (scratch, workspace) = (&ready.scratch, ready.scratch.workspace());
    let lasting = |error: &dyn std::fmt::Display| Setback::lasting(error.to_string());
    let layout = private_root::for_solution(root, scratch.part("agent-root"), &workspace)
        .map_err(|error| lasting(&error))?;
    let home = scratch.home("solution", None);
    let home = home.map_err(Setback::io(scratch.root()))?;
    let host = services.embedder.host().with_private_root(layout);
    let place = CommandPlace::new(host, &home, workspace, Isolation::PrivateRoot);
    let command = CommandSpec {
        argv: vec!["bash".to_owned(), "/solution/solve.sh".to_owned()],
        dir: None,
        env: root
            .env
            .clone()
            .into_iter()
            .chain(solution_variables(&request.case))
            .collect(),
        timeout: request.case.limits.timeout.unwrap_or(TIMEOUT),
    };
    let output = place.run(&command).await.map_err(|error| lasting(&error))?;
    if output.succeeded() {
        return Ok(());
    }
    let (code, stderr) = (output.exit_code, output.stderr_text());
    Err(Setback::lasting(format!(
        "solution/solve.sh failed ({code:?}): {stderr}"
    )))
}

/// Returns the variables that a Harbor task sets for its solution.
fn solution_variables(case: &Case) -> BTreeMap<String, String> {
    let verifier = case.evaluators.iter().find(|it| it.kind == "harbor");
    let env = verifier.and_then(|it| it.config.get("solution_env"));
    let env = env.and_then(Value::as_object).into_iter().flatten();
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    env.map(|(name, value)| (name.clone(), text(value)))
        .collect()
}

/// Copies what is expected to the workspace. A revision or a patch also removes files.
fn apply_expected(case: &Case, ready: &Ready) -> Result<(), Setback> {
    let Some(expected) = &ready.expected else {
        return Ok(());
    };
    let workspace = ready.scratch.workspace();
    if !matches!(case.expected, Some(Expected::Directory(_))) {
        for file in tree::files(&workspace).map_err(Setback::io(&workspace))? {
            let path = workspace.join(&file);
            if expected.join(&file).symlink_metadata().is_err() {
                fs::remove_file(&path).map_err(Setback::io(&path))?;
            }
        }
    }
    for file in tree::files(expected).map_err(Setback::io(expected))? {
        tree::remove(&workspace.join(&file)).map_err(Setback::io(&workspace))?;
    }
    tree::copy(expected, &workspace, Omit::Git).map_err(Setback::io(&workspace))
}
