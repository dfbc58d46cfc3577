//! Threads for both directions of the connection: an editor that does not read blocks only the
//! thread that writes.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// Maximum length of a line: a prompt may embed files.
const MAX_LINE: u64 = 64 * 1024 * 1024;

/// Maximum number of lines waiting in each direction. Small, because the sessions have their own
/// queues.
const CHANNEL_CAPACITY: usize = 16;

/// Time for the editor to read the next line when the program is ending.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// An input line; `None` if it was too long.
pub(crate) type InputLine = Option<String>;

/// Spawns a thread that reads lines until the input closes.
pub(crate) fn spawn_reader(
    input: impl Read + Send + 'static,
) -> io::Result<mpsc::Receiver<InputLine>> {
    let (to, lines) = mpsc::channel(CHANNEL_CAPACITY);
    let read = move || {
        let mut input = BufReader::new(input);
        while let Ok(Some(line)) = read_line(&mut input, MAX_LINE) {
            if to.blocking_send(line).is_err() {
                return;
            }
        }
    };
    // The thread is never joined: nothing must keep the program from exiting after its sessions
    // have ended.
    std::thread::Builder::new()
        .name("acp input".into())
        .spawn(read)?;
    Ok(lines)
}

/// Reads the next non-empty line without its line ending, or `None` at the end.
fn read_line(from: &mut impl BufRead, max_len: u64) -> io::Result<Option<InputLine>> {
    loop {
        let mut bytes = Vec::new();
        if from.by_ref().take(max_len).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(None);
        }
        if bytes.len() as u64 == max_len && bytes.last() != Some(&b'\n') {
            skip(from)?;
            return Ok(Some(None));
        }
        let text = String::from_utf8_lossy(&bytes);
        if !text.trim().is_empty() {
            return Ok(Some(Some(text.trim().to_owned())));
        }
    }
}

/// Skips the rest of a line.
fn skip(from: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = from.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let (skipped, is_over) = end.map_or((buffer.len(), buffer.is_empty()), |at| (at + 1, true));
        from.consume(skipped);
        if is_over {
            return Ok(());
        }
    }
}

/// Spawns a thread that writes lines. When all senders are dropped it writes the remaining lines,
/// and the receiver gets the result.
pub(crate) fn spawn_writer(
    output: impl Write + Send + 'static,
) -> io::Result<(mpsc::Sender<String>, oneshot::Receiver<io::Result<()>>)> {
    let (to, mut lines) = mpsc::channel::<String>(CHANNEL_CAPACITY);
    let (sender, done) = oneshot::channel();
    let write = move || {
        let mut output = BufWriter::new(output);
        let mut write = || -> io::Result<()> {
            while let Some(line) = lines.blocking_recv() {
                output.write_all(line.as_bytes())?;
                output.write_all(b"\n")?;
                if lines.is_empty() {
                    output.flush()?;
                }
            }
            output.flush()
        };
        let _ = sender.send(write()); // the receiver is gone if the program is exiting
    };
    std::thread::Builder::new()
        .name("acp output".into())
        .spawn(write)?;
    Ok((to, done))
}

/// Returns the deadline for reading a line, counted from now.
#[expect(
    clippy::disallowed_methods,
    reason = "the deadline is not part of a session"
)]
pub(crate) fn read_deadline() -> Instant {
    Instant::now() + READ_TIMEOUT
}

/// Reserves room for a line; `None` if the output is closed or the deadline passes.
pub(crate) async fn reserve(
    out: mpsc::Sender<String>,
    until: Option<Instant>,
) -> Option<mpsc::OwnedPermit<String>> {
    let permit = out.reserve_owned();
    match until {
        Some(until) => tokio::time::timeout_at(until, permit).await.ok()?.ok(),
        None => permit.await.ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_endings_and_long_lines_are_handled() {
        let mut from = io::Cursor::new("one\r\n\n  \ntwo\n0123456789abc\nthree\n0123456789\nlast");
        let mut read = || read_line(&mut from, 10).unwrap();
        let some = |text: &str| Some(Some(text.to_owned()));
        assert_eq!(read(), some("one"));
        assert_eq!(read(), some("two"));
        assert_eq!(read(), Some(None), "too long");
        assert_eq!(read(), some("three"));
        assert_eq!(read(), Some(None), "one byte too long");
        assert_eq!(read(), some("last"));
        assert_eq!(read(), None);
    }
}
