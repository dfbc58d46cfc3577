//! Steering and model changes during a turn.

use ostler_core::dialect::{Change, FromConversation, Outbox};
use ostler_core::event::{Level, NoticeCode};
use ostler_core::spec::{ValueKind, keys};

use super::{ModelConversation, Phase};
use crate::history::Entry;

impl ModelConversation {
    /// Adds a message for the current turn. It goes into the next request, because the pending
    /// answer cannot take it into account.
    pub(super) fn steer(&mut self, text: String, out: &mut Outbox) {
        self.steered.push(text);
        if matches!(self.phase, Phase::Idle) {
            self.defer_steered(out);
        }
    }

    /// Adds the steering messages to the next request.
    pub(super) fn take_steered(&mut self, out: &mut Outbox) {
        if self.move_steered() {
            out.notice(
                Level::Info,
                NoticeCode::SteerTaken,
                "The model receives the messages sent in the meantime.",
            );
        }
    }

    /// Keeps messages that were in no request for the next turn.
    pub(super) fn defer_steered(&mut self, out: &mut Outbox) {
        if self.move_steered() {
            let message =
                "A message came too late for this turn; the model receives it with the next one.";
            out.warn(NoticeCode::SteerKept, message);
        }
    }

    fn move_steered(&mut self) -> bool {
        let any = !self.steered.is_empty();
        self.history
            .0
            .extend(self.steered.drain(..).map(Entry::User));
        any
    }

    pub(super) fn change(&mut self, id: u64, change: Change, out: &mut Outbox) {
        let error = match change {
            Change::Model(model) if self.config.set_model => {
                let wrong = ValueKind::Word
                    .check(keys::MODEL, std::slice::from_ref(&model))
                    .err();
                if wrong.is_none() {
                    self.model = Some(model);
                }
                wrong.map(|error| error.to_string())
            }
            other => Some(format!(
                "{} cannot do that ({})",
                self.config.agent,
                other.request()
            )),
        };
        out.push(FromConversation::Changed { id, error });
    }

    /// Returns the model for further requests.
    pub(super) fn model(&self) -> &str {
        let first = self.ready.as_ref().map(|ready| ready.model.as_str());
        self.model.as_deref().or(first).unwrap_or_default()
    }

    /// Returns true if this is the initial model. The price and context window in the settings
    /// apply to it.
    pub(super) fn is_first(&self, model: &str) -> bool {
        self.ready.as_ref().is_none_or(|ready| ready.model == model)
    }
}
