//! Permissions: what an agent wants to do, in terms shared by all agents, and the policy that
//! decides.

mod command;
mod file;
mod path;
mod policy;
mod preset;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::file::PolicyError;
pub use self::policy::{Policy, PolicyAction, PolicyDecision, Rule, Trust};
pub use self::preset::{Preset, UnknownPreset};
use crate::names::named;
use crate::raw_json::RawJson;

named! {
    /// Kind of effect a tool has.
    #[derive(
        Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
        JsonSchema,
    )]
    #[serde(rename_all = "snake_case")]
    pub enum ToolKind or UnknownKind {
        /// Reads files, or changes nothing outside of the agent.
        Read = "read",
        /// Changes files.
        Edit = "edit",
        /// Runs commands.
        Execute = "execute",
        /// Accesses the network.
        Network = "network",
        /// Belongs to an MCP server; its effect is unknown.
        Mcp = "mcp",
        /// Its effect is unknown.
        Other = "other",
    }
}

/// A name that is not that of a [`ToolKind`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown kind {0:?}: expected one of {names}", names = ToolKind::ALL.map(ToolKind::as_str).join(", "))]
pub struct UnknownKind(String);

/// What an agent wants to do with a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolUse {
    /// Name of the tool, without the decoration that some agents add to the names of bound tools.
    pub tool: String,
    /// What it does.
    pub kind: ToolKind,
    /// The command it runs, as a shell line or as words.
    pub command: Option<Command>,
    /// The paths it works on, as the agent wrote them.
    pub paths: Vec<String>,
}

/// A command that a tool runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A shell line, which may contain several commands.
    Shell(String),
    /// A program and its arguments, without a shell.
    Words(Vec<String>),
}

impl ToolUse {
    /// Creates a tool use of which only the name and the kind are known.
    #[must_use]
    pub fn new(tool: &str, kind: ToolKind) -> Self {
        Self {
            tool: tool.to_owned(),
            kind,
            command: None,
            paths: Vec::new(),
        }
    }
}

/// Denial reason for the model and the caller in an unattended session.
pub const UNATTENDED_DENIAL: &str = "Denied: this session is unattended, so no one can approve the request. \
    The tool must be allowed beforehand: by a rule (policy.toml, --permissions), or by the \
    agent's own settings (allowed_tools, permission_mode).";

/// An agent's request for permission to run a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionRequest {
    /// Id assigned by the conversation; the answer carries it.
    pub id: String,
    /// Id of the tool call, if the agent reported it.
    pub call: Option<String>,
    /// The tool's arguments, as the agent wrote them.
    pub input: Option<RawJson>,
    /// What the agent wants to do.
    pub wants: ToolUse,
    /// Who decides if no rule does.
    pub fallback: Fallback,
}

/// Who decides on a request if no rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// The agent's own permission settings, as if Ostler had not been asked.
    Agent,
    /// A person.
    Person,
    /// A person, even if a rule allows it: only a denial is final.
    PersonAlways,
}

/// The answer to a [`PermissionRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The tool may run.
    Allow,
    /// The tool may not run, with the reason for the model.
    Deny(String),
    /// No rule decided, and the agent's own settings may.
    Undecided,
}
