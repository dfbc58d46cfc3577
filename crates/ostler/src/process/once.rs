//! Running a short command to its end, with a time limit and bounded output: versions, login states.

use std::time::Duration;

use ostler_core::clip::HeadTail;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use super::{Child, ExitStatus, PreparedCommand, SpawnError};

/// How much of each stream is kept.
const KEPT: usize = 32 * 1024;

/// What a short command gave.
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) timed_out: bool,
}

/// Starts a command with nothing on its stdin and waits for its end, or for `limit`.
pub(crate) async fn run_once(
    prepared: PreparedCommand,
    limit: Duration,
) -> Result<Finished, SpawnError> {
    run_with_input(prepared, "", limit).await
}

/// Starts a command, writes `input` to its stdin, closes that, and waits for its end, or for `limit`.
pub(crate) async fn run_with_input(
    prepared: PreparedCommand,
    input: &str,
    limit: Duration,
) -> Result<Finished, SpawnError> {
    let Child {
        stdin,
        mut stdout,
        stderr,
        mut control,
        ..
    } = super::spawn(prepared).await?;
    let (mut out, mut err) = (HeadTail::new(KEPT), HeadTail::new(KEPT));
    let work = async {
        let stdin = async {
            if let Some(mut stdin) = stdin {
                // A command that ends without reading it says why in its output.
                let _ = stdin.write_all(input.as_bytes()).await;
                let _ = stdin.shutdown().await;
            }
        };
        let stderr = async {
            if let Some(mut stderr) = stderr {
                drain(&mut stderr, &mut err).await;
            }
        };
        // Waiting for the end also ends what holds the pipes open.
        let ((), (), (), status) =
            tokio::join!(stdin, drain(&mut stdout, &mut out), stderr, control.wait());
        status
    };
    match tokio::time::timeout(limit, work).await {
        Ok(status) => Ok(Finished {
            status,
            stdout: out.text(),
            stderr: err.text(),
            timed_out: false,
        }),
        Err(_) => {
            control.kill();
            let _ = tokio::time::timeout(Duration::from_secs(2), control.wait()).await;
            Ok(Finished {
                status: ExitStatus::default(),
                stdout: out.text(),
                stderr: err.text(),
                timed_out: true,
            })
        }
    }
}

async fn drain(stream: &mut (impl AsyncRead + Unpin), into: &mut HeadTail) {
    let mut buffer = vec![0; 8 * 1024];
    while let Ok(n @ 1..) = stream.read(&mut buffer).await {
        into.push(&buffer[..n]);
    }
}
