//! Messages to a session of the daemon: a line editor that is shown while the agent is idle.

use ostler::event::RequestKind;
use ostler::{Event, EventKind};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::daemon::DaemonSession;
use crate::fault::{Fault, Result};
use crate::line_editor::{Gate, LineInput, PromptInput};
use crate::output::Sink;
use crate::screen::Screen;
use crate::waiting::or_pending;

/// Line editor for messages to a session.
pub(crate) struct Composer {
    session: DaemonSession,
    input: LineInput,
    gate: Gate,
    /// The message whose turn has not started.
    sent: Option<String>,
    sending: JoinSet<Result<()>>,
    /// Resolves when the screen is ready for the prompt.
    showing: Option<oneshot::Receiver<()>>,
    /// Whether a question was announced since the prompt appeared.
    has_announced: bool,
}

/// What happened at the prompt.
pub(crate) enum Composed {
    /// The screen is ready for the prompt.
    Ready,
    /// The user typed a message.
    Message(String),
    /// The user typed a command.
    Command(AttachCommand),
    /// The message could not be sent.
    NotSent(Fault),
    /// The user typed nothing, or the message was sent.
    Nothing,
    /// Ctrl-C or Ctrl-D.
    Leave,
}

/// A command at the prompt. It begins with a slash, as in a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AttachCommand {
    /// Lists the commands.
    Help,
    /// Leaves the session, which continues.
    Detach,
    /// Interrupts the current turn.
    Interrupt,
    /// Stops the session.
    Stop,
    /// Anything else that begins with a slash.
    Unknown(String),
}

impl AttachCommand {
    /// The commands, for people.
    pub(crate) const HELP: &'static str =
        "/quit detaches, /interrupt ends the turn, /stop ends the session; //text sends /text";
}

/// Parses a typed line. Two slashes begin a message with one.
fn parse(line: String) -> Composed {
    let trimmed = line.trim();
    if let Some(message) = trimmed.strip_prefix("//") {
        return Composed::Message(format!("/{message}"));
    }
    Composed::Command(match trimmed {
        "" => return Composed::Nothing,
        "/help" => AttachCommand::Help,
        "/quit" | "/exit" | "/detach" => AttachCommand::Detach,
        "/interrupt" => AttachCommand::Interrupt,
        "/stop" => AttachCommand::Stop,
        command if command.starts_with('/') => {
            let name = command.split_whitespace().next().unwrap_or_default();
            AttachCommand::Unknown(name.to_owned())
        }
        _ => return Composed::Message(line),
    })
}

impl Composer {
    /// Starts the line editor.
    pub(crate) fn open(session: DaemonSession) -> Result<Self> {
        let gate = Gate::default();
        Ok(Self {
            session,
            input: LineInput::editor(None, gate.clone(), Vec::new())?,
            gate,
            sent: None,
            sending: JoinSet::new(),
            showing: None,
            has_announced: false,
        })
    }

    /// Wraps a writer so that output goes above the prompt while it is shown.
    pub(crate) fn writer(&self, inner: Sink) -> Sink {
        self.gate.writer(inner)
    }

    /// Returns true while the prompt is shown.
    pub(crate) fn is_up(&self) -> bool {
        self.input.is_up()
    }

    /// Shows the prompt once everything else is on the screen.
    pub(crate) fn show(&mut self, screen: &mut Screen) {
        let is_busy = self.sent.is_some() || self.showing.is_some();
        if !is_busy && screen.end().is_none() {
            self.showing = Some(screen.shown());
        }
    }

    /// Reads a message that begins with this text.
    pub(crate) fn read(&mut self, initial: &str) {
        (self.showing, self.has_announced) = (None, false);
        self.input.ask(initial.to_owned());
    }

    /// Announces a question, which appears when the prompt is gone.
    pub(crate) fn announce_question(&mut self, screen: &mut Screen) {
        if !std::mem::replace(&mut self.has_announced, true) {
            screen.remark("the agent waits for your approval: press Enter to see its request");
        }
    }

    /// Waits for the prompt. Cancel safe.
    pub(crate) async fn next(&mut self) -> Composed {
        tokio::select! {
            // An error means that the writer stopped; its result says why.
            _ = or_pending(self.showing.as_mut()) => Composed::Ready,
            typed = self.input.next() => match typed {
                PromptInput::Line(line) | PromptInput::Lossy(line) => parse(line),
                PromptInput::Interrupt(_) | PromptInput::End | PromptInput::ReadFailed(_) => {
                    Composed::Leave
                }
            },
            Some(sent) = self.sending.join_next() => match sent {
                Ok(Err(fault)) => {
                    self.sent = None;
                    Composed::NotSent(fault)
                }
                _ => Composed::Nothing,
            },
        }
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: String) {
        self.sent = Some(message.clone());
        self.sending.spawn(self.session.clone().send(message));
    }

    /// Updates the state after an event. The prompt of the turn is removed if it is on the screen
    /// already.
    pub(crate) fn on_event(&mut self, event: &mut Event) {
        match &mut event.kind {
            EventKind::TurnStarted(turn) => {
                if let Some(sent) = self.sent.take()
                    && turn.prompt.as_ref() == Some(&sent)
                {
                    turn.prompt = None;
                }
            }
            EventKind::Refused(refused) if refused.request == RequestKind::Send => {
                self.sent = None;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_begin_with_a_slash() {
        let command = |line: &str| match parse(line.to_owned()) {
            Composed::Command(command) => Some(command),
            _ => None,
        };
        for (line, expected) in [
            ("/help", Some(AttachCommand::Help)),
            (" /quit ", Some(AttachCommand::Detach)),
            ("/exit", Some(AttachCommand::Detach)),
            ("/interrupt", Some(AttachCommand::Interrupt)),
            ("/stop", Some(AttachCommand::Stop)),
            ("/model x", Some(AttachCommand::Unknown("/model".into()))),
            ("hello", None),
            ("", None),
        ] {
            assert_eq!(command(line), expected, "{line}");
        }
        assert!(matches!(parse("//x".into()), Composed::Message(text) if text == "/x"));
    }
}
