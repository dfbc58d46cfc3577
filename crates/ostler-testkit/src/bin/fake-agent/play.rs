//! Script player: reads stdin, writes lines, sleeps, starts children, exits.

use std::io::{BufRead, BufReader, Read, Stdin, Write};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::dump;
use crate::lines::{Lines, control_success};
use crate::offspring;
use crate::verb::Verb;

/// Size of a flood's writes: large, to be faster than the reader.
const WRITE_SIZE: usize = 64 * 1024;
/// Exit code when stdout is closed or a file of the script cannot be used.
const IO_FAILED: u8 = 74;

/// Reason to stop the script.
enum Stop {
    Exit(u8),
    Io(std::io::Error),
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// Plays the script to its end, or to the verb that ends it.
pub(crate) fn play(verbs: &[Verb], args: &[String]) -> ExitCode {
    let stdin = BufReader::new(std::io::stdin());
    let mut player = Player {
        stdin,
        read: Vec::new(),
        lines: Lines::new(args),
        args,
    };
    match player.play(verbs) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Exit(code)) => ExitCode::from(code),
        Err(Stop::Io(error)) => {
            // Not `eprintln!`, which panics if stderr is closed too.
            let _gone = writeln!(std::io::stderr(), "fake-agent: {error}");
            ExitCode::from(IO_FAILED)
        }
    }
}

struct Player<'a> {
    stdin: BufReader<Stdin>,
    /// All input read so far.
    read: Vec<u8>,
    lines: Lines,
    args: &'a [String],
}

impl Player<'_> {
    fn play(&mut self, verbs: &[Verb]) -> Result<(), Stop> {
        for verb in verbs {
            match verb {
                Verb::Loop {
                    times: Some(times),
                    body,
                } => {
                    for _ in 0..*times {
                        self.play(body)?;
                    }
                }
                Verb::Loop { times: None, body } => loop {
                    self.play(body)?;
                },
                verb => self.perform(verb)?,
            }
        }
        Ok(())
    }

    fn perform(&mut self, verb: &Verb) -> Result<(), Stop> {
        match verb {
            Verb::Read => drop(self.read_line()?),
            Verb::ReadUser => self.read_user()?,
            Verb::ReadUntilEof => self.read_until_eof()?,
            Verb::WaitControl => while self.read_message()?["type"] != "control_response" {},
            Verb::AnswerControl => {
                let request = self.read_control("")?;
                write_out(control_success(&request, &json!({})))?;
            }
            Verb::WaitInterrupt => drop(self.read_control("interrupt")?),
            Verb::AnswerInterrupt => {
                let request = self.read_control("interrupt")?;
                write_out(self.lines.interrupted(&request))?;
            }
            Verb::Sleep(ms) => thread::sleep(Duration::from_millis(*ms)),
            // The test decides when to continue: unlike a sleep, this takes exactly as long as it
            // must.
            Verb::WaitFile(path) => {
                while !path.exists() {
                    thread::sleep(Duration::from_millis(5));
                }
            }
            Verb::Hang => loop {
                thread::park();
            },
            Verb::Spawn { kind, pid_file } => offspring::spawn(*kind, pid_file.as_deref())?,
            Verb::IgnoreSigterm => offspring::ignore_termination()?,
            Verb::Exit(code) => return Err(Stop::Exit(*code)),
            Verb::DieBy(signal) => offspring::die_by(*signal)?,
            Verb::WriteFileAfterEof { delay_ms, path } => {
                self.read_until_eof()?;
                thread::sleep(Duration::from_millis(*delay_ms));
                std::fs::write(path, "written after EOF\n")?;
            }
            Verb::Dump { kind, path } => {
                dump::write(
                    *kind,
                    path,
                    &dump::Facts {
                        args: self.args,
                        stdin: &self.read,
                    },
                )?;
            }
            verb => self.speak(verb)?,
        }
        Ok(())
    }

    // Verbs that only write.
    fn speak(&mut self, verb: &Verb) -> Result<(), Stop> {
        match verb {
            Verb::Print(text) => write_out(format!("{}\n", self.filled(text)))?,
            Verb::PrintNoNewline(text) => write_out(self.filled(text))?,
            Verb::Bytes(bytes) => write_out(bytes)?,
            Verb::File(path) => write_out(std::fs::read(path)?)?,
            Verb::Chunks {
                size,
                delay_ms,
                text,
            } => {
                let line = format!("{}\n", self.filled(text));
                for piece in line.as_bytes().chunks((*size).max(1)) {
                    write_out(piece)?;
                    thread::sleep(Duration::from_millis(*delay_ms));
                }
            }
            Verb::Stderr(text) => {
                std::io::stderr().write_all(format!("{}\n", self.filled(text)).as_bytes())?;
            }
            Verb::StderrFlood(total) => {
                let line = format!("{}\n", "stderr ".repeat(14));
                repeat(&mut std::io::stderr().lock(), line.as_bytes(), *total)?;
            }
            Verb::Flood { total, line } => {
                let line = self.padded_text(*line);
                repeat(&mut std::io::stdout().lock(), line.as_bytes(), *total)?;
            }
            Verb::LongLine(size) => write_out(self.padded_text(*size))?,
            verb => {
                let lines = self.protocol_lines(verb);
                write_out(lines)?;
            }
        }
        Ok(())
    }

    fn protocol_lines(&mut self, verb: &Verb) -> String {
        match verb {
            Verb::Init => self.lines.init(),
            Verb::Text(text) => self.lines.text(&self.filled(text)),
            Verb::Thinking(text) => self.lines.thinking(&self.filled(text)),
            Verb::Delta(text) => self.lines.delta(&self.filled(text)),
            Verb::ToolUse { id, name, input } => self.lines.tool_use(id, name, input),
            Verb::ToolResult { id, text } => self.lines.tool_result(id, &self.filled(text)),
            Verb::Result(text) => self.lines.result(&self.filled(text)),
            Verb::ResultError { subtype, text } => {
                self.lines.result_error(subtype, &self.filled(text))
            }
            Verb::TaskStarted(id) => self.lines.task_started(id),
            Verb::TaskDone(id) => self.lines.task_done(id),
            Verb::ControlRequest { id, tool, input } => self.lines.can_use_tool(id, tool, input),
            // Every other verb was handled before.
            _ => String::new(),
        }
    }

    fn filled(&self, text: &str) -> String {
        text.replace("$SESSION", &self.lines.session)
    }

    // A text line of `size` bytes including its newline; never shorter than an empty one.
    fn padded_text(&mut self, size: usize) -> String {
        let empty = self.lines.text("");
        let padding = "x".repeat(size.saturating_sub(empty.len()));
        self.lines.text(&padding)
    }

    // Claude exits with success when its stdin closes; so does every verb that waits for a line.
    fn read_line(&mut self) -> Result<Vec<u8>, Stop> {
        let mut line = Vec::new();
        if self.stdin.read_until(b'\n', &mut line)? == 0 {
            return Err(Stop::Exit(0));
        }
        self.read.extend_from_slice(&line);
        Ok(line)
    }

    fn read_message(&mut self) -> Result<Value, Stop> {
        let line = self.read_line()?;
        Ok(serde_json::from_slice(&line).unwrap_or(Value::Null))
    }

    fn read_user(&mut self) -> Result<(), Stop> {
        loop {
            let message = self.read_message()?;
            if message["type"] == "user" {
                return Ok(());
            }
            if let (Some("control_request"), Some(id)) =
                (message["type"].as_str(), message["request_id"].as_str())
            {
                write_out(control_success(id, &json!({})))?;
            }
        }
    }

    // Returns the request id of the next control request with that subtype; an empty subtype
    // matches any.
    fn read_control(&mut self, subtype: &str) -> Result<String, Stop> {
        loop {
            let message = self.read_message()?;
            let found = message["request"]["subtype"].as_str().unwrap_or_default();
            if message["type"] == "control_request" && (subtype.is_empty() || found == subtype) {
                return Ok(message["request_id"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned());
            }
        }
    }

    fn read_until_eof(&mut self) -> Result<(), Stop> {
        self.stdin.read_to_end(&mut self.read)?;
        Ok(())
    }
}

fn write_out(bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    // A line-buffered stdout would hold back text without a newline and split big writes at
    // newlines.
    stdout.write_all(bytes.as_ref())?;
    stdout.flush()
}

fn repeat(out: &mut impl Write, line: &[u8], total: usize) -> std::io::Result<()> {
    let block = line.repeat(WRITE_SIZE.div_ceil(line.len()));
    let mut written = 0;
    while written + block.len() <= total {
        out.write_all(&block)?;
        written += block.len();
    }
    // Whole lines only, and at least the requested total.
    out.write_all(&line.repeat((total - written).div_ceil(line.len())))?;
    out.flush()
}
