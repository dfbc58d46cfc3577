//! Stand-in mode: `<argv 0>.mode` says whether to record a real agent or to replay its transcript.
//!
//! By hand: `fake-agent record FILE -- program arguments…`, and `fake-agent play FILE`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use ostler_testkit::transcript::{self, Placeholders, TranscriptEntry};
use serde_json::Value;

use crate::offspring;
use crate::record::{self, RecordedRun};

/// Exit code if the transcript does not match: a bug in the test, or Ostler sends something else
/// now.
const MISMATCH: u8 = 65;

/// Returns the mode file, if it exists.
pub(crate) fn mode(program: &str) -> Option<PathBuf> {
    let file = PathBuf::from(format!("{program}.mode"));
    file.is_file().then_some(file)
}

/// Runs in the mode that the file specifies.
pub(crate) fn act(mode: &Path, args: &[String]) -> ExitCode {
    exit_code_of(run_mode(mode, args))
}

/// `record FILE -- program arguments…`.
pub(crate) fn record_by_hand(file: &str, command: &[&str]) -> ExitCode {
    let Some((program, args)) = command.split_first() else {
        return exit_code_of(Err(
            "usage: fake-agent record FILE -- program arguments…".to_owned()
        ));
    };
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let run = RecordedRun {
        program: Path::new(program),
        args: &args,
        home: None,
    };
    let recorded =
        File::create(file).and_then(|out| record::record(out, Placeholders::default(), &run));
    exit_code_of(recorded.map_err(|error| error.to_string()))
}

/// `play FILE`: replays the first process of the file.
pub(crate) fn play_by_hand(file: &str) -> ExitCode {
    exit_code_of(play(Path::new(file), 1, &Placeholders::default()))
}

fn exit_code_of(done: Result<ExitCode, String>) -> ExitCode {
    done.unwrap_or_else(|error| {
        let _gone = writeln!(std::io::stderr(), "fake-agent: {error}");
        ExitCode::from(MISMATCH)
    })
}

fn run_mode(mode: &Path, args: &[String]) -> Result<ExitCode, String> {
    let text =
        std::fs::read_to_string(mode).map_err(|error| format!("{}: {error}", mode.display()))?;
    let mode: Value = serde_json::from_str(&text)
        .map_err(|error| format!("the mode file is not valid JSON: {error}"))?;
    let field = |name: &str| mode[name].as_str().map(str::to_owned);
    let (Some(root), Some(model)) = (field("root"), field("model")) else {
        return Err("the mode file has no root or model".to_owned());
    };
    let placeholders = Placeholders::of(&root, &model);
    let failed = |error: std::io::Error| error.to_string();
    if let (Some(dir), Some(program)) = (field("record"), field("program")) {
        let (file, _) = transcript::next(Path::new(&dir)).map_err(failed)?;
        let home = Path::new(&root).join("home");
        let run = RecordedRun {
            program: Path::new(&program),
            args,
            home: Some(&home),
        };
        let placeholders = placeholders
            .with_program_dir(run.program)
            .with_agents_dir(run.program);
        return record::record(file, placeholders, &run).map_err(failed);
    }
    match (field("play"), field("dir")) {
        (Some(file), Some(dir)) => {
            let (_, number) = transcript::next(Path::new(&dir)).map_err(failed)?;
            play(Path::new(&file), number, &placeholders)
        }
        _ => Err("the mode file has neither record nor play".to_owned()),
    }
}

/// Replays process number `number` of a transcript, counted from 1.
fn play(file: &Path, number: usize, placeholders: &Placeholders) -> Result<ExitCode, String> {
    let text =
        std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut processes = transcript::parse(&text)?;
    if number > processes.len() {
        return Err(format!(
            "process {number} was started, but {} has only {}",
            file.display(),
            processes.len()
        ));
    }
    let process = processes.swap_remove(number - 1);
    // The session file may be looked up while this process is still running.
    for entry in &process {
        if let TranscriptEntry::SessionFile(path, text) = entry {
            write_session_file(
                Path::new(&placeholders.expanded(path)),
                &placeholders.expanded(text),
            )?;
        }
    }
    let mut input = BufReader::new(std::io::stdin());
    let (mut plain, mut signals) = (
        0,
        ExpectedSignals::register(&process).map_err(|error| error.to_string())?,
    );
    for entry in process {
        match entry {
            TranscriptEntry::Start(_) | TranscriptEntry::SessionFile(..) => {}
            TranscriptEntry::In(recorded) => {
                plain += usize::from(transcript::kind(&recorded) == "text");
                expect(&mut input, &recorded)?;
            }
            TranscriptEntry::InEnd => drain(&mut input, plain >= transcript::PROMPT)?,
            TranscriptEntry::Out(line) => print(
                &mut std::io::stdout().lock(),
                &format!("{}\n", placeholders.expanded(&line)),
            )?,
            TranscriptEntry::Stderr(text) => {
                print(&mut std::io::stderr().lock(), &placeholders.expanded(&text))?;
            }
            TranscriptEntry::Exit(code) => return Ok(ExitCode::from(code)),
            TranscriptEntry::SignalSent(_) => signals.wait(),
            TranscriptEntry::Signal(signal) => {
                if signals.is_expected {
                    // It has arrived, and our handler caught it.
                    signal_hook::low_level::emulate_default_handler(signal)
                        .map_err(|error| error.to_string())?;
                }
                // The sender of the recorded signal sends it again now.
                thread::sleep(Duration::from_secs(60));
                offspring::die_by(signal).map_err(|error| error.to_string())?;
            }
        }
    }
    // It was killed before it could report how it ended.
    loop {
        thread::park();
    }
}

/// Signals that ask the agent to exit and that it handles itself.
struct ExpectedSignals {
    is_expected: bool,
    arrivals: UnixStream,
}

impl ExpectedSignals {
    /// Registers handlers for the signals that this process will receive.
    fn register(process: &[TranscriptEntry]) -> std::io::Result<Self> {
        let (arrivals, theirs) = UnixStream::pair()?;
        arrivals.set_read_timeout(Some(Duration::from_secs(60)))?;
        let signals = process.iter().filter_map(|entry| {
            if let TranscriptEntry::SignalSent(signal) = entry {
                Some(*signal)
            } else {
                None
            }
        });
        let mut is_expected = false;
        for signal in signals {
            signal_hook::low_level::pipe::register(signal, theirs.try_clone()?)?;
            is_expected = true;
        }
        Ok(Self {
            is_expected,
            arrivals,
        })
    }

    /// Waits for a signal: the sender of the recorded one sends it again now.
    fn wait(&mut self) {
        let _none = self.arrivals.read_exact(&mut [0]);
    }
}

fn write_session_file(path: &Path, text: &str) -> Result<(), String> {
    let written = path
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(path, text));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

/// Waits for a line of the same kind as the recorded one.
fn expect(input: &mut impl BufRead, recorded: &str) -> Result<(), String> {
    let mut line = String::new();
    let read = input
        .read_line(&mut line)
        .map_err(|error| error.to_string())?;
    let (wanted, found) = (
        transcript::kind(recorded),
        transcript::kind(line.trim_end_matches('\n')),
    );
    if read == 0 {
        return Err(format!(
            "the input ended; the recording continues with {wanted}"
        ));
    }
    if wanted != found {
        let head: String = line.chars().take(300).collect();
        return Err(format!(
            "expected {wanted} as recorded, got {found}: {head}"
        ));
    }
    Ok(())
}

/// Waits until the input is closed. Only the rest of a truncated prompt may still arrive.
fn drain(input: &mut impl Read, is_cut: bool) -> Result<(), String> {
    let mut rest = String::new();
    input
        .read_to_string(&mut rest)
        .map_err(|error| error.to_string())?;
    match rest
        .lines()
        .find(|line| !(is_cut && transcript::kind(line) == "text"))
    {
        Some(line) => Err(format!(
            "expected end of input as recorded, got {}: {line}",
            transcript::kind(line)
        )),
        None => Ok(()),
    }
}

fn print(out: &mut impl Write, text: &str) -> Result<(), String> {
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| error.to_string())
}
