//! `ostler policy test|show`: a look into the permission policy.

use std::path::PathBuf;

use ostler::Raw;
use ostler::clip::plain;
use ostler::permission::{Ruled, Ruling, ToolUse};
use serde_json::json;

use crate::args::{PolicyShowArgs, PolicyTestArgs, PolicyVerb, PolicyVerbArgs};
use crate::config::load_for;
use crate::exit::{self, Code};
use crate::fault::Fault;
use crate::output::{say, style, tell};
use crate::policy::load;
use crate::spec::{directory, named};

/// Runs the verb of the verb.
pub(crate) fn run(args: &PolicyVerbArgs) -> Result<Code, Fault> {
    match &args.verb {
        PolicyVerb::Test(args) => test(args),
        PolicyVerb::Show(args) => show(args),
    }
}

fn workspace(args: &PolicyShowArgs) -> Result<PathBuf, Fault> {
    let dir = directory(args.dir.as_deref())?;
    dir.canonicalize().map_err(|e| Fault::usage(format!("{} cannot be used: {e}", dir.display())))
}

/// `ostler policy test`.
fn test(args: &PolicyTestArgs) -> Result<Code, Fault> {
    let agent = named(&load_for(&args.agent)?, &args.agent)?.agent;
    let input = Raw::parse(&args.json).map_err(|error| {
        let why = format!("the tool's arguments are not JSON: {error}");
        Fault::usage(why).hint("such as: ostler policy test Bash '{\"command\":\"git push\"}'")
    })?;
    let wants = agent.dialect().tool_use(&args.tool, &input);
    let dir = workspace(&args.here)?;
    let loaded = load(&args.here.policy, &dir)?;
    let policy = loaded.policy.unwrap_or_default();
    let ruling = policy.decide(&wants, &dir.to_string_lossy());
    if args.here.json {
        let message = if let Ruled::Deny(message) = &ruling.ruled { Some(message) } else { None };
        let report = json!({
            "ruled": ruling.ruled.word(), "rule": ruling.rule, "message": message,
            "tool": wants.tool, "kind": wants.kind, "remarks": loaded.remarks,
        });
        say(&format!("{report:#}"));
    } else {
        loaded.remarks.iter().for_each(|remark| tell(&plain(remark)));
        say(&sentence(&ruling, &wants, policy.is_empty()));
    }
    Ok(match ruling.ruled {
        Ruled::Allow => exit::OK,
        Ruled::Deny(_) => exit::of(ostler::Cause::Denied),
        Ruled::Ask | Ruled::Undecided => exit::FAILED,
    })
}

fn sentence(ruling: &Ruling, wants: &ToolUse, is_empty: bool) -> String {
    let paint = paint(ruling.ruled.word());
    let why = match (&ruling.ruled, &ruling.rule) {
        (Ruled::Deny(message), Some(rule)) => format!("{rule}: {message}"),
        (_, Some(rule)) => rule.clone(),
        (_, None) if is_empty => "there is no policy: give --permissions or --policy, or write your own".to_owned(),
        (_, None) => "no rule matches: the agent's own ways decide".to_owned(),
    };
    let what = format!("{} ({})", wants.tool, wants.kind.word());
    format!("{paint}{}{paint:#}  {}  {}", ruling.ruled.word(), plain(&what), plain(&why))
}

fn paint(word: &str) -> anstyle::Style {
    match word {
        "allow" => style::GOOD,
        "deny" => style::BAD,
        _ => style::WARN,
    }
}

/// `ostler policy show`.
fn show(args: &PolicyShowArgs) -> Result<Code, Fault> {
    let loaded = load(&args.policy, &workspace(args)?)?;
    let policy = loaded.policy.unwrap_or_default();
    if args.json {
        let rules: Vec<_> = policy.rules().collect();
        say(&format!("{:#}", json!({ "rules": rules, "remarks": loaded.remarks })));
        return Ok(exit::OK);
    }
    for rule in policy.rules() {
        let paint = paint(rule.word());
        let message = rule.message().map(|message| format!(": {}", plain(message))).unwrap_or_default();
        say(&format!("{paint}{:<5}{paint:#} {rule}{message}", rule.word()));
    }
    if policy.is_empty() {
        say("There are no rules: the agent's own ways decide.");
    }
    loaded.remarks.iter().for_each(|remark| tell(&plain(remark)));
    Ok(exit::OK)
}
