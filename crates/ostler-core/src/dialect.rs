//! The dialect contract: how to launch one agent, converse with it and probe it. All of it is pure.
//!
//! A dialect can be tested without a process: lines go in, events and requests come out.
//!
//! ```
//! use ostler_core::dialect::{Dialect, Launching, Outbox, ToAgent};
//! use ostler_core::spec::Spec;
//!
//! fn first_answer(dialect: &dyn Dialect, line: &str) -> Outbox {
//!     let spec = Spec::new("hello");
//!     let mut conversation = dialect.converse(&Launching::new(&spec));
//!     let mut out = Outbox::default();
//!     conversation.send(ToAgent::Prompt("hello".into()), &mut out);
//!     conversation.on_line(line, &mut out);
//!     out
//! }
//! ```

mod about;
mod probe;
mod setting;
pub mod transcript;

use serde::{Deserialize, Serialize};

use crate::event::{
    Event, EventKind, Level, Notice, NoticeCode, Permission, RequestKind, Unreadable,
};
use crate::lines::Line;
use crate::outcome::Outcome;
use crate::permission::{PermissionRequest, ToolKind, ToolUse, Verdict};
use crate::raw_json::RawJson;
use crate::spec::{Spec, SpecError};
use crate::usage::Usage;

pub use about::{About, Capabilities, PlainModel, ProjectFiles};
pub use probe::{Login, LoginFile, LoginQuery, Probe, Runtime, Version};
pub use setting::{Pass, Rule, Setting};

/// Translation of one agent's protocol. Implementations are stateless; each child process gets its
/// own [`Conversation`].
pub trait Dialect: Send + Sync {
    /// Returns the static facts about the agent.
    fn about(&self) -> About;

    /// Validates the spec and returns what to launch.
    ///
    /// # Errors
    /// Names the invalid setting. Nothing is started in that case.
    fn launch(&self, launching: &Launching<'_>) -> Result<Launch, SpecError>;

    /// Creates the conversation with one child.
    fn converse(&self, launching: &Launching<'_>) -> Box<dyn Conversation>;

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

    /// Describes what a call of one of the agent's tools would do, in the terms of the policy.
    fn tool_use(&self, tool: &str, _input: &RawJson) -> ToolUse {
        ToolUse::new(tool, ToolKind::Other)
    }
}

/// What a child is launched with: the caller's spec, and what the session adds to it.
#[derive(Debug, Clone, Copy)]
pub struct Launching<'a> {
    /// The spec, as far as the session has not changed it: with the current model, permission mode
    /// and session to resume.
    pub spec: &'a Spec,
    /// How the agent reaches the caller's tools, if it does so through a program that it starts
    /// ([`Capabilities::bridged_tools`]).
    pub bridge: Option<&'a Bridge>,
    /// Events of the earlier session to resume, for an agent whose sessions Ostler stores
    /// ([`Capabilities::resumes_from_events`]).
    pub past: &'a [Event],
}

impl<'a> Launching<'a> {
    /// Returns a launch with nothing but the spec.
    #[must_use]
    pub fn new(spec: &'a Spec) -> Self {
        Self {
            spec,
            bridge: None,
            past: &[],
        }
    }
}

/// The program that an agent starts to reach the caller's tools. It relays lines between its stdin
/// and stdout and the agent's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bridge {
    /// Absolute path of the program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
}

/// What to launch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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

impl<T: Into<String>> From<T> for Arg {
    fn from(text: T) -> Self {
        Self::Plain(text.into())
    }
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
    /// tools ([`Launching::bridge`]). There can be several.
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
    /// Starts a turn that makes these calls, which the last turn ended with
    /// ([`Detail::pending_calls`](crate::outcome::Detail::pending_calls)).
    Approve(Vec<String>),
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

impl ToAgent {
    /// Returns the prompt of a message that starts a turn; empty for an approval.
    #[must_use]
    pub fn prompt(&self) -> &str {
        match self {
            Self::Prompt(prompt) => prompt,
            _ => "",
        }
    }
}

/// Properties that can change during a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The model.
    Model(String),
    /// The agent's permission mode, by the agent's own name for it.
    PermissionMode(String),
}

impl Change {
    /// Returns the kind of the request in events.
    #[must_use]
    pub fn request(&self) -> RequestKind {
        match self {
            Self::Model(_) => RequestKind::SetModel,
            Self::PermissionMode(_) => RequestKind::SetPermissionMode,
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
    /// The reply to a [`ToAgent::Change`].
    Changed {
        /// The request.
        id: u64,
        /// Why the change failed, or `None` if it succeeded.
        error: Option<String>,
    },
    /// End the child, which is of no further use: SIGTERM, then SIGKILL after the grace period. The
    /// turn ends with it.
    EndProcess,
    /// Do something outside of the session's state.
    Do(Action),
}

impl From<TurnResult> for FromConversation {
    fn from(result: TurnResult) -> Self {
        Self::TurnEnded(result)
    }
}

impl From<PermissionRequest> for FromConversation {
    fn from(request: PermissionRequest) -> Self {
        Self::AskPermission(request)
    }
}

impl From<Action> for FromConversation {
    fn from(action: Action) -> Self {
        Self::Do(action)
    }
}

/// Something that only the session's driver can do. Conversations and the session machine ask for
/// it.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Write to the child's stdin.
    Write(Vec<u8>),
    /// Close the child's stdin once everything is written.
    CloseInput,
    /// Send SIGTERM to the child's processes. For an agent that accepts no input while it works,
    /// this is the only way to interrupt it.
    Terminate,
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
    /// Start the agent's process: for the first time, or again to resume the session.
    Spawn,
    /// Send SIGKILL to the agent's processes.
    Kill,
    /// Suspend the agent's processes.
    Freeze,
    /// Continue the suspended processes.
    Thaw,
    /// Use this value from the next start of the process on.
    Adopt(Change),
    /// Ask the caller's permission handler.
    AskHandler(Permission),
    /// Stop asking the permission handler: the request with this id is decided.
    CancelAsk(String),
    /// Report a turn's outcome to the circuit breaker.
    RecordTurn(Outcome),
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

    /// Publishes events, in order.
    pub fn events(&mut self, kinds: impl IntoIterator<Item = impl Into<EventKind>>) {
        kinds.into_iter().for_each(|kind| self.event(kind));
    }

    /// Publishes a notice.
    pub fn notice(&mut self, level: Level, code: NoticeCode, message: impl Into<String>) {
        self.event(Notice::new(level, code, message));
    }

    /// Publishes a warning.
    pub fn warn(&mut self, code: NoticeCode, message: impl Into<String>) {
        self.notice(Level::Warning, code, message);
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

    /// Releases memory that is not in use.
    pub fn shrink(&mut self) {
        self.0.shrink_to_fit();
    }

    /// Appends any other output.
    pub fn push(&mut self, out: impl Into<FromConversation>) {
        self.0.push(out.into());
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
                    NoticeCode::InvalidUtf8,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports every line as unreadable, and nothing else.
    struct Echo;

    impl Conversation for Echo {
        fn on_start(&mut self, _: &mut Outbox) {}
        fn send(&mut self, _: ToAgent, _: &mut Outbox) {}
        fn on_line(&mut self, line: &str, out: &mut Outbox) {
            out.unreadable(line, "echo");
        }
        fn on_exit(&mut self, _: &Exit, _: &mut Outbox) {}
    }

    /// Renders outputs: a notice as its code, a line with its reason and length, `~` if lossy.
    fn rendered(out: &mut Outbox) -> Vec<String> {
        let render = |output| match output {
            FromConversation::Event(EventKind::Notice(notice)) => format!("{:?}", notice.code),
            FromConversation::Event(EventKind::Unreadable(it)) => {
                let mark = if it.lossy { "~" } else { "" };
                format!("{mark}{}: {} ({})", it.raw, it.why, it.length)
            }
            other => format!("{other:?}"),
        };
        out.drain().map(render).collect()
    }

    #[test]
    fn blank_damaged_and_oversize_lines_are_the_same_for_every_agent() {
        let text = |text: &'static str, lossy| Line::Text {
            text: text.into(),
            lossy,
        };
        let oversize = Line::Oversize {
            head: "ab".into(),
            length: 99,
        };
        let long = "ab: the line is longer than the cap (99 bytes) (99)";
        for (line, expected) in [
            (text("", false), &[][..]),
            (text(" \t", true), &[]),
            (text("ab", false), &["ab: echo (2)"]),
            (text("ab", true), &["InvalidUtf8", "~ab: echo (2)"]),
            (oversize, &[long]),
        ] {
            let mut out = Outbox::default();
            deliver_line(&mut Echo, line, &mut out);
            assert_eq!(out.is_empty(), expected.is_empty());
            assert_eq!(rendered(&mut out), expected);
            assert!(out.is_empty(), "drained");
        }
    }

    // An earlier line in the queue was not damaged.
    #[test]
    fn only_the_damaged_line_is_marked() {
        let mut out = Outbox::default();
        for lossy in [false, true] {
            let text = "x".into();
            deliver_line(&mut Echo, Line::Text { text, lossy }, &mut out);
        }
        let expected = ["x: echo (1)", "InvalidUtf8", "~x: echo (1)"];
        assert_eq!(rendered(&mut out), expected);
    }

    #[test]
    fn a_change_has_a_kind_and_a_value() {
        for (change, kind, value) in [
            (Change::Model("m".into()), RequestKind::SetModel, "m"),
            (
                Change::PermissionMode("p".into()),
                RequestKind::SetPermissionMode,
                "p",
            ),
        ] {
            assert_eq!((change.request(), change.value()), (kind, value));
        }
    }
}
