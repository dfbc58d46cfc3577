//! Making room: what is done when the conversation grows too long for the model.

use ostler_core::dialect::Outbox;
use ostler_core::event::{Level, Notice};
use ostler_core::raw_json::RawJson;

use super::{ModelConversation, Phase, Squeezed};
use crate::openai::history::Message;
use crate::openai::orders::Failed;
use crate::openai::rebuild::{Summary, codes};
use crate::openai::reply::{Audience, Reply};
use crate::openai::{blame, context, prices};

impl ModelConversation {
    pub(super) fn window(&self) -> Option<u64> {
        let listed = || {
            self.ready
                .as_ref()
                .filter(|r| r.official)
                .and_then(|_| prices::window(self.model()))
        };
        self.plan
            .context_window
            .filter(|_| self.is_first(self.model()))
            .or_else(listed)
    }

    pub(super) fn is_full(&self) -> bool {
        self.window()
            .is_some_and(|window| self.meter.is_full(&self.history, self.overhead(), window))
    }

    /// The characters that come with every request.
    fn overhead(&self) -> usize {
        let tools = self.ready.iter().flat_map(|ready| &ready.tools);
        self.system.len()
            + tools
                .map(|t| t.description.len() + t.parameters.get().len())
                .sum::<usize>()
    }

    /// Shortens old tool results. True when there was something to shorten.
    pub(super) fn shorten(&mut self, out: &mut Outbox) -> bool {
        let Some((count, bytes)) = context::shorten(&mut self.history) else {
            return false;
        };
        let message = format!(
            "The context is nearly full: {count} old tool results were shortened by {bytes} bytes."
        );
        out.notice(Level::Info, codes::SHORTENED, message);
        true
    }

    /// Asks for a summary of what is old. True when the next answer must wait for it.
    pub(super) fn summarise(&mut self, out: &mut Outbox) -> bool {
        // Where the window is not known, the server has just said that the conversation is too long for it.
        let window = self
            .window()
            .unwrap_or_else(|| self.meter.tokens(&self.history).max(2));
        let Some(cut) = context::cut(&self.history, window) else {
            return false;
        };
        self.turn.summarised = Some(self.turn.steps);
        let question = context::question(&self.history, cut, window);
        self.phase = Phase::Summarising(Box::new(self.reply(Audience::Nobody)), cut);
        self.order_call(&[Message::User(question)], false, out);
        true
    }

    pub(super) fn summarised(&mut self, cut: usize, reply: Reply, out: &mut Outbox) {
        let refused = reply.refused || reply.finish.as_deref() == Some("content_filter");
        let (summary, _) = reply.into_parts();
        if refused || summary.trim().is_empty() {
            // Without a summary nothing is taken away: better a conversation that is too long than one that lost its task.
            let message = "The context is nearly full, and the model gave no summary of it; the conversation stays as it is.";
            out.notice(Level::Warning, "context_not_summarised", message);
        } else {
            context::replace(&mut self.history, cut, &summary);
            self.meter.forget();
            let message = format!(
                "The context is nearly full: the first {cut} messages were replaced by a summary."
            );
            // Whoever rebuilds the conversation needs it too.
            let raw = Some(RawJson::of(&Summary {
                replaced: cut,
                summary,
            }));
            out.event(Notice {
                raw,
                ..Notice::new(Level::Info, codes::SUMMARISED, message)
            });
        }
        match self.stop() {
            Some(outcome) => self.end(outcome, None, out),
            None => {
                self.tell_usage(out);
                self.ask(out);
            }
        }
    }

    /// The server says that the conversation is too long: first old tool results go, then old messages.
    pub(super) fn squeeze(&mut self, failed: &Failed, out: &mut Outbox) {
        self.turn.steps -= 1; // nothing was said in it
        if self.turn.squeezed == Squeezed::Not {
            self.turn.squeezed = Squeezed::Shortened;
            if self.shorten(out) {
                return self.ask(out);
            }
        }
        self.turn.squeezed = Squeezed::Summarised;
        if !self.summarise(out) {
            self.end(blame::of_failure(failed), None, out);
        }
    }
}
