//! Questions to the user on the terminal: permission prompts and questions of the model, one at a
//! time, each answered once.
//!
//! An answer belongs to the question that was on the screen while it was typed. Anything typed
//! before a question appeared, or after it was withdrawn, is not an answer.

mod person;
mod question;
mod terminal;

use std::collections::VecDeque;
use std::io::IsTerminal;

use ostler::event::{Decision, Permission};
use ostler::hooks::ASK_PERSON;
use ostler::permission::PermissionAnswer;
use ostler::render::clip::sanitize;
use ostler::spec::Attendance;
use ostler::{Event, EventKind};

use self::person::ModelQuestion;
pub(crate) use self::person::{QuestionReceiver, question_channel};
pub(crate) use self::terminal::Terminal;
use self::terminal::{TypedLine, line as typed_line};
use crate::args::Format;
use crate::control::Control;
use crate::output::style::{DIM, WARN};
use crate::output::{QuestionText, name, one_line};
use crate::screen::Screen;
use crate::waiting::or_pending;

/// Returns whether a user can answer questions: stdin and stderr are both terminals.
pub(crate) fn attendance() -> Attendance {
    if cfg!(unix) && std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        Attendance::Attended
    } else {
        Attendance::Unattended
    }
}

/// Returns the attendance for an output format. Only the human format asks questions; the others
/// are for scripts.
pub(crate) fn attendance_for(format: Format) -> Attendance {
    if format == Format::Human {
        attendance()
    } else {
        Attendance::Unattended
    }
}

/// Denial message for the model when the user gives no reason.
const DENIED_BY_USER: &str = "The user does not want this to be done.";

/// Input that the prompter waits for.
pub(crate) enum PrompterEvent {
    /// The user typed a line.
    Typed(TypedLine),
    /// The model asks a question.
    Question(ModelQuestion),
}

impl PrompterEvent {
    /// Returns true at the end of the input, such as Ctrl-D.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self, Self::Typed(TypedLine::End))
    }
}

/// Asks the user the questions of a session.
pub(crate) struct Prompter {
    control: Control,
    terminal: Option<Terminal>,
    /// Receives the model's questions.
    line: Option<QuestionReceiver>,
    /// Number of ask calls seen in events whose question has not been shown yet. The text before a
    /// call is shown before its question.
    announced: usize,
    waiting: VecDeque<PendingQuestion>,
    /// The question on the screen.
    open: Option<PendingQuestion>,
    /// Text typed before a question appeared, saved for the prompt.
    typeahead: String,
}

/// A question that waits to be asked or answered.
enum PendingQuestion {
    /// A permission request for a tool call.
    Tool(Box<Permission>),
    /// A question of the model.
    Model(ModelQuestion),
}

impl PendingQuestion {
    fn is_about(&self, id: &str) -> bool {
        matches!(self, Self::Tool(permission) if permission.id == id)
    }

    fn shown(&self, more: usize) -> QuestionText {
        match self {
            Self::Tool(permission) => question::about(permission, more),
            Self::Model(query) => query.shown(),
        }
    }
}

impl Prompter {
    /// Creates a prompter. An unattended one asks nothing.
    pub(crate) fn new(control: impl Into<Control>, attendance: Attendance) -> Self {
        let is_attended = attendance == Attendance::Attended;
        Self {
            control: control.into(),
            terminal: is_attended.then(Terminal::open).flatten(),
            line: None,
            announced: 0,
            waiting: VecDeque::new(),
            open: None,
            typeahead: String::new(),
        }
    }

    /// Also asks the questions from this channel.
    pub(crate) fn with_model_questions(self, line: QuestionReceiver) -> Self {
        Self {
            line: Some(line),
            ..self
        }
    }

    /// Switches to another session on the same terminal.
    pub(crate) fn rebind(&mut self, control: impl Into<Control>) {
        self.control = control.into();
        self.waiting.clear();
    }

    /// Returns true if a user can answer.
    pub(crate) fn is_attended(&self) -> bool {
        self.terminal.is_some()
    }

    /// Returns the terminal, for reading between questions.
    pub(crate) fn terminal(&self) -> Option<&Terminal> {
        self.terminal.as_ref()
    }

    /// Takes the text typed before a question appeared. It goes back to the prompt instead of being
    /// sent, because the user never saw it echoed.
    pub(crate) fn typeahead(&mut self) -> String {
        edited(&std::mem::take(&mut self.typeahead))
            .trim_end_matches('\n')
            .to_owned()
    }

    /// Saves unread keys for the next prompt. Returns true if there were any.
    pub(crate) fn save_typeahead(&mut self) -> bool {
        let typed = match (&self.terminal, &self.open) {
            (Some(terminal), None) => terminal.drain(),
            _ => return false,
        };
        self.typeahead.push_str(&typed);
        !typed.is_empty()
    }

    /// Updates the pending questions after an event.
    pub(crate) fn on_event(&mut self, event: &Event, screen: &mut Screen) {
        if self.terminal.is_none() {
            return;
        }
        let permission = match &event.kind {
            EventKind::ToolCall(call) if call.name == ASK_PERSON => {
                self.announced += 1;
                return;
            }
            EventKind::Permission(permission) => permission,
            // The agent no longer waits for an answer.
            EventKind::TurnEnded(_) | EventKind::Ended(_) => return self.turn_ended(screen),
            _ => return,
        };
        if permission.decision == Decision::Asked {
            return self
                .waiting
                .push_back(PendingQuestion::Tool(Box::new(permission.clone())));
        }
        let is_it = |asked: &PendingQuestion| asked.is_about(&permission.id);
        self.waiting.retain(|waiting| !is_it(waiting));
        if self.open.as_ref().is_some_and(is_it) {
            self.close(screen, false);
            let how = if permission.decision == Decision::Allowed {
                "allowed"
            } else {
                "not allowed"
            };
            let why = permission
                .message
                .as_deref()
                .map_or_else(String::new, |why| format!(": {}", one_line(why, 200)));
            screen.line(format!(
                "{DIM}· {} was {how}{why}{DIM:#}",
                name(&permission.tool)
            ));
        }
    }

    fn turn_ended(&mut self, screen: &mut Screen) {
        self.waiting.clear();
        self.announced = 0;
        if let Some(open) = &self.open {
            let subject = match open {
                PendingQuestion::Tool(permission) => name(&permission.tool),
                PendingQuestion::Model(_) => "the task".to_owned(),
            };
            self.close(screen, false);
            screen.line(format!(
                "{DIM}· question about {subject} withdrawn: the turn ended{DIM:#}"
            ));
        }
    }

    /// Returns true if a question waits to be shown.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Shows the next question if none is open and the screen is clear.
    pub(crate) fn ask_if_due(&mut self, screen: &mut Screen) {
        if self.open.is_some() || !screen.is_clear() {
            return;
        }
        let announced = self.announced;
        let is_due = |asked: &mut PendingQuestion| {
            matches!(asked, PendingQuestion::Tool(_)) || announced > 0
        };
        let Some(asked) = self.waiting.pop_front_if(is_due) else {
            return;
        };
        let Some(terminal) = &self.terminal else {
            return;
        };
        if let PendingQuestion::Model(_) = asked {
            self.announced -= 1;
        }
        self.typeahead.push_str(&terminal.drain());
        terminal.show_input();
        screen.ask(asked.shown(self.waiting.len()));
        self.open = Some(asked);
    }

    /// Waits for a question of the model or a typed line. Cancel safe.
    pub(crate) async fn next(&mut self) -> PrompterEvent {
        let typed = self.open.as_ref().map(|_| typed_line());
        let query = self.line.as_mut().map(QuestionReceiver::recv);
        tokio::select! {
            typed = or_pending(typed) => PrompterEvent::Typed(typed),
            // Without a question, the sender is gone.
            Some(query) = or_pending(query) => PrompterEvent::Question(query),
        }
    }

    /// Handles an input event.
    pub(crate) fn handle(&mut self, heard: PrompterEvent, screen: &mut Screen) {
        match heard {
            PrompterEvent::Typed(typed) => self.take(&typed, screen),
            // Without a terminal the question is dropped unanswered.
            PrompterEvent::Question(query) if self.terminal.is_some() => {
                self.waiting.push_back(PendingQuestion::Model(query));
            }
            PrompterEvent::Question(_) => {}
        }
    }

    /// Handles a typed line.
    fn take(&mut self, typed: &TypedLine, screen: &mut Screen) {
        let is_line = matches!(typed, TypedLine::Line(_));
        let permission = match (self.open.take(), typed) {
            (Some(PendingQuestion::Tool(permission)), _) => permission,
            (Some(PendingQuestion::Model(query)), TypedLine::Line(line))
                if line.trim().is_empty() && !query.is_cancelled() =>
            {
                screen.ask_again(query.shown());
                self.open = Some(PendingQuestion::Model(query));
                return;
            }
            (Some(PendingQuestion::Model(query)), typed) => {
                if let TypedLine::Line(line) = typed {
                    query.answer(line.trim().to_owned());
                }
                return self.close(screen, is_line);
            }
            (None, _) => return,
        };
        let answer = match typed {
            TypedLine::Line(line) => parse_answer(line),
            // The input is closed, so the request is denied.
            TypedLine::End => Some(PermissionAnswer::Deny(DENIED_BY_USER.to_owned())),
        };
        let Some(answer) = answer else {
            let again = format!("{WARN}!{WARN:#} answer y, n or a; a reason may follow n");
            self.open = Some(PendingQuestion::Tool(permission));
            return screen.ask_again(QuestionText {
                lines: vec![again],
                prompt: question::PROMPT,
            });
        };
        self.control.answer(&permission.id, answer);
        self.close(screen, is_line);
    }

    /// Shows the open question again after the program was suspended and the shell used the
    /// terminal.
    pub(crate) fn show_again(&self, screen: &mut Screen) {
        if let (Some(asked), Some(terminal)) = (&self.open, &self.terminal) {
            terminal.show_input();
            screen.ask_again(asked.shown(self.waiting.len()));
        }
    }

    /// Withdraws the open question and drops the pending ones, because the turn is ending.
    pub(crate) fn drop_question(&mut self, screen: &mut Screen) {
        self.waiting.clear();
        if self.open.is_some() {
            self.close(screen, false);
        }
    }

    fn close(&mut self, screen: &mut Screen, answered: bool) {
        self.open = None;
        if let Some(terminal) = &self.terminal {
            if !answered {
                terminal.drain(); // half an answer must not answer the next question
            }
            terminal.restore_mode();
        }
        screen.release(answered);
    }
}

/// Applies backspaces to keys that were typed without a line editor.
fn edited(keys: &str) -> String {
    let mut text = String::new();
    for c in keys.chars() {
        match c {
            '\u{8}' | '\u{7f}' => _ = text.pop(),
            c => text.push(c),
        }
    }
    sanitize(&text)
}

/// Parses an answer; `None` if the line is not one.
fn parse_answer(line: &str) -> Option<PermissionAnswer> {
    let line = line.trim();
    let (first, rest) = line
        .split_once(|c: char| c.is_whitespace() || c == ',' || c == ':')
        .unwrap_or((line, ""));
    let rest = rest.trim();
    match (&*first.to_lowercase(), rest) {
        ("y" | "yes", "") => Some(PermissionAnswer::Allow),
        ("a" | "always", "") => Some(PermissionAnswer::AllowAlways),
        ("n" | "no", "") => Some(PermissionAnswer::Deny(DENIED_BY_USER.to_owned())),
        ("n" | "no", why) => Some(PermissionAnswer::Deny(why.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backspaces_edit_typed_keys() {
        for (keys, text) in [
            ("tehx\u{7f}\u{7f}\u{7f}he\n", "the\n"),
            ("\u{8}a\u{1b}[A\u{4}b", "ab"),
        ] {
            assert_eq!(edited(keys), text);
        }
    }

    #[test]
    fn only_clear_answers_are_accepted() {
        assert_eq!(parse_answer(" Y "), Some(PermissionAnswer::Allow));
        assert_eq!(parse_answer("always"), Some(PermissionAnswer::AllowAlways));
        assert_eq!(
            parse_answer("n"),
            Some(PermissionAnswer::Deny(DENIED_BY_USER.into()))
        );
        assert_eq!(
            parse_answer("no, use the other file"),
            Some(PermissionAnswer::Deny("use the other file".into()))
        );
        for other in ["", "yes please", "yep", "nothing", "and", "1", "/quit"] {
            assert_eq!(parse_answer(other), None, "{other}");
        }
    }
}
