//! Commands run for a model: checked against the workspace's rules, confined by the system, and
//! leaving no process behind.

mod environment;
mod output;
mod private;
mod run;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ostler_core::event::{Level, Notice, NoticeCode};
use ostler_tools::catalog::ToolOutput;
use ostler_tools::command::{
    ApprovedCommand, CommandContext, CommandPreset, Commands, RUN_COMMAND, RunCommand, describe,
    project, protected_paths_with,
};
use ostler_tools::confine::{
    self, CommandLimits, Confinement, HostPaths, Layers, Report, Required,
};
use ostler_tools::{SandboxPolicy, ToolError, Workspace};

pub(crate) use self::environment::user_git;
pub use self::output::{CommandOutput, KilledFor};
use crate::host::Host;
use crate::process;
use crate::trust::{Decided, Machine};

/// Runner of a model's commands.
pub struct CommandRunner {
    host: Host,
    workspace: Arc<Workspace>,
    commands: Arc<Commands>,
    limits: CommandLimits,
    session: Arc<str>,
    /// Variables that the caller adds to the environment.
    env: BTreeMap<String, String>,
    description: String,
    notices: Vec<Notice>,
    /// Read-locked by every command until all its processes have ended.
    busy: Arc<tokio::sync::RwLock<()>>,
    /// Confinement of commands, with paths resolved before the first of them ran.
    base: Confinement,
    /// Sandbox layers that commands enter on this machine.
    layers: Layers,
    /// Set if protected files could not be restored. No further command runs then.
    broken: Arc<AtomicBool>,
}

impl CommandRunner {
    /// Creates a runner for one session in one workspace. Checks the policy and the machine now,
    /// before the model acts.
    ///
    /// # Errors
    /// Returns an error if the policy's rules contradict their examples, or if it allows more
    /// commands than the sandbox on this machine can confine.
    pub fn new(
        host: &Host,
        policy: &SandboxPolicy,
        workspace: Arc<Workspace>,
        session: &str,
    ) -> Result<Self, ToolError> {
        let commands = Arc::new(Commands::new(&policy.commands)?.narrowed_by(&policy.narrowing));
        let limits = policy.sandbox.clone();
        let paths = CommandPaths::of(host, workspace.root());
        let base = {
            let home = paths.home();
            limits.check_here(&home)?;
            Confinement::command(&limits, &home)
        };
        let mut tried = Confinement {
            write: [&base.write[..], &[host.temp_dir()]].concat(),
            ..base.clone()
        };
        let layers = process::probe_layers(&mut tried);
        let base = Confinement {
            namespaces: tried.namespaces,
            ..base
        };
        let mut runner = Self {
            host: host.clone(),
            workspace,
            description: String::new(),
            commands,
            limits,
            session: session.into(),
            env: BTreeMap::new(),
            notices: Vec::new(),
            busy: Arc::default(),
            base,
            layers,
            broken: Arc::default(),
        };
        let narrowed = runner.choose_commands(policy)?;
        runner.notices = runner.setup_notices();
        runner.notices.extend(narrowed);
        Ok(runner)
    }

    /// Adds the caller's variables to the environment of each command. They do not replace Ostler's
    /// own.
    #[must_use]
    pub fn with_env(mut self, env: impl IntoIterator<Item = (String, String)>) -> Self {
        self.env.extend(env);
        self
    }

    /// Returns the lock that every command holds for reading. A caller that gets it for writing
    /// knows that no command is running.
    pub(crate) fn busy(&self) -> Arc<tokio::sync::RwLock<()>> {
        self.busy.clone()
    }

    /// Returns the tool's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        RUN_COMMAND.name
    }

    /// Returns the tool's description for the model, including the allowed commands.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the JSON schema of the tool's arguments.
    #[must_use]
    pub fn schema(&self) -> String {
        (RUN_COMMAND.schema)()
    }

    /// Returns notices for the user: missing sandbox layers, and what the workspace's policy opens
    /// up.
    #[must_use]
    pub fn notices(&self) -> Vec<Notice> {
        self.notices.clone()
    }

    /// Returns what is enforced on this machine while a command runs, and by which layer.
    #[must_use]
    pub fn report(&self) -> Report {
        Report::new(&self.base, self.layers, confine::machine())
    }

    /// Chooses the command preset: the requested one, or the widest that the sandbox on this
    /// machine can confine. Returns a notice if that is narrower than the default.
    fn choose_commands(&mut self, policy: &SandboxPolicy) -> Result<Option<Notice>, ToolError> {
        let choice = self.host.commands().clone();
        let wanted = choice.preset.or(policy.preset);
        let (preset, notice) = match (wanted, self.weakness()) {
            (Some(CommandPreset::Any), Some(why)) => {
                let message = format!(
                    "the command preset \"any\" needs the whole sandbox, and {why}; choose \
                     --commands strict and add commands with --allow-command"
                );
                return Err(ToolError::bad_arguments(message));
            }
            (Some(CommandPreset::Strict), _) => (CommandPreset::Strict, None),
            (_, Some(why)) => {
                let message = format!(
                    "The model may run only the commands of the preset \"strict\", because {why}. \
                     --allow-command 'cargo test' allows that command, with any further arguments."
                );
                let level = if wanted.is_some() {
                    Level::Warning
                } else {
                    Level::Info
                };
                (
                    CommandPreset::Strict,
                    Some(Notice::new(level, NoticeCode::SandboxCommands, message)),
                )
            }
            (wanted, None) => (wanted.unwrap_or(CommandPreset::Build), None),
        };
        let files = if preset == CommandPreset::Strict {
            Vec::new()
        } else {
            project::names(self.workspace.root())
        };
        let commands = Commands::new(&policy.commands)?.narrowed_by(&policy.narrowing);
        let commands = commands
            .with_preset(preset, files.iter().map(String::as_str))?
            .allowing(choice.allowed);
        self.commands = Arc::new(commands);
        let path = environment::path(&self.host, self.workspace.root());
        let place = CommandContext {
            root: self.workspace.root(),
            path: &path,
            is_denied: &|_| false,
        };
        self.description = describe(&self.commands, &|name| place.has(name));
        Ok(notice)
    }

    /// Returns why an arbitrary program cannot be confined here, or `None` if it can.
    fn weakness(&self) -> Option<String> {
        let gaps: Vec<String> = self
            .report()
            .gaps()
            .map(|gap| format!("{:?} ({})", gap.name, gap.by))
            .collect();
        if !gaps.is_empty() {
            return Some(format!(
                "the sandbox on this machine lacks: {}",
                gaps.join(", ")
            ));
        }
        let home = self.host.var("HOME").map(Path::new);
        let holds_home = home.is_some_and(|home| home.starts_with(self.workspace.root()));
        holds_home.then(|| "the workspace contains your home directory, including keys".to_owned())
    }

    fn setup_notices(&self) -> Vec<Notice> {
        let report = self.report();
        let refused = self.refusal().map(|error| {
            Notice::new(
                Level::Warning,
                NoticeCode::SandboxGap,
                sentence(&error.message),
            )
        });
        let gaps = report.gaps().filter(|_| refused.is_none()).map(|gap| {
            let message = format!(
                "Commands run without the sandbox layer {:?}: {}.",
                gap.name, gap.by
            );
            Notice::new(Level::Warning, NoticeCode::SandboxGap, message)
        });
        let gaps = refused.clone().into_iter().chain(gaps);
        let home = self.host.var("HOME").map(Path::new);
        let wide = home.is_some_and(|home| home.starts_with(self.workspace.root())).then(|| {
            let message = "The workspace contains your home directory: commands can read and change \
                           all of it, including keys.";
            Notice::new(Level::Warning, NoticeCode::SandboxPolicy, message)
        });
        let foreign = foreign_owner(self.workspace.root()).map(|owner| {
            let message = format!(
                "Commands run as root without capabilities, and the workspace belongs to user \
                 {owner}: they cannot write files that only the owner may. Run Ostler as that user."
            );
            Notice::new(Level::Warning, NoticeCode::SandboxPolicy, message)
        });
        let mut opened = self.limits.beyond_defaults();
        if !self.commands.added().is_empty() {
            opened.insert(
                0,
                format!(
                    "it has its own rules for {}",
                    self.commands.added().join(", ")
                ),
            );
        }
        let opened = (!opened.is_empty()).then(|| {
            let message = format!(
                "The sandbox policy allows more than the defaults: {}.",
                opened.join("; ")
            );
            Notice::new(Level::Info, NoticeCode::SandboxPolicy, message)
        });
        let withheld = self
            .limits
            .env
            .iter()
            .filter(|name| environment::is_withheld(&self.host, name))
            .map(|name| {
                let message = format!(
                    "Commands do not get the variable {name}: its value looks like a credential. \
                     Use --env {name} to pass it anyway."
                );
                Notice::new(Level::Warning, NoticeCode::SandboxPolicy, message)
            });
        gaps.chain(wide)
            .chain(foreign)
            .chain(opened)
            .chain(withheld)
            .collect()
    }

    /// Runs a command for a model. `input` holds the arguments of `run_command` as JSON. Dropping
    /// the future kills the command.
    ///
    /// # Errors
    /// Returns an error if a rule denies the command, or if it cannot be started, times out or
    /// fails.
    pub async fn call(&self, input: &str) -> Result<ToolOutput, ToolError> {
        self.execute(input).await?.reply()
    }

    /// Runs a command and returns its result as data. A command that fails is not an error here.
    ///
    /// # Errors
    /// Returns an error if a rule denies the command or it cannot be started.
    pub async fn execute(&self, input: &str) -> Result<CommandOutput, ToolError> {
        let asked: RunCommand = serde_json::from_str(input).map_err(|error| {
            let shape = r#"{"command":"git","args":["status"]}"#;
            ToolError::bad_arguments(format!("{error}; expected an object such as {shape}"))
        })?;
        let most = self.limits.timeout_seconds;
        let timeout = Duration::from_secs(
            asked
                .timeout_seconds
                .map_or(most, |seconds| seconds.clamp(1, most)),
        );
        // Thousands of arguments mean thousands of disk accesses, so use a blocking thread.
        let checker = self.checker();
        let work = move || checker.check(&asked.command, &asked.args);
        let broke = |_| ToolError::io("the command check panicked; this is a bug in Ostler");
        let approved = tokio::task::spawn_blocking(work).await.map_err(broke)??;
        self.run(approved, timeout).await
    }

    /// Checks a command against the rules.
    ///
    /// # Errors
    /// Returns an error that names the rule that denies it.
    pub fn check(&self, command: &str, args: &[String]) -> Result<ApprovedCommand, ToolError> {
        self.checker().check(command, args)
    }

    fn checker(&self) -> CommandChecker {
        CommandChecker {
            host: self.host.clone(),
            commands: self.commands.clone(),
            workspace: self.workspace.clone(),
        }
    }

    /// Runs a command that was checked. Dropping the future kills it and everything it started.
    ///
    /// # Errors
    /// Returns an error if the command cannot be started, or if a layer that the policy requires is
    /// missing.
    pub async fn run(
        &self,
        approved: ApprovedCommand,
        timeout: Duration,
    ) -> Result<CommandOutput, ToolError> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal);
        }
        run::run(self, approved, timeout).await
    }

    /// Returns why no command runs here: a required layer is missing.
    pub(crate) fn refusal(&self) -> Option<ToolError> {
        let machine = confine::machine();
        if self
            .limits
            .required
            .is_met(self.layers, machine.landlock, self.limits.network)
        {
            return None;
        }
        let fix = match self.limits.required {
            Required::Everything => "the policy requires every layer (`required = true`)",
            _ => {
                "the user can allow it with `--sandbox off`, or with `required = false` in their \
                 own sandbox.toml"
            }
        };
        let message = format!(
            "no command is run, because this machine cannot confine it: {}; {fix}",
            self.report().gaps_line()
        );
        Some(ToolError::denied(message))
    }

    /// Returns the confinement of a command with `temp` as its directory for temporary files.
    fn confinement(&self, temp: &Path) -> Confinement {
        let mut confinement = self.base.clone();
        confinement.write.push(temp.to_owned());
        confinement.protected =
            protected_paths_with(self.workspace.root(), self.workspace.user_git_config());
        // Key files that appeared in the meantime are hidden too.
        confinement.hidden =
            confine::secrets(&CommandPaths::of(&self.host, self.workspace.root()).home());
        confinement
    }
}

/// Returns the owner of a directory, if that is not root but this process is.
#[cfg(unix)]
fn foreign_owner(dir: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let owner = dir.metadata().ok()?.uid();
    (rustix::process::geteuid().is_root() && owner != 0).then_some(owner)
}

#[cfg(not(unix))]
fn foreign_owner(_: &Path) -> Option<u32> {
    None
}

/// Turns a message into a sentence.
fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters
        .next()
        .map(|first| first.to_uppercase().to_string())
        .unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// Decides the sandbox policy of a workspace from the host's trust in its files. `root` is a
/// canonical path.
///
/// # Errors
/// Returns an error if the workspace's file cannot be read or parsed.
pub fn sandbox_policy(host: &Host, root: &Path) -> Result<Decided, ToolError> {
    let (paths, private) = (CommandPaths::of(host, root), private::places(host));
    let value = |name: &str| {
        host.var(name)
            .map(|value| value.to_string_lossy().into_owned())
    };
    let machine = Machine {
        home: paths.home(),
        private: &private,
        value: &value,
    };
    host.workspace().decide(root, &machine)
}

/// Paths from the environment that determine what a command can see.
struct CommandPaths<'a> {
    workspace: &'a Path,
    home: Option<&'a Path>,
    path: OsString,
    tools: Vec<PathBuf>,
    secrets: Vec<PathBuf>,
}

impl<'a> CommandPaths<'a> {
    fn of(host: &'a Host, workspace: &'a Path) -> Self {
        Self {
            workspace,
            home: host
                .var("HOME")
                .map(Path::new)
                .filter(|home| home.is_absolute()),
            path: environment::path(host, workspace),
            tools: environment::tool_homes(host),
            secrets: host.named_secrets(),
        }
    }

    /// Has no directory for temporary files: each command gets its own when it runs.
    fn home(&self) -> HostPaths<'_> {
        HostPaths {
            workspace: self.workspace,
            temp: self.workspace,
            home: self.home,
            path: &self.path,
            tools: &self.tools,
            secrets: &self.secrets,
            exempt: &[],
        }
    }
}

/// Checks commands on any thread.
struct CommandChecker {
    host: Host,
    commands: Arc<Commands>,
    workspace: Arc<Workspace>,
}

impl CommandChecker {
    fn check(&self, command: &str, args: &[String]) -> Result<ApprovedCommand, ToolError> {
        let root = self.workspace.root();
        let path = environment::path(&self.host, root);
        let is_denied = |path: &Path| self.workspace.is_denied(path);
        let place = CommandContext {
            root,
            path: &path,
            is_denied: &is_denied,
        };
        self.commands.check(command, args, &place)
    }
}
