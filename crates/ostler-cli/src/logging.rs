//! The log: what Ostler does, one line per event, on stderr or in a file.
//!
//! A line has the time, the level, the part of Ostler, a message and its fields. The fields of the
//! enclosing spans (turn, process, session, agent) follow. On stderr, times have no date and
//! session ids are short.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{IsTerminal, Write as _};
use std::path::Path;
use std::sync::Mutex;

use anstyle::Style;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber, span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

use crate::args::{LogArgs, LogFilter, Verb};
use crate::fault::{Fault, Result};
use crate::output::style;
use crate::{environment, output};

/// Environment variables with the same meaning as the flags, which take precedence.
const LEVEL_VARIABLE: &str = "OSTLER_LOG";
const FILE_VARIABLE: &str = "OSTLER_LOG_FILE";

/// Maximum length of a value, in characters.
const MAX_VALUE: usize = 4096;

/// Starts the log of a verb, if one was asked for.
pub(crate) fn start(args: LogArgs, verb: &Verb) -> Result<()> {
    let set = |name: &str| environment::variable(name).filter(|value| !value.is_empty());
    let filter = match (args.log, set(LEVEL_VARIABLE)) {
        (Some(filter), _) => Some(filter),
        (None, Some(text)) => Some(parse_variable(&text.to_string_lossy())?),
        (None, None) => None,
    };
    let file = args.log_file.or_else(|| set(FILE_VARIABLE).map(Into::into));
    let (filter, sink) = match (filter, file) {
        (None, None) => return Ok(()),
        (filter, Some(file)) => (filter.unwrap_or_default(), Sink::file(&file)?),
        (Some(filter), None) => (filter, Sink::Stderr),
    };
    if matches!(sink, Sink::Stderr) {
        if matches!(verb, Verb::Chat(_) | Verb::Attach(_)) && std::io::stderr().is_terminal() {
            return Err(Fault::usage("a chat and its log cannot share the terminal")
                .hint("add `--log-file FILE`, or redirect stderr with `2>FILE`"));
        }
        output::share_stderr_with_log();
    }
    let lines = Lines { sink }.with_filter(filter.0);
    tracing::subscriber::set_global_default(Registry::default().with(lines))
        .map_err(Fault::internal)
}

fn parse_variable(text: &str) -> Result<LogFilter> {
    text.parse()
        .map_err(|error| usage!("{LEVEL_VARIABLE}: {error}"))
}

/// Destination of the lines.
enum Sink {
    Stderr,
    File(Mutex<File>),
}

impl Sink {
    /// Opens a file to append to. Only its owner can read it.
    fn file(path: &Path) -> Result<Self> {
        let mut options = File::options();
        options.append(true).create(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            // A link in a project must not choose the file, and a pipe without a reader must not
            // block.
            let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
            options
                .mode(0o600)
                .custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
        }
        let file = options.open(path).and_then(make_private);
        file.map(|file| Self::File(Mutex::new(file)))
            .map_err(|error| usage!("cannot open the log {}: {error}", path.display()))
    }
}

/// Restricts an existing file to its owner.
fn make_private(file: File) -> std::io::Result<File> {
    #[cfg(unix)]
    if file.metadata()?.is_file() {
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    }
    Ok(file)
}

/// Writes a line for each event.
struct Lines {
    sink: Sink,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(
        &self,
        attributes: &span::Attributes<'_>,
        id: &span::Id,
        context: Context<'_, S>,
    ) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut scope = Fields::default();
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(outer) = span.extensions().get::<Fields>() {
                scope.extend(outer);
            }
        }
        scope.values.retain(|(name, _)| !fields.has(name));
        let metadata = event.metadata();
        let line = Line {
            level: *metadata.level(),
            part: part(metadata.target()),
            fields,
            scope,
        };
        match &self.sink {
            Sink::Stderr => output::eprint_log(&line.text(Form::Short)),
            Sink::File(file) => {
                let text = format!("{}\n", line.text(Form::Full));
                // A log that cannot be written does not stop the program.
                if let Ok(mut file) = file.lock() {
                    let _ = file.write_all(text.as_bytes());
                }
            }
        }
    }
}

/// Returns the short name of a part: `store` for `ostler_store::writer`, `process` for
/// `ostler::process::direct`.
fn part(target: &str) -> &str {
    let mut modules = target.split("::");
    let first = modules.next().unwrap_or(target);
    match first.strip_prefix("ostler_") {
        Some(name) => name,
        None if first == "ostler" => modules.next().unwrap_or(first),
        None => first,
    }
}

/// Fields of an event or a span.
#[derive(Debug, Default)]
struct Fields {
    message: String,
    values: Vec<(&'static str, String)>,
}

impl Fields {
    fn has(&self, name: &str) -> bool {
        self.values.iter().any(|(known, _)| *known == name)
    }

    /// Adds the fields of an enclosing span that an inner one does not have.
    fn extend(&mut self, outer: &Self) {
        let more = outer.values.iter().filter(|(name, _)| !self.has(name));
        let more: Vec<_> = more.cloned().collect();
        self.values.extend(more);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            name => self.values.push((name, text)),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

/// One line of the log.
struct Line<'a> {
    level: Level,
    part: &'a str,
    fields: Fields,
    scope: Fields,
}

/// Form of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// For people: with colours, the time of day, and short ids.
    Short,
    /// For a file: everything, in plain text.
    Full,
}

/// Length of `2026-11-17T`.
const DATE: usize = 11;

/// Length of a short session id, as in the list of sessions.
const SHORT_ID: usize = 8;

impl Line<'_> {
    fn text(&self, form: Form) -> String {
        let style = |style: Style| match form {
            Form::Short => style,
            Form::Full => Style::new(),
        };
        let level = style(match self.level {
            Level::ERROR => style::BAD,
            Level::WARN => style::WARN,
            Level::INFO => style::GOOD,
            _ => style::DIM,
        });
        let dim = style(style::DIM);
        let time = environment::now().to_string();
        let time = match form {
            Form::Short => time.get(DATE..).unwrap_or(&time),
            Form::Full => &time,
        };
        let mut line = format!(
            "{dim}{time}{dim:#} {level}{:5}{level:#} {}: {}",
            self.level.as_str(),
            self.part,
            output::one_line(&self.fields.message, MAX_VALUE),
        );
        append(&mut line, &self.fields, form);
        if !self.scope.values.is_empty() {
            let _ = write!(line, "{dim}"); // writing to a string cannot fail
            append(&mut line, &self.scope, form);
            let _ = write!(line, "{dim:#}");
        }
        line
    }
}

fn append(line: &mut String, fields: &Fields, form: Form) {
    for (name, value) in &fields.values {
        let shown = match (form, *name) {
            (Form::Short, "session") => value.get(..SHORT_ID).unwrap_or(value),
            _ => value,
        };
        let _ = write!(line, " {name}={}", quoted(shown));
    }
}

/// Returns a value as one word, in quotes if it contains anything but letters, digits and usual
/// punctuation.
fn quoted(value: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:+@%,*()[]{}~".contains(c);
    if !value.is_empty() && value.chars().all(is_plain) && value.chars().count() <= MAX_VALUE {
        return value.to_owned();
    }
    let cut = value.char_indices().nth(MAX_VALUE);
    let (shown, more) = cut.map_or((value, ""), |(at, _)| (&value[..at], "…"));
    format!("{shown:?}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_one_word_each() {
        let long = "x".repeat(MAX_VALUE + 1);
        for (value, want) in [
            ("claude", "claude"),
            ("/usr/bin/é", "/usr/bin/é"),
            ("", r#""""#),
            ("two words", r#""two words""#),
            ("a=b", r#""a=b""#),
            (
                "line\nbreak \u{1b}[2J \u{202e}",
                r#""line\nbreak \u{1b}[2J \u{202e}""#,
            ),
            (&long, &format!("{:?}…", "x".repeat(MAX_VALUE))),
        ] {
            assert_eq!(quoted(value), want);
        }
    }

    #[test]
    fn parts_have_short_names() {
        for (target, want) in [
            ("ostler::process::direct", "process"),
            ("ostler_store::writer", "store"),
            ("ostler_acp", "acp"),
            ("ostler", "ostler"),
            ("hyper_util::client::legacy", "hyper_util"),
        ] {
            assert_eq!(part(target), want);
        }
    }

    #[test]
    fn inner_fields_hide_outer_ones() {
        let of = |values: &[(&'static str, &str)]| Fields {
            message: "agent started".into(),
            values: values
                .iter()
                .map(|(name, value)| (*name, (*value).to_owned()))
                .collect(),
        };
        let mut scope = of(&[("turn", "2")]);
        scope.extend(&of(&[("turn", "1"), ("session", "0f8fad5b-d9cb")]));
        let line = Line {
            level: Level::INFO,
            part: "session",
            fields: of(&[("pid", "7")]),
            scope,
        };
        let text = line.text(Form::Full);
        let (time, rest) = text.split_once(' ').unwrap();
        assert_eq!(
            rest,
            "INFO  session: agent started pid=7 turn=2 session=0f8fad5b-d9cb"
        );
        assert_eq!(time.len(), "2026-11-17T17:35:33.839Z".len());
        let text = line.text(Form::Short);
        assert!(
            text.contains("\u{1b}[32mINFO \u{1b}[0m session: agent started"),
            "{text:?}"
        );
        assert!(text.contains(" session=0f8fad5b\u{1b}"), "{text:?}");
    }
}
