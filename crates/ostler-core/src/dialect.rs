//! The dialect contract: how to launch one agent, converse with it and probe it. All of it is pure.

mod probe;
pub mod transcript;

use crate::event::{EventKind, Level, Notice, Unreadable};
use crate::lines::Line;
use crate::outcome::Outcome;
use crate::permission::{PermissionRequest, ToolKind, ToolUse, Verdict};
use crate::raw_json::RawJson;
use crate::spec::{Spec, SpecError};
use crate::usage::Usage;

pub use probe::{Login, LoginQuery, Probe, Runtime, Version};
use transcript::{ResumeDelay, Transcripts};

/// Translation of one agent's protocol. Implementations are stateless; each child process gets its
/// own [`Conversation`].
pub trait Dialect: Send + Sync {
    /// Returns the agent's name in Ostler.
    fn name(&self) -> &'static str;

    /// Returns what the agent can do.
    fn capabilities(&self) -> Capabilities;

    /// Returns model names the agent is known to accept. Others may work too.
    fn models(&self) -> &'static [&'static str];

    /// Returns every setting the agent accepts.
    fn settings(&self) -> Vec<Setting>;

    /// Returns how to check that the agent is installed and ready, or `None` if it is part of
    /// Ostler.
    fn probe(&self) -> Option<Probe>;

    /// Validates the spec and returns what to launch.
    ///
    /// # Errors
    /// Names the invalid setting. Nothing is started in that case.
    fn launch(&self, spec: &Spec) -> Result<Launch, SpecError>;

    /// Creates the conversation with one child.
    fn converse(&self, spec: &Spec) -> Box<dyn Conversation>;

    /// Returns the transport this spec selects, if the agent has several. Each has the same name
    /// and settings, and its own capabilities. `None` selects this one.
    fn select_transport(&self, _spec: &Spec) -> Option<&'static dyn Dialect> {
        None
    }

    /// Returns the transport to try instead if the child exited before its first output because it
    /// does not support this one.
    fn fallback_transport(&self, _exit: &Exit) -> Option<&'static dyn Dialect> {
        None
    }

    /// Whether the agent reaches the caller's tools through a program that it starts itself
    /// ([`Spec::bridge`]).
    fn needs_bridge(&self) -> bool {
        false
    }

    /// Whether Ostler must assign the session id up front ([`crate::spec::keys::SESSION_ID`]),
    /// because this agent reports its own too late (or never) for an interrupted turn to be
    /// resumed. Given an id that it knows, such an agent resumes that session.
    fn needs_session_id(&self) -> bool {
        false
    }

    /// Whether the agent stores no sessions itself, and is resumed from Ostler's events
    /// ([`Spec::past`]).
    fn resumes_from_events(&self) -> bool {
        false
    }

    /// Returns where the agent stores its sessions, or `None` if they cannot be looked up.
    fn transcripts(&self) -> Option<&'static Transcripts> {
        None
    }

    /// Returns the session files that must not be resumed within the minute of their creation, or
    /// `None` if there is no such restriction.
    fn resume_delay(&self) -> Option<&'static ResumeDelay> {
        None
    }

    /// Returns the settings that turn the agent into a plain model, which replies and does nothing
    /// else.
    fn as_model(&self) -> PlainModel {
        PlainModel::default()
    }

    /// Returns true if a recording that begins with this text is in this protocol. `opening` may
    /// end in the middle of a line.
    fn recognizes(&self, _opening: &str) -> bool {
        false
    }

    /// Describes what a call of one of the agent's tools would do, in the terms of the policy.
    fn tool_use(&self, tool: &str, _input: &RawJson) -> ToolUse {
        ToolUse::new(tool, ToolKind::Other)
    }
}

/// How to run an agent as a plain model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlainModel {
    /// Settings that remove the agent's own tools, or disable them.
    pub settings: &'static [(&'static str, &'static str)],
    /// Whether the settings remove all tools. Otherwise each call that the agent asks about is
    /// denied by policy.
    pub toolless: bool,
}

/// A setting that an agent accepts, for `--set`, error messages and the documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The key.
    pub key: &'static str,
    /// What it does.
    pub help: &'static str,
    /// Whether a value may be or contain a secret.
    pub secret: bool,
    /// The only accepted values; empty if others are accepted too.
    pub words: &'static [&'static str],
}

/// What an agent can do. This is data, so that no code depends on an agent's name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Capabilities {
    /// Resumes an earlier session.
    pub resume: bool,
    /// Resumes a copy of an earlier session.
    pub fork: bool,
    /// Streams text while it is generated.
    pub stream_text: bool,
    /// Shows its reasoning.
    pub thinking: bool,
    /// Accepts an interrupt without exiting.
    pub interrupt: bool,
    /// Answers according to a JSON schema.
    pub structured: bool,
    /// Reports its cost.
    pub cost: bool,
    /// Takes several turns in one process. Otherwise each turn has its own process.
    pub many_turns: bool,
    /// Accepts a message for the current turn.
    pub steer: bool,
    /// Asks whether a tool may run, so that a policy can decide.
    pub ask: bool,
    /// Accepts the caller's tools.
    pub tools: bool,
    /// Changes its model between turns.
    pub set_model: bool,
    /// Changes its permission mode between turns.
    pub set_permission_mode: bool,
    /// Has processes that can be suspended.
    pub freeze: bool,
    /// Prints nothing until the turn is over: its silence does not mean that it hangs.
    pub silent: bool,
    /// Reports each tool call and its result.
    pub tells_tools: bool,
    /// Reports denied tool calls.
    pub tells_denials: bool,
    /// Reports every token of a turn.
    pub tells_usage: bool,
    /// Accepts prompts of many megabytes: only the model's own limit applies.
    pub long_prompts: bool,
}

/// What to launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Name of the program, looked up on `PATH`.
    pub program: &'static str,
    /// Location of the native program if `PATH` names only a wrapper script: see
    /// [`Probe::natives`].
    pub natives: &'static [&'static str],
    /// Its arguments.
    pub args: Vec<Arg>,
    /// Variables to set.
    pub env: Vec<(&'static str, String)>,
    /// Variables to pass on from the caller's environment.
    pub inherits: Inherits,
    /// Other programs that must be installed, because the agent calls them by these names.
    pub needs: &'static [&'static str],
    /// The agent's own files and directories, which stay writable in a sandbox: `~/…` below the
    /// home directory, `$NAME` or `$NAME/…` relative to a variable.
    pub state: &'static [&'static str],
}

/// The caller's variables that an agent inherits besides the basic ones. A trailing `*` in a name
/// matches anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Inherits {
    /// The agent's own variables.
    pub always: &'static [&'static str],
    /// Variables inherited only if another one is set: for example a cloud's keys, if that cloud
    /// serves the model.
    pub when: &'static [(&'static str, &'static [&'static str])],
    /// Variables never inherited, even if a list above names them: marks of an enclosing session.
    pub never: &'static [&'static str],
}

/// One argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arg {
    /// Passed as it is.
    Plain(String),
    /// Too long for the command line, or too private, since every user can read it there. The text
    /// is written to a private file, and its path follows `prefix`.
    InFile {
        /// Text before the path, for example `--system-prompt-file=`.
        prefix: &'static str,
        /// Content of the file.
        text: String,
    },
}

/// Maximum length of an argument on the command line, in bytes; the kernel's limit for one is 128
/// KiB.
pub const ARG_CAP: usize = 100 * 1024;

/// Protocol state of one child process. Each call only pushes to the outbox; reading never fails.
pub trait Conversation: Send {
    /// Called once the child has started. Sends whatever must come first.
    fn on_start(&mut self, out: &mut Outbox);

    /// Sends a message to the agent.
    fn send(&mut self, message: ToAgent, out: &mut Outbox);

    /// Called for each line the child prints.
    fn on_line(&mut self, line: &str, out: &mut Outbox);

    /// Called for each line from a bridge, a program that the agent started to reach the caller's
    /// tools ([`Spec::bridge`]). There can be several.
    fn on_bridge_line(&mut self, _from: u32, _line: &str, _out: &mut Outbox) {}

    /// Whether a bridge still waits for a reply. One that has closed its output is not dropped
    /// before it has the reply.
    fn owes_bridge_reply(&self, _to: u32) -> bool {
        false
    }

    /// Called once a bridge has closed. Its pending requests are obsolete.
    fn on_bridge_closed(&mut self, _from: u32, _out: &mut Outbox) {}

    /// Called once the child has exited. If that ended a turn and the exit explains why, the turn's
    /// result is reported here.
    fn on_exit(&mut self, exit: &Exit, out: &mut Outbox);
}

/// A message from the caller to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToAgent {
    /// A prompt that starts a turn.
    Prompt(String),
    /// A message for the current turn.
    Steer(String),
    /// Ends the current turn.
    Interrupt,
    /// The answer to a permission request.
    Verdict {
        /// The request: [`PermissionRequest::id`].
        id: String,
        /// The answer.
        verdict: Verdict,
    },
    /// The result of one of the caller's tools.
    ToolDone {
        /// The job: [`ToolJob::id`].
        id: String,
        /// Whether the tool succeeded.
        ok: bool,
        /// Output for the model.
        output: String,
    },
    /// Progress of one of the caller's tools.
    ToolProgress {
        /// The job: [`ToolJob::id`].
        id: String,
        /// Progress message.
        message: String,
    },
    /// The result of reading or writing a file for the agent.
    FileDone {
        /// The job: [`FileJob::id`].
        id: String,
        /// The text, empty for a file that was written, or the error.
        result: Result<String, FileError>,
    },
    /// A change of the model or of the permission mode.
    Change {
        /// The request; the reply carries the same id.
        id: u64,
        /// What to change.
        change: Change,
    },
}

/// Properties that can change during a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The model.
    Model(String),
    /// The agent's permission mode, by the agent's own name for it.
    PermissionMode(String),
}

impl Change {
    /// Returns the request's name in events.
    #[must_use]
    pub fn request(&self) -> &'static str {
        match self {
            Self::Model(_) => "set_model",
            Self::PermissionMode(_) => "set_permission_mode",
        }
    }

    /// Returns the new value.
    #[must_use]
    pub fn value(&self) -> &str {
        match self {
            Self::Model(value) | Self::PermissionMode(value) => value,
        }
    }
}

/// A request to run one of the caller's tools.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolJob {
    /// Id assigned by the conversation.
    pub id: String,
    /// Id of the tool call in the events, if the agent reported it.
    pub call: Option<String>,
    /// The caller's name of the tool.
    pub name: String,
    /// Its arguments, as JSON.
    pub input: RawJson,
}

/// A request to read or write a file of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileJob {
    /// Id assigned by the conversation.
    pub id: String,
    /// Path of the file, as the agent wrote it.
    pub path: String,
    /// What to do with it.
    pub access: FileAccess,
}

/// What to do with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileAccess {
    /// Read it.
    Read {
        /// First line, counted from 1.
        line: Option<u64>,
        /// Maximum number of lines.
        limit: Option<u64>,
    },
    /// Replace its content.
    Write(String),
}

/// Why a file was not read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// Whether the file does not exist.
    pub missing: bool,
    /// The error message.
    pub why: String,
}

/// How a child process exited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exit {
    /// Exit code.
    pub code: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<i32>,
    /// Head and tail of its stderr.
    pub stderr: String,
}

/// An output of a conversation, to be carried out in order.
#[derive(Debug, Clone, PartialEq)]
pub enum FromConversation {
    /// Publish an event.
    Event(EventKind),
    /// Write to the child's stdin.
    Write(Vec<u8>),
    /// The agent started a turn, or confirmed the one it was asked for.
    TurnStarted,
    /// The agent ended a turn.
    TurnEnded(TurnResult),
    /// Number of the agent's background tasks that are running.
    Background(usize),
    /// Ask for permission to run a tool. The reply is one [`ToAgent::Verdict`], unless the request
    /// is withdrawn.
    AskPermission(PermissionRequest),
    /// Withdraw a permission request.
    WithdrawPermission(String),
    /// Run one of the caller's tools. The reply is one [`ToAgent::ToolDone`], unless the job is
    /// cancelled.
    RunTool(ToolJob),
    /// Cancel a tool job: its result is no longer needed.
    CancelTool(String),
    /// Read or write a file of the workspace. The reply is one [`ToAgent::FileDone`].
    AccessFile(FileJob),
    /// Write a line to a bridge ([`Conversation::on_bridge_line`]).
    WriteBridge {
        /// The bridge.
        to: u32,
        /// The line, with its line ending.
        line: Vec<u8>,
    },
    /// The reply to a [`ToAgent::Change`].
    Changed {
        /// The request.
        id: u64,
        /// Why the change failed, or `None` if it succeeded.
        error: Option<String>,
    },
    /// Close the child's stdin once everything is written.
    EndInput,
    /// Send SIGTERM to the child: the only way to interrupt an agent that accepts no input while it
    /// works.
    Terminate,
    /// End the child, which is of no further use: SIGTERM, then SIGKILL after the grace period. The
    /// turn ends with it.
    EndProcess,
}

/// Result of a turn, as the agent reported it.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnResult {
    /// How it ended.
    pub outcome: Outcome,
    /// The answer, if the agent reported it as a whole.
    pub text: Option<String>,
    /// The structured answer.
    pub structured: Option<RawJson>,
    /// Tokens and cost of the turn, per model.
    pub usage: Vec<Usage>,
}

impl TurnResult {
    /// Creates a result without an answer.
    #[must_use]
    pub fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            text: None,
            structured: None,
            usage: Vec::new(),
        }
    }
}

/// Queue of a conversation's outputs.
#[derive(Debug, Default)]
pub struct Outbox(Vec<FromConversation>);

impl Outbox {
    /// Publishes an event.
    pub fn event(&mut self, kind: impl Into<EventKind>) {
        self.0.push(FromConversation::Event(kind.into()));
    }

    /// Publishes a notice.
    pub fn notice(&mut self, level: Level, code: &str, message: impl Into<String>) {
        self.event(Notice::new(level, code, message));
    }

    /// Reports a line that could not be parsed.
    pub fn unreadable(&mut self, line: &str, why: &str) {
        self.event(Unreadable {
            raw: line.to_owned(),
            why: why.to_owned(),
            length: line.len() as u64,
            lossy: false,
        });
    }

    /// Appends any other output.
    pub fn push(&mut self, out: FromConversation) {
        self.0.push(out);
    }

    /// Removes all outputs, in order. The allocation is reused for the next line.
    pub fn drain(&mut self) -> std::vec::Drain<'_, FromConversation> {
        self.0.drain(..)
    }

    /// Returns true if the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Passes one line to a conversation. Handles what is the same for every agent: blank, damaged and
/// oversize lines.
pub fn deliver_line(conversation: &mut dyn Conversation, line: Line<'_>, out: &mut Outbox) {
    match line {
        Line::Text { text, .. } if text.trim().is_empty() => {}
        Line::Text { text, lossy } => {
            if lossy {
                out.notice(
                    Level::Warning,
                    "invalid_utf8",
                    "A line contained invalid UTF-8; damaged characters are replaced by \u{fffd}.",
                );
            }
            let before = out.0.len();
            conversation.on_line(&text, out);
            for item in &mut out.0[before..] {
                if let FromConversation::Event(EventKind::Unreadable(it)) = item {
                    it.lossy = lossy;
                }
            }
        }
        Line::Oversize { head, length } => {
            let why = format!("the line is longer than the cap ({length} bytes)");
            out.event(Unreadable {
                raw: head,
                why,
                length,
                lossy: false,
            });
        }
    }
}
