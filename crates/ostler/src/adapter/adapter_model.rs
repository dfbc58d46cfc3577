//! An adapter as the model of Ostler's own tool loop.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use ostler_core::outcome::Cause;
use ostler_core::spec::ToolOffer;
use ostler_model::runner_protocol::Failed;
use ostler_model::{ModelRequest, Part};
use tokio::sync::mpsc;

use super::{ModelAdapter, ModelError, Reply, Update, Updates, model_error};
use crate::model::{Model, ModelFuture, ReplyItem, ReplyStream};

/// A [`ModelAdapter`] as a [`Model`].
pub(crate) struct AdapterModel {
    adapter: Arc<dyn ModelAdapter>,
    bound: tokio::sync::Mutex<Bound>,
}

/// An adapter with its current tools. The adapter may hold a session, so it is replaced only when
/// the tools change.
struct Bound {
    tools: Vec<ToolOffer>,
    adapter: Arc<dyn ModelAdapter>,
}

impl AdapterModel {
    pub(crate) fn new(adapter: Arc<dyn ModelAdapter>) -> Self {
        let bound = tokio::sync::Mutex::new(Bound {
            tools: Vec::new(),
            adapter: adapter.clone(),
        });
        Self { adapter, bound }
    }

    async fn bind_tools(&self, tools: &[ToolOffer]) -> Arc<dyn ModelAdapter> {
        let mut bound = self.bound.lock().await;
        if bound.tools != tools {
            *bound = Bound {
                adapter: self.adapter.bind_tools(tools.to_vec()),
                tools: tools.to_vec(),
            };
        }
        bound.adapter.clone()
    }

    async fn reply(&self, request: &ModelRequest) -> ReplyStream {
        let adapter = self.bind_tools(&request.tools).await;
        let messages = request.messages.clone();
        let (sender, updates) = mpsc::unbounded_channel();
        let reply = async move {
            let to = Updates::to(move |update| {
                let _ = sender.send(update.clone()); // fails if the call was cancelled
            });
            // A panic in a third-party adapter fails the reply, not the session.
            let reply =
                AssertUnwindSafe(async { adapter.invoke_with_updates(&messages, to).await })
                    .catch_unwind()
                    .await
                    .unwrap_or_else(|_| {
                        Err(model_error(Cause::Protocol, "The model adapter panicked."))
                    });
            FinishedReply {
                reply,
                usage_late: adapter.reports_usage_late(),
            }
        };
        let stage = Stage::Streaming {
            updates,
            reply: Box::pin(reply),
            streamed: String::new(),
        };
        futures_util::stream::unfold(stage, next).boxed()
    }
}

/// The result of a call to an adapter.
struct FinishedReply {
    reply: Result<Reply, ModelError>,
    /// Whether the usage of several replies is reported with the last one.
    usage_late: bool,
}

impl FinishedReply {
    /// Returns the items after the streamed text.
    fn items(self, streamed: &str) -> Vec<Result<ReplyItem, Failed>> {
        match self.reply {
            Ok(reply) => {
                let rest = reply.content.strip_prefix(streamed).unwrap_or_default();
                let mut parts = vec![Part::Text(rest.to_owned())];
                parts.extend(reply.parts_after_text());
                if self.usage_late && reply.usage.is_empty() && !reply.tool_calls.is_empty() {
                    parts.push(Part::UsageLater);
                }
                parts.push(Part::Done);
                vec![Ok(ReplyItem::Parts(parts))]
            }
            // Usage up to the error still counts.
            Err(error) => {
                let usage: Vec<Part> = error.usage.into_iter().map(Part::Usage).collect();
                let usage = (!usage.is_empty()).then_some(Ok(ReplyItem::Parts(usage)));
                let failed = Err(Failed::from(*error.outcome));
                usage.into_iter().chain([failed]).collect()
            }
        }
    }
}

/// Progress of a reply: its updates are streamed, then whatever else it contains.
enum Stage {
    Streaming {
        updates: mpsc::UnboundedReceiver<Update>,
        reply: BoxFuture<'static, FinishedReply>,
        streamed: String,
    },
    Finished(std::vec::IntoIter<Result<ReplyItem, Failed>>),
}

async fn next(stage: Stage) -> Option<(Result<ReplyItem, Failed>, Stage)> {
    match stage {
        Stage::Streaming {
            mut updates,
            mut reply,
            mut streamed,
        } => tokio::select! {
            biased;
            Some(update) = updates.recv() => {
                let item = to_item(update, &mut streamed);
                Some((Ok(item), Stage::Streaming { updates, reply, streamed }))
            }
            finished = &mut reply => {
                let mut items = Vec::new();
                while let Ok(update) = updates.try_recv() {
                    items.push(Ok(to_item(update, &mut streamed)));
                }
                items.extend(finished.items(&streamed));
                Some((Ok(ReplyItem::Alive), Stage::Finished(items.into_iter())))
            }
        },
        Stage::Finished(mut items) => items.next().map(|item| (item, Stage::Finished(items))),
    }
}

/// Converts an update into an item, and appends its text to `streamed`.
fn to_item(update: Update, streamed: &mut String) -> ReplyItem {
    ReplyItem::Parts(vec![match update {
        Update::Text(text) => {
            streamed.push_str(&text);
            Part::Text(text)
        }
        Update::Thinking(text) => Part::Thinking(text),
        Update::Alive => return ReplyItem::Alive,
    }])
}

impl Model for AdapterModel {
    fn call<'a>(&'a self, request: &'a ModelRequest) -> ModelFuture<'a, ReplyStream> {
        Box::pin(async move { Ok(self.reply(request).await) })
    }

    fn name(&self) -> ModelFuture<'_, String> {
        Box::pin(async { Ok(self.adapter.name().to_owned()) })
    }

    fn reports_usage(&self) -> bool {
        self.adapter.reports_usage()
    }
}
