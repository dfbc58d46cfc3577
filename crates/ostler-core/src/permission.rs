//! Permission: what an agent wants to do, in words that are the same for all agents, and the rules that decide on it.

mod command;
mod file;
mod pattern;
mod path;
mod policy;
mod preset;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::command::is_same_option;
pub use self::file::PolicyError;
pub use self::policy::{Policy, Rule, Ruled, Ruling, Trust};
pub use self::preset::Preset;
use crate::raw_json::RawJson;

/// What a tool does to the world.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// It looks at files, or changes nothing outside of the agent.
    Read,
    /// It changes files.
    Edit,
    /// It runs commands.
    Execute,
    /// It reaches the network.
    Network,
    /// It belongs to an MCP server, and nobody knows what it does.
    Mcp,
    /// Nobody knows what it does.
    Other,
}

impl ToolKind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Read,
        Self::Edit,
        Self::Execute,
        Self::Network,
        Self::Mcp,
        Self::Other,
    ];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Execute => "execute",
            Self::Network => "network",
            Self::Mcp => "mcp",
            Self::Other => "other",
        }
    }

    /// The kind of a word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// What an agent wants to do with a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolUse {
    /// The tool, without the decoration that some agents give to the names of bound tools.
    pub tool: String,
    /// What it does.
    pub kind: ToolKind,
    /// The command that it runs: a line for a shell, or words.
    pub command: Option<Command>,
    /// The paths that it works on, as the agent wrote them.
    pub paths: Vec<String>,
}

/// A command that a tool runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A line that a shell reads: it can hold several commands.
    Shell(String),
    /// A program and its arguments; no shell reads them.
    Words(Vec<String>),
}

impl ToolUse {
    /// A tool of which nothing but its name and kind is known.
    #[must_use]
    pub fn of(tool: &str, kind: ToolKind) -> Self {
        Self {
            tool: tool.to_owned(),
            kind,
            command: None,
            paths: Vec::new(),
        }
    }
}

/// What the model is told, and the caller, when nobody could be asked.
pub const NOBODY: &str = "Denied: nobody is there to answer permission requests. The tool must be allowed beforehand: by a \
                          rule (policy.toml, --permissions), or by the agent's own settings (allowed_tools, permission_mode).";

/// An agent's question whether a tool may run.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionRequest {
    /// The question, as the conversation names it; the answer carries it.
    pub id: String,
    /// The tool call that it is about, when the agent said so.
    pub call: Option<String>,
    /// The tool's arguments, as the agent wrote them.
    pub input: Option<RawJson>,
    /// What it wants to do.
    pub wants: ToolUse,
    /// Who decides when no rule does.
    pub otherwise: Otherwise,
}

/// Who decides when no rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Otherwise {
    /// The agent's own layer: it goes on as if nobody had been asked.
    Agent,
    /// Whoever is there to be asked.
    Person,
    /// Whoever is there to be asked, also where a rule allows it: only a denial decides.
    PersonAlways,
}

/// The answer to an [`PermissionRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may run.
    Allow,
    /// It may not; the model is told why.
    Deny(String),
    /// No rule decided, and the agent's own layer may.
    Undecided,
}
