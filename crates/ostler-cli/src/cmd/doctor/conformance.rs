//! `ostler doctor --conformance AGENT`: tests an installed agent against a local scripted model.

mod checks;
mod subject;
mod trial;

use std::collections::BTreeMap;

use ostler::agent::Probed;
use ostler::config::Config;
use ostler::render::clip::sanitize;
use serde::Serialize;

use checks::{CHECKS, Check};
use subject::Subject;
use trial::{CheckFailed, Checked, Trial};

use crate::environment;
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::output::style::{BAD, DIM, GOOD};
use crate::output::{counted, print_json, print_line};

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
pub(crate) async fn run(config: &Config, name: &str, json: bool) -> Result<Code> {
    let subject = Subject::named(config, name)?;
    let agent = &subject.agent;
    let version = installed(&subject).await?;
    let tested = agent.about().probe.and_then(|plan| plan.tested);
    let tested = tested.map(|tested| tested.to_string());
    if !json {
        announce(name, version.as_deref(), tested.as_deref());
        if !subject.unused.is_empty() {
            let unused = subject.unused.join(", ");
            outln!("{DIM}configured but not used: {unused}{DIM:#}\n");
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
        let is_last = run_check(&subject, check, &mut report).await;
        if let Some(finding) = report.checks.last().filter(|_| !json) {
            show(finding);
        }
        if is_last {
            break;
        }
    }
    if json {
        print_json(&serde_json::to_value(&report).map_err(Fault::internal)?);
    } else {
        conclude(&report);
    }
    Ok(exit::ok_if(report.conforms))
}

/// Returns the installed version. A login is not required, because no account is used.
async fn installed(subject: &Subject) -> Result<Option<String>> {
    let name = subject.agent.about().name;
    let host = environment::host();
    match subject.agent.probe(&host, &subject.given).await {
        Probed::Ready { version, .. } => Ok(version),
        Probed::NotLoggedIn { version, .. } | Probed::LoginUnknown { version, .. } => {
            Ok(Some(version))
        }
        Probed::NotConfigured { .. } => Ok(None),
        unusable => {
            let (why, hint) = unusable.problem(name).unwrap_or_default();
            Err(Fault::unavailable(why).hint(hint))
        }
    }
}

/// Runs a check and adds its result. Returns true if the remaining checks must not run.
async fn run_check(subject: &Subject, check: &Check, report: &mut Report) -> bool {
    let applies = (check.applies)(&subject.capabilities(&subject.given));
    let (result, problem) = match applies {
        false => ("not_applicable", None),
        true => match attempt(subject, check, &mut report.drift).await {
            Ok(()) => ("passed", None),
            Err(problem) => ("failed", Some(problem)),
        },
    };
    let is_last = matches!(problem, Some(CheckFailed::OtherModel));
    report.conforms &= result != "failed";
    report.checks.push(Finding {
        check: check.name,
        result,
        problem: problem.map(|problem| problem.to_string()),
    });
    is_last
}

async fn attempt(subject: &Subject, check: &Check, drift: &mut BTreeMap<String, u32>) -> Checked {
    let trial = Trial::new(subject, (check.script)(&subject.manifest.shell))?;
    (check.run)(&trial).await?;
    let runs = trial.runs();
    for notice in runs.iter().flat_map(|run| run.unknown()) {
        *drift.entry(notice.message.clone()).or_default() += 1;
    }
    let left = runs
        .iter()
        .flat_map(|run| environment::left_of(&run.session));
    let left: Vec<u32> = left.collect();
    if left.is_empty() {
        return Ok(());
    }
    let problem = format!("processes left behind: {left:?}");
    Err(CheckFailed::Problem(problem))
}

fn announce(agent: &str, version: Option<&str>, tested: Option<&str>) {
    let tested = tested
        .map(|tested| format!(" {DIM}(this release was tested with {tested}){DIM:#}"))
        .unwrap_or_default();
    outln!(
        "{agent} {}{tested}\n",
        sanitize(version.unwrap_or_default())
    );
}

fn show(finding: &Finding) {
    let (mark, paint) = match finding.result {
        "passed" => ("✓", GOOD),
        "failed" => ("✗", BAD),
        _ => ("–", DIM),
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
            outln!("  {times} × {}", sanitize(message));
        }
    }
    let failed = report
        .checks
        .iter()
        .filter(|finding| finding.result == "failed")
        .count();
    match failed {
        0 => outln!("\n{GOOD}All checks passed.{GOOD:#}"),
        _ => outln!("\n{BAD}{} failed.{BAD:#}", counted(failed as u64, "check")),
    }
}
