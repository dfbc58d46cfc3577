//! Running a command for a model: checked by the rules of the workspace, confined by the system, and leaving nothing behind.

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

use ostler_core::event::{Level, Notice};
use ostler_tools::catalog::ToolOutput;
use ostler_tools::command::{
    ApprovedCommand, CommandContext, CommandPreset, Commands, RUN_COMMAND, RunCommand, describe,
    project, protected_paths_with,
};
use ostler_tools::confine::{
    self, CommandLimits, Confinement, HostPaths, Layers, Report, Required,
};
use ostler_tools::{Code, SandboxPolicy, ToolError, Workspace};

pub(crate) use self::environment::user_git;
pub use self::output::{CommandOutput, KilledFor};
use crate::host::Host;
use crate::process;
use crate::trust::{Decided, Machine, OPENED};

/// The code of notices about layers that this machine lacks.
const GAP: &str = "sandbox_gap";

/// The code of notices about which commands a model may run.
const COMMANDS: &str = "sandbox_commands";

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
    /// The layers that a command really enters on this machine.
    layers: Layers,
    /// Whether protected files could not be put back; then nothing is run any more.
    broken: Arc<AtomicBool>,
}

impl CommandRunner {
    /// A runner for one session in one workspace. Policy and machine are looked at now, before the model does anything.
    ///
    /// # Errors
    /// When the policy's rules contradict their examples, and when it asks for more commands than the sandbox here bears.
    pub fn new(
        host: &Host,
        policy: &SandboxPolicy,
        workspace: Arc<Workspace>,
        session: &str,
    ) -> Result<Self, ToolError> {
        let commands = Arc::new(Commands::new(&policy.commands)?.narrowed_by(&policy.narrowing));
        let limits = policy.sandbox.clone();
        let around = Around::of(host, workspace.root());
        let base = {
            let home = around.home();
            limits
                .check_here(&home)
                .map_err(|why| ToolError::new(Code::BadArguments, why))?;
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
        runner.notices = runner.look_around();
        runner.notices.extend(narrowed);
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
    pub fn report(&self) -> Report {
        Report::new(&self.base, self.layers, confine::machine())
    }

    /// Chooses the preset of commands: the one that was asked for, or the widest that the sandbox on this machine bears.
    /// Returns a notice if that is less than usual.
    fn choose_commands(&mut self, policy: &SandboxPolicy) -> Result<Option<Notice>, ToolError> {
        let choice = self.host.commands().clone();
        let wanted = choice.preset.or(policy.preset);
        let (preset, notice) = match (wanted, self.weakness()) {
            (Some(CommandPreset::Any), Some(why)) => {
                let message = format!(
                    "the command preset \"any\" needs the whole sandbox, and {why}; choose --commands strict and name what is \
                     needed with --allow-command"
                );
                return Err(ToolError::new(Code::BadArguments, message));
            }
            (Some(CommandPreset::Strict), _) => (CommandPreset::Strict, None),
            (_, Some(why)) => {
                let message = format!(
                    "The model may run only the commands of the preset \"strict\", since {why}. \
                     --allow-command 'cargo test' allows a command as it stands."
                );
                let level = if wanted.is_some() {
                    Level::Warning
                } else {
                    Level::Info
                };
                (
                    CommandPreset::Strict,
                    Some(Notice::new(level, COMMANDS, message)),
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

    /// Why a program that does as it likes is not confined here as it should be; `None` if it is.
    fn weakness(&self) -> Option<String> {
        let gaps: Vec<String> = self
            .report()
            .gaps()
            .map(|gap| format!("{:?} ({})", gap.name, gap.by))
            .collect();
        if !gaps.is_empty() {
            return Some(format!("the sandbox lacks here: {}", gaps.join(", ")));
        }
        let home = self.host.var("HOME").map(Path::new);
        let holds_home = home.is_some_and(|home| home.starts_with(self.workspace.root()));
        holds_home.then(|| "the workspace holds your home, keys included".to_owned())
    }

    fn look_around(&self) -> Vec<Notice> {
        let report = self.report();
        let refused = self
            .refusal()
            .map(|error| Notice::new(Level::Warning, GAP, sentence(&error.message)));
        let gaps = report.gaps().filter(|_| refused.is_none()).map(|gap| {
            let message = format!(
                "Commands run without the sandbox's layer {:?}: {}.",
                gap.name, gap.by
            );
            Notice::new(Level::Warning, GAP, message)
        });
        let gaps = refused.clone().into_iter().chain(gaps);
        let home = self.host.var("HOME").map(Path::new);
        let wide = home.is_some_and(|home| home.starts_with(self.workspace.root())).then(|| {
            let message = "The workspace holds your home: commands can read and change all of it, keys included.";
            Notice::new(Level::Warning, OPENED, message)
        });
        let foreign = foreign_owner(self.workspace.root()).map(|owner| {
            let message = format!(
                "Commands run as root without capabilities, and the workspace belongs to user {owner}: they cannot write what \
                 only its owner may. Run Ostler as that user."
            );
            Notice::new(Level::Warning, OPENED, message)
        });
        let mut opened = self.limits.beyond_defaults();
        if !self.commands.added().is_empty() {
            opened.insert(
                0,
                format!(
                    "it has rules of its own for {}",
                    self.commands.added().join(", ")
                ),
            );
        }
        let told = (!opened.is_empty()).then(|| {
            let message = format!(
                "The sandbox policy allows beyond the defaults: {}.",
                opened.join("; ")
            );
            Notice::new(Level::Info, OPENED, message)
        });
        let kept = self.limits.env.iter().filter(|name| environment::is_kept_back(&self.host, name)).map(|name| {
            let message = format!(
                "Commands do not get the variable {name}: its value looks like a credential. --env {name} passes it all the same."
            );
            Notice::new(Level::Warning, OPENED, message)
        });
        gaps.chain(wide)
            .chain(foreign)
            .chain(told)
            .chain(kept)
            .collect()
    }

    /// Runs what a model asked for: the arguments of `run_command` as JSON. Dropping the future ends the command.
    ///
    /// # Errors
    /// When a rule forbids it, when it cannot be started, when it took too long, and when it failed.
    pub async fn call(&self, input: &str) -> Result<ToolOutput, ToolError> {
        self.execute(input).await?.reply()
    }

    /// The same, with what it came to as data: a command that failed is no error here.
    ///
    /// # Errors
    /// When a rule forbids it, and when it cannot be started.
    pub async fn execute(&self, input: &str) -> Result<CommandOutput, ToolError> {
        let asked: RunCommand = serde_json::from_str(input).map_err(|error| {
            let shape = r#"{"command":"git","args":["status"]}"#;
            ToolError::new(
                Code::BadArguments,
                format!("{error}; expected an object such as {shape}"),
            )
        })?;
        let most = self.limits.timeout_seconds;
        let timeout = Duration::from_secs(
            asked
                .timeout_seconds
                .map_or(most, |seconds| seconds.clamp(1, most)),
        );
        // Thousands of arguments are thousands of looks at the disk: not on a thread that others wait for.
        let (host, commands, workspace) = (
            self.host.clone(),
            self.commands.clone(),
            self.workspace.clone(),
        );
        let work = move || check(&host, &commands, &workspace, (&asked.command, &asked.args));
        let broke = |_| {
            ToolError::new(
                Code::Io,
                "the check of the command broke down; this is a fault in Ostler",
            )
        };
        let approved = tokio::task::spawn_blocking(work).await.map_err(broke)??;
        self.run(approved, timeout).await
    }

    /// What the rules say to a command.
    ///
    /// # Errors
    /// Names the rule that forbids it.
    pub fn check(&self, command: &str, args: &[String]) -> Result<ApprovedCommand, ToolError> {
        check(&self.host, &self.commands, &self.workspace, (command, args))
    }

    /// Runs a command that the rules let through. Dropping the future ends it, with all that it started.
    ///
    /// # Errors
    /// When it cannot be started, or the policy demands layers that are not there.
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

    /// Why no command runs here: a required layer is missing.
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
                "the user can run them all the same with `--sandbox off`, or `required = false` in their own sandbox.toml"
            }
        };
        let message = format!(
            "no command is run: this machine cannot confine it: {}; {fix}",
            self.report().gaps_line()
        );
        Some(ToolError::new(Code::DeniedByPolicy, message))
    }

    /// What the system keeps a command from doing that has `temp` for its temporary files.
    fn confinement(&self, temp: &Path) -> Confinement {
        let mut confinement = self.base.clone();
        confinement.write.push(temp.to_owned());
        confinement.protected =
            protected_paths_with(self.workspace.root(), self.workspace.user_git_config());
        // Keys that came in the meantime are hidden too.
        confinement.hidden =
            confine::secrets(&Around::of(&self.host, self.workspace.root()).home());
        confinement
    }
}

/// The owner of a directory that is not root's, if this process is.
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

/// A message as a sentence.
fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters
        .next()
        .map(|first| first.to_uppercase().to_string())
        .unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// Decides on the sandbox policy of a workspace, by what the host says about its files. The root is a real path.
///
/// # Errors
/// The workspace's file cannot be read or parsed.
pub fn sandbox_policy(host: &Host, root: &Path) -> Result<Decided, ToolError> {
    let (around, private) = (Around::of(host, root), private::places(host));
    let value = |name: &str| {
        host.var(name)
            .map(|value| value.to_string_lossy().into_owned())
    };
    let machine = Machine {
        home: around.home(),
        private: &private,
        value: &value,
    };
    host.workspace().decide(root, &machine)
}

/// What the environment says about the places that a command can see.
struct Around<'a> {
    workspace: &'a Path,
    home: Option<&'a Path>,
    path: OsString,
    tools: Vec<PathBuf>,
    secrets: Vec<PathBuf>,
}

impl<'a> Around<'a> {
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

    /// Without a place for temporary files: each command's own comes to it when it is run.
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

fn check(
    host: &Host,
    commands: &Commands,
    workspace: &Workspace,
    (command, args): (&str, &[String]),
) -> Result<ApprovedCommand, ToolError> {
    let path = environment::path(host, workspace.root());
    let is_denied = |path: &Path| workspace.is_denied(path);
    let place = CommandContext {
        root: workspace.root(),
        path: &path,
        is_denied: &is_denied,
    };
    commands.check(command, args, &place)
}
