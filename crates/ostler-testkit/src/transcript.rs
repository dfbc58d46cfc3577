//! Transcripts: the lines exchanged between Ostler and an agent. The fake agent writes one when it
//! records an agent, and replays it when it stands in for one.
//!
//! One entry per line: `{"start":[arguments]}`, `{"in":…}` and `{"out":…}` with a line of JSON
//! verbatim (`in_text` and `out_text` hold any other line), `{"in_end":true}`, `{"told":signal}`.
//! At the end come `{"kept":[path, beginning]}` for a session that the agent stored in its home,
//! `{"stderr":…}`, and `{"exit":code}` or `{"signal":number}`.
//!
//! An entry is written before its line is forwarded, so that a response never precedes its
//! request. One file can contain several consecutive processes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Maximum length of a text that is recorded in full.
const LONG: usize = 4096;
/// Number of commands recorded from an agent's long list of commands: replaying does not need
/// them.
const COMMANDS: usize = 2;
/// Number of recorded lines of a plain text prompt: replaying skips the rest.
pub const PROMPT: usize = 20;
/// Minimum length of a file name that can be a session id.
const ID: usize = 16;
/// Number of recorded lines of such a file: enough to identify the session.
const HEAD: usize = 4;

/// An entry of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TranscriptEntry {
    /// A process was started.
    Start(Vec<String>),
    /// Ostler wrote a line.
    In(String),
    /// Ostler closed the input.
    InEnd,
    /// The agent wrote a line.
    Out(String),
    /// It stored a session file in its home: the path, and the first lines.
    SessionFile(String, String),
    /// The tail of its stderr.
    Stderr(String),
    /// It exited.
    Exit(u8),
    /// It was sent a signal, which it may handle.
    SignalSent(i32),
    /// A signal killed it.
    Signal(i32),
}

impl TranscriptEntry {
    /// Formats the entry as a line, without the newline.
    #[must_use]
    pub fn to_line(&self) -> String {
        match self {
            Self::Start(args) => json!({"start": args}).to_string(),
            Self::In(line) => line_entry("in", line),
            Self::InEnd => json!({"in_end": true}).to_string(),
            Self::Out(line) => line_entry("out", line),
            Self::SessionFile(path, text) => json!({"kept": [path, text]}).to_string(),
            Self::Stderr(text) => json!({"stderr": text}).to_string(),
            Self::Exit(code) => json!({"exit": code}).to_string(),
            Self::SignalSent(number) => json!({"told": number}).to_string(),
            Self::Signal(number) => json!({"signal": number}).to_string(),
        }
    }

    /// Parses a line; `None` if it is not an entry.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        // Verbatim: JSON that is parsed and formatted again differs from what the agent wrote.
        let exact = |mark: &str| Some(line.strip_prefix(mark)?.strip_suffix('}')?.to_owned());
        if let Some(line) = exact(r#"{"in":"#) {
            return Some(Self::In(line));
        }
        if let Some(line) = exact(r#"{"out":"#) {
            return Some(Self::Out(line));
        }
        let value: Value = serde_json::from_str(line).ok()?;
        let (name, value) = value.as_object()?.iter().next()?;
        let text = || value.as_str().map(str::to_owned);
        Some(match name.as_str() {
            "start" => Self::Start(serde_json::from_value(value.clone()).ok()?),
            "in_text" => Self::In(text()?),
            "in_end" => Self::InEnd,
            "out_text" => Self::Out(text()?),
            "kept" => {
                let [path, text]: [String; 2] = serde_json::from_value(value.clone()).ok()?;
                Self::SessionFile(path, text)
            }
            "stderr" => Self::Stderr(text()?),
            "exit" => Self::Exit(u8::try_from(value.as_u64()?).ok()?),
            "told" => Self::SignalSent(i32::try_from(value.as_i64()?).ok()?),
            "signal" => Self::Signal(i32::try_from(value.as_i64()?).ok()?),
            _ => return None,
        })
    }

    /// Truncates every text that is too long.
    #[must_use]
    pub fn truncated(self) -> Self {
        match self {
            Self::In(line) => Self::In(truncate_line(line)),
            Self::Out(line) => Self::Out(truncate_line(line)),
            other => other,
        }
    }
}

fn line_entry(direction: &str, line: &str) -> String {
    // JSON with surrounding whitespace would not round-trip; as text it does.
    let exact = serde_json::from_str::<serde::de::IgnoredAny>(line).is_ok() && line.trim() == line;
    if exact {
        format!("{{\"{direction}\":{line}}}")
    } else {
        json!({format!("{direction}_text"): line}).to_string()
    }
}

fn truncate_line(line: String) -> String {
    if line.len() <= LONG {
        return line;
    }
    match serde_json::from_str::<Value>(&line) {
        Ok(mut value) => {
            if truncate(&mut value) {
                value.to_string()
            } else {
                line
            }
        }
        Err(_) => head(&line),
    }
}

/// Truncates every long text and every list of commands in a value at any depth. Returns true if
/// there was one.
fn truncate(value: &mut Value) -> bool {
    match value {
        Value::String(text) if text.len() > LONG => {
            *text = head(text);
            true
        }
        Value::Array(items) => items.iter_mut().map(truncate).filter(|cut| *cut).count() > 0,
        Value::Object(fields) => {
            let commands = fields
                .get_mut("availableCommands")
                .and_then(Value::as_array_mut);
            let long = commands
                .filter(|all| all.len() > COMMANDS)
                .map(|all| all.truncate(COMMANDS))
                .is_some();
            fields.values_mut().map(truncate).filter(|cut| *cut).count() > 0 || long
        }
        _ => false,
    }
}

fn head(text: &str) -> String {
    text.chars().take(200).chain("… cut".chars()).collect()
}

/// Returns the kind of message: enough to detect that a recording no longer matches.
#[must_use]
pub fn kind(line: &str) -> String {
    let Ok(value) = serde_json::from_str::<Value>(line) else {
        return "text".to_owned();
    };
    let placeholders = [
        "/method",
        "/type",
        "/subtype",
        "/request/subtype",
        "/response/subtype",
    ];
    let mut parts: Vec<&str> = placeholders
        .iter()
        .filter_map(|name| value.pointer(name)?.as_str())
        .collect();
    if value.get("method").is_none() {
        parts.extend(
            ["result", "error"]
                .iter()
                .filter(|name| value.get(name).is_some()),
        );
    }
    parts.join("/")
}

/// Parses a recording into its processes.
///
/// # Errors
/// The number of the first line that is not an entry.
pub fn parse(text: &str) -> Result<Vec<Vec<TranscriptEntry>>, String> {
    let mut processes: Vec<Vec<TranscriptEntry>> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let entry = TranscriptEntry::parse(line)
            .ok_or_else(|| format!("line {number} is not a transcript entry"))?;
        match (&entry, processes.last_mut()) {
            (TranscriptEntry::Start(_), _) | (_, None) => processes.push(vec![entry]),
            (_, Some(process)) => process.push(entry),
        }
    }
    Ok(processes)
}

/// Returns the file of process number `number` of a scenario, counted from 1.
#[must_use]
pub fn part(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("{number}.jsonl"))
}

/// Creates the file of the next process of a scenario, and returns its number too.
///
/// # Errors
/// If no file can be created.
pub fn next(dir: &Path) -> io::Result<(File, usize)> {
    for number in 1.. {
        match OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(part(dir, number))
        {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return Ok((made?, number)),
        }
    }
    Err(io::Error::other("no free number"))
}

/// Texts that depend on the machine or the run, and their placeholders in a recording.
#[derive(Debug, Clone, Default)]
pub struct Placeholders(Vec<(String, &'static str)>);

impl Placeholders {
    /// Creates placeholders for an environment with this directory and model address.
    #[must_use]
    pub fn of(root: &str, model: &str) -> Self {
        // Agents derive folder names from paths.
        let slug = root
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        // Agents get the path of the fake agent, because it is also the bridge.
        let fake_agent = std::env::current_exe()
            .map(|fake_agent| fake_agent.display().to_string())
            .unwrap_or_default();
        let words = [
            (root.to_owned(), "$ROOT"),
            (slug, "$SLUG"),
            (model.to_owned(), "$MODEL"),
            (fake_agent, "$FAKE"),
        ];
        Self(
            words
                .into_iter()
                .filter(|(word, _)| !word.is_empty())
                .collect(),
        )
    }

    /// Adds an installed program, by any path: agents mention their own files in errors.
    #[must_use]
    pub fn with_program_dir(mut self, program: &Path) -> Self {
        let resolved = program.canonicalize().ok();
        for dir in [Some(program), resolved.as_deref()]
            .into_iter()
            .flatten()
            .filter_map(Path::parent)
        {
            self.0.push((dir.display().to_string(), "$PROGRAM"));
        }
        self
    }

    /// Adds the directory of a program that the tests installed.
    #[must_use]
    pub fn with_agents_dir(mut self, program: &Path) -> Self {
        let program = program
            .canonicalize()
            .unwrap_or_else(|_| program.to_owned());
        let agents = program
            .ancestors()
            .find(|dir| dir.ends_with("target/agents"));
        self.0
            .extend(agents.map(|dir| (dir.display().to_string(), "$AGENTS")));
        self
    }

    /// Replaces the texts with their placeholders.
    #[must_use]
    pub fn redacted(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (word, name)| {
            text.replace(word, name)
        })
    }

    /// Replaces the placeholders with their texts.
    #[must_use]
    pub fn expanded(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (word, name)| {
            text.replace(name, word)
        })
    }
}

/// Transcript writer.
#[derive(Debug)]
pub struct TranscriptWriter {
    file: File,
    placeholders: Placeholders,
    output: String,
    /// Number of input lines that are not messages.
    plain: usize,
}

impl TranscriptWriter {
    /// Creates a writer for this file and these placeholders.
    #[must_use]
    pub fn new(file: File, placeholders: Placeholders) -> Self {
        Self {
            file,
            placeholders,
            output: String::new(),
            plain: 0,
        }
    }

    /// Writes one entry immediately.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&mut self, entry: TranscriptEntry) -> io::Result<()> {
        if let TranscriptEntry::Out(line) = &entry {
            self.output.push_str(line);
        }
        if matches!(&entry, TranscriptEntry::In(line) if kind(line) == "text") {
            self.plain += 1;
            if self.plain > PROMPT {
                return Ok(());
            }
        }
        let line = self.placeholders.redacted(&entry.truncated().to_line());
        self.file.write_all(format!("{line}\n").as_bytes())
    }

    /// Records the files below a home that belong to a session the agent mentioned: those named
    /// after its id.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_session_files(&mut self, home: &Path) -> io::Result<()> {
        let mut dirs = vec![home.to_owned()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                let path = entry.path();
                let id = path
                    .file_stem()
                    .and_then(|stem| stem.to_str())
                    .unwrap_or_default();
                if entry.file_type()?.is_dir() {
                    dirs.push(path);
                } else if id.len() >= ID && self.output.contains(id) {
                    let text = fs::read_to_string(&path).unwrap_or_default();
                    let lines = text
                        .lines()
                        .take(HEAD)
                        .map(|line| truncate_line(line.to_owned()) + "\n");
                    self.write(TranscriptEntry::SessionFile(
                        path.display().to_string(),
                        lines.collect(),
                    ))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_as_they_were() {
        let entries = [
            TranscriptEntry::Start(vec!["-p".into(), "a \"b\"".into()]),
            TranscriptEntry::In(r#"{"b":1, "a":[1.50]}"#.into()),
            TranscriptEntry::Out("no JSON\tat all".into()),
            TranscriptEntry::Out(r#" {"spaces":"around"} "#.into()),
            TranscriptEntry::Out("\"}\"".into()),
            TranscriptEntry::InEnd,
            TranscriptEntry::SessionFile("$ROOT/home/x".into(), "{}\n".into()),
            TranscriptEntry::Stderr("oh\nno".into()),
            TranscriptEntry::SignalSent(15),
            TranscriptEntry::Exit(3),
            TranscriptEntry::Signal(9),
        ];
        for entry in entries {
            assert_eq!(TranscriptEntry::parse(&entry.to_line()), Some(entry));
        }
        assert_eq!(TranscriptEntry::parse("{}"), None);
        assert_eq!(TranscriptEntry::parse("hello"), None);
    }

    #[test]
    fn kinds_distinguish_messages() {
        let kinds = [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}"#,
                "session/new",
            ),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"x":1}}"#, "result"),
            (r#"{"type":"user","message":{}}"#, "user"),
            (
                r#"{"type":"control_request","request":{"subtype":"interrupt"}}"#,
                "control_request/interrupt",
            ),
            ("plain words", "text"),
        ];
        for (line, expected) in kinds {
            assert_eq!(kind(line), expected);
        }
    }

    #[test]
    fn long_texts_are_truncated_but_long_lines_of_short_texts_are_not() {
        let long = json!({"type": "user", "text": "ä".repeat(LONG)}).to_string();
        let TranscriptEntry::In(cut) = TranscriptEntry::In(long).truncated() else {
            panic!("not an In entry")
        };
        assert!(cut.len() < 600 && kind(&cut) == "user", "{cut}");
        let many = json!({"names": vec!["a short one"; 1000]}).to_string();
        assert_eq!(
            TranscriptEntry::Out(many.clone()).truncated(),
            TranscriptEntry::Out(many)
        );
    }

    #[test]
    fn recording_hides_the_program_path() {
        let dir = tempfile::tempdir().expect("make a directory");
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::create_dir(&real).expect("make a directory");
        fs::write(real.join("agent"), "").expect("write a file");
        std::os::unix::fs::symlink(&real, &link).expect("make a link");
        let placeholders = Placeholders::default().with_program_dir(&link.join("agent"));
        let line = format!(
            "{} {}",
            real.join("a.js").display(),
            link.join("b.js").display()
        );
        assert_eq!(placeholders.redacted(&line), "$PROGRAM/a.js $PROGRAM/b.js");
    }

    #[test]
    fn long_command_list_is_truncated_to_two() {
        let commands =
            |count: usize| vec![json!({"name": "plan", "description": "x".repeat(900)}); count];
        let line = |count: usize| {
            json!({"params": {"update": {"availableCommands": commands(count)}}}).to_string()
        };
        assert_eq!(
            TranscriptEntry::Out(line(9)).truncated(),
            TranscriptEntry::Out(line(2))
        );
        assert_eq!(
            TranscriptEntry::Out(line(3)).truncated(),
            TranscriptEntry::Out(line(3)),
            "a short line stays as it is"
        );
    }

    #[test]
    fn long_plain_prompt_is_truncated() {
        let dir = tempfile::tempdir().expect("make a directory");
        let (file, number) = next(dir.path()).expect("make a file");
        let mut writer = TranscriptWriter::new(file, Placeholders::default());
        let entries = (0..1000).map(|number| TranscriptEntry::In(format!("line {number}")));
        entries
            .chain([TranscriptEntry::InEnd])
            .for_each(|entry| writer.write(entry).expect("write it down"));
        let recording = fs::read_to_string(part(dir.path(), number)).expect("read it");
        assert_eq!(
            (recording.lines().count(), recording.lines().last()),
            (PROMPT + 1, Some("{\"in_end\":true}"))
        );
    }

    #[test]
    fn processes_begin_with_their_start() {
        let text = "{\"start\":[]}\n{\"exit\":0}\n{\"start\":[]}\n{\"in_end\":true}\n";
        let processes = parse(text).expect("a transcript");
        assert_eq!(processes.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
        assert_eq!(
            parse("{\"start\":[]}\nwhat\n"),
            Err("line 2 is not a transcript entry".to_owned())
        );
    }
}
