//! `ostler replay`: shows a recording in the output formats of a run, without starting an agent.

use std::io::{BufRead, BufReader, Read};

use ostler::dialect::Dialect;
use ostler::spec::Settings;
use ostler::testing::Replay;
use ostler::{Event, EventKind, Spec};

use crate::args::ReplayArgs;
use crate::config::load_for;
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::output::style::WARN;
use crate::output::{self, Output, View};
use crate::spec::{ChosenAgent, apply_set_flags, find_agent};

/// Reads a recording and shows it.
pub(crate) fn run(args: &ReplayArgs) -> Result<Code> {
    let named = args
        .agent
        .as_deref()
        .map(|name| find_agent(&load_for(name)?, name))
        .transpose()?;
    let mut source: Box<dyn Read> = if args.file.as_os_str() == "-" {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(&args.file).map_err(|error| unreadable(args, &error))?)
    };
    let mut opening = Vec::new();
    let limit = u64::try_from(Replay::OPENING).unwrap_or(u64::MAX);
    source
        .by_ref()
        .take(limit)
        .read_to_end(&mut opening)
        .map_err(|error| unreadable(args, &error))?;
    let recording = recognize(args, named.as_ref(), &opening)?;
    let mut shown = Viewer {
        output: output::open(args.format(), View::default()),
        code: None,
    };
    let bytes = opening.chain(source);
    let written = match recording {
        Recording::Events => show_events(args, BufReader::new(bytes), &mut shown)?,
        Recording::Raw(dialect, spec) => {
            show_raw(args, bytes, Replay::new(dialect, &spec), &mut shown)?
        }
    };
    let Viewer { output, code } = shown;
    drop(output); // ends the last line
    match (written, code) {
        (Ok(()), Some(code)) => Ok(code),
        (Ok(()), None) => {
            errln!(
                "{WARN}!{WARN:#} the recording is incomplete: the session was cut off or still running"
            );
            Ok(exit::FAILED)
        }
        (Err(error), _) => output::on_write_error(&error),
    }
}

/// Contents of a recording.
enum Recording {
    /// Events, as `--output events` prints them, with their times.
    Events,
    /// Raw output of an agent, as `--raw-log` writes it. It has no times.
    Raw(&'static dyn Dialect, Box<Spec>),
}

/// Returns the name of the file for people.
fn display_name(args: &ReplayArgs) -> String {
    if args.file.as_os_str() == "-" {
        "stdin".to_owned()
    } else {
        args.file.display().to_string()
    }
}

fn unreadable(args: &ReplayArgs, error: &std::io::Error) -> Fault {
    usage!("cannot read {}: {error}", display_name(args))
}

/// Determines the kind of recording from the beginning of the file and the flags.
fn recognize(args: &ReplayArgs, named: Option<&ChosenAgent>, opening: &[u8]) -> Result<Recording> {
    let file = display_name(args);
    if opening.is_empty() {
        return Err(usage!("{file} is empty"));
    }
    let text = String::from_utf8_lossy(opening);
    if text
        .lines()
        .find(|line| !line.trim().is_empty())
        .is_some_and(|line| Event::from_json(line).is_ok())
    {
        return Ok(Recording::Events);
    }
    let (mut spec, mut settings) = (Box::new(Spec::default()), Settings::default());
    apply_set_flags(&mut settings, &args.set)?;
    spec.apply(&settings).map_err(|error| usage!("{error}"))?;
    let recognized = Replay::recognize(opening);
    let kind = "a recording is the output of `--raw-log` or `--output events`";
    let Some(ChosenAgent { name, agent }) = named else {
        return recognized
            .map(|dialect| Recording::Raw(dialect, spec))
            .ok_or_else(|| {
                usage!("{file} is not a recording of a known agent").hint(format!(
                    "{kind}; use `--agent NAME` to read it as the output of that agent"
                ))
            });
    };
    let dialect = agent.dialect();
    match recognized.filter(|known| known.about().name == dialect.about().name) {
        // The dialect of the recorded transport.
        Some(known) if args.set.is_empty() => Ok(Recording::Raw(known, spec)),
        Some(_) => Ok(Recording::Raw(dialect, spec)),
        None if is_recording_of(dialect, &spec, opening) => Ok(Recording::Raw(dialect, spec)),
        None => {
            let hint = match recognized {
                Some(known) => format!(
                    "it looks like a recording of {}; omit `--agent`",
                    known.about().name
                ),
                None => kind.to_owned(),
            };
            Err(usage!("{file} is not a recording of {name}").hint(hint))
        }
    }
}

/// Returns true if the beginning of the recording contains output in this dialect.
fn is_recording_of(dialect: &'static dyn Dialect, spec: &Spec, opening: &[u8]) -> bool {
    let mut replay = Replay::new(dialect, spec);
    let mut events = replay.push(opening);
    events.extend(replay.finish());
    events.iter().any(|event| {
        matches!(
            event.kind,
            EventKind::Started(_)
                | EventKind::Text(_)
                | EventKind::ToolCall(_)
                | EventKind::ToolResult(_)
                | EventKind::Usage(_)
        )
    })
}

/// Output for events, and the resulting exit code.
struct Viewer {
    output: Box<dyn Output>,
    code: Option<Code>,
}

impl Viewer {
    fn show(&mut self, events: Vec<Event>) -> std::io::Result<()> {
        for event in events {
            if let EventKind::Ended(ended) = &event.kind {
                self.code = Some(exit::of(ended.outcome.cause));
            }
            self.output.event(&event)?;
        }
        self.output.flush()
    }
}

/// Whether the output could be written.
type Written = std::io::Result<()>;

fn show_raw(
    args: &ReplayArgs,
    mut source: impl Read,
    mut replay: Replay,
    shown: &mut Viewer,
) -> Result<Written> {
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let n = source
            .read(&mut chunk)
            .map_err(|error| unreadable(args, &error))?;
        if n == 0 {
            return Ok(shown.show(replay.finish()));
        }
        if let Err(error) = shown.show(replay.push(&chunk[..n])) {
            return Ok(Err(error));
        }
    }
}

fn show_events(args: &ReplayArgs, source: impl BufRead, shown: &mut Viewer) -> Result<Written> {
    for (at, line) in source.lines().enumerate() {
        let line = line.map_err(|error| unreadable(args, &error))?;
        if line.trim().is_empty() {
            continue;
        }
        let event = Event::from_json(&line)
            .map_err(|error| usage!("{}:{}: not an event: {error}", display_name(args), at + 1))?;
        if let Err(error) = shown.show(vec![event]) {
            return Ok(Err(error));
        }
    }
    Ok(Ok(()))
}
