//! Output formats: one trait, one module per format. Only this module writes to stdout and stderr.

mod diff;
mod terminal_filter;
mod events;
mod human;
mod json;
mod markdown;
mod notify;
mod loop_progress;
mod status;
mod table;
mod text;
mod tools;
mod value;
mod wrap;
mod writer;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use anstream::AutoStream;
use ostler::clip::sanitize;
use ostler::event::Notice;
use ostler::{Event, Outcome};

pub(crate) use self::human::{thousands, usage_summary};
use self::loop_progress::LoopProgress;
pub(crate) use self::status::Status;
pub(crate) use self::table::{Align, table};
pub(crate) use self::terminal_filter::TerminalFilter;
pub(crate) use self::tools::Dialects;
use self::tools::{Detail, Tools};
use self::value::is_safe_to_type;
pub(crate) use self::value::{name, one_line, visible};
pub(crate) use self::wrap::wrap_lines;
pub(crate) use self::writer::{Batch, Writer};
use crate::args::{Format, ViewArgs};
use crate::environment;
use crate::exit::{self, Code};
use crate::fault::Fault;

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

    /// Shows a warning in response to user input.
    fn remark(&mut self, _words: &str) {}

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
#[derive(Debug, Clone, Default)]
pub(crate) struct QuestionText {
    pub(crate) lines: Vec<String>,
    pub(crate) prompt: String,
}

/// Whether events are live or recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    Now,
    Recorded,
}

/// Whether a shown session is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Stored {
    #[default]
    Yes,
    No,
}

impl Stored {
    pub(crate) fn of<T>(store: Option<&T>) -> Self {
        if store.is_some() { Self::Yes } else { Self::No }
    }
}

/// Options and context of the human format.
#[derive(Clone, Default)]
pub(crate) struct View {
    pub(crate) args: ViewArgs,
    /// The workspace, if it is known up front.
    pub(crate) dir: Option<PathBuf>,
    pub(crate) dialects: Dialects,
    pub(crate) stored: Stored,
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

/// Opens the output for a recording, which is not stored.
pub(crate) fn open(format: Format, liveness: Liveness) -> Box<dyn Output> {
    open_view(
        format,
        liveness,
        View {
            stored: Stored::No,
            ..View::default()
        },
    )
}

/// Opens the output for a live run.
pub(crate) fn open_run(format: Format, view: View) -> Box<dyn Output> {
    open_view(format, Liveness::Now, view)
}

fn open_view(format: Format, liveness: Liveness, view: View) -> Box<dyn Output> {
    match format {
        Format::Events => Box::new(events::Events::new(io::BufWriter::with_capacity(
            64 * 1024,
            TerminalFilter::stdout(),
        ))),
        Format::Json => Box::new(json::Json::new(TerminalFilter::stdout(), Box::new(aside()))),
        Format::Text => Box::new(text()),
        Format::Human => Box::new(human(screens(), liveness, view)),
    }
}

/// Opens the output for a stored session. The human format includes the prompts.
pub(crate) fn open_stored(format: Format) -> Box<dyn Output> {
    match format {
        Format::Human => {
            Box::new(human(screens(), Liveness::Recorded, View::default()).with_prompts())
        }
        format => open_view(format, Liveness::Recorded, View::default()),
    }
}

fn text() -> text::Text {
    text::Text::new(
        Box::new(TerminalFilter::stdout()),
        Box::new(aside()),
        io::stdout().is_terminal(),
    )
}

/// Returns stdout and stderr for the human format.
fn screens() -> (Box<dyn Write + Send>, Box<dyn Write + Send>) {
    (Box::new(stdout()), Box::new(aside()))
}

/// The command line that resumes a loop, without session and message.
pub(crate) struct ResumeCommand(pub(crate) String);

impl ResumeCommand {
    /// Returns the complete command line.
    fn line(&self, session: &str, words: &str) -> String {
        format!("{} --resume {session} \"{words}\"", self.0)
    }
}

/// Opens the output of a loop, which shows how to resume it.
pub(crate) fn open_loop(
    format: Format,
    again: Option<ResumeCommand>,
    view: View,
) -> Box<dyn Output> {
    match format {
        Format::Human => {
            Box::new(human(screens(), Liveness::Now, view).for_loop(LoopProgress::new(again)))
        }
        Format::Text => Box::new(text().for_loop(LoopProgress::new(again))),
        format => open_run(format, view),
    }
}

/// Opens the human output for a chat. `place` wraps the writers, so that output does not disturb
/// the line editor.
pub(crate) fn open_chat(
    view: View,
    place: impl Fn(Box<dyn Write + Send>) -> Box<dyn Write + Send>,
) -> Box<dyn Output> {
    let out = TerminalFilter::new(place(Box::new(io::stdout())), io::stdout().is_terminal());
    let err = TerminalFilter::new(place(Box::new(io::stderr())), io::stderr().is_terminal());
    let out = AutoStream::new(
        Box::new(out) as Box<dyn Write + Send>,
        AutoStream::choice(&io::stdout()),
    );
    let err = AutoStream::new(
        Box::new(err) as Box<dyn Write + Send>,
        AutoStream::choice(&io::stderr()),
    );
    Box::new(
        human(
            (Box::new(out), Box::new(IgnoreErrors(err))),
            Liveness::Now,
            view,
        )
        .for_chat(),
    )
}

fn human(
    (out, err): (Box<dyn Write + Send>, Box<dyn Write + Send>),
    liveness: Liveness,
    view: View,
) -> human::Human {
    let (is_screen, is_out_screen) = (io::stderr().is_terminal(), io::stdout().is_terminal());
    let is_now = liveness == Liveness::Now;
    let terminal = || Box::new(io::stderr()) as Box<dyn Write + Send>;
    let detail = view.detail();
    let mut tools = Tools::new(detail, view.dialects, is_now);
    if let Some(dir) = &view.dir {
        tools.work_in(dir);
    }
    let how = view.args.notify.filter(|_| is_now && is_screen);
    let human = human::Human::new(human::Parts {
        out,
        err,
        status: if is_now { status() } else { Status::new(None) },
        same_screen: is_out_screen && is_screen,
        reply: (is_out_screen && !environment::is_dumb()).then(markdown::Markdown::new),
        thinking: (is_screen && !environment::is_dumb())
            .then(|| markdown::Markdown::plain(style::DIM)),
        tools,
        detail,
        notify: how.map(|how| notify::Notify::new(terminal(), how)),
    });
    if view.stored == Stored::Yes {
        human
    } else {
        human.unstored()
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
    let live = io::stderr().is_terminal() && !environment::is_ci() && !environment::is_dumb();
    Status::new(live.then(|| Box::new(io::stderr()) as Box<dyn Write + Send>))
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

/// Returns filtered stdout, with colours if it is a terminal.
fn stdout() -> AutoStream<Box<dyn Write + Send>> {
    AutoStream::new(
        Box::new(TerminalFilter::stdout()),
        AutoStream::choice(&io::stdout()),
    )
}

/// Returns filtered stderr, with colours if it is a terminal.
fn stderr() -> AutoStream<Box<dyn Write + Send>> {
    AutoStream::new(
        Box::new(TerminalFilter::stderr()),
        AutoStream::choice(&io::stderr()),
    )
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

/// Prints a line to stderr.
pub(crate) fn eprint_line(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

/// Prints an error and its hint to stderr.
pub(crate) fn print_fault(fault: &Fault) {
    let Outcome { message, hint, .. } = fault.outcome();
    let bad = style::BAD.bold();
    eprint_line(&format!("{bad}error:{bad:#} {}", sanitize(&message)));
    if let Some(hint) = hint {
        eprint_line(&format!("  hint: {}", sanitize(&hint)));
    }
}

/// Prints a JSON object with `--output json` even for a run that could not start, so that scripts
/// find the cause in the usual place.
pub(crate) fn reporting<T>(format: Format, begun: Result<T, Fault>) -> Result<T, Fault> {
    begun.inspect_err(|fault| {
        if format == Format::Json {
            let outcome = fault.outcome();
            let report = serde_json::json!({ "errors": [outcome.message], "outcome": outcome });
            print_line(&format!("{report:#}"));
        }
    })
}

/// Handles a write error on stdout. A closed pipe (`| head`) is not an error.
pub(crate) fn on_write_error(error: &io::Error) -> Result<Code, Fault> {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Ok(exit::OK);
    }
    Err(Fault::internal(format!("cannot write the output: {error}")))
}
