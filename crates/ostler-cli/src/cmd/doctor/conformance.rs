//! `ostler doctor --conformance AGENT`: the installed agent is tried against a scripted model, on this machine alone.

mod checks;
mod subject;
mod trial;

use std::collections::BTreeMap;

use ostler::Probed;
use ostler::clip::plain;
use ostler::config::Config;
use serde::Serialize;

use checks::{CHECKS, Check};
use subject::Subject;
use trial::{Trial, TrialRun};

use crate::environment;
use crate::exit::{self, Code};
use crate::fault::Fault;
use crate::output::{say, style};

/// What came of all checks.
#[derive(Debug, Serialize)]
struct Report {
    agent: String,
    version: Option<String>,
    /// The version that this release was tested with.
    tested_version: Option<String>,
    /// What is configured for it and was not used.
    not_used: Vec<&'static str>,
    conforms: bool,
    checks: Vec<Finding>,
    /// Message types that Ostler does not know, and how often they came.
    drift: BTreeMap<String, u32>,
}

/// What came of one check.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    /// `passed`, `failed` or `not_applicable`.
    result: &'static str,
    problem: Option<String>,
}

/// Tries the agent and reports.
pub(crate) async fn run(config: &Config, name: &str, json: bool) -> Result<Code, Fault> {
    let subject = Subject::named(config, name)?;
    let agent = &subject.agent;
    let version = installed(&subject).await?;
    let tested = agent
        .dialect()
        .probe()
        .and_then(|plan| plan.tested)
        .map(|tested| tested.to_string());
    if !json {
        announce(name, version.as_deref(), tested.as_deref());
        if !subject.unused.is_empty() {
            let dim = style::DIM;
            say(&format!(
                "{dim}not used here: {}{dim:#}\n",
                subject.unused.join(", ")
            ));
        }
    }
    let mut report = Report {
        agent: name.to_owned(),
        version,
        tested_version: tested,
        not_used: subject.unused.clone(),
        conforms: true,
        checks: Vec::new(),
        drift: BTreeMap::new(),
    };
    for check in CHECKS {
        let (finding, next) = try_one(&subject, check, &mut report.drift).await;
        report.conforms &= finding.result != "failed";
        if !json {
            show(&finding);
        }
        report.checks.push(finding);
        if next == NextStep::Stop {
            break;
        }
    }
    if json {
        say(&serde_json::to_string_pretty(&report).map_err(Fault::internal)?);
    } else {
        conclude(&report);
    }
    Ok(if report.conforms {
        exit::OK
    } else {
        exit::FAILED
    })
}

/// The version of what is installed. Nobody has to be logged in: no account is used.
async fn installed(subject: &Subject) -> Result<Option<String>, Fault> {
    let agent = &subject.agent;
    match agent.probe_for(&environment::host(), &subject.given).await {
        Probed::Ready { version, .. } => Ok(version),
        Probed::NotLoggedIn { version, .. } | Probed::LoginUnknown { version, .. } => {
            Ok(Some(version))
        }
        Probed::NotConfigured { .. } => Ok(None),
        Probed::Missing { hint, .. } => {
            Err(Fault::unavailable(format!("{} is not installed", agent.name())).hint(hint))
        }
        Probed::Broken { why, hint, .. } => {
            Err(Fault::unavailable(format!("{} does not run: {why}", agent.name())).hint(hint))
        }
        Probed::TooOld {
            version,
            need,
            hint,
            ..
        } => {
            let why = format!("{} {version} is too old, {need} is needed", agent.name());
            Err(Fault::unavailable(why).hint(hint))
        }
    }
}

/// Whether there are more checks to come.
#[derive(Debug, Clone, Copy, PartialEq)]
enum NextStep {
    Continue,
    Stop,
}

async fn try_one(
    subject: &Subject,
    check: &Check,
    drift: &mut BTreeMap<String, u32>,
) -> (Finding, NextStep) {
    let mut next = NextStep::Continue;
    if !(check.applies)(&subject.capabilities(&subject.given)) {
        return (
            Finding {
                check: check.name,
                result: "not_applicable",
                problem: None,
            },
            next,
        );
    }
    let tried = async {
        let trial = Trial::new(subject, (check.script)(subject.offline))?;
        let run = (check.run)(&trial).await;
        if trial.used_other_model() {
            next = NextStep::Stop;
        }
        let run = run?;
        for notice in run.iter().flat_map(TrialRun::unknown) {
            *drift.entry(notice.message.clone()).or_default() += 1;
        }
        let left: Vec<u32> = run
            .iter()
            .flat_map(|run| environment::left_of(&run.session))
            .collect();
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("processes are left behind: {left:?}"))
        }
    };
    let (result, problem) = match tried.await {
        Ok(()) => ("passed", None),
        Err(problem) => ("failed", Some(problem)),
    };
    (
        Finding {
            check: check.name,
            result,
            problem,
        },
        next,
    )
}

fn announce(agent: &str, version: Option<&str>, tested: Option<&str>) {
    let dim = style::DIM;
    let tested = tested
        .map(|tested| format!(" {dim}(tested with this release: {tested}){dim:#}"))
        .unwrap_or_default();
    say(&format!(
        "{agent} {}{tested}\n",
        plain(version.unwrap_or_default())
    ));
}

fn show(finding: &Finding) {
    let (mark, paint) = match finding.result {
        "passed" => ("✓", style::GOOD),
        "failed" => ("✗", style::BAD),
        _ => ("–", style::DIM),
    };
    let words = match (&finding.problem, finding.result) {
        (Some(problem), _) => plain(problem),
        (None, "not_applicable") => "it cannot do this".into(),
        _ => "".into(),
    };
    say(format!("{paint}{mark}{paint:#} {:<10}  {words}", finding.check).trim_end());
}

fn conclude(report: &Report) {
    if !report.drift.is_empty() {
        say("\nMessages that Ostler does not know:");
        for (message, times) in &report.drift {
            say(&format!("  {times} × {}", plain(message)));
        }
    }
    let (good, bad) = (style::GOOD, style::BAD);
    let failed = report
        .checks
        .iter()
        .filter(|finding| finding.result == "failed")
        .count();
    match failed {
        0 => say(&format!(
            "\n{good}It does what Ostler expects of it.{good:#}"
        )),
        _ => say(&format!(
            "\n{bad}{failed} of these are not as Ostler expects.{bad:#}"
        )),
    }
}
