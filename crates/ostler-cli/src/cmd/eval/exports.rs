//! Reports that need the artifacts of trials: HTML, trajectories and a Harbor job directory.

use std::fs;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use ostler::Event;
use ostler_eval::atif::{self, Trajectory};
use ostler_eval::evaluators::SWE_BENCH;
use ostler_eval::event_log::EventLog;
use ostler_eval::harbor_job::{Job, JobFile, job_files, job_id, trial_files};
use ostler_eval::load::swebench::{Prediction, write_predictions};
use ostler_eval::normalized::{ExecutionFacts, from_events};
use ostler_eval::report::{RunReport, TrialDetail, conversation, html};
use ostler_eval::run_trial::DIFF_FILE;
use ostler_eval::trial::{TrialKey, TrialResult};

use super::normalize;
use crate::fault::{Fault, Result};

/// Most bytes that are read of a diff or log. The HTML report shows fewer, and marks the cut.
const MAX_LOG: u64 = 1_000_000;

/// Returns the HTML report, with the conversation, the diff and the logs of each trial.
pub(super) fn as_html(report: &RunReport) -> String {
    html(report, &|key: &TrialKey| {
        let trial = report.trials.iter().find(|trial| trial.key == *key);
        trial.map(detail).unwrap_or_default()
    })
}

fn detail(trial: &TrialResult) -> TrialDetail {
    let read = |path: &Path| {
        let file = fs::File::open(trial.artifacts.join(path)).ok()?;
        let mut bytes = Vec::new();
        file.take(MAX_LOG).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let events = EventLog::of(&trial.artifacts);
    let facts = ExecutionFacts {
        ..normalize::unknown(&trial.identity.agent)
    };
    let files = trial.evaluations.iter().flat_map(|it| &it.artifacts);
    let logs = files.filter(|path| path.extension().is_some_and(|ext| ext == "log"));
    let logs = terminal_logs(trial).into_iter().chain(logs.cloned());
    TrialDetail {
        diff: read(Path::new(DIFF_FILE)),
        conversation: (!events.is_empty())
            .then(|| conversation(&from_events(&facts, events.iter()))),
        logs: logs
            .filter_map(|path| Some((path.display().to_string(), read(&path)?)))
            .collect(),
    }
}

/// Returns the files with the agent's output, relative to the artifacts.
fn terminal_logs(trial: &TrialResult) -> Vec<PathBuf> {
    let dir = PathBuf::from(format!("{}-logs", trial.identity.agent));
    let entries = fs::read_dir(trial.artifacts.join(&dir));
    let entries = entries.into_iter().flatten().flatten();
    let mut logs: Vec<PathBuf> = entries.map(|entry| dir.join(entry.file_name())).collect();
    logs.sort();
    logs
}

fn trajectory(trial: &TrialResult) -> Trajectory {
    let events: Vec<Event> = EventLog::of(&trial.artifacts).iter().collect();
    let mut trajectory = atif::write(&trial.identity.agent, &events);
    let key = &trial.key;
    let id = format!("{}/{}/{}", key.case, key.contender, key.repetition);
    trajectory.trajectory_id = Some(id);
    trajectory
}

fn pretty(trajectory: &Trajectory) -> Result<String> {
    let text = serde_json::to_string_pretty(trajectory).map_err(Fault::internal)?;
    Ok(text + "\n")
}

/// Returns the trajectory of a run with one trial.
pub(super) fn one_trajectory(report: &RunReport) -> Result<String> {
    match &report.ordered()[..] {
        [trial] => pretty(&trajectory(trial)),
        trials => Err(usage!(
            "the run has {} trials, and each one is a trajectory of its own",
            trials.len()
        )
        .hint("use `--out DIR` for a directory with one file per trial")),
    }
}

/// Writes a trajectory per trial.
pub(super) fn write_trajectories(report: &RunReport, dir: &Path) -> Result<()> {
    let files = report.trials.iter().map(|trial| {
        let key = &trial.key;
        let path = PathBuf::from(&key.case)
            .join(&key.contender)
            .join(format!("{}.json", key.repetition));
        Ok((path, pretty(&trajectory(trial))?))
    });
    write(dir, &files.collect::<Result<Vec<JobFile>>>()?)
}

/// Returns the changes of the trials of SWE-bench rows, as its harness reads them. It expects one
/// per row and model, so further repetitions have names of their own.
pub(super) fn predictions(report: &RunReport) -> Result<String> {
    let trials = report.ordered().into_iter();
    let trials = trials.filter(|it| it.evaluations.iter().any(|it| it.kind == SWE_BENCH));
    let predictions: Vec<Prediction> = trials
        .filter_map(|trial| {
            let patch = fs::read(trial.artifacts.join(DIFF_FILE)).ok()?;
            let key = &trial.key;
            Some(Prediction {
                instance_id: key.case.clone(),
                model_name_or_path: match key.repetition {
                    1 => key.contender.clone(),
                    repetition => format!("{}#{repetition}", key.contender),
                },
                model_patch: String::from_utf8_lossy(&patch).into_owned(),
            })
        })
        .collect();
    if predictions.is_empty() {
        return Err(
            usage!("run {} has no results of SWE-bench rows", report.run)
                .hint("`ostler eval run FILE.jsonl` runs rows of SWE-bench"),
        );
    }
    Ok(write_predictions(&predictions))
}

/// Writes a Harbor job directory.
pub(super) fn write_harbor_job(report: &RunReport, dir: &Path) -> Result<()> {
    let id = job_id(&report.run);
    let last = report.trials.iter().map(|trial| &*trial.completed_at).max();
    let job = Job {
        id: &id,
        suite: &report.suite,
        started_at: report.started_at.as_deref().unwrap_or_default(),
        finished_at: last.filter(|_| report.missing() == 0),
        planned: report.planned.len(),
    };
    let mut files = job_files(job, &report.trials);
    for trial in &report.trials {
        files.extend(trial_files(job, trial, &trajectory(trial)));
    }
    write(dir, &files)
}

/// Writes files below a directory. Names of cases cannot lead out of it.
fn write(dir: &Path, files: &[JobFile]) -> Result<()> {
    for (path, text) in files {
        let parts = path.components();
        let safe: PathBuf = parts
            .filter(|part| matches!(part, Component::Normal(_)))
            .collect();
        let path = dir.join(safe);
        path.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| usage!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}
