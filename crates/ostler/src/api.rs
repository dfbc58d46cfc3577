//! Runner of an API agent: calls the model and runs tools as its conversation commands.
//!
//! It is a task in this process that is connected through pipes like any other agent.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use ostler_core::clip::head_and_tail;
use ostler_core::event::{Notice, Timestamp};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::ToolOffer;
use ostler_model::ModelRequest;
use ostler_model::runner_protocol::{
    Failed, FailedKind, Flow, LoopFeatures, Ready, Retrying, RunnerCommand, RunnerEvent,
    RunnerLine, ToolJob, ToolOutcome, When,
};
use ostler_tools::ToolError;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::mpsc;
use tracing::warn;

use crate::clock;
use crate::hooks::{ASK_PERSON, Hooks, NotVerified};
use crate::in_process;
use crate::model::{Model, ReplyItem, failure};
use crate::process::Child;
use crate::session::tool_results::Submissions;
use crate::toolbox::Toolbox;
use crate::tools::{self, Progress};

/// Everything the runner works with.
#[derive(Clone)]
pub(crate) struct ApiRunner {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) tools: Toolbox,
    /// Tools that the caller runs itself.
    pub(crate) offered: Vec<ToolOffer>,
    /// Results of those tools.
    pub(crate) submissions: Arc<Submissions>,
    pub(crate) cwd: String,
    /// Description of the sandbox for the system prompt.
    pub(crate) sandbox: String,
    /// Notices to emit at the start.
    pub(crate) notices: Vec<Notice>,
    pub(crate) retries: usize,
    pub(crate) busy: in_process::Busy,
    /// The caller's hooks, for an agent loop.
    pub(crate) hooks: Option<Hooks>,
}

/// Maximum delay that a server may ask for. If it asks for more, the call fails instead.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);

/// Starts the runner as an in-process child.
pub(crate) fn start(runner: ApiRunner) -> Child {
    in_process::start(runner.busy.clone(), |commands, output| {
        run(Arc::new(runner), commands, output)
    })
}

/// The current work, cancelled on drop.
type Work = BoxFuture<'static, ()>;

/// Executes commands until there are no more.
async fn run(runner: Arc<ApiRunner>, commands: DuplexStream, mut output: DuplexStream) {
    let (lines, mut pending_lines) = mpsc::channel::<String>(64);
    let events = RunnerOutput(lines);
    let mut commands = BufReader::new(commands).lines();
    let mut work: Option<Work> = Some(Box::pin(introduce(runner.clone(), events.clone())));
    loop {
        tokio::select! {
            // Biased, so that work cancelled before it started never starts.
            biased;
            // Lines are written whole and only here, so cancelled work leaves no partial line
            // behind.
            Some(line) = pending_lines.recv() => {
                if output.write_all(line.as_bytes()).await.is_err() {
                    return;
                }
            }
            line = commands.next_line() => {
                let Ok(Some(line)) = line else { return };
                let (runner, events) = (runner.clone(), events.clone());
                let next: Work = match serde_json::from_str(&line) {
                    Ok(RunnerCommand::Call(request)) => Box::pin(call(runner, request, events)),
                    Ok(RunnerCommand::Hook { when, iteration }) => {
                        Box::pin(hook(runner, when, iteration, events))
                    }
                    Ok(RunnerCommand::Verify(answer)) => Box::pin(verify(runner, answer, events)),
                    Ok(RunnerCommand::Tools(calls)) => Box::pin(run_tools(runner, calls, events)),
                    Ok(RunnerCommand::Introduce) => Box::pin(introduce(runner, events)),
                    Ok(RunnerCommand::Approved(call)) => {
                        // After the work that is still running.
                        let before = work.take();
                        Box::pin(async move {
                            if let Some(before) = before {
                                before.await;
                            }
                            run_tools(runner, vec![call], events).await;
                        })
                    }
                    Ok(RunnerCommand::Cancel) => {
                        work = None;
                        drop(runner.busy.write().await);
                        // After the lines sent before, bypassing a channel that may be full.
                        let mut rest = Vec::new();
                        while let Ok(line) = pending_lines.try_recv() {
                            rest.extend_from_slice(line.as_bytes());
                        }
                        rest.extend_from_slice(line_of(RunnerEvent::Cancelled).as_bytes());
                        if output.write_all(&rest).await.is_err() {
                            return;
                        }
                        continue;
                    }
                    // The conversation never writes such a line. If it did, it must not wait
                    // forever.
                    Err(error) => {
                        let message =
                            format!("Invalid command: {error}; this is a bug in Ostler.");
                        let failed = failure(FailedKind::Invalid, message);
                        let line = line_of(RunnerEvent::Failed(failed));
                        if output.write_all(line.as_bytes()).await.is_err() {
                            return;
                        }
                        continue;
                    }
                };
                work = Some(next);
            }
            () = async { if let Some(work) = &mut work { work.await } }, if work.is_some() => {
                work = None;
            }
        }
    }
}

/// Sends lines to the session.
#[derive(Clone)]
struct RunnerOutput(mpsc::Sender<String>);

impl RunnerOutput {
    async fn event(&self, event: RunnerEvent) {
        self.line(line_of(event)).await;
    }

    /// Returns a progress reporter for a tool. Messages are dropped if the channel is full.
    fn progress(&self) -> Progress {
        let lines = self.0.clone();
        Progress::new(move |message| {
            let _ = lines.try_send(line_of(RunnerEvent::Progress(message)));
        })
    }

    async fn line(&self, line: String) {
        // If the receiver is gone, the commands have ended too, and so will this task.
        let _ = self.0.send(line).await;
    }
}

fn line_of(event: RunnerEvent) -> String {
    format!("{}\n", RawJson::of(&RunnerLine { ostler: event }).get())
}

/// Reports the model, the tools and the environment.
async fn introduce(runner: Arc<ApiRunner>, output: RunnerOutput) {
    let mut attempts = Attempts::new(runner.retries);
    let model = loop {
        let failed = match runner.model.name().await {
            Ok(model) => break model,
            Err(failed) => failed,
        };
        if let Err(failed) = attempts.wait(failed, &output).await {
            return output.event(RunnerEvent::Failed(failed)).await;
        }
    };
    let tools = runner
        .tools
        .iter()
        .map(|tool| tools::offer(&**tool))
        .chain(runner.offered.iter().cloned());
    let tools = tools.chain(runner.hooks.as_ref().and_then(Hooks::offer));
    let ready = Ready {
        model,
        cwd: runner.cwd.clone(),
        tools: tools.collect(),
        sandbox: runner.sandbox.clone(),
        official: runner.model.is_official(),
        uncounted: !runner.model.reports_usage(),
        notices: runner.notices.clone(),
        looping: runner.hooks.as_ref().map(|hooks| looping(&runner, hooks)),
    };
    output.event(RunnerEvent::Ready(ready)).await;
}

fn looping(runner: &ApiRunner, hooks: &Hooks) -> LoopFeatures {
    let mutating = runner
        .tools
        .iter()
        .filter(|tool| !tool.only_reads())
        .map(|tool| tool.name().to_owned());
    LoopFeatures {
        verifies: hooks.verify.is_some(),
        hooks: !hooks.middleware.is_empty(),
        asks: hooks.asks,
        // The effects of the caller's tools are unknown, so they count as mutating.
        mutating: mutating
            .chain(runner.offered.iter().map(|offer| offer.name.clone()))
            .collect(),
    }
}

/// Runs the caller's hooks. A hook that panics stops the loop.
async fn hook(runner: Arc<ApiRunner>, when: When, iteration: u64, output: RunnerOutput) {
    let flow = match &runner.hooks {
        Some(hooks) => {
            AssertUnwindSafe(hooks.run_middleware(when, iteration))
                .catch_unwind()
                .await
        }
        None => Ok(Flow::Go),
    };
    let broken = |_| Flow::Stop("A hook panicked.".to_owned());
    output
        .event(RunnerEvent::Flow(flow.unwrap_or_else(broken)))
        .await;
}

/// Runs the caller's check of the result.
async fn verify(runner: Arc<ApiRunner>, answer: String, output: RunnerOutput) {
    let check = runner
        .hooks
        .as_ref()
        .and_then(|hooks| hooks.verify.as_ref());
    let fault = match check {
        Some(check) => {
            AssertUnwindSafe(async { check.verify(&answer).await })
                .catch_unwind()
                .await
        }
        None => Ok(Ok(())),
    };
    let fault = fault
        .unwrap_or_else(|_| Err("The check itself panicked.".into()))
        .err();
    let fault = fault.map(|NotVerified(why)| head_and_tail(why, OUTPUT_HALF));
    output.event(RunnerEvent::Verified(fault)).await;
}

/// Calls the model, and retries where that can help and no output would be repeated.
async fn call(runner: Arc<ApiRunner>, request: ModelRequest, output: RunnerOutput) {
    let mut attempts = Attempts::new(runner.retries);
    loop {
        let failed = match attempt_call(&runner, &request, &output).await {
            Ok(()) => return output.event(RunnerEvent::Over).await,
            Err(attempt) => attempt,
        };
        let retry = match failed {
            FailedAttempt {
                failed,
                has_output: true,
            } => Err(failed),
            FailedAttempt { failed, .. } => attempts.wait(failed, &output).await,
        };
        if let Err(failed) = retry {
            return output.event(RunnerEvent::Failed(failed)).await;
        }
    }
}

/// Retry state: the attempts made so far and the delays between them.
struct Attempts {
    delays: ExponentialBackoff,
    made: u32,
    max: u32,
}

impl Attempts {
    fn new(retries: usize) -> Self {
        let delays = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(500))
            .with_max_delay(Duration::from_secs(20))
            .with_max_times(retries)
            .with_jitter();
        Self {
            delays: delays.build(),
            made: 0,
            max: u32::try_from(retries).unwrap_or(u32::MAX).saturating_add(1),
        }
    }

    /// Reports the retry and waits for it. Returns the failure if there are no more attempts.
    async fn wait(&mut self, failed: Failed, output: &RunnerOutput) -> Result<(), Failed> {
        self.made += 1;
        let delay = self
            .delays
            .next()
            .filter(|_| failed.is_worth_retrying())
            .and_then(|delay| retry_delay(delay, &failed));
        let Some(delay) = delay else {
            return Err(failed);
        };
        let after_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        warn!(
            attempt = self.made,
            of = self.max,
            status = failed.status,
            delay_ms = after_ms,
            "model call failed, retrying"
        );
        let retrying = Retrying {
            attempt: self.made,
            of: self.max,
            after_ms,
            why: failed,
        };
        output.event(RunnerEvent::Retrying(retrying)).await;
        tokio::time::sleep(delay).await;
        Ok(())
    }
}

/// Returns the delay before the next attempt, or `None` if the server asks for more than the
/// maximum.
fn retry_delay(delay: Duration, failed: &Failed) -> Option<Duration> {
    let at = failed.resets_at.as_deref().map(str::parse::<Timestamp>);
    let Some(Ok(at)) = at else { return Some(delay) };
    let wait = Duration::from_millis(u64::try_from(at.0 - clock::wall().0).unwrap_or(0));
    (wait <= MAX_RETRY_DELAY).then(|| delay.max(wait))
}

/// A failed model call, and whether it had produced output before.
struct FailedAttempt {
    failed: Failed,
    has_output: bool,
}

async fn attempt_call(
    runner: &ApiRunner,
    request: &ModelRequest,
    output: &RunnerOutput,
) -> Result<(), FailedAttempt> {
    let mut has_output = false;
    let mut answer = runner
        .model
        .call(request)
        .await
        .map_err(|failed| FailedAttempt { failed, has_output })?;
    while let Some(piece) = answer.next().await {
        match piece.map_err(|failed| FailedAttempt { failed, has_output })? {
            ReplyItem::Chunk(chunk) => {
                has_output = true;
                output.line(format!("{chunk}\n")).await;
            }
            ReplyItem::Parts(parts) => {
                has_output = true;
                output.event(RunnerEvent::Parts(parts)).await;
            }
            ReplyItem::Alive => output.event(RunnerEvent::Alive).await,
        }
    }
    Ok(())
}

/// Runs tools in the order of the calls: consecutive read-only ones concurrently, the others one by
/// one.
async fn run_tools(runner: Arc<ApiRunner>, calls: Vec<ToolJob>, output: RunnerOutput) {
    let mut calls = calls.into_iter().peekable();
    while let Some(first) = calls.next() {
        let reads = |call: &ToolJob| {
            let tool = runner.tools.get(&call.name);
            call.refused.is_some() || tool.is_none_or(|tool| tool.only_reads())
        };
        let mut group = vec![first];
        while reads(&group[0]) && calls.peek().is_some_and(&reads) {
            group.extend(calls.next());
        }
        let mut running: FuturesUnordered<_> = group
            .into_iter()
            .map(|call| run_or_ask(&runner, call, &output))
            .collect();
        while let Some(event) = running.next().await {
            output.event(event).await;
        }
    }
}

/// Size of the head and of the tail of a tool's output that are sent to the model.
const OUTPUT_HALF: usize = 128 * 1024;

/// Runs a tool. The tool [`ASK_PERSON`] asks the person instead.
async fn run_or_ask(runner: &ApiRunner, call: ToolJob, output: &RunnerOutput) -> RunnerEvent {
    match &runner.hooks {
        Some(hooks) if hooks.asks && call.name == ASK_PERSON && call.refused.is_none() => {
            ask(hooks, call).await
        }
        _ => run_tool(runner, call, output).await,
    }
}

async fn ask(hooks: &Hooks, call: ToolJob) -> RunnerEvent {
    let ToolJob { id, input, .. } = call;
    let question = match Hooks::question(input.get()) {
        Ok(question) => question,
        Err(why) => return failed_call(id, format!("bad_arguments: {why}")),
    };
    let answer = match &hooks.person {
        // The caller's code may panic; that counts as no answer.
        Some(person) => AssertUnwindSafe(async { person.answer(&question).await })
            .catch_unwind()
            .await
            .unwrap_or(None),
        None => None,
    };
    match answer {
        Some(output) => RunnerEvent::Result(ToolOutcome {
            id,
            ok: true,
            denied: false,
            output,
        }),
        None => RunnerEvent::Unanswered { id, question },
    }
}

async fn run_tool(runner: &ApiRunner, call: ToolJob, output: &RunnerOutput) -> RunnerEvent {
    if let Some(output) = call.refused {
        return RunnerEvent::Result(ToolOutcome {
            id: call.id,
            ok: false,
            denied: true,
            output,
        });
    }
    let id = call.id.clone();
    let work = call_tool(runner, call, output);
    let Some(limit) = runner.hooks.as_ref().and_then(|hooks| hooks.tool_timeout) else {
        return work.await;
    };
    let outcome = tokio::time::timeout(limit, work).await;
    outcome.unwrap_or_else(|_| {
        let seconds = limit.as_secs();
        let why =
            format!("timeout: the tool took longer than {seconds} seconds and was cancelled.");
        failed_call(id, why)
    })
}

/// Returns the result of a call that failed, but was not denied.
fn failed_call(id: String, output: String) -> RunnerEvent {
    RunnerEvent::Result(ToolOutcome {
        id,
        ok: false,
        denied: false,
        output,
    })
}

async fn call_tool(runner: &ApiRunner, call: ToolJob, output: &RunnerOutput) -> RunnerEvent {
    let result = match runner.tools.get(&call.name) {
        // The caller's tools may panic; that is a failed call and not the end of the session.
        Some(tool) => AssertUnwindSafe(async {
            match &call.approved[..] {
                [] => {
                    tool.call_reporting(call.input.get(), &output.progress())
                        .await
                }
                approved => tool.call_approved(call.input.get(), approved).await,
            }
        })
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Err(ToolError::io(format!("the tool {} panicked", call.name)))),
        None if runner.offered.iter().any(|offer| offer.name == call.name) => {
            match runner.submissions.result_of(&call.id).await {
                Some(result) if result.ok => Ok(result.output),
                Some(result) => {
                    return failed_call(call.id, head_and_tail(result.output, OUTPUT_HALF));
                }
                None => Err(ToolError::io("the caller did not run the tool")),
            }
        }
        None => Err(runner.tools.unknown(&call.name)),
    };
    let (ok, denied, output) = match result {
        Ok(output) => (true, false, output),
        // Ask only once: not for what a person has already approved.
        Err(error) if !error.needs_approval.is_empty() && call.approved.is_empty() => {
            let output = error.to_string();
            return RunnerEvent::NeedsApproval {
                id: call.id,
                paths: error.needs_approval,
                output,
            };
        }
        Err(error) => (false, error.code.is_denial(), error.to_string()),
    };
    RunnerEvent::Result(ToolOutcome {
        id: call.id,
        ok,
        denied,
        output: head_and_tail(output, OUTPUT_HALF),
    })
}
