//! Host: what the caller provides for agents, such as an environment, a log, tools and a guard.
//!
//! ```
//! use ostler::Host;
//! use ostler::host::GuardProgram;
//!
//! let host = Host::new(std::env::vars_os()).with_guard(GuardProgram {
//!     program: std::env::current_exe().unwrap(),
//!     args: vec!["guard".into()], // `main` calls `ostler::guard::run` for this argument
//! });
//! assert!(host.var("PATH").is_some());
//! ```

#[cfg(unix)]
pub mod bridge;
mod login_copy;
mod memory;
mod private_home;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler_core::dialect::Inherits;
use ostler_core::event::Notice;
use ostler_core::log::Log;
use ostler_tools::command::CommandChoice;
use ostler_tools::confine::RootLayout;

pub use login_copy::LoginCopy;
pub use memory::return_large_buffers;

use crate::breaker::Breakers;
use crate::permission::PermissionHandler;
use crate::tools::Tool;
use crate::trust::WorkspaceTrust;

/// The environment in which agents are started.
///
/// The library never reads environment variables itself. The caller passes them here, and each
/// agent gets only those it needs.
#[must_use]
#[derive(Clone, Default)]
pub struct Host(Arc<Settings>);

/// What a host consists of. Shared, because every session has several copies of its host.
#[derive(Clone, Default)]
struct Settings {
    /// Shared by all sessions, because it can be large.
    env: Arc<BTreeMap<OsString, OsString>>,
    guard: Option<GuardProgram>,
    bridge: Option<BridgeProgram>,
    helpers: Option<PathBuf>,
    log: Option<Arc<dyn Log>>,
    delivery: Delivery,
    breakers: Breakers,
    handler: Option<Arc<dyn PermissionHandler>>,
    tools: Vec<Arc<dyn Tool>>,
    workspace: Arc<WorkspaceTrust>,
    notices: Vec<Notice>,
    commands: CommandChoice,
    /// Directories that sandboxed agents may write, besides their workspace and state.
    writable: Vec<PathBuf>,
    /// Paths that sandboxed agents may not read, besides secrets that are known anyway.
    hidden: Vec<PathBuf>,
    /// The root that sandboxed agents and programs get.
    private_root: Option<Arc<RootLayout>>,
}

/// Shows only the names of variables, because values may be secret.
impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host")
            .field("env", &self.0.env.keys())
            .field("guard", &self.0.guard)
            .field("bridge", &self.0.bridge)
            .field("helpers", &self.0.helpers)
            .field(
                "tools",
                &self
                    .0
                    .tools
                    .iter()
                    .map(|tool| tool.name())
                    .collect::<Vec<_>>(),
            )
            .finish_non_exhaustive()
    }
}

/// When readers of a session that is stored in a log get its events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// At once; they are stored right after. If this process is killed, readers may have seen up to
    /// 2 MiB of events that were not stored. The end of a turn, and of the session, is published
    /// once everything up to it is stored.
    #[default]
    Immediate,
    /// Once they are stored: no reader sees an event that could be missing later.
    Durable,
}

/// The program that supervises an agent's processes; see the module `guard`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardProgram {
    /// Path of the program.
    pub program: PathBuf,
    /// Arguments that make it call `guard::run` with the arguments after them.
    pub args: Vec<OsString>,
}

/// The program that agents start to reach the caller's tools; see the module `bridge`.
#[derive(Debug, Clone)]
pub struct BridgeProgram {
    /// Absolute path of the program.
    pub program: PathBuf,
    /// Arguments that make it call `bridge::run` with the arguments after them.
    pub args: Vec<OsString>,
}

/// Variables that every agent gets: user, locale, terminal, directories, proxies and certificates.
const BASICS: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "TZ",
    "TMPDIR",
    "XDG_*",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    // Windows
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "USERPROFILE",
    "APPDATA",
    "LOCALAPPDATA",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PATHEXT",
    "COMSPEC",
    "WINDIR",
    "TEMP",
    "TMP",
];

/// Prefix of the variables that are reserved for Ostler; callers cannot set them.
pub const RESERVED_PREFIX: &str = "OSTLER_";

/// The variable that marks every process of a session with the session id.
pub const SESSION_VARIABLE: &str = "OSTLER_SESSION";

impl Host {
    /// Creates a host with these environment variables, usually `std::env::vars_os()`.
    pub fn new(env: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self(Arc::new(Settings {
            env: Arc::new(env.into_iter().collect()),
            ..Settings::default()
        }))
    }

    /// Returns the settings to change them, without a change to those of other copies.
    fn edit(&mut self) -> &mut Settings {
        Arc::make_mut(&mut self.0)
    }

    /// Sets the directory of Ostler's helper programs (`file-tools`), for when they are not on
    /// PATH.
    pub fn with_helpers(mut self, directory: PathBuf) -> Self {
        self.edit().helpers = Some(directory);
        self
    }

    /// Stores every session in this log. [`Host::with_delivery`] says when readers get the events.
    pub fn with_log(mut self, log: Arc<dyn Log>) -> Self {
        self.edit().log = Some(log);
        self
    }

    /// Sets when readers of a stored session get its events; [`Delivery::Immediate`] by default.
    pub fn with_delivery(mut self, delivery: Delivery) -> Self {
        self.edit().delivery = delivery;
        self
    }

    /// Sets the handler for permission requests, from a policy or from an agent.
    pub fn with_permission_handler(mut self, handler: impl PermissionHandler + 'static) -> Self {
        self.edit().handler = Some(Arc::new(handler));
        self
    }

    /// Offers this tool to every agent, replacing any with the same name.
    pub fn with_tool(mut self, tool: impl Tool + 'static) -> Self {
        let settings = self.edit();
        settings.tools.retain(|known| known.name() != tool.name());
        settings.tools.push(Arc::new(tool));
        self
    }

    /// Sets which settings files of a workspace are trusted. Untrusted files can only add
    /// restrictions.
    pub fn with_workspace(mut self, trust: WorkspaceTrust) -> Self {
        self.edit().workspace = Arc::new(trust);
        self
    }

    /// Emits these notices at the start of every session.
    pub fn with_notices(mut self, notices: impl IntoIterator<Item = Notice>) -> Self {
        self.edit().notices.extend(notices);
        self
    }

    /// Sets which commands models may run with the tool `run_command`, beyond the workspace's
    /// policy.
    pub fn with_commands(mut self, commands: CommandChoice) -> Self {
        self.edit().commands = commands;
        self
    }

    /// Allows models to run this command (a program and its first arguments) with any further
    /// arguments.
    pub fn allowing(mut self, command: Vec<String>) -> Self {
        self.edit().commands.allowed.push(command);
        self
    }

    pub(crate) fn commands(&self) -> &CommandChoice {
        &self.0.commands
    }

    /// Sets the circuit breakers. Clones of a host share them.
    pub fn with_breakers(mut self, breakers: Breakers) -> Self {
        self.edit().breakers = breakers;
        self
    }

    /// Returns this host without tools, permission handler, log and notices, for an agent that
    /// serves as a model.
    pub(crate) fn bare(mut self) -> Self {
        let settings = self.edit();
        settings.tools.clear();
        settings.handler = None;
        settings.log = None;
        settings.notices.clear();
        self
    }

    pub(crate) fn workspace(&self) -> &WorkspaceTrust {
        &self.0.workspace
    }

    pub(crate) fn notices(&self) -> &[Notice] {
        &self.0.notices
    }

    pub(crate) fn log(&self) -> Option<&Arc<dyn Log>> {
        self.0.log.as_ref()
    }

    pub(crate) fn delivery(&self) -> Delivery {
        self.0.delivery
    }

    pub(crate) fn breakers(&self) -> &Breakers {
        &self.0.breakers
    }

    /// Returns a fingerprint of the account that an agent uses, without its secrets.
    pub(crate) fn account(&self, inherits: &Inherits) -> String {
        self.0
            .breakers
            .account(&self.environment(inherits, &BTreeMap::new()))
    }

    pub(crate) fn permission_handler(&self) -> Option<&Arc<dyn PermissionHandler>> {
        self.0.handler.as_ref()
    }

    pub(crate) fn tools(&self) -> &[Arc<dyn Tool>] {
        &self.0.tools
    }

    /// Finds a helper program on PATH or in the directory of Ostler's helpers.
    pub(crate) fn find_helper(&self, name: &str) -> Lookup {
        match self.find(Path::new(name)) {
            Lookup::NotFound(mut searched) => match &self.0.helpers {
                Some(dir) if dir.join(name).is_file() => Lookup::Found(dir.join(name)),
                more => {
                    searched.extend(more.clone());
                    Lookup::NotFound(searched)
                }
            },
            found => found,
        }
    }

    /// Starts agents under a guard, so that no process is left behind even if this process is
    /// killed.
    pub fn with_guard(mut self, guard: GuardProgram) -> Self {
        self.edit().guard = Some(guard);
        self
    }

    /// Sets the bridge program, which some agents need to reach the caller's tools.
    pub fn with_bridge(mut self, bridge: BridgeProgram) -> Self {
        self.edit().bridge = Some(bridge);
        self
    }

    pub(crate) fn bridge(&self) -> Option<&BridgeProgram> {
        self.0.bridge.as_ref()
    }

    /// Sets a variable.
    pub(crate) fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        Arc::make_mut(&mut self.edit().env).insert(name.into(), value.into());
        self
    }

    pub(crate) fn guard(&self) -> Option<&GuardProgram> {
        self.0.guard.as_ref()
    }

    /// Returns the value of a variable.
    #[must_use]
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        let name = OsStr::new(name);
        let value = if cfg!(windows) {
            // Names are case-insensitive.
            let mut all = self.0.env.iter();
            all.find_map(|(known, value)| known.eq_ignore_ascii_case(name).then_some(value))
        } else {
            self.0.env.get(name)
        };
        value.map(OsString::as_os_str)
    }

    /// Returns the variables that an agent inherits: the basics and its own, without those that
    /// mark an enclosing session. Variables the caller `added` are not included, but others may
    /// depend on them.
    pub(crate) fn environment(
        &self,
        inherits: &Inherits,
        added: &BTreeMap<String, String>,
    ) -> BTreeMap<OsString, OsString> {
        let named = |patterns: &[&str], name: &str| patterns.iter().any(|p| matches(p, name));
        let value = |switch: &str| {
            added
                .get(switch)
                .map(OsStr::new)
                .or_else(|| self.var(switch))
        };
        let is_on =
            |switch: &str| value(switch).is_some_and(|v| !v.is_empty() && v != "0" && v != "false");
        let mut passed = vec![BASICS, inherits.always];
        let enabled = inherits.when.iter().filter(|(switch, _)| is_on(switch));
        passed.extend(enabled.map(|(_, names)| *names));
        let is_inherited = |name: &str| {
            passed.iter().any(|names| named(names, name))
                && !named(inherits.never, name)
                && !name.starts_with(RESERVED_PREFIX)
        };
        let inherited = self
            .0
            .env
            .iter()
            .filter(|(name, _)| name.to_str().is_some_and(is_inherited));
        inherited
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// Returns the paths of secrets that variables point to, including Ostler's own directories.
    pub(crate) fn named_secrets(&self) -> Vec<PathBuf> {
        // A state directory may be relative to where this process was started.
        let own = ["OSTLER_CONFIG_DIR", "OSTLER_STATE_DIR"]
            .into_iter()
            .filter_map(|name| self.var(name));
        let own = own
            .filter(|dir| !dir.is_empty())
            .filter_map(|dir| std::path::absolute(dir).ok());
        // The directories of daemons: `ostler`, and one for each other state directory.
        let runtime = self.var("XDG_RUNTIME_DIR").map(Path::new);
        let entries = runtime.and_then(|dir| dir.read_dir().ok());
        let sockets = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"ostler"));
        let sockets = sockets.map(|entry| entry.path());
        let mut all =
            ostler_tools::confine::named_secrets(&|name| self.var(name).map(OsStr::to_owned));
        all.extend(own.chain(sockets));
        all.extend(self.0.hidden.iter().cloned());
        all
    }

    /// Returns the environment for a command of the caller: everything except Ostler's own
    /// variables and the API keys of models, because such a command may run code that a model
    /// wrote.
    pub(crate) fn user_command_environment(&self) -> BTreeMap<OsString, OsString> {
        let is_key = |name: &str| {
            name.ends_with("_API_KEY")
                || name.ends_with("_AUTH_TOKEN")
                || name.ends_with("_OAUTH_TOKEN")
        };
        let is_excluded = |name: &OsStr| {
            name.to_str()
                .is_some_and(|name| name.starts_with(RESERVED_PREFIX) || is_key(name))
        };
        self.0
            .env
            .iter()
            .filter(|(name, _)| !is_excluded(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// Returns the directory for temporary files.
    pub(crate) fn temp_dir(&self) -> PathBuf {
        let named = ["TMPDIR", "TEMP", "TMP"]
            .iter()
            .find_map(|name| self.var(name).filter(|dir| !dir.is_empty()));
        named.map_or_else(
            || {
                PathBuf::from(if cfg!(windows) {
                    "C:\\Windows\\Temp"
                } else {
                    "/tmp"
                })
            },
            PathBuf::from,
        )
    }

    /// Finds an agent's program. If PATH leads to a launcher script, returns the native program
    /// instead: the first of `natives`, relative to the script's directory, that exists.
    pub(crate) fn find_native(&self, program: &Path, natives: &[&str]) -> Lookup {
        let found = self.find(program);
        let Lookup::Found(path) = &found else {
            return found;
        };
        let Some(directory) = path
            .canonicalize()
            .ok()
            .and_then(|script| script.parent().map(Path::to_owned))
        else {
            return found;
        };
        let mut candidates = natives.iter().map(|native| directory.join(native));
        let native = candidates.find(|file| file.is_file() && executable(file));
        native
            .and_then(|file| file.canonicalize().ok())
            .map_or(found, Lookup::Found)
    }

    /// Finds a program: a path is used as is, a name is looked up in PATH.
    pub(crate) fn find(&self, program: &Path) -> Lookup {
        if program.components().count() > 1 {
            return if program.is_file() {
                Lookup::Found(program.to_owned())
            } else {
                Lookup::NotFound(vec![program.to_owned()])
            };
        }
        let path = self.var("PATH").unwrap_or_default();
        let dirs: Vec<PathBuf> = std::env::split_paths(path)
            .filter(|p| p.is_absolute())
            .collect();
        let name = file_name(program, cfg!(windows));
        let candidates: Vec<PathBuf> = dirs
            .iter()
            .map(|dir| dir.join(&name))
            .filter(|file| file.is_file())
            .collect();
        // Like a shell, skip files that are not executable if an executable one follows.
        let best = candidates
            .iter()
            .find(|file| executable(file))
            .or_else(|| candidates.first());
        best.map_or(Lookup::NotFound(dirs), |file| Lookup::Found(file.clone()))
    }
}

/// Returns the file name of a program. On Windows that is an `.exe`: the arguments of a `.cmd` shim
/// would be parsed a second time, by a shell (P30).
fn file_name(program: &Path, windows: bool) -> PathBuf {
    if windows && program.extension().is_none() {
        program.with_extension("exe")
    } else {
        program.to_owned()
    }
}

/// Returns true if a file is a script of the Windows shell, which parses arguments by its own
/// rules.
#[cfg(any(not(unix), test))]
pub(crate) fn is_shell_script(file: &Path, windows: bool) -> bool {
    let extension = file.extension().and_then(OsStr::to_str).unwrap_or_default();
    windows
        && ["cmd", "bat"]
            .iter()
            .any(|shim| extension.eq_ignore_ascii_case(shim))
}

/// The result of looking up a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// The path of the program.
    Found(PathBuf),
    /// The directories that were searched.
    NotFound(Vec<PathBuf>),
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name || (cfg!(windows) && pattern.eq_ignore_ascii_case(name)),
    }
}

#[cfg(unix)]
pub(crate) fn executable(file: &Path) -> bool {
    rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
pub(crate) fn executable(_file: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(vars: &[(&str, &str)]) -> Host {
        Host::new(
            vars.iter()
                .map(|(k, v)| (OsString::from(k), OsString::from(v))),
        )
    }

    // P31, S3-16
    #[test]
    fn agent_inherits_only_basic_and_its_own_variables() {
        let host = host(&[
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("ANTHROPIC_API_KEY", "k"),
            ("CLAUDECODE", "1"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            ("GITHUB_TOKEN", "t"),
            ("OSTLER_SESSION", "outer"),
        ]);
        let inherits = Inherits {
            always: &["ANTHROPIC_*", "CLAUDE*"],
            when: &[("CLAUDE_CODE_USE_BEDROCK", &["AWS_*"])],
            never: &["CLAUDECODE"],
        };
        let names = |host: &Host| -> Vec<String> {
            host.environment(&inherits, &BTreeMap::new())
                .into_keys()
                .filter_map(|name| name.into_string().ok())
                .collect()
        };
        assert_eq!(names(&host), ["ANTHROPIC_API_KEY", "LC_ALL", "PATH"]);
        // Cloud credentials only if that cloud serves the model.
        let bedrock = host.with("CLAUDE_CODE_USE_BEDROCK", "1");
        assert!(names(&bedrock).contains(&"AWS_SECRET_ACCESS_KEY".to_owned()));
        let bedrock = bedrock.with("CLAUDE_CODE_USE_BEDROCK", "0");
        assert!(!names(&bedrock).contains(&"AWS_SECRET_ACCESS_KEY".to_owned()));
        let added = BTreeMap::from([("CLAUDE_CODE_USE_BEDROCK".to_owned(), "1".to_owned())]);
        assert!(
            bedrock
                .environment(&inherits, &added)
                .contains_key(OsStr::new("AWS_SECRET_ACCESS_KEY"))
        );
    }

    #[test]
    fn debug_output_contains_no_values() {
        let shown = format!("{:?}", host(&[("ANTHROPIC_API_KEY", "sk-secret")]));
        assert!(
            shown.contains("ANTHROPIC_API_KEY") && !shown.contains("sk-secret"),
            "{shown}"
        );
    }

    // P30: what Windows would pass to its shell is not accepted as a program. Only this rule is
    // tested here, not the rest of the Windows code.
    #[test]
    fn windows_shell_shims_are_not_programs() {
        assert_eq!(
            file_name(Path::new("claude"), true),
            Path::new("claude.exe")
        );
        assert_eq!(file_name(Path::new("claude"), false), Path::new("claude"));
        for shim in ["claude.cmd", "C:\\npm\\claude.CMD", "run.bat"] {
            assert!(is_shell_script(Path::new(shim), true), "{shim}");
            assert!(!is_shell_script(Path::new(shim), false));
        }
        assert!(!is_shell_script(Path::new("claude.exe"), true));
    }

    #[test]
    fn launcher_script_is_replaced_by_its_native_program() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for (file, mode) in [
            ("pkg/bin/tool.js", 0o755),
            ("native/tool", 0o755),
            ("dull/tool", 0o644),
        ] {
            std::fs::create_dir_all(at(file).parent().unwrap()).unwrap();
            std::fs::write(at(file), "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(at(file), std::os::unix::fs::PermissionsExt::from_mode(mode))
                .unwrap();
        }
        std::fs::create_dir(at("path")).unwrap();
        std::os::unix::fs::symlink("../pkg/bin/tool.js", at("path/tool")).unwrap();
        let host = host(&[("PATH", at("path").to_str().unwrap())]);
        let find = |natives: &[&str]| match host.find_native(Path::new("tool"), natives) {
            Lookup::Found(path) => path
                .strip_prefix(dir.path().canonicalize().unwrap())
                .map(Path::to_owned)
                .unwrap_or(path),
            Lookup::NotFound(_) => panic!("not found"),
        };
        assert_eq!(
            find(&["../../nothing/tool", "../../dull/tool", "../../native/tool"]),
            Path::new("native/tool")
        );
        assert_eq!(find(&["../../dull/tool"]), Path::new("path/tool"));
        assert_eq!(find(&[]), Path::new("path/tool"));
    }

    // The socket and the token of a daemon.
    #[test]
    fn directories_of_daemons_are_secrets() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["ostler", "ostler-0123", "other"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let host = host(&[("XDG_RUNTIME_DIR", dir.path().to_str().unwrap())]);
        let mut secrets = host.named_secrets();
        secrets.retain(|path| path.starts_with(dir.path()));
        secrets.sort();
        assert_eq!(
            secrets,
            ["ostler", "ostler-0123"].map(|name| dir.path().join(name))
        );
    }

    // P33
    #[test]
    fn missing_program_lists_searched_directories() {
        let host = host(&[("PATH", "/nowhere/a:/nowhere/b:relative")]);
        let found = host.find(Path::new("claude"));
        assert_eq!(
            found,
            Lookup::NotFound(vec!["/nowhere/a".into(), "/nowhere/b".into()])
        );
    }
}
