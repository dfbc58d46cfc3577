//! The contract between Ostler and one agent's language: a launch, a conversation, a probe. All of it pure.

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
use transcript::{ByMinute, Transcripts};

/// One agent's language. Implementations are stateless; each child process gets a [`Conversation`] of its own.
pub trait Dialect: Send + Sync {
    /// The agent's name in Ostler.
    fn name(&self) -> &'static str;

    /// What the agent can do.
    fn capabilities(&self) -> Capabilities;

    /// Model names the agent is known to take; others may work too.
    fn models(&self) -> &'static [&'static str];

    /// Every setting the agent takes.
    fn settings(&self) -> Vec<Setting>;

    /// How to find out whether the agent is there and ready; none for an agent that is part of Ostler.
    fn probe(&self) -> Option<Probe>;

    /// Checks the spec and says what to start.
    ///
    /// # Errors
    /// Names the setting that is wrong. Nothing is started then.
    fn launch(&self, spec: &Spec) -> Result<Launch, SpecError>;

    /// Opens a conversation with one child.
    fn converse(&self, spec: &Spec) -> Box<dyn Conversation>;

    /// The language that this spec chooses, where an agent has several (each with the same name and settings, and with
    /// capabilities of its own); none: this one.
    fn select_transport(&self, _spec: &Spec) -> Option<&'static dyn Dialect> {
        None
    }

    /// The child went before its first word. If that means that it does not know this language, the one to try instead.
    fn fallback_transport(&self, _exit: &Exit) -> Option<&'static dyn Dialect> {
        None
    }

    /// Whether the agent reaches the caller's tools through a program that it starts itself
    /// ([`Spec::bridge`]).
    fn needs_bridge(&self) -> bool {
        false
    }

    /// Whether Ostler must assign the session id up front ([`crate::spec::keys::SESSION_ID`]), because
    /// this agent reports its own too late (or never) for an interrupted turn to be resumed. Given an
    /// id that it knows, such an agent resumes that session.
    fn needs_session_id(&self) -> bool {
        false
    }

    /// Whether the agent keeps no sessions itself and is resumed from Ostler's events ([`Spec::past`]).
    fn resumes_from_events(&self) -> bool {
        false
    }

    /// Where the agent keeps its sessions; none when it keeps none that could be looked up.
    fn transcripts(&self) -> Option<&'static Transcripts> {
        None
    }

    /// How the agent's sessions are kept when one must not be gone on with in the minute in which it was made; none: it may.
    fn by_minute(&self) -> Option<&'static ByMinute> {
        None
    }

    /// What makes the agent a plain model, which says something and does nothing.
    fn as_model(&self) -> PlainModel {
        PlainModel::default()
    }

    /// Returns true if a recording that begins with this text is in this language. `opening` may end in the middle of a line.
    fn recognizes(&self, _opening: &str) -> bool {
        false
    }

    /// What a call of one of the agent's tools would do, in words that rules can be written in.
    fn tool_use(&self, tool: &str, _input: &RawJson) -> ToolUse {
        ToolUse::of(tool, ToolKind::Other)
    }
}

/// What makes an agent a plain model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlainModel {
    /// Settings that take its own tools away, or keep them from doing anything.
    pub settings: &'static [(&'static str, &'static str)],
    /// Whether they take all of them away. Else each call is put before a policy that denies it, where the agent asks.
    pub toolless: bool,
}

/// One setting an agent takes: for `--set`, for errors and for the documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The key.
    pub key: &'static str,
    /// What it does.
    pub help: &'static str,
    /// Whether a value may be a secret, or hold one.
    pub secret: bool,
    /// The only words it takes; empty when it takes others too.
    pub words: &'static [&'static str],
}

/// What an agent can do: data, so that nobody asks for an agent by its name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Capabilities {
    /// Goes on with an earlier session.
    pub resume: bool,
    /// Goes on with a copy of an earlier session.
    pub fork: bool,
    /// Streams text as it is written.
    pub stream_text: bool,
    /// Shows its reasoning.
    pub thinking: bool,
    /// Takes an interrupt without ending.
    pub interrupt: bool,
    /// Answers by a schema.
    pub structured: bool,
    /// Reports what it cost.
    pub cost: bool,
    /// Takes several turns in one process; else each turn has a process of its own.
    pub many_turns: bool,
    /// Takes a message for the turn that is under way.
    pub steer: bool,
    /// Asks whether a tool may run, so that a policy decides on it.
    pub ask: bool,
    /// Takes tools of the caller's.
    pub tools: bool,
    /// Changes its model between turns.
    pub set_model: bool,
    /// Changes its permission mode between turns.
    pub set_permission_mode: bool,
    /// Has processes that can be stopped where they are.
    pub freeze: bool,
    /// Says nothing until the turn is over: its silence is no sign that it hangs.
    pub silent: bool,
    /// Tells each call of a tool, and what came of it.
    pub tells_tools: bool,
    /// Tells a call that was not allowed.
    pub tells_denials: bool,
    /// Tells every token of a turn.
    pub tells_usage: bool,
    /// Takes prompts of many megabytes: the model's own limit is the only one.
    pub long_prompts: bool,
}

/// What to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The program's name, to be found on PATH.
    pub program: &'static str,
    /// Where the program itself is when what PATH names is a script that only starts it: see [`Probe::natives`].
    pub natives: &'static [&'static str],
    /// Its arguments.
    pub args: Vec<Arg>,
    /// Variables to set.
    pub env: Vec<(&'static str, String)>,
    /// Variables to pass on from the caller's environment.
    pub inherits: Inherits,
    /// Further programs that must be there: the agent is going to call them by these names.
    pub needs: &'static [&'static str],
    /// The agent's own files and directories, which stay writable when it is started in a sandbox: `~/…` below the home
    /// directory, `$NAME` or `$NAME/…` where a variable says so.
    pub state: &'static [&'static str],
}

/// Which of the caller's variables an agent gets besides the basics. A `*` at the end of a name stands for anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Inherits {
    /// The agent's own.
    pub always: &'static [&'static str],
    /// Those that it needs only when another variable is set: the keys of a cloud, when that cloud serves the model.
    pub when: &'static [(&'static str, &'static [&'static str])],
    /// Never these, even when a list above names them: marks of an enclosing session.
    pub never: &'static [&'static str],
}

/// One argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arg {
    /// As it is.
    Plain(String),
    /// Too long for a command line, or too private, since every user can read it there: the text goes into a private file
    /// and its path is put after `prefix`.
    InFile {
        /// What stands before the path, for example `--system-prompt-file=`.
        prefix: &'static str,
        /// What the file holds.
        text: String,
    },
}

/// The longest argument that is still passed on the command line; the kernel's limit for one is 128 KiB.
pub const ARG_CAP: usize = 100 * 1024;

/// One child's side of a session. Each call only pushes to the outbox; reading never fails.
pub trait Conversation: Send {
    /// The child was started: whatever must be said first.
    fn on_start(&mut self, out: &mut Outbox);

    /// The caller wants something said.
    fn send(&mut self, message: ToAgent, out: &mut Outbox);

    /// The child printed a line.
    fn on_line(&mut self, line: &str, out: &mut Outbox);

    /// A program that the agent started to reach the caller's tools ([`Spec::bridge`]) said a line. There can be several.
    fn on_bridge_line(&mut self, _from: u32, _line: &str, _out: &mut Outbox) {}

    /// Whether such a program is owed an answer: one that has nothing more to say is kept until it has it.
    fn owes_bridge_reply(&self, _to: u32) -> bool {
        false
    }

    /// Such a program is gone: nobody waits for what it asked for.
    fn on_bridge_closed(&mut self, _from: u32, _out: &mut Outbox) {}

    /// The child is gone. If a turn was under way and the exit explains it, this is where the blame goes.
    fn on_exit(&mut self, exit: &Exit, out: &mut Outbox);
}

/// What the caller can have said to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToAgent {
    /// A message that begins a turn.
    Prompt(String),
    /// A message for the turn that is under way.
    Steer(String),
    /// End the turn that is under way.
    Interrupt,
    /// The answer to a question of the agent's.
    Verdict {
        /// The question: [`PermissionRequest::id`].
        id: String,
        /// The answer.
        verdict: Verdict,
    },
    /// What came of a tool of the caller's.
    ToolDone {
        /// The order: [`ToolJob::id`].
        id: String,
        /// Whether the tool did what it was asked.
        ok: bool,
        /// What the model is told.
        output: String,
    },
    /// A tool of the caller's is still at work.
    ToolProgress {
        /// The order: [`ToolJob::id`].
        id: String,
        /// What it says about itself.
        message: String,
    },
    /// What came of a file that the agent wanted read or written.
    FileDone {
        /// The order: [`FileJob::id`].
        id: String,
        /// The text, nothing for a file that was written, or why not.
        result: Result<String, FileError>,
    },
    /// Something is to be different from now on.
    Change {
        /// The request, which the answer carries.
        id: u64,
        /// What.
        change: Change,
    },
}

/// What can be changed while a session lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The model.
    Model(String),
    /// What the agent may do without asking, in its own words.
    PermissionMode(String),
}

impl Change {
    /// The request, as events name it.
    #[must_use]
    pub fn request(&self) -> &'static str {
        match self {
            Self::Model(_) => "set_model",
            Self::PermissionMode(_) => "set_permission_mode",
        }
    }

    /// The new value.
    #[must_use]
    pub fn value(&self) -> &str {
        match self {
            Self::Model(value) | Self::PermissionMode(value) => value,
        }
    }
}

/// A tool of the caller's is to be run.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolJob {
    /// The order, as the conversation names it.
    pub id: String,
    /// The tool call in the events, when the agent said so.
    pub call: Option<String>,
    /// The tool, by the caller's name for it.
    pub name: String,
    /// Its arguments: JSON.
    pub input: RawJson,
}

/// The agent has a file of the workspace read or written by Ostler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileJob {
    /// The order, as the conversation names it.
    pub id: String,
    /// The file, as the agent wrote it.
    pub path: String,
    /// What is to be done with it.
    pub access: FileAccess,
}

/// What is to be done with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileAccess {
    /// Read it.
    Read {
        /// The first line, counted from 1.
        line: Option<u64>,
        /// How many lines.
        limit: Option<u64>,
    },
    /// Make it hold this, and nothing else.
    Write(String),
}

/// Why a file was not read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// Whether it is just not there.
    pub missing: bool,
    /// A sentence.
    pub why: String,
}

/// How a child went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Head and tail of its stderr.
    pub stderr: String,
}

/// What a conversation wants done, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum FromConversation {
    /// Tell the caller.
    Event(EventKind),
    /// Write to the child.
    Write(Vec<u8>),
    /// The agent began a turn (or says that the one it was asked for is under way).
    TurnStarted,
    /// The agent ended a turn.
    TurnEnded(TurnResult),
    /// The number of the agent's background tasks that are running.
    Background(usize),
    /// The agent asks whether a tool may run. It gets one [`ToAgent::Verdict`], unless it withdraws the question.
    Ask(PermissionRequest),
    /// The agent does not want to know any more.
    Withdraw(String),
    /// Run a tool of the caller's. It gets one [`ToAgent::ToolDone`], unless it is called off.
    Tool(ToolJob),
    /// Cancel a tool call: its result is no longer needed.
    CancelTool(String),
    /// Read or write a file of the workspace. It gets one [`ToAgent::FileDone`].
    File(FileJob),
    /// Answer a program that the agent started to reach the caller's tools ([`Conversation::on_bridge_line`]).
    WriteBridge {
        /// Which one.
        to: u32,
        /// A line, with its end.
        line: Vec<u8>,
    },
    /// The agent did what a [`ToAgent::Change`] asked, or says why not.
    Changed {
        /// The request.
        id: u64,
        /// Why not.
        error: Option<String>,
    },
    /// Nothing more will be written to the child: close its input once everything is there.
    EndInput,
    /// Tell the child to end (SIGTERM): the only way to interrupt an agent that cannot be spoken to while it works.
    Terminate,
    /// Ends the child, which is of no more use: SIGTERM, then SIGKILL after the grace period. The turn ends with it.
    EndProcess,
}

/// How a turn ended, as the agent reported it.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnResult {
    /// How it ended.
    pub outcome: Outcome,
    /// The answer, when the agent gave it as a whole.
    pub text: Option<String>,
    /// The structured answer.
    pub structured: Option<RawJson>,
    /// Tokens and cost of the turn, per model.
    pub usage: Vec<Usage>,
}

impl TurnResult {
    /// A result without an answer.
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

/// Where a conversation puts what it wants done.
#[derive(Debug, Default)]
pub struct Outbox(Vec<FromConversation>);

impl Outbox {
    /// Tell the caller.
    pub fn event(&mut self, kind: impl Into<EventKind>) {
        self.0.push(FromConversation::Event(kind.into()));
    }

    /// Tell the caller something worth knowing.
    pub fn notice(&mut self, level: Level, code: &str, message: impl Into<String>) {
        self.event(Notice::new(level, code, message));
    }

    /// Tell the caller about a line that could not be understood.
    pub fn unreadable(&mut self, line: &str, why: &str) {
        self.event(Unreadable {
            raw: line.to_owned(),
            why: why.to_owned(),
            length: line.len() as u64,
            lossy: false,
        });
    }

    /// Anything else.
    pub fn push(&mut self, out: FromConversation) {
        self.0.push(out);
    }

    /// Takes everything out, in order. The memory stays for the next line.
    pub fn drain(&mut self) -> std::vec::Drain<'_, FromConversation> {
        self.0.drain(..)
    }

    /// True when nothing is wanted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Hands one line to a conversation, and deals with what is the same for all: blank, damaged and over-long lines.
pub fn deliver_line(conversation: &mut dyn Conversation, line: Line<'_>, out: &mut Outbox) {
    match line {
        Line::Text { text, .. } if text.trim().is_empty() => {}
        Line::Text { text, lossy } => {
            if lossy {
                out.notice(
                    Level::Warning,
                    "invalid_utf8",
                    "A line held invalid UTF-8; the damaged characters show as \u{fffd}.",
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
            let why = format!("the line has {length} bytes, more than the cap");
            out.event(Unreadable {
                raw: head,
                why,
                length,
                lossy: false,
            });
        }
    }
}
