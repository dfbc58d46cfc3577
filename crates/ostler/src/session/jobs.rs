//! What the session does for the agent beside reading it: the caller's tools run here, and the caller is asked.

use std::collections::HashMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::{AbortHandle, abortable};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use ostler_core::clip::head_and_tail;
use ostler_core::dialect::{FileFault, FileOrder, ToolOrder};
use ostler_core::event::Permission;
use ostler_core::machine::Answer;
use tokio::sync::mpsc;

use super::files::Files;
use super::tool_results::Submissions;
use crate::host::Host;
use crate::permission_handler::PermissionHandler;
use crate::tool::{Progress, Tool};

/// Each half of a tool's output that goes to an agent.
const OUTPUT_HALF: usize = 5 * 1024 * 1024;

/// How many words of tools may wait.
const PROGRESS: usize = 64;

/// Something came to its end.
pub(super) enum JobResult {
    Answered(String, Answer),
    /// A file was read or written, or not.
    File(String, Result<String, FileFault>),
    Tool {
        id: String,
        ok: bool,
        output: String,
    },
    /// A tool says how far it is.
    Progress {
        id: String,
        message: String,
    },
}

type Running = Pin<Box<dyn Future<Output = Option<JobResult>> + Send>>;

/// What is under way.
pub(super) struct Jobs {
    running: FuturesUnordered<Running>,
    /// How to call each off, by its id.
    off: HashMap<String, AbortHandle>,
    tools: Vec<Arc<dyn Tool>>,
    handler: Option<Arc<dyn PermissionHandler>>,
    submissions: Arc<Submissions>,
    files: Files,
    say: mpsc::Sender<(String, String)>,
    said: mpsc::Receiver<(String, String)>,
}

impl Jobs {
    pub(super) fn new(host: &Host, submissions: Arc<Submissions>, files: Files) -> Self {
        let (say, said) = mpsc::channel(PROGRESS);
        let (tools, handler) = (host.tools().to_vec(), host.permission_handler().cloned());
        Self {
            running: FuturesUnordered::new(),
            off: HashMap::new(),
            tools,
            handler,
            submissions,
            files,
            say,
            said,
        }
    }

    /// The next thing that comes to its end.
    pub(super) async fn next(&mut self) -> JobResult {
        loop {
            tokio::select! {
                Some((id, message)) = self.said.recv() => return JobResult::Progress { id, message },
                Some(done) = self.running.next(), if !self.running.is_empty() => {
                    if let Some(done) = done {
                        return done;
                    }
                }
            }
        }
    }

    fn start(&mut self, key: String, jobs: impl Future<Output = JobResult> + Send + 'static) {
        let (jobs, off) = abortable(jobs);
        self.off.insert(key, off);
        self.running.push(Box::pin(async move { jobs.await.ok() }));
    }

    /// Nobody waits for this any more.
    pub(super) fn call_off(&mut self, key: &str) {
        if let Some(off) = self.off.remove(key) {
            off.abort();
        }
    }

    /// Asks the caller, where there is a function for that; else whoever reads the events answers.
    pub(super) fn ask(&mut self, question: Permission) {
        let Some(handler) = self.handler.clone() else {
            return;
        };
        self.start(question.id.clone(), async move {
            // A function that panics has not said yes.
            let answer = AssertUnwindSafe(async { handler.ask(&question).await })
                .catch_unwind()
                .await;
            let answer = answer
                .unwrap_or_else(|_| Answer::Deny("the function that was asked broke down".into()));
            JobResult::Answered(question.id, answer)
        });
    }

    /// Runs one of the caller's tools, or waits until the caller has run it.
    pub(super) fn run(&mut self, order: ToolOrder) {
        let ToolOrder {
            id,
            call,
            name,
            input,
        } = order;
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
                        output: "nobody ran the tool".into(),
                    },
                }
            });
        };
        let (say, about) = (self.say.clone(), id.clone());
        let progress = Progress::new(move |message| {
            let _ = say.try_send((about.clone(), message)); // what does not fit is not worth waiting for
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
                    output: format!("the tool {name} broke down"),
                },
            }
        });
    }

    /// Reads or writes a file of the workspace. Only the end of the agent calls that off.
    pub(super) fn file(&mut self, order: FileOrder) {
        let (files, id) = (self.files.clone(), order.id.clone());
        self.running.push(Box::pin(async move {
            Some(JobResult::File(id, files.carry_out(order).await))
        }));
    }

    /// It came to its end and need not be called off.
    pub(super) fn is_done(&mut self, key: &str) {
        self.off.remove(key);
    }

    /// The agent is gone: nobody waits for anything.
    pub(super) fn clear(&mut self) {
        self.running.clear();
        self.off.clear();
    }
}
