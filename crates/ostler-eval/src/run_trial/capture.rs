//! Capture of a trial: the agent's changes, and files for people and other programs.

use std::fs;
use std::path::Path;

use super::setup::{Ready, Setback};
use super::{DIFF_FILE, RESULT_FILE, TrialRequest, TrialServices, agent_request};
use crate::adapter::Execution;
use crate::event_log::EventLog;
use crate::git::{Diff, Snapshot};
use crate::trial::TrialResult;

/// What an agent left behind.
pub(super) struct Captured {
    pub(super) snapshot: Snapshot,
    pub(super) diff: Diff,
    pub(super) events: EventLog,
}

/// Records the workspace and writes the artifacts of an execution.
pub(super) async fn capture(
    request: &TrialRequest,
    services: &TrialServices,
    ready: &Ready,
    execution: &Execution,
) -> Result<Captured, Setback> {
    let scratch = &ready.scratch;
    let (trial, workspace) = (scratch.trial(), scratch.workspace());
    // An agent that removed its workspace has deleted every file.
    fs::create_dir_all(&workspace).map_err(Setback::io(&workspace))?;
    let git = &services.git;
    let snapshot = git
        .snapshot(&ready.seed, &trial, &workspace, &scratch.base())
        .await?;
    let diff = git
        .diff(&ready.seed, &trial, &ready.base, &snapshot)
        .await?;
    let file = request.artifacts.join(DIFF_FILE);
    fs::write(&file, &diff.patch).map_err(Setback::io(&file))?;
    Ok(Captured {
        snapshot,
        diff,
        events: execution.events.clone(),
    })
}

/// Writes the projections of an execution's events. Returns what could not be written.
pub(super) fn project(
    request: &TrialRequest,
    services: &TrialServices,
    ready: &Ready,
    execution: &Execution,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let wanted = agent_request(request, ready.scratch.workspace());
    for projection in &services.projections {
        if let Err(error) = projection.write(&wanted, execution, &request.artifacts) {
            warnings.push(format!(
                "a projection of the events was not written: {error}"
            ));
        }
    }
    warnings
}

/// Writes the result to the artifacts. Its place of truth is the ledger, so a failure is a warning.
pub(super) fn write_result(artifacts: &Path, result: &mut TrialResult) {
    let written = serde_json::to_string_pretty(result)
        .map_err(std::io::Error::other)
        .and_then(|text| fs::write(artifacts.join(RESULT_FILE), text));
    if let Err(error) = written {
        result
            .warnings
            .push(format!("{RESULT_FILE} was not written: {error}"));
    }
}
