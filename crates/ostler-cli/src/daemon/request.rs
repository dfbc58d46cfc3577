//! The request for a session of the daemon, from the flags of `ostler run`.

use std::collections::BTreeMap;

use clap::ValueEnum;
use ostler::spec::{Settings, keys};
use ostler_daemon::api::{CreateSession, FleetPlacement};
use serde_json::Value;

use crate::args::{ChatArgs, LimitArgs, PlacementArgs, RunArgs, StartArgs};
use crate::fault::Result;
use crate::{config, prompt, spec};

/// Returns the request for a session that ends after one turn.
pub(crate) fn session_request(args: &RunArgs) -> Result<CreateSession> {
    let mode = match (args.detach, args.fleet.fleet) {
        (true, _) => "--detach",
        (false, true) => "--fleet",
        (false, false) => "--daemon",
    };
    let request = request(&args.start, mode)?;
    Ok(CreateSession {
        prompt: Some(prompt::read(&args.task, &request.dir, "run")?),
        name: args.name.clone(),
        once: true,
        fleet: placement(&args.fleet),
        ..request
    })
}

/// Returns the request for a session that waits for messages.
pub(crate) fn chat_request(args: &ChatArgs) -> Result<CreateSession> {
    let mode = match args.fleet.fleet {
        true => "--fleet",
        false => "--daemon",
    };
    Ok(CreateSession {
        prompt: args.prompt.clone(),
        fleet: placement(&args.fleet),
        ..request(&args.start, mode)?
    })
}

/// Returns where the session runs; `None` for this machine.
fn placement(args: &PlacementArgs) -> Option<FleetPlacement> {
    args.fleet.then(|| FleetPlacement {
        labels: args.needs_label.iter().cloned().collect(),
        ..FleetPlacement::default()
    })
}

fn request(start: &StartArgs, mode: &str) -> Result<CreateSession> {
    if let Some(flag) = unsupported(start) {
        return Err(usage!("{flag} cannot be used with `{mode}`").hint(
            "the daemon starts agents with its own environment, policy and configuration; run \
             without it, or change the configuration",
        ));
    }
    let dir = config::directory(start.dir.as_deref())?;
    let mut settings = Settings::default();
    spec::collect_settings(&start.agent_settings, &mut settings)?;
    let model = settings.last(keys::MODEL).map(str::to_owned);
    let model = model.map_or_else(config::model, |model| Ok(Some(model)))?;
    // These have fields of their own.
    for key in [keys::MODEL, keys::RESUME, keys::FORK] {
        settings.remove(key);
    }
    let permissions = start.policy.permissions.and_then(|preset| {
        let value = preset.to_possible_value()?;
        Some(value.get_name().to_owned())
    });
    let sandbox = start.sandbox.and_then(|mode| {
        let value = mode.to_possible_value()?;
        Some(value.get_name().to_owned())
    });
    Ok(CreateSession {
        sandbox,
        agent: start
            .agent
            .clone()
            .map_or_else(config::agent, |name| Ok(Some(name)))?,
        dir: dir.canonicalize().unwrap_or(dir),
        model,
        labels: spec::labels(&start.label)?,
        limits: limits(&start.limits),
        settings: settings.iter().map(setting).collect(),
        permissions,
        resume: start.agent_settings.resume.clone(),
        fork: start.agent_settings.fork,
        ..CreateSession::default()
    })
}

/// Returns a flag that the daemon has no counterpart for.
pub(crate) fn unsupported(start: &StartArgs) -> Option<&'static str> {
    let given = [
        ("`--program`", start.program.is_some()),
        ("`--env`", !start.env.is_empty()),
        ("`--raw-log`", start.raw_log.is_some()),
        ("`--no-store`", start.no_store),
        ("`--policy`", start.policy.policy.is_some()),
        ("`--trust-project`", start.policy.trust_project),
        ("`--no-config`", start.config.no_config),
        ("`--commands`", start.commands.commands.is_some()),
        (
            "`--allow-command`",
            !start.commands.allow_command.is_empty(),
        ),
        ("`--continue`", start.continue_latest),
        ("`--session-id`", start.agent_settings.session_id.is_some()),
        (
            "`--tolerate-denials`",
            start.agent_settings.tolerate_denials,
        ),
        ("an argument after `--`", !start.extra.is_empty()),
    ];
    given
        .into_iter()
        .find(|(_, is_given)| *is_given)
        .map(|(flag, _)| flag)
}

fn setting((key, values): (&str, &[String])) -> (String, Value) {
    let value = match values {
        [value] => Value::from(value.as_str()),
        values => Value::from(values),
    };
    (key.to_owned(), value)
}

fn limits(args: &LimitArgs) -> BTreeMap<String, Value> {
    let time = |time: Option<crate::args::Time>| time.map(|time| time.to_string());
    let size = |size: Option<ostler::config::SizeLimit>| size.map(crate::args::size_text);
    let given = [
        ("timeout", time(args.timeout)),
        ("idle_timeout", time(args.idle_timeout)),
        ("startup_timeout", time(args.startup_timeout)),
        ("grace", time(args.grace)),
        ("max_time", time(args.max_time)),
        ("max_turns", args.max_turns.clone()),
        ("max_budget_usd", args.max_budget_usd.clone()),
        (
            "max_tokens",
            args.max_tokens.map(|tokens| tokens.to_string()),
        ),
        (
            "max_messages",
            args.max_messages.map(|messages| messages.to_string()),
        ),
        ("max_log_size", size(args.sizes.max_log_size)),
        ("max_raw_size", size(args.sizes.max_raw_size)),
    ];
    let given = given
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    given
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;
    use crate::args::{Cli, Verb};

    fn request(flags: &[&str]) -> Result<CreateSession> {
        let words = ["ostler", "run", "--detach", "go"].iter().chain(flags);
        let Verb::Run(args) = Cli::try_parse_from(words).unwrap().verb else {
            panic!("not a run")
        };
        session_request(&args)
    }

    #[test]
    fn flags_become_fields() {
        let request = request(&[
            "--agent=claude",
            "--model=opus",
            "--name=nightly",
            "--label=team=core",
            "--permissions=read-only",
            "--sandbox=workspace-write",
            "--timeout=90s",
            "--grace=500ms",
            "--max-turns=3",
            "--max-tokens=1000",
            "--max-log-size=1MB",
            "--set=effort=high",
            "--tools=Read,Edit",
            "--resume=abc",
            "--fork",
            "--dir=/",
        ]);
        assert_eq!(
            serde_json::to_value(request.unwrap()).unwrap(),
            json!({
                "agent": "claude", "dir": "/", "prompt": "go", "model": "opus", "name": "nightly",
                "labels": {"team": "core"}, "permissions": "read-only", "once": true,
                "sandbox": "workspace-write",
                "limits": {
                    "timeout": "90s", "grace": "500ms", "max_turns": "3", "max_tokens": "1000",
                    "max_log_size": "1000000",
                },
                "settings": {"effort": "high", "tools": ["Read", "Edit"]},
                "resume": "abc", "fork": true,
            })
        );
    }

    #[test]
    fn flags_without_a_field_are_named() {
        for (flags, name) in [
            (&["--program", "x"][..], "`--program`"),
            (&["--env", "A=b"], "`--env`"),
            (&["--raw-log", "x"], "`--raw-log`"),
            (&["--no-store"], "`--no-store`"),
            (&["--policy", "x"], "`--policy`"),
            (&["--", "x"], "an argument after `--`"),
        ] {
            let message = request(flags).unwrap_err().outcome().message;
            assert_eq!(message, format!("{name} cannot be used with `--detach`"));
        }
        let message = request(&["--label", "x"]).unwrap_err().outcome().message;
        assert_eq!(message, "--label x: expected NAME=VALUE");
    }
}
