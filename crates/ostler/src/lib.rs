//! Ostler drives coding agents (Claude Code, Codex, Copilot, Gemini and others) through one
//! interface: a typed event stream, a defined outcome for every turn, and no leftover processes.
//!
//! ```
//! use ostler::{Agents, EventKind, Host, Spec};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let host = Host::new(std::env::vars_os()); // each agent gets only the variables it needs
//! let agent = Agents::builtin().get("scripted").expect("a built-in agent"); // or "claude", …
//! let spec = Spec::new("hello");
//!
//! let mut session = agent.start(&host, spec).expect("a valid spec");
//! while let Some(event) = session.next().await {
//!     match event.kind {
//!         EventKind::Text(text) => print!("{}", text.text),
//!         EventKind::ToolCall(call) => println!("[{}]", call.name),
//!         EventKind::Ended(ended) => println!("{}", ended.outcome.cause),
//!         _ => {}
//!     }
//! }
//! # });
//! ```
//!
//! If only the result matters, [`Session::wait`] reads all events and returns a [`Run`]: the
//! answer, the outcome, and the id for resuming the session.
//!
//! # Where to start
//!
//! | to | use |
//! |---|---|
//! | choose an agent that is installed and ready | [`Agents`], [`Agents::choose`] |
//! | set the prompt, directory, limits and policy | [`Spec`] |
//! | send more messages, interrupt, pause or stop | [`Session`], [`Remote`] |
//! | approve or deny actions | [`PermissionHandler`], [`Host::with_permission_handler`] |
//! | give an agent your own tools | [`tool()`], [`Tool`] |
//! | store events and resume sessions later | [`Log`], [`Host::with_log`] |
//! | use an agent or a server as a plain model | [`adapter`] |
//! | run a model with tools until a task is done | [`agent_loop`] |
//! | read layered configuration files | [`config`] |
//! | run a program of the caller, such as Git or a test command | [`sandbox::program`] |
//! | test a program without an agent | [`testing`] |
//!
//! # Theory of operation
//!
//! [`Agent::start`] validates the [`Spec`] and returns a [`Session`] immediately. A driver task
//! owns the agent's process and reads its output. The agent's [dialect] translates each line into
//! events, and a pure state machine decides what follows: write to the agent, ask for permission,
//! end the turn, stop the process.
//!
//! - **Events are never lost.** Each has a sequence number and a time. A slow reader does not slow
//!   the agent down: it reads from the log, or from a temporary file that belongs to the session.
//!   The agent waits in two cases only: the log cannot keep up; or there is no log, that file is
//!   full (1 GiB) and the session's own reader is behind.
//! - **Every turn ends exactly once**, with an [`Outcome`] whose [`Cause`] a program can branch on.
//!   The last event of a session is [`EventKind::Ended`].
//! - **A failed run is not an `Err`.** Only an invalid spec is, and then nothing was started.
//! - **Unknown output is not an error.** A line that cannot be parsed becomes an event that carries
//!   the line (or its beginning, if it exceeds the size limit).
//! - **Nothing is implicit.** The library does not print, and it does not read the environment or
//!   the home directory. The caller passes what agents may see in a [`Host`].
//!
//! Sessions need a tokio runtime with time and I/O enabled.
//!
//! # Process guarantees
//!
//! An agent runs in its own process session, without a terminal. There is no shell between Ostler
//! and the agent, and prompts go over stdin. Dropping the [`Session`] ends the agent.
//!
//! When an agent exits or is stopped, everything it started is killed too:
//!
//! | system | what is killed |
//! |---|---|
//! | Linux | its process group, and every process with the session's mark in its environment |
//! | macOS (not tested) | its process group |
//! | Windows (not tested) | its job object |
//!
//! On Linux, the agent also dies with *this* process.
//!
//! Two kinds of processes escape: those that left the group *and* cleared their environment, and,
//! if this process is killed with SIGKILL, commands that the agent had started. With a guard
//! ([`Host::with_guard`] and the module `guard`, Linux only), neither kind escapes: even if this
//! process is killed with SIGKILL, everything ends within three seconds. The `ostler` program
//! always uses the guard.
//!
//! # Features
//!
//! All features are enabled by default.
//!
//! - `api`: models behind OpenAI-compatible servers, with an HTTP client and TLS
//! - `acp`: agents that speak the Agent Client Protocol
//! - `sandbox`: Landlock and seccomp around commands and agents, on Linux

pub mod adapter;
pub mod agent;
mod agent_path;
pub mod agent_loop;
mod api;
mod breaker;
mod clock;
mod command;
pub mod config;
pub mod detached;
pub mod event;
pub mod hooks;
pub mod host;
mod in_process;
mod mock;
mod model;
pub mod permission;
mod probe;
mod process;
pub mod provider;
pub mod render;
mod replay;
mod resume;
pub mod sandbox;
pub mod session;
pub mod testing;
mod toolbox;
pub mod tools;
pub mod trust;

pub use adapter::{ModelAdapter, ModelOptions, Models};
pub use agent::{Agent, Agents};
pub use agent_loop::Loop;
pub use event::{Event, EventKind, Usage};
pub use host::Host;
pub use ostler_core::log::Log;
pub use ostler_core::outcome::{Cause, Outcome};
pub use ostler_core::spec::{Spec, SpecError};
pub use ostler_core::{dialect, log, outcome, spec};
pub use permission::PermissionHandler;
#[cfg(target_os = "linux")]
pub use process::guard;
pub use session::{Remote, Run, Session};
pub use tools::{Tool, tool};
