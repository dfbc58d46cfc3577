//! Stdin and stdout on threads of their own: an editor that does not read blocks one of them and nothing else.

use std::io::{self, BufRead, Read, Write};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::fault::Fault;
use crate::output::TerminalFilter;

/// The longest line that is read: a prompt may bring files along.
const MAX_LINE: u64 = 64 * 1024 * 1024;

/// How many lines may wait on either way. What waits here leaves less to wait in the sessions, so it is little.
const CHANNEL_CAPACITY: usize = 16;

/// How long an editor may take to read the next line once the program ends.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// A line that came in; none where it was too long.
pub(super) type InputLine = Option<String>;

/// Reads lines from stdin until it ends.
pub(super) fn stdin_lines() -> Result<mpsc::Receiver<InputLine>, Fault> {
    let (to, lines) = mpsc::channel(CHANNEL_CAPACITY);
    let read = move || {
        let mut stdin = io::stdin().lock();
        while let Ok(Some(line)) = read_line(&mut stdin, MAX_LINE) {
            if to.blocking_send(line).is_err() {
                return;
            }
        }
    };
    // It is never joined: nothing keeps this program when it has ended its sessions.
    std::thread::Builder::new()
        .name("stdin".into())
        .spawn(read)
        .map_err(Fault::internal)?;
    Ok(lines)
}

/// The next line that is not empty, without its end; none after the last.
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

/// Passes over the rest of a line.
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

/// The way to stdout. When all senders are gone, what was sent is written, and `done` says how that went.
pub(super) fn writer() -> Result<(mpsc::Sender<String>, oneshot::Receiver<io::Result<()>>), Fault> {
    let (to, mut lines) = mpsc::channel::<String>(CHANNEL_CAPACITY);
    let (tell, done) = oneshot::channel();
    let write = move || {
        let mut stdout = io::BufWriter::new(TerminalFilter::stdout());
        let mut write = || -> io::Result<()> {
            while let Some(line) = lines.blocking_recv() {
                stdout.write_all(line.as_bytes())?;
                stdout.write_all(b"\n")?;
                if lines.is_empty() {
                    stdout.flush()?;
                }
            }
            stdout.flush()
        };
        let _ = tell.send(write()); // nobody waits for it any more: the program is about to end
    };
    std::thread::Builder::new()
        .name("stdout".into())
        .spawn(write)
        .map_err(Fault::internal)?;
    Ok((to, done))
}

/// When the time that an editor has for a line is over, if it begins now.
#[expect(
    clippy::disallowed_methods,
    reason = "how long an editor is waited for is a time of this program's own"
)]
pub(super) fn read_deadline() -> Instant {
    Instant::now() + READ_TIMEOUT
}

/// Room for a line; none when nobody reads any more, or not until then.
pub(super) async fn reserve(
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
    fn lines_are_told_apart_whatever_their_ends() {
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
