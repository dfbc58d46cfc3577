//! Results as a Harbor job directory, which `harbor view` shows.
//!
//! ```text
//! <job>/config.json  <job>/result.json
//! <job>/<trial>/config.json  <job>/<trial>/result.json  <job>/<trial>/agent/trajectory.json
//! <job>/<trial>/verifier/reward.json
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;

use ostler_core::usage::Usage;
use serde_json::{Map, Value, json};

use crate::atif::Trajectory;
use crate::trial::{Blame, TrialResult, Verdict};

/// A file of a job directory: path below it, and content.
pub type JobFile = (PathBuf, String);

/// A run, for the files of the whole job.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// UUID of the run.
    pub id: &'a str,
    /// Name of the suite.
    pub suite: &'a str,
    /// When it started: RFC 3339.
    pub started_at: &'a str,
    /// When it was complete, if it is.
    pub finished_at: Option<&'a str>,
    /// Number of trials that were planned.
    pub planned: usize,
}

/// Returns the UUID of a run, which is the same every time.
#[must_use]
pub fn job_id(run: &str) -> String {
    trial_id(run, "")
}

/// Returns the files of the whole job.
#[must_use]
pub fn job_files(job: Job<'_>, results: &[TrialResult]) -> Vec<JobFile> {
    let mut agents: Vec<Value> = Vec::new();
    let mut evals: BTreeMap<String, Eval> = BTreeMap::new();
    let mut total: Option<Usage> = None;
    for result in results {
        let agent = agent_config(result);
        if !agents.contains(&agent) {
            agents.push(agent);
        }
        match &mut total {
            Some(total) => total.add(&result.usage),
            None => total = Some(result.usage.clone()),
        }
        evals
            .entry(eval_key(job.suite, result))
            .or_default()
            .add(result);
    }
    let errored = results.iter().filter(|result| exception(result).is_some());
    let cancelled = results
        .iter()
        .filter(|result| result.blame == Some(Blame::Cancelled));
    let evals = evals.into_iter().map(|(key, eval)| (key, eval.into_json()));
    let mut stats = json!({
        "n_completed_trials": results.len(),
        "n_errored_trials": errored.count(),
        "n_running_trials": 0,
        "n_pending_trials": job.planned.saturating_sub(results.len()),
        "n_cancelled_trials": cancelled.count(),
        "n_retries": results.iter().map(|result| result.attempts.saturating_sub(1)).sum::<u32>(),
        "evals": Map::from_iter(evals),
    });
    if let Some(usage) = &total {
        for (name, value) in tokens(usage) {
            stats[name] = value;
        }
    }
    let result = json!({
        "id": job.id,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "n_total_trials": job.planned,
        "stats": stats,
    });
    let config = json!({"job_name": job.id, "agents": agents});
    vec![
        ("config.json".into(), pretty(&config)),
        ("result.json".into(), pretty(&result)),
    ]
}

/// Returns the files of one trial.
#[must_use]
pub fn trial_files(job: Job<'_>, result: &TrialResult, trajectory: &Trajectory) -> Vec<JobFile> {
    let name = trial_name(result);
    let config = json!({
        "task": {"path": result.key.case},
        "trial_name": name,
        "job_id": job.id,
        "agent": agent_config(result),
    });
    let rewards = rewards(result);
    let value = json!({
        "id": trial_id(job.id, &name),
        "task_name": result.key.case,
        "trial_name": name,
        "trial_uri": format!("file://{}", result.artifacts.display()),
        "task_id": {"path": result.key.case},
        "source": job.suite,
        "task_checksum": result.identity.case_hash,
        "config": config,
        "agent_info": {
            "name": result.identity.agent,
            "version": result.identity.agent_version.as_deref().unwrap_or("unknown"),
            "model_info": result.identity.model.as_ref().map(|name| json!({"name": name})),
        },
        "agent_result": Map::from_iter(
            tokens(&result.usage).map(|(name, value)| (name.to_owned(), value))
        ),
        "verifier_result": rewards.as_ref().map(|rewards| json!({"rewards": rewards})),
        "exception_info": exception(result),
        "started_at": result.started_at,
        "finished_at": result.completed_at,
    });
    let dir = PathBuf::from(&name);
    let mut files = vec![
        (dir.join("config.json"), pretty(&config)),
        (dir.join("result.json"), pretty(&value)),
        (
            dir.join("agent/trajectory.json"),
            serde_json::to_string_pretty(trajectory).unwrap_or_default(),
        ),
    ];
    if let Some(rewards) = rewards {
        files.push((
            dir.join("verifier/reward.json"),
            pretty(&Value::Object(rewards)),
        ));
    }
    files
}

/// Returns the directory of a trial.
fn trial_name(result: &TrialResult) -> String {
    let key = &result.key;
    let name = format!("{}__{}__{}", key.case, key.contender, key.repetition);
    let safe = |c: char| match c {
        c if c.is_ascii_alphanumeric() => c,
        '-' | '_' | '.' => c,
        _ => '-',
    };
    let plain: String = name.chars().map(safe).collect();
    if plain == name {
        return plain;
    }
    // Different names stay different.
    format!("{plain}-{}", &crate::identity::sha256(&name)[..8])
}

/// Derives a UUID from the job's and the trial's name, so that an export can be repeated.
fn trial_id(job: &str, trial: &str) -> String {
    let hash = |seed: u64| {
        let bytes = job.bytes().chain([0]).chain(trial.bytes());
        bytes.fold(seed, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    };
    let (high, low) = (hash(0xcbf2_9ce4_8422_2325), hash(0x9ae1_6a3b_2f90_404f));
    let hex = format!("{high:016x}{low:016x}");
    // Version 8 (custom), variant 1.
    format!(
        "{}-{}-8{}-a{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[13..16],
        &hex[17..20],
        &hex[20..32]
    )
}

fn eval_key(suite: &str, result: &TrialResult) -> String {
    let identity = &result.identity;
    match &identity.model {
        Some(model) => format!("{}__{model}__{suite}", identity.agent),
        None => format!("{}__{suite}", identity.agent),
    }
}

fn agent_config(result: &TrialResult) -> Value {
    json!({"name": result.identity.agent, "model_name": result.identity.model})
}

/// Returns the rewards of a trial that was judged.
fn rewards(result: &TrialResult) -> Option<Map<String, Value>> {
    let passed = match result.verdict {
        Verdict::Passed => 1,
        Verdict::Failed => 0,
        Verdict::Errored | Verdict::Skipped => return None,
    };
    let mut rewards = Map::from_iter([("reward".to_owned(), json!(passed))]);
    if let Some(score) = result.score {
        let _ = rewards.insert("score".to_owned(), json!(score));
    }
    Some(rewards)
}

/// Returns why a trial was not judged.
fn exception(result: &TrialResult) -> Option<Value> {
    let kind = match result.blame? {
        Blame::Cancelled => "CancelledError",
        Blame::Infrastructure => "EnvironmentError",
        Blame::Evaluator => "VerifierError",
        Blame::Limit => "AgentTimeoutError",
        Blame::Agent => return None,
    };
    Some(json!({
        "exception_type": kind,
        "exception_message": result.message.as_deref().unwrap_or_default(),
        "exception_traceback": "",
        "occurred_at": result.completed_at,
    }))
}

fn tokens(usage: &Usage) -> [(&'static str, Value); 4] {
    let parts = [usage.input, usage.cache_read, usage.cache_write];
    let input = parts.into_iter().flatten().reduce(|a, b| a + b);
    [
        ("n_input_tokens", json!(input)),
        ("n_cache_tokens", json!(usage.cache_read)),
        ("n_output_tokens", json!(usage.output)),
        ("cost_usd", json!(usage.cost_usd)),
    ]
}

/// Figures of one agent and model.
#[derive(Default)]
struct Eval {
    judged: u32,
    errors: u32,
    /// Names of trials, by reward.
    rewards: BTreeMap<u8, Vec<String>>,
    exceptions: BTreeMap<String, Vec<String>>,
}

impl Eval {
    fn add(&mut self, result: &TrialResult) {
        let name = trial_name(result);
        if let Some(error) = exception(result) {
            self.errors += 1;
            let kind = error["exception_type"].as_str().unwrap_or_default();
            self.exceptions
                .entry(kind.to_owned())
                .or_default()
                .push(name.clone());
        }
        if rewards(result).is_some() {
            self.judged += 1;
            let reward = u8::from(result.verdict == Verdict::Passed);
            self.rewards.entry(reward).or_default().push(name);
        }
    }

    fn into_json(self) -> Value {
        let by_reward = self.rewards.into_iter();
        let by_reward = by_reward.map(|(reward, names)| (reward.to_string(), json!(names)));
        json!({
            "n_trials": self.judged,
            "n_errors": self.errors,
            "reward_stats": {"reward": Map::from_iter(by_reward)},
            "exception_stats": self.exceptions,
        })
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use ostler_core::usage::{Scope, Tokens};

    use super::*;
    use crate::case::Isolation;
    use crate::trial::{TrialIdentity, TrialKey};

    fn result(case: &str, verdict: Verdict, blame: Option<Blame>) -> TrialResult {
        let tokens = Tokens {
            input: 10,
            cache_read: 5,
            cache_write: 0,
            output: 7,
            reasoning: None,
        };
        TrialResult {
            key: TrialKey {
                case: case.into(),
                contender: "a:m".into(),
                repetition: 1,
            },
            identity: TrialIdentity {
                case: case.into(),
                case_hash: "c".repeat(64),
                commit: "0".repeat(40),
                agent: "a".into(),
                agent_version: None,
                model: Some("m".into()),
                reported_model: None,
                prompt_hash: "p".repeat(64),
                settings_hash: String::new(),
                isolation: Isolation::Directory,
                ostler: "0.1.0".into(),
            },
            verdict,
            blame,
            cause: None,
            message: Some("why".into()),
            score: Some(0.5),
            evaluations: Vec::new(),
            usage: Usage {
                scope: Scope::Session,
                ..Usage::for_turn(None, tokens)
            },
            attempts: 2,
            session: None,
            started_at: "2026-01-01T00:00:00.000Z".into(),
            completed_at: "2026-01-01T00:00:01.000Z".into(),
            agent_ms: 1000,
            working_ms: None,
            diff_files: 1,
            artifacts: "/x/y".into(),
            replayed: false,
            metered: true,
            unmetered_attempts: Vec::new(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn a_run_becomes_a_job_directory() {
        let job = Job {
            id: "7c9e6679-7425-40de-944b-e07fc1f90ae7",
            suite: "s",
            started_at: "2026-01-01T00:00:00.000Z",
            finished_at: None,
            planned: 4,
        };
        let results = [
            result("x/y z", Verdict::Passed, None),
            result("b", Verdict::Failed, Some(Blame::Agent)),
            result("c", Verdict::Errored, Some(Blame::Infrastructure)),
        ];
        let files = job_files(job, &results);
        let value: Value = serde_json::from_str(&files[1].1).unwrap();
        let stats = &value["stats"];
        assert_eq!(stats["n_completed_trials"], 3);
        assert_eq!(stats["n_errored_trials"], 1);
        assert_eq!(stats["n_pending_trials"], 1);
        assert_eq!(stats["n_input_tokens"], 45);
        let eval = &stats["evals"]["a__m__s"];
        assert_eq!(eval["n_trials"], 2);
        assert_eq!(
            eval["reward_stats"]["reward"]["1"][0],
            "x-y-z__a-m__1-00683575"
        );

        let trajectory = crate::atif::write("a", &[]);
        let files = trial_files(job, &results[0], &trajectory);
        let paths: Vec<String> = files
            .iter()
            .map(|(path, _)| path.display().to_string())
            .collect();
        assert_eq!(
            paths,
            [
                "x-y-z__a-m__1-00683575/config.json",
                "x-y-z__a-m__1-00683575/result.json",
                "x-y-z__a-m__1-00683575/agent/trajectory.json",
                "x-y-z__a-m__1-00683575/verifier/reward.json",
            ]
        );
        let value: Value = serde_json::from_str(&files[1].1).unwrap();
        assert_eq!(value["verifier_result"]["rewards"]["reward"], 1);
        assert_eq!(value["agent_result"]["n_input_tokens"], 15);
        let unjudged = trial_files(job, &results[2], &trajectory);
        assert_eq!(unjudged.len(), 3, "an error has no reward");
    }
}
