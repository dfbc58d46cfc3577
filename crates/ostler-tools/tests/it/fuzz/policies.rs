//! Policy files: parsing never panics, errors are readable, examples hold, and a workspace's file
//! never widens.

use ostler_core::permission::{Command, Policy, PolicyAction, ToolKind, ToolUse, Trust};
use ostler_tools::SandboxPolicy;

use super::harness::{campaign, files};
use super::random::Random;

const TOKENS: [&str; 56] = [
    "[[rule]]\n",
    "[rule]\n",
    "[[command]]\n",
    "[files]\n",
    "[sandbox]\n",
    "kind = ",
    "tool = ",
    "command = ",
    "path = ",
    "do = ",
    "message = ",
    "examples = ",
    "not = ",
    "name = ",
    "write = ",
    "read = ",
    "network = ",
    "required = ",
    "env = ",
    "deny = ",
    "allow = ",
    "block = ",
    "text = ",
    "flags = ",
    "trusted_projects = ",
    "timeout_seconds = ",
    "memory_mb = ",
    "\"allow\"",
    "\"deny\"",
    "\"ask\"",
    "\"execute\"",
    "\"read\"",
    "\"edit\"",
    "\"*\"",
    "\"**\"",
    "\"git push\"",
    "\"git *\"",
    "\"../**\"",
    "\"/etc/**\"",
    "\"~\"",
    "\"[\"",
    "\"{a,b}\"",
    "\"\"",
    "\"\\u202e\"",
    "[",
    "]",
    "{",
    "}",
    ", ",
    "\n",
    "true",
    "-1",
    "99999999999999999999",
    "1e9",
    "'''",
    "# ",
];

#[derive(Debug)]
enum Input {
    Permissions(String),
    Sandbox(String),
}

fn input(random: &mut Random, permissions: &[String], sandbox: &[String]) -> Input {
    let is_permissions = random.once_in(2);
    let seeds = if is_permissions { permissions } else { sandbox };
    let mut text = seeds[random.below(seeds.len())].clone();
    for _ in 0..random.below(4) {
        let mut lines: Vec<&str> = text.lines().collect();
        if !lines.is_empty() {
            let at = random.below(lines.len());
            match random.below(4) {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, lines[at]),
                2 => {
                    let other = random.below(lines.len());
                    lines.swap(at, other);
                }
                _ => {
                    let other = &seeds[random.below(seeds.len())];
                    let more: Vec<&str> = other.lines().collect();
                    if !more.is_empty() {
                        lines.insert(at, more[random.below(more.len())]);
                    }
                }
            }
        }
        text = lines.join("\n");
    }
    if random.once_in(2) {
        text = random.mutate(&text, &TOKENS);
    }
    if is_permissions {
        Input::Permissions(text)
    } else {
        Input::Sandbox(text)
    }
}

/// Checks that an error is readable: it has some text, few lines, and no control characters.
fn readable(message: &str) -> Result<(), String> {
    let is_bad = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    match () {
        () if message.trim().len() < 10 => Err(format!("an error that says nothing: {message:?}")),
        () if message.len() > 20_000 => Err(format!("an error of {} bytes", message.len())),
        () if message.contains(is_bad) => {
            Err(format!("an error with control characters: {message:?}"))
        }
        () => Ok(()),
    }
}

fn uses() -> Vec<ToolUse> {
    let shell = |line: &str| ToolUse {
        command: Some(Command::Shell(line.into())),
        ..ToolUse::new("Bash", ToolKind::Execute)
    };
    let file = |kind, path: &str| ToolUse {
        paths: vec![path.into()],
        ..ToolUse::new("File", kind)
    };
    let mut uses: Vec<ToolUse> = [
        "git status",
        "git push",
        "cargo test; rm -rf x",
        "sudo npm publish",
        "",
        "$x",
    ]
    .map(shell)
    .into();
    uses.extend(
        ["src/a.rs", "../x", "/etc/hosts", ".env", ""].map(|path| file(ToolKind::Edit, path)),
    );
    uses.extend(["secrets/a", "~/.ssh/id"].map(|path| file(ToolKind::Read, path)));
    uses.extend(ToolKind::ALL.map(|kind| ToolUse::new("mcp__github__x", kind)));
    uses
}

fn permissions(text: &str) -> Result<(), String> {
    let project = Policy::parse(text, "project", Trust::Project);
    let user_policy = match Policy::parse(text, "own", Trust::Full) {
        Err(error) => {
            if project.is_ok() {
                return Err("accepted from a project, but not from its owner".into());
            }
            return readable(&error.to_string());
        }
        Ok(user_policy) => user_policy,
    };
    for wants in uses() {
        let ruling = user_policy.decide(&wants, "/workspace");
        if ruling.action != user_policy.decide(&wants, "/workspace").action {
            return Err(format!("two decisions for {wants:?}"));
        }
        if let Ok(project) = &project
            && matches!(
                project.decide(&wants, "/workspace").action,
                PolicyAction::Allow
            )
        {
            return Err(format!("a project allows {wants:?}"));
        }
    }
    user_policy
        .lint()
        .iter()
        .try_for_each(|line| readable(line))?;
    examples(text, &user_policy)
}

/// Checks that the examples of command rules match their rule.
fn examples(text: &str, policy: &Policy) -> Result<(), String> {
    let file: toml::Table = toml::from_str(text).map_err(|error| error.to_string())?;
    let rules = file
        .get("rule")
        .and_then(toml::Value::as_array)
        .cloned()
        .unwrap_or_default();
    for rule in rules.iter().filter_map(toml::Value::as_table) {
        // Examples are uses of the rule's own kind; only executed commands are created below.
        let other_kind = rule
            .get("kind")
            .is_some_and(|kind| !kind.to_string().contains("execute"));
        if other_kind
            || rule.contains_key("tool")
            || rule.contains_key("path")
            || !rule.contains_key("command")
        {
            continue;
        }
        let action = rule
            .get("do")
            .and_then(toml::Value::as_str)
            .unwrap_or_default();
        for example in rule
            .get("examples")
            .and_then(toml::Value::as_array)
            .into_iter()
            .flatten()
        {
            let Some(line) = example.as_str() else {
                continue;
            };
            let command = Some(Command::Shell(line.into()));
            let wants = ToolUse {
                command,
                ..ToolUse::new("example", ToolKind::Execute)
            };
            let ruled = policy.decide(&wants, "/workspace").action;
            if ruled.as_str() != action
                && !(action == "deny" && matches!(ruled, PolicyAction::Deny(_)))
            {
                return Err(format!(
                    "the example {line:?} of a rule with {action:?} is decided as {ruled:?}"
                ));
            }
        }
    }
    Ok(())
}

fn sandbox(text: &str) -> Result<(), String> {
    match (text.parse::<SandboxPolicy>(), text.parse::<SandboxPolicy>()) {
        (Err(error), Err(_)) => readable(&error.message),
        (Ok(one), Ok(two)) if format!("{one:?}") == format!("{two:?}") => Ok(()),
        _ => Err("two results for one text".into()),
    }
}

#[test]
fn policy_files_are_read_or_refused_with_reasons() {
    let (permission_seeds, sandbox_seeds) = (files("permissions"), files("sandbox"));
    let make = |random: &mut Random| input(random, &permission_seeds, &sandbox_seeds);
    campaign("policies", make, |input| match input {
        Input::Permissions(text) => permissions(text),
        Input::Sandbox(text) => sandbox(text),
    });
}

/// The seeds themselves are valid policies.
#[test]
fn seeds_are_valid_policies() {
    for text in files("permissions") {
        drop(
            Policy::parse(&text, "seed", Trust::Full)
                .unwrap_or_else(|error| panic!("{error}\n{text}")),
        );
    }
    for text in files("sandbox") {
        let read = text.parse::<SandboxPolicy>();
        assert!(read.is_ok(), "{read:?}\n{text}");
    }
}
