//! In-process agents: a task that stands in for a process, with the same kind of pipes.

use futures_util::future::BoxFuture;
use tokio::io::DuplexStream;
use tokio::task::JoinHandle;
use tracing::Instrument;

use crate::process::{Child, Control, ExitStatus};

/// Size of the pipe buffers.
const PIPE: usize = 64 * 1024;

/// Starts a task that reads its input and writes its output like an agent's process.
pub(crate) fn start<F>(busy: Busy, run: impl FnOnce(DuplexStream, DuplexStream) -> F) -> Child
where
    F: Future<Output = ()> + Send + 'static,
{
    let (stdin, task_in) = tokio::io::duplex(PIPE);
    let (task_out, stdout) = tokio::io::duplex(PIPE);
    let task = tokio::spawn(run(task_in, task_out).in_current_span());
    Child {
        stdin: Some(Box::new(stdin)),
        stdout: Box::new(stdout),
        stderr: None,
        pid: None,
        notice: None,
        control: Box::new(InProcess {
            task,
            signal: None,
            status: None,
            busy,
        }),
    }
}

/// A lock held for reading by everything the agent has started, until that has ended.
pub(crate) type Busy = std::sync::Arc<tokio::sync::RwLock<()>>;

/// Controls an in-process agent.
struct InProcess {
    busy: Busy,
    /// Set once the task has ended.
    status: Option<ExitStatus>,
    task: JoinHandle<()>,
    /// The signal that ended it, as reported in its exit status.
    signal: Option<i32>,
}

impl Control for InProcess {
    fn terminate(&mut self) {
        self.signal = Some(15);
        self.task.abort();
    }

    fn kill(&mut self) {
        self.signal = Some(9);
        self.task.abort();
    }

    fn wait(&mut self) -> BoxFuture<'_, ExitStatus> {
        Box::pin(async {
            // Stored, because this future may be dropped and created again.
            let status = match self.status {
                Some(status) => status,
                None => match ((&mut self.task).await, self.signal) {
                    (Err(_), Some(signal)) => ExitStatus {
                        signal: Some(signal),
                        ..ExitStatus::default()
                    },
                    _ => ExitStatus {
                        code: Some(0),
                        ..ExitStatus::default()
                    },
                },
            };
            self.status = Some(status);
            // Wait for everything it had started.
            drop(self.busy.write().await);
            status
        })
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.task.abort();
    }
}
