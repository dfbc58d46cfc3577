//! Drive coding agents through one contract: one typed stream of events, endings with a name, nothing left behind.
//!
//! ```
//! use ostler::{Agents, Host, Spec};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let host = Host::new(std::env::vars_os()); // each agent gets only the variables that it needs
//! let agent = Agents::builtin().get("scripted").expect("it is always there");
//! let spec = Spec { prompt: "hello".into(), ..Spec::default() };
//! let mut session = agent.start(&host, spec).expect("the spec is right");
//! while let Some(event) = session.next().await {
//!     println!("{}", event.to_json()); // the last one says how it ended
//! }
//! # });
//! ```
//!
//! # Theory of operation
//!
//! An [`Agent`] is started with a [`Spec`] and gives a [`Session`]. The session's task owns the agent's process; it reads
//! its output, has the agent's dialect translate each line, and has the session machine decide what it means. Each turn
//! ends exactly once, with an [`Outcome`] whose [`Cause`] a program can branch on; the session's last event is
//! [`EventKind::Ended`]. A failed run is not an `Err`: only a wrong spec is.
//!
//! # What is promised about processes
//!
//! An agent runs in a session of its own, without a terminal. When it ends, or is ended, what it started is ended too: on
//! Linux its process group and everything that carries the session's mark in its environment, elsewhere its process group
//! (a job object on Windows; neither macOS nor Windows is tested). On Linux the agent also dies when *this* process does.
//!
//! Two things escape that: a process that left the group *and* emptied its environment; and, if this process is killed
//! with SIGKILL, commands that the agent had started. With a guard ([`Host::with_guard`] and the module `guard`) nothing escapes, and
//! all of it is gone within three seconds even then. The program `ostler` always uses the guard.

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
pub use ostler_core::brief;
pub use ostler_core::change;
pub use ostler_core::dialect::{self, Capabilities, Dialect, Setting};
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
