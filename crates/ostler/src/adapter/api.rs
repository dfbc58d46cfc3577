//! A server or a script as a plain model: native function calls, one request per reply.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use ostler_core::spec::{Spec, SpecError, ToolOffer};
use ostler_model::runner_protocol::Failed;
use ostler_model::{Message, ModelRequest, PartialReply, Price, Reply, openai};

use super::{ModelAdapter, ModelError, ReplyFuture, Update, Updates, no_messages, reply_timed_out};
use crate::host::Host;
use crate::model::{Http, Model, ReplyItem, Script, Scripted};

/// A model behind an OpenAI-compatible API, or one that plays a script.
#[derive(Clone)]
pub struct ApiModel {
    name: Arc<str>,
    model: Arc<dyn Model>,
    tools: Vec<ToolOffer>,
    limit: Duration,
}

impl ApiModel {
    /// Creates a model of a server from the settings of the agent `openai-api`: `model`,
    /// `base_url`, `api_key_env` and so on. Keys come from the host's environment.
    ///
    /// # Errors
    /// Returns an error that names the invalid setting.
    pub fn server(name: &str, host: &Host, spec: &Spec) -> Result<Self, SpecError> {
        Ok(Self::of(name, Arc::new(Http::new(host, spec)?)))
    }

    /// Creates a model that plays a script.
    #[must_use]
    pub fn scripted(name: &str, script: Script) -> Self {
        Self::of(name, Arc::new(Scripted::new(script)))
    }

    fn of(name: &str, model: Arc<dyn Model>) -> Self {
        Self {
            name: name.into(),
            model,
            tools: Vec::new(),
            limit: Duration::from_secs(120),
        }
    }

    /// Sets the maximum time for a reply. The default is two minutes.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    async fn reply(&self, messages: &[Message], updates: &Updates) -> Result<Reply, ModelError> {
        let failed = |failed: Failed| ModelError::new(failed.outcome());
        if messages.is_empty() {
            return Err(no_messages());
        }
        let request = ModelRequest {
            model: self.model.name().await.map_err(failed)?,
            messages: messages.to_vec(),
            tools: self.tools.clone(),
            schema: None,
        };
        let mut items = self.model.call(&request).await.map_err(failed)?;
        let mut reply = PartialReply::new("", &request.model);
        while let Some(item) = items.next().await {
            let parts = match item.map_err(failed)? {
                ReplyItem::Chunk(chunk) => openai::decode(&chunk),
                ReplyItem::Parts(parts) => Ok(parts),
                ReplyItem::Alive => {
                    updates.send(&Update::Alive);
                    continue;
                }
            };
            match parts {
                Ok(parts) => reply.push(parts, |text| updates.text(text)),
                Err(_) => reply.push_unreadable(),
            }
        }
        let official = self.model.is_official();
        reply.into_reply(|model| Price::listed(model).filter(|_| official))
    }
}

impl ModelAdapter for ApiModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn invoke_with_updates<'a>(
        &'a self,
        messages: &'a [Message],
        updates: Updates,
    ) -> ReplyFuture<'a> {
        Box::pin(async move {
            let reply = tokio::time::timeout(self.limit, self.reply(messages, &updates)).await;
            reply.unwrap_or_else(|_| Err(reply_timed_out(self.limit)))
        })
    }

    fn bind_tools(&self, tools: Vec<ToolOffer>) -> Arc<dyn ModelAdapter> {
        Arc::new(Self {
            tools,
            ..self.clone()
        })
    }

    fn reports_usage(&self) -> bool {
        self.model.reports_usage()
    }
}
