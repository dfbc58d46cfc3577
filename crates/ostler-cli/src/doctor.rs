//! `ostler doctor`: which agents are there, which are ready, and what to do about the rest.

use ostler::clip::plain;
use ostler::{Probed, Spec, keys};
use serde::Serialize;

use crate::args::{DoctorArgs, PolicyArgs};
use crate::exit::{self, Code};
use crate::fault::Fault;
use crate::output::{say, style};
use crate::spec::{directory, lookup};
use crate::{config, conformance, environment};

/// One agent, as it is reported.
#[derive(Debug, Serialize)]
struct Finding {
    agent: String,
    /// `ready`, `missing`, `not_configured`, `broken`, `too_old` or `not_logged_in`.
    status: &'static str,
    version: Option<String>,
    minimum_version: Option<String>,
    path: Option<String>,
    login: Option<String>,
    problem: Option<String>,
    hint: Option<String>,
    /// True for an agent that is part of Ostler and only plays scripts.
    built_in: bool,
}

/// Probes every agent and reports.
pub(crate) async fn run(args: DoctorArgs) -> Result<Code, Fault> {
    let config = config::load(args.config, &PolicyArgs::default(), &directory(None)?)?;
    if let Some(agent) = &args.conformance {
        return conformance::run(config.agents(), agent, args.json).await;
    }
    let host = environment::host();
    let mut findings = Vec::new();
    for agent in config.agents().iter() {
        let mut spec = Spec::default();
        let filled = config.defaults(agent.name()).map(|defaults| defaults.fill(&mut spec, &lookup)).transpose();
        if let Some(name) = &args.workspace_tools {
            spec.settings.set(keys::WORKSPACE_TOOLS, name);
        }
        let probed = match filled {
            Ok(_) => agent.probe_for(&host, &spec).await,
            Err(error) => Probed::NotConfigured { hint: error.to_string() },
        };
        let mut found = finding(agent.name(), probed);
        let plan = agent.dialect().probe();
        found.built_in = agent.plays();
        found.minimum_version = plan.map(|plan| plan.minimum.to_string());
        findings.push(found);
    }
    // An agent that plays scripts is always ready; it does not make a machine ready for work.
    let ready = findings.iter().any(|f| f.status == "ready" && !f.built_in);
    if args.json {
        let report =
            serde_json::json!({ "ready": ready, "ostler_version": env!("CARGO_PKG_VERSION"), "agents": findings });
        say(&serde_json::to_string_pretty(&report).map_err(Fault::internal)?);
    } else {
        show(&findings, ready);
    }
    Ok(if ready { exit::OK } else { exit::UNAVAILABLE })
}

fn finding(agent: &str, probed: Probed) -> Finding {
    let mut f = Finding {
        agent: agent.to_owned(),
        status: "ready",
        version: None,
        minimum_version: None,
        path: None,
        login: None,
        problem: None,
        hint: None,
        built_in: false,
    };
    match probed {
        Probed::Ready { version, path, login } => {
            (f.version, f.login) = (version, login);
            f.path = path.map(|p| p.display().to_string());
        }
        Probed::Missing { hint, searched } => {
            let places: Vec<_> = searched.iter().map(|p| p.display().to_string()).collect();
            f.status = "missing";
            f.problem = Some(if places.is_empty() {
                "PATH is empty".into()
            } else {
                format!("not found in {}", places.join(", "))
            });
            f.hint = Some(hint);
        }
        Probed::NotConfigured { hint } => (f.status, f.hint) = ("not_configured", Some(hint)),
        Probed::Broken { path, why, hint } => {
            f.status = "broken";
            (f.path, f.problem, f.hint) = (Some(path.display().to_string()), Some(why), Some(hint));
        }
        Probed::TooOld { path, version, need, hint } => {
            f.status = "too_old";
            f.problem = Some(format!("version {version} is too old, {need} is needed"));
            (f.path, f.version, f.hint) = (Some(path.display().to_string()), Some(version), Some(hint));
        }
        Probed::NotLoggedIn { path, version, hint } => {
            f.status = "not_logged_in";
            f.problem = Some("nobody is logged in: authentication or an API key is needed".into());
            (f.path, f.version, f.hint) = (Some(path.display().to_string()), Some(version), Some(hint));
        }
    }
    f
}

fn show(findings: &[Finding], ready: bool) {
    let width = findings.iter().map(|f| f.agent.len()).max().unwrap_or(0);
    for f in findings {
        let (mark, paint) = if f.status == "ready" { ("✓", style::GOOD) } else { ("✗", style::BAD) };
        let version = plain(f.version.as_deref().unwrap_or(""));
        let state = if f.built_in { "built in, plays scripts".to_owned() } else { f.status.replace('_', " ") };
        say(format!("{paint}{mark}{paint:#} {:width$}  {state:<14} {version}", f.agent).trim_end());
        let rows = [("where", &f.path), ("login", &f.login), ("problem", &f.problem), ("do", &f.hint)];
        for (name, value) in rows {
            if let Some(value) = value {
                let dim = style::DIM;
                say(&format!("  {dim}{name:>width$}{dim:#}  {}", plain(value), width = width.max(7)));
            }
        }
    }
    if !ready {
        say("\nNo agent is ready for work.");
        if findings.iter().all(|f| f.built_in || ["missing", "not_configured"].contains(&f.status)) {
            say("`ostler run \"…\"` plays a built-in script until one is installed, and says so.");
        }
    }
}
