//! API agents: a model, over HTTP or from a script, with Ostler's own tool loop.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler_core::dialect::{Dialect, Inherits, Launching};
use ostler_core::event::Notice;
use ostler_core::spec::{Sandbox, Spec, SpecError, keys};
use ostler_dialects::openai::OpenAi;
use ostler_dialects::scripted::Scripted as ScriptedDialect;
use ostler_tools::command::RUN_COMMAND;
use ostler_tools::confine::{Network, Required};
use ostler_tools::{SandboxPolicy, ToolError, Workspace};

use super::{
    Agent, ProbeFuture, check_without_process, directory, prepare, previous_session, session_id,
};
use crate::api;
use crate::breaker::{BreakerState, SessionBreaker};
use crate::command::{self, CommandRunner, user_git};
use crate::hooks::Hooks;
use crate::host::Host;
use crate::in_process::Busy;
use crate::model::{Http, Model, Script, Scripted, account};
use crate::probe::Probed;
use crate::process::SpawnError;
use crate::session::tool_results::Submissions;
use crate::session::{LaunchFn, Session, SessionSetup};
use crate::toolbox::Toolbox;
use crate::tools::Tool;
use crate::trust::{Decided, FileKind};

/// Default number of retries of a model call.
const DEFAULT_RETRIES: usize = 3;

/// The variables that determine the account.
const ACCOUNT: Inherits = Inherits {
    always: &["OPENAI_API_KEY", "OPENAI_BASE_URL"],
    when: &[],
    never: &[],
};

/// A model with Ostler's own tool loop: any OpenAI-compatible server, or a script.
///
/// ```
/// # struct Weather;
/// # impl ostler::Tool for Weather {
/// #     fn name(&self) -> &str { "weather" }
/// #     fn description(&self) -> &str { "The weather." }
/// #     fn schema(&self) -> String { r#"{"type":"object"}"#.into() }
/// #     fn call<'a>(&'a self, _: &'a str) -> ostler::tools::ToolFuture<'a> {
/// #         Box::pin(async { Ok("sunny".into()) })
/// #     }
/// # }
/// let mut agents = ostler::Agents::builtin();
/// agents.add(std::sync::Arc::new(ostler::agent::ApiAgent::openai().tool(Weather)));
/// ```
#[must_use]
#[derive(Clone)]
pub struct ApiAgent {
    dialect: &'static dyn Dialect,
    source: Source,
    tools: Vec<Arc<dyn Tool>>,
    policy: Option<SandboxPolicy>,
    /// Whether to omit the workspace's tools.
    bare: bool,
    hooks: Option<Hooks>,
}

/// Where the model's answers come from.
#[derive(Clone)]
enum Source {
    /// An OpenAI-compatible server.
    Server,
    /// This script, or the one from the spec or the workspace.
    Script(Option<Script>),
    /// This model.
    Model(Arc<dyn Model>),
}

impl ApiAgent {
    /// Creates the agent `openai-api`, for any OpenAI-compatible server.
    pub fn openai() -> Self {
        Self::of(&OpenAi, Source::Server)
    }

    /// Creates the agent `scripted`, a model that reads its answers from a file.
    pub fn scripted() -> Self {
        Self::of(&ScriptedDialect, Source::Script(None))
    }

    /// Creates an agent loop around this model.
    pub(crate) fn around(
        dialect: &'static dyn Dialect,
        model: Arc<dyn Model>,
        hooks: Hooks,
    ) -> Self {
        Self {
            hooks: Some(hooks),
            ..Self::of(dialect, Source::Model(model))
        }
    }

    /// Sets whether to omit the workspace's tools.
    pub(crate) fn bare(self, bare: bool) -> Self {
        Self { bare, ..self }
    }

    /// Adds tools of the caller.
    pub(crate) fn with_tools(mut self, tools: &[Arc<dyn Tool>]) -> Self {
        self.tools.extend_from_slice(tools);
        self
    }

    fn of(dialect: &'static dyn Dialect, source: Source) -> Self {
        Self {
            dialect,
            source,
            tools: Vec::new(),
            policy: None,
            bare: false,
            hooks: None,
        }
    }

    /// Creates the agent `scripted` with this script.
    pub fn playing(script: Script) -> Self {
        Self {
            source: Source::Script(Some(script)),
            ..Self::scripted()
        }
    }

    /// Adds a tool, replacing any with the same name.
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Uses this sandbox policy instead of the workspace's file.
    pub fn policy(mut self, policy: SandboxPolicy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Creates the model, with a notice if the workspace's script is not played.
    fn model(
        &self,
        host: &Host,
        spec: &Spec,
    ) -> Result<(Arc<dyn Model>, Option<Notice>), SpecError> {
        Ok(match &self.source {
            Source::Server => (Arc::new(Http::new(host, spec)?), None),
            Source::Script(Some(script)) => (Arc::new(Scripted::new(script.clone())), None),
            Source::Script(None) => {
                let (script, notice) = find_script(host, spec)?;
                (Arc::new(Scripted::new(script)), notice)
            }
            Source::Model(model) => (model.clone(), None),
        })
    }

    /// Opens the workspace and creates its tools.
    fn tools(&self, host: &Host, spec: &Spec, session: &str) -> Result<WorkspaceTools, SpecError> {
        let root = directory(spec);
        let invalid =
            |error: ToolError| SpecError::new("dir", &root.display().to_string(), error.message);
        let Decided {
            mut policy,
            mut notices,
            ..
        } = match &self.policy {
            Some(policy) => Decided {
                policy: policy.clone(),
                ..Decided::default()
            },
            None => command::sandbox_policy(host, &root).map_err(invalid)?,
        };
        if spec.sandbox == Sandbox::Off {
            policy.sandbox.required = Required::Nothing;
        }
        let workspace = Workspace::open(&root, &policy.files).map_err(invalid)?;
        let workspace = Arc::new(workspace.with_user_git_config(user_git(host)));
        let runner =
            CommandRunner::new(host, &policy, workspace.clone(), session).map_err(invalid)?;
        let runner = runner.with_env(account::env_of_commands(host, spec));
        notices.extend(runner.notices());
        let busy = runner.busy();
        let mut tools = if self.bare {
            Toolbox::default()
        } else {
            Toolbox::workspace(&workspace, runner)
        };
        for tool in self.tools.iter().chain(host.tools()) {
            tools.add(tool.clone());
        }
        filter_tools(&mut tools, spec)?;
        let sandbox = if tools.get(RUN_COMMAND.name).is_some() {
            describe_sandbox(&policy)
        } else {
            String::new()
        };
        Ok(WorkspaceTools {
            tools,
            notices,
            sandbox,
            busy,
        })
    }
}

/// The tools of a workspace, with notices and a description for the model.
struct WorkspaceTools {
    tools: Toolbox,
    notices: Vec<Notice>,
    sandbox: String,
    /// Held for reading by every running command.
    busy: Busy,
}

/// Describes the command sandbox for the model.
fn describe_sandbox(policy: &SandboxPolicy) -> String {
    let network = match policy.sandbox.network {
        Network::None => " and without network",
        Network::All => "",
    };
    let seconds = policy.sandbox.timeout_seconds;
    format!("Commands run without a shell{network}, each for at most {seconds} seconds.")
}

/// Removes the tools that the settings exclude.
fn filter_tools(tools: &mut Toolbox, spec: &Spec) -> Result<(), SpecError> {
    for key in [keys::TOOLS, keys::DISALLOWED_TOOLS] {
        let named = spec.values(key).unwrap_or_default();
        if let Some(unknown) = named
            .iter()
            .find(|name| !name.is_empty() && tools.get(name).is_none())
        {
            return Err(SpecError::new(key, unknown, tools.unknown(unknown).message));
        }
    }
    if let Some(wanted) = &spec.tools {
        tools.retain(|name| wanted.iter().any(|w| w == name));
    }
    tools.retain(|name| !spec.disallowed_tools.iter().any(|u| u == name));
    Ok(())
}

/// Returns the script named by the spec, or the workspace's if it is trusted, or the demo.
fn find_script(host: &Host, spec: &Spec) -> Result<(Script, Option<Notice>), SpecError> {
    if let Some(named) = spec.value("script") {
        return Ok((read_script(&named)?, None));
    }
    let root = directory(spec);
    if check_directory(&root).is_err() {
        return Ok((Script::demo(), None));
    }
    let file = host.workspace().file(&root, FileKind::Script);
    let file = file.map_err(|error| invalid_script(&root.display().to_string(), error.message))?;
    Ok(match file {
        None => (Script::demo(), None),
        Some(file) if file.is_trusted() => {
            let script = Script::parse(&file.text);
            let script = script.map_err(|error| invalid_script(&file.name, error.to_string()))?;
            (script, None)
        }
        Some(file) => {
            let notice = file.left_out(&["its replies are played"]);
            (Script::demo(), Some(notice))
        }
    })
}

fn read_script(path: &str) -> Result<Script, SpecError> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| invalid_script(path, error.to_string()))?;
    Script::parse(&text).map_err(|error| invalid_script(path, error.to_string()))
}

fn invalid_script(name: &str, why: String) -> SpecError {
    SpecError::new("script", name, why)
}

impl ApiAgent {
    /// Returns true if a failing model service counts. An agent that serves as the model has its
    /// own breaker.
    fn has_breaker(&self) -> bool {
        !self.dialect.about().scripted && !matches!(self.source, Source::Model(_))
    }
}

impl Agent for ApiAgent {
    fn is_found(&self, host: &Host, _: &Spec) -> bool {
        match &self.source {
            Source::Server => Http::is_configured(host),
            Source::Script(_) | Source::Model(_) => true,
        }
    }

    fn probe<'a>(&'a self, host: &'a Host, _: &'a Spec) -> ProbeFuture<'a> {
        Box::pin(async move {
            match &self.source {
                Source::Server => probe_server(host).await,
                Source::Script(_) | Source::Model(_) => Probed::built_in(),
            }
        })
    }

    fn start(&self, host: &Host, mut spec: Spec) -> Result<Session, SpecError> {
        check_without_process(&spec, &self.dialect.about())?;
        self.dialect.launch(&Launching::new(&spec))?;
        prepare(host, &mut spec);
        let previous = previous_session::find(host, &spec, self.dialect.about().name)?;
        let past = previous_session::past(host, &spec, previous.as_ref())?;
        let id = session_id(&spec);
        let (model, notice) = self.model(host, &spec)?;
        let root = directory(&spec);
        let submissions = Arc::<Submissions>::default();
        let launch: LaunchFn = if let Err(error) = check_directory(&root) {
            let outcome = SpawnError::BadDirectory {
                path: root.clone(),
                why: error.to_string(),
            }
            .outcome(None);
            Box::new(move |_, _| Err(outcome.clone()))
        } else {
            let WorkspaceTools {
                tools,
                mut notices,
                sandbox,
                busy,
            } = self.tools(host, &spec, &id)?;
            notices.extend(notice);
            // A scripted error ends the turn; it is not retried.
            let default = if self.dialect.about().scripted {
                0
            } else {
                DEFAULT_RETRIES
            };
            let retries = spec.value("retries").and_then(|n| n.parse().ok());
            let offered = spec.bound_tools.iter();
            let offered = offered.filter(|offer| tools.get(&offer.name).is_none());
            let runner = api::ApiRunner {
                model,
                offered: offered.cloned().collect(),
                tools,
                submissions: submissions.clone(),
                cwd: root.display().to_string(),
                sandbox,
                notices,
                retries: retries.unwrap_or(default),
                busy,
                hooks: self.hooks.clone(),
            };
            Box::new(move |_, _| Ok(api::start(runner.clone()).into()))
        };
        Ok(Session::start(SessionSetup {
            dialect: self.dialect,
            launch,
            install_hint: None,
            id,
            dir: root,
            continues: previous
                .map(|previous| previous.session)
                .or_else(|| spec.follows.clone()),
            breaker: if self.has_breaker() {
                let account = host.account(&ACCOUNT);
                SessionBreaker::new(host.breakers().clone(), self.dialect.about().name, account)
            } else {
                SessionBreaker::off()
            },
            host: host.clone(),
            past,
            submissions,
            spec,
        }))
    }

    fn breaker(&self, host: &Host, spec: &Spec) -> Option<BreakerState> {
        let name = self.dialect.about().name;
        self.has_breaker().then(|| {
            let (breakers, account) = (host.breakers().clone(), host.account(&ACCOUNT));
            BreakerState::new(breakers, name, account, spec.model.clone())
        })
    }

    fn dialect(&self) -> &'static dyn Dialect {
        self.dialect
    }
}

/// Checks the working directory, with the same errors as for a process that is started there.
fn check_directory(path: &Path) -> io::Result<()> {
    if path.metadata()?.is_dir() {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            "it is not a directory",
        ))
    }
}

/// Probes the server by listing its models, which takes a connection and usually a valid key.
async fn probe_server(host: &Host) -> Probed {
    if !Http::is_configured(host) {
        return Probed::NotConfigured {
            hint: Http::SETUP.to_owned(),
        };
    }
    let unusable = |base: &str, why: String| Probed::Broken {
        path: PathBuf::from(base),
        why,
        hint: "Check OPENAI_BASE_URL, and that the server is running.".to_owned(),
    };
    let server = match Http::new(host, &Spec::default()) {
        Ok(server) => server,
        Err(error) => return unusable("", error.to_string()),
    };
    let login = match server.models().await {
        Ok(models) => Some(format!("{} models", models.len())),
        Err(failed) if failed.status == Some(404) => None,
        Err(failed) if matches!(failed.status, Some(401 | 403)) => {
            return Probed::NotLoggedIn {
                path: PathBuf::from(server.base()),
                version: String::new(),
                hint: "The server rejected the key; check OPENAI_API_KEY and OPENAI_BASE_URL."
                    .to_owned(),
            };
        }
        Err(failed) => return unusable(server.base(), failed.message),
    };
    Probed::Ready {
        version: None,
        path: None,
        login,
    }
}
