//! Output formats: one trait, one module per format. Only this module writes to stdout and stderr.

mod diff;
mod terminal_filter;
mod events;
mod human;
mod json;
mod live_lines;
mod markdown;
mod notify;
mod loop_progress;
mod reader;
mod status;
mod table;
mod text;
mod tools;
mod value;
mod wrap;
mod writer;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anstream::AutoStream;
use anstream::stream::RawStream;
use anstyle::Style;
use ostler::event::Notice;
use ostler::render::clip::{Sanitizer, sanitize};
use ostler::{Event, Outcome};
use serde_json::{Value, json};

use self::events::Events;
use self::human::{Human, Pane, Shown, Turns};
pub(crate) use self::human::{counted, thousands, usage_summary};
use self::json::{Json, Seen};
pub(crate) use self::live_lines::LiveLines;
pub(crate) use self::loop_progress::LoopProgress;
use self::markdown::Markdown;
use self::notify::Notify;
pub(crate) use self::reader::reader_is_gone;
pub(crate) use self::status::Status;
pub(crate) use self::table::{Align, table, table_lines};
pub(crate) use self::terminal_filter::TerminalFilter;
use self::text::Text;
use self::tools::{Detail, Tools};
pub(crate) use self::tools::{Dialects, tool_subject};
use self::value::is_safe_to_type;
pub(crate) use self::value::{name, one_line, shortened, visible};
pub(crate) use self::wrap::{wrap_indented, wrap_lines};
pub(crate) use self::writer::{Batch, Writer};
use crate::args::{Format, ViewArgs};
use crate::environment;
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};

/// Colours, each with one meaning. The text says the same without them.
pub(crate) mod style {
    use anstyle::{AnsiColor, Style};

    pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
    pub(crate) const BAD: Style = AnsiColor::Red.on_default();
    pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
    pub(crate) const DIM: Style = Style::new().dimmed();
    pub(crate) const TOOL: Style = AnsiColor::Cyan.on_default();
}

/// An output format for events. Write errors on stdout are returned; those on stderr are ignored,
/// because it may be closed.
pub(crate) trait Output: Send {
    /// Shows an event.
    fn event(&mut self, event: &Event) -> io::Result<()>;

    /// Makes everything shown so far visible.
    fn flush(&mut self) -> io::Result<()>;

    /// Updates the status line; `elapsed` is the time since the start.
    fn tick(&mut self, _elapsed: Duration) {}

    /// Shows a line from Ostler.
    fn line(&mut self, _line: &str) {}

    /// Shows a question; the user types the answer after it.
    fn question(&mut self, _question: &QuestionText) {}

    /// The user typed the answer, so the next output starts on a new line.
    fn answered(&mut self) {}

    /// Returns true if [`Output::tick`] does anything.
    fn is_live(&self) -> bool {
        false
    }
}

/// Text of a question: the lines that describe it, and the prompt for the answer.
#[derive(Debug)]
pub(crate) struct QuestionText {
    pub(crate) lines: Vec<String>,
    pub(crate) prompt: &'static str,
}

/// Where output goes.
pub(crate) type Sink = Box<dyn Write + Send>;

/// Options and context of the human format.
#[derive(Clone, Default)]
pub(crate) struct View {
    pub(crate) args: ViewArgs,
    /// The workspace, if it is known up front.
    pub(crate) dir: Option<PathBuf>,
    pub(crate) dialects: Dialects,
    /// Whether events are shown as they happen, rather than from a recording.
    pub(crate) is_live: bool,
    /// Whether the shown session is stored.
    pub(crate) is_stored: bool,
    /// Whether prompts are shown too.
    pub(crate) shows_prompts: bool,
    /// For a loop.
    pub(crate) loop_progress: Option<LoopProgress>,
}

impl View {
    fn detail(&self) -> Detail {
        match (self.args.quiet, self.args.verbose) {
            (true, _) => Detail::Nothing,
            (false, true) => Detail::Everything,
            (false, false) => Detail::Usual,
        }
    }
}

/// Opens the output for a run or a recording.
pub(crate) fn open(format: Format, view: View) -> Box<dyn Output> {
    let (out, err) = (TerminalFilter::stdout(), Box::new(aside()));
    match format {
        Format::Events => Box::new(Events(io::BufWriter::with_capacity(64 * 1024, out))),
        Format::Json => Box::new(Json {
            out: Box::new(out),
            err,
            seen: Seen::default(),
        }),
        Format::Text => Box::new(Text {
            out: Box::new(out),
            err,
            on_screen: io::stdout().is_terminal(),
            loop_progress: view.loop_progress,
        }),
        Format::Human => Box::new(human(Box::new(stdout()), err, view)),
    }
}

/// Opens the human output for a chat. `place` wraps the writers, so that output does not disturb
/// the line editor.
pub(crate) fn open_chat(view: View, place: impl Fn(Sink) -> Sink) -> Box<dyn Output> {
    let out = filtered(place(Box::new(io::stdout())), &io::stdout());
    let err = IgnoreErrors(filtered(place(Box::new(io::stderr())), &io::stderr()));
    Box::new(Human {
        turns: Some(Turns::default()),
        ..human(Box::new(out), Box::new(err), view)
    })
}

fn human(out: Sink, err: Sink, view: View) -> Human {
    let is_screen = |stream: &dyn IsTerminal| stream.is_terminal() && !environment::is_dumb();
    let (is_out_screen, is_err_screen) = (io::stdout().is_terminal(), io::stderr().is_terminal());
    let detail = view.detail();
    let mut tools = Tools::new(detail, view.dialects, view.is_live);
    if let Some(dir) = &view.dir {
        tools.work_in(dir);
    }
    let how = view.args.notify.filter(|_| view.is_live && is_err_screen);
    let pane = |out, renderer, style| Pane {
        out,
        renderer,
        style,
        sanitizer: Sanitizer::default(),
    };
    let plain = || Markdown::plain(style::DIM);
    Human {
        reply: pane(
            out,
            is_screen(&io::stdout()).then(Markdown::new),
            Style::new(),
        ),
        thinking: pane(err, is_screen(&io::stderr()).then(plain), style::DIM),
        status: if view.is_live {
            status()
        } else {
            Status::new(None)
        },
        same_screen: is_out_screen && is_err_screen,
        tools,
        detail,
        notify: how.map(|how| Notify::new(Box::new(io::stderr()), how)),
        is_stored: view.is_stored,
        shows_prompts: view.shows_prompts,
        turns: None,
        loop_progress: view.loop_progress,
        shown: Shown::default(),
    }
}

/// Returns the width of the terminal.
pub(crate) fn columns() -> usize {
    #[cfg(unix)]
    let found = rustix::termios::tcgetwinsize(io::stdout())
        .or_else(|_| rustix::termios::tcgetwinsize(io::stderr()));
    #[cfg(unix)]
    let found = found
        .ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0);
    #[cfg(not(unix))]
    let found = None;
    found.unwrap_or(80)
}

/// Returns the status line, which is shown only on an interactive terminal.
pub(crate) fn status() -> Status {
    let live = io::stderr().is_terminal()
        && !environment::is_ci()
        && !environment::is_dumb()
        && !HAS_LOG.load(Ordering::Relaxed);
    Status::new(live.then(|| Box::new(io::stderr()) as Sink))
}

/// Returns the width for wrapping lines: that of the terminal, clamped to a readable range.
pub(crate) fn width() -> usize {
    columns().clamp(40, 110)
}

/// Prints bytes for another program, without colours or a trailing newline.
pub(crate) fn print_bytes(bytes: &[u8]) -> io::Result<()> {
    let mut out = TerminalFilter::stdout();
    out.write_all(bytes).and_then(|()| out.flush())
}

/// Formats a warning on one line, for formats that show only the answer.
pub(crate) fn warning(notice: &Notice) -> String {
    format!("warning: {}", one_line(&notice.message, 2000))
}

/// Filters a writer of stdout or stderr, and allows colours if that is a terminal.
fn filtered(to: Sink, stream: &impl RawStream) -> AutoStream<Sink> {
    let filter = TerminalFilter::new(to, stream.is_terminal());
    AutoStream::new(Box::new(filter), AutoStream::choice(stream))
}

/// Returns filtered stdout, with colours if it is a terminal.
fn stdout() -> AutoStream<Sink> {
    filtered(Box::new(io::stdout()), &io::stdout())
}

/// Returns filtered stderr, with colours if it is a terminal.
fn stderr() -> AutoStream<Sink> {
    filtered(Box::new(io::stderr()), &io::stderr())
}

/// Returns stderr for a run, ignoring write errors.
fn aside() -> impl Write + Send {
    IgnoreErrors(stderr())
}

/// A writer that ignores errors: the answer is on stdout.
struct IgnoreErrors<W>(W);

impl<W: Write> Write for IgnoreErrors<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Ok(bytes.len()),
            result => result,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

/// Prints a line to stdout.
pub(crate) fn print_line(line: &str) {
    // A closed stdout is not an error.
    let _ = writeln!(stdout(), "{line}");
}

/// Prints a value as indented JSON to stdout.
pub(crate) fn print_json(value: &Value) {
    outln!("{value:#}");
}

/// Prints an answer of the daemon as indented JSON to stdout.
pub(crate) fn print_serialized(value: &impl serde::Serialize) -> Result<()> {
    print_json(&serde_json::to_value(value).map_err(Fault::internal)?);
    Ok(())
}

/// Prints a line to stderr.
pub(crate) fn eprint_line(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

/// Whether the log shares stderr with all other output.
static HAS_LOG: AtomicBool = AtomicBool::new(false);

/// Prepares stderr for the log: no status line is shown.
pub(crate) fn share_stderr_with_log() {
    HAS_LOG.store(true, Ordering::Relaxed);
}

/// Prints a line of the log to stderr. On a terminal, it gets a line of its own.
pub(crate) fn eprint_log(line: &str) {
    let is_inside = io::stderr().is_terminal() && terminal_filter::is_mid_line();
    let before = if is_inside { "\n" } else { "" };
    let _ = stderr().write_all(format!("{before}{line}\n").as_bytes());
}

/// Prints warnings, which may contain foreign text, to stderr.
pub(crate) fn warn(remarks: &[String]) {
    remarks.iter().for_each(|it| eprint_line(&sanitize(it)));
}

/// Prints an error and its hint to stderr.
pub(crate) fn print_fault(fault: &Fault) {
    let Outcome { message, hint, .. } = fault.outcome();
    let bad = style::BAD.bold();
    errln!("{bad}error:{bad:#} {}", sanitize(&message));
    if let Some(hint) = hint {
        errln!("  hint: {}", sanitize(&hint));
    }
}

/// Prints a JSON object with `--output json` even for a run that could not start, so that scripts
/// find the cause in the usual place.
pub(crate) fn reporting<T>(format: Format, begun: Result<T>) -> Result<T> {
    begun.inspect_err(|fault| {
        if format == Format::Json {
            let outcome = fault.outcome();
            print_json(&json!({ "errors": [outcome.message], "outcome": outcome }));
        }
    })
}

/// Handles a write error on stdout. A closed pipe (`| head`) is not an error.
pub(crate) fn on_write_error(error: &io::Error) -> Result<Code> {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Ok(exit::OK);
    }
    Err(Fault::internal(format!("cannot write the output: {error}")))
}
