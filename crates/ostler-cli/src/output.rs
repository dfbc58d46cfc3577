//! What a run looks like: one trait, one file per form. Only this folder writes to stdout and stderr.

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
use ostler::clip::plain;
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
pub(crate) use self::value::{name, visible, word};
pub(crate) use self::wrap::wrap_lines;
pub(crate) use self::writer::{Batch, Writer};
use crate::args::{Format, ViewArgs};
use crate::environment;
use crate::exit::{self, Code};
use crate::fault::Fault;

/// The colours, each with one meaning; the words say the same without them.
pub(crate) mod style {
    use anstyle::{AnsiColor, Style};

    pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
    pub(crate) const BAD: Style = AnsiColor::Red.on_default();
    pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
    pub(crate) const DIM: Style = Style::new().dimmed();
    pub(crate) const TOOL: Style = AnsiColor::Cyan.on_default();
}

/// A form in which events are shown. What it writes to stdout can fail; stderr is only told, and may be closed.
pub(crate) trait Output: Send {
    /// Shows an event.
    fn event(&mut self, event: &Event) -> io::Result<()>;

    /// Everything that was shown must be visible now.
    fn flush(&mut self) -> io::Result<()>;

    /// A moment has passed, so long after the beginning: a status line may want to move.
    fn tick(&mut self, _elapsed: Duration) {}

    /// The person at the keyboard did something that deserves a word.
    fn remark(&mut self, _words: &str) {}

    /// A line of our own about what is going on.
    fn line(&mut self, _line: &str) {}

    /// A question to the person at the keyboard, who types the answer behind it.
    fn question(&mut self, _question: &QuestionText) {}

    /// The answer was typed: the next thing begins on a line of its own.
    fn answered(&mut self) {}

    /// Whether [`Output::tick`] does anything.
    fn is_live(&self) -> bool {
        false
    }
}

/// A question as it is shown: what it is about, and where the answer goes.
#[derive(Debug, Clone, Default)]
pub(crate) struct QuestionText {
    pub(crate) lines: Vec<String>,
    pub(crate) prompt: String,
}

/// Whether events happen now or were recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    Now,
    Recorded,
}

/// Where a session that is shown can be found again.
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

/// Options of the human output, and what it knows of the run besides its events.
#[derive(Clone, Default)]
pub(crate) struct View {
    pub(crate) args: ViewArgs,
    /// The workspace, if it is known beforehand.
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

/// Opens the output for a form of a recording, which is not stored.
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

/// Opens the output for a form of what happens now.
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

/// Opens the output for a stored session that is shown again: for people with what they said.
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

/// Stdout and stderr as people see them.
fn screens() -> (Box<dyn Write + Send>, Box<dyn Write + Send>) {
    (Box::new(stdout()), Box::new(aside()))
}

/// What to type to go on with a loop, but for its session and what is said to it.
pub(crate) struct ResumeCommand(pub(crate) String);

impl ResumeCommand {
    /// The whole line, for a session that can be typed.
    fn line(&self, session: &str, words: &str) -> String {
        format!("{} --resume {session} \"{words}\"", self.0)
    }
}

/// Opens the output of a loop, which says how to go on with it.
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

/// Opens the output of a conversation: that for people, turn by turn. `place` says where what is written goes while
/// something else, a line editor, may stand on the screen.
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

/// The width of the terminal.
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

/// The status line, which is shown where stderr is a terminal that a person looks at.
pub(crate) fn status() -> Status {
    let live = io::stderr().is_terminal() && !environment::is_ci() && !environment::is_dumb();
    Status::new(live.then(|| Box::new(io::stderr()) as Box<dyn Write + Send>))
}

/// The width that lines are wrapped at: that of the terminal, within reason; 80 columns elsewhere.
pub(crate) fn width() -> usize {
    columns().clamp(40, 110)
}

/// Prints bytes for another program: no colours, no line break of our own.
pub(crate) fn print_bytes(bytes: &[u8]) -> io::Result<()> {
    let mut out = TerminalFilter::stdout();
    out.write_all(bytes).and_then(|()| out.flush())
}

/// A warning on one line, for the forms that show only the answer.
pub(crate) fn warning(notice: &Notice) -> String {
    format!("warning: {}", word(&notice.message, 2000))
}

/// Stdout with colours where they can be seen, behind the door.
fn stdout() -> AutoStream<Box<dyn Write + Send>> {
    AutoStream::new(
        Box::new(TerminalFilter::stdout()),
        AutoStream::choice(&io::stdout()),
    )
}

/// Stderr in the same way.
fn stderr() -> AutoStream<Box<dyn Write + Send>> {
    AutoStream::new(
        Box::new(TerminalFilter::stderr()),
        AutoStream::choice(&io::stderr()),
    )
}

/// Stderr as a run uses it.
fn aside() -> impl Write + Send {
    IgnoreErrors(stderr())
}

/// A writer whose reader may go away without anybody minding: the answer is on stdout.
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

/// Prints a line of data.
pub(crate) fn say(line: &str) {
    // If nobody reads it, nobody misses it.
    let _ = writeln!(stdout(), "{line}");
}

/// Prints a line about what is going on.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

/// Shows what went wrong, and what to do.
pub(crate) fn show(fault: &Fault) {
    let Outcome { message, hint, .. } = fault.outcome();
    let bad = style::BAD.bold();
    tell(&format!("{bad}error:{bad:#} {}", plain(&message)));
    if let Some(hint) = hint {
        tell(&format!("  hint: {}", plain(&hint)));
    }
}

/// With `--output json`, a run that could not begin gives an object too: a script finds the cause where it always is.
pub(crate) fn reporting<T>(format: Format, begun: Result<T, Fault>) -> Result<T, Fault> {
    begun.inspect_err(|fault| {
        if format == Format::Json {
            let outcome = fault.outcome();
            let report = serde_json::json!({ "errors": [outcome.message], "outcome": outcome });
            say(&format!("{report:#}"));
        }
    })
}

/// What to do when the output cannot be written: a reader that has gone (`| head`) is not an error.
pub(crate) fn gone(error: &io::Error) -> Result<Code, Fault> {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Ok(exit::OK);
    }
    Err(Fault::internal(format!(
        "the output cannot be written: {error}"
    )))
}
