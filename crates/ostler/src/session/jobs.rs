//! Jobs that run concurrently with reading the agent: the caller's tools, file access, and
//! permission prompts.

use std::collections::HashMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::{AbortHandle, abortable};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use ostler_core::clip::head_and_tail;
use ostler_core::dialect::{FileError, FileJob, ToolJob};
use ostler_core::event::Permission;
use ostler_core::machine::PermissionAnswer;
use tokio::sync::mpsc;

use super::files::Files;
use super::tool_results::Submissions;
use crate::host::Host;
use crate::permission::PermissionHandler;
use crate::tools::{Progress, Tool};

/// Size of the head and of the tail of a tool's output that are sent to the agent.
const OUTPUT_HALF: usize = 5 * 1024 * 1024;

/// Maximum number of queued progress messages.
const PROGRESS_QUEUE: usize = 64;

/// The result of a job, or its progress.
pub(super) enum JobResult {
    /// The permission handler's answer to a request, given by its id.
    Permission(String, PermissionAnswer),
    /// The result of a file access.
    File(String, Result<String, FileError>),
    /// The result of a tool call.
    Tool {
        id: String,
        ok: bool,
        output: String,
    },
    /// A progress message of a running tool.
    Progress { id: String, message: String },
}

/// Progress messages, each with the id of its job.
struct ProgressQueue {
    sender: mpsc::Sender<(String, String)>,
    receiver: mpsc::Receiver<(String, String)>,
}

impl ProgressQueue {
    fn new() -> Self {
        let (sender, receiver) = mpsc::channel(PROGRESS_QUEUE);
        Self { sender, receiver }
    }

    /// Waits for the next message; forever if there is no queue.
    async fn next(queue: Option<&mut Self>) -> Option<(String, String)> {
        match queue {
            Some(queue) => queue.receiver.recv().await,
            None => std::future::pending().await,
        }
    }
}

type Running = Pin<Box<dyn Future<Output = Option<JobResult>> + Send>>;

/// Waits for the next job that has a result; forever if there is none.
async fn next_finished(running: Option<&mut FuturesUnordered<Running>>) -> JobResult {
    if let Some(running) = running {
        while let Some(result) = running.next().await {
            if let Some(result) = result {
                return result;
            }
        }
    }
    std::future::pending().await
}

/// The running jobs of a session.
pub(super) struct Jobs {
    /// Empty until the first job: it allocates, and many sessions never run one.
    running: Option<FuturesUnordered<Running>>,
    /// Abort handles by id.
    aborts: HashMap<String, AbortHandle>,
    tools: Vec<Arc<dyn Tool>>,
    handler: Option<Arc<dyn PermissionHandler>>,
    submissions: Arc<Submissions>,
    /// Created on first use: most agents access files themselves.
    files: Option<Files>,
    /// Progress of running tools, from the first of the caller's tools on.
    progress: Option<ProgressQueue>,
}

impl Jobs {
    pub(super) fn new(host: &Host, submissions: Arc<Submissions>) -> Self {
        let (tools, handler) = (host.tools().to_vec(), host.permission_handler().cloned());
        Self {
            running: None,
            aborts: HashMap::new(),
            tools,
            handler,
            submissions,
            files: None,
            progress: None,
        }
    }

    /// Waits for the next result or progress message.
    pub(super) async fn next(&mut self) -> JobResult {
        tokio::select! {
            Some((id, message)) = ProgressQueue::next(self.progress.as_mut()) => {
                JobResult::Progress { id, message }
            }
            result = next_finished(self.running.as_mut()) => result,
        }
    }

    fn start(&mut self, id: String, job: impl Future<Output = JobResult> + Send + 'static) {
        let (job, abort) = abortable(job);
        self.aborts.insert(id, abort);
        self.push(Box::pin(async move { job.await.ok() }));
    }

    fn push(&mut self, job: Running) {
        self.running.get_or_insert_default().push(job);
    }

    /// Cancels a job.
    pub(super) fn cancel(&mut self, id: &str) {
        if let Some(abort) = self.aborts.remove(id) {
            abort.abort();
        }
    }

    /// Asks the permission handler. Without one, the request waits for [`Remote::answer`].
    ///
    /// [`Remote::answer`]: super::Remote::answer
    pub(super) fn ask(&mut self, permission: Permission) {
        let Some(handler) = self.handler.clone() else {
            return;
        };
        self.start(permission.id.clone(), async move {
            // A handler that panics has not approved anything.
            let answer = AssertUnwindSafe(async { handler.ask(&permission).await })
                .catch_unwind()
                .await;
            let answer = answer.unwrap_or_else(|_| {
                PermissionAnswer::Deny("the permission handler panicked".into())
            });
            JobResult::Permission(permission.id, answer)
        });
    }

    /// Runs one of the caller's tools, or waits for the caller to submit its result.
    pub(super) fn run_tool(&mut self, job: ToolJob) {
        let ToolJob {
            id,
            call,
            name,
            input,
        } = job;
        let Some(tool) = self.tools.iter().find(|tool| tool.name() == name).cloned() else {
            let submissions = self.submissions.clone();
            return self.start(id.clone(), async move {
                match submissions.result_of(call.as_deref().unwrap_or(&id)).await {
                    Some(result) => JobResult::Tool {
                        id,
                        ok: result.ok,
                        output: head_and_tail(result.output, OUTPUT_HALF),
                    },
                    None => JobResult::Tool {
                        id,
                        ok: false,
                        output: "the caller did not run the tool".into(),
                    },
                }
            });
        };
        let progress = self.progress.get_or_insert_with(ProgressQueue::new);
        let (sender, tool_id) = (progress.sender.clone(), id.clone());
        let progress = Progress::new(move |message| {
            let _ = sender.try_send((tool_id.clone(), message)); // dropped if the queue is full
        });
        self.start(id.clone(), async move {
            let result =
                AssertUnwindSafe(async { tool.call_reporting(input.get(), &progress).await })
                    .catch_unwind()
                    .await;
            match result {
                Ok(Ok(output)) => JobResult::Tool {
                    id,
                    ok: true,
                    output: head_and_tail(output, OUTPUT_HALF),
                },
                Ok(Err(error)) => JobResult::Tool {
                    id,
                    ok: false,
                    output: head_and_tail(error.to_string(), OUTPUT_HALF),
                },
                Err(_) => JobResult::Tool {
                    id,
                    ok: false,
                    output: format!("the tool {name} panicked"),
                },
            }
        });
    }

    /// Reads or writes a file in the workspace. It is only cancelled when the agent exits.
    pub(super) fn access_file(&mut self, job: FileJob, files: impl FnOnce() -> Files) {
        let files = self.files.get_or_insert_with(files).clone();
        let id = job.id.clone();
        self.push(Box::pin(async move {
            Some(JobResult::File(id, files.run(job).await))
        }));
    }

    /// Drops the abort handle of a job that has finished.
    pub(super) fn forget(&mut self, id: &str) {
        self.aborts.remove(id);
    }

    /// Cancels all jobs, after the agent has exited.
    pub(super) fn clear(&mut self) {
        self.running = None;
        self.aborts.clear();
    }
}
