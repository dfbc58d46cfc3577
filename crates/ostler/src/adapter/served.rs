//! The other way round: an adapter in the place of a server, for Ostler's own tool loop.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt;
use ostler_core::event::{Text, TextKind};
use ostler_core::usage::{Tokens, Usage};
use ostler_dialects::openai::orders::{Failed, FailedKind};
use ostler_dialects::openai::single::{Asked, failed_with, piece, pieces_behind};
use tokio::sync::mpsc;

use super::{ModelAdapter, Update, Updates};
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
        Self(tokio::sync::Mutex::new(Bound { tools: Vec::new(), adapter: adapter.clone() }), adapter)
    }

    async fn answer(&self, request: &str) -> Result<Answer, Failed> {
        let Asked { messages, tools } = Asked::of(request).map_err(|error| {
            let message = format!("A request could not be read: {error}; this is a fault in Ostler.");
            Failed { kind: FailedKind::Invalid, message, ..Failed::default() }
        })?;
        let adapter = {
            let mut bound = self.0.lock().await;
            if bound.tools != tools {
                *bound = Bound { adapter: self.1.bind_tools(tools.clone()), tools };
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
            let result = adapter.invoke_with_updates(&messages, updates).await;
            drop(tell);
            match result {
                Ok(mut reply) => {
                    // Told with the last reply: until then nothing is missing.
                    if reply.usage.is_empty() && !reply.tool_calls.is_empty() && adapter.counts_at_the_end() {
                        reply.usage.push(Usage::of(None, Tokens::default()).reported(0.0));
                    }
                    Ok((reply.content.clone(), pieces_behind(&reply)))
                }
                Err(error) => Err(failed_with(*error.outcome)),
            }
        };
        Ok(whole(told, asking))
    }
}

/// The pieces as they are told, then what follows them. Text that nobody told while it was said comes behind them.
fn whole(
    told: mpsc::UnboundedReceiver<Update>,
    asking: impl Future<Output = Result<(String, Vec<String>), Failed>> + Send + 'static,
) -> Answer {
    let telling = Stage::Telling { told, asking: Box::pin(asking), said: String::new() };
    futures_util::stream::unfold(telling, next).boxed()
}

type Asking = Pin<Box<dyn Future<Output = Result<(String, Vec<String>), Failed>> + Send>>;

/// How far an answer is.
enum Stage {
    Telling { told: mpsc::UnboundedReceiver<Update>, asking: Asking, said: String },
    Behind(std::vec::IntoIter<String>),
    Over,
}

async fn next(stage: Stage) -> Option<(Result<Piece, Failed>, Stage)> {
    match stage {
        Stage::Telling { mut told, mut asking, mut said } => tokio::select! {
            biased;
            Some(update) = told.recv() => {
                if let Update::Text(text) = &update {
                    said.push_str(text);
                }
                Some((Ok(told_piece(update)), Stage::Telling { told, asking, said }))
            }
            result = &mut asking => match result {
                Ok((content, behind)) => {
                    let mut last: Vec<Piece> = Vec::new();
                    while let Ok(update) = told.try_recv() {
                        if let Update::Text(text) = &update {
                            said.push_str(text);
                        }
                        last.push(told_piece(update));
                    }
                    let rest = content.strip_prefix(&*said).unwrap_or_default();
                    let rest = (!rest.is_empty()).then(|| piece(&delta(TextKind::Reply, rest.to_owned())));
                    let payload = |piece| if let Piece::Payload(payload) = piece { Some(payload) } else { None };
                    let all = last.into_iter().filter_map(payload).chain(rest).chain(behind).chain(["[DONE]".to_owned()]);
                    Some((Ok(Piece::Alive), Stage::Behind(all.collect::<Vec<_>>().into_iter())))
                }
                Err(failed) => Some((Err(failed), Stage::Over)),
            },
        },
        Stage::Behind(mut pieces) => pieces.next().map(|piece| (Ok(Piece::Payload(piece)), Stage::Behind(pieces))),
        Stage::Over => None,
    }
}

fn told_piece(update: Update) -> Piece {
    match update {
        Update::Text(text) => Piece::Payload(piece(&delta(TextKind::Reply, text))),
        Update::Thinking(text) => Piece::Payload(piece(&delta(TextKind::Thinking, text))),
        Update::Alive => Piece::Alive,
    }
}

fn delta(kind: TextKind, text: String) -> Text {
    Text { kind, text, delta: true, message: None, parent: None }
}

impl Model for Served {
    fn call<'a>(&'a self, request: &'a str) -> Pin<Box<dyn Future<Output = Result<Answer, Failed>> + Send + 'a>> {
        Box::pin(self.answer(request))
    }

    fn name<'a>(&'a self) -> Pin<Box<dyn Future<Output = Result<String, Failed>> + Send + 'a>> {
        Box::pin(async { Ok(self.1.name().to_owned()) })
    }

    fn counts(&self) -> bool {
        self.1.counts()
    }
}
