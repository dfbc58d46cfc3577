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
pub enum Entry {
    /// A process was started.
    Start(Vec<String>),
    /// Ostler wrote a line.
    In(String),
    /// Ostler closed the input.
    InEnd,
    /// The agent wrote a line.
    Out(String),
    /// It stored a session file in its home: the path, and the first lines.
    Kept(String, String),
    /// The tail of its stderr.
    Stderr(String),
    /// It exited.
    Exit(u8),
    /// It was sent a signal, which it may handle.
    Told(i32),
    /// A signal killed it.
    Signal(i32),
}

impl Entry {
    /// Formats the entry as a line, without the newline.
    #[must_use]
    pub fn to_line(&self) -> String {
        match self {
            Self::Start(args) => json!({"start": args}).to_string(),
            Self::In(line) => said("in", line),
            Self::InEnd => json!({"in_end": true}).to_string(),
            Self::Out(line) => said("out", line),
            Self::Kept(path, text) => json!({"kept": [path, text]}).to_string(),
            Self::Stderr(text) => json!({"stderr": text}).to_string(),
            Self::Exit(code) => json!({"exit": code}).to_string(),
            Self::Told(number) => json!({"told": number}).to_string(),
            Self::Signal(number) => json!({"signal": number}).to_string(),
        }
    }

    /// Parses a line; `None` if it is not an entry.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        // Verbatim: JSON that is parsed and formatted again differs from what the agent wrote.
        let exact = |mark: &str| Some(line.strip_prefix(mark)?.strip_suffix('}')?.to_owned());
        if let Some(said) = exact(r#"{"in":"#) {
            return Some(Self::In(said));
        }
        if let Some(said) = exact(r#"{"out":"#) {
            return Some(Self::Out(said));
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
                Self::Kept(path, text)
            }
            "stderr" => Self::Stderr(text()?),
            "exit" => Self::Exit(u8::try_from(value.as_u64()?).ok()?),
            "told" => Self::Told(i32::try_from(value.as_i64()?).ok()?),
            "signal" => Self::Signal(i32::try_from(value.as_i64()?).ok()?),
            _ => return None,
        })
    }

    /// Truncates every text that is too long.
    #[must_use]
    pub fn shortened(self) -> Self {
        match self {
            Self::In(line) => Self::In(shorter(line)),
            Self::Out(line) => Self::Out(shorter(line)),
            other => other,
        }
    }
}

fn said(direction: &str, line: &str) -> String {
    // JSON with surrounding whitespace would not round-trip; as text it does.
    let exact = serde_json::from_str::<serde::de::IgnoredAny>(line).is_ok() && line.trim() == line;
    if exact {
        format!("{{\"{direction}\":{line}}}")
    } else {
        json!({format!("{direction}_text"): line}).to_string()
    }
}

fn shorter(line: String) -> String {
    if line.len() <= LONG {
        return line;
    }
    match serde_json::from_str::<Value>(&line) {
        Ok(mut value) => {
            if cut(&mut value) {
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
fn cut(value: &mut Value) -> bool {
    match value {
        Value::String(text) if text.len() > LONG => {
            *text = head(text);
            true
        }
        Value::Array(items) => items.iter_mut().map(cut).filter(|cut| *cut).count() > 0,
        Value::Object(fields) => {
            let commands = fields
                .get_mut("availableCommands")
                .and_then(Value::as_array_mut);
            let long = commands
                .filter(|all| all.len() > COMMANDS)
                .map(|all| all.truncate(COMMANDS))
                .is_some();
            fields.values_mut().map(cut).filter(|cut| *cut).count() > 0 || long
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
    let names = [
        "/method",
        "/type",
        "/subtype",
        "/request/subtype",
        "/response/subtype",
    ];
    let mut parts: Vec<&str> = names
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
pub fn parse(text: &str) -> Result<Vec<Vec<Entry>>, String> {
    let mut processes: Vec<Vec<Entry>> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let entry = Entry::parse(line)
            .ok_or_else(|| format!("line {number} is no entry of a transcript"))?;
        match (&entry, processes.last_mut()) {
            (Entry::Start(_), _) | (_, None) => processes.push(vec![entry]),
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
    Err(io::Error::other("no number is free"))
}

/// Texts that depend on the machine or the run, and their placeholders in a recording.
#[derive(Debug, Clone, Default)]
pub struct Names(Vec<(String, &'static str)>);

impl Names {
    /// Creates placeholders for an environment with this directory and model address.
    #[must_use]
    pub fn of(root: &str, model: &str) -> Self {
        // Agents derive folder names from paths.
        let slug = root
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        // Agents get the path of the fake agent, because it is also the bridge.
        let own = std::env::current_exe()
            .map(|own| own.display().to_string())
            .unwrap_or_default();
        let words = [
            (root.to_owned(), "$ROOT"),
            (slug, "$SLUG"),
            (model.to_owned(), "$MODEL"),
            (own, "$FAKE"),
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
    pub fn and_program(mut self, program: &Path) -> Self {
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
    pub fn with_program(mut self, program: &Path) -> Self {
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
    pub fn hidden(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (word, name)| {
            text.replace(word, name)
        })
    }

    /// Replaces the placeholders with their texts.
    #[must_use]
    pub fn shown(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (word, name)| {
            text.replace(name, word)
        })
    }
}

/// Transcript writer.
#[derive(Debug)]
pub struct Scribe {
    file: File,
    names: Names,
    said: String,
    /// Number of input lines that are not messages.
    plain: usize,
}

impl Scribe {
    /// Creates a writer for this file and these placeholders.
    #[must_use]
    pub fn new(file: File, names: Names) -> Self {
        Self {
            file,
            names,
            said: String::new(),
            plain: 0,
        }
    }

    /// Writes one entry immediately.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn note(&mut self, entry: Entry) -> io::Result<()> {
        if let Entry::Out(line) = &entry {
            self.said.push_str(line);
        }
        if matches!(&entry, Entry::In(line) if kind(line) == "text") {
            self.plain += 1;
            if self.plain > PROMPT {
                return Ok(());
            }
        }
        let line = self.names.hidden(&entry.shortened().to_line());
        self.file.write_all(format!("{line}\n").as_bytes())
    }

    /// Records the files below a home that belong to a session the agent mentioned: those named
    /// after its id.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn note_kept(&mut self, home: &Path) -> io::Result<()> {
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
                } else if id.len() >= ID && self.said.contains(id) {
                    let text = fs::read_to_string(&path).unwrap_or_default();
                    let lines = text
                        .lines()
                        .take(HEAD)
                        .map(|line| shorter(line.to_owned()) + "\n");
                    self.note(Entry::Kept(path.display().to_string(), lines.collect()))?;
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
            Entry::Start(vec!["-p".into(), "a \"b\"".into()]),
            Entry::In(r#"{"b":1, "a":[1.50]}"#.into()),
            Entry::Out("no JSON\tat all".into()),
            Entry::Out(r#" {"spaces":"around"} "#.into()),
            Entry::Out("\"}\"".into()),
            Entry::InEnd,
            Entry::Kept("$ROOT/home/x".into(), "{}\n".into()),
            Entry::Stderr("oh\nno".into()),
            Entry::Told(15),
            Entry::Exit(3),
            Entry::Signal(9),
        ];
        for entry in entries {
            assert_eq!(Entry::parse(&entry.to_line()), Some(entry));
        }
        assert_eq!(Entry::parse("{}"), None);
        assert_eq!(Entry::parse("hello"), None);
    }

    #[test]
    fn kinds_tell_messages_apart() {
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
    fn long_texts_are_cut_and_long_lines_of_short_ones_are_not() {
        let long = json!({"type": "user", "text": "ä".repeat(LONG)}).to_string();
        let Entry::In(cut) = Entry::In(long).shortened() else {
            panic!("it was an In")
        };
        assert!(cut.len() < 600 && kind(&cut) == "user", "{cut}");
        let many = json!({"names": vec!["a short one"; 1000]}).to_string();
        assert_eq!(Entry::Out(many.clone()).shortened(), Entry::Out(many));
    }

    #[test]
    fn a_recording_does_not_tell_where_the_program_is() {
        let dir = tempfile::tempdir().expect("make a directory");
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::create_dir(&real).expect("make a directory");
        fs::write(real.join("agent"), "").expect("write a file");
        std::os::unix::fs::symlink(&real, &link).expect("make a link");
        let names = Names::default().and_program(&link.join("agent"));
        let said = format!(
            "{} {}",
            real.join("a.js").display(),
            link.join("b.js").display()
        );
        assert_eq!(names.hidden(&said), "$PROGRAM/a.js $PROGRAM/b.js");
    }

    #[test]
    fn of_a_long_list_of_commands_two_are_kept() {
        let commands =
            |count: usize| vec![json!({"name": "plan", "description": "x".repeat(900)}); count];
        let line = |count: usize| {
            json!({"params": {"update": {"availableCommands": commands(count)}}}).to_string()
        };
        assert_eq!(Entry::Out(line(9)).shortened(), Entry::Out(line(2)));
        assert_eq!(
            Entry::Out(line(3)).shortened(),
            Entry::Out(line(3)),
            "a short line stays as it is"
        );
    }

    #[test]
    fn of_a_long_plain_prompt_the_beginning_is_kept() {
        let dir = tempfile::tempdir().expect("make a directory");
        let (file, number) = next(dir.path()).expect("make a file");
        let mut scribe = Scribe::new(file, Names::default());
        let entries = (0..1000).map(|number| Entry::In(format!("line {number}")));
        entries
            .chain([Entry::InEnd])
            .for_each(|entry| scribe.note(entry).expect("write it down"));
        let kept = fs::read_to_string(part(dir.path(), number)).expect("read it");
        assert_eq!(
            (kept.lines().count(), kept.lines().last()),
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
            Err("line 2 is no entry of a transcript".to_owned())
        );
    }
}
