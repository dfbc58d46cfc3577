//! The other way round: an adapter in the place of a server, for Ostler's own tool loop.

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
use crate::model::{Answer, Model, Piece};

/// An adapter that is asked like a server.
pub(crate) struct Served(tokio::sync::Mutex<Bound>, Arc<dyn ModelAdapter>);

/// The adapter with the tools that it knows now: one that holds a session must stay the same while the tools do.
struct Bound {
    tools: Vec<ostler_core::spec::ToolOffer>,
    adapter: Arc<dyn ModelAdapter>,
}

impl Served {
    pub(crate) fn new(adapter: Arc<dyn ModelAdapter>) -> Self {
        Self(
            tokio::sync::Mutex::new(Bound {
                tools: Vec::new(),
                adapter: adapter.clone(),
            }),
            adapter,
        )
    }

    async fn answer(&self, request: &str) -> Result<Answer, Failed> {
        let ParsedRequest { messages, tools } = ParsedRequest::of(request).map_err(|error| {
            let message =
                format!("A request could not be read: {error}; this is a fault in Ostler.");
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
        let (tell, told) = mpsc::unbounded_channel();
        let updates = {
            let tell = tell.clone();
            Updates::to(move |update| {
                let _ = tell.send(update.clone()); // nobody listens any more: the call was called off
            })
        };
        let asking = async move {
            // An adapter of somebody's own may panic; that is a failed answer and not the end of the session.
            let asked =
                AssertUnwindSafe(async { adapter.invoke_with_updates(&messages, updates).await });
            let broke = || {
                ModelError::new(Outcome::new(
                    Cause::Protocol,
                    "The model's adapter broke down.",
                ))
            };
            let result = asked.catch_unwind().await.unwrap_or_else(|_| Err(broke()));
            drop(tell);
            match result {
                Ok(reply) => {
                    let waits = reply.usage.is_empty()
                        && !reply.tool_calls.is_empty()
                        && adapter.counts_at_the_end();
                    let mut behind = final_chunks(&reply);
                    behind.extend(waits.then(usage_later_chunk));
                    Said {
                        content: reply.content,
                        behind,
                        failed: None,
                    }
                }
                // What it has used all the same counts.
                Err(error) => Said {
                    content: String::new(),
                    behind: usage_chunk(&error.usage).into_iter().collect(),
                    failed: Some(failed_with(*error.outcome)),
                },
            }
        };
        Ok(whole(told, asking))
    }
}

/// What an adapter came to.
struct Said {
    content: String,
    /// What follows the content.
    behind: Vec<String>,
    failed: Option<Failed>,
}

/// The pieces as they are told, then what follows them. Text that nobody told while it was said comes behind them.
fn whole(
    told: mpsc::UnboundedReceiver<Update>,
    asking: impl Future<Output = Said> + Send + 'static,
) -> Answer {
    let telling = Stage::Telling {
        told,
        asking: Box::pin(asking),
        said: String::new(),
    };
    futures_util::stream::unfold(telling, next).boxed()
}

/// How far an answer is.
enum Stage {
    Telling {
        told: mpsc::UnboundedReceiver<Update>,
        asking: Pin<Box<dyn Future<Output = Said> + Send>>,
        said: String,
    },
    Behind(std::vec::IntoIter<Result<Piece, Failed>>),
}

async fn next(stage: Stage) -> Option<(Result<Piece, Failed>, Stage)> {
    match stage {
        Stage::Telling {
            mut told,
            mut asking,
            mut said,
        } => tokio::select! {
            biased;
            Some(update) = told.recv() => {
                let piece = told_piece(update, &mut said);
                Some((Ok(piece), Stage::Telling { told, asking, said }))
            }
            Said { content, behind, failed } = &mut asking => {
                let mut last: Vec<Piece> = Vec::new();
                while let Ok(update) = told.try_recv() {
                    last.push(told_piece(update, &mut said));
                }
                let rest = content.strip_prefix(&*said).filter(|rest| !rest.is_empty());
                let rest = rest.map(|rest| text_chunk(&delta(TextKind::Reply, rest.to_owned())));
                let done = failed.is_none().then(|| "[DONE]".to_owned());
                let payloads = rest.into_iter().chain(behind).chain(done).map(Piece::Payload);
                let all: Vec<_> = last.into_iter().chain(payloads).map(Ok).chain(failed.map(Err)).collect();
                Some((Ok(Piece::Alive), Stage::Behind(all.into_iter())))
            }
        },
        Stage::Behind(mut pieces) => pieces.next().map(|piece| (piece, Stage::Behind(pieces))),
    }
}

/// The piece that an update is; its text is noted.
fn told_piece(update: Update, said: &mut String) -> Piece {
    match update {
        Update::Text(text) => {
            said.push_str(&text);
            Piece::Payload(text_chunk(&delta(TextKind::Reply, text)))
        }
        Update::Thinking(text) => Piece::Payload(text_chunk(&delta(TextKind::Thinking, text))),
        Update::Alive => Piece::Alive,
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

impl Model for Served {
    fn call<'a>(
        &'a self,
        request: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Answer, Failed>> + Send + 'a>> {
        Box::pin(self.answer(request))
    }

    fn name<'a>(&'a self) -> Pin<Box<dyn Future<Output = Result<String, Failed>> + Send + 'a>> {
        Box::pin(async { Ok(self.1.name().to_owned()) })
    }

    fn counts(&self) -> bool {
        self.1.counts()
    }
}
