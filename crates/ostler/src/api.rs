//! The body of an agent that is a model: it calls the model and runs tools, as its conversation orders. It lives in this
//! process, and is spoken to over pipes like any other agent.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use ostler_core::clip::head_and_tail;
use ostler_core::event::Notice;
use ostler_core::raw_json::RawJson;
use ostler_dialects::openai::is_worth_retrying;
use ostler_dialects::openai::runner_protocol::{
    Failed, FailedKind, Flow, LoopFeatures, Ready, Retrying, RunnerCommand, RunnerEvent,
    RunnerLine, ToolJob, ToolOffer, ToolOutcome, When,
};
use ostler_tools::{Code, ToolError};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::mpsc;

use crate::clock;
use crate::hooks::{ASK_PERSON, Hooks};
use crate::in_process;
use crate::model::{Model, Piece};
use crate::process::Child;
use crate::session::tool_results::Submissions;
use crate::tool::{self, Progress};
use crate::toolbox::Toolbox;

/// What the body works with.
#[derive(Clone)]
pub(crate) struct Body {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) tools: Toolbox,
    /// Tools that the caller runs itself, and where their results come from.
    pub(crate) offered: Vec<ToolOffer>,
    pub(crate) submissions: Arc<Submissions>,
    pub(crate) cwd: String,
    /// What the system prompt says about the sandbox.
    pub(crate) sandbox: String,
    /// What the caller should know before anything happens.
    pub(crate) notices: Vec<Notice>,
    pub(crate) retries: usize,
    pub(crate) busy: in_process::Busy,
    /// What the caller puts around the loop, for an agent that is one.
    pub(crate) around: Option<Hooks>,
}

/// The longest that a server's word to wait is obeyed; whoever must wait longer is told so instead.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts the body.
pub(crate) fn start(body: Body) -> Child {
    in_process::start(body.busy.clone(), |orders, voice| {
        live(Arc::new(body), orders, voice)
    })
}

/// What is under way. Dropped, it is called off.
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Follows orders until there are no more.
async fn live(body: Arc<Body>, orders: DuplexStream, mut voice: DuplexStream) {
    let (say, mut said) = mpsc::channel::<String>(64);
    let mut orders = BufReader::new(orders).lines();
    let mut work: Option<Work> = Some(Box::pin(introduce(body.clone(), Voice(say.clone()))));
    loop {
        tokio::select! {
            // In this order: what is called off before it has begun does not begin.
            biased;
            // Whole lines only, from here alone: work that is called off in the middle leaves no half line behind.
            Some(line) = said.recv() => {
                if voice.write_all(line.as_bytes()).await.is_err() {
                    return;
                }
            }
            order = orders.next_line() => {
                let Ok(Some(order)) = order else { return };
                match serde_json::from_str(&order) {
                    Ok(RunnerCommand::Call(request)) => work = Some(Box::pin(call(body.clone(), request, Voice(say.clone())))),
                    Ok(RunnerCommand::Hook { when, iteration }) => {
                        work = Some(Box::pin(hook(body.clone(), when, iteration, Voice(say.clone()))));
                    }
                    Ok(RunnerCommand::Verify(answer)) => work = Some(Box::pin(verify(body.clone(), answer, Voice(say.clone())))),
                    Ok(RunnerCommand::Tools(calls)) => work = Some(Box::pin(run(body.clone(), calls, Voice(say.clone())))),
                    Ok(RunnerCommand::Approved(call)) => {
                        // Behind what still runs.
                        let (before, body, voice) = (work.take(), body.clone(), Voice(say.clone()));
                        work = Some(Box::pin(async move {
                            if let Some(before) = before {
                                before.await;
                            }
                            run(body, vec![call], voice).await;
                        }));
                    }
                    Ok(RunnerCommand::Cancel) => {
                        work = None;
                        drop(body.busy.write().await);
                        // Behind what was said before, and past a channel that may be full.
                        let mut rest = Vec::new();
                        while let Ok(line) = said.try_recv() {
                            rest.extend_from_slice(line.as_bytes());
                        }
                        rest.extend_from_slice(line_of(RunnerEvent::Cancelled).as_bytes());
                        if voice.write_all(&rest).await.is_err() {
                            return;
                        }
                    }
                    Ok(RunnerCommand::Introduce) => work = Some(Box::pin(introduce(body.clone(), Voice(say.clone())))),
                    // The conversation is ours and writes no such thing; but if it did, nobody may wait for ever.
                    Err(error) => {
                        let message = format!("An order could not be read: {error}; this is a fault in Ostler.");
                        let failed = Failed { kind: FailedKind::Invalid, message, ..Failed::default() };
                        if voice.write_all(line_of(RunnerEvent::Failed(failed)).as_bytes()).await.is_err() {
                            return;
                        }
                    }
                }
            }
            () = async { if let Some(work) = &mut work { work.await } }, if work.is_some() => work = None,
        }
    }
}

/// The way to the session.
#[derive(Clone)]
struct Voice(mpsc::Sender<String>);

impl Voice {
    async fn word(&self, word: RunnerEvent) {
        self.line(line_of(word)).await;
    }

    /// For a tool that says how far it is. What does not fit into the channel is not worth waiting for.
    fn progress(&self) -> Progress {
        let way = self.0.clone();
        Progress::new(move |message| {
            let _ = way.try_send(line_of(RunnerEvent::Progress(message)));
        })
    }

    async fn line(&self, line: String) {
        // If nobody listens any more, the orders have ended as well, and so will everything.
        let _ = self.0.send(line).await;
    }
}

fn line_of(word: RunnerEvent) -> String {
    format!("{}\n", RawJson::of(&RunnerLine { ostler: word }).get())
}

/// Says who and what is there.
async fn introduce(body: Arc<Body>, voice: Voice) {
    let mut attempts = Attempts::new(body.retries);
    let model = loop {
        let failed = match body.model.name().await {
            Ok(model) => break model,
            Err(failed) => failed,
        };
        if let Err(failed) = attempts.wait(failed, &voice).await {
            return voice.word(RunnerEvent::Failed(failed)).await;
        }
    };
    let tools = body
        .tools
        .iter()
        .map(|tool| tool::offer(&**tool))
        .chain(body.offered.iter().cloned());
    let tools = tools.chain(body.around.as_ref().and_then(Hooks::offer));
    let ready = Ready {
        model,
        cwd: body.cwd.clone(),
        tools: tools.collect(),
        sandbox: body.sandbox.clone(),
        official: body.model.is_official(),
        uncounted: !body.model.counts(),
        notices: body.notices.clone(),
        looping: body.around.as_ref().map(|around| looping(&body, around)),
    };
    voice.word(RunnerEvent::Ready(ready)).await;
}

fn looping(body: &Body, around: &Hooks) -> LoopFeatures {
    let mutating = body
        .tools
        .iter()
        .filter(|tool| !tool.only_reads())
        .map(|tool| tool.name().to_owned());
    LoopFeatures {
        verifies: around.verify.is_some(),
        hooks: !around.hooks.is_empty(),
        asks: around.asks,
        // What a tool of the caller's does is not known.
        mutating: mutating
            .chain(body.offered.iter().map(|offer| offer.name.clone()))
            .collect(),
    }
}

/// Lets the caller's hooks have their say. One that breaks down stops the loop: nobody knows what it would have said.
async fn hook(body: Arc<Body>, when: When, iteration: u64, voice: Voice) {
    let flow = match &body.around {
        Some(around) => {
            AssertUnwindSafe(around.flow(when, iteration))
                .catch_unwind()
                .await
        }
        None => Ok(Flow::Go),
    };
    let broken = |_| Flow::Stop("A hook of the caller's broke down.".to_owned());
    voice
        .word(RunnerEvent::Flow(flow.unwrap_or_else(broken)))
        .await;
}

/// Has the result checked.
async fn verify(body: Arc<Body>, answer: String, voice: Voice) {
    let fault = match body
        .around
        .as_ref()
        .and_then(|around| around.verify.as_ref())
    {
        Some(check) => {
            AssertUnwindSafe(async { check.verify(&answer).await })
                .catch_unwind()
                .await
        }
        None => Ok(Ok(())),
    };
    let fault = fault
        .unwrap_or_else(|_| Err("The check itself broke down.".to_owned()))
        .err();
    voice
        .word(RunnerEvent::Verified(
            fault.map(|why| head_and_tail(why, OUTPUT_HALF)),
        ))
        .await;
}

/// Asks the model, again where that can help and nothing was said twice by it.
async fn call(body: Arc<Body>, request: RawJson, voice: Voice) {
    let mut attempts = Attempts::new(body.retries);
    loop {
        let failed = match attempt_call(&body, &request, &voice).await {
            Ok(()) => return voice.word(RunnerEvent::Over).await,
            Err(Broken {
                failed,
                heard: true,
            }) => return voice.word(RunnerEvent::Failed(failed)).await,
            Err(Broken {
                failed,
                heard: false,
            }) => failed,
        };
        if let Err(failed) = attempts.wait(failed, &voice).await {
            return voice.word(RunnerEvent::Failed(failed)).await;
        }
    }
}

/// How often something was tried, and how long is waited in between.
struct Attempts {
    pauses: ExponentialBackoff,
    made: u32,
    most: u32,
}

impl Attempts {
    fn new(retries: usize) -> Self {
        let pauses = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(500))
            .with_max_delay(Duration::from_secs(20))
            .with_max_times(retries)
            .with_jitter();
        Self {
            pauses: pauses.build(),
            made: 0,
            most: u32::try_from(retries).unwrap_or(u32::MAX).saturating_add(1),
        }
    }

    /// Waits for the next attempt, and says so. The failure comes back when there is none.
    async fn wait(&mut self, failed: Failed, voice: &Voice) -> Result<(), Failed> {
        self.made += 1;
        let pause = self
            .pauses
            .next()
            .filter(|_| is_worth_retrying(&failed))
            .and_then(|p| patience(p, &failed));
        let Some(pause) = pause else {
            return Err(failed);
        };
        let after_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        let retrying = Retrying {
            attempt: self.made,
            of: self.most,
            after_ms,
            why: failed,
        };
        voice.word(RunnerEvent::Retrying(retrying)).await;
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

/// How long to wait before the next attempt; none when the server wants more patience than there is.
fn patience(pause: Duration, failed: &Failed) -> Option<Duration> {
    let at = failed
        .resets_at
        .as_deref()
        .and_then(|at| at.parse::<ostler_core::event::At>().ok());
    let Some(at) = at else { return Some(pause) };
    let wait = Duration::from_millis(u64::try_from(at.0 - clock::wall().0).unwrap_or(0));
    (wait <= PATIENCE).then(|| pause.max(wait))
}

/// An attempt that came to nothing, or broke off after the model was heard.
struct Broken {
    failed: Failed,
    heard: bool,
}

async fn attempt_call(body: &Body, request: &RawJson, voice: &Voice) -> Result<(), Broken> {
    let mut heard = false;
    let mut answer = body
        .model
        .call(request.get())
        .await
        .map_err(|failed| Broken { failed, heard })?;
    while let Some(piece) = answer.next().await {
        match piece.map_err(|failed| Broken { failed, heard })? {
            Piece::Payload(payload) => {
                heard = true;
                voice.line(format!("{payload}\n")).await;
            }
            Piece::Alive => voice.word(RunnerEvent::Alive).await,
        }
    }
    Ok(())
}

/// Runs tools: those that only read at once, the others one after the other, in the order of the calls.
async fn run(body: Arc<Body>, calls: Vec<ToolJob>, voice: Voice) {
    let mut calls = calls.into_iter().peekable();
    while let Some(first) = calls.next() {
        let reads = |call: &ToolJob| {
            call.refused.is_some()
                || body
                    .tools
                    .get(&call.name)
                    .is_none_or(|tool| tool.only_reads())
        };
        let mut group = vec![first];
        while reads(&group[0]) && calls.peek().is_some_and(&reads) {
            group.extend(calls.next());
        }
        let mut running: FuturesUnordered<_> = group
            .into_iter()
            .map(|call| one(&body, call, &voice))
            .collect();
        while let Some(word) = running.next().await {
            voice.word(word).await;
        }
    }
}

/// Each half of a tool's output that a model, and every later request, is to be burdened with.
const OUTPUT_HALF: usize = 128 * 1024;

/// Runs a tool, or asks the person whom it stands for.
async fn one(body: &Body, call: ToolJob, voice: &Voice) -> RunnerEvent {
    match &body.around {
        Some(around) if around.asks && call.name == ASK_PERSON && call.refused.is_none() => {
            ask(around, call).await
        }
        _ => run_one(body, call, voice).await,
    }
}

async fn ask(around: &Hooks, call: ToolJob) -> RunnerEvent {
    let ToolJob { id, input, .. } = call;
    let question = match Hooks::question(input.get()) {
        Ok(question) => question,
        Err(why) => {
            return RunnerEvent::Result(ToolOutcome {
                id,
                ok: false,
                denied: false,
                output: format!("bad_arguments: {why}"),
            });
        }
    };
    let answer = match &around.person {
        // Somebody's own code may panic; then nobody has answered.
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

async fn run_one(body: &Body, call: ToolJob, voice: &Voice) -> RunnerEvent {
    if let Some(output) = call.refused {
        return RunnerEvent::Result(ToolOutcome {
            id: call.id,
            ok: false,
            denied: true,
            output,
        });
    }
    let limit = body.around.as_ref().and_then(|around| around.tool_timeout);
    let id = call.id.clone();
    let work = called(body, call, voice);
    match limit {
        None => work.await,
        Some(limit) => match tokio::time::timeout(limit, work).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let output = format!(
                    "timeout: the tool took longer than {} seconds and was called off.",
                    limit.as_secs()
                );
                RunnerEvent::Result(ToolOutcome {
                    id,
                    ok: false,
                    denied: false,
                    output,
                })
            }
        },
    }
}

async fn called(body: &Body, call: ToolJob, voice: &Voice) -> RunnerEvent {
    let result = match body.tools.get(&call.name) {
        // A tool of somebody's own may panic; that is a failed call and not the end of the session.
        Some(tool) => AssertUnwindSafe(async {
            match &call.approved[..] {
                [] => {
                    tool.call_reporting(call.input.get(), &voice.progress())
                        .await
                }
                approved => tool.call_approved(call.input.get(), approved).await,
            }
        })
        .catch_unwind()
        .await
        .unwrap_or_else(|_| {
            Err(ToolError::new(
                Code::Io,
                format!("the tool {} broke down", call.name),
            ))
        }),
        None if body.offered.iter().any(|offer| offer.name == call.name) => {
            let nobody = || ToolError::new(Code::Io, "nobody ran the tool");
            match body
                .submissions
                .result_of(&call.id)
                .await
                .ok_or_else(nobody)
            {
                Ok(result) if result.ok => Ok(result.output),
                Ok(result) => {
                    let output = head_and_tail(result.output, OUTPUT_HALF);
                    return RunnerEvent::Result(ToolOutcome {
                        id: call.id,
                        ok: false,
                        denied: false,
                        output,
                    });
                }
                Err(error) => Err(error),
            }
        }
        None => Err(body.tools.unknown(&call.name)),
    };
    let (ok, denied, output) = match result {
        Ok(output) => (true, false, output),
        // Asked once: what a person has approved is no question any more.
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
