//! Recorder: runs a real agent behind Ostler and records both directions. Streams and signals pass
//! through unchanged.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ostler_testkit::transcript::{Entry, Names, Scribe};
use rustix::process::{Pid, Signal, kill_process};

use crate::offspring;

/// Maximum length of the recorded stderr, in bytes, counted from the end.
const TAIL: usize = 2000;
/// How long to wait for remaining output after the agent exited: its children may hold the pipe
/// open forever.
const REST: Duration = Duration::from_secs(2);

/// Signals forwarded to the agent; SIGKILL cannot be forwarded.
const PASSED_ON: [Signal; 3] = [Signal::TERM, Signal::INT, Signal::HUP];

type Shared = Arc<Mutex<Scribe>>;

/// The program to run, and the home where the agent stores its sessions.
pub(crate) struct Recorded<'a> {
    pub(crate) program: &'a Path,
    pub(crate) args: &'a [String],
    pub(crate) home: Option<&'a Path>,
}

/// Runs the program and records its input and output, with placeholders substituted.
pub(crate) fn record(file: File, names: Names, kind: &Recorded<'_>) -> std::io::Result<ExitCode> {
    let scribe: Shared = Arc::new(Mutex::new(Scribe::new(file, names)));
    note(&scribe, Entry::Start(kind.args.to_vec()))?;
    let mut command = Command::new(kind.program);
    command
        .args(kind.args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    pass_on_signals(&child, &scribe)?;
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let heard = scribe.clone();
    // Ends with the process: joining the reader of an open stdin would block.
    thread::spawn(move || input.map(|input| listen(input, &heard)));
    let said = scribe.clone();
    let speaking = thread::spawn(move || output.map(|output| speak(output, &said)));
    let complaining = thread::spawn(move || errors.map(complain).unwrap_or_default());
    let status = child.wait()?;
    let gone = Instant::now();
    while !(speaking.is_finished() && complaining.is_finished()) && gone.elapsed() < REST {
        thread::sleep(Duration::from_millis(5));
    }
    if let Some(home) = kind.home {
        scribe
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .note_kept(home)?;
    }
    let tail = if complaining.is_finished() {
        complaining.join().unwrap_or_default()
    } else {
        String::new()
    };
    if !tail.is_empty() {
        note(&scribe, Entry::Stderr(tail))?;
    }
    end_like(status, &scribe)
}

fn note(scribe: &Shared, entry: Entry) -> std::io::Result<()> {
    scribe
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .note(entry)
}

fn end_like(status: ExitStatus, scribe: &Shared) -> std::io::Result<ExitCode> {
    if let Some(number) = status.signal() {
        note(scribe, Entry::Signal(number))?;
        if PASSED_ON
            .iter()
            .any(|passed_on| passed_on.as_raw() == number)
        {
            // We handle this signal by now: sent to ourselves, it would only be forwarded.
            signal_hook::low_level::emulate_default_handler(number)?;
        }
        offspring::die_by(number)?;
    }
    let code = status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1);
    note(scribe, Entry::Exit(code))?;
    Ok(ExitCode::from(code))
}

/// Forwards Ostler's input to the agent.
fn listen(mut input: impl Write, scribe: &Shared) -> std::io::Result<()> {
    each_line(std::io::stdin(), |line| {
        note(scribe, Entry::In(text(line)))?;
        input.write_all(line)?;
        input.flush()
    })?;
    note(scribe, Entry::InEnd)
}

/// Forwards the agent's output to Ostler.
fn speak(output: impl Read, scribe: &Shared) -> std::io::Result<()> {
    each_line(output, |line| {
        note(scribe, Entry::Out(text(line)))?;
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(line)?;
        stdout.flush()
    })
}

/// Forwards stderr and returns its tail.
fn complain(mut errors: impl Read) -> String {
    let mut tail = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(length @ 1..) = errors.read(&mut piece) {
        let _gone = std::io::stderr().write_all(&piece[..length]);
        tail.extend_from_slice(&piece[..length]);
        tail.drain(..tail.len().saturating_sub(TAIL));
    }
    String::from_utf8_lossy(&tail).into_owned()
}

fn each_line(
    from: impl Read,
    mut kind: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        kind(&line)?;
        line.clear();
    }
    Ok(())
}

fn text(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    String::from_utf8_lossy(line).into_owned()
}

fn pass_on_signals(child: &Child, scribe: &Shared) -> std::io::Result<()> {
    let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    for signal in PASSED_ON {
        let (mut ours, theirs) = UnixStream::pair()?;
        signal_hook::low_level::pipe::register(signal.as_raw(), theirs)?;
        let scribe = scribe.clone();
        thread::spawn(move || {
            while ours.read_exact(&mut [0]).is_ok() {
                let _full = note(&scribe, Entry::Told(signal.as_raw()));
                // If the child has exited, there is nothing to signal.
                let _gone = child.map(|child| kill_process(child, signal));
            }
        });
    }
    Ok(())
}
