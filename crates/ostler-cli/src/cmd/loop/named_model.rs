//! A model that reports the name it was chosen by, so that a resumed loop finds the same model.

use std::sync::Arc;

use ostler::ModelAdapter;
use ostler::adapter::{Message, ReplyFuture, Updates};
use ostler::spec::ToolOffer;

/// A model with its configured name.
pub(super) struct NamedModel {
    pub(super) name: String,
    pub(super) model: Arc<dyn ModelAdapter>,
}

impl NamedModel {
    fn wrap(&self, model: Arc<dyn ModelAdapter>) -> Arc<dyn ModelAdapter> {
        Arc::new(Self {
            name: self.name.clone(),
            model,
        })
    }
}

impl ModelAdapter for NamedModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn invoke_with_updates<'a>(
        &'a self,
        messages: &'a [Message],
        updates: Updates,
    ) -> ReplyFuture<'a> {
        self.model.invoke_with_updates(messages, updates)
    }

    fn bind_tools(&self, tools: Vec<ToolOffer>) -> Arc<dyn ModelAdapter> {
        self.wrap(self.model.bind_tools(tools))
    }

    fn reports_usage_late(&self) -> bool {
        self.model.reports_usage_late()
    }

    fn reports_usage(&self) -> bool {
        self.model.reports_usage()
    }

    fn with_usage_per_reply(&self) -> Option<Arc<dyn ModelAdapter>> {
        self.model
            .with_usage_per_reply()
            .map(|model| self.wrap(model))
    }
}
