//! `ostler eval normalize`: a transcript, a trajectory or events as a normalized log.

use std::path::Path;

use ostler::event::{Event, EventKind, Timestamp};
use ostler_eval::adapter::ExecutionStatus;
use ostler_eval::atif;
use ostler_eval::normalized::{
    ExecutionFacts, LogFormat, NormalizedLog, from_atif, from_events, from_text,
};

use crate::args::{EvalNormalizeArgs, LogFormatName};
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::{environment, output};

/// Largest file that is read.
const MAX_FILE: u64 = 64 * 1024 * 1024;

/// Returns what is known about an execution of which nothing is known.
pub(super) fn unknown(agent: &str) -> ExecutionFacts {
    ExecutionFacts {
        agent: agent.to_owned(),
        agent_version: None,
        adapter_version: env!("CARGO_PKG_VERSION").to_owned(),
        configured_model: None,
        provider: None,
        status: ExecutionStatus::Success,
        exit_code: None,
        started_at: String::new(),
        completed_at: String::new(),
        duration_ms: 0,
        working_directory: String::new(),
        errors: Vec::new(),
    }
}

/// Returns the format of a name on the command line.
pub(super) fn format(name: LogFormatName) -> LogFormat {
    match name {
        LogFormatName::Contract => LogFormat::Contract,
        LogFormatName::Youbencha10 => LogFormat::Published,
    }
}

/// Reads the file, and prints or writes the log.
pub(super) fn normalize(args: &EvalNormalizeArgs) -> Result<Code> {
    let log = read(args)?;
    let value = format(args.log_format)
        .to_json(&log)
        .map_err(Fault::internal)?;
    let text = serde_json::to_string_pretty(&value).map_err(Fault::internal)?;
    match &args.out {
        Some(path) => std::fs::write(path, text + "\n")
            .map_err(|error| usage!("cannot write {}: {error}", path.display()))?,
        None => output::print_line(&text),
    }
    Ok(exit::OK)
}

fn read(args: &EvalNormalizeArgs) -> Result<NormalizedLog> {
    let (text, at) = read_file(&args.file)?;
    let dir = environment::directory().map_err(Fault::internal)?;
    let facts = ExecutionFacts {
        configured_model: args.model.clone(),
        status: match args.exit_code {
            None | Some(0) => ExecutionStatus::Success,
            Some(-1) => ExecutionStatus::Timeout,
            Some(_) => ExecutionStatus::Failed,
        },
        exit_code: args.exit_code,
        started_at: at.clone(),
        completed_at: at,
        working_directory: dir.display().to_string(),
        ..unknown(&args.agent)
    };
    if let Some(events) = events(&text) {
        return Ok(from_events(&of_events(facts, &events), &events));
    }
    if text.trim_start().starts_with('{') && text.contains("\"schema_version\"") {
        let trajectory =
            atif::read(&text).map_err(|error| usage!("{}: {error}", args.file.display()))?;
        return Ok(from_atif(&facts, &trajectory));
    }
    Ok(from_text(&facts, &text))
}

/// Reads a file as text, and returns when it was written.
fn read_file(path: &Path) -> Result<(String, String)> {
    let cannot = |error: std::io::Error| usage!("cannot read {}: {error}", path.display());
    let meta = std::fs::metadata(path).map_err(cannot)?;
    if meta.len() > MAX_FILE {
        let (length, path) = (meta.len(), path.display());
        return Err(usage!(
            "{path} has {length} bytes; at most {MAX_FILE} are read"
        ));
    }
    let bytes = std::fs::read(path).map_err(cannot)?;
    let written = meta.modified().ok();
    let since = written.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    let millis = since.and_then(|since| i64::try_from(since.as_millis()).ok());
    let at = millis.map_or_else(environment::now, Timestamp);
    Ok((String::from_utf8_lossy(&bytes).into_owned(), at.to_string()))
}

/// Parses JSON lines of events; `None` if the first line is none.
fn events(text: &str) -> Option<Vec<Event>> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = Event::from_json(lines.next()?).ok()?;
    let rest = lines.filter_map(|line| Event::from_json(line).ok());
    Some(std::iter::once(first).chain(rest).collect())
}

/// Completes the facts with what events say about times and the ending.
fn of_events(mut facts: ExecutionFacts, events: &[Event]) -> ExecutionFacts {
    if let (Some(first), Some(last)) = (events.first(), events.last()) {
        facts.started_at = first.at.to_string();
        facts.completed_at = last.at.to_string();
        let duration = last.at.since(first.at).unwrap_or(0);
        facts.duration_ms = u64::try_from(duration).unwrap_or(0);
    }
    let ended = events.iter().rev().find_map(|event| match &event.kind {
        EventKind::Ended(ended) => Some(ended),
        _ => None,
    });
    if let Some(ended) = ended {
        facts.status = ExecutionStatus::of(&ended.outcome);
        facts.exit_code = facts.exit_code.or(ended.exit_code);
    }
    facts
}
