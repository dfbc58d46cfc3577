//! Sandbox self-check: real attempts to escape the command sandbox on this machine, made from
//! inside it.
//!
//! The attempts are made by a program that calls [`attempt`] if its first argument is one that it
//! reserves for this, as with the guard. It runs like a model's command, under the default policy,
//! in a workspace created for it. Around the workspace are files, processes and services that it
//! must not reach.
//!
//! ```no_run
//! # async fn example(host: &ostler::Host) -> Result<(), ostler::tools::ToolError> {
//! use ostler::host::GuardProgram;
//! use ostler::sandbox::check;
//!
//! let attempter = GuardProgram {
//!     program: std::env::current_exe().expect("a path"),
//!     args: vec!["attempt".into()], // `main` calls `check::attempt` for this argument
//! };
//! let checked = check::check(host, &attempter).await?;
//! println!("{checked:?}");
//! # Ok(())
//! # }
//! ```

mod plan;
mod rules;
mod scene;

use std::time::Duration;

use ostler_tools::command::ApprovedCommand;
use ostler_tools::confine::{Report, Required, attempts};
use ostler_tools::{SandboxPolicy, ToolError};
use serde::Serialize;

use self::plan::{Expected, Plan, agent_plans, plans};
use self::scene::{Scene, arguments};
use crate::command::{CommandOutput, KilledFor};
use crate::host::{GuardProgram, Host};

pub use ostler_tools::confine::attempts::{AttemptOutcome, run as attempt};

/// Timeout of one attempt.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Result of all attempts.
#[derive(Debug, Clone, Serialize)]
pub struct Checked {
    /// Whether everything that must be refused was refused, and everything that must work works.
    pub holds: bool,
    /// What the machine offers, layer by layer.
    #[serde(flatten)]
    pub report: Report,
    /// Why no command runs on this machine by default, if so.
    pub refused: Option<String>,
    /// The attempts.
    pub attempts: Vec<Finding>,
}

/// Result of one attempt.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// Name of the attempt.
    pub name: &'static str,
    /// What was tried.
    pub what: &'static str,
    /// The layer that must stop it.
    pub layer: &'static str,
    /// The verdict.
    pub result: Verdict,
    /// What the system reported.
    pub detail: String,
}

/// Verdict on one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Refused, as it must be.
    Held,
    /// Works, as it must.
    Works,
    /// Succeeded, but must be refused.
    Leaked,
    /// Does not work, but must.
    Broken,
    /// Could not be tried.
    Untried,
}

impl Verdict {
    /// Whether the verdict is the expected one.
    #[must_use]
    pub fn is_good(self) -> bool {
        matches!(self, Self::Held | Self::Works)
    }
}

/// Tries to escape the sandbox that commands get under the default policy. `attempter` is a program
/// that calls [`attempt`] with the arguments that follow its own.
///
/// # Errors
/// Returns an error if the attempts cannot be set up.
pub async fn check(host: &Host, attempter: &GuardProgram) -> Result<Checked, ToolError> {
    let mut scene = Scene::new(host)?;
    scene.start_bystander(attempter).await?;
    let mut found = Vec::new();
    for plan in plans(&scene) {
        found.push(try_one(&scene, attempter, &plan).await);
        scene.put_back();
    }
    for plan in agent_plans(&scene) {
        found.push(try_agent(&scene, attempter, &plan).await);
        scene.put_back();
    }
    found.extend(scene.file_tools());
    found.extend(scene.rules()?);
    let runner = scene.runner(&SandboxPolicy::default())?;
    let (report, refused) = (runner.report(), runner.refusal().map(|error| error.message));
    Ok(Checked {
        refused,
        holds: found.iter().all(|finding| finding.result.is_good()),
        report,
        attempts: found,
    })
}

/// Returns the default policy, extended so that the attempter can be read and run, with the limits
/// that an attempt is about.
fn policy(attempter: &GuardProgram, limits: &str) -> SandboxPolicy {
    let mut policy = format!("[sandbox]\n{limits}")
        .parse::<SandboxPolicy>()
        .unwrap_or_default();
    policy.sandbox.read.push(attempter.program.clone());
    // If a layer is missing, the attempts show the consequence.
    policy.sandbox.required = Required::Nothing;
    policy
}

impl Plan {
    fn finding(&self, result: Verdict, detail: String) -> Finding {
        Finding {
            name: self.name,
            what: self.what,
            layer: self.layer,
            result,
            detail,
        }
    }
}

/// Makes an attempt as an agent in a sandbox.
async fn try_agent(scene: &Scene, attempter: &GuardProgram, plan: &Plan) -> Finding {
    let prepared = match scene.agent(attempter, plan.attempt, &plan.about) {
        Ok(prepared) => prepared,
        Err(error) => return plan.finding(Verdict::Untried, error.message),
    };
    match crate::process::run_once(prepared, TIMEOUT).await {
        Err(error) => plan.finding(Verdict::Untried, error.to_string()),
        Ok(finished) => {
            let verdict = judge(scene, plan, finished.status.code, false);
            plan.finding(verdict, first_line(&finished.stdout))
        }
    }
}

async fn try_one(scene: &Scene, attempter: &GuardProgram, plan: &Plan) -> Finding {
    let approved = ApprovedCommand {
        name: "attempt".to_owned(),
        program: attempter.program.clone(),
        args: arguments(attempter, plan.attempt, &plan.about),
        env: Vec::new(),
    };
    let output = match scene.runner(&policy(attempter, plan.limits)) {
        Ok(runner) => runner.run(approved, TIMEOUT).await,
        Err(error) => Err(error),
    };
    match output {
        Err(error) => plan.finding(Verdict::Untried, error.message),
        Ok(output) => {
            let limit = output.killed_for;
            let was_stopped = limit.is_some_and(|limit| limit != KilledFor::Time);
            let verdict = judge(scene, plan, output.exit_code, was_stopped);
            plan.finding(verdict, detail(&output))
        }
    }
}

fn judge(scene: &Scene, plan: &Plan, exit_code: Option<i32>, was_stopped: bool) -> Verdict {
    let was_done = exit_code == Some(0);
    let was_refused = exit_code == Some(i32::from(attempts::REFUSED));
    match plan.expected {
        Expected::Works if was_done => Verdict::Works,
        Expected::Works => Verdict::Broken,
        Expected::Undone if !scene.is_undone() => Verdict::Leaked,
        Expected::Undone if was_done || was_refused => Verdict::Held,
        Expected::Undone => Verdict::Untried,
        Expected::Refused if was_done || scene.is_touched() => Verdict::Leaked,
        Expected::Refused if was_refused || was_stopped => Verdict::Held,
        Expected::Refused => Verdict::Untried,
    }
}

fn detail(output: &CommandOutput) -> String {
    match (output.killed_for, output.put_back.is_empty()) {
        (Some(limit), _) => format!("killed for exceeding its limit of {}", limit.as_str()),
        (None, false) => format!("restored: {}", output.put_back.join(", ")),
        (None, true) => first_line(&output.stdout),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
