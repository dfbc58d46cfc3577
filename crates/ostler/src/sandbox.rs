//! The sandbox: what commands and agents may read, write and reach, and how it is checked.
//!
//! A [`SandboxPolicy`] names what a command may touch. [`CommandRunner`] runs commands under it.
//!
//! ```
//! use ostler::agent::ApiAgent;
//! use ostler::sandbox::SandboxPolicy;
//! use ostler::testing::Script;
//!
//! let policy: SandboxPolicy = "[files]\ndeny = ['private/**']".parse()?;
//! let agent = ApiAgent::playing(Script::default()).policy(policy);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(target_os = "linux")]
pub mod check;
pub mod program;

pub use ostler_core::spec::Sandbox;
pub use ostler_tools::SandboxPolicy;
pub use ostler_tools::command::{CommandChoice, CommandPreset};
pub use ostler_tools::confine::{RootLayout, RootLayoutError, RootMount};

pub use crate::command::{CommandOutput, CommandRunner, KilledFor, sandbox_policy};
