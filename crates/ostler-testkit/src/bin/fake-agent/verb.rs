//! Script language: one verb per line, `#` starts a comment line, `loop … end` repeats.
//!
//! In the text of `text`, `delta`, `result`, `result-error`, `tool-result` and `stderr`, `\n`,
//! `\t` and `\\` are escapes; `print`, `print-nonl` and `chunks` take their text verbatim. In all
//! of them `$SESSION` is the session id.

use std::path::PathBuf;

use serde_json::Value;

/// One step of a script.
#[derive(Debug)]
pub(crate) enum Verb {
    Read,
    ReadUser,
    ReadUntilEof,
    WaitControl,
    AnswerControl,
    WaitInterrupt,
    AnswerInterrupt,
    Print(String),
    PrintNoNewline(String),
    Bytes(Vec<u8>),
    File(PathBuf),
    WaitFile(PathBuf),
    Chunks {
        size: usize,
        delay_ms: u64,
        text: String,
    },
    Init,
    Text(String),
    Thinking(String),
    Delta(String),
    ToolUse {
        id: String,
        name: String,
        input: Value,
    },
    ToolResult {
        id: String,
        text: String,
    },
    Result(String),
    ResultError {
        subtype: String,
        text: String,
    },
    TaskStarted(String),
    TaskDone(String),
    ControlRequest {
        id: String,
        tool: String,
        input: Value,
    },
    Stderr(String),
    StderrFlood(usize),
    Flood {
        total: usize,
        line: usize,
    },
    LongLine(usize),
    Sleep(u64),
    Hang,
    Spawn {
        kind: Offspring,
        pid_file: Option<PathBuf>,
    },
    IgnoreSigterm,
    Exit(u8),
    DieBy(i32),
    WriteFileAfterEof {
        delay_ms: u64,
        path: PathBuf,
    },
    Dump {
        kind: Dump,
        path: PathBuf,
    },
    Loop {
        times: Option<usize>,
        body: Vec<Verb>,
    },
}

/// Kind of process that is left running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offspring {
    Child,
    Setsid,
    Envless,
    HoldingStdout,
}

/// Kind of information to write to a file for the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dump {
    Env,
    Args,
    Cwd,
    Stdin,
    Fds,
    Pid,
}

/// Parses a script; an error names the line.
pub(crate) fn parse(text: &str) -> Result<Vec<Verb>, String> {
    // Verbs of the open loops; the first entry is the script itself.
    let mut open: Vec<(Option<usize>, Vec<Verb>)> = vec![(Some(1), Vec::new())];
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |kind: String| format!("line {}: {kind}: {line}", number + 1);
        let mut words = Words { rest: line };
        match words.word().map_err(wrong)? {
            "loop" => open.push((words.times().map_err(wrong)?, Vec::new())),
            "end" if open.len() > 1 => {
                if let Some((times, body)) = open.pop() {
                    push(&mut open, Verb::Loop { times, body });
                }
            }
            verb => push(&mut open, parse_verb(verb, words).map_err(wrong)?),
        }
    }
    match open.pop() {
        Some((_, verbs)) if open.is_empty() => Ok(verbs),
        _ => Err("loop without end".to_owned()),
    }
}

fn push(open: &mut [(Option<usize>, Vec<Verb>)], verb: Verb) {
    if let Some((_, verbs)) = open.last_mut() {
        verbs.push(verb);
    }
}

fn parse_verb(verb: &str, mut words: Words<'_>) -> Result<Verb, String> {
    Ok(match verb {
        "read" => Verb::Read,
        "read-user" => Verb::ReadUser,
        "read-until-eof" => Verb::ReadUntilEof,
        "wait-control" => Verb::WaitControl,
        "answer-control" => Verb::AnswerControl,
        "wait-interrupt" => Verb::WaitInterrupt,
        "answer-interrupt" => Verb::AnswerInterrupt,
        "print" => Verb::Print(words.rest()),
        "print-nonl" => Verb::PrintNoNewline(words.rest()),
        "bytes" => Verb::Bytes(words.hex()?),
        "file" => Verb::File(words.path()?),
        "wait-file" => Verb::WaitFile(words.path()?),
        "chunks" => Verb::Chunks {
            size: words.number()?,
            delay_ms: words.number()?,
            text: words.rest(),
        },
        "stderr" => Verb::Stderr(words.text()),
        "stderr-flood" => Verb::StderrFlood(words.number()?),
        "flood" => Verb::Flood {
            total: words.number()?,
            line: words.number()?,
        },
        "long-line" => Verb::LongLine(words.number()?),
        "sleep" => Verb::Sleep(words.number()?),
        "hang" => Verb::Hang,
        "ignore-sigterm" => Verb::IgnoreSigterm,
        "exit" => Verb::Exit(words.number()?),
        "die-by" => Verb::DieBy(words.number()?),
        "write-file-after-eof" => Verb::WriteFileAfterEof {
            delay_ms: words.number()?,
            path: words.path()?,
        },
        _ => return parse_line_verb(verb, words),
    })
}

// Verbs that print one line of the agent's protocol.
fn parse_line_verb(verb: &str, mut words: Words<'_>) -> Result<Verb, String> {
    Ok(match verb {
        "init" => Verb::Init,
        "text" => Verb::Text(words.text()),
        "thinking" => Verb::Thinking(words.text()),
        "delta" => Verb::Delta(words.text()),
        "tool-use" => Verb::ToolUse {
            id: words.owned()?,
            name: words.owned()?,
            input: words.json()?,
        },
        "tool-result" => Verb::ToolResult {
            id: words.owned()?,
            text: words.text(),
        },
        "result" => Verb::Result(words.text()),
        "result-error" => Verb::ResultError {
            subtype: words.owned()?,
            text: words.text(),
        },
        "task-started" => Verb::TaskStarted(words.owned()?),
        "task-done" => Verb::TaskDone(words.owned()?),
        "control-request" => Verb::ControlRequest {
            id: words.owned()?,
            tool: words.owned()?,
            input: words.json()?,
        },
        _ => return parse_process_verb(verb, words),
    })
}

// Verbs that start a process or write a file about this one.
fn parse_process_verb(verb: &str, mut words: Words<'_>) -> Result<Verb, String> {
    let spawn = |kind, words: &mut Words<'_>| Verb::Spawn {
        kind,
        pid_file: words.path().ok(),
    };
    let kind = match verb {
        "spawn-child" => return Ok(spawn(Offspring::Child, &mut words)),
        "spawn-setsid" => return Ok(spawn(Offspring::Setsid, &mut words)),
        "spawn-envless" => return Ok(spawn(Offspring::Envless, &mut words)),
        "spawn-holding-stdout" => return Ok(spawn(Offspring::HoldingStdout, &mut words)),
        "dump-env" => Dump::Env,
        "dump-args" => Dump::Args,
        "dump-cwd" => Dump::Cwd,
        "dump-stdin" => Dump::Stdin,
        "report-fds" => Dump::Fds,
        "pid-file" => Dump::Pid,
        _ => return Err("unknown verb".to_owned()),
    };
    Ok(Verb::Dump {
        kind,
        path: words.path()?,
    })
}

/// The rest of a line, consumed word by word.
struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    fn word(&mut self) -> Result<&'a str, String> {
        let (word, rest) = self.rest.split_once(' ').unwrap_or((self.rest, ""));
        self.rest = rest;
        if word.is_empty() {
            Err("missing argument".to_owned())
        } else {
            Ok(word)
        }
    }

    fn owned(&mut self) -> Result<String, String> {
        self.word().map(str::to_owned)
    }

    fn number<T: std::str::FromStr>(&mut self) -> Result<T, String> {
        let word = self.word()?;
        word.parse()
            .map_err(|_| format!("{word} is not a number in range"))
    }

    fn times(&mut self) -> Result<Option<usize>, String> {
        if self.rest.trim() == "forever" {
            Ok(None)
        } else {
            self.number().map(Some)
        }
    }

    fn rest(&mut self) -> String {
        std::mem::take(&mut self.rest).to_owned()
    }

    fn text(&mut self) -> String {
        let mut text = String::new();
        let mut characters = self.rest.chars();
        while let Some(character) = characters.next() {
            match (character, character == '\\') {
                (_, true) => match characters.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some(other) => text.push(other),
                    None => text.push('\\'),
                },
                (plain, false) => text.push(plain),
            }
        }
        text
    }

    // A path extends to the end of the line: it may contain spaces.
    fn path(&mut self) -> Result<PathBuf, String> {
        let path = self.rest();
        if path.is_empty() {
            Err("missing path".to_owned())
        } else {
            Ok(path.into())
        }
    }

    fn json(&mut self) -> Result<Value, String> {
        serde_json::from_str(self.rest).map_err(|error| format!("invalid JSON ({error})"))
    }

    fn hex(&mut self) -> Result<Vec<u8>, String> {
        let digits: Vec<char> = self.rest.chars().filter(|c| !c.is_whitespace()).collect();
        let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).ok();
        let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
        bytes
            .filter(|_| digits.len().is_multiple_of(2))
            .ok_or_else(|| "invalid hex bytes".to_owned())
    }
}
