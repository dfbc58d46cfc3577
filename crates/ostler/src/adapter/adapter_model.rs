//! An adapter in the place of a server, for Ostler's own tool loop.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::{FutureExt, StreamExt};
use ostler_core::event::{Text, TextKind};
use ostler_core::outcome::{Cause, Outcome};
use ostler_dialects::openai::runner_protocol::{Failed, FailedKind};
use ostler_dialects::openai::single::{
    ParsedRequest, failed_with, final_chunks, text_chunk, usage_chunk, usage_later_chunk,
};
use tokio::sync::mpsc;

use super::{ModelAdapter, ModelError, Update, Updates};
use crate::model::{AnswerPiece, AnswerStream, Model};

/// A [`ModelAdapter`] that serves requests like a server.
pub(crate) struct AdapterModel(tokio::sync::Mutex<Bound>, Arc<dyn ModelAdapter>);

/// An adapter with its current tools. The adapter may hold a session, so it is replaced only when
/// the tools change.
struct Bound {
    tools: Vec<ostler_core::spec::ToolOffer>,
    adapter: Arc<dyn ModelAdapter>,
}

impl AdapterModel {
    pub(crate) fn new(adapter: Arc<dyn ModelAdapter>) -> Self {
        Self(
            tokio::sync::Mutex::new(Bound {
                tools: Vec::new(),
                adapter: adapter.clone(),
            }),
            adapter,
        )
    }

    async fn answer(&self, request: &str) -> Result<AnswerStream, Failed> {
        let ParsedRequest { messages, tools } = ParsedRequest::of(request).map_err(|error| {
            let message =
                format!("The request could not be parsed: {error}; this is a bug in Ostler.");
            Failed {
                kind: FailedKind::Invalid,
                message,
                ..Failed::default()
            }
        })?;
        let adapter = {
            let mut bound = self.0.lock().await;
            if bound.tools != tools {
                *bound = Bound {
                    adapter: self.1.bind_tools(tools.clone()),
                    tools,
                };
            }
            bound.adapter.clone()
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        let updates = {
            let sender = sender.clone();
            Updates::to(move |update| {
                let _ = sender.send(update.clone()); // fails if the call was cancelled
            })
        };
        let reply = async move {
            // A panic in a third-party adapter fails the reply, not the session.
            let asked =
                AssertUnwindSafe(async { adapter.invoke_with_updates(&messages, updates).await });
            let broke =
                || ModelError::new(Outcome::new(Cause::Protocol, "The model adapter panicked."));
            let result = asked.catch_unwind().await.unwrap_or_else(|_| Err(broke()));
            drop(sender);
            match result {
                Ok(reply) => {
                    let waits = reply.usage.is_empty()
                        && !reply.tool_calls.is_empty()
                        && adapter.reports_usage_late();
                    let mut trailer = final_chunks(&reply);
                    trailer.extend(waits.then(usage_later_chunk));
                    AdapterReply {
                        content: reply.content,
                        trailer,
                        failed: None,
                    }
                }
                // Usage up to the error still counts.
                Err(error) => AdapterReply {
                    content: String::new(),
                    trailer: usage_chunk(&error.usage).into_iter().collect(),
                    failed: Some(failed_with(*error.outcome)),
                },
            }
        };
        Ok(stream_reply(receiver, reply))
    }
}

/// The result of a call to an adapter.
struct AdapterReply {
    content: String,
    /// Chunks that follow the content.
    trailer: Vec<String>,
    failed: Option<Failed>,
}

/// Streams the updates, then the remaining chunks. Text that was not streamed follows the updates.
fn stream_reply(
    updates: mpsc::UnboundedReceiver<Update>,
    reply: impl Future<Output = AdapterReply> + Send + 'static,
) -> AnswerStream {
    let stage = Stage::Streaming {
        updates,
        reply: Box::pin(reply),
        streamed: String::new(),
    };
    futures_util::stream::unfold(stage, next).boxed()
}

/// Progress of an answer.
enum Stage {
    Streaming {
        updates: mpsc::UnboundedReceiver<Update>,
        reply: Pin<Box<dyn Future<Output = AdapterReply> + Send>>,
        streamed: String,
    },
    Trailer(std::vec::IntoIter<Result<AnswerPiece, Failed>>),
}

async fn next(stage: Stage) -> Option<(Result<AnswerPiece, Failed>, Stage)> {
    match stage {
        Stage::Streaming {
            mut updates,
            mut reply,
            mut streamed,
        } => tokio::select! {
            biased;
            Some(update) = updates.recv() => {
                let piece = to_piece(update, &mut streamed);
                Some((Ok(piece), Stage::Streaming { updates, reply, streamed }))
            }
            AdapterReply { content, trailer, failed } = &mut reply => {
                let mut pieces: Vec<AnswerPiece> = Vec::new();
                while let Ok(update) = updates.try_recv() {
                    pieces.push(to_piece(update, &mut streamed));
                }
                let rest = content.strip_prefix(&*streamed).filter(|rest| !rest.is_empty());
                let rest = rest.map(|rest| text_chunk(&delta(TextKind::Reply, rest.to_owned())));
                let done = failed.is_none().then(|| "[DONE]".to_owned());
                let payloads = rest.into_iter().chain(trailer).chain(done);
                pieces.extend(payloads.map(AnswerPiece::Payload));
                let all: Vec<_> = pieces.into_iter().map(Ok).chain(failed.map(Err)).collect();
                Some((Ok(AnswerPiece::Alive), Stage::Trailer(all.into_iter())))
            }
        },
        Stage::Trailer(mut pieces) => pieces.next().map(|piece| (piece, Stage::Trailer(pieces))),
    }
}

/// Converts an update into a piece, and appends its text to `streamed`.
fn to_piece(update: Update, streamed: &mut String) -> AnswerPiece {
    match update {
        Update::Text(text) => {
            streamed.push_str(&text);
            AnswerPiece::Payload(text_chunk(&delta(TextKind::Reply, text)))
        }
        Update::Thinking(text) => {
            AnswerPiece::Payload(text_chunk(&delta(TextKind::Thinking, text)))
        }
        Update::Alive => AnswerPiece::Alive,
    }
}

fn delta(kind: TextKind, text: String) -> Text {
    Text {
        kind,
        text,
        delta: true,
        message: None,
        parent: None,
    }
}

impl Model for AdapterModel {
    fn call<'a>(
        &'a self,
        request: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<AnswerStream, Failed>> + Send + 'a>> {
        Box::pin(self.answer(request))
    }

    fn name<'a>(&'a self) -> Pin<Box<dyn Future<Output = Result<String, Failed>> + Send + 'a>> {
        Box::pin(async { Ok(self.1.name().to_owned()) })
    }

    fn reports_usage(&self) -> bool {
        self.1.reports_usage()
    }
}
