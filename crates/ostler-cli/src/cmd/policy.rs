//! `ostler policy test|show`: shows and tests the permission policy.

use std::path::{Path, PathBuf};

use ostler::RawJson;
use ostler::clip::sanitize;
use ostler::permission::{PolicyAction, PolicyDecision, ToolUse};
use ostler::trust::FileKind;
use serde_json::json;

use crate::args::{ConfigArgs, PolicyShowArgs, PolicyTestArgs, PolicyVerb, PolicyVerbArgs};
use crate::config::load_for;
use crate::exit::{self, Code};
use crate::fault::Fault;
use crate::output::{eprint_line, print_line, style};
use crate::policy::{LoadedPolicy, load};
use crate::spec::{directory, find_agent};
use crate::trust::Project;

/// Runs the subcommand.
pub(crate) fn run(args: &PolicyVerbArgs) -> Result<Code, Fault> {
    match &args.verb {
        PolicyVerb::Test(args) => test(args),
        PolicyVerb::Show(args) => show(args),
    }
}

fn workspace(args: &PolicyShowArgs) -> Result<PathBuf, Fault> {
    let dir = directory(args.dir.as_deref())?;
    dir.canonicalize()
        .map_err(|e| Fault::usage(format!("cannot use {}: {e}", dir.display())))
}

/// Loads the project without its configuration, and its policy. A warning about ignored rules comes
/// first.
fn load_policy(args: &PolicyShowArgs, dir: &Path) -> Result<(Project, LoadedPolicy), Fault> {
    let project = Project::read(ConfigArgs { no_config: true }, &args.policy, dir)?;
    let mut loaded = load(&args.policy, &project)?;
    loaded.remarks.splice(..0, loaded.left_out.take());
    Ok((project, loaded))
}

/// `ostler policy test`.
fn test(args: &PolicyTestArgs) -> Result<Code, Fault> {
    let agent = find_agent(&load_for(&args.agent)?, &args.agent)?.agent;
    let input = RawJson::parse(&args.json).map_err(|error| {
        let why = format!("the tool arguments are not valid JSON: {error}");
        Fault::usage(why).hint("for example: ostler policy test Bash '{\"command\":\"git push\"}'")
    })?;
    let wants = agent.dialect().tool_use(&args.tool, &input);
    let dir = workspace(&args.here)?;
    let (_, loaded) = load_policy(&args.here, &dir)?;
    let policy = loaded.policy.unwrap_or_default();
    let ruling = policy.decide(&wants, &dir.to_string_lossy());
    if args.here.json {
        let message = if let PolicyAction::Deny(message) = &ruling.action {
            Some(message)
        } else {
            None
        };
        let report = json!({
            "ruled": ruling.action.as_str(), "rule": ruling.rule, "message": message,
            "tool": wants.tool, "kind": wants.kind, "remarks": loaded.remarks,
        });
        print_line(&format!("{report:#}"));
    } else {
        loaded
            .remarks
            .iter()
            .for_each(|remark| eprint_line(&sanitize(remark)));
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

/// `ostler policy show`.
fn show(args: &PolicyShowArgs) -> Result<Code, Fault> {
    let (project, loaded) = load_policy(args, &workspace(args)?)?;
    let file = project.file(FileKind::Policy);
    let policy = loaded.policy.unwrap_or_default();
    if args.json {
        let rules: Vec<_> = policy.rules().collect();
        let file = file.map(
            |file| json!({ "file": file.root.join(&file.name), "trust": file.standing.as_str() }),
        );
        print_line(&format!(
            "{:#}",
            json!({ "rules": rules, "remarks": loaded.remarks, "project": file })
        ));
        return Ok(exit::OK);
    }
    for rule in policy.rules() {
        let paint = paint(rule.as_str());
        let message = rule
            .message()
            .map(|message| format!(": {}", sanitize(message)))
            .unwrap_or_default();
        print_line(&format!(
            "{paint}{:<5}{paint:#} {rule}{message}",
            rule.as_str()
        ));
    }
    if policy.is_empty() {
        print_line("No rules: the agent's own defaults apply.");
    }
    loaded
        .remarks
        .iter()
        .for_each(|remark| eprint_line(&sanitize(remark)));
    if let Some(file) = file {
        eprint_line(&format!(
            "{} is {}.",
            sanitize(&file.root.join(&file.name).to_string_lossy()),
            file.standing.as_str()
        ));
    }
    Ok(exit::OK)
}
