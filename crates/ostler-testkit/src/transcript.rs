//! What was said between Ostler and an agent, line by line: the file that the fake agent writes when it stands between them
//! and plays when it stands in.
//!
//! One entry per line: `{"start":[arguments]}`, `{"in":…}` and `{"out":…}` with a line of JSON as it was (`in_text` and
//! `out_text` hold any other line), `{"in_end":true}`, `{"told":signal}`, and at the end `{"kept":[path, beginning]}` for a session that the agent
//! keeps in its home, `{"stderr":…}`, `{"exit":code}` or `{"signal":number}`.
//! An entry is written before the line is handed on, so that an answer never stands before what it answers. Several processes
//! follow each other in one file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// The longest text that is kept whole; nobody reads the middle of a longer one.
const LONG: usize = 4096;
/// How many of the commands that an agent offers in a long list are kept: nobody plays them.
const COMMANDS: usize = 2;
/// How many lines of a prompt that is sent as it is are kept: whoever plays it passes over the rest.
pub const PROMPT: usize = 20;
/// The shortest name of a file that can be a session's id.
const ID: usize = 16;
/// How many lines of such a file are kept: enough to say whose it is.
const HEAD: usize = 4;

/// One entry.
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
    /// It left a file about the session in its home: the path and how the file begins.
    Kept(String, String),
    /// The end of what it said on stderr.
    Stderr(String),
    /// It exited.
    Exit(u8),
    /// A signal was sent to it, which it may heed in its own way.
    Told(i32),
    /// A signal ended it.
    Signal(i32),
}

impl Entry {
    /// As a line of the file, without its end.
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

    /// The entry of a line; none when it is none.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        // Word for word: what is parsed and written again is not what the agent said.
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

    /// With every text that is too long cut short.
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
    // A line of JSON with a space around it would not come back as it was; as a text it does.
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

/// Cuts every long text and every list of commands in a value, however deep; whether there was one.
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

/// What kind of message a line is: enough to tell whether a recording still fits.
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

/// The processes of a recording.
///
/// # Errors
/// The number of the line that is no entry.
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

/// The file of process number `number` of a scenario, counted from 1.
#[must_use]
pub fn part(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("{number}.jsonl"))
}

/// Makes the file of the next process of a scenario; its number too.
///
/// # Errors
/// When no file can be made.
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

/// Words of one place and one time, and what stands for them in a recording.
#[derive(Debug, Clone, Default)]
pub struct Names(Vec<(String, &'static str)>);

impl Names {
    /// For a place with this directory and the model at this address.
    #[must_use]
    pub fn of(root: &str, model: &str) -> Self {
        // Agents make the name of a folder from a path.
        let slug = root
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        // Agents are told where the fake agent is: it is also the bridge.
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

    /// And for a program that is installed here, by whichever path: agents name their own files when they complain.
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

    /// And for where this program is installed, if that is where tests install agents.
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

    /// With what stands for them.
    #[must_use]
    pub fn hidden(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (word, name)| {
            text.replace(word, name)
        })
    }

    /// With the words of this place.
    #[must_use]
    pub fn shown(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (word, name)| {
            text.replace(name, word)
        })
    }
}

/// Writes entries down.
#[derive(Debug)]
pub struct Scribe {
    file: File,
    names: Names,
    said: String,
    /// Lines of input that are no messages.
    plain: usize,
}

impl Scribe {
    /// Into this file, with names for the words of this place.
    #[must_use]
    pub fn new(file: File, names: Names) -> Self {
        Self {
            file,
            names,
            said: String::new(),
            plain: 0,
        }
    }

    /// Writes one entry, at once.
    ///
    /// # Errors
    /// When the file cannot be written.
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

    /// Notes the files below a home that belong to a session of which the agent spoke: those that are named by its id.
    ///
    /// # Errors
    /// When the file cannot be written.
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
