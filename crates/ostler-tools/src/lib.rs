//! Tools for a model working in a workspace: confined file tools, a command policy, an OS sandbox.
//!
//! Files are opened relative to a directory handle, so no path can leave the workspace; a deny-list
//! applies on top. Commands are checked against rules, never passed to a shell, and run by `ostler`
//! under the confinement that [`confine`] prepares. Nothing here starts a process, except for the
//! attempts of `ostler sandbox check`.

pub mod catalog;
pub mod command;
pub mod confine;
mod error;
mod files;
mod names;
pub mod policy;
mod repository;
mod tree;
mod workspace;

pub use error::{Code, RuleError, ToolError};
pub use files::{FileRules, Span};
pub use policy::{NotGranted, OffLimits, RefusedRequest, Request, SandboxPolicy, WorkspacePolicy};
pub use repository::UserGitConfig;
pub use workspace::Workspace;
