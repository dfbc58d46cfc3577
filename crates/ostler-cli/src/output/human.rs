//! The human format: the answer streams to stdout; tools, thinking, notices and the result go to
//! stderr.
//!
//! Text chosen by an agent, a tool or a model goes through [`plain`], or through [`one_line`] or
//! [`name`] within a line.

mod ending;

use std::io::{self, Write};
use std::time::Duration;

use ostler::clip::{Sanitizer, sanitize};
use ostler::event::{
    Decision, Level, Notice, SessionState, Started, TextKind, Timestamp, ToolResult,
};
use ostler::{Cause, Event, EventKind, Outcome, Scope, Usage, display};

use super::loop_progress::{LoopNotice, LoopProgress};
use super::markdown::Markdown;
use super::notify::Notify;
use super::status::Status;
use super::style::{DIM, WARN};
use super::tools::{Detail, Tools};
use super::value::{name, one_line};
use super::wrap::wrap;
use super::{Output, QuestionText, columns};

/// The human format.
pub(super) struct Human {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    status: Status,
    /// Whether stdout and stderr share a screen, so that an open line on one must end before the
    /// other writes.
    same_screen: bool,
    /// Renders the answer, if stdout is a terminal.
    reply: Option<Markdown>,
    /// Wraps thinking, if stderr is a terminal.
    thinking: Option<Markdown>,
    /// Sanitizers for the answer and the thinking, which come in pieces.
    sanitizers: [Sanitizer; 2],
    tools: Tools,
    detail: Detail,
    notify: Option<Notify>,
    /// Contents of the current line.
    line: OpenLine,
    /// Whether text arrived since the last tick.
    is_writing: bool,
    first: Option<Timestamp>,
    now: Timestamp,
    started: Option<Started>,
    wrote_answer: bool,
    /// Usage of the session so far.
    usage: Option<Usage>,
    /// Outcome of the last turn, once it has ended.
    outcome: Option<Outcome>,
    /// Cause in the result line, once that is written.
    shown: Option<Cause>,
    /// Whether the session is stored, so that Ostler's id identifies it.
    is_stored: bool,
    /// Whether prompts are shown too.
    shows_prompts: bool,
    /// For a chat: each turn gets a summary.
    turns: Option<Turns>,
    /// For a loop.
    loop_progress: Option<LoopProgress>,
}

/// Turns of a chat so far.
#[derive(Default)]
struct Turns {
    count: u32,
    since: Option<Timestamp>,
    /// Outcome of the last turn, which the end of the session does not repeat.
    last: Option<Outcome>,
}

/// Parts of the human format.
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

/// Contents of the current line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenLine {
    Nothing,
    Reply,
    Thinking,
    /// A question, with the answer after it.
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
            now: Timestamp(0),
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

    /// Marks the session as not stored: only the agent knows it.
    pub(super) fn unstored(mut self) -> Self {
        self.is_stored = false;
        self
    }

    /// Also shows the prompt of every turn.
    pub(super) fn with_prompts(mut self) -> Self {
        self.shows_prompts = true;
        self
    }

    /// Adapts the output for a chat.
    pub(super) fn for_chat(mut self) -> Self {
        self.turns = Some(Turns::default());
        self
    }

    /// Adapts the output for a loop.
    pub(super) fn for_loop(mut self, loop_progress: LoopProgress) -> Self {
        self.loop_progress = Some(loop_progress);
        self
    }

    fn text(&mut self, kind: TextKind, text: &str, whole: bool) -> io::Result<()> {
        if whole {
            self.sanitizers = Default::default(); // sequences do not span messages
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
            self.reply.as_mut().map(Markdown::reset); // neither do blocks
            self.sanitizers = Default::default();
        }
        Ok(())
    }

    /// Ends the current line, so that the next output starts on a new one.
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

    /// Writes a message to stderr, after a lead of two columns and before the end of a style. Wraps
    /// on a terminal.
    fn message(&mut self, (lead, end): (&str, &str), message: &str) -> io::Result<()> {
        let message = sanitize(message);
        let message = if self.thinking.is_some() {
            wrap(&message, 2, columns())
        } else {
            message
        };
        self.stderr_line(&format!("{lead}{message}{end}"))
    }

    /// Writes a separate line to stderr.
    fn stderr_line(&mut self, line: &str) -> io::Result<()> {
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
        lines.iter().try_for_each(|line| self.stderr_line(line))
    }

    fn notice(&mut self, notice: &Notice) -> io::Result<()> {
        match self
            .loop_progress
            .as_mut()
            .and_then(|loop_progress| loop_progress.notice(notice))
        {
            Some(LoopNotice::Doing(kind)) => {
                self.end_line()?; // the next answer starts on a new line
                self.status.doing(&kind);
            }
            Some(LoopNotice::Lines(lines)) => {
                lines.iter().try_for_each(|line| self.stderr_line(line))?;
            }
            // API errors are also the message of the outcome, which comes last.
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

    /// Writes the prompt of a turn.
    fn prompt(&mut self, prompt: &str) -> io::Result<()> {
        self.end_line()?;
        if std::mem::take(&mut self.wrote_answer) {
            writeln!(self.out)?; // separates turns
        }
        for line in sanitize(prompt).lines() {
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
                self.text(text.kind, &text.text, !text.delta)?;
            }
            EventKind::ToolCall(call) => {
                self.end_line()?;
                self.sanitizers = Default::default();
                let doing = self.tools.called(call, event.at);
                self.status.doing(&doing);
            }
            EventKind::ToolResult(result) => self.tool_result(result)?,
            EventKind::Permission(p) if p.decision == Decision::Asked => {
                self.status
                    .doing(&format!("waiting for approval of {}", name(&p.tool)));
            }
            EventKind::Usage(usage) => {
                self.status.usage_summary(usage);
                if usage.scope == Scope::Session {
                    self.usage = Some(usage.clone());
                }
            }
            EventKind::State(state) if state.to == SessionState::Stopping => {
                self.stopping(&event.session)?;
            }
            EventKind::Notice(notice) => self.notice(notice)?,
            EventKind::Unreadable(it) => {
                let (why, raw) = (one_line(&it.why, 200), one_line(&it.raw, 80));
                self.stderr_line(&format!("{WARN}!{WARN:#} unreadable output ({why}): {raw}"))?;
            }
            EventKind::Refused(refused) => {
                let (request, why) = (name(&refused.request), one_line(&refused.why, 200));
                self.stderr_line(&format!("{WARN}!{WARN:#} {request} refused: {why}"))?;
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
            // An incomplete word is shown after a while. Write errors surface with the next text.
            OpenLine::Reply => {
                let word = self
                    .reply
                    .as_mut()
                    .map(Markdown::flush_word)
                    .unwrap_or_default();
                let _ = write!(self.out, "{word}").and_then(|()| self.out.flush());
            }
            OpenLine::Thinking => {
                let word = self
                    .thinking
                    .as_mut()
                    .map(Markdown::flush_word)
                    .unwrap_or_default();
                let _ = write!(self.err, "{word}");
            }
            OpenLine::Question => {}
        }
    }

    fn remark(&mut self, words: &str) {
        // A closed stderr is not an error.
        let _ = self.stderr_line(&format!("{WARN}!{WARN:#} {words}"));
    }

    fn line(&mut self, line: &str) {
        let _ = self.stderr_line(line);
    }

    fn question(&mut self, question: &QuestionText) {
        for line in &question.lines {
            let _ = self.stderr_line(line);
        }
        let _ = self.end_line();
        self.status.hide();
        let _ = write!(self.err, "{}", question.prompt).and_then(|()| self.err.flush());
        self.line = OpenLine::Question;
    }

    fn answered(&mut self) {
        // The Enter key already ended the line.
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

/// Returns the rest of a text whose line is ending.
fn rest_of(renderer: &mut Option<Markdown>) -> String {
    renderer
        .as_mut()
        .map_or_else(|| "\n".to_owned(), Markdown::finish)
}

/// Formats tokens and cost briefly.
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
            .map(|cost| display::cost(cost, usage.cost_source)),
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

    /// A terminal that captures its output.
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

    /// Returns the notification for a session that took this many seconds.
    fn notification(how: Notification, seconds: i64) -> String {
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
                    at: Timestamp(1 + second * 1000),
                    session: "s".into(),
                    turn: 1,
                    kind,
                })
                .unwrap();
        }
        let written = terminal.0.lock().unwrap().clone();
        String::from_utf8(written).unwrap()
    }

    #[test]
    fn long_runs_notify() {
        assert_eq!(
            (
                notification(Notification::Bell, 29),
                notification(Notification::Desktop, 29)
            ),
            (String::new(), String::new())
        );
        assert_eq!(notification(Notification::Bell, 30), "\u{7}");
        assert_eq!(
            notification(Notification::Desktop, 125),
            "\u{1b}]9;ostler: completed after 2m05s\u{7}"
        );
    }

    // P19: the second half of `ESC [ 31m` was left on the screen.
    #[test]
    fn escape_sequences_split_across_deltas_are_removed() {
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
                    at: Timestamp(1),
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
    fn numbers_and_times_are_formatted() {
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(thousands(999), "999");
        assert_eq!(span(Duration::from_millis(340)), "340ms");
        assert_eq!(span(Duration::from_millis(12_340)), "12.3s");
        assert_eq!(span(Duration::from_secs(125)), "2m05s");
    }
}
