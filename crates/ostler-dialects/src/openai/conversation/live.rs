//! What the caller says while a turn is under way: a message for it, another model.

use ostler_core::dialect::{Change, FromConversation, Outbox};
use ostler_core::event::Level;
use ostler_core::spec::{Kind, keys};

use super::{ModelConversation, Phase};
use crate::openai::history::Message;
use crate::openai::rebuild::codes;

impl ModelConversation {
    /// A message for the turn that is under way. It waits for the next request: the answer to the last one cannot know it.
    pub(super) fn steer(&mut self, text: String, out: &mut Outbox) {
        self.steered.push(text);
        if matches!(self.phase, Phase::Idle) {
            self.keep_steered(out);
        }
    }

    /// Puts the messages that came in between into the next request.
    pub(super) fn take_steered(&mut self, out: &mut Outbox) {
        if self.move_steered() {
            out.notice(
                Level::Info,
                codes::STEER_TAKEN,
                "The model is told what came in between.",
            );
        }
    }

    /// The turn is over and the messages were in no request: they stay for the next turn.
    pub(super) fn keep_steered(&mut self, out: &mut Outbox) {
        if self.move_steered() {
            let message =
                "A message came too late for this turn: the model is told it with the next one.";
            out.notice(Level::Warning, "steer_kept", message);
        }
    }

    fn move_steered(&mut self) -> bool {
        let any = !self.steered.is_empty();
        self.history
            .0
            .extend(self.steered.drain(..).map(Message::User));
        any
    }

    /// The model has answered and would end the turn, but has not been told everything.
    pub(super) fn go_on(&mut self, text: String, out: &mut Outbox) {
        if let Some(outcome) = self.stop() {
            return self.end(outcome, Some(text), out);
        }
        self.tell_usage(out);
        self.ask(out);
    }

    pub(super) fn change(&mut self, id: u64, change: Change, out: &mut Outbox) {
        let error = match change {
            Change::Model(model) if self.plan.set_model => {
                let wrong = Kind::Word
                    .check(keys::MODEL, std::slice::from_ref(&model))
                    .err();
                if wrong.is_none() {
                    self.model = Some(model);
                }
                wrong.map(|error| error.to_string())
            }
            other => Some(format!(
                "{} cannot do that ({})",
                self.plan.agent,
                other.request()
            )),
        };
        out.push(FromConversation::Changed { id, error });
    }

    /// The model that is asked from now on.
    pub(super) fn model(&self) -> &str {
        let first = self.ready.as_ref().map(|ready| ready.model.as_str());
        self.model.as_deref().or(first).unwrap_or_default()
    }

    /// Whether a model is the one that the conversation began with: what the settings say of price and window is about it.
    pub(super) fn is_first(&self, model: &str) -> bool {
        self.ready.as_ref().is_none_or(|ready| ready.model == model)
    }
}
