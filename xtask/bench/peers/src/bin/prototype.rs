//! The least that a library can do with an agent's output, to show what is reachable: large reads,
//! one search for newlines, one UTF-8 check per line, a flat borrowed form, owned events. It has no
//! store, no limits, no guard and no second reader.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::path::Path;
use std::process::Stdio;

use peers::{Peer, Result};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

const CHUNK: usize = 64 * 1024;
const PROMPT: &[u8] =
    b"{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"hello\"}}\n";

/// A string that borrows from the line unless it has escapes.
#[derive(Deserialize, Default)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Text<'_> {
    fn own(self) -> String {
        self.0.into_owned()
    }
}

/// All fields that matter of any message.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    subtype: Option<Text<'a>>,
    #[serde(borrow)]
    event: Option<Streamed<'a>>,
    #[serde(borrow)]
    message: Option<Message<'a>>,
    #[serde(borrow)]
    result: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Streamed<'a> {
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Vec<Block<'a>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    tool_use_id: Option<Text<'a>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[expect(dead_code, reason = "the fields are what a caller would read")]
enum Event {
    Started,
    Delta(String),
    Text(String),
    ToolResult { id: String, content: Box<RawValue> },
    Result(String),
}

/// Appends the events of a line. Returns false if it is not valid.
fn read_line(line: &[u8], events: &mut impl Extend<Event>) -> bool {
    let line = std::str::from_utf8(line).ok();
    let Some(line) = line.and_then(|line| serde_json::from_str::<Line<'_>>(line).ok()) else {
        return false;
    };
    match &*line.kind.0 {
        "stream_event" => {
            let text = line.event.and_then(|event| event.delta?.text);
            events.extend(text.map(|text| Event::Delta(text.own())));
        }
        "result" => events.extend([Event::Result(line.result.unwrap_or_default().own())]),
        "system" if line.subtype.is_some() => events.extend([Event::Started]),
        _ => {
            let blocks = line.message.map(|message| message.content);
            events.extend(blocks.into_iter().flatten().filter_map(|block| {
                match (block.tool_use_id, block.content, block.text) {
                    (Some(id), Some(content), _) => Some(Event::ToolResult {
                        id: id.own(),
                        content: content.to_owned(),
                    }),
                    (_, _, text) => Some(Event::Text(text?.own())),
                }
            }));
        }
    }
    true
}

struct Session {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    chunk: Vec<u8>,
    partial: Vec<u8>,
    events: VecDeque<Event>,
}

impl Session {
    async fn start(agent: &Path) -> Result<Self> {
        let mut child = Command::new(agent)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut stdin = child.stdin.take().ok_or("no stdin")?;
        let stdout = child.stdout.take().ok_or("no stdout")?;
        stdin.write_all(PROMPT).await?;
        Ok(Self {
            child,
            stdin: Some(stdin),
            stdout,
            chunk: Vec::new(),
            partial: Vec::new(),
            events: VecDeque::new(),
        })
    }

    async fn next(&mut self) -> Result<Option<Event>> {
        while self.events.is_empty() {
            self.chunk.clear();
            self.chunk.reserve(CHUNK);
            if self.stdout.read_buf(&mut self.chunk).await? == 0 {
                return Ok(None);
            }
            let mut from = 0;
            for end in memchr::memchr_iter(b'\n', &self.chunk) {
                let line = &self.chunk[from..end];
                if self.partial.is_empty() {
                    read_line(line, &mut self.events);
                } else {
                    self.partial.extend_from_slice(line);
                    read_line(&self.partial, &mut self.events);
                    self.partial.clear();
                }
                from = end + 1;
            }
            self.partial.extend_from_slice(&self.chunk[from..]);
        }
        Ok(self.events.pop_front())
    }

    /// Waits for the end of the turn, and releases the buffers.
    async fn finish_turn(&mut self) -> Result<()> {
        while let Some(event) = self.next().await? {
            if matches!(event, Event::Result(_)) {
                break;
            }
        }
        (self.chunk, self.partial, self.events) = Default::default();
        Ok(())
    }
}

struct Prototype;

impl Peer for Prototype {
    type Idle = Session;

    async fn run(agent: &Path, mut each: impl FnMut(&str)) -> Result<()> {
        let mut session = Session::start(agent).await?;
        while let Some(event) = session.next().await? {
            match event {
                Event::Delta(text) => each(&text),
                Event::Result(_) => drop(session.stdin.take()),
                _ => {}
            }
        }
        session.child.wait().await?;
        Ok(())
    }

    async fn start(agent: &Path) -> Result<Option<Session>> {
        let mut session = Session::start(agent).await?;
        session.finish_turn().await?;
        Ok(Some(session))
    }

    fn decode(line: &str) -> bool {
        let mut events = Vec::new();
        let valid = read_line(line.as_bytes(), &mut events);
        drop(std::hint::black_box(events));
        valid
    }
}

fn main() -> Result<()> {
    peers::measure::<Prototype>()
}
