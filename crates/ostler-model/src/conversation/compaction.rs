//! Compaction: makes room when the conversation gets too long for the model.

use ostler_core::dialect::Outbox;
use ostler_core::event::{Level, Notice, NoticeCode};
use ostler_core::raw_json::RawJson;

use super::{Compaction, ModelConversation, Phase, send_command};
use crate::message::Message;
use crate::rebuild::Summary;
use crate::reply::PartialReply;
use crate::request::ModelRequest;
use crate::runner_protocol::{Failed, RunnerCommand};
use crate::{context, prices};

impl ModelConversation {
    pub(super) fn window(&self) -> Option<u64> {
        let listed = || {
            self.ready
                .as_ref()
                .filter(|r| r.official)
                .and_then(|_| prices::window(self.model()))
        };
        self.config
            .context_window
            .filter(|_| self.is_first(self.model()))
            .or_else(listed)
    }

    pub(super) fn is_full(&self) -> bool {
        self.window()
            .is_some_and(|window| self.meter.is_full(&self.history, self.overhead(), window))
    }

    /// Number of characters sent with every request.
    fn overhead(&self) -> usize {
        let tools = self.ready.iter().flat_map(|ready| &ready.tools);
        self.system.len()
            + tools
                .map(|t| t.description.len() + t.parameters.get().len())
                .sum::<usize>()
    }

    /// Shortens old tool results. Returns true if there were any.
    pub(super) fn shorten(&mut self, out: &mut Outbox) -> bool {
        let Some((count, bytes)) = context::shorten(&mut self.history) else {
            return false;
        };
        let message = format!(
            "The context is nearly full: {count} old tool results were shortened by {bytes} bytes."
        );
        out.notice(Level::Info, NoticeCode::ContextShortened, message);
        true
    }

    /// Requests a summary of old messages. Returns true if the next answer must wait for it.
    pub(super) fn summarise(&mut self, out: &mut Outbox) -> bool {
        // If the context window is unknown, the server has just reported that the conversation is
        // too long.
        let window = self
            .window()
            .unwrap_or_else(|| self.meter.tokens(&self.history).max(2));
        let Some(cut) = context::cut(&self.history, window) else {
            return false;
        };
        self.turn.summarised = Some(self.turn.steps);
        let prompt = context::summary_prompt(&self.history, cut, window);
        self.phase = Phase::Summarising(self.new_reply(), cut);
        let request = ModelRequest {
            model: self.model().to_owned(),
            messages: vec![Message::user(prompt)],
            ..ModelRequest::default()
        };
        send_command(&RunnerCommand::Call(request), out);
        true
    }

    pub(super) fn on_summary(&mut self, cut: usize, reply: PartialReply, out: &mut Outbox) {
        let refused = reply.is_refused();
        let summary = reply.into_content().text;
        if refused || summary.trim().is_empty() {
            // Without a summary nothing is removed: an overlong conversation is better than one
            // without its task.
            let message = "The context is nearly full, but the model returned no summary; the \
                conversation is unchanged.";
            out.warn(NoticeCode::ContextNotSummarised, message);
        } else {
            context::replace(&mut self.history, cut, &summary);
            self.meter.reset();
            let message = format!(
                "The context is nearly full: the first {cut} messages were replaced by a summary."
            );
            // Needed to rebuild the conversation from events.
            let raw = Some(RawJson::of(&Summary {
                replaced: cut,
                summary,
            }));
            out.event(Notice {
                raw,
                ..Notice::new(Level::Info, NoticeCode::ContextSummarised, message)
            });
        }
        self.next_round(None, out);
    }

    /// Handles a conversation that the server rejects as too long: shortens old tool results first,
    /// then summarizes old messages.
    pub(super) fn compact(&mut self, failed: &Failed, out: &mut Outbox) {
        self.turn.steps -= 1; // it produced nothing
        if self.turn.compaction == Compaction::Not {
            self.turn.compaction = Compaction::Shortened;
            if self.shorten(out) {
                return self.request_answer(out);
            }
        }
        self.turn.compaction = Compaction::Summarised;
        if !self.summarise(out) {
            self.end(failed.outcome(), None, out);
        }
    }
}
