//! What a run looks like: one trait, one file per form. Only this folder writes to stdout and stderr.

mod events;
mod human;
mod json;
mod rounds;
mod status;
mod text;
mod value;
mod writer;

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anstream::AutoStream;
use ostler::clip::plain;
use ostler::event::Notice;
use ostler::{Event, Outcome};

pub(crate) use self::human::{spent, thousands};
use self::rounds::Rounds;
use self::value::is_safe_to_type;
pub(crate) use self::value::{name, visible, word};
pub(crate) use self::writer::{Batch, Writer};
use crate::args::Format;
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
    fn question(&mut self, _question: &Question) {}

    /// The answer was typed: the next thing begins on a line of its own.
    fn answered(&mut self) {}

    /// Whether [`Output::tick`] does anything.
    fn is_live(&self) -> bool {
        false
    }
}

/// A question as it is shown: what it is about, and where the answer goes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Question {
    pub(crate) lines: Vec<String>,
    pub(crate) prompt: String,
}

/// Whether events happen now or were recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    Now,
    Recorded,
}

/// Opens the output for a form.
pub(crate) fn open(format: Format, liveness: Liveness) -> Box<dyn Output> {
    match format {
        Format::Events => Box::new(events::Events::new(io::BufWriter::with_capacity(64 * 1024, io::stdout()))),
        Format::Json => Box::new(json::Json::new(io::stdout(), Box::new(aside()))),
        Format::Text => Box::new(text()),
        Format::Human => Box::new(human(screens(), liveness)),
    }
}

fn text() -> text::Text {
    text::Text::new(Box::new(io::stdout()), Box::new(aside()), io::stdout().is_terminal())
}

/// Stdout and stderr as people see them.
fn screens() -> (Box<dyn Write + Send>, Box<dyn Write + Send>) {
    (Box::new(anstream::stdout()), Box::new(aside()))
}

/// What to type to go on with a loop, but for its session and what is said to it.
pub(crate) struct Again(pub(crate) String);

impl Again {
    /// The whole line, for a session that can be typed.
    fn line(&self, session: &str, words: &str) -> String {
        format!("{} --resume {session} \"{words}\"", self.0)
    }
}

/// Opens the output of a loop, which says how to go on with it.
pub(crate) fn open_loop(format: Format, again: Option<Again>) -> Box<dyn Output> {
    match format {
        Format::Human => Box::new(human(screens(), Liveness::Now).for_loop(Rounds::new(again))),
        Format::Text => Box::new(text().for_loop(Rounds::new(again))),
        format => open(format, Liveness::Now),
    }
}

/// Opens the output of a conversation: that for people, turn by turn. `place` says where what is written goes while
/// something else, a line editor, may stand on the screen.
pub(crate) fn open_chat(place: impl Fn(Box<dyn Write + Send>) -> Box<dyn Write + Send>) -> Box<dyn Output> {
    let out = AutoStream::new(place(Box::new(io::stdout())), AutoStream::choice(&io::stdout()));
    let err = AutoStream::new(place(Box::new(io::stderr())), AutoStream::choice(&io::stderr()));
    Box::new(human((Box::new(out), Box::new(Heedless(err))), Liveness::Now).for_chat())
}

fn human((out, err): (Box<dyn Write + Send>, Box<dyn Write + Send>), liveness: Liveness) -> human::Human {
    let is_screen = io::stderr().is_terminal();
    let live = liveness == Liveness::Now && is_screen && !environment::is_ci() && !environment::is_dumb();
    let status = status::Status::new(live.then(|| Box::new(io::stderr()) as Box<dyn Write + Send>));
    human::Human::new(out, err, status, io::stdout().is_terminal() && is_screen)
}

/// The code of a notice that the session is not kept any more.
const NOT_KEPT: &str = "store_failed";

/// That notice on one line, for the forms that show no others: whoever looks for the session later must have been told.
fn not_kept(notice: &Notice) -> String {
    format!("warning: {}", word(&notice.message, 500))
}

/// Stderr as a run uses it.
fn aside() -> impl Write + Send {
    Heedless(anstream::stderr())
}

/// A writer whose reader may go away without anybody minding: the answer is on stdout.
struct Heedless<W>(W);

impl<W: Write> Write for Heedless<W> {
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
    let _ = writeln!(anstream::stdout(), "{line}");
}

/// Prints a line about what is going on.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(anstream::stderr(), "{line}");
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
    Err(Fault::internal(format!("the output cannot be written: {error}")))
}
