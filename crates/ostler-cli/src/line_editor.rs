//! Prompt input: a line editor with history on a terminal, plain lines otherwise. A separate thread
//! reads a line on request.

mod gate;

use std::borrow::Cow;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{
    Cmd, ConditionalEventHandler, Config, Context, Editor, Event, EventContext, EventHandler,
    ExternalPrinter, Helper, KeyCode, KeyEvent, Modifiers, RepeatCount,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub(crate) use self::gate::Gate;
use crate::fault::{Fault, Result};
use crate::files;
use crate::output::style::TOOL;

/// The prompt.
const PROMPT: &str = "› ";

/// Maximum number of messages in the history.
const HISTORY_SIZE: usize = 1000;

/// First line of a history file, as rustyline writes it.
const HISTORY_HEAD: &[u8] = b"#V2\n";

/// Input from the prompt.
#[derive(Debug)]
pub(crate) enum PromptInput {
    /// A message or a command.
    Line(String),
    /// A message with invalid UTF-8, which was replaced.
    Lossy(String),
    /// Ctrl-C, with the draft at the prompt.
    Interrupt(String),
    /// Ctrl-D, or the end of the input.
    End,
    /// Reading failed.
    ReadFailed(String),
}

/// Handle to the reading thread.
pub(crate) struct LineInput {
    ask: mpsc::Sender<String>,
    typed: UnboundedReceiver<PromptInput>,
    is_up: bool,
}

impl LineInput {
    /// Starts a line editor on the terminal, which completes these commands.
    pub(crate) fn editor(
        history: Option<PathBuf>,
        gate: Gate,
        commands: Vec<&'static str>,
    ) -> Result<Self> {
        let config = Config::builder()
            .max_history_size(HISTORY_SIZE)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(Fault::internal)?
            .history_ignore_space(true)
            .build();
        let mut editor =
            Editor::<PromptHelper, FileHistory>::with_config(config).map_err(Fault::internal)?;
        editor.set_helper(Some(PromptHelper { commands }));
        editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
        let draft = Draft::default();
        editor.bind_sequence(
            KeyEvent::ctrl('C'),
            EventHandler::Conditional(Box::new(draft.clone())),
        );
        let history =
            history.filter(|file| prepare(file).is_ok() && editor.load_history(file).is_ok());
        if let Ok(mut printer) = editor.create_external_printer() {
            // A separate thread: the printer blocks if the user ends the line at the same time, and
            // the output must not wait for the next prompt.
            let (to, above) = mpsc::channel::<String>();
            std::thread::Builder::new()
                .name("above-prompt".into())
                .spawn(move || above.iter().for_each(|lines| drop(printer.print(lines))))
                .map_err(Fault::internal)?;
            gate.set_printer(Box::new(move |lines| drop(to.send(lines))));
        }
        Self::start(move |initial| {
            gate.set(true);
            let styled = format!("{TOOL}{PROMPT}{TOOL:#}");
            let read = editor.readline_with_initial(&(PROMPT, styled), (&initial, ""));
            gate.set(false);
            if let Ok(line) = &read {
                let _ = editor.add_history_entry(line); // the message is sent even if this fails
                if let Some(file) = &history {
                    let _ = editor.append_history(file);
                }
            }
            typed(read, draft.take())
        })
    }

    /// Starts reading lines from a file or a pipe.
    pub(crate) fn lines() -> Result<Self> {
        let input = std::io::stdin();
        Self::start(move |_| {
            let mut message = Vec::new();
            loop {
                match input.lock().read_until(b'\n', &mut message) {
                    Err(error) => return PromptInput::ReadFailed(error.to_string()),
                    Ok(0) if message.is_empty() => return PromptInput::End,
                    Ok(1..) if message.ends_with(b"\\\n") => {}
                    Ok(_) => return decoded(message),
                }
            }
        })
    }

    fn start(mut read: impl FnMut(String) -> PromptInput + Send + 'static) -> Result<Self> {
        let (ask, requests) = mpsc::channel::<String>();
        let (sender, typed): (UnboundedSender<PromptInput>, _) = unbounded_channel();
        let work = move || {
            while let Ok(initial) = requests.recv() {
                if sender.send(read(initial)).is_err() {
                    return;
                }
            }
        };
        // The thread is never joined: a blocked read must not keep the program from exiting.
        std::thread::Builder::new()
            .name("keyboard".into())
            .spawn(work)
            .map_err(Fault::internal)?;
        Ok(Self {
            ask,
            typed,
            is_up: false,
        })
    }

    /// Returns true while a line is being read.
    pub(crate) fn is_up(&self) -> bool {
        self.is_up
    }

    /// Requests the next line, with this initial text.
    pub(crate) fn ask(&mut self, initial: String) {
        self.is_up = self.ask.send(initial).is_ok();
    }

    /// Waits for the requested line; pending forever if none was requested. Cancel safe.
    pub(crate) async fn next(&mut self) -> PromptInput {
        if !self.is_up {
            return std::future::pending().await;
        }
        let typed = self.typed.recv().await;
        self.is_up = false;
        typed.unwrap_or_else(|| PromptInput::ReadFailed("the input thread panicked".into()))
    }
}

/// Resets the terminal after abandoning the line editor, which had enabled bracketed paste.
pub(crate) fn abandon() {
    let mut out = std::io::stdout();
    let _ = out.write_all(b"\x1b[?2004l\r\n").and_then(|()| out.flush());
}

fn typed(read: Result<String, ReadlineError>, draft: String) -> PromptInput {
    match read {
        Ok(line) => PromptInput::Line(joined(&line)),
        Err(ReadlineError::Interrupted) => PromptInput::Interrupt(draft),
        Err(ReadlineError::Eof) => PromptInput::End,
        // The window was resized: the prompt is shown again.
        Err(ReadlineError::Signal(_)) => PromptInput::Line(String::new()),
        Err(error) => PromptInput::ReadFailed(error.to_string()),
    }
}

fn decoded(message: Vec<u8>) -> PromptInput {
    match String::from_utf8(message) {
        Ok(message) => PromptInput::Line(joined(&message)),
        Err(error) => PromptInput::Lossy(joined(&String::from_utf8_lossy(error.as_bytes()))),
    }
}

/// Joins continuation lines into one message.
fn joined(text: &str) -> String {
    text.replace("\\\n", "\n")
}

/// Creates the history file, readable only by its owner.
fn prepare(file: &Path) -> std::io::Result<()> {
    if let Some(dir) = file.parent() {
        files::create_private_dir(dir)?;
    }
    let mut open = std::fs::OpenOptions::new();
    open.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut open, 0o600);
    match open.open(file) {
        Ok(mut file) => file.write_all(HISTORY_HEAD),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// The draft at the time of a Ctrl-C, which the line editor itself discards.
#[derive(Clone, Default)]
struct Draft(Arc<Mutex<String>>);

impl Draft {
    fn take(&self) -> String {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ConditionalEventHandler for Draft {
    fn handle(
        &self,
        _: &Event,
        _: RepeatCount,
        _: bool,
        context: &EventContext<'_>,
    ) -> Option<Cmd> {
        context
            .line()
            .clone_into(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
        Some(Cmd::Interrupt)
    }
}

/// Line editor helper: continuation lines and completion of commands.
struct PromptHelper {
    commands: Vec<&'static str>,
}

impl Helper for PromptHelper {}

impl Hinter for PromptHelper {
    type Hint = String;
}

impl Highlighter for PromptHelper {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(
        &'s self,
        prompt: &'p str,
        _default: bool,
    ) -> Cow<'b, str> {
        Cow::Borrowed(prompt)
    }
}

impl Validator for PromptHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if context.input().ends_with('\\') {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}

impl Completer for PromptHelper {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let begun = line.get(..pos).unwrap_or_default();
        let fits = |name: &&str| begun.starts_with('/') && name.starts_with(begun);
        let commands = self.commands.iter().copied().filter(fits);
        Ok((0, commands.map(str::to_owned).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continuation_lines_are_joined() {
        assert_eq!(joined("one\\\ntwo"), "one\ntwo");
        assert_eq!(joined("C:\\dir"), "C:\\dir");
    }
}
