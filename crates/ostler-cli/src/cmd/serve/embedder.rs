//! Sessions of the daemon: agent, configuration, policy and trust, as for `ostler run`.

use std::str::FromStr;
use std::sync::Arc;

use clap::ValueEnum;
use ostler::Agent;
use ostler::event::Timestamp;
use ostler::spec::{AfterTurn, Attendance};
use ostler_daemon::api::{CreateSession, FleetPlacement};
use ostler_daemon::problem::{Problem, ProblemKind};
use ostler_daemon::{AgentsFuture, Embedder, PrepareFuture, Prepared};
use ostler_fleet::owner::sessions::{FleetSessions, SessionOrder};
use serde_json::Value;

use crate::args::{ConfigArgs, LimitArgs, Permissions, PolicyArgs, SandboxKind, StartArgs};
use crate::cmd::doctor;
use crate::fault::Fault;
use crate::spec::{self, ChosenAgent, LaunchContext};
use crate::{commands, config, environment, trust_review};

/// This program, as the daemon sees it.
pub(super) struct Program {
    policy: PolicyArgs,
    config: ConfigArgs,
    /// Sandbox of agents whose session does not ask for another.
    sandbox: Option<SandboxKind>,
    /// The fleet that runs sessions, if the daemon belongs to one.
    fleet: Option<Arc<FleetSessions>>,
}

impl Program {
    pub(super) fn new(
        policy: PolicyArgs,
        config: ConfigArgs,
        sandbox: Option<SandboxKind>,
        fleet: Option<Arc<FleetSessions>>,
    ) -> Self {
        Self {
            policy,
            config,
            sandbox,
            fleet,
        }
    }

    /// Returns the agent as the fleet runs it.
    fn in_fleet(
        &self,
        request: &CreateSession,
        placement: &FleetPlacement,
        chosen: &ChosenAgent,
    ) -> Result<Arc<dyn Agent>, Problem> {
        let Some(fleet) = &self.fleet else {
            let why = "fleet: this daemon does not belong to a fleet";
            return Err(Problem::new(ProblemKind::BadRequest, why)
                .hint("start it with `ostler serve --fleet`"));
        };
        let order = SessionOrder {
            agent: chosen.name.clone(),
            settings: request.settings.clone(),
            labels: placement.labels.clone(),
            repository: placement.repository.clone(),
            commit: placement.commit.clone(),
        };
        Ok(fleet.agent(chosen.agent.clone(), order))
    }

    async fn prepare_session(&self, request: &CreateSession) -> Result<Prepared, Problem> {
        let mut args = StartArgs {
            agent: request.agent.clone(),
            limits: limits(request)?,
            policy: self.policy.clone(),
            config: self.config,
            ..StartArgs::default()
        };
        args.agent_settings.model.clone_from(&request.model);
        if let Some(name) = &request.permissions {
            let preset = Permissions::from_str(name, false);
            let preset = preset.map_err(|_| {
                invalid(
                    "permissions",
                    "expected `read-only`, `workspace`, `ask` or `all`",
                )
            })?;
            args.policy.permissions = Some(preset);
        }
        if let Some(name) = &request.sandbox {
            let mode = SandboxKind::from_str(name, false);
            let mode = mode.map_err(|_| {
                invalid(
                    "sandbox",
                    "expected `workspace-write`, `read-only` or `off`",
                )
            })?;
            args.sandbox = Some(mode);
        }
        let dir = &request.dir;
        let project = trust_review::open(args.config, &args.policy, dir, Attendance::Unattended)
            .map_err(problem)?;
        let config = config::load(args.config, &project).map_err(problem)?;
        let choice = commands::choice(&args.commands).map_err(problem)?;
        let host = environment::host().with_commands(choice);
        let host = trust_review::attach(host, &project, &config).map_err(problem)?;
        let chosen = choose(&config, &args, &host).await?;
        // An agent without a process has nothing to confine but its commands, which always are.
        if args.sandbox.is_none() && chosen.agent.about().is_program() {
            args.sandbox = self.sandbox;
        }
        let context = LaunchContext {
            dir: dir.clone(),
            project,
            streaming: true,
            after_turn: AfterTurn::Wait,
            attendance: Attendance::Attended,
            verb: "run",
            ..LaunchContext::default()
        };
        let mut requested = spec::build(args, &config, context).map_err(problem)?;
        for (key, value) in &request.settings {
            requested.settings.remove(key);
            for value in values(key, value)? {
                requested.settings.push(key, value);
            }
        }
        let (spec, _) = requested.spec(&config, &chosen).map_err(problem)?;
        let agent = match &request.fleet {
            Some(placement) => self.in_fleet(request, placement, &chosen)?,
            None => chosen.agent,
        };
        Ok(Prepared {
            name: chosen.name,
            agent,
            host,
            spec,
        })
    }
}

async fn choose(
    config: &ostler::config::Config,
    args: &StartArgs,
    host: &ostler::Host,
) -> Result<ChosenAgent, Problem> {
    let chosen = spec::choose(config, args, host, spec::Demo::Refused).await;
    chosen.map_err(|fault| Problem {
        kind: ProblemKind::UnknownAgent,
        ..problem(fault)
    })
}

/// Returns the values of a setting.
fn values(key: &str, value: &Value) -> Result<Vec<String>, Problem> {
    let one = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        // A setting whose value is a JSON object, such as MCP servers.
        Value::Object(_) => Ok(value.to_string()),
        Value::Null | Value::Array(_) => Err(invalid(
            &format!("settings.{key}"),
            "expected a value, or a list of values",
        )),
    };
    match value {
        Value::Array(values) => values.iter().map(one).collect(),
        value => Ok(vec![one(value)?]),
    }
}

/// Returns the limits of a request.
fn limits(request: &CreateSession) -> Result<LimitArgs, Problem> {
    let mut limits = LimitArgs::default();
    for (name, value) in &request.limits {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => {
                return Err(invalid(
                    &format!("limits.{name}"),
                    "expected a text or a number",
                ));
            }
        };
        match name.as_str() {
            "timeout" => limits.timeout = Some(limit(name, &text)?),
            "idle_timeout" => limits.idle_timeout = Some(limit(name, &text)?),
            "startup_timeout" => limits.startup_timeout = Some(limit(name, &text)?),
            "grace" => limits.grace = Some(limit(name, &text)?),
            "max_time" => limits.max_time = Some(limit(name, &text)?),
            "max_turns" => limits.max_turns = Some(text),
            "max_budget_usd" => limits.max_budget_usd = Some(text),
            "max_tokens" => limits.max_tokens = Some(limit(name, &text)?),
            "max_messages" => limits.max_messages = Some(limit(name, &text)?),
            "max_log_size" => limits.sizes.max_log_size = Some(limit(name, &text)?),
            "max_raw_size" => limits.sizes.max_raw_size = Some(limit(name, &text)?),
            _ => {
                let known = "timeout, idle_timeout, startup_timeout, grace, max_time, max_turns, \
                    max_budget_usd, max_tokens, max_messages, max_log_size, max_raw_size";
                return Err(invalid(
                    &format!("limits.{name}"),
                    &format!("known limits: {known}"),
                ));
            }
        }
    }
    Ok(limits)
}

fn limit<T: FromStr<Err: std::fmt::Display>>(name: &str, text: &str) -> Result<T, Problem> {
    text.parse()
        .map_err(|error| invalid(&format!("limits.{name}"), &format!("{error}")))
}

fn invalid(name: &str, why: &str) -> Problem {
    Problem::new(ProblemKind::BadRequest, format!("{name}: {why}"))
}

#[expect(clippy::needless_pass_by_value, reason = "a function for `map_err`")]
fn problem(fault: Fault) -> Problem {
    fault.outcome().into()
}

impl Embedder for Program {
    fn prepare<'a>(&'a self, request: &'a CreateSession) -> PrepareFuture<'a> {
        Box::pin(self.prepare_session(request))
    }

    fn agents(&self) -> AgentsFuture<'_> {
        Box::pin(async {
            // Without a project: only the user's own configuration counts.
            let home = environment::home().unwrap_or_else(|| "/".into());
            match config::load_in(self.config, &home) {
                Ok((_, config)) => doctor::agent_views(&config, environment::host()).await,
                Err(_) => Vec::new(),
            }
        })
    }

    fn now(&self) -> Timestamp {
        environment::now()
    }
}
