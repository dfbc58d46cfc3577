//! The form for people: the answer streams to stdout, everything else (tools, thoughts, notices, the end) to stderr.
//!
//! Whatever an agent, a tool or a model chose goes through [`plain`], or through [`word`] or [`name`] within a line.

use std::io::{self, Write};
use std::time::Duration;

use ostler::clip::plain;
use ostler::event::{At, Decision, Ended, Level, Notice, Started, TextKind, ToolCall, ToolResult, TurnEnded};
use ostler::looping::WAITS;
use ostler::{Cause, CostSource, Event, Outcome, Status as Ending, Usage, What};

use super::rounds::{Rounds, Shown};
use super::status::Status;
use super::style::{BAD, DIM, GOOD, TOOL, WARN};
use super::value::{is_safe_to_type, name, word};
use super::{Output, Question};

/// The human form.
pub(super) struct Human {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    status: Status,
    /// Whether stdout and stderr are one screen, so that a line begun on one must be ended before the other writes.
    same_screen: bool,
    /// What the line under way holds.
    line: Open,
    first: Option<At>,
    now: At,
    started: Option<Started>,
    calls: Vec<(ToolCall, At)>,
    wrote_answer: bool,
    /// For a conversation: each turn gets its summary.
    turns: Option<Turns>,
    /// For a loop.
    rounds: Option<Rounds>,
}

/// What a conversation came to so far.
#[derive(Default)]
struct Turns {
    count: u32,
    since: Option<At>,
    /// How the last one ended: the session's end need not repeat it.
    last: Option<Outcome>,
}

/// How many lines of a change are shown.
const CHANGES: usize = 12;

/// What the line under way holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Nothing,
    Reply,
    Thinking,
    /// A question, with the answer behind it.
    Question,
}

impl Human {
    pub(super) fn new(
        out: Box<dyn Write + Send>,
        err: Box<dyn Write + Send>,
        status: Status,
        same_screen: bool,
    ) -> Self {
        Self {
            out,
            err,
            status,
            same_screen,
            line: Open::Nothing,
            first: None,
            now: At(0),
            started: None,
            calls: Vec::new(),
            wrote_answer: false,
            turns: None,
            rounds: None,
        }
    }

    /// The same for a conversation of many turns.
    pub(super) fn for_chat(mut self) -> Self {
        self.turns = Some(Turns::default());
        self
    }

    /// The same for a loop.
    pub(super) fn for_loop(mut self, rounds: Rounds) -> Self {
        self.rounds = Some(rounds);
        self
    }

    fn text(&mut self, kind: TextKind, text: &str, whole: bool) -> io::Result<()> {
        let (want, text) = match kind {
            TextKind::Reply => (Open::Reply, plain(text)),
            TextKind::Thinking => (Open::Thinking, plain(text)),
        };
        if self.line != want {
            self.end_line()?;
        }
        self.status.hide();
        match kind {
            TextKind::Reply => {
                write!(self.out, "{text}")?;
                self.wrote_answer = true;
            }
            TextKind::Thinking => write!(self.err, "{DIM}{text}{DIM:#}")?,
        }
        self.line = if text.ends_with('\n') { Open::Nothing } else { want };
        if whole { self.end_line() } else { Ok(()) }
    }

    /// Ends the line under way, so that the next thing begins on its own.
    fn end_line(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.line, Open::Nothing) {
            Open::Reply => {
                writeln!(self.out)?;
                self.out.flush()?;
            }
            Open::Thinking | Open::Question => writeln!(self.err)?,
            Open::Nothing => {}
        }
        Ok(())
    }

    /// A line of its own on stderr.
    fn aside(&mut self, line: &str) -> io::Result<()> {
        if self.same_screen || matches!(self.line, Open::Thinking | Open::Question) {
            self.end_line()?;
        }
        self.status.hide();
        writeln!(self.err, "{line}")
    }

    fn tool_result(&mut self, result: &ToolResult) -> io::Result<()> {
        let call = self.calls.iter().position(|(call, _)| call.id == result.id).map(|at| self.calls.remove(at));
        self.status.doing(if self.calls.is_empty() { "thinking" } else { "working" });
        let tool = name(result.name.as_deref().unwrap_or("tool"));
        let shown = call.as_ref().map_or_else(String::new, |(call, _)| brief(call.input.get()));
        let shown = if shown.is_empty() { shown } else { format!(" {shown}") };
        let took = call.map_or(0, |(_, since)| self.now.0 - since.0);
        let took = span(Duration::from_millis(u64::try_from(took).unwrap_or(0)));
        let (mark, paint, how) = match (result.ok, result.denied) {
            (false, _) if result.output == WAITS => ("?", WARN, " waits for approval"),
            (true, _) => ("✓", GOOD, ""),
            (false, true) => ("✗", WARN, " denied"),
            (false, false) => ("✗", BAD, " failed"),
        };
        self.aside(&format!(
            "{paint}{mark}{paint:#} {TOOL}{tool}{TOOL:#}{shown} {DIM}{took}{DIM:#}{paint}{how}{paint:#}"
        ))?;
        match (result.ok, result.output.lines().find(|l| !l.trim().is_empty())) {
            (false, Some(line)) if line != WAITS => self.aside(&format!("  {DIM}{}{DIM:#}", word(line, 110))),
            (true, Some(_)) => self.changes(&result.output),
            _ => Ok(()),
        }
    }

    /// What a tool changed, where it gave a diff.
    fn changes(&mut self, output: &str) -> io::Result<()> {
        let mut lines = output.lines().skip_while(|line| !line.starts_with("@@ "));
        let changed = lines.by_ref().filter(|line| line.starts_with(['+', '-']));
        for line in changed.take(CHANGES) {
            let paint = if line.starts_with('+') { GOOD } else { BAD };
            self.aside(&format!("  {paint}{}{paint:#}", word(line, 110)))?;
        }
        match lines.filter(|line| line.starts_with(['+', '-'])).count() {
            0 => Ok(()),
            more => self.aside(&format!("  {DIM}and {more} more changed lines{DIM:#}")),
        }
    }

    fn notice(&mut self, notice: &Notice) -> io::Result<()> {
        match self.rounds.as_mut().and_then(|rounds| rounds.notice(notice)) {
            Some(Shown::Doing(what)) => {
                self.end_line()?; // the next answer begins on a line of its own
                self.status.doing(&what);
            }
            Some(Shown::Lines(lines)) => lines.iter().try_for_each(|line| self.aside(line))?,
            // What the model's service answered is the outcome's message too, and that comes last.
            None if notice.level >= Level::Warning && notice.code != "api_error" => {
                self.aside(&format!("{WARN}!{WARN:#} {}", plain(&notice.message)))?;
            }
            None if notice.level == Level::Info => self.aside(&format!("{DIM}· {}{DIM:#}", plain(&notice.message)))?,
            None => {}
        }
        Ok(())
    }

    fn ended(&mut self, ended: &Ended, id: &str) -> io::Result<()> {
        self.end_line()?;
        if let Some(rounds) = self.rounds.take() {
            let parts: Vec<String> = rounds.counted().into_iter().chain([format!("session {}", name(id))]).collect();
            let parts = parts.join(&format!("{DIM} · {DIM:#}"));
            self.summary(&ended.outcome, ended.usage.as_ref(), (self.first, Some(parts)))?;
            let again = rounds.again(id, &ended.outcome);
            return again.map_or(Ok(()), |again| self.aside(&format!("  {DIM}go on with: {again}{DIM:#}")));
        }
        let native = self.started.as_ref().and_then(|s| s.native_session.clone());
        let session = native.as_ref().map(|id| format!("session {}", name(id)));
        let verb = if let Some(turns) = self.turns.take() {
            self.left(ended, session, &turns)?;
            if turns.count == 0 {
                return Ok(()); // nothing was said that could be gone on with
            }
            "chat"
        } else {
            self.summary(&ended.outcome, ended.usage.as_ref(), (self.first, session))?;
            "run"
        };
        match (native, &self.started) {
            (Some(id), Some(started)) if is_safe_to_type(&id) && is_safe_to_type(&started.agent) => {
                let message = if verb == "run" { " \"…\"" } else { "" };
                let agent = &started.agent;
                self.aside(&format!("  {DIM}go on with: ostler {verb} --agent {agent} --resume {id}{message}{DIM:#}"))
            }
            _ => Ok(()),
        }
    }

    /// The end of a conversation. What its last turn said is not said again.
    fn left(&mut self, ended: &Ended, session: Option<String>, turns: &Turns) -> io::Result<()> {
        let is_news = turns.last.as_ref().is_none_or(|last| last.cause != ended.outcome.cause);
        if is_news && !ended.outcome.is_success() && ended.outcome.cause != Cause::Stopped {
            self.summary(&ended.outcome, None, (None, None))?;
        }
        if turns.count == 0 {
            return Ok(());
        }
        let count = format!("{} turn{}", turns.count, if turns.count == 1 { "" } else { "s" });
        let usage = ended.usage.as_ref().map(spent).filter(|spent| !spent.is_empty());
        let parts: Vec<String> = session.into_iter().chain([count]).chain(usage).collect();
        self.aside(&format!("{DIM}{}{DIM:#}", parts.join(" · ")))
    }

    fn turn_ended(&mut self, turn: &TurnEnded) -> io::Result<()> {
        // An answer that was never streamed or shown: now is its time.
        if !self.wrote_answer && !turn.text.is_empty() {
            self.text(TextKind::Reply, &turn.text, true)?;
        }
        let Some(turns) = &mut self.turns else { return Ok(()) };
        turns.last = Some(turn.outcome.clone());
        let since = turns.since.take();
        self.calls.clear();
        self.end_line()?;
        self.summary(&turn.outcome, turn.usage.as_ref(), (since, None))?;
        self.aside("") // so that the next message stands apart
    }

    /// How it ended, what it took, and if it did not go well, why.
    fn summary(
        &mut self,
        outcome: &Outcome,
        usage: Option<&Usage>,
        (since, more): (Option<At>, Option<String>),
    ) -> io::Result<()> {
        let (mark, paint) = match outcome.status {
            Ending::Success => ("✓", GOOD),
            Ending::Stopped => ("■", WARN),
            Ending::Failed | Ending::Timeout => ("✗", BAD),
        };
        let mut parts = vec![format!("{paint}{mark} {}{paint:#}", outcome.cause)];
        parts.extend(usage.map(spent).filter(|spent| !spent.is_empty()));
        parts.extend(since.map(|since| span(Duration::from_millis(u64::try_from(self.now.0 - since.0).unwrap_or(0)))));
        parts.extend(more);
        self.aside(&parts.join(&format!("{DIM} · {DIM:#}")))?;
        if outcome.is_success() {
            return Ok(());
        }
        self.aside(&format!("  {}", plain(&outcome.message)))?;
        if let Some(hint) = &outcome.hint {
            self.aside(&format!("  hint: {}", plain(hint)))?;
        }
        let stderr = outcome.detail.as_ref().and_then(|d| d.stderr.as_deref());
        for line in stderr.into_iter().flat_map(str::lines).rev().take(10).collect::<Vec<_>>().into_iter().rev() {
            self.aside(&format!("  {DIM}│ {}{DIM:#}", plain(line)))?;
        }
        Ok(())
    }
}

impl Output for Human {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.now = event.at;
        self.first.get_or_insert(event.at);
        match &event.what {
            What::Started(started) => {
                self.status.doing("thinking");
                self.started = Some(started.clone());
            }
            What::Text(text) if text.parent.is_none() => self.text(text.kind, &text.text, !text.delta)?,
            What::ToolCall(call) => {
                self.end_line()?;
                self.status.doing(&format!("{} {}", name(&call.name), brief(call.input.get())));
                self.calls.push((call.clone(), event.at));
            }
            What::ToolResult(result) => self.tool_result(result)?,
            What::Permission(p) if p.decision == Decision::Asked => {
                self.status.doing(&format!("asks to use {}", name(&p.tool)));
            }
            What::Usage(usage) => self.status.spent(usage),
            What::Notice(notice) => self.notice(notice)?,
            What::Unreadable(it) => {
                let (why, raw) = (word(&it.why, 200), word(&it.raw, 80));
                self.aside(&format!("{WARN}!{WARN:#} not understood ({why}): {raw}"))?;
            }
            What::Refused(refused) => {
                let (request, why) = (name(&refused.request), word(&refused.why, 200));
                self.aside(&format!("{WARN}!{WARN:#} {request} refused: {why}"))?;
            }
            What::TurnStarted(_) => {
                if let Some(turns) = &mut self.turns {
                    turns.count += 1;
                    turns.since = Some(event.at);
                    self.wrote_answer = false;
                    self.status.doing("thinking");
                }
            }
            What::TurnEnded(turn) => self.turn_ended(turn)?,
            What::Ended(ended) => self.ended(ended, &event.session)?,
            _ => {}
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()?;
        self.err.flush()
    }

    fn tick(&mut self, elapsed: Duration) {
        if self.line == Open::Nothing {
            self.status.show(elapsed);
        }
    }

    fn remark(&mut self, words: &str) {
        // stderr may be gone; the session's end is not
        let _ = self.aside(&format!("{WARN}!{WARN:#} {words}"));
    }

    fn line(&mut self, line: &str) {
        let _ = self.aside(line);
    }

    fn question(&mut self, question: &Question) {
        for line in &question.lines {
            let _ = self.aside(line);
        }
        let _ = self.end_line();
        self.status.hide();
        let _ = write!(self.err, "{}", question.prompt).and_then(|()| self.err.flush());
        self.line = Open::Question;
    }

    fn answered(&mut self) {
        // The Enter behind the answer has ended the line already.
        self.line = Open::Nothing;
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

/// Tokens and cost in few words.
pub(crate) fn spent(usage: &Usage) -> String {
    let mut parts = Vec::new();
    if let Some(total) = usage.total() {
        parts.push(format!("{} tokens", thousands(total)));
    }
    match (usage.cost_usd, usage.cost_source) {
        (Some(cost), CostSource::Estimated) => parts.push(format!("~${cost:.4}")),
        (Some(cost), _) => parts.push(format!("${cost:.4}")),
        (None, _) => {}
    }
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

fn span(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{}ms", time.as_millis()),
        1..60 => format!("{:.1}s", time.as_secs_f64()),
        s => format!("{}m{:02}s", s / 60, s % 60),
    }
}

/// A tool's input on one line: what it is about, or its first text value if it has one, with the arguments if it is a command; else the JSON.
fn brief(input: &str) -> String {
    let Ok(map) = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(input) else {
        return word(input, 80);
    };
    if map.is_empty() {
        return String::new();
    }
    let named = ["path", "file_path", "command", "pattern"].iter().find_map(|key| map.get(*key)?.as_str());
    let Some(first) = named.or_else(|| map.values().find_map(|value| value.as_str())) else { return word(input, 80) };
    let args = map.get("args").and_then(|args| args.as_array()).map(Vec::as_slice).unwrap_or_default();
    let words: Vec<&str> = std::iter::once(first).chain(args.iter().filter_map(|arg| arg.as_str())).collect();
    word(&words.join(" "), 80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_read_well() {
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(thousands(999), "999");
        assert_eq!(span(Duration::from_millis(340)), "340ms");
        assert_eq!(span(Duration::from_millis(12_340)), "12.3s");
        assert_eq!(span(Duration::from_secs(125)), "2m05s");
    }

    // P19
    #[test]
    fn cutting_keeps_characters_whole() {
        assert_eq!(brief(&format!("{{\"text\":\"{}\"}}", "é😀".repeat(60))), format!("{}…", "é😀".repeat(40)));
        assert_eq!(brief(r#"{"command":"ls\n-la","n":1}"#), "ls -la");
        assert_eq!(brief("[1,2]"), "[1,2]");
        assert_eq!(brief("{}"), "");
        assert_eq!(brief(r#"{"content":"long","path":"a.txt"}"#), "a.txt");
        assert_eq!(brief(r#"{"args":["test","--quiet"],"command":"cargo"}"#), "cargo test --quiet");
    }
}
