//! Drives coding agents through one interface: a typed stream of events, well-defined outcomes, and
//! no leftover processes.
//!
//! ```
//! use ostler::{Agents, Host, Spec};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let host = Host::new(std::env::vars_os()); // each agent gets only the variables it needs
//! let agent = Agents::builtin().get("scripted").expect("a built-in agent");
//! let spec = Spec { prompt: "hello".into(), ..Spec::default() };
//! let mut session = agent.start(&host, spec).expect("a valid spec");
//! while let Some(event) = session.next().await {
//!     println!("{}", event.to_json()); // the last event has the outcome
//! }
//! # });
//! ```
//!
//! # Theory of operation
//!
//! Starting an [`Agent`] with a [`Spec`] returns a [`Session`]. A driver task owns the agent's
//! process and reads its output. The agent's dialect translates each line, and the session machine
//! decides what follows from it. Each turn ends exactly once, with an [`Outcome`] whose [`Cause`] a
//! program can branch on. The last event of a session is [`EventKind::Ended`]. A failed run is not
//! an `Err`; only an invalid spec is.
//!
//! # Process guarantees
//!
//! An agent runs in its own process session, without a terminal. When it exits or is stopped,
//! everything it started is killed too. On Linux that is its process group and every process with
//! the session's mark in its environment; elsewhere it is the process group (a job object on
//! Windows; neither macOS nor Windows is tested). On Linux the agent also dies with *this* process.
//!
//! Two kinds of processes escape: one that left the group *and* cleared its environment, and, if
//! this process is killed with SIGKILL, commands that the agent had started. With a guard
//! ([`Host::with_guard`] and the module `guard`) nothing escapes: even then, everything has ended
//! within three seconds. The program `ostler` always uses the guard.

pub mod adapter;
mod agent;
mod api;
pub mod hooks;
mod permission_handler;
mod breaker;
#[cfg(unix)]
pub mod bridge;
mod clock;
mod command;
pub mod config;
mod host;
mod in_process;
pub mod agent_loop;
pub mod memory;
mod mock;
mod model;
mod probe;
mod process;
pub mod provider;
mod replay;
mod resume;
#[cfg(target_os = "linux")]
pub mod sandbox_check;
mod session;
mod tool;
mod toolbox;
pub mod trust;

#[cfg(target_os = "linux")]
pub use process::guard;

pub use adapter::{Message, ModelAdapter, Models, Reply};
pub use agent::{Agent, Agents, ApiAgent, Choice, ChoiceReason, MockAgent, ProcessAgent};
pub use agent_loop::Loop;
pub use breaker::Breakers;
pub use command::{CommandOutput, CommandRunner, KilledFor, sandbox_policy};
pub use host::{BridgeProgram, GuardProgram, Host, RESERVED_PREFIX, SESSION_VARIABLE};
pub use mock::{Events, Step};
pub use model::Script;
pub use ostler_core::change;
pub use ostler_core::dialect::{self, Capabilities, Dialect, Setting};
pub use ostler_core::display;
pub use ostler_core::event::{self, Event, EventKind};
pub use ostler_core::export::{Export, ExportFormat};
pub use ostler_core::log::{Log, LogEntry, LogError, NewSession, SessionRecord};
pub use ostler_core::machine::PermissionAnswer;
pub use ostler_core::outcome::{Cause, Detail, Outcome, Status};
pub use ostler_core::permission;
pub use ostler_core::raw_json::RawJson;
pub use ostler_core::spec::{
    AfterTurn, Attendance, Denials, Limits, Sandbox, Settings, Spec, SpecError, ToolOffer, keys,
};
pub use ostler_core::usage::{CostSource, Scope, Usage};
pub use ostler_core::{clip, outcome};
pub use ostler_tools::command::{CommandChoice, CommandPreset};
pub use ostler_tools::{self as tools, SandboxPolicy, ToolError};
pub use permission_handler::{AnswerFuture, PermissionHandler};
pub use probe::Probed;
pub use replay::Replay;
pub use session::{
    Interruption, PendingInterrupt, ReadItem, Reader, Remote, RequestError, Run, Session,
    SessionEnded, SessionStatus, SubmittedResult, WhenBusy,
};
pub use tool::{Progress, Tool, ToolFuture, tool};
