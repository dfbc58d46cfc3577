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

use ostler_testkit::transcript::{Placeholders, TranscriptEntry, TranscriptWriter};
use rustix::process::{Pid, Signal, kill_process};

use crate::offspring;

/// Maximum length of the recorded stderr, in bytes, counted from the end.
const TAIL: usize = 2000;
/// How long to wait for remaining output after the agent exited: its children may hold the pipe
/// open forever.
const REST: Duration = Duration::from_secs(2);

/// Signals forwarded to the agent; SIGKILL cannot be forwarded.
const FORWARDED: [Signal; 3] = [Signal::TERM, Signal::INT, Signal::HUP];

type Shared = Arc<Mutex<TranscriptWriter>>;

/// The program to run, and the home where the agent stores its sessions.
pub(crate) struct RecordedRun<'a> {
    pub(crate) program: &'a Path,
    pub(crate) args: &'a [String],
    pub(crate) home: Option<&'a Path>,
}

/// Runs the program and records its input and output, with placeholders substituted.
pub(crate) fn record(
    file: File,
    placeholders: Placeholders,
    run: &RecordedRun<'_>,
) -> std::io::Result<ExitCode> {
    let writer: Shared = Arc::new(Mutex::new(TranscriptWriter::new(file, placeholders)));
    write(&writer, TranscriptEntry::Start(run.args.to_vec()))?;
    let mut command = Command::new(run.program);
    command
        .args(run.args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    forward_signals(&child, &writer)?;
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let input_writer = writer.clone();
    // Ends with the process: joining the reader of an open stdin would block.
    thread::spawn(move || input.map(|input| forward_input(input, &input_writer)));
    let output_writer = writer.clone();
    let stdout_thread =
        thread::spawn(move || output.map(|output| forward_output(output, &output_writer)));
    let stderr_thread = thread::spawn(move || errors.map(forward_stderr).unwrap_or_default());
    let status = child.wait()?;
    let exited_at = Instant::now();
    while !(stdout_thread.is_finished() && stderr_thread.is_finished())
        && exited_at.elapsed() < REST
    {
        thread::sleep(Duration::from_millis(5));
    }
    if let Some(home) = run.home {
        writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .write_session_files(home)?;
    }
    let tail = if stderr_thread.is_finished() {
        stderr_thread.join().unwrap_or_default()
    } else {
        String::new()
    };
    if !tail.is_empty() {
        write(&writer, TranscriptEntry::Stderr(tail))?;
    }
    exit_like(status, &writer)
}

fn write(writer: &Shared, entry: TranscriptEntry) -> std::io::Result<()> {
    writer
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .write(entry)
}

fn exit_like(status: ExitStatus, writer: &Shared) -> std::io::Result<ExitCode> {
    if let Some(number) = status.signal() {
        write(writer, TranscriptEntry::Signal(number))?;
        if FORWARDED
            .iter()
            .any(|forwarded| forwarded.as_raw() == number)
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
    write(writer, TranscriptEntry::Exit(code))?;
    Ok(ExitCode::from(code))
}

/// Forwards Ostler's input to the agent.
fn forward_input(mut input: impl Write, writer: &Shared) -> std::io::Result<()> {
    each_line(std::io::stdin(), |line| {
        write(writer, TranscriptEntry::In(text(line)))?;
        input.write_all(line)?;
        input.flush()
    })?;
    write(writer, TranscriptEntry::InEnd)
}

/// Forwards the agent's output to Ostler.
fn forward_output(output: impl Read, writer: &Shared) -> std::io::Result<()> {
    each_line(output, |line| {
        write(writer, TranscriptEntry::Out(text(line)))?;
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(line)?;
        stdout.flush()
    })
}

/// Forwards stderr and returns its tail.
fn forward_stderr(mut errors: impl Read) -> String {
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
    mut handle: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        handle(&line)?;
        line.clear();
    }
    Ok(())
}

fn text(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    String::from_utf8_lossy(line).into_owned()
}

fn forward_signals(child: &Child, writer: &Shared) -> std::io::Result<()> {
    let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    for signal in FORWARDED {
        let (mut ours, theirs) = UnixStream::pair()?;
        signal_hook::low_level::pipe::register(signal.as_raw(), theirs)?;
        let writer = writer.clone();
        thread::spawn(move || {
            while ours.read_exact(&mut [0]).is_ok() {
                let _full = write(&writer, TranscriptEntry::SignalSent(signal.as_raw()));
                // If the child has exited, there is nothing to signal.
                let _gone = child.map(|child| kill_process(child, signal));
            }
        });
    }
    Ok(())
}
