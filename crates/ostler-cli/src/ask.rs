//! Asking the person at the keyboard, whether a tool may run or what a model wants to know: one question after the other, each
//! answered once.
//!
//! An answer belongs to the question that was on the screen when it was typed. What was typed before a question, or for
//! one that is gone, answers nothing.

mod person;
mod question;
mod terminal;

use std::collections::VecDeque;
use std::io::IsTerminal;

use ostler::clip::plain;
use ostler::event::{Decision, Permission};
use ostler::hooks::ASK_PERSON;
use ostler::{Answer, Attendance, Event, EventKind, Remote};

use self::person::Query;
pub(crate) use self::person::{Line, line};
pub(crate) use self::terminal::Terminal;
use self::terminal::{Typed, line as typed_line};
use crate::args::Format;
use crate::output::style::{DIM, WARN};
use crate::output::{Question, name, word};
use crate::screen::Screen;

/// Whether somebody can be asked: they read stderr and type on stdin.
pub(crate) fn who() -> Attendance {
    let is_there = cfg!(unix) && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if is_there {
        Attendance::Attended
    } else {
        Attendance::Unattended
    }
}

/// The same for a form of output. Somebody is asked who can read the question and answer it; a script is not.
pub(crate) fn who_at(format: Format) -> Attendance {
    if format == Format::Human {
        who()
    } else {
        Attendance::Unattended
    }
}

/// What a model is told when a person denies without a reason.
const NO: &str = "The user does not want this to be done.";

/// What happens between the loop and the keyboard.
pub(crate) enum Heard {
    /// A line was typed.
    Typed(Typed),
    /// The model asks.
    Query(Query),
}

/// The questions of a session.
pub(crate) struct Asking {
    remote: Remote,
    terminal: Option<Terminal>,
    /// Where questions of the model's own come from.
    line: Option<Line>,
    /// How many more of the model's calls to ask were heard of than were asked: what it said before one is to be read first.
    announced: usize,
    waiting: VecDeque<Asked>,
    /// The question on the screen.
    open: Option<Asked>,
    /// What was typed before a question came: it is for the prompt.
    ahead: String,
}

/// A question.
enum Asked {
    /// Whether a tool may run.
    Tool(Box<Permission>),
    /// Something that the model wants to know.
    Model(Query),
}

impl Asked {
    fn is_about(&self, id: &str) -> bool {
        matches!(self, Self::Tool(permission) if permission.id == id)
    }

    fn shown(&self, more: usize) -> Question {
        match self {
            Self::Tool(permission) => question::about(permission, more),
            Self::Model(query) => query.shown(),
        }
    }
}

impl Asking {
    /// Without anybody to ask, it asks nothing.
    pub(crate) fn new(remote: Remote, attendance: Attendance) -> Self {
        let terminal = if attendance == Attendance::Attended {
            Terminal::open()
        } else {
            None
        };
        Self {
            remote,
            terminal,
            line: None,
            announced: 0,
            waiting: VecDeque::new(),
            open: None,
            ahead: String::new(),
        }
    }

    /// Asks what comes along this line too.
    pub(crate) fn also_for(self, line: Line) -> Self {
        Self {
            line: Some(line),
            ..self
        }
    }

    /// The questions of another session, on the same terminal.
    pub(crate) fn renew(&mut self, remote: Remote) {
        self.remote = remote;
        self.waiting.clear();
    }

    /// The terminal, for whoever reads from it between the questions.
    pub(crate) fn terminal(&self) -> Option<&Terminal> {
        self.terminal.as_ref()
    }

    /// What was typed before a question came. It is not sent by itself: it stood there without having been seen.
    pub(crate) fn ahead(&mut self) -> String {
        edited(&std::mem::take(&mut self.ahead))
            .trim_end_matches('\n')
            .to_owned()
    }

    /// Takes the keys that nobody has read yet, so that they stand at the next prompt. Returns true if there were any.
    pub(crate) fn keep_typed(&mut self) -> bool {
        let typed = match (&self.terminal, &self.open) {
            (Some(terminal), None) => terminal.drain(),
            _ => return false,
        };
        self.ahead.push_str(&typed);
        !typed.is_empty()
    }

    /// Notes what an event means for the questions.
    pub(crate) fn note(&mut self, event: &Event, screen: &mut Screen) {
        if self.terminal.is_none() {
            return;
        }
        let permission = match &event.kind {
            EventKind::ToolCall(call) if call.name == ASK_PERSON => {
                self.announced += 1;
                return;
            }
            EventKind::Permission(permission) => permission,
            // Nobody waits for an answer any more, whatever became of the question.
            EventKind::TurnEnded(_) | EventKind::Ended(_) => return self.turn_ended(screen),
            _ => return,
        };
        if permission.decision == Decision::Asked {
            return self
                .waiting
                .push_back(Asked::Tool(Box::new(permission.clone())));
        }
        self.waiting
            .retain(|waiting| !waiting.is_about(&permission.id));
        if self
            .open
            .as_ref()
            .is_some_and(|open| open.is_about(&permission.id))
        {
            self.close(screen, false);
            let how = if permission.decision == Decision::Allowed {
                "allowed"
            } else {
                "not allowed"
            };
            let why = permission
                .message
                .as_deref()
                .map_or_else(String::new, |why| format!(": {}", word(why, 200)));
            screen.line(format!(
                "{DIM}· {} is settled, {how}{why}{DIM:#}",
                name(&permission.tool)
            ));
        }
    }

    fn turn_ended(&mut self, screen: &mut Screen) {
        self.waiting.clear();
        self.announced = 0;
        if let Some(open) = &self.open {
            let kind = match open {
                Asked::Tool(permission) => name(&permission.tool),
                Asked::Model(_) => "it".to_owned(),
            };
            self.close(screen, false);
            screen.line(format!(
                "{DIM}· {kind} is not asked any more: the turn is over{DIM:#}"
            ));
        }
    }

    /// Puts the next question on the screen, when there is one and none stands there.
    pub(crate) fn ask_if_due(&mut self, screen: &mut Screen) {
        if self.open.is_some() || !screen.is_clear() {
            return;
        }
        let announced = self.announced;
        let is_due = |asked: &mut Asked| matches!(asked, Asked::Tool(_)) || announced > 0;
        let Some(asked) = self.waiting.pop_front_if(is_due) else {
            return;
        };
        let Some(terminal) = &self.terminal else {
            return;
        };
        if let Asked::Model(_) = asked {
            self.announced -= 1;
        }
        self.ahead.push_str(&terminal.drain());
        terminal.loud();
        screen.ask(asked.shown(self.waiting.len()));
        self.open = Some(asked);
    }

    /// Waits for what happens next: a question comes, or a line is typed as an answer to the one that is open. It can be dropped
    /// without losing anything.
    pub(crate) async fn next(&mut self) -> Heard {
        let typed = async {
            match &self.open {
                Some(_) => typed_line().await,
                None => std::future::pending().await,
            }
        };
        let query = async {
            let query = match &mut self.line {
                Some(line) => line.recv().await,
                None => None,
            };
            match query {
                Some(query) => query,
                None => std::future::pending().await, // nobody is left who could ask
            }
        };
        tokio::select! {
            typed = typed => Heard::Typed(typed),
            query = query => Heard::Query(query),
        }
    }

    /// Takes what was heard.
    pub(crate) fn hear(&mut self, heard: Heard, screen: &mut Screen) {
        match heard {
            Heard::Typed(typed) => self.take(&typed, screen),
            // Without a terminal it is dropped, and stays without an answer.
            Heard::Query(query) if self.terminal.is_some() => {
                self.waiting.push_back(Asked::Model(query))
            }
            Heard::Query(_) => {}
        }
    }

    /// Takes a line that was typed.
    fn take(&mut self, typed: &Typed, screen: &mut Screen) {
        let is_line = matches!(typed, Typed::Line(_));
        let permission = match (self.open.take(), typed) {
            (Some(Asked::Tool(permission)), _) => permission,
            (Some(Asked::Model(query)), Typed::Line(line))
                if line.trim().is_empty() && !query.is_gone() =>
            {
                screen.ask_again(query.shown());
                self.open = Some(Asked::Model(query));
                return;
            }
            (Some(Asked::Model(query)), typed) => {
                if let Typed::Line(line) = typed {
                    query.answer(line.trim().to_owned());
                }
                return self.close(screen, is_line);
            }
            (None, _) => return,
        };
        let answer = match typed {
            Typed::Line(line) => read(line),
            // Nobody types any more: nobody allows anything.
            Typed::End => Some(Answer::Deny(NO.to_owned())),
        };
        let Some(answer) = answer else {
            let again = format!("{WARN}!{WARN:#} y, n or a; n may be followed by a reason");
            self.open = Some(Asked::Tool(permission));
            return screen.ask_again(Question {
                lines: vec![again],
                prompt: question::PROMPT.to_owned(),
            });
        };
        self.answer(&permission.id, answer);
        self.close(screen, is_line);
    }

    /// Shows the open question again: the program was stopped, and a shell has used the terminal meanwhile.
    pub(crate) fn show_again(&self, screen: &mut Screen) {
        if let (Some(asked), Some(terminal)) = (&self.open, &self.terminal) {
            terminal.loud();
            screen.ask_again(asked.shown(self.waiting.len()));
        }
    }

    /// Takes the question off the screen: the turn is being ended. Further ones are not asked any more.
    pub(crate) fn drop_question(&mut self, screen: &mut Screen) {
        self.waiting.clear();
        if self.open.is_some() {
            self.close(screen, false);
        }
    }

    fn answer(&self, id: &str, answer: Answer) {
        let (remote, id) = (self.remote.clone(), id.to_owned());
        // Whether it came in time is an event like any other.
        tokio::spawn(async move { drop(remote.answer(&id, answer).await) });
    }

    fn close(&mut self, screen: &mut Screen, answered: bool) {
        self.open = None;
        if let Some(terminal) = &self.terminal {
            if !answered {
                terminal.drain(); // half an answer to this question is no answer to the next
            }
            terminal.settle();
        }
        screen.release(answered);
    }
}

/// Keys that were typed without an editor as the text they amount to.
fn edited(keys: &str) -> String {
    let mut text = String::new();
    for c in keys.chars() {
        match c {
            '\u{8}' | '\u{7f}' => _ = text.pop(),
            c => text.push(c),
        }
    }
    plain(&text)
}

/// What a line means, if it is an answer.
fn read(line: &str) -> Option<Answer> {
    let line = line.trim();
    let (first, rest) = line
        .split_once(|c: char| c.is_whitespace() || c == ',' || c == ':')
        .unwrap_or((line, ""));
    let rest = rest.trim();
    match (&*first.to_lowercase(), rest) {
        ("y" | "yes", "") => Some(Answer::Allow),
        ("a" | "always", "") => Some(Answer::AllowAlways),
        ("n" | "no", "") => Some(Answer::Deny(NO.to_owned())),
        ("n" | "no", why) => Some(Answer::Deny(why.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_amount_to_text() {
        for (keys, text) in [
            ("tehx\u{7f}\u{7f}\u{7f}he\n", "the\n"),
            ("\u{8}a\u{1b}[A\u{4}b", "ab"),
        ] {
            assert_eq!(edited(keys), text);
        }
    }

    #[test]
    fn only_an_answer_is_taken_for_one() {
        assert_eq!(read(" Y "), Some(Answer::Allow));
        assert_eq!(read("always"), Some(Answer::AllowAlways));
        assert_eq!(read("n"), Some(Answer::Deny(NO.into())));
        assert_eq!(
            read("no, use the other file"),
            Some(Answer::Deny("use the other file".into()))
        );
        for other in ["", "yes please", "yep", "nothing", "and", "1", "/quit"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
