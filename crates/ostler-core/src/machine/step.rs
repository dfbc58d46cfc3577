//! Step context: the time of one input, and the effects that it causes.

use std::time::Duration;

use super::Effect;

/// The current step of the machine.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// When the input arrived.
    pub(super) now: Duration,
    /// Effects to perform, in order.
    pub(super) effects: Vec<Effect>,
}

impl Step {
    /// Appends an effect.
    pub(super) fn push(&mut self, effect: impl Into<Effect>) {
        self.effects.push(effect.into());
    }

    /// Returns the moment at which `wait` will have passed.
    pub(super) fn after(&self, wait: Duration) -> Duration {
        self.now.saturating_add(wait)
    }
}
