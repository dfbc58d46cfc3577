//! Short commands, such as version queries, with a time limit and bounded output.

use std::time::Duration;

use ostler_core::clip::HeadTail;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use super::{Child, ExitStatus, PreparedCommand, SpawnError};

/// Size of the head and of the tail of each stream that are retained.
const OUTPUT_HALF: usize = 32 * 1024;

/// Output and exit status of a short command.
pub(crate) struct RunOutput {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) timed_out: bool,
}

impl RunOutput {
    /// Returns its stdout. Some programs print everything to stderr where there is no terminal.
    pub(crate) fn printed(&self) -> &str {
        if self.stdout.is_empty() {
            &self.stderr
        } else {
            &self.stdout
        }
    }
}

/// Runs a command with empty stdin, for at most `limit`.
pub(crate) async fn run_once(
    prepared: PreparedCommand,
    limit: Duration,
) -> Result<RunOutput, SpawnError> {
    run_with_input(prepared, "", limit).await
}

/// Runs a command with `input` as its stdin, for at most `limit`.
pub(crate) async fn run_with_input(
    prepared: PreparedCommand,
    input: &str,
    limit: Duration,
) -> Result<RunOutput, SpawnError> {
    let Child {
        stdin,
        mut stdout,
        stderr,
        mut control,
        ..
    } = super::spawn(Box::new(prepared)).await?;
    let (mut out, mut err) = (HeadTail::new(OUTPUT_HALF), HeadTail::new(OUTPUT_HALF));
    let work = async {
        let stdin = async {
            if let Some(mut stdin) = stdin {
                // If the command exits without reading it, its output says why.
                let _ = stdin.write_all(input.as_bytes()).await;
                let _ = stdin.shutdown().await;
            }
        };
        let stderr = async {
            if let Some(mut stderr) = stderr {
                drain(&mut stderr, &mut err).await;
            }
        };
        // `wait` also kills leftover processes that hold the pipes open.
        let ((), (), (), status) =
            tokio::join!(stdin, drain(&mut stdout, &mut out), stderr, control.wait());
        status
    };
    match tokio::time::timeout(limit, work).await {
        Ok(status) => Ok(RunOutput {
            status,
            stdout: out.text(),
            stderr: err.text(),
            timed_out: false,
        }),
        Err(_) => {
            control.kill();
            let _ = tokio::time::timeout(Duration::from_secs(2), control.wait()).await;
            Ok(RunOutput {
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
