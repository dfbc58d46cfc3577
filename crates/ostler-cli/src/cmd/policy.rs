//! `ostler policy test|show`: shows and tests the permission policy.

use std::path::{Path, PathBuf};

use ostler::event::RawJson;
use ostler::permission::{PolicyAction, PolicyDecision, ToolUse};
use ostler::render::clip::sanitize;
use ostler::trust::{FileKind, WorkspaceFile};
use serde_json::{Value, json};

use crate::args::{ConfigArgs, PolicyShowArgs, PolicyTestArgs, PolicyVerb};
use crate::config::{directory, load_for};
use crate::exit::{self, Code};
use crate::fault::Result;
use crate::output::{print_json, print_line, style, warn};
use crate::policy::{LoadedPolicy, load};
use crate::spec::find_agent;
use crate::trust::Project;

/// Runs the subcommand.
pub(crate) fn run(verb: &PolicyVerb) -> Result<Code> {
    match verb {
        PolicyVerb::Test(args) => test(args),
        PolicyVerb::Show(args) => show(args),
    }
}

fn workspace(args: &PolicyShowArgs) -> Result<PathBuf> {
    let dir = directory(args.dir.as_deref())?;
    dir.canonicalize()
        .map_err(|e| usage!("cannot use {}: {e}", dir.display()))
}

/// Loads the project without its configuration, and its policy. A warning about ignored rules comes
/// first.
fn load_policy(args: &PolicyShowArgs, dir: &Path) -> Result<(Project, LoadedPolicy)> {
    let project = Project::read(ConfigArgs { no_config: true }, &args.policy, dir)?;
    let mut loaded = load(&args.policy, &project)?;
    loaded.remarks.splice(..0, loaded.left_out.take());
    Ok((project, loaded))
}

/// `ostler policy test`.
fn test(args: &PolicyTestArgs) -> Result<Code> {
    let agent = find_agent(&load_for(&args.agent)?, &args.agent)?.agent;
    let input = RawJson::parse(&args.json).map_err(|error| {
        usage!("the tool arguments are not valid JSON: {error}")
            .hint("for example: ostler policy test Bash '{\"command\":\"git push\"}'")
    })?;
    let wants = agent.dialect().tool_use(&args.tool, &input);
    let dir = workspace(&args.here)?;
    let (_, loaded) = load_policy(&args.here, &dir)?;
    let policy = loaded.policy.unwrap_or_default();
    let ruling = policy.decide(&wants, &dir.to_string_lossy());
    if args.here.json {
        let message = match &ruling.action {
            PolicyAction::Deny(message) => Some(message),
            _ => None,
        };
        let report = json!({
            "ruled": ruling.action.as_str(), "rule": ruling.rule, "message": message,
            "tool": wants.tool, "kind": wants.kind, "remarks": loaded.remarks,
        });
        print_json(&report);
    } else {
        warn(&loaded.remarks);
        print_line(&sentence(&ruling, &wants, policy.is_empty()));
    }
    Ok(match ruling.action {
        PolicyAction::Allow => exit::OK,
        PolicyAction::Deny(_) => exit::of(ostler::Cause::Denied),
        PolicyAction::Ask | PolicyAction::Undecided => exit::FAILED,
    })
}

fn sentence(ruling: &PolicyDecision, wants: &ToolUse, is_empty: bool) -> String {
    let paint = paint(ruling.action.as_str());
    let why = match (&ruling.action, &ruling.rule) {
        (PolicyAction::Deny(message), Some(rule)) => format!("{rule}: {message}"),
        (_, Some(rule)) => rule.clone(),
        (_, None) if is_empty => {
            "no policy: use `--permissions` or `--policy`, or create a policy.toml".to_owned()
        }
        (_, None) => "no rule matches: the agent's own defaults apply".to_owned(),
    };
    let kind = format!("{} ({})", wants.tool, wants.kind.as_str());
    format!(
        "{paint}{}{paint:#}  {}  {}",
        ruling.action.as_str(),
        sanitize(&kind),
        sanitize(&why)
    )
}

fn paint(ruling: &str) -> anstyle::Style {
    match ruling {
        "allow" => style::GOOD,
        "deny" => style::BAD,
        _ => style::WARN,
    }
}

/// Returns a project's file and its trust, for programs.
pub(super) fn file_json(file: &WorkspaceFile) -> Value {
    json!({ "file": file.path(), "trust": file.standing.as_str() })
}

/// `ostler policy show`.
fn show(args: &PolicyShowArgs) -> Result<Code> {
    let (project, loaded) = load_policy(args, &workspace(args)?)?;
    let file = project.file(FileKind::Policy);
    let policy = loaded.policy.unwrap_or_default();
    if args.json {
        let rules: Vec<_> = policy.rules().collect();
        let file = file.map(file_json);
        print_json(&json!({ "rules": rules, "remarks": loaded.remarks, "project": file }));
        return Ok(exit::OK);
    }
    for rule in policy.rules() {
        let paint = paint(rule.as_str());
        let message = rule.message().map(|it| format!(": {}", sanitize(it)));
        let message = message.unwrap_or_default();
        outln!("{paint}{:<5}{paint:#} {rule}{message}", rule.as_str());
    }
    if policy.is_empty() {
        print_line("No rules: the agent's own defaults apply.");
    }
    warn(&loaded.remarks);
    if let Some(file) = file {
        errln!(
            "{} is {}.",
            sanitize(&file.path().to_string_lossy()),
            file.standing.as_str()
        );
    }
    Ok(exit::OK)
}
