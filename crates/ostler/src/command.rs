//! Running a command for a model: checked by the rules of the workspace, confined by the system, and leaving nothing behind.

mod environment;
mod output;
mod run;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ostler_core::event::{Level, Notice};
use ostler_tools::catalog::Reply;
use ostler_tools::command::{Approved, Commands, Place, RUN_COMMAND, RunCommand, describe};
use ostler_tools::confine::{self, CommandLimits, Confinement, Home};
use ostler_tools::{Code, Policy, ToolError, Workspace};

pub use self::output::{CommandOutput, KilledFor};
use crate::host::Host;

/// The code of notices about layers that this machine lacks.
const GAP: &str = "sandbox_gap";

/// The code of notices about what the workspace's own policy allows beyond the defaults.
const POLICY: &str = "sandbox_policy";

/// Runs commands for a model.
pub struct CommandRunner {
    host: Host,
    workspace: Arc<Workspace>,
    commands: Arc<Commands>,
    limits: CommandLimits,
    session: Arc<str>,
    /// What the caller adds to the environment.
    env: BTreeMap<String, String>,
    description: String,
    notices: Vec<Notice>,
    /// Held for reading by every command that is not gone yet.
    busy: Arc<tokio::sync::RwLock<()>>,
    /// What commands may do, by the places where things really were before the first of them ran.
    base: Confinement,
    /// Whether protected files could not be put back; then nothing is run any more.
    broken: Arc<AtomicBool>,
}

impl CommandRunner {
    /// A runner for one session in one workspace. Policy and machine are looked at now, before the model does anything.
    ///
    /// # Errors
    /// When the policy's rules contradict their examples.
    pub fn new(host: &Host, policy: &Policy, workspace: Arc<Workspace>, session: &str) -> Result<Self, ToolError> {
        let commands = Arc::new(Commands::new(&policy.commands)?);
        let limits = policy.sandbox.clone();
        let (path, tools) = (environment::path(host, workspace.root()), environment::tool_homes(host));
        let base = {
            let home = home(host, workspace.root(), (&path, &tools));
            limits.check_here(&home).map_err(|why| ToolError::new(Code::BadArguments, why))?;
            Confinement::command(&limits, &home)
        };
        let mut runner = Self {
            host: host.clone(),
            workspace,
            description: describe(&commands),
            commands,
            limits,
            session: session.into(),
            env: BTreeMap::new(),
            notices: Vec::new(),
            busy: Arc::default(),
            base,
            broken: Arc::default(),
        };
        runner.notices = runner.look_around();
        Ok(runner)
    }

    /// The same, with variables of the caller's for each command. What Ostler sets itself stays as it is.
    #[must_use]
    pub fn with_env(mut self, env: impl IntoIterator<Item = (String, String)>) -> Self {
        self.env.extend(env);
        self
    }

    /// What every command holds for reading until it is gone: whoever may write to it knows that none is left.
    pub(crate) fn busy(&self) -> Arc<tokio::sync::RwLock<()>> {
        self.busy.clone()
    }

    /// The tool's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        RUN_COMMAND.name
    }

    /// What the tool does, with the commands that are allowed: for the model.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The JSON schema of the tool's arguments.
    #[must_use]
    pub fn schema(&self) -> String {
        (RUN_COMMAND.schema)()
    }

    /// What whoever runs the model should know: layers that are missing here, and what the workspace's own policy opens.
    #[must_use]
    pub fn notices(&self) -> Vec<Notice> {
        self.notices.clone()
    }

    /// What is enforced on this machine while a command runs, and by what.
    #[must_use]
    pub fn report(&self) -> confine::Report {
        confine::report(&self.confinement(&self.host.temp_dir()))
    }

    fn look_around(&self) -> Vec<Notice> {
        let report = self.report();
        let gaps = report.gaps().map(|gap| {
            let message = format!("Commands run without the sandbox's layer {:?}: {}.", gap.name, gap.by);
            Notice::new(Level::Warning, GAP, message)
        });
        let home = self.host.var("HOME").map(Path::new);
        let wide = home.is_some_and(|home| home.starts_with(self.workspace.root())).then(|| {
            let message = "The workspace holds your home: commands can read and change all of it, keys included.";
            Notice::new(Level::Warning, POLICY, message)
        });
        let mut opened = self.limits.beyond_defaults();
        if !self.commands.added().is_empty() {
            opened.insert(0, format!("it has rules of its own for {}", self.commands.added().join(", ")));
        }
        let told = (!opened.is_empty()).then(|| {
            let message = format!("This workspace's .ostler/sandbox.toml: {}.", opened.join("; "));
            Notice::new(Level::Info, POLICY, message)
        });
        gaps.chain(wide).chain(told).collect()
    }

    /// Runs what a model asked for: the arguments of `run_command` as JSON. Dropping the future ends the command.
    ///
    /// # Errors
    /// When a rule forbids it, when it cannot be started, when it took too long, and when it failed.
    pub async fn call(&self, input: &str) -> Result<Reply, ToolError> {
        self.execute(input).await?.reply()
    }

    /// The same, with what it came to as data: a command that failed is no error here.
    ///
    /// # Errors
    /// When a rule forbids it, and when it cannot be started.
    pub async fn execute(&self, input: &str) -> Result<CommandOutput, ToolError> {
        let asked: RunCommand = serde_json::from_str(input).map_err(|error| {
            let shape = r#"{"command":"git","args":["status"]}"#;
            ToolError::new(Code::BadArguments, format!("{error}; expected an object such as {shape}"))
        })?;
        let most = self.limits.timeout_seconds;
        let timeout = Duration::from_secs(asked.timeout_seconds.map_or(most, |seconds| seconds.clamp(1, most)));
        // Thousands of arguments are thousands of looks at the disk: not on a thread that others wait for.
        let (host, commands, workspace) = (self.host.clone(), self.commands.clone(), self.workspace.clone());
        let work = move || check(&host, &commands, &workspace, (&asked.command, &asked.args));
        let broke = |_| ToolError::new(Code::Io, "the check of the command broke down; this is a fault in Ostler");
        let approved = tokio::task::spawn_blocking(work).await.map_err(broke)??;
        self.run(approved, timeout).await
    }

    /// What the rules say to a command.
    ///
    /// # Errors
    /// Names the rule that forbids it.
    pub fn check(&self, command: &str, args: &[String]) -> Result<Approved, ToolError> {
        check(&self.host, &self.commands, &self.workspace, (command, args))
    }

    /// Runs a command that the rules let through. Dropping the future ends it, with all that it started.
    ///
    /// # Errors
    /// When it cannot be started, or the policy demands layers that are not there.
    pub async fn run(&self, approved: Approved, timeout: Duration) -> Result<CommandOutput, ToolError> {
        let gaps: Vec<String> = self.report().gaps().map(|gap| format!("{} ({})", gap.name, gap.by)).collect();
        if self.limits.required && !gaps.is_empty() {
            let message = format!("the policy demands a whole sandbox, and this machine lacks: {}", gaps.join(", "));
            return Err(ToolError::new(Code::DeniedByPolicy, message));
        }
        run::run(self, approved, timeout).await
    }

    /// What the system keeps a command from doing that has `temp` for its temporary files.
    fn confinement(&self, temp: &Path) -> Confinement {
        let path = environment::path(&self.host, self.workspace.root());
        let tools = environment::tool_homes(&self.host);
        let mut confinement = self.base.clone();
        confinement.write.push(temp.to_owned());
        // Keys that came in the meantime are hidden too.
        confinement.hidden = confine::secrets(&home(&self.host, self.workspace.root(), (&path, &tools)));
        confinement
    }
}

/// Without a place for temporary files: each command's own comes to it when it is run.
fn home<'a>(host: &'a Host, workspace: &'a Path, (path, tools): (&'a OsStr, &'a [PathBuf])) -> Home<'a> {
    let home = host.var("HOME").map(Path::new).filter(|home| home.is_absolute());
    Home { workspace, temp: workspace, home, path, tools }
}

fn check(
    host: &Host,
    commands: &Commands,
    workspace: &Workspace,
    (command, args): (&str, &[String]),
) -> Result<Approved, ToolError> {
    let path = environment::path(host, workspace.root());
    let is_denied = |path: &Path| workspace.is_denied(path);
    let place = Place { root: workspace.root(), path: &path, is_denied: &is_denied };
    commands.check(command, args, &place)
}
