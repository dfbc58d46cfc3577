//! The human format: the answer streams to stdout; tools, thinking, notices and the result go to
//! stderr.
//!
//! Text chosen by an agent, a tool or a model goes through [`sanitize`], or through `one_line` or
//! `name` within a line.

mod ending;

use std::io::{self, Write};
use std::time::Duration;

use anstyle::Style;
use ostler::event::{
    Decision, Level, Notice, NoticeCode, Scope, SessionState, Started, TextKind, Timestamp,
    ToolResult,
};
use ostler::render::clip::{Sanitizer, sanitize};
use ostler::render::display;
use ostler::{Cause, Event, EventKind, Outcome, Usage};

use super::loop_progress::{LoopNotice, LoopProgress};
use super::markdown::Markdown;
use super::notify::Notify;
use super::status::Status;
use super::style::{DIM, WARN};
use super::tools::{Detail, Tools};
use super::value::{name, one_line};
use super::wrap::wrap;
use super::{Output, QuestionText, Sink, columns};

/// The human format.
pub(super) struct Human {
    /// The answer, on stdout.
    pub reply: Pane,
    /// The thinking and everything else, on stderr.
    pub thinking: Pane,
    pub status: Status,
    /// Whether stdout and stderr share a screen, so that an open line on one must end before the
    /// other writes.
    pub same_screen: bool,
    pub tools: Tools,
    pub detail: Detail,
    pub notify: Option<Notify>,
    /// Whether the session is stored, so that Ostler's id identifies it.
    pub is_stored: bool,
    /// Whether prompts are shown too.
    pub shows_prompts: bool,
    /// For a chat: each turn gets a summary.
    pub turns: Option<Turns>,
    /// For a loop.
    pub loop_progress: Option<LoopProgress>,
    pub shown: Shown,
}

/// A stream of text: where it goes, and how it is rendered.
pub(super) struct Pane {
    pub out: Sink,
    /// Renders the text, if the stream is a terminal.
    pub renderer: Option<Markdown>,
    /// Style of the text without a renderer.
    pub style: Style,
    /// Sanitizes the text, which comes in pieces.
    pub sanitizer: Sanitizer,
}

impl Pane {
    /// Writes sanitized text. Returns true if its last line is open.
    fn write(&mut self, text: &str) -> io::Result<bool> {
        let style = self.style;
        let (shown, is_open) = match &mut self.renderer {
            Some(renderer) => (renderer.push(text, columns()), renderer.is_open()),
            None => (format!("{style}{text}{style:#}"), !text.ends_with('\n')),
        };
        write!(self.out, "{shown}")?;
        Ok(is_open)
    }

    /// Writes the rest of a text whose line is ending.
    fn end_line(&mut self) -> io::Result<()> {
        let finish = self.renderer.as_mut().map(Markdown::finish);
        write!(self.out, "{}", finish.as_deref().unwrap_or("\n"))?;
        self.out.flush()
    }

    /// Writes the current word, complete or not.
    fn flush_word(&mut self) -> io::Result<()> {
        let word = self.renderer.as_mut().map(Markdown::flush_word);
        write!(self.out, "{}", word.unwrap_or_default())?;
        self.out.flush()
    }
}

/// The session as far as it was shown.
#[derive(Default)]
pub(super) struct Shown {
    /// Contents of the current line.
    line: OpenLine,
    /// Whether text arrived since the last tick.
    is_writing: bool,
    first: Option<Timestamp>,
    now: Timestamp,
    started: Option<Box<Started>>,
    wrote_answer: bool,
    /// Usage of the session so far.
    usage: Option<Box<Usage>>,
    /// Outcome of the last turn, once it has ended.
    outcome: Option<Outcome>,
    /// Cause in the result line, once that is written.
    cause: Option<Cause>,
}

/// Turns of a chat so far.
#[derive(Default)]
pub(super) struct Turns {
    count: u32,
    since: Option<Timestamp>,
    /// Outcome of the last turn, which the end of the session does not repeat.
    last: Option<Outcome>,
}

/// Contents of the current line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum OpenLine {
    #[default]
    Nothing,
    Text(TextKind),
    /// A question, with the answer after it.
    Question,
}

impl Human {
    fn pane(&mut self, kind: TextKind) -> &mut Pane {
        match kind {
            TextKind::Reply => &mut self.reply,
            TextKind::Thinking => &mut self.thinking,
        }
    }

    /// Starts another message, which escape sequences do not span.
    fn reset_sanitizers(&mut self) {
        self.reply.sanitizer = Sanitizer::default();
        self.thinking.sanitizer = Sanitizer::default();
    }

    /// Starts another answer, which blocks do not span either.
    fn reset_reply(&mut self) {
        self.reset_sanitizers();
        self.reply.renderer.as_mut().map(Markdown::reset);
    }

    fn text(&mut self, kind: TextKind, text: &str, whole: bool) -> io::Result<()> {
        if whole {
            self.reset_sanitizers();
        }
        let text = self.pane(kind).sanitizer.push(text);
        if text.is_empty() && !whole {
            return Ok(());
        }
        let line = OpenLine::Text(kind);
        if self.shown.line != line {
            self.end_line()?;
        }
        self.status.hide();
        let is_open = self.pane(kind).write(&text)?;
        self.shown.wrote_answer |= kind == TextKind::Reply;
        self.shown.line = if is_open { line } else { OpenLine::Nothing };
        self.shown.is_writing = true;
        if whole {
            self.end_line()?;
            self.reset_reply();
        }
        Ok(())
    }

    /// Ends the current line, so that the next output starts on a new one.
    fn end_line(&mut self) -> io::Result<()> {
        match std::mem::take(&mut self.shown.line) {
            OpenLine::Text(kind) => self.pane(kind).end_line(),
            OpenLine::Question => writeln!(self.thinking.out),
            OpenLine::Nothing => Ok(()),
        }
    }

    /// Writes a message to stderr, after a lead of two columns and before the end of a style. Wraps
    /// on a terminal.
    fn message(&mut self, lead: &str, message: &str, end: &str) -> io::Result<()> {
        let message = sanitize(message);
        let message = if self.thinking.renderer.is_some() {
            wrap(&message, 2, columns())
        } else {
            message
        };
        self.stderr_line(&format!("{lead}{message}{end}"))
    }

    /// Writes a separate line to stderr.
    fn stderr_line(&mut self, line: &str) -> io::Result<()> {
        if self.same_screen || self.shown.line != OpenLine::Text(TextKind::Reply) {
            self.end_line()?;
        }
        self.status.hide();
        writeln!(self.thinking.out, "{line}")
    }

    fn tool_result(&mut self, result: &ToolResult) -> io::Result<()> {
        let lines = self.tools.ended(result, self.shown.now);
        self.status.doing(if self.tools.is_idle() {
            "thinking"
        } else {
            "working"
        });
        lines.iter().try_for_each(|line| self.stderr_line(line))
    }

    fn notice(&mut self, notice: &Notice) -> io::Result<()> {
        self.is_stored &= notice.code != NoticeCode::StoreFailed;
        let progress = self.loop_progress.as_mut();
        match progress.and_then(|progress| progress.notice(notice)) {
            Some(LoopNotice::Doing(kind)) => {
                self.end_line()?; // the next answer starts on a new line
                self.status.doing(&kind);
            }
            Some(LoopNotice::Lines(lines)) => {
                lines.iter().try_for_each(|line| self.stderr_line(line))?;
            }
            // API errors are also the message of the outcome, which comes last.
            None if notice.level >= Level::Warning && notice.code != NoticeCode::ApiError => {
                self.message(&format!("{WARN}!{WARN:#} "), &notice.message, "")?;
            }
            None if notice.level == Level::Info && self.detail != Detail::Nothing => {
                self.message(&format!("{DIM}· "), &notice.message, &format!("{DIM:#}"))?;
            }
            None => {}
        }
        Ok(())
    }

    /// Writes the prompt of a turn.
    fn prompt(&mut self, prompt: &str) -> io::Result<()> {
        self.end_line()?;
        self.status.hide();
        let out = &mut self.reply.out;
        if std::mem::take(&mut self.shown.wrote_answer) {
            writeln!(out)?; // separates turns
        }
        for line in sanitize(prompt).lines() {
            writeln!(out, "{DIM}›{DIM:#} {line}")?;
        }
        Ok(())
    }
}

impl Output for Human {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.shown.now = event.at;
        self.shown.first.get_or_insert(event.at);
        match &event.kind {
            EventKind::Started(started) => {
                self.status.doing("thinking");
                self.tools.begin(&started.agent);
                if let Some(dir) = &started.cwd {
                    self.tools.work_in(dir.as_ref());
                }
                self.shown.started = Some(started.clone());
            }
            EventKind::Text(text)
                if text.kind == TextKind::Thinking && self.detail == Detail::Nothing => {}
            EventKind::Text(text) if text.parent.is_none() => {
                self.text(text.kind, &text.text, !text.delta)?;
            }
            EventKind::ToolCall(call) => {
                self.end_line()?;
                self.reset_sanitizers();
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
                    self.shown.usage = Some(usage.clone());
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
                let (request, why) = (name(refused.request.as_str()), one_line(&refused.why, 200));
                self.stderr_line(&format!("{WARN}!{WARN:#} {request} refused: {why}"))?;
            }
            EventKind::TurnStarted(turn) => {
                self.shown.outcome = None;
                self.tools.begin_turn();
                self.reset_reply();
                if let Some(prompt) = turn.prompt.as_deref().filter(|_| self.shows_prompts) {
                    self.prompt(prompt)?;
                }
                if let Some(turns) = &mut self.turns {
                    turns.count += 1;
                    turns.since = Some(event.at);
                    self.shown.wrote_answer = false;
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
        self.reply.out.flush()?;
        self.thinking.out.flush()
    }

    fn tick(&mut self, elapsed: Duration) {
        match self.shown.line {
            OpenLine::Nothing => self.status.show(elapsed),
            _ if std::mem::take(&mut self.shown.is_writing) => {}
            // An incomplete word is shown after a while. Write errors surface with the next text.
            OpenLine::Text(kind) => drop(self.pane(kind).flush_word()),
            OpenLine::Question => {}
        }
    }

    fn line(&mut self, line: &str) {
        let _ = self.stderr_line(line); // a closed stderr is not an error
    }

    fn question(&mut self, question: &QuestionText) {
        question.lines.iter().for_each(|line| self.line(line));
        let _ = self.end_line();
        self.status.hide();
        let err = &mut self.thinking.out;
        let _ = write!(err, "{}", question.prompt).and_then(|()| err.flush());
        self.shown.line = OpenLine::Question;
    }

    fn answered(&mut self) {
        // The Enter key already ended the line.
        self.shown.line = OpenLine::Nothing;
    }

    fn is_live(&self) -> bool {
        self.status.is_live()
    }
}

/// Formats tokens and cost briefly.
pub(crate) fn usage_summary(usage: &Usage) -> String {
    let known = [usage.input, usage.cache_read, usage.cache_write];
    let input = known.into_iter().flatten().reduce(u64::saturating_add);
    let tokens = match (input.map(thousands), usage.output.map(thousands)) {
        (Some(input), Some(output)) => Some(format!("{input} tokens in, {output} out")),
        (Some(input), None) => Some(format!("{input} tokens in")),
        (None, output) => output.map(|output| format!("{output} tokens out")),
    };
    let cost = usage.cost_usd;
    let cost = cost.map(|cost| display::cost(cost, usage.cost_source));
    let parts: Vec<String> = [tokens, cost].into_iter().flatten().collect();
    parts.join(" · ")
}

pub(crate) fn thousands(n: u64) -> String {
    match n / 1000 {
        0 => n.to_string(),
        rest => format!("{},{:03}", thousands(rest), n % 1000),
    }
}

/// Formats a count with its noun, such as `3 files`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

fn duration(milliseconds: i64) -> Duration {
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}

pub(super) fn span_of(milliseconds: i64) -> String {
    span(duration(milliseconds))
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

    fn human(out: impl Fn() -> Sink) -> Human {
        let pane = || Pane {
            out: out(),
            renderer: None,
            style: Style::new(),
            sanitizer: Sanitizer::default(),
        };
        Human {
            reply: pane(),
            thinking: pane(),
            status: Status::new(None),
            same_screen: true,
            tools: Tools::new(Detail::Usual, Dialects::default(), false),
            detail: Detail::Usual,
            notify: None,
            is_stored: true,
            shows_prompts: false,
            turns: None,
            loop_progress: None,
            shown: Shown::default(),
        }
    }

    /// Returns the notification for a session that took this many seconds.
    fn notification(how: Notification, seconds: i64) -> String {
        let terminal = Screen::default();
        let notify = Notify::new(Box::new(terminal.clone()), how);
        let mut human = Human {
            notify: Some(notify),
            ..human(|| Box::new(io::sink()))
        };
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
        let mut human = human(|| Box::new(screen.clone()));
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
        let mut usage = Usage::unknown(ostler::event::Scope::Turn);
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
