//! Whether the sandbox of commands holds on this machine: real attempts to get out of it, made from inside.
//!
//! The attempts are made by a program that calls [`attempt`] when its first argument is one that it chose, as with the guard. It is
//! run as a command of a model would be, by the default policy, in a workspace made for it, with things beside it that it must
//! not reach.

mod plan;
mod rules;
mod scene;

use std::ffi::OsString;
use std::time::Duration;

use ostler_tools::command::ApprovedCommand;
use ostler_tools::confine::{Report, Required, attempts};
use ostler_tools::{SandboxPolicy, ToolError};
use serde::Serialize;

use self::plan::{Expected, Plan, agent_plans, plans};
use self::scene::Scene;
use crate::command::{CommandOutput, KilledFor};
use crate::host::{GuardProgram, Host};

pub use ostler_tools::confine::attempts::AttemptOutcome;

/// How long one attempt may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What came of all attempts.
#[derive(Debug, Clone, Serialize)]
pub struct Checked {
    /// Whether everything that must be refused was refused, and what must work works.
    pub holds: bool,
    /// What the machine offers, layer by layer.
    #[serde(flatten)]
    pub report: Report,
    /// Why no command runs on this machine by default, if none does.
    pub refused: Option<String>,
    /// Each attempt.
    pub attempts: Vec<Finding>,
}

/// What came of one attempt.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// Its name.
    pub name: &'static str,
    /// What was tried.
    pub what: &'static str,
    /// The layer that must stop it.
    pub layer: &'static str,
    /// What came of it.
    pub result: Verdict,
    /// What the system said.
    pub detail: String,
}

/// What came of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It was refused, as it must be.
    Held,
    /// It works, as it must.
    Works,
    /// It could be done, and must not.
    Leaked,
    /// It does not work, and must.
    Broken,
    /// It could not be tried.
    Untried,
}

impl Verdict {
    /// Whether that is as it should be.
    #[must_use]
    pub fn is_good(self) -> bool {
        matches!(self, Self::Held | Self::Works)
    }
}

/// Makes one attempt: for the program that [`check`] was given.
#[must_use]
pub fn attempt(args: impl IntoIterator<Item = OsString>) -> AttemptOutcome {
    attempts::run(args)
}

/// Tries to get out of the sandbox that commands get by the default policy. `attempter` is a program that calls [`attempt`] with
/// what follows its arguments.
///
/// # Errors
/// When the attempts cannot be set up.
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

/// The default policy, by which the attempter itself can be read and run; with the limits that an attempt is about.
fn policy(attempter: &GuardProgram, limits: &str) -> SandboxPolicy {
    let mut policy = SandboxPolicy::parse(&format!("[sandbox]\n{limits}")).unwrap_or_default();
    policy.sandbox.read.push(attempter.program.clone());
    // Where a layer is missing, the attempts show what that means.
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

/// An attempt of an agent in a sandbox.
async fn try_agent(scene: &Scene, attempter: &GuardProgram, plan: &Plan) -> Finding {
    let prepared = match scene.agent(attempter, plan.attempt, &plan.about) {
        Ok(prepared) => prepared,
        Err(error) => return plan.finding(Verdict::Untried, error.message),
    };
    match crate::process::run_once(prepared, PATIENCE).await {
        Err(error) => plan.finding(Verdict::Untried, error.to_string()),
        Ok(finished) => {
            let detail = finished
                .stdout
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned();
            plan.finding(judge(scene, plan, finished.status.code, false), detail)
        }
    }
}

async fn try_one(scene: &Scene, attempter: &GuardProgram, plan: &Plan) -> Finding {
    let args = attempter
        .args
        .iter()
        .map(|arg| arg.to_string_lossy().into_owned());
    let args = args
        .chain([plan.attempt.to_owned(), plan.about.clone()])
        .collect();
    let approved = ApprovedCommand {
        name: "attempt".to_owned(),
        program: attempter.program.clone(),
        args,
        env: Vec::new(),
    };
    let output = match scene.runner(&policy(attempter, plan.limits)) {
        Ok(runner) => runner.run(approved, PATIENCE).await,
        Err(error) => Err(error),
    };
    match output {
        Err(error) => plan.finding(Verdict::Untried, error.message),
        Ok(output) => {
            let was_stopped = output
                .killed_for
                .is_some_and(|limit| limit != KilledFor::Time);
            plan.finding(
                judge(scene, plan, output.exit_code, was_stopped),
                detail(&output),
            )
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
        (Some(limit), _) => format!("ended for its {}", limit.as_str()),
        (None, false) => format!("put back: {}", output.put_back.join(", ")),
        (None, true) => output.stdout.lines().next().unwrap_or_default().to_owned(),
    }
}
