//! `ostler doctor --conformance AGENT`: tests an installed agent against a local scripted model.

mod checks;
mod subject;
mod trial;

use std::collections::BTreeMap;

use ostler::Probed;
use ostler::clip::sanitize;
use ostler::config::Config;
use serde::Serialize;

use checks::{CHECKS, Check};
use subject::Subject;
use trial::{Trial, TrialRun};

use crate::environment;
use crate::exit::{self, Code};
use crate::fault::Fault;
use crate::output::{print_line, style};

/// Results of all checks.
#[derive(Debug, Serialize)]
struct Report {
    agent: String,
    version: Option<String>,
    /// Version that this release was tested with.
    tested_version: Option<String>,
    /// Configured values that the checks do not use.
    not_used: Vec<&'static str>,
    conforms: bool,
    checks: Vec<Finding>,
    /// Unknown message types, and how often they occurred.
    drift: BTreeMap<String, u32>,
}

/// Result of one check.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    /// `passed`, `failed` or `not_applicable`.
    result: &'static str,
    problem: Option<String>,
}

/// Runs the checks and reports.
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
            print_line(&format!(
                "{dim}configured but not used: {}{dim:#}\n",
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
        let (finding, next) = run_check(&subject, check, &mut report.drift).await;
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
        print_line(&serde_json::to_string_pretty(&report).map_err(Fault::internal)?);
    } else {
        conclude(&report);
    }
    Ok(if report.conforms {
        exit::OK
    } else {
        exit::FAILED
    })
}

/// Returns the installed version. A login is not required, because no account is used.
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
            Err(Fault::unavailable(format!("{} does not start: {why}", agent.name())).hint(hint))
        }
        Probed::TooOld {
            version,
            need,
            hint,
            ..
        } => {
            let why = format!(
                "{} {version} is too old; {need} or newer is required",
                agent.name()
            );
            Err(Fault::unavailable(why).hint(hint))
        }
    }
}

/// Whether to run the remaining checks.
#[derive(Debug, Clone, Copy, PartialEq)]
enum NextStep {
    Continue,
    Stop,
}

async fn run_check(
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
            Err(format!("processes left behind: {left:?}"))
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
        .map(|tested| format!(" {dim}(this release was tested with {tested}){dim:#}"))
        .unwrap_or_default();
    print_line(&format!(
        "{agent} {}{tested}\n",
        sanitize(version.unwrap_or_default())
    ));
}

fn show(finding: &Finding) {
    let (mark, paint) = match finding.result {
        "passed" => ("✓", style::GOOD),
        "failed" => ("✗", style::BAD),
        _ => ("–", style::DIM),
    };
    let detail = match (&finding.problem, finding.result) {
        (Some(problem), _) => sanitize(problem),
        (None, "not_applicable") => "not supported by this agent".into(),
        _ => "".into(),
    };
    print_line(format!("{paint}{mark}{paint:#} {:<10}  {detail}", finding.check).trim_end());
}

fn conclude(report: &Report) {
    if !report.drift.is_empty() {
        print_line("\nUnknown messages:");
        for (message, times) in &report.drift {
            print_line(&format!("  {times} × {}", sanitize(message)));
        }
    }
    let (good, bad) = (style::GOOD, style::BAD);
    let failed = report
        .checks
        .iter()
        .filter(|finding| finding.result == "failed")
        .count();
    match failed {
        0 => print_line(&format!("\n{good}All checks passed.{good:#}")),
        _ => print_line(&format!(
            "\n{bad}{failed} {} failed.{bad:#}",
            if failed == 1 { "check" } else { "checks" }
        )),
    }
}
