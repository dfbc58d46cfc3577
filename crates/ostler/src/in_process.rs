//! An agent inside this process: a task in the place of a process, with pipes that look like a process's.

use std::future::Future;
use std::pin::Pin;

use tokio::io::DuplexStream;
use tokio::task::JoinHandle;

use crate::process::{Child, Control, ExitStatus};

/// How much may be on its way.
const PIPE: usize = 64 * 1024;

/// Starts a task that reads its input and writes its output like an agent's process.
pub(crate) fn start<F>(busy: Busy, live: impl FnOnce(DuplexStream, DuplexStream) -> F) -> Child
where
    F: Future<Output = ()> + Send + 'static,
{
    let (stdin, theirs_in) = tokio::io::duplex(PIPE);
    let (theirs_out, stdout) = tokio::io::duplex(PIPE);
    let task = tokio::spawn(live(theirs_in, theirs_out));
    Child {
        stdin: Some(Box::new(stdin)),
        stdout: Box::new(stdout),
        stderr: None,
        pid: None,
        notice: None,
        control: Box::new(Inner {
            task,
            killed: None,
            over: None,
            busy,
        }),
    }
}

/// What is held for reading by whatever the agent has started, until that is gone.
pub(crate) type Busy = std::sync::Arc<tokio::sync::RwLock<()>>;

struct Inner {
    busy: Busy,
    over: Option<ExitStatus>,
    task: JoinHandle<()>,
    killed: Option<i32>,
}

impl Control for Inner {
    fn terminate(&mut self) {
        self.killed = Some(15);
        self.task.abort();
    }

    fn kill(&mut self) {
        self.killed = Some(9);
        self.task.abort();
    }

    fn wait(&mut self) -> Pin<Box<dyn Future<Output = ExitStatus> + Send + '_>> {
        Box::pin(async {
            // Kept, because this future is dropped and made anew while it is awaited.
            let status = match self.over {
                Some(status) => status,
                None => match ((&mut self.task).await, self.killed) {
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
            self.over = Some(status);
            // What it had started ends behind it; only then it is over.
            drop(self.busy.write().await);
            status
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.task.abort();
    }
}
