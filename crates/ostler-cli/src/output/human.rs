//! The form for people: the answer streams to stdout, everything else (tools, thoughts, notices, the end) to stderr.
//!
//! Whatever an agent, a tool or a model chose goes through [`plain`], or through [`word`] or [`name`] within a line.

mod ending;

use std::io::{self, Write};
use std::time::Duration;

use ostler::clip::{Sanitizer, plain};
use ostler::event::{At, Decision, Level, Notice, SessionState, Started, TextKind, ToolResult};
use ostler::{Cause, Event, EventKind, Outcome, Scope, Usage, brief};

use super::loop_progress::{LoopNotice, LoopProgress};
use super::markdown::Markdown;
use super::notify::Notify;
use super::status::Status;
use super::style::{DIM, WARN};
use super::tools::{Detail, Tools};
use super::value::{name, word};
use super::wrap::wrap;
use super::{Output, QuestionText, columns};

/// The human form.
pub(super) struct Human {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    status: Status,
    /// Whether stdout and stderr are one screen, so that a line begun on one must be ended before the other writes.
    same_screen: bool,
    /// Renders the answer, where stdout is a terminal.
    reply: Option<Markdown>,
    /// Wraps thoughts, where stderr is one.
    thinking: Option<Markdown>,
    /// Sanitizes the answer and the thoughts, which come in pieces.
    sanitizers: [Sanitizer; 2],
    tools: Tools,
    detail: Detail,
    notify: Option<Notify>,
    /// What the line under way holds.
    line: OpenLine,
    /// Whether text came since the last tick.
    is_writing: bool,
    first: Option<At>,
    now: At,
    started: Option<Started>,
    wrote_answer: bool,
    /// The session's usage so far.
    usage: Option<Usage>,
    /// The outcome of the last turn, once it is over.
    outcome: Option<Outcome>,
    /// The cause in the end line, once that is written.
    shown: Option<Cause>,
    /// Whether the session is stored, and known by Ostler's id.
    is_stored: bool,
    /// Whether what the caller said is shown too.
    shows_prompts: bool,
    /// For a conversation: each turn gets its summary.
    turns: Option<Turns>,
    /// For a loop.
    loop_progress: Option<LoopProgress>,
}

/// What a conversation came to so far.
#[derive(Default)]
struct Turns {
    count: u32,
    since: Option<At>,
    /// How the last one ended: the session's end need not repeat it.
    last: Option<Outcome>,
}

/// The parts of the human form.
pub(super) struct Parts {
    pub(super) out: Box<dyn Write + Send>,
    pub(super) err: Box<dyn Write + Send>,
    pub(super) status: Status,
    pub(super) same_screen: bool,
    pub(super) reply: Option<Markdown>,
    pub(super) thinking: Option<Markdown>,
    pub(super) tools: Tools,
    pub(super) detail: Detail,
    pub(super) notify: Option<Notify>,
}

/// What the line under way holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenLine {
    Nothing,
    Reply,
    Thinking,
    /// A question, with the answer behind it.
    Question,
}

impl Human {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts {
            out,
            err,
            status,
            same_screen,
            reply,
            thinking,
            tools,
            detail,
            notify,
        } = parts;
        Self {
            out,
            err,
            status,
            same_screen,
            reply,
            thinking,
            sanitizers: Default::default(),
            tools,
            detail,
            notify,
            line: OpenLine::Nothing,
            is_writing: false,
            first: None,
            now: At(0),
            started: None,
            wrote_answer: false,
            usage: None,
            outcome: None,
            shown: None,
            is_stored: true,
            shows_prompts: false,
            turns: None,
            loop_progress: None,
        }
    }

    /// The same for a session that is not stored: only the agent knows it.
    pub(super) fn unstored(mut self) -> Self {
        self.is_stored = false;
        self
    }

    /// The same with what the caller said in every turn.
    pub(super) fn with_prompts(mut self) -> Self {
        self.shows_prompts = true;
        self
    }

    /// The same for a conversation of many turns.
    pub(super) fn for_chat(mut self) -> Self {
        self.turns = Some(Turns::default());
        self
    }

    /// The same for a loop.
    pub(super) fn for_loop(mut self, loop_progress: LoopProgress) -> Self {
        self.loop_progress = Some(loop_progress);
        self
    }

    fn text(&mut self, kind: TextKind, text: &str, whole: bool) -> io::Result<()> {
        if whole {
            self.sanitizers = Default::default(); // a sequence does not go on in the next message
        }
        let [reply, thinking] = &mut self.sanitizers;
        let (want, text) = match kind {
            TextKind::Reply => (OpenLine::Reply, reply.push(text)),
            TextKind::Thinking => (OpenLine::Thinking, thinking.push(text)),
        };
        if text.is_empty() && !whole {
            return Ok(());
        }
        if self.line != want {
            self.end_line()?;
        }
        self.status.hide();
        let renderer = if kind == TextKind::Reply {
            &mut self.reply
        } else {
            &mut self.thinking
        };
        let (shown, is_open) = match renderer {
            Some(renderer) => (renderer.push(&text, columns()), renderer.is_open()),
            None if kind == TextKind::Thinking => {
                (format!("{DIM}{text}{DIM:#}"), !text.ends_with('\n'))
            }
            None => (text.clone(), !text.ends_with('\n')),
        };
        match kind {
            TextKind::Reply => {
                write!(self.out, "{shown}")?;
                self.wrote_answer = true;
            }
            TextKind::Thinking => write!(self.err, "{shown}")?,
        }
        self.line = if is_open { want } else { OpenLine::Nothing };
        self.is_writing = true;
        if whole {
            self.end_line()?;
            self.reply.as_mut().map(Markdown::reset); // nor does a block
            self.sanitizers = Default::default();
        }
        Ok(())
    }

    /// Ends the line under way, so that the next thing begins on its own.
    fn end_line(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.line, OpenLine::Nothing) {
            OpenLine::Reply => {
                write!(self.out, "{}", rest_of(&mut self.reply))?;
                self.out.flush()?;
            }
            OpenLine::Thinking => write!(self.err, "{}", rest_of(&mut self.thinking))?,
            OpenLine::Question => writeln!(self.err)?,
            OpenLine::Nothing => {}
        }
        Ok(())
    }

    /// A sentence on stderr, between a lead of two columns and a style's end. On a terminal its words wrap.
    fn message(&mut self, (lead, end): (&str, &str), message: &str) -> io::Result<()> {
        let message = plain(message);
        let message = if self.thinking.is_some() {
            wrap(&message, 2, columns())
        } else {
            message
        };
        self.aside(&format!("{lead}{message}{end}"))
    }

    /// A line of its own on stderr.
    fn aside(&mut self, line: &str) -> io::Result<()> {
        if self.same_screen || matches!(self.line, OpenLine::Thinking | OpenLine::Question) {
            self.end_line()?;
        }
        self.status.hide();
        writeln!(self.err, "{line}")
    }

    fn tool_result(&mut self, result: &ToolResult) -> io::Result<()> {
        let lines = self.tools.ended(result, self.now);
        self.status.doing(if self.tools.is_idle() {
            "thinking"
        } else {
            "working"
        });
        lines.iter().try_for_each(|line| self.aside(line))
    }

    fn notice(&mut self, notice: &Notice) -> io::Result<()> {
        match self
            .loop_progress
            .as_mut()
            .and_then(|loop_progress| loop_progress.notice(notice))
        {
            Some(LoopNotice::Doing(kind)) => {
                self.end_line()?; // the next answer begins on a line of its own
                self.status.doing(&kind);
            }
            Some(LoopNotice::Lines(lines)) => lines.iter().try_for_each(|line| self.aside(line))?,
            // What the model's service answered is the outcome's message too, and that comes last.
            None if notice.level >= Level::Warning && notice.code != "api_error" => {
                self.message((&format!("{WARN}!{WARN:#} "), ""), &notice.message)?;
            }
            None if notice.level == Level::Info && self.detail != Detail::Nothing => {
                self.message((&format!("{DIM}· "), &format!("{DIM:#}")), &notice.message)?;
            }
            None => {}
        }
        Ok(())
    }

    /// What the caller said, beside the answer.
    fn prompt(&mut self, prompt: &str) -> io::Result<()> {
        self.end_line()?;
        if std::mem::take(&mut self.wrote_answer) {
            writeln!(self.out)?; // so that turns stand apart
        }
        for line in plain(prompt).lines() {
            writeln!(self.out, "{DIM}›{DIM:#} {line}")?;
        }
        Ok(())
    }
}

impl Output for Human {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.now = event.at;
        self.first.get_or_insert(event.at);
        match &event.kind {
            EventKind::Started(started) => {
                self.status.doing("thinking");
                self.tools.begin(&started.agent);
                if let Some(dir) = &started.cwd {
                    self.tools.work_in(dir.as_ref());
                }
                self.started = Some(started.clone());
            }
            EventKind::Text(text)
                if text.kind == TextKind::Thinking && self.detail == Detail::Nothing => {}
            EventKind::Text(text) if text.parent.is_none() => {
                self.text(text.kind, &text.text, !text.delta)?
            }
            EventKind::ToolCall(call) => {
                self.end_line()?;
                self.sanitizers = Default::default();
                let doing = self.tools.called(call, event.at);
                self.status.doing(&doing);
            }
            EventKind::ToolResult(result) => self.tool_result(result)?,
            EventKind::Permission(p) if p.decision == Decision::Asked => {
                self.status.doing(&format!("asks to use {}", name(&p.tool)));
            }
            EventKind::Usage(usage) => {
                self.status.usage_summary(usage);
                if usage.scope == Scope::Session {
                    self.usage = Some(usage.clone());
                }
            }
            EventKind::State(state) if state.to == SessionState::Stopping => {
                self.stopping(&event.session)?
            }
            EventKind::Notice(notice) => self.notice(notice)?,
            EventKind::Unreadable(it) => {
                let (why, raw) = (word(&it.why, 200), word(&it.raw, 80));
                self.aside(&format!("{WARN}!{WARN:#} not understood ({why}): {raw}"))?;
            }
            EventKind::Refused(refused) => {
                let (request, why) = (name(&refused.request), word(&refused.why, 200));
                self.aside(&format!("{WARN}!{WARN:#} {request} refused: {why}"))?;
            }
            EventKind::TurnStarted(turn) => {
                self.outcome = None;
                self.tools.begin_turn();
                self.sanitizers = Default::default();
                self.reply.as_mut().map(Markdown::reset);
                if let Some(prompt) = turn.prompt.as_deref().filter(|_| self.shows_prompts) {
                    self.prompt(prompt)?;
                }
                if let Some(turns) = &mut self.turns {
                    turns.count += 1;
                    turns.since = Some(event.at);
                    self.wrote_answer = false;
                    self.status.doing("thinking");
                }
            }
            EventKind::TurnEnded(turn) => self.turn_ended(turn, &event.session)?,
            EventKind::Ended(ended) => self.ended(ended, &event.session)?,
            _ => {}
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()?;
        self.err.flush()
    }

    fn tick(&mut self, elapsed: Duration) {
        match self.line {
            OpenLine::Nothing => self.status.show(elapsed),
            _ if std::mem::take(&mut self.is_writing) => {}
            // A word that does not go on for a while is shown as it is. Whoever cannot write it says so with the next text.
            OpenLine::Reply => {
                let word = self
                    .reply
                    .as_mut()
                    .map(Markdown::settle)
                    .unwrap_or_default();
                let _ = write!(self.out, "{word}").and_then(|()| self.out.flush());
            }
            OpenLine::Thinking => {
                let word = self
                    .thinking
                    .as_mut()
                    .map(Markdown::settle)
                    .unwrap_or_default();
                let _ = write!(self.err, "{word}");
            }
            OpenLine::Question => {}
        }
    }

    fn remark(&mut self, words: &str) {
        // stderr may be gone; the session's end is not
        let _ = self.aside(&format!("{WARN}!{WARN:#} {words}"));
    }

    fn line(&mut self, line: &str) {
        let _ = self.aside(line);
    }

    fn question(&mut self, question: &QuestionText) {
        for line in &question.lines {
            let _ = self.aside(line);
        }
        let _ = self.end_line();
        self.status.hide();
        let _ = write!(self.err, "{}", question.prompt).and_then(|()| self.err.flush());
        self.line = OpenLine::Question;
    }

    fn answered(&mut self) {
        // The Enter behind the answer has ended the line already.
        self.line = OpenLine::Nothing;
    }

    fn is_live(&self) -> bool {
        self.status.is_live()
    }
}

impl Drop for Human {
    fn drop(&mut self) {
        self.status.hide();
    }
}

/// The rest of a text whose line is to end.
fn rest_of(renderer: &mut Option<Markdown>) -> String {
    renderer
        .as_mut()
        .map_or_else(|| "\n".to_owned(), Markdown::finish)
}

/// Tokens in and out, and the cost, in few words.
pub(crate) fn usage_summary(usage: &Usage) -> String {
    let known = [usage.input, usage.cache_read, usage.cache_write];
    let input = known.into_iter().flatten().reduce(u64::saturating_add);
    let mut parts = Vec::new();
    match (input.map(thousands), usage.output.map(thousands)) {
        (Some(input), Some(output)) => parts.push(format!("{input} tokens in, {output} out")),
        (Some(input), None) => parts.push(format!("{input} tokens in")),
        (None, Some(output)) => parts.push(format!("{output} tokens out")),
        (None, None) => {}
    }
    parts.extend(
        usage
            .cost_usd
            .map(|cost| brief::cost(cost, usage.cost_source)),
    );
    parts.join(" · ")
}

pub(crate) fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

pub(super) fn span_of(milliseconds: i64) -> String {
    span(Duration::from_millis(
        u64::try_from(milliseconds).unwrap_or(0),
    ))
}

pub(super) fn span(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{}ms", time.as_millis()),
        1..60 => format!("{:.1}s", time.as_secs_f64()),
        s => format!("{}m{:02}s", s / 60, s % 60),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use crate::args::Notification;
    use ostler::event::{Ended, Origin, Text, TurnStarted};

    use super::super::tools::Dialects;
    use super::*;

    /// A terminal whose text can be looked at.
    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What a terminal gets to notify a person of a session that took so many seconds.
    fn rung(how: Notification, seconds: i64) -> String {
        let terminal = Screen::default();
        let mut human = Human::new(Parts {
            out: Box::new(io::sink()),
            err: Box::new(io::sink()),
            status: Status::new(None),
            same_screen: false,
            reply: None,
            thinking: None,
            tools: Tools::new(Detail::Usual, Dialects::default(), false),
            detail: Detail::Usual,
            notify: Some(Notify::new(Box::new(terminal.clone()), how)),
        });
        let outcome = Outcome::new(Cause::Completed, "ok");
        let ended = Ended {
            outcome,
            exit_code: None,
            signal: None,
            usage: None,
        };
        let story = [
            (
                0,
                TurnStarted {
                    origin: Origin::Caller,
                    prompt: None,
                }
                .into(),
            ),
            (seconds, ended.into()),
        ];
        for (seq, (second, kind)) in (1..).zip(story) {
            human
                .event(&Event {
                    seq,
                    at: At(1 + second * 1000),
                    session: "s".into(),
                    turn: 1,
                    kind,
                })
                .unwrap();
        }
        let rung = terminal.0.lock().unwrap().clone();
        String::from_utf8(rung).unwrap()
    }

    #[test]
    fn long_work_ends_with_a_notification() {
        assert_eq!(
            (
                rung(Notification::Bell, 29),
                rung(Notification::Desktop, 29)
            ),
            (String::new(), String::new())
        );
        assert_eq!(rung(Notification::Bell, 30), "\u{7}");
        assert_eq!(
            rung(Notification::Desktop, 125),
            "\u{1b}]9;ostler: completed after 2m05s\u{7}"
        );
    }

    // P19: the second half of `ESC [ 31m` was left on the screen.
    #[test]
    fn an_escape_sequence_may_be_cut_between_two_deltas() {
        let screen = Screen::default();
        let mut human = Human::new(Parts {
            out: Box::new(screen.clone()),
            err: Box::new(screen.clone()),
            status: Status::new(None),
            same_screen: true,
            reply: None,
            thinking: None,
            tools: Tools::new(Detail::Usual, Dialects::default(), false),
            detail: Detail::Usual,
            notify: None,
        });
        let text = |kind, text: &str, delta| Text {
            kind,
            text: text.into(),
            delta,
            message: None,
            parent: None,
        };
        let (reply, thinking) = (TextKind::Reply, TextKind::Thinking);
        let story = [
            text(reply, "a\u{1b}[3", true),
            text(thinking, "think\n", true),
            text(reply, "1mred\u{1b}]0;", true),
            text(reply, "title\u{7} b\u{1b}]", true),
            text(reply, "whole", false), // another message
        ];
        for (seq, kind) in (1..).zip(story) {
            human
                .event(&Event {
                    seq,
                    at: At(1),
                    session: "s".into(),
                    turn: 1,
                    kind: kind.into(),
                })
                .unwrap();
        }
        let shown = String::from_utf8(screen.0.lock().unwrap().clone()).unwrap();
        assert_eq!(
            anstream::adapter::strip_str(&shown).to_string(),
            "a\nthink\nred bwhole\n"
        );
    }

    #[test]
    fn tokens_are_counted_by_direction() {
        let mut usage = Usage::unknown(ostler::Scope::Turn);
        assert_eq!(usage_summary(&usage), "");
        usage.output = Some(1234);
        assert_eq!(usage_summary(&usage), "1,234 tokens out");
        (usage.input, usage.cache_read, usage.cache_write) = (Some(1), Some(20), Some(300));
        assert_eq!(
            usage_summary(&usage.clone().reported(0.01)),
            "321 tokens in, 1,234 out · $0.0100"
        );
        usage.output = None;
        assert_eq!(
            usage_summary(&usage.estimated(0.01)),
            "321 tokens in · ~$0.0100"
        );
    }

    #[test]
    fn numbers_and_times_read_well() {
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(thousands(999), "999");
        assert_eq!(span(Duration::from_millis(340)), "340ms");
        assert_eq!(span(Duration::from_millis(12_340)), "12.3s");
        assert_eq!(span(Duration::from_secs(125)), "2m05s");
    }
}
