//! A workspace's policy file, merged onto the base policy: narrowing parts are applied, everything
//! else is a request.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::{POLICY_FILE, SandboxPolicy};
use crate::command::{CommandPreset, CommandRule, Commands};
use crate::confine::{CommandLimits, Network, Required, default_memory_mb};
use crate::{RuleError, ToolError};

/// A workspace's policy file as written: the policy and the names of the limits it sets.
#[derive(Debug, Clone, Default)]
pub struct WorkspacePolicy {
    policy: SandboxPolicy,
    set_limits: BTreeSet<String>,
}

/// A permission that a workspace's file requests beyond the base policy. Displays as a plain
/// clause, with control characters escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Commands may write this path.
    Write(PathBuf),
    /// Commands may read this path.
    Read(PathBuf),
    /// Commands may use the network.
    Network,
    /// Commands get this environment variable.
    Env(String),
    /// Raise a limit.
    Limit {
        /// Name of the limit in the file.
        name: &'static str,
        /// Requested value.
        requested: u64,
        /// Value without the file.
        current: u64,
    },
    /// Commands run even if layers of the sandbox are missing.
    Unconfined,
    /// The file tools may open files that match this glob, although the defaults deny or protect
    /// them.
    Files(String),
    /// A command without a rule may run.
    Command(String),
    /// The rule for a command is replaced by a more permissive one.
    Rule(String),
    /// Commands of a wider preset may run.
    Preset(CommandPreset),
}

/// A policy with only the narrowing parts of a workspace's file, and the requests left out.
#[derive(Debug, Clone)]
pub struct Narrowed {
    /// The resulting policy. It allows nothing that the base policy does not.
    pub policy: SandboxPolicy,
    /// Everything in the file that would have widened it.
    pub left_out: Vec<Request>,
}

/// A policy with the grantable requests of a trusted workspace.
#[derive(Debug, Clone)]
pub struct Granted {
    /// The resulting policy.
    pub policy: SandboxPolicy,
    /// Granted requests.
    pub opened: Vec<Request>,
    /// Refused requests.
    pub refused: Vec<RefusedRequest>,
}

/// A request that is not granted, with the reason. Displays as a clause with the reason in
/// parentheses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRequest {
    /// The request.
    pub request: Request,
    /// The reason.
    pub reason: NotGranted,
}

impl fmt::Display for RefusedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.request, self.reason)
    }
}

/// The reason why no workspace is granted a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct NotGranted {
    /// The reason, as a clause.
    pub reason: String,
}

impl NotGranted {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
        }
    }
}

impl WorkspacePolicy {
    fn read(text: &str) -> Result<Self, RuleError> {
        let policy: SandboxPolicy = toml::from_str(text)?;
        policy.files.check()?;
        policy.sandbox.check_counts()?;
        policy.commands.iter().try_for_each(CommandRule::check)?;
        let table: toml::Table = toml::from_str(text)?;
        let sandbox = table.get("sandbox").and_then(toml::Value::as_table);
        let set_limits = sandbox
            .into_iter()
            .flat_map(|section| section.keys().cloned())
            .collect();
        Ok(Self { policy, set_limits })
    }

    fn sets(&self, name: &str) -> bool {
        self.set_limits.contains(name)
    }
}

/// Parses a workspace's file and checks each rule against its own examples. The error names the
/// faulty line or rule. A request that cannot be granted is not an error.
impl FromStr for WorkspacePolicy {
    type Err = ToolError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::read(text).map_err(|error| error.in_file(POLICY_FILE))
    }
}

impl SandboxPolicy {
    /// Applies the narrowing parts of a workspace's file, and returns everything else as requests.
    #[must_use]
    pub fn narrowed_by(&self, workspace: &WorkspacePolicy) -> Narrowed {
        let mut policy = self.clone();
        let mut left_out = narrow_limits(&mut policy.sandbox, workspace);
        let requested = &workspace.policy;
        policy
            .files
            .deny
            .extend(requested.files.deny.iter().cloned());
        policy
            .files
            .read_only
            .extend(requested.files.read_only.iter().cloned());
        left_out.extend(missing(&requested.files.allow, &self.files.allow).map(Request::Files));
        if !requested.commands.is_empty() {
            let below = Commands::new(&self.commands).ok();
            left_out.extend(
                requested
                    .commands
                    .iter()
                    .filter_map(|rule| request_of(rule, below.as_ref())),
            );
        }
        policy.narrowing.extend(requested.commands.iter().cloned());
        // Without a preset in the base policy, the widest preset chosen automatically is `build`.
        let current = self.preset.unwrap_or(CommandPreset::Build);
        match requested.preset {
            Some(preset) if preset > current => left_out.push(Request::Preset(preset)),
            Some(preset) => policy.preset = Some(preset),
            None => {}
        }
        Narrowed { policy, left_out }
    }

    /// Applies a trusted workspace's file, except for requests that `judge` refuses. `judge`
    /// returns the request to grant, which may be more precise than the original.
    #[must_use]
    pub fn granting(
        &self,
        workspace: &WorkspacePolicy,
        judge: &dyn Fn(&Request) -> Result<Request, NotGranted>,
    ) -> Granted {
        let Narrowed {
            mut policy,
            left_out,
        } = self.narrowed_by(workspace);
        let (mut opened, mut refused) = (Vec::new(), Vec::new());
        for request in left_out {
            match judge(&request) {
                Ok(exact) => {
                    policy.grant(exact, workspace);
                    opened.push(request);
                }
                Err(reason) => refused.push(RefusedRequest { request, reason }),
            }
        }
        Granted {
            policy,
            opened,
            refused,
        }
    }

    fn grant(&mut self, request: Request, workspace: &WorkspacePolicy) {
        let limits = &mut self.sandbox;
        match request {
            Request::Write(path) => limits.write.push(path),
            Request::Read(path) => limits.read.push(path),
            Request::Network => limits.network = Network::All,
            Request::Env(name) => limits.env.push(name),
            Request::Limit {
                name, requested, ..
            } => counts(limits)
                .into_iter()
                .filter(|(known, _)| *known == name)
                .for_each(|(_, count)| count.set(requested)),
            Request::Unconfined => limits.required = Required::Nothing,
            Request::Files(glob) => self.files.workspace_allow.push(glob),
            Request::Preset(preset) => self.preset = Some(preset),
            Request::Command(name) | Request::Rule(name) => {
                self.commands.extend(
                    workspace
                        .policy
                        .commands
                        .iter()
                        .filter(|rule| rule.name == name)
                        .cloned(),
                );
            }
        }
    }
}

/// Returns the request that a workspace's command rule amounts to, if it allows more than the base
/// rule.
fn request_of(rule: &CommandRule, below: Option<&Commands>) -> Option<Request> {
    match below.and_then(|below| below.rule(&rule.name)) {
        None => Some(Request::Command(rule.name.clone())),
        Some(current) => allows_more(current, rule).then(|| Request::Rule(rule.name.clone())),
    }
}

/// A numeric limit.
enum Count<'a> {
    Always(&'a mut u64),
    Optional(&'a mut Option<u64>),
}

/// Returns the numeric limits by their names in the file.
impl Count<'_> {
    fn get(&self) -> Option<u64> {
        match self {
            Self::Always(count) => Some(**count),
            Self::Optional(count) => **count,
        }
    }

    fn set(self, value: u64) {
        match self {
            Self::Always(count) => *count = value,
            Self::Optional(count) => *count = Some(value),
        }
    }
}

fn counts(limits: &mut CommandLimits) -> [(&'static str, Count<'_>); 6] {
    // Destructured by name, so that a new field cannot be forgotten here.
    let CommandLimits {
        timeout_seconds,
        cpu_seconds,
        file_size_mb,
        processes,
        open_files,
        memory_mb,
        write: _,
        read: _,
        network: _,
        env: _,
        required: _,
    } = limits;
    [
        ("timeout_seconds", Count::Always(timeout_seconds)),
        ("cpu_seconds", Count::Always(cpu_seconds)),
        ("file_size_mb", Count::Always(file_size_mb)),
        ("processes", Count::Always(processes)),
        ("open_files", Count::Always(open_files)),
        ("memory_mb", Count::Optional(memory_mb)),
    ]
}

/// Returns the requested items that are not granted yet.
fn missing<'a, T: Clone + PartialEq>(
    requested: &'a [T],
    current: &'a [T],
) -> impl Iterator<Item = T> + 'a {
    requested
        .iter()
        .filter(|item| !current.contains(item))
        .cloned()
}

fn narrow_limits(current: &mut CommandLimits, workspace: &WorkspacePolicy) -> Vec<Request> {
    let mut requested = workspace.policy.sandbox.clone();
    let mut left_out: Vec<Request> = missing(&requested.write, &current.write)
        .map(Request::Write)
        .chain(missing(&requested.read, &current.read).map(Request::Read))
        .chain(missing(&requested.env, &current.env).map(Request::Env))
        .collect();
    if workspace.sets("network") {
        match (requested.network, current.network) {
            (Network::None, _) => current.network = Network::None,
            (Network::All, Network::None) => left_out.push(Request::Network),
            (Network::All, Network::All) => {}
        }
    }
    if workspace.sets("required") {
        match requested.required {
            Required::Nothing if current.required > Required::Nothing => {
                left_out.push(Request::Unconfined);
            }
            required => current.required = current.required.max(required),
        }
    }
    for ((name, current), (_, requested)) in counts(current).into_iter().zip(counts(&mut requested))
    {
        let Some(requested) = requested.get().filter(|_| workspace.sets(name)) else {
            continue;
        };
        let limit = current.get().unwrap_or_else(default_memory_mb);
        if requested <= limit {
            current.set(requested);
        } else {
            left_out.push(Request::Limit {
                name,
                requested,
                current: limit,
            });
        }
    }
    left_out
}

/// Returns true if `requested` could allow a call that `current` refuses.
fn allows_more(current: &CommandRule, requested: &CommandRule) -> bool {
    fn within<T: PartialEq>(some: &[T], all: &[T]) -> bool {
        some.iter().all(|one| all.contains(one))
    }
    let sub_commands = match (&current.allow, &requested.allow) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(current_list), Some(list)) => {
            !within(list, current_list) || !within(&requested.before, &current.before)
        }
    };
    // With a list of sub-commands, the first word of a block matches a sub-command; without one,
    // any argument.
    let read_differently =
        current.allow.is_some() != requested.allow.is_some() && !current.block.is_empty();
    let unblocked = !within(&current.block, &requested.block)
        || !within(&current.block_args, &requested.block_args)
        || !within(&current.needs, &requested.needs);
    sub_commands || read_differently || unblocked || !within(&requested.text, &current.text)
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = |path: &PathBuf| path.to_string_lossy().escape_debug().to_string();
        match self {
            Self::Write(requested) => write!(f, "commands may write {}", path(requested)),
            Self::Read(requested) => write!(f, "commands may read {}", path(requested)),
            Self::Network => f.write_str("commands may use the network"),
            Self::Env(name) => write!(f, "commands get the variable {}", name.escape_debug()),
            Self::Limit {
                name,
                requested,
                current,
            } => write!(f, "{name} is raised from {current} to {requested}"),
            Self::Unconfined => {
                f.write_str("commands run even if layers of the sandbox are missing")
            }
            Self::Files(glob) => write!(f, "the file tools open {}", glob.escape_debug()),
            Self::Command(name) => write!(f, "the command {} may run", name.escape_debug()),
            Self::Rule(name) => write!(
                f,
                "its own rule for {} replaces a stricter one",
                name.escape_debug()
            ),
            Self::Preset(preset) => write!(f, "the commands of the preset {preset} may run"),
        }
    }
}

#[cfg(test)]
mod tests;
